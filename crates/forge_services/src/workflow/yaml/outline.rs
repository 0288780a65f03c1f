//! A YAML text as a tree, with the place of every key and value.

use std::cmp::Reverse;
use std::ops::Range;

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span, StructureStyle};

use super::Position;
use super::key_path::{KeyPath, Step};

/// The tree of a text's first document, as far as it can be read: what follows a syntax error is missing.
#[derive(Debug, Default)]
pub(in super::super) struct Outline {
    pub(in super::super) root: Option<Node>,
    /// The bytes of every comment of the text, `#` included.
    pub(in super::super) comments: Vec<Range<usize>>,
}

/// A key or a value.
#[derive(Debug)]
pub(in super::super) struct Node {
    start: Position,
    /// Its bytes, an anchor before it included.
    pub(in super::super) range: Range<usize>,
    pub(in super::super) content: NodeContent,
    /// True for a scalar in single or double quotes.
    pub(in super::super) is_quoted: bool,
    /// True for one that is a block after `|` or `>`.
    pub(in super::super) is_block: bool,
}

#[derive(Debug)]
pub(in super::super) enum NodeContent {
    Scalar(String),
    /// A reference to what is written elsewhere.
    Alias,
    List {
        items: Vec<Node>,
        is_flow: bool,
    },
    Mapping {
        entries: Vec<Entry>,
        is_flow: bool,
    },
}

/// A key and its value.
#[derive(Debug)]
pub(in super::super) struct Entry {
    pub(in super::super) key: Node,
    /// Its value; missing if the text breaks off.
    pub(in super::super) value: Option<Node>,
}

/// A key that is in its mapping already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct RepeatedKey {
    /// The key's path.
    pub(in super::super) path: KeyPath,
    /// The first position.
    pub(in super::super) first: Position,
    /// The second position.
    pub(in super::super) second: Position,
}

/// The extent of a path, and where it leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct KeyPlace {
    /// Bytes of the path that were followed.
    pub(in super::super) reached: usize,
    /// The position of that.
    pub(in super::super) position: Position,
}

impl Outline {
    /// Reads `text` as far as it is YAML, and no deeper than any workflow is.
    pub(in super::super) fn of(text: &str) -> Self {
        let mut comments = Vec::new();
        let mut open: Vec<Node> = Vec::new();
        let mut is_first_document = true;
        for (event, span) in Parser::new_from_str(text).map_while(Result::ok) {
            let Some(range) = span.byte_range() else { break };
            let is_flow = |style| style == StructureStyle::Flow;
            match event {
                Event::Comment(..) => comments.push(range),
                _ if !is_first_document => {}
                Event::Scalar(scalar, style, anchor, _) => {
                    let range = without_end(text, range, style);
                    let content = NodeContent::Scalar(scalar.into_owned());
                    let is_quoted = matches!(style, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted);
                    let node = Node::new(text, span, range, anchor, content);
                    let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                    place(&mut open, Node { is_quoted, is_block, ..node });
                }
                Event::Alias(_) => place(&mut open, Node::new(text, span, range, 0, NodeContent::Alias)),
                Event::SequenceStart(style, anchor, _) => {
                    let content = NodeContent::List { items: Vec::new(), is_flow: is_flow(style) };
                    open.push(Node::new(text, span, range, anchor, content));
                }
                Event::MappingStart(style, anchor, _) => {
                    let content = NodeContent::Mapping { entries: Vec::new(), is_flow: is_flow(style) };
                    open.push(Node::new(text, span, range, anchor, content));
                }
                Event::SequenceEnd | Event::MappingEnd => close(&mut open, range.end),
                Event::DocumentEnd => is_first_document = false,
                _ => {}
            }
            if open.len() > MAX_DEPTH {
                break;
            }
        }
        while open.len() > 1 {
            close(&mut open, text.len());
        }
        Self { root: open.pop(), comments }
    }

    /// Follows `path`, given as text, as far as it leads.
    pub(in super::super) fn nearest(&self, path: &str) -> Option<KeyPlace> {
        let mut node = self.root.as_ref()?;
        let mut place = None;
        let mut rest = path;
        while let Some((step, position, next)) = node.step(rest) {
            rest = &rest[step..];
            place = Some(KeyPlace { reached: path.len() - rest.len(), position });
            let Some(next) = next else { break };
            node = next;
        }
        place
    }

    /// Returns the value at `path`, if all of it is there.
    pub(in super::super) fn find(&self, path: &KeyPath) -> Option<&Node> {
        path.0.iter().try_fold(self.root.as_ref()?, |node, step| match step {
            Step::Key(key) => node.value(key),
            Step::Item(item) => node.items().get(*item),
        })
    }

    /// Returns the position of the key that `path` ends in, if all of it is there.
    pub(in super::super) fn key_at(&self, path: &KeyPath) -> Option<Position> {
        let (Step::Key(key), parent) = path.0.split_last()? else { return None };
        Some(self.find(&KeyPath(parent.to_vec()))?.entry(key)?.key.start)
    }

