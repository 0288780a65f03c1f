//! Slices in processes of their own: a run that crashes, or fills the memory, takes no other with it, and
//! each has the folder, the sandbox and the trust of its process.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use anyhow::Context as _;
use async_trait::async_trait;
use forge_app::{Pulse, SliceFailure, SliceLimits, SliceOrder, SliceOutcome, SliceRunner};
use forge_domain::Lease;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{Instant, MissedTickBehavior};

use super::forwarding::STORE_VARIABLE;
use super::lines::{PAUSE, SliceLine, SliceRequest, TICK};

/// Runs slices, each in a process of its own.
pub(crate) struct SliceProcesses {
    program: PathBuf,
    arguments: Vec<OsString>,
    store: String,
    limits: SliceLimits,
}

impl SliceProcesses {
    /// Runs slices of runs in `store` by this program with `arguments`, each within `limits`.
    pub(crate) fn new(arguments: Vec<OsString>, store: String, limits: SliceLimits) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("the path of this program is unknown")?;
        Ok(Self { program, arguments, store, limits })
    }

    fn start(&self) -> std::io::Result<Child> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .env(STORE_VARIABLE, &self.store)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        // Ctrl-C is for the worker, which asks its slices to pause.
        #[cfg(unix)]
        command.process_group(0);
        command.spawn()
    }
}

#[async_trait]
impl SliceRunner for SliceProcesses {
    async fn run_slice(
        &self,
        order: SliceOrder,
        pulse: Arc<dyn Pulse>,
    ) -> Result<SliceOutcome, SliceFailure> {
        let again = |why: String| SliceFailure::Again(why);
        pulse.beat();
        let mut child = self.start().map_err(|error| again(format!("no process can be started: {error}")))?;
        let lease = pulse.patience().and_then(Lease::new).unwrap_or_default();
        let request = SliceRequest::new(order, lease, self.limits);
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (Some(mut stdin), Some(stdout)) = (stdin, stdout) else {
            return Err(again("the process of a slice has no pipes".to_owned()));
        };
        let request = serde_json::to_string(&request).map_err(|error| again(error.to_string()))?;
        say(&mut stdin, &request).await;
        let mut lines = BufReader::new(stdout).lines();
        let mut ticks = tokio::time::interval(lease.renewal());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut pause = std::pin::pin!(pulse.pause_asked());
        let (mut is_asked, mut last_beat) = (false, Instant::now());
        loop {
            tokio::select! {
                line = lines.next_line() => match line.ok().flatten() {
                    Some(line) => match serde_json::from_str(&line) {
                        Ok(SliceLine::Beat) => {
                            last_beat = Instant::now();
                            pulse.beat();
                        }
                        Ok(SliceLine::Outcome(outcome)) => return Ok(outcome),
                        Ok(SliceLine::Again(why)) => return Err(SliceFailure::Again(why)),
                        Ok(SliceLine::Final(why)) => return Err(SliceFailure::Final(why)),
                        Err(error) => tracing::warn!(%error, line, "a slice says something else"),
                    },
                    None => {
                        let status = child.wait().await.map_err(|error| again(error.to_string()))?;
                        return Err(again(format!("the process of the slice ended without a word: {status}")));
                    }
                },
                _ = ticks.tick() => {
                    // One that is frozen is given away by the scheduler, and must not keep its place here.
                    if last_beat.elapsed() > lease.time() * 2 {
                        return Err(again("the process of the slice does not answer".to_owned()));
                    }
                    say(&mut stdin, TICK).await;
                }
                () = &mut pause, if !is_asked => {
                    is_asked = true;
                    say(&mut stdin, PAUSE).await;
                }
            }
        }
    }
}

/// Says a line to the slice. If it is gone, its output ends as well.
async fn say(stdin: &mut ChildStdin, line: &str) {
    if let Err(error) = stdin.write_all(format!("{line}\n").as_bytes()).await {
        tracing::debug!(%error, "a slice does not listen");
    }
}
