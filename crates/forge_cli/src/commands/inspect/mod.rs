//! `forge inspect`: shows what fills the window of a recorded session.

mod growth;
mod page;
mod spending;
mod view;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use forge_app::{InspectReport, Inspector, MessageSizes, inspect_sizes, prompts, tools_tokens_of};
use forge_domain::{TokenCounter, Tokens};
use forge_services::O200kCounter;
use forge_transcript::{
    Attachments, Draft, Format, RecordedCall, RecordedCompaction, RecordedTotal, Session, recorded_total,
    stream,
};
use serde::Serialize;
use serde_json::json;

use self::growth::Growth;
use self::spending::Spending;
use crate::arguments::{FromFlag, JsonFlag, OwnRun};
use crate::failure::Misconfigured;
use crate::output;
use crate::run::{block_on, select_here};
use crate::session_file::{
    MOST_OF_A_FILE, ReadProgress, SessionFile, WorkNotes, WorkProgress, is_database, refuse_input,
};
use crate::sessions::{NamedSession, resolve};
use crate::setup::store;

/// Show what fills the context window of a recorded session
#[derive(Debug, Args)]
pub(crate) struct InspectArguments {
    /// The recorded session: a file, `-` for stdin, or a name such as @codex:last
    #[arg(value_name = "SESSION", required_unless_present = "run")]
    file: Option<PathBuf>,
    #[command(flatten)]
    format: FromFlag,
    #[command(flatten)]
    run: OwnRun,
    /// The session to inspect if the file holds several: its id, or its number from 0 [default: all]
    #[arg(long = "session", value_name = "ID|INDEX")]
    picked: Option<String>,
    /// Show the session as if its agent had never compacted it
    #[arg(long, conflicts_with = "run")]
    before_compaction: bool,
    /// Write a page to look at, for a browser; it needs no network and no script. `-` is stdout
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    html: Option<PathBuf>,
    #[command(flatten)]
    form: JsonFlag,
}

