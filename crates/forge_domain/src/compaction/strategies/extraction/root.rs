//! The folders of the work. Tools and commands name a file in several ways: by its whole path, from the
//! folder of the work, or from the folder in which a command runs.

use std::collections::{BTreeMap, HashSet};

use crate::ContextMessage;
use crate::compaction::envelope::within;
use crate::compaction::features::is_line_break;
use crate::compaction::findings::{ALL, has_drive, is_absolute, join};

/// The folders of the work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Root {
    /// The absolute one in which paths begin.
    pub(super) root: Option<String>,
    /// The one below which the record's paths are told.
    pub(super) base: Option<String>,
    /// The one in which the work began, if that is known.
    pub(super) start: Option<String>,
}

impl Root {
    /// Finds them in the calls of `messages`: where most commands run of which a folder is told, or where the
    /// work began, at `start`, unless the `base` of the record's paths is above that.
    pub(super) fn of(messages: &[ContextMessage], base: Option<&str>, start: Option<String>) -> Self {
        let deeds = messages.iter().flat_map(|message| &message.findings().deeds);
        let folders: Vec<&str> = deeds.filter_map(|deed| deed.folder().or(deed.enters())).collect();
        let is_most = |n: usize| n * 100 >= folders.len() * MOST_PERCENT;
        let absolute = folders.iter().copied().filter(|folder| is_absolute(folder));
        let ends = |folder: &str| {
            folder.match_indices('/').map(|(at, _)| at).chain([folder.len()]).collect::<Vec<_>>()
        };
        let above = absolute.flat_map(|folder| ends(folder).into_iter().map(|end| &folder[..end]));
        // A part of a drive's name is no folder. One command of many may run elsewhere.
        let least = if base.is_some() { LEAST_COMMANDS } else { 1 };
        let root = deepest(above.filter(|above| above.contains('/')), |n| n >= least && is_most(n));
        let root = root.or(start.as_deref());
        let is_above = |base: &&str| root.is_none_or(|root| is_in(root, base));
        Self {
            root: base.filter(is_above).or(root).map(str::to_owned),
            base: base.or(root).map(str::to_owned),
            start,
        }
    }

    /// Returns the folder of a name that was used in `folder`: without one, where the work began.
    pub(super) fn folder(&self, folder: Option<&str>) -> Option<String> {
        let whole = match folder {
            Some(folder) => Some(join(self.start.as_deref(), folder)),
            None => self.start.clone(),
        };
        whole.filter(|folder| !folder.is_empty())
    }

    /// Returns the one path of a file or folder that is named so in `folder`: from the root, if it is there.
    pub(super) fn path(&self, name: &str, folder: Option<&str>) -> String {
        let whole = whole_path(self.folder(folder).as_deref(), name);
        let path = self.root.as_deref().and_then(|root| below(&whole, root)).unwrap_or(&whole);
        if path.is_empty() { ALL.to_owned() } else { path.to_owned() }
    }

    /// Returns a file with a `path` from the root as a record lists it whose paths are below `base`: what was
    /// `told` of it, so that nothing else is meant by it there.
    pub(super) fn listed(&self, told: &str, path: &str, base: Option<&str>) -> String {
        let (Some(root), Some(base)) = (self.root.as_deref(), base) else { return told.to_owned() };
        if is_absolute(told) || out_of_folder(told).1.is_some() {
            return told.to_owned();
        }
        let below_base = whole_path(Some(base), told);
        if below_base == whole_path(Some(root), path) { below_base } else { in_folder(told, Some(root)) }
    }

    /// Returns the folder in which a file is, or a command runs, as it is told; `None` if paths begin there,
    /// or if it is not known.
    pub(super) fn place(&self, folder: Option<&str>) -> Option<String> {
        let whole = whole_path(self.root.as_deref(), &self.folder(folder)?);
        let told = self.base.as_deref().and_then(|base| below(&whole, base)).unwrap_or(&whole);
        // A label is one line.
        (!told.is_empty() && !told.contains(is_line_break)).then(|| told.to_owned())
    }
}

