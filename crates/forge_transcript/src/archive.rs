//! Archives of Inspect (`.eval`): ZIP files that become the JSON log that Inspect itself would export. Its
//! JSON logs are read here as well if their messages refer to attachments.
//!
//! A sample is one entry, or a folder of pieces. Only its conversation and its small facts are kept: the
//! events repeat every message of every call.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Cursor, Read};

use memchr::memmem;
use serde_json::Value;
use serde_json::value::RawValue;
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use crate::TranscriptError;
use crate::codec::{most_unpacked, too_large};
use crate::fields::Fields;
use crate::foreign::{Foreign, with_way};
use crate::json_text::parse;

const NOT_INSPECT: Foreign = with_way("a ZIP archive that is not a log of Inspect", "unpack it first");
/// The fields of a sample that repeat its messages, or are put into them.
const LEFT_OUT: [&str; 6] = ["messages", "message_refs", "events", "events_data", "attachments", "store"];
/// The beginning of a text that stands for an attachment.
const REFERENCE: &str = "attachment://";

/// Checks whether a file is a ZIP archive.
pub(crate) fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06")
}

/// Returns the log in an archive as JSON.
pub(crate) fn unpack_archive(bytes: &[u8], origin: &str) -> Result<Vec<u8>, TranscriptError> {
    let packed = |source| TranscriptError::Packed { origin: origin.to_owned(), source };
    let mut archive = Archive::open(bytes).map_err(packed)?;
    let names = archive.sample_names();
    if names.is_empty() && !archive.has("header.json") && !archive.has("_journal/start.json") {
        return Err(TranscriptError::foreign(origin, NOT_INSPECT, String::new()));
    }
    let mut log = b"{\"eval\":{},\"samples\":[".to_vec();
    for (n, name) in names.iter().enumerate() {
        if n > 0 {
            log.push(b',');
        }
        archive.write_sample(name, &mut log).map_err(packed)?;
    }
    log.extend_from_slice(b"]}\n");
    Ok(log)
}

struct Archive<'b> {
    zip: ZipArchive<Cursor<&'b [u8]>>,
    /// The names of its entries.
    names: Vec<String>,
    /// The most bytes of all entries together that are read, and those of them that are left.
    most: u64,
    left: u64,
}

impl<'b> Archive<'b> {
    fn open(bytes: &'b [u8]) -> io::Result<Self> {
        let zip = ZipArchive::new(Cursor::new(bytes)).map_err(fault)?;
        let names = zip.file_names().filter_map(Result::ok).map(Cow::into_owned).collect();
        let most = most_unpacked(bytes.len());
        Ok(Self { zip, names, most, left: most })
    }

    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// Returns the names of the entries that hold a sample, or its first piece, in the order of the archive.
    fn sample_names(&self) -> Vec<String> {
        let is_sample = |name: &&String| {
            let name = name.strip_prefix("samples/").unwrap_or_default();
            match name.split_once('/') {
                None => name.ends_with(".json"),
                Some((_, piece)) => piece == "sample.json",
            }
        };
        self.names.iter().filter(is_sample).cloned().collect()
    }

    /// Returns the text of an entry.
    fn text(&mut self, name: &str) -> io::Result<String> {
        let place = self.zip.index_for_name(name).ok_or_else(|| fault(ZipError::FileNotFound))?;
        let method = self.zip.by_index_raw(place).map_err(fault)?.compression();
        let mut bytes = Vec::new();
        // Inspect packs with zstd since 2026.
        if is_zstd(method) {
            let entry = self.zip.by_index_raw(place).map_err(fault)?;
            zstd::Decoder::new(entry)?.take(self.left + 1).read_to_end(&mut bytes)?;
        } else {
            self.zip.by_index(place).map_err(fault)?.take(self.left + 1).read_to_end(&mut bytes)?;
        }
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or_else(|| too_large(self.most, "export it with `inspect log dump`"))?;
        String::from_utf8(bytes).map_err(|_| io::Error::other(format!("{name} is not text")))
    }

    /// Writes a sample as an object of the log.
    fn write_sample(&mut self, name: &str, log: &mut Vec<u8>) -> io::Result<()> {
        let text = self.text(name)?;
        let sample = Fields::of(&text);
        let messages = match name.strip_suffix("/sample.json") {
            Some(folder) => self.messages_of_pieces(folder, &sample)?,
            None => messages_with_attachments(&sample),
        };
        write_sample(&sample, &messages, log);
        Ok(())
    }

