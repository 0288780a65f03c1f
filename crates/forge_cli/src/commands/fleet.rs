//! `forge fleet`: looks at the runs of a fleet, and speaks to them.

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use forge_app::{
    Answer, AnswerWhat, RunDetails, RunState, ScheduledRun, Scheduler, awaited, last_words, saved_workspace,
};
use forge_domain::{
    Awaited, AwaitedRequest, CheckpointStore, Clock as _, Consent, RunId, StoreError, Workspace, quantity,
};
use forge_infra::SystemClock;
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use serde_json::json;

use super::submit::shared_store;
use crate::arguments::{JsonFlag, STORE_OF_FLEET};
use crate::failure::Misconfigured;
use crate::fleet::FleetFlags;
use crate::output::table::{Side, table};
use crate::output::{self, visible, visible_lines};
use crate::run::{age, block_on, shell_quote};
use crate::setup::store;
use crate::terminal::file_diff::diff_lines;
use crate::terminal::person::{argument_lines, choice};

/// The most runs about which the store is asked at once.
const AT_ONCE: usize = 8;

/// Look at the runs of a fleet, and speak to them
#[derive(Debug, Args)]
pub(crate) struct FleetArguments {
    #[command(flatten)]
    fleet: FleetFlags,
    #[arg(long, value_name = "URL", global = true, help = STORE_OF_FLEET)]
    store: Option<String>,
    /// Print one JSON document
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: FleetCommand,
}

#[derive(Debug, Subcommand)]
enum FleetCommand {
    /// List the runs of the fleet
    List,
    /// Show a run: how far it is, and what it waits for
    Show {
        /// The run
        #[arg(value_parser = run_id)]
        run: RunId,
    },
    /// Give advice to a run, which is heard before its next call to the model
    Steer {
        /// The run
        #[arg(value_parser = run_id)]
        run: RunId,
        /// The advice
        text: String,
    },
    Answer(AnswerArguments),
    /// End a run at its next safe point; `forge fleet retry` continues it
    Stop {
        /// The run
        #[arg(value_parser = run_id)]
        run: RunId,
    },
    /// Continue a run that failed or was stopped
    Retry {
        /// The run
        #[arg(value_parser = run_id)]
        run: RunId,
    },
}

/// Answer a question of a run, or decide on a call that it wants to make
#[derive(Debug, Args)]
struct AnswerArguments {
    /// The run
    #[arg(value_parser = run_id)]
    run: RunId,
    /// The answer to its question
    #[arg(required_unless_present_any = ["allow", "allow_for_run", "refuse"],
        conflicts_with_all = ["allow", "allow_for_run", "refuse"])]
    text: Option<String>,
    /// Allow the call
    #[arg(long, conflicts_with_all = ["allow_for_run", "refuse"])]
    allow: bool,
    /// Allow the call, and others like it for the rest of the run
    #[arg(long, conflicts_with = "refuse")]
    allow_for_run: bool,
    /// Refuse the call; the agent reads the reason
    #[arg(long, value_name = "WHY", num_args = 0..=1, default_missing_value = "")]
    refuse: Option<String>,
    /// The name of what is answered, if the run waits for several things
    #[arg(long, value_name = "NAME")]
    id: Option<String>,
}

