//! `forge compact`: makes a recorded session fit.

mod in_place;
mod own_run;
mod places;
mod proposal;
mod report;
mod settings;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use forge_app::{CompactSession, CompactSessionError, CompactedSession, SessionRoom, compact_session};
use forge_domain::compaction::{ContextCompactor, NO_RECORD, is_bare_record};
use forge_domain::{
    AgentSession, Compact, ContextMessage, Message, Replacement, TokenCounter, Tokens, breaches_in_words,
};
use forge_services::O200kCounter;
use forge_transcript::{Draft, Format, RewriteError, number_of, request_tools};

use self::places::check_places;
use self::proposal::Proposal;
pub(crate) use self::report::write_file;
use self::report::{
    FileReport, in_a_line, losses_text, pretty, print_report, tell, unrepaired_text, write_report,
    write_result,
};
use self::settings::{CompactSettings, read_configuration};
use crate::arguments::{ConfigFlag, FormatName, FromFlag, OwnRun, window};
use crate::failure::Misconfigured;
use crate::output::is_stdout;
use crate::redaction::{Redacted, redact_bytes, redaction_text};
use crate::run::block_on;
use crate::session_file::{MOST_OF_A_FILE, SessionFile, SessionText, WorkNotes, WorkProgress, read_named};
use crate::sessions::{NamedSession, resolve_and_show};

/// Make a recorded session fit a limit: whatever can stay is kept byte for byte
///
/// Reads the sessions of Claude Code, Codex, pi, opencode, goose and many other agents, and requests of all
/// protocols.
#[derive(Debug, Args)]
pub(crate) struct CompactArguments {
    #[command(flatten)]
    files: CompactFiles,
    #[command(flatten)]
    goal: CompactGoal,
    #[command(flatten)]
    plan: CompactPlan,
    /// The agent whose `compact` block applies, and whose summarizer is called [default: of a run, its own
    /// agent; of a file none, so the defaults apply]
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    #[command(flatten)]
    configured: ConfigFlag,
    /// The session to compact if the file holds several: its id, or its number from 0
    #[arg(long = "session", value_name = "ID|INDEX")]
    picked: Option<String>,
}

/// The session, and the place and the format of the result.
#[derive(Debug, Args)]
struct CompactFiles {
    /// The recorded session: a file, `-` for stdin, or a name such as @codex:last. It is only changed by
    /// --in-place and --undo
    #[arg(value_name = "IN", required_unless_present = "run")]
    file: Option<PathBuf>,
    #[command(flatten)]
    run: OwnRun,
    /// The file for the result, written whole or not at all, or `-` for stdout [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Append the compaction to the session as its own agent would record it, so that the agent can resume
    /// it: for Claude Code, Codex and pi
    #[arg(long, conflicts_with_all = ["output", "to", "run"])]
    in_place: bool,
    /// Remove the compaction that --in-place appended last
    #[arg(long, conflicts_with_all = ["output", "to", "run", "in_place", "max_tokens", "strategies", "focus", "report", "json", "dry_run", "proposal", "apply", "agent", "config", "picked"])]
    undo: bool,
    /// Replace secrets of known shapes in what is written, and report them
    #[arg(long, conflicts_with = "undo")]
    redact: bool,
    #[command(flatten)]
    format: FromFlag,
    /// The format of the output [default: that of the input]
    #[arg(long, value_parser = FormatName::target_parser())]
    to: Option<FormatName>,
}

/// The limit, and the way to reach it.
#[derive(Debug, Args)]
struct CompactGoal {
    /// The most tokens of the whole request, tool schemas included; `8k` is 8,000 [default: the target of
    /// `compact` in 128k]
    #[arg(long, value_name = "N", value_parser = window)]
    max_tokens: Option<Tokens>,
    /// A strategy to try, as its id or as `{id: {options}}`; repeat it for several, in order
    #[arg(long = "strategy", value_name = "S")]
    strategies: Vec<String>,
    /// Things to preserve, in words, for a summary or a record
    #[arg(long, value_name = "T")]
    focus: Option<String>,
}

/// The report, and the steps: to plan only, or to apply what was planned.
#[derive(Debug, Args)]
struct CompactPlan {
    /// Write the report to this file, as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print the report as JSON; the result then needs `--output`
    #[arg(long)]
    json: bool,
    /// Write no result
    #[arg(long)]
    dry_run: bool,
    /// Save the planned replacements to this file, for `--apply`
    #[arg(long, value_name = "FILE", requires = "dry_run")]
    proposal: Option<PathBuf>,
    /// Apply a saved proposal exactly, if the input has not changed since
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "to", "max_tokens", "strategies", "focus", "dry_run", "agent", "config", "picked"])]
    apply: Option<PathBuf>,
}

