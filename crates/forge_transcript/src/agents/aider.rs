//! Chat histories of aider: Markdown, with a mark at the lines of the user and of the tools.

use std::ops::Range;

use forge_domain::{Message, Role};
use serde_json::Value;

use crate::any_blocks::messages_of;
use crate::codec::{EntryFormat, Evidence, Listing};
use crate::format::FormatFacts;

/// The author of what aider itself prints.
const BY: &str = "aider";
/// The first line of a chat.
const START: &str = "# aider chat started at ";
/// The first words of the lines by which aider introduces itself at the start of each chat.
const BANNER: [&str; 9] = [
    "Aider v",
    "Main model: ",
    "Model: ",
    "Models: ",
    "Weak model: ",
    "Editor model: ",
    "Git repo: ",
    "Repo-map: ",
    "Use /help ",
];
/// The first words of the report on edits that could not be made, which aider sends to the model: it marks
/// only the line before them as its own. Then the first words of its last lines; those after the first may be
/// missing.
const REPORT: &str = "## SearchReplaceNoExactMatch: ";
const END_OF_REPORT: [&str; 4] = [
    "The SEARCH section must exactly match",
    "# The other ",
    "Don't re-send them.",
    "Just reply with fixed version",
];
/// The first words of the parts of the prompt that aider makes of a question about itself, with its manual,
/// and logs with the user's mark.
const QUESTION: &str = "# Question: ";
const MANUAL: &str = "\n# Relevant docs:";
/// The first words of the line below a command that aider offers to run, of which it marks the first line
/// alone, and the most lines of such a command.
const OFFER: &str = "> Run shell command";
const OFFERED_LINES: usize = 50;
/// The words of a question of aider's, which it logs with the user's mark if an earlier answer is enough.
const ASKED_AGAIN: &str = "(Y)es/(N)o";
/// The words of the prompt that aider makes of comments in files that it watches, and its mark before them.
const WATCHED: [&str; 2] = ["\"AI\" comments", "(marked with █)"];
const WATCHED_MARK: char = '█';

/// The format of aider.
pub(super) struct Aider;

