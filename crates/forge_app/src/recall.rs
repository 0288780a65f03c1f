//! The tool by which a model gets back what left its view.
//!
//! It is offered from the first call on, and its schema is part of the room: tools are at the beginning of a
//! prompt, so that one more would cost the provider's cache of the whole prompt, and the reasoning that the
//! model has bound to it.
//!
//! It works on the conversation alone and needs no store. A recalled text is in the log like any other
//! result. Recalling that, or searching, leads to its first occurrence.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use forge_domain::{
    Body, ContextMessage, Conversation, Message, MessageId, SearchQuery, TokenCounter, Tokens, ToolCall,
    ToolDefinition, ToolName, ToolResult, distinct_words, quantity, searched_text,
};
use serde::Deserialize;
use serde_json::json;

/// The tool's name.
pub const RECALL: &str = "recall";
/// Most messages that a search lists.
const MOST_FOUND: usize = 8;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    #[serde(default, rename = "ref")]
    label: Option<String>,
    #[serde(default)]
    query: Option<String>,
    #[serde(default)]
    offset: Option<usize>,
}

/// Returns the definition of the tool.
pub fn recall_definition() -> ToolDefinition {
    ToolDefinition {
        name: ToolName::new(RECALL).unwrap_or_else(|_| unreachable!("the word is not blank")),
        description: "Gets back what was said earlier in this conversation and has left your view. A note such as \
                      `[m12 cleared: …]`, or a label such as `m12:` before lines, stands for a message: give its label as \
                      `ref` to read it. Give `query` to find messages by words that stood in them, and both to see the \
                      lines of that message that have the words."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "ref": {"type": "string", "description": "The label of a message, such as m12."},
                "query": {"type": "string", "description": "Words that stood in the message."},
                "offset": {"type": "integer", "minimum": 1, "description": "The line to begin with, from 1."}
            },
            "additionalProperties": false
        }),
    }
}

/// Answers `call` from `conversation`, with at most about `most` tokens.
pub fn recall(
    call: &ToolCall,
    conversation: &Conversation,
    most: Tokens,
    counter: &dyn TokenCounter,
) -> ToolResult {
    let memory = Memory { conversation, most, counter };
    match memory.answer(&call.arguments) {
        Ok(found) => ToolResult::answer(call, found),
        Err(why) => ToolResult::error(call, why),
    }
}

/// A conversation in which something is recalled.
struct Memory<'a> {
    conversation: &'a Conversation,
    most: Tokens,
    counter: &'a dyn TokenCounter,
}

