//! A look at a session: its beginning and its end, never the whole.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use forge_domain::{AgentSession, Message, Tokens, message_tokens};
use forge_infra::{read_ends, visit_lines};
use forge_services::ApproximateCounter;
use forge_transcript::{Draft, Folder, Format, compactions_in, folder_in, glance, stream};
use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::OwnRuns;
use super::title::title;
use crate::session_file::SessionFile;

/// The first look at a file, and the second one if that showed no title.
const HEADS: [usize; 2] = [64 << 10, 2 << 20];
/// The most bytes of a file that is one document, of which a part tells nothing.
const MOST_OF_A_DOCUMENT: usize = 8 << 20;
/// The bytes at the end in which the last usage is looked for.
const TAIL: usize = 256 << 10;
/// The most bytes in which compactions are counted.
const MOST_SCANNED: u64 = 512 << 20;
/// The most events of a folder of events that are read for a title.
const MOST_EVENTS: usize = 20;
/// The most bytes of a file of which the messages are counted, if its agent reports no tokens.
const MOST_COUNTED: usize = 64 << 20;
/// The bytes of a larger file for each token: files hold ids, times and copies as well.
const BYTES_PER_TOKEN: u64 = 7;

/// A number of tokens, and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Counted {
    /// The agent recorded it.
    Recorded,
    /// It follows from the messages, or from the size of the file.
    Estimated,
}

/// A session as it is listed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ListedSession {
    /// The shortest name that means it.
    pub(crate) name: String,
    pub(crate) agent: &'static str,
    pub(crate) id: String,
    pub(crate) title: Option<String>,
    pub(crate) folder: Option<String>,
    pub(crate) path: PathBuf,
    /// Its id within the file, if the file holds several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) part: Option<String>,
    pub(crate) changed: Timestamp,
    /// The size of its file; unknown if the file holds several sessions.
    pub(crate) bytes: Option<u64>,
    pub(crate) tokens: Option<u64>,
    pub(crate) tokens_are: Option<Counted>,
    /// The compactions of its agent; unknown if nothing tells.
    pub(crate) compactions: Option<usize>,
}

/// Looks at a session, which is listed under `name`.
pub(crate) fn look(session: &AgentSession, name: String, runs: Option<&OwnRuns>) -> ListedSession {
    let mut listed = ListedSession {
        name,
        agent: session.agent,
        id: session.id.clone(),
        title: session.title.as_deref().and_then(title),
        folder: session.folder.clone(),
        path: session.path.clone(),
        part: session.part.clone(),
        changed: session.changed,
        bytes: (session.bytes > 0).then_some(session.bytes),
        tokens: session.tokens,
        tokens_are: session.tokens.map(|_| Counted::Recorded),
        compactions: None,
    };
    if let Some(facts) = runs.filter(|_| session.agent == super::OWN).and_then(|runs| runs.facts(&session.id))
    {
        listed.title = facts.title;
        listed.folder = facts.folder;
        listed.compactions = Some(facts.compactions);
    }
    if session.part.is_none() {
        look_at_file(session, &mut listed);
    }
    listed
}

/// Adds what the file of a session tells. One that cannot be read is listed without it.
fn look_at_file(session: &AgentSession, listed: &mut ListedSession) {
    let origin = session.path.display().to_string();
    if session.bytes == 0 {
        let events = first_events(&session.path, MOST_EVENTS).unwrap_or_default();
        listed.title = glance(&events, b"", &origin).title;
        listed.folder =
            std::fs::read(session.path.join("base_state.json")).ok().and_then(|state| folder_in(&state).path);
        return;
    }
    let is_document = session.path.extension().is_some_and(|extension| extension == "json");
    let mut format = None;
    for head in HEADS {
        let head = if is_document { MOST_OF_A_DOCUMENT } else { head };
        let Ok(ends) = read_ends(&session.path, head, TAIL) else { return };
        let seen = glance(&ends.head, &ends.tail, &origin);
        format = format.or(seen.format);
        listed.folder = seen.folder.or(listed.folder.take());
        listed.title = seen.title.or(listed.title.take());
        listed.tokens = seen.tokens;
        if listed.title.is_some() || ends.is_whole {
            break;
        }
    }
    if session.agent == "aider" {
        listed.folder = session.path.parent().map(|folder| folder.display().to_string());
    }
    listed.compactions = format.and_then(|format| compactions(session, format));
    if listed.tokens.is_some() {
        listed.tokens_are = Some(Counted::Recorded);
        return;
    }
    // The file still holds what a compaction replaced, so its size says nothing then.
    let is_compacted = listed.compactions.is_some_and(|n| n > 0);
    let of_size = || (!is_compacted).then(|| (session.bytes / BYTES_PER_TOKEN).max(1));
    listed.tokens = tokens_of_messages(session).or_else(of_size);
    listed.tokens_are = listed.tokens.map(|_| Counted::Estimated);
}

