//! The subject and effect of a call, as far as its name and arguments tell.

use serde_json::Value;

use super::acts::is_act;
use super::check::Checks;
use super::command_line::{Walk, is_shell, without_documents, without_dot, without_folder};
use super::identity::{CHANGE, edit_of_open_file, in_its_folder, keys_of};
use super::line_facts::CommandLine;
use super::looks::only_looks;
use super::script_changes::{script_changes, scripts_in};
use super::shell_change::{ShellStep, shell_changes};
use super::touch::{Extent, Touch, file_shown_by, listed_files, moved_by, patched_files, paths_of, touch};
use crate::ToolCall;
use crate::compaction::arguments::{
    ASIDE, COMMANDS, FOLDERS, PATCH_START, PATHS, SOUGHT, SUBJECTS, text_or_number,
};
use crate::compaction::features::{hash, is_line_break};

/// The effect of a call that succeeds, and the meaning of its failure.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Deed {
    /// A hash of its tool and arguments: calls that are the same have the same.
    pub(crate) call_hash: u64,
    /// Files by path, in order.
    pub(crate) touches: Vec<(String, Touch)>,
    /// The effect on a file that only its result names.
    pub(super) unnamed_change: Option<Touch>,
    /// The changes of files by its command.
    pub(crate) shell_changes: Vec<ShellStep>,
    /// The tests, builds and checks that it runs, in order.
    pub(crate) checks: Checks,
    /// The identities of a call, of each of its commands one, and the folder in which that runs: a success
    /// resolves the errors of others whose last one is among them.
    pub(crate) keys: Vec<(String, Option<String>)>,
    /// True if it only looks: something that it does not find is not an unresolved error.
    pub(crate) only_looks: bool,
    /// The extent of the file that it reads; `None` if it reads none.
    pub(crate) reads: Option<Extent>,
    /// The most telling argument: a path, a command, a question.
    pub(crate) subject: Option<String>,
    /// The text that it looks for in its subject, if that is a path.
    pub(crate) sought: Option<String>,
    /// True if it runs a command or code, which tells last what came of it.
    pub(crate) runs: bool,
    /// The facts of its command line by which its result is judged.
    pub(super) command_line: CommandLine,
}

