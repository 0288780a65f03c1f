//! The part of a project's agents that only narrows.

use forge_domain::{Agent, AgentCheckpoints, Agents, ToolName, Transform};
use serde::Serialize;

use super::super::Power;
use super::{LayerFilter, below};

/// Built-in tools that only look at the files of the working folder, or ask the person.
const LOOKING: [&str; 5] = ["read", "list", "search", "ask", "recall"];

impl LayerFilter<'_> {
    pub(super) fn agents(&mut self, agents: &Agents) -> Agents {
        agents.iter().cloned().map(|agent| self.agent(agent)).collect()
    }

    fn agent(&mut self, agent: Agent) -> Agent {
        let Agent {
            id,
            description,
            model,
            system_prompt,
            user_prompt,
            tools,
            permissions,
            subscribe,
            emits,
            max_turns,
            max_iterations,
            max_repetitions,
            budget,
            temperature,
            top_p,
            max_output_tokens,
            max_result_tokens,
            compact,
            hooks,
            transforms,
            recall,
            checkpoint,
            reasoning,
            tool_choice,
            parallel_tool_calls,
            stop,
            seed,
            service_tier,
            response_format,
            routing,
            cache,
            extra_body,
        } = agent;
        let path = format!("agents.{id}");
        let name = id.as_str();
        let known = self.base.agents.find(name);
        let permissions = self.permissions(&below(&path, "permissions"), Some(name), permissions);
        self.hooks(&below(&path, "hooks"), Some(name), hooks.as_ref());
        let tools = tools.map(|tools| self.tools(&path, name, known, tools));
        let whom = format!("agent `{id}`");
        let own = ProjectAgent { name, path: &path, known };
        let emits = self.unchanged(&own, "emits", emits, |known| &known.emits);
        let transforms = self.unchanged(&own, "transforms", transforms, |known| &known.transforms);
        Agent {
            model: self.unchanged(&own, "model", model, |known| &known.model),
            system_prompt: self.unchanged(&own, "system_prompt", system_prompt, |known| &known.system_prompt),
            user_prompt: self.unchanged(&own, "user_prompt", user_prompt, |known| &known.user_prompt),
            subscribe: self.unchanged(&own, "subscribe", subscribe, |known| &known.subscribe),
            compact: self.unchanged(&own, "compact", compact, |known| &known.compact),
            emits: self.emits(&own, emits),
            transforms: self.transforms(&own, transforms),
            service_tier: self.option(&path, &whom, "service_tier", service_tier),
            routing: self.option(&path, &whom, "routing", routing),
            extra_body: self.option(&path, &whom, "extra_body", extra_body),
            hooks: None,
            description,
            tools,
            permissions,
            max_turns,
            max_iterations,
            max_repetitions,
            budget,
            temperature,
            top_p,
            max_output_tokens,
            max_result_tokens,
            recall,
            checkpoint: self.checkpoints(&own, checkpoint),
            reasoning,
            tool_choice,
            parallel_tool_calls,
            stop,
            seed,
            response_format,
            cache,
            id: id.clone(),
        }
    }

    /// Returns the value where it is no change of an agent of the person's own; else requests the
    /// change.
    fn unchanged<T: Serialize + PartialEq>(
        &mut self,
        agent: &ProjectAgent<'_>,
        key: &str,
        value: Option<T>,
        of: fn(&Agent) -> &Option<T>,
    ) -> Option<T> {
        let is_change = agent.known.is_some_and(|known| value.is_some() && *of(known) != value);
        if !is_change {
            return value;
        }
        let power = Power::ChangeAgent { agent: agent.name.to_owned(), key: key.to_owned() };
        self.request(power, below(agent.path, key), value);
        None
    }

    /// Returns the points that save no less than is usual for the agent, and requests the others.
    fn checkpoints(
        &mut self,
        agent: &ProjectAgent<'_>,
        asked: Option<AgentCheckpoints>,
    ) -> Option<AgentCheckpoints> {
        let own = agent.known.and_then(|known| known.checkpoint.as_ref());
        let usual = self.base.checkpoint.points(own);
        let path = below(agent.path, "checkpoint");
        asked.map(|asked| self.points(&path, Some(agent.name), &usual, asked))
    }

    /// Returns the tools that only look or that the person's own agent of that name has, and requests
    /// the others.
    fn tools(
        &mut self,
        path: &str,
        agent: &str,
        known: Option<&Agent>,
        tools: Vec<ToolName>,
    ) -> Vec<ToolName> {
        let own = known.and_then(|known| known.tools.as_deref()).unwrap_or_default();
        let mut kept = Vec::new();
        for (at, tool) in tools.into_iter().enumerate() {
            let name = tool.as_str();
            // An agent that only the project has works under the same limits; one of the person's
            // own may do more.
            let is_new_agent = self.new_agents.contains(name) && !is_reserved(name);
            let is_free = own.contains(&tool) || LOOKING.contains(&name) || is_new_agent;
            if is_free {
                kept.push(tool);
            } else {
                let power = Power::Call { agent: agent.to_owned(), tool: tool.to_string() };
                self.request(power, format!("{path}.tools[{at}]"), tool);
            }
        }
        kept
    }

    /// Returns the events that start no agent of the person's own, and requests the others.
    fn emits(&mut self, agent: &ProjectAgent<'_>, emits: Option<Vec<String>>) -> Option<Vec<String>> {
        let ProjectAgent { name, path, known } = agent;
        let mut kept = Vec::new();
        for (at, event) in emits?.into_iter().enumerate() {
            // Those of an agent of the person's own are theirs, or were requested as a whole.
            let theirs = self.base.agents.iter().find(|own| own.subscribes_to(&event));
            match theirs.filter(|_| known.is_none()) {
                Some(own) => {
                    let power = Power::Call { agent: (*name).to_owned(), tool: own.id.to_string() };
                    self.request(power, format!("{path}.emits[{at}]"), event);
                }
                None => kept.push(event),
            }
        }
        Some(kept)
    }

    /// Returns the transforms by agents of the project's, and requests those by the person's own.
    fn transforms(
        &mut self,
        agent: &ProjectAgent<'_>,
        transforms: Option<Vec<Transform>>,
    ) -> Option<Vec<Transform>> {
        let ProjectAgent { name, path, known } = agent;
        let mut kept = Vec::new();
        for (at, transform) in transforms?.into_iter().enumerate() {
            let by = transform.agent_id().as_str();
            // Those of an agent of the person's own are theirs, or were requested as a whole.
            if known.is_none() && self.base.agents.find(by).is_some() {
                let power = Power::Call { agent: (*name).to_owned(), tool: by.to_owned() };
                self.request(power, format!("{path}.transforms[{at}]"), transform);
            } else {
                kept.push(transform);
            }
        }
        Some(kept)
    }
}

/// The agent of which keys are looked at.
struct ProjectAgent<'a> {
    name: &'a str,
    path: &'a str,
    /// The agent of that name that is one of the person's own.
    known: Option<&'a Agent>,
}

/// Checks whether a name may be that of a tool that acts, whatever agents are called.
fn is_reserved(name: &str) -> bool {
    const ACTING: [&str; 5] = ["write", "patch", "shell", "fetch", "web_search"];
    ACTING.contains(&name) || name.contains("__") || name.contains('*')
}
