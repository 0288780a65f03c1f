//! The clearing of a result, as an edit. Apart because what leaves is decided by then: this is how it
//! leaves, and which names of it stay.

use std::cmp::Reverse;

use crate::compaction::answered_call::answered_call;
use crate::compaction::names::{Spread, names_of_its_own, table_keys};
use crate::compaction::stub::Stub;
use crate::{Body, CallPlace, Context, ContextMessage, Edit, Message, TokenCounter, Tokens, ToolCall};

/// A result that is cleared.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Clearing {
    pub(super) position: usize,
    pub(super) with: ContextMessage,
    /// The call, if its arguments are cleared as well.
    pub(super) call: Option<ShorterCall>,
}

/// A call with shorter arguments.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ShorterCall {
    pub(super) place: CallPlace,
    pub(super) arguments: String,
}

/// Fewer tokens hold no name in a stub.
const LEAST_NAME: Tokens = Tokens::new(3);

/// Adds names of what was there to the stubs, in at most `left` tokens: the keys of tables first, the newest
/// first.
pub(super) fn name_contents(
    context: &Context,
    clearings: &mut [Clearing],
    mut left: Tokens,
    counter: &dyn TokenCounter,
) {
    let mut spread: Option<Spread> = None;
    let keys_of = |clearing: &Clearing| table_keys(&context.messages()[clearing.position]);
    let mut by_age: Vec<(Option<Vec<&str>>, &mut Clearing)> =
        clearings.iter_mut().map(|clearing| (keys_of(clearing), clearing)).collect();
    by_age.sort_by_key(|(keys, clearing)| Reverse((keys.is_some(), clearing.position)));
    for (keys, clearing) in by_age {
        // Names take time to find, so the search ends when no name fits.
        if left < LEAST_NAME {
            break;
        }
        let message = &context.messages()[clearing.position];
        let names = keys.unwrap_or_else(|| {
            let spread = spread.get_or_insert_with(|| Spread::of(context.messages()));
            let features = message.features();
            names_of_its_own(features, &|place| spread.is_rare(features.terms[place as usize].hash()))
        });
        let Body::Tool(result) = &message.message().body else { continue };
        let stub = Stub::of(message, result, answered_call(context, clearing.position)).with_names(names);
        let with = stub.in_place_of(message, counter);
        let more = with.tokens() - clearing.with.tokens();
        if more <= left && with.tokens() + with.tokens() <= message.tokens() {
            left = left - more;
            clearing.with = with;
        }
    }
}

/// Returns the edits that clear: one for each message.
pub(super) fn edits(context: &Context, clearings: Vec<Clearing>, counter: &dyn TokenCounter) -> Vec<Edit> {
    let mut calls: Vec<ShorterCall> = Vec::new();
    let mut edits = Vec::with_capacity(clearings.len());
    for Clearing { position, with, call } in clearings {
        calls.extend(call);
        edits.push(Edit::Shorten { position, with });
    }
    calls.sort_by_key(|call| call.place);
    for calls in calls.chunk_by(|one, next| one.place.message == next.place.message) {
        let position = calls[0].place.message;
        let with = with_calls(context.messages()[position].message(), calls);
        edits.push(Edit::Shorten { position, with: ContextMessage::count(with, counter) });
    }
    edits
}

/// Returns the message with the arguments of `calls` in place.
fn with_calls(message: &Message, calls: &[ShorterCall]) -> Message {
    let Body::Assistant { content, calls: was } = &message.body else { return message.clone() };
    let shorter = |nth: usize| calls.iter().find(|call| call.place.nth == nth);
    let calls = was.iter().enumerate().map(|(nth, call)| match shorter(nth) {
        Some(shorter) => ToolCall { arguments: shorter.arguments.clone(), ..call.clone() },
        None => call.clone(),
    });
    let body = Body::Assistant { content: content.clone(), calls: calls.collect() };
    Message { body, ..message.clone() }
}
