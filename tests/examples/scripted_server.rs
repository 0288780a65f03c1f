//! Serves a script on loopback as an OpenAI-compatible server, so that a person can drive `forge run` by hand.
//!
//! ```text
//! cargo run -p forge_tests --example scripted_server -- script.json 4711
//! ```
//!
//! and in `forge.yaml`:
//!
//! ```yaml
//! providers:
//!   scripted: {kind: openai, base_url: http://127.0.0.1:4711/v1}
//! ```
//!
//! The script is a JSON list with one entry for each request:
//!
//! ```json
//! [
//!   {"calls": [{"name": "list", "arguments": {}}]},
//!   {"text": "Now the file.", "calls": [{"name": "read", "arguments": {"path": "README.md"}}]},
//!   {"status": 429, "body": {"error": {"message": "slow down"}}},
//!   "cut_stream",
//!   {"text": "Done."}
//! ]
//! ```
//!
//! The other words for a fault are `"break_stream"`, `"garbage"` and `"hang"`. Without a port a free one is taken.
#![allow(clippy::disallowed_methods, reason = "an example has no one to be handed its arguments by")]

use std::error::Error;

use forge_tests::{ScriptedServer, Step};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: scripted_server SCRIPT.json [PORT]")?;
    let port = arguments.next().map_or(Ok(0), |port| port.parse())?;
    let script = Step::read_script(&std::fs::read_to_string(path)?)?;
    let server = ScriptedServer::start_on(port, script)?;
    println!("base_url: {}", server.base_url());
    server.wait();
    Ok(())
}
