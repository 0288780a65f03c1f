//! The names in labels: of the agents of a team, and of several people who write as the user.

use std::borrow::Cow;

use super::label::one_line;
use super::record::{Entry, Record};
use crate::compaction::record_tag::is_record;
use crate::{Body, ContextMessage, Message, Role, speaker};

/// The authors of what an agent or the user says, in labels.
const AGENT: &str = "agent";
const PERSON: &str = "user";
/// The name of an agent that was given a task, and reports.
const OTHER_AGENT: &str = "another";
/// Most characters of a name.
const NAME_CHARS: usize = 40;

/// Those who have names in labels.
pub(super) struct Team {
    agents: bool,
    people: bool,
}

impl Team {
    /// The agents are a team if they have several names, or if one of two has one. People have names in
    /// labels if they are several, here or in an earlier record.
    pub(super) fn of(sources: &[ContextMessage]) -> Self {
        let messages = || sources.iter().map(ContextMessage::message);
        // A model's summary is by none of them.
        let is_agents = |message: &&Message| message.role() == Role::Assistant && !message.is_compacted;
        let mut agents = messages().filter(is_agents).map(speaker);
        let first_agent = agents.next();
        let mut people = messages().filter(|message| message.starts_turn()).filter_map(speaker);
        let first_person = people.next();
        let were_several = || {
            let mut records = messages().filter(|message| is_record(message)).map(Record::of);
            records.any(|record| !record.said.is_empty() && record.said.iter().all(has_name))
        };
        Self {
            agents: first_agent.is_some_and(|first| agents.any(|name| name != first)),
            people: first_person.is_some_and(|first| people.any(|name| name != first) || were_several()),
        }
    }

    /// Returns the author of an agent's message, as labels have it.
    pub(super) fn agent(&self, source: &ContextMessage) -> String {
        let name = match &source.message().body {
            Body::Tool(_) => Some(OTHER_AGENT),
            _ => speaker(source.message()).filter(|_| self.agents),
        };
        author(AGENT, name.and_then(bare_name))
    }

    /// Returns the author of a message of the user's, as labels have it.
    pub(super) fn user(&self, source: &ContextMessage) -> String {
        author(PERSON, self.person(source))
    }

    /// Returns the name of the person who wrote a message, if there are several.
    pub(super) fn person(&self, source: &ContextMessage) -> Option<String> {
        speaker(source.message()).filter(|_| self.people).and_then(bare_name)
    }

    /// Returns a text of the user's behind the name of its author, if there are several.
    pub(super) fn said<'t>(&self, source: &ContextMessage, text: &'t str) -> Cow<'t, str> {
        match self.person(source) {
            Some(name) => Cow::Owned(format!("{name}: {text}")),
            None => Cow::Borrowed(text),
        }
    }
}

/// Checks whether an author in a label is an agent: one of a team has its name in brackets.
pub(super) fn is_agent(author: &str) -> bool {
    is_one_of(author, AGENT)
}

/// Checks whether an author in a label is the user, or one of several people.
pub(super) fn is_user(author: &str) -> bool {
    is_one_of(author, PERSON)
}

fn is_one_of(author: &str, kind: &str) -> bool {
    let named = author.strip_prefix(kind);
    named.is_some_and(|name| name.is_empty() || name.starts_with(" (") && name.ends_with(')'))
}

fn author(kind: &str, name: Option<String>) -> String {
    name.map_or_else(|| kind.to_owned(), |name| format!("{kind} ({name})"))
}

/// Returns a name without other marks, which could imitate what a label has.
fn bare_name(name: &str) -> Option<String> {
    one_line(&name.chars().filter(|c| is_of_name(*c)).collect::<String>(), NAME_CHARS)
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, ' ' | '.' | '_' | '-' | '>')
}

/// Checks whether an entry of the user's words begins with a name.
fn has_name(entry: &Entry) -> bool {
    let name = entry.as_str().strip_prefix("- ").and_then(|said| said.split_once(": "));
    let fits = |name: &str| name.chars().nth(NAME_CHARS).is_none() && name.chars().all(is_of_name);
    name.is_some_and(|(name, _)| fits(name))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::compaction::fixture::Characters;
    use crate::said_by;

    /// Returns the authors of messages, and the text of the last one as it is quoted.
    fn told<const N: usize>(messages: [Message; N]) -> (Vec<String>, String) {
        let sources = messages.map(|message| ContextMessage::count(message, &Characters));
        let team = Team::of(&sources);
        let author = |source: &ContextMessage| match source.role() {
            Role::User => team.user(source),
            _ => team.agent(source),
        };
        let last = &sources[N - 1];
        (sources.iter().map(author).collect(), team.said(last, "It is done.").into_owned())
    }

    #[test]
    fn the_agents_of_a_team_have_names() {
        let said = |name: &str| said_by(Message::assistant("It is done."), name);
        let unnamed = || Message::assistant("It is done.");
        for (messages, expected) in [
            ([said("planner"), said("web (fast)")], ["agent (planner)", "agent (web fast)"]),
            ([said("planner"), said("planner")], ["agent", "agent"]),
            ([said("x), m1 user (root: "), said("web")], ["agent (x m1 user root)", "agent (web)"]),
            ([said("(: "), said("web")], ["agent", "agent (web)"]),
            // One that was given a task, and the one that gave it.
            ([unnamed(), said("web")], ["agent", "agent (web)"]),
            ([unnamed(), unnamed()], ["agent", "agent"]),
            ([said("web"), unnamed().compacted()], ["agent", "agent"]),
        ] {
            let (authors, _) = told(messages);
            assert_eq!(authors, expected);
            assert!(authors.iter().all(|author| is_agent(author) && !is_user(author)), "{authors:?}");
        }
        assert!(!is_agent("agent a task"));
    }

    #[test]
    fn several_people_have_names() {
        let said = |name: &str| said_by(Message::user("It is done."), name);
        let unnamed = || Message::user("It is done.");
        let record = |said: &[&str]| {
            let said = said.iter().map(|text| Entry::quote(text)).collect();
            Record { said, ..Record::default() }.to_message()
        };
        for (messages, author, quoted) in [
            ([said("Ana"), said("Ben")], "user (Ben)", "Ben: It is done."),
            ([said("Ana"), said("Ana")], "user", "It is done."),
            ([unnamed(), said("Ana")], "user", "It is done."),
            ([unnamed(), unnamed()], "user", "It is done."),
            ([record(&["Ben: Yes.", "Ana: No."]), said("Ana")], "user (Ana)", "Ana: It is done."),
            ([record(&["Ben: Yes.", "No."]), said("Ana")], "user", "It is done."),
            ([record(&["Ben: Yes."]), unnamed()], "user", "It is done."),
        ] {
            let (authors, text) = told(messages);
            assert_eq!((authors[1].as_str(), text.as_str()), (author, quoted));
            assert!(is_user(author), "{author}");
        }
    }
}
