//! The hooks at the beginning and the end of a run.

use std::convert::Infallible;
use std::time::Instant;

use forge_domain::{Agent, AgentId, Event, HookEvent, HookPoint, Usage, WorkflowEnd, WorkflowStart};

use crate::hooks::Ruling;
use crate::{Engine, RunError, RunEvent, RunReport, StopReason};

/// The beginning of the run that is not over yet, which the hooks know of.
#[derive(Default)]
pub(super) struct Lifecycle(Option<Beginning>);

/// A beginning of a run.
struct Beginning {
    at: Instant,
    agents: Vec<AgentId>,
}

impl Lifecycle {
    /// Asks the hooks before `agents` begin on `event`, or continue. If they deny it, returns the report of
    /// an empty run.
    pub(super) async fn begin(
        &mut self,
        engine: &Engine,
        agents: &[Agent],
        event: Option<&Event>,
    ) -> Option<RunReport> {
        let ids: Vec<&AgentId> = agents.iter().map(|agent| &agent.id).collect();
        let task = event.map(|event| event.value.as_str());
        let start = HookEvent::WorkflowStart(WorkflowStart { agents: ids.clone(), task });
        // The beginning is noted before the hooks are asked: a run that is interrupted meanwhile has an end,
        // too.
        self.0 = Some(Beginning { at: Instant::now(), agents: ids.iter().map(|id| (*id).clone()).collect() });
        let Ruling::<Infallible>::Deny(denial) = engine.ask_hooks(&ids, start).await else {
            return None;
        };
        self.0 = None;
        engine.events.denial(HookPoint::WorkflowStart, None, &denial);
        let stop = StopReason::Denied { hook: denial.by, reason: denial.reason };
        engine.events.emit(&RunEvent::Stopped(&stop));
        Some(RunReport::empty(stop))
    }

    /// Notifies the hooks of the run's result.
    pub(super) async fn end(&mut self, engine: &Engine, result: &Result<RunReport, RunError>) {
        let end = match result {
            Ok(report) => WorkflowEnd {
                stop: report.stop.as_str(),
                because: report.stop.to_string(),
                response: Some(&report.response),
                iterations: report.iterations,
                usage: report.usage,
                duration_ms: 0,
            },
            Err(error) => without_result("failed", error.to_string()),
        };
        self.notify_of_end(engine, end).await;
    }

    /// Notifies the hooks that the run was interrupted, if one was.
    pub(super) async fn end_early(&mut self, engine: &Engine) {
        self.notify_of_end(engine, without_result("interrupted", "interrupted".to_owned())).await;
    }

    async fn notify_of_end(&mut self, engine: &Engine, end: WorkflowEnd<'_>) {
        let Some(Beginning { at, agents }) = self.0.take() else { return };
        let end = WorkflowEnd { duration_ms: at.elapsed().as_millis() as u64, ..end };
        let ids: Vec<&AgentId> = agents.iter().collect();
        let _: Ruling<Infallible> = engine.ask_hooks(&ids, HookEvent::WorkflowEnd(end)).await;
    }
}

/// Returns the end of a run that has no report.
fn without_result(stop: &'static str, because: String) -> WorkflowEnd<'static> {
    WorkflowEnd { stop, because, response: None, iterations: 0, usage: Usage::default(), duration_ms: 0 }
}
