//! Sessions read message by message: for those who look at each once, and at files that are larger than
//! memory should hold.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};

use forge_domain::{Body, Message};
use serde::Deserializer as _;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::attachment::Tally;
use crate::boundary::compaction;
use crate::claude_code::{self, Records, Shape};
use crate::claude_code_branch::active_branch;
use crate::draft::{joined, request_tools};
use crate::read::Signs;
use crate::recording::REPLY_REACH;
use crate::{Attachments, Format, Record, RecordedCompaction, TranscriptError, anthropic, openai};

/// A session that was read message by message.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamedSession {
    /// The session's name.
    pub id: String,
    /// The format it was recorded in.
    pub format: Format,
    /// The number of its records.
    pub records: usize,
    /// Lines that are no record.
    pub skipped_lines: usize,
    /// The compactions that the recording agent made.
    pub compactions: Vec<RecordedCompaction>,
    /// The attachments that the recording agent itself added.
    pub attachments: Vec<Attachments>,
    /// The tool schemas of a request body, as compact JSON.
    pub tools: Option<String>,
}

/// The reasons why a session could not be read message by message.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is not a session.
    #[error(transparent)]
    Transcript(#[from] TranscriptError),
}

/// A function that opens a file, each time at its beginning.
pub type Opener<'o> = &'o mut dyn FnMut() -> io::Result<Box<dyn Read>>;

/// Reads the one session of a file and passes each message to `visit`, in order, as
/// [`crate::Draft::messages_of`] returns them. At no time is more of the file in memory than a few messages
/// and the places of its records.
///
/// `None` if the file is not plainly one session of a format that can be read so: [`crate::read`] reads it,
/// or reports its faults.
///
/// # Errors
/// [`StreamError`] if the file cannot be read, or an entry is not a message.
pub fn stream(
    open: Opener<'_>,
    origin: &str,
    visit: &mut dyn FnMut(&Message),
) -> Result<Option<StreamedSession>, StreamError> {
    if let Some(head) = Head::of(text(open)?) {
        return head.stream(open, origin, visit).map(Some);
    }
    stream_lines(open, origin, visit)
}

/// Returns the file, without its byte order mark.
fn text(open: Opener<'_>) -> io::Result<BufReader<Box<dyn Read>>> {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    let mut reader = BufReader::with_capacity(256 * 1024, open()?);
    if reader.fill_buf()?.starts_with(MARK) {
        reader.consume(MARK.len());
    }
    Ok(reader)
}

/// The facts that have to be known of a document before its messages can be read.
#[derive(Default)]
struct Head {
    /// The evidence for the protocol of its messages; `None` if there are none.
    signs: Option<Signs>,
    system: Option<Box<RawValue>>,
    tools: Option<Box<RawValue>>,
    is_list: bool,
}

impl Head {
    /// Reads the head of a document; returns `None` if it is neither a list of messages nor a request with
    /// one.
    fn of(reader: impl Read) -> Option<Self> {
        let mut head = Self::default();
        let mut parser = serde_json::Deserializer::from_reader(reader);
        parser.deserialize_any(HeadVisitor(&mut head)).ok()?;
        parser.end().ok()?;
        head.signs.is_some().then_some(head)
    }

