//! A file of recorded sessions, as its reader gets it.

use std::borrow::Cow;
use std::io::{self, BufRead, Read};

use flate2::bufread::MultiGzDecoder;
use memchr::memchr_iter;
use serde::de::IgnoredAny;
use zstd::Decoder;

use crate::arguments::object_fields;
use crate::record::Shelf;
use crate::{Format, TranscriptError};

/// A file of recorded sessions.
#[derive(Clone, Copy)]
pub(crate) struct Input<'f> {
    /// The format that it is read as.
    pub(crate) format: Format,
    pub(crate) bytes: &'f [u8],
    /// Its name.
    pub(crate) origin: &'f str,
    pub(crate) shelf: Shelf<'f>,
}

impl<'f> Input<'f> {
    /// Returns the file as text.
    pub(crate) fn text(&self) -> Result<&'f str, TranscriptError> {
        text(self.bytes, self.origin)
    }
}

/// Reads `bytes` as text. Half a character at the very end is dropped: the file was cut there, which its
/// reader notices.
pub(crate) fn text<'a>(bytes: &'a [u8], origin: &str) -> Result<&'a str, TranscriptError> {
    if UTF_16_MARKS.iter().any(|mark| bytes.starts_with(mark)) || is_unmarked_utf_16(bytes) {
        return Err(TranscriptError::Utf16 { origin: origin.to_owned() });
    }
    let bytes = without_mark(bytes);
    let binary = |byte, is_zero| TranscriptError::Binary { origin: origin.to_owned(), byte, is_zero };
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_some() => return Err(binary(error.valid_up_to(), false)),
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    };
    if text.trim_matches(|c: char| c == '\0' || c.is_whitespace()).is_empty() {
        return Err(TranscriptError::Empty { origin: origin.to_owned() });
    }
    // Markdown shows what a command printed as it was.
    let is_json = text.trim_start().starts_with(['{', '[']);
    zero_in_text(text).filter(|_| is_json).map_or(Ok(text), |byte| Err(binary(byte, true)))
}

/// Returns the error about a file of no format in which a character is zero, so that it is hardly text.
pub(crate) fn zero_error(bytes: &[u8], origin: &str) -> Option<TranscriptError> {
    let text = std::str::from_utf8(without_mark(bytes)).ok()?;
    let binary = |byte| TranscriptError::Binary { origin: origin.to_owned(), byte, is_zero: true };
    zero_in_text(text).map(binary)
}

/// Checks whether the first character is that of JSON in UTF-16.
fn is_unmarked_utf_16(bytes: &[u8]) -> bool {
    matches!(bytes, [b'{' | b'[', 0, 1..=255, ..] | [0, b'{' | b'[', ..])
}

/// Finds a zero that text has no use for: JSON escapes it. A power cut leaves zeros at the end of a file, and
/// its agent may go on after them: at the end of a line they are part of an invalid line.
fn zero_in_text(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    memchr_iter(0, bytes).find(|byte| !matches!(bytes.get(byte + 1), None | Some(b'\0' | b'\n' | b'\r')))
}

/// Returns a file of lines as text, with each line that is not text as one that is not JSON, so that it is
/// counted as invalid and the others are read. `None` if all of it is text, or if it is not a file of lines.
pub(crate) fn readable_lines(bytes: &[u8]) -> Option<String> {
    if !matches!(text(bytes, ""), Err(TranscriptError::Binary { .. })) || !has_lines(bytes) {
        return None;
    }
    let mut readable = String::with_capacity(bytes.len());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        readable.push_str(&readable_line(line));
    }
    Some(readable)
}

/// The most lines that a program prints before a session.
const MOST_LINES_ABOVE: usize = 5;

/// Returns the JSON object in a file below lines for people, such as the one that `opencode export` prints
/// before the session; `None` if there is no such line, or if the rest is not one object.
pub(crate) fn document_below(bytes: &[u8]) -> Option<&[u8]> {
    let text = text(bytes, "").ok()?;
    let mut above = 0;
    for line in text.split_inclusive('\n').take(MOST_LINES_ABOVE + 1) {
        if line.starts_with(['{', '[']) {
            let is_below = line.starts_with('{') && !text[..above].trim().is_empty();
            let document = Some(&text[above..]).filter(|_| is_below);
            return document.filter(|document| object_fields(document).is_ok()).map(str::as_bytes);
        }
        above += line.len();
    }
    None
}

/// Checks whether a file has JSON objects in lines, by its first line that is text and begins like one.
pub(crate) fn has_lines(bytes: &[u8]) -> bool {
    let bytes = without_mark(bytes).trim_ascii_start();
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').filter_map(|line| match readable_line(line) {
        Cow::Borrowed(line) => Some(line.trim_start()),
        Cow::Owned(_) => None,
    });
    let mut objects = lines.filter(|line| line.starts_with('{'));
    bytes.starts_with(b"{") && objects.next().is_some_and(begins_with_value)
}

fn begins_with_value(line: &str) -> bool {
    serde_json::Deserializer::from_str(line)
        .into_iter::<IgnoredAny>()
        .next()
        .is_some_and(|value| value.is_ok())
}

