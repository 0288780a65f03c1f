//! The sections of another program's summary that are out of date once its agent has worked again.

use std::ops::Range;

use crate::compaction::features::{Features, Line};

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

/// Returns the lines of a summary, of those in `content`, that tell nothing of what was open then.
pub(super) fn lasting_lines(features: &Features, content: Range<usize>) -> Vec<Range<usize>> {
    let mut lasting: Vec<Range<usize>> = Vec::new();
    // The rank of the heading of the section that is left out.
    let mut open = None;
    for nth in content {
        let line = &features.lines[nth];
        let text = features.line(line);
        if ORDERS.iter().any(|order| text.starts_with(order)) {
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
    use crate::Message;

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
