//! The actual and the allowed length of a prompt, from servers' error texts.

/// The two figures of an overlong prompt, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// The tokens that were sent, plus those kept free for the reply if the server counts them in.
    pub(crate) need: Option<u64>,
    /// The tokens that the model accepts.
    pub(crate) window: Option<u64>,
}

/// Words before a number that make it a limit.
const LIMIT: [&str; 23] = [
    "maximum",
    "max",
    "limit",
    "limits",
    "window",
    "context",
    "allowed",
    "supports",
    "most",
    "up",
    "<=",
    ">",
    "capacity",
    "size",
    "than",
    "truncation",
    // Options of servers. The limit of a reply, such as `max_tokens`, is not among them.
    "n_ctx",
    "max_model_len",
    "max_seq_len",
    "max_kv_size",
    "max_num_tokens",
    "max_total_tokens",
    "max_position_embeddings",
];
/// Words before a number that make it what was sent.
const SENT: [&str; 19] = [
    "keep",
    "n_keep",
    "requested",
    "request",
    "resulted",
    "got",
    "has",
    "have",
    "contains",
    "contained",
    "given",
    "count",
    "input",
    "inputs",
    "prompt",
    "messages",
    "total",
    "sent",
    "provided",
];
/// Words that name what was sent; after a word for a maximum they name what may be sent.
const NOUNS: [&str; 6] = ["request", "count", "input", "inputs", "prompt", "messages"];

/// A number in a text, and the text between it and the number before it.
struct Number {
    value: u64,
    before: String,
}

impl Figures {
    /// Reads the figures in `text`, which is in lower case.
    pub(crate) fn in_words(text: &str) -> Self {
        let numbers = numbers(text);
        if let Some(compared) = read_comparison(&numbers) {
            return compared;
        }
        let (mut need, mut window, mut excess) = (None, None, None);
        for number in &numbers {
            let words: Vec<&str> = number.before.split(is_no_word).filter(|word| !word.is_empty()).collect();
            match words.as_slice() {
                [.., "by"] if number.before.contains("exceed") => excess = excess.or(Some(number.value)),
                // "4000 `inputs` tokens and 2000 `max_new_tokens`": together they are over.
                ["inputs", "tokens", "and"] => need = need.map(|inputs| inputs + number.value),
                words => match is_limit(words) {
                    Some(true) => window = window.or(Some(number.value)),
                    Some(false) => need = need.or(Some(number.value)),
                    None => {}
                },
            }
        }
        let over = window.zip(excess).map(|(window, excess)| window + excess);
        Self { need: need.or(over), window }
    }
}

/// Reads `need > window`, where need may be a sum.
fn read_comparison(numbers: &[Number]) -> Option<Figures> {
    let sign = |number: &Number| match number.before.trim().trim_start_matches("tokens").trim() {
        ">" => Some('>'),
        "+" => Some('+'),
        _ => None,
    };
    let at = numbers.iter().position(|number| sign(number) == Some('>')).filter(|at| *at > 0)?;
    let n_terms = numbers[..at].iter().rev().take_while(|number| sign(number) == Some('+')).count();
    let first = at.checked_sub(n_terms + 1)?;
    let need = numbers[first..at].iter().map(|number| number.value).sum();
    // A difference on the right is not a window.
    let is_difference = numbers.get(at + 1).is_some_and(|next| next.before.trim() == "-");
    (!is_difference).then_some(Figures { need: Some(need), window: Some(numbers[at].value) })
}

/// Tells whether the words before a number make it a limit or what was sent; the nearest one decides.
fn is_limit(words: &[&str]) -> Option<bool> {
    words.iter().enumerate().rev().find_map(|(at, word)| {
        let behind_maximum =
            words[at.saturating_sub(4)..at].iter().any(|word| matches!(*word, "maximum" | "max" | "allowed"));
        if SENT.contains(word) && !(NOUNS.contains(word) && behind_maximum) {
            return Some(false);
        }
        LIMIT.contains(word).then_some(true)
    })
}

fn is_no_word(character: char) -> bool {
    !character.is_alphanumeric() && !matches!(character, '_' | '<' | '=' | '>')
}

/// Returns the numbers of `text` that stand alone; those in names, dates and ids belong to the text between.
/// Some servers write whole numbers with a point: "9000.0". Nothing has a length of 0.
fn numbers(text: &str) -> Vec<Number> {
    let mut numbers = Vec::new();
    let (mut rest, mut before) = (text, String::new());
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        before.push_str(&rest[..start]);
        let digits = &rest[start..];
        let end = digits.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(digits.len());
        let end = digits[..end].trim_end_matches(',').len();
        let after = &digits[end..];
        let after = after.strip_prefix(".0").map_or(after, |rest| rest.trim_start_matches('0'));
        let glued = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':');
        let follows = after.trim_start_matches(['.', ':', '-']).len() != after.len()
            && after[1..].starts_with(char::is_alphanumeric);
        let is_part = before.ends_with(glued) || after.starts_with(char::is_alphanumeric) || follows;
        match digits[..end].replace(',', "").parse::<u64>() {
            Ok(value @ 1..) if !is_part => {
                numbers.push(Number { value, before: std::mem::take(&mut before) });
            }
            _ => before.push_str(&digits[..digits.len() - after.len()]),
        }
        rest = after;
    }
    numbers
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn figures_are_found_whatever_the_words() {
        for (text, need, window) in [
            ("", None, None),
            ("no figures here", None, None),
            ("200001 > 200000", Some(200_001), Some(200_000)),
            ("184915 + 20000 > 204648, decrease", Some(204_915), Some(204_648)),
            ("1 + 2 + 3 > 5", Some(6), Some(5)),
            ("context window exceeded: requested 10 of at most 8", Some(10), Some(8)),
            ("model gpt-4 (2024-08-06, v1.5) has a limit of 8192 tokens", None, Some(8192)),
            ("exceeds the maximum number of input tokens (4096)", None, Some(4096)),
            ("tokens limit is 4,096 while prompt contains 5,000", Some(5000), Some(4096)),
            ("your request has 3000 tokens (8192 > 4096 - 3000)", Some(3000), Some(4096)),
            ("prompt length (9000.0), query length (0), max_num_tokens (8192)", Some(9000), Some(8192)),
            ("the engine prompt length 9000 exceeds the max_model_len 8192", Some(9000), Some(8192)),
            ("prompt length 9000 exceeds max_kv_size 8192", Some(9000), Some(8192)),
            ("prompt length (9000) exceeds the truncation length (8192)", Some(9000), Some(8192)),
            ("the limit of v2.0 at 10.0.0.1 is 1.05 times 8192.00 tokens", None, Some(8192)),
        ] {
            assert_eq!(Figures::in_words(text), Figures { need, window }, "{text}");
        }
    }
}
