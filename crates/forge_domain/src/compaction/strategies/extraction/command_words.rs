//! The agent's words in the arguments of its calls: the message of a commit, the text of a comment, a plan.

use std::ops::Range;

use crate::compaction::features::is_line_break;
use crate::{ContextMessage, Message, ToolCall};

/// The start of a here-document that is an argument, and the options whose value is a text.
const DOCUMENT: &str = "$(cat <<";
const STARTS: [&str; 5] = [DOCUMENT, " -m ", " --message ", " --body ", " --message="];
/// The mark of a line by which a tool signs what it helped to write.
const SIGNED: char = '🤖';

/// A text of the agent's, written as an argument of a command in several lines, or as its plan.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CommandWords {
    /// Its part of the text of the message's features, without the lines that name who helped.
    pub(super) words: Range<usize>,
    /// The end of the whole argument.
    pub(super) end: usize,
}

/// The tools by which agents show their plan to the user, in lower case. All that such a call says is theirs.
const PLANNING: [&str; 4] = ["exitplanmode", "exit_plan_mode", ANSWERING, "present_plan"];
/// The one of them by which an agent says all that it says while it plans.
const ANSWERING: &str = "plan_mode_respond";

/// The fewest bytes of the arguments in which a whole plan stands.
const LEAST_PLAN: usize = 200;

/// Checks whether the agent shows a whole plan in a message: the next such message replaces it.
pub(super) fn shows_plan(message: &Message) -> bool {
    let shows = |call: &ToolCall| {
        let name = call.name.as_str().to_lowercase();
        name != ANSWERING && PLANNING.contains(&name.as_str()) && call.arguments.len() >= LEAST_PLAN
    };
    message.calls().iter().any(shows)
}

/// Returns such texts of a message.
pub(super) fn command_words(message: &ContextMessage) -> Vec<CommandWords> {
    let calls = message.message().calls();
    let plans = |call: &ToolCall| PLANNING.contains(&call.name.as_str().to_lowercase().as_str());
    if !message.findings().deeds.iter().any(|deed| deed.runs) && !calls.iter().any(plans) {
        return Vec::new();
    }
    let features = message.features();
    let begins = features.lines.iter().filter(|line| line.begins_call).map(|line| line.start as usize);
    let mut ends = begins.clone().skip(1);
    let mut words = Vec::new();
    for (nth, begin) in begins.enumerate() {
        let end = ends.next().unwrap_or(features.text.len());
        if calls.get(nth).is_some_and(plans) {
            let told = features.text[begin..end].find('\n').map(|at| begin + at + 1..end);
            let told = told.filter(|told| !told.is_empty());
            words.extend(told.map(|words| CommandWords { words, end }));
            continue;
        }
        words.extend(arguments(&features.text[begin..end]).into_iter().filter_map(|argument| {
            let (start, end) = (begin + argument.start, begin + argument.end);
            let said = without_signature(&features.text[start..end]);
            said.trim()
                .contains(is_line_break)
                .then(|| CommandWords { words: start..start + said.len(), end })
        }));
    }
    words
}

/// Returns such arguments of a call, without their quotes. Every start is looked for once: the text of a call
/// may be long, and full of them.
fn arguments(call: &str) -> Vec<Range<usize>> {
    let mut starts: Vec<(usize, &str)> = STARTS.iter().flat_map(|start| call.match_indices(start)).collect();
    starts.sort_unstable();
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, start) in starts {
        if found.last().is_some_and(|last| at < last.end) {
            continue;
        }
        let argument = match start {
            DOCUMENT => document(&call[at..]),
            option => quoted(&call[at..], option.len()),
        };
        match argument {
            Some(argument) => found.push(at + argument.start..at + argument.end),
            // The rest of the call is a document that does not end.
            None if start == DOCUMENT => break,
            None => {}
        }
    }
    found
}

/// Returns the here-document that a text begins with after [`DOCUMENT`], without its marks.
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
    use crate::Message;
    use crate::compaction::fixture::{Characters, tool_call};

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
            ("git commit -m \"Geändert: Preis\" && pytest -m x".to_owned(), vec![]),
            ("git commit -m \"🐛\"; git commit -m x".to_owned(), vec![]),
            (format!("cat > a.md <<'EOF'\n{body}\nEOF"), vec![]),
            (format!("python3 -m pytest\n{body}"), vec![]),
            (format!("git commit -m \"$(cat <<'EOF'\n{body}"), vec![]),
        ] {
            let arguments = serde_json::json!({ "command": command, "description": "Commit it" });
            let calling = Message::calling(vec![tool_call("Bash", arguments)]);
            let message = ContextMessage::count(calling, &Characters);
            let text = &message.features().text;
            let found = command_words(&message).into_iter();
            let found: Vec<&str> = found.map(|found| text[found.words].trim()).collect();
            assert_eq!(found, expected, "{command}");
        }
    }

    #[test]
    fn a_plan_is_the_words_of_the_agent() {
        let plan = "# The price\n\nAdd the tax once.\n\nThen test it.";
        let short = "Add the tax once, then test.";
        let looks = tool_call("read", serde_json::json!({ "path": "a.rs" }));
        for (tool, arguments, expected) in [
            ("ExitPlanMode", serde_json::json!({ "plan": plan }), vec![plan]),
            ("plan_mode_respond", serde_json::json!({ "response": plan }), vec![plan]),
            ("exit_plan_mode", serde_json::json!({ "plan": short }), vec![short]),
            ("exit_plan_mode", serde_json::json!({}), vec![]),
            ("write", serde_json::json!({ "text": plan }), vec![]),
        ] {
            let calling = Message::calling(vec![looks.clone(), tool_call(tool, arguments), looks.clone()]);
            let message = ContextMessage::count(calling.with_content("My plan:"), &Characters);
            let text = &message.features().text;
            let found: Vec<&str> =
                command_words(&message).into_iter().map(|found| text[found.words].trim()).collect();
            assert_eq!(found, expected, "{tool}");
        }
    }
}
