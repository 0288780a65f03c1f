//! The files that a call touches, and how, as far as its name and its arguments tell. Apart from the
//! [`Deed`](super::Deed), which asks for much else, because each tool names its files in a way of its own.

use serde_json::Value;

use super::command_line::{steps, without_quiet};
use super::identity::in_its_folder;
use super::looks::only_looks;
use super::shell_change::ShellChange;
use crate::compaction::arguments::{PATCH_ADDS, PATCH_DELETES, PATCH_MOVES, PATCH_UPDATES, PATHS};

/// The extent of a file that a call reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it: the call names nothing but the file.
    Whole,
    /// The part that its other arguments describe.
    Part,
}

/// The effect on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// It is in that state afterwards.
    Leaves(FileState),
    /// It is written as a whole: modified if it was known before, else created.
    Writes,
    /// It is looked at.
    Looks,
}

/// The last state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FileState {
    Created,
    Modified,
    Deleted,
}

impl FileState {
    pub(crate) const ALL: [Self; 3] = [Self::Created, Self::Modified, Self::Deleted];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
        }
    }
}

/// Words of a tool's name for things that it makes or removes and that are no files.
const NO_FILES: &[&str] = &[
    "branch", "comment", "dir", "event", "folder", "issue", "label", "memory", "plan", "pull", "release",
    "review", "task", "todo",
];

/// Returns the effect on a file of a tool of that name.
pub(super) fn touch(verb: &str) -> Touch {
    let has = |words: &[&str]| words.iter().any(|word| verb.contains(word));
    let removes =
        |word: &&str| verb.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.contains("file"));
    match () {
        () if has(NO_FILES) && !has(&["file"]) => Touch::Looks,
        () if ["list_", "get_", "read_", "show_", "view_"].iter().any(|looks| verb.starts_with(looks)) => {
            Touch::Looks
        }
        () if ["delete", "remove", "unlink"].iter().any(removes) => Touch::Leaves(FileState::Deleted),
        () if has(&["write", "create", "save"]) || verb.starts_with("put") => Touch::Writes,
        () if has(&["edit", "replace", "patch", "insert", "append", "update", "delete", "remove"]) => {
            Touch::Leaves(FileState::Modified)
        }
        () => Touch::Looks,
    }
}

/// Returns the files of a call that changes several, each in an item of a list.
pub(super) fn listed_files(arguments: &Value, touch: Touch) -> Vec<(String, Touch)> {
    let lists =
        arguments.as_object().into_iter().flat_map(|fields| fields.values()).filter_map(Value::as_array);
    let path = |item: &Value| PATHS.iter().find_map(|name| item.get(*name)?.as_str().map(str::to_owned));
    let paths = lists.flatten().filter_map(path).filter(|_| touch != Touch::Looks);
    paths.map(|path| (path, touch)).collect()
}

/// Returns the paths of a patch's files in a line.
pub(super) fn paths_of(touches: &[(String, Touch)]) -> Option<String> {
    let paths: Vec<&str> = touches.iter().map(|(path, _)| path.as_str()).collect();
    (!paths.is_empty()).then(|| paths.join(", "))
}

/// Returns the move of a file by a tool.
pub(super) fn moved_by(verb: &str, argument: &dyn Fn(&[&str]) -> Option<String>) -> Option<ShellChange> {
    const FROM: &[&str] = &["source", "src", "from", "old_path", "source_path"];
    const TO: &[&str] = &["destination", "dest", "dst", "to", "new_path", "destination_path", "target"];
    let moves = verb.contains("move") && !verb.contains("remove") || verb.contains("rename");
    let (from, to) = (argument(FROM), argument(TO));
    from.zip(to).filter(|_| moves).map(|(from, to)| ShellChange::Moves { from, to })
}

/// Returns the files of a patch.
pub(super) fn patched_files(patch: &str) -> Vec<(String, Touch)> {
    const MARKS: [(&str, FileState); 3] = [
        (PATCH_ADDS, FileState::Created),
        (PATCH_UPDATES, FileState::Modified),
        (PATCH_DELETES, FileState::Deleted),
    ];
    let mut files: Vec<(String, Touch)> = Vec::new();
    for line in patch.lines() {
        let file = MARKS.iter().find_map(|(mark, state)| Some((line.strip_prefix(mark)?, *state)));
        if let Some((path, state)) = file {
            files.push((path.trim().to_owned(), Touch::Leaves(state)));
        } else if let Some(path) = line.strip_prefix(PATCH_MOVES) {
            if let Some((_, touch)) = files.last_mut() {
                *touch = Touch::Leaves(FileState::Deleted);
            }
            files.push((path.trim().to_owned(), Touch::Leaves(FileState::Created)));
        }
    }
    files
}

/// Returns the file that a command line only shows, and the extent; `None` if it does anything else.
pub(super) fn file_shown_by(command: &str) -> Option<(String, Extent)> {
    const SHOW: &[&str] = &["cat", "nl", "sed", "head", "tail", "gc", "get-content", "type"];
    /// Those that show all, and what reads from a pipe besides them.
    const ALL: &[&str] = &["cat", "gc", "get-content", "type"];
    const PIPED: &[&str] = &["select-object", "select-string"];
    if !only_looks(command) {
        return None;
    }
    let command = without_quiet(in_its_folder(command));
    let mut found = None;
    let steps = steps(&command);
    for (nth, step) in steps.iter().filter(|step| !step.is_empty()).enumerate() {
        let mut words = step.split_whitespace();
        let program = words.next()?.to_ascii_lowercase();
        let is_piped = nth > 0 && PIPED.contains(&program.as_str());
        if is_piped {
            found = found.map(|(file, _)| (file, Extent::Part));
            continue;
        }
        if !SHOW.contains(&program.as_str()) {
            return None;
        }
        // The value of an option and a script for `sed` begin with a digit.
        let is_operand =
            |word: &&str| !word.starts_with(|c: char| matches!(c, '-' | '$') || c.is_ascii_digit());
        let mut operands = words.map(|word| word.trim_matches(['"', '\''])).filter(is_operand);
        match (nth, operands.next()) {
            (0, Some(file)) if operands.next().is_none() && file.contains(['.', '/']) => {
                let is_all = ALL.contains(&program.as_str());
                found = Some((file.to_owned(), if is_all { Extent::Whole } else { Extent::Part }));
            }
            // Behind a pipe, a command reads from the pipe.
            (1.., None) => found = found.map(|(file, _)| (file, Extent::Part)),
            _ => return None,
        }
    }
    found
}
