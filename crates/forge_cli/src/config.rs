//! `forge config`: a look at the configuration.

use std::process::ExitCode;

use crate::arguments::{ConfigArguments, ConfigCommand, Source};
use crate::output;
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
        provider.base_url = provider.base_url.take().map(|url| without_credentials(&url));
    }
    output::print(&if json {
        serde_json::to_string_pretty(&workflow)? + "\n"
    } else {
        serde_saphyr::to_string(&workflow)?
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The address without the name, password and query that may stand in it.
fn without_credentials(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = host.rsplit('@').next().unwrap_or(host);
            format!("{scheme}://{host}{path}")
        }
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_address_is_shown_without_what_is_secret_in_it() {
        for (url, expected) in [
            ("http://h:80/v1", "http://h:80/v1"),
            ("http://me:secret@h/v1?key=1#x", "http://h/v1"),
            ("https://me@h", "https://h"),
            ("h/v1?key=1", "h/v1"),
        ] {
            assert_eq!(without_credentials(url), expected);
        }
    }
}
