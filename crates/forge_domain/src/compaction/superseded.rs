//! Tool results and notes that say nothing which a later one does not say again, or better.

use std::collections::{HashMap, HashSet};

use super::answered_call::answered_call;
use super::stub::is_stub;
use crate::compaction::features::{ByTerm, Features};
use crate::compaction::findings::{Deed, Extent};
use crate::{Body, Context, ToolCall};

/// The way in which a later result supersedes an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Superseded {
    /// The file was read again, or changed since.
    File,
    /// The call was repeated.
    Repeated,
    /// Nearly the same was answered again.
    Again,
}

/// Returns for each message the way in which a later result supersedes it, if it is a result and one does. A
/// call that failed supersedes nothing. A note that a harness sends again in nearly the same words supersedes
/// the one before. Takes time in proportion to the texts' length.
pub(super) fn superseded_results(context: &Context) -> Vec<Option<Superseded>> {
    let messages = context.messages();
    let mut later = Later::default();
    let mut notes = Later::default();
    let mut found = vec![None; messages.len()];
    for (position, message) in messages.iter().enumerate().rev() {
        if message.message().note_by().is_some() {
            let features = message.features();
            found[position] = notes.says_again(features).then_some(Superseded::Again);
            notes.take_said(features);
            continue;
        }
        let Body::Tool(result) = &message.message().body else { continue };
        let asked = answered_call(context, position);
        let features = message.features();
        let by_call = asked.and_then(|asked| later.supersedes(asked.call, asked.deed));
        found[position] = by_call.or_else(|| later.says_again(features).then_some(Superseded::Again));
        let failed = asked.is_some_and(|asked| asked.deed.failure(message).is_some());
        if !failed {
            if let Some(asked) = asked {
                later.take_changes(asked.deed);
                // Of a result that was cleared, the effect counts and the text does not.
                if !is_stub(&result.content.text()) {
                    later.take_call(asked.call, asked.deed);
                }
            }
            later.take_said(features);
        }
    }
    found
}

/// The effects of later calls and the text of later results.
#[derive(Default)]
struct Later<'a> {
    /// By the hashes of their deeds.
    calls: ByTerm<&'a ToolCall>,
    /// Files that were changed.
    changed: HashSet<&'a str>,
    /// Files read as a whole, by the tool that read them: another tool may have returned something else for
    /// the same path.
    read: HashSet<(&'a str, &'a str)>,
    /// The newest result with each sample of its signature.
    said: HashMap<(usize, u64), &'a Features>,
}

impl<'a> Later<'a> {
    fn supersedes(&self, call: &ToolCall, deed: &Deed) -> Option<Superseded> {
        if let Some((path, _)) = deed.read()
            && (self.changed.contains(path) || self.read.contains(&(call.name.as_str(), path)))
        {
            return Some(Superseded::File);
        }
        let is_same = |later: &&ToolCall| (&later.name, &later.arguments) == (&call.name, &call.arguments);
        self.calls.get(&deed.call_hash).is_some_and(is_same).then_some(Superseded::Repeated)
    }

    fn take_changes(&mut self, deed: &'a Deed) {
        self.changed.extend(deed.changes().map(|(path, _)| path));
    }

    fn take_call(&mut self, call: &'a ToolCall, deed: &'a Deed) {
        let whole = deed.read().filter(|(_, extent)| *extent == Extent::Whole);
        self.read.extend(whole.map(|(path, _)| (call.name.as_str(), path)));
        self.calls.insert(deed.call_hash, call);
    }

    fn says_again(&self, features: &Features) -> bool {
        let mut later = features.signature.samples().filter_map(|sample| self.said.get(&sample));
        later.any(|later| features.is_nearly_the_same_as(later))
    }

    fn take_said(&mut self, features: &'a Features) {
        for sample in features.signature.samples() {
            self.said.entry(sample).or_insert(features);
        }
    }
}
