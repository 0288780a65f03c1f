//! The `compact` block as text, and the edit that puts it in place of a transform.

use std::ops::Range;

use super::super::yaml::{Entry, Node, NodeContent, Outline};

/// The content of the new block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) token_threshold: u64,
    pub(super) max_tokens: Option<u64>,
    pub(super) model: String,
    pub(super) prompt: Option<String>,
    /// The tag of the summary, if the prompt names it.
    pub(super) summary_tag: Option<String>,
}

/// A piece of the text and its replacement.
pub(super) type Edit = (Range<usize>, String);

/// Returns the edit that removes item `nth` from the value of `transforms` and puts `block` beside the rest,
/// or in its place. `None` if the text cannot be edited so.
pub(super) fn edit(text: &str, outline: &Outline, agent: &Node, nth: usize, block: &Block) -> Option<Edit> {
    let Entry { key, value: Some(value) } = agent.entry("transforms")? else { return None };
    let n_items = match &value.content {
        // An alias's content is written elsewhere; all of it leaves, or nothing.
        NodeContent::Alias => 1,
        NodeContent::List { items, .. } => items.len(),
        NodeContent::Scalar(_) | NodeContent::Mapping { .. } => return None,
    };
    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let place = Place { text, outline, line_end, column: key.start().column - 1 };
    match (n_items, agent.is_flow()) {
        (1, true) => Some(place.flow_instead(key, value, block)),
        (1, false) => Some(place.block_instead(key, value, block)),
        (_, true) => {
            let (gone, _) = place.item(key, value, nth)?;
            // A comment would end up beside something else.
            let is_commented = !place.comments(&gone).is_empty();
            let kept = cut(text, &value.range, &gone);
            let with = format!("{kept}, {}", block.in_flow());
            (!is_commented).then(|| (value.range.clone(), with))
        }
        (_, false) => {
            let (gone, item) = place.item(key, value, nth)?;
            let range = key.range.start..place.end_of_line(value.range.end);
            let kept = cut(text, &range, &gone);
            let comments = Comments::of(&place, &gone, key, Some(item));
            let kept = kept.trim_end();
            Some((range, format!("{kept}{line_end}{}{}", place.indent(0), place.lines(block, &comments))))
        }
    }
}

/// Returns what is left of `range`; the last item's line end follows it.
fn cut(text: &str, range: &Range<usize>, gone: &Range<usize>) -> String {
    format!("{}{}", &text[range.start..gone.start], &text[gone.end.min(range.end)..range.end])
}

/// The place of the agent's keys in a text.
struct Place<'a> {
    text: &'a str,
    outline: &'a Outline,
    line_end: &'static str,
    /// Columns before the agent's keys.
    column: usize,
}

/// The comments of what is removed.
#[derive(Default)]
struct Comments {
    /// Beside the key.
    key: Option<String>,
    /// Beside the limit.
    limit: Option<String>,
    /// All others.
    rest: Vec<String>,
}

impl Comments {
    fn of(place: &Place<'_>, gone: &Range<usize>, key: &Node, item: Option<&Node>) -> Self {
        let mut comments = Self::default();
        // In the older way of writing, the keys are one deeper.
        let inner = item.and_then(|item| {
            item.entry("token_limit").or_else(|| item.entries().first()?.value.as_ref()?.entry("token_limit"))
        });
        let limit_line = inner.map(|limit| place.line_of(limit.key.range.start));
        for comment in place.comments(gone) {
            let said = place.text[comment.clone()].trim_end().to_owned();
            let line = place.line_of(comment.start);
            if line == place.line_of(key.range.start) && comments.key.is_none() {
                comments.key = Some(said);
            } else if Some(line) == limit_line && comments.limit.is_none() {
                comments.limit = Some(said);
            } else {
                comments.rest.push(said);
            }
        }
        comments
    }
}

