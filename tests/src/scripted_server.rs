//! A small server on loopback that answers from a script, in the protocol in which it is asked.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use crate::Step;
use crate::answer::{Answer, Dialect};
use crate::told::told;

/// Longest wait for a client to go away.
const HANG_UP_TIMEOUT: Duration = Duration::from_secs(60);

/// A server on 127.0.0.1 that answers each request to `/chat/completions`, `/responses`, `/v1/messages`, `/api/chat` or
/// `:streamGenerateContent` by the next step of its script, streamed where the request asks for it, and each to `/models` with one model named `scripted`. Beyond
/// the script's end it answers 500. It stops when it is dropped.
#[derive(Debug)]
pub struct ScriptedServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

/// What a server keeps of the requests that come in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// Every one of them.
    #[default]
    All,
    /// Their number: for long runs.
    Count,
}

/// What says how requests are answered.
enum Model {
    /// One step after the other.
    Script(Vec<Step>),
    /// A look at the request alone.
    Looking(Box<dyn Fn(&Value) -> Step + Send + Sync>),
}

impl Model {
    /// The `n`-th step of a script, from one.
    fn step(&self, n: usize) -> Step {
        let script = match self {
            Self::Script(script) => script.as_slice(),
            Self::Looking(_) => &[],
        };
        script.get(n - 1).cloned().unwrap_or_else(|| {
            let message = format!("the script has ended: it has {} steps, this is request {n}", script.len());
            Step::status(500, json!({"error": {"message": message, "type": "script_ended"}}).to_string())
        })
    }
}

impl Default for Model {
    fn default() -> Self {
        Self::Script(Vec::new())
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Script(script) => f.debug_tuple("Script").field(script).finish(),
            Self::Looking(_) => f.write_str("Looking"),
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    model: Model,
    memory: Memory,
    log: Mutex<Log>,
    hung_up: Condvar,
    let_go: Condvar,
    is_closing: AtomicBool,
}

#[derive(Debug, Default)]
struct Log {
    n_requests: usize,
    requests: Vec<Value>,
    authorizations: Vec<Option<String>>,
    n_calls: usize,
    n_hung_up: usize,
    n_held: usize,
    n_let_go: usize,
}

impl ScriptedServer {
    /// Serves `script` on a free port.
    ///
    /// # Panics
    /// Where no port of loopback can be listened on.
    pub fn start(script: Vec<Step>) -> Self {
        Self::start_on(0, script).expect("loopback has a free port")
    }

    /// Serves `script` on `port`.
    ///
    /// # Errors
    /// What the system says where the port cannot be listened on.
    pub fn start_on(port: u16, script: Vec<Step>) -> io::Result<Self> {
        Self::start_with(port, script, Memory::All)
    }

    /// Serves `script` on `port`, and keeps so much of the requests.
    ///
    /// # Errors
    /// As [`Self::start_on`].
    pub fn start_with(port: u16, script: Vec<Step>, memory: Memory) -> io::Result<Self> {
        Self::serving(port, Model::Script(script), memory)
    }

    /// Answers each chat request by what `model` makes of its body, on a free port; of the requests the number is kept. A
    /// request of Gemini's, which names its model in the address, has it in the body as well.
    ///
    /// # Panics
    /// Where no port of loopback can be listened on.
    pub fn answering(model: impl Fn(&Value) -> Step + Send + Sync + 'static) -> Self {
        let model = Model::Looking(Box::new(model));
        Self::serving(0, model, Memory::Count).expect("loopback has a free port")
    }

