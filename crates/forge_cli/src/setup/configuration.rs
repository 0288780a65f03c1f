//! The configuration: all files and flags, merged into one workflow.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Once;

use forge_domain::{Agent, AgentId, Allowance, Effort, MCP_SEPARATOR, ToolName, Workflow, find_secrets};
use forge_services::workflow::{Flags, Layers, Source as YamlSource, load};

use super::mcp_file::McpFile;
use super::{first_model, surroundings};
use crate::arguments::Source;
use crate::consent::{self, Demand, Need};
use crate::failure::Misconfigured;
use crate::output;
use crate::places::{self, MCP_FILE, PROJECT_FILE, environment};
use crate::session_file::{MOST_OF_A_CONFIGURATION, read_named};

/// A workflow and the layers that it came from.
pub(crate) struct Configuration {
    pub(crate) workflow: Workflow,
    pub(crate) layers: Layers,
    /// The untrusted demands of the project's file, which are left out.
    pub(crate) left_out: Vec<Demand>,
}

/// Reads and merges all layers, for a command that needs so much of the project's.
pub(crate) fn configuration(source: &Source, need: Need) -> anyhow::Result<Configuration> {
    configuration_within(source, Allowance::default(), need)
}

/// Reads and merges all layers, with the run's budget from the command line.
pub(crate) fn configuration_within(
    source: &Source,
    budget: Allowance,
    need: Need,
) -> anyhow::Result<Configuration> {
    let mut layers = layers(source)?;
    layers.flags.budget = budget;
    let left_out = consent::settle(&mut layers, &project_file(source), need)?;
    // The error may be about something that was left out.
    let hint = match left_out.is_empty() {
        true => "",
        false => "\nnote: what the file asks for was left out, as it is not trusted; `forge trust` allows it",
    };
    let workflow = load(&layers).map_err(|error| Misconfigured(format!("{error}{hint}")))?;
    output::hide_from_now_on(&workflow);
    Ok(Configuration { workflow, layers, left_out })
}

/// Returns the path of the project's file, whether or not it exists.
pub(crate) fn project_file(source: &Source) -> PathBuf {
    source.config().map_or_else(nearest_project_file, Path::to_owned)
}

/// Returns the nearest `forge.yaml`: in the working folder, or above it up to the root of the git repository.
/// If there is none, returns the nearest `.mcp.json`. Above the working folder, only files that the user
/// owns are read.
pub(crate) fn nearest_project_file() -> PathBuf {
    let file = nearest(PROJECT_FILE);
    if is_there(&file) {
        return file;
    }
    Some(nearest(MCP_FILE)).filter(|servers| is_there(servers)).unwrap_or(file)
}

/// Checks whether there is a file, or a link: one that leads nowhere is a mistake, and no reason to work
/// without the configuration.
fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Returns the nearest file of that name.
fn nearest(name: &str) -> PathBuf {
    let here = PathBuf::from(name);
    let Ok(folder) = std::env::current_dir() else { return here };
    let n_above = match surroundings::repository(&folder) {
        Some(root) => folder.ancestors().take_while(|folder| **folder != root).count(),
        None => 0,
    };
    let mut paths = (0..=n_above).map(|n| (0..n).map(|_| "..").collect::<PathBuf>().join(name));
    let is_read = |path: &PathBuf| is_there(path) && (*path == here || surroundings::is_own(path));
    paths.find(is_read).unwrap_or(here)
}

/// Reads all layers, the project's as if it were trusted.
pub(crate) fn layers(source: &Source) -> anyhow::Result<Layers> {
    tell_of_strangers();
    let file = project_file(source);
    if source.config().is_none() {
        tell_of_other_ending(&file);
    }
    let servers = mcp_file()?;
    let is_of_servers = file.file_name().is_some_and(|name| name == MCP_FILE);
    let project = match (source.config().is_some() || is_there(&file)) && !is_of_servers {
        true => {
            let read = if source.config().is_some() { read_yaml } else { read_found };
            Some(read(&file)?.with_variables(shareable_variables()))
        }
        false => None,
    };
    let (project, servers_file) = join_servers(project, servers);
    let flags = Flags {
        model: source.model.clone(),
        provider: source.provider.clone(),
        effort: source.effort,
        ..Flags::default()
    };
    Ok(Layers { project, servers_file, flags, ..own_layers()? })
}

