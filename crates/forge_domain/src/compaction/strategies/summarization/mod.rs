//! Replaces runs of assistant and tool messages by summaries that a model writes, checked before anything
//! leaves. A run whose summary fails stays for the next strategy.

mod answer;
mod plan;
mod quotes;
mod relation;
mod repetition;
mod summarizer;

#[cfg(test)]
mod tests;

use async_trait::async_trait;
use futures::{FutureExt, StreamExt, stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::plan::{Run, decide, shares};
pub(super) use self::quotes::said_in_summary;
use self::summarizer::{Replaced, Summarizer};
use crate::compaction::{
    CompactionImpact, CompactionRules, CompactionServices, CompactionStrategy, StrategyError,
};
use crate::{Context, ContextMessage};

/// A strategy by which runs of two or more assistant and tool groups between user messages become one
/// assistant message each. If that is not enough, the oldest turns do as well, with the user's words
/// verbatim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summarization {}

impl Summarization {
    /// The word for it in YAML.
    pub const ID: &str = "summarization";
}

#[async_trait]
impl CompactionStrategy for Summarization {
    fn id(&self) -> &str {
        Self::ID
    }

    fn description(&self) -> &str {
        "replaces runs of assistant and tool messages by summaries that a model writes"
    }

    fn asks_model(&self) -> bool {
        true
    }

    fn heeds_focus(&self) -> bool {
        true
    }

    fn is_applicable(&self, rules: &CompactionRules, context: &Context) -> bool {
        rules.summary.model.is_some() && !decide(rules, context).is_empty()
    }

    async fn compact(
        &self,
        rules: &CompactionRules,
        context: Context,
        services: &dyn CompactionServices,
    ) -> Result<(Context, CompactionImpact), StrategyError> {
        let summarizer = Summarizer::new(rules, services, &context)?;
        let runs = decide(rules, &context);
        let shares = shares(rules, &context, &runs);
        let replacements: Vec<_> = runs
            .iter()
            .zip(shares)
            .map(|(run, most)| summarizer.replace(&context, run, most).boxed())
            .collect();
        let replacements: Vec<_> = stream::iter(replacements).buffered(AT_ONCE).collect().await;
        let mut edits = Vec::new();
        let mut failures = Vec::new();
        for (run, Replaced { edit, failure }) in runs.iter().zip(replacements) {
            edits.extend(edit);
            failures.extend(failure.map(|failure| (run, failure)));
        }
        if edits.is_empty() {
            return Err(failures
                .into_iter()
                .next()
                .map_or(StrategyError::SummaryEmpty, |(_, failure)| failure));
        }
        let after = context.edit(edits);
        let given_up = failures.iter().map(|(run, failure)| describe(&context, run, failure)).collect();
        let impact = CompactionImpact::new(context.size(), after.size(), Vec::new());
        Ok((after, CompactionImpact { given_up, ..impact }))
    }
}

/// Requests at the same time.
const AT_ONCE: usize = 4;

/// Describes a run that stays: its labels and the reason.
fn describe(context: &Context, run: &Run, failure: &StrategyError) -> String {
    let messages = &context.messages()[context.groups().span(run.groups.clone()).range()];
    let label = |message: Option<&ContextMessage>| message.and_then(ContextMessage::id);
    match (label(messages.first()), label(messages.last())) {
        (Some(first), Some(last)) => format!("{first}–{last}: {}", failure.with_causes()),
        _ => failure.with_causes(),
    }
}
