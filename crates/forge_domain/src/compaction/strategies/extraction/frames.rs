//! The frames of results: what nearly every result of a tool begins or ends with, whatever it tells.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::pages::Furniture;
use crate::compaction::answered_call::answered_call;
use crate::compaction::features::{ByTerm, Line, TermHasher, hash};
use crate::compaction::question::Question;
use crate::{Context, ContextMessage};

/// Lines at the start and at the end of a result that may be its frame.
const HEAD: usize = 8;
const FOOT: usize = 4;
/// A line is of a frame if so many results of the tool have it: at least, and in percent.
const LEAST_RESULTS: usize = 4;
const OF_RESULTS_PERCENT: usize = 60;
/// Most lines of a note that a harness adds to a result.
const MOST_NOTE: usize = 8;

/// The contents of the messages beside their frames.
pub(super) struct Frames {
    /// The lines of each message that are content.
    contents: Vec<Range<usize>>,
    /// The results that are nothing but a frame, which announces an output that is not there.
    bare: HashSet<usize>,
    /// The hashes of lines with which several results end, whatever they are of.
    footers: HashSet<u64, TermHasher>,
    furniture: Furniture,
}

impl Frames {
    /// Finds the frames in the results of `context`, whose messages were `sources` at first. The first result
    /// with a frame keeps it. A line that the focus of `question` names is of no frame: it was asked for, in
    /// every result.
    pub(super) fn of(context: &Context, sources: &[ContextMessage], question: &Question) -> Self {
        let whole = |source: &ContextMessage| 0..source.features().lines.len();
        let mut contents: Vec<Range<usize>> = sources.iter().map(whole).collect();
        let mut bare = HashSet::new();
        let mut by_tool: HashMap<&str, Vec<usize>> = HashMap::new();
        for position in 0..sources.len() {
            if let Some(asked) = answered_call(context, position) {
                by_tool.entry(asked.call.name.as_str()).or_default().push(position);
            }
        }
        // Some harnesses put the same around the results of all tools.
        let mut of_all: Vec<usize> = by_tool.values().flatten().copied().collect();
        of_all.sort_unstable();
        let of_all = Some(of_all).filter(|_| by_tool.len() > 1);
        let alike = by_tool.into_values().chain(of_all);
        for positions in alike.filter(|positions| positions.len() >= LEAST_RESULTS) {
            let Some(common) = Common::of(sources, &positions, question) else { continue };
            bare.extend(positions.iter().filter(|position| common.is_all_of(&sources[**position])));
            let framed = positions.iter().map(|position| (*position, common.content(&sources[*position])));
            let is_framed =
                |(position, content): &(usize, Range<usize>)| *content != whole(&sources[*position]);
            for (position, content) in framed.filter(is_framed).skip(1) {
                let before = &mut contents[position];
                let start = before.start.max(content.start);
                let both = start..before.end.min(content.end).max(start);
                // If both frames together leave nothing, that of the tool alone counts.
                if !both.is_empty() || Range::is_empty(before) || content.is_empty() {
                    *before = both;
                }
            }
        }
        for (position, start) in repeated_notes(context, sources) {
            let content = &mut contents[position];
            content.end = content.end.min(start).max(content.start);
        }
        let furniture = Furniture::of(results(context, sources), sources, question);
        Self { contents, bare, footers: footers(context, sources), furniture }
    }

    /// Returns what most pages show that the agent saw in a browser.
    pub(super) const fn furniture(&self) -> &Furniture {
        &self.furniture
    }

    /// Checks whether the message at `position` is a result that says nothing of its own.
    pub(super) fn is_bare(&self, position: usize) -> bool {
        self.bare.contains(&position)
    }

    /// Checks whether several results end with a line, or whether it stands in brackets, as a note does.
    pub(super) fn is_footer(&self, line: &str) -> bool {
        is_in_brackets(line) || line.starts_with(RESET) || self.footers.contains(&hash(line))
    }

    /// Checks whether several results end with a line that is no note.
    pub(super) fn is_repeated(&self, line: &str) -> bool {
        self.is_footer(line) && !is_in_brackets(line) && !line.starts_with(RESET)
    }

    /// Returns the lines of the message at `position` that are content.
    pub(super) fn content(&self, position: usize) -> Range<usize> {
        self.contents[position].clone()
    }
}

