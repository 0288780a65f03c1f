//! The wrapping of a tool's output: the JSON or the tags of a harness, its notes, and a terminal's colours.

use std::borrow::Cow;

use anstream::adapter::strip_str;
use serde_json::Value;

use super::git_names::with_plain_names;
use super::read_frame::without_read_frame;

/// The names under which harnesses put the output of a tool, and how its call went.
const OUTPUTS: &[&str] = &["output", "stdout", "result"];
const COURSES: &[&str] =
    &["exit_code", "exitCode", "returncode", "duration", "duration_ms", "duration_seconds", "wall_time"];

/// The marks before and after a text that a tag holds as it is.
const TEXT: [&str; 2] = ["<![CDATA[", "]]>"];

/// The character that begins a sequence for a terminal.
const ESCAPE: char = '\x1b';

/// The first words of a result of Codex that repeats its command, and those behind that.
const COMMAND: &str = "Command: ";
const AFTER_COMMAND: &str = "\nChunk ID: ";

/// Returns a result without the command that Codex repeats before it.
pub(crate) fn without_command(text: &str) -> &str {
    let after = text.starts_with(COMMAND).then(|| text.find(AFTER_COMMAND)).flatten();
    after.map_or(text, |at| &text[at + 1..])
}

/// The beginnings of the lines that Codex puts before an output, and the line behind them.
const HEADS: [&str; 9] = [
    "Chunk ID: ",
    "Exit code: ",
    "Original token count: ",
    "Process exited with code ",
    "Process running with session ID ",
    "Script completed",
    "Script failed",
    "Total output lines: ",
    "Wall time",
];
const OUTPUT: &str = "Output:";

/// Returns a result without the lines that tell how its command ran: they are told with the call.
fn without_head(text: &str) -> &str {
    let mut rest = text;
    loop {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        if line.trim_end() == OUTPUT && rest.len() < text.len() {
            return after;
        }
        if after.is_empty() || !HEADS.iter().any(|head| line.starts_with(head)) {
            return text;
        }
        rest = after;
    }
}

/// The fields of Gemini CLI's results of commands, before and behind the output.
const FIELDS: [&str; 2] = ["\nDirectory: ", "\nOutput: "];
const FIELDS_AFTER: [&str; 2] = ["\nError: ", "\nExit Code: "];
const NO_ERROR: &str = "\nError: (none)";

/// Returns the output of a command in the fields of Gemini CLI; all of a text that has none.
fn without_fields(text: &str) -> &str {
    let inside = || {
        let (_, rest) = text.starts_with(COMMAND).then(|| text.split_once(FIELDS[0])).flatten()?;
        let (_, rest) = rest.split_once(FIELDS[1])?;
        let end = match rest.rfind(FIELDS_AFTER[0]) {
            // What went to the error stream is a part of it.
            Some(error) if !rest[error..].starts_with(NO_ERROR) => return None,
            Some(error) => error,
            None => rest.rfind(FIELDS_AFTER[1])?,
        };
        Some(Some(&rest[..end]).filter(|output| *output != "(empty)").unwrap_or_default())
    };
    inside().unwrap_or(text)
}

/// The first words of the lines in brackets by which plug-ins number a result, or the same one again.
const NUMBERS: [&str; 2] = ["[result-id: ", "[rerun: "];

/// Returns a result without the lines at its end by which it is numbered.
fn without_numbers(text: &str) -> &str {
    let mut left = text;
    loop {
        let end = left.trim_end();
        let (before, line) = end.rsplit_once('\n').unwrap_or(("", end));
        if !line.ends_with(']') || !NUMBERS.iter().any(|words| line.starts_with(words)) {
            return left;
        }
        left = before;
    }
}

/// The first words of the lines that stand for a result: it was given before, or there is none.
const STAND_INS: [&str; 3] = [
    "(Bash completed with no output)",
    "<identical to result ",
    "Wasted call — file unchanged since your last Read",
];

/// Checks whether a result is only such a line.
pub(crate) fn is_stand_in(text: &str) -> bool {
    let line = text.trim();
    !line.contains('\n') && STAND_INS.iter().any(|words| line.starts_with(words))
}

