//! `forge compact`: makes a recorded session fit.

mod own_run;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use console::style;
use forge_app::{
    CompactSession, CompactSessionError, CompactedSession, SessionReport, SessionRoom, compact_session,
};
use forge_domain::compaction::{ContextCompactor, Focus, Rung};
use forge_domain::{
    ASSUMED_WINDOW, Compact, ModelLimits, TokenCounter, Tokens, Workflow, breaches_in_words, noun, quantity,
};
use forge_infra::{Playback, write_whole};
use forge_services::O200kCounter;
use forge_transcript::{Attachments, Draft, Omission, Repair, number_of, request_tools};
use serde::Serialize;
use serde_json::Value;

use crate::arguments::{CompactArguments, Source};
use crate::consent::Need;
use crate::failure::Misconfigured;
use crate::output;
use crate::proposal::Proposal;
use crate::replay_view::with_separators;
use crate::session_file::{MOST_OF_A_FILE, SessionFile, read_named};
use crate::setup::{self, Providers};

/// Compacts one session of a file.
pub(crate) fn compact(arguments: &CompactArguments) -> anyhow::Result<ExitCode> {
    if let Some(word) = &arguments.run.run {
        return own_run::compact(arguments, word);
    }
    check_places(arguments)?;
    match &arguments.apply {
        Some(path) => apply(arguments, path)?,
        None => decide(arguments)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the named file; empty if a run is named instead.
fn input(arguments: &CompactArguments) -> &Path {
    arguments.file.as_deref().unwrap_or(Path::new(""))
}

/// The report with the details of the file.
#[derive(Serialize)]
struct FileReport<'a> {
    #[serde(flatten)]
    report: &'a SessionReport,
    /// The input's violations of the providers' rules.
    breaches_before: Vec<String>,
    /// The repairs before everything else.
    repaired: &'a [Repair],
    /// Invalid lines of the file; a session that is not written back byte for byte lacks them.
    skipped_lines: usize,
    /// The recording agent's own additions: files, notes, lists of tools.
    attachments: Vec<Attachments>,
    /// The parts that the output's format cannot hold.
    left_out: Vec<Omission>,
}

fn decide(arguments: &CompactArguments) -> anyhow::Result<()> {
    let file = SessionFile::read(input(arguments), arguments.from.0)?;
    let nth = file.the_one(arguments.picked.as_deref())?;
    let draft = Draft::open(&file.sessions[nth], nth);
    let to = arguments.to.and_then(|name| name.0).unwrap_or(draft.format());
    let configured = read_configuration(arguments, Compact::default())?;
    let is_off = configured.compact.auto_compact == Some(false);
    // The limit is for the form that is written, in which the same tool schemas may be longer.
    let tools = match draft.format() == to {
        true => tools_tokens(&file.bytes),
        false => tools_tokens(&draft.rewrite(&file.bytes, &[], to)?),
    };
    let mut compacted = compact_draft(arguments, configured, tools, &draft)?;
    // The line says nothing of single messages, of which there may be hundreds of thousands.
    let messages = std::mem::take(&mut compacted.report.messages);
    let summary = compacted.report.clone();
    compacted.report.messages = messages;
    let report = FileReport {
        report: &summary,
        breaches_before: breaches_in_words(draft.breaches()),
        repaired: draft.repairs(),
        skipped_lines: file.sessions[nth].skipped_lines,
        attachments: file.sessions[nth].attachments(),
        left_out: draft.omissions(&compacted.replacements, to),
    };
    let line = in_a_line(&serde_json::to_value(&report)?);
    let report = FileReport { report: &compacted.report, ..report };
    if compacted.report.still_over.is_some() {
        tell(arguments, &report, &line)?;
    }
    if let Some(over) = compacted.report.still_over.clone() {
        return Err(anyhow::Error::new(over).context(refusal(arguments, is_off)));
    }
    let written = draft.rewrite(&file.bytes, &compacted.replacements, to)?;
    if let Some(path) = &arguments.proposal {
        let formats = (draft.format(), to);
        let report = serde_json::to_value(&report)?;
        let proposal = Proposal::new(&file.bytes, formats, nth, &compacted.replacements, report);
        write_file(path, &pretty(&proposal)?)?;
    }
    if !arguments.dry_run {
        write_result(arguments, &written)?;
    }
    tell(arguments, &report, &line)
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
    let bytes = read_named(input(arguments), "session", MOST_OF_A_FILE)?;
    proposal.check(&bytes, &input(arguments).display().to_string())?;
    let file = SessionFile::read(input(arguments), Some(proposal.from))?;
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
    let written = draft.rewrite(&file.bytes, &replacements, proposal.to)?;
    write_result(arguments, &written)?;
    let tokens = tokens + tools_tokens(&written);
    let mut report = proposal.report;
    if let Some(report) = report.as_object_mut() {
        // An edited proposal is reported by its result, not by its original report.
        report.insert("messages_after".to_owned(), n_messages.into());
        report.insert("tokens_after".to_owned(), tokens.as_u64().into());
    }
    tell(arguments, &report, &in_a_line(&report))
}

/// Returns the tokens of a request's tool schemas.
fn tools_tokens(request: &[u8]) -> Tokens {
    request_tools(request).map_or(Tokens::ZERO, |tools| O200kCounter.count(&tools))
}

fn compact_draft(
    arguments: &CompactArguments,
    configured: Configured,
    tools_tokens: Tokens,
    draft: &Draft<'_>,
) -> anyhow::Result<CompactedSession> {
    let asked = CompactSession {
        compact: configured.compact,
        room: arguments.max_tokens.map_or(SessionRoom::Window(configured.limits), SessionRoom::Limit),
        tools_tokens,
        number_of,
    };
    let counter = Arc::new(O200kCounter);
    let providers = configured.summarizers.as_ref().map_or_else(Providers::new, setup::providers);
    let playback = Arc::new(Playback::new(Vec::new(), counter));
    let workflow = configured.summarizers.unwrap_or_default();
    let services = setup::services_around(workflow, providers, playback, None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let compactor = ContextCompactor::new();
    let compacted = runtime.block_on(compact_session(
        draft.counted_messages(&O200kCounter),
        &asked,
        &compactor,
        &services,
    ));
    compacted.map_err(|error| match error {
        CompactSessionError::Compact(cause) => Misconfigured(cause.to_string()).into(),
        error => error.into(),
    })
}

/// The parts of the configuration that are used.
struct Configured {
    compact: Compact,
    /// The limits of the agent's model.
    limits: ModelLimits,
    /// The workflow whose providers serve the summarizer; nothing else of it is used.
    summarizers: Option<Workflow>,
}

/// Reads the configuration; the command line overrides it and `block`.
fn read_configuration(arguments: &CompactArguments, block: Compact) -> anyhow::Result<Configured> {
    let limits = ModelLimits { window: ASSUMED_WINDOW, max_output: None };
    let mut configured = Configured { compact: block, limits, summarizers: None };
    if let Some(id) = &arguments.agent {
        let source = Source { config: arguments.config.clone(), model: None, provider: None };
        let workflow = setup::configuration(&source, Need::Everything)?.workflow;
        let Some(agent) = workflow.agents.find(id) else {
            let known: Vec<&str> = workflow.agents.iter().map(|agent| agent.id.as_str()).collect();
            let what = format!("there is no agent `{id}` (expected one of {})", known.join(", "));
            return Err(Misconfigured(what).into());
        };
        setup::say_without_transforms(agent);
        configured.compact = agent.compact.clone().unwrap_or_default();
        if let Some(Ok(model)) = agent.model.as_ref().map(|id| workflow.model(id)) {
            configured.limits = model.limits;
        }
        configured.summarizers = configured.compact.model.is_some().then_some(workflow);
    } else if arguments.config.is_some() && arguments.run.run.is_none() {
        return Err(
            Misconfigured("--config has no effect without --agent ID: name the agent".to_owned()).into()
        );
    }
    if !arguments.strategies.is_empty() {
        let rungs: Result<Vec<Rung>, _> = arguments.strategies.iter().map(|text| rung(text)).collect();
        configured.compact.strategies = Some(rungs?);
    }
    summaries_have_a_model(arguments, &configured.compact)?;
    if let Some(words) = &arguments.focus {
        configured.compact.focus = Some(focus(words, &configured.compact)?);
    }
    Ok(configured)
}

/// Parses a strategy of `--strategy`.
fn rung(text: &str) -> Result<Rung, Misconfigured> {
    serde_saphyr::from_str(text).map_err(|error| Misconfigured(format!("--strategy `{text}`: {error}")))
}

/// Rejects summaries without a model: they would silently be left out.
fn summaries_have_a_model(arguments: &CompactArguments, compact: &Compact) -> Result<(), Misconfigured> {
    if compact.model.is_some() || !compact.strategies.iter().flatten().any(Rung::asks_model) {
        return Ok(());
    }
    Err(Misconfigured(match &arguments.agent {
        Some(agent) => format!(
            "nothing is summarized without a model: set `compact: {{ model: PROVIDER:MODEL }}` for agent \
             `{agent}`, or omit `summarization`"
        ),
        None => "--strategy summarization: nothing is summarized without a model: name with --agent ID an \
             agent whose \
                 `compact` block has one, or use `extraction`, which needs none"
            .to_owned(),
    }))
}

/// Returns the text of `--focus`, if a strategy uses it.
fn focus(words: &str, compact: &Compact) -> Result<Focus, Misconfigured> {
    let focus =
        Focus::try_from(words.to_owned()).map_err(|error| Misconfigured(format!("--focus: {error}")))?;
    if !compact.heeds_focus() {
        let what = "--focus has no effect here: add `--strategy extraction`, or name with --agent one that \
             has a \
                    `model` for summaries";
        return Err(Misconfigured(what.to_owned()));
    }
    Ok(focus)
}

/// Rejects outputs that would lose something: the input as an output, or one file for two outputs.
fn check_places(arguments: &CompactArguments) -> anyhow::Result<()> {
    if arguments.json && arguments.output.is_none() && !arguments.dry_run {
        let what = "--json prints the report to stdout: name a file for the result with --output";
        return Err(Misconfigured(what.to_owned()).into());
    }
    if let Some(path) = arguments.output.as_ref().filter(|_| arguments.dry_run) {
        let what = format!(
            "--dry-run writes no result, so {} would stay empty: omit --output or --dry-run",
            path.display()
        );
        return Err(Misconfigured(what).into());
    }
    let outputs: Vec<(&str, &Path)> = [
        ("--output", &arguments.output),
        ("--report", &arguments.report),
        ("--proposal", &arguments.proposal),
    ]
    .into_iter()
    .filter_map(|(flag, path)| Some((flag, path.as_deref()?)))
    .collect();
    let inputs = [arguments.file.as_deref(), arguments.apply.as_deref()];
    for (n, (flag, path)) in outputs.iter().enumerate() {
        if inputs.iter().flatten().any(|input| is_same(path, input)) {
            let what = format!("{flag} {} is the input, which is never overwritten", path.display());
            return Err(Misconfigured(what).into());
        }
        if let Some((other, _)) = outputs[..n].iter().find(|(_, other)| is_same(path, other)) {
            return Err(Misconfigured(format!("{other} and {flag} are the same file")).into());
        }
    }
    Ok(())
}

/// Checks whether both lead to one regular file, by any links; or to one path that does not exist yet.
fn is_same(one: &Path, other: &Path) -> bool {
    let (Ok(first), Ok(second)) = (std::fs::metadata(one), std::fs::metadata(other)) else {
        return place(one) == place(other);
    };
    first.is_file()
        && (is_same_inode(&first, &second) || one.canonicalize().ok() == other.canonicalize().ok())
}

/// Returns the folder and the name of a file that may not exist.
fn place(path: &Path) -> (Option<PathBuf>, Option<&OsStr>) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    (folder.canonicalize().ok(), path.file_name())
}

#[cfg(unix)]
fn is_same_inode(one: &std::fs::Metadata, other: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(not(unix))]
fn is_same_inode(_: &std::fs::Metadata, _: &std::fs::Metadata) -> bool {
    false
}

fn write_result(arguments: &CompactArguments, bytes: &[u8]) -> anyhow::Result<()> {
    match &arguments.output {
        Some(path) => write_file(path, bytes),
        None => {
            let mut out = io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush()).context("cannot write to stdout")
        }
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    write_whole(path, bytes).map_err(|error| {
        let way_out = match error.kind() {
            ErrorKind::NotFound => "; create the folder first, or name another",
            ErrorKind::IsADirectory => "; name a file in that folder",
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                "; name a folder that may be written to"
            }
            _ => "",
        };
        anyhow!("cannot write {}: {error}{way_out}", path.display())
    })
}

