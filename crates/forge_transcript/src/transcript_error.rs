//! Why a recorded session could not be read.

use forge_wire::WireError;
use serde_json::error::Category;

use crate::Format;

/// What is wrong with a file of a recorded session, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    /// There is nothing in it.
    #[error("{origin} is empty; was the session written to another file?")]
    Empty {
        /// Name of the file.
        origin: String,
    },
    /// It is no text.
    #[error("{origin} is no text: byte {byte} is not UTF-8; sessions are JSON, so unpack or export it first")]
    Binary {
        /// Name of the file.
        origin: String,
        /// Offset of the first byte that is no text, counted from zero.
        byte: usize,
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
        "{origin} is not JSON at line {line}, column {column}: {source}; mend it there, or export the session again"
    )]
    Json {
        /// Name of the file.
        origin: String,
        /// Line, counted from one.
        line: usize,
        /// Column, counted from one in bytes.
        column: usize,
        /// What the parser says.
        #[source]
        source: serde_json::Error,
    },
    /// It is JSON, but of no format that is read here.
    #[error("{origin} is of no format known here; known are: {known}; convert it to one of these")]
    UnknownFormat {
        /// Name of the file.
        origin: String,
        /// The formats that are known, in words.
        known: String,
    },
    /// It is JSON, but not what its format has in that place.
    #[error(
        "{origin} is not what its format has at line {line}, column {column}: {source}; mend it there, or read it as another format"
    )]
    Shape {
        /// Name of the file.
        origin: String,
        /// Line, counted from one.
        line: usize,
        /// Column, counted from one in bytes.
        column: usize,
        /// What the parser says.
        #[source]
        source: serde_json::Error,
    },
    /// An entry of its messages is none.
    #[error(
        "{origin}: entry {index} of `{list}` is no message: {source}; mend that entry, or read the file as another format"
    )]
    NotAMessage {
        /// Name of the file.
        origin: String,
        /// The list of messages.
        list: String,
        /// Which entry, counted from zero.
        index: usize,
        /// What is wrong with it, and at which key.
        #[source]
        source: WireError,
    },
}

impl TranscriptError {
    /// That `origin` is of none of the formats there are.
    pub(crate) fn unknown(origin: &str) -> Self {
        let known = Format::ALL.map(|format| format.to_string()).join("; ");
        Self::UnknownFormat { origin: origin.to_owned(), known }
    }

    /// What the parser of JSON says about `origin`.
    pub(crate) fn json(origin: &str, source: serde_json::Error) -> Self {
        let (origin, line, column) = (origin.to_owned(), source.line(), source.column());
        match source.classify() {
            Category::Eof => Self::Truncated { origin, line, column },
            Category::Data => Self::Shape { origin, line, column, source },
            Category::Syntax | Category::Io => Self::Json { origin, line, column, source },
        }
    }
}
