//! The formats of other agents, one file each. They are read, and not written.

mod codex;
mod swe_agent;
mod who_and_when;

use crate::codec::Codec;

pub(crate) const CODEX: &dyn Codec = &codex::Codex;
pub(crate) const SWE_AGENT: &dyn Codec = &swe_agent::SWE_AGENT;
pub(crate) const WHO_AND_WHEN: &dyn Codec = &who_and_when::WhoAndWhen;
