//! Statements that read, list, search and check checkpoints.

use std::collections::HashMap;

use forge_domain::{
    AgentId, Checkpoint, CheckpointFilter, CheckpointId, CheckpointInfo, CheckpointKey, CheckpointOutline,
    CheckpointReason, FencingToken, Found, Holding, Message, MessageId, RunId, RunInfo, SearchQuery,
    StoreError, StoreHealth, Tokens,
};
use rusqlite::{OptionalExtension, Transaction, params};

use super::error::StoreFileName;
use super::line::line;
use super::schema::SCHEMA;
use super::words;
use crate::checkpoint_store::inspection::{Branch, Inspection, State};
use crate::checkpoint_store::record::{OUTLINED_AT_ONCE, Press, Row, lease_end, number, timestamp};

/// The end of a checkpoint's log.
pub(super) struct Head {
    pub(super) run: i64,
    pub(super) agent: String,
    pub(super) branch: i64,
    pub(super) length: i64,
    /// The current number of lines of the branch.
    pub(super) branch_length: i64,
}

pub(super) fn head(
    tx: &Transaction<'_>,
    place: &StoreFileName,
    key: CheckpointKey,
) -> Result<Option<Head>, StoreError> {
    let select = "SELECT c.run, c.agent, c.branch, c.length, b.length
        FROM checkpoint c JOIN branch b ON b.id = c.branch WHERE c.key = ?1";
    let mut statement = place.on(tx.prepare_cached(select))?;
    let head = statement.query_row([number(key)], |row| {
        Ok(Head {
            run: row.get(0)?,
            agent: row.get(1)?,
            branch: row.get(2)?,
            length: row.get(3)?,
            branch_length: row.get(4)?,
        })
    });
    place.on(head.optional())
}

/// Returns the last line of the log that `head` ends.
pub(super) fn row(
    tx: &Transaction<'_>,
    place: &StoreFileName,
    head: &Head,
) -> Result<Option<Row>, StoreError> {
    let Some(last) = head.length.checked_sub(1).filter(|last| *last >= 0) else { return Ok(None) };
    for (branch, from, to) in stretches(tx, place, head)? {
        if (from..to).contains(&last) {
            return Ok(rows(tx, place, branch, last, to)?.pop());
        }
    }
    Ok(None)
}

/// Returns the pieces of the log that `head` ends, oldest first: branch, first position, and the one after
/// the last.
fn stretches(
    tx: &Transaction<'_>,
    place: &StoreFileName,
    head: &Head,
) -> Result<Vec<(i64, i64, i64)>, StoreError> {
    let mut pieces = Vec::new();
    let mut at = Some((head.branch, head.length));
    let mut statement = place.on(tx.prepare_cached("SELECT parent, forked_at FROM branch WHERE id = ?1"))?;
    while let Some((branch, to)) = at {
        let found = statement.query_row([branch], |row| Ok((row.get::<_, Option<i64>>(0)?, row.get(1)?)));
        let (parent, from): (_, i64) = place
            .on(found.optional())?
            .ok_or_else(|| place.corrupt(format!("branch {branch} is missing")))?;
        // A parent is older than what forks from it, so that the way up has an end.
        if parent.is_some_and(|parent| parent >= branch) {
            return Err(place.corrupt(format!("branch {branch} forks from a later one")));
        }
        pieces.push((branch, from.min(to), to));
        at = parent.map(|parent| (parent, from.min(to)));
    }
    pieces.reverse();
    Ok(pieces)
}

fn rows(
    tx: &Transaction<'_>,
    place: &StoreFileName,
    branch: i64,
    from: i64,
    to: i64,
) -> Result<Vec<Row>, StoreError> {
    let select = "SELECT l.kind, l.number, l.tokens, l.made_at, c.hash, c.body, l.note, l.position
        FROM line l LEFT JOIN content c ON c.id = l.content
        WHERE l.branch = ?1 AND l.position >= ?2 AND l.position < ?3 ORDER BY l.position";
    let mut statement = place.on(tx.prepare_cached(select))?;
    let rows = statement.query_map([branch, from, to], line);
    place.on(place.on(rows)?.collect())
}