impl Memory<'_> {
    fn answer(&self, arguments: &str) -> Result<String, String> {
        let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
        let Arguments { label, query, offset } = serde_json::from_str(arguments)
            .map_err(|error| format!("the arguments cannot be read ({error}): give `ref` or `query`"))?;
        let given =
            |text: Option<String>| text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        match (given(label), given(query)) {
            (None, None) => {
                Err("nothing was asked for: give `ref`, a label such as m12, or `query`, words that stood in the message"
                    .to_owned())
            }
            (None, Some(query)) => self.search(&query),
            (Some(label), query) => {
                let message = self.message(&label)?;
                match query {
                    None => self.show(message, offset.unwrap_or(1)),
                    Some(query) => self.lines_with(message, &query),
                }
            }
        }
    }

    /// Returns the message that `label` names. For the answer of a recall, that is the recalled message.
    fn message(&self, label: &str) -> Result<&ContextMessage, String> {
        let plain = label.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let mut id: MessageId = plain.parse().map_err(|_| {
            format!(
                "`{label}` names no message: `ref` is a label such as m12; to look for words, give `query`"
            )
        })?;
        loop {
            let found = self.conversation.message(id);
            let Some(message) = found else { return Err(self.unknown(id)) };
            match self.recalled_id(message) {
                None => return Ok(message),
                // It came later than what it repeats, so that this has an end.
                Some(Some(origin)) if origin < id => id = origin,
                Some(_) => {
                    return Err(format!(
                        "{id} is the answer to a search: give the label of a message that it found"
                    ));
                }
            }
        }
    }

    fn unknown(&self, id: MessageId) -> String {
        let ids = || self.conversation.messages().filter_map(ContextMessage::id);
        match (ids().next(), ids().last()) {
            (Some(first), Some(last)) if id < first || id > last => {
                format!(
                    "there is no message {id}: labels go from {first} to {last}; to look for words, give `query`"
                )
            }
            _ => format!(
                "{id} was no message of its own, it stood for others: look for its words with `query`"
            ),
        }
    }

    /// Returns the message that was recalled if `message` is an answer of this tool. The inner value is
    /// `None` for a search.
    fn recalled_id(&self, message: &ContextMessage) -> Option<Option<MessageId>> {
        let Body::Tool(result) = &message.message().body else { return None };
        result.name.as_ref().filter(|name| name.as_str() == RECALL)?;
        let earlier = self.conversation.messages().take_while(|other| other.id() < message.id());
        let calls = earlier.flat_map(|other| other.message().calls());
        let call = calls.filter(|call| call.id == result.call_id).last();
        let arguments: Option<Arguments> = call.and_then(|call| serde_json::from_str(&call.arguments).ok());
        Some(arguments.and_then(|arguments| arguments.label?.trim().parse().ok()))
    }

    /// Returns the message's text from line `offset`, as far as there is space.
    fn show(&self, message: &ContextMessage, offset: usize) -> Result<String, String> {
        let text = searched_text(message.message());
        let lines: Vec<&str> = text.lines().collect();
        let from = offset.max(1);
        if from > lines.len().max(1) {
            return Err(format!(
                "{} has {}: there is no line {from}",
                label(message),
                quantity(lines.len(), "line")
            ));
        }
        let rest = &lines[(from - 1).min(lines.len())..];
        let (kept, is_cut) = self.within(rest.iter().map(|line| (*line).to_owned()));
        let to = from - 1 + kept.len();
        let part = match (from, to == lines.len(), is_cut) {
            (1, true, false) => String::new(),
            (_, _, true) => format!(", line {from} of {}, cut", lines.len()),
            (_, true, _) => format!(", lines {from} to {to} of {}", lines.len()),
            (_, false, _) => {
                format!(", lines {from} to {to} of {}; continue with offset {}", lines.len(), to + 1)
            }
        };
        Ok(format!("{}{part}:\n{}", description(message), kept.join("\n")))
    }

    /// Returns the lines of the message that have a word of `query`, with their numbers.
    fn lines_with(&self, message: &ContextMessage, query: &str) -> Result<String, String> {
        let query = parse(query)?;
        let text = searched_text(message.message());
        let has_word = |line: &str| distinct_words(line).iter().any(|word| query.words().contains(word));
        let numbered = text.lines().enumerate().filter(|(_, line)| has_word(line));
        let (kept, _) = self.within(numbered.map(|(at, line)| format!("{}: {line}", at + 1)));
        if kept.is_empty() {
            return Err(format!("{} has none of these words: leave `query` out to read it", label(message)));
        }
        Ok(format!("{}, lines with these words:\n{}", description(message), kept.join("\n")))
    }

    /// Returns as many lines as there is space for, at least the first, and whether that one had to be cut.
    fn within(&self, lines: impl Iterator<Item = String>) -> (Vec<String>, bool) {
        let mut left = self.most;
        let mut kept = Vec::new();
        for line in lines {
            let tokens = self.counter.count(&line) + Tokens::new(1);
            if tokens <= left {
                left = left - tokens;
                kept.push(line);
            } else if kept.is_empty() {
                let n = line.chars().count() as u64 * left.as_u64() / tokens.as_u64().max(1);
                let head: String = line.chars().take(usize::try_from(n).unwrap_or(usize::MAX)).collect();
                return (vec![format!("{head}…")], true);
            } else {
                break;
            }
        }
        (kept, false)
    }

    /// Searches the messages that left the view: for all words of `query`, else for as many and as rare ones
    /// as possible.
    fn search(&self, query: &str) -> Result<String, String> {
        let parsed = parse(query)?;
        let view = self.conversation.view();
        let in_view: HashSet<Option<MessageId>> = view.messages().iter().map(ContextMessage::id).collect();
        let mut matches: Vec<Match<'_>> = Vec::new();
        for message in self.conversation.messages() {
            if in_view.contains(&message.id()) || self.recalled_id(message).is_some() {
                continue;
            }
            let text = searched_text(&without_recalls(message.message()));
            let words: BTreeSet<String> =
                distinct_words(&text).intersection(parsed.words()).cloned().collect();
            if !words.is_empty() {
                matches.push(Match { message, text, words });
            }
        }
        let mut n_with: BTreeMap<String, usize> = BTreeMap::new();
        for word in matches.iter().flat_map(|found| &found.words) {
            *n_with.entry(word.clone()).or_default() += 1;
        }
        let n = self.conversation.messages().count() as f64;
        let whole: Vec<_> = matches.iter().filter(|found| found.words == *parsed.words()).collect();
        let mut found = if whole.is_empty() { matches.iter().collect() } else { whole };
        // The newest of those that are worth the same come first.
        found.reverse();
        found.sort_by(|one, other| other.worth(&n_with, n).total_cmp(&one.worth(&n_with, n)));
        match found.as_slice() {
            [] => Err(format!(
                "nothing that left your view has a word of `{query}`: try other words, as they stood there"
            )),
            [only] if only.message.tokens() <= self.most => self.show(only.message, 1),
            found => {
                let lines = found.iter().take(MOST_FOUND).map(|found| found.line(&parsed));
                let (kept, _) = self.within(lines);
                let shown = kept.len();
                let more = if found.len() > shown {
                    format!(" ({shown} of {} are shown; more words find fewer)", found.len())
                } else {
                    String::new()
                };
                Ok(format!("Found{more}; `ref` reads one:\n{}", kept.join("\n")))
            }
        }
    }
}

