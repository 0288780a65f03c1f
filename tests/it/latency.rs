//! Figures of the chat's speed, for a release build: the time to the prompt, and from a key to its letter while an answer streams.
//!
//! `FORGE_BINARY=target/release/forge cargo test -p forge_tests --test it -- --ignored --nocapture latency`

use std::time::{Duration, Instant};

use forge_tests::{ScriptedServer, Step};

use crate::chat::{PROMPT, says};
use crate::forge::Forge;
use crate::pseudo_terminal::Terminal;

/// A frame at 60 per second.
const FRAME: Duration = Duration::from_nanos(16_666_667);

fn chat(forge: &Forge, server: &ScriptedServer) -> Terminal {
    let program = std::env::var_os("FORGE_BINARY").map_or_else(
        || forge.process().get_program().to_owned(),
        |path| std::fs::canonicalize(path).unwrap().into_os_string(),
    );
    Terminal::start(160, 45, |terminal| {
        let mut command = std::process::Command::new("setsid");
        command.args(["--ctty", "--wait"]).arg(program).env_clear().current_dir(forge.path(""));
        command
            .env("HOME", forge.path(""))
            .env("PATH", std::env::var("PATH").unwrap())
            .env("TERM", "xterm-256color")
            .env("OPENAI_BASE_URL", server.base_url())
            .env("OPENAI_API_KEY", "planted");
        command.args(["--model", "openai:scripted"]).stdin(terminal()).stdout(terminal()).stderr(terminal());
        command
    })
}

/// Prints the median, the 95th percentile and the largest of some times.
fn print(what: &str, mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!("{what}: median {:.1?}, 95 % {:.1?}, most {:.1?} of {}", at(50), at(95), at(100), times.len());
    at(50)
}

#[test]
#[ignore = "a figure, for a release build"]
fn latency() {
    let forge = Forge::new();
    let server = ScriptedServer::start(vec![Step::text("x")]);
    let mut starts = Vec::new();
    for _ in 0..30 {
        let began = Instant::now();
        let mut terminal = chat(&forge, &server);
        terminal.sees(PROMPT);
        starts.push(began.elapsed());
        terminal.types("\x04");
        terminal.ends();
    }
    let start = print("start to prompt", starts);

    // Far more than a megabyte, so that it lasts until all keys are pressed.
    let answer: String =
        (0..100_000).map(|n| format!("Line {n} of an answer that is some megabytes.\n\n")).collect();
    println!("the answer has {} bytes", answer.len());
    let server = ScriptedServer::start(vec![Step::text(answer)]);
    let mut terminal = chat(&forge, &server);
    says(&mut terminal, "Speak.");
    terminal.sees("Line 20 of");
    let (mut keys, mut typed) = (Vec::new(), String::new());
    let began = Instant::now();
    for letter in ('a'..='z').cycle().take(30) {
        typed.push(letter);
        let pressed = Instant::now();
        terminal.types(&letter.to_string());
        let shown = format!("{PROMPT}{typed}");
        terminal.shows("the letter", |lines| lines.iter().any(|line| line.starts_with(&shown)));
        keys.push(pressed.elapsed());
    }
    let screen = terminal.screen().join("\n");
    assert!(!screen.contains("Line 99999 "), "the answer was over before the keys were pressed");
    println!("30 keys in {:.1?}", began.elapsed());
    let key = print("key to letter while a megabyte streams", keys);
    assert!(start < Duration::from_millis(50) && key < FRAME, "start {start:?}, key {key:?}");
}
