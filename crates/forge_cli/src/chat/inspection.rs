//! The commands of a chat that look at its surroundings: the folder, the rules, the servers, the run.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use console::style;
use forge_app::Checkpointing;
use forge_domain::{Body, ContextMessage, Conversation, Effort, Mode, Tokens, ToolName, quantity};

use super::attendant::Attended;
use super::command::COMMANDS;
use super::session::{ChatSession, End};
use crate::failure;
use crate::output::line_wrap::FRAME;
use crate::output::table::{Side, align, table};
use crate::output::{self, visible, with_separators};
use crate::run::status::{Doing, in_a_line};
use crate::run::{PageState, export_page};
use crate::setup::project_file;

/// The most lines of a difference that are shown.
const DIFF_LINES: usize = 300;

/// The keys to list in the help.
const KEYS: [(&str, &str); 11] = [
    ("Enter", "send; during work: send next"),
    ("Alt-Enter, or \\ Enter", "begin a new line"),
    ("Tab", "complete a command, a name, a file"),
    ("Shift-Tab", "switch to the next mode: ask, edits, auto, plan"),
    ("@FILE", "add a file to the message"),
    ("!COMMAND", "run a command in the sandbox, and show it to the model with the next message"),
    ("Up, Down, Ctrl-R", "earlier input"),
    ("Ctrl-C, Esc", "stop the current work; Ctrl-C twice: end the run"),
    ("Ctrl-D", "end the chat"),
    ("Ctrl-Z", "suspend it while it waits for input; `fg` continues it"),
    ("//", "at the beginning: a message that begins with /"),
];

/// A look at a chat that changes nothing.
pub(super) struct Inspection<'c, 'a>(pub(super) &'c ChatSession<'a>);

impl Inspection<'_, '_> {
    /// Shows the rules for the calls of the current agent.
    pub(super) fn show_permissions(&self) {
        let who = self.0.who();
        let engine = self.0.orchestrator.engine();
        let workflow = &engine.services().workflow;
        let discretion = engine.conduct.discretion();
        let mode = discretion.mode;
        output::say(&format!("{}: mode {mode}, which {}", visible(&who), mode.description()));
        let agent = workflow.agents.find(&who);
        let rules = agent.map(|agent| workflow.rules(agent).lines()).unwrap_or_default();
        let given = agent.map(|agent| engine.consents.lines(&agent.id)).unwrap_or_default();
        let mut lines: Vec<String> = rules.into_iter().chain(discretion.allowed.lines()).collect();
        if lines.is_empty() {
            lines.push("no rules: what changes or reveals something is decided by the mode".to_owned());
        }
        for line in lines {
            output::say(&format!("  {}", visible(&line)));
        }
        for line in given {
            output::say(&format!("  allowed for this run: {}", visible(&line)));
        }
        self.0.note(
            "a rule goes before the mode, and the strictest layer counts (`permissions` in forge.yaml)",
        );
    }

    /// Lists the MCP servers, and the tools of the current agent that they have.
    pub(super) fn show_servers(&self) {
        let engine = self.0.orchestrator.engine();
        let workflow = &engine.services().workflow;
        if workflow.mcp_servers.is_empty() {
            return self.0.note("no MCP servers are configured (`mcp_servers` in forge.yaml)");
        }
        let who = self.0.who();
        let tools = workflow.agents.find(&who).and_then(|agent| engine.tools(agent).ok()).unwrap_or_default();
        for id in workflow.mcp_servers.keys() {
            let prefix = format!("{id}__");
            let own = tools.iter().filter_map(|tool| tool.name.as_str().strip_prefix(&prefix));
            let own: Vec<String> = own.map(visible).collect();
            let what = match own.as_slice() {
                [] => "no tools of it yet: it starts with the first message that needs it".to_owned(),
                own => format!("{}: {}", quantity(own.len(), "tool"), own.join(", ")),
            };
            output::say(&format!("{}: {what}", visible(id.as_str())));
        }
        self.0.note("`forge doctor` starts every server and reports what is wrong with it");
    }