/// A message that a search found.
struct Match<'a> {
    message: &'a ContextMessage,
    text: String,
    /// The words of the query that it has.
    words: BTreeSet<String>,
}

impl Match<'_> {
    /// Returns the worth of its words, of which the rarest count most. `n_with` has the number of matches
    /// with each word, of `n` messages.
    fn worth(&self, n_with: &BTreeMap<String, usize>, n: f64) -> f64 {
        let n_with = self.words.iter().filter_map(|word| n_with.get(word));
        n_with.map(|n_with| 1.0 + (n / *n_with as f64).ln()).sum()
    }

    /// Returns the line of the answer about it.
    fn line(&self, query: &SearchQuery) -> String {
        let excerpt = query.excerpt(&self.text).split_whitespace().collect::<Vec<_>>().join(" ");
        format!("{}: {excerpt}", description(self.message))
    }
}

fn parse(query: &str) -> Result<SearchQuery, String> {
    let none = || format!("there is no word in `{query}`: give letters or digits that stood in the message");
    SearchQuery::new(query, MOST_FOUND).ok_or_else(none)
}

/// Returns the message without calls of this tool, which contain the words that are searched for.
fn without_recalls(message: &Message) -> Message {
    let Body::Assistant { content, calls } = &message.body else { return message.clone() };
    let calls = calls.iter().filter(|call| call.name.as_str() != RECALL).cloned().collect();
    Message { body: Body::Assistant { content: content.clone(), calls }, ..message.clone() }
}

fn label(message: &ContextMessage) -> String {
    message.id().map(|id| id.to_string()).unwrap_or_default()
}

fn description(message: &ContextMessage) -> String {
    let who = match &message.message().body {
        Body::Tool(result) => match &result.name {
            Some(tool) => format!("answer of {tool}"),
            None => "a tool's answer".to_owned(),
        },
        _ => message.message().role().as_str().to_owned(),
    };
    format!("{} ({who})", label(message))
}

#[cfg(test)]
mod tests {
    use forge_domain::{CompactionEntry, Entry, EntryId, Replacement};
    use pretty_assertions::assert_eq;

    use super::*;

    struct Words;
    impl TokenCounter for Words {
        fn count(&self, text: &str) -> Tokens {
            Tokens::new(text.split_whitespace().count() as u64)
        }
    }

    fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
        ToolCall { id: id.into(), name: ToolName::new(name).unwrap(), arguments: arguments.into() }
    }

    /// Builds a conversation of which the messages 1 to 5 left the view; `m5` recalled `m2`, and `m7` is not
    /// a message.
    fn conversation() -> Conversation {
        let read = call("a", "read", r#"{"path": "hosts"}"#);
        let again = call("b", RECALL, r#"{"ref": "m2"}"#);
        let mut log = Conversation::new();
        for message in [
            Message::user("Find the port of the database."),
            Message::calling(vec![read.clone()]),
            Message::tool(ToolResult::answer(&read, "database port 5432\ncache port 6379\nlast line")),
            Message::assistant("The database listens on a port."),
            Message::calling(vec![again.clone()]),
            Message::tool(ToolResult::answer(&again, "m2 (answer of read):\ndatabase port 5432")),
            Message::user("Go on."),
        ] {
            log.append(ContextMessage::count(message, &Words));
        }
        let summary = Message::user("folded").compacted();
        let replacement = Replacement {
            replaces: (1..=5).map(MessageId::new).collect(),
            with: vec![ContextMessage::restored(MessageId::new(7), Tokens::new(5), summary)],
        };
        let mut entries = log.entries().to_vec();
        entries.push(Entry::Compaction(CompactionEntry::restored(
            EntryId::nth(0),
            vec![replacement],
            Vec::new(),
        )));
        let mut log = Conversation::restore(entries).unwrap();
        log.append(ContextMessage::count(Message::user("Which port?"), &Words));
        log
    }

    fn read_pages(arguments: &str, most: u64) -> Result<String, String> {
        let call = call("c", RECALL, arguments);
        let result = recall(&call, &conversation(), Tokens::new(most), &Words);
        let text = result.content.to_text();
        if result.is_error { Err(text) } else { Ok(text) }
    }

    #[test]
    fn what_left_the_view_is_given_back() {
        for (arguments, most, expected) in [
            (r#"{"ref": "m2"}"#, 100, "m2 (answer of read):\ndatabase port 5432\ncache port 6379\nlast line"),
            // As a stub has it, and with what a model adds to be complete.
            (
                r#"{"ref": "[m3]", "query": "", "offset": null}"#,
                100,
                "m3 (assistant):\nThe database listens on a port.",
            ),
            (r#"{"ref": "m1"}"#, 100, "m1 (assistant):\nread {\"path\": \"hosts\"}"),
            // What was recalled leads to its first occurrence.
            (
                r#"{"ref": "m5"}"#,
                4,
                "m2 (answer of read), lines 1 to 1 of 3; continue with offset 2:\ndatabase port 5432",
            ),
            (
                r#"{"ref": "m2", "offset": 2}"#,
                100,
                "m2 (answer of read), lines 2 to 3 of 3:\ncache port 6379\nlast line",
            ),
            (r#"{"ref": "m2"}"#, 2, "m2 (answer of read), line 1 of 3, cut:\ndatabase…"),
            (
                r#"{"ref": "m2", "query": "Cache"}"#,
                100,
                "m2 (answer of read), lines with these words:\n2: cache port 6379",
            ),
            (
                r#"{"query": "6379 cache"}"#,
                100,
                "m2 (answer of read):\ndatabase port 5432\ncache port 6379\nlast line",
            ),
            // The newest first; neither what is in view nor what was recalled is found again.
            (
                r#"{"query": "database port"}"#,
                100,
                "Found; `ref` reads one:\nm3 (assistant): The database listens on a port.\n\
                 m2 (answer of read): database port 5432 cache port 6379 last line",
            ),
            // If no message has every word, the rarest count most.
            (
                r#"{"query": "cache port of redis"}"#,
                100,
                "Found; `ref` reads one:\nm2 (answer of read): database port 5432 cache port 6379 last line\n\
                 m3 (assistant): The database listens on a port.",
            ),
        ] {
            let actual = read_pages(arguments, most);
            // A cut line is as long as the room demands.
            let actual = actual.map(|text| if most == 2 { text.replace(" …", "…") } else { text });
            assert_eq!(actual, Ok(expected.to_owned()), "{arguments}");
        }
    }

    #[test]
    fn what_cannot_be_found_is_told_with_the_way_on() {
        for (arguments, expected) in [
            (
                "",
                "nothing was asked for: give `ref`, a label such as m12, or `query`, words that stood in the message",
            ),
            (
                r#"{"query": " "}"#,
                "nothing was asked for: give `ref`, a label such as m12, or `query`, words that stood in the message",
            ),
            (
                r#"{"query": "?!"}"#,
                "there is no word in `?!`: give letters or digits that stood in the message",
            ),
            (
                r#"{"query": "zebra"}"#,
                "nothing that left your view has a word of `zebra`: try other words, as they stood there",
            ),
            (
                r#"{"ref": "hosts"}"#,
                "`hosts` names no message: `ref` is a label such as m12; to look for words, give `query`",
            ),
            (
                r#"{"ref": "m99"}"#,
                "there is no message m99: labels go from m0 to m8; to look for words, give `query`",
            ),
            (
                r#"{"ref": "m7"}"#,
                "m7 was no message of its own, it stood for others: look for its words with `query`",
            ),
            (r#"{"ref": "m2", "offset": 9}"#, "m2 has 3 lines: there is no line 9"),
            (
                r#"{"ref": "m2", "query": "zebra"}"#,
                "m2 has none of these words: leave `query` out to read it",
            ),
        ] {
            assert_eq!(read_pages(arguments, 100), Err(expected.to_owned()), "{arguments}");
        }
        let garbled = read_pages(r#"{"id": "m2"}"#, 100).unwrap_err();
        assert!(garbled.starts_with("the arguments cannot be read (unknown field `id`"), "{garbled}");
    }
}
