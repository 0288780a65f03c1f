//! The features of a message's text, line by line: computed once, when they are first needed.

mod markup;
mod signature;
mod term;

use std::ops::Range;

use serde_json::Value;

use self::markup::{is_markup, pieces_between};
pub(crate) use self::signature::Signature;
pub(crate) use self::term::{ByTerm, Kind, Term, TermHasher, form_hash, hash};
use super::arguments::{
    ASIDE, COMMANDS, DESCRIPTION, FOLDERS, PATCH_END, PATCH_START, PATHS, is_of_old, tells_what,
};
use super::envelope::unwrapped;
use crate::conversation::is_word_by_itself;
use crate::{Body, ContextMessage, Message, ToolCall};

/// The lines of a message and the terms in them.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Features {
    /// The text that the lines are ranges of: the message's text, then each call with its argument values.
    pub(crate) text: String,
    /// The lines in order; blank ones are left out and long ones are several.
    pub(crate) lines: Vec<Line>,
    /// The number of lines of the text as a program counts them, blank ones included.
    pub(crate) n_text_lines: u32,
    /// The distinct terms of all lines.
    pub(crate) terms: Vec<Term>,
    /// The terms of each line: their numbers, and where the word is. A ranking of lines needs the numbers
    /// alone.
    places: Vec<u32>,
    words: Vec<Word>,
    /// A quick check whether two texts are nearly the same.
    pub(crate) signature: Signature,
}

/// A line, or a piece of a long one.
#[derive(Debug, PartialEq)]
pub(crate) struct Line {
    /// Its bytes in the text.
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// Its part of the places.
    places_from: u32,
    n_places: u16,
    /// True if it is from a tool call.
    pub(crate) is_call: bool,
    /// True if a tool call begins with it.
    pub(crate) begins_call: bool,
    /// True if it is from an argument that holds what another one replaces.
    pub(crate) is_old: bool,
}

impl Line {
    fn range(&self) -> Range<usize> {
        let from = self.places_from as usize;
        from..from + usize::from(self.n_places)
    }
}

/// The position of a term's first occurrence in a line, and its length, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    at: u16,
    len: u16,
}

/// Checks whether `c` ends a line for any reader: a program or a model.
pub(crate) const fn is_line_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// The characters that end a sentence.
pub(crate) const SENTENCE_ENDS: [char; 9] = ['.', '!', '?', '。', '！', '？', '।', '۔', '؟'];
/// Most characters of a line; a longer one is several.
const LINE_CHARS: usize = 220;
/// A piece of a line ends with a sentence that takes at least this part of it.
const LEAST_SENTENCE: usize = 3;

impl ContextMessage {
    /// Returns the features of its lines, computed once.
    pub(crate) fn features(&self) -> &Features {
        self.form(Features::of)
    }
}

impl Features {
    pub(crate) fn of(message: &Message) -> Self {
        let Written { mut text, old, calls, .. } = Written::of(message);
        let mut reading = Reading::default();
        let (mut start, mut n_text_lines) = (0, u32::from(!text.is_empty() && !text.ends_with('\n')));
        let is_answer = matches!(message.body, Body::Assistant { .. }) && calls.is_empty();
        let pieces = if is_answer && is_markup(&text) { pieces_between } else { pieces };
        for line in text.split_inclusive(is_line_break) {
            n_text_lines += u32::from(line.ends_with('\n'));
            for (from, to) in pieces(line) {
                let at = start + from;
                reading.take(
                    &line[from..to],
                    at,
                    Place {
                        is_call: calls.first().is_some_and(|first| at >= *first),
                        begins_call: calls.contains(&at),
                        is_old: old.iter().any(|old| old.contains(&at)),
                    },
                );
            }
            start += line.len();
        }
        let Self { mut lines, mut terms, mut places, mut words, .. } = reading.features;
        text.shrink_to_fit();
        lines.shrink_to_fit();
        terms.shrink_to_fit();
        places.shrink_to_fit();
        words.shrink_to_fit();
        let signature = Signature::of(&terms);
        Self { text, lines, n_text_lines, terms, places, words, signature }
    }

