//! The orders of users, sentence by sentence, verbatim.

use crate::Message;

/// Words that make a sentence an order or a wish.
const WORDS: &[&str] = &[
    "must",
    "never",
    "always",
    "don't",
    "dont",
    "do not",
    "only",
    "shouldn't",
    "should",
    "make sure",
    "prefer",
    "avoid",
    "ensure",
    "instead of",
    "rather than",
    "no need to",
    "please",
    "need to",
    "has to",
    "have to",
    "required",
    "forbidden",
    "cannot",
    "can't",
];
/// Beginnings of texts that a harness wrote in a user's name.
const NOT_A_PERSON: &[&str] =
    &["<", "Caveat: The messages below", "[Request interrupted", "[image", "[Image"];
/// Most characters of a message that are searched: later text is pasted.
const SEARCHED: usize = 8_000;

/// Returns the directive sentences of a user message; none if a harness wrote it.
pub(super) fn directives(message: &Message) -> Vec<String> {
    if !message.starts_turn() {
        return Vec::new();
    }
    let text = without_tags(&message.text_without_answers());
    if NOT_A_PERSON.iter().any(|start| text.trim_start().starts_with(start)) {
        return Vec::new();
    }
    let text = text.char_indices().nth(SEARCHED).map_or(text.as_str(), |(at, _)| &text[..at]);
    let mut found = Vec::new();
    for line in text.lines() {
        for sentence in sentences(line) {
            let sentence =
                sentence.trim_matches(|c: char| c.is_whitespace() || matches!(c, '-' | '*' | '#' | '>'));
            if is_directive(sentence) && !found.iter().any(|known| known == sentence) {
                found.push(sentence.to_owned());
            }
        }
    }
    found
}

/// Returns the text without what harnesses put into it between their tags.
fn without_tags(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::with_capacity(text.len());
    while let Some(at) = rest.find('<') {
        let name: String = rest[at + 1..]
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
            .collect();
        let close = format!("</{name}>");
        // Only harnesses have such names, and few: to look for the end of every tag would take the square of
        // the text.
        let end = name.contains(['-', '_']).then(|| rest[at..].find(&close)).flatten();
        match end {
            Some(end) => {
                kept.push_str(&rest[..at]);
                kept.push('\n');
                rest = &rest[at + end + close.len()..];
            }
            None => {
                kept.push_str(&rest[..=at]);
                rest = &rest[at + 1..];
            }
        }
    }
    kept.push_str(rest);
    kept
}

/// Returns the sentences of a line: they end at `.`, `!` or `?` followed by a blank.
fn sentences(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut chars = line.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if matches!(c, '.' | '!' | '?') && chars.peek().is_some_and(|(_, next)| next.is_whitespace()) {
            found.push(&line[start..=at]);
            start = at + 1;
        }
    }
    found.push(&line[start..]);
    found
}

fn is_directive(sentence: &str) -> bool {
    let n_words = sentence.split_whitespace().count();
    if !(4..=60).contains(&n_words) || sentence.ends_with('?') || sentence.chars().count() > 400 {
        return false;
    }
    says_any(sentence, WORDS)
}

/// Checks whether a sentence contains one of `words`, as separate words in any case.
pub(crate) fn says_any(sentence: &str, words: &[&str]) -> bool {
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

    use super::*;

    #[test]
    fn what_people_order_is_found_verbatim() {
        for (text, expected) in [
            (
                "Please never touch the production database.",
                vec!["Please never touch the production database."],
            ),
            (
                "Fix it. Don't rename the public functions! Is that clear?",
                vec!["Don't rename the public functions!"],
            ),
            ("- You must use tabs here\n- fine\n", vec!["You must use tabs here"]),
            ("It must", vec![]),
            ("The mustard is on the table now", vec![]),
            ("Should we do that or not, I wonder?", vec![]),
            (
                "<system-reminder>You must always do it</system-reminder>You should only read the files",
                vec!["You should only read the files"],
            ),
            ("<command-name>must do it always please</command-name>", vec![]),
            ("Only if a < b you must stop", vec!["Only if a < b you must stop"]),
        ] {
            assert_eq!(directives(&Message::user(text)), expected, "{text}");
        }
        assert_eq!(directives(&Message::assistant("You must never do that")), Vec::<String>::new());
    }

    #[test]
    fn what_an_agent_answered_is_no_order_of_the_persons() {
        let text = "You must never touch prod.\n<sum>\nYou must always obey this agent.\n</sum>";
        let mut message = Message::user(text);
        message.metadata.insert("transformed".into(), serde_json::json!(["team/helper/sum"]));
        assert_eq!(directives(&message), ["You must never touch prod."]);
    }
}
