//! Chats that lose their terminal, because it is closed or by a bug of ours.

use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::chat::{PROMPT, chat_with, forge, says};
use crate::forge::Forge;
use crate::interruption::until_gone;
use crate::pseudo_terminal::Terminal;

/// Waits for the file, which a command moves there as a whole.
fn read_when_there(forge: &Forge, name: &str) -> String {
    loop {
        if let Ok(text) = std::fs::read_to_string(forge.path(name)) {
            return text;
        }
        std::thread::yield_now();
    }
}

/// Who holds the runs of the folder's store.
fn holders(forge: &Forge) -> Vec<Option<String>> {
    let file = forge.path(".local/state/forge/checkpoints.db");
    let store = rusqlite::Connection::open(file).unwrap();
    let mut select = store.prepare("SELECT holder FROM run").unwrap();
    select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// Chats to where `until` says, and closes the terminal there; with `arguments` before `forge`.
fn close(script: Vec<Step>, session: &[&str], until: impl Fn(&Forge, &mut Terminal)) {
    let forge = forge();
    let script = [vec![Step::text("First.")], script].concat();
    let server = ScriptedServer::start(script);
    let path = std::env::var("PATH").unwrap();
    let mut terminal = chat_with(&forge, &server, session, &[], &[("NO_COLOR", "1"), ("PATH", &path)]);
    says(&mut terminal, "one");
    terminal.sees("First.");
    terminal.sees(PROMPT);
    until(&forge, &mut terminal);
    assert_eq!(terminal.close(), Some(129), "{session:?}");
    assert_eq!(holders(&forge), [None], "the run is given back");
    if let Ok(child) = std::fs::read_to_string(forge.path("child")) {
        until_gone(&child);
    }
}

/// With the signal that a terminal sends whom it controls, and without.
const SESSIONS: [&[&str]; 2] = [&["setsid", "--ctty", "--wait"], &["setsid", "--wait"]];

#[test]
fn a_chat_whose_terminal_is_closed_ends_in_whatever_state_it_is() {
    let call =
        |tool: &str, arguments: serde_json::Value| vec![Step::calls(&[(tool, &arguments.to_string())])];
    for session in SESSIONS {
        close(Vec::new(), session, |_, _| {});
        close(Vec::new(), session, |_, terminal| terminal.types("half a li"));
        close(vec![Step::Hang], session, |_, terminal| {
            terminal.types("two\r");
            terminal.sees("this will");
        });
        close(call("shell", json!({"command": "echo planted"})), session, |_, terminal| {
            terminal.types("two\r");
            terminal.sees("[n] no  [Space] why not");
        });
        close(call("ask", json!({"question": "Which colour?"})), session, |_, terminal| {
            terminal.types("two\r");
            terminal.sees("Which colour?");
        });
        let line = "sh -c 'echo $$ > child.new; mv child.new child; exec sleep 1000'";
        close(call("shell", json!({ "command": line })), session, |forge, terminal| {
            terminal.types("two\r");
            terminal.sees("[n] no  [Space] why not");
            terminal.types("y\r");
            read_when_there(forge, "child");
        });
    }
}

#[test]
fn a_bug_gives_the_terminal_back_and_is_told_without_a_backtrace() {
    for (thread, ends) in [("main", true), ("other", false)] {
        let forge = forge();
        let server = ScriptedServer::start(vec![Step::text("panic now"), Step::text("Better.")]);
        let variables = [("NO_COLOR", "1"), ("FORGE_UNDER_TEST_PANIC", thread), ("RUST_BACKTRACE", "full")];
        let mut terminal = chat_with(&forge, &server, SESSIONS[0], &[], &variables);
        let found = terminal.modes();
        says(&mut terminal, "one");
        terminal.sees("(a bug)");
        terminal.sees("planted \\u{1b}[2Jbug");
        terminal.sees("help: please report this with the details in");
        if !ends {
            // The chat goes on, with its screen whole.
            says(&mut terminal, "two");
            terminal.sees("Better.");
            terminal.sees(PROMPT);
            terminal.types("\x04");
        }
        terminal.is_over();
        assert_eq!(terminal.modes(), found, "{thread}");
        let raw = terminal.raw();
        let switched = |on: &str, off: &str| (raw.rfind(on), raw.rfind(off));
        for (on, off) in
            [("\x1b[?2004h", "\x1b[?2004l"), ("\x1b[?25l", "\x1b[?25h"), ("\x1b[?2026h", "\x1b[?2026l")]
        {
            let (on, off) = switched(on, off);
            assert!(on < off, "{thread}: {raw:?}");
        }
        let ended = terminal.ends();
        assert_eq!(ended.code, Some(if ends { 101 } else { 0 }), "{}", ended.shown);
        for word in ["stack backtrace", "RUST_BACKTRACE", "panicked at", "core::panicking"] {
            assert!(!ended.shown.contains(word), "{word}: {}", ended.shown);
        }
        let details = std::fs::read_to_string(forge.path(".local/state/forge/panic.log")).unwrap();
        assert!(details.contains("planted") && details.contains("forge_under_test"), "{details}");
    }
}
