//! A terminal without a screen: what a process shows on it is read as a terminal would read it, and keys are pressed for a person.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{InputModes, LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::picture::svg;

/// Longest wait for something to be shown.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a program asks the terminal to learn where the cursor is.
const WHERE: &[u8] = b"\x1b[6n";

/// A terminal with a process before it.
pub(crate) struct Terminal {
    /// The person's end of the line, while that is open.
    keyboard: Option<File>,
    display: Arc<Display>,
    /// How much of what was shown the person has reacted to.
    seen: usize,
    child: Child,
    /// Its end has the thread let go of the terminal.
    reading: UnixStream,
    reader: Option<JoinHandle<()>>,
}

struct Display {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    screen: vt100::Parser,
    /// Everything that came.
    raw: Vec<u8>,
    /// The same as text, without what steers the terminal.
    shown: String,
    stripper: Stripper,
    is_over: bool,
}

/// What was left when the process had ended.
pub(crate) struct Ended {
    /// The exit code, where no signal ended it.
    pub(crate) code: Option<i32>,
    /// All that was shown, as text.
    pub(crate) shown: String,
}

impl Terminal {
    /// A terminal of that size, before which the process is started that `command` makes; each call of what it is given opens the
    /// process's end of the line.
    pub(crate) fn start(
        columns: u16,
        rows: u16,
        command: impl FnOnce(&dyn Fn() -> Stdio) -> Command,
    ) -> Self {
        Self::start_with_typed("", columns, rows, command)
    }

