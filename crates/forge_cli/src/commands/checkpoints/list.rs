//! `forge checkpoints list`: the runs, or the checkpoints of one.

use std::num::NonZeroUsize;

use clap::Args;
use forge_app::{RunSummary, runs, select};
use forge_domain::{CheckpointFilter, CheckpointInfo, CheckpointReason};
use serde_json::json;

use super::OpenStore;
use super::view::time_text;
use crate::output::table::{Side, table};
use crate::output::with_separators;
use crate::run::{CHECKPOINT_COLUMNS, checkpoint_cells};

/// List the runs, or the checkpoints of one
#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// The run whose checkpoints are listed
    run: Option<String>,
    /// List at most this many, the newest
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroUsize>,
}

impl ListArguments {
    /// Lists them.
    pub(super) async fn run(self, OpenStore { store, url, form }: &OpenStore) -> anyhow::Result<()> {
        let limit = self.limit.map(NonZeroUsize::get);
        let place = url.to_string();
        let Some(word) = self.run else {
            let mut runs = runs(&**store).await?;
            runs.truncate(limit.unwrap_or(usize::MAX));
            return form.answer(&json!({"store": place, "runs": runs}), || runs_text(&runs, &place));
        };
        let run = select(&**store, &word, None).await?.info.run;
        let infos = store.list(&CheckpointFilter { limit, ..CheckpointFilter::of_run(&run) }).await?;
        form.answer(&json!({"store": place, "run": run, "checkpoints": infos}), || checkpoints_text(&infos))
    }
}

/// Returns a table of the runs in the store at `place`.
fn runs_text(runs: &[RunSummary], place: &str) -> String {
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
            figure(|info| with_separators(info.estimated_tokens)),
            figure(time_text),
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
    table(&columns, runs.iter().map(row).collect())
}

/// Returns a table of the checkpoints, newest first.
fn checkpoints_text(infos: &[CheckpointInfo]) -> String {
    let row = |info: &CheckpointInfo| {
        let after = info.parent.map(|parent| parent.to_string()).unwrap_or_default();
        [checkpoint_cells(info), vec![time_text(info), after]].concat()
    };
    let columns = [&CHECKPOINT_COLUMNS[..], &[("MADE", Side::Left), ("AFTER", Side::Right)]].concat();
    table(&columns, infos.iter().map(row).collect())
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
