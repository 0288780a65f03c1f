//! The changes to files, the last check, and the unresolved errors: read from structured calls alone.

use std::collections::{HashMap, HashSet};

use super::record::{OpenError, Record};
use crate::compaction::answered_call::answered_call;
use crate::compaction::findings::{Deed, Failure, FileState, Touch};
use crate::compaction::short_text::SHORTEST;
use crate::compaction::stub::is_stub;
use crate::{Context, ContextMessage, Message};

/// The effects of the exchanges of a span.
#[derive(Debug, Default)]
pub(super) struct Ledger<'a> {
    /// The last state of each file that was changed, and when it was last touched.
    files: HashMap<&'a str, (FileState, usize)>,
    /// Files that existed before they were written.
    known: HashSet<&'a str>,
    last_check: Option<(&'a str, bool)>,
    /// The failures, by the key of what would fix them, with the line that names the error.
    open: Vec<(&'a str, &'a str)>,
    n_touches: usize,
    n_exchanges: usize,
}

/// Most errors that are kept.
const MAX_ERRORS: usize = 8;
/// Most bytes of a path: what is longer names no file, and would push the others out of the record.
const MAX_PATH: usize = 1_024;

impl<'a> Ledger<'a> {
    /// Adds the content of an earlier record.
    pub(super) fn take_record(&mut self, earlier: &'a Record) {
        for (path, state) in &earlier.files {
            self.set(path, *state);
        }
        if let Some((check, passed)) = &earlier.last_check {
            self.last_check = Some((check, *passed));
        }
        let open =
            |error: &'a OpenError| (error.mended_by.as_deref().unwrap_or(&error.line), error.line.as_str());
        self.open.extend(earlier.errors.iter().map(open));
    }

    /// Takes in the exchanges of a context, in the order of their calls; `sources` are its messages as they
    /// were at first.
    pub(super) fn take_all(&mut self, context: &'a Context, sources: &'a [ContextMessage]) {
        let results = sources.iter().enumerate();
        let answers = results.filter_map(|(at, result)| Some((answered_call(context, at)?, result)));
        // A call without an answer, or whose answer is gone, tells nothing.
        let mut answers: Vec<_> = answers.filter(|(_, result)| !is_gone(result.message())).collect();
        answers.sort_unstable_by_key(|(asked, _)| asked.place);
        for (asked, result) in answers {
            self.take(asked.deed, result.findings().failure.as_ref());
        }
    }

    fn take(&mut self, deed: &'a Deed, failure: Option<&'a Failure>) {
        self.n_exchanges += 1;
        if failure.is_none() {
            for (path, touch) in deed.touches.iter().filter(|(path, _)| path.len() <= MAX_PATH) {
                self.touch(path, *touch);
            }
        }
        if let Some(check) = &deed.check {
            self.last_check = Some((check, failure.is_none()));
            // Whatever failed before, the check that counts passes now.
            if failure.is_none() {
                self.open.clear();
            }
        }
        let Some(key) = deed.key.as_deref() else { return };
        match failure {
            None => self.open.retain(|(open, _)| *open != key),
            Some(Failure { line: Some(line) }) if !deed.only_looks => {
                self.open.retain(|(_, known)| known != line);
                self.open.push((key, line));
            }
            Some(_) => {}
        }
    }

    fn touch(&mut self, path: &'a str, touch: Touch) {
        match touch {
            Touch::Leaves(state) => self.set(path, state),
            Touch::Writes if self.known.contains(path) => self.set(path, FileState::Modified),
            Touch::Writes => self.set(path, FileState::Created),
            Touch::Looks => drop(self.known.insert(path)),
        }
    }

    fn set(&mut self, path: &'a str, state: FileState) {
        let state = match (self.files.get(path), state) {
            // A file that was made here and then changed is still a new one.
            (Some((FileState::Created, _)), FileState::Modified) => FileState::Created,
            (_, state) => state,
        };
        self.n_touches += 1;
        self.files.insert(path, (state, self.n_touches));
        self.known.insert(path);
    }

    /// Writes the files in the order in which they were last touched, the last check, and the newest
    /// unresolved errors, oldest first.
    pub(super) fn write_into(self, record: &mut Record) {
        let mut files: Vec<_> = self.files.into_iter().collect();
        files.sort_unstable_by_key(|(_, (_, touched))| *touched);
        record.files = files.into_iter().map(|(path, (state, _))| (path.to_owned(), state)).collect();
        record.last_check = self.last_check.map(|(check, passed)| (check.to_owned(), passed));
        // Where nothing was done since, the errors of earlier records stay as they were.
        let most = if self.n_exchanges == 0 { self.open.len() } else { MAX_ERRORS };
        let newest = self.open.len().saturating_sub(most);
        record.errors = self.open[newest..]
            .iter()
            .map(|(key, line)| OpenError {
                line: (*line).to_owned(),
                mended_by: (key != line).then(|| (*key).to_owned()),
            })
            .collect();
    }
}

