//! The evidence in the result of a command of how that ended.

use std::sync::LazyLock;

use super::MAX_CHARS;
use super::counts::{after_last_count, counts, passed_all};
use super::failure::{edges, end_of, told_in};
use super::pattern::{Pattern, any_of, matches};
use super::sections::Sections;
use super::status::{Status, foot, head, stated_status, states_code};
use crate::ToolResult;
use crate::compaction::envelope::{output, without_command};
use crate::compaction::names::is_hash;

/// The evidence in a result that reports no failure. A result without any shows no success: the command may
/// still be running, it may have been stopped, or a filter may hide what it wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// It counts what went well, and no failure.
    Counted,
    /// It says that all is well.
    Said,
    /// It states that the command succeeded: the last one, behind a pipe.
    Status,
    /// The command wrote nothing.
    Empty,
    /// It says that the command did not end, or not by itself.
    Unfinished,
    /// It says that no test ran.
    NothingRan,
    /// It says none of these.
    None,
}

impl Evidence {
    /// Reads the result of a check that reports no failure; `unfinished` is what it says if it did not end by
    /// itself. Where a command line has `sections`, those of its checks count.
    pub(super) fn of(
        result: &ToolResult,
        unfinished: Option<&Unfinished>,
        sections: Option<&Sections>,
    ) -> Self {
        let whole = result.content.text();
        let status = stated_status(without_command(&whole));
        let text = told_in(sections, output(whole));
        let edges = edges(&text);
        // What waits for changes has ended a run.
        if unfinished.is_some_and(|unfinished| unfinished.goes_on) && !matches(&WAITS, end_of(&edges)) {
            return Self::Unfinished;
        }
        if ran_nothing(&edges) {
            return Self::NothingRan;
        }
        if let Some(rest) = after_last_count(&edges) {
            let is_stopped = status.is_none() && rest.iter().any(|rest| Unfinished::of(rest).is_some());
            return if is_stopped { Self::Unfinished } else { Self::Counted };
        }
        if unfinished.is_some() {
            Self::Unfinished
        } else if end_of(&edges).lines().any(says_well) || made_all_steps(end_of(&edges)) {
            Self::Said
        } else if status == Some(Status::Passed) {
            Self::Status
        } else if text.trim().is_empty() || matches(&NOTHING, &text) {
            Self::Empty
        } else {
            Self::None
        }
    }
}

/// A command that did not end by itself before its result was sent.
pub(crate) struct Unfinished {
    /// True if it still ran, or if its session was closed.
    goes_on: bool,
    /// The id by which later calls ask what it wrote since.
    pub(crate) id: Option<String>,
    /// The line that says so.
    pub(crate) line: String,
}

impl Unfinished {
    /// Reads it from what a harness says before and after the output of a command.
    pub(super) fn of(text: &str) -> Option<Self> {
        let mut lines = head(text).chain(foot(text));
        let ends = |line: &&str| {
            let forms = [&GOES_ON, &BROKEN_OFF, &STOPPED];
            may_say_so(line) && forms.iter().any(|form| matches(form, line))
        };
        let line = lines.find(ends)?;
        let id =
            RUNNING_ID.as_ref().and_then(|id| id.captures(line)?.get(1)).map(|id| id.as_str().to_owned());
        let shown = line.trim().chars().take(MAX_CHARS).collect();
        Some(Self { goes_on: matches(&GOES_ON, line), id, line: shown })
    }

    /// Reads it from an answer in JSON that names the session in which the command runs on, and no exit code.
    fn in_session(text: &str) -> Option<Self> {
        let start = if text.starts_with('{') { 0 } else { text.find("\n{")? + 1 };
        // What the command itself wrote comes last.
        let fields = text[start..].split("\"output\":").next()?;
        let id = fields.split_once("\"session_id\":")?.1.trim_start();
        let id: String = id.chars().take_while(char::is_ascii_digit).collect();
        let is_envelope = fields.contains("\"chunk_id\":") || fields.contains("\"wall_time_seconds\":");
        let is_running = is_envelope && !id.is_empty() && !fields.contains("\"exit_code\":");
        is_running.then(|| Self { goes_on: true, line: format!("running with session {id}"), id: Some(id) })
    }

