//! The reasons why a provider's JSON could not be read.

use serde_json::Value;

use crate::{ErrorBody, Protocol};

/// A fault in a body, an event or a message of a protocol.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// It is not JSON.
    #[error("not JSON: {source}")]
    Json {
        /// The parser's message, with line and column.
        #[source]
        source: serde_json::Error,
    },
    /// It is JSON, but not of the protocol.
    #[error("`{at}` {what}")]
    Shape {
        /// The fault, as the rest of a sentence about the place: "must be a string".
        what: String,
        /// The place, as a path of keys: `tool_calls[0].function.name`.
        at: String,
    },
    /// It is a good answer, of another protocol.
    #[error("it is an answer in {}", protocol.name())]
    Foreign {
        /// The protocol.
        protocol: Protocol,
    },
    /// It is an error of the server's in a body that began as an answer.
    #[error("the server answers with an error: {}", error.message)]
    Refused {
        /// The server's error.
        error: Box<ErrorBody>,
    },
}

impl WireError {
    pub(crate) fn json(source: serde_json::Error) -> Self {
        Self::Json { source }
    }

    /// Returns an error if `value` is plainly of another protocol than `own`.
    pub(crate) fn foreign(value: &Value, own: Protocol) -> Result<(), Self> {
        match Protocol::of(value).filter(|spoken| *spoken != own) {
            Some(protocol) => Err(Self::Foreign { protocol }),
            None => Ok(()),
        }
    }

    pub(crate) fn refused(error: ErrorBody) -> Self {
        Self::Refused { error: Box::new(error) }
    }

    pub(crate) fn shape(at: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Shape { what: what.into(), at: at.into() }
    }
}
