//! Work that the chat offers to do, and the user decides on by a key or in words.

use forge_domain::Mode;

use super::attendant::{Attendant, Attended};
use super::line_editor::{Line, LineEditor};
use crate::output;

/// The answer to the offer to continue an unfinished turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// It continues.
    Continue,
    /// Nothing happens.
    Leave,
    /// This message, or command, comes in its place.
    Instead(String),
}

/// The answer to the offer to carry out a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// It is carried out, in this mode.
    CarryOut(Mode),
    /// The agent keeps planning.
    Leave,
    /// This message comes first, such as what to change, or this command.
    Change(String),
}

/// Asks whether to continue an unfinished turn: the user may have stopped it on purpose.
pub(super) async fn offer_rest(attendant: &mut Attendant, editor: &mut LineEditor) -> Attended<Rest> {
    const PROMPT: &str = "[y] yes  [n] no  [Space] say what to do instead >";
    let question = "? The last turn is not finished. Continue it?";
    decide(attendant, editor, question, PROMPT).await.map(|answer| match answer.to_lowercase().as_str() {
        "y" | "yes" => Rest::Continue,
        "" | "n" | "no" => Rest::Leave,
        _ => Rest::Instead(answer),
    })
}

/// Asks whether the plan that was just given is to be carried out.
pub(super) async fn offer_plan(attendant: &mut Attendant, editor: &mut LineEditor) -> Attended<Plan> {
    const PROMPT: &str = "[y] yes, edit freely  [a] yes, but ask  [n] keep planning  [Space] change it >";
    let answer = decide(attendant, editor, "? Carry out this plan?", PROMPT).await;
    answer.map(|answer| match answer.to_lowercase().as_str() {
        "y" | "yes" => Plan::CarryOut(Mode::Edits),
        "a" => Plan::CarryOut(Mode::Ask),
        "" | "n" | "no" => Plan::Leave,
        _ => Plan::Change(answer),
    })
}

/// Asks the user to decide. Returns an empty answer if the user gives none.
async fn decide(
    attendant: &mut Attendant,
    editor: &mut LineEditor,
    question: &str,
    prompt: &str,
) -> Attended<String> {
    if attendant.has_keys {
        let answer = attendant.screen.question(question, prompt);
        return attendant.attend_answer(answer).await.map(Option::unwrap_or_default);
    }
    output::say(&format!("{question}\n  {}", prompt.trim_end_matches(" >")));
    tokio::select! {
        line = editor.read(String::new(), String::new()) => match line {
            Line::Entered(answer) => Attended::Done(answer.trim().to_owned()),
            _ => Attended::Stopped,
        },
        Some(signal) = attendant.signals.recv() => Attended::Ended(signal),
    }
}
