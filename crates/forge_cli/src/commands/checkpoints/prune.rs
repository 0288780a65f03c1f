//! `forge checkpoints prune`: deletes old checkpoints.

use std::num::NonZeroUsize;

use clap::Args;
use forge_app::prune;
use forge_domain::{CheckpointStore, Clock, Retention, RunId, StoreError};
use forge_infra::SystemClock;
use jiff::SignedDuration;

use super::OpenStore;
use super::selection::run_id;
use super::sweep::{SweepArguments, sweep_away};
use crate::failure::Misconfigured;
use crate::output;

/// Delete old checkpoints in the runs of all folders; what a fork or an active run needs stays
#[derive(Debug, Args)]
pub(super) struct PruneArguments {
    /// Only in this run
    #[arg(long, value_name = "RUN", value_parser = run_id)]
    run: Option<RunId>,
    /// Keep this many of each agent of a run
    #[arg(long, value_name = "N")]
    keep_last: Option<NonZeroUsize>,
    /// Delete what is older than this, such as 12h, 30d or 8w
    #[arg(long, value_name = "AGE", value_parser = age)]
    max_age: Option<SignedDuration>,
    /// Delete whole runs, the oldest first, until the store is no larger than this, such as 500MB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_size: Option<u64>,
    #[command(flatten)]
    sweep: SweepArguments,
}

impl PruneArguments {
    /// Deletes them.
    pub(super) async fn run(self, OpenStore { store, form, .. }: &OpenStore) -> anyhow::Result<()> {
        let Self { run, keep_last, max_age, max_size: max_bytes, sweep } = self;
        let retention = Retention { run, keep_last, max_age, max_bytes };
        check_retention(&**store, &retention).await?;
        if retention.run.is_none() {
            output::note("this is about the runs of all folders in the store; --run RUN names one");
        }
        let go = async |sweep| Ok(prune(&**store, &retention, SystemClock.now(), sweep).await?);
        sweep_away(&sweep, *form, go).await
    }
}

async fn check_retention(store: &dyn CheckpointStore, retention: &Retention) -> anyhow::Result<()> {
    let Retention { run, keep_last, max_age, max_bytes } = retention;
    if keep_last.is_none() && max_age.is_none() && max_bytes.is_none() {
        let what = "no limit was given: add --keep-last N, --max-age AGE or --max-size SIZE";
        return Err(Misconfigured(what.to_owned()).into());
    }
    let is_known = async |wanted: &RunId| {
        Ok::<_, StoreError>(store.runs().await?.iter().any(|known| known.run == *wanted))
    };
    match run {
        Some(run) if !is_known(run).await? => {
            Err(Misconfigured(format!("there is no run `{run}`; `forge checkpoints list` shows them")).into())
        }
        _ => Ok(()),
    }
}

fn age(text: &str) -> Result<SignedDuration, String> {
    let minutes = match text.chars().last() {
        Some('m') => 1,
        Some('h') => 60,
        Some('d') => 24 * 60,
        Some('w') => 7 * 24 * 60,
        _ => 0,
    };
    let digits = text.get(..text.len().saturating_sub(1)).unwrap_or_default();
    match digits.parse::<u32>() {
        Ok(n) if n > 0 && minutes > 0 => Ok(SignedDuration::from_mins(i64::from(n) * minutes)),
        _ => Err("expected a number with a unit, such as 90m, 12h, 30d or 8w".to_owned()),
    }
}

fn size(text: &str) -> Result<u64, String> {
    let units = [("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1_000)];
    let sized = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let n = sized.and_then(|(digits, factor)| digits.parse::<u64>().ok()?.checked_mul(factor));
    n.ok_or_else(|| "expected a number with a unit, such as 500MB or 2GB".to_owned())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn ages_and_sizes_have_units() {
        for (text, expected) in [
            ("90m", Some(90)),
            ("2h", Some(120)),
            ("1d", Some(1_440)),
            ("0d", None),
            ("3", None),
            ("é", None),
        ] {
            assert_eq!(age(text).ok(), expected.map(SignedDuration::from_mins), "{text}");
        }
        for (text, expected) in
            [("2GB", Some(2_000_000_000)), ("1KB", Some(1_000)), ("5", None), ("-1MB", None)]
        {
            assert_eq!(size(text).ok(), expected, "{text}");
        }
    }
}