impl CompactArguments {
    /// Compacts one session of a file, or a run.
    pub(crate) fn run(mut self) -> anyhow::Result<ExitCode> {
        self.find_session()?;
        self.files.output = self.files.output.filter(|output| !is_stdout(output));
        let _notes = WorkNotes::begin();
        if let Some(word) = &self.files.run.run {
            check_places(&self)?;
            return own_run::compact(&self, word);
        }
        if self.files.undo {
            in_place::undo(input(&self))?;
            return Ok(ExitCode::SUCCESS);
        }
        check_places(&self)?;
        match &self.plan.apply {
            Some(path) => apply(&self, path)?,
            None => decide(&self)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl CompactArguments {
    /// Puts the place of a session that has a name in the place of the name.
    fn find_session(&mut self) -> anyhow::Result<()> {
        let is_changed = self.files.in_place || self.files.undo;
        let mut show = |session: &AgentSession| {
            if is_changed {
                in_place::show(session);
            }
        };
        match self.files.file.as_deref().map(|word| resolve_and_show(word, &mut show)).transpose()? {
            Some(NamedSession::Run(run)) if self.files.in_place || self.files.undo => {
                let way_out = match self.files.undo {
                    true => format!("undo a compaction with: forge checkpoints undo {run}"),
                    false => format!("its compaction never changes what it had: forge compact --run {run}"),
                };
                bail!(Misconfigured(format!("run {run} is in a store, not in a file\n  help: {way_out}")));
            }
            Some(NamedSession::Run(run)) => {
                self.files.file = None;
                self.files.run.run = Some(run);
            }
            Some(NamedSession::File { path, part }) => {
                self.files.file = Some(path);
                self.picked = self.picked.take().or(part);
            }
            None => {}
        }
        Ok(())
    }
}

/// Returns the named file; empty if a run is named instead.
fn input(arguments: &CompactArguments) -> &Path {
    arguments.files.file.as_deref().unwrap_or(Path::new(""))
}

fn decide(arguments: &CompactArguments) -> anyhow::Result<()> {
    let file =
        SessionFile::read(input(arguments), arguments.files.format.from.0, arguments.picked.as_deref())?;
    let nth = file.the_one(arguments.picked.as_deref())?;
    let progress = WorkProgress::new(file.bytes.len(), "opening");
    let draft = Draft::open(&file.sessions[nth], nth);
    if arguments.files.format.from.0.is_none() {
        refuse_lost_results(&file, &draft)?;
    }
    let to = arguments.files.to.and_then(|name| name.0).unwrap_or(draft.format());
    let settings = read_configuration(arguments, Compact::default())?;
    let is_off = settings.compact.auto_compact == Some(false);
    // The limit is for the form that is written, in which the same tool schemas and notes may be longer.
    let own = file.sessions[nth].tools(&file.bytes);
    let tools = match own.is_some() && draft.format() != to {
        true => request_tools(&draft.rewrite(&file.bytes, &[], to)?),
        false => own,
    };
    let tools = tools_tokens(tools.as_deref());
    let tools = tools + draft.author_tokens(to, &O200kCounter);
    let mut compacted = compact_draft(arguments, &settings, tools, &draft, &progress)?;
    progress.begin("writing");
    // The line says nothing of single messages, of which there may be hundreds of thousands.
    let messages = std::mem::take(&mut compacted.report.messages);
    let summary = compacted.report.clone();
    compacted.report.messages = messages;
    let repaired = match arguments.files.in_place && compacted.replacements.is_empty() {
        true => &[][..],
        false => draft.written_repairs(&compacted.replacements, to),
    };
    let mut report = FileReport {
        report: &summary,
        target_tokens: compacted.target,
        breaches_before: breaches_in_words(draft.breaches()),
        repaired,
        skipped_lines: file.sessions[nth].skipped_lines,
        attachments: file.sessions[nth].attachments(),
        left_out: draft.omissions(&compacted.replacements, to),
        losses: Vec::new(),
        redacted: None,
    };
    let mut line = in_a_line(arguments, &serde_json::to_value(&report)?);
    line += &unrepaired_text(draft.repairs().len() - repaired.len());
    report.report = &compacted.report;
    if compacted.report.still_over.is_some() {
        progress.end();
        tell(arguments, &report, &line)?;
    }
    if let Some(over) = compacted.report.still_over.clone() {
        return Err(anyhow::Error::new(over).context(refusal(arguments, is_off)));
    }
    refuse_bare_records(arguments, &compacted.replacements)?;
    let written = match arguments.files.in_place {
        true => {
            let pre_tokens = compacted.report.tokens_before;
            in_place::addition(&file, &draft, &compacted.replacements, pre_tokens)?.into()
        }
        false => rewritten(arguments, &file, &draft, &compacted.replacements, to)?,
    };
    if !arguments.files.in_place {
        report.losses = draft.losses(&file.bytes, &compacted.replacements, &written, to);
        line += &losses_text(&report.losses);
    }
    let (written, redacted) = without_secrets(arguments, written);
    line += &redacted.as_deref().map(|found| format!(" · {}", redaction_text(found))).unwrap_or_default();
    report.redacted = redacted;
    progress.end();
    if let Some(path) = &arguments.plan.proposal {
        let formats = (draft.format(), to);
        let report = serde_json::to_value(&report)?;
        let proposal = Proposal::new(&file.bytes, formats, nth, &compacted.replacements, report);
        write_file(path, &without_secrets(arguments, pretty(&proposal)?.into()).0)?;
    }
    write_report(arguments, &report)?;
    if !arguments.plan.dry_run {
        write(arguments, &file, &written)?;
    }
    print_report(arguments, &report, &line)?;
    in_place::tell_ways(arguments, &file.path, draft.format(), &written);
    Ok(())
}

/// Returns the session written again. A dry run writes nothing, so it may also plan for a format that is only
/// appended to.
fn rewritten<'f>(
    arguments: &CompactArguments,
    file: &'f SessionFile,
    draft: &Draft<'_>,
    replacements: &[Replacement],
    to: Format,
) -> anyhow::Result<Cow<'f, [u8]>> {
    match draft.rewrite(&file.bytes, replacements, to) {
        Err(RewriteError::OnlyAppended(_)) if arguments.plan.dry_run => {
            Ok(Cow::Borrowed(file.bytes.as_slice()))
        }
        written => Ok(written?),
    }
}

/// Checks that the results of a session whose format was guessed are not all lost: it was guessed wrong.
pub(super) fn refuse_lost_results(file: &SessionFile, draft: &Draft<'_>) -> Result<(), Misconfigured> {
    let Some(results) = draft.results_without_calls() else { return Ok(()) };
    let (name, format) = (file.path.display(), draft.format());
    Err(Misconfigured(format!(
        "{name} looks like the format `{0}`, but none of its {results} results answers a call, so all of them \
         would be left out\n  help: if it is of another format, name it with --from; `--from {0}` compacts it \
         without them",
        format.id(),
    )))
}

/// Checks that no record stands for many messages and keeps nothing of any.
fn refuse_bare_records(
    arguments: &CompactArguments,
    replacements: &[Replacement],
) -> Result<(), Misconfigured> {
    const MANY: usize = 20;
    let is_bare = |message: &ContextMessage| is_bare_record(&message.message().to_text());
    let bare = replacements.iter().find(|replacement| {
        replacement.replaces.len() >= MANY
            && !replacement.with.is_empty()
            && replacement.with.iter().all(is_bare)
    });
    let Some(replacement) = bare else { return Ok(()) };
    Err(Misconfigured(format!(
        "{} stays as it is: the record of {} messages would keep nothing of them: raise --max-tokens\n  help: if the \
         file is of another format, name it with --from",
        input(arguments).display(),
        replacement.replaces.len()
    )))
}

/// Describes the failure and what to do about it.
fn refusal(arguments: &CompactArguments, is_off: bool) -> String {
    let name = input(arguments).display();
    match arguments.agent.as_deref().filter(|_| is_off) {
        Some(agent) => format!(
            "{name} does not fit, and `auto_compact: false` of agent `{agent}` forbids compacting it: omit \
             --agent, or \
             set `auto_compact: true`"
        ),
        None => format!("{name} cannot be made to fit: raise --max-tokens, or shorten what has to stay"),
    }
}

fn apply(arguments: &CompactArguments, path: &Path) -> anyhow::Result<()> {
    let name = path.display();
    let text = read_named(path, "proposal", MOST_OF_A_FILE)?;
    let proposal: Proposal = serde_json::from_slice(&text).map_err(|error| {
        Misconfigured(format!(
            "{name} is not a proposal: {error}; create one with --dry-run --proposal \
             {name}"
        ))
    })?;
    let text = SessionText::read(input(arguments), arguments.picked.as_deref())?;
    proposal.check(&text.bytes, &input(arguments).display().to_string())?;
    let file = SessionFile::of_text(input(arguments), text, Some(proposal.from))?;
    let Some(session) = file.sessions.get(proposal.session) else {
        bail!(Misconfigured(format!("{name} is not a proposal for {}", file.path.display())));
    };
    let draft = Draft::open(session, proposal.session);
    let replacements = proposal.replacements(&O200kCounter);
    let checked = proposal.check_result(&draft, &replacements, &O200kCounter);
    let (n_messages, tokens) = checked.map_err(|broken| {
        let way_out = "undo the changes in it, or create a new one with --dry-run --proposal";
        Misconfigured(format!("{name} cannot be applied: {broken}; {way_out}"))
    })?;
    let written = match arguments.files.in_place {
        true => {
            let before = draft.counted_messages(&O200kCounter).map(|message| message.tokens()).sum();
            in_place::addition(&file, &draft, &replacements, before)?.into()
        }
        false => draft.rewrite(&file.bytes, &replacements, proposal.to)?,
    };
    let (written, redacted) = without_secrets(arguments, written);
    let tools = match proposal.to == draft.format() {
        true => session.tools(&file.bytes),
        false => request_tools(&written),
    };
    let tokens = tokens + tools_tokens(tools.as_deref());
    let mut report = proposal.report;
    let told = redacted.as_deref().map(|found| format!(" · {}", redaction_text(found))).unwrap_or_default();
    if let Some(report) = report.as_object_mut() {
        // An edited proposal is reported by its result, not by its original report.
        report.insert("messages_after".to_owned(), n_messages.into());
        report.insert("tokens_after".to_owned(), tokens.as_u64().into());
        if let Some(redacted) = redacted {
            report.insert("redacted".to_owned(), serde_json::to_value(redacted)?);
        }
    }
    write_report(arguments, &report)?;
    write(arguments, &file, &written)?;
    print_report(arguments, &report, &(in_a_line(arguments, &report) + &told))?;
    in_place::tell_ways(arguments, &file.path, draft.format(), &written);
    Ok(())
}

/// Returns what is written without its secrets, if that was asked for, and what was taken out.
fn without_secrets<'w>(
    arguments: &CompactArguments,
    written: Cow<'w, [u8]>,
) -> (Cow<'w, [u8]>, Option<Vec<Redacted>>) {
    match arguments.files.redact {
        true => {
            let (written, redacted) = redact_bytes(written);
            (written, Some(redacted))
        }
        false => (written, None),
    }
}

