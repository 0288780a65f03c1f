//! Passages of files as they no longer are, or never were: a later call replaced the lines, the file is gone,
//! or the call that was to write them failed.

use std::collections::{HashMap, HashSet};

use super::passage::Passage;
use super::root::Root;
use crate::compaction::answered_call::answered_call;
use crate::compaction::features::{ByTerm, Features, Line, hash, split_number};
use crate::compaction::findings::{Deed, FileState, ShellChange, ShellStep, Touch};
use crate::{Context, ContextMessage, Role};

/// The latest changes of files, each by the position of its message. Calls that failed changed nothing.
#[derive(Default)]
pub(super) struct Changes {
    root: Root,
    /// By the one path of each, however calls name it.
    files: HashMap<String, Changed>,
    /// By hashes of lines, of whichever file: a line that moved to another one is not gone.
    removed: ByTerm<usize>,
    added: ByTerm<usize>,
    /// The position of the last message that changed any file; zero if there is none.
    latest: usize,
    /// The positions of messages of whose calls one changed a file, and one was to and failed.
    changing: HashSet<usize>,
    failing: HashSet<usize>,
}

/// The latest changes of one file.
#[derive(Clone, Copy, Default)]
pub(super) struct Changed {
    any: usize,
    /// It was deleted, or written as a whole.
    whole: Option<usize>,
    /// It was written as a whole.
    written: Option<usize>,
}

/// The extent of a change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Part,
    /// All of it is new.
    Written,
    /// It is gone, or another one.
    Gone,
}

impl Changes {
    /// Reads the calls of `context`, whose messages were `sources` at first, and whose work is in `root`.
    pub(super) fn of(context: &Context, sources: &[ContextMessage], root: &Root) -> Self {
        let mut changes = Self { root: root.clone(), ..Self::default() };
        for (position, result) in sources.iter().enumerate() {
            let Some(asked) = answered_call(context, position) else { continue };
            let caller = asked.place.message;
            let has_failed = asked.deed.failure(result).is_some();
            let made = asked.deed.shell_changes.iter().filter(|step| !has_failed || step.is_sure);
            made.for_each(|step| changes.take_shell(step, caller));
            if !asked.deed.changes_files() {
                continue;
            }
            if has_failed {
                changes.failing.insert(caller);
                continue;
            }
            changes.take(asked.deed, caller);
            if changes.changing.insert(caller) {
                changes.take_lines(sources[caller].features(), caller);
            }
        }
        changes
    }

    fn take(&mut self, deed: &Deed, position: usize) {
        for (path, touch) in deed.changes() {
            let change = match touch {
                Touch::Writes => Change::Written,
                Touch::Leaves(FileState::Deleted) => Change::Gone,
                Touch::Leaves(_) | Touch::Looks => Change::Part,
            };
            self.note(self.root.path(path, None), change, position);
        }
    }

    fn take_shell(&mut self, step: &ShellStep, position: usize) {
        let path = |name: &str| self.root.path(name, step.folder.as_deref());
        match &step.change {
            ShellChange::Removes(name)
            | ShellChange::Deletes(name)
            | ShellChange::Moves { from: name, .. }
            | ShellChange::Stashes { path: name, .. }
            | ShellChange::Restores(name) => self.note(path(name), Change::Gone, position),
            ShellChange::Writes(name) => self.note(path(name), Change::Written, position),
            ShellChange::Edits(name) => self.note(path(name), Change::Part, position),
            ShellChange::Cleans
            | ShellChange::Unstashes { .. }
            | ShellChange::DropsStash { .. }
            | ShellChange::Copies { .. }
            | ShellChange::Outputs(_)
            | ShellChange::Stages(_)
            | ShellChange::Unstages(_)
            | ShellChange::Commits { .. }
            | ShellChange::Resets { .. } => {}
        }
    }

    /// Notes that a file was changed, or is another one as a whole, or none.
    fn note(&mut self, path: String, change: Change, position: usize) {
        self.latest = self.latest.max(position);
        let changed = self.files.entry(path).or_default();
        changed.any = changed.any.max(position);
        if change != Change::Part {
            changed.whole = changed.whole.max(Some(position));
        }
        if change == Change::Written {
            changed.written = changed.written.max(Some(position));
        }
    }

