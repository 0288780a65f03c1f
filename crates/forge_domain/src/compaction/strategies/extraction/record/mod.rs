//! The record: its sections as data, and the one text form that people and models read and a later record
//! takes over.

mod entry;
mod parts;
mod quoting;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::{Value, json};

pub(crate) use self::entry::Entry;
pub(crate) use self::parts::{Part, parts};
pub(super) use self::quoting::unquote;
use self::quoting::{item, json_string, quote};
use super::file_lines::{Told, apart, together};
use super::root::{below, out_of_folder};
use crate::Message;
use crate::compaction::findings::{FileState, Outcome, is_absolute};
use crate::compaction::record_tag::{CLOSE, OPEN};

/// The record of earlier messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) around: Around,
    /// The words of the user that no message of its own holds any more.
    pub(crate) said: Vec<Entry>,
    /// Short answers of the user's, each behind the agent's question.
    pub(crate) interview: Vec<Entry>,
    /// The agent's list of tasks, each with its status.
    pub(crate) tasks: Vec<String>,
    /// The folder below which the paths in labels begin.
    pub(crate) folder: Option<String>,
    /// Files by path with their last state.
    pub(crate) files: Vec<(String, FileState)>,
    /// The last run of tests, and how it ended.
    pub(crate) last_test: Option<(String, Outcome)>,
    /// The last build or other check after it, and how it ended.
    pub(crate) last_check: Option<(String, Outcome)>,
    /// Unresolved errors.
    pub(crate) errors: Vec<OpenError>,
    /// The words and calls of the agent, in order.
    pub(crate) story: Vec<Entry>,
    /// Passages of what was read, in order.
    pub(crate) excerpts: Vec<Entry>,
    /// The contents of what left: what to ask for again.
    pub(crate) left_out: Vec<Entry>,
}

/// The order of a record and the messages around it. It is not read back from a text: the record may stand
/// elsewhere then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Around {
    /// The label of the user's latest message, if that stands below the record although it came before
    /// something that is told there.
    pub(crate) request_below: Option<String>,
    /// True if the user's words that the record quotes came before those that stand above it.
    pub(crate) words_above: bool,
}

/// An unresolved error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenError {
    /// The label of the result that has it; unknown in records before errors had one.
    pub(crate) label: Option<String>,
    /// The line that names it.
    pub(crate) line: String,
    /// The key of the calls whose success resolves it; unknown if the record was read from its text alone.
    pub(crate) mended_by: Option<String>,
}

/// The sections that consist of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Section {
    Said,
    Interview,
    Story,
    Excerpts,
    LeftOut,
}

/// Key of a record's metadata: the calls that would resolve each of its errors. Models do not see it.
const MENDED_BY: &str = "mended_by";
const INTRODUCTION: &str = "Notes in place of earlier messages, not a request. What is quoted is verbatim, under the label of its message.";
/// The sentence about the user's latest message, before and after its label.
const REQUEST_BELOW: &str = "The request below is ";
const CAME_BEFORE: &str = "; what has a later label came after it.";
/// The sentence about the user's words of which some stand above the record.
const WORDS_ABOVE: &str = "The user's words here are older than those above, except the first.";
/// The introduction and the sections of records before they had entries. Their lines are taken over as
/// excerpts; their lists of bare names are not.
const OLD_INTRODUCTION: &str = "Earlier messages were folded into this record. Its lines are verbatim, under the labels of their messages.";
const OLD_LINES: &str = "# Lines";
const OLD_NAMES: &str = "# Other names seen";
const SAID: &str = "# Said by the user";
const INTERVIEW: &str = "# Asked and answered";
const TASKS: &str = "# Tasks";
const FILES: &str = "# Files";
const ERRORS: &str = "# Errors that stand";
const STORY: &str = "# Done and concluded";
const EXCERPTS: &str = "# Excerpts";
const LEFT_OUT: &str = "# Left out";
const LAST_TEST: &str = "Last test: ";
const LAST_CHECK: &str = "Last check: ";
const FOLDER: &str = "Relative paths are below ";
/// If a file has a relative path itself, only labels are below the folder, as in all earlier records.
const FOLDER_OF_LABELS: &str = "Paths in labels are below ";
const ITEM: &str = "- ";
/// The indentation of an entry's later lines.
const INDENT: &str = "    ";

