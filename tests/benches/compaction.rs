//! How long the things take that happen before every call, and the rare ones that do not.
//!
//! ```text
//! cargo bench -p forge_tests
//! ```
//!
//! Inputs are sessions like those of coding agents, made up here, always the same: files read and read again, commands
//! and their output, edits, a request of the user's now and then. What each figure is held to stands beside it.

#![allow(clippy::disallowed_methods, reason = "benchmarks write files and start the binary")]
#![allow(clippy::unwrap_used, reason = "a panic is how a benchmark fails")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use divan::{Bencher, black_box};
use forge_app::{CompactSession, SessionRoom, compact_session};
use forge_domain::compaction::{Compact, CompactionSettings, ContextCompactor, Outcome, Rung};
use forge_domain::*;
use forge_services::{ApproximateCounter, HandlebarsTemplates, O200kCounter};
use forge_transcript::{Draft, number_of, read, write_messages};
use futures::FutureExt;

fn main() {
    // The vocabularies are loaded once a process, before anything is timed.
    O200kCounter.count("warm");
    tiktoken_rs::o200k_base_singleton();
    divan::main();
}

// --- the check before every call

/// A check where nothing is due: the measure, the limits by it, the triggers, the proof.
#[divan::bench(args = [100, 1_000, 10_000, 100_000])]
fn check_before_a_call(bencher: Bencher<'_, '_>, n_messages: usize) {
    let mut conversation = Conversation::new();
    for n in 0..n_messages {
        conversation
            .append(ContextMessage::count(Message::user(format!("message {n}")), &ApproximateCounter));
    }
    let budget = budget(100_000_000);
    let compact = Compact::default().resolve(&budget).unwrap();
    let model = budget.options().model.clone();
    let said = Usage { prompt_tokens: conversation.view().size().tokens.share(11, 10), ..Usage::default() };
    conversation.report_usage(&model, conversation.view().size().tokens, said);
    bencher.bench_local(|| {
        let scale = conversation.scale(&model);
        let (budget, compact) = (budget.measured(scale), compact.measured(scale, &budget));
        let compactor = ContextCompactor::new();
        let fit = compactor.fit(&compact, conversation.view(), &budget, &Services);
        black_box(fit.now_or_never().unwrap().result.unwrap())
    });
}

// --- compaction of 200,000 tokens and more, to a tenth

const SIZES: [u64; 3] = [100_000, 200_000, 1_000_000];

/// Counts and features are known from earlier calls.
#[divan::bench(args = SIZES)]
fn compact_warm_default_ladder(bencher: Bencher<'_, '_>, tokens: u64) {
    compact_warm(bencher, tokens, &Compact::default());
}

/// As above, by the record alone.
#[divan::bench(args = SIZES)]
fn compact_warm_extraction(bencher: Bencher<'_, '_>, tokens: u64) {
    compact_warm(bencher, tokens, &extraction());
}

/// Everything from the plain messages on: counting, features, compaction.
#[divan::bench(args = SIZES)]
fn compact_cold_default_ladder(bencher: Bencher<'_, '_>, tokens: u64) {
    compact_cold(bencher, tokens, &Compact::default());
}

/// As above, by the record alone.
#[divan::bench(args = SIZES)]
fn compact_cold_extraction(bencher: Bencher<'_, '_>, tokens: u64) {
    compact_cold(bencher, tokens, &extraction());
}

fn extraction() -> Compact {
    Compact::default().strategies(vec![rung("extraction")])
}

fn rung(id: &str) -> Rung {
    serde_json::from_value(serde_json::json!(id)).unwrap()
}

fn compact_warm(bencher: Bencher<'_, '_>, tokens: u64, compact: &Compact) {
    // As many sessions of each size as come to the same in all, one after the other: between two compactions of a session
    // there are calls to a model, after which the processor's cache holds nothing of it, however small it is.
    let in_turn = 0..SIZES[SIZES.len() - 1] / tokens;
    let views: Vec<Context> = in_turn.map(|nth| counted(&session_of(tokens, nth)).view()).collect();
    let asked: Vec<_> = views.iter().map(|view| a_tenth_of(view.size().tokens, compact)).collect();
    views.iter().zip(&asked).for_each(|(view, (budget, compact))| assert_applied(compact, view, budget));
    let mut in_turn = views.iter().zip(&asked).cycle();
    // A view of its own each time: what is found out about it once, such as its groups, is to be timed.
    let mut next = || in_turn.next().map(|(view, asked)| (view.edit(Vec::new()), asked)).unwrap();
    bencher.with_inputs(&mut next).bench_local_values(|(view, (budget, compact))| {
        let compactor = ContextCompactor::new();
        let fit = compactor.fit(compact, view, budget, &Services);
        black_box(fit.now_or_never().unwrap())
    });
}

