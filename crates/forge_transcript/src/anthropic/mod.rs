//! Sessions as the body of a request to Anthropic's messages.

mod blocks;
mod read;
mod write;

use std::sync::Arc;

use forge_wire::Protocol;

use crate::codec::{
    Codec, Evidence, Input, MessageList, Revision, Source, Visit, file_name, is_anthropics, is_message_list,
};
use crate::format::FormatFacts;
use crate::{Format, RewriteError, Session, StreamError, StreamedSession, TranscriptError};

pub(crate) use blocks::{Fate, assistant_blocks, content_json, user_blocks};

/// The format of Anthropic's messages: a request body, or the bare list.
pub(crate) struct Anthropic;

impl Codec for Anthropic {
    fn format(&self) -> Format {
        Format(&FormatFacts {
            id: "anthropic",
            name: "Anthropic messages",
            description: "{\"system\", \"messages\": [...]} or the bare list",
            protocol: Some(Protocol::Anthropic),
        })
    }

    fn is_target(&self) -> bool {
        true
    }

    fn detect(&self, evidence: &Evidence<'_>) -> bool {
        is_message_list(evidence) && is_anthropics(evidence)
    }

    /// Reads the one session. The system prompt is its first record, if there is one.
    fn read(&self, input: &Input<'_>) -> Result<Vec<Session>, TranscriptError> {
        let list = MessageList::read(input.text()?, input.origin)?;
        let records = Arc::new(read::records(&list, input)?);
        let id = file_name(input.origin).to_owned();
        Ok(vec![Session::new(id, input.format, records)])
    }

    fn stream(
        &self,
        source: &mut Source<'_>,
        visit: Visit<'_>,
    ) -> Result<Option<StreamedSession>, StreamError> {
        let origin = source.origin;
        let Some(head) = source.head()?.filter(|head| head.is_anthropics()) else { return Ok(None) };
        let system = head.system.as_ref().map(|system| read::system_record(system.get(), origin));
        let mut entries = read::Entries::new(origin);
        let system = system.transpose()?;
        source.stream_messages(self.format(), system, &mut |entry, _| entries.read(entry), visit).map(Some)
    }

    fn write(&self, revision: &Revision<'_>) -> Result<Vec<u8>, RewriteError> {
        write::write(revision).map(String::into_bytes)
    }
}
