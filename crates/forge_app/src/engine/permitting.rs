//! Whether a call may be made: the rules first, then, where they say so, the person.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use forge_domain::{
    Agent, AgentId, CallScope, Consent, ConsentRequest, NobodyThere, Permission, Reach, Subject, ToolCall,
    ToolName, ToolResult, Verdict,
};

use super::Engine;

/// What the person has allowed for the rest of the run.
#[derive(Debug, Default)]
pub(super) struct Consents {
    given: Mutex<HashSet<(AgentId, ToolName, Vec<Subject>)>>,
    /// Held while a question is open.
    asking: futures::lock::Mutex<()>,
}

impl Engine {
    /// Returns the limits within which `call`, which reaches so far, may be made.
    ///
    /// # Errors
    /// What the model is told instead if it may not be made.
    pub(super) async fn permit(
        &self,
        agent: &Agent,
        call: &ToolCall,
        reach: &Reach,
    ) -> Result<CallScope, ToolResult> {
        let rules = self.services.workflow.rules(agent);
        let Verdict { permission, about } = rules.decide(&call.name, reach);
        let refused = match permission {
            Permission::Allow => None,
            Permission::Deny => Some("the permissions of this run forbid it".to_owned()),
            Permission::Ask => self.asked(agent, call, &about).await,
        };
        let Some(why) = refused else { return Ok(CallScope::of_layers(rules, permission)) };
        let what = about.iter().map(|subject| format!("`{subject}`")).collect::<Vec<_>>().join(", ");
        let of = if what.is_empty() { String::new() } else { format!(" for {what}") };
        Err(ToolResult::error(
            call,
            format!(
                "`{}` was not called{of}: {why}. Nothing was done. Do not look for another way; continue \
                 without it, or say what you need",
                call.name
            ),
        ))
    }

    /// Nothing where the person consents; else why not.
    async fn asked(&self, agent: &Agent, call: &ToolCall, about: &[Subject]) -> Option<String> {
        let key = (agent.id.clone(), call.name.clone(), about.to_vec());
        let has_consent =
            || self.consents.given.lock().unwrap_or_else(PoisonError::into_inner).contains(&key);
        if has_consent() {
            return None;
        }
        // Of calls that ask at once, the later need not, where the first was answered for all.
        let _one_at_a_time = self.consents.asking.lock().await;
        if has_consent() {
            return None;
        }
        match self.services.person.consent(&ConsentRequest { agent: &agent.id, call, about }).await {
            Ok(Consent::Once) => None,
            Ok(Consent::ForRun) => {
                self.consents.given.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
                None
            }
            Ok(Consent::Refused { why: Some(why) }) => Some(format!("the user does not want it: {why}")),
            Ok(Consent::Refused { why: None }) => Some("the user does not want it".to_owned()),
            Err(NobodyThere) => Some(
                "it needs the user's consent, and no one can answer here (the user may allow it with \
                 `permissions` in forge.yaml)"
                    .to_owned(),
            ),
        }
    }
}
