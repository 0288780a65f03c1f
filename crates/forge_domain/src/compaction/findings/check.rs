//! The tests, builds and checks that a command line runs.

use super::MAX_CHARS;
use super::aside::steps_aside;
use super::check_words::{
    BOARDS, CALLS, CARRIERS, CHECKERS, CHECKS, COMPILED_TESTS, COMPILERS, IMAGES, INFRASTRUCTURE, INSTALLS,
    INTERPRETERS, LANGUAGES, LISTS, NARROW, NOT_BUILT, NOT_COMPILED, ON_BOARD, PACKAGERS, RUNNERS, SEVERAL,
    SKIP_TESTS, TESTS,
};
use super::command_line::{Step, Walk, from_program, is_redirection, without_quiet, without_version};
use super::failure::names_test;
use super::looks::only_looks;

/// The tests, builds and checks of a command line, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Checks {
    each: Vec<Check>,
    /// All of them as one, if there are several: which of them failed is not known.
    together: Option<Check>,
    /// True if others run while the work is in another state.
    has_aside: bool,
    /// True if they only build or read what they name, and something else runs after them, such as what they
    /// built: what is written then is hardly theirs.
    runs_after: bool,
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
    /// True if it reads or builds nothing but what it names, such as a compiler that is called by hand, or is
    /// not about the code: nothing else is shown by it.
    pub(crate) is_narrow: bool,
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
        if self.is_narrow {
            let is_all = self.scope.is_empty() || failed.scope.is_empty();
            return self.runner == failed.runner && (is_all || failed.scope.iter().any(is_related));
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
        let (mut each, mut has_aside, mut runs_after): (Vec<Check>, _, _) = (Vec::new(), false, false);
        for (step, is_aside) in walk.steps.iter().zip(steps_aside(walk)) {
            let check = check_of(step);
            has_aside |= is_aside && check.is_some();
            let runs = runs_after || !step.is_piped && !each.is_empty() && !only_looks(step.command);
            runs_after = check.is_none() && runs;
            each.extend(check.filter(|_| !is_aside));
        }
        each.dedup();
        let runs_after = runs_after && each.iter().all(|check| check.is_narrow);
        let together = (each.len() > 1).then(|| {
            let commands: Vec<&str> = each.iter().map(|check| check.command.as_str()).collect();
            Check {
                command: commands.join(" && ").chars().take(MAX_CHARS).collect(),
                folder: each.first().and_then(|check| check.folder.clone()),
                runner: String::new(),
                scope: Vec::new(),
                is_test: each.iter().any(|check| check.is_test),
                is_narrow: each.iter().all(|check| check.is_narrow),
            }
        });
        Self { each, together, has_aside, runs_after }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    /// Checks whether checks of another state of the work run as well.
    pub(super) const fn has_aside(&self) -> bool {
        self.has_aside
    }

    /// Checks whether what is written is hardly that of the checks: something else runs after them.
    pub(super) const fn runs_after(&self) -> bool {
        self.runs_after
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
    let narrow = narrow_check(&words);
    if narrow.is_none() && words.first().is_some_and(|first| CARRIERS.contains(&program(first))) {
        let carried = words.iter().skip(1).position(|word| CHECKERS.contains(word) || is_runner(word))?;
        words.drain(..=carried);
    }
    let scope = scope_of(&words);
    words.truncate(MOST_WORDS);
    let (runner, told) = words.split_first()?;
    let runner = program(runner);
    let is_test = match narrow {
        Some(_) => false,
        None => runs_tests(runner, told, step)?,
    };
    let is_narrow = narrow.is_some() || INFRASTRUCTURE.contains(&runner);
    let runner = narrow.unwrap_or_else(|| runner.to_owned());
    let command = without_quiet(step).trim_end().chars().take(MAX_CHARS).collect();
    Some(Check { command, folder: folder.clone(), runner, scope, is_test, is_narrow })
}

/// Checks whether a runner that is told such words runs tests; `None` if it checks nothing.
fn runs_tests(runner: &str, told: &[&str], step: &str) -> Option<bool> {
    if INTERPRETERS.contains(&runner) && CALLS.iter().any(|call| step.contains(call)) {
        return Some(true);
    }
    let only_lists = told.iter().any(|word| LISTS.contains(word) || runner == "make" && *word == "-n");
    let only_installs =
        PACKAGERS.contains(&runner) && told.first() == Some(&"ci") || installs_checker(runner, told);
    let needs_board = BOARDS.contains(&runner) && told.iter().any(|word| ON_BOARD.contains(word));
    let is_gradle = matches!(runner, "gradle" | "gradlew");
    let is_any =
        |tasks: &[&str], word: &str| is_one_of(tasks, word) || is_gradle && is_of_gradle(tasks, word);
    let is_task = |word: &&&str| is_any(CHECKS, word) || CHECKERS.contains(word);
    let first = told.iter().take_while(|word| !INSTALLS.contains(word)).find(is_task);
    let (is_checker, builds) = (CHECKERS.contains(&runner), builds_all(runner, told));
    let is_check = is_checker || builds || is_runner(runner) && first.is_some();
    if !is_check || only_lists || only_installs || needs_board {
        return None;
    }
    let is_test_task = |word: &str| is_any(TESTS, word) && !is_of_gradle(COMPILED_TESTS, word);
    // `-x test` leaves that task out.
    let is_left_out = |at: usize| at > 0 && matches!(told[at - 1], "-x" | "--exclude-task");
    let is_test = if SEVERAL.contains(&runner) {
        told.iter().enumerate().any(|(at, word)| !is_left_out(at) && is_test_task(word))
    } else {
        !is_checker && !builds && first.is_some_and(|word| is_test_task(word))
    };
    let only_compiles =
        SKIP_TESTS.iter().any(|option| step.contains(option)) || runner == "go" && told.contains(&"-c");
    Some(!only_compiles && (is_test || is_one_of(TESTS, runner)))
}

/// Checks whether a checker is told to install what it needs, or itself where others run it.
fn installs_checker(runner: &str, told: &[&str]) -> bool {
    let is_checker = |word: &&str| CHECKERS.contains(word);
    let task = match is_checker(&runner) {
        true => told.first(),
        false => told.iter().skip_while(|word| !is_checker(word)).nth(1),
    };
    task.is_some_and(|task| matches!(*task, "install" | "uninstall"))
}

/// Returns the name of a check that only reads or builds what it names; `None` if the words are another one,
/// or none.
fn narrow_check(words: &[&str]) -> Option<String> {
    let (first, told) = words.split_first()?;
    let name = without_version(program(first)).trim_end_matches('-');
    let has = |options: &[&str]| told.iter().any(|word| options.contains(word));
    let is_compiler = COMPILERS.contains(&name) || ["-gcc", "-g++"].iter().any(|end| name.ends_with(end));
    if is_compiler && !has(NOT_COMPILED) && told.iter().any(|word| has_ending(word)) {
        return Some(name.to_owned());
    }
    let mut commands = told.iter().take_while(|word| !NOT_BUILT.contains(word));
    if IMAGES.contains(&name) && commands.any(|word| *word == "build") {
        return Some(format!("{name} build"));
    }
    let (_, tasks) = NARROW.iter().find(|(names, _)| names.contains(&name))?;
    let operands: Vec<&str> = told.iter().copied().filter(|word| !word.starts_with('-')).take(2).collect();
    let is_told = |task: &&&str| match task.starts_with("--") {
        true => told.contains(task),
        false => {
            told.first() == Some(*task) || operands.first() == Some(*task) || operands.join(" ") == **task
        }
    };
    tasks.iter().find(is_told).map(|task| format!("{name} {task}"))
}

/// Checks whether a word is the name of a file with an ending.
fn has_ending(word: &str) -> bool {
    let ending = word.rsplit_once('.').map(|(_, ending)| ending).filter(|_| !word.starts_with('-'));
    ending.is_some_and(|ending| ending.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// Returns the words of a check that name its subject: none that is an option or names its task, nor one for
/// everything.
fn scope_of(words: &[&str]) -> Vec<String> {
    let is_task = |word: &str| is_one_of(CHECKS, word) || matches!(word, "run" | "exec" | "all" | "--");
    let is_scope =
        |word: &str| !word.starts_with('-') && !is_task(word) && word.contains(|c: char| c.is_alphabetic());
    // What is made is no subject.
    let subjects = words.windows(2).filter(|pair| is_scope(pair[1]) && pair[0] != "-o");
    subjects.map(|pair| pair[1].trim_start_matches("./").to_owned()).collect()
}

/// The endings of scripts: what is named `test-mail.js` sends a mail, rather than test anything.
const SCRIPTS: &[&str] = &[".cjs", ".js", ".mjs", ".mts", ".php", ".ps1", ".py", ".rb", ".sh", ".ts", ".tsx"];

/// Checks whether a word is one of `tasks` of Gradle, of a project or of a kind: `:app:testDebugUnitTest`.
fn is_of_gradle(tasks: &[&str], word: &str) -> bool {
    let task = word.rsplit(':').next().unwrap_or(word);
    let is_part = |rest: &str| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_uppercase());
    tasks.iter().any(|name| task.strip_prefix(name).is_some_and(is_part))
}

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

/// Checks whether a command builds all: `make` without a goal of its own, `pio run`.
fn builds_all(runner: &str, told: &[&str]) -> bool {
    let is_option = |word: &str| word.starts_with('-') || word.contains('=') || word.parse::<u32>().is_ok();
    // `-C DIR`, `-f FILE`.
    let is_value = |at: usize| at > 0 && matches!(told[at - 1], "-C" | "-f");
    let goals = told.iter().enumerate().filter(|(at, word)| !is_option(word) && !is_value(*at));
    let mut goals = goals.map(|(_, goal)| goal);
    match runner {
        "make" | "ninja" => goals.all(|goal| *goal == "all"),
        "pio" | "platformio" => goals.next() == Some(&"run"),
        _ => false,
    }
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
            // What reads or builds one thing shows nothing else.
            ("gcc -o mill mill.c", "gcc -c mill.c", "mill.c:3:1: error: no ;", true),
            ("gcc -o mill mill.c", "gcc -o mill sail.c", "sail.c:3:1: error: no ;", false),
            ("gcc -o mill mill.c", "make", "sail.c:3:1: error: no ;", false),
            ("make", "gcc -c mill.c", "mill.c:3:1: error: no ;", true),
            ("python -m py_compile a.py", "python -m pytest", "ImportError: no module", false),
            ("docker build .", "npm run build", "1 error", false),
            ("terraform validate", "cargo build", "error: no such crate", false),
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
            ("npm ci; pre-commit install; npx cypress install", &[]),
            (
                "./gradlew build -x test; ./gradlew :app:testClasses",
                &[("./gradlew build -x test", false), ("./gradlew :app:testClasses", false)],
            ),
            ("mvn test-compile; go test -c .", &[("mvn test-compile", false), ("go test -c .", false)]),
            ("mvn test -DskipTests", &[("mvn test -DskipTests", false)]),
            ("npm run ci", &[("npm run ci", false)]),
            ("pytest --version; cargo test --help; cargo test --no-run", &[]),
            (
                "npx vue-tsc --noEmit && npx cypress run",
                &[("npx vue-tsc --noEmit", false), ("npx cypress run", true)],
            ),
            ("pio run -e test && pio test", &[("pio run -e test", false), ("pio test", true)]),
            ("pio run -t upload; idf.py flash monitor; arduino-cli compile --upload x", &[]),
            ("./gradlew :app:testDebugUnitTest", &[("./gradlew :app:testDebugUnitTest", true)]),
            ("./gradlew assembleDebug; ./gradlew installDebug", &[("./gradlew assembleDebug", false)]),
            ("gcc -o test test.c && ./test", &[("gcc -o test test.c", false)]),
            (
                "arm-none-eabi-gcc -c a.c; clang-18 b.c",
                &[("arm-none-eabi-gcc -c a.c", false), ("clang-18 b.c", false)],
            ),
            ("gcc --version; javac -version; gcc -M a.c", &[]),
            ("php -l a.php; bash -n a.sh; bash a.sh -n", &[("php -l a.php", false), ("bash -n a.sh", false)]),
            ("docker build -t test .", &[("docker build -t test .", false)]),
            ("docker compose up --build; docker stop build; docker push test", &[]),
            ("nix flake check; nix flake update", &[("nix flake check", false)]),
            ("kubectl apply -f a.yml; kubectl apply -f a.yml --dry-run=client", &[]),
            ("terraform apply; wrangler deploy; next dev; cypress open; dotnet run", &[]),
            (
                "cargo build --tests; zig build test",
                &[("cargo build --tests", false), ("zig build test", true)],
            ),
            ("Rscript -e 'devtools::test()'; Rscript test.R", &[("Rscript -e 'devtools::test()'", true)]),
            ("npm view jest; npm create vite test; cargo new test", &[]),
        ] {
            let checks = Checks::of(&Walk::of(command, None));
            let each = checks.passed().iter();
            let each: Vec<_> = each.map(|check| (check.command.as_str(), check.is_test)).collect();
            assert_eq!(each, expected, "{command}");
        }
        for (command, expected) in [
            ("g++ -o mill mill.cpp && ./mill", true),
            ("g++ -o mill mill.cpp 2>&1 | head -5; ls", false),
            ("mkdir -p out && g++ -o out/mill mill.cpp", false),
            ("make && ./mill", false),
        ] {
            assert_eq!(Checks::of(&Walk::of(command, None)).runs_after(), expected, "{command}");
        }
        let checks = Checks::of(&Walk::of("npm test && npm run lint", None));
        for (names_test, expected) in [(false, "npm test && npm run lint"), (true, "npm test")] {
            let failed = checks.not_passed(|| names_test);
            assert_eq!(failed.iter().map(|check| check.command.as_str()).collect::<Vec<_>>(), [expected]);
        }
    }
}
