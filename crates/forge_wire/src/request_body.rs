//! The body of a request as received: the common parts of all three protocols, and everything else untouched.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::WireError;

/// The form in which a reply is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// A single body.
    Whole,
    /// A stream of events, the last of which reports the usage.
    Stream,
}

/// A request for a reply. Read and written again it is the same JSON value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestBody {
    /// The model that is asked; some servers have but one, and clients that know it leave it out.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub model: Option<Value>,
    /// The messages, in the form of the protocol.
    pub messages: Vec<Value>,
    /// True if the reply should be a stream; if unset, the protocol decides.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub stream: Option<Value>,
    /// All other fields: tools, options, what is not known here.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl RequestBody {
    /// Reads a body.
    ///
    /// # Errors
    /// [`WireError::Json`] if it is not JSON, or has no list of messages.
    pub fn read(body: &[u8]) -> Result<Self, WireError> {
        serde_json::from_slice(body).map_err(WireError::json)
    }
}

/// Reads a field that is there. Serde's own `Option` would take null for absent, and the null would be lost.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_request_is_written_as_it_was_read() {
        for body in [
            json!({"messages": []}),
            json!({"model": null, "messages": [{"role": "x", "n": 1.0}], "stream": null, "format": ""}),
            json!({"zeta": 1, "model": "m", "messages": [], "stream": true, "tools": [], "system": [{"a": 1e300}]}),
        ] {
            let read = RequestBody::read(body.to_string().as_bytes()).unwrap();
            assert_eq!(serde_json::to_value(read).unwrap(), body);
        }
        assert!(RequestBody::read(b"{}").is_err());
        assert!(RequestBody::read(b"[").is_err());
    }
}
