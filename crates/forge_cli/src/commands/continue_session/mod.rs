//! `forge continue`: continues a session of any agent, as a run of Forge or with another agent.

mod native;
mod plan;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use forge_app::{History, Resume};
use forge_transcript::{Draft, Format, Handover, Successor};

use self::plan::Plan;
use super::compact::refuse_lost_results;
use super::run::{OutputForm, start};
use super::sessions::pick;
use crate::arguments::{FromFlag, RunFlags, SetupFlags, StoreFlag};
use crate::failure::Misconfigured;
use crate::output;
use crate::redaction::{Redacted, redact_messages};
use crate::run::RunRequest;
use crate::session_file::SessionFile;
use crate::sessions::{NamedSession, Sessions, resolve, view_of_run};
use crate::terminal::person;

/// Continue a session of any agent: as a run of Forge, or with another agent
///
/// Calls stay calls. What cannot come along, such as the thinking of another model, images and tools that a
/// provider ran, is listed before anything is written; the recorded session is never changed. With another
/// agent, Forge writes a session file of that agent and prints the command that resumes it.
#[derive(Debug, Args)]
pub(crate) struct ContinueArguments {
    /// The session: a file, or a name such as @claude:last [default: you pick one at the terminal]
    #[arg(value_name = "SESSION")]
    session: Option<PathBuf>,
    /// A task for the agent that continues [default: a chat at a terminal, else the unfinished work]
    task: Option<String>,
    /// The agent that continues
    #[arg(long, value_enum, default_value_t = Heir::Forge, value_name = "AGENT")]
    with: Heir,
    #[command(flatten)]
    format: FromFlag,
    /// The session to continue if the file holds several: its id, or its number from 0
    #[arg(long = "session", value_name = "ID|INDEX")]
    picked: Option<String>,
    /// Show what would come along, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Replace secrets of known shapes, and report them
    #[arg(long)]
    redact: bool,
    /// Print JSON: what was written, or the events of the run
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreFlag,
    #[command(flatten)]
    flags: RunFlags,
}

/// The agent that continues a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Heir {
    /// A run of Forge
    Forge,
    /// Codex
    Codex,
    /// Pi
    Pi,
    /// Claude Code
    Claude,
}

impl Heir {
    const fn successor(self) -> Option<Successor> {
        match self {
            Self::Forge => None,
            Self::Codex => Some(Successor::Codex),
            Self::Pi => Some(Successor::Pi),
            Self::Claude => Some(Successor::Claude),
        }
    }
}

/// A session that is continued.
struct Origin {
    /// Its name for people: a path or `run ID`.
    name: String,
    id: String,
    format: Option<Format>,
    handover: Handover,
    redacted: Option<Vec<Redacted>>,
}

impl ContinueArguments {
    /// Continues the session.
    pub(crate) fn run(mut self) -> anyhow::Result<ExitCode> {
        let session = match &self.session {
            Some(word) => resolve(word)?,
            None => match pick_session()? {
                Some(session) => session,
                None => return Ok(ExitCode::SUCCESS),
            },
        };
        if let (NamedSession::Run(run), Heir::Forge) = (&session, self.with) {
            return self.resume_run(run);
        }
        let origin = self.origin(&session)?;
        let plan = Plan::of(&origin, self.with);
        match self.with.successor() {
            Some(successor) => {
                self.refuse_what_runs_need()?;
                native::continue_with(successor, &self, origin, plan)
            }
            None if self.dry_run => {
                plan.show(self.json)?;
                Ok(ExitCode::SUCCESS)
            }
            None => {
                if !self.json {
                    plan.say();
                }
                let history = Some(origin.into_history());
                let request = RunRequest { history, ..RunRequest::new(self.store.store.take(), self.flags) };
                start(self.task, OutputForm::of_json(self.json), request)
            }
        }
    }

    /// Resumes a run of Forge: nothing is lost on the way.
    fn resume_run(self, run: &str) -> anyhow::Result<ExitCode> {
        if self.dry_run || self.redact {
            let what = format!("run {run} is resumed as it is: omit --dry-run and --redact");
            return Err(Misconfigured(what).into());
        }
        let resume = Some(Resume::from(run));
        let request = RunRequest { resume, ..RunRequest::new(self.store.store, self.flags) };
        start(self.task, OutputForm::of_json(self.json), request)
    }

