//! Which known word a mistyped one was meant to be.

use strsim::damerau_levenshtein;

/// Returns the known word that is nearest to `word`, if it is near enough to be meant: at most a third of its
/// letters are added, missing, changed or swapped with their neighbour, or it is the beginning of one.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The distance is quadratic in the letters, and no key is longer.
    if word.len() > LONGEST {
        return None;
    }
    let reach = (word.chars().count() / 3).max(1);
    // `clear_tools` stands for `clear_tool_results`.
    let singular = word.strip_suffix('s').unwrap_or(word);
    let begins = |candidate: &str| singular.len() > LEAST_BEGINNING && candidate.starts_with(singular);
    known
        .into_iter()
        .map(|candidate| match begins(candidate) {
            true => (reach, candidate),
            false => (damerau_levenshtein(&word.to_lowercase(), &candidate.to_lowercase()), candidate),
        })
        .filter(|(distance, _)| *distance <= reach)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Words of more bytes are no slip.
const LONGEST: usize = 200;

/// A beginning of this many letters or fewer is too short.
const LEAST_BEGINNING: usize = 3;

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        let known = [
            "token_threshold",
            "turn_threshold",
            "max_tokens",
            "max_turns",
            "model",
            "id",
            "clear_tool_results",
        ];
        for (word, expected) in [
            ("token_treshold", Some("token_threshold")),
            ("max_token", Some("max_tokens")),
            ("maxTokens", Some("max_tokens")),
            ("turns_threshold", Some("turn_threshold")),
            ("modle", Some("model")),
            ("toekn_threshold", Some("token_threshold")),
            ("mode", Some("model")),
            ("Model", Some("model")),
            ("clear_tools", Some("clear_tool_results")),
            ("focus", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
    }
}