    /// Returns the numbers of the terms of `line`, each once, in order.
    pub(crate) fn places(&self, line: &Line) -> &[u32] {
        &self.places[line.range()]
    }

    /// Iterates over those of the places of `line` whose word begins before `end`, a byte of the text.
    pub(crate) fn places_before(&self, line: &Line, end: u32) -> impl Iterator<Item = u32> {
        let words = &self.words[line.range()];
        let places = self.places(line).iter().zip(words);
        places.filter(move |(_, word)| line.start + u32::from(word.at) < end).map(|(place, _)| *place)
    }

    /// Returns the word for the term of `line` at `nth` of its places.
    pub(crate) fn word(&self, line: &Line, nth: usize) -> &str {
        let word = self.words[line.range()][nth];
        let start = line.start as usize + usize::from(word.at);
        &self.text[start..start + usize::from(word.len)]
    }

    /// Returns the text before the calls, which is what somebody says.
    pub(crate) fn beside_calls(&self) -> &str {
        let call = self.lines.iter().find(|line| line.is_call);
        &self.text[..call.map_or(self.text.len(), |call| call.start as usize)]
    }

    pub(crate) fn line(&self, line: &Line) -> &str {
        &self.text[line.start as usize..line.end as usize]
    }

    /// Checks whether two lines that follow each other are pieces of one.
    pub(crate) fn is_one_line(&self, line: &Line, next: &Line) -> bool {
        !self.text[line.end as usize..next.start as usize].contains(is_line_break)
    }
}

/// The features of what was read so far.
#[derive(Default)]
struct Reading {
    features: Features,
    /// The number of each term by its hash.
    numbers: ByTerm<u32>,
    /// For each term one more than the number of the last line that has it.
    last_lines: Vec<u32>,
}

/// The part of a message that a line is from.
struct Place {
    is_call: bool,
    begins_call: bool,
    is_old: bool,
}

impl Reading {
    /// Adds a line that starts at `start`, if it has any term.
    fn take(&mut self, piece: &str, start: usize, Place { is_call, begins_call, is_old }: Place) {
        let places_from = self.features.places.len();
        terms(piece, &mut |word, kind| self.place(piece, word, kind, is_call));
        let n_places = self.features.places.len() - places_from;
        if n_places > 0 {
            self.features.lines.push(Line {
                start: start as u32,
                end: (start + piece.len()) as u32,
                places_from: places_from as u32,
                n_places: n_places as u16,
                is_call,
                begins_call,
                is_old,
            });
        }
    }

    fn place(&mut self, piece: &str, word: &str, kind: Kind, is_call: bool) {
        let Features { lines, terms, places, words, .. } = &mut self.features;
        let term = Term::new(form_hash(word, kind), kind);
        let number = *self.numbers.entry(term.hash()).or_insert_with(|| {
            terms.push(term);
            self.last_lines.push(0);
            terms.len() as u32 - 1
        });
        terms[number as usize].take(kind, is_call);
        let last_line = &mut self.last_lines[number as usize];
        let this_line = lines.len() as u32 + 1;
        if *last_line != this_line {
            *last_line = this_line;
            let at = (word.as_ptr() as usize - piece.as_ptr() as usize) as u16;
            places.push(number);
            words.push(Word { at, len: word.len() as u16 });
        }
    }
}

/// Returns the text of a message's features alone, where nothing else of them is needed.
pub(crate) fn text_of(message: &Message) -> String {
    Written::of(message).text
}

/// The text of a message's features, as far as it is written.
struct Written {
    text: String,
    /// The parts of it that hold what other parts replace.
    old: Vec<Range<usize>>,
    /// The start of each call in it.
    calls: Vec<usize>,
    /// The end of the last argument of several lines.
    block_end: Option<usize>,
}

impl Written {
    fn of(message: &Message) -> Self {
        let text = match &message.body {
            Body::Tool(result) => unwrapped(result.content.text()).into_owned(),
            _ => message.to_text(),
        };
        let mut written = Self { text, old: Vec::new(), calls: Vec::new(), block_end: None };
        if let Body::Assistant { calls, .. } = &message.body {
            calls.iter().for_each(|call| written.push_call(call));
        }
        written
    }

