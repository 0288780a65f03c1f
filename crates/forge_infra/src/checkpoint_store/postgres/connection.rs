//! Reaching the server, encrypted where it can be.

use std::sync::Arc;
use std::time::Duration;

use forge_domain::StoreError;
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::Place;

/// How long the server may take to answer, unless the URL says otherwise (`connect_timeout`).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection; it works as long as the client is there. `sslmode` in the URL decides: `disable`, `prefer` (what is
/// done where nothing is said), or `require`, which also proves the server by the machine's certificates.
pub(super) async fn connect(config: &Config, place: &Place) -> Result<Client, StoreError> {
    let mut config = config.clone();
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_application_name().is_none() {
        config.application_name("forge");
    }
    if config.get_ssl_mode() == SslMode::Disable {
        let (client, connection) = place.on(config.connect(NoTls).await)?;
        tokio::spawn(connection);
        return Ok(client);
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| place.unavailable(error))?;
    let builder = builder.with_platform_verifier().map_err(|error| place.unavailable(error))?;
    let tls = MakeRustlsConnect::new(builder.with_no_client_auth());
    let (client, connection) = place.on(config.connect(tls).await)?;
    tokio::spawn(connection);
    Ok(client)
}