/// Estimates the tokens of what the model would see; `None` if the file is too large, or cannot be read.
fn tokens_of_messages(session: &AgentSession) -> Option<u64> {
    let is_at_most = |most: usize| session.bytes <= most as u64;
    if !is_at_most(MOST_COUNTED) {
        return None;
    }
    let path = &session.path;
    let mut tokens = Tokens::ZERO;
    let mut count = |message: &Message| tokens += message_tokens(message, &ApproximateCounter);
    let open = &mut || Ok(Box::new(File::open(path)?) as Box<dyn Read>);
    if stream(open, &path.display().to_string(), &mut count).ok()?.is_none() {
        if !is_at_most(MOST_OF_A_DOCUMENT) {
            return None;
        }
        let sessions = SessionFile::read(path, None, None).ok()?.sessions;
        let messages = Draft::messages_of(sessions.last()?);
        tokens = messages.iter().map(|message| message_tokens(message, &ApproximateCounter)).sum();
    }
    Some(tokens.as_u64()).filter(|tokens| *tokens > 0)
}

/// Reads the first `most` events of a session that has a file for each, as a list; `None` if it has none.
fn first_events(path: &Path, most: usize) -> Option<Vec<u8>> {
    let own = path.join("events");
    let folder = if own.is_dir() { own } else { path.to_owned() };
    let is_event = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
    let is_base = |path: &PathBuf| path.file_name().is_some_and(|name| name == "base_state.json");
    let entries = std::fs::read_dir(folder).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter(|path| is_event(path) && !is_base(path)).collect();
    files.sort();
    let events: Vec<Vec<u8>> = files.iter().take(most).filter_map(|file| std::fs::read(file).ok()).collect();
    (!events.is_empty()).then(|| [b"[".as_slice(), &events.join(&b","[..]), b"]"].concat())
}

/// Counts the compactions of a session; `None` if it is too large for that.
fn compactions(session: &AgentSession, format: Format) -> Option<usize> {
    let mut n_compactions = 0;
    let count = &mut |piece: &[u8]| n_compactions += compactions_in(format, piece);
    let is_whole = visit_lines(&session.path, MOST_SCANNED, count).ok()?;
    is_whole.then_some(n_compactions)
}

/// Checks whether a session is about `folder`.
pub(super) fn is_about(session: &AgentSession, folder: &Path, runs: Option<&OwnRuns>) -> bool {
    let name = folder.to_string_lossy();
    if session.agent == super::OWN {
        let facts = runs.and_then(|runs| runs.facts(&session.id));
        return facts.and_then(|facts| facts.folder).is_some_and(|known| is_same(&known, folder));
    }
    if let Some(known) = &session.folder {
        return is_same(known, folder);
    }
    if session.agent == "aider" {
        return session.path.parent() == Some(folder);
    }
    // The name of Claude Code's folder tells most of them apart without a look into the file.
    if session.agent == "claude" {
        let encoded: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let of = session.path.parent().and_then(Path::file_name).and_then(|of| of.to_str());
        if of != Some(encoded.as_str()) {
            return false;
        }
    }
    let Folder { path, hash } = if session.bytes == 0 {
        std::fs::read(session.path.join("base_state.json")).map(|state| folder_in(&state)).unwrap_or_default()
    } else {
        read_ends(&session.path, HEADS[0], 0).map(|ends| folder_in(&ends.head)).unwrap_or_default()
    };
    path.is_some_and(|known| is_same(&known, folder))
        || hash.is_some_and(|hash| hash == hex::encode(Sha256::digest(name.as_bytes())))
}

/// Checks whether a recorded path means the folder.
fn is_same(known: &str, folder: &Path) -> bool {
    let known = Path::new(known);
    known == folder || (known.is_absolute() && known.canonicalize().is_ok_and(|known| known == folder))
}
