//! The progress of reading a large file, and of the work with what was read.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

/// The size from which progress is shown.
const LARGE: u64 = 64 << 20;

/// A bar on stderr that shows how much of a file was read. A file may be read several times; each time is a
/// new pass.
#[derive(Clone)]
pub(crate) struct ReadProgress {
    bar: ProgressBar,
}

impl ReadProgress {
    /// Creates the bar for a file of `bytes`. It is hidden for a small one, and if stderr is not a terminal.
    pub(crate) fn new(bytes: u64) -> Self {
        let target =
            if is_shown(bytes) { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template("{msg} {bar:30} {bytes}/{total_bytes} {elapsed}");
        let bar = ProgressBar::with_draw_target(Some(bytes), target)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message("reading");
        Self { bar }
    }

    /// Returns `file` as a reader that moves the bar, from its beginning.
    pub(crate) fn pass(&self, file: File) -> ReadPass {
        self.bar.set_position(0);
        ReadPass { file, bar: self.bar.clone() }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// A file that is read once.
pub(crate) struct ReadPass {
    file: File,
    bar: ProgressBar,
}

impl Read for ReadPass {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(buffer)?;
        self.bar.inc(n as u64);
        Ok(n)
    }
}

/// Checks whether progress is shown for a file of `bytes`.
fn is_shown(bytes: u64) -> bool {
    bytes >= LARGE && io::stderr().is_terminal()
}

/// A line on stderr about the steps after a large file was read; hidden like its bar. It is gone when this is
/// dropped.
pub(crate) struct WorkProgress {
    bar: ProgressBar,
}

impl WorkProgress {
    /// The interval of redrawing the line.
    const TICK: Duration = Duration::from_millis(120);

    /// Creates the line for a file of so many bytes, with the first step.
    pub(crate) fn new(bytes: usize, step: &'static str) -> Self {
        let bar = if is_shown(bytes as u64) { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        if !bar.is_hidden() {
            bar.enable_steady_tick(Self::TICK);
        }
        let progress = Self { bar };
        progress.begin(step);
        progress
    }

    /// Removes the line, before something is printed.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }

    /// Begins the next step, of unknown length.
    pub(crate) fn begin(&self, step: &'static str) {
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
        self.bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        self.bar.set_message(step);
    }

    /// Returns `messages`, which are counted as they pass and compacted after the last one.
    pub(crate) fn counting<T>(&self, messages: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
        let n_messages = messages.size_hint().0 as u64;
        let style = ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} messages {elapsed}");
        self.bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        self.bar.set_length(n_messages);
        self.bar.set_position(0);
        self.bar.set_message("counting");
        messages.inspect(move |_| {
            self.bar.inc(1);
            if self.bar.position() == n_messages {
                self.begin("compacting");
            }
        })
    }
}

impl Drop for WorkProgress {
    fn drop(&mut self) {
        self.end();
    }
}

/// Notes on stderr that a command is still working. They are printed unless stderr is a terminal, and end
/// when this is dropped.
pub(crate) struct WorkNotes {
    _end: Option<Sender<()>>,
}

impl WorkNotes {
    /// The time before the first note, and between two notes.
    const FIRST: Duration = Duration::from_secs(30);
    const NEXT: Duration = Duration::from_secs(60);

    /// Begins to wait for the first note.
    pub(crate) fn begin() -> Self {
        if io::stderr().is_terminal() {
            return Self { _end: None };
        }
        let (end, ended) = mpsc::channel();
        std::thread::spawn(move || note_until(&ended, Self::FIRST, Self::NEXT, &output::note));
        Self { _end: Some(end) }
    }
}

/// Notes how long the work takes, after the `first` wait and after each `next` one, until nothing can be
/// received any more.
fn note_until(ended: &Receiver<()>, first: Duration, next: Duration, note: &dyn Fn(&str)) {
    let (mut elapsed, mut wait) = (Duration::ZERO, first);
    while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        elapsed += wait;
        wait = next;
        let (minutes, seconds) = (elapsed.as_secs() / 60, elapsed.as_secs() % 60);
        let minutes = if minutes > 0 { format!("{minutes} min ") } else { String::new() };
        note(&format!("still working {minutes}{seconds} s"));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn notes_end_with_the_work() {
        let (end, ended) = mpsc::channel();
        let (end, notes) = (RefCell::new(Some(end)), RefCell::new(Vec::new()));
        note_until(&ended, Duration::ZERO, Duration::ZERO, &|text| {
            notes.borrow_mut().push(text.to_owned());
            if notes.borrow().len() == 2 {
                drop(end.take());
            }
        });
        assert_eq!(notes.into_inner(), ["still working 0 s"; 2]);
    }

    #[test]
    fn all_messages_pass_while_they_are_counted() {
        let progress = WorkProgress::new(1, "opening");
        assert_eq!(progress.counting([1, 2, 3].into_iter()).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(progress.bar.position(), 3);
    }
}