    /// Returns the messages of a sample that is a folder of pieces: it names them by their numbers.
    fn messages_of_pieces(&mut self, folder: &str, sample: &Fields<'_>) -> io::Result<Vec<String>> {
        let mut messages: Vec<String> = Vec::new();
        for piece in self.pieces(&format!("{folder}/messages/")) {
            let text = self.text(&piece)?;
            let items: Vec<&RawValue> = serde_json::from_str(&text)?;
            messages.extend(items.into_iter().map(|item| item.get().to_owned()));
        }
        let mut attachments: Vec<String> = Vec::new();
        for piece in self.pieces(&format!("{folder}/attachments/")) {
            attachments.extend(parse::<Vec<String>>(&self.text(&piece)?)?);
        }
        let attachment = |key: &str| attachments.get(key.parse::<usize>().ok()?);
        let all = vec![(0, messages.len())];
        let ranges: Vec<(usize, usize)> = match sample.get("message_refs") {
            "" => all,
            refs => serde_json::from_str(refs)?,
        };
        let named = ranges.into_iter().flat_map(|(start, end)| messages.get(start..end).unwrap_or_default());
        Ok(named.map(|message| resolved(message, &attachment)).collect())
    }

    /// Returns the names of the pieces in a folder, in the order of their numbers.
    fn pieces(&self, folder: &str) -> Vec<String> {
        let number =
            |name: &str| -> Option<usize> { name.strip_prefix(folder)?.strip_suffix(".json")?.parse().ok() };
        let mut pieces: Vec<(usize, String)> =
            self.names.iter().filter_map(|name| Some((number(name)?, name.clone()))).collect();
        pieces.sort();
        pieces.into_iter().map(|(_, name)| name).collect()
    }
}

fn is_zstd(method: CompressionMethod) -> bool {
    #[expect(deprecated, reason = "the feature that names it would link zstd twice")]
    let zstd = CompressionMethod::from_u16(93);
    method == zstd
}

fn fault(error: ZipError) -> io::Error {
    io::Error::other(error)
}

/// Returns the messages of a sample that has its attachments beside them.
fn messages_with_attachments(sample: &Fields<'_>) -> Vec<String> {
    let attachments: BTreeMap<String, String> = parse(sample.get("attachments")).unwrap_or_default();
    let messages = sample.items("messages").into_iter();
    messages.map(|message| resolved(message.get(), &|key| attachments.get(key))).collect()
}

/// Writes a sample as an object of the log.
fn write_sample(sample: &Fields<'_>, messages: &[String], log: &mut Vec<u8>) {
    log.extend_from_slice(b"{");
    for (key, value) in sample.0.iter().filter(|(key, _)| !LEFT_OUT.contains(&key.as_str())) {
        log.extend_from_slice(format!("{}:", Value::from(key.as_str())).as_bytes());
        log.extend_from_slice(value.get().as_bytes());
        log.push(b',');
    }
    log.extend_from_slice(b"\"messages\":[");
    log.extend_from_slice(messages.join(",").as_bytes());
    log.extend_from_slice(b"]}");
}

/// Returns a JSON log with the attachments of each sample in its messages; `None` if its messages refer to
/// none, or the file is not a log. Images are kept so, and long texts in some versions.
pub(crate) fn with_attachments(bytes: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.trim_start().starts_with('{'))?;
    memmem::find(bytes, REFERENCE.as_bytes())?;
    let file = Fields::of(text);
    if !file.has(&["eval"]) || !file.get("samples").contains("\"attachments\"") {
        return None;
    }
    let mut log = b"{\"eval\":{},\"samples\":[".to_vec();
    let mut is_changed = false;
    for (n, sample) in file.items("samples").into_iter().enumerate() {
        let sample = Fields::of(sample.get());
        let messages = messages_with_attachments(&sample);
        is_changed |= messages.iter().zip(sample.items("messages")).any(|(now, was)| now != was.get());
        if n > 0 {
            log.push(b',');
        }
        write_sample(&sample, &messages, &mut log);
    }
    log.extend_from_slice(b"]}\n");
    is_changed.then_some(log)
}

/// Returns a message with its attachments in place of the references to them.
fn resolved<'a>(message: &str, attachment: &dyn Fn(&str) -> Option<&'a String>) -> String {
    if !message.contains(REFERENCE) {
        return message.to_owned();
    }
    let Ok(mut value) = parse::<Value>(message) else { return message.to_owned() };
    if resolve(&mut value, attachment) { value.to_string() } else { message.to_owned() }
}

/// Puts the attachments in place of the references to them. Returns whether there was any.
fn resolve<'a>(value: &mut Value, attachment: &dyn Fn(&str) -> Option<&'a String>) -> bool {
    let mut is_changed = false;
    match value {
        Value::String(text) => {
            if let Some(whole) = text.strip_prefix(REFERENCE).and_then(attachment) {
                text.clone_from(whole);
                is_changed = true;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| is_changed |= resolve(item, attachment)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| is_changed |= resolve(field, attachment));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    is_changed
}
