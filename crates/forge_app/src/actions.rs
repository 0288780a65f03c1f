//! The log of what a run does outside its conversations: kept before it happens, and again with its outcome.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use forge_domain::{
    ActionConsent, ActionEnd, ActionKey, ActionKind, ActionRecorder, AgentId, Hook, HookAnswer, HookError,
    HookEvent, HookPoint, NewAction, WhereBroken, without_secrets,
};

use crate::checkpointing::Checkpointing;

/// Most bytes of a command or an address that are kept.
const MOST_WHAT: usize = 64 * 1_024;

/// The log of a run's actions. Clones write the same one; without a store nothing is kept.
#[derive(Clone, Default)]
pub struct ActionLog(Arc<Desk>);

#[derive(Default)]
struct Desk {
    checkpointing: OnceLock<Arc<Checkpointing>>,
    state: Mutex<State>,
    /// Held while actions are written that had to wait, so that they come before what follows.
    writing: futures::lock::Mutex<()>,
}

#[derive(Default)]
struct State {
    /// Whether the run is yet to be found that is resumed: until it is claimed, nothing can be written.
    is_waiting: bool,
    /// What waits for that, in order.
    waiting: Vec<u64>,
    actions: BTreeMap<u64, Entry>,
    last_number: u64,
    /// The first reason why something is missing in the log, until it is told.
    gap: Option<String>,
}

/// An action that has not ended, or waits.
struct Entry {
    begun: NewAction,
    key: Option<ActionKey>,
    end: Option<ActionEnd>,
}

/// An action that was begun in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begun(u64);

/// What an action is, but for its time.
pub(crate) struct ActionDraft {
    pub(crate) agent: Option<AgentId>,
    pub(crate) kind: ActionKind,
    pub(crate) what: String,
    pub(crate) through: String,
    pub(crate) consent: ActionConsent,
}

impl ActionLog {
    /// Creates a log that keeps nothing until it has a store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets actions wait until a run is claimed, which is resumed.
    pub fn wait_for_claim(&self) {
        self.state().is_waiting = true;
    }

    pub(crate) fn keep_with(&self, checkpointing: &Arc<Checkpointing>) {
        drop(self.0.checkpointing.set(Arc::clone(checkpointing)));
    }

    /// Keeps that an action is about to happen.
    pub(crate) async fn begin(&self, draft: ActionDraft) -> Option<Begun> {
        let checkpointing = self.0.checkpointing.get()?;
        let ActionDraft { agent, kind, what, through, consent } = draft;
        let begun = NewAction { at: checkpointing.now(), agent, kind, what: bounded(what), through, consent };
        let number = {
            let mut state = self.state();
            state.last_number += 1;
            let number = state.last_number;
            state.actions.insert(number, Entry { begun, key: None, end: None });
            state.waiting.push(number);
            number
        };
        self.write(checkpointing).await;
        Some(Begun(number))
    }

    /// Keeps how it ended, after `count` times.
    pub(crate) async fn end(&self, begun: Option<Begun>, failed: bool, outcome: String, count: u64) {
        let (Some(Begun(number)), Some(checkpointing)) = (begun, self.0.checkpointing.get()) else { return };
        let end = ActionEnd { at: checkpointing.now(), failed, outcome, count };
        let key = {
            let mut state = self.state();
            let Some(entry) = state.actions.get_mut(&number) else { return };
            entry.end = Some(end.clone());
            entry.key
        };
        if let Some(key) = key {
            self.note(checkpointing.end_action(key, &end).await);
        }
        self.write(checkpointing).await;
    }

    /// Writes what has waited until now. What is still waiting for the run to be claimed goes on to wait.
    pub(crate) async fn flush(&self) {
        if let Some(checkpointing) = self.0.checkpointing.get() {
            self.write(checkpointing).await;
        }
    }

