//! Templates, provider registry, token counting and workflow loading; no files, no sockets.

mod o200k_token_counter;

mod o200k_reference;

mod handlebars_template_service;

mod provider_registry;

pub mod workflow;

pub use handlebars_template_service::HandlebarsTemplates;
pub use o200k_token_counter::O200kCounter;
pub use provider_registry::ProviderRegistry;
