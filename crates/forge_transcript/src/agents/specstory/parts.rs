//! The parts of a history: headings, blocks of calls and of thoughts, and lines.

/// The tags around a call with its result, and around what a model thinks.
pub(super) const TOOL: [&str; 2] = ["<tool-use ", "</tool-use>"];
const THOUGHTS: [&str; 2] = ["<think>", "</think>"];
/// The tags around what can be unfolded, which was a call until version 2, and around its first line.
pub(super) const DETAILS: [&str; 2] = ["<details>", "</details>"];
pub(super) const SUMMARY: [&str; 2] = ["<summary>", "</summary>"];
/// The words before the name of a tool.
pub(super) const TOOL_USE: &str = "Tool use: **";
pub(super) const FENCE: &str = "```";
/// The line between messages.
pub(super) const RULE: &str = "---";
/// The beginning of the line with the id of a message.
pub(super) const MESSAGE_ID: &str = "<!-- message-id: ";

/// The speaker that a heading names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    User,
    Agent,
    SubAgent,
}

impl Speaker {
    /// Returns the speaker whose message begins with a line; `None` if the line is not a heading.
    pub(super) fn of(line: &str) -> Option<Self> {
        let heading = line.trim_end().strip_prefix("_**")?.strip_suffix("**_")?;
        // The model and the time stand in brackets.
        match heading.split_once(" (").map_or(heading, |(name, _)| name) {
            "User" => Some(Self::User),
            "Agent" | "Assistant" => Some(Self::Agent),
            "User - sidechain" | "Agent - sidechain" => Some(Self::SubAgent),
            _ => None,
        }
    }
}

/// A part of a history.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Heading(Speaker),
    /// The block of a call.
    Tool,
    /// The block of what the model thinks.
    Thoughts,
    Line,
}

/// Returns the parts of a text, which add up to it. Within a block, no line is a heading.
pub(super) fn parts(text: &str) -> Vec<(Part, &str)> {
    let last_end = |tags: [&str; 2]| text.rfind(tags[1]).unwrap_or_default();
    let (tools, thoughts) = (last_end(TOOL), last_end(THOUGHTS));
    let mut parts = Vec::new();
    let (mut at, mut is_below_blank) = (0, true);
    // A text that begins without a heading is what the agent says after a call.
    let (mut is_agents, mut is_below_rule) = (true, true);
    while at < text.len() {
        let rest = &text[at..];
        let line = line_length(rest);
        let (part, length) = match Speaker::of(&rest[..line]) {
            _ if at < tools && rest.starts_with(TOOL[0]) => (Part::Tool, call_length(rest)),
            _ if at < thoughts && rest.starts_with(THOUGHTS[0]) => {
                (Part::Thoughts, block_length(rest, THOUGHTS[1]))
            }
            Some(speaker) if is_below_blank => (Part::Heading(speaker), line),
            _ if is_agents && is_below_rule => match older_call_length(rest) {
                Some(length) => (Part::Tool, length),
                None => (Part::Line, line),
            },
            _ => (Part::Line, line),
        };
        let piece = &rest[..length];
        parts.push((part, piece));
        is_below_blank = piece.trim().is_empty();
        match part {
            Part::Heading(speaker) => {
                is_agents = speaker != Speaker::User;
                is_below_rule = true;
            }
            Part::Tool | Part::Thoughts => is_below_rule = true,
            Part::Line if is_below_blank || piece.starts_with(MESSAGE_ID) => {}
            Part::Line => is_below_rule = piece.trim_end() == RULE,
        }
        at += length;
    }
    parts
}

/// Returns the length of the first line of a text.
fn line_length(text: &str) -> usize {
    text.find('\n').map_or(text.len(), |end| end + 1)
}

/// Returns the length of the block that ends with the first tag `end`, with the rest of that line.
fn block_length(text: &str, end: &str) -> usize {
    let end = text.find(end).map_or(text.len(), |at| at + end.len());
    end + line_length(&text[end..])
}

/// Returns the length of the block of a call. Cursor's results have blocks of their own, in which nothing is
/// shown: such a block behind that of a call of the same tool is part of it.
fn call_length(text: &str) -> usize {
    let length = block_length(text, TOOL[1]);
    let behind = text[length..].trim_start();
    if !behind.starts_with(TOOL[0]) || tool_of(behind) != tool_of(text) {
        return length;
    }
    let end = block_length(behind, TOOL[1]);
    if shows_nothing(&behind[..end]) { text.len() - behind.len() + end } else { length }
}

