//! The contents of a recorded session's window.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash};

use forge_domain::compaction::highest_label;
use forge_domain::{
    Body, BreachScan, Content, Context, GroupKind, GroupTally, Message, MessageId, REQUEST_TOKENS, Role,
    Rule, RuleSet, TokenCounter, Tokens, ToolCall, ToolName, ToolResult, breaches_in_words, message_tokens,
    outline,
};
use serde::{Serialize, Serializer};

use crate::message_sizes::{MessageSizes, packed};

/// Number of the largest items that are reported.
const N_LARGEST: usize = 10;
/// Results with fewer tokens are not reported when they repeat.
const LEAST_DUPLICATE: Tokens = Tokens::new(16);

/// A report on the contents of a session's window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InspectReport {
    /// Messages.
    pub messages: usize,
    /// Turns: user messages that the user wrote.
    pub turns: usize,
    /// User messages that a harness or a hook wrote.
    pub notes: usize,
    /// Groups: smallest runs of messages that may only leave together.
    pub groups: GroupCounts,
    /// Tokens of the request, tool schemas included.
    pub tokens: Tokens,
    /// Tokens of the tool schemas.
    pub tools_tokens: Tokens,
    /// The share of each role.
    pub by_role: Vec<RoleShare>,
    /// The share of each tool, largest first.
    pub by_tool: Vec<ToolShare>,
    /// The largest messages, the largest first.
    pub largest: Vec<LargeItem>,
    /// The duplicates, most wasteful first.
    pub duplicates: Vec<Duplicate>,
    /// The breaches of OpenAI's rules, in words that also name the other rules that are broken.
    pub breaches: Vec<String>,
    /// The breaches of the rules of other protocols only. They matter if the session continues with such a
    /// model.
    pub breaches_elsewhere: Vec<String>,
}

/// The numbers of groups by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GroupCounts {
    /// All of them.
    pub all: usize,
    /// Assistant messages with calls and their results.
    pub exchanges: usize,
    /// Assistant messages without calls.
    pub assistant: usize,
    /// User messages.
    pub user: usize,
    /// System messages.
    pub system: usize,
    /// Results without calls.
    pub orphans: usize,
}

/// The share of a role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RoleShare {
    /// The role.
    pub role: Role,
    /// Its messages.
    pub messages: usize,
    /// Their tokens.
    pub tokens: Tokens,
}

/// The share of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ToolShare {
    /// The tool; `?` if no call names it.
    pub tool: String,
    /// Calls of it.
    pub calls: usize,
    /// Tokens of its arguments.
    pub argument_tokens: Tokens,
    /// Results of it.
    pub results: usize,
    /// Tokens of its results.
    pub result_tokens: Tokens,
}

/// A large message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LargeItem {
    /// Its label, such as `m12`.
    pub id: String,
    /// The role of its author.
    pub role: Role,
    /// The tool it comes from, or that it calls.
    pub tool: Option<String>,
    /// Its tokens.
    pub tokens: Tokens,
    /// The first line that is not blank.
    pub first_line: String,
}

/// A duplicate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Duplicate {
    /// The kind of duplicate.
    pub kind: DuplicateKind,
    /// The tool.
    pub tool: String,
    /// The arguments of the call, or the first line of the result.
    pub what: String,
    /// The messages of all occurrences. A message that is in no log has no label.
    #[serde(serialize_with = "labels")]
    pub ids: Vec<Option<MessageId>>,
    /// Tokens of all results but the last.
    pub tokens: Tokens,
}

/// A kind of duplicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DuplicateKind {
    /// Results with the same text.
    SameResult,
    /// A call with the same arguments: the same file read or the same command run again.
    SameCall,
}

/// An inspector of messages, one by one. It adds up what the report needs and keeps of each message some tens
/// of bytes: its size, and a digest of its result and of its call. So a session may be larger than the
/// memory.
pub struct Inspector<'c> {
    counter: &'c dyn TokenCounter,
    next: MessageId,
    looked: Looked,
}

impl<'c> Inspector<'c> {
    /// Creates an inspector that has seen nothing.
    pub fn new(counter: &'c dyn TokenCounter) -> Self {
        Self { counter, next: MessageId::FIRST, looked: Looked::default() }
    }

    /// Inspects the next message.
    pub fn push(&mut self, message: &Message) {
        let id = self.next;
        self.looked.look(Some(id), message, message_tokens(message, self.counter), self.counter);
        // The labels in an earlier record are of another log.
        let highest = highest_label([message]).map(MessageId::next);
        self.next = id.next().max(highest.unwrap_or(id));
    }

    /// Returns the report, and the size of each message. `tools_tokens` are those of the tool schemas beside
    /// the messages.
    pub fn finish(self, tools_tokens: Tokens) -> (InspectReport, MessageSizes) {
        self.looked.report(tools_tokens)
    }
}