impl OpenError {
    fn to_text(&self) -> String {
        match &self.label {
            Some(label) => format!("{ITEM}{label}: {}", quote(&self.line)),
            None if split_label(&self.line).is_some() => format!("{ITEM}{}", json!(self.line)),
            None => format!("{ITEM}{}", quote(&self.line)),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        let text = line.strip_prefix(ITEM)?;
        let (label, line) = split_label(text).map_or((None, text), |(label, line)| (Some(label), line));
        Some(Self { label: label.map(str::to_owned), line: unquote(line).into_owned(), mended_by: None })
    }
}

/// Splits a text into the label of a message and the rest.
fn split_label(text: &str) -> Option<(&str, &str)> {
    let (label, rest) = text.split_once(": ")?;
    let number = label.strip_prefix('m')?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some((label, rest))
}

impl Record {
    /// Returns the entries of a section.
    pub(crate) fn entries_mut(&mut self, section: Section) -> &mut Vec<Entry> {
        match section {
            Section::Said => &mut self.said,
            Section::Interview => &mut self.interview,
            Section::Story => &mut self.story,
            Section::Excerpts => &mut self.excerpts,
            Section::LeftOut => &mut self.left_out,
        }
    }

    /// Returns the text of the record.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("{OPEN}\n{INTRODUCTION}\n");
        if let Some(label) = &self.around.request_below {
            text.push_str(&format!("{REQUEST_BELOW}{label}{CAME_BEFORE}\n"));
        }
        if self.around.words_above {
            text.push_str(&format!("{WORDS_ABOVE}\n"));
        }
        let mut section = |title: &str, lines: &mut dyn Iterator<Item = Cow<'_, str>>| {
            let mut lines = lines.peekable();
            if lines.peek().is_some() {
                text.push_str(title);
                text.push('\n');
            }
            for line in lines {
                text.push_str(&line);
                text.push('\n');
            }
        };
        fn entries(entries: &[Entry]) -> impl Iterator<Item = Cow<'_, str>> {
            entries.iter().map(|entry| Cow::Borrowed(entry.as_str()))
        }
        section(SAID, &mut entries(&self.said));
        section(INTERVIEW, &mut entries(&self.interview));
        section(TASKS, &mut self.tasks.iter().map(|task| format!("{ITEM}{}", quote(task)).into()));
        let below = self.files_below_folder();
        let files = self.files.iter().enumerate().map(|(nth, (path, state))| {
            let path = below.as_ref().map_or(path.as_str(), |below| below[nth]);
            (path, *state)
        });
        let files = together(&files.collect::<Vec<_>>());
        let files = files.iter().map(|(state, told)| {
            let told = match told {
                Told::Several(told) => Cow::Borrowed(told.as_str()),
                // It would be read as several.
                Told::One(path) if apart(path) != [path.as_str()] => json!(path).to_string().into(),
                Told::One(path) => quote(path),
            };
            format!("{}: {told}", state.word()).into()
        });
        let checks = [(LAST_TEST, &self.last_test), (LAST_CHECK, &self.last_check)];
        let checks = checks.into_iter().filter_map(|(what, last)| {
            let (command, outcome) = last.as_ref()?;
            Some(format!("{what}{} -> {}", quote(command), outcome.word()).into())
        });
        let is_of_files = below.is_some();
        let folder = self.folder.iter().map(|folder| {
            let says = if is_of_files { FOLDER } else { FOLDER_OF_LABELS };
            format!("{says}{}", quote(folder)).into()
        });
        section(FILES, &mut folder.chain(files).chain(checks));
        section(ERRORS, &mut self.errors.iter().map(|error| error.to_text().into()));
        section(STORY, &mut entries(&self.story));
        section(EXCERPTS, &mut entries(&self.excerpts));
        section(LEFT_OUT, &mut entries(&self.left_out));
        text.push_str(CLOSE);
        text
    }

    /// Returns the command whose result has an error, from the step that tells of it.
    pub(crate) fn command_of(&self, error: &OpenError) -> Option<&str> {
        self.story.iter().rev().find_map(|step| {
            let (called, told) = step.as_str().split_once(": failed: ")?;
            let is_it = told.trim_end_matches(" …") == error.line
                || error.line.starts_with(told.trim_end_matches(" …"));
            // The label and the tool come first.
            is_it.then(|| called.splitn(3, ' ').nth(2)).flatten()
        })
    }

    /// Returns the highest number of a message that it tells of.
    pub(crate) fn last_number(&self) -> u64 {
        self.story.iter().chain(&self.excerpts).map(Entry::number).max().unwrap_or(0)
    }

    /// Checks whether it tells nothing.
    pub(crate) fn is_bare(&self) -> bool {
        let (around, folder) = (self.around.clone(), self.folder.clone());
        *self == Self { around, folder, ..Self::default() }
    }

    /// Parses the record in `text`; returns `None` if it is not one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let body = text.strip_prefix(OPEN)?.trim_end().strip_suffix(CLOSE)?;
        let mut record = Self::default();
        let mut above_files = None;
        for (_, lines, part) in parts(body) {
            match part {
                Part::Entry(section) => record.entries_mut(section).push(Entry(lines.to_owned())),
                Part::Task => record.tasks.extend(item(lines)),
                Part::Error => record.errors.extend(OpenError::parse(lines)),
                Part::File => record.take_file_line(lines, &mut above_files),
                Part::Frame => {}
            }
        }
        Some(record)
    }

    /// Returns the message that holds it.
    pub(crate) fn to_message(&self) -> Message {
        let mut message = Message::user(self.to_text()).compacted();
        if self.errors.iter().any(|error| error.mended_by.is_some()) {
            let mended_by: Vec<Option<&str>> =
                self.errors.iter().map(|error| error.mended_by.as_deref()).collect();
            message.metadata.insert(MENDED_BY.to_owned(), json!(mended_by));
        }
        message
    }

    /// Returns the record that `message` holds; empty if its text is not one.
    pub(crate) fn of(message: &Message) -> Self {
        let mut record = Self::parse(&message.text()).unwrap_or_default();
        let mended_by = message.metadata.get(MENDED_BY).and_then(Value::as_array);
        for (error, key) in record.errors.iter_mut().zip(mended_by.into_iter().flatten()) {
            error.mended_by = key.as_str().map(str::to_owned);
        }
        record
    }

    /// Returns the paths of the files, relative to the folder if they are in it. Returns `None` if there is
    /// no folder, or if any path is relative already and names no place: it would be read as one in the
    /// folder.
    fn files_below_folder(&self) -> Option<Vec<&str>> {
        let folder = self.folder.as_deref()?;
        self.files.iter().map(|(path, _)| below_folder(path, folder)).collect()
    }

    /// Takes a line of the files; `above_files` is the folder above their relative paths.
    fn take_file_line(&mut self, line: &str, above_files: &mut Option<String>) {
        let ran = |what: &str| {
            let (command, told) = line.strip_prefix(what)?.rsplit_once(" -> ")?;
            let outcome = Outcome::ALL.into_iter().find(|outcome| outcome.word() == told);
            Some((unquote(command).into_owned(), outcome.unwrap_or(Outcome::Unclear)))
        };
        if let Some(test) = ran(LAST_TEST) {
            self.last_test = Some(test);
        } else if let Some(check) = ran(LAST_CHECK) {
            self.last_check = Some(check);
        } else if let Some(folder) = line.strip_prefix(FOLDER_OF_LABELS) {
            self.folder = Some(unquote(folder).into_owned());
        } else if let Some(folder) = line.strip_prefix(FOLDER) {
            self.folder = Some(unquote(folder).into_owned());
            above_files.clone_from(&self.folder);
        } else if let Some((word, path)) = line.split_once(": ")
            && let Some(state) = FileState::ALL.into_iter().find(|state| state.word() == word)
        {
            // Quoted, it is one path whatever is in it.
            let paths = match json_string(path) {
                Some(path) => vec![path],
                None => apart(path),
            };
            for path in paths {
                let path = match above_files {
                    Some(folder) if !tells_place(&path) => format!("{folder}/{path}"),
                    _ => path,
                };
                self.files.push((path, state));
            }
        }
    }
}

/// Returns a path that tells its place as it is below `folder`, or as it is if it is not; `None` for another
/// one.
fn below_folder<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    let below = below(path, folder).filter(|below| !below.is_empty() && !tells_place(below));
    tells_place(path).then_some(below.unwrap_or(path))
}

/// Checks whether a path is absolute, or names the folder in which it is.
fn tells_place(path: &str) -> bool {
    is_absolute(path) || out_of_folder(path).1.is_some()
}

/// Returns the length of the record at the start of `text`, as [`Record::to_text`] writes it.
pub(crate) fn record_length(text: &str) -> Option<usize> {
    let rest = text.strip_prefix(OPEN)?.strip_prefix('\n')?;
    let rest = rest.strip_prefix(INTRODUCTION).or_else(|| rest.strip_prefix(OLD_INTRODUCTION))?;
    let close = format!("\n{CLOSE}");
    let end = rest.find(&close).filter(|_| rest.starts_with('\n'))?;
    Some(text.len() - rest.len() + end + close.len())
}
