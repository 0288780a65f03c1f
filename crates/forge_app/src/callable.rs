//! Functions that a model may call: tools, and other agents as if they were tools.

use forge_domain::{Agent, ToolDefinition, ToolName, UnknownToolError};
use serde_json::json;

use crate::{RunError, Services};

/// The one argument of an agent that is called as a tool.
pub(crate) const TASK: &str = "task";

impl Services {
    /// Prepares the tools of `agent`. Returns a revision, which differs if the tools may have changed.
    ///
    /// # Errors
    /// [`RunError::ToolsUnavailable`] if some are not available.
    pub(crate) async fn prepare(&self, agent: &Agent) -> Result<u64, RunError> {
        let names = agent.tools.as_deref().unwrap_or_default();
        let agent = || agent.id.to_string();
        self.tools
            .prepare(names)
            .await
            .map_err(|source| RunError::ToolsUnavailable { agent: agent(), source })
    }

    /// Returns the definitions of the tools and agents with these names.
    ///
    /// # Errors
    /// [`UnknownToolError`] for the first name that is neither.
    pub(crate) fn callable(&self, names: &[ToolName]) -> Result<Vec<ToolDefinition>, UnknownToolError> {
        let mut definitions = Vec::new();
        for name in names {
            match self.workflow.agents.find(name.as_str()) {
                Some(agent) => definitions.push(definition(name, agent)),
                None => definitions.extend(self.tools.definitions(std::slice::from_ref(name))?),
            }
        }
        Ok(definitions)
    }
}

fn definition(name: &ToolName, agent: &Agent) -> ToolDefinition {
    let what = agent.description.as_deref().map(str::trim).filter(|what| !what.is_empty());
    let what = what.map_or_else(String::new, |what| format!(" It {what}"));
    ToolDefinition {
        name: name.clone(),
        description: format!(
            "Has another agent, `{name}`, work on a task and gives its answer.{what} It knows nothing of this conversation: \
             say all that it needs. It remembers nothing of earlier tasks."
        ),
        parameters: json!({
            "type": "object",
            "properties": { TASK: { "type": "string", "description": "What is to be done, with all that must be known for it." } },
            "required": [TASK],
            "additionalProperties": false,
        }),
    }
}