/// The beginning of the line with which Claude Code ends a result if the command had left the folder.
const RESET: &str = "Shell cwd was reset to ";

/// The lines that most results of a tool have at their start or end.
struct Common {
    lines: HashSet<u64, TermHasher>,
    /// Their shapes: they may differ in numbers.
    shapes: HashSet<u64, TermHasher>,
}

impl Common {
    /// Returns `None` if they have no line in common.
    fn of(sources: &[ContextMessage], positions: &[usize], question: &Question) -> Option<Self> {
        let edges = |position: &usize| edges_not_asked_for(&sources[*position], question);
        let edges: Vec<Vec<&Edge>> = positions.iter().map(edges).collect();
        let lines = common(&edges, |edge| edge.line);
        let shapes = common(&edges, |edge| edge.shape);
        let mut labels = edges.iter().flatten().filter(|edge| edge.is_label);
        let has_frame = !lines.is_empty() || labels.any(|label| shapes.contains(&label.shape));
        has_frame.then_some(Self { lines, shapes })
    }

    /// Checks whether a result is nothing but a frame that announces an output: what else all results of a
    /// tool say may be what there is to tell.
    fn is_all_of(&self, result: &ContextMessage) -> bool {
        let (features, edges) = (result.features(), Edges::of(result));
        let n_lines = features.lines.len();
        let announces = |last: &Line| features.line(last).ends_with(':');
        n_lines <= HEAD
            && features.lines.last().is_some_and(announces)
            && (0..n_lines).all(|nth| self.shapes.contains(&edges.get(nth).shape))
    }

    /// Returns the lines of a result without its frame: after the last line of its start that is common, and
    /// before the first such line of its end, as far as all lines between have a common shape.
    fn content(&self, result: &ContextMessage) -> Range<usize> {
        let n_lines = result.features().lines.len();
        let edges = Edges::of(result);
        let has_shape = |nth: &usize| self.shapes.contains(&edges.get(*nth).shape);
        let is_common = |nth: &usize| {
            let edge = edges.get(*nth);
            // A single line is what there is to tell.
            self.lines.contains(&edge.line)
                || edge.is_label && n_lines > 1 && self.shapes.contains(&edge.shape)
        };
        let after_head = |most: usize| {
            let head = (0..most.min(HEAD)).take_while(has_shape).filter(is_common).last();
            head.map_or(0, |last| last + 1)
        };
        let start = match after_head(n_lines) {
            // All may be frame: what is in the middle tells the most.
            all if all == n_lines => after_head(n_lines.div_ceil(2)),
            start => start,
        };
        let end = start.max(n_lines.saturating_sub(FOOT))..n_lines;
        start..end.rev().take_while(has_shape).filter(is_common).last().unwrap_or(n_lines)
    }
}

/// Iterates over the positions of the results.
fn results<'a>(context: &'a Context, sources: &[ContextMessage]) -> impl Iterator<Item = usize> + use<'a> {
    (0..sources.len()).filter(|position| answered_call(context, *position).is_some())
}

/// A line that so many results end with is not an outcome.
const LEAST_ENDINGS: usize = 3;

/// Returns the hashes of the lines with which several results end that have other lines.
fn footers(context: &Context, sources: &[ContextMessage]) -> HashSet<u64, TermHasher> {
    let mut n_results: ByTerm<usize> = ByTerm::default();
    for features in results(context, sources).map(|position| sources[position].features()) {
        if let [_, .., last] = &features.lines[..] {
            *n_results.entry(hash(features.line(last))).or_default() += 1;
        }
    }
    n_results.into_iter().filter(|(_, n)| *n >= LEAST_ENDINGS).map(|(hash, _)| hash).collect()
}

/// Returns the results that end with a note which another result ends with, too, and the number of the line
/// with which it begins: what a harness adds to results stands in a tag.
fn repeated_notes(context: &Context, sources: &[ContextMessage]) -> Vec<(usize, usize)> {
    let notes: Vec<(usize, usize, &str)> = results(context, sources)
        .filter_map(|position| {
            let (start, text) = note_at_end(&sources[position])?;
            Some((position, start, text))
        })
        .collect();
    let mut n_results: HashMap<&str, usize> = HashMap::new();
    notes.iter().for_each(|(.., text)| *n_results.entry(text).or_default() += 1);
    let repeated = notes.into_iter().filter(|(.., text)| n_results[text] > 1);
    repeated.map(|(position, start, _)| (position, start)).collect()
}

