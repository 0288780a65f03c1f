//! Test doubles that listen on loopback.
#![allow(clippy::disallowed_methods, reason = "tests read files and the environment")]

mod answer;
mod script;
mod scripted_server;

pub use script::{ScriptError, Step};
pub use scripted_server::ScriptedServer;
