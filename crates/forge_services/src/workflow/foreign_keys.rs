//! Keys that other versions of Forge and other frameworks have: what to write instead.

use super::nearest::nearest;
use super::yaml::{KeyPath, Step};

/// A level at which a key can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Top,
    Agent,
    Compact,
}

/// Every such key, its old place, and what to do.
const FOREIGN: [(Level, &str, &str); 34] = {
    use Level::{Agent, Compact, Top};
    [
        (
            Compact,
            "eviction_window",
            "set the target instead, such as `max_tokens: 40%`, and the messages to keep, such as \
             `retention_window: 6`",
        ),
        (
            Compact,
            "on_turn_end",
            "remove it: the context is checked before every call; `auto_compact: false` turns that off",
        ),
        (Compact, "token_threshold_percentage", "write a percentage, such as `token_threshold: 70%`"),
        (Agent, "ephemeral", "remove it: an agent's conversation lasts for one run"),
        (Agent, "hide_content", "remove it: messages between agents are not shown"),
        (Agent, "disable", "remove the agent, or its `subscribe`"),
        (Agent, "tool_supported", "remove it: an agent without `tools` gets none"),
        (Agent, "suggestions", "remove it: there are no suggestions"),
        (Agent, "custom_rules", "write them into `system_prompt`, or into `variables` and use them there"),
        (Agent, "max_walker_depth", "remove it: `list` shows one folder at a time"),
        (Agent, "max_tokens", "write `max_output_tokens`; how far to compact is `compact.max_tokens`"),
        (Agent, "top_k", "remove it: only `temperature` and `top_p` are sent"),
        (Agent, "title", "write `description`"),
        (Agent, "provider", "write it before the model, as `model: PROVIDER:MODEL`"),
        (Agent, "max_requests_per_turn", "write `max_iterations`"),
        (Agent, "max_tool_failure_per_turn", "remove it; `max_iterations` ends endless repetition"),
        (Top, "commands", "remove it: give the text to `forge run`"),
        (Top, "custom_rules", "write them into each `system_prompt`, or into `variables` and use them there"),
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
            "remove it; `max_iterations` below an agent ends endless repetition",
        ),
        (Top, "max_walker_depth", "remove it: `list` shows one folder at a time"),
        (Top, "tool_supported", "remove it: an agent without `tools` gets none"),
        (Top, "reasoning", "write it below each agent, such as `reasoning: { effort: high }`"),
        (Top, "retry", "write `retries` below a provider"),
        (Top, "session", "write `model: PROVIDER:MODEL` below each agent"),
        (Top, "http", "remove it: connections need no settings"),
        (Top, "updates", "remove it: nothing updates itself"),
    ]
};

