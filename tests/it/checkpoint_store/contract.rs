//! What every checkpoint store does. Each case is a function over a subject; each store mounts them all.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use forge_app::run_cards;
use forge_domain::{
    Action, ActionConsent, ActionEnd, ActionKind, CheckpointFilter, CheckpointId, CheckpointInfo,
    CheckpointKey, CheckpointOutline, CheckpointReason, CheckpointStore, Claim, Conversation, Cost, Deletion,
    Dollars, Found, Lease, Mending, Message, MessageId, NewAction, NewCheckpoint, Progress, Pruned,
    Retention, SearchQuery, Spent, StoreError, Sweep, Takeover, Tokens, ToolCall, ToolName, Usage,
};
use forge_infra::{MemoryCheckpointStore, PostgresCheckpointStore, SqliteCheckpointStore, SqlitePlace};
use futures::FutureExt;
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use pretty_assertions::assert_eq;
use serde_json::json;
use tempfile::TempDir;

use super::sample::{after, agent, append, checkpoint, compacted, hour, one_of_everything, run, said};

/// A store, opened twice where two processes could.
pub(crate) struct Subject {
    pub(crate) store: Arc<dyn CheckpointStore>,
    second: Arc<dyn CheckpointStore>,
    place: Place,
}

/// The place of a store that can be opened again.
enum Place {
    Memory,
    Folder(TempDir),
    Database(Box<tokio_postgres::Config>),
}

impl Subject {
    pub(crate) async fn memory() -> Option<Self> {
        let store: Arc<dyn CheckpointStore> = Arc::new(MemoryCheckpointStore::new());
        Some(Self { second: Arc::clone(&store), store, place: Place::Memory })
    }

    pub(crate) async fn sqlite() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let place = SqlitePlace::new(folder.path().join("runs.db"));
        let store = Arc::new(SqliteCheckpointStore::open(&place).await.unwrap());
        let second = Arc::new(SqliteCheckpointStore::open(&place).await.unwrap());
        Some(Self { store, second, place: Place::Folder(folder) })
    }

    pub(crate) async fn postgres() -> Option<Self> {
        let config = super::postgres_server::database().await?;
        let store = PostgresCheckpointStore::connect(config.clone(), "the test's database").await.unwrap();
        let second = PostgresCheckpointStore::connect(config.clone(), "the test's database").await.unwrap();
        let place = Place::Database(Box::new(config));
        Some(Self { store: Arc::new(store), second: Arc::new(second), place })
    }

    /// Opens the store once more, as after a restart; that in memory is the same one.
    async fn open_again(self) -> Self {
        let Self { store, second, place } = self;
        let again: Arc<dyn CheckpointStore> = match &place {
            Place::Memory => store,
            Place::Folder(folder) => {
                drop((store, second));
                Arc::new(
                    SqliteCheckpointStore::open(&SqlitePlace::new(folder.path().join("runs.db")))
                        .await
                        .unwrap(),
                )
            }
            Place::Database(config) => {
                drop((store, second));
                let again = PostgresCheckpointStore::connect((**config).clone(), "the test's database").await;
                Arc::new(again.unwrap())
            }
        };
        Self { store: Arc::clone(&again), second: again, place }
    }

    async fn claim(&self, name: &str) -> Claim {
        self.store.claim(&run(name), "the test", Takeover::Never, None, hour(0)).await.unwrap()
    }

    async fn save(&self, claim: &Claim, checkpoint: NewCheckpoint) -> CheckpointInfo {
        self.store.save(claim, &checkpoint).await.unwrap()
    }

    async fn conversation(&self, key: CheckpointKey) -> Conversation {
        self.store.load(key).await.unwrap().snapshot.conversation
    }

    async fn keys(&self, filter: CheckpointFilter) -> Vec<u64> {
        self.store.list(&filter).await.unwrap().iter().map(|info| info.key.as_u64()).collect()
    }

    async fn is_sound(&self) {
        let health = self.store.check(Mending::LookOnly).await.unwrap();
        assert_eq!(health.faults, Vec::<String>::new());
    }
}

fn all() -> CheckpointFilter {
    CheckpointFilter::default()
}

async fn what_is_saved_is_loaded(subject: Subject) {
    let claim = subject.claim("a").await;
    let mut new = checkpoint("writer", "iteration-6", &one_of_everything());
    new.snapshot.progress = Progress {
        iterations: 6,
        turn_iterations: 2,
        usage: Usage { prompt_tokens: Tokens::new(7), ..Usage::default() },
        summary_calls: 1,
        summary_usage: Usage { cached_tokens: Tokens::new(3), ..Usage::default() },
        spent: Spent {
            tokens: Tokens::new(11),
            cost: Cost { dollars: Dollars::new(0.3).unwrap(), unpriced_calls: 1 },
        },
        calibration: Some(json!({"m": {"ratio": 1.0300000000000002}})),
        extra: json!({"pins": ["never"]}).as_object().unwrap().clone(),
    };
    let info = subject.save(&claim, new.clone()).await;
    let size = new.snapshot.conversation.view().size();
    let expected = CheckpointInfo {
        key: info.key,
        id: "writer-iteration-6".to_owned().try_into().unwrap(),
        run: run("a"),
        agent: agent("writer"),
        created_at: new.created_at,
        step: "iteration-6".into(),
        reason: CheckpointReason::Iteration,
        parent: None,
        iteration: 6,
        n_entries: new.snapshot.conversation.entries().len(),
        message_count: size.messages,
        estimated_tokens: size.tokens,
    };
    assert_eq!(info, expected);
    let loaded = subject.second.load(info.key).await.unwrap();
    assert_eq!(loaded.info, expected);
    assert_eq!(loaded.snapshot, new.snapshot);
    assert_eq!(subject.second.list(&all()).await.unwrap(), [expected]);
    subject.is_sound().await;
}

async fn what_the_caller_changes_later_is_not_saved(subject: Subject) {
    let claim = subject.claim("a").await;
    let mut new = checkpoint("writer", "x", &said(&["one", "two"]));
    let info = subject.save(&claim, new.clone()).await;
    let before = new.snapshot.clone();
    append(&mut new.snapshot.conversation, Message::user("three"));
    new.snapshot.progress.iterations = 99;
    let mut loaded = subject.store.load(info.key).await.unwrap();
    assert_eq!(loaded.snapshot, before);
    append(&mut loaded.snapshot.conversation, Message::user("four"));
    loaded.snapshot.configuration.0.clear();
    assert_eq!(subject.store.load(info.key).await.unwrap().snapshot, before);
}

