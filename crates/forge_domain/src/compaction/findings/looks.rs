//! Command lines that only look: something that they do not find is not an unresolved error.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::command_line::{from_program, steps, without_folder, without_quiet, words_of};
use super::pattern::{Pattern, any_of};

/// Programs that only look.
const LOOKS: &[&str] = &[
    "awk",
    "cat",
    "cd",
    "column",
    "cut",
    "date",
    "df",
    "diff",
    "du",
    "echo",
    "egrep",
    "false",
    "fgrep",
    "file",
    "find",
    "grep",
    "head",
    "hexdump",
    "id",
    "journalctl",
    "jq",
    "less",
    "ls",
    "lsof",
    "more",
    "nl",
    "printenv",
    "printf",
    "ps",
    "pwd",
    "read",
    "rg",
    "sed",
    "sleep",
    "sort",
    "stat",
    "strings",
    "tac",
    "tail",
    "test",
    "tr",
    "tree",
    "true",
    "type",
    "uname",
    "uniq",
    "wc",
    "which",
    "whoami",
    "xxd",
    "yq",
    "zcat",
    "zgrep",
];
/// Those of PowerShell and of Windows, in small letters.
const LOOKS_OF_WINDOWS: &[&str] = &[
    "dir",
    "findstr",
    "foreach-object",
    "format-list",
    "format-table",
    "gc",
    "gci",
    "get-childitem",
    "get-command",
    "get-content",
    "get-item",
    "get-location",
    "measure-object",
    "resolve-path",
    "select-object",
    "select-string",
    "sort-object",
    "test-path",
    "where",
    "where-object",
    "write-host",
    "write-output",
];
/// Of these programs, the commands that only look.
const LOOKS_OF: &[(&str, &[&str])] = &[
    (
        "git",
        &[
            "blame",
            "branch",
            "cat-file",
            "describe",
            "diff",
            "fsck",
            "grep",
            "log",
            "ls-files",
            "ls-remote",
            "merge-base",
            "reflog",
            "remote",
            "rev-list",
            "rev-parse",
            "show",
            "status",
        ],
    ),
    ("docker", &["images", "inspect", "logs", "ps"]),
    ("kubectl", &["describe", "get", "logs"]),
    ("npm", &["info", "list", "ls", "outdated", "search", "view"]),
    ("pip", &["freeze", "index", "list", "show"]),
    ("systemctl", &["status"]),
];
/// Words of a shell that stand with no command.
const ALONE: &[&str] = &["case", "done", "esac", "fi", "for"];
/// Options that ask a program what it can do.
const ASKS: &[&str] = &["--help", "--version"];
/// The clients of databases, and the words of what changes one.
const DATABASES: &[&str] = &["duckdb", "mysql", "psql", "sqlite3"];
const CHANGES_OF_DATA: &[&str] =
    &["alter", "create", "delete", "drop", "insert", "replace", "truncate", "update"];

/// Most machines over which a command is passed on: one that goes farther is not followed.
const MOST_MACHINES: usize = 4;

/// Checks whether a command only looks, in each of its steps.
pub(super) fn only_looks(command: &str) -> bool {
    only_looks_within(command, MOST_MACHINES)
}

/// Checks the same of a command that may be passed on over so many machines.
fn only_looks_within(command: &str, n_machines: usize) -> bool {
    let command = without_quiet(command);
    // Output in a temporary file changes nothing of the work.
    let command = match ASIDE.as_ref().filter(|_| command.contains("/tmp/")) {
        Some(aside) => aside.replace_all(&command, " "),
        None => Cow::Borrowed(&*command),
    };
    let steps = steps(&command);
    !command.contains(['>', '<'])
        && steps.iter().filter(|step| !step.is_empty()).all(|step| looks(step, n_machines))
}

