//! Text that a harness put under the user's role, told apart by its form: blocks between tags that only
//! harnesses write, their fixed markers, and the results that they send as user messages.

use forge_domain::{Body, Content, Message, Part, Role};

use crate::flat_text::is_blank;

/// The author of such text, if the format does not name it.
pub(crate) const HARNESS: &str = "harness";

/// Tags that only harnesses write. A tag that people use in prompts of their own, such as `<context>` or
/// `<task>`, is not among them.
const TAGS: [&str; 39] = [
    // Claude Code
    "system-reminder",
    "command-name",
    "command-message",
    COMMAND_ARGUMENTS,
    "local-command-caveat",
    "local-command-stdout",
    "local-command-stderr",
    "bash-input",
    "bash-stdout",
    "bash-stderr",
    "task-notification",
    "user-prompt-submit-hook",
    "cross-session-message",
    "teammate-message",
    "ide_opened_file",
    "ide_selection",
    "ide_diagnostics",
    "new-diagnostics",
    // Codex
    "environment_context",
    "user_instructions",
    INSTRUCTIONS,
    "user_shell_command",
    "turn_aborted",
    "skill",
    "subagent_notification",
    "hook_prompt",
    "model_switch",
    "collaboration_mode",
    "recommended_plugins",
    "codex_internal_context",
    // Copilot CLI, Cline, Forge Code
    "current_datetime",
    "system_reminder",
    "environment_details",
    "explicit_instructions",
    "system_date",
    // OpenHands
    "EXTRA_INFO",
    "REPOSITORY_INFO",
    "REPOSITORY_INSTRUCTIONS",
    "RUNTIME_INFORMATION",
];
/// The tag around what the user typed after the name of a command.
const COMMAND_ARGUMENTS: &str = "command-args";
/// The tag around the project's rules, which follow a heading of their own.
const INSTRUCTIONS: &str = "INSTRUCTIONS";
/// The beginning of that heading.
const RULES_HEADING: &str = "# AGENTS.md instructions";
/// Lines that Claude Code adds when the user interrupts it.
const MARKERS: [&str; 2] = ["[Request interrupted by user for tool use]", "[Request interrupted by user]"];
/// Tags around the user's answer in a result that is sent as a user message.
const ANSWERS: [&str; 3] = ["<answer>", "<feedback>", "<user_message>"];

/// Splits a user message into what the user wrote and notes by the harness `by`. Both stay in order, and
/// their texts add up to the whole. Usually there is one piece.
pub(crate) fn split_notes(message: Message, by: &str) -> Vec<Message> {
    let Body::User(content) = &message.body else { return vec![message] };
    if !message.starts_turn() {
        return vec![message];
    }
    let pieces = Pieces::of(content).0;
    match pieces.as_slice() {
        [] => return vec![message],
        [only] if only.is_note => return vec![message.noted_by(by)],
        [_] => return vec![message],
        _ => {}
    }
    // Foreign keys belong to the user's message.
    let own = pieces.iter().rposition(|piece| !piece.is_note);
    let mut messages = Vec::with_capacity(pieces.len());
    for (n, piece) in pieces.into_iter().enumerate() {
        let is_note = piece.is_note;
        let mut said = Message { timestamp: message.timestamp, ..Message::user(piece.into_content()) };
        if own == Some(n) {
            said.extra.clone_from(&message.extra);
        }
        messages.push(if is_note { said.noted_by(by) } else { said });
    }
    messages
}

/// Returns the place of the first note of a session in which no message is the user's, and none stands for
/// some: it counts as the user's, so that there is something to work on.
pub(crate) fn without_user<'m>(messages: impl IntoIterator<Item = &'m Message>) -> Option<usize> {
    let mut first = None;
    for (place, message) in messages.into_iter().enumerate() {
        if message.starts_turn() || message.is_compacted {
            return None;
        }
        if message.role() == Role::User {
            first = first.or(Some(place));
        }
    }
    first
}

/// Adjacent parts of a content with one author.
struct Piece {
    parts: Vec<Part>,
    is_note: bool,
}

