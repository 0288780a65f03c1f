//! The lines below the printed text: the incomplete part of the answer, the status, waiting messages, and the
//! input.

use std::collections::VecDeque;
use std::time::Duration;

use super::input::Typed;
use super::spans::{Paint, Span, Tone, paint_spans};
use crate::output::line_wrap::cut;
use crate::output::visible;
use crate::run::status::{Doing, StatusFigures, spinner, status_line};

/// The most waiting messages that are shown.
const SHOWN: usize = 3;

/// The content of the lines below.
pub(super) struct Below<'a> {
    /// The incomplete part of the answer, in lines.
    pub(super) ahead: Vec<String>,
    pub(super) doing: &'a Doing,
    pub(super) elapsed: Duration,
    pub(super) figures: &'a StatusFigures,
    /// Messages that are sent next.
    pub(super) queue: &'a VecDeque<String>,
    /// The input, and the prompt before it.
    pub(super) typed: Option<(String, &'a Typed)>,
}

impl Below<'_> {
    /// Returns the lines, all narrower than the terminal, and fewer than it has rows. Only the end of an
    /// incomplete part is shown, in at most half of the free rows.
    pub(super) fn lines(mut self, columns: usize, rows: usize, paint: Paint) -> Vec<String> {
        let width = columns.saturating_sub(1);
        let quiet = |text: String| paint_spans(&[Span::new(text, Tone::QUIET)], paint);
        let status = status_line(self.doing, self.elapsed, self.figures, width.saturating_sub(2));
        let spinner = paint_spans(&[Span::new(format!("{} ", spinner(self.elapsed)), Tone::CODE)], paint);
        let mut lines = vec![String::new(), spinner + &quiet(status)];
        for text in self.queue.iter().take(SHOWN) {
            lines.push(quiet(cut(&format!("  next: {}", visible(&text.replace('\n', "⏎"))), width)));
        }
        if self.queue.len() > SHOWN {
            lines.push(quiet(format!("  and {} more", self.queue.len() - SHOWN)));
        }
        lines.extend(self.typed.map(|(prompt, typed)| input_line(&prompt, typed, width, paint)));
        let free = rows.saturating_sub(lines.len() + 1);
        let over = self.ahead.len().saturating_sub(free.div_ceil(2));
        let mut all = self.ahead.split_off(over);
        all.append(&mut lines);
        let over = all.len().saturating_sub(rows.saturating_sub(1).max(1));
        all.split_off(over)
    }
}

/// Returns the input line, with the cursor in it.
fn input_line(prompt: &str, typed: &Typed, width: usize, paint: Paint) -> String {
    let prompt = cut(prompt, width / 2 + 2);
    let room = width.saturating_sub(console::measure_text_width(&prompt));
    let (before, at, behind) = typed.window(room);
    let mark = paint_spans(&[Span::new(prompt, Tone::CODE)], paint);
    format!("{mark}{before}\u{1b}[7m{at}\u{1b}[27m{behind}")
}

/// The start of a frame: it is shown at once if the terminal supports that, and without a moving cursor.
pub(super) const BEGIN: &str = "\u{1b}[?2026h\u{1b}[?25l";
pub(super) const END: &str = "\u{1b}[?2026l";

/// Returns the lines to write from the cursor's place, where it returns afterwards. No line is wrapped,
/// whatever the terminal's current width.
pub(super) fn in_place(lines: &[String]) -> String {
    let text: Vec<String> = lines.iter().map(|line| format!("{line}\u{1b}[K")).collect();
    let up = match lines.len() {
        0 | 1 => String::new(),
        n => format!("\u{1b}[{}A", n - 1),
    };
    format!("\r\u{1b}[?7l{}\u{1b}[J{up}\r\u{1b}[?7h", text.join("\r\n"))
}

#[cfg(test)]
mod tests {
    use forge_domain::Tokens;
    use pretty_assertions::assert_eq;

    use super::super::input::Key;
    use super::*;

    #[test]
    fn what_stands_below_fits_the_terminal() {
        let mut typed = Typed::default();
        typed.press(&Key::Text("not sent yet".to_owned()));
        let queue: VecDeque<String> = ["one", "two\nlines", "three", "four"].map(str::to_owned).into();
        let figures = StatusFigures {
            used: Tokens::new(10),
            window: Tokens::new(100),
            calls: 1,
            ..StatusFigures::default()
        };
        let lines = |columns, rows| {
            let below = Below {
                ahead: (1..9).map(|n| format!("line {n}")).collect(),
                doing: &Doing::Writing,
                elapsed: Duration::from_millis(3_000),
                figures: &figures,
                queue: &queue,
                typed: Some(("› ".to_owned(), &typed)),
            };
            let lines = below.lines(columns, rows, Paint::Bare);
            lines.iter().map(|line| console::strip_ansi_codes(line).into_owned()).collect::<Vec<_>>()
        };
        let expected = [
            "line 8",
            "",
            "⠴ writing 3 s · 10 % · $0.0000 · 1 call",
            "  next: one",
            "  next: two⏎lines",
            "  next: three",
            "  and 1 more",
            "› not sent yet ",
        ];
        assert_eq!(lines(40, 10), expected);
        assert_eq!(lines(40, 30)[..2], ["line 1", "line 2"]);
        // Where there are hardly any rows, what is typed is seen.
        assert_eq!(lines(40, 3), ["  and 1 more", "› not sent yet "]);
        for columns in 1..60 {
            let widest =
                lines(columns, 10).iter().skip(1).map(|line| console::measure_text_width(line)).max();
            assert!(widest.unwrap() <= columns.max(14), "{columns}: {:?}", lines(columns, 10));
        }
    }
}
