//! Makes a context fit: says when compaction is due, lets the strategies try, and proves the result.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::ladder::{Ladder, Named};
use super::pin::Pinned;
use super::standing::{Standing, still_over};
use super::{
    ClearToolResults, Compact, CompactionReport, CompactionServices, CompactionStrategy, Extraction, Outcome,
    Rung, SlidingWindow, StrategyStatistics, Summarization, Trigger, Truncation,
};
use crate::{Budget, Context, Prompt, PromptPart, Size, StillOver, Term, TokenCounter, Tokens};

/// Makes contexts fit, by strategies of its own and those registered with it.
#[derive(Clone, Default)]
pub struct ContextCompactor {
    registered: Vec<Arc<dyn CompactionStrategy>>,
    record: StrategyStatistics,
}

/// What came of fitting a context.
#[derive(Debug)]
pub struct Fit {
    /// What there is to say about it.
    pub report: CompactionReport,
    /// The prompt, or why there is none.
    pub result: Result<Fitted, StillOver>,
}

/// A context that fits.
#[derive(Debug)]
pub struct Fitted {
    /// The prompt that may be sent.
    pub prompt: Prompt,
    /// The compacted context, for [`crate::Conversation::record`]; `None` where nothing was compacted.
    pub compacted: Option<Context>,
}

impl ContextCompactor {
    /// A compactor with the strategies that come with the crate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a strategy of one's own. It replaces one of the same id; else it is tried before those of
    /// `strategies`, or where these name it as [`Rung::Registered`].
    #[must_use]
    pub fn register_strategy(mut self, strategy: Arc<dyn CompactionStrategy>) -> Self {
        self.registered.retain(|known| known.id() != strategy.id());
        self.registered.push(strategy);
        self
    }

    /// The same compactor, told what became of the strategies so far in this run; `selection: adaptive` goes by it.
    #[must_use]
    pub fn informed_by(mut self, record: StrategyStatistics) -> Self {
        self.record = record;
        self
    }

    /// Makes `context` fit `budget`, compacting it if a trigger of `compact` or the window demands it, and proves it.
    /// `compact` is resolved for this budget.
    pub async fn fit(
        &self,
        compact: &Compact,
        context: Context,
        budget: &Budget,
        services: &dyn CompactionServices,
    ) -> Fit {
        match trigger(compact, &context, budget) {
            None => not_compacted(Outcome::NotTriggered, None, context, budget),
            Some(trigger) if !compact.compacts_by_itself() => {
                refused(trigger, &context, still_over(whole(&context), budget.room()))
            }
            Some(trigger) => self.compact(trigger, compact, context, budget, services).await,
        }
    }

    /// Asks for all that a fit of `context` would ask models for, and leaves it at that; `services` are those of a
    /// [`super::Rehearsal`]. Nothing is asked where the block wants no such thing.
    pub async fn rehearse(
        &self,
        compact: &Compact,
        context: Context,
        budget: &Budget,
        services: &dyn CompactionServices,
    ) {
        if compact.prepares_in_background() {
            drop(self.fit(compact, context, budget, services).await);
        }
    }

    /// What makes a compaction of `context` due, where [`Self::fit`] would try one: before it is tried, others may be
    /// asked. `None` also where what must stay is over the room, as there is nothing to try.
    pub fn due(
        &self,
        compact: &Compact,
        context: &Context,
        budget: &Budget,
        counter: &dyn TokenCounter,
    ) -> Option<Trigger> {
        let trigger = trigger(compact, context, budget).filter(|_| compact.compacts_by_itself())?;
        let plan = plan(trigger, compact, context, budget, counter);
        matches!(plan, Plan::Try { .. }).then_some(trigger)
    }

