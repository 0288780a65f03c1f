//! `forge config`: a look at the configuration.

use std::process::ExitCode;

use crate::arguments::{ConfigArguments, ConfigCommand, Source};
use crate::setup;

/// Checks or shows the configuration.
pub(crate) fn config(arguments: &ConfigArguments) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        ConfigCommand::Check(source) => check(source),
        ConfigCommand::Show { source, json } => show(source, *json),
    }
}

fn check(source: &Source) -> anyhow::Result<ExitCode> {
    let configuration = setup::configuration(source)?;
    let services = setup::services(configuration.workflow, None)?;
    setup::checked(&services, &configuration.layers)?;
    let name = configuration.layers.project.map_or_else(|| "no forge.yaml".to_owned(), |source| source.name);
    let agents: Vec<&str> = services.workflow.agents.iter().map(|agent| agent.id.as_str()).collect();
    match agents.as_slice() {
        [] => println!("{name}: no agents"),
        agents => println!("{name}: all is well with {}", agents.join(", ")),
    }
    Ok(ExitCode::SUCCESS)
}

fn show(source: &Source, json: bool) -> anyhow::Result<ExitCode> {
    let workflow = setup::configuration(source)?.workflow;
    if json {
        println!("{}", serde_json::to_string_pretty(&workflow)?);
    } else {
        print!("{}", serde_saphyr::to_string(&workflow)?);
    }
    Ok(ExitCode::SUCCESS)
}
