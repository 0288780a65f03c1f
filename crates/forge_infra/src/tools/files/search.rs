//! `search`: lines that match a pattern, in the files that git does not ignore.

use std::cell::RefCell;
use std::error::Error;
use std::io::{self, Read as _};
use std::path::Path;

use cap_std::fs::File;
use forge_domain::{CallScope, FoundSecret, Permission, find_secrets, holds_keys, secret_by_name};
use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use ignore::overrides::{Override, OverrideBuilder};
use regex::bytes::RegexBuilder;
use serde::Deserialize;
use serde_json::{Value, json};

use super::line_reader::{LineReader, MAX_PIECE};
use super::sieve::Sieve;
use super::walk::{Step, WalkEnd, walk};
use super::workspace::{Workspace, display as shown_name, plain};
use super::{FileTool, Limits, Stop, Touch};
use crate::tools::arguments::Arguments;
use crate::tools::failure::ToolFailure;

/// The most lines, or names of files, of one answer.
const MAX_FOUND: usize = 200;
/// The most characters of a pattern: a long one takes minutes to read, in which nothing stops it.
const MAX_PATTERN: usize = 1_000;
/// The most characters of a line that are shown.
const MAX_LINE: usize = 300;
/// The largest file that is searched, unless the call names it.
const MAX_FILE: u64 = 8 * 1_024 * 1_024;
/// The most bytes that are read for one answer.
const MAX_READ: u64 = 1_024 * 1_024 * 1_024;
/// The bytes that are read at once.
const BLOCK: usize = 64 * 1_024;
/// The most bytes of states of a regular expression that are kept.
const MAX_REGEX_CACHE: usize = 2 * 1_024 * 1_024;

pub(in crate::tools) struct Search;

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
             `pattern`, the files whose names match `files`. What .gitignore names is left out, and so are binary files and, \
             unless `path` names one, files over {} MiB. Shows at most {MAX_FOUND} lines, each as path:line: text.",
            MAX_FILE / 1_048_576
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

    fn run(
        &self,
        arguments: &Arguments,
        workspace: &Workspace,
        limits: &Limits,
    ) -> Result<String, ToolFailure> {
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
        // Who may not read a file may not search it either.
        let mut sieve = Sieve::new(limits.scope.paths(self.name(), Some("read")));
        let stop = &limits.stop;
        let mut found = Found::new(regex, context, stop);
        let secrets = Secrets { scope: &limits.scope, tool: self.name() };
        let start = workspace.dir().metadata(relative).map_err(failed)?;
        if !start.is_dir() {
            let (file, _) = workspace.open_file(path)?;
            let names = workspace.names_of(path);
            if sieve.lets_all_through(&names) {
                found.look_into(relative, MAX_READ, || Ok(file)).map_err(failed)?;
                // The user is asked for what the file that is named shows of them.
                let shown = found.secrets_shown(|| Ok(workspace.open_file(path).ok().map(|(file, _)| file)));
                limits.scope.note_secrets(names.last().map_or(path, String::as_str), shown.map_err(failed)?);
            }
            return Ok(found.page(WalkEnd::Whole, &sieve));
        }
        // The user was asked about a place of keys that the call names.
        let is_of_keys = workspace.names_of(path).iter().any(|name| holds_keys(name));
        let ended = walk(workspace, relative, stop, &mut |seen| {
            if seen.is_ignored {
                return Step::Past;
            }
            if !is_of_keys && holds_keys(&plain(seen.path)) {
                sieve.leave_out_keys(plain(seen.path));
                return Step::Past;
            }
            let is_wanted = files.as_ref().is_none_or(|files| files.matched(seen.path, false).is_whitelist());
            if seen.kind.is_file() && is_wanted && sieve.lets_through(seen.path) {
                let name = plain(seen.path);
                let may_be_shown = found.regex.is_none() || secrets.may_be_shown(&name);
                let kind = secret_by_name(&name);
                if let Some(kind) = kind.filter(|_| !may_be_shown) {
                    sieve.leave_out_secret(name, kind);
                    return Step::Into;
                }
                let n_before = found.lines.len();
                // A file that cannot be read, or is gone by now, holds nothing that could be shown.
                let _ = found.look_into(seen.path, MAX_FILE, || seen.open());
                let shown = found.secrets_shown(|| seen.open().map(Some));
                match shown.as_deref() {
                    Ok([secret, ..]) if !may_be_shown => {
                        found.lines.truncate(n_before);
                        sieve.leave_out_secret(name, secret.kind);
                    }
                    Ok(secrets) => {
                        let by_name = kind.and_then(|kind| found.lines_shown(kind));
                        let all = by_name.into_iter().chain(secrets.iter().cloned()).collect();
                        limits.scope.note_secrets(&name, all);
                    }
                    // What cannot be searched for secrets is not shown.
                    Err(_) => found.lines.truncate(n_before),
                }
            }
            if found.is_full() { Step::End } else { Step::Into }
        });
        Ok(found.page(ended.map_err(failed)?, &sieve))
    }
}

