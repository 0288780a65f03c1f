//! The traces that entries leave for each other: branches, rewinds, replacements.

use std::collections::{BTreeMap, HashMap};

use crate::id_digest::IdDigest;

/// The facts of an entry that decide whether others still count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trace {
    /// Its id, if others may name it.
    pub(crate) id: Option<Box<str>>,
    /// The entry that it follows, in a format whose entries are a tree: an empty id is the root.
    pub(crate) parent: Option<Box<str>>,
    /// The id of the entry that hides it, as long as that one is there.
    pub(crate) hidden_by: Option<Box<str>>,
    /// True if a turn begins with it.
    pub(crate) is_turn: bool,
    /// True if a compaction of its agent took it out of the context.
    pub(crate) is_folded: bool,
    pub(crate) effect: Effect,
}

/// The traces of all entries. A session may have a million, so of each only a few bytes are kept: of an id
/// its digest.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    /// The bits [`IS_TURN`] and [`IS_FOLDED`] of each entry.
    facts: Vec<u8>,
    /// The ids; none if no entry has one.
    ids: Vec<Option<IdDigest>>,
    /// The parents; none if the entries are no tree.
    parents: Vec<Option<IdDigest>>,
    hidden_by: BTreeMap<usize, IdDigest>,
    effects: BTreeMap<usize, Effect>,
}

const IS_TURN: u8 = 1;
const IS_FOLDED: u8 = 2;

/// Adds an id to those of `n` entries, which are none if no entry has one so far.
fn push_id(ids: &mut Vec<Option<IdDigest>>, n: usize, id: Option<&str>) {
    if id.is_some() && ids.is_empty() {
        ids.resize(n, None);
    }
    if id.is_some() || !ids.is_empty() {
        ids.push(id.map(IdDigest::of));
    }
}

impl Traces {
    pub(crate) fn push(&mut self, trace: Trace) {
        let place = self.facts.len();
        push_id(&mut self.ids, place, trace.id.as_deref());
        push_id(&mut self.parents, place, trace.parent.as_deref());
        self.hidden_by.extend(trace.hidden_by.map(|id| (place, IdDigest::of(&id))));
        if trace.effect != Effect::None {
            self.effects.insert(place, trace.effect);
        }
        let turn = if trace.is_turn { IS_TURN } else { 0 };
        let folded = if trace.is_folded { IS_FOLDED } else { 0 };
        self.facts.push(turn | folded);
    }

    pub(crate) const fn len(&self) -> usize {
        self.facts.len()
    }

    /// Returns the first entry before `end` that has the id.
    pub(crate) fn place_of(&self, id: &str, end: usize) -> Option<usize> {
        let id = Some(IdDigest::of(id));
        self.ids.iter().take(end).position(|known| *known == id)
    }

    fn id(&self, place: usize) -> Option<IdDigest> {
        self.ids.get(place).copied().flatten()
    }

    fn parent(&self, place: usize) -> Option<IdDigest> {
        self.parents.get(place).copied().flatten()
    }

    fn is(&self, place: usize, fact: u8) -> bool {
        self.facts[place] & fact != 0
    }
}

/// The state of an entry, after all that other entries did to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// The model sees it.
    Active,
    /// A compaction took it out of the context.
    Folded,
    /// It was taken back, replaced, or left on another branch.
    Gone,
}

/// The effect of an entry on those before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Effect {
    #[default]
    None,
    /// It replaces the entry before it with the same id, and is read in its place.
    Updates,
    /// It counts only if no entry before it has its id.
    Repeats,
    /// The last turns no longer count.
    DropsTurns(usize),
    /// The entry of this id, and all after it, no longer count.
    RewindsTo(Box<str>),
    /// A compaction took the entries of these ids out of the context.
    Forgets(Vec<Box<str>>),
    /// Nothing before it counts.
    Resets,
}

/// The entries of a session after all that they did to each other.
pub(crate) struct Reading {
    /// The state of each entry.
    pub(crate) presence: Vec<Presence>,
    /// The entries that are read in another place, and that place.
    moved: HashMap<usize, usize>,
    /// The number of entries that are on other branches than that of the last one.
    pub(crate) off_branch: usize,
}

impl Reading {
    /// Returns the entries in the order in which they are read.
    pub(crate) fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.presence.len()).collect();
        if !self.moved.is_empty() {
            order.sort_by_key(|place| (self.moved.get(place).copied().unwrap_or(*place), *place));
        }
        order
    }

    /// Checks whether the entries that count are read in the order of the file.
    pub(crate) fn is_in_order(&self, traces: &Traces) -> bool {
        let counts =
            |place: &&usize| self.presence[**place] != Presence::Gone && traces.id(**place).is_some();
        self.moved.is_empty() || self.order().iter().filter(counts).is_sorted()
    }
}

/// Returns which entries still count, and the order in which they are read.
pub(crate) fn reading(traces: &Traces) -> Reading {
    let mut active = branch(traces);
    let off_branch = active.iter().filter(|active| !**active).count();
    let mut moved: HashMap<usize, usize> = HashMap::new();
    let mut folded: Vec<bool> = (0..traces.len()).map(|place| traces.is(place, IS_FOLDED)).collect();
    let mut by_id: HashMap<IdDigest, u32> = HashMap::new();
    let are_named = !(traces.effects.is_empty() && traces.hidden_by.is_empty());
    for place in (0..traces.len()).filter(|_| are_named) {
        let earlier = |id: IdDigest| by_id.get(&id).map(|place| *place as usize);
        apply(traces, place, &earlier, &mut active, &mut moved, &mut folded);
        by_id.extend(traces.id(place).map(|id| (id, place as u32)));
    }
    for (place, id) in &traces.hidden_by {
        folded[*place] |= by_id.contains_key(id);
    }
    let presence = |(active, folded)| match (active, folded) {
        (false, _) => Presence::Gone,
        (true, true) => Presence::Folded,
        (true, false) => Presence::Active,
    };
    let presence: Vec<Presence> = active.into_iter().zip(folded).map(presence).collect();
    Reading { presence, moved, off_branch }
}

