//! Agents that others call as tools: who calls whom, and what is wrong with it.
//!
//! The calls are a graph, which is walked once, without recursion and in time linear in its edges: a workflow
//! may list thousands of agents.

use std::collections::{HashMap, HashSet, VecDeque};

use forge_domain::{Agent, Workflow};

use super::super::Finding;

/// The most agents in a chain of calls, the first included.
pub const MOST_CALLERS: usize = 8;

/// The longest name of a tool that every provider accepts.
const LONGEST_NAME: usize = 64;

/// Most calls of one circle that are reported, and most agents of it that are named.
const MOST_OF_A_CIRCLE: usize = 20;

/// Returns the agents that `agent` calls, and those that they call in turn, each once.
pub fn all_callees<'a>(workflow: &'a Workflow, agent: &Agent) -> Vec<&'a Agent> {
    let calls = Calls::of(workflow);
    let mut waiting: Vec<usize> = calls.number_of(agent).into_iter().collect();
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    while let Some(next) = waiting.pop() {
        for (_, callee) in &calls.edges[next] {
            if seen.insert(*callee) {
                found.push(calls.agents[*callee]);
                waiting.push(*callee);
            }
        }
    }
    found
}

/// The faults of the agents that are called as tools, for each agent that calls: circles, chains that are too
/// long, names that no tool can have.
pub(super) struct CallFindings<'a> {
    calls: Calls<'a>,
    graph: Graph,
    /// The number of calls of each circle that were reported, by the number of the circle.
    told: HashMap<usize, usize>,
}

impl<'a> CallFindings<'a> {
    /// Walks the calls of all agents.
    pub(super) fn of(workflow: &'a Workflow) -> Self {
        let calls = Calls::of(workflow);
        let graph = Graph::of(&calls.edges);
        Self { calls, graph, told: HashMap::new() }
    }

    /// Returns the faults of the calls of `agent`. Every call of an agent is checked once.
    pub(super) fn of_agent(&mut self, agent: &Agent) -> Vec<Finding> {
        let Some(number) = self.calls.number_of(agent) else { return Vec::new() };
        let edges = std::mem::take(&mut self.calls.edges[number]);
        let found = edges.iter().filter_map(|(position, callee)| {
            let (what, hint) = self.fault(number, *callee)?;
            let path = format!("agents.{}.tools[{position}]", agent.id);
            Some(Finding { path, what, hint: Some(hint.to_owned()) })
        });
        let found = found.collect();
        self.calls.edges[number] = edges;
        found
    }

    /// Returns the fault of the call of `callee` by `caller`, and what to do.
    fn fault(&mut self, caller: usize, callee: usize) -> Option<(String, &'static str)> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let id = self.calls.agents[callee].id.as_str();
        if id.len() > LONGEST_NAME || !id.chars().all(is_plain) {
            return Some((
                format!("the agent `{id}` cannot be called as a tool by that name"),
                "use at most 64 letters, digits, `_` and `-` in the agent's id",
            ));
        }
        if caller == callee || self.graph.circle[caller] == self.graph.circle[callee] {
            let told = self.told.entry(self.graph.circle[caller]).or_default();
            *told += 1;
            return (*told <= MOST_OF_A_CIRCLE).then(|| {
                (self.circle_in_words(caller, callee), "remove one of them from another's `tools`")
            });
        }
        // A circle further down is reported at its own agents, and a chain at its first one.
        let is_first = !self.graph.is_called[caller] || self.graph.is_in_circle[caller];
        let n = self.graph.longest_chain[callee]? + 1;
        (n > MOST_CALLERS && is_first).then(|| {
            (
                format!("{n} agents call one another in a chain, but at most {MOST_CALLERS} may"),
                "use fewer agents between the first and the last",
            )
        })
    }

    /// Describes the shortest circle that the call closes.
    fn circle_in_words(&self, caller: usize, callee: usize) -> String {
        let way = self.way(callee, caller);
        let name = |number: &usize| format!("`{}`", self.calls.agents[*number].id);
        let mut named: Vec<String> = way.iter().take(MOST_OF_A_CIRCLE).map(name).collect();
        let n_more = way.len() - named.len();
        if n_more > 0 {
            named.push(format!("{n_more} more agents, the last of which is {}", name(&caller)));
        }
        let way = named.join(", which calls ");
        format!("agents call each other in a circle: {} calls {way}", name(&caller))
    }

