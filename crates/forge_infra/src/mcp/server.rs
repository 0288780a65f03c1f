//! One server, which is started when it is needed, and restarted a few times after it has ended; its tools,
//! and calls of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use forge_domain::{
    ActionRecorder, McpServerConfig, McpServerId, Nobody, Person, ToolCall, ToolDefinition, ToolName,
    ToolPattern, ToolResult, quantity, without_secrets,
};
use parking_lot::{Mutex, RwLock};
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequestParams, CancelledNotification, CancelledNotificationParam, ClientRequest,
    ListToolsRequest, PaginatedRequestParams, ProgressToken, Request, RequestId, Tool,
};
use rmcp::service::{Peer, PeerRequestOptions, RunningService, ServiceError};
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::time::Instant;

use super::connection::{
    Connection, Listener, Resolved, RunningCall, Said, World, asks_for_login, exchange_reason, login_help,
};
use super::content::{answer_of, clean, result, shorten};
use super::listing::{Listing, Page};
use super::long_answers::TOO_LONG;
use super::{McpError, McpNews, McpServerReport, McpTokens, McpWatcher, offers};
use crate::CommandSandbox;
use crate::tools::validate;

/// The most silences that one call may last in total.
const MOST_SILENCES: u32 = 10;
/// A start that takes no longer is not reported.
const MOMENT: Duration = Duration::from_secs(2);
/// The pause before the second restart. The first restart has none, and each later pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// A server that worked for as long as this has all its restarts again: a run may last for days.
const STEADY: Duration = Duration::from_secs(10 * 60);
/// The pause before an abandoned server is tried again: what it lacked may be back.
const LONG_PAUSE: Duration = Duration::from_secs(5 * 60);

/// One server.
pub(super) struct Server {
    id: McpServerId,
    config: McpServerConfig,
    /// Its resolved block; an error is reported when the server is needed.
    resolved: Result<Arc<Resolved>, McpError>,
    watcher: McpWatcher,
    /// The sandbox in which it runs if it is a program, if any.
    sandbox: Option<Arc<CommandSandbox>>,
    desk: tokio::sync::Mutex<Desk>,
    /// The tools; `None` before they are listed for the first time.
    listing: RwLock<Option<Listing>>,
    /// A number that grows with every changed listing.
    revision: AtomicU64,
    has_other_tools: Arc<AtomicBool>,
    calls: Arc<Mutex<HashMap<ProgressToken, RunningCall>>>,
    /// The number of its questions that the user has not answered yet.
    questions: watch::Sender<usize>,
    outside: Outside,
}

/// The things outside of the server that it uses, each of which is set once.
#[derive(Default)]
struct Outside {
    recorder: OnceLock<Arc<dyn ActionRecorder>>,
    /// The user, whom it may ask.
    person: OnceLock<Arc<dyn Person>>,
    /// The tokens of the user's logins.
    tokens: OnceLock<McpTokens>,
}

/// A list of tools that is being read: unless it ends, they are to be listed again.
struct Unlisted<'a>(Option<&'a AtomicBool>);

impl<'a> Unlisted<'a> {
    /// Begins to list. What the server announces from now on is to be listed after it.
    fn begin(has_others: &'a AtomicBool) -> Self {
        has_others.store(false, Ordering::SeqCst);
        Self(Some(has_others))
    }

    fn end(mut self) {
        self.0 = None;
    }
}

impl Drop for Unlisted<'_> {
    fn drop(&mut self) {
        if let Some(has_others) = self.0 {
            has_others.store(true, Ordering::SeqCst);
        }
    }
}

/// The state that is locked while the server is started or ended.
#[derive(Default)]
struct Desk {
    connection: Option<Connection>,
    /// The number of starts or connections, failures included.
    n_starts: u32,
    /// The time since which it works; `None` once its end was noticed.
    works_since: Option<Instant>,
    /// True once it has answered a call since it was started or connected.
    has_answered: Arc<AtomicBool>,
    /// The time when the server was abandoned, or tried again since then; `None` if it is not abandoned.
    given_up: Option<Instant>,
}

