//! The events of a run, and the notices among them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forge_domain::{AgentId, HookPoint, SinkError, ToolName};

use crate::hooks::Denial;
use crate::{RunEvent, Watcher};

/// The sender of a run's events.
#[derive(Clone)]
pub(crate) struct Events {
    watcher: Watcher,
    notices: Arc<Mutex<Notices>>,
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
        Self { watcher, notices: Arc::default() }
    }

    /// Returns a sender of the same run that hides what models write.
    pub(super) fn quiet(&self) -> Self {
        let watcher = Arc::clone(&self.watcher);
        Self {
            watcher: Arc::new(move |event| match event {
                RunEvent::Text(_)
                | RunEvent::Reasoning(_)
                | RunEvent::Message(_)
                | RunEvent::Restarted { .. }
                | RunEvent::Stopped(_) => {}
                event => watcher(event),
            }),
            notices: Arc::clone(&self.notices),
        }
    }

    /// Sends an event to the watcher. A notice is also kept for the hooks.
    pub(crate) fn emit(&self, event: &RunEvent<'_>) {
        if let RunEvent::Notice(notice) = event {
            self.keep_for_hooks(notice);
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

/// Returns a watcher that ignores every event.
pub(crate) fn silent_watcher() -> Watcher {
    Arc::new(|_| {})
}