/// Inspects `messages` as they are in the file. `tools_tokens` are those of the tool schemas beside them.
pub fn inspect(
    messages: impl IntoIterator<Item = Message>,
    tools_tokens: Tokens,
    counter: &dyn TokenCounter,
) -> InspectReport {
    let mut inspector = Inspector::new(counter);
    messages.into_iter().for_each(|message| inspector.push(&message));
    inspector.finish(tools_tokens).0
}

/// Returns the counted tokens of the prompt of each reply.
pub fn prompts(sizes: &MessageSizes, tools_tokens: Tokens) -> impl Iterator<Item = Tokens> {
    let mut before = REQUEST_TOKENS + tools_tokens;
    sizes.iter().filter_map(move |size| {
        let prompt = before;
        before += size.tokens;
        (size.role == Role::Assistant && !size.is_compacted).then_some(prompt)
    })
}

/// Inspects a view as it is: messages keep the labels of their log.
pub fn inspect_view(view: &Context, tools_tokens: Tokens, counter: &dyn TokenCounter) -> InspectReport {
    inspect_sizes(view, tools_tokens, counter).0
}

/// Inspects a view as [`inspect_view`] does, and returns the size of each message as well.
pub fn inspect_sizes(
    view: &Context,
    tools_tokens: Tokens,
    counter: &dyn TokenCounter,
) -> (InspectReport, MessageSizes) {
    let mut looked = Looked::default();
    for message in view.messages() {
        looked.look(message.id(), message.message(), message.tokens(), counter);
    }
    looked.report(tools_tokens)
}

/// The findings about the messages so far.
#[derive(Default)]
struct Looked {
    sizes: MessageSizes,
    turns: usize,
    notes: usize,
    tokens: Tokens,
    by_role: BTreeMap<Role, RoleShare>,
    by_tool: BTreeMap<String, ToolShare>,
    groups: GroupTally,
    breaches: BreachScan,
    /// The largest, the largest first.
    largest: Vec<LargeItem>,
    repeats: Repeats,
}

/// The results and calls so far, and those that are there more than once.
#[derive(Default)]
struct Repeats {
    /// The place and the tokens of each thing that occurred once. Nearly everything does, so there may be a
    /// million.
    once: HashMap<Digest, (u32, u32)>,
    /// Things that occurred more often.
    same: HashMap<Digest, Same>,
    /// Calls that have no result yet, by id: the tool, and the digest and the beginning of the arguments.
    open: HashMap<String, Vec<(String, Digest, String)>>,
}

/// A digest that distinguishes a million texts in a few bytes.
type Digest = u64;

/// The occurrences of a duplicate.
struct Same {
    kind: DuplicateKind,
    tool: String,
    what: String,
    /// The places of the messages.
    places: Vec<u32>,
    /// The tokens of all but the last, and of the last.
    tokens: (Tokens, Tokens),
}

impl Same {
    /// Adds an occurrence.
    fn add(&mut self, place: u32, tokens: Tokens) {
        self.tokens = (self.tokens.0 + self.tokens.1, tokens);
        self.places.push(place);
    }
}

impl Looked {
    fn look(&mut self, id: Option<MessageId>, message: &Message, tokens: Tokens, counter: &dyn TokenCounter) {
        let place = self.sizes.push(id, message, tool_of(message), tokens);
        self.turns += usize::from(message.starts_turn());
        self.notes += usize::from(message.note_by().is_some());
        self.tokens += tokens;
        let role = message.role();
        let none = RoleShare { role, messages: 0, tokens: Tokens::ZERO };
        let share = self.by_role.entry(role).or_insert(none);
        share.messages += 1;
        share.tokens += tokens;
        self.groups.push(message);
        self.breaches.push(outline(message));
        for call in message.calls() {
            let share = self.by_tool.entry(call.name.to_string()).or_default();
            share.calls += 1;
            share.argument_tokens += counter.count(&call.arguments);
            self.repeats.add_call(call);
        }
        if let Body::Tool(result) = &message.body {
            let tool = result_tool(message).unwrap_or_default().to_owned();
            let share = self.by_tool.entry(tool.clone()).or_default();
            share.results += 1;
            share.result_tokens += tokens;
            self.repeats.add_result(place, tool, result, tokens);
        }
        if self.largest.len() < N_LARGEST || self.largest.last().is_some_and(|last| last.tokens < tokens) {
            let at = self.largest.partition_point(|item| item.tokens >= tokens);
            let tool = tool_of(message).map(str::to_owned);
            let first_line = first_line(message);
            self.largest.insert(at, LargeItem { id: label(id), role, tool, tokens, first_line });
            self.largest.truncate(N_LARGEST);
        }
    }

