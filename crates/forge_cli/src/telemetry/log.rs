//! The log: its filter and its target, from `--log`, `--log-file` and the corresponding variables.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use clap::Args;
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

use crate::failure::Misconfigured;
use crate::output;
use crate::telemetry::Telemetry;

/// The filter if only a file is named.
const OF_A_FILE: &str = "forge=info";
/// The variables that correspond to the flags.
const LOG_VARIABLE: &str = "FORGE_LOG";
const FILE_VARIABLE: &str = "FORGE_LOG_FILE";

/// The log flags of every command.
#[derive(Debug, Default, Args)]
pub(crate) struct LogFlags {
    /// Log filter: error, warn, info, debug or trace, for all targets or as TARGET=LEVEL, separated by
    /// commas [default: FORGE_LOG]
    #[arg(long, global = true, value_name = "FILTER", help_heading = "Log")]
    log: Option<String>,
    /// Append the log to this file instead of stderr; the default filter is then forge=info [default:
    /// FORGE_LOG_FILE]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Log")]
    log_file: Option<PathBuf>,
}

/// Starts logging and, if that is built in and requested, the export of traces and metrics.
///
/// # Errors
/// Fails with [`Misconfigured`] for an invalid filter and a file that cannot be written.
pub(crate) fn start(flags: &LogFlags) -> anyhow::Result<Telemetry> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let file = flags.log_file.clone().map(|path| ("--log-file", path));
    let file = file.or_else(|| Some((FILE_VARIABLE, PathBuf::from(variable(FILE_VARIABLE)?))));
    let words = flags.log.clone().map(|words| ("--log", words));
    let words = words.or_else(|| Some((LOG_VARIABLE, variable(LOG_VARIABLE)?)));
    let usual = if file.is_some() { OF_A_FILE } else { "off" };
    let (origin, words) = words.unwrap_or_else(|| ("--log", usual.to_owned()));
    let filter = filter(&words).map_err(|why| Misconfigured(format!("{origin}: {why}")))?;
    let file = match file {
        None => None,
        Some((origin, path)) => Some(open(origin, &path)?),
    };
    let telemetry = Telemetry::of_environment();
    tracing_subscriber::registry().with(lines(file, filter)).with(telemetry.layer()).init();
    Ok(telemetry)
}

/// Creates a layer that writes one line for each event, and one for each span when it ends.
fn lines(file: Option<File>, filter: EnvFilter) -> Box<dyn Layer<Registry> + Send + Sync> {
    let lines = fmt::layer().with_span_events(FmtSpan::CLOSE);
    match file {
        Some(file) => {
            lines.with_ansi(false).with_writer(Mutex::new(LogFile(file))).with_filter(filter).boxed()
        }
        None => {
            let is_colored = console::colors_enabled_stderr();
            lines.with_ansi(is_colored).with_writer(|| output::Log).with_filter(filter).boxed()
        }
    }
}

/// A log file, in which secrets are hidden. Each line is one write.
struct LogFile(File);

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write_all(output::hide_secrets(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Opens the file, or creates one that only its user can read.
fn open(origin: &str, path: &Path) -> Result<File, Misconfigured> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|error| {
        Misconfigured(format!("{origin}: the log file {} cannot be written: {error}", path.display()))
    })
}

/// Parses a filter. A single word that is neither a level nor one of our targets counts as a misspelt level:
/// a target that does not exist would silently log nothing.
fn filter(words: &str) -> Result<EnvFilter, String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    const EXPECTED: &str =
        "expected error, warn, info, debug, trace or off, or TARGET=LEVEL such as forge::chat=debug";
    let is_level = |word: &str| LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word));
    let is_plain = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let parts: Vec<&str> = words.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    let wrong = parts.iter().find(|part| is_plain(part) && !is_level(part) && !part.starts_with("forge"));
    if let Some(wrong) = wrong {
        return Err(format!("invalid log level '{wrong}' ({EXPECTED})"));
    }
    EnvFilter::try_new(parts.join(","))
        .map_err(|error| format!("invalid log filter '{words}': {error} ({EXPECTED})"))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_filter_is_levels_and_targets() {
        for (words, expected) in [
            ("", None),
            ("off", None),
            ("INFO", None),
            ("forge", None),
            ("forge=info, hyper_util=trace", None),
            ("warn,forge::mcp=debug", None),
            ("inof", Some("invalid log level 'inof' (expected error, warn")),
            ("info,5x", Some("invalid log level '5x' (")),
            ("forge=loud", Some("invalid log filter 'forge=loud': ")),
        ] {
            let actual = filter(words).err();
            match (&actual, expected) {
                (Some(why), Some(expected)) => assert!(why.starts_with(expected), "{why}"),
                _ => assert_eq!(actual.as_deref(), expected, "{words}"),
            }
        }
    }
}
