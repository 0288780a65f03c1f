//! `forge checkpoints export`: writes a run to one file.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use forge_app::{Selected, export_run, seal_run};
use forge_domain::{CheckpointStore, ContextMessage, Conversation};
use forge_infra::write_whole;
use forge_transcript::{write_messages, write_openai};

use super::OpenStore;
use super::selection::CheckpointName;
use crate::failure::Misconfigured;
use crate::output;
use crate::redaction::{redact_bytes, redaction_text};

/// Write a run to one file that `import` reads into any store
#[derive(Debug, Args)]
pub(super) struct ExportArguments {
    #[command(flatten)]
    what: CheckpointName,
    /// The file, written whole or not at all, or `-` for stdout [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The format: Forge's own with all checkpoints, or the messages of one checkpoint for other programs
    #[arg(long, value_enum, default_value_t = ExportForm::Forge)]
    to: ExportForm,
    /// With `--to openai`: only what the model would see, not the whole log
    #[arg(long)]
    view: bool,
    /// Replace secrets of known shapes, and report them
    #[arg(long)]
    redact: bool,
}

/// The format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ExportForm {
    /// Every checkpoint; `import` reads it
    Forge,
    /// `{"messages": [...]}`, as `forge replay` and many other programs read it
    #[value(name = "openai")]
    OpenAi,
}

impl ExportArguments {
    /// Writes the run.
    pub(super) async fn run(self, OpenStore { store, .. }: &OpenStore) -> anyhow::Result<()> {
        let what = self.what.select(&**store).await?;
        let mut bytes = export_selected(&**store, &what, self.to, self.view).await?;
        if self.redact {
            let (clean, redacted) = redact_bytes(bytes.into());
            bytes = match self.to {
                ExportForm::Forge => seal_run(&clean),
                ExportForm::OpenAi => clean.into_owned(),
            };
            output::say(&redaction_text(&redacted));
        }
        write(self.output.as_deref(), &bytes)
    }
}

async fn export_selected(
    store: &dyn CheckpointStore,
    what: &Selected,
    to: ExportForm,
    only_view: bool,
) -> anyhow::Result<Vec<u8>> {
    match to {
        ExportForm::Forge if only_view => {
            Err(Misconfigured("--view is for --to openai: a run is exported whole".to_owned()).into())
        }
        ExportForm::Forge => Ok(export_run(store, &what.info.run).await?),
        ExportForm::OpenAi => {
            let conversation = store.load(what.info.key).await?.snapshot.conversation;
            if !only_view {
                return Ok(write_openai(&conversation));
            }
            Ok(view_bytes(&conversation))
        }
    }
}

/// Returns what the model would see of a conversation, as a file of messages.
pub(in crate::commands) fn view_bytes(conversation: &Conversation) -> Vec<u8> {
    let view = conversation.view();
    let messages: Vec<_> = view.messages().iter().map(ContextMessage::message).cloned().collect();
    write_messages(&messages)
}

fn write(output: Option<&Path>, bytes: &[u8]) -> anyhow::Result<()> {
    match output.filter(|output| !output::is_stdout(output)) {
        Some(path) => {
            write_whole(path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
            output::say(&format!("{} bytes written to {}", bytes.len(), path.display()));
            Ok(())
        }
        None => output::print_bytes(bytes),
    }
}
