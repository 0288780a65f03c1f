//! One reply, by every means that is worth it: a smaller prompt if the provider finds it too long, another
//! attempt if a reply broke off, and the complete calls of one that did.

use forge_domain::{
    Body, ChatCompletionMessage, Cost, FinishReason, Price, Prompt, ProviderConfig, ProviderError, Reply,
    ReplyParts, Retry, Tokens, quantity,
};
use futures::StreamExt;

use super::flaw::{Flaw, note_unread};
use super::usage::{drop_absurd_usage, learn_window, silent_cut};
use super::{Halt, Received, Turn};
use crate::engine::{expense, usage_of_call};
use crate::learned_limit::Evidence;
use crate::spans::{chat_span, trace_chat};
use crate::window_setting::window_setting;
use crate::{Engine, RunError, RunEvent};

/// Most attempts with a smaller context after a provider found it too long.
const RECOVERIES: usize = 2;
/// The least tokens of a prompt that is made smaller after a limit in bytes: nothing refuses less.
const LEAST_FOR_BYTES: Tokens = Tokens::new(4_000);
/// A prompt that has less than one of so many parts of a window cannot be what exceeds it.
const PARTS_OF_WINDOW: u64 = 250;
/// Most attempts after a reply broke off, if the provider's `retries` allow so many: each costs what came of
/// the one before.
const RENEWALS: usize = 4;

/// The attempts to get one reply.
#[derive(Default)]
pub(super) struct Attempts {
    recoveries: usize,
    renewals: usize,
    /// True once a call could not be read by the server.
    is_unread: bool,
    /// The part that came of the last reply, if that filled the window.
    cut: Option<Box<Reply>>,
    /// The last rejection for its bytes.
    too_large: Option<Box<ProviderError>>,
}

impl Attempts {
    /// Returns the part that came of the last reply, if nothing more can leave the context: it is all there
    /// will be.
    ///
    /// # Errors
    /// The `error` of the fit, if there is no such part. If a limit in bytes led to it, the rejection by the
    /// server.
    pub(super) fn fall_back(&mut self, error: RunError, reader: &ReplyReader<'_>) -> Result<Reply, RunError> {
        match (error, self.cut.take(), self.too_large.take()) {
            (RunError::StillOver { .. }, Some(cut), _) => {
                reader.engine.events.emit(&RunEvent::Text(&cut.message.to_text()));
                Ok(*cut)
            }
            (RunError::StillOver { .. }, None, Some(rejection)) => Err(RunError::Provider(*rejection)),
            (error, ..) => Err(error),
        }
    }
}

/// A reason why there is no reply.
enum Unanswered {
    Refused(ProviderError),
    BrokeOff(ProviderError),
    /// The reply was cut because prompt and answer filled the window.
    FilledWindow {
        /// The reply without its calls, of which the last may be incomplete.
        cut: Box<Reply>,
        /// The reply with its complete calls only; `None` if it has none.
        kept: Option<Box<Reply>>,
    },
}

/// The figures of a rejection, as the server counts.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    /// Tokens that the prompt needs.
    need: Option<Tokens>,
    /// Tokens that the server accepts.
    window: Option<Tokens>,
    /// True if the limit is one of bytes, of which no window tells.
    is_of_bytes: bool,
}

