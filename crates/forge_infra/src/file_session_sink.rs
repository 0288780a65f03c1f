//! A session in one file, which at every moment holds the old session or the new one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use forge_domain::{AgentId, Conversation, SessionSink, SinkError};
use parking_lot::Mutex;

use crate::whole_file::{FilePlace, folder_of, new_beside};

/// A sink that keeps a session in one file.
///
/// Each save writes a new file beside the old one, which then replaces it, so a crash or a full disk leaves
/// the old one intact. The file keeps its permissions; a new one is readable by its owner alone, as a session
/// may hold secrets. If the path is a symbolic link when the sink is made, its target is replaced and the
/// link stays; one that appears later is refused, and so is a folder that leads elsewhere by then.
#[derive(Debug)]
pub struct FileSessionSink {
    place: FilePlace,
    encode: fn(&Conversation) -> Vec<u8>,
    n_saves: AtomicU64,
    /// The number of the newest save that was written. A save whose caller has gone still runs to its end and
    /// must not replace a newer one.
    written: Arc<Mutex<u64>>,
    /// The agent whose session is kept at the path itself; those of others are kept beside it.
    first: OnceLock<AgentId>,
}

/// The reason why a session cannot be kept at a path.
#[derive(Debug, thiserror::Error)]
pub enum RecordPathError {
    /// Something already exists there.
    #[error("{path} already exists: move it away, or name another file")]
    Exists {
        /// The path.
        path: String,
    },
    /// Nothing can be written there.
    #[error("cannot write to {path}: {source}")]
    Unwritable {
        /// The path.
        path: String,
        /// The cause.
        source: io::Error,
    },
}

impl FileSessionSink {
    /// Checks whether a new session can be kept at `path`: at most an empty file exists there, and its folder
    /// is writable. Call it before anything is sent.
    ///
    /// # Errors
    /// Fails with [`RecordPathError`] if it cannot.
    pub fn probe(path: &Path) -> Result<(), RecordPathError> {
        let named = || path.display().to_string();
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_file() && found.len() == 0 => {}
            Ok(_) => return Err(RecordPathError::Exists { path: named() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(RecordPathError::Unwritable { path: named(), source }),
        }
        match new_beside(folder_of(path)) {
            Ok(_) => Ok(()),
            Err(source) => Err(RecordPathError::Unwritable { path: named(), source }),
        }
    }

    /// Returns the place for the session of `agent`: the path itself for the first one, a file beside it for
    /// others.
    fn place_of(&self, agent: &AgentId) -> FilePlace {
        if self.first.get_or_init(|| agent.clone()) == agent {
            return self.place.clone();
        }
        let path = self.place.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let safe: String =
            agent.as_str().chars().map(|c| if c.is_alphanumeric() || c == '-' { c } else { '_' }).collect();
        self.place.beside(match path.extension() {
            Some(extension) => format!("{stem}.{safe}.{}", extension.to_string_lossy()),
            None => format!("{stem}.{safe}"),
        })
    }

    /// Creates a sink at `path`, whose folder must exist. `encode` turns a conversation into bytes.
    pub fn new(path: PathBuf, encode: fn(&Conversation) -> Vec<u8>) -> Self {
        let place = FilePlace::of(path);
        Self { place, encode, n_saves: AtomicU64::new(0), written: Arc::default(), first: OnceLock::new() }
    }
}

#[async_trait]
impl SessionSink for FileSessionSink {
    async fn save(&self, agent: &AgentId, conversation: &Conversation) -> Result<(), SinkError> {
        let bytes = (self.encode)(conversation);
        let number = self.n_saves.fetch_add(1, Ordering::Relaxed) + 1;
        let written = Arc::clone(&self.written);
        let to = self.place_of(agent);
        let place = to.path().display().to_string();
        tokio::task::spawn_blocking(move || {
            let mut newest = written.lock();
            if number > *newest {
                to.write(&bytes)?;
                *newest = number;
            }
            Ok(())
        })
        .await
        .unwrap_or_else(|panicked| Err(io::Error::other(panicked)))
        .map_err(|source| SinkError { place, source })
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use forge_domain::{ContextMessage, Message, TokenCounter, Tokens};
    use pretty_assertions::assert_eq;

    use super::*;

    struct Free;
    impl TokenCounter for Free {
        fn count(&self, _: &str) -> Tokens {
            Tokens::ZERO
        }
    }

    fn encode(conversation: &Conversation) -> Vec<u8> {
        conversation
            .messages()
            .filter_map(|message| message.message().content())
            .flat_map(|content| format!("{}\n", content.to_text()).into_bytes())
            .collect()
    }

    fn agent() -> AgentId {
        AgentId::new("one").unwrap()
    }

    #[test]
    fn every_agent_has_a_file_of_its_own() {
        for (path, expected) in
            [("a/s.json", "a/s.two_.json"), ("s", "s.two_"), ("s.tar.gz", "s.tar.two_.gz")]
        {
            let sink = FileSessionSink::new(path.into(), encode);
            assert_eq!(sink.place_of(&agent()).path(), Path::new(path));
            assert_eq!(sink.place_of(&AgentId::new("two/").unwrap()).path(), Path::new(expected));
            assert_eq!(sink.place_of(&agent()).path(), Path::new(path));
        }
    }

    fn conversation(texts: &[&str]) -> Conversation {
        let mut conversation = Conversation::new();
        for text in texts {
            conversation.append(ContextMessage::count(Message::user(*text), &Free));
        }
        conversation
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn a_save_replaces_the_file_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("session");
        let sink = FileSessionSink::new(path.clone(), encode);
        for (texts, expected) in [(vec!["a"], "a\n"), (vec!["a", "b"], "a\nb\n"), (vec![], "")] {
            sink.save(&agent(), &conversation(&texts)).await.unwrap();
            let actual = (fs::read_to_string(&path).unwrap(), names(folder.path()));
            assert_eq!(actual, (expected.to_owned(), vec!["session".to_owned()]));
        }
    }

    #[tokio::test]
    async fn a_failed_save_leaves_the_old_file_and_names_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("taken");
        fs::create_dir_all(taken.join("inside")).unwrap();
        let missing = folder.path().join("missing").join("session");
        for path in [taken, missing] {
            let sink = FileSessionSink::new(path.clone(), encode);
            let actual = sink.save(&agent(), &conversation(&["a"])).await.unwrap_err();
            let expected = format!("cannot write the session to {}", path.display());
            assert_eq!(actual.to_string(), expected);
            assert!(actual.source().is_some());
        }
        assert_eq!(names(folder.path()), ["taken"]);
        assert_eq!(names(&folder.path().join("taken")), ["inside"]);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn permissions_and_links_stay() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("session");
        let link = folder.path().join("link");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;

        FileSessionSink::new(path.clone(), encode).save(&agent(), &conversation(&["a"])).await.unwrap();
        assert_eq!(mode(&path), 0o600, "a new file is for its owner");

        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&path, &link).unwrap();
        FileSessionSink::new(link.clone(), encode).save(&agent(), &conversation(&["b"])).await.unwrap();
        assert_eq!(mode(&path), 0o640, "an old file keeps its mode");
        assert_eq!(fs::read_to_string(&path).unwrap(), "b\n");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
