//! The rules and hooks of earlier layers of a workflow that a later one cannot loosen: rules for tool calls,
//! and hooks.

use std::collections::BTreeMap;

use crate::{AgentId, HookCommands, Permissions, Rules};

/// The rules and hooks of earlier layers. A later layer adds to them and removes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Floor {
    rules: Vec<LayerRules>,
    hooks: Vec<(Option<AgentId>, HookCommands)>,
}

/// The rules of the layers up to one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayerRules {
    /// Those for every agent.
    pub of_all: Option<Permissions>,
    /// Those for one agent alone, which count before those for every agent.
    pub of_agents: BTreeMap<AgentId, Permissions>,
}

impl LayerRules {
    /// Checks whether there is no rule at all.
    pub fn is_empty(&self) -> bool {
        self.of_all.is_none() && self.of_agents.is_empty()
    }

    /// Returns the rules for the calls of `agent`, or of the agent whose lane it is.
    fn of(&self, agent: &AgentId) -> Permissions {
        let own = self.of_agents.get(agent).or_else(|| self.of_agents.get(agent.without_lane()));
        let all = self.of_all.clone().unwrap_or_default();
        match own {
            Some(own) => all.then(own),
            None => all,
        }
    }
}

impl Floor {
    /// Holds `rules` against every later layer.
    pub fn hold_rules(&mut self, rules: LayerRules) {
        if !rules.is_empty() {
            self.rules.push(rules);
        }
    }

    /// Holds `hooks` of one agent, or of all where none is named.
    pub fn hold_hooks(&mut self, agent: Option<AgentId>, hooks: HookCommands) {
        self.hooks.push((agent, hooks));
    }

    /// Checks whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.hooks.is_empty()
    }

    /// Returns the hooks that are held, each with its agent where it is about one alone. They are
    /// asked after all others, so that they see what these changed.
    pub fn hooks(&self) -> impl Iterator<Item = (Option<&AgentId>, &HookCommands)> {
        self.hooks.iter().map(|(agent, hooks)| (agent.as_ref(), hooks))
    }

    /// Returns the rules for the calls of `agent`: those that are held and, besides, `latest`.
    pub fn rules(&self, agent: &AgentId, latest: Permissions) -> Rules {
        self.rules.iter().map(|layer| layer.of(agent)).chain([latest]).collect()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::{Discretion, Permission, Reach, Subject, ToolName};

    fn permissions(yaml: &str) -> Permissions {
        serde_saphyr::from_str(yaml).unwrap()
    }

    #[test]
    fn the_strictest_layer_that_says_something_of_a_call_counts() {
        use Permission::{Allow, Ask, Deny};
        for (held, latest, expected) in [
            ("{ shell: deny }", "{ shell: allow }", Deny),
            ("{ shell: ask }", "{ shell: allow }", Ask),
            ("{ shell: allow }", "{ shell: ask }", Ask),
            ("{ shell: allow }", "{}", Allow),
            ("{}", "{ shell: allow }", Allow),
            ("{}", "{}", Ask),
            ("{ '*': deny, shell: { 'git *': allow } }", "{ shell: { 'git *': allow } }", Allow),
            ("{ shell: { 'git *': deny } }", "{ '*': allow }", Deny),
            ("{ shell: { 'rm *': deny } }", "{ shell: allow }", Allow),
        ] {
            let mut floor = Floor::default();
            floor.hold_rules(LayerRules { of_all: Some(permissions(held)), ..LayerRules::default() });
            let rules = floor.rules(&AgentId::new("a").unwrap(), permissions(latest));
            let reach = Reach { usual: Ask, subjects: vec![Subject::Command("git push".to_owned())] };
            let actual =
                rules.decide(&Discretion::default(), &ToolName::new("shell").unwrap(), &reach).permission;
            assert_eq!(actual, expected, "{held} {latest}");
        }
    }

    #[test]
    fn what_a_layer_says_of_one_agent_counts_for_its_lanes() {
        let agent = AgentId::new("scout").unwrap();
        let mut floor = Floor::default();
        floor.hold_rules(LayerRules {
            of_all: Some(permissions("{ write: allow }")),
            of_agents: [(agent, permissions("{ write: deny }"))].into(),
        });
        let write = ToolName::new("write").unwrap();
        for (id, expected) in [("scout~1", Permission::Deny), ("other", Permission::Allow)] {
            let rules = floor.rules(&AgentId::new(id).unwrap(), Permissions::default());
            assert_eq!(
                rules.decide(&Discretion::default(), &write, &Reach::careful()).permission,
                expected,
                "{id}"
            );
        }
    }
}