/// Writes the result to its place; in place, it is what is appended.
fn write(arguments: &CompactArguments, file: &SessionFile, written: &[u8]) -> anyhow::Result<()> {
    if arguments.files.in_place {
        in_place::append(&file.path, &file.bytes, written)
    } else {
        write_result(arguments, written)
    }
}

/// Returns the tokens of tool schemas.
fn tools_tokens(tools: Option<&str>) -> Tokens {
    tools.map_or(Tokens::ZERO, |tools| O200kCounter.count(tools))
}

fn compact_draft(
    arguments: &CompactArguments,
    settings: &CompactSettings,
    tools_tokens: Tokens,
    draft: &Draft<'_>,
    progress: &WorkProgress,
) -> anyhow::Result<CompactedSession> {
    let compact = |most: Option<Tokens>| compact_to(most, settings, tools_tokens, draft, progress);
    let most = arguments.goal.max_tokens;
    let mut compacted = compact(most)?;
    // The appended lines begin with a record; without one, an empty record is added.
    let is_record = |message: &ContextMessage| message.message().is_compacted;
    let has_record = |compacted: &CompactedSession| {
        compacted.replacements.iter().flat_map(|replacement| &replacement.with).any(is_record)
    };
    let is_appended = arguments.files.in_place && !compacted.replacements.is_empty();
    let had_record = || draft.messages().any(|message| message.is_compacted);
    if is_appended && !has_record(&compacted) && !had_record() {
        let added = ContextMessage::count(Message::user(NO_RECORD), &O200kCounter).tokens();
        if most.is_some_and(|most| compacted.report.tokens_after + added > most) {
            compacted = compact(most.map(|most| most - added))?;
        }
        if !has_record(&compacted) {
            compacted.report.tokens_after += added;
            compacted.report.messages_after += 1;
        }
        compacted.target = most.unwrap_or(compacted.target);
    }
    Ok(compacted)
}

fn compact_to(
    most: Option<Tokens>,
    settings: &CompactSettings,
    tools_tokens: Tokens,
    draft: &Draft<'_>,
    progress: &WorkProgress,
) -> anyhow::Result<CompactedSession> {
    let asked = CompactSession {
        compact: settings.compact.clone(),
        room: most.map_or(SessionRoom::Window(settings.limits), SessionRoom::Limit),
        tools_tokens,
        number_of,
    };
    let services = settings.services();
    let compactor = ContextCompactor::new();
    let messages = progress.counting(draft.counted_messages(&O200kCounter));
    block_on(async { Ok(compact_session(messages, &asked, &compactor, &services).await) })?.map_err(|error| {
        match error {
            CompactSessionError::Compact(cause) => Misconfigured(cause.to_string()).into(),
            error => error.into(),
        }
    })
}