impl Deed {
    pub(super) fn of(call: &ToolCall) -> Self {
        let arguments = arguments_of(call);
        let argument = |names: &[&str]| names.iter().find_map(|name| arguments.get(name)?.as_str());
        // The server's name comes before that of its tool.
        let name = call.name.as_str().rsplit('.').next().unwrap_or_default();
        let name = name.rsplit("__").next().unwrap_or_default().to_lowercase();
        let path = argument(PATHS);
        let listed = listed_command(&arguments);
        let command = argument(COMMANDS).or_else(|| argument(&["script", "input"])).or(listed.as_deref());
        let command = command.filter(|_| path.is_none());
        let without_documents = command.map(without_documents);
        let commands = without_documents.as_deref();
        let place = argument(FOLDERS).filter(|_| command.is_some());
        let walk = commands.map(|commands| Walk::of(commands, place)).unwrap_or_default();
        let told = argument(&["command"]).filter(|_| path.is_some());
        let described = argument(&["description"]).filter(|text| !text.trim().is_empty());
        let fields = || arguments.as_object().into_iter().flat_map(|fields| fields.values());
        let is_patch = |text: &&str| text.contains(PATCH_START);
        let patch = match path {
            None => fields().filter_map(Value::as_str).chain(listed.as_deref()).find(is_patch),
            Some(_) => argument(&["input", "patch"]).filter(is_patch),
        };
        let verb = told.unwrap_or(&name).to_lowercase();
        let is_rehearsal =
            ["dryRun", "dry_run"].iter().any(|name| arguments.get(name) == Some(&Value::Bool(true)));
        let shown = command.filter(|_| patch.is_none()).and_then(file_shown_by);
        let touches = match (patch, path, &shown) {
            (Some(patch), ..) => patched_files(patch),
            (None, Some(path), _) if is_rehearsal => vec![(path.to_owned(), Touch::Looks)],
            (None, Some(path), _) => vec![(path.to_owned(), touch(&verb))],
            (None, None, Some((file, _))) => vec![(file.clone(), Touch::Looks)],
            (None, None, None) => listed_files(&arguments, touch(&name)),
        };
        // A tool with a verb as an argument has that beside the path.
        let n_expected = 1 + usize::from(told.is_some());
        let extent = if fields().count() > n_expected { Extent::Part } else { Extent::Whole };
        let extent = shown.as_ref().map_or(extent, |(_, extent)| *extent);
        let reads = matches!(touches[..], [(_, Touch::Looks)]).then_some(extent);
        let is_named = patch.is_some() || path.is_some() || command.is_some();
        let edits_open_file = commands.and_then(edit_of_open_file).filter(|_| patch.is_none());
        Self {
            call_hash: hash(call.name.as_str()).rotate_left(1) ^ hash(&call.arguments),
            unnamed_change: edits_open_file
                .or_else(|| (!is_named).then_some(&*name))
                .filter(|_| !name.contains("stdin"))
                .map(touch)
                .filter(|touch| *touch != Touch::Looks),
            shell_changes: match moved_by(&verb, &|names| argument(names).map(str::to_owned)) {
                Some(change) => vec![ShellStep { change, folder: None, is_sure: false }],
                None if patch.is_some() => Vec::new(),
                None => changes_of_line(command, argument(&["code"]), &walk),
            },
            checks: Checks::of(&walk),
            keys: match (path, edits_open_file) {
                // However it is changed at last, its change has succeeded.
                (Some(path), _) if touches.iter().any(|(_, touch)| *touch != Touch::Looks) => {
                    vec![(format!("{CHANGE} {path}"), None)]
                }
                (Some(path), _) => vec![(format!("{name} {path}"), None)],
                // Each time, other lines are named.
                (None, Some(edit)) => vec![(edit.to_owned(), None)],
                (None, None) => keys_of(command, &walk),
            },
            only_looks: reads.is_some() || command.is_some_and(only_looks),
            runs: command.or_else(|| argument(&["code"])).is_some(),
            command_line: commands.map(|commands| CommandLine::of(commands, &walk)).unwrap_or_default(),
            subject: path
                .or(shown.as_ref().map(|(file, _)| file.as_str()))
                .or_else(|| described.filter(|_| command.is_some_and(is_script)))
                .or_else(|| {
                    argument(SUBJECTS).or(listed.as_deref()).filter(|_| patch.is_none()).map(in_its_folder)
                })
                .map(str::to_owned)
                .or_else(|| patch.and_then(|_| paths_of(&touches)))
                .or_else(|| questions(&arguments))
                .or_else(|| values(&arguments)),
            sought: argument(SOUGHT).filter(|_| path.is_some()).map(str::to_owned),
            touches,
            reads,
        }
    }

    /// Returns the folder in which its command begins, if that is told.
    pub(crate) fn folder(&self) -> Option<&str> {
        self.command_line.folder.as_deref()
    }

    /// Returns the folder that its command enters, if it does nothing else.
    pub(crate) fn enters(&self) -> Option<&str> {
        self.command_line.enters.as_deref()
    }

    /// Checks whether it, which is the deed of `call`, changes something outside of the files of the work.
    pub(crate) fn acts(&self, call: &ToolCall) -> bool {
        self.command_line.acts || !self.runs && self.touches.is_empty() && is_act(call.name.as_str())
    }

    /// Returns the file into which a check of its command writes.
    pub(crate) fn log(&self) -> Option<&str> {
        self.command_line.log.as_deref()
    }

    /// Checks whether it looks at a file of that name.
    pub(crate) fn looks_at(&self, file: &str) -> bool {
        let name = without_folder(file);
        let is_it = |word: &str| without_folder(word) == name;
        self.only_looks
            && (self.touches.iter().any(|(path, _)| is_it(path))
                || self.subject.iter().flat_map(|subject| subject.split_whitespace()).any(is_it))
    }

    /// Returns the file that it reads, and the extent.
    pub(crate) fn read(&self) -> Option<(&str, Extent)> {
        self.reads.zip(self.touches.first()).map(|(extent, (path, _))| (without_dot(path), extent))
    }

