//! The end of a run: its release, and its report.

use anyhow::Context as _;
use forge_app::{CheckpointTally, Orchestrator};
use forge_infra::FilePlace;
use serde_json::Value;

use super::checkpoints;
use super::interruption::insistence;
use super::view::Break;
use crate::failure::{self, Misconfigured};
use crate::output;

/// Releases the run at its end; a second interruption does not wait for the store.
pub(crate) async fn release(orchestrator: &mut Orchestrator, was_interrupted: bool) {
    tokio::select! {
        () = checkpoints::hand_back(orchestrator, was_interrupted) => {}
        () = insistence() => {}
    }
}

/// Writes a report on an interrupted run to the requested file, so that no report of an earlier run is
/// mistaken for this one's.
pub(crate) fn write_break(place: Option<&FilePlace>, why: &Break<'_>, checkpoints: Option<&CheckpointTally>) {
    if let Err(error) = write_report(place, &why.to_json(checkpoints)) {
        failure::say(&error);
    }
}

/// Writes a report on a run to the requested file. If that fails, as on a disk that is full by then, the
/// report is printed: after hours, there is no other.
pub(crate) fn write_report(place: Option<&FilePlace>, report: &Value) -> anyhow::Result<()> {
    let Some(place) = place else { return Ok(()) };
    let text = serde_json::to_string_pretty(report)?;
    let written = place.write(text.as_bytes());
    if written.is_err() {
        output::say("the report, which could not be written to its file:");
        output::say_to_copy(&text);
    }
    written.with_context(|| format!("no report was written to {}", place.path().display()))
}

/// Checks that a report can replace what is at `place`: to open a pipe that no one reads would wait forever,
/// and a report that cannot be written at the end of a long run is lost.
pub(super) fn check_report(place: &FilePlace) -> Result<(), Misconfigured> {
    let path = place.path();
    let what = match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => "a folder",
        Ok(found) if !found.is_file() => "a pipe or a device",
        Err(_) if path.is_symlink() => "a link to what does not exist",
        _ => {
            let unwritable =
                |error: std::io::Error| format!("--report: cannot write to {}: {error}", path.display());
            return place.probe().map_err(|error| Misconfigured(unwritable(error)));
        }
    };
    Err(Misconfigured(format!("--report: {} is {what} (expected a file)", path.display())))
}