impl Piece {
    fn into_content(self) -> Content {
        match <[Part; 1]>::try_from(self.parts) {
            Ok([Part::Text(text)]) => Content::Text(text),
            Ok([media]) => Content::Parts(vec![media]),
            Err(parts) => Content::Parts(parts),
        }
    }
}

/// The pieces of a content, each as long as possible.
#[derive(Default)]
struct Pieces(Vec<Piece>);

impl Pieces {
    fn of(content: &Content) -> Self {
        let mut pieces = Self::default();
        let parts = match content {
            Content::Text(text) => {
                pieces.add_text(text);
                return pieces;
            }
            Content::Parts(parts) => parts,
        };
        let mut is_announced = false;
        for part in parts {
            let Part::Text(text) = part else {
                pieces.add(part.clone(), false);
                continue;
            };
            // Cline announces a result in one part and sends it in the next.
            let is_result = is_announced && !has_answer(text);
            is_announced = is_announcement(text);
            if is_result { pieces.add(part.clone(), true) } else { pieces.add_text(text) }
        }
        pieces
    }

    fn add_text(&mut self, text: &str) {
        let texts = split_text(text);
        if texts.is_empty() {
            self.add(Part::Text(text.to_owned()), false);
        }
        for (text, is_note) in texts {
            self.add(Part::Text(text.to_owned()), is_note);
        }
    }

    fn add(&mut self, part: Part, is_note: bool) {
        match self.0.last_mut().filter(|last| last.is_note == is_note) {
            Some(last) => last.parts.push(part),
            None => self.0.push(Piece { parts: vec![part], is_note }),
        }
    }
}

/// Splits a text into pieces, each with whether a harness wrote it: blocks and markers at its beginning and
/// at its end are. In between the text is the user's, whatever is quoted there.
fn split_text(text: &str) -> Vec<(&str, bool)> {
    let mut pieces: Vec<(usize, bool)> = Vec::new();
    let mut start = 0;
    while let Some((length, is_note)) = leading_block(text, start) {
        pieces.push((start, is_note));
        start += length;
    }
    let mut end = text.len();
    let mut trailing = Vec::new();
    while let Some(at) = trailing_block(&text[start..end]) {
        end = start + at;
        trailing.push((end, true));
    }
    if !is_blank(&text[start..end]) {
        pieces.push((start, is_result(&text[start..end])));
    }
    pieces.extend(trailing.into_iter().rev());
    pieces.dedup_by_key(|(_, is_note)| *is_note);
    // A blank beginning or end belongs to the piece beside it.
    let starts = pieces.iter().enumerate().map(|(n, (at, _))| if n == 0 { 0 } else { *at });
    let ends = starts.clone().skip(1).chain([text.len()]);
    let texts: Vec<&str> = starts.zip(ends).map(|(start, end)| &text[start..end]).collect();
    texts.into_iter().zip(pieces).map(|(text, (_, is_note))| (text, is_note)).collect()
}

/// Returns the length of the block or marker at `start`, up to the next visible character, and whether a
/// harness wrote it.
fn leading_block(text: &str, start: usize) -> Option<(usize, bool)> {
    let (before, text) = text.split_at(start);
    let blank = text.len() - text.trim_start().len();
    let block = &text[blank..];
    let (length, is_note) = match block.as_bytes().first()? {
        b'[' => (marker(block)?, true),
        b'#' => (rules(block)?, true),
        b'<' => {
            let tag = TAGS.into_iter().find(|tag| opens(block, tag))?;
            let length = if tag == INSTRUCTIONS { None } else { block_length(block, tag) }?;
            let is_request =
                tag == COMMAND_ARGUMENTS && is_prompt(before) && !is_empty_block(&block[..length]);
            (length, !is_request)
        }
        _ => return None,
    };
    let rest = &block[length..];
    Some((blank + length + rest.len() - rest.trim_start().len(), is_note))
}

