//! Long runs against a server with faults: what it does, what runs against it, and what must hold of them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use forge_app::{Checkpointing, Orchestrator, RunEvent, RunReport, StopReason};
use forge_domain::{
    CheckpointStore, ContextMessage, Conversation, Pause, Prompt, Provider, ProviderId, ProviderKind, Role,
    RunId, ToolCall, ToolDefinition, ToolName, ToolResult, ToolService, UnknownToolError, Workflow,
    openai_breaches,
};
use forge_infra::{
    AnthropicProvider, GeminiProvider, Key, OllamaProvider, OpenAiProvider, ResponsesProvider, SystemClock,
};
use forge_services::{RetryPolicy, RetryingProvider};
use forge_wire::{Delivery, anthropic, gemini, ollama, openai, responses};
use serde_json::json;

use crate::Step;

/// A long run.
#[derive(Clone, Copy, Debug)]
pub struct Endurance {
    /// Replies of the model, the last of which calls no tool.
    pub iterations: usize,
    /// Of a hundred iterations, this many begin with a fault.
    pub percent_faulty: u64,
    /// The model's window.
    pub window: u64,
    /// The size of what the tool says at first, in words, so that the context is soon as large as it will be.
    pub first_words: usize,
    /// How often it says so much.
    pub first_times: usize,
    /// The size of what it says from then on.
    pub words: usize,
}

impl Endurance {
    /// What the server does, request by request; the same for the same figures.
    pub fn script(&self) -> Vec<Step> {
        let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
        let mut script = Vec::new();
        let mut n_faults = 0;
        for nth in 1..self.iterations {
            if chance.below(100) < self.percent_faulty {
                script.extend(fault(n_faults, self.window));
                n_faults += 1;
            }
            let arguments = format!("{{\"path\": \"src/part_{}.rs\"}}", nth % 37);
            script.push(match nth % 50 {
                // A slow server.
                0 => Step::Drip(vec![("look".to_owned(), arguments)]),
                _ => Step::calls(&[("look", arguments.as_str())]),
            });
        }
        script.push(Step::text("All is done."));
        script
    }

    /// How many of the steps are faults.
    pub fn n_faults(&self) -> usize {
        self.script().len() - self.iterations
    }

    /// Runs against the server at `base_url` and keeps checkpoints in `store`; `watch` is told of each request and of each
    /// checkpoint, with the number of replies so far.
    ///
    /// # Panics
    /// Where the run cannot be set up.
    pub async fn run(
        &self,
        kind: ProviderKind,
        base_url: &str,
        store: Arc<dyn CheckpointStore>,
        watch: impl Fn(usize, Moment) + Send + Sync + 'static,
    ) -> Endured {
        let id = ProviderId::new("p").expect("a name");
        let provider: Arc<dyn Provider> = match kind {
            ProviderKind::Gemini => {
                Arc::new(GeminiProvider::new(id.clone(), base_url, Key::None).expect("set up"))
            }
            ProviderKind::Responses => {
                Arc::new(ResponsesProvider::new(id.clone(), base_url, Key::None).expect("set up"))
            }
            ProviderKind::OpenAi | ProviderKind::OpenAiChat => {
                Arc::new(OpenAiProvider::new(id.clone(), base_url, Key::None).expect("set up"))
            }
            ProviderKind::Anthropic => {
                Arc::new(AnthropicProvider::new(id.clone(), base_url, Key::None).expect("set up"))
            }
            ProviderKind::Ollama => {
                Arc::new(OllamaProvider::new(id.clone(), base_url, Key::None).expect("set up"))
            }
        };
        let provider =
            RetryingProvider::new(provider, RetryPolicy::default(), Arc::new(NoPause), 7, Arc::new(|_| {}));
        let workflow: Workflow = serde_json::from_value(json!({
            "providers": {"p": {}},
            "models": {"p:m": {"window": self.window, "max_output": 1000}},
            "agents": [{"id": "one", "model": "p:m", "system_prompt": "You look at parts."}],
        }))
        .expect("a workflow");
        let seen = Arc::new(Mutex::new(Seen::default()));
        let noted = Arc::clone(&seen);
        let tool = Looks { endurance: *self, n_calls: Mutex::new(0) };
        let mut orchestrator = Orchestrator::builder()
            .workflow(workflow)
            .provider(id, Arc::new(provider))
            .tools(Arc::new(tool))
            .checkpoints(Checkpointing::new(
                store,
                Arc::new(SystemClock),
                RunId::new("long").expect("a name"),
            ))
            .watcher(move |event: &RunEvent<'_>| {
                let mut seen = noted.lock().expect("no panic");
                match event {
                    RunEvent::Sending(prompt) => {
                        watch(seen.replies, Moment::Checking);
                        let tokens = prompt.tokens().as_u64();
                        seen.over_window += usize::from(tokens > prompt.window().as_u64());
                        seen.broken += usize::from(!openai_breaches(prompt.messages()).is_empty());
                        seen.largest = seen.largest.max(tokens);
                        let body_bytes = body_bytes(kind, prompt);
                        watch(seen.replies, Moment::Sending { prompt_tokens: tokens, body_bytes });
                    }
                    RunEvent::Replied { .. } => seen.replies += 1,
                    RunEvent::Checkpointed { took, .. } => watch(seen.replies, Moment::Saved { took: *took }),
                    RunEvent::Notice(_) => seen.notices += 1,
                    _ => {}
                }
            })
            .build()
            .expect("an orchestrator");
        let outcome = orchestrator.run("Look at every part.").await.map_err(|error| error.to_string());
        let conversation = orchestrator.conversation("one").cloned().unwrap_or_default();
        let seen = std::mem::take(&mut *seen.lock().expect("no panic"));
        Endured { outcome, conversation, seen }
    }
}