pub(super) fn load(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &StoreFileName,
    key: CheckpointKey,
) -> Result<Checkpoint, StoreError> {
    let info = info(tx, place, key)?;
    let no_branch = || place.corrupt(format!("the branch of checkpoint {key} is missing"));
    let head = head(tx, place, key)?.ok_or_else(no_branch)?;
    // The length is what the file says: it allocates nothing.
    let mut log = Vec::new();
    for (branch, from, to) in stretches(tx, place, &head)? {
        log.extend(rows(tx, place, branch, from, to)?);
    }
    if log.len() as i64 != head.length {
        let what = format!("checkpoint {key} has {} of {} lines", log.len(), head.length);
        return Err(place.corrupt(what));
    }
    let in_checkpoint = |what: String| place.corrupt(format!("checkpoint {key}: {what}"));
    let (configuration, state) = columns(tx, place, key)?;
    let snapshot = press.snapshot(info.agent.clone(), log, &configuration, &state).map_err(in_checkpoint)?;
    Ok(Checkpoint { info, snapshot })
}

/// Returns the outline of a checkpoint: of its log, only the lines up to the user's first message are read.
pub(super) fn outline(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &StoreFileName,
    key: CheckpointKey,
) -> Result<CheckpointOutline, StoreError> {
    let in_checkpoint = |what: String| place.corrupt(format!("checkpoint {key}: {what}"));
    let head = head(tx, place, key)?.ok_or_else(|| place.no_such(format!("checkpoint {key}")))?;
    let task = task(tx, press, place, (key, &head))?;
    let (configuration, state) = columns(tx, place, key)?;
    press.outline(task, &configuration, &state).map_err(in_checkpoint)
}

/// Returns the user's first message in a log, of which only the lines up to there are read.
fn task(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &StoreFileName,
    (key, head): (CheckpointKey, &Head),
) -> Result<Option<Message>, StoreError> {
    let in_checkpoint = |what: String| place.corrupt(format!("checkpoint {key}: {what}"));
    for (branch, from, to) in stretches(tx, place, head)? {
        for at in (from..to).step_by(OUTLINED_AT_ONCE) {
            let end = to.min(at + OUTLINED_AT_ONCE as i64);
            for row in rows(tx, place, branch, at, end)? {
                let task = press.task(row).map_err(in_checkpoint)?;
                if task.is_some() {
                    return Ok(task);
                }
            }
        }
    }
    Ok(None)
}

/// Returns the configuration and the state of a checkpoint, as they are stored.
fn columns(
    tx: &Transaction<'_>,
    place: &StoreFileName,
    key: CheckpointKey,
) -> Result<(Vec<u8>, Vec<u8>), StoreError> {
    let select = "SELECT o.body, c.state FROM checkpoint c LEFT JOIN content o ON o.id = c.configuration
        WHERE c.key = ?1";
    let mut statement = place.on(tx.prepare_cached(select))?;
    let rest = statement.query_row([number(key)], |row| Ok((row.get(0)?, row.get(1)?)));
    let (configuration, state): (Option<Vec<u8>>, Vec<u8>) = place.on(rest)?;
    let missing = || place.corrupt(format!("checkpoint {key}: its configuration is missing"));
    Ok((configuration.ok_or_else(missing)?, state))
}

/// The columns of a checkpoint that [`info_of`] reads.
const INFO: &str =
    "SELECT c.key, r.name, c.agent, c.created_at, c.step, c.reason, c.parent, c.iteration, c.length,
        c.messages, c.tokens
    FROM checkpoint c JOIN run r ON r.id = c.run";

/// Returns the description of one checkpoint.
///
/// It is asked for at every iteration, before a replaced checkpoint is deleted. SQLite would plan a statement
/// with ranges again for each key, in a tenth of the time that the store takes.
pub(super) fn info(
    tx: &Transaction<'_>,
    place: &StoreFileName,
    key: CheckpointKey,
) -> Result<CheckpointInfo, StoreError> {
    let mut statement = place.on(tx.prepare_cached(&format!("{INFO} WHERE c.key = ?1")))?;
    let found = place.on(statement.query_row([number(key)], info_of).optional())?;
    match found {
        Some(info) => info.map_err(|key| unnamed(place, key)),
        None => Err(place.no_such(format!("checkpoint {key}"))),
    }
}

