//! An agent as YAML configures it.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroUsize;

use derive_setters::Setters;
use merge::Merge;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::request_options::with_request_keys;
use crate::{
    AgentCheckpoints, AgentId, Allowance, ChatOptions, Compact, Effort, HookCommands, Model, ModelId,
    Permissions, Reasoning, Tokens, ToolName, Transform, later,
};

with_request_keys! {
/// An agent. Every field but the id may be unset, which differs from its default: a later layer's unset field
/// keeps what an earlier layer set.
// Its many fields are the keys of its YAML block, one to one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Merge, Setters)]
#[serde(deny_unknown_fields)]
#[schemars(extend("patternProperties" = {"^x-": true}))]
#[setters(strip_option, into)]
#[merge(strategy = later)]
pub struct Agent {
    /// Name of the agent in the workflow; in a map of agents, its key says it already.
    #[serde(default = "AgentId::placeholder")]
    #[schemars(transform = without_default, extend("examples" = ["researcher"]))]
    #[merge(skip)]
    #[setters(skip)]
    pub id: AgentId,
    /// Purpose of the agent, in words; templates may use it. Unset: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["finds and reads sources"]))]
    pub description: Option<String>,
    /// Model of the agent: `provider:model`, or a name under `models`. Unset: `FORGE_MODEL` or `--model` must
    /// set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["gpt-4o"]))]
    pub model: Option<ModelId>,
    /// Template of the system message. Unset: no system message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["You are {{agent.id}}."]))]
    pub system_prompt: Option<String>,
    /// Template of the user message for an event. Unset: the event's value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["{{event.value}}"]))]
    pub user_prompt: Option<String>,
    /// Tools that the agent may call, and other agents by id, which work in a conversation of their own and
    /// answer. Unset: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [["read", "list"]]))]
    pub tools: Option<Vec<ToolName>>,
    /// Rules for the agent's tool calls, which come after those of the workflow. A later layer can forbid
    /// more and allow nothing that an earlier one forbids. Unset: as in the workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [{"shell": {"cargo *": "allow"}}]))]
    pub permissions: Option<Permissions>,
    /// Names of the events that start the agent; `user_task_init` is the user's task. Unset: none, and it
    /// runs if it is named, or if no agent subscribes and no other agent calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [["user_task_init"]]))]
    pub subscribe: Option<Vec<String>>,
    /// Names of the events that the agent may emit with its tool `emit`, which it has for that: the agents
    /// that subscribe to one run after this one. Unset: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [["review_requested"]]))]
    pub emits: Option<Vec<String>>,
    /// Most turns of one conversation. Unset: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [20]))]
    pub max_turns: Option<NonZeroUsize>,
    /// Most model calls in one turn. Unset: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [20]))]
    pub max_iterations: Option<NonZeroUsize>,
    /// Number of times that the agent may repeat the same calls with the same results, one after another or
    /// in a circle of up to three, before its turn ends; from half of that on the model is told. If the
    /// results differ in numbers alone, or the calls wait (`sleep`), five times as many are allowed. Default
    /// 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 10, "examples" = [10]))]
    pub max_repetitions: Option<NonZeroUsize>,
    /// Spending limits of all the agent's calls; of several layers the smaller counts. Unset: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [{"tokens": 2_000_000, "cost": 5}]))]
    pub budget: Option<Allowance>,
    /// Sampling temperature, 0 to 2. Unset: the provider's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [0.7]))]
    pub temperature: Option<Temperature>,
    /// Nucleus sampling, above 0 and at most 1. Unset: the provider's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [0.9]))]
    pub top_p: Option<TopP>,
    /// Most tokens of one reply, at least 1, which are also kept free for it. Unset: the model's
    /// `max_output`, else 4,096, at most a quarter of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [4096]))]
    pub max_output_tokens: Option<NonZeroUsize>,
    /// Most tokens of one tool result that the model sees at once, at least 1; the middle of a longer one is
    /// left out, stored, and can be recalled. Unset: 16,000, at most half of the room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [8000]))]
    pub max_result_tokens: Option<NonZeroUsize>,
    /// Settings that keep the agent's context small; a later layer replaces them as a whole. Unset: all of
    /// their defaults apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [{"token_threshold": "80%"}]))]
    pub compact: Option<Compact>,
    /// Hooks of the agent, which run after those of the workflow; those of earlier layers stay. Unset: none
    /// of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [{"pre_compact": [{"command": "./check.sh", "timeout": "10s"}]}]))]
    pub hooks: Option<HookCommands>,
    /// Changes that other agents make to the context before each call, in order and before it is compacted; a
    /// later layer replaces them as a whole. From earlier versions: `compact` does better what `assistant`
    /// did. Unset: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "deprecated" = true,
        "examples" = [[{"type": "user", "agent_id": "recall", "input": "asked", "output": "known"}]]
    ))]
    pub transforms: Option<Vec<Transform>>,
    /// True if the agent has the tool `recall`, which returns what compaction took out of its view. Unset: if
    /// it has other tools, since not every model accepts any, and if the schema takes at most a tenth of the
    /// room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [true]))]
    pub recall: Option<bool>,
    /// When to save checkpoints of the agent's work, if that differs from the workflow; a later layer
    /// replaces it as a whole. Unset: as in the workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [{"interval": 3}]))]
    pub checkpoint: Option<AgentCheckpoints>,
}
}

