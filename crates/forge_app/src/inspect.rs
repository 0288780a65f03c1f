//! What fills the window of a recorded session.

use std::collections::{BTreeMap, HashMap};

use forge_domain::{
    Body, Breach, Content, Context, ContextMessage, Conversation, GroupKind, Groups, Message, Protocol,
    REQUEST_TOKENS, Role, TokenCounter, Tokens, breaches, breaches_in_words,
};
use serde::Serialize;

/// How many of the largest items are told.
const N_LARGEST: usize = 10;
/// Results with fewer tokens are not worth telling when they repeat.
const LEAST_DUPLICATE: Tokens = Tokens::new(16);

/// What fills the window of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InspectReport {
    /// Messages.
    pub messages: usize,
    /// Turns: user messages that no compaction made.
    pub turns: usize,
    /// Groups: smallest runs of messages that may only leave together.
    pub groups: GroupCounts,
    /// Tokens of the request, tool schemas included.
    pub tokens: Tokens,
    /// Tokens of the tool schemas.
    pub tools_tokens: Tokens,
    /// What each role has.
    pub by_role: Vec<RoleShare>,
    /// What each tool has, the largest first.
    pub by_tool: Vec<ToolShare>,
    /// The largest messages, the largest first.
    pub largest: Vec<LargeItem>,
    /// What is there more than once, the most wasteful first.
    pub duplicates: Vec<Duplicate>,
    /// What breaks OpenAI's rules, in words that say whose other rules it breaks, too.
    pub breaches: Vec<String>,
    /// What breaks only the rules of other protocols: it matters where the session goes on with such a model.
    pub breaches_elsewhere: Vec<String>,
}

/// How many groups there are of each kind.
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

/// What a role has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RoleShare {
    /// The role.
    pub role: Role,
    /// Its messages.
    pub messages: usize,
    /// Their tokens.
    pub tokens: Tokens,
}

/// What a tool has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ToolShare {
    /// The tool; `?` where no call says which.
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
    /// Who said it.
    pub role: Role,
    /// The tool it comes from, or that it calls.
    pub tool: Option<String>,
    /// Its tokens.
    pub tokens: Tokens,
    /// The first line that says something.
    pub first_line: String,
}

/// Something that is there more than once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Duplicate {
    /// What it is.
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

/// What is there more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DuplicateKind {
    /// Results that say the same.
    SameResult,
    /// A call with the same arguments: the same file read or the same command run again.
    SameCall,
}

/// Looks at `messages` as they are in the file; `tools_tokens` are those of the tool schemas beside them.
pub fn inspect(
    messages: impl IntoIterator<Item = Message>,
    tools_tokens: Tokens,
    counter: &dyn TokenCounter,
) -> InspectReport {
    let mut conversation = Conversation::new();
    for message in messages {
        conversation.append(ContextMessage::count(message, counter));
    }
    inspect_view(&conversation.view(), tools_tokens, counter)
}

/// Looks at a view as it is: messages keep the labels that their log gave them.
pub fn inspect_view(view: &Context, tools_tokens: Tokens, counter: &dyn TokenCounter) -> InspectReport {
    let messages = view.messages();
    let found = breaches(messages);
    let is_openais = |one: &Breach| {
        let same = |other: &Breach| (other.position, &other.rule) == (one.position, &one.rule);
        found.iter().any(|other| other.protocol == Protocol::Openai && same(other))
    };
    let (openai, elsewhere): (Vec<_>, Vec<_>) = found.iter().cloned().partition(is_openais);
    InspectReport {
        messages: view.size().messages,
        turns: view.size().turns,
        groups: groups(messages),
        tokens: view.size().tokens.max(REQUEST_TOKENS) + tools_tokens,
        tools_tokens,
        by_role: by_role(messages),
        by_tool: by_tool(messages, counter),
        largest: largest(messages),
        duplicates: duplicates(messages),
        breaches: breaches_in_words(&openai),
        breaches_elsewhere: breaches_in_words(&elsewhere),
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
    let share = |role: Role| {
        let of_role = || messages.iter().filter(move |message| message.message().role() == role);
        RoleShare { role, messages: of_role().count(), tokens: of_role().map(ContextMessage::tokens).sum() }
    };
    let shares = [Role::System, Role::User, Role::Assistant, Role::Tool].map(share);
    shares.into_iter().filter(|share| share.messages > 0).collect()
}

fn by_tool(messages: &[ContextMessage], counter: &dyn TokenCounter) -> Vec<ToolShare> {
    let mut shares: BTreeMap<String, ToolShare> = BTreeMap::new();
    for message in messages {
        for call in message.message().calls() {
            let share = shares.entry(call.name.to_string()).or_default();
            share.calls += 1;
            share.argument_tokens += counter.count(&call.arguments);
        }
        if let Some(tool) = result_tool(message.message()) {
            let share = shares.entry(tool).or_default();
            share.results += 1;
            share.result_tokens += message.tokens();
        }
    }
    let mut shares: Vec<ToolShare> =
        shares.into_iter().map(|(tool, share)| ToolShare { tool, ..share }).collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.argument_tokens + share.result_tokens));
    shares
}

