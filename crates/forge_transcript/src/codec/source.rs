//! A file that is read message by message, more than once and never as a whole.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use forge_domain::Message;

use super::input::{file_name, has_lines, is_packed, readable_line, readable_lines, unpacked};
use super::message_stream::{Head, stream_entries};
use crate::recorded_call::CallTally;
use crate::{Format, Record, StreamError, StreamedSession, TranscriptError, request_tools};

const BUFFER: usize = 256 * 1024;
/// The number of bytes by which a file is recognized that is read entry by entry.
const SAMPLE: u64 = 1024 * 1024;
/// Most bytes of a line: a few packed bytes can stand for more than the memory holds.
const MOST_OF_A_LINE: u64 = 512 << 20;

/// A function that opens a file, each time at its beginning.
pub type Opener<'o> = &'o mut dyn FnMut() -> io::Result<Box<dyn Read>>;
/// A function that is given each message.
pub(crate) type Visit<'v> = &'v mut dyn FnMut(&Message);
/// A function that reads an entry of a list of messages, given the one after it.
pub(crate) type EntryReader<'r> = &'r mut dyn FnMut(&str, Option<&str>) -> Result<Record, TranscriptError>;

/// A file that is read message by message.
pub(crate) struct Source<'o> {
    open: Opener<'o>,
    /// Its name.
    pub(crate) origin: &'o str,
    /// The head of its list of messages, once it was looked for.
    head: Option<Option<Head>>,
    /// True if it has a record a line, so that the others count if one is not text; `None` until that is
    /// asked.
    has_lines: Option<bool>,
    /// A check of all lines, and whether a pass has made it.
    check: Option<(Box<dyn LineCheck>, bool)>,
}

/// A check of the lines of a file, which a pass over them makes beside its own work.
pub(crate) trait LineCheck {
    /// Looks at the next line. Returns whether more have to be seen.
    fn look(&mut self, line: &str) -> bool;

    /// Forgets all lines.
    fn restart(&mut self);

    /// Returns the fault that was found in the file `origin`.
    fn result(&self, origin: &str) -> Result<(), TranscriptError>;
}

/// A reader of what was packed before a file was cut off.
struct UpToCut<R>(R);

impl<R: Read> Read for UpToCut<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self.0.read(bytes) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
            read => read,
        }
    }
}

impl<'o> Source<'o> {
    /// Creates the source of the file that `open` opens.
    pub(crate) fn new(open: Opener<'o>, origin: &'o str) -> Self {
        Self { open, origin, head: None, has_lines: None, check: None }
    }

    /// Opens the file, unpacks it if it is compressed, and skips its byte order mark.
    pub(crate) fn reader(&mut self) -> io::Result<BufReader<Box<dyn Read>>> {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        let mut reader = BufReader::with_capacity(BUFFER, (self.open)()?);
        if is_packed(reader.fill_buf()?) {
            let unpacked: Box<dyn Read> = Box::new(UpToCut(unpacked(reader)?));
            reader = BufReader::with_capacity(BUFFER, unpacked);
        }
        if reader.fill_buf()?.starts_with(MARK) {
            reader.consume(MARK.len());
        }
        Ok(reader)
    }

    /// Returns the head of the list of messages that the file holds; `None` if it is not such a document.
    pub(crate) fn head(&mut self) -> io::Result<Option<&Head>> {
        if self.head.is_none() {
            self.head = Some(Head::of(self.reader()?));
        }
        Ok(self.head.as_ref().and_then(Option::as_ref))
    }

    /// Returns a small file of the same format: its beginning, or a document of the same looks.
    pub(crate) fn sample(&mut self) -> io::Result<Vec<u8>> {
        if let Some(head) = self.head()? {
            return Ok(head.sample.clone().into_bytes());
        }
        let beginning = self.beginning()?;
        Ok(readable_lines(&beginning).map_or(beginning, String::into_bytes))
    }

    fn beginning(&mut self) -> io::Result<Vec<u8>> {
        let mut beginning = Vec::new();
        self.reader()?.take(SAMPLE).read_to_end(&mut beginning)?;
        Ok(beginning)
    }

    /// Checks whether a line that is not text is one invalid line among others.
    fn has_lines(&mut self) -> io::Result<bool> {
        if let Some(has_lines) = self.has_lines {
            return Ok(has_lines);
        }
        let found = has_lines(&self.beginning()?);
        self.has_lines = Some(found);
        Ok(found)
    }

