//! The files that the work changed.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::known_files::{KnownFiles, below_form, of_form};
use super::path_form::named_by_form;
use super::root::{Root, below, in_folder, is_short, only, out_of_folder, whole_path};
use crate::compaction::findings::{ALL, FileState, ShellChange, Touch, is_absolute, join};

/// The last state of a file, and when it was last touched.
type Touched = (FileState, usize);

/// The files that were changed, by their paths.
#[derive(Debug, Default)]
pub(super) struct WorkFiles {
    root: Root,
    changed: BTreeMap<String, Touched>,
    /// The files that existed before they were written, and all that were changed.
    known: KnownFiles,
    /// Each file as it was told first.
    told: HashMap<String, String>,
    /// The changes that were put aside, the latest last.
    aside: Vec<Vec<(String, Touched)>>,
    /// The files that will be committed next, all files as the last commit had them, and of each commit the
    /// files that it changed, as they were before it, the latest last.
    staged: HashSet<String>,
    committed: HashMap<String, Touched>,
    commits: Vec<Vec<(String, Option<Touched>)>>,
    n_touches: usize,
}

impl WorkFiles {
    pub(super) fn new(root: Root) -> Self {
        Self { root, ..Self::default() }
    }

    pub(super) const fn root(&self) -> &Root {
        &self.root
    }

    /// Returns the files with their states, in the order in which they were last touched, after those that
    /// were made and removed again. The record's paths are below `folder`.
    pub(super) fn into_list(self, folder: Option<&str>) -> Vec<(String, FileState)> {
        let Self { changed, told, root, .. } = self;
        let mut files: Vec<_> = changed.into_iter().collect();
        files.sort_unstable_by(|(one, (_, at)), (other, (_, later))| (at, one).cmp(&(later, other)));
        let listed = |path: &String| root.listed(told.get(path).unwrap_or(path), path, folder);
        files.iter().map(|(path, (state, _))| (listed(path), *state)).collect()
    }

    /// Drops the outputs of builds that were deleted, if no words name them: no work is gone.
    pub(super) fn drop_outputs(&mut self, is_named: impl Fn(&str) -> bool) {
        let is_work = |path: &str| output_in(path).is_none_or(&is_named);
        self.changed.retain(|path, (state, _)| *state != FileState::Deleted || is_work(path));
    }

    /// Takes a file of an earlier record.
    pub(super) fn take(&mut self, told: &str, state: FileState) {
        let (name, folder) = out_of_folder(told);
        let folder = folder.map(|folder| whole_path(self.root.base.as_deref(), folder));
        let path = self.note(name, folder.as_deref());
        self.set(path, state);
    }

    /// Notes what a call does to a file; `says_it_was` is true if its result says that there was one.
    pub(super) fn touch(&mut self, name: &str, folder: Option<&str>, touch: Touch, says_it_was: bool) {
        let path = self.note(name, folder);
        match touch {
            Touch::Leaves(state) => self.set(path, state),
            // What was removed may have been made here.
            Touch::Writes if matches!(self.changed.get(&path), Some((FileState::Deleted, _))) => {
                self.set(path, FileState::Created);
            }
            Touch::Writes if says_it_was || self.known.contains(&path) => self.set(path, FileState::Modified),
            Touch::Writes => self.set(path, FileState::Created),
            Touch::Looks => self.known.insert(&path),
        }
    }

    /// Notes a change of the file that a result names, perhaps by a longer path than a call did.
    pub(super) fn touch_named(&mut self, name: &str, touch: Touch) {
        let whole = self.root.path(name, None);
        let known = only(self.known.of_name(&whole).filter(|known| is_end(&whole, known))).cloned();
        self.touch(known.as_deref().unwrap_or(name), None, touch, false);
    }

