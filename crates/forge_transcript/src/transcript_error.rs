//! The reasons why a recorded session could not be read.

use std::io::ErrorKind;

use forge_wire::WireError;
use serde_json::error::Category;
use serde_json::{Map, Value};

use crate::Format;
use crate::foreign::{self, Foreign};
use crate::json_text::parse;

/// A fault in a file of a recorded session, with its place and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    /// There is nothing in it.
    #[error("{origin} is empty; was the session written to another file?")]
    Empty {
        /// Name of the file.
        origin: String,
    },
    /// It is not text.
    #[error(
        "{origin} is not text: byte {byte} is {}; sessions are JSON, so unpack or export it first",
        if *.is_zero { "zero" } else { "not UTF-8" }
    )]
    Binary {
        /// Name of the file.
        origin: String,
        /// Offset of the first byte that is not text, counted from zero.
        byte: usize,
        /// True if it is zero, which is UTF-8 and no text.
        is_zero: bool,
    },
    /// It is text in UTF-16, by its first bytes.
    #[error("{origin} is UTF-16, as PowerShell 5 writes it with `>`; save it as UTF-8")]
    Utf16 {
        /// Name of the file.
        origin: String,
    },
    /// It is compressed, and cannot be unpacked.
    #[error(
        "{origin} cannot be unpacked: {source}{}",
        if source.kind() == ErrorKind::FileTooLarge { "" } else { "; copy the whole file" }
    )]
    Packed {
        /// Name of the file.
        origin: String,
        /// The fault.
        #[source]
        source: std::io::Error,
    },
    /// Its one JSON value ends too early.
    #[error(
        "{origin} is cut off at line {line}, column {column}: the JSON does not end; copy the whole file"
    )]
    Truncated {
        /// Name of the file.
        origin: String,
        /// Line, counted from one.
        line: usize,
        /// Column, counted from one in bytes.
        column: usize,
    },
    /// It is not JSON.
    #[error(
        "{origin} is not JSON at line {line}, column {column}: {}; fix it there, or export the \
         session again",
        without_place(fault)
    )]
    Json {
        /// Name of the file.
        origin: String,
        /// Line, counted from one.
        line: usize,
        /// Column, counted from one in bytes.
        column: usize,
        /// The parser's error. It is no source: its words have the place again.
        fault: serde_json::Error,
    },
    /// It is words, such as Markdown.
    #[error(
        "{origin} is text for people, not a session that is read\n  help: take the file in which the agent itself \
         keeps the session, which is JSON; `forge sessions` lists those of this machine"
    )]
    Prose {
        /// Name of the file.
        origin: String,
    },
    /// It is JSON, but of no format that is read here.
    #[error(
        "{origin} has an unknown format: it is {looks}{}\n  help: if it is a session, {}",
        nearest.map(|near| format!("\n  nearest: `{}`, {}", near.id(), near.description())).unwrap_or_default(),
        WAY
    )]
    UnknownFormat {
        /// Name of the file.
        origin: String,
        /// The structure of the file, in words.
        looks: String,
        /// The format with which it has most in common, if that is much.
        nearest: Option<Format>,
    },
    /// It is not of the format that it was said to be.
    #[error(
        "{origin} is not of the format `{said}`: it looks like {name} (`{id}`)\n  help: read it with `--from {id}`, or \
         omit --from"
    )]
    OtherFormat {
        /// Name of the file.
        origin: String,
        /// The format that it was said to be.
        said: &'static str,
        /// The name of the format that it looks like.
        name: &'static str,
        /// The id of the format that it looks like.
        id: &'static str,
    },
    /// It is of a format that is recognized, and not read.
    #[error(
        "{origin} looks like {name}{}{}\n  help: {}{}",
        if name.ends_with(NOT_A_SESSION) { "" } else { ", which Forge does not read" },
        clause(.place),
        way.map(|way| format!("{way}; or ")).unwrap_or_default(),
        WAY
    )]
    Foreign {
        /// Name of the file.
        origin: String,
        /// The name of the format.
        name: &'static str,
        /// The evidence for the format, and its place; empty if it is the whole file.
        place: String,
        /// A short way to one of the formats that are read.
        way: Option<&'static str>,
    },
    /// It is JSON, but not what its format has in that place.
    #[error(
        "{origin} violates its format at line {line}, column {column}: {}; fix it there, or name another \
         format with `--from`",
        without_place(fault)
    )]
    Shape {
        /// Name of the file.
        origin: String,
        /// Line, counted from one.
        line: usize,
        /// Column, counted from one in bytes.
        column: usize,
        /// The parser's error. It is no source: its words have the place again.
        fault: serde_json::Error,
    },
    /// An entry of its messages is not a message.
    #[error(
        "{origin}: entry {index} of `{list}` is not a message: {source}; fix that entry, or name another \
         format with `--from`"
    )]
    NotAMessage {
        /// Name of the file.
        origin: String,
        /// The list of messages.
        list: String,
        /// The index of the entry, from 0.
        index: usize,
        /// The fault, and its key.
        #[source]
        source: WireError,
    },
    /// None of its entries holds a message.
    #[error(
        "{origin} was recognized as {name}, but it holds no message (entries: {entries}); if it is of another \
         format, name it with --from"
    )]
    Mute {
        /// Name of the file.
        origin: String,
        /// The name of the format.
        name: &'static str,
        /// The number of its entries.
        entries: usize,
    },
    /// Some of its lines are of another format.
    #[error(
        "{origin} mixes two formats: from line {line} on there are {later}, before it {earlier}\n  help: put the \
         lines of each into a file of its own: `head -n {before} FILE` prints the first, `tail -n +{line} FILE` the \
         others"
    )]
    Mixed {
        /// Name of the file.
        origin: String,
        /// The first line of the second format, counted from one.
        line: usize,
        /// The number of lines before it.
        before: usize,
        /// The name of the first format.
        earlier: &'static str,
        /// The name of the second format.
        later: &'static str,
    },
    /// A line claims to be a message, and is not.
    #[error("{origin}: line {line} is not a message of {agent}: {source}; fix that line, or remove it")]
    Record {
        /// Name of the file.
        origin: String,
        /// The agent that records in this format.
        agent: &'static str,
        /// Line, counted from one.
        line: usize,
        /// The fault, and its key.
        #[source]
        source: WireError,
    },
}

