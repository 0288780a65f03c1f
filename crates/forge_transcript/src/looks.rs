//! The looks of a file of an unknown format, and the format that is nearest to it.

use crate::codec::{Evidence, Fields, Layout};
use crate::{Format, TranscriptError};

/// The number of keys that are named.
const NAMED: usize = 5;
/// The most characters of a key that are shown.
const SHOWN: usize = 40;
/// The keys that are in the records of so many programs that they show no format.
const COMMON: [&str; 8] = ["type", "role", "content", "message", "messages", "data", "id", "text"];

/// Completes the error about a file of an unknown format. Any other stays as it is.
pub(crate) fn described(error: TranscriptError, bytes: &[u8]) -> TranscriptError {
    match error {
        TranscriptError::UnknownFormat { origin, .. } => {
            let evidence = Evidence::of(bytes);
            let (looks, nearest) = (looks(&evidence), nearest(&evidence));
            TranscriptError::UnknownFormat { origin, looks, nearest }
        }
        error => error,
    }
}

/// Returns the first record of a file that has keys.
fn first_record<'e, 'a>(evidence: &'e Evidence<'a>) -> Option<&'e Fields<'a>> {
    let mut records = evidence.list().iter().chain(evidence.lines());
    records.find(|record| !record.0.is_empty())
}

fn looks(evidence: &Evidence<'_>) -> String {
    let Some(first) = first_record(evidence) else {
        let looks = match evidence.layout {
            Layout::Object(_) => "an empty object",
            Layout::List(_) => "a list without objects",
            Layout::Text(_) | Layout::Binary => "JSON, and neither an object nor a list",
        };
        return looks.to_owned();
    };
    let layout = match evidence.layout {
        Layout::Object(_) => "one object",
        Layout::List(_) => "a list of objects",
        Layout::Text(_) | Layout::Binary => "JSON lines",
    };
    let named: Vec<String> = first.0.iter().take(NAMED).map(|(key, _)| format!("`{}`", shown(key))).collect();
    let keys = if first.0.len() == 1 { "key" } else { "keys" };
    let more = match first.0.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{layout} with the {keys} {}{more}", named.join(", "))
}

/// Returns a key in one line, without its end if it is long: anyone may have written it.
fn shown(key: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let mut shown: String = key.chars().take(SHOWN).map(plain).collect();
    if key.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

/// Returns the format of whose keys a file has the largest part, if that is half of them and not only one.
/// They are the quoted words of its description.
fn nearest(evidence: &Evidence<'_>) -> Option<Format> {
    let first = first_record(evidence)?;
    let share = |format: &Format| {
        let words = format.description().split('"').skip(1).step_by(2);
        let words: Vec<&str> = words.filter(|word| !COMMON.contains(word)).collect();
        let n_shared = words.iter().filter(|word| first.contains(word)).count();
        if n_shared > 1 { n_shared * 100 / words.len() } else { 0 }
    };
    let shares = Format::all().map(|format| (share(&format), format)).filter(|(share, _)| *share >= 50);
    shares.max_by_key(|(share, _)| *share).map(|(_, format)| format)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_key_is_shown_in_one_line_and_cut() {
        let long = "k".repeat(SHOWN);
        for (key, expected) in [
            ("a b", "a b".to_owned()),
            ("a\nb\u{1b}[31m", "a b [31m".to_owned()),
            (long.as_str(), long.clone()),
            (format!("{long}é").as_str(), format!("{long}…")),
        ] {
            assert_eq!(shown(key), expected);
        }
    }
}
