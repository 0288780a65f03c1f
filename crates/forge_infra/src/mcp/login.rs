//! Logins to remote servers by OAuth: the authorization in a browser, and tokens that are renewed.
//!
//! `rmcp` has the protocol: metadata of the resource and of its authorization server, registration, PKCE and
//! renewal. This is what it needs of the world: a file for the tokens, and an address on this machine to
//! which the browser returns.

use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use reqwest::Url;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationRequest, AuthorizationSession, CredentialRefreshGuard,
    CredentialStore, StoredCredentials,
};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::content::{clean, shorten};
use super::tokens::McpTokens;
use crate::http::install_tls_provider;
use crate::write_whole;

/// The time in which the user must have logged in.
const PATIENCE: Duration = Duration::from_secs(600);
/// The longest time for a browser to send its request.
const LONGEST_REQUEST: Duration = Duration::from_secs(2);
/// The most bytes of a request of the browser that are read.
const MOST_REQUEST: usize = 16 << 10;
/// The most characters of a server's error that are shown.
const MOST_SHOWN: usize = 300;
/// The path to which the browser returns.
const CALLBACK: &str = "/callback";

/// The reason why a login failed.
#[derive(Debug, thiserror::Error)]
pub enum McpLoginError {
    /// The server names no authorization server.
    #[error("it offers no login: neither it nor its host names an authorization server")]
    NoLogin,
    /// The authorization server refused.
    #[error("{0}")]
    Refused(String),
    /// No address on this machine can be listened on.
    #[error("no address on this machine can be listened on: {0}")]
    Listen(#[source] io::Error),
    /// The user did not log in.
    #[error("the browser did not return within {} minutes", PATIENCE.as_secs() / 60)]
    Late,
}

impl From<AuthError> for McpLoginError {
    fn from(error: AuthError) -> Self {
        Self::Refused(shorten(&clean(&error.to_string()).replace('\n', " "), MOST_SHOWN))
    }
}

/// A login that waits for the browser.
pub struct McpLogin {
    session: AuthorizationSession,
    listener: TcpListener,
    /// The value by which the answer to this login is recognized.
    state: String,
}

impl McpLogin {
    /// Asks the server at `url` where to log in, and registers Forge there. What comes of it is kept in
    /// `tokens`.
    ///
    /// # Errors
    /// Fails with [`McpLoginError`] if the server offers no login, or refuses the registration.
    pub async fn begin(url: &str, tokens: &McpTokens) -> Result<Self, McpLoginError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(McpLoginError::Listen)?;
        let port = listener.local_addr().map_err(McpLoginError::Listen)?.port();
        let mut manager = manager(url, tokens).await?;
        let found = manager.resolve_metadata().await?;
        if !found.source.is_discovered() {
            return Err(McpLoginError::NoLogin);
        }
        manager.set_metadata(found.metadata);
        let request = AuthorizationRequest::new(format!("http://{}:{port}{CALLBACK}", Ipv4Addr::LOCALHOST))
            .with_client_name("Forge")
            .with_initial_scope_selection();
        let session = AuthorizationSession::new(manager, request).await.map_err(|(_, error)| error)?;
        let state = parameter(session.get_authorization_url(), "state")
            .ok_or_else(|| McpLoginError::Refused("its address for the login is invalid".to_owned()))?;
        Ok(Self { session, listener, state })
    }

    /// Returns the address that the user opens in a browser.
    pub fn address(&self) -> &str {
        self.session.get_authorization_url()
    }

    /// Waits until the browser returns, or until `pasted` gives the address at which it ended on another
    /// machine, and keeps the token.
    ///
    /// # Errors
    /// Fails with [`McpLoginError`] if the user or the server refuses, or no one answers.
    pub async fn finish(self, pasted: impl Future<Output = Option<String>>) -> Result<(), McpLoginError> {
        let answer = async {
            tokio::select! {
                // Without an address, the browser may still come.
                Some(address) = pasted => {
                    if !self.is_answer(&address) {
                        let what = "this is not the address at which the browser ended: it contains `code=` and `state=`";
                        return Err(McpLoginError::Refused(what.to_owned()));
                    }
                    self.settle(&address).await
                }
                settled = self.serve() => settled,
            }
        };
        tokio::time::timeout(PATIENCE, answer).await.unwrap_or(Err(McpLoginError::Late))
    }

    /// Answers requests until one is the answer to this login.
    async fn serve(&self) -> Result<(), McpLoginError> {
        loop {
            let (mut stream, _) = self.listener.accept().await.map_err(McpLoginError::Listen)?;
            // Browsers open connections ahead, on which nothing is requested.
            let requested = tokio::time::timeout(LONGEST_REQUEST, requested(&mut stream)).await;
            let Ok(Some(address)) = requested else { continue };
            if !self.is_answer(&address) {
                // Any page may send a browser here.
                respond(&mut stream, "404 Not Found", "There is nothing here.").await;
                continue;
            }
            let settled = self.settle(&address).await;
            match &settled {
                Ok(()) => respond(&mut stream, "200 OK", "You are logged in. You can close this page.").await,
                Err(_) => {
                    respond(&mut stream, "400 Bad Request", "The login failed. The terminal shows why.")
                        .await;
                }
            }
            return settled;
        }
    }

