//! `forge config`: a look at the configuration.

use std::process::ExitCode;

use forge_infra::without_secrets;
use forge_services::workflow::schema;

use crate::arguments::{ConfigArguments, ConfigCommand, Source};
use crate::migrate;
use crate::output;
use crate::setup;

/// Checks or shows the configuration.
pub(crate) fn config(arguments: &ConfigArguments) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        ConfigCommand::Check(source) => check(source),
        ConfigCommand::Schema => {
            output::print(&schema_text()?)?;
            Ok(ExitCode::SUCCESS)
        }
        ConfigCommand::Migrate(arguments) => migrate::migrate(arguments),
        ConfigCommand::Show { source, json } => show(source, *json),
    }
}

/// The schema as the file that is shipped has it.
fn schema_text() -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(&schema())? + "\n")
}

fn check(source: &Source) -> anyhow::Result<ExitCode> {
    let configuration = setup::configuration(source)?;
    let services = setup::services(configuration.workflow, None)?;
    setup::checked(&services, &configuration.layers, None)?;
    let name = configuration.layers.project.map_or_else(|| "no forge.yaml".to_owned(), |source| source.name);
    let agents: Vec<&str> = services.workflow.agents.iter().map(|agent| agent.id.as_str()).collect();
    output::print(&match agents.as_slice() {
        [] => format!("{name}: no agents\n"),
        agents => format!("{name}: all is well with {}\n", agents.join(", ")),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn show(source: &Source, json: bool) -> anyhow::Result<ExitCode> {
    let mut workflow = setup::configuration(source)?.workflow;
    for provider in workflow.providers.values_mut() {
        provider.base_url = provider.base_url.take().map(|url| without_secrets(&url));
        // A value that is no variable's name may be a secret.
        let values = provider.headers.iter_mut().flat_map(|headers| headers.values_mut());
        values.filter(|value| !value.starts_with('$')).for_each(|value| "(hidden)".clone_into(value));
    }
    output::print(&if json {
        serde_json::to_string_pretty(&workflow)? + "\n"
    } else {
        serde_saphyr::to_string(&workflow)?
    })?;
    Ok(ExitCode::SUCCESS)
}