    fn push_call(&mut self, call: &ToolCall) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.calls.push(self.text.len());
        self.text.push_str(call.name.as_str());
        match serde_json::from_str::<Value>(&call.arguments) {
            Ok(arguments) => self.push_values(&arguments),
            Err(_) => self.push_value(&call.arguments, call.arguments.contains(is_line_break)),
        }
    }

    fn push_values(&mut self, value: &Value) {
        let is_behind_block = self.block_end == Some(self.text.len());
        match value {
            // Behind a text, a number is a limit or another option, and a dot the folder.
            Value::Number(_) if is_behind_block => {}
            Value::String(dot) if is_behind_block && dot == "." => {}
            Value::String(value) => self.push_value(value, value.contains(is_line_break)),
            Value::Number(number) => self.push_value(&number.to_string(), false),
            Value::Array(values) => values.iter().for_each(|value| self.push_values(value)),
            Value::Object(fields) => {
                let has = |names: &[&str]| fields.keys().any(|name| names.contains(&name.as_str()));
                let runs = has(COMMANDS) && !has(PATHS);
                for (name, value) in fields {
                    // Beside a command, its folder and its limits are options: labels have what matters of
                    // them.
                    let is_option = runs && (value.is_number() || FOLDERS.contains(&name.as_str()));
                    if is_option || ASIDE.contains(&name.as_str()) {
                        continue;
                    }
                    if is_of_old(name) {
                        // Replaced text gets lines of its own.
                        self.text.push('\n');
                        let start = self.text.len();
                        self.push_values(value);
                        self.old.push(start..self.text.len());
                    } else if let Some(text) = value.as_str().filter(|text| *text != "." && !tells_what(name))
                    {
                        self.push_value(text, text.contains(is_line_break) || is_content(text));
                    } else if let Some(text) = value.as_str().filter(|_| runs && name == DESCRIPTION) {
                        // The purpose of a command is a sentence, on a line of its own.
                        self.push_value(text, true);
                    } else {
                        self.push_values(value);
                    }
                }
            }
            Value::Bool(_) | Value::Null => {}
        }
    }

    /// Appends a value: it continues the line, or, as a block, starts a new one and stands apart from what
    /// follows it.
    fn push_value(&mut self, value: &str, is_block: bool) {
        let is_behind = |end: Option<usize>| end == Some(self.text.len());
        let is_apart = is_behind(self.old.last().map(|old| old.end)) || is_behind(self.block_end);
        self.text.push_str(match (is_apart, is_block) {
            (true, _) => "\n\n",
            (false, true) => "\n",
            (false, false) => " ",
        });
        match value.split_once(PATCH_START) {
            Some((before, patch)) => {
                self.text.push_str(before);
                self.push_patch(patch);
            }
            None => self.text.push_str(value),
        }
        if is_block {
            self.block_end = Some(self.text.len());
        }
    }

    /// Appends what follows the first mark of a patch, without the marks: the lines as they are in the file,
    /// and those that leave it as old ones.
    fn push_patch(&mut self, patch: &str) {
        let (changes, after) = patch.split_once(PATCH_END).unwrap_or((patch, ""));
        for line in changes.lines() {
            let start = self.text.len();
            let is_old = line.starts_with('-');
            self.text.push_str(match line.strip_prefix(['-', '+', ' ']) {
                Some(rest) => rest,
                None if line.trim() == HUNK => "",
                None => line,
            });
            self.text.push('\n');
            match self.old.last_mut().filter(|old| is_old && old.end == start) {
                Some(old) => old.end = self.text.len(),
                None if is_old => self.old.push(start..self.text.len()),
                None => (),
            }
        }
        // A single word behind the patch ends the here-document that holds it.
        if after.split_whitespace().nth(1).is_some() {
            self.text.push_str(after);
        }
    }
}

/// An argument of one line with at least this many words is text that the call writes, not an option.
const LEAST_CONTENT: usize = 5;