    /// Reads it from a result that states no status.
    pub(super) fn of_result(result: &ToolResult) -> Option<Self> {
        let whole = result.content.text();
        let whole = without_command(&whole);
        if let Some(running) = Self::in_session(whole) {
            return Some(running);
        }
        let is_own = |line: &str| matches(&STOPPED, line);
        Self::of(whole).filter(|found| found.goes_on || is_own(&found.line) || stated_status(whole).is_none())
    }
}

/// Checks whether a line of a command says that all is well; a field in tags is the harness's own.
fn says_well(line: &str) -> bool {
    let is_field = line.starts_with('<') && line.trim_end().ends_with('>');
    let is_well = matches(&GOOD_WORDS, line) && !matches(&DENIALS, line);
    (is_well || passed_all(line) == Some(true)) && !is_field
}

/// Checks whether the last line that counts the steps of a build counts all of them: `[12/12] Linking`.
fn made_all_steps(text: &str) -> bool {
    let counted = |line: &str| {
        let (done, rest) = line.strip_prefix('[')?.split_once('/')?;
        let (all, _) = rest.split_once("] ")?;
        Some((done.trim().parse::<u32>().ok()?, all.trim().parse::<u32>().ok()?))
    };
    text.lines().rev().find_map(counted).is_some_and(|(done, all)| done == all)
}

/// Checks quickly whether a line may say that a command did not end by itself: most have none of these signs.
fn may_say_so(line: &str) -> bool {
    const SIGNS: [&str; 12] = [
        "124",
        "unning",
        "ackground",
        "illed",
        "ending",
        "out",
        "borted",
        "ancel",
        "nterrupt",
        "erminated",
        "topped",
        "due to",
    ];
    line.chars().nth(NOTE_CHARS).is_none() && SIGNS.iter().any(|sign| line.contains(sign))
}

/// A note of a harness about a command takes a line of so many characters at most.
const NOTE_CHARS: usize = 1_000;

/// Checks whether a result says that no test ran, and of none that one did.
fn ran_nothing(edges: &[&str; 2]) -> bool {
    let any = |pattern: &Pattern| edges.iter().any(|edge| matches(pattern, edge));
    any(&NO_TESTS) && !any(&SOME_TESTS)
}

/// Checks whether all of a text says that a command wrote nothing.
pub(crate) fn says_nothing_written(text: &str) -> bool {
    matches(&NOTHING, text) || text.rsplit(": ").next().is_some_and(|told| told == "(empty)")
}

/// Checks whether a result has no line of an output, and states no other status than that of a program which
/// found nothing, such as `grep`.
pub(super) fn found_nothing(result: &ToolResult) -> bool {
    let whole = result.content.text();
    let status = stated_status(without_command(&whole));
    let says_one = |line: &str| states_code(line, "1");
    let is_status =
        status != Some(Status::Failed) && !result.is_error || head(&whole).chain(foot(&whole)).any(says_one);
    // What a filter lets through may speak of a status as well.
    let is_of_harness = |line: &str| {
        let line = line.to_ascii_lowercase();
        !["err", "fail", "warn"].iter().any(|part| line.contains(part))
    };
    let says_nothing = |line: &str| {
        let says_it = || only_says_status(line) || says_nothing_written(line);
        line.trim().is_empty() || says_it() && is_of_harness(line)
    };
    is_status && output(whole).lines().all(says_nothing)
}

/// Checks whether a line says no more than that a command ended well.
pub(crate) fn only_says_success(line: &str) -> bool {
    line.len() <= STATUS_BYTES && stated_status(line) == Some(Status::Passed)
}

/// Checks whether a line says no more than how a command ended.
pub(crate) fn only_says_status(line: &str) -> bool {
    line.len() <= STATUS_BYTES && stated_status(line).is_some()
}

/// Checks whether a line counts what went well or badly, or says how it went.
pub(crate) fn tells_outcome(line: &str) -> bool {
    counts(line) || matches(&GOOD_WORDS, line)
}

