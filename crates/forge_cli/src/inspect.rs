//! `forge inspect`: shows what fills the window of a recorded session.

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;

use console::style;
use forge_app::{DuplicateKind, InspectReport, Inspector, inspect_view, select, tools_tokens_of};
use forge_domain::{TokenCounter, Tokens, quantity};
use forge_services::O200kCounter;
use forge_transcript::{Attachments, Draft, Format, RecordedCompaction, Session, request_tools, stream};
use serde::Serialize;

use crate::arguments::InspectArguments;
use crate::output::{self, visible};
use crate::replay_view::with_separators;
use crate::session_file::{MOST_OF_A_FILE, SessionFile, nth_of};
use crate::store;

/// The most duplicates and rule violations that are shown.
const SHOWN: usize = 10;

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
    #[serde(flatten)]
    report: InspectReport,
    /// The recording agent's own additions: files, notes, lists of tools.
    attachments: Vec<Attachments>,
    /// The recording agent's compactions.
    compactions: Vec<RecordedCompaction>,
}

/// Inspects one session of a file, or all of them.
pub(crate) fn inspect(arguments: &InspectArguments) -> anyhow::Result<ExitCode> {
    let inspected = match (&arguments.run.run, &arguments.file) {
        (Some(word), _) => vec![of_run(word, arguments.run.store.as_deref())?],
        (None, Some(file)) => of_file(file, arguments.picked.as_deref())?,
        (None, None) => Vec::new(),
    };
    if arguments.json {
        let text = match inspected.as_slice() {
            [only] => serde_json::to_string_pretty(only)?,
            several => serde_json::to_string_pretty(&serde_json::json!({"sessions": several}))?,
        };
        output::print(&format!("{text}\n"))?;
    } else {
        inspected.iter().for_each(print);
    }
    Ok(ExitCode::SUCCESS)
}

/// Inspects what the model would see of the user's own run.
fn of_run(word: &str, store: Option<&str>) -> anyhow::Result<InspectedSession> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let checkpoint = runtime.block_on(async {
        let store = store::open_existing(&store::named_or_of_runs(store, None)?).await?;
        let selected = select(&*store, word, None).await?;
        Ok::<_, anyhow::Error>(store.load(selected.info.key).await?)
    })?;
    let view = checkpoint.snapshot.conversation.view();
    let tools = tools_tokens_of(&checkpoint, &O200kCounter);
    Ok(InspectedSession {
        id: format!("{}/{}", checkpoint.info.run, checkpoint.info.id),
        format: None,
        records: checkpoint.info.n_entries,
        skipped_lines: 0,
        report: inspect_view(&view, tools, &O200kCounter),
        attachments: Vec::new(),
        compactions: Vec::new(),
    })
}

fn of_file(path: &Path, picked: Option<&str>) -> anyhow::Result<Vec<InspectedSession>> {
    if picked.is_none()
        && let Some(session) = of_large_file(path)?
    {
        return Ok(vec![session]);
    }
    let file = SessionFile::read(path, None)?;
    let tools = request_tools(&file.bytes).map_or(Tokens::ZERO, |tools| O200kCounter.count(&tools));
    let sessions: Vec<&Session> = match picked {
        None => file.sessions.iter().collect(),
        Some(wanted) => vec![&file.sessions[nth_of(&file.sessions, wanted)?]],
    };
    Ok(sessions.into_iter().map(|session| inspect_session(session, tools)).collect())
}

/// Inspects the one session of a file message by message, so that most of it is never in memory; `None` if it
/// has to be read at once, or cannot be opened twice.
fn of_large_file(path: &Path) -> anyhow::Result<Option<InspectedSession>> {
    let is_file = std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= MOST_OF_A_FILE);
    if !is_file || File::open(path).is_err() {
        return Ok(None);
    }
    let mut inspector = Inspector::new(&O200kCounter);
    let streamed =
        stream(&mut || Ok(Box::new(File::open(path)?)), &path.display().to_string(), &mut |message| {
            inspector.push(message);
        })?;
    let Some(session) = streamed else { return Ok(None) };
    let tools = session.tools.as_ref().map_or(Tokens::ZERO, |tools| O200kCounter.count(tools));
    Ok(Some(InspectedSession {
        id: session.id,
        format: Some(session.format),
        records: session.records,
        skipped_lines: session.skipped_lines,
        report: inspector.finish(tools),
        attachments: session.attachments,
        compactions: session.compactions,
    }))
}

fn inspect_session(session: &Session, tools: Tokens) -> InspectedSession {
    InspectedSession {
        id: session.id.clone(),
        format: Some(session.format),
        records: session.records.len(),
        skipped_lines: session.skipped_lines,
        report: forge_app::inspect(Draft::messages_of(session), tools, &O200kCounter),
        attachments: session.attachments(),
        compactions: session.compactions(),
    }
}

