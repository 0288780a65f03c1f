//! The arguments of each command.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use forge_domain::{Allowance, Dollars, OnChange, SandboxMode, StoreSetting, Tokens};
use forge_transcript::Format;

/// The source of the configuration.
#[derive(Clone, Debug, Args)]
pub(crate) struct Source {
    /// The workflow file [default: forge.yaml in the working folder, if it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The model of every agent, as PROVIDER:MODEL or by its bare name
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Provider for models given without a `provider:` prefix
    #[arg(long)]
    pub(crate) provider: Option<String>,
}

/// The spending limits of a run; each one overrides that of the files.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct BudgetFlags {
    /// End before the run uses more tokens than this, prompts and answers together; `200k` is 200,000
    #[arg(long, value_name = "N", value_parser = window)]
    budget_tokens: Option<Tokens>,
    /// End before the run costs more US dollars than this, at the models' prices
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
    /// The workflow file [default: forge.yaml in the working folder, if it exists]
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
    /// The checkpoint store to examine [default: the one that runs use]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Rebuild the indexes of the store; its content is not changed
    #[arg(long)]
    pub(crate) repair: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// The task. Piped input is added to it; `-`, or no task, reads it from stdin. At a terminal without a
    /// task, a chat starts
    pub(crate) task: Option<String>,
    /// Chat: the task is the first message, and you can send more after it
    #[arg(long, conflicts_with = "json")]
    pub(crate) chat: bool,
    /// Resume a run by its id, a checkpoint's name or number (#12), or `last`; a new task may follow
    ///
    /// If the checkpoint is not the last of its run, a new run starts from it.
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "last")]
    pub(crate) resume: Option<String>,
    /// Action if forge.yaml has changed since [default: `checkpoint.on_change`, else continue]
    #[arg(long, value_enum, requires = "resume")]
    pub(crate) on_change: Option<OnChangeName>,
    /// Resume even if another process holds the run; that process can no longer save
    #[arg(long, requires = "resume")]
    pub(crate) take_over: bool,
    /// The checkpoint store: sqlite:///PATH, postgres://USER@HOST/DATABASE, memory: or none [default:
    /// FORGE_STORE, `checkpoint.store`, else a file in your state folder]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<StoreSetting>,
    /// Print events as JSON, one object per line, each named by its `event` field, and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) how: RunFlags,
}

/// The flags for running, whether a run starts or resumes.
#[derive(Debug, Args)]
pub(crate) struct RunFlags {
    /// The agent to run [default: those that subscribe to `user_task_init`, or the only one]
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    #[command(flatten)]
    pub(crate) source: Source,
    /// Write the session to this file after every call, as OpenAI messages
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) budget: BudgetFlags,
    /// The sandbox of commands: on, off, or on with full network access [default: as in forge.yaml, else on]
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) sandbox: Option<SandboxModeName>,
    /// Write a report on the run to this file, as JSON: calls, compactions, tokens, cost, and why it ended
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArguments {
    /// The recorded session
    #[arg(value_name = "SESSION")]
    pub(crate) file: PathBuf,
    /// The agent whose `compact` block applies [default: none, so the defaults apply]
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// The workflow file [default: forge.yaml in the working folder, if it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The context window in tokens, all of it available to the prompt; `8k` is 8,000
    #[arg(long, value_name = "N", default_value = "128k", value_parser = window)]
    pub(crate) window: Tokens,
    /// The model that writes summaries; without it no model is called
    #[arg(long, value_name = "PROVIDER:MODEL")]
    pub(crate) summarizer: Option<String>,
    /// The session to replay if the file holds several: its id, or its number from 0 [default: all]
    #[arg(long = "session", value_name = "ID|INDEX")]
    pub(crate) picked: Option<String>,
    /// Save checkpoints as a run does, and measure their cost: sqlite:///PATH, postgres://USER@HOST/DATABASE
    /// or memory:
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<StoreSetting>,
    /// Resume an interrupted replay: its run, a checkpoint of it, or `last`
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "last", requires = "store")]
    pub(crate) resume: Option<String>,
    /// Stop after this many calls, as if the process had been killed
    #[arg(long, value_name = "N", requires = "store")]
    pub(crate) calls: Option<usize>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompactArguments {
    /// The recorded session, which is never changed
    #[arg(value_name = "IN", required_unless_present = "run")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) run: OwnRun,
    /// The file for the result, written whole or not at all [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The format of the input
    #[arg(long, value_parser = FormatName::parser(), default_value = "auto")]
    pub(crate) from: FormatName,
    /// The format of the output [default: that of the input]
    #[arg(long, value_parser = FormatName::parser())]
    pub(crate) to: Option<FormatName>,
    /// The most tokens of the whole request, tool schemas included; `8k` is 8,000 [default: the target of
    /// `compact` in 128k]
    #[arg(long, value_name = "N", value_parser = window)]
    pub(crate) max_tokens: Option<Tokens>,
    /// A strategy to try, as its id or as `{id: {options}}`; repeat it for several, in order
    #[arg(long = "strategy", value_name = "S")]
    pub(crate) strategies: Vec<String>,
    /// Things to preserve, in words, for a summary or a record
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
    /// Save the planned replacements to this file, for `--apply`
    #[arg(long, value_name = "FILE", requires = "dry_run")]
    pub(crate) proposal: Option<PathBuf>,
    /// Apply a saved proposal exactly, if the input has not changed since
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "to", "max_tokens", "strategies", "focus", "dry_run", "agent", "config", "picked"])]
    pub(crate) apply: Option<PathBuf>,
    /// The agent whose `compact` block applies, and whose summarizer is called [default: none, so the
    /// defaults apply]
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// The workflow file [default: forge.yaml in the working folder, if it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The session to compact if the file holds several: its id, or its number from 0
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
    /// The session to inspect if the file holds several: its id, or its number from 0 [default: all]
    #[arg(long = "session", value_name = "ID|INDEX")]
    pub(crate) picked: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// The user's own run, in place of a file.
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
    /// Off: commands run with all of your rights
    Off,
    /// As forge.yaml configures it, but with full network access
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

