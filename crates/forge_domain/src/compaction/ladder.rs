//! Chooses among strategies: each from the original in order, then those that help one after the other.

use std::sync::Arc;

use super::standing::opens_with_user;
use super::{
    Attempt, Compact, CompactionImpact, CompactionServices, CompactionStrategy, StrategyError, Trigger,
    Verdict,
};
use crate::{Context, StrategyId, Tokens, openai_breaches};

/// A compacted context and how it came about.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) strategies: Vec<StrategyId>,
    pub(super) context: Context,
    pub(super) impact: CompactionImpact,
}

/// Tries strategies on one context and keeps the books.
pub(super) struct Ladder<'a> {
    pub(super) compact: &'a Compact,
    pub(super) trigger: Trigger,
    pub(super) room: Tokens,
    pub(super) services: &'a dyn CompactionServices,
    pub(super) attempts: Vec<Attempt>,
}

impl Ladder<'_> {
    /// The context that wins: the first that satisfies; else the significant ones one after the other; else the
    /// smallest that is worth it or, where the window demands it, the smallest that fits.
    pub(super) async fn climb(
        &mut self,
        strategies: &[Arc<dyn CompactionStrategy>],
        original: &Context,
    ) -> Option<Candidate> {
        let mut valid: Vec<(Arc<dyn CompactionStrategy>, Candidate)> = Vec::new();
        for strategy in strategies {
            let Some(candidate) = self.attempt(strategy, original, original, None).await else { continue };
            if self.satisfies(&candidate) {
                return Some(candidate);
            }
            valid.push((Arc::clone(strategy), candidate));
        }
        let stages = self.chain(&valid, original).await;
        let all: Vec<Candidate> = valid.into_iter().map(|(_, candidate)| candidate).chain(stages).collect();
        if let Some(satisfying) = all.iter().find(|candidate| self.satisfies(candidate)) {
            return Some(satisfying.clone());
        }
        all.into_iter()
            .filter(|candidate| candidate.impact.after.tokens <= self.room && self.is_worth_it(candidate))
            .min_by_key(|candidate| candidate.impact.after.tokens)
    }

    /// The significant candidates applied one after the other; each stage is a candidate.
    async fn chain(
        &mut self,
        valid: &[(Arc<dyn CompactionStrategy>, Candidate)],
        original: &Context,
    ) -> Vec<Candidate> {
        let mut significant = valid
            .iter()
            .filter(|(_, candidate)| candidate.impact.is_significant(self.compact.significant_share()));
        let Some((_, first)) = significant.next() else { return Vec::new() };
        let mut stages: Vec<Candidate> = Vec::new();
        let mut reached = first.clone();
        for (strategy, _) in significant {
            let from = reached.context.clone();
            if let Some(stage) = self.attempt(strategy, &from, original, Some(&reached)).await {
                reached = stage;
                stages.push(reached.clone());
                if self.satisfies(&reached) {
                    break;
                }
            }
        }
        stages
    }

    /// One attempt on `from`, noted among the attempts; `None` where nothing valid came of it.
    async fn attempt(
        &mut self,
        strategy: &Arc<dyn CompactionStrategy>,
        from: &Context,
        original: &Context,
        earlier: Option<&Candidate>,
    ) -> Option<Candidate> {
        let Ok(id) = StrategyId::new(strategy.id()) else { return None };
        if !strategy.is_applicable(self.compact, from) {
            self.attempts.push(Attempt { strategy: id, verdict: Verdict::NotApplicable });
            return None;
        }
        let result = strategy.compact(self.compact, from.clone(), self.services).await;
        let (verdict, candidate) = match result.map_err(|error| reason(&error)).and_then(|(after, impact)| {
            broken_rule(original, &after).map_or(Ok((after, impact)), |rule| Err(rule.to_owned()))
        }) {
            Err(reason) => (Verdict::Failed { reason }, None),
            Ok((context, impact)) => {
                // What it says of sizes is measured, not believed.
                let impact = CompactionImpact { before: from.size(), after: context.size(), ..impact };
                let (mut strategies, whole) = match earlier {
                    Some(earlier) => {
                        (earlier.strategies.clone(), earlier.impact.clone().then(impact.clone()))
                    }
                    None => (Vec::new(), impact.clone()),
                };
                strategies.push(id.clone());
                let candidate = Candidate { strategies, context, impact: whole };
                (self.judge(&candidate, impact), Some(candidate))
            }
        };
        self.attempts.push(Attempt { strategy: id, verdict });
        candidate.filter(|candidate| candidate.context != *original)
    }

    fn judge(&self, candidate: &Candidate, impact: CompactionImpact) -> Verdict {
        if self.satisfies(candidate) {
            Verdict::Satisfied(impact)
        } else if impact.is_significant(self.compact.significant_share()) {
            Verdict::Significant(impact)
        } else {
            Verdict::Insignificant(impact)
        }
    }

    fn satisfies(&self, candidate: &Candidate) -> bool {
        self.compact.is_satisfied_by(candidate.impact.after)
    }

    fn is_worth_it(&self, candidate: &Candidate) -> bool {
        self.trigger == Trigger::Window || candidate.impact.is_significant(self.compact.significant_share())
    }
}

