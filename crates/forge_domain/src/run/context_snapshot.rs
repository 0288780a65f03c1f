//! The stored form of a checkpoint: all that a run needs to continue as if it had never stopped.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Agent, AgentId, Conversation, ModelLimits, ModelRef, Spent, ToolDefinition, Usage};

/// The state of one agent's work at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContextSnapshot {
    /// The agent whose work it is.
    pub agent: AgentId,
    /// The whole log: messages and compactions under their ids.
    pub conversation: Conversation,
    /// The progress of the work.
    pub progress: Progress,
    /// The configuration of the run, to be compared with the current one.
    pub configuration: Configuration,
}

/// The progress of an agent's work, as counters that continue where they stopped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Calls to the model so far in the run.
    pub iterations: usize,
    /// The calls among them since the latest user message, which `max_iterations` limits.
    pub turn_iterations: usize,
    /// The usage of those calls, as reported by the provider.
    #[serde(default)]
    pub usage: Usage,
    /// Requests sent to summarizers.
    #[serde(default)]
    pub summary_calls: usize,
    /// The usage of those requests.
    #[serde(default)]
    pub summary_usage: Usage,
    /// The usage and cost of all of them, and of calls that broke off, which a `budget` limits.
    #[serde(default, skip_serializing_if = "Spent::is_nothing")]
    pub spent: Spent,
    /// The calibration by the provider's counts; stored as it is handed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Value>,
    /// Other values to keep, by name: pins that were set in the run, a hook's memory.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// The configuration of an agent, as plain data: a later version of Forge can read and compare it, even if
/// keys have changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Configuration(pub Map<String, Value>);

/// One key of a configuration that is not what it was.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The path of the key, such as `agent.compact.token_threshold`.
    pub key: String,
    /// The old value; `None` if it was not set.
    pub then: Option<Value>,
    /// The new value; `None` if it is no longer set.
    pub now: Option<Value>,
}

impl Configuration {
    /// Returns the configuration of `agent`: its own keys (prompts and policy are among them), its model with
    /// limits, and the tools as the model sees them.
    pub fn of(agent: &Agent, model: Option<(&ModelRef, ModelLimits)>, tools: &[ToolDefinition]) -> Self {
        let plain = |value: serde_json::Result<Value>| value.unwrap_or(Value::Null);
        let mut keys = Map::new();
        let mut own = plain(serde_json::to_value(agent));
        // What the model never sees and no prompt depends on.
        for key in ["checkpoint", "hooks", "permissions", "description", "subscribe"] {
            own.as_object_mut().map(|own| own.remove(key));
        }
        keys.insert("agent".into(), own);
        if let Some((reference, limits)) = model {
            keys.insert("model".into(), Value::String(reference.to_string()));
            keys.insert("limits".into(), plain(serde_json::to_value(limits)));
        }
        // By name, so that a tool's place in the list is not a difference.
        let named = tools.iter().map(|tool| (tool.name.to_string(), plain(serde_json::to_value(tool))));
        keys.insert("tools".into(), Value::Object(named.collect()));
        Self(keys)
    }

    /// Returns the differences to `now`, key by key down to the single value, in the order of the keys.
    pub fn differences(&self, now: &Self) -> Vec<Difference> {
        let mut all = Vec::new();
        compare_maps("", &self.0, &now.0, &mut all);
        all.sort_by(|a, b| a.key.cmp(&b.key));
        all
    }
}

fn compare_maps(path: &str, then: &Map<String, Value>, now: &Map<String, Value>, all: &mut Vec<Difference>) {
    let gone = then.keys().filter(|key| !now.contains_key(*key));
    for key in now.keys().chain(gone) {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match (then.get(key), now.get(key)) {
            (Some(Value::Object(then)), Some(Value::Object(now))) => compare_maps(&path, then, now, all),
            (then, now) if then == now => {}
            (then, now) => all.push(Difference { key: path, then: then.cloned(), now: now.cloned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_named_by_their_key() {
        let read = |value: Value| serde_json::from_value::<Configuration>(value).unwrap();
        let then =
            json!({"model": "a:x", "agent": {"compact": {"max_tokens": 5}, "tools": ["read"]}, "old": 1});
        for (name, now, expected) in [
            ("nothing", then.clone(), json!([])),
            (
                "each kind",
                json!({"agent": {"compact": {"max_tokens": 6, "pin": ["x"]}, "tools": ["read"]}, "model": "a:y"}),
                json!([
                    {"key": "agent.compact.max_tokens", "then": 5, "now": 6},
                    {"key": "agent.compact.pin", "then": null, "now": ["x"]},
                    {"key": "model", "then": "a:x", "now": "a:y"},
                    {"key": "old", "then": 1, "now": null},
                ]),
            ),
        ] {
            let actual = read(then.clone()).differences(&read(now));
            assert_eq!(serde_json::to_value(actual).unwrap(), expected, "{name}");
        }
    }

    #[test]
    fn a_configuration_tells_apart_what_an_agent_works_with() {
        let agent = |yaml: &str| serde_saphyr::from_str::<Agent>(yaml).unwrap();
        let before = agent("{ id: a, model: m, system_prompt: Be brief. }");
        let after = agent("{ id: a, model: m, system_prompt: Be kind., compact: { token_threshold: 50% } }");
        let differences =
            Configuration::of(&before, None, &[]).differences(&Configuration::of(&after, None, &[]));
        let keys: Vec<_> = differences.iter().map(|difference| difference.key.as_str()).collect();
        assert_eq!(keys, ["agent.compact", "agent.system_prompt"]);
    }
}
