//! Names of files as git writes those that are not ASCII: in quotes, with the bytes as octal numbers.
//! Elsewhere the same file has its plain name.

use std::borrow::Cow;

/// The beginning of the number of a byte with which a character outside of ASCII begins.
const BYTE: &str = "\\3";

/// Returns a text in which the names in lines of git are plain.
pub(crate) fn with_plain_names(text: Cow<'_, str>) -> Cow<'_, str> {
    if !text.contains(BYTE) {
        return text;
    }
    let mut plain = String::with_capacity(text.len());
    text.split_inclusive('\n').for_each(|line| push_plain(line, &mut plain));
    // A plain name is shorter.
    if plain.len() < text.len() { Cow::Owned(plain) } else { text }
}

/// Returns the plain name that a name in quotes stands for; another one as it is.
pub(crate) fn plain_name(name: &str) -> Cow<'_, str> {
    let inside = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
    let plain = inside.filter(|name| name.contains(BYTE)).and_then(unquoted);
    plain.map_or(Cow::Borrowed(name), Cow::Owned)
}

fn push_plain(line: &str, plain: &mut String) {
    let mut rest = line;
    if line.contains(BYTE) && line.split('"').next().is_some_and(is_before_name) {
        while let Some((before, name, after)) = quoted(rest) {
            plain.push_str(before);
            plain.push_str(&plain_name(name));
            rest = after;
        }
    }
    plain.push_str(rest);
}

/// Checks whether git writes such a text before a name in quotes, in whatever language: nothing, a state, a
/// mode, a column of numbers, or what was done with the file and a colon.
fn is_before_name(before: &str) -> bool {
    const OF_DIFF: [&str; 5] = ["diff --git ", "--- ", "+++ ", "rename ", "copy "];
    let told = before.trim();
    let last = told.rsplit(' ').next().unwrap_or_default();
    told.len() <= 2 && told.bytes().all(|byte| b"MADRCTU?!".contains(&byte))
        || last.len() == MODE_BYTES && last.bytes().all(|byte| byte.is_ascii_digit())
        || before.ends_with('\t')
        || told.ends_with([':', '：'])
        || OF_DIFF.iter().any(|start| before.starts_with(start))
}

/// The bytes of the mode of a file.
const MODE_BYTES: usize = "100644".len();

/// Returns what a text has before its first name in quotes, that name with them, and the rest.
fn quoted(text: &str) -> Option<(&str, &str, &str)> {
    let start = text.find('"')?;
    let mut is_escaped = false;
    let ends = |byte: u8| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    };
    let end = start + 2 + text[start + 1..].bytes().position(ends)?;
    Some((&text[..start], &text[start..end], &text[end..]))
}

/// Returns the name that is written so; `None` if that is not a name, or has characters that are not seen.
fn unquoted(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    loop {
        rest = match rest {
            [] => break,
            [b'\\', first @ b'0'..=b'3', second @ b'0'..=b'7', third @ b'0'..=b'7', after @ ..] => {
                bytes.push((first - b'0') * 64 + (second - b'0') * 8 + (third - b'0'));
                after
            }
            [b'\\', mark @ (b'"' | b'\\'), after @ ..] => {
                bytes.push(*mark);
                after
            }
            [b'\\', ..] => return None,
            [byte, after @ ..] => {
                bytes.push(*byte);
                after
            }
        };
    }
    String::from_utf8(bytes).ok().filter(|name| !name.contains(char::is_control))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_names_in_lines_of_git_are_plain() {
        for (text, expected) in [
            (" M \"src/\\351\\241\\265.ts\"\n?? \"a\\\"\\303\\244 b.md\"\n", " M src/页.ts\n?? a\"ä b.md\n"),
            (" create mode 100644 \"\\303\\244.md\"", " create mode 100644 ä.md"),
            ("\tgeändert:       \"\\303\\244.md\"", "\tgeändert:       ä.md"),
            ("diff --git \"a/\\303\\244\" \"b/\\303\\244\"", "diff --git a/ä b/ä"),
            (" \"\\303\\244.md\" | 2 +-", " ä.md | 2 +-"),
            // Neither a name nor a line of git.
            ("printf(\"\\303\\244\")", "printf(\"\\303\\244\")"),
            (" M \"\\303.md\"", " M \"\\303.md\""),
            (" M \"\\303\\244\\n.md\"", " M \"\\303\\244\\n.md\""),
            (" M \"\\303\\244", " M \"\\303\\244"),
            ("C:\\3\\a.ts", "C:\\3\\a.ts"),
        ] {
            assert_eq!(with_plain_names(Cow::Borrowed(text)), expected, "{text}");
        }
        for (name, expected) in [("\"\\303\\244\"", "ä"), ("\"a b\"", "\"a b\""), ("\\303", "\\303")] {
            assert_eq!(plain_name(name), expected);
        }
    }
}
