//! The question at a terminal whether a project's file is trusted.

use console::style;

use super::About;
use crate::terminal::person::{self, Paged};

/// The user's answer about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is trusted until it changes.
    Keep,
    /// It is trusted this once.
    Once,
    /// Its demands are left out.
    Without,
    /// Nothing is started.
    Stop,
}

const PROMPT: &str = "[y] trust it until it changes  [o] this once  [w] continue without  [n] stop >";

/// Asks the user; `None` if there is no terminal.
pub(super) fn ask(about: &About<'_>) -> Option<Answer> {
    if !person::is_there() {
        return None;
    }
    let heading = format!("{} {}", style("?").yellow().for_stderr(), about.heading());
    let lines = std::iter::once(heading).chain(about.list()).collect();
    let answer = person::answer_to(Paged { lines, prompt: PROMPT }).ok()?;
    Some(answer.map_or(Answer::Stop, |answer| read(&answer)))
}

fn read(answer: &str) -> Answer {
    match answer.to_lowercase().as_str() {
        "y" | "yes" => Answer::Keep,
        "o" | "once" => Answer::Once,
        "w" | "without" => Answer::Without,
        _ => Answer::Stop,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn only_what_is_said_is_given() {
        for (answer, expected) in [
            ("y", Answer::Keep),
            ("YES", Answer::Keep),
            ("o", Answer::Once),
            ("w", Answer::Without),
            ("n", Answer::Stop),
            ("", Answer::Stop),
            ("perhaps", Answer::Stop),
        ] {
            assert_eq!(read(answer), expected, "{answer}");
        }
    }
}
