//! The agents that run on what others emitted, and the end of the run after them.

use forge_domain::Usage;

use super::{Orchestrator, RunStatistics};
use crate::checkpointing::Point;
use crate::emission::MOST_EMITTED;
use crate::{RunError, RunEvent, RunReport, RunTotals, StopReason};

/// Runs the agents that run on what others emitted, completes the report, and notifies the hooks of the end.
pub(super) async fn conclude(
    run: &mut Orchestrator,
    result: Result<RunReport, RunError>,
) -> Result<RunReport, RunError> {
    let result = run_emitted(run, result).await;
    let result = run.engine.conduct.report(result);
    let result = result.map(|report| RunReport { totals: totals(run), ..report });
    run.lifecycle.end(&run.engine, &result).await;
    result
}

/// Returns what all agents of the run have consumed since it began.
fn totals(run: &Orchestrator) -> RunTotals {
    let RunStatistics { calls, spent, agents, .. } = run.statistics();
    let mut usage = Usage::default();
    agents.iter().for_each(|(_, progress)| usage += progress.usage);
    RunTotals { calls, usage, spent }
}

/// Runs the agents that subscribe to what others emitted, until nothing is emitted any more, and adds their
/// reports. A run that did not come to its end leaves the events for its resumption.
async fn run_emitted(
    run: &mut Orchestrator,
    result: Result<RunReport, RunError>,
) -> Result<RunReport, RunError> {
    let mut whole = result?;
    for _ in 0..MOST_EMITTED {
        if whole.stop != StopReason::Done {
            return Ok(whole);
        }
        let next = run.conversations.iter_mut().find_map(|(id, work)| {
            let event = work.course.events.take()?;
            Some((event, (id.clone(), work.course.events.n_taken)))
        });
        let Some((event, taken)) = next else { return Ok(whole) };
        let agents = run.roster().subscribers(&event.name)?;
        agents.iter().try_for_each(|agent| run.engine.check_models(agent))?;
        run.taken = Some(taken);
        whole = run.run_each(&agents, &event, Some(whole)).await?;
        // A run continues from the state that is saved last: that of an agent that is not done.
        if whole.stop == StopReason::Done {
            save_emitters(run).await;
        }
    }
    let is_left = run.conversations.iter_mut().any(|(_, work)| work.course.events.is_any_left());
    if is_left && whole.stop == StopReason::Done {
        whole.stop = StopReason::MaxEvents(MOST_EMITTED);
        run.engine.events.emit(&RunEvent::Stopped(&whole.stop));
    }
    Ok(whole)
}

/// Saves that events were taken and their agents are done.
async fn save_emitters(run: &mut Orchestrator) {
    let Orchestrator { engine, conversations, .. } = run;
    for (id, work) in conversations.iter_mut() {
        let agent = engine.services().workflow.agents.for_lane(id);
        if let Some(agent) = agent.filter(|_| work.course.parent.is_some()) {
            engine.state(&agent, work).save(Point::End).await;
        }
    }
}
