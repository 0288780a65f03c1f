//! Files and branches that do not travel: secrets, and what is too large.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use forge_domain::{find_secrets, secret_by_name};

use super::WorkspaceNotice;

/// The largest file that travels, in bytes: what the usual servers of git accept.
pub(super) const MOST_BYTES: u64 = 100_000_000;
/// The largest part of a file in which secrets are looked for, in bytes.
pub(super) const MOST_SEARCHED: usize = 4 << 20;

/// The reason why a file does not travel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is a secret, or holds one, in these words.
    Secret(String),
    /// It is too large.
    Large,
}

impl Fault {
    /// Returns the fault of a file of that path, which has `content`, or too much of it.
    pub(super) fn of(path: &Path, content: Option<&[u8]>) -> Option<Self> {
        if let Some(kind) = secret_by_name(&path.to_string_lossy()) {
            return Some(Self::Secret(format!("it is {kind}")));
        }
        let Some(content) = content else { return Some(Self::Large) };
        if content.contains(&0) {
            return None;
        }
        let searched = &content[..content.len().min(MOST_SEARCHED)];
        let secret = find_secrets(&String::from_utf8_lossy(searched)).into_iter().next()?;
        Some(Self::Secret(format!("line {} has {}", secret.first_line, secret.kind)))
    }

    /// Returns it in words.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Secret(why) => why.clone(),
            Self::Large => format!("it has more than {} MB", MOST_BYTES / 1_000_000),
        }
    }
}

/// The files and branches that do not travel, each said once.
pub(super) struct Leftovers {
    notice: WorkspaceNotice,
    /// The files of the commit that the run began with: whoever has the repository has their secrets.
    base: BTreeSet<PathBuf>,
    told: BTreeSet<String>,
}

impl Leftovers {
    /// Begins with none. `base` has the files of the commit that the run began with.
    pub(super) fn new(notice: WorkspaceNotice, base: BTreeSet<PathBuf>) -> Self {
        Self { notice, base, told: BTreeSet::new() }
    }

    /// Returns why the file does not travel; `None` if it does.
    pub(super) fn fault(&mut self, path: &Path, content: Option<&[u8]>) -> Option<Fault> {
        let fault = self.fault_of(path, content)?;
        self.tell(&format!("{} does not travel with the run: {}", path.display(), fault.words()));
        Some(fault)
    }

    /// Returns the fault of a file in a commit, without telling it.
    pub(super) fn fault_of(&self, path: &Path, content: Option<&[u8]>) -> Option<Fault> {
        let fault = Fault::of(path, content)?;
        (fault == Fault::Large || !self.base.contains(path)).then_some(fault)
    }

    /// Says that the branches are not kept.
    pub(super) fn tell_repository(&mut self) {
        let text = "the workspace has no git repository of its own any more, or one in a form that cannot be \
                    read: its branches stay those of the last checkpoint";
        self.tell(text);
    }

    /// Says that a commit is not kept.
    pub(super) fn tell_commit(&mut self, commit: &str, why: &str) {
        let commit: String = commit.chars().take(10).collect();
        self.tell(&format!(
            "commit {commit} does not travel with the run, nor does what follows it: {why}; the files do"
        ));
    }

    /// Says that a file cannot be read.
    pub(super) fn tell_unread(&mut self, path: &Path, error: &io::Error) {
        self.tell(&format!("{} does not travel with the run: it cannot be read ({error})", path.display()));
    }

    fn tell(&mut self, text: &str) {
        if self.told.insert(text.to_owned()) {
            (self.notice)(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn what_does_not_travel_has_its_reason() {
        let key = format!("one\nkey = AKIA{}\n", "Z7Q2M4X5K3P6W3T6");
        for (name, content, expected) in [
            (".env", Some("A=1\n"), Some("it is an environment file")),
            ("notes.txt", Some("nothing\n"), None),
            ("keys.txt", Some(key.as_str()), Some("line 2 has an AWS access key")),
            ("binary", Some(&*format!("\0{key}")), None),
            ("huge", None, Some("it has more than 100 MB")),
        ] {
            let said = Fault::of(Path::new(name), content.map(str::as_bytes)).map(|fault| fault.words());
            assert_eq!(said.as_deref(), expected, "{name}");
        }
    }
}