/// Applies the effect of the entry at `place` to those before it. `earlier` finds the latest one with an id.
fn apply(
    traces: &Traces,
    place: usize,
    earlier: &dyn Fn(IdDigest) -> Option<usize>,
    active: &mut [bool],
    moved: &mut HashMap<usize, usize>,
    folded: &mut [bool],
) {
    let of_same_id = || traces.id(place).and_then(earlier);
    match traces.effects.get(&place).unwrap_or(&Effect::None) {
        Effect::None => {}
        Effect::Updates => {
            if let Some(before) = of_same_id() {
                if active[before] {
                    moved.insert(place, moved.get(&before).copied().unwrap_or(before));
                }
                active[before] = false;
            }
        }
        Effect::Repeats => active[place] &= of_same_id().is_none(),
        Effect::DropsTurns(turns) => drop_turns(traces, active, place, *turns),
        Effect::RewindsTo(id) => {
            let start = earlier(IdDigest::of(id)).unwrap_or_default();
            active[start..place].fill(false);
        }
        Effect::Forgets(ids) => {
            ids.iter()
                .filter_map(|id| earlier(IdDigest::of(id)))
                .for_each(|forgotten| folded[forgotten] = true);
        }
        Effect::Resets => active[..place].fill(false),
    }
}

fn drop_turns(traces: &Traces, active: &mut [bool], place: usize, turns: usize) {
    let begins = (0..place).rev().filter(|at| active[*at] && traces.is(*at, IS_TURN));
    if let Some(start) = begins.take(turns).last() {
        active[start..place].fill(false);
    }
}

/// Returns the entries of the branch that ends in the last entry, if the entries are a tree; else all. A
/// parent that is not in the file is replaced by the entry before.
fn branch(traces: &Traces) -> Vec<bool> {
    if traces.parents.is_empty() {
        return vec![true; traces.len()];
    }
    let root = IdDigest::of("");
    let ids = traces.ids.iter().enumerate().filter_map(|(place, id)| Some(((*id)?, place as u32)));
    let by_id: HashMap<IdDigest, u32> = ids.collect();
    // Entries outside the tree, such as a header, always count.
    let mut active: Vec<bool> = traces.parents.iter().map(Option::is_none).collect();
    let mut next = traces.parents.iter().rposition(Option::is_some);
    while let Some(place) = next.filter(|place| !active[*place] || traces.parent(*place).is_none()) {
        active[place] = true;
        next = match traces.parent(place) {
            Some(parent) if parent == root => None,
            Some(parent) => by_id.get(&parent).map(|place| *place as usize).or_else(|| place.checked_sub(1)),
            None => place.checked_sub(1),
        };
    }
    active
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// Parses entries from `id<parent!effect`: `t1` as an effect drops a turn, `>a` rewinds to `a`, `-a`
    /// forgets `a`, `^` updates, `+` repeats, `0` resets; a capital is a turn.
    fn traces(text: &str) -> Traces {
        let trace = |word: &str| {
            let (word, effect) = word.split_once('!').unwrap_or((word, ""));
            let (id, parent) =
                word.split_once('<').map_or((word, None), |(id, parent)| (id, Some(parent.into())));
            let effect = match effect.split_at(effect.len().min(1)) {
                ("t", n) => Effect::DropsTurns(n.parse().unwrap()),
                (">", id) => Effect::RewindsTo(id.into()),
                ("-", id) => Effect::Forgets(vec![id.into()]),
                ("^", _) => Effect::Updates,
                ("+", _) => Effect::Repeats,
                ("0", _) => Effect::Resets,
                _ => Effect::None,
            };
            let is_turn = id.chars().all(char::is_uppercase);
            Trace { id: Some(id.into()), parent, is_turn, effect, ..Trace::default() }
        };
        let mut traces = Traces::default();
        text.split_whitespace().for_each(|word| traces.push(trace(word)));
        traces
    }

    #[test]
    fn what_was_taken_back_no_longer_counts() {
        for (text, expected) in [
            ("A b c", "Abc"),
            ("A b C d e!t1", "Abe"),
            ("A b C d e!t2", "e"),
            ("A b C d e!t9", "e"),
            ("a b c d!>b", "ad"),
            ("a b d!>x", "d"),
            ("a b c!-a", "bc"),
            ("a b a!^", "ab"),
            ("a b d!>a a!^ e a!^", "dae"),
            ("a b a!+", "ab"),
            ("a b c!0 d", "cd"),
            ("a< b<a c<a d<c", "acd"),
            ("a< b<x c<b", "abc"),
            ("a b< c<b", "abc"),
            ("a<b b<a", "ab"),
        ] {
            let traces = traces(text);
            let reading = reading(&traces);
            let left =
                reading.order().into_iter().filter(|place| reading.presence[*place] == Presence::Active);
            let ids: Vec<&str> = text
                .split_whitespace()
                .map(|word| word.split(['<', '!']).next().unwrap_or_default())
                .collect();
            let actual: String = left.map(|place| ids[place]).collect();
            assert_eq!(actual, expected, "{text}");
        }
    }
}
