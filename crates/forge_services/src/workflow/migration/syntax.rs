//! A YAML text as a tree with the position of each piece, comments included.

use std::ops::Range;

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span, StructureStyle};

/// The tree of a text's first document, and every comment of the text.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) root: Option<Node>,
    /// The ranges of comments, `#` included.
    pub(super) comments: Vec<Range<usize>>,
}

/// A value, or a key.
#[derive(Debug)]
pub(super) struct Node {
    /// Its bytes, an anchor before it included.
    pub(super) range: Range<usize>,
    /// Columns before it, in characters.
    pub(super) column: usize,
    pub(super) content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    Scalar(String),
    Alias,
    List {
        items: Vec<Node>,
        is_flow: bool,
    },
    /// Keys and values in turn.
    Mapping {
        parts: Vec<Node>,
        is_flow: bool,
    },
}

impl Tree {
    /// Reads `text` as far as it is YAML.
    pub(super) fn of(text: &str) -> Self {
        let mut tree = Self::default();
        let mut open: Vec<Node> = Vec::new();
        for (event, span) in Parser::new_from_str(text).map_while(Result::ok) {
            let Some(range) = span.byte_range() else { break };
            match event {
                Event::Comment(..) => tree.comments.push(range),
                Event::Scalar(value, style, anchor, _) => {
                    let range = without_end(text, range, style);
                    place(&mut open, node(text, span, range, anchor, Content::Scalar(value.into_owned())));
                }
                Event::Alias(_) => place(&mut open, node(text, span, range, 0, Content::Alias)),
                Event::SequenceStart(style, anchor, _) => {
                    let content = Content::List { items: Vec::new(), is_flow: style == StructureStyle::Flow };
                    open.push(node(text, span, range, anchor, content));
                }
                Event::MappingStart(style, anchor, _) => {
                    let content =
                        Content::Mapping { parts: Vec::new(), is_flow: style == StructureStyle::Flow };
                    open.push(node(text, span, range, anchor, content));
                }
                Event::SequenceEnd | Event::MappingEnd => {
                    if let Some(mut done) = open.pop() {
                        done.close(range.end);
                        if open.is_empty() {
                            tree.root = Some(done);
                        } else {
                            place(&mut open, done);
                        }
                    }
                }
                _ => {}
            }
            if open.len() > MAX_DEPTH {
                break;
            }
        }
        tree
    }
}

/// Far deeper than any workflow, and no danger to the stack.
const MAX_DEPTH: usize = 100;

impl Node {
    /// Returns the key and the value of that name, in a mapping.
    pub(super) fn entry(&self, name: &str) -> Option<(&Self, &Self)> {
        self.entries().find(|(key, _)| key.text() == Some(name))
    }

    /// Keys with their values; none of anything but a mapping.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&Self, &Self)> {
        let parts = match &self.content {
            Content::Mapping { parts, .. } => parts.as_slice(),
            _ => &[],
        };
        parts.chunks_exact(2).map(|pair| (&pair[0], &pair[1]))
    }

    /// Returns the items of a list; none of anything else.
    pub(super) fn items(&self) -> &[Self] {
        match &self.content {
            Content::List { items, .. } => items,
            _ => &[],
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar(text) => Some(text),
            _ => None,
        }
    }

    /// Checks whether it is written in brackets or braces.
    pub(super) const fn is_flow(&self) -> bool {
        matches!(self.content, Content::List { is_flow: true, .. } | Content::Mapping { is_flow: true, .. })
    }

    /// Ends a collection: in brackets at the closing one, else at the end of its last item.
    fn close(&mut self, end: usize) {
        let last = match &self.content {
            Content::List { items, .. } => items.last(),
            Content::Mapping { parts, .. } => parts.last(),
            Content::Scalar(_) | Content::Alias => None,
        };
        let inner = last.map_or(self.range.end, |last| last.range.end);
        self.range.end = if self.is_flow() { end } else { inner.max(self.range.start) };
    }
}

fn node(text: &str, span: Span, range: Range<usize>, anchor: usize, content: Content) -> Node {
    // The parser's position is after the anchor.
    let before = text.get(..range.start).unwrap_or_default();
    let start = if anchor > 0 { before.rfind('&').unwrap_or(range.start) } else { range.start };
    Node { range: start..range.end.max(start), column: span.start.col(), content }
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

fn place(open: &mut [Node], node: Node) {
    match open.last_mut().map(|parent| &mut parent.content) {
        Some(Content::List { items, .. }) => items.push(node),
        Some(Content::Mapping { parts, .. }) => parts.push(node),
        _ => {}
    }
}
