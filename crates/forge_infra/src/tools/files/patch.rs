//! `patch`: several replacements in a file, each found by the text to replace; all of them or none.

use std::time::Duration;

use forge_domain::FileChange;
use serde::Deserialize;
use serde_json::{Value, json};
use similar::TextDiff;

use super::workspace::Workspace;
use super::write::put;
use super::{FileTool, Limits, Touch, check_unchanged};
use crate::tools::arguments::Arguments;
use crate::tools::failure::ToolFailure;

/// The most changed lines that are shown.
const MAX_SHOWN: usize = 80;
/// The most time for finding the smallest difference; after that, a larger one is shown.
const DIFF_TIME: Duration = Duration::from_secs(1);

pub(in crate::tools) struct Patch;

#[derive(Deserialize)]
struct Wanted {
    path: String,
    edits: Vec<Edit>,
}

#[derive(Deserialize)]
struct Edit {
    old_text: String,
    new_text: String,
    #[serde(default)]
    all: bool,
}

impl FileTool for Patch {
    fn name(&self) -> &'static str {
        "patch"
    }

    fn description(&self) -> String {
        "Changes places of a text file of the workspace. Each edit names the text that stands there now, exactly as `read` \
         shows it and with enough around it to be the only such place, and what is to stand there instead. The edits are \
         made in order, all of them or none."
            .to_owned()
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1, "description": "The file, relative to the root of the workspace."},
                "edits": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "properties": {
                            "old_text": {"type": "string", "minLength": 1, "description": "What stands there now."},
                            "new_text": {"type": "string", "description": "What is to stand there."},
                            "all": {"type": "boolean", "description": "Change every place that has `old_text`."}
                        },
                        "required": ["old_text", "new_text"],
                        "additionalProperties": false
                    }
                }
            },
            "required": ["path", "edits"],
            "additionalProperties": false
        })
    }

    fn touch(&self, _: &Arguments) -> Touch {
        Touch::Writes
    }

    fn preview(
        &self,
        arguments: &Arguments,
        workspace: &Workspace,
    ) -> Result<Option<FileChange>, ToolFailure> {
        let Wanted { path, edits } = arguments.read()?;
        let before = workspace.text(&path)?;
        let after = apply_edits(&before, &edits).map_err(ToolFailure::Refused)?;
        Ok(Some(FileChange { path, before: Some(before), after }))
    }

    fn run(
        &self,
        arguments: &Arguments,
        workspace: &Workspace,
        limits: &Limits,
    ) -> Result<String, ToolFailure> {
        let Wanted { path, edits } = arguments.read()?;
        let _writing = workspace.writing();
        let before = workspace.text(&path)?;
        check_unchanged(limits, &path, Some(before.as_bytes()))?;
        let after = apply_edits(&before, &edits)
            .map_err(|why| ToolFailure::Refused(format!("`{path}` was not changed: {why}")))?;
        put(workspace, &path, after.as_bytes())?;
        limits.scope.note_outcome(format!("{} bytes", after.len()));
        Ok(format!("changed `{path}`:\n{}", difference(&before, &after)))
    }
}

/// Returns the text after all edits, or the reason why they fail.
fn apply_edits(text: &str, edits: &[Edit]) -> Result<String, String> {
    let many = edits.len() > 1;
    edits.iter().enumerate().try_fold(text.to_owned(), |text, (at, edit)| {
        apply_edit(&text, edit).map_err(|why| if many { format!("edit {}: {why}", at + 1) } else { why })
    })
}

