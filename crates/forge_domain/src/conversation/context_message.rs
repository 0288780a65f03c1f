//! A message as the log and the context hold it: counted once, shared, numbered by the log.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::reasoning::Bound;
use crate::{Message, MessageId, Role, TokenCounter, Tokens, message_tokens};

/// A counted message. Cloning shares the message and what was found out about it.
#[derive(Debug)]
pub struct ContextMessage {
    id: Option<MessageId>,
    tokens: Tokens,
    // Stored here because they are needed of messages that are never read.
    role: Role,
    starts_turn: bool,
    /// The reasoning that is bound to its view, unless it goes without.
    bound: Option<Arc<Bound>>,
    /// True if it goes without the reasoning that it was made with: its view has changed.
    is_bare: bool,
    held: Arc<Held>,
    // Empty until the message is read or cloned: a long log holds very many that never are.
    known: OnceLock<Arc<Known>>,
}

/// A message in the form in which a store keeps it: most of a long log left the view, and is hardly ever read
/// again.
pub trait PackedMessage: fmt::Debug + Send + Sync {
    /// Returns the message, the same every time. It was unpacked completely when it was packed, so this
    /// cannot fail.
    fn unpack(&self) -> Message;
}

#[derive(Debug)]
enum Held {
    Open(Box<Message>),
    Packed(Box<dyn PackedMessage>),
}

/// The facts that readers of a message found out about it. They take several times its room.
#[derive(Debug, Default)]
struct Known {
    /// The message itself, if it is packed.
    opened: OnceLock<Box<Message>>,
    forms: OnceLock<Box<FormCell>>,
    /// The facts about the message without its reasoning.
    bare: OnceLock<Arc<Self>>,
}

/// A form of a message, and the cell for the next one. There is one cell for each type of form that was asked
/// for, which is rarely more than one.
#[derive(Debug)]
struct FormCell {
    form: Box<dyn Any + Send + Sync>,
    next: OnceLock<Box<FormCell>>,
}

impl Clone for ContextMessage {
    fn clone(&self) -> Self {
        let (held, known) = (Arc::clone(&self.held), Arc::clone(self.shared()).into());
        Self { held, known, bound: self.bound.clone(), ..*self }
    }
}

impl AsRef<Message> for ContextMessage {
    fn as_ref(&self) -> &Message {
        self.message()
    }
}

impl PartialEq for ContextMessage {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
            && self.tokens == other.tokens
            && (self.is_same_as(other) || self.message() == other.message())
    }
}

impl ContextMessage {
    /// Counts `message`; it has no id until it is in a log.
    pub fn count(mut message: Message, counter: &dyn TokenCounter) -> Self {
        message.shrink_to_fit();
        let bound = Bound::count(&message, counter).map(Arc::new);
        Self { bound, ..Self::open(None, message_tokens(&message, counter), message) }
    }

    /// Creates a message as a log had it before: numbered and counted then.
    pub fn restored(id: MessageId, tokens: Tokens, message: Message) -> Self {
        Self::open(Some(id), tokens, message)
    }

    /// Creates one that stays packed until it is read; `message` is what `packed` unpacks to.
    pub fn packed(
        id: MessageId,
        tokens: Tokens,
        message: &Message,
        packed: impl PackedMessage + 'static,
    ) -> Self {
        let (role, starts_turn) = (message.role(), message.starts_turn());
        let held = Arc::new(Held::Packed(Box::new(packed)));
        let bound = Bound::of(message).map(Arc::new);
        let known = OnceLock::new();
        Self { id: Some(id), tokens, role, starts_turn, bound, is_bare: false, held, known }
    }

    fn open(id: Option<MessageId>, tokens: Tokens, message: Message) -> Self {
        let (role, starts_turn) = (message.role(), message.starts_turn());
        let bound = Bound::of(&message).map(Arc::new);
        let held = Arc::new(Held::Open(Box::new(message)));
        Self { id, tokens, role, starts_turn, bound, is_bare: false, held, known: OnceLock::new() }
    }

