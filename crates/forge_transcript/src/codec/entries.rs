//! Formats whose files are lists of entries, each with messages of its own: most agents' sessions.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use forge_domain::{Body, Message, ToolName};
use serde_json::Value;
use serde_json::value::RawValue;

use super::record_lines::each_record;
use super::traces::{Presence, Trace, Traces, reading};
use super::{
    Addition, Codec, Evidence, Fields, Input, NO_ADDITION, READ_ONLY, Revision, Source, Visit, Window,
    file_name,
};
use crate::format::FormatFacts;
use crate::json_text::parse;
use crate::mark::is_appended;
use crate::recorded_call::CallTally;
use crate::reply_pieces::Joiner;
use crate::session::Names;
use crate::written::split;
use crate::{
    Format, Record, RecordedCompaction, RewriteError, Session, StreamError, StreamedSession, TranscriptError,
};

/// The number of entries of which at least one has to hold a message, whatever they look like.
pub(crate) const SOME_ENTRIES: usize = 20;

/// A format whose file is a list of entries: a record a line, or the items of a list.
///
/// It has to recognize its files and to read one entry by itself. What entries mean for each other, such as
/// rewinds, branches and compactions, it tells as facts; the rest is the same for all such formats.
pub(crate) trait EntryFormat: Sync + Sized {
    /// Its names.
    const FACTS: &'static FormatFacts;
    /// True if its files have a record a line.
    const IS_LINES: bool = true;
    /// True if entries of the assistant that follow each other are pieces of one reply.
    const JOINS_REPLIES: bool = false;
    /// A word that is in the text of every record of a compaction; empty if its agent records none.
    const COMPACTION: &'static str = "";
    /// True if its compactions take single entries out of the context, and what is before them may stay.
    const FOLDS: bool = false;
    /// True if sessions of any other format can be written in this one.
    const IS_TARGET: bool = false;

    /// Checks whether a file is of this format.
    fn detect(evidence: &Evidence<'_>) -> bool;

    /// Returns the document that a file of changes adds up to, and the number of its invalid lines. Most
    /// files are what they are.
    fn document(text: &str) -> (Cow<'_, str>, usize) {
        (Cow::Borrowed(text), 0)
    }

    /// Finds the entries of each session of a document.
    fn sessions(text: &str) -> Result<Vec<Listing<'_>>, serde_json::Error> {
        Ok(vec![Listing::of_text(text)?])
    }

    /// Reads the messages of an entry.
    fn messages(entry: &Value) -> Vec<Message>;

    /// Reads the messages of an entry from its text, which is JSON in nearly all formats.
    fn text_messages(entry: &str) -> Vec<Message> {
        entry_messages::<Self>(&parse(entry).unwrap_or_default())
    }

    /// Returns the name of the session, if this entry has it.
    fn session_id(_entry: &Value) -> Option<String> {
        None
    }

    /// Returns the facts of an entry that decide whether others still count.
    fn trace(_entry: &Value) -> Trace {
        Trace::default()
    }

    /// Returns the id of the reply of which an entry is a piece.
    fn reply(_entry: &Value) -> Option<String> {
        None
    }

    /// Returns the id of the reply of which an entry, given as text, is a piece.
    fn reply_of(entry: &str) -> Option<String> {
        Self::reply(&parse(entry).unwrap_or_default())
    }

    /// Returns the compaction that an entry holds; its record is set by the caller.
    fn compaction(_entry: &Value) -> Option<RecordedCompaction> {
        None
    }

    /// Checks whether an entry is what a compaction put in place of earlier ones.
    fn is_summary(entry: &Value) -> bool {
        Self::compaction(entry).is_some()
    }

    /// Returns what the model sees after the last of `compactions`, in a format that folds: all but the
    /// entries that were folded.
    fn folded_window(_records: &[Record], _compactions: &[RecordedCompaction]) -> Window {
        Window::default()
    }

    /// Writes a session in this format, from whatever format it came.
    fn write(revision: &Revision<'_>) -> Result<Vec<u8>, RewriteError> {
        Err(revision.refuse_conversion(READ_ONLY))
    }

