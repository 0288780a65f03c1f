//! The part of a project's layer that only narrows, and the powers that the rest of it asks for.
//!
//! Every struct is taken apart key by key: a key that is new in YAML does not compile before it is
//! decided here.

mod agents;

use std::collections::{BTreeMap, BTreeSet};

use forge_domain::{
    AgentCheckpoints, CheckpointPoints, CheckpointPolicy, FetchSettings, HookCommands, HookPoint,
    McpServerConfig, McpServerId, ModelConfig, ModelId, Permissions, ProviderConfig, ProviderId, SECRETS,
    ShellSettings, StoreSetting, ToolSettings, WebSearchSettings, Workflow, WorkspaceSetting,
    named_variables, without_secrets,
};
use merge::Merge;
use serde::Serialize;
use serde_json::{Value, json};

use super::power::is_ruling;
use super::{Power, PowerRequest};

/// Returns what of `project` only narrows what `base` says, the layers that are the person's own,
/// and what the rest asks for.
pub(in super::super) fn narrow(base: &Workflow, project: Workflow) -> (Workflow, Vec<PowerRequest>) {
    let ids = project.agents.iter().map(|agent| agent.id.as_str());
    let new_agents = ids.filter(|id| base.agents.find(id).is_none()).map(str::to_owned).collect();
    let mut filter = LayerFilter { base, new_agents, requests: Vec::new() };
    let whole = project.clone();
    let Workflow {
        providers,
        models,
        mcp_servers,
        variables,
        hooks,
        checkpoint,
        counting,
        budget,
        permissions,
        sandbox,
        workspace,
        tool_settings,
        agents,
        default_provider: _,
        floor: _,
    } = project;
    let providers = filter.providers(providers);
    let models = filter.models(models);
    filter.servers(mcp_servers);
    let variables = filter.variables(variables);
    filter.hooks("hooks", None, hooks.as_ref());
    let checkpoint = filter.checkpoint(checkpoint);
    let permissions = filter.permissions("permissions", None, permissions);
    let workspace = filter.workspace(workspace);
    let tool_settings = filter.tool_settings(tool_settings);
    let agents = filter.agents(&agents);
    let mut narrowed = Workflow {
        providers,
        models,
        mcp_servers: BTreeMap::new(),
        variables,
        hooks: None,
        checkpoint,
        counting,
        // The smaller of two limits counts in any case.
        budget,
        permissions,
        // It only tightens that of the earlier layers, whoever says it.
        sandbox,
        workspace,
        tool_settings,
        agents,
        default_provider: None,
        floor: forge_domain::Floor::default(),
    };
    forget_rerouted_models(base, whole, &mut narrowed);
    (narrowed, filter.requests)
}

/// Takes away the models of agents that would be asked of somebody else where providers and routes
/// are left out: what was meant for a server of the project's must not go to another one.
fn forget_rerouted_models(base: &Workflow, whole: Workflow, narrowed: &mut Workflow) {
    let merged = |layer: Workflow| {
        let mut workflow = base.clone();
        workflow.merge(layer);
        workflow
    };
    let (meant, left) = (merged(whole), merged(narrowed.clone()));
    let address = |workflow: &Workflow, id: &ProviderId| {
        workflow.providers.get(id).and_then(|config| config.address().map(str::to_owned))
    };
    let is_same = |id: &ModelId| match (meant.model(id), left.model(id)) {
        (Ok(meant_model), Ok(left_model)) => {
            let provider = &meant_model.reference.provider;
            meant_model.reference == left_model.reference
                && address(&meant, provider) == address(&left, provider)
        }
        // What leads nowhere in any case is reported where models are checked.
        (Err(_), _) => true,
        (Ok(_), Err(_)) => false,
    };
    narrowed.agents.for_each(|agent| {
        agent.model = agent.model.take().filter(is_same);
        if let Some(compact) = &mut agent.compact {
            compact.model = compact.model.take().filter(is_same);
        }
    });
}

struct LayerFilter<'a> {
    base: &'a Workflow,
    /// The agents that only the project has.
    new_agents: BTreeSet<String>,
    requests: Vec<PowerRequest>,
}