impl EntryFormat for Aider {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "aider",
        name: "aider chat histories",
        description: "Markdown with \"# aider chat started at\"",
        protocol: None,
    };
    const IS_LINES: bool = false;

    fn detect(evidence: &Evidence<'_>) -> bool {
        let is_markdown = !evidence.text.starts_with(['{', '[']);
        is_markdown && evidence.text.lines().take(2_000).any(|line| line.starts_with(START))
    }

    /// Lists the chats, named by the times at which they started. Chats without a word are left out.
    fn sessions(text: &str) -> Result<Vec<Listing<'_>>, serde_json::Error> {
        let mut chats: Vec<Listing<'_>> = Vec::new();
        let mut start = 0;
        let mut last = None;
        let mut at = 0;
        // The place of the line before, if it is empty.
        let mut blank = 0;
        // The end of what aider prints without a mark.
        let mut end_of_own = 0;
        // The place up to which no report has an end.
        let mut no_end_before = 0;
        let mut end_of_quote = 0;
        let [are_ended, are_printed_ended] =
            [Speaker::User, Speaker::Tool].map(|speaker| are_ended(text, speaker));
        for line in text.split_inclusive('\n') {
            let end = at + line.len();
            if at >= end_of_own {
                let is_below = last == Some(Speaker::Tool) && blank == at;
                let offered = if is_below { offered_length(&text[at..]) } else { 0 };
                let reported = if at >= no_end_before { report(&text[at..]) } else { Reported::Nothing };
                let reported = match reported {
                    Reported::Whole(length) => length,
                    Reported::WithoutEnd(length) => {
                        no_end_before = at + length;
                        0
                    }
                    Reported::Nothing => 0,
                };
                end_of_own = at + reported.max(offered);
            }
            if at >= end_of_quote && are_printed_ended && last == Some(Speaker::Model) {
                end_of_quote = at + quote_length(&text[at..]);
            }
            let speaker = match Speaker::of(line) {
                _ if at < end_of_own => Some(Speaker::Tool),
                _ if at < end_of_quote => Some(Speaker::Model),
                // A heading in what the model says.
                Some(Speaker::User) if are_ended && !is_ended(line) => Some(Speaker::Model),
                speaker => speaker,
            };
            if let Some(title) = line.strip_prefix(START) {
                close(text, start..at, &mut last, &mut chats);
                chats.push(Listing::default().named(title.trim()));
                start = end;
            } else if let Some(speaker) = speaker.filter(|speaker| last != Some(*speaker)) {
                let command = match last {
                    Some(Speaker::User) => Some(&text[start..at]),
                    Some(Speaker::Tool) => chats.last().and_then(|chat| chat.entries.last().copied()),
                    Some(Speaker::Model) | None => None,
                };
                if speaker == Speaker::Model && command.is_some_and(answers_itself) {
                    // The output of a command stays with it, or with what aider said before it.
                    if last == Some(Speaker::User) {
                        last = Some(Speaker::Model);
                    }
                } else {
                    let begin = if speaker == Speaker::Model { blank } else { at };
                    close(text, start..begin, &mut last, &mut chats);
                    last = Some(speaker);
                    start = begin;
                }
            }
            blank = if line.trim().is_empty() { at } else { end };
            at = end;
        }
        close(text, start..text.len(), &mut last, &mut chats);
        chats.retain(|chat| !chat.entries.is_empty());
        Ok(chats)
    }

    fn messages(_: &Value) -> Vec<Message> {
        Vec::new()
    }

    fn text_messages(passage: &str) -> Vec<Message> {
        let is_headed = passage.lines().next().is_some_and(|line| line.trim().is_empty());
        let speaker = passage.lines().find_map(Speaker::of);
        // The user's passage begins with its mark; before a heading of the model's there is an empty line.
        let speaker = speaker.map(|speaker| if is_headed { Speaker::Model } else { speaker });
        match speaker {
            Some(Speaker::User) => user_messages(passage),
            Some(Speaker::Tool) => notes(&without_marks(passage, TOOL_MARK)),
            Some(Speaker::Model) if matches!(report(passage), Reported::Whole(_)) => {
                vec![note(&without_marks(passage, TOOL_MARK))]
            }
            Some(Speaker::Model) => {
                let [end, again] = parts_of_reply(passage);
                let said = without_marks(&passage[..end], "");
                let mut messages =
                    messages_of(Role::Assistant, &Value::String(without_thoughts(&said).to_owned()));
                let others = [(&passage[end..again], TOOL_MARK), (&passage[again..], MARK)];
                let others = others.map(|(text, mark)| without_marks(text, mark));
                messages.extend(others.iter().filter(|text| !text.is_empty()).map(|text| note(text)));
                messages
            }
            None => Vec::new(),
        }
    }
}

/// Returns what aider itself prints as a note.
fn note(text: &str) -> Message {
    Message::user(text).noted_by(BY)
}

/// Returns what aider itself prints as notes: it introduces itself again at each start.
fn notes(text: &str) -> Vec<Message> {
    // The command, and what aider asks first, stand before it.
    let is_other = |line: &&str| !line.starts_with(BANNER[0]);
    let start = text.split_inclusive('\n').take_while(is_other).map(str::len).sum::<usize>();
    let is_banner = |line: &&str| BANNER.iter().any(|words| line.starts_with(words));
    let length = text[start..].split_inclusive('\n').take_while(is_banner).map(str::len).sum::<usize>();
    if length == 0 {
        return vec![note(text)];
    }
    let (banner, rest) = text.split_at(start + length);
    let banner = note(banner.trim_end()).renewed();
    let rest = Some(rest.trim_matches('\n')).filter(|rest| !rest.is_empty()).map(note);
    std::iter::once(banner).chain(rest).collect()
}

/// The length of a report on edits that could not be made, or of that part of a text in which none ends.
enum Reported {
    Whole(usize),
    WithoutEnd(usize),
    Nothing,
}

/// Returns the report on edits that could not be made with which a text begins.
fn report(text: &str) -> Reported {
    if !text.starts_with(REPORT) {
        return Reported::Nothing;
    }
    let is_end = |line: &&str| line.starts_with(END_OF_REPORT[0]);
    let is_of_others =
        |line: &&str| line.starts_with(START) || Speaker::of(line) == Some(Speaker::User) && is_ended(line);
    let lines = text.split_inclusive('\n').take_while(|line| !is_end(line) && !is_of_others(line));
    let length = lines.map(str::len).sum::<usize>();
    let mut rest = text[length..].split_inclusive('\n');
    let Some(end) = rest.next().filter(is_end) else { return Reported::WithoutEnd(length) };
    let is_last = |line: &&str| {
        line.trim().is_empty() || END_OF_REPORT[1..].iter().any(|words| line.starts_with(words))
    };
    Reported::Whole(length + end.len() + rest.take_while(is_last).map(str::len).sum::<usize>())
}

