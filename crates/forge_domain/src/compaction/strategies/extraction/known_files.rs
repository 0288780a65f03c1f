//! The files that are known, found by their names and by their folders: commands name many, and most of them
//! by a part of their paths.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::path_form::{before_stars, has_form, named_by_form};
use super::root::is_in;
use crate::compaction::findings::has_drive;

/// Paths of files, each once.
#[derive(Debug, Default)]
pub(super) struct KnownFiles {
    paths: BTreeSet<String>,
    /// Those of each name, which is the last part of a path.
    by_name: HashMap<String, Vec<String>>,
    /// All other parts.
    folders: HashSet<String>,
    /// True if any begins at a drive, below which there are several forms of a path.
    has_drives: bool,
}

impl KnownFiles {
    pub(super) fn insert(&mut self, path: &str) {
        if self.paths.contains(path) {
            return;
        }
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        for part in folder.split('/') {
            if !self.folders.contains(part) {
                self.folders.insert(part.to_owned());
            }
        }
        self.by_name.entry(name.to_owned()).or_default().push(path.to_owned());
        self.has_drives |= has_drive(path);
        self.paths.insert(path.to_owned());
    }

    pub(super) fn contains(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    /// Iterates over the files of the same name as that at the end of a path: any path that ends in all of
    /// that one, or in all of which it ends, is among them.
    pub(super) fn of_name(&self, path: &str) -> impl Iterator<Item = &String> {
        self.by_name.get(name_of(path)).into_iter().flatten()
    }

    /// Checks whether any file may be in a folder with a name such as that at the end of a path.
    pub(super) fn may_be_below(&self, path: &str) -> bool {
        self.folders.contains(name_of(path))
    }

    /// Checks whether any file is in a folder.
    pub(super) fn is_any_in(&self, folder: &str) -> bool {
        if self.has_drives {
            return self.paths.iter().any(|path| path != folder && is_in(path, folder));
        }
        let start = format!("{folder}/");
        self.paths.range(start.clone()..).next().is_some_and(|path| path.starts_with(&start))
    }

    /// Returns those of the `changed` files, all of which are known, that are in a folder or are it.
    pub(super) fn in_folder<T>(&self, changed: &BTreeMap<String, T>, folder: &str) -> Vec<String> {
        if self.has_drives {
            return changed.keys().filter(|path| is_in(path, folder)).cloned().collect();
        }
        let itself = changed.get_key_value(folder).map(|(path, _)| path);
        let below = format!("{folder}/");
        itself.into_iter().chain(beginning(changed, &below)).cloned().collect()
    }
}

/// Returns those of the `changed` files whose paths have a form with stars.
pub(super) fn of_form<T>(changed: &BTreeMap<String, T>, form: &str) -> Vec<String> {
    beginning(changed, before_stars(form)).filter(|path| has_form(path, form)).cloned().collect()
}

/// Returns the same and what is in folders whose paths have it.
pub(super) fn below_form<T>(changed: &BTreeMap<String, T>, form: &str) -> Vec<String> {
    let is_below = |path: &&String| named_by_form(path, form).is_some();
    beginning(changed, before_stars(form)).filter(is_below).cloned().collect()
}

/// Iterates over the paths that begin so.
fn beginning<'a, T>(changed: &'a BTreeMap<String, T>, start: &'a str) -> impl Iterator<Item = &'a String> {
    let from = changed.range(start.to_owned()..).map(|(path, _)| path);
    from.take_while(move |path| path.starts_with(start))
}

/// Returns the last part of a path.
fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const PATHS: [&str; 9] = [
        "a.rs",
        "api/a.rs",
        "api/src/a.rs",
        "api-old/a.rs",
        "/w/api/b.rs",
        "web/api/src/c.rs",
        "api",
        "src.rs",
        "/w/é/a.rs",
    ];
    const ASKED: [&str; 12] =
        ["a.rs", "api", "src", "api/src", "b.rs", "src/c.rs", "/w", "w", ".", "/", "é/a.rs", "pi"];

    #[test]
    fn files_are_found_as_by_a_look_at_each() {
        for drive in ["", r"C:\w\a.rs", "C:/w/api/a.rs"] {
            let paths: Vec<&str> = PATHS.into_iter().chain([drive]).filter(|path| !path.is_empty()).collect();
            let mut known = KnownFiles::default();
            paths.iter().chain(&paths).for_each(|path| known.insert(path));
            let changed: BTreeMap<String, ()> = paths.iter().map(|path| ((*path).to_owned(), ())).collect();
            let each = |is_it: &dyn Fn(&str) -> bool| -> Vec<String> {
                changed.keys().filter(|path| is_it(path)).cloned().collect()
            };
            for asked in ASKED.into_iter().chain(["C:/w", r"C:\w", "C:"]) {
                let ends = |path: &str| {
                    path.strip_suffix(asked).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
                };
                let mut named: Vec<String> =
                    known.of_name(asked).filter(|path| ends(path)).cloned().collect();
                named.sort_unstable();
                assert_eq!(named, each(&ends), "{asked}");
                assert_eq!(known.in_folder(&changed, asked), each(&|path| is_in(path, asked)), "{asked}");
                let is_any = paths.iter().any(|path| *path != asked && is_in(path, asked));
                assert_eq!(known.is_any_in(asked), is_any, "{asked}");
                let below = format!("/{asked}/");
                assert!(known.may_be_below(asked) || !paths.iter().any(|path| path.contains(&below)));
                assert_eq!(known.contains(asked), paths.contains(&asked), "{asked}");
            }
            for form in
                ["*", "*.rs", "api*", "api/*", "**/*.rs", "api/**/a.rs", "/w/**/*", "api/s*/a.rs", "x/*"]
            {
                assert_eq!(of_form(&changed, form), each(&|path| has_form(path, form)), "{form}");
                let below = each(&|path| named_by_form(path, form).is_some());
                assert_eq!(below_form(&changed, form), below, "{form}");
            }
        }
    }

    #[test]
    fn few_files_are_looked_at() {
        let mut known = KnownFiles::default();
        let changed: BTreeMap<String, ()> =
            (0..1_000).map(|n| (format!("src/{}/{n}.rs", n % 9), ())).collect();
        changed.keys().for_each(|path| known.insert(path));
        assert_eq!(known.of_name("7.rs").count(), 1);
        assert_eq!(beginning(&changed, before_stars("src/3/99*.rs")).count(), 1);
        assert_eq!(beginning(&changed, "build/").count(), 0);
        assert!(!known.may_be_below("build"));
    }
}
