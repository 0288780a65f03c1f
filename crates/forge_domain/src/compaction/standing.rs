//! The parts that stay in a compaction: how firmly each group is held, and the least that must remain.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Add;

use super::CompactionRules;
use super::cut::{Cut, CutOf, cut_to_shortest, exchange_cut_to_shortest, shorten, shortest};
use super::omission::{is_marker, most_for_a_marker};
use super::pin::Pins;
use super::record_tag::is_record;
use crate::{
    Body, Context, ContextMessage, Edit, Group, GroupKind, Groups, PromptPart, REQUEST_TOKENS, Role, Size,
    StillOver, Term, TokenCounter, Tokens,
};

/// The firmness with which a group is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// It stays: a leading system message.
    Fixed,
    /// It stays: the first user message. Its text yields last of all.
    FirstUser,
    /// It stays: the newest group. Only the size of its results and texts may yield.
    LastGroup,
    /// It stays: the latest user message. Only its text may yield.
    LatestUser,
    /// A system message in mid-conversation that is to be preserved, or an exchange around one: yields last
    /// of all.
    System,
    /// Something in it is pinned, or it belongs to the opening: yields after everything else.
    Pinned,
    /// The user's words, within their share of the target: they stay, a long text with head and tail.
    User,
    /// One of the newest messages: its age yields first.
    Retained,
    /// It may leave.
    Free,
}

impl Hold {
    /// Checks whether a group so held stays whatever yields.
    const fn stays(self) -> bool {
        matches!(self, Self::Fixed | Self::FirstUser | Self::LastGroup | Self::LatestUser)
    }

    /// Checks whether a group so held may leave.
    pub(crate) const fn may_go(self) -> bool {
        matches!(self, Self::Retained | Self::Free)
    }
}

/// The extent to which the first user message stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// All of it.
    Whole,
    /// Its text may be cut to the least.
    Cut,
}

/// The groups of a context and how firmly each is held.
pub(crate) struct Standing {
    pub(crate) groups: Groups,
    pub(crate) holds: Vec<Hold>,
    pub(crate) n_leading_system: usize,
    pub(crate) pins: Pins,
    /// The index of the first group of the newest messages that are retained.
    retained_from: usize,
    first_user: Option<usize>,
    latest_user: Option<usize>,
    /// The most tokens that one message of the user's words has.
    user_most: Tokens,
    /// The notes of the opening that may be shortened, by position, and the most tokens that one has.
    notes: Vec<usize>,
    note_most: Tokens,
}

impl Standing {
    /// Decides for every group of `context`, of which the newest `n_retained` messages are retained.
    pub(crate) fn of(context: &Context, rules: &CompactionRules, n_retained: usize) -> Self {
        let groups = context.groups().clone();
        let n_leading_system = context.n_leading_system();
        let (first_user, latest_user) = (context.first_user(), context.latest_user());
        let retained_from = groups.retained_from(n_retained);
        let last = last_group(&groups, context);
        let pins = rules.pins();
        let opening = end_of_opening(context, n_leading_system);
        let mut notes = Vec::new();
        let holds = groups
            .iter()
            .enumerate()
            .map(|(index, group)| {
                let has = |position: Option<usize>| position.is_some_and(|at| group.range().contains(&at));
                let messages = &context.messages()[group.range()];
                if group.range().start < n_leading_system {
                    Hold::Fixed
                } else if has(first_user) {
                    Hold::FirstUser
                } else if has(latest_user) {
                    Hold::LatestUser
                } else if Some(index) == last {
                    Hold::LastGroup
                } else if messages.iter().any(|message| pins.hold(message)) {
                    Hold::Pinned
                } else if group.range().end <= opening && messages.iter().all(rests_on) {
                    notes.push(group.range().start);
                    Hold::Pinned
                } else if rules.preserve_system_messages && group.has_system() {
                    Hold::System
                } else if index >= retained_from {
                    Hold::Retained
                } else {
                    Hold::Free
                }
            })
            .collect();
        let note_most = notes_share(rules, context, opening, &mut notes);
        let user_most = Tokens::MAX;
        let mut standing = Self {
            groups,
            holds,
            n_leading_system,
            pins,
            retained_from,
            first_user,
            latest_user,
            user_most,
            notes,
            note_most,
        };
        standing.hold_user_messages(context, rules);
        standing
    }

