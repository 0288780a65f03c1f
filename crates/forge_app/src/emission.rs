//! Events that agents emit for one another: the tool by which they do, and the check that someone emits what
//! is subscribed to.

use forge_domain::{Agent, Event, TASK_EVENT, ToolCall, ToolDefinition, ToolName, Workflow};
use forge_services::workflow::Finding;
use serde::Deserialize;
use serde_json::json;

/// The tool's name.
pub const EMIT: &str = "emit";

/// Most events that are emitted after one event of the user's: agents may start each other in a circle.
pub(crate) const MOST_EMITTED: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    event: String,
    #[serde(default)]
    value: String,
}

/// Returns the definition of the tool for `agent`; `None` if it may emit nothing.
pub(crate) fn emit_definition(agent: &Agent) -> Option<ToolDefinition> {
    let events = agent.emits.as_ref().filter(|events| !events.is_empty())?;
    Some(ToolDefinition {
        name: ToolName::new(EMIT).ok()?,
        description: "Emits an event: the agents that subscribe to it start with its value when you are done, and what they \
                      answer does not come back to you."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "event": {"type": "string", "enum": events, "description": "The name of the event."},
                "value": {"type": "string", "description": "All that they need to know, in words."}
            },
            "required": ["event", "value"],
            "additionalProperties": false
        }),
    })
}

/// Returns the event that `call` emits.
///
/// # Errors
/// The reason, for the model, if `agent` may not.
pub(crate) fn event_of(agent: &Agent, call: &ToolCall) -> Result<Event, String> {
    let Arguments { event, value } = serde_json::from_str(&call.arguments).map_err(|error| {
        format!("the arguments are not `{{\"event\": \"...\", \"value\": \"...\"}}`: {error}")
    })?;
    let known = agent.emits.as_deref().unwrap_or_default();
    if known.contains(&event) {
        Ok(Event::new(event, value))
    } else {
        Err(format!("you may not emit `{event}` (expected one of {})", known.join(", ")))
    }
}

/// Returns a warning for each subscription to an event that nothing in the workflow emits.
pub fn silent_subscriptions(workflow: &Workflow) -> Vec<Finding> {
    let is_emitted = |event: &str| {
        let by_agent = |agent: &Agent| agent.emits.iter().flatten().any(|known| known == event);
        event == TASK_EVENT || workflow.agents.iter().any(by_agent)
    };
    let of_agent = |agent: &Agent| {
        let events = agent.subscribe.iter().flatten().enumerate();
        let silent = events.filter(|(_, event)| !event.trim().is_empty() && !is_emitted(event));
        let finding = |(at, event): (usize, &String)| Finding {
            path: format!("agents.{}.subscribe[{at}]", agent.id),
            what: format!("nothing here emits the event `{event}`"),
            hint: Some(format!(
                "`emits: [{event}]` lets another agent emit it; `forge run --event {event}=VALUE` does so from outside"
            )),
        };
        silent.map(finding).collect::<Vec<_>>()
    };
    workflow.agents.iter().flat_map(of_agent).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_subscription_needs_someone_who_emits() {
        let workflow: Workflow = serde_saphyr::from_str(
            "agents: { a: { emits: [done, '']}, b: { subscribe: [done, asked, user_task_init, ''] } }",
        )
        .unwrap();
        let found: Vec<_> =
            silent_subscriptions(&workflow).into_iter().map(|finding| (finding.path, finding.what)).collect();
        assert_eq!(
            found,
            [("agents.b.subscribe[1]".to_owned(), "nothing here emits the event `asked`".to_owned())]
        );
    }
}
