//! A checkpoint as a row of a table.

use forge_domain::CheckpointInfo;

use crate::output::table::Side;
use crate::output::{visible, with_separators};

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
        with_separators(info.estimated_tokens),
    ]
}
