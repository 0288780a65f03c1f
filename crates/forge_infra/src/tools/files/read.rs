//! `read`: the text of a file, one bounded piece at a time.

use std::io::{self, BufRead, BufReader, Cursor, Read as _};

use forge_domain::{Image, ImageError, MOST_IMAGE_BYTES, OpenKey, find_secrets_after, image_type};
use serde::Deserialize;
use serde_json::{Value, json};

use super::workspace::Workspace;
use super::{FileTool, Limits, Stop, Touch};
use crate::tools::arguments::Arguments;
use crate::tools::failure::ToolFailure;

/// The most lines of one answer.
const MAX_LINES: u64 = 2_000;
/// The most bytes of one answer.
const MAX_BYTES: usize = 64 * 1_024;
/// The bytes at the beginning of a file that tell whether it is an image.
const HEAD_OF_IMAGE: u64 = 64;
/// The most bytes that are skipped before the first line, and after the shown part of a long one. Tests skip
/// less: on a loaded machine, the time limit of a call would come first.
const MAX_SKIPPED: u64 = if cfg!(test) { 8 } else { 1_024 } * 1_024 * 1_024;

pub(in crate::tools) struct Read;

#[derive(Deserialize)]
struct Wanted {
    path: String,
    offset: Option<u64>,
    limit: Option<u64>,
}

impl FileTool for Read {
    fn name(&self) -> &'static str {
        "read"
    }

    fn description(&self) -> String {
        format!(
            "Reads a text file of the workspace. Shows at most {MAX_LINES} lines or {} KiB at a time and \
             names the line to continue from. Shows an image (PNG, JPEG, GIF, WebP) as such.",
            MAX_BYTES / 1_024
        )
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1, "description": "The file, relative to the root of the workspace."},
                "offset": {"type": "integer", "minimum": 1, "description": "The first line to show; 1 if left out."},
                "limit": {"type": "integer", "minimum": 1, "description": "How many lines to show."}
            },
            "required": ["path"],
            "additionalProperties": false
        })
    }

    fn touch(&self, _: &Arguments) -> Touch {
        Touch::Reads
    }

    fn image(&self, arguments: &Arguments, workspace: &Workspace) -> Result<Option<Image>, ToolFailure> {
        let Wanted { path, .. } = arguments.read()?;
        // What is wrong with the file is told by the call itself.
        let Ok((mut file, found)) = workspace.open_file(&path) else { return Ok(None) };
        let mut bytes = Vec::new();
        let mut read = |most: u64| file.by_ref().take(most).read_to_end(&mut bytes);
        if read(HEAD_OF_IMAGE).is_err() || image_type(&bytes).is_none() {
            return Ok(None);
        }
        let most = MOST_IMAGE_BYTES as u64 + 1;
        file.take(most).read_to_end(&mut bytes).map_err(|source| ToolFailure::io(&path, source))?;
        let image = Image::read(path.as_str(), &bytes).map_err(|error| match error {
            ImageError::Bytes { name, .. } => ImageError::Bytes { name, n_bytes: found.len() },
            error => error,
        });
        image.map(Some).map_err(|error| ToolFailure::Refused(error.to_string()))
    }

    fn run(
        &self,
        arguments: &Arguments,
        workspace: &Workspace,
        limits: &Limits,
    ) -> Result<String, ToolFailure> {
        let Wanted { path, offset, limit } = arguments.read()?;
        let offset = offset.unwrap_or(1);
        let limit = limit.unwrap_or(MAX_LINES).min(MAX_LINES);
        let failed = |source| ToolFailure::io(&path, source);
        let (file, found) = workspace.open_file(&path)?;
        workspace.note_known(&path, &found);
        let file: Box<dyn BufRead> = match workspace.unsaved_text(&path) {
            Some(text) => Box::new(Cursor::new(text.into_bytes())),
            None => Box::new(BufReader::with_capacity(MAX_BYTES, file)),
        };
        let (excerpt, is_inside_key) = excerpt(file, offset, limit, &limits.stop).map_err(failed)?;
        match excerpt {
            Excerpt::Text(text) => {
                let mut found = find_secrets_after(&text, is_inside_key);
                for secret in &mut found {
                    secret.first_line += offset as usize - 1;
                    secret.last_line += offset as usize - 1;
                }
                let name = workspace.names_of(&path).pop().unwrap_or(path);
                limits.scope.note_secrets(&name, found);
                Ok(text)
            }
            Excerpt::Binary => Err(ToolFailure::Binary { path: path.clone(), n_bytes: found.len() }),
            // An empty file has a first line in everybody's eyes but a parser's.
            Excerpt::PastEnd { n_lines: 0 } if offset == 1 => Ok("[the file is empty]".to_owned()),
            Excerpt::PastEnd { n_lines } => Err(ToolFailure::PastEnd { path: path.clone(), offset, n_lines }),
            Excerpt::TooFar { n_lines, n_bytes } => {
                Err(ToolFailure::TooFar { path: path.clone(), offset, n_lines, n_bytes })
            }
        }
    }
}

