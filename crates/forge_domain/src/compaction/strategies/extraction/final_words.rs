//! Words of the agent's to the user in an argument of a call, such as an answer that it hands in. Apart from
//! those in commands, because what stands after the call tells it, whatever the tool and the argument are
//! named.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde_json::Value;

use super::endings::asks_the_user;
use super::story::NO_RESULT;
use super::tasks::is_about_tasks;
use crate::compaction::answered_call::answered_call;
use crate::compaction::arguments::{ASIDE, tells_what};
use crate::compaction::findings::{is_look, is_refused};
use crate::tool_twin::asks_agent;
use crate::{Context, ContextMessage, Role, user_words};

/// The fewest characters of such a text that has one line.
const LEAST_CHARS: usize = 80;
/// Most characters of a result that only acknowledges it.
const ACKNOWLEDGEMENT_CHARS: usize = 80;

/// The texts in calls after which the agent says nothing before the user does.
#[derive(Default)]
pub(super) struct FinalWords {
    /// Their parts of the texts of the messages' features, by the positions of those.
    words: HashMap<usize, Range<usize>>,
    /// The positions of the results that tell no more than such a text.
    told: HashSet<usize>,
}

impl FinalWords {
    /// Finds them in `context`, whose messages were `sources` at first.
    pub(super) fn of(context: &Context, sources: &[ContextMessage]) -> Self {
        let mut all = Self::default();
        let mut is_last = true;
        for (position, source) in sources.iter().enumerate().rev() {
            match source.role() {
                Role::User => is_last |= source.starts_turn(),
                Role::Assistant => is_last = false,
                Role::Tool if is_last => all.take(context, sources, position),
                Role::Tool | Role::System => {}
            }
        }
        all
    }

    /// Takes what the agent says in the call whose result is at `position`, if that is the last one of its
    /// message, and neither does, looks up nor asks anything.
    fn take(&mut self, context: &Context, sources: &[ContextMessage], position: usize) {
        let Some(asked) = answered_call(context, position) else { return };
        let (caller, result) = (&sources[asked.place.message], &sources[position]);
        let (call, deed) = (asked.call, asked.deed);
        let is_last = asked.place.nth + 1 == caller.message().calls().len();
        let does = deed.runs || !deed.touches.is_empty() || is_look(call.name.as_str());
        let asks = asks_agent(call.name.as_str()) || asks_the_user(call) || is_about_tasks(call);
        let is_stopped = || {
            deed.failure(result).is_some()
                || is_refused(call, result.message())
                || user_words(result.message()).is_some()
        };
        if !is_last || does || asks || is_stopped() {
            return;
        }
        let Some((words, is_alone)) = said_in(caller) else { return };
        let said = &caller.features().text[words.clone()];
        let reported = result.features().text.trim();
        let is_repeated = || reported.contains(said) && reported.len() <= said.len() * 2;
        let tells_no_more =
            reported.is_empty() || reported == NO_RESULT || said.contains(reported) || is_repeated();
        // A message to another person has more texts: to whom, and what about.
        let is_to_user = match tells_no_more {
            true => is_alone || !deed.acts(call),
            false => is_alone && is_acknowledgement(reported),
        };
        if is_to_user {
            self.words.insert(asked.place.message, words);
            self.told.extend(tells_no_more.then_some(position));
        }
    }

    /// Returns what the agent says so in the message at `position`, as a part of the text of its features.
    pub(super) fn at(&self, position: usize) -> Option<&Range<usize>> {
        self.words.get(&position)
    }

    /// Checks whether the result at `position` tells no more than such a text.
    pub(super) fn tell(&self, position: usize) -> bool {
        self.told.contains(&position)
    }
}

