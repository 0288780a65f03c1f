//! Messages in turns as the strictest chat templates take them.
//!
//! Servers of open models (vLLM, llama.cpp, SGLang and others) render a prompt by the model's own chat
//! template, and many templates raise on what OpenAI's servers accept: two messages of one role in a row,
//! more than one system message, a system message in mid-conversation, a list of parts instead of text, or a
//! user message right after tool results. A run would end there. So the messages are sent as a pure function
//! of themselves that keeps every text: equal messages give equal bytes.

use forge_domain::is_image;
use serde_json::{Map, Value, json};

/// The separator between two texts that are sent as one.
const BETWEEN: &str = "\n\n";
/// The assistant's text between tool results and a user message, for templates that demand one. They refuse
/// an empty text there.
pub(crate) const PAUSE: &str = "...";

/// Merges adjacent entries of one role: system, user, and assistant messages that are not preceded by a tool
/// call. Texts are joined by an empty line; media and foreign keys stay unchanged. Entries stay separate if
/// one of their keys cannot be joined, such as two different `name`s.
pub(crate) fn merge_neighbours(entries: Vec<Value>) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::with_capacity(entries.len());
    for entry in entries {
        match merged.last_mut().and_then(|last| join_entries(last, &entry)) {
            Some(both) => {
                merged.pop();
                merged.push(both);
            }
            None => merged.push(entry),
        }
    }
    merged
}

/// Returns the entries of an OpenAI request in the form that the templates of `model` accept: adjacent ones
/// merged, contents of text alone as one text. For every model that is not OpenAI's own, a system message in
/// mid-conversation becomes the user's, between tags. If the model's family is known to refuse a user message
/// right after results, an assistant message is inserted.
pub(crate) fn strict_turns(entries: Vec<Value>, model: &str) -> Vec<Value> {
    let is_openais = is_openais(model);
    let mut is_leading = true;
    let mut turns: Vec<Value> = Vec::with_capacity(entries.len());
    for entry in with_images_apart(entries) {
        let mut entry = with_plain_text(entry);
        is_leading &= is_system(&entry);
        if is_system(&entry) && !is_leading && !is_openais {
            said_by_user(&mut entry);
        }
        turns.push(entry);
    }
    let turns = merge_neighbours(turns);
    if pauses_after_results(model) { with_pauses(turns) } else { turns }
}

/// Returns the entries with a pause of the assistant between results and a user message.
pub(crate) fn with_pauses(turns: Vec<Value>) -> Vec<Value> {
    let mut paused: Vec<Value> = Vec::with_capacity(turns.len());
    for entry in turns {
        if role(&entry) == "user" && paused.last().is_some_and(|last| role(last) == "tool") {
            paused.push(pause());
        }
        paused.push(entry);
    }
    paused
}

/// Returns the entries with each call in a message of its own, before its result. What else a message has
/// stays with its first call.
pub(crate) fn one_call_each(entries: Vec<Value>) -> Vec<Value> {
    let mut apart = Vec::with_capacity(entries.len());
    let mut entries = entries.into_iter().peekable();
    while let Some(mut entry) = entries.next() {
        let calls = match entry.get_mut("tool_calls") {
            Some(Value::Array(calls)) if calls.len() > 1 => std::mem::take(calls),
            _ => {
                apart.push(entry);
                continue;
            }
        };
        let mut results: Vec<Value> = Vec::new();
        while let Some(result) = entries.next_if(|next| role(next) == "tool") {
            results.push(result);
        }
        for call in calls {
            let of_call = |result: &Value| result.get("tool_call_id") == call.get("id");
            let result = results.iter().position(of_call).map(|at| results.remove(at));
            let mut calling = std::mem::replace(&mut entry, json!({"role": "assistant", "content": null}));
            calling["tool_calls"] = json!([call]);
            apart.push(calling);
            apart.extend(result);
        }
        apart.extend(results);
    }
    apart
}

/// The words before the images of results.
const SHOWN_BY_TOOLS: &str = "The images of the results above:";

