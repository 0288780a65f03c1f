//! A recorded session of each kind, where they are at hand.

use std::path::PathBuf;

/// The names of the sessions below the folder, and their files; none, which is noted, where the folder is not set. `what`
/// says what they are for.
pub(crate) fn recorded_sample(what: &str) -> Vec<(&'static str, PathBuf)> {
    let Some(corpus) = std::env::var_os("FORGE_CORPUS").map(PathBuf::from) else {
        skipped_tests::skip("FORGE_CORPUS is not set", &format!("recorded sessions to {what}"));
        return Vec::new();
    };
    [
        "claude-code-entireio-cli/dev/062a8bdd-4322-4ffa-bc38-3e8b8bfb5a56.jsonl",
        "claude-code-entireio-cli/fixtures/2577a596-e227-47e1-bea8-752f792cbc24.jsonl",
        "claude-code-vscode-fixtures/fixtures/98b76fb9-f5d3-40c5-ab82-b970c20e3764.jsonl",
        "tau-bench/fixtures/gpt-4o-airline.4conv.json",
        "openhands/fixtures/llm-logs/litellm_proxy__anthropic__claude-sonnet-4-20250514-1757015046.707.json",
    ]
    .map(|file| (file, corpus.join(file)))
    .into()
}
