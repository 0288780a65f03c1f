//! The entries below a folder of the workspace, in order, with a mark on those that git ignores.
//!
//! The walk goes from folder to folder by the workspace's own handle, follows no link, and reads the rules in
//! the same way: a folder that is replaced by a link during the walk leads nowhere else.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, DirEntry, File, FileType};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::Stop;
use super::workspace::{Workspace, open_entry, open_regular};

/// The most entries that are visited.
const MOST_ENTRIES: usize = 200_000;
/// The deepest folder below the start.
const DEEPEST: usize = 64;
/// The most bytes of rules, in a file and in all of them; the rest is not used. Compiling rules costs far
/// more than reading them.
const MOST_RULES: u64 = 64 * 1_024;
const MOST_RULES_IN_ALL: u64 = 1_024 * 1_024;
/// Files with rules about paths that are ignored; a later one's rules win.
const RULES: &[&str] = &[".gitignore", ".ignore"];
/// Those of them that git reads.
const RULES_OF_GIT: &[&str] = &[".gitignore"];

/// An entry below a folder.
pub(crate) struct Visit<'a> {
    /// Its path, relative to the workspace.
    pub(crate) path: &'a Path,
    /// Its depth below the start, from 1.
    pub(super) depth: usize,
    entry: &'a DirEntry,
    /// The folder that contains it.
    dir: &'a Dir,
    pub(crate) kind: FileType,
    /// True if git ignores it, or it is git's own.
    pub(crate) is_ignored: bool,
}

impl Visit<'_> {
    /// Opens the file through the folder that contains it.
    pub(super) fn open(&self) -> io::Result<File> {
        open_entry(self.dir, &self.entry.file_name())
    }
}

/// The next step after an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Continue, and enter it if it is a folder.
    Into,
    /// Continue without entering it.
    Past,
    /// End the walk.
    End,
}

/// The end of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkEnd {
    /// Every entry was visited.
    Whole,
    /// The walk ended early.
    Early,
}

/// Visits what is below `start`, sorted by name, each folder before its content.
///
/// # Errors
/// Fails if `start` is not a folder that can be read; unreadable folders below it are skipped.
pub(super) fn walk(
    workspace: &Workspace,
    start: &Path,
    stop: &Stop,
    visit: &mut dyn FnMut(&Visit<'_>) -> Step,
) -> io::Result<WalkEnd> {
    let real = workspace.dir().canonicalize(start)?;
    let mut walker = Walker::new(RULES, stop, visit);
    let mut folder = PathBuf::new();
    walker.learn_root(workspace.dir());
    for part in real.iter().filter(|part| *part != ".") {
        folder.push(part);
        walker.learn(&workspace.dir().open_dir(&folder)?, &folder, RULES);
    }
    let dir =
        workspace.dir().open_dir(if folder.as_os_str().is_empty() { Path::new(".") } else { &folder })?;
    walker.walk(&dir, &folder)
}

/// Visits what is in `dir`, which is a git repository, as [`walk`] does. What it ignores is what git ignores.
///
/// # Errors
/// Fails if the folder cannot be read; unreadable folders below it are skipped.
pub(crate) fn walk_repository(dir: &Dir, visit: &mut dyn FnMut(&Visit<'_>) -> Step) -> io::Result<WalkEnd> {
    let stop = Stop::default();
    let mut walker = Walker::new(RULES_OF_GIT, &stop, visit);
    walker.learn_root(dir);
    walker.walk(dir, Path::new(""))
}

struct Walker<'a> {
    /// The names of files with rules.
    names: &'static [&'static str],
    /// The rules of each folder from the root that has some.
    rules: Vec<Gitignore>,
    n_rule_bytes_left: u64,
    stop: &'a Stop,
    n_seen: usize,
    /// True if a folder was too deep to enter.
    has_passed_over: bool,
    visit: &'a mut dyn FnMut(&Visit<'_>) -> Step,
}

