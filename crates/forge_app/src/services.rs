//! The ports that a run needs, joined in one place.

use std::sync::Arc;

use forge_domain::compaction::CompactionServices;
use forge_domain::{
    Clock, Model, ModelError, ModelId, Person, ProviderService, SessionSink, TemplateService, TokenCounter,
    ToolService, Workflow,
};

/// The world as a run sees it.
#[derive(Clone)]
pub struct Services {
    /// Who and what there is.
    pub workflow: Arc<Workflow>,
    /// Asks models.
    pub providers: Arc<dyn ProviderService>,
    /// Renders what is said to models.
    pub templates: Arc<dyn TemplateService>,
    /// Counts tokens.
    pub counter: Arc<dyn TokenCounter>,
    /// Runs tools.
    pub tools: Arc<dyn ToolService>,
    /// The person it works for, where they can be asked.
    pub person: Arc<dyn Person>,
    /// Tells the time; messages carry none where it is `None`.
    pub clock: Option<Arc<dyn Clock>>,
    /// Keeps the session while it goes on.
    pub sink: Option<Arc<dyn SessionSink>>,
}

impl CompactionServices for Services {
    fn templates(&self) -> &dyn TemplateService {
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