    /// Returns the lines to append to a file so that its agent continues with the revised session.
    fn append(_addition: &Addition<'_>) -> Result<Vec<String>, RewriteError> {
        Err(RewriteError::Append(NO_ADDITION))
    }

    /// Checks whether an entry without a message, given as text, is one of this format all the same.
    fn is_silent(_entry: &str) -> bool {
        false
    }

    /// Checks whether an entry, given as text, stays in the context of the model after a compaction.
    fn is_standing(_entry: &str) -> bool {
        false
    }
}

/// The entries of a session.
#[derive(Default)]
pub(crate) struct Listing<'a> {
    /// Its name, if the file has several.
    pub(crate) id: Option<String>,
    /// The texts of its entries.
    pub(crate) entries: Vec<&'a str>,
    /// Lines that are no entry.
    pub(crate) skipped_lines: usize,
}

impl<'a> Listing<'a> {
    /// Lists the records of a file with a record a line.
    pub(crate) fn lines(text: &'a str) -> Self {
        let mut listing = Self::default();
        for line in text.lines() {
            listing.skipped_lines += each_record(line, &mut |record| listing.entries.push(record));
        }
        listing
    }

    /// Lists the items of a file that is one list.
    pub(crate) fn of_list(text: &'a str) -> Result<Self, serde_json::Error> {
        let items: Vec<&RawValue> = serde_json::from_str(text)?;
        Ok(Self { entries: items.into_iter().map(RawValue::get).collect(), ..Self::default() })
    }

    /// Lists the items of a file that is one list, as `jq -s` writes it, or else the records of its lines.
    pub(crate) fn of_text(text: &'a str) -> Result<Self, serde_json::Error> {
        if text.trim_start().starts_with('[') { Self::of_list(text) } else { Ok(Self::lines(text)) }
    }

    /// Lists the items of lists, in order; a key that is missing has none, and a text counts as one item.
    pub(crate) fn of_keys(fields: &Fields<'a>, keys: &[&str]) -> Self {
        let mut listing = Self::default();
        for key in keys.iter().filter(|key| fields.has(&[key])) {
            match fields.get(key) {
                list if list.starts_with('[') => {
                    listing.entries.extend(fields.items(key).into_iter().map(RawValue::get));
                }
                one => listing.entries.push(one),
            }
        }
        listing
    }

    /// Sets its name.
    pub(crate) fn named(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }
}

impl<F: EntryFormat> Codec for F {
    fn format(&self) -> Format {
        Format(F::FACTS)
    }

    fn detect(&self, evidence: &Evidence<'_>) -> bool {
        F::detect(evidence)
    }

    fn is_target(&self) -> bool {
        F::IS_TARGET
    }

    fn keeps_form(&self) -> bool {
        true
    }

    fn is_lost(&self, record: &str) -> bool {
        F::IS_LINES && F::text_messages(record).is_empty() && !F::is_silent(record)
    }

    fn read(&self, input: &Input<'_>) -> Result<Vec<Session>, TranscriptError> {
        // Read as another format, a file would lose its messages without a word.
        let evidence = Evidence::of(input.bytes);
        if !F::detect(&evidence) {
            return Err(evidence.into_error(input.origin));
        }
        let (document, skipped_lines) = F::document(input.text()?);
        let listings = F::sessions(&document);
        let mut listings = listings.map_err(|source| TranscriptError::json(input.origin, source))?;
        listings.iter_mut().for_each(|listing| listing.skipped_lines += skipped_lines);
        listings.into_iter().map(|listing| read_session::<F>(listing, input)).collect()
    }

    fn stream(
        &self,
        source: &mut Source<'_>,
        visit: Visit<'_>,
    ) -> Result<Option<StreamedSession>, StreamError> {
        if F::IS_LINES { stream_lines::<F>(source, visit) } else { Ok(None) }
    }

    fn write(&self, revision: &Revision<'_>) -> Result<Vec<u8>, RewriteError> {
        F::write(revision)
    }

