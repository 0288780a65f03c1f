//! Checks of the keys, servers, models and prices of a workflow, each with advice.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use forge_domain::{
    Model, ModelId, ModelInfo, Pause, ProviderError, ProviderId, WindowSource, Workflow, quantity,
};
use futures::future::{Either, join_all, select};
use serde::Serialize;

use crate::Services;
use crate::window_setting::window_setting;

/// The longest wait for an answer. A run waits longer, but who asks what is wrong wants to know it soon.
const PATIENCE: Duration = Duration::from_secs(10);

/// A state of something that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// As it should be.
    Good,
    /// Runs work without it.
    Note,
    /// Runs work, but not as well as they could.
    Warning,
    /// Some run cannot work.
    Fault,
}

/// A check of one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The thing that was checked, such as `provider openai`.
    pub about: String,
    /// Its state.
    pub health: Health,
    /// The finding.
    pub found: String,
    /// The advice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Check {
    /// Creates a check of something that is in order.
    pub fn well(about: impl Into<String>, found: impl Into<String>) -> Self {
        Self { about: about.into(), health: Health::Good, found: found.into(), advice: None }
    }

    /// Sets another state, with advice.
    #[must_use]
    pub fn but(self, health: Health, advice: impl Into<String>) -> Self {
        Self { health, advice: Some(advice.into()), ..self }
    }
}

/// The credentials of a provider in the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// It needs none.
    NotAsked,
    /// All are there: the names of the variables, not their values.
    Present(Vec<String>),
    /// These variables are not set.
    Missing(Vec<String>),
}

/// Checks the providers and models of a workflow, and asks the servers that its agents use, all at once.
/// Without agents, it asks all servers whose credentials are there. `pause` measures the ten seconds within
/// which a server has to answer.
pub async fn diagnose(
    services: &Services,
    credentials: &BTreeMap<ProviderId, Credentials>,
    pause: &dyn Pause,
) -> Vec<Check> {
    let workflow = &*services.workflow;
    let models = models_in_use(workflow);
    let used: BTreeSet<&ProviderId> = models.iter().map(|(_, model)| &model.reference.provider).collect();
    let (is_used, has_no_models) = (&|id: &ProviderId| used.contains(id), models.is_empty());
    let asked = join_all(workflow.providers.keys().map(|id| async move {
        let known = credentials.get(id).cloned().unwrap_or(Credentials::NotAsked);
        let is_asked = !matches!(known, Credentials::Missing(_)) && (is_used(id) || has_no_models);
        let told = if is_asked {
            let told = within(pause, services.providers.models(id)).await;
            Some(told.unwrap_or_else(|| Err(no_answer())))
        } else {
            None
        };
        (id, known, told)
    }))
    .await;
    let mut checks = Vec::new();
    let mut lists = BTreeMap::new();
    for (id, known, told) in asked {
        checks.push(provider_check(id, &known, told.as_ref(), is_used(id)));
        if let Some(Ok(list)) = told {
            lists.insert(id, list);
        }
    }
    let told = join_all(models.iter().map(|(_, model)| {
        let is_listed = lists.contains_key(&model.reference.provider);
        async move { if is_listed { info_of(services, model, pause).await } else { None } }
    }));
    for ((id, model), told) in models.iter().zip(told.await) {
        let list = lists.get(&model.reference.provider);
        checks.extend(model_checks(workflow, id, model, list.map(Vec::as_slice), told.as_ref()));
    }
    checks
}

/// Returns what the server tells of `model`, if it does within the time.
async fn info_of(services: &Services, model: &Model, pause: &dyn Pause) -> Option<ModelInfo> {
    within(pause, services.providers.model_info(&model.reference)).await?.ok().flatten()
}

/// Returns the outcome of `work`; `None` if it takes too long.
async fn within<T>(pause: &dyn Pause, work: impl Future<Output = T>) -> Option<T> {
    let work = pin!(work);
    match select(work, pause.pause(PATIENCE)).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(_) => None,
    }
}

fn no_answer() -> ProviderError {
    ProviderError::Unusable { what: format!("it did not answer within {} s", PATIENCE.as_secs()) }
}

/// Returns the models that agents and their summaries ask, each once.
pub(crate) fn models_in_use(workflow: &Workflow) -> Vec<(ModelId, Model)> {
    let ids = workflow.agents.iter().flat_map(|agent| {
        let summarizer = agent.compact.as_ref().and_then(|compact| compact.model.as_ref());
        agent.model.iter().chain(summarizer)
    });
    let ids: BTreeSet<&ModelId> = ids.collect();
    // One that leads nowhere is a finding of the configuration.
    ids.into_iter().filter_map(|id| Some((id.clone(), workflow.model(id).ok()?))).collect()
}

