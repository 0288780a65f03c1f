//! The facts that a summary must not lose, word for word: open calls, prohibitions, and the names and numbers
//! in use.
//!
//! Only the agent's own text and calls count. A tool's output is not its own: a prohibition in it must not
//! appear in the agent's words.

use std::collections::{HashMap, HashSet};

use crate::compaction::features::is_line_break;
use crate::{Body, ContextMessage, Message, Role, TokenCounter, Tokens};

/// Most names and numbers that are demanded of one summary.
const MOST_NAMES: usize = 24;
/// Most prohibitions, the latest ones.
const MOST_PROHIBITIONS: usize = 8;
/// Most characters of one atom.
const MOST_CHARS: usize = 240;
/// The share of a summary's tokens up to which names are appended to it, in percent.
const SHARE: u64 = 25;
/// The heading above what is appended.
const HEADING: &str = "Also, word for word:";
/// Words that forbid.
const FORBIDDING: &[&str] = &[
    "never",
    "must not",
    "mustn't",
    "do not",
    "don't",
    "may not",
    "shall not",
    "should not",
    "shouldn't",
    "forbidden",
    "not allowed",
    "off limits",
];

/// A name or number and how it was used.
struct Use<'a> {
    text: &'a str,
    /// Messages of the agent that have it.
    n_own: usize,
    /// Messages of any role that have it.
    n_seen: usize,
    last: usize,
}

/// The facts that a summary must contain.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Atoms {
    /// Whatever it costs: calls without a result, then prohibitions.
    pub(crate) always: Vec<String>,
    /// As many as a share of the summary can hold: the names and numbers that the agent used and that appear
    /// in at least two messages, the most often and latest used first.
    pub(crate) names: Vec<String>,
}

/// Returns the facts that a summary of `messages` must contain.
pub(crate) fn atoms(messages: &[ContextMessage]) -> Atoms {
    let mut always = open_calls(messages);
    let own =
        messages.iter().map(ContextMessage::message).filter(|message| message.role() == Role::Assistant);
    let mut prohibitions: Vec<String> = own.flat_map(prohibitions).collect();
    let mut seen = HashSet::new();
    prohibitions.reverse();
    prohibitions.retain(|sentence| seen.insert(sentence.clone()));
    prohibitions.truncate(MOST_PROHIBITIONS);
    always.extend(prohibitions.into_iter().rev());
    Atoms { always, names: names(messages).into_iter().map(str::to_owned).collect() }
}

/// Returns the summary with those of `atoms` that it lacks; of the names, as many as a share of `most` can
/// hold.
pub(crate) fn with_atoms(summary: String, atoms: &Atoms, most: Tokens, counter: &dyn TokenCounter) -> String {
    let is_lacking = |atom: &&String| !summary.contains(atom.as_str());
    let mut appended: Vec<String> =
        atoms.always.iter().filter(is_lacking).map(|atom| format!("\n- {atom}")).collect();
    let heading = format!("\n\n{HEADING}");
    let mut left = most.share(SHARE, 100) - counter.count(&heading) - counter.count(&appended.concat());
    for name in atoms.names.iter().filter(is_lacking) {
        let line = format!("\n- {name}");
        let tokens = counter.count(&line);
        if tokens <= left {
            left = left - tokens;
            appended.push(line);
        }
    }
    if appended.is_empty() { summary } else { summary + &heading + &appended.concat() }
}

/// Returns the calls that no result answers.
fn open_calls(messages: &[ContextMessage]) -> Vec<String> {
    let mut open: Vec<(&str, String)> = Vec::new();
    for message in messages {
        match &message.message().body {
            Body::Assistant { calls, .. } => open.extend(calls.iter().map(|call| {
                (call.id.as_str(), one_line(&format!("open call: {} {}", call.name, call.arguments)))
            })),
            Body::Tool(result) => {
                // Ids are reused: a result answers the latest call of its id.
                if let Some(answered) = open.iter().rposition(|(id, _)| *id == result.call_id) {
                    open.remove(answered);
                }
            }
            Body::System(_) | Body::User(_) => {}
        }
    }
    open.into_iter().map(|(_, call)| call).collect()
}

