//! The line editor of the prompt: history, several lines, completion and hints. It has a thread of its own,
//! because it waits for the keyboard.

use std::borrow::Cow;
use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reedline::{
    Color, ColumnarMenu, Completer, CompletionResult, DefaultHinter, EditCommand, Emacs, FileBackedHistory,
    Highlighter, Hinter, History, HistoryItem, KeyCode, KeyModifiers, MenuBuilder, Prompt, PromptEditMode,
    PromptHistorySearch, Reedline, ReedlineEvent, ReedlineMenu, Signal, StyledText, ValidationResult,
    Validator, default_emacs_keybindings,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::canvas::PROMPT;
use super::command::COMMANDS;
use super::completion::{KnownNames, proposals, rest_of_command};
use super::pastes::Pastes;
use super::spans::Paint;
use crate::{places, terminal};

/// The number of lines in the history.
const REMEMBERED: usize = 1_000;
const MENU: &str = "completion";
/// The command of the editor for Ctrl-Z.
const SUSPEND: &str = "suspend";
/// The most repeated prompts in a row when the terminal does not answer the editor.
const MOST_FAILURES: usize = 10;

/// The way of reading lines.
pub(super) enum Manner {
    /// Lines are edited with all that a terminal supports, and remembered in the file, if there is one.
    Edited { history: Option<PathBuf>, known: KnownNames, paint: Paint },
    /// Lines are read as the terminal delivers them.
    Plain,
}

/// The result of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Entered(String),
    /// Ctrl-C, and whether the line was empty.
    Interrupted {
        was_empty: bool,
    },
    /// A message with the mark of a pasted text that is not known any more.
    Lost {
        text: String,
        mark: String,
    },
    /// The key for the next mode; what is typed stays.
    Mode,
    /// Ctrl-D, or the end of the input.
    End,
    /// The reason why the terminal cannot be read.
    Unreadable(String),
}

/// The start of a line.
struct Request {
    /// The text that is typed already.
    typed: String,
    /// The text at the right of the line.
    right: String,
}

/// The line that is being typed, as the terminal shows it.
#[derive(Clone, Default)]
struct LineNow(Arc<Mutex<String>>);

impl LineNow {
    fn lock(&self) -> MutexGuard<'_, String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reader of lines.
pub(super) struct LineEditor {
    requests: Sender<Request>,
    lines: UnboundedReceiver<Line>,
    line_now: LineNow,
    history: Option<PathBuf>,
}

impl LineEditor {
    /// Starts an editor that reads in that way.
    pub(super) fn start(manner: Manner) -> Self {
        let (requests, asked) = channel();
        let (read, lines) = unbounded_channel();
        let line_now = LineNow::default();
        let noted = line_now.clone();
        let history = match &manner {
            Manner::Edited { history, .. } => history.clone(),
            Manner::Plain => None,
        };
        std::thread::spawn(move || match manner {
            Manner::Edited { history, known, paint } => edit(&asked, &read, history, known, paint, &noted),
            Manner::Plain => take_lines(&asked, &read),
        });
        Self { requests, lines, line_now, history }
    }

    /// Returns the line that is being typed, as the terminal shows it.
    pub(super) fn line_now(&self) -> String {
        self.line_now.lock().clone()
    }

    /// Adds a text to the history that was not entered at the prompt.
    pub(super) fn remember(&self, text: &str) {
        if let Some(mut history) = self.history.clone().and_then(open_history)
            && !text.trim().is_empty()
        {
            // The chat works without a history if the file cannot be written.
            let _ = history.save(HistoryItem::from_command_line(text));
            let _ = history.sync();
        }
    }

