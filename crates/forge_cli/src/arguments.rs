//! What can be typed after each command.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use forge_domain::{Allowance, Dollars, OnChange, SandboxMode, StoreSetting, Tokens};
use serde::{Deserialize, Serialize};

/// Where the configuration comes from.
#[derive(Clone, Debug, Args)]
pub(crate) struct Source {
    /// The workflow [default: forge.yaml in the working folder, if there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The model of every agent, as PROVIDER:MODEL or by its bare name
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Who serves a model whose name says nothing of a provider
    #[arg(long)]
    pub(crate) provider: Option<String>,
}

/// What a run may take; each limit counts before that of the files.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct BudgetFlags {
    /// End before the run takes more tokens than this, prompts and answers together; `200k` is 200,000
    #[arg(long, value_name = "N", value_parser = window)]
    budget_tokens: Option<Tokens>,
    /// End before the run costs more US dollars than this, by the models' prices
    #[arg(long, value_name = "DOLLARS", value_parser = dollars)]
    budget_cost: Option<Dollars>,
}

impl BudgetFlags {
    pub(crate) const fn allowance(self) -> Allowance {
        Allowance { tokens: self.budget_tokens, cost: self.budget_cost }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ModelsArguments {
    /// The workflow [default: forge.yaml in the working folder, if there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The only provider to ask
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    #[command(flatten)]
    pub(crate) source: Source,
    /// The store of checkpoints [default: the one that runs use]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Make the indexes of the store anew; what is stored is not touched
    #[arg(long)]
    pub(crate) repair: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// What is to be done. What is piped in is added to it; `-`, or nothing, reads the task from standard input. Without either, at a terminal, a chat begins
    pub(crate) task: Option<String>,
    /// Chat: what is to be done is the first message, and more can be said after it
    #[arg(long, conflicts_with = "json")]
    pub(crate) chat: bool,
    /// Go on with a run: its id, a checkpoint's name or number (#12), or `last`; behind it may stand a new task
    ///
    /// A checkpoint that is not the last of its run begins a new one.
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "last")]
    pub(crate) resume: Option<String>,
    /// What is done where forge.yaml has changed since [default: what `checkpoint.on_change` says, else continue]
    #[arg(long, value_enum, requires = "resume")]
    pub(crate) on_change: Option<OnChangeName>,
    /// Resume the run though somebody else is writing it: nothing more of that one's is saved
    #[arg(long, requires = "resume")]
    pub(crate) take_over: bool,
    /// Where checkpoints are kept: sqlite:///PATH, postgres://USER@HOST/DATABASE, memory: or none [default: FORGE_STORE,
    /// `checkpoint.store`, else a file in your state folder]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<StoreSetting>,
    /// Print what happens as JSON, one object a line, each with the word of its `event`, and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) how: RunFlags,
}

