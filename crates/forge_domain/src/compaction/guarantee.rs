//! The guarantees of every compaction, as one list of checks.
//!
//! Random and recorded conversations are checked against it, and authors of their own strategies may use it
//! too.

use super::omission::{MARKER_TOKENS, most_for_a_marker};
use super::pinned_text::PinnedText;
use super::restated::restated_notes;
use super::standing::{First, Hold, Standing, opens_with_user, sum};
use super::{
    ClearToolResults, CompactionServices, CompactionSettings, ContextCompactor, Extraction, Fit, Outcome,
    Rung, Summarization, Yield,
};
use crate::{
    Budget, Context, ContextMessage, Conversation, Message, Prompt, PromptPart, REQUEST_TOKENS, Role, Size,
    StillOver, StrategyId, TokenCounter, Tokens, added_breach, stale_reasoning,
};

/// A guarantee of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guarantee {
    /// Every tool result keeps its call and every call its results, in the order that the providers' rules
    /// and strict chat templates demand.
    WholeExchanges,
    /// The first turn is the user's if it was before.
    Opening,
    /// Nothing fixed is lost, and nothing yields that does not have to, the first user message least of all.
    Fixed,
    /// The result is never larger.
    NeverLarger,
    /// It fits, or it is refused truthfully before anything is sent.
    Fits,
    /// Compacting again to the same target finds nothing to cut.
    OnceIsEnough,
    /// Equal input gives equal messages.
    SameBytes,
    /// Each message is verbatim in the view, or replaced by exactly one entry; the view is what the log
    /// gives.
    Coverage,
    /// A failed or skipped compaction leaves the conversation unchanged.
    Unchanged,
    /// Reasoning is sent only in the view in which it was made.
    Reasoning,
}

/// A guarantee that a compaction broke.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{guarantee:?}: {what}")]
pub struct BrokenGuarantee {
    /// Which.
    pub guarantee: Guarantee,
    /// The details.
    pub what: String,
}

/// The result of fitting a conversation, and the guarantees that it broke.
#[derive(Debug)]
pub struct CheckedFit {
    /// The result.
    pub fit: Fit,
    /// The guarantees that it broke; none if all is well.
    pub broken: Vec<BrokenGuarantee>,
}

/// Fits the view of `conversation` by `settings`, which are made for `budget`, records the result, and
/// checks it against every guarantee. For tests: it compacts up to three times and counts the result again.
/// `services` must answer the same each time.
pub async fn fit_and_check(
    compactor: &ContextCompactor,
    settings: &CompactionSettings,
    conversation: &mut Conversation,
    budget: &Budget,
    services: &dyn CompactionServices,
) -> CheckedFit {
    let (untouched, before) = (conversation.clone(), conversation.view());
    let fit = compactor.fit(settings, before.clone(), budget, services).await;
    let mut books = Books::default();
    let again = compactor.fit(settings, before.clone(), budget, services).await;
    books.hold(Guarantee::SameBytes, essence(&fit) == essence(&again), || {
        "a second time it came out otherwise".into()
    });
    if let Some(compacted) = fit.result.as_ref().ok().and_then(|fitted| fitted.compacted.as_ref())
        && let Err(error) = conversation.record(compacted)
    {
        books.note(Guarantee::Coverage, error.to_string());
        books.hold(Guarantee::Unchanged, *conversation == untouched, || {
            "what cannot be recorded left traces".into()
        });
    }
    books.check_log(conversation, &conversation.view());
    let (before, after) = (before.within(budget.frame()), conversation.view().within(budget.frame()));
    books.check_sizes(settings, &fit, [&before, &after], budget, services);
    if let Ok(fitted) = &fit.result {
        books.check_reasoning(&fitted.prompt, &after);
    }
    if let Some(breach) = added_breach(before.messages(), after.messages()) {
        books.note(Guarantee::WholeExchanges, breach.to_string());
    }
    match &fit.report.outcome {
        Outcome::Applied { impact, strategies } => {
            let counter = services.counter();
            books.check_what_stays(settings, &impact.yielded, [&before, &after], counter);
            let marker = most_for_a_marker(counter);
            let asked = Asked { settings, strategies, marker };
            let standing = Standing::of(&before, &settings.rules, 0);
            let whole = sum(&standing.least(&before, First::Whole, counter));
            books.hold(
                Guarantee::Fixed,
                whole > budget.room() || !impact.yielded.contains(&Yield::FirstUserText),
                || format!("the first user message yielded where {whole} tokens would have held it whole"),
            );
            for what in &impact.yielded {
                books.hold(Guarantee::Fixed, asked.had_to_yield(*what, &before), || {
                    format!("{what:?} yielded to {strategies:?} and did not have to")
                });
            }
            // A target out of reach is raised by what must stay. Where preserved system messages had to
            // leave, less must stay than before, and the target is another. Where less must stay for another
            // reason, no trigger fires at least.
            let least = |context| Standing::of(context, &settings.rules, 0).least_counts(context);
            if !impact.yielded.contains(&Yield::SystemMessages) {
                let (more, enough) = if least(&before) == least(&after) {
                    let more = compactor.compact_context(settings, after, budget, services).await;
                    (more.report.outcome, Outcome::NothingToCut)
                } else {
                    let more = compactor.fit(settings, after, budget, services).await;
                    (more.report.outcome, Outcome::NotTriggered)
                };
                books.hold(Guarantee::OnceIsEnough, more == enough, || format!("{more:?}"));
            }
        }
        outcome => books.hold(Guarantee::Unchanged, *conversation == untouched, || outcome.name().to_owned()),
    }
    CheckedFit { fit, broken: books.broken }
}

