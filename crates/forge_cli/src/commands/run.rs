//! `forge run`: runs an agent on a task.

use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use clap::{Args, ValueEnum};
use forge_app::{Orchestrator, Resume, RunReport, TakeFrom};
use forge_domain::{Event, OnChange};
use forge_infra::SystemPause;

use crate::arguments::{OnChangeName, RunFlags, Source, StoreFlag};
use crate::consent::Need;
use crate::failure::{Exit, Misconfigured};
use crate::run::{
    Answer, AnswerSchema, Attached, Break, JsonWatcher, ProgressView, RunRequest, RunView, StreamJsonWatcher,
    attach_files, checkpoints, explain, interruption, prepare, release, report_json, restore, run_start,
    runtime, show_progress, unrecorded_text, write_break, write_report,
};
use crate::terminal::{self, person};
use crate::{attached_images, chat, failure, output, setup};

/// Run an agent on a task, or chat with it
///
/// The answer goes to stdout; tool calls, compactions and usage go to stderr, and so do the words beside tool
/// calls if stdout is not a terminal. At a terminal without a task, or with --chat, a chat starts: /help
/// lists its commands and keys. Ctrl-C stops the current work; pressed twice, it ends the run. The word `run`
/// may be left out: `forge` starts a chat, `forge "TASK"` a chat that begins with the task, and `forge -p
/// "TASK"` prints the answer and ends.
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// The task. Piped input is added to it; `-`, or no task, reads it from stdin. At a terminal without a
    /// task, a chat starts
    task: Option<String>,
    /// Chat: the task is the first message, and you can send more after it
    #[arg(long, conflicts_with = "json")]
    chat: bool,
    /// Print the answer and end, as `forge run "TASK"` does, also if the word `run` is left out
    #[arg(short, long, conflicts_with = "chat")]
    print: bool,
    /// Resume a run by its id, a checkpoint's name or number (#12), or `last`; a new task may follow. Without
    /// an ID, you choose one at a terminal; elsewhere it is the last one
    ///
    /// If the checkpoint is not the last of its run, a new run starts from it.
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "")]
    resume: Option<String>,
    /// Continue the last run of this folder, as `--resume last` does
    #[arg(short = 'c', long = "continue", conflicts_with = "resume")]
    is_continued: bool,
    /// Run the agents that subscribe to this event, with its value, instead of a task
    #[arg(long, value_name = "NAME=VALUE", value_parser = event,
        conflicts_with_all = ["task", "chat", "resume", "is_continued", "agent"])]
    event: Option<Event>,
    /// Action if forge.yaml has changed since, or the folder is another one [default:
    /// `checkpoint.on_change`, else continue; a run whose agent was told of another folder is refused]
    #[arg(long, value_enum, requires = "resume")]
    on_change: Option<OnChangeName>,
    /// Resume even if another process holds the run; that process can no longer save
    #[arg(long, requires = "resume")]
    take_over: bool,
    #[command(flatten)]
    store: StoreFlag,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    flags: RunFlags,
    /// True if the word `run` was left out.
    #[arg(skip)]
    pub(super) is_implied: bool,
}

impl RunArguments {
    /// Runs the task. Without one, starts a chat if a user is at the terminal.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let form = self.output.form();
        let is_one_answer = self.print || self.output.is_given() || self.event.is_some();
        let answer = self.output.output_schema.as_deref().map(AnswerSchema::read).transpose()?;
        let is_chosen = self.task.is_none() && !is_one_answer && is_terminal();
        let which = match self.resume.or_else(|| self.is_continued.then(|| "last".to_owned())) {
            Some(which) if !which.is_empty() => Some(which),
            Some(_) if is_chosen => {
                let store = self.store.store.as_ref().map(ToString::to_string);
                match chat::pick_of_store(store.as_deref(), &self.flags.setup.source)? {
                    Some(picked) => Some(picked),
                    None => return Ok(ExitCode::SUCCESS),
                }
            }
            Some(_) => Some("last".to_owned()),
            None => None,
        };
        let has_nothing_to_do = self.task.is_none() && which.is_none() && !self.chat && !is_one_answer;
        if self.is_implied && has_nothing_to_do && !is_terminal() {
            return show_help(&self.flags.setup.source);
        }
        let is_chat =
            self.chat || (self.is_implied && self.task.is_some() && !is_one_answer && is_terminal());
        let resume = which.map(|which| Resume {
            which,
            on_change: self.on_change.map(OnChange::from),
            take_from: if self.take_over { TakeFrom::Anyone } else { TakeFrom::TheGone },
            anywhere: self.on_change.is_some(),
        });
        let request = RunRequest { resume, answer, ..RunRequest::new(self.store.store, self.flags) };
        match is_chat {
            true => start_chat(self.task, request),
            false if is_one_answer => run_task(self.task, self.event.as_ref(), form, &request),
            false => start(self.task, form, request),
        }
    }
}