    /// Returns the agents of a shortest way from `from` to `to`, both included.
    fn way(&self, from: usize, to: usize) -> Vec<usize> {
        let mut before: HashMap<usize, usize> = HashMap::new();
        let mut waiting = VecDeque::from([from]);
        while let Some(next) = waiting.pop_front() {
            if next == to {
                break;
            }
            for (_, callee) in &self.calls.edges[next] {
                let is_inside = self.graph.circle[*callee] == self.graph.circle[to];
                if is_inside && *callee != from && !before.contains_key(callee) {
                    before.insert(*callee, next);
                    waiting.push_back(*callee);
                }
            }
        }
        let mut way = vec![to];
        while let Some(last) = way.last().filter(|last| **last != from).and_then(|last| before.get(last)) {
            way.push(*last);
        }
        way.reverse();
        way
    }
}

/// The calls between agents, by their places in the workflow.
struct Calls<'a> {
    agents: Vec<&'a Agent>,
    numbers: HashMap<&'a str, usize>,
    /// For each agent the places in its list of tools that name an agent, and that agent.
    edges: Vec<Vec<(usize, usize)>>,
}

impl<'a> Calls<'a> {
    fn of(workflow: &'a Workflow) -> Self {
        let agents: Vec<&Agent> = workflow.agents.iter().collect();
        let numbers: HashMap<&str, usize> =
            agents.iter().enumerate().map(|(number, agent)| (agent.id.as_str(), number)).collect();
        let edges_of = |agent: &&Agent| -> Vec<(usize, usize)> {
            let names = agent.tools.iter().flatten().enumerate();
            names.filter_map(|(position, name)| Some((position, *numbers.get(name.as_str())?))).collect()
        };
        let edges = agents.iter().map(edges_of).collect();
        Self { agents, numbers, edges }
    }

    fn number_of(&self, agent: &Agent) -> Option<usize> {
        self.numbers.get(agent.id.as_str()).copied()
    }
}

/// The shape of the calls, for each agent.
struct Graph {
    /// The number of the circle that it is in; of an agent in none, a number that no other has.
    circle: Vec<usize>,
    is_in_circle: Vec<bool>,
    is_called: Vec<bool>,
    /// The number of agents in the longest chain that starts with it; `None` if it contains a circle.
    longest_chain: Vec<Option<usize>>,
}

impl Graph {
    fn of(edges: &[Vec<(usize, usize)>]) -> Self {
        let mut is_called = vec![false; edges.len()];
        for (caller, callees) in edges.iter().enumerate() {
            callees
                .iter()
                .filter(|(_, callee)| *callee != caller)
                .for_each(|(_, callee)| is_called[*callee] = true);
        }
        let components = components(edges);
        let mut circle = vec![0; edges.len()];
        for (number, members) in components.iter().enumerate() {
            members.iter().for_each(|member| circle[*member] = number);
        }
        let mut is_in_circle = vec![false; edges.len()];
        let mut longest_chain = vec![None; edges.len()];
        // A component comes after all that its members call.
        for members in &components {
            let first = members[0];
            if members.len() > 1 || edges[first].iter().any(|(_, callee)| *callee == first) {
                members.iter().for_each(|member| is_in_circle[*member] = true);
                continue;
            }
            let mut below = edges[first].iter().map(|(_, callee)| longest_chain[*callee]);
            let longest = below.try_fold(0, |most: usize, next: Option<usize>| Some(most.max(next?)));
            longest_chain[first] = longest.map(|below| below + 1);
        }
        Self { circle, is_in_circle, is_called, longest_chain }
    }
}

