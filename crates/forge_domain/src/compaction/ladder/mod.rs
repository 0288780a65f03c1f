//! Chooses among strategies, each of which continues from what the ones before it reached.

#[cfg(test)]
mod tests;

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