/// The content of a piece of a file.
enum Excerpt {
    /// Lines as they are, with a note in brackets about what was left out.
    Text(String),
    /// Bytes that are not UTF-8 text.
    Binary,
    /// Nothing: the file ends before the piece begins.
    PastEnd { n_lines: u64 },
    /// Nothing: the piece begins beyond the bytes that are read.
    TooFar { n_lines: u64, n_bytes: u64 },
}

/// A reader that skips lines, up to a number of bytes and until it is told to stop.
struct Skipper<'a, R> {
    file: R,
    n_skipped: u64,
    stop: &'a Stop,
    piece: Vec<u8>,
    /// The private key that begins in the skipped lines, if any.
    open_key: OpenKey,
}

/// The outcome of skipping a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skipped {
    /// The whole line was skipped.
    Line,
    /// The file has ended.
    Nothing,
    /// The end of the line is too far away.
    Part,
}

impl<R: BufRead> Skipper<'_, R> {
    fn skip_line(&mut self) -> io::Result<Skipped> {
        let mut skipped = Skipped::Nothing;
        loop {
            if self.stop.is_set() || self.n_skipped >= MAX_SKIPPED {
                return Ok(Skipped::Part);
            }
            self.piece.clear();
            let n = self.file.by_ref().take(MAX_BYTES as u64).read_until(b'\n', &mut self.piece)?;
            self.n_skipped += n as u64;
            self.open_key.pass(&self.piece);
            match n {
                0 => return Ok(skipped),
                _ if self.piece.ends_with(b"\n") => return Ok(Skipped::Line),
                _ => skipped = Skipped::Line,
            }
        }
    }
}

/// Returns `limit` lines from line `offset`, as far as they fit, and whether they begin inside a private key.
/// It holds no more than one answer in memory.
fn excerpt(file: impl BufRead, offset: u64, limit: u64, stop: &Stop) -> io::Result<(Excerpt, bool)> {
    let mut skipper = Skipper { file, n_skipped: 0, stop, piece: Vec::new(), open_key: OpenKey::default() };
    for n_lines in 0..offset - 1 {
        let end = match skipper.skip_line()? {
            Skipped::Line => continue,
            Skipped::Nothing => Excerpt::PastEnd { n_lines },
            Skipped::Part => Excerpt::TooFar { n_lines, n_bytes: skipper.n_skipped },
        };
        return Ok((end, false));
    }
    let is_inside_key = skipper.open_key.is_open();
    Ok((lines(skipper, offset, limit)?, is_inside_key))
}

/// Returns the next `limit` lines, of which the first is line `offset`.
fn lines(mut skipper: Skipper<'_, impl BufRead>, offset: u64, limit: u64) -> io::Result<Excerpt> {
    let mut bytes = Vec::new();
    let mut n_shown = 0;
    let mut line = Vec::new();
    while n_shown < limit {
        line.clear();
        // One byte more than fits tells a line that fits from one that does not.
        let n_read = skipper.file.by_ref().take(MAX_BYTES as u64 + 1).read_until(b'\n', &mut line)?;
        if n_read == 0 {
            break;
        }
        if n_read > MAX_BYTES && n_shown == 0 {
            return long_line(skipper, line, offset);
        }
        if bytes.len() + n_read > MAX_BYTES {
            return Ok(text_of(bytes, Some((offset, offset + n_shown))));
        }
        bytes.extend_from_slice(&line);
        n_shown += 1;
    }
    if n_shown == 0 {
        return Ok(Excerpt::PastEnd { n_lines: offset - 1 });
    }
    let more_follows = !skipper.file.fill_buf()?.is_empty();
    Ok(text_of(bytes, more_follows.then_some((offset, offset + n_shown))))
}

/// Returns the shown bytes as text; `left_out` has the first line shown and the first one not shown.
fn text_of(bytes: Vec<u8>, left_out: Option<(u64, u64)>) -> Excerpt {
    let Some(mut text) = text(bytes) else { return Excerpt::Binary };
    if let Some((from, next)) = left_out {
        text.push_str(&format!(
            "[lines {from} to {} of a longer file; continue with offset {next}]",
            next - 1
        ));
    }
    Excerpt::Text(text)
}

