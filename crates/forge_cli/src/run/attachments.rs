//! Files that a task names with an `@`: their text is added to the task.

use std::fs;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use forge_domain::{find_secrets, quantity, secret_by_name};

use crate::attached_images::is_image;
use crate::mentions::mentions;
use crate::output::visible;
use crate::redaction::secret_behind;

/// Most bytes of one file, and of all files of a task.
const MOST_OF_ONE: usize = 64 << 10;
const MOST_OF_ALL: usize = 256 << 10;
/// Most bytes of a file that is read at all.
const MOST_READ: u64 = 16 << 20;
/// Most names of a folder.
const MOST_NAMES: usize = 200;

/// The files that a task names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attached {
    /// The text to add to the task.
    pub(crate) added: String,
    /// Notes on the files for the user.
    pub(crate) notes: Vec<String>,
}

/// Returns the text of each file that `task` names as `@PATH`. Of a folder, its names are added.
/// A word with an `@` that is not a path stays what it is.
pub(crate) fn attach_files(task: &str) -> Attached {
    attach_from(task, Path::new("."), std::env::var_os("HOME").map(PathBuf::from).as_deref())
}

fn attach_from(task: &str, folder: &Path, home: Option<&Path>) -> Attached {
    let mut attached = Attached::default();
    let mut room = MOST_OF_ALL;
    let mut seen: Vec<String> = Vec::new();
    for word in mentions(task) {
        let Some((name, path)) = resolve(&word, folder, home) else {
            let note = missing_note(&word, folder).filter(|note| !attached.notes.contains(note));
            attached.notes.extend(note);
            continue;
        };
        // Images are attached as what they are.
        if seen.contains(&name) || is_image(&name) {
            continue;
        }
        let by_name = secret_by_name(&name).or_else(|| secret_behind(&path)).filter(|_| path.is_file());
        let text = match (by_name, place_outside(&name, &path, folder)) {
            (Some(kind), _) => Err(format!("it is {kind}; let the agent read it, which asks you first")),
            (None, Some(outside)) => {
                let outside = visible(&outside.display().to_string());
                Err(format!("it leads out of this folder; name the file itself if you mean it: @{outside}"))
            }
            (None, None) => text_of(&path, room.min(MOST_OF_ONE)),
        };
        match text {
            Ok(Text { text, note }) => {
                room = room.saturating_sub(text.len());
                // A file cannot end its own block.
                let text = text.replace("</file>", "<\\/file>");
                let end = if text.ends_with('\n') { "" } else { "\n" };
                attached.added += &format!("\n\n<file path=\"{}\">\n{text}{end}</file>", visible(&name));
                attached.notes.extend(note.map(|note| format!("@{}: {note}", visible(&name))));
            }
            Err(why) => attached.notes.push(format!("@{} is not added: {why}", visible(&name))),
        }
        seen.push(name);
    }
    attached
}

