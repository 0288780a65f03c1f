//! A workflow from its layers: built-in, administrator, user, project, environment, flags, where the later
//! one wins.

mod source;
mod error;
mod layers;
mod callees;
mod references;
mod shipped_models;
mod reader;
mod explanation;
mod outline;
mod key_path;
mod nearest;
mod skips;
mod examination;
mod secrets;
mod trust;
mod origin;
mod schema;
mod foreign_keys;
mod migration;

#[cfg(test)]
mod refusals;

#[cfg(test)]
mod mutations;

pub use callees::{MOST_CALLERS, all_callees};
pub use error::WorkflowError;
pub use examination::{Examination, examine};
pub use layers::{Flags, Layers, RefusedKey, load};
pub use migration::{Migration, migrate};
pub use nearest::nearest;
pub use origin::{Origin, Origins};
pub use references::{Finding, check_references};
pub use schema::schema;
pub use source::{Position, Source};
pub use trust::{Claim, Power, Trust, claims};
