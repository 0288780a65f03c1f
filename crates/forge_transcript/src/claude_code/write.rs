//! Sessions of Claude Code written again: what was not touched stays the line it was, in one chain of ids.

use std::collections::{HashMap, HashSet};

use forge_domain::{Message, Role};
use forge_wire::WireError;
use forge_wire::anthropic::entry_blocks;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::queue::OPERATION;
use crate::RewriteError;
use crate::anthropic::{Fate, assistant_blocks, content_json, user_blocks};
use crate::arguments::fields;
use crate::codec::{Line, Revision, Says};
use crate::item::Item;
use crate::splice::{field, with_field};

/// Writes the lines of the session. Lines without a message stay, unless they depend on something that left.
pub(super) fn write(revision: &Revision<'_>) -> Result<String, RewriteError> {
    if revision.from() != revision.to {
        let why = "its lines hold ids, folders and times that the messages do not have";
        return Err(revision.refuse_conversion(why));
    }
    let plan = Plan::of(revision);
    let mut chain = Chain {
        revision,
        out: String::new(),
        uuids: plan.uuids(revision),
        written: HashSet::new(),
        last: None,
        is_cut: true,
    };
    for record in 0..revision.session.records.len() {
        for line in plan.before.get(&record).into_iter().flatten() {
            chain.insert(line, record)?;
        }
        match plan.fates.get(&record) {
            Some(Written::AsItWas) => chain.keep(record),
            Some(Written::Changed(line)) => chain.change(record, line, &plan)?,
            Some(Written::Left) => chain.is_cut = true,
            None => chain.other(record, &plan),
        }
        for line in plan.behind.get(&record).into_iter().flatten() {
            chain.insert(line, record)?;
        }
    }
    Ok(chain.out)
}

/// The fate of a record that holds messages.
enum Written<'a> {
    AsItWas,
    Changed(&'a Line<'a>),
    Left,
}

/// The fate of every record, and the places of new lines.
struct Plan<'a> {
    fates: HashMap<usize, Written<'a>>,
    /// The messages of records that changed, by place.
    messages: HashMap<(usize, usize), Fate<'a>>,
    before: HashMap<usize, Vec<&'a Line<'a>>>,
    behind: HashMap<usize, Vec<&'a Line<'a>>>,
}

impl<'a> Plan<'a> {
    fn of(revision: &'a Revision<'a>) -> Self {
        let mut plan = Self {
            fates: HashMap::new(),
            messages: HashMap::new(),
            before: HashMap::new(),
            behind: HashMap::new(),
        };
        for (record, read) in revision.session.records.iter().enumerate() {
            if read.n_messages() > 0 {
                plan.fates.insert(record, Written::Left);
            }
        }
        // A generated result directly follows its call: results come first there, whatever follows.
        let mut caller = 0;
        for line in &revision.lines {
            if let (Some(item), Role::Assistant) = (line.item(), line.role()) {
                caller = item.places().iter().map(|place| place.record).max().unwrap_or_default();
            }
            match (line.item(), revision.items[line.number].places().first()) {
                (Some(item), _) => plan.place(item, line),
                (None, Some(first)) => plan.before.entry(first.record).or_default().push(line),
                (None, None) => plan.behind.entry(caller).or_default().push(line),
            }
        }
        plan.notice_losses(revision);
        plan.keep_reasoning(revision);
        plan
    }

    /// Marks a record that lost one of its messages as changed, even if the others are unchanged.
    fn notice_losses(&mut self, revision: &'a Revision<'a>) {
        for line in &revision.lines {
            for record in line.item().into_iter().flat_map(Item::places).map(|place| place.record) {
                let n_messages = revision.session.records[record].n_messages();
                let has_lost = (0..n_messages).any(|message| !self.messages.contains_key(&(record, message)));
                if has_lost && matches!(self.fates.get(&record), Some(Written::AsItWas)) {
                    self.fates.insert(record, Written::Changed(line));
                }
            }
        }
    }

