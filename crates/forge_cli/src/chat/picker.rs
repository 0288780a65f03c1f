//! The choice of one of many rows: arrows move, letters filter, Enter takes.

use std::time::Duration;

use console::measure_text_width;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};

use super::lower_lines::{BEGIN, END, in_place};
use super::spans::{Paint, Span, Tone, paint_spans};
use crate::output::line_wrap::cut;
use crate::output::{self, visible};
use crate::terminal::{self, Keys, Taken};

/// The interval of checks whether the terminal is still there.
const PATIENCE: Duration = Duration::from_millis(200);
/// The most rows that are shown at once.
const MOST_ROWS: usize = 15;

/// A row: its name at the left, and what else is known at the right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PickRow {
    pub(super) name: String,
    pub(super) details: String,
}

/// The state of a choice.
struct Picker<'r> {
    rows: &'r [PickRow],
    filter: String,
    /// The place of the marked row among those that the filter admits.
    at: usize,
}

/// The effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pressed {
    Taken(usize),
    Left,
    Open,
}

/// Lets the user choose one of the rows; `None` if they leave, or the terminal is gone.
pub(super) fn pick(title: &str, rows: &[PickRow], paint: Paint) -> Option<usize> {
    let mut picker = Picker { rows, filter: String::new(), at: 0 };
    let taken = (!terminal::is_taken()).then(Taken::take);
    let picked = loop {
        let (columns, height) = crossterm::terminal::size().unwrap_or((80, 24));
        let lines = picker.lines(title, usize::from(columns), usize::from(height), paint);
        output::write_raw(&format!("{BEGIN}{}{END}", in_place(&lines)));
        match terminal::wait_for_keys(PATIENCE) {
            Keys::Gone => break None,
            Keys::Listen | Keys::Unknown => {}
        }
        let mut pressed = Pressed::Open;
        while pressed == Pressed::Open && poll(Duration::ZERO).unwrap_or(false) {
            if let Ok(Event::Key(key)) = read() {
                pressed = picker.press(&key);
            }
        }
        match pressed {
            Pressed::Taken(row) => break Some(row),
            Pressed::Left => break None,
            Pressed::Open => {}
        }
    };
    output::write_raw("\r\u{1b}[J\u{1b}[?25h");
    drop(taken);
    picked
}

