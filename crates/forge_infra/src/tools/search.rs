//! `search`: lines that match a pattern, in the files that git does not ignore.

use std::io::Read as _;
use std::path::Path;

use cap_std::fs::File;
use ignore::overrides::{Override, OverrideBuilder};
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::{Value, json};

use super::arguments::Arguments;
use super::failure::ToolFailure;
use super::on_disk::{FileTool, Stop, Touch};
use super::walk::{Ended, Step, walk};
use super::workspace::Workspace;

/// Most lines, or names of files, of one answer.
const MAX_FOUND: usize = 200;
/// Most characters of a line that are shown.
const MAX_LINE: usize = 300;
/// A larger file is passed over.
const MAX_FILE: u64 = 8 * 1_024 * 1_024;
/// Most bytes that are read for one answer.
const MAX_READ: u64 = 1_024 * 1_024 * 1_024;

pub(super) struct Search;

#[derive(Deserialize)]
struct Wanted {
    pattern: Option<String>,
    path: Option<String>,
    files: Option<String>,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    context: usize,
}

impl FileTool for Search {
    fn name(&self) -> &'static str {
        "search"
    }

    fn description(&self) -> String {
        format!(
            "Finds lines by a regular expression in the files below a directory of the workspace, or in one file; without \
             `pattern`, the files whose names match `files`. What .gitignore names is left out, and so are binary files. \
             Shows at most {MAX_FOUND} lines, each as path:line: text."
        )
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "pattern": {
                    "type": "string",
                    "minLength": 1,
                    "description": "A regular expression without lookaround; it matches within one line."
                },
                "path": {
                    "type": "string",
                    "minLength": 1,
                    "description": "Where to look, relative to the root of the workspace; everywhere if left out."
                },
                "files": {
                    "type": "string",
                    "minLength": 1,
                    "description": "Only files like this, such as *.rs or src/**/*.{ts,tsx}."
                },
                "ignore_case": {"type": "boolean"},
                "context": {"type": "integer", "minimum": 0, "maximum": 5, "description": "Lines to show around each."}
            },
            "additionalProperties": false
        })
    }

    fn touch(&self, _: &Arguments) -> Touch {
        Touch::LooksBelow
    }

    fn run(&self, arguments: &Arguments, workspace: &Workspace, stop: &Stop) -> Result<String, ToolFailure> {
        let Wanted { pattern, path, files, ignore_case, context } = arguments.read()?;
        let regex = pattern.as_deref().map(|pattern| regex(pattern, ignore_case)).transpose()?;
        let files = files.as_deref().map(glob).transpose()?;
        if regex.is_none() && files.is_none() {
            let why = "give `pattern` to find lines, `files` to find files, or both";
            return Err(ToolFailure::Refused(why.to_owned()));
        }
        let path = path.as_deref().unwrap_or(".");
        let relative = workspace.relative(path);
        let failed = |source| ToolFailure::io(path, source);
        let mut found = Found { regex, context, lines: Vec::new(), n_files: 0, n_large: 0, n_read: 0 };
        let start = workspace.dir().metadata(relative).map_err(failed)?;
        if start.is_file() {
            let (file, _) = workspace.open_file(path)?;
            found.look_into(relative, || Ok(file)).map_err(failed)?;
            return Ok(found.page(Ended::Whole));
        }
        let ended = walk(workspace, relative, stop, &mut |seen| {
            if seen.is_ignored {
                return Step::Past;
            }
            let is_wanted = files.as_ref().is_none_or(|files| files.matched(seen.path, false).is_whitelist());
            if seen.kind.is_file() && is_wanted {
                // A file that cannot be read, or is gone by now, holds nothing that could be shown.
                let _ = found.look_into(seen.path, || seen.entry.open());
            }
            if found.is_full() { Step::End } else { Step::Into }
        });
        Ok(found.page(ended.map_err(failed)?))
    }
}

fn regex(pattern: &str, ignore_case: bool) -> Result<Regex, ToolFailure> {
    RegexBuilder::new(pattern).case_insensitive(ignore_case).build().map_err(|error| {
        let why = error.to_string();
        let why = why.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
        ToolFailure::Refused(format!("`pattern` is no regular expression that can be used: {why}"))
    })
}