impl Place<'_> {
    /// Replaces the whole entry by the block, as lines.
    fn block_instead(&self, key: &Node, value: &Node, block: &Block) -> Edit {
        let range = key.range.start..self.end_of_line(value.range.end.max(key.range.end));
        let comments = Comments::of(self, &range, key, value.items().first());
        (range, self.lines(block, &comments))
    }

    /// Replaces the whole entry by the block, in braces. Comments in it go before it, each on its line.
    fn flow_instead(&self, key: &Node, value: &Node, block: &Block) -> Edit {
        let range = key.range.start..value.range.end;
        let comments = self.comments(&range).into_iter();
        let comments = comments
            .map(|comment| format!("{}{}{}", self.text[comment].trim_end(), self.line_end, self.indent(0)));
        (range, comments.collect::<String>() + &block.in_flow())
    }

    /// Returns the bytes of item `nth`: in a block its lines, in brackets up to the next one.
    fn item<'n>(&self, key: &Node, list: &'n Node, nth: usize) -> Option<(Range<usize>, &'n Node)> {
        let items = list.items();
        let item = items.get(nth)?;
        if list.is_flow() {
            let range = match (items.get(nth + 1), nth.checked_sub(1)) {
                (Some(next), _) => item.range.start..next.range.start,
                (None, Some(before)) => items[before].range.end..item.range.end,
                (None, None) => return None,
            };
            return Some((range, item));
        }
        let dash = self.text[..item.range.start].rfind('-')?;
        let line = |at: usize| self.text[..at].rfind('\n').map_or(0, |end| end + 1);
        let mut start = line(dash);
        // Anything else before the dash is not ours to remove.
        if !self.text[start..dash].trim().is_empty() {
            return None;
        }
        // Comments right above it are about it.
        while start > key.range.end {
            let above = line(start - 1);
            if above <= key.range.end || !self.text[above..start].trim_start().starts_with('#') {
                break;
            }
            start = above;
        }
        let end = self.end_of_line(item.range.end);
        let end = self.text[end..].find('\n').map_or(self.text.len(), |more| end + more + 1);
        Some((start..end, item))
    }

    /// Returns the block as lines, from its key on, without a final line end.
    fn lines(&self, block: &Block, comments: &Comments) -> String {
        let beside =
            |comment: &Option<String>| comment.as_ref().map_or_else(String::new, |said| format!("  {said}"));
        let mut lines = vec![format!("compact:{}", beside(&comments.key))];
        let inner = self.indent(2);
        lines.extend(comments.rest.iter().map(|said| format!("{inner}{said}")));
        lines.push(format!("{inner}token_threshold: {}{}", block.token_threshold, beside(&comments.limit)));
        lines.extend(block.max_tokens.map(|target| format!("{inner}max_tokens: {target}")));
        lines.push(format!("{inner}model: {}", scalar(&block.model)));
        lines.extend(block.summary_tag.as_ref().map(|tag| format!("{inner}summary_tag: {}", scalar(tag))));
        if let Some(prompt) = &block.prompt {
            if is_readable(prompt) {
                lines.push(format!("{inner}prompt: |-"));
                let deeper = self.indent(4);
                let indented =
                    |line: &str| if line.is_empty() { String::new() } else { format!("{deeper}{line}") };
                lines.extend(prompt.lines().map(indented));
            } else {
                lines.push(format!("{inner}prompt: {}", quote(prompt)));
            }
        }
        lines.join(self.line_end)
    }

    fn indent(&self, more: usize) -> String {
        " ".repeat(self.column + more)
    }

    /// Returns the comments within `range`.
    fn comments(&self, range: &Range<usize>) -> Vec<Range<usize>> {
        let within = |comment: &&Range<usize>| range.contains(&comment.start) && comment.end <= range.end;
        self.outline.comments.iter().filter(within).cloned().collect()
    }

    /// Returns the end of the text on the line of `at`, including a comment, without the line end.
    fn end_of_line(&self, at: usize) -> usize {
        let line = self.text[at..].split('\n').next().unwrap_or_default();
        let rest = line.trim_end();
        if rest.trim_start().is_empty() { at } else { at + rest.len() }
    }

    fn line_of(&self, at: usize) -> usize {
        self.text[..at].matches('\n').count()
    }
}

impl Block {
    /// Returns the entry in braces.
    fn in_flow(&self) -> String {
        let target = self.max_tokens.map_or_else(String::new, |target| format!(", max_tokens: {target}"));
        let prompt = self.prompt.as_ref();
        let prompt = prompt.map_or_else(String::new, |prompt| format!(", prompt: {}", quote(prompt)));
        let model = scalar(&self.model);
        let tag = self.summary_tag.as_ref();
        let tag = tag.map_or_else(String::new, |tag| format!(", summary_tag: {}", scalar(tag)));
        format!(
            "compact: {{ token_threshold: {}{target}, model: {model}{tag}{prompt} }}",
            self.token_threshold
        )
    }
}

/// Returns a word unchanged, if it cannot be mistaken for something else; otherwise in quotes.
fn scalar(text: &str) -> String {
    let is_word = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:".contains(c))
        && !text.ends_with(':')
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
            .contains(&text.to_lowercase().as_str());
    if is_word { text.to_owned() } else { quote(text) }
}

/// Returns the text in double quotes: JSON's are YAML's.
fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\x7f")
}

/// Checks whether the text can be in a block unchanged.
fn is_readable(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with([' ', '\t', '\n'])
        && !text.ends_with('\n')
        && text.chars().all(|c| {
            c == '\n' || c == '\t' || !(c.is_control() || "\u{2028}\u{2029}\u{feff}\u{85}".contains(c))
        })
        && text.lines().all(|line| line.is_empty() || !line.trim().is_empty())
}
