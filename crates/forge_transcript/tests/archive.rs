//! Archives of Inspect: read as the log that they hold, whichever way they are packed.

#![expect(clippy::unwrap_used, reason = "a test panics on what must not happen")]

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use forge_domain::{Body, Message};
use forge_transcript::{Draft, Format, read};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

/// A way to pack an entry, by its number in the format of ZIP.
#[derive(Clone, Copy)]
enum Method {
    Stored = 0,
    Deflated = 8,
    Zstd = 93,
}

/// Makes a ZIP archive of entries, all packed by `method`.
fn archive(method: Method, entries: &[(&str, String)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut directory = Vec::new();
    for (name, text) in entries {
        let packed = match method {
            Method::Stored => text.clone().into_bytes(),
            Method::Zstd => zstd::encode_all(text.as_bytes(), 3).unwrap(),
            Method::Deflated => {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(text.as_bytes()).unwrap();
                encoder.finish().unwrap()
            }
        };
        let mut crc = flate2::Crc::new();
        crc.update(text.as_bytes());
        let mut facts = Vec::new();
        for number in [20u16, 0, method as u16, 0, 0x21] {
            facts.extend(number.to_le_bytes());
        }
        for number in [crc.sum(), packed.len() as u32, text.len() as u32] {
            facts.extend(number.to_le_bytes());
        }
        facts.extend((name.len() as u16).to_le_bytes());
        let start = bytes.len() as u32;
        bytes.extend(b"PK\x03\x04");
        bytes.extend(&facts);
        bytes.extend([0; 2]);
        bytes.extend(name.as_bytes());
        bytes.extend(packed);
        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(&facts);
        directory.extend([0; 12]);
        directory.extend(start.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (start, n_entries) = (bytes.len() as u32, entries.len() as u16);
    bytes.extend(&directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend([n_entries.to_le_bytes(), n_entries.to_le_bytes()].concat());
    bytes.extend((directory.len() as u32).to_le_bytes());
    bytes.extend(start.to_le_bytes());
    bytes.extend([0; 2]);
    bytes
}

fn said(role: &str, text: &str) -> Value {
    json!({"id": text, "role": role, "content": text})
}

fn one_piece(id: u64, text: &str) -> (String, String) {
    let call = json!({"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": "ls", "arguments": {"at": "."}}]});
    let result = json!({"role": "tool", "tool_call_id": "c", "content": "attachment://0a0b"});
    let sample = json!({"id": id, "epoch": 1, "messages": [said("user", text), call, result],
        "events": [{"event": "model"}], "attachments": {"0a0b": "a.rs \u{2028} b.rs"}});
    (format!("samples/{id}_epoch_1.json"), sample.to_string())
}

/// Returns the messages of each session: its name, and the texts with the ids of calls.
fn short(bytes: &[u8]) -> Vec<String> {
    let sessions = read(bytes, "log.eval").unwrap();
    let text = |message: &Message| match &message.body {
        Body::Assistant { calls, .. } => format!("{}{}", message.to_text(), calls.len()),
        _ => message.to_text(),
    };
    let of = |session: &forge_transcript::Session| {
        assert_eq!(session.format, Format::named("inspect").unwrap());
        let texts: Vec<String> = Draft::messages_of(session).iter().map(text).collect();
        format!("{}: {}", session.id, texts.join(" | "))
    };
    sessions.iter().map(of).collect()
}

#[test]
fn an_archive_is_read_as_its_log() {
    let (first, second) = (one_piece(1, "Find it."), one_piece(2, "Again."));
    for method in [Method::Stored, Method::Deflated, Method::Zstd] {
        let bytes = archive(
            method,
            &[
                ("_journal/start.json", "{}".to_owned()),
                (&first.0, first.1.clone()),
                (&second.0, second.1.clone()),
                ("header.json", "{\"version\":2}".to_owned()),
            ],
        );
        let expected =
            ["1.epoch1: Find it. | 1 | a.rs \u{2028} b.rs", "2.epoch1: Again. | 1 | a.rs \u{2028} b.rs"];
        assert_eq!(short(&bytes), expected);
        // Nothing changed: the archive itself.
        let sessions = read(&bytes, "log.eval").unwrap();
        let draft = Draft::open(&sessions[1], 1);
        assert_eq!(draft.rewrite(&bytes, &[], draft.format()).unwrap(), bytes);
    }
}

/// A large sample is a folder of pieces: its conversation is named by ranges of the messages of all calls.
#[test]
fn a_sample_in_pieces_is_put_together() {
    let shell = json!({"id": "big", "epoch": 2, "message_refs": [[0, 1], [2, 4]]});
    let folder = "samples/big_epoch_2";
    let bytes = archive(
        Method::Zstd,
        &[
            ("header.json", "{\"version\":3}".to_owned()),
            (&format!("{folder}/sample.json"), shell.to_string()),
            (
                &format!("{folder}/messages/2.json"),
                json!([said("user", "attachment://1"), said("assistant", "Done.")]).to_string(),
            ),
            (
                &format!("{folder}/messages/0.json"),
                json!([said("user", "attachment://0"), said("assistant", "Elsewhere.")]).to_string(),
            ),
            (&format!("{folder}/attachments/0.json"), json!(["One."]).to_string()),
            (&format!("{folder}/attachments/1.json"), json!(["Two."]).to_string()),
        ],
    );
    assert_eq!(short(&bytes), ["big.epoch2: One. | Two. | Done.0"]);
}

#[test]
fn an_archive_that_is_no_log_is_refused_by_name() {
    let other = archive(Method::Deflated, &[("word/document.xml", "<x/>".to_owned())]);
    let log = archive(Method::Deflated, &[("header.json", "{}".to_owned())]);
    let broken = archive(
        Method::Deflated,
        &[("header.json", "{}".to_owned()), ("samples/1_epoch_1.json", "{".into())],
    );
    for (bytes, expected) in [
        (
            other.as_slice(),
            "f looks like a ZIP archive that is not a log of Inspect, which Forge does not read\n  help: unpack it first",
        ),
        (&log[..log.len() - 8], "f cannot be unpacked: "),
        (&broken, "f was recognized as"),
    ] {
        match read(bytes, "f") {
            Ok(sessions) => assert!(sessions.iter().all(|session| session.messages().count() == 0)),
            Err(error) => assert!(error.to_string().starts_with(expected), "{error}"),
        }
    }
}

#[test]
fn a_log_is_read_with_its_attachments() {
    let image = "data:image/png;base64,AAAA";
    let looked = json!({"role": "user", "content": [{"type": "text", "text": "What is it?"},
        {"type": "image", "image": "attachment://0a"}, {"type": "image", "image": "attachment://none"}]});
    let sample = json!({"id": 7, "epoch": 1, "messages": [looked, said("assistant", "attachment://0b"), said("user", "ok")],
        "attachments": {"0a": image, "0b": "attachment://0a"}});
    let log = json!({"version": 2, "eval": {}, "samples": [sample]}).to_string();
    let session = read(log.as_bytes(), "log.json").unwrap().remove(0);
    let texts: Vec<String> =
        Draft::messages_of(&session).iter().map(|said| json!(said).to_string()).collect();
    assert_eq!(texts.len(), 3);
    assert!(texts[0].contains(image) && texts[0].contains("attachment://none"), "{}", texts[0]);
    assert!(texts[1].contains("attachment://0a"), "an attachment is no reference: {}", texts[1]);
}
