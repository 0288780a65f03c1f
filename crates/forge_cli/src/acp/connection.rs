//! The connection to an editor: JSON-RPC on stdin and stdout, one message per line.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::output;

/// An error of the protocol.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RpcError {
    code: i64,
    message: String,
}

impl RpcError {
    /// Returns the error about a message that is not JSON.
    pub(super) fn unreadable(why: &str) -> Self {
        Self { code: -32700, message: format!("not JSON: {why}") }
    }

    /// Returns the error about a message that is JSON, and nothing of the protocol.
    pub(super) fn no_message(why: &str) -> Self {
        Self { code: -32600, message: format!("not a message of the protocol: {why}") }
    }

    /// Returns the error about a method that does not exist here.
    pub(super) fn unknown_method(method: &str) -> Self {
        Self { code: -32601, message: format!("there is no method `{method}`") }
    }

    /// Returns the error about parameters that cannot be used.
    pub(super) fn invalid(why: impl Into<String>) -> Self {
        Self { code: -32602, message: why.into() }
    }

    /// Returns the error about a session that is not saved anywhere.
    pub(super) fn unknown_session(id: &str) -> Self {
        Self { code: -32002, message: format!("there is no saved session `{id}`") }
    }

    /// Returns the error about work that failed.
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self { code: -32603, message: why.into() }
    }

    /// Returns the error in a few words.
    pub(super) fn message(&self) -> &str {
        &self.message
    }
}

impl From<anyhow::Error> for RpcError {
    fn from(error: anyhow::Error) -> Self {
        Self::new(crate::failure::in_a_line(&error))
    }
}

/// The result of a request.
pub(super) type RpcResult = Result<Value, RpcError>;

/// The connection, with the requests to the editor that are not answered yet.
#[derive(Default)]
pub(super) struct Connection {
    waiting: Mutex<HashMap<u64, oneshot::Sender<RpcResult>>>,
    n_requests: AtomicU64,
}

impl Connection {
    /// Sends a notification.
    pub(super) fn notify(&self, method: &str, params: &Value) {
        send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Answers the request `id`.
    pub(super) fn respond(&self, id: &Value, result: RpcResult) {
        send(&match result {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(RpcError { code, message }) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
            }
        });
    }

    /// Asks the editor for something, and waits for its answer.
    ///
    /// # Errors
    /// The editor's error, or that it is gone.
    pub(super) async fn request(&self, method: &str, params: &Value) -> RpcResult {
        let id = self.next_id();
        let (answers, answer) = oneshot::channel();
        self.waiting().insert(id, answers);
        send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        answer.await.unwrap_or_else(|_| Err(RpcError::new("the editor is gone")))
    }

    /// Asks the editor for something whose answer does not matter.
    pub(super) fn order(&self, method: &str, params: &Value) {
        let id = self.next_id();
        send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    /// Returns the id for another request to the editor.
    pub(super) fn next_id(&self) -> u64 {
        self.n_requests.fetch_add(1, Ordering::Relaxed)
    }

    /// Passes a message on as it is.
    pub(super) fn pass_on(&self, message: &Value) {
        send(message);
    }

    /// Hands the editor's answer to the request that waits for it.
    pub(super) fn settle(&self, message: &Value) {
        let waiting = message["id"].as_u64().and_then(|id| self.waiting().remove(&id));
        let Some(waiting) = waiting else { return };
        let result = match message.get("error").filter(|error| !error.is_null()) {
            Some(error) => Err(RpcError {
                code: error["code"].as_i64().unwrap_or_default(),
                message: error["message"].as_str().unwrap_or("the editor refused it").to_owned(),
            }),
            None => Ok(message["result"].clone()),
        };
        // Whoever asked may have been stopped meanwhile.
        let _ = waiting.send(result);
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<RpcResult>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks whether a message is a request, a notification or an answer.
///
/// # Errors
/// The error to answer, under no id: that of such a message is not certain.
pub(super) fn check_message(message: &Value) -> Result<(), RpcError> {
    let Some(fields) = message.as_object() else {
        return Err(RpcError::no_message(match message {
            Value::Array(_) => "batches are not supported: send each message by itself",
            _ => "it is not an object",
        }));
    };
    let is_answer = ["result", "error"].iter().any(|key| fields.contains_key(*key));
    match (fields.get("method").filter(|method| !method.is_null()), fields.get("id")) {
        (None, _) if is_answer => Ok(()),
        (Some(Value::String(_)), None | Some(Value::String(_) | Value::Number(_) | Value::Null)) => Ok(()),
        (Some(Value::String(_)), Some(_)) => Err(RpcError::no_message("`id` is not a string or a number")),
        (Some(_), _) => Err(RpcError::no_message("`method` is not a string")),
        (None, _) => Err(RpcError::no_message("`method` is missing")),
    }
}

fn send(message: &Value) {
    output::print_or_note(&format!("{message}\n"));
}
