//! The display of runs and checkpoints.

use console::style;
use forge_app::{
    CheckpointDifference, CheckpointReport, CompactionLayer, Discarded, Fork, Imported, LayerState, LogTail,
    RunSummary, Undone, ViewedMessage,
};
use forge_domain::{CheckpointInfo, CheckpointReason, Difference, Size, StoreHealth, Sweep, quantity};

use crate::checkpoint_cells::{CHECKPOINT_COLUMNS, checkpoint_cells};
use crate::replay_view::grouped;
use crate::table::{Side, table};

/// The most messages of a kind that are listed one by one.
const SHOWN: usize = 40;
/// The most characters of a message's line.
const LINE: usize = 90;

/// Returns a table of the runs in the store at `place`.
pub(super) fn runs(runs: &[RunSummary], place: &str) -> String {
    if runs.is_empty() {
        return format!("no runs in {place}\n");
    }
    let row = |summary: &RunSummary| {
        let latest = summary.latest.as_ref();
        let figure = |figure: fn(&CheckpointInfo) -> String| latest.map(figure).unwrap_or_default();
        vec![
            summary.run.to_string(),
            summary.agents.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
            summary.checkpoints.to_string(),
            figure(|info| info.iteration.to_string()),
            figure(|info| info.message_count.to_string()),
            figure(|info| grouped(info.estimated_tokens)),
            figure(made),
            state(summary),
        ]
    };
    let columns = [
        ("RUN", Side::Left),
        ("AGENTS", Side::Left),
        ("CHECKPOINTS", Side::Right),
        ("CALLS", Side::Right),
        ("MESSAGES", Side::Right),
        ("TOKENS", Side::Right),
        ("LAST SAVED", Side::Left),
        ("STATE", Side::Left),
    ];
    table(&columns, &runs.iter().map(row).collect::<Vec<_>>())
}

/// Returns a table of the checkpoints, newest first.
pub(super) fn checkpoints(infos: &[CheckpointInfo]) -> String {
    let row = |info: &CheckpointInfo| {
        let after = info.parent.map(|parent| parent.to_string()).unwrap_or_default();
        [checkpoint_cells(info), vec![made(info), after]].concat()
    };
    let columns = [&CHECKPOINT_COLUMNS[..], &[("MADE", Side::Left), ("AFTER", Side::Right)]].concat();
    table(&columns, &infos.iter().map(row).collect::<Vec<_>>())
}

/// Returns the content of a checkpoint; its messages in full, or a line for each.
pub(super) fn shown(report: &CheckpointReport, full: bool) -> String {
    let info = &report.info;
    let (title, progress, coverage) = (title(info), &report.progress, &report.coverage);
    let model = report.configuration.0.get("model").and_then(|model| model.as_str()).unwrap_or("unknown");
    let mut text = format!(
        "{title}\n  made {} ({}), after {} to the model ({model})\n  usage: {} prompt tokens, {} completion \
         tokens; {} tokens spent in all, {}\n  log: {} messages, {} of them verbatim in the view, {} replaced\n  view: {} messages, {} \
         tokens\n",
        made(info),
        info.reason.as_str(),
        quantity(progress.iterations, "call"),
        grouped(progress.usage.prompt_tokens),
        grouped(progress.usage.completion_tokens),
        grouped(progress.spent.tokens),
        progress.spent.cost,
        coverage.appended,
        coverage.verbatim,
        coverage.replaced,
        info.message_count,
        grouped(info.estimated_tokens),
    );
    if !report.compactions.is_empty() {
        text += &format!("  {}\n", style("compactions").bold());
        text += &report.compactions.iter().map(layer).collect::<String>();
    }
    text += &format!("  {}\n", style("view").bold());
    for message in &report.view {
        if full {
            text += &format!("{}\n{}\n\n", heading(message), message.text);
        } else {
            text += &format!("    {}\n", in_a_line(message));
        }
    }
    text
}

/// Describes the differences between two checkpoints.
pub(super) fn different(difference: &CheckpointDifference) -> String {
    let CheckpointDifference { a, b, view_a, view_b, .. } = difference;
    let mut text = format!("{}\n{}\n", title(a), title(b));
    text += &format!("  logs: {} in common\n", quantity(difference.common_entries, "line"));
    for (info, tail) in [(a, difference.only_a), (b, difference.only_b)] {
        if tail != LogTail::default() {
            text += &format!(
                "    only {}: {}, {}; {}, {} undone\n",
                info.key,
                quantity(tail.messages, "message"),
                quantity(grouped(tail.tokens), "token"),
                quantity(tail.compactions, "compaction"),
                tail.undone
            );
        }
    }
    text += &format!("  view: {}\n", change(*view_a, *view_b));
    for (mark, messages) in [("-", &difference.left), ("+", &difference.came)] {
        for message in messages.iter().take(SHOWN) {
            text += &format!("    {mark} {}\n", in_a_line(message));
        }
        if messages.len() > SHOWN {
            text += &format!("    {mark} and {} more\n", messages.len() - SHOWN);
        }
    }
    if !difference.configuration.is_empty() {
        text += &format!("  {}\n", style("configuration").bold());
    }
    for Difference { key, then, now } in &difference.configuration {
        let shown = |value: &Option<serde_json::Value>| {
            value.as_ref().map_or_else(|| "unset".to_owned(), |value| cut(&value.to_string()))
        };
        text += &format!("    {key}: {} → {}\n", shown(then), shown(now));
    }
    text
}

