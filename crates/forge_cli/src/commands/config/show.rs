//! `forge config show`: prints the merged configuration.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use forge_app::Services;
use forge_domain::{Agent, ModelInfo, WindowSource, Workflow, without_secrets};
use forge_services::workflow::Origins;
use serde_json::json;

use super::resolution::{render, resolve};
use crate::arguments::{BudgetFlags, Source};
use crate::consent::Need;
use crate::failure::unknown_agent;
use crate::output;
use crate::run::runtime;
use crate::setup::{self, Configuration};

/// The note below a configuration that a single layer could not express.
const HELD: &str = "# Permissions and hooks of earlier layers also apply: --resolved shows them.\n";

/// Print the configuration with all layers merged
#[derive(Debug, Args)]
pub(crate) struct ConfigShowArguments {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    budget: BudgetFlags,
    /// Show the layer that sets each value, and the limits in tokens
    #[arg(long)]
    resolved: bool,
    /// The only agent to show, with the layers [default: all]
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Print JSON instead of YAML
    #[arg(long)]
    json: bool,
}

impl ConfigShowArguments {
    /// Prints all of the configuration as one complete layer, or each value with its layer.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let budget = self.budget.allowance();
        let configuration = setup::configuration_within(&self.source, budget, Need::Nothing)?;
        let workflow = without_hidden_values(&configuration.workflow);
        if self.resolved || self.agent.is_some() {
            self.print_resolved(configuration, &workflow)?;
            return Ok(ExitCode::SUCCESS);
        }
        // Both are written from one tree, so that the code for the types of the workflow is built once.
        let shown = serde_json::to_value(&workflow)?;
        if self.json {
            output::print_json(&shown)?;
        } else {
            let held = if workflow.floor.is_empty() { "" } else { HELD };
            output::print(&(serde_saphyr::to_string(&shown)? + held))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Prints each value with its layer, of one agent or of all. `workflow` is the one for display.
    fn print_resolved(&self, configuration: Configuration, workflow: &Workflow) -> anyhow::Result<()> {
        let Configuration { workflow: configured, layers, .. } = configuration;
        let services = setup::idle_services(configured, &layers)?;
        let origins = Origins::of(&layers);
        let only = self.agent.as_deref();
        let agents = services.workflow.agents.iter();
        let agents = agents.filter(|agent| only.is_none_or(|id| agent.id.as_str() == id));
        let runtime = runtime()?;
        let all = agents
            .map(|agent| {
                let info = runtime.block_on(server_model_info(agent, &services));
                resolve(agent, workflow, &services, &origins, info.as_ref())
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        if let (Some(id), []) = (only, all.as_slice()) {
            return Err(unknown_agent(id, &services.workflow).into());
        }
        if self.json {
            return output::print_json(&json!({ "agents": all }));
        }
        output::print(&if all.is_empty() {
            "no agents\n".to_owned()
        } else {
            all.iter().map(render).collect::<Vec<_>>().join("\n")
        })
    }
}

/// Returns the workflow for display: without values that may be secrets.
fn without_hidden_values(workflow: &Workflow) -> Workflow {
    let mut workflow = workflow.clone();
    for provider in workflow.providers.values_mut() {
        provider.base_url = provider.base_url.take().map(|url| without_secrets(&url));
        // A value that cannot be a variable's name may be a secret.
        let values = provider.headers.iter_mut().flat_map(|headers| headers.values_mut());
        values.filter(|value| !value.starts_with('$')).for_each(|value| "(hidden)".clone_into(value));
    }
    workflow
}

/// Returns the server's description of the agent's model, if a run would request it too because the window is
/// not configured. A server that does not answer soon is left out.
async fn server_model_info(agent: &Agent, services: &Services) -> Option<ModelInfo> {
    const PATIENCE: Duration = Duration::from_secs(3);
    let model = services.workflow.model(agent.model.as_ref()?).ok()?;
    if model.window_source != WindowSource::Assumed {
        return None;
    }
    let asked = services.providers.model_info(&model.reference);
    tokio::time::timeout(PATIENCE, asked).await.ok()?.ok()?
}
