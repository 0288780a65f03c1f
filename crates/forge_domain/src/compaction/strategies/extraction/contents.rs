//! The table of contents of what left: what each result was, its size, and the names by which to ask for it.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::label::{Folder, tool_name};
use super::record::Entry;
use super::worth::Worth;
use crate::compaction::answered_call::answered_call;
use crate::compaction::names::{FEW_MESSAGES, names_of_its_own, table_keys};
use crate::{Context, ContextMessage, MessageId, Role, TokenCounter, Tokens, quantity};

/// A result of fewer tokens is not worth a line.
const LEAST: Tokens = Tokens::new(60);
/// Fewer tokens hold no line.
pub(super) const LEAST_CONTENT: Tokens = Tokens::new(20);
/// The end of a table's label: all of its keys follow, or the first ones.
const KEYS: &str = ", keys";
/// With fewer names, a line hardly says more than the call did.
const LEAST_NAMES: usize = 3;

/// The results that left, the largest first, with their keys if they are tables.
pub(super) struct Contents<'a> {
    context: &'a Context,
    sources: &'a [ContextMessage],
    folder: &'a Folder,
    results: Vec<(usize, Option<Vec<&'a str>>)>,
}

/// The messages of the user that left and of which nothing is quoted: the numbers of the first and the last
/// one, and how many they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unquoted {
    first: u64,
    last: u64,
    n_messages: usize,
}

/// The end of its entry.
const OF_THE_USER: &str = " of the user";

impl Unquoted {
    pub(super) const fn one(number: u64) -> Self {
        Self { first: number, last: number, n_messages: 1 }
    }

    /// One somewhere before the message of such a number.
    pub(super) fn before(number: u64) -> Self {
        let first = MessageId::FIRST.as_u64();
        Self { first, last: number.saturating_sub(1).max(first), n_messages: 1 }
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
            n_messages: self.n_messages + other.n_messages,
        }
    }

    pub(super) fn entry(self) -> Entry {
        let Self { first, last, n_messages } = self;
        let label = if first == last { format!("m{first}") } else { format!("m{first}–m{last}") };
        Entry::labelled(&label, &format!("{}{OF_THE_USER}", quantity(n_messages, "message")), false)
    }

    /// Reads an entry, as it is written; returns `None` for other entries.
    pub(super) fn parse(entry: &str) -> Option<Self> {
        let (label, n_messages) = entry.strip_suffix(OF_THE_USER)?.split_once(": ")?;
        let (first, last) = label.split_once('–').unwrap_or((label, label));
        let number = |label: &str| label.strip_prefix('m')?.parse().ok();
        let n_messages = n_messages.split(' ').next()?.parse().ok()?;
        Some(Self { first: number(first)?, last: number(last)?, n_messages })
    }
}

/// A result that left, and the names by which to ask for it.
pub(super) struct Content<'a> {
    pub(super) position: usize,
    label: String,
    names: Vec<&'a str>,
}

impl Content<'_> {
    /// Returns its entry in at most `most` tokens, with as many names as fit, and the tokens that it takes.
    pub(super) fn entry(&self, most: Tokens, counter: &dyn TokenCounter) -> Option<(Entry, Tokens)> {
        let series = series(&self.names);
        let mut n_series = series.len();
        while series[..n_series].iter().map(|names| names.len()).sum::<usize>() >= LEAST_NAMES {
            // A name has no blank in it, so blanks are enough between names.
            let told: Vec<String> = series[..n_series].iter().map(|names| told(names)).collect();
            let entry = Entry::labelled(&self.label, &told.join(" "), false);
            let tokens = counter.count(entry.as_str()) + Tokens::new(1);
            if tokens <= most {
                return Some((entry, tokens));
            }
            let share = n_series as u64 * most.as_u64() / tokens.as_u64();
            n_series = (share as usize).min(n_series - 1);
        }
        None
    }
}

/// With fewer names, a series is no shorter than its names.
const LEAST_SERIES: usize = 3;

/// Splits names into series: those that count up by one, and single ones.
fn series<'n, 'a>(names: &'n [&'a str]) -> Vec<&'n [&'a str]> {
    let runs = names.chunk_by(|name, next| counts_up(name, next));
    runs.flat_map(|run| run.chunks(if run.len() >= LEAST_SERIES { run.len() } else { 1 })).collect()
}

/// Checks whether a name is like another one with the next number at its end.
fn counts_up(name: &str, next: &str) -> bool {
    let split = |name: &str| -> Option<(usize, u64)> {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        Some((stem, name[stem..].parse().ok()?))
    };
    let Some(((stem, number), (next_stem, next_number))) = split(name).zip(split(next)) else { return false };
    let is_padded = |name: &str| name[stem..].starts_with('0') && name.len() > stem + 1;
    name[..stem] == next[..next_stem]
        && number.checked_add(1) == Some(next_number)
        && (name.len() == next.len() || !is_padded(name) && !is_padded(next))
}

/// Returns the names of a series as they are told: of several, the first and the last.
fn told(names: &[&str]) -> String {
    match names {
        [first, .., last] => format!("{first}–{last}"),
        names => names.concat(),
    }
}

/// Returns the keys in the entry of a table, as it is written; `None` for other entries.
pub(super) fn keys_in(entry: &str) -> Option<&str> {
    // No key has a colon.
    let (label, keys) = entry.rsplit_once(": ")?;
    label.ends_with(KEYS).then_some(keys)
}

