//! The sections of another program's summary that are out of date once its agent has worked again.

use std::ops::Range;

use super::fence::FENCE;
use super::passage::indented_start;
use crate::compaction::features::{Features, Line};
use crate::compaction::short_text::omission;
use crate::compaction::strategies::summarization::said_in_summary;
use crate::{Content, ContextMessage, TokenCounter};

/// Words in the headings of what was open when the summary was written.
const OPEN: [&str; 5] = ["pending", "current work", "in progress", "next step", "remaining"];
/// Such a heading as a whole, or its end: `Todo app` is what the work is about.
const TO_DO: [&str; 4] = ["to-do", "to do", "todo", "todos"];
/// Most words of such a heading: a sentence may end with a colon, too.
const MOST_WORDS: usize = 5;
/// The first words of what a harness orders below the summary.
const ORDERS: [&str; 3] = [
    "If you need specific details from before compaction",
    "Continue the conversation from where it left off",
    "Please continue the conversation from where we left",
];
/// The ranks of headings that have no marks of Markdown, which has six: the lower one heads more.
const NUMBERED: usize = 7;
const BOLD: usize = 8;
const PLAIN: usize = 9;
/// The marks around a quote.
const QUOTES: [(char, char); 4] = [('"', '"'), ('“', '”'), ('«', '»'), ('「', '」')];
/// A quote of fewer bytes is a name or a message of a program.
const LEAST_QUOTE: usize = 24;

/// Returns a summary that stays without what was open when it was written, and without the orders below that:
/// a line says how much was left out. Quotes in it may be the user's words, so they stay unless they stand
/// elsewhere in it, too. `None` if nothing is left out.
pub(super) fn without_open(message: &ContextMessage, counter: &dyn TokenCounter) -> Option<ContextMessage> {
    let features = message.features();
    let text = match message.message().content() {
        Some(Content::Text(text)) if *text == features.text => text,
        _ => return None,
    };
    let open = open_parts(features);
    if open.is_empty() {
        return None;
    }
    let mut from = 0;
    let mut lasting: Vec<&str> = Vec::with_capacity(open.len() + 1);
    for part in &open {
        lasting.push(&text[from..part.start]);
        from = part.end;
    }
    lasting.push(&text[from..]);
    let mut rest = String::with_capacity(text.len());
    for (lasting_part, part) in lasting.iter().zip(&open) {
        rest.push_str(lasting_part);
        if !rest.is_empty() && !rest.ends_with('\n') {
            rest.push('\n');
        }
        let part = &text[part.clone()];
        rest.push_str(&omission(message.id(), part));
        for quote in quotes_in(part).iter().filter(|quote| lasting.iter().all(|part| !part.contains(**quote)))
        {
            rest.push_str(&format!("\nQuoted there: \"{quote}\""));
        }
        if part.ends_with('\n') {
            rest.push('\n');
        }
    }
    rest.push_str(lasting.last().copied().unwrap_or_default());
    Some(ContextMessage::count(message.message().with_content(rest), counter))
}

/// Returns the parts of a summary's text that tell what was open when it was written, in order. The user's
/// words that Forge quotes at its start are none of them, and neither is the tag that closes it.
fn open_parts(features: &Features) -> Vec<Range<usize>> {
    let text = features.text.as_str();
    let (_, said) = said_in_summary(text);
    let n_lines = features.lines.len();
    let mut from = features.lines.iter().take_while(|line| (line.start as usize) < said).count();
    let end = end_before_tag(text);
    let start_of =
        |nth: usize| features.lines.get(nth).map_or(end, |line| indented_start(text, line.start) as usize);
    let mut open = Vec::new();
    let lasting = lasting_lines(features, from..n_lines);
    for range in lasting.into_iter().chain(std::iter::once(n_lines..n_lines)) {
        let part = start_of(from)..start_of(range.start);
        if from < range.start && part.start < part.end {
            open.push(part);
        }
        from = range.end;
    }
    open
}