/// Returns the text in an envelope, without colours and other sequences for a terminal, and with plain names
/// of files.
pub(crate) fn unwrapped(text: Cow<'_, str>) -> Cow<'_, str> {
    let text =
        part_of(part_of(text, without_numbers), |text| without_fields(without_head(without_command(text))));
    let text = part_of(part_of(inside(text), without_receipt), without_frame);
    let text = part_of(text, without_read_frame);
    with_plain_names(if text.contains(ESCAPE) { Cow::Owned(strip_str(&text).to_string()) } else { text })
}

/// Returns only what a tool put out: the text inside its envelope, without the notes that follow.
pub(crate) fn output(text: Cow<'_, str>) -> Cow<'_, str> {
    part_of(unwrapped(text), without_notes)
}

/// Returns the part of a text that `cut` leaves of it.
fn part_of(text: Cow<'_, str>, cut: fn(&str) -> &str) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(cut(text)),
        Cow::Owned(mut text) => {
            let left = cut(&text);
            if !text.starts_with(left) {
                return Cow::Owned(left.to_owned());
            }
            let length = left.len();
            text.truncate(length);
            Cow::Owned(text)
        }
    }
}

/// The words of Claude Code before and after the user's answers to its questions.
const BEFORE_ANSWERS: [&str; 2] =
    ["User has answered your questions: ", "Your questions have been answered: "];
const AFTER_ANSWERS: &str = " You can now continue with ";

/// Returns the user's answers, each behind its question, without the words around them.
fn without_frame(text: &str) -> &str {
    let answers = BEFORE_ANSWERS.iter().find_map(|words| text.trim_start().strip_prefix(*words));
    let Some(answers) = answers.filter(|answers| answers.starts_with('"')) else { return text };
    answers.rfind(AFTER_ANSWERS).map_or(answers, |end| &answers[..end])
}

/// The first words of Claude Code's receipts for an agent that works in the background.
const LAUNCHED: [&str; 2] = ["Async agent launched successfully.", "Spawned successfully."];
/// The first words of what it adds to the answer of an agent, and the tag around what that used.
const AGENT_ID: &str = "agentId: ";
const USAGE: [&str; 2] = ["<usage>", "</usage>"];
const WORKTREE: &str = "worktree";

/// The tags around what Claude Code reminds its model of.
const REMINDER: [&str; 2] = ["\n<system-reminder>", "</system-reminder>"];

/// Returns a result without the reminders at its end. Notes of other kinds may tell what came of the call.
fn without_reminders(text: &str) -> &str {
    let mut left = text;
    let start =
        |text: &str| -> Option<usize> { text.trim_end().strip_suffix(REMINDER[1])?.rfind(REMINDER[0]) };
    while let Some(at) = start(left) {
        left = left[..at].trim_end();
    }
    left
}

/// Checks whether the text in an envelope is only the receipt for an agent that works in the background: it
/// has reported nothing.
pub(crate) fn is_receipt(text: &str) -> bool {
    LAUNCHED.contains(&text.trim())
}

/// Returns the answer of another agent without the id by which it is continued and what it used, and of the
/// receipt for one that was launched the first sentence. No result keeps the reminders at its end.
fn without_receipt(text: &str) -> &str {
    let text = without_reminders(text);
    let launched = LAUNCHED.into_iter().find(|launched| text.starts_with(launched));
    if let Some(launched) = launched.filter(|_| text.contains(AGENT_ID) || text.contains("\nagent_id: ")) {
        return &text[..launched.len()];
    }
    let told = without_notes(text).trim_end();
    let usage = told.strip_suffix(USAGE[1]).and_then(|rest| rest.rsplit_once(USAGE[0]));
    let usage = usage.filter(|(_, usage)| usage.contains("total_tokens"));
    let answer = usage.map_or(told, |(answer, _)| answer.trim_end());
    let last_line = answer.rsplit('\n').next().unwrap_or_default();
    let may_be_id = last_line.ends_with(')') || last_line.starts_with(WORKTREE);
    let id = may_be_id.then(|| answer.rfind(AGENT_ID)).flatten();
    match id.filter(|at| *at == 0 || answer[..*at].ends_with('\n')) {
        Some(at) if is_agent_id(&answer[at..]) => answer[..at].trim_end(),
        _ if usage.is_some() => answer,
        _ => text,
    }
}

/// Checks whether lines name an agent and, in brackets, how it is continued, and then at most its worktree.
fn is_agent_id(lines: &str) -> bool {
    let mut lines = lines.lines();
    let is_id = |line: &str| line.contains(" (") && line.trim_end().ends_with(')');
    lines.next().is_some_and(is_id) && lines.all(|line| line.starts_with(WORKTREE))
}

/// Returns the text in a JSON envelope; the envelope's other values follow it, a line each. JSON counts as an
/// envelope if it is a list of texts, if a text of several lines makes up most of it, or if one of its fields
/// is named as the output. Of tags around marked texts, the texts are left. Anything else is returned
/// unchanged.
fn inside(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.trim_start().starts_with('<') && text.contains(TEXT[0]) {
        return in_tags(&text).map_or(text, Cow::Owned);
    }
    let names = |name: &str| text.contains(&format!("\"{name}\""));
    let names_output = || OUTPUTS.iter().any(|name| names(name)) || names(TEXT_KEY) && names("type");
    if !text.trim_start().starts_with(['{', '[']) || !text.contains("\\n") && !names_output() {
        return text;
    }
    let Ok(value) = serde_json::from_str::<Value>(&text) else { return text };
    if let Some(said) = said_in_blocks(&value) {
        return Cow::Owned(said);
    }
    let has_output = OUTPUTS.iter().any(|name| value.get(name).is_some_and(Value::is_string));
    let mut inside = Inside { has_output, ..Inside::default() };
    inside.take("", &value);
    if inside.blocks.len() * 2 < text.len() && !has_output {
        return text;
    }
    Cow::Owned(inside.blocks + &inside.rest)
}

/// The key of a block's text.
const TEXT_KEY: &str = "text";

/// Returns what a list of texts says, as servers of tools answer: alone, or as the content of an answer.
fn said_in_blocks(value: &Value) -> Option<String> {
    let blocks = value.as_array().or_else(|| value.get("content")?.as_array())?;
    let said: Vec<&str> = blocks.iter().map(said_in_block).collect::<Option<_>>()?;
    (!said.is_empty()).then(|| said.join("\n"))
}

/// Returns the text of a block that is nothing else.
fn said_in_block(block: &Value) -> Option<&str> {
    let fields = block.as_object()?;
    let is_plain =
        fields.keys().all(|key| ["type", TEXT_KEY, "annotations", "_meta"].contains(&key.as_str()));
    let text = fields.get(TEXT_KEY)?.as_str()?;
    (is_plain && fields.get("type")? == TEXT_KEY).then_some(text)
}

/// Returns a text without the notes that a harness adds to the end of a result, each in tags of its own. A
/// document in tags has none.
pub(crate) fn without_notes(text: &str) -> &str {
    let mut left = text.trim_end();
    while let Some(before) = before_note(left) {
        left = before.trim_end();
    }
    if left.len() < text.trim_end().len() { left } else { text }
}

/// Returns what stands before the block in tags with which a text ends; `None` if it ends with none. Programs
/// write tags without such marks in their names.
fn before_note(text: &str) -> Option<&str> {
    let (_, tag) = text.strip_suffix('>')?.rsplit_once("</")?;
    let is_of_name = |c: char| c.is_ascii_lowercase() || matches!(c, '-' | '_');
    if !tag.contains(['-', '_']) || !tag.chars().all(is_of_name) || text.trim_start().starts_with('<') {
        return None;
    }
    let (before, note) = text.rsplit_once(&format!("\n<{tag}>"))?;
    // A status in tags is a part of the result, not a note about it.
    let is_prose = note.split_whitespace().nth(LEAST_OF_NOTE).is_some();
    is_prose.then_some(before)
}

/// A note has more words.
const LEAST_OF_NOTE: usize = 3;

/// Returns what stands between the first tags of a name.
pub(crate) fn within<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let rest = text.split_once(&format!("<{tag}>"))?.1;
    Some(rest.split_once(&format!("</{tag}>"))?.0.trim())
}

