//! The units that cross functions: tokens, percentages, and a limit given in either.

use std::borrow::Cow;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of tokens, as the workspace's token counter counts them.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Tokens(u64);

impl Tokens {
    /// No tokens.
    pub const ZERO: Self = Self(0);
    /// More tokens than any context has, which means "no limit".
    pub const MAX: Self = Self(u64::MAX);

    /// Makes a count of `n` tokens.
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// Returns the plain number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Returns the difference, or zero if `other` is larger.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns `numerator / denominator` of this count, rounded down.
    pub const fn share(self, numerator: u64, denominator: u64) -> Self {
        Self((self.0 as u128 * numerator as u128 / denominator as u128) as u64)
    }
}

impl Add for Tokens {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Tokens {
    type Output = Self;
    /// Saturates at zero: a count is never negative.
    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl Sum for Tokens {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A share between 1 % and 100 %, written `80%` in YAML.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(u8);

impl Percent {
    /// Makes a percentage; `None` outside 1..=100.
    pub const fn new(percent: u8) -> Option<Self> {
        if percent >= 1 && percent <= 100 { Some(Self(percent)) } else { None }
    }

    /// Returns this share of `whole`, rounded down.
    pub const fn of(self, whole: Tokens) -> Tokens {
        whole.share(self.0 as u64, 100)
    }

    /// Checks whether `part` is at least this share of `whole`.
    pub const fn reached_by(self, part: u64, whole: u64) -> bool {
        part as u128 * 100 >= whole as u128 * self.0 as u128
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

/// A text that is not a percentage between `1%` and `100%`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid percentage '{0}' (expected a whole number from 1% to 100%)")]
pub struct PercentError(String);

impl FromStr for Percent {
    type Err = PercentError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.trim()
            .strip_suffix('%')
            .and_then(|number| number.trim_end().parse().ok())
            .and_then(Self::new)
            .ok_or_else(|| PercentError(text.to_owned()))
    }
}

impl TryFrom<String> for Percent {
    type Error = PercentError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl Serialize for Percent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PercentVisitor;
        impl Visitor<'_> for PercentVisitor {
            type Value = Percent;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a percentage such as 20%")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Percent, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Percent, E> {
                Err(E::custom(PercentError(number.to_string())))
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Percent, E> {
                Err(E::custom(PercentError(number.to_string())))
            }
        }
        deserializer.deserialize_any(PercentVisitor)
    }
}

/// A percentage as a schema's pattern, without anchors.
const PERCENT_PATTERN: &str = r"\s*\+?0*([1-9][0-9]?|100)\s*%\s*";

impl JsonSchema for Percent {
    fn schema_name() -> Cow<'static, str> {
        "Percent".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": format!("^{PERCENT_PATTERN}$") })
    }
}

/// A limit for tokens: a number of them, or a percentage of the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenLimit {
    /// That many tokens.
    Tokens(Tokens),
    /// That share of the room (window − output reserve − tool schemas).
    Percent(Percent),
}

impl TokenLimit {
    /// Returns the limit in tokens in a room of `room` tokens.
    pub const fn within(self, room: Tokens) -> Tokens {
        match self {
            Self::Tokens(tokens) => tokens,
            Self::Percent(percent) => percent.of(room),
        }
    }
}

impl Serialize for TokenLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Tokens(tokens) => tokens.serialize(serializer),
            Self::Percent(percent) => percent.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for TokenLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LimitVisitor;
        impl Visitor<'_> for LimitVisitor {
            type Value = TokenLimit;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of tokens such as 6000, or a percentage of the room such as 80%")
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<TokenLimit, E> {
                match number {
                    0 => Err(E::custom("a token limit must be at least 1")),
                    number => Ok(TokenLimit::Tokens(Tokens::new(number))),
                }
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<TokenLimit, E> {
                u64::try_from(number)
                    .map_err(|_| E::custom(format!("invalid token limit {number} (expected at least 1)")))
                    .and_then(|number| self.visit_u64(number))
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<TokenLimit, E> {
                Err(E::custom(format!(
                    "invalid number of tokens {number} (expected a whole number; for a share write 80%)"
                )))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<TokenLimit, E> {
                match text.trim().parse::<u64>() {
                    Ok(number) => self.visit_u64(number),
                    Err(_) => text.parse().map(TokenLimit::Percent).map_err(|_: PercentError| {
                        E::custom(format!(
                            "invalid limit '{text}' (expected a number of tokens, or a percentage from 1% \
                             to 100%)"
                        ))
                    }),
                }
            }
        }
        deserializer.deserialize_any(LimitVisitor)
    }
}

impl JsonSchema for TokenLimit {
    fn schema_name() -> Cow<'static, str> {
        "TokenLimit".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let number_or_share = format!(r"^({PERCENT_PATTERN}|\s*\+?0*[1-9][0-9]*\s*)$");
        json_schema!({ "type": ["integer", "string"], "minimum": 1, "pattern": number_or_share })
    }
}

impl fmt::Display for TokenLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tokens(tokens) => fmt::Display::fmt(tokens, f),
            Self::Percent(percent) => fmt::Display::fmt(percent, f),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_percentage_is_one_to_a_hundred_with_its_sign() {
        for (text, expected) in [
            ("80%", Some(80)),
            (" 20 % ", Some(20)),
            ("100%", Some(100)),
            ("1%", Some(1)),
            ("0%", None),
            ("101%", None),
            ("80", None),
            ("0.8", None),
            ("-5%", None),
        ] {
            assert_eq!(text.parse().ok(), expected.and_then(Percent::new), "{text}");
        }
    }

    #[test]
    fn a_limit_is_tokens_or_a_share_of_the_room() {
        let room = Tokens::new(1_000);
        for (yaml, expected) in [
            ("6000", Some(6_000)),
            ("80%", Some(800)),
            ("'80%'", Some(800)),
            ("0", None),
            ("-3", None),
            ("0.8", None),
            ("lots", None),
        ] {
            let actual =
                serde_saphyr::from_str::<TokenLimit>(yaml).ok().map(|limit| limit.within(room).as_u64());
            assert_eq!(actual, expected, "{yaml}");
        }
    }

    #[test]
    fn a_share_is_reached_from_its_exact_value_on() {
        let fifth = Percent::new(20).unwrap();
        for (part, whole, expected) in [(20, 100, true), (19, 100, false), (1, 5, true), (0, 0, true)] {
            assert_eq!(fifth.reached_by(part, whole), expected, "{part} of {whole}");
        }
    }
}
