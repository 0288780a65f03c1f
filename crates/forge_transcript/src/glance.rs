//! A glance at a session: what the beginning and the end of its file tell, without reading the rest.

use forge_domain::Message;
use serde_json::Value;

use crate::json_text::parse;
use crate::{Format, read};

/// The most characters of a title.
const MOST_OF_A_TITLE: usize = 200;

/// The facts that the beginning and the end of a session's file tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Glance {
    /// The format; `None` if it was not recognized.
    pub format: Option<Format>,
    /// The beginning of the first text of the person, in one line.
    pub title: Option<String>,
    /// The folder in which the agent worked.
    pub folder: Option<String>,
    /// The tokens of the context as its provider reported them last.
    pub tokens: Option<u64>,
}

/// Places of the folder in a record, of all formats.
const FOLDERS: [&str; 7] = [
    "/cwd",
    "/payload/cwd",
    "/data/context/cwd",
    "/working_dir",
    "/directories/0",
    "/info/directory",
    "/workspace/working_dir",
];

/// The places in a record that add up to the tokens of the context, by format.
const TOKENS: [(&str, &[&str]); 6] = [
    (
        "claude-code",
        &[
            "/message/usage/input_tokens",
            "/message/usage/cache_creation_input_tokens",
            "/message/usage/cache_read_input_tokens",
            "/message/usage/output_tokens",
        ],
    ),
    ("codex", &["/payload/info/last_token_usage/total_tokens"]),
    ("pi", &["/message/usage/totalTokens"]),
    // Its older versions recorded no total.
    (
        "pi",
        &[
            "/message/usage/input",
            "/message/usage/output",
            "/message/usage/cacheRead",
            "/message/usage/cacheWrite",
        ],
    ),
    ("gemini-cli", &["/tokens/total"]),
    ("goose", &["/total_tokens"]),
];

/// The key and the value by which a record of a compaction is known, by format.
const COMPACTIONS: [(&str, &str, &str); 5] = [
    ("claude-code", "subtype", "compact_boundary"),
    ("codex", "type", "compacted"),
    ("pi", "type", "compaction"),
    ("copilot", "type", "session.compaction_complete"),
    ("openhands-events", "kind", "Condensation"),
];

/// Looks at the beginning and the end of the file `origin`, complete lines each. If the beginning is the
/// whole file, the end is empty.
pub fn glance(head: &[u8], tail: &[u8], origin: &str) -> Glance {
    let mut glance = Glance::default();
    // A file of several sessions is known by the last one.
    if let Some(session) = read(head, origin).ok().and_then(|mut sessions| sessions.pop()) {
        glance.format = Some(session.format);
        glance.title = session.messages().find(Message::starts_turn).and_then(|said| title(&said.to_text()));
    }
    glance.folder = folder_in(head).path;
    let head = String::from_utf8_lossy(head);
    let end = if tail.is_empty() { head } else { String::from_utf8_lossy(tail) };
    glance.tokens = glance.format.and_then(|format| tokens(format, &end));
    glance
}

/// The folder in which an agent worked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folder {
    /// Its path.
    pub path: Option<String>,
    /// The SHA-256 of its path in hexadecimal digits, if the file has only that.
    pub hash: Option<String>,
}

/// Returns the folder that the beginning of a session's file names.
pub fn folder_in(head: &[u8]) -> Folder {
    let head = String::from_utf8_lossy(head);
    let document = head.trim_start().starts_with('{').then(|| parse::<Value>(&head).ok()).flatten();
    let records =
        document.into_iter().chain(head.lines().take(MOST_LINES).filter_map(|line| parse(line).ok()));
    let mut folder = Folder::default();
    for record in records {
        let text = |place: &&str| record.pointer(place)?.as_str().filter(|text| !text.is_empty());
        if let Some(path) = FOLDERS.iter().find_map(text) {
            folder.path = Some(path.to_owned());
            break;
        }
        folder.hash = folder.hash.or_else(|| text(&"/projectHash").map(str::to_owned));
    }
    folder
}

/// The most lines in which the folder is looked for.
const MOST_LINES: usize = 60;

/// Returns the beginning of a text in one line; `None` if it is blank.
fn title(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: String = words.join(" ").chars().take(MOST_OF_A_TITLE).collect();
    (!line.is_empty()).then_some(line)
}

/// Returns the tokens that were reported last. What was reported before a compaction is about a context that
/// is no more.
fn tokens(format: Format, end: &str) -> Option<u64> {
    let of_format = TOKENS.iter().filter(|(id, _)| *id == format.id());
    let sums: Vec<&[&str]> = of_format.map(|(_, places)| *places).collect();
    if sums.is_empty() {
        return None;
    }
    let reported = |record: &Value| sums.iter().find_map(|places| sum(record, places));
    if let Ok(document) = parse::<Value>(end)
        && let Some(messages) = document.get("messages").and_then(Value::as_array)
    {
        return messages.iter().rev().find_map(reported);
    }
    for line in end.lines().rev() {
        let Ok(record) = parse::<Value>(line) else { continue };
        if is_compaction(format, &record) {
            return None;
        }
        let is_of_agent = record.get("isSidechain") == Some(&Value::Bool(true));
        if let Some(tokens) = reported(&record).filter(|_| !is_of_agent) {
            return Some(tokens);
        }
    }
    None
}

