//! `write`: a whole file, new or in place of the old one.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};

use cap_std::fs::{OpenOptions, Permissions};
use cap_tempfile::TempFile;
use forge_domain::{FileChange, quantity};
use serde::Deserialize;
use serde_json::{Value, json};

use super::workspace::Workspace;
use super::{FileTool, Limits, Touch, check_unchanged};
use crate::tools::arguments::Arguments;
use crate::tools::failure::ToolFailure;

pub(in crate::tools) struct Write;

#[derive(Deserialize)]
struct Wanted {
    path: String,
    content: String,
}

impl FileTool for Write {
    fn name(&self) -> &'static str {
        "write"
    }

    fn description(&self) -> String {
        "Writes a whole text file of the workspace: a new one, with the directories that it needs, or in the place of what \
         is there. To change a part of a file use `patch`."
            .to_owned()
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1, "description": "The file, relative to the root of the workspace."},
                "content": {"type": "string", "description": "All that is to stand in it."}
            },
            "required": ["path", "content"],
            "additionalProperties": false
        })
    }

    fn touch(&self, _: &Arguments) -> Touch {
        Touch::Writes
    }

    fn shows(&self) -> bool {
        false
    }

    fn preview(
        &self,
        arguments: &Arguments,
        workspace: &Workspace,
    ) -> Result<Option<FileChange>, ToolFailure> {
        let Wanted { path, content } = arguments.read()?;
        let path = resolved(workspace, path)?;
        let before = text_before(workspace, &path)?;
        Ok(Some(FileChange { path, before, after: content }))
    }

    fn run(
        &self,
        arguments: &Arguments,
        workspace: &Workspace,
        limits: &Limits,
    ) -> Result<String, ToolFailure> {
        let Wanted { path, content } = arguments.read()?;
        let _writing = workspace.writing();
        let path = resolved(workspace, path)?;
        if limits.scope.expected().is_some() {
            check_unchanged(limits, &path, text_before(workspace, &path)?.as_deref().map(str::as_bytes))?;
        }
        if workspace.has_changed(&path) {
            let why = format!("`{path}` was not written: it changed after you read it; `read` it again");
            return Err(ToolFailure::Refused(why));
        }
        let before = put(workspace, &path, content.as_bytes())?;
        limits.scope.note_outcome(format!("{} bytes", content.len()));
        let lines = quantity(content.lines().count(), "line");
        Ok(match before {
            Before::Nothing => format!("created `{path}` ({lines})"),
            Before::File { n_bytes } => {
                format!("`{path}` was {n_bytes} bytes and now has {} ({lines})", content.len())
            }
        })
    }
}

