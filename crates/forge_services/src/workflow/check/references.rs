//! References within a workflow that lead nowhere.

use forge_domain::{Agent, McpServerError, ModelId, ProviderId, Tokens, UnsupportedReasoning, Workflow};

use super::super::Finding;
use super::super::nearest::nearest;
use super::callees::CallFindings;

/// Returns the faults among the workflow's own names: providers of models, models of agents and of their
/// `compact` block that no declared provider serves, blank names in `subscribe`, unknown agents in
/// transforms, and agents that call each other in a circle; and empty windows. Empty if there are none.
pub fn check_references(workflow: &Workflow) -> Vec<Finding> {
    let of_models = workflow.models.iter().filter_map(|(id, model)| {
        let provider =
            model.provider.as_ref().filter(|provider| !workflow.providers.contains_key(*provider))?;
        let hint = match nearest(provider.as_str(), workflow.providers.keys().map(ProviderId::as_str)) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("use one of {}", workflow.provider_names()),
        };
        let what = format!("there is no provider `{provider}`");
        Some(Finding { path: format!("models.{id}.provider"), what, hint: Some(hint) })
    });
    let empty = workflow.models.iter().filter(|(_, model)| model.window == Some(Tokens::ZERO));
    let of_windows = empty.map(|(id, _)| Finding {
        path: format!("models.{id}.window"),
        what: "expected a whole number from 1, found `0`".to_owned(),
        hint: Some("for example `window: 128000`".to_owned()),
    });
    let of_servers = workflow.mcp_servers.iter().flat_map(|(id, server)| {
        let misnamed = (!id.is_prefix()).then_some(McpServerError::Name);
        let faults = server.endpoint().err().into_iter().chain(misnamed);
        faults.map(move |fault| Finding {
            path: format!("mcp_servers.{id}"),
            what: fault.to_string(),
            hint: Some("for example `{ command: mcp-server-filesystem, args: [.] }`".to_owned()),
        })
    });
    let mut calls = CallFindings::of(workflow);
    let of_agents = workflow.agents.iter().flat_map(|agent| findings_of(workflow, agent, &mut calls));
    of_models.chain(of_windows).chain(of_servers).chain(of_agents).collect()
}

fn findings_of(workflow: &Workflow, agent: &Agent, calls: &mut CallFindings<'_>) -> Vec<Finding> {
    let path = |key: &str| format!("agents.{}.{key}", agent.id);
    let model = match &agent.model {
        Some(model) => check_model(workflow, path("model"), model),
        None => Some(Finding {
            path: format!("agents.{}", agent.id),
            what: format!("agent `{}` has no model", agent.id),
            hint: Some("give it one, such as `model: gpt-4o`, or set FORGE_MODEL for all agents".to_owned()),
        }),
    };
    let summarizer = agent.compact.as_ref().and_then(|compact| compact.model.as_ref());
    let summarizer = summarizer.and_then(|model| check_model(workflow, path("compact.model"), model));
    let keys =
        [("subscribe", &agent.subscribe, "user_task_init"), ("emits", &agent.emits, "review_requested")];
    let events = keys.into_iter().flat_map(|(key, events, example)| {
        let events = events.iter().flatten().enumerate();
        events.map(move |(position, event)| {
            (format!("{key}[{position}]"), event, format!("{key}: [{example}]"))
        })
    });
    let blank = events.filter(|(_, event, _)| event.trim().is_empty()).map(|(key, _, example)| Finding {
        path: path(&key),
        what: "an event's name must not be empty".to_owned(),
        hint: Some(format!("for example `{example}`")),
    });
    let transforms = agent.transforms.iter().flatten().enumerate();
    let nobody = transforms
        .filter(|(_, transform)| workflow.agents.find(transform.agent_id().as_str()).is_none())
        .map(|(position, transform)| {
            let id = transform.agent_id().as_str();
            let known: Vec<&str> = workflow.agents.iter().map(|agent| agent.id.as_str()).collect();
            let hint = match nearest(id, known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("use one of {}", known.join(", ")),
            };
            let path = path(&format!("transforms[{position}].agent_id"));
            Finding { path, what: format!("there is no agent `{id}`"), hint: Some(hint) }
        });
    let callees = calls.of_agent(agent);
    let abilities = check_abilities(workflow, agent);
    model.into_iter().chain(abilities).chain(summarizer).chain(blank).chain(nobody).chain(callees).collect()
}

/// Returns the settings of an agent that its model does not have.
fn check_abilities(workflow: &Workflow, agent: &Agent) -> Vec<Finding> {
    let Some(Ok(model)) = agent.model.as_ref().map(|id| workflow.model(id)) else { return Vec::new() };
    let found = |key: &str, what: String, hint: String| {
        let (path, hint) = (format!("agents.{}.{key}", agent.id), Some(hint));
        Finding { path, what, hint }
    };
    let reasoning = agent.request_options().or(&model.request).reasoning;
    let reasoning = model.check_reasoning(reasoning).err().map(|error| {
        let key = match error {
            UnsupportedReasoning::Effort { .. } => "reasoning.effort",
            UnsupportedReasoning::Budget { .. } => "reasoning.budget_tokens",
        };
        let hint = "if the model has it by now, list it in `models: { NAME: { efforts: [...] } }`";
        found(key, error.to_string(), hint.to_owned())
    });
    let has_tools = agent.tools.as_ref().is_some_and(|tools| !tools.is_empty());
    let tools = (has_tools && model.abilities.tools == Some(false)).then(|| {
        let what = format!("the model `{}` cannot call tools", model.reference);
        found("tools", what, "remove them, or use another model".to_owned())
    });
    reasoning.into_iter().chain(tools).collect()
}

