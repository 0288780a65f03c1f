//! The conduct of a run: the user's decisions in advance, its pace, and the calls that were denied.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forge_domain::{AgentId, Discretion, Mode, Permission, Reach, Rules, Subject, ToolCall, ToolName};
use futures::future::BoxFuture;

use crate::{DeniedBy, DeniedCall, Pacing, Remedy, RunError, RunReport};

/// A check whether this system confines commands; the error says what it does not confine.
pub type SandboxCheck = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// The conduct of a run, which the user may change while it works.
#[derive(Default)]
pub struct Conduct {
    discretion: Mutex<Discretion>,
    denied: Mutex<Vec<DeniedCall>>,
    /// `None` if commands run without a sandbox.
    sandbox: Mutex<Option<SandboxCheck>>,
    /// The pace: whether its turns pause.
    pub pacing: Pacing,
}

/// An error about a mode that cannot be switched to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the mode `auto` needs a sandbox, and {why}")]
pub struct ModeRefused {
    why: String,
}

impl Conduct {
    /// Starts with these decisions of the user. `sandbox` checks whether commands are confined; without it,
    /// the mode `auto` is refused.
    pub fn begin(&self, discretion: Discretion, sandbox: Option<SandboxCheck>) {
        *self.lock() = discretion;
        *self.sandbox.lock().unwrap_or_else(PoisonError::into_inner) = sandbox;
    }

    /// Returns the user's decisions in advance.
    pub fn discretion(&self) -> Discretion {
        self.lock().clone()
    }

    /// Returns the mode of work.
    pub fn mode(&self) -> Mode {
        self.lock().mode
    }

    /// Switches to `mode`, from the next call on.
    ///
    /// # Errors
    /// [`ModeRefused`] if nothing confines what would run without a question.
    pub async fn set_mode(&self, mode: Mode) -> Result<(), ModeRefused> {
        self.check_mode(mode).await?;
        self.lock().mode = mode;
        Ok(())
    }

    /// Checks whether `mode` can be used here.
    ///
    /// # Errors
    /// [`ModeRefused`].
    pub async fn check_mode(&self, mode: Mode) -> Result<(), ModeRefused> {
        if mode != Mode::Auto {
            return Ok(());
        }
        let check = self.sandbox.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match check {
            Some(check) => check().await.map_err(|why| ModeRefused { why }),
            None => Err(ModeRefused { why: "it is off".to_owned() }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Discretion> {
        self.discretion.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_denials(&self) -> MutexGuard<'_, Vec<DeniedCall>> {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a call was denied, and which flags would have allowed it.
    pub(crate) fn deny(
        &self,
        agent: &AgentId,
        call: &ToolCall,
        about: &[Subject],
        by: DeniedBy,
        remedy: Remedy,
    ) {
        self.lock_denials().push(DeniedCall {
            agent: agent.clone(),
            tool: call.name.clone(),
            call_id: call.id.clone(),
            arguments: call.arguments.clone(),
            about: about.iter().map(ToString::to_string).collect(),
            by,
            remedy,
        });
    }

    /// Returns the flags that would have allowed a call of `tool` under `rules`, which asked for consent to
    /// `about`.
    pub(crate) fn remedy(&self, rules: &Rules, tool: &ToolName, about: &[Subject]) -> Remedy {
        let reach = Reach { usual: Permission::Ask, subjects: about.to_vec() };
        let now = self.discretion();
        let is_allowed = |with: &Discretion| rules.decide(with, tool, &reach).permission == Permission::Allow;
        let is_rule = |rule: &String| {
            let mut with = now.clone();
            with.allow(rule).is_ok() && is_allowed(&with)
        };
        let everything = {
            let mut with = now.clone();
            with.allow_everything();
            is_allowed(&with)
        };
        let pattern = match about {
            [Subject::Read(text) | Subject::Written(text) | Subject::Command(text)] => Some(text),
            _ => None,
        };
        let of_tool = std::iter::once(tool.to_string());
        let mut rules = of_tool.chain(pattern.map(|text| format!("{tool}:{text}")));
        Remedy {
            edits: is_allowed(&Discretion { mode: Mode::Edits, ..now.clone() }),
            rule: rules.find(is_rule),
            everything,
        }
    }

    /// Adds the calls that were denied since the last time to a report.
    pub(crate) fn report(&self, result: Result<RunReport, RunError>) -> Result<RunReport, RunError> {
        let denials = std::mem::take(&mut *self.lock_denials());
        result.map(|report| RunReport { denials, ..report })
    }
}
