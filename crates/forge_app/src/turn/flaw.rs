//! Replies that are not an answer: cut off at the output limit, empty, with a call as text, or with one that
//! the server could not read. The model gets a note and is asked again, a few times at most.

use forge_domain::{
    Agent, CUT_CALLS, Conversation, FinishReason, Message, ProviderError, Role, Tokens, ToolDefinition,
    ToolName, quantity,
};

use super::written_call::{WrittenCall, written_call};
use super::{Received, Turn};
use crate::engine::newest_first;
use crate::{RunError, StopReason};

/// Most replies in a row that may be cut off before the turn ends.
const MOST_CUT: usize = 3;
/// Most replies in a row that may be empty, or without the call that they announce, before the turn ends.
const MOST_EMPTY: usize = 4;
/// Most notes in a row about calls that the server could not read, before the turn ends.
const MOST_UNREAD: usize = 3;
/// The most characters of a server's words in a note.
const SERVER_WORDS: usize = 300;
/// The author of notes about calls that were not made.
const UNCALLED: &str = "uncalled";
/// The author of notes about calls that the server could not read.
const UNREAD: &str = "unread";

/// A reason why a reply is not an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// Its text was cut off, and it called nothing.
    CutAnswer,
    /// The same, in a turn that called tools before: its text may be on the way to the next call.
    CutText,
    /// It was cut off in the call of this tool, or before it had any text.
    Cut(Option<ToolName>),
    /// It has no text and no call.
    Empty,
    /// It has no call, but wrote one as text, of this tool if it names one that is there.
    Uncalled(Option<ToolName>),
    /// It has no call, but ended as if it had one.
    NoCall,
}

impl Flaw {
    /// Returns the flaw of a reply with `text` and `n_calls` complete calls; `None` if it can be used as it
    /// is.
    pub(super) fn of(
        text: &str,
        n_calls: usize,
        cut_calls: &[ToolName],
        finish_reason: &FinishReason,
    ) -> Option<Self> {
        let is_blank = n_calls == 0 && text.trim().is_empty();
        if n_calls == 0 && *finish_reason == FinishReason::Window {
            // Smaller prompts were tried before: the window has no more space for an answer.
            Some(Self::CutAnswer)
        } else if let Some(tool) = cut_calls.first() {
            Some(Self::Cut(Some(tool.clone())))
        } else if finish_reason.is_cut_off() {
            // What is complete of it can be run, and the next reply shows what is missing.
            let flaw = if is_blank { Self::Cut(None) } else { Self::CutAnswer };
            Some(flaw).filter(|_| n_calls == 0)
        } else {
            Some(Self::Empty).filter(|_| is_blank && *finish_reason != FinishReason::ContentFilter)
        }
    }

    /// Returns the flaw of a reply with `text` and no call that was to have one of `tools`.
    pub(super) fn uncalled(
        text: &str,
        finish_reason: &FinishReason,
        tools: &[ToolDefinition],
    ) -> Option<Self> {
        match written_call(text, tools) {
            Some(WrittenCall::Of(tool)) => Some(Self::Uncalled(Some(tool.clone()))),
            Some(WrittenCall::Unnamed) => Some(Self::Uncalled(None)),
            None => (*finish_reason == FinishReason::ToolCalls).then_some(Self::NoCall),
        }
    }

    /// Returns the flaw as it counts at the end of `log`: a text that was cut off amid work is continued,
    /// unless it filled the window.
    pub(super) fn in_turn(self, log: &Conversation, finish_reason: &FinishReason) -> Self {
        match self {
            Self::CutAnswer if *finish_reason == FinishReason::Length && has_called(log) => Self::CutText,
            flaw => flaw,
        }
    }

    /// Returns the number of such replies in a row after which the turn ends.
    const fn most(&self) -> usize {
        match self {
            Self::CutAnswer => 1,
            Self::CutText | Self::Cut(_) => MOST_CUT,
            Self::Empty | Self::Uncalled(_) | Self::NoCall => MOST_EMPTY,
        }
    }

