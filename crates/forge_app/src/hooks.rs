//! Who is asked and told at the points of a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use forge_domain::{AgentId, CompactEdit, Hook, HookAnswer, HookError, HookEvent, HookPoint};

/// The hooks of a run: those of every agent, and those of one alone, which are asked after them.
#[derive(Clone, Default)]
pub struct Hooks {
    of_all: Vec<Arc<dyn Hook>>,
    of_agent: BTreeMap<AgentId, Vec<Arc<dyn Hook>>>,
}

/// What the hooks together say of what is about to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ruling {
    /// It may happen as it is.
    Proceed,
    /// It may happen, changed like this.
    Edit(CompactEdit),
    /// One of them denies it.
    Deny {
        /// Which.
        by: String,
        /// Why.
        reason: String,
    },
}

impl Hooks {
    /// No hooks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a hook of every agent; hooks are asked in the order in which they are added.
    #[must_use]
    pub fn with(mut self, hook: Arc<dyn Hook>) -> Self {
        self.of_all.push(hook);
        self
    }

    /// Adds a hook of one agent.
    #[must_use]
    pub fn with_one_of(mut self, agent: AgentId, hook: Arc<dyn Hook>) -> Self {
        self.of_agent.entry(agent).or_default().push(hook);
        self
    }

    /// Asks the hooks of `agent` one after the other; the first that denies is the last. `broken` is told of each that
    /// gives no answer.
    pub(crate) async fn ask(
        &self,
        agent: &AgentId,
        event: &HookEvent<'_>,
        broken: &(dyn Fn(&str, &HookError) + Sync),
    ) -> Ruling {
        let mut ruling = Ruling::Proceed;
        for hook in self.listening(agent, event) {
            match hook.call(event).await {
                Err(error) => broken(hook.name(), &error),
                Ok(HookAnswer::Deny { reason }) if event.point().is_question() => {
                    return Ruling::Deny { by: hook.name().to_owned(), reason };
                }
                Ok(HookAnswer::Edit(edit)) if event.point().is_question() => {
                    ruling = match ruling {
                        Ruling::Edit(earlier) => Ruling::Edit(earlier.then(edit)),
                        _ => Ruling::Edit(edit),
                    };
                }
                Ok(_) => {}
            }
        }
        ruling
    }

    /// Whether a hook of `agent` would hear of `event`.
    pub(crate) fn listening<'a>(
        &'a self,
        agent: &AgentId,
        event: &HookEvent<'_>,
    ) -> impl Iterator<Item = &'a Arc<dyn Hook>> {
        let point = event.point();
        let own = self.of_agent.get(agent).into_iter().flatten();
        self.of_all.iter().chain(own).filter(move |hook| hook.listens_at(point))
    }

    /// Whether a hook of `agent` is asked before compactions.
    pub(crate) fn rule_compactions(&self, agent: &AgentId) -> bool {
        let own = self.of_agent.get(agent).into_iter().flatten();
        self.of_all.iter().chain(own).any(|hook| hook.listens_at(HookPoint::PreCompact))
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.of_all.is_empty() && self.of_agent.is_empty()
    }
}
