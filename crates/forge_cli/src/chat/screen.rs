//! The one owner of the terminal during a chat. Printed text is above, and below it a few lines are redrawn
//! in place: the incomplete part of the answer, the status, and the input.
//!
//! The cursor always waits at the beginning of these lines, so that clearing from it to the end leaves
//! nothing, even after the terminal was resized.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use forge_domain::quantity;
use tokio::sync::oneshot;

use super::blocks::Blocks;
use super::canvas::{Above, Canvas, Drawn, OpenQuestion, PROMPT, Phase};
use super::input::{Key, Typed};
use super::spans::{Paint, Span, Tone, paint_spans};
use crate::output::line_wrap::wrap;
use crate::output::{self, harmless, visible};
use crate::run::status::{Doing, StatusFigures};
use crate::terminal::person::option_keys;

/// The longest prompt in the line of an answer.
const LONG: usize = 20;

/// The terminal of a chat.
pub(super) struct Screen(Mutex<Drawn>, Mutex<Thought>);

/// The thinking of the latest reply.
#[derive(Default)]
struct Thought {
    text: String,
    is_over: bool,
}

/// The most lines of a message that are shown when it is sent.
const ECHOED: usize = 8;
/// The most lines of a running command's output that are shown.
const OUTPUT_LINES: usize = 5;
/// The most lines of thinking that are shown unless it is unfolded.
const THOUGHT_LINES: usize = 3;

/// The effect of a key on the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Nothing,
    /// The work is to be stopped, and the chat ends if that is wanted twice.
    Stop,
    /// The work is to be stopped, and the chat continues in any case.
    Pause,
    /// The next mode is wanted.
    Mode,
}

impl Screen {
    pub(super) fn new(canvas: Canvas) -> Self {
        Self(Mutex::new(Drawn::on(canvas)), Mutex::default())
    }

    fn lock(&self) -> MutexGuard<'_, Drawn> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the columns and rows of the terminal.
    pub(super) fn size(&self) -> (usize, usize) {
        let (columns, rows) = (self.lock().canvas.size)();
        (usize::from(columns), usize::from(rows))
    }

    /// Returns the columns of the terminal.
    pub(super) fn columns(&self) -> usize {
        usize::from((self.lock().canvas.size)().0)
    }

    pub(super) fn paint(&self) -> Paint {
        self.lock().canvas.paint
    }

    /// Starts work: from now on the lines below are drawn.
    pub(super) fn begin(&self, doing: Doing) {
        let mut drawn = self.lock();
        drawn.phase = Phase::Working;
        drawn.activity.doing = doing;
        drawn.activity.since = Instant::now();
        drawn.refresh();
    }

    /// Ends work: prints the rest of an answer, and removes the lines below.
    pub(super) fn end(&self) {
        let mut drawn = self.lock();
        drawn.end_answer();
        drawn.phase = Phase::Idle;
        drawn.question = None;
        drawn.clear_below();
    }

    /// Gives the terminal to the line editor.
    pub(super) fn begin_line(&self) {
        self.lock().phase = Phase::Reading;
    }

    /// Takes the terminal back from the line editor, and prints what was waiting.
    pub(super) fn end_line(&self) {
        let mut drawn = self.lock();
        drawn.phase = Phase::Idle;
        drawn.above = Above::Line;
        let held = std::mem::take(&mut drawn.held);
        drawn.print(held);
    }

    /// Prints an empty line, if there is none yet.
    pub(super) fn gap(&self) {
        let mut drawn = self.lock();
        if drawn.above != Above::Gap {
            drawn.print(vec![String::new()]);
            drawn.above = Above::Gap;
        }
    }

    /// Adds a piece of the answer.
    pub(super) fn answer(&self, text: &str) {
        let mut drawn = self.lock();
        if !drawn.canvas.redraws {
            drawn.stream(text);
            return;
        }
        let whole = drawn.blocks.push(text);
        let lines = drawn.blocks_as_lines(&whole);
        drawn.print(lines);
    }

    /// Ends the answer, or a part of it.
    pub(super) fn end_answer(&self) {
        self.lock().end_answer();
    }

    /// Adds a piece of what the model thinks; it is printed when the thinking is over.
    pub(super) fn think(&self, text: &str) {
        let mut thought = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        if thought.is_over {
            *thought = Thought::default();
        }
        thought.text.push_str(text);
    }

