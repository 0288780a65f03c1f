//! Makes a context fit: decides when compaction is due, tries the strategies, and proves the result.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::compact::most_default_target;
use super::ladder::{Candidate, Ladder};
use super::named_strategy::NamedStrategy;
use super::pinned_text::PinnedText;
use super::standing::{First, Standing, still_over, sum};
use super::strategies::cut_first_user;
use super::{
    CompactionImpact, CompactionReport, CompactionRules, CompactionServices, CompactionSettings,
    CompactionStrategy, Outcome, Rung, SizeLimits, Trigger, Truncation,
};
use crate::{Budget, Context, Prompt, PromptPart, Size, StillOver, StrategyId, Term, TokenCounter, Tokens};

/// A compactor, which makes contexts fit by strategies of its own and those registered with it.
#[derive(Clone, Default)]
pub struct ContextCompactor {
    registered: Vec<Arc<dyn CompactionStrategy>>,
}

/// The result of fitting a context.
#[derive(Debug)]
pub struct Fit {
    /// The report about it.
    pub report: CompactionReport,
    /// The prompt, or the reason why none fits.
    pub result: Result<Fitted, StillOver>,
}

/// A context that fits.
#[derive(Debug)]
pub struct Fitted {
    /// The prompt that may be sent.
    pub prompt: Prompt,
    /// The compacted context, for [`crate::Conversation::record`]; `None` if nothing was compacted.
    pub compacted: Option<Context>,
}

impl ContextCompactor {
    /// Creates a compactor with the strategies that come with the crate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a custom strategy. It replaces one of the same id; otherwise it is tried at its place in
    /// `strategies` ([`Rung::Registered`]), or after all of them but truncation. One with a blank id is not
    /// tried, and neither is a [`Rung::Registered`] that no strategy has as its id.
    #[must_use]
    pub fn register_strategy(mut self, strategy: Arc<dyn CompactionStrategy>) -> Self {
        self.registered.retain(|known| known.id() != strategy.id());
        self.registered.push(strategy);
        self
    }

    /// Iterates over the custom strategies, in the order in which they were registered.
    pub fn registered(&self) -> impl Iterator<Item = &Arc<dyn CompactionStrategy>> {
        self.registered.iter()
    }

    /// Makes `context` fit `budget`, compacting it if a trigger of `settings` or the window demands it, and
    /// proves it. `settings` are made for this budget.
    pub async fn fit(
        &self,
        settings: &CompactionSettings,
        context: Context,
        budget: &Budget,
        services: &dyn CompactionServices,
    ) -> Fit {
        let context = context.within(budget.frame());
        match trigger(settings, &context, budget) {
            None => not_compacted(Outcome::NotTriggered, None, context, budget),
            Some(trigger) if !settings.auto_compact => {
                refuse(trigger, &context, still_over(whole(&context), budget.room()))
            }
            Some(trigger) => self.compact(trigger, settings, context, budget, services).await,
        }
    }

    /// Makes all requests to models that a fit of `context` would make, and nothing else; `services` are
    /// those of a [`super::Rehearsal`]. Makes none if the block wants none.
    pub async fn rehearse(
        &self,
        settings: &CompactionSettings,
        context: Context,
        budget: &Budget,
        services: &dyn CompactionServices,
    ) {
        if settings.prepares_in_background() {
            drop(self.fit(settings, context, budget, services).await);
        }
    }

    /// Returns the reason why a compaction of `context` is due, if [`Self::fit`] would try one, so that
    /// others may be asked first. Returns `None` also if what must stay exceeds the room, as there is nothing
    /// to try.
    pub fn due(
        &self,
        settings: &CompactionSettings,
        context: &Context,
        budget: &Budget,
        counter: &dyn TokenCounter,
    ) -> Option<Trigger> {
        let context = context.clone().within(budget.frame());
        let trigger = trigger(settings, &context, budget).filter(|_| settings.auto_compact)?;
        let plan = plan(trigger, &settings.rules, &context, budget, counter);
        matches!(plan, Plan::Try { .. }).then_some(trigger)
    }

