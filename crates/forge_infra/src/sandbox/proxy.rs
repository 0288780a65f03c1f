//! The proxy through which a command reaches the hosts that its sandbox names: HTTP, and HTTPS through
//! CONNECT.
//!
//! The supervisor runs it outside the command's network; the command finds it in `HTTP_PROXY` and similar
//! variables. It looks names up itself, and connects to no address of this machine or its link unless a rule
//! names that very host.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::sync::Arc;

use forge_domain::SandboxHost;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

/// The most bytes before the body of a request.
const MOST_HEAD: usize = 64 * 1024;

/// Adds the variables by which programs find their proxy to a command's environment.
pub(crate) fn add_to(command: &mut Command, address: SocketAddr) {
    let url = format!("http://{address}");
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
        command.env(name, &url);
    }
    for name in ["NO_PROXY", "no_proxy"] {
        command.env(name, "localhost,127.0.0.1,::1");
    }
}

/// Serves all connections, for as long as it is polled.
pub(crate) async fn serve(listener: std::net::TcpListener, hosts: Arc<[SandboxHost]>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    loop {
        // One that is gone before it was served is no reason to leave the others alone.
        let Ok((stream, _)) = listener.accept().await else { continue };
        let hosts = Arc::clone(&hosts);
        tokio::spawn(async move {
            // The client learns what went wrong; no one else needs to know.
            let _ = answer(stream, &hosts).await;
        });
    }
}

/// The target of a request.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    host: String,
    port: u16,
    /// The head to forward; `None` if the connection is only tunnelled.
    head: Option<Vec<u8>>,
}

async fn answer(mut client: TcpStream, hosts: &[SandboxHost]) -> io::Result<()> {
    let Some((head, rest)) = read_head(&mut client).await? else {
        return refuse(&mut client, "400 Bad Request", "the request is too long or incomplete").await;
    };
    let Some(wanted) = wanted(&head) else {
        return refuse(&mut client, "400 Bad Request", "the request is invalid").await;
    };
    let Wanted { host, port, head } = wanted;
    let rule = hosts.iter().find(|rule| rule.allows(&host, port));
    let Some(rule) = rule else {
        let why = format!(
            "the sandbox denies reaching {host}:{port}; `sandbox: {{ network: [{host}] }}` in the user's \
             own forge.yaml allows it"
        );
        return refuse(&mut client, "403 Forbidden", &why).await;
    };
    let mut server = match connected(&host, port, rule).await {
        Ok(server) => server,
        Err(error) => {
            return refuse(&mut client, "502 Bad Gateway", &format!("{host} cannot be reached: {error}"))
                .await;
        }
    };
    match head {
        Some(head) => server.write_all(&head).await?,
        None => client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?,
    }
    server.write_all(&rest).await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

async fn connected(host: &str, port: u16, rule: &SandboxHost) -> io::Result<TcpStream> {
    let host = host.trim_matches(['[', ']']);
    let is_literal = host.parse::<IpAddr>().is_ok() || host.eq_ignore_ascii_case("localhost");
    let is_named = is_literal && rule.names(host);
    let addresses = tokio::net::lookup_host((host, port)).await?;
    let addresses: Vec<SocketAddr> =
        addresses.filter(|address| is_named || is_elsewhere(address.ip())).collect();
    if addresses.is_empty() {
        return Err(io::Error::other("it leads to this machine or its link"));
    }
    TcpStream::connect(addresses.as_slice()).await
}

/// Checks whether an address belongs neither to this machine nor to its link, where services without keys are
/// found.
fn is_elsewhere(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let is_here = address.is_loopback() || address.is_unspecified() || address.octets()[0] == 0;
            !(is_here || address.is_link_local() || address.is_multicast() || address.is_broadcast())
        }
        IpAddr::V6(address) => {
            let is_here = address.is_loopback() || address.is_unspecified();
            !(is_here || address.is_unicast_link_local() || address.is_multicast())
        }
    }
}

