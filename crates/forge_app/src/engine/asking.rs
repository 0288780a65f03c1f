//! One reply, by every means that is worth it: a lower target where the provider finds the prompt too long, another try
//! where a reply broke off, and the whole calls of one that did.

use std::sync::PoisonError;

use forge_domain::{
    Agent, Body, ChatCompletionMessage, Conversation, Cost, FinishReason, Overspend, Price, Prompt,
    ProviderError, Reply, ReplyParts, Retry, Tokens,
};
use futures::StreamExt;

use super::spending::{consumed, spent};
use super::{Engine, Setup};
use crate::course::Course;
use crate::learned_limit::{Evidence, LearnedLimit, Lesson};
use crate::spans::chatting;
use crate::{RunError, RunEvent, RunReport};

/// How often the context is made smaller after a provider found it too long.
const RECOVERIES: usize = 2;
/// How often a reply that broke off is asked for again.
const RENEWALS: usize = 2;

/// Why there is no reply, and whether one had begun: what never began was retried below us.
enum Unanswered {
    Refused(ProviderError),
    BrokeOff(ProviderError),
    /// The reply was cut because prompt and answer filled the window.
    FilledWindow {
        /// The reply without its calls, of which the last may be incomplete.
        cut: Box<Reply>,
        /// The same reply with its complete calls only; `None` if it has none.
        kept: Option<Box<Reply>>,
    },
}

/// What comes of asking.
pub(super) enum Answer {
    Reply(Box<Reply>),
    /// The budget has no room for another call; nothing was sent.
    BudgetSpent(Overspend),
}

impl Engine {
    /// Makes the view fit and asks for a reply to it.
    ///
    /// # Errors
    /// [`RunError`] where nothing helps; the provider's own error is kept.
    pub(super) async fn ask(
        &self,
        agent: &Agent,
        setup: &mut Setup,
        conversation: &mut Conversation,
        course: &mut Course,
        report: &mut RunReport,
    ) -> Result<Answer, RunError> {
        let (mut recoveries, mut renewals) = (0, 0);
        let mut last_cut: Option<Box<Reply>> = None;
        loop {
            // With nothing left, nothing is asked for a summary either.
            if let Some(over) = self.overspent(agent, Tokens::ZERO, None) {
                return Ok(Answer::BudgetSpent(over));
            }
            self.check_fence().await?;
            let n_compactions = conversation.n_compactions();
            let prompt = match (self.fit(agent, setup, conversation, course, report).await, last_cut.take()) {
                (Ok(prompt), _) => prompt,
                // Nothing more can leave the context, so the part that came is all there will be.
                (Err(RunError::StillOver { .. }), Some(cut)) => {
                    self.tell(&RunEvent::Text(&cut.message.to_text()));
                    self.tell_reply(&cut, setup.price.as_ref());
                    return Ok(Answer::Reply(cut));
                }
                (Err(error), _) => return Err(error),
            };
            self.keep_compaction(agent, conversation, course, n_compactions).await;
            self.known_fence()?;
            let sent = prompt.tokens();
            if let Some(over) = self.overspent(agent, sent, setup.price.as_ref()) {
                return Ok(Answer::BudgetSpent(over));
            }
            let answer = self.reply(prompt, setup.price.as_ref()).await;
            self.book(agent, setup, sent, &answer, report);
            let broke_off = if let Err(Unanswered::BrokeOff(error)) = &answer { Some(error) } else { None };
            if let Some(error) = broke_off.filter(|error| {
                recoveries < RECOVERIES && figures(error).is_some()
                    || renewals < RENEWALS && error.retry() != Retry::Never
            }) {
                self.tell(&RunEvent::Restarted { why: &error.to_string() });
            }
            match answer {
                Ok(reply) => {
                    self.widen(agent, setup, sent)?;
                    if let Some(usage) = reply.usage {
                        conversation.report_usage(&setup.budget.options().model, sent, usage);
                    }
                    return Ok(Answer::Reply(Box::new(reply)));
                }
                Err(Unanswered::FilledWindow { cut, kept }) => {
                    if recoveries == RECOVERIES {
                        let reply = kept.unwrap_or(cut);
                        self.tell_reply(&reply, setup.price.as_ref());
                        return Ok(Answer::Reply(reply));
                    }
                    recoveries += 1;
                    let window = cut.usage.map(|usage| usage.prompt_tokens + usage.completion_tokens);
                    let why = "the reply was cut: it filled the window";
                    let price = setup.price;
                    if kept.is_none() {
                        self.tell(&RunEvent::Restarted { why });
                    }
                    self.lower(agent, setup, sent, (None, window), why)?;
                    if let Some(kept) = kept {
                        self.tell_reply(&kept, price.as_ref());
                        return Ok(Answer::Reply(kept));
                    }
                    last_cut = Some(cut);
                }
                Err(Unanswered::Refused(ref error) | Unanswered::BrokeOff(ref error))
                    if recoveries < RECOVERIES && figures(error).is_some() =>
                {
                    recoveries += 1;
                    let figures = figures(error).unwrap_or_default();
                    self.lower(agent, setup, sent, figures, &error.to_string())?;
                }
                Err(Unanswered::BrokeOff(error)) if renewals < RENEWALS && error.retry() != Retry::Never => {
                    renewals += 1;
                    self.tell(&RunEvent::Notice(&format!("{error}; retrying ({renewals} of {RENEWALS})")));
                }
                Err(Unanswered::Refused(error) | Unanswered::BrokeOff(error)) => {
                    return Err(RunError::Provider(error));
                }
            }
        }
    }