    fn serving(port: u16, model: Model, memory: Memory) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { model, memory, ..Shared::default() });
        let listening = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || listen(&listener, &shared)
        });
        Ok(Self { address, shared, listening: Some(listening) })
    }

    /// What a provider is configured with, such as `http://127.0.0.1:4711/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The JSON bodies of the chat requests that came in, in order.
    pub fn requests(&self) -> Vec<Value> {
        self.shared.log().requests.clone()
    }

    /// The `Authorization` headers of the chat requests that came in, in order.
    pub fn authorizations(&self) -> Vec<Option<String>> {
        self.shared.log().authorizations.clone()
    }

    /// Waits until the client of a [`Step::Hang`] has gone away; false where it stays for a minute.
    pub fn wait_for_hang_up(&self) -> bool {
        let waited = self
            .shared
            .hung_up
            .wait_timeout_while(self.shared.log(), HANG_UP_TIMEOUT, |log| log.n_hung_up == 0);
        let (log, _) = waited.unwrap_or_else(PoisonError::into_inner);
        log.n_hung_up > 0
    }

    /// Lets one [`Step::Held`] go on, also one that is yet to come.
    pub fn go_on(&self) {
        self.shared.log().n_let_go += 1;
        self.shared.let_go.notify_all();
    }

    /// Serves until the process ends.
    pub fn wait(mut self) {
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.shared.is_closing.store(true, Ordering::SeqCst);
        // A last connection wakes the listener up so that it sees the end.
        let _ = TcpStream::connect(self.address);
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
    }
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the next text that is held may go on.
    fn wait_for_go(&self) {
        let mut log = self.log();
        log.n_held += 1;
        let own = log.n_held;
        drop(self.let_go.wait_while(log, |log| log.n_let_go < own));
    }

    /// Notes a chat request and says how it is answered, and how many calls were made before.
    fn next_step(&self, request: &Request) -> (Step, usize) {
        // The request is looked at without the lock: others may ask meanwhile.
        let looked = match &self.model {
            Model::Looking(model) => Some(model(&request.with_model())),
            Model::Script(_) => None,
        };
        let mut log = self.log();
        log.n_requests += 1;
        if self.memory == Memory::All {
            log.requests.push(request.body.clone());
            log.authorizations.push(request.authorization.clone());
        }
        let n = log.n_requests;
        let step = looked.unwrap_or_else(|| self.model.step(n));
        let n_calls = log.n_calls;
        if let Step::Calls(calls) | Step::Drip(calls) | Step::Both { calls, .. } | Step::Cut { calls, .. } =
            &step
        {
            log.n_calls += calls.len();
        }
        (step, n_calls)
    }
}

fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
    for connection in listener.incoming() {
        if shared.is_closing.load(Ordering::SeqCst) {
            return;
        }
        let Ok(connection) = connection else { continue };
        let shared = Arc::clone(shared);
        // A client that goes away in the middle is the client's affair.
        std::thread::spawn(move || drop(serve(connection, &shared)));
    }
}

struct Request {
    /// Method and path, such as `POST /v1/chat/completions`.
    line: String,
    /// The header `authorization`, or `x-api-key`.
    authorization: Option<String>,
    body: Value,
}

impl Request {
    /// Returns the body with the name of the model, wherever the request has it.
    fn with_model(&self) -> Value {
        let mut body = self.body.clone();
        let named = self.line.split_once("/models/").and_then(|(_, rest)| rest.split_once(':'));
        if let Some((model, _)) = named.filter(|_| body.is_object()) {
            body["model"] = json!(model);
        }
        body
    }
}

fn read_request(connection: &TcpStream) -> io::Result<Request> {
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let (mut length, mut authorization) = (0, None);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().map_err(io::Error::other)?,
            "authorization" | "x-api-key" | "x-goog-api-key" => authorization = Some(value.trim().to_owned()),
            "expect" => (&mut &*connection).write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let line = line.split(" HTTP/").next().unwrap_or_default().to_owned();
    Ok(Request { line, authorization, body: serde_json::from_slice(&body).unwrap_or(Value::Null) })
}

