//! `forge compact --run`: compacts the user's own run manually.

use std::process::ExitCode;

use forge_app::{CompactRun, CompactRunError, CompactedRun, compact_run, save_compaction};
use forge_domain::Checkpoint;
use forge_domain::compaction::ContextCompactor;
use serde_json::json;

use super::CompactArguments;
use super::report::{in_a_line, tell, write_file, write_report};
use super::settings::read_configuration;
use crate::commands::checkpoints::{TakeOver, by_writer, view_bytes};
use crate::consent::Need;
use crate::failure::Misconfigured;
use crate::output;
use crate::redaction::{redact_bytes, redaction_text};
use crate::run::{block_on, select_here};
use crate::setup::{self, store};

/// Compacts the run or checkpoint named `word`: into a new checkpoint of the run, which can be undone, or
/// with `--output` into a file of messages.
pub(super) fn compact(arguments: &CompactArguments, word: &str) -> anyhow::Result<ExitCode> {
    block_on(compact_in_store(arguments, word))
}

async fn compact_in_store(arguments: &CompactArguments, word: &str) -> anyhow::Result<ExitCode> {
    refuse_what_files_need(arguments)?;
    let store = store::open_existing(&store::named_or_of_runs(
        arguments.files.run.store.as_deref(),
        arguments.configured.config.as_deref(),
    )?)
    .await?;
    let selected = select_here(&*store, word, None).await?;
    let checkpoint = store.load(selected.info.key).await?;
    let compacted = compact_checkpoint(arguments, &checkpoint).await?;
    let mut report = serde_json::to_value(&compacted.report)?;
    if let Some(over) = compacted.report.still_over.clone() {
        tell(arguments, &report, &in_a_line(arguments, &report))?;
        return Err(anyhow::Error::new(over).context(format!("{word} cannot be made to fit")));
    }
    // If the report cannot be written, nothing is changed.
    write_report(arguments, &report)?;
    if let Some(path) = arguments.files.output.as_ref().filter(|_| !arguments.plan.dry_run) {
        let written = view_bytes(&compacted.snapshot.conversation).into();
        let (written, redacted) = match arguments.files.redact {
            true => redact_bytes(written),
            false => (written, Vec::new()),
        };
        write_file(path, &written)?;
        if arguments.files.redact {
            output::say(&redaction_text(&redacted));
        }
    } else if !arguments.plan.dry_run {
        let save = async |writer: &forge_app::Writer<'_>| {
            save_compaction(&*store, &selected, &compacted, writer).await
        };
        if let Some(saved) = by_writer(TakeOver::default(), save).await? {
            report["saved"] = json!(saved);
            output::say(&format!(
                "saved as {} {}; to undo it: forge checkpoints undo {}",
                saved.key, saved.id, saved.run
            ));
        }
    }
    tell(arguments, &report, &in_a_line(arguments, &report))?;
    Ok(ExitCode::SUCCESS)
}

/// Rejects flags that only apply to a file.
fn refuse_what_files_need(arguments: &CompactArguments) -> Result<(), Misconfigured> {
    if arguments.files.redact && arguments.files.output.is_none() {
        let what =
            "a run keeps every message, so its secrets would stay: write a file with --redact --output FILE";
        return Err(Misconfigured(what.to_owned()));
    }
    let said = [
        ("--apply", arguments.plan.apply.is_some()),
        ("--proposal", arguments.plan.proposal.is_some()),
        ("--to", arguments.files.to.is_some()),
        ("--from", arguments.files.format.from.0.is_some()),
    ];
    match said.into_iter().find(|(_, is_said)| *is_said) {
        Some((flag, _)) => Err(Misconfigured(format!("{flag} is for recorded sessions, not for --run"))),
        None => Ok(()),
    }
}

async fn compact_checkpoint(
    arguments: &CompactArguments,
    checkpoint: &Checkpoint,
) -> anyhow::Result<CompactedRun> {
    let mut settings = read_configuration(arguments, CompactRun::block_of(checkpoint))?;
    if settings.compact.model.is_some() && settings.summarizers.is_none() {
        let source = arguments.configured.source();
        settings.summarizers = Some(setup::configuration(&source, Need::Everything)?.workflow);
    }
    let services = settings.services();
    let asked = CompactRun { compact: Some(settings.compact), limit: arguments.goal.max_tokens };
    let compacted = compact_run(checkpoint, asked, &ContextCompactor::new(), &services).await;
    compacted.map_err(|error| match error {
        CompactRunError::Compact(cause) => Misconfigured(cause.to_string()).into(),
        error => error.into(),
    })
}
