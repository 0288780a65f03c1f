//! The commits of the agent's branches: those that travel are taken into the repository of the pins.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use forge_domain::{CommitId, GitTree};

use super::agent_repository::AgentRepository;
use super::git::{Git, GitError};
use super::heads::Heads;
use super::leftovers::{Leftovers, MOST_BYTES, MOST_SEARCHED};
use super::restoring::init_with;

/// The last pin, from which the next one is made.
pub(super) struct LastPin<'a> {
    /// The repository of the pins.
    pub(super) repository: &'a Git,
    pub(super) tree: &'a GitTree,
    pub(super) heads: &'a Heads,
}

/// The commits of the agent's branches, and which of them do not travel.
pub(super) struct AgentCommits {
    /// A copy of the agent's repository, as far as its objects are new.
    copy: Git,
    /// The folders that have objects already: of the mirror, and of the pins.
    known: Vec<PathBuf>,
    /// The commits in the run's own repository, in the form by which `git rev-list` excludes them. Everyone
    /// who can read that repository has their secrets already.
    public: String,
    /// The branches as they were read last, and what of them travels.
    seen: Option<(Heads, Heads)>,
    refused: BTreeSet<CommitId>,
}

impl AgentCommits {
    /// Knows no commits yet. `copy` is the place for a copy of the agent's repository.
    pub(super) async fn new(copy: Git, mirror: &Path, pins: &Git) -> Result<Self, GitError> {
        init_with(&copy, &[mirror, pins.folder()]).await?;
        let known = vec![mirror.join("objects"), pins.folder().join("objects")];
        let public = Git::of(mirror).call(&["for-each-ref", "--format=^%(objectname)"]).await? + "\n";
        Ok(Self { copy, known, public, seen: None, refused: BTreeSet::new() })
    }

    /// Returns the branches of the agent's repository, as far as they travel. A branch whose commit does not
    /// stays at that of the last pin. The commits are in the repository of the pins then.
    pub(super) async fn heads_now(
        &mut self,
        agent: &AgentRepository,
        last: &LastPin<'_>,
        leftovers: &mut Leftovers,
    ) -> Result<Heads, GitError> {
        let Some(seen) = agent.heads() else {
            leftovers.tell_repository();
            return Ok(last.heads.clone());
        };
        if let Some((_, travel)) = self.seen.as_ref().filter(|(known, _)| *known == seen) {
            return Ok(travel.clone());
        }
        let mut is_copied = false;
        for commit in seen.commits() {
            if self.refused.contains(commit) || last.heads.commits().contains(&commit) {
                continue;
            }
            if !std::mem::replace(&mut is_copied, true) {
                agent.copy_objects(&self.copy.folder().join("objects"), &self.known)?;
            }
            if let Some(why) = self.take(commit, last, leftovers).await? {
                leftovers.tell_commit(commit.as_str(), &why);
                self.refused.insert(commit.clone());
            }
        }
        let travels = |commit: &&CommitId| !self.refused.contains(*commit);
        let kept = |(name, commit): (&String, &CommitId)| {
            let kept = Some(commit).filter(travels).or_else(|| last.heads.branches.get(name));
            kept.map(|commit| (name.clone(), commit.clone()))
        };
        let branches: BTreeMap<_, _> = seen.branches.iter().filter_map(kept).collect();
        let commit = match &seen.branch {
            Some(branch) => branches.get(branch),
            None => seen.commit.as_ref().filter(travels).or(last.heads.commit.as_ref()),
        };
        let heads = Heads { branch: seen.branch.clone(), commit: commit.cloned(), branches };
        self.seen = Some((seen, heads.clone()));
        Ok(heads)
    }

    /// Takes the commit, with all that it contains, into the repository of the pins. Returns why it does not
    /// travel, if it does not.
    async fn take(
        &self,
        commit: &CommitId,
        last: &LastPin<'_>,
        leftovers: &Leftovers,
    ) -> Result<Option<String>, GitError> {
        let from = self.copy.folder().display().to_string();
        let fetch = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", &from, commit.as_str()];
        match last.repository.call(&fetch).await {
            Ok(_) => self.fault_of(commit, last, leftovers).await,
            Err(GitError::Failed { said, .. }) => Ok(Some(format!("it cannot be read ({said})"))),
            Err(error) => Err(error),
        }
    }

    /// Returns why the new files of the commit, and of those before it, do not travel, if they do not.
    async fn fault_of(
        &self,
        commit: &CommitId,
        last: &LastPin<'_>,
        leftovers: &Leftovers,
    ) -> Result<Option<String>, GitError> {
        let of_pins = [&last.tree.base, last.tree.commit()].map(|commit| format!("^{commit}\n")).concat();
        let list = format!("{commit}\n{of_pins}{}", self.public);
        let listed = last.repository.call_with(&["rev-list", "--objects", "--stdin"], &list).await?;
        let named = listed.lines().filter_map(|line| line.split_once(' '));
        let named: Vec<(&str, &str)> = named.filter(|(_, path)| !path.is_empty()).collect();
        let ids: String = named.iter().map(|(id, _)| format!("{id}\n")).collect();
        let check = ["cat-file", "--batch-check=%(objecttype) %(objectsize)"];
        let about = last.repository.call_with(&check, &ids).await?;
        let words = |path: &str, content: Option<&[u8]>| {
            let fault = leftovers.fault_of(Path::new(path), content)?;
            Some(format!("of its file {path}, {}", fault.words()))
        };
        let mut searched = Vec::new();
        for ((id, path), about) in named.into_iter().zip(about.lines()) {
            let size = about.strip_prefix("blob ").and_then(|size| size.parse::<u64>().ok());
            let Some(size) = size else { continue };
            if let Some(why) = words(path, (size <= MOST_BYTES).then_some(b"")) {
                return Ok(Some(why));
            }
            if size <= MOST_SEARCHED as u64 {
                searched.push((id, path));
            }
        }
        let ids: Vec<&str> = searched.iter().map(|(id, _)| *id).collect();
        let mut why = None;
        let take = |at: usize, content: Vec<u8>| {
            why = why.take().or_else(|| words(searched[at].1, Some(&content)));
            Ok(())
        };
        last.repository.read_objects(&ids, take).await?;
        Ok(why)
    }
}
