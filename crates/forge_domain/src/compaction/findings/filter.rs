//! The filter with which a command line ends, such as `npx tsc | grep "error TS"`: the status of the line is
//! that of the filter, which fails if it finds nothing.

use super::check::{Check, check_of};
use super::command_line::{PASS_ALL, Step, Walk, from_program, is_redirection, without_folder, words_of};
use super::looks::only_looks;

/// The lines of the check that a filter lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    /// At least one of each way in which the check fails: where none is left, it passed.
    Failures,
    /// Those of some failures, or about something else, such as a file.
    Others,
    /// No check is before it: that it finds nothing is the answer.
    Seeks,
}

/// Programs that fail if they find nothing, and write nothing then.
const SEEKERS: &[&str] =
    &["ag", "egrep", "fgrep", "findstr", "fuser", "grep", "lsof", "pgrep", "pidof", "rg", "which", "zgrep"];

impl Filter {
    /// Finds it in a command line that was followed by `walk`; `None` if that does not end in one. If it
    /// seeks what tells of the success of a check, finding nothing is a failure: that is no filter.
    pub(super) fn of(walk: &Walk<'_>) -> Option<Self> {
        let mut steps = walk.steps.iter().enumerate().rev();
        let Some((at, check)) = steps.find_map(|(at, step)| Some((at, check_of(step)?))) else {
            return ends_in_seeker(&walk.steps).then_some(Self::Seeks);
        };
        let mut alternatives: Option<Vec<String>> = None;
        // Behind another step, or if some lines are missing, all the failures may be elsewhere.
        let mut gets_all = at == 0 && writes_all(walk.steps[at].command);
        for step in &walk.steps[at + 1..] {
            let words = words_of(step.command);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let (program, told) = from_program(&words).split_first().filter(|_| step.is_piped)?;
            let program = without_folder(program).to_ascii_lowercase();
            match program.as_str() {
                "grep" | "egrep" | "rg" | "findstr" | "select-string" => {
                    gets_all &= alternatives.is_none();
                    alternatives.get_or_insert_default().extend(sought_by(&program, told)?);
                }
                program if PASS_ALL.contains(&program) => {}
                "cut" | "head" | "sed" | "sort" | "tail" | "uniq" => gets_all &= alternatives.is_some(),
                _ => return None,
            }
        }
        let alternatives = alternatives?;
        let has = |words: &[&str]| {
            let mut small = alternatives.iter().map(|alternative| alternative.to_lowercase());
            small.any(|alternative| words.iter().any(|word| alternative.contains(word)))
        };
        if has(SUCCESSES) {
            return None;
        }
        let shows_all = gets_all && alternatives.iter().any(|sought| is_in_all_failures(sought, &check));
        Some(if shows_all { Self::Failures } else { Self::Others })
    }
}