/// Runs a task. Without one, starts a chat if a user is at the terminal.
pub(super) fn start(task: Option<String>, form: OutputForm, request: RunRequest) -> anyhow::Result<ExitCode> {
    if task.is_none() && form == OutputForm::Text && is_terminal() {
        chat::chat(None, request)
    } else {
        run_task(task, None, form, &request)
    }
}

/// The form of what a run prints, and of its answer.
#[derive(Debug, Args)]
struct OutputFlags {
    /// Print events as JSON, one object per line, each named by its `event` field, and nothing else
    #[arg(long)]
    json: bool,
    /// Print the answer as text, or records in the shape of Claude Code
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with_all = ["json", "chat"])]
    output_format: Option<OutputForm>,
    /// The JSON Schema, in a file, that the answer must match: stdout has the JSON alone
    ///
    /// An answer that does not match is asked for again, at most twice; then the exit code is 11.
    #[arg(long, value_name = "FILE", conflicts_with = "chat")]
    output_schema: Option<PathBuf>,
}

impl OutputFlags {
    /// Checks whether any of them is given: the output is for a program.
    const fn is_given(&self) -> bool {
        self.json || self.output_format.is_some() || self.output_schema.is_some()
    }

    fn form(&self) -> OutputForm {
        self.output_format.unwrap_or(OutputForm::of_json(self.json))
    }
}

/// The form of what a run prints on stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputForm {
    /// The answer
    Text,
    /// One record with the answer, its usage and its cost
    Json,
    /// A record for each message as it comes, and that one
    StreamJson,
    /// Forge's own events.
    #[value(skip)]
    Events,
}

impl OutputForm {
    /// Returns the form for a command with `--json`, or without it.
    pub(super) const fn of_json(is_json: bool) -> Self {
        if is_json { Self::Events } else { Self::Text }
    }

    /// Returns the display; `has_schema` tells whether the answer must match a schema.
    fn view(self, has_schema: bool) -> Arc<dyn RunView> {
        match self {
            Self::Text if has_schema => Arc::new(ProgressView::of_answer()),
            Self::Text => Arc::new(ProgressView::of_replies()),
            Self::Json => Arc::new(StreamJsonWatcher::of_result()),
            Self::StreamJson => Arc::new(StreamJsonWatcher::of_all()),
            Self::Events => Arc::new(JsonWatcher::default()),
        }
    }
}

/// Parses an event: its name, and its value after an equals sign.
fn event(text: &str) -> Result<Event, String> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    match name.trim() {
        "" => Err("expected NAME=VALUE, such as review_requested=src/main.rs".to_owned()),
        name => Ok(Event::new(name, value)),
    }
}

/// Prints the help, after what is missing: there is neither a task nor a terminal. Stdin is not read, since
/// it may never end.
fn show_help(source: &Source) -> anyhow::Result<ExitCode> {
    let configuration = setup::configuration(source, Need::Nothing)?;
    setup::with_built_in_agent(configuration.workflow, source)?;
    let what = "there is no task, and no terminal to chat at: write `forge \"TASK\"`, or `forge -p` to read the \
                task from stdin";
    Err(Misconfigured(format!("{what}\n\n{}", super::short_help().trim_end())).into())
}

fn start_chat(first: Option<String>, request: RunRequest) -> anyhow::Result<ExitCode> {
    if !is_terminal() {
        let what = "--chat needs a terminal for input, output and errors; without one, pipe the task in, or \
             write it as an argument";
        return Err(Misconfigured(what.to_owned()).into());
    }
    chat::chat(first, request)
}

