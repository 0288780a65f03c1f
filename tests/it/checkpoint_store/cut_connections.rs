//! The connection to a Postgres server breaks at each thing that is said to it: before it is said, and after it was said but
//! before it was answered. What was stored is there, what was about to be stored is there whole or not at all, and the
//! next attempt goes through.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use forge_domain::{
    CheckpointFilter, CheckpointKey, CheckpointStore, Claim, Deletion, Mending, Retention, StoreError, Sweep,
    Takeover,
};
use forge_infra::PostgresCheckpointStore;
use forge_tests::{ScriptedServer, Step};
use futures::future::join_all;
use jiff::SignedDuration;
use pretty_assertions::assert_eq;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, NoTls};

use super::postgres_server::database;
use super::sample::{after, checkpoint, compacted, conversation, hour, run, two_runs};
use crate::forge::Forge;

/// When a connection breaks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cut {
    /// What the client says is no longer heard.
    Unheard,
    /// It is heard; the answer is lost.
    Unanswered,
    /// Nothing is heard any more, and nothing breaks either: as with a network that lost its way.
    Hole,
}

/// Stands between a store and its server, and lets so many more messages through.
pub(crate) struct Between {
    pub(crate) left: Arc<AtomicUsize>,
    pub(crate) config: Config,
}

impl Between {
    pub(crate) async fn start(server: &Config, cut: Cut) -> Self {
        let left = Arc::new(AtomicUsize::new(usize::MAX));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut config = Config::new();
        config.host("127.0.0.1").port(port).ssl_mode(tokio_postgres::config::SslMode::Disable);
        config.dbname(server.get_dbname().unwrap());
        if let Some(user) = server.get_user() {
            config.user(user);
        }
        if let Some(password) = server.get_password() {
            config.password(password);
        }
        let (server, counted) = (server.clone(), Arc::clone(&left));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let counted = Arc::clone(&counted);
                let port = server.get_ports().first().copied().unwrap_or(5432);
                match &server.get_hosts()[0] {
                    Host::Tcp(host) => {
                        let server = TcpStream::connect((host.as_str(), port)).await.unwrap();
                        tokio::spawn(pass(client, server, counted, cut));
                    }
                    Host::Unix(folder) => {
                        let socket = folder.join(format!(".s.PGSQL.{port}"));
                        let server = UnixStream::connect(socket).await.unwrap();
                        tokio::spawn(pass(client, server, counted, cut));
                    }
                }
            }
        });
        Self { left, config }
    }
}

/// Passes on what both sides say, until the client has said too much.
async fn pass(
    client: TcpStream,
    server: impl AsyncRead + AsyncWrite + Send + 'static,
    left: Arc<AtomicUsize>,
    cut: Cut,
) {
    let (mut client_says, mut client_hears) = client.into_split();
    let (mut server_says, mut server_hears) = tokio::io::split(server);
    let to_server = async {
        let mut bytes = vec![0; 1 << 16];
        loop {
            let n = client_says.read(&mut bytes).await.unwrap_or(0);
            let may = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| match left {
                usize::MAX => Some(left),
                left => left.checked_sub(1),
            });
            if may.is_err() && cut == Cut::Hole {
                return std::future::pending().await;
            }
            if n == 0 || may.is_err() && cut == Cut::Unheard {
                return;
            }
            let heard =
                server_hears.write_all(&bytes[..n]).await.is_ok() && server_hears.flush().await.is_ok();
            if may.is_err() || !heard {
                return;
            }
        }
    };
    let to_client = async {
        let mut bytes = vec![0; 1 << 16];
        loop {
            let n = server_says.read(&mut bytes).await.unwrap_or(0);
            if cut == Cut::Hole && left.load(Ordering::SeqCst) == 0 {
                return std::future::pending().await;
            }
            if n == 0 || client_hears.write_all(&bytes[..n]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = to_server => {}
        () = to_client => {}
    }
}

#[derive(Clone, Copy, Debug)]
enum Work {
    Save,
    SaveCompaction,
    Prune,
    Delete,
    Migrate,
}

const ALL: [Work; 5] = [Work::Save, Work::SaveCompaction, Work::Prune, Work::Delete, Work::Migrate];

impl Work {
    /// Makes what the work begins with; the claim by which it writes.
    async fn prepare(self, store: &PostgresCheckpointStore) -> (Claim, CheckpointKey) {
        two_runs(store).await
    }

    async fn perform(
        self,
        store: &PostgresCheckpointStore,
        claim: &Claim,
        last: CheckpointKey,
    ) -> Result<(), StoreError> {
        match self {
            Self::Migrate => Ok(()),
            Self::Save | Self::SaveCompaction => {
                let grown = match self {
                    Self::Save => conversation(12),
                    _ => compacted(&conversation(3), 0, 1, &[]),
                };
                store.save(claim, &after(last, checkpoint("writer", "new", &grown))).await.map(drop)
            }
            Self::Prune => {
                let max_age = Some(SignedDuration::from_hours(2));
                let retention = Retention { max_age, ..Retention::default() };
                store.prune(&retention, hour(5), Sweep::Done).await.map(drop)
            }
            Self::Delete => match store.delete(&Deletion::Run(run("b")), Sweep::Done).await {
                // It was deleted, and only the answer was lost.
                Err(StoreError::NotFound { .. }) => Ok(()),
                deleted => deleted.map(drop),
            },
        }
    }

    fn states(self) -> [&'static [&'static str]; 2] {
        let before: &[&str] = &["b scribe-1", "a writer-3", "a writer-2", "a writer-1"];
        match self {
            Self::Save | Self::SaveCompaction => {
                [before, &["a writer-new", "b scribe-1", "a writer-3", "a writer-2", "a writer-1"]]
            }
            Self::Prune => [before, &["b scribe-1", "a writer-3"]],
            Self::Delete => [before, &["a writer-3", "a writer-2", "a writer-1"]],
            Self::Migrate => [&[], &[]],
        }
    }
}