/// The words of git behind the commit that it was looking for.
const FIRST_BAD: &str = " is the first bad commit";

/// Checks whether a line tells which commit was made of what, or found: `[main 1a2b3c4] Correct the price`.
pub(crate) fn tells_commit(line: &str) -> bool {
    if line.ends_with(FIRST_BAD) {
        return true;
    }
    let parts = line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    let made = parts.and_then(|(made, _)| made.rsplit_once(' ')).map(|(_, hash)| hash);
    made.is_some_and(is_hash)
}

/// The words of git behind a branch that was replaced.
const FORCED: &str = " (forced update)";

/// Checks whether a line tells what was sent to which branch: `1a2b3c4..5d6e7f8  main -> main`. What was
/// fetched has the same form, but its branch is that of a remote: `main -> origin/main`.
pub(crate) fn tells_push(line: &str) -> bool {
    let Some((what, to)) = line.trim().split_once(" -> ") else { return false };
    let to = to.strip_suffix(FORCED).unwrap_or(to);
    let words: Vec<&str> = what.trim_start_matches(['*', '+', ' ']).split_whitespace().collect();
    let is_of_remote = |from: &&str| to.strip_suffix(*from).is_some_and(|remote| remote.ends_with('/'));
    if words.last().is_some_and(is_of_remote) {
        return false;
    }
    let is_range = |word: &str| word.split_once("..").is_some_and(|(from, to)| is_hash(from) && is_hash(to));
    let is_new = what.contains("[new branch]") || what.contains("[new tag]");
    !to.contains(' ') && (is_new || words.len() == 2 && is_range(&words[0].replace("...", "..")))
}

/// Lines that git writes only if it could not do what it should, whatever else it did.
const COULD_NOT: [&str; 6] =
    ["! [", "error: failed to push", "fatal:", "CONFLICT (", "Automatic merge failed", "Aborting"];

/// Checks whether what git wrote says last that it did what it should: it may warn of errors before.
pub(super) fn tells_success_of_git(text: &str) -> bool {
    let succeeds = |line: &str| {
        let counts_files = line.contains(" changed, ") && line.trim_start().starts_with(char::is_numeric);
        let says_so = ["Fast-forward", "Everything up-to-date", "Already up to date.", "Merge made by "];
        tells_push(line)
            || tells_commit(line)
            || counts_files
            || says_so.iter().any(|so| line.starts_with(so))
    };
    let fails = |line: &str| ["error", "warning"].iter().any(|word| line.to_lowercase().contains(word));
    let could_not = |line: &str| COULD_NOT.iter().any(|start| line.trim_start().starts_with(start));
    let last = text.lines().rev().find(|line| succeeds(line) || fails(line));
    last.is_some_and(succeeds) && !text.lines().any(could_not)
}

/// Checks whether a line is one of a log of commits: `1a2b3c4 Correct the price`.
pub(crate) fn is_of_log(line: &str) -> bool {
    let hash = line.split_once(' ').filter(|(_, subject)| subject.contains(char::is_alphabetic));
    hash.is_some_and(|(hash, _)| is_hash(hash) && hash.contains(|c: char| c.is_ascii_digit()))
}

/// Checks whether a line is one of `git status --short`: two letters, and a file.
pub(crate) fn is_of_status(line: &str) -> bool {
    let line = line.trim();
    let state = line.split_once(' ').filter(|(_, file)| !file.trim().contains(' ')).map(|(state, _)| state);
    state.is_some_and(|state| state.len() <= 2 && state.bytes().all(|b| b"MADRCU?!".contains(&b)))
}

/// Checks whether a line tells what was made: `✓ Created issue: av-12`.
pub(crate) fn tells_what_was_made(line: &str) -> bool {
    matches(&MADE, line)
}

/// A line of so many bytes at most says no more than the status that it states.
const STATUS_BYTES: usize = 80;

