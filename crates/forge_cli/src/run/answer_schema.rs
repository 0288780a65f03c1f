//! The form of a run's answer, for `--output-schema`: asked for, checked, and asked for again.

use std::path::Path;

use forge_app::{Orchestrator, RunEvent, RunReport, StopReason};
use forge_domain::{
    Agent, AgentId, Event, ProviderConfig, ProviderKind, ResponseFormat, ResponseKind, ResponseSchema,
    Workflow,
};
use forge_infra::JsonSchema;
use serde_json::{Map, Value};

use super::explain;
use crate::failure::Misconfigured;
use crate::session_file::{MOST_OF_A_CONFIGURATION, read_named};

/// The text for the model after the task.
const WANTED: &str = include_str!("../../templates/answer_schema.md");
/// The text for the model after an answer that does not match.
const AGAIN: &str = include_str!("../../templates/answer_again.md");
/// The name of the schema, which providers demand.
const NAME: &str = "answer";
/// The most times that an answer is asked for again.
const MOST_REPAIRS: usize = 2;
/// Keywords that Anthropic's structured outputs refuse.
const REFUSED: [&str; 10] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "maxItems",
    "uniqueItems",
    "patternProperties",
];

/// The answer of a run: a value that matches the schema, or the faults of the last one.
pub(crate) type Answer = Result<Value, Vec<String>>;

/// The schema of a run's answer.
#[derive(Debug)]
pub(crate) struct AnswerSchema {
    schema: Map<String, Value>,
    check: JsonSchema,
}

impl AnswerSchema {
    /// Reads the schema in the file at `path`.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let wrong = |why: String| Misconfigured(format!("--output-schema {}: {why}", path.display()));
        let bytes = read_named(path, "schema", MOST_OF_A_CONFIGURATION)?;
        let value: Value =
            serde_json::from_slice(&bytes).map_err(|error| wrong(format!("not JSON: {error}")))?;
        let check = JsonSchema::new(&value).map_err(|error| wrong(format!("not a JSON Schema: {error}")))?;
        let Value::Object(schema) = value else {
            return Err(wrong("a schema is a JSON object, such as {\"type\": \"object\"}".to_owned()).into());
        };
        Ok(Self { schema, check })
    }

    /// Returns `task` with what the model must know of the answer.
    pub(crate) fn add_to(&self, task: &str) -> String {
        format!("{}\n\n{}", task.trim_end(), WANTED.trim_end().replace("{{schema}}", &self.text()))
    }

    /// Has the provider enforce the schema for the agents that the task may be for, if its protocol can do so
    /// while the model has tools.
    pub(crate) fn require_of_agents(&self, workflow: &mut Workflow, named: Option<&str>) {
        let ids: Vec<AgentId> = workflow
            .agents
            .iter()
            .filter(|agent| named.map_or(!is_called(workflow, &agent.id), |id| agent.id.as_str() == id))
            .filter(|agent| agent.response_format.is_none() && self.is_enforced_for(workflow, agent))
            .map(|agent| agent.id.clone())
            .collect();
        let schema = self.schema.clone();
        let schema = ResponseSchema { name: NAME.to_owned(), description: None, schema, strict: None };
        let format = ResponseFormat { kind: ResponseKind::JsonSchema, json_schema: Some(schema) };
        workflow.agents.for_each(|agent| {
            if ids.contains(&agent.id) {
                agent.response_format = Some(format.clone());
            }
        });
    }

    /// Checks whether the provider of `agent` accepts the schema in its requests. OpenAI does beside tools,
    /// and Anthropic if the schema is closed and plain. Others accept it only without tools, or refuse
    /// requests that have both.
    fn is_enforced_for(&self, workflow: &Workflow, agent: &Agent) -> bool {
        let model = agent.model.as_ref().and_then(|id| workflow.model(id).ok());
        let provider = model.and_then(|model| workflow.providers.get(&model.reference.provider));
        match provider.map(ProviderConfig::protocol) {
            Some(ProviderKind::Responses) => true,
            Some(ProviderKind::Anthropic) => is_closed(&Value::Object(self.schema.clone())),
            Some(_) => agent.tools.as_ref().is_none_or(Vec::is_empty) && agent.recall != Some(true),
            None => false,
        }
    }

    /// Has the last agent repeat an answer that does not match, a bounded number of times. Returns the report
    /// of all of it, and the answer, if the run came to one.
    pub(crate) async fn settle(
        &self,
        orchestrator: &mut Orchestrator,
        mut report: RunReport,
        tell: impl Fn(&RunEvent<'_>),
    ) -> anyhow::Result<(RunReport, Option<Answer>)> {
        for attempt in 1.. {
            if report.stop != StopReason::Done {
                break;
            }
            let faults = match self.parse(&report.response) {
                Ok(value) => return Ok((report, Some(Ok(value)))),
                Err(faults) => faults,
            };
            let agent = orchestrator.active().map(|id| id.without_lane().to_owned());
            let Some(agent) = agent.filter(|_| attempt <= MOST_REPAIRS) else {
                return Ok((report, Some(Err(faults))));
            };
            let what = format!(
                "the answer does not match the schema ({}); asking again ({attempt} of {MOST_REPAIRS})",
                faults.join("; ")
            );
            tell(&RunEvent::Notice(&what));
            let later =
                orchestrator.wake(&agent, &Event::task(self.again(&faults))).await.map_err(explain)?;
            report = report.then(later);
        }
        Ok((report, None))
    }

    /// Reads an answer: JSON, perhaps in a code fence.
    fn parse(&self, response: &str) -> Answer {
        let text = without_fence(response.trim());
        let value: Value =
            serde_json::from_str(text).map_err(|error| vec![format!("it is not JSON: {error}")])?;
        self.check.check(&value).map(|()| value)
    }

    fn again(&self, faults: &[String]) -> String {
        let faults: Vec<String> = faults.iter().map(|fault| format!("- {fault}")).collect();
        AGAIN.trim_end().replace("{{faults}}", &faults.join("\n")).replace("{{schema}}", &self.text())
    }

    fn text(&self) -> String {
        serde_json::to_string_pretty(&self.schema).unwrap_or_default()
    }
}

