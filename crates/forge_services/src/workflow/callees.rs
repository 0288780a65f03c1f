//! Agents that others call as tools: who calls whom, and what is wrong with it.

use forge_domain::{Agent, AgentId, Workflow};

use super::Finding;

/// Most agents that may stand in a chain of calls, the first included.
pub const MOST_CALLERS: usize = 8;

/// Longest name of a tool that every provider takes.
const LONGEST_NAME: usize = 64;

/// The agents that `agent` calls as tools, with their places in its list.
fn callees<'a>(workflow: &'a Workflow, agent: &'a Agent) -> impl Iterator<Item = (usize, &'a Agent)> {
    let names = agent.tools.iter().flatten().enumerate();
    names.filter_map(|(position, name)| Some((position, workflow.agents.find(name.as_str())?)))
}

/// The agents that `agent` calls, and those that they call in turn, each once.
pub fn all_callees<'a>(workflow: &'a Workflow, agent: &'a Agent) -> Vec<&'a Agent> {
    let (mut found, mut waiting): (Vec<&Agent>, Vec<&Agent>) = (Vec::new(), vec![agent]);
    while let Some(next) = waiting.pop() {
        for (_, callee) in callees(workflow, next) {
            if !found.iter().any(|known| known.id == callee.id) {
                found.push(callee);
                waiting.push(callee);
            }
        }
    }
    found
}

/// What is wrong with the agents that `agent` calls: circles, chains that are too long, names that are no tool's.
pub(super) fn findings_of(workflow: &Workflow, agent: &Agent) -> Vec<Finding> {
    callees(workflow, agent)
        .filter_map(|(position, callee)| finding(workflow, agent, position, callee))
        .collect()
}

fn finding(workflow: &Workflow, agent: &Agent, position: usize, callee: &Agent) -> Option<Finding> {
    let find = |what: String, hint: &str| {
        let path = format!("agents.{}.tools[{position}]", agent.id);
        Some(Finding { path, what, hint: Some(hint.to_owned()) })
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let id = callee.id.as_str();
    if id.len() > LONGEST_NAME || !id.chars().all(is_plain) {
        return find(
            format!("the agent `{id}` cannot be called as a tool by that name"),
            "tools have names of letters, digits, `_` and `-`, at most 64: give the agent such an id",
        );
    }
    if let Some(way) = way_back(workflow, callee, &agent.id) {
        let way = way
            .iter()
            .map(|agent| format!("`{}`", agent.as_str()))
            .collect::<Vec<_>>()
            .join(", which calls ");
        return find(
            format!("agents call each other in a circle: `{}` calls {way}", agent.id),
            "take one of them out of another's `tools`",
        );
    }
    // A circle further down is told at its own agents.
    let is_in_circle = |agent: &Agent| {
        callees(workflow, agent).any(|(_, next)| way_back(workflow, next, &agent.id).is_some())
    };
    if is_in_circle(callee) || all_callees(workflow, callee).into_iter().any(is_in_circle) {
        return None;
    }
    let n = longest_chain(workflow, callee) + 1;
    if n > MOST_CALLERS {
        return find(
            format!("{n} agents call one another in a chain, and {MOST_CALLERS} are the most"),
            "let fewer agents stand between the first and the last",
        );
    }
    None
}

/// The agents from `from` to `to`, both included, each of which calls the next.
fn way_back<'a>(workflow: &'a Workflow, from: &'a Agent, to: &AgentId) -> Option<Vec<&'a AgentId>> {
    let mut seen: Vec<&AgentId> = Vec::new();
    fn search<'a>(
        workflow: &'a Workflow,
        from: &'a Agent,
        to: &AgentId,
        seen: &mut Vec<&'a AgentId>,
    ) -> Option<Vec<&'a AgentId>> {
        if from.id == *to {
            return Some(vec![&from.id]);
        }
        if seen.contains(&&from.id) {
            return None;
        }
        seen.push(&from.id);
        let way = callees(workflow, from).find_map(|(_, next)| search(workflow, next, to, seen))?;
        Some([vec![&from.id], way].concat())
    }
    search(workflow, from, to, &mut seen)
}

/// How many agents stand in the longest chain of calls that begins with `agent`; counted no further than one too many.
fn longest_chain(workflow: &Workflow, agent: &Agent) -> usize {
    fn longest(workflow: &Workflow, agent: &Agent, above: usize) -> usize {
        if above > MOST_CALLERS {
            return 0;
        }
        let below = callees(workflow, agent).map(|(_, callee)| longest(workflow, callee, above + 1)).max();
        1 + below.unwrap_or_default()
    }
    longest(workflow, agent, 0)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn workflow(calls: &[(&str, &[&str])]) -> Workflow {
        let agents: Vec<String> =
            calls.iter().map(|(id, tools)| format!("{{ id: '{id}', model: m, tools: {tools:?} }}")).collect();
        serde_saphyr::from_str(&format!("{{ agents: [{}] }}", agents.join(", "))).unwrap()
    }

    fn check(calls: &[(&str, &[&str])], expected: &[(&str, &str)]) {
        let workflow = workflow(calls);
        let found: Vec<Finding> =
            workflow.agents.iter().flat_map(|agent| findings_of(&workflow, agent)).collect();
        let actual: Vec<_> =
            found.iter().map(|finding| (finding.path.as_str(), finding.what.as_str())).collect();
        assert_eq!(actual, expected, "{calls:?}");
    }

    #[test]
    fn circles_and_long_chains_are_found() {
        check(&[("a", &["read", "b"]), ("b", &["c"]), ("c", &[])], &[]);
        check(&[("a", &["b", "c"]), ("b", &["d"]), ("c", &["d"]), ("d", &[])], &[]);
        check(
            &[("a", &["a"])],
            &[("agents.a.tools[0]", "agents call each other in a circle: `a` calls `a`")],
        );
        check(
            &[("a", &["read", "b"]), ("b", &["a"]), ("c", &["a"])],
            &[
                ("agents.a.tools[1]", "agents call each other in a circle: `a` calls `b`, which calls `a`"),
                ("agents.b.tools[0]", "agents call each other in a circle: `b` calls `a`, which calls `b`"),
            ],
        );
        let ids: Vec<String> = (0..9).map(|n| format!("n{n}")).collect();
        let next: Vec<Vec<&str>> =
            (0..9).map(|n| ids.get(n + 1).map(String::as_str).into_iter().collect()).collect();
        let chain: Vec<(&str, &[&str])> =
            ids.iter().zip(&next).map(|(id, next)| (id.as_str(), next.as_slice())).collect();
        check(&chain[1..], &[]);
        check(&chain, &[("agents.n0.tools[0]", "9 agents call one another in a chain, and 8 are the most")]);
    }

    #[test]
    fn a_name_that_is_no_tools_is_told() {
        check(
            &[("a", &["b c"]), ("b c", &[])],
            &[("agents.a.tools[0]", "the agent `b c` cannot be called as a tool by that name")],
        );
    }

    #[test]
    fn everyone_who_may_be_called_is_found_once() {
        let workflow = workflow(&[("a", &["b", "c"]), ("b", &["d"]), ("c", &["d"]), ("d", &[]), ("e", &[])]);
        let mut found: Vec<&str> = all_callees(&workflow, workflow.agents.find("a").unwrap())
            .into_iter()
            .map(|agent| agent.id.as_str())
            .collect();
        found.sort_unstable();
        assert_eq!(found, ["b", "c", "d"]);
    }
}
