//! The tests, builds and checks that a command line runs.

use super::MAX_CHARS;
use super::aside::steps_aside;
use super::command_line::{Step, Walk, from_program, is_redirection, without_quiet, without_version};
use super::failure::names_test;

/// The tests, builds and checks of a command line, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Checks {
    each: Vec<Check>,
    /// All of them as one, if there are several: which of them failed is not known.
    together: Option<Check>,
    /// True if others run while the work is in another state.
    has_aside: bool,
}

/// A test, build or check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) command: String,
    /// The folder in which it runs, if its command line tells.
    pub(crate) folder: Option<String>,
    /// Its program, and the words that say of what it runs: packages, files.
    runner: String,
    scope: Vec<String>,
    /// True if it runs tests: what only builds or reads the code shows less.
    pub(crate) is_test: bool,
}

impl Check {
    /// Checks whether its success shows that a check which `failed` before with a `line` would pass now. It
    /// does not if the same program checked one thing then and another thing now, nor if it reads the code of
    /// another language, or only builds where a test failed.
    pub(crate) fn covers(&self, failed: &Self, line: &str) -> bool {
        let is_in = |part: &str, whole: &str| {
            let whole = whole.trim_end_matches(['/', '.', '*']);
            part.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':', '.']))
        };
        let is_related = |one: &String| self.scope.iter().any(|other| is_in(one, other) || is_in(other, one));
        let language = |runner: &str| LANGUAGES.iter().find(|(_, runners)| runners.contains(&runner));
        let languages = language(&self.runner).zip(language(&failed.runner));
        let is_of_test = failed.is_test && names_test(line);
        if is_of_test && !self.is_test || languages.is_some_and(|(one, other)| one.0 != other.0) {
            return false;
        }
        // Of all tests, one that failed may be another one.
        let is_told = |one: &String| {
            let name = one.rsplit(['/', ':']).find(|part| !part.is_empty()).unwrap_or(one);
            line.contains(name.split('.').next().unwrap_or(name))
        };
        let is_another = || is_of_test && !self.scope.iter().any(is_told);
        self.runner != failed.runner
            || self.scope.is_empty()
            || if failed.scope.is_empty() { !is_another() } else { failed.scope.iter().any(is_related) }
    }
}

