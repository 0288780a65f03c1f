//! The user's consents to tool calls.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use forge_domain::{AgentId, Consent, ConsentRequest, NobodyThere, Person, Subject, ToolName};

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
    /// Asks `person` for consent, unless it was given for the rest of the run. Returns why the call may not
    /// be made; `None` if it may.
    pub(crate) async fn refusal(&self, person: &dyn Person, request: &ConsentRequest<'_>) -> Option<String> {
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
                "it needs the user's consent, and no one can answer here (the user may allow it with `permissions` \
                 in forge.yaml)"
                    .to_owned(),
            ),
        }
    }

    fn given(&self) -> MutexGuard<'_, HashSet<CallKind>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
