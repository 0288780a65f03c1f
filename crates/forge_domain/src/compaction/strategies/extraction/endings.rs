//! The end of a call, in a line.

use std::borrow::Cow;

use serde_json::Value;

use super::Material;
use super::advice::{is_advice, tells_nothing};
use super::answers::with_short_questions;
use super::label::one_line;
use super::tasks::is_about_tasks;
use crate::compaction::answered_call::AnsweredCall;
use crate::compaction::arguments::text_or_number;
use crate::compaction::envelope::without_notes;
use crate::compaction::features::{Features, Line, is_garbled, is_line_break};
use crate::compaction::findings::{
    Deed, Failure, Outcome, code_in_fields, is_marked_failed, is_of_log, is_of_status, is_of_the_user,
    is_refused, only_says_success, says_nothing_written, tells_commit, tells_outcome, tells_push,
    tells_what_was_made,
};
use crate::{ContextMessage, ToolCall, find_secrets, quantity, tool_twin, user_words};

/// Most characters of the line by which a result ends.
pub(super) const ENDING_CHARS: usize = 140;
/// Most characters of what a call looked at that are told: more is content.
const LOOKED_CHARS: usize = 100;
/// Most lines that are told as they are, one behind the other.
const FEW_LINES: usize = 6;
/// The same of a check that passed.
const FEW_OF_CHECK: usize = 3;
/// Most characters of a page that was hardly read.
const SHORT_PAGE_CHARS: usize = 300;
/// An answer of more lines is long.
const LONG_ANSWER: u32 = 5;
/// Most characters of what the user answered to the agent's question, or said when they refused a call.
const ANSWER_CHARS: usize = 600;

/// The end of a call of which nothing else is told, and of a command that wrote nothing.
pub(super) const DONE: &str = "done";
pub(super) const NO_OUTPUT: &str = "no output";
/// The end of a call that failed, before the reason.
const FAILED: &str = "failed";
/// The end of a call that the user or a rule did not allow.
const REFUSED: &str = "refused";

/// The parts of a result that may tell how its call ended.
#[derive(Clone, Default)]
struct Told<'a> {
    /// The last line that does.
    last: Option<&'a str>,
    /// True if that is a row of a table, which tells nothing of how a call ended.
    is_row: bool,
    /// All lines of the content, if they are few.
    few: Vec<&'a str>,
}

impl<'a> Told<'a> {
    /// Reads the result at `position`, without the frame that all results of its tool have.
    fn of(position: usize, material: &'a Material<'_>) -> Self {
        let features = material.sources[position].features();
        let content = material.frames.content(position);
        let is_whole = content.len() == features.lines.len();
        let output_bytes = without_notes(&features.text).len();
        let pieces = &features.lines[content];
        let pieces = &pieces[..pieces.partition_point(|piece| (piece.start as usize) < output_bytes)];
        // A line of many pieces is looked at once.
        let is_last_of_line =
            |nth: &usize| pieces.get(nth + 1).is_none_or(|next| !features.is_one_line(&pieces[*nth], next));
        let lines = (0..pieces.len()).rev().filter(is_last_of_line);
        let mut lines = lines.map(|nth| whole_line(features, &pieces[nth]));
        let all = lines.clone();
        // An empty field and a bare success are no outcome.
        let tells = |line: &&str| {
            !line.ends_with(": (none)")
                && !only_says_success(line)
                && !tells_nothing(line)
                && (tells_outcome(line) || !material.frames.is_footer(line))
        };
        // However many calls end so, it is how this one ended.
        let repeated = || all.clone().find(|line| material.frames.is_repeated(line));
        let is_of_work = |line: &&str| tells(line) && !is_of_status(line);
        let any = || all.clone().find(tells).or_else(repeated);
        let last = lines.find(is_of_work).or_else(any).filter(|_| !material.frames.is_bare(position));
        let is_row = last.is_some_and(|last| {
            let columns = columns(last);
            columns > 1
                && lines.take(LEAST_ROWS).filter(|line| self::columns(line) == columns).count() == LEAST_ROWS
        });
        let mut few: Vec<&str> = if is_whole {
            few_of(&features.text[..output_bytes])
        } else {
            let newest = pieces.iter().rev().take(FEW_LINES + 1).map(|piece| whole_line(features, piece));
            newest.collect::<Vec<_>>().into_iter().rev().collect()
        };
        few.dedup();
        few.retain(|line| !only_says_success(line) && !tells_nothing(line));
        let tells_any = few.len() <= FEW_LINES && !material.frames.is_bare(position);
        few.truncate(if tells_any { FEW_LINES } else { 0 });
        Self { last, is_row, few }
    }

