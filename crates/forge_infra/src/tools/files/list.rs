//! `list`: the names in a directory, or in all directories below it.

use std::path::Path;

use cap_std::fs::Dir;
use forge_domain::holds_keys;
use serde::Deserialize;
use serde_json::{Value, json};

use super::sieve::Sieve;
use super::walk::{Step, Visit, WalkEnd, walk};
use super::workspace::{self, Workspace, plain};
use super::{FileTool, Limits, Touch};
use crate::tools::arguments::Arguments;
use crate::tools::failure::ToolFailure;

/// The most names of one answer.
const MAX_NAMES: usize = 1_000;
/// The most levels of directories.
const MAX_DEPTH: usize = 8;
/// The mark after a directory whose content is skipped.
const IGNORED: &str = " [ignored]";

pub(in crate::tools) struct List;

#[derive(Deserialize)]
struct Wanted {
    path: Option<String>,
    depth: Option<usize>,
}

impl FileTool for List {
    fn name(&self) -> &'static str {
        "list"
    }

    fn description(&self) -> String {
        format!(
            "Lists a directory of the workspace, sorted by name; directories end in a slash. With `depth` it goes into \
             directories, save those that .gitignore names. Shows at most {MAX_NAMES} names."
        )
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "minLength": 1,
                    "description": "The directory, relative to the root of the workspace; the root if left out."
                },
                "depth": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_DEPTH,
                    "description": "How many levels of directories to show; 1 if left out."
                }
            },
            "additionalProperties": false
        })
    }

    fn touch(&self, arguments: &Arguments) -> Touch {
        match arguments.read() {
            Ok(Wanted { depth: Some(2..), .. }) => Touch::LooksBelow,
            _ => Touch::Reads,
        }
    }

    fn shows(&self) -> bool {
        false
    }

    fn run(
        &self,
        arguments: &Arguments,
        workspace: &Workspace,
        limits: &Limits,
    ) -> Result<String, ToolFailure> {
        let Wanted { path, depth } = arguments.read()?;
        let (path, depth) = (path.as_deref().unwrap_or("."), depth.unwrap_or(1));
        let relative = workspace.relative(path);
        let failed = |source| ToolFailure::io(path, source);
        if !workspace.dir().metadata(relative).map_err(failed)?.is_dir() {
            return Err(ToolFailure::File { path: path.to_owned() });
        }
        let start = workspace.dir().canonicalize(relative).map_err(failed)?;
        let mut names = Vec::new();
        let mut sieve = Sieve::new(limits.scope.paths(self.name(), None));
        // The user was asked about a place of keys that the call names.
        let is_of_keys = workspace.names_of(path).iter().any(|name| holds_keys(name));
        let ended = walk(workspace, relative, &limits.stop, &mut |seen| {
            let below = seen.path.strip_prefix(&start).unwrap_or(seen.path);
            let passed_over = seen.is_ignored && seen.kind.is_dir() && depth > 1;
            let mark = if passed_over { IGNORED } else { "" };
            let is_shown = sieve.lets_through(seen.path);
            if is_shown {
                names.push(format!("{}{mark}", display_path(below, seen, workspace.dir())));
            }
            if passed_over || seen.depth >= depth {
                return Step::Past;
            }
            // Its name is shown, and what is in it, such as the names of accounts, is not.
            if seen.kind.is_dir() && !is_of_keys && holds_keys(&plain(seen.path)) {
                if is_shown {
                    sieve.leave_out_keys(plain(seen.path));
                }
                return Step::Past;
            }
            Step::Into
        });
        let notes: Vec<String> = sieve.note("name").into_iter().chain(sieve.note_of_keys()).collect();
        let left_out = (!notes.is_empty()).then(|| notes.join("; "));
        Ok(page(&names, ended.map_err(failed)?, left_out))
    }
}

/// Returns the path, with a slash if it is a directory or a link to one inside the workspace.
fn display_path(below: &Path, seen: &Visit<'_>, dir: &Dir) -> String {
    let is_dir = match seen.kind {
        kind if kind.is_symlink() => dir.metadata(seen.path).is_ok_and(|target| target.is_dir()),
        kind => kind.is_dir(),
    };
    format!("{}{}", workspace::display(below), if is_dir { "/" } else { "" })
}

