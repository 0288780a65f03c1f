//! The lines of a record about files: one for each, or one for several of a folder, as in `src/{a.rs, b.rs}`.

use std::collections::HashMap;

use crate::compaction::findings::FileState;

/// As long as there are no more files, each has a line.
const MOST_ALONE: usize = 8;
/// Fewer files of a folder are no shorter in one line.
const LEAST_TOGETHER: usize = 3;
/// The most names in a line.
const MOST_TOGETHER: usize = 12;

/// The files that a line tells of: one, or several of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    One(String),
    Several(String),
}

/// Returns the lines' states and paths, in the order of the files: several of one folder and in the same
/// state are where the last of them is.
pub(super) fn together<'a>(files: &[(&'a str, FileState)]) -> Vec<(FileState, Told)> {
    let group = |(path, state): &(&'a str, FileState)| {
        let (folder, name) = path.rsplit_once('/')?;
        (is_plain(folder) && is_plain(name)).then_some((*state, folder, name))
    };
    let groups: Vec<_> = files.iter().map(group).collect();
    let mut names: HashMap<(FileState, &str), Vec<&str>> = HashMap::new();
    for (state, folder, name) in groups.iter().flatten().filter(|_| files.len() > MOST_ALONE) {
        names.entry((*state, folder)).or_default().push(name);
    }
    names.retain(|_, names| names.len() >= LEAST_TOGETHER);
    let mut lines = Vec::with_capacity(files.len());
    for ((path, state), group) in files.iter().zip(groups) {
        let of_group =
            group.and_then(|(state, folder, name)| Some((folder, names.get(&(state, folder))?, name)));
        match of_group {
            None => lines.push((*state, Told::One((*path).to_owned()))),
            // The others come with the last one.
            Some((folder, names, name)) if names.last() == Some(&name) => {
                let parts = names.chunks(MOST_TOGETHER);
                let several = |names: &[&str]| Told::Several(format!("{folder}/{{{}}}", names.join(", ")));
                lines.extend(parts.map(|names| (*state, several(names))));
            }
            Some(_) => {}
        }
    }
    lines
}

/// Returns the paths in a line.
pub(super) fn apart(told: &str) -> Vec<String> {
    let several = told.strip_suffix('}').and_then(|told| told.split_once("/{"));
    match several {
        Some((folder, names)) => names.split(", ").map(|name| format!("{folder}/{name}")).collect(),
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
            ]
        );
        assert_eq!(apart("src/{a.rs, c.rs}"), ["src/a.rs", "src/c.rs"]);
        assert_eq!(apart("x/{y}.rs"), ["x/{y}.rs"]);
        assert_eq!(together(&files[..8]).len(), 8);
    }
}