    /// Returns the author of the note about it, in the conversation.
    const fn author(&self) -> &'static str {
        match self {
            Self::CutAnswer | Self::CutText | Self::Cut(_) => "cut",
            Self::Empty => "empty",
            Self::Uncalled(_) | Self::NoCall => UNCALLED,
        }
    }

    /// Returns the note for the model. `n_tokens` is the length of the reply, if it is known.
    fn note(&self, agent: &Agent, n_tokens: Option<Tokens>) -> String {
        let at = match n_tokens {
            Some(tokens) => format!("at {}, the most that one reply may have", quantity(tokens, "token")),
            None => "at the limit of what one reply may have".to_owned(),
        };
        match self {
            Self::CutAnswer => {
                format!(
                    "[Your reply was cut off {at}. Continue exactly where it stopped, or answer in fewer words.]"
                )
            }
            Self::CutText => format!(
                "[Your reply was cut off {at}. Continue exactly where it stopped, in fewer words, or call the next tool.]"
            ),
            Self::Cut(None) => format!(
                "[Your reply was cut off {at}, before it said anything or called a tool. Think less before you answer, or \
                 take a smaller step.]"
            ),
            Self::Cut(Some(tool)) => format!(
                "[Your reply was cut off {at}, in the middle of a call of `{tool}`. That call did not run. The same call would \
                 be cut off again: {}]",
                advice(agent)
            ),
            Self::Empty => {
                "[Your last reply was empty. Say what you found or did, or call a tool.]".to_owned()
            }
            Self::Uncalled(Some(tool)) => format!(
                "[Your reply has a call of `{tool}` as text. Nothing was called. Call the tool itself, or answer without \
                 such text.]"
            ),
            Self::Uncalled(None) => {
                "[Your reply has a tool call as text. Nothing was called. Call the tool itself, or \
                 answer without such text.]"
                    .to_owned()
            }
            Self::NoCall => {
                "[Your reply ended as if it called a tool, but it has no call. Call the tool, or answer.]"
                    .to_owned()
            }
        }
    }

    /// Returns why the turn ends after this flaw occurred `times` in a row; `None` if the model is asked
    /// again.
    fn stop_reason(&self, times: usize) -> Option<StopReason> {
        (times >= self.most()).then_some(match self {
            Self::CutAnswer | Self::CutText | Self::Cut(_) => StopReason::Cut,
            Self::Empty | Self::Uncalled(_) | Self::NoCall => StopReason::NoAnswer,
        })
    }

    /// Returns the notice for the user.
    fn notice(&self, times: usize, n_tokens: Option<Tokens>, stop: Option<&StopReason>) -> Option<String> {
        let at = n_tokens.map_or_else(String::new, |tokens| format!(" at {}", quantity(tokens, "token")));
        let most = self.most();
        let place = match self {
            Self::CutAnswer => return None,
            Self::Empty if stop.is_some() => return None,
            Self::Empty => {
                return Some(format!(
                    "the model's reply was empty ({times} of {most} in a row); it is called once more"
                ));
            }
            Self::Uncalled(_) | Self::NoCall => {
                let what = match self {
                    Self::Uncalled(Some(tool)) => format!("the model wrote a call of `{tool}` as text"),
                    Self::Uncalled(None) => "the model wrote a tool call as text".to_owned(),
                    _ => "the model's reply ended with a call, but has none".to_owned(),
                };
                return Some(format!(
                    "{what} ({times} of {most} in a row); the server may need a chat template with tools"
                ));
            }
            Self::CutText => "in its text".to_owned(),
            Self::Cut(Some(tool)) => format!("in the middle of a call of `{tool}`"),
            Self::Cut(None) => "before it said anything".to_owned(),
        };
        Some(format!(
            "the reply was cut off{at} {place} ({times} of {MOST_CUT} in a row); a larger `max_output_tokens` helps"
        ))
    }
}

/// Returns the note for the model about a call that the server could not read, with the server's words.
fn unread_note(agent: &Agent, words: &str) -> String {
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut said: String = words.chars().take(SERVER_WORDS).collect();
    if said.len() < words.len() {
        said.push('…');
    }
    let advice = advice(agent);
    format!(
        "[The server could not read the tool call in your last reply, so nothing was called. It reports: \"{said}\". Call the \
         tool again, in the form that the tools are described in, with arguments that are valid. A shorter call is easier \
         to get right: {advice}]"
    )
}