    fn place(&mut self, item: &'a Item, line: &'a Line<'a>) {
        for (n, place) in item.places().iter().enumerate() {
            let fate = match line.says {
                Says::Less(_, message) => Fate::Says(message),
                Says::Same(_) | Says::New(_) => Fate::Kept,
            };
            self.messages.insert((place.record, place.message), fate);
            let is_later_piece = matches!(fate, Fate::Says(_)) && n > 0;
            let written = match (fate, self.fates.get(&place.record)) {
                _ if is_later_piece => Written::Left,
                (Fate::Kept, Some(Written::Changed(changed))) => Written::Changed(changed),
                // The operations of the queue belong together, so its words become a message of their own.
                (Fate::Kept, _) if is_of_queue(line.records[place.record].raw()) => Written::Changed(line),
                (Fate::Kept, _) => Written::AsItWas,
                _ => Written::Changed(line),
            };
            self.fates.insert(place.record, written);
        }
    }

    /// Pieces of a reply that hold reasoning alone stay with it.
    fn keep_reasoning(&mut self, revision: &'a Revision<'a>) {
        let records = &revision.session.records;
        let is_kept = |fates: &HashMap<usize, Written<'_>>, record: usize| {
            !matches!(fates.get(&record), None | Some(Written::Left))
        };
        let replies: HashSet<&str> = (0..records.len())
            .filter(|record| is_kept(&self.fates, *record))
            .filter_map(|record| records[record].reply.as_deref())
            .collect();
        for (record, read) in records.iter().enumerate().skip(revision.start) {
            if let (true, Some(reply)) = (read.n_messages() == 0, read.reply.as_deref()) {
                let written = if replies.contains(reply) { Written::AsItWas } else { Written::Left };
                self.fates.insert(record, written);
            }
        }
    }

    /// Returns the ids of the messages that are written, which other lines may depend on.
    fn uuids(&self, revision: &Revision<'_>) -> HashSet<String> {
        let written = self.fates.iter().filter(|(_, written)| !matches!(written, Written::Left));
        written.filter_map(|(record, _)| text(revision.raw(*record), "uuid")).collect()
    }
}

/// The lines written so far and the end of their chain.
struct Chain<'a> {
    revision: &'a Revision<'a>,
    out: String,
    /// Ids of all messages of the file that are written, sooner or later.
    uuids: HashSet<String>,
    written: HashSet<String>,
    last: Option<String>,
    /// True if something left or was added since the last message that was written.
    is_cut: bool,
}

