//! Whether an agent's models can be asked at all, before anything is sent or saved.

use forge_domain::{Agent, ModelId, ProviderError};
use forge_services::workflow::all_callees;

use super::Engine;
use crate::RunError;

impl Engine {
    /// Checks that the models of `agent`, and of the agents that it can call, can be asked: that their keys are there. For a
    /// summarizer that cannot be asked there is only a notice, since compactions work without one.
    ///
    /// # Errors
    /// [`RunError::Provider`] if a model cannot be asked.
    pub(crate) fn check_models(&self, agent: &Agent) -> Result<(), RunError> {
        for needed in all_callees(&self.services.workflow, agent).into_iter().chain([agent]) {
            if let Some(model) = &needed.model {
                self.check_model(model).map_err(RunError::Provider)?;
            }
        }
        let summarizer = agent.compact.as_ref().and_then(|compact| compact.model.as_ref());
        if let Some(Err(error)) = summarizer.map(|model| self.check_model(model)) {
            self.say_once(&format!(
                "{error}; until then the agent `{}` compacts without summaries",
                agent.id
            ));
        }
        Ok(())
    }

    fn check_model(&self, id: &ModelId) -> Result<(), ProviderError> {
        match self.services.workflow.model(id) {
            Ok(model) => self.services.providers.check(&model.reference.provider),
            // A name that leads nowhere is reported where the model is set up.
            Err(_) => Ok(()),
        }
    }
}
