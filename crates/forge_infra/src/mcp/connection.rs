//! One connection to a server: a program that was started, or an address.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use forge_domain::{
    McpEndpoint, McpServerConfig, McpServerId, Person, ToolName, fill_variables, named_variables,
};
use parking_lot::Mutex;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationCapability, ErrorData,
    FormElicitationCapability, Implementation, ProgressNotificationParam, ProgressToken, RootsCapabilities,
    UrlElicitationCapability,
};
use rmcp::service::{ClientInitializeError, NotificationContext, RequestContext, RunningService};
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use rmcp::transport::{DynamicTransportError, StreamableHttpClientTransport};
use rmcp::{ClientHandler, RoleClient, ServiceExt};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::sync::watch;

use super::content::{clean, shorten};
use super::long_answers::{MOST_OF_A_LINE, pass_lines};
use super::{McpError, McpNews, McpTokens, McpWatcher, elicitation};
use crate::http::{client_builder, same_server};
use crate::process::{self, Program, Running};
use crate::{CommandSandbox, Secret};

/// The most bytes of a program's stdout that wait to be read.
const PIECE: usize = 64 * 1024;
/// The most bytes of a line on stderr that are kept.
const MOST_LINE: u64 = 8 * 1024;
/// The most characters that are shown of a server's last output.
const MOST_SAID: usize = 300;

/// An open connection.
pub(super) struct Connection {
    pub(super) service: RunningService<RoleClient, Listener>,
    pub(super) said: Said,
    /// The program, if it is one. It ends with the connection, and so does everything that it started.
    program: Option<Running>,
}

/// The parts of the user's world that a connection may use.
#[derive(Clone, Copy)]
pub(super) struct World<'a> {
    /// The sandbox for a program, if any.
    pub(super) sandbox: Option<&'a Arc<CommandSandbox>>,
    /// The tokens for an address.
    pub(super) tokens: Option<&'a McpTokens>,
}

/// A server's block with the environment filled in.
pub(super) struct Resolved {
    /// The program's variables, or the headers.
    values: BTreeMap<String, Secret>,
    /// The values from the environment: they are kept out of all messages.
    secrets: Vec<Secret>,
}

/// The last line of a program's stderr.
#[derive(Clone, Default)]
pub(super) struct Said(Arc<Mutex<String>>);

impl Said {
    /// Returns the last line with an introduction; nothing if nothing was printed.
    pub(super) fn shown(&self) -> String {
        match self.0.lock().as_str() {
            "" => String::new(),
            last => format!("; its last output: {last}"),
        }
    }
}

/// A listener for a server's notifications.
#[derive(Clone)]
pub(super) struct Listener {
    pub(super) server: McpServerId,
    /// True if the server has reported that its tools changed.
    pub(super) has_other_tools: Arc<AtomicBool>,
    /// The calls in progress.
    pub(super) calls: Arc<Mutex<HashMap<ProgressToken, RunningCall>>>,
    /// The number of questions that the user has not answered yet.
    pub(super) questions: watch::Sender<usize>,
    pub(super) watcher: McpWatcher,
    /// The user, whom the server may ask.
    pub(super) person: Arc<dyn Person>,
}

/// A call in progress.
pub(super) struct RunningCall {
    pub(super) tool: ToolName,
    /// The number of its progress reports.
    pub(super) reports: watch::Sender<usize>,
}

/// A question that the user has not answered yet.
struct OpenQuestion<'a>(&'a watch::Sender<usize>);

