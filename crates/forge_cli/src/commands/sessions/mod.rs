//! `forge sessions`: lists the sessions on this machine.

mod picker;
mod view;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::PossibleValuesParser;
use forge_app::short_names;
use forge_domain::AgentSession;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

pub(crate) use self::picker::pick;

use crate::arguments::JsonFlag;
use crate::output::{self, visible_lines};
use crate::sessions::{ListedSession, Sessions, agent_words, look};
use crate::terminal::person;

/// List the sessions that agents keep on this machine, newest first
///
/// Knows Claude Code, Codex, pi, OpenClaw, Gemini CLI, Copilot CLI, opencode, goose, OpenHands, Cline, Roo
/// Code, aider, and the runs of Forge. A listed name, such as @codex:019f1d, can be used wherever a session
/// is expected; so can @codex:last, @codex:here (the last one of this folder) and @last. At a terminal you
/// can pick one.
#[derive(Debug, Args)]
pub(crate) struct SessionsArguments {
    /// Only sessions of this agent; repeat it for several
    #[arg(long = "agent", value_name = "AGENT", value_parser = PossibleValuesParser::new(agent_words()))]
    agents: Vec<String>,
    /// Only sessions of this folder
    #[arg(long, conflicts_with = "folder")]
    here: bool,
    /// Only sessions of that folder
    #[arg(long, value_name = "PATH")]
    folder: Option<PathBuf>,
    /// List at most this many
    #[arg(short = 'n', long, value_name = "N", default_value = "30", conflicts_with = "all")]
    limit: NonZeroUsize,
    /// List all of them
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    form: JsonFlag,
}

impl SessionsArguments {
    /// Lists the sessions; at a terminal, the user may pick one.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let sessions =
            Sessions::find(&|agent| self.agents.is_empty() || self.agents.iter().any(|one| one == agent));
        for fault in &sessions.faults {
            output::note(&format!("not read: {}", visible_lines(fault)));
        }
        let limit = if self.all { usize::MAX } else { self.limit.get() };
        let folder = match (&self.folder, self.here) {
            (Some(folder), _) => Some(folder.canonicalize().unwrap_or_else(|_| folder.clone())),
            (None, true) => Some(std::env::current_dir()?),
            (None, false) => None,
        };
        let listed = list(&sessions, folder.as_deref(), limit);
        if self.form.json {
            let document =
                json!({"sessions": listed.shown, "found": sessions.all.len(), "not_read": sessions.faults});
            output::print_json(&document)?;
            return Ok(ExitCode::SUCCESS);
        }
        if person::is_there() && console::Term::stdout().is_term() && !listed.shown.is_empty() {
            return picker::run(&listed);
        }
        output::print(&view::text(&listed, output::stdout_columns()))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The sessions that are listed.
struct Listing {
    shown: Vec<ListedSession>,
    /// The number of those that were found, if more might have been listed.
    cut_from: Option<usize>,
    n_found: usize,
}

/// Looks at the newest sessions, of one folder if one is given. Files are read one after the other until
/// there are enough.
fn list(sessions: &Sessions, folder: Option<&Path>, limit: usize) -> Listing {
    let names = short_names(&sessions.all);
    let mut progress = Progress::new();
    let n_found = sessions.all.len();
    let mut listing = Listing { shown: Vec::new(), cut_from: None, n_found };
    for (session, name) in sessions.all.iter().zip(names) {
        if listing.shown.len() == limit {
            listing.cut_from = Some(n_found);
            break;
        }
        progress.tell(session);
        if folder.is_none_or(|folder| sessions.is_about(session, folder)) {
            listing.shown.push(look(session, name, sessions.runs.as_ref()));
        }
    }
    progress.end();
    listing
}

/// A line on stderr about the progress, if it takes longer than a second.
struct Progress {
    began: Instant,
    bar: Option<ProgressBar>,
    n_seen: u64,
}

impl Progress {
    const PATIENCE: Duration = Duration::from_secs(1);

    fn new() -> Self {
        Self { began: Instant::now(), bar: None, n_seen: 0 }
    }

    fn tell(&mut self, session: &AgentSession) {
        self.n_seen += 1;
        if self.bar.is_none() && self.began.elapsed() > Self::PATIENCE && person::is_there() {
            let style = ProgressStyle::with_template("{spinner} {pos} sessions read, {msg} {elapsed}");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
            self.bar = Some(ProgressBar::new_spinner().with_style(style));
        }
        if let Some(bar) = &self.bar {
            bar.set_message(session.agent);
            bar.set_position(self.n_seen);
        }
    }

    fn end(self) {
        self.bar.into_iter().for_each(|bar| bar.finish_and_clear());
    }
}
