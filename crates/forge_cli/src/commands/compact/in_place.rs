//! `forge compact --in-place` and `--undo`: a compaction in the agent's own file, and the way back.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::bail;
use forge_domain::{Breach, Replacement, RuleSet, Tokens, breaches_in_words};
use forge_infra::process_writing;
use forge_transcript::{Draft, UndoError, undo_appended};
use jiff::Timestamp;

use super::report::write_file;
use crate::failure::Misconfigured;
use crate::output;
use crate::session_file::{MOST_OF_A_FILE, SessionFile, read_named};

/// Returns the file with the compaction appended, after it was read again as its agent will read it.
pub(super) fn addition<'f>(
    file: &'f SessionFile,
    draft: &Draft<'_>,
    replacements: &[Replacement],
    pre_tokens: Tokens,
) -> anyhow::Result<Cow<'f, [u8]>> {
    let written = draft.append(&file.bytes, replacements, pre_tokens.as_u64(), Timestamp::now())?;
    if replacements.is_empty() {
        return Ok(written);
    }
    let name = file.path.display();
    let sessions = forge_transcript::read_as(draft.format(), &written, &name.to_string())?;
    let again = sessions.first().map(|session| Draft::open(session, 0));
    // The three agents send each result to a provider that finds its call in any order.
    let of_agents = |breach: &&Breach| breach.protocol != RuleSet::Gemini;
    let breaches: Vec<Breach> = again.iter().flat_map(Draft::breaches).filter(of_agents).cloned().collect();
    if let Some(breach) = breaches_in_words(&breaches).first() {
        bail!("{name} is unchanged: the compacted session would break a provider's rule ({breach})");
    }
    Ok(written)
}

/// Writes a session back, if no process has it open for writing and it is still `read`.
pub(super) fn write(path: &Path, read: &[u8], written: &[u8]) -> anyhow::Result<()> {
    if read == written {
        return Ok(());
    }
    let name = path.display();
    if let Some(process) = process_writing(path) {
        bail!(Misconfigured(format!(
            "{name} is open in {process}, which may write to it: end that session first"
        )));
    }
    if read_named(path, "session", MOST_OF_A_FILE)? != read {
        bail!(Misconfigured(format!(
            "{name} has changed since it was read: its agent is at work; end it first"
        )));
    }
    // A new file takes the place of the old one, which the folder allows even if the file does not.
    OpenOptions::new().append(true).open(path).map_err(|error| {
        let way_out = match error.kind() {
            ErrorKind::PermissionDenied => "; make it writable with `chmod u+w`, or run as its owner",
            _ => "",
        };
        Misconfigured(format!("{name} stays as it is, since it may not be written to: {error}{way_out}"))
    })?;
    write_file(path, written)
}

/// Removes the compaction that was appended last.
pub(super) fn undo(path: &Path) -> anyhow::Result<()> {
    let bytes = read_named(path, "session", MOST_OF_A_FILE)?;
    let name = path.display();
    let earlier = undo_appended(&bytes).map_err(|error| {
        let way_out = match &error {
            UndoError::Continued { bytes, .. } => format!(
                "\n  help: to keep both, copy the earlier session to a file of its own: `head -c {bytes} {name} > OLD.jsonl`"
            ),
            UndoError::Changed => "\n  help: restore the file from a backup".to_owned(),
            UndoError::Nothing => String::new(),
        };
        Misconfigured(format!("{name} stays as it is: {error}{way_out}"))
    })?;
    write(path, &bytes, earlier)?;
    let removed = bytes[earlier.len()..].iter().filter(|byte| **byte == b'\n').count();
    output::say(&format!("removed the compaction from {name}: {}", forge_domain::quantity(removed, "line")));
    Ok(())
}