    /// Returns the result if `by` denies the compaction that `trigger` made due: a threshold's is postponed;
    /// over the window there is no prompt.
    pub fn veto(&self, trigger: Trigger, by: &str, reason: &str, context: Context, budget: &Budget) -> Fit {
        let context = context.within(budget.frame());
        if trigger == Trigger::Window {
            return refuse(trigger, &context, still_over(whole(&context), budget.room()));
        }
        let outcome = Outcome::Vetoed { by: by.to_owned(), reason: reason.to_owned() };
        not_compacted(outcome, Some(trigger), context, budget)
    }

    /// Compacts `context` whether or not a trigger is exceeded, and proves it.
    pub async fn compact_context(
        &self,
        settings: &CompactionSettings,
        context: Context,
        budget: &Budget,
        services: &dyn CompactionServices,
    ) -> Fit {
        let context = context.within(budget.frame());
        let over = context.size().tokens > budget.room();
        let trigger = if over { Trigger::Window } else { Trigger::Asked };
        self.compact(trigger, settings, context, budget, services).await
    }

    async fn compact(
        &self,
        trigger: Trigger,
        settings: &CompactionSettings,
        context: Context,
        budget: &Budget,
        services: &dyn CompactionServices,
    ) -> Fit {
        let (rules, standing, first) =
            match plan(trigger, &settings.rules, &context, budget, services.counter()) {
                Plan::Refuse(terms) => return refuse(trigger, &context, still_over(terms, budget.room())),
                Plan::Leave(outcome, trigger) => return not_compacted(outcome, trigger, context, budget),
                Plan::Try { rules, standing, first } => (rules, standing, first),
            };
        let strategies = self.strategies(settings);
        let pinned = PinnedText::of(&context, &standing, rules.target.tokens, services.counter());
        let mut ladder = Ladder {
            rules: &rules,
            selection: settings.selection,
            trigger,
            room: budget.room(),
            services,
            pinned,
            attempts: Vec::new(),
            base: match first {
                First::Whole => None,
                First::Cut => with_first_cut(&rules, &context, &standing, services.counter()),
            },
        };
        let winner = ladder.choose(&strategies, &context).await;
        let attempts = std::mem::take(&mut ladder.attempts);
        let mut fit = match winner {
            // The parts that must stay would fit, but no attempt came to a result that keeps every rule: no
            // part of the context can be shown to be removable, and the attempts tell why.
            None if trigger == Trigger::Window => {
                refuse(trigger, &context, still_over(whole(&context), budget.room()))
            }
            None => not_compacted(Outcome::NothingToCut, Some(trigger), context, budget),
            Some(winner) => {
                let outcome = Outcome::Applied { strategies: winner.strategies, impact: winner.impact };
                let compacted = winner.context.numbered();
                let report = CompactionReport {
                    trigger: Some(trigger),
                    outcome,
                    summary: CompactionReport::summary_of(&context, &compacted),
                    attempts: Vec::new(),
                    before: context.size(),
                    after: compacted.size(),
                };
                let prompt = budget.admit(compacted.clone());
                Fit { report, result: prompt.map(|prompt| Fitted { prompt, compacted: Some(compacted) }) }
            }
        };
        fit.report.attempts = attempts;
        fit
    }

    /// Returns the strategies in order: those that `settings` name, then the other registered ones; the last
    /// resort stays the last.
    pub(super) fn strategies(&self, settings: &CompactionSettings) -> Vec<NamedStrategy> {
        let mut strategies: Vec<_> =
            settings.strategies.iter().filter_map(|rung| self.strategy(rung)).collect();
        let last = strategies.iter().position(|strategy| strategy.id() == Truncation::ID);
        let last = last.map(|at| strategies.remove(at));
        for own in &self.registered {
            if strategies.iter().chain(&last).all(|known| known.id() != own.id()) {
                strategies.push(Arc::clone(own));
            }
        }
        strategies.into_iter().chain(last).filter_map(NamedStrategy::new).collect()
    }