    /// Holds the user's words, the newest first, up to their share of the target. What is larger than what
    /// each may have is shortened; what does not fit even so may leave, and so may a text that comes again.
    fn hold_user_messages(&mut self, context: &Context, rules: &CompactionRules) {
        let mut said: Vec<(usize, Tokens)> = Vec::new();
        let mut later: HashMap<Cow<'_, str>, &Body> = HashMap::new();
        for (index, group) in self.groups.iter().enumerate().rev() {
            let message = &context.messages()[group.range().start];
            if group.kind() != GroupKind::User || !message.starts_turn() {
                continue;
            }
            let body = &message.message().body;
            let is_new = later.insert(message.message().text(), body) != Some(body);
            if is_new && self.holds[index].may_go() {
                said.push((index, message.tokens()));
            }
        }
        said.truncate(self.most_user_messages(rules));
        let share = self.tokens_for_user(context, rules);
        let sizes = said.iter().map(|(_, tokens)| *tokens).collect();
        let most = level_of(sizes, share).max(LEAST_OF_USER);
        let mut left = share;
        for (index, tokens) in said {
            let kept = tokens.min(most);
            let is_retained_whole = self.holds[index] == Hold::Retained && kept < tokens;
            if kept > left {
                break;
            }
            if !is_retained_whole {
                left = left - kept;
                self.holds[index] = Hold::User;
            }
        }
        self.user_most = most;
    }

    /// Returns the most messages of the user's that stay beside the first and the latest: half of what a
    /// target for messages or turns leaves them.
    fn most_user_messages(&self, rules: &CompactionRules) -> usize {
        let held = self.holds.iter().filter(|hold| !hold.may_go()).count();
        let turns = usize::from(self.first_user.is_some())
            + usize::from(self.latest_user.is_some_and(|latest| Some(latest) != self.first_user));
        let messages = rules.target.messages.map(|most| most.get().saturating_sub(held) / 2);
        // A target for turns that what stays just reaches would be exceeded by the next turn.
        let turns = rules.target.turns.map(|most| most.get().saturating_sub(turns + 1));
        messages.unwrap_or(usize::MAX).min(turns.unwrap_or(usize::MAX))
    }

    /// Returns the tokens for the user's words: their share of the target, and half of what is left beside
    /// the parts that stay, of which the newest can be shortened. Where both sides say about as much, the
    /// newest of it alone would leave little for the rest of the talk, so it has a part of that.
    fn tokens_for_user(&self, context: &Context, rules: &CompactionRules) -> Tokens {
        let tokens = |(group, hold): (&Group, &Hold)| -> Tokens {
            let tokens = context.messages()[group.range()].iter().map(ContextMessage::tokens).sum::<Tokens>();
            if self.notes.contains(&group.range().start) {
                return tokens.min(self.note_most);
            }
            match hold {
                Hold::Fixed | Hold::FirstUser | Hold::Pinned | Hold::System => tokens,
                Hold::LastGroup | Hold::LatestUser => tokens.min(SHORTENED),
                Hold::User | Hold::Retained | Hold::Free => Tokens::ZERO,
            }
        };
        let stays: Tokens = self.groups.iter().zip(&self.holds).map(tokens).sum();
        let free = rules.target.tokens - REQUEST_TOKENS - stays;
        let most = rules.user_share.of(rules.target.tokens).min(free.share(1, 2));
        if is_even_talk(context) && said(context) > most {
            most.share(USER_PERCENT_OF_TALK, 100)
        } else {
            most
        }
    }

    /// Returns the context with the long messages shortened of which only a share stays, and how its groups
    /// are held.
    pub(crate) fn with_share_cut(
        rules: &CompactionRules,
        context: Context,
        counter: &dyn TokenCounter,
    ) -> (Context, Self) {
        let standing = Self::of(&context, rules, rules.retention_window);
        let cuts = standing.share_cuts(&context);
        let edits: Vec<Edit> =
            cuts.iter().filter_map(|cut| shorten(&context, &standing.pins, cut, counter)).collect();
        (if edits.is_empty() { context } else { context.edit(edits) }, standing)
    }

    /// Returns the cuts of the long messages of which only a share stays: the user's, and the notes of the
    /// opening.
    pub(crate) fn share_cuts(&self, context: &Context) -> Vec<Cut> {
        let held = self.groups.iter().zip(&self.holds).filter(|(_, hold)| **hold == Hold::User);
        let said = held.map(|(group, _)| (group.range().start, self.user_most));
        let noted = self.notes.iter().map(|position| (*position, self.note_most));
        noted
            .chain(said)
            .filter(|(position, most)| context.messages()[*position].tokens() > *most)
            .map(|(position, most)| Cut { position, most, of: CutOf::Text })
            .collect()
    }