impl<'a> Walker<'a> {
    fn new(
        names: &'static [&'static str],
        stop: &'a Stop,
        visit: &'a mut dyn FnMut(&Visit<'_>) -> Step,
    ) -> Self {
        Self {
            names,
            rules: Vec::new(),
            n_rule_bytes_left: MOST_RULES_IN_ALL,
            stop,
            n_seen: 0,
            has_passed_over: false,
            visit,
        }
    }

    /// Adds the rules of the root. Those of the repository come first: every other rule is stronger.
    fn learn_root(&mut self, root: &Dir) {
        self.learn(root, Path::new(""), &[".git/info/exclude"]);
        self.learn(root, Path::new(""), self.names);
    }

    fn walk(&mut self, dir: &Dir, folder: &Path) -> io::Result<WalkEnd> {
        match self.below(dir, folder, 1)? {
            WalkEnd::Whole if self.has_passed_over => Ok(WalkEnd::Early),
            ended => Ok(ended),
        }
    }

    fn below(&mut self, dir: &Dir, folder: &Path, depth: usize) -> io::Result<WalkEnd> {
        let n_left = MOST_ENTRIES.saturating_sub(self.n_seen);
        let found = dir.entries()?.filter_map(Result::ok).take_while(|_| !self.stop.is_set());
        // One more than is looked at tells that there are more.
        let mut entries: Vec<DirEntry> = found.take(n_left + 1).collect();
        entries.sort_by_cached_key(DirEntry::file_name);
        for entry in entries {
            self.n_seen += 1;
            if self.n_seen > MOST_ENTRIES || self.stop.is_set() {
                return Ok(WalkEnd::Early);
            }
            let Ok(kind) = entry.file_type() else { continue };
            let path = folder.join(entry.file_name());
            let is_ignored = self.is_ignored(&path, kind.is_dir());
            let step = (self.visit)(&Visit { path: &path, depth, entry: &entry, dir, kind, is_ignored });
            match step {
                Step::End => return Ok(WalkEnd::Early),
                Step::Past => continue,
                Step::Into if !kind.is_dir() => continue,
                Step::Into if depth >= DEEPEST => {
                    self.has_passed_over = true;
                    continue;
                }
                Step::Into => {}
            }
            // Opened by the folder that it stands in: what has become a link since leads nowhere outside
            // that.
            let Ok(inner) = entry.open_dir() else { continue };
            let n_rules = self.rules.len();
            self.learn(&inner, &path, self.names);
            let ended = self.below(&inner, &path, depth + 1);
            self.rules.truncate(n_rules);
            if matches!(ended, Ok(WalkEnd::Early)) {
                return ended;
            }
        }
        Ok(WalkEnd::Whole)
    }

    /// Adds the rules of the files `names` in `folder`, which is open as `dir`.
    fn learn(&mut self, dir: &Dir, folder: &Path, names: &[&str]) {
        let root = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let mut builder = GitignoreBuilder::new(root);
        for name in names {
            let Some(text) = text_of(dir, name, MOST_RULES.min(self.n_rule_bytes_left)) else { continue };
            self.n_rule_bytes_left = self.n_rule_bytes_left.saturating_sub(text.len() as u64);
            for line in text.strip_prefix('\u{feff}').unwrap_or(&text).lines() {
                // An invalid pattern ignores nothing, as with git.
                let _ = builder.add_line(None, line);
            }
        }
        self.rules.extend(builder.build().ok().filter(|rules| !rules.is_empty()));
    }

    fn is_ignored(&self, path: &Path, is_dir: bool) -> bool {
        if path.file_name().is_some_and(|name| name == ".git") {
            return true;
        }
        let decided = self.rules.iter().rev().map(|rules| rules.matched(path, is_dir));
        decided
            .into_iter()
            .find(|found| !found.is_none())
            .is_some_and(|found| matches!(found, Match::Ignore(_)))
    }
}

/// Returns the first `most` bytes of a file of rules; `None` if there is none.
fn text_of(dir: &Dir, name: &str, most: u64) -> Option<String> {
    let mut bytes = Vec::new();
    open_regular(dir, Path::new(name)).ok()?.take(most).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::tools::fixture::Fixture;

    fn walk_all(fixture: &Fixture, start: &str) -> Vec<String> {
        let workspace = Workspace::open(&fixture.root()).unwrap();
        let mut seen = Vec::new();
        let ended = walk(&workspace, Path::new(start), &Stop::default(), &mut |found| {
            if found.is_ignored {
                return Step::Past;
            }
            seen.push(found.path.display().to_string());
            Step::Into
        });
        assert_eq!(ended.unwrap(), WalkEnd::Whole);
        seen
    }

    #[test]
    fn rules_hold_where_they_stand_and_the_nearest_wins() {
        let fixture = Fixture::new(&[
            (".git/info/exclude", b"private\n"),
            (".gitignore", b"*.log\n/target/\n# a comment\n[unclosed\n"),
            ("a.log", b""),
            ("a/.gitignore", b"!keep.log\nlocal\n"),
            ("a/keep.log", b""),
            ("a/other.log", b""),
            ("a/local", b""),
            ("b/local", b""),
            ("b/target/in", b""),
            ("private", b""),
            ("target/x", b""),
        ]);
        let expected =
            [".gitignore", "a", "a/.gitignore", "a/keep.log", "b", "b/local", "b/target", "b/target/in"];
        assert_eq!(walk_all(&fixture, "."), expected);
        assert_eq!(walk_all(&fixture, "a"), ["a/.gitignore", "a/keep.log"]);
        // What is asked for by name is shown.
        assert_eq!(walk_all(&fixture, "target"), ["target/x"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_seen_and_not_followed() {
        let fixture = Fixture::new(&[("a/in", b"")]);
        std::os::unix::fs::symlink(fixture.folder.path(), fixture.root().join("up")).unwrap();
        std::os::unix::fs::symlink(".", fixture.root().join("round")).unwrap();
        assert_eq!(walk_all(&fixture, "."), ["a", "a/in", "round", "up"]);
        let workspace = Workspace::open(&fixture.root()).unwrap();
        for outside in ["up", "..", "/"] {
            let walked = walk(&workspace, Path::new(outside), &Stop::default(), &mut |_| Step::Into);
            assert!(walked.is_err(), "{outside}");
        }
    }

    #[test]
    fn a_walk_that_nobody_waits_for_stops() {
        let fixture = Fixture::new(&[("a", b""), ("b", b"")]);
        let workspace = Workspace::open(&fixture.root()).unwrap();
        let stop = Stop::default();
        let mut n_seen = 0;
        let ended = walk(&workspace, Path::new("."), &stop, &mut |_| {
            n_seen += 1;
            stop.set();
            Step::Into
        });
        assert_eq!((ended.unwrap(), n_seen), (WalkEnd::Early, 1));
    }
}
