//! The traces that entries leave for each other: branches, rewinds, replacements.

use std::collections::HashMap;

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

/// The traces of all entries. Most entries of a long session leave none, and take hardly any memory.
#[derive(Debug, Default)]
pub(crate) struct Traces(Vec<Option<Box<Trace>>>);

impl Traces {
    pub(crate) fn push(&mut self, trace: Trace) {
        self.0.push((trace != NO_TRACE).then(|| Box::new(trace)));
    }

    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Trace> + DoubleEndedIterator {
        self.0.iter().map(|trace| trace.as_deref().unwrap_or(&NO_TRACE))
    }

    fn at(&self, place: usize) -> &Trace {
        self.0.get(place).and_then(Option::as_deref).unwrap_or(&NO_TRACE)
    }
}

static NO_TRACE: Trace =
    Trace { id: None, parent: None, hidden_by: None, is_turn: false, is_folded: false, effect: Effect::None };

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
            |place: &&usize| self.presence[**place] != Presence::Gone && traces.at(**place).id.is_some();
        self.moved.is_empty() || self.order().iter().filter(counts).is_sorted()
    }
}

/// Returns which entries still count, and the order in which they are read.
pub(crate) fn reading(traces: &Traces) -> Reading {
    let mut active = branch(traces);
    let mut moved: HashMap<usize, usize> = HashMap::new();
    let mut folded: Vec<bool> = traces.iter().map(|trace| trace.is_folded).collect();
    let mut by_id: HashMap<&str, usize> = HashMap::new();
    for (place, trace) in traces.iter().enumerate() {
        let earlier = |id: &str| by_id.get(id).copied();
        match &trace.effect {
            Effect::None => {}
            Effect::Updates => {
                if let Some(before) = trace.id.as_deref().and_then(earlier) {
                    if active[before] {
                        moved.insert(place, moved.get(&before).copied().unwrap_or(before));
                    }
                    active[before] = false;
                }
            }
            Effect::Repeats => active[place] &= trace.id.as_deref().and_then(earlier).is_none(),
            Effect::DropsTurns(turns) => drop_turns(traces, &mut active, place, *turns),
            Effect::RewindsTo(id) => {
                let start = earlier(id).unwrap_or_default();
                active[start..place].fill(false);
            }
            Effect::Forgets(ids) => {
                ids.iter().filter_map(|id| earlier(id)).for_each(|forgotten| folded[forgotten] = true);
            }
            Effect::Resets => active[..place].fill(false),
        }
        if let Some(id) = &trace.id {
            by_id.insert(id, place);
        }
    }
    for (folded, trace) in folded.iter_mut().zip(traces.iter()) {
        *folded |= trace.hidden_by.as_deref().is_some_and(|id| by_id.contains_key(id));
    }
    let presence = |(active, folded)| match (active, folded) {
        (false, _) => Presence::Gone,
        (true, true) => Presence::Folded,
        (true, false) => Presence::Active,
    };
    let presence: Vec<Presence> = active.into_iter().zip(folded).map(presence).collect();
    Reading { presence, moved }
}

fn drop_turns(traces: &Traces, active: &mut [bool], place: usize, turns: usize) {
    let begins = (0..place).rev().filter(|at| active[*at] && traces.at(*at).is_turn);
    if let Some(start) = begins.take(turns).last() {
        active[start..place].fill(false);
    }
}

/// Returns the entries of the branch that ends in the last entry, if the entries are a tree; else all. A
/// parent that is not in the file is replaced by the entry before.
fn branch(traces: &Traces) -> Vec<bool> {
    if traces.iter().all(|trace| trace.parent.is_none()) {
        return vec![true; traces.len()];
    }
    let ids = traces.iter().enumerate().filter_map(|(place, trace)| Some((trace.id.as_deref()?, place)));
    let by_id: HashMap<&str, usize> = ids.collect();
    // Entries outside the tree, such as a header, always count.
    let mut active: Vec<bool> = traces.iter().map(|trace| trace.parent.is_none()).collect();
    let mut next = traces.iter().rposition(|trace| trace.parent.is_some());
    while let Some(place) = next.filter(|place| !active[*place] || traces.at(*place).parent.is_none()) {
        active[place] = true;
        next = match traces.at(place).parent.as_deref() {
            Some("") => None,
            Some(parent) => by_id.get(parent).copied().or_else(|| place.checked_sub(1)),
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
            let actual: String =
                left.filter_map(|place| traces.at(place).id.clone()).map(String::from).collect();
            assert_eq!(actual, expected, "{text}");
        }
    }
}
