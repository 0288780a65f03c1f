//! Compacts a session in every way: cut at every tenth, by every strategy, to small, middling and large targets.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use async_trait::async_trait;
use forge_domain::compaction::{Compact, CompactionServices, ContextCompactor, Outcome, Rung};
use forge_domain::{
    Budget, ChatCompletionMessage, ChatOptions, ChatStream, ContextMessage, Conversation, FinishReason,
    Message, Model, ModelError, ModelId, ModelInfo, ModelLimits, ModelRef, Prompt, ProviderError, ProviderId,
    ProviderService, REQUEST_TOKENS, Role, TemplateService, TokenCounter, Tokens, WindowSource, added_breach,
};
use forge_services::{HandlebarsTemplates, O200kCounter};
use forge_wire::openai::message_json;
use futures::{FutureExt, StreamExt, stream};
use serde_json::{Value, json};

/// The targets, in percent of what is not pinned.
pub const TARGETS: [u64; 3] = [2, 10, 50];

/// What came of it, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Sessions.
    pub sessions: usize,
    /// Compactions that were asked for.
    pub compactions: usize,
    /// Of these, what fits now and did not before.
    pub applied: usize,
    /// Of these, what fitted as it was.
    pub untouched: usize,
    /// Of these, what was truthfully said not to fit.
    pub still_over: usize,
    /// What broke a promise, in words.
    pub faults: Vec<String>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} sessions, {} compactions: {} applied, {} untouched, {} still over; {} faults",
            self.sessions,
            self.compactions,
            self.applied,
            self.untouched,
            self.still_over,
            self.faults.len()
        )
    }
}

/// Every strategy that the engine knows by name, each alone, and the default ladder as `default`.
pub fn strategies() -> Vec<(String, Compact)> {
    let model = || Some(ModelId::new("canned").expect("a name"));
    let mut all = vec![("default".to_owned(), Compact::default())];
    for id in Rung::IDS {
        let rung: Rung = serde_json::from_value(json!(id)).expect("a strategy is known by its id");
        all.push((
            (*id).to_owned(),
            Compact { strategies: Some(vec![rung]), model: model(), ..Compact::default() },
        ));
    }
    all
}

/// Compacts `messages` in every way. `judged` is handed what independent judges are to look at, one JSON object for each
/// cut and each result; texts are cut short there, because no rule asks for their length.
pub fn sweep(id: &str, messages: Vec<Message>, tally: &mut Tally, judged: &mut dyn FnMut(Value)) {
    tally.sessions += 1;
    let counted: Vec<ContextMessage> =
        messages.into_iter().map(|message| ContextMessage::count(message, &O200kCounter)).collect();
    let strategies = strategies();
    let mut last_cut = 0;
    for tenth in 1..=10 {
        let cut = whole_exchanges(&counted, counted.len() * tenth / 10);
        if cut <= last_cut {
            continue;
        }
        last_cut = cut;
        let mut conversation = Conversation::new();
        for message in &counted[..cut] {
            conversation.append(message.clone());
        }
        judged(json!({"id": id, "cut": tenth, "messages": short_json(&counted[..cut])}));
        for percent in TARGETS {
            for (name, compact) in &strategies {
                let what = format!("{id} cut {tenth}/10, {name} to {percent}%");
                if let Some(after) = compacted(&what, compact, percent, &conversation, tally) {
                    judged(json!({"id": id, "cut": tenth, "strategy": name, "target": percent,
                        "messages": short_json(&after)}));
                }
            }
        }
    }
}

