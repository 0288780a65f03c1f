//! Answers in HTML: their tags end lines as line breaks do, and are no part of them.

use super::pieces::pieces;

/// The tags that begin or end a line where HTML is shown.
const BLOCKS: [&str; 17] = [
    "article", "br", "div", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "section", "table",
    "tr", "ul",
];
/// Most bytes of a tag.
const TAG_BYTES: usize = 400;
/// The mark of a block of code in Markdown: tags may be what it is about.
const FENCE: &str = "```";

/// Checks whether a text is HTML from beginning to end.
pub(super) fn is_markup(text: &str) -> bool {
    let text = text.trim();
    text.ends_with('>') && block_length(text).is_some() && !text.contains(FENCE)
}

/// Returns the pieces of a line of HTML, without the tags between them.
pub(super) fn pieces_between(line: &str) -> Vec<(usize, usize)> {
    let mut between = Vec::new();
    let mut start = 0;
    for (at, _) in line.match_indices('<') {
        // A tag may stand in an attribute of another one.
        if at >= start
            && let Some(length) = block_length(&line[at..])
        {
            between.push((start, at));
            start = at + length;
        }
    }
    between.push((start, line.len()));
    let pieces_of = |(from, to): (usize, usize)| {
        pieces(&line[from..to]).into_iter().map(move |(start, end)| (from + start, from + end))
    };
    between.into_iter().flat_map(pieces_of).collect()
}

/// Returns the length of the tag of a block with which a text begins.
fn block_length(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('<')?;
    let end = inside.bytes().take(TAG_BYTES).position(|byte| byte == b'>')?;
    let name = inside[..end].trim_start_matches('/').split([' ', '/']).next()?;
    BLOCKS.contains(&name).then_some(end + 2)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::Features;
    use crate::Message;

    #[test]
    fn tags_of_blocks_are_between_the_lines_of_an_answer() {
        let lines = |message: &Message| -> Vec<String> {
            let features = Features::of(message);
            features.lines.iter().map(|line| features.line(line).to_owned()).collect()
        };
        for (text, expected) in [
            (
                "<div class=\"answer\"><p>The period is <strong>2.006 s</strong>.</p><br/>\n<ol><li>One metre</li><li>On \
                 earth</li></ol></div>",
                vec!["The period is <strong>2.006 s</strong>.", "One metre", "On earth"],
            ),
            ("<p>If a <b then <pre>hold</pre></p>", vec!["If a <b then <pre>hold</pre>"]),
            ("<div title=\"<p>\">hold</div>", vec!["\">hold"]),
            ("Write <p>hold</p>", vec!["Write <p>hold</p>"]),
            ("<p>Write this:</p>\n```\n<p>hold</p>\n```\n<br>", vec!["<p>Write this:</p>", "<p>hold</p>"]),
        ] {
            assert_eq!(lines(&Message::assistant(text)), expected, "{text}");
        }
        // What a user pastes, and what a tool read, are as they are in their files.
        assert_eq!(lines(&Message::user("<p>hold</p>")), ["<p>hold</p>"]);
    }
}
