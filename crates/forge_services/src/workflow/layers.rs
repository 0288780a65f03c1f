//! The layers of a workflow and how they become one.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use forge_domain::{
    Agent, Agents, Allowance, Effort, HARMLESS_VARIABLES, ModelId, ProviderConfig, ProviderId, RuleLayer,
    Sandbox, SearchUrl, StoreSetting, WebSearchSettings, Workflow,
};
use merge::Merge;

use super::key_forms::hide_keys;
use super::nearest::nearest;
use super::shipped_models::{fetched_models, shipped_models};
use super::trust::{Power, PowerRequest, Trust, check_places, narrow};
use super::yaml::{Outline, named_variables};
use super::{Finding, Source, WorkflowError, reader};

/// All that a workflow is made of, besides what is built in. Later fields win.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    /// The administrator's file, which holds for everybody on the machine.
    pub system: Option<Source>,
    /// The table of models that was fetched; it comes before all files.
    pub models: Option<Source>,
    /// The person's own file.
    pub user: Option<Source>,
    /// The project's `forge.yaml`.
    pub project: Option<Source>,
    /// The file that the project's `mcp_servers` come from, if it is not the project's own: `.mcp.json`.
    pub servers_file: Option<String>,
    /// The trust in the project's file: without it, the file only narrows what the others say.
    pub trust: Trust,
    /// Environment variables by name. Read are `FORGE_MODEL` (the model of every agent), `FORGE_PROVIDER`
    /// (who serves a model whose name says nothing of it), `FORGE_STORE` (where checkpoints are kept),
    /// `FORGE_SEARCH_ENDPOINT` (where `web_search` asks), and `OPENAI_BASE_URL`, `ANTHROPIC_BASE_URL`
    /// and `OLLAMA_HOST` (the addresses of the providers `openai`, `anthropic` and `ollama`); blank ones
    /// count as unset.
    pub environment: BTreeMap<String, String>,
    /// The settings of the command line.
    pub flags: Flags,
}

/// The settings of a workflow on the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// The model of every agent.
    pub model: Option<String>,
    /// The provider of models whose names have none.
    pub provider: Option<String>,
    /// The effort of every agent.
    pub effort: Option<Effort>,
    /// The budget of the whole run; each of its limits overrides that of the files.
    pub budget: Allowance,
    /// The checkpoint store.
    pub store: Option<String>,
}

/// The workflow of all layers: built-in, administrator, user, project, environment, flags; the later one
/// wins, field by field. Rules for calls, hooks and limits of earlier files hold whatever later ones say
/// ([`Workflow::merge_bounded`]), and of a project that is not trusted only what narrows counts.
///
/// # Errors
/// [`WorkflowError`] for the first layer that is not a workflow's, or that sends a key where it does not
/// belong.
pub fn load(layers: &Layers) -> Result<Workflow, WorkflowError> {
    let workflow = merge_layers(layers, &mut reader::read)?;
    match misplaced_keys(layers, &workflow)?.into_iter().next() {
        Some(finding) => Err(layers.point_at(&finding)),
        None => Ok(workflow),
    }
}

/// Finds what of `workflow`, that of all layers, sends a key where it does not belong.
pub(super) fn misplaced_keys(layers: &Layers, workflow: &Workflow) -> Result<Vec<Finding>, WorkflowError> {
    if layers.project.is_none() {
        return Ok(Vec::new());
    }
    // A file that cannot be read names no key; what is wrong with it is told elsewhere.
    let mut own = own_layers(layers, &mut |source| Ok(reader::read(source).unwrap_or_default()))?;
    of_environment(layers, &mut own)?;
    Ok(check_places(&own, workflow))
}

/// The workflow of the layers that are not the project's: built in, the administrator's and the person's own.
pub(super) fn own_layers(
    layers: &Layers,
    read: &mut dyn FnMut(&Source) -> Result<Workflow, WorkflowError>,
) -> Result<Workflow, WorkflowError> {
    let mut workflow = built_in()?;
    if let Some(source) = &layers.models {
        workflow.merge(fetched_models(source, &workflow)?);
    }
    for (source, of) in [(&layers.system, RuleLayer::System), (&layers.user, RuleLayer::User)] {
        let Some(source) = source else { continue };
        let mut layer = read(source)?;
        layer.mark_rules(of);
        if workflow.sandbox.is_some() {
            layer.sandbox = stricter_sandbox(workflow.sandbox.as_ref(), layer.sandbox.as_ref());
        }
        workflow.merge_bounded(layer);
    }
    Ok(workflow)
}

