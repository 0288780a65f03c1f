//! Sessions that are not one file: those in the database of an agent, and in a folder of files.

use std::fs;
use std::path::Path;

use anyhow::Context;
use forge_domain::quantity;
use forge_infra::{AgentDatabase, DatabaseSession};
use forge_transcript::Format;
use serde_json::value::RawValue;

use super::{MOST_OF_A_FILE, read_named};
use crate::failure::Misconfigured;
use crate::output::visible;

/// The number of sessions that are named if one has to be picked.
const NAMED: usize = 10;
/// The file with the conversation in the folder of a task of Cline or Roo.
const TASK_FILE: &str = "api_conversation_history.json";

/// The text of sessions, and the facts that their place gives.
pub(crate) struct SessionText {
    pub(crate) bytes: Vec<u8>,
    /// The format, if the place decides it.
    pub(crate) format: Option<Format>,
    /// True if it is the one session that was asked for.
    pub(crate) is_picked: bool,
}

impl SessionText {
    /// Reads the text of the sessions at `path`. Of a database it is the session that `picked` names by its
    /// id, or by its number from 0 for the newest.
    pub(crate) fn read(path: &Path, picked: Option<&str>) -> anyhow::Result<Self> {
        if path.is_dir()
            && let Some(bytes) = folder(path)?
        {
            return Ok(Self { bytes, format: None, is_picked: false });
        }
        if is_database(path) {
            return database(path, picked);
        }
        Ok(Self { bytes: read_named(path, "session", MOST_OF_A_FILE)?, format: None, is_picked: false })
    }
}

/// Checks whether a file is a SQLite database.
pub(crate) fn is_database(path: &Path) -> bool {
    use std::io::Read;

    let mut first = [0; 16];
    let is_file = fs::metadata(path).is_ok_and(|file| file.is_file());
    is_file
        && fs::File::open(path).is_ok_and(|mut file| file.read_exact(&mut first).is_ok())
        && AgentDatabase::is_one(&first)
}

fn database(path: &Path, picked: Option<&str>) -> anyhow::Result<SessionText> {
    let opened = AgentDatabase::open(path).map_err(|error| Misconfigured(error.to_string()))?;
    let sessions = opened.sessions()?;
    let by_id = || sessions.iter().find(|session| Some(session.id.as_str()) == picked);
    let by_number = || sessions.get(picked?.parse::<usize>().ok()?);
    let session = match sessions.as_slice() {
        [only] if picked.is_none() => Some(only),
        _ => by_id().or_else(by_number),
    };
    let session = session.ok_or_else(|| unpicked(path, &sessions, picked))?;
    let bytes = opened.export(&session.id)?.into_bytes();
    Ok(SessionText { bytes, format: Format::named(opened.format()), is_picked: true })
}

/// Returns the error for a database of which no session was picked; it names the newest.
fn unpicked(path: &Path, sessions: &[DatabaseSession], picked: Option<&str>) -> Misconfigured {
    let name = path.display();
    if sessions.is_empty() {
        return Misconfigured(format!("{name} holds no session"));
    }
    let mut text = match picked {
        Some(picked) => format!("{name} has no session `{picked}`"),
        None => {
            format!("{name} holds {}: pick one with --session ID|INDEX", quantity(sessions.len(), "session"))
        }
    };
    text += if sessions.len() > NAMED { "; the newest are" } else { "; they are" };
    for (number, session) in sessions.iter().take(NAMED).enumerate() {
        let updated = session.updated.map(|at| at.strftime("%Y-%m-%d %H:%M").to_string()).unwrap_or_default();
        let messages = quantity(usize::try_from(session.messages).unwrap_or(usize::MAX), "message");
        text += &format!(
            "\n  {number:>2}  {}  {updated}  {messages}  {}",
            visible(&session.id),
            visible(&session.title)
        );
    }
    Misconfigured(text)
}

/// Returns the session in a folder: the events of OpenHands, a record a line, or the conversation of a task
/// of Cline or Roo. `None` if it holds neither.
fn folder(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    let task = path.join(TASK_FILE);
    if task.is_file() {
        return Ok(Some(read_named(&task, "session", MOST_OF_A_FILE)?));
    }
    let within = path.join("events");
    let folder = if within.is_dir() { within.as_path() } else { path };
    let mut events: Vec<_> = fs::read_dir(folder)
        .with_context(|| format!("cannot read the folder {}", folder.display()))?
        .filter_map(|file| Some(file.ok()?.path()))
        .filter_map(|file| Some((number(&file)?, file)))
        .collect();
    events.sort();
    let mut lines = Vec::new();
    for (_, event) in &events {
        let bytes = read_named(event, "event", MOST_OF_A_FILE)?;
        // An event may be printed on several lines. One that is cut off stays what it is, and is counted.
        match serde_json::from_slice::<&RawValue>(&bytes).map(RawValue::get) {
            Ok(one) if !one.contains('\n') => lines.extend_from_slice(one.as_bytes()),
            Ok(several) => {
                let value: serde_json::Value = serde_json::from_str(several)?;
                lines.extend(value.to_string().into_bytes());
            }
            Err(_) => lines.extend(bytes.into_iter().filter(|byte| *byte != b'\n')),
        }
        lines.push(b'\n');
    }
    Ok((!events.is_empty()).then_some(lines))
}

/// Returns the number of an event in the name of its file: `event-00012-ID.json`, or `12.json`.
fn number(file: &Path) -> Option<u64> {
    let stem = file.file_stem()?.to_str().filter(|_| file.extension().is_some_and(|kind| kind == "json"))?;
    let number = stem.strip_prefix("event-").unwrap_or(stem);
    number.split('-').next()?.parse().ok()
}
