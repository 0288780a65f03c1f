//! Which known word a mistyped one was meant to be.

/// The known word that is nearest to `word`, if it is near enough to be meant: at most a third of its letters differ, or it
/// is the beginning of one.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let reach = (word.chars().count() / 3).max(1);
    let begins = |candidate: &str| word.len() > LEAST_BEGINNING && candidate.starts_with(word);
    known
        .into_iter()
        .map(|candidate| match begins(candidate) {
            true => (reach, candidate),
            false => (distance(&word.to_lowercase(), &candidate.to_lowercase()), candidate),
        })
        .filter(|(distance, _)| *distance <= reach)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// A beginning of this many letters or fewer says too little.
const LEAST_BEGINNING: usize = 3;

/// How many letters are to be added, dropped or changed to make `b` of `a`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        let known = ["token_threshold", "turn_threshold", "max_tokens", "max_turns", "model", "id"];
        for (word, expected) in [
            ("token_treshold", Some("token_threshold")),
            ("max_token", Some("max_tokens")),
            ("maxTokens", Some("max_tokens")),
            ("turns_threshold", Some("turn_threshold")),
            ("modle", None),
            ("mode", Some("model")),
            ("Model", Some("model")),
            ("focus", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
    }
}