/// Checks whether a user is at the terminal for all input and output.
fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && std::io::stderr().is_terminal()
}

/// Runs the task, streaming the answer to stdout.
fn run_task(
    task: Option<String>,
    event: Option<&Event>,
    form: OutputForm,
    request: &RunRequest,
) -> anyhow::Result<ExitCode> {
    // What is piped in may come from anywhere: only what was typed names files.
    let Attached { added, notes } = task.as_deref().map(attach_files).unwrap_or_default();
    notes.iter().for_each(|note| output::note(note));
    let mentioned = task.as_deref().map(attached_images::mentioned).unwrap_or_default();
    let task = if event.is_some() {
        None
    } else {
        read_task(task, request.resume.is_some() || request.history.is_some())?
    };
    let view = form.view(request.answer.is_some());
    let images = &request.flags.images.images;
    let event = event.cloned().map(|event| attached_images::attach(event, images)).transpose()?;
    let with_images = |task| attached_images::attach_with_mentioned(Event::task(task), images, mentioned);
    let task = task.map(with_images).transpose()?;
    if task.is_none() && event.is_none() && !images.is_empty() {
        return Err(Misconfigured("an image needs a task: write one beside it".to_owned()).into());
    }
    let mut orchestrator = prepare(request, &view, person::person())?;
    let flags = checkpoints::flags(&request.flags, request.store.as_ref());
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        let outcome = tokio::select! {
            ended = work(&mut orchestrator, task.map(|task| (task, added)), event.as_ref(), request, &*view) => Ok(ended),
            interruption = interruption() => Err(interruption),
            never = show_progress(view.progress(), &SystemPause) => match never {},
        };
        release(&mut orchestrator, outcome.is_err()).await;
        outcome
    });
    // What must be kept is kept; a tool that does not come to its end is not waited for.
    runtime.shut_down();
    view.end();
    let checkpoints = orchestrator.checkpoints();
    let unrecorded = orchestrator.engine().unrecorded();
    let unrecorded = unrecorded.as_deref();
    let report_file = request.flags.report.as_ref();
    let interrupted = match outcome {
        Ok(Ok((report, answer))) => {
            let exit = match answer {
                Some(Err(_)) => Exit::Mismatch,
                _ => Exit::of_run(&report.stop, &report.denials, checkpoints.as_ref()),
            };
            let exit = if exit == Exit::Done && unrecorded.is_some() { Exit::Failed } else { exit };
            // The report counts what was saved up to the very end.
            let report = RunReport { checkpoints: checkpoints.clone(), ..report };
            if let Some(answer) = &answer {
                view.show_answer(answer);
            }
            view.show_end(&report, checkpoints.as_ref(), exit);
            if let Some(why) = unrecorded {
                output::note(&unrecorded_text(why));
            }
            let mut json = report_json(&report, exit.code());
            if let Some(answer) = answer {
                json["answer"] = answer.unwrap_or_default();
            }
            write_report(report_file, &json)?;
            return Ok(exit.into());
        }
        Ok(Err(error)) => Err(failure::of_run(error, checkpoints.as_ref())),
        Err(interruption) => Ok(interruption),
    };
    let why = match &interrupted {
        Err(error) => Break::Failed(error),
        Ok(interruption) => Break::interrupted(*interruption, request.flags.record.file(), unrecorded),
    };
    view.show_break(&why, checkpoints.as_ref(), &flags);
    write_break(report_file, &why, checkpoints.as_ref());
    // An interruption has the exit code of its signal, whatever else went wrong.
    drop(output::finish());
    interrupted.map(|interruption| ExitCode::from(interruption.exit_code()))
}

