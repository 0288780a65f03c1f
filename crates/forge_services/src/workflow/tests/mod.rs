//! Tests of the whole way from a text to a workflow.

mod mutations;
mod refusals;
mod trust;
