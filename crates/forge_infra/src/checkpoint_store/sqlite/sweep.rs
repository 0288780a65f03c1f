//! Statements that delete and prune checkpoints, and rebuild indexes.

use std::collections::BTreeSet;

use forge_domain::{CheckpointFilter, CheckpointKey, Deletion, Pruned, Retention, RunId, StoreError};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};

use super::error::StoreFileName;
use super::{actions, read, words};
use crate::checkpoint_store::record::{Press, number};

pub(super) fn delete(
    tx: &Transaction<'_>,
    place: &StoreFileName,
    what: &Deletion,
) -> Result<Pruned, StoreError> {
    match what {
        Deletion::Checkpoint(key) => {
            read::info(tx, place, *key)?;
            take_away(tx, place, &BTreeSet::from([*key]))
        }
        Deletion::Run(run) => {
            let freed = tx.execute("UPDATE run SET holder = NULL WHERE name = ?1", [run.as_str()]);
            if place.on(freed)? == 0 {
                return Err(place.no_such(format!("run `{run}`")));
            }
            let mut pruned = take_away(tx, place, &keys_of(tx, place, run)?)?;
            pruned.runs += forget_empty_runs(tx, place, Some(run))?;
            Ok(pruned)
        }
    }
}

pub(super) fn prune(
    tx: &Transaction<'_>,
    place: &StoreFileName,
    retention: &Retention,
    now: Timestamp,
) -> Result<Pruned, StoreError> {
    let held = held_runs(tx, place)?;
    let overdue = retention.overdue(&read::list(tx, place, &CheckpointFilter::default())?, &held, now);
    let mut pruned = take_away(tx, place, &overdue)?;
    pruned.runs += forget_empty_runs(tx, place, None)?;
    loop {
        let all = read::list(tx, place, &CheckpointFilter::default())?;
        let bytes = read::bytes(tx, place)?;
        let Some(run) = retention.oldest_over_size(&all, &held, bytes) else { return Ok(pruned) };
        let more = take_away(tx, place, &keys_of(tx, place, &run)?)?;
        pruned.take(more);
    }
}

fn held_runs(tx: &Transaction<'_>, place: &StoreFileName) -> Result<BTreeSet<RunId>, StoreError> {
    let mut statement = place.on(tx.prepare("SELECT name FROM run WHERE holder IS NOT NULL"))?;
    let names = place.on(statement.query_map([], |row| row.get::<_, String>(0)))?;
    let names = place.on(names.collect::<Result<Vec<_>, _>>())?;
    Ok(names.into_iter().filter_map(|name| RunId::new(name).ok()).collect())
}

fn keys_of(
    tx: &Transaction<'_>,
    place: &StoreFileName,
    run: &RunId,
) -> Result<BTreeSet<CheckpointKey>, StoreError> {
    let infos = read::list(tx, place, &CheckpointFilter::of_run(run))?;
    Ok(infos.into_iter().map(|info| info.key).collect())
}

/// Deletes the runs that have neither a holder nor a checkpoint, or that one alone, and returns their number.
fn forget_empty_runs(
    tx: &Transaction<'_>,
    place: &StoreFileName,
    only: Option<&RunId>,
) -> Result<usize, StoreError> {
    let empty = "DELETE FROM run WHERE holder IS NULL AND (?1 IS NULL OR name = ?1)
        AND NOT EXISTS (SELECT 1 FROM checkpoint WHERE checkpoint.run = run.id)";
    let n = place.on(tx.execute(empty, [only.map(RunId::as_str)]))?;
    // An id may be given again.
    actions::forget_of_the_gone(tx, place)?;
    Ok(n)
}