    fn append(&self, addition: &Addition<'_>) -> Result<Vec<String>, RewriteError> {
        F::append(addition)
    }

    fn compactions(&self, records: &[Record]) -> Vec<RecordedCompaction> {
        let records = records.iter().enumerate().filter(|(_, record)| record.n_messages() > 0);
        records.filter_map(|(place, record)| compaction::<F>(place, record.raw())).collect()
    }

    fn window(&self, records: &[Record]) -> Window {
        let mut compactions = self.compactions(records);
        if F::FOLDS {
            return F::folded_window(records, &compactions);
        }
        let Some(last) = compactions.pop() else { return Window::default() };
        let of_id = |id: &String| {
            let is_named =
                |record: &Record| record.raw().contains(id.as_str()) && has_id::<F>(record.raw(), id);
            records[..last.record].iter().position(is_named)
        };
        let kept = last.kept_record.or_else(|| last.kept_from.as_ref().and_then(of_id));
        let standing = (0..last.record).filter(|place| F::is_standing(records[*place].raw()));
        window(standing.collect(), kept, last.record)
    }

    fn is_summary(&self, record: &Record) -> bool {
        is_appended(record.raw()) || is_summary::<F>(record.raw())
    }

    fn is_repeat(&self, record: &Record) -> bool {
        self.is_summary(record)
    }
}

fn has_id<F: EntryFormat>(raw: &str, id: &str) -> bool {
    parse::<Value>(raw).is_ok_and(|entry| F::trace(&entry).id.as_deref() == Some(id))
}

/// Returns what the model sees after the compaction in `record`, which kept the records from `kept` on.
fn window(mut standing: Vec<usize>, kept: Option<usize>, record: usize) -> Window {
    let start = kept.filter(|kept| *kept < record).unwrap_or(record);
    standing.retain(|place| *place < start);
    standing.extend((start < record).then_some(record));
    Window { lead: standing, start, hidden: Vec::new() }
}

fn is_summary<F: EntryFormat>(raw: &str) -> bool {
    !F::COMPACTION.is_empty()
        && raw.contains(F::COMPACTION)
        && parse::<Value>(raw).is_ok_and(|entry| F::is_summary(&entry) && !F::messages(&entry).is_empty())
}

fn compaction<F: EntryFormat>(record: usize, raw: &str) -> Option<RecordedCompaction> {
    if F::COMPACTION.is_empty() || !raw.contains(F::COMPACTION) {
        return None;
    }
    let entry: Value = parse(raw).ok()?;
    let compaction = F::compaction(&entry).filter(|_| !F::messages(&entry).is_empty())?;
    Some(RecordedCompaction { record, ..compaction })
}

fn read_session<F: EntryFormat>(listing: Listing<'_>, input: &Input<'_>) -> Result<Session, TranscriptError> {
    let mut id = listing.id;
    let mut traces = Traces::default();
    for raw in &listing.entries {
        let entry: Value = parse(raw).unwrap_or_default();
        traces.push(F::trace(&entry));
        if id.is_none() {
            id = F::session_id(&entry);
        }
    }
    let reading = reading(&traces);
    let mut reader = EntryReader::default();
    let mut records = Vec::with_capacity(traces.len());
    for place in reading.order() {
        let raw = listing.entries[place];
        records.push(input.shelf.put(raw, reader.read::<F>(raw, reading.presence[place]), read_again::<F>));
    }
    let is_mute = records.iter().all(|record| record.n_messages() == 0);
    let has_content = || records.iter().any(|record| record.raw().contains("\"content\""));
    let holds_none = || records.iter().all(|record| F::text_messages(record.raw()).is_empty());
    if is_mute && (records.len() >= SOME_ENTRIES || has_content()) && holds_none() {
        return Err(TranscriptError::Mute {
            origin: input.origin.to_owned(),
            name: F::FACTS.name,
            entries: records.len(),
        });
    }
    let id = id.unwrap_or_else(|| file_stem(input.origin).to_owned());
    Ok(Session {
        skipped_lines: listing.skipped_lines,
        records_off_branch: reading.off_branch,
        ..Session::new(id, input.format, Arc::new(records))
    })
}