fn compact_cold(bencher: Bencher<'_, '_>, tokens: u64, compact: &Compact) {
    let messages = session(tokens);
    bencher.with_inputs(|| messages.clone()).bench_local_values(|messages| {
        let mut conversation = Conversation::new();
        for message in messages {
            conversation.append(ContextMessage::count(message, &O200kCounter));
        }
        let view = conversation.view();
        let (budget, compact) = a_tenth_of(view.size().tokens, compact);
        black_box(ContextCompactor::new().fit(&compact, view, &budget, &Services).now_or_never().unwrap());
        conversation
    });
}

/// A result that was refused would be quick and worth nothing.
fn assert_applied(compact: &CompactionSettings, view: &Context, budget: &Budget) {
    let compactor = ContextCompactor::new();
    let fit = compactor.fit(compact, view.clone(), budget, &Services);
    let report = fit.now_or_never().unwrap().report;
    assert!(matches!(report.outcome, Outcome::Applied { .. }), "{report:?}");
}

fn a_tenth_of(tokens: Tokens, compact: &Compact) -> (Budget, CompactionSettings) {
    let budget = budget(tokens.share(1, 10).as_u64());
    let compact = compact.clone().max_tokens(TokenLimit::Tokens(budget.room())).resolve(&budget).unwrap();
    (budget, compact)
}

// --- counting

/// All texts of the session, which the counters' caches of pieces do not know.
#[divan::bench(args = ["forge", "tiktoken_rs", "approximate"])]
fn count_200k_cold(bencher: Bencher<'_, '_>, counter: &str) {
    let mut nth = 0;
    bencher
        .with_inputs(|| {
            nth += 1;
            texts(&session_of(200_000, nth))
        })
        .bench_local_values(|texts| texts.iter().map(|text| count(counter, text)).sum::<u64>());
}

/// The same texts again and again.
#[divan::bench(args = ["forge", "tiktoken_rs", "approximate"])]
fn count_200k_warm(bencher: Bencher<'_, '_>, counter: &str) {
    let texts = texts(&session(200_000));
    bencher.bench_local(|| texts.iter().map(|text| count(counter, text)).sum::<u64>());
}

fn count(counter: &str, text: &str) -> u64 {
    match counter {
        "tiktoken_rs" => tiktoken_rs::o200k_base_singleton().encode_ordinary(text).len() as u64,
        "approximate" => ApproximateCounter.count(text).as_u64(),
        _ => O200kCounter.count(text).as_u64(),
    }
}

fn texts(messages: &[Message]) -> Vec<String> {
    let said = |message: &Message| {
        message.to_text() + &message.calls().iter().map(|call| call.arguments.as_str()).collect::<String>()
    };
    messages.iter().map(said).collect()
}

// --- `forge compact`, reading and writing included

/// All that the command does, in this process.
#[divan::bench]
fn compact_session_200k_in_process(bencher: Bencher<'_, '_>) {
    let bytes = write_messages(&session(200_000));
    bencher.bench_local(|| {
        let sessions = read(&bytes, "session.json").unwrap();
        let draft = Draft::open(&sessions[0], 0);
        let asked = CompactSession {
            compact: Compact::default(),
            room: SessionRoom::Limit(Tokens::new(20_000)),
            tools_tokens: Tokens::ZERO,
            number_of,
        };
        let compactor = ContextCompactor::new();
        let done = compact_session(draft.counted_messages(&O200kCounter), &asked, &compactor, &Services);
        let done = done.now_or_never().unwrap().unwrap();
        black_box(draft.rewrite(&bytes, &done.replacements, draft.format()).unwrap())
    });
}