/// Returns what every workflow starts from; it is read once.
pub(super) fn built_in() -> Result<Workflow, WorkflowError> {
    static KNOWN: OnceLock<Result<Workflow, WorkflowError>> = OnceLock::new();
    KNOWN.get_or_init(read_built_in).clone()
}

fn read_built_in() -> Result<Workflow, WorkflowError> {
    let mut workflow = reader::read(&Source::new("built-in workflow", BUILTIN))?;
    workflow.merge(shipped_models()?);
    Ok(workflow)
}

/// Merges the workflow of all layers, of which `read` reads those that are files.
pub(super) fn merge_layers(
    layers: &Layers,
    read: &mut dyn FnMut(&Source) -> Result<Workflow, WorkflowError>,
) -> Result<Workflow, WorkflowError> {
    let mut workflow = own_layers(layers, read)?;
    if let Some(source) = &layers.project {
        let mut project = match layers.trust {
            Trust::Granted => read(source)?,
            Trust::Withheld => narrow(&workflow, read(&source.clone().without_private_variables())?).0,
        };
        project.mark_rules(RuleLayer::Project);
        workflow.bound_prices(&mut project);
        project.sandbox = stricter_sandbox(workflow.sandbox.as_ref(), project.sandbox.as_ref());
        workflow.merge_bounded(project);
    }
    of_environment(layers, &mut workflow)?;
    let settings = [
        (
            MODEL_VARIABLE,
            "environment variable FORGE_PROVIDER",
            "environment variable FORGE_STORE",
            layers.environment_settings(),
        ),
        (MODEL_FLAG, "flag --provider", "flag --store", layers.flags.clone()),
    ];
    for (model_origin, provider_origin, store_origin, settings) in settings {
        if let Some(model) = &settings.model {
            let layer = model_of_every_agent(&workflow, model_origin, model)?;
            workflow.merge(layer);
        }
        if let Some(provider) = &settings.provider {
            let layer = default_provider(&workflow, provider_origin, provider)?;
            workflow.merge(layer);
        }
        if let Some(store) = &settings.store {
            let store = store.parse::<StoreSetting>();
            let store = store.map_err(|error| WorkflowError::in_layer(store_origin, &error.to_string()))?;
            workflow.checkpoint.store = Some(store);
        }
    }
    if layers.flags.budget != Allowance::default() {
        let asked = workflow.budget.unwrap_or_default().overridden_by(layers.flags.budget);
        // What the administrator allows, a flag cannot raise.
        let most = layers.system.as_ref().map(read).transpose()?.and_then(|system| system.budget);
        workflow.budget = Some(asked.bounded_by(most.unwrap_or_default()));
    }
    if let Some(effort) = layers.flags.effort {
        workflow.agents.for_each(|agent| agent.set_effort(effort));
    }
    workflow.agents.for_each(Agent::summarize_by_own_model);
    Ok(workflow)
}

/// Adds what the environment says of addresses.
fn of_environment(layers: &Layers, workflow: &mut Workflow) -> Result<(), WorkflowError> {
    if let Some(base_url) = layers.variable("OPENAI_BASE_URL") {
        workflow.merge(provider_at("openai", base_url));
    }
    if let Some(base_url) = layers.variable("ANTHROPIC_BASE_URL") {
        workflow.merge(provider_at("anthropic", base_url));
    }
    if let Some(host) = layers.variable("OLLAMA_HOST") {
        reach_ollama(workflow, host);
    }
    if let Some(endpoint) = layers.variable(SEARCH_VARIABLE) {
        search_at(workflow, endpoint)?;
    }
    Ok(())
}