/// Returns advice on how an agent can do it with shorter replies.
fn advice(agent: &Agent) -> &'static str {
    let has = |name: &str| agent.tools.iter().flatten().any(|tool| tool.as_str() == name);
    match (has("write"), has("patch")) {
        (true, true) => {
            "write a long file in parts, the first with `write` and each further one with `patch`, and change a file that is \
             there with `patch` alone."
        }
        (false, true) => "change a file in several calls of `patch`, a part with each.",
        _ => "do it in several calls, a part with each.",
    }
}

impl Turn<'_, '_> {
    /// Appends a note about the flaw of the last reply, if it has one. Returns why the turn ends if asking
    /// again does not help. All that decides is in the conversation, so that a resumed run decides the same.
    pub(super) async fn note_flaw(&mut self, received: &Received) -> Option<StopReason> {
        let flaw = received.flaw.as_ref()?;
        let n_tokens =
            received.usage.map(|usage| usage.completion_tokens).filter(|tokens| *tokens > Tokens::ZERO);
        let n_tokens = n_tokens.or(self.setup.limits.budget.options().max_output_tokens);
        // If the run ended for this and was resumed, the count starts again.
        let times = times_in_a_row(&self.work.conversation, flaw.author()) % flaw.most() + 1;
        self.append(Message::note(flaw.author(), flaw.note(self.agent, n_tokens)));
        let stop = flaw.stop_reason(times);
        if let Some(notice) = flaw.notice(times, n_tokens, stop.as_ref()) {
            self.engine.events.notice(&notice);
        }
        self.save_session().await;
        stop
    }
}

/// Appends a note about a call that the server could not read, which is all that there is of the reply.
///
/// # Errors
/// `error`, if the model was told a few times in a row.
pub(super) async fn note_unread(turn: &mut Turn<'_, '_>, error: ProviderError) -> Result<(), RunError> {
    let times = times_in_a_row(&turn.work.conversation, UNREAD) % MOST_UNREAD + 1;
    let words = match &error {
        ProviderError::UnreadableCall { message, .. } => message.clone(),
        error => error.to_string(),
    };
    turn.append(Message::note(UNREAD, unread_note(turn.agent, &words)));
    turn.save_session().await;
    if times >= MOST_UNREAD {
        return Err(RunError::Provider(error));
    }
    let told = format!("{error}; the model is told ({times} of {MOST_UNREAD} in a row)");
    turn.engine.events.notice(&told);
    Ok(())
}

/// Checks whether a tool was called since the user's latest message.
fn has_called(log: &Conversation) -> bool {
    newest_first(log)
        .take_while(|message| message.role() != Role::User || message.note_by().is_some())
        .any(|message| !message.calls().is_empty())
}

