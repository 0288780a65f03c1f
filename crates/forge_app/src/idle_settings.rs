//! Settings that have no effect as they are written, or that no run can obey. None of them is an error: a
//! server may report what is unknown here.

use std::collections::BTreeSet;

use forge_domain::{Agent, Allowance, Budget, TokenLimit, WindowSource, Workflow};
use forge_services::workflow::Finding;

use crate::check::{Bytes, idle_permissions};

/// Returns the limits of `compact` blocks that the windows of the models leave without effect, the budgets in
/// money for models of which no price is known, and the permissions that are about nothing.
pub fn idle_settings(workflow: &Workflow) -> Vec<Finding> {
    let limits = workflow.agents.iter().flat_map(|agent| limits_beyond_room(workflow, agent));
    limits.chain(unpriced_budgets(workflow)).chain(idle_permissions(workflow)).collect()
}

/// Returns the limits in tokens of an agent that exceed the largest room of its model, which has no tools.
fn limits_beyond_room(workflow: &Workflow, agent: &Agent) -> Vec<Finding> {
    let (Some(compact), Some(id)) = (&agent.compact, &agent.model) else { return Vec::new() };
    let Ok(model) = workflow.model(id) else { return Vec::new() };
    // The server may report a larger window than the assumed one.
    if model.window_source == WindowSource::Assumed {
        return Vec::new();
    }
    let room = Budget::new(model.limits, agent.chat_options(&model), Vec::new(), &Bytes).room();
    let limits = [
        ("token_threshold", compact.token_threshold, "the window triggers before it"),
        ("max_tokens", compact.max_tokens, "it counts as unset"),
    ];
    let mut found = Vec::new();
    for (key, limit, effect) in limits {
        let Some(TokenLimit::Tokens(tokens)) = limit else { continue };
        if tokens > room {
            found.push(Finding {
                path: format!("agents.{}.compact.{key}", agent.id),
                what: format!(
                    "{key} ({tokens}) is larger than the {room} tokens that the window of `{}` leaves for a \
                     prompt: {effect}",
                    model.reference
                ),
                hint: Some(format!("write a smaller number or a percentage, such as `{key}: 50%`")),
            });
        }
    }
    found
}

/// Returns the budgets in money that apply to a model without a price: the run ends before the first call,
/// unless the server reports one.
fn unpriced_budgets(workflow: &Workflow) -> Vec<Finding> {
    let in_money = |budget: Option<Allowance>| budget.is_some_and(|budget| budget.cost.is_some());
    let mut found = Vec::new();
    if in_money(workflow.budget) {
        let names = workflow.agents.iter().flat_map(|agent| unpriced_models(workflow, agent)).collect();
        found.extend(unpriced("budget.cost".to_owned(), &names));
    }
    for agent in workflow.agents.iter().filter(|agent| in_money(agent.budget)) {
        let names = unpriced_models(workflow, agent).into_iter().collect();
        found.extend(unpriced(format!("agents.{}.budget.cost", agent.id), &names));
    }
    found
}

/// Returns the models of an agent and of its summaries of which no price is known.
fn unpriced_models(workflow: &Workflow, agent: &Agent) -> Vec<String> {
    let summarizer = agent.compact.as_ref().and_then(|compact| compact.model.as_ref());
    let models = agent.model.iter().chain(summarizer).filter_map(|id| workflow.model(id).ok());
    models.filter(|model| model.price.is_none()).map(|model| model.reference.to_string()).collect()
}

fn unpriced(path: String, names: &BTreeSet<String>) -> Option<Finding> {
    let first = names.first()?;
    let all: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    Some(Finding {
        path,
        what: format!(
            "no price of {} is known: unless its server reports one, a run ends before its first call",
            all.join(", ")
        ),
        hint: Some(format!(
            "set `models: {{ '{first}': {{ price: {{ input: N, output: N }} }} }}` in dollars per million tokens"
        )),
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn settings_without_effect_are_found() {
        let none: &[&str] = &[];
        let small = "models: { 'p:m': { window: 8000, max_output: 1000 } }";
        let priced = "budget: { cost: 5 }\nmodels: { 'p:m': { price: { input: 1, output: 1 } } }";
        for (keys, agent, expected) in [
            (small, "compact: { max_tokens: 7000 }", none),
            (
                small,
                "compact: { max_tokens: 7001 }",
                &["agents.a.compact.max_tokens: max_tokens (7001) is larger"],
            ),
            (
                small,
                "compact: { max_tokens: 500, token_threshold: 20000 }",
                &["agents.a.compact.token_threshold: token_threshold (20000) is larger"],
            ),
            // The server may report a window.
            ("", "compact: { max_tokens: 900000 }", none),
            ("budget: { cost: 5 }", "", &["budget.cost: no price of `p:m` is known"]),
            ("", "budget: { cost: 5 }", &["agents.a.budget.cost: no price of `p:m` is known"]),
            (
                "budget: { cost: 5 }",
                "compact: { model: 'p:n' }",
                &["budget.cost: no price of `p:m`, `p:n` is known"],
            ),
            ("budget: { tokens: 5 }", "", none),
            (priced, "", none),
            (
                "permissions: { shell: { 'npm run test:*': allow } }",
                "",
                &[
                    "permissions.shell.npm run test:*: `npm run test:*` is only about commands with a colon there",
                ],
            ),
            ("permissions: { 'gh__*': deny }", "", &["permissions.gh__*: `mcp_servers` has no `gh`"]),
            ("permissions: { '*__x': deny, 'a*': deny }", "", none),
        ] {
            let yaml =
                format!("providers: {{ p: {{}} }}\n{keys}\nagents: {{ a: {{ model: 'p:m', {agent} }} }}\n");
            let workflow: Workflow = serde_saphyr::from_str(&yaml).unwrap();
            let found: Vec<String> = idle_settings(&workflow)
                .into_iter()
                .map(|finding| format!("{}: {}", finding.path, finding.what))
                .collect();
            assert_eq!(found.len(), expected.len(), "{yaml}: {found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.starts_with(*expected), "{found}");
            }
        }
    }
}
