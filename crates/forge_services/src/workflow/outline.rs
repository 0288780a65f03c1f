//! The positions of every key and value of a YAML text.

use std::cmp::Reverse;

use serde_saphyr::granit_parser::{Event, Marker, Parser, Span};

use super::Position;
use super::key_path::{KeyPath, Step};

/// The positions in a text, as far as it can be read: what follows a syntax error is missing.
#[derive(Debug, Default)]
pub(super) struct Outline {
    root: Option<Node>,
}

/// A value.
#[derive(Debug)]
pub(super) struct Node {
    start: Position,
    content: NodeContent,
}

#[derive(Debug)]
enum NodeContent {
    /// A scalar; or an alias, whose text is not repeated here.
    Scalar(String),
    List(Vec<Node>),
    Mapping(Vec<Entry>),
}

/// A key and its value.
#[derive(Debug)]
pub(super) struct Entry {
    /// The key's text; empty if the key is not a scalar.
    pub(super) key: String,
    /// The position of the key.
    pub(super) position: Position,
    /// Its value; missing if the text breaks off.
    pub(super) value: Option<Node>,
}

/// A key that is in its mapping already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repeated {
    /// The key's path.
    pub(super) path: KeyPath,
    /// The first position.
    pub(super) first: Position,
    /// The second position.
    pub(super) second: Position,
}

/// The extent of a path, and where it leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyPlace {
    /// Bytes of the path that were followed.
    pub(super) reached: usize,
    /// The position of that.
    pub(super) position: Position,
}

impl Outline {
    /// Reads `text` as far as it is YAML, and no deeper than any workflow is.
    pub(super) fn of(text: &str) -> Self {
        let mut open: Vec<Node> = Vec::new();
        for (event, span) in Parser::new_from_str(text).map_while(Result::ok) {
            match event {
                Event::Scalar(scalar, ..) => place(&mut open, Node::new(span, scalar.into_owned())),
                Event::Alias(_) => place(&mut open, Node::new(span, String::new())),
                Event::SequenceStart(..) => open.push(Node::list(span)),
                Event::MappingStart(..) => open.push(Node::mapping(span)),
                Event::SequenceEnd | Event::MappingEnd if open.len() > 1 => close(&mut open),
                Event::DocumentEnd => break,
                _ => {}
            }
            if open.len() > MAX_DEPTH {
                break;
            }
        }
        while open.len() > 1 {
            close(&mut open);
        }
        Self { root: open.pop() }
    }

    /// Follows `path`, given as text, as far as it leads.
    pub(super) fn nearest(&self, path: &str) -> Option<KeyPlace> {
        let mut node = self.root.as_ref()?;
        let mut place = None;
        let mut rest = path;
        while let Some((step, stand, next)) = node.step(rest) {
            rest = &rest[step..];
            place = Some(KeyPlace { reached: path.len() - rest.len(), position: stand });
            let Some(next) = next else { break };
            node = next;
        }
        place
    }

    /// Returns the value at `path`, if all of it is there.
    pub(super) fn find(&self, path: &KeyPath) -> Option<&Node> {
        path.0.iter().try_fold(self.root.as_ref()?, |node, step| match step {
            Step::Key(key) => node.entry(key)?.value.as_ref(),
            Step::Item(item) => node.items().get(*item),
        })
    }

    /// Returns the position of the key that `path` ends in, if all of it is there.
    pub(super) fn key_at(&self, path: &KeyPath) -> Option<Position> {
        let (Step::Key(key), parent) = path.0.split_last()? else { return None };
        Some(self.find(&KeyPath(parent.to_vec()))?.entry(key)?.position)
    }

    /// Returns every scalar with its path, in the order of the text.
    pub(super) fn scalars(&self) -> Vec<(KeyPath, &Node)> {
        let mut found = Vec::new();
        self.visit(&mut |path, node| {
            if node.text().is_some() {
                found.push((path.clone(), node));
            }
        });
        found
    }

