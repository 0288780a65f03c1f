//! Statements that delete and prune checkpoints, and rebuild indexes.

use std::collections::BTreeSet;

use forge_domain::{CheckpointFilter, CheckpointKey, Deletion, Pruned, Retention, RunId, StoreError};
use jiff::Timestamp;
use tokio_postgres::Transaction;

use super::error::ServerName;
use super::{actions, read, write};
use crate::checkpoint_store::record::{Press, StoredContent, number};

pub(super) async fn delete(
    tx: &Transaction<'_>,
    place: &ServerName,
    what: &Deletion,
) -> Result<Pruned, StoreError> {
    write::lock_shelves(tx, place).await?;
    match what {
        Deletion::Checkpoint(key) => {
            read::info(tx, place, *key).await?;
            take_away(tx, place, &BTreeSet::from([*key])).await
        }
        Deletion::Run(run) => {
            let free = "UPDATE forge_run SET holder = NULL WHERE name = $1";
            if place.on(tx.execute(free, &[&run.as_str()]).await)? == 0 {
                return Err(place.no_such(format!("run `{run}`")));
            }
            let keys = keys_of(tx, place, run).await?;
            let mut pruned = take_away(tx, place, &keys).await?;
            pruned.runs += forget_empty_runs(tx, place, Some(run)).await?;
            Ok(pruned)
        }
    }
}

pub(super) async fn prune(
    tx: &Transaction<'_>,
    place: &ServerName,
    retention: &Retention,
    now: Timestamp,
) -> Result<Pruned, StoreError> {
    write::lock_shelves(tx, place).await?;
    // Locked, so that no one claims a run while it is deleted.
    let held = "SELECT name, holder IS NOT NULL FROM forge_run FOR UPDATE";
    let runs = place.on(tx.query(held, &[]).await)?;
    let held =
        runs.iter().filter(|row| row.get(1)).filter_map(|row| RunId::new(row.get::<_, String>(0)).ok());
    let held: BTreeSet<RunId> = held.collect();
    let all = read::list(tx, place, &CheckpointFilter::default()).await?;
    let mut pruned = take_away(tx, place, &retention.overdue(&all, &held, now)).await?;
    pruned.runs += forget_empty_runs(tx, place, None).await?;
    loop {
        let all = read::list(tx, place, &CheckpointFilter::default()).await?;
        let bytes = read::bytes(tx, place).await?;
        let Some(run) = retention.oldest_over_size(&all, &held, bytes) else { return Ok(pruned) };
        let keys = keys_of(tx, place, &run).await?;
        let more = take_away(tx, place, &keys).await?;
        pruned.take(more);
    }
}

async fn keys_of(
    tx: &Transaction<'_>,
    place: &ServerName,
    run: &RunId,
) -> Result<BTreeSet<CheckpointKey>, StoreError> {
    let infos = read::list(tx, place, &CheckpointFilter::of_run(run)).await?;
    Ok(infos.into_iter().map(|info| info.key).collect())
}

/// Deletes the runs that have neither a holder nor a checkpoint, or that one alone, and returns their number.
async fn forget_empty_runs(
    tx: &Transaction<'_>,
    place: &ServerName,
    only: Option<&RunId>,
) -> Result<usize, StoreError> {
    let empty = "DELETE FROM forge_run WHERE holder IS NULL AND ($1::text IS NULL OR name = $1)
        AND NOT EXISTS (SELECT 1 FROM forge_checkpoint WHERE forge_checkpoint.run = forge_run.id)";
    let n = place.on(tx.execute(empty, &[&only.map(RunId::as_str)]).await)? as usize;
    actions::forget_of_the_gone(tx, place).await?;
    Ok(n)
}

