//! The calls that a history shows: the arguments and the result of each, by what stands in its block.

use serde_json::{Map, Value, json};

use super::fences::{Fenced, decoded, line_with, without_fence};
use super::parts::{DETAILS, FENCE, SUMMARY, TOOL, TOOL_USE, are_words, attribute, is_path};

/// The words before the arguments of a call whose tool SpecStory does not know, and before results.
const INPUT: &str = "**Input:**";
const RESULTS: [&str; 3] = ["**Result:**", "**Answer:**", FAILURE];
const FAILURE: &str = "**Error:**";
/// The mark between the parts of a summary.
const DOT: &str = " • ";

/// A call and its result, as far as they are shown.
#[derive(Default)]
pub(super) struct Told {
    pub(super) arguments: Map<String, Value>,
    pub(super) result: String,
    pub(super) is_error: bool,
}

/// The block of a call, as it is shown.
pub(super) struct Shown<'a> {
    /// The type of its tool: `shell`, `read`, `write`, `search`, `task`, `mcp`, `generic` or `unknown`; empty
    /// in version 1.
    kind: &'a str,
    pub(super) name: &'a str,
    /// Its first line, without the name of the tool.
    summary: &'a str,
    pub(super) body: &'a str,
}

impl<'a> Shown<'a> {
    pub(super) fn of(block: &'a str) -> Self {
        let Some(tagged) = block.strip_prefix(TOOL[0]) else { return Self::of_version_1(block) };
        let (opening, shown) = tagged.split_once('>').unwrap_or((tagged, ""));
        let shown = shown.split_once(TOOL[1]).map_or(shown, |(shown, _)| shown);
        let (summary, body) = parted(shown);
        let named = summary.strip_prefix(TOOL_USE).and_then(|named| named.split_once("**"));
        let summary = named.map_or(summary, |(_, rest)| rest.trim_start_matches([' ', '•']));
        Self { kind: attribute(opening, "type"), name: attribute(opening, "name"), summary, body }
    }

    /// Reads a block of version 1. The oldest ones have no name of the tool.
    fn of_version_1(block: &'a str) -> Self {
        let named = block.trim().strip_prefix(TOOL_USE).and_then(|named| named.split_once("**"));
        let (name, shown) = named.unwrap_or(("", block));
        let (summary, body) = match parted(shown) {
            ("", line) if !line.contains('\n') => (line, ""),
            both => both,
        };
        let first = summary.split_whitespace().next().unwrap_or_default().trim_end_matches(':');
        Self { kind: "", name: if name.is_empty() { first } else { name }, summary, body }
    }

    /// Returns a text of the block as it was. What version 1 shows has no entities.
    pub(super) fn plain(&self, text: &str) -> String {
        if self.kind.is_empty() { text.to_owned() } else { decoded(text) }
    }

    /// Returns the call and its result, where they are shown in no other form.
    pub(super) fn told(&self) -> Told {
        let first = Fenced::first(self.body);
        let is_code = self.body.starts_with(FENCE) && first.is_some_and(|first| first.is_code());
        let is_shell = self.kind == "shell" || self.kind.is_empty() && self.summary.is_empty() && is_code;
        let has_change = || line_with(self.body, "```diff").is_some();
        let is_write = self.kind == "write" || self.kind.is_empty() && has_change();
        // Their blocks may have no result, but always show what they did.
        let is_action = is_shell || is_write || self.kind == "task";
        let start = result_start(self.body).unwrap_or(if is_action { self.body.len() } else { 0 });
        let (input, result) = self.body.split_at(start);
        let input = input.trim();
        let words = RESULTS.iter().find_map(|words| result.strip_prefix(*words));
        Told {
            arguments: match () {
                () if input.starts_with(INPUT) => self.listed(input),
                () if is_shell => self.command(input),
                () if is_write => self.change(input),
                () => self.subject(input),
            },
            result: self.plain(without_fence(words.unwrap_or(result).trim())),
            is_error: result.starts_with(FAILURE),
        }
    }