/// Returns the decision and the messages that would be sent.
fn essence(fit: &Fit) -> (&Outcome, Option<Vec<&Message>>) {
    let messages = fit.result.as_ref().ok().map(|fitted| fitted.prompt.messages());
    (&fit.report.outcome, messages.map(|messages| messages.iter().map(ContextMessage::message).collect()))
}

#[derive(Default)]
struct Books {
    broken: Vec<BrokenGuarantee>,
}

impl Books {
    fn note(&mut self, guarantee: Guarantee, what: String) {
        self.broken.push(BrokenGuarantee { guarantee, what });
    }

    fn hold(&mut self, guarantee: Guarantee, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.note(guarantee, what());
        }
    }

    fn check_log(&mut self, conversation: &Conversation, view: &Context) {
        let coverage = conversation.coverage();
        self.hold(Guarantee::Coverage, coverage.is_complete(), || format!("{coverage:?}"));
        let is_function = conversation.refold() == *view;
        self.hold(Guarantee::Coverage, is_function, || "the view is not what the log gives".into());
    }

    fn check_sizes(
        &mut self,
        settings: &CompactionSettings,
        fit: &Fit,
        [before, after]: [&Context; 2],
        budget: &Budget,
        services: &dyn CompactionServices,
    ) {
        let (was, is) = (before.size(), after.size());
        let is_larger = is.tokens > was.tokens || is.messages > was.messages;
        self.hold(Guarantee::NeverLarger, !is_larger, || format!("{was:?} became {is:?}"));
        let told = (fit.report.before, fit.report.after);
        self.hold(Guarantee::Fits, told == (was, is), || format!("{told:?} was told of {was:?} and {is:?}"));
        match &fit.result {
            Ok(fitted) => {
                let count =
                    |message: &Message| ContextMessage::count(message.clone(), services.counter()).tokens();
                let counted = REQUEST_TOKENS + after.plain().map(count).sum();
                let proven = fitted.prompt.tokens() - budget.tools_tokens();
                self.hold(Guarantee::Fits, counted == proven && counted <= budget.room(), || {
                    format!("{counted} tokens, said to be {proven}, in a room of {}", budget.room())
                });
            }
            Err(over) => {
                let sum: Tokens = over.because.iter().map(|term| term.tokens).sum();
                let is_told = fit.report.outcome == Outcome::StillOver(StillOver::clone(over));
                let is_true = over.need > over.have && over.have == budget.room() && sum == over.need;
                self.hold(Guarantee::Fits, is_true && is_told, || {
                    format!("the refusal does not add up: {over}")
                });
                // What must stay is too much; that attempts broke rules would be no reason.
                let is_whole = over.because.iter().any(|term| term.part == PromptPart::Context);
                self.hold(Guarantee::Fits, !is_whole || !settings.auto_compact, || {
                    format!("no attempt came to anything: {:?}", fit.report.attempts)
                });
            }
        }
    }

    /// Checks that reasoning is sent if and only if its view is unchanged, and that the log has all of it.
    fn check_reasoning(&mut self, prompt: &Prompt, after: &Context) {
        for breach in stale_reasoning(prompt) {
            self.note(Guarantee::Reasoning, breach.to_string());
        }
        let sent = prompt.messages().iter().filter(|message| message.message().has_bound_reasoning());
        let due = after.messages().iter().filter(|message| message.message().has_bound_reasoning());
        self.hold(Guarantee::Reasoning, sent.eq(due), || "the log alone decides otherwise".into());
    }

    fn check_what_stays(
        &mut self,
        settings: &CompactionSettings,
        yielded: &[Yield],
        [before, after]: [&Context; 2],
        counter: &dyn TokenCounter,
    ) {
        let opens = opens_with_user(after) || !opens_with_user(before);
        self.hold(Guarantee::Opening, opens, || "the first turn is not the user's any more".into());
        let mut fixed = |holds: bool, what: &str| self.hold(Guarantee::Fixed, holds, || what.to_owned());
        let is_given_up = |one: Yield| yielded.contains(&one);

        let leading = ..before.n_leading_system();
        fixed(
            after.messages().get(leading) == before.messages().get(leading),
            "a leading system message is lost",
        );
        let first = |context: &Context| context.first_user().map(|at| context.messages()[at].clone());
        let is_kept = first(before) == first(after)
            || (is_given_up(Yield::FirstUserText) && first(before).is_some() == first(after).is_some());
        fixed(is_kept, "the first user message is lost");
        let latest = |context: &Context| context.latest_user().map(|at| context.messages()[at].clone());
        // Where there is but one user message, it yields as the first.
        let is_only = before.first_user() == before.latest_user();
        let is_kept = latest(before) == latest(after)
            || is_given_up(Yield::LatestUserText)
            || (is_only && is_given_up(Yield::FirstUserText));
        fixed(is_kept, "the latest user message is not as it was");
        let n_system =
            |context: &Context| context.plain().filter(|message| message.role() == Role::System).count();
        let is_kept = n_system(before) == n_system(after)
            || !settings.rules.preserve_system_messages
            || is_given_up(Yield::SystemMessages);
        fixed(is_kept, "a system message is lost");

        let standing = Standing::of(before, &settings.rules, n_kept(settings));
        let has = |message: &&ContextMessage| after.messages().contains(message);
        let of = |wanted: Hold| {
            let held = standing.groups.iter().zip(&standing.holds).filter(move |(_, hold)| **hold == wanted);
            held.flat_map(|(group, _)| &before.messages()[group.range()])
        };
        let is_smaller = is_given_up(Yield::RetentionSize) || is_given_up(Yield::CallArguments);
        fixed(
            is_smaller || of(Hold::LastGroup).all(|message| has(&message)),
            "the last group is not as it was",
        );
        let is_smaller = is_smaller || is_given_up(Yield::RetentionAge);
        // A message that replaces others already may be replaced by one that replaces more. The user's
        // words beyond their share yield as such, also among the newest messages.
        let restated = restated_notes(before, settings.rules.retention_window);
        let is_kept = |message: &ContextMessage| {
            let yields = message.starts_turn() && is_given_up(Yield::UserMessages);
            // What such a note loses stands elsewhere, too.
            let is_restated = || restated.keys().any(|at| before.messages()[*at].id() == message.id());
            has(&message) || message.message().is_compacted || yields || is_restated()
        };
        fixed(is_smaller || of(Hold::Retained).all(is_kept), "a retained message is not as it was");

        let standing = Standing::of(before, &settings.rules, 0);
        let pinned = PinnedText::of(before, &standing, settings.rules.target.tokens, counter);
        let broken = pinned.broken_rule(after, yielded);
        fixed(broken.is_none(), broken.unwrap_or_default());
        let order =
            |context: &Context| context.messages().iter().filter_map(ContextMessage::id).collect::<Vec<_>>();
        let (was, is) = (order(before), order(after));
        let (stayed, left): (Vec<_>, Vec<_>) = (
            is.iter().filter(|id| was.contains(id)).collect(),
            was.iter().filter(|id| is.contains(id)).collect(),
        );
        fixed(stayed == left, "messages changed places");
    }
}

