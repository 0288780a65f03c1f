//! Templates, provider registry, token counting and workflow loading; no files, no sockets.

mod approximate_token_counter;
mod o200k_token_counter;
mod o200k_reference;
mod handlebars_template_service;
mod joined_tools;
mod no_models;
mod provider_registry;
mod retrying_provider;
mod template_bounds;
pub mod workflow;

use std::sync::Arc;

use forge_domain::{Counting, TokenCounter};

pub use approximate_token_counter::ApproximateCounter;
pub use handlebars_template_service::HandlebarsTemplates;
pub use joined_tools::JoinedTools;
pub use no_models::NoModels;
pub use o200k_token_counter::O200kCounter;
pub use provider_registry::ProviderRegistry;
pub use retrying_provider::{RetryPolicy, RetryWatcher, Retrying, RetryingProvider};

/// Returns the counter for `counting`.
pub fn token_counter(counting: Counting) -> Arc<dyn TokenCounter> {
    match counting {
        Counting::Exact => Arc::new(O200kCounter),
        Counting::Approximate => Arc::new(ApproximateCounter),
    }
}
