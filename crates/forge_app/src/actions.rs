//! The log of what a run does outside its conversations: each action is saved before it happens, and again
//! with its outcome.

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

/// The log of a run's actions. Clones write to the same one. Without a store, nothing is saved.
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
    /// True until the run that is resumed is claimed: before that, nothing can be written.
    is_waiting: bool,
    /// The actions that are not written yet, in order.
    waiting: Vec<u64>,
    actions: BTreeMap<u64, Entry>,
    last_number: u64,
    /// The first reason why something is missing in the log, until it is reported.
    gap: Option<String>,
}

/// An action of this process.
struct Entry {
    /// Its beginning, until that is written.
    begun: Option<NewAction>,
    key: Option<ActionKey>,
    end: Option<ActionEnd>,
}

/// The number of an action that was begun in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ActionNumber(u64);

impl ActionNumber {
    /// Returns the number itself; no action has the number 0.
    const fn as_u64(self) -> u64 {
        self.0
    }
}

/// An action without its time.
pub(crate) struct ActionDraft {
    pub(crate) agent: Option<AgentId>,
    pub(crate) kind: ActionKind,
    pub(crate) what: String,
    pub(crate) through: String,
    pub(crate) consent: ActionConsent,
}

impl ActionLog {
    /// Creates a log that saves nothing until it has a store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets actions wait until the run that is resumed is claimed.
    pub fn wait_for_claim(&self) {
        self.state().is_waiting = true;
    }

    /// Saves the log in the store of `checkpointing`, unless it has a store.
    pub(crate) fn keep_with(&self, checkpointing: &Arc<Checkpointing>) {
        drop(self.0.checkpointing.set(Arc::clone(checkpointing)));
    }

    /// Saves that an action is about to happen.
    pub(crate) async fn begin(&self, draft: ActionDraft) -> Option<ActionNumber> {
        let checkpointing = self.0.checkpointing.get()?;
        let ActionDraft { agent, kind, what, through, consent } = draft;
        let begun =
            NewAction { at: checkpointing.now(), agent, kind, what: truncate(what), through, consent };
        let number = {
            let mut state = self.state();
            state.last_number += 1;
            let number = state.last_number;
            state.actions.insert(number, Entry { begun: Some(begun), key: None, end: None });
            state.waiting.push(number);
            number
        };
        self.write(checkpointing).await;
        Some(ActionNumber(number))
    }

    /// Saves how it ended, after it happened `count` times.
    pub(crate) async fn end(&self, begun: Option<ActionNumber>, failed: bool, outcome: String, count: u64) {
        let (Some(ActionNumber(number)), Some(checkpointing)) = (begun, self.0.checkpointing.get()) else {
            return;
        };
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

    /// Writes what has waited until now, unless it waits for a claim.
    pub(crate) async fn flush(&self) {
        if let Some(checkpointing) = self.0.checkpointing.get() {
            self.write(checkpointing).await;
        }
    }

    /// Writes the actions that wait, in order.
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
            let begun = self.state().actions.get_mut(&number).and_then(|entry| entry.begun.take());
            let Some(begun) = begun else { continue };
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

    /// Notes why something is missing in the log, if it is the first reason.
    fn note(&self, written: Result<(), String>) {
        if let Err(error) = written {
            self.state().gap.get_or_insert(error);
        }
    }

    /// Returns `hook`, whose calls are logged under its name; `key` names what configures it.
    pub fn hook(&self, hook: Arc<dyn Hook>, key: &str) -> Arc<dyn Hook> {
        Arc::new(LoggedHook { hook, key: key.to_owned(), log: self.clone() })
    }

    /// Saves that the address of a provider is about to be asked for the first time. Returns the number under
    /// which later requests are counted.
    pub async fn begin_address(&self, provider: &str, address: &str) -> u64 {
        let key = format!("`providers.{provider}`");
        self.begin_configured(ActionKind::Address, &without_secrets(address), provider, key)
            .await
            .map_or(0, ActionNumber::as_u64)
    }

    /// Saves that something is about to happen because of a `key` of the configuration.
    async fn begin_configured(
        &self,
        kind: ActionKind,
        what: &str,
        through: &str,
        key: String,
    ) -> Option<ActionNumber> {
        let (what, through) = (what.to_owned(), through.to_owned());
        let consent = ActionConsent::Configured { key };
        self.begin(ActionDraft { agent: None, kind, what, through, consent }).await
    }

    /// Saves the number of requests to an address, and whether the latest failed.
    pub async fn count_address(&self, number: u64, count: u64, failed: bool) {
        let outcome = if failed { "asked, the last request failed" } else { "asked" };
        self.end(Some(ActionNumber(number)), failed, outcome.to_owned(), count).await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cuts off what exceeds the most bytes.
fn truncate(mut what: String) -> String {
    if what.len() > MOST_WHAT {
        let n = what.len();
        what.truncate(what.floor_char_boundary(MOST_WHAT));
        what.push_str(&format!(" [… of {n} bytes]"));
    }
    what
}

#[async_trait]
impl ActionRecorder for ActionLog {
    async fn begin_server(&self, server: &str, what: &str) -> u64 {
        let key = format!("`mcp_servers.{server}`");
        self.begin_configured(ActionKind::Server, what, server, key).await.map_or(0, ActionNumber::as_u64)
    }

    async fn end_server(&self, number: u64, failure: Option<&str>) {
        let outcome = failure.map_or_else(|| "started".to_owned(), |why| format!("failed: {why}"));
        self.end(Some(ActionNumber(number)), failure.is_some(), outcome, 1).await;
    }
}

/// A hook whose calls are logged.
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
        let (name, point) = (self.hook.name(), event.point().as_str());
        let begun = self.log.begin_configured(ActionKind::Hook, name, point, self.key.clone()).await;
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
