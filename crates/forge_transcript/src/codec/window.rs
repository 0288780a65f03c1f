//! The part of a session that the model would see.

/// The records that the model would see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    /// Records that come first, wherever they are: standing instructions, and the summary of what left.
    pub(crate) lead: Vec<usize>,
    /// The first of the others, which follow in order.
    pub(crate) start: usize,
}

impl Window {
    /// Returns the window of all records from `start` on.
    pub(crate) const fn from(start: usize) -> Self {
        Self { lead: Vec::new(), start }
    }

    /// Returns the places of its records, in order; `n_records` is the number of all.
    pub(crate) fn places(&self, n_records: usize) -> impl Iterator<Item = usize> {
        let others = (self.start..n_records).filter(|place| !self.lead.contains(place));
        self.lead.iter().copied().chain(others)
    }
}
