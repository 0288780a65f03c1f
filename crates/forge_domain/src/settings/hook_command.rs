//! Hooks as YAML names them: shell commands for the points of a run.

use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{HookPoint, ToolPattern, WhereBroken};

/// The commands of a workflow or of an agent, by the point at which they run; in the order in which they
/// stand. Those of earlier layers stay, and are asked after them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HookCommands {
    /// Runs before anything else; may deny the run. An agent's hooks run if the run starts with that agent.
    /// Unset: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [command_example()]))]
    pub workflow_start: Vec<HookCommand>,
    /// Observes how a run ended. An agent's hooks run if the run started with that agent. Unset: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [command_example()]))]
    pub workflow_end: Vec<HookCommand>,
    /// Runs before a model is asked; may deny that, or add a note for the model. Unset: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [command_example()]))]
    pub pre_prompt: Vec<HookCommand>,
    /// Observes a model's reply. Unset: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [command_example()]))]
    pub post_prompt: Vec<HookCommand>,
    /// Runs before a tool is called; may deny the call or change its arguments. Unset: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [tool_command_example()]))]
    pub pre_tool_call: Vec<ToolHookCommand>,
    /// Runs when a tool has answered; may withhold or change what the model reads. Unset: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [tool_command_example()]))]
    pub post_tool_call: Vec<ToolHookCommand>,
    /// Runs when a tool has failed; may change what the model reads. Unset: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [tool_command_example()]))]
    pub tool_failure: Vec<ToolHookCommand>,
    /// Runs before a compaction; may deny it or change what it preserves. Unset: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [command_example()]))]
    pub pre_compact: Vec<HookCommand>,
    /// Observes the outcome of a compaction. Unset: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [command_example()]))]
    pub post_compact: Vec<HookCommand>,
    /// Observes every saved checkpoint. Unset: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [command_example()]))]
    pub checkpoint: Vec<HookCommand>,
    /// Observes the notices to the user during a run. Unset: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [command_example()]))]
    pub notification: Vec<HookCommand>,
}

/// Returns the example of a point.
fn command_example() -> Value {
    json!([{"command": "./check.sh", "timeout": "10s"}])
}

/// Returns the example of a point that is about a tool.
fn tool_command_example() -> Value {
    json!([{"command": "./check.sh", "tools": ["shell", "files__*"]}])
}

impl HookCommands {
    /// Iterates over every command with its point, and with the tools that it is about; point by point, in
    /// their order.
    pub fn iter(&self) -> impl Iterator<Item = (HookPoint, HookCommand, &[ToolPattern])> {
        HookPoint::ALL.into_iter().flat_map(|point| {
            let (of_any, of_tools) = self.at(point);
            let of_any = of_any.iter().map(move |command| (point, command.clone(), [].as_slice()));
            of_any.chain(of_tools.iter().map(move |of| (point, of.plain(), of.tools.as_slice())))
        })
    }

    fn at(&self, point: HookPoint) -> (&[HookCommand], &[ToolHookCommand]) {
        match point {
            HookPoint::WorkflowStart => (&self.workflow_start, &[]),
            HookPoint::WorkflowEnd => (&self.workflow_end, &[]),
            HookPoint::PrePrompt => (&self.pre_prompt, &[]),
            HookPoint::PostPrompt => (&self.post_prompt, &[]),
            HookPoint::PreToolCall => (&[], &self.pre_tool_call),
            HookPoint::PostToolCall => (&[], &self.post_tool_call),
            HookPoint::ToolFailure => (&[], &self.tool_failure),
            HookPoint::PreCompact => (&self.pre_compact, &[]),
            HookPoint::PostCompact => (&self.post_compact, &[]),
            HookPoint::Checkpoint => (&self.checkpoint, &[]),
            HookPoint::Notification => (&self.notification, &[]),
        }
    }
}

/// A hook's command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HookCommand {
    /// Command line for the shell.
    #[schemars(extend("examples" = ["./check.sh"]))]
    pub command: CommandLine,
    /// Time limit, after which the command is killed. Default 10 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "10s", "examples" = ["10s"]))]
    pub timeout: Option<TimeLimit>,
    /// Names of environment variables that the command sees, besides harmless ones such as `PATH` and `HOME`.
    /// Unset: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [["GIT_DIR"]]))]
    pub env: Vec<String>,
    /// Meaning of a command that fails, times out or prints no valid answer, at points that can be denied:
    /// `deny` for guards. Default `proceed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "proceed", "examples" = ["deny"]))]
    pub if_broken: Option<WhereBroken>,
}