/// Returns the beginning of line `number`, which alone exceeds an answer.
fn long_line(mut skipper: Skipper<'_, impl BufRead>, mut line: Vec<u8>, number: u64) -> io::Result<Excerpt> {
    // Its end may be the one byte that was too much.
    let has_ended = line.ends_with(b"\n");
    line.truncate(MAX_BYTES);
    if let Err(error) = std::str::from_utf8(&line)
        && error.error_len().is_none()
    {
        // Only the last character was cut in two.
        line.truncate(error.valid_up_to());
    }
    let n_shown = line.len();
    let Some(mut text) = text(line) else { return Ok(Excerpt::Binary) };
    skipper.n_skipped = 0;
    let rest = if has_ended { Skipped::Line } else { skipper.skip_line()? };
    text.push_str(&format!("\n[line {number} is too long: its first {n_shown} bytes"));
    if rest == Skipped::Part {
        let n_mib = skipper.n_skipped / 1_048_576;
        text.push_str(&format!("; its end is more than {n_mib} MiB away"));
    } else if !skipper.file.fill_buf()?.is_empty() {
        text.push_str(&format!("; continue with offset {}", number + 1));
    }
    text.push_str("; `search` with this `path` shows what is around a match in it]");
    Ok(Excerpt::Text(text))
}

