//! The user's terminal: it is prepared for a chat and restored afterwards, and its disappearance is noticed.

pub(crate) mod file_diff;
pub(crate) mod person;

use std::io::{BufRead as _, Write as _};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

/// The original state of the terminal, while a chat has it.
static FOUND: Mutex<Option<Found>> = Mutex::new(None);

#[cfg(unix)]
type Found = Option<rustix::termios::Termios>;
#[cfg(not(unix))]
type Found = ();

/// The sequences that undo everything a chat may have switched on: a synchronized update, colours, bracketed
/// paste, a hidden cursor.
const USUAL: &str = "\u{1b}[?2026l\u{1b}[0m\u{1b}[?2004l\u{1b}[?25h";

/// The longest wait for the system to stop this process.
#[cfg(unix)]
const MOST_BEFORE_STOP: Duration = Duration::from_millis(500);

/// A terminal that does not echo keys, until this is dropped.
///
/// The line editor has modes of its own while a line is read; in between, these hold, so that typed keys wait
/// for the next reader and are not shown twice.
pub(crate) struct Taken(());

impl Taken {
    /// Prepares the terminal of stdin; something else is left alone.
    #[cfg(unix)]
    pub(crate) fn take() -> Self {
        use rustix::termios::{
            InputModes, LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr,
        };
        let input = std::io::stdin();
        let found = tcgetattr(&input).ok();
        *FOUND.lock().unwrap_or_else(PoisonError::into_inner) = Some(found.clone());
        if let Some(mut modes) = found {
            modes.local_modes -=
                LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
            modes.input_modes -= InputModes::ICRNL | InputModes::IXON;
            modes.special_codes[SpecialCodeIndex::VMIN] = 1;
            modes.special_codes[SpecialCodeIndex::VTIME] = 0;
            // Where it cannot be had, the chat works all the same, with an echo here and there.
            let _ = tcsetattr(&input, OptionalActions::Now, &modes);
        }
        Self(())
    }

    /// Prepares the terminal.
    #[cfg(not(unix))]
    pub(crate) fn take() -> Self {
        let _ = crossterm::terminal::enable_raw_mode();
        *FOUND.lock().unwrap_or_else(PoisonError::into_inner) = Some(());
        Self(())
    }

    /// Sets the terminal to deliver keys one by one after another program had it, and pasted text in one
    /// piece.
    pub(crate) fn expect_keys() {
        #[cfg(not(unix))]
        let _ = crossterm::terminal::enable_raw_mode();
        let _ = crossterm::execute!(std::io::stderr(), crossterm::event::EnableBracketedPaste);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores the terminal. Does nothing unless it is taken.
pub(crate) fn give_back() {
    // A panic hook calls this as well: it must not wait for a lock that its own thread holds.
    let found = match FOUND.try_lock() {
        Ok(mut found) => found.take(),
        Err(TryLockError::Poisoned(found)) => found.into_inner().take(),
        Err(TryLockError::WouldBlock) => None,
    };
    let Some(found) = found else { return };
    // If the terminal is gone, there is no one to tell.
    let mut err = std::io::stderr();
    let _ = err.write_all(USUAL.as_bytes()).and_then(|()| err.flush());
    let _ = crossterm::terminal::disable_raw_mode();
    #[cfg(unix)]
    if let Some(found) = found {
        use rustix::termios::{OptionalActions, tcsetattr};
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &found);
    }
    #[cfg(not(unix))]
    let () = found;
}

/// Stops this process until the shell continues it, as Ctrl-Z does elsewhere. The shell has the terminal as
/// it was; afterwards the chat has it again.
#[cfg(unix)]
pub(crate) fn suspend() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;
    let was_taken = is_taken();
    give_back();
    let is_continued = Arc::new(AtomicBool::new(false));
    let noted = signal_hook::flag::register(signal_hook::consts::SIGCONT, Arc::clone(&is_continued));
    let _ = rustix::process::kill_current_process_group(rustix::process::Signal::TSTP);
    // The signal stops this thread a little later, or never if no shell could continue it.
    let begun = Instant::now();
    while !is_continued.load(Ordering::SeqCst) && begun.elapsed() < MOST_BEFORE_STOP {
        std::thread::sleep(Duration::from_millis(5));
    }
    if let Ok(noted) = noted {
        signal_hook::low_level::unregister(noted);
    }
    if was_taken {
        // Given back by the one who took it first.
        std::mem::forget(Taken::take());
    }
}

/// Does nothing: this system's shells cannot continue a process.
#[cfg(not(unix))]
pub(crate) const fn suspend() {}

/// Checks whether the terminal takes nothing back, as its name says.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}

