//! Long pasted texts: the line that is typed shows each as a short mark, and the message has the text.

use std::sync::{Arc, Mutex, PoisonError};

use crossterm::event::Event;
use forge_domain::quantity;
use reedline::{EditCommand, EditMode, PromptEditMode, ReedlineEvent, ReedlineRawEvent};
use sha2::{Digest, Sha256};

/// A text of more lines, or of more characters, is folded.
const MOST_LINES: usize = 5;
const MOST_CHARS: usize = 1_000;
/// The beginning of a mark.
const MARK: &str = "[pasted ";

/// The pasted texts of a chat, each with its mark.
#[derive(Clone, Default)]
pub(super) struct Pastes(Arc<Mutex<Vec<(String, String)>>>);

impl Pastes {
    /// Returns the edit mode that folds what is pasted, and is otherwise `inner`.
    pub(super) fn folding<E>(&self, inner: E) -> Folding<E> {
        Folding { inner, pastes: self.clone() }
    }

    /// Returns what to insert for a pasted text: a mark if it is long.
    fn fold(&self, text: &str) -> String {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let n_lines = text.trim_end().lines().count();
        if n_lines <= MOST_LINES && text.chars().nth(MOST_CHARS).is_none() {
            return text;
        }
        // By its content, so that a mark of an earlier chat, recalled from the history, never stands for
        // another text.
        let hash = Sha256::digest(text.as_bytes());
        let size = match n_lines {
            1 => quantity(text.chars().count(), "character"),
            n => quantity(n, "line"),
        };
        let mark = format!("{MARK}{size} {:02x}{:02x}]", hash[0], hash[1]);
        let mut pastes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pastes.iter().all(|(known, _)| *known != mark) {
            pastes.push((mark.clone(), text));
        }
        mark
    }

    /// Returns the message with the pasted texts in the places of their marks.
    ///
    /// # Errors
    /// A mark of a text that was pasted into an earlier chat, and is not known any more.
    pub(super) fn unfold(&self, message: &str) -> Result<String, String> {
        let pastes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mark) = marks(message).find(|mark| pastes.iter().all(|(known, _)| known != mark)) {
            return Err(mark.to_owned());
        }
        let mut unfolded = String::new();
        let mut rest = message;
        // A pasted text may have the mark of another one in it, which is left as it is.
        while let Some((at, mark, text)) = first_mark(rest, &pastes) {
            unfolded.push_str(&rest[..at]);
            unfolded.push_str(text);
            rest = &rest[at + mark.len()..];
        }
        Ok(unfolded + rest)
    }
}

/// Returns the marks in a message, by their form.
fn marks(message: &str) -> impl Iterator<Item = &str> {
    let is_mark = |inner: &str| {
        let words: Vec<&str> = inner.split(' ').collect();
        let &[size, unit, hash] = words.as_slice() else { return false };
        size.chars().all(|c| c.is_ascii_digit() || c == ',')
            && matches!(unit, "line" | "lines" | "character" | "characters")
            && hash.len() == 4
            && hash.chars().all(|c| c.is_ascii_hexdigit())
    };
    message.match_indices(MARK).filter_map(move |(at, _)| {
        let inner = &message[at + MARK.len()..];
        let end = inner.find(']').filter(|end| is_mark(&inner[..*end]))?;
        Some(&message[at..at + MARK.len() + end + 1])
    })
}

fn first_mark<'p>(text: &str, pastes: &'p [(String, String)]) -> Option<(usize, &'p str, &'p str)> {
    let places =
        pastes.iter().filter_map(|(mark, paste)| Some((text.find(mark.as_str())?, &**mark, &**paste)));
    places.min_by_key(|(at, ..)| *at)
}

/// An edit mode that folds long pasted texts.
pub(super) struct Folding<E> {
    inner: E,
    pastes: Pastes,
}

impl<E: EditMode> EditMode for Folding<E> {
    fn parse_event(&mut self, event: ReedlineRawEvent) -> ReedlineEvent {
        match Event::from(event) {
            Event::Paste(text) => {
                ReedlineEvent::Edit(vec![EditCommand::InsertString(self.pastes.fold(&text))])
            }
            event => match ReedlineRawEvent::try_from(event) {
                Ok(event) => self.inner.parse_event(event),
                Err(()) => ReedlineEvent::None,
            },
        }
    }

    fn edit_mode(&self) -> PromptEditMode {
        self.inner.edit_mode()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_long_paste_is_a_mark_until_it_is_sent() {
        let pastes = Pastes::default();
        assert_eq!(pastes.fold("one\r\ntwo"), "one\ntwo");
        let long = "line\n".repeat(120);
        let mark = pastes.fold(&long);
        assert!(mark.starts_with("[pasted 120 lines ") && mark.len() < 40, "{mark}");
        let other = pastes.fold(&format!("{mark}{}", "x".repeat(1_000)));
        assert!(other.starts_with("[pasted 1"), "{other}");
        assert_eq!(pastes.fold(&long), mark);
        let message = format!("see {mark} and {other}");
        let expected = format!("see {long} and {mark}{}", "x".repeat(1_000));
        assert_eq!(pastes.unfold(&message), Ok(expected));
        // The history has the mark alone.
        assert_eq!(Pastes::default().unfold(&format!("x {mark}")), Err(mark));
        for text in ["[pasted 3 lines]", "[pasted some lines ab12]", "[pasted "] {
            assert_eq!(pastes.unfold(text).as_deref(), Ok(text));
        }
    }
}