fn pretty(value: &impl Serialize) -> anyhow::Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    Ok(text)
}

/// Prints the report: to its file, as JSON to stdout, else as a `line` to stderr.
fn tell(arguments: &CompactArguments, report: &impl Serialize, line: &str) -> anyhow::Result<()> {
    if let Some(path) = &arguments.report {
        write_file(path, &pretty(report)?)?;
    }
    if arguments.json {
        output::print(&format!("{}\n", serde_json::to_string_pretty(report)?))?;
    } else {
        output::say(line);
    }
    Ok(())
}

fn in_a_line(report: &Value) -> String {
    let tokens = |key: &str| with_separators(Tokens::new(report[key].as_u64().unwrap_or_default()));
    let strategies: Vec<&str> =
        report["strategies"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let what = match report["outcome"].as_str().unwrap_or_default() {
        "applied" => format!("compacted by {}", strategies.join(", ")),
        "still_over" => "cannot fit".to_owned(),
        _ => "fits as it is".to_owned(),
    };
    let mut more = String::new();
    let repairs = report["repaired"].as_array().map_or(&[][..], Vec::as_slice);
    let n_orphans = repairs.iter().filter(|repair| repair["repair"] == "orphan_result").count();
    let attachments = report["attachments"].as_array().into_iter().flatten();
    let n_attachments: u64 = attachments.filter_map(|kind| kind["records"].as_u64()).sum();
    for (n, one, many) in [
        (repairs.len() - n_orphans, "message repaired", "messages repaired"),
        (n_orphans, "result without a call left out", "results without a call left out"),
        (
            report["skipped_lines"].as_u64().unwrap_or_default() as usize,
            "line of the file is invalid",
            "lines of the file are invalid",
        ),
        (n_attachments as usize, "attachment", "attachments"),
    ] {
        if n > 0 {
            more += &format!(" · {n} {}", if n == 1 { one } else { many });
        }
    }
    let left_out = report["left_out"].as_array().into_iter().flatten().filter_map(|one| one["key"].as_str());
    let mut keys: BTreeMap<&str, usize> = BTreeMap::new();
    left_out.for_each(|key| *keys.entry(key).or_default() += 1);
    for (key, n) in keys {
        more += &format!(
            " · `{}` of {} has no place in the other format",
            output::visible(key),
            quantity(n, "message")
        );
    }
    for attempt in report["attempts"].as_array().into_iter().flatten() {
        if let (Some(strategy), Some(reason)) =
            (attempt["strategy"].as_str(), attempt["verdict"]["failed"]["reason"].as_str())
        {
            more += &format!(" · {strategy} failed: {}", output::visible(reason));
        }
    }
    format!(
        "{}: {} → {} {}, {} → {} {}{more}",
        style(what).cyan().for_stderr(),
        tokens("tokens_before"),
        tokens("tokens_after"),
        noun(tokens("tokens_after"), "token"),
        report["messages_before"],
        report["messages_after"],
        noun(&report["messages_after"], "message"),
    )
}
