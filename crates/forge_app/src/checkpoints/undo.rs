//! The undoing of compactions.

use forge_domain::{CheckpointInfo, CheckpointReason, CheckpointStore, EntryId, NewCheckpoint, Size};
use serde::Serialize;

use super::{CheckpointsError, Selected, Writer};

/// The result of undoing compactions.
#[derive(Clone, Debug, Serialize)]
pub struct Undone {
    /// The checkpoint that was made.
    pub saved: CheckpointInfo,
    /// The compactions, in the order in which they were undone.
    pub undone: Vec<EntryId>,
    /// The view before.
    pub before: Size,
    /// The view after.
    pub after: Size,
}

/// Undoes the latest `layers` compactions in force, as a new checkpoint of the same run. What one had
/// absorbed is in force again.
///
/// # Errors
/// [`CheckpointsError::NothingToUndo`] if no compaction is in force; [`CheckpointsError::Store`].
pub async fn undo(
    store: &dyn CheckpointStore,
    of: &Selected,
    layers: usize,
    writer: &Writer<'_>,
) -> Result<Undone, CheckpointsError> {
    let loaded = store.load(of.info.key).await?;
    let mut snapshot = loaded.snapshot;
    let before = snapshot.conversation.view().size();
    let undone: Vec<EntryId> = (0..layers).map_while(|_| snapshot.conversation.undo()).collect();
    let Some(last) = undone.last() else {
        return Err(CheckpointsError::NothingToUndo {
            place: format!("checkpoint {} {}", of.info.key, of.info.id),
        });
    };
    let after = snapshot.conversation.view().size();
    let new = NewCheckpoint {
        step: format!("undo-{last}"),
        reason: CheckpointReason::Asked,
        created_at: writer.now,
        parent: Some(of.info.key),
        snapshot,
    };
    let save = async |claim| store.save(&claim, &new).await;
    let saved = writer.write_at(store, &of.info.run, of.expected_latest(), save).await?;
    Ok(Undone { saved, undone, before, after })
}