/// Returns the folder in which the work began: the one that a harness tells, or the one in which what calls
/// name by relative paths is known by whole ones. Once a call entered another one, calls run there.
pub(super) fn start_of(messages: &[ContextMessage]) -> Option<String> {
    let deeds = || messages.iter().flat_map(|message| &message.findings().deeds);
    if deeds().any(|deed| deed.enters().is_some()) {
        return None;
    }
    let notes = messages.iter().map(ContextMessage::message).filter(|message| message.note_by().is_some());
    let told = notes.filter_map(|note| Some(whole_path(None, within(&note.text(), "cwd")?)));
    let mut told: Vec<String> = told.filter(|folder| is_absolute(folder) && is_short(folder)).collect();
    told.dedup();
    if !told.is_empty() {
        return if told.len() == 1 { told.pop() } else { None };
    }
    let of_no_folder = || deeds().filter(|deed| deed.folder().is_none());
    let touched = of_no_folder().flat_map(|deed| &deed.touches).map(|(path, _)| path.as_str());
    let commands = of_no_folder().filter(|deed| deed.runs).filter_map(|deed| deed.subject.as_deref());
    let words = commands
        .filter_map(|command| command.lines().next())
        .flat_map(|line| line.split_whitespace().take(MOST_WORDS));
    let names = touched.chain(words.map(|word| word.trim_matches(['"', '\''])));
    let names = names.map(|name| whole_path(None, name));
    // A bare name may be that of a file in any folder.
    let is_part = |name: &String| !is_absolute(name) && name.contains('/') && is_short(name);
    let names: HashSet<String> = names.filter(is_part).collect();
    let whole = deeds().flat_map(|deed| &deed.touches).map(|(path, _)| whole_path(None, path));
    let is_whole = |path: &String| !names.is_empty() && has_root(path) && is_short(path);
    let whole: HashSet<String> = whole.filter(is_whole).collect();
    folder_of_names(&names, &whole)
}

/// Checks whether a path is as short as those of files are: others have too many parts to look at each.
pub(super) const fn is_short(path: &str) -> bool {
    path.len() <= MOST_BYTES
}

/// Returns the folder in which most of several `names` are parts of `whole` paths; `None` if that is not one.
fn folder_of_names(names: &HashSet<String>, whole: &HashSet<String>) -> Option<String> {
    let mut found: BTreeMap<&str, HashSet<&str>> = BTreeMap::new();
    for path in whole {
        let slashes: Vec<usize> = path.match_indices('/').map(|(at, _)| at).collect();
        for (nth, at) in slashes.iter().enumerate().skip(1) {
            let ends = slashes[nth + 1..].iter().copied().chain([path.len()]);
            let parts = ends.map(|end| &path[at + 1..end]).filter(|part| names.contains(*part));
            found.entry(&path[..*at]).or_default().extend(parts);
        }
    }
    let most = found.values().map(HashSet::len).max().filter(|most| *most >= LEAST_NAMES)?;
    only(found.into_iter().filter(|(_, names)| names.len() == most)).map(|(folder, _)| folder.to_owned())
}

/// Returns the path of a name that is relative to a folder, or absolute: of a drive, its letter is large.
pub(super) fn whole_path(folder: Option<&str>, name: &str) -> String {
    let mut whole = join(folder, name);
    if has_drive(&whole) {
        whole[..1].make_ascii_uppercase();
    }
    whole
}

/// The share of the commands that run below the root, in percent, and the fewest of them.
const MOST_PERCENT: usize = 60;
const LEAST_COMMANDS: usize = 2;
/// Most bytes of a path, and most words of a command, that show where the work is.
const MOST_BYTES: usize = 512;
const MOST_WORDS: usize = 64;
/// The fewest names that show in which folder they are: there may be one of that name elsewhere.
const LEAST_NAMES: usize = 2;

/// Returns the longest folder that `is_most` of all.
fn deepest<'a>(folders: impl Iterator<Item = &'a str>, is_most: impl Fn(usize) -> bool) -> Option<&'a str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    folders.for_each(|folder| *counts.entry(folder).or_default() += 1);
    let most = counts.into_iter().filter(|(_, n)| is_most(*n));
    most.max_by_key(|(folder, _)| folder.len()).map(|(folder, _)| folder)
}

/// Returns a path as it is below a folder, empty if it is that; `None` if it is elsewhere. Below a drive, the
/// path may have other slashes than the folder, and the drive's letter either case.
pub(super) fn below<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    if !has_drive(path) {
        let rest = path.strip_prefix(folder)?;
        return if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') };
    }
    let (start, rest) = path.split_at_checked(folder.len())?;
    match is_same_folder(start, folder) {
        true if rest.is_empty() => Some(rest),
        true => rest.strip_prefix(['/', '\\']),
        false => None,
    }
}

/// Checks whether two texts name one folder of a drive.
fn is_same_folder(one: &str, other: &str) -> bool {
    let with_slashes = |folder: &str| folder.replace('\\', "/");
    match (one.split_at_checked(1), other.split_at_checked(1)) {
        (Some((drive, one)), Some((of_other, other))) => {
            drive.eq_ignore_ascii_case(of_other) && with_slashes(one) == with_slashes(other)
        }
        _ => false,
    }
}