/// The reason that people read: the error and its causes.
fn reason(error: &StrategyError) -> String {
    error.to_string()
}

/// The rule that `after` breaks as a compaction of `before`, whatever strategy made it.
fn broken_rule(before: &Context, after: &Context) -> Option<&'static str> {
    let (was, is) = (before.size(), after.size());
    if is.tokens > was.tokens || is.messages > was.messages {
        return Some("it made the context larger");
    }
    if openai_breaches(after.messages()).len() > openai_breaches(before.messages()).len() {
        return Some("it split a tool call from its result");
    }
    let leading = ..before.n_leading_system();
    if after.messages().get(leading) != before.messages().get(leading) {
        return Some("it lost a leading system message");
    }
    let first_user = before.first_user().map(|at| &before.messages()[at]);
    if first_user.is_some_and(|first| after.first_user().map(|at| &after.messages()[at]) != Some(first)) {
        return Some("it lost the first user message");
    }
    if !keeps_latest_user(before, after) {
        return Some("it lost the latest user message");
    }
    if !keeps_last_calls(last_calls(before), last_calls(after)) {
        return Some("it lost the calls of the last message");
    }
    if opens_with_user(before) && !opens_with_user(after) {
        return Some("no user message opens what is left");
    }
    None
}

/// Whether the latest user message is still the latest, as it was or shortened.
fn keeps_latest_user(before: &Context, after: &Context) -> bool {
    let latest = |context: &Context| context.latest_user().map(|at| context.messages()[at].clone());
    match (latest(before), latest(after)) {
        (Some(was), Some(is)) => was == is || is.id().is_none() || is.id() > was.id(),
        (None, _) => true,
        (Some(_), None) => false,
    }
}

/// Whether the same calls are made, with the same arguments or with shorter ones that are still JSON.
fn keeps_last_calls(before: &[crate::ToolCall], after: &[crate::ToolCall]) -> bool {
    let is_kept = |was: &crate::ToolCall, is: &crate::ToolCall| {
        let is_shorter = || {
            is.arguments.len() < was.arguments.len()
                && serde_json::from_str::<serde_json::Value>(&is.arguments).is_ok()
        };
        was.id == is.id && was.name == is.name && (was.arguments == is.arguments || is_shorter())
    };
    before.len() == after.len() && before.iter().zip(after).all(|(was, is)| is_kept(was, is))
}