/// Returns the requests for variables whose values become part of the file: a model may read them there.
fn variable_requests(project: &Source) -> impl Iterator<Item = PowerRequest> {
    let named = named_variables(project).into_iter();
    let private = named.filter(|(name, ..)| !HARMLESS_VARIABLES.contains(&name.as_str()));
    private.map(|(variable, path, position)| PowerRequest {
        says: variable.as_str().into(),
        power: Power::ReadVariable { variable, whom: "this file, which a model may read".to_owned() },
        path: path.to_string(),
        position: Some(position),
    })
}

/// A key of the project's sandbox that is not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedKey {
    /// Its path, such as `sandbox.off`.
    pub path: String,
    /// The file's name as the user knows it.
    pub source: String,
    /// The line of the key, from 1, if it is known.
    pub line: Option<usize>,
}

impl Layers {
    /// Returns the powers that the project's file asks for, in the order of its lines; none if there is no
    /// such file.
    ///
    /// # Errors
    /// [`WorkflowError`] for the first layer that is not a workflow's.
    pub fn power_requests(&self) -> Result<Vec<PowerRequest>, WorkflowError> {
        let Some(project) = &self.project else { return Ok(Vec::new()) };
        let base = own_layers(self, &mut reader::read)?;
        let (_, mut requests) = narrow(&base, reader::read(project)?);
        let outline = Outline::of(&project.text);
        for request in &mut requests {
            request.position = outline.nearest(&request.path).map(|place| place.position);
            // The pattern of a rule is a part of it.
            request.path = hide_keys(&request.path);
        }
        requests.extend(variable_requests(project));
        requests.sort_by(|one, other| {
            (one.position, &one.path, &one.power).cmp(&(other.position, &other.path, &other.power))
        });
        requests.dedup();
        Ok(requests)
    }

    /// Returns what the project's file says of the sandbox and does not get, because it would loosen it.
    pub fn refused_sandbox_keys(&self) -> Vec<RefusedKey> {
        let Some(source) = &self.project else { return Vec::new() };
        // What is wrong with a file is told elsewhere.
        let own = own_layers(self, &mut |source| Ok(reader::read(source).unwrap_or_default()));
        let asked = reader::read(source).ok().and_then(|project| project.sandbox);
        let (Ok(own), Some(asked)) = (own, asked) else { return Vec::new() };
        let granted = own.sandbox.unwrap_or_default().tighten(&asked);
        let outline = Outline::of(&source.text);
        let refused = |key: &'static str| {
            let path = format!("sandbox.{key}");
            let line = outline.nearest(&path).map(|place| place.position.line);
            RefusedKey { path, source: source.name.clone(), line }
        };
        granted.refused_keys(&asked).into_iter().map(refused).collect()
    }

    /// Returns the sandbox that the administrator's file holds against everyone, if it says anything of it.
    pub fn held_sandbox(&self) -> Option<Sandbox> {
        self.system.as_ref().and_then(|source| reader::read(source).ok()?.sandbox)
    }

    /// Returns the error for `finding` with its position in a file: the project's if it has as much of the
    /// path as the user's, or more. For a model that a flag or the environment sets, the error names these
    /// instead.
    pub fn point_at(&self, finding: &Finding) -> WorkflowError {
        self.point_within(&self.outlines(), finding)
    }

    /// Does the same for each of `findings`; the files are read once.
    pub fn point_at_all<'f>(&self, findings: impl IntoIterator<Item = &'f Finding>) -> Vec<WorkflowError> {
        let outlines = self.outlines();
        findings.into_iter().map(|finding| self.point_within(&outlines, finding)).collect()
    }

    /// Returns the files, the earliest layer first.
    pub(super) fn files(&self) -> impl DoubleEndedIterator<Item = &Source> {
        [&self.system, &self.user, &self.project].into_iter().flatten()
    }

    /// The files, the project's first, and where everything stands in them.
    fn outlines(&self) -> Vec<(&Source, Outline)> {
        let sources = self.files().rev();
        sources.map(|source| (source, Outline::of(&source.text))).collect()
    }

    fn point_within(&self, outlines: &[(&Source, Outline)], finding: &Finding) -> WorkflowError {
        let elsewhere = |origin: &str| {
            let path = finding.path.as_str().into();
            WorkflowError { path, ..WorkflowError::in_layer(origin, &finding.what) }
        };
        let of_agent = finding.path.strip_prefix("agents.").unwrap_or_default();
        let overruled = self.model_of_all();
        if let Some((origin, _)) = overruled.filter(|_| is_agents_model(of_agent)) {
            return elsewhere(origin).with_hint(finding.hint.as_deref());
        }
        if self.flags.effort.is_some() && of_agent.ends_with(".reasoning.effort") {
            return elsewhere(EFFORT_FLAG).with_hint(finding.hint.as_deref());
        }
        let found = outlines
            .iter()
            .filter_map(|(source, outline)| Some((*source, outline.nearest(&finding.path)?)))
            .reduce(|best, other| if other.1.reached > best.1.reached { other } else { best });
        let error = match found {
            Some((source, place)) => {
                WorkflowError::at(source, Some(place.position), &finding.path, &finding.what)
            }
            None => elsewhere("workflow"),
        };
        // The fault of an agent as a whole may be its model's window.
        let is_whole_agent = !of_agent.is_empty() && !of_agent.contains('.');
        let of_model = overruled
            .filter(|_| is_whole_agent)
            .map(|(origin, model)| format!("its model `{model}` comes from the {origin}"));
        let hints: Vec<&str> = [of_model.as_deref(), finding.hint.as_deref()].into_iter().flatten().collect();
        let hint = hints.join("; ");
        error.with_hint((!hints.is_empty()).then_some(hint.as_str()))
    }

    /// Returns the model that every agent has whatever the files set, with the words for its origin.
    fn model_of_all(&self) -> Option<(&'static str, &str)> {
        let flag = self.flags.model.as_deref().map(|model| (MODEL_FLAG, model));
        flag.or_else(|| Some((MODEL_VARIABLE, self.variable("FORGE_MODEL")?)))
    }

    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    fn environment_settings(&self) -> Flags {
        Flags {
            model: self.variable("FORGE_MODEL").map(str::to_owned),
            provider: self.variable("FORGE_PROVIDER").map(str::to_owned),
            effort: None,
            budget: Allowance::default(),
            store: self.variable("FORGE_STORE").map(str::to_owned),
        }
    }
}

