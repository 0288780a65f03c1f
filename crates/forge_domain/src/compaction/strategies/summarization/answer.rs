//! The summary in a model's answer, whatever form that has. Apart because models differ in it, and not in
//! what is done with a summary.

/// Checks whether a text is a summary in its tag from beginning to end, as a compaction writes it.
pub(super) fn is_in_tag(text: &str, tag: &str) -> bool {
    text.starts_with(&format!("<{tag}>\n")) && text.ends_with(&format!("\n</{tag}>"))
}

/// Returns the text between `<tag>` and `</tag>`; `None` if they are not there.
pub(super) fn in_tag<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{tag}>"))?;
    rest.rsplit_once(&format!("</{tag}>")).map(|(inner, _)| inner.trim())
}

/// Returns the summary in a reply: what is in the tag, also if it is not closed. Small models never write the
/// tag: then all is the summary but their thoughts, and a first line that announces it.
pub(super) fn summary_in<'a>(reply: &'a str, tag: &str) -> &'a str {
    if let Some(inner) = in_tag(reply, tag) {
        return inner;
    }
    if let Some((_, inner)) = reply.split_once(&format!("<{tag}>")) {
        return inner.trim();
    }
    // Thoughts that the reply could not be split from for certain.
    let said = reply.rsplit_once("</think>").map_or(reply, |(_, said)| said).trim();
    let said = said.strip_suffix(&format!("</{tag}>")).unwrap_or(said).trim_end();
    match said.split_once('\n') {
        Some((first, rest)) if announces(first, rest) => rest.trim(),
        _ => said,
    }
}

/// Checks whether a line only announces what follows: it ends with a colon, and is neither a heading nor that
/// of a list.
fn announces(line: &str, rest: &str) -> bool {
    let is_listed =
        |text: &str| text.starts_with(['-', '*', '#', '>', '|']) || text.starts_with(char::is_numeric);
    let next = rest.lines().next().unwrap_or_default();
    line.trim_end().ends_with(':')
        && !is_listed(line.trim_start())
        && (next.trim().is_empty() || !is_listed(next.trim_start()))
}

/// Returns the text up to the end of its last whole line or sentence.
pub(super) fn up_to_last_end(text: &str) -> &str {
    let mut ends = text.char_indices().filter(|(at, c)| match c {
        '\n' | '。' | '！' | '？' => true,
        '.' | '!' | '?' => text[at + 1..].starts_with(char::is_whitespace),
        _ => false,
    });
    ends.next_back().map_or("", |(at, c)| text[..at + c.len_utf8()].trim_end())
}