    /// Returns the report on the messages, and their sizes.
    fn report(self, tools_tokens: Tokens) -> (InspectReport, MessageSizes) {
        let found = self.breaches.finish();
        let openai: HashSet<(usize, &Rule)> = found
            .iter()
            .filter(|breach| breach.protocol == RuleSet::OpenAi)
            .map(|breach| (breach.position, &breach.rule))
            .collect();
        let (openai, elsewhere): (Vec<_>, Vec<_>) =
            found.iter().cloned().partition(|one| openai.contains(&(one.position, &one.rule)));
        let mut by_tool: Vec<ToolShare> =
            self.by_tool.into_iter().map(|(tool, share)| ToolShare { tool, ..share }).collect();
        by_tool.sort_by_key(|share| std::cmp::Reverse(share.argument_tokens + share.result_tokens));
        let report = InspectReport {
            messages: self.sizes.len(),
            turns: self.turns,
            notes: self.notes,
            groups: GroupCounts::of(self.groups),
            tokens: self.tokens + REQUEST_TOKENS + tools_tokens,
            tools_tokens,
            by_role: self.by_role.into_values().collect(),
            by_tool,
            largest: self.largest,
            duplicates: self.repeats.finish(&self.sizes),
            breaches: breaches_in_words(&openai),
            breaches_elsewhere: breaches_in_words(&elsewhere),
        };
        (report, self.sizes)
    }
}

impl GroupCounts {
    fn of(tally: GroupTally) -> Self {
        let counts = tally.finish();
        let count = |kind| counts.get(&kind).copied().unwrap_or_default();
        Self {
            all: counts.values().sum(),
            exchanges: count(GroupKind::Exchange),
            assistant: count(GroupKind::Assistant),
            user: count(GroupKind::User),
            system: count(GroupKind::System),
            orphans: count(GroupKind::Orphan),
        }
    }
}

impl Repeats {
    fn add_call(&mut self, call: &ToolCall) {
        let called = (call.name.to_string(), digest(&call.arguments), head(&call.arguments));
        self.open.entry(call.id.clone()).or_default().push(called);
    }

    fn add_result(&mut self, place: u32, tool: String, result: &ToolResult, tokens: Tokens) {
        let called = self.open.get_mut(result.call_id.as_str()).and_then(Vec::pop);
        if self.open.get(result.call_id.as_str()).is_some_and(Vec::is_empty) {
            self.open.remove(result.call_id.as_str());
        }
        if let Some((tool, arguments, what)) = called {
            self.note(DuplicateKind::SameCall, arguments, place, tokens, tool, || what);
        }
        if tokens >= LEAST_DUPLICATE {
            let text = result.content.to_text();
            let text_digest = digest(&*text);
            self.note(DuplicateKind::SameResult, text_digest, place, tokens, tool, || head(&text));
        }
    }

    /// Notes an occurrence of the text of that digest, in a call of `tool` or in a result of it. `what`
    /// describes it.
    fn note(
        &mut self,
        kind: DuplicateKind,
        text: Digest,
        place: u32,
        tokens: Tokens,
        tool: String,
        what: impl FnOnce() -> String,
    ) {
        let key = digest(&(kind, &tool, text));
        if let Some(same) = self.same.get_mut(&key) {
            same.add(place, tokens);
        } else if let Some((first, first_tokens)) = self.once.remove(&key) {
            let mut same = Same { kind, tool, what: what(), places: Vec::new(), tokens: Default::default() };
            same.add(first, Tokens::new(first_tokens.into()));
            same.add(place, tokens);
            self.same.insert(key, same);
        } else {
            self.once.insert(key, (place, packed(tokens)));
        }
    }

    /// Returns the duplicates, most wasteful first; `sizes` are those of the messages.
    fn finish(self, sizes: &MessageSizes) -> Vec<Duplicate> {
        let duplicate = |same: Same| Duplicate {
            kind: same.kind,
            tool: same.tool,
            what: same.what,
            ids: same.places.into_iter().map(|place| sizes.id(place as usize)).collect(),
            tokens: same.tokens.0,
        };
        let mut found: Vec<Duplicate> = self.same.into_values().map(duplicate).collect();
        // Those that waste as much are sorted by their words: the order of digests means nothing.
        found.sort_by(|one, other| {
            let words = (one.kind, &one.tool, &one.what).cmp(&(other.kind, &other.tool, &other.what));
            let labels = || labels_of(&one.ids).cmp(&labels_of(&other.ids));
            other.tokens.cmp(&one.tokens).then(words).then_with(labels)
        });
        found
    }
}

/// Returns the label of a message; an empty one if it is in no log.
fn label(id: Option<MessageId>) -> String {
    id.map(|id| id.to_string()).unwrap_or_default()
}

fn labels_of(ids: &[Option<MessageId>]) -> Vec<String> {
    ids.iter().copied().map(label).collect()
}