fn apply_edit(text: &str, edit: &Edit) -> Result<String, String> {
    if edit.old_text == edit.new_text {
        return Err("`old_text` and `new_text` are the same".to_owned());
    }
    let (mut old, mut new) = (edit.old_text.clone(), edit.new_text.clone());
    if !text.contains(&old) && text.contains("\r\n") && !old.contains('\r') {
        // Models are shown such line ends and seldom write them.
        (old, new) = (old.replace('\n', "\r\n"), new.replace("\r\n", "\n").replace('\n', "\r\n"));
    }
    let places: Vec<usize> = text.match_indices(&old).map(|(at, _)| at).collect();
    match places.as_slice() {
        [] => Err(nowhere(text, &edit.old_text)),
        [_] => Ok(text.replacen(&old, &new, 1)),
        _ if edit.all => Ok(text.replace(&old, &new)),
        several => {
            let lines: Vec<String> =
                several.iter().take(10).map(|at| line_of(text, *at).to_string()).collect();
            Err(format!(
                "`old_text` stands there {} times, in the lines {}{}: name more of what is around the one that is \
                 meant, or set `all`",
                several.len(),
                lines.join(", "),
                if several.len() > lines.len() { "…" } else { "" }
            ))
        }
    }
}

/// Returns the number of the line that contains the byte `at`.
fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Reports that `old` is missing, and shows the closest text.
fn nowhere(text: &str, old: &str) -> String {
    let bare = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let wanted: Vec<String> = old.trim().lines().map(bare).collect();
    let lines: Vec<&str> = text.lines().collect();
    let is_here = |at: &usize| {
        wanted.iter().enumerate().all(|(n, want)| lines.get(at + n).is_some_and(|line| bare(line) == *want))
    };
    if let Some(at) = (0..lines.len()).find(is_here).filter(|_| !wanted.is_empty()) {
        let end = at + wanted.len();
        let there = lines[at..end].join("\n");
        return format!(
            "`old_text` is there with other blanks only, in the lines {} to {end}:\n{there}",
            at + 1
        );
    }
    let first = wanted.iter().find(|line| line.chars().count() >= 4);
    match first.and_then(|first| lines.iter().position(|line| bare(line).contains(first.as_str()))) {
        Some(at) => format!(
            "`old_text` is not there; line {} begins like it and continues differently: `read` it again \
             from there",
            at + 1
        ),
        None => "`old_text` is not there: `read` the file and copy what is to be changed exactly".to_owned(),
    }
}