impl<'a> Turn<'a, '_> {
    /// Asks the model once. `None` if it is to be asked again, with a prompt that is fitted again.
    ///
    /// # Errors
    /// [`Halt`] if asking again does not help. The provider's own error is kept.
    pub(super) async fn ask(
        &mut self,
        prompt: Prompt,
        attempts: &mut Attempts,
    ) -> Result<Option<Reply>, Halt> {
        attempts.cut = None;
        self.engine.check_known_fence()?;
        let sent = prompt.tokens();
        self.engine.check_budget(self.agent, sent, self.setup.price.as_ref())?;
        self.view = Some(prompt.view());
        let mut answer = self.reader().read(prompt).await;
        match &mut answer {
            Ok(reply) => drop_absurd_usage(self, sent, reply),
            Err(Unanswered::FilledWindow { cut, .. }) => drop_absurd_usage(self, sent, cut),
            Err(Unanswered::Refused(_) | Unanswered::BrokeOff(_)) => {}
        }
        self.book(sent, &answer);
        match answer {
            Ok(reply) => {
                if learn_window(self).await? && sent > self.setup.limits.budget.window() {
                    let why = "the prompt exceeds the window, which the server has told only now";
                    self.engine.events.emit(&RunEvent::Restarted { why });
                    return Ok(None);
                }
                if let Some(cut) = silent_cut(self, sent, &reply).filter(|_| attempts.recoveries < RECOVERIES)
                {
                    self.recover(cut, Failure::DuringReply, sent, attempts).await?;
                    return Ok(None);
                }
                // The limit that a rejection taught does not hold for ever.
                if self.engine.limits.count_reply(self.setup.model(), sent) {
                    self.setup = self.engine.setup(self.agent)?;
                }
                if let Some(usage) = reply.usage {
                    self.work.conversation.report_usage(self.setup.model(), sent, usage);
                }
                Ok(Some(reply))
            }
            Err(Unanswered::FilledWindow { cut, kept }) if attempts.recoveries == RECOVERIES => {
                Ok(Some(*kept.unwrap_or(cut)))
            }
            Err(Unanswered::FilledWindow { cut, kept }) => {
                attempts.recoveries += 1;
                let usage = cut.usage.map(|usage| usage.prompt_tokens + usage.completion_tokens);
                let why = "the reply was cut: it filled the window";
                if kept.is_none() {
                    self.engine.events.emit(&RunEvent::Restarted { why });
                }
                self.lower_limit(sent, Figures { window: usage, ..Figures::default() }, why)?;
                match kept {
                    Some(kept) => Ok(Some(*kept)),
                    None => {
                        attempts.cut = Some(cut);
                        Ok(None)
                    }
                }
            }
            Err(Unanswered::Refused(error)) => {
                self.recover(error, Failure::BeforeReply, sent, attempts).await?;
                Ok(None)
            }
            Err(Unanswered::BrokeOff(error)) => {
                self.recover(error, Failure::DuringReply, sent, attempts).await?;
                Ok(None)
            }
        }
    }

    /// Prepares another attempt after `error`: with a smaller context, with the same if the reply had begun,
    /// or with a note to the model.
    ///
    /// # Errors
    /// `error`, if none of these helps.
    async fn recover(
        &mut self,
        error: ProviderError,
        failure: Failure,
        sent: Tokens,
        attempts: &mut Attempts,
    ) -> Result<(), RunError> {
        let events = &self.engine.events;
        let provider = self.engine.services.workflow.providers.get(&self.setup.model().provider);
        let most = most_renewals(provider);
        if matches!(error, ProviderError::UnreadableCall { .. }) {
            if failure == Failure::DuringReply {
                events.emit(&RunEvent::Restarted { why: &error.to_string() });
            }
            // The model may write it well the next time. If it does not, only another prompt helps.
            if most > 0 && !std::mem::replace(&mut attempts.is_unread, true) {
                events.notice(&format!("{error}; asking once more"));
                return Ok(());
            }
            return note_unread(self, error).await;
        }
        let figures = figures(&error)
            .filter(|figures| attempts.recoveries < RECOVERIES && may_be_too_much(sent, *figures));
        let is_renewable =
            failure == Failure::DuringReply && attempts.renewals < most && error.retry() != Retry::Never;
        if failure == Failure::DuringReply && (figures.is_some() || is_renewable) {
            events.emit(&RunEvent::Restarted { why: &error.to_string() });
        }
        if let Some(figures) = figures {
            attempts.recoveries += 1;
            self.lower_limit(sent, figures, &error.to_string())?;
            attempts.too_large = figures.is_of_bytes.then(|| Box::new(error));
            return Ok(());
        }
        if !is_renewable {
            return Err(RunError::Provider(error));
        }
        attempts.renewals += 1;
        events.notice(&format!("{error}; retrying ({} of {most})", attempts.renewals));
        Ok(())
    }

    /// Lowers the limit of the agent's model after `sent` tokens were too many, and reports it.
    fn lower_limit(&mut self, sent: Tokens, figures: Figures, why: &str) -> Result<(), RunError> {
        let believed = self.setup.limits.budget.window();
        let target = lower_target(sent, figures, believed);
        let model = self.setup.model();
        let evidence = match figures.window {
            Some(window) if window < believed => Evidence::SmallerWindow(window),
            _ => Evidence::None,
        };
        let is_window_right = figures.window.is_some() && evidence == Evidence::None;
        let way_out = match &self.agent.model {
            Some(id) if !is_window_right && !figures.is_of_bytes => {
                format!(". To avoid this, set `{}` in forge.yaml", window_setting(id, figures.window))
            }
            _ => String::new(),
        };
        // It ends with the server's own words.
        let why = why.trim_end_matches('.');
        self.engine.events.notice(&format!(
            "{why}; Forge had counted {sent} tokens and sends at most {target} from now on{way_out}"
        ));
        self.engine.limits.lower(model, sent, target, evidence);
        self.setup = self.engine.setup(self.agent)?;
        Ok(())
    }

    /// Adds what a call used to the report, as the provider reported it, and to the ledger.
    fn book(&mut self, sent: Tokens, answer: &Result<Reply, Unanswered>) {
        let (reported, reply) = match answer {
            Ok(reply) => (reply.usage, Some(&reply.message)),
            Err(Unanswered::FilledWindow { cut, .. }) => (cut.usage, Some(&cut.message)),
            Err(Unanswered::BrokeOff(_)) => (None, None),
            Err(Unanswered::Refused(_)) => return,
        };
        let price = self.setup.price.as_ref();
        self.report.cost += Cost::of_call(price, reported);
        let usage = usage_of_call(reported, sent, reply, &*self.engine.services.counter);
        self.engine.ledger.add(&self.agent.id, expense(usage, price));
    }

    pub(super) const fn reader(&self) -> ReplyReader<'a> {
        ReplyReader { engine: self.engine }
    }
}