fn provider_check(
    id: &ProviderId,
    credentials: &Credentials,
    told: Option<&Result<Vec<ModelInfo>, ProviderError>>,
    is_used: bool,
) -> Check {
    let about = format!("provider {id}");
    let key = match credentials {
        Credentials::NotAsked => "no key is needed".to_owned(),
        Credentials::Present(names) => format!("{} is set", names.join(", ")),
        Credentials::Missing(names) => {
            let check = Check::well(about, format!("{} is not set", names.join(", ")));
            let advice = format!("export {}=...", names.join("=... "));
            return check.but(if is_used { Health::Fault } else { Health::Note }, advice);
        }
    };
    match told {
        None => Check { health: Health::Note, ..Check::well(about, format!("{key}; no agent uses it")) },
        Some(Ok(models)) => {
            Check::well(about, format!("{key}; it offers {}", quantity(models.len(), "model")))
        }
        Some(Err(error)) => {
            let cause =
                std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
            let health = match error {
                // A server need not list what it has.
                ProviderError::InvalidRequest { .. } | ProviderError::Malformed { .. } => Health::Warning,
                _ => Health::Fault,
            };
            let health = if is_used { health } else { Health::Note };
            Check::well(about, format!("{key}; {error}{cause}")).but(health, advice_on(id, error))
        }
    }
}

fn advice_on(id: &ProviderId, error: &ProviderError) -> String {
    match error {
        ProviderError::Network { .. } | ProviderError::Interrupted { .. } => {
            format!("start the server, or set `providers: {{ {id}: {{ base_url: ... }} }}` to its address")
        }
        ProviderError::Auth { .. } | ProviderError::MissingKey { .. } => {
            format!("get a new key, or name its variable in `providers: {{ {id}: {{ api_key_env: ... }} }}`")
        }
        ProviderError::RateLimited { .. } | ProviderError::Overloaded { .. } => "try again later".to_owned(),
        _ => format!("runs may still work; is `providers: {{ {id}: {{ base_url: ... }} }}` right?"),
    }
}

fn model_checks(
    workflow: &Workflow,
    id: &ModelId,
    model: &Model,
    list: Option<&[ModelInfo]>,
    told: Option<&ModelInfo>,
) -> Vec<Check> {
    let about = format!("model {}", model.reference);
    let mut checks = Vec::new();
    let latest = format!("{}:latest", model.reference.model);
    let is_offered = |info: &ModelInfo| info.id == model.reference.model || info.id.as_str() == latest;
    // A server with a single model answers as that one to any name.
    if let Some(list) = list.filter(|list| list.len() > 1 && !list.iter().any(is_offered)) {
        let found = format!("not among the {} that its provider offers", quantity(list.len(), "model"));
        let provider = &model.reference.provider;
        let advice = format!("`forge models --provider {provider}` lists them");
        checks.push(Check::well(&about, found).but(Health::Warning, advice));
    }
    let informed = told.map_or_else(|| model.clone(), |told| model.clone().informed_by(told));
    let window = informed.limits.window;
    let answer = informed.limits.max_output.map(|most| format!(", answers of at most {most}"));
    let answer = answer.unwrap_or_default();
    checks.push(match (informed.window_source, told.and_then(|told| told.window)) {
        (WindowSource::Assumed, _) => {
            Check::well(&about, format!("its window is unknown; {window} tokens are assumed"))
                .but(Health::Warning, format!("set `{}`", window_setting(id, None)))
        }
        (WindowSource::Configured, Some(theirs)) if theirs < window => Check::well(
            &about,
            format!("a window of {window} tokens is configured, but the server has {theirs}"),
        )
        .but(Health::Warning, format!("set `{}`", window_setting(id, Some(theirs)))),
        (WindowSource::Configured, _) => Check::well(&about, format!("a window of {window} tokens{answer}")),
        (WindowSource::Told, _) => {
            Check::well(&about, format!("a window of {window} tokens, as the server reports{answer}"))
        }
    });
    checks.push(price_check(workflow, &about, id, &informed));
    checks
}

