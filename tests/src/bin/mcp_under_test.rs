//! An MCP server for tests, written by hand so that no library is on both ends. It speaks on standard input and output.
//!
//! `--log FILE` notes its start and every message that it gets, a line each; `--mute` makes it answer nothing; `--dead` makes it
//! complain and end at once.
#![allow(clippy::disallowed_methods, reason = "it is a program of its own")]

use std::fs::OpenOptions;
use std::io::{BufRead, Write};

use serde_json::{Value, json};

#[expect(clippy::too_many_lines, reason = "a table of methods")]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let log = arguments.iter().position(|argument| argument == "--log").map(|at| arguments[at + 1].clone());
    let note = |line: &str| {
        let Some(path) = &log else { return };
        let file = OpenOptions::new().create(true).append(true).open(path);
        // A log that cannot be written shows in the test that reads it.
        let _ = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    };
    note("started");
    if has("--dead") {
        eprintln!("warming up\n\u{1b}[31mno license for {}", std::env::var("TOKEN").unwrap_or_default());
        std::process::exit(3);
    }
    let mut has_extra = false;
    // The call that waits for an answer of the client's.
    let mut waiting: Option<Value> = None;
    for line in std::io::stdin().lock().lines() {
        let Ok(message) =
            line.map_err(drop).and_then(|line| serde_json::from_str::<Value>(&line).map_err(drop))
        else {
            continue;
        };
        let method = message["method"].as_str().unwrap_or_default();
        let tool = message["params"]["name"].as_str().unwrap_or_default();
        note(format!("{method} {tool}").trim_end());
        if has("--mute") {
            continue;
        }
        if let ("", Some(call)) = (method, &waiting) {
            let text = message["result"].to_string();
            answer(call, &json!({"content": [{"type": "text", "text": text}]}));
            waiting = None;
            continue;
        }
        match method {
            "initialize" => answer(
                &message,
                &json!({
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {"tools": {"listChanged": true}, "resources": {}, "prompts": {}},
                    "serverInfo": {"name": "scripted", "version": "1.2.3"},
                }),
            ),
            "tools/list" => answer(&message, &json!({"tools": tools(has_extra)})),
            "tools/call" => {
                if tool == "grow" || tool == "extra" {
                    has_extra = tool == "grow";
                    send(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
                }
                if tool == "ask" {
                    let schema = &message["params"]["arguments"]["schema"];
                    ask(
                        &json!({"method": "elicitation/create", "params": {"message": "which\u{7} one?", "requestedSchema": schema}}),
                    );
                    waiting = Some(message.clone());
                } else if tool == "roots" {
                    ask(&json!({"method": "roots/list"}));
                    waiting = Some(message.clone());
                } else {
                    call(&message, tool);
                }
            }
            "resources/read" => match message["params"]["uri"].as_str() {
                Some("notes://one") => answer(
                    &message,
                    &json!({"contents": [{"uri": "notes://one", "text": "one\u{1b}[2J note"}]}),
                ),
                _ => refuse(&message, "no such note"),
            },
            "prompts/list" => answer(
                &message,
                &json!({"prompts": [
                    {"name": "review", "arguments": [{"name": "file", "required": true}, {"name": "focus"}]},
                ]}),
            ),
            "prompts/get" => {
                let text = format!("Review {}.", message["params"]["arguments"]);
                answer(
                    &message,
                    &json!({"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}),
                );
            }
            _ => {}
        }
    }
    note("ended");
}

fn tools(has_extra: bool) -> Value {
    let names = ["echo", "fail", "refuse", "die", "wait", "grow", "flood", "env", "odd.name", "ask", "roots"];
    let names = names.into_iter().chain(has_extra.then_some("extra"));
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    names
        .map(|name| json!({"name": name, "description": format!("does {name}"), "inputSchema": schema}))
        .collect()
}

fn call(message: &Value, tool: &str) {
    let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
    let arguments = &message["params"]["arguments"];
    match tool {
        "fail" => {
            answer(message, &json!({"content": [{"type": "text", "text": "it cannot"}], "isError": true}));
        }
        "refuse" => refuse(message, "bad \u{1b}[2J"),
        "die" => {
            eprintln!("out of memory");
            std::process::exit(9);
        }
        "wait" => send(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
            "progressToken": message["params"]["_meta"]["progressToken"], "progress": 1, "total": 2, "message": "half\nway",
        }})),
        "flood" => {
            let n_bytes = arguments["text"].as_str().and_then(|n_bytes| n_bytes.parse().ok());
            answer(message, &text(&"x".repeat(n_bytes.unwrap_or(300_000))));
        }
        "env" => {
            let value = |name: &str| std::env::var(name).unwrap_or_default();
            answer(message, &text(&format!("[{}][{}][{}]", value("TOKEN"), value("PLAIN"), value("OTHER"))));
        }
        _ => answer(message, &text(arguments["text"].as_str().unwrap_or("nothing"))),
    }
}

fn refuse(message: &Value, why: &str) {
    send(&json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": why}}));
}

/// Asks the client something.
fn ask(request: &Value) {
    let mut request = request.clone();
    request["jsonrpc"] = json!("2.0");
    request["id"] = json!("asked");
    send(&request);
}

fn answer(message: &Value, result: &Value) {
    send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
}

fn send(message: &Value) {
    let mut out = std::io::stdout().lock();
    // Whoever went away does not read any more.
    let _ = writeln!(out, "{message}").and_then(|()| out.flush());
}
