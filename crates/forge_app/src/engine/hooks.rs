//! The hooks, as turns and runs ask and notify them.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;

use forge_domain::{AgentId, HookEvent, Notification, PointEdit};
use futures::FutureExt;
use futures::future::FusedFuture;

use super::Engine;
use crate::RunEvent;
use crate::hooks::Ruling;

impl Engine {
    /// Asks the hooks of `agents`. A broken hook is reported and ignored.
    pub(crate) async fn ask_hooks<E: PointEdit>(
        &self,
        agents: &[&AgentId],
        event: HookEvent<'_>,
    ) -> Ruling<E> {
        let broken = |hook: &str, error: &_| self.events.emit(&RunEvent::HookFailed { hook, error });
        self.hooks.ask(agents, event, &broken).await
    }

    /// Notifies the hooks of something that they cannot change.
    pub(crate) async fn notify_hooks(&self, id: &AgentId, event: HookEvent<'_>) {
        let _: Ruling<Infallible> = self.ask_hooks(&[id], event).await;
    }

    /// Delivers the notices that hooks have yet to receive.
    pub(crate) async fn deliver_notices(&self, id: &AgentId) {
        for text in &self.events.take_undelivered() {
            deliver_notice(self, id, text).await;
        }
    }
}

/// Delivers a notice to the hooks.
pub(crate) async fn deliver_notice(engine: &Engine, id: &AgentId, text: &str) {
    engine.notify_hooks(id, HookEvent::Notification(Notification { agent: id, text })).await;
}

/// Returns the user's answer. If it is not there at once, `notice` is delivered meanwhile; if it is, no one
/// was asked.
pub(crate) async fn with_notice<T>(answer: impl Future<Output = T>, notice: impl Future<Output = ()>) -> T {
    let (mut answer, mut notice) = (pin!(answer), pin!(notice.fuse()));
    let mut is_asked = false;
    let answer = poll_fn(|context| {
        let answer = answer.as_mut().poll(context);
        if answer.is_pending() {
            is_asked = true;
            let _ = notice.as_mut().poll(context);
        }
        answer
    })
    .await;
    if is_asked && !notice.is_terminated() {
        notice.await;
    }
    answer
}
