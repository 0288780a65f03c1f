//! The lists of the agent from which the user picks: "1 and 4", "2. no", "Option B".
//!
//! An item is known by its form, whatever the language: a number or a letter in front of it, or a short name
//! before a colon, as its neighbour has. Ordinals in words are not understood.

use std::collections::HashSet;

/// Most characters and words of an item's name.
const NAME_CHARS: usize = 16;
const NAME_WORDS: usize = 2;
/// The fewest items of a list.
const LEAST_ITEMS: usize = 2;
/// Most characters of a message that may pick: in a longer one, a number means anything.
const PICK_CHARS: usize = 400;
/// Most characters of a message beside the names of items that it picks.
const BESIDE_CHARS: usize = 24;
/// Marks that may stand before the label of an item, and those that end it.
const BEFORE: [char; 7] = ['-', '*', '#', '>', '(', '_', '•'];
const ENDS: [char; 7] = ['.', ')', ':', '、', '．', '：', '）'];

/// Returns the starts of the lines of `text` that are items of a list to which `message` refers, in order;
/// none if the text has no list.
pub(super) fn picked(text: &str, message: &str) -> Vec<u32> {
    if message.chars().nth(PICK_CHARS).is_some() {
        return Vec::new();
    }
    let mut start = 0;
    let lines = text.split_inclusive('\n').map(|line| {
        start += line.len();
        ((start - line.len()) as u32, line)
    });
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    let labels: Vec<(u32, Option<&str>)> = lines.map(|(start, line)| (start, label(line))).collect();
    let is_label = |nth: usize| labels.get(nth).is_some_and(|(_, label)| label.is_some());
    // A name that stands alone before a colon is no item of a list.
    let is_of_list = |nth: usize| is_label(nth + 1) || nth.checked_sub(1).is_some_and(is_label);
    let items = labels.iter().enumerate().filter_map(|(nth, (start, label))| {
        let label = (*label)?;
        (!is_plain_name(label) || is_of_list(nth)).then_some((*start, label))
    });
    let mut items: Vec<(u32, &str)> = items.collect();
    if items.len() < LEAST_ITEMS {
        return Vec::new();
    }
    if !may_pick_names(message, items.iter().map(|(_, label)| *label)) {
        items.retain(|(_, label)| !is_plain_name(label));
    }
    let is_meant =
        items.iter().any(|(_, label)| mentions(message, label).any(|at| is_pick(message, label, at)));
    let named = items.into_iter().filter(|(_, label)| is_meant && mentions(message, label).next().is_some());
    named.map(|(start, _)| start).collect()
}

/// Checks whether a label is a name in words, with no number or letter at its end that tells it from others.
fn is_plain_name(label: &str) -> bool {
    let is_longer = |word: &str| word.chars().nth(1).is_some();
    !label.contains(|c: char| c.is_ascii_digit()) && label.split_whitespace().last().is_some_and(is_longer)
}

/// Checks whether a message says little beside the names in it that are labels: a longer one is about what
/// they name, and picks nothing.
fn may_pick_names<'a>(message: &str, labels: impl Iterator<Item = &'a str>) -> bool {
    let named = labels.filter(|label| is_plain_name(label) && mentions(message, label).next().is_some());
    let named: HashSet<&str> = named.collect();
    let n_named: usize = named.iter().map(|label| label.chars().count()).sum();
    message.trim().chars().count() <= n_named + BESIDE_CHARS
}

/// Checks whether a label at such a byte of a message is surely one: a number before a word may be a count.
fn is_pick(message: &str, label: &str, at: usize) -> bool {
    let begins = message[..at].rsplit('\n').next().is_some_and(|line| line.trim().is_empty());
    let next = message[at + label.len()..].trim_start_matches(' ').chars().next();
    let is_count = label.bytes().all(|b| b.is_ascii_digit()) && next.is_some_and(char::is_alphanumeric);
    begins || !is_count
}

