//! `forge acp`: an agent for editors, by the Agent Client Protocol on stdin and stdout.
//!
//! The protocol's own crates would bring 15 others for a dozen messages, so the messages are written here;
//! `tests/acceptance/acp.sh` checks them with clients that others wrote.

mod branch;
mod connection;
mod person;
mod plan;
mod prompt;
mod session;
mod terminal;
mod updates;

use std::collections::{BTreeMap, HashMap};
use std::io::BufRead as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forge_app::{CheckpointsError, Orchestrator, Resume, ResumeError, RunCard, run_cards};
use forge_domain::{McpServerConfig, McpServerId, Person, StoreSetting};
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;

use self::branch::Branch;
use self::connection::{Connection, RpcError, RpcResult, check_message};
use self::person::EditorUser;
use self::session::{Session, Stoppable, commands_update};
use self::updates::{EditorAbilities, Updates};
use crate::arguments::RunFlags;
use crate::output;
use crate::run::{RunRequest, RunView, explain_resume, interruption, prepare, runtime};
use crate::setup::store;

/// The most characters of a session's title.
const LONGEST_TITLE: usize = 80;
/// The version of the protocol.
const PROTOCOL: u64 = 1;

/// The agent that an editor talks to.
struct Server {
    connection: Arc<Connection>,
    flags: RunFlags,
    store: Option<StoreSetting>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The parameters of `initialize`.
    initialize: Value,
    abilities: EditorAbilities,
    /// The folder of the sessions.
    folder: Option<PathBuf>,
    sessions: HashMap<String, Arc<Session>>,
    /// The processes for sessions in other folders.
    branches: Vec<Arc<Branch>>,
}

/// Serves the editor until it closes stdin, or a signal ends the process.
pub(crate) fn serve(flags: RunFlags, store: Option<StoreSetting>) -> anyhow::Result<ExitCode> {
    let runtime = runtime()?;
    let server = Arc::new(Server { connection: Arc::default(), flags, store, state: Mutex::default() });
    let code = runtime.block_on(async {
        let (lines, mut incoming) = unbounded_channel();
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().split(b'\n') {
                let Ok(line) = line else { break };
                // A line that is not text is answered as one that is not JSON.
                if lines.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
            }
        });
        let code = loop {
            tokio::select! {
                line = incoming.recv() => match line {
                    Some(line) if line.trim().is_empty() => {}
                    Some(line) => server.handle(&line),
                    None => break ExitCode::SUCCESS,
                },
                interruption = interruption() => break ExitCode::from(interruption.exit_code()),
            }
        };
        let (sessions, branches) = {
            let mut state = server.state();
            let sessions: Vec<Arc<Session>> = state.sessions.drain().map(|(_, session)| session).collect();
            (sessions, std::mem::take(&mut state.branches))
        };
        branches.iter().for_each(|branch| branch.end());
        for session in sessions {
            session.close().await;
        }
        code
    });
    runtime.shut_down();
    output::finish()?;
    Ok(code)
}

impl Server {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn session(&self, params: &Value) -> Result<(String, Arc<Session>), RpcError> {
        let id = params["sessionId"].as_str().unwrap_or_default();
        let session = self.state().sessions.get(id).cloned();
        session
            .map(|session| (id.to_owned(), session))
            .ok_or_else(|| RpcError::invalid(format!("there is no open session `{id}`")))
    }

    /// Handles one message. Requests are answered by tasks of their own, so that a prompt can be stopped.
    fn handle(self: &Arc<Self>, line: &str) {
        let message: Result<Value, RpcError> =
            serde_json::from_str(line).map_err(|error| RpcError::unreadable(&error.to_string()));
        let message = match message.and_then(|message| check_message(&message).map(|()| message)) {
            Ok(message) => message,
            Err(error) => return self.connection.respond(&Value::Null, Err(error)),
        };
        let Some(method) = message["method"].as_str().map(str::to_owned) else {
            let branches = self.state().branches.clone();
            if !branches.iter().any(|branch| branch.settle(&message)) {
                self.connection.settle(&message);
            }
            return;
        };
        let params = message["params"].clone();
        match self.branch_for(&method, &params) {
            Ok(None) => {}
            Ok(Some(branch)) => return branch.pass_on(&message),
            Err(error) => return self.connection.respond(&message["id"], Err(error)),
        }
        let Some(id) = message.get("id").cloned() else {
            if method == "session/cancel"
                && let Ok((_, session)) = self.session(&params)
            {
                session.stop();
            }
            return;
        };
        // A stop may follow at once, so it must find the prompt.
        let prompt = (method == "session/prompt").then(|| self.session(&params));
        let prompt = prompt.map(|session| session.map(|(_, session)| (session.expect_prompt(), session)));
        let server = Arc::clone(self);
        tokio::spawn(async move {
            let begun = match prompt {
                Some(prompt) => (server.prompt(&params, prompt).await, None),
                None => server.answer(&method, &params).await,
            };
            let (result, session) = begun;
            server.connection.respond(&id, result);
            if let Some((id, session)) = session {
                session.updates.begin(&id);
                session.updates.send(commands_update());
            }
        });
    }

