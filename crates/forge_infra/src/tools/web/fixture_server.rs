//! A loopback server for the tests of the tools that use the network.

use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Starts a server that answers every path by `answer`, and returns its port. It sends exactly these bytes.
pub(super) async fn serve(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> u16 {
    serve_requests(move |request| answer(request.split(' ').nth(1).unwrap_or_default())).await
}

/// Starts a server that gives `answer` the whole head of the request, and returns its port.
pub(super) async fn serve_requests(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = Arc::clone(&answer);
            tokio::spawn(async move {
                let mut request = Vec::new();
                while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                    let mut bytes = [0; 1_024];
                    match stream.read(&mut bytes).await {
                        Ok(n @ 1..) => request.extend_from_slice(&bytes[..n]),
                        _ => return,
                    }
                }
                let _ = stream.write_all(&answer(&String::from_utf8_lossy(&request))).await;
            });
        }
    });
    port
}

/// Returns a whole answer of that content type, after which the connection is closed.
pub(super) fn ok(kind: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// Returns a redirect.
pub(super) fn to(location: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        .into_bytes()
}
