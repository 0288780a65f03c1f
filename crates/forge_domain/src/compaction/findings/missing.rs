//! The part of a command's output that its result lacks.

use super::check::runs_check;
use super::command_line::{PASS_ALL, Walk, outside_quotes, steps, without_folder};

/// Most steps behind a redirection that are looked at for one that shows its file.
const MOST_READERS: usize = 32;
/// The redirection by which errors are part of the output.
const MERGED: &str = "2>&1";

/// The part of the output of a command line's checks that its result lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missing {
    /// Lines that a filter left out, or all of it: it went into a file, or the command is in the background.
    pub(super) some: bool,
    /// The end.
    pub(super) end: bool,
}

impl Missing {
    /// Follows the outputs of the checks in a command line without here-documents, which was followed by
    /// `walk`. However many there are, each part of the line is read once.
    pub(super) fn of(command: &str, walk: &Walk<'_>) -> Self {
        let mut missing = Self::default();
        let readers = Readers::of(command);
        let mut until = 0;
        for check in walk.steps.iter().filter(|step| runs_check(step)) {
            let at = check.command.as_ptr() as usize - command.as_ptr() as usize;
            // Behind an earlier check of the same pipe, what follows was read with that one.
            let Some(rest) = command.get(at..).filter(|_| at >= until) else { continue };
            let pipe = &rest[..end_of_pipe(rest)];
            until = at + pipe.len();
            missing.follow(pipe, at, &readers);
        }
        missing
    }

    /// Follows the output of the check with which `pipe` begins, which stands at `at`.
    fn follow(&mut self, pipe: &str, at: usize, readers: &Readers<'_>) {
        // The place of a file that was looked for already: two signs may stand before it.
        let mut named = 0;
        for (sign, c) in outside_quotes(pipe).filter(|(_, c)| matches!(c, '|' | '>' | '&')) {
            if sign < named || merges_errors(pipe, sign) {
                continue;
            }
            let after = &pipe[sign + c.len_utf8()..];
            let file = after.trim_start_matches(['>', ' ']);
            match c {
                '>' if readers.show(word_of(file), at + sign) => named = pipe.len() - file.len(),
                '>' => (self.some, named) = (true, pipe.len() - file.len()),
                '|' => match without_folder(word_of(after.trim_start())) {
                    program if PASS_ALL.contains(&program) => {}
                    // It has the end, from which the outcome is read.
                    "tail" => {}
                    "head" => self.end = true,
                    _ => self.some = true,
                },
                _ => self.some = true,
            }
        }
    }
}

/// The steps of a command line that show a file, each with its position.
struct Readers<'a>(Vec<(usize, &'a str)>);

impl<'a> Readers<'a> {
    fn of(command: &'a str) -> Self {
        let shows = |step: &&str| step.starts_with("cat ") || step.starts_with("tail ");
        let place = |step: &'a str| (step.as_ptr() as usize - command.as_ptr() as usize, step);
        Self(steps(command).into_iter().filter(shows).map(place).collect())
    }

    /// Checks whether a step behind `at` shows `file`.
    fn show(&self, file: &str, at: usize) -> bool {
        let behind = &self.0[self.0.partition_point(|(place, _)| *place <= at)..];
        let is_it = |step: &str| step.strip_suffix(MERGED).unwrap_or(step).trim_end().ends_with(file);
        !file.is_empty() && behind.iter().take(MOST_READERS).any(|(_, step)| is_it(step))
    }
}

/// Returns the position at which the commands end that a pipe connects with the first one of a command line.
fn end_of_pipe(line: &str) -> usize {
    let ends = |(at, c): &(usize, char)| match *c {
        ';' | '\n' => true,
        '&' | '|' => line[at + 1..].starts_with(*c),
        _ => false,
    };
    outside_quotes(line).find(ends).map_or(line.len(), |(at, _)| at)
}

/// Checks whether the sign at `at` is part of a redirection of errors into the output.
fn merges_errors(pipe: &str, at: usize) -> bool {
    let is_it = |before: usize| {
        let start = at.checked_sub(before).and_then(|start| pipe.get(start..));
        start.is_some_and(|start| start.starts_with(MERGED))
    };
    is_it(1) || is_it(2)
}

/// Returns the word with which a text begins, up to a blank or a sign.
fn word_of(text: &str) -> &str {
    let ends = |c: char| c.is_whitespace() || matches!(c, '|' | '>' | '&' | ';');
    text.split(ends).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Missing = Missing { some: false, end: false };
    const SOME: Missing = Missing { some: true, end: false };

    fn missing(command: &str) -> Missing {
        Missing::of(command, &Walk::of(command, None))
    }

    #[test]
    fn what_is_filtered_or_put_into_a_file_is_missing() {
        for (command, expected) in [
            ("make test", NOTHING),
            ("make test 2>&1", NOTHING),
            ("make test 2>&1 | tail -5", NOTHING),
            ("make test|tee log", NOTHING),
            ("make test | /usr/bin/head -5", Missing { some: false, end: true }),
            ("make test | grep failed | head", Missing { some: true, end: true }),
            ("ls | head; make test && ls | head", NOTHING),
            ("make test 2> /dev/null", SOME),
            ("make test &", SOME),
            ("make test > log", SOME),
            ("make test > log 2>&1; cat log 2>&1", NOTHING),
            ("make test >> log && tail -5 log", NOTHING),
            ("cat log; make test > log", SOME),
            ("make test | tail log > log", SOME),
            ("make test > a; make lint > b; cat b", SOME),
            ("make test > a; make lint > b; cat a; cat b", NOTHING),
            ("make test \"a > b\"", NOTHING),
        ] {
            assert_eq!(missing(command), expected, "{command}");
        }
    }

    /// Read again for each check or sign, these lines would take minutes.
    #[test]
    fn a_long_line_is_read_once() {
        const N: usize = 10_000;
        let signs = format!("make test {}", "> ".repeat(N));
        for (line, expected) in [
            ("make test\n".repeat(N), NOTHING),
            ("make test | ".repeat(N), SOME),
            ("make test > a\ncat a\n".repeat(N), NOTHING),
            ("make test > a\ncat b\n".repeat(N), SOME),
            (format!("make test {}", ">a".repeat(N)), SOME),
            (format!("make test {}", "|a".repeat(N)), SOME),
            (format!("{signs}a; cat a"), NOTHING),
        ] {
            let start: String = line.chars().take(30).collect();
            assert_eq!(missing(&line), expected, "{start}");
        }
    }
}