fn regex(pattern: &str, ignore_case: bool) -> Result<RegexMatcher, ToolFailure> {
    let n_chars = pattern.chars().count();
    if n_chars > MAX_PATTERN {
        let why = format!(
            "`pattern` has {n_chars} characters (expected at most {MAX_PATTERN}): search for a part of it, or for several \
             parts one after the other"
        );
        return Err(ToolFailure::Refused(why));
    }
    let refused = |error: &dyn Error| {
        let why = error.to_string();
        let why = why.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
        ToolFailure::Refused(format!("invalid regular expression in `pattern`: {why}"))
    };
    // The matcher wraps a pattern before it parses it, accepts larger ones and names faults in another way.
    RegexBuilder::new(pattern).case_insensitive(ignore_case).build().map_err(|error| refused(&error))?;
    let mut regex = RegexMatcherBuilder::new();
    regex.case_insensitive(ignore_case).multi_line(true).dfa_size_limit(MAX_REGEX_CACHE);
    // A pattern with a line break in it is matched against each line on its own, which takes longer.
    let built = regex.line_terminator(Some(b'\n')).build(pattern);
    built.or_else(|_| regex.line_terminator(None).build(pattern)).map_err(|error| refused(&error))
}

fn glob(files: &str) -> Result<Override, ToolFailure> {
    let mut globs = OverrideBuilder::new(".");
    let built = globs.add(files.trim_start_matches('!')).and_then(|globs| globs.build());
    built.map_err(|error| ToolFailure::Refused(format!("invalid name pattern in `files`: {error}")))
}

/// The rules about secrets for one call.
struct Secrets<'a> {
    scope: &'a CallScope,
    tool: &'static str,
}

impl Secrets<'_> {
    /// Returns whether rules allow to show what this file holds.
    fn may_be_shown(&self, path: &str) -> bool {
        self.scope.of_secret(self.tool, path) == Permission::Allow
    }
}

/// The matches so far.
struct Found<'a> {
    regex: Option<RegexMatcher>,
    searcher: Searcher,
    block: Vec<u8>,
    stop: &'a Stop,
    lines: Vec<String>,
    n_files: usize,
    n_large: usize,
    n_read: u64,
    /// True if a file was not read to its end.
    is_partial: bool,
    /// The lines of the last file that are shown.
    shown: Vec<u64>,
}

impl<'a> Found<'a> {
    fn new(regex: Option<RegexMatcher>, context: usize, stop: &'a Stop) -> Self {
        // Without `bom_sniffing`, no bytes are decoded: the search for secrets reads the same ones.
        let mut searcher = SearcherBuilder::new();
        searcher.before_context(context).after_context(context).bom_sniffing(false);
        Self {
            regex,
            searcher: searcher.build(),
            block: vec![0; BLOCK],
            stop,
            lines: Vec::new(),
            n_files: 0,
            n_large: 0,
            n_read: 0,
            is_partial: false,
            shown: Vec::new(),
        }
    }

    fn is_full(&self) -> bool {
        self.lines.len() >= MAX_FOUND || self.n_read >= MAX_READ
    }

