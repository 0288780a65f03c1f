//! Numbers with their nouns: one turn, two turns.

use std::fmt::Display;

/// Returns `n` and the noun in its number: `1 turn`, `2 turns`, `0 summaries`.
pub fn quantity(n: impl Display, singular: &str) -> String {
    let n = n.to_string();
    let noun = noun(&n, singular);
    format!("{n} {noun}")
}

/// Returns the noun alone in the number of `n`, for figures that are elsewhere.
pub fn noun(n: impl Display, singular: &str) -> String {
    if n.to_string() == "1" {
        return singular.to_owned();
    }
    match singular.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ if singular.ends_with(['s', 'x']) || singular.ends_with("ch") => format!("{singular}es"),
        _ => format!("{singular}s"),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn one_is_singular_and_all_else_plural() {
        for (n, singular, expected) in [
            ("1", "turn", "1 turn"),
            ("0", "turn", "0 turns"),
            ("2", "summary", "2 summaries"),
            ("1,001", "reply", "1,001 replies"),
            ("2", "key", "2 keys"),
            ("3", "branch", "3 branches"),
            ("3", "prompt token", "3 prompt tokens"),
        ] {
            assert_eq!(quantity(n, singular), expected);
        }
    }
}