    /// Returns the process for a message that is about another folder than that of the first session, which
    /// becomes the working folder here.
    fn branch_for(&self, method: &str, params: &Value) -> Result<Option<Arc<Branch>>, RpcError> {
        let mut state = self.state();
        state.branches.retain(|branch| !branch.is_over());
        let id = params["sessionId"].as_str().unwrap_or_default();
        if let Some(branch) = state.branches.iter().find(|branch| branch.has_session(id)) {
            return Ok(Some(Arc::clone(branch)));
        }
        if !begins_session(method) {
            return Ok(None);
        }
        // A folder that cannot be opened is reported when the session begins.
        let cwd = params["cwd"].as_str().unwrap_or_default();
        let Ok(folder) = std::fs::canonicalize(cwd) else { return Ok(None) };
        match &state.folder {
            Some(own) if *own == folder => return Ok(None),
            Some(_) => {}
            None => {
                std::env::set_current_dir(&folder)
                    .map_err(|error| RpcError::invalid(format!("cannot enter the folder {cwd}: {error}")))?;
                state.folder = Some(folder);
                return Ok(None);
            }
        }
        if let Some(branch) = state.branches.iter().find(|branch| branch.folder == folder) {
            return Ok(Some(Arc::clone(branch)));
        }
        let branch = Branch::start(&folder, &self.connection, &state.initialize)
            .map_err(|error| RpcError::new(format!("no process can be started for {cwd}: {error}")))?;
        state.branches.push(Arc::clone(&branch));
        Ok(Some(branch))
    }

    async fn prompt(&self, params: &Value, prompt: Result<(Stoppable, Arc<Session>), RpcError>) -> RpcResult {
        let (stoppable, session) = prompt?;
        session.prompt(prompt::event_of(&params["prompt"])?, stoppable).await
    }

    /// Returns the answer to a request, and the session that begins with it.
    async fn answer(
        self: &Arc<Self>,
        method: &str,
        params: &Value,
    ) -> (RpcResult, Option<(String, Arc<Session>)>) {
        let begun = match method {
            "initialize" => return (Ok(self.initialize(params)), None),
            // Keys are in the environment, or in the user's own files.
            "authenticate" => return (Ok(json!({})), None),
            "session/new" => self.begin(params, None).await,
            "session/load" => match self.begin(params, params["sessionId"].as_str()).await {
                Ok((id, session)) => {
                    // The past comes before the answer.
                    session.updates.begin(&id);
                    session.replay().await;
                    Ok((id, session))
                }
                Err(error) => Err(error),
            },
            "session/resume" => self.begin(params, params["sessionId"].as_str()).await,
            "session/list" => return (self.list(params).await, None),
            "session/set_mode" => return (self.set_mode(params).await, None),
            "session/close" => return (self.close(params).await, None),
            method => return (Err(RpcError::unknown_method(method)), None),
        };
        match begun {
            Ok((id, session)) => {
                let mut answer = json!({"modes": session.modes()});
                if method == "session/new" {
                    answer["sessionId"] = id.as_str().into();
                }
                (Ok(answer), Some((id, session)))
            }
            Err(error) => (Err(error), None),
        }
    }

