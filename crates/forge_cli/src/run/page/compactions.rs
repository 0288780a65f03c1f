//! The compactions on a run's page.
//!
//! A compaction takes over what earlier ones replaced, so the last of a long run replaces nearly everything.
//! Each message is therefore unfolded once, below the first compaction that replaced it; later ones link to
//! that one.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;

use forge_app::{CompactionLayer, LayerState};
use forge_domain::{
    CompactionEntry, ContextMessage, Conversation, EntryId, MessageId, Replacement, Tokens, quantity,
};

use super::message_card::{Place, message_card};
use crate::output::with_separators;

/// The compactions of a log, in the order in which they are shown.
pub(super) struct Compactions<'a> {
    log: &'a Conversation,
    layers: HashMap<&'a str, &'a CompactionLayer>,
    /// The beginning of every anchor of this log.
    prefix: &'a str,
    /// Those shown so far.
    shown: BTreeMap<EntryId, &'a CompactionEntry>,
    /// The messages that stand below one of them, those that replaced others included.
    below: HashMap<MessageId, EntryId>,
}

impl<'a> Compactions<'a> {
    /// Creates them for a page on which nothing is shown yet.
    pub(super) fn new(log: &'a Conversation, layers: &'a [CompactionLayer], prefix: &'a str) -> Self {
        let layers = layers.iter().map(|layer| (layer.id.as_str(), layer)).collect();
        Self { log, layers, prefix, shown: BTreeMap::new(), below: HashMap::new() }
    }

    /// Returns a compaction, which unfolds into what replaced and what was replaced. What earlier ones
    /// replaced is linked to.
    pub(super) fn card(&mut self, entry: &'a CompactionEntry) -> String {
        let id = entry.id();
        let sizes = self.layers.get(id.to_string().as_str()).map(|layer| sizes(layer)).unwrap_or_default();
        let mut html = format!(
            "<article class=\"compaction\" id=\"{}{id}\"><header><b>compaction {id}</b>{sizes}</header>\n",
            self.prefix
        );
        let taken_over = self.taken_over(entry);
        for replacement in entry.replacements() {
            html += &self.replaced_part(id, replacement);
        }
        html += &taken_over;
        self.shown.insert(id, entry);
        html + "</article>\n"
    }

    /// Returns the card of an undone compaction.
    pub(super) fn undone_card(&self, id: EntryId) -> String {
        format!(
            "<article class=\"compaction\"><header><b>undone</b><span>compaction {}: what it replaced is in the \
             view again</span></header></article>\n",
            self.link(id)
        )
    }

    fn link(&self, id: EntryId) -> String {
        format!("<a href=\"#{}{id}\">{id}</a>", self.prefix)
    }

    /// Returns the line about messages that stand below earlier compactions.
    fn taken_over(&self, entry: &CompactionEntry) -> String {
        let absorbed = entry.absorbs().iter().filter_map(|id| self.shown.get(id).copied());
        let absorbed: HashSet<MessageId> = absorbed.flat_map(replaced).collect();
        let mut n_messages = 0;
        let mut links: BTreeSet<EntryId> = entry.absorbs().iter().copied().collect();
        for id in replaced(entry) {
            let Some(below) = self.below.get(&id) else { continue };
            n_messages += 1;
            // An undone compaction is not taken over.
            if !absorbed.contains(&id) {
                links.insert(*below);
            }
        }
        if n_messages == 0 {
            return String::new();
        }
        let links: Vec<String> = links.into_iter().map(|id| self.link(id)).collect();
        let count = quantity(n_messages, "message");
        format!("<p>It also stands for <b>{count}</b> that {} replaced.</p>\n", links.join(", "))
    }

    /// Checks whether a message is to be shown below `entry`, because no earlier one has it.
    fn claim(&mut self, message: MessageId, entry: EntryId) -> bool {
        match self.below.entry(message) {
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                free.insert(entry);
                true
            }
        }
    }

    /// Returns what is new of a replacement; nothing of one that was taken over as it was.
    fn replaced_part(&mut self, entry: EntryId, replacement: &Replacement) -> String {
        let mut html = String::new();
        for message in &replacement.with {
            if message.id().is_none_or(|id| self.claim(id, entry)) {
                html += &message_card(message, Place::Unfolded);
            }
        }
        let replaced = replacement.replaces.iter().copied();
        let left: Vec<MessageId> = replaced.filter(|id| self.claim(*id, entry)).collect();
        let originals: Vec<&ContextMessage> = left.iter().filter_map(|id| self.log.message(*id)).collect();
        if originals.is_empty() {
            return html;
        }
        if replacement.with.is_empty() {
            html += "<p>Nothing stands in their place.</p>\n";
        }
        let tokens: Tokens = originals.iter().map(|message| message.tokens()).sum();
        let names = match (left.first(), left.last()) {
            (Some(first), Some(last)) if first != last => format!("{first} to {last}"),
            (Some(only), _) => only.to_string(),
            _ => String::new(),
        };
        let count = quantity(originals.len(), "message");
        let size = quantity(with_separators(tokens), "token");
        let _ = writeln!(
            html,
            "<details class=\"replaced\"><summary>unfold <b>{count}</b> that this replaced ({names}, {size})</summary>"
        );
        for original in originals {
            html += &message_card(original, Place::Unfolded);
        }
        html + "</details>\n"
    }
}

fn replaced(entry: &CompactionEntry) -> impl Iterator<Item = MessageId> {
    entry.replacements().iter().flat_map(|replacement| replacement.replaces.iter().copied())
}

fn sizes(layer: &CompactionLayer) -> String {
    format!(
        "<span>{} → {} messages, {} → {} tokens</span><span>{}</span>",
        layer.before.messages,
        layer.after.messages,
        with_separators(layer.before.tokens),
        with_separators(layer.after.tokens),
        match layer.state {
            LayerState::InForce => "in force",
            LayerState::Absorbed => "taken over by a later one",
            LayerState::Undone => "undone",
        }
    )
}