    /// Returns every key that its mapping has already, in the order of the text.
    pub(super) fn repeated(&self) -> Vec<Repeated> {
        let mut found = Vec::new();
        self.visit(&mut |path, node| {
            for (at, entry) in node.entries().iter().enumerate().filter(|(_, entry)| !entry.key.is_empty()) {
                if let Some(first) = node.entries()[..at].iter().find(|known| known.key == entry.key) {
                    let steps = path.0.iter().cloned().chain([Step::Key(entry.key.clone())]);
                    let path = KeyPath(steps.collect());
                    found.push(Repeated { path, first: first.position, second: entry.position });
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
            let below = |step: Step| KeyPath(path.0.iter().cloned().chain([step]).collect());
            let items = node.items().iter().enumerate().map(|(item, node)| (below(Step::Item(item)), node));
            let entries = node.entries().iter();
            let values = entries
                .filter_map(|entry| Some((below(Step::Key(entry.key.clone())), entry.value.as_ref()?)));
            let mut inner: Vec<_> = items.chain(values).collect();
            inner.reverse();
            open.extend(inner);
        }
    }

    /// Names agents of the list form in the path by their ids.
    pub(super) fn named(&self, path: KeyPath) -> KeyPath {
        let [Step::Key(agents), Step::Item(_), rest @ ..] = path.0.as_slice() else { return path };
        let id = self
            .find(&KeyPath(path.0[..2].to_vec()))
            .and_then(|agent| agent.entry("id")?.value.as_ref()?.text())
            .filter(|id| !id.is_empty());
        let Some(id) = id else { return path };
        let named = [Step::Key(agents.clone()), Step::Key(id.to_owned())];
        KeyPath(named.into_iter().chain(rest.iter().cloned()).collect())
    }
}

impl Node {
    fn new(span: Span, text: String) -> Self {
        Self { start: position(span.start), content: NodeContent::Scalar(text) }
    }

    fn list(span: Span) -> Self {
        Self { start: position(span.start), content: NodeContent::List(Vec::new()) }
    }

    fn mapping(span: Span) -> Self {
        Self { start: position(span.start), content: NodeContent::Mapping(Vec::new()) }
    }

    /// Returns the start of the value.
    pub(super) const fn start(&self) -> Position {
        self.start
    }

    /// Returns the text of a scalar.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.content {
            NodeContent::Scalar(text) => Some(text),
            NodeContent::List(_) | NodeContent::Mapping(_) => None,
        }
    }

    /// Returns the items of a list; none of anything else.
    pub(super) fn items(&self) -> &[Self] {
        match &self.content {
            NodeContent::List(items) => items,
            NodeContent::Scalar(_) | NodeContent::Mapping(_) => &[],
        }
    }

    /// Returns the entries of a mapping; none of anything else.
    pub(super) fn entries(&self) -> &[Entry] {
        match &self.content {
            NodeContent::Mapping(entries) => entries,
            NodeContent::Scalar(_) | NodeContent::List(_) => &[],
        }
    }

    /// Returns the first entry of that key; an empty key means no scalar and is not found.
    pub(super) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key && !key.is_empty())
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
            self.entries().iter().map(|entry| (entry.key.as_str(), entry.stand(), entry.value.as_ref()));
        let by_id = self
            .items()
            .iter()
            .filter_map(|item| Some((item.entry("id")?.value.as_ref()?.text()?, item.start, Some(item))));
        entries
            .chain(by_id)
            .filter(|(key, ..)| leads(path, key))
            .min_by_key(|(key, ..)| Reverse(key.len()))
            .map(|(key, stand, next)| (dot + key.len(), stand, next))
    }
}

impl Entry {
    /// Returns the value's start if it is in the key's line, else the key's.
    pub(super) fn stand(&self) -> Position {
        match &self.value {
            Some(value) if value.start.line == self.position.line => value.start,
            Some(_) | None => self.position,
        }
    }
}

/// Far deeper than any workflow, and no danger to the stack.
const MAX_DEPTH: usize = 100;

fn leads(path: &str, key: &str) -> bool {
    !key.is_empty()
        && path.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn position(marker: Marker) -> Position {
    Position { line: marker.line(), column: marker.col() + 1 }
}

/// Takes `node` into the innermost open collection, as a key or a value, or as the top.
fn place(open: &mut Vec<Node>, node: Node) {
    match open.last_mut().map(|parent| &mut parent.content) {
        Some(NodeContent::List(items)) => items.push(node),
        Some(NodeContent::Mapping(entries)) => match entries.last_mut() {
            Some(entry) if entry.value.is_none() => entry.value = Some(node),
            _ => {
                let key = node.text().unwrap_or_default().to_owned();
                entries.push(Entry { key, position: node.start, value: None });
            }
        },
        Some(NodeContent::Scalar(_)) | None => open.push(node),
    }
}

fn close(open: &mut Vec<Node>) {
    if let Some(node) = open.pop() {
        place(open, node);
    }
}