/// Checks whether steps, none of which checks, end in a program that fails if it finds nothing: before it
/// there is only what it reads from, and what looks at something.
fn ends_in_seeker(steps: &[Step<'_>]) -> bool {
    let Some((last, before)) = steps.split_last() else { return false };
    let words: Vec<&str> = last.command.split_whitespace().collect();
    let seeks = from_program(&words)
        .first()
        .is_some_and(|program| SEEKERS.contains(&without_folder(program).to_ascii_lowercase().as_str()));
    let n_piped = steps.iter().rev().take_while(|step| step.is_piped).count();
    let head = before.len().saturating_sub(n_piped);
    seeks && words.first() != Some(&"!") && before[..head].iter().all(|step| only_looks(step.command))
}

/// Parts of words for a success.
const SUCCESSES: &[&str] =
    &["pass", "ok", "succe", "result", "built", "compiled", "finish", "done", "tests", "✓", "✔"];

/// Checks whether all that a check writes reaches the next step, up to its end.
fn writes_all(check: &str) -> bool {
    !check.replace("2>&1", "").contains(['>', '&']) && !check.contains("timeout")
}

/// The checks of types whose lines all have the same form, and the words for it.
const READS_TYPES: &[&str] = &["tsc", "typecheck", "type-check"];
/// The options by which lines have marks of colours in them.
const COLOURS: &[&str] = &["--pretty", "--color"];

/// Checks whether a check that fails writes a line with what is `sought`, whatever failed. Of tests this is
/// not known: what breaks before they run has other words.
fn is_in_all_failures(sought: &str, check: &Check) -> bool {
    let has = |words: &[&str]| check.command.split_whitespace().any(|word| words.contains(&word));
    if check.is_test || COLOURS.iter().any(|option| check.command.contains(option)) {
        false
    } else if READS_TYPES.iter().any(|word| check.command.contains(word)) {
        matches!(sought.trim(), "error" | "error TS" | "error ts" | "TS")
    } else if has(&["cargo"]) && has(&["build", "check", "clippy"]) {
        // Its lines begin so.
        matches!(sought.trim_start_matches('^').trim_end_matches(':'), "error")
    } else {
        has(&["mypy", "pyright"]) && matches!(sought.trim_end_matches(':').trim(), "error")
    }
}

/// The ways in which programs read a pattern: what is an alternative in one is nothing but a text in another.
#[derive(Clone, Copy)]
enum Syntax {
    Fixed,
    Basic,
    Extended,
    Perl,
}

impl Syntax {
    /// Returns the one that a filter has without options.
    fn of(program: &str) -> Self {
        match program {
            "findstr" => Self::Fixed,
            "grep" => Self::Basic,
            "egrep" => Self::Extended,
            _ => Self::Perl,
        }
    }

    /// Returns the one that an option of one letter asks for.
    const fn with(self, letter: char) -> Self {
        match letter {
            'F' => Self::Fixed,
            'G' => Self::Basic,
            // In ripgrep, it names an encoding.
            'E' if !matches!(self, Self::Perl) => Self::Extended,
            'P' => Self::Perl,
            _ => self,
        }
    }

    /// Returns the marks of a group and between alternatives; `None` if there are none.
    const fn marks(self) -> Option<(&'static str, &'static str, &'static str)> {
        match self {
            Self::Fixed => None,
            Self::Basic => Some((r"\(", r"\)", r"\|")),
            Self::Extended | Self::Perl => Some(("(", ")", "|")),
        }
    }

    /// Returns the forms of any number.
    const fn digits(self) -> &'static [&'static str] {
        match self {
            Self::Fixed => &[],
            Self::Basic => &["[0-9]*", r"[0-9]\+", "[0-9]"],
            Self::Extended => &["[0-9]+", "[0-9]*", "[0-9]"],
            Self::Perl => &["[0-9]+", "[0-9]*", "[0-9]", r"\d+", r"\d"],
        }
    }

    /// Returns the alternatives of a pattern, without any number at their ends.
    fn alternatives(self, pattern: &str) -> Vec<String> {
        let Some((open, close, or)) = self.marks() else { return vec![pattern.to_owned()] };
        let inside = pattern.strip_prefix(open).and_then(|rest| rest.strip_suffix(close)).unwrap_or(pattern);
        // An alternative in the middle is less than what is sought.
        if inside.contains(open) || inside.contains(close) {
            return vec![pattern.to_owned()];
        }
        let bare = |sought: &str| {
            let without = self.digits().iter().find_map(|digits| sought.strip_suffix(digits));
            without.unwrap_or(sought).to_owned()
        };
        inside.split(or).map(bare).collect()
    }
}

