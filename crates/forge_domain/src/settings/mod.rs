//! The settings in `forge.yaml`, but for `compact:`, which is with the compaction.

mod tool_pattern;
mod hook_point;
mod hook_command;
mod key_places;
mod permission;
mod foreign_rule;
mod discretion;
mod environment;
mod transform;
mod checkpoint_policy;
mod agent;
mod floor;
mod sandbox;
mod web_settings;
mod tool_settings;
mod mcp_server;
mod workspace;
mod workflow;

pub use agent::*;
pub use checkpoint_policy::*;
pub use discretion::*;
pub use environment::*;
pub use floor::*;
pub use foreign_rule::*;
pub use hook_command::*;
pub use hook_point::*;
pub use key_places::holds_keys;
pub use mcp_server::*;
pub use permission::*;
pub use sandbox::{
    Denial, MemorySize, Sandbox, SandboxAccess, SandboxHost, SandboxMissing, SandboxMode, SandboxNetwork,
    SandboxPath, SandboxPlaces, SandboxPolicy, SandboxValueError,
};
pub use tool_pattern::*;
pub use tool_settings::*;
pub use transform::*;
pub use web_settings::*;
pub use workflow::*;
pub use workspace::*;