    /// Notes what a command does to files, which was answered `result`.
    pub(super) fn take_change(&mut self, change: &ShellChange, folder: Option<&str>, result: &str) {
        match change {
            ShellChange::Removes(removed) => self.remove(removed, folder, false),
            ShellChange::Deletes(removed) => self.remove(removed, folder, true),
            ShellChange::Cleans => {
                for name in result.lines().filter_map(|line| line.strip_prefix("Removing ")) {
                    for path in self.changed_at(name.trim_end_matches('/'), folder) {
                        self.set(path, FileState::Deleted);
                    }
                }
            }
            ShellChange::Moves { from, to } => self.take_move(from, to, folder),
            ShellChange::Copies { from, to } => self.take_copy(from, to, folder),
            ShellChange::Edits(name) => {
                let path = self.known_at(name, folder);
                self.set(path, FileState::Modified);
            }
            ShellChange::Writes(name) => {
                let path = self.known_at(name, folder);
                let is_known = self.known.contains(&path);
                self.set(path, if is_known { FileState::Modified } else { FileState::Created });
            }
            ShellChange::Outputs(name) => {
                let path = self.known_at(name, folder);
                // What was removed is there again; what was made here before that is a new one.
                if let Some((FileState::Deleted, touched)) = self.changed.get(&path) {
                    let was_made_here = *touched == 0;
                    self.set(path, if was_made_here { FileState::Created } else { FileState::Modified });
                }
            }
            // A new file was never committed.
            ShellChange::Restores(restored) => drop(self.take_back(restored, folder, false)),
            ShellChange::Stashes { .. } if result.contains(NOTHING_TO_STASH) => {}
            ShellChange::Stashes { path, new_ones } => {
                let back = self.take_back(path, folder, *new_ones);
                self.aside.push(back);
            }
            ShellChange::Unstashes { nth, stay } => {
                if let Some(at) = self.nth_aside(*nth) {
                    self.changed.extend(self.aside[at].iter().cloned());
                    if !*stay {
                        self.aside.remove(at);
                    }
                }
            }
            ShellChange::DropsStash { nth } => {
                if let Some(at) = self.nth_aside(*nth) {
                    self.aside.remove(at);
                }
            }
            ShellChange::Stages(name) if self.root.path(name, folder) == ALL => {
                self.staged.extend(self.changed.keys().cloned());
            }
            ShellChange::Stages(name) => {
                let staged = self.changed_at(name, folder);
                self.staged.extend(staged);
            }
            ShellChange::Unstages(name) if self.root.path(name, folder) == ALL => self.staged.clear(),
            ShellChange::Unstages(name) => {
                for path in self.changed_at(name, folder) {
                    self.staged.remove(&path);
                }
            }
            ShellChange::Commits { all } => self.commit(*all),
            ShellChange::Resets { n_commits } => self.reset(*n_commits),
        }
    }

    /// Returns the index of the changes that were put aside, so many before the last ones.
    const fn nth_aside(&self, nth: usize) -> Option<usize> {
        self.aside.len().checked_sub(nth + 1)
    }

    /// Notes that what was staged is committed, or all: so, too, if it was staged in a way that is not known.
    fn commit(&mut self, all: bool) {
        let is_in = |path: &String| all || self.staged.is_empty() || self.staged.contains(path);
        let is_new = |path: &String, state: &Touched| self.committed.get(path) != Some(state) && is_in(path);
        let new = self.changed.iter().filter(|(path, state)| is_new(path, state));
        let new: Vec<(String, Touched)> = new.map(|(path, state)| (path.clone(), *state)).collect();
        let replaced = new.into_iter().map(|(path, state)| {
            let before = self.committed.insert(path.clone(), state);
            (path, before)
        });
        self.commits.push(replaced.collect());
        self.staged.clear();
    }

    /// Notes that files are as so many commits before the last one had them.
    fn reset(&mut self, n_commits: usize) {
        let Self { changed, committed, commits, .. } = self;
        // A new file that was never committed stays.
        changed.retain(|path, (state, _)| *state == FileState::Created && !committed.contains_key(path));
        let stay = commits.len().saturating_sub(n_commits);
        for (path, before) in commits.drain(stay..).rev().flatten() {
            match before {
                Some(before) => drop(committed.insert(path, before)),
                None => drop(committed.remove(&path)),
            }
        }
        changed.extend(committed.iter().map(|(path, state)| (path.clone(), *state)));
    }

