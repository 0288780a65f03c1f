//! The recordings, one exchange after the other.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// One exchange as the recordings hold it.
pub(crate) struct Exchange {
    pub(crate) file: String,
    /// As the index of the recordings names it: `openai.chat`.
    pub(crate) api: String,
    pub(crate) status: u16,
    pub(crate) request: String,
    pub(crate) body: String,
}

/// The folder of the recordings; where there is none, says that `what` was not read.
pub(crate) fn recordings(what: &str) -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "a test may know where the recordings are")]
    let root = std::env::var_os("FORGE_FIXTURES").map(PathBuf::from);
    if root.is_none() {
        skipped_tests::skip("FORGE_FIXTURES is not set", &format!("recorded {what}"));
    }
    root
}

/// Every exchange of `api`: those that the index names, and those of other agents and of a local server.
pub(crate) fn exchanges(root: &Path, api: &str) -> Vec<Exchange> {
    let mut exchanges = indexed(root);
    exchanges.extend(captures(&root.join("local_captures")));
    // One file of events was written by hand, and not all of its lines are JSON.
    let is_event = |line: &str| line.trim().is_empty() || serde_json::from_str::<Value>(line).is_ok();
    let is_whole =
        |exchange: &Exchange| !exchange.file.ends_with(".chunks.txt") || exchange.body.lines().all(is_event);
    exchanges.retain(|exchange| exchange.api == api && is_whole(exchange));
    exchanges
}

/// Every error that a person quoted, or a server answered, whatever its protocol.
pub(crate) fn errors(root: &Path) -> Vec<Exchange> {
    let mut exchanges = indexed(root);
    exchanges.extend(captures(&root.join("local_captures")));
    exchanges.retain(|exchange| exchange.status >= 400 && !exchange.body.is_empty());
    exchanges.extend(quoted(&root.join("issue_reports/errors.jsonl")));
    exchanges
}

#[expect(clippy::disallowed_methods, reason = "a test may read the recordings")]
fn text(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

fn indexed(root: &Path) -> Vec<Exchange> {
    let mut exchanges = Vec::new();
    for line in text(&root.join("index.jsonl")).lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        let file = entry["file"].as_str().unwrap().to_owned();
        // The index has a name for what is asked most; the rest is known by its address.
        let api = match entry["url"].as_str() {
            Some(url) if url.contains("enerateContent") => "gemini".to_owned(),
            _ => entry["api"].as_str().unwrap().to_owned(),
        };
        let text = text(&root.join(&file));
        let status = entry["status"].as_u64().map_or(200, |status| status as u16);
        if !file.ends_with(".yaml") && !file.ends_with(".yml") {
            exchanges.push(Exchange { file, api, status, request: String::new(), body: text });
            continue;
        }
        let (request, body) = cassette(&text, entry["n"].as_u64().unwrap())
            .unwrap_or_else(|| panic!("{file}: a tape that cannot be read"));
        exchanges.push(Exchange { file, api, status, request, body });
    }
    exchanges
}

#[expect(clippy::disallowed_methods, reason = "a test may read the recordings")]
fn captures(folder: &Path) -> Vec<Exchange> {
    let files =
        |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut captures = Vec::new();
    for path in files(folder).chain(files(&folder.join("llama-server"))).filter(|path| path.is_file()) {
        let file = path.display().to_string();
        for line in text(&path).lines() {
            let exchange: Value = serde_json::from_str(line).unwrap();
            let api = match exchange["path"].as_str().unwrap_or_default() {
                "/v1/chat/completions" => "openai.chat",
                "/v1/responses" => "openai.responses",
                "/v1/messages" => "anthropic.messages",
                "/api/chat" => "ollama.chat",
                _ => continue,
            };
            captures.push(Exchange {
                file: file.clone(),
                api: api.to_owned(),
                status: exchange["status"].as_u64().map_or(200, |status| status as u16),
                request: exchange.get("request").unwrap_or(&exchange["body"]).to_string(),
                body: exchange["response"].as_str().unwrap_or_default().to_owned(),
            });
        }
    }
    captures
}

fn quoted(path: &Path) -> Vec<Exchange> {
    let lines = text(path);
    let reports = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    reports
        .filter(|report| !report["body"].is_null())
        .map(|report| Exchange {
            file: report["source"].as_str().unwrap().to_owned(),
            api: report["api"].as_str().unwrap().to_owned(),
            status: report["status"].as_u64().unwrap() as u16,
            request: String::new(),
            // A whole stream is quoted as the text it is.
            body: report["body"].as_str().map_or_else(|| report["body"].to_string(), str::to_owned),
        })
        .collect()
}

/// Request and response body of the `n`-th exchange on a cassette.
fn cassette(yaml: &str, n: u64) -> Option<(String, String)> {
    // Bytes are kept as the text of their base64, and told by it.
    let yaml = yaml.replace("!!binary |", "|").replace("!binary |", "|");
    let tape: Value = serde_saphyr::from_str(&yaml).ok()?;
    let exchange =
        tape.get("interactions").or_else(|| tape.get("http_interactions"))?.get(usize::try_from(n).ok()?)?;
    Some((body(&exchange["request"])?, body(&exchange["response"])?))
}

fn body(message: &Value) -> Option<String> {
    if let Some(parsed) = message.get("parsed_body") {
        return Some(parsed.to_string());
    }
    match &message["body"] {
        Value::String(text) => Some(text.clone()),
        Value::Null => Some(String::new()),
        body => Some(plain(body.get("string").or_else(|| body.get("base64_string"))?.as_str()?)),
    }
}

/// A text as it is, and bytes as the text that they are, unpacked.
fn plain(text: &str) -> String {
    // Neither JSON nor events can do without quotes or colons.
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || c.is_whitespace() || matches!(c, '+' | '/' | '=');
    if text.trim().is_empty() || !text.chars().all(is_base64) {
        return text.to_owned();
    }
    let bytes = base64(text);
    let mut unpacked = String::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut unpacked).unwrap();
        return unpacked;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn base64(text: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut bits, mut n_bits) = (0_u32, 0);
    for value in text.bytes().filter_map(|byte| LETTERS.iter().position(|letter| *letter == byte)) {
        bits = (bits << 6) | value as u32;
        n_bits += 6;
        if n_bits >= 8 {
            n_bits -= 8;
            bytes.push((bits >> n_bits) as u8);
        }
    }
    bytes
}
