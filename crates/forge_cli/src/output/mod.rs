//! Output to stdout and stderr that never panics.

mod hidden_characters;
pub(crate) mod line_wrap;
mod lower_line;
mod numbers;
mod secrets;
pub(crate) mod table;

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use console::style;
use serde::Serialize;

pub(crate) use self::hidden_characters::{exact, harmless, visible, visible_lines};
pub(crate) use self::numbers::with_separators;
pub(crate) use self::secrets::{hide_from_now_on, hide_secrets};

use self::line_wrap::wrap;
use self::lower_line::LowerLine;

/// The line below all that is printed to the terminal; it is locked while something is.
static LOWER_LINE: Mutex<LowerLine> = Mutex::new(LowerLine::new());

fn lower_line() -> MutexGuard<'static, LowerLine> {
    LOWER_LINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints `text` to stdout. A closed pipe is no error: its reader has read enough.
///
/// # Errors
/// Fails if it cannot be written for another reason, such as a full disk.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let mut lower = out.is_terminal().then(lower_line);
    let text = match &mut lower {
        Some(lower) => {
            let text = harmless(text);
            Cow::Owned(lower.before(&text).to_owned() + &text)
        }
        None => Cow::Borrowed(text),
    };
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("cannot write to stdout"))
        }
        _ => Ok(()),
    }
}

/// Prints `value` to stdout as one JSON document.
pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// Writes the content of a file to stdout. As in [`print`], a closed pipe is not an error.
///
/// # Errors
/// Fails if it cannot be written for another reason, such as a full disk.
pub(crate) fn print_bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("cannot write to stdout"),
        _ => Ok(()),
    }
}

/// Checks whether a path that was named for a result is the word for stdout.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// The first failure that [`print_or_note`] met, until [`finish`] asks for it.
static FAILED: Mutex<Option<anyhow::Error>> = Mutex::new(None);

/// Prints a line for users to stdout. A closed pipe is no error; [`finish`] reports other failures.
macro_rules! line {
    ($($words:tt)*) => {
        $crate::output::print_line(&format!($($words)*))
    };
}
pub(crate) use line;

/// Prints the line of [`line`].
pub(crate) fn print_line(line: &str) {
    print_or_note(&format!("{}\n", harmless(line)));
}

