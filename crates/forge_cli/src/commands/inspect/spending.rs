//! The consumption of a session's calls, as far as its agent recorded it.

use std::collections::BTreeMap;

use forge_domain::{Cost, Dollars, ModelConfig, ModelId, Price, Usage};
use forge_services::workflow::{Layers, load};
use forge_transcript::{RecordedCall, RecordedTotal};
use serde::Serialize;

/// The consumption of a session's calls.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Spending {
    /// The calls whose tokens were recorded.
    pub(super) calls: usize,
    /// Those of sub-agents among them.
    pub(super) asides: usize,
    pub(super) usage: Usage,
    pub(super) cost: Cost,
    /// True if some cost was not recorded and is that of the list prices.
    pub(super) is_estimate: bool,
    /// The share of each model, the most expensive first.
    pub(super) models: Vec<ModelShare>,
}

/// The share of a model.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct ModelShare {
    /// Its name; empty if the record has none.
    pub(super) model: String,
    pub(super) calls: usize,
    pub(super) usage: Usage,
    pub(super) cost: Cost,
}

impl Spending {
    /// Returns what is known of all calls together.
    pub(super) fn of_total(total: &RecordedTotal) -> Self {
        let calls = total.n_calls.get();
        let mut spending = Self::of_calls(std::slice::from_ref(&total.sum));
        spending.calls = calls;
        spending.models.iter_mut().for_each(|share| share.calls = calls);
        spending
    }

    /// Adds up `calls`; `None` if there are none.
    pub(super) fn of(calls: &[RecordedCall]) -> Option<Self> {
        (!calls.is_empty()).then(|| Self::of_calls(calls))
    }

    fn of_calls(calls: &[RecordedCall]) -> Self {
        let known = load(&Layers::default()).map(|workflow| workflow.models).unwrap_or_default();
        let mut prices: BTreeMap<&str, Option<Price>> = BTreeMap::new();
        let mut models: BTreeMap<&str, ModelShare> = BTreeMap::new();
        let mut is_estimate = false;
        for call in calls {
            let name = call.model.as_deref().unwrap_or_default();
            let price = *prices.entry(name).or_insert_with(|| price_of(name, &known));
            let cost = match call.dollars {
                Some(dollars) => Cost { dollars, unpriced_calls: 0 },
                None => Cost::of_call(price.as_ref(), Some(call.usage)),
            };
            is_estimate |= call.dollars.is_none() && cost.dollars > Dollars::ZERO;
            let share = models.entry(name).or_insert_with(|| ModelShare {
                model: name.to_owned(),
                calls: 0,
                usage: Usage::default(),
                cost: Cost::default(),
            });
            share.calls += 1;
            share.usage += call.usage;
            share.cost += cost;
        }
        let mut models: Vec<ModelShare> = models.into_values().collect();
        models.sort_by(|one, other| {
            let figures = |share: &ModelShare| (share.cost.dollars, share.usage.prompt_tokens);
            figures(other).cmp(&figures(one)).then_with(|| one.model.cmp(&other.model))
        });
        let (mut usage, mut cost) = (Usage::default(), Cost::default());
        for share in &models {
            usage += share.usage;
            cost += share.cost;
        }
        let asides = calls.iter().filter(|call| call.is_aside).count();
        Self { calls: calls.len(), asides, usage, cost, is_estimate, models }
    }
}

/// Returns the list price of a model under the name that a recording has:
/// `anthropic/claude-sonnet-4-5-20250929`.
fn price_of(name: &str, known: &BTreeMap<ModelId, ModelConfig>) -> Option<Price> {
    let bare = name.rsplit('/').next().unwrap_or(name);
    let undated = undated(bare);
    let config = [name, bare, undated].into_iter().find_map(|name| known.get(&ModelId::new(name).ok()?))?;
    config.price
}

/// Returns the name without the day at its end: `-20250929`, or `-2025-09-29`.
fn undated(name: &str) -> &str {
    let end = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '-');
    let n_digits = name[end.len()..].bytes().filter(u8::is_ascii_digit).count();
    // A version may end in digits as well: `claude-opus-4-1-20250805`.
    match name.len().checked_sub("-2025-09-29".len()).filter(|_| n_digits >= 8) {
        Some(start)
            if name.is_char_boundary(start)
                && name[start..].matches('-').count() == 3
                && name[start..].starts_with('-') =>
        {
            &name[..start]
        }
        _ if n_digits >= 8 => name.rsplit_once('-').map_or(name, |(name, _)| name),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use forge_domain::Tokens;
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_day_is_no_part_of_a_name() {
        for (name, expected) in [
            ("gpt-5", "gpt-5"),
            ("gpt-5-2025-08-07", "gpt-5"),
            ("claude-opus-4-1-20250805", "claude-opus-4-1"),
            ("claude-sonnet-4-20250514", "claude-sonnet-4"),
            ("12345678", "12345678"),
            ("é-20250805", "é"),
            ("", ""),
        ] {
            assert_eq!(undated(name), expected);
        }
    }

    #[test]
    fn recorded_costs_count_and_others_are_estimated() {
        let call = |model: &str, dollars: Option<f64>| RecordedCall {
            record: 0,
            model: Some(model.into()),
            usage: Usage { prompt_tokens: Tokens::new(1_000_000), ..Usage::default() },
            dollars: dollars.and_then(Dollars::new),
            is_aside: false,
        };
        let price = price_of("gpt-5", &load(&Layers::default()).unwrap().models).unwrap();
        let spending = |calls: &[RecordedCall]| {
            let spending = Spending::of(calls).unwrap();
            (spending.cost.dollars, spending.cost.unpriced_calls, spending.is_estimate)
        };
        let half = Dollars::new(0.5).unwrap();
        assert_eq!(spending(&[call("x", Some(0.5))]), (half, 0, false));
        assert_eq!(spending(&[call("openai/gpt-5-20250807", None)]), (price.input, 0, true));
        assert_eq!(spending(&[call("x", Some(0.5)), call("nobody-knows", None)]), (half, 1, false));
        assert_eq!(Spending::of(&[]), None);
    }
}