    /// Shows where the chat stands.
    pub(super) fn show_status(&self) {
        let who = self.0.who();
        let engine = self.0.orchestrator.engine();
        let workflow = &engine.services().workflow;
        let agent = workflow.agents.find(&who);
        let model = agent.and_then(|agent| agent.model.as_ref()).map(|model| visible(model.as_str()));
        let tools = agent.and_then(|agent| agent.tools.as_ref()).into_iter().flatten();
        let tools: Vec<String> = tools.map(ToolName::as_str).map(visible).collect();
        let figures = self.0.attendant.screen.figures(|_| {});
        let statistics = self.0.orchestrator.statistics();
        let folder = std::env::current_dir().map(|folder| folder.display().to_string()).unwrap_or_default();
        let configuration = Some(project_file(&self.0.source)).filter(|path| path.exists());
        let configuration = configuration.map(|path| visible(&path.display().to_string()));
        let run = self.0.orchestrator.checkpoints();
        let saved = match &run {
            Some(tally) => format!("{} ({})", tally.run, quantity(tally.saved, "checkpoint")),
            None => "not saved".to_owned(),
        };
        let sandbox = match workflow.sandbox.as_ref().is_some_and(|sandbox| sandbox.off == Some(true)) {
            true => "off: commands run with all of your rights",
            false => "on",
        };
        let window = match figures.window.as_u64() {
            0 => "nothing sent yet".to_owned(),
            _ => format!(
                "{} of {} tokens ({} %)",
                with_separators(figures.used),
                with_separators(figures.window),
                figures.percent().unwrap_or_default()
            ),
        };
        let rows = [
            ("forge", env!("CARGO_PKG_VERSION").to_owned()),
            ("folder", visible(&folder)),
            ("file", configuration.unwrap_or_else(|| "none".to_owned())),
            ("agent", format!("{} ({})", visible(&who), model.unwrap_or_else(|| "no model".to_owned()))),
            ("tools", if tools.is_empty() { "none".to_owned() } else { tools.join(", ") }),
            ("mode", format!("{}: {}", engine.conduct.mode(), engine.conduct.mode().description())),
            ("sandbox", sandbox.to_owned()),
            ("run", saved),
            ("window", window),
            ("spent", in_a_line(&statistics)),
        ];
        self.0.attendant.screen.gap();
        for (name, value) in rows {
            output::say(&format!("  {} {value}", style(format!("{name:<8}")).cyan().for_stderr()));
        }
    }

    /// Shows how much the model thinks.
    pub(super) fn show_effort(&self) {
        let who = self.0.who();
        let workflow = &self.0.orchestrator.engine().services().workflow;
        let agent = workflow.agents.find(&who);
        let model = agent.and_then(|agent| workflow.model(agent.model.as_ref()?).ok());
        let base = model.as_ref().map(|model| model.request.clone()).unwrap_or_default();
        let set = agent.and_then(|agent| agent.request_options().or(&base).reasoning.effort);
        let set = set.map_or("not set: the provider decides", Effort::as_str);
        output::say(&format!("{}: effort {set}", visible(&who)));
        let known = model.and_then(|model| model.abilities.efforts);
        let known = known.unwrap_or_else(|| Effort::ALL.to_vec());
        let known: Vec<_> = known.into_iter().map(Effort::as_str).collect();
        self.0.note(&format!("/effort NAME sets it: {}", known.join(", ")));
    }

    /// Shows the latest thinking whole.
    pub(super) fn show_thinking(&self) {
        if !self.0.attendant.screen.unfold_thought() {
            self.0.note("nothing was thought, or the model does not show it");
        }
    }

    /// Shows a tool result whole: the latest one, or the `which`-th latest.
    pub(super) fn show_output(&self, which: Option<&str>) {
        let Some(nth) = which.map_or(Some(1), |which| which.parse::<usize>().ok()).filter(|nth| *nth > 0)
        else {
            return self.0.note("/output takes a number: 1 is the latest tool result");
        };
        let conversation = self.0.orchestrator.conversation(&self.0.who());
        let messages: Vec<&ContextMessage> =
            conversation.into_iter().flat_map(Conversation::messages).collect();
        let results = messages.iter().rev().filter_map(|message| match &message.message().body {
            Body::Tool(result) => Some(result),
            _ => None,
        });
        let Some(result) = results.into_iter().nth(nth - 1) else {
            return self.0.note("this run has fewer tool results than that");
        };
        let text = result.content.to_text();
        let tool = result.name.as_ref().map_or_else(|| "tool".to_owned(), |name| visible(name.as_str()));
        self.0.attendant.screen.gap();
        self.0.note(&format!("{tool}, {}:", quantity(text.lines().count(), "line")));
        for line in text.lines() {
            output::say(&format!("{FRAME}{}", visible(line)));
        }
    }

