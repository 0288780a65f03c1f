//! The faults of a workflow as a whole: all that is wrong with its layers, references that lead nowhere, and
//! secrets in its files.

mod callees;
mod examination;
mod references;
mod secrets;
mod unmatched_models;

pub use self::callees::{MOST_CALLERS, all_callees};
pub use self::examination::{Examination, examine, project_secrets};
pub use self::references::check_references;
pub use self::unmatched_models::unmatched_models;
