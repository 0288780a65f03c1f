//! Chooses among strategies: each from the original, then those that help one after the other.

use futures::future::join_all;

use super::adaptive::adapt;
use super::loss::Inventory;
use super::meter::{Meter, Metered};
use super::named_strategy::NamedStrategy;
use super::pinned_text::PinnedText;
use super::rule_check::broken_rule;
use super::{
    Attempt, AttemptVerdict, CompactionImpact, CompactionRules, CompactionServices, Selection, StrategyError,
    StrategyStatistics, Trigger, Truncation,
};
use crate::{Context, Cost, StrategyId, Tokens, Usage, added_breach};

/// A compacted context and how it came about.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) strategies: Vec<StrategyId>,
    pub(super) context: Context,
    pub(super) impact: CompactionImpact,
}

/// A ladder, which tries strategies on one context and keeps the record of the attempts.
pub(super) struct Ladder<'a> {
    pub(super) rules: &'a CompactionRules,
    /// The method of choosing one of the strategies.
    pub(super) selection: Selection,
    pub(super) trigger: Trigger,
    pub(super) room: Tokens,
    pub(super) services: &'a dyn CompactionServices,
    /// The parts that every result must leave.
    pub(super) pinned: PinnedText,
    /// The results of the strategies earlier in this run.
    pub(super) record: &'a StrategyStatistics,
    pub(super) attempts: Vec<Attempt>,
    /// The base of every attempt if the first user message cannot stay whole; else the original is the base.
    pub(super) base: Option<Candidate>,
}

/// The candidates that broke no rule, with the strategies that made them from the original.
type Valid = Vec<(NamedStrategy, Candidate)>;

