//! The rules that every attempt must keep, whatever its strategy claims.

use std::collections::{HashMap, HashSet};

use super::Yield;
use super::standing::opens_with_user;
use crate::{Body, Context, ContextMessage, MessageId, Role, ToolCall};

/// Returns the rule that `after` breaks as a compaction of `before`, whatever strategy made it.
pub(super) fn broken_rule(before: &Context, after: &Context, yielded: &[Yield]) -> Option<&'static str> {
    let (was, is) = (before.size(), after.size());
    if is.tokens > was.tokens || is.messages > was.messages {
        return Some("it made the context larger");
    }
    let leading = ..before.n_leading_system();
    if after.messages().get(leading) != before.messages().get(leading) {
        return Some("it lost a leading system message");
    }
    if !keeps_first_user(before, after, yielded) {
        return Some("it lost the first user message");
    }
    if !keeps_latest_user(before, after) {
        return Some("it lost the latest user message");
    }
    if !keeps_last_calls(last_calls(before), last_calls(after)) {
        return Some("it lost the calls of the last message");
    }
    if opens_with_user(before) && !opens_with_user(after) {
        return Some("the first turn is not the user's any more");
    }
    misplaced(before, after)
}

/// Returns the rule that a message of `after` breaks beside those of `before`: what stays is unchanged and in
/// order, and what is new takes the place of something that left. A new message is marked as made by
/// compaction, or is a shorter form of one that left.
fn misplaced(before: &Context, after: &Context) -> Option<&'static str> {
    if before.revision() != after.revision() {
        return Some("it returned the context of another conversation");
    }
    let was = before.messages();
    let places: HashMap<MessageId, usize> =
        was.iter().enumerate().filter_map(|(at, message)| Some((message.id()?, at))).collect();
    let kept: HashSet<MessageId> = after.messages().iter().filter_map(ContextMessage::id).collect();
    // The number of messages of `before` up to the last that stayed, and up to the last that has its place in
    // `after` in any form.
    let (mut stayed, mut passed) = (0, 0);
    let mut has_new = false;
    for message in after.messages() {
        if let Some(at) = message.id().and_then(|id| places.get(&id).copied()) {
            if !is_unchanged(&was[at], message) {
                return Some("it changed a message that kept its id");
            }
            if at < passed {
                return Some("it moved a message");
            }
            if has_new && at == stayed {
                return Some("it added a message where none left");
            }
            (stayed, passed, has_new) = (at + 1, at + 1, false);
            continue;
        }
        has_new = true;
        let is_compacted = message.message().is_compacted;
        if is_compacted && message.role() != Role::System {
            continue;
        }
        let left = |was: &ContextMessage| was.id().is_none_or(|id| !kept.contains(&id));
        match was[passed..].iter().position(|was| left(was) && is_shorter_form(was, message)) {
            Some(at) => passed += at + 1,
            None if is_compacted => return Some("it added a system message"),
            None => return Some("it added a message that is not marked as compacted"),
        }
    }
    (has_new && stayed == was.len()).then_some("it added a message where none left")
}

fn is_unchanged(was: &ContextMessage, is: &ContextMessage) -> bool {
    was.is_same_as(is) || was.message() == is.message()
}

/// Checks whether `is` can be what [`crate::Edit::Shorten`] left of `was`: by the same author, and about the
/// same calls.
fn is_shorter_form(was: &ContextMessage, is: &ContextMessage) -> bool {
    if was.role() != is.role() || was.starts_turn() != is.starts_turn() {
        return false;
    }
    let (was, is) = (was.message(), is.message());
    let is_same_call = |(was, is): (&ToolCall, &ToolCall)| was.id == is.id && was.name == is.name;
    was.is_compacted == is.is_compacted
        && match (&was.body, &is.body) {
            (Body::Tool(was), Body::Tool(is)) => was.call_id == is.call_id,
            _ => {
                was.calls().len() == is.calls().len() && was.calls().iter().zip(is.calls()).all(is_same_call)
            }
        }
}

/// Checks whether the first user message is still the first, unchanged or, if it is reported to have yielded,
/// shortened.
fn keeps_first_user(before: &Context, after: &Context, yielded: &[Yield]) -> bool {
    let first = |context: &Context| context.first_user().map(|at| context.messages()[at].clone());
    match (first(before), first(after)) {
        (Some(was), Some(is)) if was == is => true,
        (Some(was), Some(is)) => {
            let is_shortened = is.id().is_none() || is.id() > was.id();
            yielded.contains(&Yield::FirstUserText) && is_shortened && is.tokens() < was.tokens()
        }
        (None, _) => true,
        (Some(_), None) => false,
    }
}