    /// Ends the thinking, and prints its beginning, dimmed.
    pub(super) fn end_thought(&self) {
        let mut thought = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut thought.is_over, true) {
            self.print_thought(&thought.text, THOUGHT_LINES);
        }
    }

    /// Prints all of the latest thinking; returns false if there is none.
    pub(super) fn unfold_thought(&self) -> bool {
        let thought = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        self.print_thought(&thought.text, usize::MAX);
        !thought.text.trim().is_empty()
    }

    fn print_thought(&self, text: &str, most: usize) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        self.gap();
        let mut drawn = self.lock();
        let (paint, columns) = (drawn.canvas.paint, usize::from((drawn.canvas.size)().0));
        let lines = fold_thought(text, columns.saturating_sub(2).max(1), most);
        let lines =
            lines.into_iter().map(|line| paint_spans(&[Span::new(format!("  {line}"), Tone::QUIET)], paint));
        let lines = lines.collect();
        drawn.print(lines);
        drawn.above = Above::Line;
    }

    /// Prints a text that is not of this answer, as Markdown; at most `limit` lines of it.
    pub(super) fn excerpt(&self, text: &str, limit: usize) {
        let mut drawn = self.lock();
        let mut blocks = Blocks::default();
        let mut whole = blocks.push(text);
        whole.extend(blocks.finish());
        let mut lines = drawn.blocks_as_lines(&whole);
        if lines.len() > limit {
            lines.truncate(limit);
            lines.push("…".to_owned());
        }
        drawn.print(lines);
        drawn.above = Above::Answer { is_open: false };
    }

    /// Prints a message that is sent without having been typed just now.
    pub(super) fn echo(&self, message: &str) {
        self.gap();
        let mut drawn = self.lock();
        let paint = drawn.canvas.paint;
        let line = |(at, line): (usize, &str)| {
            let mark = Span::new(if at == 0 { PROMPT } else { "  " }, Tone::CODE);
            paint_spans(&[mark, Span::new(visible(line), Tone::PLAIN)], paint)
        };
        let mut lines: Vec<String> = message.lines().enumerate().map(line).take(ECHOED).collect();
        let more = message.lines().count() - lines.len();
        if more > 0 {
            let more = format!("  … {} more", quantity(more, "line"));
            lines.push(paint_spans(&[Span::new(more, Tone::QUIET)], paint));
        }
        drawn.print(lines);
        drawn.above = Above::Line;
    }

    /// Shows a line that a running command printed; it is drawn with the next frame.
    pub(super) fn output(&self, line: &str) {
        let mut drawn = self.lock();
        if drawn.output.len() == OUTPUT_LINES {
            drawn.output.pop_front();
        }
        drawn.output.push_back(line.to_owned());
    }

    /// Takes the output of a command away.
    pub(super) fn end_output(&self) {
        let mut drawn = self.lock();
        drawn.output.clear();
        drawn.refresh();
    }

    /// Sets the current activity.
    pub(super) fn does(&self, doing: Doing) {
        let mut drawn = self.lock();
        let continues = drawn.activity.doing.continues_as(&doing);
        if !continues || drawn.activity.doing != doing {
            if !continues {
                drawn.activity.since = Instant::now();
            }
            drawn.activity.doing = doing;
            drawn.refresh();
        }
    }

    /// Changes the figures.
    pub(super) fn figures(&self, change: impl FnOnce(&mut StatusFigures)) -> StatusFigures {
        let mut drawn = self.lock();
        change(&mut drawn.figures);
        drawn.refresh();
        drawn.figures
    }

    /// Redraws what changes with time.
    pub(super) fn tick(&self) {
        self.lock().refresh();
    }

    /// Handles a key.
    pub(super) fn press(&self, key: &Key) -> Wanted {
        let mut drawn = self.lock();
        match key {
            Key::Interrupt => return Wanted::Stop,
            Key::Mode => return Wanted::Mode,
            Key::Escape if drawn.question.is_none() => return Wanted::Pause,
            key if drawn.goes_to_line(key) || drawn.answer_by(key) => {}
            Key::EndOfInput if drawn.question.as_ref().is_some_and(|question| question.typed.is_empty()) => {
                drawn.question = None;
            }
            // The end of the input comes after the current work.
            Key::EndOfInput if drawn.question.is_none() && drawn.typed.is_empty() => {
                drawn.queue.push_back("/exit".to_owned());
            }
            Key::Resized | Key::Redraw => drawn.below.clear(),
            Key::Back if drawn.question.is_none() && drawn.typed.is_empty() => {
                if let Some(text) = drawn.queue.pop_back() {
                    drawn.typed.press(&Key::Text(text));
                }
            }
            key => {
                let entered = match &mut drawn.question {
                    Some(question) => question.typed.press(key),
                    None => drawn.typed.press(key),
                };
                match (entered, drawn.question.take()) {
                    (Some(text), Some(question)) => drawn.record_answer(question, text.trim().to_owned()),
                    (Some(text), None) if !text.trim().is_empty() => drawn.queue.push_back(text),
                    (_, question) => drawn.question = question,
                }
            }
        }
        drawn.refresh();
        Wanted::Nothing
    }

    /// Takes the oldest of the waiting messages.
    pub(super) fn next_in_queue(&self) -> Option<String> {
        self.lock().queue.pop_front()
    }

    /// Takes the unsent input: waiting messages, and the text that is not entered yet.
    pub(super) fn take_typed(&self) -> String {
        let mut drawn = self.lock();
        let mut all: Vec<String> = drawn.queue.drain(..).collect();
        all.push(drawn.typed.take());
        all.retain(|text| !text.is_empty());
        all.join("\n")
    }

    /// Asks the user a question; the answer arrives when it is entered, or never.
    pub(super) fn ask(&self, lines: &[String], prompt: &str) -> oneshot::Receiver<String> {
        let (answer, answered) = oneshot::channel();
        let mut drawn = self.lock();
        drawn.end_answer();
        drawn.separate();
        let columns = usize::from((drawn.canvas.size)().0);
        let broken = |line: &String| -> Vec<String> {
            line.lines()
                .flat_map(|line| {
                    wrap(&harmless(line), columns).lines().map(str::to_owned).collect::<Vec<_>>()
                })
                .collect()
        };
        let mut lines: Vec<String> = lines.iter().flat_map(broken).collect();
        // Where it is long, nothing would be left to type in.
        let mut prompt = prompt;
        let keys = option_keys(prompt);
        // Someone who is in the middle of a line must not answer by its next letters.
        let is_after_line = !drawn.typed.is_empty();
        if prompt.len() > LONG {
            let (options, mark) = prompt.rsplit_once(' ').unwrap_or(("", prompt));
            lines.extend(wrap(&format!("  {options}"), columns).lines().map(str::to_owned));
            prompt = mark;
        }
        drawn.print(lines);
        let prompt = prompt.to_owned();
        drawn.question = Some(OpenQuestion { prompt, typed: Typed::default(), keys, is_after_line, answer });
        drawn.activity.since = Instant::now();
        drawn.refresh();
        answered
    }

    /// Asks a question of one line.
    pub(super) fn question(&self, line: &str, prompt: &str) -> oneshot::Receiver<String> {
        self.ask(&[line.to_owned()], prompt)
    }

    /// Withdraws a question whose asker stopped waiting.
    pub(super) fn take_back(&self) {
        let mut drawn = self.lock();
        drawn.question = None;
        drawn.refresh();
    }
}

