//! What stays in a compaction: how firmly each group is held, and the least that must remain.

use std::ops::Add;

use super::Compact;
use super::omission::most_for_a_marker;
use super::pin::Pins;
use super::strategy::{SHORTEST, with_short_arguments};
use crate::{
    Context, ContextMessage, GroupKind, Groups, PromptPart, REQUEST_TOKENS, Role, Size, StillOver, Term,
    TokenCounter, Tokens,
};

/// How firmly a group is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// It stays: leading system messages and the first user message.
    Fixed,
    /// It stays: the newest group. Only the size of its results and texts may yield.
    LastGroup,
    /// It stays: the latest user message. Only its text may yield.
    LatestUser,
    /// A system message in mid-conversation that is to be preserved: yields last of all.
    System,
    /// Something in it is pinned: yields after everything else.
    Pinned,
    /// One of the newest messages: its age yields first.
    Retained,
    /// It may go.
    Free,
}

impl Hold {
    /// Whether a group so held may leave.
    pub(crate) const fn may_go(self) -> bool {
        matches!(self, Self::Retained | Self::Free)
    }
}

/// The groups of a context and how firmly each is held.
pub(crate) struct Standing {
    pub(crate) groups: Groups,
    pub(crate) holds: Vec<Hold>,
    pub(crate) n_leading_system: usize,
    pub(crate) pins: Pins,
}

impl Standing {
    /// Decides for every group of `context`, `n_retained` of whose newest messages are retained.
    pub(crate) fn of(context: &Context, compact: &Compact, n_retained: usize) -> Self {
        let groups = context.groups().clone();
        let n_leading_system = context.n_leading_system();
        let (first_user, latest_user) = (context.first_user(), context.latest_user());
        let retained_from = groups.retained_from(n_retained);
        let last = groups.len().checked_sub(1);
        let pins = Pins::new(compact.pin.as_deref().unwrap_or_default(), &compact.keep);
        let holds = groups
            .iter()
            .enumerate()
            .map(|(index, group)| {
                let has = |position: Option<usize>| position.is_some_and(|at| group.range().contains(&at));
                match group.kind() {
                    _ if group.range().start < n_leading_system || has(first_user) => Hold::Fixed,
                    _ if has(latest_user) => Hold::LatestUser,
                    _ if Some(index) == last => Hold::LastGroup,
                    _ if context.messages()[group.range()].iter().any(|message| pins.hold(message)) => {
                        Hold::Pinned
                    }
                    GroupKind::System if compact.preserves_system_messages() => Hold::System,
                    _ if index >= retained_from => Hold::Retained,
                    _ => Hold::Free,
                }
            })
            .collect();
        Self { groups, holds, n_leading_system, pins }
    }

    /// Whether any group may leave.
    pub(crate) fn has_any_that_may_go(&self) -> bool {
        self.holds.iter().any(|hold| hold.may_go())
    }

    /// The message with its text cut as far as it may be: to its pinned lines, else to the shortest. `None` where that is
    /// no shorter.
    pub(crate) fn cut_to_least(
        &self,
        message: &ContextMessage,
        counter: &dyn TokenCounter,
    ) -> Option<ContextMessage> {
        match self.pins.hold(message) {
            true => self.pins.least(message, counter),
            false => cut_to_shortest(message, counter),
        }
    }

    /// How many messages and turns must remain of `context`.
    pub(crate) fn least_counts(&self, context: &Context) -> Size {
        let held = self.groups.iter().zip(&self.holds);
        let staying = held.filter(|(_, hold)| !hold.may_go());
        staying
            .flat_map(|(group, _)| group.range())
            .map(|position| Size::of(&context.messages()[position]))
            .fold(Size::default(), Add::add)
    }

    /// The terms of the least that must remain of `context`.
    pub(crate) fn least(&self, context: &Context, counter: &dyn TokenCounter) -> Vec<Term> {
        let mut terms = vec![Term { part: PromptPart::Request, tokens: REQUEST_TOKENS }];
        let mut add = |part: PromptPart, tokens: Tokens| match terms.iter_mut().find(|term| term.part == part)
        {
            Some(term) => term.tokens += tokens,
            None => terms.push(Term { part, tokens }),
        };
        let first_user = context.first_user();
        let must_stay = |hold: &Hold| matches!(hold, Hold::Fixed | Hold::LatestUser | Hold::LastGroup);
        let staying = self.groups.iter().zip(&self.holds).filter(|(_, hold)| must_stay(hold));
        let opens = staying
            .map(|(group, _)| group.range().start)
            .find(|start| *start >= self.n_leading_system)
            .is_none_or(|start| context.messages()[start].message().role() == Role::User);
        if !opens && opens_with_user(context) {
            // Compaction made the opening; where no user message comes up in its place, another one must stand there.
            add(PromptPart::OmissionMarker, most_for_a_marker(counter));
        }
        for (group, hold) in self.groups.iter().zip(&self.holds) {
            for position in group.range() {
                let message = &context.messages()[position];
                match hold {
                    Hold::Fixed if position < self.n_leading_system => {
                        add(PromptPart::SystemMessages, message.tokens());
                    }
                    Hold::Fixed if Some(position) == first_user => {
                        add(PromptPart::FirstUserMessage, message.tokens());
                    }
                    Hold::LatestUser => add(PromptPart::LatestUserMessage, shortest(message, counter)),
                    Hold::Fixed | Hold::LastGroup => {
                        add(PromptPart::LastGroup, exchange_cut_to_shortest(message, counter).tokens());
                    }
                    Hold::System | Hold::Pinned | Hold::Retained | Hold::Free => {}
                }
            }
        }
        terms
    }
}

/// A refusal that names the least that must remain.
pub(crate) fn still_over(terms: Vec<Term>, have: Tokens) -> StillOver {
    StillOver { need: terms.iter().map(|term| term.tokens).sum(), have, because: terms }
}

/// The message with its text cut to the shortest, where that is shorter.
pub(crate) fn cut_to_shortest(
    message: &ContextMessage,
    counter: &dyn TokenCounter,
) -> Option<ContextMessage> {
    message.message().content()?;
    let cut = ContextMessage::count(message.message().with_content(SHORTEST), counter);
    (cut.tokens() < message.tokens()).then_some(cut)
}

fn shortest(message: &ContextMessage, counter: &dyn TokenCounter) -> Tokens {
    cut_to_shortest(message, counter).map_or(message.tokens(), |cut| cut.tokens())
}

/// The message with its text and the texts in its calls' arguments cut to the shortest.
pub(crate) fn exchange_cut_to_shortest(
    message: &ContextMessage,
    counter: &dyn TokenCounter,
) -> ContextMessage {
    let cut = cut_to_shortest(message, counter);
    let cut = cut.as_ref().unwrap_or(message);
    let shortest = with_short_arguments(cut.message(), 0).map(|short| ContextMessage::count(short, counter));
    shortest.filter(|short| short.tokens() < cut.tokens()).unwrap_or_else(|| cut.clone())
}

/// Whether what follows the leading system messages is a user message, or nothing at all.
pub(crate) fn opens_with_user(context: &Context) -> bool {
    let opening = context.messages().get(context.n_leading_system());
    opening.is_none_or(|message| message.message().role() == Role::User)
}