fn is_content(line: &str) -> bool {
    line.split_whitespace().nth(LEAST_CONTENT - 1).is_some()
}

/// The mark of a part of a patch.
const HUNK: &str = "@@";

/// The marks between the number of a line and the line: a blank only in a column of numbers.
const NUMBER_ENDS: [char; 5] = [' ', '→', '\t', '|', ':'];

/// Splits a line into the number in front of it and the rest, as the tools that read files write it.
pub(crate) fn split_number(line: &str) -> Option<(u64, &str)> {
    // If the numbers are aligned, a blank may follow each of them in place of a mark.
    let marks = if line.starts_with("  ") { &NUMBER_ENDS[..] } else { &NUMBER_ENDS[1..] };
    let line = line.trim_start_matches(' ');
    let end = line.find(|c: char| !c.is_ascii_digit()).filter(|end| *end > 0 && !line.starts_with('0'))?;
    let rest = &line[end..];
    let rest = marks.iter().find_map(|mark| rest.strip_prefix(*mark))?;
    Some((line[..end].parse().ok()?, rest))
}

/// Returns the ranges of a line's pieces, without blanks around them. A piece of JSON ends with a field if it
/// has the end of one, any other with a sentence, else at a blank if there is one. A line of a file that has
/// only brackets after its number has none.
fn pieces(line: &str) -> Vec<(usize, usize)> {
    if split_number(line).is_some_and(|(_, rest)| !rest.contains(char::is_alphanumeric)) {
        return Vec::new();
    }
    let trimmed = line.trim();
    let from = line.len() - line.trim_start().len();
    let mut pieces = Vec::new();
    let (mut start, end) = (from, from + trimmed.len());
    let is_json = trimmed.starts_with("{\"") || trimmed.starts_with("[{");
    while start < end {
        let rest = &line[start..end];
        let too_long = (rest.len() > LINE_CHARS).then(|| rest.char_indices().nth(LINE_CHARS)).flatten();
        let cut = match too_long {
            None => rest.len(),
            Some((at, _)) => is_json
                .then(|| end_of_field(&rest[..at]))
                .flatten()
                .or_else(|| end_of_sentence(&rest[..at]))
                .unwrap_or_else(|| match rest[..at].rfind([' ', ',', ';']) {
                    Some(blank) if blank > at / 2 => blank + 1,
                    _ => at,
                }),
        };
        let piece = rest[..cut].trim_end();
        if !piece.is_empty() {
            pieces.push((start, start + piece.len()));
        }
        start += cut;
        start += line[start..end].len() - line[start..end].trim_start().len();
    }
    pieces
}

/// Returns the end of the last field of an object that ends in `text`, unless it is short.
fn end_of_field(text: &str) -> Option<usize> {
    let last = text.rfind(",\"")? + 1;
    (last > text.len() / LEAST_SENTENCE).then_some(last)
}

/// Returns the end of the last sentence that ends in `text`, unless it is short.
fn end_of_sentence(text: &str) -> Option<usize> {
    let ends = |(at, end): (usize, &str)| {
        let after = at + end.len();
        let is_wide = end.len() > 1;
        (is_wide || text[after..].starts_with(' ')).then_some(after)
    };
    let last = text.rmatch_indices(SENTENCE_ENDS).find_map(ends)?;
    (last > text.len() / LEAST_SENTENCE).then_some(last)
}