    fn initialize(&self, params: &Value) -> Value {
        let mut state = self.state();
        state.abilities = EditorAbilities::of(&params["clientCapabilities"]);
        state.initialize = params.clone();
        drop(state);
        json!({
            "protocolVersion": PROTOCOL,
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": {"image": true, "audio": false, "embeddedContext": true},
                "mcpCapabilities": {"http": true, "sse": false},
                "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
            },
            "agentInfo": {"name": "forge", "title": "Forge", "version": env!("CARGO_PKG_VERSION")},
            "authMethods": [],
        })
    }

    /// Begins a session in the folder that the editor names, or continues the run named `resumed`.
    async fn begin(
        self: &Arc<Self>,
        params: &Value,
        resumed: Option<&str>,
    ) -> Result<(String, Arc<Session>), RpcError> {
        let folder = folder_of(params)?;
        if let Some(id) = resumed
            && let Some(open) = self.state().sessions.get(id).cloned()
        {
            return Ok((id.to_owned(), open));
        }
        let request = RunRequest {
            // The editor opens a run in the folder that it names.
            resume: resumed.map(|run| Resume { anywhere: true, ..Resume::from(run) }),
            servers: servers(&params["mcpServers"])?,
            ..RunRequest::new(self.store.clone(), self.flags.clone())
        };
        let abilities = self.state().abilities;
        let updates = Arc::new(Updates::new(Arc::clone(&self.connection), abilities, folder));
        let person =
            EditorUser { connection: Arc::clone(&self.connection), updates: Arc::clone(&updates), abilities };
        let (view, person): (Arc<dyn RunView>, Arc<dyn Person>) =
            (Arc::<Updates>::clone(&updates), Arc::new(person));
        // It reads files, and may wait for a store.
        let prepared = tokio::task::spawn_blocking(move || {
            prepare(&request, &view, person).map(|orchestrator| (orchestrator, request))
        });
        let prepared = prepared.await.map_err(|error| RpcError::new(error.to_string()))?;
        let (mut orchestrator, request) = prepared?;
        if let Some(resume) = &request.resume {
            orchestrator.restore(resume).await.map_err(|error| match (error, resumed) {
                (ResumeError::Unclear(CheckpointsError::Unknown { .. }), Some(id)) => {
                    RpcError::unknown_session(id)
                }
                (error, _) => explain_resume(error).into(),
            })?;
        }
        let id = resumed.map_or_else(|| id_of(&orchestrator), str::to_owned);
        let session = Arc::new(Session::new(orchestrator, updates, self.flags.agent.id().map(str::to_owned)));
        self.state().sessions.insert(id.clone(), Arc::clone(&session));
        Ok((id, session))
    }

    /// Lists the runs of the folder that can be loaded.
    async fn list(&self, params: &Value) -> RpcResult {
        let folder = params["cwd"].as_str().map(PathBuf::from).or_else(|| self.state().folder.clone());
        let store = self.store.as_ref().map(ToString::to_string);
        let url = store::named_or_of_runs(store.as_deref(), None)?;
        let Ok(store) = store::open_for_reading(&url).await else { return Ok(json!({"sessions": []})) };
        let cwd = folder.or_else(|| std::env::current_dir().ok()).unwrap_or_default().display().to_string();
        let cards = run_cards(&*store, Some(&cwd), usize::MAX).await;
        let cards = cards.map_err(|error| RpcError::new(error.to_string()))?;
        let is_here = |card: &RunCard| card.folder.as_ref().is_none_or(|own| *own == cwd);
        let session = |card: RunCard| {
            let latest = card.summary.latest?;
            Some(json!({
                "sessionId": card.summary.run,
                "cwd": cwd,
                "updatedAt": latest.created_at.to_string(),
                "title": card.title.map(|title| title.chars().take(LONGEST_TITLE).collect::<String>()),
            }))
        };
        let sessions: Vec<Value> = cards.into_iter().filter(is_here).filter_map(session).collect();
        Ok(json!({"sessions": sessions}))
    }

    async fn set_mode(&self, params: &Value) -> RpcResult {
        let (_, session) = self.session(params)?;
        session.set_mode(params["modeId"].as_str().unwrap_or_default()).await
    }

    async fn close(&self, params: &Value) -> RpcResult {
        let (id, session) = self.session(params)?;
        self.state().sessions.remove(&id);
        session.close().await;
        Ok(json!({}))
    }
}

/// Checks whether a session begins with the answer to a request.
fn begins_session(method: &str) -> bool {
    matches!(method, "session/new" | "session/load" | "session/resume")
}

/// Returns the folder that a session is to begin in.
fn folder_of(params: &Value) -> Result<PathBuf, RpcError> {
    let named = params["cwd"].as_str().ok_or_else(|| RpcError::invalid("`cwd` is missing"))?;
    std::fs::canonicalize(named)
        .map_err(|error| RpcError::invalid(format!("cannot open the folder {named}: {error}")))
}

/// Returns the id of a new session: that of its run, or one of its own if nothing is saved.
fn id_of(orchestrator: &Orchestrator) -> String {
    let unsaved = || format!("unsaved-{}-{:p}", std::process::id(), std::ptr::from_ref(orchestrator));
    orchestrator.checkpoints().map_or_else(unsaved, |tally| tally.run.to_string())
}

/// Reads the MCP servers that the editor wants the agent to use.
fn servers(list: &Value) -> Result<BTreeMap<McpServerId, McpServerConfig>, RpcError> {
    let mut servers = BTreeMap::new();
    for server in list.as_array().into_iter().flatten() {
        let name = server["name"].as_str().unwrap_or_default();
        if server["type"] == "sse" {
            let why = "the transport `sse` is not supported; streamable HTTP has replaced it";
            return Err(RpcError::invalid(format!("MCP server `{name}`: {why}")));
        }
        let pairs = |key: &str| -> Option<BTreeMap<String, String>> {
            let pairs = server[key].as_array().filter(|pairs| !pairs.is_empty())?;
            let pair =
                |pair: &Value| Some((pair["name"].as_str()?.to_owned(), pair["value"].as_str()?.to_owned()));
            Some(pairs.iter().filter_map(pair).collect())
        };
        let text = |key: &str| server[key].as_str().map(str::to_owned);
        let arguments = server["args"]
            .as_array()
            .map(|words| words.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>());
        let config = McpServerConfig {
            command: text("command"),
            args: arguments.filter(|arguments| !arguments.is_empty()),
            env: pairs("env"),
            url: text("url"),
            headers: pairs("headers"),
            // The editor gives the same servers to every agent: none must keep a session from working.
            required: Some(false),
            ..McpServerConfig::default()
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '-' }).take(32).collect();
        let id = McpServerId::new(plain).map_err(|error| RpcError::invalid(error.to_string()))?;
        config.endpoint().map_err(|error| RpcError::invalid(format!("MCP server `{name}`: {error}")))?;
        servers.insert(id, config);
    }
    Ok(servers)
}