    /// Streams the list of messages that the file holds, each entry read by `read`, after the record of a
    /// system prompt beside them.
    pub(crate) fn stream_messages(
        &mut self,
        format: Format,
        system: Option<Record>,
        read: EntryReader<'_>,
        visit: Visit<'_>,
    ) -> Result<StreamedSession, StreamError> {
        let origin = self.origin;
        let mut n_records = 0;
        let mut calls = CallTally::default();
        let mut emit = |record: Record| {
            calls.add(n_records, record.raw());
            n_records += 1;
            record.messages().iter().for_each(&mut *visit);
        };
        if let Some(system) = system {
            emit(system);
        }
        let mut held: Option<String> = None;
        let mut fault = None;
        let streamed = stream_entries(self.reader()?, &mut |entry| {
            match held.replace(entry.to_owned()).map(|before| read(&before, Some(entry))) {
                Some(Ok(record)) => emit(record),
                Some(Err(error)) => fault = Some(error),
                None => {}
            }
            fault.is_none()
        });
        match held.filter(|_| fault.is_none()).map(|last| read(&last, None)) {
            Some(Ok(record)) => emit(record),
            Some(Err(error)) => fault = Some(error),
            None => {}
        }
        if let Some(fault) = fault {
            return Err(fault.into());
        }
        streamed.map_err(|source| TranscriptError::json(origin, source))?;
        let tools = self.head()?.and_then(|head| head.tools.as_ref());
        Ok(StreamedSession {
            id: file_name(origin).to_owned(),
            format,
            records: n_records,
            skipped_lines: 0,
            records_off_branch: 0,
            compactions: Vec::new(),
            attachments: Vec::new(),
            calls: calls.finish(),
            tools: tools.and_then(|tools| request_tools(format!("{{\"tools\":{tools}}}").as_bytes())),
        })
    }

    /// Lets the next pass over all lines make `check` as well.
    pub(crate) fn check_lines(&mut self, check: impl LineCheck + 'static) {
        self.check = Some((Box::new(check), false));
    }

    /// Returns the fault that the check of the lines found. It makes a pass of its own if there was none.
    pub(crate) fn checked_lines(&mut self) -> Result<(), StreamError> {
        if self.check.as_ref().is_some_and(|(_, is_made)| !is_made) {
            self.each_line(&mut |_| true)?;
        }
        let check = self.check.take();
        check.map_or(Ok(()), |(check, _)| Ok(check.result(self.origin)?))
    }

    /// Passes each line to `take`, until it accepts no more; one that is not text, as one that is not JSON.
    /// Returns false for a file that is not text and has no records in lines.
    pub(crate) fn each_line(&mut self, take: &mut dyn FnMut(&str) -> bool) -> io::Result<bool> {
        let Some((mut check, _)) = self.check.take_if(|(_, is_made)| !*is_made) else {
            return self.pass(take);
        };
        let (mut is_looking, mut is_complete) = (true, true);
        let is_text = self.pass(&mut |line| {
            is_looking = is_looking && check.look(line);
            is_complete = take(line);
            is_complete
        })?;
        let is_made = is_complete && is_text;
        if !is_made {
            check.restart();
        }
        self.check = Some((check, is_made));
        Ok(is_text)
    }

    fn pass(&mut self, take: &mut dyn FnMut(&str) -> bool) -> io::Result<bool> {
        let mut reader = self.reader()?;
        let mut line = Vec::new();
        loop {
            line.clear();
            if reader.by_ref().take(MOST_OF_A_LINE + 1).read_until(b'\n', &mut line)? == 0 {
                return Ok(true);
            }
            if line.len() as u64 > MOST_OF_A_LINE {
                let what = format!("{}: a line is longer than 512 MiB; is it the right file?", self.origin);
                return Err(io::Error::other(what));
            }
            let line = readable_line(&line);
            if matches!(line, Cow::Owned(_)) && !self.has_lines()? {
                return Ok(false);
            }
            let line = line.strip_suffix('\n').unwrap_or(&line);
            if !take(line.strip_suffix('\r').unwrap_or(line)) {
                return Ok(true);
            }
        }
    }
}
