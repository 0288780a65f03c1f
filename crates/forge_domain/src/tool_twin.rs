//! Tools of other agents and those of Forge that do the same.

/// A tool of Forge, and the tools of other agents that do the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolTwin {
    /// The tool of Forge.
    pub forge: &'static str,
    /// The tools of other agents, without their namespaces, in lower case.
    pub others: &'static [&'static str],
}

/// The tools of Forge that have twins.
pub const TOOL_TWINS: &[ToolTwin] = &[
    ToolTwin {
        forge: "read",
        others: &[
            "read",
            "read_file",
            "readfile",
            "view",
            "view_file",
            "open_file",
            "read_many_files",
            "notebookread",
        ],
    },
    ToolTwin {
        forge: "list",
        others: &[
            "list",
            "ls",
            "list_dir",
            "list_directory",
            "list_files",
            "glob",
            "find",
            "find_by_name",
            "find_files",
        ],
    },
    ToolTwin {
        forge: "search",
        others: &[
            "search",
            "grep",
            "rg",
            "search_files",
            "search_file_content",
            "codebase_search",
            "grep_search",
        ],
    },
    ToolTwin { forge: "write", others: &["write", "write_file", "write_to_file", "create", "create_file"] },
    ToolTwin {
        forge: "patch",
        others: &[
            "patch",
            "edit",
            "multiedit",
            "apply_patch",
            "apply_diff",
            "replace",
            "replace_in_file",
            "replace_file_content",
            "multi_replace_file_content",
            "str_replace",
            "str_replace_editor",
            "str_replace_based_edit_tool",
            "text_editor",
            "edit_file",
            "insert_edit_into_file",
        ],
    },
    ToolTwin {
        forge: "shell",
        others: &[
            "shell",
            "bash",
            "exec",
            "exec_command",
            "execute_command",
            "execute_bash",
            "run_shell_command",
            "run_command",
            "run_terminal_cmd",
            "local_shell",
            "local_shell_call",
            "terminal",
        ],
    },
    ToolTwin {
        forge: "fetch",
        others: &["fetch", "webfetch", "web_fetch", "fetch_url", "read_url", "read_url_content"],
    },
    ToolTwin {
        forge: "web_search",
        others: &["web_search", "websearch", "google_web_search", "search_web", "web_search_call"],
    },
    ToolTwin {
        forge: "ask",
        others: &[
            "ask",
            "askuserquestion",
            "ask_user",
            "ask_followup_question",
            "question",
            "request_user_input",
        ],
    },
];

/// The tools by which agents give a task to another agent, without their namespaces, in lower case.
const OTHER_AGENTS: &[&str] = &[
    "agent",
    "delegate",
    "delegate_task",
    "dispatch_agent",
    "new_task",
    "run_subagent",
    "runsubagent",
    "spawn_agent",
    "subagent",
    "task",
];

/// Checks whether a tool of that name gives a task to another agent, whose report is its result.
pub(crate) fn asks_agent(name: &str) -> bool {
    OTHER_AGENTS.contains(&bare(name).as_str())
}

/// Returns the name of a tool without its namespace, in lower case.
fn bare(name: &str) -> String {
    let name = name.rsplit(['.', ':']).next().unwrap_or(name);
    name.rsplit("__").next().unwrap_or(name).to_ascii_lowercase()
}

/// Returns the tool of Forge that does what the tool `name` of another agent does; `None` if none does.
pub fn tool_twin(name: &str) -> Option<&'static str> {
    let bare = bare(name);
    TOOL_TWINS.iter().find(|twin| twin.others.contains(&bare.as_str())).map(|twin| twin.forge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_known_by_its_twins() {
        for (name, expected) in [
            ("Bash", Some("shell")),
            ("functions.exec_command", Some("shell")),
            ("developer__shell", Some("shell")),
            ("Read", Some("read")),
            ("read", Some("read")),
            ("apply_patch", Some("patch")),
            ("replace_file_content", Some("patch")),
            ("ask_followup_question", Some("ask")),
            ("ask_question", None),
            ("git_log", None),
            ("", None),
        ] {
            assert_eq!(tool_twin(name), expected, "{name}");
        }
    }
}
