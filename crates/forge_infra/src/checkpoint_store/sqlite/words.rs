//! The index of words: which contents hold which.
//!
//! A content that was just written waits until a save finds [`BATCH`] of them: indexed one at a time, each
//! would be a segment of its own, which later ones merge, and the index took a third of a save. A search
//! reads those that wait.

use forge_domain::{SearchQuery, StoreError, quantity};
use rusqlite::{Transaction, params};

use super::error::StoreFileName;
use super::line::line;
use crate::checkpoint_store::record::{Press, Row, StoredContent};

/// The most contents that wait to be indexed after a save. Configurations, which have no words, count.
const BATCH: i64 = 64;

/// The last content that is indexed: those after it wait.
const LAST_INDEXED: &str = "(SELECT coalesce(max(id), 0) FROM word_docsize)";

/// Indexes the contents that wait if there are many.
pub(super) fn index_waiting(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &StoreFileName,
) -> Result<(), StoreError> {
    let count = format!("SELECT coalesce(max(id), 0) - {LAST_INDEXED} FROM content");
    let mut count = place.on(tx.prepare_cached(&count))?;
    let n: i64 = place.on(count.query_row([], |row| row.get(0)))?;
    if n < BATCH {
        return Ok(());
    }
    for_each_waiting(tx, press, place, |id, json| index(tx, place, id, json))
}

/// Calls `work` with the number and the JSON of each content that waits. One that is damaged has no words;
/// loading it says so.
fn for_each_waiting(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &StoreFileName,
    mut work: impl FnMut(i64, &[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let select = format!("SELECT id, body FROM content WHERE id > {LAST_INDEXED} ORDER BY id");
    let mut select = place.on(tx.prepare_cached(&select))?;
    let mut rows = place.on(select.query([]))?;
    while let Some(row) = place.on(rows.next())? {
        let (id, body): (i64, Vec<u8>) = (place.on(row.get(0))?, place.on(row.get(1))?);
        if let Ok(json) = press.unpack(&body) {
            work(id, &json)?;
        }
    }
    Ok(())
}

/// Adds a content.
fn index(tx: &Transaction<'_>, place: &StoreFileName, id: i64, json: &[u8]) -> Result<(), StoreError> {
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
    // Now all wait.
    for_each_waiting(tx, press, place, |id, json| index(tx, place, id, json))
}

/// Returns the contents that wait and hold every word of `query`.
pub(super) fn waiting_with(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &StoreFileName,
    query: &SearchQuery,
) -> Result<Vec<i64>, StoreError> {
    let mut found = Vec::new();
    for_each_waiting(tx, press, place, |id, json| {
        let words = StoredContent::words(json).unwrap_or_default();
        if query.words().iter().all(|word| words.contains(word)) {
            found.push(id);
        }
        Ok(())
    })?;
    Ok(found)
}

/// Returns the newest `limit` messages that hold every word of `query`, within a stretch of a log: branch,
/// first position, and the one after the last. `waiting` are the contents of [`waiting_with`].
pub(super) fn rows_with(
    tx: &Transaction<'_>,
    place: &StoreFileName,
    query: &SearchQuery,
    waiting: &[i64],
    (branch, from, to): (i64, i64, i64),
    limit: usize,
) -> Result<Vec<Row>, StoreError> {
    let select = "SELECT l.kind, l.number, l.tokens, l.made_at, c.hash, c.body, l.note, l.position
        FROM line l JOIN content c ON c.id = l.content
        WHERE l.branch = ?1 AND l.position >= ?2 AND l.position < ?3
            AND (l.content IN (SELECT rowid FROM word WHERE word MATCH ?4)
                OR l.content IN (SELECT value FROM json_each(?6)))
        ORDER BY l.position DESC LIMIT ?5";
    let words: Vec<String> = query.words().iter().map(|word| format!("\"{word}\"")).collect();
    let mut statement = place.on(tx.prepare_cached(select))?;
    let waiting = serde_json::json!(waiting).to_string();
    let values = params![branch, from, to, words.join(" AND "), limit as i64, waiting];
    let rows = place.on(statement.query_map(values, line))?;
    place.on(rows.collect())
}

/// Returns the faults of the index: messages that it lacks, and entries of deleted contents.
pub(super) fn faults(tx: &Transaction<'_>, place: &StoreFileName) -> Result<Vec<String>, StoreError> {
    let count = |sql: &str| place.on(tx.query_row(sql, [], |row| row.get::<_, i64>(0)));
    let missing = count(&format!(
        "SELECT count(DISTINCT content) FROM line WHERE content IS NOT NULL
            AND content NOT IN (SELECT id FROM word_docsize)
            AND (content < {LAST_INDEXED} OR {BATCH} <= (SELECT max(id) FROM content) - {LAST_INDEXED})"
    ))?;
    let stray = count("SELECT count(*) FROM word_docsize WHERE id NOT IN (SELECT id FROM content)")?;
    let mut faults = Vec::new();
    if missing > 0 {
        let missing = quantity(missing as usize, "message");
        faults.push(format!("the index of words lacks {missing}; rebuild the indexes"));
    }
    if stray > 0 {
        let stray = quantity(stray as usize, "deleted message");
        faults.push(format!("the index of words has {stray}; rebuild the indexes"));
    }
    Ok(faults)
}