    /// Reads the next line, which starts with `typed`; `right` is shown at its right.
    pub(super) async fn read(&mut self, typed: String, right: String) -> Line {
        match self.requests.send(Request { typed, right }) {
            Ok(()) => self.lines.recv().await.unwrap_or_else(failure),
            Err(_) => failure(),
        }
    }
}

/// Returns the line of a thread that has panicked.
fn failure() -> Line {
    Line::Unreadable("the line editor has failed".to_owned())
}

fn take_lines(asked: &Receiver<Request>, read: &UnboundedSender<Line>) {
    while asked.recv().is_ok() {
        let _ = write!(std::io::stderr(), "> ").and_then(|()| std::io::stderr().flush());
        let mut line = String::new();
        let line = match std::io::stdin().lock().read_line(&mut line) {
            Ok(1..) => Line::Entered(line.trim_end_matches(['\n', '\r']).to_owned()),
            _ => Line::End,
        };
        if read.send(line).is_err() {
            return;
        }
    }
}

fn edit(
    asked: &Receiver<Request>,
    read: &UnboundedSender<Line>,
    history: Option<PathBuf>,
    known: KnownNames,
    paint: Paint,
    line_now: &LineNow,
) {
    let pastes = Pastes::default();
    let mut editor = editor(history, known, paint, line_now, &pastes);
    while let Ok(Request { typed, right }) = asked.recv() {
        if !typed.is_empty() {
            editor.run_edit_commands(&[EditCommand::InsertString(typed)]);
        }
        let ask = Ask { right };
        let mut n_failed = 0;
        let line = loop {
            match editor.read_line(&ask) {
                Ok(Signal::Success(text)) => {
                    let text = text.replace("\\\n", "\n");
                    break match pastes.unfold(&text) {
                        Ok(whole) => Line::Entered(whole),
                        Err(mark) => Line::Lost { text, mark },
                    };
                }
                Ok(Signal::HostCommand(command)) if command == SUSPEND => terminal::suspend(),
                Ok(Signal::HostCommand(_)) => break Line::Mode,
                Ok(Signal::CtrlC) => {
                    break Line::Interrupted { was_empty: line_now.lock().is_empty() };
                }
                Ok(_) => break Line::End,
                // A terminal that is slow or far away did not tell in two seconds where its cursor is.
                Err(_) if n_failed < MOST_FAILURES && !terminal::is_gone() => n_failed += 1,
                Err(error) => break Line::Unreadable(error.to_string()),
            }
        };
        // What cannot be remembered is not worth a word.
        let _ = editor.sync_history();
        if read.send(line).is_err() {
            return;
        }
    }
}

fn editor(
    history: Option<PathBuf>,
    known: KnownNames,
    paint: Paint,
    line_now: &LineNow,
    pastes: &Pastes,
) -> Reedline {
    let mut keys = default_emacs_keybindings();
    let propose =
        ReedlineEvent::UntilFound(vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext]);
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, propose);
    let mode = ReedlineEvent::UntilFound(vec![
        ReedlineEvent::MenuPrevious,
        ReedlineEvent::ExecuteHostCommand(String::new()),
    ]);
    let suspend = ReedlineEvent::ExecuteHostCommand(SUSPEND.to_owned());
    keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('z'), suspend);
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, mode.clone());
    keys.add_binding(KeyModifiers::NONE, KeyCode::BackTab, mode);
    for modifiers in [KeyModifiers::ALT, KeyModifiers::SHIFT] {
        let line = ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
        keys.add_binding(modifiers, KeyCode::Enter, line);
    }
    let line = ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
    keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('j'), line);
    let quiet = match paint {
        Paint::Colours => Color::DarkGray.normal(),
        Paint::Bare => Color::Default.normal(),
    };
    let chosen = match paint {
        Paint::Colours => Color::Cyan.reverse(),
        Paint::Bare => Color::Default.reverse(),
    };
    let menu = ColumnarMenu::default()
        .with_name(MENU)
        .with_marker("")
        .with_columns(1)
        .with_text_style(Color::Default.normal())
        .with_description_text_style(quiet)
        .with_selected_text_style(chosen);
    let remembered = history.and_then(open_history);
    let mut editor = Reedline::create()
        .with_edit_mode(Box::new(pastes.folding(Emacs::new(keys))))
        .with_completer(Box::new(Proposing { known, folder: PathBuf::from(".") }))
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_hinter(Box::new(Hints {
            history: DefaultHinter::default().with_style(quiet),
            hint: String::new(),
            paint,
        }))
        .with_highlighter(Box::new(Colours { line_now: line_now.clone() }))
        .with_validator(Box::new(GoesOn))
        .with_transient_prompt(Box::new(Ask { right: String::new() }))
        .use_bracketed_paste(true)
        .with_ansi_colors(paint == Paint::Colours);
    if let Some(history) = remembered {
        editor = editor.with_history(Box::new(history));
    }
    editor
}