impl Desk {
    /// Notices that the server has ended. If it had worked for long, its earlier ends no longer count; if it
    /// had answered a call, its last start does not.
    fn note_end(&mut self) {
        let Some(since) = self.works_since.take() else { return };
        if since.elapsed() >= STEADY {
            self.n_starts = 1;
        } else if self.has_answered.load(Ordering::SeqCst) {
            self.n_starts = self.n_starts.saturating_sub(1).max(1);
        }
    }
}

/// The reason why a call has no answer from the server.
enum Unanswered {
    /// The server refused the call, or was too slow.
    Refused(String),
    /// The server is gone.
    Gone(String),
}

impl Server {
    pub(super) fn new(
        id: McpServerId,
        config: McpServerConfig,
        environment: &BTreeMap<String, String>,
        watcher: McpWatcher,
        sandbox: Option<Arc<CommandSandbox>>,
    ) -> Self {
        let resolved = Resolved::of(&config, environment).map(Arc::new);
        Self {
            id,
            config,
            resolved,
            watcher,
            sandbox,
            desk: tokio::sync::Mutex::default(),
            listing: RwLock::default(),
            revision: AtomicU64::new(0),
            has_other_tools: Arc::default(),
            calls: Arc::default(),
            questions: watch::Sender::new(0),
            outside: Outside::default(),
        }
    }

    /// Keeps its starts with `recorder`; only the first one counts.
    pub(super) fn record_with(&self, recorder: &Arc<dyn ActionRecorder>) {
        drop(self.outside.recorder.set(Arc::clone(recorder)));
    }

    /// Lets it ask `person`; only the first one counts.
    pub(super) fn ask_with(&self, person: &Arc<dyn Person>) {
        drop(self.outside.person.set(Arc::clone(person)));
    }

    /// Uses these tokens; only the first call counts.
    pub(super) fn log_in_with(&self, tokens: &McpTokens) {
        drop(self.outside.tokens.set(tokens.clone()));
    }

    /// Returns what is started or reached, as it may be shown.
    fn shown(&self) -> String {
        match &self.config.url {
            Some(url) => without_secrets(url),
            None => {
                let words = self.config.command.iter().chain(self.config.args.iter().flatten());
                words.map(String::as_str).collect::<Vec<_>>().join(" ")
            }
        }
    }

    /// Returns the names by which models call its tools; empty before they are listed.
    pub(super) fn names(&self) -> Vec<ToolName> {
        let listing = self.listing.read();
        listing.iter().flat_map(|listing| &listing.tools).map(|tool| tool.definition.name.clone()).collect()
    }

    /// Returns the tools that `name`, which may be a pattern, matches; `None` if it matches none. Before the
    /// tools are listed, every name may be one.
    pub(super) fn definitions(&self, name: &ToolName) -> Option<Vec<ToolDefinition>> {
        let listing = self.listing.read();
        let Some(listing) = listing.as_ref() else { return Some(Vec::new()) };
        let pattern = ToolPattern::try_from(name.as_str().to_owned()).ok()?;
        let meant = listing.tools.iter().filter(|tool| pattern.matches(&tool.definition.name));
        let meant: Vec<_> = meant.map(|tool| tool.definition.clone()).collect();
        // A run does not end because of a tool that the server took back.
        let is_known = listing.is_missing || pattern.is_wild() || listing.gone.contains(name);
        (is_known || !meant.is_empty()).then_some(meant)
    }

    /// Starts the server if it is not running, restarts it if it has ended, and lists its tools if they
    /// changed. Returns the number of its listing.
    ///
    /// # Errors
    /// Fails with [`McpError`] if it never ran. One that ran and has ended keeps its tools, whose calls
    /// report that.
    pub(super) async fn ready(&self) -> Result<u64, McpError> {
        let mut desk = self.desk.lock().await;
        self.ready_at(&mut desk).await?;
        Ok(self.revision.load(Ordering::SeqCst))
    }