    /// Removes the changes of a file or a folder, and returns them: of new files as well if that is meant, or
    /// if one of them is named.
    fn take_back(&mut self, name: &str, folder: Option<&str>, new_ones: bool) -> Vec<(String, Touched)> {
        let is_all = self.root.path(name, folder) == ALL;
        let paths =
            if is_all { self.changed.keys().cloned().collect() } else { self.changed_at(name, folder) };
        let is_file = paths.len() == 1 && !is_all;
        let stays = |state: FileState| state == FileState::Created && !new_ones && !is_file;
        let back = paths.into_iter().filter_map(|path| {
            let (state, touched) = *self.changed.get(&path)?;
            (!stays(state)).then_some((path, (state, touched)))
        });
        let back: Vec<_> = back.collect();
        for (path, _) in &back {
            match self.committed.get(path) {
                Some(committed) => drop(self.changed.insert(path.clone(), *committed)),
                None => drop(self.changed.remove(path)),
            }
        }
        back
    }

    /// Notes that a file or a folder is removed. One that nothing changed or looked at is told only if it
    /// `was_work`: others are temporary files, and what a build wrote.
    fn remove(&mut self, removed: &str, folder: Option<&str>, was_work: bool) {
        let mut paths = self.changed_at(removed, folder);
        if paths.is_empty() && !removed.contains('*') {
            let path = self.known_at(removed, folder);
            paths.extend(Some(path).filter(|path| was_work || self.known.contains(path)));
        }
        for path in paths {
            self.set(path, FileState::Deleted);
        }
    }

    /// Notes that changed files have copies in another folder. A folder may be copied into itself, which
    /// makes more files and longer paths each time: the most that a work has are enough.
    fn take_copy(&mut self, from: &str, to: &str, folder: Option<&str>) {
        let copied = self.root.path(from, folder);
        let into = Some(join(folder, to)).filter(|into| !into.is_empty());
        let most = MOST_COPIED.saturating_sub(self.changed.len());
        for path in self.changed_with(from, folder).into_iter().filter(|path| is_short(path)).take(most) {
            if !matches!(self.changed.get(&path), Some((FileState::Deleted, _))) {
                let new = self.note(rest_below(&path, &copied), into.as_deref());
                self.set(new, FileState::Created);
            }
        }
    }

    /// Notes that changed files have another name, alone or with their folder.
    fn take_move(&mut self, from: &str, to: &str, folder: Option<&str>) {
        let moved = self.root.path(from, folder);
        // A folder that is there gets another one into it.
        let into = self.root.path(to, folder);
        let is_there = self.known.is_any_in(&into);
        let name = from.rsplit('/').next().filter(|_| is_there);
        let changed = self.changed_with(from, folder);
        let place = Some(join(folder, to)).filter(|place| !place.is_empty());
        // What takes the place of a file is a new form of it, made beside it.
        if changed.is_empty() && !from.contains('*') && (self.known.contains(&into) || is_beside(from, to)) {
            let into = self.known_at(to, folder);
            self.set(into, FileState::Modified);
        }
        for path in changed {
            match self.changed.get(&path) {
                // It is no longer there.
                Some((FileState::Deleted, _)) => continue,
                // A file that was made here was never known by its first name.
                Some((FileState::Created, _)) => drop(self.changed.remove(&path)),
                _ => self.set(path.clone(), FileState::Deleted),
            }
            // What stands below the folder that was moved.
            let new = match (rest_below(&path, &moved), name) {
                (rest, _) if from.contains('*') => self.note(rest, place.as_deref()),
                ("", _) => self.known_at(to, folder),
                (rest, None) => self.note(rest, place.as_deref()),
                (rest, Some(name)) => self.note(&format!("{name}/{rest}"), place.as_deref()),
            };
            self.set(new, FileState::Created);
        }
    }

    /// Returns the path of a file that is named so in a folder, and remembers how it was told.
    fn note(&mut self, name: &str, folder: Option<&str>) -> String {
        let path = self.root.path(name, folder);
        if !self.told.contains_key(&path) {
            let folder = self.root.place(folder).filter(|_| !is_absolute(name));
            self.told.insert(path.clone(), in_folder(name, folder.as_deref()));
        }
        path
    }

    /// Returns the known file that a command names, which may be relative to where it ran, or that name.
    fn known_at(&mut self, name: &str, folder: Option<&str>) -> String {
        let path = self.root.path(name, folder);
        let is_it = |known: &&String| **known == path || self.may_be_meant(known) && is_end(known, &path);
        let known = only(self.known.of_name(&path).filter(is_it)).cloned();
        known.unwrap_or_else(|| self.note(name, folder))
    }