    /// Shows what the run has used, per agent.
    pub(super) fn show_cost(&self) {
        let statistics = self.0.orchestrator.statistics();
        output::say(&in_a_line(&statistics));
        let rows: Vec<Vec<String>> = statistics
            .agents
            .iter()
            .map(|(agent, progress)| {
                let usage = &progress.usage;
                vec![
                    visible(agent.as_str()),
                    progress.iterations.to_string(),
                    with_separators(usage.prompt_tokens),
                    with_separators(usage.cached_tokens),
                    with_separators(usage.completion_tokens),
                    progress.spent.cost.to_string(),
                ]
            })
            .collect();
        let columns = [
            ("AGENT", Side::Left),
            ("CALLS", Side::Right),
            ("PROMPT", Side::Right),
            ("CACHED", Side::Right),
            ("ANSWERS", Side::Right),
            ("COST", Side::Right),
        ];
        if !rows.is_empty() {
            output::say(table(&columns, rows).trim_end());
        }
    }

    /// Lists commands and keys.
    pub(super) fn show_help(&self) {
        let commands = COMMANDS.iter().map(|listed| {
            let usage = format!("{} {}", listed.word, listed.takes);
            (usage.trim_end().to_owned(), listed.about)
        });
        let keys = KEYS.iter().map(|(key, about)| ((*key).to_owned(), *about));
        let row = |(word, about)| vec![format!("  {}", style(word).cyan().for_stderr()), String::from(about)];
        let rows: Vec<Vec<String>> = commands.chain(keys).map(row).collect();
        self.0.attendant.screen.gap();
        output::say(&align(&rows, &[], "  ").join("\n"));
    }
}

impl ChatSession<'_> {
    /// Shows the mode, or switches to another.
    pub(super) async fn set_mode(&mut self, word: Option<String>) {
        let conduct = &self.attendant.conduct;
        if let Some(word) = word {
            let mode = match word.parse::<Mode>() {
                Ok(mode) => mode,
                Err(error) => return failure::say(&error.into()),
            };
            if let Err(refused) = conduct.set_mode(mode).await {
                return failure::say(&refused.into());
            }
            self.attendant.screen.figures(|figures| figures.mode = mode);
        }
        let mode = self.attendant.conduct.mode();
        output::say(&format!("mode {mode}: {}", mode.description()));
        self.note("Shift-Tab switches to the next one; /permissions shows the rules");
    }

    /// Shows what has changed in the folder, by git.
    pub(super) async fn show_diff(&mut self) -> Result<(), Option<End>> {
        let read = tokio::task::spawn_blocking(changes);
        let lines = match self.attendant.attend(Doing::Preparing, read).await {
            Attended::Done(Ok(Ok(lines))) => lines,
            Attended::Done(Ok(Err(why))) => {
                self.note(&why);
                return Ok(());
            }
            Attended::Done(Err(error)) => {
                failure::say(&error.into());
                return Ok(());
            }
            Attended::Stopped => return Ok(()),
            Attended::Ended(interruption) => return Err(Some(End::Interrupted(interruption))),
        };
        if lines.is_empty() {
            self.note("nothing has changed since the last commit");
            return Ok(());
        }
        self.attendant.screen.gap();
        for line in lines.iter().take(DIFF_LINES) {
            output::say(&paint(line));
        }
        let more = lines.len().saturating_sub(DIFF_LINES);
        if more > 0 {
            self.note(&format!(
                "… {} more; `!git diff` shows them to the model, too",
                quantity(more, "line")
            ));
        }
        Ok(())
    }

    /// Writes the run to a page.
    pub(super) async fn export(&mut self, file: Option<String>) -> Result<(), Option<End>> {
        let Some(tally) = self.orchestrator.checkpoints().filter(|tally| tally.saved > 0) else {
            self.note("nothing of this run is saved yet");
            return Ok(());
        };
        let state = PageState::latest(&tally.run);
        let file = file.map_or_else(|| state.page_name(), Into::into);
        let Some(store) = self.orchestrator.engine().checkpointing().map(Checkpointing::store) else {
            return Ok(());
        };
        match self.attendant.attend(Doing::Preparing, export_page(store, &state, &file)).await {
            Attended::Done(Ok(size)) => {
                let size = quantity(with_separators(Tokens::new(size as u64)), "byte");
                output::say(&format!(
                    "wrote {} ({size}): open it in a browser",
                    visible(&file.display().to_string())
                ));
            }
            Attended::Done(Err(error)) => failure::say(&error),
            Attended::Stopped => {}
            Attended::Ended(interruption) => return Err(Some(End::Interrupted(interruption))),
        }
        Ok(())
    }
}

