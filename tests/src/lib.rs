//! Test doubles that listen on loopback, and the sweep of compactions over recorded sessions.
#![allow(clippy::disallowed_methods, reason = "tests read files and the environment")]

mod answer;
pub mod binding;
pub mod binding_run;
pub mod endurance;
pub mod scheduler_contract;
mod local_web;
mod script;
mod scripted_server;
pub mod sweep;
mod told;

pub use local_web::{LocalWeb, Page};
pub use script::{ScriptError, Step};
pub use scripted_server::{Memory, ScriptedServer};
pub use told::SHOWN_WINDOW;
