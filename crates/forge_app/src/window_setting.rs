//! The setting of a model's window, as notes and checks propose it.

use forge_domain::{ModelId, Tokens};

/// Returns what to write into `forge.yaml`, under the name that the agent has for its model; `N` stands for a
/// window that is unknown.
pub(crate) fn window_setting(id: &ModelId, window: Option<Tokens>) -> String {
    let window = window.map_or_else(|| "N".to_owned(), |window| window.to_string());
    format!("models: {{ '{id}': {{ window: {window} }} }}")
}
