//! The whole of a `forge.yaml`: providers, models and agents.

use std::collections::BTreeMap;

use merge::Merge;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::later;
use crate::request_options::with_request_keys;
use crate::{
    ASSUMED_WINDOW, Abilities, Agent, Agents, Allowance, CheckpointPolicy, Effort, Floor, HookCommands,
    LayerRules, McpServerConfig, McpServerId, Model, ModelError, ModelId, ModelLimits, ModelRef, Permissions,
    Price, ProviderId, ProviderKind, RequestOptions, ResponseKind, RuleLayer, Rules, Sandbox, Tokens,
    ToolSettings, WindowSource, WorkspaceSetting,
};

/// The whole of a `forge.yaml`, or of one layer of it.
// Its many fields are the top keys of the YAML, one to one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Merge)]
#[serde(deny_unknown_fields)]
#[schemars(extend("patternProperties" = {"^x-": true}))]
pub struct Workflow {
    /// Providers, which serve models, by name.
    #[serde(default)]
    #[schemars(extend("examples" = [{"local": {"base_url": "http://localhost:8080/v1"}}]))]
    #[merge(strategy = by_key)]
    pub providers: BTreeMap<ProviderId, ProviderConfig>,
    /// Facts about models, by the name that agents use.
    #[serde(default)]
    #[schemars(extend("examples" = [{"my-model": {"provider": "openai", "window": 32_768}}]))]
    #[merge(strategy = by_key)]
    pub models: BTreeMap<ModelId, ModelConfig>,
    /// MCP servers, by name; agents use their tools as `NAME__TOOL`, or all of them as `NAME__*`. Unset:
    /// none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("examples" = [{"files": {"command": "mcp-server-filesystem", "args": ["."]}}]))]
    #[merge(strategy = by_key)]
    pub mcp_servers: BTreeMap<McpServerId, McpServerConfig>,
    /// Values that every template may use, as `{{variables.name}}`.
    #[serde(default)]
    #[schemars(extend("examples" = [{"team": "research"}]))]
    #[merge(strategy = overwrite_keys)]
    pub variables: BTreeMap<String, Value>,
    /// Commands that observe, deny or change what happens at points of any agent's run; those of earlier
    /// layers stay. Unset: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [{"pre_compact": [{"command": "./check.sh", "timeout": "10s"}]}]))]
    #[merge(strategy = later)]
    pub hooks: Option<HookCommands>,
    /// When to save checkpoints: states from which a run can be resumed. Unset: every state is saved, in one
    /// file in the user's state folder.
    #[serde(default, skip_serializing_if = "is_unset")]
    #[schemars(extend("examples" = [{"interval": 3}]))]
    pub checkpoint: CheckpointPolicy,
    /// Method of counting tokens. Default `exact`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[merge(strategy = later)]
    #[schemars(extend("default" = "exact", "examples" = ["approximate"]))]
    pub counting: Option<Counting>,
    /// Spending limits of a whole run, all its agents together; of several layers the smaller counts. Unset:
    /// no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [{"tokens": 2_000_000, "cost": 5}]))]
    #[merge(strategy = later)]
    pub budget: Option<Allowance>,
    /// Rules for tool calls of all agents. A later layer can forbid more and allow nothing that an earlier
    /// one forbids. Unset: tools that only read may be called, the others with the user's consent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [{"shell": {"cargo *": "allow"}}]))]
    #[merge(strategy = later)]
    pub permissions: Option<Permissions>,
    /// Limits for the commands of `shell`, hooks and MCP servers. Your own file can allow more, a project's
    /// only less. Unset: all of their defaults apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [{"network": ["crates.io"], "write": ["~/.cache/pip"]}]))]
    #[merge(strategy = later)]
    pub sandbox: Option<Sandbox>,
    /// Workspace of runs that are submitted to a fleet: `shared` is the folder of the worker, `none` an empty
    /// one; a copy of a git repository travels with the run. Default `shared`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "shared", "examples" = [{"git": "https://github.com/me/project", "rev": "main"}]))]
    #[merge(strategy = later)]
    pub workspace: Option<WorkspaceSetting>,
    /// Settings of the built-in tools. Unset: all of their defaults apply.
    #[serde(default, skip_serializing_if = "ToolSettings::is_unset")]
    #[schemars(extend("examples" = [{"shell": {"timeout": "5m"}}]))]
    pub tool_settings: ToolSettings,
    /// The agents.
    #[serde(default)]
    #[schemars(extend("examples" = [{"researcher": {"model": "gpt-4o"}}]))]
    pub agents: Agents,
    /// The provider of models given without a prefix; from the environment or the command line.
    #[serde(skip)]
    #[merge(strategy = later)]
    pub default_provider: Option<ProviderId>,
    /// Rules and hooks of earlier layers that later ones cannot loosen.
    #[serde(skip)]
    #[merge(skip)]
    pub floor: Floor,
}

