//! The YAML settings of the built-in tools.

use std::time::Duration;

use merge::Merge;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::later;
use crate::{FetchSettings, TimeLimit, WebSearchSettings};

/// The settings of the built-in tools. A later layer replaces those of one tool as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Merge)]
#[serde(deny_unknown_fields)]
#[merge(strategy = later)]
pub struct ToolSettings {
    /// Settings of commands. Unset: all of their defaults apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<ShellSettings>,
    /// Settings of fetched pages. Unset: all of their defaults apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetch: Option<FetchSettings>,
    /// Endpoint for searches of the web. Unset: there is no such tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web_search: Option<WebSearchSettings>,
}

impl ToolSettings {
    pub(crate) fn is_unset(&self) -> bool {
        *self == Self::default()
    }
}

/// The settings of the tool `shell`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShellSettings {
    /// Time limit of a command, unless the model sets a shorter one; then it is killed with everything it
    /// started. Default 2 minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "2m"))]
    pub timeout: Option<TimeLimit>,
    /// Names of environment variables that commands see, besides harmless ones such as `PATH` and `HOME`.
    /// Unset: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
}

impl ShellSettings {
    /// Returns the time limit of a command.
    pub fn time_limit(&self) -> Duration {
        self.timeout.map_or(Duration::from_secs(120), TimeLimit::duration)
    }
}