/// Tells the terms of a piece, in order, some more than once.
fn terms(piece: &str, add: &mut impl FnMut(&str, Kind)) {
    grouped_numbers(piece).for_each(|number| add(number, Kind::Symbol));
    for chunk in piece.split(ends_chunk).filter(|chunk| !chunk.is_empty()) {
        let chunk = without_escape(piece, chunk);
        let chunk =
            chunk.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '/' | '_' | '~' | '.' | '@'));
        let chunk = chunk.trim_end_matches(['.', '/', '-', ':']);
        if chunk.as_bytes().windows(3).any(|bytes| bytes == b"://") {
            add(chunk, Kind::Address);
            // The number of a page, an issue or an order.
            let path = chunk.split(['?', '#']).next().unwrap_or(chunk);
            path.rsplit('/').next().into_iter().for_each(|last| add_symbol(last, add));
            continue;
        }
        for part in chunk
            .split([':', '=', '(', ')', '[', ']', '{', '}', '<', '>', '*', '!', '?', '&', '$', '#', '%', '^'])
        {
            let part = part.trim_end_matches(['.', '-', '/']);
            if part.contains('/') && part.len() >= 4 {
                add(part, Kind::Address);
                // People name a file by its last part, with its extension or without.
                if let Some((_, name)) = part.rsplit_once('/').filter(|(_, name)| is_file(name)) {
                    add(name, Kind::Address);
                    name.rsplit_once('.').into_iter().for_each(|(stem, _)| add_symbol(stem, add));
                }
                continue;
            }
            if is_file(part) {
                add(part, Kind::Address);
            }
            // Their parts are no names by themselves, and would make any line look telling.
            if is_uuid(part) {
                add(part, Kind::Symbol);
                continue;
            }
            if let Some(date) = date_of_time(part) {
                add(date, Kind::Symbol);
                continue;
            }
            for word in
                part.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
            {
                if word.is_ascii() || !word.contains(is_word_by_itself) {
                    kind_in(piece, word).into_iter().for_each(|kind| add(word, kind));
                } else {
                    pairs(word, add);
                }
            }
            if part.contains('-') && part.bytes().any(|b| b.is_ascii_digit()) && part.len() >= 6 {
                add(part, Kind::Symbol);
            }
        }
    }
}

/// Iterates over the numbers of a piece that are written in groups of three digits, as `1,024`.
fn grouped_numbers(piece: &str) -> impl Iterator<Item = &str> {
    let has_groups = memchr::memchr(b',', piece.as_bytes()).is_some();
    let text = if has_groups { piece } else { "" };
    let runs = text.split(|c: char| !c.is_ascii_digit() && c != ',').map(|run| run.trim_matches(','));
    runs.filter(|run| {
        let mut groups = run.split(',').map(str::len);
        let first = groups.next().unwrap_or_default();
        (1..=3).contains(&first) && run.len() > first && groups.all(|n_digits| n_digits == 3)
    })
}

/// Tells a part of an address if it is a symbol: a plain word of it would be one among the words of the text.
fn add_symbol(part: &str, add: &mut impl FnMut(&str, Kind)) {
    if kind_of(part) == Some(Kind::Symbol) {
        add(part, Kind::Symbol);
    }
}

/// Tells the terms of a word in a script that writes words without spaces: each character with the next one,
/// since hardly a word is shorter; and what stands in other scripts between them.
fn pairs(word: &str, add: &mut impl FnMut(&str, Kind)) {
    let mut chars = word.char_indices().peekable();
    while let Some((at, first)) = chars.next() {
        if is_word_by_itself(first) {
            let second = chars.peek().filter(|(_, second)| is_word_by_itself(*second));
            let end = second.map_or(at + first.len_utf8(), |(next, second)| next + second.len_utf8());
            add(&word[at..end], Kind::Word);
            continue;
        }
        let mut end = at + first.len_utf8();
        while let Some((next, c)) = chars.next_if(|(_, c)| !is_word_by_itself(*c)) {
            end = next + c.len_utf8();
        }
        kind_of(&word[at..end]).into_iter().for_each(|kind| add(&word[at..end], kind));
    }
}

/// Returns `chunk` of `piece` without the letter of an escape before it: text in text has `\\n` for a new
/// line. In a Windows path the letter is part of the name.
fn without_escape<'a>(piece: &'a str, chunk: &'a str) -> &'a str {
    let at = chunk.as_ptr() as usize - piece.as_ptr() as usize;
    let is_escaped = piece[..at].ends_with('\\') && !names_a_drive(piece);
    if is_escaped { chunk.strip_prefix(['n', 't', 'r']).unwrap_or(chunk) } else { chunk }
}