    /// Returns its few lines in one of at most so many characters.
    fn in_a_line(&self, most: usize) -> Option<String> {
        let line = self.few.join("; ");
        (!line.is_empty() && line.chars().nth(most).is_none()).then_some(line)
    }
}

/// Returns the first lines of a text that have a word, more than [`FEW_LINES`] if it has more; none if one of
/// them is garbled, since the others would seem to be all.
fn few_of(text: &str) -> Vec<&str> {
    let says_something = |line: &&str| line.contains(char::is_alphanumeric) && !tells_nothing(line);
    let lines = text.split(is_line_break).map(str::trim).filter(says_something).take(FEW_LINES + 1);
    let few: Vec<&str> = lines.collect();
    if few.iter().any(|line| is_garbled(line)) { Vec::new() } else { few }
}

/// Returns how the call ended that has the result at `position`; `None` for what changes the list of tasks,
/// which has its own section.
pub(super) fn ending_of(
    asked: &AnsweredCall<'_>,
    position: usize,
    material: &Material<'_>,
) -> Option<String> {
    ending(asked, &material.sources[position], &Told::of(position, material))
}

/// Returns how a call ended, by what its result `told`.
fn ending(asked: &AnsweredCall<'_>, result: &ContextMessage, told: &Told<'_>) -> Option<String> {
    if is_about_tasks(asked.call) {
        return None;
    }
    let n_lines = || quantity(result.features().n_text_lines as usize, "line");
    if let Some(said) = user_words(result.message()).and_then(answer) {
        return Some(format!("refused; the user said: {said}"));
    }
    if is_refused(asked.call, result.message()) {
        // A rule, or a program, may say more.
        let why = one_line(&result.message().text(), ENDING_CHARS).filter(|line| !is_of_the_user(line));
        return Some(why.map_or_else(|| REFUSED.to_owned(), |why| format!("{REFUSED}: {why}")));
    }
    if let Some(code) = code_in_fields(&result.features().text) {
        let is_well = code.bytes().all(|byte| byte == b'0');
        return Some(if is_well { NO_OUTPUT.to_owned() } else { format!("exit code {code}, {NO_OUTPUT}") });
    }
    let ending = match broken(asked.deed, result, told) {
        Some(broken) => broken,
        None if asks_the_user(asked.call) => {
            answer(&with_short_questions(&result.features().text)).unwrap_or_else(n_lines)
        }
        None if looks_outside(asked.call) => short_page(&result.features().text).unwrap_or_else(n_lines),
        None if asked.deed.runs => of_command(asked.deed, result, told).unwrap_or_else(n_lines),
        None if asked.deed.only_looks => looked_at(result, told).unwrap_or_else(n_lines),
        None if asked.deed.changes_files() => DONE.to_owned(),
        None if let Some(made) = made(&result.features().text) => made,
        None if only_sets(asked.deed, &result.features().text) => DONE.to_owned(),
        // The last line of a page, or of an answer of many lines, does not tell how the call ended.
        None if result.features().n_text_lines > LONG_ANSWER => n_lines(),
        None => told_last(result, told).unwrap_or_else(n_lines),
    };
    // A key that a command printed is in no need of being told.
    let is_secret = !find_secrets(&ending).is_empty();
    Some(if is_secret { n_lines() } else { ending.trim_end().to_owned() })
}