    /// Checks whether a part of a path may mean that file: if the root is known, a part that is relative to
    /// it names no file elsewhere.
    fn may_be_meant(&self, path: &str) -> bool {
        self.root.root.is_none() || !is_absolute(path)
    }

    /// Returns the changed files of a name, or in the folder of that name. Others are no part of the work:
    /// the output of a build, temporary files. The name may be relative to where the command ran.
    fn changed_at(&self, name: &str, folder: Option<&str>) -> Vec<String> {
        let path = self.root.path(name, folder);
        let path = path.as_str();
        let mut files = match path.contains('*') {
            true => of_form(&self.changed, path),
            false => self.known.in_folder(&self.changed, path),
        };
        if files.is_empty() && !is_absolute(path) && !path.contains('*') {
            // Of two files of that name, it may be either.
            let is_changed = |known: &&String| self.changed.contains_key(*known);
            let ends_so = |known: &&String| self.may_be_meant(known) && is_end(known, path);
            let ends_so = self.known.of_name(path).filter(ends_so).filter(is_changed);
            let ends_so: Vec<String> = ends_so.cloned().collect();
            files = if ends_so.len() == 1 { ends_so } else { self.changed_below_one(path) };
        }
        // In an order that is always the same.
        files.sort_unstable();
        files
    }

    /// Returns the changed files of a name, or in the folder of that name. Of a name with stars, folders have
    /// all that is in them.
    fn changed_with(&self, name: &str, folder: Option<&str>) -> Vec<String> {
        if !name.contains('*') {
            return self.changed_at(name, folder);
        }
        let form = self.root.path(name, folder);
        below_form(&self.changed, &form)
    }

    /// Returns the changed files in a folder of that name, wherever it is; none if there are several.
    fn changed_below_one(&self, name: &str) -> Vec<String> {
        if !self.known.may_be_below(name) {
            return Vec::new();
        }
        let part = format!("/{name}/");
        let folder_of = |changed: &str| changed.find(&part);
        let is_below = |changed: &&String| self.may_be_meant(changed) && folder_of(changed).is_some();
        let below: Vec<&String> = self.changed.keys().filter(is_below).collect();
        let folders: HashSet<_> =
            below.iter().map(|changed| &changed[..folder_of(changed).unwrap_or(0)]).collect();
        if folders.len() == 1 { below.into_iter().cloned().collect() } else { Vec::new() }
    }

    fn set(&mut self, path: String, state: FileState) {
        let state = match (self.changed.get(&path), state) {
            // A file that was made here and then changed is still a new one.
            (Some((FileState::Created, _)), FileState::Modified) => FileState::Created,
            (_, state) => state,
        };
        self.n_touches += 1;
        // What was made and removed again is worth least.
        let is_past = state == FileState::Deleted
            && matches!(self.changed.get(&path), Some((FileState::Created, _) | (FileState::Deleted, 0)));
        let touched = if is_past { 0 } else { self.n_touches };
        self.known.insert(&path);
        self.changed.insert(path, (state, touched));
    }
}

/// The most changed files to which copies are added.
const MOST_COPIED: usize = 2_000;

/// Folders that builds write.
const OUTPUTS: [&str; 10] = [
    ".next/",
    ".nuxt/",
    ".svelte-kit/",
    ".turbo/",
    "__pycache__/",
    "node_modules/",
    "target/classes/",
    "target/debug/",
    "target/doc/",
    "target/release/",
];

/// Returns the part of a path from the folder on that a build writes; `None` if it is in no such folder.
pub(super) fn output_in(path: &str) -> Option<&str> {
    let begins = |at: usize| OUTPUTS.iter().any(|output| path[at..].starts_with(output));
    let mut starts = std::iter::once(0).chain(path.match_indices('/').map(|(at, _)| at + 1));
    starts.find(|at| begins(*at)).map(|at| &path[at..])
}

/// Iterates over the outputs of builds that a text names, each from the folder on that a build writes.
pub(super) fn outputs_named(text: &str) -> impl Iterator<Item = &str> {
    let is_between = |c: char| c.is_whitespace() || "\"'`(),:;<>|".contains(c);
    text.split(is_between).filter_map(|word| output_in(word.trim_end_matches(['.', '!', '?'])))
}

