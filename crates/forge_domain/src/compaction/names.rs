//! The names by which to ask for a result that left: what tells it apart from all others.

use std::collections::HashSet;
use std::ops::Range;

use super::features::{ByTerm, Features, Kind, Line, is_line_break};
use crate::ContextMessage;

/// Most names of one result, unless it is a table of keys.
const NAMES: usize = 12;
/// Most characters of a name.
const NAME_CHARS: usize = 40;
/// From so many digits and letters up to f on, a name is a hash.
const HASH_CHARS: usize = 7;
/// Fewer letters are a unit or a number's name.
const LEAST_LETTERS: usize = 3;
/// A name in more messages than this tells none of them apart.
pub(super) const FEW_MESSAGES: u32 = 2;
/// The share of a result's lines that have a key, in percent, and the number of them, that make it a table of
/// keys; and the most keys that are listed of it.
const KEYS_PERCENT: usize = 70;
const LEAST_KEYS: usize = 6;
const KEYS: usize = 48;
/// The share of a table's keys that are no repetitions, in percent.
const OWN_KEYS_PERCENT: usize = 50;
/// So many names are enough to choose from.
const MANY: usize = 240;
/// Most digits of a line's number. A long line of digits is read in many pieces: none of them is to look for
/// the end of the whole.
const NUMBER_DIGITS: usize = 20;

/// Checks whether a word may be a hash, or the first digits of one.
pub(super) fn is_hash(word: &str) -> bool {
    word.len() >= HASH_CHARS && word.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The number of messages that have each term.
pub(super) struct Spread(ByTerm<u32>);

impl Spread {
    /// Counts over all `messages`.
    pub(super) fn of(messages: &[ContextMessage]) -> Self {
        let mut n_messages: ByTerm<u32> = ByTerm::default();
        let terms = messages.iter().flat_map(|message| &message.features().terms);
        terms.for_each(|term| *n_messages.entry(term.hash()).or_default() += 1);
        Self(n_messages)
    }

    /// Checks whether a term tells a message apart from nearly all others.
    pub(super) fn is_rare(&self, term: u64) -> bool {
        self.0.get(&term).is_none_or(|n| *n <= FEW_MESSAGES)
    }
}

/// Returns the keys of a result that is a table of keys and values; `None` for other texts.
pub(super) fn table_keys(result: &ContextMessage) -> Option<Vec<&str>> {
    let TableKeys(keys) = result.form(|_| TableKeys::of(result.features()));
    let text = &result.features().text;
    Some(keys.as_ref()?.iter().map(|key| &text[key.clone()]).collect())
}

/// The keys of a table as parts of the text of its features, found once; `None` for other texts.
struct TableKeys(Option<Vec<Range<usize>>>);

impl TableKeys {
    fn of(features: &Features) -> Self {
        let at = |key: &str| key.as_ptr() as usize - features.text.as_ptr() as usize;
        let part = |key: &str| at(key)..at(key) + key.len();
        Self(keys_of_lines(features).map(|keys| keys.into_iter().map(part).collect()))
    }
}

fn keys_of_lines(features: &Features) -> Option<Vec<&str>> {
    let n_lines = features.lines.len();
    let least = LEAST_KEYS.max((n_lines * KEYS_PERCENT).div_ceil(100));
    let lines = &features.lines[..n_lines.min(MANY)];
    // Most texts are no table: their first lines without a key show it.
    let mut others = lines.len().checked_sub(least)?;
    let mut keys = Vec::with_capacity(least);
    for line in lines {
        match key(features.line(line)) {
            Some(key) => keys.push(key),
            None => others = others.checked_sub(1)?,
        }
    }
    // A list of records has the same keys again and again: they tell nothing apart.
    let n_keys = keys.len();
    let mut known = HashSet::with_capacity(n_keys);
    keys.retain(|key| known.insert(*key));
    let is_table = keys.len() * 100 >= n_keys * OWN_KEYS_PERCENT;
    keys.truncate(KEYS);
    is_table.then_some(keys)
}

/// Returns the key of a line that is a key and its value, as configurations and listings have it. A hash
/// tells nothing.
fn key(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '→' | '|' | '-'));
    // Digits before a letter are no number of a line.
    let is_cut = rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let cut = line[..line.len() - rest.len()].bytes().rev().take_while(u8::is_ascii_digit).count();
    let line = if is_cut { &line[line.len() - rest.len() - cut..] } else { rest };
    let end = line.find(['=', ':', '\t'])?;
    let value = line[end + 1..].trim_end_matches(',').trim();
    let key = line[..end].trim().trim_matches(['"', '\'', '`']);
    let is_key = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_short = (2..=NAME_CHARS).contains(&key.chars().count()) && value.split_whitespace().count() <= 3;
    let is_told =
        is_short && !value.is_empty() && !(is_hash(key) && key.contains(|c: char| c.is_ascii_digit()));
    (is_told && key.chars().all(is_key)).then_some(key)
}