impl Drawn {
    /// Types a key into the line that was begun before the open question, until that is entered, emptied, or
    /// kept for later; returns false if the key is not for it.
    fn goes_to_line(&mut self, key: &Key) -> bool {
        let is_for_line = !matches!(key, Key::Resized | Key::Redraw | Key::EndOfInput);
        let Some(question) = self.question.as_mut().filter(|question| question.is_after_line && is_for_line)
        else {
            return false;
        };
        let entered = self.typed.press(key);
        question.is_after_line = *key != Key::Escape && !self.typed.is_empty();
        self.queue.extend(entered.filter(|text| !text.trim().is_empty()));
        true
    }

    /// Answers the open question by a single key; returns false if the key is not an answer.
    fn answer_by(&mut self, key: &Key) -> bool {
        let is_open = |question: &OpenQuestion| !question.keys.is_empty() && question.typed.is_empty();
        let Some(question) = self.question.as_ref().filter(|question| is_open(question)) else {
            return false;
        };
        let answer = match key {
            Key::Escape if question.keys.contains(&'n') => "n".to_owned(),
            // Whoever is used to it presses Enter after the key of the question before.
            Key::Enter if !question.keys.contains(&'\n') => return true,
            Key::Text(text) => match text.to_lowercase().chars().collect::<Vec<_>>().as_slice() {
                [letter] if question.keys.contains(letter) => letter.to_string(),
                _ => return false,
            },
            _ => return false,
        };
        if let Some(question) = self.question.take() {
            self.record_answer(question, answer);
        }
        true
    }
}

