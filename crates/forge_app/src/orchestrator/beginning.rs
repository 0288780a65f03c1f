//! Asks the hooks before a run and tells them how it ended.

use std::time::Instant;

use forge_domain::{Agent, AgentId, Event, HookEvent, HookPoint, Usage, WorkflowEnd, WorkflowStart};

use super::Orchestrator;
use crate::hooks::Ruling;
use crate::{RunError, RunEvent, RunReport, StopReason};

/// A run that has begun.
pub(super) struct Begun {
    at: Instant,
    /// With whom.
    agents: Vec<AgentId>,
}

impl Orchestrator {
    /// Asks the hooks before `agents` begin on `event`, or go on; where they deny it, the report of a run of nothing.
    pub(super) async fn begin(&mut self, agents: &[Agent], event: Option<&Event>) -> Option<RunReport> {
        self.begun =
            Some(Begun { at: Instant::now(), agents: agents.iter().map(|agent| agent.id.clone()).collect() });
        let ids: Vec<&AgentId> = agents.iter().map(|agent| &agent.id).collect();
        let task = event.map(|event| event.value.as_str());
        let start = HookEvent::WorkflowStart(WorkflowStart { agents: ids.clone(), task });
        let Ruling::Deny(denial) = self.engine.ask_hooks_of_run(&ids, start).await else {
            return None;
        };
        self.begun = None;
        self.engine.say_denied(HookPoint::WorkflowStart, None, &denial);
        let stop = StopReason::Denied { hook: denial.by, reason: denial.reason };
        self.engine.tell(&RunEvent::Stopped(&stop));
        Some(RunReport::empty(stop))
    }

    /// Tells the hooks what came of the run.
    pub(super) async fn end(&mut self, result: &Result<RunReport, RunError>) {
        let end = match result {
            Ok(report) => WorkflowEnd {
                stop: report.stop.as_str(),
                because: report.stop.to_string(),
                response: Some(&report.response),
                iterations: report.iterations,
                usage: report.usage,
                duration_ms: 0,
            },
            Err(error) => WorkflowEnd {
                stop: "failed",
                because: error.to_string(),
                response: None,
                iterations: 0,
                usage: Usage::default(),
                duration_ms: 0,
            },
        };
        self.tell_end(end).await;
    }

    /// Tells the hooks that the run was dropped in the middle, where one was.
    pub(super) async fn end_early(&mut self) {
        let end = WorkflowEnd {
            stop: "interrupted",
            because: "interrupted".to_owned(),
            response: None,
            iterations: 0,
            usage: Usage::default(),
            duration_ms: 0,
        };
        self.tell_end(end).await;
    }

    async fn tell_end(&mut self, end: WorkflowEnd<'_>) {
        let Some(Begun { at, agents }) = self.begun.take() else { return };
        let end = WorkflowEnd { duration_ms: at.elapsed().as_millis() as u64, ..end };
        let agents: Vec<&AgentId> = agents.iter().collect();
        let _: Ruling<_> = self.engine.ask_hooks_of_run(&agents, HookEvent::WorkflowEnd(end)).await;
    }
}
