//! Compacts a session in every way: cut at every tenth, by every strategy, to small, middling and large targets, and again
//! and again as it grows. Each compaction is held against the same guarantees as those of random conversations.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use async_trait::async_trait;
use forge_domain::compaction::{
    CheckedFit, Compact, CompactionServices, ContextCompactor, Outcome, Rung, fit_and_check,
};
use forge_domain::{
    Abilities, Budget, ChatCompletionMessage, ChatOptions, ChatStream, ContextMessage, Conversation,
    FinishReason, Message, Model, ModelError, ModelId, ModelInfo, ModelLimits, ModelRef, Prompt,
    ProviderError, ProviderId, ProviderService, REQUEST_TOKENS, RequestOptions, Role, SummaryTemplate,
    TokenCounter, Tokens, WindowSource,
};
use forge_services::{HandlebarsTemplates, O200kCounter};
use forge_wire::openai::{message_json, messages_json};
use forge_wire::strict_turn_faults;
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

/// The model whose templates take the strictest turns.
const STRICT: &str = "mistral";
/// A model whose templates are known for nothing.
const PLAIN: &str = "open-model";

/// What independent judges are to look at: a session up to a cut, or what a compaction made of it.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'a> {
    /// The session.
    pub id: &'a str,
    /// The cut, in tenths.
    pub cut: usize,
    /// The strategy and its target in percent; `None` for the session as it was.
    pub by: Option<(&'a str, u64)>,
    /// The messages.
    pub messages: &'a [ContextMessage],
}

impl Judged<'_> {
    /// Returns it with its messages in OpenAI's form, one by one. Texts are cut short, because no rule asks for their length.
    pub fn to_json(&self) -> Value {
        let list = self.messages.iter().map(|message| message_json(message.message())).collect();
        let mut json = json!({"id": self.id, "cut": self.cut});
        if let Some((strategy, target)) = self.by {
            json["strategy"] = json!(strategy);
            json["target"] = json!(target);
        }
        json["messages"] = Value::Array(with_short_texts(list));
        json
    }

    /// Returns the messages in three forms, texts cut short: as they are (`raw`), and as they are sent to a model whose name says
    /// nothing (`plain`) and to one of a family with the strictest turns (`strict`).
    pub fn wire_json(&self) -> Value {
        let plain = || self.messages.iter().map(ContextMessage::message);
        json!({
            "raw": with_short_texts(plain().map(message_json).collect()),
            "plain": with_short_texts(messages_json(plain(), PLAIN)),
            "strict": with_short_texts(messages_json(plain(), STRICT)),
        })
    }
}

/// Compacts `messages` in every way. `judged` is handed each cut and each result.
pub fn sweep(id: &str, messages: Vec<Message>, tally: &mut Tally, judged: &mut dyn FnMut(&Judged<'_>)) {
    tally.sessions += 1;
    let counted: Vec<ContextMessage> =
        messages.into_iter().map(|message| ContextMessage::count(message, &O200kCounter)).collect();
    let strategies = strategies();
    strategies.iter().for_each(|strategy| relive(id, &counted, strategy, tally));
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
        judged(&Judged { id, cut: tenth, by: None, messages: &counted[..cut] });
        let limits = TARGETS.map(|percent| (percent, limit(&conversation, percent)));
        for (percent, limit) in limits {
            for (name, compact) in &strategies {
                let what = format!("{id} cut {tenth}/10, {name} to {percent}%");
                if let Some(after) = compacted(&what, compact, limit, &mut conversation.clone(), tally) {
                    judged(&Judged { id, cut: tenth, by: Some((name, percent)), messages: &after });
                }
            }
        }
    }
}

/// Lives `messages` through a tenth at a time and compacts each time, to a tenth of what the whole has unpinned.
fn relive(id: &str, messages: &[ContextMessage], (name, compact): &(String, Compact), tally: &mut Tally) {
    let whole = messages.iter().fold(Conversation::new(), |mut whole, message| {
        whole.append(message.clone());
        whole
    });
    let limit = limit(&whole, 10);
    let (mut conversation, mut last_cut) = (Conversation::new(), 0);
    for tenth in 1..=10 {
        let cut = whole_exchanges(messages, messages.len() * tenth / 10).max(last_cut);
        for message in &messages[last_cut..cut] {
            conversation.append(message.clone());
        }
        last_cut = cut;
        let what = format!("{id} grown to {tenth}/10, {name} again");
        compacted(&what, compact, limit, &mut conversation, tally);
    }
}

/// What is pinned and so many percent of the rest.
fn limit(conversation: &Conversation, percent: u64) -> Tokens {
    let view = conversation.view();
    let pinned: Tokens = view.messages()[..view.n_leading_system()]
        .iter()
        .chain(view.first_user().map(|at| &view.messages()[at]))
        .map(ContextMessage::tokens)
        .sum();
    let rest = view.size().tokens - pinned - REQUEST_TOKENS;
    REQUEST_TOKENS + pinned + rest.share(percent, 100)
}

/// One compaction, held against every guarantee; what came of it goes into the books. What was applied is given back.
fn compacted(
    what: &str,
    compact: &Compact,
    limit: Tokens,
    conversation: &mut Conversation,
    tally: &mut Tally,
) -> Option<Vec<ContextMessage>> {
    tally.compactions += 1;
    let view = conversation.view();
    let resolved = |budget: &Budget, limit: Tokens| {
        let compact = compact.clone().max_tokens(forge_domain::TokenLimit::Tokens(limit));
        compact.resolve(budget).expect("a target alone contradicts nothing")
    };
    let (compactor, budget_of_limit) = (ContextCompactor::new(), budget(limit));
    let compact_to_limit = resolved(&budget_of_limit, limit);
    let checked = fit_and_check(&compactor, &compact_to_limit, conversation, &budget_of_limit, &Canned);
    let Some(CheckedFit { fit, broken }) = checked.now_or_never() else {
        panic!("{what}: canned answers never wait")
    };
    let mut fault = |fault: String| tally.faults.push(format!("{what}: {fault}"));
    broken.into_iter().for_each(|broken| fault(broken.to_string()));
    if let Ok(fitted) = &fit.result
        && strict_faults(view.messages()).is_empty()
    {
        let faults = strict_faults(fitted.prompt.messages());
        faults.into_iter().for_each(|found| fault(format!("a strict chat template would raise: {found}")));
    }
    match (fit.report.outcome, fit.result) {
        (_, Err(over)) => {
            // It is the least that is needed: with that much there is a way.
            let budget = budget(over.need);
            let again = compactor.fit(&resolved(&budget, over.need), view, &budget, &Canned).now_or_never();
            if again.is_none_or(|again| again.result.is_err()) {
                fault(format!("it was said to need {}, and does not fit that either", over.need));
            }
            tally.still_over += 1;
            None
        }
        (Outcome::Applied { .. }, Ok(fitted)) => {
            tally.applied += 1;
            Some(fitted.prompt.messages().to_vec())
        }
        (_, Ok(_)) => {
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
        price: None,
        abilities: Abilities::default(),
        request: RequestOptions::default(),
    }
}

/// What strict chat templates would raise at in a request of `messages`.
fn strict_faults(messages: &[ContextMessage]) -> Vec<String> {
    strict_turn_faults(&messages_json(messages.iter().map(ContextMessage::message), STRICT))
}

/// The entries of a request with every text cut short.
fn with_short_texts(mut list: Vec<Value>) -> Vec<Value> {
    const KEPT: usize = 60;
    let short = |text: &str| text.trim_start().chars().take(KEPT).collect::<String>();
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
    fn templates(&self) -> &dyn SummaryTemplate {
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