    /// Searches a file of at most `most` bytes, or so much of one that turns out to be larger.
    fn look_into(
        &mut self,
        path: &Path,
        most: u64,
        open: impl FnOnce() -> io::Result<File>,
    ) -> io::Result<()> {
        self.n_files += 1;
        self.shown.clear();
        let path = shown_name(path.strip_prefix(".").unwrap_or(path));
        let Some(regex) = &self.regex else {
            self.lines.push(path.into_owned());
            return Ok(());
        };
        let file = open()?;
        if most == MAX_FILE && file.metadata()?.len() > most {
            self.n_large += 1;
            return Ok(());
        }
        let pieces = RefCell::default();
        let mut reader = LineReader::new(file, most, self.stop, &mut self.block, &pieces);
        let lines =
            FileLines { path: &path, regex, pieces: &pieces, lines: &mut self.lines, shown: &mut self.shown };
        let searched = self.searcher.search_reader(regex, &mut reader, lines);
        self.n_read += reader.n_read();
        self.is_partial |= reader.is_cut();
        if self.stop.is_set() { Ok(()) } else { searched }
    }

    /// Returns the lines of the last file that are shown, as a secret of this kind; `None` if none is.
    fn lines_shown(&self, kind: &'static str) -> Option<FoundSecret> {
        let (first, last) = (*self.shown.first()?, *self.shown.last()?);
        Some(FoundSecret { kind, first_line: first as usize, last_line: last as usize })
    }

    /// Returns the secrets in those lines of the last file that are shown. Nothing is read if none is.
    fn secrets_shown(&self, open: impl FnOnce() -> io::Result<Option<File>>) -> io::Result<Vec<FoundSecret>> {
        let Some(last) = self.shown.last() else { return Ok(Vec::new()) };
        let Some(file) = open()? else { return Ok(Vec::new()) };
        let mut file = file.take(MAX_READ);
        let mut found = Vec::new();
        let (mut bytes, mut n_lines) = (Vec::new(), 0);
        // In parts, so that a large file is not held in memory; two of them share lines enough for a key.
        while n_lines < *last {
            let n_kept = bytes.len();
            file.by_ref().take(MAX_FILE).read_to_end(&mut bytes)?;
            if bytes.len() == n_kept {
                break;
            }
            let in_part = find_secrets(&String::from_utf8_lossy(&bytes));
            found.extend(in_part.into_iter().map(|secret| FoundSecret {
                first_line: secret.first_line + n_lines as usize,
                last_line: secret.last_line + n_lines as usize,
                ..secret
            }));
            let shared = bytes.len().saturating_sub(MAX_PIECE);
            let end = bytes[shared..].iter().position(|byte| *byte == b'\n');
            let cut = end.map_or(bytes.len(), |at| shared + at + 1);
            n_lines += bytes[..cut].iter().filter(|byte| **byte == b'\n').count() as u64;
            bytes.drain(..cut);
        }
        found.retain(|secret| {
            self.shown.iter().any(|line| (secret.first_line..=secret.last_line).contains(&(*line as usize)))
        });
        found.sort();
        found.dedup();
        Ok(found)
    }

    fn page(mut self, ended: WalkEnd, sieve: &Sieve) -> String {
        let is_cut = self.lines.len() >= MAX_FOUND;
        self.lines.truncate(MAX_FOUND);
        let files = |n: usize| format!("{n} file{}", if n == 1 { "" } else { "s" });
        let mut notes = Vec::new();
        if self.lines.is_empty() {
            notes.push(format!("nothing found in {}", files(self.n_files)));
        }
        if is_cut {
            notes.push(format!(
                "these are the first {MAX_FOUND} lines; narrow `path`, `files` or `pattern` for others"
            ));
        } else if self.stop.is_set() {
            notes
                .push("time was over before everything was looked into; narrow `path` or `files`".to_owned());
        } else if self.n_read >= MAX_READ || self.is_partial {
            notes.push(format!("only the first {} MiB were looked into", MAX_READ / 1_048_576));
        } else if ended == WalkEnd::Early {
            notes.push(
                "there are too many files, or too deep ones, to look into all; narrow `path`".to_owned(),
            );
        }
        if self.n_large > 0 {
            notes.push(format!(
                "{} over {} MiB passed over; name one as `path` to look into it",
                files(self.n_large),
                MAX_FILE / 1_048_576
            ));
        }
        notes.extend(sieve.note("file"));
        notes.extend(sieve.note_of_keys());
        notes.extend(sieve.note_of_secrets());
        if !notes.is_empty() {
            self.lines.push(format!("[{}]", notes.join("; ")));
        }
        self.lines.join("\n")
    }
}

