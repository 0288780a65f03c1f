//! Proposals of the Tab key: commands, their arguments, and names of files.

use std::path::{Path, PathBuf};

use forge_domain::{Effort, Mode};
use reedline::{Span, Suggestion};

use super::command::COMMANDS;
use crate::output::visible;

/// The most proposals.
const MOST: usize = 200;

/// The names to propose, besides commands and files.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownNames {
    pub(super) agents: Vec<String>,
    pub(super) models: Vec<String>,
}

/// Returns the suggestion to replace a part of the line by `text`, and to continue after it if that
/// completes the word.
fn suggest(text: String, about: Option<&str>, part: Span, is_whole: bool) -> Suggestion {
    let description = about.map(str::to_owned);
    Suggestion { value: text, description, span: part, append_whitespace: is_whole, ..Suggestion::default() }
}

/// Returns proposals for `line` with the cursor at `at`; files are those below `folder`.
pub(super) fn proposals(line: &str, at: usize, known: &KnownNames, folder: &Path) -> Vec<Suggestion> {
    let Some(before) = line.get(..at) else { return Vec::new() };
    if let Some(from) = open_quotation(before) {
        return files(&before[from..], Span::new(from, at), folder, Names::Quoted);
    }
    let from = before
        .rfind(char::is_whitespace)
        .map_or(0, |end| end + before[end..].chars().next().map_or(1, char::len_utf8));
    let (word, part) = (&before[from..], Span::new(from, at));
    let is_command = before.starts_with('/') && !before.starts_with("//");
    if is_command && from == 0 {
        let listed = COMMANDS.iter().filter(|listed| listed.word.starts_with(word));
        return listed
            .map(|listed| suggest(listed.word.to_owned(), Some(listed.about), part, true))
            .collect();
    }
    let efforts = Effort::ALL.map(|effort| effort.to_string());
    let modes = Mode::ALL.map(|mode| mode.to_string());
    let names = match before.split_whitespace().next() {
        Some("/model") if is_command => Some(&known.models[..]),
        Some("/agent") if is_command => Some(&known.agents[..]),
        Some("/effort") if is_command => Some(&efforts[..]),
        Some("/mode") if is_command => Some(&modes[..]),
        _ => None,
    };
    match names {
        Some(names) => {
            let names = names.iter().filter(|name| name.starts_with(word));
            names.map(|name| suggest(name.clone(), None, part, true)).collect()
        }
        None => match word.strip_prefix('@') {
            // A mention of a file.
            Some(path) => files(path, Span::new(from + 1, at), folder, Names::Mentioned),
            None if word.is_empty() => Vec::new(),
            None => files(word, part, folder, Names::Plain),
        },
    }
}

/// The place of a file's name in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    /// In the text: a name with blanks would not be one word.
    Plain,
    /// After an `@`: a name with blanks gets quotation marks.
    Mentioned,
    /// After `@"`.
    Quoted,
}

/// Returns where the name begins that is being written after `@"`.
fn open_quotation(before: &str) -> Option<usize> {
    let from = before.rfind("@\"")? + 2;
    (!before[from..].contains('"')).then_some(from)
}

/// Returns files and folders that begin with `word`; hidden ones only if it begins with a dot.
fn files(word: &str, part: Span, folder: &Path, place_of_name: Names) -> Vec<Suggestion> {
    let (inside, beginning) = match word.rsplit_once('/') {
        Some((inside, beginning)) => (format!("{inside}/"), beginning),
        None => (String::new(), word),
    };
    let place: PathBuf = folder.join(&inside);
    let mut found: Vec<Suggestion> = std::fs::read_dir(place)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let is_meant =
                name.starts_with(beginning) && (beginning.starts_with('.') || !name.starts_with('.'));
            let has_blanks = name.contains(char::is_whitespace) || inside.contains(char::is_whitespace);
            // A name with control characters is not proposed.
            if !is_meant || has_blanks && place_of_name == Names::Plain || visible(&name) != name {
                return None;
            }
            let is_folder = entry.path().is_dir();
            let opens = if has_blanks && place_of_name == Names::Mentioned { "\"" } else { "" };
            let is_quoted = has_blanks || place_of_name == Names::Quoted;
            let end = match (is_folder, is_quoted) {
                (true, _) => "/",
                (false, true) => "\"",
                (false, false) => "",
            };
            let text = format!("{opens}{inside}{name}{end}");
            Some(suggest(text, None, part, !is_folder))
        })
        .collect();
    found.sort_by(|one, other| one.value.cmp(&other.value));
    found.truncate(MOST);
    found
}

/// Returns the hint after a command that is being typed: the rest of its word and its argument; empty
/// elsewhere.
pub(super) fn rest_of_command(line: &str) -> String {
    if line.len() < 2 || line.contains(char::is_whitespace) || line.starts_with("//") {
        return String::new();
    }
    let mut begun = COMMANDS.iter().filter(|listed| listed.word.starts_with(line));
    match (begun.next(), begun.next()) {
        (Some(only), None) => {
            let takes = if only.takes.is_empty() { String::new() } else { format!(" {}", only.takes) };
            format!("{}{takes}", &only.word[line.len()..])
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn commands_names_and_files_are_proposed() {
        // The sources of this very crate.
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let known = KnownNames {
            agents: vec!["reader".to_owned(), "writer".to_owned()],
            models: vec![
                "openai:gpt-4o".to_owned(),
                "openai:gpt-4o-mini".to_owned(),
                "local:small".to_owned(),
            ],
        };
        for (line, expected) in [
            ("/co", &["/compact", "/context", "/cost"][..]),
            ("/model openai:gpt-4o-", &["openai:gpt-4o-mini"]),
            ("/model ", &["openai:gpt-4o", "openai:gpt-4o-mini", "local:small"]),
            ("/agent w", &["writer"]),
            ("/effort m", &["minimal", "medium", "max"]),
            ("/mode p", &["plan"]),
            ("see @src/ma", &["src/main.rs"]),
            ("read src/ma", &["src/main.rs"]),
            ("read sr", &["src/"]),
            ("read ", &[]),
            ("read nothing/of/the/kind", &[]),
            ("//model x", &[]),
            ("/compact Car", &["Cargo.toml"]),
            ("", &[]),
        ] {
            let actual: Vec<String> =
                proposals(line, line.len(), &known, folder).into_iter().map(|one| one.value).collect();
            assert_eq!(actual, expected, "{line}");
        }
        let blanks = tempfile::tempdir().unwrap();
        std::fs::write(blanks.path().join("my notes.txt"), "").unwrap();
        for (line, expected) in
            [("see @my", &["\"my notes.txt\""][..]), ("see @\"my no", &["my notes.txt\""]), ("see my", &[])]
        {
            let actual: Vec<String> =
                proposals(line, line.len(), &known, blanks.path()).into_iter().map(|one| one.value).collect();
            assert_eq!(actual, expected, "{line}");
        }
        assert_eq!(proposals("é", 1, &known, folder), [], "in the middle of a letter");
    }

    #[test]
    fn the_rest_of_a_command_is_shown() {
        for (line, expected) in [
            ("/", ""),
            ("/co", ""),
            ("/comp", "act [FOCUS]"),
            ("/undo", ""),
            ("/und", "o"),
            ("/model x", ""),
            ("hello", ""),
        ] {
            assert_eq!(rest_of_command(line), expected, "{line}");
        }
    }
}