/// Reads a row of [`INFO`]. Returns the key alone if its run, agent or reason is invalid.
fn info_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Result<CheckpointInfo, CheckpointKey>> {
    let (run, agent, reason): (String, String, String) = (row.get(1)?, row.get(2)?, row.get(5)?);
    let named = RunId::new(run).ok().zip(AgentId::new(agent).ok()).zip(CheckpointReason::named(&reason));
    let step: String = row.get(4)?;
    let key = CheckpointKey::new(row.get::<_, i64>(0)? as u64);
    let created_at = timestamp(row.get(3)?);
    let parent = row.get::<_, Option<i64>>(6)?.map(|key| CheckpointKey::new(key as u64));
    let count = |at| row.get::<_, i64>(at).map(|n| n as usize);
    let (iteration, n_entries, message_count) = (count(7)?, count(8)?, count(9)?);
    let estimated_tokens = Tokens::new(row.get::<_, i64>(10)? as u64);
    let info = named.map(|((run, agent), reason)| CheckpointInfo {
        key,
        id: CheckpointId::of(&agent, &step),
        run,
        agent,
        created_at,
        step,
        reason,
        parent,
        iteration,
        n_entries,
        message_count,
        estimated_tokens,
    });
    Ok(info.ok_or(key))
}

fn unnamed(place: &StoreFileName, key: CheckpointKey) -> StoreError {
    place.corrupt(format!("checkpoint {key} has no run, agent or reason"))
}

pub(super) fn list(
    tx: &Transaction<'_>,
    place: &StoreFileName,
    filter: &CheckpointFilter,
) -> Result<Vec<CheckpointInfo>, StoreError> {
    // A run's own checkpoints are found by their index, however many others there are.
    let run = match filter.run {
        Some(_) => "c.run = (SELECT id FROM run WHERE name = ?1)",
        None => "?1 IS NULL",
    };
    let select = format!(
        "{INFO}
        WHERE {run} AND (?2 IS NULL OR c.agent = ?2)
            AND (?3 IS NULL OR c.agent || '-' || c.step = ?3) AND (?4 IS NULL OR c.reason = ?4)
            AND c.key BETWEEN ?5 AND ?6
        ORDER BY c.key DESC LIMIT ?7"
    );
    let mut statement = place.on(tx.prepare_cached(&select))?;
    let key = filter.key.map(number);
    let newest = filter.before.map_or(i64::MAX, |before| number(before).saturating_sub(1));
    let values = params![
        filter.run.as_ref().map(RunId::as_str),
        filter.agent.as_ref().map(AgentId::as_str),
        filter.id.as_ref().map(CheckpointId::as_str),
        filter.reason.map(CheckpointReason::as_str),
        key.unwrap_or(0),
        key.unwrap_or(i64::MAX).min(newest),
        filter.limit.map_or(-1, |limit| limit as i64),
    ];
    let rows = place.on(statement.query_map(values, info_of))?;
    let mut infos = Vec::new();
    for row in rows {
        infos.push(place.on(row)?.map_err(|key| unnamed(place, key))?);
    }
    Ok(infos)
}

/// Returns every run, by name.
pub(super) fn runs(tx: &Transaction<'_>, place: &StoreFileName) -> Result<Vec<RunInfo>, StoreError> {
    let select = "SELECT name, holder, held_since, token, held_until FROM run ORDER BY name";
    let mut statement = place.on(tx.prepare_cached(select))?;
    let rows = place.on(statement.query_map([], |row| {
        let (name, by): (String, Option<String>) = (row.get(0)?, row.get(1)?);
        let (since, token) = (timestamp(row.get(2)?), FencingToken::new(row.get::<_, i64>(3)? as u64));
        let lease = lease_end(row.get(4)?);
        let holder = by.map(|by| Holding { by, since, token, lease });
        Ok(RunId::new(name).map(|run| RunInfo { run, holder }))
    }))?;
    rows.map(|row| place.on(row)?.map_err(|error| place.corrupt(format!("a run is nameless: {error}"))))
        .collect()
}

pub(super) fn search(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &StoreFileName,
    run: &RunId,
    query: &SearchQuery,
) -> Result<Vec<Found>, StoreError> {
    let mut found = Vec::new();
    let waiting = words::waiting_with(tx, press, place, query)?;
    for info in latest_of_run(tx, place, run)? {
        if query.agent.as_ref().is_some_and(|only| *only != info.agent) {
            continue;
        }
        let Some(head) = head(tx, place, info.key)? else { continue };
        for (branch, from, to) in stretches(tx, place, &head)?.into_iter().rev() {
            let rows =
                words::rows_with(tx, place, query, &waiting, (branch, from, to), query.limit - found.len())?;
            for row in rows {
                let message = MessageId::new(row.number as u64);
                let text = press.text(&row).map_err(|what| place.corrupt(what))?;
                let excerpt = query.excerpt(&text);
                found.push(Found { agent: info.agent.clone(), message, excerpt });
            }
        }
    }
    Ok(found)
}