    /// Checks whether a line is a heading that its command prints itself.
    pub(crate) fn is_heading(&self, line: &str) -> bool {
        self.command_line.headings.contains(line.trim())
    }

    /// Checks whether its command changes something outside of the files of the work.
    pub(crate) fn acts_outside(&self) -> bool {
        self.command_line.acts
    }

    /// Returns the ids that the call may ask about: its values, unless it does something itself.
    pub(crate) fn ids_asked_about(&self, call: &ToolCall) -> Vec<String> {
        let arguments = arguments_of(call);
        let does_something = self.runs || !self.touches.is_empty();
        let fields =
            arguments.as_object().filter(|_| !does_something).into_iter().flat_map(|fields| fields.values());
        fields.filter_map(text_or_number).collect()
    }

    /// Checks whether it changes any file.
    pub(crate) fn changes_files(&self) -> bool {
        self.changes().next().is_some()
    }

    /// Iterates over the files that it changes, each with what becomes of it.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (&str, Touch)> {
        let changed = self.touches.iter().filter(|(_, touch)| *touch != Touch::Looks);
        changed.map(|(path, touch)| (without_dot(path), *touch))
    }
}

/// Returns the arguments of a call, without those that are no part of it.
fn arguments_of(call: &ToolCall) -> Value {
    let mut arguments: Value = serde_json::from_str(&call.arguments).unwrap_or(Value::Null);
    if let Some(fields) = arguments.as_object_mut() {
        fields.retain(|name, _| !ASIDE.contains(&name.as_str()));
    }
    arguments
}

/// Returns the changes of a command line that was followed by `walk`, and those of the scripts in it, or of
/// `code` alone.
fn changes_of_line(command: Option<&str>, code: Option<&str>, walk: &Walk<'_>) -> Vec<ShellStep> {
    let mut changes = shell_changes(walk);
    let folder = walk.steps.last().and_then(|step| step.folder.clone());
    let scripts = match command {
        Some(command) => scripts_in(command),
        None => code.map(str::to_owned).into_iter().collect(),
    };
    let of_scripts = scripts.iter().flat_map(|script| script_changes(script));
    changes.extend(of_scripts.map(|change| ShellStep { change, folder: folder.clone(), is_sure: false }));
    changes
}

/// Checks whether a command takes several lines: its first one hardly tells what it does.
fn is_script(command: &str) -> bool {
    in_its_folder(command).trim().contains('\n')
}

/// Returns a command that is a list of words; what it gives a shell to run is the command.
fn listed_command(arguments: &Value) -> Option<String> {
    let words = ["command", "cmd"].iter().find_map(|name| arguments.get(name)?.as_array())?;
    let words: Vec<&str> = words.iter().map(Value::as_str).collect::<Option<_>>()?;
    match words[..] {
        [shell, option, script] if is_shell(shell) && option.starts_with('-') && option.ends_with('c') => {
            Some(script.to_owned())
        }
        _ => Some(words.join(" ")),
    }
}