/// The moment of a failure. One before the reply was retried by the provider already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Failure {
    BeforeReply,
    DuringReply,
}

impl Received {
    /// Reports a complete reply.
    pub(super) fn report(&self, engine: &Engine, price: Option<&Price>) {
        let Self { calls, usage, finish_reason, flaw } = self;
        let cost = Cost::of_call(price, *usage);
        let tokens = usage.unwrap_or_default();
        tracing::info!(
            target: "forge::chat",
            prompt_tokens = tokens.prompt_tokens.as_u64(),
            cached_tokens = tokens.cached_tokens.as_u64(),
            cache_written_tokens = tokens.cache_written_tokens.as_u64(),
            dropped_reasoning = tokens.dropped_reasoning,
            completion_tokens = tokens.completion_tokens.as_u64(),
            %cost,
            "replied"
        );
        let is_answer = calls.is_empty() && matches!(flaw, None | Some(Flaw::CutAnswer));
        let is_unfinished = *flaw == Some(Flaw::CutText);
        engine.events.emit(&RunEvent::Replied {
            usage: *usage,
            cost,
            finish_reason,
            is_answer,
            is_unfinished,
        });
    }
}

/// A reader of a model's reply, which reports each piece.
pub(super) struct ReplyReader<'a> {
    engine: &'a Engine,
}

impl ReplyReader<'_> {
    /// Sends the prompt and reads the reply to its end.
    async fn read(&self, prompt: Prompt) -> Result<Reply, Unanswered> {
        let Engine { events, services, .. } = self.engine;
        events.emit(&RunEvent::Sending(&prompt));
        let limit = prompt.options().max_output_tokens;
        let is_shown = prompt.options().request.reasoning.is_shown();
        let span = chat_span(&prompt, self.engine.run_id().as_ref());
        let answer = trace_chat(span, services.providers.chat(prompt));
        let mut stream = answer.await.map_err(Unanswered::Refused)?;
        let (mut parts, mut n_shown) = (ReplyParts::default(), 0);
        while let Some(piece) = stream.next().await {
            let piece = match piece {
                Ok(piece) => piece,
                Err(error) => return self.salvage(parts, error),
            };
            if let Some(text) = &piece.content {
                n_shown += text.len();
                events.emit(&RunEvent::Text(text));
            }
            if let Some(reasoning) = &piece.reasoning {
                // That the model thinks is told even if what it thinks is hidden.
                events.emit(&RunEvent::Reasoning(if is_shown { reasoning } else { "" }));
            }
            parts.push(piece);
        }
        let filled_window = parts.finish_reason() == Some(&FinishReason::Window);
        let is_at_limit = limit.is_some_and(|limit| parts.completion_tokens() >= Some(limit));
        if !filled_window && is_at_limit && parts.ends_in_half_a_call() {
            // Some servers report a reply that the output limit cut off as complete.
            let finish_reason = Some(FinishReason::Length);
            parts.push(ChatCompletionMessage { finish_reason, ..ChatCompletionMessage::default() });
        }
        let kept = if filled_window { parts.clone().salvage().map(Box::new) } else { None };
        let mut reply = parts.finish().map_err(Unanswered::BrokeOff)?;
        if filled_window {
            if let Body::Assistant { calls, .. } = &mut reply.message.body {
                calls.clear();
            }
            return Err(Unanswered::FilledWindow { cut: Box::new(reply), kept });
        }
        let text = reply.message.to_text();
        if text.len() < n_shown {
            // Thoughts that no tag opens are known only by the one that closes them.
            events.emit(&RunEvent::Restarted { why: "the text so far was the model's thinking" });
            if !text.is_empty() {
                events.emit(&RunEvent::Text(&text));
            }
        }
        Ok(reply)
    }

    /// Returns the complete parts of a reply that broke off, or had no end: its calls can be run, and the
    /// next reply continues from there.
    fn salvage(&self, parts: ReplyParts, error: ProviderError) -> Result<Reply, Unanswered> {
        let is_stopped = matches!(error, ProviderError::OverLimit { .. });
        let kept = if is_stopped || error.retry() != Retry::Never { parts.salvage() } else { None };
        let Some(reply) = kept else { return Err(Unanswered::BrokeOff(error)) };
        let n_calls = reply.message.calls().len();
        let verb = if n_calls == 1 { "is" } else { "are" };
        let kept = quantity(n_calls, "complete tool call");
        self.engine.events.notice(&format!("{error}; {kept} of it {verb} kept"));
        Ok(reply)
    }
}