    /// Returns what it is and has.
    pub(super) async fn examine(&self) -> Result<McpServerReport, McpError> {
        let mut desk = self.desk.lock().await;
        // Of a server that a run can do without, the reason is wanted, too.
        if desk.connection.is_none() {
            desk.connection = Some(self.open().await?);
        }
        let info = desk.connection.as_ref().and_then(|connection| connection.service.peer().peer_info());
        let info = info.and_then(|info| serde_json::to_value(&*info).ok()).unwrap_or_default();
        let word = |key: &str| info["serverInfo"][key].as_str().map(clean).unwrap_or_default();
        let software = format!("{} {}", word("name"), word("version")).trim().to_owned();
        let listing = self.listing.read();
        let refused = listing.as_ref().map(|listing| listing.refused.clone()).unwrap_or_default();
        drop(listing);
        Ok(McpServerReport { software, tools: self.names(), refused })
    }

    /// Ends it. The next use starts it again.
    pub(super) async fn close(&self) {
        let mut desk = self.desk.lock().await;
        let closing = std::mem::take(&mut *desk).connection;
        if let Some(connection) = closing {
            connection.close().await;
        }
    }

    async fn ready_at(&self, desk: &mut Desk) -> Result<(), McpError> {
        if let Some(connection) = &mut desk.connection
            && connection.is_over()
        {
            let said = connection.said.shown();
            desk.connection = None;
            self.notice(&format!("the MCP server `{}` ended unexpectedly{said}", self.id));
        }
        if desk.connection.is_none() {
            return self.start(desk).await;
        }
        if let Some(connection) =
            desk.connection.as_ref().filter(|_| self.has_other_tools.load(Ordering::SeqCst))
        {
            let unlisted = Unlisted::begin(&self.has_other_tools);
            match self.list(&connection.service, &connection.said).await {
                Ok(_) => unlisted.end(),
                Err(error) => {
                    self.notice(&format!("the MCP server `{}` does not list its tools: {error}", self.id));
                }
            }
        }
        Ok(())
    }

    /// Starts or reaches it, for the first time or again, and lists its tools.
    async fn start(&self, desk: &mut Desk) -> Result<(), McpError> {
        let is_first = self.listing.read().is_none();
        desk.note_end();
        loop {
            let has_restarts = is_first || desk.n_starts <= self.config.restart_limit();
            if has_restarts {
                if let Some(doublings) = desk.n_starts.checked_sub(2) {
                    tokio::time::sleep(FIRST_PAUSE * 2u32.saturating_pow(doublings.min(6))).await;
                }
                desk.n_starts += 1;
            } else if !self.is_due_again(desk) {
                return Ok(());
            }
            match self.open().await {
                Ok(connection) => {
                    if !is_first {
                        self.notice(&format!("the MCP server `{}` was restarted", self.id));
                    }
                    desk.connection = Some(connection);
                    desk.works_since = Some(Instant::now());
                    desk.has_answered = Arc::default();
                    desk.given_up = None;
                    return Ok(());
                }
                Err(error) if is_first && self.config.is_required() => return Err(error),
                Err(error) if is_first => {
                    self.notice(&format!(
                        "the MCP server `{}` is not there, and its tools are missing: {error}",
                        self.id
                    ));
                    // No other attempt: each may take as long as this one.
                    desk.n_starts = self.config.restart_limit() + 1;
                    desk.given_up = Some(Instant::now());
                    *self.listing.write() = Some(Listing { is_missing: true, ..Listing::default() });
                    return Ok(());
                }
                Err(error) if desk.given_up.is_none() => {
                    self.notice(&format!("the MCP server `{}` could not be restarted: {error}", self.id));
                }
                // The user knows that it is abandoned.
                Err(_) => {}
            }
        }
    }

