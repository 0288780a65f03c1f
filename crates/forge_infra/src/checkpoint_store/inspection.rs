//! The check of everything in a store of rows: each line is read once, even if many checkpoints contain it.

use std::collections::{BTreeMap, HashMap, HashSet};

use forge_domain::{CheckpointInfo, LogReader};

use super::record::{Press, Row, number};

/// The number of lines that are read at once.
const CHUNK: i64 = 256;

/// A stretch of a log: branch, first position, and the one after the last.
pub(super) type Stretch = (i64, i64, i64);

/// A branch as stored in its row.
pub(super) struct Branch {
    pub(super) id: i64,
    pub(super) parent: Option<i64>,
    pub(super) forked_at: i64,
}

/// The columns of a checkpoint's row that [`CheckpointInfo`] lacks.
pub(super) struct State {
    pub(super) key: i64,
    pub(super) branch: i64,
    /// The id of its configuration, and whether the store has it.
    pub(super) configuration: (i64, bool),
    pub(super) state: Vec<u8>,
}

/// A check of a store's logs. The store reads the lines that [`Self::next`] asks for and hands them to
/// [`Self::take`]. The work is proportional to the lines and the checkpoints.
pub(super) struct Inspection {
    infos: Vec<CheckpointInfo>,
    /// The fault of each damaged checkpoint, by its number.
    faults: BTreeMap<i64, String>,
    /// Checkpoints that cannot even be listed.
    stray: Vec<i64>,
    branches: BTreeMap<i64, Pending>,
    /// Branches that are being read; each forks from the one below it.
    stack: Vec<Reading>,
}

/// A branch that has not been read yet.
#[derive(Default)]
struct Pending {
    forked_at: i64,
    /// Branches that fork from it: the position of the fork, and the branch.
    forks: Vec<(i64, i64)>,
    /// Its checkpoints: their lengths and numbers.
    checkpoints: Vec<(i64, i64)>,
    has_parent: bool,
}

/// A branch that is being read.
struct Reading {
    id: i64,
    /// The first position that has not been read.
    at: i64,
    reader: LogReader,
    /// The first fault: all checkpoints and forks beyond `at` have it.
    fault: Option<String>,
    /// The remaining forks and checkpoints, by position, in descending order.
    events: Vec<(i64, Event)>,
    /// The last checkpoint.
    latest: Option<i64>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Another branch forks here.
    Fork(i64),
    /// A checkpoint ends here.
    Checkpoint(i64),
}

impl Inspection {
    /// Creates a check of the checkpoints `infos`, whose rows also have `states`, on `branches`.
    /// `configurations` has the fault of each configuration that cannot be read.
    pub(super) fn new(
        press: &mut Press,
        infos: Vec<CheckpointInfo>,
        states: &[State],
        branches: &[Branch],
        configurations: &HashMap<i64, String>,
    ) -> Self {
        let mut pending: BTreeMap<i64, Pending> = BTreeMap::new();
        let mut faults = BTreeMap::new();
        for Branch { id, parent, forked_at } in branches {
            let branch = pending.entry(*id).or_default();
            branch.forked_at = if parent.is_some() { *forked_at } else { 0 };
            // A parent is older than what forks from it, so that the way up has an end.
            branch.has_parent = parent.is_some();
            if let Some(parent) = parent.filter(|parent| parent < id) {
                pending.entry(parent).or_default().forks.push((*forked_at, *id));
            }
        }
        let mut stray = Vec::new();
        let lengths: HashMap<i64, i64> =
            infos.iter().map(|info| (number(info.key), info.n_entries as i64)).collect();
        for State { key, branch, configuration: (configuration, is_there), state } in states {
            let Some(length) = lengths.get(key).copied() else {
                stray.push(*key);
                continue;
            };
            pending.entry(*branch).or_default().checkpoints.push((length, *key));
            let fault = if *is_there {
                configurations.get(configuration).cloned()
            } else {
                Some("its configuration is missing".to_owned())
            };
            let fault = fault.or_else(|| press.check_state(state).err());
            faults.extend(fault.map(|fault| (*key, fault)));
        }
        for info in &infos {
            if info.parent.is_some_and(|parent| parent >= info.key) {
                let fault = "the checkpoint that it grew from is not an earlier one".to_owned();
                faults.entry(number(info.key)).or_insert(fault);
            }
        }
        let known: HashSet<i64> = branches.iter().map(|branch| branch.id).collect();
        for (id, branch) in pending.iter().filter(|(id, _)| !known.contains(id)) {
            for (_, key) in &branch.checkpoints {
                faults.entry(*key).or_insert_with(|| format!("branch {id} is missing"));
            }
        }
        let mut check = Self { infos, faults, stray, branches: pending, stack: Vec::new() };
        check.open_next();
        check
    }

