//! `list`: the names in a directory.

use std::path::Path;

use cap_std::fs::{Dir, DirEntry};
use serde_json::{Value, json};

use super::Tool;
use super::arguments::Arguments;
use super::failure::ToolFailure;
use super::workspace::Workspace;

/// Most names of one answer.
const MAX_NAMES: usize = 1_000;

pub(super) struct List;

impl Tool for List {
    fn name(&self) -> &'static str {
        "list"
    }

    fn description(&self) -> String {
        format!(
            "Lists a directory of the workspace, sorted by name; directories end in a slash. \
             Shows at most {MAX_NAMES} names."
        )
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "description": "The directory, relative to the root of the workspace; the root if left out."
                }
            },
            "additionalProperties": false
        })
    }

    fn run(&self, arguments: &Arguments, workspace: &Workspace) -> Result<String, ToolFailure> {
        let path = arguments.text("path")?.unwrap_or(".");
        let relative = workspace.relative(path);
        let failed = |source| ToolFailure::io(path, source);
        if !workspace.dir().metadata(relative).map_err(failed)?.is_dir() {
            return Err(ToolFailure::File { path: path.to_owned() });
        }
        let mut names = Vec::new();
        for entry in workspace.dir().read_dir(relative).map_err(failed)? {
            names.push(shown(&entry.map_err(failed)?, workspace.dir(), relative));
        }
        names.sort_unstable();
        Ok(page(&names))
    }
}

/// The entry's name, with a slash where it is a directory or a link to one inside the workspace.
fn shown(entry: &DirEntry, dir: &Dir, folder: &Path) -> String {
    let name = entry.file_name();
    let is_dir = match entry.file_type() {
        Ok(kind) if kind.is_symlink() => dir.metadata(folder.join(&name)).is_ok_and(|target| target.is_dir()),
        Ok(kind) => kind.is_dir(),
        Err(_) => false,
    };
    format!("{}{}", name.to_string_lossy(), if is_dir { "/" } else { "" })
}

fn page(names: &[String]) -> String {
    match names {
        [] => "[the directory is empty]".to_owned(),
        names if names.len() <= MAX_NAMES => names.join("\n"),
        names => format!(
            "{}\n[the first {MAX_NAMES} of {} names; list a directory below this one to see less at a time]",
            names[..MAX_NAMES].join("\n"),
            names.len()
        ),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::fixture::Fixture;
    use super::*;

    #[tokio::test]
    async fn names_are_sorted_and_directories_marked() {
        let fixture =
            Fixture::new(&[("b.txt", b""), ("a/inner.txt", b""), (".hidden", b""), ("empty/", b"")]);
        let root = fixture.root();
        fixture
            .check(
                "list",
                &[
                    ("", Ok(".hidden\na/\nb.txt\nempty/")),
                    (r#"{"path": "."}"#, Ok(".hidden\na/\nb.txt\nempty/")),
                    (r#"{"path": "a/"}"#, Ok("inner.txt")),
                    (r#"{"path": "a/../a"}"#, Ok("inner.txt")),
                    (&format!(r#"{{"path": "{}"}}"#, root.display()), Ok(".hidden\na/\nb.txt\nempty/")),
                    (r#"{"path": "empty"}"#, Ok("[the directory is empty]")),
                    (
                        r#"{"path": "b.txt"}"#,
                        Err("`b.txt` is a file, not a directory; `read` shows what is in it"),
                    ),
                    (
                        r#"{"path": "gone"}"#,
                        Err("there is no `gone` in the workspace; `list` shows what is there"),
                    ),
                    (
                        r#"{"path": ".."}"#,
                        Err("`..` leads outside the workspace; give a path inside it, relative to its root"),
                    ),
                    (
                        r#"{"path": "/"}"#,
                        Err("`/` leads outside the workspace; give a path inside it, relative to its root"),
                    ),
                    (r#"{"dir": "a"}"#, Err("unknown argument `dir`; known are path")),
                ],
            )
            .await;
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn links_are_followed_inside_only() {
        use std::os::unix::fs::symlink;
        let fixture = Fixture::new(&[("a/inner.txt", b"")]);
        symlink("a", fixture.root().join("inside")).unwrap();
        symlink("..", fixture.root().join("outside")).unwrap();
        fixture
            .check(
                "list",
                &[
                    ("{}", Ok("a/\ninside/\noutside")),
                    (r#"{"path": "inside"}"#, Ok("inner.txt")),
                    (
                        r#"{"path": "outside"}"#,
                        Err("`outside` leads outside the workspace; give a path inside it, relative to its root"),
                    ),
                ],
            )
            .await;
    }

    #[test]
    fn a_page_is_bounded_and_says_what_it_left_out() {
        let names: Vec<_> = (0..1_001).map(|n| format!("{n:04}")).collect();
        assert_eq!(page(&names[..1_000]), names[..1_000].join("\n"));
        let actual = page(&names);
        let expected =
            "[the first 1000 of 1001 names; list a directory below this one to see less at a time]";
        assert_eq!(actual.lines().last(), Some(expected));
        assert_eq!(actual.lines().count(), 1_001);
    }
}
