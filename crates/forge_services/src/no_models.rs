//! The services of a compaction that asks no model.

use std::collections::BTreeMap;
use std::sync::Arc;

use forge_domain::compaction::CompactionServices;
use forge_domain::{Model, ModelError, ModelId, ProviderService, SummaryTemplate, TokenCounter, Workflow};

use crate::{HandlebarsTemplates, ProviderRegistry};

/// The services of strategies if there is no model that they could ask: those that ask none only count.
pub struct NoModels {
    counter: Arc<dyn TokenCounter>,
    templates: HandlebarsTemplates,
    providers: ProviderRegistry,
}

impl NoModels {
    /// Creates services that count tokens by `counter`.
    pub fn new(counter: Arc<dyn TokenCounter>) -> Self {
        Self {
            counter,
            templates: HandlebarsTemplates::new(BTreeMap::new()),
            providers: ProviderRegistry::new(BTreeMap::new()),
        }
    }
}

impl CompactionServices for NoModels {
    fn templates(&self) -> &dyn SummaryTemplate {
        &self.templates
    }

    fn providers(&self) -> &dyn ProviderService {
        &self.providers
    }

    fn counter(&self) -> &dyn TokenCounter {
        &*self.counter
    }

    fn model(&self, id: &ModelId) -> Result<Model, ModelError> {
        Workflow::default().model(id)
    }
}