    fn stream(
        self,
        open: Opener<'_>,
        origin: &str,
        visit: &mut dyn FnMut(&Message),
    ) -> Result<StreamedSession, StreamError> {
        let has_system = self.system.is_some();
        let format = self.signs.as_ref().map_or(Format::OpenAi, |signs| signs.format(has_system));
        let mut n_records = 0;
        let mut emit = |record: Record| {
            n_records += 1;
            record.messages().iter().for_each(&mut *visit);
        };
        let mut openai = openai::Entries::new(origin, "messages");
        let mut anthropic = anthropic::Entries::new(origin);
        if let (Format::Anthropic, Some(system)) = (format, &self.system) {
            emit(anthropic::system_record(system.get(), origin)?);
        }
        let mut fault = None;
        let mut take = |entry: &str| {
            let record = match format {
                Format::Anthropic => anthropic.read(entry),
                Format::OpenAi | Format::TauBench | Format::ClaudeCode => openai.read(entry),
            };
            match record {
                Ok(record) => emit(record),
                Err(error) => fault = Some(error),
            }
            fault.is_none()
        };
        let mut parser = serde_json::Deserializer::from_reader(text(open)?);
        let read = parser.deserialize_any(EntriesVisitor { is_list: self.is_list, take: &mut take });
        if let Some(fault) = fault {
            return Err(fault.into());
        }
        read.map_err(|source| TranscriptError::json(origin, source))?;
        let tools = self.tools.and_then(|tools| request_tools(format!("{{\"tools\":{tools}}}").as_bytes()));
        let id = origin.rsplit(['/', '\\']).next().unwrap_or(origin).to_owned();
        Ok(StreamedSession {
            id,
            format,
            records: n_records,
            skipped_lines: 0,
            compactions: Vec::new(),
            attachments: Vec::new(),
            tools,
        })
    }
}

struct HeadVisitor<'h>(&'h mut Head);

