//! Statements that save checkpoints.

use forge_domain::{CheckpointInfo, CheckpointKey, Claim, NewCheckpoint, StoreError};
use rusqlite::{OptionalExtension, Transaction, params};

use super::error::StoreFileName;
use super::read::{self, Head};
use super::{actions, claims, words};
use crate::checkpoint_store::record::{Draft, Press, StoredContent, nanoseconds, number};

pub(super) fn save(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &StoreFileName,
    claim: &Claim,
    checkpoint: &NewCheckpoint,
) -> Result<CheckpointInfo, StoreError> {
    let run = claims::confirm(tx, place, claim)?;
    let parent = match checkpoint.parent {
        Some(key) => Some(known_parent(tx, press, place, checkpoint, key)?),
        None => None,
    };
    let n_known = parent.as_ref().map_or(0, |parent| parent.length);
    let draft = press.draft(checkpoint, n_known as usize).map_err(|error| place.unwritable(error))?;
    // Among those that grew from the same parent, of which there are few; `+` keeps the index of the run's
    // out of it.
    let same = match checkpoint.parent {
        Some(_) => "SELECT key FROM checkpoint WHERE +run = ?1 AND digest = ?2 AND parent = ?3",
        None => "SELECT key FROM checkpoint WHERE run = ?1 AND digest = ?2 AND +parent IS ?3",
    };
    let mut same = place.on(tx.prepare_cached(same))?;
    let values = params![run, draft.digest, checkpoint.parent.map(number)];
    let same = same.query_row(values, |row| row.get::<_, i64>(0));
    if let Some(key) = place.on(same.optional())? {
        return read::info(tx, place, CheckpointKey::new(key as u64));
    }
    if let Some(parent) = checkpoint.parent {
        actions::inherit(tx, place, run, parent)?;
    }
    let branch = branch_to_write(tx, place, run, parent.as_ref())?;
    append(tx, press, place, branch, n_known, &draft)?;
    let key = insert(tx, press, place, run, branch, checkpoint, &draft)?;
    words::index_waiting(tx, press, place)?;
    Ok(checkpoint.info(&claim.run, CheckpointKey::new(key as u64)))
}

/// Returns the parent, after checking that the conversation grew from it.
fn known_parent(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &StoreFileName,
    checkpoint: &NewCheckpoint,
    key: CheckpointKey,
) -> Result<Head, StoreError> {
    let head = read::head(tx, place, key)?;
    let head = head.ok_or_else(|| place.no_such(format!("parent checkpoint {key}")))?;
    let conversation = &checkpoint.snapshot.conversation;
    let last = read::row(tx, place, &head)?;
    let follows = match (head.length as usize, last) {
        (0, _) => true,
        (n, Some(last)) => press.follows(conversation, n, &last),
        (_, None) => false,
    };
    if follows && head.agent == checkpoint.snapshot.agent.as_str() {
        Ok(head)
    } else {
        Err(StoreError::Diverged { parent: key })
    }
}

/// Returns the branch for the new lines: the parent's if they directly continue it, else one that forks from
/// it.
fn branch_to_write(
    tx: &Transaction<'_>,
    place: &StoreFileName,
    run: i64,
    parent: Option<&Head>,
) -> Result<i64, StoreError> {
    if let Some(parent) = parent.filter(|parent| parent.run == run && parent.length == parent.branch_length) {
        return Ok(parent.branch);
    }
    let (from, at) = parent.map_or((None, 0), |parent| (Some(parent.branch), parent.length));
    let fork = "INSERT INTO branch (parent, forked_at, length) VALUES (?1, ?2, ?2)";
    place.on(tx.execute(fork, params![from, at]))?;
    Ok(tx.last_insert_rowid())
}

fn append(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &StoreFileName,
    branch: i64,
    n_known: i64,
    draft: &Draft,
) -> Result<(), StoreError> {
    let insert = "INSERT INTO line (branch, position, kind, number, tokens, made_at, content, note)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let mut insert = place.on(tx.prepare_cached(insert))?;
    for (position, line) in (n_known..).zip(&draft.lines) {
        let content = match &line.content {
            Some(content) => Some(keep(tx, press, place, content)?),
            None => None,
        };
        let row =
            params![branch, position, line.kind, line.number, line.tokens, line.made_at, content, line.note];
        place.on(insert.execute(row))?;
    }
    let length = n_known + draft.lines.len() as i64;
    place.on(tx.execute("UPDATE branch SET length = ?2 WHERE id = ?1", params![branch, length]))?;
    Ok(())
}

/// Returns the id of the content; writes it if it is new.
fn keep(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &StoreFileName,
    content: &StoredContent,
) -> Result<i64, StoreError> {
    let mut known = place.on(tx.prepare_cached("SELECT id FROM content WHERE hash = ?1"))?;
    if let Some(id) = place.on(known.query_row([content.hash], |row| row.get(0)).optional())? {
        return Ok(id);
    }
    let mut insert = place.on(tx.prepare_cached("INSERT INTO content (hash, body) VALUES (?1, ?2)"))?;
    place.on(insert.insert(params![content.hash, press.pack(&content.json)]))
}

fn insert(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &StoreFileName,
    run: i64,
    branch: i64,
    checkpoint: &NewCheckpoint,
    draft: &Draft,
) -> Result<i64, StoreError> {
    let configuration = keep(tx, press, place, &draft.configuration)?;
    let size = checkpoint.snapshot.conversation.view().size();
    let insert =
        "INSERT INTO checkpoint (run, agent, step, reason, created_at, parent, iteration, messages, tokens,
            branch, length, configuration, state, digest)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
    let mut insert = place.on(tx.prepare_cached(insert))?;
    place.on(insert.insert(params![
        run,
        checkpoint.snapshot.agent.as_str(),
        checkpoint.step,
        checkpoint.reason.as_str(),
        nanoseconds(checkpoint.created_at).unwrap_or_default(),
        checkpoint.parent.map(number),
        checkpoint.snapshot.progress.iterations as i64,
        size.messages as i64,
        size.tokens.as_u64() as i64,
        branch,
        checkpoint.snapshot.conversation.entries().len() as i64,
        configuration,
        draft.state,
        draft.digest,
    ]))
}
