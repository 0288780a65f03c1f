//! A workflow from its layers: built-in, administrator, user, project, environment, flags, where the later
//! one wins.

mod check;
mod error;
mod explanation;
mod example;
mod finding;
mod foreign_keys;
mod key_forms;
mod layers;
mod migration;
mod nearest;
mod origin;
mod reader;
mod schema;
mod shipped_models;
#[cfg(test)]
mod tests;
mod trust;
mod yaml;

pub use self::check::{
    Examination, MOST_CALLERS, all_callees, check_references, examine, project_secrets, unmatched_models,
};
pub use self::error::WorkflowError;
pub use self::finding::Finding;
pub use self::layers::{Flags, Layers, RefusedKey, load, ollama_address};
pub use self::migration::{Migration, migrate};
pub use self::nearest::nearest;
pub use self::origin::{Origin, Origins};
pub use self::schema::schema;
pub use self::shipped_models::ModelTable;
pub use self::trust::{Power, PowerRequest, Trust};
pub use self::yaml::{Position, Source, Variables};
