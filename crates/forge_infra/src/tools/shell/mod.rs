//! `shell`: a command in the workspace folder, with limits on its time and output, and without processes left
//! behind.

mod command_parts;
mod runners;

use std::collections::{BTreeMap, VecDeque};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use forge_domain::{CallScope, EditorTerminal, Permission, Reach, TerminalCommand};
use futures::future::{Either, select};
use serde::Deserialize;
use serde_json::{Value, json};

use self::command_parts::{parts, shown_secrets};
use super::files::secret_at;
use crate::CommandSandbox;
use crate::process::{self, Program};
use crate::tools::arguments::Arguments;
use crate::tools::failure::ToolFailure;
use crate::tools::{Room, Tool};

/// The most bytes of output that are kept from its beginning, and as many from its end.
const MOST_KEPT: usize = 64 * 1_024;
/// The time to wait for the rest of the output when the command has ended.
const GRACE: Duration = Duration::from_millis(500);
/// The longest time limit that a model may request, in seconds.
const LONGEST: u64 = 600;
/// A script that joins both outputs, in the order in which they were written; the command is passed on
/// unchanged.
const JOINED: &str = r#"exec 2>&1; exec sh -c "$0""#;

pub(super) struct Shell;

/// The rules for running commands.
#[derive(Debug)]
pub(super) struct ShellRoom {
    /// The time limit of a command.
    pub(super) time_limit: Duration,
    /// The whole environment of a command.
    pub(super) environment: BTreeMap<String, String>,
    /// The sandbox in which it runs, if any.
    pub(super) sandbox: Option<Arc<CommandSandbox>>,
}

impl Default for ShellRoom {
    fn default() -> Self {
        Self { time_limit: Duration::from_secs(120), environment: BTreeMap::new(), sandbox: None }
    }
}

#[derive(Deserialize)]
struct Wanted {
    command: String,
    timeout_seconds: Option<u64>,
}

#[async_trait]
impl Tool for Shell {
    fn name(&self) -> &'static str {
        "shell"
    }

    fn description(&self) -> String {
        format!(
            "Runs a command with `sh -c` in the root of the workspace, and gives what it prints. Each command is a new shell \
             without input. What it starts in the background is ended with it. Of a long output the first and the last {} KiB \
             are shown. To look at files and change them use the tools for that.",
            MOST_KEPT / 1_024
        )
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "minLength": 1, "description": "The command line."},
                "timeout_seconds": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": LONGEST,
                    "description": "How long it may take at most."
                }
            },
            "required": ["command"],
            "additionalProperties": false
        })
    }

    async fn reach(&self, arguments: &Arguments, _: &Room) -> Reach {
        let Some(line) = arguments.text("command") else { return Reach::careful() };
        let secrets = shown_secrets(line).into_iter().filter_map(|path| secret_at(&path));
        Reach { usual: Permission::Ask, subjects: parts(line).into_iter().chain(secrets).collect() }
    }

    async fn run(&self, arguments: Arguments, room: &Room, scope: &CallScope) -> Result<String, ToolFailure> {
        let Wanted { command, timeout_seconds } = arguments.read()?;
        let limit =
            timeout_seconds.map_or(room.shell.time_limit, Duration::from_secs).min(room.shell.time_limit);
        // In the editor's terminal nothing confines a command.
        if let (Some(terminal), None) = (&room.terminal, &room.shell.sandbox) {
            return run_in_terminal(&**terminal, command, room, limit, scope).await;
        }
        let mut printed = Printed::default();
        let mut lines = Lines { scope, unfinished: Vec::new() };
        let ended = run(&command, room, limit, |bytes| {
            printed.take(bytes);
            lines.take(bytes);
        });
        let ended = ended.await?;
        lines.finish();
        let n_bytes = printed.n_bytes();
        let output = printed.text();
        let how = match &ended {
            Ended::Exit(status) => in_words(*status),
            Ended::Exceeded(_) => "killed at a limit of the sandbox".to_owned(),
            Ended::TimedOut => "killed at its time limit".to_owned(),
        };
        scope.note_outcome(format!("{how}, {n_bytes} bytes"));
        match ended {
            Ended::Exit(status) if status.success() => Ok(output),
            Ended::Exit(status) => {
                let hints = room.shell.sandbox.iter().flat_map(|sandbox| sandbox.hints(&output));
                let hints: String = hints.map(|hint| format!("\n[perhaps {hint}]")).collect();
                Err(ToolFailure::Refused(format!("{output}\n[{}]{hints}", in_words(status))))
            }
            Ended::Exceeded(why) => Err(ToolFailure::Refused(format!("{output}\n[{why}]"))),
            Ended::TimedOut => Err(ToolFailure::Refused(format!(
                "{output}\n[not done after {} seconds: it was killed with all that it had started]",
                limit.as_secs()
            ))),
        }
    }
}