/// A command that the user ran beside the conversation, as a harness notes it, and what came of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OwnCommand<'a> {
    pub(crate) command: &'a str,
    pub(crate) output: Option<&'a str>,
}

impl<'a> OwnCommand<'a> {
    /// Reads it from a note and the one after it.
    pub(crate) fn of(note: &'a str, next: Option<&'a str>) -> Option<Self> {
        let opens = |tag: &str| note.trim_start().starts_with(tag);
        let output = |text| {
            ["bash-stdout", "bash-stderr"]
                .iter()
                .find_map(|tag| within(text, tag).filter(|said| !said.is_empty()))
        };
        let (command, output) = if opens("<bash-input>") {
            (within(note, "bash-input")?, output(note).or_else(|| output(next?)))
        } else if opens("<user_shell_command>") {
            (within(note, "command")?, within(note, "result"))
        } else {
            return None;
        };
        Some(Self { command, output }).filter(|own| !own.command.is_empty())
    }
}

/// Returns the marked texts in tags; `None` if anything but tags is around them.
fn in_tags(text: &str) -> Option<String> {
    let mut inside = String::new();
    let mut rest = text;
    loop {
        let (tags, after) = rest.split_once(TEXT[0]).unwrap_or((rest, ""));
        let tags = tags.trim();
        if !(tags.is_empty() || tags.starts_with('<') && tags.ends_with('>')) {
            return None;
        }
        if after.is_empty() {
            return (!inside.is_empty()).then_some(inside);
        }
        let (said, after) = after.split_once(TEXT[1]).unwrap_or((after, ""));
        inside.push_str(said.trim_end());
        inside.push('\n');
        rest = after;
    }
}

