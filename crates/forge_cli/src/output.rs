//! Writing to standard output and standard error without ever failing loudly.

use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use crate::secrets;

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

/// What became of the lines of [`line`]: the first that could not be written, until [`finish`] asks.
static FAILED: Mutex<Option<anyhow::Error>> = Mutex::new(None);

/// Prints a line for people to standard output. Whoever closed the pipe has read enough; [`finish`] tells what else failed.
macro_rules! line {
    ($($words:tt)*) => {
        $crate::output::print_line(&format!($($words)*))
    };
}
pub(crate) use line;

/// See [`line`].
pub(crate) fn print_line(line: &str) {
    if let Err(error) = print(&format!("{}\n", harmless(line))) {
        FAILED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// Whether all lines could be printed.
///
/// # Errors
/// Where one could not, for another reason than that nobody reads them.
pub(crate) fn finish() -> anyhow::Result<()> {
    FAILED.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
}

/// Who has the terminal, where not everybody may write to it.
pub(crate) trait Owner: Send + Sync {
    /// Shows a text that [`say`] was given, which is harmless by now.
    fn say(&self, text: &str);

    /// Takes in that the work waits until it tries again.
    fn waits(&self);
}

static OWNER: Mutex<Option<Arc<dyn Owner>>> = Mutex::new(None);

/// From here on all that is said goes to `owner`; with `None` to standard error again.
pub(crate) fn owned_by(owner: Option<Arc<dyn Owner>>) {
    *OWNER.lock().unwrap_or_else(PoisonError::into_inner) = owner;
}

fn owner() -> Option<Arc<dyn Owner>> {
    OWNER.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Prints `line` to standard error; nobody is left to be told where that fails.
pub(crate) fn say(line: &str) {
    match owner() {
        Some(owner) => owner.say(&harmless(line)),
        None => drop(writeln!(std::io::stderr(), "{}", harmless(line))),
    }
}

/// The same of an attempt that failed where the next one waits.
pub(crate) fn say_waiting(line: &str) {
    say(line);
    owner().into_iter().for_each(|owner| owner.waits());
}

/// Writes what is logged, past nobody who has the terminal.
pub(crate) struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match owner() {
            Some(owner) => owner.say(&harmless(String::from_utf8_lossy(bytes).trim_end())),
            None => {
                let text = String::from_utf8_lossy(bytes);
                std::io::stderr().write_all(secrets::hidden(&text).as_bytes())?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}

/// What others named or said, such as a tool's name or a call's arguments, in one line: what could steer a terminal or
/// deceive its reader is made visible, as in `\u{1b}`.
pub(crate) fn visible(text: &str) -> String {
    escaped(text, |_| 0)
}

/// The same for what may have several lines.
pub(crate) fn visible_lines(text: &str) -> String {
    escaped(text, |rest| usize::from(rest.starts_with(['\n', '\t'])))
}

/// A model's text as it may be shown: as it is in a pipe, harmless on a terminal.
pub(crate) fn shown(text: &str) -> String {
    if std::io::stdout().is_terminal() { visible_lines(text) } else { text.to_owned() }
}

/// What is about to be printed, with nothing left that could steer a terminal but our own colours. The last net: what
/// others said has to be [`visible`] before, as its colours are none of ours.
pub(crate) fn harmless(text: &str) -> String {
    let kept = |rest: &str| if rest.starts_with(['\n', '\t']) { 1 } else { colour_at(rest) };
    escaped(text, kept)
}

/// The text with its harmful characters escaped, save for as many bytes as `kept` says at each.
fn escaped(text: &str, kept: impl Fn(&str) -> usize) -> String {
    let text = &*secrets::hidden(text);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_harmful) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let mut behind = from.chars();
        let n_kept = match (kept(from), behind.next()) {
            (0, Some(harmful)) => {
                out.extend(harmful.escape_default());
                from.len() - behind.as_str().len()
            }
            (n_kept, _) => {
                out.push_str(&from[..n_kept]);
                n_kept
            }
        };
        rest = &from[n_kept..];
    }
    out + rest
}

/// Whether a character steers a terminal, ends a line or turns the direction of what follows.
fn is_harmful(c: char) -> bool {
    let turns =
        matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}')
}

/// The length of a colour sequence at the beginning of `text`; zero where there is none.
fn colour_at(text: &str) -> usize {
    let Some(codes) = text.strip_prefix("\u{1b}[") else { return 0 };
    match codes.find(|c: char| !(c.is_ascii_digit() || c == ';')) {
        Some(end) if codes[end..].starts_with('m') => end + 3,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn what_steers_a_terminal_is_made_visible() {
        for (text, in_a_line, in_lines, with_colours) in [
            ("plain é 👩‍🚀", "plain é 👩‍🚀", "plain é 👩‍🚀", "plain é 👩‍🚀"),
            ("a\n\tb", "a\\n\\tb", "a\n\tb", "a\n\tb"),
            (
                "\u{1b}[31mred\u{1b}[0m",
                "\\u{1b}[31mred\\u{1b}[0m",
                "\\u{1b}[31mred\\u{1b}[0m",
                "\u{1b}[31mred\u{1b}[0m",
            ),
            ("\u{1b}[2Jgone", "\\u{1b}[2Jgone", "\\u{1b}[2Jgone", "\\u{1b}[2Jgone"),
            ("\u{1b}]0;t\u{7}x\r", "\\u{1b}]0;t\\u{7}x\\r", "\\u{1b}]0;t\\u{7}x\\r", "\\u{1b}]0;t\\u{7}x\\r"),
            ("é\u{9b}x\u{7f}", "é\\u{9b}x\\u{7f}", "é\\u{9b}x\\u{7f}", "é\\u{9b}x\\u{7f}"),
            ("\u{202e}gpj.exe", "\\u{202e}gpj.exe", "\\u{202e}gpj.exe", "\\u{202e}gpj.exe"),
            ("a\u{1b}", "a\\u{1b}", "a\\u{1b}", "a\\u{1b}"),
        ] {
            let actual = (visible(text), visible_lines(text), harmless(text));
            assert_eq!(actual, (in_a_line.into(), in_lines.into(), with_colours.into()), "{text:?}");
        }
    }
}
