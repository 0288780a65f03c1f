//! Numbers for users.

use forge_domain::Tokens;

/// Returns the number with commas between thousands.
pub(crate) fn with_separators(tokens: Tokens) -> String {
    let digits = tokens.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn thousands_are_apart() {
        for (number, expected) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(with_separators(Tokens::new(number)), expected);
        }
    }
}
