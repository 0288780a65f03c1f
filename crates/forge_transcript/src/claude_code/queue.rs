//! The words that the user typed while the agent worked. Some versions write them nowhere but in the
//! operations of their queue.

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value};

use crate::id_digest::IdDigest;

/// The type of the records of the queue.
pub(super) const OPERATION: &str = "queue-operation";

/// The subtype of the record of a compaction.
const BOUNDARY: &str = "compact_boundary";

/// The queue of a session, as far as its records were seen.
#[derive(Default)]
pub(super) struct Queue {
    /// Those that wait, the oldest first.
    waiting: VecDeque<Queued>,
    /// Those that were put into the turn that ran, and the record that says so.
    taken: Vec<(Queued, usize)>,
    /// The last record of a message that holds each text.
    said: HashMap<IdDigest, usize>,
    /// The words that were heard before the last compaction: messages that stay are repeated behind that, and
    /// were not said there.
    settled: Vec<Heard>,
}

/// Words in the queue.
struct Queued {
    /// The record that has them.
    record: usize,
    /// Their digest.
    text: IdDigest,
    /// True if a task of its own reports its end: what the user typed is taken first.
    is_report: bool,
}

/// Words that the model saw during a turn, and that stand in no record of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heard {
    /// The record that has them.
    pub(super) record: usize,
    /// The record behind which the model saw them.
    pub(super) behind: usize,
}

/// Returns the words that a record puts into the queue.
pub(super) fn queued(fields: &Map<String, Value>) -> Option<&str> {
    let content = text(fields, "content").filter(|content| !content.trim().is_empty())?;
    (is_operation(fields) && text(fields, "operation") == Some("enqueue")).then_some(content)
}

impl Queue {
    /// Looks at the next record, whose number is `record`.
    pub(super) fn look(&mut self, fields: &Map<String, Value>, record: usize) {
        if text(fields, "subtype") == Some(BOUNDARY) {
            self.settled = self.heard().collect();
            self.taken.clear();
            self.said.clear();
            return;
        }
        if !is_operation(fields) {
            // Words are queued before the record that repeats them.
            if !(self.waiting.is_empty() && self.taken.is_empty()) {
                self.said.extend(said(fields).map(|said| (digest(said), record)));
            }
            return;
        }
        let content = text(fields, "content");
        match text(fields, "operation") {
            Some("enqueue") => {
                let words = content.unwrap_or_default().trim();
                let is_report = words.starts_with("<task-notification>");
                let queued = Queued { record, text: digest(words), is_report };
                self.waiting.push_back(queued);
            }
            Some("remove") => {
                let taken = self.take(content);
                self.taken.extend(taken.map(|queued| (queued, record)));
            }
            // A record of a message follows.
            Some("dequeue") => drop(self.take(None)),
            // The user has them again.
            _ => self.waiting.clear(),
        }
    }

    /// Takes out the words that are named, or else what is next.
    fn take(&mut self, content: Option<&str>) -> Option<Queued> {
        let is_it = |queued: &Queued| match content {
            Some(content) => digest(content) == queued.text,
            None => !queued.is_report,
        };
        let at = self.waiting.iter().position(is_it).or_else(|| content.is_none().then_some(0))?;
        self.waiting.remove(at)
    }

    /// Returns what the model saw and only the queue has, in order.
    pub(super) fn heard(&self) -> impl Iterator<Item = Heard> {
        let is_alone = |(queued, _): &&(Queued, usize)| {
            self.said.get(&queued.text).is_none_or(|record| *record < queued.record)
        };
        let since = self.taken.iter().filter(is_alone);
        let since = since.map(|(queued, by)| Heard { record: queued.record, behind: *by });
        self.settled.iter().copied().chain(since)
    }
}

fn is_operation(fields: &Map<String, Value>) -> bool {
    text(fields, "type") == Some(OPERATION)
}

fn text<'f>(fields: &'f Map<String, Value>, key: &str) -> Option<&'f str> {
    fields.get(key).and_then(Value::as_str)
}

fn digest(text: &str) -> IdDigest {
    IdDigest::of(text.trim())
}

/// Returns the texts of a user's record, or of an attachment that holds what was queued.
fn said(fields: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let content = match text(fields, "type") {
        Some("user") => fields.get("message").and_then(|message| message.get("content")),
        Some("attachment") => fields.get("attachment").and_then(|attachment| attachment.get("prompt")),
        _ => None,
    };
    let blocks = content.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let of_blocks = blocks.iter().filter_map(|block| block.get("text").and_then(Value::as_str));
    content.and_then(Value::as_str).into_iter().chain(of_blocks)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    /// Parses a record: `+a` queues `a`, `-` removes the oldest, `-a` removes `a`, `>` takes the oldest out
    /// for a turn of its own, `0` gives all back, `|` compacts; anything else is a message of the user's.
    fn record(word: &str) -> Value {
        let operation = |operation: &str, content: &str| match content {
            "" => json!({"type": "queue-operation", "operation": operation}),
            content => json!({"type": "queue-operation", "operation": operation, "content": content}),
        };
        match word.split_at(1) {
            ("+", content) => operation("enqueue", content),
            ("-", content) => operation("remove", content),
            (">", _) => operation("dequeue", ""),
            ("0", _) => operation("popAll", "all"),
            ("|", _) => json!({"type": "system", "subtype": "compact_boundary"}),
            _ => json!({"type": "user", "message": {"role": "user", "content": word}}),
        }
    }

    #[test]
    fn words_that_only_the_queue_has_are_heard_where_they_were_taken_out() {
        for (text, expected) in [
            ("", vec![]),
            ("a +b c", vec![]),
            ("a +b c -", vec![(1, 3)]),
            ("+b +c - -", vec![(0, 2), (1, 3)]),
            ("+b +c -c", vec![(1, 2)]),
            ("+b > b", vec![]),
            ("+b +c > b -", vec![(1, 4)]),
            ("+b 0 -", vec![]),
            // What the user typed is taken before reports.
            ("+<task-notification> +b -", vec![(1, 2)]),
            ("+<task-notification> -", vec![(0, 1)]),
            // Another record holds them as well.
            ("+b - b", vec![]),
            ("b +b -", vec![(1, 2)]),
            ("a - +b", vec![]),
            // A compaction repeats what stays.
            ("a +b - | b", vec![(1, 2)]),
            ("+b - b | b +c -", vec![(5, 6)]),
        ] {
            let mut queue = Queue::default();
            for (number, word) in text.split_whitespace().enumerate() {
                queue.look(record(word).as_object().unwrap(), number);
            }
            let actual: Vec<(usize, usize)> =
                queue.heard().map(|heard| (heard.record, heard.behind)).collect();
            assert_eq!(actual, expected, "{text}");
        }
    }
}
