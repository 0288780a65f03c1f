//! Money: what tokens cost, what calls cost, and how much a run may spend.

use std::fmt;
use std::ops::{Add, AddAssign};

use jiff::civil::Date;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::{Tokens, Usage, quantity};

/// An amount of US dollars, exact to a millionth of a millionth, so that a price for a million tokens given
/// in whole millionths of a dollar is one for a single token as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema)]
#[serde(try_from = "f64")]
#[schemars(inline, with = "f64", extend("minimum" = 0))]
pub struct Dollars(u64);

/// Parts of a dollar that are counted.
const PARTS: f64 = 1e12;

impl Dollars {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// Returns that many dollars; `None` below zero, and if it is not an amount.
    pub fn new(dollars: f64) -> Option<Self> {
        let parts = (dollars * PARTS).round();
        (parts >= 0.0 && parts < u64::MAX as f64).then_some(Self(parts as u64))
    }

    /// Returns the amount as a number of dollars.
    pub const fn as_f64(self) -> f64 {
        self.0 as f64 / PARTS
    }

    /// Returns the cost of `tokens` if a million of them cost this.
    const fn for_tokens(self, tokens: Tokens) -> Self {
        Self((self.0 as u128 * tokens.as_u64() as u128 / 1_000_000) as u64)
    }
}

/// A number that is not an amount of dollars.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("invalid amount of dollars {0} (expected a number from 0)")]
pub struct DollarsError(f64);

impl TryFrom<f64> for Dollars {
    type Error = DollarsError;
    fn try_from(dollars: f64) -> Result<Self, Self::Error> {
        Self::new(dollars).ok_or(DollarsError(dollars))
    }
}

impl Serialize for Dollars {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_f64())
    }
}

impl Add for Dollars {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Dollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_f64() {
            dollars if dollars >= 1.0 => write!(f, "${dollars:.2}"),
            dollars if dollars > 0.0 && dollars < 0.0001 => f.write_str("below $0.0001"),
            dollars => write!(f, "${dollars:.4}"),
        }
    }
}

/// The price of a million tokens of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Price of prompt tokens that are neither read from the provider's cache nor written to it.
    #[schemars(extend("examples" = [2.5]))]
    pub input: Dollars,
    /// Price of reply tokens.
    #[schemars(extend("examples" = [10]))]
    pub output: Dollars,
    /// Price of prompt tokens that are read from the cache. Unset: as `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [1.25]))]
    pub cache_read: Option<Dollars>,
    /// Price of prompt tokens that are written to the cache. Unset: as `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [3.75]))]
    pub cache_write: Option<Dollars>,
    /// Price of a whole call with a long prompt. Unset: the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [{"above": 200_000, "input": 5, "output": 15}]))]
    pub long_prompt: Option<LongPromptPrice>,
    /// Day of the price. Unset: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "Option<String>",
        extend("pattern" = "^[0-9]{4}-?[0-9]{2}-?[0-9]{2}", "examples" = ["2026-11-21"])
    )]
    pub as_of: Option<Date>,
}

/// The price of a million tokens in calls with a long prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LongPromptPrice {
    /// Number of tokens above which a prompt is long.
    #[schemars(extend("examples" = [200_000]))]
    pub above: Tokens,
    /// As in `price`.
    #[schemars(extend("examples" = [5]))]
    pub input: Dollars,
    /// As in `price`.
    #[schemars(extend("examples" = [15]))]
    pub output: Dollars,
    /// As in `price`. Unset: as the `input` beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [2.5]))]
    pub cache_read: Option<Dollars>,
    /// As in `price`. Unset: as the `input` beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [7.5]))]
    pub cache_write: Option<Dollars>,
}

/// The rates for each kind of token of one call.
struct Rates {
    plain: Dollars,
    cache_read: Dollars,
    cache_write: Dollars,
    output: Dollars,
}

impl Price {
    /// Returns the cost of `usage`.
    pub fn of(&self, usage: Usage) -> Dollars {
        let cached = usage.cached_tokens.min(usage.prompt_tokens);
        let written = usage.cache_written_tokens.min(usage.prompt_tokens - cached);
        let plain = usage.prompt_tokens - cached - written;
        let rates = self.rates(usage.prompt_tokens);
        rates.plain.for_tokens(plain)
            + rates.cache_read.for_tokens(cached)
            + rates.cache_write.for_tokens(written)
            + rates.output.for_tokens(usage.completion_tokens)
    }

    /// Returns the least cost of a prompt of `tokens`: all of it is in the cache, and there is no reply.
    pub fn least_of(&self, tokens: Tokens) -> Dollars {
        let rates = self.rates(tokens);
        rates.cache_read.min(rates.plain).for_tokens(tokens)
    }