/// Colours a line of a difference.
fn paint(line: &str) -> String {
    let shown = output::exact(line);
    let styled = match line.as_bytes() {
        [b'+', ..] => style(shown).green(),
        [b'-', ..] => style(shown).red(),
        [b'@', ..] => style(shown).cyan(),
        [b' ', ..] => style(shown),
        _ => style(shown).bold(),
    };
    styled.for_stderr().to_string()
}

/// Returns the lines of what has changed since the last commit, and the files that git does not know.
///
/// # Errors
/// The reason, in words.
fn changes() -> Result<Vec<String>, String> {
    // Nothing that the repository configures is run for it.
    const PLAIN: [&str; 4] = ["--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all"];
    let tracked = git(&[&["diff", "HEAD"], &PLAIN[..]].concat())
        // Before the first commit there is no HEAD.
        .or_else(|_| git(&[&["diff"], &PLAIN[..]].concat()))?;
    let unknown = git(&["ls-files", "--others", "--exclude-standard"])?;
    let new = unknown.lines().map(|path| format!("new file: {path}"));
    Ok(tracked.lines().map(str::to_owned).chain(new).collect())
}

/// Returns the filters for the contents of files that git is told of, such as `filter.lfs`. They are
/// commands, which git would run for a difference.
fn filters() -> BTreeSet<String> {
    let mut command = Command::new("git");
    command.args(["config", "--null", "--name-only", "--get-regexp", r"^filter\."]).stdin(Stdio::null());
    let known = command.output().map(|ran| ran.stdout).unwrap_or_default();
    let keys = String::from_utf8_lossy(&known).into_owned();
    let names = keys.split('\0').filter_map(|key| key.rsplit_once('.').map(|(name, _)| name.to_owned()));
    names.collect()
}

fn git(arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new("git");
    command.args([
        "--no-pager",
        "--no-optional-locks",
        "-c",
        "core.fsmonitor=false",
        "-c",
        "core.hooksPath=/dev/null",
        "-c",
        "protocol.allow=never",
    ]);
    // A repository may name a command by which git would fetch what is missing.
    command.env("GIT_NO_LAZY_FETCH", "1").env("GIT_TERMINAL_PROMPT", "0");
    // By variables: on the command line a name with an equals sign would be another key.
    let keys = [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")];
    let names = filters();
    let settings = names.iter().flat_map(|name| keys.map(|(key, value)| (format!("{name}.{key}"), value)));
    let mut n_settings = 0;
    for (key, value) in settings {
        command.env(format!("GIT_CONFIG_KEY_{n_settings}"), key);
        command.env(format!("GIT_CONFIG_VALUE_{n_settings}"), value);
        n_settings += 1;
    }
    command.env("GIT_CONFIG_COUNT", n_settings.to_string());
    let ran = command.args(arguments).stdin(Stdio::null()).output();
    let ran = ran.map_err(|error| format!("git cannot be run: {error}"))?;
    if ran.status.success() {
        return Ok(String::from_utf8_lossy(&ran.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&ran.stderr);
    // Its own words are about a flag that is not the user's.
    if why.to_ascii_lowercase().contains("not a git repository") {
        return Err("this folder is in no git repository, so what has changed is not known".to_owned());
    }
    Err(format!("git shows no difference here: {}", why.lines().next().unwrap_or("it failed")))
}
