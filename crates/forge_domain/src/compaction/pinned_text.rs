//! The pinned text of a context, which every compaction must leave.

use std::collections::HashSet;

use super::Yield;
use super::omission::most_for_a_marker;
use super::short_text::readable_text;
use super::standing::{Hold, Standing};
use crate::{Context, ContextMessage, MessageId, REQUEST_TOKENS, TokenCounter, Tokens};

/// The pinned texts that a compaction must leave.
#[derive(Clone, Debug)]
pub(crate) struct PinnedText {
    texts: Vec<String>,
    kept: Vec<MessageId>,
    /// True if everything that is held fits the target unchanged: then no pin has to yield.
    fits: bool,
}

impl PinnedText {
    /// Returns the pinned texts of `context`, whose groups are held by `standing`, for a target of so many
    /// tokens, by the counts of `counter`.
    pub(crate) fn of(
        context: &Context,
        standing: &Standing,
        target: Tokens,
        counter: &dyn TokenCounter,
    ) -> Self {
        let pins = &standing.pins;
        let messages = context.messages();
        let held = standing.groups.iter().zip(&standing.holds).filter(|(_, hold)| !hold.may_go());
        let held: Tokens =
            held.flat_map(|(group, _)| &messages[group.range()]).map(ContextMessage::tokens).sum();
        let pinned = standing.groups.iter().zip(&standing.holds).filter(|(_, hold)| **hold == Hold::Pinned);
        let kept =
            pinned.flat_map(|(group, _)| &messages[group.range()]).filter(|message| pins.keeps(message));
        let matching = messages.iter().filter(|message| pins.matches(message.message()));
        Self {
            texts: matching.flat_map(|message| pins.texts(message)).collect(),
            kept: kept.filter_map(ContextMessage::id).collect(),
            fits: held + REQUEST_TOKENS + most_for_a_marker(counter) <= target,
        }
    }

    /// Returns the rule that `after` breaks, given that its maker reports `yielded`.
    pub(crate) fn broken_rule(&self, after: &Context, yielded: &[Yield]) -> Option<&'static str> {
        match (self.is_lost_in(after), yielded.contains(&Yield::Pins)) {
            (true, false) => Some("it lost something pinned"),
            (true, true) if self.fits => Some("it lost something pinned without need"),
            (false, _) | (true, true) => None,
        }
    }

    /// Takes time in proportion to the text: nearly all pinned text is found as a whole text or line, and
    /// only the rest is searched for.
    fn is_lost_in(&self, after: &Context) -> bool {
        let ids: HashSet<MessageId> = after.messages().iter().filter_map(ContextMessage::id).collect();
        if !self.kept.iter().all(|id| ids.contains(id)) {
            return true;
        }
        if self.texts.is_empty() {
            return false;
        }
        let said: Vec<String> =
            after.plain().filter(|message| message.starts_turn()).map(readable_text).collect();
        let lines = said.iter().flat_map(|said| said.lines().map(str::trim));
        let parts: HashSet<&str> = said.iter().map(String::as_str).chain(lines).collect();
        let is_said = |text: &str| parts.contains(text) || said.iter().any(|said| said.contains(text));
        !self.texts.iter().all(|text| is_said(text))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use futures::FutureExt;
    use pretty_assertions::assert_eq;

    use super::super::fixture::{Script, budget, conversation, settings};
    use super::super::{
        AttemptVerdict, CompactionImpact, CompactionRules, CompactionServices, CompactionStrategy,
        ContextCompactor, Outcome, Rung, StrategyError,
    };
    use super::*;
    use crate::{Edit, StrategyId};

    /// A foreign strategy that drops groups 2 and 4 to 6, and reports that these had to yield.
    struct Drops(Vec<Yield>);

    #[async_trait]
    impl CompactionStrategy for Drops {
        fn id(&self) -> &str {
            "drops"
        }
        fn description(&self) -> &str {
            "drops what is pinned too"
        }
        fn is_applicable(&self, _: &CompactionRules, _: &Context) -> bool {
            true
        }
        async fn compact(
            &self,
            _: &CompactionRules,
            context: Context,
            _: &dyn CompactionServices,
        ) -> Result<(Context, CompactionImpact), StrategyError> {
            let groups = context.groups();
            let fold = |span| Edit::Fold { span: groups.span(span), with: Vec::new() };
            let after = context.edit(vec![fold(2..3), fold(4..7)]);
            let impact = CompactionImpact::new(context.size(), after.size(), self.0.clone());
            Ok((after, impact))
        }
    }

    #[test]
    fn an_attempt_that_loses_what_is_pinned_is_refused_whoever_made_it() {
        for (pin, says, expected) in [
            ("^9", vec![], None),
            ("^2", vec![], Some("it lost something pinned")),
            ("^2", vec![Yield::Pins], Some("it lost something pinned without need")),
        ] {
            let log = conversation("suuuaaaa");
            let budget = budget(100_000);
            let yaml = format!(
                "{{ pin: ['{pin}'], message_threshold: 6, max_messages: 5, strategies: [sliding_window] }}"
            );
            let mut settings = settings(&yaml, 100_000);
            settings.strategies.insert(0, Rung::Registered(StrategyId::new("drops").unwrap()));
            let compactor = ContextCompactor::new().register_strategy(Arc::new(Drops(says)));
            let script = Script::new(Vec::new());
            let fit = compactor.fit(&settings, log.view(), &budget, &script).now_or_never().unwrap();
            let actual = match &fit.report.attempts[0].verdict {
                AttemptVerdict::Failed { reason } => Some(reason.as_str()),
                _ => None,
            };
            assert_eq!(actual, expected, "{pin}");
            let Outcome::Applied { strategies, .. } = &fit.report.outcome else { panic!("{:?}", fit.report) };
            let expected = if expected.is_some() { "sliding_window" } else { "drops" };
            assert_eq!(strategies[0].as_str(), expected);
        }
    }
}
