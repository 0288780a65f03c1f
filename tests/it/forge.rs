//! Runs the binary in a folder of its own, with nothing of the machine's configuration.

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use tempfile::TempDir;

/// A folder with a `forge` in it.
pub(crate) struct Forge {
    folder: TempDir,
}

/// What a command came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Forge {
    /// An empty folder.
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Writes a file into the folder.
    pub(crate) fn with_file(self, name: &str, bytes: impl AsRef<[u8]>) -> Self {
        std::fs::write(self.path(name), bytes).unwrap();
        self
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command with these arguments, to be given an environment or another folder. The files of the folder are trusted.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.wary_command(&[&["--trust"], arguments].concat())
    }

    /// The same where nobody has trusted the files of the folder.
    pub(crate) fn wary_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forge_under_test"));
        command.env_clear().env("HOME", self.folder.path()).env("NO_COLOR", "1");
        command.current_dir(self.folder.path()).args(arguments).write_stdin("");
        command
    }

    /// The same as a process of one's own, to which everything is yet to be given.
    pub(crate) fn process(&self) -> std::process::Command {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_forge_under_test"));
        command
            .env_clear()
            .env("HOME", self.folder.path())
            .env("NO_COLOR", "1")
            .current_dir(self.folder.path())
            .arg("--trust");
        command
    }

    /// Runs the command with these arguments.
    pub(crate) fn run(&self, arguments: &[&str]) -> Outcome {
        outcome(&mut self.command(arguments))
    }
}

/// Runs a command to its end.
pub(crate) fn outcome(command: &mut Command) -> Outcome {
    let output = command.output().unwrap();
    Outcome {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A file of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}