impl<'a> OpenQuestion<'a> {
    fn begin(questions: &'a watch::Sender<usize>) -> Self {
        questions.send_modify(|n| *n += 1);
        Self(questions)
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n -= 1);
    }
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        // No sampling: a server has no say in what the model is asked, or who pays for it.
        let forms = ElicitationCapability::new()
            .with_form(FormElicitationCapability::default())
            .with_url(UrlElicitationCapability::default());
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(forms);
        capabilities.roots = Some(RootsCapabilities::default());
        ClientConfig::new(capabilities, Implementation::new("forge", env!("CARGO_PKG_VERSION")))
    }

    #[expect(deprecated, reason = "the next protocol removes roots, and the servers of today ask for them")]
    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        let folder = std::env::current_dir().ok();
        let root = folder.and_then(|folder| reqwest::Url::from_directory_path(folder).ok());
        let root = root.map(|url| rmcp::model::Root::new(url.to_string()));
        Ok(rmcp::model::ListRootsResult::new(root.into_iter().collect()))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let _open = OpenQuestion::begin(&self.questions);
        Ok(elicitation::answer(&self.server, &*self.person, request).await)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.has_other_tools.store(true, Ordering::SeqCst);
    }

    async fn on_progress(&self, told: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let calls = self.calls.lock();
        let Some(call) = calls.get(&told.progress_token) else { return };
        call.reports.send_modify(|n| *n += 1);
        let tool = call.tool.clone();
        drop(calls);
        let message = told.message.map(|message| shorten(&clean(&message).replace('\n', " "), MOST_SAID));
        let (done, of) = (told.progress, told.total);
        (self.watcher)(McpNews::Progress { tool: &tool, done, of, message: message.as_deref() });
    }
}

impl Resolved {
    /// Resolves `config` with the variables that it names.
    ///
    /// # Errors
    /// Fails with [`McpError::Missing`] for the first variable that is not set.
    pub(super) fn of(
        config: &McpServerConfig,
        environment: &BTreeMap<String, String>,
    ) -> Result<Self, McpError> {
        let (mut values, mut secrets) = (BTreeMap::new(), Vec::new());
        if config.command.is_some() {
            let harmless = process::clean_environment(environment, &[]);
            values.extend(harmless.into_iter().map(|(name, value)| (name, Secret::new(value))));
        }
        for (name, value) in config.env.iter().chain(&config.headers).flatten() {
            let named = named_variables(value).into_iter().filter_map(|variable| environment.get(variable));
            secrets.extend(named.map(Secret::new));
            let filled = fill_variables(value, environment).map_err(McpError::Missing)?;
            values.insert(name.clone(), Secret::new(filled));
        }
        Ok(Self { values, secrets })
    }

    /// Returns `text` without the values from the environment.
    pub(super) fn hide_in(&self, text: String) -> String {
        self.secrets.iter().fold(text, |text, secret| secret.hide_in(text))
    }
}

impl Connection {
    /// Starts or reaches the server, and negotiates the protocol with it.
    pub(super) async fn open(
        config: &McpServerConfig,
        resolved: &Arc<Resolved>,
        listener: Listener,
        world: World<'_>,
    ) -> Result<Self, McpError> {
        let said = Said::default();
        let limit = config.start_limit();
        let opening = async {
            match config.endpoint()? {
                McpEndpoint::Program(program) => {
                    let server = server(program, config, resolved, world.sandbox);
                    Self::start(server, program, resolved, listener, &said).await
                }
                McpEndpoint::Address(url) => Self::reach(url, resolved, listener, world.tokens).await,
            }
        };
        match tokio::time::timeout(limit, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(McpError::Slow { limit, said: said.shown() }),
        }
    }

