//! A workflow from its layers: built-in, user, project, environment, flags, where the later one wins.

mod source;

mod error;

mod layers;

mod references;

mod reading;

mod explanation;

mod outline;

mod key_path;

mod nearest;

mod schema;

#[cfg(test)]
mod refusals;

pub use error::WorkflowError;
pub use layers::{Flags, Layers, load};
pub use references::{Finding, check_references};
pub use schema::schema;
pub use source::{Position, Source, locate};