/// Checks whether a path below `agents.` is that of an agent's own model.
fn is_agents_model(path: &str) -> bool {
    path.strip_suffix(".model").is_some_and(|agent| !agent.ends_with(".compact"))
}

/// The environment variable for the endpoint of `web_search`.
pub(super) const SEARCH_VARIABLE: &str = "FORGE_SEARCH_ENDPOINT";
const MODEL_VARIABLE: &str = "environment variable FORGE_MODEL";
const EFFORT_FLAG: &str = "flag --effort";
const MODEL_FLAG: &str = "flag --model";
const BUILTIN: &str = include_str!("../builtin.yaml");

/// Returns the address of an Ollama server, as its own variable `OLLAMA_HOST` names it.
pub fn ollama_address(host: &str) -> String {
    let (scheme, host) = host.split_once("://").unwrap_or(("http", host));
    let host = host.trim_end_matches('/');
    match host.contains('/') || host.rsplit(']').next().is_some_and(|end| end.contains(':')) {
        true => format!("{scheme}://{host}"),
        false => format!("{scheme}://{host}:11434"),
    }
}

/// Sets the address of Ollama, unless a file has another one than the built-in.
fn reach_ollama(workflow: &mut Workflow, host: &str) {
    let known = built_in().ok().and_then(|built_in| {
        let ollama = ProviderId::new("ollama").ok()?;
        let address = built_in.providers.get(&ollama)?.base_url.clone();
        Some((ollama, address))
    });
    let Some((ollama, address)) = known else { return };
    if let Some(config) = workflow.providers.get_mut(&ollama).filter(|config| config.base_url == address) {
        config.base_url = Some(ollama_address(host));
    }
}

fn provider_at(id: &str, base_url: &str) -> Workflow {
    let config = ProviderConfig { base_url: Some(base_url.to_owned()), ..ProviderConfig::default() };
    let providers = ProviderId::new(id).into_iter().map(|id| (id, config.clone())).collect();
    Workflow { providers, ..Workflow::default() }
}

