//! The label of an entry: the number of its message, the tool, and what its call is about.

use std::borrow::Cow;

use super::work_files::{Root, below, deepest, has_root};
use crate::compaction::features::is_line_break;
use crate::compaction::findings::{Deed, has_drive, is_absolute, join};
use crate::{ContextMessage, MessageId, ToolCall};

/// Most characters of a tool's name: as many as providers allow.
const TOOL_CHARS: usize = 128;
/// Most characters of a call's subject, and of what it looks for there.
const SUBJECT_CHARS: usize = 140;
const SOUGHT_CHARS: usize = 60;

/// The folder of most of the files that the calls are about: in labels, paths begin below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Folder {
    pub(super) files: Option<String>,
    /// The folder in which most commands run.
    pub(super) root: Root,
}

/// The share of the paths that are in the folder at least, in percent, and the fewest of them that need one.
const IN_FOLDER_PERCENT: usize = 60;
const LEAST_PATHS: usize = 4;

impl Folder {
    /// Finds the deepest folder of most of the files that `messages` touch, unless an earlier record has
    /// `known` one.
    pub(super) fn of(messages: &[ContextMessage], known: Option<String>) -> Self {
        if known.is_some() {
            return Self { root: Root::of(messages, known.as_deref()), files: known };
        }
        let deeds = messages.iter().flat_map(|message| &message.findings().deeds);
        let paths: Vec<Cow<'_, str>> =
            deeds.flat_map(|deed| &deed.touches).map(|(path, _)| with_slashes(path)).collect();
        let paths: Vec<&str> = paths.iter().map(AsRef::as_ref).collect();
        let absolute = paths.iter().filter(|path| has_root(path) && !path.contains(is_line_break));
        let folders = absolute.flat_map(|path| path.match_indices('/').skip(1).map(|(at, _)| &path[..at]));
        let is_most = |n: usize| n >= LEAST_PATHS && n * 100 >= paths.len() * IN_FOLDER_PERCENT;
        let files = deepest(folders, is_most);
        Self { root: Root::of(messages, files), files: files.map(str::to_owned) }
    }

    pub(super) const fn root(&self) -> &Root {
        &self.root
    }

    /// Returns its path.
    pub(super) fn as_deref(&self) -> Option<&str> {
        self.files.as_deref()
    }

    /// Returns a path as labels have it: below the folder, if it is there.
    pub(super) fn path<'p>(&self, path: &'p str) -> &'p str {
        let below = self.files.as_deref().and_then(|folder| below(path, folder));
        below.filter(|below| !below.is_empty()).unwrap_or(path)
    }

    /// Returns the subject of a call as a label has it: a blank before it, in one line, and in quotes what is
    /// looked for there; empty if it has none.
    pub(super) fn subject(&self, deed: &Deed) -> String {
        let subject = deed.subject.as_deref().and_then(subject_line);
        let Some(subject) = subject else { return String::new() };
        let below = self.files.as_deref().and_then(|folder| below(&subject, folder));
        let path = below.map_or(subject.as_str(), |below| if below.is_empty() { "." } else { below });
        // Elsewhere, the same command is another one.
        let told = self.root.with_folder(path, deed.folder().filter(|_| !is_absolute(&subject)));
        match deed.sought.as_deref().and_then(|sought| one_line(sought, SOUGHT_CHARS)) {
            Some(sought) => format!(" {told} \"{sought}\""),
            None => format!(" {told}"),
        }
    }
}

/// Returns a path with the slashes that folders have here: below a drive, calls write either.
fn with_slashes(path: &str) -> Cow<'_, str> {
    if has_drive(path) { Cow::Owned(join(None, path)) } else { Cow::Borrowed(path) }
}

/// Returns the name of a call's tool as labels have it.
pub(super) fn tool_name(call: &ToolCall) -> Option<String> {
    one_line(call.name.as_str(), TOOL_CHARS)
}

/// Returns a subject in one line: of a path that is too long, its end.
fn subject_line(subject: &str) -> Option<String> {
    let end_of_path = || {
        let line = subject.trim();
        let start = line.char_indices().rev().nth(SUBJECT_CHARS)?.0;
        let folder = start + line[start..].find(['/', '\\'])?;
        (!line.contains(char::is_whitespace)).then(|| format!("…{}", &line[folder..]))
    };
    one_line(&told_of_script(subject), SUBJECT_CHARS).or_else(end_of_path)
}

/// Returns what tells of a command whose first line only begins a text: of a here-string of PowerShell the
/// command that is given it, of the message of a commit the command before it, and of a script its first line
/// that does something as well.
fn told_of_script(subject: &str) -> Cow<'_, str> {
    let (first, rest) = subject.trim_start().split_once('\n').unwrap_or((subject, ""));
    let first = first.trim_end();
    let given = [("@'", "'@"), ("@\"", "\"@")].iter().find_map(|(begin, end)| {
        let at = rest.find(&format!("\n{end}")).filter(|_| first.ends_with(begin))?;
        Some(rest[at + 1 + end.len()..].trim_start_matches(['|', ' ', '\r', '\n']))
    });
    if let Some(given) = given.filter(|given| !given.is_empty()) {
        return Cow::Borrowed(given);
    }
    let before_text = first.split_once(TEXT).map(|(command, _)| command.trim_end());
    let option = before_text.and_then(|command| command.rsplit_once(' '));
    if let Some((command, _)) = option.filter(|(_, option)| option.starts_with('-')) {
        return Cow::Borrowed(command);
    }
    let begins_script = first.ends_with(['"', '\''])
        && SCRIPTS.iter().any(|option| first[..first.len() - 1].ends_with(option))
        || first.contains("<<") && !first.contains('>') && !first.contains("cat ");
    let is_import = |line: &&str| IMPORTS.iter().any(|import| line.starts_with(import));
    let does = |line: &&str| line.contains(char::is_alphanumeric) && !is_import(line);
    let step = rest.lines().map(str::trim).find(does).filter(|_| begins_script);
    step.map_or(Cow::Borrowed(subject), |step| Cow::Owned(format!("{first} {step}")))
}

/// The beginning of a here-document that is an argument.
const TEXT: &str = "\"$(cat <<";
/// The options whose value is a script, and the beginnings of its lines that do nothing yet.
const SCRIPTS: [&str; 4] = ["-c ", "-e ", "-Command ", "-lc "];
const IMPORTS: [&str; 8] = ["import ", "from ", "#", "use ", "require", "const ", "set -", "//"];

/// Returns the number of a message's id, by which entries are in order.
pub(super) fn number(message: &ContextMessage) -> u64 {
    message.id().map_or(0, MessageId::as_u64)
}

/// Returns the first line of a text, shortened to whole words, without what a label ends with; `None` if it
/// has none.
pub(super) fn one_line(text: &str, most: usize) -> Option<String> {
    let line = text.split(is_line_break).map(str::trim).find(|line| !line.is_empty())?;
    let end = line.char_indices().nth(most).map_or(line.len(), |(end, _)| end);
    let shortened = match line[..end].rfind(char::is_whitespace) {
        _ if end == line.len() => line.to_owned(),
        // A part of a word would be a name that nothing has.
        Some(blank) => format!("{} …", line[..blank].trim_end()),
        None => return None,
    };
    Some(shortened.trim_end_matches(':').to_owned()).filter(|line| !line.is_empty())
}