/// Returns names that hardly another message has, for a result that is not a table: those at the outermost
/// level of a text first, which tell its parts, then some from all over it.
pub(super) fn names_of_its_own<'a>(features: &'a Features, is_rare: &dyn Fn(u32) -> bool) -> Vec<&'a str> {
    let is_given = |kind: Kind, word: &str| kind == Kind::Symbol || kind == Kind::Address && is_path(word);
    let mut search = Search::of(features, is_rare, &is_given);
    let (mut outer, mut given): (Vec<&str>, Vec<&str>) = Default::default();
    for line in &features.lines {
        let is_outer = is_outermost(&features.text, line.start as usize);
        search.line(line, &|kind| is_outer && kind == Kind::Symbol, &mut |is_outer, word| {
            if is_outer { outer.push(word) } else { given.push(word) }
        });
        if outer.len() + given.len() >= MANY {
            break;
        }
    }
    let mut names: Vec<&str> = spread(outer, NAMES).collect();
    given.retain(|name| !names.contains(name));
    names.extend(spread(given, NAMES - names.len()));
    // Words that merely begin with a capital tell less.
    if names.is_empty() {
        let mut search = Search::of(features, is_rare, &|kind, _| kind == Kind::Name);
        let mut words = Vec::new();
        for line in &features.lines {
            search.line(line, &|_| false, &mut |_, word| words.push(word));
        }
        names.extend(spread(words, NAMES));
    }
    names
}

/// Iterates over the lines of the call at `nth` of a message.
pub(super) fn call_lines(features: &Features, nth: usize) -> impl Iterator<Item = &Line> + Clone {
    let mut n_begun = 0;
    features.lines.iter().filter(move |line| {
        n_begun += usize::from(line.begins_call);
        line.is_call && n_begun == nth + 1
    })
}

/// Returns names that the call at `nth` of a message writes into a file and that are new there, `most` of
/// them: those at the outermost level of a text first, as [`names_of_its_own`].
pub(super) fn names_written<'a>(
    features: &'a Features,
    nth: usize,
    is_new: &dyn Fn(u32) -> bool,
    most: usize,
) -> Vec<&'a str> {
    let mut search = Search::of(features, is_new, &|kind, _| kind == Kind::Symbol);
    let (mut outer, mut inner): (Vec<&str>, Vec<&str>) = Default::default();
    // The line that begins a call names the tool and the file.
    for line in call_lines(features, nth).filter(|line| !line.begins_call && !line.is_old) {
        let is_outer = is_outermost(&features.text, line.start as usize);
        search.line(line, &|_| is_outer, &mut |is_outer, word| {
            if is_outer { outer.push(word) } else { inner.push(word) }
        });
    }
    inner.retain(|name| !outer.contains(name));
    outer.into_iter().chain(inner).take(most).collect()
}

/// Returns `n` of the names from all over them.
fn spread(names: Vec<&str>, n: usize) -> impl Iterator<Item = &str> {
    let step = names.len().div_ceil(n.max(1)).max(1);
    names.into_iter().step_by(step).take(n)
}

/// A search for the words of a text that look like names and that hardly another message has, each once
/// among the outer ones and once among the others.
struct Search<'a, 's> {
    features: &'a Features,
    is_rare: &'s dyn Fn(u32) -> bool,
    fits: &'s dyn Fn(Kind, &str) -> bool,
    /// For each term whether it is still looked for among others and among outer ones; `None` if it was not
    /// met yet.
    is_open: Vec<Option<[bool; 2]>>,
}

impl<'a, 's> Search<'a, 's> {
    fn of(
        features: &'a Features,
        is_rare: &'s dyn Fn(u32) -> bool,
        fits: &'s dyn Fn(Kind, &str) -> bool,
    ) -> Self {
        Self { features, is_rare, fits, is_open: vec![None; features.terms.len()] }
    }

    /// Tells the names in a line that were not told before, and whether each is an outer one.
    fn line(&mut self, line: &'a Line, is_outer: &dyn Fn(Kind) -> bool, tell: &mut dyn FnMut(bool, &'a str)) {
        let text = self.features.line(line);
        for (nth, place) in self.features.places(line).iter().enumerate() {
            let is_open = &mut self.is_open[*place as usize];
            // Most words are no names.
            if *is_open == Some([false; 2]) {
                continue;
            }
            let kind = self.features.terms[*place as usize].kind();
            let word = self.features.word(line, nth);
            let is_open = is_open.get_or_insert_with(|| {
                [kind != Kind::Word && (self.is_rare)(*place) && (self.fits)(kind, word) && is_name(word); 2]
            });
            let is_outer = is_outer(kind);
            let is_open = &mut is_open[usize::from(is_outer)];
            if *is_open && is_whole(text, word) {
                *is_open = false;
                tell(is_outer, word);
            }
        }
    }
}

