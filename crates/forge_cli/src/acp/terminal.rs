//! The terminals of the editor, in which commands without a sandbox run.

use std::sync::Arc;

use async_trait::async_trait;
use forge_domain::{EditorTerminal, TerminalCommand, TerminalEnd};
use serde_json::{Value, json};

use super::connection::{Connection, RpcError};
use super::updates::Updates;

/// The terminals of an editor.
pub(super) struct EditorTerminals {
    pub(super) connection: Arc<Connection>,
    pub(super) updates: Arc<Updates>,
}

#[async_trait]
impl EditorTerminal for EditorTerminals {
    async fn run(&self, command: &TerminalCommand) -> Result<TerminalEnd, String> {
        let in_words = |error: RpcError| error.message().to_owned();
        let mut params = start(command);
        params["sessionId"] = self.updates.session().into();
        let created = self.connection.request("terminal/create", &params).await.map_err(in_words)?;
        let id = created["terminalId"].as_str().ok_or("it has no `terminalId`")?.to_owned();
        let open = OpenTerminal { terminals: self, id, has_ended: false };
        self.updates.show_terminal(&command.line, &open.id);
        open.wait(command).await.map_err(in_words)
    }
}

/// Returns the parameters that start a command. `env -i` keeps the editor's own environment out of it.
fn start(command: &TerminalCommand) -> Value {
    let variables = command.environment.iter().map(|(name, value)| format!("{name}={value}"));
    let shell = ["sh", "-c", &command.line].map(str::to_owned);
    let arguments: Vec<String> = std::iter::once("-i".to_owned()).chain(variables).chain(shell).collect();
    json!({
        "command": "env", "args": arguments, "cwd": command.folder, "outputByteLimit": command.most_bytes,
    })
}

/// A terminal of the editor. Dropping it kills what runs in it, and gives it back.
struct OpenTerminal<'a> {
    terminals: &'a EditorTerminals,
    id: String,
    has_ended: bool,
}

impl OpenTerminal<'_> {
    fn params(&self) -> Value {
        json!({"sessionId": self.terminals.updates.session(), "terminalId": self.id})
    }

    async fn wait(mut self, command: &TerminalCommand) -> Result<TerminalEnd, RpcError> {
        let (connection, params) = (&self.terminals.connection, self.params());
        let exit = connection.request("terminal/wait_for_exit", &params);
        let exit = match tokio::time::timeout(command.limit, exit).await {
            Ok(exit) => Some(exit?),
            Err(_) => None,
        };
        if exit.is_none() {
            connection.request("terminal/kill", &params).await?;
        }
        self.has_ended = true;
        let output = connection.request("terminal/output", &params).await?;
        let status = exit.as_ref().unwrap_or(&output["exitStatus"]);
        Ok(TerminalEnd {
            output: output["output"].as_str().unwrap_or_default().to_owned(),
            is_cut: output["truncated"].as_bool().unwrap_or_default(),
            exit_code: status["exitCode"].as_i64().and_then(|code| i32::try_from(code).ok()),
            is_timed_out: exit.is_none(),
        })
    }
}

impl Drop for OpenTerminal<'_> {
    fn drop(&mut self) {
        let params = self.params();
        if !self.has_ended {
            self.terminals.connection.order("terminal/kill", &params);
        }
        self.terminals.connection.order("terminal/release", &params);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_command_has_its_own_environment() {
        let command = TerminalCommand {
            line: "echo $A".to_owned(),
            folder: "/w".into(),
            environment: [("A".to_owned(), "1 2".to_owned())].into(),
            limit: Duration::from_secs(1),
            most_bytes: 9,
        };
        let expected = json!({
            "command": "env", "args": ["-i", "A=1 2", "sh", "-c", "echo $A"], "cwd": "/w", "outputByteLimit": 9,
        });
        assert_eq!(start(&command), expected);
    }
}