/// Adds the numbers at the places; `None` if that is nothing.
fn sum(record: &Value, places: &[&str]) -> Option<u64> {
    let tokens = places.iter().filter_map(|place| record.pointer(place)?.as_u64()).sum();
    (tokens > 0).then_some(tokens)
}

/// Counts the records of compactions in a piece of a file in `format`, complete lines each.
pub fn compactions_in(format: Format, piece: &[u8]) -> usize {
    let Some((_, _, value)) = COMPACTIONS.iter().find(|(id, ..)| *id == format.id()) else { return 0 };
    let text = String::from_utf8_lossy(piece);
    let marker = format!("\"{value}\"");
    let mut n_compactions = 0;
    let mut from = 0;
    while let Some(at) = text[from..].find(&marker) {
        let start = text[..from + at].rfind('\n').map_or(0, |start| start + 1);
        let end = text[from + at..].find('\n').map_or(text.len(), |end| from + at + end);
        n_compactions += usize::from(parse(&text[start..end]).is_ok_and(|line| is_compaction(format, &line)));
        from = end;
    }
    n_compactions
}

fn is_compaction(format: Format, record: &Value) -> bool {
    let known = COMPACTIONS.iter().find(|(id, ..)| *id == format.id());
    known.is_some_and(|(_, key, value)| record.get(key).and_then(Value::as_str) == Some(value))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const CLAUDE: &str = concat!(
        r#"{"type":"user","uuid":"1","parentUuid":null,"sessionId":"s","cwd":"/w","message":{"role":"user","content":"<system-reminder>x</system-reminder>"}}"#,
        "\n",
        r#"{"type":"user","uuid":"2","parentUuid":"1","sessionId":"s","cwd":"/w","message":{"role":"user","content":"Fix the\n  login."}}"#,
        "\n",
        r#"{"type":"assistant","uuid":"3","parentUuid":"2","sessionId":"s","message":{"role":"assistant","id":"m","content":[{"type":"text","text":"Done."}],"usage":{"input_tokens":5,"cache_read_input_tokens":100,"output_tokens":2}}}"#,
        "\n",
    );
    const BOUNDARY: &str =
        "{\"type\":\"system\",\"subtype\":\"compact_boundary\",\"uuid\":\"4\",\"sessionId\":\"s\"}\n";
    const CODEX: &str = concat!(
        r#"{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"a","cwd":"/c"}}"#,
        "\n",
        r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Hi"}]}}"#,
        "\n",
        r#"{"type":"event_msg","payload":{"type":"token_count","info":{"last_token_usage":{"total_tokens":77}}}}"#,
        "\n",
        r#"{"type":"event_msg","payload":{"type":"agent_message","message":"\"compacted\""}}"#,
        "\n",
    );

    #[test]
    fn a_glance_tells_what_a_session_is_about() {
        let compacted = format!("{CLAUDE}{BOUNDARY}");
        let gemini = r#"{"sessionId":"s","projectHash":"ab","startTime":"t","messages":[
            {"id":"1","timestamp":"t","type":"user","content":"write it"},
            {"id":"2","timestamp":"t","type":"gemini","content":"ok","tokens":{"total":9}}]}"#;
        for (text, expected) in [
            (CLAUDE, ("claude-code", Some("Fix the login."), Some("/w"), Some(107), 0)),
            (&compacted, ("claude-code", Some("Fix the login."), Some("/w"), None, 1)),
            (CODEX, ("codex", Some("Hi"), Some("/c"), Some(77), 0)),
            (gemini, ("gemini-cli", Some("write it"), None, Some(9), 0)),
        ] {
            let glance = glance(text.as_bytes(), b"", "f");
            let format = glance.format.unwrap();
            let actual = (
                format.id(),
                glance.title.as_deref(),
                glance.folder.as_deref(),
                glance.tokens,
                compactions_in(format, text.as_bytes()),
            );
            assert_eq!(actual, expected);
        }
    }

    #[test]
    fn a_session_of_an_older_pi_tells_its_tokens() {
        let usage = |usage: &str| {
            format!(
                "{{\"type\":\"session\",\"id\":\"s\",\"cwd\":\"/p\"}}\n{{\"type\":\"message\",\"message\":{{\"role\":\
                 \"assistant\",\"content\":\"ok\",\"usage\":{{{usage}}}}}}}\n"
            )
        };
        for (recorded, expected) in [
            ("\"input\":3,\"output\":5,\"cacheRead\":700,\"cacheWrite\":9", 717),
            ("\"input\":3,\"output\":5,\"cacheRead\":700,\"cacheWrite\":9,\"totalTokens\":8", 8),
        ] {
            assert_eq!(glance(usage(recorded).as_bytes(), b"", "f").tokens, Some(expected));
        }
    }

    #[test]
    fn text_that_stands_for_a_record_is_not_the_title() {
        let line = |content: &str| {
            format!("{{\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":\"{content}\"}}}}\n")
        };
        let text = line(forge_domain::compaction::NO_RECORD) + &line("Fix the login.");
        assert_eq!(glance(text.as_bytes(), b"", "f").title.as_deref(), Some("Fix the login."));
    }

    #[test]
    fn anything_may_be_looked_at() {
        for bytes in [&b""[..], b"{", b"\xff\xfe", b"[[[[", b"{\"cwd\": 1}\n{}\n"] {
            assert_eq!(glance(bytes, bytes, "f").title, None);
        }
    }
}