async fn work(
    orchestrator: &mut Orchestrator,
    task: Option<(Event, String)>,
    event: Option<&Event>,
    request: &RunRequest,
    view: &dyn RunView,
) -> anyhow::Result<(RunReport, Option<Answer>)> {
    let restored = match &request.resume {
        Some(resume) => Some(restore(orchestrator, resume).await?),
        None => None,
    };
    view.show_start(&run_start(orchestrator, event, request.flags.agent.id()));
    let without_task = task.is_none() && event.is_none();
    let had_ended = without_task && restored.as_ref().is_some_and(|restored| restored.is_over);
    if let Some(restored) = restored {
        view.show_resume(&restored, without_task);
    }
    if let Some(history) = &request.history {
        let adopted = history.begin(orchestrator, request.flags.agent.id()).await.map_err(explain)?;
        if adopted.is_over && task.is_none() {
            let what =
                "the session had come to its end: give a task, as in `forge continue SESSION \"TASK\"`";
            return Err(Misconfigured(what.to_owned()).into());
        }
    }
    let task = match task {
        Some((task, added)) => {
            let value = orchestrator.engine().services().expand(&task.value).await? + &added;
            let value = request.answer.as_ref().map_or(value.clone(), |schema| schema.add_to(&value));
            Some(Event { value, ..task })
        }
        None => None,
    };
    let report = match (event, task, request.flags.agent.id()) {
        (Some(event), ..) => orchestrator.dispatch(event).await,
        (None, Some(task), Some(agent)) => orchestrator.wake(agent, &task).await,
        (None, Some(task), None) => orchestrator.run(task).await,
        (None, None, _) => orchestrator.proceed().await,
    };
    let report = report.map_err(explain)?;
    if had_ended {
        view.show_saved_answer(&report.response);
    }
    match &request.answer {
        Some(schema) => schema.settle(orchestrator, report, |event| view.tell(event)).await,
        None => Ok((report, None)),
    }
}

/// The most bytes that are read from stdin: more than any window holds.
const MOST_INPUT: u64 = 4 << 20;

/// The time that something may take to come through a socket, beside a task. What a shell pipes in is waited
/// for: a task that is about it makes no sense without it.
const IDLE: Duration = Duration::from_secs(3);

/// Returns the task: the `given` one followed by the piped input, or that alone. `-` is a task that is read.
/// Without any of these, a resumed run finishes its own.
fn read_task(given: Option<String>, is_resumed: bool) -> anyhow::Result<Option<String>> {
    let is_read = given.as_deref() == Some("-");
    let given = given.filter(|_| !is_read);
    let has_work = given.is_some() || (is_resumed && !is_read);
    let input = if !is_read && std::io::stdin().is_terminal() {
        String::new()
    } else if has_work && terminal::is_idle_socket(IDLE) {
        let what =
            "nothing came on stdin in 3 s, so the run begins without it; to begin at once, add `< /dev/null`";
        output::note(what);
        String::new()
    } else {
        input()?
    };
    let input = input.trim_end();
    // Without anything in it, such as from `/dev/null`, nobody is meant to be asked.
    if !input.is_empty() {
        terminal::become_input();
    }
    let task = match (given, input.trim_start()) {
        (Some(task), "") => task,
        (Some(task), _) => format!("{}\n\n{input}", task.trim_end()),
        (None, "") if is_resumed && !is_read => return Ok(None),
        (None, task) => task.to_owned(),
    };
    if task.trim().is_empty() {
        let what = "there is no task: write `forge \"TASK\"`, or pipe one in";
        return Err(Misconfigured(what.to_owned()).into());
    }
    Ok(Some(task))
}

/// Returns the piped input; empty if stdin is closed.
fn input() -> anyhow::Result<String> {
    const PATIENCE: Duration = Duration::from_secs(1);
    // The parent process may have left a pipe open: a waiting user is told why.
    let (reading, over) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        if over.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            output::say(
                "waiting for the end of stdin, which is read first; to run without it, add `< /dev/null`",
            );
        }
    });
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(MOST_INPUT + 1).read_to_end(&mut bytes);
    drop(reading);
    read.map_err(|error| Misconfigured(format!("cannot read stdin: {error}")))?;
    if bytes.len() as u64 > MOST_INPUT {
        let what = format!(
            "stdin has more than {} MiB\n  help: name a file in the task, and let the agent read what it \
             needs",
            MOST_INPUT >> 20
        );
        return Err(Misconfigured(what).into());
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let what = format!("stdin is not text: byte {} is not UTF-8", at + 1);
        Misconfigured(what + "\n  help: to run without it, add `< /dev/null`").into()
    })
}