/// Returns the note in a tag that a result ends with, and the number of its first line.
fn note_at_end(result: &ContextMessage) -> Option<(usize, &str)> {
    let features = result.features();
    let n_lines = features.lines.len();
    let name = features.line(features.lines.last()?).strip_prefix("</")?.strip_suffix('>')?;
    let begins = |nth: &usize| {
        let line = features.line(&features.lines[*nth]);
        line.strip_prefix('<').and_then(|line| line.strip_suffix('>')) == Some(name)
    };
    // A result that is nothing else tells something.
    let start = (n_lines.saturating_sub(MOST_NOTE).max(1)..n_lines).rev().find(begins)?;
    Some((start, &features.text[features.lines[start].start as usize..]))
}

/// Returns the lines at the start and the end of a result, without those that the focus names.
fn edges_not_asked_for<'a>(result: &'a ContextMessage, question: &Question) -> Vec<&'a Edge> {
    let features = result.features();
    let has_focus = question.has_focus();
    let is_asked_for = |nth: usize| {
        let mut terms = features.places(&features.lines[nth]).iter();
        has_focus && terms.any(|term| question.is_focus(features.terms[*term as usize].hash()))
    };
    Edges::of(result).iter().filter(|(nth, _)| !is_asked_for(*nth)).map(|(_, edge)| edge).collect()
}

/// Returns the hashes, by `of`, of the lines that most results have at their start or end.
fn common(results: &[Vec<&Edge>], of: fn(&Edge) -> u64) -> HashSet<u64, TermHasher> {
    let mut n_results: ByTerm<usize> = ByTerm::default();
    let mut here: Vec<u64> = Vec::new();
    for edges in results {
        here.extend(edges.iter().map(|edge| of(edge)));
        here.sort_unstable();
        here.dedup();
        here.drain(..).for_each(|hash| *n_results.entry(hash).or_default() += 1);
    }
    let least = LEAST_RESULTS.max((results.len() * OF_RESULTS_PERCENT).div_ceil(100));
    n_results.into_iter().filter(|(_, n)| *n >= least).map(|(hash, _)| hash).collect()
}

/// The lines at the start and at the end of a result, in order, computed once.
struct Edges {
    edges: Vec<Edge>,
    /// The number of the first line at the end.
    foot: usize,
}

/// The hashes of a line and of its shape.
struct Edge {
    line: u64,
    shape: u64,
    /// True if it stands in brackets, so that it is of a frame even if its values differ. Of a label and one
    /// value, the shape is that of the label.
    is_label: bool,
}

impl Edges {
    fn of(result: &ContextMessage) -> &Self {
        result.form(|_| {
            let features = result.features();
            let n_lines = features.lines.len();
            let foot = n_lines.saturating_sub(FOOT).max(HEAD.min(n_lines));
            let lines = (0..n_lines.min(HEAD)).chain(foot..n_lines);
            let texts = lines.map(|nth| features.line(&features.lines[nth]));
            let edges = texts.map(|text| {
                let label = label_in_brackets(text);
                let is_label = is_in_brackets(text);
                Edge { line: hash(text), shape: label.map_or_else(|| shape(text), hash), is_label }
            });
            let edges = edges.collect();
            Self { edges, foot }
        })
    }

    /// Iterates over the numbers of the lines and their hashes.
    fn iter(&self) -> impl Iterator<Item = (usize, &Edge)> {
        (0..HEAD.min(self.foot)).chain(self.foot..).zip(&self.edges)
    }

    /// Returns the hashes of the line of such a number, which must be at the start or the end.
    fn get(&self, nth: usize) -> &Edge {
        let nth = if nth < HEAD { nth } else { HEAD + nth - self.foot };
        &self.edges[nth]
    }
}

/// Returns the label of a line that has nothing but a label in words and its value, in brackets:
/// `(Open file: a.rs)`.
fn label_in_brackets(line: &str) -> Option<&str> {
    let line = line.trim();
    let (label, _) = line.split_once(": ").filter(|_| is_in_brackets(line))?;
    let is_word = |c: char| c.is_alphabetic() || matches!(c, ' ' | '_' | '-');
    label[1..].chars().all(is_word).then_some(label)
}

