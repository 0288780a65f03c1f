//! A context, which is what the model would see: messages in order, with their size known at all times.

use std::ops::Add;
use std::sync::{Arc, OnceLock};

use crate::{ContextMessage, Frame, Groups, Message, MessageId, REQUEST_TOKENS, Role, Span, Tokens};

/// The size of a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Size {
    /// Messages of every role.
    pub messages: usize,
    /// Turns: user messages that compaction did not make.
    pub turns: usize,
    /// Tokens of the request without tool schemas.
    pub tokens: Tokens,
}

impl Size {
    const EMPTY: Self = Self { messages: 0, turns: 0, tokens: REQUEST_TOKENS };

    pub(crate) fn of(message: &ContextMessage) -> Self {
        Self { messages: 1, turns: usize::from(message.starts_turn()), tokens: message.tokens() }
    }
}

impl Add for Size {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            messages: self.messages + other.messages,
            turns: self.turns + other.turns,
            tokens: self.tokens + other.tokens,
        }
    }
}

/// A context, which is what the model would see. Cloning shares the messages.
#[derive(Clone, Debug)]
pub struct Context {
    messages: Arc<Vec<ContextMessage>>,
    /// Found when first needed: a compaction needs it often.
    groups: Arc<OnceLock<Groups>>,
    size: Size,
    /// True if a message has, or had, reasoning that is bound to its view: only then must all be looked at
    /// before a call.
    has_reasoning: bool,
    next_id: MessageId,
    /// The number of entries of the log at the time of this view.
    revision: usize,
    /// The frame of the prompt that it is for; a log's view has none.
    frame: Option<Arc<Frame>>,
}

/// One change to a context.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// Whole groups leave; `with` replaces them.
    Fold {
        /// The groups that leave.
        span: Span,
        /// The messages in their place; may be empty.
        with: Vec<ContextMessage>,
    },
    /// One message is shortened; its role, calls and call id stay.
    Shorten {
        /// Its position in the context.
        position: usize,
        /// The new content.
        with: ContextMessage,
    },
}

impl PartialEq for Context {
    fn eq(&self, other: &Self) -> bool {
        let told = |context: &Self| (context.size, context.next_id, context.revision);
        told(self) == told(other) && self.messages == other.messages
    }
}

fn has_reasoning(message: &ContextMessage) -> bool {
    message.is_bare() || message.bound_reasoning().is_some()
}

impl Edit {
    fn start(&self) -> usize {
        match self {
            Self::Fold { span, .. } => span.range().start,
            Self::Shorten { position, .. } => *position,
        }
    }
}

impl Context {
    /// Creates a context of `messages` from a log of `revision` entries that will number its next message
    /// `next_id`.
    pub(crate) fn new(messages: Vec<ContextMessage>, next_id: MessageId, revision: usize) -> Self {
        let size = messages.iter().map(Size::of).fold(Size::EMPTY, Add::add);
        let has_reasoning = messages.iter().any(has_reasoning);
        let groups = Arc::default();
        Self { messages: Arc::new(messages), groups, size, has_reasoning, next_id, revision, frame: None }
    }

    /// Returns the context as it is sent in `frame`: messages whose view has changed since they were made go
    /// without their reasoning, and are counted so. What an edit changes later is treated in the same way.
    #[must_use]
    pub fn within(self, frame: &Arc<Frame>) -> Self {
        // Messages change only by edits, which examine them: one that is in the frame stays as it is.
        if self.frame.as_ref().is_some_and(|known| Arc::ptr_eq(known, frame)) {
            return self;
        }
        let stale = if self.has_reasoning { frame.examine(&self.messages).0 } else { Vec::new() };
        let frame = Some(Arc::clone(frame));
        if stale.is_empty() {
            return Self { frame, ..self };
        }
        let mut messages = self.messages.to_vec();
        for position in stale {
            messages[position] = messages[position].bare();
        }
        Self { frame, ..Self::new(messages, self.next_id, self.revision) }
    }

    /// Returns the messages in order.
    pub fn messages(&self) -> &[ContextMessage] {
        &self.messages
    }