/// Returns the entries of the first contents, in at most `left` tokens, each with its position and its
/// tokens.
pub(super) fn entries<'a>(
    contents: impl Iterator<Item = Content<'a>>,
    mut left: Tokens,
    counter: &dyn TokenCounter,
) -> Vec<(usize, Entry, Tokens)> {
    let mut entries = Vec::new();
    for content in contents {
        if left < LEAST_CONTENT {
            break;
        }
        if let Some((entry, tokens)) = content.entry(left, counter) {
            left = left - tokens;
            entries.push((content.position, entry, tokens));
        }
    }
    entries
}

impl<'a> Contents<'a> {
    /// Returns the contents of the results that `leaves`.
    pub(super) fn of(
        context: &'a Context,
        sources: &'a [ContextMessage],
        leaves: &[bool],
        folder: &'a Folder,
    ) -> Self {
        let is_large_result = |position: &usize| {
            let source = &sources[*position];
            source.message().role() == Role::Tool && source.tokens() >= LEAST
        };
        let left = (0..sources.len()).rev().filter(|position| leaves[*position]).filter(is_large_result);
        let mut results: Vec<_> = left.map(|position| (position, table_keys(&sources[position]))).collect();
        results.sort_by_key(|(position, _)| Reverse(sources[*position].tokens()));
        // Fields that every answer of a service has tell none of them apart.
        let mut n_tables: HashMap<&str, u32> = HashMap::new();
        let tables = results.iter().filter_map(|(_, keys)| keys.as_ref());
        tables.flatten().for_each(|key| *n_tables.entry(key).or_default() += 1);
        for keys in results.iter_mut().filter_map(|(_, keys)| keys.as_mut()) {
            keys.retain(|key| n_tables[key] <= FEW_MESSAGES);
        }
        Self { context, sources, folder, results }
    }

    /// Iterates over the tables, whose names are their keys.
    pub(super) fn tables(&self) -> impl Iterator<Item = Content<'a>> {
        let keys = self.results.iter().filter_map(|(position, keys)| Some((*position, keys.clone()?)));
        self.with_names(keys, KEYS)
    }

    /// Iterates over the other results. Their names are looked for one result after the other, as few are
    /// needed.
    pub(super) fn others(&self, worth: &Worth<'_>) -> impl Iterator<Item = Content<'a>> {
        let others = self.results.iter().filter(|(_, keys)| keys.is_none()).map(|(position, _)| *position);
        let named = others.map(|position| {
            let is_rare = |place: u32| worth.n_messages(position, place) <= FEW_MESSAGES;
            (position, names_of_its_own(self.sources[position].features(), &is_rare))
        });
        self.with_names(named, "")
    }

    /// Returns results with their names, whose labels end with `what` they are; of those with the same names
    /// the first.
    fn with_names(
        &self,
        results: impl Iterator<Item = (usize, Vec<&'a str>)>,
        what: &'static str,
    ) -> impl Iterator<Item = Content<'a>> {
        let mut known = HashSet::new();
        results.filter_map(move |(position, names)| {
            let asked = answered_call(self.context, position)?;
            let tool = tool_name(asked.call)?;
            if names.len() < LEAST_NAMES || !known.insert(names.clone()) {
                return None;
            }
            let message = &self.sources[position];
            let subject = self.folder.subject(asked.deed);
            let label = format!("{} {tool}{subject}, {} tokens{what}", message.label(), message.tokens());
            Some(Content { position, label, names })
        })
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::compaction::fixture::Characters;

    #[test]
    fn names_that_count_up_are_told_as_a_series() {
        for (names, expected) in [
            (&["zone", "FLAG_0", "FLAG_1", "FLAG_2", "FLAG_3"][..], "zone FLAG_0–FLAG_3"),
            (&["a8", "a9", "a10", "b11", "b12"], "a8–a10 b11 b12"),
            (&["a08", "a09", "a10"], "a08–a10"),
            (&["a9", "a010", "a011"], "a9 a010 a011"),
            (&["a1", "a3", "a5"], "a1 a3 a5"),
            (&["7", "8", "9"], "7–9"),
            (&["a18446744073709551615", "a0", "b"], "a18446744073709551615 a0 b"),
        ] {
            let content = Content { position: 0, label: "m2 read a".to_owned(), names: names.to_vec() };
            let (entry, _) = content.entry(Tokens::new(200), &Characters).unwrap();
            assert_eq!(entry.as_str(), format!("m2 read a: {expected}"));
        }
        let names = ["a0", "a1", "a2", "b", "c"].to_vec();
        let content = Content { position: 0, label: "m2 read a".to_owned(), names };
        let entry = |most: u64| content.entry(Tokens::new(most), &Characters);
        assert_eq!(
            entry(18).map(|(entry, _)| entry.as_str().to_owned()),
            Some("m2 read a: a0–a2".to_owned())
        );
        assert_eq!(entry(12), None);
    }

    #[test]
    fn unquoted_messages_are_counted_and_the_count_is_read_again() {
        let one = Unquoted::one(4);
        assert_eq!(one.entry().as_str(), "m4: 1 message of the user");
        let more = one.and(Unquoted::one(9)).and(Unquoted::one(6));
        assert_eq!(more.entry().as_str(), "m4–m9: 3 messages of the user");
        for unquoted in [one, more, Unquoted::before(12)] {
            assert_eq!(Unquoted::parse(unquoted.entry().as_str()), Some(unquoted));
        }
        for other in ["m4 read a, 90 tokens: b c", "m4: 1 message", "a: b of the user"] {
            assert_eq!(Unquoted::parse(other), None, "{other}");
        }
    }
}