/// Returns the name of the tool of the block with which a text begins.
fn tool_of(text: &str) -> &str {
    attribute(text.split('>').next().unwrap_or_default(), "name")
}

/// Returns the type or the name that the first tag of a block tells of its tool.
pub(super) fn attribute<'a>(opening: &'a str, key: &str) -> &'a str {
    let at = opening.split_once(&format!("data-tool-{key}=\"")).map(|(_, rest)| rest);
    at.and_then(|rest| rest.split('"').next()).unwrap_or_default()
}

/// Checks whether a block has nothing but the name of its tool.
fn shows_nothing(block: &str) -> bool {
    let (_, shown) = block.split_once('>').unwrap_or_default();
    let shown = shown.split_once(TOOL[1]).map_or(shown, |(shown, _)| shown);
    let (summary, rest) = shown.split_once(SUMMARY[1]).unwrap_or(("**", shown));
    let rest = rest.trim().trim_start_matches(DETAILS[0]).trim_end_matches(DETAILS[1]);
    summary.ends_with("**") && rest.trim().is_empty()
}

/// Returns the length of the call with which a text begins, in the form of version 1: what can be unfolded,
/// the name of a tool and what it shows, or a line about a file that stands alone.
fn older_call_length(text: &str) -> Option<usize> {
    let length = line_length(text);
    let line = text[..length].trim_end();
    if line.starts_with(TOOL_USE) {
        return Some(length_to_rule(text));
    }
    if line.starts_with(DETAILS[0]) {
        let is_call = text.lines().take(3).any(|line| line.contains(SUMMARY[0]));
        return details_length(text).filter(|_| is_call);
    }
    if !names_file(line) {
        return None;
    }
    let next = text[length..].lines().find(|line| !line.trim().is_empty());
    next.is_none_or(|next| next.trim_end() == RULE || Speaker::of(next).is_some()).then_some(length)
}

/// Returns the length of what can be unfolded; `None` if it does not end before the next heading.
fn details_length(text: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let is_end = if at == 0 { line.contains(DETAILS[1]) } else { line.starts_with(DETAILS[1]) };
        if Speaker::of(line).is_some() {
            return None;
        }
        at += line.len();
        if is_end {
            return Some(at);
        }
    }
    None
}

/// Returns the length of a text up to the first rule or heading that is not in what it shows.
fn length_to_rule(text: &str) -> usize {
    let mut at = 0;
    // The line that ends what is shown, and the first rule before it.
    let (mut end, mut first): (Option<&str>, Option<usize>) = (None, None);
    for line in text.split_inclusive('\n') {
        let words = line.trim_end();
        let is_end = words == RULE || Speaker::of(words).is_some();
        match end {
            None if is_end => return at,
            None if words.starts_with(DETAILS[0]) && !words.contains(DETAILS[1]) => end = Some(DETAILS[1]),
            None if words.starts_with(FENCE) => end = Some(FENCE),
            Some(last) if words == last => end = None,
            Some(_) if first.is_some() && words.starts_with(TOOL_USE) => break,
            Some(_) if is_end && first.is_none() => first = Some(at),
            _ => {}
        }
        at += line.len();
    }
    // The history shows only a part of it.
    first.filter(|_| end.is_some()).unwrap_or(at)
}

/// Checks for a line of two words and a path, such as `Read file: src/a.rs`. More words are an error's.
fn names_file(line: &str) -> bool {
    line.split_once(": ").is_some_and(|(words, path)| {
        let path = path.trim();
        let are_two = are_words(words) && words.split(' ').count() == 2;
        are_two && is_path(path) && !path.contains(char::is_whitespace)
    })
}

/// Checks for the few words by which a history tells what was done with a file.
pub(super) fn are_words(words: &str) -> bool {
    const MOST: usize = 3;
    let is_word = |word: &str| word.chars().all(char::is_alphabetic);
    !words.is_empty() && words.split(' ').all(is_word) && words.split(' ').count() <= MOST
}

/// Checks whether a text looks like the path of a file.
pub(super) fn is_path(text: &str) -> bool {
    let ending = text.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, ending)| ending);
    let has_ending = ending.is_some_and(|ending| {
        ending.len() <= 8
            && ending.chars().all(|c| c.is_ascii_alphanumeric())
            && ending.contains(|c: char| c.is_ascii_alphabetic())
    });
    !text.contains("://") && (text.contains(['/', '\\']) || has_ending && !text.contains(char::is_whitespace))
}
