//! The effects of other agents on a context before each call, from earlier versions: still read and still
//! run.
//!
//! The [`crate::Compact`] block does better what `assistant` did, and needs no agent for it.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::AgentId;

/// An effect of another agent on an agent's context before each of its calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", try_from = "TransformBlock")]
pub enum Transform {
    /// While the context has more than `token_limit` tokens, the oldest run of assistant messages is sent as
    /// the event `input` to the agent `agent_id`, and its answer under `output` becomes their summary.
    #[deprecated(note = "Use the compact field on Agent instead.")]
    Assistant {
        /// Name of the event that carries the run.
        input: String,
        /// Name of the summary's tag.
        output: String,
        /// The agent that writes the summary.
        agent_id: AgentId,
        /// More tokens than this trigger it, at least 1.
        token_limit: u64,
    },
    /// An agent works on the user message that the context ends with, and its answer is appended to it.
    User {
        /// The agent.
        agent_id: AgentId,
        /// Name of the event that carries the message.
        input: String,
        /// Name of the tag around the answer.
        output: String,
    },
    /// An agent works on the whole context as a text; its answer is ignored.
    PassThrough {
        /// The agent.
        agent_id: AgentId,
        /// Name of the event that carries the context.
        input: String,
    },
}

impl Transform {
    /// Its types, as YAML spells them.
    pub const TYPES: [&str; 3] = ["assistant", "user", "pass_through"];

    /// Returns its type, as YAML spells it.
    #[expect(deprecated, reason = "it is still run")]
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Assistant { .. } => "assistant",
            Self::User { .. } => "user",
            Self::PassThrough { .. } => "pass_through",
        }
    }

    /// Returns the agent that does it.
    #[expect(deprecated, reason = "it is still run")]
    pub const fn agent_id(&self) -> &AgentId {
        match self {
            Self::Assistant { agent_id, .. }
            | Self::User { agent_id, .. }
            | Self::PassThrough { agent_id, .. } => agent_id,
        }
    }

    /// Checks whether it is [`Self::Assistant`], which `compact` replaces.
    #[expect(deprecated, reason = "it is still run")]
    pub const fn is_assistant(&self) -> bool {
        matches!(self, Self::Assistant { .. })
    }
}

/// A transform as YAML writes it: `type: user` beside its keys, or `user:` with its keys below it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TransformBlock {
    /// Type of the transform: `assistant` summarizes (`compact` does that better), `user` adds an answer to
    /// the user's message, `pass_through` only observes. Unset: `assistant`, `user` or `pass_through` is a
    /// key, with the others below it.
    #[serde(default, rename = "type")]
    #[schemars(extend("examples" = ["user"]))]
    kind: Option<Kind>,
    /// Name of the event that starts the agent. Unset: an error, if the type is beside it.
    #[serde(default)]
    #[schemars(extend("pattern" = r"\S", "examples" = ["asked"]))]
    input: Option<String>,
    /// Name of the tag around the agent's answer. Unset: `pass_through` has none, the others need one.
    #[serde(default)]
    #[schemars(extend("pattern" = r"\S", "examples" = ["known"]))]
    output: Option<String>,
    /// Agent of the transform. Unset: an error, if the type is beside it.
    #[serde(default)]
    #[schemars(extend("examples" = ["recall"]))]
    agent_id: Option<AgentId>,
    /// Number of tokens above which `assistant` summarizes. Unset: only `assistant` has one.
    #[serde(default)]
    #[schemars(range(min = 1), extend("examples" = [80_000]))]
    token_limit: Option<u64>,
    /// Keys of `type: assistant`, below it. Unset: `type` decides.
    #[serde(default)]
    #[schemars(extend(
        "examples" = [{"input": "long", "output": "short", "agent_id": "summarizer", "token_limit": 80_000}]
    ))]
    assistant: Option<Keys>,
    /// Keys of `type: user`, below it. Unset: `type` decides.
    #[serde(default)]
    #[schemars(extend("examples" = [{"agent_id": "recall", "input": "asked", "output": "known"}]))]
    user: Option<Keys>,
    /// Keys of `type: pass_through`, below it. Unset: `type` decides.
    #[serde(default)]
    #[schemars(extend("examples" = [{"agent_id": "watch", "input": "seen"}]))]
    pass_through: Option<Keys>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TransformType", inline)]