/// Returns the name of a file without what tells its kind.
fn file_stem(origin: &str) -> &str {
    let name = file_name(origin);
    let name = [".zst", ".gz"].iter().find_map(|packed| name.strip_suffix(*packed)).unwrap_or(name);
    name.strip_suffix(".jsonl").unwrap_or(name)
}

/// Reads the messages of an entry that was read before, without what the entries before it say.
fn read_again<F: EntryFormat>(raw: &str) -> Vec<Message> {
    F::text_messages(raw)
}

fn entry_messages<F: EntryFormat>(entry: &Value) -> Vec<Message> {
    let timestamp = entry.get("timestamp").and_then(|at| serde_json::from_value(at.clone()).ok());
    let messages = F::messages(entry).into_iter().flat_map(|message| {
        let is_plain = !message.is_compacted && message.note_by().is_none();
        if is_plain { split(message) } else { vec![message] }
    });
    messages.map(|message| Message { timestamp: message.timestamp.or(timestamp), ..message }).collect()
}

/// A reader of entries, one by one.
#[derive(Default)]
struct EntryReader {
    /// The number of replies that are complete.
    n_replies: usize,
    /// The id of the reply that is not complete.
    reply: Option<Arc<str>>,
    links: Links,
    names: Names,
}

impl EntryReader {
    fn read<F: EntryFormat>(&mut self, raw: &str, presence: Presence) -> Record {
        if presence == Presence::Gone {
            return Record::new(raw, Vec::new());
        }
        let mut messages = F::text_messages(raw);
        self.links.link(&mut messages);
        self.names.name(&mut messages);
        let reply = match F::JOINS_REPLIES {
            true => self.piece(&messages),
            false => F::reply_of(raw).map(Arc::from),
        };
        Record::new(raw, messages).part_of(reply, None).folded(presence == Presence::Folded)
    }

    /// Returns the id of the reply that `messages` belong to: it is over when another speaks.
    fn piece(&mut self, messages: &[Message]) -> Option<Arc<str>> {
        let is_reply =
            |message: &Message| matches!(message.body, Body::Assistant { .. }) && !message.is_compacted;
        if !messages.iter().all(is_reply) {
            self.n_replies += 1;
            self.reply = None;
            return None;
        }
        let id = || format!("reply {}", self.n_replies).into();
        (!messages.is_empty()).then(|| Arc::clone(self.reply.get_or_insert_with(id)))
    }
}

/// The ids for calls without one, which some formats do not have: a result then names the tool.
#[derive(Default)]
struct Links {
    n_made: usize,
    /// The calls that got an id and were not answered, oldest first.
    open: VecDeque<(ToolName, String)>,
    /// The last call with an id of its own, if it was not answered.
    last: Option<(ToolName, String)>,
}

impl Links {
    fn link(&mut self, messages: &mut [Message]) {
        for message in messages {
            match &mut message.body {
                Body::Assistant { calls, .. } => {
                    for call in calls {
                        if !call.id.is_empty() {
                            self.last = Some((call.name.clone(), call.id.clone()));
                            continue;
                        }
                        call.id = format!("call_{}", self.n_made);
                        self.n_made += 1;
                        self.open.push_back((call.name.clone(), call.id.clone()));
                    }
                }
                Body::Tool(result) if result.call_id.is_empty() => {
                    let is_of = |(name, _): &(ToolName, String)| {
                        result.name.as_ref().is_none_or(|called| called == name)
                    };
                    let open = match self.open.iter().position(is_of) {
                        Some(at) => self.open.remove(at),
                        None => self.last.take_if(|(name, _)| result.name.as_ref() == Some(&*name)),
                    };
                    if let Some((_, id)) = open {
                        result.call_id = id;
                    }
                }
                Body::Tool(result) => {
                    if self.last.as_ref().is_some_and(|(_, id)| *id == result.call_id) {
                        self.last = None;
                    }
                }
                Body::System(_) | Body::User(_) => {}
            }
        }
    }
}