/// Reads up to the empty line; returns the part before it, and what was read after it.
async fn read_head(client: &mut TcpStream) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let mut read = Vec::new();
    loop {
        if let Some(end) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let rest = read.split_off(end + 4);
            return Ok(Some((read, rest)));
        }
        if read.len() > MOST_HEAD || client.read_buf(&mut read).await? == 0 {
            return Ok(None);
        }
    }
}

/// Returns the target in the head of a request.
fn wanted(head: &[u8]) -> Option<Wanted> {
    let text = std::str::from_utf8(head).ok()?;
    let (line, fields) = text.split_once("\r\n")?;
    let mut words = line.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() {
        return None;
    }
    if method == "CONNECT" {
        let (host, port) = host_and_port(target, None)?;
        return Some(Wanted { host, port, head: None });
    }
    let rest = target.strip_prefix("http://")?;
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (host, port) = host_and_port(authority, Some(80))?;
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    // One request for one connection: the next may be for another host.
    let mut sent = format!("{method} {path} {version}\r\nHost: {authority}\r\nConnection: close\r\n");
    for field in fields.split("\r\n").filter(|field| !field.is_empty()) {
        let name = field.split(':').next().unwrap_or_default().to_ascii_lowercase();
        let is_ours = ["host", "connection", "keep-alive"].contains(&name.as_str());
        if !is_ours && !name.starts_with("proxy-") {
            sent.push_str(field);
            sent.push_str("\r\n");
        }
    }
    sent.push_str("\r\n");
    Some(Wanted { host, port, head: Some(sent.into_bytes()) })
}

fn host_and_port(authority: &str, usual: Option<u16>) -> Option<(String, u16)> {
    if authority.contains('@') {
        return None;
    }
    let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (authority, usual?),
    };
    let host = host.trim_matches(['[', ']']);
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

async fn refuse(client: &mut TcpStream, status: &str, why: &str) -> io::Result<()> {
    let body = format!("{why}\n");
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    client.write_all(answer.as_bytes()).await?;
    client.shutdown().await
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_request_is_taken_apart() {
        let sent = |text: &str| Some(text.as_bytes().to_vec());
        for (head, expected) in [
            ("CONNECT a.org:443 HTTP/1.1\r\nHost: b.org\r\n\r\n", Some(("a.org", 443, None))),
            ("CONNECT [::1]:443 HTTP/1.1\r\n\r\n", Some(("::1", 443, None))),
            ("CONNECT a.org HTTP/1.1\r\n\r\n", None),
            (
                "GET http://a.org/x?y HTTP/1.1\r\nHost: b.org\r\nProxy-Authorization: z\r\nAccept: */*\r\n\r\n",
                Some((
                    "a.org",
                    80,
                    sent("GET /x?y HTTP/1.1\r\nHost: a.org\r\nConnection: close\r\nAccept: */*\r\n\r\n"),
                )),
            ),
            (
                "POST http://a.org:81?q HTTP/1.0\r\nKeep-Alive: 5\r\n\r\n",
                Some(("a.org", 81, sent("POST /?q HTTP/1.0\r\nHost: a.org:81\r\nConnection: close\r\n\r\n"))),
            ),
            ("GET http://a.org@b.org/ HTTP/1.1\r\n\r\n", None),
            ("GET /x HTTP/1.1\r\nHost: a.org\r\n\r\n", None),
            ("GET https://a.org/ HTTP/1.1\r\n\r\n", None),
            ("nonsense\r\n\r\n", None),
        ] {
            let expected = expected.map(|(host, port, head)| Wanted { host: host.to_owned(), port, head });
            assert_eq!(wanted(head.as_bytes()), expected, "{head}");
        }
    }

    #[test]
    fn this_machine_is_not_elsewhere() {
        for (address, expected) in [
            ("127.0.0.1", false),
            ("::1", false),
            ("0.0.0.0", false),
            ("169.254.169.254", false),
            ("::ffff:127.0.0.1", false),
            ("fe80::1", false),
            ("10.0.0.1", true),
            ("93.184.216.34", true),
        ] {
            assert_eq!(is_elsewhere(address.parse().unwrap()), expected, "{address}");
        }
    }
}