impl Agent {
    /// Creates an agent with only an id.
    pub const fn new(id: AgentId) -> Self {
        Self {
            id,
            description: None,
            model: None,
            system_prompt: None,
            user_prompt: None,
            tools: None,
            permissions: None,
            subscribe: None,
            emits: None,
            max_turns: None,
            max_iterations: None,
            max_repetitions: None,
            budget: None,
            temperature: None,
            top_p: None,
            max_output_tokens: None,
            max_result_tokens: None,
            compact: None,
            hooks: None,
            transforms: None,
            recall: None,
            checkpoint: None,
            reasoning: None,
            tool_choice: None,
            parallel_tool_calls: None,
            stop: None,
            seed: None,
            service_tier: None,
            response_format: None,
            routing: None,
            cache: None,
            extra_body: None,
        }
    }

    /// Lowers the limits to those that an `earlier` layer says of the same agent, where these are stricter.
    pub(crate) fn bound_limits(&mut self, earlier: &Self) {
        at_most(&mut self.max_turns, earlier.max_turns);
        at_most(&mut self.max_iterations, earlier.max_iterations);
        at_most(&mut self.max_repetitions, earlier.max_repetitions);
        self.budget = match (self.budget, earlier.budget) {
            (Some(later), Some(earlier)) => Some(later.bounded_by(earlier)),
            (later, _) => later,
        };
    }

    /// Returns the options with which this agent asks `model`: its own, else those of the model. Sampling is
    /// left to a model that refuses to have it set.
    pub fn chat_options(&self, model: &Model) -> ChatOptions {
        let is_sampled = model.abilities.sampling != Some(false);
        ChatOptions {
            model: model.reference.clone(),
            temperature: self.temperature.filter(|_| is_sampled).map(|temperature| temperature.0),
            top_p: self.top_p.filter(|_| is_sampled).map(|top_p| top_p.0),
            max_output_tokens: self.max_output_tokens.map(|tokens| Tokens::new(tokens.get() as u64)),
            request: self.request_options().or(&model.request),
            cache_key: None,
            is_dispensable: false,
        }
    }

    /// Sets the effort, in place of any budget of thinking tokens.
    pub fn set_effort(&mut self, effort: Effort) {
        let reasoning = self.reasoning.unwrap_or_default();
        self.reasoning = Some(Reasoning { effort: Some(effort), budget_tokens: None, ..reasoning });
    }

    /// Puts the agent's model in the place of [`Compact::OWN_MODEL`] in its `compact` block.
    pub fn summarize_by_own_model(&mut self) {
        if let Some(compact) = &mut self.compact
            && compact.model.as_ref().is_some_and(|model| model.as_str() == Compact::OWN_MODEL)
        {
            compact.model.clone_from(&self.model);
        }
    }

    /// Returns the limit of repetitions: the same calls with the same results.
    pub fn repetition_limit(&self) -> usize {
        self.max_repetitions.map_or(10, NonZeroUsize::get)
    }

