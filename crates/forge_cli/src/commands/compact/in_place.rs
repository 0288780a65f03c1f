//! `forge compact --in-place` and `--undo`: a compaction in the agent's own file, and the way back.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Cursor, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use forge_domain::{
    AgentSession, Breach, Message, Replacement, RuleSet, Tokens, breaches, breaches_in_words,
};
use forge_infra::{process_writing, replace_if};
use forge_transcript::{Draft, Format, Successor, UndoError, read_as, stream, undo_appended};
use jiff::Timestamp;

use super::CompactArguments;
use super::report::not_written;
use crate::failure::Misconfigured;
use crate::output;
use crate::run::shell_quote;
use crate::session_file::{MOST_OF_A_FILE, SessionFile, read_named};
use crate::sessions::look;

/// Tells which session a name stands for, before it is changed.
pub(super) fn show(session: &AgentSession) {
    let listed = look(session, String::new(), None);
    let title = listed.title.map(|title| format!("“{}”", output::visible(&title)));
    let folder = listed.folder.map(|folder| format!("in {}", output::visible(&folder)));
    let about: Vec<String> = [title, folder].into_iter().flatten().collect();
    let path = output::visible(&session.path.display().to_string());
    match about.is_empty() {
        true => output::say_to_copy(&path),
        false => output::say_to_copy(&format!("{path} ({})", about.join(", "))),
    }
}

/// Tells which file was changed, and the commands that continue the session and take the change back.
pub(super) fn tell_ways(arguments: &CompactArguments, path: &Path, format: Format, added: &[u8]) {
    if !arguments.files.in_place || arguments.plan.dry_run {
        return;
    }
    let name = path.display().to_string();
    let (shown, quoted) = (output::visible(&name), shell_quote(&name));
    if added.is_empty() {
        output::say_to_copy(&format!("{shown} stays as it is"));
        return;
    }
    output::say_to_copy(&format!("appended to {shown}"));
    if let Some(command) = resuming(path, format) {
        output::say_to_copy(&format!("to continue it: {}", output::visible(&command)));
    }
    output::say_to_copy(&format!("to take it back: forge compact {} --undo", output::visible(&quoted)));
}

/// Returns the command by which the agent of a session continues it; `None` if the name of the file does not
/// have its id.
fn resuming(path: &Path, format: Format) -> Option<String> {
    let is_id = |id: &&str| id.len() == ID && id.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    let stem = path.file_stem()?.to_str()?;
    let file = shell_quote(path.to_str()?);
    let (agent, id) = match format.id() {
        "claude-code" => (Successor::Claude, Some(stem).filter(is_id)?),
        "codex" => (Successor::Codex, stem.get(stem.len().checked_sub(ID)?..).filter(is_id)?),
        "pi" => (Successor::Pi, stem),
        _ => return None,
    };
    Some(agent.resuming(id, &file).join(" "))
}

/// The characters of a session's id.
const ID: usize = 36;

/// Returns what is appended to the file, after the result was read as its agent will read it.
pub(super) fn addition(
    file: &SessionFile,
    draft: &Draft<'_>,
    replacements: &[Replacement],
    pre_tokens: Tokens,
) -> anyhow::Result<Vec<u8>> {
    let added = draft.addition(&file.bytes, replacements, pre_tokens.as_u64(), Timestamp::now())?;
    if added.is_empty() {
        return Ok(added);
    }
    let name = file.path.display();
    // The three agents send each result to a provider that finds its call in any order.
    let of_agents = |breach: &Breach| breach.protocol != RuleSet::Gemini;
    let messages = messages_with(file, draft.format(), &added)?;
    let breaches: Vec<Breach> =
        breaches(&messages.iter().collect::<Vec<_>>()).into_iter().filter(of_agents).collect();
    if let Some(breach) = breaches_in_words(&breaches).first() {
        bail!("{name} is unchanged: the compacted session would break a provider's rule ({breach})");
    }
    Ok(added)
}

