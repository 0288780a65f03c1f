//! The lists of the agent from which the user picks: "1 and 4", "2. no", "Option B".
//!
//! An item is known by its form, whatever the language: a number or a letter in front of it, or a short name
//! before a colon, as its neighbour has. Ordinals in words are not understood.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use crate::conversation::is_word_by_itself;

/// Most characters and words of an item's name.
const NAME_CHARS: usize = 16;
const NAME_WORDS: usize = 2;
/// The fewest items of a list.
const LEAST_ITEMS: usize = 2;
/// Most characters of a message that may pick: in a longer one, a number means anything.
const PICK_CHARS: usize = 400;
/// Most characters of a message beside the labels of items that it picks; fewer if those are characters that
/// are words by themselves, and may stand in any other.
const BESIDE_CHARS: usize = 24;
const BESIDE_WORDS: usize = 3;
/// Marks that may stand before the label of an item, those that end it, and those that end it if the
/// labels of others end so as well.
const BEFORE: [char; 9] = ['-', '*', '#', '>', '(', '（', '_', '•', '|'];
const ENDS: [char; 8] = ['.', ')', ':', '、', '．', '：', '）', '|'];
const DASHES: [char; 3] = ['-', '–', '—'];
/// The characters among which those are that show numbers, and are no digits.
const OTHER_NUMBERS: RangeInclusive<char> = '\u{2000}'..='\u{33ff}';

/// An item of a list: the start of its line, and its label.
type Item = (u32, String);

/// Returns the starts of the lines of `text` that are items of a list to which `message` refers, in order;
/// none if the text has no list. In a short message that `is_next` to the list, a number means an item.
pub(super) fn picked(text: &str, message: &str, is_next: bool) -> Vec<u32> {
    if message.chars().nth(PICK_CHARS).is_some() {
        return Vec::new();
    }
    let mut items = items(text);
    if items.len() < LEAST_ITEMS {
        return Vec::new();
    }
    let message = plain(message);
    // A longer message is about what the names in it name, and picks nothing.
    if !says_little_beside(&message, &items, is_plain_name, BESIDE_CHARS) {
        items.retain(|(_, label)| !is_plain_name(label));
    }
    if !is_next || !says_little_beside(&message, &items, is_word, BESIDE_WORDS) {
        items.retain(|(_, label)| !is_word(label));
    }
    let is_short = |items: &[Item]| is_next && says_little_beside(&message, items, |_| true, BESIDE_CHARS);
    let named = named_in(&message, &items, is_short(&items));
    if !named.is_empty() {
        return named;
    }
    // "B" may mean "Option B".
    let marks = items.iter().filter_map(|(start, label)| Some((*start, mark_of(label)?.to_owned())));
    let marks: Vec<Item> = marks.collect();
    if is_short(&marks) { named_in(&message, &marks, true) } else { Vec::new() }
}

/// Returns the items of the lists in a text.
fn items(text: &str) -> Vec<Item> {
    let mut start = 0;
    let lines = text.split_inclusive('\n').map(|line| {
        start += line.len();
        ((start - line.len()) as u32, line)
    });
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    let labels: Vec<(u32, Option<Label>)> = lines.map(|(start, line)| (start, label(line))).collect();
    let is_label = |nth: usize| labels.get(nth).is_some_and(|(_, label)| label.is_some());
    // A name that stands alone before a colon is no item of a list.
    let is_of_list = |nth: usize| is_label(nth + 1) || nth.checked_sub(1).is_some_and(is_label);
    let dashed = labels.iter().filter_map(|(_, label)| label.as_ref()).filter(|label| label.is_dashed);
    let may_be_dashed = dashed.count() >= LEAST_ITEMS;
    let items = labels.iter().enumerate().filter_map(|(nth, (start, label))| {
        let label = label.as_ref()?;
        let is_item = (!is_plain_name(&label.text) || is_of_list(nth)) && (!label.is_dashed || may_be_dashed);
        is_item.then(|| (*start, label.text.clone()))
    });
    items.collect()
}

/// Returns the starts of the items whose labels a message names, if it surely means one of them.
fn named_in(message: &str, items: &[Item], is_short: bool) -> Vec<u32> {
    let is_meant = |label: &str| {
        is_all_of(message, label)
            || mentions(message, label).any(|at| is_short || is_pick(message, label, at))
    };
    if !items.iter().any(|(_, label)| is_meant(label)) {
        return Vec::new();
    }
    let is_named = |label: &str| is_all_of(message, label) || mentions(message, label).next().is_some();
    items.iter().filter(|(_, label)| is_named(label)).map(|(start, _)| *start).collect()
}

