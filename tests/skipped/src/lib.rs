//! Checks that tests left out because something was not at hand, such as recorded sessions or a database server.
//!
//! The test harness has no word for such a test: it passes, and what it prints is not shown. So it calls [`skip`], which
//! notes the check in a file beside the test's executable. The test `summary` of this package, which `cargo test --workspace`
//! runs last, reads these files and prints one line.
//!
//! Notes are kept by run of the suite: all test executables of a run are children of the same process, cargo. So notes of an
//! earlier run never count, even where that was aborted.
#![allow(clippy::disallowed_methods, reason = "notes are files")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Notes that the running test leaves out `check` for `reason`, such as "no Postgres". In one test, a check counts once.
///
/// # Panics
/// If the note cannot be written: otherwise nobody would learn of the check.
pub fn skip(reason: &str, check: &str) {
    eprintln!("skipped: {check} ({reason})");
    let notes = Notes::of_this_run();
    notes.add(reason, &format!("{}: {check}", test())).unwrap_or_else(|error| {
        panic!("cannot note in {} that a check was skipped: {error}", notes.folder.display())
    });
}

/// Returns the name of the running test. With `--test-threads=1` the harness does not give it, so each call counts.
fn test() -> String {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    match std::thread::current().name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => format!("call {}", CALLS.fetch_add(1, Ordering::Relaxed)),
    }
}

/// The notes of one run of the suite.
#[derive(Debug)]
pub struct Notes {
    folder: PathBuf,
}

impl Notes {
    /// The notes of the run that this process belongs to.
    ///
    /// # Panics
    /// If the system does not say where the executable is.
    pub fn of_this_run() -> Self {
        let executable = std::env::current_exe().expect("the path of this executable is known");
        // target/debug/deps/NAME-HASH
        let build = executable.ancestors().nth(2).unwrap_or(&executable);
        Self { folder: build.join("skipped_tests").join(run_id()) }
    }

    fn add(&self, reason: &str, check: &str) -> std::io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let file = self.folder.join(std::process::id().to_string());
        let mut file = fs::OpenOptions::new().create(true).append(true).open(file)?;
        // One write, as tests run in parallel.
        file.write_all(format!("{reason}\t{check}\n").as_bytes())
    }

    /// Returns the line that says how many checks were left out and why, and drops the notes.
    ///
    /// # Errors
    /// If the notes cannot be read.
    pub fn sum_up(&self) -> std::io::Result<String> {
        let mut checks = BTreeSet::new();
        if self.folder.exists() {
            for entry in fs::read_dir(&self.folder)? {
                let text = fs::read_to_string(entry?.path())?;
                let lines = text.lines().filter_map(|line| line.split_once('\t'));
                checks.extend(lines.map(|(reason, check)| (reason.to_owned(), check.to_owned())));
            }
        }
        self.drop_old();
        Ok(summary(&checks))
    }

    /// Drops these notes and those of runs that are over. What cannot be removed is only litter.
    fn drop_old(&self) {
        let _ = fs::remove_dir_all(&self.folder);
        let runs = self.folder.parent().and_then(|folder| fs::read_dir(folder).ok());
        for run in runs.into_iter().flatten().flatten() {
            let name = run.file_name().to_string_lossy().into_owned();
            let process = name.split('-').next().unwrap_or_default();
            let is_over = Path::new("/proc/self").exists() && !Path::new("/proc").join(process).exists();
            if is_over {
                let _ = fs::remove_dir_all(run.path());
            }
        }
    }
}

/// Returns the last line of the suite for the reasons and checks.
fn summary(checks: &BTreeSet<(String, String)>) -> String {
    if checks.is_empty() {
        return "skipped: nothing".to_owned();
    }
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for (reason, _) in checks {
        *reasons.entry(reason).or_default() += 1;
    }
    let reasons: Vec<String> = reasons.iter().map(|(reason, n)| format!("{reason}: {n}")).collect();
    let plural = if checks.len() == 1 { "check" } else { "checks" };
    format!("skipped: {} {plural} ({})", checks.len(), reasons.join(", "))
}

/// Returns the name of this run: the process that started this one and, since numbers are used again, when it began.
fn run_id() -> String {
    #[cfg(unix)]
    {
        let parent = std::os::unix::process::parent_id();
        let stat = fs::read_to_string(format!("/proc/{parent}/stat")).unwrap_or_default();
        // The second field, a name in parentheses, may hold anything; the 22nd is the start time.
        let began = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(19)).unwrap_or_default();
        format!("{parent}-{began}")
    }
    #[cfg(not(unix))]
    {
        "run".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn checks_are_counted_once_by_reason_and_only_those_of_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let notes = |run: &str| Notes { folder: folder.path().join(run) };
        notes("999999998-1").add("no server", "of an aborted run").unwrap();
        for (checks, expected) in [
            (&[][..], "skipped: nothing"),
            (&[("no server", "a")], "skipped: 1 check (no server: 1)"),
            (
                &[("no server", "a"), ("no sessions", "a"), ("no server", "b"), ("no server", "a")],
                "skipped: 3 checks (no server: 2, no sessions: 1)",
            ),
        ] {
            let run = notes("999999999-2");
            for (reason, check) in checks {
                run.add(reason, check).unwrap();
            }
            assert_eq!(run.sum_up().unwrap(), expected);
            assert!(!run.folder.exists());
        }
    }

    #[test]
    fn a_run_is_known_by_the_process_that_started_it() {
        let expected = run_id();
        assert!(!expected.is_empty() && !expected.starts_with('-'), "{expected}");
        assert_eq!(run_id(), expected);
    }
}