impl Checks {
    /// Finds the checks of the steps of a command line without here-documents.
    pub(super) fn of(walk: &Walk<'_>) -> Self {
        let (mut each, mut has_aside) = (Vec::new(), false);
        for (step, is_aside) in walk.steps.iter().zip(steps_aside(walk)) {
            let check = check_of(step);
            has_aside |= is_aside && check.is_some();
            each.extend(check.filter(|_| !is_aside));
        }
        each.dedup();
        let together = (each.len() > 1).then(|| {
            let commands: Vec<&str> = each.iter().map(|check| check.command.as_str()).collect();
            Check {
                command: commands.join(" && ").chars().take(MAX_CHARS).collect(),
                folder: each.first().and_then(|check| check.folder.clone()),
                runner: String::new(),
                scope: Vec::new(),
                is_test: each.iter().any(|check| check.is_test),
            }
        });
        Self { each, together, has_aside }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    /// Checks whether checks of another state of the work run as well.
    pub(super) const fn has_aside(&self) -> bool {
        self.has_aside
    }

    /// Returns the checks that passed: all of them.
    pub(super) fn passed(&self) -> &[Check] {
        &self.each
    }

    /// Returns the check that did not pass, if one is known to be it, or all of them as one: a test, if the
    /// result `names_test` that failed and only one of them runs tests.
    pub(super) fn not_passed(&self, names_test: impl FnOnce() -> bool) -> &[Check] {
        let Some(together) = &self.together else { return &self.each };
        let mut tests = self.each.iter().filter(|check| check.is_test);
        let the_test = tests.next().filter(|_| tests.next().is_none() && names_test());
        std::slice::from_ref(the_test.unwrap_or(together))
    }
}

/// Runners of tests, builds and checks.
const RUNNERS: &[&str] = &[
    "cargo",
    "go",
    "npm",
    "pnpm",
    "yarn",
    "bun",
    "make",
    "just",
    "mvn",
    "mvnw",
    "gradle",
    "gradlew",
    "dotnet",
    "deno",
    "mix",
    "swift",
    "mise",
    "npx",
    "uv",
    "poetry",
    "python",
    "bundle",
    "rails",
    "rake",
    "composer",
    "php",
    "bazel",
    "sbt",
    "dart",
    "flutter",
    "zig",
    "node",
    "tsx",
    "cmake",
    "black",
    "prettier",
    "isort",
    "turbo",
    "nx",
    "lerna",
    "helm",
    "terraform",
    "hatch",
    "pdm",
    "rye",
    "xcodebuild",
    "task",
    "ninja",
];
/// Runners that do nothing else.
const CHECKERS: &[&str] = &[
    "pytest",
    "tox",
    "nox",
    "tsc",
    "golangci-lint",
    "ruff",
    "mypy",
    "pyright",
    "flake8",
    "pylint",
    "jest",
    "vitest",
    "eslint",
    "stylelint",
    "biome",
    "oxlint",
    "mocha",
    "ava",
    "phpunit",
    "phpstan",
    "rspec",
    "rubocop",
    "ctest",
    "bats",
    "shellcheck",
    "hadolint",
    "ktlint",
    "detekt",
    "pre-commit",
    "ansible-lint",
];
/// The tasks of a runner that count as a check.
const CHECKS: &[&str] = &[
    "test",
    "tests",
    "build",
    "check",
    "clippy",
    "vet",
    "lint",
    "typecheck",
    "type-check",
    "tsc",
    "jest",
    "vitest",
    "mocha",
    "ava",
    "pytest",
    "unittest",
    "rspec",
    "spec",
    "phpunit",
    "mypy",
    "ruff",
    "eslint",
    "fmt",
    "e2e",
    "validate",
    "ci",
    "assemble",
    "compile",
    "package",
    "verify",
    "nextest",
    "credo",
    "--test",
    "--build",
    "--check",
];
/// Of the checkers and the checks, those that run tests.
const TESTS: &[&str] = &[
    "test", "tests", "jest", "vitest", "mocha", "ava", "pytest", "unittest", "tox", "nox", "rspec", "spec",
    "phpunit", "ctest", "bats", "e2e", "nextest", "--test",
];
/// The tasks of a runner that only change what is installed, such as `pytest` itself.
const INSTALLS: &[&str] = &["add", "i", "install", "remove", "uninstall", "upgrade"];
/// The runners whose `ci` only installs.
const PACKAGERS: &[&str] = &["npm", "pnpm", "yarn", "bun"];
/// Options by which a check only tells what it would do, or does nothing.
const LISTS: &[&str] = &[
    "--collect-only",
    "--dry-run",
    "--just-print",
    "--list",
    "--listTests",
    "--co",
    "--help",
    "--version",
    "--no-run",
];
/// The runners that read the code of one language.
const LANGUAGES: &[(&str, &[&str])] = &[
    (
        "python",
        &[
            "pytest", "tox", "nox", "python", "uv", "poetry", "hatch", "pdm", "rye", "mypy", "pyright",
            "ruff", "flake8", "pylint", "black", "isort",
        ],
    ),
    (
        "javascript",
        &[
            "npm",
            "pnpm",
            "yarn",
            "bun",
            "npx",
            "node",
            "tsx",
            "tsc",
            "deno",
            "jest",
            "vitest",
            "mocha",
            "ava",
            "eslint",
            "stylelint",
            "biome",
            "oxlint",
            "prettier",
            "turbo",
            "nx",
            "lerna",
        ],
    ),
    ("rust", &["cargo"]),
    ("go", &["go", "golangci-lint"]),
    ("java", &["mvn", "mvnw", "gradle", "gradlew", "sbt", "ktlint", "detekt"]),
    ("ruby", &["bundle", "rails", "rake", "rspec", "rubocop"]),
    ("php", &["composer", "php", "phpunit", "phpstan"]),
    ("dart", &["dart", "flutter"]),
    ("dotnet", &["dotnet"]),
    ("elixir", &["mix"]),
    ("swift", &["swift", "xcodebuild"]),
    ("zig", &["zig"]),
];
/// Commands that run another one elsewhere: it comes after their options and a place.
const CARRIERS: &[&str] = &[
    "bash",
    "cmd",
    "docker",
    "docker-compose",
    "kubectl",
    "nix",
    "nix-shell",
    "podman",
    "powershell",
    "pwsh",
    "sh",
    "ssh",
    "wsl",
    "zsh",
];
/// Most words of a runner and its task.
const MOST_WORDS: usize = 5;

/// Checks whether a step of a command line is a check.
pub(super) fn runs_check(step: &Step<'_>) -> bool {
    check_of(step).is_some()
}

/// Checks whether a step has another program run a check and then something else: whatever the check found,
/// the status is that of the last command.
pub(super) fn hides_carried(step: &Step<'_>) -> bool {
    let first = step.command.split_whitespace().next();
    let told = step.command.trim_end_matches([' ', '"', '\'', ';', '\n']);
    // The sign of the background, not a part of `&&` or of a redirection.
    let is_alone = |at: usize| !told[..at].ends_with(['&', '>']) && !told[at + 1..].starts_with(['&', '>']);
    let ends = |(at, c): &(usize, char)| matches!(c, '|' | ';' | '\n') || *c == '&' && is_alone(*at);
    let last = told.char_indices().rev().find(ends);
    let last = last.map(|(at, _)| told[at + 1..].trim_matches([' ', '"', '\'']));
    first.is_some_and(|first| CARRIERS.contains(&program(first)))
        && last.is_some_and(|last| !runs_check(&Step { command: last, ..step.clone() }))
        && runs_check(step)
}

/// Returns the check that a step of a command line is.
pub(super) fn check_of(Step { command: step, folder, .. }: &Step<'_>) -> Option<Check> {
    let bare = |word| str::trim_matches(word, ['(', ')', '"', '\'', ';']);
    let words: Vec<&str> =
        step.split_whitespace().take_while(|word| !is_redirection(word)).map(bare).collect();
    let mut words = from_program(&words).to_vec();
    if words.first().is_some_and(|first| CARRIERS.contains(&program(first))) {
        let carried = words.iter().skip(1).position(|word| CHECKERS.contains(word) || is_runner(word))?;
        words.drain(..=carried);
    }
    let scope = scope_of(&words);
    words.truncate(MOST_WORDS);
    let (runner, told) = words.split_first()?;
    let runner = program(runner);
    let only_lists = told.iter().any(|word| LISTS.contains(word) || runner == "make" && *word == "-n");
    let only_installs = PACKAGERS.contains(&runner) && told.first() == Some(&"ci");
    let mut tasks = told.iter().take_while(|word| !INSTALLS.contains(word));
    let is_check = CHECKERS.contains(&runner)
        || builds_all(runner, told)
        || is_runner(runner) && tasks.any(|word| is_one_of(CHECKS, word));
    if !is_check || only_lists || only_installs {
        return None;
    }
    let is_test = is_one_of(TESTS, runner) || told.iter().any(|word| is_one_of(TESTS, word));
    let command = without_quiet(step).trim_end().chars().take(MAX_CHARS).collect();
    Some(Check { command, folder: folder.clone(), runner: runner.to_owned(), scope, is_test })
}

/// Returns the words of a check that name its subject: none that is an option or names its task, nor one for
/// everything.
fn scope_of(words: &[&str]) -> Vec<String> {
    let is_task = |word: &str| is_one_of(CHECKS, word) || matches!(word, "run" | "exec" | "all" | "--");
    let is_scope =
        |word: &&&str| !word.starts_with('-') && !is_task(word) && word.contains(|c: char| c.is_alphabetic());
    words.iter().skip(1).filter(is_scope).map(|word| (*word).trim_start_matches("./").to_owned()).collect()
}

/// The endings of scripts: what is named `test-mail.js` sends a mail, rather than test anything.
const SCRIPTS: &[&str] = &[".cjs", ".js", ".mjs", ".mts", ".php", ".ps1", ".py", ".rb", ".sh", ".ts", ".tsx"];

/// Checks whether a word is one of `tasks`, alone or of a part: `test:unit`, `test-unit`.
fn is_one_of(tasks: &[&str], word: &str) -> bool {
    if SCRIPTS.iter().any(|ending| word.ends_with(ending)) {
        return false;
    }
    let names = |task: &&str| {
        word.strip_prefix(task).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '-']))
    };
    tasks.iter().any(names)
}