/// Returns the alternatives that a filter looks for, in small letters if it takes both; `None` if it does
/// anything else than show the lines that have one.
fn sought_by(program: &str, told: &[&str]) -> Option<Vec<String>> {
    let mut takes_both = program == "select-string";
    let mut only_words = false;
    let mut syntax = Syntax::of(program);
    let mut operands: Vec<&str> = Vec::new();
    for word in told.iter().copied().take_while(|word| !is_redirection(word)) {
        let of_windows = word.strip_prefix('/').filter(|_| program == "findstr");
        let Some(option) = word.strip_prefix('-').or(of_windows).filter(|option| !option.is_empty()) else {
            operands.push(word);
            continue;
        };
        match (program, option.to_ascii_lowercase().as_str()) {
            (_, "-ignore-case") | ("findstr", "i") => takes_both = true,
            (_, "-word-regexp") => only_words = true,
            (_, "-fixed-strings") | ("select-string", "simplematch") => syntax = Syntax::Fixed,
            (_, "-extended-regexp") => syntax = syntax.with('E'),
            (_, "-perl-regexp") => syntax = syntax.with('P'),
            (_, "-invert-match" | "-count" | "-quiet" | "-silent" | "-line-regexp")
            | ("select-string", "notmatch" | "quiet")
            | ("findstr", "v" | "x") => return None,
            ("select-string", "casesensitive") => takes_both = false,
            ("select-string", _) => {}
            ("findstr", _) => operands.extend(option.split_once(':').map(|(_, sought)| sought)),
            _ if option.starts_with('-') => {}
            _ if option.contains(['v', 'c', 'q', 'l', 'L', 'x']) => return None,
            _ => {
                takes_both |= option.contains('i');
                only_words |= option.contains('w');
                syntax = option.chars().fold(syntax, Syntax::with);
            }
        }
    }
    // The number of lines around each is the value of an option.
    operands.retain(|operand| operand.parse::<u32>().is_err());
    if !told.contains(&"-e") {
        operands.truncate(1);
    }
    let alternatives = operands.iter().flat_map(|pattern| syntax.alternatives(pattern));
    let alternatives = alternatives.map(|sought| if takes_both { sought.to_lowercase() } else { sought });
    Some(alternatives.map(|sought| if only_words { format!(r"\b{sought}\b") } else { sought }).collect())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_filter_behind_a_check_shows_all_failures_or_some() {
        use Filter::{Failures, Others, Seeks};
        for (command, expected) in [
            ("cd /w && npx tsc --noEmit 2>&1 | grep \"error TS\"", Some(Failures)),
            ("npx tsc 2>&1 | tee log | grep -E 'error TS[0-9]+' | head -5", Some(Failures)),
            ("npm run typecheck | grep -i Error", Some(Failures)),
            ("npx tsc | Select-String 'error'", Some(Failures)),
            ("npx tsc | findstr /c:\"error TS\"", Some(Failures)),
            ("cargo build 2>&1 | grep -E '^error|^warning'", Some(Failures)),
            // Its lines begin with a path, and have another form.
            ("npx tsc | grep '^error'", Some(Others)),
            ("npx tsc | grep 'error:'", Some(Others)),
            ("npx tsc | grep 'error TS2353'", Some(Others)),
            ("npx tsc | grep ERROR", Some(Others)),
            ("npx tsc | grep 'error TS[0-9]*'", Some(Failures)),
            ("npx tsc | rg 'error TS\\d+'", Some(Failures)),
            ("npx tsc | grep 'error\\|warning'", Some(Failures)),
            ("npx tsc | grep -E '(error|warning)'", Some(Failures)),
            // As `grep` reads these, no line has them.
            ("npx tsc | grep 'error|warning'", Some(Others)),
            ("npx tsc | grep -F 'error|warning'", Some(Others)),
            ("npx tsc | grep 'error TS[0-9]+'", Some(Others)),
            ("npx tsc | grep -E 'error TS\\d+'", Some(Others)),
            ("npx tsc | grep -w 'error TS'", Some(Others)),
            ("npx tsc --pretty | grep 'error TS'", Some(Others)),
            ("npx tsc | grep -E '(error|warning) TS2353'", Some(Others)),
            ("cargo fmt --check | grep error", Some(Others)),
            ("go build ./... 2>&1 | grep error", Some(Others)),
            ("cargo clippy 2>&1 | grep warning", Some(Others)),
            // What breaks before the tests has other words.
            ("cargo test 2>&1 | grep FAILED", Some(Others)),
            // Not all lines are there.
            ("npx tsc 2>/dev/null | grep error", Some(Others)),
            ("npx tsc | tail -5 | grep error", Some(Others)),
            ("npx tsc | grep error | grep -v node_modules", None),
            ("npx tsc | grep error | grep src/a.ts", Some(Others)),
            ("timeout 60 npx tsc | grep error", Some(Others)),
            ("test -d src && npx tsc | grep error", Some(Others)),
            ("npx tsc | grep src/a.ts", Some(Others)),
            // If it finds nothing, that is no success.
            ("cargo test | grep 'test result'", None),
            ("npm test | grep -q failing", None),
            ("npx tsc | grep -c error", None),
            ("npx tsc | grep error | wc -l", None),
            ("npx tsc | grep error; ls", None),
            ("npx tsc | grep error || echo clean", None),
            ("npx tsc", None),
            // Without a check, it answers whether there is any.
            ("grep error a.log", Some(Seeks)),
            ("ps aux | grep -i mill | grep -v grep", Some(Seeks)),
            ("cd /w && gpu-top -n1 | /usr/bin/grep python", Some(Seeks)),
            ("ls; pgrep -f mill", Some(Seeks)),
            ("deploy now; ps aux | grep mill", None),
            ("ps aux | grep mill | wc -l", None),
            ("ps aux | grep mill || true", None),
            ("! grep -q TODO a.rs", None),
            ("ls", None),
        ] {
            assert_eq!(Filter::of(&Walk::of(command, None)), expected, "{command}");
        }
    }
}