/// Returns the end of a text, before the line with a closing tag if one is the last.
fn end_before_tag(text: &str) -> usize {
    let closed = text.trim_end();
    let line = closed.rfind('\n').map_or(0, |at| at + 1);
    if closed[line..].starts_with("</") && closed.ends_with('>') { line } else { text.len() }
}

/// Returns the longer quotes in the words of a part, before the orders.
fn quotes_in(part: &str) -> Vec<&str> {
    let mut quotes = Vec::new();
    let mut is_code = false;
    for line in part.lines().take_while(|line| !is_order(line)) {
        is_code ^= line.trim_start().starts_with(FENCE);
        for (start, end) in QUOTES {
            let mut rest = line;
            while let Some((quote, after)) =
                rest.split_once(start).and_then(|(_, quoted)| quoted.split_once(end)).filter(|_| !is_code)
            {
                quotes.extend(Some(quote).filter(|quote| quote.len() >= LEAST_QUOTE));
                rest = after;
            }
        }
    }
    quotes
}

fn is_order(line: &str) -> bool {
    ORDERS.iter().any(|order| line.starts_with(order))
}

/// Returns the lines of a summary, of those in `content`, that tell nothing of what was open then.
pub(super) fn lasting_lines(features: &Features, content: Range<usize>) -> Vec<Range<usize>> {
    let mut lasting: Vec<Range<usize>> = Vec::new();
    // The rank of the heading of the section that is left out.
    let mut open = None;
    for nth in content {
        let line = &features.lines[nth];
        let text = features.line(line);
        if is_order(text) {
            break;
        }
        let heading = heading(text).filter(|_| is_at_margin(features, line));
        if let Some((rank, title)) = heading
            && open.is_none_or(|open| rank <= open)
        {
            open = is_open(title).then_some(rank);
        }
        match lasting.last_mut().filter(|last| last.end == nth) {
            _ if open.is_some() => {}
            Some(last) => last.end = nth + 1,
            None => lasting.push(nth..nth + 1),
        }
    }
    lasting
}

/// Returns the rank of a line that is a heading, and its words.
fn heading(line: &str) -> Option<(usize, &str)> {
    let line = line.trim_end();
    let marked = line.trim_start_matches('#');
    if marked.len() < line.len() {
        return marked.starts_with(' ').then_some((line.len() - marked.len(), marked));
    }
    let is_bold = |text: &str| text.starts_with("**") && text.ends_with("**");
    let is_title = |text: &str| is_bold(text) || text.ends_with([':', '：']);
    let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = numbered.strip_prefix(". ").filter(|_| numbered.len() < line.len());
    match numbered {
        Some(title) => is_title(title).then_some((NUMBERED, title)),
        None if line.starts_with("**") => is_title(line).then_some((BOLD, line)),
        None => is_title(line).then_some((PLAIN, line)),
    }
}

/// Checks whether a heading is of what was open.
fn is_open(title: &str) -> bool {
    let title = title.to_lowercase();
    let title = title.trim_matches(|c: char| !c.is_alphanumeric());
    let is_to_do = |words: &&str| {
        let before = title.strip_suffix(*words);
        before.is_some_and(|before| !before.ends_with(char::is_alphanumeric))
    };
    title.split_whitespace().count() <= MOST_WORDS
        && (OPEN.iter().any(|words| title.contains(words)) || TO_DO.iter().any(is_to_do))
}

