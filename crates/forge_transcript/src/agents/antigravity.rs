//! Transcripts of Google Antigravity: a step a line. A call is answered by the step of its number.
//!
//! An output is read without what Antigravity puts around it. What it says of a command that ended, or still
//! runs, gets the form in which other harnesses say so.

use forge_domain::{Message, Role, ToolCall};
use serde_json::{Value, json};

use super::exit_code::{EXIT_CODE, with_exit_code};
use crate::any_blocks::{answer, call, hidden_tokens, items, messages_of, reply, text_at};
use crate::codec::{EntryFormat, Evidence, Fields};
use crate::format::FormatFacts;
use crate::json_text::parse;

/// The author of what Antigravity itself says.
const BY: &str = "antigravity";
/// The tags around what the user typed; metadata stands beside them.
const REQUEST: [&str; 2] = ["<USER_REQUEST>", "</USER_REQUEST>"];
/// The line before what a model thinks.
const THOUGHT: &str = "thought\n";
/// The first words of the lines with which an output begins: when its step ran.
const TIMES: [&str; 2] = ["Created At: ", "Completed At: "];
/// The type of a step that edits a file, and the first words of advice to the model in its output.
const EDIT: &str = "CODE_ACTION";
const ADVICE: &str = "If relevant, proactively run terminal commands ";
/// The margin before what is said of a command.
const MARGIN: &str = "\t\t\t\t";
/// The words before the id of a command that still runs, and before the place of its log.
const STARTED: &str = "Tool is running as a background task with task id: ";
const LOG: &str = "Task logs are available at: ";
/// The words before the id in the message that such a command has ended, before its log, and the end.
const ENDED: &str = "content=Task id \"";
const LOG_OF_ENDED: &str = "\nLog: ";
const END_OF_MESSAGE: &str = "</SYSTEM_MESSAGE>";
/// The mark behind the beginning of a long argument.
const CUT: &str = "\n<truncated ";

/// The format of Antigravity.
pub(super) struct Antigravity;

impl EntryFormat for Antigravity {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "antigravity",
        name: "Antigravity transcripts",
        description: "JSONL of {\"step_index\", \"source\", \"type\": \"PLANNER_RESPONSE\"}",
        protocol: None,
    };

    fn detect(evidence: &Evidence<'_>) -> bool {
        let is_own = |line: &Fields<'_>| {
            line.has(&["step_index", "source"])
                && matches!(line.text("type").as_str(), "USER_INPUT" | "PLANNER_RESPONSE")
        };
        evidence.lines().iter().any(is_own)
    }

    fn messages(step: &Value) -> Vec<Message> {
        let text = text_at(step, "/content");
        let messages = match (text_at(step, "/type"), text_at(step, "/source")) {
            ("USER_INPUT", _) => user_messages(text),
            ("PLANNER_RESPONSE", _) => reply_of(step, text).into_iter().collect(),
            // An error that is not of a call has no content: the model does not see it.
            ("ERROR_MESSAGE", _) if !text.is_empty() => vec![result(step, true)],
            (_, "MODEL") => vec![result(step, text_at(step, "/status") == "ERROR")],
            ("EPHEMERAL_MESSAGE", _) if !text.is_empty() => vec![note(text).renewed()],
            (_, "SYSTEM") if !text.is_empty() => {
                vec![note(&ended_task(text).unwrap_or_else(|| text.to_owned()))]
            }
            _ => Vec::new(),
        };
        let timestamp = step.get("created_at").and_then(|at| serde_json::from_value(at.clone()).ok());
        messages.into_iter().map(|message| Message { timestamp, ..message }).collect()
    }

    fn is_silent(step: &str) -> bool {
        Fields::of(step).has(&["step_index", "type"])
    }
}

/// Returns a reply of the model. Some models write what they think before a call where other replies have
/// their text; before an answer, the thoughts end in the middle of a line, without a mark.
fn reply_of(step: &Value, text: &str) -> Option<Message> {
    let calls = items(step, "tool_calls").iter().enumerate();
    let calls = calls.map(|(n, made)| {
        let given = made.get("args").unwrap_or(&Value::Null);
        call(&call_id(step, n + 1), text_at(made, "/name"), &arguments(given))
    });
    let calls: Vec<ToolCall> = calls.collect();
    let (said, thought) = match text.strip_prefix(THOUGHT) {
        Some(thought) if !calls.is_empty() => ("", thought),
        Some(answer) => (answer, ""),
        None => (text, ""),
    };
    reply(said.to_owned().into(), calls, hidden_tokens(&json!({"thinking": thought})))
}