/// Checks whether a label is a name in words, with no number or letter at its end that tells it from others.
fn is_plain_name(label: &str) -> bool {
    let is_longer = |word: &str| word.chars().nth(1).is_some() && !ends_with_letter(word);
    !label.contains(|c: char| c.is_ascii_digit()) && label.split_whitespace().last().is_some_and(is_longer)
}

/// Checks whether a word ends with a letter of ASCII behind a word of a script without blanks.
fn ends_with_letter(word: &str) -> bool {
    let mut from_end = word.chars().rev();
    from_end.next().is_some_and(|c| c.is_ascii_alphabetic()) && from_end.next().is_some_and(is_word_by_itself)
}

/// Checks whether a label is one character that is a word by itself.
fn is_word(label: &str) -> bool {
    label.chars().nth(1).is_none() && label.starts_with(is_word_by_itself)
}

/// Returns the number or letter at the end of a name, such as "Option B".
fn mark_of(label: &str) -> Option<&str> {
    let (at, last) = label.char_indices().next_back()?;
    let before = label[..at].chars().next_back()?;
    let is_apart = before == ' ' || !before.is_ascii() && last.is_ascii();
    (is_apart && last.is_alphanumeric()).then_some(&label[at..])
}

/// Checks whether a message says at most so many characters beside the labels of a kind that it names.
fn says_little_beside(message: &str, items: &[Item], is_kind: impl Fn(&str) -> bool, most: usize) -> bool {
    let labels = items.iter().map(|(_, label)| label.as_str()).filter(|label| is_kind(label));
    let named: HashSet<&str> = labels.filter(|label| mentions(message, label).next().is_some()).collect();
    let n_named: usize = named.iter().map(|label| label.chars().count()).sum();
    message.trim().chars().count() <= n_named + most
}

/// Checks whether a message is nothing but a letter, whichever its case.
fn is_all_of(message: &str, label: &str) -> bool {
    let said = message.trim_matches(|c: char| !c.is_alphanumeric());
    label.chars().nth(1).is_none() && said.to_lowercase() == label.to_lowercase()
}

/// Checks whether a label at such a byte of a message is surely one: a number before a word may be a count.
fn is_pick(message: &str, label: &str, at: usize) -> bool {
    let begins = message[..at].rsplit('\n').next().is_some_and(|line| line.trim().is_empty());
    let next = message[at + label.len()..].trim_start_matches(' ').chars().next();
    let is_count = label.bytes().all(|b| b.is_ascii_digit()) && next.is_some_and(char::is_alphanumeric);
    begins || !is_count
}

/// The label of a line that may be an item.
struct Label {
    text: String,
    /// True if a dash ends it, as any other word of a sentence.
    is_dashed: bool,
}

/// Returns the label of the item that a line is.
fn label(line: &str) -> Option<Label> {
    let line = line.trim_start();
    let item = line.trim_start_matches(|c: char| c.is_whitespace() || BEFORE.contains(&c));
    let first = item.chars().next()?;
    let is_key = || item[1..].trim_start_matches('\u{fe0f}').starts_with('\u{20e3}');
    if enclosed(first).is_some() || first.is_ascii_digit() && is_key() {
        return Some(Label { text: plain(&item[..first.len_utf8()]), is_dashed: false });
    }
    dashed_label(item).or_else(|| marked_label(item, line.starts_with('|')))
}

/// Returns the label before a dash with which an item begins.
fn dashed_label(item: &str) -> Option<Label> {
    let (label, rest) = item.split_at(item.find(DASHES)?);
    let (label, rest) = (without_emphasis(label), rest.trim_start_matches(DASHES));
    let is_numbered = || is_name(label) && label.split_whitespace().nth(1).is_some_and(is_mark);
    // Two numbers are a range.
    let begins =
        rest.starts_with(char::is_whitespace) && rest.trim_start().starts_with(|c: char| digit(c).is_none());
    (begins && (is_mark(label) || is_numbered())).then(|| Label { text: plain(label), is_dashed: true })
}

/// Returns the label before another mark with which an item begins, which may be a row of a table.
fn marked_label(item: &str, is_row: bool) -> Option<Label> {
    let (label, rest) = item.split_at(item.find(ENDS)?);
    let label = without_emphasis(label);
    let mut rest = rest.chars();
    let (end, next) = (rest.next()?, rest.next());
    let is_named = is_name(label) && matches!(end, ':' | '：');
    // A fraction, a time and a file's name are no items. In scripts without blanks, none follows the mark.
    let goes_on = |c: char| c == '/' || digit(c).is_some() || end.is_ascii() && c.is_ascii_alphanumeric();
    let may_end = if end == '|' { is_row } else { !next.is_some_and(goes_on) };
    (may_end && (is_mark(label) || is_named)).then(|| Label { text: plain(label), is_dashed: false })
}

