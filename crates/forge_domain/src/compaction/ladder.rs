//! Chooses among strategies, each of which continues from what the ones before it reached.

use futures::FutureExt;
use futures::future::join_all;

use super::loss::Inventory;
use super::meter::{Meter, Metered};
use super::named_strategy::NamedStrategy;
use super::pinned_text::PinnedText;
use super::rule_check::broken_rule;
use super::{
    Attempt, AttemptVerdict, CompactionImpact, CompactionRules, CompactionServices, Selection, Trigger,
};
use crate::{Context, Cost, StrategyId, Tokens, Usage, added_breach};

/// A compacted context and how it came about.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) strategies: Vec<StrategyId>,
    pub(super) context: Context,
    pub(super) impact: CompactionImpact,
}

/// A ladder, which tries strategies on one context and notes every attempt.
pub(super) struct Ladder<'a> {
    pub(super) rules: &'a CompactionRules,
    /// The method of choosing one of the strategies.
    pub(super) selection: Selection,
    pub(super) trigger: Trigger,
    pub(super) room: Tokens,
    pub(super) services: &'a dyn CompactionServices,
    /// The parts that every result must leave.
    pub(super) pinned: PinnedText,
    pub(super) attempts: Vec<Attempt>,
    /// The base of every attempt if the first user message cannot stay whole; else the original is the base.
    pub(super) base: Option<Candidate>,
}

/// The attempts of strategies one after the other, and every result that broke no rule. If one satisfies, it
/// is the last.
#[derive(Default)]
struct Stack {
    attempts: Vec<Attempt>,
    stages: Vec<Candidate>,
}