impl TranscriptError {
    /// Reports that `origin` is of no known format. The reader adds what it looks like.
    pub(crate) fn unknown(origin: &str) -> Self {
        Self::UnknownFormat { origin: origin.to_owned(), looks: "JSON".to_owned(), nearest: None }
    }

    /// Reports that `origin` is of a format that is not read; `place` has the evidence.
    pub(crate) fn foreign(origin: &str, foreign: Foreign, place: String) -> Self {
        let Foreign { name, way } = foreign;
        Self::Foreign { origin: origin.to_owned(), name, place, way }
    }

    /// Reports that entry `index` of `list`, which is `text`, is not a message, because of `source`. If it is
    /// recognized as one of another format, that format is named.
    pub(crate) fn entry(origin: &str, list: &str, index: usize, text: &str, source: WireError) -> Self {
        let fields: Option<Map<String, Value>> = parse(text).ok();
        match fields.as_ref().and_then(foreign::of_entry) {
            Some(foreign) => Self::foreign(origin, foreign, format!("entry {index} of `{list}`: {source}")),
            None => Self::NotAMessage { origin: origin.to_owned(), list: list.to_owned(), index, source },
        }
    }

    /// Reports a JSON parser's error about `origin`.
    pub(crate) fn json(origin: &str, source: serde_json::Error) -> Self {
        let (origin, line, column) = (origin.to_owned(), source.line(), source.column());
        match source.classify() {
            Category::Eof => Self::Truncated { origin, line, column },
            Category::Data => Self::Shape { origin, line, column, fault: source },
            Category::Syntax | Category::Io => Self::Json { origin, line, column, fault: source },
        }
    }
}

/// The way from any format to one that is read.
const WAY: &str = "write it as {\"messages\": [...]} (`openai`); `forge inspect --help` lists all formats";

/// The end of the names of formats that hold no session.
const NOT_A_SESSION: &str = "which is not a session";

/// Returns the words of a parser's error without its place, which is told before them.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

/// Returns the place `text` as the end of a sentence; nothing if it is empty.
fn clause(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" there ({text})") }
}