/// Returns how many of the replies before the last one had a note by `author`, without another reply between
/// them. A blank reply is not in the log; one that is there names the calls that were cut off.
fn times_in_a_row(log: &Conversation, author: &str) -> usize {
    let mut times = 0;
    for message in newest_first(log) {
        match (message.note_by(), message.role()) {
            (Some(by), _) if by == author => times += 1,
            (None, Role::Assistant) if message.metadata.contains_key(CUT_CALLS) => {}
            // These replies are in the log; an answer without a flaw ends the turn.
            (None, Role::Assistant) if message.calls().is_empty() => {}
            (Some("cut" | "empty" | UNCALLED | UNREAD), _) | (None, Role::Assistant | Role::User) => break,
            (Some(_), _) | (None, Role::Tool | Role::System) => {}
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use forge_domain::{ContextMessage, TokenCounter, ToolCall, ToolResult};
    use pretty_assertions::assert_eq;

    use super::*;

    struct Nothing;
    impl TokenCounter for Nothing {
        fn count(&self, _: &str) -> Tokens {
            Tokens::ZERO
        }
    }

    fn tool(name: &str) -> ToolName {
        ToolName::new(name).unwrap()
    }

    #[test]
    fn a_reply_that_is_no_answer_has_a_flaw() {
        let cut = || Some(Flaw::Cut(Some(tool("write"))));
        for (text, n_calls, cut_calls, reason, expected) in [
            ("done", 0, vec![], FinishReason::Stop, None),
            ("", 1, vec![], FinishReason::ToolCalls, None),
            (" \n", 0, vec![], FinishReason::Stop, Some(Flaw::Empty)),
            ("", 0, vec![], FinishReason::Other("odd".into()), Some(Flaw::Empty)),
            ("", 0, vec![], FinishReason::ContentFilter, None),
            ("so", 0, vec![], FinishReason::Length, Some(Flaw::CutAnswer)),
            ("", 0, vec![], FinishReason::Length, Some(Flaw::Cut(None))),
            ("so", 0, vec![tool("write")], FinishReason::Length, cut()),
            ("", 1, vec![tool("write")], FinishReason::Length, cut()),
            ("so", 1, vec![], FinishReason::Length, None),
            ("", 0, vec![tool("write")], FinishReason::Window, Some(Flaw::CutAnswer)),
        ] {
            assert_eq!(
                Flaw::of(text, n_calls, &cut_calls, &reason),
                expected,
                "{text:?} {n_calls} {reason:?}"
            );
        }
    }

    /// Builds a conversation from letters: `a`nswer, answer with a `t`ool's call, its `r`esult, `u`ser, and
    /// notes by `c`ut, `e`mpty, u`n`called, unread (`w`) and `h`ook. For a capital letter a call was cut off.
    fn conversation(letters: &str) -> Conversation {
        let mut conversation = Conversation::new();
        let call = ToolCall { id: "1".into(), name: tool("read"), arguments: "{}".into() };
        for letter in letters.chars() {
            let mut message = match letter.to_ascii_lowercase() {
                'a' => Message::assistant("a"),
                't' => Message::calling(vec![call.clone()]),
                'r' => Message::tool(ToolResult::answer(&call, "r")),
                'u' => Message::user("u"),
                'c' => Message::note("cut", "c"),
                'e' => Message::note("empty", "e"),
                'n' => Message::note(UNCALLED, "n"),
                'w' => Message::note(UNREAD, "w"),
                _ => Message::note("hook", "h"),
            };
            if letter.is_ascii_uppercase() {
                message.metadata.insert(CUT_CALLS.to_owned(), vec!["write"].into());
            }
            conversation.append(ContextMessage::count(message, &Nothing));
        }
        conversation
    }

    #[test]
    fn a_text_that_was_cut_off_amid_work_is_continued() {
        for (letters, reason, expected) in [
            ("u", FinishReason::Length, Flaw::CutAnswer),
            ("utr", FinishReason::Length, Flaw::CutText),
            ("utrac", FinishReason::Length, Flaw::CutText),
            ("utr", FinishReason::Window, Flaw::CutAnswer),
            ("utrau", FinishReason::Length, Flaw::CutAnswer),
        ] {
            assert_eq!(Flaw::CutAnswer.in_turn(&conversation(letters), &reason), expected, "{letters}");
        }
        assert_eq!(Flaw::Empty.in_turn(&conversation("utr"), &FinishReason::Length), Flaw::Empty);
    }

    #[test]
    fn only_what_follows_each_other_counts() {
        for (letters, expected) in [
            ("", 0),
            ("ua", 0),
            ("uc", 1),
            ("uAcAcA", 2),
            ("uTrcuc", 1),
            ("uTrcTrcTr", 2),
            ("uTrctrc", 1),
            ("ucctrcc", 2),
            ("ucc", 2),
            ("uTrhccAc", 3),
            ("uchc", 2),
            ("ucec", 1),
            ("uctr", 0),
            ("utraca", 1),
            ("utracaca", 2),
            ("utracua", 0),
        ] {
            assert_eq!(times_in_a_row(&conversation(letters), "cut"), expected, "{letters}");
        }
        for (letters, expected) in [("uw", 1), ("utrww", 2), ("utrwtrw", 1), ("utrwe", 0)] {
            assert_eq!(times_in_a_row(&conversation(letters), UNREAD), expected, "{letters}");
        }
        for (letters, expected) in [("ua", 0), ("uana", 1), ("uanana", 2), ("uanatra", 0), ("uanua", 0)] {
            assert_eq!(times_in_a_row(&conversation(letters), UNCALLED), expected, "{letters}");
        }
    }
}