    async fn write(&self, checkpointing: &Checkpointing) {
        let _writing = self.0.writing.lock().await;
        if self.state().is_waiting && !checkpointing.has_claim() {
            return;
        }
        let waiting = {
            let mut state = self.state();
            state.is_waiting = false;
            std::mem::take(&mut state.waiting)
        };
        for number in waiting {
            let Some(begun) = self.state().actions.get(&number).map(|entry| entry.begun.clone()) else {
                continue;
            };
            let key = match checkpointing.begin_action(&begun).await {
                Ok(key) => key,
                Err(error) => {
                    self.note(Err(error));
                    continue;
                }
            };
            let end = {
                let mut state = self.state();
                let entry = state.actions.get_mut(&number);
                entry.and_then(|entry| {
                    entry.key = key;
                    entry.end.clone()
                })
            };
            if let (Some(key), Some(end)) = (key, end) {
                self.note(checkpointing.end_action(key, &end).await);
            }
        }
    }

    /// Returns why something is missing in the log, once.
    pub(crate) fn take_gap(&self) -> Option<String> {
        self.state().gap.take()
    }

    fn note(&self, written: Result<(), String>) {
        if let Err(error) = written {
            self.state().gap.get_or_insert(error);
        }
    }

    /// Returns `hook`, whose calls are kept under its name; `key` says what configures it.
    pub fn hook(&self, hook: Arc<dyn Hook>, key: &str) -> Arc<dyn Hook> {
        Arc::new(LoggedHook { hook, key: key.to_owned(), log: self.clone() })
    }

    /// Keeps that the address of a provider is about to be asked for the first time, and returns the number by which it
    /// is counted on.
    pub async fn begin_address(&self, provider: &str, address: &str) -> u64 {
        let draft = ActionDraft {
            agent: None,
            kind: ActionKind::Address,
            what: without_secrets(address),
            through: provider.to_owned(),
            consent: ActionConsent::Configured { key: format!("`providers.{provider}`") },
        };
        self.begin(draft).await.map_or(0, |Begun(number)| number)
    }

    /// Keeps that it was asked so often, and whether the latest request failed.
    pub async fn count_address(&self, number: u64, count: u64, failed: bool) {
        let outcome = if failed { "asked, the last request failed" } else { "asked" };
        self.end(Some(Begun(number)), failed, outcome.to_owned(), count).await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bounded(mut what: String) -> String {
    if what.len() > MOST_WHAT {
        let n = what.len();
        what.truncate(what.floor_char_boundary(MOST_WHAT));
        what.push_str(&format!(" [… of {n} bytes]"));
    }
    what
}

#[async_trait]
impl ActionRecorder for ActionLog {
    async fn server_begins(&self, server: &str, what: &str) -> u64 {
        let consent = ActionConsent::Configured { key: format!("`mcp_servers.{server}`") };
        let draft = ActionDraft {
            agent: None,
            kind: ActionKind::Server,
            what: what.to_owned(),
            through: server.to_owned(),
            consent,
        };
        self.begin(draft).await.map_or(0, |Begun(number)| number)
    }

    async fn server_ended(&self, number: u64, failure: Option<&str>) {
        let outcome = failure.map_or_else(|| "started".to_owned(), |why| format!("failed: {why}"));
        self.end(Some(Begun(number)), failure.is_some(), outcome, 1).await;
    }
}

/// A hook whose calls are kept.
struct LoggedHook {
    hook: Arc<dyn Hook>,
    key: String,
    log: ActionLog,
}

#[async_trait]
impl Hook for LoggedHook {
    fn name(&self) -> &str {
        self.hook.name()
    }

    fn listens_at(&self, point: HookPoint) -> bool {
        self.hook.listens_at(point)
    }

    fn wants(&self, event: &HookEvent<'_>) -> bool {
        self.hook.wants(event)
    }

    async fn call(&self, event: &HookEvent<'_>) -> Result<HookAnswer, HookError> {
        let draft = ActionDraft {
            agent: None,
            kind: ActionKind::Hook,
            what: self.hook.name().to_owned(),
            through: event.point().as_str().to_owned(),
            consent: ActionConsent::Configured { key: self.key.clone() },
        };
        let begun = self.log.begin(draft).await;
        let answer = self.hook.call(event).await;
        let outcome = match &answer {
            Ok(HookAnswer::Deny { .. }) => "it denied".to_owned(),
            Ok(HookAnswer::Edit(_)) => "it changed something".to_owned(),
            Ok(_) => "ended".to_owned(),
            Err(error) => format!("failed: {error}"),
        };
        self.log.end(begun, answer.is_err(), outcome, 1).await;
        answer
    }

    fn where_broken(&self) -> WhereBroken {
        self.hook.where_broken()
    }
}
