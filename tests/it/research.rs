//! The research agent that is shipped, end to end: the real program and tools, a web on loopback, several compactions, a
//! kill and a resume. Its report has every finding that was planted, though the model knows nothing but its prompts.

mod researcher;
mod world;

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use forge_domain::{CheckpointFilter, CheckpointInfo, CheckpointStore, Conversation, Role};
use forge_infra::{SqliteCheckpointStore, SqlitePlace};
use forge_tests::{LocalWeb, ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::Value;

use self::researcher::Memory;
use crate::forge::{Forge, repository};

/// The file that is shipped, as it is.
const SHIPPED: &str = "examples/research/forge.yaml";
/// What the person's own file says: pages on this machine may be fetched here.
const OWN: &str =
    "tool_settings: { fetch: { allow_private: [127.0.0.1] } }\nproviders: { openai: { retries: 0 } }\n";
/// The call to the model that the process does not survive.
const KILLED_AT: usize = 28;

/// A run of the shipped agent.
struct Research {
    forge: Forge,
    web: LocalWeb,
    server: ScriptedServer,
    /// Hears when the call is made that the process does not survive.
    killing: Receiver<()>,
}

impl Research {
    fn new(memory: Memory) -> Self {
        let forge = Forge::new();
        std::fs::copy(repository(SHIPPED), forge.path("forge.yaml")).unwrap();
        std::fs::create_dir_all(forge.path(".config/forge")).unwrap();
        std::fs::write(forge.path(".config/forge/forge.yaml"), OWN).unwrap();
        let (tell, killing) = channel();
        let n_asked = AtomicUsize::new(0);
        let server = ScriptedServer::answering(move |request| {
            if n_asked.fetch_add(1, Ordering::SeqCst) + 1 == KILLED_AT {
                let _ = tell.send(());
                return Step::Hang;
            }
            researcher::reply(memory, request)
        });
        Self { forge, web: LocalWeb::start(world::pages), server, killing }
    }

    fn start(&self, arguments: &[&str]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_forge_under_test"))
            .arg("--trust")
            .args(arguments)
            .env_clear()
            .env("HOME", self.forge.path(""))
            .env("OPENAI_BASE_URL", self.server.base_url())
            .env("OPENAI_API_KEY", "none")
            .env("FORGE_SEARCH_ENDPOINT", self.web.search_endpoint())
            .env("FORGE_STORE", "sqlite:runs.db")
            .current_dir(self.forge.path(""))
            .stdin(Stdio::null())
            .stdout(Stdio::from(std::fs::File::create(self.forge.path("events")).unwrap()))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// The events of the process that ran last, those that were written whole.
    fn events(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.forge.path("events")).unwrap();
        text.lines().map_while(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The newest checkpoint, and its conversation.
    fn stored(&self) -> (CheckpointInfo, Conversation) {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let store =
                SqliteCheckpointStore::open(&SqlitePlace::new(self.forge.path("runs.db"))).await.unwrap();
            let newest = store.list(&CheckpointFilter::default()).await.unwrap().remove(0);
            let conversation = store.load(newest.key).await.unwrap().snapshot.conversation;
            assert!(conversation.coverage().is_complete());
            (newest, conversation)
        })
    }

    /// What the report says, line by line.
    fn report(&self) -> BTreeSet<String> {
        let report = std::fs::read_to_string(self.forge.path("research/report.md")).unwrap();
        report.lines().filter_map(|line| line.strip_prefix("- ")).map(str::to_owned).collect()
    }
}

/// The tokens of each context when it was made to fit.
fn sent(events: &[Value]) -> Vec<u64> {
    let fitted = events.iter().filter(|event| event["event"] == "fitted");
    fitted.map(|event| event["report"]["after"]["tokens"].as_u64().unwrap()).collect()
}

/// How many calls of a tool there were.
fn n_calls(conversation: &Conversation, tool: &str) -> usize {
    let calls = conversation.messages().flat_map(|message| message.message().calls());
    calls.filter(|call| call.name.as_str() == tool).count()
}

/// Researches with a kill in the middle; the whole conversation and what was sent.
fn research(memory: Memory) -> (Research, Conversation, Vec<u64>) {
    let research = Research::new(memory);
    let mut child = research.start(&["run", "--json", &world::task()]);
    let is_asked = || research.killing.recv_timeout(Duration::from_millis(20)).is_ok();
    while !is_asked() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before: {:?}", research.events().last());
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = sent(&research.events());
    let (checkpoint, _) = research.stored();
    let n_kept: usize = checkpoint.iteration;
    assert!((25..KILLED_AT).contains(&n_kept), "{checkpoint:?}: every fifth call is kept");

    let output = research.start(&["run", "--resume", "--json"]).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.as_ref()), (Some(0), ""));
    let events = research.events();
    assert_eq!(
        (&events[0]["event"], &events[1]["event"], &events[1]["from"]["id"]),
        (&"started".into(), &"resumed".into(), &checkpoint.id.as_str().into())
    );
    assert_eq!(events.last().unwrap()["report"]["response"], "The report is in research/report.md.");
    let after = sent(&events);
    let (_, conversation) = research.stored();
    let sent = [before, after].concat();
    (research, conversation, sent)
}

/// What holds of every such run.
fn check(research: &Research, conversation: &Conversation, sent: &[u64]) {
    let n_compactions = conversation.compactions().count();
    assert!(n_compactions >= 3, "{n_compactions} compactions");

    // What came since the last reply is estimated.
    assert!(sent.iter().all(|tokens| *tokens <= 84_000), "{sent:?}");
    let replies = conversation.messages().filter(|message| message.message().role() == Role::Assistant);
    assert!(replies.count() <= 50);
    let n_pages = n_calls(conversation, "fetch");
    assert_eq!(n_pages, 3 * world::STATIONS.len(), "each page is read once, whatever was killed");
    assert_eq!(research.report(), world::planted(&research.web.origin()));
}

#[test]
fn findings_that_are_noted_in_files_reach_the_report() {
    let (research, conversation, sent) = research(Memory::Files);
    check(&research, &conversation, &sent);
    assert_eq!(n_calls(&conversation, "read"), world::STATIONS.len());
}

#[test]
fn findings_that_no_file_has_reach_the_report_by_the_context_and_recall() {
    let (research, conversation, sent) = research(Memory::Context);
    let recalled = n_calls(&conversation, "recall");
    check(&research, &conversation, &sent);
    // The rest of the page that was too long for a result, and what the records have of no other page.
    assert!(recalled <= 20, "{recalled}");
}
