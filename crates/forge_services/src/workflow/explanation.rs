//! A fault in plain words: what is wrong and what to write instead.

use serde_saphyr::{DefaultMessageFormatter, Error, MessageFormatter};

use super::Position;
use super::foreign_keys::{instead_of, meant_instead, what_is_wrong};
use super::key_path::{KeyPath, Step};
use super::nearest::nearest;
use super::outline::Node;

/// A fault, and the way to fix it.
#[derive(Debug)]
pub(super) struct Explanation {
    /// The fault.
    pub(super) what: String,
    /// The way to fix it.
    pub(super) hint: Option<String>,
}

impl Explanation {
    /// Explains `error` at `path`, where `found` is. `first` is the first position of a repeated key.
    pub(super) fn of(error: &Error, path: &KeyPath, found: Option<&Node>, first: Option<Position>) -> Self {
        let expected = |expected: &str| Self {
            what: format!("expected {expected}, found {}", described(found)),
            hint: example(path),
        };
        match error {
            Error::SerdeUnknownField { .. } if instead_of(path).is_some() => {
                Self { what: what_is_wrong(path), hint: instead_of(path) }
            }
            Error::SerdeUnknownField { field, expected, .. } => {
                let what = format!("field `{field}`");
                match meant_instead(path).filter(|_| nearest(field, expected.iter().copied()).is_none()) {
                    Some(hint) => Self { what: format!("unknown {what}"), hint: Some(hint) },
                    None => unknown(&what, field, expected),
                }
            }
            Error::SerdeUnknownVariant { variant, expected, .. } => {
                unknown(&format!("{} `{variant}`", kind_of_value(path)), variant, expected)
            }
            Error::SerdeInvalidType { expected: words, .. }
            | Error::SerdeInvalidValue { expected: words, .. }
            | Error::SerdeInvalidLength { expected: words, .. } => expected(plain_words(words)),
            Error::InvalidScalar { ty, .. } => expected(whole_number(found).unwrap_or(plain_words(ty))),
            Error::InvalidBooleanStrict { .. } => expected(plain_words("boolean")),
            Error::Unexpected { expected: words, .. } => expected(plain_words(words)),
            Error::NullIntoString { .. } => expected("a string"),
            Error::SerdeMissingField { field, .. } => {
                let hint = path
                    .0
                    .len()
                    .gt(&1)
                    .then(|| format!("for example `{field}: {}`", value_in(path.last_key(), field)));
                Self { what: format!("`{field}` is missing"), hint }
            }
            Error::Message { msg, .. } => Self { what: msg.clone(), hint: example(path) },
            error => Self::of_yaml(error, path, first),
        }
    }

    /// Explains that the key of `path` is in its mapping already.
    pub(super) fn of_second(path: &KeyPath, first: Option<Position>) -> Self {
        Self {
            what: format!("duplicate key `{}`", path.last_key().unwrap_or_default()),
            hint: first.map(|first| format!("the first one is on line {}: keep only one", first.line)),
        }
    }

    /// Explains what is no matter of a value but of the YAML itself.
    fn of_yaml(error: &Error, path: &KeyPath, first: Option<Position>) -> Self {
        match error {
            Error::DuplicateMappingKey { .. } => Self::of_second(path, first),
            Error::MultipleDocuments { .. } => Self {
                what: "a second YAML document starts here, but a workflow is a single one".to_owned(),
                hint: Some("remove the line `---`".to_owned()),
            },
            Error::UnknownAnchor { .. } => Self {
                what: "this alias names an anchor that does not exist".to_owned(),
                hint: Some("put quotes around a text that begins with `*`".to_owned()),
            },
            Error::RecursiveReferencesRequireWeakTypes { .. } => Self {
                what: "this alias is inside the value that it names".to_owned(),
                hint: Some("write the value out here".to_owned()),
            },
            Error::ExternalMessage { msg, .. } => {
                Self { hint: way_out_of_yaml(msg).map(str::to_owned), what: msg.clone() }
            }
            error => Self { what: DefaultMessageFormatter.format_message(error).into_owned(), hint: None },
        }
    }
}

/// Returns what to do if a text is not YAML, by the parser's message for it.
fn way_out_of_yaml(message: &str) -> Option<&'static str> {
    const KNOWN: [(&str, &str); 8] = [
        ("tab", "indent with spaces, not with tabs"),
        (
            "quoted scalar, found unknown escape",
            "put single quotes around a text with a backslash, or write two",
        ),
        ("quoted scalar", "close the quotes, and indent each line of the text deeper than its key"),
        ("mapping values are not allowed", "put quotes around a text with a colon and a space in it"),
        ("unexpected character: `\\", "take that character out, or put it into double quotes as an escape"),
        ("unexpected character", "put quotes around a text that begins with such a character"),
        ("did not find expected key", "give all keys of one mapping the same indentation"),
        ("did not find expected '-'", "give all items of one list the same indentation"),
    ];
    KNOWN.iter().find(|(words, _)| message.contains(words)).map(|(_, way_out)| *way_out)
}

