//! A file as the lines that are searched: it stops in time, and no line is too long for the memory.

use std::cell::RefCell;
use std::io::{self, Read};
use std::ops::Range;

use cap_std::fs::File;

use super::Stop;

/// The longest line that is searched as a whole; one longer by a block or more is searched in pieces.
pub(super) const MAX_PIECE: usize = 256 * 1_024;

/// A reader of text that ends each line with `\n`, also where the file has `\r\n`, and leaves out the mark of
/// its encoding.
///
/// It is at its end at once if the file is binary, and fails once the call should stop.
pub(super) struct LineReader<'a> {
    file: File,
    most: u64,
    stop: &'a Stop,
    /// The offsets at which a piece of a line starts that is not its first.
    pieces: &'a RefCell<Vec<u64>>,
    block: &'a mut [u8],
    /// The part of the block that is still to be passed on.
    ready: Range<usize>,
    n_passed: u64,
    n_read: u64,
    /// The bytes of the last line so far.
    line_length: usize,
    /// True if the last block ended with a `\r`, which is not passed on yet.
    has_return: bool,
    is_binary: bool,
}

impl<'a> LineReader<'a> {
    /// Creates a reader of at most `most` bytes, a `block` at a time, which adds the starts of pieces to
    /// `pieces`.
    pub(super) const fn new(
        file: File,
        most: u64,
        stop: &'a Stop,
        block: &'a mut [u8],
        pieces: &'a RefCell<Vec<u64>>,
    ) -> Self {
        Self {
            file,
            most,
            stop,
            pieces,
            block,
            ready: 0..0,
            n_passed: 0,
            n_read: 0,
            line_length: 0,
            has_return: false,
            is_binary: false,
        }
    }

    /// Returns the number of bytes that were read.
    pub(super) const fn n_read(&self) -> u64 {
        self.n_read
    }

    /// Checks whether the file has more bytes than were to be read.
    pub(super) const fn is_cut(&self) -> bool {
        self.n_read > self.most
    }

    /// Reads the next block, and returns whether there was one.
    fn read_block(&mut self) -> io::Result<bool> {
        if self.stop.is_set() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if self.line_length >= MAX_PIECE {
            self.pieces.borrow_mut().push(self.n_passed + 1);
            self.line_length = 0;
            self.block[0] = b'\n';
            self.ready = 0..1;
            return Ok(true);
        }
        let is_first = self.n_read == 0;
        let n_held = usize::from(self.has_return);
        self.block[..n_held].fill(b'\r');
        let n = self.file.read(&mut self.block[n_held..])?;
        self.n_read += n as u64;
        let block = &mut self.block[..n_held + n];
        // The searcher asks again after the end.
        self.is_binary |= is_first && block.iter().take(8_192).any(|byte| *byte == 0);
        if block.is_empty() || self.is_binary || self.n_read > self.most {
            self.ready = 0..0;
            return Ok(false);
        }
        if n == 0 {
            // The `\r` at the end of the file ends its last line.
            block[0] = b'\n';
        }
        self.has_return = block.ends_with(b"\r");
        let mut end = block.len();
        if block.contains(&b'\r') {
            end = 0;
            for at in 0..block.len() {
                end -= usize::from(block[at] == b'\n' && block[..end].ends_with(b"\r"));
                block[end] = block[at];
                end += 1;
            }
            end -= usize::from(self.has_return);
        }
        self.ready = if is_first && block.starts_with(b"\xef\xbb\xbf") { 3..end } else { 0..end };
        let line_end = block[..end].iter().rposition(|byte| *byte == b'\n');
        self.line_length = line_end.map_or(self.line_length + end, |at| end - at - 1);
        Ok(true)
    }
}

impl Read for LineReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.ready.is_empty() {
            match self.read_block() {
                Ok(true) => {}
                Ok(false) => return Ok(0),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let n = (&self.block[self.ready.clone()]).read(buffer)?;
        self.ready.start += n;
        self.n_passed += n as u64;
        Ok(n)
    }
}
