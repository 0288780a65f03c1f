//! Sessions as a list of chat-completions messages.

mod lists;
mod observations;
mod read;
mod write;
mod written_call;

use forge_wire::Protocol;

use crate::codec::{
    Codec, Evidence, Input, MessageList, Revision, Source, Visit, file_name, is_message_list,
};
use crate::format::FormatFacts;
use crate::{Format, RewriteError, Session, StreamError, StreamedSession, TranscriptError};

pub(crate) use lists::{MessageLists, NamedList};
pub(crate) use read::read_records;
pub(crate) use write::write_entries;

/// The format of chat completions: a request body, or the bare list.
pub(crate) struct OpenAi;

impl Codec for OpenAi {
    fn format(&self) -> Format {
        Format(&FormatFacts {
            id: "openai",
            name: "OpenAI messages",
            description: "{\"messages\": [...]} or the bare list",
            protocol: Some(Protocol::OpenAi),
        })
    }

    fn is_target(&self) -> bool {
        true
    }

    fn detect(&self, evidence: &Evidence<'_>) -> bool {
        is_message_list(evidence)
    }

    fn read(&self, input: &Input<'_>) -> Result<Vec<Session>, TranscriptError> {
        let list = MessageList::read(input.text()?, input.origin)?;
        let records = read_records(&list.entries, "messages", input)?;
        let id = file_name(input.origin).to_owned();
        Ok(vec![Session::new(id, input.format, records)])
    }

    fn stream(
        &self,
        source: &mut Source<'_>,
        visit: Visit<'_>,
    ) -> Result<Option<StreamedSession>, StreamError> {
        if source.head()?.is_none() {
            return Ok(None);
        }
        let mut entries = read::Entries::new(source.origin, "messages");
        let mut read = |entry: &str, next: Option<&str>| entries.read(entry, next);
        source.stream_messages(self.format(), None, &mut read, visit).map(Some)
    }

    fn write(&self, revision: &Revision<'_>) -> Result<Vec<u8>, RewriteError> {
        write::write(revision).map(String::into_bytes)
    }
}
