//! Random work on every store at once: what they answer is always the same.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use forge_domain::{
    CheckpointFilter, CheckpointKey, CheckpointStore, Claim, Conversation, Deletion, Mending, Message,
    NewCheckpoint, Retention, RunId, StoreError, Sweep, Takeover,
};
use jiff::SignedDuration;
use pretty_assertions::assert_eq;

use super::contract::Subject;
use super::sample::{append, checkpoint, hour, run};
use crate::dice::Dice;

/// One store at work: what it called the checkpoints that the players know by number.
struct Player {
    store: Arc<dyn CheckpointStore>,
    keys: Vec<CheckpointKey>,
    claims: BTreeMap<RunId, Claim>,
}

/// The kind of an answer, without numbers, which may differ between stores.
fn kind<T>(result: Result<T, StoreError>, say: impl FnOnce(T) -> String) -> String {
    match result {
        Ok(value) => say(value),
        Err(StoreError::NotFound { what, .. }) => {
            format!("no {}", what.split(' ').next().unwrap_or_default())
        }
        Err(StoreError::Fenced { .. }) => "fenced".into(),
        Err(StoreError::Diverged { .. }) => "diverged".into(),
        Err(other) => panic!("{other}"),
    }
}

impl Player {
    fn number(&self, key: Option<CheckpointKey>) -> Option<usize> {
        key.and_then(|key| self.keys.iter().position(|known| *known == key))
    }

    /// Does what the order says, and tells what came of it.
    async fn carry_out(&mut self, order: &Order<'_>) -> String {
        let (store, the_run) = (Arc::clone(&self.store), &order.the_run);
        if !self.claims.contains_key(the_run) {
            let claim = store.claim(the_run, "a player", Takeover::Never, None, hour(0)).await.unwrap();
            self.claims.insert(the_run.clone(), claim);
        }
        let key = self.keys.get(order.picked).copied();
        match order.choice {
            0..13 => {
                let log = checkpoint("writer", &format!("s{}", order.step % 7), order.log);
                let saved = store.save(&self.claims[the_run], &NewCheckpoint { parent: key, ..log }).await;
                kind(saved, |info| match self.number(Some(info.key)) {
                    Some(known) => format!("known {known}"),
                    None => {
                        self.keys.push(info.key);
                        "new".into()
                    }
                })
            }
            13..17 => match key {
                Some(key) => kind(store.delete(&Deletion::Checkpoint(key), Sweep::Done).await, |pruned| {
                    format!("{} {}", pruned.checkpoints.len(), pruned.runs)
                }),
                None => "nothing".into(),
            },
            17 => {
                self.claims.remove(the_run);
                let deleted = store.delete(&Deletion::Run(the_run.clone()), Sweep::Done).await;
                kind(deleted, |pruned| format!("{}", pruned.checkpoints.len()))
            }
            18 => {
                let claim = self.claims.remove(the_run).unwrap();
                kind(store.release(&claim).await, |()| "released".into())
            }
            _ => {
                let max_age = Some(SignedDuration::from_hours(40));
                let retention = Retention { keep_last: order.keep, max_age, ..Retention::default() };
                let pruned = store.prune(&retention, hour(50), Sweep::Done).await;
                kind(pruned, |pruned| format!("{}", pruned.checkpoints.len()))
            }
        }
    }

    /// All that the store has, in the players' numbers.
    async fn all(&self) -> Vec<(Option<usize>, String, Option<usize>, Conversation)> {
        let mut all = Vec::new();
        for info in self.store.list(&CheckpointFilter::default()).await.unwrap() {
            let conversation = self.store.load(info.key).await.unwrap().snapshot.conversation;
            let named = format!("{} {}", info.run, info.id);
            all.push((self.number(Some(info.key)), named, self.number(info.parent), conversation));
        }
        all
    }
}

/// What every player does in one step.
struct Order<'a> {
    choice: usize,
    the_run: RunId,
    /// A player's number of a checkpoint.
    picked: usize,
    step: usize,
    keep: Option<NonZeroUsize>,
    log: &'a Conversation,
}

async fn play(seed: u64, stores: Vec<Arc<dyn CheckpointStore>>) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let new_player = |store| Player { store, keys: Vec::new(), claims: BTreeMap::new() };
    let mut players: Vec<Player> = stores.into_iter().map(new_player).collect();
    // Each checkpoint's conversation, by the players' numbers.
    let mut logs: Vec<Conversation> = Vec::new();
    for step in 0..60 {
        let the_run = run(["a", "b", "c"][dice.roll(3)]);
        let (choice, picked) = (dice.roll(20), dice.roll(logs.len().max(1)));
        let mut log = logs.get(picked).cloned().unwrap_or_default();
        if choice < 13 {
            for _ in 0..dice.roll(4) {
                append(&mut log, Message::user(format!("message {}", dice.roll(9))));
            }
            match dice.roll(6) {
                0 => drop(log.clear().unwrap()),
                1 => drop(log.undo()),
                _ => {}
            }
        }
        let order =
            Order { choice, the_run, picked, step, keep: NonZeroUsize::new(1 + dice.roll(3)), log: &log };
        let mut answers = Vec::new();
        for player in &mut players {
            answers.push(player.carry_out(&order).await);
        }
        assert!(answers.iter().all(|answer| *answer == answers[0]), "seed {seed}, step {step}: {answers:?}");
        if answers[0] == "new" {
            logs.push(log);
        }
        let expected = players[0].all().await;
        for player in &players[1..] {
            assert_eq!(player.all().await, expected, "seed {seed}, step {step}");
        }
    }
    for player in &players {
        let runs: Vec<RunId> = player.claims.keys().cloned().collect();
        assert_eq!(player.store.check(Mending::LookOnly).await.unwrap().faults, Vec::<String>::new());
        for run in runs {
            player.store.delete(&Deletion::Run(run), Sweep::Done).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_store_answers_alike() {
    for seed in 0..12 {
        let (memory, sqlite) = (Subject::memory().await.unwrap(), Subject::sqlite().await.unwrap());
        let postgres = if seed < 4 { Subject::postgres().await } else { None };
        let stores = [Some(memory), Some(sqlite), postgres];
        play(seed, stores.iter().flatten().map(|subject| Arc::clone(&subject.store)).collect()).await;
    }
}