/// Returns the latest checkpoint of each agent of the run, the newest first.
fn latest_of_run(
    tx: &Transaction<'_>,
    place: &StoreFileName,
    run: &RunId,
) -> Result<Vec<CheckpointInfo>, StoreError> {
    let known = tx.query_row("SELECT 1 FROM run WHERE name = ?1", [run.as_str()], |_| Ok(()));
    if place.on(known.optional())?.is_none() {
        return Err(place.no_such(format!("run `{run}`")));
    }
    let mut latest: Vec<CheckpointInfo> = Vec::new();
    for info in list(tx, place, &CheckpointFilter::of_run(run))? {
        if latest.iter().all(|newer| newer.agent != info.agent) {
            latest.push(info);
        }
    }
    Ok(latest)
}

pub(super) fn check(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &StoreFileName,
) -> Result<StoreHealth, StoreError> {
    let mut faults = Vec::new();
    let mut pragma = place.on(tx.prepare("PRAGMA integrity_check"))?;
    let said = place.on(pragma.query_map([], |row| row.get::<_, String>(0)))?;
    faults.extend(place.on(said.collect::<Result<Vec<_>, _>>())?.into_iter().filter(|said| said != "ok"));
    faults.extend(words::faults(tx, place)?);
    let infos = list(tx, place, &CheckpointFilter::default())?;
    let checkpoints = infos.len();
    let mut inspection = inspection(tx, press, place, infos)?;
    while let Some(stretch @ (branch, from, to)) = inspection.next() {
        inspection.take(press, stretch, rows(tx, place, branch, from, to)?);
    }
    faults.extend(inspection.faults());
    Ok(StoreHealth { schema: SCHEMA, checkpoints, bytes: bytes(tx, place)?, faults })
}

/// Creates a check of the logs of all checkpoints, after checking what is outside the logs.
fn inspection(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &StoreFileName,
    infos: Vec<CheckpointInfo>,
) -> Result<Inspection, StoreError> {
    let select = "SELECT c.key, c.branch, c.configuration, o.id IS NOT NULL, c.state
        FROM checkpoint c LEFT JOIN content o ON o.id = c.configuration";
    let mut statement = place.on(tx.prepare_cached(select))?;
    let states = place.on(statement.query_map([], |row| {
        let configuration = (row.get(2)?, row.get(3)?);
        Ok(State { key: row.get(0)?, branch: row.get(1)?, configuration, state: row.get(4)? })
    }))?;
    let states: Vec<State> = place.on(states.collect())?;
    let mut statement = place.on(tx.prepare_cached("SELECT id, parent, forked_at FROM branch"))?;
    let branches = place.on(statement
        .query_map([], |row| Ok(Branch { id: row.get(0)?, parent: row.get(1)?, forked_at: row.get(2)? })))?;
    let branches: Vec<Branch> = place.on(branches.collect())?;
    let select = "SELECT id, body FROM content WHERE id IN (SELECT configuration FROM checkpoint)";
    let mut statement = place.on(tx.prepare_cached(select))?;
    let mut rows = place.on(statement.query([]))?;
    let mut configurations = HashMap::new();
    while let Some(row) = place.on(rows.next())? {
        let (id, body): (i64, Vec<u8>) = (place.on(row.get(0))?, place.on(row.get(1))?);
        configurations.extend(press.check_configuration(&body).err().map(|fault| (id, fault)));
    }
    Ok(Inspection::new(press, infos, &states, &branches, &configurations))
}

/// Returns the bytes in use, without the free pages that will be reused.
pub(super) fn bytes(tx: &Transaction<'_>, place: &StoreFileName) -> Result<u64, StoreError> {
    let pragma = |name| place.on(tx.pragma_query_value(None, name, |row| row.get::<_, i64>(0)));
    let used = pragma("page_count")? - pragma("freelist_count")?;
    Ok((used * pragma("page_size")?) as u64)
}
