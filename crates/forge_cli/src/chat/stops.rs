//! What Ctrl-C does: once it stops what goes on, twice it ends the chat.

use std::time::Duration;

/// How soon after another one a Ctrl-C is the second.
const SOON: Duration = Duration::from_secs(2);

/// The Ctrl-C that were pressed. Times are since any one moment.
#[derive(Debug, Default)]
pub(super) struct Stops {
    last: Option<Duration>,
    /// Whether one was pressed at the empty prompt that is still there.
    is_warned: bool,
}

/// What one of them does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// What goes on is stopped.
    Action,
    /// What was typed is gone.
    Text,
    /// It is said how to end the chat.
    Warning,
    /// The chat ends.
    Chat,
}

impl Stops {
    /// Pressed at `now` while something goes on.
    pub(super) fn at_work(&mut self, now: Duration) -> Stop {
        if self.is_second(now) { Stop::Chat } else { Stop::Action }
    }

    /// Pressed at `now` at a prompt where nothing is typed.
    pub(super) fn at_empty_prompt(&mut self, now: Duration) -> Stop {
        if self.is_second(now) || std::mem::replace(&mut self.is_warned, true) {
            Stop::Chat
        } else {
            Stop::Warning
        }
    }

    /// Pressed at a prompt where something is typed.
    pub(super) fn at_text(&mut self) -> Stop {
        self.went_on();
        Stop::Text
    }

    /// Something else was typed.
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
        // When it is pressed, in tenths of a second, and where: `w`ork, `e`mpty prompt, `t`ext; `g` goes on.
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