/// Returns the sandbox of `earlier` layers, tightened by what a `later` one says of it.
fn stricter_sandbox(earlier: Option<&Sandbox>, later: Option<&Sandbox>) -> Option<Sandbox> {
    later.map(|later| earlier.cloned().unwrap_or_default().tighten(later))
}

/// Replaces the address only: how its answers are read stays as the files set it.
fn search_at(workflow: &mut Workflow, endpoint: &str) -> Result<(), WorkflowError> {
    let endpoint = SearchUrl::try_from(endpoint.to_owned()).map_err(|error| {
        WorkflowError::in_layer(&format!("environment variable {SEARCH_VARIABLE}"), &error.to_string())
    })?;
    let said = workflow.tool_settings.web_search.take();
    workflow.tool_settings.web_search = Some(match said {
        Some(settings) => WebSearchSettings { endpoint, ..settings },
        None => WebSearchSettings::at(endpoint),
    });
    Ok(())
}

fn model_of_every_agent(base: &Workflow, origin: &str, model: &str) -> Result<Workflow, WorkflowError> {
    let model = ModelId::new(model).map_err(|error| WorkflowError::in_layer(origin, &error.to_string()))?;
    let agents: Agents =
        base.agents.iter().map(|agent| Agent::new(agent.id.clone()).model(model.clone())).collect();
    Ok(Workflow { agents, ..Workflow::default() })
}

/// Returns the layer of a default provider. One that is not declared would be ignored silently wherever a
/// model names its own, so it is refused.
fn default_provider(base: &Workflow, origin: &str, provider: &str) -> Result<Workflow, WorkflowError> {
    let id =
        ProviderId::new(provider).map_err(|error| WorkflowError::in_layer(origin, &error.to_string()))?;
    if !base.providers.contains_key(&id) {
        let hint = match nearest(provider, base.providers.keys().map(ProviderId::as_str)) {
            Some(known) => format!("did you mean `{known}`?"),
            None => format!("use one of {}", base.provider_names()),
        };
        return Err(WorkflowError::in_layer(origin, &format!("there is no provider `{provider}`"))
            .with_hint(Some(&hint)));
    }
    Ok(Workflow { default_provider: Some(id), ..Workflow::default() })
}

#[cfg(test)]
mod tests {
    use forge_domain::{Dollars, ProviderKind, Tokens};
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    const USER: &str = "\
providers: { local: { base_url: 'http://user/v1' } }
variables: { team: user, place: user }
agents:
  a: { model: user-model, description: by user, max_turns: 1, compact: { max_tokens: 1000, token_threshold: 2000 } }
  b: { model: user-model }
";
    const PROJECT: &str = "\
providers: { local: { api_key_env: KEY } }
variables: { team: project }
agents:
  - { id: a, max_turns: 2, compact: { max_tokens: 1500, turn_threshold: 3 } }
  - { id: c, model: project-model }
";

    fn layers(environment: &[(&str, &str)], model: Option<&str>, provider: Option<&str>) -> Layers {
        Layers {
            user: Some(Source::new("user.yaml", USER)),
            project: Some(Source::new("forge.yaml", PROJECT)),
            environment: environment
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            flags: Flags {
                model: model.map(str::to_owned),
                provider: provider.map(str::to_owned),
                ..Flags::default()
            },
            ..Layers::default()
        }
    }

    fn models_of(workflow: &Workflow) -> Vec<&str> {
        workflow.agents.iter().map(|agent| agent.model.as_ref().map_or("-", ModelId::as_str)).collect()
    }

    #[test]
    fn what_is_built_in_is_there_without_any_file() {
        let workflow = load(&Layers::default()).unwrap();
        assert_eq!(workflow.provider_names(), "anthropic, gemini, ollama, openai, openrouter");
        let actual: Vec<_> =
            workflow.providers.values().map(|provider| provider.api_key_env.as_deref()).collect();
        assert_eq!(
            actual,
            [
                Some("ANTHROPIC_API_KEY"),
                Some("GEMINI_API_KEY"),
                None,
                Some("OPENAI_API_KEY"),
                Some("OPENROUTER_API_KEY")
            ]
        );
        let kinds: Vec<_> = workflow.providers.values().filter_map(|provider| provider.kind).collect();
        let openai = ProviderKind::OpenAi;
        assert_eq!(
            kinds,
            [ProviderKind::Anthropic, ProviderKind::Gemini, ProviderKind::Ollama, openai, openai]
        );
        let model = workflow.model(&ModelId::new("gpt-4o").unwrap()).unwrap();
        let actual = (model.reference.to_string(), model.limits.window, model.limits.max_output);
        assert_eq!(actual, ("openai:gpt-4o".to_owned(), Tokens::new(128_000), Some(Tokens::new(16_384))));
    }