    async fn start(
        server: Program,
        program: &str,
        resolved: &Arc<Resolved>,
        listener: Listener,
        said: &Said,
    ) -> Result<Self, McpError> {
        let failed =
            |source| McpError::Start { program: program.to_owned(), source: with_hint(program, source) };
        // The system reports a missing folder as if the program were missing.
        if let Some(folder) = server.folder.as_ref().filter(|folder| !folder.is_dir()) {
            let what = format!("its folder `{}` (`cwd`) is not there", folder.display());
            return Err(McpError::Handshake { what, said: String::new() });
        }
        let sandbox = server.sandbox.clone();
        let mut running = server.start().await.map_err(failed)?;
        let (stdin, stdout, stderr) = (running.stdin.take(), running.stdout.take(), running.stderr.take());
        let reading = stderr.map(|stderr| {
            tokio::spawn(read_words(stderr, listener.server.clone(), said.clone(), Arc::clone(resolved)))
        });
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            return Err(failed(std::io::Error::other("it has no stdin and stdout")));
        };
        let (lines, passed) = tokio::io::duplex(PIECE);
        tokio::spawn(pass_lines(stdout, lines, MOST_OF_A_LINE));
        let service = listener.serve((passed, stdin)).await;
        let service = match service {
            Ok(service) => service,
            Err(error) => {
                // The reason is on its stderr, which may not be read to its end yet.
                if let Some(reading) = reading {
                    let _ = tokio::time::timeout(Duration::from_millis(500), reading).await;
                }
                let why = resolved.hide_in(handshake_reason(&error));
                let what = format!("it does not answer as an MCP server: {why}");
                let said = said.shown();
                let denials = sandbox.as_ref().map(|sandbox| sandbox.denials(&said)).unwrap_or_default();
                let denials: String = denials.iter().map(|denial| format!("; perhaps {denial}")).collect();
                return Err(McpError::Handshake { what, said: said + &denials });
            }
        };
        Ok(Self { service, said: said.clone(), program: Some(running) })
    }

    async fn reach(
        url: &str,
        resolved: &Resolved,
        listener: Listener,
        tokens: Option<&McpTokens>,
    ) -> Result<Self, McpError> {
        let mut headers = HashMap::new();
        for (name, value) in &resolved.values {
            let wrong = || McpError::Header(name.clone());
            let key = reqwest::header::HeaderName::try_from(name.as_str()).map_err(|_| wrong())?;
            let mut value = reqwest::header::HeaderValue::try_from(value.expose()).map_err(|_| wrong())?;
            value.set_sensitive(true);
            headers.insert(key, value);
        }
        // A header of the user's own counts.
        let tokens = tokens.filter(|_| !headers.contains_key(&reqwest::header::AUTHORIZATION));
        let config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(headers);
        let client =
            client_builder().redirect(same_server()).build().map_err(|error| McpError::Handshake {
                what: format!("no client can be made on this machine: {error}"),
                said: String::new(),
            })?;
        let server = listener.server.clone();
        let service = match Self::tokens_for(url, tokens).await? {
            #[cfg(feature = "mcp-oauth")]
            Some(manager) => {
                let client = rmcp::transport::auth::AuthClient::new(client, manager);
                listener.serve(StreamableHttpClientTransport::with_client(client, config)).await
            }
            _ => listener.serve(StreamableHttpClientTransport::with_client(client, config)).await,
        };
        let service = service.map_err(|error| {
            let shown = forge_domain::without_secrets(url);
            // Errors repeat the address, and what stands behind it may be a key.
            let why = resolved.hide_in(handshake_reason(&error)).replace(url, &shown);
            if asks_for_login(&why) {
                return McpError::Login { shown, help: login_help(&server) };
            }
            let what = format!("{shown} does not answer as an MCP server: {why}");
            McpError::Handshake { what, said: String::new() }
        })?;
        Ok(Self { service, said: Said::default(), program: None })
    }

    /// Returns the manager of the tokens for a server; `None` without a login.
    #[cfg(feature = "mcp-oauth")]
    async fn tokens_for(
        url: &str,
        tokens: Option<&McpTokens>,
    ) -> Result<Option<rmcp::transport::auth::AuthorizationManager>, McpError> {
        let Some(tokens) = tokens else { return Ok(None) };
        super::login::stored(url, tokens).await.map_err(|error| {
            let what = format!("the login cannot be used: {}", clean(&error.to_string()));
            McpError::Handshake { what, said: String::new() }
        })
    }

    /// Returns nothing: this crate was built without logins.
    #[cfg(not(feature = "mcp-oauth"))]
    #[expect(clippy::unused_async, reason = "with logins, it asks a server")]
    async fn tokens_for(_: &str, _: Option<&McpTokens>) -> Result<Option<()>, McpError> {
        Ok(None)
    }

    /// Checks whether the connection is closed.
    pub(super) fn is_over(&mut self) -> bool {
        let has_ended = self.program.as_mut().is_some_and(Running::has_ended);
        has_ended || self.service.is_closed() || self.service.peer().is_transport_closed()
    }

    /// Lets the server end on its own, and kills it if it does not.
    pub(super) async fn close(mut self) {
        const GRACE: Duration = Duration::from_secs(2);
        let _ = self.service.close_with_timeout(GRACE).await;
        if let Some(mut program) = self.program.take() {
            // Its stdin is closed now, which asks it to end.
            let _ = tokio::time::timeout(GRACE, program.wait()).await;
            program.end().await;
        }
    }
}

