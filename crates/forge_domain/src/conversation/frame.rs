//! The frame of a view, and the marks by which reasoning knows the view in which it was made.

use std::sync::Arc;

use super::reasoning::Bound;
use crate::{ContextMessage, Message, ReasoningCheck, Role, TokenCounter, ToolDefinition};

/// The part of a reply's view that stands before its messages: the model and its tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    mark: ViewMark,
    model: Arc<str>,
    check: ReasoningCheck,
}

/// A fingerprint of a view: of the model, the tools and the messages, as they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewMark(u64);

impl ViewMark {
    /// Returns the mark of nothing (FNV-1a): it is written into logs, so it has to be the same in every
    /// version.
    const EMPTY: Self = Self(0xcbf2_9ce4_8422_2325);

    fn and(self, bytes: &[u8]) -> Self {
        let mixed = |mark: u64, byte: &u8| (mark ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        Self(bytes.iter().fold(self.0, mixed))
    }

    fn to_text(self) -> String {
        format!("{:016x}", self.0)
    }
}

impl Frame {
    /// Returns the frame of prompts that ask `model`, named as `provider:model`, with `tools`.
    pub fn new(model: &str, check: ReasoningCheck, tools: &[ToolDefinition]) -> Self {
        let list = serde_json::to_vec(tools).unwrap_or_default();
        let mark = ViewMark::EMPTY.and(model.as_bytes()).and(&[0]).and(&list);
        Self { mark, model: model.into(), check }
    }

    /// Returns the positions of the messages whose reasoning is stale, and the mark of the view as it is sent
    /// without that.
    pub(super) fn examine(&self, messages: &[ContextMessage]) -> (Vec<usize>, ViewMark) {
        let needed = self.needed_position(messages);
        let mut stale = Vec::new();
        let mut mark = self.mark;
        for (position, message) in messages.iter().enumerate() {
            let bound = message.bound_reasoning();
            let is_stale = bound.is_some_and(|bound| needed != Some(position) && !self.has_made(bound, mark));
            if is_stale {
                stale.push(position);
            }
            let is_bare = is_stale || message.is_bare();
            if !(is_bare && message.says_only_reasoning()) {
                mark = self.extend(mark, message, is_bare);
            }
        }
        (stale, mark)
    }

    /// Returns the mark of the view with one more message. Where the model checks the view, reasoning that
    /// left is a change, too: a block between others must not be missing.
    fn extend(&self, view: ViewMark, message: &ContextMessage, is_bare: bool) -> ViewMark {
        // Ids are unique within a log, and what they name never changes.
        let id = message.id().map_or(u64::MAX, crate::MessageId::as_u64);
        let is_change = is_bare && self.check == ReasoningCheck::View;
        view.and(&id.to_le_bytes()).and(&[u8::from(is_change)])
    }

    /// Checks whether reasoning was made in the view of that mark.
    fn has_made(&self, bound: &Bound, view: ViewMark) -> bool {
        bound.is_of(&self.model, &view.to_text())
    }

    /// Returns the position of the exchange that the model has yet to continue, if it may need its reasoning
    /// whatever has changed.
    pub(super) fn needed_position(&self, messages: &[ContextMessage]) -> Option<usize> {
        let last = messages.iter().rposition(|message| message.role() == Role::Assistant)?;
        let bound = messages[last].bound_reasoning()?;
        let is_own = bound.may_be_demanded && bound.may_be_of(&self.model);
        let is_open = !messages[last].message().calls().is_empty();
        (self.check == ReasoningCheck::Own && is_own && is_open).then_some(last)
    }

    /// Returns the mark of the view that `messages` make, as they are sent.
    pub(super) fn mark(&self, messages: &[ContextMessage]) -> ViewMark {
        self.examine(messages).1
    }