/// The method of counting tokens, before providers' reports correct it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Counting {
    /// By a vocabulary: no prompt exceeds the window by these counts.
    #[default]
    Exact,
    /// By kinds of bytes: fast, and only approximate.
    Approximate,
}

/// A provider, and the way to reach it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Merge)]
#[serde(deny_unknown_fields)]
#[merge(strategy = later)]
pub struct ProviderConfig {
    /// Protocol of the provider. Unset: OpenAI's chat completions, or its responses at OpenAI's own address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "openai", "examples" = ["openai"]))]
    pub kind: Option<ProviderKind>,
    /// Address of the provider: it begins with http:// or https:// and ends before `/chat/completions`,
    /// `/responses`, `/v1/messages`, `/api/chat` or `/models/MODEL`. Unset: the usual one of `anthropic`,
    /// `ollama` and `gemini`; the others need one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["http://localhost:8080/v1"]))]
    pub base_url: Option<String>,
    /// Name of the environment variable that holds the key. Unset: no key is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["LOCAL_API_KEY"]))]
    pub api_key_env: Option<String>,
    /// Headers of every request. A value `$NAME` is read from that environment variable. Unset: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [{"x-team": "research"}]))]
    pub headers: Option<BTreeMap<String, String>>,
    /// Number of retries of a call that may yet succeed; 0 turns them off. Unset: 8, over one and a half to
    /// three minutes, and 4 as long as the server was not reached once. A reply that breaks off is requested
    /// again at most 4 times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 8, "examples" = [8]))]
    pub retries: Option<u32>,
}

with_request_keys! {
/// The facts about a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Merge)]
#[serde(deny_unknown_fields)]
#[merge(strategy = later)]
pub struct ModelConfig {
    /// Provider that serves the model, by its name under `providers`. Unset: the prefix of the id, as in
    /// `provider:model`, or the only provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["openai"]))]
    pub provider: Option<ProviderId>,
    /// Protocols in which the model is served at its provider's own address, as words of `kind`; with an
    /// empty list it is not proposed any more. Unset: unknown, and that of the provider is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [["responses", "openai-chat"]]))]
    pub protocols: Option<Vec<ProviderKind>>,
    /// Tokens of prompt and reply together. Unset: what the server reports, else 128,000, which is reported
    /// once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [128_000]))]
    pub window: Option<Tokens>,
    /// Most tokens of one reply: no more is requested, and they are kept free, up to a quarter of the window.
    /// Unset: what the server reports; else the reply is not limited, and 4,096 are kept free, up to a
    /// quarter of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [4096]))]
    pub max_output: Option<Tokens>,
    /// Price of the model's tokens, in US dollars per million; a later layer replaces it as a whole. Unset:
    /// what the server reports, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [{"input": 2.5, "output": 10, "cache_read": 1.25}]))]
    pub price: Option<Price>,
    /// Efforts that the model has; without `none` it always thinks, and with an empty list none can be set.
    /// Unset: unknown, and any is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [["low", "medium", "high"]]))]
    pub efforts: Option<Vec<Effort>>,
    /// False if the model accepts no number of thinking tokens. Default true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true, "examples" = [false]))]
    pub thinking_budget: Option<bool>,
    /// False if the model refuses `temperature` and `top_p`, which are then not sent. Default true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true, "examples" = [false]))]
    pub sampling: Option<bool>,
    /// False if the model cannot call tools. Default true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true, "examples" = [false]))]
    pub tools: Option<bool>,
    /// True if the model reads images. Unset: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [true]))]
    pub images: Option<bool>,
}
}