/// Keys of other frameworks (the one that Forge replaces, LangChain, LangGraph, goose, Claude's context
/// editing, Microsoft's Agent Framework, ADK …) for settings of `compact`, and what to write there.
const OF_FRAMEWORKS: [(&str, &[&str]); 13] = [
    (
        "retention_window: 6",
        &[
            "preserve_recent_count",
            "preserve_recent",
            "preserve_recent_messages",
            "preserve_last_n_messages",
            "retain_recent",
            "keep",
            "keep_recent",
            "keep_recent_messages",
            "keep_recent_tokens",
            "keep_last_n",
            "keep_last_messages",
            "messages_to_keep",
            "min_messages_to_keep",
            "recent_messages",
            "num_recent_messages",
            "tail_messages",
            "overlap_size",
        ],
    ),
    (
        "max_tokens: 40%",
        &[
            "max_context_tokens",
            "context_tokens",
            "target_tokens",
            "target_context_tokens",
            "max_history_tokens",
            "max_tokens_after_compaction",
            "compaction_target",
            "trim_to",
        ],
    ),
    (
        "token_threshold: 80%",
        &[
            "trigger",
            "trigger_tokens",
            "threshold",
            "threshold_tokens",
            "context_token_threshold",
            "compact_threshold",
            "compaction_threshold",
            "compression_threshold",
            "auto_compact_threshold",
            "auto_compact_token_limit",
            "model_auto_compact_token_limit",
            "max_tokens_before_summary",
            "summarize_at",
            "input_tokens",
        ],
    ),
    (
        "message_threshold: 100",
        &[
            "threshold_count",
            "message_limit",
            "messages_before_summary",
            "compaction_interval",
            "max_history",
        ],
    ),
    (
        "max_messages: 50",
        &["target_count", "target_messages", "max_message_count", "window_size", "buffer_size"],
    ),
    (
        "focus: WHAT TO KEEP",
        &[
            "focus_instructions",
            "custom_instructions",
            "compact_instructions",
            "compaction_instructions",
            "summary_instructions",
        ],
    ),
    (
        "model: PROVIDER:MODEL",
        &[
            "summary_model",
            "summarizer_model",
            "summarization_model",
            "compaction_model",
            "compact_model",
            "summarizer",
            "llm",
        ],
    ),
    (
        "prompt: TEMPLATE",
        &[
            "summary_prompt",
            "summarization_prompt",
            "compaction_prompt",
            "compact_prompt",
            "initial_summary_prompt",
        ],
    ),
    (
        "summary_max_tokens: 2000",
        &["max_summary_tokens", "summary_tokens", "summary_token_limit", "max_summary_length"],
    ),
    (
        "auto_compact: true",
        &[
            "enabled",
            "enable",
            "auto",
            "auto_compaction",
            "compaction_enabled",
            "enable_compaction",
            "auto_compact_enabled",
        ],
    ),
    (
        "strategies: [extraction, sliding_window]",
        &["strategy", "context_strategy", "compaction_strategy", "method", "edits"],
    ),
    (
        "pin: [PATTERN]",
        &["pinned", "pinned_patterns", "preserve", "preserve_patterns", "keep_patterns", "protected"],
    ),
    (
        "preserve_system_messages: true",
        &[
            "preserve_system",
            "preserve_system_prompt",
            "keep_system",
            "include_system",
            "keep_system_messages",
        ],
    ),
];

/// Keys of other frameworks for the saved states of a run.
const CHECKPOINT_KEYS: [&str; 5] =
    ["checkpoint_interval", "checkpoint_every", "checkpoint_frequency", "save_interval", "autosave_interval"];

/// Names of the whole block in other frameworks.
const BLOCKS: [&str; 6] = [
    "compaction",
    "context_management",
    "context_compaction",
    "summarization",
    "compression",
    "compact_config",
];

/// Returns what to write instead of the key that `path` ends in; `None` if neither another version of Forge
/// nor another framework had it there.
pub(super) fn instead_of(path: &KeyPath) -> Option<String> {
    let (level, key) = level_of(path)?;
    FOREIGN
        .iter()
        .find(|(known, name, _)| *known == level && *name == key)
        .map(|(.., instead)| (*instead).to_owned())
        .or_else(|| instead_of_framework(level, key))
}

/// Returns the key of another version of Forge that the misspelt key at the end of `path` was meant to be,
/// with what to write instead of it.
pub(super) fn meant_instead(path: &KeyPath) -> Option<String> {
    let (level, key) = level_of(path)?;
    let here = || FOREIGN.iter().filter(|(known, ..)| *known == level);
    let meant = nearest(key, here().map(|(_, name, _)| *name))?;
    let (.., instead) = here().find(|(_, name, _)| *name == meant)?;
    Some(format!("did you mean `{meant}`? Then {instead}"))
}

