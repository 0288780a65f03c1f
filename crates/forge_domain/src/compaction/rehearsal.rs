//! Summaries that are requested ahead of the compaction that will need them, and reused for the same request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures::{StreamExt, stream};

use super::CompactionServices;
use crate::{
    ChatCompletionMessage, ChatStream, ContextMessage, MessageId, Model, ModelError, ModelId, ModelInfo,
    ModelRef, Prompt, ProviderError, ProviderId, ProviderService, SummaryTemplate, TokenCounter, Tokens,
    Usage,
};

/// The requests to models of a compaction that is expected. A reply is used only for exactly the prompt that
/// it answers: the same messages, in the same words, to the same model. So whatever changed meanwhile, the
/// result of a compaction is the same as without a rehearsal.
#[derive(Clone, Debug, Default)]
pub struct Rehearsal {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    requests: Vec<Rehearsed>,
    was_wasted: bool,
}

/// A request that was sent, and as much of its reply as has come.
#[derive(Debug)]
struct Rehearsed {
    prompt: Prompt,
    pieces: Vec<ChatCompletionMessage>,
    progress: RequestProgress,
}

/// The progress of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestProgress {
    Sent,
    /// There is no reply to it.
    Refused,
    /// The end of its reply has come.
    Whole,
}

/// The usage of a reply that was not needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unused {
    /// The model that was asked.
    pub model: ModelRef,
    /// The tokens sent, as we count them.
    pub sent: Tokens,
    /// The usage that it reported, zero if it was refused; `None` if it had not reported it yet.
    pub usage: Option<Usage>,
}

impl Rehearsal {
    /// Wraps the services so that their models' replies are remembered.
    pub fn asking<'a>(&'a self, services: &'a dyn CompactionServices) -> Rehearsing<'a> {
        Rehearsing { services, rehearsal: self, part: Part::Ask }
    }

    /// Wraps the services so that their models are not asked for what is remembered.
    pub fn answering<'a>(&'a self, services: &'a dyn CompactionServices) -> Rehearsing<'a> {
        Rehearsing { services, rehearsal: self, part: Part::Answer }
    }

    /// Forgets the unused replies, and returns them. Called after the compaction that they were for, or if
    /// there was none.
    pub fn settle(&self, settled: Settled) -> Vec<Unused> {
        let mut state = self.state();
        let left = std::mem::take(&mut state.requests);
        match settled {
            Settled::Compacted => state.was_wasted = false,
            Settled::NotCompacted => state.was_wasted |= !left.is_empty(),
        }
        left.into_iter().map(Rehearsed::unused).collect()
    }

    /// Checks whether a request was made in vain since the last compaction. Then nothing more should be
    /// guessed: a context that stays just below its trigger would otherwise be summarized at every call.
    pub fn was_wasted(&self) -> bool {
        self.state().was_wasted
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out the whole reply to `prompt`.
    fn reply(&self, prompt: &Prompt) -> Option<Vec<ChatCompletionMessage>> {
        let requests = &mut self.state().requests;
        let at = requests
            .iter()
            .position(|request| request.progress == RequestProgress::Whole && request.prompt == *prompt)?;
        Some(requests.swap_remove(at).pieces)
    }
}

/// The outcome for the context that a rehearsal was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It was compacted.
    Compacted,
    /// It was not.
    NotCompacted,
}

impl Rehearsed {
    fn unused(self) -> Unused {
        let said = self.pieces.iter().rev().find_map(|piece| piece.usage);
        // What is refused costs nothing.
        let usage = said.or_else(|| (self.progress == RequestProgress::Refused).then(Usage::default));
        Unused { model: self.prompt.options().model.clone(), sent: self.prompt.tokens(), usage }
    }
}

/// A wrapper of services, during a rehearsal or after one.
pub struct Rehearsing<'a> {
    services: &'a dyn CompactionServices,
    rehearsal: &'a Rehearsal,
    part: Part,
}

#[derive(Clone, Copy)]
enum Part {
    Ask,
    Answer,
}

impl CompactionServices for Rehearsing<'_> {
    fn templates(&self) -> &dyn SummaryTemplate {
        self.services.templates()
    }

    fn providers(&self) -> &dyn ProviderService {
        self
    }

    fn counter(&self) -> &dyn TokenCounter {
        self.services.counter()
    }

    fn model(&self, id: &ModelId) -> Result<Model, ModelError> {
        self.services.model(id)
    }

    fn original(&self, id: MessageId) -> Option<ContextMessage> {
        self.services.original(id)
    }
}

#[async_trait]
impl ProviderService for Rehearsing<'_> {
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
        match self.part {
            Part::Answer => match self.rehearsal.reply(&prompt) {
                Some(pieces) => Ok(stream::iter(pieces.into_iter().map(Ok)).boxed()),
                None => self.services.providers().chat(prompt).await,
            },
            Part::Ask => {
                let nth = {
                    let requests = &mut self.rehearsal.state().requests;
                    let (prompt, progress) = (prompt.clone(), RequestProgress::Sent);
                    requests.push(Rehearsed { prompt, pieces: Vec::new(), progress });
                    requests.len() - 1
                };
                let pieces = self.services.providers().chat(prompt).await;
                let mut state = self.rehearsal.state();
                if let Some(request) = state.requests.get_mut(nth).filter(|_| pieces.is_err()) {
                    request.progress = RequestProgress::Refused;
                }
                drop(state);
                Ok(store_pieces(self.rehearsal.clone(), nth, pieces?))
            }
        }
    }

    async fn models(&self, provider: &ProviderId) -> Result<Vec<ModelInfo>, ProviderError> {
        self.services.providers().models(provider).await
    }
}