impl ProviderKind {
    /// Returns the keys of `options` that are set and that the protocol has no field for. That of
    /// [`ProviderKind::OpenAi`] depends on the address ([`ProviderConfig::protocol`]).
    pub fn unsent(self, options: &RequestOptions) -> Vec<&'static str> {
        let is_object =
            options.response_format.as_ref().is_some_and(|format| format.kind == ResponseKind::JsonObject);
        let set = [
            ("reasoning.effort", options.reasoning.effort.is_some()),
            ("reasoning.budget_tokens", options.reasoning.budget_tokens.is_some()),
            ("tool_choice", options.tool_choice.is_some()),
            ("parallel_tool_calls", options.parallel_tool_calls.is_some()),
            ("stop", options.stop.is_some()),
            ("seed", options.seed.is_some()),
            ("service_tier", options.service_tier.is_some()),
            ("response_format", options.response_format.is_some() && self != Self::Anthropic || is_object),
            ("routing", options.routing.is_some()),
            ("cache", options.cache.is_some()),
            ("extra_body", options.extra_body.is_some()),
        ];
        let lacking: &[&str] = match self {
            Self::OpenAi | Self::OpenAiChat => &["reasoning.budget_tokens", "cache"],
            Self::Responses => &["reasoning.budget_tokens", "stop", "seed", "cache"],
            Self::Anthropic => &["seed", "response_format", "routing"],
            Self::Ollama => &[
                "reasoning.budget_tokens",
                "tool_choice",
                "parallel_tool_calls",
                "service_tier",
                "routing",
                "cache",
            ],
            Self::Gemini => &["parallel_tool_calls", "routing", "cache"],
        };
        set.into_iter().filter(|(key, is_set)| *is_set && lacking.contains(key)).map(|(key, _)| key).collect()
    }
}

impl ModelConfig {
    fn abilities(&self) -> Abilities {
        Abilities {
            efforts: self.efforts.clone(),
            thinking_budget: self.thinking_budget,
            sampling: self.sampling,
            tools: self.tools,
            images: self.images,
        }
    }
}

impl ProviderConfig {
    /// Returns the address that is asked: the one that is configured, else the usual one of its kind.
    pub fn address(&self) -> Option<&str> {
        let usual = match self.kind.unwrap_or(ProviderKind::OpenAi) {
            ProviderKind::OpenAi | ProviderKind::OpenAiChat | ProviderKind::Responses => None,
            ProviderKind::Anthropic => Some("https://api.anthropic.com"),
            ProviderKind::Ollama => Some("http://localhost:11434"),
            ProviderKind::Gemini => Some("https://generativelanguage.googleapis.com/v1beta"),
        };
        self.base_url.as_deref().or(usual)
    }

    /// Returns the protocol that is spoken, never [`ProviderKind::OpenAi`], whose protocol depends on the
    /// address.
    pub fn protocol(&self) -> ProviderKind {
        match self.kind.unwrap_or(ProviderKind::OpenAi) {
            ProviderKind::OpenAi if self.address().is_some_and(is_openais) => ProviderKind::Responses,
            ProviderKind::OpenAi => ProviderKind::OpenAiChat,
            kind => kind,
        }
    }
}

/// Checks whether an address is OpenAI's own, in whichever region.
fn is_openais(address: &str) -> bool {
    let host = host(address);
    host == "api.openai.com" || host.ends_with(".api.openai.com")
}

/// Checks whether an address is that of a company which serves its own models there, and no others.
fn is_own_address(address: &str) -> bool {
    let own = ["api.anthropic.com", "generativelanguage.googleapis.com"];
    is_openais(address) || own.contains(&host(address).as_str())
}

fn host(address: &str) -> String {
    let rest = address.trim().split_once("://").map_or(address, |(_, rest)| rest);
    rest.split(['/', '?', '#', ':']).next().unwrap_or_default().to_ascii_lowercase()
}

