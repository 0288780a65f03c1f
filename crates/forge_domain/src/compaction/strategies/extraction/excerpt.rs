//! Chosen passages as they are written: each under the label of its message and its source.

use super::passage::{Origin, Passage};
use super::record::{Entry, Section};
use super::story::{Folder, number, one_line};
use crate::compaction::answered_call::answered_call;
use crate::{Context, ContextMessage, Role};

/// Most characters of a tool's name in a label.
const TOOL_CHARS: usize = 40;

/// Returns the entries of the chosen passages, with their section and place. Passages with nothing but blanks
/// between them become one.
pub(super) fn write(
    mut chosen: Vec<Passage>,
    context: &Context,
    sources: &[ContextMessage],
    folder: &Folder,
) -> Vec<(Section, (u64, usize), Entry)> {
    chosen.sort_unstable_by_key(|passage| (passage.message, passage.start));
    let text_of = |passage: &Passage| &*sources[passage.message as usize].features().text;
    let mut joined: Vec<Passage> = Vec::with_capacity(chosen.len());
    for next in chosen {
        match joined.last_mut() {
            Some(last)
                if last.message == next.message
                    && last.origin == next.origin
                    && !matches!(next.origin, Origin::Record(_))
                    && text_of(last)
                        .get(last.end as usize..next.start as usize)
                        .is_some_and(|between| between.trim().is_empty()) =>
            {
                last.end = next.end;
            }
            _ => joined.push(next),
        }
    }
    let written = joined.iter().map(|passage| {
        let (source, text) = (&sources[passage.message as usize], passage.text(sources));
        let place = (number(source), passage.start as usize);
        match passage.origin {
            Origin::Person => (Section::Said, place, Entry::said(text.trim())),
            Origin::Agent => {
                let label = format!("{} agent", source.label());
                (Section::Story, place, Entry::labelled(&label, text.trim(), false))
            }
            Origin::Work => {
                (Section::Excerpts, place, excerpt(context, passage.message as usize, source, text, folder))
            }
            Origin::Record(section) => {
                let entry = Entry::carried(text);
                (section, (entry.number(), passage.start as usize), entry)
            }
        }
    });
    written.collect()
}

/// Returns a passage of work under its label and source. Numbers of lines stand in the label once, in place
/// of one in front of each line: the lines are then as they are in the file.
fn excerpt(
    context: &Context,
    position: usize,
    source: &ContextMessage,
    text: &str,
    folder: &Folder,
) -> Entry {
    let role = source.message().role();
    let of = match answered_call(context, position).filter(|_| role == Role::Tool) {
        Some(asked) => {
            let tool = one_line(asked.call.name.as_str(), TOOL_CHARS).unwrap_or_default();
            format!("{tool}{}", folder.subject(asked.deed))
        }
        None if role == Role::Assistant => "call".to_owned(),
        // A harness sent it under the user's role.
        None if role == Role::User && !source.starts_turn() => "note".to_owned(),
        None => role.as_str().to_owned(),
    };
    let label = format!("{} {of}", source.label());
    match without_numbers(text) {
        Some((first, last, text)) => Entry::labelled(&format!("{label}:{first}–{last}"), &text, true),
        None => Entry::labelled(&label, text, true),
    }
}

/// Returns the first and the last number of lines that all have one in front, and the lines without them;
/// `None` if not all have, or if they do not count up.
fn without_numbers(text: &str) -> Option<(u64, u64, String)> {
    let mut numbers: Vec<u64> = Vec::new();
    let mut lines: Vec<&str> = Vec::new();
    for line in text.split('\n') {
        let (number, rest) = numbered(line)?;
        if numbers.last().is_some_and(|last| number != last + 1) {
            return None;
        }
        numbers.push(number);
        lines.push(rest);
    }
    let (first, last) = (*numbers.first()?, *numbers.last()?);
    (numbers.len() > 1).then(|| (first, last, lines.join("\n")))
}

/// Splits a line into the number in front of it and the rest, as the tools that read files write it.
fn numbered(line: &str) -> Option<(u64, &str)> {
    let line = line.trim_start_matches(' ');
    let end = line.find(|c: char| !c.is_ascii_digit()).filter(|end| *end > 0)?;
    let rest = &line[end..];
    let rest = ['→', '\t', '|', ':'].iter().find_map(|mark| rest.strip_prefix(*mark))?;
    Some((line[..end].parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn numbers_of_lines_stand_once() {
        for (text, expected) in [
            ("  9→fn a() {\n 10→    b()\n 11→}", Some((9, 11, "fn a() {\n    b()\n}"))),
            ("9\ta\n10\t\n11\tb", Some((9, 11, "a\n\nb"))),
            ("9:a\n11:b", None),
            ("9: a", None),
            ("a\nb", None),
            ("9→a\nb", None),
        ] {
            let actual = without_numbers(text);
            assert_eq!(actual.as_ref().map(|(a, b, text)| (*a, *b, text.as_str())), expected, "{text}");
        }
    }
}