/// Checks whether a path begins at a root or at a drive.
pub(super) fn has_root(path: &str) -> bool {
    path.starts_with('/') || has_drive(path)
}

/// Checks whether a path is a folder, or in it.
pub(super) fn is_in(path: &str, folder: &str) -> bool {
    below(path, folder).is_some()
}

/// Returns the only item; `None` if there are several.
pub(super) fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    items.next().filter(|_| items.next().is_none())
}

/// Returns what is in a folder, or runs there, as it is told: both as they stand somewhere, as nothing may
/// have the whole path.
pub(super) fn in_folder(what: &str, folder: Option<&str>) -> String {
    folder.map_or_else(|| what.to_owned(), |folder| format!("{what}{IN}{folder})"))
}

/// Returns what is told to be in a folder, and the folder.
pub(super) fn out_of_folder(told: &str) -> (&str, Option<&str>) {
    let told_so = told.strip_suffix(')').and_then(|told| told.rsplit_once(IN));
    told_so.map_or((told, None), |(what, folder)| (what, Some(folder)))
}

const IN: &str = " (in ";

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_file_has_one_path_however_it_is_named() {
        let root = Root { root: Some("/w".to_owned()), base: Some("/w".to_owned()), start: None };
        for (name, folder, expected) in [
            ("/w/a.rs", None, "a.rs"),
            ("a.rs", Some("/w"), "a.rs"),
            ("a.rs", Some("/w/api"), "api/a.rs"),
            ("../web/a.rs", Some("/w/api"), "web/a.rs"),
            ("/other/a.rs", Some("/w"), "/other/a.rs"),
            (".", Some("/w"), "."),
            (".", Some("/w/api"), "api"),
            ("/wide/a.rs", None, "/wide/a.rs"),
        ] {
            assert_eq!(root.path(name, folder), expected, "{name} in {folder:?}");
        }
        for told in ["npm test (in api)", "npm test", "a (b) (in c d)"] {
            let (what, folder) = out_of_folder(told);
            assert_eq!(in_folder(what, folder), told);
        }
    }

    #[test]
    fn names_and_relative_folders_are_below_where_the_work_began() {
        let root = Root {
            root: Some("/w".to_owned()),
            base: Some("/w".to_owned()),
            start: Some("/w/api".to_owned()),
        };
        for (folder, name, expected, place) in [
            (None, "a.rs", "api/a.rs", Some("api")),
            (Some("src"), "a.rs", "api/src/a.rs", Some("api/src")),
            (Some(".."), "a.rs", "a.rs", None),
            (Some("/w"), "a.rs", "a.rs", None),
            (Some("/v"), "/w/a.rs", "a.rs", Some("/v")),
        ] {
            assert_eq!(root.path(name, folder), expected, "{name} in {folder:?}");
            assert_eq!(root.place(folder).as_deref(), place, "{folder:?}");
        }
    }

    #[test]
    fn below_a_drive_either_slash_is_one() {
        for (path, folder, expected) in [
            (r"C:\w\app\a.py", "C:/w", Some(r"app\a.py")),
            ("C:/w/a.py", "C:/w", Some("a.py")),
            (r"C:\w", "C:/w", Some("")),
            (r"C:\wide\a.py", "C:/w", None),
            (r"D:\w\a.py", "C:/w", None),
            ("/w/a.py", "/w", Some("a.py")),
            (r"/w\a.py", "/w", None),
            (r"c:\w\a.py", "C:/w", Some("a.py")),
            (r"C:\W\a.py", "C:/w", None),
        ] {
            assert_eq!(below(path, folder), expected, "{path}");
        }
    }

    #[test]
    fn names_show_in_which_folder_they_are() {
        let whole = ["/w/a/src/one.rs", "/w/a/src/two/three.rs", "/w/b/src/one.rs", "C:/v/src/one.rs"];
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<HashSet<_>>();
        for (names, expected) in [
            (&["src/one.rs", "src/two"][..], Some("/w/a")),
            (&["src/one.rs", "src/four"], None),
            (&["a/src/one.rs", "b/src/one.rs"], Some("/w")),
            (&["src/two/three.rs", "src/two"], Some("/w/a")),
            (&["src/five.rs", "lib/six.rs"], None),
        ] {
            assert_eq!(folder_of_names(&owned(names), &owned(&whole)).as_deref(), expected, "{names:?}");
        }
    }
}