impl Chain<'_> {
    fn keep(&mut self, record: usize) {
        let line = self.revision.raw(record).to_owned();
        self.append(&line);
    }

    /// Writes a message's line, which gets the one before as its parent if its own is not written.
    fn append(&mut self, line: &str) {
        let parent = text(line, "parentUuid");
        let is_in_place = !self.is_cut && parent.as_ref().is_none_or(|parent| self.written.contains(parent));
        let last = json!(self.last).to_string();
        let patched =
            if is_in_place || parent == self.last { None } else { with_field(line, "parentUuid", &last) };
        let line = patched.as_deref().unwrap_or(line);
        if let Some(uuid) = text(line, "uuid") {
            self.written.insert(uuid.clone());
            self.last = Some(uuid);
        }
        self.is_cut = false;
        self.push(line);
    }

    fn push(&mut self, line: &str) {
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    /// Writes a record of which messages left or say less.
    fn change(&mut self, record: usize, line: &Line<'_>, plan: &Plan<'_>) -> Result<(), RewriteError> {
        let is_attached = self.revision.session.records[record].attachment.is_some();
        if is_attached || is_of_queue(self.revision.raw(record)) {
            // Only Claude Code can write it; here it becomes a message of the user's role.
            return self.insert(line, record);
        }
        let blocks =
            self.changed_blocks(record, line, plan).map_err(|source| self.revision.refuse(line, source))?;
        let raw = self.revision.raw(record);
        let message =
            field(raw, "message").and_then(|message| with_field(message, "content", &content_json(&blocks)));
        let changed = message.and_then(|message| with_field(raw, "message", &message));
        // The copy of the result that the agent keeps for its own display would still say it all.
        let changed = without_field(&changed.ok_or(RewriteError::OtherFile)?, "toolUseResult");
        self.append(&changed);
        Ok(())
    }

    fn changed_blocks(
        &self,
        record: usize,
        line: &Line<'_>,
        plan: &Plan<'_>,
    ) -> Result<Vec<String>, WireError> {
        let said = |record: usize| {
            field(self.revision.raw(record), "message").and_then(|message| field(message, "content"))
        };
        if let (Says::Less(item, message), Role::Assistant) = (&line.says, line.role()) {
            let contents: Vec<&str> = item.places().iter().filter_map(|place| said(place.record)).collect();
            return assistant_blocks(&contents, &item.message(line.records), message);
        }
        let messages = self.revision.session.records[record].messages();
        let fate = |message| plan.messages.get(&(record, message)).copied().unwrap_or(Fate::Gone);
        let fates: Vec<Fate<'_>> = (0..messages.len()).map(fate).collect();
        user_blocks(said(record).unwrap_or_default(), &messages, &fates)
    }

    /// Writes a new message, with the folder, version and time of the record at its position.
    fn insert(&mut self, line: &Line<'_>, record: usize) -> Result<(), RewriteError> {
        let message = &*line.message();
        let (role, blocks) = entry_blocks(message).map_err(|source| self.revision.refuse(line, source))?;
        let blocks: Vec<String> = blocks.iter().map(Value::to_string).collect();
        let body = format!("{{\"role\":\"{role}\",\"content\":{}}}", content_json(&blocks));
        let uuid = self.uuid(&body);
        let around = around(self.revision.raw(record), message);
        let fields = format!("\"type\":\"{role}\",\"message\":{body},\"uuid\":\"{uuid}\"");
        self.is_cut = true;
        self.append(&format!("{{\"parentUuid\":null,{around}{fields}}}"));
        self.is_cut = true;
        Ok(())
    }

    /// Returns an id that the same session with the same messages always gets.
    fn uuid(&self, body: &str) -> String {
        let mut hash = Sha256::new();
        for part in [&self.revision.session.id, self.last.as_deref().unwrap_or_default(), body] {
            hash.update(part);
            hash.update([0]);
        }
        let mut bytes: [u8; 16] = [0; 16];
        bytes.copy_from_slice(&hash.finalize()[..16]);
        bytes[6] = bytes[6] & 0x0f | 0x80;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex = hex::encode(bytes);
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }

    /// Writes a line that is not a message, unless it hangs on one that is not written.
    fn other(&mut self, record: usize, plan: &Plan<'_>) {
        let line = self.revision.raw(record).to_owned();
        if is_of_queue(&line) {
            return;
        }
        let hangs = |key: &str| text(&line, key).is_none_or(|uuid| self.uuids.contains(&uuid));
        if !hangs("leafUuid") || !hangs("messageId") || plan.fates.contains_key(&record) {
            return;
        }
        let Some(uuid) = text(&line, "uuid") else { return self.push(&line) };
        let is_message = matches!(text(&line, "type").as_deref(), Some("user" | "assistant"));
        let is_boundary = text(&line, "subtype").as_deref() == Some("compact_boundary");
        let parent = text(&line, "parentUuid");
        let has_parent = parent.as_ref().is_none_or(|parent| self.written.contains(parent));
        if record < self.revision.start || is_message || is_boundary || self.is_cut || !has_parent {
            return;
        }
        if parent == self.last {
            self.last = Some(uuid.clone());
        }
        self.written.insert(uuid);
        self.push(&line);
    }
}

/// Returns the fields of a new line besides its message, each followed by a comma.
fn around(template: &str, message: &Message) -> String {
    const SHARED: [&str; 7] =
        ["isSidechain", "userType", "cwd", "sessionId", "version", "gitBranch", "timestamp"];
    let template: Map<String, Value> = crate::json_text::parse(template).unwrap_or_default();
    let mut text: String =
        SHARED.iter().filter_map(|key| Some(format!("\"{key}\":{},", template.get(*key)?))).collect();
    if message.is_compacted {
        text.push_str("\"isCompactSummary\":true,");
    } else if message.note_by().is_some() {
        text.push_str("\"isMeta\":true,");
    }
    text
}

/// Checks whether a line is an operation of the queue.
fn is_of_queue(line: &str) -> bool {
    line.contains(OPERATION) && text(line, "type").as_deref() == Some(OPERATION)
}

/// Returns the text under `key` of the line.
fn text(line: &str, key: &str) -> Option<String> {
    field(line, key).and_then(|value| serde_json::from_str(value).ok())
}

fn without_field(line: &str, key: &str) -> String {
    let Some(fields) = fields(line).filter(|fields| fields.iter().any(|(name, _)| name == key)) else {
        return line.to_owned();
    };
    let left = fields.iter().filter(|(name, _)| name != key);
    let left: Vec<String> = left.map(|(name, value)| format!("{}:{}", json!(name), value.get())).collect();
    format!("{{{}}}", left.join(","))
}
