//! The contents of a recorded session's window.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use forge_domain::{
    Body, Content, Context, ContextMessage, Conversation, GroupKind, Groups, Message, MessageId, NOTE_BY,
    Part, REQUEST_TOKENS, Role, Rule, RuleSet, TokenCounter, Tokens, ToolCall, ToolResult, breaches,
    breaches_in_words, message_tokens,
};
use serde::Serialize;
use serde_json::{Value, json};

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

/// The size of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageSize {
    /// Its label, if it has one.
    pub id: Option<MessageId>,
    /// The role of its author.
    pub role: Role,
    /// The tool that it comes from, or that it calls first.
    pub tool: Option<Arc<str>>,
    /// Its tokens.
    pub tokens: Tokens,
    /// True if a harness wrote it under the user's role.
    pub is_note: bool,
    /// True if a compaction made it.
    pub is_compacted: bool,
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
    /// The labels of all occurrences.
    pub ids: Vec<String>,
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

/// An inspector of messages, one by one. Of each it stores only what the report needs, so that a session may
/// be larger than the memory.
pub struct Inspector<'c> {
    counter: &'c dyn TokenCounter,
    /// The messages with hardly any text: their order, calls and results.
    outline: Conversation,
    next: MessageId,
    looked: Looked,
}

impl<'c> Inspector<'c> {
    /// Creates an inspector that has seen nothing.
    pub fn new(counter: &'c dyn TokenCounter) -> Self {
        Self { counter, outline: Conversation::new(), next: MessageId::FIRST, looked: Looked::default() }
    }

    /// Inspects the next message.
    pub fn push(&mut self, message: &Message) {
        let (id, tokens) = (self.next, message_tokens(message, self.counter));
        self.looked.look(Some(id), message, tokens, self.counter);
        self.outline.append(ContextMessage::restored(id, tokens, outline(message)));
        self.next = id.next();
    }

    /// Returns the size of each message so far.
    pub fn sizes(&self) -> Vec<MessageSize> {
        message_sizes(&self.outline.view())
    }

    /// Returns the report. `tools_tokens` are those of the tool schemas beside the messages.
    pub fn finish(self, tools_tokens: Tokens) -> InspectReport {
        self.looked.report(&self.outline.view(), tools_tokens)
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
    inspector.finish(tools_tokens)
}

/// Returns the size of each message of a view, in order.
pub fn message_sizes(view: &Context) -> Vec<MessageSize> {
    let mut names: HashSet<Arc<str>> = HashSet::new();
    let size = |message: &ContextMessage| {
        let said = message.message();
        let tool = tool_of(said).map(|name| match names.get(name.as_str()) {
            Some(known) => Arc::clone(known),
            None => {
                let name: Arc<str> = name.into();
                names.insert(Arc::clone(&name));
                name
            }
        });
        MessageSize {
            id: message.id(),
            role: said.role(),
            tool,
            tokens: message.tokens(),
            is_note: said.note_by().is_some(),
            is_compacted: said.is_compacted,
        }
    };
    view.messages().iter().map(size).collect()
}

/// Returns the counted tokens of the prompt of each reply.
pub fn prompts(sizes: &[MessageSize], tools_tokens: Tokens) -> Vec<Tokens> {
    let mut before = REQUEST_TOKENS + tools_tokens;
    let mut prompts = Vec::new();
    for size in sizes {
        if size.role == Role::Assistant && !size.is_compacted {
            prompts.push(before);
        }
        before += size.tokens;
    }
    prompts
}

/// Inspects a view as it is: messages keep the labels of their log.
pub fn inspect_view(view: &Context, tools_tokens: Tokens, counter: &dyn TokenCounter) -> InspectReport {
    let mut looked = Looked::default();
    for message in view.messages() {
        looked.look(message.id(), message.message(), message.tokens(), counter);
    }
    looked.report(view, tools_tokens)
}

/// The findings about the messages so far.
#[derive(Default)]
struct Looked {
    by_tool: BTreeMap<String, ToolShare>,
    /// The largest, the largest first.
    largest: Vec<LargeItem>,
    /// The label and the tokens of each thing that occurred once.
    once: HashMap<(DuplicateKind, Digest), (Option<MessageId>, Tokens)>,
    /// Things that occurred more often.
    same: HashMap<(DuplicateKind, Digest), Same>,
    /// Calls that have no result yet, by id: the tool, and the digest and the beginning of the arguments.
    open: HashMap<String, Vec<(String, Digest, String)>>,
}

/// A digest that distinguishes two texts in a few bytes.
type Digest = (u64, u64);

/// The occurrences of a duplicate.
#[derive(Default)]
struct Same {
    tool: String,
    what: String,
    ids: Vec<String>,
    /// The tokens of all but the last, and of the last.
    tokens: (Tokens, Tokens),
}

impl Same {
    /// Adds an occurrence.
    fn add(&mut self, id: Option<MessageId>, tokens: Tokens) {
        self.tokens = (self.tokens.0 + self.tokens.1, tokens);
        self.ids.push(id.map(|id| id.to_string()).unwrap_or_default());
    }
}

impl Looked {
    fn look(&mut self, id: Option<MessageId>, message: &Message, tokens: Tokens, counter: &dyn TokenCounter) {
        for call in message.calls() {
            let share = self.by_tool.entry(call.name.to_string()).or_default();
            share.calls += 1;
            share.argument_tokens += counter.count(&call.arguments);
            let called = (call.name.to_string(), digest(&call.arguments), head(&call.arguments));
            self.open.entry(call.id.clone()).or_default().push(called);
        }
        if let Body::Tool(result) = &message.body {
            self.look_at_result(id, message, result, tokens);
        }
        if self.largest.len() < N_LARGEST || self.largest.last().is_some_and(|last| last.tokens < tokens) {
            let at = self.largest.partition_point(|item| item.tokens >= tokens);
            let tool = tool_of(message);
            let first_line = first_line(message);
            let id = id.map(|id| id.to_string()).unwrap_or_default();
            self.largest.insert(at, LargeItem { id, role: message.role(), tool, tokens, first_line });
            self.largest.truncate(N_LARGEST);
        }
    }