/// A hook's command about tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolHookCommand {
    /// Command line for the shell.
    #[schemars(extend("examples" = ["./check.sh"]))]
    pub command: CommandLine,
    /// Tools that the command is about; `*` matches any text, as in `files__*`. Unset: every tool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [["shell", "files__*"]]))]
    pub tools: Vec<ToolPattern>,
    /// Time limit, after which the command is killed. Default 10 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "10s", "examples" = ["10s"]))]
    pub timeout: Option<TimeLimit>,
    /// Names of environment variables that the command sees, besides harmless ones such as `PATH` and `HOME`.
    /// Unset: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [["GIT_DIR"]]))]
    pub env: Vec<String>,
    /// Meaning of a command that fails, times out or prints no valid answer, at points that can be denied:
    /// `deny` for guards. Default `proceed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "proceed", "examples" = ["deny"]))]
    pub if_broken: Option<WhereBroken>,
}

impl ToolHookCommand {
    /// Returns the command without its tools.
    pub fn plain(&self) -> HookCommand {
        let Self { command, timeout, env, if_broken, .. } = self.clone();
        HookCommand { command, timeout, env, if_broken }
    }
}

impl HookCommand {
    /// Returns its time limit.
    pub fn time_limit(&self) -> Duration {
        self.timeout.map_or(Duration::from_secs(10), |limit| limit.0)
    }
}

/// A command line for a shell; not blank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, extend("pattern" = r"\S"))]
pub struct CommandLine(String);

/// A command must say something and got a blank text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a command must not be empty")]
pub struct CommandLineError;

impl CommandLine {
    /// Returns the text for the shell.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for CommandLine {
    type Error = CommandLineError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.trim().is_empty() { Err(CommandLineError) } else { Ok(Self(text)) }
    }
}

impl From<CommandLine> for String {
    fn from(command: CommandLine) -> Self {
        command.0
    }
}

/// A time limit: above zero and at most ten minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, extend("pattern" = r"[0-9]\s*[a-zA-Zµ]"))]
pub struct TimeLimit(Duration);

/// A text that is not a time limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid time limit '{0}' (expected a number with a unit, such as 10s or 2m, at most 10m)")]
pub struct TimeLimitError(String);

impl TimeLimit {
    const MOST: Duration = Duration::from_secs(600);

    /// Returns the duration.
    pub const fn duration(self) -> Duration {
        self.0
    }
}

impl TryFrom<String> for TimeLimit {
    type Error = TimeLimitError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let limit = text.parse::<SignedDuration>().ok().and_then(|limit| Duration::try_from(limit).ok());
        match limit.filter(|limit| !limit.is_zero() && *limit <= Self::MOST) {
            Some(limit) => Ok(Self(limit)),
            None => Err(TimeLimitError(text)),
        }
    }
}

impl From<TimeLimit> for String {
    fn from(limit: TimeLimit) -> Self {
        limit.to_string()
    }
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SignedDuration::try_from(self.0) {
            Ok(limit) => write!(f, "{limit:#}"),
            Err(_) => write!(f, "{:?}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_time_limit_has_a_unit_and_an_end() {
        for (text, expected) in [
            ("10s", Some(10_000)),
            ("250ms", Some(250)),
            ("1m 30s", Some(90_000)),
            ("10m", Some(600_000)),
            ("11m", None),
            ("0s", None),
            ("-1s", None),
            ("10", None),
            ("soon", None),
        ] {
            let actual = TimeLimit::try_from(text.to_owned());
            assert_eq!(actual.clone().ok().map(|limit| limit.0.as_millis()), expected, "{text}");
            if let Ok(limit) = actual {
                assert_eq!(TimeLimit::try_from(String::from(limit)), Ok(limit), "{limit} is read again");
            }
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let yaml = "{ pre_compact: [{ command: 'check', timeout: 2s, env: [KEY] }], post_compact: [{ command: log }], \
                    pre_tool_call: [{ command: guard, tools: [shell, 'files__*'], if_broken: deny }] }";
        let hooks: HookCommands = serde_saphyr::from_str(yaml).unwrap();
        assert_eq!(hooks.pre_compact[0].time_limit(), Duration::from_secs(2));
        assert_eq!(hooks.post_compact[0].time_limit(), Duration::from_secs(10));
        let again: HookCommands = serde_saphyr::from_str(&serde_saphyr::to_string(&hooks).unwrap()).unwrap();
        assert_eq!(again, hooks);
        let all: Vec<_> = hooks
            .iter()
            .map(|(point, command, tools)| (point.as_str(), command.command.as_str().to_owned(), tools.len()))
            .collect();
        let expected =
            [("pre_compact", "check", 0), ("post_compact", "log", 0), ("pre_tool_call", "guard", 2)];
        assert_eq!(all, expected.map(|(point, command, n)| (point, command.to_owned(), n)));
    }
}