/// Returns what the user typed, and what Antigravity put around it as a note.
fn user_messages(text: &str) -> Vec<Message> {
    let [begin, end] = REQUEST;
    let Some((before, rest)) = text.split_once(begin) else {
        return messages_of(Role::User, &Value::String(text.to_owned()));
    };
    let (typed, after) = rest.rsplit_once(end).unwrap_or((rest, ""));
    let mut messages = messages_of(Role::User, &Value::String(typed.trim().to_owned()));
    let around = format!("{before}{after}");
    if !around.trim().is_empty() {
        messages.push(note(around.trim()));
    }
    messages
}

fn note(text: &str) -> Message {
    Message::user(text).noted_by(BY)
}

/// Returns the result that a step is.
fn result(step: &Value, is_error: bool) -> Message {
    let said = match step.get("content") {
        Some(Value::String(text)) => Value::String(output(text_at(step, "/type"), text)),
        other => other.cloned().unwrap_or_default(),
    };
    answer(&call_id(step, 0), &said, is_error)
}

/// Returns the output of a step of that `kind` without what is put around it.
fn output(kind: &str, text: &str) -> String {
    let text = TIMES.iter().fold(text, |text, time| match text.split_once('\n').unwrap_or((text, "")) {
        (line, rest) if line.starts_with(time) => rest,
        _ => text,
    });
    if kind == EDIT {
        return without_advice(text);
    }
    started_task(text).or_else(|| ended_command(text)).unwrap_or_else(|| text.to_owned())
}

/// Returns a text without the advice in it, which ends with its line.
fn without_advice(text: &str) -> String {
    let Some((before, after)) = text.split_once(ADVICE) else { return text.to_owned() };
    let rest = after.find('\n').map_or("", |end| &after[end..]);
    format!("{}{rest}", before.trim_end())
}

/// Returns what is said of a command that still runs. All ids of a conversation begin with its own.
fn started_task(text: &str) -> Option<String> {
    let task = text.strip_prefix(STARTED)?;
    let (id, rest) = task.split_once('\n').unwrap_or((task, ""));
    let log = rest.lines().find_map(|line| line.strip_prefix(LOG));
    let log = log.map(|log| format!("Log: {log}\n")).unwrap_or_default();
    Some(format!("{log}Running in background with ID: {}", own_id(id)))
}

fn own_id(id: &str) -> &str {
    id.trim().rsplit('/').next().unwrap_or_default()
}

/// Returns how a command ended and what it wrote, as Codex says so; `None` if the text does not tell.
fn ended_command(text: &str) -> Option<String> {
    let said = text.trim_start_matches('\n').strip_prefix(MARGIN)?;
    let (status, written) = said.split_once('\n').unwrap_or((said, ""));
    Some(with_exit_code(exit_code(status.trim_end())?, &streams(written)))
}

fn exit_code(status: &str) -> Option<&str> {
    let status = status.strip_prefix("The command ")?;
    if status == "completed successfully." {
        return Some("0");
    }
    let code =
        ["failed with exit code: ", "exited with code "].iter().find_map(|is| status.strip_prefix(is))?;
    let code = code.trim_end_matches('.');
    code.parse::<i64>().is_ok().then_some(code)
}

