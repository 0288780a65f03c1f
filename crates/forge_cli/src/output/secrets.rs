//! The secrets of this process, hidden in everything that users see.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};

use forge_domain::{ProviderConfig, Workflow, find_secrets, named_variables};
use forge_infra::Secret;

static KNOWN: RwLock<Option<Arc<[Secret]>>> = RwLock::new(None);

/// Hides from now on every key and secret header of `workflow`, and the variables that MCP servers get. Data
/// is never changed: replies, calls, results and files keep their content.
pub(crate) fn hide_from_now_on(workflow: &Workflow) {
    let secrets: Arc<[Secret]> = secrets(workflow).filter(Secret::is_distinctive).collect();
    *KNOWN.write().unwrap_or_else(PoisonError::into_inner) =
        Some(secrets).filter(|secrets| !secrets.is_empty());
}

/// Returns `text` in a form that may be shown.
pub(crate) fn hide_secrets(text: &str) -> Cow<'_, str> {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner).clone();
    known.map_or(Cow::Borrowed(text), |secrets| hidden_by(&secrets, text))
}

fn hidden_by<'a>(secrets: &[Secret], text: &'a str) -> Cow<'a, str> {
    if !secrets.iter().any(|secret| secret.is_in(text)) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(secrets.iter().fold(text.to_owned(), |text, secret| secret.hide_in(text)))
}

/// Checks whether a text that should name a variable is the key itself, as if the two were mixed up.
fn is_key(name: &str) -> bool {
    name.contains(|c: char| !c.is_ascii_alphanumeric() && c != '_') || !find_secrets(name).is_empty()
}

/// Returns every value of the environment that the workflow uses as a secret, and keys in place of names.
fn secrets(workflow: &Workflow) -> impl Iterator<Item = Secret> {
    let of_provider = |config: &ProviderConfig| {
        let named = config.headers.iter().flatten().filter_map(|(_, value)| value.strip_prefix('$'));
        named.chain(config.api_key_env.as_deref()).map(str::to_owned).collect::<Vec<_>>()
    };
    let of_search = workflow.tool_settings.web_search.iter().filter_map(|search| search.api_key_env.clone());
    let of_servers = workflow.mcp_servers.values().flat_map(|config| {
        let values = config.env.iter().chain(&config.headers).flatten();
        values.flat_map(|(_, value)| named_variables(value)).map(str::to_owned)
    });
    let named: Vec<String> =
        workflow.providers.values().flat_map(of_provider).chain(of_search).chain(of_servers).collect();
    let keys: Vec<String> = named.iter().filter(|name| is_key(name)).cloned().collect();
    named.into_iter().filter_map(|variable| std::env::var(variable).ok()).chain(keys).map(Secret::new)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_key_in_place_of_a_name_is_hidden() {
        for (name, expected) in
            [("OPENAI_API_KEY", false), ("key_2", false), ("sk-planted-0123456789abcdef", true)]
        {
            assert_eq!(is_key(name), expected, "{name}");
        }
    }

    #[test]
    fn only_secrets_are_hidden() {
        let secrets = [Secret::new("sk-planted-1234"), Secret::new("ollama")];
        for (text, expected) in [
            ("", ""),
            ("ollama is not sk-planted", "ollama is not sk-planted"),
            ("KEY=sk-planted-1234;", "KEY=(key hidden);"),
        ] {
            let secrets: Vec<_> = secrets.iter().filter(|secret| secret.is_distinctive()).cloned().collect();
            assert_eq!(hidden_by(&secrets, text), expected);
        }
    }
}