    /// Returns the same message with a cache of its own, which is dropped with what is returned: a log does
    /// not keep what was found out about messages that left its view.
    #[must_use]
    pub(crate) fn apart(&self) -> Self {
        let (held, bound) = (Arc::clone(&self.held), self.bound.clone());
        Self { held, known: OnceLock::new(), bound, ..*self }
    }

    /// Returns the message without the reasoning that is bound to its view. It is the same message, and its
    /// forms are shared with all that are made so.
    #[must_use]
    pub(super) fn bare(&self) -> Self {
        let Some(bound) = &self.bound else { return self.clone() };
        let known = Arc::clone(self.shared().bare.get_or_init(Arc::default));
        let tokens = self.tokens - bound.tokens;
        Self {
            held: Arc::clone(&self.held),
            known: known.into(),
            bound: None,
            is_bare: true,
            tokens,
            ..*self
        }
    }

    /// Checks whether it goes without the reasoning that it was made with.
    pub fn is_bare(&self) -> bool {
        self.is_bare
    }

    /// Returns the reasoning that is bound to its view and goes with it.
    pub(super) fn bound_reasoning(&self) -> Option<&Bound> {
        self.bound.as_deref()
    }

    /// Checks whether nothing is left of it without its bound reasoning.
    pub(super) fn says_only_reasoning(&self) -> bool {
        (self.is_bare || self.bound.is_some()) && self.message().says_only_reasoning()
    }

    /// Returns the cache that it shares with its clones.
    fn shared(&self) -> &Arc<Known> {
        self.known.get_or_init(Arc::default)
    }

    /// Returns its id; `None` while it is in no log.
    pub const fn id(&self) -> Option<MessageId> {
        self.id
    }

    /// Returns the label by which people and models refer to it, such as `m12`; `m` while it is in no log.
    pub(crate) fn label(&self) -> String {
        self.id.map_or_else(|| "m".to_owned(), |id| id.to_string())
    }

    /// Returns its tokens, by the formula of [`message_tokens`].
    pub const fn tokens(&self) -> Tokens {
        self.tokens
    }

