//! A line below all that is printed to the terminal. It is redrawn in place, and gone before anything else is
//! printed.

/// Removes the line: the cursor stands at its beginning, unless the terminal showed a key there.
const CLEAR: &str = "\r\u{1b}[J";

/// The lower line, and the place of the cursor.
pub(super) struct LowerLine {
    is_drawn: bool,
    /// True if a line of text is open, such as one that a user completes.
    is_mid_line: bool,
}

impl LowerLine {
    pub(super) const fn new() -> Self {
        Self { is_drawn: false, is_mid_line: false }
    }

    /// Returns what to write to the terminal before `text`.
    pub(super) fn before(&mut self, text: &str) -> &'static str {
        if text.is_empty() {
            return "";
        }
        self.is_mid_line = !text.ends_with('\n');
        self.clear()
    }

    /// Returns what removes the line, if it is there.
    pub(super) fn clear(&mut self) -> &'static str {
        if std::mem::take(&mut self.is_drawn) { CLEAR } else { "" }
    }

    /// Returns what draws `line`, and takes the cursor back to its beginning; nothing if a line of text is
    /// open. The line is never wrapped.
    pub(super) fn draw(&mut self, line: &str) -> String {
        if self.is_mid_line {
            return String::new();
        }
        self.is_drawn = true;
        format!("\r\u{1b}[?7l{line}\u{1b}[J\r\u{1b}[?7h")
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn it_is_gone_before_a_text_and_never_in_an_open_line() {
        let mut lower = LowerLine::new();
        let mut terminal = vt100::Parser::default();
        // The text that is printed (`=` draws a line, `-` clears it), and the terminal after it.
        for (step, expected) in [
            ("=waiting 1 s", "waiting 1 s"),
            ("=waiting 2", "waiting 2"),
            ("one\r\n", "one"),
            ("=waiting 3 s", "one\nwaiting 3 s"),
            ("may it? ", "one\nmay it?"),
            ("=waiting 4 s", "one\nmay it?"),
            ("y\r\n", "one\nmay it? y"),
            ("=waiting 5 s", "one\nmay it? y\nwaiting 5 s"),
            ("", "one\nmay it? y\nwaiting 5 s"),
            ("-", "one\nmay it? y"),
        ] {
            let written = match (step.strip_prefix('='), step) {
                (Some(line), _) => lower.draw(line),
                (None, "-") => lower.clear().to_owned(),
                (None, text) => lower.before(text).to_owned() + text,
            };
            terminal.process(written.as_bytes());
            assert_eq!(terminal.screen().contents().trim_end(), expected, "{step}");
        }
    }
}