/// Passes the pieces on and stores them with the request; at their end its reply is complete.
fn store_pieces(rehearsal: Rehearsal, nth: usize, pieces: ChatStream) -> ChatStream {
    let passing = stream::unfold(Some(pieces), move |pieces| {
        let rehearsal = rehearsal.clone();
        async move {
            let mut pieces = pieces?;
            let next = pieces.next().await;
            // A settled rehearsal has forgotten the request.
            if let Some(request) = rehearsal.state().requests.get_mut(nth) {
                match &next {
                    Some(Ok(piece)) => request.pieces.push(piece.clone()),
                    None if request.pieces.iter().any(|piece| piece.finish_reason.is_some()) => {
                        request.progress = RequestProgress::Whole;
                    }
                    Some(Err(_)) | None => {}
                }
            }
            let piece = next?;
            let rest = piece.is_ok().then_some(pieces);
            Some((piece, rest))
        }
    });
    passing.boxed()
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use pretty_assertions::assert_eq;

    use super::super::fixture::{Script, budget, conversation};
    use super::super::{CompactionReport, CompactionSettings, ContextCompactor};
    use super::*;
    use crate::Context;

    const YAML: &str = "{ model: m, strategies: [summarization], retention_window: 2, message_threshold: 6 }";

    fn settings(yaml: &str) -> CompactionSettings {
        super::super::fixture::settings(yaml, 100_000)
    }

    fn rehearse(rehearsal: &Rehearsal, yaml: &str, notation: &str, script: &Script) {
        let (view, budget) = (conversation(notation).view(), budget(100_000));
        let services = rehearsal.asking(script);
        ContextCompactor::new()
            .rehearse(&settings(yaml), view, &budget, &services)
            .now_or_never()
            .expect("the script never waits");
    }

    fn fit(rehearsal: &Rehearsal, notation: &str, script: &Script) -> (CompactionReport, Option<Context>) {
        let (view, budget) = (conversation(notation).view(), budget(100_000));
        let services = rehearsal.answering(script);
        let fit = ContextCompactor::new()
            .fit(&settings(YAML), view, &budget, &services)
            .now_or_never()
            .expect("the script never waits");
        (fit.report, fit.result.unwrap().compacted)
    }

    #[test]
    fn what_was_rehearsed_is_not_asked_again_and_changes_nothing() {
        let rehearsal = Rehearsal::default();
        let (ahead, behind) = (Script::summarizing().using(50), Script::summarizing().using(50));
        // The result of the last call is not there yet: another text of another length takes its place.
        rehearse(&rehearsal, YAML, "suaaaaaatR", &ahead);
        let actual = fit(&rehearsal, "suaaaaaatr", &behind);
        assert_eq!((ahead.n_asked(), behind.n_asked()), (1, 0));
        assert_eq!(rehearsal.settle(Settled::Compacted), []);
        let expected = fit(&Rehearsal::default(), "suaaaaaatr", &behind);
        assert_eq!(behind.n_asked(), 1);
        assert_eq!(actual, expected, "sizes, attempts, usage and text");
        assert!(actual.1.is_some());
    }

    #[test]
    fn what_no_longer_fits_is_asked_anew_and_told() {
        let rehearsal = Rehearsal::default();
        let (ahead, behind) = (Script::summarizing().using(50), Script::summarizing());
        rehearse(&rehearsal, YAML, "suaaaaaatr", &ahead);
        // A user message arrived in between.
        let (_, compacted) = fit(&rehearsal, "suaaaaaatruaaa", &behind);
        assert!(compacted.is_some());
        assert_eq!((ahead.n_asked(), behind.n_asked()), (1, 1));
        let unused = rehearsal.settle(Settled::Compacted);
        let usage = Usage { prompt_tokens: Tokens::new(50), ..Usage::default() };
        assert_eq!(unused.iter().map(|unused| unused.usage).collect::<Vec<_>>(), [Some(usage)]);
        assert!(!rehearsal.was_wasted(), "there was a compaction");
        rehearse(&rehearsal, YAML, "suaaaaaatr", &ahead);
        assert_eq!(rehearsal.settle(Settled::NotCompacted).len(), 1);
        assert!(rehearsal.was_wasted());
    }

    #[test]
    fn a_reply_that_failed_is_no_reply() {
        let rehearsal = Rehearsal::default();
        let (ahead, behind) = (Script::new(vec![Err(ProviderError::Truncated)]), Script::summarizing());
        rehearse(&rehearsal, YAML, "suaaaaaatr", &ahead);
        assert!(fit(&rehearsal, "suaaaaaatr", &behind).1.is_some());
        assert_eq!((ahead.n_asked(), behind.n_asked()), (1, 1));
        let unused = rehearsal.settle(Settled::Compacted);
        assert_eq!(unused.len(), 1);
        assert!(unused[0].sent > Tokens::ZERO);
        assert_eq!(unused[0].usage, Some(Usage::default()), "what is refused costs nothing");
    }

    #[test]
    fn nothing_is_rehearsed_that_is_not_due_or_not_wanted() {
        for (yaml, notation) in [
            (YAML, "suaa"),
            ("{ model: m, strategies: [summarization], retention_window: 2 }", "suaaaaaatr"),
            ("{ message_threshold: 6 }", "suaaaaaatr"),
            (
                "{ model: m, strategies: [summarization], retention_window: 2, message_threshold: 6, background: false }",
                "suaaaaaatr",
            ),
        ] {
            let script = Script::summarizing();
            rehearse(&Rehearsal::default(), yaml, notation, &script);
            assert_eq!(script.n_asked(), 0, "{yaml}");
        }
    }
}