/// Runs a command in the terminal of the user's editor.
async fn run_in_terminal(
    terminal: &dyn EditorTerminal,
    line: String,
    room: &Room,
    limit: Duration,
    scope: &CallScope,
) -> Result<String, ToolFailure> {
    let command = TerminalCommand {
        line,
        folder: room.workspace.root().to_owned(),
        environment: room.shell.environment.clone(),
        limit,
        most_bytes: 2 * MOST_KEPT,
    };
    let refused = |why| ToolFailure::Refused(format!("the editor's terminal cannot run the command: {why}"));
    let end = terminal.run(&command).await.map_err(refused)?;
    let how = match (end.exit_code, end.is_timed_out) {
        (_, true) => "killed at its time limit".to_owned(),
        (Some(code), false) => format!("exit code {code}"),
        (None, false) => "killed".to_owned(),
    };
    scope.note_outcome(format!("{how}, {} bytes, in the editor's terminal", end.output.len()));
    let cut = if end.is_cut { "[the beginning is left out]\n" } else { "" };
    let output = format!("{cut}{}", end.output);
    match end.exit_code {
        Some(0) if !end.is_timed_out => Ok(output),
        _ => Err(ToolFailure::Refused(format!("{output}\n[{how}]"))),
    }
}

enum Ended {
    Exit(ExitStatus),
    /// The command was killed because it exceeded this limit of its sandbox.
    Exceeded(String),
    TimedOut,
}

async fn run(
    command: &str,
    room: &Room,
    limit: Duration,
    take: impl FnMut(&[u8]),
) -> Result<Ended, ToolFailure> {
    let command = [JOINED, command];
    let mut program = Program::shell(room.workspace.root(), &room.shell.environment, &command);
    program.sandbox.clone_from(&room.shell.sandbox);
    let cannot = |what: &str, error: std::io::Error| {
        ToolFailure::Refused(format!("the command cannot be {what}: {error}"))
    };
    let Ok(started) = tokio::time::timeout(limit, program.start()).await else {
        return Ok(Ended::TimedOut);
    };
    let mut running = started.map_err(|error| cannot("started", error))?;
    let reading = Box::pin(process::read(running.stdout.take(), take));
    let both = async {
        match select(Box::pin(running.wait()), reading).await {
            Either::Left((status, reading)) => {
                // Who got away with the pipe does not hold us up.
                let _ = tokio::time::timeout(GRACE, reading).await;
                status
            }
            Either::Right(((), wait)) => wait.await,
        }
    };
    let ended = tokio::time::timeout(limit, both).await;
    if let (Some(limit), Some(sandbox)) = (running.exceeded(), &room.shell.sandbox) {
        return Ok(Ended::Exceeded(sandbox.excess(limit)));
    }
    match ended {
        Ok(status) => status.map(Ended::Exit).map_err(|error| cannot("waited for", error)),
        Err(_) => {
            running.end().await;
            Ok(Ended::TimedOut)
        }
    }
}

fn in_words(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exit code {code}"),
        #[cfg(unix)]
        None => {
            use std::os::unix::process::ExitStatusExt;
            format!("killed by signal {}", status.signal().unwrap_or_default())
        }
        #[cfg(not(unix))]
        None => "killed".to_owned(),
    }
}

/// The lines of a command's output, shown as they come.
struct Lines<'s> {
    scope: &'s CallScope,
    unfinished: Vec<u8>,
}

impl Lines<'_> {
    /// The longest line that is waited for.
    const LONGEST: usize = 4_096;

    fn take(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.unfinished.extend_from_slice(part);
            if part.ends_with(b"\n") || self.unfinished.len() > Self::LONGEST {
                self.finish();
            }
        }
    }

    /// Shows what has come of the last line.
    fn finish(&mut self) {
        if !self.unfinished.is_empty() {
            let line = String::from_utf8_lossy(&self.unfinished);
            self.scope.show_line(line.trim_end_matches(['\n', '\r']));
            self.unfinished.clear();
        }
    }
}

/// The beginning and the end of a command's output, and the number of bytes between them.
#[derive(Default)]
struct Printed {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    n_lost: u64,
}

impl Printed {
    fn n_bytes(&self) -> u64 {
        (self.head.len() + self.tail.len()) as u64 + self.n_lost
    }

    fn take(&mut self, bytes: &[u8]) {
        let n_head = bytes.len().min(MOST_KEPT - self.head.len());
        self.head.extend_from_slice(&bytes[..n_head]);
        self.tail.extend(&bytes[n_head..]);
        let n_over = self.tail.len().saturating_sub(MOST_KEPT);
        self.tail.drain(..n_over);
        self.n_lost += n_over as u64;
    }

