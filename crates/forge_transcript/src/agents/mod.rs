//! The formats of other agents, one file each. They are read; only ATIF is also written.

mod aider;
mod antigravity;
mod blocks;
mod codex;
mod codex_append;
mod codex_item;
mod codex_script;
mod continue_dev;
mod conversations;
mod copilot;
mod exit_code;
mod exports;
mod gemini_cli;
mod inspect;
mod json_lines;
mod logs;
mod managed_agents;
mod oh_my_opencode;
mod opencode;
mod opencode_events;
mod openhands;
mod pi;
mod pi_append;
mod script_value;
mod specstory;
mod swe_agent;
mod trae;
mod vscode;
mod vscode_response;
mod who_and_when;

use crate::codec::Codec;

pub(crate) use self::codex_item::{SEALED, new_items as codex_items};
pub(crate) use self::pi_append::message_of as pi_message;

/// The formats, from the most general to the most specific.
pub(crate) const AGENTS: &[&dyn Codec] = &[
    &json_lines::JSON_LINES,
    &conversations::CONVERSATIONS,
    &logs::AnthropicLines,
    &logs::GeminiEvents,
    &oh_my_opencode::OhMyOpencode,
    &managed_agents::ManagedAgents,
    &logs::Tau2Bench,
    &blocks::LangChain,
    &blocks::Gemini,
    &blocks::Responses,
    &blocks::Vercel,
    &blocks::Cline,
    &blocks::ClaudeTurns,
    &blocks::ForgeCode,
    &exports::Goose,
    &opencode::OpenCode,
    &exports::Spans,
    &exports::Atif,
    &trae::Trae,
    &aider::Aider,
    &specstory::SpecStory,
    &swe_agent::SWE_AGENT,
    &who_and_when::WhoAndWhen,
    &inspect::Inspect,
    &continue_dev::Continue,
    &vscode::VsCode,
    &openhands::Trajectories,
    &openhands::Events,
    &gemini_cli::GeminiCli,
    &antigravity::Antigravity,
    &copilot::Copilot,
    &pi::Pi,
    &codex::Codex,
];