/// Returns a label without what follows it: blanks, and the signs of bold text.
fn without_emphasis(label: &str) -> &str {
    label.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '_'))
}

/// Checks whether a label is a number of at most two digits, or a letter.
fn is_mark(label: &str) -> bool {
    let mut chars = label.chars();
    match (chars.next(), chars.next(), chars.next()) {
        (Some(only), None, _) => only.is_alphanumeric(),
        (Some(first), Some(second), None) => digit(first).is_some() && digit(second).is_some(),
        _ => false,
    }
}

/// Checks whether a label is a short name.
fn is_name(label: &str) -> bool {
    label.chars().nth(NAME_CHARS).is_none()
        && (1..=NAME_WORDS).contains(&label.split_whitespace().count())
        && label.starts_with(char::is_alphanumeric)
}

/// Returns the number of the item that a line is; `None` if it has none.
pub(super) fn number_of(line: &str) -> Option<u32> {
    label(line)?.text.parse().ok()
}

/// Returns a text with the numbers and letters that all keyboards have, in place of the same ones in other
/// scripts and widths, and in circles.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match (digit(c).and_then(|digit| char::from_digit(digit, 10)), enclosed(c)) {
            (Some(digit), _) => plain.push(digit),
            (None, Some(enclosed)) => plain.push_str(&enclosed),
            (None, None) => plain.push(narrow(c)),
        }
    }
    plain
}

/// Returns the value of a digit of any script: the ten of each stand in a row, from zero on.
fn digit(c: char) -> Option<u32> {
    if c.is_ascii() {
        return c.to_digit(10);
    }
    let code = c as u32;
    let is_digit = |code: u32| char::from_u32(code).is_some_and(char::is_numeric);
    let value = (1..=10_u32).take_while(|below| is_digit(code - *below)).count() as u32;
    let zero = code - value;
    // Fractions, Roman numbers and those in circles are in other rows, and a sign for ten behind the nine.
    let may_be_digit = value < 10 && !OTHER_NUMBERS.contains(&c) && is_digit(code);
    (may_be_digit && (zero..zero + 10).all(is_digit)).then_some(value)
}

/// Returns the number or letter that a character shows in a circle, in brackets or before a full stop.
fn enclosed(c: char) -> Option<String> {
    let number = |first: char, n_each: u32| Some((1 + (c as u32 - first as u32) % n_each).to_string());
    let letter = |first: u8| Some(char::from(first + ((c as u32 - '⒜' as u32) % 26) as u8).to_string());
    match c {
        '①'..='⒛' => number('①', 20),
        '❶'..='➓' => number('❶', 10),
        'Ⓐ'..='Ⓩ' => letter(b'A'),
        '⒜'..='⒵' | 'ⓐ'..='ⓩ' => letter(b'a'),
        _ => None,
    }
}

/// Returns the letter of ASCII that a full-width one is; other characters as they are.
fn narrow(c: char) -> char {
    match c {
        'Ａ'..='Ｚ' | 'ａ'..='ｚ' => char::from_u32(c as u32 - 0xfee0).unwrap_or(c),
        _ => c,
    }
}

/// Iterates over the places where a message names the label of an item, other than as a part of a word or a
/// number.
fn mentions<'a>(message: &'a str, label: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_letter = label.chars().nth(1).is_none() && !label.starts_with(|c: char| c.is_ascii_digit());
    let is_whole = move |at: usize| {
        let (before, after) = (&message[..at], &message[at + label.len()..]);
        // Before a word of a script without blanks, the word before it ends.
        let is_of_word = |c: char| {
            c.is_ascii_alphanumeric() || c == '_' || is_letter && c.is_alphabetic() && !is_word_by_itself(c)
        };
        let mut rest = after.chars();
        // In a number, a mark between digits is a part of it; a letter before a word may be an article.
        let is_part = match rest.next() {
            Some('.' | ',' | ':') => !is_letter && rest.next().is_some_and(|c| c.is_ascii_digit()),
            // As in "What's next".
            Some('\'' | '’') => is_plain_name(label) && rest.next().is_some_and(char::is_alphabetic),
            Some(' ') => {
                is_letter && rest.next().is_some_and(char::is_lowercase) && !is_beside_another(label, after)
            }
            _ => false,
        };
        let is_percent = after.trim_start().starts_with('%');
        !before.ends_with(is_of_word) && !after.starts_with(is_of_word) && !is_part && !is_percent
    };
    message.match_indices(label).map(|(at, _)| at).filter(move |at| is_whole(*at))
}

