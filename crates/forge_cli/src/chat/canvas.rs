//! The content of a chat's terminal, and how it is written there.

use std::collections::VecDeque;
use std::io::Write;
use std::time::Instant;

use tokio::sync::oneshot;

use super::blocks::{Block, Blocks};
use super::input::Typed;
use super::lower_lines::{BEGIN, Below, END, in_place};
use super::markdown::render;
use super::spans::{Paint, Span, Tone, paint_spans};
use crate::output::line_wrap::{FRAME, cut, wrap};
use crate::output::{visible, visible_lines};
use crate::run::status::{Doing, StatusFigures};

/// The prompt before a message.
pub(super) const PROMPT: &str = "› ";

/// The terminal that the screen is drawn on.
pub(super) struct Canvas {
    pub(super) out: Box<dyn Write + Send>,
    /// Columns and rows.
    pub(super) size: Box<dyn Fn() -> (u16, u16) + Send>,
    pub(super) paint: Paint,
    /// True if lines can be redrawn; a terminal without that gets text as it comes.
    pub(super) redraws: bool,
}

impl Canvas {
    /// Returns the terminal of stderr.
    pub(super) fn of_stderr(paint: Paint, redraws: bool) -> Self {
        let size = || crossterm::terminal::size().ok().filter(|size| size.0 > 0 && size.1 > 0);
        let size = Box::new(move || size().unwrap_or((80, 24)));
        Self { out: Box::new(std::io::stderr()), size, paint, redraws }
    }
}

/// The drawn content, and the content still to be drawn.
pub(super) struct Drawn {
    pub(super) canvas: Canvas,
    pub(super) phase: Phase,
    /// Texts that were printed in the meantime.
    pub(super) held: Vec<String>,
    pub(super) blocks: Blocks,
    pub(super) above: Above,
    pub(super) typed: Typed,
    pub(super) queue: VecDeque<String>,
    pub(super) question: Option<OpenQuestion>,
    pub(super) activity: Activity,
    pub(super) figures: StatusFigures,
    /// The last lines that a running command printed.
    pub(super) output: VecDeque<String>,
    /// The lines below as they were drawn.
    pub(super) below: Vec<String>,
}

/// The current activity, and its beginning.
pub(super) struct Activity {
    pub(super) doing: Doing,
    pub(super) since: Instant,
}

/// The user of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No one: texts are written as they come.
    Idle,
    /// The line editor: texts wait.
    Reading,
    /// This screen: the lines below are drawn.
    Working,
}

/// The last content above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Above {
    Gap,
    Line,
    /// A part of the answer; if the terminal cannot redraw, its line may be open.
    Answer {
        is_open: bool,
    },
}

/// An open question, with the input for it.
pub(super) struct OpenQuestion {
    pub(super) prompt: String,
    pub(super) typed: Typed,
    /// The keys that answer it at once; none if the answer is a line.
    pub(super) keys: Vec<char>,
    /// True while the keys belong to the line that was being typed when the question came.
    pub(super) is_after_line: bool,
    pub(super) answer: oneshot::Sender<String>,
}

impl Drawn {
    /// Creates an empty screen on `canvas`.
    pub(super) fn on(canvas: Canvas) -> Self {
        Self {
            canvas,
            phase: Phase::Idle,
            held: Vec::new(),
            blocks: Blocks::default(),
            above: Above::Line,
            typed: Typed::default(),
            queue: VecDeque::new(),
            question: None,
            activity: Activity { doing: Doing::Preparing, since: Instant::now() },
            figures: StatusFigures::default(),
            output: VecDeque::new(),
            below: Vec::new(),
        }
    }

    /// Prints lines above.
    pub(super) fn print(&mut self, lines: Vec<String>) {
        if self.phase == Phase::Reading {
            self.held.extend(lines);
            return;
        }
        if lines.is_empty() {
            self.refresh();
            return;
        }
        if self.above == (Above::Answer { is_open: true }) {
            self.write("\n");
            self.above = Above::Answer { is_open: false };
        }
        let text: String = lines.into_iter().map(|line| line + "\r\n").collect();
        if self.phase == Phase::Idle || !self.canvas.redraws {
            self.write(&text);
            return;
        }
        self.below = self.lines_below();
        let below = in_place(&self.below);
        self.write(&format!("{BEGIN}\r\u{1b}[J{text}{below}{END}"));
    }

    /// Redraws the lines below if they have changed.
    pub(super) fn refresh(&mut self) {
        if self.phase != Phase::Working || !self.canvas.redraws {
            return;
        }
        let lines = self.lines_below();
        if lines != self.below {
            self.below = lines;
            let below = in_place(&self.below);
            self.write(&format!("{BEGIN}{below}{END}"));
        }
    }