/// Checks whether a text has `C:\\`: a single letter, a colon and a backslash.
fn names_a_drive(text: &str) -> bool {
    text.match_indices(":\\").any(|(at, _)| {
        let mut before = text[..at].chars().rev();
        before.next().is_some_and(|c| c.is_ascii_alphabetic())
            && before.next().is_none_or(|c| !c.is_alphanumeric())
    })
}

fn ends_chunk(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ',' | ';' | '|' | '\\')
}

/// Checks for an identifier of 32 hexadecimal digits in five groups.
fn is_uuid(part: &str) -> bool {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    part.len() == 36
        && part.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
        && part.split('-').map(str::len).eq(GROUPS)
}

/// Returns the date of a time as ISO 8601 writes it, as far as its first colon.
fn date_of_time(part: &str) -> Option<&str> {
    let (date, hour) = part.split_once('T')?;
    let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let is_date = date.split('-').map(str::len).eq([4, 2, 2]) && date.split('-').all(is_digits);
    (is_date && hour.len() == 2 && is_digits(hour)).then_some(date)
}

/// Checks for `name.ext`: an extension of letters and digits after a name.
fn is_file(part: &str) -> bool {
    let dot = part.bytes().rposition(|b| b == b'.');
    dot.map(|dot| (&part[..dot], &part[dot + 1..])).is_some_and(|(name, extension)| {
        !name.is_empty()
            && name.bytes().any(|b| b.is_ascii_alphabetic())
            && (1..=5).contains(&extension.len())
            && extension.bytes().all(|b| b.is_ascii_alphanumeric())
            && extension.bytes().any(|b| b.is_ascii_lowercase())
    })
}

/// Returns the kind of a word of `piece`. Where a sentence begins, a capital makes no name.
fn kind_in(piece: &str, word: &str) -> Option<Kind> {
    let kind = kind_of(word)?;
    let at = word.as_ptr() as usize - piece.as_ptr() as usize;
    let is_name = kind != Kind::Name || !is_capitalized(word) || !begins_sentence(&piece[..at]);
    Some(if is_name { kind } else { Kind::Word })
}

/// Checks for a capital before nothing but small letters.
fn is_capitalized(word: &str) -> bool {
    let mut chars = word.chars();
    chars.next().is_some_and(char::is_uppercase) && chars.all(char::is_lowercase)
}

/// Checks whether a sentence begins behind `before`: nothing is there, or the end of another sentence, or
/// what announces one, such as the name of who says it.
fn begins_sentence(before: &str) -> bool {
    let before = before.trim_end_matches(|c: char| !c.is_alphanumeric() && !ends_or_announces(c));
    before.chars().next_back().is_none_or(ends_or_announces)
}

fn ends_or_announces(c: char) -> bool {
    SENTENCE_ENDS.contains(&c) || matches!(c, ':' | '：' | '…')
}