/// The values of an envelope.
#[derive(Default)]
struct Inside {
    has_output: bool,
    /// Those of several lines, and the output.
    blocks: String,
    /// The others, with their names.
    rest: String,
}

impl Inside {
    fn take(&mut self, name: &str, value: &Value) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| self.take(name, value)),
            Value::Array(values) => values.iter().for_each(|value| self.take(name, value)),
            Value::String(block) if block.trim().contains('\n') || OUTPUTS.contains(&name) => {
                self.blocks.push_str(block.trim_end());
                self.blocks.push('\n');
            }
            Value::String(line) if !line.trim().is_empty() => self.tell(name, line.trim()),
            // The exit code and the duration are told with the call.
            Value::Number(_) if self.has_output && COURSES.contains(&name) => {}
            Value::Bool(_) | Value::Number(_) => self.tell(name, &value.to_string()),
            Value::String(_) | Value::Null => {}
        }
    }

    fn tell(&mut self, name: &str, value: &str) {
        self.rest.push_str(&format!("{name}: {value}\n"));
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn notes_at_the_end_of_a_result_are_none_of_it() {
        let note = "<system-reminder>\nThe list of tasks was not used for a while.\n</system-reminder>";
        for (text, expected) in [
            (format!("12 passed\n\n{note}\n{note}\n"), "12 passed"),
            (format!("12 passed {note}"), &format!("12 passed {note}")),
            (note.to_owned(), note),
            ("one\n<exit_code>1</exit_code>\n".to_owned(), "one\n<exit_code>1</exit_code>\n"),
            (format!("<?xml version=\"1\"?>\n{note}"), &format!("<?xml version=\"1\"?>\n{note}")),
            ("plain\n".to_owned(), "plain\n"),
        ] {
            assert_eq!(without_notes(&text), expected, "{text}");
        }
    }

    #[test]
    fn what_claude_code_puts_around_an_answer_is_none_of_it() {
        let id = "agentId: a6ae7ab (for resuming to continue this agent's work if needed)";
        let usage = "<usage>total_tokens: 43765\ntool_uses: 27\nduration_ms: 230679</usage>";
        let note = "<system-reminder>\nThe list of tasks was not used for a while.\n</system-reminder>";
        let answer = "Two files (a.rs, b.rs)\nhave it.";
        for (text, expected) in [
            (format!("{answer}\n{id}"), answer),
            (format!("{answer}\n\n{id}\n{usage}\n"), answer),
            (format!("{answer}\n{id}\nworktreePath: /w\nworktreeBranch: b\n{usage}\n\n{note}"), answer),
            (format!("{answer}\n{usage}"), answer),
            (format!("{id}\n{usage}"), ""),
            (
                "Async agent launched successfully.\nagentId: ae499f1 (internal ID)\noutput_file: /t"
                    .to_owned(),
                "Async agent launched successfully.",
            ),
            (
                "User has answered your questions: \"Which?\"=\"The second.\". You can now continue with the \
                 user's answers in mind."
                    .to_owned(),
                "\"Which?\"=\"The second.\".",
            ),
            ("User has answered your questions: none".to_owned(), "User has answered your questions: none"),
            (format!("{id}\n{answer}"), &format!("{id}\n{answer}")),
            ("see agentId: a (b)".to_owned(), "see agentId: a (b)"),
            ("<usage>a [b] c</usage>".to_owned(), "<usage>a [b] c</usage>"),
            (answer.to_owned(), answer),
            (format!("{answer}\n[rerun: b2]\n[result-id: r17]\n"), answer),
            ("[rerun: b2]".to_owned(), ""),
            (format!("[result-id: r17]\n{answer}\n"), &format!("[result-id: r17]\n{answer}\n")),
        ] {
            assert_eq!(unwrapped(Cow::Borrowed(&text)), expected, "{text}");
            assert_eq!(unwrapped(Cow::Owned(text.clone())), expected, "{text}");
        }
    }

    #[test]
    fn a_command_of_the_persons_is_read_with_what_came_of_it() {
        for (note, next, expected) in [
            (
                "<bash-input> git push</bash-input>",
                Some("<bash-stdout></bash-stdout><bash-stderr>To github\nmain -> main</bash-stderr>"),
                Some(("git push", Some("To github\nmain -> main"))),
            ),
            ("<bash-input>ls</bash-input>", Some("other"), Some(("ls", None))),
            (
                "<user_shell_command>\n<command>\nls\n</command>\n<result>\nExit code: 0\n</result>\n</user_shell_command>",
                None,
                Some(("ls", Some("Exit code: 0"))),
            ),
            ("<bash-stdout>a</bash-stdout>", None, None),
            ("see <bash-input>ls</bash-input>", None, None),
        ] {
            let actual = OwnCommand::of(note, next).map(|own| (own.command, own.output));
            assert_eq!(actual, expected, "{note}");
        }
    }

    #[test]
    fn the_text_in_an_envelope_is_read_and_data_stays_data() {
        for (text, expected) in [
            ("Chunk ID: a1\nWall time: 0.1 seconds\nProcess exited with code 1\nOutput:\none\n", "one\n"),
            ("Exit code: 0\nWall time: 2 seconds\nOutput:", ""),
            ("Output:\none", "Output:\none"),
            ("Wall time: 2 seconds\none\nOutput:\ntwo", "Wall time: 2 seconds\none\nOutput:\ntwo"),
            (
                r#"{"output":"first line\nsecond\tline\n","metadata":{"exit_code":0,"duration_seconds":0.1}}"#,
                "first line\nsecond\tline\n",
            ),
            (
                r#"[{"n":1,"type":"text","text":"a long first line\nand a long second line"}]"#,
                "a long first line\nand a long second line\nn: 1\ntype: text\n",
            ),
            (r#"{"output":"one line","ok":true}"#, "one line\nok: true\n"),
            (r#"{"result":"found","price":400}"#, "found\nprice: 400\n"),
            (r#"{"stdout":"","stderr":"no such file","exit_code":1}"#, "\nstderr: no such file\n"),
            (r#"{"order":"one line","ok":true}"#, r#"{"order":"one line","ok":true}"#),
            (
                r#"{"orders":[4711,4712,4713,4714,4715,4716],"note":"a\nb"}"#,
                r#"{"orders":[4711,4712,4713,4714,4715,4716],"note":"a\nb"}"#,
            ),
            ("{ not JSON \\n", "{ not JSON \\n"),
            (
                "<shell\n command=\"make\"\n exit_code=\"2\"\n><stdout><![CDATA[one\ntwo\n]]></stdout>\n<stderr><![CDATA[no rule]]></stderr></shell>",
                "one\ntwo\nno rule\n",
            ),
            ("<file><![CDATA[cut off", "cut off\n"),
            ("<p>See <![CDATA[a]]> here</p>", "<p>See <![CDATA[a]]> here</p>"),
            ("plain\ntext", "plain\ntext"),
            (r#"{"content":[{"type":"text","text":"No rights."}],"isError":true}"#, "No rights."),
            (r#"[{"type":"text","text":"one"},{"type":"text","text":"two"}]"#, "one\ntwo"),
            (r#"[{"type":"text","text":"one","size":3}]"#, r#"[{"type":"text","text":"one","size":3}]"#),
            (
                "     1\u{2192}{}\n\n<system-reminder>\nConsider it.\n</system-reminder>\n\n<system-reminder>\nAnd it.\n</system-reminder>\n",
                "     1\u{2192}{}",
            ),
            (
                "<system-reminder>The file is empty.</system-reminder>",
                "<system-reminder>The file is empty.</system-reminder>",
            ),
            (
                "<path>/w/a.rs</path>\n<type>file</type>\n<content>\n1: a\n\n(End of file - total 1 lines)\n</content>\n\n<system-reminder>\nConsider it.\n</system-reminder>",
                "1: a",
            ),
            ("\x1b[31m1 failed\x1b[0m,\t\x1b[1m2 passed\x1b[0m\r\n", "1 failed,\t2 passed\r\n"),
            (r#"{"output":"\u001b[32mok\u001b[0m"}"#, "ok\n"),
            (
                "Command: bash -lc 'cat > a\nFAILED = 1'\nChunk ID: 7690d4\nProcess exited with code 0\nOutput:\nok",
                "ok",
            ),
        ] {
            assert_eq!(unwrapped(Cow::Borrowed(text)), expected, "{text}");
        }
    }
}
