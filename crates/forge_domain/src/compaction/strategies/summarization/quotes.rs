//! The user's words in a summary of whole turns: they stand verbatim before what the model wrote.

use crate::compaction::CompactionRules;
use crate::compaction::features::is_line_break;
use crate::compaction::short_text::{head_and_tail, readable_text};
use crate::{ContextMessage, TokenCounter, Tokens};

/// The line above the user's words.
const HEADING: &str = "The user said, word for word:";
/// Fewer tokens than this are no use to a shortened message.
const LEAST: Tokens = Tokens::new(20);

/// Returns the tokens that the quoted words of users may have: their share of the target, and as much again,
/// since what a message of its own cannot hold stands in the record, and a summary of turns is one.
pub(super) fn share_of_quotes(rules: &CompactionRules) -> Tokens {
    let share = rules.user_share.of(rules.target.tokens);
    share + share.min(rules.target.tokens.share(1, 4))
}

/// Splits a summary into the quotes at its start, oldest first, and the rest.
pub(super) fn split_quotes(summary: &str) -> (Vec<String>, &str) {
    let mut quotes: Vec<String> = Vec::new();
    let Some(mut rest) = summary.strip_prefix(HEADING).and_then(|rest| rest.strip_prefix('\n')) else {
        return (quotes, summary);
    };
    while let Some(line) = rest.split('\n').next().filter(|line| line.starts_with('>')) {
        match quotes.last_mut() {
            Some(quote) if !line.starts_with("> [m") => {
                quote.push('\n');
                quote.push_str(line);
            }
            _ => quotes.push(line.to_owned()),
        }
        rest = rest[line.len()..].strip_prefix('\n').unwrap_or_default();
    }
    (quotes, rest.trim_start())
}

/// Returns what the user said by the quotes at the start of a summary's message, oldest first, each with the
/// label of its message, and the length of the text up to the end of the quotes.
pub(in crate::compaction) fn said_in_summary(text: &str) -> (Vec<(&str, String)>, usize) {
    let opening = text.split_inclusive('\n').next().filter(|line| line.starts_with('<')).map_or(0, str::len);
    let inner = &text[opening..];
    let Some(quotes) = inner.strip_prefix(HEADING).and_then(|rest| rest.strip_prefix('\n')) else {
        return (Vec::new(), 0);
    };
    let lines = quotes.split_inclusive('\n').take_while(|line| line.starts_with('>'));
    let length = text.len() - quotes.len() + lines.clone().map(str::len).sum::<usize>();
    let mut said: Vec<(&str, String)> = Vec::new();
    for line in lines.map(|line| line.trim_end_matches('\n')) {
        let line = line.trim_start_matches('>');
        let line = line.strip_prefix(' ').unwrap_or(line);
        let first = line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
        match (first.filter(|(label, _)| label.starts_with('m')), said.last_mut()) {
            (Some((label, text)), _) => said.push((label, text.to_owned())),
            // A line that looked like the start of a quote has one more blank.
            (None, Some((_, said))) => {
                let line = line.strip_prefix(' ').filter(|line| line.starts_with("[m")).unwrap_or(line);
                said.push('\n');
                said.push_str(line);
            }
            // What only counts older ones.
            (None, None) => {}
        }
    }
    (said, length)
}

/// Quotes what a user said: each line is marked, so that no content ends the quote.
pub(super) fn quote(message: &ContextMessage) -> String {
    let label = message.label();
    let text = readable_text(message.message());
    let mut lines = text.trim().split(is_line_break);
    let first = format!("> [{label}] {}", lines.next().unwrap_or_default());
    // A line that looked like the start of a quote would be one.
    lines.fold(first, |quoted, line| quoted + "\n> " + if line.starts_with("[m") { " " } else { "" } + line)
}

/// Returns the summary after as many of `quotes`, newest first, as `most` tokens can hold. The first that is
/// too long is shortened to head and tail, and older ones are counted.
pub(super) fn with_quotes(
    quotes: &[String],
    summary: &str,
    most: Tokens,
    counter: &dyn TokenCounter,
) -> String {
    // Only quotes may stand below the heading.
    let said: Vec<&str> = summary.split('\n').filter(|line| line.trim() != HEADING).collect();
    let summary = said.join("\n");
    let summary = summary.trim_start();
    let mut left = most;
    let mut kept: Vec<String> = Vec::new();
    for (nth, quote) in quotes.iter().enumerate().rev() {
        let tokens = counter.count(quote);
        if tokens <= left {
            left = left - tokens;
            kept.push(quote.clone());
        } else if left >= LEAST {
            let keep = quote.chars().count() as u64 * left.as_u64() / tokens.as_u64().max(1);
            let short = head_and_tail(quote, keep as usize);
            kept.push(short.split('\n').map(marked).collect::<Vec<_>>().join("\n"));
            left = Tokens::ZERO;
        } else {
            kept.push(format!("> [... {} earlier omitted ...]", crate::quantity(nth + 1, "message")));
            break;
        }
    }
    if kept.is_empty() {
        return summary.to_owned();
    }
    kept.reverse();
    format!("{HEADING}\n{}\n\n{summary}", kept.join("\n"))
}

/// Returns a line of a quote, marked if it was cut within.
fn marked(line: &str) -> String {
    if line.starts_with('>') { line.to_owned() } else { format!("> {line}") }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::Conversation;
    use crate::compaction::fixture::Characters;

    #[test]
    fn what_a_summary_quotes_is_read_again() {
        let mut log = Conversation::new();
        let said = ["Use tabs.", "one\n\n[m7] is mine\n> so is this", "Third."];
        for text in said {
            log.user(text);
        }
        let quotes: Vec<String> = log.messages().map(quote).collect();
        let expected: Vec<(&str, String)> =
            ["m0", "m1", "m2"].into_iter().zip(said.map(str::to_owned)).collect();
        let of = |most: u64| {
            let text = with_quotes(&quotes, "The parser is done.", Tokens::new(most), &Characters);
            format!("<note>\n{text}\n</note>")
        };
        let text = of(1_000);
        let (actual, length) = said_in_summary(&text);
        assert_eq!((actual, text[length..].trim()), (expected.clone(), "The parser is done.\n</note>"));
        let short = of(30);
        assert_eq!(said_in_summary(&short).0.last(), expected.last(), "{short}");
        assert_eq!(said_in_summary("<note>\nNo quotes.\n</note>"), (Vec::new(), 0));
    }
}
