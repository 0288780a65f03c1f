use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::super::root::start_of;
use super::*;
use crate::compaction::fixture::Characters;
use crate::{Conversation, ToolCall, ToolName, ToolResult};

/// Returns the record of calls, each a tool, its arguments and its result.
fn ledger(calls: &[Call<'_>]) -> Record {
    ledger_after(&Record::default(), calls)
}

/// Returns the record of calls after an earlier record.
fn ledger_after(earlier: &Record, calls: &[Call<'_>]) -> Record {
    let answered = calls.iter().map(|(name, arguments, result)| {
        let call = ToolCall {
            id: "c".into(),
            name: ToolName::new(*name).unwrap(),
            arguments: arguments.to_string(),
        };
        let result = ToolResult::answer(&call, *result);
        (call, result)
    });
    ledger_of(earlier, answered)
}

/// Returns the record of answered calls after an earlier record.
fn ledger_of(earlier: &Record, answered: impl IntoIterator<Item = (ToolCall, ToolResult)>) -> Record {
    let mut log = Conversation::new();
    for (call, result) in answered {
        for message in [Message::calling(vec![call]), Message::tool(result)] {
            log.append(ContextMessage::count(message, &Characters));
        }
    }
    let view = log.view();
    let mut ledger = Ledger::new(Root::of(view.messages(), None, start_of(view.messages())));
    ledger.take_record(earlier);
    ledger.take_all(&view, view.messages());
    let mut record = Record::default();
    ledger.write_into(&mut record);
    record
}

/// Returns the outcome of the last test or, without one, of the last other check.
fn last_outcome(record: &Record) -> Option<Outcome> {
    record.last_test.as_ref().or(record.last_check.as_ref()).map(|(_, outcome)| *outcome)
}

/// Returns the arguments that name a file.
fn path(path: &str) -> Value {
    json!({"file_path": path})
}

/// Returns a call of a command that wrote nothing.
fn run(command: &str) -> Call<'static> {
    ("Bash", json!({"command": command}), "")
}

/// A tool, its arguments and its result.
type Call<'a> = (&'a str, Value, &'a str);

/// Checks, for calls, the files of their record, in a line each.
fn check_files(table: &[(Vec<Call<'_>>, Vec<&str>)]) {
    for (calls, expected) in table {
        assert_eq!(&files(calls), expected, "{calls:?}");
    }
}

/// Returns the files of the record of calls, in a line each.
fn files(calls: &[Call<'_>]) -> Vec<String> {
    let files = ledger(calls).files.into_iter();
    files.map(|(path, state)| format!("{} {path}", state.word())).collect()
}

#[test]
fn files_keep_their_last_state() {
    let patch = |lines: &str| json!({"input": format!("*** Begin Patch\n{lines}")});
    check_files(&[
        (vec![("Write", path("a"), "ok")], vec!["created a"]),
        (vec![("Write", path("a"), "ok"), ("Edit", path("a"), "ok")], vec!["created a"]),
        (vec![("Read", path("a"), "text"), ("Write", path("a"), "ok")], vec!["modified a"]),
        (vec![("view", path("a"), "text"), ("create", path("a"), "ok")], vec!["modified a"]),
        (vec![("delete_lines", path("a"), "ok")], vec!["modified a"]),
        (vec![("create", path("a"), "ok"), run("rm a"), ("create", path("a"), "ok")], vec!["created a"]),
        (vec![("create_directory", path("a"), "ok")], vec![]),
        (vec![("edit_file", json!({"target_file": "a"}), "The changes were made.")], vec!["modified a"]),
        (
            vec![("Edit", path("a"), "ok"), ("Edit", path("b"), "ok"), ("Edit", path("a"), "ok")],
            vec!["modified b", "modified a"],
        ),
        (
            vec![
                ("edit", path("a.py"), "ok"),
                ("move_file", json!({"source": "a.py", "destination": "b.py"}), "ok"),
            ],
            vec!["deleted a.py", "created b.py"],
        ),
        (
            vec![("apply_patch", patch("*** Add File: n\n*** Delete File: o\n"), "ok")],
            vec!["created n", "deleted o"],
        ),
        (
            vec![("apply_patch", patch("*** Delete File: .next/types/a.ts\n*** Delete File: o\n"), "ok")],
            vec!["deleted o"],
        ),
        (
            vec![("apply_patch", patch("*** Update File: o\n*** Move to: n\n"), "ok")],
            vec!["deleted o", "created n"],
        ),
        (
            vec![
                ("Write", path("/w/a.py"), "ok"),
                ("Write", path("/w/b/c.py"), "ok"),
                ("Write", path("/w/b/e.py"), "ok"),
                ("Write", path("/w/b/d.py"), "ok"),
                ("Write", path("/w/da.py"), "ok"),
                run("cd /w && python a.py > out; rm -f a.py out 2>/dev/null; rm *.py"),
                run("git rm -r /w/b/"),
            ],
            vec![
                "deleted /w/a.py",
                "deleted /w/b/c.py",
                "deleted /w/b/d.py",
                "deleted /w/b/e.py",
                "deleted /w/da.py",
            ],
        ),
        (
            vec![
                ("Write", path("/w/a/mod.rs"), "ok"),
                ("Write", path("/w/b/mod.rs"), "ok"),
                run("cd b && rm mod.rs"),
            ],
            vec!["deleted /w/b/mod.rs", "created /w/a/mod.rs"],
        ),
        (vec![("edit", path("a"), "ok"), ("write", path("b"), "ok"), run("git stash")], vec!["created b"]),
        (
            vec![
                ("read", path("/w/a.json"), "{}"),
                ("write", path("/w/b.json"), "ok"),
                run("cd /w && rm a.json b.json c.json && export_it > a.json"),
                run("cd /w && export_it 2>/dev/null > b.json; export_it > c.json"),
            ],
            vec!["modified /w/a.json", "created /w/b.json"],
        ),
    ]);
}

#[test]
fn what_git_takes_back_is_as_it_was_committed() {
    check_files(&[
        (
            vec![
                ("edit", path("a"), "ok"),
                ("Bash", json!({"command": "git stash"}), "No local changes to save"),
            ],
            vec!["modified a"],
        ),
        (
            vec![
                ("edit", path("a"), "ok"),
                ("write", path("b"), "ok"),
                run("git commit -am one"),
                ("edit", path("c"), "ok"),
                run("git checkout -- ."),
            ],
            vec!["modified a", "created b"],
        ),
        (
            vec![
                ("edit", path("a"), "ok"),
                run("git commit -am one"),
                ("write", path("b"), "ok"),
                ("write", path("c"), "ok"),
                run("git add b && git commit -m two"),
                run("git reset --hard HEAD~1"),
            ],
            vec!["modified a", "created c"],
        ),
        (
            vec![
                ("edit", path("a"), "ok"),
                run("git stash"),
                ("edit", path("b"), "ok"),
                run("git stash"),
                run("git stash pop stash@{1}"),
                run("git stash drop"),
                run("git stash pop"),
            ],
            vec!["modified a"],
        ),
    ]);
}

#[test]
fn what_commands_and_servers_do_to_files_is_known() {
    check_files(&[
        (
            vec![
                ("write", path("/w/src/one.py"), "ok"),
                ("write", path("/w/src/tmp1.py"), "ok"),
                ("write", path("/w/src/two.py"), "ok"),
                run("cd /w && rm -f src/tmp*.py"),
                ("Bash", json!({"command": "cd /w && git clean -fd"}), "Removing src/two.py"),
            ],
            vec!["deleted /w/src/tmp1.py", "deleted /w/src/two.py", "created /w/src/one.py"],
        ),
        (
            vec![
                ("write", path("/w/app/api/src/a.ts"), "ok"),
                ("write", path("/w/app/b.ts"), "ok"),
                run("cd /w && mv app/* . && rmdir app"),
                ("edit", path("/w/api/src/a.ts"), "ok"),
            ],
            vec!["created b.ts", "created api/src/a.ts"],
        ),
        (
            vec![("write", path("/w/out/a/b.ts"), "ok"), run("cd /w && rm out/*"), run("rm -rf /w/out/*")],
            vec!["deleted /w/out/a/b.ts"],
        ),
        (
            vec![
                ("mcp__s__replace_symbol_body", json!({"relative_path": "a", "body": "x"}), "ok"),
                ("mcp__fs__write_files", json!({"files": [{"path": "b", "content": "x"}]}), "ok"),
                ("mcp__o__save_document", json!({"document": "d1"}), "Document saved to /w/c.docx"),
                ("mcp__fs__read_files", json!({"files": [{"path": "e"}]}), "text"),
            ],
            vec!["modified a", "created b", "created /w/c.docx"],
        ),
        (
            vec![("mcp__fs__write_file", path("a"), "ok"), ("mcp__fs__delete_file", path("a"), "ok")],
            vec!["deleted a"],
        ),
        (
            vec![
                ("Read", path("/w/a.py"), "text"),
                run("cd /w && sed s/x/y/ a.py > a.py.new && mv a.py.new a.py"),
                run("cd /w; sed s/x/y/ b.py > /tmp/b; mv /tmp/b b.py; mv c.txt d.txt; mv e.c.tmp e.c"),
            ],
            vec!["modified /w/a.py", "created b.py", "modified e.c"],
        ),
        (
            vec![
                ("Bash", json!({"command": "cat > t.py <<'E'\nx\nE\npytest t.py"}), "1 failed"),
                ("Bash", json!({"command": "pytest && sed -i s/x/y/ u.py"}), "1 failed"),
                ("Bash", json!({"command": "git stash && pytest; git stash pop"}), "1 failed"),
                (
                    "Bash",
                    json!({"command": "mkdir z; echo x > z/a.py; rm t.py && make"}),
                    "make: *** [x] Error 2",
                ),
            ],
            vec!["deleted t.py", "created z/a.py"],
        ),
    ]);
}

#[test]
fn a_change_that_was_refused_is_none() {
    let path = json!({"path": "a"});
    for (tool, arguments, result, is_made) in [
        ("Edit", &path, "Error: Exit code 1", false),
        ("create", &path, "Ran into [Errno 2] No such file or directory: 'a'", false),
        ("edit", &path, "Your proposed edit has introduced new syntax error(s).\nRetry.", false),
        ("edit", &path, "No replacement was performed: not there.", false),
        ("edit", &path, "File has been modified since it was read.", false),
        ("edit", &path, "Found 3 occurrences of the text; it must be unique.", false),
        ("edit", &path, r#"{"status": "error", "message": "no"}"#, false),
        (
            "edit",
            &path,
            "ERROR while calling tool: Wrong place.\nPlease check your input and try again.",
            false,
        ),
        ("apply", &path, "apply_patch verification failed: Failed to find the lines", false),
        ("edit", &json!({"path": "a", "dryRun": true}), "-a\n+b", false),
        ("Bash", &json!({"command": "sed -i s/x/y/ a"}), "sed: can't read a: No such file", false),
        ("edit", &path, "Updated a, which could not be formatted.", true),
        ("edit", &path, "// It does not move.\nfn a() {}", true),
        ("edit", &path, "if not found: return", true),
        ("edit", &path, "The file /w/access-denied/a.tsx has been updated.", true),
        ("edit", &path, "[File: /w/errors/failed.py (90 lines total)]", true),
        ("edit", &path, "The file was written.\n1: error: Something went wrong\n2: 2 failed", true),
    ] {
        let files = files(&[(tool, arguments.clone(), result)]);
        assert_eq!(files, ["modified a"][usize::from(!is_made)..], "{tool}: {result}");
    }
    for (result, is_made) in [
        ("ERROR while calling tool: File already exists. You must edit it.", false),
        ("File already exists. You must use an edit tool to modify it.", false),
        ("File a already exists and was overwritten.", true),
        ("Created a, which already exists in git.", true),
    ] {
        let files = files(&[("create_file", path.clone(), result)]);
        assert_eq!(!files.is_empty(), is_made, "{result}");
    }
    for refused in [
        "The user denied this operation.",
        "Permission to use Bash has been denied.",
        "exec command rejected by user",
    ] {
        let record = ledger(&[
            ("write", json!({"path": "a.py"}), "ok"),
            ("Bash", json!({"command": "rm a.py"}), refused),
        ]);
        assert_eq!(
            (record.files.len(), record.files[0].1, record.errors.len()),
            (1, FileState::Created, 0),
            "{refused}"
        );
    }
    let path = json!({"path": "a.py"});
    for kept in ["rm: cannot remove 'a.py': Permission denied", "Error: Exit code 1"] {
        let removes = ("Bash", json!({"command": "rm -f a.py"}), kept);
        assert_eq!(files(&[("write", path.clone(), "ok"), removes]), ["created a.py"], "{kept}");
    }
}

#[test]
fn the_edits_that_aider_notes_are_known() {
    let mut log = Conversation::new();
    let note = "Applied edit to src/a.rs\nApplied edit to b.md\nCommit 6d6f57d feat: doors";
    let undone = "Applied edit to c.md\nCommit 6d6f57e feat: gates\nRemoved: 6d6f57e feat: gates";
    for message in [
        Message::user("Add a door."),
        Message::assistant("Here."),
        Message::user(note).noted_by("aider"),
        Message::user(undone).noted_by("aider"),
    ] {
        log.append(ContextMessage::count(message, &Characters));
    }
    let view = log.view();
    let mut ledger = Ledger::default();
    ledger.take_all(&view, view.messages());
    let mut record = Record::default();
    ledger.write_into(&mut record);
    let modified = ["src/a.rs", "b.md"].map(|path| (path.to_owned(), FileState::Modified));
    assert_eq!(record.files, modified);
}

#[test]
fn a_report_of_a_harness_ends_a_check_in_the_background() {
    let command = json!({"command": "npm test", "run_in_background": true}).to_string();
    let call = |id: &str| ToolCall {
        id: id.into(),
        name: ToolName::new("Bash").unwrap(),
        arguments: command.clone(),
    };
    for (told, outcome) in [
        ("<status>completed</status>\n<summary>It completed (exit code 0)</summary>", Outcome::Passed),
        ("<status>completed</status>\n<summary>It completed (exit code 1)</summary>", Outcome::Failed),
        ("<status>failed</status>", Outcome::Failed),
        ("<status>killed</status>", Outcome::Unclear),
    ] {
        let mut log = Conversation::new();
        let started = ToolResult::answer(&call("b"), "Command running in background with ID: b3f2.");
        let note = format!("<task-notification>\n<task-id>b3f2</task-id>\n{told}\n</task-notification>");
        for message in [
            Message::calling(vec![call("a")]),
            Message::tool(ToolResult::answer(&call("a"), "Tests: 2 failed, 5 total")),
            Message::calling(vec![call("b")]),
            Message::tool(started),
            Message::user(note).noted_by("harness"),
        ] {
            log.append(ContextMessage::count(message, &Characters));
        }
        let view = log.view();
        let mut ledger = Ledger::default();
        ledger.take_all(&view, view.messages());
        let mut record = Record::default();
        ledger.write_into(&mut record);
        assert_eq!(record.last_test.map(|(_, outcome)| outcome), Some(outcome), "{told}");
        assert_eq!(record.errors.is_empty(), outcome == Outcome::Passed, "{told}");
    }
}

#[test]
fn an_error_that_the_work_does_not_wait_for_stands_no_more() {
    let failed = ("Bash", json!({"command": "bd sync"}), "Error: no remote");
    let tested = ("Bash", json!({"command": "pytest"}), "FAILED tests/a.py::test_a\n1 failed");
    let others = |n: usize| vec![("Bash", json!({"command": "true"}), "ok"); n];
    for (first, n_others, stands) in [(&failed, 30, true), (&failed, 60, false), (&tested, 60, true)] {
        let record = ledger(&[vec![first.clone()], others(n_others)].concat());
        assert_eq!(record.errors.len(), usize::from(stands), "{first:?}, {n_others}");
    }
    for (command, result) in [
        ("bd unlink --help", "Error: unknown command \"unlink\""),
        ("bd unlink a", "Error: unknown command \"unlink\""),
        ("sudo grep FAILED a.log", "FAILED: import"),
    ] {
        assert_eq!(ledger(&[("Bash", json!({"command": command}), result)]).errors, [], "{command}");
    }
}

#[test]
fn an_error_of_a_change_stands_until_the_file_is_changed() {
    let failed =
        |file: &str| ("Edit", path(file), "<tool_use_error>String to replace not found</tool_use_error>");
    let patch = json!({"input": "*** Begin Patch\n*** Update File: src/a.py\n"});
    let relative = "ERROR while calling tool: Wrong path: a.py. Be sure to use an absolute path.";
    for (calls, stands) in [
        (vec![failed("a.py"), ("Write", path("a.py"), "ok")], false),
        (vec![("create_file", path("a.py"), relative), ("create_file", path("/w/a.py"), "ok")], false),
        (vec![failed("/w/src/a.py"), ("Edit", path("src/a.py"), "ok")], false),
        (vec![failed("src/a.py"), ("apply_patch", patch, "ok")], false),
        (vec![failed("/w/a.py"), run("cd /w && sed -i s/a/b/ a.py")], false),
        (vec![run("cd /w && ls"), failed("a.py"), ("Edit", path("/v/a.py"), "ok")], true),
        (vec![failed("a.py"), ("Write", path("ba.py"), "ok")], true),
        (vec![failed("a.py"), failed("/w/a.py")], true),
    ] {
        assert_eq!(ledger(&calls).errors.len(), usize::from(stands), "{calls:?}");
    }
}

#[test]
fn a_changed_file_may_be_named_by_the_result_alone() {
    let text = || json!({"text": "a"});
    check_files(&[
        (
            vec![("edit", text(), "Text replaced.\n[File: /w/a.py (90 lines total)]\n1:b")],
            vec!["modified /w/a.py"],
        ),
        (
            vec![
                ("bash", json!({"command": "create a.py"}), "[File: /w/a.py (1 lines total)]"),
                (
                    "bash",
                    json!({"command": "edit 3:4\nb = 1\nend_of_edit"}),
                    "[File: /w/c.py (90 lines total)]",
                ),
                (
                    "bash",
                    json!({"command": "edit 3:4\nb = (\nend_of_edit"}),
                    "Your proposed edit has introduced new syntax error(s).\n[File: /w/d.py (90 lines total)]",
                ),
            ],
            vec!["created /w/a.py", "modified /w/c.py"],
        ),
        (vec![("insert", text(), "14 lines")], vec![]),
        (vec![("create_branch", text(), "Created branch feature/login.")], vec![]),
        (vec![("write_note", text(), "The note was written to 'notes/a.md'.")], vec!["created notes/a.md"]),
        (
            vec![
                ("create", json!({"path": "a.py"}), "ok"),
                ("insert", text(), "[File: /w/a.py (9 lines total)]"),
                ("Bash", json!({"command": "rm a.py"}), ""),
            ],
            vec!["deleted a.py"],
        ),
    ]);
}

#[test]
fn what_a_shell_does_to_files_is_known() {
    use FileState::{Created, Deleted, Modified};
    for (calls, expected) in [
        (
            vec![
                ("Write", path("/w/src/a.py"), "ok"),
                ("Read", path("/w/src/b.py"), "text"),
                ("Edit", path("/w/src/c.py"), "ok"),
                run("cd /w && git mv src/a.py lib/a.py && mv src/c.py lib/"),
                run("sed -i 's/x/y/' src/b.py"),
                run("cat > d.py <<E\nx\nE"),
            ],
            vec![
                ("lib/a.py", Created),
                ("/w/src/c.py", Deleted),
                ("lib/c.py", Created),
                ("/w/src/b.py", Modified),
                ("d.py", Created),
            ],
        ),
        (
            vec![("Edit", path("a.py"), "ok"), ("Edit", path("b.py"), "ok"), run("git checkout -- a.py")],
            vec![("b.py", Modified)],
        ),
    ] {
        let actual = ledger(&calls).files;
        let expected: Vec<_> = expected.into_iter().map(|(path, state)| (path.to_owned(), state)).collect();
        assert_eq!(actual, expected, "{calls:?}");
    }
}

#[test]
fn the_last_test_and_check_and_their_outcomes_are_kept() {
    let run = |command: &'static str, result: &'static str| ("Bash", json!({"command": command}), result);
    let test = run("cargo test", "error: 3 tests");
    let told =
        |last: Option<(String, Outcome)>| last.map(|(run, outcome)| format!("{run} {}", outcome.word()));
    for (calls, expected) in [
        (
            vec![run("cd a && cargo test --all | tail -3", "test result: ok")],
            [Some("cargo test --all (in a) passed"), None],
        ),
        (vec![run("go vet ./... && go test ./...", "--- FAIL: TestX")], [Some("go test ./... failed"), None]),
        (vec![run("npm run lint", "Exit code 2")], [None, Some("npm run lint failed")]),
        (vec![run("CI=1 pytest -q", "3 passed")], [Some("CI=1 pytest -q passed"), None]),
        (vec![run("ls target/test", "a")], [None, None]),
        (
            vec![run("cd /w && Q=1 timeout 300 /w/.venv/bin/python3.12 -m pytest -q", "3 passed")],
            [Some("Q=1 timeout 300 /w/.venv/bin/python3.12 -m pytest -q passed"), None],
        ),
        (vec![run("uv pip install pytest", "done"), run("npm i -D vitest", "done")], [None, None]),
        (
            vec![run(
                "npm run build",
                "Output: built\nError: (none)\nExit Code: 0\nSignal: (none)\nPIDs: (none)\nPGID: 9",
            )],
            [None, Some("npm run build passed")],
        ),
        (vec![run("git commit -m 'cargo test'", "ok")], [None, None]),
        (
            vec![run("npm test", "Done successfully\n<returncode>1</returncode>")],
            [Some("npm test failed"), None],
        ),
        (vec![run("npm test", "Done successfully\n[exit 1]")], [Some("npm test failed"), None]),
        // Behind a pipe, the status is that of another command.
        (
            vec![run("npm run build 2>&1 | tail", "exit code: 0\na.ts(3,1): error TS2304: Cannot find x")],
            [None, Some("npm run build failed")],
        ),
        (
            vec![run("npm run build", "exit code: 0\nwarning: error: was renamed")],
            [None, Some("npm run build passed")],
        ),
        // A build says nothing about a failed test.
        (
            vec![test.clone(), run("cargo clippy", "ok")],
            [Some("cargo test failed"), Some("cargo clippy passed")],
        ),
        (
            vec![run("cargo clippy", "ok"), test.clone(), run("cargo test", "ok")],
            [Some("cargo test passed"), None],
        ),
    ] {
        let record = ledger(&calls);
        let actual = [told(record.last_test), told(record.last_check)];
        assert_eq!(actual, expected.map(|last| last.map(str::to_owned)), "{calls:?}");
    }
    assert_eq!(ledger(std::slice::from_ref(&test)).errors.len(), 1);
    assert_eq!(ledger(&[test, run("cargo build", "ok")]).errors, []);
}

/// Checks, for each command with its result, the outcome in the record, and that an error stands if it
/// failed.
fn check_outcomes(table: &[(&str, &str, bool)]) {
    for (command, result, passed) in table {
        let record = ledger(&[("Bash", json!({"command": command}), *result)]);
        let last = last_outcome(&record);
        let expected = if *passed { Outcome::Passed } else { Outcome::Failed };
        assert_eq!(last, Some(expected), "{command}: {result}");
        assert_eq!(record.errors.is_empty(), *passed, "{command}: {result}");
    }
}

#[test]
fn a_check_that_fails_is_known_whoever_runs_it() {
    check_outcomes(&[
        ("npx tsc", "src/app.ts(3,5): error TS2304: Cannot find name 'open'.\n\nFound 2 errors.", false),
        ("mypy src", "src/a.py:3: error: Incompatible return value type", false),
        ("ruff check .", "src/a.py:1:8: F401 [*] `os` imported but unused\nFound 3 errors.", false),
        ("npm run lint", "  12:5  error  'open' is never used\n\n✖ 1 problem (1 error, 0 warnings)", false),
        ("pytest -q", "ERROR tests/test_a.py\n1 error in 0.12s", false),
        ("mvn -q test", "[ERROR] Tests run: 3, Failures: 1, Errors: 0\n[INFO] BUILD FAILURE", false),
        ("go build ./...", "# example.org/a\n./main.go:5:2: undefined: readTable", false),
        ("make build", "main.c:3:5: error: expected ';'\nmake: *** [Makefile:4: main.o] Error 1", false),
        ("dotnet build", "Build FAILED.\n    0 Warning(s)\n    1 Error(s)", false),
        ("mix test", "3 tests, 1 failure", false),
        ("npm test 2>&1 | tail -5", "# tests 34\n# pass 33\n# fail 1", false),
        ("npm test", "ℹ tests 34\nℹ pass 34\nℹ fail 0", true),
        ("npm test", "✖ fills the cache (1.2ms)\nℹ tests 34\nℹ pass 33\nℹ fail 1", false),
        ("npx mocha", "  33 passing (20ms)\n  1 failing", false),
        ("dotnet test", "Failed!  - Failed:     1, Passed:    33, Total:    34", false),
        ("dotnet test", "Passed!  - Failed:     0, Passed:    34, Total:    34", true),
        ("vendor/bin/phpunit", "Tests: 34, Assertions: 60, Failures: 1.", false),
        ("bundle exec rspec", "34 examples, 1 failure", false),
        ("bin/rails test", "34 runs, 60 assertions, 0 failures, 0 errors, 0 skips", true),
        ("ctest", "97% tests passed, 1 tests failed out of 34", false),
        ("bats test/", " ✗ b\n34 tests, 1 failure", false),
        ("swift build", "/a/main.swift:3:5: error: cannot find 'open' in scope", false),
        ("npm test", "Error: Not implemented: navigation\n Tests  12 passed (12)", true),
        ("cargo test", "test result: ok. 8 passed; 0 failed; 0 ignored", true),
        ("make check", "main.c:3:5: warning: unused variable 'x'\n3 tests, 0 failures", true),
        ("go test ./...", "ok  \texample.org/a\t0.012s", true),
        ("go test ./...", r#"{"output":"ok  \texample.org/a","metadata":{"exit_code":0}}"#, true),
        ("go test ./...", r#"{"output":"error: it stopped","metadata":{"exit_code":1}}"#, false),
        ("go test ./...", "failed in sandbox: go: downloading go1.25.3", false),
        ("npm test", r#"{"success": false, "error": "no such script"}"#, false),
        ("make -j 4", "cc -c a.c\nmake: *** [Makefile:4: a.o] Error 2", false),
        (
            "npm test",
            "<status>failed</status>\n<exit_code>1</exit_code>\n<stderr>error: it broke</stderr>",
            false,
        ),
        ("npm test", "<status>completed</status>\n<exit_code>0</exit_code>\n<stdout>fine</stdout>", true),
        ("npx mocha", "> mocha --timeout 5000\n  3 passing (20ms)", true),
        ("pytest -q", "FAIL Required test coverage of 80% not reached.\n12 passed in 1.20s", false),
        ("make all; echo \"exit code: $?\"", "Exit code: 0\nOutput:\nld: error: no -lz\nexit code: 1", false),
        ("make test", "8 passed in 0.12s\nmake: *** [test_b] Error 1", false),
        ("npm test", " Tests  12 passed (12)\nsrc/a.ts(3,5): error TS2304: Cannot find name 'x'.", false),
    ]);
}

#[test]
fn checks_of_any_kind_of_work_are_known() {
    let board = "RAM: 12%\n==== [SUCCESS] Took 2.29 seconds ====";
    check_outcomes(&[
        ("pio run", board, true),
        ("pio run", "Looking for a port\n==== [FAILED] Took 2.29 seconds ====", false),
        ("west build -b nrf", "[7/9] Building C\n[9/9] Linking C executable a.elf", true),
        ("ninja -C out", "[3/9] Building C\nninja: build stopped: subcommand failed.", false),
        ("gcc -o gate gate.c", "", true),
        ("gcc -o gate gate.c", "gate.c:3:1: error: unknown type name 'in'", false),
        ("g++ -o gate gate.cpp && ./gate", "gate.cpp:3:1: error: expected ';'", false),
        ("nim c gate.nim", "gate.nim(3, 1) Error: undeclared identifier: 'x'", false),
        ("php -l gate.php", "No syntax errors detected in gate.php", true),
        ("bash -n gate.sh", "gate.sh: line 3: syntax error near unexpected token", false),
        ("docker build -t gate .", "#9 naming to docker.io/library/gate:latest done", true),
        ("docker build -t gate .", "ERROR: failed to solve: no such file", false),
        ("terraform plan", "Plan: 2 to add, 0 to change, 0 to destroy.", true),
        ("flutter analyze", "2 issues found. (ran in 3.1s)", false),
        ("flutter test", "00:03 +7 -1: Some tests failed.", false),
        ("xcodebuild -scheme Gate test", "** TEST FAILED **", false),
        ("sbt test", "[error] Failed: Total 8, Failed 1, Errors 0, Passed 7", false),
        ("sbt test", "[info] Passed: Total 8, Failed 0, Errors 0, Passed 8", true),
        ("cabal test", "1 of 1 test suites (8 of 8 test cases) passed.", true),
        ("cabal test", "0 of 1 test suites (7 of 8 test cases) passed.", false),
        ("stack test", "gate> Test suite gate-test failed", false),
        ("bazel test //...", "Executed 2 out of 2 tests: 1 fails locally.", false),
        ("ng build", "Application bundle generation failed. [3.1 seconds]", false),
        ("vite build", "error during build:\nno such file", false),
        ("verilator --lint-only gate.v", "%Error: gate.v:3:1: syntax error", false),
        ("ansible-playbook --syntax-check site.yml", "ERROR! Syntax Error while loading YAML.", false),
    ]);
    // After a compiler, what it built may have failed.
    for result in ["no grain\nExit code 1", "error: no grain\nExit code 1"] {
        let built = ("Bash", json!({"command": "g++ -o gate gate.cpp && ./gate"}), result);
        let later = ("Bash", json!({"command": "g++ -o gate gate.cpp"}), "");
        let record = ledger(std::slice::from_ref(&built));
        assert_eq!(last_outcome(&record), Some(Outcome::Unclear), "{result}");
        assert_eq!(ledger(&[built, later]).errors.len(), record.errors.len(), "{result}");
    }
}

#[test]
fn counts_of_what_went_well_hide_nothing_that_broke() {
    check_outcomes(&[
        ("npm run lint", "Not all checks passed", false),
        ("(npm test >/tmp/o) && echo OK || echo 'tests NOT OK'", "tests NOT OK", false),
        ("tox", "8 passed in 0.12s\n  lint: FAIL code 1 (0.5s)", false),
        ("pytest -q", "8 passed in 0.12s\nFAIL Required test coverage of 80% not reached", false),
        (
            "cargo test",
            "test result: ok. 8 passed; 0 failed\nerror: test failed, to rerun pass `-p a`",
            false,
        ),
        ("pytest -q", "!!!!!!!! KeyboardInterrupt !!!!!!!!\n4 passed in 2.1s", false),
        ("npm run build", "✓ Compiled successfully\nFailed to compile.\n./a.tsx:3:5", false),
        ("npm test", "  ✓ shows 2 errors when both fields are empty\n  33 passing", true),
        ("node --test", "✔ retries after 3 failed attempts (1ms)\nℹ pass 3\nℹ fail 0", true),
        ("python -m unittest", "Ran 3 tests in 0.1s\n\nOK (expected failures=1)", true),
        ("npm test", "it ran\n[took 3.4s | tokens left 82296 | exit 0]", true),
        ("pytest -q", "/bin/sh: 1: pytest: not found", false),
        ("ctest", "Segmentation fault (core dumped)", false),
        ("mvn -q test", "", true),
        ("go build ./... 2>&1 | head -20", "(Bash completed with no output)", true),
        ("gradle build", "BUILD SUCCESSFUL in 3s", true),
        ("npx vite build && npm run build", "dist/a.js  3 kB\n✓ built in 1.2s", true),
        ("ruff check .", "All checks passed!", true),
        ("python -m unittest", "Ran 12 tests in 0.1s\n\nOK", true),
        ("sh -c 'npm test | tail -3'", "exit code: 0\nerror: it broke", false),
        ("sh -c 'npm test\ntail log'", "exit code: 0\nerror: it broke", false),
        ("sh -c 'npm test &'", "exit code: 0\nerror: it broke", false),
        ("sh -c 'cd a && npm test 2>&1'", "exit code: 0\nit ran", true),
        ("sh -c 'cd a; npm test;'", "exit code: 0\nit ran", true),
        ("sh -c 'cd a\nnpm test\n'", "exit code: 0\nit ran", true),
        // The filter found nothing.
        ("npx tsc 2>&1 | grep \"error TS\"", "(no output)\n\nCommand exited with code 1", true),
        ("npx tsc | grep error", "Wall time: 0.1 seconds\nProcess exited with code 1\nOutput:\n", true),
        ("npx tsc | grep error", "", true),
        ("cargo build 2>&1 | grep error", "error: linking with `cc` failed: exit status: 1", false),
    ]);
}

#[test]
fn a_check_whose_end_is_not_shown_has_not_passed() {
    for (command, result) in [
        ("cargo test", "   Compiling a v0.1.0\nProcess running with session ID 4711"),
        ("npm test", "Command running in background with ID: b41"),
        ("npm test", "Successfully linked\nthe command timed out after 120 s"),
        ("cargo test", "aborted by user after 3.2s"),
        (
            "cargo test",
            "test result: ok. 8 passed; 0 failed\nRunning tests/b.rs\nProcess running with session ID 4711",
        ),
        ("npm test", "<status>running</status>\n<stdout>\nall good\n</stdout>"),
        ("npm test", "Successfully killed shell: bash_1"),
        ("npm test", "3 passing\nEnded due to a signal"),
        ("pytest -q", "8 passed in 0.12s\nCommand timed out after 120000ms"),
        ("npm test", r#"{"output": "Background process started", "session_id": "proc_1", "exit_code": 0}"#),
        ("go test ./... | grep ok", "ok  \texample.org/a\t0.012s"),
        ("go test ./... 2>&1 | head -3", "ok  \texample.org/a\t0.012s"),
        ("cargo test | grep 'test result' | head -2", "test result: ok. 8 passed; 0 failed"),
        ("cargo nextest run", "  5 passed, 0 skipped\nwarning: 29/34 tests were not run due to interrupt"),
        ("cargo test 2>&1 | grep -c error", "Exit code: 0\n3"),
        ("cargo clippy 2>&1 | grep warning", ""),
        ("cargo test 2>&1 | grep FAILED", "Exit code 1"),
        ("npx tsc 2>/dev/null | grep error", "Exit code 1"),
        ("npx tsc | grep src/a.ts", "Exit code 1"),
        // No line has what this seeks, whatever failed.
        ("npx tsc | grep 'error|warning'", "Exit code 1"),
        ("pytest -q > log.txt 2>&1", ""),
    ] {
        let failed = ("Bash", json!({"command": "deploy now"}), "error: no such target\nExit code 2");
        let record = ledger(&[failed, ("Bash", json!({"command": command}), result)]);
        let last = last_outcome(&record);
        assert_eq!(last, Some(Outcome::Unclear), "{command}: {result}");
        assert_eq!(record.errors.len(), 1, "{command}: {result}");
    }
    // Where the end of the output shows no failure, no error is known to stand.
    for (command, result) in [
        ("npm run build 2>&1 | tail -4", "> app@1.0.0 build\n> vite build"),
        ("make -j4", "cc -c a.c"),
        ("make check", "main.c:3:5: warning: unused variable 'x'"),
    ] {
        let failed = ("Bash", json!({"command": "python a.py"}), "error: no such target\nExit code 2");
        let record = ledger(&[failed, ("Bash", json!({"command": command}), result)]);
        let last = last_outcome(&record);
        assert_eq!((last, record.errors.len()), (Some(Outcome::Unclear), 0), "{command}: {result}");
    }
    let passed = ("Bash", json!({"command": "cargo test | grep result"}), "test result: ok. 3 passed");
    let failed = ("Bash", json!({"command": "deploy now"}), "error: no such target\nExit code 2");
    assert_eq!(ledger(&[failed, passed]).errors, []);
    // Its own error stands as well, as long as it runs.
    let test = |result| ("Bash", json!({"command": "cargo test"}), result);
    let failed = test("error[E0308]: mismatched types\nExit code 101");
    assert_eq!(ledger(&[failed, test("Process running with session ID 4711")]).errors.len(), 1);
}

#[test]
fn what_asks_how_a_check_goes_on_tells_how_it_ended() {
    let test = ("exec", json!({"cmd": "cargo test"}), "Process running with session ID 4711");
    let poll = |id: u32, result| ("write_stdin", json!({"session_id": id, "chars": ""}), result);
    let ended = "Process exited with code 101\nerror: test failed";
    for (polls, outcome) in [
        (vec![poll(4711, "still running"), poll(4711, "test result: ok. 3 passed")], Outcome::Passed),
        (vec![poll(4711, ended)], Outcome::Failed),
        (vec![poll(47, ended)], Outcome::Unclear),
        (vec![poll(4711, ended), poll(4711, "test result: ok. 3 passed")], Outcome::Failed),
    ] {
        let calls: Vec<_> = std::iter::once(test.clone()).chain(polls).collect();
        assert_eq!(ledger(&calls).last_test, Some(("cargo test".to_owned(), outcome)), "{calls:?}");
    }
}

#[test]
fn what_a_running_command_did_is_done_once() {
    let path = json!({"file_path": "a.rs"});
    let started = "Command running in background with ID: b41";
    let calls = [
        ("Write", path.clone(), "ok"),
        ("Bash", json!({"command": "rm a.rs && cargo test"}), started),
        ("Write", path, "ok"),
        ("TaskOutput", json!({"task_id": "b41"}), "<status>completed</status>\n<exit_code>0</exit_code>"),
    ];
    let record = ledger(&calls);
    assert_eq!(record.files, [("a.rs".to_owned(), FileState::Created)]);
    assert_eq!(record.last_test, Some(("cargo test".to_owned(), Outcome::Passed)));
}

#[test]
fn where_failures_are_marked_no_mark_is_a_success() {
    let run = |command: &str| ToolCall {
        id: "c".into(),
        name: ToolName::new("Bash").unwrap(),
        arguments: json!({"command": command}).to_string(),
    };
    let (looks, builds) = (run("cat missing"), run("make"));
    for (first, outcome) in [
        (ToolResult::error(&looks, "No such file"), Outcome::Passed),
        (ToolResult::answer(&looks, "No such file"), Outcome::Unclear),
    ] {
        let record = ledger_of(
            &Record::default(),
            [(looks.clone(), first), (builds.clone(), ToolResult::answer(&builds, "cc a.c"))],
        );
        assert_eq!(record.last_check, Some(("make".to_owned(), outcome)));
    }
}

#[test]
fn a_check_of_something_else_mends_no_error() {
    for (failed, passed, stands) in [
        ("cargo test -p api", "cargo test -p web", true),
        ("cargo test -p api", "cargo test", false),
        ("cargo test", "cargo test -p web", false),
        ("go test ./api/...", "go test ./web/...", true),
        ("go test ./api/...", "go test ./...", false),
        ("pytest -q tests/test_a.py::test_x", "pytest tests/test_a.py", false),
        ("npm --prefix api test", "npm --prefix web test", true),
        ("make -C api test", "make -C web test", true),
        ("npm run lint", "npm test", false),
        ("pytest tests/a.py", "ruff check src", false),
        ("cd api && npm test", "cd web && npm test", true),
        ("cd api && npm test", "cd api/src && npm test", true),
        ("cd api && npm test", "npm test", false),
    ] {
        let run = |command: &str, result| ("Bash", json!({"command": command}), result);
        let record = ledger(&[run(failed, "error: it broke\nExit code 1"), run(passed, "3 passed")]);
        assert_eq!(!record.errors.is_empty(), stands, "{failed}, {passed}");
    }
    // A filter that no test passes shows nothing.
    let run = |command: &str, result| ("Bash", json!({"command": command}), result);
    for (command, nothing) in [
        ("cargo test typo", "test result: ok. 0 passed; 0 failed; 34 filtered out"),
        ("bin/rails test", "Running 0 tests in a single process\n0 runs, 0 assertions, 0 failures, 0 errors"),
        ("dotnet test", "Total tests: 0\nTest Run Successful."),
        ("bundle exec rspec", "Finished in 0.1 seconds\n0 examples, 0 failures"),
    ] {
        let record = ledger(&[run("cargo test", "error: it broke\nExit code 101"), run(command, nothing)]);
        assert_eq!((last_outcome(&record), record.errors.len()), (Some(Outcome::Unclear), 1), "{command}");
    }
}

#[test]
fn an_error_stands_until_the_same_thing_succeeds() {
    let run = |command: &str| json!({"command": command});
    let failed = ("Bash", run("make all"), "main.c:3: error: missing ;\nExit code 2");
    let lines = |record: &Record| record.errors.iter().map(|error| error.line.clone()).collect::<Vec<_>>();
    let mended = ("Bash", run("make all"), "done");
    let earlier = ledger(std::slice::from_ref(&failed));
    assert_eq!(lines(&earlier), ["main.c:3: error: missing ;"]);
    // No check of the work shows that something outside of it is mended.
    let pushed = ("Bash", run("git push"), "error: failed to push some refs\nExit code 1");
    assert_eq!(ledger(&[pushed, ("Bash", run("cargo test"), "3 passed")]).errors.len(), 1);
    // The command goes on in another way if it fails.
    let expected = ("Bash", run("./a --bad || echo 'refused as it should'"), "error: bad option\nrefused");
    assert_eq!(ledger(&[expected]).errors, []);
    let installed = "ERROR: pip's resolver does not look at everything.\nSuccessfully installed a-1.0";
    assert_eq!(ledger(&[("Bash", run("pip install a"), installed)]).errors, []);
    let put_aside = ("Bash", run("grep -n error a.log > /tmp/e; head -2 /tmp/e"), "12:error: db down");
    assert_eq!(ledger(&[put_aside]).errors, []);
    let run_it = |python: &str, result| ("Bash", run(&format!("{python} a.py")), result);
    let versions = [run_it("python", "python: command not found\nExit code 127"), run_it("python3", "ok")];
    assert_eq!(ledger(&versions).errors, []);
    assert_eq!(ledger(&[failed.clone(), mended.clone()]).errors, []);
    for (again, n_errors) in
        [("npx tsc | grep error", 0), ("npx tsc | grep src/b.ts", 1), ("npx tsc | grep 'error TS9999'", 1)]
    {
        let first = ("Bash", run("npx tsc | grep error"), "src/a.ts(4,6): error TS2353: x");
        assert_eq!(ledger(&[first, ("Bash", run(again), "Exit code 1")]).errors.len(), n_errors, "{again}");
    }
    assert_eq!(ledger(&[failed, ("Bash", run("ls"), "a")]).errors.len(), 1);
    let missing = "grep: y: No such file or directory\nExit code 2";
    assert_eq!(ledger(&[("Bash", run("grep x y"), missing)]).errors, []);
    let rebase = [
        ("Bash", run("git rebase main"), "error: could not apply 66923\nExit code 1"),
        ("Bash", run("git add a.md && GIT_EDITOR=true git rebase --continue"), "Successfully rebased"),
    ];
    assert_eq!(ledger(&rebase[..1]).errors.len(), 1);
    assert_eq!(ledger(&rebase).errors, []);
    // An error in an earlier record is resolved as well.
    assert_eq!(ledger_after(&earlier, &[("Bash", run("ls"), "a")]).errors, earlier.errors);
    assert_eq!(ledger_after(&earlier, &[mended]).errors, []);
}

#[test]
fn of_many_failures_the_oldest_are_forgotten() {
    let mut log = Conversation::new();
    for n in 0..MOST_OPEN + 20 {
        let call = ToolCall {
            id: "c".into(),
            name: ToolName::new("Bash").unwrap(),
            arguments: json!({"command": format!("pytest tests/test_{n}.py")}).to_string(),
        };
        let result = format!("FAILED tests/test_{n}.py::test_a - assert {n} == 1\n1 failed");
        let result = ToolResult::answer(&call, result);
        for message in [Message::calling(vec![call]), Message::tool(result)] {
            log.append(ContextMessage::count(message, &Characters));
        }
    }
    let view = log.view();
    let mut ledger = Ledger::new(Root::default());
    ledger.take_all(&view, view.messages());
    assert_eq!(ledger.open.len(), MOST_OPEN);
    let newest = ledger.open.last().map(|open| open.line.clone()).unwrap_or_default();
    assert!(newest.contains(&format!("test_{}.py", MOST_OPEN + 19)), "{newest}");
}