    /// Returns every scalar with its path, in the order of the text.
    pub(in super::super) fn scalars(&self) -> Vec<(KeyPath, &Node)> {
        let mut found = Vec::new();
        self.visit(&mut |path, node| {
            if node.text().is_some() {
                found.push((path.clone(), node));
            }
        });
        found
    }

    /// Returns every key that its mapping has already, in the order of the text.
    pub(in super::super) fn repeated_keys(&self) -> Vec<RepeatedKey> {
        let mut found = Vec::new();
        self.visit(&mut |path, node| {
            for (at, entry) in node.entries().iter().enumerate().filter(|(_, entry)| !entry.name().is_empty())
            {
                if let Some(first) = node.entries()[..at].iter().find(|known| known.name() == entry.name()) {
                    let path = path.below(Step::Key(entry.name().to_owned()));
                    found.push(RepeatedKey { path, first: first.key.start, second: entry.key.start });
                }
            }
        });
        found
    }

    /// Hands every value to `look`, the outer ones first.
    fn visit<'a>(&'a self, look: &mut dyn FnMut(&KeyPath, &'a Node)) {
        let mut open: Vec<(KeyPath, &'a Node)> =
            self.root.iter().map(|root| (KeyPath::default(), root)).collect();
        while let Some((path, node)) = open.pop() {
            look(&path, node);
            let items = node.items().iter().enumerate();
            let items = items.map(|(item, node)| (path.below(Step::Item(item)), node));
            let values = node.entries().iter().filter_map(|entry| {
                Some((path.below(Step::Key(entry.name().to_owned())), entry.value.as_ref()?))
            });
            let mut inner: Vec<_> = items.chain(values).collect();
            inner.reverse();
            open.extend(inner);
        }
    }

    /// Names agents of the list form in the path by their ids.
    pub(in super::super) fn with_agent_ids(&self, path: KeyPath) -> KeyPath {
        let [Step::Key(agents), Step::Item(_), rest @ ..] = path.0.as_slice() else { return path };
        let id = self
            .find(&KeyPath(path.0[..2].to_vec()))
            .and_then(|agent| agent.value("id")?.text())
            .filter(|id| !id.is_empty());
        let Some(id) = id else { return path };
        let named = [Step::Key(agents.clone()), Step::Key(id.to_owned())];
        KeyPath(named.into_iter().chain(rest.iter().cloned()).collect())
    }
}

impl Node {
    fn new(text: &str, span: Span, range: Range<usize>, anchor: usize, content: NodeContent) -> Self {
        // The parser's position is after the anchor.
        let before = text.get(..range.start).unwrap_or_default();
        let begin = if anchor > 0 { before.rfind('&').unwrap_or(range.start) } else { range.start };
        let start = Position { line: span.start.line(), column: span.start.col() + 1 };
        Self { start, range: begin..range.end.max(begin), content, is_quoted: false, is_block: false }
    }

    /// Returns the start of the value.
    pub(in super::super) const fn start(&self) -> Position {
        self.start
    }

    /// Returns the text of a scalar; it is empty for an alias.
    pub(in super::super) fn text(&self) -> Option<&str> {
        match &self.content {
            NodeContent::Scalar(text) => Some(text),
            NodeContent::Alias => Some(""),
            NodeContent::List { .. } | NodeContent::Mapping { .. } => None,
        }
    }

    /// Returns the items of a list; none of anything else.
    pub(in super::super) fn items(&self) -> &[Self] {
        match &self.content {
            NodeContent::List { items, .. } => items,
            _ => &[],
        }
    }

    /// Returns the entries of a mapping; none of anything else.
    pub(in super::super) fn entries(&self) -> &[Entry] {
        match &self.content {
            NodeContent::Mapping { entries, .. } => entries,
            _ => &[],
        }
    }

    /// Returns the first entry of that key; an empty key means no scalar and is not found.
    pub(in super::super) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.name() == key && !key.is_empty())
    }

    /// Returns the value of that key.
    pub(in super::super) fn value(&self, key: &str) -> Option<&Self> {
        self.entry(key)?.value.as_ref()
    }

    /// Checks whether it is written in brackets or braces.
    pub(in super::super) const fn is_flow(&self) -> bool {
        matches!(
            self.content,
            NodeContent::List { is_flow: true, .. } | NodeContent::Mapping { is_flow: true, .. }
        )
    }

    /// Takes one step along a path: how many bytes of it, the position, and what follows. A key may contain
    /// dots itself, so the longest key that fits is used.
    fn step(&self, path: &str) -> Option<(usize, Position, Option<&Self>)> {
        if let Some((number, _)) = path.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            let item = self.items().get(number.parse::<usize>().ok()?)?;
            return Some((number.len() + 2, item.start, Some(item)));
        }
        let dot = usize::from(path.starts_with('.'));
        let path = &path[dot..];
        let entries =
            self.entries().iter().map(|entry| (entry.name(), entry.position(), entry.value.as_ref()));
        let by_id =
            self.items().iter().filter_map(|item| Some((item.value("id")?.text()?, item.start, Some(item))));
        entries
            .chain(by_id)
            .filter(|(key, ..)| leads(path, key))
            .min_by_key(|(key, ..)| Reverse(key.len()))
            .map(|(key, position, next)| (dot + key.len(), position, next))
    }
}