    /// Checks whether `message`, after `before`, is sent with reasoning of another view.
    pub(super) fn is_stale(
        &self,
        before: &[ContextMessage],
        message: &ContextMessage,
        is_needed: bool,
    ) -> bool {
        let extend = |mark, message: &ContextMessage| self.extend(mark, message, message.is_bare());
        let mark = before.iter().fold(self.mark, extend);
        message.bound_reasoning().is_some_and(|bound| !is_needed && !self.has_made(bound, mark))
    }

    /// Returns `reply` with the mark of `view`, in which it was made, if it has reasoning that is bound to
    /// it.
    pub(super) fn bind(&self, view: ViewMark, reply: Message, counter: &dyn TokenCounter) -> Message {
        reply.made_in(&self.model, view.to_text(), counter)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::super::token_counter::Characters;
    use super::*;
    use crate::{
        Body, Budget, ChatOptions, Conversation, ModelId, ModelLimits, ModelRef, Prompt, ProviderId,
        THINKING_BLOCKS, Tokens, ToolCall, ToolName, ToolResult, stale_reasoning,
    };

    fn budget(model: &str, tools: &[&str]) -> Budget {
        let model = ModelRef { provider: ProviderId::new("p").unwrap(), model: ModelId::new(model).unwrap() };
        let limits = ModelLimits { window: Tokens::new(100_000), max_output: None };
        let tool = |name: &&str| ToolDefinition {
            name: ToolName::new(*name).unwrap(),
            description: "Does it.".into(),
            parameters: json!({}),
        };
        Budget::new(limits, ChatOptions::new(model), tools.iter().map(tool).collect(), &Characters)
    }

    /// Asks for a reply in `budget` and appends it: with reasoning, and with a call and its result for a `t`.
    fn ask(log: &mut Conversation, budget: &Budget, letter: char) {
        let prompt = budget.admit(log.view()).unwrap();
        assert_eq!(stale_reasoning(&prompt), []);
        let call = ToolCall { id: "c".into(), name: ToolName::new("look").unwrap(), arguments: "{}".into() };
        let mut reply =
            if letter == 't' { Message::calling(vec![call.clone()]) } else { Message::assistant("yes") };
        let block = json!([{"type": "thinking", "thinking": "", "signature": "s"}]);
        reply.extra.insert(THINKING_BLOCKS.to_owned(), block);
        log.append(ContextMessage::count(prompt.view().bind(reply, &Characters), &Characters));
        if letter == 't' {
            let result = Message::tool(ToolResult::answer(&call, "out"));
            log.append(ContextMessage::count(result, &Characters));
        }
    }

    fn log(budget: &Budget, letters: &str) -> Conversation {
        let mut log = Conversation::new();
        log.append(ContextMessage::count(Message::system("rules"), &Characters));
        log.append(ContextMessage::count(Message::user("hi"), &Characters));
        letters.chars().for_each(|letter| ask(&mut log, budget, letter));
        log
    }

    /// Returns a letter for each reply of the prompt: `+` with its reasoning, `-` without.
    fn thinking_sent(log: &Conversation, budget: &Budget) -> String {
        let prompt: Prompt = budget.admit(log.view()).unwrap();
        assert_eq!(stale_reasoning(&prompt), []);
        let count = |message: &ContextMessage| ContextMessage::count(message.message().clone(), &Characters);
        let counted: Tokens = prompt.messages().iter().map(|message| count(message).tokens()).sum();
        assert_eq!(prompt.tokens(), counted + crate::REQUEST_TOKENS + budget.tools_tokens());
        let replies = prompt.messages().iter().filter(|message| message.role() == Role::Assistant);
        replies.map(|reply| if reply.message().has_bound_reasoning() { '+' } else { '-' }).collect()
    }

    /// Replaces the message at `position` of the view.
    fn compact(log: &mut Conversation, position: usize) {
        let with = ContextMessage::count(log.view().messages()[position].message().clone(), &Characters);
        let view = log.view().within(budget("claude-fable-5-1", &[]).frame());
        let edited = view.edit(vec![crate::Edit::Shorten { position, with }]).numbered();
        log.record(&edited).unwrap();
        assert_eq!(log.refold(), log.view(), "the log has all reasoning");
    }

    #[test]
    fn reasoning_is_sent_in_its_view_alone() {
        let (fable, sonnet) = (budget("claude-fable-5-1", &["look"]), budget("claude-sonnet-5-5", &["look"]));
        let mut log = log(&fable, "tta");
        assert_eq!(thinking_sent(&log, &fable), "+++");
        assert_eq!(thinking_sent(&log, &sonnet), "---", "another model");
        assert_eq!(
            thinking_sent(&log, &budget("claude-fable-5-1", &["look", "read"])),
            "---",
            "another list of tools"
        );
        assert_eq!(thinking_sent(&log, &fable), "+++", "and back");
        // The result of the first call is cut: what was said before it stays, later replies have a new view.
        compact(&mut log, 3);
        assert_eq!(thinking_sent(&log, &fable), "+--");
        ask(&mut log, &fable, 't');
        assert_eq!(thinking_sent(&log, &fable), "+--+");
        ask(&mut log, &sonnet, 't');
        assert_eq!(thinking_sent(&log, &fable), "+--+-");
        assert_eq!(thinking_sent(&log, &sonnet), "----+");
        let read: Conversation = serde_json::from_str(&serde_json::to_string(&log).unwrap()).unwrap();
        assert_eq!(thinking_sent(&read, &fable), "+--+-", "the same in another process");
        log.undo().unwrap();
        assert_eq!(thinking_sent(&log, &fable), "+++--");
    }

    #[test]
    fn an_exchange_that_waits_keeps_its_reasoning_if_the_model_does_not_check_the_view() {
        for (model, expected) in [("claude-opus-4-5", "-+"), ("claude-opus-5-1", "--")] {
            let budget = budget(model, &["look"]);
            let mut log = log(&budget, "tt");
            compact(&mut log, 1);
            assert_eq!(thinking_sent(&log, &budget), expected, "{model}");
            ask(&mut log, &budget, 'a');
            assert_eq!(thinking_sent(&log, &budget), "--+", "{model}");
        }
    }

    #[test]
    fn nothing_is_sent_of_a_message_that_had_only_reasoning() {
        let fable = budget("claude-fable-5-1", &[]);
        let mut log = log(&fable, "a");
        let mut silent = Message::new(Body::Assistant { content: None, calls: Vec::new() });
        silent.extra.insert(THINKING_BLOCKS.to_owned(), json!([{"type": "redacted_thinking", "data": "x"}]));
        log.append(ContextMessage::count(silent, &Characters));
        let prompt = fable.admit(log.view()).unwrap();
        assert_eq!((log.view().messages().len(), prompt.messages().len()), (4, 3));
        ask(&mut log, &fable, 'a');
        let prompt = fable.admit(log.view()).unwrap();
        assert_eq!(stale_reasoning(&prompt), []);
        assert!(prompt.messages()[3].message().has_bound_reasoning());
    }

    #[test]
    fn a_message_that_is_stale_is_found() {
        let fable = budget("claude-fable-5-1", &[]);
        let mut log = log(&fable, "a");
        let prompt = fable.admit(log.view()).unwrap();
        assert_eq!(stale_reasoning(&prompt), []);
        ask(&mut log, &fable, 'a');
        let frame = budget("claude-fable-5-1", &["look"]);
        let view = log.view();
        let is_stale = |position: usize| {
            let (before, message) = (&view.messages()[..position], &view.messages()[position]);
            (frame.frame().is_stale(before, message, false), fable.frame().is_stale(before, message, false))
        };
        assert_eq!([2, 3].map(is_stale), [(true, false); 2]);
        assert_eq!([0, 1].map(is_stale), [(false, false); 2]);
    }
}