fn labels<S: Serializer>(ids: &[Option<MessageId>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(ids.iter().copied().map(label))
}

fn digest(value: &(impl Hash + ?Sized)) -> Digest {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}

/// Returns the tool that a result comes from; `None` for other messages.
fn result_tool(message: &Message) -> Option<&str> {
    let Body::Tool(result) = &message.body else { return None };
    Some(result.name.as_ref().map_or("?", ToolName::as_str))
}

/// Returns the tool that a message comes from, or that it calls first.
fn tool_of(message: &Message) -> Option<&str> {
    result_tool(message).or_else(|| message.calls().first().map(|call| call.name.as_str()))
}

fn first_line(message: &Message) -> String {
    let text = message.content().map(Content::to_text).unwrap_or_default();
    let text = if text.trim().is_empty() {
        message.calls().first().map(|call| call.arguments.clone()).unwrap_or_default()
    } else {
        text
    };
    head(&text)
}

/// Returns the beginning of the first line of `text` that is not blank. It is not made safe for a terminal.
fn head(text: &str) -> String {
    const SHOWN: usize = 100;
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let line = line.trim();
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use forge_domain::{ToolCall, ToolName, ToolResult};
    use pretty_assertions::assert_eq;

    use super::*;

    struct Words;
    impl TokenCounter for Words {
        fn count(&self, text: &str) -> Tokens {
            Tokens::new(text.split_whitespace().count() as u64)
        }
    }

    fn exchange(id: &str, tool: &str, arguments: &str, result: &str) -> [Message; 2] {
        let call =
            ToolCall { id: id.into(), name: ToolName::new(tool).unwrap(), arguments: arguments.into() };
        [Message::calling(vec![call.clone()]), Message::tool(ToolResult::answer(&call, result))]
    }

    #[test]
    fn what_fills_the_window_is_told() {
        let long = "word ".repeat(40);
        let note = Message::note("harness", "it rains");
        let mut messages = vec![Message::system("rules"), note, Message::user("go on please")];
        messages.extend(exchange("a", "read", "{\"path\": \"x\"}", &long));
        messages.extend(exchange("b", "read", "{\"path\": \"x\"}", &long));
        messages.extend(exchange("c", "list", "{}", "\n  one\u{1b} two\nthree"));
        messages.push(Message::assistant("done"));
        let mut inspector = Inspector::new(&Words);
        messages.iter().for_each(|message| inspector.push(message));
        let (report, sizes) = inspector.finish(Tokens::new(7));
        let prompts: Vec<Tokens> = prompts(&sizes, Tokens::new(7)).collect();
        let sizes: Vec<_> = sizes.iter().collect();

        assert_eq!((report.messages, report.turns, report.notes), (10, 1, 1));
        let groups = GroupCounts { all: 7, exchanges: 3, assistant: 1, user: 2, system: 1, orphans: 0 };
        assert_eq!(report.groups, groups);
        let roles: Tokens = report.by_role.iter().map(|share| share.tokens).sum();
        assert_eq!(report.tokens, roles + REQUEST_TOKENS + Tokens::new(7));
        let tools: Vec<_> = report
            .by_tool
            .iter()
            .map(|tool| (tool.tool.as_str(), tool.calls, tool.result_tokens.as_u64()))
            .collect();
        assert_eq!(tools, [("read", 2, 88), ("list", 1, 7)]);
        assert_eq!((report.largest[0].id.as_str(), report.largest[0].tool.as_deref()), ("m4", Some("read")));
        let kinds: Vec<_> = report
            .duplicates
            .iter()
            .map(|d| (d.kind, labels_of(&d.ids).join(" "), d.tokens.as_u64()))
            .collect();
        let expected =
            [DuplicateKind::SameResult, DuplicateKind::SameCall].map(|kind| (kind, "m4 m6".to_owned(), 44));
        assert_eq!(kinds, expected);
        assert_eq!(report.breaches, Vec::<String>::new());
        let before = |n: usize| -> Tokens { sizes[..n].iter().map(|size| size.tokens).sum() };
        assert_eq!(prompts, [3, 5, 7, 9].map(|n| before(n) + REQUEST_TOKENS + Tokens::new(7)));
        assert_eq!((sizes[4].tool, sizes[1].is_note), (Some("read"), true));
    }

    #[test]
    fn a_broken_session_is_told_to_be_one() {
        let [call, result] = exchange("a", "read", "{}", "out");
        let report = inspect([Message::user("hi"), result, call], Tokens::ZERO, &Words);
        assert_eq!(report.breaches.len(), 2);
        assert_eq!(report.groups.orphans, 1);
    }

    #[test]
    fn a_first_line_is_short() {
        for (text, expected) in
            [("", String::new()), ("\n \n a b \nc", "a b".into()), (&"é".repeat(101), "é".repeat(100) + "…")]
        {
            assert_eq!(head(text), expected);
        }
    }
}