    /// Reads the session, and takes out secrets if that was asked for.
    fn origin(&self, session: &NamedSession) -> anyhow::Result<Origin> {
        let mut origin = match session {
            NamedSession::Run(run) => {
                let (messages, _) = view_of_run(run)?;
                let handover = Handover::of_messages(messages);
                Origin { name: format!("run {run}"), id: run.clone(), format: None, handover, redacted: None }
            }
            NamedSession::File { path, part } => self.read(path, part.as_deref())?,
        };
        if origin.handover.messages.is_empty() {
            return Err(Misconfigured(format!("{} holds no message to continue from", origin.name)).into());
        }
        origin.redacted = self.redact.then(|| redact_messages(&mut origin.handover.messages));
        Ok(origin)
    }

    fn read(&self, path: &Path, part: Option<&str>) -> anyhow::Result<Origin> {
        let picked = self.picked.as_deref().or(part);
        let file = SessionFile::read(path, self.format.from.0, picked)?;
        let nth = file.the_one(picked)?;
        let session = &file.sessions[nth];
        let draft = Draft::open(session, nth);
        if self.format.from.0.is_none() {
            refuse_lost_results(&file, &draft)?;
        }
        Ok(Origin {
            name: path.display().to_string(),
            id: session.id.clone(),
            format: Some(session.format),
            handover: draft.hand_over(),
            redacted: None,
        })
    }

    /// Rejects flags that only a run of Forge uses: all but the model.
    fn refuse_what_runs_need(&self) -> Result<(), Misconfigured> {
        let RunFlags { agent, setup, budget, images, record, report } = &self.flags;
        let SetupFlags { source, sandbox, consent } = setup;
        let flags = [
            ("--agent", agent.id().is_some()),
            ("--config", source.config().is_some()),
            ("--provider", source.provider.is_some()),
            ("--effort", source.effort.is_some()),
            ("--sandbox", sandbox.is_some()),
            ("--image", !images.images.is_empty()),
            ("--record", record.file().is_some()),
            ("--report", report.is_some()),
            ("--store", self.store.store.is_some()),
        ];
        let given = flags.into_iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| flag.to_owned());
        match given.chain(consent.words()).chain(budget.words()).next() {
            Some(flag) => Err(Misconfigured(format!(
                "{flag} is for a run of Forge: omit it, or omit --with {}",
                self.with.successor().map_or("forge", Successor::id)
            ))),
            None => Ok(()),
        }
    }
}

/// Lets the user pick a session at the terminal.
fn pick_session() -> anyhow::Result<Option<NamedSession>> {
    if !person::is_there() {
        let what = "no session given: name a file, or a session such as @claude:last\n  help: `forge sessions` \
                    lists those on this machine";
        return Err(Misconfigured(what.to_owned()).into());
    }
    let sessions = Sessions::find(&|_| true);
    if sessions.all.is_empty() {
        output::say("no session was found on this machine");
    }
    let picked = if sessions.all.is_empty() { None } else { pick(&sessions)? };
    let found = picked.and_then(|picked| {
        sessions
            .all
            .iter()
            .find(|one| one.agent == picked.agent && one.id == picked.id && one.path == picked.path)
    });
    Ok(found.map(NamedSession::of))
}

impl Origin {
    /// Returns the name of the agent that recorded it.
    fn agent(&self) -> &'static str {
        match self.format.map(Format::id) {
            Some("claude-code" | "claude-turns") => "Claude Code",
            Some("codex") => "Codex",
            Some("pi") => "pi",
            Some("gemini-cli") => "Gemini CLI",
            Some("copilot") => "Copilot CLI",
            Some("openhands" | "openhands-events") => "OpenHands",
            Some("cline") => "Cline",
            Some("goose") => "goose",
            Some("opencode") => "opencode",
            Some("aider") => "aider",
            Some("swe-agent") => "SWE-agent",
            Some("forge-code") => "Forge Code",
            Some(_) => "another agent",
            None => "a run of Forge",
        }
    }

    /// Returns the session as the beginning of a run.
    fn into_history(self) -> History {
        let agent = self.agent();
        let messages = self.handover.messages.clone();
        let handover = self.handover;
        History { messages, note: Box::new(move |tools| handover.note(agent, tools)) }
    }
}