    fn text(self) -> String {
        let Self { mut head, tail, n_lost } = self;
        if n_lost == 0 {
            head.extend(tail);
            let text = String::from_utf8_lossy(&head).into_owned();
            return if text.trim().is_empty() { "[it printed nothing]".to_owned() } else { text };
        }
        let tail: Vec<u8> = tail.into();
        format!(
            "{}\n[… {n_lost} bytes left out …]\n{}",
            String::from_utf8_lossy(&head),
            String::from_utf8_lossy(&tail)
        )
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::collections::BTreeMap;

    use forge_domain::ShellSettings;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[cfg(target_os = "linux")]
    use crate::process::fixture::{runs, until};
    use crate::tools::fixture::Fixture;

    fn environment() -> BTreeMap<String, String> {
        let path = std::env::var("PATH").unwrap_or_default();
        let pairs = [("PATH", path.as_str()), ("SECRET_KEY", "sk-planted"), ("NAMED", "yes")];
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    fn fixture(settings: &str) -> Fixture {
        let settings: ShellSettings = serde_json::from_str(settings).unwrap();
        Fixture::new(&[("a.txt", b"one\n")]).with_shell(&settings, &environment())
    }

    fn command(line: &str) -> String {
        json!({"command": line}).to_string()
    }

    #[tokio::test]
    async fn a_command_prints_or_says_how_it_ended() {
        let fixture = fixture(r#"{"env": ["NAMED"]}"#);
        let root = std::fs::canonicalize(fixture.root()).unwrap();
        let here = format!("{}\n", root.display());
        let cases = [
            ("cat a.txt", Ok("one\n")),
            ("pwd", Ok(here.as_str())),
            ("true", Ok("[it printed nothing]")),
            // Both outputs, in the order in which they were written.
            ("echo 1; echo 2 >&2; echo 3", Ok("1\n2\n3\n")),
            // Nothing is written to its stdin.
            ("cat; echo end", Ok("end\n")),
            ("echo no; exit 3", Err("no\n\n[exit code 3]")),
            ("kill -9 $$", Err("[it printed nothing]\n[killed by signal 9]")),
            ("printf 'caf\\351'", Ok("caf\u{fffd}")),
            ("echo \"$0: it's\"", Ok("sh: it's\n")),
            // Only what is harmless or named is in its environment.
            ("echo [$SECRET_KEY][$NAMED]", Ok("[][yes]\n")),
            ("env | grep -c sk-planted", Err("0\n\n[exit code 1]")),
            // No editor waits for keys.
            ("echo [$EDITOR][$PAGER]", Ok("[false][cat]\n")),
        ];
        for (line, expected) in cases {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(fixture.call("shell", &command(line)).await, expected, "{line}");
        }
        let refused = fixture.call("shell", r#"{"command": "ls", "timeout_seconds": 601}"#).await;
        assert_eq!(refused, Err("`timeout_seconds` must be at most 600, not 601".to_owned()));
    }

    #[tokio::test]
    async fn a_flood_is_read_and_kept_in_part() {
        let fixture = fixture("{}");
        let actual =
            fixture.call("shell", &command("echo first; yes | head -c 5000000; echo last")).await.unwrap();
        assert!(actual.starts_with("first\ny\n") && actual.ends_with("y\nlast\n"));
        assert!(actual.len() < 135_000 && actual.contains(" bytes left out …]"), "{}", actual.len());
        // One that never ends ends at its limit.
        let endless = json!({"command": "yes", "timeout_seconds": 1}).to_string();
        let actual = fixture.call("shell", &endless).await.unwrap_err();
        assert!(actual.ends_with("[not done after 1 seconds: it was killed with all that it had started]"));
    }

    /// Checks that a command cannot read the environment of this process.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn our_own_environment_is_closed() {
        let fixture = fixture("{}");
        fixture.call("shell", &command("true")).await.unwrap();
        let behavior = rustix::process::dumpable_behavior().unwrap();
        assert_eq!(behavior, rustix::process::DumpableBehavior::NotDumpable);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn nothing_that_a_command_started_outlives_it() {
        // In its group, in a session of its own, and twice removed with the output closed; each writes down
        // who it is.
        const CHILDREN: [&str; 3] = [
            "sh -c 'echo $$ > child.new; mv child.new child; exec sleep 1000' &",
            "setsid sh -c 'echo $$ > child.new; mv child.new child; exec sleep 1000' &",
            "(setsid sh -c 'echo $$ > child.new; mv child.new child; exec sleep 1000 >/dev/null 2>&1 </dev/null' &) &",
        ];
        for child in CHILDREN {
            // It ends on its own, and a process that still holds its output does not delay us.
            let fixture = fixture("{}");
            let path = fixture.root().join("child");
            let line = format!("{child} while [ ! -e child ]; do :; done; echo done");
            assert_eq!(fixture.call("shell", &command(&line)).await, Ok("done\n".to_owned()), "{child}");
            let id = std::fs::read_to_string(&path).unwrap();
            until(|| (!runs(&id)).then_some(())).await;
            // At the limit of its time.
            std::fs::remove_file(&path).unwrap();
            let line = format!("{child} sleep 1000");
            let slow = json!({"command": line, "timeout_seconds": 1}).to_string();
            let error = fixture.call("shell", &slow).await.unwrap_err();
            assert!(error.contains("not done after 1 seconds"), "{error}");
            let id = std::fs::read_to_string(&path).unwrap();
            until(|| (!runs(&id)).then_some(())).await;
            // When its caller has gone.
            std::fs::remove_file(&path).unwrap();
            let line = command(&line);
            let id = tokio::select! {
                answer = fixture.call("shell", &line) => panic!("{answer:?}"),
                id = until(|| std::fs::read_to_string(&path).ok()) => id,
            };
            until(|| (!runs(&id)).then_some(())).await;
        }
    }
}