/// Returns `path` without detours through folders that do not exist, such as `new/../a`: no folder is made
/// for a detour, and the path names what is written.
fn resolved(workspace: &Workspace, path: String) -> Result<String, ToolFailure> {
    // These are refused as they are.
    if path.ends_with(['/', '\\']) || path.starts_with('~') {
        return Ok(path);
    }
    let (dir, relative) = (workspace.dir(), workspace.relative(&path));
    let is_missing = |folder: &Path| {
        let found = dir.symlink_metadata(folder);
        found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    let mut plain = PathBuf::new();
    for part in relative.components() {
        match part {
            Component::ParentDir if plain.file_name().is_some() && is_missing(&plain) => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    if plain == relative || plain.file_name().is_none() {
        return Ok(path);
    }
    match dir.metadata(&plain) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(ToolFailure::io(&path, error)),
        _ => Ok(plain.display().to_string()),
    }
}

/// Returns the text that stands at `path`; `None` if nothing does.
fn text_before(workspace: &Workspace, path: &str) -> Result<Option<String>, ToolFailure> {
    match workspace.text(path) {
        Ok(text) => Ok(Some(text)),
        Err(ToolFailure::NotFound { .. }) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// The previous content of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    Nothing,
    File { n_bytes: u64 },
}

/// Puts `bytes` at `path`, whole or not at all: a new file replaces the old one, and has its permissions. A
/// link stays and its target is replaced. The caller holds [`Workspace::writing`].
pub(super) fn put(workspace: &Workspace, path: &str, bytes: &[u8]) -> Result<Before, ToolFailure> {
    let failed = |source| ToolFailure::io(path, source);
    let Place { folder, name, before } = place(workspace, path)?;
    let place = || before.as_ref().map_or(Before::Nothing, |(n_bytes, _)| Before::File { n_bytes: *n_bytes });
    let written = std::str::from_utf8(bytes).ok();
    if let Some(written) = written.and_then(|text| workspace.write_in_editor(&folder.join(&*name), text)) {
        written.map_err(|why| ToolFailure::Refused(format!("the editor does not write `{path}`: {why}")))?;
        return Ok(place());
    }
    let dir = workspace.dir();
    let folder = if folder.as_os_str().is_empty() {
        dir.try_clone()
    } else {
        dir.create_dir_all(&folder).and_then(|()| dir.open_dir(&folder))
    };
    // From here on nothing is looked up but the one name in the folder that is open.
    let folder = folder.map_err(failed)?;
    if before.is_some() {
        // A new file takes its place, so that its own permission must be asked for.
        folder.open_with(&*name, OpenOptions::new().write(true)).map_err(failed)?;
    }
    let mut file = TempFile::new(&folder).map_err(failed)?;
    let written = || -> io::Result<()> {
        file.write_all(bytes)?;
        if let Some((_, permissions)) = &before {
            file.as_file().set_permissions(permissions.clone())?;
        }
        file.as_file().sync_all()?;
        file.replace(&name)
    };
    written().map_err(failed)?;
    workspace.note_known_now(path);
    Ok(place())
}

/// The target of a write, with links resolved as far as they lead.
struct Place {
    folder: PathBuf,
    name: Box<OsStr>,
    /// The size and permissions of the existing file.
    before: Option<(u64, Permissions)>,
}

fn place(workspace: &Workspace, path: &str) -> Result<Place, ToolFailure> {
    if path == "~" || path.starts_with("~/") {
        let why = format!("`{path}` begins with `~`, which only a shell reads as the home folder");
        return Err(ToolFailure::Refused(why));
    }
    let failed = |source| ToolFailure::io(path, source);
    let (dir, relative) = (workspace.dir(), workspace.relative(path));
    let (real, before) = match dir.metadata(relative) {
        Ok(found) if found.is_dir() => return Err(ToolFailure::Directory { path: path.to_owned() }),
        Ok(found) if !found.is_file() => return Err(ToolFailure::Special { path: path.to_owned() }),
        Ok(found) => (dir.canonicalize(relative).map_err(failed)?, Some((found.len(), found.permissions()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if dir.symlink_metadata(relative).is_ok_and(|found| found.is_symlink()) {
                let why = format!("`{path}` is a dangling link; write to its target");
                return Err(ToolFailure::Refused(why));
            }
            (relative.to_owned(), None)
        }
        Err(error) => return Err(failed(error)),
    };
    let name = match real.file_name() {
        // A slash at the end asks for a directory.
        Some(name) if !path.ends_with(['/', '\\']) => name.into(),
        _ => return Err(ToolFailure::Directory { path: path.to_owned() }),
    };
    let folder = real.parent().unwrap_or(Path::new("")).to_owned();
    Ok(Place { folder, name, before })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use crate::tools::fixture::Fixture;

    fn outside(path: &str) -> String {
        format!("`{path}` leads outside the workspace; give a path inside it, relative to its root")
    }

    #[tokio::test]
    async fn a_file_is_made_or_replaced_whole() {
        let fixture = Fixture::new(&[("a.txt", b"old\n"), ("folder/", b"")]);
        let absolute = format!(r#"{{"path": "{}", "content": "x"}}"#, fixture.root().join("abs").display());
        let made = format!("created `{}` (1 line)", fixture.root().join("abs").display());
        fixture
            .check(
                "write",
                &[
                    (
                        r#"{"path": "a.txt", "content": "new\nlines\n"}"#,
                        Ok("`a.txt` was 4 bytes and now has 10 (2 lines)"),
                    ),
                    (r#"{"path": "b/c/d.txt", "content": "é"}"#, Ok("created `b/c/d.txt` (1 line)")),
                    (r#"{"path": "empty", "content": ""}"#, Ok("created `empty` (0 lines)")),
                    (r#"{"path": "new/../plain", "content": "x"}"#, Ok("created `plain` (1 line)")),
                    (
                        r#"{"path": "new/folder/../../a.txt", "content": "new\nlines\n"}"#,
                        Ok("`a.txt` was 10 bytes and now has 10 (2 lines)"),
                    ),
                    (&absolute, Ok(&made)),
                    (
                        r#"{"path": "folder", "content": ""}"#,
                        Err("`folder` is a directory; `list` shows what is in it"),
                    ),
                    (
                        r#"{"path": "new/", "content": ""}"#,
                        Err("`new/` is a directory; `list` shows what is in it"),
                    ),
                    (
                        r#"{"path": "~/a.txt", "content": ""}"#,
                        Err("`~/a.txt` begins with `~`, which only a shell reads as the home folder"),
                    ),
                    (r#"{"path": "a.txt"}"#, Err("`content` is missing")),
                    (
                        r#"{"path": "a.txt/b", "content": ""}"#,
                        Err("cannot open `a.txt/b`: Not a directory (os error 20)"),
                    ),
                ],
            )
            .await;
        let text = |name: &str| std::fs::read_to_string(fixture.root().join(name)).unwrap();
        assert_eq!((text("a.txt").as_str(), text("b/c/d.txt").as_str()), ("new\nlines\n", "é"));
        // No half file and no other trace is left beside them.
        let names = std::fs::read_dir(fixture.root()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["a.txt", "abs", "b", "empty", "folder", "plain"]);
    }

    #[tokio::test]
    async fn what_was_changed_after_it_was_read_stays() {
        let fixture = Fixture::new(&[("a.txt", b"one\ntwo\n"), ("unread", b"one\n")]);
        let write = r#"{"path": "a.txt", "content": "ONE\n"}"#;
        let file = fixture.root().join("a.txt");
        fixture.call("read", r#"{"path": "a.txt"}"#).await.unwrap();
        std::fs::write(&file, "one\ntwo\nthree, by the user\n").unwrap();
        let refused = fixture.call("write", write).await;
        assert_eq!(
            refused,
            Err("`a.txt` was not written: it changed after you read it; `read` it again".to_owned())
        );
        assert!(std::fs::read_to_string(&file).unwrap().contains("by the user"));
        fixture.call("read", r#"{"path": "a.txt"}"#).await.unwrap();
        for _ in 0..2 {
            assert!(fixture.call("write", write).await.is_ok());
        }
        assert!(fixture.call("write", r#"{"path": "unread", "content": "x"}"#).await.is_ok());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_file_that_may_not_be_written_to_stays() {
        use std::os::unix::fs::PermissionsExt;
        let fixture = Fixture::new(&[("only-read", b"old")]);
        let file = fixture.root().join("only-read");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o444)).unwrap();
        // The administrator may write to every file.
        let may_write = std::fs::OpenOptions::new().write(true).open(&file).is_ok();
        let called = fixture.call("write", r#"{"path": "only-read", "content": "new"}"#).await;
        assert!(may_write || called.is_err_and(|why| why.contains("Permission denied")));
        let expected = if may_write { "new" } else { "old" };
        assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn nothing_is_written_outside() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let fixture = Fixture::new(&[("real.sh", b"old"), ("a/", b"")]);
        let secret = fixture.folder.path().join("secret");
        symlink("../secret", fixture.root().join("link")).unwrap();
        symlink(fixture.folder.path(), fixture.root().join("up")).unwrap();
        symlink("../made-outside", fixture.root().join("dangling")).unwrap();
        symlink("../real.sh", fixture.root().join("a/inside")).unwrap();
        std::fs::set_permissions(fixture.root().join("real.sh"), PermissionsExt::from_mode(0o755)).unwrap();
        let to = |path: &str| serde_json::json!({"path": path, "content": "planted"}).to_string();
        let absolute = secret.display().to_string();
        for path in [
            "../secret",
            "link",
            "up/secret",
            "up/new",
            "a/../../new",
            "missing/../../new",
            "a/missing/../../../new",
            "/etc/forge-planted",
            &absolute,
        ] {
            assert_eq!(fixture.call("write", &to(path)).await, Err(outside(path)), "{path}");
        }
        let dangling = fixture.call("write", &to("dangling")).await;
        assert!(dangling.is_err(), "{dangling:?}");
        assert!(!fixture.root().join("missing").exists() && !fixture.root().join("a/missing").exists());
        let names = std::fs::read_dir(fixture.folder.path()).unwrap().count();
        assert_eq!((names, std::fs::read_to_string(&secret).unwrap().as_str()), (2, "outside"));
        // A link inside stays one, and what it leads to keeps its permissions.
        let inside = fixture.call("write", &to("a/inside")).await;
        assert_eq!(inside, Ok("`a/inside` was 3 bytes and now has 7 (1 line)".to_owned()));
        let real = fixture.root().join("real.sh");
        assert_eq!(std::fs::read_to_string(&real).unwrap(), "planted");
        assert_eq!(std::fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o755);
        assert!(fixture.root().join("a/inside").is_symlink());
    }

    /// Checks that no write leaves the workspace by a folder that is a link out of it half of the time.
    #[cfg(unix)]
    #[tokio::test(flavor = "multi_thread")]
    async fn a_folder_that_becomes_a_link_leads_nowhere() {
        use std::os::unix::fs::symlink;
        use std::sync::Arc;
        use std::sync::atomic::{AtomicBool, Ordering};
        let fixture = Fixture::new(&[]);
        let (root, outside) = (fixture.root(), fixture.folder.path().join("outside"));
        std::fs::create_dir(&outside).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let racer = std::thread::spawn({
            let (over, outside, folder) = (Arc::clone(&over), outside.clone(), root.join("d"));
            move || {
                while !over.load(Ordering::Relaxed) {
                    // What the tool has made meanwhile may be in the way.
                    let _ = symlink(&outside, &folder);
                    let _ = std::fs::remove_file(&folder);
                    let _ = std::fs::create_dir_all(&folder);
                    let _ = std::fs::remove_dir_all(&folder);
                }
            }
        });
        let mut n_written = 0;
        for n in 0..400 {
            let arguments = serde_json::json!({"path": format!("d/{n}"), "content": "x"}).to_string();
            n_written += usize::from(fixture.call("write", &arguments).await.is_ok());
        }
        over.store(true, Ordering::Relaxed);
        racer.join().unwrap();
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0, "{n_written} were written inside");
    }
}
