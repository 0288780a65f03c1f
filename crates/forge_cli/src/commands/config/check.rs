//! `forge config check`: finds all errors in the configuration.

use std::process::ExitCode;

use clap::Args;
use console::style;
use forge_app::{check_workflow, deprecations, idle_settings, silent_subscriptions};
use forge_services::workflow::{Examination, Layers, WorkflowError, examine, unmatched_models};
use serde_json::{Value, json};

use crate::arguments::Source;
use crate::consent::{self, Need};
use crate::failure::{self, Exit, Misconfigured};
use crate::{output, setup};

/// Find all errors in the configuration, without asking a server
///
/// Exit codes: 0 if the configuration is valid, 2 if not. Each error is reported with its file, line,
/// column and key. Deprecated settings that still work cause a warning, and so do subscriptions to events
/// that nothing emits, limits that the window leaves without effect, budgets in money without a price, and
/// misspelt models.
#[derive(Debug, Args)]
pub(crate) struct ConfigCheckArguments {
    #[command(flatten)]
    source: Source,
    /// Print one JSON document: `{"ok", "agents", "faults": [{"source", "line", "column", "path", "what",
    /// "hint", "snippet"}], "warnings"}`
    #[arg(long)]
    json: bool,
}

impl ConfigCheckArguments {
    /// Checks the configuration. With `--json`, a file that cannot be read is a fault like any other.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.check() {
            Err(error) if self.json && Exit::of_error(&error) == Exit::NotBegun => {
                let fault = json!({
                    "source": null, "line": null, "column": null, "path": "", "what": failure::in_a_line(&error),
                    "hint": null, "snippet": null,
                });
                output::print_json(&json!({"ok": false, "agents": [], "faults": [fault], "warnings": []}))?;
                Ok(Exit::NotBegun.into())
            }
            checked => checked,
        }
    }

    fn check(&self) -> anyhow::Result<ExitCode> {
        let layers = setup::layers(&self.source)?;
        // All of the file is looked at, and nothing of it is done; what is not trusted is told.
        consent::settle(&mut layers.clone(), &setup::project_file(&self.source), Need::Nothing)?;
        let Examination { workflow, faults, .. } = examine_layers(&layers)?;
        let agents: Vec<&str> = workflow.agents.iter().map(|agent| agent.id.as_str()).collect();
        let warnings = workflow.agents.iter().flat_map(deprecations).chain(silent_subscriptions(&workflow));
        let warnings = warnings.chain(idle_settings(&workflow)).chain(unmatched_models(&layers, &workflow));
        let warnings: Vec<WorkflowError> = warnings.map(|finding| layers.point_at(&finding)).collect();
        if self.json {
            let told = |errors: &[WorkflowError]| errors.iter().map(as_json).collect::<Vec<_>>();
            let report = json!({
                "ok": faults.is_empty(), "agents": agents, "faults": told(&faults), "warnings": told(&warnings),
            });
            output::print_json(&report)?;
            return Ok(if faults.is_empty() { Exit::Done } else { Exit::NotBegun }.into());
        }
        for warning in &warnings {
            let mark = style("warning:").yellow().for_stderr();
            output::say(&format!("{mark} {}\n", output::visible_lines(&warning.to_string())));
        }
        if !faults.is_empty() {
            let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
            return Err(Misconfigured(told.join("\n\n")).into());
        }
        let name = layers.project.map_or_else(|| "no forge.yaml".to_owned(), |source| source.name);
        output::print(&match agents.as_slice() {
            [] => format!("{name}: no agents\n"),
            agents => format!("{name}: no errors in {}\n", agents.join(", ")),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Examines the layers: returns all errors in them, and the merged workflow in this folder.
pub(in crate::commands) fn examine_layers(layers: &Layers) -> anyhow::Result<Examination> {
    let examined = examine(layers);
    let unusable = setup::unusable(&examined.workflow, layers);
    let services = setup::idle_services(examined.workflow.clone(), layers)?;
    let findings = unusable.into_iter().map(|(_, finding)| finding).chain(check_workflow(&services));
    Ok(examined.with_findings(findings, layers))
}

fn as_json(fault: &WorkflowError) -> Value {
    json!({
        "source": fault.source_name,
        "line": fault.position.map(|position| position.line),
        "column": fault.position.map(|position| position.column),
        "path": fault.path,
        "what": fault.what,
        "hint": fault.hint,
        "snippet": fault.snippet,
    })
}