    /// Checks whether `event` starts it.
    pub fn subscribes_to(&self, event: &str) -> bool {
        self.subscribe.iter().flatten().any(|name| name == event)
    }
}

impl AgentId {
    /// Returns the placeholder for an id that the YAML left out; [`Agents`] never accepts it.
    fn placeholder() -> Self {
        Self::new("(unset)").unwrap_or_else(|_| unreachable!("the word is not blank"))
    }
}

/// Lowers a limit to that of an earlier layer; one that is not set is left to the merge.
fn at_most(later: &mut Option<NonZeroUsize>, earlier: Option<NonZeroUsize>) {
    if let (Some(limit), Some(earlier)) = (*later, earlier) {
        *later = Some(limit.min(earlier));
    }
}

/// A number outside its range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("invalid {what} {number} (expected {range})")]
pub struct RangeError {
    what: &'static str,
    range: &'static str,
    number: f64,
}

/// A sampling temperature, 0 to 2.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "f64")]
#[schemars(inline, extend("minimum" = 0, "maximum" = 2))]
pub struct Temperature(f64);

impl TryFrom<f64> for Temperature {
    type Error = RangeError;
    fn try_from(number: f64) -> Result<Self, Self::Error> {
        match number {
            0.0..=2.0 => Ok(Self(number)),
            number => Err(RangeError { what: "temperature", range: "a number from 0 to 2", number }),
        }
    }
}

/// A share of nucleus sampling, above 0 and at most 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "f64")]
#[schemars(inline, extend("exclusiveMinimum" = 0, "maximum" = 1))]
pub struct TopP(f64);

impl TryFrom<f64> for TopP {
    type Error = RangeError;
    fn try_from(number: f64) -> Result<Self, Self::Error> {
        match number {
            number if number > 0.0 && number <= 1.0 => Ok(Self(number)),
            number => Err(RangeError { what: "top_p", range: "a number above 0 and at most 1", number }),
        }
    }
}

/// The agents of a workflow, each id once. YAML gives them as a list, or as a map keyed by id.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Agents(Vec<Agent>);

impl Agents {
    /// Iterates over the agents in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Agent> {
        self.0.iter()
    }

    /// Returns the agent of that id.
    pub fn find(&self, id: &str) -> Option<&Agent> {
        self.0.iter().find(|agent| agent.id.as_str() == id)
    }

    /// Returns the agent that works under `id`, with that id: itself, or the owner of that lane.
    pub fn for_lane(&self, id: &AgentId) -> Option<Agent> {
        let agent = self.find(id.as_str()).or_else(|| self.find(id.without_lane()))?;
        Some(Agent { id: id.clone(), ..agent.clone() })
    }

    /// Checks whether it has no agent.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Changes every agent.
    pub fn for_each(&mut self, change: impl FnMut(&mut Agent)) {
        self.0.iter_mut().for_each(change);
    }

    /// Adds an agent, or merges it into the one of the same id.
    pub fn add(&mut self, agent: Agent) {
        match self.0.iter_mut().find(|known| known.id == agent.id) {
            Some(known) => known.merge(agent),
            None => self.0.push(agent),
        }
    }
}

impl Merge for Agents {
    fn merge(&mut self, later: Self) {
        later.0.into_iter().for_each(|agent| self.add(agent));
    }
}

impl FromIterator<Agent> for Agents {
    fn from_iter<I: IntoIterator<Item = Agent>>(agents: I) -> Self {
        let mut all = Self::default();
        agents.into_iter().for_each(|agent| all.add(agent));
        all
    }
}

impl<'de> Deserialize<'de> for Agents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AgentsVisitor;
        impl<'de> Visitor<'de> for AgentsVisitor {
            type Value = Agents;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of agents, or a map of agents keyed by id")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Agents, A::Error> {
                let mut agents: Vec<Agent> = Vec::new();
                while let Some(agent) = list.next_element::<Agent>()? {
                    if agent.id == AgentId::placeholder() {
                        return Err(de::Error::missing_field("id"));
                    }
                    if agents.iter().any(|known| known.id == agent.id) {
                        return Err(de::Error::custom(format!("there are two agents `{}`", agent.id)));
                    }
                    agents.push(agent);
                }
                Ok(Agents(agents))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Agents, A::Error> {
                let mut agents = Vec::new();
                while let Some(key) = map.next_key::<AgentId>()? {
                    let mut agent: Agent = map.next_value()?;
                    if agent.id != AgentId::placeholder() && agent.id != key {
                        return Err(de::Error::custom(format!(
                            "agent `{key}` has the id `{}`: remove the id, or make both the same",
                            agent.id
                        )));
                    }
                    agent.id = key;
                    agents.push(agent);
                }
                Ok(Agents(agents))
            }
        }
        deserializer.deserialize_any(AgentsVisitor)
    }
}

