//! The log of a run's actions, in rows of their own.

use forge_domain::{Action, ActionEnd, ActionKey, CheckpointKey, Claim, NewAction, RunId, StoreError};
use tokio_postgres::Transaction;

use super::claims;
use super::error::ServerName;
use crate::checkpoint_store::record::{action, nanoseconds, number};

fn json(value: &impl serde::Serialize, place: &ServerName) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| place.unavailable(error))
}

pub(super) async fn begin(
    tx: &Transaction<'_>,
    place: &ServerName,
    claim: &Claim,
    action: &NewAction,
) -> Result<ActionKey, StoreError> {
    let select = format!("SELECT {} FROM forge_run WHERE name = $1 FOR SHARE", claims::CLAIM_COLUMNS);
    let row = place.on(tx.query_opt(&select, &[&claim.run.as_str()]).await)?;
    let run = claims::check(row.as_ref(), place, claim)?;
    let insert = "INSERT INTO forge_action (run, at, begun) VALUES ($1, $2, $3) RETURNING id";
    let (at, begun) = (nanoseconds(action.at).unwrap_or_default(), json(action, place)?);
    let row = place.on(tx.query_one(insert, &[&run, &at, &begun]).await)?;
    Ok(ActionKey::new(row.get::<_, i64>(0) as u64))
}

pub(super) async fn end(
    tx: &Transaction<'_>,
    place: &ServerName,
    key: ActionKey,
    end: &ActionEnd,
) -> Result<(), StoreError> {
    let update = "UPDATE forge_action SET ended = $2 WHERE id = $1";
    place.on(tx.execute(update, &[&(key.as_u64() as i64), &json(end, place)?]).await)?;
    Ok(())
}

pub(super) async fn list(
    tx: &Transaction<'_>,
    place: &ServerName,
    run: &RunId,
) -> Result<Vec<Action>, StoreError> {
    let id = tx.query_opt("SELECT id FROM forge_run WHERE name = $1", &[&run.as_str()]).await;
    let id: i64 = place.on(id)?.ok_or_else(|| place.no_such(format!("run `{run}`")))?.get(0);
    let select = "SELECT id, begun, ended FROM forge_action WHERE run = $1 ORDER BY id";
    let rows = place.on(tx.query(select, &[&id]).await)?;
    let read = |row: &tokio_postgres::Row| {
        let (id, begun, ended): (i64, String, Option<String>) = (row.get(0), row.get(1), row.get(2));
        action(&begun, ended.as_deref()).map_err(|error| place.corrupt(format!("action {id}: {error}")))
    };
    rows.iter().map(read).collect()
}

/// Gives `run` the actions up to its `parent`, where that is a checkpoint of another run.
pub(super) async fn inherit(
    tx: &Transaction<'_>,
    place: &ServerName,
    run: i64,
    parent: CheckpointKey,
) -> Result<(), StoreError> {
    let copy = "INSERT INTO forge_action (run, origin, at, begun, ended)
        SELECT $1, coalesce(a.origin, a.id), a.at, a.begun, a.ended
        FROM forge_checkpoint c JOIN forge_action a ON a.run = c.run AND a.at <= c.created_at
        WHERE c.key = $2 AND c.run <> $1 ORDER BY a.id
        ON CONFLICT (run, origin) WHERE origin IS NOT NULL DO NOTHING";
    place.on(tx.execute(copy, &[&run, &number(parent)]).await)?;
    Ok(())
}

/// Forgets the actions of runs that are gone.
pub(super) async fn forget_of_the_gone(tx: &Transaction<'_>, place: &ServerName) -> Result<(), StoreError> {
    let forget = "DELETE FROM forge_action
        WHERE NOT EXISTS (SELECT 1 FROM forge_run WHERE forge_run.id = forge_action.run)";
    place.on(tx.execute(forget, &[]).await)?;
    Ok(())
}
