//! Statements that read, list, search and check checkpoints.

use std::collections::HashMap;

use forge_domain::{
    AgentId, Checkpoint, CheckpointFilter, CheckpointId, CheckpointInfo, CheckpointKey, CheckpointOutline,
    CheckpointReason, FencingToken, Found, Holding, LeaseEnd, Message, MessageId, RunId, RunInfo,
    SearchQuery, StoreError, StoreHealth, Tokens,
};
use jiff::Timestamp;
use tokio_postgres::Transaction;

use super::error::ServerName;
use super::schema::SCHEMA;
use crate::checkpoint_store::inspection::{Branch, Inspection, State, Stretch};
use crate::checkpoint_store::record::{OUTLINED_AT_ONCE, Press, Row, number, timestamp};

/// The end of a checkpoint's log.
pub(super) struct Head {
    pub(super) run: i64,
    pub(super) agent: String,
    pub(super) branch: i64,
    pub(super) length: i64,
    /// The current number of lines of the branch.
    pub(super) branch_length: i64,
}

pub(super) async fn head(
    tx: &Transaction<'_>,
    place: &ServerName,
    key: CheckpointKey,
) -> Result<Option<Head>, StoreError> {
    let select = "SELECT c.run, c.agent, c.branch, c.length, b.length
        FROM forge_checkpoint c JOIN forge_branch b ON b.id = c.branch WHERE c.key = $1";
    let row = place.on(tx.query_opt(select, &[&number(key)]).await)?;
    Ok(row.map(|row| Head {
        run: row.get(0),
        agent: row.get(1),
        branch: row.get(2),
        length: row.get(3),
        branch_length: row.get(4),
    }))
}

/// Returns the last line of the log that `head` ends.
pub(super) async fn last_row(
    tx: &Transaction<'_>,
    place: &ServerName,
    head: &Head,
) -> Result<Option<Row>, StoreError> {
    let Some(last) = head.length.checked_sub(1).filter(|last| *last >= 0) else { return Ok(None) };
    for (branch, from, to) in stretches(tx, place, head).await? {
        if (from..to).contains(&last) {
            return Ok(rows(tx, place, (branch, last, to)).await?.pop());
        }
    }
    Ok(None)
}

