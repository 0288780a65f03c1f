//! The size of a context by its provider's count: the last report, what came since, and the ratio of its
//! counts to ours.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::scale::Ratio;
use crate::{ModelRef, Scale, Tokens, Usage};

/// The measure of providers' counts for one conversation; saved with it.
///
/// A call's usage tells the size of its prompt for the provider, beside our count of the same prompt. The two
/// give a ratio, which holds for later messages, and for this model from then on. Ratios are kept between a
/// half and twice, so that no provider's odd figure can do more than that; the part of a prompt beyond twice
/// our count is a surplus of that very prompt and counts only until the next compaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measure {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reported: Option<Reported>,
    /// The latest ratio of each model, by `provider:model`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    ratios: BTreeMap<String, Ratio>,
}

/// The last usable report of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Reported {
    model: ModelRef,
    surplus: Tokens,
    /// The number of compactions of the conversation by then.
    n_compactions: usize,
}

/// Prompts with fewer tokens by our count give no ratio: what every request costs would pass for one. Figures
/// below it say nothing at all.
const LEAST_EVIDENCE: Tokens = Tokens::new(1_000);

impl Measure {
    /// Takes in that `model` called a prompt `usage.prompt_tokens` for which we counted `counted`, tool
    /// schemas included, after `n_compactions` compactions. A figure below half of our count is not believed:
    /// servers report none, or only what their cache did not have.
    pub fn report(&mut self, model: &ModelRef, counted: Tokens, usage: Usage, n_compactions: usize) {
        let said = usage.prompt_tokens;
        if said.max(counted) < LEAST_EVIDENCE || said < counted.share(1, 2) {
            return;
        }
        let name = model.to_string();
        if counted >= LEAST_EVIDENCE {
            self.ratios.insert(name.clone(), Ratio::of(said, counted));
        }
        // A small tokenizer makes a prompt out of few of our tokens that fills a small window.
        let ratio = self.ratios.get(&name).copied().unwrap_or_default();
        let surplus = said - Scale::new(ratio, Tokens::ZERO).measured(counted);
        self.reported = Some(Reported { model: model.clone(), surplus, n_compactions });
    }

    /// Drops what `model` reported.
    pub fn forget(&mut self, model: &ModelRef) {
        self.ratios.remove(&model.to_string());
        if self.reported.as_ref().is_some_and(|last| last.model == *model) {
            self.reported = None;
        }
    }

    /// Returns the scale by which `model` counts a conversation that was compacted `n_compactions` times.
    pub fn scale(&self, model: &ModelRef, n_compactions: usize) -> Scale {
        if self.ratios.is_empty() && self.reported.is_none() {
            return Scale::SAME;
        }
        let ratio = self.ratios.get(&model.to_string()).copied().unwrap_or_default();
        let fresh = self.reported.as_ref();
        let fresh = fresh.filter(|last| last.n_compactions == n_compactions && last.model == *model);
        Scale::new(ratio, fresh.map_or(Tokens::ZERO, |last| last.surplus))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::{ModelId, ProviderId};

    fn model(name: &str) -> ModelRef {
        ModelRef { provider: ProviderId::new("p").unwrap(), model: ModelId::new(name).unwrap() }
    }

    fn prompt(tokens: u64) -> Usage {
        Usage { prompt_tokens: Tokens::new(tokens), ..Usage::default() }
    }

    #[test]
    fn a_figure_gives_a_ratio_within_bounds() {
        for (counted, said, of_counted, of_5000) in [
            // The figure itself, and what comes since in its ratio.
            (2_000, 2_000, 2_000, 5_000),
            (2_000, 2_500, 2_500, 6_250),
            (2_000, 1_500, 1_500, 3_750),
            (2_000, 1_000, 1_000, 2_500),
            (2_000, 4_000, 4_000, 10_000),
            // Beyond twice: still the figure, but what comes since counts twice.
            (2_000, 5_000, 5_000, 11_000),
            // Not believed, or no evidence.
            (2_000, 999, 2_000, 5_000),
            (2_000, 0, 2_000, 5_000),
            (600, 999, 600, 5_000),
            // Too few of our tokens for a ratio: the figure, and what comes since as we count it.
            (999, 1_500, 1_500, 5_501),
            (600, 3_800, 3_800, 8_200),
        ] {
            let mut measure = Measure::default();
            measure.report(&model("m"), Tokens::new(counted), prompt(said), 0);
            let scale = measure.scale(&model("m"), 0);
            let actual = [counted, 5_000].map(|ours| scale.measured(Tokens::new(ours)).as_u64());
            assert_eq!(actual, [of_counted, of_5000], "{counted} {said}");
        }
    }

    #[test]
    fn a_figure_older_than_the_last_compaction_counts_for_nothing_but_its_ratio() {
        let mut measure = Measure::default();
        measure.report(&model("m"), Tokens::new(2_000), prompt(5_000), 1);
        let of_2000 = |measure: &Measure, name: &str, n_compactions: usize| {
            measure.scale(&model(name), n_compactions).measured(Tokens::new(2_000)).as_u64()
        };
        assert_eq!(of_2000(&measure, "m", 1), 5_000, "fresh");
        assert_eq!(of_2000(&measure, "m", 2), 4_000, "stale: the bounded ratio is left");
        assert_eq!(of_2000(&measure, "other", 1), 2_000, "another model counts in another way");
        measure.report(&model("other"), Tokens::new(2_000), prompt(2_200), 2);
        assert_eq!([of_2000(&measure, "m", 2), of_2000(&measure, "other", 2)], [4_000, 2_200]);
        measure.forget(&model("m"));
        assert_eq!([of_2000(&measure, "m", 2), of_2000(&measure, "other", 2)], [2_000, 2_200]);
    }

    #[test]
    fn our_count_for_theirs_never_measures_more() {
        for said in [1_000, 1_003, 1_777, 2_000, 2_718, 3_999, 4_001, 9_000] {
            let mut measure = Measure::default();
            measure.report(&model("m"), Tokens::new(2_000), prompt(said), 0);
            let scale = measure.scale(&model("m"), 0);
            for theirs in [9_500, 10_001, 77_777, 128_000] {
                let ours = scale.ours(Tokens::new(theirs));
                assert!(scale.measured(ours) <= Tokens::new(theirs), "{said} {theirs}");
                assert!(scale.measured(ours + Tokens::new(3)) > Tokens::new(theirs), "{said} {theirs}");
            }
        }
    }

    #[test]
    fn it_is_saved_and_read_again() {
        let mut measure = Measure::default();
        assert_eq!(serde_json::to_string(&measure).unwrap(), "{}");
        measure.report(&model("m"), Tokens::new(2_000), prompt(5_000), 3);
        let text = serde_json::to_string(&measure).unwrap();
        assert_eq!(serde_json::from_str::<Measure>(&text).unwrap(), measure);
    }
}
