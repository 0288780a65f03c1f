//! The events of a run, and the notices among them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forge_domain::{AgentId, HookPoint, SinkError, ToolName};

use crate::actions::ActionLog;
use crate::hooks::Denial;
use crate::{RunEvent, Watcher};

/// The sender of a run's events.
#[derive(Clone)]
pub(crate) struct Events {
    watcher: Watcher,
    notices: Arc<Mutex<Notices>>,
    /// The agent whose events these are, if another one asked it.
    asked: Option<AgentId>,
    /// That of the last event of the run: several agents may work at the same time.
    speaker: Arc<Mutex<Option<AgentId>>>,
}

/// The notices of a run.
#[derive(Default)]
struct Notices {
    /// Notices that are reported only once.
    reported: BTreeSet<String>,
    /// Notices that hooks have yet to receive.
    undelivered: Vec<String>,
    /// The agents whose sessions were not written at the last try, with the reason.
    unrecorded: BTreeMap<AgentId, String>,
}

impl Events {
    /// Creates a sender to `watcher`.
    pub(super) fn new(watcher: Watcher) -> Self {
        Self { watcher, notices: Arc::default(), asked: None, speaker: Arc::default() }
    }

    /// Returns a sender of the same run for `agent`, which another one asked: it hides what models write.
    pub(super) fn quiet(&self, agent: &AgentId) -> Self {
        Self { asked: Some(agent.clone()), ..self.clone() }
    }

    /// Sends an event to the watcher, after the agent that it is of if that is another one than before. A
    /// notice is also kept for the hooks.
    pub(crate) fn emit(&self, event: &RunEvent<'_>) {
        if let RunEvent::Notice(notice) = event {
            self.keep_for_hooks(notice);
        }
        if self.asked.is_some() && is_for_asker(event) {
            return;
        }
        // It is held until the watcher is done, so that no other agent comes between.
        let mut speaker = self.speaker.lock().unwrap_or_else(PoisonError::into_inner);
        if *speaker != self.asked {
            speaker.clone_from(&self.asked);
            (self.watcher)(&RunEvent::Speaker { agent: self.asked.as_ref() });
        }
        (self.watcher)(event);
    }

    /// Reports a notice to the user.
    pub(crate) fn notice(&self, notice: &str) {
        self.emit(&RunEvent::Notice(notice));
    }

    /// Reports a notice to the user, unless it was reported before.
    pub(crate) fn notice_once(&self, notice: &str) {
        let is_new = self.notices().reported.insert(notice.to_owned());
        if is_new {
            self.notice(notice);
        }
    }

    /// Reports why something is missing in the log of a run's `actions`, once.
    pub(crate) fn report_gap(&self, actions: &ActionLog) {
        if let Some(gap) = actions.take_gap() {
            self.notice_once(&format!("the log of this run's actions is not complete: {gap}"));
        }
    }

    /// Notes whether the session of `agent` was written, and reports the first failure.
    pub(crate) fn recorded(&self, agent: &AgentId, saved: Result<(), SinkError>) {
        let Err(error) = saved else {
            self.notices().unrecorded.remove(agent);
            return;
        };
        let why = format!("{error}: {}", error.source);
        self.notice_once(&format!("{why}; the work continues, and each call tries again"));
        self.notices().unrecorded.insert(agent.clone(), why);
    }

    /// Returns why a session was not written at the last try.
    pub(super) fn unrecorded(&self) -> Option<String> {
        self.notices().unrecorded.values().next().cloned()
    }

    /// Reports that a hook denied something.
    pub(crate) fn denial(&self, point: HookPoint, tool: Option<&ToolName>, denial: &Denial) {
        let Denial { by: hook, reason } = denial;
        self.emit(&RunEvent::HookDenied { point, tool, hook, reason });
    }

    /// Keeps a text for the hooks, which receive it as soon as the work waits for anything.
    pub(crate) fn keep_for_hooks(&self, text: &str) {
        self.notices().undelivered.push(text.to_owned());
    }

    /// Takes out the notices that hooks have yet to receive.
    pub(super) fn take_undelivered(&self) -> Vec<String> {
        std::mem::take(&mut self.notices().undelivered)
    }

    fn notices(&self) -> MutexGuard<'_, Notices> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks whether an event of an agent that another one asked is for that one alone.
const fn is_for_asker(event: &RunEvent<'_>) -> bool {
    matches!(
        event,
        RunEvent::Text(_)
            | RunEvent::Reasoning(_)
            | RunEvent::Message(_)
            | RunEvent::Restarted { .. }
            | RunEvent::Stopped(_)
    )
}

/// Returns a watcher that ignores every event.
pub(crate) fn silent_watcher() -> Watcher {
    Arc::new(|_| {})
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn events_of_agents_that_work_at_the_same_time_are_told_apart() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let watched = Arc::clone(&told);
        let events = Events::new(Arc::new(move |event: &RunEvent<'_>| {
            let word = match event {
                RunEvent::Speaker { agent } => agent.map_or("-", AgentId::as_str),
                RunEvent::Notice(text) => text,
                _ => "?",
            };
            watched.lock().unwrap().push(word.to_owned());
        }));
        let [one, two] = ["scout~1", "scout~2"].map(|id| events.quiet(&AgentId::new(id).unwrap()));
        events.notice("a");
        one.notice("b");
        one.notice("c");
        two.emit(&RunEvent::Text("hidden"));
        two.notice("d");
        one.notice("e");
        events.notice("f");
        let expected = ["a", "scout~1", "b", "c", "scout~2", "d", "scout~1", "e", "-", "f"];
        assert_eq!(*told.lock().unwrap(), expected);
    }
}
