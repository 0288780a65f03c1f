//! The arguments of `forge checkpoints`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use forge_domain::{AgentId, EntryId, RunId};
use jiff::SignedDuration;

use crate::arguments::{OnChangeName, RunFlags};

#[derive(Debug, Args)]
pub(crate) struct CheckpointsArguments {
    #[command(flatten)]
    pub(crate) store: StoreArguments,
    #[command(subcommand)]
    pub(crate) command: CheckpointsCommand,
}

/// The store, and the form of the answer.
#[derive(Debug, Args)]
pub(crate) struct StoreArguments {
    /// The store: sqlite:///PATH or postgres://… [default: the one that runs of this folder use]
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) store: Option<String>,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CheckpointsCommand {
    /// Resume a run, as `forge run --resume` does
    ///
    /// If the checkpoint is not the last of its run, a new run starts from it.
    Resume(Box<ResumeArguments>),
    #[command(flatten)]
    OnStore(StoreCommand),
}

/// A command that only needs a store.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// List the runs, or the checkpoints of one
    List {
        /// The run whose checkpoints are listed
        run: Option<String>,
        /// List at most this many, the newest
        #[arg(long, value_name = "N")]
        limit: Option<NonZeroUsize>,
    },
    /// Show a checkpoint: its figures, its compactions, and what the model would see
    Show {
        #[command(flatten)]
        what: What,
        /// Show every message of the view in full
        #[arg(long)]
        full: bool,
    },
    /// Show the differences between two checkpoints
    Diff {
        /// The first checkpoint
        a: String,
        /// The second checkpoint
        b: String,
    },
    /// Start a new run from a checkpoint; the old one is not changed
    Fork {
        #[command(flatten)]
        what: What,
        /// Start before this compaction (its label, such as c2; `show` lists them): the replaced messages are
        /// back
        #[arg(long, value_name = "C")]
        before_compaction: Option<EntryId>,
        /// The new run's name [default: the old one's with a number]
        #[arg(long = "as", value_name = "RUN", value_parser = run_id)]
        into: Option<RunId>,
    },
    /// Undo the last compaction, as a new checkpoint of the same run
    ///
    /// What that compaction had taken over from earlier ones applies again: undo once more for the next
    /// layer.
    Undo {
        #[command(flatten)]
        what: What,
        /// Undo this many
        #[arg(long, value_name = "N", default_value = "1")]
        layers: NonZeroUsize,
        #[command(flatten)]
        takeover: TakeOver,
    },
    /// Delete a run, or one checkpoint; what a fork needs stays
    Delete {
        #[command(flatten)]
        what: What,
        #[command(flatten)]
        sweep: SweepArguments,
        #[command(flatten)]
        takeover: TakeOver,
    },
    /// Delete old checkpoints; what a fork or an active run needs stays
    Prune {
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
    },
    /// Write a run to one file that `import` reads into any store
    Export {
        #[command(flatten)]
        what: What,
        /// The file, written whole or not at all [default: stdout]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// The format: Forge's own with all checkpoints, or the messages of one checkpoint for other programs
        #[arg(long, value_enum, default_value_t = ExportForm::Forge)]
        to: ExportForm,
        /// With `--to openai`: only what the model would see, not the whole log
        #[arg(long)]
        view: bool,
    },
    /// Read an exported run into the store; repeating it changes nothing
    Import {
        /// The exported run
        file: PathBuf,
        /// Another name for it
        #[arg(long = "as", value_name = "RUN", value_parser = run_id)]
        into: Option<RunId>,
    },
    /// Read everything back and report damage
    Check {
        /// Rebuild indexes and the search first; the content is never changed
        #[arg(long)]
        repair: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArguments {
    /// A run, a label such as researcher-iteration-6 or RUN/LABEL, a number such as #12, or `last`, of this
    /// folder
    #[arg(value_name = "ID", default_value = "last")]
    pub(crate) id: String,
    /// A new task for it [default: it continues its own]
    pub(crate) task: Option<String>,
    /// Action if forge.yaml has changed since [default: `checkpoint.on_change`, else continue]
    #[arg(long, value_enum)]
    pub(crate) on_change: Option<OnChangeName>,
    #[command(flatten)]
    pub(crate) takeover: TakeOver,
    #[command(flatten)]
    pub(crate) how: RunFlags,
}

/// The selection of a checkpoint.
#[derive(Debug, Args)]
pub(crate) struct What {
    /// A run, a label such as researcher-iteration-6 or RUN/LABEL, a number such as 12, or `last`
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Only this agent's
    #[arg(long, value_name = "ID", value_parser = agent_id)]
    pub(crate) agent: Option<AgentId>,
}

#[derive(Debug, Args)]
pub(crate) struct SweepArguments {
    /// Only show what would be deleted
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TakeOver {
    /// Also if another process holds the run, but only if it is known to have ended
    #[arg(long)]
    pub(crate) take_over: bool,
}

/// The format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportForm {
    /// Every checkpoint; `import` reads it
    Forge,
    /// `{"messages": [...]}`, as `forge replay` and many other programs read it
    Openai,
}

fn run_id(text: &str) -> Result<RunId, String> {
    RunId::new(text).map_err(|error| error.to_string())
}

fn agent_id(text: &str) -> Result<AgentId, String> {
    AgentId::new(text).map_err(|error| error.to_string())
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