/// Checks whether a chat has the terminal.
pub(crate) fn is_taken() -> bool {
    FOUND.try_lock().is_ok_and(|found| found.is_some())
}

/// Reads one of `keys` as soon as it is pressed, or a line that begins with anything else; `None` at the end
/// of the input. Escape is the key `n` if that is one. Enter is an empty line if it is a key, and ignored
/// otherwise: whoever is used to it presses it after the key. Ctrl-C stays a signal.
#[cfg(unix)]
pub(crate) fn read_key_or_line(keys: &[char]) -> std::io::Result<Option<String>> {
    use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
    let input = std::io::stdin();
    let Ok(found) = tcgetattr(&input) else { return read_line(Vec::new()) };
    let mut modes = found.clone();
    modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
    modes.special_codes[SpecialCodeIndex::VMIN] = 1;
    modes.special_codes[SpecialCodeIndex::VTIME] = 0;
    tcsetattr(&input, OptionalActions::Now, &modes)?;
    let first = read_first_key(keys);
    tcsetattr(&input, OptionalActions::Now, &found)?;
    match first? {
        None => Ok(None),
        Some(byte) => match key_of(byte, keys) {
            Some(key) => {
                crate::output::write_raw(&format!("{key}\n"));
                Ok(Some(key))
            }
            None => {
                if byte.is_ascii() {
                    crate::output::write_raw(&char::from(byte).to_string());
                }
                read_line(vec![byte])
            }
        },
    }
}

/// Checks whether the terminal is this process's: while it works in the background, the shell has it. It is
/// also if that is not known.
#[cfg(unix)]
pub(crate) fn is_in_foreground() -> bool {
    let foreground = rustix::termios::tcgetpgrp(std::io::stderr());
    foreground.map_or(true, |group| group == rustix::process::getpgrp())
}

/// Returns `true`: this system has no background.
#[cfg(not(unix))]
pub(crate) const fn is_in_foreground() -> bool {
    true
}

/// Makes the user's terminal the input after a pipe was read to its end, so that the user of
/// `git diff | forge "TASK"` can be asked. Does nothing without a terminal, or if another program has it.
#[cfg(unix)]
pub(crate) fn become_input() {
    use rustix::fs::{Mode, OFlags};
    use rustix::{process, stdio, termios};
    if !termios::isatty(std::io::stderr()) {
        return;
    }
    let opened = rustix::fs::open("/dev/tty", OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty());
    let Ok(terminal) = opened else { return };
    if termios::tcgetpgrp(&terminal).is_ok_and(|foreground| foreground == process::getpgrp()) {
        // If this fails, no one can be asked, as before.
        let _ = stdio::dup2_stdin(&terminal);
    }
}

/// Does nothing: this system has no such name for the terminal.
#[cfg(not(unix))]
pub(crate) const fn become_input() {}

/// Drops what was typed before now: keys that were pressed before a question could be read are no answer to
/// it.
#[cfg(unix)]
pub(crate) fn drop_typed() {
    // Fails if the input is not a terminal, where nothing can have been typed.
    let _ = rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
}

/// Drops nothing, as this system has no such call.
#[cfg(not(unix))]
pub(crate) fn drop_typed() {}

/// Reads the first byte that is not an Enter without meaning; `None` at the end of the input. If it is a key,
/// what came with it is dropped.
#[cfg(unix)]
fn read_first_key(keys: &[char]) -> std::io::Result<Option<u8>> {
    const END: u8 = 4;
    let mut input = std::io::stdin().lock();
    loop {
        let (first, n_more) = {
            let bytes = input.fill_buf()?;
            (bytes.first().copied(), bytes.len().saturating_sub(1))
        };
        input.consume(usize::from(first.is_some()));
        match first {
            None | Some(END) => return Ok(None),
            Some(b'\n' | b'\r') if !keys.contains(&'\n') => {}
            Some(byte) => {
                if key_of(byte, keys).is_some_and(|key| !key.is_empty()) {
                    input.consume(n_more);
                }
                return Ok(Some(byte));
            }
        }
    }
}

/// Returns the answer that a byte gives at once.
#[cfg(unix)]
fn key_of(byte: u8, keys: &[char]) -> Option<String> {
    const ESCAPE: u8 = 27;
    let letter = char::from(byte.to_ascii_lowercase());
    match byte {
        b'\n' | b'\r' => Some(String::new()),
        ESCAPE if keys.contains(&'n') => Some("n".to_owned()),
        _ => keys.contains(&letter).then(|| letter.to_string()),
    }
}

/// Reads a line, as this system has no keys without Enter here.
#[cfg(not(unix))]
pub(crate) fn read_key_or_line(_: &[char]) -> std::io::Result<Option<String>> {
    read_line(Vec::new())
}

