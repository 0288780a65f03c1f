//! How a replay is shown: a line and a bar for each call, the sums, or one JSON document.

use console::style;
use forge_app::{ReplayReport, ReplayedCompaction};
use forge_domain::compaction::{CompactionReport, StrategyRecord, StrategyStatistics};
use forge_domain::{StrategyId, Tokens, quantity};
use forge_transcript::Attachments;
use serde::Serialize;

use crate::output::{self, visible};

/// A session that was replayed.
#[derive(Debug, Serialize)]
pub(crate) struct ReplayedSession {
    pub(crate) id: String,
    pub(crate) window: Tokens,
    /// Recorded results that answered no call; they were dropped.
    pub(crate) orphans: usize,
    /// Recorded calls that nothing answered; each got a result that says so.
    pub(crate) missing_results: usize,
    /// Lines of the file that were no record.
    pub(crate) skipped_lines: usize,
    /// What the recording agent added by itself: files, notes, lists of tools.
    pub(crate) attachments: Vec<Attachments>,
    /// What its checkpoints took up; `None` where none were kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) store: Option<StoreFigures>,
    #[serde(flatten)]
    pub(crate) report: ReplayReport,
}

/// What a session's checkpoints cost on the other side of the store.
#[derive(Debug, Serialize)]
pub(crate) struct StoreFigures {
    /// By how many bytes a store that is a file has grown.
    pub(crate) grown_bytes: Option<u64>,
    /// The same over the bytes of the messages.
    pub(crate) over_raw: Option<f64>,
    /// How long it takes to open the store and to read the last state back.
    pub(crate) open_and_load_micros: Option<u64>,
}

/// Several sessions with their sums.
#[derive(Debug, Serialize)]
struct ReplayedSessions<'a> {
    sessions: &'a [ReplayedSession],
    calls: usize,
    /// How many compactions there were in all sessions.
    n_compactions: usize,
    refused: usize,
    peak_prompt_tokens: Tokens,
    total_prompt_tokens: Tokens,
    peak_prompt_tokens_uncompacted: Tokens,
    total_prompt_tokens_uncompacted: Tokens,
    over_window: usize,
    split_exchanges: usize,
    /// What became of each strategy in all sessions.
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

/// Prints one JSON document: the session, or the sessions with their sums.
pub(crate) fn print_json(sessions: &[ReplayedSession]) -> anyhow::Result<()> {
    let text = match sessions {
        [only] => serde_json::to_string_pretty(only)?,
        several => serde_json::to_string_pretty(&ReplayedSessions::of(several))?,
    };
    output::print(&(text + "\n"))
}

/// Prints every call of every session, and the sums.
pub(crate) fn print_sessions(sessions: &[ReplayedSession]) -> anyhow::Result<()> {
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
    let mut text = format!("{} · window {}\n", style(visible(&session.id)).bold(), grouped(session.window));
    let mut compactions = session.report.compactions.iter().peekable();
    let mut refusals = session.report.refusals.iter();
    for (at, tokens) in session.report.prompt_tokens.iter().enumerate() {
        let call = at + 1;
        while let Some(compaction) = compactions.next_if(|compaction| compaction.call == call) {
            text += &format!("      {}\n", compacted(compaction));
        }
        match tokens {
            Some(tokens) => {
                text += &format!("{call:>5} {} {:>9}\n", bar(*tokens, session.window), grouped(*tokens));
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
            "recorded result answered no call and was dropped",
            "recorded results answered no call and were dropped",
        ),
        (
            session.missing_results,
            "recorded call had no result and got one that says so",
            "recorded calls had no result and got one each that says so",
        ),
        (
            session.skipped_lines,
            "line of the file is no record and was left out",
            "lines of the file are no records and were left out",
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

/// What the checkpoints cost; empty where none were kept.
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
            grouped(Tokens::new(bytes)),
            grouped(Tokens::new(kept.raw_bytes as u64))
        );
    }
    if let Some(micros) = store.open_and_load_micros {
        text += &format!("      opened and read back in {}\n", ms(micros));
    }
    text
}

fn compacted(compaction: &ReplayedCompaction) -> String {
    format!(
        "{} by {}: {} ({}){} in {:.1} ms",
        style("compacted").cyan(),
        compaction.strategies.join(", "),
        change(&compaction.report),
        because(&compaction.report),
        failed(&compaction.report),
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
        grouped(sums.peak_prompt_tokens),
        grouped(sums.peak_prompt_tokens_uncompacted),
        grouped(sums.total_prompt_tokens),
        grouped(sums.total_prompt_tokens_uncompacted),
    ) + &tried(&sums.strategies).into_iter().map(|line| format!("      {line}\n")).collect::<String>()
}

/// What became of each strategy, a line for each.
pub(crate) fn tried(statistics: &StrategyStatistics) -> Vec<String> {
    let line = |(id, record): (&StrategyId, &StrategyRecord)| {
        let StrategyRecord { tried, applied, satisfied, failed, .. } = record;
        let mut line = format!("{id}: tried {}", quantity(*tried, "time"));
        if *applied == 0 {
            line += ", never used";
        } else {
            let saved = grouped(record.tokens_saved);
            let (used, reached) = (quantity(*applied, "time"), quantity(*satisfied, "time"));
            line += &format!(", used {used}, target reached {reached}, saved {saved} tokens");
        }
        if *failed > 0 {
            line += &format!(", failed {}", quantity(*failed, "time"));
        }
        if record.model_calls > 0 {
            line += &format!(", {} to a model", quantity(record.model_calls, "request"));
        }
        line
    };
    statistics.iter().map(line).collect()
}

/// What a compaction changed, in words.
pub(crate) fn change(report: &CompactionReport) -> String {
    format!(
        "{} → {}, {} → {}",
        grouped(report.before.tokens),
        quantity(grouped(report.after.tokens), "token"),
        report.before.messages,
        quantity(report.after.messages, "message")
    )
}

/// Why a compaction was due, in words.
pub(crate) fn because(report: &CompactionReport) -> String {
    report.trigger.map(|trigger| trigger.to_string()).unwrap_or_default()
}

/// The attempts that failed before, in words.
pub(crate) fn failed(report: &CompactionReport) -> String {
    use forge_domain::compaction::Verdict;
    let reasons = report.attempts.iter().filter_map(|attempt| match &attempt.verdict {
        Verdict::Failed { reason } => Some(format!("; {} failed: {}", attempt.strategy, visible(reason))),
        _ => None,
    });
    reasons.collect()
}

/// A bar of how much of the window a prompt takes.
fn bar(tokens: Tokens, window: Tokens) -> String {
    const WIDTH: u64 = 30;
    let full = (tokens.as_u64() * WIDTH).div_ceil(window.as_u64().max(1)).min(WIDTH) as usize;
    let rest = WIDTH as usize - full;
    let bar = style("█".repeat(full));
    let bar = if full as u64 * 10 >= WIDTH * 8 { bar.yellow() } else { bar.green() };
    format!("{bar}{}", style("░".repeat(rest)).dim())
}

/// The number with commas between thousands.
pub(crate) fn grouped(tokens: Tokens) -> String {
    let digits = tokens.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn thousands_are_apart() {
        for (number, expected) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(Tokens::new(number)), expected);
        }
    }
}
