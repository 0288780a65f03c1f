//! `forge compact --run`: compacts the user's own run manually.

use std::process::ExitCode;
use std::sync::Arc;

use forge_app::{CompactRun, CompactRunError, CompactedRun, compact_run, save_compaction, select};
use forge_domain::compaction::ContextCompactor;
use forge_domain::{Checkpoint, ContextMessage};
use forge_infra::Playback;
use forge_services::O200kCounter;
use forge_transcript::write_messages;
use serde_json::json;

use super::{in_a_line, read_configuration, tell, write_file};
use crate::arguments::{CompactArguments, Source};
use crate::checkpoints::by_writer;
use crate::consent::Need;
use crate::failure::Misconfigured;
use crate::setup::{self, Providers};
use crate::{output, store};

/// Compacts the run or checkpoint named `word`: into a new checkpoint of the run, which can be undone, or
/// with `--output` into a file of messages.
pub(super) fn compact(arguments: &CompactArguments, word: &str) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(compact_in_store(arguments, word))
}

async fn compact_in_store(arguments: &CompactArguments, word: &str) -> anyhow::Result<ExitCode> {
    refuse_what_files_need(arguments)?;
    let store = store::open_existing(&store::named_or_of_runs(
        arguments.run.store.as_deref(),
        arguments.config.as_deref(),
    )?)
    .await?;
    let selected = select(&*store, word, None).await?;
    let checkpoint = store.load(selected.info.key).await?;
    let compacted = compact_checkpoint(arguments, &checkpoint).await?;
    let mut report = serde_json::to_value(&compacted.report)?;
    if let Some(over) = compacted.report.still_over.clone() {
        tell(arguments, &report, &in_a_line(&report))?;
        return Err(anyhow::Error::new(over).context(format!("{word} cannot be made to fit")));
    }
    if let Some(path) = arguments.output.as_ref().filter(|_| !arguments.dry_run) {
        let view = compacted.snapshot.conversation.view();
        let messages: Vec<_> = view.messages().iter().map(ContextMessage::message).cloned().collect();
        write_file(path, &write_messages(&messages))?;
    } else if !arguments.dry_run {
        let save = async |writer: &forge_app::Writer<'_>| {
            save_compaction(&*store, &selected, &compacted, writer).await
        };
        if let Some(saved) = by_writer(false, save).await? {
            report["saved"] = json!(saved);
            output::say(&format!(
                "saved as {} {}; to undo it: forge checkpoints undo {}",
                saved.key, saved.id, saved.run
            ));
        }
    }
    tell(arguments, &report, &in_a_line(&report))?;
    Ok(ExitCode::SUCCESS)
}

/// Rejects flags that only apply to a file.
fn refuse_what_files_need(arguments: &CompactArguments) -> Result<(), Misconfigured> {
    let said = [
        ("--apply", arguments.apply.is_some()),
        ("--proposal", arguments.proposal.is_some()),
        ("--to", arguments.to.is_some()),
        ("--from", arguments.from.0.is_some()),
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
    let mut configured = read_configuration(arguments, CompactRun::block_of(checkpoint))?;
    if configured.compact.model.is_some() && configured.summarizers.is_none() {
        let source = Source { config: arguments.config.clone(), model: None, provider: None };
        configured.summarizers = Some(setup::configuration(&source, Need::Everything)?.workflow);
    }
    let providers = configured.summarizers.as_ref().map_or_else(Providers::new, setup::providers);
    let playback = Arc::new(Playback::new(Vec::new(), Arc::new(O200kCounter)));
    let workflow = configured.summarizers.unwrap_or_default();
    let services = setup::services_around(workflow, providers, playback, None);
    let asked = CompactRun { compact: Some(configured.compact), limit: arguments.max_tokens };
    let compacted = compact_run(checkpoint, asked, &ContextCompactor::new(), &services).await;
    compacted.map_err(|error| match error {
        CompactRunError::Compact(cause) => Misconfigured(cause.to_string()).into(),
        error => error.into(),
    })
}
