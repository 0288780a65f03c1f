//! The clients of everything that is called over HTTP.

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};

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
    Client::builder().redirect(Policy::none())
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
        if is_same && attempt.previous().len() <= MOST { attempt.follow() } else { attempt.stop() }
    };
    Policy::custom(policy)
}

#[cfg(test)]
#[cfg(feature = "mcp")]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};

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
        let response = client.post(format!("{named}/here")).header("x-key", "secret").send().await.unwrap();
        assert_eq!(response.status(), 307, "where it would have led is not asked");
        assert_eq!(*asked.lock().unwrap(), ["/here", "/there"]);
        assert_eq!(*asked_of_other.lock().unwrap(), Vec::<String>::new());
    }
}