fn price_check(workflow: &Workflow, about: &str, id: &ModelId, model: &Model) -> Check {
    let Some(price) = model.price else {
        let budgets = workflow.agents.iter().map(|agent| agent.budget).chain([workflow.budget]);
        let is_needed = budgets.flatten().any(|budget| budget.cost.is_some());
        let advice = format!("set `models: {{ '{id}': {{ price: {{ input: N, output: N }} }} }}`");
        let check = Check::well(about, "its price is unknown");
        return check.but(if is_needed { Health::Fault } else { Health::Note }, advice);
    };
    let cached = price.cache_read.map(|cached| format!(", {cached} where cached")).unwrap_or_default();
    let day = price.as_of.map(|day| format!(" (of {day})")).unwrap_or_default();
    let (input, output) = (price.input, price.output);
    let long = price.long_prompt.map(|long| {
        format!("; {} and {} in calls whose prompt is above {} tokens", long.input, long.output, long.above)
    });
    let long = long.unwrap_or_default();
    Check::well(about, format!("a million tokens cost {input}{cached}, answers {output}{long}{day}"))
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use async_trait::async_trait;
    use forge_domain::Tokens;
    use futures::FutureExt;
    use pretty_assertions::assert_eq;

    use super::*;

    fn id(name: &str) -> ProviderId {
        ProviderId::new(name).unwrap()
    }

    /// A clock for which all time has passed, or none.
    struct Passed(bool);

    #[async_trait]
    impl Pause for Passed {
        async fn pause(&self, _: Duration) {
            if !self.0 {
                pending::<()>().await;
            }
        }
    }

    #[test]
    fn a_silent_server_is_not_waited_for() {
        assert_eq!(within(&Passed(true), pending::<u8>()).now_or_never(), Some(None));
        assert_eq!(within(&Passed(false), ready(7)).now_or_never(), Some(Some(7)));
        let check = provider_check(&id("p"), &Credentials::NotAsked, Some(&Err(no_answer())), true);
        assert_eq!(check.health, Health::Fault);
        assert_eq!(check.found, "no key is needed; it did not answer within 10 s");
    }

    #[test]
    fn a_provider_is_as_well_as_those_who_use_it_need_it() {
        let missing = Credentials::Missing(vec!["KEY".to_owned()]);
        let refused = || Err(ProviderError::Auth { status: 401, message: "no".to_owned() });
        let no_list = || Err(ProviderError::InvalidRequest { status: 404, message: "no".to_owned() });
        for (credentials, told, is_used, health, found) in [
            (&missing, None, true, Health::Fault, "KEY is not set"),
            (&missing, None, false, Health::Note, "KEY is not set"),
            (&Credentials::NotAsked, None, false, Health::Note, "no agent uses it"),
            (&Credentials::NotAsked, Some(Ok(Vec::new())), true, Health::Good, "it offers 0 models"),
            (
                &Credentials::Present(vec!["KEY".to_owned()]),
                Some(refused()),
                true,
                Health::Fault,
                "KEY is set; the",
            ),
            (&Credentials::NotAsked, Some(refused()), false, Health::Note, "refused the key"),
            (&Credentials::NotAsked, Some(no_list()), true, Health::Warning, "status 404"),
        ] {
            let check = provider_check(&id("p"), credentials, told.as_ref(), is_used);
            assert_eq!((check.health, check.found.contains(found)), (health, true), "{check:?}");
        }
    }

    #[test]
    fn a_model_is_known_by_what_is_said_and_told_of_it() {
        let told = |window: Option<u64>| ModelInfo {
            window: window.map(Tokens::new),
            ..ModelInfo::new(ModelId::new("m").unwrap())
        };
        let priced = "models: { m: { window: 9000, price: { input: 1, output: 2 } } }";
        for (yaml, info, window, price) in [
            (priced, told(None), Health::Good, Health::Good),
            (priced, told(Some(8_000)), Health::Warning, Health::Good),
            ("models: { m: { window: 9000 } }", told(None), Health::Good, Health::Note),
            ("models: {}", told(Some(8_000)), Health::Good, Health::Note),
            ("models: {}", told(None), Health::Warning, Health::Note),
            (
                "{ models: { m: { window: 9000 } }, budget: { cost: 1 } }",
                told(None),
                Health::Good,
                Health::Fault,
            ),
        ] {
            let mut workflow: Workflow = serde_saphyr::from_str(yaml).unwrap();
            workflow.providers.insert(id("p"), forge_domain::ProviderConfig::default());
            let model = ModelId::new("p:m").unwrap();
            let resolved = workflow.model(&model).unwrap();
            let list = [info.clone()];
            let checks = model_checks(&workflow, &model, &resolved, Some(&list), Some(&info));
            let actual: Vec<_> = checks.iter().map(|check| check.health).collect();
            assert_eq!(actual, [window, price], "{yaml} {checks:?}");
        }
    }
}