/// The punctuation that may follow a path.
const AFTER: [char; 12] = ['.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '"', '\''];

/// Returns the note on a word that names no file; `None` if it may not be meant as one, such as a user's name
/// or a package.
fn missing_note(word: &str, folder: &Path) -> Option<String> {
    let name = word.trim_end_matches(AFTER);
    let path = Path::new(name);
    let has_ending = path
        .extension()
        .and_then(|ending| ending.to_str())
        .is_some_and(|ending| ending.len() <= 4 && ending.starts_with(|c: char| c.is_ascii_lowercase()));
    let first = path.components().next().filter(|first| matches!(first, Component::Normal(_)));
    let is_below = path.components().count() > 1 && first.is_some_and(|first| folder.join(first).is_dir());
    (has_ending || is_below).then(|| format!("@{} is not added: there is no such file", visible(name)))
}

/// Returns the path that a word names, and the word without the punctuation after it; `None` if there is no
/// such file.
fn resolve(word: &str, folder: &Path, home: Option<&Path>) -> Option<(String, PathBuf)> {
    let mut word = word;
    loop {
        let path = match (word.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => folder.join(word),
        };
        if path.exists() {
            return Some((word.to_owned(), path));
        }
        word = word.strip_suffix(AFTER)?;
        if word.is_empty() {
            return None;
        }
    }
}

/// Returns where a name in this folder really leads, if links take it out of the folder: the user did not
/// choose that place.
fn place_outside(name: &str, path: &Path, folder: &Path) -> Option<PathBuf> {
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if name.starts_with('~') || !Path::new(name).components().all(is_plain) {
        return None;
    }
    let (place, folder) = (path.canonicalize().ok()?, folder.canonicalize().ok()?);
    (!place.starts_with(&folder)).then_some(place)
}

/// The text that is added of a file.
struct Text {
    text: String,
    note: Option<String>,
}

/// Returns at most `most` bytes of a file's text, or the names of a folder.
///
/// # Errors
/// The reason, in words, if there is no text to add.
fn text_of(path: &Path, most: usize) -> Result<Text, String> {
    if path.is_dir() {
        return names_in(path).map_err(|error| error.to_string());
    }
    if !path.is_file() {
        return Err("it is neither a file nor a folder".to_owned());
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(MOST_READ + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MOST_READ {
        return Err("it is larger than 16 MiB; the agent can read parts of it".to_owned());
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
    if text.contains('\0') {
        return Err("it is not text".to_owned());
    }
    if let Some(secret) = find_secrets(&text).first() {
        return Err(format!(
            "it holds {} in line {}; let the agent read it, which asks you first",
            secret.kind, secret.first_line
        ));
    }
    if text.len() <= most {
        return Ok(Text { text, note: None });
    }
    let end = text.floor_char_boundary(most);
    let (end, left) = match text[..end].rfind('\n') {
        Some(line) => (line + 1, quantity(text[line + 1..].lines().count(), "line")),
        None => (end, quantity(text.len() - end, "byte")),
    };
    let kept = format!("{}[{left} left out: read the file]\n", &text[..end]);
    Ok(Text { text: kept, note: Some(format!("{left} left out; the agent can read the file")) })
}

fn names_in(path: &Path) -> std::io::Result<Text> {
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let mark = if entry.file_type().is_ok_and(|kind| kind.is_dir()) { "/" } else { "" };
        names.push(format!("{}{mark}", entry.file_name().to_string_lossy()));
    }
    names.sort();
    let more = names.len().saturating_sub(MOST_NAMES);
    names.truncate(MOST_NAMES);
    if more > 0 {
        names.push(format!("[{more} more]"));
    }
    Ok(Text { text: names.join("\n") + "\n", note: None })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_file_that_a_task_names_is_added() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
        fs::create_dir(folder.path().join("src")).unwrap();
        write("src/a.rs", b"fn a() {}\n");
        write("b", b"no end </file>");
        write("my notes", b"n\n");
        write("picture.bin", b"\x89PNG\0");
        write(".env", b"A=b\n");
        write("notes.txt", format!("a\ntoken = sk-{}\n", "a1B2c3D4".repeat(6)).as_bytes());
        write("long", "a line\n".repeat(20_000).as_bytes());
        let attach = |task: &str| attach_from(task, folder.path(), Some(folder.path()));
        for (task, added) in [
            ("mail me@src/a.rs or @nobody", ""),
            ("@ alone", ""),
            ("see @src/a.rs, and (@src/a.rs).", "\n\n<file path=\"src/a.rs\">\nfn a() {}\n</file>"),
            ("@b?", "\n\n<file path=\"b\">\nno end <\\/file>\n</file>"),
            ("@\"my notes\"", "\n\n<file path=\"my notes\">\nn\n</file>"),
            (r"@my\ notes", "\n\n<file path=\"my notes\">\nn\n</file>"),
            ("@~/b", "\n\n<file path=\"~/b\">\nno end <\\/file>\n</file>"),
            ("what is in @src", "\n\n<file path=\"src\">\na.rs\n</file>"),
        ] {
            let expected = Attached { added: added.to_owned(), notes: Vec::new() };
            assert_eq!(attach(task), expected, "{task}");
        }
        for task in ["@nobody", "@types/node", "@app.route(x)", "@v1.2", "@home.ORG"] {
            assert_eq!(attach(task), Attached::default(), "{task}");
        }
        for (task, note) in [
            ("@nope.md and @nope.md.", "@nope.md is not added: there is no such file"),
            ("@src/nope", "@src/nope is not added: there is no such file"),
            ("@picture.bin", "@picture.bin is not added: it is not text"),
            ("@.env", "@.env is not added: it is an environment file; let the agent read it"),
            ("@notes.txt", "@notes.txt is not added: it holds an API key in line 2"),
        ] {
            let Attached { added, notes } = attach(task);
            assert_eq!(added, "");
            assert!(notes.len() == 1 && notes[0].starts_with(note), "{notes:?}");
        }
        #[cfg(unix)]
        for (link, target) in [("readme.md", ".env"), ("folder", ".")] {
            std::os::unix::fs::symlink(target, folder.path().join(link)).unwrap();
        }
        #[cfg(unix)]
        for named in ["readme.md", "folder/readme.md", "folder/.env"] {
            let Attached { added, notes } = attach(&format!("@{named}"));
            assert_eq!(added, "", "{named}");
            assert!(notes[0].contains("it is an environment file"), "{notes:?}");
        }
        #[cfg(unix)]
        {
            let elsewhere = tempfile::tempdir().unwrap();
            fs::write(elsewhere.path().join("config"), "password: hunter2\n").unwrap();
            std::os::unix::fs::symlink(elsewhere.path().join("config"), folder.path().join("NOTES.md"))
                .unwrap();
            std::os::unix::fs::symlink(elsewhere.path(), folder.path().join("docs")).unwrap();
            for named in ["@NOTES.md", "@docs/config", "@docs"] {
                let Attached { added, notes } = attach(named);
                assert_eq!(added, "", "{named}");
                assert!(notes[0].contains("it leads out of this folder"), "{notes:?}");
            }
            let named = attach(&format!("@{}", elsewhere.path().join("config").display()));
            assert!(named.added.contains("hunter2"), "{named:?}");
        }
        let huge = fs::File::create(folder.path().join("huge")).unwrap();
        huge.set_len(MOST_READ + 1).unwrap();
        assert!(attach("@huge").notes[0].contains("larger than 16 MiB"));
        write("line", "x".repeat(MOST_OF_ONE + 9).as_bytes());
        assert_eq!(attach("@line").notes, ["@line: 9 bytes left out; the agent can read the file"]);
        let long = attach("@long");
        assert!(
            long.added.len() < MOST_OF_ONE + 200 && long.added.contains("lines left out"),
            "{:?}",
            long.notes
        );
    }
}
