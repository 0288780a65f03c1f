//! A provider's counts in terms of ours.

use serde::{Deserialize, Serialize};

use crate::Tokens;

/// A provider's counts in terms of ours: a ratio, and a surplus that every prompt has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    ratio: Ratio,
    surplus: Tokens,
}

impl Scale {
    /// Creates the scale of a `ratio` and a `surplus`.
    pub(crate) const fn new(ratio: Ratio, surplus: Tokens) -> Self {
        Self { ratio, surplus }
    }

    /// The provider counts as we do, or has not reported anything yet.
    pub const SAME: Self = Self { ratio: Ratio::ONE, surplus: Tokens::ZERO };

    /// Returns the scale without its surplus, which ends with the next compaction.
    pub const fn lasting(self) -> Self {
        Self { surplus: Tokens::ZERO, ..self }
    }

    /// Converts our count to the provider's, rounded up.
    pub const fn measured(self, ours: Tokens) -> Tokens {
        let scaled = (ours.as_u64() as u128 * self.ratio.0 as u128).div_ceil(Ratio::ONE.0 as u128);
        Tokens::new((scaled as u64).saturating_add(self.surplus.as_u64()))
    }

    /// Returns the most tokens by our count for the provider to count no more than `theirs`.
    pub const fn ours(self, theirs: Tokens) -> Tokens {
        theirs.saturating_sub(self.surplus).share(Ratio::ONE.0, self.ratio.0)
    }
}

/// The provider's tokens for ours, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "u64", into = "u64")]
pub(crate) struct Ratio(u64);

impl Ratio {
    const ONE: Self = Self(1_000);
    const LEAST: Self = Self(500);
    const MOST: Self = Self(2_000);

    /// Returns the ratio of the provider's count to ours, kept between a half and twice.
    pub(crate) fn of(theirs: Tokens, ours: Tokens) -> Self {
        let exact = theirs.as_u64().saturating_mul(Self::ONE.0).div_ceil(ours.as_u64().max(1));
        Self::from(exact)
    }
}

/// A ratio from a file is limited as well.
impl From<u64> for Ratio {
    fn from(thousandths: u64) -> Self {
        Self(thousandths.clamp(Self::LEAST.0, Self::MOST.0))
    }
}

impl From<Ratio> for u64 {
    fn from(ratio: Ratio) -> Self {
        ratio.0
    }
}

impl Default for Ratio {
    fn default() -> Self {
        Self::ONE
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_stored_ratio_is_bounded() {
        for (stored, expected) in [("0", 500), ("1250", 1_250), ("18446744073709551615", 2_000)] {
            let ratio: Ratio = serde_json::from_str(stored).unwrap();
            assert_eq!(serde_json::to_string(&ratio).unwrap(), expected.to_string());
        }
    }
}