    /// The same, and `keys` were pressed before the process begins.
    pub(crate) fn start_with_typed(
        keys: &str,
        columns: u16,
        rows: u16,
        command: impl FnOnce(&dyn Fn() -> Stdio) -> Command,
    ) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        tcsetwinsize(&terminal, size(columns, rows)).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let line = || -> OwnedFd { rustix::fs::open(name.as_c_str(), flags, Mode::empty()).unwrap() };
        let mut command = command(&|| Stdio::from(line()));
        let mut keyboard = File::from(terminal);
        keyboard.write_all(keys.as_bytes()).unwrap();
        let child = command.spawn().unwrap();
        // Its ends of the line are the process's alone.
        drop(command);
        let state = State {
            screen: vt100::Parser::new(cells(rows), cells(columns), 0),
            raw: Vec::new(),
            shown: String::new(),
            stripper: Stripper::Text,
            is_over: false,
        };
        let display = Arc::new(Display { state: Mutex::new(state), changed: Condvar::new() });
        let (mut output, mut answers) = (keyboard.try_clone().unwrap(), keyboard.try_clone().unwrap());
        let shows = Arc::clone(&display);
        let (reading, over) = UnixStream::pair().unwrap();
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            let is_there = |output: &File| {
                let mut polled = [PollFd::new(output, PollFlags::IN), PollFd::new(&over, PollFlags::IN)];
                while rustix::event::poll(&mut polled, None).is_err() {}
                polled[1].revents().is_empty()
            };
            while is_there(&output)
                && let Ok(n @ 1..) = output.read(&mut bytes)
            {
                let mut state = shows.state.lock();
                let positions = state.take(&bytes[..n]);
                // Who waits has its look before the next bytes are taken.
                MutexGuard::unlock_fair(state);
                shows.changed.notify_all();
                for (row, column) in positions {
                    // In one piece, or a key that is pressed meanwhile stands in the middle of it.
                    let answer = format!("\x1b[{};{}R", row + 1, column + 1);
                    let _ = answers.write_all(answer.as_bytes());
                }
            }
            shows.state.lock().is_over = true;
            shows.changed.notify_all();
        });
        Self { keyboard: Some(keyboard), display, seen: 0, child, reading, reader: Some(reader) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.display.state.lock()
    }

    /// Waits until `is_there` of what was shown.
    fn waits(&self, what: &str, is_there: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let waits = |state: &mut State| !is_there(state) && !state.is_over;
        let mut state = self.state();
        self.display.changed.wait_while_for(&mut state, waits, PATIENCE);
        if !is_there(&state) {
            let (screen, shown) = (state.screen.screen().contents(), state.shown.clone());
            drop(state);
            panic!("no {what} on the screen\n{screen}\n--- all that was shown:\n{shown}");
        }
        state
    }

    /// Waits until `text` was shown; nothing of before counts.
    pub(crate) fn sees(&mut self, text: &str) {
        let seen = self.seen;
        let state = self.waits(&format!("`{text}`"), |state| state.shown[seen..].contains(text));
        let end = state.shown[seen..].find(text).unwrap_or_default() + text.len();
        drop(state);
        self.seen += end;
    }

    /// Waits until the screen is as `is_so` wants it, by its lines.
    pub(crate) fn shows(&self, what: &str, is_so: impl Fn(&[String]) -> bool) {
        drop(self.waits(what, |state| is_so(&lines(&state.screen))));
    }

    /// The lines of the screen as they are now, without blanks at their ends.
    pub(crate) fn screen(&self) -> Vec<String> {
        lines(&self.state().screen)
    }

    /// Draws the screen as it is now.
    pub(crate) fn picture(&self, title: &str) -> String {
        svg(self.state().screen.screen(), title)
    }

    /// Everything that came, byte by byte.
    pub(crate) fn raw(&self) -> String {
        String::from_utf8_lossy(&self.state().raw).into_owned()
    }

    /// Presses keys.
    pub(crate) fn types(&mut self, keys: &str) {
        self.keyboard.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for a question, and answers it with a line.
    pub(crate) fn answers(&mut self, question: &str, answer: &str) {
        self.sees(question);
        self.types(&format!("{answer}\n"));
    }

    /// Has another size from now on.
    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        self.state().screen.screen_mut().set_size(cells(rows), cells(columns));
        tcsetwinsize(self.keyboard.as_ref().unwrap(), size(columns, rows)).unwrap();
    }

    /// Returns how the terminal treats keys and lines.
    pub(crate) fn modes(&self) -> (LocalModes, InputModes) {
        let modes = tcgetattr(self.keyboard.as_ref().unwrap()).unwrap();
        (modes.local_modes, modes.input_modes)
    }

    /// Closes the terminal, as a window is closed, and waits for the process to end; its exit code, where no signal ended it.
    pub(crate) fn close(mut self) -> Option<i32> {
        self.reading.shutdown(std::net::Shutdown::Both).unwrap();
        self.reader.take().unwrap().join().unwrap();
        drop(self.keyboard.take());
        let id = Pid::from_child(&self.child);
        let (ended, is_over) = std::sync::mpsc::channel::<()>();
        // One that does not end is killed, so that the test does.
        let watching = std::thread::spawn(move || {
            let is_late = is_over.recv_timeout(PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
            if is_late {
                let _ = kill_process(id, Signal::KILL);
            }
            is_late
        });
        let status = self.child.wait().unwrap();
        drop(ended);
        assert!(!watching.join().unwrap(), "it went on without its terminal");
        status.code()
    }

    /// Sends the process a signal.
    pub(crate) fn is_sent(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until nobody is before the terminal any more, without closing it.
    pub(crate) fn is_over(&mut self) {
        drop(self.waits("end", |state| state.is_over));
    }

    /// Waits for the process to end.
    pub(crate) fn ends(mut self) -> Ended {
        let mut state = self.state();
        self.display.changed.wait_while_for(&mut state, |state| !state.is_over, PATIENCE);
        let (shown, is_over) = (state.shown.clone(), state.is_over);
        drop(state);
        if !is_over {
            self.child.kill().unwrap();
            panic!("it did not end after:\n{shown}");
        }
        Ended { code: self.child.wait().unwrap().code(), shown }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Where a test has failed in the middle.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl State {
    /// Takes in what came; where the cursor is, for each time that this is asked.
    fn take(&mut self, bytes: &[u8]) -> Vec<(u16, u16)> {
        self.screen.process(bytes);
        // One may be cut in two by what came before.
        let unseen = self.raw.len().saturating_sub(WHERE.len() - 1);
        self.raw.extend_from_slice(bytes);
        let text = String::from_utf8_lossy(bytes).into_owned();
        self.shown.extend(text.chars().filter(|c| self.stripper.keeps(*c)));
        let n_asked = self.raw[unseen..].windows(WHERE.len()).filter(|window| *window == WHERE).count();
        vec![self.screen.screen().cursor_position(); n_asked]
    }
}

/// Takes out what steers a terminal, wherever the pieces are cut.
#[derive(Clone, Copy)]
enum Stripper {
    Text,
    Escape,
    Control,
    Command,
}

impl Stripper {
    fn keeps(&mut self, c: char) -> bool {
        let (next, keeps) = match (*self, c) {
            (Self::Text, '\u{1b}') => (Self::Escape, false),
            (Self::Text, c) => (Self::Text, c != '\r'),
            (Self::Escape, '[') => (Self::Control, false),
            (Self::Escape, ']') => (Self::Command, false),
            (Self::Control, '\u{40}'..='\u{7e}') | (Self::Command, '\u{7}') | (Self::Escape, _) => {
                (Self::Text, false)
            }
            (state, _) => (state, false),
        };
        *self = next;
        keeps
    }
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn cells(n: u16) -> NonZeroU16 {
    NonZeroU16::new(n).unwrap()
}

fn lines(screen: &vt100::Parser) -> Vec<String> {
    screen.screen().contents().lines().map(|line| line.trim_end().to_owned()).collect()
}