    /// Returns the groups of its messages.
    pub fn groups(&self) -> &Groups {
        self.groups.get_or_init(|| Groups::of(&self.messages))
    }

    /// Returns its size, known without counting.
    pub const fn size(&self) -> Size {
        self.size
    }

    /// Returns the id that the log will give to its next message.
    pub(crate) const fn next_id(&self) -> MessageId {
        self.next_id
    }

    /// Returns the number of entries of the log at the time of this view.
    pub(crate) const fn revision(&self) -> usize {
        self.revision
    }

    /// Returns the context as the view of a log that has `revision` entries.
    #[must_use]
    pub(crate) fn revised(self, revision: usize) -> Self {
        Self { revision, ..self }
    }

    /// Returns the number of system messages at its start.
    pub fn n_leading_system(&self) -> usize {
        self.messages.iter().take_while(|message| message.role() == Role::System).count()
    }

    /// Returns the position of the first user message that compaction did not make.
    pub fn first_user(&self) -> Option<usize> {
        self.messages.iter().position(ContextMessage::starts_turn)
    }

    /// Returns the position of the latest user message that compaction did not make.
    pub fn latest_user(&self) -> Option<usize> {
        self.messages.iter().rposition(ContextMessage::starts_turn)
    }

    /// Returns the context after `edits`, which must not overlap; their order does not matter.
    ///
    /// # Panics
    /// If two edits overlap, or one is about a message that the context does not have: spans are made by the
    /// [`Self::groups`] of this context.
    #[must_use]
    pub fn edit(&self, mut edits: Vec<Edit>) -> Self {
        edits.sort_by_key(Edit::start);
        let mut messages = Vec::with_capacity(self.messages.len());
        let mut position = 0;
        for edit in edits {
            messages.extend_from_slice(&self.messages[position..edit.start()]);
            position = match edit {
                Edit::Fold { span, with } => {
                    messages.extend(with);
                    span.range().end
                }
                Edit::Shorten { position, with } => {
                    messages.push(with);
                    position + 1
                }
            };
        }
        messages.extend_from_slice(&self.messages[position..]);
        let edited = Self::new(messages, self.next_id, self.revision);
        match &self.frame {
            Some(frame) => edited.within(frame),
            None => edited,
        }
    }

    /// Returns the context as a log holds it, in no frame.
    #[must_use]
    pub(super) fn unframed(self) -> Self {
        Self { frame: None, ..self }
    }

    /// Returns the context without the messages of which nothing is sent.
    #[must_use]
    pub(super) fn without_silent(self) -> Self {
        let is_silent = |message: &ContextMessage| message.is_bare() && message.says_only_reasoning();
        if !self.has_reasoning || !self.messages.iter().any(is_silent) {
            return self;
        }
        let messages = self.messages.iter().filter(|message| !is_silent(message)).cloned().collect();
        Self { frame: self.frame, ..Self::new(messages, self.next_id, self.revision) }
    }

    /// Gives later messages ids from `id` on, if it is above those that were given.
    pub(crate) fn number_from(&mut self, id: MessageId) {
        self.next_id = self.next_id.max(id);
    }

    /// Appends `message` as the newest one, already numbered by its log.
    pub(crate) fn push(&mut self, message: ContextMessage, next_id: MessageId) {
        self.size = self.size + Size::of(&message);
        self.has_reasoning |= has_reasoning(&message);
        self.next_id = next_id;
        self.revision += 1;
        Arc::make_mut(&mut self.messages).push(message);
        if self.groups.get().is_some() {
            self.groups = Arc::default();
        }
    }

    /// Gives an id to every message that had none yet, in order.
    #[must_use]
    pub(crate) fn numbered(self) -> Self {
        let mut next_id = self.next_id;
        let messages = self
            .messages
            .iter()
            .cloned()
            .map(|message| match message.id() {
                Some(_) => message,
                None => {
                    let id = next_id;
                    next_id = id.next();
                    message.numbered(id)
                }
            })
            .collect();
        Self { messages: Arc::new(messages), next_id, ..self }
    }

    /// Iterates over the plain messages, to write or send them.
    pub fn plain(&self) -> impl Iterator<Item = &Message> {
        self.messages.iter().map(ContextMessage::message)
    }
}
