//! What others named or said must not steer the terminal of who reads it.

use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::forge::{Forge, Outcome, outcome};
#[cfg(unix)]
use crate::pseudo_terminal::Terminal;

/// Clears the screen, sets the title, goes back to the line's beginning, colours, turns what follows around, and hides something.
const EVIL: &str =
    "\u{1b}[2J\u{1b}]0;title\u{7}\r\u{9b}31m\u{1b}[32m\u{202e}evil\u{200b}\u{e0041}\u{e0100}\u{feff}\u{ad}";

/// A session in which everything that has a name or a text has an evil one.
fn session() -> Value {
    let call = |id: &str| {
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": format!("{id}{EVIL}"), "type": "function",
            "function": {"name": format!("read{EVIL}"), "arguments": format!("{{\"path\": \"{EVIL}\"}}")}}]})
    };
    let result = |id: &str| json!({"role": "tool", "tool_call_id": format!("{id}{EVIL}"), "content": format!("{EVIL} rain. ").repeat(40)});
    let messages = json!([{"role": "system", "content": "s".repeat(200)}, {"role": "user", "content": EVIL}, call("a"), result("a"),
        call("a"), result("a"), result("z"), call("c")]);
    json!({"messages": messages})
}

/// Nothing that steers is left in what people are shown, and they see that there was something.
fn check(what: &[&str], actual: &Outcome) {
    let shown = format!("{}{}", actual.stdout, actual.stderr);
    let hides =
        |c: char| matches!(c, '\u{202e}' | '\u{200b}' | '\u{feff}' | '\u{ad}' | '\u{e0000}'..='\u{e0fff}');
    let steers = |c: &char| (c.is_control() && *c != '\n' && *c != '\t') || hides(*c);
    let steering: Vec<char> = shown.chars().filter(steers).collect();
    assert_eq!(steering, Vec::<char>::new(), "{what:?}: {shown}");
    assert!(shown.contains("\\u{1b}"), "{what:?}: {shown}");
}

#[test]
fn no_table_and_no_error_lets_a_name_or_a_text_steer_the_terminal() {
    let trial = |n: u32| json!({"task_id": format!("{n}{EVIL}"), "trial": 0, "traj": session()["messages"]});
    let forge = Forge::new()
        .with_file("session.json", session().to_string())
        .with_file("trials.json", json!([trial(1), trial(2)]).to_string())
        .with_file("agents.yaml", format!("agents: [{{ id: {}, model: m }}]\n", json!("a\u{1b}[2J\r")));
    for arguments in [
        &["inspect", "session.json"][..],
        &["inspect", "trials.json"],
        &["inspect", "odd\u{1b}[2J.json"],
        &["replay", "trials.json"],
        &["replay", "trials.json", "--session", "nobody"],
        &["replay", "odd\u{1b}[2J.json"],
        &["compact", "odd\u{1b}[2J.json"],
        &["config", "check", "--config", "odd\u{1b}[2J.yaml"],
        &["compact", "session.json", "--strategy", "\u{1b}[2J"],
        &["compact", "session.json", "--agent", "nobody", "--config", "agents.yaml"],
        &["compact", "trials.json", "--session", "\u{1b}[2J"],
    ] {
        check(arguments, &forge.run(arguments));
    }
}

#[test]
fn a_run_shows_calls_notes_and_errors_with_nothing_that_steers() {
    let evil_body = json!({"error": {"message": EVIL}}).to_string();
    let arguments = json!({"path": EVIL}).to_string();
    let server = ScriptedServer::start(vec![
        Step::calls(&[(&format!("read{EVIL}"), "{}"), ("read", &arguments)]),
        Step::status(400, &evil_body),
    ]);
    let yaml = "agents: [{ id: reader, model: openai:scripted, tools: [read] }]\nproviders: { openai: { retries: 0 } }\n";
    let forge = Forge::new().with_file("forge.yaml", yaml);
    let mut command = forge.command(&["run", "task"]);
    let ran = outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k"));
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    check(&["run"], &ran);
    assert!(
        ran.stderr.matches("\\u{1b}").count() >= 4,
        "the name, the arguments and the error: {}",
        ran.stderr
    );
}

#[cfg(unix)]
#[test]
fn at_a_terminal_no_word_is_broken() {
    const TEXT: &str =
        "The observatory was closed on Monday, because of rain over the dome \u{1b}[2Jand around it.";
    let server = ScriptedServer::start(vec![
        Step::text(TEXT),
        Step::status(400, "the request was refused because of its own words"),
    ]);
    let yaml = "agents: [{ id: reader, model: openai:scripted }]\nproviders: { openai: { retries: 0 } }\n\
                models: { openai:scripted: { window: 8000 } }\n";
    let forge = Forge::new().with_file("forge.yaml", yaml);
    let mut shown = Vec::new();
    for code in [0, 1] {
        let terminal = Terminal::start(30, 40, |line| {
            let mut command = forge.process();
            command
                .args(["run", "task"])
                .env("OPENAI_BASE_URL", server.base_url())
                .env("OPENAI_API_KEY", "k");
            command.stdin(line()).stdout(line()).stderr(line());
            command
        });
        let ended = terminal.ends();
        assert_eq!(ended.code, Some(code), "{}", ended.shown);
        shown.push(ended.shown);
    }
    let answer =
        "The observatory was closed on\nMonday, because of rain over\nthe dome \\u{1b}[2Jand around\nit.\n";
    assert!(shown[0].starts_with(answer), "{}", shown[0]);
    for line in shown.concat().lines().filter(|line| !line.contains("forge run --resume")) {
        assert!(line.chars().count() <= 30, "{line}");
    }
    let words: Vec<&str> = shown[1].split_whitespace().collect();
    assert!(words.join(" ").contains("the request was refused because of its own words"), "{}", shown[1]);
}