/// Returns what a command wrote, to one stream or to two.
fn streams(written: &str) -> String {
    let heading = |name: &str| format!("{MARGIN}{name}:\n{MARGIN}");
    if let Some(output) = written.strip_prefix(&heading("Output")) {
        return output.trim_end().to_owned();
    }
    let Some(both) = written.strip_prefix(&heading("Stdout")) else { return written.trim_end().to_owned() };
    let (output, errors) = both.split_once(&heading("Stderr")).unwrap_or((both, ""));
    let texts = [output, errors].map(str::trim_end);
    texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Returns the message that a command in the background has ended, as Claude Code says so; `None` if the text
/// is another message.
fn ended_task(text: &str) -> Option<String> {
    let (id, rest) = text.split_once(ENDED)?.1.split_once("\" ")?;
    let (how, rest) = rest.split_once(" with result:").filter(|(how, _)| !how.contains('\n'))?;
    let rest = rest.trim_end().strip_suffix(END_OF_MESSAGE).unwrap_or(rest);
    let result = rest.rsplit_once(LOG_OF_ENDED).map_or(rest, |(result, _)| result);
    let result = ended_command(result).unwrap_or_else(|| result.trim().to_owned());
    let code = result.strip_prefix(EXIT_CODE).and_then(|code| code.lines().next());
    let status = match (how.strip_prefix("was ").unwrap_or(how), code) {
        ("finished", None | Some("0")) => "completed",
        ("finished", Some(_)) => "failed",
        (how, _) => how,
    };
    let id = own_id(id);
    let report = format!("<task-id>{id}</task-id>\n<status>{status}</status>\n<result>\n{result}\n</result>");
    Some(format!("<task-notification>\n{report}\n</task-notification>"))
}

/// Returns the id of the call that the step `n` steps after this one answers; an empty one if the step has no
/// number.
fn call_id(step: &Value, n: usize) -> String {
    let number = step.get("step_index").and_then(Value::as_u64);
    number.map(|number| format!("step_{}", number.saturating_add(n as u64))).unwrap_or_default()
}

/// Returns the arguments of a call, each of which the transcript holds as a text of JSON.
fn arguments(given: &Value) -> Value {
    let Some(fields) = given.as_object() else { return given.clone() };
    let plain = |value: &Value| value.as_str().and_then(|text| parse(text).ok().or_else(|| cut_text(text)));
    let fields =
        fields.iter().map(|(name, value)| (name.clone(), plain(value).unwrap_or_else(|| value.clone())));
    Value::Object(fields.collect())
}

/// Returns a text of which the transcript holds only the beginning, with the mark behind it; `None` if it is
/// whole, or no text.
fn cut_text(text: &str) -> Option<Value> {
    let (begin, cut) = text.rsplit_once(CUT)?;
    if begin.starts_with('[') {
        return cut_list(begin, cut);
    }
    let read = |begin: &str| parse::<String>(&format!("{begin}\"")).ok();
    // The cut may be in an escape.
    let read = read(begin).or_else(|| read(&begin[..begin.rfind('\\')?]))?;
    Some(format!("{read}{CUT}{cut}").into())
}

/// Returns a list of which the transcript holds only the beginning, with the mark behind the text in it that
/// is cut; `None` if it is not cut in a text.
fn cut_list(begin: &str, cut: &str) -> Option<Value> {
    let (mut ends, mut is_text, mut is_escaped) = (Vec::new(), false, false);
    for c in begin.chars() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = is_text,
            '"' => is_text = !is_text,
            '[' if !is_text => ends.push(']'),
            '{' if !is_text => ends.push('}'),
            ']' | '}' if !is_text => {
                ends.pop();
            }
            _ => {}
        }
    }
    let ends: String = ends.iter().rev().collect();
    let mark = Value::from(format!("{CUT}{cut}")).to_string();
    let mark = &mark[1..];
    // The cut may be in an escape, and the text may be the name of a field.
    let begins = [Some(begin.len() - usize::from(is_escaped)), begin.rfind('\\')];
    let closed = |end: usize| ["", ":null"].map(|value| format!("{}{mark}{value}{ends}", &begin[..end]));
    let mut texts = begins.into_iter().flatten().flat_map(closed).filter(|_| is_text);
    texts.find_map(|text| parse(&text).ok())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_output_is_read_without_what_is_put_around_it() {
        let ended = |status: &str, written: &str| {
            format!("Created At: 1\nCompleted At: 2\n\n{MARGIN}The command {status}\n{written}")
        };
        let one = format!("{MARGIN}Output:\n{MARGIN}two tests\n{MARGIN}ran\n\n");
        let two = format!("{MARGIN}Stdout:\n{MARGIN}a\n{MARGIN}Stderr:\n{MARGIN}b\n");
        let none = format!("{MARGIN}Stdout:\n{MARGIN}\n{MARGIN}Stderr:\n{MARGIN}\n");
        for (kind, text, expected) in [
            ("VIEW_FILE", "Created At: 1\nCompleted At: 2\nCreated At: 3".to_owned(), "Created At: 3"),
            ("VIEW_FILE", "Created At: 1".to_owned(), ""),
            ("VIEW_FILE", "a\nCreated At: 1".to_owned(), "a\nCreated At: 1"),
            ("RUN_COMMAND", ended("completed successfully.", &none), "Exit code: 0\nOutput:\n"),
            (
                "RUN_COMMAND",
                ended("failed with exit code: 3", &one),
                "Exit code: 3\nOutput:\ntwo tests\n\t\t\t\tran",
            ),
            ("RUN_COMMAND", ended("exited with code 3.", &two), "Exit code: 3\nOutput:\na\nb"),
            ("RUN_COMMAND", ended("was asked.", "").replace("Created At: 1\n", ""), "\n\t\t\t\tThe command was asked.\n"),
            (
                "RUN_COMMAND",
                "Created At: 1\nTool is running as a background task with task id: c1/task-7\nTask Description: make\nTask logs are available at: file:///l".to_owned(),
                "Log: file:///l\nRunning in background with ID: task-7",
            ),
            (
                "CODE_ACTION",
                "Created At: 1\nChanged a.rs. If relevant, proactively run terminal commands for it.\n+b".to_owned(),
                "Changed a.rs.\n+b",
            ),
        ] {
            assert_eq!(output(kind, &text), expected, "{text}");
        }
    }

    #[test]
    fn the_end_of_a_task_is_reported() {
        let message = |said: &str| {
            format!("A <SYSTEM_MESSAGE>.\n\n<SYSTEM_MESSAGE>\n[Message] content={said}\n</SYSTEM_MESSAGE>")
        };
        let ended = |how: &str| message(&format!("Task id \"c1/task-7\" {how}\n\nLog: file:///l"));
        let failed = format!(
            "finished with result:\n\n{MARGIN}The command failed with exit code: 2\n{MARGIN}Output:\n{MARGIN}no rule\n"
        );
        let passed = format!(
            "finished with result:\n\n{MARGIN}The command completed successfully.\n{MARGIN}Output:\n{MARGIN}ok\n"
        );
        for (text, status, result) in [
            (ended(&failed), "failed", "Exit code: 2\nOutput:\nno rule"),
            (ended(&passed), "completed", "Exit code: 0\nOutput:\nok"),
            (ended("was canceled with result:\nStep was canceled"), "canceled", "Step was canceled"),
        ] {
            let expected = format!(
                "<task-notification>\n<task-id>task-7</task-id>\n<status>{status}</status>\n<result>\n{result}\n</result>\n</task-notification>"
            );
            assert_eq!(ended_task(&text), Some(expected), "{text}");
        }
        assert_eq!(ended_task(&message("All tasks were stopped.")), None);
    }

    #[test]
    fn arguments_are_texts_of_json() {
        let given = json!({
            "Path": "\"a b\"",
            "Line": "5",
            "Parts": "[{\"a\":1}]",
            "Open": "\"a",
            "Cut": "\"a\\n\\\"b\n<truncated 9 bytes>",
            "CutInEscape": "\"a\\u00\n<truncated 9 bytes>",
            "CutList": "[1,\n<truncated 9 bytes>",
            "CutItem": "[{\"a\":[2],\"b\":\"{\\\"c\n<truncated 9 bytes>",
            "CutItemInEscape": "[{\"a\":\"b\\\n<truncated 9 bytes>",
            "CutName": "[{\"a\":1},{\"b\n<truncated 9 bytes>",
            "Plain": 1,
        });
        let expected = json!({
            "Path": "a b",
            "Line": 5,
            "Parts": [{"a": 1}],
            "Open": "\"a",
            "Cut": "a\n\"b\n<truncated 9 bytes>",
            "CutInEscape": "a\n<truncated 9 bytes>",
            "CutList": "[1,\n<truncated 9 bytes>",
            "CutItem": [{"a": [2], "b": "{\"c\n<truncated 9 bytes>"}],
            "CutItemInEscape": [{"a": "b\n<truncated 9 bytes>"}],
            "CutName": [{"a": 1}, {"b\n<truncated 9 bytes>": null}],
            "Plain": 1,
        });
        assert_eq!(arguments(&given), expected);
    }
}