/// One compaction; what came of it goes into the books. What was applied is given back.
fn compacted(
    what: &str,
    compact: &Compact,
    percent: u64,
    conversation: &Conversation,
    tally: &mut Tally,
) -> Option<Vec<ContextMessage>> {
    let view = conversation.view();
    let pinned: Tokens = view.messages()[..view.n_leading_system()]
        .iter()
        .chain(view.first_user().map(|at| &view.messages()[at]))
        .map(ContextMessage::tokens)
        .sum();
    let rest = view.size().tokens - pinned - REQUEST_TOKENS;
    let limit = REQUEST_TOKENS + pinned + rest.share(percent, 100);
    tally.compactions += 1;
    let fit = |limit: Tokens| {
        let budget = budget(limit);
        let compact = compact.clone().max_tokens(forge_domain::TokenLimit::Tokens(limit));
        let compact = compact.resolve(&budget).expect("a target alone contradicts nothing");
        ContextCompactor::new().fit(&compact, view.clone(), &budget, &Canned).now_or_never()
    };
    let Some(done) = fit(limit) else { panic!("{what}: canned answers never wait") };
    let mut fault = |fault: String| tally.faults.push(format!("{what}: {fault}"));
    match (done.report.outcome, done.result) {
        (Outcome::StillOver(over), Err(_)) => {
            if over.need <= over.have
                || over.because.iter().map(|term| term.tokens).sum::<Tokens>() != over.need
            {
                fault(format!("the refusal does not add up: {over}"));
            }
            // It is the least that is needed: with that much there is a way.
            if fit(over.need).is_none_or(|again| again.result.is_err()) {
                fault(format!("it was said to need {}, and does not fit that either", over.need));
            }
            tally.still_over += 1;
            None
        }
        (_, Err(over)) => {
            fault(format!("refused without saying so: {over}"));
            None
        }
        (outcome, Ok(fitted)) => {
            let messages = fitted.prompt.messages();
            let plain = messages.iter().map(|message| message.message().clone());
            let tokens: Tokens =
                plain.map(|message| ContextMessage::count(message, &O200kCounter).tokens()).sum();
            if REQUEST_TOKENS + tokens > limit {
                fault(format!("{} tokens are over the limit {limit}", REQUEST_TOKENS + tokens));
            }
            if let Some(breach) = added_breach(view.messages(), messages) {
                fault(format!("a rule was broken: {breach}"));
            }
            if matches!(outcome, Outcome::Applied { .. }) {
                tally.applied += 1;
                return Some(messages.to_vec());
            }
            tally.untouched += 1;
            None
        }
    }
}

/// The cut moved to where the exchange that it is in ends.
fn whole_exchanges(messages: &[ContextMessage], cut: usize) -> usize {
    let rest = messages.get(cut..).unwrap_or_default();
    cut + rest.iter().take_while(|message| message.message().role() == Role::Tool).count()
}

fn budget(limit: Tokens) -> Budget {
    let options = ChatOptions::new(canned().reference);
    let limits = ModelLimits { window: limit, max_output: None };
    Budget::new(limits, options, Vec::new(), &O200kCounter).without_reserve()
}

fn canned() -> Model {
    let name = |text: &str| ModelId::new(text).expect("a name");
    Model {
        reference: ModelRef { provider: ProviderId::new("canned").expect("a name"), model: name("canned") },
        limits: ModelLimits { window: Tokens::new(1_000_000), max_output: None },
        window_source: WindowSource::Configured,
    }
}

/// The messages as a request has them, every text cut short.
fn short_json(messages: &[ContextMessage]) -> Vec<Value> {
    const KEPT: usize = 60;
    let short = |text: &str| text.trim_start().chars().take(KEPT).collect::<String>();
    let mut list: Vec<Value> = messages.iter().map(|message| message_json(message.message())).collect();
    for message in &mut list {
        match &mut message["content"] {
            Value::String(text) => *text = short(text),
            Value::Array(parts) => {
                for part in parts.iter_mut().filter_map(|part| part.get_mut("text")) {
                    *part = part.as_str().map_or(Value::Null, |text| json!(short(text)));
                }
            }
            _ => {}
        }
    }
    list
}

/// A summariser that always says the same.
struct Canned;

impl CompactionServices for Canned {
    fn templates(&self) -> &dyn TemplateService {
        static TEMPLATES: OnceLock<HandlebarsTemplates> = OnceLock::new();
        TEMPLATES.get_or_init(|| HandlebarsTemplates::new(BTreeMap::new()))
    }

    fn providers(&self) -> &dyn ProviderService {
        self
    }

    fn counter(&self) -> &dyn TokenCounter {
        &O200kCounter
    }

    fn model(&self, _: &ModelId) -> Result<Model, ModelError> {
        Ok(canned())
    }
}

#[async_trait]
impl ProviderService for Canned {
    async fn chat(&self, _: Prompt) -> Result<ChatStream, ProviderError> {
        let said = "<forge_context_summary>The work went on as asked.</forge_context_summary>";
        let piece = ChatCompletionMessage {
            content: Some(said.to_owned()),
            finish_reason: Some(FinishReason::Stop),
            ..ChatCompletionMessage::default()
        };
        Ok(stream::iter([Ok(piece)]).boxed())
    }

    async fn models(&self, _: &ProviderId) -> Result<Vec<ModelInfo>, ProviderError> {
        Ok(Vec::new())
    }
}
