//! A small editor for tests: it starts an agent by the Agent Client Protocol, sends one prompt, and shows on a terminal what an
//! editor would show. A permission is asked for on stdin: `y` allows once, everything else rejects.
//!
//! ```text
//! editor_under_test PROMPT AGENT [ARGUMENTS]
//! ```
#![allow(clippy::disallowed_methods, reason = "it is a program of its own")]

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};

use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [prompt, agent, rest @ ..] = arguments.as_slice() else {
        return Err("usage: editor_under_test PROMPT AGENT [ARGUMENTS]".into());
    };
    let mut agent = Command::new(agent).args(rest).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut to = agent.stdin.take().ok_or("no stdin")?;
    let lines = BufReader::new(agent.stdout.take().ok_or("no stdout")?).lines();
    let folder = std::env::current_dir()?;
    request(&mut to, 1, "initialize", &json!({"protocolVersion": 1, "clientCapabilities": {}}))?;
    request(&mut to, 2, "session/new", &json!({"cwd": folder, "mcpServers": []}))?;
    println!("you: {prompt}");
    let mut is_speaking = false;
    for line in lines {
        let message: Value = serde_json::from_str(&line?)?;
        let update = &message["params"]["update"];
        if is_speaking && update["sessionUpdate"] != "agent_message_chunk" {
            println!();
            is_speaking = false;
        }
        match (message["method"].as_str(), update["sessionUpdate"].as_str()) {
            (Some("session/request_permission"), _) => permit(&mut to, &message)?,
            (_, Some("agent_message_chunk")) => {
                let beginning = if is_speaking { "" } else { "agent: " };
                print!("{beginning}{}", update["content"]["text"].as_str().unwrap_or_default());
                is_speaking = true;
            }
            (_, Some("tool_call")) => println!("▸ {}", update["title"].as_str().unwrap_or_default()),
            (_, Some("tool_call_update")) => println!("  {}", update["status"].as_str().unwrap_or_default()),
            (_, Some("usage_update")) => println!("  [{} of {} tokens]", update["used"], update["size"]),
            _ => {}
        }
        if message["id"] == 2 && message.get("method").is_none() {
            let text = json!([{"type": "text", "text": prompt}]);
            let session = &message["result"]["sessionId"];
            request(&mut to, 3, "session/prompt", &json!({"sessionId": session, "prompt": text}))?;
        }
        if message["id"] == 3 && message.get("method").is_none() {
            println!("done: {}", message["result"]["stopReason"].as_str().unwrap_or("failed"));
            break;
        }
    }
    drop(to);
    agent.wait()?;
    Ok(())
}

/// Shows a call with its diff, and asks whether it is allowed.
fn permit(to: &mut ChildStdin, message: &Value) -> Result<(), Box<dyn Error>> {
    let call = &message["params"]["toolCall"];
    for part in call["content"].as_array().into_iter().flatten().filter(|part| part["type"] == "diff") {
        let lines =
            |key: &str| part[key].as_str().unwrap_or_default().lines().map(str::to_owned).collect::<Vec<_>>();
        lines("oldText").iter().for_each(|line| println!("  \x1b[31m- {line}\x1b[0m"));
        lines("newText").iter().for_each(|line| println!("  \x1b[32m+ {line}\x1b[0m"));
    }
    print!("Allow {}? [y/n] ", call["title"].as_str().unwrap_or_default());
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    let option = if answer.trim() == "y" { "once" } else { "reject" };
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": option}});
    send(to, &json!({"jsonrpc": "2.0", "id": message["id"], "result": outcome}))
}

fn request(to: &mut ChildStdin, id: u64, method: &str, params: &Value) -> Result<(), Box<dyn Error>> {
    send(to, &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

fn send(to: &mut ChildStdin, message: &Value) -> Result<(), Box<dyn Error>> {
    Ok(writeln!(to, "{message}")?)
}
