//! The display of a replay: a line and a bar for each call, the totals, or one JSON document.

use console::style;
use forge_app::{ReplayReport, ReplayedCompaction};
use forge_domain::compaction::StrategyStatistics;
use forge_domain::{Tokens, quantity};
use forge_transcript::Attachments;
use serde::Serialize;

use crate::output::{self, visible, with_separators};
use crate::run::{because, change, failed_attempts, strategy_lines};

/// A replayed session.
#[derive(Debug, Serialize)]
pub(super) struct ReplayedSession {
    pub(super) id: String,
    pub(super) window: Tokens,
    /// Recorded results without a call; they were dropped.
    pub(super) orphans: usize,
    /// Recorded calls without a result; each got a result that reports this.
    pub(super) missing_results: usize,
    /// The invalid lines of the file.
    pub(super) skipped_lines: usize,
    /// The recording agent's own additions: files, notes, lists of tools.
    pub(super) attachments: Vec<Attachments>,
    /// The size of its checkpoints; `None` without checkpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) store: Option<StoreFigures>,
    #[serde(flatten)]
    pub(super) report: ReplayReport,
}

/// The cost of a session's checkpoints in the store.
#[derive(Debug, Serialize)]
pub(super) struct StoreFigures {
    /// The bytes by which a store in a file has grown.
    pub(super) grown_bytes: Option<u64>,
    /// The growth relative to the bytes of the messages.
    pub(super) over_raw: Option<f64>,
    /// The time for opening the store and reading the last state back.
    pub(super) open_and_load_micros: Option<u64>,
}

/// Several sessions with their totals.
#[derive(Debug, Serialize)]
struct ReplayedSessions<'a> {
    sessions: &'a [ReplayedSession],
    calls: usize,
    /// The compactions in all sessions.
    n_compactions: usize,
    refused: usize,
    peak_prompt_tokens: Tokens,
    total_prompt_tokens: Tokens,
    peak_prompt_tokens_uncompacted: Tokens,
    total_prompt_tokens_uncompacted: Tokens,
    over_window: usize,
    split_exchanges: usize,
    /// The results of each strategy in all sessions.
    strategies: StrategyStatistics,
    fit_micros: u64,
}

impl<'a> ReplayedSessions<'a> {
    fn of(sessions: &'a [ReplayedSession]) -> Self {
        let reports = || sessions.iter().map(|session| &session.report);
        Self {
            sessions,
            calls: reports().map(|report| report.calls).sum(),
            n_compactions: reports().map(|report| report.compactions.len()).sum(),
            refused: reports().map(|report| report.refused).sum(),
            peak_prompt_tokens: reports()
                .map(|report| report.totals.peak_prompt_tokens)
                .max()
                .unwrap_or_default(),
            total_prompt_tokens: reports().map(|report| report.totals.total_prompt_tokens).sum(),
            peak_prompt_tokens_uncompacted: reports()
                .map(|report| report.totals.peak_prompt_tokens_uncompacted)
                .max()
                .unwrap_or_default(),
            total_prompt_tokens_uncompacted: reports()
                .map(|report| report.totals.total_prompt_tokens_uncompacted)
                .sum(),
            over_window: reports().map(|report| report.over_window).sum(),
            split_exchanges: reports().map(|report| report.split_exchanges).sum(),
            strategies: reports()
                .fold(StrategyStatistics::default(), |all, report| all.and(report.strategies.clone())),
            fit_micros: reports().map(|report| report.fit_micros).sum(),
        }
    }
}

/// Prints one JSON document: the session, or the sessions with their totals.
pub(super) fn print_json(sessions: &[ReplayedSession]) -> anyhow::Result<()> {
    match sessions {
        [only] => output::print_json(only),
        several => output::print_json(&ReplayedSessions::of(several)),
    }
}

/// Prints every call of every session, and the totals.
pub(super) fn print_sessions(sessions: &[ReplayedSession]) -> anyhow::Result<()> {
    for session in sessions {
        output::print(&session_text(session))?;
    }
    if sessions.len() != 1 {
        let title = style(quantity(sessions.len(), "session")).bold();
        output::print(&format!("{title}\n{}", sums_text(&ReplayedSessions::of(sessions))))?;
    }
    Ok(())
}

