//! A line of a log as its row.

use crate::checkpoint_store::record::Row;

/// Reads a line from its columns: kind, number, tokens, time, the content's hash and body, note.
pub(super) fn line(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    Ok(Row {
        kind: row.get(0)?,
        number: row.get(1)?,
        tokens: row.get(2)?,
        made_at: row.get(3)?,
        hash: row.get(4)?,
        body: row.get(5)?,
        note: row.get(6)?,
        position: row.get(7)?,
    })
}
