//! Calls that change something outside of the files of the work: issues, bookings, messages, releases.
//! Nothing else tells later that they were made.

use super::command_line::{Walk, from_program, without_folder};

/// Words of a tool's name for what it does outside.
const ACTS: &[&str] = &[
    "add", "apply", "approve", "archive", "assign", "book", "cancel", "close", "comment", "create", "delete",
    "deploy", "destroy", "exchange", "invite", "merge", "modify", "notify", "order", "pay", "post",
    "publish", "purchase", "push", "refund", "reject", "release", "remove", "reopen", "reply", "reserve",
    "resolve", "restart", "return", "rollback", "save", "schedule", "send", "set", "start", "stop", "submit",
    "transfer", "update", "upload",
];
/// First words of the names of tools that only look, whatever follows.
const LOOKS: &[&str] = &[
    "calculate",
    "check",
    "count",
    "describe",
    "fetch",
    "find",
    "get",
    "is",
    "list",
    "load",
    "look",
    "lookup",
    "query",
    "read",
    "search",
    "show",
    "think",
    "view",
    "wait",
];
/// Those of them whose arguments ask for nothing: they are the agent's thoughts or words.
const ASK_NOTHING: &[&str] = &["is", "show", "think", "wait"];
/// Things that such a tool changes and that are the agent's own.
const OWN: &[&str] = &["todo", "todos", "plan", "memory", "file", "files", "task", "goal"];

/// Checks whether a tool of that name acts outside.
pub(crate) fn is_act(tool: &str) -> bool {
    let words = words_of_tool(tool);
    let has = |all: &[&str]| words.iter().any(|word| all.contains(&word.as_str()));
    let looks = words.first().is_some_and(|first| LOOKS.contains(&first.as_str()));
    !looks && has(ACTS) && !has(OWN)
}

/// Checks whether a tool of that name looks something up, by any word of it.
pub(crate) fn is_look(tool: &str) -> bool {
    let asks = |word: &String| LOOKS.contains(&word.as_str()) && !ASK_NOTHING.contains(&word.as_str());
    !is_act(tool) && words_of_tool(tool).iter().any(asks)
}

/// Returns the words of a tool's name, without the server's, which comes before it.
fn words_of_tool(tool: &str) -> Vec<String> {
    let name = tool.rsplit("__").next().unwrap_or_default();
    words_of_name(name.rsplit('.').next().unwrap_or_default())
}

/// Returns the words of a name such as `createIssue` or `create-issue`, in small letters.
pub(super) fn words_of_name(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut was_small = false;
    for c in name.chars() {
        let begins = c.is_uppercase() && was_small;
        was_small = c.is_lowercase();
        match words.last_mut().filter(|_| !begins && c.is_alphanumeric()) {
            Some(word) => word.extend(c.to_lowercase()),
            None => words.push(c.to_lowercase().filter(|c| c.is_alphanumeric()).collect()),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Programs that act outside, each with its commands that do.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("cargo", &["publish"]),
    ("docker", &["push"]),
    ("git", &["push", "tag"]),
    ("helm", &["install", "rollback", "uninstall", "upgrade"]),
    ("kubectl", &["apply", "create", "delete", "patch", "rollout", "scale"]),
    ("npm", &["publish"]),
    ("systemctl", &["disable", "enable", "reload", "restart", "start", "stop"]),
    ("terraform", &["apply", "destroy"]),
];
/// Programs whose second word says what is done to what: `gh pr create`.
const SERVICES: &[&str] = &["aws", "az", "bd", "flyctl", "gcloud", "gh", "glab", "heroku", "jira", "vercel"];

/// Checks whether a command line acts outside in any of its steps.
pub(super) fn acts(walk: &Walk<'_>) -> bool {
    walk.steps.iter().any(|step| {
        let words: Vec<&str> = step.command.split_whitespace().collect();
        let words = from_program(&words);
        let Some((program, told)) = words.split_first() else { return false };
        let program = without_folder(program);
        let mut told = told.iter().copied().filter(|word| !word.starts_with('-'));
        if program == "curl" {
            return sends(words);
        }
        if SERVICES.contains(&program) {
            return told.take(3).any(is_act);
        }
        let commands = PROGRAMS.iter().find(|(name, _)| *name == program).map(|(_, commands)| *commands);
        commands.zip(told.next()).is_some_and(|(commands, word)| commands.contains(&word))
    })
}

/// Checks whether a request changes something.
fn sends(words: &[&str]) -> bool {
    const METHODS: [&str; 4] = ["DELETE", "PATCH", "POST", "PUT"];
    words.windows(2).any(|pair| matches!(pair[0], "-X" | "--request") && METHODS.contains(&pair[1]))
        || words.iter().any(|word| word.strip_prefix("-X").is_some_and(|method| METHODS.contains(&method)))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_tool_that_changes_something_outside_is_known_by_its_name() {
        for (tool, expected) in [
            ("create_issue", true),
            ("mcp__linear__updateIssue", true),
            ("book_reservation", true),
            ("slack.post_message", true),
            ("get_order_details", false),
            ("list_updates", false),
            ("search", false),
            ("TodoWrite", false),
            ("update_plan", false),
            ("Bash", false),
            ("SetVolume", true),
        ] {
            assert_eq!(is_act(tool), expected, "{tool}");
        }
    }

    #[test]
    fn a_command_that_changes_something_outside_is_known_by_its_words() {
        for (command, expected) in [
            ("cd /w && git push -u origin main", true),
            ("gh pr create --draft", true),
            ("gh pr view 3", false),
            ("bd create x", true),
            ("sudo systemctl restart a", true),
            ("kubectl get pods", false),
            ("curl -X POST https://a.example -d x", true),
            ("curl https://a.example", false),
            ("git commit -m x", false),
            ("npm test", false),
        ] {
            assert_eq!(acts(&Walk::of(command, None)), expected, "{command}");
        }
    }
}
