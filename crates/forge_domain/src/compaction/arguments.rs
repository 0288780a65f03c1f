//! The arguments of calls by their names, and the marks of patches in them.

use serde_json::Value;

/// The beginning and the end of a patch in the form that some agents apply.
pub(super) const PATCH_START: &str = "*** Begin Patch";
pub(super) const PATCH_END: &str = "*** End Patch";

/// The marks before the path of a file in such a patch: of one that is added, changed, removed, and of the
/// name that it gets.
pub(super) const PATCH_ADDS: &str = "*** Add File: ";
pub(super) const PATCH_UPDATES: &str = "*** Update File: ";
pub(super) const PATCH_DELETES: &str = "*** Delete File: ";
pub(super) const PATCH_MOVES: &str = "*** Move to: ";

/// Returns the path of the file that a line of such a patch names.
pub(super) fn patched_in(line: &str) -> Option<&str> {
    [PATCH_ADDS, PATCH_UPDATES, PATCH_DELETES].iter().find_map(|mark| line.strip_prefix(mark)).map(str::trim)
}

/// Arguments that name a file.
pub(super) const PATHS: &[&str] = &[
    "file_path",
    "absolutePath",
    "path",
    "notebook_path",
    "filePath",
    "file",
    "filename",
    "target_file",
    "absolute_path",
    "relative_path",
    "pathInProject",
    // Antigravity
    "TargetFile",
    "AbsolutePath",
    "File",
    "DirectoryPath",
    "SearchPath",
    "SearchDirectory",
];
/// Arguments that are a command, and the one by which an agent says what it is for.
pub(super) const COMMANDS: &[&str] = &["command", "cmd", "CommandLine"];
pub(super) const DESCRIPTION: &str = "description";
/// Arguments that name the folder of a command.
pub(super) const FOLDERS: &[&str] =
    &["workdir", "cwd", "Cwd", "working_directory", "workingDirectory", "dir_path", "directory"];
/// Arguments that tell what a call is, if none names a file.
pub(super) const SUBJECTS: &[&str] =
    &["command", "cmd", "CommandLine", "query", "Query", "pattern", "Pattern", "url", "Url", "name", "id"];

/// The argument of any call of Cline's that is no part of it: the list of tasks, as lines of Markdown.
pub(super) const PROGRESS: &str = "task_progress";
/// Such arguments, with those by which Antigravity has an agent say what each of its calls is for.
pub(super) const ASIDE: &[&str] = &[PROGRESS, "toolAction", "toolSummary"];

/// Arguments that are a question to a tool that looks something up.
pub(super) const QUERIES: &[&str] = &["query", "Query", "pattern", "Pattern", "regex"];

/// Arguments that tell what is looked for in a path.
pub(super) const SOUGHT: &[&str] = &["pattern", "query", "regex", "Pattern", "Query"];

/// Returns a text or a number as it is told, such as an id; `None` for any other value.
pub(super) fn text_or_number(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Checks whether an argument of that name tells what a call is: its label has it.
pub(super) fn tells_what(name: &str) -> bool {
    [PATHS, SUBJECTS, SOUGHT].iter().any(|names| names.contains(&name)) || name == DESCRIPTION
}

/// The first words of the names of arguments that hold the text which another one replaces, and the name of
/// the one that Antigravity has.
const OLD: [&str; 4] = ["old", "search", "find", "original"];
const OLD_CONTENT: &str = "TargetContent";

pub(super) fn is_of_old(name: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(char::is_lowercase);
    name == OLD_CONTENT || OLD.iter().any(|old| name.strip_prefix(old).is_some_and(ends))
}