fn session_text(session: &ReplayedSession) -> String {
    let mut text =
        format!("{} · window {}\n", style(visible(&session.id)).bold(), with_separators(session.window));
    let mut compactions = session.report.compactions.iter().peekable();
    let mut refusals = session.report.refusals.iter();
    for (at, tokens) in session.report.prompt_tokens.iter().enumerate() {
        let call = at + 1;
        while let Some(compaction) = compactions.next_if(|compaction| compaction.call == call) {
            text += &format!("      {}\n", compaction_text(compaction));
        }
        match tokens {
            Some(tokens) => {
                text +=
                    &format!("{call:>5} {} {:>9}\n", bar(*tokens, session.window), with_separators(*tokens));
            }
            None => {
                let because = refusals.next().map(|refusal| refusal.because.to_string()).unwrap_or_default();
                text += &format!("{call:>5} {} {because}\n", style("refused").red());
            }
        }
    }
    for (n, one, several) in [
        (
            session.orphans,
            "recorded result without a call was dropped",
            "recorded results without a call were dropped",
        ),
        (
            session.missing_results,
            "recorded call without a result got a placeholder",
            "recorded calls without a result got a placeholder each",
        ),
        (
            session.skipped_lines,
            "line of the file is invalid and was left out",
            "lines of the file are invalid and were left out",
        ),
        (
            session.attachments.iter().map(|kind| kind.records).sum(),
            "attachment was added by the recording agent itself",
            "attachments were added by the recording agent itself; the model saw most of them",
        ),
    ] {
        if n > 0 {
            text += &format!("      {n} {}\n", if n == 1 { one } else { several });
        }
    }
    text + &sums_text(&ReplayedSessions::of(std::slice::from_ref(session))) + &checkpoints_text(session)
}

/// Describes the cost of the checkpoints; empty without checkpoints.
fn checkpoints_text(session: &ReplayedSession) -> String {
    let (Some(kept), Some(store)) = (&session.report.checkpoints, &session.store) else {
        return String::new();
    };
    let ms = |micros: u64| format!("{:.2} ms", micros as f64 / 1_000.0);
    let mut text = format!(
        "      checkpoints: run {}, {} saved, {} failed; a call waits {} at the beginning, {} at the end, {} at most\n",
        kept.tally.run,
        kept.tally.saved,
        kept.tally.failed,
        ms(kept.early_save_micros),
        ms(kept.late_save_micros),
        ms(kept.largest_save_micros),
    );
    if let (Some(bytes), Some(over_raw)) = (store.grown_bytes, store.over_raw) {
        text += &format!(
            "      the store grew by {} bytes, {over_raw}x the {} bytes of the messages\n",
            with_separators(Tokens::new(bytes)),
            with_separators(Tokens::new(kept.raw_bytes as u64))
        );
    }
    if let Some(micros) = store.open_and_load_micros {
        text += &format!("      opened and read back in {}\n", ms(micros));
    }
    text
}

fn compaction_text(compaction: &ReplayedCompaction) -> String {
    format!(
        "{} by {}: {} ({}){} in {:.1} ms",
        style("compacted").cyan(),
        compaction.strategies.join(", "),
        change(compaction.report.before, compaction.report.after),
        because(&compaction.report),
        failed_attempts(&compaction.report),
        compaction.micros as f64 / 1_000.0,
    )
}

fn sums_text(sums: &ReplayedSessions<'_>) -> String {
    // With calls refused, fewer tokens sent is no saving.
    let saved = match (sums.refused, sums.total_prompt_tokens_uncompacted.as_u64()) {
        (0, whole) if whole > 0 => {
            let share = 100 - (sums.total_prompt_tokens.as_u64() * 100).div_ceil(whole).min(100);
            format!(", {share} % less")
        }
        _ => String::new(),
    };
    format!(
        "      {} · {} · {} refused · {} over the window\n      prompt tokens: peak {} (without compaction \
         {}) · total {} (without compaction {}{saved})\n",
        quantity(sums.calls, "call"),
        quantity(sums.n_compactions, "compaction"),
        sums.refused,
        sums.over_window,
        with_separators(sums.peak_prompt_tokens),
        with_separators(sums.peak_prompt_tokens_uncompacted),
        with_separators(sums.total_prompt_tokens),
        with_separators(sums.total_prompt_tokens_uncompacted),
    ) + &strategy_lines(&sums.strategies)
        .into_iter()
        .map(|line| format!("      {line}\n"))
        .collect::<String>()
}

/// Returns a bar that shows how much of the window a prompt uses.
fn bar(tokens: Tokens, window: Tokens) -> String {
    const WIDTH: u64 = 30;
    let full = (tokens.as_u64() * WIDTH).div_ceil(window.as_u64().max(1)).min(WIDTH) as usize;
    let rest = WIDTH as usize - full;
    let bar = style("█".repeat(full));
    let bar = if full as u64 * 10 >= WIDTH * 8 { bar.yellow() } else { bar.green() };
    format!("{bar}{}", style("░".repeat(rest)).dim())
}
