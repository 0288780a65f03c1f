//! The files of tokens: one for each address that the user has logged in to.

use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// The folder of the tokens of MCP servers, in the user's own state.
///
/// A token belongs to an address, not to a name: a project that gives a known name to another server gets
/// nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpTokens {
    folder: PathBuf,
}

impl McpTokens {
    /// Creates the tokens in `folder`, which need not exist.
    pub const fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Returns the file for the server at `url`.
    pub fn file(&self, url: &str) -> PathBuf {
        let digest = Sha256::digest(url.as_bytes());
        let name = hex::encode(&digest[..16]);
        self.folder.join(format!("{name}.json"))
    }

    /// Forgets the token for the server at `url`; returns false if there was none.
    ///
    /// # Errors
    /// Fails with [`io::Error`] if the file cannot be removed.
    pub fn forget(&self, url: &str) -> io::Result<bool> {
        match std::fs::remove_file(self.file(url)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}