impl<'de> Visitor<'de> for HeadVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut signs = Signs::default();
        let mut is_first = true;
        while let Some(item) = items.next_element::<Box<RawValue>>()? {
            // The trials of tau-bench, and other lists, are not messages.
            if is_first && !has_role(item.get()) {
                return Err(A::Error::custom("not a list of messages"));
            }
            is_first = false;
            signs.look(item.get());
        }
        self.0.is_list = true;
        self.0.signs = (!is_first).then_some(signs);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(key) = fields.next_key::<String>()? {
            match key.as_str() {
                "messages" => {
                    let mut signs = Signs::default();
                    fields.next_value_seed(Each(&mut |entry: &str| {
                        signs.look(entry);
                        true
                    }))?;
                    self.0.signs = Some(signs);
                }
                "system" => self.0.system = fields.next_value()?,
                "tools" => self.0.tools = fields.next_value()?,
                _ => {
                    fields.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

fn has_role(entry: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Entry {
        role: Option<IgnoredAny>,
        traj: Option<IgnoredAny>,
    }
    serde_json::from_str::<Entry>(entry).is_ok_and(|entry| entry.role.is_some() && entry.traj.is_none())
}

/// The entries of the document, one by one, until one is not taken.
struct EntriesVisitor<'t> {
    is_list: bool,
    take: &'t mut dyn FnMut(&str) -> bool,
}

impl<'de> Visitor<'de> for EntriesVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<(), A::Error> {
        Each(self.take).visit_seq(items)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(key) = fields.next_key::<String>()? {
            if key == "messages" && !self.is_list {
                fields.next_value_seed(Each(&mut *self.take))?;
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// The items of a list, one by one, until one is not taken.
struct Each<'t>(&'t mut dyn FnMut(&str) -> bool);

impl<'de> DeserializeSeed<'de> for Each<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, list: D) -> Result<(), D::Error> {
        list.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Each<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element::<Box<RawValue>>()? {
            if !(self.0)(item.get()) {
                return Err(A::Error::custom("this entry is no message"));
            }
        }
        Ok(())
    }
}

/// Streams a file with one record per line.
fn stream_lines(
    open: Opener<'_>,
    origin: &str,
    visit: &mut dyn FnMut(&Message),
) -> Result<Option<StreamedSession>, StreamError> {
    let mut shape = Shape::default();
    let (mut compactions, mut summaries) = (Vec::new(), Vec::new());
    let mut is_record = Vec::new();
    let mut fault = None;
    let is_text = each_line(text(open)?, &mut |line| {
        let n = is_record.len() + 1;
        let looked = if line.trim().is_empty() { Ok(false) } else { shape.look(line, n, origin) };
        let looked = looked.unwrap_or_else(|error| {
            fault = Some(error);
            false
        });
        is_record.push(looked);
        if looked {
            let place = shape.nodes.len() - 1;
            compactions.extend(compaction(place, line));
            if line.contains("isCompactSummary") {
                summaries.push(place);
            }
        }
        // A first line that is not a record at all is not worth reading the rest.
        fault.is_none() && (shape.is_own || n < 1_000)
    })?;
    match fault {
        Some(error) if shape.is_own => return Err(error.into()),
        _ if !shape.is_own || !is_text => return Ok(None),
        _ => {}
    }
    let active = active_branch(&shape.nodes);
    let start = start_of_window(&compactions, &summaries, &active, &shape);
    let n_records = shape.nodes.len();
    let (mut reader, mut tally, mut joiner) = (Records::default(), Tally::default(), Joiner::new(visit));
    let (mut at, mut place) = (0, 0);
    let mut nodes = shape.nodes.into_iter();
    each_line(text(open)?, &mut |line| {
        at += 1;
        if is_record.get(at - 1) != Some(&true) {
            return true;
        }
        let Some(node) = nodes.next() else { return false };
        let record = reader.read(line, node, active.get(place) == Some(&true));
        let is_in_context = place >= start && record.n_messages() > 0;
        tally.add(&record, is_in_context);
        if is_in_context {
            joiner.push(record);
        }
        place += 1;
        true
    })?;
    joiner.finish();
    Ok(Some(StreamedSession {
        id: shape.id.unwrap_or_else(|| claude_code::file_stem(origin).to_owned()),
        format: Format::ClaudeCode,
        records: n_records,
        skipped_lines: shape.skipped_lines,
        compactions,
        attachments: tally.finish(),
        tools: None,
    }))
}

/// Returns the first record of what the model would see, as [`crate::Session`] has it.
fn start_of_window(
    compactions: &[RecordedCompaction],
    summaries: &[usize],
    active: &[bool],
    shape: &Shape,
) -> usize {
    let is_summed_up = |compaction: &&RecordedCompaction| {
        summaries.iter().any(|summary| *summary >= compaction.record && active[*summary])
    };
    let Some(last) = compactions.iter().rev().find(is_summed_up) else { return 0 };
    let earlier = &shape.nodes[..last.record];
    let kept = last.kept_from.as_ref();
    kept.and_then(|uuid| earlier.iter().position(|node| node.uuid.as_ref() == Some(uuid)))
        .unwrap_or(last.record)
}

/// Passes each line to `take`, until it accepts no more; returns whether all of them are text.
fn each_line(mut reader: impl BufRead, take: &mut dyn FnMut(&str) -> bool) -> io::Result<bool> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(true);
        }
        let is_last = line.last() != Some(&b'\n');
        let line = match std::str::from_utf8(&line) {
            Ok(line) => line,
            // The file was cut in the middle of a character.
            Err(error) if is_last && error.error_len().is_none() => {
                std::str::from_utf8(&line[..error.valid_up_to()]).unwrap_or_default()
            }
            Err(_) => return Ok(false),
        };
        if line.contains('\0') {
            return Ok(false);
        }
        let line = line.strip_suffix('\n').unwrap_or(line);
        if !take(line.strip_suffix('\r').unwrap_or(line)) {
            return Ok(true);
        }
    }
}

/// A joiner of the pieces of replies, which may be some records apart.
struct Joiner<'v> {
    waiting: VecDeque<(Option<String>, Message)>,
    visit: &'v mut dyn FnMut(&Message),
}

impl<'v> Joiner<'v> {
    fn new(visit: &'v mut dyn FnMut(&Message)) -> Self {
        Self { waiting: VecDeque::new(), visit }
    }

    fn push(&mut self, record: Record) {
        let of_reply = record.reply.clone();
        for message in record.into_messages() {
            let reply = of_reply.as_ref().filter(|_| matches!(message.body, Body::Assistant { .. }));
            let piece = self.waiting.iter_mut().rev().find(|(of, _)| reply.is_some() && of.as_ref() == reply);
            if let Some((_, first)) = piece {
                *first = joined(first, &message);
                continue;
            }
            self.waiting.push_back((reply.cloned(), message));
            if self.waiting.len() > REPLY_REACH
                && let Some((_, message)) = self.waiting.pop_front()
            {
                (self.visit)(&message);
            }
        }
    }

    fn finish(self) {
        self.waiting.iter().for_each(|(_, message)| (self.visit)(message));
    }
}