    fn look_at_result(
        &mut self,
        id: Option<MessageId>,
        message: &Message,
        result: &ToolResult,
        tokens: Tokens,
    ) {
        let tool = result_tool(message).unwrap_or_default();
        let share = self.by_tool.entry(tool.clone()).or_default();
        share.results += 1;
        share.result_tokens += tokens;
        let called = self.open.get_mut(result.call_id.as_str()).and_then(Vec::pop);
        if self.open.get(result.call_id.as_str()).is_some_and(Vec::is_empty) {
            self.open.remove(result.call_id.as_str());
        }
        if let Some((tool, arguments, what)) = called {
            let key = (DuplicateKind::SameCall, digest(&(&tool, arguments)));
            self.note(key, id, tokens, || (tool, what));
        }
        if tokens >= LEAST_DUPLICATE {
            let text = result.content.to_text();
            let key = (DuplicateKind::SameResult, digest(&(&tool, &text)));
            self.note(key, id, tokens, || (tool, head(&text)));
        }
    }

    /// Notes an occurrence of `key`, of which `words` are the tool and a description. Most things occur once,
    /// and of these there may be a million.
    fn note(
        &mut self,
        key: (DuplicateKind, Digest),
        id: Option<MessageId>,
        tokens: Tokens,
        words: impl FnOnce() -> (String, String),
    ) {
        if let Some(same) = self.same.get_mut(&key) {
            same.add(id, tokens);
        } else if let Some((first, first_tokens)) = self.once.remove(&key) {
            let (tool, what) = words();
            let mut same = Same { tool, what, ..Same::default() };
            same.add(first, first_tokens);
            same.add(id, tokens);
            self.same.insert(key, same);
        } else {
            self.once.insert(key, (id, tokens));
        }
    }

