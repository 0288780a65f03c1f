//! The wait that a server asks for in its error text.

use std::time::Duration;

/// The longest wait that is believed. No run waits that long, but the error tells when to come back.
const LONGEST: f64 = 366.0 * 24.0 * 3600.0;

/// Reads the wait in `text`, which is in lower case: "try again in 18.642s", "retry in 1m30s", "retry after
/// 20 seconds".
pub(crate) fn in_words(text: &str) -> Option<Duration> {
    let words = ["again in ", "retry in ", "retry after ", "again after "];
    let rest = words.iter().find_map(|words| text.split_once(words)).map(|(_, rest)| rest)?;
    of_text(rest)
}

/// Reads the wait that `text` begins with: "18.642s", "1m30s", "about 20 seconds".
pub(crate) fn of_text(rest: &str) -> Option<Duration> {
    let (mut rest, mut seconds, mut is_any) = (rest.trim_start_matches("about "), 0.0, false);
    while let Some(end) = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|end| *end > 0) {
        let Ok(number) = rest[..end].trim_end_matches('.').parse::<f64>() else { break };
        let unit = rest[end..].trim_start();
        let word: String = unit.chars().take_while(|c| c.is_alphabetic()).collect();
        let factor = match word.as_str() {
            "ms" | "milliseconds" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 24.0 * 3600.0,
            _ => break,
        };
        seconds += number * factor;
        is_any = true;
        rest = unit[word.len()..].trim_start();
    }
    (is_any && seconds <= LONGEST).then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn waits_are_read_in_every_spelling() {
        for (text, expected) in [
            ("please try again in 18.642s. visit", Some(18.642)),
            ("please retry in 48.5s.", Some(48.5)),
            ("try again in 1m30s", Some(90.0)),
            ("try again in 250ms", Some(0.25)),
            ("retry after 20 seconds", Some(20.0)),
            ("try again in 1 day 2 hours", Some(93_600.0)),
            ("try again in 99999h", None),
            ("try again later", None),
            ("retry in a while", None),
        ] {
            assert_eq!(in_words(text).map(|wait| wait.as_secs_f64()), expected, "{text}");
        }
    }
}
