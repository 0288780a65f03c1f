//! A tool call and its result as people write them.

use forge_domain::{StepStatus, TaskStep, ToolCall, ToolResult};
use serde_json::{Map, Value};

/// Returns a call with its main arguments, such as `Read(src/main.py)`; the arguments as the model wrote them
/// for a tool that is not built in.
pub(crate) fn call_text(call: &ToolCall) -> String {
    let arguments: Map<String, Value> = serde_json::from_str(&call.arguments).unwrap_or_default();
    let text = |key: &str| arguments.get(key).and_then(Value::as_str);
    let of = |verb: &str, key: &str| text(key).map(|text| format!("{verb}({text})"));
    let written = match call.name.as_str() {
        "read" => of("Read", "path"),
        "list" => Some(format!("List({})", text("path").unwrap_or("."))),
        "write" => of("Write", "path"),
        "patch" => of("Edit", "path"),
        "shell" => of("Shell", "command"),
        "fetch" => of("Fetch", "url"),
        TaskStep::TOOL => TaskStep::of_call(&call.arguments).map(|steps| steps_text(&steps)),
        "search" => text("pattern").map(|pattern| {
            format!(
                "Search({pattern:?}{})",
                text("path").map(|path| format!(" in {path}")).unwrap_or_default()
            )
        }),
        _ => None,
    };
    written.unwrap_or_else(|| format!("{} {}", call.name, call.arguments))
}

/// Returns steps in one line: how many are done, and the one that the agent works on.
fn steps_text(steps: &[TaskStep]) -> String {
    let current = steps.iter().find(|step| step.status == StepStatus::InProgress);
    let current = current.map(|step| format!(": {}", step.step)).unwrap_or_default();
    format!("Steps({} of {} done{current})", TaskStep::count_done(steps), steps.len())
}

/// Returns a result in one line if it is that of an edit, such as `Edited src/main.py (+1 −1)`, or that of a
/// written file, such as `Created src/main.py (+60)`.
pub(super) fn edit_text(result: &ToolResult) -> Option<String> {
    let tool = result.name.as_ref().filter(|_| !result.is_error)?;
    let text = result.content.to_text();
    match tool.as_str() {
        "patch" => patch_text(&text),
        "write" => write_text(&text),
        _ => None,
    }
}

/// Returns the result of a command that failed, its status and its last line first; `None` for anything else.
pub(super) fn failure_text(result: &ToolResult) -> Option<String> {
    result.name.as_ref().filter(|name| result.is_error && name.as_str() == "shell")?;
    let text = result.content.to_text();
    // Hints about the sandbox come after the status.
    let mut rest = text.as_str();
    while let Some((before, line)) = rest.rsplit_once('\n')
        && line.starts_with("[perhaps ")
    {
        rest = before;
    }
    let hints = text.strip_prefix(rest)?.trim_start();
    let (printed, status) = rest.strip_suffix(']')?.rsplit_once("\n\n[")?;
    let last = printed.trim_end().lines().next_back()?;
    // The caller shows the first line and counts the others.
    let before = printed.trim_end().strip_suffix(last)?;
    Some(format!("{status}: {last}\n{before}{hints}"))
}

/// Returns the result of a written file in one line.
fn write_text(text: &str) -> Option<String> {
    let (what, lines) = text.strip_suffix(')')?.rsplit_once(" (")?;
    let count = lines.split_once(' ')?.0;
    if let Some(path) = what.strip_prefix("created `").and_then(|rest| rest.strip_suffix('`')) {
        return Some(format!("Created {path} (+{count})"));
    }
    let (path, _) = what.strip_prefix('`')?.rsplit_once("` was ")?;
    Some(format!("Wrote {path} ({lines})"))
}

/// Returns the result of a patch in one line.
fn patch_text(text: &str) -> Option<String> {
    let (path, diff) = text.strip_prefix("changed `")?.split_once("`:\n")?;
    // A long difference is cut off: its counts would be wrong.
    if diff.lines().any(|line| line.starts_with("[… ")) {
        return Some(format!("Edited {path}"));
    }
    let count = |mark| diff.lines().filter(|line| line.starts_with(mark)).count();
    Some(format!("Edited {path} (+{} −{})", count('+'), count('-')))
}

#[cfg(test)]
mod tests {
    use forge_domain::ToolName;
    use pretty_assertions::assert_eq;

    use super::*;

    fn call(name: &str, arguments: &str) -> ToolCall {
        ToolCall { id: "1".into(), name: ToolName::new(name).unwrap(), arguments: arguments.into() }
    }

    #[test]
    fn a_call_reads_as_people_write() {
        for (name, arguments, expected) in [
            ("read", r#"{"path": "src/main.py", "offset": 3}"#, "Read(src/main.py)"),
            ("list", "{}", "List(.)"),
            ("patch", r#"{"path": "a", "edits": []}"#, "Edit(a)"),
            ("shell", r#"{"command": "cargo test"}"#, "Shell(cargo test)"),
            ("search", r#"{"pattern": "x", "path": "src"}"#, "Search(\"x\" in src)"),
            ("search", r#"{"pattern": "x"}"#, "Search(\"x\")"),
            (
                "steps",
                r#"{"steps": [{"step": "Read", "status": "completed"}, {"step": "Fix", "status": "in_progress"}]}"#,
                "Steps(1 of 2 done: Fix)",
            ),
            ("read", "{", "read {"),
            ("git__log", r#"{"n": 1}"#, r#"git__log {"n": 1}"#),
        ] {
            assert_eq!(call_text(&call(name, arguments)), expected);
        }
    }

    #[test]
    fn a_failed_command_has_its_status_first() {
        for (name, text, expected) in [
            ("shell", "a\nb\n\n[exit code 3]", Some("exit code 3: b\na\n")),
            ("shell", "b\n\n[exit code 3]", Some("exit code 3: b\n")),
            (
                "shell",
                "b\n\n[exit code 1]\n[perhaps x]\n[perhaps y]",
                Some("exit code 1: b\n[perhaps x]\n[perhaps y]"),
            ),
            ("shell", "no", None),
            ("read", "a\n\n[exit code 3]", None),
        ] {
            let result = ToolResult::error(&call(name, "{}"), text);
            assert_eq!(failure_text(&result).as_deref(), expected);
        }
        let result = ToolResult::answer(&call("shell", "{}"), "b\n\n[exit code 0]");
        assert_eq!(failure_text(&result), None);
    }

    #[test]
    fn an_edit_is_counted_if_all_of_it_is_there() {
        for (name, text, expected) in [
            ("patch", "changed `a`:\n@@ -1 +1 @@\n-x\n+y", Some("Edited a (+1 −1)")),
            ("patch", "changed `a`:\n+y\n[… 4 more lines]", Some("Edited a")),
            ("shell", "changed `a`:\n+y", None),
            ("write", "created `a b.py` (60 lines)", Some("Created a b.py (+60)")),
            ("write", "`a` was 3 bytes and now has 20 (1 line)", Some("Wrote a (1 line)")),
            ("write", "something else", None),
        ] {
            let result = ToolResult::answer(&call(name, "{}"), text);
            assert_eq!(edit_text(&result).as_deref(), expected);
        }
    }
}