    /// Returns the report on the messages, which `view` holds or outlines.
    fn report(self, view: &Context, tools_tokens: Tokens) -> InspectReport {
        let messages = view.messages();
        let found = breaches(messages);
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
        InspectReport {
            messages: view.size().messages,
            turns: view.size().turns,
            notes: messages.iter().filter(|message| message.message().note_by().is_some()).count(),
            groups: groups(messages),
            tokens: view.size().tokens.max(REQUEST_TOKENS) + tools_tokens,
            tools_tokens,
            by_role: by_role(messages),
            by_tool,
            largest: self.largest,
            duplicates: duplicates(self.same),
            breaches: breaches_in_words(&openai),
            breaches_elsewhere: breaches_in_words(&elsewhere),
        }
    }
}

fn duplicates(same: HashMap<(DuplicateKind, Digest), Same>) -> Vec<Duplicate> {
    let mut found: Vec<(DuplicateKind, Same)> =
        same.into_iter().map(|((kind, _), same)| (kind, same)).collect();
    // What is as wasteful stands in the order of its words, since a digest has none.
    found.sort_by(|(kind, same), (other_kind, other)| {
        let words = (kind, &same.tool, &same.what).cmp(&(other_kind, &other.tool, &other.what));
        other.tokens.0.cmp(&same.tokens.0).then(words).then_with(|| same.ids.cmp(&other.ids))
    });
    found
        .into_iter()
        .map(|(kind, same)| Duplicate {
            kind,
            tool: same.tool,
            what: same.what,
            ids: same.ids,
            tokens: same.tokens.0,
        })
        .collect()
}

fn digest(value: &(impl Hash + ?Sized)) -> Digest {
    (salted_hash(0, value), salted_hash(1, value))
}

fn salted_hash(salt: u8, value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    (salt, value).hash(&mut hasher);
    hasher.finish()
}

/// Returns the message with only as much of each text as shows that it is not blank: the providers' rules
/// depend on nothing else.
fn outline(message: &Message) -> Message {
    let body = match &message.body {
        Body::System(content) => Body::System(outline_content(content)),
        Body::User(content) => Body::User(outline_content(content)),
        Body::Tool(result) => {
            Body::Tool(ToolResult { content: outline_content(&result.content), ..result.clone() })
        }
        Body::Assistant { content, calls } => Body::Assistant {
            content: content.as_ref().map(outline_content),
            calls: calls.iter().map(|call| ToolCall { arguments: "{}".to_owned(), ..call.clone() }).collect(),
        },
    };
    let extra = message.extra.iter().map(|(key, value)| (key.clone(), outline_value(value))).collect();
    Message {
        body,
        timestamp: None,
        metadata: message
            .metadata
            .iter()
            .filter(|(key, _)| *key == NOTE_BY)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        is_compacted: message.is_compacted,
        extra,
    }
}

fn outline_content(content: &Content) -> Content {
    match content {
        Content::Text(text) => Content::Text(outline_text(text)),
        Content::Parts(parts) => Content::Parts(parts.iter().map(outline_part).collect()),
    }
}

fn outline_part(part: &Part) -> Part {
    match part {
        Part::Text(text) => Part::Text(outline_text(text)),
        Part::Media(value) => Part::Media(outline_value(value)),
    }
}

fn outline_text(text: &str) -> String {
    if text.trim().is_empty() { String::new() } else { "x".to_owned() }
}

/// Returns the value with its long texts cut short.
fn outline_value(value: &Value) -> Value {
    const KEPT: usize = 32;
    match value {
        Value::String(text) if text.len() > KEPT => json!(text.chars().take(KEPT).collect::<String>()),
        Value::Array(items) => items.iter().map(outline_value).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, field)| (key.clone(), outline_value(field))).collect()
        }
        value => value.clone(),
    }
}

fn groups(messages: &[ContextMessage]) -> GroupCounts {
    let mut counts = GroupCounts::default();
    for group in &Groups::of(messages) {
        counts.all += 1;
        match group.kind() {
            GroupKind::Exchange => counts.exchanges += 1,
            GroupKind::Assistant => counts.assistant += 1,
            GroupKind::User => counts.user += 1,
            GroupKind::System => counts.system += 1,
            GroupKind::Orphan => counts.orphans += 1,
        }
    }
    counts
}

fn by_role(messages: &[ContextMessage]) -> Vec<RoleShare> {
    let mut shares = [Role::System, Role::User, Role::Assistant, Role::Tool].map(|role| RoleShare {
        role,
        messages: 0,
        tokens: Tokens::ZERO,
    });
    for message in messages {
        if let Some(share) = shares.iter_mut().find(|share| share.role == message.message().role()) {
            share.messages += 1;
            share.tokens += message.tokens();
        }
    }
    shares.into_iter().filter(|share| share.messages > 0).collect()
}

/// Returns the tool that a result comes from; `None` for other messages.
fn result_tool(message: &Message) -> Option<String> {
    let Body::Tool(result) = &message.body else { return None };
    Some(result.name.as_ref().map_or_else(|| "?".to_owned(), ToString::to_string))
}

/// Returns the tool that a message comes from, or that it calls first.
fn tool_of(message: &Message) -> Option<String> {
    result_tool(message).or_else(|| message.calls().first().map(|call| call.name.to_string()))
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
        let sizes = inspector.sizes();
        let report = inspector.finish(Tokens::new(7));

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
        let kinds: Vec<_> =
            report.duplicates.iter().map(|d| (d.kind, d.ids.join(" "), d.tokens.as_u64())).collect();
        let expected =
            [DuplicateKind::SameResult, DuplicateKind::SameCall].map(|kind| (kind, "m4 m6".to_owned(), 44));
        assert_eq!(kinds, expected);
        assert_eq!(report.breaches, Vec::<String>::new());
        let prompts = prompts(&sizes, Tokens::new(7));
        let before = |n: usize| -> Tokens { sizes[..n].iter().map(|size| size.tokens).sum() };
        assert_eq!(prompts, [3, 5, 7, 9].map(|n| before(n) + REQUEST_TOKENS + Tokens::new(7)));
        assert_eq!((sizes[4].tool.as_deref(), sizes[1].is_note), (Some("read"), true));
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
