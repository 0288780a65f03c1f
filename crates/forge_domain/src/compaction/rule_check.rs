//! The rules that every attempt must keep, whatever its strategy claims.

use super::Yield;
use super::standing::opens_with_user;
use crate::{Context, ToolCall};

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
    None
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

/// Returns the calls of the last group.
fn last_calls(context: &Context) -> &[ToolCall] {
    let first = context.groups().iter().last().map_or(0, |group| group.range().start);
    context.messages().get(first).map_or(&[], |message| message.message().calls())
}