impl Picker<'_> {
    /// Returns the places of the rows that the filter admits.
    fn matches(&self) -> Vec<usize> {
        let wanted = self.filter.to_lowercase();
        let has_it = |row: &PickRow| format!("{} {}", row.name, row.details).to_lowercase().contains(&wanted);
        let rows = self.rows.iter().enumerate();
        rows.filter(|(_, row)| has_it(row)).map(|(at, _)| at).collect()
    }

    fn press(&mut self, key: &KeyEvent) -> Pressed {
        let KeyEvent { code, modifiers, kind, .. } = key;
        if *kind == KeyEventKind::Release {
            return Pressed::Open;
        }
        let n = self.matches().len();
        let control = modifiers.contains(KeyModifiers::CONTROL);
        match code {
            KeyCode::Esc => return Pressed::Left,
            KeyCode::Char('c' | 'd') if control => return Pressed::Left,
            KeyCode::Enter => {
                return self.matches().get(self.at).copied().map_or(Pressed::Open, Pressed::Taken);
            }
            KeyCode::Up => self.at = self.at.saturating_sub(1),
            KeyCode::Char('p') if control => self.at = self.at.saturating_sub(1),
            KeyCode::Down => self.at = (self.at + 1).min(n.saturating_sub(1)),
            KeyCode::Char('n') if control => self.at = (self.at + 1).min(n.saturating_sub(1)),
            KeyCode::PageUp => self.at = self.at.saturating_sub(MOST_ROWS),
            KeyCode::PageDown => self.at = (self.at + MOST_ROWS).min(n.saturating_sub(1)),
            KeyCode::Backspace => {
                self.filter.pop();
                self.at = 0;
            }
            KeyCode::Char(letter) if !control => {
                self.filter.push(*letter);
                self.at = 0;
            }
            _ => {}
        }
        Pressed::Open
    }

    /// Returns the lines, all narrower than the terminal and fewer than it has rows.
    fn lines(&self, title: &str, columns: usize, height: usize, paint: Paint) -> Vec<String> {
        let width = columns.saturating_sub(1);
        let admitted = self.matches();
        let n_shown = height.saturating_sub(4).clamp(1, MOST_ROWS);
        let first = (self.at + 1).saturating_sub(n_shown);
        let heading = match self.filter.as_str() {
            "" => title.to_owned(),
            filter => format!("{title} · {}", visible(filter)),
        };
        let mut lines = vec![paint_spans(&[Span::new(cut(&heading, width), Tone::CODE)], paint)];
        for (place, row) in admitted.iter().enumerate().skip(first).take(n_shown) {
            lines.push(self.row_line(&self.rows[*row], place == self.at, width, paint));
        }
        if admitted.is_empty() {
            lines.push("  nothing like that".to_owned());
        }
        let more = admitted.len().saturating_sub(first + n_shown);
        let more = if more > 0 { format!(" · {more} more below") } else { String::new() };
        let help = cut(&format!("  ↑ ↓ move · letters filter · Enter resumes · Esc leaves{more}"), width);
        lines.push(paint_spans(&[Span::new(help, Tone::QUIET)], paint));
        lines
    }

    fn row_line(&self, row: &PickRow, is_marked: bool, width: usize, paint: Paint) -> String {
        let details = cut(&visible(&row.details), width / 2);
        let room = width.saturating_sub(measure_text_width(&details) + 4);
        let name = cut(&visible(&row.name), room);
        let gap = " ".repeat(room.saturating_sub(measure_text_width(&name)));
        let mark = if is_marked { "› " } else { "  " };
        let tone = if is_marked { Tone::CODE } else { Tone::PLAIN };
        let spans = [Span::new(format!("{mark}{name}{gap}  "), tone), Span::new(details, Tone::QUIET)];
        paint_spans(&spans, paint)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn rows() -> Vec<PickRow> {
        let row = |name: &str, details: &str| PickRow { name: name.into(), details: details.into() };
        vec![
            row("Fix the failing test", "2 min · $0.02"),
            row("Review \u{1b}[2J this", "3 h · /other"),
            row(&"long ".repeat(40), "5 d"),
        ]
    }

    #[test]
    fn keys_move_filter_and_take() {
        let rows = rows();
        let key = |code| KeyEvent::new(code, KeyModifiers::NONE);
        let text = |text: &str| text.chars().map(|c| key(KeyCode::Char(c))).collect::<Vec<_>>();
        let enter = || vec![key(KeyCode::Enter)];
        for (keys, expected) in [
            (enter(), Pressed::Taken(0)),
            (
                [vec![key(KeyCode::Down), key(KeyCode::Down), key(KeyCode::Down)], enter()].concat(),
                Pressed::Taken(2),
            ),
            ([vec![key(KeyCode::Up)], enter()].concat(), Pressed::Taken(0)),
            ([text("OTHER"), enter()].concat(), Pressed::Taken(1)),
            ([text("nowhere"), enter()].concat(), Pressed::Open),
            ([text("x"), vec![key(KeyCode::Backspace)], enter()].concat(), Pressed::Taken(0)),
            (vec![key(KeyCode::Esc)], Pressed::Left),
            (vec![KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)], Pressed::Left),
        ] {
            let mut picker = Picker { rows: &rows, filter: String::new(), at: 0 };
            let mut last = Pressed::Open;
            keys.iter().for_each(|key| last = picker.press(key));
            assert_eq!(last, expected, "{keys:?}");
        }
    }

    #[test]
    fn every_line_fits_the_terminal_and_steers_nothing() {
        let rows = rows();
        let picker = Picker { rows: &rows, filter: String::new(), at: 1 };
        for columns in [20, 40, 80, 160] {
            let lines = picker.lines("Resume a run", columns, 24, Paint::Bare);
            assert_eq!(lines.len(), 5);
            assert!(lines.iter().all(|line| measure_text_width(line) < columns), "{columns}: {lines:?}");
            assert!(!lines.concat().contains('\u{1b}'), "{lines:?}");
        }
        assert_eq!(picker.lines("Resume", 80, 5, Paint::Bare).len(), 3);
    }
}
