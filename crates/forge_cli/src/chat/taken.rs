//! The terminal as a chat needs it: keys come one by one and unechoed, and what was there before comes back at the end.

/// A terminal that shows no key by itself, until this is dropped.
///
/// The line editor has modes of its own while a line is read; in between, these hold, so that what is typed then waits for the next
/// reader and is not shown twice.
pub(super) struct Taken {
    #[cfg(unix)]
    before: Option<rustix::termios::Termios>,
}

impl Taken {
    /// Takes the terminal of standard input; one that is none stays what it is.
    #[cfg(unix)]
    pub(super) fn take() -> Self {
        use rustix::termios::{
            InputModes, LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr,
        };
        let input = std::io::stdin();
        let before = tcgetattr(&input).ok();
        if let Some(mut modes) = before.clone() {
            modes.local_modes -=
                LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
            modes.input_modes -= InputModes::ICRNL | InputModes::IXON;
            modes.special_codes[SpecialCodeIndex::VMIN] = 1;
            modes.special_codes[SpecialCodeIndex::VTIME] = 0;
            // Where it cannot be had, the chat works all the same, with an echo here and there.
            let _ = tcsetattr(&input, OptionalActions::Now, &modes);
        }
        Self { before }
    }

    /// Takes the terminal.
    #[cfg(not(unix))]
    pub(super) fn take() -> Self {
        let _ = crossterm::terminal::enable_raw_mode();
        Self {}
    }

    /// Has keys come one by one after somebody else had the terminal, and pasted text in one piece.
    pub(super) fn expect_keys() {
        #[cfg(not(unix))]
        let _ = crossterm::terminal::enable_raw_mode();
        let _ = crossterm::execute!(std::io::stderr(), crossterm::event::EnableBracketedPaste);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let _ = crossterm::execute!(
            std::io::stderr(),
            crossterm::event::DisableBracketedPaste,
            crossterm::cursor::Show
        );
        let _ = crossterm::terminal::disable_raw_mode();
        #[cfg(unix)]
        if let Some(before) = &self.before {
            use rustix::termios::{OptionalActions, tcsetattr};
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}
