//! Hooks that are shell commands: they get an event as JSON on stdin and print an answer as JSON on stdout.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use forge_domain::{
    Hook, HookAnswer, HookCommand, HookError, HookEvent, HookPoint, ToolPattern, UnfitAnswer, WhereBroken,
};
use tokio::io::AsyncWriteExt;

use crate::CommandSandbox;
use crate::process::{self, Program, read};

/// A command that `sh -c` runs for every event at one point.
///
/// It gets the event ([`HookEvent`]) as one JSON document on stdin. Its environment holds `FORGE_HOOK` with
/// the name of the point, harmless variables (`PATH`, `HOME`, the locale and the like) and those that the
/// command names: keys are not passed on. The first 64 KiB of its output are kept; the rest is read and
/// dropped. All processes that it starts are killed when the command ends, when its time is over, and when
/// the run is cancelled. An exit status other than 0 means that the hook failed. At a point that asks a
/// question ([`HookPoint::is_question`]) the output is its answer ([`HookAnswer::read`]), and an empty output
/// allows the action. At other points the output is ignored.
///
/// At `pre_compact` it reads and may print, each on one line:
///
/// ```json
/// {"event": "pre_compact", "agent": "reader", "trigger": "tokens", "before": {"messages": 41, "turns": 3, "tokens": 9120},
///  "room": 12000, "target": 6000, "strategies": ["sliding_window", "truncation"], "focus": null, "pin": [],
///  "messages": [{"id": "m0", "role": "user", "tokens": 12, "is_compacted": false, "text": "its first 200 characters"}]}
///
/// {"decision": "proceed"}
/// {"decision": "deny", "reason": "words for people"}
/// {"decision": "edit", "focus": "words", "pin": ["pattern"], "keep": ["m12"]}
/// ```
///
/// At `post_compact` it reads this, with a [`forge_domain::compaction::CompactionReport`] as `report`:
///
/// ```json
/// {"event": "post_compact", "agent": "reader", "duration_ms": 12,
///  "report": {"trigger": "tokens", "outcome": {"applied": {}}, "summary": "what replaces the messages", "attempts": [], "before": {}, "after": {}}}
/// ```
#[derive(Debug)]
pub struct ShellHook {
    command: String,
    point: HookPoint,
    tools: Vec<ToolPattern>,
    where_broken: WhereBroken,
    time_limit: Duration,
    folder: PathBuf,
    environment: BTreeMap<String, String>,
    sandbox: Option<Arc<CommandSandbox>>,
}