async fn what_is_not_there_is_said(subject: Subject) {
    let nothing = CheckpointKey::new(77);
    let found = |result: Result<(), StoreError>| match result {
        Err(StoreError::NotFound { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(found(subject.store.load(nothing).await.map(drop)), "checkpoint #77");
    assert_eq!(
        found(subject.store.delete(&Deletion::Checkpoint(nothing), Sweep::Done).await.map(drop)),
        "checkpoint #77"
    );
    assert_eq!(found(subject.store.delete(&Deletion::Run(run("a")), Sweep::Done).await.map(drop)), "run `a`");
    let query = SearchQuery::new("x", 3).unwrap();
    assert_eq!(found(subject.store.search(&run("a"), &query).await.map(drop)), "run `a`");
    assert_eq!(subject.store.list(&all()).await.unwrap(), []);
    let claim = subject.claim("a").await;
    let orphan = after(nothing, checkpoint("writer", "x", &said(&["one"])));
    assert_eq!(found(subject.store.save(&claim, &orphan).await.map(drop)), "parent checkpoint #77");
    subject.store.delete(&Deletion::Run(run("a")), Sweep::Done).await.unwrap();
    let late = checkpoint("writer", "x", &said(&["one"]));
    assert_eq!(found(subject.store.save(&claim, &late).await.map(drop)), "run `a`");
}

async fn an_empty_conversation_is_one_too(subject: Subject) {
    let claim = subject.claim("a").await;
    let empty = subject.save(&claim, checkpoint("writer", "begin", &Conversation::new())).await;
    assert_eq!(subject.conversation(empty.key).await, Conversation::new());
    let more = subject.save(&claim, after(empty.key, checkpoint("writer", "x", &said(&["one"])))).await;
    assert_eq!(subject.conversation(more.key).await, said(&["one"]));
}

async fn the_newest_come_first_by_the_order_of_saving(subject: Subject) {
    let (a, b) = (subject.claim("a").await, subject.claim("b").await);
    let mut keys = Vec::new();
    // Neither names nor times tell the order.
    for (claim, name, step, reason) in [
        (&a, "writer", "iteration-10", CheckpointReason::Iteration),
        (&b, "writer", "iteration-9", CheckpointReason::Iteration),
        (&a, "reader", "iteration-9", CheckpointReason::Compaction),
        (&a, "writer", "iteration-9", CheckpointReason::Interrupt),
        (&a, "writer", "end", CheckpointReason::End),
    ] {
        let created_at = hour(100 - keys.len() as i64);
        let new = NewCheckpoint { reason, created_at, ..checkpoint(name, step, &said(&["one"])) };
        keys.push(subject.save(claim, new).await.key.as_u64());
    }
    assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
    let key = |at: usize| Some(CheckpointKey::new(keys[at]));
    let named = |name: &str| CheckpointFilter { id: CheckpointId::new(name).ok(), ..all() };
    for (name, filter, expected) in [
        ("all", all(), vec![4, 3, 2, 1, 0]),
        ("run", CheckpointFilter::of_run(&run("a")), vec![4, 3, 2, 0]),
        ("unknown run", CheckpointFilter::of_run(&run("c")), vec![]),
        ("agent", CheckpointFilter { agent: Some(agent("reader")), ..all() }, vec![2]),
        ("id", named("writer-iteration-9"), vec![3, 1]),
        ("key", CheckpointFilter { key: key(1), ..all() }, vec![1]),
        ("reason", CheckpointFilter { reason: Some(CheckpointReason::End), ..all() }, vec![4]),
        ("before", CheckpointFilter { before: key(2), ..all() }, vec![1, 0]),
        ("limit", CheckpointFilter { limit: Some(2), ..all() }, vec![4, 3]),
        ("no limit is zero", CheckpointFilter { limit: Some(0), ..all() }, vec![]),
        ("last", CheckpointFilter { limit: Some(1), ..all() }, vec![4]),
        (
            "together",
            CheckpointFilter {
                run: Some(run("a")),
                agent: Some(agent("writer")),
                before: key(4),
                limit: Some(1),
                ..all()
            },
            vec![3],
        ),
        ("key and run that disagree", CheckpointFilter { key: key(1), run: Some(run("a")), ..all() }, vec![]),
        ("key and before that disagree", CheckpointFilter { key: key(3), before: key(2), ..all() }, vec![]),
    ] {
        let expected: Vec<u64> = expected.into_iter().map(|at: usize| keys[at]).collect();
        assert_eq!(subject.keys(filter).await, expected, "{name}");
    }
}

async fn a_save_that_is_repeated_changes_nothing(subject: Subject) {
    let claim = subject.claim("a").await;
    let first = subject.save(&claim, checkpoint("writer", "1", &said(&["one"]))).await;
    let second = after(first.key, checkpoint("writer", "2", &said(&["one", "two"])));
    let saved = subject.save(&claim, second.clone()).await;
    // The answer was lost; by now the clock says something else.
    let again = NewCheckpoint { created_at: hour(50), ..second.clone() };
    assert_eq!(subject.save(&claim, again).await, saved);
    assert_eq!(subject.keys(all()).await.len(), 2);
    // Another name or another counter is another checkpoint, also of the same conversation.
    let renamed = subject.save(&claim, NewCheckpoint { step: "3".into(), ..second.clone() }).await;
    let mut counted = second;
    counted.snapshot.progress.turn_iterations += 1;
    let counted = subject.save(&claim, counted).await;
    assert_eq!(subject.keys(all()).await.len(), 4);
    for key in [saved.key, renamed.key, counted.key] {
        assert_eq!(subject.conversation(key).await, said(&["one", "two"]));
    }
    subject.is_sound().await;
}

async fn a_run_that_is_rewound_grows_another_way(subject: Subject) {
    let claim = subject.claim("a").await;
    let one = subject.save(&claim, checkpoint("writer", "1", &said(&["one"]))).await;
    let two = subject.save(&claim, after(one.key, checkpoint("writer", "2", &said(&["one", "two"])))).await;
    let other = subject.save(&claim, after(one.key, checkpoint("writer", "2", &said(&["one", "2"])))).await;
    let three = subject
        .save(&claim, after(two.key, checkpoint("writer", "3", &said(&["one", "two", "three"]))))
        .await;
    let more =
        subject.save(&claim, after(other.key, checkpoint("writer", "3", &said(&["one", "2", "3"])))).await;
    for (info, parent, expected) in [
        (one.clone(), None, said(&["one"])),
        (two.clone(), Some(one.key), said(&["one", "two"])),
        (other.clone(), Some(one.key), said(&["one", "2"])),
        (three, Some(two.key), said(&["one", "two", "three"])),
        (more, Some(other.key), said(&["one", "2", "3"])),
    ] {
        let loaded = subject.store.load(info.key).await.unwrap();
        assert_eq!((loaded.info.parent, loaded.snapshot.conversation), (parent, expected), "{info:?}");
    }
    subject.is_sound().await;
}

async fn a_fork_outlives_what_it_came_from(subject: Subject) {
    let a = subject.claim("a").await;
    let raw = said(&["one", "two", "three"]);
    let before = subject.save(&a, checkpoint("writer", "1", &raw)).await;
    let folded = compacted(&raw, 0, 1, &[]);
    let last = subject.save(&a, after(before.key, checkpoint("writer", "2", &folded))).await;
    // From before the compaction: the raw messages are back.
    let b = subject.claim("b").await;
    let mut forked = subject.conversation(before.key).await;
    assert_eq!(forked.view().messages().len(), 3);
    let begun = subject.save(&b, after(before.key, checkpoint("writer", "fork", &forked))).await;
    append(&mut forked, Message::user("four"));
    let grown = subject.save(&b, after(begun.key, checkpoint("writer", "3", &forked))).await;
    // The run that was forked from goes on by itself.
    let mut on = folded.clone();
    append(&mut on, Message::user("vier"));
    let on_key = subject.save(&a, after(last.key, checkpoint("writer", "3", &on))).await.key;
    assert_eq!(subject.conversation(on_key).await, on);
    assert_eq!(subject.keys(CheckpointFilter::of_run(&run("b"))).await.len(), 2);
    let pruned = subject.store.delete(&Deletion::Run(run("a")), Sweep::Done).await.unwrap();
    assert_eq!((pruned.checkpoints.len(), pruned.runs), (3, 1));
    assert_eq!(subject.conversation(grown.key).await, forked);
    assert_eq!(subject.conversation(begun.key).await, raw);
    assert_eq!(subject.keys(all()).await, [grown.key.as_u64(), begun.key.as_u64()]);
    subject.is_sound().await;
    // And the other way round.
    let c = subject.claim("c").await;
    subject.save(&c, after(grown.key, checkpoint("writer", "fork", &forked))).await;
    subject.store.delete(&Deletion::Run(run("c")), Sweep::Done).await.unwrap();
    assert_eq!(subject.conversation(grown.key).await, forked);
    subject.is_sound().await;
}

async fn a_conversation_that_did_not_grow_from_its_parent_is_refused(subject: Subject) {
    let claim = subject.claim("a").await;
    let folded = compacted(&said(&["one", "two"]), 0, 1, &[]);
    let parent = subject.save(&claim, checkpoint("writer", "1", &folded)).await.key;
    for (name, who, conversation) in [
        ("shorter", "writer", said(&["one"])),
        ("another text", "writer", said(&["one", "zwei", "three", "four"])),
        ("not compacted", "writer", said(&["one", "two", "three"])),
        ("another agent", "reader", folded.clone()),
    ] {
        let refused = subject.store.save(&claim, &after(parent, checkpoint(who, "2", &conversation))).await;
        assert!(matches!(refused, Err(StoreError::Diverged { .. })), "{name}: {refused:?}");
    }
    assert_eq!(subject.keys(all()).await, [parent.as_u64()]);
    assert_eq!(subject.conversation(parent).await, folded);
}

async fn an_outline_is_that_of_the_whole_state(subject: Subject) {
    let claim = subject.claim("a").await;
    let mut late = Conversation::new();
    for n in 0..20 {
        append(&mut late, Message::note("a hook", format!("note {n}")));
    }
    append(&mut late, Message::user("the task"));
    let logs = [
        Conversation::new(),
        one_of_everything(),
        compacted(&said(&["one", "two", "three"]), 0, 1, &[]),
        late,
    ];
    for (n, log) in logs.iter().enumerate() {
        let key = subject.save(&claim, checkpoint("writer", &n.to_string(), log)).await.key;
        let expected = CheckpointOutline::of(subject.store.load(key).await.unwrap().snapshot);
        assert_eq!(subject.store.outline(key).await.unwrap(), expected);
        assert_eq!(expected.task.is_some(), n > 0);
    }
    // A fork begins in another run's branch.
    let parent = subject.save(&claim, checkpoint("writer", "x", &said(&["one"]))).await.key;
    let fork = subject.claim("b").await;
    let forked = subject.save(&fork, after(parent, checkpoint("writer", "y", &said(&["one", "two"])))).await;
    let outline = subject.store.outline(forked.key).await.unwrap();
    assert_eq!(outline.task.map(|task| task.to_text()), Some("one".to_owned()));
    let missing = subject.store.outline(CheckpointKey::new(99)).await;
    assert!(matches!(missing, Err(StoreError::NotFound { .. })), "{missing:?}");
}

async fn cards_begin_with_the_runs_of_the_folder(subject: Subject) {
    for (name, folder) in [("old", "/here"), ("new", "/there"), ("newer", "/there")] {
        let claim = subject.claim(name).await;
        let mut new = checkpoint("writer", "1", &said(&[&format!("the task\n of {name}")]));
        new.snapshot.configuration.0.insert("folder".to_owned(), json!(folder));
        subject.save(&claim, new).await;
    }
    for (folder, limit, expected) in [
        (Some("/here"), 1, &["old"][..]),
        (Some("/here"), 2, &["old", "newer"]),
        (Some("/there"), 9, &["newer", "new", "old"]),
        (None, 2, &["newer", "new"]),
    ] {
        let cards = run_cards(&*subject.store, folder, limit).await.unwrap();
        let runs: Vec<&str> = cards.iter().map(|card| card.summary.run.as_str()).collect();
        assert_eq!(runs, expected);
        assert_eq!(cards[0].title, Some(format!("the task of {}", expected[0])));
    }
}

async fn agents_of_a_run_are_kept_apart(subject: Subject) {
    let claim = subject.claim("a").await;
    let writer = subject.save(&claim, checkpoint("writer", "1", &said(&["one"]))).await;
    let reader = subject.save(&claim, checkpoint("reader", "1", &said(&["one"]))).await;
    let more = subject.save(&claim, after(writer.key, checkpoint("writer", "2", &said(&["one", "w"])))).await;
    let other =
        subject.save(&claim, after(reader.key, checkpoint("reader", "2", &said(&["one", "r"])))).await;
    assert_eq!(subject.conversation(more.key).await, said(&["one", "w"]));
    assert_eq!(subject.conversation(other.key).await, said(&["one", "r"]));
}

async fn only_the_holder_of_a_run_writes_it(subject: Subject) {
    let Subject { store, second, .. } = &subject;
    let first = store.claim(&run("a"), "process 1", Takeover::Never, None, hour(3)).await.unwrap();
    let kept = store.save(&first, &checkpoint("writer", "1", &said(&["one"]))).await.unwrap();
    let held = second.claim(&run("a"), "process 2", Takeover::Never, None, hour(4)).await.unwrap_err();
    let StoreError::Held { run: of, by, since, token } = held else { panic!("{held:?}") };
    assert_eq!((of, by.as_str(), since, token), (run("a"), "process 1", hour(3), first.token));
    // Process 1 is known to be gone. Two want to take over; the second one finds that it is no longer that one's.
    let taken = second.claim(&run("a"), "process 2", Takeover::Of(token), None, hour(5)).await.unwrap();
    assert!(taken.token > first.token);
    let late = store.claim(&run("a"), "process 3", Takeover::Of(token), None, hour(5)).await;
    assert!(matches!(late, Err(StoreError::Held { by, .. }) if by == "process 2"));
    // It was not gone after all.
    let two = after(kept.key, checkpoint("writer", "2", &said(&["one", "two"])));
    let refused = store.save(&first, &two).await;
    assert!(matches!(refused, Err(StoreError::Fenced { by, .. }) if by == "process 2"));
    store.release(&first).await.unwrap();
    second.save(&taken, &two).await.unwrap();
    second.release(&taken).await.unwrap();
    let refused = second.save(&taken, &two).await;
    assert!(matches!(refused, Err(StoreError::Fenced { .. })), "given back is given back");
    let next = store.claim(&run("a"), "process 4", Takeover::Never, None, hour(6)).await.unwrap();
    assert!(next.token > taken.token);
    // A run of the same name is another run.
    store.delete(&Deletion::Run(run("a")), Sweep::Done).await.unwrap();
    let again = second.claim(&run("a"), "process 5", Takeover::Never, None, hour(7)).await.unwrap();
    assert!(again.token > next.token);
    let refused = store.save(&next, &checkpoint("writer", "1", &said(&["one"]))).await;
    assert!(matches!(refused, Err(StoreError::Fenced { .. })));
}

async fn a_claim_is_confirmed_until_it_ends(subject: Subject) {
    let Subject { store, second, .. } = &subject;
    let first = store.claim(&run("a"), "process 1", Takeover::Never, None, hour(0)).await.unwrap();
    store.confirm(&first).await.unwrap();
    let taken = second.claim(&run("a"), "process 2", Takeover::Of(first.token), None, hour(1)).await.unwrap();
    let fenced = store.confirm(&first).await;
    assert!(matches!(fenced, Err(StoreError::Fenced { by, .. }) if by == "process 2"));
    store.confirm(&taken).await.unwrap();
    second.release(&taken).await.unwrap();
    assert!(matches!(store.confirm(&taken).await, Err(StoreError::Fenced { .. })));
    let third = store.claim(&run("a"), "process 3", Takeover::Never, None, hour(2)).await.unwrap();
    store.delete(&Deletion::Run(run("a")), Sweep::Done).await.unwrap();
    let deleted = second.confirm(&third).await;
    assert!(matches!(deleted, Err(StoreError::NotFound { .. })), "{deleted:?}");
}

/// A lease that runs out long after the test.
fn long() -> Option<Lease> {
    Lease::new(Duration::from_secs(3_600))
}

/// Claims the run with a lease that has run out when this returns.
async fn claim_and_lapse(store: &dyn CheckpointStore, holder: &str) -> Claim {
    let claim =
        store.claim(&run("a"), holder, Takeover::Never, Lease::new(Duration::from_millis(1)), hour(0)).await;
    let claim = claim.unwrap();
    while store.confirm(&claim).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    claim
}

async fn a_lease_that_lasts_keeps_others_out(subject: Subject) {
    let Subject { store, second, .. } = &subject;
    // What the machines take for the time does not matter: one is a year behind, the other a year ahead.
    let (behind, ahead) = (hour(-9_000), hour(9_000));
    let first = store.claim(&run("a"), "process 1", Takeover::Never, long(), behind).await.unwrap();
    let one = subject.save(&first, checkpoint("writer", "1", &said(&["one"]))).await;
    let held = second.claim(&run("a"), "process 2", Takeover::Never, long(), ahead).await;
    assert!(matches!(held, Err(StoreError::Held { by, .. }) if by == "process 1"));
    store.renew(&first, long().unwrap()).await.unwrap();
    subject.save(&first, after(one.key, checkpoint("writer", "2", &said(&["one", "two"])))).await;
    let holder = second.runs().await.unwrap().remove(0).holder.unwrap();
    let lease = holder.lease.unwrap();
    assert!(!holder.has_lapsed() && lease.at > Timestamp::now(), "{lease:?}");
    // People may take it over all the same; then a renewal is refused as well.
    let taken = second.claim(&run("a"), "process 2", Takeover::Of(first.token), None, ahead).await.unwrap();
    let refused = store.renew(&first, long().unwrap()).await;
    assert!(matches!(refused, Err(StoreError::Fenced { by, .. }) if by == "process 2"));
    assert_eq!(second.runs().await.unwrap().remove(0).holder.unwrap().lease, None);
    second.release(&taken).await.unwrap();
    let refused = second.renew(&taken, long().unwrap()).await;
    assert!(matches!(refused, Err(StoreError::Fenced { .. })), "what was given back is not renewed");
    store.delete(&Deletion::Run(run("a")), Sweep::Done).await.unwrap();
    let refused = second.renew(&taken, long().unwrap()).await;
    assert!(matches!(refused, Err(StoreError::NotFound { .. })), "{refused:?}");
}

async fn a_writer_whose_lease_ran_out_is_refused_until_it_renews(subject: Subject) {
    let Subject { store, second, .. } = &subject;
    let claim = claim_and_lapse(&**store, "process 1").await;
    let new = checkpoint("writer", "1", &said(&["one"]));
    let action = NewAction {
        at: hour(1),
        agent: None,
        kind: ActionKind::Address,
        what: "an address".into(),
        through: "a provider".into(),
        consent: ActionConsent::NotNeeded,
    };
    let lapsed = |error: StoreError| matches!(error, StoreError::Lapsed { run: of, .. } if of == run("a"));
    assert!(lapsed(store.confirm(&claim).await.unwrap_err()));
    assert!(lapsed(store.save(&claim, &new).await.unwrap_err()));
    assert!(lapsed(store.begin_action(&claim, &action).await.unwrap_err()));
    assert_eq!(subject.keys(all()).await, Vec::<u64>::new());
    let holder = second.runs().await.unwrap().remove(0).holder.unwrap();
    assert!(holder.has_lapsed() && holder.by == "process 1", "{holder:?}");
    // Nobody else has claimed the run, so that nobody can have written it.
    store.renew(&claim, long().unwrap()).await.unwrap();
    store.confirm(&claim).await.unwrap();
    subject.save(&claim, new).await;
    let held = second.claim(&run("a"), "process 2", Takeover::Never, long(), hour(2)).await;
    assert!(matches!(held, Err(StoreError::Held { .. })));
}

async fn a_run_whose_lease_ran_out_is_anyones_to_claim(subject: Subject) {
    let Subject { store, second, .. } = &subject;
    let first = claim_and_lapse(&**store, "process 1").await;
    let next = second.claim(&run("a"), "process 2", Takeover::Never, long(), hour(1)).await.unwrap();
    assert!(next.token > first.token);
    for refused in [store.confirm(&first).await, store.renew(&first, long().unwrap()).await] {
        assert!(matches!(refused, Err(StoreError::Fenced { by, .. }) if by == "process 2"));
    }
    let refused = store.save(&first, &checkpoint("writer", "1", &said(&["one"]))).await;
    assert!(matches!(refused, Err(StoreError::Fenced { by, .. }) if by == "process 2"));
    second.confirm(&next).await.unwrap();
    // Giving back what ran out frees the run, and takes nothing from the next holder.
    store.release(&first).await.unwrap();
    second.confirm(&next).await.unwrap();
}

async fn of_many_that_want_a_lapsed_run_one_gets_it(subject: Subject) {
    let first = claim_and_lapse(&*subject.store, "process 1").await;
    let stores = [&subject.store, &subject.second];
    let claims = (0..8).map(|n| {
        let store = Arc::clone(stores[n % 2]);
        tokio::spawn(async move {
            store.claim(&run("a"), &format!("{n}"), Takeover::Never, long(), hour(0)).await
        })
    });
    let claims: Vec<_> = join_all(claims).await.into_iter().map(Result::unwrap).collect();
    let won: Vec<&Claim> = claims.iter().filter_map(|claim| claim.as_ref().ok()).collect();
    assert_eq!(won.len(), 1, "{claims:?}");
    assert!(won[0].token > first.token);
}

async fn tokens_grow_when_the_store_is_opened_again(subject: Subject) {
    let first = subject.store.claim(&run("a"), "process 1", Takeover::Never, long(), hour(0)).await.unwrap();
    let other = subject.claim("b").await;
    let subject = subject.open_again().await;
    // A lease outlives the connection of its holder.
    let held = subject.store.claim(&run("a"), "process 2", Takeover::Never, long(), hour(1)).await;
    assert!(matches!(held, Err(StoreError::Held { token, .. }) if token == first.token));
    subject.store.renew(&first, long().unwrap()).await.unwrap();
    subject.store.delete(&Deletion::Run(run("b")), Sweep::Done).await.unwrap();
    let again = subject.claim("b").await;
    assert!(again.token > other.token && again.token > first.token);
}

async fn a_run_is_taken_over_at_the_checkpoint_that_was_named_or_not_at_all(subject: Subject) {
    let Subject { store, second, .. } = &subject;
    let first = store.claim(&run("a"), "process 1", Takeover::Never, None, hour(0)).await.unwrap();
    let one = subject.save(&first, checkpoint("writer", "1", &said(&["one"]))).await;
    let two = subject.save(&first, after(one.key, checkpoint("writer", "2", &said(&["one", "two"])))).await;
    let at = async |key| {
        second.claim(&run("a"), "process 2", Takeover::OfAt(first.token, key), None, hour(1)).await
    };
    let moved = at(one.key).await;
    assert!(matches!(moved, Err(StoreError::Moved { .. })), "{moved:?}");
    store.confirm(&first).await.unwrap();
    at(two.key).await.unwrap();
    assert!(matches!(store.confirm(&first).await, Err(StoreError::Fenced { .. })));
}

async fn of_many_first_writers_one_wins(subject: Subject) {
    let stores = [&subject.store, &subject.second];
    let claims = (0..8).map(|n| {
        let store = Arc::clone(stores[n % 2]);
        tokio::spawn(
            async move { store.claim(&run("a"), &format!("{n}"), Takeover::Never, None, hour(0)).await },
        )
    });
    let claims: Vec<_> = join_all(claims).await.into_iter().map(Result::unwrap).collect();
    let won: Vec<&Claim> = claims.iter().filter_map(|claim| claim.as_ref().ok()).collect();
    assert_eq!(won.len(), 1, "{claims:?}");
    assert!(
        claims.iter().filter_map(|claim| claim.as_ref().err()).all(|e| matches!(e, StoreError::Held { .. }))
    );
}

async fn runs_are_saved_at_once_and_none_is_lost(subject: Subject) {
    const N_SAVES: usize = 12;
    let saved = join_all((0..4).map(|n| {
        let store = Arc::clone(if n % 2 == 0 { &subject.store } else { &subject.second });
        tokio::spawn(async move {
            let claim =
                store.claim(&run(&n.to_string()), "a task", Takeover::Never, None, hour(0)).await.unwrap();
            let mut log = Conversation::new();
            let mut parent = None;
            for at in 0..N_SAVES {
                // The same in every run, so that all want to write the same content.
                append(&mut log, Message::user(format!("message {at}")));
                let new = NewCheckpoint { parent, ..checkpoint("writer", &at.to_string(), &log) };
                parent = Some(store.save(&claim, &new).await.unwrap().key);
            }
            (parent.unwrap(), log)
        })
    }));
    for saved in saved.await {
        let (key, log) = saved.unwrap();
        assert_eq!(subject.conversation(key).await, log);
    }
    let keys = subject.keys(all()).await;
    assert_eq!(keys.len(), 4 * N_SAVES);
    assert!(keys.is_sorted_by(|a, b| a > b), "each key once");
    subject.is_sound().await;
}

async fn what_retention_lets_go_goes_and_forks_stay(subject: Subject) {
    let claim = subject.claim("a").await;
    let mut log = Conversation::new();
    let mut parents = vec![];
    for at in 0..6 {
        append(&mut log, Message::user(format!("message {at}")));
        let new =
            NewCheckpoint { parent: parents.last().copied(), ..checkpoint("writer", &at.to_string(), &log) };
        parents.push(subject.save(&claim, new).await.key);
    }
    let fork = subject.claim("b").await;
    let at_two = log.rewound(3).unwrap();
    let begun = subject.save(&fork, after(parents[2], checkpoint("writer", "fork", &at_two))).await;
    let nothing = subject.store.prune(&Retention::default(), hour(1_000), Sweep::Done).await.unwrap();
    assert_eq!(nothing, Pruned::default());
    let two = Retention { keep_last: NonZeroUsize::new(2), ..Retention::default() };
    let pruned = subject.store.prune(&two, hour(1_000), Sweep::Done).await.unwrap();
    assert_eq!((pruned.checkpoints.len(), pruned.runs), (4, 0));
    let kept = [begun.key, parents[5], parents[4]].map(CheckpointKey::as_u64);
    assert_eq!(subject.keys(all()).await, kept);
    assert_eq!(subject.conversation(begun.key).await, at_two);
    assert_eq!(subject.conversation(parents[4]).await, log.rewound(5).unwrap());
    // What grew from one that went, grew from the nearest before it that stayed.
    assert_eq!(subject.store.load(parents[4]).await.unwrap().info.parent, None);
    assert_eq!(subject.store.load(parents[5]).await.unwrap().info.parent, Some(parents[4]));
    // The writer goes on.
    append(&mut log, Message::user("and on"));
    let last = subject.save(&claim, after(parents[5], checkpoint("writer", "6", &log))).await;
    assert_eq!(subject.conversation(last.key).await, log);
    // By age: of runs that are held the last of each agent stay.
    let old = Retention { max_age: Some(SignedDuration::from_hours(1)), ..Retention::default() };
    subject.store.release(&fork).await.unwrap();
    let pruned = subject.store.prune(&old, hour(1_000), Sweep::Done).await.unwrap();
    assert_eq!((pruned.checkpoints.len(), pruned.runs), (3, 1));
    assert_eq!(subject.keys(all()).await, [last.key.as_u64()]);
    assert_eq!(subject.conversation(last.key).await, log);
    subject.is_sound().await;
}

async fn over_its_size_the_store_gives_up_whole_old_runs(subject: Subject) {
    let mut last = None;
    for name in ["a", "b", "c", "d"] {
        let claim = subject.claim(name).await;
        // Noise that does not compress.
        let noise: String =
            (0..60_000_u64).map(|n| char::from(b'a' + (n.wrapping_mul(n) % 7919 % 26) as u8)).collect();
        let log = said(&[&format!("{name}{noise}")]);
        last = Some(subject.save(&claim, checkpoint("writer", "1", &log)).await.key);
        if name != "b" {
            subject.store.release(&claim).await.unwrap();
        }
    }
    let bytes = subject.store.check(Mending::LookOnly).await.unwrap().bytes;
    let fits = Retention { max_bytes: Some(bytes), ..Retention::default() };
    assert_eq!(subject.store.prune(&fits, hour(0), Sweep::Done).await.unwrap(), Pruned::default());
    let tight = Retention { max_bytes: Some(bytes - 1), ..Retention::default() };
    let pruned = subject.store.prune(&tight, hour(0), Sweep::Done).await.unwrap();
    assert_eq!((pruned.checkpoints.len(), pruned.runs), (1, 1), "the oldest that nobody holds");
    let none = Retention { max_bytes: Some(0), ..Retention::default() };
    let pruned = subject.store.prune(&none, hour(0), Sweep::Done).await.unwrap();
    assert_eq!((pruned.checkpoints.len(), pruned.runs), (1, 1), "the held and the last one stay");
    let runs: Vec<_> =
        subject.store.list(&all()).await.unwrap().iter().map(|info| info.run.to_string()).collect();
    assert_eq!(runs, ["d", "b"]);
    assert_eq!(subject.keys(CheckpointFilter { limit: Some(1), ..all() }).await, [last.unwrap().as_u64()]);
    let after = subject.store.check(Mending::LookOnly).await.unwrap();
    assert!(after.bytes < bytes, "{} of {bytes} bytes", after.bytes);
}

async fn deleting_takes_what_is_named_and_nothing_else(subject: Subject) {
    let (a, b) = (subject.claim("a").await, subject.claim("b").await);
    let one = subject.save(&a, checkpoint("writer", "1", &said(&["one"]))).await.key;
    let two = subject.save(&a, after(one, checkpoint("writer", "2", &said(&["one", "two"])))).await.key;
    let three =
        subject.save(&a, after(two, checkpoint("writer", "3", &said(&["one", "two", "three"])))).await.key;
    let other = subject.save(&b, checkpoint("writer", "1", &said(&["one", "two"]))).await.key;
    let pruned = subject.store.delete(&Deletion::Checkpoint(two), Sweep::Done).await.unwrap();
    assert_eq!((pruned.checkpoints.len(), pruned.runs), (1, 0));
    assert!(matches!(subject.store.load(two).await, Err(StoreError::NotFound { .. })));
    assert_eq!(subject.store.load(three).await.unwrap().info.parent, Some(one));
    assert_eq!(subject.conversation(three).await, said(&["one", "two", "three"]));
    subject.store.delete(&Deletion::Checkpoint(three), Sweep::Done).await.unwrap();
    assert_eq!(subject.conversation(one).await, said(&["one"]));
    assert_eq!(subject.conversation(other).await, said(&["one", "two"]));
    // Numbers are not given again.
    let four = subject.save(&a, after(one, checkpoint("writer", "4", &said(&["one", "4"])))).await.key;
    assert!(four > other);
    subject.store.delete(&Deletion::Run(run("a")), Sweep::Done).await.unwrap();
    assert_eq!(subject.keys(all()).await, [other.as_u64()]);
    assert_eq!(subject.conversation(other).await, said(&["one", "two"]));
    subject.is_sound().await;
}

async fn messages_are_found_by_their_words(subject: Subject) {
    let claim = subject.claim("a").await;
    let mut log = said(&["Read src/Main.rs twice", "読む file", "nothing of interest", "read it again"]);
    let call = ToolCall {
        id: "c".into(),
        name: ToolName::new("read_file").unwrap(),
        arguments: r#"{"path": "src/lib.rs"}"#.into(),
    };
    append(&mut log, Message::calling(vec![call]));
    // What left the view is what one looks for.
    let log = compacted(&log, 0, 3, &[]);
    let writer = subject.save(&claim, checkpoint("writer", "1", &log)).await;
    subject.save(&claim, checkpoint("reader", "1", &said(&["a file to read"]))).await;
    let elsewhere = subject.claim("b").await;
    subject.save(&elsewhere, checkpoint("writer", "1", &said(&["read elsewhere"]))).await;
    let search = async |text: &str, only: Option<&str>, limit: usize| {
        let mut query = SearchQuery::new(text, limit).unwrap();
        query.agent = only.map(agent);
        let found = subject.second.search(&run("a"), &query).await.unwrap();
        found.iter().map(|found| format!("{} {}", found.agent, found.message)).collect::<Vec<_>>()
    };
    for (text, only, limit, expected) in [
        ("read", None, 9, vec!["reader m0", "writer m4", "writer m3", "writer m0"]),
        ("READ", Some("writer"), 2, vec!["writer m4", "writer m3"]),
        ("src/main.rs", None, 9, vec!["writer m0"]),
        ("rs src", None, 9, vec!["writer m4", "writer m0"]),
        ("read_file", None, 9, vec!["reader m0", "writer m4"]),
        ("む", None, 9, vec!["writer m1"]),
        ("interest* OR \"read", None, 9, vec![]),
        ("rea", None, 9, vec![]),
        ("elsewhere", None, 9, vec![]),
    ] {
        assert_eq!(search(text, only, limit).await, expected, "{text}");
    }
    let query = SearchQuery::new("interest", 1).unwrap();
    let found = subject.store.search(&run("a"), &query).await.unwrap();
    let excerpt = "nothing of interest".to_owned();
    assert_eq!(found, [Found { agent: agent("writer"), message: MessageId::new(2), excerpt }]);
    // What a rewound run no longer says is not found, and what is deleted is not either.
    let back = log.rewound(2).unwrap();
    subject.save(&claim, after(writer.key, checkpoint("writer", "2", &log))).await;
    subject.save(&claim, checkpoint("writer", "3", &back)).await;
    assert_eq!(search("interest", None, 9).await, Vec::<String>::new());
    assert_eq!(search("twice", None, 9).await, ["writer m0"]);
    subject.store.delete(&Deletion::Run(run("b")), Sweep::Done).await.unwrap();
    subject.store.check(Mending::Indexes).await.unwrap();
    assert_eq!(search("file", None, 9).await, ["writer m1", "reader m0"]);
    subject.is_sound().await;
}

async fn a_save_that_nobody_waits_for_is_whole_or_not_at_all(subject: Subject) {
    let claim = subject.claim("a").await;
    let mut parent = None;
    let mut log = Conversation::new();
    for n in 0..10 {
        append(&mut log, Message::user(format!("message {n}")));
        let new = NewCheckpoint { parent, ..checkpoint("writer", &n.to_string(), &log) };
        // Let go after a few steps of its work, or before the first.
        let mut save = subject.store.save(&claim, &new);
        for _ in 0..n {
            if (&mut save).now_or_never().is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(save);
        parent = Some(subject.save(&claim, new).await.key);
    }
    assert_eq!(subject.conversation(parent.unwrap()).await, log);
    assert_eq!(subject.keys(all()).await.len(), 10);
    subject.is_sound().await;
}

async fn a_rehearsal_says_what_would_go_and_changes_nothing(subject: Subject) {
    let (a, b) = (subject.claim("a").await, subject.claim("b").await);
    let one = subject.save(&a, checkpoint("writer", "1", &said(&["one"]))).await.key;
    let two = subject.save(&a, after(one, checkpoint("writer", "2", &said(&["one", "two"])))).await.key;
    let fork = subject.save(&b, after(one, checkpoint("writer", "fork", &said(&["one"])))).await.key;
    subject.store.release(&a).await.unwrap();
    let last = Retention { keep_last: NonZeroUsize::new(1), ..Retention::default() };
    let none = Retention { max_bytes: Some(0), ..Retention::default() };
    let before = subject.store.list(&all()).await.unwrap();
    let delete = async |what: Deletion, sweep| subject.store.delete(&what, sweep).await.unwrap();
    let prune =
        async |retention: &Retention, sweep| subject.store.prune(retention, hour(9), sweep).await.unwrap();
    for (name, rehearsed, expected, runs) in [
        ("a checkpoint", delete(Deletion::Checkpoint(two), Sweep::Rehearsed).await, vec![two], 0),
        ("a run", delete(Deletion::Run(run("a")), Sweep::Rehearsed).await, vec![one, two], 1),
        ("by number", prune(&last, Sweep::Rehearsed).await, vec![one], 0),
        ("by size", prune(&none, Sweep::Rehearsed).await, vec![one, two], 1),
    ] {
        let gone: Vec<CheckpointKey> = rehearsed.checkpoints.iter().copied().collect();
        assert_eq!((gone, rehearsed.runs), (expected, runs), "{name}");
        assert_eq!(subject.second.list(&all()).await.unwrap(), before, "{name}");
        assert_eq!(subject.conversation(two).await, said(&["one", "two"]), "{name}");
    }
    subject.is_sound().await;
    let rehearsed = delete(Deletion::Run(run("a")), Sweep::Rehearsed).await;
    assert_eq!(delete(Deletion::Run(run("a")), Sweep::Done).await, rehearsed, "it does what it said");
    assert_eq!(subject.keys(all()).await, [fork.as_u64()]);
    let missing = subject.store.delete(&Deletion::Run(run("a")), Sweep::Rehearsed).await;
    assert!(matches!(missing, Err(StoreError::NotFound { .. })), "{missing:?}");
}

async fn runs_are_told_with_their_holders(subject: Subject) {
    assert_eq!(subject.store.runs().await.unwrap(), []);
    let b = subject.claim("b").await;
    let a = subject.store.claim(&run("a"), "a person", Takeover::Never, None, hour(3)).await.unwrap();
    let told = async || {
        let runs = subject.second.runs().await.unwrap();
        let told = runs
            .into_iter()
            .map(|known| (known.run.to_string(), known.holder.map(|held| (held.by, held.since, held.token))));
        told.collect::<Vec<_>>()
    };
    let held_a = ("a".to_owned(), Some(("a person".to_owned(), hour(3), a.token)));
    let held_b = ("b".to_owned(), Some(("the test".to_owned(), hour(0), b.token)));
    assert_eq!(told().await, [held_a.clone(), held_b], "also before anything was saved");
    subject.save(&b, checkpoint("writer", "1", &said(&["one"]))).await;
    subject.store.release(&b).await.unwrap();
    assert_eq!(told().await, [held_a, ("b".to_owned(), None)]);
    let nothing_saved = subject.claim("c").await;
    subject.store.release(&nothing_saved).await.unwrap();
    for (name, left) in [("b", 2), ("c", 1)] {
        let deleted = subject.store.delete(&Deletion::Run(run(name)), Sweep::Done).await.unwrap();
        assert_eq!((deleted.runs, told().await.len()), (1, left), "the run {name} and no other");
    }
}

async fn names_are_told_apart_whatever_they_hold(subject: Subject) {
    let names = ["a", "A", "a ", "ab", "a%", "a_", "a'b", "a/b", "é", "e\u{301}", "\u{1F980}", "a\nb"];
    for name in names {
        let claim = subject.claim(name).await;
        let new = NewCheckpoint { step: format!("step {name}"), ..checkpoint(name, "", &said(&[name])) };
        subject.save(&claim, new).await;
    }
    for name in names {
        let infos = subject.second.list(&CheckpointFilter::of_run(&run(name))).await.unwrap();
        let found: Vec<_> = infos.iter().map(|info| (info.run.as_str(), info.agent.as_str())).collect();
        assert_eq!(found, [(name, name)]);
        assert_eq!(subject.conversation(infos[0].key).await, said(&[name]));
        let of_agent = CheckpointFilter { agent: Some(agent(name)), ..all() };
        assert_eq!(subject.keys(of_agent).await, [infos[0].key.as_u64()], "{name:?}");
        let named = CheckpointFilter { id: Some(infos[0].id.clone()), ..all() };
        assert_eq!(subject.keys(named).await, [infos[0].key.as_u64()], "{name:?}");
    }
    subject.store.delete(&Deletion::Run(run("a")), Sweep::Done).await.unwrap();
    assert_eq!(subject.keys(all()).await.len(), names.len() - 1, "none is a pattern");
    subject.is_sound().await;
}

async fn a_run_that_was_deleted_begins_anew(subject: Subject) {
    let first = subject.claim("a").await;
    let one = subject.save(&first, checkpoint("writer", "1", &said(&["one"]))).await;
    subject.store.delete(&Deletion::Run(run("a")), Sweep::Done).await.unwrap();
    let second = subject.claim("a").await;
    assert!(second.token > first.token, "who held it before cannot write into its successor");
    let late = subject.store.save(&first, &checkpoint("writer", "2", &said(&["late"]))).await;
    assert!(matches!(late, Err(StoreError::Fenced { .. })), "{late:?}");
    // The same state under the same name is another checkpoint now.
    let again = subject.save(&second, checkpoint("writer", "1", &said(&["one"]))).await;
    assert!(again.key > one.key);
    assert_eq!(subject.keys(all()).await, [again.key.as_u64()]);
    // A stale claim that is given back frees nobody's.
    subject.store.release(&first).await.unwrap();
    subject.save(&second, after(again.key, checkpoint("writer", "2", &said(&["one", "two"])))).await;
    subject.is_sound().await;
}

fn action(what: &str, at: i64) -> NewAction {
    NewAction {
        at: hour(at),
        agent: Some(agent("writer")),
        kind: ActionKind::Command,
        what: what.to_owned(),
        through: "shell".to_owned(),
        consent: ActionConsent::Rule { rules: vec!["`permissions.shell: allow` of the program".to_owned()] },
    }
}

fn end(outcome: &str) -> ActionEnd {
    ActionEnd { at: hour(9), failed: false, outcome: outcome.to_owned(), count: 1 }
}

async fn actions_are_kept_in_order_with_their_ends(subject: Subject) {
    let (claim, other) = (subject.claim("a").await, subject.claim("b").await);
    // What is said is kept as it is, whatever it holds.
    let odd = "printf '\u{1b}[2J\0\u{10400}'";
    let first = subject.store.begin_action(&claim, &action(odd, 1)).await.unwrap();
    subject.store.begin_action(&other, &action("of another run", 1)).await.unwrap();
    // Another process sees it before it has ended.
    let seen = subject.second.actions(&run("a")).await.unwrap();
    assert_eq!(seen, [Action { begun: action(odd, 1), end: None }]);
    let second = subject.store.begin_action(&claim, &action("two", 0)).await.unwrap();
    subject.store.end_action(second, &end("asked")).await.unwrap();
    subject.store.end_action(second, &ActionEnd { count: 2, ..end("asked") }).await.unwrap();
    subject.store.end_action(first, &end("exit code 0")).await.unwrap();
    let expected = [
        Action { begun: action(odd, 1), end: Some(end("exit code 0")) },
        Action { begun: action("two", 0), end: Some(ActionEnd { count: 2, ..end("asked") }) },
    ];
    assert_eq!(subject.second.actions(&run("a")).await.unwrap(), expected);
    assert!(matches!(subject.store.actions(&run("c")).await, Err(StoreError::NotFound { .. })));
    // Who lost the run keeps nothing more of what is begun.
    let takeover = Takeover::Of(claim.token);
    subject.second.claim(&run("a"), "the next", takeover, None, hour(2)).await.unwrap();
    let late = subject.store.begin_action(&claim, &action("late", 3)).await;
    assert!(matches!(late, Err(StoreError::Fenced { .. })));
    // A run that was deleted takes its actions along, and one of its name has none of them.
    subject.store.delete(&Deletion::Run(run("a")), Sweep::Done).await.unwrap();
    subject.store.end_action(first, &end("too late")).await.unwrap();
    subject.claim("a").await;
    assert_eq!(subject.store.actions(&run("a")).await.unwrap(), []);
    assert_eq!(subject.store.actions(&run("b")).await.unwrap().len(), 1);
    subject.is_sound().await;
}

async fn a_fork_takes_the_actions_before_it_along(subject: Subject) {
    let claim = subject.claim("a").await;
    let key = subject.store.begin_action(&claim, &action("one", 1)).await.unwrap();
    subject.store.end_action(key, &end("done")).await.unwrap();
    let saved = |name: &str, at: i64| NewCheckpoint {
        created_at: hour(at),
        ..checkpoint(name, "x", &said(&["one"]))
    };
    let writer = subject.save(&claim, saved("writer", 2)).await;
    let reader = subject.save(&claim, saved("reader", 2)).await;
    subject.store.begin_action(&claim, &action("two", 3)).await.unwrap();
    let names = async |name: &str| -> Vec<String> {
        let actions = subject.store.actions(&run(name)).await.unwrap();
        actions.into_iter().map(|action| action.begun.what).collect()
    };
    let fork = subject.claim("b").await;
    // A checkpoint for each agent brings them once.
    let (first, second) = (after(writer.key, saved("writer", 4)), after(reader.key, saved("reader", 4)));
    let first = subject.save(&fork, first).await;
    subject.save(&fork, second).await;
    assert_eq!(names("b").await, ["one"]);
    subject.store.begin_action(&fork, &action("three", 5)).await.unwrap();
    assert_eq!(names("a").await, ["one", "two"]);
    // So do those of a fork's fork, after all others are gone.
    let third = subject.claim("c").await;
    subject.save(&third, after(first.key, saved("writer", 6))).await;
    subject.store.delete(&Deletion::Run(run("a")), Sweep::Done).await.unwrap();
    assert_eq!(
        (names("b").await, names("c").await),
        (vec!["one".to_owned(), "three".to_owned()], vec!["one".to_owned()])
    );
    let kept = subject.store.actions(&run("c")).await.unwrap();
    assert_eq!(kept[0].end, Some(end("done")));
}

macro_rules! contract {
    ($($case:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(super::Subject::memory().await.unwrap()).await;
            })*
        }

        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(super::Subject::sqlite().await.unwrap()).await;
            })*
        }

        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                if let Some(subject) = super::Subject::postgres().await {
                    super::$case(subject).await;
                }
            })*
        }
    };
}