impl Ladder<'_> {
    /// Returns the context that wins by the block's `selection`; `None` if nothing is worth it.
    pub(super) async fn choose(
        &mut self,
        strategies: &[NamedStrategy],
        original: &Context,
    ) -> Option<Candidate> {
        if let Some(base) = self.base.clone() {
            let attempt = Attempt {
                strategy: StrategyId::new(Truncation::ID).ok()?,
                after: Vec::new(),
                verdict: self.judge(&base, base.impact.clone()),
                loss: None,
                model_calls: 0,
                usage: Usage::default(),
                cost: Cost::default(),
            };
            self.attempts.push(attempt);
            if self.satisfies(&base) {
                return Some(base);
            }
        }
        match self.selection {
            Selection::Ladder => self.climb(strategies, original).await,
            Selection::Adaptive => {
                let strategies =
                    adapt(strategies, self.rules, original, self.services.counter(), self.record);
                self.climb(&strategies, original).await
            }
            Selection::Best => self.best(strategies, original).await,
        }
    }

    /// Returns the first that satisfies, each tried on the original in order; else the significant ones one
    /// after the other, then the last rung from there, and finally from the original.
    async fn climb(&mut self, strategies: &[NamedStrategy], original: &Context) -> Option<Candidate> {
        let (rungs, last) = with_last_rung(strategies);
        let mut valid = Valid::new();
        for strategy in rungs {
            let Some(candidate) = self.attempt_first(strategy, original).await else { continue };
            if self.satisfies(&candidate) {
                return Some(candidate);
            }
            valid.push((strategy.clone(), candidate));
        }
        let mut all = self.combine(valid, last, original).await;
        if let Some(last) = last.filter(|_| !all.iter().any(|candidate| self.satisfies(candidate))) {
            all.extend(self.attempt_first(last, original).await);
        }
        self.pick(all)
    }

    /// Runs all at once: of those that satisfy, the one that loses least wins, then the one with fewer model
    /// tokens, then the first. If none does, the significant ones are applied one after the other.
    async fn best(&mut self, strategies: &[NamedStrategy], original: &Context) -> Option<Candidate> {
        let tries = join_all(
            strategies.iter().map(|strategy| self.make_attempt(strategy, original, self.base.as_ref())),
        )
        .await;
        let inventory = Inventory::of(original);
        let mut satisfying = Vec::new();
        let mut valid = Valid::new();
        for (strategy, (mut attempt, candidate)) in strategies.iter().zip(tries) {
            match candidate {
                Some(candidate) if self.satisfies(&candidate) => {
                    let loss = inventory.lost_in(&candidate.context);
                    attempt.loss = Some(loss);
                    let usage = candidate.impact.usage;
                    satisfying.push((loss, usage.prompt_tokens + usage.completion_tokens, candidate));
                }
                Some(candidate) => valid.push((strategy.clone(), candidate)),
                None => {}
            }
            self.attempts.push(attempt);
        }
        match satisfying.into_iter().min_by_key(|(loss, model_tokens, _)| (*loss, *model_tokens)) {
            Some((_, _, candidate)) => Some(candidate),
            None => {
                let all = self.combine(valid, None, original).await;
                self.pick(all)
            }
        }
    }

    /// Returns the candidates, and the results of the significant ones one after the other, followed by
    /// `last`: each stage is a candidate, and one that satisfies is the last.
    async fn combine(
        &mut self,
        valid: Valid,
        last: Option<&NamedStrategy>,
        original: &Context,
    ) -> Vec<Candidate> {
        let share = self.rules.min_reduction;
        let significant = valid.iter().filter(|(_, candidate)| candidate.impact.is_significant(share));
        let mut significant = significant.cloned().collect::<Vec<_>>().into_iter();
        let mut all: Vec<Candidate> = valid.into_iter().map(|(_, candidate)| candidate).collect();
        let Some((_, mut reached)) = significant.next() else { return all };
        for strategy in significant.map(|(strategy, _)| strategy).chain(last.cloned()) {
            if let Some(stage) = self.attempt(&strategy, original, Some(&reached)).await {
                all.push(stage.clone());
                if self.satisfies(&stage) {
                    break;
                }
                reached = stage;
            }
        }
        all
    }

    /// Returns the first that satisfies; else the smallest that is worth it or, if the window demands it, the
    /// smallest that fits.
    fn pick(&self, mut all: Vec<Candidate>) -> Option<Candidate> {
        all.extend(self.base.clone());
        if let Some(at) = all.iter().position(|candidate| self.satisfies(candidate)) {
            return Some(all.swap_remove(at));
        }
        all.into_iter()
            .filter(|candidate| candidate.impact.after.tokens <= self.room && self.is_worth_it(candidate))
            .min_by_key(|candidate| candidate.impact.after.tokens)
    }

    /// Makes one attempt that continues from no other.
    async fn attempt_first(&mut self, strategy: &NamedStrategy, original: &Context) -> Option<Candidate> {
        let base = self.base.clone();
        self.attempt(strategy, original, base.as_ref()).await
    }

    /// Makes one attempt and notes it; returns `None` if the result is not valid.
    async fn attempt(
        &mut self,
        strategy: &NamedStrategy,
        original: &Context,
        earlier: Option<&Candidate>,
    ) -> Option<Candidate> {
        let (attempt, candidate) = self.make_attempt(strategy, original, earlier).await;
        self.attempts.push(attempt);
        candidate
    }

    /// Makes one attempt, from the result of `earlier` or from the original.
    async fn make_attempt(
        &self,
        strategy: &NamedStrategy,
        original: &Context,
        earlier: Option<&Candidate>,
    ) -> (Attempt, Option<Candidate>) {
        let from = earlier.map_or(original, |earlier| &earlier.context);
        let after = earlier.map(|earlier| earlier.strategies.clone()).unwrap_or_default();
        let metered = Metered::new(self.services, original);
        let attempt = |verdict| {
            let Meter { model_calls, usage, cost } = metered.total();
            let (strategy, after) = (strategy.id.clone(), after.clone());
            Attempt { strategy, after, verdict, loss: None, model_calls, usage, cost }
        };
        if !strategy.strategy.is_applicable(self.rules, from) {
            return (attempt(AttemptVerdict::NotApplicable), None);
        }
        let result = strategy.strategy.compact(self.rules, from.clone(), &metered).await;
        let checked = result.map_err(|error| reason(&error)).and_then(|(after, impact)| {
            let yielded = earlier.iter().flat_map(|earlier| &earlier.impact.yielded).chain(&impact.yielded);
            let yielded: Vec<_> = yielded.copied().collect();
            let rule =
                broken_rule(original, &after, &yielded).or_else(|| self.pinned.broken_rule(&after, &yielded));
            let breach = || added_breach(original.messages(), after.messages());
            rule.map(str::to_owned)
                .or_else(|| breach().map(|breach| format!("it broke a provider's rule: {breach}")))
                .map_or(Ok((after, impact)), Err)
        });
        let (context, impact) = match checked {
            Err(reason) => return (attempt(AttemptVerdict::Failed { reason }), None),
            Ok(compacted) => compacted,
        };
        // Its claims about sizes and models are measured, not believed.
        let Meter { model_calls, usage, .. } = metered.total();
        let (before, is) = (from.size(), context.size());
        let impact = CompactionImpact { before, after: is, model_calls, usage, ..impact };
        let whole = match earlier {
            Some(earlier) => earlier.impact.clone().then(impact.clone()),
            None => impact.clone(),
        };
        let strategies = after.iter().cloned().chain([strategy.id.clone()]).collect();
        let candidate = Candidate { strategies, context, impact: whole };
        let verdict = self.judge(&candidate, impact);
        (attempt(verdict), Some(candidate).filter(|candidate| candidate.context != *from))
    }

    fn judge(&self, candidate: &Candidate, impact: CompactionImpact) -> AttemptVerdict {
        if self.satisfies(candidate) {
            AttemptVerdict::Satisfied(impact)
        } else if impact.is_significant(self.rules.min_reduction) {
            AttemptVerdict::Significant(impact)
        } else {
            AttemptVerdict::Insignificant(impact)
        }
    }

    fn satisfies(&self, candidate: &Candidate) -> bool {
        self.rules.is_satisfied_by(candidate.impact.after)
    }

    fn is_worth_it(&self, candidate: &Candidate) -> bool {
        self.trigger == Trigger::Window || candidate.impact.is_significant(self.rules.min_reduction)
    }
}

