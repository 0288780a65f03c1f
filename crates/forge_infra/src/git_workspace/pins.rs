//! Pins: commits of the files and branches of a run, in a repository of Forge's own.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use forge_domain::{CommitId, GitTree, RunId};

use super::WorkspaceNotice;
use super::agent_commits::{AgentCommits, LastPin};
use super::agent_repository::AgentRepository;
use super::beginning::ref_of;
use super::files::{Changes, Files};
use super::git::{Git, GitError};
use super::heads::Heads;
use super::leftovers::Leftovers;
use super::restoring::{Restored, entries_of};
use super::slot::Slot;

/// The ref of the commit that was made last, in the repository of the pins.
const LAST: &str = "refs/pins/last";

/// The pins of a run: its last one, and the means to make the next.
pub(super) struct Pins {
    run: RunId,
    tree: GitTree,
    repository: Git,
    commits: AgentCommits,
    /// The ref that leads to the pins of this slice. Each has one of its own, so that a slice that was frozen
    /// disturbs no other.
    place: String,
    /// The refs of earlier slices, which the next pin contains.
    earlier: Vec<String>,
    files: Files,
    /// The branches in the last pin.
    heads: Heads,
    leftovers: Leftovers,
    /// The file for the input of `git fast-import`.
    input: PathBuf,
}

impl Pins {
    /// Prepares pins that follow the one of `tree`, which was restored.
    pub(super) async fn new(
        run: &RunId,
        tree: GitTree,
        restored: Restored,
        slot: &Slot,
        notice: WorkspaceNotice,
    ) -> Result<Self, GitError> {
        let Restored { mut files, heads, pins, mirror } = restored;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let place = ref_of(run, &format!("{since:x}-{:x}", std::process::id()));
        let base = entries_of(&pins, &tree.base).await?.into_iter().map(|(path, ..)| path);
        let base: BTreeSet<PathBuf> = base.collect();
        files.track(base.iter().cloned());
        let commits = AgentCommits::new(Git::of(&slot.path(".agent.git")), &mirror, &pins).await?;
        let mut pins = Self {
            run: run.clone(),
            tree,
            repository: pins,
            commits,
            place,
            earlier: Vec::new(),
            files,
            heads,
            leftovers: Leftovers::new(notice, base),
            input: slot.path(".changes"),
        };
        let commit = pins.heads.commit.clone();
        pins.track(commit.as_ref()).await?;
        pins.earlier = pins.contained().await?;
        Ok(pins)
    }

    /// Returns the commit of the last pin, and what is known of the files then.
    pub(super) fn last(&self) -> (&CommitId, Vec<u8>) {
        (self.tree.commit(), self.files.known())
    }

    /// Pins the files and branches as they are now, unless they are those of the last pin.
    pub(super) async fn pin(&mut self) -> Result<GitTree, GitError> {
        let heads = self.heads_now().await?;
        let changes = self.write_input(&heads)?;
        if changes.n == 0 && heads == self.heads {
            self.files.accept(changes);
            return Ok(self.tree.clone());
        }
        let input = File::open(&self.input).map_err(GitError::io(&self.input))?;
        let import = ["fast-import", "--quiet", "--done", "--force"];
        self.repository.call_from(&import, input).await?;
        let trees = [&format!("{LAST}^{{tree}}"), &format!("{}^{{tree}}", self.tree.commit())];
        let trees = self.repository.call(&["rev-parse", trees[0], trees[1]]).await?;
        let is_same = trees.split_once('\n').is_some_and(|(made, last)| made == last);
        if !is_same || heads != self.heads {
            let pin = CommitId::try_from(self.repository.call(&["rev-parse", LAST]).await?)?;
            self.send(&pin).await?;
            self.tree.pin = Some(pin);
            self.heads = heads;
        }
        self.files.accept(changes);
        Ok(self.tree.clone())
    }

    /// Writes the commit that the next pin would be.
    fn write_input(&mut self, heads: &Heads) -> Result<Changes, GitError> {
        let file = File::create(&self.input).map_err(GitError::io(&self.input))?;
        let mut to = BufWriter::new(file);
        let header = self.header(heads);
        to.write_all(header.as_bytes()).map_err(GitError::io(&self.input))?;
        let changes = self.files.write_changes(&mut self.leftovers, &mut to)?;
        to.write_all(b"\ndone\n").and_then(|()| to.flush()).map_err(GitError::io(&self.input))?;
        Ok(changes)
    }

    fn header(&self, heads: &Heads) -> String {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let message = format!("Files of run {}\n\n{}", self.run, heads.lines());
        let last = self.tree.commit();
        let merged =
            heads.commits().into_iter().filter(|commit| *commit != last && **commit != self.tree.base);
        let merged: String = merged.map(|commit| format!("merge {commit}\n")).collect();
        format!(
            "commit {LAST}\ncommitter forge <forge@localhost> {seconds} +0000\ndata {}\n{message}\nfrom {last}\n{merged}",
            message.len(),
        )
    }

    /// Returns the branches of the agent's repository, as far as they travel. Their commits are in the
    /// repository of the pins then.
    async fn heads_now(&mut self) -> Result<Heads, GitError> {
        let Some(agent) = AgentRepository::open(self.files.root()) else {
            self.leftovers.tell_repository();
            return Ok(self.heads.clone());
        };
        let last = LastPin { repository: &self.repository, tree: &self.tree, heads: &self.heads };
        let heads = self.commits.heads_now(&agent, &last, &mut self.leftovers).await?;
        if heads.commit != self.heads.commit {
            self.track(heads.commit.as_ref()).await?;
        }
        Ok(heads)
    }

    /// Lets the files of the commit travel, even where git ignores them.
    async fn track(&mut self, commit: Option<&CommitId>) -> Result<(), GitError> {
        if let Some(commit) = commit.filter(|commit| **commit != self.tree.base) {
            let entries = entries_of(&self.repository, commit).await?;
            self.files.track(entries.into_iter().map(|(path, ..)| path));
        }
        Ok(())
    }

    /// Sends the pin to the repository that keeps it. The refs of earlier slices are not needed any more.
    async fn send(&mut self, pin: &CommitId) -> Result<(), GitError> {
        let (keeper, place) = (self.tree.keeper().as_str(), format!("+{pin}:{}", self.place));
        self.repository.call(&["push", "--quiet", "--", keeper, &place]).await?;
        if !self.earlier.is_empty() {
            let mut push = vec!["push", "--quiet", "--delete", "--", keeper];
            let earlier = std::mem::take(&mut self.earlier);
            push.extend(earlier.iter().map(String::as_str));
            // Another slice may have deleted them, and they do no harm.
            self.repository.succeeds(&push).await?;
        }
        Ok(())
    }

    /// Returns the refs of the run whose commits the next pin will contain.
    async fn contained(&self) -> Result<Vec<String>, GitError> {
        let of_run = ref_of(&self.run, "*");
        let listed = self.repository.call(&["ls-remote", "--", self.tree.keeper().as_str(), &of_run]).await?;
        let mut contained = Vec::new();
        for (commit, name) in listed.lines().filter_map(|line| line.split_once('\t')) {
            let Ok(commit) = CommitId::try_from(commit.to_owned()) else { continue };
            let below = ["merge-base", "--is-ancestor", commit.as_str(), self.tree.commit().as_str()];
            let is_there = name != self.place && self.repository.has(&commit).await?;
            if is_there && self.repository.succeeds(&below).await? {
                contained.push(name.to_owned());
            }
        }
        Ok(contained)
    }
}