fn glob(files: &str) -> Result<Override, ToolFailure> {
    let mut globs = OverrideBuilder::new(".");
    let built = globs.add(files.trim_start_matches('!')).and_then(|globs| globs.build());
    built.map_err(|error| ToolFailure::Refused(format!("`files` is no pattern for names: {error}")))
}

/// What was found until now.
struct Found {
    regex: Option<Regex>,
    context: usize,
    lines: Vec<String>,
    n_files: usize,
    n_large: usize,
    n_read: u64,
}

impl Found {
    fn is_full(&self) -> bool {
        self.lines.len() >= MAX_FOUND || self.n_read >= MAX_READ
    }

    fn look_into(
        &mut self,
        path: &Path,
        open: impl FnOnce() -> std::io::Result<File>,
    ) -> std::io::Result<()> {
        self.n_files += 1;
        let path = path.strip_prefix(".").unwrap_or(path).display();
        let Some(regex) = self.regex.clone() else {
            self.lines.push(path.to_string());
            return Ok(());
        };
        let file = open()?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Ok(());
        }
        if found.len() > MAX_FILE {
            self.n_large += 1;
            return Ok(());
        }
        let mut bytes = Vec::new();
        self.n_read += file.take(MAX_FILE).read_to_end(&mut bytes)? as u64;
        if bytes.iter().take(8_192).any(|byte| *byte == 0) {
            return Ok(());
        }
        let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        let mut shown_to = 0;
        for (at, line) in lines.iter().enumerate() {
            let Some(place) = regex.find(line) else { continue };
            let from = at.saturating_sub(self.context).max(shown_to);
            if self.context > 0 && from > shown_to && shown_to > 0 {
                self.lines.push("--".to_owned());
            }
            for (n, before) in lines.iter().enumerate().take(at).skip(from) {
                self.lines.push(format!("{path}-{}- {}", n + 1, shown(before, 0)));
            }
            if at >= shown_to {
                self.lines.push(format!("{path}:{}: {}", at + 1, shown(line, place.start())));
            }
            shown_to = shown_to.max(at + 1);
            let next = lines[at + 1..].iter().take(self.context);
            let until = next.clone().position(|line| regex.is_match(line)).unwrap_or(self.context);
            for (n, after) in next.take(until).enumerate() {
                // The end of a file is no line.
                if at + n + 2 < lines.len() || !after.is_empty() {
                    self.lines.push(format!("{path}-{}- {}", at + n + 2, shown(after, 0)));
                }
                shown_to = at + n + 2;
            }
            if self.lines.len() >= MAX_FOUND {
                break;
            }
        }
        Ok(())
    }

    fn page(mut self, ended: Ended) -> String {
        let is_cut = self.lines.len() >= MAX_FOUND;
        self.lines.truncate(MAX_FOUND);
        let mut notes = Vec::new();
        if self.lines.is_empty() {
            notes.push(format!("nothing found in {} files", self.n_files));
        }
        if is_cut {
            notes.push(format!(
                "these are the first {MAX_FOUND} lines; narrow `path`, `files` or `pattern` for others"
            ));
        } else if ended == Ended::Early {
            notes.push("there are too many files to look into all; narrow `path`".to_owned());
        }
        if self.n_large > 0 {
            let n_large = self.n_large;
            notes.push(format!("{n_large} files over {} MiB were passed over", MAX_FILE / 1_048_576));
        }
        if !notes.is_empty() {
            self.lines.push(format!("[{}]", notes.join("; ")));
        }
        self.lines.join("\n")
    }
}