/// The lines of one file that are shown.
struct FileLines<'a> {
    path: &'a str,
    regex: &'a RegexMatcher,
    /// The offsets at which a piece of a line starts that is not its first.
    pieces: &'a RefCell<Vec<u64>>,
    lines: &'a mut Vec<String>,
    shown: &'a mut Vec<u64>,
}

impl FileLines<'_> {
    /// Adds a line, and returns whether there is space for more.
    fn add(&mut self, searcher: &Searcher, mark: char, (n, offset): (Option<u64>, u64), text: &str) -> bool {
        let n_pieces = self.pieces.borrow().partition_point(|start| *start <= offset) as u64;
        let n = n.unwrap_or_default() - n_pieces;
        if searcher.after_context() > 0 && self.shown.last().is_some_and(|last| n > last + 1) {
            self.lines.push("--".to_owned());
        }
        self.lines.push(format!("{}{mark}{n}{mark} {text}", self.path));
        self.shown.push(n);
        self.lines.len() < MAX_FOUND
    }
}

impl Sink for FileLines<'_> {
    type Error = io::Error;

    fn matched(&mut self, searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let line = found.bytes().strip_suffix(b"\n").unwrap_or(found.bytes());
        let start = self.regex.find(line)?.map_or(0, |place| place.start());
        let place = (found.line_number(), found.absolute_byte_offset());
        Ok(self.add(searcher, ':', place, &display_line(line, start)))
    }

    fn context(&mut self, searcher: &Searcher, found: &SinkContext<'_>) -> io::Result<bool> {
        let line = found.bytes().strip_suffix(b"\n").unwrap_or(found.bytes());
        let place = (found.line_number(), found.absolute_byte_offset());
        Ok(self.add(searcher, '-', place, &display_line(line, 0)))
    }
}

