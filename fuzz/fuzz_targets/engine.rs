//! Any messages in any room: the guarantees of compaction.
#![no_main]

use arbitrary::Arbitrary;
use forge_domain::compaction::{
    Compact, CompactionImpact, CompactionServices, ContextCompactor, Outcome, Rung, Yield,
};
use forge_domain::*;
use forge_services::HandlebarsTemplates;
use futures::FutureExt;
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
struct Input {
    rounds: Vec<Round>,
    rungs: Vec<u8>,
    retained: Option<u8>,
    keeps_system: Option<bool>,
    messages: Option<u8>,
}

#[derive(Debug, Arbitrary)]
struct Round {
    said: Vec<Said>,
    room: u16,
    is_asked: bool,
}

/// A message; ids are few, so that they are used again, answered twice and not at all.
#[derive(Debug, Arbitrary)]
enum Said {
    System(u8),
    User(u16),
    Assistant(u16),
    Calls(Vec<(u8, u8)>, Option<u8>),
    Result(u8, u16),
    Text(String),
}

fn text(size: u16) -> String {
    let mut text = String::new();
    while text.len() < usize::from(size % 3_000) {
        text.push_str(&format!("line {} of src/file_{}.rs failed\n", text.len(), size % 7));
    }
    text
}

fn message(said: &Said) -> Message {
    let call = |id: u8, size: u8| ToolCall {
        id: format!("call_{}", id % 6),
        name: ToolName::new(["read", "run", "edit"][usize::from(id % 3)]).unwrap(),
        arguments: format!("{{\"path\": \"src/{}\"}}", "x".repeat(usize::from(size))),
    };
    match said {
        Said::System(size) => Message::system(text(u16::from(*size))),
        Said::User(size) => Message::user(text(*size)),
        Said::Assistant(size) => Message::assistant(text(*size)),
        Said::Calls(calls, reasoning) => {
            let mut message =
                Message::calling(calls.iter().take(5).map(|(id, size)| call(*id, *size)).collect());
            if let Some(size) = reasoning {
                message.extra.insert("reasoning_content".into(), text(u16::from(*size)).into());
            }
            message
        }
        Said::Result(id, size) => Message::tool(ToolResult::answer(&call(*id, 0), text(*size))),
        Said::Text(text) => Message::user(text.as_str()),
    }
}

fuzz_target!(|input: Input| {
    let rungs: Vec<Rung> = input
        .rungs
        .iter()
        .filter_map(|at| Rung::IDS.get(usize::from(*at) % Rung::IDS.len()))
        .map(|id| serde_rung(id))
        .collect();
    let block = Compact {
        strategies: (!rungs.is_empty()).then_some(rungs),
        retention_window: input.retained.map(usize::from),
        preserve_system_messages: input.keeps_system,
        message_threshold: input.messages.and_then(|n| std::num::NonZeroUsize::new(usize::from(n))),
        ..Compact::default()
    };
    let mut log = Conversation::new();
    for round in &input.rounds {
        for said in round.said.iter().take(60) {
            log.append(ContextMessage::count(message(said), &Characters));
        }
        let budget = budget(u64::from(round.room));
        let Ok(compact) = block.resolve(&budget) else { continue };
        let before = log.view();
        let compactor = ContextCompactor::new();
        let fit = match round.is_asked {
            true => compactor.compact_context(&compact, log.view(), &budget, &Services).now_or_never(),
            false => compactor.fit(&compact, log.view(), &budget, &Services).now_or_never(),
        };
        let fit = fit.expect("nobody is asked");
        match &fit.result {
            Ok(fitted) => {
                assert!(fitted.prompt.tokens() <= budget.room());
                if let Some(compacted) = &fitted.compacted {
                    log.record(compacted).expect("a compaction can be recorded");
                }
            }
            Err(over) => {
                assert!(over.need > over.have, "{over}");
                // What must stay is too much; that strategies broke rules would be no reason.
                let is_whole = over.because.iter().any(|term| term.part == PromptPart::Context);
                assert!(!is_whole, "{over}: {:?}\n{}", fit.report.attempts, outline(&before));
            }
        }
        let after = log.view();
        assert!(log.coverage().is_complete());
        assert_eq!(log.refold(), after);
        assert_eq!(added_breach(before.messages(), after.messages()), None);
        assert!(after.size().tokens <= before.size().tokens && after.size().messages <= before.size().messages);
        // Where system messages had to leave, less must stay than before, and the target is another.
        let is_final = |impact: &CompactionImpact| !impact.yielded.contains(&Yield::SystemMessages);
        if matches!(&fit.report.outcome, Outcome::Applied { impact, .. } if is_final(impact)) {
            let again = compactor.compact_context(&compact, log.view(), &budget, &Services).now_or_never();
            let again = again.expect("nobody is asked").report;
            let outline = || [outline(&before), outline(&after)].join("became\n");
            assert_eq!(again.outcome, Outcome::NothingToCut, "{}after {:?}", outline(), fit.report);
        }
    }
});

/// A line a message: who, how many tokens, how it begins.
fn outline(context: &Context) -> String {
    let line = |message: &ContextMessage| {
        let (tokens, message) = (message.tokens(), message.message());
        let said: String = message.to_text().chars().take(40).collect();
        let calls: Vec<&str> = message.calls().iter().map(|call| call.id.as_str()).collect();
        let answers = match &message.body {
            Body::Tool(result) => &result.call_id,
            _ => "",
        };
        format!("{:?} {tokens} {said:?} {calls:?} {answers}\n", message.role())
    };
    context.messages().iter().map(line).collect()
}

fn serde_rung(id: &str) -> Rung {
    let deserializer = serde_json::Value::from(id);
    serde_json::from_value(deserializer).expect("a strategy is known by its id")
}

fn budget(tokens: u64) -> Budget {
    let model = ModelRef { provider: ProviderId::new("p").unwrap(), model: ModelId::new("m").unwrap() };
    let limits = ModelLimits { window: Tokens::new(tokens), max_output: None };
    Budget::new(limits, ChatOptions::new(model), Vec::new(), &Characters).without_reserve()
}

/// One token for four bytes.
struct Characters;
impl TokenCounter for Characters {
    fn count(&self, text: &str) -> Tokens {
        Tokens::new(text.len().div_ceil(4) as u64)
    }
}

struct Services;

impl CompactionServices for Services {
    fn templates(&self) -> &dyn SummaryTemplate {
        static TEMPLATES: std::sync::OnceLock<HandlebarsTemplates> = std::sync::OnceLock::new();
        TEMPLATES.get_or_init(|| HandlebarsTemplates::new(Default::default()))
    }

    fn providers(&self) -> &dyn ProviderService {
        self
    }

    fn counter(&self) -> &dyn TokenCounter {
        &Characters
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