    /// Checks whether a server that has used up its restarts is to be tried again now. Tells the user once
    /// that it is abandoned.
    fn is_due_again(&self, desk: &mut Desk) -> bool {
        let n = self.config.restart_limit();
        let Some(since) = desk.given_up else {
            desk.given_up = Some(Instant::now());
            let again = if n > 0 { "; it is tried again every five minutes" } else { "" };
            let restarts = quantity(n, "restart");
            self.notice(&format!("the MCP server `{}` is abandoned after {restarts}{again}", self.id));
            return false;
        };
        // One that never was there may need its whole time limit for each attempt.
        let is_missing = self.listing.read().as_ref().is_some_and(|listing| listing.is_missing);
        let is_due = n > 0 && !is_missing && since.elapsed() >= LONG_PAUSE;
        if is_due {
            desk.given_up = Some(Instant::now());
        }
        is_due
    }

    #[tracing::instrument(target = "forge::mcp", name = "mcp_start", skip_all, fields(mcp.server = %self.id))]
    async fn open(&self) -> Result<Connection, McpError> {
        let resolved = match &self.resolved {
            Ok(resolved) => resolved,
            Err(McpError::Missing(variable)) => return Err(McpError::Missing(variable.clone())),
            Err(error) => return Err(McpError::Handshake { what: error.to_string(), said: String::new() }),
        };
        let listener = Listener {
            server: self.id.clone(),
            has_other_tools: Arc::clone(&self.has_other_tools),
            calls: Arc::clone(&self.calls),
            questions: self.questions.clone(),
            watcher: Arc::clone(&self.watcher),
            person: self.outside.person.get().cloned().unwrap_or_else(|| Arc::new(Nobody)),
        };
        self.has_other_tools.store(false, Ordering::SeqCst);
        let world = World { sandbox: self.sandbox.as_ref(), tokens: self.outside.tokens.get() };
        let opening = self.tell_if_slow(Connection::open(&self.config, resolved, listener, world));
        let connection = match self.outside.recorder.get() {
            None => opening.await?,
            Some(recorder) => {
                let number = recorder.begin_server(self.id.as_str(), &self.shown()).await;
                let opened = opening.await;
                let failure = opened.as_ref().err().map(ToString::to_string);
                recorder.end_server(number, failure.as_deref()).await;
                opened?
            }
        };
        self.list(&connection.service, &connection.said).await?;
        Ok(connection)
    }

    /// Tells the user what is waited for if `opening` takes longer than a moment: a first start may download
    /// the server.
    async fn tell_if_slow<T>(&self, opening: impl Future<Output = T>) -> T {
        let mut opening = std::pin::pin!(opening);
        tokio::select! {
            opened = &mut opening => return opened,
            () = tokio::time::sleep(MOMENT) => {}
        }
        let most = self.config.start_limit();
        self.notice(&format!("the MCP server `{}` is starting, for at most {}s", self.id, most.as_secs()));
        opening.await
    }

