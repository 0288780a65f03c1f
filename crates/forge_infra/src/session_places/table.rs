//! The table of agents and of the places where they keep sessions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// An agent and its places.
pub(super) struct Agent {
    /// Its word in names.
    pub(super) id: &'static str,
    /// Its name for people.
    pub(super) name: &'static str,
    pub(super) places: &'static [Place],
}

/// A place of an agent's sessions.
pub(super) struct Place {
    root: Root,
    /// The files below it: folders and a file, each with any number of `*`.
    pub(super) files: &'static str,
    pub(super) kind: Kind,
}

/// The folder below which a place is.
enum Root {
    /// Of these variables the first that is set, and a folder below it.
    Variable(&'static [(&'static str, &'static str)]),
    /// The working folder and those above it.
    Here,
}

/// The form in which a place holds sessions.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// A file each, whose path has the id; `None` if the file is not a session.
    File(fn(&Path) -> Option<String>),
    /// A folder each, of which this file is a part.
    Folder(fn(&Path) -> Option<String>),
    /// A database of all.
    Database,
}

const fn file(
    variables: &'static [(&'static str, &'static str)],
    files: &'static str,
    id: fn(&Path) -> Option<String>,
) -> Place {
    Place { root: Root::Variable(variables), files, kind: Kind::File(id) }
}

const CLAUDE: &[(&str, &str)] = &[("CLAUDE_CONFIG_DIR", ""), ("HOME", ".claude"), ("USERPROFILE", ".claude")];
const CODEX: &[(&str, &str)] = &[("CODEX_HOME", ""), ("HOME", ".codex"), ("USERPROFILE", ".codex")];
const PI: &[(&str, &str)] =
    &[("PI_CODING_AGENT_DIR", ""), ("HOME", ".pi/agent"), ("USERPROFILE", ".pi/agent")];
const OPENCLAW: &[(&str, &str)] =
    &[("OPENCLAW_STATE_DIR", ""), ("HOME", ".openclaw"), ("USERPROFILE", ".openclaw")];
const GEMINI: &[(&str, &str)] =
    &[("GEMINI_CLI_HOME", ".gemini"), ("HOME", ".gemini"), ("USERPROFILE", ".gemini")];
const ANTIGRAVITY: &[(&str, &str)] = &[("HOME", ".gemini"), ("USERPROFILE", ".gemini")];
const COPILOT: &[(&str, &str)] = &[("COPILOT_HOME", ""), ("HOME", ".copilot"), ("USERPROFILE", ".copilot")];
const DATA: &[(&str, &str)] =
    &[("XDG_DATA_HOME", ""), ("HOME", ".local/share"), ("USERPROFILE", ".local/share")];
/// The folders of Visual Studio Code and its relatives.
const EDITORS: &[(&str, &str)] = &[("XDG_CONFIG_HOME", ""), ("HOME", ".config"), ("APPDATA", "")];
const MAC: &[(&str, &str)] = &[("HOME", "Library/Application Support")];
const REMOTE_EDITOR: &[(&str, &str)] = &[("HOME", ".vscode-server/data")];

const CLINE_TASKS: &str = "*/User/globalStorage/saoudrizwan.claude-dev/tasks/*/api_conversation_history.json";
const ROO_TASKS: &str =
    "*/User/globalStorage/rooveterinaryinc.roo-cline/tasks/*/api_conversation_history.json";