/// How a run is done, whether it begins or goes on.
#[derive(Debug, Args)]
pub(crate) struct RunFlags {
    /// The agent to wake [default: those that subscribe to `user_task_init`, or the only one]
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    #[command(flatten)]
    pub(crate) source: Source,
    /// Write the session to this file after every call, as OpenAI messages
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) budget: BudgetFlags,
    /// The sandbox of commands: on, off, or on with the whole network [default: what forge.yaml says, else on]
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) sandbox: Option<SandboxModeName>,
    /// Write what came of the run to this file, as JSON: calls, compactions, tokens, cost, and why it ended
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArguments {
    /// The recorded session
    #[arg(value_name = "SESSION")]
    pub(crate) file: PathBuf,
    /// The agent whose `compact` block applies [default: none, so the defaults do]
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// The workflow [default: forge.yaml in the working folder, if there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Tokens of the window, all of it room for the prompt; `8k` is 8,000
    #[arg(long, value_name = "N", default_value = "128k", value_parser = window)]
    pub(crate) window: Tokens,
    /// The model that writes summaries; without one no model is asked
    #[arg(long, value_name = "PROVIDER:MODEL")]
    pub(crate) summarizer: Option<String>,
    /// The session to replay where the file holds several: its id, or its number from 0 [default: all]
    #[arg(long = "session", value_name = "ID|INDEX")]
    pub(crate) picked: Option<String>,
    /// Keep checkpoints as a run does, and measure what they cost: sqlite:///PATH, postgres://USER@HOST/DATABASE or memory:
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<StoreSetting>,
    /// Go on with a replay that was cut off: its run, a checkpoint of it, or `last`
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "last", requires = "store")]
    pub(crate) resume: Option<String>,
    /// Stop after so many calls, as if the process had been killed
    #[arg(long, value_name = "N", requires = "store")]
    pub(crate) calls: Option<usize>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompactArguments {
    /// The recorded session; it is never written to
    #[arg(value_name = "IN", required_unless_present = "run")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) run: OwnRun,
    /// Where the result goes, whole or not at all [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The format of the input
    #[arg(long, value_enum, default_value_t = FormatName::Auto)]
    pub(crate) from: FormatName,
    /// The format of the output [default: that of the input]
    #[arg(long, value_enum)]
    pub(crate) to: Option<FormatName>,
    /// Most tokens of the whole request, tool schemas included; `8k` is 8,000 [default: what `compact` says of 128k]
    #[arg(long, value_name = "N", value_parser = window)]
    pub(crate) max_tokens: Option<Tokens>,
    /// A strategy to try, as its id or as `{id: {options}}`; repeat it for several, in order
    #[arg(long = "strategy", value_name = "S")]
    pub(crate) strategies: Vec<String>,
    /// What to preserve, in words; for a summary or a record
    #[arg(long, value_name = "T")]
    pub(crate) focus: Option<String>,
    /// Write the report to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Print the report as JSON; the result then needs `--output`
    #[arg(long)]
    pub(crate) json: bool,
    /// Write no result
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Save what would be replaced by what to this file, for `--apply`
    #[arg(long, value_name = "FILE", requires = "dry_run")]
    pub(crate) proposal: Option<PathBuf>,
    /// Do exactly what a saved proposal says, if the input is still the one it was made for
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "to", "max_tokens", "strategies", "focus", "dry_run", "agent", "config", "picked"])]
    pub(crate) apply: Option<PathBuf>,
    /// The agent whose `compact` block applies; its summariser is asked [default: none, so the defaults do]
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// The workflow [default: forge.yaml in the working folder, if there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The session to compact where the file holds several: its id, or its number from 0
    #[arg(long = "session", value_name = "ID|INDEX")]
    pub(crate) picked: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArguments {
    /// The recorded session
    #[arg(value_name = "SESSION", required_unless_present = "run")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) run: OwnRun,
    /// The session to inspect where the file holds several: its id, or its number from 0 [default: all]
    #[arg(long = "session", value_name = "ID|INDEX")]
    pub(crate) picked: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// A run of one's own instead of a file.
#[derive(Debug, Args)]
pub(crate) struct OwnRun {
    /// Instead of a file: a run, a checkpoint's label or number, or `last`
    #[arg(long = "run", value_name = "ID", conflicts_with_all = ["file", "picked"])]
    pub(crate) run: Option<String>,
    /// The store that has it [default: the one that runs of this folder use]
    #[arg(long, value_name = "URL", requires = "run")]
    pub(crate) store: Option<String>,
}

/// The choice of a sandbox on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SandboxModeName {
    /// As forge.yaml configures it
    On,
    /// None: commands run with all of your rights
    Off,
    /// As forge.yaml configures it, but with the whole network
    Network,
}

impl From<SandboxModeName> for SandboxMode {
    fn from(name: SandboxModeName) -> Self {
        match name {
            SandboxModeName::On => Self::On,
            SandboxModeName::Off => Self::Off,
            SandboxModeName::Network => Self::Network,
        }
    }
}

/// What is done where the configuration has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnChangeName {
    /// The run is not resumed
    Refuse,
    /// It goes on with what is configured now
    Continue,
    /// A new run begins with its state
    Fork,
}

impl From<OnChangeName> for OnChange {
    fn from(name: OnChangeName) -> Self {
        match name {
            OnChangeName::Refuse => Self::Refuse,
            OnChangeName::Continue => Self::Continue,
            OnChangeName::Fork => Self::Fork,
        }
    }
}