    /// Lowers what the agent's model is sent after `sent` tokens were too many, and reports it. `figures` are the need and
    /// the window that the provider reports.
    fn lower(
        &self,
        agent: &Agent,
        setup: &mut Setup,
        sent: Tokens,
        (need, window): (Option<Tokens>, Option<Tokens>),
        why: &str,
    ) -> Result<(), RunError> {
        let target = lowered(sent, need, window, setup.budget.window());
        self.tell(&RunEvent::Notice(&format!(
            "{why}; Forge had counted {sent} tokens and sends at most {target} from now on. Set a `window` \
             for `{}` under `models:` in forge.yaml to avoid this",
            setup.budget.options().model
        )));
        let evidence = match window {
            Some(window) if window < setup.budget.window() => Evidence::SmallerWindow,
            _ => Evidence::None,
        };
        self.narrow(agent, setup, |earlier| LearnedLimit::learn(earlier, sent, target, evidence))
    }

    /// Sends no more to the agent's model than a refusal taught, in this turn and those that follow.
    fn narrow(
        &self,
        agent: &Agent,
        setup: &mut Setup,
        learn: impl FnOnce(Option<LearnedLimit>) -> LearnedLimit,
    ) -> Result<(), RunError> {
        let model = setup.budget.options().model.to_string();
        {
            let mut limits = self.narrowed.lock().unwrap_or_else(PoisonError::into_inner);
            let limit = learn(limits.get(&model).copied());
            limits.insert(model, limit);
        }
        *setup = self.setup(agent)?;
        Ok(())
    }

    /// Takes in that the agent's model replied to `sent` tokens: what a refusal taught does not hold for ever.
    fn widen(&self, agent: &Agent, setup: &mut Setup, sent: Tokens) -> Result<(), RunError> {
        {
            let mut limits = self.narrowed.lock().unwrap_or_else(PoisonError::into_inner);
            if limits.is_empty() {
                return Ok(());
            }
            let model = setup.budget.options().model.to_string();
            match limits.get_mut(&model).map(|limit| limit.take_reply(sent)) {
                None | Some(Lesson::Nothing) => return Ok(()),
                Some(Lesson::Raised) => {}
                Some(Lesson::Refuted) => drop(limits.remove(&model)),
            }
        }
        *setup = self.setup(agent)?;
        Ok(())
    }

    /// Books what a call consumed, in the report as the provider said it.
    fn book(
        &self,
        agent: &Agent,
        setup: &Setup,
        sent: Tokens,
        answer: &Result<Reply, Unanswered>,
        report: &mut RunReport,
    ) {
        let (said, reply) = match answer {
            Ok(reply) => (reply.usage, Some(&reply.message)),
            Err(Unanswered::FilledWindow { cut, .. }) => (cut.usage, Some(&cut.message)),
            Err(Unanswered::BrokeOff(_)) => (None, None),
            Err(Unanswered::Refused(_)) => return,
        };
        report.cost += Cost::of_call(setup.price.as_ref(), said);
        let usage = consumed(said, sent, reply, &*self.services.counter);
        self.ledger.add(&agent.id, spent(usage, setup.price.as_ref()));
    }