    /// Returns a command: what is between fences or backticks, or the summary. It has no entities.
    fn command(&self, input: &str) -> Map<String, Value> {
        let fenced = Fenced::first(input).filter(Fenced::is_code).map(|fenced| (fenced.text, ""));
        let (command, purpose) = fenced.or_else(|| between_ticks(input)).unwrap_or_else(|| {
            let behind = self.summary.split_once(": ").filter(|(words, _)| are_words(words));
            let summary = behind.map_or(self.summary, |(_, command)| command);
            if summary.is_empty() { (input, "") } else { (summary, "") }
        });
        fields([("command", command.to_owned()), ("description", purpose.to_owned())])
    }

    /// Returns the file that is written, with what is changed in it, or all of it.
    fn change(&self, input: &str) -> Map<String, Value> {
        let mut rest = self.body;
        let (mut diffs, mut content) = (Vec::new(), "");
        while let Some(fenced) = Fenced::first(rest) {
            if fenced.language == "diff" {
                diffs.push(fenced.text);
            } else if content.is_empty() && !matches!(fenced.language, "" | "text") {
                content = fenced.text;
            }
            rest = fenced.rest;
        }
        let Some(path) = self.path().or_else(|| self.behind_words()) else {
            let words = if self.summary.is_empty() { input } else { self.summary };
            return fields([
                ("description", if diffs.is_empty() { self.plain(words) } else { String::new() }),
                ("diff", self.plain(&diffs.join("\n"))),
            ]);
        };
        let content = if diffs.is_empty() { content } else { "" };
        fields([
            ("file_path", path.to_owned()),
            ("diff", self.plain(&diffs.join("\n"))),
            ("content", self.plain(content)),
        ])
    }

    /// Returns what a call is about: a file, or what it looks for, and the other words that are shown.
    fn subject(&self, input: &str) -> Map<String, Value> {
        let text = if self.kind == "task" { "prompt" } else { "text" };
        let summary = self.summary.split(DOT).next().unwrap_or_default().trim();
        let quoted = summary.find('"').zip(summary.rfind('"')).filter(|(start, end)| start < end);
        let quoted = quoted.map(|(start, end)| &summary[start + 1..end]).filter(|quoted| !quoted.is_empty());
        let told = match (self.path(), quoted) {
            (Some(path), _) => {
                let lines = summary.rsplit_once("), ").map_or("", |(_, lines)| lines);
                [("file_path", path), ("range", lines)]
            }
            (None, Some(quoted)) => match quoted.rsplit_once("\" in \"") {
                Some((pattern, path)) => [("pattern", pattern), ("path", path)],
                None => [("query", quoted), ("path", "")],
            },
            (None, None) => match between_ticks(summary) {
                Some((sought, "")) => [("query", sought), ("description", "")],
                _ => [("query", ""), ("description", self.summary)],
            },
        };
        let told = told.map(|(name, value)| (name, value.to_owned()));
        let mut told = fields(told);
        told.append(&mut fields([(text, self.plain(input))]));
        told
    }

    /// Returns the arguments that are listed, one a line: `- name: value`.
    fn listed(&self, input: &str) -> Map<String, Value> {
        let lines = input.strip_prefix(INPUT).unwrap_or(input).trim();
        let listed = named_values(lines, "- ");
        if listed.is_empty() {
            return fields([("text", self.plain(lines))]);
        }
        let value = |value: String| Value::String(self.plain(value.trim_matches('`')));
        listed.into_iter().map(|(name, text)| (name, value(text))).collect()
    }