/// Returns the label of the item that a line is.
fn label(line: &str) -> Option<&str> {
    let line = line.trim_start_matches(|c: char| c.is_whitespace() || BEFORE.contains(&c));
    let end = line.find(ENDS)?;
    let (label, rest) = (line[..end].trim_end_matches(['*', '_']), &line[end..]);
    let is_number = (1..=2).contains(&label.len()) && label.bytes().all(|b| b.is_ascii_digit());
    let is_letter = label.len() == 1 && label.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_name = label.chars().nth(NAME_CHARS).is_none()
        && (1..=NAME_WORDS).contains(&label.split_whitespace().count())
        && label.starts_with(char::is_alphanumeric);
    // A fraction, a time or a file's name is no item.
    let goes_on = rest.chars().nth(1).is_some_and(|c| c.is_ascii_alphanumeric() || c == '/');
    let is_named = is_name && rest.starts_with([':', '：']);
    ((is_number || is_letter || is_named) && !goes_on).then_some(label)
}

/// Returns the number of the item that a line is; `None` if it has none.
pub(super) fn number_of(line: &str) -> Option<u32> {
    label(line)?.parse().ok()
}

/// Iterates over the places where a message names the label of an item, other than as a part of a word or a
/// number.
fn mentions<'a>(message: &'a str, label: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_letter = label.len() == 1 && !label.starts_with(|c: char| c.is_ascii_digit());
    let is_whole = move |at: usize| {
        let (before, after) = (&message[..at], &message[at + label.len()..]);
        let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut rest = after.chars();
        // In a number, a mark between digits is a part of it; a letter before a word may be an article.
        let is_part = match rest.next() {
            Some('.' | ',' | ':') => !is_letter && rest.next().is_some_and(|c| c.is_ascii_digit()),
            Some(' ') => is_letter && rest.next().is_some_and(char::is_lowercase),
            _ => false,
        };
        let is_percent = after.trim_start().starts_with('%');
        !before.ends_with(is_of_word) && !after.starts_with(is_of_word) && !is_part && !is_percent
    };
    message.match_indices(label).map(|(at, _)| at).filter(move |at| is_whole(*at))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn items_are_picked_by_their_labels() {
        let findings = "I found these:\n\n1. The door is open.\n2. The key is lost.\n12) The lamp is on.\n\nWhich first?";
        let options = "**Option A:** paint it\n**Option B:** leave it\n**Option C:** sell it";
        let letters = "- a) by card\n- b) by bill";
        let chinese = "方案一：换锁\n方案二：换门";
        let plan = "Day 1: old town\nDay 2: museum\nRooms: four nights\nTrain: at noon";
        let alone = "We go by train.\n\nRooms: four nights.\nNo car.\n\n1. Old town\n2. Museum";
        let prose = "Version 1.2 is out: 3 doors. It was 12:30.";
        for (text, message, expected) in [
            (findings, "Do 1 and 12.", vec![2, 4]),
            (findings, "1. yes\n2. no", vec![2, 3]),
            (findings, "It takes 1.5 hours, 12 % more, at 2:30", vec![]),
            (findings, "Go on.", vec![]),
            // A count is no pick, beside one that is.
            (findings, "It takes over 2 hours and 12 people", vec![]),
            (findings, "It takes 2 hours, so do 12.", vec![3, 4]),
            (findings, "2 please, in green", vec![3]),
            (options, "Option C. What speaks against B?", vec![2]),
            (letters, "b) please", vec![1]),
            (letters, "is it a door", vec![]),
            (chinese, "方案二比较好", vec![1]),
            (prose, "1 or 3", vec![]),
            (plan, "Rooms please", vec![2]),
            (plan, "Rooms and Train, as you say", vec![2, 3]),
            (plan, "Day 2", vec![1]),
            // It is about rooms, and picks none.
            (plan, "Please take Rooms with a kitchen, and three nights only.", vec![]),
            (alone, "Rooms", vec![]),
            (alone, "Rooms and 2.", vec![6]),
        ] {
            let starts = picked(text, message);
            let lines: Vec<usize> =
                starts.iter().map(|start| text[..*start as usize].matches('\n').count()).collect();
            assert_eq!(lines, expected, "{message}");
        }
        assert_eq!(picked(findings, &"1 ".repeat(400)), Vec::<u32>::new());
    }
}
