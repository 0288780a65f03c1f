//! Arguments that several commands share; each command's own stand in its file.

use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};
use forge_domain::{
    Allowance, Discretion, Dollars, Effort, Mode, OnChange, RequestOptionError, SandboxMode, StoreSetting,
    Tokens, UnknownMode,
};
use forge_infra::FilePlace;
use forge_transcript::Format;
use serde::Serialize;

use crate::failure::Misconfigured;
use crate::output;

/// The headings of the groups of flags, in the order of the help.
const CONFIGURATION: &str = "Configuration";
pub(crate) const PERMISSIONS: &str = "Permissions";
const LIMITS: &str = "Limits";

/// The help of `--store` for a command that reads saved runs.
pub(crate) const STORE_OF_RUNS: &str = "\
The checkpoint store: sqlite:///PATH or postgres://USER@HOST/DATABASE [default: the one that runs of this \
folder use]";

/// The help of `--store` for a command of a fleet.
pub(crate) const STORE_OF_FLEET: &str = "\
The store that the machines of the fleet share: postgres://USER@HOST/DATABASE [default: FORGE_STORE, or the \
one that runs of this folder use]";

/// The workflow file.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConfigFlag {
    /// The workflow file [default: the nearest forge.yaml, from the working folder up to the root of its
    /// repository]
    #[arg(long, value_name = "FILE", help_heading = CONFIGURATION)]
    pub(crate) config: Option<PathBuf>,
}

impl ConfigFlag {
    /// Returns a source with this file and no other flag.
    pub(crate) fn source(&self) -> Source {
        Source { file: self.clone(), ..Source::default() }
    }
}

/// The source of the configuration.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Source {
    #[command(flatten)]
    pub(crate) file: ConfigFlag,
    /// The model of every agent, as PROVIDER:MODEL or by its bare name
    #[arg(short, long, help_heading = CONFIGURATION)]
    pub(crate) model: Option<String>,
    /// Provider for models given without a `provider:` prefix
    #[arg(long, help_heading = CONFIGURATION)]
    pub(crate) provider: Option<String>,
    /// The effort of every agent: none, minimal, low, medium, high or max
    #[arg(long, value_name = "EFFORT", value_parser = effort, help_heading = CONFIGURATION)]
    pub(crate) effort: Option<Effort>,
}

impl Source {
    /// Returns the workflow file that was named.
    pub(crate) fn config(&self) -> Option<&Path> {
        self.file.config.as_deref()
    }
}

/// The form of a command's answer.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct JsonFlag {
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

impl JsonFlag {
    /// Prints `value` as JSON, or `text` with what steers a terminal made visible.
    pub(crate) fn answer(self, value: &impl Serialize, text: impl FnOnce() -> String) -> anyhow::Result<()> {
        if self.json { output::print_json(value) } else { output::print(&output::harmless(&text())) }
    }
}

/// The spending limits of a run; each one overrides that of the files.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct BudgetFlags {
    /// End before the run uses more tokens than this, prompts and answers together; `200k` is 200,000
    #[arg(long, value_name = "N", value_parser = window, allow_negative_numbers = true, help_heading = LIMITS)]
    budget_tokens: Option<Tokens>,
    /// End before the run costs more US dollars than this, at the models' prices
    #[arg(long, value_name = "DOLLARS", value_parser = dollars, allow_negative_numbers = true, help_heading = LIMITS)]
    budget_cost: Option<Dollars>,
}

impl BudgetFlags {
    /// Returns the words by which another process is given the same limits.
    pub(crate) fn words(self) -> Vec<String> {
        let tokens = self.budget_tokens.map(|most| ["--budget-tokens".to_owned(), most.to_string()]);
        let cost = self.budget_cost.map(|most| ["--budget-cost".to_owned(), most.as_f64().to_string()]);
        tokens.into_iter().chain(cost).flatten().collect()
    }

    pub(crate) const fn allowance(self) -> Allowance {
        Allowance { tokens: self.budget_tokens, cost: self.budget_cost }
    }
}

