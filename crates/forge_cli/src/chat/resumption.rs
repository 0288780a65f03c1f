//! The choice of the run to resume.

use forge_app::{RunCard, run_cards};
use forge_domain::{CheckpointStore, Clock as _};
use forge_infra::SystemClock;
use jiff::Timestamp;

use super::picker::{PickRow, pick};
use super::spans::Paint;
use crate::arguments::Source;
use crate::failure::Misconfigured;
use crate::run::{age, block_on, folder_text, short_tokens, state_word, title_text};
use crate::setup::store;

/// The most runs that are offered.
const OFFERED: usize = 50;

/// Lets the user choose a run of the configured store; `None` if they leave.
pub(crate) fn pick_of_store(named: Option<&str>, source: &Source) -> anyhow::Result<Option<String>> {
    let url = store::named_or_of_runs(named, source.config())?;
    let paint = if console::colors_enabled_stderr() { Paint::Colours } else { Paint::Bare };
    block_on(async {
        let store = store::open_existing(&url).await?;
        pick_run(&*store, paint).await
    })
}

/// Lets the user choose a run; `None` if they leave.
pub(super) async fn pick_run(store: &dyn CheckpointStore, paint: Paint) -> anyhow::Result<Option<String>> {
    let folder = std::env::current_dir().ok().map(|folder| folder.display().to_string());
    let cards = run_cards(store, folder.as_deref(), OFFERED).await?;
    let cards: Vec<RunCard> = cards.into_iter().filter(|card| card.summary.latest.is_some()).collect();
    if cards.is_empty() {
        return Err(Misconfigured("no run is saved yet: there is nothing to resume".to_owned()).into());
    }
    let now = SystemClock.now();
    let rows: Vec<PickRow> = cards.iter().map(|card| row(card, folder.as_deref(), now)).collect();
    let picked = pick("Resume a run", &rows, paint);
    Ok(picked.map(|at| cards[at].summary.run.to_string()))
}

/// Returns a run as a row: title, folder, age, cost and size.
fn row(card: &RunCard, folder: Option<&str>, now: Timestamp) -> PickRow {
    let home = std::env::var("HOME").ok();
    let latest = card.summary.latest.as_ref();
    let state = Some(state_word(card)).filter(|state| *state == "running").map(str::to_owned);
    let details = [
        folder_text(card, folder, home.as_deref()),
        state,
        Some(card.spent.cost.to_string()),
        latest.map(|info| format!("{} tokens", short_tokens(info.estimated_tokens))),
        latest.map(|info| age(info.created_at, now)),
    ];
    let details: Vec<String> = details.into_iter().flatten().collect();
    PickRow { name: title_text(card), details: details.join(" · ") }
}