    /// Returns the positions of the messages that are so held, each by itself.
    pub(crate) fn positions(&self, held: Hold) -> impl Iterator<Item = usize> {
        let may_have = move |hold: Hold| hold == held || (hold.stays() && held.stays());
        let groups = self.groups.iter().zip(&self.holds).filter(move |(_, hold)| may_have(**hold));
        groups.flat_map(move |(group, hold)| {
            group.range().filter(move |position| self.hold_of(*position, *hold) == held)
        })
    }

    /// Returns the firmness with which the message at `position` is held.
    pub(crate) fn hold_at(&self, position: usize) -> Hold {
        let group = self.groups.iter().zip(&self.holds).find(|(group, _)| group.range().contains(&position));
        group.map_or(Hold::Free, |(_, hold)| self.hold_of(position, *hold))
    }

    /// Returns the firmness with which a message of a group so held is held itself. If an exchange stays
    /// because of a message between its calls and results, the rest of it is held like the last group.
    fn hold_of(&self, position: usize, group: Hold) -> Hold {
        if !group.stays() {
            group
        } else if position < self.n_leading_system {
            Hold::Fixed
        } else if self.first_user == Some(position) {
            Hold::FirstUser
        } else if self.latest_user == Some(position) {
            Hold::LatestUser
        } else {
            Hold::LastGroup
        }
    }

    /// Checks whether any group may leave.
    pub(crate) fn has_any_that_may_go(&self) -> bool {
        self.holds.iter().any(|hold| hold.may_go())
    }

    /// Returns the message with its text cut as far as allowed: to its pinned lines, else to the shortest.
    /// `None` if that is no shorter.
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

    /// Checks whether the group may be put into a summary, which is an assistant message: nothing holds it,
    /// it contains no user text, and it is not the result that makes the opening the user's.
    pub(crate) fn may_be_summed_up(&self, context: &Context, index: usize) -> bool {
        let Some(group) = self.groups.iter().nth(index) else { return false };
        let (before, messages) =
            (&context.messages()[..group.range().start], &context.messages()[group.range()]);
        let is_system = |message: &ContextMessage| message.message().role() == Role::System;
        let opens = group.kind() == GroupKind::Orphan && before.iter().all(is_system);
        self.holds[index] == Hold::Free
            && group.kind() != GroupKind::User
            && !messages.iter().any(ContextMessage::starts_turn)
            && !opens
    }

    /// Checks whether the group may be put into a summary of whole turns, which quotes the user: it may be
    /// summed up, or it is a user message that nothing but its age or its author holds.
    pub(crate) fn may_be_folded_with_its_turn(&self, context: &Context, index: usize) -> bool {
        let Some(group) = self.groups.iter().nth(index) else { return false };
        let is_kept = matches!(
            self.holds[index],
            Hold::Fixed
                | Hold::FirstUser
                | Hold::LastGroup
                | Hold::LatestUser
                | Hold::System
                | Hold::Pinned
                | Hold::Retained
        );
        // The user's words among the newest messages are both: they stay.
        let is_retained = index >= self.retained_from;
        self.may_be_summed_up(context, index)
            || (!is_kept && !is_retained && context.messages()[group.range().start].starts_turn())
    }

    /// Checks whether the first turn is the user's if only the groups of `context` are left whose index
    /// `stays`.
    pub(crate) fn opens(&self, context: &Context, stays: impl Fn(usize) -> bool) -> bool {
        let left = self.groups.iter().enumerate().filter(|(index, _)| stays(*index));
        keeps_opening(context, left.map(|(_, group)| &context.messages()[group.range().start]))
    }

    /// Checks whether a marker must open what is left if only the groups held in such a way stay: the opening
    /// of `context` leaves, and no user message takes its place.
    fn needs_marker(&self, context: &Context, stays: impl Fn(Hold) -> bool) -> bool {
        opens_with_user(context) && !self.opens(context, |index| stays(self.holds[index]))
    }

    /// Returns the number of messages and turns that must remain of `context`.
    pub(crate) fn least_counts(&self, context: &Context) -> Size {
        let held = self.groups.iter().zip(&self.holds);
        let staying = held.filter(|(_, hold)| !hold.may_go());
        let n_markers = usize::from(self.needs_marker(context, |hold| !hold.may_go()));
        staying
            .flat_map(|(group, _)| group.range())
            .map(|position| Size::of(&context.messages()[position]))
            .fold(Size { messages: n_markers, ..Size::default() }, Add::add)
    }