impl Ladder<'_> {
    /// Returns the context that wins by the block's `selection`; `None` if nothing is worth it.
    pub(super) async fn choose(
        &mut self,
        strategies: &[NamedStrategy],
        original: &Context,
    ) -> Option<Candidate> {
        if let Some(base) = self.base.clone() {
            let attempt = Attempt {
                strategy: base.strategies.last()?.clone(),
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
            Selection::Ladder => {
                let mut stack = self.climb(strategies, original, self.base.clone()).await;
                if self.trigger == Trigger::Window && !stack.stages.iter().any(|stage| self.fits(stage)) {
                    self.add_last_resort(&mut stack, strategies, original).await;
                }
                self.attempts.extend(stack.attempts);
                self.pick(stack.stages)
            }
            Selection::Best => self.best(strategies, original).await,
        }
    }

    /// Applies the strategies in order, each to what those before it reached from `reached`, until one
    /// satisfies. One that is not worth it is left out.
    async fn climb(
        &self,
        strategies: &[NamedStrategy],
        original: &Context,
        mut reached: Option<Candidate>,
    ) -> Stack {
        let mut stack = Stack::default();
        for (nth, strategy) in strategies.iter().enumerate() {
            let (attempt, candidate) = self.make_attempt(strategy, original, reached.as_ref()).await;
            let is_kept = is_kept(&attempt.verdict);
            stack.attempts.push(attempt);
            let Some(candidate) = candidate else { continue };
            if self.satisfies(&candidate) {
                // It is rarely needed, and would make the future of each step larger.
                let candidate = self
                    .fuller(strategies, nth, original, reached.as_ref(), candidate, &mut stack.attempts)
                    .boxed()
                    .await;
                stack.stages.push(candidate);
                break;
            }
            // The window may demand even what is not worth it.
            if is_kept || self.trigger == Trigger::Window {
                stack.stages.push(candidate.clone());
            }
            if is_kept {
                reached = Some(candidate);
            }
        }
        stack
    }

    /// Returns what the strategy at `nth` made of `reached`, which satisfies, or what keeps more. Clearing
    /// and dropping take whole messages, and one large one less may be far too much: extraction, of what was
    /// there at first, and what comes after may fill the target. What was paid for is not begun again.
    async fn fuller(
        &self,
        strategies: &[NamedStrategy],
        nth: usize,
        original: &Context,
        reached: Option<&Candidate>,
        satisfying: Candidate,
        attempts: &mut Vec<Attempt>,
    ) -> Candidate {
        let is_over = original.size().tokens > self.rules.target.tokens;
        if !is_over || self.fills(&satisfying) {
            return satisfying;
        }
        let (before, rest) = (&strategies[..nth], &strategies[nth + 1..]);
        let extraction = before.iter().find(|before| before.is_extraction());
        let is_clearing = strategies[nth].is_clearing();
        // Dropping is a fallback where extraction was to come first; elsewhere it is what was asked for.
        let rest = rest.iter().filter(|rest| extraction.is_some() || is_clearing && rest.is_extraction());
        let is_paid = reached.is_some_and(|reached| reached.impact.model_calls > 0);
        let again = extraction.filter(|_| !is_paid).map(|extraction| (extraction, self.base.as_ref()));
        let mut fullest = satisfying;
        for (strategy, from) in again.into_iter().chain(rest.map(|strategy| (strategy, reached))) {
            let (attempt, candidate) = self.make_attempt(strategy, original, from).await;
            attempts.push(attempt);
            let is_fuller = |other: &Candidate| {
                self.satisfies(other) && other.impact.after.tokens > fullest.impact.after.tokens
            };
            if let Some(fuller) = candidate.filter(is_fuller) {
                fullest = fuller;
            }
            if self.fills(&fullest) {
                break;
            }
        }
        fullest
    }

    /// Checks whether a result uses most of its target.
    fn fills(&self, candidate: &Candidate) -> bool {
        candidate.impact.after.tokens >= self.rules.target.tokens.share(FULL_PERCENT, 100)
    }

    /// Adds the last strategy's attempt on the original. What others wrote may be in its way, and the window
    /// demands a fit if there is one.
    async fn add_last_resort(&self, stack: &mut Stack, strategies: &[NamedStrategy], original: &Context) {
        let n_base = self.base.as_ref().map_or(0, |base| base.strategies.len());
        let was_stacked = stack.attempts.last().is_some_and(|attempt| attempt.after.len() > n_base);
        if let Some(last) = strategies.last().filter(|_| was_stacked) {
            let (attempt, candidate) = self.make_attempt(last, original, self.base.as_ref()).await;
            stack.attempts.push(attempt);
            stack.stages.extend(candidate);
        }
    }

    /// Climbs from each of the strategies on, all at once: of the results that satisfy, the one that loses
    /// least wins, then the one with fewer model tokens, then the first.
    async fn best(&mut self, strategies: &[NamedStrategy], original: &Context) -> Option<Candidate> {
        let stacks = self.stacks(strategies, original).await;
        let inventory = Inventory::of(original, self.rules.focus.as_ref());
        let mut satisfying = Vec::new();
        let mut all = Vec::new();
        for Stack { mut attempts, stages } in stacks {
            if let Some((attempt, stage)) = attempts.last_mut().zip(stages.last())
                && self.satisfies(stage)
            {
                let loss = inventory.lost_in(&stage.context);
                attempt.loss = Some(loss);
                let usage = stage.impact.usage;
                satisfying.push((loss, usage.prompt_tokens + usage.completion_tokens, stage.clone()));
            }
            self.attempts.extend(attempts);
            all.extend(stages);
        }
        match satisfying.into_iter().min_by_key(|(loss, model_tokens, _)| (*loss, *model_tokens)) {
            Some((_, _, candidate)) => Some(candidate),
            None => self.pick(all),
        }
    }

    /// Returns the stacks that begin with each of the strategies. A strategy that is left out at the start of
    /// one is not followed by the others: the stack that begins with the next one is the same.
    async fn stacks(&self, strategies: &[NamedStrategy], original: &Context) -> Vec<Stack> {
        let stacks = strategies.iter().enumerate().map(|(at, strategy)| async move {
            let (attempt, first) = self.make_attempt(strategy, original, self.base.as_ref()).await;
            let continues = is_kept(&attempt.verdict) && !first.as_ref().is_some_and(|c| self.satisfies(c));
            let rest = match first.clone().filter(|_| continues) {
                Some(first) => self.climb(&strategies[at + 1..], original, Some(first)).await,
                None => Stack::default(),
            };
            Stack {
                attempts: std::iter::once(attempt).chain(rest.attempts).collect(),
                stages: first.into_iter().chain(rest.stages).collect(),
            }
        });
        join_all(stacks).await
    }

    /// Returns the first that satisfies; else the smallest that is worth it or, if the window demands it, the
    /// smallest that fits.
    fn pick(&self, mut all: Vec<Candidate>) -> Option<Candidate> {
        all.extend(self.base.clone());
        if let Some(at) = all.iter().position(|candidate| self.satisfies(candidate)) {
            return Some(all.swap_remove(at));
        }
        all.into_iter()
            .filter(|candidate| self.fits(candidate) && self.is_worth_it(candidate))
            .min_by_key(|candidate| candidate.impact.after.tokens)
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
        let checked = result.map_err(|error| error.with_causes()).and_then(|(after, impact)| {
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

    fn fits(&self, candidate: &Candidate) -> bool {
        candidate.impact.after.tokens <= self.room
    }

    /// Checks whether a result is applied if none satisfies. One that was paid for is not thrown away.
    fn is_worth_it(&self, candidate: &Candidate) -> bool {
        self.trigger == Trigger::Window
            || candidate.impact.model_calls > 0
            || candidate.impact.is_significant(self.rules.min_reduction)
    }
}

/// A result of at least this share of the target is full, in percent.
const FULL_PERCENT: u64 = 85;

/// Checks whether later strategies continue from a result so judged: it saved enough of what it was given, or
/// was paid for.
fn is_kept(verdict: &AttemptVerdict) -> bool {
    match verdict {
        AttemptVerdict::Satisfied(_) | AttemptVerdict::Significant(_) => true,
        AttemptVerdict::Insignificant(impact) => impact.model_calls > 0,
        AttemptVerdict::NotApplicable | AttemptVerdict::Failed { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use pretty_assertions::assert_eq;

    use super::super::fixture::{Script, budget, conversation, fit, fit_again, picture, settings};
    use super::super::{
        CompactionReport, CompactionStrategy, ContextCompactor, Outcome, Rung, StrategyError, Truncation,
    };
    use super::*;
    use crate::{Conversation, Edit, Message};

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
    fn each_continues_from_what_those_before_it_reached_until_one_satisfies() {
        let six = || vec![2, 3, 4, 5, 6];
        for (strategies, expected_picture, expected) in [
            // Groups are counted in what is left.
            (
                vec![Drops("some", vec![2, 3]), Drops("enough", vec![2, 3, 4]), Drops("more", vec![2])],
                "su[aaaaa]aaa",
                vec!["some significant", "enough satisfied after some"],
            ),
            // A significant result stays, even if the target needs more.
            (
                vec![Drops("some", vec![2, 3]), Drops("enough", six())],
                "su[aaaaaaa]a",
                vec!["some significant", "enough satisfied after some"],
            ),
            // One that is not worth it is left out of the stack, and so is one that fails or does nothing.
            (
                vec![
                    Drops("little", vec![2]),
                    Drops("wrong", vec![0]),
                    Drops("nothing", vec![]),
                    Drops("first", vec![2, 3]),
                    Drops("second", vec![2, 3, 4]),
                ],
                "su[aaaaa]aaa",
                vec![
                    "little insignificant",
                    "wrong: it lost a leading system message",
                    "nothing insignificant",
                    "first significant",
                    "second satisfied after first",
                ],
            ),
            // One that satisfies is always worth it: here it saves one message of six.
            (
                vec![Drops("most", vec![2, 3, 4, 5]), Drops("rest", vec![2])],
                "su[aaaaa]aaa",
                vec!["most significant", "rest satisfied after most"],
            ),
            (vec![Drops("all", six())], "su[aaaaa]aaa", vec!["all satisfied"]),
        ] {
            let (picture, _, verdicts) = climb(strategies);
            assert_eq!((picture.as_str(), verdicts), (expected_picture, strings(&expected)));
        }
    }

    #[test]
    fn where_clearing_takes_far_too_much_a_record_keeps_more() {
        for (notation, target, expected) in [
            // Each result is a fifth of all.
            ("suatRatRatRatRaaaaaaa", 2_500, "extraction"),
            ("sutRtRtRtRtRtRtRtRtRtRa", 8_000, "clear_tool_results"),
        ] {
            let mut log = conversation(notation);
            let yaml = format!(
                "{{ token_threshold: {}, max_tokens: {target}, strategies: [clear_tool_results: {{ keep: 0 }}, \
                 extraction], retention_window: 1 }}",
                target + 100
            );
            let report = fit_again(&yaml, 100_000, &mut log, &Script::new(Vec::new())).report;
            assert_eq!(winners(&report), [expected], "{notation}: {:?}", verdicts(&report));
        }
    }

    #[test]
    fn truncation_comes_last_and_continues_from_the_others() {
        for (own, expected) in [
            (
                vec![Drops("first", vec![2, 3]), Drops("second", vec![2, 3, 4])],
                vec!["first significant", "second satisfied after first"],
            ),
            (
                vec![Drops("little", vec![2]), Drops("second", vec![2, 3, 4])],
                vec!["little insignificant", "second significant", "truncation satisfied after second"],
            ),
            (vec![Drops("little", vec![2])], vec!["little insignificant", "truncation satisfied"]),
        ] {
            let report = choose("strategies: [truncation]", &mut conversation("suaaaaaaaa"), own);
            assert_eq!(verdicts(&report), strings(&expected), "{report:?}");
        }
    }

    #[test]
    fn a_registered_strategy_comes_after_the_others_unless_the_list_names_it() {
        for (yaml, is_named, expected) in [
            ("strategies: [sliding_window]", false, ["sliding_window", "own", "truncation"]),
            ("strategies: [sliding_window, truncation]", false, ["sliding_window", "own", "truncation"]),
            ("strategies: [sliding_window]", true, ["own", "sliding_window", "truncation"]),
        ] {
            let mut settings = settings(&format!("{{ min_reduction: 100%, {yaml} }}"), 1_020);
            if is_named {
                settings.strategies.insert(0, Rung::Registered(StrategyId::new("own").unwrap()));
            }
            let compactor = ContextCompactor::new().register_strategy(Arc::new(Drops("own", vec![2])));
            let order: Vec<_> =
                compactor.strategies(&settings).iter().map(|own| own.id.to_string()).collect();
            assert_eq!(order, expected, "{yaml} {is_named}");
        }
    }

    /// Builds eight messages of the agent, each of which names a thing of its own.
    fn naming() -> Conversation {
        let mut log = Conversation::new();
        log.add(Message::system("s".repeat(96))).user("u".repeat(96));
        for nth in 0..8 {
            log.agent(format!("{:.<96}", format!("thing_number_{nth} ")));
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
        assert_eq!(
            verdicts(&report),
            strings(&[
                "much satisfied",
                "too little significant",
                "enough satisfied after too little",
                "enough satisfied",
                "as much satisfied",
            ])
        );
        let losses: Vec<bool> = report.attempts.iter().map(|attempt| attempt.loss.is_some()).collect();
        assert_eq!(losses, [true, false, true, true, true]);
        assert_eq!(winners(&choose("selection: ladder", &mut naming(), own())), ["much"]);
        // A stack that begins with what is left out is the next one: nothing is tried twice on one input.
        let own = vec![Drops("little", vec![2]), Drops("first", vec![2, 3]), Drops("second", vec![2, 3, 4])];
        let report = choose("selection: best", &mut naming(), own);
        assert_eq!(winners(&report), ["first", "second"]);
        let expected = [
            "little insignificant",
            "first significant",
            "second satisfied after first",
            "second significant",
        ];
        assert_eq!(verdicts(&report), strings(&expected));
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
        assert_eq!(actual, "su[uuu]uuuuua", "reaching the target is significant: {report:?}");
        let (actual, report) = fit("{ min_reduction: 90% }", 1_000, "SUaa", &Script::new(Vec::new()));
        assert_eq!((actual.as_str(), report.outcome.name()), ("SUaa", "still_over"));
        let (actual, _) = fit(
            "{ strategies: [sliding_window], min_reduction: 90% }",
            2_250,
            "SUaaa",
            &Script::new(Vec::new()),
        );
        assert_eq!(actual, "SUa~a~a~");
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

    #[test]
    fn where_the_least_fits_there_is_a_way() {
        for yaml in ["{}", "strategies: [extraction]"] {
            for notation in ["trtrtrtr", "trrtra", "aatrtr", "utrtrtr", "sutrtra"] {
                let fit_in = |room| {
                    fit_again(yaml, room, &mut conversation(notation), &Script::new(Vec::new())).result
                };
                let need = fit_in(4).unwrap_err().need.as_u64();
                for room in need..need + 100 {
                    assert!(fit_in(room).is_ok(), "{yaml} {notation}: {room}, {need} were needed");
                }
            }
        }
    }
}
