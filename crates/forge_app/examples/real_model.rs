//! Embeds forge with a real model, the built-in tools, commands in a sandbox, and a run that is saved.
//!
//! ```text
//! OPENAI_API_KEY=… cargo run -p forge_app --example real_model -- "What is in this folder?"
//! ```
//!
//! `OPENAI_BASE_URL` and `FORGE_MODEL` name another server and model. Started again with the same task, it
//! continues what was interrupted.
#![allow(clippy::disallowed_methods, reason = "a program may read its arguments and its environment")]

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use forge_app::{Checkpointing, CheckpointsError, Orchestrator, Resume, ResumeError, RunEvent};
use forge_domain::{
    Agent, AgentId, ModelConfig, ModelId, Permissions, Provider, ProviderId, RunId, Sandbox, Tokens,
    ToolName, ToolSettings,
};
use forge_infra::{
    CommandSandbox, Key, OpenAiProvider, ProcessHolder, SandboxSurroundings, Secret, SqliteCheckpointStore,
    SqlitePlace, SystemClock, SystemPause, WorkspaceTools,
};
use forge_services::{RetryPolicy, RetryingProvider};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    // A command is run by another process of this program. Without this line it has no sandbox.
    #[cfg(unix)]
    if let Some(code) = forge_infra::supervise_commands() {
        return Ok(code);
    }
    tokio::runtime::Runtime::new()?.block_on(work())?;
    Ok(ExitCode::SUCCESS)
}

async fn work() -> Result<(), Box<dyn Error>> {
    let task = std::env::args().nth(1).ok_or("expected a task")?;
    let name = std::env::var("FORGE_MODEL").unwrap_or_else(|_| "gpt-4o-mini".to_owned());
    let id = ProviderId::new("openai")?;
    let model = ModelId::new(format!("openai:{name}"))?;
    let limits = ModelConfig { window: Some(Tokens::new(128_000)), ..ModelConfig::default() };
    let tool = |name: &str| ToolName::new(name);
    let agent = Agent::new(AgentId::new("worker")?)
        .model(model.clone())
        .tools(vec![tool("read")?, tool("list")?, tool("search")?, tool("shell")?])
        // What changes something needs consent: by a rule, or from the user that `person` names.
        .permissions(Permissions::allowing("shell", None)?);
    let store = SqliteCheckpointStore::open(&SqlitePlace::new("runs.db")).await?;
    let checkpoints = Checkpointing::new(Arc::new(store), Arc::new(SystemClock), RunId::new("example")?)
        .held_by(Arc::new(ProcessHolder::this()));
    let mut orchestrator = Orchestrator::builder()
        .agent(agent)
        .model(model, limits)
        .provider(id.clone(), provider(id)?)
        .tools(Arc::new(tools()?))
        .checkpoints(checkpoints)
        .watcher(|event| match event {
            RunEvent::Notice(notice) => eprintln!("note: {notice}"),
            RunEvent::ToolCall(call) => eprintln!("{} {}", call.name, call.arguments),
            _ => {}
        })
        .build()?;
    let report = match orchestrator.restore(&Resume::from("example")).await {
        // It is the first start, or nothing was saved before.
        Err(ResumeError::Unclear(CheckpointsError::Unknown { .. })) => orchestrator.run(task).await?,
        Err(error) => return Err(error.into()),
        Ok(restored) if restored.is_over => orchestrator.run(task).await?,
        Ok(_) => orchestrator.proceed().await?,
    };
    orchestrator.close().await;
    println!("{}", report.response);
    Ok(())
}

/// Returns the provider, which asks again if a server is busy or a reply breaks off.
fn provider(id: ProviderId) -> Result<Arc<dyn Provider>, Box<dyn Error>> {
    let address = std::env::var("OPENAI_BASE_URL").unwrap_or_else(|_| "https://api.openai.com/v1".to_owned());
    let key = Key::Given(Secret::new(std::env::var("OPENAI_API_KEY")?));
    Ok(Arc::new(RetryingProvider::new(
        Arc::new(OpenAiProvider::new(id, &address, key)?),
        RetryPolicy::default(),
        Arc::new(SystemPause),
        u64::from(std::process::id()),
        Arc::new(|retrying| eprintln!("note: {retrying}")),
    )))
}

/// Returns the built-in tools over the working folder, with commands in a sandbox.
fn tools() -> Result<WorkspaceTools, Box<dyn Error>> {
    let folder = std::env::current_dir()?;
    let surroundings = SandboxSurroundings {
        workspace: folder.clone(),
        home: std::env::var_os("HOME").map(Into::into),
        ..SandboxSurroundings::default()
    };
    let notice = Arc::new(|text: &str| eprintln!("note: {text}"));
    let sandbox = CommandSandbox::new(&Sandbox::default(), &surroundings, notice)?.map(Arc::new);
    // Commands see the harmless variables of this, such as PATH.
    let environment: BTreeMap<String, String> = std::env::vars().collect();
    let tools = WorkspaceTools::open(&folder)?;
    Ok(tools.with_settings(&ToolSettings::default(), &environment).within(sandbox))
}