fn page(names: &[String], ended: WalkEnd, left_out: Option<String>) -> String {
    let shown = &names[..MAX_NAMES.min(names.len())];
    let is_cut = ended == WalkEnd::Early || shown.len() < names.len();
    let cut = is_cut.then(|| {
        let more = if ended == WalkEnd::Early { "more than " } else { "" };
        format!(
            "the first {} of {more}{} names; list a directory below this one to see less at a time",
            shown.len(),
            names.len()
        )
    });
    let empty =
        (names.is_empty() && !is_cut && left_out.is_none()).then(|| "the directory is empty".to_owned());
    let notes: Vec<String> = empty.into_iter().chain(cut).chain(left_out).collect();
    let note = (!notes.is_empty()).then(|| format!("[{}]", notes.join("; ")));
    shown.iter().map(String::as_str).chain(note.as_deref()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::tools::fixture::Fixture;

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
                    (r#"{"dir": "a"}"#, Err("unknown argument `dir` (expected one of path, depth)")),
                ],
            )
            .await;
    }

    #[tokio::test]
    async fn levels_below_are_shown_without_what_is_ignored() {
        let fixture = Fixture::new(&[
            (".git/HEAD", b""),
            (".gitignore", b"target/\n"),
            ("a/b/c", b""),
            ("a/x", b""),
            ("target/debug/out", b""),
        ]);
        let all = ".git/ [ignored]\n.gitignore\na/\na/b/\na/b/c\na/x\ntarget/ [ignored]";
        fixture
            .check(
                "list",
                &[
                    ("{}", Ok(".git/\n.gitignore\na/\ntarget/")),
                    (r#"{"depth": 2}"#, Ok(".git/ [ignored]\n.gitignore\na/\na/b/\na/x\ntarget/ [ignored]")),
                    (r#"{"depth": "8"}"#, Ok(all)),
                    (r#"{"path": "a", "depth": 2}"#, Ok("b/\nb/c\nx")),
                    (r#"{"path": "target", "depth": 2}"#, Ok("debug/\ndebug/out")),
                    (r#"{"depth": 9}"#, Err("`depth` must be at most 8, not 9")),
                ],
            )
            .await;
    }

    #[tokio::test]
    async fn what_is_in_a_place_of_keys_is_shown_if_the_call_names_it() {
        let fixture =
            Fixture::new(&[(".config/gh/hosts.yml", b""), (".config/other", b""), (".ssh/id_work", b"")]);
        let shown = |left_out: &str| {
            let all = ".config/\n.config/gh/\n.config/other\n.ssh/";
            format!("{all}\n[{left_out}; name one as `path` to have the user asked]")
        };
        let two = shown("1 place left out for keys: `.ssh`");
        let three = shown("2 places left out for keys: `.config/gh`, `.ssh`");
        fixture
            .check(
                "list",
                &[
                    ("{}", Ok(".config/\n.ssh/")),
                    (r#"{"depth": 2}"#, Ok(two.as_str())),
                    (r#"{"depth": 3}"#, Ok(three.as_str())),
                    (r#"{"path": ".ssh"}"#, Ok("id_work")),
                    (r#"{"path": ".config/gh"}"#, Ok("hosts.yml")),
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

    #[tokio::test]
    async fn what_is_denied_is_left_out_and_said() {
        let fixture = Fixture::new(&[
            (".env", b""),
            ("a", b""),
            ("secrets/key", b""),
            ("sub/.env", b""),
            ("sub/b", b""),
        ]);
        let rules = r#"{"*": {".env": "deny", "secrets/**": "deny", "sub/b": "ask"}}"#;
        for (arguments, expected) in [
            ("{}", "a\nsub/\n[2 names left out: denied by `.env: deny`, `secrets/**: deny`]"),
            (
                r#"{"depth": 2}"#,
                "a\nsub/\n[5 names left out: denied by `.env: deny`, `secrets/**: deny`; not shown without consent by `sub/b: ask`]",
            ),
            (
                r#"{"path": "sub"}"#,
                "[2 names left out: denied by `.env: deny`; not shown without consent by `sub/b: ask`]",
            ),
        ] {
            assert_eq!(
                fixture.call_under(rules, "list", arguments).await.as_deref(),
                Ok(expected),
                "{arguments}"
            );
        }
        let read = r#"{"read": {".env": "deny"}}"#;
        assert_eq!(fixture.call_under(read, "list", "{}").await.as_deref(), Ok(".env\na\nsecrets/\nsub/"));
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_name_is_shown_as_one_line() {
        use std::os::unix::ffi::OsStrExt;
        let names = [
            b"a\n[the directory is empty]".as_slice(),
            b"b\x1b[2J",
            b"caf\xe9",
            b"\"quoted\"",
            b"[a note]",
            b"[slug]",
            "d\u{202e}txt".as_bytes(),
            "größe".as_bytes(),
        ];
        let fixture = Fixture::new(&[]);
        for name in names {
            std::fs::write(fixture.root().join(std::ffi::OsStr::from_bytes(name)), "needle").unwrap();
        }
        let expected = [
            r#""\"quoted\"""#,
            r#""[a note]""#,
            "[slug]",
            r#""a\n[the directory is empty]""#,
            r#""b\u{1b}[2J""#,
            r#""caf\xe9""#,
            r#""d\u{202e}txt""#,
            "größe",
        ];
        assert_eq!(fixture.call("list", "{}").await.unwrap(), expected.join("\n"));
        let found = fixture.call("search", r#"{"pattern": "needle"}"#).await.unwrap();
        assert_eq!(found, expected.map(|name| format!("{name}:1: needle")).join("\n"));
    }

    #[test]
    fn a_page_is_bounded_and_says_what_it_left_out() {
        let names: Vec<_> = (0..1_001).map(|n| format!("{n:04}")).collect();
        assert_eq!(page(&names[..1_000], WalkEnd::Whole, None), names[..1_000].join("\n"));
        let actual = page(&names, WalkEnd::Whole, None);
        let expected =
            "[the first 1000 of 1001 names; list a directory below this one to see less at a time]";
        assert_eq!(actual.lines().last(), Some(expected));
        assert_eq!(actual.lines().count(), 1_001);
    }
}
