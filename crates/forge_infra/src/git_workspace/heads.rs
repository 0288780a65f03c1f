//! The branches of the agent's own repository, which travel with its files.

use std::collections::BTreeMap;

use forge_domain::CommitId;

/// The branches of a repository, and what is checked out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Heads {
    /// The branch that is checked out, `refs/heads/…`, whether or not it has a commit; `None` if a commit is.
    pub(super) branch: Option<String>,
    /// The commit that is checked out; `None` if the branch has none yet.
    pub(super) commit: Option<CommitId>,
    /// Each branch, `refs/heads/…`, with its commit.
    pub(super) branches: BTreeMap<String, CommitId>,
}

impl Heads {
    /// Returns all commits, each once.
    pub(super) fn commits(&self) -> Vec<&CommitId> {
        let mut commits: Vec<&CommitId> = self.branches.values().chain(&self.commit).collect();
        commits.sort();
        commits.dedup();
        commits
    }

    /// Returns the lines by which [`Self::read`] knows them again.
    pub(super) fn lines(&self) -> String {
        let commit = self.commit.as_ref().map(|commit| format!("{commit}\tHEAD\n")).unwrap_or_default();
        let branch = self.branch.as_ref().map(|branch| format!("ref: {branch}\tHEAD\n")).unwrap_or_default();
        let branches = self.branches.iter().map(|(name, commit)| format!("{commit}\t{name}\n"));
        branch + &commit + &branches.collect::<String>()
    }

    /// Reads what [`Self::lines`] wrote into the message of a pin.
    pub(super) fn read(message: &str) -> Self {
        let mut heads = Self::default();
        for line in message.lines() {
            let Some((what, name)) = line.split_once('\t') else { continue };
            match (what.strip_prefix("ref: "), name) {
                (Some(branch), "HEAD") if is_branch(branch) => heads.branch = Some(branch.to_owned()),
                (None, name) => {
                    let Ok(commit) = CommitId::try_from(what.to_owned()) else { continue };
                    if name == "HEAD" {
                        heads.commit = Some(commit);
                    } else if is_branch(name) {
                        heads.branches.insert(name.to_owned(), commit);
                    }
                }
                _ => {}
            }
        }
        heads
    }
}

/// Checks whether `name` is that of a branch, as git allows it.
pub(super) fn is_branch(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("refs/heads/") else { return false };
    let is_strange = |c: char| c.is_control() || " ~^:?*[\\".contains(c);
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    !rest.contains(is_strange)
        && !rest.contains("..")
        && !rest.contains("@{")
        && !rest.starts_with('-')
        && !rest.ends_with('.')
        && rest.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn branches_are_read_as_they_were_written() {
        let id = |digit: &str| CommitId::try_from(digit.repeat(40)).unwrap();
        let branches: BTreeMap<_, _> = [("refs/heads/a/b", "a"), ("refs/heads/main", "b")]
            .map(|(name, at)| (name.to_owned(), id(at)))
            .into();
        for heads in [
            Heads {
                branch: Some("refs/heads/main".into()),
                commit: Some(id("b")),
                branches: branches.clone(),
            },
            Heads { branch: None, commit: Some(id("c")), branches },
            Heads { branch: Some("refs/heads/new".into()), ..Heads::default() },
        ] {
            assert_eq!(Heads::read(&format!("Files of run r\n\n{}", heads.lines())), heads);
        }
    }

    #[test]
    fn what_git_would_take_for_something_else_is_no_branch() {
        for (name, expected) in [
            ("refs/heads/main", true),
            ("refs/heads/a/b-1.x", true),
            ("refs/heads/ä", true),
            ("refs/foo", false),
            ("refs/heads/", false),
            ("refs/heads/-x", false),
            ("refs/heads/a b", false),
            ("refs/heads/a..b", false),
            ("refs/heads/a.lock", false),
            ("refs/heads/a/.b", false),
            ("refs/heads/main~1", false),
            ("refs/heads/main@{0}", false),
            ("refs/heads/a\nb", false),
        ] {
            assert_eq!(is_branch(name), expected, "{name}");
        }
    }
}