    /// Returns the rest of a summary such as `Edit file: a b.rs`.
    fn behind_words(&self) -> Option<&'a str> {
        let (words, rest) = self.summary.split(DOT).next()?.split_once(": ")?;
        are_words(words).then(|| rest.trim())
    }

    /// Returns the file that the summary names.
    fn path(&self) -> Option<&'a str> {
        let is_sure = matches!(self.kind, "read" | "write");
        let summary = self.summary.split(DOT).next().unwrap_or_default().trim();
        if let Some((_, link)) = summary.split_once("](file://") {
            return link.split([')', '#']).next();
        }
        let path = self.behind_words().filter(|path| is_sure || is_path(path));
        path.or_else(|| Some(summary.trim_matches('`')).filter(|path| is_sure && is_path(path)))
    }

    /// Returns a list of tasks, of which nothing else is shown.
    pub(super) fn tasks(&self) -> Option<Told> {
        let lines =
            self.body.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let tasks: Vec<Value> = lines.map(|line| self.task(line)).collect::<Option<_>>()?;
        let is_list = !tasks.is_empty() && !matches!(self.kind, "read" | "write" | "shell" | "search");
        let arguments = Map::from_iter([("todos".to_owned(), Value::Array(tasks))]);
        is_list.then(|| Told { arguments, ..Told::default() })
    }

    fn task(&self, line: &str) -> Option<Value> {
        let (mark, text) = line.strip_prefix("- [")?.split_once("] ")?;
        let status = match mark {
            " " => "pending",
            "-" | "~" => "in_progress",
            "x" | "X" => "completed",
            _ => return None,
        };
        Some(json!({"content": self.plain(text), "status": status}))
    }
}

/// Returns the first line of what a block shows, and the rest.
fn parted(shown: &str) -> (&str, &str) {
    let shown = shown.trim();
    let has_summary = shown.starts_with(DETAILS[0]) || shown.starts_with(SUMMARY[0]);
    let summary = shown.split_once(SUMMARY[0]).and_then(|(_, rest)| rest.split_once(SUMMARY[1]));
    let (summary, body) = summary.filter(|_| has_summary).unwrap_or(("", shown));
    let body = body.trim().trim_start_matches(DETAILS[0]).trim_end_matches(DETAILS[1]).trim();
    (summary.trim(), body)
}

/// Returns the arguments of these names; those without a text are left out.
pub(super) fn fields<const N: usize>(named: [(&str, String); N]) -> Map<String, Value> {
    let told = named.into_iter().filter(|(_, text)| !text.is_empty());
    told.map(|(name, text)| (name.to_owned(), Value::String(text))).collect()
}

/// Returns the names and values of lines such as `- name: value`, of which `mark` is the beginning. Other
/// lines belong to the value above them.
pub(super) fn named_values(text: &str, mark: &str) -> Vec<(String, String)> {
    let mut named: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let told = line.strip_prefix(mark).and_then(|line| line.split_once(':'));
        if let Some((name, value)) = told.filter(|(name, _)| !name.contains(char::is_whitespace)) {
            named.push((name.to_owned(), value.trim_start().to_owned()));
        } else if let Some((_, value)) = named.last_mut() {
            value.push('\n');
            value.push_str(line);
        }
    }
    for (_, value) in &mut named {
        value.truncate(value.trim_end().len());
    }
    named
}

/// Returns what is between backticks at the end of a text, and the words above it.
fn between_ticks(text: &str) -> Option<(&str, &str)> {
    let inner = text.trim().strip_suffix('`')?;
    let start = if inner.starts_with('`') { 0 } else { inner.find("\n`")? + 1 };
    Some((inner[start + 1..].trim(), inner[..start].trim()))
}

/// Returns the place of the result in what a block shows: it has words before it, or a fence without another
/// language than `text`.
fn result_start(body: &str) -> Option<usize> {
    let named = RESULTS.iter().filter_map(|words| line_with(body, words)).min();
    if body.starts_with(INPUT) {
        return named;
    }
    let (mut at, mut is_fenced) = (0, false);
    for line in body.split_inclusive('\n') {
        match line.trim_end() {
            FENCE | "```text" if !is_fenced => return Some(named.map_or(at, |named| named.min(at))),
            line => is_fenced = if is_fenced { line != FENCE } else { line.starts_with(FENCE) },
        }
        at += line.len();
    }
    named
}
