//! The providers of a workflow, each with its key, its headers and its retries.

use std::collections::BTreeMap;
use std::sync::Arc;

use forge_app::{RunEvent, Watcher};
use forge_domain::{Provider, ProviderConfig, ProviderId, ProviderKind, Workflow};
use forge_infra::{
    AnthropicProvider, GeminiProvider, Key, OllamaProvider, OpenAiProvider, ResponsesProvider, Secret,
    SystemPause,
};
use forge_services::workflow::{Finding, Layers};
use forge_services::{RetryPolicy, Retrying, RetryingProvider};

use super::provider_faults::{Fault, Unusable};
use crate::failure::Misconfigured;
use crate::output;

/// Providers by their name in the workflow.
pub(crate) type Providers = BTreeMap<ProviderId, Arc<dyn Provider>>;

/// Creates every declared provider; none is called yet. One that cannot be set up reports that when it is
/// called. `watcher` is told of each retry.
pub(crate) fn providers(workflow: &Workflow, watcher: &Watcher) -> Providers {
    let providers = workflow.providers.iter().map(|(id, config)| {
        let provider = provider(id, config).map(|provider| retrying(provider, config, watcher));
        (id.clone(), provider.unwrap_or_else(|fault| Arc::new(Unusable::new(&fault))))
    });
    providers.collect()
}

/// Fails if the provider cannot be set up, or requires a key that is not in the environment.
pub(crate) fn key_is_there(workflow: &Workflow, id: &ProviderId) -> anyhow::Result<()> {
    if let Some(Err(fault)) = workflow.providers.get(id).map(|config| provider(id, config)) {
        return Err(Misconfigured(fault.to_string()).into());
    }
    let variable = workflow.providers.get(id).and_then(|config| config.api_key_env.as_ref());
    match variable.filter(|variable| std::env::var(variable).is_ok_and(|key| !key.trim().is_empty())) {
        None if variable.is_some() => {
            let variable = variable.cloned().unwrap_or_default();
            let error = forge_domain::ProviderError::MissingKey { provider: id.clone(), variable };
            Err(Misconfigured(error.to_string()).into())
        }
        _ => Ok(()),
    }
}

fn provider(id: &ProviderId, config: &ProviderConfig) -> Result<Arc<dyn Provider>, Fault> {
    let Some(base_url) = config.address() else {
        return Err(Fault::NoAddress(id.clone()));
    };
    let key = match &config.api_key_env {
        None => Key::None,
        Some(variable) => match std::env::var(variable) {
            Ok(key) if !key.trim().is_empty() => Key::Given(Secret::new(key)),
            _ => Key::Missing { variable: variable.clone() },
        },
    };
    let (headers, missing) = headers(config);
    // What is missing is told when the provider is asked: the others can be used.
    let key = missing.map_or(key, |variable| Key::Missing { variable });
    let headers = headers.iter().map(|(name, value)| (*name, value));
    adapter(config.protocol(), id.clone(), base_url, key, headers)
}

/// Returns the provider with the retries of its configuration, of which `watcher` is told.
fn retrying(provider: Arc<dyn Provider>, config: &ProviderConfig, watcher: &Watcher) -> Arc<dyn Provider> {
    let usual = RetryPolicy::default();
    let policy = config.retries.map_or(usual, |retries| RetryPolicy {
        retries: retries as usize,
        retries_of_unreached: retries as usize,
        ..usual
    });
    let watcher = Arc::clone(watcher);
    Arc::new(RetryingProvider::new(
        provider,
        policy,
        Arc::new(SystemPause),
        u64::from(std::process::id()),
        Arc::new(move |retrying| report_retry(retrying, &watcher)),
    ))
}

/// Reports a retry to people and to `watcher`.
fn report_retry(retrying: &Retrying<'_>, watcher: &Watcher) {
    let said = output::visible_lines(&retrying.to_string());
    tracing::warn!(target: "forge::chat", "{said}");
    output::say_waiting(&format!("note: {said}"), retrying.wait);
    let Retrying { n, of, wait, error } = *retrying;
    let why = error.map_or_else(|| "the last reply broke off".to_owned(), ToString::to_string);
    watcher(&RunEvent::Retrying { why: &why, n, of, wait });
}

fn adapter<'a>(
    kind: ProviderKind,
    id: ProviderId,
    base_url: &str,
    key: Key,
    headers: impl Iterator<Item = (&'a str, &'a Secret)>,
) -> Result<Arc<dyn Provider>, Fault> {
    Ok(match kind {
        ProviderKind::OpenAi | ProviderKind::OpenAiChat => {
            Arc::new(OpenAiProvider::new(id, base_url, key)?.with_headers(headers)?)
        }
        ProviderKind::Responses => {
            Arc::new(ResponsesProvider::new(id, base_url, key)?.with_headers(headers)?)
        }
        ProviderKind::Anthropic => {
            Arc::new(AnthropicProvider::new(id, base_url, key)?.with_headers(headers)?)
        }
        ProviderKind::Ollama => Arc::new(OllamaProvider::new(id, base_url, key)?.with_headers(headers)?),
        ProviderKind::Gemini => Arc::new(GeminiProvider::new(id, base_url, key)?.with_headers(headers)?),
    })
}

/// Returns the headers of a provider's requests, with the values of environment variables, and the first
/// variable that is not set.
fn headers(config: &ProviderConfig) -> (Vec<(&str, Secret)>, Option<String>) {
    let (mut headers, mut missing) = (Vec::new(), None);
    for (name, value) in config.headers.iter().flatten() {
        let value = match value.strip_prefix('$') {
            None => Ok(value.clone()),
            Some(variable) => std::env::var(variable).map_err(|_| variable.to_owned()),
        };
        match value {
            Ok(value) => headers.push((name.as_str(), Secret::new(value))),
            Err(variable) => missing = missing.or(Some(variable)),
        }
    }
    (headers, missing)
}

/// Returns the faults of the providers that cannot be set up.
pub(crate) fn unusable(workflow: &Workflow, layers: &Layers) -> Vec<(ProviderId, Finding)> {
    let fault =
        |(id, config)| provider(id, config).err().map(|fault: Fault| (id.clone(), fault.finding(id, layers)));
    workflow.providers.iter().filter_map(fault).collect()
}
