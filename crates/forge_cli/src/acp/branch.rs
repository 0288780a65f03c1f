//! Sessions in other folders. The working folder, the workspace, the sandbox and the trust in a project
//! belong to a process, so each further folder has a `forge acp` of its own, whose messages pass through this
//! one.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::begins_session;
use super::connection::{Connection, RpcError};

/// The id of the request by which a branch is initialized.
const INITIALIZE: &str = "initialize";

/// A `forge acp` for another folder.
pub(super) struct Branch {
    pub(super) folder: PathBuf,
    connection: Arc<Connection>,
    child: Mutex<Child>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// `None` once it is told to end.
    stdin: Option<ChildStdin>,
    /// The editor's requests that are not answered yet, each with its method and the session that it names.
    requests: Vec<(Value, Request)>,
    /// The ids of its own requests by those under which the editor knows them.
    questions: HashMap<u64, Value>,
    sessions: Vec<String>,
    is_over: bool,
}

struct Request {
    begins_session: bool,
    session: Option<String>,
}

impl Branch {
    /// Starts one for `folder`, as this process was started, and initializes it as this one was.
    ///
    /// # Errors
    /// Fails if no process can be started.
    pub(super) fn start(
        folder: &Path,
        connection: &Arc<Connection>,
        initialize: &Value,
    ) -> std::io::Result<Arc<Self>> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(std::env::args_os().skip(1)).current_dir(folder);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let branch = Arc::new(Self {
            folder: folder.to_owned(),
            connection: Arc::clone(connection),
            child: Mutex::new(child),
            state: Mutex::new(State { stdin, ..State::default() }),
        });
        branch.write(
            &json!({"jsonrpc": "2.0", "id": INITIALIZE, "method": "initialize", "params": initialize}),
        );
        if let Some(stdout) = stdout {
            let reader = Arc::clone(&branch);
            std::thread::spawn(move || reader.read(stdout));
        }
        Ok(branch)
    }

    /// Checks whether it has ended.
    pub(super) fn is_over(&self) -> bool {
        self.state().is_over
    }

    /// Checks whether the session is one of this branch.
    pub(super) fn has_session(&self, id: &str) -> bool {
        self.state().sessions.iter().any(|session| session == id)
    }

    /// Passes a message of the editor on.
    pub(super) fn pass_on(&self, message: &Value) {
        if let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) {
            let begins_session = begins_session(method);
            let session = message["params"]["sessionId"].as_str().map(str::to_owned);
            self.state().requests.push((id.clone(), Request { begins_session, session }));
        }
        self.write(message);
    }

    /// Passes the editor's answer on, if it is to a question of this branch.
    pub(super) fn settle(&self, answer: &Value) -> bool {
        let theirs = answer["id"].as_u64().and_then(|id| self.state().questions.remove(&id));
        let Some(theirs) = theirs else { return false };
        let mut answer = answer.clone();
        answer["id"] = theirs;
        self.write(&answer);
        true
    }

    /// Tells it to end, and waits until it has.
    pub(super) fn end(&self) {
        drop(self.state().stdin.take());
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        // It saves and ends on its own.
        let _ = child.wait();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, message: &Value) {
        if let Some(stdin) = &mut self.state().stdin {
            // If it is gone, its requests are answered when its output ends.
            let _ = writeln!(stdin, "{message}").and_then(|()| stdin.flush());
        }
    }

    /// Passes its messages on to the editor until it ends.
    fn read(&self, stdout: ChildStdout) {
        for line in BufReader::new(stdout).split(b'\n') {
            let Ok(line) = line else { break };
            if let Ok(message) = serde_json::from_slice(&line) {
                self.receive(message);
            }
        }
        let requests = {
            let mut state = self.state();
            state.is_over = true;
            state.sessions.clear();
            std::mem::take(&mut state.requests)
        };
        for (id, _) in requests {
            let why = format!("the process for the folder {} has ended", self.folder.display());
            self.connection.respond(&id, Err(RpcError::new(why)));
        }
    }

    fn receive(&self, mut message: Value) {
        match (message.get("method").is_some(), message.get("id").cloned()) {
            (true, Some(theirs)) => {
                let id = self.connection.next_id();
                self.state().questions.insert(id, theirs);
                message["id"] = id.into();
            }
            (false, Some(id)) if id == INITIALIZE => return,
            (false, Some(id)) => self.note_answer(&id, &message),
            _ => {}
        }
        self.connection.pass_on(&message);
    }

    /// Notes the session that begins with an answer.
    fn note_answer(&self, id: &Value, message: &Value) {
        let mut state = self.state();
        let Some(at) = state.requests.iter().position(|(request, _)| request == id) else { return };
        let (_, request) = state.requests.swap_remove(at);
        if request.begins_session && message.get("error").is_none() {
            let session = message["result"]["sessionId"].as_str().map(str::to_owned).or(request.session);
            state.sessions.extend(session);
        }
    }
}