/// Returns how a call failed or was stopped, if it did not end well.
fn broken(deed: &Deed, result: &ContextMessage, told: &Told<'_>) -> Option<String> {
    let is_error = is_marked_failed(result.message());
    // A file or a page that was read may speak of failures without being one.
    let is_failure = |failure: &Cow<'_, Failure>| {
        is_error || !deed.only_looks || failure.is_stated() && failure.line.is_some()
    };
    let failure = deed.failure(result).filter(is_failure);
    let is_made = deed.runs && failure.is_none() && commit_and_push(&result.features().text).is_some();
    let may_be_stopped = !is_made && failure.as_deref().is_none_or(Failure::is_stated);
    if let Some(stopped) = deed.unfinished(result).filter(|_| may_be_stopped) {
        return Some(stopped.line.clone());
    }
    let failure = failure?;
    let line = failure.line.as_deref().or(told.last).and_then(|line| one_line(line, ENDING_CHARS));
    Some(line.map_or_else(|| FAILED.to_owned(), |line| format!("{FAILED}: {line}")))
}

/// Returns what came of a command that ended well; `None` if only the number of its lines is to be told.
fn of_command(deed: &Deed, result: &ContextMessage, told: &Told<'_>) -> Option<String> {
    let text = &result.features().text;
    let passed = is_shown_to_pass(deed, result).then(|| Outcome::Passed.word().to_owned());
    let with_verdict = |told: String| match &passed {
        Some(passed) => format!("{passed}; {told}"),
        None => told,
    };
    if let Some(made) = commit_and_push(text) {
        return Some(with_verdict(made));
    }
    if deed.found_nothing(result) || only_heads(deed, text) {
        return Some(passed.unwrap_or_else(|| NO_OUTPUT.to_owned()));
    }
    if deed.only_looks {
        return looked_at(result, told);
    }
    if deed.changes_files() {
        return Some(DONE.to_owned());
    }
    if let Some(made) = made(text) {
        return Some(made);
    }
    if let Some(newest) = newest_of_log(text).and_then(|newest| one_line(newest, ENDING_CHARS)) {
        return Some(with_verdict(newest));
    }
    // The line with the counts of a check is enough.
    let counts = |line: &&str| passed.is_some() && tells_outcome(line) && line.contains(' ');
    if let Some(line) = told.last.filter(counts).and_then(|line| one_line(line, ENDING_CHARS)) {
        return Some(line);
    }
    // Of a check that passed, the verdict says more than many lines.
    let most = if passed.is_some() { FEW_OF_CHECK } else { FEW_LINES };
    if (2..=most).contains(&told.few.len())
        && let Some(line) = told.in_a_line(ENDING_CHARS)
    {
        return Some(line);
    }
    // What there is stands above a last line that says what is not there.
    if lists(deed) && told.last.is_some_and(|last| last.starts_with("No ")) {
        return looked_at(result, told);
    }
    let last = || told_last(result, told).filter(|last| !deed.is_heading(last));
    passed.filter(|_| !told.last.is_some_and(tells_outcome)).or_else(last)
}

/// Checks whether a text has nothing but headings that its command prints itself.
fn only_heads(deed: &Deed, text: &str) -> bool {
    let mut lines =
        text.lines().filter(|line| !line.trim().is_empty() && !only_says_success(line)).peekable();
    lines.peek().is_some() && lines.all(|line| deed.is_heading(line))
}

/// Checks whether a command only lists what there is.
fn lists(deed: &Deed) -> bool {
    let words = deed.subject.iter().flat_map(|subject| subject.split_whitespace()).skip(1);
    let mut named = words.take_while(|word| !word.starts_with(['-', '>', '|', '&', ';']));
    deed.keys.len() == 1 && named.any(|word| matches!(word, "list" | "ls"))
}

/// Checks whether a result only says that something is now what its call asked for: `Phase changed to: two`.
fn only_sets(deed: &Deed, text: &str) -> bool {
    let subject = deed.subject.as_deref().filter(|subject| !subject.is_empty());
    let before = subject.and_then(|subject| text.trim().trim_end_matches('.').strip_suffix(subject));
    let before = before.map(|before| before.trim_end_matches([' ', ':', '"', '\'']));
    before.is_some_and(|before| {
        !before.contains('\n')
            && SETS.iter().any(|words| before.ends_with(words))
            && before.chars().nth(SET_CHARS).is_none()
    })
}

/// The words before what something was set to, and the most characters of all before it.
const SETS: [&str; 3] = ["changed to", "set to", "switched to"];
const SET_CHARS: usize = 40;

