//! The parts of a command line.

use std::borrow::Cow;
use std::collections::VecDeque;

/// Returns a command line without the contents and the marks of its here-documents.
pub(super) fn without_documents(command: &str) -> Cow<'_, str> {
    if !command.contains("<<") {
        return command.into();
    }
    let mut kept = String::new();
    let mut ends: VecDeque<&str> = VecDeque::new();
    for line in command.split_inclusive('\n') {
        if let Some(end) = ends.front() {
            if line.trim() == *end {
                ends.pop_front();
            }
            continue;
        }
        let mut rest = line;
        while let Some((before, after)) = rest.split_once("<<") {
            kept.push_str(before);
            let mark = after.trim_start_matches(['-', '~', ' ']);
            let quote = mark.chars().next().filter(|c| matches!(c, '\'' | '"'));
            let mark = mark.trim_start_matches(['\'', '"', '\\']);
            let is_of_mark = |c: char| c.is_alphanumeric() || c == '_';
            let length = mark.find(|c: char| !is_of_mark(c)).unwrap_or(mark.len());
            // A shift of a number, or a string in place of a document.
            if after.starts_with('<') || !mark.starts_with(|c: char| c.is_alphabetic() || c == '_') {
                kept.push_str("<<");
                rest = after;
                continue;
            }
            ends.push_back(&mark[..length]);
            rest = &mark[length..];
            rest = quote.and_then(|quote| rest.strip_prefix(quote)).unwrap_or(rest);
        }
        kept.push_str(rest);
    }
    kept.into()
}

/// Returns the steps of a command line without here-documents, split outside quotes.
pub(super) fn steps(command: &str) -> Vec<&str> {
    let (mut steps, mut start) = (Vec::new(), 0);
    for (at, _) in outside_quotes(command).filter(|(_, c)| matches!(c, '\n' | ';' | '|' | '&')) {
        steps.push(command[start..at].trim());
        start = at + 1;
    }
    steps.push(command[start..].trim());
    steps
}

/// Iterates over the characters of a command line that are not in quotes, with their positions.
pub(super) fn outside_quotes(command: &str) -> impl Iterator<Item = (usize, char)> {
    let mut quote = None;
    command.char_indices().filter(move |(_, c)| {
        let is_outside = quote.is_none() && !matches!(c, '\'' | '"');
        quote = match quote {
            Some(open) => Some(open).filter(|open| open != c),
            None => (!is_outside).then_some(*c),
        };
        is_outside
    })
}

/// Returns the name of a program without the folder that it is in.
pub(super) fn without_folder(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Returns the name of a program without a version: `python3.12` runs what `python` does.
pub(super) fn without_version(program: &str) -> &str {
    program.trim_end_matches(|c: char| c == '.' || c.is_ascii_digit())
}

/// Returns one name for a file of the working folder.
pub(super) fn without_dot(path: &str) -> &str {
    path.strip_prefix("./").unwrap_or(path)
}