/// Prints once that files of another user above the working folder are not read.
fn tell_of_strangers() {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        let note = std::env::current_dir().ok().and_then(|folder| surroundings::note_on_strangers(&folder));
        if let Some(note) = note {
            output::note(&note);
        }
    });
}

/// Prints once that a file with YAML's other ending, which stands in the place of `file`, is not read.
fn tell_of_other_ending(file: &Path) {
    static TOLD: Once = Once::new();
    let other = file.with_file_name(PROJECT_FILE).with_extension("yml");
    if !file.exists() && other.exists() {
        TOLD.call_once(|| {
            let other = output::visible(&other.display().to_string());
            output::note(&format!("{other} is not read: rename it to {PROJECT_FILE}"));
        });
    }
}

/// Reads the nearest `.mcp.json`: its path, and the servers in it as YAML.
fn mcp_file() -> anyhow::Result<Option<YamlSource>> {
    let path = nearest(MCP_FILE);
    if !is_there(&path) {
        return Ok(None);
    }
    let source = read_found(&path)?;
    let McpFile { yaml, left_out } = McpFile::read(&source.name, &source.text, &shareable_variables())?;
    for why in &left_out {
        output::note(&output::visible(&format!("{}: {why}; it is left out", source.name)));
    }
    Ok((!yaml.is_empty()).then(|| YamlSource::new(source.name, yaml)))
}

/// Adds the servers of `.mcp.json` to the project's file, and returns the name of their file if they are not
/// in that itself. They count only if the file has no servers of its own.
fn join_servers(
    project: Option<YamlSource>,
    servers: Option<YamlSource>,
) -> (Option<YamlSource>, Option<String>) {
    match (project, servers) {
        (project, None) => (project, None),
        (None, Some(servers)) => (Some(servers), None),
        (Some(project), Some(servers)) => {
            let joined = format!("{}\n{}", project.text.trim_end(), servers.text);
            // A key cannot be there twice, and nothing can follow a mapping in braces.
            let is_whole = serde_saphyr::from_str::<serde_json::Value>(&joined).is_ok();
            if is_whole {
                (Some(YamlSource { text: joined, ..project }), Some(servers.name))
            } else {
                (Some(project), None)
            }
        }
    }
}

/// Reads the layers that are not the project's.
pub(crate) fn own_layers() -> anyhow::Result<Layers> {
    let system =
        places::system_file().filter(|path| is_there(path)).map(|path| read_yaml(&path)).transpose()?;
    let environment = environment();
    let system = system.map(|file| file.with_variables(shareable_variables()));
    let models = places::models_file(&environment).filter(|path| path.exists());
    let models = models.map(|path| read_yaml(&path)).transpose()?;
    Ok(Layers { system, models, user: user_layer()?, environment, ..Layers::default() })
}

/// Reads the user's own file, if there is one.
pub(crate) fn user_layer() -> anyhow::Result<Option<YamlSource>> {
    let file = places::configuration_folder(&environment()).map(|folder| folder.join(PROJECT_FILE));
    let file = file.filter(|path| is_there(path)).map(|path| read_yaml(&path)).transpose()?;
    Ok(file.map(|file| file.with_variables(shareable_variables())))
}

/// Returns the variables that a file may name. One that looks like a secret stands for itself: what needs it,
/// such as the `env` of an MCP server, takes it by its name, and it is sent nowhere else.
fn shareable_variables() -> BTreeMap<String, String> {
    const SECRET: [&str; 10] =
        ["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH", "COOKIE", "PRIVATE", "DSN", "CERT"];
    let is_shareable = |name: &str, value: &str| {
        let name = name.to_ascii_uppercase();
        let has_login = value.split_once("://").is_some_and(|(_, rest)| {
            rest.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@'))
        });
        let is_password =
            name.ends_with("_PAT") || name.contains("PWD") && !matches!(&*name, "PWD" | "OLDPWD");
        !is_password
            && !SECRET.iter().any(|word| name.contains(word))
            && !has_login
            && find_secrets(value).is_empty()
    };
    let value = |(name, value): (String, String)| {
        let value = if is_shareable(&name, &value) { value } else { format!("${{{name}}}") };
        (name, value)
    };
    environment().into_iter().map(value).collect()
}

