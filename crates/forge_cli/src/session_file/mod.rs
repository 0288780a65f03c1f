//! A file with recorded sessions: its bytes, its parsed content, and the selected session.

mod output_place;
mod progress;
mod stored;

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forge_transcript::{Format, Session};

pub(crate) use self::output_place::{is_same, refuse_input};
pub(crate) use self::progress::{ReadProgress, WorkNotes, WorkProgress};
pub(crate) use self::stored::{SessionText, is_database};
use crate::failure::Misconfigured;

/// A file with recorded sessions.
pub(crate) struct SessionFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Arc<Vec<u8>>,
    pub(crate) sessions: Vec<Session>,
    /// True if it holds only the session that was asked for.
    is_picked: bool,
}

/// The most bytes of a workflow file.
pub(crate) const MOST_OF_A_CONFIGURATION: u64 = 4 << 20;
/// The most bytes of any other file: more than any session has.
pub(crate) const MOST_OF_A_FILE: u64 = 8 << 30;
/// The size from which a file is held in memory only once, and its messages are parsed on demand.
const HELD_BUT_ONCE: usize = 16 << 20;
/// The most bytes from a pipe.
const MOST_OF_A_PIPE: u64 = 1 << 30;
/// The most bytes of a device such as `/dev/zero`, which may be endless.
const MOST_OF_A_DEVICE: u64 = 16 << 20;

/// Reads a file that was named on the command line as a `what`, at most `most` bytes of it.
pub(crate) fn read_named(path: &Path, what: &str, most: u64) -> Result<Vec<u8>, Misconfigured> {
    let refused = |error: &std::io::Error| {
        let way_out = match error.kind() {
            ErrorKind::NotFound => "; look for it with `ls`, or give its whole path",
            ErrorKind::IsADirectory => "; name a file in that folder",
            ErrorKind::PermissionDenied => "; make it readable with `chmod +r`, or run as its owner",
            _ => "",
        };
        Misconfigured(format!("cannot read the {what} {}: {error}{way_out}", path.display()))
    };
    let file = File::open(path).map_err(|error| refused(&error))?;
    let metadata = file.metadata().map_err(|error| refused(&error))?;
    let most = most.min(most_of(&metadata));
    // Room for all of it at once: a buffer that grows has up to twice as much.
    let length = if metadata.is_file() { metadata.len().min(most) } else { 0 };
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default() + 1);
    let is_too_large = metadata.is_file() && metadata.len() > most;
    if !is_too_large {
        let progress = ReadProgress::new(length);
        let read = progress.pass(file).take(most + 1).read_to_end(&mut bytes);
        progress.finish();
        read.map_err(|error| refused(&error))?;
    }
    if is_too_large || bytes.len() as u64 > most {
        let most = most >> 20;
        let what = format!(
            "the {what} {} is larger than {most} MiB, the largest size that is read; is it the right file?",
            path.display()
        );
        return Err(Misconfigured(what));
    }
    Ok(bytes)
}

/// Returns the most bytes to read from something other than a regular file: it may be endless.
#[cfg(unix)]
fn most_of(metadata: &Metadata) -> u64 {
    use std::os::unix::fs::FileTypeExt;
    match metadata.file_type() {
        kind if kind.is_char_device() || kind.is_block_device() => MOST_OF_A_DEVICE,
        kind if kind.is_fifo() || kind.is_socket() => MOST_OF_A_PIPE,
        _ => MOST_OF_A_FILE,
    }
}

#[cfg(not(unix))]
fn most_of(metadata: &Metadata) -> u64 {
    if metadata.is_file() { MOST_OF_A_FILE } else { MOST_OF_A_DEVICE.max(MOST_OF_A_PIPE) }
}

impl SessionFile {
    /// Reads the file; its format is detected unless `from` is given. `picked` names the session that is
    /// asked for, if the file is a database; elsewhere [`SessionFile::the_one`] finds it.
    pub(crate) fn read(path: &Path, from: Option<Format>, picked: Option<&str>) -> anyhow::Result<Self> {
        Self::of_text(path, SessionText::read(path, picked)?, from)
    }

    /// Reads the sessions in the text at `path`.
    pub(crate) fn of_text(path: &Path, text: SessionText, from: Option<Format>) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let (bytes, is_picked) = (Arc::new(text.bytes), text.is_picked);
        let _parsing = WorkProgress::new(bytes.len(), "parsing");
        let sessions = match from.or(text.format) {
            format if bytes.len() > HELD_BUT_ONCE => forge_transcript::read_held(format, &bytes, &name)?,
            Some(format) => forge_transcript::read_as(format, &bytes, &name)?,
            None => forge_transcript::read(&bytes, &name)?,
        };
        Ok(Self { path: path.to_owned(), bytes, sessions, is_picked })
    }

    /// Returns the number of the one selected session.
    pub(crate) fn the_one(&self, wanted: Option<&str>) -> anyhow::Result<usize> {
        match (wanted, self.sessions.as_slice()) {
            (Some(_), [_]) if self.is_picked => Ok(0),
            (Some(wanted), _) => nth_of(&self.sessions, wanted),
            (None, [_]) => Ok(0),
            (None, several) => {
                let name = self.path.display();
                let what = format!(
                    "{name} holds {} sessions: pick one with --session ID|INDEX; `forge inspect` with this file \
                     lists them",
                    several.len()
                );
                Err(Misconfigured(what).into())
            }
        }
    }
}

/// Returns the number of the session that `wanted` names: its id, or its number from 0.
fn nth_of(sessions: &[Session], wanted: &str) -> anyhow::Result<usize> {
    let by_id = sessions.iter().position(|session| session.id == wanted);
    let by_index = || wanted.parse().ok().filter(|index| *index < sessions.len());
    by_id.or_else(by_index).ok_or_else(|| {
        let known: Vec<&str> = sessions.iter().take(20).map(|session| session.id.as_str()).collect();
        let more = if sessions.len() > known.len() { ", ..." } else { "" };
        let known = format!("{}{more}", known.join(", "));
        let way_out = match sessions.len() {
            0 | 1 => format!("the file has one, {known}; omit --session"),
            n => format!("write a number from 0 to {}, or one of {known}", n - 1),
        };
        Misconfigured(format!("no session is named `{wanted}`: {way_out}")).into()
    })
}