impl Workflow {
    /// Merges a later layer, which can add to what this one says and loosen nothing of it: rules for calls
    /// hold in both layers, hooks of both are asked, and of limits the smaller counts.
    pub fn merge_bounded(&mut self, mut later: Self) {
        let has_rules = |agents: &Agents| agents.iter().any(|agent| agent.permissions.is_some());
        if later.permissions.is_some() || has_rules(&later.agents) {
            let rules = self.latest_rules();
            self.floor.hold_rules(rules);
        }
        if later.hooks.is_some() || later.agents.iter().any(|agent| agent.hooks.is_some()) {
            self.hold_hooks();
        }
        later.budget = match (later.budget, self.budget) {
            (Some(later), Some(earlier)) => Some(later.bounded_by(earlier)),
            (later, _) => later,
        };
        later.tool_settings.bound_limits(&self.tool_settings);
        later.agents.for_each(|agent| {
            if let Some(known) = self.agents.find(agent.id.as_str()) {
                agent.bound_limits(known);
            }
        });
        self.merge(later);
    }

    /// Marks all rules for calls as those of `layer`.
    pub fn mark_rules(&mut self, layer: RuleLayer) {
        if let Some(rules) = &mut self.permissions {
            rules.mark(layer);
        }
        self.agents.for_each(|agent| {
            if let Some(rules) = &mut agent.permissions {
                rules.mark(layer);
            }
        });
    }

    /// Takes out of `later` the prices that are lower than this layer knows them: costs would be counted
    /// by them, and limits on costs would not hold.
    pub fn bound_prices(&self, later: &mut Self) {
        for (id, model) in &mut later.models {
            let known = self.model_facts(id).ok().and_then(|known| known.price);
            model.price = model.price.filter(|price| known.is_none_or(|known| price.is_at_least(&known)));
        }
    }

    /// Returns the rules for the calls of `agent`, of every layer.
    pub fn rules(&self, agent: &Agent) -> Rules {
        let of_all = self.permissions.clone().unwrap_or_default();
        let latest = match &agent.permissions {
            Some(own) => of_all.then(own),
            None => of_all,
        };
        self.floor.rules(&agent.id, latest)
    }

    fn latest_rules(&self) -> LayerRules {
        let own = |agent: &Agent| Some((agent.id.clone(), agent.permissions.clone()?));
        LayerRules {
            of_all: self.permissions.clone(),
            of_agents: self.agents.iter().filter_map(own).collect(),
        }
    }

    /// Moves the hooks to those that are held, which are asked after all others.
    fn hold_hooks(&mut self) {
        if let Some(hooks) = self.hooks.take() {
            self.floor.hold_hooks(None, hooks);
        }
        let floor = &mut self.floor;
        self.agents.for_each(|agent| {
            if let Some(hooks) = agent.hooks.take() {
                floor.hold_hooks(Some(agent.id.clone()), hooks);
            }
        });
    }

    /// The model that `id` means. A prefix `provider:` counts where such a provider is declared; else the
    /// default provider, the model's own entry, the only provider declared, or the one named `openai`.
    ///
    /// # Errors
    /// [`ModelError`] if that leads to no declared provider, or to one that does not serve it.
    pub fn model(&self, id: &ModelId) -> Result<Model, ModelError> {
        let model = self.model_facts(id)?;
        self.check_reach(id, &model.reference)?;
        Ok(model)
    }

    /// Returns what is known of the model that `id` means, whether or not it can be reached.
    ///
    /// # Errors
    /// [`ModelError`] if that leads to no declared provider.
    pub fn model_facts(&self, id: &ModelId) -> Result<Model, ModelError> {
        let reference = self.reference(id)?;
        let known = self.known_model(id, &reference);
        let window = known.and_then(|model| model.window);
        let is_theirs = |model: &&ModelConfig| {
            model.provider.as_ref().is_none_or(|provider| *provider == reference.provider)
        };
        Ok(Model {
            limits: ModelLimits {
                window: window.unwrap_or(ASSUMED_WINDOW),
                max_output: known.and_then(|model| model.max_output),
            },
            window_source: if window.is_some() { WindowSource::Configured } else { WindowSource::Assumed },
            // The same model has the same window with everyone who serves it, but not the same price.
            price: known.filter(is_theirs).and_then(|model| model.price),
            abilities: known.map(ModelConfig::abilities).unwrap_or_default(),
            request: known.map(ModelConfig::request_options).unwrap_or_default(),
            reference,
        })
    }

