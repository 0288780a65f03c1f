//! The connection to the server, encrypted if possible.

use std::sync::Arc;
use std::time::Duration;

use forge_domain::StoreError;
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::ServerName;

/// The time limit for connecting, unless the URL sets one (`connect_timeout`, in seconds).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest time without an answer, unless the URL sets one (`tcp_user_timeout`, in seconds).
const PATIENCE: Duration = Duration::from_secs(15);
/// The idle time after which the kernel checks whether the other end is still there.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// Returns how long the server may leave a statement without an answer.
pub(super) fn patience(config: &Config) -> Duration {
    config.get_tcp_user_timeout().copied().unwrap_or(PATIENCE)
}

/// A connection; it works as long as the client exists.
pub(super) struct Connection {
    pub(super) client: Client,
    driver: JoinHandle<Result<(), tokio_postgres::Error>>,
}

impl Connection {
    /// Closes the connection without telling the server, which may be unreachable.
    pub(super) fn abandon(&self) {
        self.driver.abort();
    }
}

/// Connects within the time limit. `sslmode` in the URL decides on encryption: `disable`, `prefer` (the
/// default), or `require`, which also verifies the server against the machine's certificates.
pub(super) async fn connect(config: &Config, place: &ServerName) -> Result<Connection, StoreError> {
    let mut config = config.clone();
    let limit = config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
    // Each host has its own limit for the TCP connection; the handshakes after it have none.
    let whole = limit * config.get_hosts().len().max(1) as u32;
    config.connect_timeout(limit).tcp_user_timeout(place.patience);
    if config.get_keepalives_idle() > KEEPALIVE {
        config.keepalives_idle(KEEPALIVE);
    }
    if config.get_application_name().is_none() {
        config.application_name("forge");
    }
    place.answering(whole, connection(config, place)).await
}

async fn connection(config: Config, place: &ServerName) -> Result<Connection, StoreError> {
    let connection = if config.get_ssl_mode() == SslMode::Disable {
        let (client, connection) = place.on(config.connect(NoTls).await)?;
        Connection { client, driver: tokio::spawn(connection) }
    } else {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder =
            builder.with_safe_default_protocol_versions().map_err(|error| place.unavailable(error))?;
        let builder = builder.with_platform_verifier().map_err(|error| place.unavailable(error))?;
        let tls = MakeRustlsConnect::new(builder.with_no_client_auth());
        let (client, connection) = place.on(config.connect(tls).await)?;
        Connection { client, driver: tokio::spawn(connection) }
    };
    let limits = format!(
        "SET statement_timeout = {}; SET idle_in_transaction_session_timeout = {}",
        statement_timeout(place.patience),
        idle_timeout(place.patience)
    );
    place.on(connection.client.batch_execute(&limits).await)?;
    Ok(connection)
}

/// Returns the server's own limit of a statement, in milliseconds. It is shorter than our patience, so that
/// the server releases its locks first.
pub(super) const fn statement_timeout(patience: Duration) -> u128 {
    patience.as_millis() * 4 / 5
}

/// Returns how long a transaction may stay open without a statement before the server ends it, in
/// milliseconds. A process that is cut off during a transaction must not block the others for longer than
/// their own statements may take.
const fn idle_timeout(patience: Duration) -> u128 {
    patience.as_millis() * 3 / 5
}