fn print(session: &InspectedSession) {
    let report = &session.report;
    let title = style(visible(&session.id)).bold();
    output::line!(
        "{title} · {} tokens · {} · {}",
        with_separators(report.tokens),
        quantity(report.messages, "message"),
        quantity(report.turns, "turn")
    );
    let groups = report.groups;
    output::line!(
        "  {}: {}, {}, {} user, {} system, {}",
        quantity(groups.all, "group"),
        quantity(groups.exchanges, "exchange"),
        quantity(groups.assistant, "answer"),
        groups.user,
        groups.system,
        quantity(groups.orphans, "orphaned result")
    );
    print_shares(report);
    output::line!("  {}", style("largest").bold());
    for item in &report.largest {
        let who = visible(item.tool.as_deref().unwrap_or(item.role.as_str()));
        output::line!(
            "    {:>6} {} {:<12} {}",
            item.id,
            amount(item.tokens, report.tokens),
            who,
            visible(&item.first_line)
        );
    }
    print_attachments(&session.attachments);
    print_duplicates(report);
    print_findings(session);
}

fn print_shares(report: &InspectReport) {
    output::line!("  {}", style("by role").bold());
    for share in &report.by_role {
        let count = quantity(share.messages, "message");
        output::line!("    {} {:<10} {count}", amount(share.tokens, report.tokens), share.role.as_str());
    }
    if report.tools_tokens > Tokens::ZERO {
        output::line!("    {} tool schemas", amount(report.tools_tokens, report.tokens));
    }
    if !report.by_tool.is_empty() {
        output::line!("  {}", style("by tool").bold());
    }
    for tool in &report.by_tool {
        let tokens = tool.argument_tokens + tool.result_tokens;
        output::line!(
            "    {} {} · {} · {}",
            amount(tokens, report.tokens),
            visible(&tool.tool),
            quantity(tool.calls, "call"),
            quantity(tool.results, "result")
        );
    }
}

fn print_attachments(attachments: &[Attachments]) {
    if attachments.is_empty() {
        return;
    }
    output::line!("  {}", style("added by the agent itself").bold());
    for kind in attachments {
        output::line!(
            "    {:>9} bytes {} · {} · {} in the context",
            with_separators(Tokens::new(kind.bytes as u64)),
            visible(&kind.kind),
            quantity(kind.records, "attachment"),
            kind.in_context
        );
    }
}

fn print_duplicates(report: &InspectReport) {
    if report.duplicates.is_empty() {
        return;
    }
    output::line!("  {}", style("more than once").bold());
    for duplicate in report.duplicates.iter().take(SHOWN) {
        let what = match duplicate.kind {
            DuplicateKind::SameResult => "same result",
            DuplicateKind::SameCall => "same call",
        };
        let times = duplicate.ids.len();
        output::line!(
            "    {:>9} {what} {times}× {} {}",
            with_separators(duplicate.tokens),
            visible(&duplicate.tool),
            visible(&duplicate.what)
        );
    }
    print_rest(report.duplicates.len());
}

fn print_findings(session: &InspectedSession) {
    let breaches = &session.report.breaches;
    if breaches.is_empty() {
        output::line!("  {}", style("every call has its result").green());
    } else {
        output::line!("  {}", style("broken").red().bold());
    }
    for breach in breaches.iter().take(SHOWN) {
        output::line!("    {}", visible(breach));
    }
    print_rest(breaches.len());
    let elsewhere = &session.report.breaches_elsewhere;
    if !elsewhere.is_empty() {
        output::line!("  {}", style("not for every provider").bold());
    }
    for breach in elsewhere.iter().take(SHOWN) {
        output::line!("    {}", visible(breach));
    }
    print_rest(elsewhere.len());
    for compaction in &session.compactions {
        let tokens = |tokens: Option<u64>| {
            tokens.map_or("?".to_owned(), |tokens| with_separators(Tokens::new(tokens)))
        };
        let trigger = visible(compaction.trigger.as_deref().unwrap_or("?"));
        output::line!(
            "  compacted at record {} ({trigger}): {} tokens before",
            compaction.record,
            tokens(compaction.pre_tokens)
        );
    }
    if session.skipped_lines > 0 {
        let verb = if session.skipped_lines == 1 { "is" } else { "are" };
        output::line!("  {} of the file {verb} invalid", quantity(session.skipped_lines, "line"));
    }
}

fn print_rest(n: usize) {
    if n > SHOWN {
        output::line!("    and {} more", n - SHOWN);
    }
}

/// Returns a bar and a number for a part of the whole.
fn amount(part: Tokens, whole: Tokens) -> String {
    const WIDTH: u64 = 20;
    let full = (part.as_u64() * WIDTH).div_ceil(whole.as_u64().max(1)).min(WIDTH) as usize;
    let (bar, rest) = (style("█".repeat(full)).green(), style("░".repeat(WIDTH as usize - full)).dim());
    format!("{bar}{rest} {:>9}", with_separators(part))
}