/// Reads the rest of a line that begins with `line`; `None` at the end of the input.
fn read_line(mut line: Vec<u8>) -> std::io::Result<Option<String>> {
    std::io::stdin().lock().read_until(b'\n', &mut line)?;
    Ok((!line.is_empty()).then(|| String::from_utf8_lossy(&line).trim().to_owned()))
}

/// The state of the keyboard after a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Something was typed, or the time is over.
    Listen,
    /// The system cannot wait for this terminal: its reader has to.
    Unknown,
    /// The terminal is closed: nothing will be typed again.
    Gone,
}

/// Waits until something is typed, at most for `patience`. Unlike `crossterm`, it notices that the terminal
/// was closed: in that case `poll` reads an endless end of file, and never returns.
#[cfg(unix)]
pub(crate) fn wait_for_keys(patience: Duration) -> Keys {
    use rustix::event::PollFlags;
    poll(PollFlags::IN, Some(patience))
}

#[cfg(not(unix))]
pub(crate) fn wait_for_keys(_: Duration) -> Keys {
    Keys::Unknown
}

/// Checks whether typed keys wait to be read.
#[cfg(unix)]
pub(crate) fn has_waiting_keys() -> bool {
    use rustix::event::PollFlags;
    readiness(PollFlags::IN, Some(Duration::ZERO)).is_ok_and(|found| found.contains(PollFlags::IN))
}

#[cfg(not(unix))]
pub(crate) fn has_waiting_keys() -> bool {
    false
}

/// Checks whether the input is a socket through which nothing comes within `patience`: Node's `exec` and ssh
/// leave one open. What a shell pipes in comes through no socket.
#[cfg(unix)]
pub(crate) fn is_idle_socket(patience: Duration) -> bool {
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::FileTypeExt as _;
    let input = std::io::stdin().as_fd().try_clone_to_owned().map(std::fs::File::from);
    let is_socket = input.and_then(|input| input.metadata()).is_ok_and(|found| found.file_type().is_socket());
    is_socket && readiness(rustix::event::PollFlags::IN, Some(patience)).is_ok_and(|found| found.is_empty())
}

#[cfg(not(unix))]
pub(crate) fn is_idle_socket(_: Duration) -> bool {
    false
}

/// Makes the system report waiting keys again. `crossterm` (0.29) is told about keys and about a new size
/// once, and forgets the keys if both come together. Setting the terminal's current modes notifies its
/// readers.
pub(crate) fn report_keys_again() {
    #[cfg(unix)]
    {
        use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
        let input = std::io::stdin();
        if let Ok(modes) = tcgetattr(&input) {
            // The next key reports them as well.
            let _ = tcsetattr(&input, OptionalActions::Now, &modes);
        }
    }
}

/// Checks whether the terminal is closed.
pub(crate) fn is_gone() -> bool {
    wait_for_keys(Duration::ZERO) == Keys::Gone
}

/// Waits in a thread until the terminal is closed, and calls `gone` then. The signal for that reaches only
/// processes that the terminal controls.
pub(crate) fn watch(gone: impl FnOnce() + Send + 'static) {
    #[cfg(unix)]
    std::thread::spawn(move || {
        // Without anything to wait for, only the end of the terminal is reported.
        loop {
            match poll(rustix::event::PollFlags::empty(), None) {
                Keys::Gone => return gone(),
                Keys::Unknown => return,
                Keys::Listen => {}
            }
        }
    });
    #[cfg(not(unix))]
    drop(gone);
}

#[cfg(unix)]
fn poll(wanted: rustix::event::PollFlags, patience: Option<Duration>) -> Keys {
    use rustix::event::PollFlags;
    let found = match readiness(wanted, patience) {
        // A signal: the caller waits again.
        Err(rustix::io::Errno::INTR) => return Keys::Listen,
        Err(_) => return Keys::Unknown,
        Ok(found) => found,
    };
    if found.contains(PollFlags::NVAL) {
        Keys::Unknown
    } else if found.intersects(PollFlags::HUP | PollFlags::ERR) {
        Keys::Gone
    } else {
        Keys::Listen
    }
}

/// Waits at most for `patience` until the terminal is as `wanted`, and returns its state.
#[cfg(unix)]
fn readiness(
    wanted: rustix::event::PollFlags,
    patience: Option<Duration>,
) -> rustix::io::Result<rustix::event::PollFlags> {
    use rustix::event::{PollFd, Timespec};
    let limit = patience.and_then(|patience| Timespec::try_from(patience).ok());
    let input = std::io::stdin();
    let mut polled = [PollFd::new(&input, wanted)];
    rustix::event::poll(&mut polled, limit.as_ref())?;
    Ok(polled[0].revents())
}
