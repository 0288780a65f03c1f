//! The ports that a run needs, joined in one place.

use std::sync::Arc;

use forge_domain::compaction::CompactionServices;
use forge_domain::{
    Agent, Clock, Model, ModelError, ModelId, Person, ProviderError, ProviderService, SessionSink,
    SummaryTemplate, TemplateService, TokenCounter, ToolService, Workflow,
};

use crate::RunError;

/// The ports of a run.
#[derive(Clone)]
pub struct Services {
    /// The agents, models and settings.
    pub workflow: Arc<Workflow>,
    /// Asks models.
    pub providers: Arc<dyn ProviderService>,
    /// Renders the texts for models.
    pub templates: Arc<dyn TemplateService>,
    /// Counts tokens.
    pub counter: Arc<dyn TokenCounter>,
    /// Runs tools.
    pub tools: Arc<dyn ToolService>,
    /// The user, if they can be asked.
    pub person: Arc<dyn Person>,
    /// Tells the time. Without it, messages have none.
    pub clock: Option<Arc<dyn Clock>>,
    /// Saves the session after each step.
    pub sink: Option<Arc<dyn SessionSink>>,
}

impl Services {
    /// Checks that the model `id` can be asked: that its provider has a key.
    pub(crate) fn check_model(&self, id: &ModelId) -> Result<(), ProviderError> {
        match self.workflow.model(id) {
            Ok(model) => self.providers.check(&model.reference.provider),
            // A name without a provider is reported when the model is set up.
            Err(_) => Ok(()),
        }
    }

    /// Checks that the model of `agent` reads images, as far as that is known.
    ///
    /// # Errors
    /// [`RunError::NoImages`].
    pub(crate) fn check_images(&self, agent: &Agent) -> Result<(), RunError> {
        let model = agent.model.as_ref().and_then(|id| self.workflow.model(id).ok());
        match model.filter(|model| model.abilities.images == Some(false)) {
            None => Ok(()),
            Some(model) => {
                Err(RunError::NoImages { agent: agent.id.to_string(), model: model.reference.to_string() })
            }
        }
    }
}

impl CompactionServices for Services {
    fn templates(&self) -> &dyn SummaryTemplate {
        &*self.templates
    }

    fn providers(&self) -> &dyn ProviderService {
        &*self.providers
    }

    fn counter(&self) -> &dyn TokenCounter {
        &*self.counter
    }

    fn model(&self, id: &ModelId) -> Result<Model, ModelError> {
        self.workflow.model(id)
    }
}
