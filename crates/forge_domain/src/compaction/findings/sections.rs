//! The sections of what a command line wrote, if it prints headings between its steps.

use std::collections::{HashMap, HashSet};

use super::command_line::{Step, Walk, from_program, words_of};

/// The sections of the output of a command line of which some steps check and others do not, such as
/// `make test; echo "--- log ---"; git log`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sections {
    /// True if a check runs before the first heading.
    begins_with_check: bool,
    /// The headings, each with true if a check runs behind it.
    headings: Vec<(String, bool)>,
}

impl Sections {
    /// Finds the sections of a command line that was followed by `walk`; `None` if it prints no headings, or
    /// runs no check.
    pub(super) fn of(walk: &Walk<'_>, runs_check: fn(&Step<'_>) -> bool) -> Option<Self> {
        let mut sections = Self { begins_with_check: false, headings: Vec::new() };
        let mut steps = walk.steps.iter().peekable();
        while let Some(step) = steps.next() {
            // Behind the last step there is nothing to head.
            if let Some(heading) = heading_of(step).filter(|_| steps.peek().is_some()) {
                sections.headings.push((heading, false));
            } else if runs_check(step) {
                *sections.headings.last_mut().map_or(&mut sections.begins_with_check, |last| &mut last.1) =
                    true;
            }
        }
        let is_check = |checks: bool| {
            sections.begins_with_check == checks || sections.headings.iter().any(|(_, is)| *is == checks)
        };
        (!sections.headings.is_empty() && is_check(true) && is_check(false)).then_some(sections)
    }

    /// Returns the part of an output that the checks wrote; `None` if it has none of the headings, or nothing
    /// stands there: some harnesses put what went to the error stream last.
    pub(super) fn of_checks(&self, output: &str) -> Option<String> {
        let mut is_check = self.begins_with_check;
        // Of two with the same words, the first.
        let headings: HashMap<&str, bool> =
            self.headings.iter().rev().map(|(heading, checks)| (heading.as_str(), *checks)).collect();
        let (mut told, mut has_heading) = (String::new(), false);
        for line in output.split_inclusive('\n') {
            match headings.get(line.trim()) {
                Some(checks) => (is_check, has_heading) = (*checks, true),
                None if is_check => told.push_str(line),
                None => {}
            }
        }
        (has_heading && !told.trim().is_empty()).then_some(told)
    }
}

/// Returns the headings that a command line which was followed by `walk` prints before its last step.
pub(super) fn headings(walk: &Walk<'_>) -> HashSet<String> {
    walk.steps.iter().rev().skip(1).filter_map(heading_of).collect()
}

/// Returns the heading that a step prints: words that stand in a line, marked as one.
fn heading_of(step: &Step<'_>) -> Option<String> {
    let words = words_of(step.command);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (program, told) = from_program(&words).split_first()?;
    let told: Vec<&str> =
        told.iter().copied().filter(|word| !word.starts_with('-') || word.contains(' ')).collect();
    let line = told.join(" ").replace("\\n", "\n");
    let line = line.trim();
    let is_marked =
        line.ends_with(':') || MARKS.iter().any(|mark| line.starts_with(mark) || line.ends_with(mark));
    let is_line = line.contains(char::is_alphanumeric) && !line.contains(['\n', '$', '`', '>']);
    (matches!(*program, "echo" | "printf") && is_marked && is_line).then(|| line.to_owned())
}

/// The marks before or behind a heading.
const MARKS: [&str; 6] = ["--", "==", "##", "**", "──", "━━"];

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn what_checks_wrote_stands_between_headings() {
        let output = "Ran 38 tests\nOK\n--- mutations ---\nFAILED (failures=1)\n--- lint ---\nclean\n";
        for (command, expected) in [
            (
                "make test; echo '--- mutations ---'; ./mutate.sh; echo \"--- lint ---\"; npm run lint",
                Some("Ran 38 tests\nOK\nclean\n"),
            ),
            (
                "make test\necho \"\\n--- mutations ---\"\n./mutate.sh 2>&1 | grep FAILED",
                Some("Ran 38 tests\nOK\n"),
            ),
            // Another heading, no heading, no other step, and no check.
            ("make test; echo '--- log ---'; git log", None),
            ("make test; echo mutations; ./mutate.sh", None),
            ("make test; echo '--- lint ---'; npm run lint", None),
            ("ls; echo '--- mutations ---'; ./mutate.sh", None),
            // The word at the end is the verdict.
            ("make test && echo '--- mutations ---'", None),
        ] {
            let sections = Sections::of(&Walk::of(command, None), super::super::check::runs_check);
            let told = sections.and_then(|sections| sections.of_checks(output));
            assert_eq!(told.as_deref(), expected, "{command}");
        }
    }
}