impl FleetArguments {
    /// Runs the command.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        block_on(self.carry_out())?;
        Ok(ExitCode::SUCCESS)
    }

    async fn carry_out(self) -> anyhow::Result<()> {
        let scheduler = self.fleet.connect(None).await?;
        let form = JsonFlag { json: self.json };
        let done = |run: &RunId, what: &str| form.answer(&json!({"run": run}), || format!("{what}\n"));
        match &self.command {
            FleetCommand::List => {
                let mut runs = scheduler.list().await?;
                if runs.iter().any(|run| run.state == RunState::Running) {
                    match self.open_store().await {
                        Ok(store) => mark_waiting(&mut runs, &*store).await?,
                        Err(error) => output::note(&format!(
                            "runs that wait are shown as running: the store cannot be read ({error:#})"
                        )),
                    }
                }
                form.answer(&json!({"runs": runs}), || list_text(&runs, SystemClock.now()))
            }
            FleetCommand::Show { run } => {
                let shown = Shown::of(&*scheduler, &*self.open_store().await?, run).await?;
                form.answer(&shown.json(), || shown.text())
            }
            FleetCommand::Steer { run, text } => {
                scheduler.steer(run, text.clone()).await?;
                done(run, "it is heard before the next call to the model")
            }
            FleetCommand::Answer(arguments) => {
                let awaited = awaited(&*self.open_store().await?, &arguments.run).await?;
                let answer = arguments.answer(&awaited)?;
                scheduler.answer(&arguments.run, answer).await?;
                done(&arguments.run, "answered")
            }
            FleetCommand::Stop { run } => {
                scheduler.stop(run).await?;
                done(run, "it ends at its next safe point")
            }
            FleetCommand::Retry { run } => {
                scheduler.retry(run).await?;
                done(run, "it continues")
            }
        }
    }

    async fn open_store(&self) -> anyhow::Result<Arc<dyn CheckpointStore>> {
        let named = shared_store(self.store.as_deref(), None)?;
        store::open_existing(&store::store_url(Some(&named))?).await
    }
}

impl AnswerArguments {
    /// Returns the answer, to what it can only mean.
    fn answer(&self, awaited: &[Awaited]) -> anyhow::Result<Answer> {
        let what = match (&self.text, &self.refuse) {
            (Some(text), _) => AnswerWhat::Text(text.clone()),
            (None, Some(why)) => {
                let why = Some(why.clone()).filter(|why| !why.is_empty());
                AnswerWhat::Consent(Consent::Refused { why })
            }
            (None, None) if self.allow_for_run => AnswerWhat::Consent(Consent::ForRun),
            (None, None) => AnswerWhat::Consent(Consent::Once),
        };
        let is_fitting = |awaited: &&Awaited| {
            let is_text = matches!(what, AnswerWhat::Text(_));
            let is_named = self.id.as_ref().is_none_or(|id| *id == awaited.id);
            is_named && is_text == matches!(awaited.request, AwaitedRequest::Answer(_))
        };
        let fitting: Vec<&Awaited> = awaited.iter().filter(is_fitting).collect();
        match fitting.as_slice() {
            [one] => Ok(Answer { id: one.id.clone(), what: chosen(&one.request, what) }),
            [] => {
                let known: Vec<&str> = awaited.iter().map(|awaited| awaited.id.as_str()).collect();
                let known = if known.is_empty() { "nothing".to_owned() } else { known.join("; ") };
                let kind = if self.text.is_some() { "an answer" } else { "a decision" };
                Err(Misconfigured(format!("the run does not wait for such {kind}; it waits for {known}"))
                    .into())
            }
            several => {
                let names: Vec<&str> = several.iter().map(|awaited| awaited.id.as_str()).collect();
                let what = format!("the run waits for several: say which one by --id {}", names.join(" or "));
                Err(Misconfigured(what).into())
            }
        }
    }
}

/// Returns the answer with the option that its number chooses, if the question has options.
fn chosen(request: &AwaitedRequest, what: AnswerWhat) -> AnswerWhat {
    match (request, what) {
        (AwaitedRequest::Answer(question), AnswerWhat::Text(text)) => {
            AnswerWhat::Text(choice(question, text))
        }
        (_, what) => what,
    }
}

fn run_id(text: &str) -> Result<RunId, String> {
    RunId::new(text).map_err(|error| error.to_string())
}

/// A run with what its store knows.
struct Shown {
    scheduled: ScheduledRun,
    awaited: Vec<Awaited>,
    /// The last words of the agent.
    said: Option<String>,
    /// Its workspace, if it is not the folder of its workers.
    workspace: Option<Workspace>,
}

