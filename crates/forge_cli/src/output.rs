//! Writing to standard output and standard error without ever failing loudly.

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub(crate) use crate::hidden::{exact, harmless, visible, visible_lines};
use crate::secrets;
use crate::wrapping::wrapped;

/// Prints `text` to standard output. Whoever closed the pipe has read enough.
///
/// # Errors
/// Where it cannot be written for another reason, such as a full disk.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let text = if out.is_terminal() { Cow::Owned(harmless(text)) } else { Cow::Borrowed(text) };
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

    /// Shows the same of a line that is to be copied, and must not be broken.
    fn say_to_copy(&self, text: &str);

    /// Shows the same unless somebody is drawing; returns whether it did.
    fn try_say(&self, text: &str) -> bool;

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

/// Prints `line` to standard error, broken between words where a terminal would break it anywhere; nobody is left to be told where
/// that fails.
pub(crate) fn say(line: &str) {
    let line = harmless(line);
    match owner() {
        Some(owner) => owner.say(&line),
        None => {
            write_raw(&(columns().map_or_else(|| line.clone(), |columns| wrapped(&line, columns)) + "\n"));
        }
    }
}

/// Prints a line that is to be copied, such as a command: it is never broken.
pub(crate) fn say_to_copy(line: &str) {
    let line = harmless(line);
    match owner() {
        Some(owner) => owner.say_to_copy(&line),
        None => write_raw(&(line + "\n")),
    }
}

/// Prints `line` from a thread that may be in the middle of drawing.
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
    // Whoever draws is this very thread.
    write_raw(&format!("\r\n{}\r\n", line.replace('\n', "\r\n")));
}

/// Writes to standard error as it is; nobody is left to be told where that fails.
pub(crate) fn write_raw(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

/// Returns the columns of the terminal on standard error; `None` where it is none, or does not tell.
fn columns() -> Option<usize> {
    columns_of(&console::Term::stderr())
}

/// Returns the columns of the terminal on standard output; `None` where it is none, or does not tell.
pub(crate) fn stdout_columns() -> Option<usize> {
    columns_of(&console::Term::stdout())
}

fn columns_of(term: &console::Term) -> Option<usize> {
    let size = term.size_checked().filter(|_| term.is_term());
    size.map(|(_, columns)| usize::from(columns)).filter(|columns| *columns > 0)
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

/// A model's text as it may be shown: as it is in a pipe, harmless on a terminal.
pub(crate) fn shown(text: &str) -> String {
    if std::io::stdout().is_terminal() { visible_lines(text) } else { text.to_owned() }
}
