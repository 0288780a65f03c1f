//! Keys that would go where they do not belong.

use std::collections::BTreeMap;

use forge_domain::{Workflow, named_variables};

use super::super::Finding;

/// A variable whose value goes along with requests to an address.
struct Use {
    variable: String,
    address: String,
    /// The key that says the address.
    path: String,
}

/// Returns what of `merged`, the workflow of all layers, sends a key that belongs to the person's
/// `own` layers to an address that they do not name for it. Nobody can consent to that in a
/// project's file: who wants it names the address in a layer of their own, or another variable.
pub(in super::super) fn check_places(own: &Workflow, merged: &Workflow) -> Vec<Finding> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Use { variable, address, .. } in uses(own) {
        places.entry(variable).or_default().push(address);
    }
    let mut findings = Vec::new();
    for Use { variable, address, path } in uses(merged) {
        let Some(known) = places.get(&variable).filter(|known| !known.contains(&address)) else { continue };
        findings.push(Finding {
            path,
            what: format!("the key in {variable} belongs to {} and is not sent elsewhere", known.join(" and ")),
            hint: Some(format!(
                "name this address in your own ~/.config/forge/forge.yaml, or a variable other than {variable} here"
            )),
        });
    }
    findings
}

fn uses(workflow: &Workflow) -> Vec<Use> {
    let mut uses = Vec::new();
    let named = |values: &Option<BTreeMap<String, String>>| -> Vec<String> {
        let values = values.iter().flatten();
        values.flat_map(|(_, value)| named_variables(value)).map(str::to_owned).collect()
    };
    for (id, config) in &workflow.providers {
        let variables = config.api_key_env.iter().cloned().chain(named(&config.headers));
        let address = normal(config.address().unwrap_or_default());
        let path = format!("providers.{id}.base_url");
        uses.extend(variables.map(|variable| Use { variable, address: address.clone(), path: path.clone() }));
    }
    for (id, config) in &workflow.mcp_servers {
        let address = normal(config.url.as_deref().unwrap_or_default());
        let path = format!("mcp_servers.{id}.url");
        let variables = named(&config.headers).into_iter();
        uses.extend(variables.map(|variable| Use { variable, address: address.clone(), path: path.clone() }));
    }
    if let Some(search) = &workflow.tool_settings.web_search {
        let address = normal(&String::from(search.endpoint.clone()));
        let path = "tool_settings.web_search.endpoint".to_owned();
        uses.extend(search.api_key_env.clone().map(|variable| Use { variable, address, path }));
    }
    uses
}

/// An address in one of its spellings.
fn normal(address: &str) -> String {
    let address = address.trim().trim_end_matches('/');
    match address.split_once("://") {
        None => address.to_owned(),
        Some((scheme, rest)) => {
            let (host, path) = rest.split_once('/').map_or((rest, None), |(host, path)| (host, Some(path)));
            let (scheme, host) = (scheme.to_ascii_lowercase(), host.to_ascii_lowercase());
            path.map_or_else(|| format!("{scheme}://{host}"), |path| format!("{scheme}://{host}/{path}"))
        }
    }
}