/// The forms by which the runners of checks and their shells say that all is well.
static GOOD_WORDS: Pattern = LazyLock::new(|| {
    let forms = [
        r"(?i:\bno (?:\w+ )?(?:issues|problems|errors|warnings|vulnerabilities)\b)",
        r"(?i:\ball\b.{0,30}\bpass(?:ed|ing)?\b)",
        r"(?i:\b(?:success|successful|successfully|succeeded)\b)",
        r"^ok\b|\bOK\r?$|^OK \(|: ok\b|: OK \(",
        r"^[ \t]*(?:--- )?PASS(?:ED)?\b|\bPASSED?\r?$|^Passed!",
        r"^[ \t]*Finished\b|^Build complete!",
        r"^[ \t]*[✓✔√].*\b(?:built|compiled|passed|done)\b",
        r"(?i:\b(?:build|compilation|generation) complete[.!]|\[success\w*\])",
        r"\b[Tt]est suite \S+ passed\b|\bTesting \S+ tests passed\b|\bPASS=[1-9]\d* WARN=\d+ ERROR=0\b",
        // Of what runs the work: images, plans, rehearsals.
        r"(?:^#\d+|=>) naming to \S|^\W*\S+[ \t]+Built\r?$|^Sketch uses \d+ bytes\b|^Generated \S+ app\b",
        r"\(server dry run\)\r?$|^--dry-run: exiting now|^Plan: \d+ to add\b|^No changes\.|^playbook: \S+\r?$",
        r"(?i:\ball matched files use\b|\b(?:left unchanged|already formatted)\W*$)",
    ];
    any_of("", &forms)
});
/// The beginning of a line that tells what was made, and its name behind that.
static MADE: Pattern = LazyLock::new(|| {
    any_of(
        "(?i)",
        &[r"^\W{0,4}(?:successfully )?(?:created|added|opened|published|registered|scheduled|spawned) .*\w"],
    )
});
/// Words that turn such a line into its opposite.
static DENIALS: Pattern =
    LazyLock::new(|| any_of("(?i)", &[r"\b(?:not|never|without|cannot|un\w+ful)\b|n't\b"]));

/// The forms by which harnesses say that a command still runs.
static GOES_ON: Pattern = LazyLock::new(|| {
    let forms = [
        r"^\W*(?:the )?(?:process|command|shell|session|task|job)\b.{0,40}\brunning\b",
        r"\bbackground (?:process|task|command|job) started\b|\b(?:running|started) in (?:the )?background\b|\brunning with (?:session|process|shell|id|pid)\b",
        r"<status>\s*(?:running|pending|killed)",
        r"\bkilled (?:shell|process|session|command|task)\b",
    ];
    any_of("(?i)", &forms)
});
/// The forms by which they say that it was stopped; what a command writes may read so, too.
static BROKEN_OFF: Pattern = LazyLock::new(|| {
    let forms = [
        r"\bstill running\b|\bdue to (?:an? )?(?:interrupt|signal|timeout)\b",
        r"\btimed out (?:after|waiting)\b|\btimeout (?:reached|exceeded|expired)\b",
        r"\b(?:aborted|interrupted|cancell?ed|killed|terminated|stopped) (?:by|after|due)\b",
        r"^\W*(?:(?:the )?(?:command|process) )?(?:was )?(?:timed out|aborted|interrupted|terminated|killed|cancell?ed)\W*$",
    ];
    any_of("(?i)", &forms)
});
/// The forms by which a harness, or `timeout`, says that it stopped a command, whatever code that ended with.
static STOPPED: Pattern = LazyLock::new(|| {
    let forms = [
        r"^\W*(?:the )?command (?:was )?(?:timed out|aborted|killed|terminated)\b",
        r"^\W*(?:rc|ret|exit|EXIT|status|code)[ =:]{1,3}124\W*$|\bexit(?:ed)? (?:with )?(?:code|status)[=: ]{1,2}124\b",
    ];
    any_of("(?i)", &forms)
});
/// The last line of a program that waits for a file to change before it runs again.
static WAITS: Pattern = LazyLock::new(|| {
    any_of("(?i)", &[r"\b(?:waiting|watching) for (?:file )?changes\b[^\n]*\s*(?:</\w+>\s*|<[^\n]*\s*)*\z"])
});
/// The forms by which runners say that no test ran, and that one did.
static NO_TESTS: Pattern = LazyLock::new(|| {
    let forms = [
        r"\bno tests? (?:to run|ran|found|were (?:run|found|executed)|collected|executed)\b",
        r"\bcollected 0 items\b|\b0 passed\b|\bran 0 tests\b|\b0 (?:runs|examples|specs|test cases), 0\b",
        r"\btests?(?: run)?: 0\b|\b0 tests?(?:,| ran| run| executed| found|[ \t\r]*$)",
    ];
    any_of("(?im)", &forms)
});
static SOME_TESTS: Pattern = LazyLock::new(|| {
    let forms = [
        r"\b[1-9]\d* (?:\w+ )?(?:passed|passing|tests?|pass|runs|examples|specs)\b|\btests?(?: run)?: [1-9]",
        r"^ok\s+\S+\s+(?:[\d.]+s|\(cached\))[ \t\r]*$",
    ];
    any_of("(?im)", &forms)
});