/// Returns the strongly connected components of the graph, each after all that it leads to (Tarjan's
/// algorithm with a stack of its own, since the program's is limited).
fn components(edges: &[Vec<(usize, usize)>]) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let (mut index, mut low) = (vec![UNSEEN; edges.len()], vec![0; edges.len()]);
    let (mut open, mut is_open) = (Vec::new(), vec![false; edges.len()]);
    let (mut n_seen, mut components) = (0, Vec::new());
    for root in 0..edges.len() {
        if index[root] != UNSEEN {
            continue;
        }
        // Each agent with how many of its calls were followed.
        let mut path = vec![(root, 0)];
        while let Some((agent, n_followed)) = path.last_mut() {
            let agent = *agent;
            if *n_followed == 0 {
                (index[agent], low[agent]) = (n_seen, n_seen);
                n_seen += 1;
                open.push(agent);
                is_open[agent] = true;
            }
            match edges[agent].get(*n_followed) {
                Some((_, callee)) => {
                    *n_followed += 1;
                    if index[*callee] == UNSEEN {
                        path.push((*callee, 0));
                    } else if is_open[*callee] {
                        low[agent] = low[agent].min(index[*callee]);
                    }
                }
                None => {
                    path.pop();
                    if let Some((caller, _)) = path.last() {
                        low[*caller] = low[*caller].min(low[agent]);
                    }
                    if low[agent] == index[agent] {
                        let start = open.iter().rposition(|member| *member == agent).unwrap_or_default();
                        let members = open.split_off(start);
                        members.iter().for_each(|member| is_open[*member] = false);
                        components.push(members);
                    }
                }
            }
        }
    }
    components
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
        let mut walked = CallFindings::of(&workflow);
        let found: Vec<Finding> = workflow.agents.iter().flat_map(|agent| walked.of_agent(agent)).collect();
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
        check(&chain, &[("agents.n0.tools[0]", "9 agents call one another in a chain, but at most 8 may")]);
    }

    /// Builds `n` agents that each call the next; the last calls the first if `is_closed`.
    fn row(n: usize, is_closed: bool) -> Workflow {
        let next = |at: usize| if at + 1 < n { Some(at + 1) } else { is_closed.then_some(0) };
        let agents = (0..n).map(|at| {
            let tools = next(at).map(|next| forge_domain::ToolName::new(format!("n{next}")).unwrap());
            Agent::new(forge_domain::AgentId::new(format!("n{at}")).unwrap())
                .tools(tools.into_iter().collect::<Vec<_>>())
        });
        let mut workflow = Workflow::default();
        agents.for_each(|agent| workflow.agents.add(agent));
        workflow
    }

    #[test]
    fn thousands_of_agents_in_a_row_or_a_circle_are_walked_at_once() {
        let found = |workflow: &Workflow| -> Vec<Finding> {
            let mut calls = CallFindings::of(workflow);
            workflow.agents.iter().flat_map(|agent| calls.of_agent(agent)).collect()
        };
        let row_of_many = row(5_000, false);
        let chain = found(&row_of_many);
        assert_eq!(chain.len(), 1, "a chain is reported at its first agent");
        assert_eq!(chain[0].what, "5000 agents call one another in a chain, but at most 8 may");
        let circle = found(&row(5_000, true));
        assert_eq!(circle.len(), MOST_OF_A_CIRCLE);
        assert!(
            circle[0].what.contains("`n19`, which calls `n20`, which calls 4980 more agents"),
            "{}",
            circle[0].what
        );
        assert_eq!(all_callees(&row_of_many, row_of_many.agents.iter().next().unwrap()).len(), 4_999);
    }

    #[test]
    fn chains_below_a_circle_and_circles_below_a_chain_are_told_once() {
        let ids: Vec<String> = (0..9).map(|n| format!("n{n}")).collect();
        let next: Vec<Vec<&str>> =
            (0..9).map(|n| ids.get(n + 1).map(String::as_str).into_iter().collect()).collect();
        let mut calls: Vec<(&str, &[&str])> =
            ids.iter().zip(&next).map(|(id, next)| (id.as_str(), next.as_slice())).collect();
        calls.insert(0, ("c", &["c", "n0"]));
        check(
            &calls,
            &[
                ("agents.c.tools[0]", "agents call each other in a circle: `c` calls `c`"),
                ("agents.c.tools[1]", "10 agents call one another in a chain, but at most 8 may"),
            ],
        );
        check(
            &[("a", &["b"]), ("b", &["c"]), ("c", &["b"])],
            &[
                ("agents.b.tools[0]", "agents call each other in a circle: `b` calls `c`, which calls `b`"),
                ("agents.c.tools[0]", "agents call each other in a circle: `c` calls `b`, which calls `c`"),
            ],
        );
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