fn kind_of(word: &str) -> Option<Kind> {
    let (mut digits, mut lower, mut upper, mut inner_upper) = (false, false, false, false);
    let mut n_chars = 0;
    for c in word.chars() {
        digits |= c.is_ascii_digit();
        lower |= c.is_lowercase();
        upper |= c.is_uppercase();
        inner_upper |= n_chars > 0 && c.is_uppercase();
        n_chars += 1;
    }
    match () {
        () if word.trim_matches('_').contains('_') && n_chars >= 4 => Some(Kind::Symbol),
        () if lower && inner_upper && n_chars >= 4 => Some(Kind::Symbol),
        () if digits && (lower || upper) && n_chars >= 5 => Some(Kind::Symbol),
        () if digits && !lower && !upper && n_chars >= 4 => Some(Kind::Symbol),
        () if digits => (n_chars >= 2).then_some(Kind::Name),
        () if upper && n_chars >= 3 => Some(Kind::Name),
        () if lower && n_chars >= 4 => Some(Kind::Word),
        () if !word.is_ascii() => Some(Kind::Word),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::compaction::fixture::tool_call;

    const UUID: &str = "\"id\":\"45a00cf6-3a37-45ab-a508-d9da7f9d514c\"";

    #[test]
    fn terms_are_known_by_their_looks() {
        for (text, word, expected) in [
            ("see src/a/b.rs:12, please", "src/a/b.rs", Some(Kind::Address)),
            ("open 'main.go' now", "main.go", Some(Kind::Address)),
            ("open /srv/a/main.go now", "main.go", Some(Kind::Address)),
            ("at https://x.org/a?b=1.", "https://x.org/a?b=1", Some(Kind::Address)),
            ("call fetch_all() twice", "fetch_all", Some(Kind::Symbol)),
            ("call fetchAll twice", "fetchAll", Some(Kind::Symbol)),
            ("order W2378156 came", "W2378156", Some(Kind::Symbol)),
            ("it took 12345 steps", "12345", Some(Kind::Symbol)),
            ("far is Madrid", "Madrid", Some(Kind::Name)),
            ("It is far. Madrid is", "Madrid", Some(Kind::Word)),
            ("Ann: \"Madrid is far\"", "Madrid", Some(Kind::Word)),
            ("read \"Madrid\" aloud", "Madrid", Some(Kind::Name)),
            ("NASA is far", "NASA", Some(Kind::Name)),
            ("a plain word", "plain", Some(Kind::Word)),
            ("a plain word", "a", None),
            ("部署机器是Karvo3x。", "机器", Some(Kind::Word)),
            ("部署机器是Karvo3x。", "Karvo3x", Some(Kind::Symbol)),
            ("\"x\\nsrc/a/b.rs\"", "src/a/b.rs", Some(Kind::Address)),
            ("Output:\\n`a`\\\\nindex.jsonl`", "index.jsonl", Some(Kind::Address)),
            ("in C:\\node_modules now", "node_modules", Some(Kind::Symbol)),
            (UUID, "45a00cf6-3a37-45ab-a508-d9da7f9d514c", Some(Kind::Symbol)),
            (UUID, "45a00cf6", None),
            ("at 2026-01-19T02:11:11.671Z", "2026-01-19", Some(Kind::Symbol)),
            ("at 2026-01-19T02:11:11.671Z", "19T02", None),
        ] {
            let terms = Features::of(&Message::user(text)).terms;
            let form = form_hash(word, expected.unwrap_or(Kind::Word));
            let actual = terms.into_iter().find(|term| term.hash() == form);
            let actual = actual.map(Term::kind);
            assert_eq!(actual, expected, "{word} in {text}");
        }
    }

    #[test]
    fn forms_of_a_word_are_one_term() {
        for (one, other, expected) in [
            ("the flat in Lisbon", "lisbon", true),
            ("Ärger", "ärger", true),
            ("open_door", "openDoor", true),
            ("open_door", "OPEN_DOOR", true),
            ("TX-40594", "tx-40594", true),
            ("src/Door.java", "src/door.java", true),
            ("src/a/seal4397.conf", "seal4397", true),
            ("https://example.org/v2/49393?x=1", "49393", true),
            ("it costs 102,488 a year", "102488", true),
            ("(1,024,000)", "1024000", true),
            ("a row: 1,02,488", "102488", false),
            ("bdf98c7d77db6f3f58440f7f", "bdf98c7", true),
            ("bdf98c7d77db6f3f58440f7f", "bdf98c8", false),
            ("open_door", "open_gate", false),
            ("Lisbon", "Madrid", false),
        ] {
            let terms = |text: &str| Features::of(&Message::user(text)).terms;
            let (one_terms, other_terms) = (terms(one), terms(other));
            let has = |term: &Term| one_terms.iter().any(|one| one.hash() == term.hash());
            assert_eq!(other_terms.iter().all(has), expected, "{one}, {other}");
        }
    }

    #[test]
    fn lines_are_ranges_of_what_is_said_and_called() {
        let call = tool_call("Edit", r#"{"path":"a/b.rs","new":"first line\nsecond line"}"#);
        let message = Message::new(Body::Assistant { content: Some("Some words".into()), calls: vec![call] });
        let features = Features::of(&message);
        let actual: Vec<(&str, bool)> =
            features.lines.iter().map(|line| (features.line(line), line.is_call)).collect();
        let expected =
            [("Some words", false), ("Edit a/b.rs", true), ("first line", true), ("second line", true)];
        assert_eq!(actual, expected);
    }

    #[test]
    fn what_a_call_replaces_stands_on_lines_of_its_own() {
        let edit = json!({"path": "a.rs", "old_string": "open_one()", "new_string": "open_two()"});
        let edits = json!({"path": "a.rs", "edits": [
            {"oldText": "open_one()\nshut_one()", "newText": "shut_one()"},
            {"oldText": "read_one()", "newText": "read_two()"},
        ]});
        let found = json!({"content": "open_two()\nshut_two()", "path": "a.rs", "search": "open_one()", "findings": "shut_three()"});
        for (arguments, old, new) in [
            (edit, &["open_one()"][..], &["Edit a.rs", "open_two()"][..]),
            (found, &["open_one()"], &["Edit", "open_two()", "shut_two()", "a.rs", "shut_three()"]),
            (edits, &["open_one()", "shut_one()", "read_one()"], &["Edit a.rs", "shut_one()", "read_two()"]),
            (
                json!({"command": "insert", "path": "a.rs", "line": 9, "text": "if is_open(door) { close_it(door) }",
                    "task_progress": "- [x] Open it\n- [ ] Close it"}),
                &[],
                &["Edit insert a.rs 9", "if is_open(door) { close_it(door) }"],
            ),
        ] {
            let features = Features::of(&Message::calling(vec![tool_call("Edit", &arguments)]));
            for (is_old, expected) in [(true, old), (false, new)] {
                let lines = features.lines.iter().filter(|line| line.is_old == is_old);
                let mut actual: Vec<&str> = lines.map(|line| features.line(line)).collect();
                actual.sort_unstable();
                let mut expected = expected.to_vec();
                expected.sort_unstable();
                assert_eq!(actual, expected, "{arguments}");
            }
        }
    }

    #[test]
    fn a_patch_is_read_as_the_lines_of_its_files() {
        let patch = "*** Begin Patch\n*** Update File: a.rs\n@@\n fn open() {\n-    turn_key(left);\n-    push(door);\n\
                     +    lift(gate);\n }\n*** End Patch\n";
        let shell = format!("apply_patch <<'PATCH'\n{patch}PATCH");
        for arguments in [
            json!({"input": patch}),
            json!({"command": ["bash", "-lc", shell], "workdir": ".", "timeout": 120_000}),
            json!({"cmd": shell, "workdir": "/home/me/w", "yield_time": 120_000}),
        ] {
            let features = Features::of(&Message::calling(vec![tool_call("shell", &arguments)]));
            let told = |is_old: bool| {
                let lines = features.lines.iter().filter(|line| line.is_old == is_old);
                lines.map(|line| features.line(line)).collect::<Vec<_>>()
            };
            assert_eq!(told(true), ["turn_key(left);", "push(door);"]);
            let new = told(false);
            assert_eq!(new[new.len() - 3..], ["*** Update File: a.rs", "fn open() {", "lift(gate);"]);
            for left_out in ["@@", "120000", "/home/me"] {
                assert!(!features.text.contains(left_out), "{}", features.text);
            }
        }
    }

    #[test]
    fn a_long_line_is_several() {
        let features = Features::of(&Message::user("words and words ".repeat(60)));
        assert!(features.lines.len() > 3);
        assert!(features.lines.iter().all(|line| features.line(line).chars().count() <= LINE_CHARS));
        // Of JSON, field by field.
        let fields = (0..20).map(|nth| format!("\"field_{nth}\":\"One sentence. And {nth} more words\""));
        let json = format!("{{{}}}", fields.collect::<Vec<_>>().join(","));
        let features = Features::of(&Message::user(json));
        let pieces: Vec<&str> = features.lines.iter().map(|line| features.line(line)).collect();
        assert!(
            pieces.len() > 3 && pieces[1..].iter().all(|piece| piece.starts_with("\"field_")),
            "{pieces:?}"
        );
    }
}
