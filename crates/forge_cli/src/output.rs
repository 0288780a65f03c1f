//! Writing to standard output and standard error without ever failing loudly.

use std::io::{ErrorKind, IsTerminal, Write};

/// Prints `text` to standard output. Whoever closed the pipe has read enough.
///
/// # Errors
/// Where it cannot be written for another reason, such as a full disk.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("cannot write to standard output"))
        }
        _ => Ok(()),
    }
}

/// Prints a line for people to standard output. Whoever closed the pipe has read enough.
macro_rules! line {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($words)*);
    }};
}
pub(crate) use line;

/// Prints `line` to standard error; nobody is left to be told where that fails.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", harmless(line));
}

/// The text without what could steer a terminal; colours of ours stay.
pub(crate) fn harmless(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_control() && c != '\n' && c != '\t') {
        kept.push_str(&rest[..at]);
        let colour = colour_at(&rest[at..]);
        kept.push_str(&rest[at..at + colour]);
        let skipped = rest[at..].chars().next().map_or(0, char::len_utf8);
        rest = &rest[at + colour.max(skipped)..];
    }
    kept.push_str(rest);
    kept
}

/// The length of a colour sequence at the beginning of `text`; zero where there is none.
fn colour_at(text: &str) -> usize {
    let Some(codes) = text.strip_prefix("\u{1b}[") else { return 0 };
    match codes.find(|c: char| !(c.is_ascii_digit() || c == ';')) {
        Some(end) if codes[end..].starts_with('m') => end + 3,
        _ => 0,
    }
}

/// A model's text as it may be shown: as it is in a pipe, harmless on a terminal.
pub(crate) fn shown(text: &str) -> String {
    if std::io::stdout().is_terminal() { harmless(text) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn only_colours_pass() {
        for (text, expected) in [
            ("plain\n\ttext", "plain\n\ttext"),
            ("\u{1b}[31mred\u{1b}[0m", "\u{1b}[31mred\u{1b}[0m"),
            ("\u{1b}[2Jgone", "[2Jgone"),
            ("\u{1b}]0;title\u{7}x", "]0;titlex"),
            ("a\u{1b}", "a"),
            ("é\u{9b}x", "éx"),
        ] {
            assert_eq!(harmless(text), expected);
        }
    }
}