/// Checks whether a command is `make` without a goal of its own.
fn builds_all(runner: &str, told: &[&str]) -> bool {
    let is_option = |word: &&str| word.starts_with('-') || word.contains('=');
    let mut goals = told.iter().filter(|word| !is_option(word) && word.parse::<u32>().is_err());
    matches!(runner, "make" | "ninja") && goals.all(|goal| *goal == "all")
}

/// Returns the name of a program without its folder and the ending of a script of Windows.
fn program(word: &str) -> &str {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
    [".bat", ".cmd", ".exe"].iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}

/// Checks for a runner, whatever its version.
fn is_runner(word: &str) -> bool {
    RUNNERS.contains(&without_version(program(word)))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_check_shows_only_what_it_checks() {
        let check_of = |command: &str| Checks::of(&Walk::of(command, None)).passed()[0].clone();
        let named = "FAILED tests/test_ws.py::test_reconnect - AssertionError";
        for (passed, failed, line, expected) in [
            ("pytest", "pytest tests/test_ws.py", named, true),
            ("pytest tests/test_ws.py", "pytest", named, true),
            ("pytest -k test_reconnect", "pytest", named, true),
            ("pytest tests/test_price.py", "pytest", named, false),
            ("pytest tests/test_price.py", "pytest", "ImportError: no module", true),
            ("pytest tests/a.py", "pytest tests/b.py", named, false),
            ("make test", "pytest", named, true),
            ("npm test", "pytest", named, false),
            ("npm run lint", "npm test", "1 failed", false),
            ("npm test", "npm run lint", "1 problem", true),
        ] {
            assert_eq!(check_of(passed).covers(&check_of(failed), line), expected, "{passed} for {failed}");
        }
    }

    #[test]
    fn a_check_is_known_whoever_runs_it() {
        for (command, expected) in [
            ("cd a && cargo nextest run", &[("cargo nextest run", true)][..]),
            ("node --test src", &[("node --test src", true)]),
            ("node --test test-a.mjs", &[("node --test test-a.mjs", true)]),
            ("node test-mail.mjs; npx tsx test-db.ts; python test-api.py", &[]),
            ("node --check test-mail.mjs", &[("node --check test-mail.mjs", false)]),
            ("make test-unit", &[("make test-unit", true)]),
            ("make -j 4", &[("make -j 4", false)]),
            ("make install", &[]),
            ("nohup make all", &[("nohup make all", false)]),
            ("cmake --build out", &[("cmake --build out", false)]),
            ("black --check .", &[("black --check .", false)]),
            ("black .", &[]),
            (".\\gradlew.bat test", &[(".\\gradlew.bat test", true)]),
            ("docker compose exec -T app pytest -q", &[("docker compose exec -T app pytest -q", true)]),
            ("docker ps", &[]),
            ("ssh host 'cd /w && npm test'", &[("ssh host 'cd /w && npm test'", true)]),
            ("bash -c \"npm run lint\"", &[("bash -c \"npm run lint\"", false)]),
            (
                "powershell -Command \"Set-Location 'c:\\w'; npx vitest run\"",
                &[("powershell -Command \"Set-Location 'c:\\w'; npx vitest run\"", true)],
            ),
            ("npm test && npm run lint", &[("npm test", true), ("npm run lint", false)]),
            ("npm ci", &[]),
            ("npm run ci", &[("npm run ci", false)]),
            ("pytest --version; cargo test --help; cargo test --no-run", &[]),
        ] {
            let checks = Checks::of(&Walk::of(command, None));
            let each = checks.passed().iter();
            let each: Vec<_> = each.map(|check| (check.command.as_str(), check.is_test)).collect();
            assert_eq!(each, expected, "{command}");
        }
        let checks = Checks::of(&Walk::of("npm test && npm run lint", None));
        for (names_test, expected) in [(false, "npm test && npm run lint"), (true, "npm test")] {
            let failed = checks.not_passed(|| names_test);
            assert_eq!(failed.iter().map(|check| check.command.as_str()).collect::<Vec<_>>(), [expected]);
        }
    }
}
