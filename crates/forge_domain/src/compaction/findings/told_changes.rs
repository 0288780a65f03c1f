//! The changes of files that a command's output tells of: formatters, generators, archives, git.

use std::sync::LazyLock;

use super::pattern::{Pattern, any_of};
use super::shell_change::{Kind, ShellChange, is_name, name};
use crate::compaction::git_names::plain_name;

/// Most changes that are read from one result: a longer list is that of an archive or a package.
const MOST: usize = 24;

/// Returns the changes of which the lines of a result tell, in order; none if there are too many.
pub(crate) fn told_changes(result: &str) -> Vec<ShellChange> {
    // Most results have none of these words.
    const SIGNS: [&str; 9] =
        ["eleted", "delete mode", "emoved", "ormatted", "Fixing", "patching", "create", "bytes", "nflating:"];
    let has_sign = SIGNS.iter().any(|sign| result.contains(sign));
    if !has_sign && !result.contains("ms\n") && !result.ends_with("ms") {
        return Vec::new();
    }
    let kinds: [Kind; 3] =
        [(&REMOVED, ShellChange::Removes), (&CHANGED, ShellChange::Edits), (&MADE, ShellChange::Writes)];
    let of_line = |line: &str| {
        kinds.iter().find_map(|(pattern, change)| {
            let captures = pattern.as_ref()?.captures(line)?;
            let file = plain_name(captures.iter().skip(1).flatten().next()?.as_str());
            is_name(&file).then(|| change(name(&file)))
        })
    };
    let mut told = result.lines().filter(|line| line.len() <= MOST_BYTES).filter_map(of_line);
    let changes: Vec<ShellChange> = told.by_ref().take(MOST).collect();
    if told.next().is_some() { Vec::new() } else { changes }
}

/// Longer lines are content.
const MOST_BYTES: usize = 300;

static REMOVED: Pattern = LazyLock::new(|| {
    any_of("", &[r"^ delete mode \d+ (\S.*\S)$", r"^(?:removed|deleted) (?:directory )?'([^']+)'$"])
});
static CHANGED: Pattern = LazyLock::new(|| {
    let forms = [
        r"^(?:reformatted|Reformatted|Fixing|Formatted|patching file) (\S+)$",
        r"^ *(?:UPDATE|update|force) +(\S+\.\w+)(?: \(\d+ bytes\))?$",
        // Prettier names what it wrote with the time, and says so if it changed nothing.
        r"^(\S+\.\w+) \d+ms$",
    ];
    any_of("", &forms)
});
static MADE: Pattern = LazyLock::new(|| {
    let forms = [
        r"^ *(?:CREATE|create) {1,8}(\S+\.\w+)(?: \(\d+ bytes\))?$",
        r"^ +(?:inflating|extracting): (\S+)[ \t]*$",
        r"\bWriting \d+ bytes to (\S+)$",
    ];
    any_of("", &forms)
});

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::ShellChange::{Edits, Removes, Writes};
    use super::*;

    #[test]
    fn an_output_names_the_files_that_were_changed() {
        assert!([&REMOVED, &CHANGED, &MADE].into_iter().all(|pattern| pattern.is_some()));
        for (result, expected) in [
            (
                "[main 1a2] x\n delete mode 100644 src/a b.py\n create mode 100644 c.py",
                vec![Removes("src/a b.py".into())],
            ),
            (" delete mode 100644 \"docs/\\346\\227\\247.md\"", vec![Removes("docs/旧.md".into())]),
            ("removed 'a.pyc'\nremoved directory 'b'", vec![Removes("a.pyc".into()), Removes("b".into())]),
            (
                "reformatted /w/a.py\n\n1 file reformatted, 3 files left unchanged.",
                vec![Edits("/w/a.py".into())],
            ),
            ("src/a.ts 34ms\nsrc/b.ts 12ms (unchanged)", vec![Edits("src/a.ts".into())]),
            ("patching file src/a.c\nHunk #1 FAILED at 3.", vec![Edits("src/a.c".into())]),
            ("      create    app/a.rb\n      invoke  active_record", vec![Writes("app/a.rb".into())]),
            (
                "CREATE src/app/a.ts (199 bytes)\nUPDATE src/b.ts (9 bytes)",
                vec![Writes("src/app/a.ts".into()), Edits("src/b.ts".into())],
            ),
            ("Archive: a.zip\n  inflating: maps/eu.json  ", vec![Writes("maps/eu.json".into())]),
            ("[NbConvertApp] Writing 5812 bytes to a.html", vec![Writes("a.html".into())]),
            ("✓ src/a.test.ts (3) 34ms\nThe file was deleted by create mode", vec![]),
        ] {
            assert_eq!(told_changes(result), expected, "{result}");
        }
    }
}
