//! `forge checkpoints list`: the runs, or the checkpoints of one.

use std::num::NonZeroUsize;

use clap::Args;
use forge_app::{RunCard, run_cards};
use forge_domain::{CheckpointFilter, CheckpointInfo, Clock as _};
use forge_infra::SystemClock;
use jiff::Timestamp;
use serde_json::json;

use super::OpenStore;
use crate::output;
use crate::output::line_wrap::cut;
use crate::output::table::{Side, table};
use crate::run::{
    CHECKPOINT_COLUMNS, age, checkpoint_cells, folder_text, select_here, short_cost, short_tokens,
    state_word, title_text,
};

/// The columns of a table of runs, unless the terminal has more.
const WIDTH: usize = 80;

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
            let folder = std::env::current_dir().ok().map(|folder| folder.display().to_string());
            let limit = limit.unwrap_or(usize::MAX);
            let cards = run_cards(&**store, folder.as_deref(), limit).await?;
            let now = SystemClock.now();
            return form.answer(&json!({"store": place, "runs": cards}), || {
                runs_text(&cards, &place, folder.as_deref(), now)
            });
        };
        let run = select_here(&**store, &word, None).await?.info.run;
        let infos = store.list(&CheckpointFilter { limit, ..CheckpointFilter::of_run(&run) }).await?;
        form.answer(&json!({"store": place, "run": run, "checkpoints": infos}), || {
            checkpoints_text(&infos, SystemClock.now())
        })
    }
}

/// Returns tables of the runs in the store at `place`: those of `folder`, and the others.
fn runs_text(cards: &[RunCard], place: &str, folder: Option<&str>, now: Timestamp) -> String {
    if cards.is_empty() {
        return format!("no runs in {place}\n");
    }
    let home = std::env::var("HOME").ok();
    let width = output::stdout_columns().unwrap_or(WIDTH).max(WIDTH);
    let (own, others): (Vec<&RunCard>, Vec<&RunCard>) =
        cards.iter().partition(|card| card.folder.as_deref() == folder);
    let row = |card: &&RunCard| {
        let latest = card.summary.latest.as_ref();
        let folder = folder_text(card, folder, home.as_deref());
        let title = title_text(card);
        vec![
            card.summary.run.to_string(),
            latest.map(|info| age(info.created_at, now)).unwrap_or_default(),
            latest.map(|info| short_tokens(info.estimated_tokens)).unwrap_or_default(),
            short_cost(card),
            state_word(card).to_owned(),
            folder.map_or_else(|| title.clone(), |folder| format!("{title} ({folder})")),
        ]
    };
    let columns = [
        ("RUN", Side::Left),
        ("AGE", Side::Right),
        ("TOKENS", Side::Right),
        ("COST", Side::Right),
        ("STATE", Side::Left),
        ("FIRST MESSAGE", Side::Left),
    ];
    let mut text = String::new();
    for (heading, cards) in [("this folder", &own), ("other folders", &others)] {
        if cards.is_empty() {
            continue;
        }
        if !others.is_empty() {
            text += &format!("{heading}\n");
        }
        let lines = table(&columns, cards.iter().map(row).collect());
        for line in lines.lines() {
            text += &format!("{}\n", cut(line, width));
        }
    }
    text
}

/// Returns a table of the checkpoints, newest first.
fn checkpoints_text(infos: &[CheckpointInfo], now: Timestamp) -> String {
    let row = |info: &CheckpointInfo| {
        let after = info.parent.map(|parent| parent.to_string()).unwrap_or_default();
        [checkpoint_cells(info), vec![age(info.created_at, now), after]].concat()
    };
    let columns = [&CHECKPOINT_COLUMNS[..], &[("AGE", Side::Right), ("AFTER", Side::Right)]].concat();
    table(&columns, infos.iter().map(row).collect())
}
