//! A person who answers later: what is asked waits in the checkpoint, and the answers come with the next
//! slice.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use forge_domain::{Awaited, AwaitedRequest, Consent, ConsentRequest, Person, Question, Unanswered};
use serde::{Deserialize, Serialize};

/// An answer to something that a run waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The name of what it answers, see [`Awaited::id`].
    pub id: String,
    /// The content.
    #[serde(flatten)]
    pub what: AnswerWhat,
}

/// The content of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerWhat {
    /// A decision on a call.
    Consent(Consent),
    /// The answer to a question.
    Text(String),
}

/// A person with whom a run corresponds. Whatever is asked is answered later, unless the answer has come.
#[derive(Debug, Default)]
pub struct Correspondence(Mutex<Vec<(Awaited, AnswerWhat)>>);

impl Correspondence {
    /// Adds the answers to what is awaited. One that answers nothing of it comes too late, and is returned.
    pub fn receive(&self, awaited: &[Awaited], answers: Vec<Answer>) -> Vec<Answer> {
        let mut late = Vec::new();
        for answer in answers {
            match awaited.iter().find(|awaited| awaited.id == answer.id) {
                Some(awaited) => self.lock().push((awaited.clone(), answer.what)),
                None => late.push(answer),
            }
        }
        late
    }

    /// Takes the answer that `read` accepts.
    fn take<T>(&self, read: impl Fn(&Awaited, &AnswerWhat) -> Option<T>) -> Option<T> {
        let mut answers = self.lock();
        let (at, answer) = answers
            .iter()
            .enumerate()
            .find_map(|(at, (awaited, what))| read(awaited, what).map(|answer| (at, answer)))?;
        answers.remove(at);
        Some(answer)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Awaited, AnswerWhat)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the consent in `what`, if it is a decision on this very request: the same call with the same
/// arguments, about the same subjects, with the same change.
fn consent_to(request: &ConsentRequest<'_>, awaited: &Awaited, what: &AnswerWhat) -> Option<Consent> {
    let AnswerWhat::Consent(consent) = what else { return None };
    let AwaitedRequest::Consent { tool, arguments, about, change } = &awaited.request else { return None };
    let is_same = awaited.agent == *request.agent
        && awaited.call == request.call.id
        && *tool == request.call.name
        && *arguments == request.call.arguments
        && about == request.about
        && change.as_ref() == request.change;
    is_same.then(|| consent.clone())
}

#[async_trait]
impl Person for Correspondence {
    async fn answer(&self, question: &Question) -> Result<String, Unanswered> {
        let text = |awaited: &Awaited, what: &AnswerWhat| match (&awaited.request, what) {
            (AwaitedRequest::Answer(asked), AnswerWhat::Text(text)) if asked == question => {
                Some(text.clone())
            }
            _ => None,
        };
        self.take(text).ok_or(Unanswered::Later)
    }

    async fn consent(&self, request: &ConsentRequest<'_>) -> Result<Consent, Unanswered> {
        let consent = |awaited: &Awaited, what: &AnswerWhat| consent_to(request, awaited, what);
        self.take(consent).ok_or(Unanswered::Later)
    }
}