/// Returns the most attempts after a reply of a `provider` broke off.
fn most_renewals(provider: Option<&ProviderConfig>) -> usize {
    let retries = provider.and_then(|provider| provider.retries);
    retries.map_or(RENEWALS, |retries| RENEWALS.min(retries as usize))
}

/// Returns the server's figures if a smaller prompt would avoid its rejection.
const fn figures(error: &ProviderError) -> Option<Figures> {
    match error {
        ProviderError::ContextTooLong { need, window, .. } => {
            Some(Figures { need: *need, window: *window, is_of_bytes: false })
        }
        ProviderError::OverRate { need, limit, .. } => {
            Some(Figures { need: Some(*need), window: Some(*limit), is_of_bytes: false })
        }
        ProviderError::RequestTooLarge { .. } => {
            Some(Figures { need: None, window: None, is_of_bytes: true })
        }
        _ => None,
    }
}

/// Checks whether `sent` tokens may be what was too much. If they are next to nothing beside the limit, a
/// smaller prompt would be rejected as well, and the context be lost for nothing.
fn may_be_too_much(sent: Tokens, figures: Figures) -> bool {
    let least = figures.window.map_or(Tokens::ZERO, |window| window.share(1, PARTS_OF_WINDOW));
    sent >= if figures.is_of_bytes { LEAST_FOR_BYTES } else { least }
}

/// Returns the tokens, by our count, to send after `sent` were too many. The server's figures are by its own
/// count; only their ratio carries over.
fn lower_target(sent: Tokens, Figures { need, window, .. }: Figures, believed: Tokens) -> Tokens {
    let fits = match (need.filter(|need| *need > Tokens::ZERO), window) {
        (Some(need), Some(window)) => sent.share(window.as_u64(), need.as_u64()),
        (None, Some(window)) => window,
        (_, None) => sent,
    };
    // If the window is smaller than believed, the answer's share of it has yet to be reserved.
    let spare = if window.is_none_or(|window| window < believed) { (3, 4) } else { (9, 10) };
    fits.share(spare.0, spare.1).min(sent.share(9, 10))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_target_is_lowered_by_what_the_server_says() {
        for (what, sent, need, window, believed, expected) in [
            ("the tokenizer counts a quarter more", 800, Some(1_000), Some(900), 900, 648),
            ("the window is half of what was believed", 800, Some(800), Some(400), 1_000, 300),
            ("only the window is told", 800, None, Some(400), 1_000, 300),
            ("the window is no smaller than what was sent", 800, None, Some(2_000), 1_000, 720),
            ("nothing is told", 800, None, None, 1_000, 600),
            ("the prompt filled the window", 800, Some(900), Some(900), 900, 720),
        ] {
            let tokens = |n: Option<u64>| n.map(Tokens::new);
            let figures = Figures { need: tokens(need), window: tokens(window), is_of_bytes: false };
            let actual = lower_target(Tokens::new(sent), figures, Tokens::new(believed));
            assert_eq!(actual.as_u64(), expected, "{what}");
        }
    }

    #[test]
    fn next_to_nothing_is_not_too_much() {
        for (sent, window, is_of_bytes, expected) in [
            (468, Some(200_000), false, false),
            (800, Some(200_000), false, true),
            (20, Some(100), false, true),
            (14, None, false, true),
            (14, None, true, false),
            (37_000, None, true, true),
        ] {
            let figures = Figures { need: None, window: window.map(Tokens::new), is_of_bytes };
            assert_eq!(may_be_too_much(Tokens::new(sent), figures), expected, "{sent} {figures:?}");
        }
    }
}