/// Returns a line as text. One that is not text is cut off where that begins, and a mark keeps the rest from
/// being a whole record: a process that was killed leaves half a character, and its agent appends after it.
pub(crate) fn readable_line(line: &[u8]) -> Cow<'_, str> {
    let (text, is_text) = match std::str::from_utf8(line) {
        Ok(text) => (text, true),
        // Half a character at the very end is only cut off.
        Err(error) => {
            let text = std::str::from_utf8(&line[..error.valid_up_to()]).unwrap_or_default();
            (text, error.error_len().is_none())
        }
    };
    if is_text && zero_in_text(text).is_none() {
        return Cow::Borrowed(text);
    }
    let text = text.split('\0').next().unwrap_or_default();
    let end = if line.ends_with(b"\n") { "\n" } else { "" };
    Cow::Owned(format!("{text}{}{end}", char::REPLACEMENT_CHARACTER))
}

/// Checks whether a file is compressed: by zstd, as agents do with old sessions, or by gzip, as people do.
pub(crate) fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x28\xb5\x2f\xfd") || is_of_gzip(bytes)
}

fn is_of_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x1f\x8b\x08")
}

/// Returns a reader of what the compressed file holds that `reader` reads.
pub(crate) fn unpacked<'r>(mut reader: impl BufRead + 'r) -> io::Result<Box<dyn Read + 'r>> {
    let is_of_gzip = is_of_gzip(reader.fill_buf()?);
    let unpacked: Box<dyn Read + 'r> = if is_of_gzip {
        Box::new(MultiGzDecoder::new(reader))
    } else {
        Box::new(Decoder::with_buffer(reader)?)
    };
    Ok(unpacked)
}

/// The byte order marks of UTF-16.
const UTF_16_MARKS: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

/// The size up to which any file is unpacked. A few packed bytes can stand for more than the memory holds.
const ALWAYS_UNPACKED: u64 = 512 << 20;
/// The number of times its own size up to which a larger file is unpacked: sessions are hardly packed to less
/// than a hundredth.
const MOST_TIMES: u64 = 200;
/// The most bytes that any file is unpacked to.
const MOST_UNPACKED: u64 = 8 << 30;

/// Returns the most bytes to which a file of `packed` bytes is unpacked.
pub(crate) fn most_unpacked(packed: usize) -> u64 {
    (packed as u64).saturating_mul(MOST_TIMES).clamp(ALWAYS_UNPACKED, MOST_UNPACKED)
}

/// Returns the error about a file that holds more than `most` bytes, with a way to read it all the same.
pub(crate) fn too_large(most: u64, way: &str) -> io::Error {
    let most = most >> 20;
    let what =
        format!("it holds more than {most} MiB, which no session of its size does; if it is one, {way}");
    io::Error::new(io::ErrorKind::FileTooLarge, what)
}

/// Returns `bytes` unpacked. What was packed before the file was cut off is there.
pub(crate) fn unpack(bytes: &[u8], origin: &str) -> Result<Vec<u8>, TranscriptError> {
    unpack_at_most(most_unpacked(bytes.len()), bytes, origin)
}

fn unpack_at_most(most: u64, bytes: &[u8], origin: &str) -> Result<Vec<u8>, TranscriptError> {
    const WAY: &str = "unpack it with `gunzip` or `unzstd` and name the unpacked file";
    let fault = |source| TranscriptError::Packed { origin: origin.to_owned(), source };
    let mut whole = Vec::new();
    let read = unpacked(bytes).and_then(|reader| reader.take(most + 1).read_to_end(&mut whole));
    match read {
        Err(source) if whole.is_empty() => Err(fault(source)),
        _ if whole.len() as u64 > most => Err(fault(too_large(most, WAY))),
        _ => Ok(whole),
    }
}

/// Returns `bytes` without a byte order mark.
fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// Returns the last part of a path.
pub(crate) fn file_name(origin: &str) -> &str {
    origin.rsplit(['/', '\\']).next().unwrap_or(origin)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_document_is_found_below_a_few_lines_for_people() {
        for (text, expected) in [
            ("Exporting session: ses_1\n{\n \"a\": 1\n}\n", Some("{\n \"a\": 1\n}\n")),
            ("1\n2\n\n4\n5\n{}", Some("{}")),
            ("1\n2\n3\n4\n5\n6\n{}", None),
            ("{\"a\": 1}", None),
            ("\n{\"a\": 1}", None),
            ("Exporting\n[{}]\n{}", None),
            ("Exporting\n{\"a\": 1} and more", None),
            ("# Notes\n\nNone.", None),
        ] {
            assert_eq!(document_below(text.as_bytes()), expected.map(str::as_bytes), "{text}");
        }
    }

    #[test]
    fn a_small_file_is_not_unpacked_to_all_of_the_memory() {
        for (packed, expected) in
            [(0, 512 << 20), (4 << 20, 800 << 20), (100 << 20, 8 << 30), (usize::MAX, 8 << 30)]
        {
            assert_eq!(most_unpacked(packed), expected, "{packed}");
        }
        let blanks = vec![b' '; 3 << 20];
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&blanks).unwrap();
        for packed in [gzip.finish().unwrap(), zstd::encode_all(blanks.as_slice(), 3).unwrap()] {
            let error = unpack_at_most(2 << 20, &packed, "f").unwrap_err().to_string();
            assert_eq!(
                error,
                "f cannot be unpacked: it holds more than 2 MiB, which no session of its size does; if it is one, \
                unpack it with `gunzip` or `unzstd` and name the unpacked file"
            );
            assert_eq!(unpack_at_most(3 << 20, &packed, "f").unwrap(), blanks);
        }
    }
}