fn instead_of_framework(level: Level, key: &str) -> Option<String> {
    let place = match level {
        Level::Top => "below `compact` of each agent, write",
        Level::Agent => "below `compact`, write",
        Level::Compact => "write",
    };
    if CHECKPOINT_KEYS.contains(&key) {
        return Some(match level {
            Level::Top | Level::Agent => "write `checkpoint: { interval: 3 }`".to_owned(),
            Level::Compact => "beside `compact`, write `checkpoint: { interval: 3 }`".to_owned(),
        });
    }
    if BLOCKS.contains(&key) && level != Level::Compact {
        return Some(
            "write `compact` below each agent, such as `compact: { token_threshold: 80% }`".to_owned(),
        );
    }
    let (instead, _) = OF_FRAMEWORKS.iter().find(|(_, names)| names.contains(&key))?;
    // Such short words have another meaning above.
    const ONLY_BELOW_COMPACT: [&str; 12] = [
        "keep",
        "trigger",
        "threshold",
        "enabled",
        "enable",
        "auto",
        "strategy",
        "method",
        "edits",
        "pinned",
        "preserve",
        "llm",
    ];
    (level == Level::Compact || !ONLY_BELOW_COMPACT.contains(&key))
        .then(|| format!("{place} `{instead}` instead"))
}

fn level_of(path: &KeyPath) -> Option<(Level, &str)> {
    match path.0.as_slice() {
        [Step::Key(key)] => Some((Level::Top, key.as_str())),
        [Step::Key(agents), _, Step::Key(key)] if agents == "agents" => Some((Level::Agent, key.as_str())),
        [Step::Key(agents), _, Step::Key(compact), Step::Key(key)]
            if agents == "agents" && compact == "compact" =>
        {
            Some((Level::Compact, key.as_str()))
        }
        _ => None,
    }
}

/// Describes what is wrong with the key that `path` ends in.
pub(super) fn what_is_wrong(path: &KeyPath) -> String {
    let key = path.last_key().unwrap_or_default();
    let is_ours = level_of(path)
        .is_some_and(|(level, key)| FOREIGN.iter().any(|(known, name, _)| *known == level && *name == key));
    let whose = if is_ours { "another version of Forge" } else { "another framework" };
    format!("`{key}` is a key of {whose}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::{Layers, Source, load};

    fn refusal(yaml: &str) -> String {
        let layers = Layers { project: Some(Source::new("f", yaml)), ..Layers::default() };
        load(&layers).unwrap_err().to_string()
    }

    #[test]
    fn a_key_of_another_framework_is_told_what_to_write() {
        for (instead, keys) in OF_FRAMEWORKS {
            for key in keys {
                let error = refusal(&format!("agents: {{ a: {{ compact: {{ {key}: 5 }} }} }}\n"));
                assert!(error.contains(&format!("`{key}` is a key of another framework")), "{error}");
                assert!(error.contains(&format!("help: write `{instead}` instead")), "{error}");
            }
            // What is written instead is a key that is there.
            let (key, _) = instead.split_once(':').unwrap();
            let error = refusal(&format!("agents: {{ a: {{ compact: {{ {key}: [[]] }} }} }}\n"));
            assert!(!error.contains("unknown field"), "{error}");
        }
        for (yaml, words) in [
            (
                "agents: { a: { preserve_recent_count: 5 } }\n",
                "below `compact`, write `retention_window: 6` instead",
            ),
            ("max_context_tokens: 5\n", "below `compact` of each agent, write `max_tokens: 40%` instead"),
            (
                "agents: { a: { compact: { checkpoint_interval: 5 } } }\n",
                "beside `compact`, write `checkpoint: { interval: 3 }`",
            ),
            ("checkpoint_interval: 5\n", "write `checkpoint: { interval: 3 }`"),
            ("agents: { a: { compaction: {} } }\n", "write `compact` below each agent"),
            ("agents: { a: { eviction_window: 5 } }\n", "unknown field"),
            ("agents: { a: { threshold: 5 } }\n", "unknown field"),
        ] {
            let error = refusal(yaml);
            assert!(error.contains(words), "`{words}` is not in:\n{error}");
        }
    }
}