    /// Lists its tools.
    async fn list(
        &self,
        service: &RunningService<RoleClient, Listener>,
        said: &Said,
    ) -> Result<(), McpError> {
        let limit = self.config.start_limit();
        let (tools, unreadable) = match tokio::time::timeout(limit, all_tools(service.peer())).await {
            Err(_) => return Err(McpError::Slow { limit, said: said.shown() }),
            Ok(Err(why)) => {
                let what = format!("it does not list its tools: {}", self.plain(&why));
                return Err(McpError::Handshake { what, said: said.shown() });
            }
            Ok(Ok(listed)) => listed,
        };
        let mut new = Listing::of(&self.id, tools);
        new.refused.extend(unreadable);
        let mut listing = self.listing.write();
        let lost = listing.as_ref().map(|earlier| new.follow(earlier)).unwrap_or_default();
        if !lost.is_empty() {
            let names: Vec<String> = lost.iter().map(|name| format!("`{name}`")).collect();
            self.notice(&format!("the MCP server `{}` no longer offers {}", self.id, names.join(", ")));
        }
        if listing.as_ref() != Some(&new) {
            for refused in new.refused.iter().take(MOST_NAMED) {
                self.notice(&format!("a tool of the MCP server `{}` is left out: {refused}", self.id));
            }
            if let Some(more @ 1..) = new.refused.len().checked_sub(MOST_NAMED) {
                let more = quantity(more, "more tool");
                self.notice(&format!("left out as well: {more} of the MCP server `{}`", self.id));
            }
            *listing = Some(new);
            self.revision.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Calls a tool. A call whose server ends halfway is answered with that fact, and never repeated.
    #[tracing::instrument(target = "forge::mcp", name = "mcp_call", skip_all, fields(mcp.server = %self.id, mcp.method.name = "tools/call"))]
    pub(super) async fn call(&self, call: &ToolCall) -> ToolResult {
        let theirs = {
            let listing = self.listing.read();
            let tools = listing.as_ref().map(|listing| listing.tools.as_slice()).unwrap_or_default();
            let tool = tools.iter().find(|tool| tool.definition.name == call.name);
            tool.map(|tool| (tool.theirs.clone(), tool.definition.parameters.clone()))
        };
        let Some((theirs, parameters)) = theirs else {
            let known: Vec<String> = self.names().iter().map(ToString::to_string).collect();
            let others = match known.as_slice() {
                [] => "its server has none, or did not start".to_owned(),
                known => format!("expected one of {}", known.join(", ")),
            };
            let what = format!("there is no tool `{}` ({others})", call.name);
            return ToolResult::error(call, what);
        };
        let arguments = match validate(&call.arguments, &parameters) {
            Ok(arguments) => arguments,
            Err(error) => {
                return ToolResult::error(call, error.to_string());
            }
        };
        let (peer, said, has_answered) = {
            let mut desk = self.desk.lock().await;
            let ready = self.ready_at(&mut desk).await;
            match (ready, &desk.connection) {
                (Ok(()), Some(connection)) => {
                    let peer = connection.service.peer().clone();
                    (peer, connection.said.clone(), Arc::clone(&desk.has_answered))
                }
                (Err(error), _) => {
                    return ToolResult::error(
                        call,
                        self.plain(&format!("the MCP server cannot be reached: {error}")),
                    );
                }
                (Ok(()), None) => {
                    let what = format!(
                        "The MCP server `{}` has ended and could not be restarted. Continue without its \
                         tools.",
                        self.id
                    );
                    return ToolResult::error(call, what);
                }
            }
        };
        match self.ask(&peer, &call.name, theirs, arguments).await {
            // The result is data, so nothing in it is hidden: the model may write it back.
            Ok(answer) => {
                has_answered.store(true, Ordering::SeqCst);
                self.with_hints(call, result(call, &self.id, answer))
            }
            Err(Unanswered::Refused(why)) => ToolResult::error(call, self.plain(&why)),
            Err(Unanswered::Gone(why)) => {
                self.notice(&format!(
                    "the MCP server `{}` ended during `{}`: {why}{}",
                    self.id,
                    call.name,
                    said.shown()
                ));
                // Another call may have had it started again meanwhile.
                let mut desk = self.desk.lock().await;
                if desk.connection.as_mut().is_some_and(Connection::is_over) {
                    desk.connection = None;
                }
                drop(desk);
                let what = format!(
                    "The MCP server `{}` ended before it had answered this call. The call may have had its effect, or a \
                     part of it: look before you call it again.",
                    self.id
                );
                ToolResult::error(call, what)
            }
        }
    }

    /// Returns the text of a resource.
    pub(super) async fn resource(&self, uri: &str) -> Result<String, String> {
        self.read(async |peer| offers::resource(&peer, &self.id, uri).await).await
    }

    /// Returns the text of a prompt with these arguments.
    pub(super) async fn prompt(&self, name: &str, arguments: &str) -> Result<String, String> {
        self.read(async |peer| offers::prompt(&peer, name, arguments).await).await
    }

    /// Reads something of the server that is not a tool, within the time that a call has.
    async fn read(
        &self,
        ask: impl AsyncFnOnce(Peer<RoleClient>) -> Result<String, String>,
    ) -> Result<String, String> {
        let peer = {
            let mut desk = self.desk.lock().await;
            let ready = self.ready_at(&mut desk).await;
            ready.map_err(|error| self.plain(&format!("the MCP server cannot be reached: {error}")))?;
            desk.connection.as_ref().map(|connection| connection.service.peer().clone())
        };
        let Some(peer) = peer else {
            return Err(format!("the MCP server `{}` has ended and could not be restarted", self.id));
        };
        let limit = self.config.call_limit();
        match tokio::time::timeout(limit, ask(peer)).await {
            Ok(answer) => answer.map_err(|why| self.plain(&why)),
            Err(_) => Err(format!("the MCP server had not answered after {limit:?}")),
        }
    }

    /// Adds to a failure what it reveals about the server's sandbox.
    fn with_hints(&self, call: &ToolCall, result: ToolResult) -> ToolResult {
        let Some(sandbox) =
            self.sandbox.as_ref().filter(|_| result.is_error && self.config.command.is_some())
        else {
            return result;
        };
        let text = result.content.to_text();
        match sandbox.hints(&text).as_slice() {
            [] => result,
            hints => ToolResult::error(call, format!("{text}\n[perhaps {}]", hints.join("]\n[perhaps "))),
        }
    }

    async fn ask(
        &self,
        peer: &Peer<RoleClient>,
        tool: &ToolName,
        theirs: String,
        arguments: Map<String, Value>,
    ) -> Result<rmcp::model::CallToolResult, Unanswered> {
        let params = CallToolRequestParams::new(theirs).with_arguments(arguments);
        let limit = self.config.call_limit();
        let request = ClientRequest::CallToolRequest(Request::new(params));
        // The crate's own time limit does not know of questions to the user.
        let handle = peer.send_request_with_option(request, PeerRequestOptions::no_options()).await;
        let handle = handle.map_err(|error| self.unanswered(&error))?;
        let mut open = OpenCall {
            peer: peer.clone(),
            id: Some(handle.id.clone()),
            token: handle.progress_token.clone(),
            calls: Arc::clone(&self.calls),
            end: "the run was interrupted",
        };
        let (reports, progress) = watch::channel(0);
        let running = RunningCall { tool: tool.clone(), reports };
        self.calls.lock().insert(handle.progress_token.clone(), running);
        let answer = tokio::select! {
            answer = handle.await_response() => answer,
            () = wait_for_silence(limit, progress, self.questions.subscribe()) => {
                open.end = "the time is up";
                Err(ServiceError::Timeout { timeout: limit })
            }
        };
        if !matches!(answer, Err(ServiceError::Timeout { .. })) {
            open.end();
        }
        match answer {
            Ok(answer) => answer_of(answer).ok_or_else(|| {
                Unanswered::Refused("the MCP server answered with something other than a result".to_owned())
            }),
            Err(ServiceError::McpError(error)) if error.message == TOO_LONG => {
                Err(Unanswered::Refused(format!(
                    "the MCP server answered the call, but {TOO_LONG}, and no more is read. The call may have had its \
                     effect. Ask for less, or for one part after the other."
                )))
            }
            Err(ServiceError::McpError(error)) => Err(Unanswered::Refused(format!(
                "the MCP server refused the call: {} ({})",
                error.message, error.code.0
            ))),
            Err(ServiceError::Timeout { timeout }) => Err(Unanswered::Refused(format!(
                "the MCP server had not answered after {timeout:?}; it was told that the call is over. It may have had its effect."
            ))),
            Err(error) => Err(self.unanswered(&error)),
        }
    }

    /// Returns the reason why a call whose messages could not be exchanged has no answer.
    fn unanswered(&self, error: &ServiceError) -> Unanswered {
        match (error, &self.config.url) {
            // Each message to an address is a request of its own: the server may be there for the next one.
            (ServiceError::TransportSend(error), Some(url)) => {
                let why = exchange_reason(error).replace(url, &without_secrets(url));
                let why = if asks_for_login(&why) {
                    format!("it asks for a login: {}", login_help(&self.id))
                } else {
                    why
                };
                Unanswered::Refused(format!(
                    "the MCP server did not answer the call: {why}. The call may have had its effect, or a part of it."
                ))
            }
            (ServiceError::TransportSend(error), None) => Unanswered::Gone(exchange_reason(error)),
            (error, _) => Unanswered::Gone(error.to_string()),
        }
    }

    /// Returns a text of the server in a form that users and models may read.
    fn plain(&self, text: &str) -> String {
        let text = clean(text);
        shorten(&self.resolved.as_ref().map_or(text.clone(), |resolved| resolved.hide_in(text)), 2_000)
    }

    fn notice(&self, text: &str) {
        (self.watcher)(McpNews::Notice(&self.plain(text)));
    }
}

/// Waits until a call is silent for `limit`, or has lasted [`MOST_SILENCES`] of it. Reports of progress
/// restart the time, and it stands still while the user has a question to answer.
async fn wait_for_silence(
    limit: Duration,
    mut progress: watch::Receiver<usize>,
    mut questions: watch::Receiver<usize>,
) {
    let mut left = limit * MOST_SILENCES;
    loop {
        // Both senders outlive the call.
        if *questions.borrow_and_update() > 0 {
            let _ = questions.changed().await;
            continue;
        }
        let since = Instant::now();
        tokio::select! {
            () = tokio::time::sleep(limit.min(left)) => return,
            _ = progress.changed() => {}
            _ = questions.changed() => {}
        }
        left = left.saturating_sub(since.elapsed());
    }
}

/// A call that waits for its answer. Dropping it cancels the call at the server.
struct OpenCall {
    peer: Peer<RoleClient>,
    /// The id of the request; `None` once it is answered.
    id: Option<RequestId>,
    token: ProgressToken,
    calls: Arc<Mutex<HashMap<ProgressToken, RunningCall>>>,
    /// The reason that the server is told if it is cancelled.
    end: &'static str,
}

impl OpenCall {
    fn end(mut self) {
        self.id = None;
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.token);
        if let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current()) {
            let peer = self.peer.clone();
            let why = Some(self.end.to_owned());
            let notification = CancelledNotification::new(CancelledNotificationParam::new(Some(id), why));
            runtime.spawn(async move { peer.send_notification(notification.into()).await });
        }
    }
}