/// Describes a new fork.
pub(super) fn forked(asked: &Fork, saved: &[CheckpointInfo]) -> String {
    let view = saved.last().map(|info| {
        let tokens = quantity(grouped(info.estimated_tokens), "token");
        format!("{}, {tokens} in view", quantity(info.message_count, "message"))
    });
    format!(
        "run {} starts with {} {}{}: {}\nresume with: forge run --resume {}\n",
        style(&asked.into).bold(),
        asked.from.info.key,
        asked.from.info.id,
        asked.before.map(|entry| format!(" from before {entry}")).unwrap_or_default(),
        view.unwrap_or_default(),
        asked.into
    )
}

/// Describes what was undone.
pub(super) fn undone(undone: &Undone) -> String {
    let labels: Vec<String> = undone.undone.iter().map(ToString::to_string).collect();
    format!(
        "{} undone: {}\nsaved as {} {}\n",
        labels.join(", "),
        change(undone.before, undone.after),
        undone.saved.key,
        undone.saved.id
    )
}

/// Describes what is or would be deleted.
pub(super) fn discarded(discarded: &Discarded, sweep: Sweep) -> String {
    let Discarded { checkpoints, runs, lines } = discarded;
    if checkpoints.is_empty() && *runs == 0 {
        return "nothing to delete\n".to_owned();
    }
    let mut text = String::new();
    for info in checkpoints.iter().take(SHOWN) {
        text += &format!("  {} {}/{} ({})\n", info.key, info.run, info.id, made(info));
    }
    if checkpoints.len() > SHOWN {
        text += &format!("  and {} more\n", checkpoints.len() - SHOWN);
    }
    let what = match sweep {
        Sweep::Done => "deleted",
        Sweep::Rehearsed => "would be deleted",
    };
    let checkpoints = quantity(checkpoints.len(), "checkpoint");
    let (runs, lines) = (quantity(runs, "whole run"), quantity(lines, "line"));
    text + &format!("{what}: {checkpoints}, {runs}, {lines} of logs\n")
}

/// Describes what was imported.
pub(super) fn imported(imported: &Imported) -> String {
    let Imported { run, known, saved } = imported;
    match (saved.len(), known) {
        (0, _) => format!("run {run} already exists, with all its {}\n", quantity(known, "checkpoint")),
        (n, 0) => format!("run {run}: {} imported\n", quantity(n, "checkpoint")),
        (n, known) => {
            format!("run {run}: {} imported, {known} already existed\n", quantity(n, "checkpoint"))
        }
    }
}

/// Describes the result of a check.
pub(super) fn healthy(health: &StoreHealth, place: &str) -> String {
    let StoreHealth { schema, checkpoints, bytes, faults } = health;
    let (checkpoints, bytes) = (quantity(checkpoints, "checkpoint"), quantity(bytes, "byte"));
    let mut text = format!("{place}: schema {schema}, {checkpoints}, {bytes}\n");
    if faults.is_empty() {
        text += &format!("{}\n", style("everything was read back and is intact").green());
    }
    for fault in faults {
        text += &format!("  {} {fault}\n", style("fault:").red());
    }
    text
}

fn state(summary: &RunSummary) -> String {
    let mut text = match (&summary.holder, summary.latest.as_ref().map(|info| info.reason)) {
        (Some(holder), _) => format!("written by {}", holder.by),
        (None, None) => "empty".to_owned(),
        (None, Some(CheckpointReason::End)) => "ended".to_owned(),
        (None, Some(CheckpointReason::Interrupt)) => "interrupted".to_owned(),
        (None, Some(reason)) => format!("stopped after {}", reason.as_str()),
    };
    if let Some((run, key)) = &summary.forked_from {
        text += &format!("; forked from {run} {key}");
    }
    text
}

fn title(info: &CheckpointInfo) -> String {
    format!("{} of run {}, agent {}", style(format!("{} {}", info.key, info.id)).bold(), info.run, info.agent)
}

fn layer(layer: &CompactionLayer) -> String {
    let state = match layer.state {
        LayerState::InForce => "in force",
        LayerState::Absorbed => "taken over by a later one",
        LayerState::Undone => "undone",
    };
    let absorbs = match layer.absorbs.as_slice() {
        [] => String::new(),
        labels => format!(", took over {}", labels.join(", ")),
    };
    format!(
        "    {} ({state}{absorbs}): {}, {} replaced\n",
        layer.id,
        change(layer.before, layer.after),
        quantity(layer.replaced, "message")
    )
}

fn change(before: Size, after: Size) -> String {
    format!(
        "{} → {}, {} → {}",
        before.messages,
        quantity(after.messages, "message"),
        grouped(before.tokens),
        quantity(grouped(after.tokens), "token")
    )
}

fn heading(message: &ViewedMessage) -> String {
    let tool = message.tool.as_ref().map(|tool| format!(" {tool}")).unwrap_or_default();
    let made = if message.is_compacted { ", by compaction" } else { "" };
    let title = style(format!("{} {}{tool}", message.id, message.role.as_str())).bold();
    format!("{title} ({}{made})", quantity(grouped(message.tokens), "token"))
}

fn in_a_line(message: &ViewedMessage) -> String {
    format!("{}: {}", heading(message), cut(&message.text))
}

/// Returns the first line with text, cut if it is long.
fn cut(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    match line.char_indices().nth(LINE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

fn made(info: &CheckpointInfo) -> String {
    format!("{:.0}", info.created_at)
}