static RUNNING_ID: Pattern =
    LazyLock::new(|| any_of("", &[r"(?:\b[iI][dD]|[a-z]Id|_id)\b\W{0,4}([\w-]*\d[\w-]*)"]));

/// A text by which a harness says that a command wrote nothing.
static NOTHING: Pattern = LazyLock::new(|| {
    any_of(
        "(?i)",
        &[r"\A.{0,60}\b(?:no output|without (?:any )?output|not produce any output)\b.{0,40}\s*\z"],
    )
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_one() {
        let patterns = [
            &GOOD_WORDS,
            &MADE,
            &DENIALS,
            &GOES_ON,
            &BROKEN_OFF,
            &RUNNING_ID,
            &NOTHING,
            &STOPPED,
            &WAITS,
            &NO_TESTS,
            &SOME_TESTS,
        ];
        assert!(patterns.into_iter().all(|pattern| pattern.is_some()));
    }

    #[test]
    fn what_git_sent_is_known_by_its_form() {
        for (line, expected) in [
            ("   663452c..3696270  main -> main", true),
            (" + 663452c...3696270 main -> main (forced update)", true),
            (" * [new branch]      a/b -> a/b", true),
            (" * [new tag]         v1.2 -> v1.2", true),
            ("   663452c..3696270  main       -> origin/main", false),
            (" * [new branch]      a/b        -> origin/a/b", false),
            (" ! [rejected]        main -> main (fetch first)", false),
            ("one..two  main -> main", false),
            ("fn a() -> b", false),
            ("-> b", false),
        ] {
            assert_eq!(tells_push(line), expected, "{line}");
        }
    }

    #[test]
    fn what_git_says_last_counts() {
        let error = "error: non-monotonic index .git/objects/pack/._pack-2331.idx\n";
        let push = "To github.com:a/b.git\n   663452c..3696270  main -> main\n";
        for (told, expected) in [
            (format!("{error}{push}"), true),
            (format!("{error}[main 3696270] Begin\n 2 files changed, 124 insertions(+)\n"), true),
            (format!("{error} 1 file changed, 1 insertion(+)\n{error}{push}"), true),
            (format!("{error}Updating 663452c..3696270\nFast-forward\n a.rs | 2 +-\n"), true),
            (format!("{push}{error}"), false),
            (error.to_owned(), false),
            ("[main 3696270] Begin\nfatal: Could not read from remote repository.\n".to_owned(), false),
            (format!("{error}{push} ! [rejected]        dev -> dev (fetch first)\n"), false),
            ("[main 3696270] Begin\nremote: error: GH006: protected\n".to_owned(), false),
            ("Everything up-to-date\n".to_owned(), true),
        ] {
            assert_eq!(tells_success_of_git(&told), expected, "{told}");
        }
    }

    #[test]
    fn a_line_of_a_log_begins_with_its_commit() {
        for (line, expected) in [
            ("b7d9cc8 Tell more", true),
            ("b7d9cc8 (HEAD -> main) Tell more", true),
            ("effaced by the sea", false),
            ("b7d9cc8", false),
            ("1234567 890", false),
            ("Tell b7d9cc8", false),
        ] {
            assert_eq!(is_of_log(line), expected, "{line}");
        }
    }
}