/// Returns the bytes of the request that a provider of that kind makes of `prompt`.
fn body_bytes(kind: ProviderKind, prompt: &Prompt) -> usize {
    let body = match kind {
        ProviderKind::Anthropic => {
            let stale = anthropic::StaleThinking::Refused;
            serde_json::to_vec(&anthropic::request(prompt, Delivery::Stream, stale))
        }
        ProviderKind::Ollama => {
            serde_json::to_vec(&ollama::request(prompt, prompt.window(), Delivery::Stream))
        }
        ProviderKind::Gemini => serde_json::to_vec(&gemini::request(prompt)),
        ProviderKind::Responses => serde_json::to_vec(&responses::request(prompt, Delivery::Stream)),
        ProviderKind::OpenAi | ProviderKind::OpenAiChat => {
            serde_json::to_vec(&openai::request(prompt, Delivery::Stream))
        }
    };
    body.map_or(0, |body| body.len())
}

/// Something in the middle of a long run.
#[derive(Clone, Copy, Debug)]
pub enum Moment {
    /// The prompt of a request is about to be checked, which is no part of the run.
    Checking,
    /// The prompt was checked, and the request goes out.
    Sending {
        /// Tokens of its prompt.
        prompt_tokens: u64,
        /// Bytes of its body.
        body_bytes: usize,
    },
    /// A checkpoint was saved.
    Saved {
        /// How long the run waited for it.
        took: Duration,
    },
}

/// What came of a long run.
pub struct Endured {
    /// The report, or why there is none.
    pub outcome: Result<RunReport, String>,
    /// The log.
    pub conversation: Conversation,
    /// What was seen on the way.
    pub seen: Seen,
}

/// What was seen of the prompts.
#[derive(Debug, Default)]
pub struct Seen {
    /// Whole replies.
    pub replies: usize,
    /// Prompts over their window.
    pub over_window: usize,
    /// Prompts that break a provider's rules.
    pub broken: usize,
    /// Tokens of the largest prompt.
    pub largest: u64,
    /// Notices: faults that were told.
    pub notices: usize,
}