/// Checks whether the latest user message is still the latest, unchanged or shortened.
fn keeps_latest_user(before: &Context, after: &Context) -> bool {
    let latest = |context: &Context| context.latest_user().map(|at| context.messages()[at].clone());
    match (latest(before), latest(after)) {
        (Some(was), Some(is)) => was == is || is.id().is_none() || is.id() > was.id(),
        (None, _) => true,
        (Some(_), None) => false,
    }
}

/// Checks whether the same calls are made, with the same arguments or with shorter ones that are still JSON.
fn keeps_last_calls(before: &[ToolCall], after: &[ToolCall]) -> bool {
    let is_kept = |was: &ToolCall, is: &ToolCall| {
        let is_shorter = || {
            is.arguments.len() < was.arguments.len()
                && serde_json::from_str::<serde_json::Value>(&is.arguments).is_ok()
        };
        was.id == is.id && was.name == is.name && (was.arguments == is.arguments || is_shorter())
    };
    before.len() == after.len() && before.iter().zip(after).all(|(was, is)| is_kept(was, is))
}

/// Returns the calls of the last group, behind which lists may stand that a harness sends again.
fn last_calls(context: &Context) -> &[ToolCall] {
    let is_list = |at: usize| context.messages()[at].message().is_renewed();
    let starts = context.groups().iter().map(|group| group.range().start);
    let first = starts.rev().find(|start| !is_list(*start)).unwrap_or(0);
    context.messages().get(first).map_or(&[], |message| message.message().calls())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::fixture::conversation;
    use super::*;
    use crate::{Characters, Edit, Message, Tokens};

    fn counted(message: Message) -> ContextMessage {
        ContextMessage::count(message, &Characters)
    }

    /// Returns the rule that breaks if each of these groups of `suaaau` is replaced by these messages.
    fn broken_by(replaced: &[(usize, &[ContextMessage])]) -> Option<&'static str> {
        let view = conversation("suaaau").view();
        let edit = |(at, with): &(usize, &[ContextMessage])| Edit::Fold {
            span: view.groups().span(*at..*at + 1),
            with: with.to_vec(),
        };
        broken_rule(&view, &view.edit(replaced.iter().map(edit).collect()), &[])
    }

    #[test]
    fn only_what_is_marked_as_compacted_may_be_new() {
        let unmarked = Some("it added a message that is not marked as compacted");
        for (message, expected) in [
            (Message::user("do it"), unmarked),
            (Message::note("harness", "do it"), unmarked),
            (Message::system("do it"), unmarked),
            (Message::user("do it").compacted(), None),
            (Message::assistant("done").compacted(), None),
            (Message::system("do it").compacted(), Some("it added a system message")),
        ] {
            assert_eq!(broken_by(&[(2, &[counted(message.clone())]), (3, &[])]), expected, "{message:?}");
        }
    }

    #[test]
    fn a_message_may_be_shortened_in_its_place() {
        let view = conversation("suaaau").view();
        let shorter = |at: usize| counted(view.messages()[at].message().with_content("short"));
        for at in 2..6 {
            let after = view.edit(vec![Edit::Shorten { position: at, with: shorter(at) }]);
            assert_eq!(broken_rule(&view, &after, &[]), None, "{at}");
        }
        let twice = [shorter(2), shorter(2)];
        let unmarked = Some("it added a message that is not marked as compacted");
        assert_eq!(broken_by(&[(2, &[]), (4, &twice)]), unmarked, "one of them left after the place");
    }

    #[test]
    fn what_stays_is_unchanged_and_in_its_place() {
        let view = conversation("suaaau").view();
        let marker = counted(Message::user("earlier").compacted());
        let stays = [view.messages()[2].clone()];
        let and_marker = [stays[0].clone(), marker.clone()];
        assert_eq!(broken_by(&[(2, &[]), (4, &stays)]), Some("it moved a message"));
        let inserted = broken_by(&[(2, &and_marker), (4, &[])]);
        assert_eq!(inserted, Some("it added a message where none left"));
        assert_eq!(broken_by(&[(2, &stays), (4, &[marker])]), None);
        let id = stays[0].id().unwrap();
        let forged = ContextMessage::restored(id, Tokens::new(5), Message::assistant("forged"));
        assert_eq!(broken_by(&[(2, &[forged])]), Some("it changed a message that kept its id"));
        let other = conversation("suaau").view();
        let expected = Some("it returned the context of another conversation");
        assert_eq!(misplaced(&view, &other), expected);
    }
}