/// The names of what is there, once nobody else is connected any more; everything is read back.
async fn state(config: &Config, judge: &Client) -> Vec<String> {
    let others = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    while judge.query_one(others, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        tokio::task::yield_now().await;
    }
    let store = PostgresCheckpointStore::connect(config.clone(), "the judge's").await.unwrap();
    assert_eq!(store.check(Mending::LookOnly).await.unwrap().faults, Vec::<String>::new());
    let infos = store.list(&CheckpointFilter::default()).await.unwrap();
    infos.iter().map(|info| format!("{} {}", info.run, info.id)).collect()
}

async fn break_everywhere(cut: Cut) {
    for work in ALL {
        let Some(server) = database().await else { return };
        let (judge, connection) = server.connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        let between = Between::start(&server, cut).await;
        let prepared = match work {
            Work::Migrate => None,
            _ => {
                let store = PostgresCheckpointStore::connect(server.clone(), "the first's").await.unwrap();
                Some(work.prepare(&store).await)
            }
        };
        let [before, after] = work.states();
        let mut n_broken = 0;
        for at in 0.. {
            assert!(at < 500, "{work:?} has no end");
            let connected = async {
                if prepared.is_none() {
                    between.left.store(at, Ordering::SeqCst);
                }
                let store =
                    PostgresCheckpointStore::connect(between.config.clone(), "the broken one").await?;
                between.left.store(if prepared.is_none() { usize::MAX } else { at }, Ordering::SeqCst);
                Ok::<_, StoreError>(store)
            };
            let done = match connected.await {
                Ok(store) => match &prepared {
                    Some((claim, last)) => work.perform(&store, claim, *last).await,
                    None => Ok(()),
                },
                Err(error) => Err(error),
            };
            between.left.store(usize::MAX, Ordering::SeqCst);
            let state = state(&server, &judge).await;
            match done {
                Ok(()) => {
                    assert_eq!(state, after, "{work:?}, whole");
                    break;
                }
                Err(error) => {
                    n_broken += 1;
                    let said = error.to_string();
                    assert!(matches!(error, StoreError::Unavailable { .. }), "{work:?} at {at}: {said}");
                    assert!(said.starts_with("the broken one cannot be reached"), "{said}");
                    assert!(state == before || state == after, "{work:?} at {at}: {state:?}");
                    assert!(cut == Cut::Unanswered || state == before, "{work:?} at {at}: {state:?}");
                }
            }
            if prepared.is_none() {
                // The judge has migrated it: from the beginning again.
                judge.batch_execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public").await.unwrap();
            }
        }
        assert!(n_broken > 3, "{work:?} was broken {n_broken} times");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_off_before_anything_that_is_said_the_old_state_is_there() {
    break_everywhere(Cut::Unheard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_off_before_any_answer_the_old_or_the_new_state_is_there() {
    break_everywhere(Cut::Unanswered).await;
}

/// How long a store waits in these tests: as long as nothing is lost, every one of them does.
const PATIENCE: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_swallows_everything_costs_a_save_and_never_the_run() {
    if database().await.is_none() {
        return;
    }
    let swallow = async |at: usize| {
        // Each has its database: those who write into one wait for each other.
        let server = database().await.unwrap();
        let direct = PostgresCheckpointStore::connect(server.clone(), "the direct one").await.unwrap();
        let between = Between::start(&server, Cut::Hole).await;
        let mut config = between.config.clone();
        config.tcp_user_timeout(PATIENCE);
        let store = PostgresCheckpointStore::connect(config, "the far one").await.unwrap();
        let claim = direct.claim(&run("a"), "the test", Takeover::Never, None, hour(0)).await.unwrap();
        let one = direct.save(&claim, &checkpoint("writer", "1", &conversation(1))).await.unwrap();
        between.left.store(at, Ordering::SeqCst);
        let two = after(one.key, checkpoint("writer", "2", &conversation(2)));
        let is_swallowed = match store.save(&claim, &two).await {
            Ok(_) => false,
            Err(StoreError::TimedOut { place, .. }) => place == "the far one",
            Err(other) => panic!("{at}: {other}"),
        };
        // While the network is away, everything is given up in time, also a new connection.
        if is_swallowed && at == 5 {
            let unknown = store.confirm(&claim).await;
            assert!(matches!(unknown, Err(StoreError::TimedOut { .. })), "{at}: {unknown:?}");
        }
        between.left.store(usize::MAX, Ordering::SeqCst);
        // Asked again, the same is saved once. What the server was left with does not stand in the way.
        let saved = store.save(&claim, &two).await.unwrap();
        let of_run = direct.list(&CheckpointFilter::default()).await.unwrap();
        let keys: Vec<CheckpointKey> = of_run.iter().map(|info| info.key).collect();
        assert_eq!(keys, [saved.key, one.key], "{at}");
        assert_eq!(direct.check(Mending::LookOnly).await.unwrap().faults, Vec::<String>::new(), "{at}");
        is_swallowed
    };
    let swallowed = join_all([0, 1, 2, 3, 5, 8, 12, 16, 22].map(swallow)).await;
    assert!(swallowed[..4].iter().all(|swallowed| *swallowed), "{swallowed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_on_to_its_end_while_the_network_swallows_its_checkpoints() {
    if database().await.is_none() {
        return;
    }
    let swallow = async |left: usize| {
        let server = database().await.unwrap();
        drop(PostgresCheckpointStore::connect(server.clone(), "the direct one").await.unwrap());
        let between = Between::start(&server, Cut::Hole).await;
        between.left.store(left, Ordering::SeqCst);
        let password =
            between.config.get_password().map(|word| format!(":{}", String::from_utf8_lossy(word)));
        let url = format!(
            "postgres://{}{}@127.0.0.1:{}/{}?sslmode=disable&connect_timeout=4&tcp_user_timeout={}",
            between.config.get_user().unwrap_or("test"),
            password.unwrap_or_default(),
            between.config.get_ports()[0],
            between.config.get_dbname().unwrap(),
            PATIENCE.as_secs()
        );
        let read = || Step::calls(&[("read", r#"{"path":"notes.txt"}"#)]);
        let model = ScriptedServer::start(vec![read(), read(), read(), Step::text("All is read.")]);
        let yaml = "agents: [{ id: reader, model: openai:scripted, tools: [read] }]\nproviders: { openai: { retries: 0 } }\n";
        let forge = Forge::new().with_file("forge.yaml", yaml).with_file("notes.txt", "a note\n");
        let mut command = forge.process();
        command.args(["run", "Read.", "--store", &url]).stdin(Stdio::null());
        command.env("OPENAI_BASE_URL", model.base_url()).env("OPENAI_API_KEY", "k");
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "All is read.\n", "{left}: {stderr}");
        assert!(stderr.contains("did not answer within"), "{left}: {stderr}");
        assert!(stderr.contains("not saved:"), "{left}: {stderr}");
        assert_eq!(model.requests().len(), 4, "{left}");
        assert_eq!(output.status.code(), Some(8), "{left}: {stderr}");
    };
    // What the client may still say: nothing after it connected, or until the middle of a save.
    join_all([12, 40, 60].map(swallow)).await;
}
