//! A checkpoint: a named, resumable state of a run.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    AgentId, CheckpointId, CheckpointKey, CheckpointMoment, Configuration, ContextSnapshot, Message,
    MessageId, Progress, RunId, Tokens,
};

/// The reason a checkpoint was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointReason {
    /// A number of calls to the model had passed.
    Iteration,
    /// The context was compacted.
    Compaction,
    /// The run was interrupted.
    Interrupt,
    /// The run came to its end.
    End,
    /// The run begins with the state of another.
    Fork,
    /// A user or a caller asked for it.
    Asked,
    /// The run paused at a safe point, or waits for an answer.
    Pause,
}

impl CheckpointReason {
    /// Every reason.
    pub const ALL: [Self; 7] =
        [Self::Iteration, Self::Compaction, Self::Interrupt, Self::End, Self::Fork, Self::Asked, Self::Pause];

    /// Returns the reason's word, as files and tables have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Iteration => "iteration",
            Self::Compaction => "compaction",
            Self::Interrupt => "interrupt",
            Self::End => "end",
            Self::Fork => "fork",
            Self::Asked => "asked",
            Self::Pause => "pause",
        }
    }

    /// Returns the reason of that word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }
}

impl From<CheckpointMoment> for CheckpointReason {
    fn from(moment: CheckpointMoment) -> Self {
        match moment {
            CheckpointMoment::Iteration => Self::Iteration,
            CheckpointMoment::Compaction => Self::Compaction,
            CheckpointMoment::Interrupt => Self::Interrupt,
            CheckpointMoment::End => Self::End,
        }
    }
}

/// A state that is to be kept.
#[derive(Clone, Debug, PartialEq)]
pub struct NewCheckpoint {
    /// The state.
    pub snapshot: ContextSnapshot,
    /// The agent's last step, such as `iteration-6`; after the agent's name, it is the checkpoint's id.
    pub step: String,
    /// The reason why it is saved.
    pub reason: CheckpointReason,
    /// When it was made, by the port [`crate::Clock`].
    pub created_at: Timestamp,
    /// The checkpoint that this state grew from: the last one saved or loaded, of this run or of the one that
    /// it forks from. `None` if the conversation started in this run. The log up to there is known and not
    /// written again.
    pub parent: Option<CheckpointKey>,
}

/// The facts about a checkpoint that are known without reading its conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointInfo {
    /// Its number in the store.
    pub key: CheckpointKey,
    /// Its name.
    pub id: CheckpointId,
    /// The run that it belongs to.
    pub run: RunId,
    /// The agent whose work it holds.
    pub agent: AgentId,
    /// When it was made.
    pub created_at: Timestamp,
    /// The agent's last step.
    pub step: String,
    /// The reason why it was made.
    pub reason: CheckpointReason,
    /// The checkpoint that it grew from, or the nearest before that one that is still there.
    pub parent: Option<CheckpointKey>,
    /// Calls to the model until then.
    pub iteration: usize,
    /// Lines of the log: messages, compactions and their undoing.
    pub n_entries: usize,
    /// Messages in the view.
    pub message_count: usize,
    /// Tokens of the view, as they were counted.
    pub estimated_tokens: Tokens,
}

/// A checkpoint that was read back.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The facts about it.
    pub info: CheckpointInfo,
    /// The state.
    pub snapshot: ContextSnapshot,
}

/// The parts of a checkpoint by which people recognize its run.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckpointOutline {
    /// The first message of the user's.
    pub task: Option<Message>,
    /// The counters of the agent.
    pub progress: Progress,
    /// The configuration that the agent worked with.
    pub configuration: Configuration,
}

impl CheckpointOutline {
    /// Returns the outline of a state that is read anyway.
    pub fn of(snapshot: ContextSnapshot) -> Self {
        let task = snapshot.conversation.task().cloned();
        Self { task, progress: snapshot.progress, configuration: snapshot.configuration }
    }
}

/// A filter for checkpoints: every field that is set must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointFilter {
    /// Those of this run.
    pub run: Option<RunId>,
    /// Those of this agent.
    pub agent: Option<AgentId>,
    /// Those of this name.
    pub id: Option<CheckpointId>,
    /// The one of this number.
    pub key: Option<CheckpointKey>,
    /// Those made for this reason.
    pub reason: Option<CheckpointReason>,
    /// Those saved before this one.
    pub before: Option<CheckpointKey>,
    /// At most so many, the newest.
    pub limit: Option<usize>,
}

impl CheckpointFilter {
    /// Returns a filter for the checkpoints of `run`.
    pub fn of_run(run: &RunId) -> Self {
        Self { run: Some(run.clone()), ..Self::default() }
    }

    /// Checks whether the filter admits the checkpoint, apart from its limit.
    pub fn admits(&self, info: &CheckpointInfo) -> bool {
        fn is<T: PartialEq>(wanted: Option<&T>, is: &T) -> bool {
            wanted.is_none_or(|wanted| wanted == is)
        }
        is(self.run.as_ref(), &info.run)
            && is(self.agent.as_ref(), &info.agent)
            && is(self.id.as_ref(), &info.id)
            && is(self.key.as_ref(), &info.key)
            && is(self.reason.as_ref(), &info.reason)
            && self.before.is_none_or(|before| info.key < before)
    }
}

impl NewCheckpoint {
    /// Returns the facts about it, once the store has numbered it `key` in `run`.
    pub fn info(&self, run: &RunId, key: CheckpointKey) -> CheckpointInfo {
        let size = self.snapshot.conversation.view().size();
        CheckpointInfo {
            key,
            id: CheckpointId::of(&self.snapshot.agent, &self.step),
            run: run.clone(),
            agent: self.snapshot.agent.clone(),
            created_at: self.created_at,
            step: self.step.clone(),
            reason: self.reason,
            parent: self.parent,
            iteration: self.snapshot.progress.iterations,
            n_entries: self.snapshot.conversation.entries().len(),
            message_count: size.messages,
            estimated_tokens: size.tokens,
        }
    }
}

/// A message of a run's log that a search found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The agent whose conversation contains it.
    pub agent: AgentId,
    /// The message.
    pub message: MessageId,
    /// The text around the first word that was looked for.
    pub excerpt: String,
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn every_reason_is_known_by_its_word() {
        for reason in CheckpointReason::ALL {
            assert_eq!(CheckpointReason::named(reason.as_str()), Some(reason));
        }
        assert_eq!(CheckpointReason::named("whim"), None);
    }
}
