//! The sandbox of a run's commands, wired from the workflow and the environment.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use forge_app::{Check, Health, RunEvent, SandboxCheck, Watcher};
use forge_domain::{Sandbox, SandboxNetwork, Workflow};
use forge_infra::{
    CommandSandbox, SandboxNotice, SandboxSurroundings, SqlitePlace, StoreUrl, examine_sandbox,
};
use futures::FutureExt as _;

use forge_services::workflow::{Layers, RefusedKey};

use super::services::silent_watcher;
use crate::failure::Misconfigured;
use crate::places;

/// Sets up the sandbox of the workflow's commands, which run in the working folder; `None` if it is off.
/// `watcher` is told about denials and about what the system cannot enforce.
pub(crate) fn of(
    workflow: &Workflow,
    environment: &BTreeMap<String, String>,
    watcher: &Watcher,
) -> anyhow::Result<Option<Arc<CommandSandbox>>> {
    std::env::current_dir().map_err(|error| {
        Misconfigured(format!(
            "the working folder cannot be used: {error}; it may be gone: change to another"
        ))
    })?;
    let settings = workflow.sandbox.clone().unwrap_or_default();
    let home = environment.get("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let surroundings = SandboxSurroundings {
        workspace: PathBuf::from("."),
        home,
        own_folders: own_folders(environment),
        own_files: own_files(workflow),
    };
    let watcher = Arc::clone(watcher);
    let notice: SandboxNotice = Arc::new(move |text| watcher(&RunEvent::Notice(text)));
    let sandbox = CommandSandbox::new(&settings, &surroundings, notice);
    Ok(sandbox.context("the sandbox of commands cannot be set up")?.map(Arc::new))
}

/// Returns the check whether this system confines commands as `sandbox` says. It is made once.
pub(crate) fn confinement(sandbox: &Arc<CommandSandbox>) -> SandboxCheck {
    let sandbox = Arc::clone(sandbox);
    let known: Arc<tokio::sync::OnceCell<Result<(), String>>> = Arc::default();
    Arc::new(move || {
        let (sandbox, known) = (Arc::clone(&sandbox), Arc::clone(&known));
        async move { known.get_or_init(|| examine(&sandbox)).await.clone() }.boxed()
    })
}

async fn examine(sandbox: &Arc<CommandSandbox>) -> Result<(), String> {
    match examine_sandbox(sandbox).await {
        Ok(lacks) if lacks.is_empty() => Ok(()),
        Ok(lacks) => Err(format!("this system does not enforce all of it: {}", lacks.join("; "))),
        Err(error) => Err(format!("no command can be started in it: {error}")),
    }
}

/// Returns the sandbox that the command line sets, as far as the administrator's file allows it, and a notice
/// if that file forbids a part.
pub(crate) fn limit(asked: Sandbox, layers: &Layers) -> (Sandbox, Option<String>) {
    let Some(held) = layers.held_sandbox() else { return (asked, None) };
    let granted = held.tighten(&asked);
    let refused = granted.refused_keys(&asked);
    let file = layers.system.as_ref().map_or("the administrator's file", |source| source.name.as_str());
    let notice = (!refused.is_empty()).then(|| {
        format!(
            "--sandbox does not loosen what {file} holds: `sandbox.{}` stays as it says",
            refused.join("`, `sandbox.")
        )
    });
    (granted, notice)
}

/// Returns what to tell of the keys by which the project's file would loosen the sandbox.
pub(crate) fn refusals(layers: &Layers) -> Vec<String> {
    let told = |RefusedKey { path, source, line }: RefusedKey| {
        let at = line.map_or_else(String::new, |line| format!(":{line}"));
        format!(
            "{source}{at}: `{path}` would loosen the sandbox and does not count; set it in your own forge.yaml"
        )
    };
    layers.refused_sandbox_keys().into_iter().map(told).collect()
}

/// Checks whether the working folder is the user's home folder, or holds it.
fn holds_home(environment: &BTreeMap<String, String>) -> bool {
    let home = environment.get("HOME").and_then(|home| std::fs::canonicalize(home).ok());
    let folder = std::fs::canonicalize(".").ok();
    home.zip(folder).is_some_and(|(home, folder)| home.starts_with(folder))
}

/// Returns the folders of Forge's own configuration and of the states of runs.
fn own_folders(environment: &BTreeMap<String, String>) -> Vec<PathBuf> {
    [places::configuration_folder(environment), places::state_folder(environment)]
        .into_iter()
        .flatten()
        .collect()
}

/// Returns the files of the workflow's store.
fn own_files(workflow: &Workflow) -> Vec<PathBuf> {
    let url = workflow.checkpoint.store.as_ref().and_then(|store| store.to_string().parse::<StoreUrl>().ok());
    match url {
        Some(StoreUrl::Sqlite(SqlitePlace { path, .. })) => {
            ["", "-wal", "-shm", "-journal"].map(|end| format!("{}{end}", path.display()).into()).to_vec()
        }
        _ => Vec::new(),
    }
}

/// Returns the state of the sandbox, and how far this system enforces it.
pub(crate) async fn check(workflow: &Workflow, environment: &BTreeMap<String, String>) -> Check {
    const ABOUT: &str = "sandbox";
    let sandbox = match of(workflow, environment, &silent_watcher()) {
        Ok(Some(sandbox)) => sandbox,
        Ok(None) => {
            return Check::well(ABOUT, "it is off: commands run with all of your rights")
                .but(Health::Warning, "remove `sandbox: { off: true }` from your forge.yaml");
        }
        Err(error) => {
            return Check { health: Health::Fault, ..Check::well(ABOUT, format!("{error:#}")) };
        }
    };
    let network = match workflow.sandbox.as_ref().and_then(|sandbox| sandbox.network.as_ref()) {
        None | Some(SandboxNetwork::None) => "no network".to_owned(),
        Some(SandboxNetwork::All) => "the whole network".to_owned(),
        Some(SandboxNetwork::Hosts(hosts)) => {
            hosts.iter().map(|host| String::from(host.clone())).collect::<Vec<_>>().join(", ")
        }
    };
    match examine_sandbox(&sandbox).await {
        Ok(lacks) if lacks.is_empty() && holds_home(environment) => Check::well(
            ABOUT,
            "all of it is enforced, but your home folder is in the workspace: commands can write `.bashrc` and all else there",
        )
        .but(Health::Warning, "start Forge in the folder of a project"),
        Ok(lacks) if lacks.is_empty() => Check::well(
            ABOUT,
            format!("commands write to the workspace, and reach {network}: all of it is enforced"),
        ),
        Ok(lacks) => Check::well(
            ABOUT,
            format!("this system does not enforce all of it: {}", lacks.join("; ")),
        )
        .but(Health::Warning, "see docs/sandbox.md; `sandbox: { if_missing: deny }` runs no command then"),
        Err(error) => Check::well(ABOUT, format!("no command can be started: {error}"))
            .but(Health::Fault, "see docs/sandbox.md"),
    }
}