/// The line as text, around `place` where it is long.
fn shown(line: &[u8], place: usize) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let from = if line.len() > MAX_LINE { place.saturating_sub(MAX_LINE / 3) } else { 0 };
    let to = line.len().min(from + MAX_LINE);
    let text = String::from_utf8_lossy(&line[from..to]);
    let (before, after) = (if from > 0 { "…" } else { "" }, if to < line.len() { "…" } else { "" });
    format!("{before}{text}{after}")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::fixture::Fixture;

    #[tokio::test]
    async fn lines_are_found_where_git_does_not_ignore_them() {
        let fixture = Fixture::new(&[
            (".gitignore", b"target/\n"),
            (".git/config", b"needle"),
            ("a.rs", b"one\nneedle here\nthree\nfour\nNEEDLE\n"),
            ("sub/b.txt", b"caf\xe9 needle\r\n"),
            ("bin", b"\0needle"),
            ("target/x", b"needle"),
        ]);
        let root = fixture.root().join("a.rs").display().to_string();
        fixture
            .check(
                "search",
                &[
                    (r#"{"pattern": "needle"}"#, Ok("a.rs:2: needle here\nsub/b.txt:1: caf\u{fffd} needle")),
                    (r#"{"pattern": "needle", "files": "*.rs"}"#, Ok("a.rs:2: needle here")),
                    (r#"{"pattern": "needle", "path": "sub"}"#, Ok("sub/b.txt:1: caf\u{fffd} needle")),
                    (r#"{"pattern": "needle", "path": "target"}"#, Ok("target/x:1: needle")),
                    (r#"{"pattern": "^n.*e$", "path": "./a.rs", "ignore_case": "true"}"#, Ok("a.rs:2: needle here\na.rs:5: NEEDLE")),
                    (
                        r#"{"pattern": "needle", "path": "a.rs", "ignore_case": true, "context": 1}"#,
                        Ok("a.rs-1- one\na.rs:2: needle here\na.rs-3- three\na.rs-4- four\na.rs:5: NEEDLE"),
                    ),
                    (r#"{"files": "**/*.{rs,txt}"}"#, Ok("a.rs\nsub/b.txt")),
                    (r#"{"pattern": "nowhere"}"#, Ok("[nothing found in 4 files]")),
                    (&format!(r#"{{"pattern": "four", "path": "{root}"}}"#), Ok("a.rs:4: four")),
                    ("{}", Err("give `pattern` to find lines, `files` to find files, or both")),
                    (
                        r#"{"pattern": "(a"}"#,
                        Err("`pattern` is no regular expression that can be used: error: unclosed group"),
                    ),
                    (
                        r#"{"pattern": "(?=a)"}"#,
                        Err("`pattern` is no regular expression that can be used: error: look-around, including \
                             look-ahead and look-behind, is not supported"),
                    ),
                    (
                        r#"{"pattern": "a", "path": "gone"}"#,
                        Err("there is no `gone` in the workspace; `list` shows what is there"),
                    ),
                ],
            )
            .await;
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn nothing_outside_is_searched() {
        use std::os::unix::fs::symlink;
        let fixture = Fixture::new(&[("a", b"inside\n")]);
        symlink("../secret", fixture.root().join("link")).unwrap();
        symlink(fixture.folder.path(), fixture.root().join("up")).unwrap();
        let everywhere = fixture.call("search", r#"{"pattern": "side"}"#).await;
        assert_eq!(everywhere, Ok("a:1: inside".to_owned()));
        for path in ["link", "up", "up/secret", "..", "../secret", "/etc/hostname"] {
            let arguments = serde_json::json!({"pattern": ".", "path": path}).to_string();
            let expected =
                format!("`{path}` leads outside the workspace; give a path inside it, relative to its root");
            assert_eq!(fixture.call("search", &arguments).await, Err(expected));
        }
    }

    #[tokio::test]
    async fn a_flood_is_bounded() {
        let many = "needle\n".repeat(1_000);
        let long = "x".repeat(100_000) + "needle" + &"y".repeat(100_000);
        let fixture = Fixture::new(&[("long", long.as_bytes()), ("many", many.as_bytes())]);
        let huge = std::fs::File::create(fixture.root().join("huge")).unwrap();
        huge.set_len(1 << 40).unwrap();
        let actual = fixture.call("search", r#"{"pattern": "needle"}"#).await.unwrap();
        assert!(actual.len() < 5_000, "{}", actual.len());
        let notes = "[these are the first 200 lines; narrow `path`, `files` or `pattern` for others; 1 files over 8 MiB were \
                     passed over]";
        assert_eq!(actual.lines().last(), Some(notes));
        let first = actual.lines().next().unwrap();
        assert!(
            first.starts_with("long:1: …xxx") && first.contains("needle") && first.ends_with("yyy…"),
            "{first}"
        );
    }
}