    fn rates(&self, prompt: Tokens) -> Rates {
        let (input, output, cache_read, cache_write) = match self.long_prompt {
            Some(long) if prompt > long.above => (long.input, long.output, long.cache_read, long.cache_write),
            _ => (self.input, self.output, self.cache_read, self.cache_write),
        };
        Rates {
            plain: input,
            cache_read: cache_read.unwrap_or(input),
            cache_write: cache_write.unwrap_or(input),
            output,
        }
    }
}

/// The cost of calls, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// The sum of the calls whose price is known.
    pub dollars: Dollars,
    /// Calls of models with an unknown price, or for which the provider reported no usage.
    pub unpriced_calls: usize,
}

impl Cost {
    /// Returns the cost of one call.
    pub fn of_call(price: Option<&Price>, usage: Option<Usage>) -> Self {
        match price.zip(usage) {
            Some((price, usage)) => Self { dollars: price.of(usage), unpriced_calls: 0 },
            None => Self { dollars: Dollars::ZERO, unpriced_calls: 1 },
        }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.dollars = self.dollars + other.dollars;
        self.unpriced_calls += other.unpriced_calls;
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.unpriced_calls, self.dollars) {
            (0, dollars) => dollars.fmt(f),
            (_, Dollars::ZERO) => f.write_str("cost not known"),
            (n, dollars) => write!(f, "{dollars} and {} of unknown cost", quantity(n, "call")),
        }
    }
}

/// The consumption of a run, or of an agent within it: its calls and those for summaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Tokens of prompts and answers.
    pub tokens: Tokens,
    /// The cost of these calls.
    pub cost: Cost,
}

impl Spent {
    /// Checks whether nothing was consumed.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.cost += other.cost;
    }
}

/// The spending limits of a run or an agent: `budget` in YAML. (In code, a `Budget` is the room of one
/// prompt.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Allowance {
    /// Most tokens of prompts and replies together, including those of summaries. Unset: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [2_000_000]))]
    pub tokens: Option<Tokens>,
    /// Most US dollars, by the models' prices. Unset: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [5]))]
    pub cost: Option<Dollars>,
}

/// A budget that the next call would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Overspend {
    /// That of tokens.
    #[error(
        "the budget of {limit} tokens is too small for the next call: {spent} are spent and the next prompt \
         has {next}; to continue, raise `budget: {{ tokens: ... }}` or --budget-tokens"
    )]
    Tokens {
        /// Spent so far.
        spent: Tokens,
        /// The least cost of the next call.
        next: Tokens,
        /// The limit.
        limit: Tokens,
    },
    /// That of money.
    #[error(
        "the budget of {limit} is too small for the next call: {spent} is spent and the next prompt costs at \
         least {next}; to continue, raise `budget: {{ cost: ... }}` or --budget-cost"
    )]
    Cost {
        /// Spent so far.
        spent: Dollars,
        /// The least that the next call costs.
        next: Dollars,
        /// The limit.
        limit: Dollars,
    },
}

/// Returns the smaller of two limits, one of which may not be there.
fn stricter<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

impl Price {
    /// Checks whether no kind of token costs less than by `other`.
    pub fn is_at_least(&self, other: &Self) -> bool {
        let prompts = [self.long_prompt, other.long_prompt].into_iter().flatten();
        // Prices change at the bounds of long prompts alone.
        let lengths =
            prompts.flat_map(|long| [long.above, Tokens::new(long.above.as_u64().saturating_add(1))]);
        lengths.chain([Tokens::ZERO, Tokens::new(u64::MAX)]).all(|length| {
            let (own, least) = (self.rates(length), other.rates(length));
            own.plain >= least.plain
                && own.cache_read >= least.cache_read
                && own.cache_write >= least.cache_write
                && own.output >= least.output
        })
    }
}

impl Allowance {
    /// Combines both; the limits of `other` win if it has them.
    #[must_use]
    pub fn overridden_by(self, other: Self) -> Self {
        Self { tokens: other.tokens.or(self.tokens), cost: other.cost.or(self.cost) }
    }

    /// Returns the stricter of each of the two limits.
    #[must_use]
    pub fn bounded_by(self, other: Self) -> Self {
        Self { tokens: stricter(self.tokens, other.tokens), cost: stricter(self.cost, other.cost) }
    }

