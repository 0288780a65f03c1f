//! The lines of a record about files: one for each, or one for several of a folder, as in `src/{a.rs, b.rs}`.

use std::collections::HashMap;

use super::root::out_of_folder;
use crate::compaction::findings::FileState;

/// As long as there are no more files, each has a line.
const MOST_ALONE: usize = 8;
/// Fewer files of a folder are no shorter in one line.
const LEAST_TOGETHER: usize = 3;
/// The most names in a line.
const MOST_TOGETHER: usize = 12;
/// The marks between the parts of a path: on Windows, commands write either.
const SEPARATORS: [char; 2] = ['/', '\\'];

/// The files that a line tells of: one, or several of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    One(String),
    Several(String),
}

/// The parts of a path that may share a line: its folder with the separator behind it, its name, and what is
/// told of where it is.
#[derive(Clone, Copy)]
struct Parts<'a> {
    folder: &'a str,
    name: &'a str,
    place: &'a str,
}

impl<'a> Parts<'a> {
    fn of(path: &'a str) -> Option<Self> {
        let (whole, place) = out_of_folder(path);
        let (folder, name) = whole.split_at(whole.rfind(SEPARATORS)? + 1);
        let is_one = is_plain(&folder[..folder.len() - 1]) && is_plain(name) && place.is_none_or(is_plain);
        is_one.then_some(Self { folder, name, place: &path[whole.len()..] })
    }
}

/// Returns the lines' states and paths, in the order of the files: several of one folder and in the same
/// state are where the last of them is.
pub(super) fn together<'a>(files: &[(&'a str, FileState)]) -> Vec<(FileState, Told)> {
    let groups: Vec<Option<Parts<'a>>> = files.iter().map(|(path, _)| Parts::of(path)).collect();
    let mut names: HashMap<(FileState, &str, &str), Vec<&str>> = HashMap::new();
    for ((_, state), group) in files.iter().zip(&groups).filter(|_| files.len() > MOST_ALONE) {
        if let Some(Parts { folder, name, place }) = *group {
            names.entry((*state, folder, place)).or_default().push(name);
        }
    }
    names.retain(|_, names| names.len() >= LEAST_TOGETHER);
    let mut lines = Vec::with_capacity(files.len());
    for ((path, state), group) in files.iter().zip(groups) {
        let of_group =
            group.and_then(|parts| Some((parts, names.get(&(*state, parts.folder, parts.place))?)));
        match of_group {
            None => lines.push((*state, Told::One((*path).to_owned()))),
            // The others come with the last one.
            Some((Parts { folder, name, place }, names)) if names.last() == Some(&name) => {
                let chunks = names.chunks(MOST_TOGETHER);
                let several =
                    |names: &[&str]| Told::Several(format!("{folder}{{{}}}{place}", names.join(", ")));
                lines.extend(chunks.map(|names| (*state, several(names))));
            }
            Some(_) => {}
        }
    }
    lines
}

/// Returns the paths in a line.
pub(super) fn apart(told: &str) -> Vec<String> {
    let (what, _) = out_of_folder(told);
    let place = &told[what.len()..];
    let several = what.strip_suffix('}').and_then(|what| what.split_once('{'));
    match several.filter(|(folder, _)| folder.ends_with(SEPARATORS)) {
        Some((folder, names)) => names.split(", ").map(|name| format!("{folder}{name}{place}")).collect(),
        None => vec![told.to_owned()],
    }
}

/// Checks whether a part of a path has no mark that stands for something else in a line.
fn is_plain(part: &str) -> bool {
    let is_usual = |c: char| c.is_alphanumeric() || "._-+@/[]~:\\".contains(c);
    !part.is_empty() && part.chars().all(is_usual)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn files_of_a_folder_share_a_line_and_are_read_from_it() {
        use FileState::{Created, Deleted, Modified};
        let files = [
            ("a.rs", Created),
            ("src/a.rs", Created),
            ("src/b.rs", Modified),
            ("src/c d.rs", Created),
            ("src/c.rs", Created),
            ("x/{y}.rs", Created),
            ("src/d.rs", Created),
            ("src/e.rs (in api)", Deleted),
            ("lib/a.rs", Deleted),
            (r"app\a.py (in api)", Created),
            (r"app\b.py (in api)", Created),
            (r"app\c.py (in web)", Created),
            (r"app\d.py (in api)", Created),
        ];
        let lines = together(&files);
        let told = lines.iter().map(|(state, told)| match told {
            Told::One(told) | Told::Several(told) => format!("{} {told}", state.word()),
        });
        let told: Vec<String> = told.collect();
        assert_eq!(
            told,
            [
                "created a.rs",
                "modified src/b.rs",
                "created src/c d.rs",
                "created x/{y}.rs",
                "created src/{a.rs, c.rs, d.rs}",
                "deleted src/e.rs (in api)",
                "deleted lib/a.rs",
                r"created app\c.py (in web)",
                r"created app\{a.py, b.py, d.py} (in api)",
            ]
        );
        assert_eq!(apart("src/{a.rs, c.rs}"), ["src/a.rs", "src/c.rs"]);
        assert_eq!(apart(r"app\{a.py, b.py} (in api)"), [r"app\a.py (in api)", r"app\b.py (in api)"]);
        assert_eq!(apart("x/{y}.rs"), ["x/{y}.rs"]);
        assert_eq!(together(&files[..8]).len(), 8);
    }
}