impl Endured {
    /// Everything that does not hold and should; empty where nothing was lost.
    pub fn losses(&self, endurance: &Endurance) -> Vec<String> {
        let mut losses = Vec::new();
        let mut must = |holds: bool, what: String| {
            if !holds {
                losses.push(what);
            }
        };
        match &self.outcome {
            Err(error) => must(false, format!("the run failed: {error}")),
            Ok(report) => {
                must(report.stop == StopReason::Done, format!("it ended by {:?}", report.stop));
                must(report.response == "All is done.", format!("it said {:?}", report.response));
                must(report.iterations == endurance.iterations, format!("{} iterations", report.iterations));
            }
        }
        let roles = |role: Role| {
            self.conversation.messages().filter(|message| message.message().role() == role).count()
        };
        // A system message, the task, and a result for each call.
        let expected = [1, 1, endurance.iterations, endurance.iterations - 1];
        let actual = [Role::System, Role::User, Role::Assistant, Role::Tool].map(roles);
        must(actual == expected, format!("messages by role: {actual:?} instead of {expected:?}"));
        let coverage = self.conversation.coverage();
        must(
            coverage.appended == coverage.verbatim + coverage.replaced
                && coverage.appended == expected.iter().sum::<usize>(),
            format!("{coverage:?}"),
        );
        must(
            openai_breaches(&self.conversation.messages().cloned().collect::<Vec<ContextMessage>>())
                .is_empty(),
            "the log breaks a rule".to_owned(),
        );
        must(self.seen.over_window == 0, format!("{} prompts over the window", self.seen.over_window));
        must(self.seen.broken == 0, format!("{} prompts break a rule", self.seen.broken));
        losses
    }
}

/// The faults of the field in turn; each is over when its steps are.
fn fault(nth: usize, window: u64) -> Vec<Step> {
    let error = |kind: &str, message: &str| {
        json!({"type": "error", "error": {"type": kind, "message": message}}).to_string()
    };
    let too_long = format!("prompt is too long: {} tokens > {window} maximum", window + window / 50);
    let headed = |status, name: &str, value: &str, body| Step::Headed {
        status,
        headers: vec![(name.to_owned(), value.to_owned())],
        body,
    };
    match nth % 16 {
        0 => vec![headed(429, "retry-after", "1", error("rate_limit_error", "slow down"))],
        1 => vec![Step::BreakStream],
        2 => vec![Step::CutStream],
        3 => vec![Step::Garbage],
        4 => vec![Step::status(529, error("overloaded_error", "Overloaded")); 2],
        5 => vec![Step::HangUp],
        6 => vec![Step::status(400, error("invalid_request_error", &too_long))],
        7 => vec![Step::status(500, "upstream connect error")],
        8 => vec![Step::StreamEvent(error("overloaded_error", "Overloaded"))],
        9 => vec![headed(503, "retry-after-ms", "250", "<html>no</html>".to_owned())],
        10 => vec![Step::status(200, "{\"error\": {\"code\": 502, \"message\": \"Upstream idle timeout\"}}")],
        11 => vec![Step::status(408, "")],
        12 => vec![Step::status(200, "{")],
        13 => vec![Step::BreakStream, Step::HangUp],
        14 => vec![headed(429, "retry-after", "Wed, 21 Oct 2015 07:28:00 GMT", "{}".to_owned())],
        _ => vec![Step::CutStream, Step::CutStream],
    }
}

/// A tool that says much at first, then little.
struct Looks {
    endurance: Endurance,
    n_calls: Mutex<usize>,
}

#[async_trait]
impl ToolService for Looks {
    fn definitions(&self, _: &[ToolName]) -> Result<Vec<ToolDefinition>, UnknownToolError> {
        Ok(Vec::new())
    }

    async fn call(&self, call: &ToolCall) -> ToolResult {
        let nth = {
            let mut n_calls = self.n_calls.lock().expect("no panic");
            *n_calls += 1;
            *n_calls
        };
        let n_words =
            if nth <= self.endurance.first_times { self.endurance.first_words } else { self.endurance.words };
        let mut chance = Chance(nth as u64);
        let lines = (0..n_words / 10).map(|line| {
            let name = chance.below(100_000);
            format!("{line}: fn item_{name}(part: &Part) -> usize {{ part.len() + {} }}\n", nth + line)
        });
        ToolResult::answer(call, lines.collect::<String>())
    }
}

/// Lets no time pass.
struct NoPause;

#[async_trait]
impl Pause for NoPause {
    async fn pause(&self, _: Duration) {}
}

/// Numbers that look random, and are the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}