impl Entry {
    /// Returns the key's text; it is empty if the key is not a scalar.
    pub(in super::super) fn name(&self) -> &str {
        self.key.text().unwrap_or_default()
    }

    /// Returns the value's start if it is in the key's line, else the key's.
    fn position(&self) -> Position {
        match &self.value {
            Some(value) if value.start.line == self.key.start.line => value.start,
            Some(_) | None => self.key.start,
        }
    }
}

/// Far deeper than any workflow, and no danger to the stack.
const MAX_DEPTH: usize = 100;

/// Checks whether `path` begins with `key`, as one of its steps.
fn leads(path: &str, key: &str) -> bool {
    !key.is_empty()
        && path.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Returns the range up to the end of a scalar's last line: a block's own range reaches to what comes next.
fn without_end(text: &str, range: Range<usize>, style: ScalarStyle) -> Range<usize> {
    match style {
        ScalarStyle::Literal | ScalarStyle::Folded | ScalarStyle::Plain => {
            let written = text.get(range.clone()).unwrap_or_default();
            range.start..range.start + written.trim_end().len()
        }
        _ => range,
    }
}

/// Puts `node` into the innermost open collection, as a key or a value, or at the top.
fn place(open: &mut Vec<Node>, node: Node) {
    match open.last_mut().map(|parent| &mut parent.content) {
        Some(NodeContent::List { items, .. }) => items.push(node),
        Some(NodeContent::Mapping { entries, .. }) => match entries.last_mut() {
            Some(entry) if entry.value.is_none() => entry.value = Some(node),
            _ => entries.push(Entry { key: node, value: None }),
        },
        Some(NodeContent::Scalar(_) | NodeContent::Alias) | None => open.push(node),
    }
}

/// Ends the innermost collection: in brackets at `end`, else at the end of its last item.
fn close(open: &mut Vec<Node>, end: usize) {
    let Some(mut node) = open.pop() else { return };
    let last = match &node.content {
        NodeContent::List { items, .. } => items.last(),
        NodeContent::Mapping { entries, .. } => {
            entries.last().map(|last| last.value.as_ref().unwrap_or(&last.key))
        }
        NodeContent::Scalar(_) | NodeContent::Alias => None,
    };
    let inner = last.map_or(node.range.end, |last| last.range.end);
    node.range.end = if node.is_flow() { end } else { inner.max(node.range.start) };
    place(open, node);
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const MAP: &str = "\
models:
  gpt-4.1: { window: 9 }
agents:
  researcher:
    model: m
    tools: [read, shell]
    compact: { max_tokens: 5 }
    system_prompt: |
      hi
  writer: {}
";
    const LIST: &str = "\
agents:
  - model: m
    id: researcher
    compact:
      max_tokens: 5
      strategies:
        - sliding_window:
            keep_first: 2
        - truncation
  - { id: writer }
";

    #[test]
    fn a_path_leads_to_where_its_key_stands() {
        for (text, path, expected) in [
            (MAP, "models.gpt-4.1.window", Some((2, 22))),
            (MAP, "agents", Some((3, 1))),
            (MAP, "agents.researcher", Some((4, 3))),
            (MAP, "agents.researcher.model", Some((5, 12))),
            (MAP, "agents.researcher.tools", Some((6, 12))),
            (MAP, "agents.researcher.tools[1]", Some((6, 19))),
            (MAP, "agents.researcher.compact.max_tokens", Some((7, 28))),
            (MAP, "agents.researcher.system_prompt", Some((8, 5))),
            (MAP, "agents.writer", Some((10, 11))),
            (MAP, "agents.researcher.compact.token_threshold", Some((7, 14))),
            (MAP, "agents.writer.compact.max_tokens", Some((10, 11))),
            (MAP, "agents.nobody.model", Some((3, 1))),
            (MAP, "providers.x", None),
            (LIST, "agents.researcher", Some((2, 5))),
            (LIST, "agents.researcher.compact", Some((4, 5))),
            (LIST, "agents.researcher.compact.max_tokens", Some((5, 19))),
            (LIST, "agents.researcher.compact.strategies[0].sliding_window.keep_first", Some((8, 25))),
            (LIST, "agents.researcher.compact.strategies[1]", Some((9, 11))),
            (LIST, "agents.writer.id", Some((10, 11))),
            (LIST, "agents[1].id", Some((10, 11))),
            ("", "agents", None),
            ("- a\n", "agents", None),
            ("agents: {a: {model: b\n", "agents.a.model", Some((1, 21))),
        ] {
            let actual = Outline::of(text).nearest(path).map(|place| place.position);
            assert_eq!(actual, expected.map(|(line, column)| Position { line, column }), "{path}");
        }
    }
}
