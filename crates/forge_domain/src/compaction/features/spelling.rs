//! The terms of a piece, known by their spelling. Apart from the [`Term`](super::Term) because that is
//! kept, and all of this how it is found.

use super::SENTENCE_ENDS;
use super::term::Kind;
use crate::conversation::is_word_by_itself;

/// Tells the terms of a piece, in order, some more than once.
pub(super) fn terms(piece: &str, add: &mut impl FnMut(&str, Kind)) {
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

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::{Features, Term, form_hash};
    use super::*;
    use crate::Message;

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
}