fn check_model(workflow: &Workflow, path: String, model: &ModelId) -> Option<Finding> {
    let error = workflow.model(model).err()?;
    if model.as_str().contains(['“', '”', '„', '‘', '’']) {
        let hint = Some("write straight quotes (`\"`) around it, or none".to_owned());
        return Some(Finding { path, what: error.to_string(), hint });
    }
    // A slip in the provider's name is more likely than a model of that name.
    let meant =
        model.as_str().split_once(':').filter(|(_, rest)| !rest.is_empty()).and_then(|(prefix, rest)| {
            let provider = nearest(prefix, workflow.providers.keys().map(ProviderId::as_str))?;
            Some(format!("did you mean `{provider}:{rest}`?"))
        });
    Some(Finding { path, what: error.to_string(), hint: meant })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn check(yaml: &str, expected: &[(&str, &str)]) {
        let workflow: Workflow = serde_saphyr::from_str(yaml).unwrap();
        let actual = check_references(&workflow);
        let actual: Vec<_> =
            actual.iter().map(|finding| (finding.path.as_str(), finding.what.as_str())).collect();
        assert_eq!(actual, expected, "{yaml}");
    }

    #[test]
    fn curly_quotes_are_no_part_of_a_name() {
        let yaml = "agents: [{ id: a, model: “local:tiny” }]";
        let workflow: Workflow = serde_saphyr::from_str(yaml).unwrap();
        let hints: Vec<_> = check_references(&workflow).into_iter().filter_map(|found| found.hint).collect();
        assert_eq!(hints, ["write straight quotes (`\"`) around it, or none"]);
    }

    #[test]
    fn what_a_model_does_not_have_is_refused() {
        let yaml = |agent: &str| {
            format!(
                "providers: {{ x: {{}} }}\nmodels: {{ m: {{ efforts: [low, high], thinking_budget: false, tools: false }}, \
                 n: {{ efforts: [] }} }}\nagents: {{ a: {{ {agent} }} }}\n"
            )
        };
        check(&yaml("model: m, reasoning: { effort: low }"), &[]);
        check(&yaml("model: other, reasoning: { effort: max, budget_tokens: 5 }, tools: [read]"), &[]);
        check(
            &yaml("model: m, reasoning: { effort: max }, tools: [read]"),
            &[
                ("agents.a.reasoning.effort", "the model `x:m` has no effort `max`: it has low, high"),
                ("agents.a.tools", "the model `x:m` cannot call tools"),
            ],
        );
        check(
            &yaml("model: m, reasoning: { budget_tokens: 5 }"),
            &[(
                "agents.a.reasoning.budget_tokens",
                "the model `x:m` accepts no `budget_tokens`: set `effort` instead",
            )],
        );
        check(
            &yaml("model: n, reasoning: { effort: low }"),
            &[("agents.a.reasoning.effort", "the model `x:n` has no effort `low`: none can be set")],
        );
    }

    #[test]
    fn names_that_lead_nowhere_are_all_told() {
        let two = "providers: { x: {}, y: {} }\n";
        check("providers: { x: {} }\nagents: { a: { model: m } }\n", &[]);
        check(&format!("{two}agents: {{ a: {{ model: 'x:m', compact: {{ model: 'y:n' }} }} }}\n"), &[]);
        check(&format!("{two}agents: {{ a: {{}} }}\n"), &[("agents.a", "agent `a` has no model")]);
        check(
            &format!("{two}agents: [{{ id: a, model: m, subscribe: [e, ''], compact: {{ model: z }} }}]\n"),
            &[
                (
                    "agents.a.model",
                    "the model `m` has no provider: write `PROVIDER:m` with one of the providers x, y, or \
                     `models: { m: { provider: NAME } }`",
                ),
                (
                    "agents.a.compact.model",
                    "the model `z` has no provider: write `PROVIDER:z` with one of the providers x, y, or \
                     `models: { z: { provider: NAME } }`",
                ),
                ("agents.a.subscribe[1]", "an event's name must not be empty"),
            ],
        );
        check(
            &format!("{two}agents: {{ a: {{ model: 'x:' }} }}\n"),
            &[("agents.a.model", "`x:` names no model: write the model's name after `x:`")],
        );
        check(
            "providers: { x: {} }\nagents: { a: { model: m, transforms: [{ type: user, agent_id: a, input: i, output: o }, \
             { type: pass_through, agent_id: b, input: i }] } }\n",
            &[("agents.a.transforms[1].agent_id", "there is no agent `b`")],
        );
        check(
            "mcp_servers: { a b: { command: x }, b: {}, c: { command: x } }\n",
            &[
                (
                    "mcp_servers.a b",
                    "tools cannot be named after it: use at most 32 letters, digits, `_` and `-`, without \
                     `__`",
                ),
                ("mcp_servers.b", "it has neither a `command` to start nor a `url` to connect to"),
            ],
        );
        check(
            "providers: { x: {} }\nmodels: { m: { window: 0 }, n: { window: 1 } }\nagents: { a: { model: m } }\n",
            &[("models.m.window", "expected a whole number from 1, found `0`")],
        );
        check(
            "providers: { x: {} }\nmodels: { m: { provider: gone } }\nagents: { a: { model: m } }\n",
            &[
                ("models.m.provider", "there is no provider `gone`"),
                (
                    "agents.a.model",
                    "the model `m` needs the provider `gone`, which is not declared; declared: x",
                ),
            ],
        );
    }
}