    /// Checks that a known model is served where it would be asked, as far as that is known: at the own
    /// address of a provider.
    fn check_reach(&self, id: &ModelId, reference: &ModelRef) -> Result<(), ModelError> {
        let Some(known) = self.known_model(id, reference) else { return self.check_guess(id, reference) };
        let Some(provider) = self.providers.get(&reference.provider) else { return Ok(()) };
        let served = known.protocols.as_deref().unwrap_or_default();
        if served.is_empty() || !provider.address().is_some_and(is_own_address) {
            return Ok(());
        }
        let is_guessed = *id == reference.model && self.default_provider.is_none();
        match &known.provider {
            None if is_guessed => {
                Err(ModelError::NotServed { model: id.clone(), provider: reference.provider.clone() })
            }
            Some(own) if *own == reference.provider && !served.contains(&provider.protocol()) => {
                Err(ModelError::Unreachable {
                    model: reference.clone(),
                    spoken: provider.protocol(),
                    served: served.to_vec(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Checks that an unknown name, whose provider is only assumed, is no short name of a model that another
    /// provider serves.
    fn check_guess(&self, id: &ModelId, reference: &ModelRef) -> Result<(), ModelError> {
        let address = self.providers.get(&reference.provider).and_then(ProviderConfig::address);
        let is_guessed = *id == reference.model && self.default_provider.is_none();
        if !is_guessed || !address.is_some_and(is_own_address) {
            return Ok(());
        }
        let short = id.as_str().rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        let part = format!("-{short}-");
        let is_theirs = |model: &ModelConfig| {
            let theirs = model.provider.as_ref().filter(|provider| **provider != reference.provider);
            theirs.is_some_and(|provider| self.providers.contains_key(provider))
        };
        let mut newest_first = self.models.iter().rev();
        let meant =
            newest_first.find(|(name, model)| is_theirs(model) && format!("-{name}-").contains(&part));
        meant.map_or(Ok(()), |(meant, _)| {
            let provider = reference.provider.clone();
            Err(ModelError::ShortName { model: id.clone(), provider, meant: meant.clone() })
        })
    }

    /// Returns the configuration of a model, by the name in use or, for a dated snapshot, by that of its
    /// model.
    fn known_model(&self, id: &ModelId, reference: &ModelRef) -> Option<&ModelConfig> {
        let full = reference.to_string();
        let names = [id.as_str(), &full, reference.model.as_str()];
        let exact = names.into_iter().find_map(|name| self.models.get(name));
        exact.or_else(|| names.into_iter().find_map(|name| self.models.get(without_date(name)?)))
    }

    fn reference(&self, id: &ModelId) -> Result<ModelRef, ModelError> {
        if let Some((prefix, name)) = id.as_str().split_once(':')
            && let Some((provider, _)) = self.providers.get_key_value(prefix)
            && let Ok(model) = ModelId::new(name)
        {
            return Ok(ModelRef { provider: provider.clone(), model });
        }
        let named = self.models.get(id).and_then(|model| model.provider.as_ref());
        let only = match self.providers.len() {
            1 => self.providers.keys().next(),
            _ => None,
        };
        let usual = self.providers.get_key_value(USUAL_PROVIDER).map(|(id, _)| id);
        // A prefix that is not a provider's name is more likely a slip than a part of the model's name.
        let usual = usual.filter(|_| !id.as_str().contains(':'));
        let provider = self.default_provider.as_ref().or(named).or(only).or(usual);
        let Some(provider) = provider.cloned() else {
            return Err(ModelError::NoProvider { model: id.clone(), providers: self.provider_names() });
        };
        if !self.providers.contains_key(&provider) {
            let providers = self.provider_names();
            return Err(ModelError::UndeclaredProvider { model: id.clone(), provider, providers });
        }
        Ok(ModelRef { provider, model: id.clone() })
    }

    /// Returns the declared providers, separated by commas, for messages to people.
    pub fn provider_names(&self) -> String {
        match self.providers.is_empty() {
            true => "(none)".to_owned(),
            false => self.providers.keys().map(ProviderId::as_str).collect::<Vec<_>>().join(", "),
        }
    }
}

/// The provider of a model without any: most servers speak this protocol.
const USUAL_PROVIDER: &str = "openai";

/// Returns the name of a snapshot without its date: `-2024-08-06` or `-20250929` at its end.
fn without_date(name: &str) -> Option<&str> {
    ["-9999-99-99", "-99999999"].into_iter().find_map(|form| {
        let (model, date) = name.split_at_checked(name.len().checked_sub(form.len())?)?;
        let mut places = date.bytes().zip(form.bytes());
        let is_date = places.all(|(is, like)| if like == b'9' { is.is_ascii_digit() } else { is == like });
        (is_date && !model.is_empty()).then_some(model)
    })
}

fn is_unset(policy: &CheckpointPolicy) -> bool {
    *policy == CheckpointPolicy::default()
}

/// Adds the later map's entries; entries of the same key are merged.
fn by_key<K: Ord, V: Merge>(base: &mut BTreeMap<K, V>, later: BTreeMap<K, V>) {
    for (key, value) in later {
        match base.get_mut(&key) {
            Some(known) => known.merge(value),
            None => drop(base.insert(key, value)),
        }
    }
}

/// Adds the later map's entries; the later one of the same key wins.
fn overwrite_keys<K: Ord, V>(base: &mut BTreeMap<K, V>, later: BTreeMap<K, V>) {
    base.extend(later);
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::ModelInfo;

    #[test]
    fn a_model_leads_to_its_provider() {
        let several = "{ providers: { openai: {}, local: {}, far: {} }, models: { known: { provider: far, window: 9 } } }";
        let only = "{ providers: { local: {} } }";
        let none = "{ providers: { local: {}, far: {} } }";
        for (yaml, default, id, expected) in [
            (several, None, "local:m", Some("local:m")),
            (several, None, "local:a/b:free", Some("local:a/b:free")),
            (several, None, "other:m", None),
            (several, None, "known", Some("far:known")),
            (several, None, "unknown", Some("openai:unknown")),
            (several, Some("local"), "known", Some("local:known")),
            (several, Some("nobody"), "known", None),
            (only, None, "m", Some("local:m")),
            (none, None, "m", None),
        ] {
            let mut workflow: Workflow = serde_saphyr::from_str(yaml).unwrap();
            workflow.default_provider = default.map(|name| ProviderId::new(name).unwrap());
            let actual =
                workflow.model(&ModelId::new(id).unwrap()).ok().map(|model| model.reference.to_string());
            assert_eq!(actual.as_deref(), expected, "{yaml} {default:?} {id}");
        }
    }

    #[test]
    fn a_model_that_cannot_be_reached_is_refused_at_the_own_address_of_its_provider() {
        let workflow = |base_url: &str, kind: &str| -> Workflow {
            serde_saphyr::from_str(&format!(
                "{{ providers: {{ openai: {{ base_url: '{base_url}', kind: {kind} }}, xai: {{}} }}, models: {{ \
                 codex: {{ provider: openai, protocols: [responses] }}, old: {{ provider: openai, protocols: [] }}, \
                 grok: {{ protocols: [openai-chat] }}, big-mind-1: {{ provider: xai }}, big-mind-2: {{ provider: \
                 xai }}, 'xai:mine': {{ protocols: [openai-chat] }} }} }}"
            ))
            .unwrap()
        };
        let (own, gateway) = ("https://api.openai.com/v1", "http://127.0.0.1:1/v1");
        for (base_url, kind, id, expected) in [
            (own, "openai", "codex", None),
            (own, "openai", "openai:codex", None),
            (own, "openai", "old", None),
            (own, "openai", "unknown", None),
            (own, "openai", "xai:grok", None),
            (own, "openai", "xai:mine", None),
            (
                own,
                "openai-chat",
                "openai:codex",
                Some(
                    "the model `openai:codex` cannot be reached by `openai-chat`: its provider serves it by \
                     `responses` only; set `providers: { openai: { kind: responses } }`",
                ),
            ),
            (
                own,
                "openai",
                "grok",
                Some(
                    "the model `grok` is not served by `openai`: write `PROVIDER:grok`, or `models: { grok: \
                     { provider: NAME } }`, with a provider that serves it",
                ),
            ),
            (
                own,
                "openai",
                "mind",
                Some(
                    "`mind` is no known model, and would be asked of `openai`: did you mean `big-mind-2`? \
                     `openai:mind` asks `openai` in any case",
                ),
            ),
            (own, "openai", "openai:mind", None),
            (own, "openai", "min", None),
            (gateway, "openai", "mind", None),
            (gateway, "openai", "grok", None),
            (gateway, "openai", "codex", None),
        ] {
            let actual = workflow(base_url, kind).model(&ModelId::new(id).unwrap());
            let actual = actual.err().map(|error| error.to_string());
            assert_eq!(actual.as_deref(), expected, "{base_url} {kind} {id}");
        }
    }

    #[test]
    fn a_snapshot_is_known_by_the_name_of_its_model() {
        for (name, expected) in [
            ("gpt-4o-2024-08-06", Some("gpt-4o")),
            ("claude-sonnet-4-5-20250929", Some("claude-sonnet-4-5")),
            ("gpt-4o", None),
            ("gpt-4-0613", None),
            ("-20250929", None),
            ("mö-2024-08-0ü", None),
        ] {
            assert_eq!(without_date(name), expected, "{name}");
        }
    }

    #[test]
    fn a_price_is_that_of_who_serves_the_model() {
        let price = "price: { input: 2.5, output: 10 }";
        let yaml = format!(
            "{{ providers: {{ p: {{}}, q: {{}} }}, models: {{ m: {{ provider: p, window: 9, {price} }}, \
             anyones: {{ {price} }}, 'q:own': {{ {price} }} }} }}"
        );
        let workflow: Workflow = serde_saphyr::from_str(&yaml).unwrap();
        for (id, window, has_price) in [
            ("m", 9, true),
            ("p:m", 9, true),
            ("p:m-2026-01-31", 9, true),
            ("q:m", 9, false),
            ("q:anyones", 128_000, true),
            ("p:anyones", 128_000, true),
            ("q:own", 128_000, true),
            ("p:own", 128_000, false),
        ] {
            let model = workflow.model(&ModelId::new(id).unwrap()).unwrap();
            assert_eq!((model.limits.window.as_u64(), model.price.is_some()), (window, has_price), "{id}");
        }
    }

    #[test]
    fn what_the_server_tells_fills_what_nobody_said() {
        let yaml = "{ providers: { p: {} }, models: { known: { window: 9, max_output: 3 } } }";
        let workflow: Workflow = serde_saphyr::from_str(yaml).unwrap();
        let told = |window: Option<u64>| ModelInfo {
            window: window.map(Tokens::new),
            max_output: Some(Tokens::new(5)),
            ..ModelInfo::new(ModelId::new("m").unwrap())
        };
        for (id, told, expected) in [
            ("known", told(Some(7)), (9, 3, WindowSource::Configured)),
            ("other", told(Some(7)), (7, 5, WindowSource::Told)),
            ("other", told(None), (128_000, 5, WindowSource::Assumed)),
        ] {
            let model = workflow.model(&ModelId::new(id).unwrap()).unwrap().informed_by(&told);
            let max_output = model.limits.max_output.map_or(0, Tokens::as_u64);
            let actual = (model.limits.window.as_u64(), max_output, model.window_source);
            assert_eq!(actual, expected, "{id}");
        }
    }

    #[test]
    fn an_unknown_window_is_assumed() {
        let yaml = "{ providers: { p: {} }, models: { known: { window: 9 }, 'p:full': { window: 7 } } }";
        let workflow: Workflow = serde_saphyr::from_str(yaml).unwrap();
        for (id, expected) in [
            ("known", (9, WindowSource::Configured)),
            ("p:known", (9, WindowSource::Configured)),
            ("full", (7, WindowSource::Configured)),
            ("other", (128_000, WindowSource::Assumed)),
        ] {
            let model = workflow.model(&ModelId::new(id).unwrap()).unwrap();
            assert_eq!((model.limits.window.as_u64(), model.window_source), expected, "{id}");
        }
    }
}