/// Returns the pieces of the log that `head` ends, oldest first.
async fn stretches(
    tx: &Transaction<'_>,
    place: &ServerName,
    head: &Head,
) -> Result<Vec<Stretch>, StoreError> {
    let mut pieces = Vec::new();
    let mut at = Some((head.branch, head.length));
    while let Some((branch, to)) = at {
        let select = "SELECT parent, forked_at FROM forge_branch WHERE id = $1";
        let row = place.on(tx.query_opt(select, &[&branch]).await)?;
        let row = row.ok_or_else(|| place.corrupt(format!("branch {branch} is missing")))?;
        let (parent, from): (Option<i64>, i64) = (row.get(0), row.get(1));
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

async fn rows(
    tx: &Transaction<'_>,
    place: &ServerName,
    (branch, from, to): Stretch,
) -> Result<Vec<Row>, StoreError> {
    let select = "SELECT l.kind, l.number, l.tokens, l.made_at, c.hash, c.body, l.note, l.position
        FROM forge_line l LEFT JOIN forge_content c ON c.id = l.content
        WHERE l.branch = $1 AND l.position >= $2 AND l.position < $3 ORDER BY l.position";
    let rows = place.on(tx.query(select, &[&branch, &from, &to]).await)?;
    Ok(rows.iter().map(line).collect())
}

/// Reads a line from its columns: kind, number, tokens, time, the content's hash and body, note.
fn line(row: &tokio_postgres::Row) -> Row {
    Row {
        kind: row.get(0),
        number: row.get(1),
        tokens: row.get(2),
        made_at: row.get(3),
        hash: row.get(4),
        body: row.get(5),
        note: row.get(6),
        position: row.get(7),
    }
}

pub(super) async fn load(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &ServerName,
    key: CheckpointKey,
) -> Result<Checkpoint, StoreError> {
    let info = info(tx, place, key).await?;
    let no_branch = || place.corrupt(format!("the branch of checkpoint {key} is missing"));
    let head = head(tx, place, key).await?.ok_or_else(no_branch)?;
    // The length is what the database says: it allocates nothing.
    let mut log = Vec::new();
    for stretch in stretches(tx, place, &head).await? {
        log.extend(rows(tx, place, stretch).await?);
    }
    if log.len() as i64 != head.length {
        let what = format!("checkpoint {key} has {} of {} lines", log.len(), head.length);
        return Err(place.corrupt(what));
    }
    let in_checkpoint = |what: String| place.corrupt(format!("checkpoint {key}: {what}"));
    let (configuration, state) = columns(tx, place, key).await?;
    let snapshot = press.snapshot(info.agent.clone(), log, &configuration, &state).map_err(in_checkpoint)?;
    Ok(Checkpoint { info, snapshot })
}

/// Returns the outline of a checkpoint: of its log, only the lines up to the user's first message are read.
pub(super) async fn outline(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &ServerName,
    key: CheckpointKey,
) -> Result<CheckpointOutline, StoreError> {
    let in_checkpoint = |what: String| place.corrupt(format!("checkpoint {key}: {what}"));
    let head = head(tx, place, key).await?.ok_or_else(|| place.no_such(format!("checkpoint {key}")))?;
    let task = task(tx, press, place, (key, &head)).await?;
    let (configuration, state) = columns(tx, place, key).await?;
    press.outline(task, &configuration, &state).map_err(in_checkpoint)
}

/// Returns the user's first message in a log, of which only the lines up to there are read.
async fn task(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &ServerName,
    (key, head): (CheckpointKey, &Head),
) -> Result<Option<Message>, StoreError> {
    let in_checkpoint = |what: String| place.corrupt(format!("checkpoint {key}: {what}"));
    for (branch, from, to) in stretches(tx, place, head).await? {
        for at in (from..to).step_by(OUTLINED_AT_ONCE) {
            let end = to.min(at + OUTLINED_AT_ONCE as i64);
            for row in rows(tx, place, (branch, at, end)).await? {
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
async fn columns(
    tx: &Transaction<'_>,
    place: &ServerName,
    key: CheckpointKey,
) -> Result<(Vec<u8>, Vec<u8>), StoreError> {
    let select = "SELECT o.body, c.state FROM forge_checkpoint c
        LEFT JOIN forge_content o ON o.id = c.configuration WHERE c.key = $1";
    let row = place.on(tx.query_one(select, &[&number(key)]).await)?;
    let (configuration, state): (Option<Vec<u8>>, Vec<u8>) = (row.get(0), row.get(1));
    let missing = || place.corrupt(format!("checkpoint {key}: its configuration is missing"));
    Ok((configuration.ok_or_else(missing)?, state))
}

/// Returns the description of one checkpoint.
pub(super) async fn info(
    tx: &Transaction<'_>,
    place: &ServerName,
    key: CheckpointKey,
) -> Result<CheckpointInfo, StoreError> {
    let filter = CheckpointFilter { key: Some(key), ..CheckpointFilter::default() };
    let found = list(tx, place, &filter).await?.pop();
    found.ok_or_else(|| place.no_such(format!("checkpoint {key}")))
}

pub(super) async fn list(
    tx: &Transaction<'_>,
    place: &ServerName,
    filter: &CheckpointFilter,
) -> Result<Vec<CheckpointInfo>, StoreError> {
    let select =
        "SELECT c.key, r.name, c.agent, c.created_at, c.step, c.reason, c.parent, c.iteration, c.length,
            c.messages, c.tokens
        FROM forge_checkpoint c JOIN forge_run r ON r.id = c.run
        WHERE ($1::text IS NULL OR r.name = $1) AND ($2::text IS NULL OR c.agent = $2)
            AND ($3::text IS NULL OR c.agent || '-' || c.step = $3) AND ($4::text IS NULL OR c.reason = $4)
            AND c.key BETWEEN $5 AND $6
        ORDER BY c.key DESC LIMIT $7";
    let key = filter.key.map(number);
    let newest = filter.before.map_or(i64::MAX, |before| number(before).saturating_sub(1));
    let rows = place.on(tx
        .query(
            select,
            &[
                &filter.run.as_ref().map(RunId::as_str),
                &filter.agent.as_ref().map(AgentId::as_str),
                &filter.id.as_ref().map(CheckpointId::as_str),
                &filter.reason.map(CheckpointReason::as_str),
                &key.unwrap_or(0),
                &key.unwrap_or(i64::MAX).min(newest),
                &filter.limit.map(|limit| limit as i64),
            ],
        )
        .await)?;
    rows.iter().map(|row| describe(row, place)).collect()
}

fn describe(row: &tokio_postgres::Row, place: &ServerName) -> Result<CheckpointInfo, StoreError> {
    let key = CheckpointKey::new(row.get::<_, i64>(0) as u64);
    let (run, agent) = (RunId::new(row.get::<_, String>(1)), AgentId::new(row.get::<_, String>(2)));
    let reason = CheckpointReason::named(row.get::<_, &str>(5));
    let (Ok(run), Ok(agent), Some(reason)) = (run, agent, reason) else {
        return Err(place.corrupt(format!("checkpoint {key} has no run, agent or reason")));
    };
    let step: String = row.get(4);
    let count = |at: usize| row.get::<_, i64>(at) as usize;
    Ok(CheckpointInfo {
        key,
        id: CheckpointId::of(&agent, &step),
        run,
        agent,
        created_at: timestamp(row.get(3)),
        step,
        reason,
        parent: row.get::<_, Option<i64>>(6).map(|key| CheckpointKey::new(key as u64)),
        iteration: count(7),
        n_entries: count(8),
        message_count: count(9),
        estimated_tokens: Tokens::new(row.get::<_, i64>(10) as u64),
    })
}

/// Returns every run, by name.
pub(super) async fn runs(tx: &Transaction<'_>, place: &ServerName) -> Result<Vec<RunInfo>, StoreError> {
    let select = "SELECT name, holder, held_since, token, (extract(epoch FROM held_until) * 1000000)::bigint,
            held_until <= clock_timestamp()
        FROM forge_run ORDER BY name COLLATE \"C\"";
    let rows = place.on(tx.query(select, &[]).await)?;
    let info = |row: &tokio_postgres::Row| {
        let (by, token): (Option<String>, i64) = (row.get(1), row.get(3));
        let (since, token) = (timestamp(row.get(2)), FencingToken::new(token as u64));
        let run = RunId::new(row.get::<_, String>(0));
        let run = run.map_err(|error| place.corrupt(format!("a run is nameless: {error}")))?;
        let lease = row.get::<_, Option<i64>>(4).map(|until| LeaseEnd {
            at: Timestamp::from_microsecond(until).unwrap_or_default(),
            has_passed: row.get(5),
        });
        Ok(RunInfo { run, holder: by.map(|by| Holding { by, since, token, lease }) })
    };
    rows.iter().map(info).collect()
}

pub(super) async fn search(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &ServerName,
    run: &RunId,
    query: &SearchQuery,
) -> Result<Vec<Found>, StoreError> {
    let known = "SELECT 1 FROM forge_run WHERE name = $1";
    if place.on(tx.query_opt(known, &[&run.as_str()]).await)?.is_none() {
        return Err(place.no_such(format!("run `{run}`")));
    }
    let select = "SELECT l.kind, l.number, l.tokens, l.made_at, c.hash, c.body, l.note, l.position
        FROM forge_line l JOIN forge_content c ON c.id = l.content
        WHERE l.branch = $1 AND l.position >= $2 AND l.position < $3 AND c.words @@ ($4::text)::tsquery
        ORDER BY l.position DESC LIMIT $5";
    let words: Vec<String> = query.words().iter().map(|word| format!("'{word}'")).collect();
    let words = words.join(" & ");
    let mut found: Vec<Found> = Vec::new();
    let mut seen: Vec<AgentId> = Vec::new();
    for info in list(tx, place, &CheckpointFilter::of_run(run)).await? {
        // The latest checkpoint of each agent comes first.
        if seen.contains(&info.agent) {
            continue;
        }
        seen.push(info.agent.clone());
        if query.agent.as_ref().is_some_and(|only| *only != info.agent) {
            continue;
        }
        let Some(head) = head(tx, place, info.key).await? else { continue };
        for (branch, from, to) in stretches(tx, place, &head).await?.into_iter().rev() {
            let limit = (query.limit - found.len()) as i64;
            let rows = place.on(tx.query(select, &[&branch, &from, &to, &words, &limit]).await)?;
            for row in rows.iter().map(line) {
                let message = MessageId::new(row.number as u64);
                let text = press.text(&row).map_err(|what| place.corrupt(what))?;
                found.push(Found { agent: info.agent.clone(), message, excerpt: query.excerpt(&text) });
            }
        }
    }
    Ok(found)
}

pub(super) async fn check(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &ServerName,
) -> Result<StoreHealth, StoreError> {
    let mut faults = Vec::new();
    let infos = list(tx, place, &CheckpointFilter::default()).await?;
    let checkpoints = infos.len();
    let mut inspection = inspection(tx, press, place, infos).await?;
    while let Some(stretch) = inspection.next() {
        inspection.take(press, stretch, rows(tx, place, stretch).await?);
    }
    faults.extend(inspection.faults());
    let missing = "SELECT count(DISTINCT c.id) FROM forge_content c JOIN forge_line l ON l.content = c.id
        WHERE c.words IS NULL";
    let missing: i64 = place.on(tx.query_one(missing, &[]).await)?.get(0);
    if missing > 0 {
        faults.push(format!("the index of words lacks {missing} messages; rebuild the indexes"));
    }
    let bytes = bytes(tx, place).await?;
    Ok(StoreHealth { schema: SCHEMA, checkpoints, bytes, faults })
}

/// Creates a check of the logs of all checkpoints, after checking what is outside the logs.
async fn inspection(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &ServerName,
    infos: Vec<CheckpointInfo>,
) -> Result<Inspection, StoreError> {
    let select = "SELECT c.key, c.branch, c.configuration, o.id IS NOT NULL, c.state
        FROM forge_checkpoint c LEFT JOIN forge_content o ON o.id = c.configuration";
    let rows = place.on(tx.query(select, &[]).await)?;
    let state = |row: &tokio_postgres::Row| State {
        key: row.get(0),
        branch: row.get(1),
        configuration: (row.get(2), row.get(3)),
        state: row.get(4),
    };
    let states: Vec<State> = rows.iter().map(state).collect();
    let rows = place.on(tx.query("SELECT id, parent, forked_at FROM forge_branch", &[]).await)?;
    let branch =
        |row: &tokio_postgres::Row| Branch { id: row.get(0), parent: row.get(1), forked_at: row.get(2) };
    let branches: Vec<Branch> = rows.iter().map(branch).collect();
    let select =
        "SELECT id, body FROM forge_content WHERE id IN (SELECT configuration FROM forge_checkpoint)";
    let mut configurations = HashMap::new();
    for row in place.on(tx.query(select, &[]).await)? {
        let (id, body): (i64, Vec<u8>) = (row.get(0), row.get(1));
        configurations.extend(press.check_configuration(&body).err().map(|fault| (id, fault)));
    }
    Ok(Inspection::new(press, infos, &states, &branches, &configurations))
}

/// Returns the stored bytes, without the free space that the tables will reuse.
pub(super) async fn bytes(tx: &Transaction<'_>, place: &ServerName) -> Result<u64, StoreError> {
    let sum = "SELECT (SELECT coalesce(sum(octet_length(body) + pg_column_size(words)), 0) FROM forge_content)::bigint
        + (SELECT coalesce(sum(pg_column_size(l.*)), 0) FROM forge_line l)::bigint
        + (SELECT coalesce(sum(pg_column_size(c.*)), 0) FROM forge_checkpoint c)::bigint";
    Ok(place.on(tx.query_one(sum, &[]).await)?.get::<_, i64>(0) as u64)
}
