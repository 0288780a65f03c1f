//! The table of contents of what left: what each result was, its size, and the names by which to ask for it.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::record::Entry;
use super::story::{Folder, one_line};
use super::worth::Worth;
use crate::compaction::answered_call::answered_call;
use crate::compaction::names::{FEW_MESSAGES, Names, names, table_keys};
use crate::{Context, ContextMessage, Role, TokenCounter, Tokens};

/// A result of fewer tokens is not worth a line.
const LEAST: Tokens = Tokens::new(60);
/// Most characters of a tool's name.
const TOOL_CHARS: usize = 40;

/// With fewer names, a line hardly says more than the call did.
const LEAST_NAMES: usize = 3;

/// A result that left.
pub(super) struct Content<'a> {
    pub(super) position: usize,
    label: String,
    names: Vec<&'a str>,
    /// True if it is a table, whose names are its keys.
    pub(super) is_table: bool,
}

impl Content<'_> {
    /// Returns its entry in at most `room` tokens, with as many names as fit, and the tokens that it takes.
    pub(super) fn entry(&self, room: Tokens, counter: &dyn TokenCounter) -> Option<(Entry, Tokens)> {
        let mut n_names = self.names.len();
        while n_names >= LEAST_NAMES {
            // A name has no blank in it, so blanks are enough between names.
            let entry = Entry::labelled(&self.label, &self.names[..n_names].join(" "), false);
            let tokens = counter.count(entry.as_str()) + Tokens::new(1);
            if tokens <= room {
                return Some((entry, tokens));
            }
            let share = n_names as u64 * room.as_u64() / tokens.as_u64();
            n_names = (share as usize).min(n_names - 1);
        }
        None
    }
}

/// Returns the contents of the results that `leaves`, the largest first; of those with the same names the
/// first. After `most` that are no table, only tables follow.
pub(super) fn contents<'a>(
    context: &Context,
    sources: &'a [ContextMessage],
    leaves: &[bool],
    folder: &Folder,
    worth: &Worth<'_>,
    most: usize,
) -> Vec<Content<'a>> {
    let is_result = |message: &ContextMessage| message.message().role() == Role::Tool;
    let is_large = |position: &usize| sources[*position].tokens() >= LEAST;
    let mut left: Vec<usize> = (0..sources.len())
        .rev()
        .filter(|position| leaves[*position] && is_result(&sources[*position]) && is_large(position))
        .collect();
    left.sort_by_key(|position| Reverse(sources[*position].tokens()));
    let is_rare = |term: u64| worth.n_messages(term) <= FEW_MESSAGES;
    let (mut contents, mut known) = (Vec::new(), HashSet::new());
    let mut n_others = 0;
    for position in left {
        let message = &sources[position];
        let features = message.features();
        if n_others == most && table_keys(features).is_none() {
            continue;
        }
        let Some(asked) = answered_call(context, position) else { continue };
        let Some(tool) = one_line(asked.call.name.as_str(), TOOL_CHARS) else { continue };
        let Names { names, are_keys } = names(features, &is_rare);
        if names.len() >= LEAST_NAMES && known.insert(names.clone()) {
            let subject = folder.subject(asked.deed);
            let label = format!("{} {tool}{subject}, {} tokens", message.label(), message.tokens());
            n_others += usize::from(!are_keys);
            contents.push(Content { position, label, names, is_table: are_keys });
        }
    }
    contents
}
