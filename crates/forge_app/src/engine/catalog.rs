//! What servers tell of models of which the workflow knows too little: asked once, and used by runs and summaries.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use forge_domain::{Model, ModelError, ModelId, ModelInfo, WindowSource};

use crate::Services;

/// What servers told, by `provider:model`; nothing where a server did not tell.
#[derive(Default)]
pub(super) struct Catalog(Mutex<BTreeMap<String, Option<ModelInfo>>>);

/// What must be known of a model before it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needed {
    /// Its window.
    Window,
    /// Its window and what it costs.
    WindowAndPrice,
}

impl Catalog {
    /// Asks the server of the model `id` where what is needed is not known. A server that does not tell is no obstacle.
    pub(super) async fn learn(&self, services: &Services, id: &ModelId, needed: Needed) {
        let Ok(model) = services.workflow.model(id) else { return };
        let has_price = needed == Needed::Window || model.price.is_some();
        let name = model.reference.to_string();
        if (has_price && model.window_source != WindowSource::Assumed) || self.told().contains_key(&name) {
            return;
        }
        let told = services.providers.model_info(&model.reference).await;
        let told =
            told.inspect_err(|error| tracing::debug!(model = name, %error, "the server does not tell"));
        self.told().insert(name, told.ok().flatten());
    }

    /// The model that `id` means, with what its server told.
    pub(super) fn model(&self, services: &Services, id: &ModelId) -> Result<Model, ModelError> {
        let model = services.workflow.model(id)?;
        match self.told().get(&model.reference.to_string()) {
            Some(Some(told)) => Ok(model.informed_by(told)),
            _ => Ok(model),
        }
    }

    fn told(&self) -> MutexGuard<'_, BTreeMap<String, Option<ModelInfo>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
