//! The amount of thinking in a request, by the version of the model: older ones take a number of tokens,
//! newer ones an effort.

use forge_domain::{Effort, Prompt, Reasoning, Tokens, claude_version};
use serde_json::{Value, json};

/// The least number of thinking tokens that the protocol accepts.
const LEAST_BUDGET: Tokens = Tokens::new(1_024);
/// Tokens that are left for the reply itself.
const LEAST_REPLY: Tokens = Tokens::new(512);

/// The fields for the amount of thinking.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ThinkingFields {
    /// `thinking`.
    pub(super) field: Option<Value>,
    /// `output_config.effort`.
    pub(super) effort: Option<&'static str>,
}

impl ThinkingFields {
    /// Returns the fields for `prompt`.
    pub(super) fn of(prompt: &Prompt) -> Self {
        let options = prompt.options();
        Self::with(options.request.reasoning, options.model.model.as_str(), prompt.answer_tokens())
    }

    /// Checks whether the model is asked to think.
    pub(super) fn is_on(&self) -> bool {
        self.field.as_ref().is_some_and(|field| field["type"] != "disabled")
    }

    /// Returns the fields for a reply of at most `most` tokens, thinking included.
    fn with(reasoning: Reasoning, model: &str, most: Tokens) -> Self {
        let Some(tokens) = reasoning.thinking_tokens() else { return Self::default() };
        let version = claude_version(model);
        let takes_effort = version >= Some((4, 6));
        if reasoning.effort == Some(Effort::None) {
            // Until 4.8 a model thinks only if it is asked to.
            let field = (version >= Some((5, 0))).then(|| json!({"type": "disabled"}));
            return Self { field, effort: None };
        }
        let effort = reasoning.effort.map(effort_word);
        let takes_budget = version < Some((4, 7));
        if takes_effort && (reasoning.budget_tokens.is_none() || !takes_budget) {
            // Since 4.7 the text is left out unless it is asked for.
            let field = match (takes_budget, reasoning.is_shown()) {
                (true, _) => json!({"type": "adaptive"}),
                (false, true) => json!({"type": "adaptive", "display": "summarized"}),
                (false, false) => json!({"type": "adaptive", "display": "omitted"}),
            };
            return Self { field: Some(field), effort };
        }
        // The reply needs some of it, too.
        let budget = tokens.max(LEAST_BUDGET).min(most.saturating_sub(LEAST_REPLY));
        let field =
            (budget >= LEAST_BUDGET).then(|| json!({"type": "enabled", "budget_tokens": budget.as_u64()}));
        // Of those with a budget, one has the effort as well, up to `high`.
        let is_the_one = model.contains("opus-4-5") || model.contains("opus-4.5");
        Self { field, effort: effort.filter(|word| takes_effort || is_the_one && *word != "max") }
    }
}

/// Returns an effort in the protocol's words, which begin with `low`.
const fn effort_word(effort: Effort) -> &'static str {
    match effort {
        Effort::None | Effort::Minimal => "low",
        effort => effort.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn each_model_is_asked_in_the_form_that_it_takes() {
        let adaptive = |display: &str| Some(json!({"type": "adaptive", "display": display}));
        let plain = Some(json!({"type": "adaptive"}));
        let budget = |tokens: u64| Some(json!({"type": "enabled", "budget_tokens": tokens}));
        let off = Some(json!({"type": "disabled"}));
        for (model, yaml, most, field, effort) in [
            ("claude-opus-5-5", "{}", 9_000, None, None),
            ("claude-opus-5-5", "{ effort: high }", 9_000, adaptive("summarized"), Some("high")),
            ("claude-opus-5-5", "{ effort: max, show: false }", 9_000, adaptive("omitted"), Some("max")),
            ("claude-opus-5-5", "{ effort: minimal }", 9_000, adaptive("summarized"), Some("low")),
            ("claude-haiku-5-5", "{ effort: none }", 9_000, off, None),
            ("claude-opus-4-8", "{ effort: none }", 9_000, None, None),
            ("claude-sonnet-4-6", "{ effort: medium }", 9_000, plain, Some("medium")),
            ("claude-sonnet-4-6", "{ budget_tokens: 2000 }", 9_000, budget(2_000), None),
            ("claude-opus-4-5", "{ effort: low }", 9_000, budget(4_096), Some("low")),
            ("claude-sonnet-4-5", "{ effort: high }", 40_000, budget(16_384), None),
            ("claude-sonnet-4-5", "{ effort: high }", 8_000, budget(7_488), None),
            ("claude-sonnet-4-5", "{ budget_tokens: 100 }", 8_000, budget(1_024), None),
            ("claude-sonnet-4-5", "{ effort: high }", 1_000, None, None),
            ("claude-sonnet-4-5", "{ effort: none }", 8_000, None, None),
        ] {
            let reasoning: Reasoning = serde_saphyr::from_str(yaml).unwrap();
            let actual = ThinkingFields::with(reasoning, model, Tokens::new(most));
            assert_eq!(actual, ThinkingFields { field, effort }, "{model} {yaml}");
        }
    }
}
