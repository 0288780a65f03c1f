//! The log of a run's actions, in rows of their own.

use forge_domain::{Action, ActionEnd, ActionKey, CheckpointKey, Claim, NewAction, RunId, StoreError};
use rusqlite::{OptionalExtension, Transaction, params};

use super::claims;
use super::error::StoreFileName;
use crate::checkpoint_store::record::{action, nanoseconds, number};

pub(super) fn begin(
    tx: &Transaction<'_>,
    place: &StoreFileName,
    claim: &Claim,
    action: &NewAction,
) -> Result<ActionKey, StoreError> {
    let run = claims::confirm(tx, place, claim)?;
    let begun = serde_json::to_string(action).map_err(|error| place.unwritable(error))?;
    let insert = "INSERT INTO action (run, at, begun) VALUES (?1, ?2, ?3)";
    let mut insert = place.on(tx.prepare_cached(insert))?;
    let key = place.on(insert.insert(params![run, nanoseconds(action.at).unwrap_or_default(), begun]))?;
    Ok(ActionKey::new(key as u64))
}

pub(super) fn end(
    tx: &Transaction<'_>,
    place: &StoreFileName,
    key: ActionKey,
    end: &ActionEnd,
) -> Result<(), StoreError> {
    let ended = serde_json::to_string(end).map_err(|error| place.unwritable(error))?;
    let mut update = place.on(tx.prepare_cached("UPDATE action SET ended = ?2 WHERE id = ?1"))?;
    place.on(update.execute(params![key.as_u64() as i64, ended]))?;
    Ok(())
}

pub(super) fn list(
    tx: &Transaction<'_>,
    place: &StoreFileName,
    run: &RunId,
) -> Result<Vec<Action>, StoreError> {
    let id = tx.query_row("SELECT id FROM run WHERE name = ?1", [run.as_str()], |row| row.get::<_, i64>(0));
    let id = place.on(id.optional())?.ok_or_else(|| place.no_such(format!("run `{run}`")))?;
    let select = "SELECT id, begun, ended FROM action WHERE run = ?1 ORDER BY id";
    let mut select = place.on(tx.prepare_cached(select))?;
    let rows = select.query_map([id], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, Option<String>>(2)?))
    });
    let rows: Vec<_> = place.on(place.on(rows)?.collect::<Result<_, _>>())?;
    let read = |(id, begun, ended): (i64, String, Option<String>)| {
        action(&begun, ended.as_deref()).map_err(|error| place.corrupt(format!("action {id}: {error}")))
    };
    rows.into_iter().map(read).collect()
}

/// Gives `run` the actions up to its `parent`, where that is a checkpoint of another run.
pub(super) fn inherit(
    tx: &Transaction<'_>,
    place: &StoreFileName,
    run: i64,
    parent: CheckpointKey,
) -> Result<(), StoreError> {
    let copy = "INSERT OR IGNORE INTO action (run, origin, at, begun, ended)
        SELECT ?1, coalesce(a.origin, a.id), a.at, a.begun, a.ended
        FROM checkpoint c JOIN action a ON a.run = c.run AND a.at <= c.created_at
        WHERE c.key = ?2 AND c.run <> ?1 ORDER BY a.id";
    let mut copy = place.on(tx.prepare_cached(copy))?;
    place.on(copy.execute(params![run, number(parent)]))?;
    Ok(())
}

/// Forgets the actions of runs that are gone.
pub(super) fn forget_of_the_gone(tx: &Transaction<'_>, place: &StoreFileName) -> Result<(), StoreError> {
    place.on(tx.execute("DELETE FROM action WHERE run NOT IN (SELECT id FROM run)", []))?;
    Ok(())
}
