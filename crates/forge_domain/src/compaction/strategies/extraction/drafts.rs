//! The reports of agents that were given a task, and their drafts: what they said before their last words.
//! Apart because they are known of the messages, whatever leaves.

use std::collections::HashSet;

use super::has_agent_text;
use crate::compaction::answered_call::answered_call;
use crate::tool_twin::asks_agent;
use crate::{Context, ContextMessage, speaker};

/// Returns the positions of what agents that were given a task said before their last words: they reported to
/// an agent without a name, which was told no more than that. The messages of `context` were `sources` at
/// first.
pub(super) fn drafts(context: &Context, sources: &[ContextMessage]) -> HashSet<usize> {
    let name = |position: usize| speaker(sources[position].message());
    let said = || (0..sources.len()).filter(|position| has_agent_text(&sources[*position]));
    let is_model_summary = |position: usize| sources[position].message().is_compacted;
    let has_main = || said().any(|at| name(at).is_none() && !is_model_summary(at));
    let is_team = said().any(|at| name(at).is_some()) && has_main();
    if !is_team {
        return HashSet::new();
    }
    let text = |position: usize| sources[position].features().beside_calls().trim();
    let reports = (0..sources.len()).filter(|position| is_report(context, sources, *position));
    let reports: HashSet<&str> = reports.map(text).collect();
    if reports.is_empty() {
        return HashSet::new();
    }
    let mut last = HashSet::new();
    let is_draft = |position: &usize| {
        let is_further = name(*position).is_some_and(|name| !last.insert(name));
        is_further && !reports.contains(text(*position))
    };
    said().rev().filter(is_draft).collect()
}

/// Checks whether the message at `position` is a result that another agent reports.
pub(super) fn is_report(context: &Context, sources: &[ContextMessage], position: usize) -> bool {
    let asked = answered_call(context, position);
    asked.is_some_and(|asked| {
        asks_agent(asked.call.name.as_str()) && asked.deed.failure(&sources[position]).is_none()
    })
}
