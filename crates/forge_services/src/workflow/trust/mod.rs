//! The rights of a project's file before anyone trusts it: to narrow what the user's own layers set,
//! and nothing else.
//!
//! One pass over the project's layer ([`narrowing`]) decides of every key whether it only narrows;
//! what does not is left out of the narrowed layer and claimed as a [`Power`]. So nothing can be
//! left out in silence, and nothing granted that is not listed.

mod keys;
mod narrowing;
mod power;
#[cfg(test)]
mod tests;

use serde_json::Value;

use super::layers::own_layers;
use super::outline::Outline;
use super::{Layers, Position, WorkflowError, reader};

pub use power::Power;

pub(super) use keys::misplaced;
pub(super) use narrowing::narrow;

/// The answer to what a project's file asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// All of it counts. A program that embeds Forge decides by itself which files it hands over.
    #[default]
    Granted,
    /// Only what narrows counts; all else is left out.
    Withheld,
}

/// Something that a project's file asks for and has only where it is trusted.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The power that is asked for.
    pub power: Power,
    /// The key that says it, such as `hooks.pre_compact[0]`.
    pub path: String,
    /// All that the key says: where this changes, the claim is another one.
    pub says: Value,
    /// The place of the key in the file.
    pub position: Option<Position>,
}

/// Returns what the project's file asks for, in the order of its lines; nothing where there is no such file.
///
/// # Errors
/// [`WorkflowError`] for the first layer that is not a workflow's.
pub fn claims(layers: &Layers) -> Result<Vec<Claim>, WorkflowError> {
    let Some(project) = &layers.project else { return Ok(Vec::new()) };
    let base = own_layers(layers, &mut reader::read)?;
    let (_, mut claims) = narrow(&base, reader::read(project)?);
    let outline = Outline::of(&project.text);
    for claim in &mut claims {
        claim.position = outline.nearest(&claim.path).map(|place| place.position);
    }
    claims.sort_by(|one, other| {
        (one.position, &one.path, &one.power).cmp(&(other.position, &other.path, &other.power))
    });
    claims.dedup();
    Ok(claims)
}
