//! The table of contents of what left: what each result was, its size, and the names by which to ask for it.

use super::record::Entry;
use super::story::{Folder, one_line};
use super::worth::Worth;
use crate::compaction::answered_call::answered_call;
use crate::compaction::features::{Features, Kind};
use crate::{Context, ContextMessage, Role, Tokens};

/// A result of fewer tokens is not worth a line.
const LEAST: Tokens = Tokens::new(60);
/// Most names of one result.
const NAMES: usize = 12;
/// Most characters of a name.
const NAME_CHARS: usize = 40;
/// A name in more messages than this tells none of them apart.
const MESSAGES: u32 = 2;

/// A result that left.
pub(super) struct Content {
    pub(super) position: usize,
    /// The number of names that only it has, up to [`NAMES`].
    pub(super) n_names: usize,
    pub(super) entry: Entry,
}

/// Returns the contents of the results that `leaves`, those with most names of their own first, then the
/// newest.
pub(super) fn contents(
    context: &Context,
    sources: &[ContextMessage],
    leaves: &[bool],
    folder: &Folder,
    worth: &Worth<'_>,
) -> Vec<Content> {
    let of = |position: usize| {
        let message = &sources[position];
        let is_result = message.message().role() == Role::Tool && message.tokens() >= LEAST;
        let asked = answered_call(context, position).filter(|_| is_result && leaves[position])?;
        let tool = one_line(asked.call.name.as_str(), NAME_CHARS)?;
        let subject = folder.subject(asked.deed);
        let label = format!("{} {tool}{subject}, {} tokens", message.label(), message.tokens());
        let names = names(message.features(), worth);
        (!names.is_empty()).then(|| Content {
            position,
            n_names: names.len(),
            entry: Entry::labelled(&label, &names.join(", "), false),
        })
    };
    let mut contents: Vec<Content> = (0..sources.len()).filter_map(of).collect();
    contents.sort_by_key(|content| std::cmp::Reverse((content.n_names, content.position)));
    contents
}

/// Returns the names by which to ask for a result: the keys, if most of its lines have one, else some.
fn names<'a>(features: &'a Features, worth: &Worth<'_>) -> Vec<&'a str> {
    let lines: Vec<&str> = features.lines.iter().map(|line| features.line(line)).collect();
    let mut keys: Vec<&str> = lines.iter().take(MANY).filter_map(|line| key(line)).collect();
    if keys.len() >= LEAST_KEYS && keys.len() * 100 >= lines.len() * KEYS_PERCENT {
        keys.dedup();
        keys.truncate(KEYS);
        return keys;
    }
    names_of_its_own(features, worth)
}

/// The share of a result's lines that have a key, in percent, and the number of them, that make it a table of
/// keys; and the most keys that are listed of it.
const KEYS_PERCENT: usize = 70;
const LEAST_KEYS: usize = 6;
const KEYS: usize = 48;

/// Returns the key of a line that is a key and its value, as configurations and listings have it.
fn key(line: &str) -> Option<&str> {
    let line = line.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '→' | '|' | '-'));
    let end = line.find(['=', ':', '\t'])?;
    let value = line[end + 1..].trim_end_matches(',').trim();
    let key = line[..end].trim().trim_matches(['"', '\'', '`']);
    let is_key = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_short = (2..=NAME_CHARS).contains(&key.chars().count()) && value.split_whitespace().count() <= 3;
    (is_short && !value.is_empty() && key.chars().all(is_key)).then_some(key)
}

/// Returns names that hardly another message has, from all over a result's text.
fn names_of_its_own<'a>(features: &'a Features, worth: &Worth<'_>) -> Vec<&'a str> {
    let (mut given, mut plain): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for line in &features.lines {
        let text = features.line(line);
        for (place, word) in features.places(line).iter().zip(features.words(line)) {
            let term = features.terms[*place as usize];
            let all = match term.kind() {
                Kind::Symbol | Kind::Address => &mut given,
                Kind::Name => &mut plain,
                Kind::Word => continue,
            };
            let tells = word.chars().any(char::is_alphabetic)
                && word.chars().count() <= NAME_CHARS
                && worth.n_messages(term.hash()) <= MESSAGES
                && is_whole(text, word);
            if tells && !all.contains(&word) {
                all.push(word);
            }
        }
        if given.len() >= MANY {
            break;
        }
    }
    // Words that merely begin with a capital tell less.
    let spread = |names: Vec<&'a str>, n: usize| {
        let step = names.len().div_ceil(n.max(1)).max(1);
        names.into_iter().step_by(step).take(n)
    };
    let n_plain = NAMES.saturating_sub(given.len());
    spread(given, NAMES).chain(spread(plain, n_plain)).collect()
}

/// So many names are enough to choose from.
const MANY: usize = 240;

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