fn largest(messages: &[ContextMessage]) -> Vec<LargeItem> {
    let mut sorted: Vec<&ContextMessage> = messages.iter().collect();
    sorted.sort_by_key(|message| std::cmp::Reverse(message.tokens()));
    let item = |message: &&ContextMessage| LargeItem {
        id: label(message),
        role: message.message().role(),
        tool: result_tool(message.message())
            .or_else(|| message.message().calls().first().map(|call| call.name.to_string())),
        tokens: message.tokens(),
        first_line: first_line(message.message()),
    };
    sorted.iter().take(N_LARGEST).map(item).collect()
}

fn duplicates(messages: &[ContextMessage]) -> Vec<Duplicate> {
    let mut same: BTreeMap<(DuplicateKind, String, String), Vec<&ContextMessage>> = BTreeMap::new();
    let mut open: HashMap<&str, Vec<(String, &str)>> = HashMap::new();
    for message in messages {
        for call in message.message().calls() {
            open.entry(&call.id).or_default().push((call.name.to_string(), &call.arguments));
        }
        let Body::Tool(result) = &message.message().body else { continue };
        if let Some((tool, arguments)) = open.get_mut(result.call_id.as_str()).and_then(Vec::pop) {
            same.entry((DuplicateKind::SameCall, tool, arguments.to_owned())).or_default().push(message);
        }
        if message.tokens() >= LEAST_DUPLICATE {
            let tool = result_tool(message.message()).unwrap_or_default();
            let key = (DuplicateKind::SameResult, tool, Content::to_text(&result.content));
            same.entry(key).or_default().push(message);
        }
    }
    let duplicate = |((kind, tool, what), found): ((DuplicateKind, String, String), Vec<&ContextMessage>)| {
        let (_, again) = found.split_last()?;
        (!again.is_empty()).then(|| Duplicate {
            kind,
            tool,
            what: head(&what),
            ids: found.iter().map(|message| label(message)).collect(),
            tokens: again.iter().map(|message| message.tokens()).sum(),
        })
    };
    let mut duplicates: Vec<Duplicate> = same.into_iter().filter_map(duplicate).collect();
    duplicates.sort_by_key(|duplicate| std::cmp::Reverse(duplicate.tokens));
    duplicates
}

/// The tool that a result comes from; `None` for other messages.
fn result_tool(message: &Message) -> Option<String> {
    let Body::Tool(result) = &message.body else { return None };
    Some(result.name.as_ref().map_or_else(|| "?".to_owned(), ToString::to_string))
}

fn label(message: &ContextMessage) -> String {
    message.id().map(|id| id.to_string()).unwrap_or_default()
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

/// The beginning of the first line of `text` that says something; as it is, so whoever shows it has to see to it that it
/// steers no terminal.
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
        let mut messages = vec![Message::system("rules"), Message::user("go on please")];
        messages.extend(exchange("a", "read", "{\"path\": \"x\"}", &long));
        messages.extend(exchange("b", "read", "{\"path\": \"x\"}", &long));
        messages.extend(exchange("c", "list", "{}", "\n  one\u{1b} two\nthree"));
        messages.push(Message::assistant("done"));
        let report = inspect(messages, Tokens::new(7), &Words);

        assert_eq!((report.messages, report.turns), (9, 1));
        let groups = GroupCounts { all: 6, exchanges: 3, assistant: 1, user: 1, system: 1, orphans: 0 };
        assert_eq!(report.groups, groups);
        let roles: Tokens = report.by_role.iter().map(|share| share.tokens).sum();
        assert_eq!(report.tokens, roles + REQUEST_TOKENS + Tokens::new(7));
        let tools: Vec<_> = report
            .by_tool
            .iter()
            .map(|tool| (tool.tool.as_str(), tool.calls, tool.result_tokens.as_u64()))
            .collect();
        assert_eq!(tools, [("read", 2, 88), ("list", 1, 7)]);
        assert_eq!((report.largest[0].id.as_str(), report.largest[0].tool.as_deref()), ("m3", Some("read")));
        let kinds: Vec<_> =
            report.duplicates.iter().map(|d| (d.kind, d.ids.join(" "), d.tokens.as_u64())).collect();
        let expected =
            [DuplicateKind::SameResult, DuplicateKind::SameCall].map(|kind| (kind, "m3 m5".to_owned(), 44));
        assert_eq!(kinds, expected);
        assert_eq!(report.breaches, Vec::<String>::new());
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
