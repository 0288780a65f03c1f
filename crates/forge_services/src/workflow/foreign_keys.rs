//! Keys that other versions of Forge had: what to write instead.

use super::key_path::{KeyPath, Step};

/// Where a key can stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Top,
    Agent,
    Compact,
}

/// Every such key, where it stood, and what to do.
const FOREIGN: [(Level, &str, &str); 35] = {
    use Level::{Agent, Compact, Top};
    [
        (
            Compact,
            "eviction_window",
            "say how far instead, such as `max_tokens: 40%`, and what stays, such as `retention_window: 6`",
        ),
        (
            Compact,
            "on_turn_end",
            "remove it: the context is looked at before every call; `auto_compact: false` turns that off",
        ),
        (Compact, "token_threshold_percentage", "write a percentage, such as `token_threshold: 70%`"),
        (Agent, "ephemeral", "remove it: an agent's conversation lasts for one run"),
        (Agent, "hide_content", "remove it: what an agent says to another is not shown"),
        (Agent, "disable", "remove the agent, or its `subscribe`"),
        (Agent, "tool_supported", "remove it: an agent without `tools` is sent none"),
        (Agent, "suggestions", "remove it: there are no suggestions"),
        (Agent, "custom_rules", "write them into `system_prompt`, or below `variables` and name them there"),
        (Agent, "max_walker_depth", "remove it: `list` shows one folder at a time"),
        (Agent, "max_tokens", "write `max_output_tokens`; how far to compact is `compact.max_tokens`"),
        (Agent, "top_k", "remove it: only `temperature` and `top_p` are sent"),
        (Agent, "reasoning", "remove it: the model's own default holds"),
        (Agent, "title", "write `description`"),
        (Agent, "provider", "write it before the model, as `model: PROVIDER:MODEL`"),
        (Agent, "max_requests_per_turn", "write `max_iterations`"),
        (Agent, "max_tool_failure_per_turn", "remove it; `max_iterations` ends what goes round in circles"),
        (Top, "commands", "remove it: give the text to `forge run`"),
        (
            Top,
            "custom_rules",
            "write them into each `system_prompt`, or below `variables` and name them there",
        ),
        (Top, "templates", "remove it: write a template where it is used"),
        (Top, "model", "write `model` below each agent, or set FORGE_MODEL for all of them"),
        (Top, "compact", "write `compact` below each agent; an anchor saves repeating it"),
        (Top, "temperature", "write `temperature` below each agent"),
        (Top, "top_p", "write `top_p` below each agent"),
        (Top, "top_k", "remove it: only `temperature` and `top_p` are sent"),
        (Top, "max_tokens", "write `max_output_tokens` below each agent"),
        (Top, "max_requests_per_turn", "write `max_iterations` below each agent"),
        (
            Top,
            "max_tool_failure_per_turn",
            "remove it; `max_iterations` below an agent ends what goes round in circles",
        ),
        (Top, "max_walker_depth", "remove it: `list` shows one folder at a time"),
        (Top, "tool_supported", "remove it: an agent without `tools` is sent none"),
        (Top, "reasoning", "remove it: the model's own default holds"),
        (Top, "retry", "write `retries` below a provider"),
        (Top, "session", "write `model: PROVIDER:MODEL` below each agent"),
        (Top, "http", "remove it: connections need no settings"),
        (Top, "updates", "remove it: nothing updates itself"),
    ]
};

/// What to write instead of the key that `path` ends in; `None` where no version of Forge had it there.
pub(super) fn instead_of(path: &KeyPath) -> Option<&'static str> {
    let (level, key) = match path.0.as_slice() {
        [Step::Key(key)] => (Level::Top, key),
        [Step::Key(agents), _, Step::Key(key)] if agents == "agents" => (Level::Agent, key),
        [Step::Key(agents), _, Step::Key(compact), Step::Key(key)]
            if agents == "agents" && compact == "compact" =>
        {
            (Level::Compact, key)
        }
        _ => return None,
    };
    FOREIGN.iter().find(|(known, name, _)| *known == level && name == key).map(|(.., instead)| *instead)
}

/// What is wrong with such a key, in words.
pub(super) fn what_is_wrong(key: &str) -> String {
    format!("`{key}` is a key of another version of Forge")
}