/// The most tools that are named as left out: a list may have thousands.
const MOST_NAMED: usize = 20;
/// Most tools of one server: no model could be told of more, and a list may have no end.
const MOST_TOOLS: usize = 10_000;

/// Returns all tools of a server, page by page, and what is wrong with those that cannot be read.
///
/// # Errors
/// The reason, if a page cannot be read, or if the pages do not end.
async fn all_tools(server: &Peer<RoleClient>) -> Result<(Vec<Tool>, Vec<String>), String> {
    let (mut tools, mut unreadable) = (Vec::new(), Vec::new());
    let mut cursor = None;
    for _ in 0..MOST_TOOLS {
        let page = read_page(server, PaginatedRequestParams::default().with_cursor(cursor)).await?;
        tools.extend(page.tools);
        unreadable.extend(page.unreadable);
        cursor = page.next;
        if cursor.is_none() {
            return Ok((tools, unreadable));
        }
        if tools.len() + unreadable.len() > MOST_TOOLS {
            break;
        }
    }
    Err(format!("its list does not end (after {} tools)", tools.len()))
}

async fn read_page(server: &Peer<RoleClient>, wanted: PaginatedRequestParams) -> Result<Page, String> {
    match server.list_tools(Some(wanted.clone())).await {
        Ok(page) => Ok(Page { tools: page.tools, unreadable: Vec::new(), next: page.next_cursor }),
        // The crate reads a page only if it can read each of its tools.
        Err(ServiceError::UnexpectedResponse) => {
            let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(wanted));
            let answer = server.send_request(request).await.map_err(|error| error.to_string())?;
            Page::read(serde_json::to_value(answer).unwrap_or_default())
        }
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use tokio::time::{advance, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_worked_for_long_has_all_its_restarts_again() {
        let mut desk = Desk { n_starts: 3, works_since: Some(Instant::now()), ..Desk::default() };
        desk.note_end();
        assert_eq!((desk.n_starts, desk.works_since), (3, None));
        desk.works_since = Some(Instant::now());
        advance(STEADY).await;
        desk.note_end();
        assert_eq!((desk.n_starts, desk.works_since), (1, None));
        // An end is noticed once, so one that cannot be started again is given up.
        desk.n_starts = 3;
        advance(STEADY).await;
        desk.note_end();
        assert_eq!(desk.n_starts, 3);
        // A start after which it answered is given back, but the first one.
        desk.has_answered.store(true, Ordering::SeqCst);
        for expected in [2, 1, 1] {
            desk.works_since = Some(Instant::now());
            desk.note_end();
            assert_eq!(desk.n_starts, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_abandoned_server_is_tried_again_after_a_while() {
        let told = Arc::new(AtomicU64::new(0));
        let notices = Arc::clone(&told);
        let watcher: McpWatcher = Arc::new(move |_: McpNews<'_>| {
            notices.fetch_add(1, Ordering::SeqCst);
        });
        for (restarts, is_tried) in [(3, true), (0, false)] {
            let config = McpServerConfig { restarts: Some(restarts), ..McpServerConfig::default() };
            let id = McpServerId::new("s").unwrap();
            let server = Server::new(id, config, &BTreeMap::new(), Arc::clone(&watcher), None);
            let mut desk = Desk::default();
            assert!(!server.is_due_again(&mut desk));
            advance(LONG_PAUSE / 2).await;
            assert!(!server.is_due_again(&mut desk));
            advance(LONG_PAUSE / 2).await;
            assert_eq!(server.is_due_again(&mut desk), is_tried, "{restarts}");
            assert!(!server.is_due_again(&mut desk));
        }
        assert_eq!(told.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_has_no_time_limit_while_the_user_is_asked() {
        let limit = Duration::from_secs(10);
        let (reports, progress) = watch::channel(0);
        let questions = watch::Sender::new(1);
        let began = Instant::now();
        let events = async {
            sleep(Duration::from_secs(3_600)).await;
            questions.send_modify(|n| *n -= 1);
            sleep(Duration::from_secs(9)).await;
            reports.send_modify(|n| *n += 1);
        };
        tokio::join!(wait_for_silence(limit, progress, questions.subscribe()), events);
        assert_eq!(began.elapsed().as_secs(), 3_600 + 9 + 10);
        // Reports do not prolong it for ever.
        let (reports, progress) = watch::channel(0);
        let began = Instant::now();
        let reporting = async {
            loop {
                sleep(Duration::from_secs(9)).await;
                reports.send_modify(|n| *n += 1);
            }
        };
        tokio::select! {
            () = wait_for_silence(limit, progress, questions.subscribe()) => {}
            () = reporting => {}
        }
        assert_eq!(began.elapsed().as_secs(), 100);
    }
}