    fn strategy(&self, rung: &Rung) -> Option<Arc<dyn CompactionStrategy>> {
        let registered = self.registered.iter().find(|strategy| strategy.id() == rung.id()).cloned();
        registered.or_else(|| rung.built_in())
    }
}

/// The plan for a context, before any strategy is asked.
enum Plan {
    /// A refusal: the parts that must stay, these terms, exceed the room.
    Refuse(Vec<Term>),
    /// It is left as it is.
    Leave(Outcome, Option<Trigger>),
    /// Strategies try to reach the targets of this block.
    Try { rules: Box<CompactionRules>, standing: Standing, first: First },
}

fn plan(
    trigger: Trigger,
    rules: &CompactionRules,
    context: &Context,
    budget: &Budget,
    counter: &dyn TokenCounter,
) -> Plan {
    let standing = Standing::of(context, rules, 0);
    // The estimate assumes the largest marker, so it can exceed the size of a context that was compacted
    // already.
    let whole = sum(&standing.least(context, First::Whole, counter)).min(context.size().tokens);
    let (first, tokens) = if whole <= budget.room() {
        (First::Whole, whole)
    } else {
        let terms = standing.least(context, First::Cut, counter);
        let cut = sum(&terms);
        if cut > budget.room() {
            return Plan::Refuse(terms);
        }
        (First::Cut, cut)
    };
    let least = Size { tokens, ..standing.least_counts(context) };
    let mut rules = within_reach(rules, least, budget.room(), trigger);
    // What must stay has no part that could be smaller, but for the first user message.
    if first == First::Cut && whole == context.size().tokens {
        rules = for_the_task_alone(rules, context.size(), budget.room());
    }
    match trigger {
        Trigger::Asked if rules.is_satisfied_by(context.size()) => {
            Plan::Leave(Outcome::NothingToCut, Some(trigger))
        }
        Trigger::Tokens | Trigger::Messages | Trigger::Turns
            if rules.should_compact(context.size()).is_none() =>
        {
            Plan::Leave(Outcome::NotTriggered, None)
        }
        _ => Plan::Try { rules: Box::new(rules), standing, first },
    }
}

/// Cuts the first user message of the context if the room cannot hold it whole whatever else yields: to what
/// the rest leaves of the target, or to half of the target if that is more, so that the rest need not yield
/// everything.
fn with_first_cut(
    rules: &CompactionRules,
    context: &Context,
    standing: &Standing,
    counter: &dyn TokenCounter,
) -> Option<Candidate> {
    let first = context.messages()[context.first_user()?].tokens();
    let target = rules.target.tokens;
    let least = sum(&standing.least(context, First::Whole, counter)) - first;
    let half = target.share(1, 2).min(target - least);
    let most = (target - (context.size().tokens - first)).max(half);
    let (after, yielded) = cut_first_user(context, standing, most, counter)?;
    let impact = CompactionImpact::new(context.size(), after.size(), yielded);
    Some(Candidate { strategies: vec![StrategyId::new(Truncation::ID).ok()?], context: after, impact })
}

/// Returns the reason to compact a context automatically: the window, else a threshold.
fn trigger(settings: &CompactionSettings, context: &Context, budget: &Budget) -> Option<Trigger> {
    if context.size().tokens > budget.room() {
        return Some(Trigger::Window);
    }
    settings.auto_compact.then(|| settings.rules.should_compact(context.size())).flatten()
}

fn whole(context: &Context) -> Vec<Term> {
    vec![Term { part: PromptPart::Context, tokens: context.size().tokens }]
}

