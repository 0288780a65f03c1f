//! The effect of Ctrl-C: once, it stops the current work; twice, it ends the chat.

use std::time::Duration;

/// The time within which a second Ctrl-C counts as a repetition.
const SOON: Duration = Duration::from_secs(2);

/// The recent Ctrl-C presses. Times are measured from any fixed moment.
#[derive(Debug, Default)]
pub(super) struct Stops {
    last: Option<Duration>,
    /// True if one was pressed at the current empty prompt.
    is_warned: bool,
}

/// The effect of one press.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The current work is stopped.
    Action,
    /// The typed text is discarded.
    Text,
    /// The user is told how to end the chat.
    Warning,
    /// The chat ends.
    Chat,
}

impl Stops {
    /// Handles a press at `now` during work.
    pub(super) fn at_work(&mut self, now: Duration) -> Stop {
        if self.is_second(now) { Stop::Chat } else { Stop::Action }
    }

    /// Handles a press at `now` at an empty prompt.
    pub(super) fn at_empty_prompt(&mut self, now: Duration) -> Stop {
        if self.is_second(now) || std::mem::replace(&mut self.is_warned, true) {
            Stop::Chat
        } else {
            Stop::Warning
        }
    }

    /// Handles a press at a prompt with text.
    pub(super) fn at_text(&mut self) -> Stop {
        self.went_on();
        Stop::Text
    }

    /// Resets the state, because something else was typed.
    pub(super) fn went_on(&mut self) {
        *self = Self::default();
    }

    fn is_second(&mut self, now: Duration) -> bool {
        self.last.replace(now).is_some_and(|last| now.saturating_sub(last) <= SOON)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn once_stops_what_goes_on_and_twice_ends_the_chat() {
        // Time of each press, in tenths of a second, and place: `w`ork, `e`mpty, `t`ext; `g` continues.
        let check = |presses: &[(u64, char)], expected: &[Stop]| {
            let mut stops = Stops::default();
            let mut actual = Vec::new();
            for (at, place) in presses {
                let now = Duration::from_millis(at * 100);
                match place {
                    'w' => actual.push(stops.at_work(now)),
                    'e' => actual.push(stops.at_empty_prompt(now)),
                    't' => actual.push(stops.at_text()),
                    _ => stops.went_on(),
                }
            }
            assert_eq!(actual, expected, "{presses:?}");
        };
        check(&[(0, 'w'), (21, 'w')], &[Stop::Action, Stop::Action]);
        check(&[(0, 'w'), (20, 'w')], &[Stop::Action, Stop::Chat]);
        check(&[(0, 'w'), (5, 'e')], &[Stop::Action, Stop::Chat]);
        check(&[(0, 'w'), (30, 'e'), (300, 'e')], &[Stop::Action, Stop::Warning, Stop::Chat]);
        check(&[(0, 'e'), (100, 'g'), (200, 'e')], &[Stop::Warning, Stop::Warning]);
        check(&[(0, 't'), (1, 't'), (2, 'e')], &[Stop::Text, Stop::Text, Stop::Warning]);
        check(&[(0, 'e'), (5, 't'), (6, 'e')], &[Stop::Warning, Stop::Text, Stop::Warning]);
    }
}
