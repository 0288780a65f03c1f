//! The client of the model that writes summaries: its requests, as many as its window demands, and the check
//! of each answer. Apart from the strategy because that decides which runs leave, and asks nothing itself.

use std::ops::Range;

use futures::StreamExt;

use super::answer::{in_tag, is_in_tag, summary_in, up_to_last_end};
use super::plan::Run;
use super::quotes::{quote, share_of_quotes, split_quotes, with_quotes};
use super::relation::is_about;
use super::repetition::before_loop;
use crate::compaction::atoms::{atoms, with_atoms};
use crate::compaction::originals::originals;
use crate::compaction::short_text::{head_and_tail, readable_text, within_tag};
use crate::compaction::{
    CompactionRules, CompactionServices, Focus, StrategyError, SummaryInput, SummaryTag,
};
use crate::{
    Body, Budget, ChatOptions, Context, ContextMessage, Edit, FinishReason, Group, Message, MessageId,
    Prompt, ReplyParts, Role, Span, StillOver, Tokens,
};

/// A client of one model that asks it for summaries.
pub(super) struct Summarizer<'a> {
    rules: &'a CompactionRules,
    services: &'a dyn CompactionServices,
    budget: Budget,
    tag: SummaryTag,
    /// The messages of the context as they were before results were cleared.
    originals: Vec<ContextMessage>,
    /// The first user message.
    goal: Option<String>,
    /// The latest user message, if it is another one.
    request: Option<String>,
}

impl<'a> Summarizer<'a> {
    pub(super) fn new(
        rules: &'a CompactionRules,
        services: &'a dyn CompactionServices,
        context: &Context,
    ) -> Result<Self, StrategyError> {
        let Some(id) = &rules.summary.model else {
            return Err(StrategyError::Other("no model is set for summaries".into()));
        };
        let model = services.model(id).map_err(StrategyError::NoSummarizer)?;
        let options = ChatOptions {
            max_output_tokens: Some(rules.summary.max_tokens),
            request: model.request.for_text(),
            is_dispensable: true,
            ..ChatOptions::new(model.reference)
        };
        let budget = Budget::new(model.limits, options, Vec::new(), services.counter());
        let tag = rules.summary.tag.clone();
        let (first, latest) = (context.first_user(), context.latest_user());
        let shown = SHOWN_CHARS.min(budget.room().as_u64() / 8) as usize;
        let text = |at: usize| head_and_tail(&readable_text(context.messages()[at].message()), shown);
        let request = latest.filter(|_| latest != first).map(text);
        let originals = originals(context, services);
        Ok(Self { rules, services, budget, tag, originals, goal: first.map(text), request })
    }

    /// Returns the summary that replaces `run`, of about `most` tokens.
    pub(super) async fn replace(&self, context: &Context, run: &Run, most: Tokens) -> Replaced {
        // A summary that is hardly smaller than its run would be paid for in vain.
        let asked = most.min(run.tokens.share(1, 2));
        let mut summary = self.summarize(context, run, asked).await;
        let edit = summary.n_groups.checked_sub(1).map(|last| {
            let span = context.groups().span(run.groups.start..run.groups.start + last + 1);
            self.edit(context, span, &summary, most)
        });
        match edit {
            Some(Ok(edit)) => Replaced { edit: Some(edit), failure: summary.failure },
            Some(Err(failure)) => Replaced { edit: None, failure: Some(failure) },
            None => Replaced { edit: None, failure: summary.failure.take() },
        }
    }

    /// Returns the edit that puts `summary` in the place of `span`: the user's words in it, what the model
    /// wrote, and the facts that it lacks if they do not make it larger than the span.
    fn edit(
        &self,
        context: &Context,
        span: Span,
        summary: &Summary,
        most: Tokens,
    ) -> Result<Edit, StrategyError> {
        let (messages, counter) = (&context.messages()[span.range()], self.services.counter());
        let said = messages.iter().filter(|message| message.starts_turn()).map(quote);
        let quotes: Vec<String> = summary.quotes.iter().cloned().chain(said).collect();
        let whole = with_atoms(summary.text.clone(), &atoms(messages), most, counter);
        let tokens: Tokens = messages.iter().map(ContextMessage::tokens).sum();
        let tag = self.tag.as_str();
        let beginning = self.beginning_within(&summary.text, tokens);
        let with = [Some(&whole), Some(&summary.text), beginning.as_ref()]
            .into_iter()
            .flatten()
            .map(|text| with_quotes(&quotes, text, share_of_quotes(self.rules), counter))
            .map(|text| format!("<{tag}>\n{}\n</{tag}>", within_tag(&text, tag)))
            .map(|text| ContextMessage::count(Message::assistant(text).compacted(), counter))
            .find(|message| message.tokens() < tokens)
            .ok_or(StrategyError::SummaryInflated)?;
        Ok(Edit::Fold { span, with: vec![with] })
    }