/// Returns the block with limits that can be reached. If the least that must remain exceeds a target, no
/// strategy can reach it, and stripping the rest would gain nothing: its trigger is then at least twice that
/// least, and the room at most, and its target half-way between.
fn within_reach(rules: &CompactionRules, least: Size, room: Tokens, reason: Trigger) -> CompactionRules {
    let mut reachable = rules.clone();
    // A compaction that was asked for goes down to its target.
    if rules.is_default_target && reason != Trigger::Asked {
        let beside = least.tokens + (rules.trigger.tokens - least.tokens).share(1, LEAST_BESIDE);
        let most = most_default_target(rules.trigger.tokens);
        reachable.target.tokens = rules.target.tokens.max(beside.min(most));
    }
    if least.tokens > reachable.target.tokens {
        let trigger = rules.trigger.tokens.max(least.tokens + least.tokens).min(room);
        let target = least.tokens + (trigger - least.tokens).share(1, 2);
        reachable = reachable.with_token_limits(trigger, target);
    }
    let SizeLimits { turns, .. } = reachable.target;
    reachable.target.turns = turns.map(|target| two_below(reachable.trigger.turns, target));
    let counts = [
        (&mut reachable.trigger.messages, &mut reachable.target.messages, least.messages),
        (&mut reachable.trigger.turns, &mut reachable.target.turns, least.turns),
    ];
    for (trigger, target, least) in counts {
        if let Some(asked) = target.filter(|asked| least > asked.get()) {
            let (raised, reachable) = raise_target(*trigger, asked, least);
            *trigger = trigger.and(raised);
            *target = reachable;
        }
    }
    reachable
}

/// A default target leaves at least one of so many parts of what the trigger leaves beside what must stay:
/// else a long system prompt would leave nothing of the work in a small window.
const LEAST_BESIDE: u64 = 5;

/// Returns the block for a context of `size` whose first user message must be cut, and beside which nothing
/// may leave. A low target would take the task alone and gain no work: the target is the trigger, with a
/// tenth of the room free. A target that is set stays.
fn for_the_task_alone(rules: CompactionRules, size: Size, room: Tokens) -> CompactionRules {
    // Another compaction finds nothing to cut: what is left of the task belongs to what must stay.
    let counts_hold = rules.is_satisfied_by(Size { tokens: Tokens::ZERO, ..size });
    if !rules.is_default_target || !counts_hold {
        return rules;
    }
    let trigger = rules.trigger.tokens;
    let target = trigger.min(room.share(9, 10)).max(rules.target.tokens);
    rules.with_token_limits(trigger, target)
}

/// Returns a target for turns that is at least two below its trigger, if there is such a number: a trigger
/// fires at as many turns, so the next turn would be compacted again.
fn two_below(trigger: Option<NonZeroUsize>, target: NonZeroUsize) -> NonZeroUsize {
    let below = trigger.and_then(|trigger| NonZeroUsize::new(trigger.get().saturating_sub(2)));
    below.map_or(target, |below| target.min(below))
}

/// Returns a trigger of at least twice `least`, and a target half-way to it or, if that is less, as far below
/// it as was configured: two at least, or the next turn would be compacted again.
fn raise_target(
    trigger: Option<NonZeroUsize>,
    target: NonZeroUsize,
    least: usize,
) -> (Option<NonZeroUsize>, Option<NonZeroUsize>) {
    let asked = trigger.map_or(0, |trigger| trigger.get().saturating_sub(target.get()));
    let trigger = trigger.map_or(0, NonZeroUsize::get).max(2 * least);
    let apart = asked.max((trigger - least).div_ceil(2)).max(2);
    (NonZeroUsize::new(trigger), NonZeroUsize::new(trigger.saturating_sub(apart).max(least)))
}

fn not_compacted(outcome: Outcome, trigger: Option<Trigger>, context: Context, budget: &Budget) -> Fit {
    let size = context.size();
    let report =
        CompactionReport { trigger, outcome, summary: None, attempts: Vec::new(), before: size, after: size };
    Fit { report, result: budget.admit(context).map(|prompt| Fitted { prompt, compacted: None }) }
}