/// Returns what a call looked at, if that is short.
fn looked_at(result: &ContextMessage, told: &Told<'_>) -> Option<String> {
    let text = &result.features().text;
    let one = || Some(text).filter(|_| result.features().n_text_lines == 1).and_then(|text| short_page(text));
    only_line(result, LOOKED_CHARS).or_else(one).or_else(|| told.in_a_line(LOOKED_CHARS))
}

/// Returns the last line that tells how a call ended.
fn told_last(result: &ContextMessage, told: &Told<'_>) -> Option<String> {
    let Some(last) = told.last else {
        let nothing = || {
            let is_number = |line: &str| line.trim().parse::<f64>().is_ok();
            let says_something = |line: &str| is_number(line) || is_advice(line) || is_garbled(line);
            (!result.features().text.lines().any(says_something)).then(|| NO_OUTPUT.to_owned())
        };
        return only_line(result, ENDING_CHARS).or_else(nothing);
    };
    let is_all = told.few.len() == 1;
    let is_sentence = last.split_whitespace().count() > 1 && !is_code(last);
    let tells = !told.is_row && (is_all || is_sentence) && !is_cut_json(last);
    one_line(last, ENDING_CHARS).filter(|line| tells && !is_garbled(line))
}

/// Returns the commit that a command made and the branch that it sent, by what git says of both.
fn commit_and_push(text: &str) -> Option<String> {
    let line = |is_it: fn(&str) -> bool| text.lines().find(|line| is_it(line));
    let told = [line(tells_commit), text.lines().rfind(|line| tells_push(line))];
    let told: Vec<String> =
        told.into_iter().flatten().filter_map(|line| one_line(line, ENDING_CHARS)).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// Returns the newest commit of the log with which a text ends: the first line of that.
fn newest_of_log(text: &str) -> Option<&str> {
    let lines = text.trim_end().lines().rev();
    lines.take_while(|line| is_of_log(line.trim_start_matches(['*', ' ']))).last()
}

/// Checks whether the result of a check shows that it passed.
fn is_shown_to_pass(deed: &Deed, result: &ContextMessage) -> bool {
    !deed.checks.is_empty() && deed.outcome(result, false) == Outcome::Passed
}

/// Returns what a result says was made, which later calls will name: its first line, if that says so, or the
/// ids that an answer in JSON gives it.
fn made(text: &str) -> Option<String> {
    let first = text.lines().find(|line| !line.trim().is_empty())?.trim();
    if tells_what_was_made(first) && !is_garbled(first) {
        return one_line(first, ENDING_CHARS);
    }
    if !text.starts_with('{') || text.len() > MADE_BYTES {
        return None;
    }
    let answer: Value = serde_json::from_str(text).ok()?;
    let shown = |name: &&str| Some(format!("{name}: {}", text_or_number(answer.get(*name)?)?));
    let told: Vec<String> = MADE.iter().filter_map(shown).collect();
    (!told.is_empty()).then(|| one_line(&told.join(", "), ENDING_CHARS)).flatten()
}

/// The fields in which an answer names a thing, and the most bytes of an answer about one.
const MADE: [&str; 6] = ["id", "number", "key", "name", "html_url", "url"];
const MADE_BYTES: usize = 16 * 1_024;

/// A table has at least so many rows before its last one.
const LEAST_ROWS: usize = 2;

/// Returns the number of columns of a line of a table; 1 for other lines.
fn columns(line: &str) -> usize {
    1 + ['|', '\t'].iter().map(|mark| line.matches(*mark).count()).max().unwrap_or(0)
}

/// Checks whether a line is of a page or a program, which tells nothing of how a command ended.
fn is_code(line: &str) -> bool {
    let line = line.trim();
    line.starts_with('<') || line.ends_with([';', '{', '}', '>'])
}

/// Checks whether a line is a text in JSON of which only the beginning would be told, with its escapes.
fn is_cut_json(line: &str) -> bool {
    line.starts_with(['{', '[']) && line.contains("\\n") && line.chars().nth(ENDING_CHARS).is_some()
}

/// Returns the only line of a result, if it is no longer than that and says that anything was written.
fn only_line(result: &ContextMessage, most: usize) -> Option<String> {
    let text = without_notes(&result.features().text).trim();
    if says_nothing_written(text) || only_says_success(text) {
        return Some(NO_OUTPUT.to_owned());
    }
    let is_one = !text.is_empty() && !text.contains(is_line_break) && text.chars().nth(most).is_none();
    (is_one && !is_garbled(text)).then(|| text.to_owned())
}

/// Returns what the user said to a call in one line; `None` if that is nothing.
fn answer(text: &str) -> Option<String> {
    one_line(&text.split_whitespace().collect::<Vec<_>>().join(" "), ANSWER_CHARS)
}

/// Checks whether a call reads pages: the last line of one says nothing.
fn looks_outside(call: &ToolCall) -> bool {
    matches!(tool_twin(call.name.as_str()), Some("fetch" | "web_search"))
}

/// Returns the first line of a page that is too short to be one: it says why.
fn short_page(text: &str) -> Option<String> {
    let is_short = text.chars().nth(SHORT_PAGE_CHARS).is_none();
    is_short.then(|| one_line(text, ENDING_CHARS)).flatten().filter(|line| !is_garbled(line))
}

/// Checks whether a call asks the user: what they answer is a decision, not the output of a tool.
pub(super) fn asks_the_user(call: &ToolCall) -> bool {
    tool_twin(call.name.as_str()) == Some("ask")
}

/// Returns the whole line that a piece is from. It may be the whole text, so it is not asked for at each
/// piece.
pub(super) fn whole_line<'a>(features: &'a Features, piece: &Line) -> &'a str {
    let at = piece.start as usize;
    let before = features.text[..at].rsplit(is_line_break).next().unwrap_or_default();
    features.text[at - before.len()..].trim_start().split(is_line_break).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::compaction::answered_call::answered_call;
    use crate::compaction::fixture::Characters;
    use crate::{Context, Message, MessageId, ToolName, ToolResult};

    /// Returns the context of a call with its result.
    fn context(tool: &str, arguments: &Value, result: &str) -> Context {
        let name = ToolName::new(tool).unwrap();
        let call = ToolCall { id: "c".into(), name, arguments: arguments.to_string() };
        let result = Message::tool(ToolResult::answer(&call, result));
        let messages = [Message::calling(vec![call]), result];
        let messages = messages.map(|message| ContextMessage::count(message, &Characters));
        Context::new(messages.to_vec(), MessageId::FIRST, 0)
    }

    /// Returns how the call of such a context ended, by the last line of its result, and all if they are few.
    fn ended(context: &Context, last: Option<&str>, is_row: bool) -> String {
        let result = &context.messages()[1];
        let last = last.filter(|line| !tells_nothing(line));
        let mut few = few_of(&result.features().text);
        few.retain(|_| last.is_some());
        few.truncate(if few.len() > FEW_LINES { 0 } else { FEW_LINES });
        ending(&answered_call(context, 1).unwrap(), result, &Told { last, is_row, few }).unwrap()
    }

    #[test]
    fn the_last_row_of_a_table_is_no_outcome() {
        let rows = "id | name | score\n1 | Ulm | 4\n2 | Bonn | 7";
        let told = |rows: &str, is_row| {
            ended(&context("bash", &json!({"command": "sql towns"}), rows), rows.lines().last(), is_row)
        };
        assert_eq!(told(rows, true), "id | name | score; 1 | Ulm | 4; 2 | Bonn | 7");
        let more = format!("{rows}\n3 | Kiel | 9\n4 | Bern | 1\n5 | Graz | 2\n6 | Linz | 8");
        assert_eq!([told(&more, true), told(&more, false)], ["7 lines", "6 | Linz | 8"]);
        assert_eq!(["a | b | c", "a\tb", "a || b", "a b"].map(columns), [3, 2, 3, 1]);
    }

    #[test]
    fn a_page_is_told_by_its_lines_and_a_short_one_by_what_it_says() {
        for (page, expected) in [
            ("Fetch failed: no answer\nThe address is in the queue.\n".to_owned(), "Fetch failed: no answer"),
            ("The page has many lines like this one.\n".repeat(20), "20 lines"),
        ] {
            let context = context("WebFetch", &json!({"url": "https://a.example"}), &page);
            assert_eq!(ended(&context, None, false), expected);
        }
    }

    #[test]
    fn the_end_of_a_call_says_what_came_of_it() {
        for (command, result, expected) in [
            (
                "bd create x",
                "✓ Created issue: av-raf — epic\n  Priority: P2\n  Status: open",
                "✓ Created issue: av-raf — epic",
            ),
            ("gh api x", "{\"id\": \"av-44n\", \"title\": \"x\", \"updated\": \"2026\"}", "id: av-44n"),
            (
                "npm test",
                "Tests: 12 passed, 12 total\nTime: 2.1 s",
                "Tests: 12 passed, 12 total; Time: 2.1 s",
            ),
            ("npm test", "a\nb\nc\nd\ne\nf\nTests: 12 passed, 12 total\nTime: 2.1 s", "passed"),
            (
                "make test 2>&1 | tail -3; git commit -qm x; git log --oneline | head -2",
                "Ran 38 tests in 0.1s\n\nOK\nb7d9cc8 Tell more\nab5eb56 Begin",
                "passed; b7d9cc8 Tell more",
            ),
            (
                "make test; echo '--- log ---'; ./mutate | grep FAILED; git status --short",
                "Ran 38 tests in 0.1s\nOK\n--- log ---\nFAILED (failures=1)\n M a.md",
                "passed",
            ),
            ("pytest -q", "....   [100%]\n4 passed in 0.03s", "4 passed in 0.03s"),
            ("curl -s a", "<style>\nbody {\n  color: #333;\na\nb\nc\n  margin: 0;", "7 lines"),
            ("./smoke.sh", "--- index ---\n000\n--- show ---\n000", "--- index ---; 000; --- show ---; 000"),
            ("curl -s a; curl -s b", "index 000\nshow 000", "index 000; show 000"),
            ("npm test", "Tests: 12 passed, 12 total", "Tests: 12 passed, 12 total"),
            ("npm test", "The user doesn't want to proceed with this tool use.", "refused"),
            ("ssh a", "Permission denied (publickey).", "refused: Permission denied (publickey)."),
            ("python is_prime.py 91", "no", "no"),
            ("python shape.py", "(1204, 9)", "(1204, 9)"),
            ("git branch --show-current", "release", "release"),
            ("gh auth token", &["ghp_", "k3V9xQ2mB7tR5yW8nJ1pL6sD4fG0hZcAeUiO"].concat(), "1 line"),
            (
                "./task",
                "<retrieval_status>success</retrieval_status>\n\n<task_id>b1</task_id>\n\n<status>failed</status>\n\n\
                 <exit_code>1</exit_code>",
                "exit code 1, no output",
            ),
            ("./task", "<status>completed</status>\n<exit_code>0</exit_code>", NO_OUTPUT),
            ("node fix.js", "? \u{fffd}w\u{fffd}N status \u{fffd}q 'parsing'", "1 line"),
            ("node fix.js", "1.\n2. \u{fffd}w\u{fffd}N status\nOCR????????G no", "3 lines"),
            ("pytest", "Command timed out after 2m 0.0s\ntests/a.py ...", "Command timed out after 2m 0.0s"),
            ("git bisect run x", "a\n9f1c2ab is the first bad commit\nb", "9f1c2ab is the first bad commit"),
        ] {
            let context = context("Bash", &json!({"command": command}), result);
            let line = result.lines().next_back().unwrap();
            assert_eq!(ended(&context, Some(line), false), expected, "{command}");
        }
    }

    #[test]
    fn what_is_garbled_was_written() {
        for (result, expected) in [
            ("\u{fffd}w\u{fffd}N status", "1 line"),
            ("\u{fffd}w\u{fffd}N status\nOCR????????G no", "2 lines"),
            ("renamed a_name \u{fffd}\u{fffd} b_name", "renamed a_name \u{fffd}\u{fffd} b_name"),
        ] {
            let context = context("Bash", &json!({"command": "node fix.js"}), result);
            // Garbled lines are no lines of features, so none is the last.
            assert_eq!(ended(&context, None, false), expected);
        }
    }

    #[test]
    fn what_a_command_prints_itself_or_advises_is_no_outcome() {
        let listed = "Projects\n│ red-leaf-97526695 │ Ask Dexter │ aws-us-east-1 │\n\
                      │ solitary-mud-3265 │ dexter-v3  │ aws-us-east-2 │\n\n\
                      No projects have been shared with you";
        let advice = "Some issues need review, and may require choosing\na different dependency.";
        for (tool, arguments, result, expected) in [
            (
                "Bash",
                json!({"command": "echo '=== MERGE ===' && gh pr merge 2"}),
                "=== MERGE ===\n",
                NO_OUTPUT,
            ),
            ("Bash", json!({"command": "gh pr merge 2 && echo '=== MERGED'"}), "=== MERGED\n", "=== MERGED"),
            ("Bash", json!({"command": "npx neonctl projects list"}), listed, "5 lines"),
            ("Bash", json!({"command": "npm install | tail -2"}), advice, "2 lines"),
            ("Bash", json!({"command": "Remove-Item -Force a"}), "Stdout:\n\nStderr:\n", NO_OUTPUT),
            ("set_phase", json!({"phase": "explore"}), "Phase changed to: explore", DONE),
            ("find_flight", json!({"to": "Ulm"}), "It is late: Ulm", "It is late: Ulm"),
            (
                "Bash",
                json!({"command": "npx tsc | grep 'error TS'"}),
                "(no output)\n\nCommand exited with code 1",
                "passed",
            ),
            ("Bash", json!({"command": "npm test | grep a.ts"}), "Exit code 1", NO_OUTPUT),
            (
                "Bash",
                json!({"command": "gpu-top -n1 | grep python"}),
                "(no output)\n\nCommand exited with code 1",
                NO_OUTPUT,
            ),
            ("Bash", json!({"command": "grep -n x a.rs"}), "Command exited with code 1", NO_OUTPUT),
            (
                "Bash",
                json!({"command": "gpu-top -n1 | grep python"}),
                "gpu-top: cannot find it\n\nCommand exited with code 1",
                "failed: gpu-top: cannot find it",
            ),
        ] {
            let context = context(tool, &arguments, result);
            assert_eq!(ended(&context, result.lines().next_back(), false), expected, "{arguments}");
        }
    }

    #[test]
    fn a_commit_is_told_with_its_hash_and_its_subject() {
        let files = " 2 files changed, 124 insertions(+)\n";
        for (result, expected) in [
            (format!("[main 3696270] Correct the price\n{files}"), "[main 3696270] Correct the price"),
            (
                format!("hooks ran\n[main (root-commit) 3696270f] Begin\n{files}"),
                "[main (root-commit) 3696270f] Begin",
            ),
            (format!("a\nb\nc\nd\ne\n[lint] nothing found\n{files}"), "2 files changed, 124 insertions(+)"),
            (
                "[main 3696270] Begin\nTo github.com:a/b.git\n   663452c..3696270  main -> main\n".to_owned(),
                "[main 3696270] Begin; 663452c..3696270  main -> main",
            ),
            (
                "To github.com:a/b.git\n * [new branch]      main -> main\nbranch 'main' set up\n".to_owned(),
                "* [new branch]      main -> main",
            ),
            (
                format!("a\nb\nc\nd\nFrom github.com:a/b\n   663452c..3696270  main -> origin/main\n{files}"),
                "2 files changed, 124 insertions(+)",
            ),
            // Git did it in spite of what it warns of.
            (
                "error: non-monotonic index .git/a.idx\nTo github.com:a/b.git\n   663452c..3696270  main -> main\n"
                    .to_owned(),
                "663452c..3696270  main -> main",
            ),
            // A log begins with the newest.
            ("staged\nb7d9cc8 Tell more\nab5eb56 Begin\n".to_owned(), "b7d9cc8 Tell more"),
            ("* b7d9cc8 Tell more\n* ab5eb56 Begin\n".to_owned(), "* b7d9cc8 Tell more"),
        ] {
            let context = context("Bash", &json!({"command": "git commit -m x"}), &result);
            let line = "2 files changed, 124 insertions(+)";
            assert_eq!(ended(&context, Some(line), false), expected);
        }
    }
}
