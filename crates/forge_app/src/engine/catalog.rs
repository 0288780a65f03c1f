//! The models, with what servers report about those that the workflow knows too little of. A server is asked
//! once.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use forge_domain::{Agent, Model, ModelError, ModelId, ModelInfo, ProviderId, ProviderKind, WindowSource};

use super::{Engine, Events};
use crate::{RunError, RunEvent, Services};

/// The reports of servers, by `provider:model`.
#[derive(Default)]
pub(crate) struct Catalog(Mutex<BTreeMap<String, Report>>);

/// The report of a server on a model.
enum Report {
    /// It described the model.
    Told(ModelInfo),
    /// It listed its models, and this one is not among them.
    Unlisted,
    /// It did not answer.
    Silent,
}

/// The facts about a model that must be known before it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needed {
    /// Its window.
    Window,
    /// Its window and its price.
    WindowAndPrice,
}

impl Catalog {
    /// Learns what is not known of the models that `agent` asks.
    ///
    /// # Errors
    /// [`RunError::Unpriced`] if a budget in money applies and the price of one of them is unknown.
    pub(crate) async fn learn_models(
        &self,
        services: &Services,
        agent: &Agent,
        events: &Events,
    ) -> Result<(), RunError> {
        let budgets = [agent.budget, services.workflow.budget];
        let has_money_budget = budgets.into_iter().flatten().any(|budget| budget.cost.is_some());
        let needed = if has_money_budget { Needed::WindowAndPrice } else { Needed::Window };
        let summarizer = agent.compact.as_ref().and_then(|compact| compact.model.as_ref());
        for id in agent.model.iter().chain(summarizer) {
            self.learn(services, id, needed, events).await;
            if let Ok(model) = self.model(services, id)
                && needed == Needed::WindowAndPrice
                && model.price.is_none()
            {
                let agent = agent.id.to_string();
                return Err(RunError::Unpriced { agent, model: model.reference.to_string() });
            }
        }
        Ok(())
    }

    /// Asks the server of the model `id` if a needed fact is unknown. A server that does not answer is
    /// ignored.
    async fn learn(&self, services: &Services, id: &ModelId, needed: Needed, events: &Events) {
        let Ok(model) = services.workflow.model(id) else { return };
        let has_price = needed == Needed::Window || model.price.is_some();
        let has_window = model.window_source != WindowSource::Assumed;
        let name = model.reference.to_string();
        if (has_price && has_window) || self.reports().contains_key(&name) {
            return;
        }
        events.emit(&RunEvent::Learning { model: &name });
        let report = match services.providers.model_info(&model.reference).await {
            Ok(Some(info)) => {
                recommend_kind(events, &model.reference.provider, info.better_kind);
                Report::Told(info)
            }
            Ok(None) => Report::Unlisted,
            Err(error) => {
                tracing::debug!(model = name, %error, "the server does not report it");
                Report::Silent
            }
        };
        self.reports().insert(name, report);
    }

    /// Checks whether the model's server listed its models without this one.
    pub(crate) fn is_unlisted(&self, model: &Model) -> bool {
        matches!(self.reports().get(&model.reference.to_string()), Some(Report::Unlisted))
    }

    /// Returns the model named `id`, with what its server reported.
    pub(crate) fn model(&self, services: &Services, id: &ModelId) -> Result<Model, ModelError> {
        let model = services.workflow.model(id)?;
        match self.reports().get(&model.reference.to_string()) {
            Some(Report::Told(info)) => Ok(model.informed_by(info)),
            _ => Ok(model),
        }
    }

    fn reports(&self) -> MutexGuard<'_, BTreeMap<String, Report>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the user, once for each provider, that its server is asked better in the protocol of `kind`.
fn recommend_kind(events: &Events, provider: &ProviderId, kind: Option<ProviderKind>) {
    if let Some(kind) = kind {
        events.notice_once(&format!(
            "the server of `{provider}` silently drops what exceeds its window; with `providers: {{ {provider}: \
             {{ kind: {kind} }} }}` in forge.yaml Forge sets the window"
        ));
    }
}

/// Returns the model of the agent named `id`, with what its server reports if too little is known of it;
/// `None` if it has none.
pub async fn known_model(engine: &Engine, id: &str) -> Option<Model> {
    let Engine { catalog, services, events, .. } = engine;
    let model = services.workflow.agents.find(id)?.model.as_ref()?;
    catalog.learn(services, model, Needed::Window, events).await;
    catalog.model(services, model).ok()
}