/// Returns the messages that a model would see of a file with `added` appended. The file is not copied for
/// that: it may be a large part of what memory holds.
fn messages_with(file: &SessionFile, format: Format, added: &[u8]) -> anyhow::Result<Vec<Message>> {
    let name = file.path.display().to_string();
    let end: Arc<[u8]> = added.into();
    let mut open = || -> io::Result<Box<dyn Read>> {
        let whole = Cursor::new(SharedBytes(Arc::clone(&file.bytes)));
        Ok(Box::new(whole.chain(Cursor::new(Arc::clone(&end)))))
    };
    let mut messages = Vec::new();
    let streamed = stream(&mut open, &name, &mut |message| messages.push(message.clone()))?;
    if streamed.is_some_and(|session| session.format == format) {
        return Ok(messages);
    }
    let sessions = read_as(format, &[&file.bytes, added].concat(), &name)?;
    Ok(sessions.first().map(Draft::messages_of).unwrap_or_default())
}

/// The bytes of a file that several readers hold.
struct SharedBytes(Arc<Vec<u8>>);

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Appends `added` to a session, if no process has it open for writing and it is still `read`.
pub(super) fn append(path: &Path, read: &[u8], added: &[u8]) -> anyhow::Result<()> {
    if added.is_empty() {
        return Ok(());
    }
    replace(path, read, &[read, added])
}

/// Writes a session back, if no process has it open for writing and it is still `read`.
fn replace(path: &Path, read: &[u8], pieces: &[&[u8]]) -> anyhow::Result<()> {
    let name = path.display();
    if let Some(process) = process_writing(path) {
        bail!(Misconfigured(format!(
            "{name} is open in {process}, which may write to it: end that session first"
        )));
    }
    // A new file takes the place of the old one, which the folder allows even if the file does not.
    let opened = OpenOptions::new().read(true).append(true).open(path);
    let mut old = opened.map_err(|error| {
        let way_out = match error.kind() {
            ErrorKind::PermissionDenied => "; make it writable with `chmod u+w`, or run as its owner",
            _ => "",
        };
        Misconfigured(format!("{name} stays as it is, since it may not be written to: {error}{way_out}"))
    })?;
    // Where files cannot be locked, the comparison has to do.
    if let Err(TryLockError::WouldBlock) = old.try_lock() {
        bail!(Misconfigured(format!("{name} is being changed by another process: wait for its end")));
    }
    let is_same = holds(path, read).with_context(|| format!("cannot read {name} again"))?;
    let is_replaced = is_same
        && replace_if(path, pieces, || holds(path, read)).map_err(|error| not_written(path, &error))?;
    if !is_replaced {
        bail!(Misconfigured(format!(
            "{name} has changed since it was read: its agent is at work; end it first"
        )));
    }
    bring_along(&mut old, read.len(), path)
        .with_context(|| format!("what was written to {name} while it was replaced may be lost"))
}

/// Appends what its agent wrote to the old file, beyond the `length` that was read, to the new one in its
/// place: the moment before the change of names cannot be watched.
fn bring_along(old: &mut File, length: usize, path: &Path) -> io::Result<()> {
    let mut late = Vec::new();
    old.seek(SeekFrom::Start(length as u64))?;
    old.read_to_end(&mut late)?;
    if late.is_empty() { Ok(()) } else { OpenOptions::new().append(true).open(path)?.write_all(&late) }
}

/// Checks whether a file has these bytes, and no others.
fn holds(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let mut block = vec![0; 1 << 20];
    let mut left = bytes;
    loop {
        let n = file.read(&mut block)?;
        match left.split_at_checked(n) {
            Some((_, [])) if n == 0 => return Ok(true),
            Some((expected, rest)) if n > 0 && expected == &block[..n] => left = rest,
            _ => return Ok(false),
        }
    }
}

/// Removes the compaction that was appended last.
pub(super) fn undo(path: &Path) -> anyhow::Result<()> {
    let bytes = read_named(path, "session", MOST_OF_A_FILE)?;
    let name = path.display();
    let earlier = undo_appended(&bytes).map_err(|error| {
        let way_out = match &error {
            UndoError::Continued { bytes, .. } => format!(
                "\n  help: to keep both, copy the earlier session to a file of its own: `head -c {bytes} {} > OLD.jsonl`",
                shell_quote(&name.to_string())
            ),
            UndoError::Changed => "\n  help: restore the file from a backup".to_owned(),
            UndoError::Nothing => String::new(),
        };
        Misconfigured(format!("{name} stays as it is: {error}{way_out}"))
    })?;
    replace(path, &bytes, &[earlier])?;
    let removed = bytes[earlier.len()..].iter().filter(|byte| **byte == b'\n').count();
    output::say(&format!("removed the compaction from {name}: {}", forge_domain::quantity(removed, "line")));
    Ok(())
}