    /// What comes of it where somebody, `by` name, denies the compaction that `trigger` made due: a threshold's is put
    /// off; over the window there is no prompt.
    pub fn veto(&self, trigger: Trigger, by: &str, reason: &str, context: Context, budget: &Budget) -> Fit {
        if trigger == Trigger::Window {
            return refused(trigger, &context, still_over(whole(&context), budget.room()));
        }
        let outcome = Outcome::Vetoed { by: by.to_owned(), reason: reason.to_owned() };
        not_compacted(outcome, Some(trigger), context, budget)
    }

    /// Compacts `context` whether or not a trigger is exceeded, and proves it.
    pub async fn compact_context(
        &self,
        compact: &Compact,
        context: Context,
        budget: &Budget,
        services: &dyn CompactionServices,
    ) -> Fit {
        let over = context.size().tokens > budget.room();
        let trigger = if over { Trigger::Window } else { Trigger::Asked };
        self.compact(trigger, compact, context, budget, services).await
    }

    async fn compact(
        &self,
        trigger: Trigger,
        compact: &Compact,
        context: Context,
        budget: &Budget,
        services: &dyn CompactionServices,
    ) -> Fit {
        let (compact, standing) = match plan(trigger, compact, &context, budget, services.counter()) {
            Plan::Refuse(terms) => return refused(trigger, &context, still_over(terms, budget.room())),
            Plan::Leave(outcome, trigger) => return not_compacted(outcome, trigger, context, budget),
            Plan::Try { compact, standing } => (compact, standing),
        };
        let strategies = self.strategies(&compact);
        let pinned = Pinned::of(&context, &standing, compact.target_tokens());
        let mut ladder = Ladder {
            compact: &compact,
            trigger,
            room: budget.room(),
            services,
            pinned,
            record: &self.record,
            attempts: Vec::new(),
        };
        let winner = ladder.choose(&strategies, &context).await;
        let attempts = std::mem::take(&mut ladder.attempts);
        let mut fit = match winner {
            // What must stay would fit, but no attempt came to a result that keeps every rule: nothing of the context
            // can be shown to go, and the attempts say why.
            None if trigger == Trigger::Window => {
                refused(trigger, &context, still_over(whole(&context), budget.room()))
            }
            None => not_compacted(Outcome::NothingToCut, Some(trigger), context, budget),
            Some(winner) => {
                let outcome = Outcome::Applied { strategies: winner.strategies, impact: winner.impact };
                let compacted = winner.context.numbered();
                let report = CompactionReport {
                    trigger: Some(trigger),
                    outcome,
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

    /// The strategies in order: the registered ones that `compact` does not name, then those that it does.
    fn strategies(&self, compact: &Compact) -> Vec<Named> {
        let named: Vec<_> = compact.rungs().iter().filter_map(|rung| self.strategy(rung)).collect();
        let own =
            self.registered.iter().filter(|strategy| named.iter().all(|known| known.id() != strategy.id()));
        own.cloned().chain(named.iter().cloned()).filter_map(Named::new).collect()
    }

    fn strategy(&self, rung: &Rung) -> Option<Arc<dyn CompactionStrategy>> {
        let registered = self.registered.iter().find(|strategy| strategy.id() == rung.id()).cloned();
        registered.or_else(|| match rung {
            Rung::ClearToolResults(strategy) => Some(Arc::new(ClearToolResults::clone(strategy)) as Arc<_>),
            Rung::Summarization(strategy) => Some(Arc::new(Summarization::clone(strategy)) as Arc<_>),
            Rung::Extraction(strategy) => Some(Arc::new(Extraction::clone(strategy)) as Arc<_>),
            Rung::SlidingWindow(strategy) => Some(Arc::new(SlidingWindow::clone(strategy)) as Arc<_>),
            Rung::Truncation(strategy) => Some(Arc::new(Truncation::clone(strategy)) as Arc<_>),
            Rung::Registered(_) => None,
        })
    }
}

/// What is to be done about a context, before any strategy is asked.
enum Plan {
    /// What must stay, these terms, is over the room.
    Refuse(Vec<Term>),
    /// It is left as it is.
    Leave(Outcome, Option<Trigger>),
    /// Strategies try to reach the targets of this block.
    Try { compact: Box<Compact>, standing: Standing },
}

fn plan(
    trigger: Trigger,
    compact: &Compact,
    context: &Context,
    budget: &Budget,
    counter: &dyn TokenCounter,
) -> Plan {
    let standing = Standing::of(context, compact, 0);
    let terms = standing.least(context, counter);
    let tokens: Tokens = terms.iter().map(|term| term.tokens).sum();
    let least = Size { tokens, ..standing.least_counts(context) };
    if tokens > budget.room() {
        return Plan::Refuse(terms);
    }
    let compact = within_reach(compact, least, budget.room());
    match trigger {
        Trigger::Asked if compact.is_satisfied_by(context.size()) => {
            Plan::Leave(Outcome::NothingToCut, Some(trigger))
        }
        Trigger::Tokens | Trigger::Messages | Trigger::Turns
            if compact.should_compact(context.size()).is_none() =>
        {
            Plan::Leave(Outcome::NotTriggered, None)
        }
        _ => Plan::Try { compact: Box::new(compact), standing },
    }
}

/// What compacts a context that nobody asked to compact: the window, else a threshold.
fn trigger(compact: &Compact, context: &Context, budget: &Budget) -> Option<Trigger> {
    if context.size().tokens > budget.room() {
        return Some(Trigger::Window);
    }
    compact.compacts_by_itself().then(|| compact.should_compact(context.size())).flatten()
}

fn whole(context: &Context) -> Vec<Term> {
    vec![Term { part: PromptPart::Context, tokens: context.size().tokens }]
}

/// The block with limits that can be reached. Where the least that must remain is over a target, no strategy can satisfy
/// it, and stripping all the rest would gain nothing: its trigger is then at least twice that least, the room at most,
/// and its target half-way between.
fn within_reach(compact: &Compact, least: Size, room: Tokens) -> Compact {
    let mut reachable = compact.clone();
    if least.tokens > compact.target_tokens() {
        let trigger = compact.token_threshold.map_or(room, |limit| limit.within(room));
        let trigger = trigger.max(least.tokens + least.tokens).min(room);
        let target = least.tokens + (trigger - least.tokens).share(1, 2);
        reachable = reachable.with_token_limits(trigger, target);
    }
    if compact.max_messages.is_some_and(|target| least.messages > target.get()) {
        let (trigger, target) = raised(compact.message_threshold, least.messages);
        reachable.message_threshold = compact.message_threshold.and(trigger);
        reachable.max_messages = target;
    }
    if compact.max_turns.is_some_and(|target| least.turns > target.get()) {
        let (trigger, target) = raised(compact.turn_threshold, least.turns);
        reachable.turn_threshold = compact.turn_threshold.and(trigger);
        reachable.max_turns = target;
    }
    reachable
}

/// A trigger of at least twice `least`, and a target half-way to it.
fn raised(trigger: Option<NonZeroUsize>, least: usize) -> (Option<NonZeroUsize>, Option<NonZeroUsize>) {
    let trigger = trigger.map_or(0, NonZeroUsize::get).max(2 * least);
    (NonZeroUsize::new(trigger), NonZeroUsize::new(least + (trigger - least) / 2))
}

fn not_compacted(outcome: Outcome, trigger: Option<Trigger>, context: Context, budget: &Budget) -> Fit {
    let size = context.size();
    let report = CompactionReport { trigger, outcome, attempts: Vec::new(), before: size, after: size };
    Fit { report, result: budget.admit(context).map(|prompt| Fitted { prompt, compacted: None }) }
}

fn refused(trigger: Trigger, context: &Context, still_over: StillOver) -> Fit {
    let size = context.size();
    let report = CompactionReport {
        trigger: Some(trigger),
        outcome: Outcome::StillOver(still_over.clone()),
        attempts: Vec::new(),
        before: size,
        after: size,
    };
    Fit { report, result: Err(still_over) }
}
