//! The port of those who are asked or told at named points of a run.
//!
//! One enum of events and one of answers, for every point. An event whose name begins with `pre_` is a question: its
//! answer may deny what is about to happen or change how it happens. Every other event is told, and its answer counts for
//! nothing. Answers are values: a hook changes nothing by itself.

use async_trait::async_trait;
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::compaction::{CompactionReport, Focus, Pin, Rung, Trigger};
use crate::{AgentId, Compact, Context, Message, MessageId, Role, Size, Tokens};

/// Somebody who is asked or told at named points of a run.
#[async_trait]
pub trait Hook: Send + Sync {
    /// Its name in what people are told.
    fn name(&self) -> &str;

    /// Whether it wants to hear of events at `point`.
    fn listens_at(&self, point: HookPoint) -> bool;

    /// Hears of `event` and answers. Dropping the future cancels it.
    ///
    /// # Errors
    /// [`HookError`] where it is broken; that is said, counts as [`HookAnswer::Proceed`] and ends nothing.
    async fn call(&self, event: &HookEvent<'_>) -> Result<HookAnswer, HookError>;
}

/// Why a hook gave no answer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct HookError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// A point of a run at which hooks are asked or told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HookPoint {
    /// A compaction is due and about to be tried.
    PreCompact,
    /// A compaction was due, and this is what became of it.
    PostCompact,
}

impl HookPoint {
    /// The word for it in YAML and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PreCompact => "pre_compact",
            Self::PostCompact => "post_compact",
        }
    }

    /// Whether the answer counts.
    pub const fn is_question(self) -> bool {
        match self {
            Self::PreCompact => true,
            Self::PostCompact => false,
        }
    }
}

/// What a hook hears. As JSON, `event` is the word of its point and its fields stand beside it.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum HookEvent<'a> {
    /// A compaction is due and about to be tried.
    PreCompact(PreCompact<'a>),
    /// A compaction was due, and this is what became of it.
    PostCompact(PostCompact<'a>),
}

impl HookEvent<'_> {
    /// The point at which it happens.
    pub const fn point(&self) -> HookPoint {
        match self {
            Self::PreCompact(_) => HookPoint::PreCompact,
            Self::PostCompact(_) => HookPoint::PostCompact,
        }
    }
}

/// A compaction that is about to be tried.
#[derive(Clone, Debug, Serialize)]
pub struct PreCompact<'a> {
    /// Whose context it is.
    pub agent: &'a AgentId,
    /// What made it due.
    pub trigger: Trigger,
    /// The context as it is.
    pub before: Size,
    /// Tokens that a context may have.
    pub room: Tokens,
    /// Tokens that are to be left at most.
    pub target: Tokens,
    /// The strategies that will be tried, in order.
    pub strategies: Vec<&'a str>,
    /// What is to be preserved, in words.
    pub focus: Option<&'a Focus>,
    /// Patterns of user text that survives.
    pub pin: &'a [Pin],
    /// The context's messages in order.
    pub messages: Vec<MessageNote>,
}

impl<'a> PreCompact<'a> {
    /// Of `agent`, whose `context` is to be compacted as `compact` says, which is resolved.
    pub fn new(
        agent: &'a AgentId,
        trigger: Trigger,
        room: Tokens,
        compact: &'a Compact,
        context: &Context,
    ) -> Self {
        Self {
            agent,
            trigger,
            before: context.size(),
            room,
            target: compact.target_tokens(),
            strategies: compact.rungs().iter().map(Rung::id).collect(),
            focus: compact.focus.as_ref(),
            pin: compact.pin.as_deref().unwrap_or_default(),
            messages: notes(context),
        }
    }
}

/// What a hook hears of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MessageNote {
    /// Its label, such as `m12`, by which an answer names it.
    pub id: String,
    /// Who said it.
    pub role: Role,
    /// Its tokens.
    pub tokens: Tokens,
    /// Whether compaction made it.
    pub is_compacted: bool,
    /// The beginning of what it says: at most 200 characters.
    pub text: String,
}

const NOTED_CHARS: usize = 200;

fn notes(context: &Context) -> Vec<MessageNote> {
    let text = |message: &Message| message.to_text().chars().take(NOTED_CHARS).collect();
    let note = |message: &crate::ContextMessage| {
        Some(MessageNote {
            id: message.id()?.to_string(),
            role: message.message().role(),
            tokens: message.tokens(),
            is_compacted: message.message().is_compacted,
            text: text(message.message()),
        })
    };
    context.messages().iter().filter_map(note).collect()
}

/// A compaction that was due, and what became of it.
#[derive(Clone, Debug, Serialize)]
pub struct PostCompact<'a> {
    /// Whose context it is.
    pub agent: &'a AgentId,
    /// What became of it.
    pub report: &'a CompactionReport,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

/// What a hook answers. As JSON: `{"decision": "proceed"}`, `{"decision": "deny", "reason": "…"}`, or
/// `{"decision": "edit"}` with any of the keys of [`CompactEdit`] beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum HookAnswer {
    /// It may happen as it is.
    #[default]
    Proceed,
    /// It must not happen now.
    Deny {
        /// Why, for people.
        #[serde(default)]
        reason: String,
    },
    /// It may happen, changed like this.
    Edit(CompactEdit),
}