/// Returns the strategies, and the last resort separately: truncation always finds a fit, so it waits until
/// the others were tried together.
fn with_last_rung(strategies: &[NamedStrategy]) -> (&[NamedStrategy], Option<&NamedStrategy>) {
    match strategies.split_last() {
        Some((last, rungs)) if last.id.as_str() == Truncation::ID && !rungs.is_empty() => (rungs, Some(last)),
        _ => (strategies, None),
    }
}

/// Returns the reason for people: the error and its causes.
fn reason(error: &StrategyError) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use futures::FutureExt;
    use pretty_assertions::assert_eq;

    use super::super::fixture::{Script, budget, conversation, fit, fit_again, picture, settings};
    use std::sync::Arc;

    use super::super::{CompactionReport, CompactionStrategy, ContextCompactor, Outcome, Rung};
    use super::*;
    use crate::Characters;
    use crate::{ContextMessage, Conversation, Edit, Message};

    /// A strategy that drops the given groups, whatever that breaks.
    struct Drops(&'static str, Vec<usize>);

    #[async_trait]
    impl CompactionStrategy for Drops {
        fn id(&self) -> &str {
            self.0
        }
        fn description(&self) -> &str {
            "drops what it is told to"
        }
        fn is_applicable(&self, _: &CompactionRules, context: &Context) -> bool {
            context.groups().len() > 4
        }
        async fn compact(
            &self,
            _: &CompactionRules,
            context: Context,
            _: &dyn CompactionServices,
        ) -> Result<(Context, CompactionImpact), StrategyError> {
            let groups = context.groups();
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

    /// Returns the result for `conversation` in a room of ten small messages with a target of five.
    fn choose(yaml: &str, conversation: &mut Conversation, strategies: Vec<Drops>) -> CompactionReport {
        let budget = budget(1_020);
        let mut settings = settings(yaml, 1_020);
        let mut rungs: Vec<Rung> =
            strategies.iter().map(|own| Rung::Registered(StrategyId::new(own.0).unwrap())).collect();
        if yaml.contains("truncation") {
            rungs.push(Rung::Truncation(Truncation::default()));
        }
        settings.strategies = rungs;
        let compactor = strategies
            .into_iter()
            .fold(ContextCompactor::new(), |compactor, own| compactor.register_strategy(Arc::new(own)));
        let script = Script::new(Vec::new());
        let fit = compactor.fit(&settings, conversation.view(), &budget, &script).now_or_never().unwrap();
        if let Some(compacted) = fit.result.unwrap().compacted {
            conversation.record(&compacted).unwrap();
        }
        fit.report
    }

    fn winners(report: &CompactionReport) -> Vec<String> {
        match &report.outcome {
            Outcome::Applied { strategies, .. } => strategies.iter().map(ToString::to_string).collect(),
            outcome => vec![format!("{outcome:?}")],
        }
    }

    fn verdicts(report: &CompactionReport) -> Vec<String> {
        let verdict = |attempt: &Attempt| {
            let what = match &attempt.verdict {
                AttemptVerdict::NotApplicable => " not applicable".to_owned(),
                AttemptVerdict::Satisfied(_) => " satisfied".to_owned(),
                AttemptVerdict::Significant(_) => " significant".to_owned(),
                AttemptVerdict::Insignificant(_) => " insignificant".to_owned(),
                AttemptVerdict::Failed { reason } => format!(": {reason}"),
            };
            let after: Vec<&str> = attempt.after.iter().map(StrategyId::as_str).collect();
            let after = if after.is_empty() { String::new() } else { format!(" after {}", after.join(", ")) };
            format!("{}{what}{after}", attempt.strategy)
        };
        report.attempts.iter().map(verdict).collect()
    }

    /// Returns the picture, the winners and the verdicts of own strategies on ten messages with a target of
    /// five.
    fn climb(strategies: Vec<Drops>) -> (String, Vec<String>, Vec<String>) {
        let notation = "suaaaaaaaa";
        let mut conversation = conversation(notation);
        let report = choose("{}", &mut conversation, strategies);
        (picture(notation, &conversation), winners(&report), verdicts(&report))
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
            strings(&[
                "first significant",
                "little insignificant",
                "second significant",
                "second satisfied after first",
            ]),
        );
        assert_eq!(actual, expected);
    }

    #[test]
    fn truncation_waits_until_the_others_were_tried_together() {
        let notation = "suaaaaaaaa";
        for (first, expected) in [
            // Together they do.
            (
                vec![2, 3],
                strings(&["first significant", "second significant", "second satisfied after first"]),
            ),
            // Together they do not: what they came to is cut, and nothing else.
            (
                vec![2],
                strings(&["first insignificant", "second significant", "truncation satisfied after second"]),
            ),
        ] {
            let own = vec![Drops("first", first), Drops("second", vec![2, 3, 4])];
            let report = choose("strategies: [truncation]", &mut conversation(notation), own);
            assert_eq!(verdicts(&report), expected, "{report:?}");
        }
        // Nothing else is significant: it starts from the original.
        let own = vec![Drops("little", vec![2])];
        let report = choose("strategies: [truncation]", &mut conversation(notation), own);
        assert_eq!(verdicts(&report), strings(&["little insignificant", "truncation satisfied"]));
    }

    /// Builds eight messages of the agent, each of which names a thing of its own.
    fn naming() -> Conversation {
        let mut log = Conversation::new();
        let mut append = |message: Message| log.append(ContextMessage::count(message, &Characters));
        append(Message::system("s".repeat(96)));
        append(Message::user("u".repeat(96)));
        for nth in 0..8 {
            append(Message::assistant(format!("{:.<96}", format!("thing_number_{nth} "))));
        }
        log
    }

    #[test]
    fn the_best_is_the_one_that_loses_least_of_those_that_satisfy() {
        let own = || {
            vec![
                Drops("much", vec![2, 3, 4, 5, 6, 7]),
                Drops("too little", vec![2, 3]),
                Drops("enough", vec![2, 3, 4, 5, 6]),
                Drops("as much", vec![3, 4, 5, 6, 7]),
            ]
        };
        let report = choose("selection: best", &mut naming(), own());
        assert_eq!(winners(&report), ["enough"]);
        let losses: Vec<Option<u64>> =
            report.attempts.iter().map(|attempt| attempt.loss.map(|loss| loss.0)).collect();
        assert_eq!(losses, [Some(7_500), None, Some(6_250), Some(6_250)]);
        assert_eq!(winners(&choose("selection: ladder", &mut naming(), own())), ["much"]);
        // Where none satisfies, they are applied one after the other.
        let own = vec![Drops("first", vec![2, 3]), Drops("second", vec![2, 3, 4])];
        assert_eq!(winners(&choose("selection: best", &mut naming(), own)), ["first", "second"]);
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
        let lost_call = |conversation: &Conversation| {
            let view = conversation.view();
            let groups = view.groups();
            let last = groups.len() - 1;
            let after = view.edit(vec![Edit::Fold { span: groups.span(last..last + 1), with: Vec::new() }]);
            broken_rule(&view, &after, &[])
        };
        assert_eq!(lost_call(&conversation("suatr")), Some("it lost the calls of the last message"));
        assert_eq!(lost_call(&conversation("suaa")), None);
    }

    #[test]
    fn low_impact_is_skipped_unless_the_window_demands_it() {
        // At most one message of eleven leaves: 9 %.
        let yaml = "{ strategies: [sliding_window], message_threshold: 10, max_messages: 9, token_threshold: 100%, max_tokens: 99% }";
        let (actual, report) = fit(yaml, 100_000, "suuuuuuuuua", &Script::new(Vec::new()));
        assert_eq!(actual, "su[uu]uuuuuua", "reaching the target is significant: {report:?}");
        let (actual, report) = fit("{ min_reduction: 90% }", 1_000, "SUaa", &Script::new(Vec::new()));
        assert_eq!((actual.as_str(), report.outcome.name()), ("SUaa", "still_over"));
        let (actual, _) = fit(
            "{ strategies: [sliding_window], min_reduction: 90% }",
            2_250,
            "SUaaa",
            &Script::new(Vec::new()),
        );
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
            let settings = settings("{}", 3_000);
            let again = ContextCompactor::new()
                .compact_context(&settings, conversation.view(), &budget, &script)
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