/// Returns the questions of a call that asks several, in a line.
fn questions(arguments: &Value) -> Option<String> {
    let list = arguments.get("questions")?.as_array()?;
    let asked: Vec<&str> = list.iter().filter_map(|item| item.get("question")?.as_str()).collect();
    (!asked.is_empty()).then(|| asked.join(" ").split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Characters of a value that is short, the most of any, and the most of such values.
const VALUE_CHARS: usize = 80;
const MOST_CHARS: usize = 400;
const VALUES: usize = 3;

/// Returns the short values of a call's arguments: an order's number, a name, a question.
fn values(arguments: &Value) -> Option<String> {
    let shown = |value: &Value| match value {
        Value::String(text) if text.contains(char::is_alphanumeric) && !text.contains(is_line_break) => {
            Some(text.trim().chars().take(MOST_CHARS).collect())
        }
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let mut shown: Vec<String> = arguments.as_object()?.values().filter_map(shown).collect();
    // A long text is told only if there is nothing else.
    if shown.iter().any(|value| value.chars().count() <= VALUE_CHARS) {
        shown.retain(|value| value.chars().count() <= VALUE_CHARS);
    }
    shown.truncate(VALUES);
    (!shown.is_empty()).then(|| shown.join(", "))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::ToolName;

    #[test]
    fn a_call_is_about_a_file_a_command_or_a_question() {
        type About<'a> = (Option<(&'a str, Extent)>, &'a [&'a str], Option<&'a str>);
        let table: [(&str, &str, About<'_>); 23] = [
            ("Read", r#"{"file_path":"a.rs"}"#, (Some(("a.rs", Extent::Whole)), &[], Some("a.rs"))),
            (
                "read_file",
                r#"{"path":"a.rs","task_progress":"- [ ] One"}"#,
                (Some(("a.rs", Extent::Whole)), &[], Some("a.rs")),
            ),
            ("Read", r#"{"file_path":"a.rs","limit":9}"#, (Some(("a.rs", Extent::Part)), &[], Some("a.rs"))),
            (
                "editor",
                r#"{"command":"view","path":"a.rs"}"#,
                (Some(("a.rs", Extent::Whole)), &[], Some("a.rs")),
            ),
            ("editor", r#"{"command":"create","path":"a.rs"}"#, (None, &["a.rs"], Some("a.rs"))),
            ("Write", r#"{"path":"./a.rs","text":"x"}"#, (None, &["a.rs"], Some("./a.rs"))),
            ("Bash", r#"{"command":"ls -l"}"#, (None, &[], Some("ls -l"))),
            ("Bash", r##"{"command":"# look\ncd /a\nls -l"}"##, (None, &[], Some("ls -l"))),
            ("Bash", r#"{"command":"cd /a; ls -l"}"#, (None, &[], Some("ls -l"))),
            ("Bash", r#"{"command":"cd /a"}"#, (None, &[], Some("cd /a"))),
            ("Bash", r#"{"command":"cat a.rs"}"#, (Some(("a.rs", Extent::Whole)), &[], Some("a.rs"))),
            (
                "shell",
                r#"{"command":["bash","-lc","cd /a && sed -n '1,40p' src/a.rs 2>/dev/null"]}"#,
                (Some(("src/a.rs", Extent::Part)), &[], Some("src/a.rs")),
            ),
            (
                "Bash",
                r#"{"command":"nl -ba a.rs | sed -n 1,40p"}"#,
                (Some(("a.rs", Extent::Part)), &[], Some("a.rs")),
            ),
            ("Bash", r#"{"command":"cat a.rs b.rs"}"#, (None, &[], Some("cat a.rs b.rs"))),
            ("Bash", r#"{"command":"cat a.rs && make"}"#, (None, &[], Some("cat a.rs && make"))),
            ("Bash", r#"{"command":"cat > a.rs"}"#, (None, &[], Some("cat > a.rs"))),
            (
                "apply_patch",
                r#"{"input":"*** Begin Patch\n*** Add File: n\n*** Update File: o\n"}"#,
                (None, &["n", "o"], Some("n, o")),
            ),
            (
                "view_file",
                r#"{"AbsolutePath":"a.rs","toolAction":"View it","toolSummary":"File view"}"#,
                (Some(("a.rs", Extent::Whole)), &[], Some("a.rs")),
            ),
            (
                "write_to_file",
                r#"{"CodeContent":"x","TargetFile":"a.rs","toolSummary":"New file"}"#,
                (None, &["a.rs"], Some("a.rs")),
            ),
            (
                "grep_search",
                r#"{"Query":"fn a","SearchPath":"src"}"#,
                (Some(("src", Extent::Part)), &[], Some("src")),
            ),
            ("run_command", r#"{"CommandLine":"ls -l","Cwd":"/a"}"#, (None, &[], Some("ls -l"))),
            ("now", "{}", (None, &[], None)),
            ("broken", "{", (None, &[], None)),
        ];
        for (name, arguments, expected) in table {
            let call =
                ToolCall { id: "c".into(), name: ToolName::new(name).unwrap(), arguments: arguments.into() };
            let deed = Deed::of(&call);
            let changed: Vec<&str> = deed.changes().map(|(path, _)| path).collect();
            let actual = (deed.read(), changed.as_slice(), deed.subject.as_deref());
            assert_eq!(actual, expected, "{name} {arguments}");
        }
    }
}