/// Returns why no connection to a server was opened.
fn handshake_reason(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => exchange_reason(error),
        error => error.to_string(),
    }
}

/// Returns why a message could not be exchanged: without the types that the crate names first, and with the
/// cause of a failed connection, which it leaves out.
pub(super) fn exchange_reason(error: &DynamicTransportError) -> String {
    match error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(StreamableHttpError::Client(client)) => {
            let mut cause: &dyn std::error::Error = client;
            while let Some(deeper) = cause.source() {
                cause = deeper;
            }
            if client.is_connect() {
                format!("it cannot be reached: {cause}")
            } else if client.is_request() || client.is_body() {
                format!("the connection broke off: {cause}")
            } else {
                cause.to_string()
            }
        }
        Some(StreamableHttpError::UnexpectedContentType(kind)) => {
            let kind = kind.as_deref().unwrap_or("something of no known type");
            format!("its answer is {kind}, which is neither JSON nor a stream of events")
        }
        Some(StreamableHttpError::ResponseBodyTooLarge { max_size }) => {
            format!("its answer has more than {} MiB", max_size >> 20)
        }
        _ => error.error.to_string(),
    }
}

/// Checks whether the reason of a failed exchange is that the server wants to know who the user is.
pub(super) fn asks_for_login(reason: &str) -> bool {
    // The crate knows it by a header that not every server sends.
    reason.starts_with("Auth required") || reason.contains("HTTP 401 ")
}

/// Adds the usual mistake to the error of a program that is not found: arguments in `command`.
fn with_hint(program: &str, source: std::io::Error) -> std::io::Error {
    if source.kind() != std::io::ErrorKind::NotFound || !program.contains(' ') {
        return source;
    }
    let text = format!("{source}; `command` is the program alone, and its arguments are in `args`");
    std::io::Error::new(std::io::ErrorKind::NotFound, text)
}

/// Returns what to do if a server wants to know who the user is.
pub(super) fn login_help(server: &McpServerId) -> String {
    if cfg!(feature = "mcp-oauth") {
        return format!("run `forge mcp login {server}`");
    }
    format!(
        "set `mcp_servers: {{ {server}: {{ headers: {{ authorization: 'Bearer ${{TOKEN}}' }} }} }}`, or build Forge \
         with the feature `mcp-oauth`, which has `forge mcp login`"
    )
}

/// Returns the program of a server, ready to be started.
fn server(
    program: &str,
    config: &McpServerConfig,
    resolved: &Resolved,
    sandbox: Option<&Arc<CommandSandbox>>,
) -> Program {
    let command = [program].into_iter().chain(config.args.iter().flatten().map(String::as_str));
    let own = |(name, value): (&String, &Secret)| (name.clone(), value.expose().to_owned());
    Program {
        command: command.map(Into::into).collect(),
        folder: config.cwd.as_ref().map(Into::into),
        environment: resolved.values.iter().map(own).collect(),
        has_input: true,
        has_errors: true,
        sandbox: sandbox.cloned(),
    }
}

/// Reads a program's stderr into the log, and keeps the last line of it for errors.
async fn read_words(pipe: impl AsyncRead + Unpin, server: McpServerId, said: Said, resolved: Arc<Resolved>) {
    let mut pipe = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        // A line without an end must not fill the memory: what is longer is several.
        match (&mut pipe).take(MOST_LINE).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = resolved.hide_in(clean(String::from_utf8_lossy(&line).trim()));
        if !text.is_empty() {
            tracing::info!(target: "forge::mcp", server = %server, "{text}");
            *said.0.lock() = shorten(&text, MOST_SAID);
        }
    }
}
