//! The wiring: files and the environment become a workflow, and a workflow becomes services.

mod configuration;
pub(crate) mod first_model;
mod logged_provider;
pub(crate) mod mcp;
mod mcp_file;
mod provider_faults;
mod providers;
pub(crate) mod sandbox;
mod services;
pub(crate) mod store;
pub(crate) mod surroundings;

pub(crate) use self::configuration::{
    BUILT_IN_AGENT, Configuration, configuration, configuration_within, layers, nearest_project_file,
    own_layers, project_file, read_yaml, say_without_transforms, user_layer, with_built_in_agent,
};
pub(crate) use self::providers::{Providers, key_is_there, providers, unusable};
pub(crate) use self::services::{
    check_agents, hooks, idle_services, services, services_around, silent_watcher,
};
