//! The clients of everything that is called over HTTP.

use std::sync::{Arc, OnceLock};

#[cfg(feature = "mcp")]
use forge_domain::without_secrets;
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_platform_verifier::Verifier;

/// Sets `ring` as the TLS provider of the process, unless the embedding application has chosen one. Our own
/// clients do this themselves; others that are built on `reqwest` need it before they are made.
pub fn install_tls_provider() {
    // An error means that there is a provider already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Returns a builder of clients that follow no redirect: one would turn a POST into a GET, or carry the
/// prompt and its keys to an unknown address.
pub(crate) fn client_builder() -> ClientBuilder {
    install_tls_provider();
    let builder = Client::builder().redirect(Policy::none());
    match tls() {
        Some(tls) => builder.tls_backend_preconfigured(tls),
        None => builder,
    }
}

/// Returns the TLS configuration that all clients share; `None` if this machine's provider does not allow it.
///
/// A client of `reqwest` reads every root certificate of the machine when it is built, which takes about ten
/// milliseconds, and each provider has a client. Here they are read once, for the first handshake.
fn tls() -> Option<ClientConfig> {
    static SHARED: OnceLock<Option<ClientConfig>> = OnceLock::new();
    let make = || {
        let provider = Arc::clone(CryptoProvider::get_default()?);
        let roots = SystemRoots { verifier: OnceLock::new(), provider: Arc::clone(&provider) };
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().ok()?;
        let config = config.dangerous().with_custom_certificate_verifier(Arc::new(roots));
        let mut config = config.with_no_client_auth();
        // `reqwest` offers the same, but only in a configuration that it made itself.
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Some(config)
    };
    SHARED.get_or_init(make).clone()
}

/// The machine's root certificates, which are read when the first certificate is checked.
#[derive(Debug)]
struct SystemRoots {
    verifier: OnceLock<Result<Verifier, rustls::Error>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for SystemRoots {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verifier = self.verifier.get_or_init(|| Verifier::new(Arc::clone(&self.provider)));
        let verifier = verifier.as_ref().map_err(Clone::clone)?;
        verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Returns a redirect policy that stays at the configured server: `/mcp` may lead to `/mcp/`, and no header
/// goes to another host or port.
#[cfg(feature = "mcp")]
pub(crate) fn same_server() -> Policy {
    /// Most redirects that are followed.
    const MOST: usize = 5;
    let policy = |attempt: reqwest::redirect::Attempt<'_>| {
        let is_same =
            attempt.previous().first().is_some_and(|named| named.origin() == attempt.url().origin());
        if !is_same {
            let elsewhere = Elsewhere(without_secrets(attempt.url().as_str()));
            return attempt.error(elsewhere);
        }
        if attempt.previous().len() <= MOST { attempt.follow() } else { attempt.stop() }
    };
    Policy::custom(policy)
}

/// The error about a redirect to another server, whose address it has as it may be shown.
#[cfg(feature = "mcp")]
#[derive(Debug, thiserror::Error)]
#[error("it redirects to {0}, which is another server: if you trust that one, name its address")]
struct Elsewhere(String);

#[cfg(test)]
#[cfg(feature = "mcp")]
mod tests {
    use std::error::Error as _;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::Mutex;

    use pretty_assertions::assert_eq;

    use super::*;

    /// Serves redirects from `/here` to `/there`, and from everything else to `location`; returns its address
    /// and the requested paths.
    fn redirecting(location: String) -> (String, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut head = [0; 4_096];
                let n = stream.read(&mut head).unwrap();
                let path =
                    String::from_utf8_lossy(&head[..n]).split(' ').nth(1).unwrap_or_default().to_owned();
                let to = if path == "/here" { "/there" } else { location.as_str() };
                seen.lock().unwrap().push(path);
                write!(
                    stream,
                    "HTTP/1.1 307 Temporary Redirect\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                )
                .unwrap();
            }
        });
        (address, asked)
    }

    #[tokio::test]
    async fn a_redirect_is_followed_at_the_same_server_alone() {
        let (other, asked_of_other) = redirecting("/".to_owned());
        let (named, asked) = redirecting(format!("{other}/stolen"));
        let client = client_builder().no_proxy().redirect(same_server()).build().unwrap();
        let sent = client.post(format!("{named}/here")).header("x-key", "secret").send().await;
        let why = sent.unwrap_err().source().map(ToString::to_string);
        let expected = format!(
            "it redirects to {other}/stolen, which is another server: if you trust that one, name its address"
        );
        assert_eq!(why, Some(expected), "where it would have led is not asked");
        assert_eq!(*asked.lock().unwrap(), ["/here", "/there"]);
        assert_eq!(*asked_of_other.lock().unwrap(), Vec::<String>::new());
    }
}