/// Returns the changes as a diff of limited length.
fn difference(before: &str, after: &str) -> String {
    let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(before, after);
    let diff = diff.unified_diff().context_radius(2).to_string();
    let lines: Vec<&str> = diff.lines().collect();
    match lines.len() {
        n if n > MAX_SHOWN => format!("{}\n[… {} more lines]", lines[..MAX_SHOWN].join("\n"), n - MAX_SHOWN),
        _ => lines.join("\n"),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use crate::tools::fixture::Fixture;

    fn edit(old: &str, new: &str) -> serde_json::Value {
        json!({"old_text": old, "new_text": new})
    }

    #[tokio::test]
    async fn the_only_such_place_is_changed_or_nothing() {
        const TEXT: &str = "fn one() {\n    call();\n}\n\nfn two() {\n    call();\n}\n";
        let everywhere = json!({"old_text": "call", "new_text": "run", "all": true});
        for (edits, expected) in [
            (json!([edit("fn one", "fn first")]), Ok(TEXT.replace("fn one", "fn first"))),
            (
                json!([edit("fn one() {\n    call", "fn one() {\n    run")]),
                Ok(TEXT.replacen("call", "run", 1)),
            ),
            (json!([everywhere]), Ok(TEXT.replace("call", "run"))),
            // Each sees what the one before it left.
            (
                json!([edit("fn one", "fn three"), edit("fn three() {\n    call", "fn three() {\n    run")]),
                Ok(TEXT.replacen("call", "run", 1).replace("fn one", "fn three")),
            ),
            (
                json!([edit("\n\nfn two() {\n    call();\n}\n", "\n")]),
                Ok("fn one() {\n    call();\n}\n".to_owned()),
            ),
            (
                json!([edit("call();", "run();")]),
                Err(
                    "`old_text` stands there 2 times, in the lines 2, 6: name more of what is around the one that is \
                     meant, or set `all`",
                ),
            ),
            (
                json!([edit("fn one", "fn first"), edit("nowhere", "x")]),
                Err(
                    "edit 2: `old_text` is not there: `read` the file and copy what is to be changed exactly",
                ),
            ),
            (
                json!([edit("fn two() {\n  call();\n}", "")]),
                Err(
                    "`old_text` is there with other blanks only, in the lines 5 to 7:\nfn two() {\n    call();\n}",
                ),
            ),
            (
                json!([edit("fn two() {\n    other();", "")]),
                Err("`old_text` is not there; line 5 begins like it and continues differently: `read` it \
                     again from there"),
            ),
            (json!([edit("call", "call")]), Err("`old_text` and `new_text` are the same")),
        ] {
            let fixture = Fixture::new(&[("a.rs", TEXT.as_bytes())]);
            let arguments = json!({"path": "a.rs", "edits": edits}).to_string();
            let actual = fixture.call("patch", &arguments).await;
            let left = std::fs::read_to_string(fixture.root().join("a.rs")).unwrap();
            match expected {
                Ok(text) => assert_eq!((actual.is_ok(), left), (true, text), "{arguments}"),
                Err(why) => {
                    let why = format!("`a.rs` was not changed: {why}");
                    assert_eq!((actual, left), (Err(why), TEXT.to_owned()), "{arguments}");
                }
            }
        }
    }

    #[tokio::test]
    async fn what_changed_is_shown_and_line_ends_stay() {
        let fixture =
            Fixture::new(&[("a", b"one\ntwo\nthree\n"), ("crlf", b"one\r\ntwo\r\n"), ("bin", b"\xff\xfe")]);
        fixture
            .check(
                "patch",
                &[
                    (
                        r#"{"path": "a", "edits": {"old_text": "two", "new_text": "2"}}"#,
                        Ok("changed `a`:\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"),
                    ),
                    (
                        r#"{"path": "bin", "edits": [{"old_text": "a", "new_text": "b"}]}"#,
                        Err("`bin` is not UTF-8 text and cannot be shown (2 bytes); if it is text in another \
                             encoding, `iconv` in a shell converts it"),
                    ),
                    (
                        r#"{"path": "../secret", "edits": [{"old_text": "outside", "new_text": "b"}]}"#,
                        Err("`../secret` leads outside the workspace; give a path inside it, relative to its root"),
                    ),
                    (
                        r#"{"path": "gone", "edits": [{"old_text": "a", "new_text": "b"}]}"#,
                        Err("there is no `gone` in the workspace; `list` shows what is there"),
                    ),
                    (r#"{"path": "a", "edits": [{"old_text": "", "new_text": "b"}]}"#, Err("`edits[0].old_text` must not be empty")),
                ],
            )
            .await;
        let crlf = json!({"path": "crlf", "edits": [edit("one\ntwo\n", "1\n2\n")]}).to_string();
        fixture.call("patch", &crlf).await.unwrap();
        assert_eq!(std::fs::read(fixture.root().join("crlf")).unwrap(), b"1\r\n2\r\n");
    }

    /// Checks that the later of two simultaneous calls sees what the earlier one wrote.
    #[tokio::test(flavor = "multi_thread")]
    async fn calls_at_once_lose_nothing() {
        let lines: String = (0..20).map(|n| format!("line {n};\n")).collect();
        let fixture = Fixture::new(&[("a", lines.as_bytes())]);
        let calls = (0..20).map(|n| {
            let edits = [edit(&format!("line {n};"), &format!("done {n};"))];
            json!({"path": "a", "edits": edits}).to_string()
        });
        let calls: Vec<String> = calls.collect();
        let results = futures::future::join_all(calls.iter().map(|call| fixture.call("patch", call))).await;
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        assert_eq!(std::fs::read_to_string(fixture.root().join("a")).unwrap(), lines.replace("line", "done"));
    }
}