/// Checks whether a line is not indented, apart from its number.
pub(super) fn is_outermost(text: &str, start: usize) -> bool {
    let before = &text[..start];
    let is_at_margin = before.is_empty() || before.ends_with(is_line_break);
    let line = &text[start..];
    let n_digits = line.bytes().take(NUMBER_DIGITS).take_while(u8::is_ascii_digit).count();
    match line[n_digits..].strip_prefix(['→', '\t']).filter(|_| n_digits > 0) {
        Some(numbered) => !numbered.starts_with(char::is_whitespace),
        None => is_at_margin,
    }
}

/// Checks whether a word with a slash or a dot names a file or a page, and not one of two things or a member.
fn is_path(word: &str) -> bool {
    let (folder, name) = word.rsplit_once('/').unwrap_or(("", word));
    let has_extension = name.rsplit_once('.').is_some_and(|(stem, _)| !stem.is_empty());
    !word.starts_with('.') && !folder.is_empty() && (has_extension || folder.contains('/'))
}

/// Checks whether a word looks like a name rather than like markup around one, or an amount.
fn is_name(word: &str) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | '@' | '#');
    let is_id = word.len() >= HASH_CHARS && word.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    !is_id
        && word.chars().count() <= NAME_CHARS
        && word.chars().filter(|c| c.is_alphabetic()).count() >= LEAST_LETTERS
        && word.chars().all(is_of_name)
}

/// Checks whether `word` stands by itself in `text`, not inside a longer word or an escape.
fn is_whole(text: &str, word: &str) -> bool {
    let at = word.as_ptr() as usize - text.as_ptr() as usize;
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '\\' | '_' | '-');
    let (before, after) = (&text[..at], &text[at + word.len()..]);
    let goes_on = |rest: &str| rest.strip_prefix(['.', '/']).is_some_and(|rest| rest.starts_with(is_part));
    !before.ends_with(is_part)
        && !before.ends_with(['.', '/'])
        && !after.starts_with(is_part)
        && !goes_on(after)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::Message;
    use crate::compaction::fixture::Characters;

    #[test]
    fn a_key_is_a_whole_word() {
        for (line, expected) in [
            ("port = 80", Some("port")),
            ("12→port = 80", Some("port")),
            ("- port: 80,", Some("port")),
            ("3d_model: cube", Some("3d_model")),
            ("12\t3d_model: cube", None),
            ("5bb2d02df61ff63c036d87d5d537d841fc522f7a\tHEAD", None),
            ("2024-01-01: closed", None),
            ("port", None),
        ] {
            assert_eq!(key(line), expected, "{line}");
        }
    }

    #[test]
    fn more_digits_than_a_number_has_are_none() {
        for (n, expected) in [(1, true), (NUMBER_DIGITS, true), (NUMBER_DIGITS + 1, false)] {
            let text = format!("  {}\tx", "1".repeat(n));
            assert_eq!(is_outermost(&text, 2), expected, "{n}");
        }
    }

    #[test]
    fn a_table_is_named_by_its_keys_and_other_text_by_what_only_it_has() {
        let table = (0..8).map(|n| format!("retry_{n} = {n}{n}")).collect::<Vec<_>>().join("\n");
        let record = |n: usize| format!("{{\n  \"title\": \"run_{n}\",\n  \"state\": \"ended\"\n}}");
        let records = (0..4).map(record).collect::<Vec<_>>().join(",\n");
        let keys: Vec<String> = (0..8).map(|n| format!("retry_{n}")).collect();
        for (text, expected) in [
            (table.as_str(), keys.iter().map(String::as_str).collect::<Vec<_>>()),
            (records.as_str(), vec!["run_0", "run_1", "run_2", "run_3"]),
            ("fn open_store(path: &Path) {\n    read_all(path)\n}", vec!["open_store", "read_all"]),
            (
                "  1→use a_one;\n  2→    call_it(c_two)\n  3→fn e_three()",
                vec!["a_one", "e_three", "call_it", "c_two"],
            ),
            ("see read/write in src/a/b.rs or list.sort", vec!["src/a/b.rs"]),
            ("waits for 250ms, then [docs](https://example.org/a) says so.", vec![]),
            ("the shared_name is in all of them", vec![]),
        ] {
            let others = ["shared_name again", "and shared_name", "shared_name"].map(Message::user);
            let all: Vec<ContextMessage> = others
                .into_iter()
                .chain([Message::user(text)])
                .map(|message| ContextMessage::count(message, &Characters))
                .collect();
            let spread = Spread::of(&all);
            let features = all[3].features();
            let is_rare = |place: u32| spread.is_rare(features.terms[place as usize].hash());
            let keys = table_keys(&all[3]);
            let actual = keys.unwrap_or_else(|| names_of_its_own(features, &is_rare));
            assert_eq!(actual, expected, "{text}");
        }
    }
}