fn unknown(what: &str, word: &str, known: &[&'static str]) -> Explanation {
    let hint = match (nearest(word, known.iter().copied()), known) {
        (Some(meant), _) => format!("did you mean `{meant}`?"),
        (None, []) => "nothing can be set here".to_owned(),
        (None, [only]) => format!("the only valid one is `{only}`"),
        (None, known) => format!("use one of {}", known.join(", ")),
    };
    Explanation { what: format!("unknown {what}"), hint: Some(hint) }
}

/// Returns the kind of the value at `path`.
fn kind_of_value(path: &KeyPath) -> &str {
    if path.0.iter().any(|step| matches!(step, Step::Key(key) if key == "permissions")) {
        return "permission";
    }
    match path.last_key() {
        Some("strategies") => "strategy",
        Some("on") => "moment",
        Some(key) => key,
        None => "value",
    }
}

/// Rewrites the parser's words for what it expects in plain words.
fn plain_words(expected: &str) -> &str {
    match expected {
        "mapping start" => "a mapping",
        "sequence start" => "a list",
        "string scalar" | "a string" => "a string",
        "boolean" | "a boolean" => "true or false",
        "floating point" => "a number",
        "a nonzero usize" | "a nonzero u64" => "a whole number from 1",
        "u64" | "usize" | "u32" => "a whole number that is not negative",
        words => words,
    }
}

/// Returns what is expected in place of digits that are not an acceptable number.
fn whole_number(found: Option<&Node>) -> Option<&'static str> {
    let digits =
        found?.text().filter(|text| text.len() > 1 && text.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some(if digits.starts_with('0') {
        "a whole number without a `0` before it"
    } else {
        "a smaller whole number"
    })
}

fn described(found: Option<&Node>) -> String {
    match found.map(|node| (node.text(), node.entries().is_empty())) {
        Some((Some("" | "~"), _)) => "nothing".to_owned(),
        Some((Some(text), _)) => format!("`{text}`"),
        Some((None, true)) => "a list".to_owned(),
        Some((None, false)) => "a mapping".to_owned(),
        None => "something else".to_owned(),
    }
}

/// Returns a line that would be right at `path`.
fn example(path: &KeyPath) -> Option<String> {
    let (key, value) = match path.0.as_slice() {
        [] => ("agents", value_of("agents")),
        [Step::Key(parent), Step::Key(name)] => match parent.as_str() {
            "agents" => (name.as_str(), "{ model: gpt-4o }"),
            "models" => (name.as_str(), "{ window: 128000 }"),
            "mcp_servers" => (name.as_str(), "{ command: mcp-server-filesystem, args: [.] }"),
            "providers" => (name.as_str(), "{ base_url: http://localhost:8080/v1 }"),
            "variables" => return None,
            parent => (name.as_str(), value_in(Some(parent), name)),
        },
        [.., Step::Key(parent), Step::Key(key)] => (key.as_str(), value_in(Some(parent.as_str()), key)),
        _ => (path.last_key()?, value_of(path.last_key()?)),
    };
    // The fault of an id is that it is taken or differs, which no example fixes.
    let helps = !value.is_empty() && key != "id";
    let key = if key.is_empty() { "name" } else { key };
    helps.then(|| format!("for example `{key}: {value}`"))
}

/// Returns the values that errors give as examples for `key`; none for an unknown key.
pub(super) fn examples_of(key: &str) -> Vec<serde_json::Value> {
    let between = format!("` or `{key}: ");
    let examples = value_of(key).split(&between).filter(|example| !example.is_empty());
    examples.filter_map(|example| serde_saphyr::from_str(example).ok()).collect()
}

/// Returns a value that would be right for `key` of the mapping `parent`: a price has keys that mean other
/// things elsewhere.
fn value_in(parent: Option<&str>, key: &str) -> &'static str {
    match (parent, key) {
        (Some("price"), "input") => "2.5",
        (Some("price"), "output") => "10",
        (Some("permissions"), _) => "ask",
        (_, key) => value_of(key),
    }
}