    /// Checks whether an address has the value of this login.
    fn is_answer(&self, address: &str) -> bool {
        parameter(address.trim(), "state").is_some_and(|state| state == self.state)
    }

    /// Exchanges the code in an address for a token.
    async fn settle(&self, address: &str) -> Result<(), McpLoginError> {
        let address = address.trim();
        if let Some(error) = parameter(address, "error") {
            let more = parameter(address, "error_description").map(|more| format!(": {more}"));
            let what = clean(&format!("{error}{}", more.unwrap_or_default())).replace('\n', " ");
            return Err(McpLoginError::Refused(shorten(&format!("it was refused ({what})"), MOST_SHOWN)));
        }
        self.session.handle_callback_url(address).await?;
        Ok(())
    }
}

/// Returns a parameter of an address.
fn parameter(address: &str, name: &str) -> Option<String> {
    let url = Url::parse(address).ok()?;
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// Returns the address that a browser requests; `None` if it requests nothing.
///
/// The request is read to the end of its head: a connection that is closed earlier is reset, and the answer
/// is lost with it.
async fn requested(stream: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    let mut bytes = [0; 1_024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MOST_REQUEST {
        match stream.read(&mut bytes).await {
            Ok(n @ 1..) => request.extend_from_slice(&bytes[..n]),
            _ => return None,
        }
    }
    let line = String::from_utf8(request.split(|byte| *byte == b'\r').next()?.to_vec()).ok()?;
    let target = line.strip_prefix("GET ")?.split(' ').next()?;
    target.starts_with(CALLBACK).then(|| format!("http://{}{target}", Ipv4Addr::LOCALHOST))
}

async fn respond(stream: &mut TcpStream, status: &str, text: &str) {
    let page = format!("<!doctype html><meta charset=utf-8><title>Forge</title><p>{text}</p>\n");
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        page.len()
    );
    // The browser may be gone, and the login counts all the same.
    let _ = stream.write_all((head + &page).as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// Returns a manager of the tokens for the server at `url`. Addresses that a server names are checked by it:
/// only a server on this machine can send Forge to this machine.
async fn manager(url: &str, tokens: &McpTokens) -> Result<AuthorizationManager, AuthError> {
    install_tls_provider();
    let mut manager = AuthorizationManager::new(url).await?;
    manager.set_credential_store(TokenFile { path: tokens.file(url), url: url.to_owned() });
    Ok(manager)
}

/// Returns the manager of the tokens for the server at `url`; `None` if the user has not logged in there.
///
/// # Errors
/// Fails with [`AuthError`] if the authorization server cannot be asked, or the file cannot be read.
pub(super) async fn stored(url: &str, tokens: &McpTokens) -> Result<Option<AuthorizationManager>, AuthError> {
    if !tokens.file(url).exists() {
        return Ok(None);
    }
    let mut manager = manager(url, tokens).await?;
    Ok(manager.initialize_from_store().await?.then_some(manager))
}

/// The file with the token for one server. Only its user may read it.
struct TokenFile {
    path: PathBuf,
    url: String,
}

/// The content of such a file.
#[derive(Serialize, Deserialize)]
struct Kept {
    server: String,
    credentials: StoredCredentials,
}

impl TokenFile {
    fn failed(&self, what: &str, why: &impl std::fmt::Display) -> AuthError {
        let help = "run `forge mcp login` again";
        AuthError::CredentialStoreError(format!("cannot {what} {}: {why}; {help}", self.path.display()))
    }
}

#[async_trait]
impl CredentialStore for TokenFile {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let text = match fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| self.failed("read", &error))?,
        };
        let kept: Kept = serde_json::from_slice(&text).map_err(|error| self.failed("read", &error))?;
        Ok((kept.server == self.url).then_some(kept.credentials))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let kept = Kept { server: self.url.clone(), credentials };
        let text = serde_json::to_vec_pretty(&kept).map_err(|error| self.failed("write", &error))?;
        write_private(&self.path, &text).map_err(|error| self.failed("write", &error))
    }

    async fn clear(&self) -> Result<(), AuthError> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed("remove", &error)),
            _ => Ok(()),
        }
    }

    /// Lets one process renew the token at a time: most servers accept a refresh token only once.
    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let path = self.path.with_extension("lock");
        let lock = move || -> io::Result<File> {
            let file = File::options().create(true).truncate(false).write(true).open(path)?;
            file.lock()?;
            Ok(file)
        };
        let locked = tokio::task::spawn_blocking(lock).await.map_err(|error| self.failed("lock", &error))?;
        Ok(Some(CredentialRefreshGuard::new(locked.map_err(|error| self.failed("lock", &error))?)))
    }
}

/// Writes a file that only its user may read, in a folder that only they may open.
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        let mut folders = fs::DirBuilder::new();
        folders.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut folders, 0o700);
        folders.create(folder)?;
    }
    // An existing file keeps its permissions, which someone may have widened.
    #[cfg(unix)]
    if path.exists() {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    }
    write_whole(path, bytes)
}