contract! {
    what_is_saved_is_loaded,
    what_the_caller_changes_later_is_not_saved,
    what_is_not_there_is_said,
    an_empty_conversation_is_one_too,
    the_newest_come_first_by_the_order_of_saving,
    a_save_that_is_repeated_changes_nothing,
    a_run_that_is_rewound_grows_another_way,
    a_fork_outlives_what_it_came_from,
    a_conversation_that_did_not_grow_from_its_parent_is_refused,
    an_outline_is_that_of_the_whole_state,
    cards_begin_with_the_runs_of_the_folder,
    agents_of_a_run_are_kept_apart,
    only_the_holder_of_a_run_writes_it,
    a_claim_is_confirmed_until_it_ends,
    a_lease_that_lasts_keeps_others_out,
    a_writer_whose_lease_ran_out_is_refused_until_it_renews,
    a_run_whose_lease_ran_out_is_anyones_to_claim,
    of_many_that_want_a_lapsed_run_one_gets_it,
    tokens_grow_when_the_store_is_opened_again,
    a_run_is_taken_over_at_the_checkpoint_that_was_named_or_not_at_all,
    of_many_first_writers_one_wins,
    runs_are_saved_at_once_and_none_is_lost,
    what_retention_lets_go_goes_and_forks_stay,
    over_its_size_the_store_gives_up_whole_old_runs,
    deleting_takes_what_is_named_and_nothing_else,
    messages_are_found_by_their_words,
    a_save_that_nobody_waits_for_is_whole_or_not_at_all,
    a_rehearsal_says_what_would_go_and_changes_nothing,
    runs_are_told_with_their_holders,
    names_are_told_apart_whatever_they_hold,
    a_run_that_was_deleted_begins_anew,
    actions_are_kept_in_order_with_their_ends,
    a_fork_takes_the_actions_before_it_along,
}