impl output::Owner for Screen {
    fn say(&self, text: &str) {
        self.lock().say(text);
    }

    fn say_to_copy(&self, text: &str) {
        self.lock().say_lines(text);
    }

    fn try_say(&self, text: &str) -> bool {
        let mut drawn = match self.0.try_lock() {
            Ok(drawn) => drawn,
            Err(TryLockError::Poisoned(drawn)) => drawn.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        drawn.say(text);
        true
    }

    fn waits(&self, wait: Duration) {
        self.does(Doing::Retrying(wait));
    }
}

/// Returns the first `most` lines of a thought, wrapped, and a line that counts the rest.
fn fold_thought(text: &str, columns: usize, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = wrap(&harmless(text), columns).lines().map(str::to_owned).collect();
    let more = lines.len().saturating_sub(most);
    if more > 0 {
        lines.truncate(most);
        lines.push(format!("… {} more; /thinking shows all", quantity(more, "line")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::num::NonZeroU16;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU16, Ordering};

    use pretty_assertions::assert_eq;

    use super::*;
    use crate::output::Owner as _;

    #[test]
    fn long_thinking_is_folded() {
        assert_eq!(fold_thought("a\nb", 10, 3), ["a", "b"]);
        let lines = fold_thought("one two three four five", 10, 1);
        assert_eq!(lines, ["one two", "… 2 lines more; /thinking shows all"]);
    }

    /// A terminal that interprets the bytes that are written to it.
    #[derive(Clone)]
    struct Emulated(Arc<Mutex<vt100::Parser>>);

    impl Write for Emulated {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().process(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Emulated {
        fn shows(&self) -> String {
            let contents = self.0.lock().unwrap().screen().contents();
            contents
                .lines()
                .map(|line| line.trim_end().to_owned() + "\n")
                .collect::<String>()
                .trim_end()
                .to_owned()
        }
    }

    fn screen(columns: u16) -> (Screen, Emulated, Arc<AtomicU16>) {
        let cells = |n| NonZeroU16::new(n).unwrap();
        let emulated = Emulated(Arc::new(Mutex::new(vt100::Parser::new(cells(24), cells(columns), 0))));
        let width = Arc::new(AtomicU16::new(columns));
        let size = Arc::clone(&width);
        let screen = Screen::new(Canvas {
            out: Box::new(emulated.clone()),
            size: Box::new(move || (size.load(Ordering::Relaxed), 24)),
            paint: Paint::Bare,
            redraws: true,
        });
        (screen, emulated, width)
    }

    #[test]
    fn an_answer_stands_above_and_what_is_typed_below() {
        let (screen, terminal, _) = screen(40);
        screen.begin(Doing::Asking);
        screen.does(Doing::Writing);
        screen.answer("# Title\nSome *wor");
        screen.press(&Key::Text("typed".to_owned()));
        assert_eq!(terminal.shows(), "\n# Title\nSome *wor\n\n⠋ writing · Ctrl-C stops\n› typed");
        screen.say("→ read {}");
        screen.answer("ds*");
        screen.press(&Key::Enter);
        let expected = "\n# Title\nSome *wor\n\n→ read {}\n\nds*\n\n⠋ writing · Ctrl-C stops\n  next: typed";
        assert_eq!(terminal.shows(), expected);
        screen.end();
        assert_eq!(terminal.shows(), "\n# Title\nSome *wor\n\n→ read {}\n\nds*");
        screen.press(&Key::Back);
        assert_eq!(screen.next_in_queue(), None);
        screen.press(&Key::Enter);
        assert_eq!(screen.next_in_queue().as_deref(), Some("typed"));
    }

    #[test]
    fn what_is_said_while_a_line_is_read_waits() {
        let (screen, terminal, _) = screen(40);
        screen.begin_line();
        screen.say("late");
        assert_eq!(terminal.shows(), "");
        screen.end_line();
        assert_eq!(terminal.shows(), "late");
    }

    #[test]
    fn a_question_has_a_line_of_its_own() {
        let (screen, terminal, _) = screen(60);
        screen.begin(Doing::Asking);
        screen.press(&Key::Text("ahead".to_owned()));
        let mut answer = screen.ask(&["? may it".to_owned()], "[y] yes  [n] no or why not >");
        // A line that was begun is typed to its end, or kept for later.
        screen.press(&Key::Text("y".to_owned()));
        let expected = "? may it\n  [y] yes  [n] no or why not\n\n⠋ to answer, end your line: Enter sends it, \
                        Esc keeps it\n› aheady";
        assert_eq!(terminal.shows(), expected);
        screen.press(&Key::Backspace);
        screen.press(&Key::Escape);
        let expected =
            "? may it\n  [y] yes  [n] no or why not\n\n⠋ waiting for your answer · Ctrl-C stops\n>";
        assert_eq!(terminal.shows(), expected);
        screen.press(&Key::Text("y".to_owned()));
        assert_eq!(answer.try_recv().as_deref(), Ok("y"));
        assert!(
            terminal.shows().ends_with("waiting for the model · Ctrl-C stops\n› ahead"),
            "{}",
            terminal.shows()
        );
        // The end of the input is no answer.
        let mut answer = screen.ask(&["? again".to_owned()], ">");
        screen.press(&Key::EndOfInput);
        assert!(answer.try_recv().is_err());
        screen.end();
        assert_eq!(screen.take_typed(), "ahead");
    }

    #[test]
    fn one_key_answers_unless_something_is_being_typed() {
        const PROMPT: &str = "[y] once  [a] always  [n] no  [Space] why not >";
        for (keys, expected) in [
            (vec![Key::Text("y".to_owned())], "y"),
            (vec![Key::Text("N".to_owned())], "n"),
            (vec![Key::Escape], "n"),
            (vec![Key::Enter, Key::Text("a".to_owned())], "a"),
            (vec![Key::Text("use".to_owned()), Key::Text("y".to_owned()), Key::Enter], "usey"),
            // A reason may begin with any letter.
            (
                ["  ", "y", "ou may not"]
                    .map(|text| Key::Text(text.to_owned()))
                    .into_iter()
                    .chain([Key::Enter])
                    .collect(),
                "you may not",
            ),
            (vec![Key::Text(" ".to_owned()), Key::Text("a".to_owned()), Key::Enter], "a"),
            (vec![Key::Text("w".to_owned()), Key::Text("y".to_owned()), Key::Enter], "wy"),
        ] {
            let (screen, _, _) = screen(60);
            screen.begin(Doing::Asking);
            let mut answer = screen.ask(&["? may it".to_owned()], PROMPT);
            keys.iter().for_each(|key| assert_eq!(screen.press(key), Wanted::Nothing));
            assert_eq!(answer.try_recv().as_deref(), Ok(expected), "{keys:?}");
        }
        assert_eq!(option_keys("[Enter] show the rest  [n] no >"), ['\n', 'n']);
    }

    #[test]
    fn the_output_of_a_command_stands_below_while_it_runs() {
        let (screen, terminal, _) = screen(40);
        screen.begin(Doing::Asking);
        (1..=7).for_each(|n| screen.output(&format!("line {n}\u{1b}[2J")));
        screen.tick();
        assert!(terminal.shows().starts_with("  │ line 3\\u{1b}[2J\n"), "{}", terminal.shows());
        screen.end_output();
        assert!(!terminal.shows().contains("line"), "{}", terminal.shows());
    }

    #[test]
    fn a_new_width_leaves_nothing_behind() {
        let (screen, terminal, width) = screen(60);
        screen.begin(Doing::Writing);
        screen.answer("Whole.\n\nnot whole yet");
        for columns in [20, 60, 35] {
            width.store(columns, Ordering::Relaxed);
            terminal
                .0
                .lock()
                .unwrap()
                .screen_mut()
                .set_size(NonZeroU16::new(24).unwrap(), NonZeroU16::new(columns).unwrap());
            screen.press(&Key::Resized);
            assert_eq!(terminal.shows().matches("writing").count(), 1, "{}", terminal.shows());
        }
        screen.end();
        assert_eq!(terminal.shows(), "\nWhole.\n\nnot whole yet");
    }

    #[test]
    fn a_terminal_that_takes_nothing_back_gets_the_text_as_it_comes() {
        let (screen, terminal, _) = screen(40);
        screen.lock().canvas.redraws = false;
        screen.begin(Doing::Asking);
        screen.answer("Some *wor");
        screen.answer("ds*\u{1b}[2J");
        screen.say("→ read {}");
        screen.end();
        assert_eq!(terminal.shows(), "\nSome *words*\\u{1b}[2J\n\n→ read {}");
    }
}