    /// Checks whether both are one message that was taken over unchanged.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.held, &other.held)
    }

    /// Returns the message itself, as it is sent.
    pub fn message(&self) -> &Message {
        match &*self.held {
            Held::Open(message) if self.is_bare => {
                self.shared().opened.get_or_init(|| Box::new(message.without_bound_reasoning()))
            }
            Held::Packed(packed) if self.is_bare => {
                self.shared().opened.get_or_init(|| Box::new(packed.unpack().without_bound_reasoning()))
            }
            Held::Open(message) => message,
            Held::Packed(packed) => self.shared().opened.get_or_init(|| Box::new(packed.unpack())),
        }
    }

    /// Returns the message's role.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Checks whether it starts a turn.
    pub const fn starts_turn(&self) -> bool {
        self.starts_turn
    }

    /// Returns the message in the form `T`, such as the JSON of a protocol. Each form is made once, shared by
    /// all clones, and dropped when the message leaves the view. The type is the key, so `make` must depend
    /// on the message alone: a form that depends on more is a type of its own for each case.
    pub fn form<T: Any + Send + Sync>(&self, make: impl Fn(&Message) -> T) -> &T {
        let mut cell = &self.shared().forms;
        loop {
            let known = cell.get_or_init(|| {
                let form = Box::new(make(self.message()));
                Box::new(FormCell { form, next: OnceLock::new() })
            });
            match known.form.downcast_ref() {
                Some(form) => return form,
                None => cell = &known.next,
            }
        }
    }

    /// Returns the message under `id`.
    pub(crate) fn numbered(self, id: MessageId) -> Self {
        Self { id: Some(id), ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use pretty_assertions::assert_eq;

    use super::*;
    use crate::{CompactionEntry, Conversation, Edit, Entry, EntryId, Replacement};

    /// A message of number `n`, which notes when it is unpacked.
    #[derive(Debug)]
    struct Noting(u64, Arc<Mutex<Vec<u64>>>);

    impl PackedMessage for Noting {
        fn unpack(&self) -> Message {
            self.1.lock().unwrap().push(self.0);
            Message::user(format!("message {}", self.0))
        }
    }

    /// Two forms of a message: its length, and its text with a mark.
    #[derive(Debug, PartialEq)]
    struct Length(usize);
    #[derive(Debug, PartialEq)]
    struct Marked<const MARK: char>(String);

    fn marked<const MARK: char>(message: &Message) -> Marked<MARK> {
        Marked(format!("{MARK}{}", message.to_text()))
    }

    #[test]
    fn each_form_is_made_once_and_shared_by_clones_alone() {
        let n_made = Mutex::new(0);
        let length = |message: &Message| {
            *n_made.lock().unwrap() += 1;
            Length(message.to_text().len())
        };
        let restored =
            |text: &str| ContextMessage::restored(MessageId::new(1), Tokens::new(1), Message::user(text));
        let (message, other) = (restored("one"), restored("three"));
        let clone = message.clone().numbered(MessageId::new(2));
        let forms = [message.form(length), clone.form(length), message.form(length)];
        assert_eq!(forms, [&Length(3); 3]);
        assert_eq!(*n_made.lock().unwrap(), 1, "once for all clones");
        assert_eq!(message.form(marked::<'a'>).0, "aone");
        assert_eq!(clone.form(marked::<'b'>).0, "bone", "a form of another type is made of its own");
        assert!(std::ptr::eq(message.form(marked::<'a'>), clone.form(marked::<'a'>)));
        assert_eq!(other.form(length), &Length(5), "another message has forms of its own");
        assert_eq!(restored("one").form(length), &Length(3));
        assert_eq!(message.apart().form(length), &Length(3));
        assert_eq!(*n_made.lock().unwrap(), 4, "what was not cloned shares nothing");
    }

    #[test]
    fn a_form_is_let_go_with_the_view_and_not_kept_by_the_log() {
        let mut log = Conversation::new();
        log.append(ContextMessage::restored(MessageId::new(0), Tokens::new(1), Message::user("m")));
        let form = Arc::new(());
        let weak = {
            let view = log.view();
            let held = Arc::clone(&form);
            view.messages()[0].form(move |_| Arc::clone(&held));
            Arc::downgrade(&form)
        };
        drop(form);
        assert_eq!(weak.strong_count(), 1, "the view has it");
        let with = ContextMessage::open(None, Tokens::new(1), Message::user("s"));
        let shortened = log.view().edit(vec![Edit::Shorten { position: 0, with }]).numbered();
        log.record(&shortened).unwrap();
        drop(shortened);
        assert_eq!((weak.strong_count(), log.messages().count()), (0, 1), "and the log has not");
    }

    #[test]
    fn what_left_the_view_stays_packed_until_it_comes_back() {
        let unpacked = Arc::new(Mutex::new(Vec::new()));
        let packed = |n| {
            let noting = Noting(n, Arc::clone(&unpacked));
            let message =
                ContextMessage::packed(MessageId::new(n), Tokens::new(10), &Message::user("m"), noting);
            Entry::Message(message)
        };
        let record = Message::user("a record").compacted();
        let replacement = Replacement {
            replaces: (0..4).map(MessageId::new).collect(),
            with: vec![ContextMessage::restored(MessageId::new(6), Tokens::new(10), record)],
        };
        let compaction = CompactionEntry::restored(EntryId::nth(0), vec![replacement], Vec::new());
        let entries = (0..6).map(packed).chain([Entry::Compaction(compaction)]).collect();
        let mut log = Conversation::restore(entries).unwrap();
        let said = |log: &Conversation| -> Vec<String> {
            log.view().messages().iter().map(|message| message.message().to_text()).collect()
        };
        assert!(log.coverage().is_complete());
        assert_eq!(log.messages().filter(|message| message.starts_turn()).count(), 6);
        assert_eq!(*unpacked.lock().unwrap(), [0; 0], "nothing was read yet");
        for _ in 0..2 {
            assert_eq!(said(&log), ["a record", "message 4", "message 5"]);
            assert_eq!(*unpacked.lock().unwrap(), [4, 5], "once, and no other");
        }
        log.undo().unwrap();
        assert_eq!(said(&log).len(), 6);
        assert_eq!(*unpacked.lock().unwrap(), [4, 5, 0, 1, 2, 3, 4, 5], "the view before was let go");
    }
}
