//! The beginning and the end of a file, and its lines in large pieces: no file is held as a whole.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// The first bytes of a compressed file.
const PACKED: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The size of the pieces in which a file is read.
const PIECE: usize = 1 << 20;

/// The beginning and the end of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileEnds {
    /// The first bytes, unpacked; complete lines only, unless it is the whole file.
    pub head: Vec<u8>,
    /// The last bytes, complete lines only; empty if the head is the whole file, or the file is compressed.
    pub tail: Vec<u8>,
    /// True if the head is the whole file.
    pub is_whole: bool,
}

/// Reads at most `head` bytes from the beginning of the file and `tail` bytes from its end.
///
/// # Errors
/// The file's, if it cannot be read.
pub fn read_ends(path: &Path, head: usize, tail: usize) -> io::Result<FileEnds> {
    let mut file = File::open(path)?;
    let (mut begin, is_packed) = read_head(&mut file, head)?;
    let is_whole = begin.len() <= head;
    if is_whole {
        return Ok(FileEnds { head: begin, tail: Vec::new(), is_whole });
    }
    begin.truncate(head);
    // A line longer than the head stays as it was cut: it may tell something all the same.
    if let Some(end) = begin.iter().rposition(|byte| *byte == b'\n') {
        begin.truncate(end + 1);
    }
    let mut end = Vec::new();
    if !is_packed {
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(tail as u64)))?;
        file.take(tail as u64).read_to_end(&mut end)?;
        let first = end.iter().position(|byte| *byte == b'\n').map_or(end.len(), |first| first + 1);
        end.drain(..first);
    }
    Ok(FileEnds { head: begin, tail: end, is_whole })
}

/// Reads one byte more than `most`, if there are so many; returns whether the file is compressed.
fn read_head(file: &mut File, most: usize) -> io::Result<(Vec<u8>, bool)> {
    let mut begin = Vec::new();
    file.by_ref().take(PACKED.len() as u64).read_to_end(&mut begin)?;
    file.seek(SeekFrom::Start(0))?;
    let is_packed = begin == PACKED;
    begin.clear();
    let most = most as u64 + 1;
    if is_packed {
        zstd::Decoder::new(file)?.take(most).read_to_end(&mut begin)?;
    } else {
        file.take(most).read_to_end(&mut begin)?;
    }
    Ok((begin, is_packed))
}

/// Passes the file to `visit` in pieces of complete lines, unpacked, until `most` bytes were read. Returns
/// whether that was the whole file.
///
/// # Errors
/// The file's, if it cannot be read.
pub fn visit_lines(path: &Path, most: u64, visit: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let is_packed = read_head(&mut file, 0)?.1;
    file.seek(SeekFrom::Start(0))?;
    let mut reader: Box<dyn Read> =
        if is_packed { Box::new(zstd::Decoder::new(file)?) } else { Box::new(file) };
    let mut piece = Vec::with_capacity(PIECE);
    let mut n_read = 0;
    loop {
        // Nothing before this place ends a line.
        let n_known = piece.len();
        let n_bytes = reader.by_ref().take(PIECE as u64).read_to_end(&mut piece)?;
        n_read += n_bytes as u64;
        if n_bytes == 0 || n_read >= most {
            visit(&piece);
            return Ok(n_bytes == 0);
        }
        if let Some(end) = piece[n_known..].iter().rposition(|byte| *byte == b'\n') {
            visit(&piece[..=n_known + end]);
            piece.drain(..=n_known + end);
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn only_complete_lines_are_read_of_a_large_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let text = "one\ntwo\nthree\nfour\n";
        let packed = zstd::encode_all(text.as_bytes(), 3).unwrap();
        for (bytes, head, tail, expected) in [
            (text.as_bytes(), 100, 5, (text, "", true)),
            (text.as_bytes(), 9, 7, ("one\ntwo\n", "four\n", false)),
            (text.as_bytes(), 2, 100, ("on", "two\nthree\nfour\n", false)),
            (&packed, 9, 7, ("one\ntwo\n", "", false)),
            (b"", 9, 7, ("", "", true)),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let ends = read_ends(&path, head, tail).unwrap();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let (head, tail, is_whole) = expected;
            let actual = (text(&ends.head), text(&ends.tail), ends.is_whole);
            assert_eq!(actual, (head.to_owned(), tail.to_owned(), is_whole));
        }
    }

    #[test]
    fn every_line_is_visited_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let text: String = (0..300_000).map(|n| format!("line {n}\n")).collect();
        for bytes in [text.clone().into_bytes(), zstd::encode_all(text.as_bytes(), 3).unwrap()] {
            std::fs::write(&path, bytes).unwrap();
            let mut seen = Vec::new();
            let is_whole = visit_lines(&path, u64::MAX, &mut |piece| seen.extend_from_slice(piece)).unwrap();
            assert!(is_whole && seen == text.as_bytes());
        }
        let mut n_bytes = 0;
        assert!(!visit_lines(&path, 10, &mut |piece| n_bytes += piece.len()).unwrap());
        assert!(n_bytes > 0);
    }
}
