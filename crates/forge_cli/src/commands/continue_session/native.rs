//! A session continued by another agent: a new file of that agent, and the command that resumes it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use forge_domain::{Message, Tokens};
use forge_infra::{agent_folder, write_whole};
use forge_transcript::{Draft, NewSession, Successor, new_uuid, read_held};
use jiff::Timestamp;
use serde_json::Value;

use super::plan::Plan;
use super::{ContinueArguments, Origin};
use crate::failure::Misconfigured;
use crate::output::{self, with_separators};
use crate::places::{environment, make_private_folder};
use crate::run::shell_quote;

/// The tokens from which the agent may not be able to continue without a compaction.
const MANY: Tokens = Tokens::new(150_000);

/// Writes the session's file for `successor`, and prints the command.
pub(super) fn continue_with(
    successor: Successor,
    arguments: &ContinueArguments,
    mut origin: Origin,
    mut plan: Plan,
) -> anyhow::Result<ExitCode> {
    let here = std::env::current_dir().context("the working folder is unknown")?;
    let variables = environment();
    let root = agent_folder(&variables, successor.id()).ok_or_else(|| {
        Misconfigured(format!(
            "there is no home folder in which {} keeps its sessions: set HOME",
            successor.id()
        ))
    })?;
    let now = Timestamp::now();
    let process = std::process::id().to_le_bytes();
    // Claude Code takes a user message at the end for an interrupted turn, so the note comes first.
    let note = origin.handover.note(origin.agent(), &BTreeSet::new());
    let mut messages = std::mem::take(&mut origin.handover.messages);
    messages.insert(0, note);
    let new = NewSession {
        id: new_uuid(&[origin.id.as_bytes(), &now.as_nanosecond().to_le_bytes(), &process]),
        folder: here.display().to_string(),
        now,
        model: arguments.flags.setup.source.model.clone(),
        messages: &messages,
    };
    let file = root.join(successor.path(&new));
    let bytes = Arc::new(successor.write(&new)?);
    let task = arguments.task.as_deref();
    plan.file = Some(file.clone());
    plan.command = Some(successor.command(&new, &file.display().to_string(), task));
    let recorded: Vec<_> = messages.iter().flat_map(calls).collect();
    // Each of these is as large as the session.
    drop(messages);
    check(&bytes, &file, &recorded)?;
    if arguments.dry_run {
        plan.show(arguments.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    // What does not come along is known before anything is written.
    if !arguments.json {
        plan.say();
    }
    make_private_folder(&file)
        .and_then(|()| write_whole(&file, &bytes))
        .with_context(|| format!("cannot write {}", file.display()))?;
    plan.is_written = true;
    if arguments.json {
        output::print_json(&plan)?;
        return Ok(ExitCode::SUCCESS);
    }
    output::say(&format!("written to {}", file.display()));
    if plan.tokens() > MANY {
        let quoted = shell_quote(&file.display().to_string());
        output::note(&format!(
            "it has {} tokens. If that is more than its model accepts: forge compact {quoted} --in-place",
            with_separators(plan.tokens())
        ));
    }
    let words: Vec<String> = plan.command.iter().flatten().map(|word| shell_quote(word)).collect();
    output::print_line(&words.join(" "));
    Ok(ExitCode::SUCCESS)
}

/// Reads the file again as its agent will, and checks that it holds the calls that were recorded.
fn check(bytes: &Arc<Vec<u8>>, file: &Path, recorded: &[(String, Value)]) -> anyhow::Result<()> {
    let name = file.display().to_string();
    let sessions = read_held(None, bytes, &name)?;
    let Some(session) = sessions.first() else { bail!("{name} was not written: it would hold no session") };
    let again = Draft::open(session, 0);
    let is_same = again.messages().flat_map(|message| calls(&message)).eq(recorded.iter().cloned());
    if !is_same || !again.repairs().is_empty() {
        bail!("{name} was not written: its calls would not be those of the session; this is a bug in Forge");
    }
    Ok(())
}

/// Returns the calls of a message: names and arguments, in order.
fn calls(message: &Message) -> Vec<(String, Value)> {
    let value = |arguments: &str| serde_json::from_str(arguments).unwrap_or_default();
    message.calls().iter().map(|call| (call.name.to_string(), value(&call.arguments))).collect()
}
