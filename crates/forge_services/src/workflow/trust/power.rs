//! The powers that a project's file can ask for.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::key_forms::{hide_keys, is_variable_name};

/// Something that a project's file can have only where somebody trusts it. Displays as what it
/// does, in one line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "power", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Power {
    /// A hook's command runs.
    RunHook {
        /// The point at which it runs.
        point: String,
        /// The agent, where it is about one alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        /// The command line for the shell.
        command: String,
    },
    /// The program of an MCP server is started.
    StartServer {
        /// The server's name.
        server: String,
        /// The program and its arguments.
        command: Vec<String>,
        /// The folder that it runs in, where it is named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        folder: Option<String>,
        /// The variables that decide which programs and libraries it uses, with their values.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        env: BTreeMap<String, String>,
    },
    /// A file of the project is run, or read by a program that is: what is in it counts as said.
    UseFile {
        /// Its path as the command has it.
        file: String,
        /// The hash of its content.
        sha256: String,
    },
    /// A command names files by patterns or variables, or cannot be read: their content can change without a
    /// question.
    UseUnwatched {
        /// The command.
        command: String,
    },
    /// Requests go to an address.
    SendTo {
        /// Whose address it is, such as ``provider `x` ``.
        whom: String,
        /// The address, without secrets.
        address: String,
    },
    /// A header with a text of the file goes along.
    SendHeader {
        /// With whose requests.
        whom: String,
        /// The header's name.
        header: String,
    },
    /// Requests have an option that decides who answers, what it costs or what else is sent.
    SendOption {
        /// With whose requests, such as ``agent `x` ``.
        whom: String,
        /// The key that sets it.
        key: String,
    },
    /// The value of an environment variable is given away.
    ReadVariable {
        /// The variable's name.
        variable: String,
        /// To whom.
        whom: String,
    },
    /// Checkpoints are kept somewhere else, or nowhere.
    KeepAt {
        /// The store, without a password.
        store: String,
    },
    /// Fewer checkpoints are saved, so less is known of what a run did.
    SaveLess {
        /// The rule, such as `interval: 9`.
        rule: String,
        /// The agent, where it is about one alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
    },
    /// Runs of a fleet read a repository, and write their files to it.
    WorkOn {
        /// The address of the repository.
        place: String,
    },
    /// Checkpoints of other runs are deleted.
    Discard {
        /// The rule, such as `max_age: 30d`.
        rule: String,
    },
    /// `fetch` may ask a private address.
    ReachPrivate {
        /// The address, range or name.
        place: String,
    },
    /// Calls are made without asking.
    Allow {
        /// The tool, or a pattern of tools.
        tool: String,
        /// The pattern of the calls, if not all are meant.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pattern: Option<String>,
        /// The agent, where it is about one alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
    },
    /// An agent may call what does more than look at the folder's files.
    Call {
        /// The agent.
        agent: String,
        /// The tool, the pattern of tools, or the agent that it calls.
        tool: String,
    },
    /// An agent of the person's own is changed.
    ChangeAgent {
        /// The agent.
        agent: String,
        /// The key that is changed.
        key: String,
    },
    /// A value is set that templates of the person's own may name.
    ChangeVariable {
        /// Its name.
        variable: String,
    },
    /// A model is served by somebody else.
    Route {
        /// The model.
        model: String,
        /// The provider that would serve it.
        provider: String,
    },
    /// Costs are counted by prices of the file.
    Reprice {
        /// The model.
        model: String,
    },
    /// A limit is raised.
    Raise {
        /// The key.
        key: String,
        /// The new value.
        to: String,
    },
}

impl Power {
    /// Checks whether the power is about where checkpoints are kept.
    pub const fn is_about_the_store(&self) -> bool {
        matches!(self, Self::KeepAt { .. })
    }

    /// Returns the power as it is shown and stored: without what looks like a secret in any of its texts.
    #[must_use]
    pub fn without_secrets(&self) -> Self {
        match self {
            // A key in the place of its variable's name is the usual slip.
            Self::ReadVariable { variable, whom } if !is_variable_name(variable) => {
                Self::ReadVariable { variable: "(hidden)".to_owned(), whom: hide_keys(whom) }
            }
            // The password is hidden already, and the dots in its place look like one.
            Self::KeepAt { store } => {
                let (place, query) = store.split_at(store.find('?').unwrap_or(store.len()));
                Self::KeepAt { store: format!("{place}{}", hide_keys(query)) }
            }
            // By its stored form, so that no text of a new power is forgotten.
            power => serde_json::to_value(power)
                .and_then(|stored| serde_json::from_value(without_keys(stored)))
                .unwrap_or_else(|_| power.clone()),
        }
    }
}