    /// Returns the terms of the least that must remain of `context`, with the first user message as whole as
    /// `first` demands.
    pub(crate) fn least(&self, context: &Context, first: First, counter: &dyn TokenCounter) -> Vec<Term> {
        let mut terms = vec![Term { part: PromptPart::Request, tokens: REQUEST_TOKENS }];
        let mut add = |part: PromptPart, tokens: Tokens| match terms.iter_mut().find(|term| term.part == part)
        {
            Some(term) => term.tokens += tokens,
            None => terms.push(Term { part, tokens }),
        };
        if self.needs_marker(context, Hold::stays) {
            add(PromptPart::OmissionMarker, most_for_a_marker(counter));
        }
        let messages =
            |held: Hold| self.positions(held).map(|position| (position, &context.messages()[position]));
        for (_, message) in messages(Hold::Fixed) {
            add(PromptPart::SystemMessages, message.tokens());
        }
        for (_, message) in messages(Hold::FirstUser) {
            let tokens = match first {
                First::Whole => message.tokens(),
                First::Cut => shortest(message, counter),
            };
            add(PromptPart::FirstUserMessage, tokens);
        }
        for (_, message) in messages(Hold::LatestUser) {
            add(PromptPart::LatestUserMessage, shortest(message, counter));
        }
        for (_, message) in messages(Hold::LastGroup) {
            add(PromptPart::LastGroup, exchange_cut_to_shortest(message, counter).tokens());
        }
        terms
    }
}

/// Returns the most tokens that each of the `notes` of the opening has, and takes the first message out of
/// them if it can stay whole.
fn notes_share(rules: &CompactionRules, context: &Context, opening: usize, notes: &mut Vec<usize>) -> Tokens {
    let (messages, target) = (context.messages(), rules.target.tokens);
    let tokens_of = |position: &usize| messages[*position].tokens();
    let system: Tokens = messages[..context.n_leading_system()].iter().map(ContextMessage::tokens).sum();
    let free = target - REQUEST_TOKENS - system;
    let (first_user, latest_user) = (context.first_user(), context.latest_user());
    let asked = first_user.as_ref().map_or(Tokens::ZERO, tokens_of);
    let latest = latest_user.filter(|latest| Some(*latest) != first_user);
    let latest = latest.as_ref().map_or(Tokens::ZERO, tokens_of);
    let first = notes.first().filter(|position| **position == context.n_leading_system());
    let whole = first
        .map(tokens_of)
        .filter(|first| free - asked - latest - *first >= target.share(1, LEAST_BESIDE).max(LEAST_OF_WORK));
    if whole.is_some() {
        notes.remove(0);
    }
    let free = free - whole.unwrap_or_default();
    let free = free - asked.min(free.share(1, 2));
    let free = free - latest.min(free.share(1, 2));
    // Without a request in the opening, only the notes say what the goal is.
    let is_asked = first_user.is_some_and(|position| position < opening);
    let share = free.share(if is_asked { NOTES_PERCENT } else { GOAL_PERCENT }, 100);
    let sizes: Vec<Tokens> = notes.iter().map(tokens_of).collect();
    // If everything else fits, the notes may take the rest of the target.
    let noted: Tokens = sizes.iter().copied().sum();
    level_of(sizes, share.max(target + noted - context.size().tokens)).max(LEAST_OF_USER)
}

/// Checks whether the work rests on a message of the opening that is not the user's.
fn rests_on(message: &ContextMessage) -> bool {
    !message.starts_turn() && !message.message().is_renewed()
}

/// Returns the index of the newest group, behind which only lists stand that a harness sends again. A list
/// behind a reply stays: without it, nothing would ask for the next reply.
fn last_group(groups: &Groups, context: &Context) -> Option<usize> {
    let newest = groups.len().checked_sub(1);
    let is_list = |group: &&Group| {
        context.messages()[group.range()].iter().all(|message| message.message().is_renewed())
    };
    let lists = groups.iter().rev().take_while(is_list).count();
    let last = newest.and_then(|newest| newest.checked_sub(lists));
    let asks = |last: &usize| {
        let kind = groups.iter().nth(*last).map(Group::kind);
        matches!(kind, Some(GroupKind::User | GroupKind::Exchange))
    };
    last.filter(asks).or(newest)
}