    /// Returns the reason why a call whose prompt has `prompt` tokens, of a model of that price, exceeds the
    /// budget.
    pub fn overspent(&self, spent: Spent, prompt: Tokens, price: Option<&Price>) -> Option<Overspend> {
        let tokens = self.tokens.filter(|limit| spent.tokens + prompt > *limit);
        let tokens = tokens.map(|limit| Overspend::Tokens { spent: spent.tokens, next: prompt, limit });
        let next = price.map_or(Dollars::ZERO, |price| price.least_of(prompt));
        let spent = spent.cost.dollars;
        let cost = self.cost.filter(|limit| spent + next > *limit);
        tokens.or_else(|| cost.map(|limit| Overspend::Cost { spent, next, limit }))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn dollars(amount: f64) -> Dollars {
        Dollars::new(amount).unwrap()
    }

    fn price(yaml: &str) -> Price {
        serde_saphyr::from_str(yaml).unwrap()
    }

    #[test]
    fn an_amount_is_a_number_from_zero() {
        for (yaml, expected) in [
            ("2.5", Some("$2.50")),
            ("3", Some("$3.00")),
            ("0.075", Some("$0.0750")),
            ("0.00002", Some("below $0.0001")),
            ("0", Some("$0.0000")),
            ("-1", None),
            ("1e30", None),
            (".nan", None),
            ("cheap", None),
        ] {
            let actual = serde_saphyr::from_str::<Dollars>(yaml).ok().map(|amount| amount.to_string());
            assert_eq!(actual.as_deref(), expected, "{yaml}");
        }
    }

    #[test]
    fn a_call_costs_what_each_kind_of_its_tokens_costs() {
        let full = price("{ input: 3, output: 15, cache_read: 0.3, cache_write: 3.75, as_of: 2026-11-21 }");
        let plain = price("{ input: 0.15, output: 0.6 }");
        let tiered = price(
            "{ input: 1, output: 10, cache_read: 0.1, long_prompt: { above: 200000, input: 2, output: 15, cache_write: 4 } }",
        );
        for (price, [prompt, cached, written, answer], expected) in [
            (full, [1_000_000, 0, 0, 0], 3.0),
            (full, [1_000_000, 1_000_000, 0, 0], 0.3),
            (full, [1_000_000, 0, 1_000_000, 0], 3.75),
            (full, [1_000_000, 500_000, 250_000, 100_000], 0.75 + 0.15 + 0.9375 + 1.5),
            // A server that reports more than there was.
            (full, [100, 1_000_000, 1_000_000, 0], 0.000_03),
            (plain, [1_000, 400, 300, 10], 0.000_156),
            (plain, [0, 0, 0, 0], 0.0),
            // All of a call with a long prompt costs more, what is below the threshold as well.
            (tiered, [200_000, 100_000, 0, 1_000], 0.1 + 0.01 + 0.01),
            (tiered, [200_001, 0, 0, 1_000], 0.400_002 + 0.015),
            (tiered, [300_000, 100_000, 100_000, 0], 0.2 + 0.2 + 0.4),
        ] {
            let [prompt_tokens, cached_tokens, cache_written_tokens, completion_tokens] =
                [prompt, cached, written, answer].map(Tokens::new);
            let usage = Usage {
                prompt_tokens,
                completion_tokens,
                cached_tokens,
                cache_written_tokens,
                dropped_reasoning: 0,
            };
            assert_eq!(price.of(usage), dollars(expected), "{usage:?}");
        }
        let yaml = serde_json::to_string(&full).unwrap();
        assert_eq!(
            yaml,
            r#"{"input":3.0,"output":15.0,"cache_read":0.3,"cache_write":3.75,"as_of":"2026-11-21"}"#
        );
    }

    #[test]
    fn the_call_that_would_exceed_the_budget_is_not_made() {
        let price = price("{ input: 10, output: 50, cache_read: 1 }");
        let (tokens, cost) = ("{ tokens: 1000 }", "{ cost: 0.01 }");
        for (budget, spent, spent_dollars, prompt, expected) in [
            (tokens, 900, 0.0, 100, None),
            (tokens, 900, 0.0, 101, Some("900 are spent and the next prompt has 101")),
            (tokens, 1_001, 0.0, 0, Some("the budget of 1000 tokens is too small for the next call")),
            (cost, 0, 0.009, 1_000, None),
            (cost, 0, 0.009, 1_001, Some("$0.0090 is spent and the next prompt costs at least $0.0010")),
            ("{ cost: 0 }", 0, 0.0, 1, Some("the budget of $0.0000")),
            ("{}", 9, 9.0, 9, None),
        ] {
            let budget: Allowance = serde_saphyr::from_str(budget).unwrap();
            let cost = Cost { dollars: dollars(spent_dollars), unpriced_calls: 0 };
            let spent = Spent { tokens: Tokens::new(spent), cost };
            let actual = budget.overspent(spent, Tokens::new(prompt), Some(&price));
            let actual = actual.map(|over| over.to_string()).unwrap_or_default();
            assert!(actual.contains(expected.unwrap_or_default()), "{budget:?} {actual}");
            assert_eq!(actual.is_empty(), expected.is_none(), "{budget:?} {actual}");
        }
    }

    #[test]
    fn a_cost_says_what_it_does_not_know() {
        let known = Cost { dollars: dollars(0.5), unpriced_calls: 0 };
        for (cost, expected) in [
            (Cost::default(), "$0.0000"),
            (known, "$0.5000"),
            (Cost { unpriced_calls: 2, ..known }, "$0.5000 and 2 calls of unknown cost"),
            (Cost::of_call(None, Some(Usage::default())), "cost not known"),
        ] {
            assert_eq!(cost.to_string(), expected);
        }
    }
}
