//! The change of a file as the user reads it before they consent: a unified diff in a frame.

use std::time::Duration;

use console::style;
use forge_domain::FileChange;
use similar::{ChangeTag, TextDiff};

use crate::output::exact;
use crate::output::line_wrap::FRAME;

/// The unchanged lines that are shown around a change.
const AROUND: usize = 3;
/// The most time for finding the smallest difference; after that, a larger one is shown.
const DIFF_TIME: Duration = Duration::from_secs(1);
/// The most characters of a line that is coloured: a longer one is split between pages.
const COLOURED: usize = 2_000;

/// Returns the added and removed lines of a change, such as `+1 −2`.
pub(crate) fn counts(change: &FileChange) -> String {
    let (mut added, mut removed) = (0, 0);
    for line in diff(change).iter_all_changes() {
        match line.tag() {
            ChangeTag::Insert => added += 1,
            ChangeTag::Delete => removed += 1,
            ChangeTag::Equal => {}
        }
    }
    format!("+{added} −{removed}")
}

/// Returns the diff of a change, in a frame. It shows everything that changes, ends of lines included.
pub(crate) fn diff_lines(change: &FileChange) -> Vec<String> {
    let diff = diff(change);
    let mut lines = Vec::new();
    for hunk in diff.unified_diff().context_radius(AROUND).iter_hunks() {
        lines.push(format!("{FRAME}{}", style(hunk.header()).cyan().for_stderr()));
        for line in hunk.iter_changes() {
            lines.extend(change_lines(line.tag(), line.value()));
        }
    }
    if lines.is_empty() {
        let what = if change.before.is_none() { "an empty file" } else { "nothing changes" };
        lines.push(format!("{FRAME}({what})"));
    }
    lines
}

fn diff(change: &FileChange) -> TextDiff<'_, '_, '_, str> {
    let before = change.before.as_deref().unwrap_or_default();
    TextDiff::configure().timeout(DIFF_TIME).diff_lines(before, change.after.as_str())
}

/// Returns one line of a diff, and a second one if it has no end.
fn change_lines(tag: ChangeTag, text: &str) -> Vec<String> {
    let bare = text.strip_suffix('\n');
    // Some line ends are not newlines; they are shown as what they are.
    let line = format!("{tag}{}", exact(bare.unwrap_or(text)));
    let line = match tag {
        _ if line.chars().count() > COLOURED => line,
        ChangeTag::Insert => style(line).green().for_stderr().to_string(),
        ChangeTag::Delete => style(line).red().for_stderr().to_string(),
        ChangeTag::Equal => line,
    };
    let mut lines = vec![format!("{FRAME}{line}")];
    if bare.is_none() && !text.ends_with('\r') {
        lines.push(format!("{FRAME}\\ no newline at the end"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_change_is_shown_as_what_it_is() {
        for (before, after, n, expected) in [
            (None, "a\n", "+1 −0", vec!["@@ -0,0 +1 @@", "+a"]),
            (None, "", "+0 −0", vec!["(an empty file)"]),
            (Some("a\n"), "a\n", "+0 −0", vec!["(nothing changes)"]),
            (
                Some("a\nb\n"),
                "a\nc\u{1b}[2J\u{200b}",
                "+1 −1",
                vec!["@@ -1,2 +1,2 @@", " a", "-b", "+c\\u{1b}[2J\\u{200b}", "\\ no newline at the end"],
            ),
        ] {
            let change =
                FileChange { path: "x".into(), before: before.map(str::to_owned), after: after.into() };
            let lines = diff_lines(&change);
            let lines: Vec<_> = lines.iter().map(|line| console::strip_ansi_codes(line)).collect();
            let lines: Vec<_> = lines.iter().map(|line| line.strip_prefix(FRAME).unwrap()).collect();
            assert_eq!((counts(&change).as_str(), lines), (n, expected), "{before:?} {after:?}");
        }
    }
}