/// The facts of a session that are collected before its messages are read.
#[derive(Default)]
struct Survey {
    traces: Traces,
    id: Option<String>,
    compactions: Vec<RecordedCompaction>,
    standing: Vec<usize>,
    calls: CallTally,
    skipped_lines: usize,
}

impl Survey {
    fn of<F: EntryFormat>(source: &mut Source<'_>) -> std::io::Result<Option<Self>> {
        // A document may have the same fields as the lines of another file.
        let sample = source.sample()?;
        let evidence = Evidence::of(&sample);
        if source.head()?.is_some() || evidence.text.starts_with('[') || !F::detect(&evidence) {
            return Ok(None);
        }
        let mut survey = Self::default();
        let is_text = source.each_line(&mut |line| {
            survey.skipped_lines += each_record(line, &mut |raw| {
                let place = survey.traces.len();
                let entry: Value = parse(raw).unwrap_or_default();
                survey.traces.push(F::trace(&entry));
                survey.calls.add_value(place, &entry);
                survey.compactions.extend(compaction::<F>(place, raw));
                survey.standing.extend(F::is_standing(raw).then_some(place));
                if survey.id.is_none() {
                    survey.id = F::session_id(&entry);
                }
            });
            true
        })?;
        Ok(Some(survey).filter(|survey| is_text && survey.traces.len() > 0))
    }

    /// Returns what the model would see, as [`Codec::window`] does. `spoken` are the compactions whose record
    /// has messages.
    fn window(&self) -> Window {
        let Some(last) = self.compactions.last() else { return Window::default() };
        let of_id = |id: &String| self.traces.place_of(id, last.record);
        let kept = last.kept_record.or_else(|| last.kept_from.as_ref().and_then(of_id));
        let standing = self.standing.iter().copied().filter(|place| *place < last.record);
        window(standing.collect(), kept, last.record)
    }
}

/// Streams a file with a record a line; returns `None` if it is not of this format.
fn stream_lines<F: EntryFormat>(
    source: &mut Source<'_>,
    visit: Visit<'_>,
) -> Result<Option<StreamedSession>, StreamError> {
    let Some(mut survey) = Survey::of::<F>(source)? else { return Ok(None) };
    let reading = reading(&survey.traces);
    if !reading.is_in_order(&survey.traces) {
        return Ok(None);
    }
    let active = reading.presence;
    let is_gone = |place: usize| active.get(place).is_none_or(|presence| *presence == Presence::Gone);
    survey.compactions.retain(|compaction| !is_gone(compaction.record));
    if F::FOLDS && !survey.compactions.is_empty() {
        return Ok(None);
    }
    let window = survey.window();
    let mut leads: Vec<Option<Record>> = window.lead.iter().map(|_| None).collect();
    let mut joiner = Joiner::new(visit);
    // What comes first may be at a later place, so its records are read in a pass of their own.
    let passes = if window.lead.is_empty() { 1 } else { 2 };
    for pass in 1..=passes {
        let mut reader = EntryReader::default();
        let mut place = 0;
        for lead in leads.iter_mut().filter(|_| pass == passes).filter_map(Option::take) {
            joiner.push(lead);
        }
        source.each_line(&mut |line| {
            each_record(line, &mut |raw| {
                let lead = window.lead.iter().position(|lead| *lead == place);
                let record = reader.read::<F>(raw, active.get(place).copied().unwrap_or(Presence::Gone));
                match lead {
                    Some(lead) if pass < passes => leads[lead] = Some(record),
                    None if pass == passes && place >= window.start && !record.is_folded => {
                        joiner.push(record);
                    }
                    _ => {}
                }
                place += 1;
            });
            true
        })?;
    }
    joiner.finish();
    Ok(Some(StreamedSession {
        id: survey.id.unwrap_or_else(|| file_stem(source.origin).to_owned()),
        format: Format(F::FACTS),
        records: survey.traces.len(),
        skipped_lines: survey.skipped_lines,
        records_off_branch: reading.off_branch,
        compactions: survey.compactions,
        attachments: Vec::new(),
        calls: survey.calls.finish(),
        tools: None,
    }))
}