    /// Asks for the summary of `run`: one request, or as many as the summarizer's window demands, each with
    /// the summary so far. A summary at the start of the run is merged into the new one. If a later request
    /// fails, what was summed up until then is returned.
    async fn summarize(&self, context: &Context, run: &Run, most: Tokens) -> Summary {
        let groups = context.groups().iter().skip(run.groups.start).take(run.groups.len());
        let groups: Vec<Range<usize>> = groups.map(Group::range).collect();
        let earlier = self.earlier_summaries(context, &groups);
        let (mut quotes, mut texts) = (Vec::new(), Vec::new());
        for (theirs, text) in &earlier {
            quotes.extend(theirs.iter().cloned());
            texts.push(text.as_str());
        }
        let mut summary = Summary { text: texts.join("\n\n"), quotes, n_groups: 0, failure: None };
        let mut n_groups = earlier.len();
        while n_groups < groups.len() {
            let so_far = Some(summary.text.as_str()).filter(|text| !text.is_empty());
            let asked = match self.largest_request(&self.originals, &groups[n_groups..], so_far, most) {
                Ok((n_more, prompt)) => self.ask(prompt).await.map(|text| (n_more, text)),
                Err(error) => Err(error),
            };
            let asked = asked.and_then(|(n_more, text)| {
                let read = &self.originals[groups[n_groups].start..groups[n_groups + n_more - 1].end];
                if is_about(&text, read, so_far) {
                    Ok((n_more, text))
                } else {
                    Err(StrategyError::SummaryUnrelated)
                }
            });
            match asked {
                Ok((n_more, text)) => {
                    n_groups += n_more;
                    (summary.text, summary.n_groups) = (text, n_groups);
                }
                Err(failure) => {
                    summary.failure = Some(failure);
                    break;
                }
            }
        }
        summary
    }

    /// Returns the summaries at the start of the run: the user's words in each, and its text.
    fn earlier_summaries(&self, context: &Context, groups: &[Range<usize>]) -> Vec<(Vec<String>, String)> {
        let summary = |group: &Range<usize>| {
            let message = context.messages()[group.start].message();
            let text = (message.role() == Role::Assistant).then(|| message.to_text())?;
            // Only the default tag is recognized when a file is read.
            let is_written = || message.calls().is_empty() && is_in_tag(&text, self.tag.as_str());
            if !message.is_compacted && !is_written() {
                return None;
            }
            let (quotes, text) = split_quotes(in_tag(&text, self.tag.as_str())?);
            Some((quotes, text.to_owned()))
        };
        groups.iter().map_while(summary).collect()
    }

    /// Builds the request for as many of `groups` as fit the summarizer, from the first on.
    fn largest_request(
        &self,
        messages: &[ContextMessage],
        groups: &[Range<usize>],
        earlier: Option<&str>,
        most: Tokens,
    ) -> Result<(usize, Prompt), StrategyError> {
        let mut n_groups = groups.len();
        loop {
            let range = groups.first().map_or(0..0, |first| first.start..groups[n_groups - 1].end);
            let messages: Vec<&Message> = messages[range].iter().map(ContextMessage::message).collect();
            match self.request(messages.clone(), earlier, most)? {
                Ok(prompt) => return Ok((n_groups, prompt)),
                Err(over) if n_groups > 1 => n_groups = smaller(n_groups, &over),
                Err(over) => {
                    return self.shortened_request(&messages, earlier, most, over).map(|prompt| (1, prompt));
                }
            }
        }
    }

    /// Builds the request for one group that is too long for the summarizer, with its texts cut to head and
    /// tail.
    fn shortened_request(
        &self,
        messages: &[&Message],
        earlier: Option<&str>,
        most: Tokens,
        mut over: StillOver,
    ) -> Result<Prompt, StrategyError> {
        let longest = messages.iter().flat_map(|message| texts(message)).map(|text| text.chars().count());
        let longest = longest.max().unwrap_or(0);
        let mut keep = longest;
        while keep > 0 {
            keep = smaller(keep, &over);
            let short: Vec<Message> = messages.iter().map(|message| shorten(message, keep)).collect();
            match self.request(short.iter().collect(), earlier, most)? {
                Ok(prompt) => return Ok(prompt),
                Err(still) => over = still,
            }
        }
        Err(StrategyError::SummarizerWindow(over))
    }