/// Deletes checkpoints, then the lines and contents that nothing needs any more, then the runs that have no
/// checkpoint left.
async fn take_away(
    tx: &Transaction<'_>,
    place: &ServerName,
    keys: &BTreeSet<CheckpointKey>,
) -> Result<Pruned, StoreError> {
    let mut pruned = Pruned::default();
    let (mut branches, mut configurations, mut runs) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for key in keys {
        let delete =
            "DELETE FROM forge_checkpoint WHERE key = $1 RETURNING parent, branch, configuration, run";
        let Some(gone) = place.on(tx.query_opt(delete, &[&number(*key)]).await)? else { continue };
        let adopt = "UPDATE forge_checkpoint SET parent = $2 WHERE parent = $1";
        place.on(tx.execute(adopt, &[&number(*key), &gone.get::<_, Option<i64>>(0)]).await)?;
        let (branch, configuration) = (gone.get::<_, i64>(1), gone.get::<_, i64>(2));
        pruned.checkpoints.insert(*key);
        runs.insert(gone.get::<_, i64>(3));
        if !is_needed_still(tx, place, branch, configuration).await? {
            branches.insert(branch);
            configurations.insert(configuration);
        }
    }
    // A branch's parent is older than it: from the newest on, what a branch frees is seen when its parent's
    // turn comes.
    while let Some(branch) = branches.pop_last() {
        let (lines, parent) = shorten(tx, place, branch).await?;
        pruned.lines += lines;
        branches.extend(parent);
    }
    for configuration in configurations {
        let delete = "DELETE FROM forge_content WHERE id = $1
            AND NOT EXISTS (SELECT 1 FROM forge_checkpoint WHERE configuration = $1)";
        place.on(tx.execute(delete, &[&configuration]).await)?;
    }
    // Only the runs that lost a checkpoint: a run takes one away at every iteration, however many others
    // there are.
    let runs: Vec<i64> = runs.into_iter().collect();
    let empty = "DELETE FROM forge_run WHERE id = ANY($1) AND holder IS NULL
        AND NOT EXISTS (SELECT 1 FROM forge_checkpoint WHERE forge_checkpoint.run = forge_run.id)";
    pruned.runs = place.on(tx.execute(empty, &[&runs]).await)? as usize;
    if pruned.runs > 0 {
        actions::forget_of_the_gone(tx, place).await?;
    }
    Ok(pruned)
}

/// Checks whether the latest checkpoint of `branch` needs everything that the branch's deleted one needed.
async fn is_needed_still(
    tx: &Transaction<'_>,
    place: &ServerName,
    branch: i64,
    configuration: i64,
) -> Result<bool, StoreError> {
    let latest = "SELECT checkpoint.length >= branch.length AND checkpoint.configuration = $2
        FROM forge_checkpoint AS checkpoint JOIN forge_branch AS branch ON branch.id = checkpoint.branch
        WHERE checkpoint.branch = $1 ORDER BY checkpoint.key DESC LIMIT 1";
    let row = place.on(tx.query_opt(latest, &[&branch, &configuration]).await)?;
    Ok(row.is_some_and(|row| row.get(0)))
}

/// Cuts a branch down to what checkpoints and other branches need of it. Returns the number of deleted lines
/// and, if the whole branch was deleted, the branch from which it had forked.
async fn shorten(
    tx: &Transaction<'_>,
    place: &ServerName,
    branch: i64,
) -> Result<(usize, Option<i64>), StoreError> {
    let needed = "SELECT max(n) FROM (SELECT max(length) AS n FROM forge_checkpoint WHERE branch = $1
        UNION ALL SELECT max(forked_at) FROM forge_branch WHERE parent = $1) AS needs";
    let needed: Option<i64> = place.on(tx.query_one(needed, &[&branch]).await)?.get(0);
    let cut = "DELETE FROM forge_line WHERE branch = $1 AND position >= $2 RETURNING content";
    let gone = place.on(tx.query(cut, &[&branch, &needed.unwrap_or(0)]).await)?;
    let contents: BTreeSet<i64> = gone.iter().filter_map(|row| row.get::<_, Option<i64>>(0)).collect();
    let contents: Vec<i64> = contents.into_iter().collect();
    let delete = "DELETE FROM forge_content WHERE id = ANY($1)
        AND NOT EXISTS (SELECT 1 FROM forge_line WHERE content = forge_content.id)";
    place.on(tx.execute(delete, &[&contents]).await)?;
    let parent = match needed {
        Some(needed) => {
            let shorten = "UPDATE forge_branch SET length = least(length, $2) WHERE id = $1";
            place.on(tx.execute(shorten, &[&branch, &needed]).await)?;
            None
        }
        None => {
            let delete = "DELETE FROM forge_branch WHERE id = $1 RETURNING parent";
            let row = place.on(tx.query_opt(delete, &[&branch]).await)?;
            row.and_then(|row| row.get(0))
        }
    };
    Ok((gone.len(), parent))
}

/// Rebuilds every index from its source.
pub(super) async fn rebuild_indexes(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &ServerName,
) -> Result<(), StoreError> {
    write::lock_shelves(tx, place).await?;
    let contents = place.on(tx.query("SELECT id, body FROM forge_content", &[]).await)?;
    for row in contents {
        let (id, body): (i64, Vec<u8>) = (row.get(0), row.get(1));
        // A content that is damaged has no words; loading it says so.
        let words = press.unpack(&body).ok().and_then(|json| StoredContent::words(&json));
        let index = "UPDATE forge_content SET words = array_to_tsvector($2) WHERE id = $1";
        place.on(tx.execute(index, &[&id, &words]).await)?;
    }
    place.on(tx
        .batch_execute(
            "REINDEX TABLE forge_content; REINDEX TABLE forge_line; REINDEX TABLE forge_checkpoint",
        )
        .await)
}