/// Opens the history in the file, which only its owner may read; `None` if that fails.
fn open_history(file: PathBuf) -> Option<FileBackedHistory> {
    places::make_private(&file).ok()?;
    FileBackedHistory::with_file(REMEMBERED, file).ok()
}

/// The prompt.
struct Ask {
    right: String,
}

impl Prompt for Ask {
    /// The whole mark: without a left part, the right one is drawn over what is typed.
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed(PROMPT)
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.right)
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("  ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("search `{}` › ", search.term))
    }

    fn get_prompt_color(&self) -> Color {
        Color::Cyan
    }

    fn get_indicator_color(&self) -> Color {
        Color::Cyan
    }

    fn get_prompt_multiline_color(&self) -> Color {
        Color::Default
    }

    fn get_prompt_right_color(&self) -> Color {
        Color::DarkGray
    }
}

/// A completer of known names.
struct Proposing {
    known: KnownNames,
    folder: PathBuf,
}

impl Completer for Proposing {
    fn complete(&mut self, line: &str, at: usize) -> CompletionResult {
        CompletionResult::fresh(proposals(line, at, &self.known, &self.folder))
    }
}

/// A source of hints about the rest of a line: a command to its end, else an earlier line.
struct Hints {
    history: DefaultHinter,
    hint: String,
    paint: Paint,
}

impl Hinter for Hints {
    fn handle(
        &mut self,
        line: &str,
        at: usize,
        history: &dyn History,
        colours: bool,
        folder: &str,
    ) -> String {
        // Without colours a hint could not be told from what is typed.
        if self.paint == Paint::Bare {
            return String::new();
        }
        if !line.starts_with('/') {
            let shown = self.history.handle(line, at, history, colours, folder);
            self.hint = self.history.complete_hint();
            return shown;
        }
        let rest = rest_of_command(line);
        // What it takes is not to be typed for anybody.
        self.hint = rest.split(' ').next().unwrap_or_default().to_owned();
        Color::DarkGray.paint(rest).to_string()
    }

    fn complete_hint(&self) -> String {
        self.hint.clone()
    }

    fn next_hint_token(&self) -> String {
        if self.hint == self.history.complete_hint() {
            self.history.next_hint_token()
        } else {
            self.hint.clone()
        }
    }
}

/// A highlighter of commands, which also notes the line.
struct Colours {
    line_now: LineNow,
}

impl Highlighter for Colours {
    fn highlight(&self, line: &str, _: usize) -> StyledText {
        line.clone_into(&mut self.line_now.lock());
        let end = line.find(char::is_whitespace).unwrap_or(line.len());
        let (word, rest) = line.split_at(end);
        let is_command = COMMANDS.iter().any(|listed| listed.word == word);
        let colour = if is_command { Color::Cyan } else { Color::Default };
        let mut text = StyledText::new();
        text.push((colour.normal(), word.to_owned()));
        text.push((Color::Default.normal(), rest.to_owned()));
        text
    }
}

/// A validator: a backslash at the end continues the text.
struct GoesOn;

impl Validator for GoesOn {
    fn validate(&self, line: &str) -> ValidationResult {
        if line.ends_with('\\') { ValidationResult::Incomplete } else { ValidationResult::Complete }
    }
}