/// The calls of the last group.
fn last_calls(context: &Context) -> &[crate::ToolCall] {
    let groups = crate::Groups::of(context.messages());
    let first = groups.iter().last().map_or(0, |group| group.range().start);
    context.messages().get(first).map_or(&[], |message| message.message().calls())
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use futures::FutureExt;
    use pretty_assertions::assert_eq;

    use super::super::fixture::{Script, budget, conversation, fit, fit_again, picture};
    use super::super::{ContextCompactor, Outcome, Rung};
    use super::*;
    use crate::{Edit, Groups};

    /// Drops the groups it is told to, whatever that breaks.
    struct Drops(&'static str, Vec<usize>);

    #[async_trait]
    impl CompactionStrategy for Drops {
        fn id(&self) -> &str {
            self.0
        }
        fn description(&self) -> &str {
            "drops what it is told to"
        }
        fn is_applicable(&self, _: &Compact, context: &Context) -> bool {
            Groups::of(context.messages()).len() > 4
        }
        async fn compact(
            &self,
            _: &Compact,
            context: Context,
            _: &dyn CompactionServices,
        ) -> Result<(Context, CompactionImpact), StrategyError> {
            let groups = Groups::of(context.messages());
            let edits = self
                .1
                .iter()
                .filter(|index| **index < groups.len())
                .map(|index| Edit::Fold { span: groups.span(*index..*index + 1), with: Vec::new() })
                .collect();
            let after = context.edit(edits);
            // It lies about what it achieved.
            Ok((after.clone(), CompactionImpact::new(after.size(), after.size(), Vec::new())))
        }
    }

    /// The picture, the winners and the verdicts of own strategies on ten messages with a target of five.
    fn climb(strategies: Vec<Drops>) -> (String, Vec<String>, Vec<String>) {
        let notation = "suaaaaaaaa";
        let mut conversation = conversation(notation);
        let budget = budget(1_020);
        let mut compact = Compact::default().resolve(&budget).unwrap();
        compact.strategies =
            Some(strategies.iter().map(|own| Rung::Registered(StrategyId::new(own.0).unwrap())).collect());
        let compactor = strategies
            .into_iter()
            .fold(ContextCompactor::new(), |compactor, own| compactor.register_strategy(Arc::new(own)));
        let script = Script::new(Vec::new());
        let fit = compactor.fit(&compact, conversation.view(), &budget, &script).now_or_never().unwrap();
        if let Some(compacted) = fit.result.unwrap().compacted {
            conversation.record(&compacted).unwrap();
        }
        let winners = match fit.report.outcome {
            Outcome::Applied { strategies, .. } => strategies.iter().map(ToString::to_string).collect(),
            outcome => vec![format!("{outcome:?}")],
        };
        let verdicts = fit
            .report
            .attempts
            .iter()
            .map(|attempt| match &attempt.verdict {
                Verdict::NotApplicable => format!("{} not applicable", attempt.strategy),
                Verdict::Satisfied(_) => format!("{} satisfied", attempt.strategy),
                Verdict::Significant(_) => format!("{} significant", attempt.strategy),
                Verdict::Insignificant(_) => format!("{} insignificant", attempt.strategy),
                Verdict::Failed { reason } => format!("{}: {reason}", attempt.strategy),
            })
            .collect();
        (picture(notation, &conversation), winners, verdicts)
    }

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_first_that_satisfies_wins_and_each_starts_from_the_original() {
        let actual = climb(vec![
            Drops("some", vec![2, 3]),
            Drops("enough", vec![3, 4, 5, 6, 7]),
            Drops("more", vec![2]),
        ]);
        let expected =
            ("sua[aaaaa]aa".into(), strings(&["enough"]), strings(&["some significant", "enough satisfied"]));
        assert_eq!(actual, expected);
    }

    #[test]
    fn the_significant_ones_are_applied_one_after_the_other() {
        let actual =
            climb(vec![Drops("first", vec![2, 3]), Drops("little", vec![4]), Drops("second", vec![2, 3, 4])]);
        let expected = (
            "su[aaaaa]aaa".into(),
            strings(&["first", "second"]),
            strings(&["first significant", "little insignificant", "second significant", "second satisfied"]),
        );
        assert_eq!(actual, expected);
    }

    #[test]
    fn the_smallest_is_the_last_resort_and_too_little_is_none() {
        let actual = climb(vec![Drops("three", vec![2, 3, 4]), Drops("one", vec![2])]);
        assert_eq!((actual.0.as_str(), actual.1), ("su[aaa]aaaaa", strings(&["three"])));
        let actual = climb(vec![Drops("one", vec![2])]);
        assert_eq!((actual.0.as_str(), actual.1), ("suaaaaaaaa", strings(&["NothingToCut"])));
    }

    #[test]
    fn a_result_that_breaks_a_rule_is_an_attempt_with_a_reason() {
        for (dropped, expected) in
            [(vec![0], "it lost a leading system message"), (vec![1], "it lost the first user message")]
        {
            let (picture, _, verdicts) = climb(vec![Drops("own", dropped)]);
            assert_eq!((picture.as_str(), verdicts), ("suaaaaaaaa", vec![format!("own: {expected}")]));
        }
        let lost_call = |conversation: &crate::Conversation| {
            let view = conversation.view();
            let groups = Groups::of(view.messages());
            let last = groups.len() - 1;
            let after = view.edit(vec![Edit::Fold { span: groups.span(last..last + 1), with: Vec::new() }]);
            broken_rule(&view, &after)
        };
        assert_eq!(lost_call(&conversation("suatr")), Some("it lost the calls of the last message"));
        assert_eq!(lost_call(&conversation("suaa")), None);
    }

    #[test]
    fn low_impact_is_skipped_unless_the_window_demands_it() {
        // One message of eleven goes at most: 9 %.
        let yaml = "{ strategies: [sliding_window], message_threshold: 10, max_messages: 9, token_threshold: 100%, max_tokens: 99% }";
        let (actual, report) = fit(yaml, 100_000, "suuuuuuuuua", &Script::new(Vec::new()));
        assert_eq!(actual, "su[uu]uuuuuua", "reaching the target is significant: {report:?}");
        let (actual, report) = fit("{ min_reduction: 90% }", 1_000, "SUaa", &Script::new(Vec::new()));
        assert_eq!((actual.as_str(), report.outcome.name()), ("SUaa", "still_over"));
        let (actual, _) = fit("{ min_reduction: 90% }", 2_250, "SUaaa", &Script::new(Vec::new()));
        assert_eq!(actual, "SU[aa]a");
        // A trigger that what must stay exceeds by itself does not fire: it would at every call.
        let yaml = "{ message_threshold: 2, min_reduction: 90% }";
        let (actual, report) = fit(yaml, 100_000, "suaaa", &Script::new(Vec::new()));
        assert_eq!((actual.as_str(), report.outcome.name()), ("suaaa", "not_triggered"));
    }

    #[test]
    fn a_second_compaction_to_the_same_target_finds_nothing_to_cut() {
        for notation in ["suaaaaaaaaaaa", "SUaaaaaaatR", "sutrtrtrtrtrtr", "suauauauauaua"] {
            let mut conversation = conversation(notation);
            let script = Script::new(Vec::new());
            fit_again("{}", 3_000, &mut conversation, &script);
            let budget = budget(3_000);
            let compact = Compact::default().resolve(&budget).unwrap();
            let again = ContextCompactor::new()
                .compact_context(&compact, conversation.view(), &budget, &script)
                .now_or_never()
                .unwrap();
            assert_eq!(again.report.outcome, Outcome::NothingToCut, "{notation}");
        }
    }

    #[test]
    fn off_means_off() {
        let (actual, report) = fit("{ auto_compact: false }", 1_020, "suaaaaaaaa", &Script::new(Vec::new()));
        assert_eq!((actual.as_str(), report.outcome.name()), ("suaaaaaaaa", "not_triggered"));
        let (actual, report) =
            fit("{ auto_compact: false }", 1_020, "suaaaaaaaaaa", &Script::new(Vec::new()));
        assert_eq!((actual.as_str(), report.outcome.name()), ("suaaaaaaaaaa", "still_over"));
    }
}
