//! The retention of checkpoints: the decision, as plain data.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

use jiff::{SignedDuration, Timestamp};

use crate::{AgentId, CheckpointInfo, CheckpointKey, CheckpointPolicy, RunId};

/// The limits of retention. If none is set, nothing is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Only in this run. Unset: in every one.
    pub run: Option<RunId>,
    /// The number of newest checkpoints to keep for each agent of a run.
    pub keep_last: Option<NonZeroUsize>,
    /// All that are older. Of a run that is held, the newest of each agent stay.
    pub max_age: Option<SignedDuration>,
    /// Whole runs, the one saved longest ago first, until the store is no larger. Runs that are held and the
    /// run saved last stay.
    pub max_bytes: Option<u64>,
}

impl Retention {
    /// Returns what `policy` deletes at the end of `run`: of the run by number, and of the whole store by age
    /// and size if the policy names the store. Empty if nothing may be deleted.
    pub fn at_end(policy: &CheckpointPolicy, run: &RunId) -> Vec<Self> {
        let of_run =
            policy.keep_last.map(|n| Self { run: Some(run.clone()), keep_last: Some(n), ..Self::default() });
        let of_store = policy.store.as_ref().map(|_| Self {
            max_age: policy.max_age.map(crate::Age::as_duration),
            max_bytes: policy.max_size.map(crate::ByteCount::as_u64),
            ..Self::default()
        });
        of_run.into_iter().chain(of_store.filter(|all| *all != Self::default())).collect()
    }

    /// Returns the checkpoints of `all` that exceed the number or the age at the time `now`, while the runs
    /// `held` are being written.
    pub fn overdue(
        &self,
        all: &[CheckpointInfo],
        held: &BTreeSet<RunId>,
        now: Timestamp,
    ) -> BTreeSet<CheckpointKey> {
        let mut by_agent: BTreeMap<(&RunId, &AgentId), Vec<&CheckpointInfo>> = BTreeMap::new();
        for info in all.iter().filter(|info| self.run.as_ref().is_none_or(|run| *run == info.run)) {
            by_agent.entry((&info.run, &info.agent)).or_default().push(info);
        }
        let is_old = |info: &CheckpointInfo| {
            self.max_age.is_some_and(|most| now.duration_since(info.created_at) > most)
        };
        let mut overdue = BTreeSet::new();
        for ((run, _), mut checkpoints) in by_agent {
            checkpoints.sort_by_key(|info| std::cmp::Reverse(info.key));
            let over_number = checkpoints.iter().skip(self.keep_last.map_or(usize::MAX, NonZeroUsize::get));
            overdue.extend(over_number.map(|info| info.key));
            let protected = usize::from(held.contains(run));
            overdue
                .extend(checkpoints.iter().skip(protected).filter(|info| is_old(info)).map(|info| info.key));
        }
        overdue
    }

    /// Returns the run to delete next if the store, `bytes` large, exceeds its size.
    pub fn oldest_over_size(
        &self,
        all: &[CheckpointInfo],
        held: &BTreeSet<RunId>,
        bytes: u64,
    ) -> Option<RunId> {
        if self.max_bytes.is_none_or(|most| bytes <= most) {
            return None;
        }
        let mut saved_last: BTreeMap<&RunId, CheckpointKey> = BTreeMap::new();
        for info in all {
            let last = saved_last.entry(&info.run).or_insert(info.key);
            *last = info.key.max(*last);
        }
        let newest = saved_last.values().max().copied();
        let may_go = saved_last.iter().filter(|(run, last)| {
            Some(**last) != newest
                && !held.contains(**run)
                && self.run.as_ref().is_none_or(|only| only == **run)
        });
        may_go.min_by_key(|(_, last)| **last).map(|(run, _)| (*run).clone())
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::{CheckpointId, CheckpointReason, Tokens};

    /// Builds a checkpoint for each pair of letters, run and agent, made an hour after the one before it.
    fn checkpoints(notation: &str) -> Vec<CheckpointInfo> {
        let made = |(n, letters): (usize, &str)| {
            let agent = AgentId::new(&letters[1..]).unwrap();
            CheckpointInfo {
                key: CheckpointKey::new(n as u64),
                id: CheckpointId::of(&agent, "x"),
                run: RunId::new(&letters[..1]).unwrap(),
                agent,
                created_at: Timestamp::UNIX_EPOCH + SignedDuration::from_hours(n as i64),
                step: "x".into(),
                reason: CheckpointReason::Iteration,
                parent: None,
                iteration: n,
                n_entries: 0,
                message_count: 0,
                estimated_tokens: Tokens::ZERO,
            }
        };
        notation.split_whitespace().enumerate().map(made).collect()
    }

    fn runs(names: &[&str]) -> BTreeSet<RunId> {
        names.iter().map(|name| RunId::new(*name).unwrap()).collect()
    }

    #[test]
    fn what_is_over_the_number_or_the_age_goes() {
        let unset = Retention::default();
        let last = |n| Retention { keep_last: NonZeroUsize::new(n), ..Retention::default() };
        let age =
            |hours| Retention { max_age: Some(SignedDuration::from_hours(hours)), ..Retention::default() };
        let all = "aX aX aY bX aX bX";
        for (name, retention, held, expected) in [
            ("nothing set", unset, &[][..], vec![]),
            ("number", last(1), &[], vec![0, 1, 3]),
            ("number, held", last(2), &["a"], vec![0]),
            ("age", age(2), &[], vec![0, 1, 2]),
            ("age of all", age(0), &[], vec![0, 1, 2, 3, 4]),
            ("age, held", age(0), &["a", "b"], vec![0, 1, 3]),
            ("one run", Retention { run: RunId::new("b").ok(), ..last(1) }, &[], vec![3]),
        ] {
            let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(5);
            let actual = retention.overdue(&checkpoints(all), &runs(held), now);
            let expected = expected.into_iter().map(CheckpointKey::new).collect();
            assert_eq!(actual, expected, "{name}");
        }
    }

    #[test]
    fn over_its_size_a_store_gives_up_the_run_saved_longest_ago() {
        for (name, bytes, held, expected) in [
            ("small enough", 100, &[][..], None),
            ("too large", 101, &[], Some("b")),
            ("held", 101, &["b"], Some("a")),
            ("only the last is free", 101, &["a", "b"], None),
        ] {
            let retention = Retention { max_bytes: Some(100), ..Retention::default() };
            let actual = retention.oldest_over_size(&checkpoints("aX bX aX cX"), &runs(held), bytes);
            assert_eq!(actual, expected.map(|run| RunId::new(run).unwrap()), "{name}");
        }
    }
}
