//! Whether a call may be made: the rules first, then, where they say so, the person.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use forge_domain::{
    ActionConsent, Agent, AgentId, CallScope, Consent, ConsentRequest, NobodyThere, Permission, Reach,
    Subject, ToolCall, ToolName, ToolResult, Verdict, secret_rule,
};

use super::Engine;

/// What the person has allowed for the rest of the run.
#[derive(Debug, Default)]
pub(super) struct Consents {
    given: Mutex<Given>,
    /// Held while a question is open.
    asking: futures::lock::Mutex<()>,
}

#[derive(Debug, Default)]
struct Given {
    calls: HashSet<(AgentId, ToolName, Vec<Subject>)>,
    /// The places whose secrets may be shown, whoever asks for them.
    secrets: HashSet<String>,
}

impl Given {
    /// Checks whether all that a call of `agent` is about was allowed.
    fn covers(&self, agent: &Agent, call: &ToolCall, about: &[Subject]) -> bool {
        let (secrets, others) = parted(about);
        let key = (agent.id.clone(), call.name.clone(), others);
        let is_about_secrets_alone = key.2.is_empty() && !secrets.is_empty();
        secrets.iter().all(|place| self.secrets.contains(place))
            && (is_about_secrets_alone || self.calls.contains(&key))
    }

    fn insert(&mut self, agent: &Agent, call: &ToolCall, about: &[Subject]) {
        let (secrets, others) = parted(about);
        if !others.is_empty() || secrets.is_empty() {
            self.calls.insert((agent.id.clone(), call.name.clone(), others));
        }
        self.secrets.extend(secrets);
    }
}

/// Returns the places of the secrets among the subjects, and the other subjects.
fn parted(about: &[Subject]) -> (Vec<String>, Vec<Subject>) {
    let (mut places, mut others) = (Vec::new(), Vec::new());
    for subject in about {
        match subject {
            Subject::Secret { place, .. } => places.push(place.clone()),
            other => others.push(other.clone()),
        }
    }
    (places, others)
}

/// The permission to make a call.
pub(super) struct Permit {
    /// The limits within which it may be made.
    pub(super) scope: CallScope,
    /// The consent to it.
    pub(super) consent: ActionConsent,
    /// The secrets that it may show by consent.
    pub(super) shown: Vec<Subject>,
    /// The consent to show these.
    pub(super) secret_consent: ActionConsent,
}

impl Engine {
    /// Returns the permission to make `call`, which reaches so far.
    ///
    /// # Errors
    /// What the model is told instead if it may not be made.
    pub(super) async fn permit(
        &self,
        agent: &Agent,
        call: &ToolCall,
        reach: &Reach,
    ) -> Result<Permit, ToolResult> {
        let rules = self.services.workflow.rules(agent);
        let is_secret = |subject: &&Subject| matches!(subject, Subject::Secret { .. });
        let shown: Vec<Subject> = reach.subjects.iter().filter(is_secret).cloned().collect();
        let others = reach.subjects.iter().filter(|subject| !is_secret(subject)).cloned().collect();
        let of_call = rules.decide(&call.name, &Reach { usual: reach.usual, subjects: others });
        let of_secrets = match shown.as_slice() {
            [] => None,
            shown => {
                Some(rules.decide(&call.name, &Reach { usual: Permission::Allow, subjects: shown.to_vec() }))
            }
        };
        let both = || [Some(&of_call), of_secrets.as_ref()].into_iter().flatten();
        let strictest = both().map(|verdict| verdict.permission).max().unwrap_or(reach.usual);
        let is_asked = |verdict: &&Verdict| verdict.permission == strictest;
        let about: Vec<Subject> = both().filter(is_asked).flat_map(|verdict| verdict.about.clone()).collect();
        let answer = match strictest {
            Permission::Allow => Ok(false),
            Permission::Deny => Err("the permissions of this run forbid it".to_owned()),
            Permission::Ask => self.asked(agent, call, &about).await,
        };
        match answer {
            Ok(earlier) => {
                let consent = |verdict: &Verdict| match (verdict.permission, verdict.rules.as_slice()) {
                    (Permission::Allow, []) => ActionConsent::NotNeeded,
                    (Permission::Allow, rules) => ActionConsent::Rule { rules: rules.to_vec() },
                    _ => ActionConsent::User { earlier },
                };
                Ok(Permit {
                    consent: consent(&of_call),
                    secret_consent: of_secrets.as_ref().map_or(ActionConsent::NotNeeded, consent),
                    scope: CallScope::of_layers(rules, of_call.permission),
                    shown,
                })
            }
            Err(why) => Err(refused(call, &about, &why)),
        }
    }

    /// Asks the person for consent, and returns whether they gave it before.
    ///
    /// # Errors
    /// Why they do not give it.
    pub(super) async fn asked(
        &self,
        agent: &Agent,
        call: &ToolCall,
        about: &[Subject],
    ) -> Result<bool, String> {
        if self.given().covers(agent, call, about) {
            return Ok(true);
        }
        // Of calls that ask at once, the later need not, where the first was answered for all.
        let _one_at_a_time = self.consents.asking.lock().await;
        if self.given().covers(agent, call, about) {
            return Ok(true);
        }
        match self.services.person.consent(&ConsentRequest { agent: &agent.id, call, about }).await {
            Ok(Consent::Once) => Ok(false),
            Ok(Consent::ForRun) => {
                self.given().insert(agent, call, about);
                Ok(false)
            }
            Ok(Consent::Refused { why: Some(why) }) => Err(format!("the user does not want it: {why}")),
            Ok(Consent::Refused { why: None }) => Err("the user does not want it".to_owned()),
            Err(NobodyThere) => Err(nobody(about)),
        }
    }

    fn given(&self) -> MutexGuard<'_, Given> {
        self.consents.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns why a call is not made that needs a consent which nobody can give.
fn nobody(about: &[Subject]) -> String {
    let (places, others) = parted(about);
    let how = match places.first() {
        Some(place) if others.is_empty() => format!("{} in their own forge.yaml", secret_rule(place)),
        Some(place) => format!("`permissions`, and {} in their own forge.yaml", secret_rule(place)),
        None => "`permissions` in forge.yaml".to_owned(),
    };
    format!(
        "it needs the consent of a person, and nobody can answer here (who runs this may allow it by {how})"
    )
}

fn refused(call: &ToolCall, about: &[Subject], why: &str) -> ToolResult {
    let what = about.iter().map(|subject| format!("`{subject}`")).collect::<Vec<_>>().join(", ");
    let of = if what.is_empty() { String::new() } else { format!(" for {what}") };
    ToolResult::error(
        call,
        format!(
            "`{}` was not called{of}: {why}. Nothing was done. Do not try to get there by another way; go on without it, or \
             say what you would need",
            call.name
        ),
    )
}
