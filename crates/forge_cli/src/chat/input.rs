//! Text that is typed during work: a small line editor of its own, whose text is kept until it can be used.

use console::measure_text_width;
use reedline::LineBuffer;

use crate::output::visible;

/// The most characters that share one column: letters with their marks, and emoji with what joins them.
const MOST_CHARS_OF_COLUMN: usize = 4;

/// A key, by its effect on a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// Text, typed or pasted.
    Text(String),
    /// The end of the line.
    Enter,
    /// A line break within the text.
    NewLine,
    Backspace,
    Delete,
    Left,
    Right,
    Home,
    End,
    /// Deletes the word before the cursor.
    WordBack,
    /// Deletes everything before the cursor.
    ToStart,
    /// Deletes everything after the cursor.
    ToEnd,
    /// Restores the last entered message.
    Back,
    /// Switches to the next mode.
    Mode,
    /// Refuses what is asked.
    Escape,
    /// Stops the current work.
    Interrupt,
    /// The end of the input.
    EndOfInput,
    /// A new size of the terminal.
    Resized,
    /// Redraws everything.
    Redraw,
}

/// A text that is being typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Typed(LineBuffer);

impl Typed {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the text out, and leaves an empty one.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.0).get_buffer().to_owned()
    }

    /// Applies `key`; returns the text if the key ends it.
    pub(super) fn press(&mut self, key: &Key) -> Option<String> {
        let line = &mut self.0;
        match key {
            Key::Text(text) => line.insert_str(&text.replace("\r\n", "\n").replace('\r', "\n")),
            Key::NewLine => line.insert_char('\n'),
            // A backslash at the end continues the text.
            Key::Enter if line.ends_with('\\') => {
                line.move_to_end();
                line.delete_left_grapheme();
                line.insert_char('\n');
            }
            Key::Enter => return Some(self.take()),
            Key::Backspace => line.delete_left_grapheme(),
            Key::Delete => line.delete_right_grapheme(),
            Key::Left => line.move_left(),
            Key::Right => line.move_right(),
            Key::Home => line.move_to_line_start(),
            Key::End => line.move_to_line_end(),
            Key::WordBack => {
                let at = line.insertion_point();
                let before = line.get_buffer()[..at].trim_end();
                let start = before.char_indices().rev().find(|(_, c)| c.is_whitespace());
                line.clear_range_safe(start.map_or(0, |(at, c)| at + c.len_utf8())..at);
            }
            Key::ToStart => line.clear_to_insertion_point(),
            Key::ToEnd => line.clear_to_end(),
            Key::Back
            | Key::Mode
            | Key::Escape
            | Key::Interrupt
            | Key::EndOfInput
            | Key::Resized
            | Key::Redraw => {}
        }
        None
    }

    /// Returns the parts before, at and after the cursor that fit a line of `width` columns, with marks for
    /// line ends. Of a longer text, the part around the cursor is shown.
    pub(super) fn window(&self, width: usize) -> (String, String, String) {
        let shown = |text: &str| visible(&text.replace('\n', "⏎"));
        let (before, rest) = self.0.get_buffer().split_at(self.0.insertion_point());
        let (at, behind) = rest.split_at(self.0.grapheme_right_index() - before.len());
        let at = if at.is_empty() { " ".to_owned() } else { shown(at) };
        // A pasted text may be long, and this is done for each frame.
        let most = width.saturating_mul(MOST_CHARS_OF_COLUMN).max(1);
        let from = before.char_indices().rev().nth(most - 1).map_or(0, |(at, _)| at);
        let to = behind.char_indices().nth(most).map_or(behind.len(), |(at, _)| at);
        let (mut before, mut behind) = (shown(&before[from..]), shown(&behind[..to]));
        let room = width.saturating_sub(measure_text_width(&at));
        let kept_behind = measure_text_width(&behind).min(room / 3);
        while measure_text_width(&before) > room - kept_behind {
            before.remove(0);
        }
        while measure_text_width(&behind) > room.saturating_sub(measure_text_width(&before)) {
            behind.pop();
        }
        (before, at, behind)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// Types one letter per key: `<` and `>` move, `^` and `$` move far, `-` deletes backwards, `x` forwards,
    /// `w` a word, `,` enters, `;` starts a line.
    fn type_keys(keys: &str) -> (Typed, Vec<String>) {
        let (mut line, mut entered) = (Typed::default(), Vec::new());
        for key in keys.chars() {
            let key = match key {
                '<' => Key::Left,
                '>' => Key::Right,
                '^' => Key::Home,
                '$' => Key::End,
                '-' => Key::Backspace,
                'x' => Key::Delete,
                'w' => Key::WordBack,
                'u' => Key::ToStart,
                'k' => Key::ToEnd,
                ',' => Key::Enter,
                ';' => Key::NewLine,
                letter => Key::Text(letter.to_string()),
            };
            entered.extend(line.press(&key));
        }
        (line, entered)
    }

    #[test]
    fn a_line_is_edited() {
        for (keys, text, entered) in [
            ("abc", "abc", &[][..]),
            ("ac<b", "abc", &[]),
            ("bc^a$d", "abcd", &[]),
            ("é言-", "é", &[]),
            ("--<<>>x", "", &[]),
            ("ab<x", "a", &[]),
            ("one two w", "one ", &[]),
            ("abc<u", "c", &[]),
            ("abc<<k", "a", &[]),
            ("ab,cd", "cd", &["ab"]),
            ("a;b^c", "a\ncb", &[]),
            ("a\\,b,", "", &["a\nb"]),
        ] {
            let (line, actual) = type_keys(keys);
            assert_eq!(
                (line.0.get_buffer(), actual.iter().map(String::as_str).collect::<Vec<_>>()),
                (text, entered.to_vec()),
                "{keys}"
            );
        }
    }

    #[test]
    fn what_is_pasted_keeps_its_lines() {
        let mut line = Typed::default();
        assert_eq!(line.press(&Key::Text("a\r\nb\rc".to_owned())), None);
        assert_eq!(line.0.get_buffer(), "a\nb\nc");
    }

    #[test]
    fn what_stands_around_the_cursor_is_shown() {
        for (keys, width, expected) in [
            ("abc", 10, ("abc", " ", "")),
            ("abc<", 10, ("ab", "c", "")),
            ("a;b", 10, ("a⏎b", " ", "")),
            ("abcdefgh", 5, ("efgh", " ", "")),
            ("abcdefgh^", 5, ("", "a", "bcde")),
            ("abcdefgh<<<<", 6, ("abcd", "e", "f")),
            ("abcdefgh", 0, ("", " ", "")),
        ] {
            let (line, _) = type_keys(keys);
            let (before, at, behind) = line.window(width);
            assert_eq!((before.as_str(), at.as_str(), behind.as_str()), expected, "{keys} in {width}");
        }
    }
}