    #[test]
    fn the_project_is_merged_into_the_users_file_field_by_field() {
        let actual = load(&layers(&[], None, None)).unwrap();
        let expected: Workflow = serde_saphyr::from_str(
            "\
providers: { local: { base_url: 'http://user/v1', api_key_env: KEY } }
variables: { team: project, place: user }
agents:
  a: { model: user-model, description: by user, max_turns: 1, compact: { max_tokens: 1500, turn_threshold: 3 } }
  b: { model: user-model }
  c: { model: project-model }
",
        )
        .unwrap();
        let local = ProviderId::new("local").unwrap();
        assert_eq!(actual.providers[&local], expected.providers[&local]);
        assert_eq!((actual.variables, actual.agents), (expected.variables, expected.agents));
        assert_eq!(actual.default_provider, None);
    }

    #[test]
    fn a_project_only_tightens_the_users_sandbox() {
        let user = "sandbox: { network: all, write: [/a] }";
        for (user, project, expected) in [
            (user, "{}", json!({"network": "all", "write": ["/a"]})),
            (user, "sandbox: { network: [b.org], write: [/c] }", json!({"network": ["b.org"], "write": []})),
            ("{}", "sandbox: { off: true, network: all }", json!({"network": "none"})),
            ("{}", "{}", json!(null)),
        ] {
            let layers = Layers {
                user: Some(Source::new("user.yaml", user)),
                project: Some(Source::new("forge.yaml", project)),
                ..Layers::default()
            };
            assert_eq!(json!(load(&layers).unwrap().sandbox), expected, "{user} {project}");
        }
    }

    #[test]
    fn an_agent_may_summarize_with_its_own_model() {
        for (model, environment, expected) in [
            ("agent", &[][..], "p:own"),
            ("agent", &[("FORGE_MODEL", "p:other")][..], "p:other"),
            ("p:agent", &[][..], "p:agent"),
            ("p:small", &[][..], "p:small"),
        ] {
            let yaml = format!(
                "agents:\n  a: {{ model: 'p:own', compact: {{ model: '{model}' }} }}\nproviders: {{ p: {{}} }}\n"
            );
            let mut layers = layers(environment, None, None);
            layers.user = None;
            layers.project = Some(Source::new("forge.yaml", yaml));
            let workflow = load(&layers).unwrap();
            let compact = workflow.agents.find("a").unwrap().compact.as_ref().unwrap();
            assert_eq!(compact.model.as_ref().map(ModelId::as_str), Some(expected), "{model}");
        }
    }

    #[test]
    fn flags_win_over_the_environment_and_the_environment_over_files() {
        type Variables = &'static [(&'static str, &'static str)];
        let cases: [(Variables, _, _, _, _); 6] = [
            (&[], None, None, ["user-model", "user-model", "project-model"], None),
            (&[("FORGE_MODEL", "e")], None, None, ["e", "e", "e"], None),
            (&[("FORGE_MODEL", "e")], Some("f"), None, ["f", "f", "f"], None),
            (&[("FORGE_MODEL", " ")], None, None, ["user-model", "user-model", "project-model"], None),
            (
                &[("FORGE_PROVIDER", "ollama")],
                None,
                None,
                ["user-model", "user-model", "project-model"],
                Some("ollama"),
            ),
            (&[("FORGE_PROVIDER", "ollama")], Some("f"), Some("local"), ["f", "f", "f"], Some("local")),
        ];
        for (environment, model, provider, models, default_provider) in cases {
            let actual = load(&layers(environment, model, provider)).unwrap();
            let named = actual.default_provider.as_ref().map(ProviderId::as_str);
            assert_eq!(
                (models_of(&actual), named),
                (models.to_vec(), default_provider),
                "{environment:?} {model:?}"
            );
        }
    }

