//! `forge log`: what a run did.

use std::process::ExitCode;

use clap::Args;
use forge_domain::{
    Action, ActionEnd, AgentId, CheckpointFilter, CheckpointStore, Conversation, Holding, RunId, quantity,
};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use crate::arguments::{JsonFlag, STORE_OF_RUNS};
use crate::failure::Misconfigured;
use crate::output::{beginning, exact};
use crate::run::{block_on, select_here};
use crate::setup::store;

/// Most characters of a task or an answer that are shown in one line.
const LINE: usize = 100;

/// Show what a run did: its tasks or, with --actions, every command, file, address and server
///
/// Each action is saved before it begins, with who consented and by which rule. An action without an
/// outcome had begun when its run was killed.
#[derive(Debug, Args)]
pub(crate) struct LogArguments {
    /// The run: its id or the beginning of it, or `last`, the last one of this folder
    #[arg(value_name = "RUN")]
    run: String,
    /// Show what it did outside its conversations, in order
    #[arg(long)]
    actions: bool,
    #[arg(long, value_name = "URL", help = STORE_OF_RUNS)]
    store: Option<String>,
    #[command(flatten)]
    form: JsonFlag,
}

impl LogArguments {
    /// Prints what a run did.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        block_on(self.print())
    }

    async fn print(self) -> anyhow::Result<ExitCode> {
        let none = "no run of this folder is kept (`checkpoint: { store: none }`), so there is no log of one: name a store with --store";
        let url =
            store::of_runs(self.store.as_deref(), None)?.ok_or_else(|| Misconfigured(none.to_owned()))?;
        let store = store::open_for_reading(&url).await?;
        let run = find_run(&*store, &self.run).await?;
        let place = url.to_string();
        if self.actions {
            let actions = join_counts(store.actions(&run).await?);
            let is_live = |holder: &Holding| !holder.has_lapsed();
            let mut runs = store.runs().await?.into_iter();
            let is_held = runs.any(|info| info.run == run && info.holder.as_ref().is_some_and(is_live));
            self.form.answer(&json!({"store": place, "run": run, "actions": actions}), || {
                actions_text(&run, &actions, is_held)
            })?;
        } else {
            let turns = turns(&*store, &run).await?;
            self.form
                .answer(&json!({"store": place, "run": run, "turns": turns}), || turns_text(&run, &turns))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the run that was meant, even if it died before it was saved.
async fn find_run(store: &dyn CheckpointStore, word: &str) -> anyhow::Result<RunId> {
    if let Some(known) = store.runs().await?.into_iter().find(|known| known.run.as_str() == word) {
        return Ok(known.run);
    }
    Ok(select_here(store, word, None).await?.info.run)
}

/// Joins the actions of one provider, of which every process of a run keeps one, to the first of them with
/// the sum of the counts. The order stays.
fn join_counts(actions: Vec<Action>) -> Vec<Action> {
    let mut all: Vec<Action> = Vec::new();
    for action in actions {
        let is_counted =
            action.begun.agent.is_none() && action.begun.kind == forge_domain::ActionKind::Address;
        let is_same = |known: &&mut Action| {
            is_counted
                && (&known.begun.kind, &known.begun.what, &known.begun.through)
                    == (&action.begun.kind, &action.begun.what, &action.begun.through)
        };
        match (all.iter_mut().find(is_same), &action.end) {
            (Some(Action { end: Some(known), .. }), Some(end)) => {
                known.count += end.count;
                known.at = end.at;
            }
            // One that has not ended stands by itself: its outcome is not known.
            _ => all.push(action),
        }
    }
    all
}

fn actions_text(run: &RunId, actions: &[Action], is_held: bool) -> String {
    if actions.is_empty() {
        return format!(
            "run {run} did nothing outside its conversations, or was kept by a forge without this log\n"
        );
    }
    let mut text = String::new();
    for (at, Action { begun, end }) in actions.iter().enumerate() {
        let agent = begun.agent.as_ref().map_or_else(|| "(run)".to_owned(), |agent| exact(agent.as_str()));
        let mut what = exact(&begun.what);
        if begun.through != begun.kind.as_str() {
            what.push_str(&format!(" ({})", exact(&begun.through)));
        }
        text += &format!(
            "{:>3}  {}  {agent}  {}  {what}\n     {} · {}\n",
            at + 1,
            time(begun.at),
            begun.kind.as_str(),
            exact(&begun.consent.to_string()),
            outcome(begun.at, end.as_ref(), is_held),
        );
    }
    text
}

fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn outcome(begun: Timestamp, end: Option<&ActionEnd>, is_held: bool) -> String {
    match end {
        None if is_held => "started, not ended yet, or the run was killed: outcome unknown".to_owned(),
        None => "started, outcome unknown".to_owned(),
        Some(end) if end.count > 1 => {
            format!("{}, {}", exact(&end.outcome), quantity(end.count as usize, "time"))
        }
        Some(end) => {
            let took = end.at.duration_since(begun).as_secs_f64();
            format!("{}, {took:.1} s", exact(&end.outcome))
        }
    }
}

/// A task, and what came of it.
#[derive(Serialize)]
struct LoggedTurn {
    agent: AgentId,
    at: Option<Timestamp>,
    task: String,
    calls: usize,
    answer: Option<String>,
}

/// Returns the turns of all agents, by time.
async fn turns(store: &dyn CheckpointStore, run: &RunId) -> anyhow::Result<Vec<LoggedTurn>> {
    let mut agents: Vec<AgentId> = Vec::new();
    let mut turns = Vec::new();
    for info in store.list(&CheckpointFilter::of_run(run)).await? {
        // The newest of each agent has its whole log.
        if !agents.contains(&info.agent) {
            agents.push(info.agent.clone());
            turns.extend(of_log(&info.agent, &store.load(info.key).await?.snapshot.conversation));
        }
    }
    turns.sort_by_key(|turn| turn.at);
    Ok(turns)
}

fn of_log(agent: &AgentId, log: &Conversation) -> Vec<LoggedTurn> {
    let mut turns: Vec<LoggedTurn> = Vec::new();
    for message in log.messages().map(forge_domain::ContextMessage::message) {
        if message.starts_turn() {
            turns.push(LoggedTurn {
                agent: agent.clone(),
                at: message.timestamp,
                task: message.to_text(),
                calls: 0,
                answer: None,
            });
        } else if let Some(turn) = turns.last_mut() {
            turn.calls += message.calls().len();
            if message.role() == forge_domain::Role::Assistant {
                turn.answer = Some(message.to_text()).filter(|text| !text.trim().is_empty());
            }
        }
    }
    turns
}

fn turns_text(run: &RunId, turns: &[LoggedTurn]) -> String {
    if turns.is_empty() {
        return format!("run {run} was not given a task that is kept\n");
    }
    let mut text = String::new();
    for turn in turns {
        let at = turn.at.map_or_else(String::new, |at| format!("{}  ", time(at)));
        let answer = turn.answer.as_deref().map_or_else(|| "(no answer)".to_owned(), line);
        let calls = quantity(turn.calls, "tool call");
        let agent = exact(turn.agent.as_str());
        text += &format!("{at}{agent}  {}\n     {calls} · {answer}\n", line(&turn.task));
    }
    text + &format!("what it did: forge log {run} --actions\n")
}

/// Returns the beginning of a text in one line.
fn line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    exact(&beginning(&words, LINE))
}