    fn request(
        &self,
        messages: Vec<&Message>,
        earlier: Option<&str>,
        most: Tokens,
    ) -> Result<Result<Prompt, StillOver>, StrategyError> {
        let summarization = SummaryInput {
            messages,
            goal: self.goal.as_deref(),
            request: self.request.as_deref(),
            earlier_summary: earlier,
            focus: self.rules.focus.as_ref().map(Focus::as_str),
            summary_tag: self.tag.as_str(),
            summary_max_tokens: most.as_u64(),
        };
        let templates = self.services.templates();
        let text = templates
            .render_summarization(self.rules.summary.prompt.as_deref(), &summarization)
            .map_err(StrategyError::Template)?;
        let message = ContextMessage::count(Message::user(text), self.services.counter());
        Ok(self.budget.admit(Context::new(vec![message], MessageId::FIRST, 0)))
    }

    /// Returns the summary that the model writes, without its tag.
    async fn ask(&self, prompt: Prompt) -> Result<String, StrategyError> {
        let mut stream = self.services.providers().chat(prompt).await.map_err(StrategyError::Provider)?;
        let mut parts = ReplyParts::default();
        while let Some(piece) = stream.next().await {
            parts.push(piece.map_err(StrategyError::Provider)?);
        }
        let reply = parts.finish().map_err(StrategyError::Provider)?;
        let text = reply.message.to_text();
        let summary = summary_in(&text, self.tag.as_str());
        match (before_loop(summary), reply.finish_reason) {
            (_, FinishReason::ContentFilter) => Err(StrategyError::SummaryWithheld),
            (Some(before), _) => self.beginning(before).ok_or(StrategyError::SummaryRepeats),
            (None, FinishReason::Length | FinishReason::Window) => {
                self.beginning(summary).ok_or(StrategyError::SummaryTruncated)
            }
            _ if summary.is_empty() => Err(StrategyError::SummaryEmpty),
            (None, FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Other(_)) => {
                Ok(summary.to_owned())
            }
        }
    }

    /// Returns the whole sentences at the start of a text that take about half of `tokens`; `None` if they
    /// are too few to be useful.
    fn beginning_within(&self, text: &str, tokens: Tokens) -> Option<String> {
        let is_of = self.services.counter().count(text).as_u64().max(1);
        let keep = text.chars().count() as u64 * tokens.share(1, 2).as_u64() / is_of;
        let end = text.char_indices().nth(keep as usize).map_or(text.len(), |(end, _)| end);
        self.beginning(&text[..end])
    }

    /// Returns the whole sentences of a text that is not whole; `None` if they are too few to be useful.
    fn beginning(&self, text: &str) -> Option<String> {
        let whole = up_to_last_end(text);
        (self.services.counter().count(whole) >= SUBSTANCE).then(|| whole.to_owned())
    }
}

/// The result for one run.
pub(super) struct Replaced {
    /// The summary in its place; `None` if it stays as it is.
    pub(super) edit: Option<Edit>,
    /// The reason why it stays, or why only its beginning was summed up.
    pub(super) failure: Option<StrategyError>,
}

/// The summary of the beginning of a run, or of all of it.
struct Summary {
    /// The text that the model wrote.
    text: String,
    /// The user's words in earlier summaries, oldest first.
    quotes: Vec<String>,
    /// The number of groups that it replaces.
    n_groups: usize,
    /// The reason why it ends there, if that is not the end of the run.
    failure: Option<StrategyError>,
}

/// An answer that broke off at the limit of the output, or that repeats itself from some place on, is used up
/// to there if that has at least as many tokens.
const SUBSTANCE: Tokens = Tokens::new(100);
/// Most characters of the goal and of the latest request that the model is shown.
const SHOWN_CHARS: u64 = 4_000;

/// Returns the texts of a message that may be long: its content, and the arguments of its calls.
fn texts(message: &Message) -> Vec<String> {
    std::iter::once(message.to_text())
        .chain(message.calls().iter().map(|call| call.arguments.clone()))
        .collect()
}

/// Returns the message with `keep` characters of each of its texts. Only the summarizer reads it.
fn shorten(message: &Message, keep: usize) -> Message {
    let mut short = match message.content() {
        Some(_) => message.with_content(head_and_tail(&message.to_text(), keep)),
        None => message.clone(),
    };
    if let Body::Assistant { calls, .. } = &mut short.body {
        for call in calls {
            call.arguments = head_and_tail(&call.arguments, keep);
        }
    }
    short
}

/// Returns a smaller number of things, in proportion to the excess of the request; zero once there is no
/// smaller one.
fn smaller(n: usize, over: &StillOver) -> usize {
    let share = n as u64 * over.have.as_u64() / over.need.as_u64().max(1);
    (share as usize).min(n - 1).max(usize::from(n > 1))
}