/// Returns the length of the rest of a command that aider offers to run with which a text begins; 0 if it
/// begins with anything else.
fn offered_length(text: &str) -> usize {
    let is_of_command = |line: &&str| Speaker::of(line).is_none_or(|speaker| speaker == Speaker::Model);
    let lines = text.split_inclusive('\n').take(OFFERED_LINES).take_while(is_of_command);
    let length = lines.map(str::len).sum::<usize>();
    if text[length..].starts_with(OFFER) { length } else { 0 }
}

/// Returns the length of a quotation within a reply with which a text begins; 0 if it begins with anything
/// else. What aider prints has two blanks at its end, and no reply continues below it without a line of its
/// own.
fn quote_length(text: &str) -> usize {
    let is_quoted = |line: &&str| Speaker::of(line) == Some(Speaker::Tool) && !is_ended(line);
    let length = text.split_inclusive('\n').take_while(is_quoted).map(str::len).sum::<usize>();
    if length == 0 {
        return 0;
    }
    let mut below = text[length..].lines();
    let is_apart = below.next().is_some_and(|line| line.trim().is_empty());
    let next = below.find(|line| !line.trim().is_empty());
    let is_said = next.is_some_and(|line| {
        let is_other = line.starts_with(REPORT) || line.starts_with(START);
        !is_other && Speaker::of(line) == Some(Speaker::Model)
    });
    if is_apart && is_said { length } else { 0 }
}

/// Returns a passage without the marks of its speaker.
fn without_marks(passage: &str, mark: &str) -> String {
    plain_lines(passage, mark).collect::<Vec<&str>>().join("\n").trim_matches('\n').to_owned()
}

/// Returns each line of a passage without the mark of their speaker.
fn plain_lines<'a>(passage: &'a str, mark: &str) -> impl Iterator<Item = &'a str> {
    passage.lines().map(move |line| {
        let line = line.trim_end();
        let marked = line.strip_prefix(mark).filter(|rest| rest.is_empty() || rest.starts_with(' '));
        match marked {
            Some(rest) if !mark.is_empty() => rest.strip_prefix(' ').unwrap_or(rest),
            _ => line,
        }
    })
}

/// Checks whether a passage of the user's is the reply before it, which aider gave the model that edits.
/// Empty lines around them do not count. The first line that differs ends the comparison.
fn repeats(reply: &str, passage: &str) -> bool {
    let is_blank = |line: &&str| line.trim().is_empty();
    let mut said = plain_lines(reply, "").skip_while(is_blank);
    let mut again = plain_lines(passage, MARK).skip_while(is_blank);
    if said.next().map(str::trim) != again.next().map(str::trim) {
        return false;
    }
    loop {
        match (said.next(), again.next()) {
            (None, None) => return true,
            (Some(one), Some(other)) if one == other => {}
            (one, other) => {
                let mut rest = [one, other].into_iter().flatten().chain(said).chain(again);
                return rest.all(|line| is_blank(&line));
            }
        }
    }
}

/// Returns where a reply without thoughts ends in the text before a passage of the user's, if the passage
/// repeats it. What aider printed may stand between them.
fn end_if_repeated(before: &str, passage: &str) -> Option<usize> {
    let is_printed = |line: &&str| matches!(Speaker::of(line), None | Some(Speaker::Tool));
    let printed = before.split_inclusive('\n').rev().take_while(is_printed).map(str::len).sum::<usize>();
    let end = before.len() - printed;
    (end > 0 && repeats(&before[..end], passage)).then_some(end)
}

/// Returns where the reply ends in a passage of the model's, and where its repetition begins, if it has one.
fn parts_of_reply(passage: &str) -> [usize; 2] {
    let start = passage.len() - without_thoughts(passage).trim_start().len();
    let places = passage.match_indices(MARK).map(|(at, _)| at).filter(|at| *at > start);
    let mut begins = places.filter(|at| passage[..*at].ends_with('\n'));
    let end_before = |at: usize| Some(start + end_if_repeated(&passage[start..at], &passage[at..])?);
    let parts = begins.find_map(|at| end_before(at).map(|end| [end, at]));
    parts.unwrap_or([passage.len(); 2])
}