    #[test]
    fn a_limit_of_the_flags_counts_before_that_of_the_files() {
        let mut layers = Layers {
            project: Some(Source::new("forge.yaml", "budget: { tokens: 100, cost: 2.5 }")),
            ..Layers::default()
        };
        assert_eq!(
            serde_json::to_string(&load(&layers).unwrap().budget).unwrap(),
            r#"{"tokens":100,"cost":2.5}"#
        );
        layers.flags.budget.cost = Dollars::new(1.0);
        assert_eq!(
            serde_json::to_string(&load(&layers).unwrap().budget).unwrap(),
            r#"{"tokens":100,"cost":1.0}"#
        );
    }

    #[test]
    fn a_store_is_named_by_the_file_the_environment_or_a_flag() {
        for (file, variable, flag, expected) in [
            ("{}", "", None, Ok(None)),
            ("{ store: 'memory:' }", "", None, Ok(Some("memory:"))),
            ("{ store: 'memory:' }", "sqlite:e.db", None, Ok(Some("sqlite:e.db"))),
            ("{ store: 'memory:' }", "sqlite:e.db", Some("none"), Ok(Some("none"))),
            ("{}", "e.db", None, Err("environment variable FORGE_STORE")),
            ("{}", "", Some("f.db"), Err("flag --store")),
        ] {
            let layers = Layers {
                project: Some(Source::new("forge.yaml", format!("checkpoint: {file}"))),
                environment: [("FORGE_STORE".to_owned(), variable.to_owned())].into(),
                flags: Flags { store: flag.map(str::to_owned), ..Flags::default() },
                ..Layers::default()
            };
            let actual =
                load(&layers).map(|workflow| workflow.checkpoint.store.map(|store| store.to_string()));
            match (actual, expected) {
                (Ok(actual), Ok(expected)) => assert_eq!(actual.as_deref(), expected),
                (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
                (actual, expected) => panic!("{actual:?} instead of {expected:?}"),
            }
        }
    }

    #[test]
    fn the_environment_can_move_openai() {
        let at = [("ANTHROPIC_BASE_URL", "http://localhost:2")];
        let at = load(&layers(&at, None, None)).unwrap();
        let anthropic = &at.providers[&ProviderId::new("anthropic").unwrap()];
        assert_eq!(anthropic.base_url.as_deref(), Some("http://localhost:2"));
        let actual = load(&layers(&[("OPENAI_BASE_URL", "http://localhost:1/v1")], None, None)).unwrap();
        let actual = &actual.providers[&ProviderId::new("openai").unwrap()];
        let expected = ProviderConfig {
            kind: Some(ProviderKind::OpenAi),
            base_url: Some("http://localhost:1/v1".to_owned()),
            api_key_env: Some("OPENAI_API_KEY".to_owned()),
            headers: None,
            retries: None,
        };
        assert_eq!(actual, &expected);
    }

    #[test]
    fn the_environment_says_where_the_web_is_searched() {
        let file = "tool_settings: { web_search: { endpoint: 'http://file/?q={query}', results: /web } }";
        let here = "http://here/?q={query}";
        for (file, variable, expected) in [
            (file, "", Ok(json!({"endpoint": "http://file/?q={query}", "results": "/web"}))),
            (file, here, Ok(json!({"endpoint": here, "results": "/web"}))),
            ("agents: []", here, Ok(json!({"endpoint": here}))),
            ("agents: []", "", Ok(json!(null))),
            (file, "http://here/", Err("environment variable FORGE_SEARCH_ENDPOINT")),
        ] {
            let layers = Layers {
                project: Some(Source::new("forge.yaml", file)),
                environment: [(SEARCH_VARIABLE.to_owned(), variable.to_owned())].into(),
                ..Layers::default()
            };
            let actual = load(&layers).map(|workflow| json!(workflow.tool_settings.web_search));
            match (actual, expected) {
                (Ok(actual), Ok(expected)) => assert_eq!(actual, expected),
                (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
                (actual, expected) => panic!("{actual:?} instead of {expected:?}"),
            }
        }
    }

    #[test]
    fn a_faulty_layer_is_named() {
        let broken = Layers { user: Some(Source::new("~/user.yaml", "agents: 5\n")), ..Layers::default() };
        for (layers, expected) in [
            (layers(&[], Some(" "), None), "a model's id must not be empty\n  --> flag --model"),
            (
                layers(&[("FORGE_PROVIDER", "olama")], None, None),
                "there is no provider `olama`\n  --> environment variable FORGE_PROVIDER\nhelp: did you mean \
                 `ollama`?",
            ),
            (
                layers(&[], None, Some("x")),
                "there is no provider `x`\n  --> flag --provider\nhelp: use one of anthropic, gemini, local, ollama, \
                 openai, openrouter",
            ),
            (
                broken,
                "expected a list of agents, or a map of agents keyed by id, found `5`\n  --> ~/user.yaml:1:9: agents\n  |\n\
                 1 | agents: 5\n  |         ^\nhelp: for example `agents: { researcher: { model: gpt-4o } }`",
            ),
        ] {
            assert_eq!(load(&layers).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn a_finding_is_shown_in_the_file_that_says_most_of_it() {
        let layers = layers(&[], None, None);
        for (path, expected) in [
            ("agents.a.compact.max_tokens", "forge.yaml:4:51"),
            ("agents.a.model", "user.yaml:4:15"),
            ("agents.b.model", "user.yaml:5:15"),
            ("agents.c.max_turns", "forge.yaml:5:5"),
            ("models.x", "workflow"),
        ] {
            let finding =
                Finding { path: path.to_owned(), what: "bad".to_owned(), hint: Some("fix it".to_owned()) };
            let actual = layers.point_at(&finding).to_string();
            let place = actual.lines().nth(1).unwrap_or_default();
            assert_eq!(
                (place, actual.lines().last()),
                (&*format!("  --> {expected}: {path}"), Some("help: fix it"))
            );
        }
    }

    #[test]
    fn the_variable_of_ollama_is_its_address() {
        for (host, expected) in [
            ("localhost", "http://localhost:11434"),
            ("0.0.0.0:8000", "http://0.0.0.0:8000"),
            ("https://models.example/ollama/", "https://models.example/ollama"),
            ("[::1]", "http://[::1]:11434"),
            ("[::1]:5", "http://[::1]:5"),
        ] {
            assert_eq!(ollama_address(host), expected);
            let environment = BTreeMap::from([("OLLAMA_HOST".to_owned(), host.to_owned())]);
            let workflow = load(&Layers { environment, ..Layers::default() }).unwrap();
            let ollama = &workflow.providers[&ProviderId::new("ollama").unwrap()];
            assert_eq!(ollama.base_url.as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_model_that_no_file_says_is_not_pointed_at_in_one() {
        let variable: &[(&str, &str)] = &[("FORGE_MODEL", "e")];
        for (environment, flag, path, expected) in [
            (variable, None, "agents.a.model", "environment variable FORGE_MODEL: agents.a.model"),
            (variable, Some("f"), "agents.a.model", "flag --model: agents.a.model"),
            (&[], Some("f"), "agents.nobody.model", "flag --model: agents.nobody.model"),
            (&[], Some("f"), "agents.a.compact.model", "forge.yaml:4:37: agents.a.compact.model"),
            (&[], Some("f"), "models.m", "workflow: models.m"),
            (&[("FORGE_MODEL", " ")], None, "agents.a.model", "user.yaml:4:15: agents.a.model"),
        ] {
            let finding = Finding { path: path.to_owned(), what: "bad".to_owned(), hint: None };
            let actual = layers(environment, flag, None).point_at(&finding).to_string();
            let place = actual.lines().nth(1).and_then(|line| line.strip_prefix("  --> "));
            assert_eq!(place, Some(expected), "{environment:?} {flag:?}");
        }
        let finding = Finding { path: "agents.a".to_owned(), what: "never fits".to_owned(), hint: None };
        let actual = layers(variable, None, None).point_at(&finding).to_string();
        let expected = "help: its model `e` comes from the environment variable FORGE_MODEL";
        assert_eq!(actual.lines().last(), Some(expected));
    }
}
