//! An MCP server that wants a login, and the authorization server of it: metadata, registration, PKCE, renewal.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// A server on loopback; it lives as long as the test.
#[derive(Clone)]
pub(crate) struct OauthServer {
    pub(crate) origin: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
pub(crate) struct State {
    /// What was asked for, such as `POST /register`.
    pub(crate) asked: Vec<String>,
    /// The `Authorization` of each request to the MCP server.
    pub(crate) authorizations: Vec<Option<String>>,
    /// The number of the token that counts; 0 before there is one.
    pub(crate) token: usize,
    /// True if the user says no.
    pub(crate) user_refuses: bool,
    /// True if nothing says where to log in.
    pub(crate) has_no_metadata: bool,
    /// True if no token is renewed any more.
    pub(crate) renews_nothing: bool,
    redirect: String,
    challenge: String,
}

struct Request {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    authorization: Option<String>,
    body: String,
}

impl OauthServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let server = Self { origin, state: Arc::default() };
        let serving = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (serving, stream) = (serving.clone(), stream.unwrap());
                std::thread::spawn(move || serving.serve(stream));
            }
        });
        server
    }

    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap())
    }

    fn serve(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Some(request) = read(&mut reader) {
            let (status, header, body) = self.answer(&request);
            let head = format!(
                "HTTP/1.1 {status}\r\n{header}content-type: application/json\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            if stream.write_all((head + &body).as_bytes()).is_err() {
                return;
            }
        }
    }

    /// The status, more headers and the body.
    fn answer(&self, request: &Request) -> (&'static str, String, String) {
        let origin = &self.origin;
        let mut state = self.state.lock().unwrap();
        state.asked.push(format!("{} {}", request.method, request.path));
        let ok = |body: Value| ("200 OK", String::new(), body.to_string());
        let refuse = |why: &str| ("400 Bad Request", String::new(), json!({"error": why}).to_string());
        if state.has_no_metadata && request.path.starts_with("/.well-known/") {
            return ("404 Not Found", String::new(), String::new());
        }
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/.well-known/oauth-protected-resource/mcp") => {
                ok(json!({"resource": format!("{origin}/mcp"), "authorization_servers": [origin]}))
            }
            ("GET", "/.well-known/oauth-authorization-server") => ok(json!({
                "issuer": origin,
                "authorization_endpoint": format!("{origin}/authorize"),
                "token_endpoint": format!("{origin}/token"),
                "registration_endpoint": format!("{origin}/register"),
                "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code", "refresh_token"],
                "code_challenge_methods_supported": ["S256"],
            })),
            ("POST", "/register") => {
                let wanted: Value = serde_json::from_str(&request.body).unwrap();
                state.redirect = wanted["redirect_uris"][0].as_str().unwrap().to_owned();
                ok(json!({"client_id": "client-1", "redirect_uris": wanted["redirect_uris"]}))
            }
            ("GET", "/authorize") => {
                let asked = |name: &str| request.query.get(name).cloned().unwrap_or_default();
                assert_eq!((asked("response_type"), asked("client_id")), ("code".into(), "client-1".into()));
                assert_eq!(
                    (asked("code_challenge_method"), asked("redirect_uri")),
                    ("S256".into(), state.redirect.clone())
                );
                state.challenge = asked("code_challenge");
                let outcome = if state.user_refuses { "error=access_denied" } else { "code=code-1" };
                let location = format!("{}?{outcome}&state={}", state.redirect, asked("state"));
                ("302 Found", format!("location: {location}\r\n"), String::new())
            }
            ("POST", "/token") => {
                let form = pairs(&request.body);
                let given = |name: &str| form.get(name).cloned().unwrap_or_default();
                let is_right = match given("grant_type").as_str() {
                    "authorization_code" => {
                        let hash = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(given("code_verifier")));
                        given("code") == "code-1" && hash == state.challenge
                    }
                    "refresh_token" => {
                        !state.renews_nothing && given("refresh_token") == format!("refresh-{}", state.token)
                    }
                    _ => false,
                };
                if !is_right {
                    return refuse("invalid_grant");
                }
                state.token += 1;
                let (token, refresh) = (format!("token-{}", state.token), format!("refresh-{}", state.token));
                ok(
                    json!({"access_token": token, "token_type": "Bearer", "expires_in": 3600, "refresh_token": refresh}),
                )
            }
            ("POST", "/mcp") => {
                state.authorizations.push(request.authorization.clone());
                let valid = format!("Bearer token-{}", state.token);
                if state.token == 0 || request.authorization != Some(valid) {
                    let metadata = format!("{origin}/.well-known/oauth-protected-resource/mcp");
                    let header = format!("www-authenticate: Bearer resource_metadata=\"{metadata}\"\r\n");
                    return ("401 Unauthorized", header, String::new());
                }
                answer_mcp(&request.body)
            }
            ("GET" | "DELETE", "/mcp") => ("405 Method Not Allowed", String::new(), String::new()),
            _ => ("404 Not Found", String::new(), String::new()),
        }
    }
}

fn answer_mcp(body: &str) -> (&'static str, String, String) {
    let message: Value = serde_json::from_str(body).unwrap();
    let Some(id) = message.get("id") else { return ("202 Accepted", String::new(), String::new()) };
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "issues", "version": "1"},
        }),
        Some("tools/list") => json!({"tools": [{"name": "search", "inputSchema": {"type": "object"}}]}),
        _ => json!({}),
    };
    ("200 OK", String::new(), json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut length, mut authorization) = (0, None);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        match name.to_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "authorization" => authorization = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    Some(Request {
        method,
        path: path.to_owned(),
        query: pairs(query),
        authorization,
        body: String::from_utf8(body).ok()?,
    })
}

fn pairs(text: &str) -> BTreeMap<String, String> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        Some((name.to_owned(), decode(value)))
    };
    text.split('&').filter_map(pair).collect()
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'%' => {
                let (hex, after) = rest.split_at(2);
                bytes.push(u8::from_str_radix(std::str::from_utf8(hex).unwrap(), 16).unwrap());
                rest = after;
            }
            b'+' => bytes.push(b' '),
            byte => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).unwrap()
}