fn refuse(trigger: Trigger, context: &Context, still_over: StillOver) -> Fit {
    let size = context.size();
    let report = CompactionReport {
        trigger: Some(trigger),
        outcome: Outcome::StillOver(still_over.clone()),
        summary: None,
        attempts: Vec::new(),
        before: size,
        after: size,
    };
    Fit { report, result: Err(still_over) }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::Yield;
    use super::super::fixture::{Script, conversation, fit, fit_again, picture};
    use super::*;
    use crate::Conversation;

    /// Returns the turns of a chat of `n_turns` after which it is compacted.
    fn compacted_at(yaml: &str, n_turns: usize) -> Vec<usize> {
        let mut log = Conversation::new();
        let mut at = Vec::new();
        for turn in 1..=n_turns {
            log.add_all("u");
            let fit = fit_again(yaml, 1_000_000, &mut log, &Script::summarizing());
            if matches!(fit.report.outcome, Outcome::Applied { .. }) {
                at.push(turn);
            }
            log.add_all("tra");
        }
        at
    }

    #[test]
    fn turns_trigger_compactions_that_are_turns_apart() {
        for (yaml, first, apart) in [
            // The first and the latest turn always stay.
            ("{ turn_threshold: 1 }", 4, 2),
            ("{ turn_threshold: 2 }", 4, 2),
            ("{ turn_threshold: 3 }", 4, 2),
            ("{ turn_threshold: 3, model: m }", 4, 2),
            ("{ turn_threshold: 3, strategies: [sliding_window] }", 4, 2),
            ("{ turn_threshold: 4 }", 4, 2),
            ("{ turn_threshold: 10 }", 10, 5),
            ("{ turn_threshold: 10, max_turns: 3 }", 10, 7),
            ("{ turn_threshold: 10, model: m }", 10, 5),
            ("{ turn_threshold: 10, strategies: [clear_tool_results] }", 10, 5),
            ("{ turn_threshold: 10, retention_window: 50 }", 10, 5),
            // A target right below its trigger would be exceeded by the next turn.
            ("{ turn_threshold: 10, max_turns: 9 }", 10, 2),
            ("{ turn_threshold: 3, max_turns: 2 }", 4, 2),
        ] {
            let expected: Vec<usize> = (first..=60).step_by(apart).collect();
            assert_eq!(compacted_at(yaml, 60), expected, "{yaml}");
        }
    }

    #[test]
    fn the_report_says_what_stands_in_the_place_of_what_left() {
        let summary = |yaml: &str, room: u64, notation: &str| {
            fit(yaml, room, notation, &Script::summarizing()).1.summary
        };
        let slide = "{ strategies: [sliding_window: { keep_first: 1, keep_last: 2 }] }";
        assert_eq!(
            summary(slide, 1_020, "suaaaaaaaaa").as_deref(),
            Some("[... 7 messages omitted: m2–m8 ...]")
        );
        let summarize = "{ model: m, strategies: [summarization], retention_window: 2 }";
        let expected = "<forge_context_summary>\nall went well\n</forge_context_summary>";
        assert_eq!(summary(summarize, 1_020, "suaaaaaaaaa").as_deref(), Some(expected));
        let record =
            summary("{ strategies: [extraction] }", 2_000, "suaaaaaaaaaaaaaaaaaaaaaa").unwrap_or_default();
        assert!(record.starts_with("<record>") && record.ends_with("</record>"), "{record}");
        // Nothing was applied, and nothing replaces what is only shorter.
        assert_eq!(summary("{}", 100_000, "suaa"), None);
        let shorten =
            "{ strategies: [truncation], token_threshold: 2000, max_tokens: 1900, retention_window: 0 }";
        assert_eq!(summary(shorten, 100_000, "suAAaa"), None);
        let dropped = summary("{ strategies: [truncation] }", 1_400, "sutRaatr");
        assert_eq!(dropped.as_deref(), Some("[... 2 messages omitted: m2–m3 ...]"));
    }

    #[test]
    fn the_first_user_message_yields_last_and_only_where_the_room_does_not_hold_it() {
        for (notation, room, expected, first_yields) in [
            // It stays as long as the room holds it with the least of all else.
            ("sUaaaaaa", 1_500, "sU[aaaaa]a", false),
            ("sUaaaa", 1_350, "sUa~a~a~a~", false),
            // It alone is larger than the room, or would be with what must stay.
            ("sU", 800, "sU~", true),
            ("U", 500, "U~", true),
            ("SU", 1_500, "SU~", true),
            ("sUaaaa", 1_000, "sU~[aaa]a", true),
            ("sUaaUtR", 1_500, "sU[aa]U~tR~", false),
            ("sUaaUtR", 1_000, "sU~[aa]U~tR~", true),
        ] {
            let mut log = conversation(notation);
            let fit = fit_again("{ strategies: [truncation] }", room, &mut log, &Script::new(Vec::new()));
            let Outcome::Applied { impact, .. } = &fit.report.outcome else {
                panic!("{notation} in {room}: {:?}", fit.report)
            };
            let actual = (picture(notation, &log), impact.yielded.contains(&Yield::FirstUserText));
            assert_eq!(actual, (expected.to_owned(), first_yields), "{notation} in {room}");
            assert!(impact.after.tokens <= Tokens::new(room) + crate::REQUEST_TOKENS, "{notation} in {room}");
        }
    }

    #[test]
    fn a_task_alone_is_cut_to_the_trigger() {
        for (yaml, notation, room, at_least, at_most) in [
            // The trigger is 802, and the target would be 501.
            ("{}", "sU", 1_000, 600, 802),
            ("{ strategies: [truncation] }", "U", 900, 550, 722),
            // A tenth of the room stays free.
            ("{ token_threshold: 5000 }", "sU", 1_000, 700, 902),
            // A note beside it may be shortened.
            ("{}", "snU", 1_090, 450, 546),
            // A target that is set holds.
            ("{ max_tokens: 400 }", "sU", 1_000, 250, 400),
        ] {
            let mut log = conversation(notation);
            let first = fit_again(yaml, room, &mut log, &Script::new(Vec::new()));
            let is = first.report.after.tokens.as_u64();
            assert!((at_least..=at_most).contains(&is), "{yaml} {notation} {room}: {is}");
            // It is not cut again.
            let cut = log.view();
            let again = fit_again(yaml, room, &mut log, &Script::new(Vec::new()));
            assert_eq!(again.report.outcome, Outcome::NotTriggered, "{yaml} {notation} {room}");
            assert_eq!(log.view(), cut);
        }
    }

    #[test]
    fn a_first_message_beyond_the_window_leaves_the_rest_its_half() {
        // The usual ladder continues from the message that was cut, and the work is not stripped for it.
        let mut log = conversation("sUaaaatrtrtrtr");
        let fit = fit_again("{}", 900, &mut log, &Script::new(Vec::new()));
        let Outcome::Applied { strategies, impact } = &fit.report.outcome else { panic!("{:?}", fit.report) };
        assert_eq!(strategies[0].as_str(), Truncation::ID);
        assert!(impact.yielded.contains(&Yield::FirstUserText), "{impact:?}");
        let view = log.view();
        let first = &view.messages()[1];
        assert!(
            first.message().to_text().contains("characters of m1 omitted"),
            "{}",
            first.message().to_text()
        );
        assert!(first.tokens() >= Tokens::new(150), "{}", first.tokens());
        // What follows fits as well, and the first message is not cut again.
        let cut = first.clone();
        for _ in 0..6 {
            log.add_all("tr");
            let fit = fit_again("{}", 900, &mut log, &Script::new(Vec::new()));
            assert!(fit.result.is_ok(), "{:?}", fit.report);
        }
        assert_eq!(log.view().messages()[1].message(), cut.message());
    }

    #[test]
    fn only_what_is_fixed_can_be_too_much() {
        for (notation, room, need) in [("SU", 1_000, 1_000), ("sstU", 200, 200)] {
            let (_, report) = fit("{}", room, notation, &Script::new(Vec::new()));
            let Outcome::StillOver(over) = report.outcome else { panic!("{notation}: {report:?}") };
            assert!(over.need >= Tokens::new(need), "{over}");
        }
        for room in 150..1_300 {
            let (_, report) = fit("{}", room, "sUaatr", &Script::new(Vec::new()));
            let is_over = matches!(report.outcome, Outcome::StillOver(_));
            // System message, the call, and the shortest of all else.
            assert_eq!(is_over, room < 100 + 9 + 100 + 9, "{room}: {:?}", report.outcome);
        }
    }
}
