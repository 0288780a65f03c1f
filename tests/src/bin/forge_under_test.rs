//! The binary `forge` as the integration tests run it: cargo builds it beside them.
//!
//! With `FORGE_UNDER_TEST_PANIC` it has a bug: when a model says "panic now", it panics in the thread that the variable names,
//! `main` or `other`. With `FORGE_UNDER_TEST_SYSTEM_FILE` it reads the administrator's file from that path.
#![allow(clippy::disallowed_methods, reason = "it is a program of its own")]

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use forge_app::RunEvent;

fn main() -> ExitCode {
    // That of the machine is none of the tests' business.
    let system_file =
        std::env::var_os("FORGE_UNDER_TEST_SYSTEM_FILE").unwrap_or("/nowhere/forge.yaml".into());
    forge_cli::read_system_file_from(system_file.into());
    let Ok(thread) = std::env::var("FORGE_UNDER_TEST_PANIC") else { return forge_cli::main() };
    let heard = Mutex::new(String::new());
    forge_cli::main_watched(Arc::new(move |event| {
        let RunEvent::Text(text) = event else { return };
        let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.push_str(text);
        if !heard.ends_with("panic now") {
            return;
        }
        if thread == "main" {
            fail();
        }
        let other = std::thread::Builder::new().name(thread.clone()).spawn(fail);
        // What it panicked with is of no interest here.
        drop(other.map(std::thread::JoinHandle::join));
    }))
}

fn fail() {
    panic!("planted \u{1b}[2Jbug");
}
