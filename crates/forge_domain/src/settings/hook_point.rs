//! The points of a run at which hooks are asked or told, and what an answer may do at each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A point of a run at which hooks are asked or told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HookPoint {
    /// A task was given, or a run is resumed; nothing is done yet.
    WorkflowStart,
    /// All is done that was to be done, or nothing more can be.
    WorkflowEnd,
    /// A model is about to be asked, before its context is made to fit.
    PrePrompt,
    /// A model has replied.
    PostPrompt,
    /// A tool is about to be called.
    PreToolCall,
    /// A tool has answered.
    PostToolCall,
    /// A tool has failed.
    ToolFailure,
    /// A compaction is due and about to be tried.
    PreCompact,
    /// A compaction was due, and this is what became of it.
    PostCompact,
    /// A checkpoint was saved.
    Checkpoint,
    /// The user was told something.
    Notification,
}

/// A part that an answer may change at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Nothing,
    /// The way in which a compaction is done: [`crate::CompactEdit`].
    Compaction,
    /// A note to the model: [`crate::PromptEdit`].
    Prompt,
    /// With what a tool is called: [`crate::CallEdit`].
    Call,
    /// The text of a tool's answer for the model: [`crate::ResultEdit`].
    Result,
}

impl HookPoint {
    /// Every point, in the order of a run.
    pub const ALL: [Self; 11] = [
        Self::WorkflowStart,
        Self::PrePrompt,
        Self::PreCompact,
        Self::PostCompact,
        Self::PostPrompt,
        Self::PreToolCall,
        Self::PostToolCall,
        Self::ToolFailure,
        Self::Checkpoint,
        Self::Notification,
        Self::WorkflowEnd,
    ];

    /// Returns the word for it in YAML and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WorkflowStart => "workflow_start",
            Self::WorkflowEnd => "workflow_end",
            Self::PrePrompt => "pre_prompt",
            Self::PostPrompt => "post_prompt",
            Self::PreToolCall => "pre_tool_call",
            Self::PostToolCall => "post_tool_call",
            Self::ToolFailure => "tool_failure",
            Self::PreCompact => "pre_compact",
            Self::PostCompact => "post_compact",
            Self::Checkpoint => "checkpoint",
            Self::Notification => "notification",
        }
    }

    /// Returns the effect of a denial here; `None` if nothing can be denied.
    pub const fn denial(self) -> Option<&'static str> {
        match self {
            Self::WorkflowStart => Some("nothing is started"),
            Self::PrePrompt => Some("the model is not asked, and the turn ends"),
            Self::PreToolCall => Some("the tool is not called, and the model reads why"),
            Self::PostToolCall => Some("the tool's result is withheld, and the model reads why"),
            Self::PreCompact => {
                Some("the compaction is postponed; if the window requires it, nothing is sent")
            }
            Self::WorkflowEnd
            | Self::PostPrompt
            | Self::ToolFailure
            | Self::PostCompact
            | Self::Checkpoint
            | Self::Notification => None,
        }
    }

    /// Returns what an answer may change here.
    pub const fn change(self) -> Change {
        match self {
            Self::PrePrompt => Change::Prompt,
            Self::PreToolCall => Change::Call,
            Self::PostToolCall | Self::ToolFailure => Change::Result,
            Self::PreCompact => Change::Compaction,
            Self::WorkflowStart
            | Self::WorkflowEnd
            | Self::PostPrompt
            | Self::PostCompact
            | Self::Checkpoint
            | Self::Notification => Change::Nothing,
        }
    }

    /// Checks whether the answer counts; at the other points a hook only observes.
    pub const fn is_question(self) -> bool {
        self.denial().is_some() || !matches!(self.change(), Change::Nothing)
    }
}

/// The meaning of a hook without an answer, where it could deny.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhereBroken {
    /// Proceed, as without the hook.
    #[default]
    Proceed,
    /// Deny: for a guard that must not be bypassed.
    Deny,
}