    fn take_lines(&mut self, features: &Features, position: usize) {
        for line in features.lines.iter().filter(|line| line.is_call) {
            let lines = if line.is_old { &mut self.removed } else { &mut self.added };
            let latest = lines.entry(hash(features.line(line).trim())).or_default();
            *latest = position.max(*latest);
        }
    }

    /// Returns how much of a passage of `source` is out of date.
    pub(super) fn outdate(&self, passage: &Passage, context: &Context, source: &ContextMessage) -> Outdated {
        let after = self.after(passage.message as usize, context, source);
        after.map_or(Outdated::Not, |after| after.outdates(passage, source.features()))
    }

    /// Checks whether any file was changed after the message at `position`.
    pub(super) fn has_any_after(&self, position: usize) -> bool {
        self.latest > position
    }

    /// Returns what has become of the file that the message at `position` reads or writes; `source` is that
    /// message.
    pub(super) fn after(
        &self,
        position: usize,
        context: &Context,
        source: &ContextMessage,
    ) -> Option<After<'_>> {
        if self.failing.contains(&position) && !self.changing.contains(&position) {
            return Some(After::NeverWritten);
        }
        let changed =
            |path: &str| self.files.get(&self.root.path(path, None)).filter(|changed| changed.any > position);
        let changed = match source.role() {
            Role::Tool => changed(answered_call(context, position)?.deed.read()?.0),
            Role::Assistant => {
                source.findings().deeds.iter().flat_map(Deed::changes).find_map(|(path, _)| changed(path))
            }
            Role::System | Role::User => None,
        };
        changed.map(|changed| After::Changed { changes: self, changed: *changed, position })
    }
}

/// The part of a passage that is not in its file as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outdated {
    /// None of it.
    Not,
    /// At most half of its lines.
    Partly,
    Mostly,
    /// All of it: it never was.
    Unwritten,
}

impl Outdated {
    /// Returns what the label of such a passage says of it.
    pub(super) const fn mark(self) -> &'static str {
        match self {
            Self::Not => "",
            Self::Partly | Self::Mostly => ", changed since",
            Self::Unwritten => ", failed",
        }
    }
}

/// The fate of a file after the message by which it was read or written.
pub(super) enum After<'a> {
    /// The call failed.
    NeverWritten,
    Changed {
        changes: &'a Changes,
        changed: Changed,
        /// The position of the message.
        position: usize,
    },
}