/// Removes the default of an omitted id: it is only a placeholder.
fn without_default(schema: &mut Schema) {
    schema.remove("default");
}

impl JsonSchema for Agents {
    fn schema_name() -> Cow<'static, str> {
        "Agents".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let agent = generator.subschema_for::<Agent>();
        json_schema!({ "anyOf": [
            { "type": "array", "items": { "allOf": [agent, { "required": ["id"] }] } },
            { "type": "object", "patternProperties": { r"\S": agent }, "additionalProperties": false },
        ] })
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn id(name: &str) -> AgentId {
        AgentId::new(name).unwrap()
    }

    #[test]
    fn a_list_and_a_map_of_agents_are_the_same() {
        let list: Agents = serde_saphyr::from_str("- id: a\n  max_turns: 3\n- id: b\n").unwrap();
        let map: Agents = serde_saphyr::from_str("a:\n  max_turns: 3\nb: { id: b }\n").unwrap();
        let expected =
            Agents(vec![Agent::new(id("a")).max_turns(NonZeroUsize::new(3).unwrap()), Agent::new(id("b"))]);
        assert_eq!((&list, &map), (&expected, &expected));
    }

    #[test]
    fn an_agent_needs_one_id_of_its_own() {
        for (yaml, expected) in [
            ("- model: m\n", "missing field `id`"),
            ("- id: a\n- id: a\n", "two agents `a`"),
            ("a: { id: b }\n", "agent `a` has the id `b`"),
            ("a: { id: '' }\n", "must not be empty"),
            ("a: { max_turn: 3 }\n", "max_turn"),
            ("a: { temperature: 3 }\n", "from 0 to 2"),
            ("a: { max_turns: 0 }\n", "nonzero"),
        ] {
            let actual = serde_saphyr::from_str::<Agents>(yaml).unwrap_err().to_string();
            assert!(actual.contains(expected), "{yaml}: {actual}");
        }
    }

    #[test]
    fn the_word_for_the_own_model_becomes_that_model() {
        let model = |name: &str| ModelId::new(name).unwrap();
        for (summarizer, own, expected) in [
            (Some("agent"), Some("m"), Some("m")),
            (Some("agent"), None, None),
            (Some("other"), Some("m"), Some("other")),
            (None, Some("m"), None),
        ] {
            let compact = Compact { model: summarizer.map(model), ..Compact::default() };
            let mut agent = Agent { model: own.map(model), ..Agent::new(id("a")).compact(compact) };
            agent.summarize_by_own_model();
            assert_eq!(agent.compact.unwrap().model, expected.map(model), "{summarizer:?} {own:?}");
        }
    }

    #[test]
    fn the_later_layer_wins_field_by_field_and_compact_whole() {
        let compact = |yaml: &str| serde_saphyr::from_str::<Compact>(yaml).unwrap();
        let base = compact("{ max_tokens: 1000, token_threshold: 2000 }");
        let other = compact("{ max_tokens: 1500, turn_threshold: 3 }");
        for (name, first, second, expected) in [
            ("base unset", None, Some(other.clone()), Some(other.clone())),
            ("base set", Some(base.clone()), Some(other.clone()), Some(other)),
            ("other unset", Some(base.clone()), None, Some(base)),
            ("both unset", None, None, None),
        ] {
            let mut actual = Agent { compact: first, ..Agent::new(id("a")) }.description("first");
            actual.merge(Agent { compact: second, ..Agent::new(id("a")) });
            let expected = Agent { compact: expected, ..Agent::new(id("a")) }.description("first");
            assert_eq!(actual, expected, "{name}");
        }
    }
}
