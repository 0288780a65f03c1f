//! The deletion of checkpoints: shown first, and confirmed.

use std::io::IsTerminal;

use clap::Args;
use forge_app::Discarded;
use forge_domain::{Sweep, quantity};

use super::view::{SHOWN, time_text};
use crate::arguments::JsonFlag;
use crate::failure::Misconfigured;
use crate::output;
use crate::terminal::person::read_answer;

/// The flags of a deletion.
#[derive(Debug, Args)]
pub(super) struct SweepArguments {
    /// Only show what would be deleted
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

/// Shows what would be deleted, asks, and deletes it.
pub(super) async fn sweep_away(
    asked: &SweepArguments,
    form: JsonFlag,
    go: impl AsyncFn(Sweep) -> anyhow::Result<Discarded>,
) -> anyhow::Result<()> {
    if !asked.yes {
        let discarded = go(Sweep::Rehearsed).await?;
        if asked.dry_run || discarded.checkpoints.is_empty() && discarded.runs == 0 {
            return form.answer(&discarded, || discard_text(&discarded, Sweep::Rehearsed));
        }
        output::say(discard_text(&discarded, Sweep::Rehearsed).trim_end());
        if !is_confirmed()? {
            output::say("nothing was deleted");
            return Ok(());
        }
    } else if asked.dry_run {
        let discarded = go(Sweep::Rehearsed).await?;
        return form.answer(&discarded, || discard_text(&discarded, Sweep::Rehearsed));
    }
    let discarded = go(Sweep::Done).await?;
    form.answer(&discarded, || discard_text(&discarded, Sweep::Done))
}

fn is_confirmed() -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        let what = "there is no terminal to ask at, so nothing was deleted: add --yes, or try --dry-run";
        return Err(Misconfigured(what.to_owned()).into());
    }
    Ok(matches!(read_answer("Delete this? [y/N] ")?.as_deref(), Some("y" | "Y" | "yes")))
}

/// Describes what is or would be deleted.
fn discard_text(discarded: &Discarded, sweep: Sweep) -> String {
    let Discarded { checkpoints, runs, lines } = discarded;
    if checkpoints.is_empty() && *runs == 0 {
        return "nothing to delete\n".to_owned();
    }
    let mut text = String::new();
    for info in checkpoints.iter().take(SHOWN) {
        text += &format!("  {} {}/{} ({})\n", info.key, info.run, info.id, time_text(info));
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
