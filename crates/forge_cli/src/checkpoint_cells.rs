//! A checkpoint as a row of a table.

use forge_domain::CheckpointInfo;

use crate::output::visible;
use crate::replay_view::grouped;
use crate::table::Side;

/// The first columns of every table of checkpoints.
pub(crate) const CHECKPOINT_COLUMNS: [(&str, Side); 6] = [
    ("NUMBER", Side::Right),
    ("LABEL", Side::Left),
    ("REASON", Side::Left),
    ("CALLS", Side::Right),
    ("MESSAGES", Side::Right),
    ("TOKENS", Side::Right),
];

/// Returns the cells of a checkpoint in these columns.
pub(crate) fn checkpoint_cells(info: &CheckpointInfo) -> Vec<String> {
    vec![
        info.key.to_string(),
        visible(info.id.as_str()),
        info.reason.as_str().to_owned(),
        info.iteration.to_string(),
        info.message_count.to_string(),
        grouped(info.estimated_tokens),
    ]
}