/// Checks whether opening a path may wait for ever.
#[cfg(unix)]
fn waits_for_a_writer(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// Checks whether opening a path may wait for ever: no file of this system does.
#[cfg(not(unix))]
fn waits_for_a_writer(_: &Path) -> bool {
    false
}

/// Reads the text of a workflow that nobody named, so that it may be anything.
fn read_found(path: &Path) -> anyhow::Result<YamlSource> {
    if waits_for_a_writer(path) {
        let what = "is a pipe, which may never be written to: a configuration is a file";
        return Err(Misconfigured(format!("{} {what}", path.display())).into());
    }
    read_yaml(path)
}

/// Reads the text of a workflow.
pub(crate) fn read_yaml(path: &Path) -> anyhow::Result<YamlSource> {
    let name = path.display().to_string();
    if let Ok(target) = path.read_link()
        && !path.exists()
    {
        let target = output::visible(&target.display().to_string());
        let what = format!("{name} is a link to {target}, which leads to no file: correct it, or remove it");
        return Err(Misconfigured(what).into());
    }
    let text =
        String::from_utf8(read_named(path, "configuration", MOST_OF_A_CONFIGURATION)?).map_err(|error| {
            Misconfigured(format!(
                "{name} {}",
                unlike_utf8(error.as_bytes(), error.utf8_error().valid_up_to())
            ))
        })?;
    Ok(YamlSource::new(name, text))
}

/// Returns why `bytes`, of which the first `n_valid` are valid, are no text.
fn unlike_utf8(bytes: &[u8], n_valid: usize) -> String {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return "is UTF-16 text: save it as UTF-8".to_owned();
    }
    let line = bytes[..n_valid].iter().filter(|byte| **byte == b'\n').count() + 1;
    format!("is not UTF-8 text (line {line}): is it a YAML file? If so, save it as UTF-8")
}

/// Adds the agent that runs if none is configured: it has every built-in tool and those of all MCP servers,
/// and is asked for consent like any other. Its model is the named one, else that of the first key in the
/// environment, else a local one.
pub(crate) fn with_built_in_agent(mut workflow: Workflow, source: &Source) -> anyhow::Result<Workflow> {
    if !workflow.agents.is_empty() {
        return Ok(workflow);
    }
    let environment = environment();
    let model = match first_model::named(source.model.as_ref(), &environment) {
        Some(model) => model,
        None => {
            let first = first_model::find(&environment).map_err(Misconfigured)?;
            output::note(&output::visible(&first.to_string()));
            first.reference
        }
    };
    workflow.agents.add(built_in_agent(&model, &workflow, source.effort)?);
    Ok(workflow)
}

/// The id of the agent that works if no file configures one.
pub(crate) const BUILT_IN_AGENT: &str = "forge";

/// Returns the agent that needs no file, with the tools that exist.
fn built_in_agent(model: &str, workflow: &Workflow, effort: Option<Effort>) -> anyhow::Result<Agent> {
    let has_search = workflow.tool_settings.web_search.is_some();
    let servers = workflow.mcp_servers.keys().map(|id| format!("{id}{MCP_SEPARATOR}*"));
    let tools = BUILT_IN_TOOLS
        .into_iter()
        .chain(has_search.then_some("web_search"))
        .map(str::to_owned)
        .chain(servers);
    let mut agent = Agent::new(AgentId::new(BUILT_IN_AGENT)?)
        .system_prompt(include_str!("../../templates/system.md.hbs"))
        .tools(tools.map(ToolName::new).collect::<Result<Vec<_>, _>>()?);
    agent.model = Some(forge_domain::ModelId::new(model).map_err(|error| Misconfigured(error.to_string()))?);
    if let Some(effort) = effort {
        agent.set_effort(effort);
    }
    Ok(agent)
}

/// The tools of the built-in agent. What changes something, or reaches the network, needs consent.
const BUILT_IN_TOOLS: [&str; 9] =
    ["read", "list", "search", "write", "patch", "shell", "fetch", "ask", "steps"];

/// Reports that transforms of the agent do nothing if only its `compact` block is used.
pub(crate) fn say_without_transforms(agent: &Agent) {
    if agent.transforms.as_deref().is_some_and(|transforms| !transforms.is_empty()) {
        let id = output::visible(agent.id.as_str());
        output::say(&format!(
            "note: the transforms of the agent `{id}` are ignored: only its `compact` block is used here"
        ));
    }
}