impl InspectArguments {
    /// Inspects one session of a file, or all of them.
    pub(crate) fn run(mut self) -> anyhow::Result<ExitCode> {
        match self.file.as_deref().map(resolve).transpose()? {
            Some(NamedSession::Run(run)) => self.run.run = Some(run),
            Some(NamedSession::File { path, part }) => {
                self.file = Some(path);
                self.picked = self.picked.or(part);
            }
            None => {}
        }
        if self.run.run.is_some() && self.format.from.0.is_some() {
            return Err(Misconfigured("--from is for recorded sessions, not for a run".to_owned()).into());
        }
        if let (Some(page), Some(file)) = (&self.html, &self.file) {
            refuse_input("--html", page, file)?;
        }
        let notes = WorkNotes::begin();
        let inspected = match (&self.run.run, &self.file) {
            (Some(word), _) => vec![of_run(word, self.run.store.as_deref())?],
            (None, Some(file)) => of_file(file, &self)?,
            (None, None) => Vec::new(),
        };
        drop(notes);
        if let Some(path) = &self.html {
            page::write(path, &inspected)?;
        } else if self.form.json {
            match inspected.as_slice() {
                [only] => output::print_json(only)?,
                several => output::print_json(&json!({ "sessions": several }))?,
            }
        } else {
            inspected.iter().for_each(view::print);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// An inspected session.
#[derive(Debug, Serialize)]
struct InspectedSession {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Format>,
    /// The records of the file, of all kinds.
    records: usize,
    /// The invalid lines of the file.
    skipped_lines: usize,
    /// The records on other branches of the file, which the model would not see.
    records_off_branch: usize,
    #[serde(flatten)]
    report: InspectReport,
    /// The recording agent's own additions: files, notes, lists of tools.
    attachments: Vec<Attachments>,
    /// The recording agent's compactions.
    compactions: Vec<RecordedCompaction>,
    /// The calls that the recording agent took down, added up.
    #[serde(skip_serializing_if = "Option::is_none")]
    spending: Option<Spending>,
    /// The prompts of its calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    growth: Option<Growth>,
    /// The size of each message.
    #[serde(skip)]
    sizes: MessageSizes,
}

impl InspectedSession {
    /// Adds the calls, as they were recorded and as they can be counted.
    fn with_calls(self, calls: &[RecordedCall]) -> Self {
        let counted = || prompts(&self.sizes, self.report.tools_tokens);
        let growth = Growth::of(calls, &self.compactions, &counted);
        Self { spending: Spending::of(calls), growth, ..self }
    }
}

/// Inspects what the model would see of the user's own run.
fn of_run(word: &str, store: Option<&str>) -> anyhow::Result<InspectedSession> {
    let checkpoint = block_on(async {
        let store = store::open_for_reading(&store::named_or_of_runs(store, None)?).await?;
        let selected = select_here(&*store, word, None).await?;
        Ok(store.load(selected.info.key).await?)
    })?;
    let view = checkpoint.snapshot.conversation.view();
    let tools = tools_tokens_of(&checkpoint, &O200kCounter);
    let (report, sizes) = inspect_sizes(&view, tools, &O200kCounter);
    let inspected = InspectedSession {
        id: format!("{}/{}", checkpoint.info.run, checkpoint.info.id),
        format: None,
        records: checkpoint.info.n_entries,
        skipped_lines: 0,
        records_off_branch: 0,
        report,
        attachments: Vec::new(),
        compactions: Vec::new(),
        spending: None,
        growth: None,
        sizes,
    };
    Ok(inspected.with_calls(&[]))
}

fn of_file(path: &Path, arguments: &InspectArguments) -> anyhow::Result<Vec<InspectedSession>> {
    let (from, picked) = (arguments.format.from.0, arguments.picked.as_deref());
    if from.is_none()
        && picked.is_none()
        && !arguments.before_compaction
        && let Some(session) = of_large_file(path)?
    {
        return Ok(vec![session]);
    }
    let mut file = SessionFile::read(path, from, picked)?;
    let _counting = WorkProgress::new(file.bytes.len(), "counting");
    if arguments.before_compaction {
        file.sessions = file.sessions.into_iter().map(Session::before_compaction).collect();
    }
    let tools = |session: &Session| {
        session.tools(&file.bytes).map_or(Tokens::ZERO, |tools| O200kCounter.count(&tools))
    };
    let sessions: Vec<&Session> = match picked {
        None => file.sessions.iter().collect(),
        Some(_) => vec![&file.sessions[file.the_one(picked)?]],
    };
    let total = recorded_total(&file.bytes).filter(|_| file.sessions.len() == 1);
    let inspected =
        sessions.into_iter().map(|session| inspect_session(session, tools(session), total.as_ref()));
    Ok(inspected.collect())
}

/// Inspects the one session of a file message by message, so that most of it is never in memory; `None` if it
/// has to be read at once, or cannot be opened twice.
fn of_large_file(path: &Path) -> anyhow::Result<Option<InspectedSession>> {
    let is_file = std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= MOST_OF_A_FILE);
    if !is_file || File::open(path).is_err() || is_database(path) {
        return Ok(None);
    }
    let mut inspector = Inspector::new(&O200kCounter);
    let progress = ReadProgress::new(std::fs::metadata(path).map_or(0, |file| file.len()));
    let streamed = stream(
        &mut || Ok(Box::new(progress.pass(File::open(path)?))),
        &path.display().to_string(),
        &mut |message| inspector.push(message),
    );
    progress.finish();
    let streamed = streamed?;
    let Some(session) = streamed else { return Ok(None) };
    let tools = session.tools.as_ref().map_or(Tokens::ZERO, |tools| O200kCounter.count(tools));
    let (report, sizes) = inspector.finish(tools);
    let inspected = InspectedSession {
        id: session.id,
        format: Some(session.format),
        records: session.records,
        skipped_lines: session.skipped_lines,
        records_off_branch: session.records_off_branch,
        sizes,
        report,
        attachments: session.attachments,
        compactions: session.compactions,
        spending: None,
        growth: None,
    };
    Ok(Some(inspected.with_calls(&session.calls)))
}

fn inspect_session(session: &Session, tools: Tokens, total: Option<&RecordedTotal>) -> InspectedSession {
    let calls = session.calls();
    let mut inspector = Inspector::new(&O200kCounter);
    Draft::visit_messages_of(session, &mut |message| inspector.push(&message));
    let (report, sizes) = inspector.finish(tools);
    let inspected = InspectedSession {
        id: session.id.clone(),
        format: Some(session.format),
        records: session.records.len(),
        skipped_lines: session.skipped_lines,
        records_off_branch: session.records_off_branch,
        sizes,
        report,
        attachments: session.attachments(),
        compactions: session.compactions(),
        spending: None,
        growth: None,
    }
    .with_calls(&calls);
    match total.filter(|_| calls.is_empty()) {
        Some(total) => InspectedSession { spending: Some(Spending::of_total(total)), ..inspected },
        None => inspected,
    }
}
