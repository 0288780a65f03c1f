//! The agent's own repository. Its settings may name commands, and its parts may be links to other
//! repositories, so git is never called in it: its refs are read here, and its objects are copied into a
//! repository of Forge's own, through the handle of the workspace, which leads nowhere else.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;
use forge_domain::CommitId;

use super::git::GitError;
use super::heads::{Heads, is_branch};
use crate::tools::open_entry;

/// The most bytes of a file with refs.
const MOST_OF_REFS: u64 = 16 << 20;
/// The deepest folder of branches.
const DEEPEST: usize = 16;
/// The most branches.
const MOST_BRANCHES: usize = 10_000;

/// The agent's repository, open through the handle of its workspace.
pub(super) struct AgentRepository {
    /// The folder `.git`.
    dir: Dir,
}

impl AgentRepository {
    /// Opens the repository of the workspace; `None` if the workspace has no folder `.git`.
    pub(super) fn open(workspace: &Dir) -> Option<Self> {
        let found = workspace.symlink_metadata(".git").ok().filter(cap_std::fs::Metadata::is_dir);
        found.and_then(|_| workspace.open_dir(".git").ok()).map(|dir| Self { dir })
    }

    /// Reads the branches and what is checked out; `None` if they are in a form that is not known here.
    pub(super) fn heads(&self) -> Option<Heads> {
        let mut branches = BTreeMap::new();
        if let Some(packed) = text_of(&self.dir, "packed-refs") {
            for line in packed.lines() {
                if let Some((commit, name)) = line.split_once(' ')
                    && is_branch(name)
                    && let Ok(commit) = CommitId::try_from(commit.to_owned())
                {
                    branches.insert(name.to_owned(), commit);
                }
            }
        }
        if let Ok(dir) = self.dir.open_dir("refs/heads") {
            add_branches(&dir, "refs/heads", DEEPEST, &mut branches);
        }
        let head = text_of(&self.dir, "HEAD")?;
        let head = head.trim();
        let (branch, commit) = match head.strip_prefix("ref: ") {
            // A repository with another store of refs (reftable) has a placeholder here.
            Some(branch) if is_branch(branch) => (Some(branch.to_owned()), branches.get(branch).cloned()),
            Some(other) => (None, self.resolve(other)),
            None => (None, CommitId::try_from(head.to_owned()).ok()),
        };
        (branch.is_some() || commit.is_some()).then_some(Heads { branch, commit, branches })
    }

    fn resolve(&self, name: &str) -> Option<CommitId> {
        text_of(&self.dir, name).and_then(|text| CommitId::try_from(text.trim().to_owned()).ok())
    }

    /// Copies the objects that `to`, the folder of objects of another repository, and the folders of `known`
    /// ones do not have.
    pub(super) fn copy_objects(&self, to: &Path, known: &[PathBuf]) -> Result<(), GitError> {
        let Ok(objects) = self.dir.open_dir("objects") else { return Ok(()) };
        let names = |dir: &Dir| -> Vec<String> {
            let entries = dir.entries().into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
        };
        let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        for folder in names(&objects) {
            let is_loose = folder.len() == 2 && is_hex(&folder);
            if !is_loose && folder != "pack" {
                continue;
            }
            let Ok(dir) = objects.open_dir(&folder) else { continue };
            for name in names(&dir) {
                let is_object = match is_loose {
                    true => is_hex(&name),
                    false => name.starts_with("pack-") && (name.ends_with(".pack") || name.ends_with(".idx")),
                };
                let is_known = known.iter().any(|objects| objects.join(&folder).join(&name).exists());
                let target = to.join(&folder).join(&name);
                if is_object && !is_known && !target.exists() {
                    copy(&dir, &name, &target)?;
                }
            }
        }
        Ok(())
    }
}

/// Copies a regular file; anything else is left out. It appears whole.
fn copy(dir: &Dir, name: &str, target: &Path) -> Result<(), GitError> {
    let Ok(mut file) = open_entry(dir, OsStr::new(name)) else { return Ok(()) };
    let folder = target.parent().unwrap_or(target);
    std::fs::create_dir_all(folder).map_err(GitError::io(folder))?;
    let mut copy = tempfile::NamedTempFile::new_in(folder).map_err(GitError::io(folder))?;
    io::copy(&mut file, &mut copy).map_err(GitError::io(target))?;
    copy.persist(target).map_err(|error| GitError::io(target)(error.error))?;
    Ok(())
}

fn add_branches(dir: &Dir, below: &str, depth: usize, branches: &mut BTreeMap<String, CommitId>) {
    for entry in dir.entries().into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = format!("{below}/{name}");
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 0 => {
                if let Ok(dir) = entry.open_dir() {
                    add_branches(&dir, &path, depth - 1, branches);
                }
            }
            Ok(kind) if kind.is_file() && is_branch(&path) && branches.len() < MOST_BRANCHES => {
                let commit =
                    text_of(dir, &name).and_then(|text| CommitId::try_from(text.trim().to_owned()).ok());
                branches.extend(commit.map(|commit| (path, commit)));
            }
            _ => {}
        }
    }
}

fn text_of(dir: &Dir, name: &str) -> Option<String> {
    let (folder, name) = name.rsplit_once('/').map_or((None, name), |(folder, name)| (Some(folder), name));
    let below = folder.map(|folder| dir.open_dir(folder)).transpose().ok()?;
    let mut text = String::new();
    let file = open_entry(below.as_ref().unwrap_or(dir), OsStr::new(name)).ok()?;
    file.take(MOST_OF_REFS).read_to_string(&mut text).ok()?;
    Some(text)
}