/// The whole process, from the start of the binary to its end. `cargo build --release` makes the binary.
#[divan::bench]
fn forge_compact_200k_process(bencher: Bencher<'_, '_>) {
    let binary = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/forge");
    if !binary.exists() {
        eprintln!("skipped: there is no {}: run `cargo build --release` first", binary.display());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    std::fs::write(path("in.json"), write_messages(&session(200_000))).unwrap();
    bencher.bench_local(|| {
        let mut command = Command::new(&binary);
        command.arg("compact").arg(path("in.json")).args(["--max-tokens", "20000", "--output"]);
        let done = command.arg(path("out.json")).env("HOME", folder.path()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    });
}

// --- made-up sessions

/// A session of some `tokens` tokens.
fn session(tokens: u64) -> Vec<Message> {
    session_of(tokens, 0)
}

/// The `nth` of many sessions; their words differ.
fn session_of(tokens: u64, nth: u64) -> Vec<Message> {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15 ^ nth.wrapping_mul(0xd134_2543_de82_ef95));
    let mut messages = vec![
        Message::system("You are a coding agent. Read before you edit; run the tests after every change."),
        Message::user(format!("Please mend the {} module: {}", dice.name(), dice.prose(40))),
    ];
    // A quarter of the bytes is a good guess for the tokens of such text.
    let mut bytes = 0;
    while bytes < tokens * 4 {
        let id = format!("call_{}", messages.len());
        let path = format!("src/{}/{}.rs", dice.word(), dice.below(40));
        let (tool, arguments, result) = match dice.below(10) {
            0..5 => ("read", serde_json::json!({"path": path}), dice.code(&path)),
            5..8 => {
                ("run", serde_json::json!({"command": format!("cargo test {}", dice.name())}), dice.output())
            }
            _ => (
                "edit",
                serde_json::json!({"path": path, "old": dice.line(), "new": dice.line()}),
                format!("{path} was changed"),
            ),
        };
        let call = ToolCall { id, name: ToolName::new(tool).unwrap(), arguments: arguments.to_string() };
        let mut calling = Message::calling(vec![call.clone()]);
        if dice.below(3) == 0 {
            calling = calling.with_content(dice.prose(30));
        }
        let answered = Message::tool(ToolResult::answer(&call, result));
        bytes += [&calling, &answered].map(|message| message.to_text().len() as u64).iter().sum::<u64>();
        bytes += call.arguments.len() as u64;
        messages.extend([calling, answered]);
        if dice.below(25) == 0 {
            messages.push(Message::user(format!("Never touch {}. {}", dice.name(), dice.prose(25))));
        }
    }
    messages
}

fn counted(messages: &[Message]) -> Conversation {
    let mut conversation = Conversation::new();
    for message in messages {
        conversation.append(ContextMessage::count(message.clone(), &O200kCounter));
    }
    conversation
}

/// Numbers that look thrown and are always the same.
struct Dice(u64);

const WORDS: &[&str] = &[
    "parse", "token", "buffer", "stream", "index", "cache", "window", "session", "config", "error", "value",
    "request", "handler", "result", "message", "context", "record", "query", "schema", "worker", "queue",
    "path", "node", "graph", "order", "state", "event", "column", "writer", "reader", "frame", "packet",
    "signal", "lock",
];

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn word(&mut self) -> &'static str {
        WORDS[self.below(WORDS.len() as u64) as usize]
    }

    fn name(&mut self) -> String {
        let tail = self.below(1_000);
        format!("{}_{}_{tail}", self.word(), self.word())
    }

    fn prose(&mut self, n_words: u64) -> String {
        let words: Vec<&str> = (0..n_words).map(|_| self.word()).collect();
        format!("The {} must not change.", words.join(" "))
    }

    fn line(&mut self) -> String {
        let (name, from, to) = (self.name(), self.word(), self.word());
        match self.below(5) {
            0 => format!("    let {name} = self.{from}.{to}({});", self.below(10_000)),
            1 => format!("pub fn {name}({from}: &{to}, limit: usize) -> Result<Vec<u8>, {to}Error> {{"),
            2 => format!("        // the {from} is kept until the {to} of {name} has been written"),
            3 => format!("    if {name}.is_empty() {{ return Err(\"no {from} in {to}\".into()); }}"),
            _ => "}".to_owned(),
        }
    }

    fn code(&mut self, path: &str) -> String {
        let n_lines = 20 + self.below(160);
        let lines: Vec<String> = (0..n_lines).map(|n| format!("{:>5}\t{}", n + 1, self.line())).collect();
        format!("// {path}\n{}", lines.join("\n"))
    }

    fn output(&mut self) -> String {
        let n_tests = 5 + self.below(60);
        let mut lines: Vec<String> = (0..n_tests).map(|_| format!("test {} ... ok", self.name())).collect();
        if self.below(3) == 0 {
            let (path, line, name) = (self.word(), self.below(900), self.name());
            lines.push(format!(
                "error[E0425]: cannot find value `{name}` in this scope\n --> src/{path}.rs:{line}:9"
            ));
        }
        lines.push(format!("test result: ok. {n_tests} passed; 0 failed; finished in 0.{}s", self.below(99)));
        lines.join("\n")
    }
}

// --- services that nobody asks

fn budget(tokens: u64) -> Budget {
    let model = ModelRef { provider: ProviderId::new("p").unwrap(), model: ModelId::new("m").unwrap() };
    let limits = ModelLimits { window: Tokens::new(tokens), max_output: None };
    Budget::new(limits, ChatOptions::new(model), Vec::new(), &O200kCounter).without_reserve()
}

struct Services;

static TEMPLATES: LazyLock<HandlebarsTemplates> = LazyLock::new(|| HandlebarsTemplates::new(BTreeMap::new()));

impl compaction::CompactionServices for Services {
    fn templates(&self) -> &dyn SummaryTemplate {
        &*TEMPLATES
    }

    fn providers(&self) -> &dyn ProviderService {
        self
    }

    fn counter(&self) -> &dyn TokenCounter {
        &O200kCounter
    }

    fn model(&self, id: &ModelId) -> Result<Model, ModelError> {
        Err(ModelError::NoProvider { model: id.clone(), providers: String::new() })
    }
}

#[async_trait::async_trait]
impl ProviderService for Services {
    async fn chat(&self, _: Prompt) -> Result<ChatStream, ProviderError> {
        Err(ProviderError::RecordingEnded)
    }

    async fn models(&self, _: &ProviderId) -> Result<Vec<ModelInfo>, ProviderError> {
        Ok(Vec::new())
    }
}
