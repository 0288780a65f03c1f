//! The result of a compaction, and the report on it.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::Path;

use anyhow::{anyhow, bail};
use console::style;
use forge_app::SessionReport;
use forge_domain::{Tokens, noun, quantity};
use forge_infra::write_whole;
use forge_transcript::{Attachments, Loss, Omission, Repair};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::CompactArguments;
use crate::output::{self, with_separators};
use crate::redaction::{Redacted, redact_bytes};
use crate::run::shortened_requests;

/// The report with the details of the file.
#[derive(Serialize)]
pub(super) struct FileReport<'a> {
    #[serde(flatten)]
    pub(super) report: &'a SessionReport,
    /// The most tokens that were asked for.
    pub(super) target_tokens: Tokens,
    /// The input's violations of the providers' rules.
    pub(super) breaches_before: Vec<String>,
    /// The repairs before everything else, if the output has them.
    pub(super) repaired: &'a [Repair],
    /// Invalid lines of the file; a session that is not written back byte for byte lacks them.
    pub(super) skipped_lines: usize,
    /// The recording agent's own additions: files, notes, lists of tools.
    pub(super) attachments: Vec<Attachments>,
    /// The parts that the output's format cannot hold.
    pub(super) left_out: Vec<Omission>,
    /// The reasoning, images and files that the output lacks because its format differs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) losses: Vec<Loss>,
    /// The secrets that were taken out, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) redacted: Option<Vec<Redacted>>,
}

pub(super) fn write_result(arguments: &CompactArguments, bytes: &[u8]) -> anyhow::Result<()> {
    match &arguments.files.output {
        Some(path) => write_file(path, bytes),
        None => output::print_bytes(bytes),
    }
}

/// Writes a file as a whole, or not at all. A write-protected one stays as it is, though its folder would let
/// it be replaced.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().readonly()) {
        bail!("cannot write {}: it is write-protected; name another file", path.display());
    }
    write_whole(path, bytes).map_err(|error| not_written(path, &error))
}

/// Explains why a file could not be written.
pub(super) fn not_written(path: &Path, error: &io::Error) -> anyhow::Error {
    let way_out = match error.kind() {
        ErrorKind::NotFound => "; create the folder first, or name another",
        ErrorKind::IsADirectory => "; name a file in that folder",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "; name a folder that may be written to"
        }
        _ => "",
    };
    anyhow!("cannot write {}: {error}{way_out}", path.display())
}

pub(super) fn pretty(value: &impl Serialize) -> anyhow::Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    Ok(text)
}

/// Writes the report to its file and prints it: as JSON to stdout, else as a `line` to stderr.
pub(super) fn tell(arguments: &CompactArguments, report: &impl Serialize, line: &str) -> anyhow::Result<()> {
    write_report(arguments, report)?;
    print_report(arguments, report, line)
}

/// Writes the report to its file, if one was named: before anything is changed that it tells of.
pub(super) fn write_report(arguments: &CompactArguments, report: &impl Serialize) -> anyhow::Result<()> {
    if let Some(path) = &arguments.plan.report {
        let written = pretty(report)?.into();
        let written = if arguments.files.redact { redact_bytes(written).0 } else { written };
        write_file(path, &written)?;
    }
    Ok(())
}

/// Prints the report as JSON to stdout, else as a `line` to stderr.
pub(super) fn print_report(
    arguments: &CompactArguments,
    report: &impl Serialize,
    line: &str,
) -> anyhow::Result<()> {
    if arguments.plan.json {
        output::print_json(report)?;
    } else {
        output::say(line);
    }
    Ok(())
}

/// Describes what the other format has no place for; each part begins with a separator.
pub(super) fn losses_text(losses: &[Loss]) -> String {
    losses.iter().map(|loss| format!(" · {} lost in the other format", loss.what())).collect()
}

/// Describes the faults of a session that stay because nothing else of it changes; begins with a separator.
pub(super) fn unrepaired_text(n_faults: usize) -> String {
    if n_faults == 0 {
        return String::new();
    }
    let faults = quantity(n_faults, "fault");
    format!(" · {faults} not repaired, as nothing else changes (`-o FILE --to openai` writes it repaired)")
}

/// Returns the report in a line; of a dry run, it says that it was one.
pub(super) fn in_a_line(arguments: &CompactArguments, report: &Value) -> String {
    let (would_be, end) = match arguments.plan.dry_run {
        true => ("would be ", " · nothing was written"),
        false => ("", ""),
    };
    let tokens = |key: &str| with_separators(Tokens::new(report[key].as_u64().unwrap_or_default()));
    let strategies: Vec<&str> =
        report["strategies"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let what = match report["outcome"].as_str().unwrap_or_default() {
        // An edited proposal may say more than what it replaces.
        "applied" if report["tokens_after"].as_u64() > report["tokens_before"].as_u64() => {
            format!("{would_be}grown, though compacted by {}", strategies.join(", "))
        }
        "applied" => format!("{would_be}compacted by {}", strategies.join(", ")),
        "still_over" => "cannot fit".to_owned(),
        _ => match report["target_tokens"].as_u64() {
            Some(target) => format!(
                "fits as it is in {} tokens (--max-tokens sets another limit)",
                with_separators(Tokens::new(target))
            ),
            None => "fits as it is".to_owned(),
        },
    };
    let mut more = String::new();
    let repairs = report["repaired"].as_array().map_or(&[][..], Vec::as_slice);
    let n_orphans = repairs.iter().filter(|repair| repair["repair"] == "orphan_result").count();
    let attachments = report["attachments"].as_array().into_iter().flatten();
    let n_attachments: u64 = attachments.filter_map(|kind| kind["records"].as_u64()).sum();
    for (n, one, many) in [
        (repairs.len() - n_orphans, "message repaired", "messages repaired"),
        (n_orphans, "result without a call left out", "results without a call left out"),
        (
            report["skipped_lines"].as_u64().unwrap_or_default() as usize,
            "line of the file is invalid",
            "lines of the file are invalid",
        ),
        (n_attachments as usize, "attachment", "attachments"),
    ] {
        if n > 0 {
            more += &format!(" · {n} {}", if n == 1 { one } else { many });
        }
    }
    let left_out = report["left_out"].as_array().into_iter().flatten().filter_map(|one| one["key"].as_str());
    let mut keys: BTreeMap<&str, usize> = BTreeMap::new();
    left_out.for_each(|key| *keys.entry(key).or_default() += 1);
    for (key, n) in keys {
        more += &format!(
            " · `{}` of {} has no place in the other format",
            output::visible(key),
            quantity(n, "message")
        );
    }
    more += &losses_text(&Vec::<Loss>::deserialize(&report["losses"]).unwrap_or_default());
    more += &shortened_requests(&report["yielded"], " · ");
    for attempt in report["attempts"].as_array().into_iter().flatten() {
        if let (Some(strategy), Some(reason)) =
            (attempt["strategy"].as_str(), attempt["verdict"]["failed"]["reason"].as_str())
        {
            more += &format!(" · {strategy} failed: {}", output::visible(reason));
        }
    }
    format!(
        "{}: {} → {} {}, {} → {} {}{end}{more}",
        style(what).cyan().for_stderr(),
        tokens("tokens_before"),
        tokens("tokens_after"),
        noun(tokens("tokens_after"), "token"),
        report["messages_before"],
        report["messages_after"],
        noun(&report["messages_after"], "message"),
    )
}