/// Returns the line as text, around `place` if it is long.
fn display_line(line: &[u8], place: usize) -> String {
    let from = if line.len() > MAX_LINE { place.saturating_sub(MAX_LINE / 3) } else { 0 };
    let to = line.len().min(from + MAX_LINE);
    let text = String::from_utf8_lossy(&line[from..to]);
    let (before, after) = (if from > 0 { "…" } else { "" }, if to < line.len() { "…" } else { "" });
    format!("{before}{text}{after}")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use crate::tools::fixture::Fixture;

    #[tokio::test]
    async fn places_of_keys_are_left_out_unless_the_call_names_one() {
        let fixture = Fixture::new(&[
            (".config/gh/hosts.yml", b"needle"),
            (".config/other", b"needle"),
            (".ssh/config", b"needle"),
            ("a", b"needle"),
        ]);
        let all = ".config/other:1: needle\na:1: needle\n\
                   [2 places left out for keys: `.config/gh`, `.ssh`; name one as `path` to have the user asked]";
        fixture
            .check(
                "search",
                &[
                    (r#"{"pattern": "needle"}"#, Ok(all)),
                    (r#"{"pattern": "needle", "path": ".ssh"}"#, Ok(".ssh/config:1: needle")),
                    (
                        r#"{"pattern": "needle", "path": ".config/gh/hosts.yml"}"#,
                        Ok(".config/gh/hosts.yml:1: needle"),
                    ),
                ],
            )
            .await;
    }

    #[tokio::test]
    async fn lines_are_found_where_git_does_not_ignore_them() {
        let fixture = Fixture::new(&[
            (".gitignore", b"target/\n"),
            (".git/config", b"needle"),
            ("a.rs", b"one\nneedle here\nthree\nfour\nNEEDLE\n"),
            ("sub/b.txt", b"caf\xe9 needle\r\n"),
            ("bin", &[&[0; 200_000], &b"\nneedle\n"[..]].concat()),
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
                    (
                        r#"{"pattern": "^n.*e$", "path": "./a.rs", "ignore_case": "true"}"#,
                        Ok("a.rs:2: needle here\na.rs:5: NEEDLE"),
                    ),
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
                        Err("invalid regular expression in `pattern`: error: unclosed group"),
                    ),
                    (
                        r#"{"pattern": "a)(b"}"#,
                        Err("invalid regular expression in `pattern`: error: unopened group"),
                    ),
                    (
                        r#"{"pattern": "\\w{9}{99}{99}"}"#,
                        Err("invalid regular expression in `pattern`: Compiled regex exceeds size limit of 10485760 bytes."),
                    ),
                    (
                        r#"{"pattern": "(?=a)"}"#,
                        Err("invalid regular expression in `pattern`: error: look-around, including \
                             look-ahead and look-behind, is not supported"),
                    ),
                    (
                        &format!(r#"{{"pattern": "{}"}}"#, "a".repeat(1_001)),
                        Err("`pattern` has 1001 characters (expected at most 1000): search for a part of it, or for several parts one after the other"),
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
        let notes = "[these are the first 200 lines; narrow `path`, `files` or `pattern` for others; 1 file over 8 MiB passed \
                     over; name one as `path` to look into it]";
        assert_eq!(actual.lines().last(), Some(notes));
        let first = actual.lines().next().unwrap();
        assert!(
            first.starts_with("long:1: …xxx") && first.contains("needle") && first.ends_with("yyy…"),
            "{first}"
        );
    }

    #[tokio::test]
    async fn lines_are_counted_and_shown_as_an_editor_does() {
        let long = ["x".repeat(300_000), "needle".to_owned(), "y".repeat(300_000)].concat();
        let fixture = Fixture::new(&[
            ("crlf", b"\xef\xbb\xbffirst;\r\nsecond;\r\n\r\nlast"),
            ("long", format!("one\n{long}\nthree\nneedle").as_bytes()),
            ("rows", b"a\nb\nneedle\nc\nneedle\nd\ne\nf\ng\nneedle\n"),
        ]);
        for (arguments, expected) in [
            (r#"{"path": "crlf", "pattern": "^first;$"}"#, "crlf:1: first;"),
            (
                r#"{"path": "crlf", "pattern": ";$", "context": 1}"#,
                "crlf:1: first;\ncrlf:2: second;\ncrlf-3- ",
            ),
            (r#"{"path": "crlf", "pattern": "^$"}"#, "crlf:3: "),
            (
                r#"{"path": "rows", "pattern": "needle", "context": 1}"#,
                "rows-2- b\nrows:3: needle\nrows-4- c\nrows:5: needle\nrows-6- d\n--\nrows-9- g\nrows:10: needle",
            ),
        ] {
            assert_eq!(fixture.call("search", arguments).await.as_deref(), Ok(expected), "{arguments}");
        }
        let found = fixture.call("search", r#"{"path": "long", "pattern": "needle|three"}"#).await.unwrap();
        let lines: Vec<&str> = found.lines().collect();
        assert!(lines[0].starts_with("long:2: …xxx") && lines[0].contains("needle"), "{}", lines[0]);
        assert_eq!(lines[1..], ["long:3: three", "long:4: needle"]);
        let around = r#"{"path": "long", "pattern": "three", "context": 1}"#;
        let found = fixture.call("search", around).await.unwrap();
        let lines: Vec<&str> = found.lines().collect();
        assert!(lines[0].starts_with("long-2- yyy"), "{}", lines[0]);
        assert_eq!(lines[1..], ["long:3: three", "long-4- needle"]);
    }

    /// Checks that neither the lines around it nor the blocks that are read change what matches a line.
    #[tokio::test]
    async fn each_line_is_matched_as_if_it_were_alone() {
        let across_blocks = "x".repeat(65_534) + "\r\n\r\r\nab\r\n";
        for text in [
            "",
            "\n",
            "\r",
            "a",
            "a\n\r",
            "a\r",
            "a\rb\r\n",
            "ab\nb\n\na \n",
            "\r\r\n\na\r\nb",
            &across_blocks,
        ] {
            let fixture = Fixture::new(&[("t", text.as_bytes())]);
            for pattern in [
                "a", "^", "$", "^$", "a$", "^b", "a.b", r"a\s*b", r"\s", r"\W", "[^a]", r"\Aa", r"a\z",
                r"\Ab", "a\n", "b|\n", "(?-m)^a$", "(?s)a.*", r"\r", r"x\r", r"\ba\b",
            ] {
                let regex = regex::bytes::Regex::new(pattern).unwrap();
                let lines = text.strip_suffix('\n').unwrap_or(text).split('\n').enumerate();
                let lines = lines.map(|(n, line)| (n + 1, line.strip_suffix('\r').unwrap_or(line)));
                let found = lines.filter(|(_, line)| !text.is_empty() && regex.is_match(line.as_bytes()));
                let expected: Vec<_> = found.map(|(n, _)| format!("t:{n}")).collect();
                let arguments = serde_json::json!({"path": "t", "pattern": pattern}).to_string();
                let actual = fixture.call("search", &arguments).await.unwrap();
                let actual = actual.lines().filter_map(|line| Some(line.split_once(": ")?.0.to_owned()));
                let actual: Vec<_> = actual.collect();
                assert_eq!(actual, expected, "{pattern:?} {text:.20?}");
            }
        }
    }

    #[tokio::test]
    async fn a_large_file_that_is_named_is_looked_into() {
        let fixture = Fixture::new(&[]);
        let text = "word\n".repeat(2_000_000) + "needle\n";
        std::fs::write(fixture.root().join("large"), text).unwrap();
        let all = fixture.call("search", r#"{"pattern": "needle"}"#).await;
        let expected =
            "[nothing found in 1 file; 1 file over 8 MiB passed over; name one as `path` to look into it]";
        assert_eq!(all.as_deref(), Ok(expected));
        let named = fixture.call("search", r#"{"pattern": "needle", "path": "large"}"#).await;
        assert_eq!(named.as_deref(), Ok("large:2000001: needle"));
    }

    /// Checks that the search of an endless file ends when its caller has gone or its time is over.
    #[cfg(unix)]
    #[tokio::test]
    async fn an_endless_line_is_looked_into_for_a_time() {
        let fixture = Fixture::new(&[]).hasty(std::time::Duration::from_millis(50));
        let endless = std::fs::File::create(fixture.root().join("endless")).unwrap();
        endless.set_len(1 << 40).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&endless, "x".repeat(10_000).as_bytes(), 0).unwrap();
        let actual = fixture.call("search", r#"{"pattern": "needle", "path": "endless"}"#).await.unwrap();
        let expected = [
            "[nothing found in 1 file; time was over before everything was looked into; narrow `path` or `files`]",
            "[nothing found in 1 file; only the first 1024 MiB were looked into]",
        ];
        assert!(expected.contains(&actual.as_str()), "{actual}");
    }

    #[tokio::test]
    async fn what_is_denied_is_left_out_and_said() {
        let fixture = Fixture::new(&[
            (".env", b"needle=1\n"),
            ("a", b"needle\n"),
            ("secrets/b", b"needle\n"),
            ("sub/.env", b"needle=2\n"),
        ]);
        #[cfg(unix)]
        std::os::unix::fs::symlink(".env", fixture.root().join("link")).unwrap();
        let nowhere = "[nothing found in 0 files; 1 file left out: denied by `.env: deny`]";
        for (rules, arguments, expected) in [
            (
                r#"{"read": {".env": "deny"}}"#,
                r#"{"pattern": "needle"}"#,
                "a:1: needle\nsecrets/b:1: needle\n[2 files left out: denied by `.env: deny`]",
            ),
            (
                r#"{"*": {"secrets/**": "deny", ".env": "deny"}}"#,
                r#"{"pattern": "needle"}"#,
                "a:1: needle\n[3 files left out: denied by `.env: deny`, `secrets/**: deny`]",
            ),
            (r#"{"search": {".env": "deny"}}"#, r#"{"files": "*.env", "path": "sub"}"#, nowhere),
            (r#"{"search": {".env": "deny"}}"#, r#"{"pattern": "needle", "path": ".env"}"#, nowhere),
            #[cfg(unix)]
            (r#"{"search": {".env": "deny"}}"#, r#"{"pattern": "needle", "path": "link"}"#, nowhere),
            (r#"{"search": {".env": "deny"}}"#, r#"{"pattern": "needle", "path": "a"}"#, "a:1: needle"),
        ] {
            assert_eq!(
                fixture.call_under(rules, "search", arguments).await.as_deref(),
                Ok(expected),
                "{rules} {arguments}"
            );
        }
    }
}