    /// Returns the lines to read next; `None` if all are read.
    pub(super) fn next(&mut self) -> Option<Stretch> {
        loop {
            let reading = self.stack.last_mut()?;
            match reading.events.last().copied() {
                None => {
                    let done = self.stack.pop()?;
                    self.close(done);
                }
                Some((at, _)) if reading.at < at && reading.fault.is_none() => {
                    return Some((reading.id, reading.at, at.min(reading.at.saturating_add(CHUNK))));
                }
                Some((at, event)) => {
                    reading.events.pop();
                    self.meet(at, event);
                }
            }
            if self.stack.is_empty() {
                self.open_next();
            }
        }
    }

    /// Checks the lines of the stretch that was requested last.
    pub(super) fn take(&mut self, press: &mut Press, (_, from, to): Stretch, rows: Vec<Row>) {
        let Some(reading) = self.stack.last_mut() else { return };
        let mut at = from;
        for row in rows {
            if row.position != at {
                break;
            }
            let entry = press.entry(row, &reading.reader);
            let taken = entry.and_then(|entry| reading.reader.take(entry).map_err(|error| error.to_string()));
            if let Err(fault) = taken {
                reading.at = at;
                reading.fault = Some(fault);
                return;
            }
            at += 1;
        }
        reading.at = at;
        if at < to {
            reading.fault = Some(format!("line {at} is missing"));
        }
    }

    /// Returns a description of each fault, in the order of the checkpoints.
    pub(super) fn faults(self) -> Vec<String> {
        let Self { infos, faults, stray, .. } = self;
        let described = infos.iter().filter_map(|info| {
            let fault = faults.get(&number(info.key))?;
            Some(format!("{} {} of run `{}`: {fault}", info.key, info.id, info.run))
        });
        described.chain(stray.iter().map(|key| format!("#{key}: it belongs to no run"))).collect()
    }

    /// Starts with the next branch that has no parent.
    fn open_next(&mut self) {
        while let Some((id, branch)) = self.branches.pop_first() {
            // Its parent is older, so it was read before, had it been there.
            if branch.has_parent {
                for (_, key) in branch.checkpoints {
                    let fault = || format!("branch {id} forks from one that is missing or later");
                    self.faults.entry(key).or_insert_with(fault);
                }
                continue;
            }
            self.open(id, branch, LogReader::default(), None);
            return;
        }
    }

    fn open(&mut self, id: i64, branch: Pending, reader: LogReader, fault: Option<String>) {
        let forks = branch.forks.into_iter().map(|(at, id)| (at, Event::Fork(id)));
        let checkpoints = branch.checkpoints.into_iter().map(|(at, key)| (at, Event::Checkpoint(key)));
        let mut events: Vec<(i64, Event)> = forks.chain(checkpoints).collect();
        events.sort_unstable_by(|one, other| other.cmp(one));
        let latest = events.iter().find_map(|(_, event)| match event {
            Event::Checkpoint(key) => Some(*key),
            Event::Fork(_) => None,
        });
        // What forks from damage is not reached anywhere.
        let at = if fault.is_some() { i64::MIN } else { branch.forked_at };
        self.stack.push(Reading { id, at, reader, fault, events, latest });
    }

    /// Handles an event at `at`: the branch was read up to there, or cannot be read that far.
    fn meet(&mut self, at: i64, event: Event) {
        let Some(reading) = self.stack.last() else { return };
        let is_reached = reading.at >= at;
        let fault = reading.fault.clone().filter(|_| !is_reached);
        match event {
            Event::Checkpoint(key) => {
                let fault = fault.or_else(|| (at < 0).then(|| format!("it has {at} lines")));
                if let Some(fault) = fault {
                    self.faults.entry(key).or_insert(fault);
                }
            }
            Event::Fork(id) => {
                if let Some(branch) = self.branches.remove(&id) {
                    // Where it forks from lines that the branch no longer reaches, it forks from nothing.
                    let is_short = reading.at != at && fault.is_none();
                    let fault = fault.or_else(|| is_short.then(|| format!("branch {id} forks from nothing")));
                    let reader = reading.reader.clone();
                    self.open(id, branch, reader, fault);
                }
            }
        }
    }

    /// Closes a branch whose needed lines were all read, and checks its last checkpoint's counts.
    fn close(&mut self, done: Reading) {
        let Reading { reader, fault: None, latest: Some(key), .. } = done else { return };
        if let Err(error) = reader.finish() {
            self.faults.entry(key).or_insert_with(|| error.to_string());
        }
    }
}