/// Returns the end of the opening: with the first request come the notes of a harness, such as a project's
/// rules, and a summary that another program wrote. All of the work rests on them.
pub(super) fn end_of_opening(context: &Context, start: usize) -> usize {
    let is_opening = |message: &&ContextMessage| {
        message.role() == Role::User && !is_record(message.message()) && !is_marker(message.message())
    };
    start + context.messages()[start..].iter().take_while(is_opening).count()
}

/// Checks whether hardly any tool is used.
pub(crate) fn is_talk(context: &Context) -> bool {
    let of = |kind: GroupKind| context.groups().iter().filter(|group| group.kind() == kind).count();
    of(GroupKind::Exchange) * WORK < of(GroupKind::Assistant)
}

/// Checks whether both sides of a talk say about as much. Otherwise, the agent answers at length, and its
/// newest answers are the work.
pub(crate) fn is_even_talk(context: &Context) -> bool {
    is_talk(context) && said(context) > context.size().tokens.share(EVEN_PERCENT, 100)
}

/// Returns the tokens of all that the user says.
fn said(context: &Context) -> Tokens {
    context.messages().iter().filter(|message| message.starts_turn()).map(ContextMessage::tokens).sum()
}

/// At work, one of so many of its groups at least is an exchange with a tool.
const WORK: usize = 8;
/// The least part of a talk that the user says if both sides say about as much, in percent.
const EVEN_PERCENT: u64 = 30;
/// The least that the first message leaves for the newest messages and the record where it stays whole: one
/// of so many parts of the target, and so many tokens.
const LEAST_BESIDE: u64 = 40;
const LEAST_OF_WORK: Tokens = Tokens::new(384);
/// The share that the notes of the opening may take of what the system messages and the first request leave
/// of the target, in percent: project rules fit in it, and a long summary by another program must not
/// displace the work that came after it.
const NOTES_PERCENT: u64 = 33;
/// The share of what the system messages leave that they may take if no request is beside them, in percent.
const GOAL_PERCENT: u64 = 50;
/// The part of their share that the user's words have in such talk, in percent.
const USER_PERCENT_OF_TALK: u64 = 30;
/// A message of the user's is shortened to no less than this: older ones leave first.
const LEAST_OF_USER: Tokens = Tokens::new(180);
/// The tokens of the newest messages if their texts have to be shortened, about.
pub(crate) const SHORTENED: Tokens = Tokens::new(64);

/// Returns the most tokens that each of the messages of such `sizes` may have so that all of them have at
/// most `total`.
fn level_of(mut sizes: Vec<Tokens>, total: Tokens) -> Tokens {
    sizes.sort_unstable();
    let mut left = total;
    for (nth, size) in sizes.iter().enumerate() {
        let share = left.share(1, (sizes.len() - nth) as u64);
        if *size > share {
            return share;
        }
        left = left - *size;
    }
    Tokens::MAX
}

/// Returns the sum of `terms`.
pub(crate) fn sum(terms: &[Term]) -> Tokens {
    terms.iter().map(|term| term.tokens).sum()
}

/// Returns a refusal that names the least that must remain.
pub(crate) fn still_over(terms: Vec<Term>, have: Tokens) -> StillOver {
    StillOver { need: sum(&terms), have, because: terms }
}

/// Checks whether the first turn of `context` is the user's.
pub(crate) fn opens_with_user(context: &Context) -> bool {
    is_opened_by_user(context.messages())
}

/// Checks whether the first of `messages` that belongs to a turn makes it the user's.
fn is_opened_by_user<'a>(messages: impl IntoIterator<Item = &'a ContextMessage>) -> bool {
    opening(messages).and_then(Role::is_users).unwrap_or(false)
}

/// Checks whether what is left of `context` may start with `messages`: with a user message, or with a result
/// if one opens `context`. For most protocols a result is the user's as well, but no strict template accepts
/// it at the start.
pub(crate) fn keeps_opening<'a>(
    context: &'a Context,
    messages: impl IntoIterator<Item = &'a ContextMessage>,
) -> bool {
    match opening(messages) {
        Some(Role::User) => true,
        Some(Role::Tool) => opening(context.messages()) != Some(Role::User),
        Some(Role::System | Role::Assistant) | None => false,
    }
}

/// Returns the role of the first of `messages` that belongs to a turn.
fn opening<'a>(messages: impl IntoIterator<Item = &'a ContextMessage>) -> Option<Role> {
    messages.into_iter().map(|message| message.message().role()).find(|role| *role != Role::System)
}