/// Checks whether compaction cleared or cut a result, so that it no longer tells whether it failed.
fn is_gone(message: &Message) -> bool {
    let text = message.text();
    text == SHORTEST || is_stub(&text)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;
    use crate::compaction::fixture::Characters;
    use crate::{Conversation, ToolCall, ToolName, ToolResult};

    /// Returns the record of calls, each a tool, its arguments and its result.
    fn ledger(calls: &[(&str, Value, &str)]) -> Record {
        ledger_after(&Record::default(), calls)
    }

    /// Returns the record of calls after an earlier record.
    fn ledger_after(earlier: &Record, calls: &[(&str, Value, &str)]) -> Record {
        let mut log = Conversation::new();
        for (name, arguments, result) in calls {
            let call = ToolCall {
                id: "c".into(),
                name: ToolName::new(*name).unwrap(),
                arguments: arguments.to_string(),
            };
            let result = ToolResult::answer(&call, *result);
            for message in [Message::calling(vec![call]), Message::tool(result)] {
                log.append(ContextMessage::count(message, &Characters));
            }
        }
        let mut ledger = Ledger::default();
        ledger.take_record(earlier);
        let view = log.view();
        ledger.take_all(&view, view.messages());
        let mut record = Record::default();
        ledger.write_into(&mut record);
        record
    }

    #[test]
    fn files_keep_their_last_state() {
        use FileState::{Created, Deleted, Modified};
        let path = |path: &str| json!({"file_path": path});
        for (calls, expected) in [
            (vec![("Write", path("a"), "ok")], vec![("a", Created)]),
            (vec![("Write", path("a"), "ok"), ("Edit", path("a"), "ok")], vec![("a", Created)]),
            (vec![("Read", path("a"), "text"), ("Write", path("a"), "ok")], vec![("a", Modified)]),
            (vec![("Edit", path("a"), "Error: Exit code 1")], vec![]),
            (
                vec![("Edit", path("a"), "ok"), ("Edit", path("b"), "ok"), ("Edit", path("a"), "ok")],
                vec![("b", Modified), ("a", Modified)],
            ),
            (
                vec![(
                    "apply_patch",
                    json!({"input": "*** Begin Patch\n*** Add File: n\n*** Delete File: o\n"}),
                    "ok",
                )],
                vec![("n", Created), ("o", Deleted)],
            ),
        ] {
            let actual = ledger(&calls).files;
            let expected: Vec<_> =
                expected.into_iter().map(|(path, state)| (path.to_owned(), state)).collect();
            assert_eq!(actual, expected, "{calls:?}");
        }
    }

    #[test]
    fn the_last_check_and_its_outcome_are_kept() {
        let run = |command: &str| json!({"command": command});
        for (command, result, expected) in [
            ("cd a && cargo test --all | tail -3", "test result: ok", Some(("cargo test --all", true))),
            ("go vet ./... && go test ./...", "--- FAIL: TestX", Some(("go test ./...", false))),
            ("npm run lint", "Exit code 2", Some(("npm run lint", false))),
            ("CI=1 pytest -q", "3 passed", Some(("pytest -q", true))),
            ("ls target/test", "a", None),
            ("git commit -m 'cargo test'", "ok", None),
        ] {
            let actual = ledger(&[("Bash", run(command), result)]).last_check;
            let expected = expected.map(|(command, passed)| (command.to_owned(), passed));
            assert_eq!(actual.is_some(), expected.is_some(), "{command}: {actual:?}");
            assert_eq!(actual.map(|(_, passed)| passed), expected.map(|(_, passed)| passed), "{command}");
        }
    }

    #[test]
    fn an_error_stands_until_the_same_thing_succeeds() {
        let run = |command: &str| json!({"command": command});
        let failed = ("Bash", run("make all"), "main.c:3: error: missing ;\nExit code 2");
        let lines =
            |record: &Record| record.errors.iter().map(|error| error.line.clone()).collect::<Vec<_>>();
        let mended = ("Bash", run("make all"), "done");
        let earlier = ledger(std::slice::from_ref(&failed));
        assert_eq!(lines(&earlier), ["main.c:3: error: missing ;"]);
        assert_eq!(ledger(&[failed.clone(), mended.clone()]).errors, []);
        assert_eq!(ledger(&[failed, ("Bash", run("ls"), "a")]).errors.len(), 1);
        let missing = "grep: y: No such file or directory\nExit code 2";
        assert_eq!(ledger(&[("Bash", run("grep x y"), missing)]).errors, []);
        // An error in an earlier record is resolved as well.
        assert_eq!(ledger_after(&earlier, &[("Bash", run("ls"), "a")]).errors, earlier.errors);
        assert_eq!(ledger_after(&earlier, &[mended]).errors, []);
    }
}
