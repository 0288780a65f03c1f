//! Lines that were read or written in another encoding than theirs: nothing can be learned from them.

/// The character in place of what could not be decoded.
const REPLACEMENT: char = '\u{fffd}';
/// So many question marks in a row beside a letter stand for characters that could not be written.
const LEAST_MARKS: usize = 4;

/// Checks whether a line of a tool lost characters to another encoding. At its start, a picture may be lost,
/// and at its end, a part of a character that was cut.
pub(crate) fn is_garbled(line: &str) -> bool {
    !line.is_ascii() && has_lost_letters(line) || has_marks_for_letters(line)
}

/// Checks whether a letter or a digit stands beside what was lost. Between blanks, a sign such as an arrow is
/// lost, and between quotes, code is about such characters.
fn has_lost_letters(line: &str) -> bool {
    let line = line.trim_matches(REPLACEMENT);
    line.match_indices(REPLACEMENT).any(|(at, lost)| {
        let before = line[..at].chars().next_back();
        let after = line[at + lost.len()..].chars().next();
        [before, after].into_iter().flatten().any(char::is_alphanumeric)
    })
}

fn has_marks_for_letters(line: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphabetic);
    let mut from = 0;
    while let Some(at) = memchr::memchr(b'?', &line.as_bytes()[from..]) {
        let start = from + at;
        let n_marks = line.as_bytes()[start..].iter().take_while(|byte| **byte == b'?').count();
        from = start + n_marks;
        // People write several behind a word of ASCII.
        let is_beside_letter = || {
            is_letter(line[..start].chars().next_back().filter(|c| !c.is_ascii()))
                || is_letter(line[from..].chars().next())
        };
        if n_marks >= LEAST_MARKS && is_beside_letter() {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::Features;
    use super::*;
    use crate::compaction::fixture::tool_call;
    use crate::{Message, ToolResult};

    #[test]
    fn a_line_in_another_encoding_is_garbled() {
        for (line, expected) in [
            ("? \u{fffd}w\u{fffd}N status \u{fffd}q 'parsing'", true),
            ("throw new Error('OCR????????G???[?????????????')", true),
            ("????のテスト", true),
            ("テスト????", true),
            ("\u{fffd} 3 files were built\u{fffd}", false),
            ("(:) [Get-Item]\u{fffd}\u{fffd}ParameterBinding", true),
            ("- file_name \u{fffd}\u{fffd} original_name", false),
            ("const LOST: char = '\u{fffd}';", false),
            ("text.replace(\"\u{fffd}\", \"\")", false),
            ("?? docs/a.md", false),
            ("why??? a ?? b ???? (4)", false),
            ("why????", false),
            ("état: prêt?", false),
        ] {
            assert_eq!(is_garbled(line), expected, "{line}");
        }
    }

    #[test]
    fn garbled_lines_of_tools_are_no_lines_of_features() {
        let lines = |message: &Message| -> Vec<String> {
            let features = Features::of(message);
            features.lines.iter().map(|line| features.line(line).to_owned()).collect()
        };
        let call = tool_call("Write", r#"{"path":"a.ts","content":"OCR????G failed\nopen the gate"}"#);
        let result = Message::tool(ToolResult::answer(&call, "open the door\n\u{fffd}w\u{fffd}N status"));
        assert_eq!(lines(&result), ["open the door"]);
        assert_eq!(lines(&Message::calling(vec![call])), ["Write a.ts", "open the gate"]);
        // A person may quote one.
        assert_eq!(lines(&Message::user("Why OCR????G?")), ["Why OCR????G?"]);
    }
}
