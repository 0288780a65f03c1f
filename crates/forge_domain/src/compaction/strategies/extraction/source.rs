//! The origin of a line: its message or, in an earlier record, the message where it first stood.

use std::collections::BTreeMap;
use std::fmt;

use super::record::{Section, is_record, sections};
use crate::compaction::features::{Line, Term};
use crate::{ContextMessage, MessageId, Role};

/// The speaker of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Voice {
    /// The agent, in a call.
    Calls,
    /// The agent or a user.
    Says,
    /// A tool.
    Shows,
}

impl Voice {
    /// Returns the voice of `role`.
    const fn of(role: Role) -> Self {
        match role {
            Role::Tool => Self::Shows,
            Role::System | Role::User | Role::Assistant => Self::Says,
        }
    }
}

/// The speakers of all lines that have a term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Voices {
    pub(super) calls: bool,
    pub(super) says: bool,
    pub(super) shows: bool,
}

impl Voices {
    /// Returns the voices of a term in a message of `role` that is not a record.
    pub(super) fn of(term: Term, role: Role) -> Self {
        let mut voices = Self { calls: term.is_called(), ..Self::default() };
        if term.is_said() {
            voices.add(Voice::of(role));
        }
        voices
    }

    const fn add(&mut self, voice: Voice) {
        match voice {
            Voice::Calls => self.calls = true,
            Voice::Says => self.says = true,
            Voice::Shows => self.shows = true,
        }
    }
}

/// The origins of the lines of earlier records; every other line comes from its own message.
pub(super) struct Sources {
    /// By the record's position, for each line of its features.
    records: BTreeMap<usize, Vec<Source>>,
}

/// The kind of a line of an earlier record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A line of the message so labelled.
    Line(String),
    /// A bare name.
    Name,
    /// Part of the frame, or of what is carried over section by section.
    Frame,
}

/// The label above a line in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Label<'a> {
    /// The label that an earlier record has for it.
    Carried(&'a str),
    /// A message of the context, and the role or `call`.
    New { id: Option<MessageId>, of: &'static str },
}

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Carried(label) => f.write_str(label),
            Self::New { id: Some(id), of } => write!(f, "{id} {of}"),
            Self::New { id: None, of } => write!(f, " {of}"),
        }
    }
}

/// The word after a message's id for the agent's calls.
const CALL: &str = "call";

impl Sources {
    /// Returns the sources of all lines of `messages`.
    pub(super) fn of(messages: &[ContextMessage]) -> Self {
        let records = messages.iter().enumerate().filter(|(_, message)| is_record(message.message()));
        Self { records: records.map(|(position, message)| (position, lines_of_record(message))).collect() }
    }

    /// Returns the speaker of `line`, the `nth` of the message at `position`; `None` if there is none.
    pub(super) fn voice(
        &self,
        messages: &[ContextMessage],
        position: usize,
        nth: usize,
        line: &Line,
    ) -> Option<Voice> {
        match self.records.get(&position).map(|lines| &lines[nth]) {
            None if line.is_call => Some(Voice::Calls),
            None => Some(Voice::of(messages[position].message().role())),
            Some(Source::Line(label)) if label.ends_with(CALL) => Some(Voice::Calls),
            Some(Source::Line(label)) if label.ends_with(Role::Tool.as_str()) => Some(Voice::Shows),
            Some(Source::Line(_)) => Some(Voice::Says),
            Some(Source::Name) => Some(Voice::Shows),
            Some(Source::Frame) => None,
        }
    }

    /// Returns the speakers of each term of the message at `position`, if that is a record.
    pub(super) fn voices_of_record(
        &self,
        messages: &[ContextMessage],
        position: usize,
    ) -> Option<Vec<Voices>> {
        self.records.get(&position)?;
        let features = messages[position].features();
        let mut voices = vec![Voices::default(); features.terms.len()];
        for (nth, line) in features.lines.iter().enumerate() {
            let Some(voice) = self.voice(messages, position, nth, line) else { continue };
            for place in features.places(line) {
                voices[*place as usize].add(voice);
            }
        }
        Some(voices)
    }

    /// Returns the kinds of the lines of the message at `position`, if that is a record.
    pub(super) fn record(&self, position: usize) -> Option<&[Source]> {
        self.records.get(&position).map(Vec::as_slice)
    }

    /// Returns the label of a line in the record: the `nth` of the message at `position`.
    pub(super) fn label(&self, messages: &[ContextMessage], position: u32, nth: u32) -> Label<'_> {
        let (position, nth) = (position as usize, nth as usize);
        if let Some(Source::Line(label)) = self.record(position).map(|lines| &lines[nth]) {
            return Label::Carried(label);
        }
        let message = &messages[position];
        let is_call = message.features().lines[nth].is_call;
        let of = if is_call { CALL } else { message.message().role().as_str() };
        Label::New { id: message.id(), of }
    }
}

/// Returns the origin of each line of a record's features.
fn lines_of_record(record: &ContextMessage) -> Vec<Source> {
    let features = record.features();
    let mut sections = sections(&features.text).peekable();
    let mut current = Section::Frame;
    let mut source_of = |start: usize| {
        while let Some((_, _, section)) = sections.next_if(|(at, ..)| *at <= start) {
            current = section;
        }
        match current {
            Section::Line(label) => Source::Line(label.to_owned()),
            Section::Name => Source::Name,
            _ => Source::Frame,
        }
    };
    features.lines.iter().map(|line| source_of(line.start as usize)).collect()
}