impl Shown {
    async fn of(scheduler: &dyn Scheduler, store: &dyn CheckpointStore, run: &RunId) -> anyhow::Result<Self> {
        let scheduled = scheduler.show(run).await?;
        let awaited = if scheduled.state.is_open() { awaited(store, run).await? } else { Vec::new() };
        let workspace = match saved_workspace(store, run).await {
            Ok((_, workspace)) => workspace,
            Err(StoreError::NotFound { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Self { scheduled, awaited, said: last_words(store, run).await?, workspace })
    }

    fn json(&self) -> serde_json::Value {
        let mut json = serde_json::to_value(&self.scheduled).unwrap_or_default();
        json["awaited"] = json!(self.awaited);
        json["said"] = json!(self.said);
        json["workspace"] = json!(self.workspace);
        json
    }

    fn text(&self) -> String {
        let ScheduledRun { run, state, details, .. } = &self.scheduled;
        let mut lines = vec![format!("{run}: {}", state.as_str())];
        match details {
            None => lines.push("no worker answers: start one with forge worker".to_owned()),
            Some(RunDetails { calls, cost, checkpoint, why, trouble, .. }) => {
                let at = checkpoint.map(|key| format!(", at checkpoint {key}")).unwrap_or_default();
                lines.push(format!("{}, {cost}{at}", quantity(*calls, "call")));
                lines.extend(why.as_ref().map(|why| format!("over: {}", visible(why))));
                if let Some((tries, why)) = trouble {
                    lines.push(format!("trouble: try {tries}, as the last one failed: {}", visible(why)));
                }
            }
        }
        if let Some(Workspace::Git(tree)) = &self.workspace {
            let (kept, commit) = (tree.keeper(), tree.commit());
            lines.push(format!("its files: git fetch {} {commit}", shell_quote(kept.as_str())));
        }
        lines.extend(self.awaited.iter().map(|awaited| format!("waits for {}", awaited_text(awaited))));
        if let Some(said) = &self.said {
            lines.push(format!("\n{}", visible_lines(said.trim())));
        }
        lines.join("\n") + "\n"
    }
}

/// Returns what is awaited in words, with its name.
fn awaited_text(awaited: &Awaited) -> String {
    let Awaited { id, agent, request, .. } = awaited;
    match request {
        AwaitedRequest::Answer(question) => {
            let options = question.options.iter().enumerate();
            let options = options.map(|(at, option)| format!("\n  {}. {}", at + 1, visible(option)));
            format!("{id}: {agent} asks: {}{}", visible(&question.text), options.collect::<String>())
        }
        AwaitedRequest::Consent { tool, arguments, about, change } => {
            let about: Vec<String> = about.iter().map(|subject| visible(&subject.to_string())).collect();
            let of = if about.is_empty() { String::new() } else { format!(" {}", about.join(", ")) };
            let lines = match change {
                Some(change) => diff_lines(change),
                None => argument_lines(arguments),
            };
            format!("{id}: {agent} wants to call {tool}{of}:\n{}", lines.join("\n"))
        }
    }
}

/// Marks the open runs that wait for a person. A scheduler need not know it of a run in a list.
async fn mark_waiting(runs: &mut [ScheduledRun], store: &dyn CheckpointStore) -> Result<(), StoreError> {
    let open = runs.iter_mut().filter(|run| run.state == RunState::Running);
    let marks = open.map(|run| async {
        if !awaited(store, &run.run).await?.is_empty() {
            run.state = RunState::Waiting;
        }
        Ok(())
    });
    futures::stream::iter(marks).buffer_unordered(AT_ONCE).try_collect().await
}

fn list_text(runs: &[ScheduledRun], now: Timestamp) -> String {
    if runs.is_empty() {
        return "no runs\n".to_owned();
    }
    let row = |run: &ScheduledRun| {
        let begun = run.begun.map(|begun| age(begun, now)).unwrap_or_default();
        vec![run.run.to_string(), begun, run.state.as_str().to_owned()]
    };
    table(&[("RUN", Side::Left), ("AGE", Side::Right), ("STATE", Side::Left)], runs.iter().map(row).collect())
}