/// The origin of an input that has the user's mark.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Input {
    /// The user typed it for a model.
    Said,
    /// The user wrote it into a file, and aider made a prompt of it.
    Watched,
    /// The words behind a command, a second time.
    Again,
    /// A command to aider itself, or a text that it made.
    Own,
}

impl Input {
    /// Returns the origin of a text; `asked` are the words behind the command before it.
    fn of(text: &str, asked: Option<&str>) -> Self {
        let is_manual = asked.is_some() && text.starts_with(QUESTION) && text.contains(MANUAL);
        let is_asked_again = !text.contains('\n') && text.contains(ASKED_AGAIN);
        if asked == Some(text.trim()) {
            Self::Again
        } else if is_manual || is_asked_again || is_own_command(text) {
            Self::Own
        } else if WATCHED.iter().all(|words| text.contains(words)) && !watched(text).is_empty() {
            Self::Watched
        } else {
            Self::Said
        }
    }
}

/// Returns what the user wrote into files, of a prompt that aider made of it.
fn watched(prompt: &str) -> String {
    let lines = prompt.lines().filter_map(|line| line.strip_prefix(WATCHED_MARK));
    lines.map(str::trim).collect::<Vec<&str>>().join("\n")
}

/// Returns the messages of a passage of the user's: what they typed, and what aider made of that. It logs the
/// words behind a command a second time, and the output of a command that no model answers without a mark.
fn user_messages(passage: &str) -> Vec<Message> {
    let is_marked = |line: &&str| Speaker::of(line).is_none_or(|speaker| speaker == Speaker::User);
    let end = passage.split_inclusive('\n').take_while(is_marked).map(str::len).sum::<usize>();
    let mut pieces: Vec<(Input, Range<usize>)> = Vec::new();
    let mut asked: Option<String> = None;
    for range in inputs(&passage[..end]) {
        let text = without_marks(&passage[range.clone()], MARK);
        let input = Input::of(&text, asked.as_deref());
        if input != Input::Own {
            asked = command_words(&text).filter(|_| input == Input::Said).map(str::to_owned);
        }
        match pieces.last_mut().filter(|piece| piece.0 == input) {
            Some((_, piece)) => piece.end = range.end,
            None => pieces.push((input, range)),
        }
    }
    let mut messages = Vec::new();
    for (input, range) in pieces {
        let text = without_marks(&passage[range], MARK);
        match input {
            Input::Said => messages.extend(say(typed(&text))),
            Input::Watched => {
                messages.push(note(&text));
                messages.extend(say(&watched(&text)));
            }
            Input::Again => {}
            Input::Own => messages.push(note(&text)),
        }
    }
    let output = without_marks(&passage[end..], "");
    if !output.is_empty() {
        messages.push(note(&output));
    }
    messages
}

/// Returns the message of the user's with such a text.
fn say(text: &str) -> Vec<Message> {
    messages_of(Role::User, &Value::String(text.to_owned()))
}

/// Returns the inputs of a passage of the user's: aider writes an empty line before each.
fn inputs(passage: &str) -> Vec<Range<usize>> {
    let mut inputs: Vec<Range<usize>> = Vec::new();
    let mut is_below_blank = true;
    let mut at = 0;
    for line in passage.split_inclusive('\n') {
        let end = at + line.len();
        let is_blank = line.trim().is_empty();
        match inputs.last_mut().filter(|_| is_blank || !is_below_blank) {
            Some(input) => input.end = end,
            None => inputs.push(at..end),
        }
        (is_below_blank, at) = (is_blank, end);
    }
    inputs
}

/// Returns the words behind a command.
fn command_words(said: &str) -> Option<&str> {
    said.split_once(char::is_whitespace).filter(|_| said.starts_with('/')).map(|(_, words)| words.trim())
}

/// Returns what the user typed, without the second time of the words behind a command.
fn typed(said: &str) -> &str {
    let command = said.split_once(char::is_whitespace).filter(|_| said.starts_with('/'));
    let Some((_, words)) = command else { return said };
    let is_twice = |at: &usize| words[..*at].trim() == words[*at..].trim();
    let twice = words.match_indices("\n\n").map(|(at, _)| at).find(is_twice);
    twice.map_or(said, |at| &said[..said.len() - words.len() + at])
}

/// The mark of the user's lines, and of those that aider itself prints.
const MARK: &str = "####";
const TOOL_MARK: &str = ">";
/// The command for aider's manual.
const HELP: &str = "/help";
/// Commands that aider answers itself, without a model.
const ANSWERED: [&str; 9] =
    ["/diff", "/git", HELP, "/ls", "/map", "/map-refresh", "/run", "/settings", "/tokens"];