/// The words of git if there is nothing to put aside.
const NOTHING_TO_STASH: &str = "No local changes to save";

/// Checks whether a file is in the same folder as another, and has its name with an ending, as a new form of
/// it has until it takes its place.
fn is_beside(name: &str, other: &str) -> bool {
    name.strip_prefix(other)
        .is_some_and(|ending| ending.starts_with(['.', '_', '-', '~']) && !ending.contains('/'))
}

/// Returns what of a path stands below a folder, which may be named by its last names only; empty if it is
/// that. Of a folder with stars in its name, that name stays.
fn rest_below<'a>(path: &'a str, folder: &str) -> &'a str {
    if folder.contains('*') {
        return named_by_form(path, folder).unwrap_or_default();
    }
    let within = || path.rfind(&format!("/{folder}/")).map(|at| &path[at + folder.len() + 2..]);
    below(path, folder).or_else(within).unwrap_or_default()
}

/// Checks whether a path ends in the names of another one, or is that.
pub(super) fn is_end(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|folder| folder.is_empty() || folder.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::FileState::{Created, Deleted, Modified};
    use super::*;

    #[test]
    fn a_file_is_listed_with_where_it_is() {
        let root = Root { root: Some("/w".to_owned()), base: Some("/w".to_owned()), start: None };
        for (names, expected) in [
            (vec![("/w/a.rs", None), ("b.rs", None)], vec!["/w/a.rs", "/w/b.rs"]),
            (vec![("/w/a.rs", None), ("b.rs", Some("/w/api"))], vec!["/w/a.rs", "b.rs (in api)"]),
            (vec![("b.rs", Some("/w/api")), ("/w/api/b.rs", None)], vec!["b.rs (in api)"]),
            (vec![("b.rs", None), ("c.rs", Some("/v"))], vec!["/w/b.rs", "c.rs (in /v)"]),
        ] {
            let mut files = WorkFiles::new(root.clone());
            for (name, folder) in names {
                files.touch(name, folder, Touch::Writes, false);
            }
            let told: Vec<String> = files.into_list(Some("/w")).into_iter().map(|(told, _)| told).collect();
            assert_eq!(told, expected);
        }
        // The root is above the folder of the record's paths.
        let root = Root { base: Some("/w/api".to_owned()), ..root };
        let mut files = WorkFiles::new(root);
        for (name, folder) in [("a.rs", None), ("b.rs", Some("/w/api")), ("c.rs", Some("/w/web"))] {
            files.touch(name, folder, Touch::Writes, false);
        }
        let told = files.into_list(Some("/w/api")).into_iter().map(|(told, _)| told);
        let expected = ["a.rs (in /w)", "/w/api/b.rs", "c.rs (in /w/web)"];
        assert_eq!(told.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn outputs_of_builds_are_known() {
        for (path, expected) in [
            (".next/types/a.ts", Some(".next/types/a.ts")),
            ("/w/web/node_modules/a/b.js", Some("node_modules/a/b.js")),
            ("api/target/debug/a", Some("target/debug/a")),
            ("src/target/a.rs", None),
            ("a/my_node_modules/b.js", None),
        ] {
            assert_eq!(output_in(path), expected, "{path}");
        }
        let text =
            "Why is `web/.next/types/a.ts` (see target/doc/a.html:7) gone? I need src/b and __pycache__/c.";
        let named: Vec<&str> = outputs_named(text).collect();
        assert_eq!(named, [".next/types/a.ts", "target/doc/a.html", "__pycache__/c"]);
    }

    #[test]
    fn what_a_command_does_is_done_in_its_folder() {
        let removes = |name: &str| ShellChange::Removes(name.to_owned());
        let moves = |from: &str, to: &str| ShellChange::Moves { from: from.to_owned(), to: to.to_owned() };
        let restores = |name: &str| ShellChange::Restores(name.to_owned());
        let stashes = |path: &str, new_ones| ShellChange::Stashes { path: path.to_owned(), new_ones };
        for (changes, expected) in [
            (
                vec![(removes("a.py"), Some("/w/web"))],
                vec![("/w/a.py", Modified), ("/w/api/a.py", Modified), ("/w/api/b.py", Created)],
            ),
            (
                vec![(ShellChange::Edits("c.py".to_owned()), Some("api")), (removes("a.py"), Some("api"))],
                vec![
                    ("/w/a.py", Modified),
                    ("/w/api/b.py", Created),
                    ("c.py (in api)", Modified),
                    ("/w/api/a.py", Deleted),
                ],
            ),
            (
                vec![(moves("api", "lib/api"), Some("/w"))],
                vec![
                    ("/w/a.py", Modified),
                    ("/w/api/a.py", Deleted),
                    ("a.py (in lib/api)", Created),
                    ("b.py (in lib/api)", Created),
                ],
            ),
            (
                vec![(moves("api/a.py", "lib/a.py"), None), (moves("api", "lib"), None)],
                vec![
                    ("/w/a.py", Modified),
                    ("/w/api/a.py", Deleted),
                    ("lib/a.py", Created),
                    ("api/b.py (in lib)", Created),
                ],
            ),
            (
                vec![(moves("api/*", "."), None)],
                vec![("/w/api/a.py", Deleted), ("/w/a.py", Created), ("b.py", Created)],
            ),
            (vec![(restores("."), Some("/w/api"))], vec![("/w/a.py", Modified), ("/w/api/b.py", Created)]),
            (vec![(restores("api"), None)], vec![("/w/a.py", Modified), ("/w/api/b.py", Created)]),
            (
                vec![(stashes(".", false), None), (ShellChange::Unstashes { nth: 0, stay: false }, None)],
                vec![("/w/a.py", Modified), ("/w/api/a.py", Modified), ("/w/api/b.py", Created)],
            ),
            (vec![(stashes(".", true), None)], vec![]),
            (vec![(stashes("api/a.py", false), None)], vec![("/w/a.py", Modified), ("/w/api/b.py", Created)]),
        ] {
            let mut files = WorkFiles::new(Root {
                root: Some("/w".to_owned()),
                base: Some("/w".to_owned()),
                start: None,
            });
            files.touch("/w/a.py", None, Touch::Leaves(Modified), false);
            files.touch("/w/api/a.py", None, Touch::Writes, true);
            files.touch("/w/api/b.py", None, Touch::Writes, false);
            changes.iter().for_each(|(change, folder)| files.take_change(change, *folder, ""));
            let expected: Vec<_> =
                expected.into_iter().map(|(told, state)| (told.to_owned(), state)).collect();
            assert_eq!(files.into_list(None), expected, "{changes:?}");
        }
    }

    #[test]
    fn copies_into_what_is_copied_are_limited() {
        let mut files = WorkFiles::default();
        files.touch("x.rs", None, Touch::Writes, false);
        for n in 0..40 {
            let copies = |to: String| ShellChange::Copies { from: "*".to_owned(), to };
            files.take_change(&copies(format!("d{n}")), None, "");
            files.take_change(&copies("d".repeat(200)), None, "");
        }
        let list = files.into_list(None);
        assert!(list.len() <= MOST_COPIED, "{}", list.len());
        assert!(list.iter().any(|(path, _)| path == "x.rs (in d0)"));
    }

    #[test]
    fn of_each_commit_only_what_it_changed_is_kept() {
        let mut files = WorkFiles::default();
        for n in 0..20 {
            files.touch(&format!("{n}.rs"), None, Touch::Writes, false);
            files.touch("a.rs", None, Touch::Leaves(Modified), false);
            files.take_change(&ShellChange::Commits { all: true }, None, "");
        }
        assert!(files.commits.iter().all(|replaced| replaced.len() == 2));
        files.take_change(&ShellChange::Resets { n_commits: 18 }, None, "");
        let expected = [("0.rs", Created), ("1.rs", Created), ("a.rs", Modified)];
        assert_eq!(files.into_list(None), expected.map(|(path, state)| (path.to_owned(), state)));
    }

    #[test]
    fn a_file_of_windows_is_one_with_either_slash() {
        let mut files = WorkFiles::default();
        files.touch(r"C:\proj\src\a.cs", None, Touch::Writes, false);
        files.touch("C:/proj/src/a.cs", None, Touch::Leaves(Modified), false);
        files.take_change(&ShellChange::Removes(r"src\a.cs".to_owned()), Some("c:/proj"), "");
        assert_eq!(files.into_list(None), [(r"C:\proj\src\a.cs".to_owned(), Deleted)]);
    }
}
