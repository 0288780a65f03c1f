//! Statements that claim runs, release them, and confirm claims.

use forge_domain::{CheckpointFilter, Claim, FencingToken, RunId, StoreError, Takeover};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};

use super::error::StoreFileName;
use super::read;
use crate::checkpoint_store::record::{nanoseconds, timestamp};

/// A run as stored in its row.
struct Run {
    id: i64,
    token: i64,
    holder: Option<String>,
    held_since: i64,
}

fn find_run(tx: &Transaction<'_>, place: &StoreFileName, run: &RunId) -> Result<Option<Run>, StoreError> {
    let select = "SELECT id, token, holder, held_since FROM run WHERE name = ?1";
    let mut statement = place.on(tx.prepare_cached(select))?;
    let row = statement.query_row([run.as_str()], |row| {
        Ok(Run { id: row.get(0)?, token: row.get(1)?, holder: row.get(2)?, held_since: row.get(3)? })
    });
    place.on(row.optional())
}

pub(super) fn claim(
    tx: &Transaction<'_>,
    place: &StoreFileName,
    run: &RunId,
    holder: &str,
    takeover: Takeover,
    now: Timestamp,
) -> Result<Claim, StoreError> {
    if let Some(Run { token, holder: Some(by), held_since, .. }) = find_run(tx, place, run)? {
        let token = FencingToken::new(token as u64);
        if !takeover.ends(token) {
            let (run, since) = (run.clone(), timestamp(held_since));
            return Err(StoreError::Held { run, by, since, token });
        }
    }
    if let Some(latest) = takeover.latest() {
        let filter = CheckpointFilter { limit: Some(1), ..CheckpointFilter::of_run(run) };
        if read::list(tx, place, &filter)?.first().is_none_or(|newest| newest.key != latest) {
            return Err(StoreError::Moved { run: run.clone() });
        }
    }
    let next = "UPDATE fence SET token = token + 1 RETURNING token";
    let token: i64 = place.on(tx.query_row(next, [], |row| row.get(0)))?;
    let hold = "INSERT INTO run (name, token, holder, held_since) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (name) DO UPDATE SET token = ?2, holder = ?3, held_since = ?4";
    let now = nanoseconds(now).unwrap_or_default();
    place.on(tx.execute(hold, params![run.as_str(), token, holder, now]))?;
    Ok(Claim { run: run.clone(), token: FencingToken::new(token as u64) })
}

pub(super) fn release(tx: &Transaction<'_>, place: &StoreFileName, claim: &Claim) -> Result<(), StoreError> {
    let free = "UPDATE run SET holder = NULL WHERE name = ?1 AND token = ?2";
    place.on(tx.execute(free, params![claim.run.as_str(), claim.token.as_u64() as i64]))?;
    Ok(())
}

/// Returns the id of the run, if the claim still permits writing it.
pub(super) fn confirm(tx: &Transaction<'_>, place: &StoreFileName, claim: &Claim) -> Result<i64, StoreError> {
    let run = find_run(tx, place, &claim.run)?;
    let run = run.ok_or_else(|| place.no_such(format!("run `{}`", claim.run)))?;
    if run.token != claim.token.as_u64() as i64 || run.holder.is_none() {
        let by = run.holder.unwrap_or_else(|| "a process that has ended".into());
        return Err(StoreError::Fenced { run: claim.run.clone(), by });
    }
    Ok(run.id)
}