/// How a compaction is to be done otherwise, this one time. What comes of it has to keep every rule as ever.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompactEdit {
    /// What to preserve, in words, in the place of what the block says.
    #[serde(default)]
    pub focus: Option<Focus>,
    /// Patterns of user text that survives, besides those of the block.
    #[serde(default)]
    pub pin: Vec<Pin>,
    /// Messages that stay as pinned ones do, whoever said them, each with its exchange; in JSON by their labels.
    #[serde(default, deserialize_with = "labels")]
    pub keep: Vec<MessageId>,
}

impl CompactEdit {
    /// This edit and a later one together; the later focus counts.
    #[must_use]
    pub fn then(mut self, later: Self) -> Self {
        self.pin.extend(later.pin);
        self.keep.extend(later.keep);
        Self { focus: later.focus.or(self.focus), ..self }
    }

    /// The block with this edit.
    pub fn applied_to(&self, compact: &Compact) -> Compact {
        let pin = compact.pin.iter().flatten().chain(&self.pin).cloned().collect();
        Compact {
            focus: self.focus.clone().or_else(|| compact.focus.clone()),
            pin: Some(pin),
            keep: self.keep.clone(),
            ..compact.clone()
        }
    }
}

fn labels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<MessageId>, D::Error> {
    let labels = Vec::<String>::deserialize(deserializer)?;
    labels.iter().map(|label| label.parse().map_err(de::Error::custom)).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::{ContextMessage, Conversation, TokenCounter};

    struct Characters;
    impl TokenCounter for Characters {
        fn count(&self, text: &str) -> Tokens {
            Tokens::new(text.chars().count() as u64)
        }
    }

    #[test]
    fn an_answer_is_read_or_refused_with_the_reason() {
        let focus = Focus::try_from("keys".to_owned()).unwrap();
        let pin = Pin::try_from("^Never".to_owned()).unwrap();
        let third = MessageId::FIRST.next().next();
        for (json, expected) in [
            (json!({"decision": "proceed"}), Ok(HookAnswer::Proceed)),
            (json!({"decision": "deny"}), Ok(HookAnswer::Deny { reason: String::new() })),
            (
                json!({"decision": "deny", "reason": "not now"}),
                Ok(HookAnswer::Deny { reason: "not now".to_owned() }),
            ),
            (
                json!({"decision": "edit", "focus": "keys", "pin": ["^Never"], "keep": ["m2"]}),
                Ok(HookAnswer::Edit(CompactEdit { focus: Some(focus), pin: vec![pin], keep: vec![third] })),
            ),
            (json!({"decision": "edit"}), Ok(HookAnswer::Edit(CompactEdit::default()))),
            (json!({"decision": "edit", "keep": [2]}), Err("expected a string")),
            (json!({"decision": "edit", "keep": ["2"]}), Err("`2` names no message")),
            (json!({"decision": "edit", "pin": ["("]}), Err("unclosed group")),
            (json!({"decision": "edit", "drop": []}), Err("unknown field `drop`")),
            (json!({"decision": "maybe"}), Err("unknown variant `maybe`")),
            (json!({}), Err("missing field `decision`")),
        ] {
            let actual: Result<HookAnswer, _> = serde_json::from_value(json.clone());
            match (actual, expected) {
                (Ok(actual), Ok(expected)) => assert_eq!(actual, expected, "{json}"),
                (Err(actual), Err(expected)) => {
                    assert!(actual.to_string().contains(expected), "{json}: {actual}");
                }
                (actual, expected) => panic!("{json}: {actual:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn an_event_reads_like_this() {
        let mut log = Conversation::new();
        log.append(ContextMessage::count(Message::user("x".repeat(300)), &Characters));
        let agent = AgentId::new("researcher").unwrap();
        let compact = Compact::default().max_tokens(crate::TokenLimit::Tokens(Tokens::new(50)));
        let event = PreCompact::new(&agent, Trigger::Tokens, Tokens::new(400), &compact, &log.view());
        let actual = serde_json::to_value(HookEvent::PreCompact(event)).unwrap();
        let expected = json!({
            "event": "pre_compact", "agent": "researcher", "trigger": "tokens", "room": 400, "target": 50,
            "before": {"messages": 1, "turns": 1, "tokens": 307},
            "strategies": [], "focus": null, "pin": [],
            "messages": [{"id": "m0", "role": "user", "tokens": 304, "is_compacted": false, "text": "x".repeat(200)}],
        });
        assert_eq!(actual, expected);
    }

    #[test]
    fn edits_add_up() {
        let edit = |json: &str| serde_json::from_str::<CompactEdit>(json).unwrap();
        let first = edit(r#"{"focus": "a", "pin": ["one"], "keep": ["m1"]}"#);
        let both = first.then(edit(r#"{"focus": "b", "pin": ["two"], "keep": ["m2"]}"#));
        assert_eq!(both, edit(r#"{"focus": "b", "pin": ["one", "two"], "keep": ["m1", "m2"]}"#));
        let compact: Compact = serde_saphyr::from_str("{ focus: old, pin: [zero], max_tokens: 9 }").unwrap();
        let expected: Compact =
            serde_saphyr::from_str("{ focus: b, pin: [zero, one, two], max_tokens: 9 }").unwrap();
        let expected = Compact { keep: both.keep.clone(), ..expected };
        assert_eq!(both.applied_to(&compact), expected);
        assert_eq!(edit("{}").applied_to(&compact), compact);
    }
}