    pub(super) fn clear_below(&mut self) {
        self.below.clear();
        if self.canvas.redraws {
            self.write("\r\u{1b}[J\u{1b}[?25h");
        }
    }

    pub(super) fn write(&mut self, text: &str) {
        // If the terminal is gone, there is no one to tell.
        let _ = self.canvas.out.write_all(text.as_bytes()).and_then(|()| self.canvas.out.flush());
    }

    /// Writes the text as it comes, on terminals that cannot redraw.
    pub(super) fn stream(&mut self, text: &str) {
        if let Above::Line = self.above {
            self.write("\n");
        }
        self.write(&visible_lines(text));
        self.above = Above::Answer { is_open: !text.ends_with('\n') };
    }

    pub(super) fn end_answer(&mut self) {
        if !self.canvas.redraws {
            if self.above == (Above::Answer { is_open: true }) {
                self.write("\n");
                self.above = Above::Answer { is_open: false };
            }
            return;
        }
        let whole = self.blocks.finish();
        let lines = self.blocks_as_lines(&whole);
        self.print(lines);
    }

    /// Shows a text that is not part of the answer.
    pub(super) fn say(&mut self, text: &str) {
        let columns = usize::from((self.canvas.size)().0);
        self.say_lines(&wrap(text, columns));
    }

    /// Shows a text that is not part of the answer, with its lines as they are.
    pub(super) fn say_lines(&mut self, text: &str) {
        self.end_answer();
        self.separate();
        let lines = text.lines().map(str::to_owned).collect();
        self.print(lines);
    }

    /// Prints an empty line between the answer and a text about it.
    pub(super) fn separate(&mut self) {
        if let Above::Answer { .. } = self.above {
            self.print(vec![String::new()]);
        }
        self.above = Above::Line;
    }

    pub(super) fn blocks_as_lines(&mut self, blocks: &[Block]) -> Vec<String> {
        let columns = usize::from((self.canvas.size)().0);
        let mut lines = Vec::new();
        for block in blocks {
            let is_first = self.above == Above::Line;
            if is_first || (block.is_apart && self.above != Above::Gap) {
                lines.push(String::new());
            }
            lines.extend(render(block, columns, self.canvas.paint));
            self.above = Above::Answer { is_open: false };
        }
        lines
    }

    pub(super) fn record_answer(&mut self, question: OpenQuestion, text: String) {
        let paint = self.canvas.paint;
        let line =
            [Span::new(format!("{} ", question.prompt), Tone::QUIET), Span::new(visible(&text), Tone::PLAIN)];
        self.print(vec![paint_spans(&line, paint)]);
        self.activity.since = Instant::now();
        // The asker may have gone in the meantime.
        let _ = question.answer.send(text);
    }

    /// Returns the lines below, all narrower than the terminal.
    pub(super) fn lines_below(&self) -> Vec<String> {
        let (columns, rows) = (self.canvas.size)();
        let (columns, rows) = (usize::from(columns), usize::from(rows));
        let below = Below {
            ahead: self.ahead(columns),
            doing: match &self.question {
                Some(OpenQuestion { is_after_line: true, .. }) => &Doing::WaitingForLine,
                Some(_) => &Doing::Waiting,
                None => &self.activity.doing,
            },
            elapsed: self.activity.since.elapsed(),
            figures: &self.figures,
            queue: &self.queue,
            typed: match &self.question {
                Some(OpenQuestion { prompt, typed, is_after_line: false, .. }) => {
                    Some((format!("{prompt} "), typed))
                }
                None if self.typed.is_empty() => None,
                _ => Some((PROMPT.to_owned(), &self.typed)),
            },
        };
        below.lines(columns, rows, self.canvas.paint)
    }

    /// Returns the last lines of a running command, in a frame.
    fn output_lines(&self, columns: usize) -> Vec<String> {
        let width = columns.saturating_sub(1);
        let line = |line: &String| cut(&format!("{FRAME}{}", visible(line)), width);
        let lines = self.output.iter().map(line);
        lines.map(|line| paint_spans(&[Span::new(line, Tone::QUIET)], self.canvas.paint)).collect()
    }

    /// Returns the received part of the answer's incomplete block.
    pub(super) fn ahead(&self, columns: usize) -> Vec<String> {
        let Some(block) = self.blocks.incomplete_block() else { return self.output_lines(columns) };
        let is_apart = self.above == Above::Line || (block.is_apart && self.above != Above::Gap);
        let gap = is_apart.then(String::new);
        gap.into_iter().chain(render(&block, columns, self.canvas.paint)).collect()
    }
}