/// Checks whether one word stands between a letter and another letter, as in "B and D".
fn is_beside_another(letter: &str, after: &str) -> bool {
    let other = after.split_whitespace().nth(1).unwrap_or_default();
    let other = other.trim_matches(|c: char| !c.is_alphanumeric());
    let is_upper = |text: &str| text.starts_with(char::is_uppercase);
    let is_one = other.chars().nth(1).is_none() && other.starts_with(char::is_alphabetic);
    is_one && other != letter && is_upper(other) == is_upper(letter)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// Returns the numbers of the lines that are picked.
    fn lines_picked(text: &str, message: &str, is_next: bool) -> Vec<usize> {
        let starts = picked(text, message, is_next);
        starts.iter().map(|start| text[..*start as usize].matches('\n').count()).collect()
    }

    #[test]
    fn items_are_known_in_every_script() {
        for (text, message, expected) in [
            ("| Key | How |\n|---|---|\n| A | here |\n| **B. File** | on disk |\n| C |x|", "b", vec![3]),
            ("| # | How |\n|---|---|\n| 1 | here |\n| 2 | there |", "Then 2", vec![3]),
            ("① 換鍵\n② 換門", "②でお願い", vec![1]),
            ("① 換鍵\n② 換門", "1と2で", vec![0, 1]),
            ("１．鍵\n２．門", "では2を直して", vec![1]),
            ("１．鍵\n２．門", "２番でお願いします", vec![1]),
            ("Ａ．Redis\nＢ．File", "选B", vec![1]),
            ("（1）锁\n（2）门", "选2吧", vec![1]),
            ("1、Redis\n2、File", "先做2再说", vec![1]),
            ("一、锁\n二、门", "第二个", vec![1]),
            ("一、锁\n二、门", "看一下门为什么打不开", vec![]),
            ("1️⃣ paint\n2️⃣ sell", "2", vec![1]),
            ("1- la puerta\n\n2- la llave", "la 2", vec![2]),
            ("**A** - paint\n**B** — sell", "B", vec![1]),
            ("1 - 3 doors\n2 - 4 keys", "2", vec![]),
            ("а) дверь\nб) ключ\nв) лампа", "вариант б", vec![1]),
            ("а) дверь\nб) ключ\nв) лампа", "а и в", vec![0, 2]),
            ("1) дверь\n2) ключ", "давай 2 пункт", vec![1]),
            ("١- باب\n٢- مفتاح", "2", vec![1]),
            ("१. दरवाज़ा\n२. चाबी", "२", vec![1]),
            ("1. 문\n2. 열쇠", "그럼 2번만", vec![1]),
            ("**방안 A**: 문\n**방안 B**: 열쇠", "B로 가자", vec![1]),
            ("**方案A：** 锁\n**方案B：** 门", "用B", vec![1]),
            ("**方案A：** 锁\n   贵\n**方案B：** 门\n   便宜", "方案B", vec![2]),
            ("- **What:** a boat\n- **Who:** all", "What’s our list", vec![]),
            ("- **Redis**: fast\n- **File**: simple", "File", vec![1]),
        ] {
            assert_eq!(lines_picked(text, message, true), expected, "{text} {message}");
        }
    }

    #[test]
    fn a_digit_is_one_of_ten_in_a_row() {
        for (c, expected) in [
            ('7', Some(7)),
            ('７', Some(7)),
            ('٢', Some(2)),
            ('௯', Some(9)),
            ('௰', None),
            ('½', None),
            ('²', None),
            ('一', None),
            ('a', None),
        ] {
            assert_eq!(digit(c), expected, "{c}");
        }
    }

    #[test]
    fn of_an_older_list_a_number_before_a_word_picks_nothing() {
        for (message, is_next, expected) in [
            ("wait 2 hours", false, vec![]),
            ("wait 2 hours", true, vec![1]),
            ("do 2, please", false, vec![1]),
        ] {
            assert_eq!(lines_picked("1. paint it\n2. sell it", message, is_next), expected, "{message}");
        }
    }

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
            assert_eq!(lines_picked(text, message, true), expected, "{message}");
        }
        assert_eq!(picked(findings, &"1 ".repeat(400), true), Vec::<u32>::new());
    }
}