/// Checks whether a line stands in brackets, from end to end.
fn is_in_brackets(line: &str) -> bool {
    let line = line.trim();
    // In quotes or braces, it is data.
    !line.contains(['"', '{'])
        && [('(', ')'), ('[', ']'), ('<', '>')]
            .iter()
            .any(|(open, close)| line.starts_with(*open) && line.ends_with(*close))
}

/// Returns a hash of a line that is the same whatever its numbers and codes are.
pub(super) fn shape(line: &str) -> u64 {
    let mut shape = String::with_capacity(line.len());
    for word in line.split_inclusive(|c: char| !c.is_alphanumeric()) {
        let end = word.trim_end_matches(|c: char| !c.is_alphanumeric()).len();
        let is_code = word[..end].bytes().any(|b| b.is_ascii_digit());
        shape.push_str(if is_code { "0" } else { &word[..end] });
        shape.push_str(&word[end..]);
    }
    hash(&shape)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::Conversation;

    /// Returns a log of five calls of `tools` in turn with such results.
    fn log_of(tools: &[&str], result: &dyn Fn(usize) -> String) -> Conversation {
        let mut log = Conversation::new();
        for n in 0..5 {
            log.call(tools[n % tools.len()], "{}", result(n));
        }
        log
    }

    #[test]
    fn what_every_result_has_around_it_is_no_content() {
        let framed = |n: usize| {
            format!(
                "Chunk a{n}4\nTook {n}.5 seconds\nOutput of it:\nthing {n} is here\nmore of {n}\n(end of output)"
            )
        };
        let bare = |n: usize| match n {
            2 => "Chunk a24\nTook 2.5 seconds\nOutput of it:\n".to_owned(),
            n => framed(n),
        };
        let noted = |n: usize| match n {
            1 | 3 => format!("boat {n} came\n<note>\nRead it with care.\n</note>"),
            2 => "boat 2 came\n<note>\nAll of it.\n</note>".to_owned(),
            n => format!("boat {n} left"),
        };
        let short = |n: usize| format!("Chunk a{n}4\nTook {n}.5 seconds\nOutput of it:\nthing {n} is here");
        for (of, expected) in [
            (&framed as &dyn Fn(usize) -> String, vec![0..6, 3..5, 3..5, 3..5]),
            (&short, vec![0..4, 3..4, 3..4, 3..4]),
            (&noted, vec![0..1, 0..1, 0..4, 0..1]),
            (&|n| format!("night {n}\n18:0{n} wind {n}2\n19:00 wind {n}4"), vec![0..3; 4]),
        ] {
            let view = log_of(&["run"], of).view();
            let frames = Frames::of(&view, view.messages(), &Question::default());
            let actual: Vec<_> = (0..4).map(|nth| frames.content(nth * 2 + 1)).collect();
            assert_eq!(actual, expected);
            assert!((0..8).all(|position| !frames.is_bare(position)));
        }
        let view = log_of(&["run"], &bare).view();
        let frames = Frames::of(&view, view.messages(), &Question::default());
        let bare: Vec<usize> =
            (0..view.messages().len()).filter(|position| frames.is_bare(*position)).collect();
        assert_eq!(bare, [5]);
    }

    #[test]
    fn what_the_results_of_all_tools_have_around_them_is_no_content() {
        let told = ["a boat came", "they left", "rain", "the night was long", "nobody"];
        let result = |n: usize| format!("{}\n(Open file: {n}.txt)\n(Folder: /w)\nready $", told[n]);
        let taken = |n: usize| format!("{}\n[took {n}.4s | exit {n}]", told[n]);
        let view = log_of(&["run"], &taken).view();
        let frames = Frames::of(&view, view.messages(), &Question::default());
        assert!((1..5).all(|nth| frames.content(nth * 2 + 1) == (0..1)));
        let answer = |n: usize| format!("[Result: {n}2]");
        let view = log_of(&["run", "open", "edit"], &answer).view();
        let frames = Frames::of(&view, view.messages(), &Question::default());
        assert!((0..5).all(|nth| frames.content(nth * 2 + 1) == (0..1)));
        let view = log_of(&["run", "open", "edit"], &result).view();
        let frames = Frames::of(&view, view.messages(), &Question::default());
        let contents: Vec<_> = (0..5).map(|nth| frames.content(nth * 2 + 1)).collect();
        assert_eq!(contents, [0..4, 0..1, 0..1, 0..1, 0..1]);
    }
}
