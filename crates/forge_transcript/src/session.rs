//! A recorded session: its messages beside the text they came in.

use std::collections::HashMap;
use std::sync::Arc;

use forge_domain::{Body, Message, ToolName};

use crate::id_digest::IdDigest;
use crate::{Format, Record, request_tools};

/// One session, as it was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// The session's name: `task3.trial0`, the id that its agent gave it, or the name of its file.
    pub id: String,
    /// The format it was recorded in.
    pub format: Format,
    /// Its records in the order of the file; shared with the messages that are read from them on demand.
    pub records: Arc<Vec<Record>>,
    /// Lines that are no record: cut off, run together, or no JSON at all. They were left out.
    pub skipped_lines: usize,
    /// Records that are on other branches of the file, and in no context: what was rewound, or another
    /// session.
    pub records_off_branch: usize,
    /// True if it is read as if its agent had never compacted it.
    pub(crate) is_whole: bool,
    /// The tool schemas of its own, as compact JSON, if those of the file are not its.
    pub(crate) tools: Option<String>,
}

impl Session {
    /// Makes a session of `records`.
    pub(crate) fn new(id: impl Into<String>, format: Format, records: Arc<Vec<Record>>) -> Self {
        Self {
            id: id.into(),
            format,
            records,
            skipped_lines: 0,
            records_off_branch: 0,
            is_whole: false,
            tools: None,
        }
    }

    /// Returns its tool schemas as compact JSON; `None` if it has none. `bytes` is its file.
    pub fn tools(&self, bytes: &[u8]) -> Option<String> {
        self.tools.clone().or_else(|| request_tools(bytes))
    }

    /// Returns its messages in order, as recorded: a reply may still be in pieces and a call without its
    /// result. Summaries that the recording agent made are marked as compacted.
    pub fn messages(&self) -> impl Iterator<Item = Message> {
        self.records.iter().flat_map(|record| record.messages().into_owned())
    }
}

/// The tool names for results: each result gets that of the nearest earlier call of its id. A session may
/// have half a million calls, so of an id only a digest is kept.
#[derive(Default)]
pub(crate) struct Names {
    /// The place of the tool that was last called under an id.
    called: HashMap<IdDigest, u32>,
    tools: Vec<ToolName>,
    places: HashMap<ToolName, u32>,
}

impl Names {
    /// Sets the tool names of the results among `messages`, which follow all that were named before.
    pub(crate) fn name(&mut self, messages: &mut [Message]) {
        for message in messages {
            match &mut message.body {
                Body::Assistant { calls, .. } => {
                    for call in calls {
                        let place = self.place(&call.name);
                        self.called.insert(IdDigest::of(&call.id), place);
                    }
                }
                Body::Tool(result) if result.name.is_none() => {
                    let place = self.called.get(&IdDigest::of(&result.call_id));
                    result.name = place.and_then(|place| self.tools.get(*place as usize)).cloned();
                }
                Body::System(_) | Body::User(_) | Body::Tool(_) => (),
            }
        }
    }

    fn place(&mut self, tool: &ToolName) -> u32 {
        if let Some(place) = self.places.get(tool) {
            return *place;
        }
        let place = u32::try_from(self.tools.len()).unwrap_or(u32::MAX);
        self.tools.push(tool.clone());
        self.places.insert(tool.clone(), place);
        place
    }
}
