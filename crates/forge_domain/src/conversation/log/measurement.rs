//! The providers' counts of the conversation, beside our own.

use super::Conversation;
use crate::{Measure, ModelRef, Scale, Tokens, Usage};

impl Conversation {
    /// Adds the usage that `model` reported for a prompt of this very state, which we counted as `counted`.
    pub fn report_usage(&mut self, model: &ModelRef, counted: Tokens, usage: Usage) {
        self.measure.report(model, counted, usage, self.n_edits());
    }

    /// Drops the usage that `model` reported until now.
    pub fn forget_usage(&mut self, model: &ModelRef) {
        self.measure.forget(model);
    }

    /// Returns the scale by which `model` counts this conversation now.
    pub fn scale(&self, model: &ModelRef) -> Scale {
        self.measure.scale(model, self.n_edits())
    }

    /// Returns the measure of providers' counts, to be saved with it.
    pub const fn measure(&self) -> &Measure {
        &self.measure
    }

    /// Takes back what was known when it was saved.
    pub fn restore_measure(&mut self, measure: Measure) {
        self.measure = measure;
    }

    /// Returns the number of compactions and undos of the view: a figure from before the last one is stale.
    fn n_edits(&self) -> usize {
        self.entries.len() - self.n_messages
    }
}