/// A format by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FormatName {
    /// Told by the content
    Auto,
    /// `{"messages": [...]}`, or the bare list
    Openai,
    /// `{"system": ..., "messages": [...]}`, or the bare list
    Anthropic,
    /// A record a line
    ClaudeCode,
    /// `[{"task_id", "trial", "traj"}]`
    TauBench,
}

#[derive(Debug, Args)]
pub(crate) struct InitArguments {
    /// Who serves the model: openai, anthropic, openrouter, ollama, or a name of your own together with `--base-url`
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// Where a server of your own is, such as http://localhost:8080/v1; it speaks OpenAI's protocol
    #[arg(long, value_name = "URL", requires = "provider")]
    pub(crate) base_url: Option<String>,
    /// The model by the name that its provider knows
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// The agent's id [default: helper]
    #[arg(long, value_name = "ID")]
    pub(crate) name: Option<String>,
    /// The file, or the folder for a forge.yaml [default: forge.yaml]
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
    /// Write over a forge.yaml and a forge.schema.json that are there; the old ones stay beside them as `.bak`
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LogArguments {
    /// The run: its id or the beginning of it, or `last`
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// Show what it did outside its conversations, in order
    #[arg(long)]
    pub(crate) actions: bool,
    /// The store that has it [default: the one that runs of this folder use]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TrustArguments {
    /// The folder whose forge.yaml is meant, or another file that is used in the working folder [default: the working folder]
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
    /// List what is trusted
    #[arg(long, conflicts_with_all = ["path", "revoke"])]
    pub(crate) list: bool,
    /// Trust it no longer
    #[arg(long)]
    pub(crate) revoke: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArguments {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Find everything that is wrong with the configuration, without asking a server
    ///
    /// Exit codes: 0 nothing is wrong, 2 something is, and it is told with its file, line, column and key. What still works
    /// but is deprecated is told as a warning.
    Check {
        #[command(flatten)]
        source: Source,
        /// Print one JSON document: `{"ok", "agents", "faults": [{"source", "line", "column", "path", "what", "hint", "snippet"}], "warnings"}`
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema of forge.yaml, by which editors complete and check
    ///
    /// Save it next to a forge.yaml whose first line is `# yaml-language-server: $schema=forge.schema.json`.
    Schema,
    /// Rewrite the transforms of earlier versions to `compact`, in the file's own words
    ///
    /// Shows what would change and writes nothing without `--write`; what cannot be rewritten is named.
    Migrate(MigrateArguments),
    /// Print the configuration with all layers merged
    Show {
        #[command(flatten)]
        source: Source,
        #[command(flatten)]
        budget: BudgetFlags,
        /// Say of each value which layer it comes from, and what limits come to in tokens
        #[arg(long)]
        resolved: bool,
        /// The only agent to show [default: all]
        #[arg(long, value_name = "ID", requires = "resolved")]
        agent: Option<String>,
        /// Print JSON instead of YAML
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct MigrateArguments {
    /// The workflow [default: forge.yaml in the working folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Write the file; as it was it is kept beside it, as FILE.bak
    #[arg(long)]
    pub(crate) write: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Parses a number of tokens: digits, or digits and `k` for thousands.
fn window(text: &str) -> Result<Tokens, String> {
    let (digits, factor) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1_000),
        None => (text, 1),
    };
    match digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)) {
        Some(number) if number > 0 => Ok(Tokens::new(number)),
        _ => Err("write a number of tokens such as 8000, or thousands such as 8k".to_owned()),
    }
}

/// Parses an amount of dollars, with or without their sign.
fn dollars(text: &str) -> Result<Dollars, String> {
    let amount = text.trim().trim_start_matches('$').parse().ok().and_then(Dollars::new);
    amount.ok_or_else(|| "write a number of US dollars such as 2.50".to_owned())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_window_is_tokens_or_thousands() {
        for (text, expected) in [
            ("8000", Some(8_000)),
            ("8k", Some(8_000)),
            ("128K", Some(128_000)),
            ("0", None),
            ("8m", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(window(text).ok(), expected.map(Tokens::new), "{text}");
        }
    }
}
