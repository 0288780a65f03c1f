//! The user's consents to tool calls.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use forge_domain::{
    ActionConsent, AgentId, Consent, ConsentRequest, FileChange, Person, Subject, ToolName, Unanswered,
    secret_rule,
};

use super::hooks::with_notice;
use crate::DeniedBy;
use crate::course::GivenConsents;

/// A kind of call: its agent, its tool and what it is about.
type CallKind = (AgentId, ToolName, Vec<Subject>);

/// The user's consents for the rest of the run.
#[derive(Debug, Default)]
pub struct Consents {
    given: Mutex<Given>,
    /// Held while a question is open.
    asking: futures::lock::Mutex<()>,
}

/// The reason not to make a call, at least not now.
pub(crate) enum NoConsent {
    /// The call may not be made: which rule or person denied it, and why.
    Denied(DeniedBy, String),
    /// Someone will decide later on the call and this change.
    Later(Option<FileChange>),
}

/// The consents that were given for the rest of the run.
#[derive(Debug, Default)]
struct Given {
    calls: HashSet<CallKind>,
    /// The places whose secrets may be shown to every agent.
    secrets: HashSet<String>,
    /// True if checkpoints keep them: the rest of the run may be in other processes.
    are_kept: bool,
}

impl Given {
    /// Checks whether everything that `request` is about was allowed.
    fn covers(&self, request: &ConsentRequest<'_>) -> bool {
        let (places, others) = split_subjects(request.about);
        let is_about_secrets_alone = others.is_empty() && !places.is_empty();
        let is_given = places.iter().all(|place| self.secrets.contains(place));
        is_given && (is_about_secrets_alone || self.calls.contains(&call_kind(request, others)))
    }

    /// Adds a consent to everything that `request` is about.
    fn insert(&mut self, request: &ConsentRequest<'_>) {
        let (places, others) = split_subjects(request.about);
        if !others.is_empty() || places.is_empty() {
            self.calls.insert(call_kind(request, others));
        }
        self.secrets.extend(places);
    }
}

impl Consents {
    /// Asks `person` for consent, unless it was given for the rest of the run. They are shown the change that
    /// `preview` finds; it is returned, because their consent is to that change alone. `notice` is delivered
    /// while they are waited for.
    ///
    /// # Errors
    /// [`NoConsent`].
    pub(crate) async fn ask(
        &self,
        person: &dyn Person,
        request: &ConsentRequest<'_>,
        preview: impl Future<Output = Option<FileChange>>,
        notice: impl Future<Output = ()>,
    ) -> Result<(ActionConsent, Option<FileChange>), NoConsent> {
        if self.lock().covers(request) {
            return Ok((ActionConsent::User { earlier: true }, None));
        }
        // Of calls that ask at once, the later need not if the first was answered for all.
        let _one_at_a_time = self.asking.lock().await;
        if self.lock().covers(request) {
            return Ok((ActionConsent::User { earlier: true }, None));
        }
        let change = preview.await;
        let request = &ConsentRequest { change: change.as_ref(), ..*request };
        match with_notice(person.consent(request), notice).await {
            Ok(Consent::Once) => Ok((ActionConsent::User { earlier: false }, change)),
            Ok(Consent::ForRun) => {
                self.lock().insert(request);
                Ok((ActionConsent::User { earlier: false }, change))
            }
            Ok(Consent::Refused { why: Some(why) }) => {
                Err(NoConsent::Denied(DeniedBy::User, format!("the user does not want it: {why}")))
            }
            Ok(Consent::Refused { why: None }) => {
                Err(NoConsent::Denied(DeniedBy::User, "the user does not want it".to_owned()))
            }
            Err(Unanswered::Nobody) => {
                Err(NoConsent::Denied(DeniedBy::Nobody, no_answer_text(request.about)))
            }
            Err(Unanswered::Later) => Err(NoConsent::Later(change)),
        }
    }

    /// Returns the consents that `agent` has for the rest of the run, each as a tool and what it may touch.
    pub fn lines(&self, agent: &AgentId) -> Vec<String> {
        let given = self.lock();
        let calls = given.calls.iter().filter(|(whose, ..)| whose == agent).map(|(_, tool, about)| {
            let about: Vec<String> = about.iter().map(ToString::to_string).collect();
            if about.is_empty() { tool.to_string() } else { format!("{tool}: {}", about.join(", ")) }
        });
        let secrets = given.secrets.iter().map(|place| format!("secrets of {place}"));
        let mut lines: Vec<String> = calls.chain(secrets).collect();
        lines.sort_unstable();
        lines
    }

    /// Lets checkpoints keep the consents for the rest of the run.
    pub(crate) fn keep(&self) {
        self.lock().are_kept = true;
    }

    /// Returns what checkpoints keep of the consents of `agent`; `None` if they keep nothing.
    pub(crate) fn kept(&self, agent: &AgentId) -> Option<GivenConsents> {
        let given = self.lock();
        let of_agent = given.calls.iter().filter(|(whose, ..)| whose == agent);
        let mut calls: Vec<_> = of_agent.map(|(_, tool, about)| (tool.clone(), about.clone())).collect();
        calls.sort_by_cached_key(|(tool, about)| format!("{tool} {about:?}"));
        let mut secrets: Vec<_> = given.secrets.iter().cloned().collect();
        secrets.sort_unstable();
        let kept = GivenConsents { calls, secrets };
        (given.are_kept && kept != GivenConsents::default()).then_some(kept)
    }

    /// Restores the consents of `agent` that a checkpoint has kept.
    pub(crate) fn restore(&self, agent: &AgentId, kept: GivenConsents) {
        let mut given = self.lock();
        if given.are_kept {
            let calls = kept.calls.into_iter().map(|(tool, about)| (agent.clone(), tool, about));
            given.calls.extend(calls);
            given.secrets.extend(kept.secrets);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Given> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the kind of the call that `request` is for; `about` has its subjects without secrets.
fn call_kind(request: &ConsentRequest<'_>, about: Vec<Subject>) -> CallKind {
    (request.agent.clone(), request.call.name.clone(), about)
}

/// Splits subjects into the places of secrets and the other subjects.
fn split_subjects(about: &[Subject]) -> (Vec<String>, Vec<Subject>) {
    let (mut places, mut others) = (Vec::new(), Vec::new());
    for subject in about {
        match subject {
            Subject::Secret { place, .. } => places.push(place.clone()),
            other => others.push(other.clone()),
        }
    }
    (places, others)
}

/// Returns the reason not to make a call if no one can consent to it, with the rules that would allow it.
fn no_answer_text(about: &[Subject]) -> String {
    let (places, others) = split_subjects(about);
    let how = match places.first() {
        Some(place) if others.is_empty() => format!("{} in their own forge.yaml", secret_rule(place)),
        Some(place) => format!("`permissions`, and {} in their own forge.yaml", secret_rule(place)),
        None => "`permissions` in forge.yaml".to_owned(),
    };
    format!("it needs the user's consent, and no one can answer here (the user may allow it with {how})")
}
