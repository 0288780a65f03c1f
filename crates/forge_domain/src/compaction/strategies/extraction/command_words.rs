//! The agent's words in the arguments of its commands: the message of a commit, the text of a comment.

use std::ops::Range;

use crate::ContextMessage;
use crate::compaction::features::{Features, is_line_break};
use crate::compaction::findings::Deed;

/// The start of a here-document that is an argument, and the options whose value is a text.
const DOCUMENT: &str = "$(cat <<";
const OPTIONS: [&str; 4] = [" -m ", " --message ", " --body ", " --message="];
/// The mark of a line by which a tool signs what it helped to write.
const SIGNED: char = '🤖';

/// A text of the agent's in several lines, written as an argument of a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CommandWords {
    /// Its part of the text of the message's features, without the lines that name who helped.
    pub(super) words: Range<usize>,
    /// The end of the whole argument.
    pub(super) end: usize,
}

/// Returns such texts of a message.
pub(super) fn command_words(message: &ContextMessage) -> Vec<CommandWords> {
    let features = message.features();
    let mut words = Vec::new();
    let Some(mut at) = calls_start(features).filter(|_| message.findings().deeds.iter().any(runs)) else {
        return words;
    };
    let text = features.text.as_str();
    while let Some(found) = next(text, at) {
        at = found.end;
        let end = found.start + without_signature(&text[found.clone()]).len();
        if text[found.start..end].trim().contains(is_line_break) {
            words.push(CommandWords { words: found.start..end, end: found.end });
        }
    }
    words
}

const fn runs(deed: &Deed) -> bool {
    deed.runs
}

/// Returns where the calls of a message begin in its text.
fn calls_start(features: &Features) -> Option<usize> {
    features.lines.iter().find(|line| line.begins_call).map(|line| line.start as usize)
}

/// Returns the first such argument of a text from a place on, without its quotes.
fn next(text: &str, from: usize) -> Option<Range<usize>> {
    let rest = &text[from..];
    let document = rest.find(DOCUMENT).map(|at| (at, document(&rest[at..])));
    let options = OPTIONS.iter().filter_map(|option| {
        let at = rest.find(option)?;
        Some((at, quoted(&rest[at..], option.len())))
    });
    let (at, found) = options.chain(document).min_by_key(|(at, _)| *at)?;
    let begin = from + at;
    Some(match found {
        Some(found) => begin + found.start..begin + found.end,
        // What is no text is passed over.
        None => begin + 1..begin + 1,
    })
}

/// Returns the here-document that a text begins with, without its marks.
fn document(text: &str) -> Option<Range<usize>> {
    let mark = text[DOCUMENT.len()..].trim_start_matches(['-', '~', ' ', '\'', '"', '\\']);
    let mark = &mark[..mark.find(|c: char| !c.is_alphanumeric() && c != '_')?];
    let start = text.find('\n')? + 1;
    let mut end = start;
    for line in text[start..].split_inclusive('\n') {
        if line.trim() == mark {
            return Some(start..end);
        }
        end += line.len();
    }
    None
}

/// Returns what stands in quotes behind the first `skipped` bytes of a text; `None` if no quote is there, or
/// it is one around a command.
fn quoted(text: &str, skipped: usize) -> Option<Range<usize>> {
    let quote = text[skipped..].chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let start = skipped + quote.len_utf8();
    if text[start..].starts_with("$(") {
        return None;
    }
    let mut is_escaped = false;
    let end = text[start..].find(|c: char| {
        let ends = c == quote && !is_escaped;
        is_escaped = c == '\\' && quote == '"' && !is_escaped;
        ends
    })?;
    Some(start..start + end)
}

/// Returns a text without the lines at its end that name who helped: `Signed-off-by: Ann`.
fn without_signature(text: &str) -> &str {
    let mut rest = text.trim_end();
    while let Some(last) = rest.rsplit('\n').next().filter(|last| is_signature(last)) {
        rest = rest[..rest.len() - last.len()].trim_end();
    }
    rest
}

fn is_signature(line: &str) -> bool {
    let key = line.split_once(": ").map_or("", |(key, _)| key);
    let is_of_key = |c: char| c.is_ascii_alphabetic() || c == '-';
    line.starts_with(SIGNED) || key.contains('-') && key.chars().all(is_of_key)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::compaction::fixture::Characters;
    use crate::{Message, ToolCall, ToolName};

    #[test]
    fn what_the_agent_says_in_commands_is_found() {
        let body = "Correct the price\n\nThe tax was added twice.";
        let signed = format!("{body}\n\n🤖 Generated with a tool\n\nCo-Authored-By: A <a@b.c>\n");
        for (command, expected) in [
            (format!("git commit -m \"$(cat <<'EOF'\n{body}\nEOF\n)\""), vec![body]),
            (format!("git add a && git commit -m \"$(cat <<EOF\n{signed}EOF\n)\" && git push"), vec![body]),
            (format!("git commit -m \"{body}\""), vec![body]),
            (format!("git commit --message='{body}'\ngh pr create --body '{body}'"), vec![body, body]),
            (format!("gh pr create --title 'One' --body \"$(cat <<'EOF'\n{body}\nEOF\n)\""), vec![body]),
            ("git commit -m \"Correct the price\"".to_owned(), vec![]),
            (format!("cat > a.md <<'EOF'\n{body}\nEOF"), vec![]),
            (format!("python3 -m pytest\n{body}"), vec![]),
            (format!("git commit -m \"$(cat <<'EOF'\n{body}"), vec![]),
        ] {
            let arguments = serde_json::json!({ "command": command, "description": "Commit it" });
            let name = ToolName::new("Bash").unwrap();
            let call = ToolCall { id: "c".into(), name, arguments: arguments.to_string() };
            let message = ContextMessage::count(Message::calling(vec![call]), &Characters);
            let text = &message.features().text;
            let found = command_words(&message).into_iter();
            let found: Vec<&str> = found.map(|found| text[found.words].trim()).collect();
            assert_eq!(found, expected, "{command}");
        }
    }
}