/// Checks whether the entry is a tool's result with an image.
pub(crate) fn shows_images(entry: &Value) -> bool {
    let parts = entry.get("content").and_then(Value::as_array);
    role(entry) == "tool" && parts.is_some_and(|parts| parts.iter().any(is_image))
}

/// Returns the entries with the images of results in a user message after the results: the protocol has only
/// texts in results.
fn with_images_apart(entries: Vec<Value>) -> Vec<Value> {
    if !entries.iter().any(shows_images) {
        return entries;
    }
    let mut apart = Vec::with_capacity(entries.len() + 1);
    let mut images: Vec<Value> = Vec::new();
    for mut entry in entries {
        if role(&entry) == "tool" {
            if let Some(Value::Array(parts)) = entry.get_mut("content") {
                images.extend(parts.extract_if(.., |part| is_image(part)));
            }
        } else if !images.is_empty() {
            apart.push(images_entry(std::mem::take(&mut images)));
        }
        apart.push(entry);
    }
    if !images.is_empty() {
        apart.push(images_entry(images));
    }
    apart
}

fn images_entry(images: Vec<Value>) -> Value {
    let parts: Vec<Value> = [text_part(SHOWN_BY_TOOLS)].into_iter().chain(images).collect();
    json!({"role": "user", "content": parts})
}

/// Returns the violations of strict templates' rules in the `entries` of an OpenAI request, in words. After
/// at most one system message the user opens; user and assistant alternate; results directly follow the
/// calls, and only the assistant speaks after them.
pub fn strict_turn_faults(entries: &[Value]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut before = "";
    for (position, entry) in entries.iter().enumerate() {
        let (role, calls) = (role(entry), has_calls(entry));
        let is_allowed = matches!(
            (before, role),
            ("", "system" | "developer")
                | ("" | "system" | "developer" | "assistant", "user")
                | ("user" | "tool", "assistant")
                | ("calls" | "tool", "tool")
        );
        if !is_allowed {
            let after =
                if before.is_empty() { "at the beginning".to_owned() } else { format!("after {before}") };
            faults.push(format!("message {position}: {role} {after}"));
        }
        before = if role == "assistant" && calls { "calls" } else { role };
    }
    faults
}

/// Checks whether templates of `model`'s family are known to raise on a user message right after tool
/// results.
pub fn pauses_after_results(model: &str) -> bool {
    const FAMILIES: [&str; 9] = [
        "mistral",
        "mixtral",
        "ministral",
        "codestral",
        "devstral",
        "magistral",
        "pixtral",
        "nemotron",
        "cohere",
    ];
    const WORDS: [&str; 2] = ["aya", "command"];
    let model = model.to_lowercase();
    let mut words = model.split(|c: char| !c.is_ascii_alphanumeric());
    FAMILIES.iter().any(|family| model.contains(family)) || words.any(|word| WORDS.contains(&word))
}

/// Checks whether `model` is served by OpenAI itself, which accepts system messages anywhere.
pub(crate) fn is_openais(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let is_numbered = || {
        let digits = name.strip_prefix('o').unwrap_or_default();
        digits.starts_with(|c: char| c.is_ascii_digit())
    };
    ["gpt-", "chatgpt-", "codex-"].iter().any(|family| name.starts_with(family)) || is_numbered()
}

pub(crate) fn role(entry: &Value) -> &str {
    entry.get("role").and_then(Value::as_str).unwrap_or_default()
}

fn is_system(entry: &Value) -> bool {
    matches!(role(entry), "system" | "developer")
}

pub(crate) fn has_calls(entry: &Value) -> bool {
    let is_some = |key: &str| match entry.get(key) {
        None | Some(Value::Null) => false,
        Some(Value::Array(calls)) => !calls.is_empty(),
        Some(_) => true,
    };
    is_some("tool_calls") || is_some("function_call")
}

