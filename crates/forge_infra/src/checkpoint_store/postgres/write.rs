//! Statements that save checkpoints.

use forge_domain::{CheckpointInfo, CheckpointKey, Claim, NewCheckpoint, StoreError};
use tokio_postgres::Transaction;
use tokio_postgres::types::ToSql;

use super::error::ServerName;
use super::read::{self, Head};
use super::{actions, claims};
use crate::checkpoint_store::record::{Draft, Line, Press, StoredContent, nanoseconds, number};

/// The number of the lock for which writers of logs wait, so that a sweep never deletes what a save is about
/// to use: "forl".
const SHELVES: i64 = 0x666f_726c;

/// Waits until no one else writes logs; the lock holds until the transaction ends.
pub(super) async fn lock_shelves(tx: &Transaction<'_>, place: &ServerName) -> Result<(), StoreError> {
    place.on(tx.execute("SELECT pg_advisory_xact_lock($1)", &[&SHELVES]).await)?;
    Ok(())
}

pub(super) async fn save(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &ServerName,
    claim: &Claim,
    checkpoint: &NewCheckpoint,
) -> Result<CheckpointInfo, StoreError> {
    lock_shelves(tx, place).await?;
    let select = format!("SELECT {} FROM forge_run WHERE name = $1 FOR UPDATE", claims::CLAIM_COLUMNS);
    let row = place.on(tx.query_opt(&select, &[&claim.run.as_str()]).await)?;
    let run = claims::check(row.as_ref(), place, claim)?;
    let parent = match checkpoint.parent {
        Some(key) => Some(known_parent(tx, press, place, checkpoint, key).await?),
        None => None,
    };
    let n_known = parent.as_ref().map_or(0, |parent| parent.length);
    let draft = press.draft(checkpoint, n_known as usize).map_err(|error| place.unavailable(error))?;
    // Among those that grew from the same parent, of which there are few.
    let same = match checkpoint.parent {
        Some(_) => "SELECT key FROM forge_checkpoint WHERE run = $1 AND digest = $2 AND parent = $3 LIMIT 1",
        None => {
            "SELECT key FROM forge_checkpoint WHERE run = $1 AND digest = $2 AND parent IS NULL
                AND $3::bigint IS NULL LIMIT 1"
        }
    };
    let from = checkpoint.parent.map(number);
    if let Some(row) = place.on(tx.query_opt(same, &[&run, &draft.digest.as_slice(), &from]).await)? {
        return read::info(tx, place, CheckpointKey::new(row.get::<_, i64>(0) as u64)).await;
    }
    if let Some(parent) = checkpoint.parent {
        actions::inherit(tx, place, run, parent).await?;
    }
    let branch = branch_to_write(tx, place, run, parent.as_ref()).await?;
    append(tx, press, place, branch, n_known, &draft).await?;
    let key = insert(tx, press, place, run, branch, checkpoint, &draft).await?;
    Ok(checkpoint.info(&claim.run, CheckpointKey::new(key as u64)))
}

/// Returns the parent, after checking that the conversation grew from it.
async fn known_parent(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &ServerName,
    checkpoint: &NewCheckpoint,
    key: CheckpointKey,
) -> Result<Head, StoreError> {
    let head = read::head(tx, place, key).await?;
    let head = head.ok_or_else(|| place.no_such(format!("parent checkpoint {key}")))?;
    let conversation = &checkpoint.snapshot.conversation;
    let follows = match (head.length as usize, read::last_row(tx, place, &head).await?) {
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
async fn branch_to_write(
    tx: &Transaction<'_>,
    place: &ServerName,
    run: i64,
    parent: Option<&Head>,
) -> Result<i64, StoreError> {
    if let Some(parent) = parent.filter(|parent| parent.run == run && parent.length == parent.branch_length) {
        return Ok(parent.branch);
    }
    let (from, at) = parent.map_or((None, 0), |parent| (Some(parent.branch), parent.length));
    let fork = "INSERT INTO forge_branch (parent, forked_at, length) VALUES ($1, $2, $2) RETURNING id";
    Ok(place.on(tx.query_one(fork, &[&from, &at]).await)?.get(0))
}

async fn append(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &ServerName,
    branch: i64,
    n_known: i64,
    draft: &Draft,
) -> Result<(), StoreError> {
    let insert = "INSERT INTO forge_line (branch, position, kind, number, tokens, made_at, content, note)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    let insert = place.on(tx.prepare(insert).await)?;
    for (position, line) in (n_known..).zip(&draft.lines) {
        let content = match &line.content {
            Some(content) => Some(keep(tx, press, place, content).await?),
            None => None,
        };
        let note = line.note.as_deref();
        let Line { kind, number, tokens, made_at, .. } = line;
        let row: [&(dyn ToSql + Sync); 8] =
            [&branch, &position, kind, number, tokens, made_at, &content, &note];
        place.on(tx.execute(&insert, &row).await)?;
    }
    let length = n_known + draft.lines.len() as i64;
    let grow = "UPDATE forge_branch SET length = $2 WHERE id = $1";
    place.on(tx.execute(grow, &[&branch, &length]).await)?;
    Ok(())
}

/// Returns the id of the content; writes it, and its words, if it is new.
async fn keep(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &ServerName,
    content: &StoredContent,
) -> Result<i64, StoreError> {
    let hash = content.hash.as_slice();
    let known = "SELECT id FROM forge_content WHERE hash = $1";
    if let Some(row) = place.on(tx.query_opt(known, &[&hash]).await)? {
        return Ok(row.get(0));
    }
    let insert =
        "INSERT INTO forge_content (hash, body, words) VALUES ($1, $2, array_to_tsvector($3)) RETURNING id";
    let values: (Vec<u8>, Option<Vec<String>>) =
        (press.pack(&content.json), StoredContent::words(&content.json));
    Ok(place.on(tx.query_one(insert, &[&hash, &values.0, &values.1]).await)?.get(0))
}

async fn insert(
    tx: &Transaction<'_>,
    press: &mut Press,
    place: &ServerName,
    run: i64,
    branch: i64,
    checkpoint: &NewCheckpoint,
    draft: &Draft,
) -> Result<i64, StoreError> {
    let configuration = keep(tx, press, place, &draft.configuration).await?;
    let snapshot = &checkpoint.snapshot;
    let size = snapshot.conversation.view().size();
    let insert =
        "INSERT INTO forge_checkpoint (run, agent, step, reason, created_at, parent, iteration, messages,
            tokens, branch, length, configuration, state, digest)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) RETURNING key";
    let row = place.on(tx
        .query_one(
            insert,
            &[
                &run,
                &snapshot.agent.as_str(),
                &checkpoint.step,
                &checkpoint.reason.as_str(),
                &nanoseconds(checkpoint.created_at).unwrap_or_default(),
                &checkpoint.parent.map(number),
                &(snapshot.progress.iterations as i64),
                &(size.messages as i64),
                &(size.tokens.as_u64() as i64),
                &branch,
                &(snapshot.conversation.entries().len() as i64),
                &configuration,
                &draft.state,
                &draft.digest.as_slice(),
            ],
        )
        .await)?;
    Ok(row.get(0))
}
