//! The user's words in a summary of whole turns: they stand verbatim before what the model wrote.

use crate::compaction::CompactionRules;
use crate::compaction::features::is_line_break;
use crate::compaction::short_text::{head_and_tail, readable_text};
use crate::{ContextMessage, TokenCounter, Tokens};

/// The line above the user's words.
const HEADING: &str = "The user said, word for word:";
/// Fewer tokens than this are no use to a shortened message.
const LEAST: Tokens = Tokens::new(20);

/// Returns the tokens that the quoted words of users may have: their share of the target.
pub(super) fn share_of_quotes(rules: &CompactionRules) -> Tokens {
    rules.user_share.of(rules.target.tokens)
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
    let summary = summary.strip_prefix(HEADING).unwrap_or(summary).trim_start();
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