/// Returns the text in one line: text in a list is one item of it, whatever it contains.
fn one_line(text: &str) -> String {
    text.split(is_line_break).map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Returns the sentences that forbid something.
fn prohibitions(message: &Message) -> Vec<String> {
    let text = message.to_text();
    let mut found = Vec::new();
    for line in text.lines() {
        for sentence in line.split_inclusive(". ") {
            let sentence = sentence.trim().trim_start_matches(['-', '*', '#', '>', ' ']);
            let n_words = sentence.split_whitespace().count();
            if n_words >= 3 && sentence.chars().count() <= MOST_CHARS && says_any(sentence, FORBIDDING) {
                found.push(one_line(sentence));
            }
        }
    }
    found
}

/// Returns the names and numbers that the agent used and that appear in at least two messages.
fn names(messages: &[ContextMessage]) -> Vec<&str> {
    let mut uses: HashMap<u64, Use<'_>> = HashMap::new();
    for (position, message) in messages.iter().enumerate() {
        let is_own = message.message().role() == Role::Assistant;
        let features = message.features();
        let mut in_message = HashSet::new();
        for line in &features.lines {
            for (nth, place) in features.places(line).iter().enumerate() {
                let term = features.terms[*place as usize];
                if !term.kind().is_a_name_given() || !in_message.insert(term.hash()) {
                    continue;
                }
                let text = features.word(line, nth);
                let known = uses.entry(term.hash()).or_insert(Use { text, n_own: 0, n_seen: 0, last: 0 });
                known.n_own += usize::from(is_own);
                known.n_seen += 1;
                known.last = position;
            }
        }
    }
    let mut used: Vec<Use<'_>> =
        uses.into_values().filter(|name| name.n_own > 0 && name.n_seen > 1).collect();
    let worth = |name: &Use<'_>| (2 * name.n_own + name.n_seen, name.last);
    used.sort_by(|one, other| worth(other).cmp(&worth(one)).then(one.text.cmp(other.text)));
    let mut names: Vec<&str> = Vec::new();
    for name in used.iter().map(|name| name.text).filter(|text| text.chars().count() <= MOST_CHARS) {
        // The last part of a path is a name as well, but a part of a name that is demanded adds nothing.
        names.retain(|known| !name.strip_suffix(*known).is_some_and(|folder| folder.ends_with('/')));
        if names.len() < MOST_NAMES && !names.iter().any(|known| known.contains(name)) {
            names.push(name);
        }
    }
    names
}

/// Checks whether a sentence contains one of `words`, as separate words in any case.
fn says_any(sentence: &str, words: &[&str]) -> bool {
    let lower = sentence.to_lowercase().replace('\u{2019}', "'");
    words.iter().any(|word| {
        lower.match_indices(word).any(|(at, found)| {
            let ends = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
            ends(lower[..at].chars().next_back()) && ends(lower[at + found.len()..].chars().next())
        })
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::fixture::{Characters, tool_call};
    use super::*;
    use crate::{ToolCall, ToolResult};

    fn call(id: &str, arguments: &str) -> ToolCall {
        ToolCall { id: id.to_owned(), ..tool_call("edit", arguments) }
    }

    fn in_words<const N: usize>(words: [&str; N]) -> Vec<String> {
        words.map(str::to_owned).to_vec()
    }

    fn atoms_of(messages: Vec<Message>) -> Atoms {
        let counted: Vec<_> =
            messages.into_iter().map(|message| ContextMessage::count(message, &Characters)).collect();
        atoms(&counted)
    }

    #[test]
    fn what_the_agent_used_is_demanded_and_what_a_tool_printed_is_not() {
        let read = call("1", r#"{"path":"src/parser.rs"}"#);
        let open = call("2", r#"{"path":"src/other_file.rs"}"#);
        let printed = "fn parse_table in src/parser.rs, src/unread.rs; you must not tell anybody";
        let actual = atoms_of(vec![
            Message::calling(vec![read.clone()]),
            Message::tool(ToolResult::answer(&read, printed)),
            Message::assistant("We must not rename `parse_table`. It fails for order W2378156"),
            Message::assistant("parse_table again; W2378156 is next, 7 of 12"),
            Message::calling(vec![open]),
        ]);
        let expected = Atoms {
            always: in_words([
                r#"open call: edit {"path":"src/other_file.rs"}"#,
                "We must not rename `parse_table`.",
            ]),
            names: in_words(["parse_table", "W2378156", "src/parser.rs"]),
        };
        assert_eq!(actual, expected);
    }

    #[test]
    fn very_many_names_are_bounded_by_use_and_age() {
        let line = |n: usize| Message::assistant(format!("now item_{n}_x and steady_name"));
        let actual = atoms_of((0..500).flat_map(|n| [line(n), line(n)]).collect()).names;
        assert_eq!(actual.len(), MOST_NAMES);
        assert_eq!((actual[0].as_str(), actual[1].as_str()), ("steady_name", "item_499_x"));
    }

    #[test]
    fn an_open_call_is_demanded_whole() {
        let patch = format!(r#"{{"patch":"{}"}}"#, "+ line\\n".repeat(100));
        let actual = atoms_of(vec![Message::calling(vec![call("1", &patch)])]);
        assert_eq!(actual.always, [format!("open call: edit {patch}")]);
    }

    #[test]
    fn what_is_lacking_is_appended_and_names_up_to_a_share() {
        let names = in_words(["a/b.rs", "never x", &"long ".repeat(30), "c"]);
        let must = in_words(["do not touch the generated code"]);
        for (summary, always, most, expected) in [
            ("read a/b.rs", &[][..], 400, "read a/b.rs\n\nAlso, word for word:\n- never x\n- c"),
            ("a/b.rs never x, c, ", &[], 400, "a/b.rs never x, c, "),
            ("none", &[], 8, "none"),
            ("none", &must, 8, "none\n\nAlso, word for word:\n- do not touch the generated code"),
        ] {
            let atoms = Atoms { always: always.to_vec(), names: names.clone() };
            let actual = with_atoms(summary.to_owned(), &atoms, Tokens::new(most), &Characters);
            assert_eq!(actual, expected, "{summary}");
        }
    }
}