/// Deletes checkpoints, then the lines and contents that nothing needs any more, then the runs that have no
/// checkpoint left.
fn take_away(
    tx: &Transaction<'_>,
    place: &StoreFileName,
    keys: &BTreeSet<CheckpointKey>,
) -> Result<Pruned, StoreError> {
    let mut pruned = Pruned::default();
    let (mut branches, mut configurations, mut runs) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for key in keys {
        let delete = "DELETE FROM checkpoint WHERE key = ?1 RETURNING parent, branch, configuration, run";
        let mut delete = place.on(tx.prepare_cached(delete))?;
        let gone = delete.query_row([number(*key)], |row| {
            let (branch, configuration, run): (i64, i64, i64) = (row.get(1)?, row.get(2)?, row.get(3)?);
            Ok((row.get::<_, Option<i64>>(0)?, branch, configuration, run))
        });
        let Some((parent, branch, configuration, run)) = place.on(gone.optional())? else { continue };
        runs.insert(run);
        let mut adopt = place.on(tx.prepare_cached("UPDATE checkpoint SET parent = ?2 WHERE parent = ?1"))?;
        place.on(adopt.execute(params![number(*key), parent]))?;
        pruned.checkpoints.insert(*key);
        if !is_needed_still(tx, place, branch, configuration)? {
            branches.insert(branch);
            configurations.insert(configuration);
        }
    }
    // A branch's parent is older than it: from the newest on, what a branch frees is seen when its parent's
    // turn comes.
    while let Some(branch) = branches.pop_last() {
        let (lines, parent) = shorten(tx, place, branch)?;
        pruned.lines += lines;
        branches.extend(parent);
    }
    for configuration in configurations {
        let delete = "DELETE FROM content WHERE id = ?1
            AND NOT EXISTS (SELECT 1 FROM checkpoint WHERE configuration = ?1)";
        place.on(tx.execute(delete, [configuration]))?;
    }
    // Only the runs that lost a checkpoint: a run takes one away at every iteration, however many others
    // there are.
    let empty = "DELETE FROM run WHERE id = ?1 AND holder IS NULL
        AND NOT EXISTS (SELECT 1 FROM checkpoint WHERE checkpoint.run = run.id)";
    let mut empty = place.on(tx.prepare_cached(empty))?;
    for run in runs {
        let n = place.on(empty.execute([run]))?;
        if n > 0 {
            place.on(tx.execute("DELETE FROM action WHERE run = ?1", [run]))?;
        }
        pruned.runs += n;
    }
    Ok(pruned)
}

/// Checks whether the latest checkpoint of `branch` needs everything that the branch's deleted one needed. It
/// takes the same time for any number of checkpoints: a run deletes one at every iteration.
fn is_needed_still(
    tx: &Transaction<'_>,
    place: &StoreFileName,
    branch: i64,
    configuration: i64,
) -> Result<bool, StoreError> {
    let latest = "SELECT checkpoint.length >= branch.length AND checkpoint.configuration = ?2
        FROM checkpoint JOIN branch ON branch.id = checkpoint.branch
        WHERE checkpoint.branch = ?1 ORDER BY checkpoint.key DESC LIMIT 1";
    let mut latest = place.on(tx.prepare_cached(latest))?;
    let needed = latest.query_row([branch, configuration], |row| row.get(0));
    Ok(place.on(needed.optional())?.unwrap_or(false))
}

/// Cuts a branch down to what checkpoints and other branches need of it. Returns the number of deleted lines
/// and, if the whole branch was deleted, the branch from which it had forked.
fn shorten(
    tx: &Transaction<'_>,
    place: &StoreFileName,
    branch: i64,
) -> Result<(usize, Option<i64>), StoreError> {
    let needed = "SELECT max(n) FROM (SELECT max(length) AS n FROM checkpoint WHERE branch = ?1
        UNION ALL SELECT max(forked_at) FROM branch WHERE parent = ?1)";
    let needed: Option<i64> = place.on(tx.query_row(needed, [branch], |row| row.get(0)))?;
    let cut = "DELETE FROM line WHERE branch = ?1 AND position >= ?2 RETURNING content";
    let mut cut = place.on(tx.prepare_cached(cut))?;
    let gone = place.on(cut.query_map([branch, needed.unwrap_or(0)], |row| row.get::<_, Option<i64>>(0)))?;
    let gone: Vec<Option<i64>> = place.on(gone.collect())?;
    for content in gone.iter().flatten().collect::<BTreeSet<_>>() {
        let delete =
            "DELETE FROM content WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM line WHERE content = ?1)";
        let mut delete = place.on(tx.prepare_cached(delete))?;
        if place.on(delete.execute([content]))? > 0 {
            words::forget(tx, place, *content)?;
        }
    }
    let parent = match needed {
        Some(needed) => {
            let shorten = "UPDATE branch SET length = min(length, ?2) WHERE id = ?1";
            place.on(tx.execute(shorten, [branch, needed]))?;
            None
        }
        None => {
            let delete = "DELETE FROM branch WHERE id = ?1 RETURNING parent";
            let parent = tx.query_row(delete, [branch], |row| row.get::<_, Option<i64>>(0));
            place.on(parent.optional())?.flatten()
        }
    };
    Ok((gone.len(), parent))
}

/// Rebuilds every index from its source.
pub(super) fn rebuild_indexes(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &StoreFileName,
) -> Result<(), StoreError> {
    place.on(tx.execute_batch("REINDEX"))?;
    words::index_all(tx, press, place)
}
