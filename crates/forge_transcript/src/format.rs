//! Which formats of recorded sessions are read.

use std::fmt;

/// A format of recorded sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `{"messages": [...]}` of chat completions, a complete request body, or the bare list.
    OpenAi,
    /// `{"system": ..., "messages": [...]}` of Anthropic's messages, or the bare list.
    Anthropic,
    /// Results of tau-bench: `[{"task_id": ..., "trial": ..., "traj": [...]}]`.
    TauBench,
    /// A session of Claude Code: a record a line.
    ClaudeCode,
}

impl Format {
    /// All formats that are read.
    pub const ALL: [Self; 4] = [Self::OpenAi, Self::Anthropic, Self::TauBench, Self::ClaudeCode];
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenAi => "OpenAI messages ({\"messages\": [...]} or the bare list)",
            Self::Anthropic => "Anthropic messages ({\"system\", \"messages\": [...]} or the bare list)",
            Self::TauBench => "tau-bench results ([{\"task_id\", \"trial\", \"traj\"}])",
            Self::ClaudeCode => "Claude Code sessions (JSONL)",
        })
    }
}
