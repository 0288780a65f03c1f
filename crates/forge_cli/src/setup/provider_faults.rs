//! Providers that cannot be set up as configured: reported at the invalid key, and no obstacle to the others.

use std::collections::BTreeSet;

use async_trait::async_trait;
use forge_domain::{ChatStream, ModelInfo, Prompt, Provider, ProviderError, ProviderId, Workflow};
use forge_infra::ProviderSetupError;
use forge_services::workflow::{Finding, Layers};

/// The reason why a provider cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// Its address is missing.
    #[error("provider `{0}` has no address: set `providers: {{ {0}: {{ base_url: http://HOST:PORT/v1 }} }}`")]
    NoAddress(ProviderId),
    /// Its settings are invalid.
    #[error("{error}{}", because(.error))]
    Setup {
        /// The cause.
        error: ProviderSetupError,
    },
}

/// Returns the causes of an error, in words.
fn because(error: &ProviderSetupError) -> String {
    std::error::Error::source(error).map_or_else(String::new, |source| format!(": {source}"))
}

impl From<ProviderSetupError> for Fault {
    fn from(error: ProviderSetupError) -> Self {
        Self::Setup { error }
    }
}

impl Fault {
    /// Returns the fault at its key.
    pub(crate) fn finding(&self, provider: &ProviderId, layers: &Layers) -> Finding {
        let (key, hint) = match self {
            Self::Setup { error: ProviderSetupError::BaseUrl { .. } } => {
                (".base_url".to_owned(), Some("for example `base_url: http://localhost:8080/v1`"))
            }
            Self::Setup { error: ProviderSetupError::Key { .. } } => (".api_key_env".to_owned(), None),
            Self::Setup { error: ProviderSetupError::Header { header, .. } } => {
                (format!(".headers.{header}"), None)
            }
            Self::NoAddress(_) | Self::Setup { error: ProviderSetupError::Client { .. } } => {
                (String::new(), None)
            }
        };
        let is_set = layers.environment.get("OPENAI_BASE_URL").is_some_and(|url| !url.trim().is_empty());
        let hint = match key.as_str() {
            ".base_url" if is_set && provider.as_str() == "openai" => {
                Some("it comes from the environment variable OPENAI_BASE_URL")
            }
            _ => hint,
        };
        let path = format!("providers.{provider}{key}");
        Finding { path, what: self.to_string(), hint: hint.map(str::to_owned) }
    }
}

/// A substitute for a provider that cannot be set up: every call fails with the reason.
pub(crate) struct Unusable {
    fault: String,
}

impl Unusable {
    pub(crate) fn new(fault: &Fault) -> Self {
        Self { fault: fault.to_string() }
    }

    fn error(&self) -> ProviderError {
        ProviderError::Unusable { what: self.fault.clone() }
    }
}

#[async_trait]
impl Provider for Unusable {
    async fn chat(&self, _: Prompt) -> Result<ChatStream, ProviderError> {
        Err(self.error())
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError> {
        Err(self.error())
    }

    fn check(&self) -> Result<(), ProviderError> {
        Err(self.error())
    }
}

/// Returns the providers of the agents' models and summarizers; only one agent's, if it is named.
pub(crate) fn used_providers(workflow: &Workflow, agent: Option<&str>) -> BTreeSet<ProviderId> {
    let agents = workflow.agents.iter().filter(|known| agent.is_none_or(|agent| known.id.as_str() == agent));
    agents
        .flat_map(|agent| {
            let summarizer = agent.compact.as_ref().and_then(|compact| compact.model.as_ref());
            agent.model.iter().chain(summarizer)
        })
        .filter_map(|model| Some(workflow.model(model).ok()?.reference.provider))
        .collect()
}
