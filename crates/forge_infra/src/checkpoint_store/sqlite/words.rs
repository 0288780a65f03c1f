//! The index of words: which contents hold which.

use forge_domain::{SearchQuery, StoreError};
use rusqlite::{Transaction, params};

use super::error::StoreFileName;
use super::line::line;
use crate::checkpoint_store::record::{Press, Row, StoredContent};

/// Adds a content that was just written.
pub(super) fn index(
    tx: &Transaction<'_>,
    place: &StoreFileName,
    id: i64,
    json: &[u8],
) -> Result<(), StoreError> {
    let Some(words) = StoredContent::words(json) else { return Ok(()) };
    let mut insert = place.on(tx.prepare_cached("INSERT INTO word (rowid, words) VALUES (?1, ?2)"))?;
    place.on(insert.execute(params![id, words.join(" ")]))?;
    Ok(())
}

/// Removes a deleted content.
pub(super) fn forget(tx: &Transaction<'_>, place: &StoreFileName, id: i64) -> Result<(), StoreError> {
    let mut delete = place.on(tx.prepare_cached("DELETE FROM word WHERE rowid = ?1"))?;
    place.on(delete.execute([id]))?;
    Ok(())
}

/// Rebuilds the index from the contents.
pub(super) fn index_all(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &StoreFileName,
) -> Result<(), StoreError> {
    place.on(tx.execute("INSERT INTO word (word) VALUES ('delete-all')", []))?;
    let mut contents = place.on(tx.prepare("SELECT id, body FROM content"))?;
    let mut rows = place.on(contents.query([]))?;
    while let Some(row) = place.on(rows.next())? {
        let (id, body): (i64, Vec<u8>) = (place.on(row.get(0))?, place.on(row.get(1))?);
        // A content that is damaged has no words; loading it says so.
        if let Ok(json) = press.unpack(&body) {
            index(tx, place, id, &json)?;
        }
    }
    Ok(())
}

/// Returns the newest `limit` messages that hold every word of `query`, within a stretch of a log: branch,
/// first position, and the one after the last.
pub(super) fn rows_with(
    tx: &Transaction<'_>,
    place: &StoreFileName,
    query: &SearchQuery,
    (branch, from, to): (i64, i64, i64),
    limit: usize,
) -> Result<Vec<Row>, StoreError> {
    let select = "SELECT l.kind, l.number, l.tokens, l.made_at, c.hash, c.body, l.note, l.position
        FROM line l JOIN content c ON c.id = l.content
        WHERE l.branch = ?1 AND l.position >= ?2 AND l.position < ?3
            AND l.content IN (SELECT rowid FROM word WHERE word MATCH ?4)
        ORDER BY l.position DESC LIMIT ?5";
    let words: Vec<String> = query.words().iter().map(|word| format!("\"{word}\"")).collect();
    let mut statement = place.on(tx.prepare_cached(select))?;
    let values = params![branch, from, to, words.join(" AND "), limit as i64];
    let rows = place.on(statement.query_map(values, line))?;
    place.on(rows.collect())
}

/// Returns the faults of the index: messages that it lacks, and entries of deleted contents.
pub(super) fn faults(tx: &Transaction<'_>, place: &StoreFileName) -> Result<Vec<String>, StoreError> {
    let count = |sql| place.on(tx.query_row(sql, [], |row| row.get::<_, i64>(0)));
    let missing = count(
        "SELECT count(DISTINCT content) FROM line WHERE content IS NOT NULL
            AND content NOT IN (SELECT id FROM word_docsize)",
    )?;
    let stray = count("SELECT count(*) FROM word_docsize WHERE id NOT IN (SELECT id FROM content)")?;
    let mut faults = Vec::new();
    if missing > 0 {
        faults.push(format!("the index of words lacks {missing} messages; rebuild the indexes"));
    }
    if stray > 0 {
        faults.push(format!("the index of words has {stray} messages that are gone; rebuild the indexes"));
    }
    Ok(faults)
}