/// Returns the number of newest messages that stay: a sliding window may set its own.
fn n_kept(settings: &CompactionSettings) -> usize {
    let own = settings.strategies.iter().filter_map(|rung| match rung {
        Rung::SlidingWindow(window) if window.keep_first.is_some() => {
            Some(window.keep_last.unwrap_or(usize::MAX))
        }
        Rung::SlidingWindow(window) => window.keep_last,
        _ => None,
    });
    own.fold(settings.rules.retention_window, usize::min)
}

/// A compaction's task, and who did it.
struct Asked<'a> {
    settings: &'a CompactionSettings,
    strategies: &'a [StrategyId],
    /// The least cost of a text in place of others.
    marker: Tokens,
}

impl Asked<'_> {
    /// Checks whether the targets would not hold, had `what` not yielded: what is held as firmly or more
    /// firmly exceeds them. A record has a claim to four fifths of the free tokens, so a fifth is too much
    /// beside it; summaries need space as well.
    fn had_to_yield(&self, what: Yield, before: &Context) -> bool {
        let Self { settings, strategies, marker } = self;
        let standing = Standing::of(before, &settings.rules, settings.rules.retention_window);
        let sum = |is_meant: fn(Hold) -> bool| {
            let meant = standing.groups.iter().zip(&standing.holds).filter(|(_, hold)| is_meant(**hold));
            let messages = meant.flat_map(|(group, _)| &before.messages()[group.range()]);
            messages.map(Size::of).fold(Size::default(), |sum, size| sum + size)
        };
        let fixed = sum(|hold| matches!(hold, Hold::Fixed | Hold::FirstUser | Hold::Pinned | Hold::User));
        let firm = sum(|hold| matches!(hold, Hold::LastGroup | Hold::LatestUser | Hold::System));
        let aged = match what {
            Yield::RetentionAge => sum(|hold| hold == Hold::Retained),
            _ => Size::default(),
        };
        let held = firm + aged;
        let rest = Size { tokens: REQUEST_TOKENS + *marker, messages: 1, turns: 0 };
        let free = settings.rules.target.tokens - REQUEST_TOKENS - fixed.tokens;
        let writes = |strategy: &StrategyId| [Extraction::ID, Summarization::ID].contains(&strategy.as_str());
        let is_beside_text = strategies.iter().any(writes) && held.tokens + *marker > free.share(1, 5);
        let is_told = match *strategies {
            // It clears results and nothing else: all the rest stays.
            [one] if one.as_str() == ClearToolResults::ID => false,
            // By a counter for which a marker is more than it is taken for, a few tokens may be lacking in
            // the end.
            [_] => what == Yield::RetentionAge || *marker <= MARKER_TOKENS + MARKER_TOKENS,
            // Of several, an earlier one cannot know what a later one will save.
            _ => false,
        };
        !is_told || is_beside_text || !settings.rules.is_satisfied_by(fixed + held + rest)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::fixture::{Characters, conversation, settings};
    use super::*;
    use crate::Edit;

    /// Returns the broken guarantees if these are dropped of the messages that `notation` describes.
    fn check(notation: &str, dropped: &[usize], yielded: &[Yield]) -> Vec<String> {
        let before = conversation(notation).view();
        let groups = before.groups();
        let drop = |at: &usize| Edit::Fold { span: groups.span(*at..*at + 1), with: Vec::new() };
        let after = before.edit(dropped.iter().map(drop).collect());
        let settings = settings("{ retention_window: 1 }", 100_000);
        let mut books = Books::default();
        books.check_what_stays(&settings, yielded, [&before, &after], &Characters);
        books.broken.into_iter().map(|broken| broken.what).collect()
    }

    #[test]
    fn what_is_lost_is_told() {
        for (notation, dropped, yielded, expected) in [
            ("suaau", &[2][..], &[][..], &[][..]),
            ("suaua", &[0], &[], &["a leading system message is lost", "a system message is lost"]),
            (
                "suaua",
                &[1],
                &[],
                &["the first turn is not the user's any more", "the first user message is lost"],
            ),
            ("suaua", &[3], &[], &["the latest user message is not as it was"]),
            ("suaua", &[3], &[Yield::LatestUserText], &[]),
            ("suasa", &[3], &[], &["a system message is lost"]),
            ("suasa", &[3], &[Yield::SystemMessages], &[]),
            ("suaaa", &[4], &[], &["the last group is not as it was"]),
        ] {
            assert_eq!(check(notation, dropped, yielded), expected, "{notation} {dropped:?}");
        }
    }
}
