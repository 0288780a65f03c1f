//! Keys that are pressed during work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};
use tokio::sync::mpsc::UnboundedSender;

use super::input::Key;
use crate::terminal::{self, Keys};

/// The interval of checks whether the keyboard must be released.
const PATIENCE: Duration = Duration::from_millis(40);

/// A listener to the keyboard until it is dropped; by then all received keys are delivered.
pub(super) struct Keyboard {
    is_over: Arc<AtomicBool>,
    /// Closed when the listening thread has ended.
    listening: Receiver<()>,
}

/// A guard that stops the work if the listening thread panics: otherwise no key could stop it.
struct Listener {
    keys: UnboundedSender<Key>,
    _listening: Sender<()>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.keys.send(Key::Interrupt);
        }
    }
}

impl Keyboard {
    /// Sends every key to `keys`.
    pub(super) fn listen(keys: UnboundedSender<Key>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let (sender, listening) = channel();
        let listener = Listener { keys, _listening: sender };
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let mut patience = match terminal::wait_for_keys(PATIENCE) {
                    // `chat` watches for this, and ends.
                    Keys::Gone => return,
                    // Also what was read before and not asked for yet, and new sizes.
                    Keys::Listen => Duration::ZERO,
                    Keys::Unknown => PATIENCE,
                };
                let mut is_repeated = false;
                loop {
                    match poll(patience) {
                        // crossterm does not report keys again that came together with a new size.
                        Ok(false) if !is_repeated && terminal::has_waiting_keys() => {
                            is_repeated = true;
                            terminal::report_keys_again();
                        }
                        Ok(false) => break,
                        Ok(true) => {
                            let key = read().ok().and_then(|event| key_of(&event));
                            if key.is_some_and(|key| listener.keys.send(key).is_err()) {
                                return;
                            }
                        }
                        Err(_) => return,
                    }
                    // The bytes after this key were read already, and no event would announce them.
                    patience = Duration::ZERO;
                }
            }
        });
        Self { is_over, listening }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // A terminal that is closed while it is read holds the thread for ever: that one is left behind.
        while self.listening.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            if terminal::is_gone() {
                return;
            }
        }
    }
}

/// Returns what an event does to a line; `None` if it does nothing.
fn key_of(event: &Event) -> Option<Key> {
    let KeyEvent { code, modifiers, .. } = match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => key,
        Event::Paste(text) => return Some(Key::Text(text.clone())),
        Event::Resize(..) => return Some(Key::Resized),
        _ => return None,
    };
    let (control, alt) = (modifiers.contains(KeyModifiers::CONTROL), modifiers.contains(KeyModifiers::ALT));
    Some(match code {
        KeyCode::Char('c') if control => Key::Interrupt,
        KeyCode::Char('d') if control => Key::EndOfInput,
        KeyCode::Char('j') if control => Key::NewLine,
        KeyCode::Char('l') if control => Key::Redraw,
        KeyCode::Char('a') if control => Key::Home,
        KeyCode::Char('e') if control => Key::End,
        KeyCode::Char('b') if control => Key::Left,
        KeyCode::Char('f') if control => Key::Right,
        KeyCode::Char('w') if control => Key::WordBack,
        KeyCode::Char('u') if control => Key::ToStart,
        KeyCode::Char('k') if control => Key::ToEnd,
        KeyCode::Char('h') if control => Key::Backspace,
        KeyCode::Char(letter) if !control && !alt => Key::Text(letter.to_string()),
        KeyCode::Enter if alt || modifiers.contains(KeyModifiers::SHIFT) => Key::NewLine,
        KeyCode::Enter => Key::Enter,
        KeyCode::Backspace if control || alt => Key::WordBack,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Delete => Key::Delete,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Up => Key::Back,
        KeyCode::BackTab => Key::Mode,
        KeyCode::Esc => Key::Escape,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_event_is_a_key_by_what_it_does() {
        let key = |code, modifiers| Event::Key(KeyEvent::new(code, modifiers));
        let text = |text: &str| Some(Key::Text(text.to_owned()));
        for (event, expected) in [
            (key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Interrupt)),
            (key(KeyCode::Char('c'), KeyModifiers::NONE), text("c")),
            (key(KeyCode::Char('C'), KeyModifiers::SHIFT), text("C")),
            (key(KeyCode::Char('c'), KeyModifiers::ALT), None),
            (key(KeyCode::Enter, KeyModifiers::NONE), Some(Key::Enter)),
            (key(KeyCode::Enter, KeyModifiers::ALT), Some(Key::NewLine)),
            (key(KeyCode::F(1), KeyModifiers::NONE), None),
            (Event::Paste("a\nb".to_owned()), text("a\nb")),
            (key(KeyCode::BackTab, KeyModifiers::SHIFT), Some(Key::Mode)),
            (Event::Resize(80, 24), Some(Key::Resized)),
            (Event::FocusGained, None),
        ] {
            assert_eq!(key_of(&event), expected, "{event:?}");
        }
    }
}
