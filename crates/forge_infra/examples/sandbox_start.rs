//! Measures what the sandbox adds to the start of a command: the same call of `shell` alternately with and
//! without it.
//!
//! `cargo run --release -p forge_infra --example sandbox_start`
#![allow(clippy::disallowed_methods, reason = "it measures time and makes a folder")]
#![allow(clippy::unwrap_used, reason = "a panic is how a measurement fails")]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forge_domain::{Sandbox, ToolCall, ToolName, ToolService, ToolSettings};
use forge_infra::{CommandSandbox, SandboxSurroundings, WorkspaceTools};

/// The number of measurements of each.
const TIMES: usize = 200;

fn main() -> ExitCode {
    if let Some(code) = forge_infra::supervise_commands() {
        return code;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(measure());
    ExitCode::SUCCESS
}

async fn measure() {
    let folder = tempfile::tempdir().unwrap();
    let home = std::env::var_os("HOME").map(Into::into);
    let surroundings = SandboxSurroundings {
        workspace: folder.path().to_owned(),
        home,
        own_folders: Vec::new(),
        own_files: Vec::new(),
    };
    let mut kinds = vec![("without a sandbox", tools(folder.path(), None), Vec::new())];
    for (name, yaml) in [
        ("in a sandbox", "{}"),
        ("with named hosts", r#"{"network": ["a.org"]}"#),
        ("with the network", r#"{"network": "all"}"#),
    ] {
        let settings: Sandbox = serde_json::from_str(yaml).unwrap();
        let notice = Arc::new(|text: &str| eprintln!("note: {text}"));
        let sandbox = CommandSandbox::new(&settings, &surroundings, notice).unwrap().map(Arc::new);
        kinds.push((name, tools(folder.path(), sandbox), Vec::new()));
    }
    let call = ToolCall {
        id: "c".into(),
        name: ToolName::new("shell").unwrap(),
        arguments: r#"{"command": ":"}"#.to_owned(),
    };
    for _ in 0..TIMES {
        for (_, tools, times) in &mut kinds {
            let start = Instant::now();
            tools.call(&call).await;
            times.push(start.elapsed());
        }
    }
    let mut least = None;
    for (name, _, times) in &mut kinds {
        times.sort();
        let median = times[TIMES / 2];
        let without: Duration = *least.get_or_insert(median);
        let more = median.saturating_sub(without);
        println!(
            "{name:20} median {median:>10.2?}, 9 of 10 below {:>10.2?}, more by {more:.2?}",
            times[TIMES / 10 * 9]
        );
    }
}

fn tools(root: &std::path::Path, sandbox: Option<Arc<CommandSandbox>>) -> WorkspaceTools {
    let environment: BTreeMap<String, String> = std::env::vars().collect();
    WorkspaceTools::open(root).unwrap().with_settings(&ToolSettings::default(), &environment).within(sandbox)
}