/// The action if the configuration has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnChangeName {
    /// Do not resume the run
    Refuse,
    /// Resume it with the current configuration
    Continue,
    /// Start a new run from its state
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

/// A format by its name; `None` is `auto`, which detects it from the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FormatName(pub(crate) Option<Format>);

impl FormatName {
    /// Returns the parser of the names, which the table of formats lists.
    fn parser() -> impl TypedValueParser<Value = Self> {
        let named = |format: Format| PossibleValue::new(format.id()).help(format.description());
        let auto = PossibleValue::new("auto").help("Detect it from the content");
        PossibleValuesParser::new(std::iter::once(auto).chain(Format::all().map(named)))
            .map(|id| Self(Format::named(&id)))
    }
}

#[derive(Debug, Args)]
pub(crate) struct InitArguments {
    /// The provider of the model: openai, anthropic, openrouter, ollama, or your own name for it together
    /// with `--base-url`
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// The address of your own server, such as http://localhost:8080/v1; it must speak OpenAI's protocol
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
    /// Overwrite an existing forge.yaml and forge.schema.json; the old ones are kept as `.bak`
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
    /// The folder with the forge.yaml, or another file to use in the working folder [default: the working
    /// folder]
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
    /// List the trusted files
    #[arg(long, conflicts_with_all = ["path", "revoke"])]
    pub(crate) list: bool,
    /// Revoke the trust
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
    /// Find all errors in the configuration, without asking a server
    ///
    /// Exit codes: 0 if the configuration is valid, 2 if not. Each error is reported with its file, line,
    /// column and key. Deprecated settings that still work cause a warning.
    Check {
        #[command(flatten)]
        source: Source,
        /// Print one JSON document: `{"ok", "agents", "faults": [{"source", "line", "column", "path", "what",
        /// "hint", "snippet"}], "warnings"}`
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema of forge.yaml, for completion and checks in editors
    ///
    /// Save it next to a forge.yaml whose first line is `# yaml-language-server: $schema=forge.schema.json`.
    Schema,
    /// Convert the transforms of earlier versions to `compact`, and keep the rest of the file
    ///
    /// Without `--write` it shows the changes and writes nothing. It names what it cannot convert.
    Migrate(MigrateArguments),
    /// Print the configuration with all layers merged
    Show {
        #[command(flatten)]
        source: Source,
        #[command(flatten)]
        budget: BudgetFlags,
        /// Show the layer that sets each value, and the limits in tokens
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
    /// The workflow file [default: forge.yaml in the working folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Write the file; the old one is kept beside it, as FILE.bak
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
        _ => Err("expected a number of tokens such as 8000, or thousands such as 8k".to_owned()),
    }
}

/// Parses an amount of dollars, with or without their sign.
fn dollars(text: &str) -> Result<Dollars, String> {
    let amount = text.trim().trim_start_matches('$').parse().ok().and_then(Dollars::new);
    amount.ok_or_else(|| "expected a number of US dollars such as 2.50".to_owned())
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