/// The flags for running, whether a run starts or resumes. Other commands use some of the groups.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RunFlags {
    #[command(flatten)]
    pub(crate) agent: AgentFlag,
    #[command(flatten)]
    pub(crate) setup: SetupFlags,
    #[command(flatten)]
    pub(crate) budget: BudgetFlags,
    #[command(flatten)]
    pub(crate) images: ImageFlags,
    #[command(flatten)]
    pub(crate) record: RecordFlag,
    /// Write a report on the run to this file, as JSON: calls, compactions, tokens, cost, and why it ended
    #[arg(long, value_name = "FILE", value_hint = ValueHint::AnyPath, value_parser = file_place())]
    pub(crate) report: Option<FilePlace>,
}

/// Parses the path of a file that is written at the end of a run, and looks at its place at once.
fn file_place() -> impl TypedValueParser<Value = FilePlace> {
    PathBufValueParser::new().map(FilePlace::of)
}

/// The store that a run is saved in.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct StoreFlag {
    /// The checkpoint store: sqlite:///PATH, postgres://USER@HOST/DATABASE, memory: or none [default:
    /// FORGE_STORE, `checkpoint.store`, else a file in your state folder]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<StoreSetting>,
}

/// The agent that runs.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AgentFlag {
    /// The agent to run [default: those that subscribe to `user_task_init`, or the first one]
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
}

impl AgentFlag {
    /// Returns the id of the agent that was named.
    pub(crate) fn id(&self) -> Option<&str> {
        self.agent.as_deref()
    }
}

/// The configuration of agents, and the permissions that the user gives them.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SetupFlags {
    #[command(flatten)]
    pub(crate) source: Source,
    /// The sandbox of commands: on, off, or on with full network access [default: as in forge.yaml, else on]
    #[arg(long, value_enum, value_name = "MODE", help_heading = PERMISSIONS)]
    pub(crate) sandbox: Option<SandboxModeName>,
    #[command(flatten)]
    pub(crate) consent: ConsentFlags,
}

/// The images of a task.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ImageFlags {
    /// Show the model an image with the task: PNG, JPEG, GIF or WebP. Can be repeated
    #[arg(long = "image", value_name = "FILE")]
    pub(crate) images: Vec<PathBuf>,
}

/// The file that a session is recorded in.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RecordFlag {
    /// Write the session to this file after every call, as OpenAI messages
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

impl RecordFlag {
    /// Returns the file that was named.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.record.as_deref()
    }
}

/// The user's consents for a whole run, given in advance.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConsentFlags {
    /// The mode for calls that no rule of forge.yaml decides: `plan` only reads and ends with a plan, `ask`
    /// asks, `edits` edits files without asking, `auto` also runs commands, in the sandbox
    #[arg(long, value_name = "MODE", value_parser = mode, help_heading = PERMISSIONS)]
    pub(crate) mode: Option<Mode>,
    /// Allow every call that would be asked for, unless a project's or the administrator's rule asks; never
    /// that secrets are shown
    #[arg(short, long, help_heading = PERMISSIONS)]
    yes: bool,
    /// Allow these calls without a question: a tool, or a tool and a pattern such as 'shell:cargo *'
    #[arg(long, value_name = "TOOL:PATTERN", help_heading = PERMISSIONS)]
    allow: Vec<String>,
}

impl ConsentFlags {
    /// Returns the words by which another process is given the same consents.
    pub(crate) fn words(&self) -> Vec<String> {
        let mode = self.mode.map(|mode| ["--mode".to_owned(), mode.to_string()]);
        let mut words: Vec<String> = mode.into_iter().flatten().collect();
        words.extend(self.yes.then(|| "--yes".to_owned()));
        words.extend(self.allow.iter().flat_map(|rule| ["--allow".to_owned(), rule.clone()]));
        words
    }