    async fn reply(&self, prompt: Prompt, price: Option<&Price>) -> Result<Reply, Unanswered> {
        self.tell(&RunEvent::Sending(&prompt));
        let limit = prompt.options().max_output_tokens;
        let span = self.chat_span(&prompt);
        let answer = chatting(span, self.services.providers.chat(prompt));
        let mut stream = answer.await.map_err(Unanswered::Refused)?;
        let mut parts = ReplyParts::default();
        while let Some(piece) = stream.next().await {
            let piece = match piece {
                Ok(piece) => piece,
                Err(error) => return self.salvage(parts, error, price),
            };
            if let Some(text) = &piece.content {
                self.tell(&RunEvent::Text(text));
            }
            if let Some(reasoning) = &piece.reasoning {
                self.tell(&RunEvent::Reasoning(reasoning));
            }
            parts.push(piece);
        }
        let filled_window = parts.finish_reason() == Some(&FinishReason::Window);
        let is_at_limit = limit.is_some_and(|limit| parts.completion_tokens() >= Some(limit));
        if !filled_window && is_at_limit && parts.ends_in_half_a_call() {
            // Some servers say of a reply that the output limit cut off that it has ended.
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
        self.tell_reply(&reply, price);
        Ok(reply)
    }

    /// What is whole of a reply that broke off: its calls can be run, and the next reply goes on from there.
    fn salvage(
        &self,
        parts: ReplyParts,
        error: ProviderError,
        price: Option<&Price>,
    ) -> Result<Reply, Unanswered> {
        let kept = if error.retry() == Retry::Never { None } else { parts.salvage() };
        let Some(reply) = kept else { return Err(Unanswered::BrokeOff(error)) };
        let n_calls = reply.message.calls().len();
        self.tell(&RunEvent::Notice(&format!("{error}; its {n_calls} whole tool calls are kept")));
        self.tell_reply(&reply, price);
        Ok(reply)
    }

    fn tell_reply(&self, reply: &Reply, price: Option<&Price>) {
        let cost = Cost::of_call(price, reply.usage);
        let usage = reply.usage.unwrap_or_default();
        tracing::info!(
            target: "forge::chat",
            prompt_tokens = usage.prompt_tokens.as_u64(),
            cached_tokens = usage.cached_tokens.as_u64(),
            cache_written_tokens = usage.cache_written_tokens.as_u64(),
            completion_tokens = usage.completion_tokens.as_u64(),
            %cost,
            "replied"
        );
        let finish_reason = &reply.finish_reason;
        self.tell(&RunEvent::Replied { usage: reply.usage, cost, finish_reason });
    }
}

/// What a server says of need and room, where a smaller prompt would mend what it refused.
const fn figures(error: &ProviderError) -> Option<(Option<Tokens>, Option<Tokens>)> {
    match error {
        ProviderError::ContextTooLong { need, window, .. } => Some((*need, *window)),
        ProviderError::OverRate { need, limit, .. } => Some((Some(*need), Some(*limit))),
        _ => None,
    }
}

/// How many tokens, by our count, to send where `sent` were too many. The server's figures, where it tells them, are by
/// its own count; only their ratio carries over.
fn lowered(sent: Tokens, need: Option<Tokens>, window: Option<Tokens>, believed: Tokens) -> Tokens {
    let fits = match (need.filter(|need| *need > Tokens::ZERO), window) {
        (Some(need), Some(window)) => sent.share(window.as_u64(), need.as_u64()),
        (None, Some(window)) => window,
        (_, None) => sent,
    };
    // Where the window is smaller than believed, the answer's share of it is yet to be kept free.
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
            let actual = lowered(Tokens::new(sent), tokens(need), tokens(window), Tokens::new(believed));
            assert_eq!(actual.as_u64(), expected, "{what}");
        }
    }
}