/// Returns the entry with one text for a content of text parts alone, as servers join them for templates that
/// take no list.
pub(crate) fn with_plain_text(mut entry: Value) -> Value {
    let Some(Value::Array(parts)) = entry.get("content") else { return entry };
    let texts: Option<Vec<&str>> = parts.iter().map(plain_text).collect();
    if let Some(texts) = texts {
        entry["content"] = json!(texts.join("\n"));
    }
    entry
}

/// Returns the text of a part that is nothing else: a cache mark, for example, has to stay with its part.
fn plain_text(part: &Value) -> Option<&str> {
    let fields = part.as_object()?;
    let is_text = fields.len() == 2 && fields.get("type").and_then(Value::as_str) == Some("text");
    fields.get("text").and_then(Value::as_str).filter(|_| is_text)
}

/// Returns the entry of an assistant that pauses between tool results and a user message.
pub(crate) fn pause() -> Value {
    json!({"role": "assistant", "content": PAUSE})
}

/// Turns a system message into a user message that names its author.
pub(crate) fn said_by_user(entry: &mut Value) {
    entry["role"] = json!("user");
    match entry.get_mut("content") {
        Some(Value::Array(parts)) => {
            parts.insert(0, text_part("<system>"));
            parts.push(text_part("</system>"));
        }
        Some(Value::String(text)) if !text.trim().is_empty() => {
            *text = format!("<system>\n{text}\n</system>");
        }
        Some(_) | None => {}
    }
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Joins two entries; returns `None` if their roles differ, or if something would be lost.
fn join_entries(last: &Value, next: &Value) -> Option<Value> {
    let is_one_role =
        role(last) == role(next) && matches!(role(last), "system" | "developer" | "user" | "assistant");
    if !is_one_role || has_calls(last) {
        return None;
    }
    let (last, next) = (last.as_object()?, next.as_object()?);
    if last.get("name") != next.get("name") {
        return None;
    }
    let mut both = Map::new();
    let later = next.iter().filter(|(key, _)| !last.contains_key(*key));
    for (key, value) in last.iter().chain(later) {
        let joined = match (key.as_str(), last.get(key), next.get(key)) {
            ("content", one, other) => join_contents(one, other),
            (_, Some(one), Some(other)) => join_values(one, other)?,
            _ => value.clone(),
        };
        both.insert(key.clone(), joined);
    }
    Some(Value::Object(both))
}

/// Joins two values of a key that both messages have: equal values, texts and lists can be joined.
fn join_values(one: &Value, other: &Value) -> Option<Value> {
    match (one, other) {
        (one, other) if one == other && !one.is_array() => Some(one.clone()),
        (Value::Null, value) | (value, Value::Null) => Some(value.clone()),
        (Value::String(one), Value::String(other)) => Some(json!(join_texts(one, other))),
        (Value::Array(one), Value::Array(other)) => Some(one.iter().chain(other).cloned().collect()),
        _ => None,
    }
}

fn join_contents(one: Option<&Value>, other: Option<&Value>) -> Value {
    match (one, other) {
        (None | Some(Value::Null), value) | (value, None | Some(Value::Null)) => {
            value.cloned().unwrap_or_default()
        }
        (Some(Value::String(one)), Some(Value::String(other))) => json!(join_texts(one, other)),
        (Some(one), Some(other)) => {
            let mut parts = parts_of(one);
            let mut more = parts_of(other).into_iter().peekable();
            // Some templates write parts without anything between them.
            let ends = parts.last().and_then(plain_text);
            if let (Some(end), Some(begin)) = (ends, more.peek().and_then(plain_text)) {
                let text = text_part(&join_texts(end, begin));
                more.next();
                parts.pop();
                parts.push(text);
            }
            parts.extend(more);
            Value::Array(parts)
        }
    }
}

fn parts_of(content: &Value) -> Vec<Value> {
    match content {
        Value::Array(parts) => parts.clone(),
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::String(text) => vec![text_part(text)],
        other => vec![other.clone()],
    }
}

pub(crate) fn join_texts(one: &str, other: &str) -> String {
    match (one, other) {
        ("", text) | (text, "") => text.to_owned(),
        (one, other) => format!("{one}{BETWEEN}{other}"),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn images_of_results_follow_them_as_the_users() {
        let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}});
        let result =
            |id: &str, content: Value| json!({"role": "tool", "tool_call_id": id, "content": content});
        let shown = |id: &str| result(id, json!([text_part("[image a.png]"), image]));
        let plain = |id: &str| result(id, json!("[image a.png]"));
        let user = entry("user", json!("go on"));
        let apart = [text_part(SHOWN_BY_TOOLS), image.clone()];
        let both = [apart.as_slice(), std::slice::from_ref(&image)].concat();
        for (entries, model, expected) in [
            (vec![shown("1"), shown("2")], "gpt-5", vec![plain("1"), plain("2"), entry("user", json!(both))]),
            (
                vec![shown("1"), result("2", json!("text")), user.clone()],
                "gpt-5",
                vec![
                    plain("1"),
                    result("2", json!("text")),
                    entry("user", json!([apart.as_slice(), &[text_part("go on")]].concat())),
                ],
            ),
            (
                vec![shown("1"), entry("assistant", json!("a cat"))],
                "mistral-small",
                vec![plain("1"), pause(), entry("user", json!(apart)), entry("assistant", json!("a cat"))],
            ),
        ] {
            assert_eq!(strict_turns(entries, model), expected, "{model}");
        }
    }

    fn entry(role: &str, content: Value) -> Value {
        Value::Object(Map::from_iter([("role".to_owned(), json!(role)), ("content".to_owned(), content)]))
    }

    fn calling(content: Value) -> Value {
        let mut entry = entry("assistant", content);
        entry["tool_calls"] = json!([{"id": "c"}]);
        entry
    }

    #[test]
    fn neighbours_of_one_role_are_one_message() {
        let image = json!({"type": "image_url", "image_url": {"url": "u"}});
        let marked = json!({"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}});
        let result = json!({"role": "tool", "tool_call_id": "c", "content": "out"});
        let named = |name: &str| json!({"role": "user", "content": "hi", "name": name});
        for (name, entries, expected) in [
            (
                "users",
                vec![entry("user", json!("a")), entry("user", json!("b")), entry("user", json!("c"))],
                vec![entry("user", json!("a\n\nb\n\nc"))],
            ),
            (
                "systems",
                vec![entry("system", json!("a")), entry("system", json!("b")), entry("user", json!("c"))],
                vec![entry("system", json!("a\n\nb")), entry("user", json!("c"))],
            ),
            (
                "a summary and what follows it",
                vec![entry("assistant", json!("a")), calling(json!(null)), result.clone()],
                vec![calling(json!("a")), result.clone()],
            ),
            (
                "reasoning stays with it",
                vec![
                    entry("assistant", json!("a")),
                    json!({"role": "assistant", "content": "b", "reasoning_content": "hm"}),
                ],
                vec![json!({"role": "assistant", "content": "a\n\nb", "reasoning_content": "hm"})],
            ),
            (
                "both reason",
                vec![
                    json!({"role": "assistant", "content": "a", "reasoning_content": "x", "reasoning_details": [1]}),
                    json!({"role": "assistant", "content": "b", "reasoning_content": "y", "reasoning_details": [1, 2]}),
                ],
                vec![json!({"role": "assistant", "content": "a\n\nb", "reasoning_content": "x\n\ny",
                    "reasoning_details": [1, 1, 2]})],
            ),
            (
                "what called is not followed by text",
                vec![calling(json!("a")), entry("assistant", json!("b"))],
                vec![calling(json!("a")), entry("assistant", json!("b"))],
            ),
            ("results stay apart", vec![result.clone(), result.clone()], vec![result.clone(), result]),
            (
                "media",
                vec![
                    entry("user", json!([{"type": "text", "text": "a"}, image])),
                    entry("user", json!("b")),
                    entry("user", json!([{"type": "text", "text": "c"}, image])),
                ],
                vec![entry(
                    "user",
                    json!([{"type": "text", "text": "a"}, image, {"type": "text", "text": "b\n\nc"}, image]),
                )],
            ),
            (
                "a mark stays with its part",
                vec![entry("user", json!([marked])), entry("user", json!("b"))],
                vec![entry("user", json!([marked, {"type": "text", "text": "b"}]))],
            ),
            (
                "nothing said",
                vec![entry("user", json!("")), entry("user", json!("a")), entry("user", json!(""))],
                vec![entry("user", json!("a"))],
            ),
            (
                "people by name",
                vec![named("ann"), named("bob"), named("bob")],
                vec![named("ann"), json!({"role": "user", "content": "hi\n\nhi", "name": "bob"})],
            ),
            (
                "people with and without",
                vec![named("ann"), entry("user", json!("a"))],
                vec![named("ann"), entry("user", json!("a"))],
            ),
        ] {
            assert_eq!(merge_neighbours(entries), expected, "{name}");
        }
    }

    #[test]
    fn texts_are_sent_as_such_and_system_messages_stand_in_front() {
        let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
        let user = entry("user", json!("hi"));
        let entries = vec![
            entry("system", parts.clone()),
            user.clone(),
            entry("assistant", parts),
            entry("system", json!("rules")),
        ];
        let sent = |last: Value| {
            vec![entry("system", json!("a\nb")), user.clone(), entry("assistant", json!("a\nb")), last]
        };
        for (model, expected) in [
            ("qwen3.5-4b", entry("user", json!("<system>\nrules\n</system>"))),
            ("openai/gpt-5.1", entry("system", json!("rules"))),
            ("o3", entry("system", json!("rules"))),
            ("olmo-3", entry("user", json!("<system>\nrules\n</system>"))),
        ] {
            assert_eq!(strict_turns(entries.clone(), model), sent(expected), "{model}");
        }
    }

    #[test]
    fn the_assistant_pauses_between_results_and_the_user_where_templates_demand_it() {
        let result = json!({"role": "tool", "tool_call_id": "c", "content": "out"});
        let entries =
            vec![entry("user", json!("a")), calling(json!(null)), result, entry("user", json!("b"))];
        for (model, pauses) in [
            ("mistral-small-3.2", true),
            ("mistralai/Ministral-8B-Instruct-2410", true),
            ("Mixtral-8x7B", true),
            ("nvidia/Llama-3.1-Nemotron-Nano-8B-v1", true),
            ("command-r-plus", true),
            ("tiny-aya-agent", true),
            ("gpt-4o", false),
            ("qwen3-coder", false),
            ("maya", false),
        ] {
            let sent = strict_turns(entries.clone(), model);
            assert_eq!(sent.len(), entries.len() + usize::from(pauses), "{model}: {sent:?}");
            assert_eq!(strict_turn_faults(&sent).is_empty(), pauses, "{model}");
        }
    }

    #[test]
    fn calls_are_sent_one_by_one_to_templates_that_take_no_more() {
        let call = |id: &str| json!({"id": id, "function": {"name": "read", "arguments": "{}"}});
        let calling = |content: Value, ids: &[&str]| {
            let calls: Vec<Value> = ids.iter().map(|&id| call(id)).collect();
            json!({"role": "assistant", "content": content, "tool_calls": calls})
        };
        let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": id});
        let user = entry("user", json!("a"));
        let none = || json!(null);
        for (entries, expected) in [
            (
                // The results came in another order.
                vec![user.clone(), calling(json!("so"), &["x", "y"]), result("y"), result("x")],
                vec![
                    user.clone(),
                    calling(json!("so"), &["x"]),
                    result("x"),
                    calling(none(), &["y"]),
                    result("y"),
                ],
            ),
            (
                vec![calling(none(), &["x"]), result("x"), user.clone()],
                vec![calling(none(), &["x"]), result("x"), user],
            ),
            (
                // A result of no call.
                vec![calling(none(), &["x", "y"]), result("x"), result("z")],
                vec![calling(none(), &["x"]), result("x"), calling(none(), &["y"]), result("z")],
            ),
        ] {
            assert_eq!(one_call_each(entries), expected);
        }
    }

    #[test]
    fn what_breaks_strict_turns_is_found() {
        let result = || json!({"role": "tool", "tool_call_id": "c", "content": "out"});
        let of = |letters: &str| -> Vec<Value> {
            let entry = |letter: char| match letter {
                's' => entry("system", json!("a")),
                'u' => entry("user", json!("a")),
                'a' => entry("assistant", json!("a")),
                't' => calling(json!(null)),
                _ => result(),
            };
            letters.chars().map(entry).collect()
        };
        for (letters, expected) in [
            ("suau", &[][..]),
            ("utrrau", &[]),
            ("utrtra", &[]),
            ("ssu", &["message 1: system after system"]),
            ("sa", &["message 1: assistant after system"]),
            ("uu", &["message 1: user after user"]),
            ("uaa", &["message 2: assistant after assistant"]),
            ("uas", &["message 2: system after assistant"]),
            ("utru", &["message 3: user after tool"]),
            ("utu", &["message 2: user after calls"]),
            ("r", &["message 0: tool at the beginning"]),
        ] {
            assert_eq!(strict_turn_faults(&of(letters)), expected, "{letters}");
        }
    }

    /// Entries of whole exchanges in any order, opened by the user.
    fn conversations() -> impl Strategy<Value = Vec<Value>> {
        let text = || "[a-c]{0,2}";
        let unit = prop_oneof![
            text().prop_map(|text| vec![entry("user", json!(text))]),
            text().prop_map(|text| vec![entry(
                "user",
                json!([{"type": "text", "text": text}, {"type": "image_url"}])
            )]),
            text().prop_map(|text| vec![entry("assistant", json!(text))]),
            text().prop_map(|text| vec![entry("system", json!(text))]),
            (text(), text()).prop_map(|(text, out)| {
                vec![calling(json!(text)), json!({"role": "tool", "tool_call_id": "c", "content": out})]
            }),
        ];
        prop::collection::vec(unit, 0..12).prop_map(|units| {
            let opening = [entry("system", json!("s")), entry("user", json!("u"))];
            opening.into_iter().chain(units.into_iter().flatten()).collect()
        })
    }

    fn texts(entries: &[Value]) -> String {
        let of = |content: &Value| match content {
            Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
            content => content.as_str().unwrap_or_default().to_owned(),
        };
        let texts: String = entries.iter().map(|entry| of(&entry["content"])).collect();
        texts.replace(BETWEEN, "")
    }

    proptest! {
        #[test]
        fn whatever_was_said_is_sent_in_strict_turns(entries in conversations()) {
            let sent = strict_turns(entries.clone(), "mistral");
            prop_assert_eq!(strict_turn_faults(&sent), Vec::<String>::new());
            // Once is enough, and nothing is lost.
            prop_assert_eq!(strict_turns(sent.clone(), "mistral"), sent.clone());
            let words = texts(&sent).replace(PAUSE, "").replace("<system>\n", "").replace("\n</system>", "");
            prop_assert_eq!(words, texts(&entries));
            let calls = |entries: &[Value]| entries.iter().filter(|entry| has_calls(entry)).count();
            prop_assert_eq!(calls(&sent), calls(&entries));
        }

        #[test]
        fn what_is_sent_begins_as_it_did_before_more_was_said(entries in conversations(), cut in 0_usize..20) {
            let cut = cut.min(entries.len());
            let (whole, before) =
                (strict_turns(entries.clone(), "m"), strict_turns(entries[..cut].to_vec(), "m"));
            // All but the last, to which more may have been joined.
            let same = before.len().saturating_sub(1);
            prop_assert_eq!(&whole[..same], &before[..same]);
        }
    }
}