/// The reason why a command gave no answer.
#[derive(Debug, thiserror::Error)]
enum ShellHookError {
    #[error("it cannot be started: {0}")]
    Start(#[source] io::Error),
    #[error("cannot wait for it: {0}")]
    Wait(#[source] io::Error),
    #[error("it did not finish within {0:?} and was killed")]
    TimedOut(Duration),
    #[error("it ended with {status}{}", last_line(stderr))]
    Exit { status: ExitStatus, stderr: String },
    #[error("cannot send the event: {0}")]
    Event(#[source] serde_json::Error),
    #[error("its output is not a valid answer{}: {source}", cut(*n_printed))]
    Answer { n_printed: usize, source: UnfitAnswer },
}

/// The most bytes of an answer that are kept.
const MOST_OUTPUT: usize = 64 * 1024;
/// The most bytes of stderr that are kept.
const MOST_STDERR: usize = 4 * 1024;
impl ShellHook {
    /// Creates a hook that runs `command` at `point` in `folder`. The command sees the harmless and the named
    /// variables of the environment, and has no sandbox until [`Self::within`] gives it one.
    pub fn new(
        point: HookPoint,
        command: &HookCommand,
        folder: PathBuf,
        environment: &BTreeMap<String, String>,
    ) -> Self {
        Self {
            command: command.command.as_str().to_owned(),
            point,
            tools: Vec::new(),
            where_broken: command.if_broken.unwrap_or_default(),
            time_limit: command.time_limit(),
            folder,
            environment: process::clean_environment(environment, &command.env),
            sandbox: None,
        }
    }

    /// Runs the command in this sandbox; without one if it is `None`.
    #[must_use]
    pub fn within(self, sandbox: Option<Arc<CommandSandbox>>) -> Self {
        Self { sandbox, ..self }
    }

    /// Limits the hook to these tools; an empty list means every tool.
    #[must_use]
    pub fn about(self, tools: &[ToolPattern]) -> Self {
        Self { tools: tools.to_vec(), ..self }
    }

    async fn run(&self, event: &HookEvent<'_>) -> Result<Printed, ShellHookError> {
        let mut program = Program::shell(&self.folder, &self.environment, &[&self.command]);
        program.sandbox.clone_from(&self.sandbox);
        program.environment.insert("FORGE_HOOK".to_owned(), self.point.as_str().to_owned());
        (program.has_input, program.has_errors) = (true, true);
        let Ok(started) = tokio::time::timeout(self.time_limit, program.start()).await else {
            return Err(ShellHookError::TimedOut(self.time_limit));
        };
        let mut running = started.map_err(ShellHookError::Start)?;
        let mut told = serde_json::to_vec(event).map_err(ShellHookError::Event)?;
        told.push(b'\n');
        let (stdin, stdout, stderr) = (running.stdin.take(), running.stdout.take(), running.stderr.take());
        let write = async move {
            if let Some(mut stdin) = stdin {
                // A command that does not read what it is told closes the pipe; that is its own affair.
                let _ = stdin.write_all(&told).await;
            }
        };
        let (mut out, mut err) = (Printed::default(), Vec::new());
        let read_out = read(stdout, |bytes| out.take(bytes));
        let read_err = read(stderr, |bytes| keep_last(&mut err, bytes));
        let all = async { tokio::join!(running.wait(), write, read_out, read_err) };
        let Ok((status, ..)) = tokio::time::timeout(self.time_limit, all).await else {
            running.end().await;
            return Err(ShellHookError::TimedOut(self.time_limit));
        };
        let status = status.map_err(ShellHookError::Wait)?;
        if !status.success() {
            let stderr = String::from_utf8_lossy(&err).into_owned();
            if let Some(sandbox) = &self.sandbox {
                // The user sees them; a hook has no one else to tell.
                match running.exceeded() {
                    Some(limit) => drop(sandbox.excess(limit)),
                    None => drop(sandbox.hints(&stderr)),
                }
            }
            return Err(ShellHookError::Exit { status, stderr });
        }
        Ok(out)
    }
}

#[async_trait]
impl Hook for ShellHook {
    fn name(&self) -> &str {
        &self.command
    }

    fn listens_at(&self, point: HookPoint) -> bool {
        point == self.point
    }

    fn wants(&self, event: &HookEvent<'_>) -> bool {
        let is_about = |tool| self.tools.iter().any(|pattern| pattern.matches(tool));
        self.tools.is_empty() || event.tool().is_some_and(is_about)
    }

    fn where_broken(&self) -> WhereBroken {
        self.where_broken
    }

    async fn call(&self, event: &HookEvent<'_>) -> Result<HookAnswer, HookError> {
        let broken = |error: ShellHookError| HookError(Box::new(error));
        let printed = self.run(event).await.map_err(broken)?;
        let Printed { kept, n_printed } = printed;
        if !self.point.is_question() || kept.trim_ascii().is_empty() {
            return Ok(HookAnswer::Proceed);
        }
        // What was cut in the middle of a character is no answer in any case.
        HookAnswer::read(self.point, &String::from_utf8_lossy(&kept))
            .map_err(|source| broken(ShellHookError::Answer { n_printed, source }))
    }
}

/// The beginning of a command's output, and its total length.
#[derive(Default)]
struct Printed {
    kept: Vec<u8>,
    n_printed: usize,
}

impl Printed {
    fn take(&mut self, bytes: &[u8]) {
        let room = MOST_OUTPUT.saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.n_printed += bytes.len();
    }
}

/// Adds `bytes` to the end of the kept output and drops its oldest part.
fn keep_last(last: &mut Vec<u8>, bytes: &[u8]) {
    last.extend_from_slice(bytes);
    let n_over = last.len().saturating_sub(MOST_STDERR);
    last.drain(..n_over);
}

/// Returns a note that an answer was cut; nothing if it was not.
fn cut(n_printed: usize) -> String {
    if n_printed <= MOST_OUTPUT {
        return String::new();
    }
    format!(" (cut: of {n_printed} bytes the first {MOST_OUTPUT} were kept)")
}

/// Returns the last line of a command's stderr, for users.
fn last_line(stderr: &str) -> String {
    match stderr.lines().map(str::trim).rfind(|line| !line.is_empty()) {
        Some(line) => {
            let line: String = line.chars().filter(|c| !c.is_control()).take(200).collect();
            format!(": {line}")
        }
        None => String::new(),
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::path::Path;

    use forge_domain::compaction::{CompactionReport, CompactionSettings, Outcome, Trigger};
    use forge_domain::{
        AgentId, Budget, ChatOptions, Compact, CompactEdit, Context, Conversation, HookEdit, ModelId,
        ModelLimits, ModelRef, PostCompact, PreCompact, PreToolCall, ProviderId, Size, TokenCounter, Tokens,
        ToolCall, ToolName,
    };
    use pretty_assertions::assert_eq;

    use super::*;
    #[cfg(target_os = "linux")]
    use crate::process::fixture::{runs, until};

    fn environment() -> BTreeMap<String, String> {
        let path = std::env::var("PATH").unwrap_or_default();
        let pairs = [("PATH", path.as_str()), ("SECRET_KEY", "sk-planted"), ("NAMED", "yes")];
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    fn hook(point: HookPoint, yaml: &str, folder: &Path) -> ShellHook {
        let command: HookCommand = serde_json::from_str(yaml).unwrap();
        ShellHook::new(point, &command, folder.to_owned(), &environment())
    }

    struct Bytes;

    impl TokenCounter for Bytes {
        fn count(&self, text: &str) -> Tokens {
            Tokens::new(text.len() as u64)
        }
    }

    fn settings() -> CompactionSettings {
        let model = ModelRef { provider: ProviderId::new("p").unwrap(), model: ModelId::new("m").unwrap() };
        let limits = ModelLimits { window: Tokens::new(1_000), max_output: None };
        let budget = Budget::new(limits, ChatOptions::new(model), Vec::new(), &Bytes);
        Compact::default().resolve(&budget).unwrap()
    }

    fn view() -> Context {
        Conversation::new().view()
    }

    async fn ask(command: &str, limit: &str) -> Result<HookAnswer, String> {
        let folder = tempfile::tempdir().unwrap();
        let yaml = serde_json::json!({"command": command, "timeout": limit, "env": ["NAMED"]}).to_string();
        let agent = AgentId::new("a").unwrap();
        let settings = settings();
        let event = HookEvent::PreCompact(PreCompact::new(
            &agent,
            Trigger::Tokens,
            Tokens::new(9),
            &settings,
            &view(),
        ));
        let hook = hook(HookPoint::PreCompact, &yaml, folder.path());
        hook.call(&event).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_command_answers_or_is_broken() {
        let deny = |reason: &str| HookAnswer::Deny { reason: reason.to_owned() };
        let focus = |words: &str| {
            HookAnswer::Edit(HookEdit::Compaction(CompactEdit {
                focus: Some(words.to_owned().try_into().unwrap()),
                ..CompactEdit::default()
            }))
        };
        for (command, expected) in [
            ("true", Ok(HookAnswer::Proceed)),
            ("echo", Ok(HookAnswer::Proceed)),
            (r#"echo '{"decision": "proceed"}'"#, Ok(HookAnswer::Proceed)),
            (r#"echo '{"decision": "deny", "reason": "busy"}'"#, Ok(deny("busy"))),
            (r#"echo '{"decision": "edit", "focus": "keys"}'"#, Ok(focus("keys"))),
            // The event is on its stdin, and the point in its environment.
            (
                r#"grep -q '"event":"pre_compact","agent":"a"' && echo "{\"decision\": \"deny\", \"reason\": \"$FORGE_HOOK\"}""#,
                Ok(deny("pre_compact")),
            ),
            // Only what is harmless or named is in its environment.
            (
                r#"echo "{\"decision\": \"deny\", \"reason\": \"[$SECRET_KEY][$NAMED]\"}""#,
                Ok(deny("[][yes]")),
            ),
            ("exit 3", Err("it ended with exit status: 3")),
            ("echo one >&2; echo two >&2; exit 1", Err("it ended with exit status: 1: two")),
            ("no-such-command-anywhere", Err("it ended with exit status: 127: ")),
            (
                "echo nonsense",
                Err(
                    r#"its output is not a valid answer: not JSON such as {"decision": "deny"}: expected ident"#,
                ),
            ),
            (
                r#"echo '{"decision": "perhaps"}'"#,
                Err("its output is not a valid answer: unknown variant `perhaps`"),
            ),
            // Too much is read to its end and judged by its exit and by what was kept of it.
            (
                "yes | head -c 200000",
                Err("its output is not a valid answer (cut: of 200000 bytes the first 65536 were kept): "),
            ),
            ("yes | head -c 200000; exit 4", Err("it ended with exit status: 4")),
            ("yes | head -c 200000 >&2; echo last >&2; exit 5", Err("it ended with exit status: 5: last")),
            (
                r#"echo '{"decision": "deny", "reason": "long"}'; head -c 200000 /dev/zero | tr '\0' ' '"#,
                Ok(deny("long")),
            ),
            ("kill -9 $$", Err("it ended with signal: 9")),
        ] {
            let actual = ask(command, "20s").await;
            match (&actual, &expected) {
                (Err(actual), Err(expected)) => assert!(actual.starts_with(expected), "{command}: {actual}"),
                _ => assert_eq!(actual, expected.map_err(str::to_owned), "{command}"),
            }
        }
    }

    #[tokio::test]
    async fn a_command_hears_of_the_tools_that_it_is_about() {
        let folder = tempfile::tempdir().unwrap();
        let agent = AgentId::new("a").unwrap();
        let guard = r#"{"command": "if grep -q 'rm -rf'; then echo '{\"decision\": \"deny\", \"reason\": \"no\"}'; fi", "timeout": "20s"}"#;
        let patterns: Vec<ToolPattern> = serde_json::from_str(r#"["shell", "files__*"]"#).unwrap();
        let guard = hook(HookPoint::PreToolCall, guard, folder.path()).about(&patterns);
        for (tool, arguments, expected) in [
            ("shell", "rm -rf /", Some(HookAnswer::Deny { reason: "no".to_owned() })),
            ("shell", "ls", Some(HookAnswer::Proceed)),
            ("files__remove", "rm -rf", Some(HookAnswer::Deny { reason: "no".to_owned() })),
            ("read", "rm -rf", None),
        ] {
            let arguments = serde_json::json!({"command": arguments}).to_string();
            let call = ToolCall { id: "c".into(), name: ToolName::new(tool).unwrap(), arguments };
            let event = HookEvent::PreToolCall(PreToolCall::new(&agent, &call));
            let actual = match guard.wants(&event) {
                true => Some(guard.call(&event).await.unwrap()),
                false => None,
            };
            assert_eq!(actual, expected, "{tool}");
        }
        assert_eq!(guard.where_broken(), WhereBroken::Proceed);
        let must =
            hook(HookPoint::PreToolCall, r#"{"command": "false", "if_broken": "deny"}"#, folder.path());
        assert_eq!(must.where_broken(), WhereBroken::Deny);
    }

    #[tokio::test]
    async fn an_event_that_is_told_leaves_the_output_unread() {
        let folder = tempfile::tempdir().unwrap();
        let agent = AgentId::new("a").unwrap();
        let (outcome, size) = (Outcome::NothingToCut, Size::default());
        let report = CompactionReport {
            trigger: None,
            outcome,
            summary: None,
            attempts: Vec::new(),
            before: size,
            after: size,
        };
        let event = HookEvent::PostCompact(PostCompact { agent: &agent, report: &report, duration_ms: 7 });
        let hook =
            hook(HookPoint::PostCompact, r#"{"command": "cat > told; yes | head -c 200000"}"#, folder.path());
        assert_eq!(hook.call(&event).await.unwrap(), HookAnswer::Proceed);
        let told: serde_json::Value =
            serde_json::from_slice(&std::fs::read(folder.path().join("told")).unwrap()).unwrap();
        assert_eq!((&told["event"], &told["duration_ms"]), (&"post_compact".into(), &7.into()));
        assert_eq!(told["report"]["outcome"], "nothing_to_cut");
    }

    #[cfg(target_os = "linux")]
    const LEAVES_A_CHILD: &str = "sleep 1000 & echo $! > child.new; mv child.new child; wait";

    #[cfg(target_os = "linux")]
    fn child_in(folder: &Path) -> Option<String> {
        std::fs::read_to_string(folder.join("child")).ok()
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn whatever_a_command_started_is_killed_with_it() {
        let agent = AgentId::new("a").unwrap();
        let settings = settings();
        let event = HookEvent::PreCompact(PreCompact::new(
            &agent,
            Trigger::Tokens,
            Tokens::new(9),
            &settings,
            &view(),
        ));
        // At the limit of its time.
        let folder = tempfile::tempdir().unwrap();
        let yaml = serde_json::json!({"command": LEAVES_A_CHILD, "timeout": "1s"}).to_string();
        let slow = hook(HookPoint::PreCompact, &yaml, folder.path());
        let error = slow.call(&event).await.unwrap_err().to_string();
        assert_eq!(error, "it did not finish within 1s and was killed");
        let child = child_in(folder.path()).expect("it started a child");
        until(|| (!runs(&child)).then_some(())).await;
        // When it ends by itself.
        let folder = tempfile::tempdir().unwrap();
        let command = LEAVES_A_CHILD.replace("; wait", "");
        let yaml = serde_json::json!({"command": command, "timeout": "20s"}).to_string();
        let quick = hook(HookPoint::PreCompact, &yaml, folder.path());
        assert_eq!(quick.call(&event).await.unwrap(), HookAnswer::Proceed);
        let child = child_in(folder.path()).expect("it started a child");
        until(|| (!runs(&child)).then_some(())).await;
        // When the run is cancelled.
        let folder = tempfile::tempdir().unwrap();
        let yaml = serde_json::json!({"command": LEAVES_A_CHILD, "timeout": "10m"}).to_string();
        let cancelled = hook(HookPoint::PreCompact, &yaml, folder.path());
        let child = tokio::select! {
            answer = cancelled.call(&event) => panic!("{answer:?}"),
            child = until(|| child_in(folder.path())) => child,
        };
        until(|| (!runs(&child)).then_some(())).await;
    }
}
