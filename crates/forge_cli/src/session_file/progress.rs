//! The progress of reading a large file.

use std::fs::File;
use std::io::{self, IsTerminal, Read};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

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
        let is_shown = bytes >= LARGE && io::stderr().is_terminal();
        let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
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
