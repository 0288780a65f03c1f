//! A long run against a server that binds thinking, with everything that changes a view: compaction, undo, another model,
//! other tools, and resuming.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use forge_app::{Checkpointing, Orchestrator, Resume, RunEvent};
use forge_domain::{
    CheckpointStore, ModelId, Prompt, Provider, ProviderId, ProviderKind, RunId, ToolCall, ToolDefinition,
    ToolName, ToolResult, ToolService, ToolsUnavailable, UnknownToolError, Workflow, stale_reasoning,
};
use forge_infra::{
    AnthropicProvider, GeminiProvider, Key, MemoryCheckpointStore, ResponsesProvider, SystemClock,
};
use serde_json::json;

use crate::binding::{Behaviour, BindingServer, Books};

/// A run against a [`BindingServer`].
#[derive(Clone, Copy, Debug)]
pub struct BindingRun {
    /// The least number of calls of the model.
    pub iterations: usize,
    /// The model's window.
    pub window: u64,
    /// The words of a tool's result.
    pub words: usize,
    /// The behaviour of the server.
    pub behaviour: Behaviour,
}

/// The account of a run.
#[derive(Debug)]
pub struct Bound {
    /// The server's own.
    pub books: Books,
    /// Compactions that were recorded in the log.
    pub compactions: usize,
    /// Compactions that were undone.
    pub undone: usize,
    /// Switches of the model.
    pub switches: usize,
    /// Changes of the list of tools.
    pub lists: u64,
    /// Processes that continued the run.
    pub resumes: usize,
    /// Prompts that break our rule on stale reasoning.
    pub stale: u64,
}

/// Two models of each protocol.
const fn models(kind: ProviderKind) -> [&'static str; 2] {
    match kind {
        ProviderKind::Responses => ["p:gpt-6-sol", "p:gpt-5.6"],
        ProviderKind::Gemini => ["p:gemini-3.5-flash", "p:gemini-3.1-pro-preview"],
        _ => ["p:claude-fable-5-1", "p:claude-sonnet-5-5"],
    }
}

impl BindingRun {
    /// Runs until there were enough calls.
    ///
    /// # Panics
    /// If a turn fails.
    pub async fn run(&self) -> Bound {
        let server = BindingServer::start(self.behaviour);
        let store: Arc<dyn CheckpointStore> = Arc::new(MemoryCheckpointStore::default());
        let tools = Arc::new(Parts { words: self.words, lists: AtomicU64::new(0) });
        let stale = Arc::new(AtomicU64::new(0));
        let build = || self.orchestrator(&server, &store, &tools, &stale);
        let mut bound = Bound {
            books: Books::default(),
            compactions: 0,
            undone: 0,
            switches: 0,
            lists: 0,
            resumes: 0,
            stale: 0,
        };
        let mut orchestrator = build();
        for turn in 0.. {
            orchestrator.run(format!("Look at the parts of chapter {turn}.")).await.expect("a turn");
            if server.books().requests >= self.iterations {
                break;
            }
            match turn % 8 {
                1 => drop(orchestrator.compact("one", None).await.expect("a compaction")),
                2 => bound.undone += usize::from(orchestrator.undo("one").await.expect("an undo").is_some()),
                4 => {
                    bound.switches += 1;
                    let model =
                        ModelId::new(models(self.behaviour.kind)[bound.switches % 2]).expect("a name");
                    orchestrator.switch_model("one", model).await.expect("a switch");
                }
                // There and back again after two turns: the list of an MCP server.
                5 | 7 => drop(tools.lists.fetch_add(1, Ordering::Relaxed)),
                6 => {
                    orchestrator.close().await;
                    orchestrator = build();
                    orchestrator.restore(&Resume::from("last")).await.expect("a run to resume");
                    bound.resumes += 1;
                }
                _ => {}
            }
        }
        bound.compactions =
            orchestrator.conversation("one").map_or(0, forge_domain::Conversation::n_compactions);
        bound.lists = tools.lists.load(Ordering::Relaxed);
        bound.stale = stale.load(Ordering::Relaxed);
        bound.books = server.books();
        bound
    }

    fn provider(&self, id: &ProviderId, base_url: &str) -> Arc<dyn Provider> {
        let id = id.clone();
        match self.behaviour.kind {
            ProviderKind::Responses => {
                Arc::new(ResponsesProvider::new(id, base_url, Key::None).expect("set up"))
            }
            ProviderKind::Gemini => Arc::new(GeminiProvider::new(id, base_url, Key::None).expect("set up")),
            _ => Arc::new(AnthropicProvider::new(id, base_url, Key::None).expect("set up")),
        }
    }

    fn orchestrator(
        &self,
        server: &BindingServer,
        store: &Arc<dyn CheckpointStore>,
        tools: &Arc<Parts>,
        stale: &Arc<AtomicU64>,
    ) -> Orchestrator {
        let id = ProviderId::new("p").expect("a name");
        let provider = self.provider(&id, &server.base_url());
        let models = models(self.behaviour.kind);
        let limits = json!({"window": self.window, "max_output": 500});
        let workflow: Workflow = serde_json::from_value(json!({
            "providers": {"p": {}},
            "models": {models[0]: limits, models[1]: limits},
            "agents": [{"id": "one", "model": models[0], "tools": ["look", "mcp"],
                "system_prompt": "You look at parts."}],
        }))
        .expect("a workflow");
        let stale = Arc::clone(stale);
        let run = RunId::new("bound").expect("a name");
        Orchestrator::builder()
            .workflow(workflow)
            .provider(id, provider)
            .tools(Arc::clone(tools) as Arc<dyn ToolService>)
            .checkpoints(Checkpointing::new(Arc::clone(store), Arc::new(SystemClock), run))
            .watcher(move |event: &RunEvent<'_>| {
                if let RunEvent::Sending(prompt) = event {
                    stale.fetch_add(n_stale(prompt), Ordering::Relaxed);
                }
            })
            .build()
            .expect("an orchestrator")
    }
}

fn n_stale(prompt: &Prompt) -> u64 {
    stale_reasoning(prompt).len() as u64
}

/// A tool that shows a part, and others that come and go.
struct Parts {
    words: usize,
    /// The changes of the list so far.
    lists: AtomicU64,
}

#[async_trait]
impl ToolService for Parts {
    fn definitions(&self, names: &[ToolName]) -> Result<Vec<ToolDefinition>, UnknownToolError> {
        let is_there = self.lists.load(Ordering::Relaxed).is_multiple_of(2);
        let names = names.iter().filter(|name| name.as_str() == "look" || is_there);
        Ok(names
            .map(|name| ToolDefinition {
                name: name.clone(),
                description: format!("Does {name}."),
                parameters: json!({"type": "object"}),
            })
            .collect())
    }

    async fn prepare(&self, _: &[ToolName]) -> Result<u64, ToolsUnavailable> {
        Ok(self.lists.load(Ordering::Relaxed))
    }

    async fn call(&self, call: &ToolCall) -> ToolResult {
        ToolResult::answer(call, format!("{} is a part. ", call.arguments).repeat(self.words / 4))
    }
}