/// Checks whether a step of a command line only looks.
fn looks(step: &str, n_machines: usize) -> bool {
    let words: Vec<&str> = step.split_whitespace().collect();
    let Some((first, words)) = from_program(&words).split_first() else { return true };
    let first = without_folder(first);
    let has = |words: &[&str]| step.split_whitespace().any(|word| words.contains(&word));
    if ALONE.contains(&first) || has(ASKS) {
        return true;
    }
    let writes = has(&["-i", "-delete", "-exec"]);
    let mut told = words.iter().copied().filter(|word| !word.starts_with('-'));
    let looks_of = |(program, commands): &(&str, &[&str])| {
        *program == first && told.clone().next().is_some_and(|word| commands.contains(&word))
    };
    LOOKS.contains(&first) && !writes
        || LOOKS_OF_WINDOWS.contains(&first.to_ascii_lowercase().as_str())
        || LOOKS_OF.iter().any(looks_of)
        || first == "gh"
            && told.nth(1).is_some_and(|word| ["view", "list", "checks", "status"].contains(&word))
        || has(DATABASES) && queries(step)
        || first == "ssh"
            && n_machines > 0
            && carried(step).is_some_and(|command| only_looks_within(&command, n_machines - 1))
}

/// Checks whether the words of a client of a database ask for something and change nothing.
fn queries(step: &str) -> bool {
    let step = step.to_ascii_lowercase();
    let mut words = step.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    step.contains("select ") && !words.any(|word| CHANGES_OF_DATA.contains(&word))
}

/// Returns the command that is run on another machine: what stands behind its name.
fn carried(step: &str) -> Option<String> {
    let words = words_of(step);
    let mut words =
        words.into_iter().skip_while(|word| word != "ssh").skip(1).skip_while(|word| word.starts_with('-'));
    words.next()?;
    Some(words.collect::<Vec<_>>().join(" ")).filter(|command| !command.is_empty())
}

/// A redirection into a temporary file.
static ASIDE: Pattern = LazyLock::new(|| any_of("", &[r">>?[ \t]*/tmp/[\w./-]+"]));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_one() {
        assert!(ASIDE.is_some());
    }

    #[test]
    fn a_command_looks_whatever_runs_it() {
        for (command, expected) in [
            ("cd /w && grep -n x a.rs | head -3", true),
            ("sudo grep FAILED /var/log/a.log 2>/dev/null", true),
            ("find . -name '*.log' | xargs -n 1 grep FAILED", true),
            ("find . -name '*.log' -delete", false),
            ("find . -name '*.log' | xargs rm", false),
            ("for f in *.log; do grep FAILED $f; done", true),
            ("for f in *.log; do rm $f; done", false),
            ("ssh prod 'grep FAILED /var/log/a.log'", true),
            ("ssh prod 'systemctl restart a'", false),
            ("sqlite3 a.db 'select status, count(*) from jobs group by 1'", true),
            ("sqlite3 a.db 'delete from jobs where id in (select 1)'", false),
            ("bd unlink --help", true),
            ("git cat-file -p x; git fsck", true),
            ("docker compose exec db psql -c 'select * from errors'", true),
            ("mysql -u root -e 'update a set b = 1'", false),
            ("psql -h db -c 'delete from jobs'", false),
            ("npm view left-pad", true),
            ("npm install left-pad", false),
            ("Get-Content -Raw app\\auth.py | Select-Object -First 9", true),
            ("Get-ChildItem | Remove-Item", false),
            ("grep x a > b", false),
            ("sed -i s/x/y/ a", false),
            ("grep x a > /tmp/b", true),
        ] {
            assert_eq!(only_looks(command), expected, "{command}");
        }
    }

    #[test]
    fn a_command_is_followed_over_few_machines() {
        for (n, expected) in [(1, true), (MOST_MACHINES, true), (MOST_MACHINES + 1, false), (50_000, false)] {
            assert_eq!(only_looks(&format!("{}ls", "ssh a ".repeat(n))), expected, "{n}");
        }
    }
}
