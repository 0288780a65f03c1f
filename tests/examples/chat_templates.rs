//! Compacts sessions in every way and prints what would be sent before and after; `tests/acceptance/chat_templates.sh` renders
//! it by the chat templates of real models.
//!
//! ```text
//! chat_templates FILE... > prompts.jsonl      # sessions of formats that forge reads; made-up ones come beside them
//! chat_templates --strict NAME...             # the names of models that get the strictest turns
//! ```
//!
//! A line is a pair of prompts, each in three forms (`forge_tests::sweep::Judged::wire_json`). Templates look at roles and at what stands
//! beside each other, so a pair is printed only where it shows something new of a strategy.

#![allow(clippy::disallowed_methods, reason = "an example reads files")]

use std::collections::HashSet;
use std::io::{BufWriter, Write};
use std::process::ExitCode;

use forge_domain::{Message, ToolCall, ToolName, ToolResult};
use forge_tests::sweep::{Tally, sweep};
use forge_transcript::{Draft, read};
use forge_wire::pauses_after_results;
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<ExitCode> {
    let mut arguments = std::env::args().skip(1).peekable();
    let mut out = BufWriter::new(std::io::stdout().lock());
    if arguments.next_if_eq("--strict").is_some() {
        for name in arguments.filter(|name| pauses_after_results(name)) {
            writeln!(out, "{name}")?;
        }
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut sessions: Vec<(String, Vec<Message>)> =
        (0..60).map(|seed| (format!("made up {seed}"), made_up(seed))).collect();
    for file in arguments {
        let bytes = std::fs::read(&file).map_err(|error| format!("{file}: {error}"))?;
        for (nth, session) in read(&bytes, &file)?.iter().enumerate() {
            let draft = Draft::open(session, nth);
            sessions.push((format!("{file}#{nth}"), draft.messages().collect()));
        }
    }
    let (mut tally, mut known, mut n_pairs) = (Tally::default(), HashSet::new(), 0);
    for (id, messages) in sessions {
        let mut written = Ok(());
        let mut before = Value::Null;
        sweep(&id, messages, &mut tally, &mut |judged| {
            let wire = judged.wire_json();
            let Some((strategy, target)) = judged.by else {
                before = wire;
                return;
            };
            let sights = sights(strategy, &wire);
            if written.is_ok() && sights.iter().any(|sight| !known.contains(sight)) {
                known.extend(sights);
                n_pairs += 1;
                let line = json!({"id": judged.id, "cut": judged.cut, "strategy": strategy, "target": target,
                    "before": before, "after": wire});
                written = writeln!(out, "{line}");
            }
        });
        written?;
    }
    out.flush()?;
    for fault in &tally.faults {
        eprintln!("FAULT {fault}");
    }
    eprintln!("{tally}; {n_pairs} pairs of prompts show all that stands beside each other");
    Ok(if tally.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What a template may look at in what a strategy left: how the messages begin and end, and which stand beside each other.
fn sights(strategy: &str, wire: &Value) -> Vec<String> {
    let letter = |entry: &Value| {
        let content = match &entry["content"] {
            Value::Null => "-",
            Value::String(text) if text.is_empty() => "0",
            Value::String(_) => "",
            _ => "+",
        };
        let n_calls = entry["tool_calls"].as_array().map_or(0, Vec::len).min(2);
        format!("{}{content}{n_calls}", entry["role"].as_str().unwrap_or_default())
    };
    let of = |form: &str| {
        let entries = wire[form].as_array().into_iter().flatten().map(letter);
        let letters: Vec<String> =
            ["^".to_owned()].into_iter().chain(entries).chain(["$".to_owned()]).collect();
        letters.windows(2).map(|pair| format!("{strategy} {form} {}", pair.join(">"))).collect::<Vec<_>>()
    };
    ["raw", "plain", "strict"].into_iter().flat_map(of).collect()
}

/// A session that nobody recorded, the same for the same seed: chats and long runs of tools, in which people interrupt, hooks leave notes,
/// calls run at once and some messages have parts.
fn made_up(seed: u64) -> Vec<Message> {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut messages = Vec::new();
    if !seed.is_multiple_of(4) {
        messages.push(Message::system("You work in this folder."));
    }
    messages.push(Message::user(format!("Do piece {seed} of the work. {}", "It matters. ".repeat(20))));
    for nth in 0..12 + dice.below(18) {
        match dice.below(12) {
            0 | 1 => {
                messages.push(Message::assistant(format!("Step {nth} is done. {}", "So it is. ".repeat(30))));
                messages.push(Message::user(format!("Then do step {nth}. {}", "Please. ".repeat(20))));
            }
            2 => messages.push(Message::note("hook", format!("[A note on step {nth}.]"))),
            3 => messages.push(Message::user(format!("Stop, do {nth} first. {}", "Yes. ".repeat(30)))),
            _ => exchange(nth, &mut dice, &mut messages),
        }
    }
    messages
}

fn exchange(nth: u64, dice: &mut Dice, messages: &mut Vec<Message>) {
    let n_calls = 1 + dice.below(3) / 2;
    let calls: Vec<ToolCall> = (0..n_calls)
        .map(|call| ToolCall {
            id: format!("call{nth:03}{call:02}"),
            name: ToolName::new("read").expect("a name"),
            arguments: json!({"path": format!("src/part_{}.rs", dice.below(9))}).to_string(),
        })
        .collect();
    let calling = Message::calling(calls.clone());
    let says = dice.below(3) == 0;
    messages.push(if says { calling.with_content(format!("I look at {nth}.")) } else { calling });
    for call in &calls {
        let text = format!("fn part_{nth}() {{}}\n{}", "let line = next();\n".repeat(20));
        messages.push(Message::tool(ToolResult::answer(call, text)));
    }
}

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}