fn text(bytes: Vec<u8>) -> Option<String> {
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::tools::fixture::Fixture;

    #[tokio::test]
    async fn the_lines_asked_for_are_shown_and_the_rest_is_named() {
        let fixture =
            Fixture::new(&[("a.txt", b"one\ntwo\r\nthree\n"), ("b.txt", b"no newline"), ("c.txt", b"")]);
        let inside = format!(r#"{{"path": "{}"}}"#, fixture.root().join("b.txt").display());
        fixture
            .check(
                "read",
                &[
                    (r#"{"path": "a.txt"}"#, Ok("one\ntwo\r\nthree\n")),
                    (r#"{"path": "./a.txt", "offset": 3}"#, Ok("three\n")),
                    (
                        r#"{"path": "a.txt", "limit": 1}"#,
                        Ok("one\n[lines 1 to 1 of a longer file; continue with offset 2]"),
                    ),
                    (r#"{"path": "a.txt", "offset": 2, "limit": 2}"#, Ok("two\r\nthree\n")),
                    (r#"{"path": "a.txt", "offset": 4}"#, Err("`a.txt` has no line 4: it has 3")),
                    (r#"{"path": "a.txt", "offset": 9}"#, Err("`a.txt` has no line 9: it has 3")),
                    (r#"{"path": "b.txt"}"#, Ok("no newline")),
                    (&inside, Ok("no newline")),
                    (r#"{"path": "c.txt"}"#, Ok("[the file is empty]")),
                    ("{}", Err("`path` is missing")),
                    (
                        r#"{"pth": "a.txt"}"#,
                        Err(
                            "unknown argument `pth` (expected one of path, offset, limit); `path` is missing",
                        ),
                    ),
                ],
            )
            .await;
    }

    #[tokio::test]
    async fn what_is_no_text_inside_the_workspace_is_refused() {
        let fixture = Fixture::new(&[("zero", b"a\0b"), ("latin", b"caf\xe9\n"), ("folder/", b"")]);
        let outside = fixture.folder.path().join("secret").display().to_string();
        let absolute = format!(r#"{{"path": "{outside}"}}"#);
        let refused = |path: &str| {
            format!("`{path}` leads outside the workspace; give a path inside it, relative to its root")
        };
        let no_text = |path: &str, n_bytes: usize| {
            format!(
                "`{path}` is not UTF-8 text and cannot be shown ({n_bytes} bytes); if it is text in another \
                 encoding, `iconv` in a shell converts it"
            )
        };
        let by_root = fixture.root().join("../secret").display().to_string();
        fixture
            .check(
                "read",
                &[
                    (r#"{"path": "zero"}"#, Err(&no_text("zero", 3))),
                    (r#"{"path": "latin"}"#, Err(&no_text("latin", 5))),
                    (r#"{"path": "folder"}"#, Err("`folder` is a directory; `list` shows what is in it")),
                    (
                        r#"{"path": "gone"}"#,
                        Err("there is no `gone` in the workspace; `list` shows what is there"),
                    ),
                    (r#"{"path": "../secret"}"#, Err(&refused("../secret"))),
                    (r#"{"path": "folder/../../secret"}"#, Err(&refused("folder/../../secret"))),
                    (&absolute, Err(&refused(&outside))),
                    (&format!(r#"{{"path": "{by_root}"}}"#), Err(&refused(&by_root))),
                ],
            )
            .await;
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn links_are_followed_inside_only() {
        use std::os::unix::fs::symlink;
        let fixture = Fixture::new(&[("a.txt", b"one\n")]);
        symlink("a.txt", fixture.root().join("inside")).unwrap();
        symlink("../secret", fixture.root().join("outside")).unwrap();
        symlink(fixture.folder.path(), fixture.root().join("up")).unwrap();
        let refused = |path: &str| {
            format!("`{path}` leads outside the workspace; give a path inside it, relative to its root")
        };
        fixture
            .check(
                "read",
                &[
                    (r#"{"path": "inside"}"#, Ok("one\n")),
                    (r#"{"path": "outside"}"#, Err(&refused("outside"))),
                    (r#"{"path": "up/secret"}"#, Err(&refused("up/secret"))),
                ],
            )
            .await;
    }

    #[test]
    fn an_answer_is_bounded_in_lines_and_in_bytes() {
        let short = "x\n".repeat(2_001);
        let wide = format!("{}\n", "y".repeat(40_000)).repeat(2);
        // An odd number of bytes before it makes the cut fall into an é.
        let long = format!("a{}\nlast\n", "é".repeat(40_000));
        let note = |text: &str, offset| {
            let excerpt = excerpt(text.as_bytes(), offset, MAX_LINES, &Stop::default());
            let (Excerpt::Text(text), _) = excerpt.unwrap() else { panic!() };
            assert!(text.len() < MAX_BYTES + 200);
            text.lines().last().unwrap().to_owned()
        };
        for (text, offset, expected) in [
            (&short, 1, "[lines 1 to 2000 of a longer file; continue with offset 2001]"),
            (&short, 2, "x"),
            (&wide, 1, "[lines 1 to 1 of a longer file; continue with offset 2]"),
            (
                &long,
                1,
                "[line 1 is too long: its first 65535 bytes; continue with offset 2; `search` with this \
                 `path` shows what is around a \
                 match in it]",
            ),
            (&long, 2, "last"),
        ] {
            assert_eq!(note(text, offset), expected);
        }
    }

    /// Checks that an endless file can be read near its beginning, and causes an error beyond the limit.
    #[cfg(unix)]
    #[tokio::test]
    async fn a_file_without_an_end_is_read_in_part() {
        use std::os::unix::fs::FileExt;
        let fixture = Fixture::new(&[]);
        let endless = std::fs::File::create(fixture.root().join("endless")).unwrap();
        endless.set_len(1 << 40).unwrap();
        endless.write_all_at(b"one\ntwo\n", 0).unwrap();
        endless.write_all_at("x".repeat(100_000).as_bytes(), 8).unwrap();
        let read = async |offset: u64, limit: u64| {
            fixture
                .call(
                    "read",
                    &serde_json::json!({"path": "endless", "offset": offset, "limit": limit}).to_string(),
                )
                .await
        };
        assert_eq!(read(1, 1).await.unwrap(), "one\n[lines 1 to 1 of a longer file; continue with offset 2]");
        let third = read(3, 1).await.unwrap();
        let note = "\n[line 3 is too long: its first 65536 bytes; its end is more than 8 MiB away; `search` with this `path` shows \
                    what is around a match in it]";
        assert!(third.starts_with("xxx") && third.ends_with(note), "{}", &third[third.len() - 200..]);
        let expected = "line 4 of `endless` was not reached: its first 8 MiB have 2 whole lines; it is too large to be read by lines, \
                        `search` with this `path` finds places in it";
        assert_eq!(read(4, 1).await.unwrap_err(), expected);
        // When time is over, the same with what was read until then.
        let hasty = fixture.hasty(std::time::Duration::ZERO);
        let actual = hasty.call("read", r#"{"path": "endless", "offset": 4}"#).await.unwrap_err();
        assert!(actual.starts_with("line 4 of `endless` was not reached: its first "), "{actual}");
    }

    /// Checks that files that would block their reader are not opened.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn what_is_no_file_is_refused() {
        let fixture = Fixture::new(&[]);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            fixture.root().join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        std::os::unix::fs::symlink("pipe", fixture.root().join("to-pipe")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(fixture.root().join("socket")).unwrap();
        for path in ["pipe", "to-pipe", "socket"] {
            let what = serde_json::json!({"path": path, "pattern": "x"});
            let expected = format!("`{path}` is neither a file nor a directory");
            for (tool, arguments) in [
                ("read", serde_json::json!({"path": path})),
                ("search", what),
                ("write", serde_json::json!({"path": path, "content": ""})),
                ("patch", serde_json::json!({"path": path, "edits": [{"old_text": "a", "new_text": "b"}]})),
            ] {
                assert_eq!(fixture.call(tool, &arguments.to_string()).await, Err(expected.clone()), "{tool}");
            }
        }
        assert_eq!(
            fixture.call("search", r#"{"pattern": "x"}"#).await.as_deref(),
            Ok("[nothing found in 0 files]")
        );
        assert_eq!(fixture.call("list", "{}").await.as_deref(), Ok("pipe\nsocket\nto-pipe"));
    }
}