fn serve(mut connection: TcpStream, shared: &Shared) -> io::Result<()> {
    let request = read_request(&connection)?;
    if let Some(told) = told(&request.line) {
        return send_json(&mut connection, 200, &told.to_string());
    }
    let Some(dialect) = Dialect::of(&request.line) else {
        let error = json!({"error": {"message": format!("nothing is at {}", request.line)}});
        return send_json(&mut connection, 404, &error.to_string());
    };
    let (step, n_calls) = shared.next_step(&request);
    let answer = |text, calls| Answer::new(&request.body, text, calls, n_calls);
    let partial = || answer(Some("this will break off".to_owned()), Vec::new());
    match step {
        Step::Text(text) => send_answer(&mut connection, dialect, &request, &answer(Some(text), Vec::new())),
        Step::Calls(calls) => send_answer(&mut connection, dialect, &request, &answer(None, calls)),
        Step::Both { text, calls } => {
            send_answer(&mut connection, dialect, &request, &answer(Some(text), calls))
        }
        Step::Cut { text, calls } => {
            let text = Some(text).filter(|text| !text.is_empty());
            send_answer(&mut connection, dialect, &request, &answer(text, calls).cut())
        }
        Step::Status { status, body } => send_json(&mut connection, status, &body),
        Step::Headed { status, headers, body } => {
            let headers: String =
                headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            write!(
                connection,
                "HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\
                 connection: close\r\n\r\n{body}",
                body.len()
            )
        }
        Step::StreamEvent(event) => {
            send_part(&mut connection, dialect, &partial())?;
            send_chunk(&mut connection, &dialect.frame(&event))?;
            connection.write_all(b"0\r\n\r\n")
        }
        Step::HangUp => Ok(()),
        Step::Drip(calls) => {
            open_stream(&mut connection, dialect)?;
            let events = answer(None, calls).chunks(dialect);
            let whole: String = events.iter().map(|event| dialect.frame(&event.to_string())).collect();
            for byte in whole.chars() {
                send_chunk(&mut connection, byte.encode_utf8(&mut [0; 4]))?;
            }
            close_stream(&mut connection, dialect)
        }
        Step::CutStream => {
            send_part(&mut connection, dialect, &partial())?;
            connection.write_all(b"0\r\n\r\n")
        }
        Step::BreakStream => send_part(&mut connection, dialect, &partial()),
        Step::Garbage => {
            open_stream(&mut connection, dialect)?;
            send_chunk(&mut connection, &dialect.frame("{\"choices\": [{\"delta\""))?;
            close_stream(&mut connection, dialect)
        }
        Step::Held(text) => {
            let chunks = answer(Some(text), Vec::new()).chunks(dialect);
            let (half, rest) = chunks.split_at(3);
            open_stream(&mut connection, dialect)?;
            send_events(&mut connection, dialect, half)?;
            shared.wait_for_go();
            send_events(&mut connection, dialect, rest)?;
            close_stream(&mut connection, dialect)
        }
        Step::Hang => {
            // The client may go away in the middle of this just as well as in the silence after it.
            if send_part(&mut connection, dialect, &partial()).is_ok() {
                let _ = connection.read(&mut [0]);
            }
            shared.log().n_hung_up += 1;
            shared.hung_up.notify_all();
            Ok(())
        }
    }
}

/// The beginning of a stream: some of `answer`, and no end.
fn send_part(connection: &mut TcpStream, dialect: Dialect, answer: &Answer) -> io::Result<()> {
    open_stream(connection, dialect)?;
    send_events(connection, dialect, &answer.chunks(dialect)[..3])
}

fn send_answer(
    connection: &mut TcpStream,
    dialect: Dialect,
    request: &Request,
    answer: &Answer,
) -> io::Result<()> {
    if dialect != Dialect::Gemini && request.body["stream"] != Value::Bool(true) {
        return send_json(connection, 200, &answer.whole().to_string());
    }
    open_stream(connection, dialect)?;
    send_events(connection, dialect, &answer.chunks(dialect))?;
    close_stream(connection, dialect)
}

fn send_json(connection: &mut TcpStream, status: u16, body: &str) -> io::Result<()> {
    write!(
        connection,
        "HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    )
}

fn open_stream(connection: &mut TcpStream, dialect: Dialect) -> io::Result<()> {
    write!(
        connection,
        "HTTP/1.1 200 OK\r\ncontent-type: {}\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n",
        dialect.content_type()
    )
}

fn send_events(connection: &mut TcpStream, dialect: Dialect, chunks: &[Value]) -> io::Result<()> {
    chunks.iter().try_for_each(|chunk| send_chunk(connection, &dialect.frame(&chunk.to_string())))
}

/// One chunk of the transfer.
fn send_chunk(connection: &mut TcpStream, chunk: &str) -> io::Result<()> {
    write!(connection, "{:x}\r\n{chunk}\r\n", chunk.len())
}

fn close_stream(connection: &mut TcpStream, dialect: Dialect) -> io::Result<()> {
    if let Some(end) = dialect.end() {
        send_chunk(connection, &end)?;
    }
    connection.write_all(b"0\r\n\r\n")
}