impl After<'_> {
    /// Checks whether the file was written as a whole, and most of a passage is not in it any more.
    pub(super) fn replaces(&self, passage: &Passage, features: &Features) -> bool {
        match self {
            Self::NeverWritten => false,
            Self::Changed { changed, position, .. } => {
                changed.written > Some(*position) && self.outdates(passage, features) == Outdated::Mostly
            }
        }
    }

    /// Returns how much of a passage is not, or no longer, in the file.
    pub(super) fn outdates(&self, passage: &Passage, features: &Features) -> Outdated {
        let Self::Changed { changes, changed, position } = self else { return Outdated::Unwritten };
        let is_gone = |line: &&Line| {
            let text = features.line(line);
            let text = split_number(text).map_or(text, |(_, rest)| rest);
            let line = hash(text.trim());
            let gone = changes.removed.get(&line).copied().max(changed.whole);
            let gone = gone.filter(|gone| gone > position);
            gone.is_some_and(|gone| changes.added.get(&line).is_none_or(|added| *added < gone))
        };
        let lines = passage.lines(features);
        match lines.iter().filter(is_gone).count() {
            0 => Outdated::Not,
            gone if gone * 2 > lines.len() => Outdated::Mostly,
            _ => Outdated::Partly,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::cutting::passages;
    use super::super::passage::Origin;
    use super::super::root::start_of;
    use super::*;
    use crate::Conversation;

    const FILE: &str = "  1→fn open_door() {\n  2→    turn_key(left);\n  3→    push(door);\n";
    const WHOLE: &str = "fn open_door() {\n    turn_key(left);\n    push(door);\n";
    const PATCH: &str = "*** Begin Patch\n*** Update File: a.rs\n-fn open_door() {\n-    turn_key(left);\n\
                         +fn open_gate() {\n+    lift(gate);\n*** End Patch";

    /// Returns how much of the one passage of the message at `position` is outdated, after calls of these
    /// tools with these arguments and results.
    fn outdated(position: usize, calls: Vec<(&str, Value, &str)>) -> Outdated {
        of_passage(position, calls, |passage, changes, context, source| {
            changes.outdate(passage, context, source)
        })
    }

    /// Returns what `of` tells of that passage.
    fn of_passage<T>(
        position: usize,
        calls: Vec<(&str, Value, &str)>,
        of: impl Fn(&Passage, &Changes, &Context, &ContextMessage) -> T,
    ) -> T {
        let mut log = Conversation::new();
        for (name, arguments, content) in calls {
            if content.starts_with("Error") {
                log.failed_call(name, arguments, content);
            } else {
                log.call(name, arguments, content);
            }
        }
        let context = log.view();
        let changes = Changes::of(
            &context,
            context.messages(),
            &Root::of(context.messages(), None, start_of(context.messages())),
        );
        let source = &context.messages()[position];
        let all = 0..source.features().lines.len();
        let [passage] = passages(source, position, Origin::Work, all, None)[..] else {
            panic!("not one passage")
        };
        of(&passage, &changes, &context, source)
    }

    fn edit(old: &str, new: &str) -> (&'static str, Value) {
        ("Edit", json!({"file_path": "a.rs", "old_string": old, "new_string": new}))
    }

    fn write(path: &str, content: &str) -> (&'static str, Value) {
        ("Write", json!({"file_path": path, "content": content}))
    }

    #[test]
    fn lines_that_a_later_call_replaced_are_outdated() {
        for (what, calls, expected) in [
            ("nothing", vec![], Outdated::Not),
            (
                "most lines",
                vec![edit("fn open_door() {\n    turn_key(left);", "fn open_gate() {")],
                Outdated::Mostly,
            ),
            ("one of three", vec![edit("    turn_key(left);", "    turn_key(right);")], Outdated::Partly),
            (
                "and back",
                vec![edit(WHOLE, "fn open_gate() {"), edit("fn open_gate() {", WHOLE)],
                Outdated::Not,
            ),
            ("as a whole", vec![write("a.rs", "fn open_gate() {\n")], Outdated::Mostly),
            ("the same again", vec![write("a.rs", WHOLE)], Outdated::Not),
            ("another file", vec![write("b.rs", "fn open_gate()")], Outdated::Not),
            ("deleted", vec![("delete_file", json!({"path": "a.rs"}))], Outdated::Mostly),
            ("by a patch", vec![("apply_patch", json!({"input": PATCH}))], Outdated::Mostly),
            (
                "by its whole path",
                vec![("run", json!({"command": "cd /w && ls"})), write("/w/a.rs", "fn open_gate() {\n")],
                Outdated::Mostly,
            ),
        ] {
            let read = ("Read", json!({"file_path": "a.rs"}), FILE);
            let done = calls.into_iter().map(|(name, arguments)| (name, arguments, "Done."));
            assert_eq!(outdated(1, [read].into_iter().chain(done).collect()), expected, "{what}");
        }
    }

    #[test]
    fn what_a_call_that_failed_was_to_write_is_in_no_file() {
        for (content, written, read_before) in [
            ("Done.", Outdated::Not, Outdated::Mostly),
            ("Error: the user said no", Outdated::Unwritten, Outdated::Not),
        ] {
            let (name, arguments) = edit("fn open_gate()", WHOLE);
            assert_eq!(outdated(0, vec![(name, arguments, content)]), written, "{content}");
            let read = ("Read", json!({"file_path": "a.rs"}), FILE);
            let (name, arguments) = edit(WHOLE, "fn open_gate() {");
            assert_eq!(outdated(1, vec![read, (name, arguments, content)]), read_before, "{content}");
        }
    }
    #[test]
    fn a_file_that_was_written_as_a_whole_replaces_the_lines_that_it_has_no_more() {
        for (change, expected) in [
            (write("a.rs", "fn open_gate() {\n"), true),
            (write("a.rs", WHOLE), false),
            (write("b.rs", "fn open_gate() {\n"), false),
            (edit("fn open_door() {\n    turn_key(left);", "fn open_gate() {"), false),
            (("delete_file", json!({"path": "a.rs"})), false),
        ] {
            let (name, arguments) = change.clone();
            let calls = vec![("Read", json!({"file_path": "a.rs"}), FILE), (name, arguments, "Done.")];
            let replaces = of_passage(1, calls, |passage, changes, context, source| {
                let after = changes.after(1, context, source);
                after.is_some_and(|after| after.replaces(passage, source.features()))
            });
            assert_eq!(replaces, expected, "{change:?}");
        }
    }
}