impl LayerFilter<'_> {
    fn request(&mut self, power: Power, path: impl Into<String>, says: impl Serialize) {
        let says = serde_json::to_value(says).unwrap_or(Value::Null);
        self.requests.push(PowerRequest { power, path: path.into(), says, position: None });
    }

    fn providers(
        &mut self,
        providers: BTreeMap<ProviderId, ProviderConfig>,
    ) -> BTreeMap<ProviderId, ProviderConfig> {
        let mut kept = BTreeMap::new();
        for (id, config) in providers {
            let path = format!("providers.{id}");
            let known = self.base.providers.get(&id).cloned();
            let mut merged = known.clone().unwrap_or_default();
            merged.merge(config.clone());
            let ProviderConfig { kind: _, base_url: _, api_key_env: _, headers: _, retries } = config;
            // How often a call is repeated may only become less.
            let usual = known.as_ref().and_then(|known| known.retries).unwrap_or(USUAL_RETRIES);
            let fewer = retries.filter(|retries| *retries <= usual);
            if let (Some(retries), None, Some(_)) = (retries, fewer, &known) {
                let key = format!("{path}.retries");
                self.request(Power::Raise { key: key.clone(), to: retries.to_string() }, key, retries);
            }
            let speaks = |config: &ProviderConfig| ProviderConfig { retries: None, ..config.clone() };
            if known.as_ref().map(speaks) == Some(speaks(&merged)) {
                if fewer.is_some() {
                    kept.insert(id, ProviderConfig { retries: fewer, ..ProviderConfig::default() });
                }
                continue;
            }
            self.provider(&path, &id, &merged);
        }
        kept
    }

    fn provider(&mut self, path: &str, id: &ProviderId, config: &ProviderConfig) {
        let whom = format!("provider `{id}`");
        let address = config.address().map_or_else(|| "(no address)".to_owned(), without_secrets);
        self.request(Power::SendTo { whom: whom.clone(), address }, below(path, "base_url"), config);
        if let Some(variable) = config.api_key_env.clone() {
            let power = Power::ReadVariable { variable, whom: whom.clone() };
            self.request(power, below(path, "api_key_env"), config);
        }
        self.values(&below(path, "headers"), &whom, config.headers.as_ref(), Carrier::Header);
    }

    /// Requests the variables that the values name, and headers that do not name one.
    fn values(
        &mut self,
        path: &str,
        whom: &str,
        values: Option<&BTreeMap<String, String>>,
        carrier: Carrier,
    ) {
        for (name, value) in values.into_iter().flatten() {
            let variables = named_variables(value);
            let is_variable = value.strip_prefix('$').is_some_and(|name| variables == [name]);
            for variable in variables {
                let power = Power::ReadVariable { variable: variable.to_owned(), whom: whom.to_owned() };
                self.request(power, below(path, name), json!([name, value]));
            }
            // A plain text that a program is given is a part of how it is started.
            if carrier == Carrier::Header && !is_variable {
                let power = Power::SendHeader { whom: whom.to_owned(), header: name.clone() };
                self.request(power, below(path, name), json!([name, value]));
            }
        }
    }

    fn models(&mut self, models: BTreeMap<ModelId, ModelConfig>) -> BTreeMap<ModelId, ModelConfig> {
        let mut kept = BTreeMap::new();
        for (id, config) in models {
            let ModelConfig {
                provider,
                protocols,
                window,
                max_output,
                price,
                efforts,
                thinking_budget,
                sampling,
                tools,
                images,
                reasoning,
                tool_choice,
                parallel_tool_calls,
                stop,
                seed,
                service_tier,
                response_format,
                routing,
                cache,
                extra_body,
            } = config;
            let known = self.base.model_facts(&id).ok();
            let path = format!("models.{id}");
            let usual = known.as_ref().map(|known| &known.reference.provider);
            let is_usual = provider.as_ref().is_none_or(|provider| Some(provider) == usual);
            if let Some(provider) = provider.as_ref().filter(|_| !is_usual) {
                let power = Power::Route { model: id.to_string(), provider: provider.to_string() };
                self.request(power, below(&path, "provider"), provider);
            }
            let least = known.and_then(|known| known.price);
            let is_dear = price.is_none_or(|price| least.is_some_and(|least| price.is_at_least(&least)));
            if !is_dear {
                self.request(Power::Reprice { model: id.to_string() }, below(&path, "price"), price);
            }
            let provider = provider.filter(|_| is_usual);
            let price = price.filter(|_| is_dear);
            let whom = format!("model `{id}`");
            let model = ModelConfig {
                service_tier: self.option(&path, &whom, "service_tier", service_tier),
                routing: self.option(&path, &whom, "routing", routing),
                extra_body: self.option(&path, &whom, "extra_body", extra_body),
                provider,
                protocols,
                window,
                max_output,
                price,
                efforts,
                thinking_budget,
                sampling,
                tools,
                images,
                reasoning,
                tool_choice,
                parallel_tool_calls,
                stop,
                seed,
                response_format,
                cache,
            };
            kept.insert(id, model);
        }
        kept
    }

    /// Requests an option of requests that decides who answers, what it costs or what else is sent.
    fn option<T: Serialize>(&mut self, path: &str, whom: &str, key: &str, value: Option<T>) -> Option<T> {
        let power = Power::SendOption { whom: whom.to_owned(), key: key.to_owned() };
        self.request(power, below(path, key), value?);
        None
    }

    fn servers(&mut self, servers: BTreeMap<McpServerId, McpServerConfig>) {
        for (id, config) in servers {
            let known = self.base.mcp_servers.get(&id).cloned();
            let mut merged = known.clone().unwrap_or_default();
            merged.merge(config);
            if known.as_ref() == Some(&merged) {
                continue;
            }
            let path = format!("mcp_servers.{id}");
            let whom = format!("MCP server `{id}`");
            if let Some(url) = &merged.url {
                let power = Power::SendTo { whom: whom.clone(), address: without_secrets(url) };
                self.request(power, below(&path, "url"), &merged);
            }
            if merged.command.is_some() || merged.url.is_none() {
                let words = merged.command.iter().chain(merged.args.iter().flatten());
                let env = merged.env.iter().flatten().filter(|(name, _)| is_ruling(name));
                let power = Power::StartServer {
                    server: id.to_string(),
                    command: words.cloned().collect(),
                    folder: merged.cwd.clone(),
                    env: env.map(|(name, value)| (name.clone(), value.clone())).collect(),
                };
                self.request(power, below(&path, "command"), &merged);
            }
            self.values(&below(&path, "env"), &whom, merged.env.as_ref(), Carrier::Program);
            self.values(&below(&path, "headers"), &whom, merged.headers.as_ref(), Carrier::Header);
        }
    }

    fn variables(&mut self, variables: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
        let mut kept = BTreeMap::new();
        for (name, value) in variables {
            // An agent of the person's own may ask for a variable that only a project has.
            let is_known = self.base.variables.get(&name) == Some(&value);
            let is_read = self.base.variables.contains_key(&name) || !self.base.agents.is_empty();
            if is_read && !is_known {
                let power = Power::ChangeVariable { variable: name.clone() };
                self.request(power, format!("variables.{name}"), value);
            } else {
                kept.insert(name, value);
            }
        }
        kept
    }

    fn hooks(&mut self, path: &str, agent: Option<&str>, hooks: Option<&HookCommands>) {
        let mut counts: BTreeMap<HookPoint, usize> = BTreeMap::new();
        for (point, command, tools) in hooks.into_iter().flat_map(HookCommands::iter) {
            let count = counts.entry(point).or_default();
            let path = format!("{path}.{}[{count}]", point.as_str());
            *count += 1;
            let power = Power::RunHook {
                point: point.as_str().to_owned(),
                agent: agent.map(str::to_owned),
                command: command.command.as_str().to_owned(),
            };
            self.request(power, path.clone(), json!([command, tools]));
            for variable in &command.env {
                let whom = format!("the hook `{}`", command.command.as_str());
                let power = Power::ReadVariable { variable: variable.clone(), whom };
                self.request(power, below(&path, "env"), variable);
            }
        }
    }

    fn checkpoint(&mut self, policy: CheckpointPolicy) -> CheckpointPolicy {
        let CheckpointPolicy { store, interval, on, on_change, keep_last, max_age, max_size } = policy;
        let is_free = store.is_none() || store == self.base.checkpoint.store;
        if let Some(store) = store.as_ref().filter(|_| !is_free) {
            self.request(
                Power::KeepAt { store: store.to_string() },
                "checkpoint.store",
                String::from(store.clone()),
            );
            if let StoreSetting::Variable(variable) = store {
                let whom = "the store of checkpoints".to_owned();
                let power = Power::ReadVariable { variable: variable.clone(), whom };
                self.request(power, "checkpoint.store", variable);
            }
        }
        let rules = [("max_age", max_age.map(String::from)), ("max_size", max_size.map(String::from))];
        for (key, value) in rules.into_iter().filter_map(|(key, value)| Some((key, value?))) {
            let power = Power::Discard { rule: format!("{key}: {value}") };
            self.request(power, format!("checkpoint.{key}"), value);
        }
        let store = store.filter(|_| is_free);
        let usual = self.base.checkpoint.points(None);
        let points = AgentCheckpoints { interval, on };
        let AgentCheckpoints { interval, on } = self.points("checkpoint", None, &usual, points);
        CheckpointPolicy { store, interval, on, on_change, keep_last, max_age: None, max_size: None }
    }

    /// Returns the points of `asked` that save no less than is `usual`, and requests the others: what a run
    /// did is known from its checkpoints.
    fn points(
        &mut self,
        path: &str,
        agent: Option<&str>,
        usual: &CheckpointPoints,
        asked: AgentCheckpoints,
    ) -> AgentCheckpoints {
        let AgentCheckpoints { interval, on } = asked;
        let agent = agent.map(str::to_owned);
        let is_rare = interval.is_some_and(|interval| interval > usual.interval());
        if let Some(interval) = interval.filter(|_| is_rare) {
            let power = Power::SaveLess { rule: format!("interval: {interval}"), agent: agent.clone() };
            self.request(power, below(path, "interval"), interval);
        }
        let is_less = on.as_ref().is_some_and(|on| !on.is_superset(usual.moments()));
        if let Some(on) = on.as_ref().filter(|_| is_less) {
            let moments = serde_json::to_string(on).unwrap_or_default();
            let rule = format!("on: {}", moments.replace('"', "").replace(',', ", "));
            self.request(Power::SaveLess { rule, agent }, below(path, "on"), on);
        }
        AgentCheckpoints { interval: interval.filter(|_| !is_rare), on: on.filter(|_| !is_less) }
    }

    fn permissions(
        &mut self,
        path: &str,
        agent: Option<&str>,
        permissions: Option<Permissions>,
    ) -> Option<Permissions> {
        let (kept, allowed) = permissions?.without_allowances();
        // A project can never allow secrets to be shown, so nobody is asked for that.
        for (tool, pattern) in allowed.into_iter().filter(|(tool, _)| tool != SECRETS) {
            let agent = agent.map(str::to_owned);
            let path = below(path, &tool);
            let path = pattern.as_ref().map_or(path.clone(), |pattern| below(&path, pattern));
            self.request(Power::Allow { tool, pattern, agent }, path, "allow");
        }
        Some(kept)
    }

    fn workspace(&mut self, workspace: Option<WorkspaceSetting>) -> Option<WorkspaceSetting> {
        let base = self.base.workspace.as_ref();
        let source = match workspace {
            Some(WorkspaceSetting::Git(source)) => source,
            free => return free,
        };
        let workspace = WorkspaceSetting::Git(source.clone());
        if base == Some(&workspace) {
            return Some(workspace);
        }
        let places = std::iter::once(&source.git).chain(source.keep.as_ref());
        for place in places.map(ToString::to_string) {
            self.request(Power::WorkOn { place }, "workspace", &source);
        }
        None
    }

    fn tool_settings(&mut self, settings: ToolSettings) -> ToolSettings {
        let ToolSettings { shell, fetch, web_search } = settings;
        let base = &self.base.tool_settings;
        let known = base.shell.clone().unwrap_or_default();
        let shell = shell.map(|ShellSettings { timeout, env }| {
            let (kept, asked): (Vec<_>, Vec<_>) =
                env.into_iter().partition(|variable| known.env.contains(variable));
            for variable in asked {
                let whom = "the commands of `shell`".to_owned();
                let power = Power::ReadVariable { variable: variable.clone(), whom };
                self.request(power, "tool_settings.shell.env", variable);
            }
            ShellSettings { timeout, env: kept }
        });
        let known = base.fetch.clone().unwrap_or_default();
        let fetch = fetch.map(|FetchSettings { timeout, allow_private }| {
            let (kept, asked): (Vec<_>, Vec<_>) =
                allow_private.into_iter().partition(|place| known.allow_private.contains(place));
            for place in asked {
                let place = String::from(place);
                let power = Power::ReachPrivate { place: place.clone() };
                self.request(power, "tool_settings.fetch.allow_private", place);
            }
            FetchSettings { timeout, allow_private: kept }
        });
        let known = base.web_search.clone();
        let web_search = web_search.filter(|settings| {
            let is_known = known.as_ref() == Some(settings);
            if !is_known {
                self.web_search(settings);
            }
            is_known
        });
        ToolSettings { shell, fetch, web_search }
    }

    fn web_search(&mut self, settings: &WebSearchSettings) {
        const PATH: &str = "tool_settings.web_search";
        let whom = "web_search".to_owned();
        let address = without_secrets(&String::from(settings.endpoint.clone()));
        self.request(Power::SendTo { whom: whom.clone(), address }, below(PATH, "endpoint"), settings);
        if let Some(variable) = settings.api_key_env.clone() {
            self.request(Power::ReadVariable { variable, whom }, below(PATH, "api_key_env"), settings);
        }
    }
}

/// The carrier of a variable's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carrier {
    Header,
    Program,
}

/// The number of retries if no layer sets it.
const USUAL_RETRIES: u32 = 4;

fn below(path: &str, key: &str) -> String {
    format!("{path}.{key}")
}