/// Returns the start of the block that `text` ends with, including the blank lines before it.
fn trailing_block(text: &str) -> Option<usize> {
    let block_end = text.trim_end();
    let start = if block_end.ends_with('>') {
        let is_closed = |tag: &&str| {
            block_end
                .strip_suffix('>')
                .and_then(|rest| rest.strip_suffix(*tag))
                .is_some_and(|rest| rest.ends_with("</"))
        };
        let tag = TAGS
            .into_iter()
            .filter(|tag| *tag != INSTRUCTIONS && *tag != COMMAND_ARGUMENTS)
            .find(is_closed)?;
        let open = format!("\n<{tag}");
        let start = block_end
            .rfind(&open)
            .map(|at| at + 1)
            .or_else(|| block_end.starts_with(&open[1..]).then_some(0))?;
        opens(&block_end[start..], tag).then_some(start)?
    } else {
        let line = block_end.rfind('\n').map_or(0, |at| at + 1);
        marker(&block_end[line..]).map(|_| line)?
    };
    Some(text[..start].trim_end().len())
}

/// Checks whether `text` begins with the opening tag of `tag`, with or without attributes.
fn opens(text: &str, tag: &str) -> bool {
    let rest = text.strip_prefix('<').and_then(|text| text.strip_prefix(tag));
    rest.is_some_and(|rest| rest.starts_with(['>', ' ', '\n']))
}

/// Returns the length of the block of `tag` at the start of `text`: its end is a closing tag that is the last
/// of its line, or directly before another tag.
fn block_length(text: &str, tag: &str) -> Option<usize> {
    let close = format!("</{}>", tag);
    text.match_indices(&close).map(|(at, _)| at + close.len()).find(|end| {
        text[*end..]
            .trim_start_matches([' ', '\t', '\r'])
            .chars()
            .next()
            .is_none_or(|c| matches!(c, '\n' | '<'))
    })
}

/// Checks whether the command that `before` names is a prompt for the model, rather than one of Claude Code's
/// own such as `/model`: those have their name first.
fn is_prompt(before: &str) -> bool {
    before.rfind("<command-name>") > before.rfind("<command-message>")
}

fn is_empty_block(block: &str) -> bool {
    let inside = block.split_once('>').and_then(|(_, rest)| rest.rsplit_once("</"));
    inside.is_some_and(|(inside, _)| is_blank(inside))
}

/// Returns the length of a marker that is a line of its own.
fn marker(text: &str) -> Option<usize> {
    let line = text.lines().next()?.trim_end();
    MARKERS.contains(&line).then_some(line.len())
}

/// Returns the length of a project's rules with their heading.
fn rules(text: &str) -> Option<usize> {
    let (heading, rest) = text.split_once('\n').filter(|(heading, _)| heading.starts_with(RULES_HEADING))?;
    let block = rest.trim_start();
    let before = heading.len() + 1 + rest.len() - block.len();
    let length = if opens(block, INSTRUCTIONS) { block_length(block, INSTRUCTIONS) } else { None }?;
    Some(before + length)
}

/// Checks whether `text` is the result of a call, sent as a user message by a harness whose model has no form
/// for calls, without an answer of the user in it.
fn is_result(text: &str) -> bool {
    let line = text.trim_start().lines().next().unwrap_or_default();
    let is_openhands = line.strip_prefix("EXECUTION RESULT of [").is_some_and(|rest| rest.ends_with("]:"));
    (is_openhands || announces_result(line)) && !has_answer(text)
}

/// Checks whether `text` is only the line that announces a result, as in `[read_file for 'a.rs'] Result:`.
fn is_announcement(text: &str) -> bool {
    let text = text.trim();
    !text.contains('\n') && announces_result(text)
}

fn announces_result(line: &str) -> bool {
    let inside = line.trim_end().strip_prefix('[').and_then(|line| line.strip_suffix("] Result:"));
    let tool = inside.and_then(|inside| inside.split(' ').next()).unwrap_or_default();
    !tool.is_empty() && tool.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn has_answer(text: &str) -> bool {
    ANSWERS.iter().any(|tag| text.contains(tag))
}
