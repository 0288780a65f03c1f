//! The user's consents to tool calls.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use forge_domain::{
    Agent, AgentId, CallScope, Consent, ConsentRequest, NobodyThere, Permission, Person, Reach, Subject,
    ToolCall, ToolName, ToolResult, Verdict,
};

use super::Engine;

/// A kind of call: its agent, its tool and what it is about.
type CallKind = (AgentId, ToolName, Vec<Subject>);

/// The calls that the user has allowed for the rest of the run.
#[derive(Debug, Default)]
pub(crate) struct Consents {
    given: Mutex<HashSet<CallKind>>,
    /// Held while a question is open.
    asking: futures::lock::Mutex<()>,
}

impl Consents {
    /// Asks `person` for consent, unless it was given for the rest of the run. Returns why the call may not be
    /// made; `None` if it may.
    async fn refusal(&self, person: &dyn Person, request: &ConsentRequest<'_>) -> Option<String> {
        let kind = (request.agent.clone(), request.call.name.clone(), request.about.to_vec());
        if self.given().contains(&kind) {
            return None;
        }
        // Of calls that ask at once, the later need not if the first was answered for all.
        let _one_at_a_time = self.asking.lock().await;
        if self.given().contains(&kind) {
            return None;
        }
        match person.consent(request).await {
            Ok(Consent::Once) => None,
            Ok(Consent::ForRun) => {
                self.given().insert(kind);
                None
            }
            Ok(Consent::Refused { why: Some(why) }) => Some(format!("the user does not want it: {why}")),
            Ok(Consent::Refused { why: None }) => Some("the user does not want it".to_owned()),
            Err(NobodyThere) => Some(
                "it needs the consent of a person, and nobody can answer here (who runs this may allow it by `permissions` \
                 in forge.yaml)"
                    .to_owned(),
            ),
        }
    }

    fn given(&self) -> MutexGuard<'_, HashSet<CallKind>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Returns the limits within which `call`, which reaches as far as `reach`, may be made: the rules decide,
    /// or the user if they say so.
    ///
    /// # Errors
    /// The result for the model if it may not be made.
    pub(crate) async fn permit(
        &self,
        agent: &Agent,
        call: &ToolCall,
        reach: &Reach,
    ) -> Result<CallScope, ToolResult> {
        let rules = self.services.workflow.rules(agent);
        let Verdict { permission, about } = rules.decide(&call.name, reach);
        let refusal = match permission {
            Permission::Allow => None,
            Permission::Deny => Some("the permissions of this run forbid it".to_owned()),
            Permission::Ask => {
                let request = ConsentRequest { agent: &agent.id, call, about: &about };
                self.consents.refusal(&*self.services.person, &request).await
            }
        };
        let Some(why) = refusal else { return Ok(CallScope::of_layers(rules, permission)) };
        let what = about.iter().map(|subject| format!("`{subject}`")).collect::<Vec<_>>().join(", ");
        let of = if what.is_empty() { String::new() } else { format!(" for {what}") };
        Err(ToolResult::error(
            call,
            format!(
                "`{}` was not called{of}: {why}. Nothing was done. Do not try to get there by another way; go on without it, or \
                 say what you would need",
                call.name
            ),
        ))
    }
}
