//! What a scripted server tells of itself.

use serde_json::{Value, json};

/// The window of its model, as it tells those who ask in Ollama's protocol.
pub const SHOWN_WINDOW: u64 = 1_000_000;

/// What the server tells of itself, where `line` asks for that.
pub(crate) fn told(line: &str) -> Option<Value> {
    let path = line.split([' ', '?']).nth(1)?;
    let model = json!({"id": "scripted", "object": "model", "owned_by": "tests"});
    match path.rsplit('/').next()? {
        // Only those who ask in Gemini's protocol say how many they want.
        "models" if line.contains("pageSize") => Some(json!({"models": [{"name": "models/scripted"}]})),
        "models" => Some(json!({"object": "list", "data": [model]})),
        "tags" => Some(json!({"models": [{"name": "scripted", "model": "scripted"}]})),
        "show" => Some(json!({"model_info": {"test.context_length": SHOWN_WINDOW}})),
        _ => None,
    }
}
