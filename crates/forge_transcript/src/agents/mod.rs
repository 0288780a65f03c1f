//! The formats of other agents, one file each. They are read, and not written.

mod codex;
mod copilot;
mod gemini_cli;
mod inspect;
mod openhands;
mod pi;
mod swe_agent;
mod who_and_when;

use crate::codec::Codec;

/// The formats, from the most general to the most specific.
pub(crate) const AGENTS: &[&dyn Codec] = &[
    &swe_agent::SWE_AGENT,
    &who_and_when::WhoAndWhen,
    &inspect::Inspect,
    &openhands::Trajectories,
    &openhands::Events,
    &gemini_cli::GeminiCli,
    &copilot::Copilot,
    &pi::Pi,
    &codex::Codex,
];