    /// Returns the user's decisions.
    ///
    /// # Errors
    /// [`Misconfigured`] if a rule is invalid.
    pub(crate) fn discretion(&self) -> Result<Discretion, Misconfigured> {
        let mut discretion = Discretion { mode: self.mode.unwrap_or_default(), ..Discretion::default() };
        if self.yes {
            discretion.allow_everything();
        }
        for rule in &self.allow {
            let invalid = |error| Misconfigured(format!("--allow '{}': {error}", output::visible(rule)));
            discretion.allow(rule).map_err(invalid)?;
        }
        Ok(discretion)
    }
}

fn mode(word: &str) -> Result<Mode, String> {
    word.parse().map_err(|error: UnknownMode| error.to_string())
}

/// The user's own run, in place of a file.
#[derive(Debug, Args)]
pub(crate) struct OwnRun {
    /// Instead of a file: a run, a checkpoint's label or number, or `last`
    #[arg(long = "run", value_name = "ID", conflicts_with_all = ["file", "picked"])]
    pub(crate) run: Option<String>,
    #[arg(long, value_name = "URL", requires = "run", help = STORE_OF_RUNS)]
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

impl SandboxModeName {
    /// Returns the word for it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::Network => "network",
        }
    }
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
    /// Returns the parser of `auto` and of the formats that are read.
    pub(crate) fn parser() -> impl TypedValueParser<Value = Self> {
        let auto = PossibleValue::new("auto").help("Detect it from the content");
        Self::parser_of(std::iter::once(auto).chain(Format::all().map(possible_value)).collect())
    }

    /// Returns the parser of the formats that any session can be written in.
    pub(crate) fn target_parser() -> impl TypedValueParser<Value = Self> {
        Self::parser_of(Format::targets().map(possible_value).collect())
    }

    fn parser_of(values: Vec<PossibleValue>) -> impl TypedValueParser<Value = Self> {
        PossibleValuesParser::new(values).map(|id| Self(Format::named(&id)))
    }
}

fn possible_value(format: Format) -> PossibleValue {
    PossibleValue::new(format.id()).help(format.description())
}

/// The flag for a session in a file whose format is not detected, or detected wrong.
#[derive(Debug, Args)]
pub(crate) struct FromFlag {
    /// The format of the session
    #[arg(long, value_parser = FormatName::parser(), default_value = "auto")]
    pub(crate) from: FormatName,
}

/// Parses a number of tokens, such as `8000` or `200_000`, thousands such as `8k` or `8.5k`, or millions such
/// as `1M`.
pub(crate) fn window(text: &str) -> Result<Tokens, String> {
    const MOST: f64 = 1e15;
    let (number, factor) = match text.strip_suffix(['k', 'K']) {
        Some(thousands) => (thousands, 1e3),
        None => text.strip_suffix(['m', 'M']).map_or((text, 1.0), |millions| (millions, 1e6)),
    };
    // The parser also accepts signs, exponents and `inf`.
    let is_plain = number.starts_with(|c: char| c.is_ascii_digit())
        && number.chars().all(|c| c.is_ascii_digit() || c == '.' || c == '_');
    let parsed = number.replace('_', "").parse::<f64>().ok().filter(|_| is_plain);
    let tokens = parsed.map(|number| number * factor);
    match tokens {
        Some(tokens) if (1.0..MOST).contains(&tokens) && (tokens - tokens.round()).abs() < 1e-6 => {
            Ok(Tokens::new(tokens.round() as u64))
        }
        _ => Err("expected a number of tokens such as 8000, thousands such as 8k, or millions such as 1M"
            .to_owned()),
    }
}

fn effort(text: &str) -> Result<Effort, String> {
    text.parse().map_err(|error: RequestOptionError| error.to_string())
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
            ("8.5k", Some(8_500)),
            ("1M", Some(1_000_000)),
            ("1.5m", Some(1_500_000)),
            ("200_000", Some(200_000)),
            ("0", None),
            ("8.5", None),
            ("1e3", None),
            ("k", None),
            ("_8", None),
            ("8g", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(window(text).ok(), expected.map(Tokens::new), "{text}");
        }
    }
}
