//! Statements that claim runs, renew leases and confirm claims. Leases are measured by the server's clock.

use forge_domain::{CheckpointFilter, Claim, FencingToken, Lease, RunId, StoreError, Takeover};
use jiff::Timestamp;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row, Transaction};

use super::error::ServerName;
use super::read;
use crate::checkpoint_store::record::{nanoseconds, timestamp};

/// The columns by which [`check`] knows whether a claim is valid: the id, the token, the holder, and the end
/// of its lease if that has passed.
pub(super) const CLAIM_COLUMNS: &str = "id, token, holder,
    CASE WHEN held_until <= clock_timestamp() THEN (extract(epoch FROM held_until) * 1000000)::bigint END";

pub(super) async fn claim(
    tx: &Transaction<'_>,
    place: &ServerName,
    run: &RunId,
    holder: &str,
    takeover: Takeover,
    lease: Option<Lease>,
    now: Timestamp,
) -> Result<Claim, StoreError> {
    // The row is there and locked before it is looked at: of two that claim at once, one waits for the other.
    let begin = "INSERT INTO forge_run (name, token, holder, held_since) VALUES ($1, 0, NULL, 0)
        ON CONFLICT (name) DO NOTHING";
    place.on(tx.execute(begin, &[&run.as_str()]).await)?;
    let select =
        "SELECT token, CASE WHEN held_until <= clock_timestamp() THEN NULL ELSE holder END, held_since
        FROM forge_run WHERE name = $1 FOR UPDATE";
    let row = place.on(tx.query_opt(select, &[&run.as_str()]).await)?;
    let row = row.ok_or_else(|| place.no_such(format!("run `{run}`, which was deleted just now")))?;
    let (token, held, since): (i64, Option<String>, i64) = (row.get(0), row.get(1), row.get(2));
    if let Some(by) = held {
        let token = FencingToken::new(token as u64);
        if !takeover.ends(token) {
            return Err(StoreError::Held { run: run.clone(), by, since: timestamp(since), token });
        }
    }
    // A save holds the row until it is committed, so that the latest checkpoint cannot change under us.
    if let Some(latest) = takeover.latest() {
        let filter = CheckpointFilter { limit: Some(1), ..CheckpointFilter::of_run(run) };
        if read::list(tx, place, &filter).await?.first().is_none_or(|newest| newest.key != latest) {
            return Err(StoreError::Moved { run: run.clone() });
        }
    }
    let hold = "UPDATE forge_run SET token = nextval('forge_fence'), holder = $2, held_since = $3,
            held_until = clock_timestamp() + $4 * interval '1 millisecond'
        WHERE name = $1 RETURNING token";
    let (now, lease) = (nanoseconds(now).unwrap_or_default(), lease.map(millis));
    let row = place.on(tx.query_one(hold, &[&run.as_str(), &holder, &now, &lease]).await)?;
    Ok(Claim { run: run.clone(), token: FencingToken::new(row.get::<_, i64>(0) as u64) })
}

/// Returns the time of a lease as the statements take it.
fn millis(lease: Lease) -> f64 {
    lease.time().as_secs_f64() * 1_000.0
}

pub(super) async fn renew(
    tx: &Transaction<'_>,
    place: &ServerName,
    claim: &Claim,
    lease: Lease,
) -> Result<(), StoreError> {
    let select = format!("SELECT {CLAIM_COLUMNS} FROM forge_run WHERE name = $1 FOR UPDATE");
    let row = place.on(tx.query_opt(&select, &[&claim.run.as_str()]).await)?;
    let run = match check(row.as_ref(), place, claim) {
        Err(StoreError::Lapsed { .. }) | Ok(_) => row.map_or(0, |row| row.get::<_, i64>(0)),
        Err(error) => return Err(error),
    };
    let renew = "UPDATE forge_run SET held_until = clock_timestamp() + $2 * interval '1 millisecond'
        WHERE id = $1";
    place.on(tx.execute(renew, &[&run, &millis(lease)]).await)?;
    Ok(())
}

/// Returns the row by which [`check`] knows whether the claim is still valid.
pub(super) async fn confirm(client: &Client, claim: &Claim) -> Result<Option<Row>, tokio_postgres::Error> {
    let select = format!("SELECT {CLAIM_COLUMNS} FROM forge_run WHERE name = $1");
    let rows = client.query_typed(&select, &[(&claim.run.as_str(), Type::TEXT)]).await?;
    Ok(rows.into_iter().next())
}

/// Returns the id of the run in `row`, if the claim still permits writing it.
pub(super) fn check(row: Option<&Row>, place: &ServerName, claim: &Claim) -> Result<i64, StoreError> {
    let row = row.ok_or_else(|| place.no_such(format!("run `{}`", claim.run)))?;
    let (run, token, holder): (i64, i64, Option<String>) = (row.get(0), row.get(1), row.get(2));
    if token != claim.token.as_u64() as i64 || holder.is_none() {
        let by = holder.unwrap_or_else(|| "a process that has ended".into());
        return Err(StoreError::Fenced { run: claim.run.clone(), by });
    }
    match row.get::<_, Option<i64>>(3) {
        None => Ok(run),
        Some(lapsed) => {
            let at = Timestamp::from_microsecond(lapsed).unwrap_or_default();
            Err(StoreError::Lapsed { run: claim.run.clone(), at })
        }
    }
}