enum Kind {
    Assistant,
    User,
    PassThrough,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TransformKeys")]
struct Keys {
    /// Name of the event that starts the agent. Unset: an error.
    #[serde(default)]
    #[schemars(extend("pattern" = r"\S", "examples" = ["asked"]))]
    input: Option<String>,
    /// Name of the tag around the agent's answer. Unset: `pass_through` has none, the others need one.
    #[serde(default)]
    #[schemars(extend("pattern" = r"\S", "examples" = ["known"]))]
    output: Option<String>,
    /// Agent of the transform. Unset: an error.
    #[serde(default)]
    #[schemars(extend("examples" = ["recall"]))]
    agent_id: Option<AgentId>,
    /// Number of tokens above which `assistant` summarizes. Unset: only `assistant` has one.
    #[serde(default)]
    #[schemars(range(min = 1), extend("examples" = [80_000]))]
    token_limit: Option<u64>,
}

impl JsonSchema for Transform {
    fn schema_name() -> Cow<'static, str> {
        "Transform".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = TransformBlock::json_schema(generator);
        // Each type has the keys that it needs and no others; without `type`, the type is a key.
        let needs = |kind: Kind, may_be: &[&str]| {
            let others: Vec<_> = may_be.iter().filter(|key| !kind.needs().contains(key)).collect();
            let others: Vec<_> = others.into_iter().map(|key| json!({ "required": [key] })).collect();
            if others.is_empty() {
                json!({ "required": kind.needs() })
            } else {
                json!({ "required": kind.needs(), "not": { "anyOf": others } })
            }
        };
        let all = [Keys::NAMES.as_slice(), Self::TYPES.as_slice()].concat();
        let as_key: Vec<_> = Self::TYPES.iter().map(|kind| json!({ "required": [kind] })).collect();
        let mut beside = json!({ "anyOf": as_key, "maxProperties": 1 });
        for kind in [Kind::PassThrough, Kind::User, Kind::Assistant] {
            beside = json!({
                "if": { "properties": { "type": { "const": kind.name() } }, "required": ["type"] },
                "then": needs(kind, &all),
                "else": beside,
            });
            let below = schema.pointer_mut(&format!("/properties/{}", kind.name()));
            let mut below = below.and_then(serde_json::Value::as_object_mut);
            let needed = needs(kind, &Keys::NAMES);
            for (word, demand) in needed.as_object().into_iter().flatten() {
                below.as_deref_mut().map(|below| below.insert(word.clone(), demand.clone()));
            }
        }
        for (key, value) in beside.as_object().into_iter().flatten() {
            schema.insert(key.clone(), value.clone());
        }
        schema
    }
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Assistant => "assistant",
            Self::User => "user",
            Self::PassThrough => "pass_through",
        }
    }

    const fn keys(self) -> &'static str {
        match self {
            Self::Assistant => "input, output, agent_id and token_limit",
            Self::User => "agent_id, input and output",
            Self::PassThrough => "agent_id and input",
        }
    }

    /// Lists the needed keys one by one.
    const fn needs(self) -> &'static [&'static str] {
        match self {
            Self::Assistant => &Keys::NAMES,
            Self::User => &["agent_id", "input", "output"],
            Self::PassThrough => &["agent_id", "input"],
        }
    }
}

/// The reasons why keys do not form a transform.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransformError {
    /// The type is missing.
    #[error("a transform has one `type`: assistant, user or pass_through")]
    NoType,
    /// A key that its type needs is missing.
    #[error("`{key}` is missing: a transform of type `{kind}` has {keys}")]
    Missing {
        /// The key.
        key: &'static str,
        /// The transform's type.
        kind: &'static str,
        /// The keys of that type, in words.
        keys: &'static str,
    },
    /// A key that its type does not have.
    #[error("a transform of type `{kind}` has no `{key}`: it has {keys}")]
    Needless {
        /// The key.
        key: &'static str,
        /// The transform's type.
        kind: &'static str,
        /// The keys of that type, in words.
        keys: &'static str,
    },
    /// A name that is empty.
    #[error("`{0}` must not be empty")]
    Empty(&'static str),
    /// A limit that every context exceeds.
    #[error("`token_limit` is at least 1")]
    NoLimit,
}

impl TryFrom<TransformBlock> for Transform {
    type Error = TransformError;
    fn try_from(block: TransformBlock) -> Result<Self, TransformError> {
        let TransformBlock { kind, input, output, agent_id, token_limit, assistant, user, pass_through } =
            block;
        let beside = Keys { input, output, agent_id, token_limit };
        match (kind, assistant, user, pass_through) {
            (Some(kind), None, None, None) => beside.transform(kind),
            (None, Some(keys), None, None) if beside.is_empty() => keys.transform(Kind::Assistant),
            (None, None, Some(keys), None) if beside.is_empty() => keys.transform(Kind::User),
            (None, None, None, Some(keys)) if beside.is_empty() => keys.transform(Kind::PassThrough),
            _ => Err(TransformError::NoType),
        }
    }
}