/// Returns `value` without what looks like a key in its texts.
fn without_keys(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(hide_keys(&text)),
        Value::Array(items) => Value::Array(items.into_iter().map(without_keys).collect()),
        Value::Object(fields) => {
            Value::Object(fields.into_iter().map(|(key, value)| (key, without_keys(value))).collect())
        }
        other => other,
    }
}

/// The variables that decide which programs and libraries a program uses.
const RULING_VARIABLES: [&str; 29] = [
    "PATH",
    "ENV",
    "BASH_ENV",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "PERL5LIB",
    "PERL5OPT",
    "RUBYLIB",
    "RUBYOPT",
    "CLASSPATH",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "DOTNET_STARTUP_HOOKS",
    "LUA_INIT",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    // Where programs that install others take them from, and where their settings are.
    "HOME",
    "XDG_CONFIG_HOME",
    "NPM_CONFIG_REGISTRY",
    "NPM_CONFIG_USERCONFIG",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
];

/// Checks whether a variable decides which programs and libraries a program uses. The value of another one
/// may be a secret, and is not shown.
pub(super) fn is_ruling(variable: &str) -> bool {
    let variable = variable.to_ascii_uppercase();
    RULING_VARIABLES.contains(&variable.as_str())
        || ["LD_", "DYLD_"].iter().any(|start| variable.starts_with(start))
}

/// Checks whether nothing that is kept at a store outlives the process.
fn keeps_nothing(store: &str) -> bool {
    let place = store.strip_prefix("sqlite:").map(|rest| rest.strip_prefix("//").unwrap_or(rest));
    matches!(store, "none" | "memory:")
        || place.is_some_and(|place| place.split('?').next() == Some(":memory:"))
}

impl fmt::Display for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |agent: &Option<String>| {
            agent.as_ref().map_or_else(String::new, |agent| format!(" (agent `{agent}`)"))
        };
        match self {
            Self::RunHook { point, agent, command } => write!(f, "run at {point}{}: {command}", of(agent)),
            Self::StartServer { server, command, folder, env } => {
                let folder = folder.as_ref().map_or_else(String::new, |folder| format!(" in {folder}"));
                let env: String = env.iter().map(|(name, value)| format!("{name}={value} ")).collect();
                write!(f, "start the MCP server `{server}`{folder}: {env}{}", command.join(" "))
            }
            Self::UseFile { file, sha256 } => {
                let start: String = sha256.chars().take(12).collect();
                write!(f, "use the file {file} (sha256 {start}…)")
            }
            Self::UseUnwatched { command } => {
                write!(f, "let `{command}` use any files: the files that it names are not watched")
            }
            Self::SendTo { whom, address } => write!(f, "send requests of {whom} to {address}"),
            Self::SendHeader { whom, header } => write!(f, "send the header `{header}` to {whom}"),
            Self::SendOption { whom, key } => {
                write!(f, "send the `{key}` of the file with requests of {whom}")
            }
            Self::ReadVariable { variable, whom } => write!(f, "give the variable {variable} to {whom}"),
            Self::KeepAt { store } if keeps_nothing(store) => {
                f.write_str("keep no checkpoints and no list of what is done")
            }
            Self::KeepAt { store } => write!(f, "keep checkpoints at {store}"),
            Self::SaveLess { rule, agent } => write!(f, "save fewer checkpoints{} ({rule})", of(agent)),
            Self::WorkOn { place } => write!(f, "let runs of a fleet read and write the repository {place}"),
            Self::Discard { rule } => write!(f, "delete old checkpoints of the whole store ({rule})"),
            Self::ReachPrivate { place } => write!(f, "let `fetch` ask the private address {place}"),
            Self::Allow { tool, pattern: None, agent } => {
                write!(f, "call `{tool}` without asking{}", of(agent))
            }
            Self::Allow { tool, pattern: Some(pattern), agent } => {
                write!(f, "call `{tool}` without asking for `{pattern}`{}", of(agent))
            }
            Self::Call { agent, tool } => write!(f, "let the agent `{agent}` call `{tool}`"),
            Self::ChangeAgent { agent, key } => write!(f, "change `{key}` of your own agent `{agent}`"),
            Self::ChangeVariable { variable } => write!(f, "set the template variable `{variable}`"),
            Self::Route { model, provider } => write!(f, "use the model `{model}` of `{provider}`"),
            Self::Reprice { model } => write!(f, "set the price of the model `{model}`"),
            Self::Raise { key, to } => write!(f, "raise `{key}` to {to}"),
        }
    }
}
