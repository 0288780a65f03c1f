//! The YAML settings of the built-in tools.

use std::time::Duration;

use merge::Merge;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::later;
use crate::{FetchSettings, TimeLimit, WebSearchSettings};

/// The settings of the built-in tools. A later layer replaces those of one tool as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Merge)]
#[serde(deny_unknown_fields)]
#[merge(strategy = later)]
pub struct ToolSettings {
    /// Settings of commands. Unset: all of their defaults apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [{"timeout": "5m"}]))]
    pub shell: Option<ShellSettings>,
    /// Settings of fetched pages. Unset: all of their defaults apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [{"timeout": "1m"}]))]
    pub fetch: Option<FetchSettings>,
    /// Endpoint for searches of the web. Unset: there is no such tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [{"endpoint": "http://localhost:8888/search?q={query}&format=json"}]))]
    pub web_search: Option<WebSearchSettings>,
}

impl ToolSettings {
    /// Lowers the time limits to those that an `earlier` layer says of the same tool, where these are
    /// stricter.
    pub(crate) fn bound_limits(&mut self, earlier: &Self) {
        if let (Some(later), Some(earlier)) = (&mut self.shell, &earlier.shell) {
            later.timeout = shorter(later.timeout, earlier.timeout);
        }
        if let (Some(later), Some(earlier)) = (&mut self.fetch, &earlier.fetch) {
            later.timeout = shorter(later.timeout, earlier.timeout);
        }
    }

    pub(crate) fn is_unset(&self) -> bool {
        *self == Self::default()
    }
}

/// Returns the shorter of two limits, one of which may not be set.
fn shorter(one: Option<TimeLimit>, other: Option<TimeLimit>) -> Option<TimeLimit> {
    one.into_iter().chain(other).min_by_key(|limit| limit.duration())
}

/// The settings of the tool `shell`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShellSettings {
    /// Time limit of a command, unless the model sets a shorter one; then it is killed with everything it
    /// started. Default 2 minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "2m", "examples" = ["5m"]))]
    pub timeout: Option<TimeLimit>,
    /// Names of environment variables that commands see, besides harmless ones such as `PATH` and `HOME`.
    /// Unset: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [["GIT_DIR"]]))]
    pub env: Vec<String>,
}

impl ShellSettings {
    /// Returns the time limit of a command.
    pub fn time_limit(&self) -> Duration {
        self.timeout.map_or(Duration::from_secs(120), TimeLimit::duration)
    }
}