/// Checks whether another agent calls the one named `id`.
fn is_called(workflow: &Workflow, id: &AgentId) -> bool {
    let calls = |agent: &Agent| agent.tools.iter().flatten().any(|tool| tool.as_str() == id.as_str());
    workflow.agents.iter().any(|agent| agent.id != *id && calls(agent))
}

/// Checks whether every object of a schema is closed, and no keyword is one that Anthropic refuses.
fn is_closed(schema: &Value) -> bool {
    match schema {
        Value::Array(items) => items.iter().all(is_closed),
        Value::Object(fields) => {
            let is_object = fields.get("type").is_some_and(|kind| kind == "object");
            let is_open = is_object && fields.get("additionalProperties") != Some(&Value::Bool(false));
            !is_open
                && !REFUSED.iter().any(|word| fields.contains_key(*word))
                && fields.values().all(is_closed)
        }
        _ => true,
    }
}

/// Returns the text in the code fence that is all of `text`, or `text` itself.
fn without_fence(text: &str) -> &str {
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    match inner.and_then(|inner| inner.split_once('\n')) {
        Some((word, inner)) if word.trim().chars().all(char::is_alphanumeric) => inner.trim(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_json_with_or_without_a_fence() {
        let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
        let check = JsonSchema::new(&schema).unwrap();
        let schema = AnswerSchema { schema: schema.as_object().unwrap().clone(), check };
        for (text, expected) in [
            ("{\"n\": 1}", Ok(json!({"n": 1}))),
            (" \n```json\n{\"n\": 2}\n```\n", Ok(json!({"n": 2}))),
            ("```\n{\"n\": 3}```", Ok(json!({"n": 3}))),
            ("{}", Err("the whole: missing properties 'n'")),
            ("Here: {\"n\": 1}", Err("it is not JSON: expected value at line 1 column 1")),
            ("", Err("it is not JSON: EOF while parsing a value at line 1 column 0")),
        ] {
            let expected = expected.map_err(|fault: &str| vec![fault.to_owned()]);
            assert_eq!(schema.parse(text), expected, "{text}");
        }
    }

    #[test]
    fn only_closed_and_plain_schemas_are_enforced_by_anthropic() {
        for (schema, expected) in [
            (
                json!({"type": "object", "additionalProperties": false, "properties": {"a": {"type": "string"}}}),
                true,
            ),
            (json!({"type": "object"}), false),
            (
                json!({"type": "object", "additionalProperties": false, "properties": {"a": {"type": "object"}}}),
                false,
            ),
            (json!({"type": "integer", "minimum": 3}), false),
            (json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), true),
        ] {
            assert_eq!(is_closed(&schema), expected, "{schema}");
        }
    }
}
