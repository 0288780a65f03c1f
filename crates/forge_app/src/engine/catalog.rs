//! The models, with what servers report about those that the workflow knows too little of. A server is asked
//! once, and once more after its first reply if it could not tell before.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use forge_domain::{
    Agent, Model, ModelError, ModelId, ModelInfo, ModelRef, ProviderError, ProviderId, ProviderKind,
    WindowSource,
};

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
    /// It did not answer yet: it could not be reached, or was not ready.
    NotReady,
}

impl Report {
    /// Returns the report of the server of `model`.
    async fn of(services: &Services, model: &ModelRef, events: &Events) -> Self {
        match services.providers.model_info(model).await {
            Ok(Some(info)) => {
                recommend_kind(events, &model.provider, info.better_kind);
                Self::Told(info)
            }
            Ok(None) => Self::Unlisted,
            Err(error) => {
                tracing::debug!(%model, %error, "the server does not report it");
                match error {
                    ProviderError::Network { .. }
                    | ProviderError::Interrupted { .. }
                    | ProviderError::Overloaded { .. } => Self::NotReady,
                    _ => Self::Silent,
                }
            }
        }
    }

    /// Checks whether the server may tell more once it has answered.
    const fn is_early(&self) -> bool {
        match self {
            Self::Told(info) => info.is_window_due && info.window.is_none(),
            Self::NotReady => true,
            Self::Unlisted | Self::Silent => false,
        }
    }

    /// Returns the report as the last one: the server is not asked again.
    fn into_last(self) -> Self {
        match self {
            Self::Told(info) => Self::Told(ModelInfo { is_window_due: false, ..info }),
            Self::NotReady => Self::Silent,
            Self::Unlisted | Self::Silent => self,
        }
    }
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
        let report = Report::of(services, &model.reference, events).await;
        self.reports().insert(name, report);
    }

    /// Asks the server of `model`, which has answered, once more if it could not tell its window before.
    /// Returns whether there is anything new.
    pub(crate) async fn learn_late(&self, services: &Services, model: &ModelRef, events: &Events) -> bool {
        if !self.is_early(model) {
            // Another agent may have asked since.
            return self.has_window(model);
        }
        let report = Report::of(services, model, events).await.into_last();
        self.reports().insert(model.to_string(), report);
        true
    }

    /// Checks whether the model's server may tell its window after the first reply.
    pub(super) fn is_early(&self, model: &ModelRef) -> bool {
        self.reports().get(&model.to_string()).is_some_and(Report::is_early)
    }

    /// Checks whether the model's server told its window.
    fn has_window(&self, model: &ModelRef) -> bool {
        let reports = self.reports();
        match reports.get(&model.to_string()) {
            Some(Report::Told(info)) => info.window.is_some(),
            _ => false,
        }
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

#[cfg(test)]
mod tests {
    use forge_domain::Tokens;
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_server_that_could_not_tell_is_asked_once_more() {
        let told = |window: Option<u64>, is_window_due: bool| {
            let model = ModelInfo::new(ModelId::new("m").unwrap());
            Report::Told(ModelInfo { window: window.map(Tokens::new), is_window_due, ..model })
        };
        for (what, report, expected) in [
            ("the model is not loaded yet", told(None, true), true),
            ("it is loaded", told(Some(4_096), true), false),
            ("it never tells", told(None, false), false),
            ("it was starting", Report::NotReady, true),
            ("the model is not listed", Report::Unlisted, false),
            ("it has no list", Report::Silent, false),
        ] {
            assert_eq!(report.is_early(), expected, "{what}");
            assert!(!report.into_last().is_early(), "{what}");
        }
    }
}
