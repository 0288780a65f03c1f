//! The rights of a project's file before anyone trusts it: to narrow what the user's own layers set,
//! and nothing else.
//!
//! One pass over the project's layer ([`filter`]) decides of every key whether it only narrows;
//! what does not is left out of the narrowed layer and becomes a [`PowerRequest`]. So nothing can be
//! left out in silence, and nothing granted that is not listed.

mod keys;
mod filter;
mod power;

use serde_json::Value;

use super::Position;

pub use power::Power;

pub(super) use filter::narrow;
pub(super) use keys::check_places;

/// The answer to what a project's file asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// All of it counts. A program that embeds Forge decides by itself which files it hands over.
    #[default]
    Granted,
    /// Only what narrows counts; all else is left out.
    Withheld,
}

/// A power that a project's file asks for and has only if the file is trusted.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerRequest {
    /// The power.
    pub power: Power,
    /// The key that asks for it, such as `hooks.pre_compact[0]`.
    pub path: String,
    /// All that the key says: if this changes, the request is another one.
    pub says: Value,
    /// The place of the key in the file.
    pub position: Option<Position>,
}