/// Returns the longest text in the last call of a message, as a part of the text of its features, if it says
/// something, and whether the call has no other.
fn said_in(caller: &ContextMessage) -> Option<(Range<usize>, bool)> {
    let call = caller.message().calls().last()?;
    let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
    let mut texts = Vec::new();
    push_texts(&arguments, &mut texts);
    let is_alone = texts.len() == 1;
    let said = texts.into_iter().max_by_key(|text| text.len())?;
    let n_lines = said.lines().filter(|line| !line.trim().is_empty()).count();
    let is_long = n_lines > 1 || said.chars().nth(LEAST_CHARS - 1).is_some();
    let is_data = ["{", "[{", "<"].iter().any(|mark| said.starts_with(mark));
    if !is_long || is_data {
        return None;
    }
    let features = caller.features();
    let begin = features.lines.iter().rfind(|line| line.begins_call)?.start as usize;
    let start = begin + features.text[begin..].find(said)?;
    Some((start..start + said.len(), is_alone))
}

/// Appends the texts among the values of a call's arguments, without those that tell what the call is.
fn push_texts<'v>(value: &'v Value, texts: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => texts.push(text.trim()),
        Value::Array(values) => values.iter().for_each(|value| push_texts(value, texts)),
        Value::Object(fields) => {
            let said = fields.iter().filter(|(name, _)| !tells_what(name) && !ASIDE.contains(&name.as_str()));
            said.for_each(|(_, value)| push_texts(value, texts));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Checks whether a result only says that a text was taken. One with a number tells something.
fn is_acknowledgement(result: &str) -> bool {
    !result.contains(|c: char| c == '\n' || c.is_numeric())
        && result.chars().nth(ACKNOWLEDGEMENT_CHARS).is_none()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::Conversation;

    const FOUND: &str = "The boats of the harbour:\n1) Anna\n2) Berta";

    /// Returns what the agent is found to say in a call of such a tool, and whether that tells its result.
    fn found(tool: &str, arguments: &Value, result: &str, after: &str) -> (Option<String>, bool) {
        let mut log = Conversation::new();
        log.user("List the boats.").call(tool, arguments, result);
        match after {
            "" => {}
            "ok" => {
                log.user("Thanks.");
            }
            said => {
                log.agent(said).user("Thanks.");
            }
        }
        let context = log.view();
        let sources = context.messages();
        let words = FinalWords::of(&context, sources);
        let said = words.at(1).map(|words| sources[1].features().text[words.clone()].to_owned());
        (said, words.tell(2))
    }

    #[test]
    fn a_text_in_the_last_call_is_said_to_the_user() {
        let text = json!({"text": FOUND, "success": true});
        let long = "The harbour has two boats, Anna and Berta, and both of them leave at noon on Sunday.";
        for (tool, arguments, result, after, expected) in [
            ("done", text.clone(), FOUND, "ok", Some((FOUND, true))),
            ("finish", text.clone(), "", "", Some((FOUND, true))),
            (
                "final_answer",
                json!({"answer": long, "confidence": 0.9}),
                "Accepted.",
                "ok",
                Some((long, false)),
            ),
            ("submit", json!({"result": {"answer": long}}), "Submitted.", "ok", Some((long, false))),
            ("done", text.clone(), "Task 7 has three more points:\n- a\n- b", "ok", None),
            ("done", text.clone(), "Created list 7.", "ok", None),
            ("done", text.clone(), FOUND, "So these are the two.", None),
            ("done", json!({"text": "All is done."}), "", "ok", None),
            ("write", json!({"path": "boats.md", "content": FOUND}), "", "ok", None),
            ("run", json!({"command": FOUND}), "", "ok", None),
            ("web_search", json!({"query": long}), "Nothing found", "ok", None),
            ("harbour__lookupBoats", json!({"about": long}), "", "ok", None),
            ("send_mail", json!({"to": "ann@b.example", "body": FOUND}), "Sent.", "ok", None),
            ("Agent", json!({"prompt": FOUND}), "Launched.", "ok", None),
            ("Skill", json!({"skill": "boats", "args": FOUND}), "Launching a skill", "ok", None),
        ] {
            let (said, is_told) = found(tool, &arguments, result, after);
            let actual = said.as_deref().map(|said| (said, is_told));
            assert_eq!(actual, expected, "{tool} {arguments} {result}");
        }
    }
}
