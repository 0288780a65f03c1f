//! The lines that a harness puts around a file, or the names in a folder, that an agent read. Apart from the
//! [`envelope`](super::envelope) because it tells nothing of a command: the call has the path, and the lines.

/// The tags with which opencode begins such a result: the path, and whether it is a file or a folder.
const PATH: [&str; 2] = ["<path>", "</path>\n<type>"];
const KIND: &str = "</type>\n";
/// The tags around what was read: the lines of a file, or names.
const INSIDE: [[&str; 2]; 2] = [["<content>", "</content>"], ["<entries>", "</entries>"]];

/// The parts of the line with which VS Code begins one: ``File: `a.rs`. Lines 1 to 9 (20 lines total):``.
const FILE: [&str; 3] = ["File: `", "`. Lines ", " lines total):"];
/// The character of the fence below that line.
const FENCE: char = '`';

/// Returns what was read, without what is put around it; all of a text that has no such frame.
pub(super) fn without_read_frame(text: &str) -> &str {
    in_tags(text).or_else(|| in_fence(text)).unwrap_or(text)
}

fn in_tags(text: &str) -> Option<&str> {
    let (path, rest) = text.trim_start().strip_prefix(PATH[0])?.split_once(PATH[1])?;
    let (kind, rest) = rest.split_once(KIND)?;
    let [begin, end] = INSIDE.into_iter().find(|[begin, _]| rest.starts_with(*begin))?;
    if path.contains('\n') || kind.contains('\n') {
        return None;
    }
    let inside = rest.strip_prefix(begin)?;
    let inside = inside.strip_prefix('\n').unwrap_or(inside);
    // The end may have been cut off.
    Some(inside.trim_end().strip_suffix(end).map_or(inside, without_note))
}

/// Returns a text without its last line, if that tells in brackets how much was shown. The lines of a file
/// begin with their numbers.
fn without_note(text: &str) -> &str {
    let text = text.trim_end();
    let (before, last) = text.rsplit_once('\n').unwrap_or(("", text));
    if last.starts_with('(') && last.ends_with(')') { before.trim_end() } else { text }
}

fn in_fence(text: &str) -> Option<&str> {
    let (head, rest) = text.trim_start().split_once('\n')?;
    let [begin, middle, end] = FILE;
    if !(head.starts_with(begin) && head.contains(middle) && head.trim_end().ends_with(end)) {
        return None;
    }
    let fence = &rest[..rest.len() - rest.trim_start_matches(FENCE).len()];
    let Some((_, inside)) = rest.split_once('\n').filter(|_| !fence.is_empty()) else { return Some(rest) };
    Some(inside.trim_end().strip_suffix(fence).unwrap_or(inside))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn what_is_put_around_a_file_is_left_out() {
        let tagged = |inside: &str| format!("<path>/w/a.rs</path>\n<type>file</type>\n<content>{inside}");
        let fenced = |inside: &str| format!("File: `/w/a.rs`. Lines 1 to 9 (20 lines total): \n{inside}");
        for (text, expected) in [
            (tagged("\n1: a\n2: (b)\n\n(End of file - total 2 lines)\n</content>"), "1: a\n2: (b)"),
            (tagged("\n9: a\n\n(Showing lines 9-9 of 20. Use offset=10 to continue.)\n</content>\n"), "9: a"),
            (tagged("1: a\n</content>"), "1: a"),
            (tagged("\n1: a\n2: cut o"), "1: a\n2: cut o"),
            (tagged("\nUpdated file\n</content>"), "Updated file"),
            (
                "<path>/w</path>\n<type>directory</type>\n<entries>\na.rs\n\n(1 entries)\n</entries>"
                    .to_owned(),
                "a.rs",
            ),
            ("<path>/w</path>\n<rect/>".to_owned(), "<path>/w</path>\n<rect/>"),
            (fenced("```rust\nfn a() {}\n```"), "fn a() {}\n"),
            (fenced("````markdown\n```sh\nls\n```\n````\n"), "```sh\nls\n```\n"),
            (fenced("```rust\nfn a() {}"), "fn a() {}"),
            (fenced("fn a() {}"), "fn a() {}"),
            ("File: `a`. Lines 1 to 9".to_owned(), "File: `a`. Lines 1 to 9"),
            ("```rust\nfn a() {}\n```".to_owned(), "```rust\nfn a() {}\n```"),
            (String::new(), ""),
        ] {
            assert_eq!(without_read_frame(&text), expected, "{text}");
        }
    }
}