impl Keys {
    const NAMES: [&str; 4] = ["agent_id", "input", "output", "token_limit"];

    const fn is_empty(&self) -> bool {
        self.input.is_none() && self.output.is_none() && self.agent_id.is_none() && self.token_limit.is_none()
    }

    #[expect(deprecated, reason = "it is still read")]
    fn transform(self, kind: Kind) -> Result<Transform, TransformError> {
        let Self { input, output, agent_id, token_limit } = self;
        let missing = |key| TransformError::Missing { key, kind: kind.name(), keys: kind.keys() };
        let needless = |key| TransformError::Needless { key, kind: kind.name(), keys: kind.keys() };
        let named = |key, name: Option<String>| match name {
            Some(name) if name.trim().is_empty() => Err(TransformError::Empty(key)),
            name => name.ok_or_else(|| missing(key)),
        };
        let agent_id = agent_id.ok_or_else(|| missing("agent_id"))?;
        let input = named("input", input)?;
        if token_limit.is_some() && !matches!(kind, Kind::Assistant) {
            return Err(needless("token_limit"));
        }
        Ok(match kind {
            Kind::Assistant => match token_limit.ok_or_else(|| missing("token_limit"))? {
                0 => return Err(TransformError::NoLimit),
                token_limit => {
                    Transform::Assistant { input, output: named("output", output)?, agent_id, token_limit }
                }
            },
            Kind::User => Transform::User { agent_id, input, output: named("output", output)? },
            Kind::PassThrough if output.is_some() => return Err(needless("output")),
            Kind::PassThrough => Transform::PassThrough { agent_id, input },
        })
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn agent(id: &str) -> AgentId {
        AgentId::new(id).unwrap()
    }

    #[test]
    #[expect(deprecated, reason = "it is still read")]
    fn both_ways_of_writing_are_read_and_one_is_written() {
        let assistant = Transform::Assistant {
            input: "long".to_owned(),
            output: "summary".to_owned(),
            agent_id: agent("s"),
            token_limit: 9,
        };
        let user =
            Transform::User { agent_id: agent("u"), input: "asked".to_owned(), output: "known".to_owned() };
        let pass = Transform::PassThrough { agent_id: agent("p"), input: "seen".to_owned() };
        for (yaml, expected) in [
            ("{ type: assistant, input: long, output: summary, agent_id: s, token_limit: 9 }", &assistant),
            ("assistant: { input: long, output: summary, agent_id: s, token_limit: 9 }", &assistant),
            ("{ agent_id: u, input: asked, output: known, type: user }", &user),
            ("user: { agent_id: u, input: asked, output: known }", &user),
            ("{ type: pass_through, agent_id: p, input: seen }", &pass),
            ("pass_through: { agent_id: p, input: seen }", &pass),
        ] {
            let actual: Transform = serde_saphyr::from_str(yaml).unwrap();
            assert_eq!(&actual, expected, "{yaml}");
            let again: Transform =
                serde_saphyr::from_str(&serde_saphyr::to_string(&actual).unwrap()).unwrap();
            assert_eq!(again, actual, "{yaml}");
        }
    }

    #[test]
    fn keys_that_make_no_transform_are_refused_with_the_reason() {
        for (yaml, expected) in [
            ("{}", "one `type`"),
            ("{ agent_id: a, input: i }", "one `type`"),
            ("{ type: user, user: { agent_id: a, input: i, output: o } }", "one `type`"),
            ("{ user: { agent_id: a, input: i, output: o }, input: i }", "one `type`"),
            ("{ type: tap, agent_id: a, input: i }", "tap"),
            ("{ type: user, agent_id: a, output: o }", "`input` is missing: a transform of type `user`"),
            ("{ type: user, input: i, output: o }", "`agent_id` is missing"),
            ("{ type: assistant, agent_id: a, input: i, output: o }", "`token_limit` is missing"),
            ("{ type: assistant, agent_id: a, input: i, output: o, token_limit: 0 }", "at least 1"),
            ("{ type: assistant, agent_id: a, input: ' ', output: o, token_limit: 1 }", "must not be empty"),
            ("{ type: pass_through, agent_id: a, input: i, output: o }", "`pass_through` has no `output`"),
            (
                "{ type: user, agent_id: a, input: i, output: o, token_limit: 1 }",
                "`user` has no `token_limit`",
            ),
            ("{ type: user, agent_id: '', input: i, output: o }", "must not be empty"),
            ("{ type: user, agent_id: a, input: i, output: o, more: 1 }", "more"),
        ] {
            let actual = serde_saphyr::from_str::<Transform>(yaml).unwrap_err().to_string();
            assert!(actual.contains(expected), "{yaml}: {actual}");
        }
    }
}