/// Prints `text` to stdout. A closed pipe is no error; [`finish`] reports other failures.
pub(crate) fn print_or_note(text: &str) {
    if let Err(error) = print(text) {
        FAILED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// Reports whether everything could be printed.
///
/// # Errors
/// Fails if something could not, for another reason than a closed pipe.
pub(crate) fn finish() -> anyhow::Result<()> {
    FAILED.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
}

/// The owner of the terminal, while only one may write to it.
pub(crate) trait Owner: Send + Sync {
    /// Shows a text that [`say`] received and made harmless.
    fn say(&self, text: &str);

    /// Shows a line that is meant for copying, and must not be wrapped.
    fn say_to_copy(&self, text: &str);

    /// Shows the text unless a thread is drawing; returns whether it did.
    fn try_say(&self, text: &str) -> bool;

    /// Notes that the work waits so long before its next attempt.
    fn waits(&self, wait: Duration);
}

static OWNER: Mutex<Option<Arc<dyn Owner>>> = Mutex::new(None);

/// Sends all messages to `owner` from now on; with `None` to stderr again.
pub(crate) fn set_owner(owner: Option<Arc<dyn Owner>>) {
    *OWNER.lock().unwrap_or_else(PoisonError::into_inner) = owner;
}

fn owner() -> Option<Arc<dyn Owner>> {
    OWNER.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Prints `line` to stderr, wrapped between words. If that fails, there is no place left to report it.
pub(crate) fn say(line: &str) {
    let line = harmless(line);
    match owner() {
        Some(owner) => owner.say(&line),
        None => {
            write_raw(&(columns().map_or_else(|| line.clone(), |columns| wrap(&line, columns)) + "\n"));
        }
    }
}

/// Prints a note.
pub(crate) fn note(text: &str) {
    say(&format!("{} {text}", style("note:").yellow().for_stderr()));
}

/// Prints a line that is meant for copying, such as a command: it is never wrapped.
pub(crate) fn say_to_copy(line: &str) {
    let line = harmless(line);
    match owner() {
        Some(owner) => owner.say_to_copy(&line),
        None => write_raw(&(line + "\n")),
    }
}

/// Prints `line` from a thread that may be drawing at the moment.
pub(crate) fn say_from_anywhere(line: &str) {
    const TRIES: usize = 200;
    const PAUSE: Duration = Duration::from_millis(5);
    let line = harmless(line);
    let Some(owner) = owner() else { return write_raw(&(line + "\n")) };
    for _ in 0..TRIES {
        if owner.try_say(&line) {
            return;
        }
        std::thread::sleep(PAUSE);
    }
    // This very thread is drawing.
    write_raw(&format!("\r\n{}\r\n", line.replace('\n', "\r\n")));
}

/// Writes to stderr without changes. If that fails, there is no place left to report it.
pub(crate) fn write_raw(text: &str) {
    let mut lower = lower_line();
    let before = lower.before(text);
    write_to_stderr(before, text);
}

/// Draws a line below all that is printed, made for so many columns. It stays until something is printed.
pub(crate) fn draw_below(line: impl FnOnce(usize) -> String) {
    let line = line(columns().unwrap_or(80));
    let mut lower = lower_line();
    let drawn = lower.draw(&line);
    write_to_stderr(&drawn, "");
}

/// Removes the line that [`draw_below`] drew.
pub(crate) fn clear_below() {
    let mut lower = lower_line();
    let clear = lower.clear();
    write_to_stderr(clear, "");
}

fn write_to_stderr(before: &str, text: &str) {
    if before.is_empty() && text.is_empty() {
        return;
    }
    let mut err = std::io::stderr().lock();
    let _ = err
        .write_all(before.as_bytes())
        .and_then(|()| err.write_all(text.as_bytes()))
        .and_then(|()| err.flush());
}

/// Returns the columns of the terminal on stderr; `None` if it is not a terminal, or its width is unknown.
fn columns() -> Option<usize> {
    columns_of(&console::Term::stderr())
}

/// Returns the columns of the terminal on stdout; `None` if it is not a terminal, or its width is unknown.
pub(crate) fn stdout_columns() -> Option<usize> {
    columns_of(&console::Term::stdout())
}

fn columns_of(term: &console::Term) -> Option<usize> {
    let size = term.size_checked().filter(|_| term.is_term());
    size.map(|(_, columns)| usize::from(columns)).filter(|columns| *columns > 0)
}

/// An observer of the waits before attempts.
pub(crate) type WaitWatcher = Arc<dyn Fn(Duration) + Send + Sync>;

static WAIT_WATCHER: Mutex<Option<WaitWatcher>> = Mutex::new(None);

/// Shows each wait before an attempt to `watcher` from now on, unless the terminal has an owner.
pub(crate) fn watch_waits(watcher: WaitWatcher) {
    *WAIT_WATCHER.lock().unwrap_or_else(PoisonError::into_inner) = Some(watcher);
}

/// Prints a line about a failed attempt, before the wait for the next one.
pub(crate) fn say_waiting(line: &str, wait: Duration) {
    say(line);
    if let Some(owner) = owner() {
        return owner.waits(wait);
    }
    let watcher = WAIT_WATCHER.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(watcher) = watcher {
        watcher(wait);
    }
}

/// A writer of log lines, which respects the owner of the terminal.
pub(crate) struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match owner() {
            Some(owner) => owner.say(&harmless(String::from_utf8_lossy(bytes).trim_end())),
            None => write_raw(&hide_secrets(&String::from_utf8_lossy(bytes))),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}

/// Returns the first `most` characters of `text`, with a mark if there are more.
pub(crate) fn beginning(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns a model's text for printing: unchanged in a pipe, harmless on a terminal.
pub(crate) fn display_text(text: &str) -> String {
    if std::io::stdout().is_terminal() { visible_lines(text) } else { text.to_owned() }
}
