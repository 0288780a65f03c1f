//! Which call a result answers, and what that does.

use crate::compaction::findings::Deed;
use crate::{CallPlace, Context, ToolCall};

/// A call that a result answers, and its place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AnsweredCall<'a> {
    pub(super) place: CallPlace,
    pub(super) call: &'a ToolCall,
    /// The effect of the call.
    pub(super) deed: &'a Deed,
}

/// Returns the call that the message at `position` answers; `None` if it is not a result, or if its call is
/// missing.
pub(super) fn answered_call(context: &Context, position: usize) -> Option<AnsweredCall<'_>> {
    let place = context.groups().call_answered_by(position)?;
    let caller = &context.messages()[place.message];
    let (call, deed) = (&caller.message().calls()[place.nth], &caller.findings().deeds[place.nth]);
    Some(AnsweredCall { place, call, deed })
}