/// Commands that only change what aider does next, or the files.
const SETTING: [&str; 22] = [
    "/add",
    "/chat-mode",
    "/clear",
    "/commit",
    "/copy",
    "/copy-context",
    "/drop",
    "/editor-model",
    "/exit",
    "/lint",
    "/load",
    "/model",
    "/multiline-mode",
    "/paste",
    "/quit",
    "/read-only",
    "/reasoning-effort",
    "/reset",
    "/save",
    "/think-tokens",
    "/undo",
    "/weak-model",
];
/// Commands that ask a model, if words follow; else they choose who is asked next.
const ASKING: [&str; 5] = ["/architect", "/ask", "/code", "/context", HELP];

/// Checks whether a passage of the user's ends with a command that aider answers itself.
fn answers_itself(passage: &str) -> bool {
    let last = inputs(passage).pop().unwrap_or_default();
    let said = without_marks(&passage[last], MARK);
    let command = said.split_whitespace().next();
    is_own_command(&said) && command.is_some_and(|command| ANSWERED.contains(&command))
}

/// Checks whether the user typed a command to aider itself, which no model sees.
fn is_own_command(said: &str) -> bool {
    let mut words = said.split_whitespace();
    let Some(command) = words.next() else { return false };
    match ASKING.contains(&command) {
        true => words.next().is_none(),
        false => ANSWERED.contains(&command) || SETTING.contains(&command),
    }
}

/// The tag in which aider logs what a model thinks, up to its own number.
const THOUGHTS: &str = "thinking-content-";

/// Returns a reply without what the model thought before it.
fn without_thoughts(reply: &str) -> &str {
    let tag = reply.trim_start().strip_prefix('<').filter(|rest| rest.starts_with(THOUGHTS));
    let tag = tag.and_then(|rest| rest.split_once('>')).map(|(tag, _)| tag);
    let after = tag.and_then(|tag| reply.split_once(&format!("</{tag}>")));
    after.map_or(reply, |(_, said)| said.trim_start())
}

/// The speaker of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Speaker {
    User,
    Tool,
    Model,
}

impl Speaker {
    /// Returns the speaker of `line`; none if it is empty.
    fn of(line: &str) -> Option<Self> {
        match line.trim() {
            "" => None,
            // Formatters strip the blanks of an empty line.
            "####" if line.starts_with('#') => Some(Self::User),
            _ if line.starts_with("#### ") => Some(Self::User),
            ">" if line.starts_with('>') => Some(Self::Tool),
            _ if line.starts_with("> ") => Some(Self::Tool),
            _ => Some(Self::Model),
        }
    }
}

/// Checks whether most lines with the mark of a speaker end as aider ends them: other tools strip the blanks.
fn are_ended(text: &str, speaker: Speaker) -> bool {
    let marked = || text.lines().filter(|line| Speaker::of(line) == Some(speaker));
    marked().filter(|line| is_ended(line)).count() * 2 > marked().count()
}

/// Checks whether a line ends with the two blanks that aider writes after each line of the user's.
fn is_ended(line: &str) -> bool {
    line.trim_end_matches(['\r', '\n']).ends_with("  ")
}

/// Adds a passage of `text` to the last chat.
fn close<'a>(text: &'a str, range: Range<usize>, last: &mut Option<Speaker>, chats: &mut Vec<Listing<'a>>) {
    let Some(speaker) = last.take() else { return };
    if chats.is_empty() {
        chats.push(Listing::default());
    }
    let Some(chat) = chats.last_mut() else { return };
    let passage = &text[range.clone()];
    let n_entries = chat.entries.len();
    let start_of = |nth: usize| chat.entries[nth].as_ptr() as usize - text.as_ptr() as usize;
    let is_repeated = |nth: &usize| {
        let before = without_thoughts(&text[start_of(*nth)..range.start]);
        end_if_repeated(before, passage).is_some()
    };
    // What aider prints may stand between a reply and its repetition.
    let newest = (n_entries.saturating_sub(2)..n_entries).rev();
    let reply = newest.filter(|_| speaker == Speaker::User).find(is_repeated);
    let start = reply.map_or(range.start, start_of);
    chat.entries.truncate(reply.unwrap_or(n_entries));
    chat.entries.push(&text[start..range.end]);
}
