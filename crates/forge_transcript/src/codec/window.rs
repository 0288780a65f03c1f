//! The part of a session that the model would see.

/// The records that the model would see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    /// Records that come first, wherever they are: standing instructions, and the summary of what left.
    pub(crate) lead: Vec<usize>,
    /// The first of the others, which follow in order.
    pub(crate) start: usize,
    /// Records that left the context one by one, in order.
    pub(crate) hidden: Vec<usize>,
}

impl Window {
    /// Returns the window of all records from `start` on.
    pub(crate) const fn from(start: usize) -> Self {
        Self { lead: Vec::new(), start, hidden: Vec::new() }
    }

    /// Returns the places of its records, in order; `n_records` is the number of all.
    pub(crate) fn places(&self, n_records: usize) -> impl Iterator<Item = usize> {
        let is_other =
            |place: &usize| !self.lead.contains(place) && self.hidden.binary_search(place).is_err();
        let others = (self.start..n_records).filter(is_other);
        self.lead.iter().copied().chain(others)
    }

    /// Checks whether a record is in it.
    pub(crate) fn contains(&self, place: usize) -> bool {
        self.lead.contains(&place) || (place >= self.start && self.hidden.binary_search(&place).is_err())
    }
}