/// Returns a value that would be right for `key`; empty for an unknown key.
fn value_of(key: &str) -> &'static str {
    match key {
        "agents" => "{ researcher: { model: gpt-4o } }",
        "mcp_servers" => "{ files: { command: mcp-server-filesystem, args: [.] } }",
        "args" => "[--verbose]",
        "cwd" => "sub/folder",
        "url" => "http://localhost:3001/mcp",
        "start_timeout" => "30s",
        "call_timeout" => "2m",
        "providers" => "{ local: { base_url: http://localhost:8080/v1 } }",
        "models" => "{ my-model: { provider: openai, window: 32768 } }",
        "variables" => "{ team: research }",
        "counting" => "approximate",
        "id" => "researcher",
        "description" => "finds and reads sources",
        "model" => "gpt-4o",
        "system_prompt" => "'You are {{agent.id}}.'",
        "user_prompt" => "'{{event.value}}'",
        "tools" => "[read, list]",
        "permissions" => "{ shell: { 'cargo *': allow } }",
        "tool_settings" => "{ shell: { timeout: 5m } }",
        "sandbox" => "{ network: [crates.io], write: [~/.cache/pip] }",
        "network" => "[crates.io, '*.npmjs.org']",
        "write" => "[~/.cache/pip]",
        "read" => "[~/.npmrc]",
        "processes" => "500",
        "memory" => "4G",
        "shell" | "fetch" => "{ timeout: 5m }",
        "allow_private" => "[10.0.0.0/8, intranet.example]",
        "web_search" => "{ endpoint: 'http://localhost:8888/search?q={query}&format=json' }",
        "endpoint" => "'http://localhost:8888/search?q={query}&format=json'",
        "key_header" => "X-Subscription-Token",
        "results" => "/web/results",
        "title" => "title",
        "link" => "url",
        "snippet" => "content",
        "subscribe" => "[user_task_init]",
        "max_turns" | "max_iterations" => "20",
        "max_repetitions" => "10",
        "turn_threshold" => "40",
        "temperature" => "0.7",
        "top_p" => "0.9",
        "max_output_tokens" | "max_output" => "4096",
        "max_result_tokens" => "8000",
        "compact" => "{ token_threshold: 80% }",
        "token_threshold" => "80%` or `token_threshold: 6000",
        "max_tokens" => "50%` or `max_tokens: 4000",
        "message_threshold" => "100",
        "max_messages" => "50",
        "retention_window" => "6",
        "preserve_system_messages"
        | "off"
        | "auto_compact"
        | "background"
        | "only_superseded"
        | "clear_tool_inputs"
        | "recall" => "true",
        "strategies" => "[extraction, sliding_window]",
        "keep" | "interval" | "restarts" => "3",
        "keep_first" => "2",
        "keep_last" => "8",
        "clear_at_least" => "10000",
        "exclude_tools" => "[list]",
        "selection" => "ladder",
        "min_reduction" => "20%",
        "prompt" => "'Sum up: {{#each messages}}{{text}} {{/each}}'",
        "summary_tag" => "forge_context_summary",
        "summary_max_tokens" => "2000",
        "focus" => "security findings",
        "pin" => "['(?i)never deploy']",
        "transforms" => "[{ type: user, agent_id: recall, input: asked, output: known }]",
        "type" => "user",
        "assistant" => "{ input: long, output: short, agent_id: summarizer, token_limit: 80000 }",
        "user" => "{ agent_id: recall, input: asked, output: known }",
        "pass_through" => "{ agent_id: watch, input: seen }",
        "input" => "asked",
        "output" => "known",
        "agent_id" => "recall",
        "token_limit" => "80000",
        "hooks" => "{ pre_compact: [{ command: ./check.sh, timeout: 10s }] }",
        "pre_compact" | "post_compact" | "pre_prompt" | "post_prompt" | "workflow_start" | "workflow_end"
        | "notification" => "[{ command: ./check.sh, timeout: 10s }]",
        "pre_tool_call" | "post_tool_call" | "tool_failure" => {
            "[{ command: ./check.sh, tools: [shell, 'files__*'] }]"
        }
        "if_broken" | "if_missing" => "deny",
        "command" => "./check.sh",
        "timeout" => "10s",
        "env" => "[GIT_DIR]",
        "checkpoint" => "{ interval: 3 }",
        "store" => "sqlite:///var/lib/forge/runs.db",
        "on" => "[iteration, compaction, interrupt, end]",
        "on_change" => "refuse",
        "max_age" => "30d",
        "max_size" => "500MB",
        "kind" | "provider" => "openai",
        "base_url" => "http://localhost:8080/v1",
        "api_key_env" => "LOCAL_API_KEY",
        "headers" => "{ x-team: research }",
        "retries" => "4",
        "window" => "128000",
        "price" => "{ input: 2.5, output: 10, cache_read: 1.25 }",
        "cache_read" => "1.25",
        "cache_write" => "3.75",
        "long_prompt" => "{ above: 200000, input: 5, output: 15 }",
        "above" => "200000",
        "as_of" => "2026-11-21",
        "budget" => "{ tokens: 2000000, cost: 5 }",
        "tokens" => "2000000",
        "cost" => "5",
        _ => "",
    }
}