/// The agents, in the order of the help.
pub(super) const AGENTS: &[Agent] = &[
    Agent { id: "claude", name: "Claude Code", places: &[file(CLAUDE, "projects/*/*.jsonl", claude_id)] },
    Agent {
        id: "codex",
        name: "Codex",
        places: &[
            file(CODEX, "sessions/*/*/*/rollout-*.jsonl", uuid_at_end),
            file(CODEX, "sessions/*/*/*/rollout-*.jsonl.zst", uuid_at_end),
            file(CODEX, "archived_sessions/rollout-*.jsonl", uuid_at_end),
            file(CODEX, "archived_sessions/rollout-*.jsonl.zst", uuid_at_end),
        ],
    },
    Agent {
        id: "pi",
        name: "pi",
        places: &[
            file(PI, "sessions/*/*.jsonl", after_underscore),
            file(&[("PI_CODING_AGENT_SESSION_DIR", "")], "*.jsonl", after_underscore),
        ],
    },
    Agent { id: "openclaw", name: "OpenClaw", places: &[file(OPENCLAW, "agents/*/sessions/*.jsonl", stem)] },
    Agent {
        id: "gemini",
        name: "Gemini CLI",
        places: &[
            file(GEMINI, "tmp/*/chats/session-*.json", after_dash),
            file(GEMINI, "tmp/*/chats/session-*.jsonl", after_dash),
        ],
    },
    Agent {
        id: "antigravity",
        name: "Antigravity",
        // The editor, its newer version and the command line have a folder each.
        places: &[file(
            ANTIGRAVITY,
            "antigravity*/brain/*/.system_generated/logs/transcript*.jsonl",
            conversation_id,
        )],
    },
    Agent {
        id: "copilot",
        name: "Copilot CLI",
        places: &[
            file(COPILOT, "session-state/*/events.jsonl", folder),
            file(COPILOT, "session-state/*.jsonl", stem),
        ],
    },
    Agent {
        id: "opencode",
        name: "opencode",
        places: &[Place { root: Root::Variable(DATA), files: "opencode/opencode.db", kind: Kind::Database }],
    },
    Agent {
        id: "goose",
        name: "goose",
        places: &[
            Place {
                root: Root::Variable(&[("GOOSE_PATH_ROOT", "data")]),
                files: "sessions/sessions.db",
                kind: Kind::Database,
            },
            Place { root: Root::Variable(DATA), files: "goose/sessions/sessions.db", kind: Kind::Database },
        ],
    },
    Agent {
        id: "openhands",
        name: "OpenHands",
        places: &[Place {
            root: Root::Variable(&[
                ("OPENHANDS_CONVERSATIONS_DIR", ""),
                ("HOME", ".openhands/conversations"),
                ("USERPROFILE", ".openhands/conversations"),
            ]),
            files: "*/base_state.json",
            kind: Kind::Folder(folder),
        }],
    },
    Agent {
        id: "cline",
        name: "Cline",
        places: &[
            file(EDITORS, CLINE_TASKS, folder),
            file(MAC, CLINE_TASKS, folder),
            file(
                REMOTE_EDITOR,
                "User/globalStorage/saoudrizwan.claude-dev/tasks/*/api_conversation_history.json",
                folder,
            ),
            file(
                &[("CLINE_DIR", "data"), ("HOME", ".cline/data")],
                "tasks/*/api_conversation_history.json",
                folder,
            ),
        ],
    },
    Agent {
        id: "roo",
        name: "Roo Code",
        places: &[
            file(EDITORS, ROO_TASKS, folder),
            file(MAC, ROO_TASKS, folder),
            file(
                REMOTE_EDITOR,
                "User/globalStorage/rooveterinaryinc.roo-cline/tasks/*/api_conversation_history.json",
                folder,
            ),
        ],
    },
    Agent {
        id: "aider",
        name: "aider",
        places: &[Place {
            root: Root::Here,
            files: ".aider.chat.history.md",
            kind: Kind::File(hash_of_path),
        }],
    },
];

impl Place {
    /// Checks whether its files are in the working folder or above it.
    pub(super) const fn is_in_folder(&self) -> bool {
        matches!(self.root, Root::Here)
    }

    /// Returns the folders below which its files are.
    pub(super) fn roots(&self, environment: &BTreeMap<String, String>, here: &Path) -> Vec<PathBuf> {
        match self.root {
            Root::Here => here.ancestors().map(Path::to_owned).collect(),
            Root::Variable(variables) => {
                let set = |(variable, below): &(&str, &str)| {
                    let folder = environment.get(*variable).filter(|folder| !folder.is_empty())?;
                    Some(expand(folder, environment).join(below))
                };
                // A relative path would lie in whatever folder Forge runs in.
                let first = variables.iter().find_map(set);
                first.filter(|folder| folder.is_absolute()).into_iter().collect()
            }
        }
    }
}

/// Returns the folder, with the home folder for `~`.
fn expand(folder: &str, environment: &BTreeMap<String, String>) -> PathBuf {
    match (folder.strip_prefix("~/"), environment.get("HOME")) {
        (Some(rest), Some(home)) => Path::new(home).join(rest),
        _ => PathBuf::from(folder),
    }
}

/// Returns the file's name without what tells its kind.
fn stem(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let name = name.strip_suffix(".zst").unwrap_or(name);
    let end = name.rfind('.').filter(|end| *end > 0).unwrap_or(name.len());
    Some(name[..end].to_owned())
}

/// Returns the name of a session of Claude Code; `None` for what its sub-agents wrote.
fn claude_id(path: &Path) -> Option<String> {
    stem(path).filter(|stem| !stem.starts_with("agent-"))
}

/// Returns the name of the conversation of a transcript; `None` for a shortened one beside the whole.
fn conversation_id(path: &Path) -> Option<String> {
    const WHOLE: &str = "transcript_full.jsonl";
    let is_whole = path.file_name()? == WHOLE;
    let is_session = is_whole || stem(path)? == "transcript" && !path.with_file_name(WHOLE).is_file();
    // It is in the folder `.system_generated/logs` of the conversation.
    folder(path.ancestors().nth(2)?).filter(|_| is_session)
}

/// Returns the UUID at the end of the name.
fn uuid_at_end(path: &Path) -> Option<String> {
    const LENGTH: usize = 36;
    let stem = stem(path)?;
    let start = stem.len().checked_sub(LENGTH)?;
    stem.get(start..).map(str::to_owned)
}

fn after_underscore(path: &Path) -> Option<String> {
    let stem = stem(path)?;
    Some(stem.rsplit('_').next().unwrap_or(&stem).to_owned())
}

fn after_dash(path: &Path) -> Option<String> {
    let stem = stem(path)?;
    Some(stem.rsplit('-').next().unwrap_or(&stem).to_owned())
}

/// Returns the name of the folder.
fn folder(path: &Path) -> Option<String> {
    path.parent()?.file_name()?.to_str().map(str::to_owned)
}

/// Returns a short name for a file that has none of its own.
fn hash_of_path(path: &Path) -> Option<String> {
    let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
    Some(hex::encode(&digest[..4]))
}
