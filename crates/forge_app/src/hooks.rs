//! The hooks at the points of a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use forge_domain::{
    AgentId, Hook, HookAnswer, HookCommand, HookCommands, HookError, HookEvent, HookPoint, PointEdit,
    ToolPattern, WhereBroken, Workflow,
};
use tracing::Instrument;

use crate::spans::{hook_span, record_answer};

/// The hooks of a run: those of every agent, then those of single agents, and last those whose decision is
/// final.
#[derive(Clone, Default)]
pub struct Hooks {
    of_all: Vec<Arc<dyn Hook>>,
    of_agent: BTreeMap<AgentId, Vec<Arc<dyn Hook>>>,
    last: Vec<(Option<AgentId>, Arc<dyn Hook>)>,
}

/// The decision of all hooks about what is about to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ruling<E> {
    /// It may happen as it is.
    Proceed,
    /// It may happen, changed like this.
    Edit(E),
    /// One of them denies it.
    Deny(Denial),
}

/// A denial, and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denial {
    /// The hook that denied.
    pub(crate) by: String,
    /// Its reason; may be empty.
    pub(crate) reason: String,
}

/// The commands for hooks at one place of a workflow.
pub(crate) struct NamedCommands<'a> {
    /// The agent, if they are one's alone.
    pub(crate) agent: Option<&'a AgentId>,
    pub(crate) commands: &'a HookCommands,
    /// True if an earlier layer holds them against later ones.
    is_held: bool,
}

/// Returns the commands that `workflow` and its agents name, in the order in which they are asked.
pub(crate) fn named_commands(workflow: &Workflow) -> impl Iterator<Item = NamedCommands<'_>> {
    let of_all = workflow.hooks.iter().map(|commands| (None::<&AgentId>, commands));
    let agents = workflow.agents.iter();
    let of_agents =
        agents.filter_map(|agent| agent.hooks.as_ref().map(|commands| (Some(&agent.id), commands)));
    let of_file = of_all.chain(of_agents);
    let of_file = of_file.map(|(agent, commands)| NamedCommands { agent, commands, is_held: false });
    let held = workflow.floor.hooks();
    of_file.chain(held.map(|(agent, commands)| NamedCommands { agent, commands, is_held: true }))
}

impl Hooks {
    /// Creates an empty list of hooks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a hook of every agent; hooks are asked in the order in which they are added.
    #[must_use]
    pub fn with(mut self, hook: Arc<dyn Hook>) -> Self {
        self.of_all.push(hook);
        self
    }

    /// Adds a hook of one agent. It is notified of the beginning and the end of a run that the agent begins.
    #[must_use]
    pub fn with_one_of(mut self, agent: AgentId, hook: Arc<dyn Hook>) -> Self {
        self.of_agent.entry(agent).or_default().push(hook);
        self
    }

    /// Adds a hook that is asked after all those of [`Self::with`] and [`Self::with_one_of`], and so decides
    /// about an event as these have edited it. It is a hook of every agent, or of the one that is named.
    #[must_use]
    pub fn with_last(mut self, agent: Option<AgentId>, hook: Arc<dyn Hook>) -> Self {
        self.last.push((agent, hook));
        self
    }

    /// Adds the commands that `workflow` and its agents name, each as the hook that `runner` makes of it.
    /// Those of earlier layers, which later ones cannot loosen, are asked last.
    #[must_use]
    pub fn with_commands(
        mut self,
        workflow: &Workflow,
        runner: impl Fn(HookPoint, &HookCommand, &[ToolPattern]) -> Arc<dyn Hook>,
    ) -> Self {
        for NamedCommands { agent, commands, is_held } in named_commands(workflow) {
            let hooks = commands.iter().map(|(point, command, tools)| runner(point, &command, tools));
            match agent {
                _ if is_held => self.last.extend(hooks.map(|hook| (agent.cloned(), hook))),
                Some(agent) => self.of_agent.entry(agent.clone()).or_default().extend(hooks),
                None => self.of_all.extend(hooks),
            }
        }
        self
    }

    /// Asks the hooks of every agent and those of `agents`, one after the other. Each sees what the earlier
    /// ones have edited, and the first denial ends it. `broken` is called with each hook that gives no
    /// answer, or one that its point does not accept.
    pub(crate) async fn ask<E: PointEdit>(
        &self,
        agents: &[&AgentId],
        mut event: HookEvent<'_>,
        broken: &(dyn Fn(&str, &HookError) + Sync),
    ) -> Ruling<E> {
        let point = event.point();
        let mut edits: Option<E> = None;
        for hook in self.listeners(agents, point) {
            if !hook.wants(&event) {
                continue;
            }
            let fitting =
                |answer: HookAnswer| answer.fitting(point).map_err(|unfit| HookError(Box::new(unfit)));
            let span = hook_span(point);
            let answer = hook.call(&event).instrument(span.clone()).await.and_then(fitting);
            record_answer(&span, &answer);
            drop(span);
            match answer {
                Ok(HookAnswer::Deny { reason }) => {
                    return Ruling::Deny(Denial { by: hook.name().to_owned(), reason });
                }
                Ok(HookAnswer::Edit(edit)) => {
                    event.take(&edit);
                    edits = match (edits, E::from_edit(edit)) {
                        (Some(earlier), Some(later)) => Some(earlier.then(later)),
                        (earlier, later) => later.or(earlier),
                    };
                }
                Ok(_) => {}
                Err(error) => {
                    broken(hook.name(), &error);
                    if hook.where_broken() == WhereBroken::Deny && point.denial().is_some() {
                        let reason = format!("it failed, and must not be skipped: {error}");
                        return Ruling::Deny(Denial { by: hook.name().to_owned(), reason });
                    }
                }
            }
        }
        edits.map_or(Ruling::Proceed, Ruling::Edit)
    }

    /// Checks whether a hook of every agent or of `agent` listens at `point`.
    pub(crate) fn listen_at(&self, agent: &AgentId, point: HookPoint) -> bool {
        self.listeners(&[agent], point).next().is_some()
    }

    fn listeners(&self, agents: &[&AgentId], point: HookPoint) -> impl Iterator<Item = &Arc<dyn Hook>> {
        let of =
            |agent: &&AgentId| self.of_agent.get(*agent).or_else(|| self.of_agent.get(agent.without_lane()));
        let own: Vec<_> = agents.iter().filter_map(of).flatten().collect();
        let is_meant = |held: &Option<AgentId>| {
            held.as_ref().is_none_or(|held| {
                agents.iter().any(|agent| *agent == held || agent.without_lane() == held.as_str())
            })
        };
        let last: Vec<_> =
            self.last.iter().filter(|(agent, _)| is_meant(agent)).map(|(_, hook)| hook).collect();
        self.of_all.iter().chain(own).chain(last).filter(move |hook| hook.listens_at(point))
    }
}
