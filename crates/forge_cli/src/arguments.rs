//! What can be typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use forge_domain::Tokens;

/// Runs LLM agents for as long as the work takes: before every call the context is made to fit.
#[derive(Debug, Parser)]
#[command(name = "forge", version, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an agent on a task
    ///
    /// The answer goes to standard output; tool calls, compactions and usage go to standard error.
    Run(RunArguments),
    /// Live a recorded session through again and show what compaction does to it; no key and no server needed
    ///
    /// Reads OpenAI chat messages (`{"messages": [...]}`), tau-bench JSON and Claude Code JSONL.
    Replay(ReplayArguments),
    /// Look at the configuration
    Config(ConfigArguments),
}

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

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// What is to be done; read from standard input where it is left out
    pub(crate) task: Option<String>,
    /// The agent to wake [default: those that subscribe to `user_task_init`, or the only one]
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    #[command(flatten)]
    pub(crate) source: Source,
    /// Write the session to this file after every call, as OpenAI messages
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
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
    /// Find what is wrong with the configuration
    Check(Source),
    /// Print the configuration with all layers merged
    Show {
        #[command(flatten)]
        source: Source,
        /// Print JSON instead of YAML
        #[arg(long)]
        json: bool,
    },
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

    #[test]
    fn the_arguments_are_well_formed() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