/// Checks whether nothing stands before a line of the text, not even blanks.
fn is_at_margin(features: &Features, line: &Line) -> bool {
    let before = &features.text[..line.start as usize];
    before.is_empty() || before.ends_with('\n')
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::{Characters, Message};

    #[test]
    fn a_summary_that_stays_says_what_it_lost_and_keeps_the_quotes() {
        let said = "do not join it to the canal, ever";
        for (summary, expected) in [
            (
                format!(
                    "Summary:\n1. Intent:\n   A mill.\n2. Code:\n```\nlet x = 1;\n```\n3. Pending Tasks:\n   - Dig, \
                     as \"{said}\" and \"so\"\n```\nlog(\"a long line that a program writes\")\n```\n4. Paths:\n   \
                     mill.rs\n5. Current Work:\n   The wheel turns, and its axle is made of oak.\n\nContinue the \
                     conversation from where it left off. \"Resume directly, as if nothing was\""
                ),
                Some(format!(
                    "Summary:\n1. Intent:\n   A mill.\n2. Code:\n```\nlet x = 1;\n```\n[... 125 characters omitted ...]\n\
                     Quoted there: \"{said}\"\n4. Paths:\n   mill.rs\n[... 153 characters omitted ...]"
                )),
            ),
            (
                format!(
                    "<sum>\n## Done\nThe wheel. He said \"{said}\".\n## Next Steps\n- Dig: \"{said}\", and then the \
                     second ditch, too.\n</sum>\n"
                ),
                Some(format!(
                    "<sum>\n## Done\nThe wheel. He said \"{said}\".\n[... 90 characters omitted ...]\n</sum>\n"
                )),
            ),
            ("Summary:\n1. Intent:\n   A mill with a pending wheel.".to_owned(), None),
            (String::new(), None),
        ] {
            let message = ContextMessage::count(Message::user(summary).compacted(), &Characters);
            let actual = without_open(&message, &Characters);
            let actual = actual.map(|short| short.message().to_text());
            assert_eq!(actual, expected);
            let again =
                ContextMessage::count(Message::user(actual.unwrap_or_default()).compacted(), &Characters);
            assert_eq!(without_open(&again, &Characters), None, "once is enough");
        }
    }

    #[test]
    fn what_was_open_and_the_order_below_it_are_left_out() {
        for (summary, expected) in [
            (
                "Summary:\n1. Intent of the user:\n   Paint the gate.\n7. Pending Tasks:\n   - Paint the fence\n   \
                 1. Next steps:\n      Buy brushes\n8. Current Work:\n   Painting the wall.\n10. Paths:\n   \
                 gate.rs holds the gate.\n9. Optional Next Step:\n   Paint the wall.\n\nIf you need specific \
                 details from before compaction, read the file.\nContinue the conversation from where it left off.",
                "Summary: 1. Intent of the user: Paint the gate. 10. Paths: gate.rs holds the gate.",
            ),
            (
                "## Goal\nPaint the gate.\n## Progress\n### Done\nThe fence is white.\n### In Progress\nThe wall \
                 dries.\n### Blocked\nThe roof waits.\n## **Next Steps**\n1. Paint the wall:\n2. Paint the roof\n\
                 ## Critical Context\nThe wall is north.",
                "## Goal Paint the gate. ## Progress ### Done The fence is white. ### Blocked The roof waits. \
                 ## Critical Context The wall is north.",
            ),
            (
                "**Done:**\nThe gate is white.\n**TODO**\nPaint the wall.\n**Rules**:\nPaint no roof.",
                "**Done:** The gate is white. **Rules**: Paint no roof.",
            ),
            (
                "## Todo app\nIt stores items.\n## Still to do:\nPaint the wall.\n## Todo.md\nIt is read.",
                "## Todo app It stores items. ## Todo.md It is read.",
            ),
            (
                "What is pending in the list of the gate was decided so:\nPaint the wall.",
                "What is pending in the list of the gate was decided so: Paint the wall.",
            ),
        ] {
            let features = Features::of(&Message::user(summary));
            let lasting = lasting_lines(&features, 0..features.lines.len());
            let lines = lasting.into_iter().flat_map(|range| &features.lines[range]);
            let actual: Vec<&str> = lines.map(|line| features.line(line)).collect();
            assert_eq!(actual.join(" "), expected);
        }
    }
}
