//! The chat in a terminal, with a person there.

use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::forge::Forge;
use crate::pseudo_terminal::{Ended, Terminal};

const YAML: &str = "\
agents: [{ id: reader, model: openai:scripted, tools: [read, shell, ask], system_prompt: Read., permissions: { shell: { 'waits *': allow } } }]
models: { openai:scripted: { window: 8000, price: { input: 1, output: 1 } }, openai:small: { window: 1400 } }
providers: { openai: { retries: 0 } }
";
/// What stands before a line that is typed.
pub(crate) const PROMPT: &str = "› ";
const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";

pub(crate) fn forge() -> Forge {
    Forge::new().with_file("forge.yaml", YAML).with_file("notes.txt", "rain over the dome\n".repeat(150))
}

/// What makes the terminal the process's own, so that it hears of a new size.
const SESSION: &[&str] = &["setsid", "--ctty", "--wait"];

/// A chat with these arguments and variables beside the usual ones, started by `session`.
pub(crate) fn chat_with(
    forge: &Forge,
    server: &ScriptedServer,
    session: &[&str],
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Terminal {
    Terminal::start(80, 24, |line| {
        let inner = forge.process();
        let mut command = std::process::Command::new(session[0]);
        command.args(&session[1..]).arg(inner.get_program()).arg("--trust").arg("run").args(arguments);
        command.env_clear().current_dir(forge.path(""));
        command
            .env("HOME", forge.path(""))
            .env("PATH", std::env::var("PATH").unwrap())
            .env("TERM", "xterm-256color")
            .env("OPENAI_BASE_URL", server.base_url())
            .env("OPENAI_API_KEY", "planted")
            .envs(variables.iter().copied())
            .stdin(line())
            .stdout(line())
            .stderr(line());
        command
    })
}

fn chat(forge: &Forge, server: &ScriptedServer) -> Terminal {
    chat_with(forge, server, SESSION, &[], &[("NO_COLOR", "1")])
}

/// Waits for the prompt, and enters a line.
pub(crate) fn says(terminal: &mut Terminal, text: &str) {
    terminal.sees(PROMPT);
    terminal.types(&format!("{text}\r"));
    terminal.sees(text.lines().next().unwrap());
}

fn leave(mut terminal: Terminal) -> Ended {
    terminal.types(CTRL_D);
    terminal.ends()
}

/// What each message of a request says, by its role.
fn messages(request: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let messages = request["messages"].as_array().unwrap().iter();
    messages.map(|message| (text(&message["role"]), text(&message["content"]))).collect()
}

fn roles(request: &Value) -> String {
    messages(request).iter().map(|(role, _)| role.chars().next().unwrap()).collect()
}

#[test]
fn a_turn_is_shown_as_markdown_and_the_run_can_be_resumed() {
    let forge = forge();
    let server = ScriptedServer::start(vec![
        Step::both("I look.", &[("read", r#"{"path":"notes.txt"}"#)]),
        Step::text(
            "# Nights\n\nClosed on **two** nights, see `src/*.rs`:\n\n- Monday\n- Tuesday\n\n| night | why |\n|---|---|\n| 1 | rain |",
        ),
        Step::text("Nothing \u{1b}[2Jmore."),
    ]);
    let mut terminal = chat(&forge, &server);
    terminal.sees("/help lists commands and keys");
    says(&mut terminal, "When was it closed?");
    for text in [
        "I look.",
        "→ Read(notes.txt)",
        "← rain over the dome",
        "# Nights",
        "Closed on two nights, see `src/*.rs`:",
        "• Monday\n• Tuesday",
        "night │ why\n──────┼─────\n1     │ rain",
    ] {
        terminal.sees(text);
    }
    says(&mut terminal, "And then?");
    terminal.sees("Nothing \\u{1b}[2Jmore.");
    terminal.sees(PROMPT);
    assert!(terminal.screen().iter().any(|line| line == "› When was it closed?"), "{:?}", terminal.screen());
    let Ended { code, shown } = leave(terminal);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("3 calls") && shown.contains("to continue: forge run --resume 2"), "{shown}");

    // What was typed is remembered, for its owner alone.
    let history = forge.path(".local/state/forge/history");
    assert_eq!(std::fs::read_to_string(&history).unwrap(), "When was it closed?\nAnd then?\n");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&history).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);

    let second = ScriptedServer::start(vec![Step::text("Still nothing.")]);
    let mut terminal = chat_with(&forge, &second, SESSION, &["-c"], &[("NO_COLOR", "1")]);
    terminal.sees("› And then?");
    terminal.sees("Nothing \\u{1b}[2Jmore.");
    says(&mut terminal, "Sure?");
    terminal.sees("Still nothing.");
    assert_eq!(roles(&second.requests()[0]), "suatauau");
    assert_eq!(leave(terminal).code, Some(0));
}

#[test]
fn what_is_typed_while_it_streams_is_sent_next_or_kept() {
    let forge = forge();
    let server = ScriptedServer::start(vec![
        Step::Held("The first half.\n\nAnd the second half of it all.".to_owned()),
        Step::text("To the second."),
        Step::text("To the third."),
    ]);
    let mut terminal = chat(&forge, &server);
    says(&mut terminal, "one");
    terminal.sees("The first half.");
    terminal.types("two\rthr");
    terminal.sees("next: two");
    terminal.sees("› thr");
    // Neither is mixed into the answer.
    server.go_on();
    terminal.sees("And the second half of it all.");
    terminal.sees("› two");
    terminal.sees("To the second.");
    terminal.sees("› thr");
    terminal.types("ee\r");
    terminal.sees("To the third.");
    let asked: Vec<String> =
        server.requests().iter().map(|request| messages(request).pop().unwrap().1).collect();
    assert_eq!(asked.iter().map(|text| text.trim()).collect::<Vec<_>>(), ["one", "two", "three"]);
    terminal.sees(PROMPT);
    let screen = terminal.screen().join("\n");
    for text in [
        "The first half.\n\nAnd the second half of it all.\n",
        "› two\n\nTo the second.\n",
        "› three\n\nTo the third.",
    ] {
        assert!(screen.contains(text), "`{text}` is not in\n{screen}");
    }
    assert!(!screen.contains("next:"), "{screen}");
    assert_eq!(leave(terminal).code, Some(0));
}

#[test]
fn ctrl_c_stops_an_answer_and_a_tool_and_the_chat_goes_on() {
    let forge = forge();
    let server = ScriptedServer::start(vec![
        Step::Hang,
        Step::calls(&[("read", r#"{"path":"notes.txt"}"#), ("shell", r#"{"command":"waits 1"}"#)]),
        Step::text("I saw it."),
    ]);
    std::fs::create_dir(forge.path("bin")).unwrap();
    let script = "#!/bin/sh\ntouch begun\nexec sleep 1000\n";
    std::fs::write(forge.path("bin/waits"), script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(forge.path("bin/waits"), mode).unwrap();
    let path = format!("{}:/usr/bin:/bin", forge.path("bin").display());
    let mut terminal = chat_with(&forge, &server, SESSION, &[], &[("NO_COLOR", "1"), ("PATH", &path)]);
    says(&mut terminal, "one");
    terminal.sees("this will");
    terminal.types(CTRL_C);
    assert!(server.wait_for_hang_up());
    terminal.sees("stopped; what was done is kept");
    terminal.sees(PROMPT);
    // More than two seconds need not pass where something is typed.
    terminal.types("two\r");
    while !forge.path("begun").exists() {
        std::thread::yield_now();
    }
    // The other call may have ended before this one started.
    terminal.sees("running shell");
    terminal.types(CTRL_C);
    terminal.sees("interrupted before this call had answered");
    terminal.sees("stopped; what was done is kept");
    terminal.sees(PROMPT);
    terminal.types("three\r");
    terminal.sees("I saw it.");
    let last = messages(&server.requests()[2]);
    assert_eq!(roles(&server.requests()[2]), "suattu");
    assert!(
        last[3].1.starts_with("rain over the dome") && last[4].1.contains("interrupted before"),
        "{last:?}"
    );
    assert_eq!(leave(terminal).code, Some(0));
}

#[test]
fn a_compaction_on_demand_is_seen_and_taken_back_and_what_it_took_is_sent_again() {
    let forge = forge();
    let read = || Step::calls(&[("read", r#"{"path":"notes.txt"}"#)]);
    let server = ScriptedServer::start(vec![
        read(),
        Step::text("Rain."),
        Step::text("Compacted."),
        Step::text("Raw."),
        Step::text("Small."),
    ]);
    let mut terminal = chat(&forge, &server);
    says(&mut terminal, "Read it.");
    terminal.sees("Rain.");
    says(&mut terminal, "/context");
    for text in ["reader · openai:scripted", "of 8,000 tokens", "tool results", "nothing is compacted"] {
        terminal.sees(text);
    }
    says(&mut terminal, "/compact the nights");
    terminal.sees("compacted by");
    terminal.sees("(asked for)");
    says(&mut terminal, "Go on.");
    terminal.sees("Compacted.");
    says(&mut terminal, "/context");
    terminal.sees("1 compaction applies");
    says(&mut terminal, "/undo");
    terminal.sees("Undid compaction c0");
    says(&mut terminal, "/undo");
    terminal.sees("nothing is compacted, so there is nothing to undo");
    says(&mut terminal, "Once more.");
    terminal.sees("Raw.");
    says(&mut terminal, "/checkpoints");
    terminal.sees("reader-undo-c0");
    says(&mut terminal, "/model openai:nobody:x");
    terminal.sees("128,000");
    says(&mut terminal, "/model openai:small");
    terminal.sees("of 1,400");
    terminal.sees("the next call compacts first");
    says(&mut terminal, "In less.");
    terminal.sees("compacted by");
    terminal.sees("Small.");
    says(&mut terminal, "/cost");
    terminal.sees("5 calls");
    let requests = server.requests();
    let raw = "rain over the dome\n".repeat(150);
    let has_raw: Vec<bool> =
        requests[1..].iter().map(|request| messages(request).iter().any(|(_, text)| *text == raw)).collect();
    assert_eq!(has_raw, [true, false, true, false]);
    assert_eq!(requests[4]["model"], "small");
    terminal.sees(PROMPT);
    let Ended { code, shown } = leave(terminal);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("--model openai:small"), "a run goes on with the model that it had: {shown}");
}

#[test]
fn two_ctrl_c_end_it_and_a_resumed_chat_goes_on() {
    let forge = forge();
    let server = ScriptedServer::start(vec![Step::text("First."), Step::Hang]);
    let mut terminal = chat(&forge, &server);
    says(&mut terminal, "one");
    terminal.sees("First.");
    says(&mut terminal, "two");
    terminal.sees("this will");
    terminal.types(CTRL_C);
    terminal.types(CTRL_C);
    let Ended { code, shown } = terminal.ends();
    assert_eq!(code, Some(130), "{shown}");
    assert!(shown.contains("to continue: forge run --resume 2"), "{shown}");
    let second = ScriptedServer::start(vec![Step::text("Second."), Step::text("Third.")]);
    let mut terminal = chat_with(&forge, &second, SESSION, &["--resume"], &[("NO_COLOR", "1")]);
    // It is chosen by its first message.
    terminal.sees("Resume a run");
    terminal.sees("› one");
    terminal.types("\r");
    terminal.sees("resumed:");
    terminal.sees("› two");
    // Whoever stopped it is asked.
    terminal.sees("Continue it?");
    terminal.types("y");
    terminal.sees("Second.");
    says(&mut terminal, "three");
    terminal.sees("Third.");
    assert_eq!(roles(&second.requests()[1]), "suauau");
    terminal.sees(PROMPT);
    terminal.types(CTRL_C);
    terminal.sees("Ctrl-C once more ends the chat");
    terminal.sees(PROMPT);
    terminal.types(CTRL_C);
    assert_eq!(terminal.ends().code, Some(130));
}

#[test]
fn a_new_size_leaves_nothing_behind() {
    let forge = forge();
    let server =
        ScriptedServer::start(vec![Step::Held("Some words.\n\nAnd some more words of it.".to_owned())]);
    let mut terminal = chat(&forge, &server);
    says(&mut terminal, "one");
    terminal.sees("Some words.");
    terminal.types("not sent yet");
    let status = |lines: &[String]| lines.iter().filter(|line| line.contains("writing")).count();
    let typed = |lines: &[String]| lines.iter().filter(|line| line.contains("› not sent")).count();
    for (columns, rows) in [(40, 24), (100, 10), (30, 12), (80, 24)] {
        terminal.resize(columns, rows);
        let hint = columns > 60;
        terminal.shows("one status line that fits", |lines| {
            let begun = lines.iter().skip_while(|line| !line.contains("Some words."));
            let fits = begun.into_iter().all(|line| line.chars().count() < usize::from(columns));
            let has_hint = lines.iter().any(|line| line.contains("Ctrl-C stops"));
            (status(lines), typed(lines), fits, has_hint) == (1, 1, true, hint)
        });
    }
    server.go_on();
    terminal.sees("And some more words of it.");
    terminal.shows("the prompt with what was typed", |lines| {
        lines.last().is_some_and(|line| line.starts_with("› not sent yet") && line.contains("of the window"))
    });
    // What is typed is taken back, and the prompt is empty.
    terminal.types(CTRL_C);
    terminal.shows("an empty prompt", |lines| {
        lines.last().is_some_and(|line| line.starts_with('›') && !line.contains("not sent"))
    });
    assert_eq!(leave(terminal).code, Some(0));
}

#[test]
fn a_call_that_needs_consent_is_asked_for_in_the_chat() {
    let forge = forge();
    let call = |command: &str| Step::calls(&[("shell", &json!({ "command": command }).to_string())]);
    let server = ScriptedServer::start(vec![
        call("echo planted"),
        Step::text("It said so."),
        call("echo other"),
        Step::text("Then not."),
    ]);
    let mut terminal = chat(&forge, &server);
    says(&mut terminal, "one");
    terminal.sees("reader wants to call shell:");
    terminal.sees("command: echo planted");
    terminal.sees("[n] no  [Space] why not");
    terminal.types("y\r");
    terminal.sees("← planted");
    terminal.sees("It said so.");
    says(&mut terminal, "two");
    terminal.sees("[n] no  [Space] why not");
    terminal.types("use cat\r");
    terminal.sees("the user does not want it: use cat");
    terminal.sees("Then not.");
    assert_eq!(leave(terminal).code, Some(0));
}

#[test]
fn a_call_that_was_stopped_at_the_question_did_nothing() {
    let forge = forge();
    let call = Step::calls(&[("shell", r#"{"command":"echo planted"}"#)]);
    let server = ScriptedServer::start(vec![call, Step::text("I see.")]);
    let mut terminal = chat(&forge, &server);
    says(&mut terminal, "one");
    terminal.sees("[n] no  [Space] why not");
    terminal.types(CTRL_C);
    terminal.sees("interrupted before this call had started: nothing was done");
    terminal.sees("stopped; what was done is kept");
    says(&mut terminal, "two");
    terminal.sees("I see.");
    let last = messages(&server.requests()[1]);
    assert!(last[3].1.contains("had started: nothing was done"), "{last:?}");
    assert_eq!(leave(terminal).code, Some(0));
}

#[test]
fn what_a_chat_shows_of_its_surroundings_is_what_holds() {
    let forge = forge().with_file("AGENTS.md", "Use tabs.");
    let server = ScriptedServer::start(vec![Step::text("Tabs.")]);
    let mut terminal = chat(&forge, &server);
    says(&mut terminal, "/status");
    terminal.sees("file");
    terminal.sees("forge.yaml");
    says(&mut terminal, "/model");
    terminal.sees("openai:scripted (8,000 tokens)");
    says(&mut terminal, "/tools");
    terminal.sees("/help lists all of them. To send a message");
    assert_eq!(leave(terminal).code, Some(0));
}

#[test]
fn a_difference_is_shown_without_running_what_the_folder_says() {
    let forge = forge().with_file("a.txt", "one\n").with_file(".gitattributes", "*.txt filter=x=y\n");
    let trap = forge.path("trap");
    let clean = format!("touch {}; cat", trap.display());
    for arguments in [
        &["init", "-q"][..],
        &["add", "-A"],
        &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"],
        &["config", "filter.x=y.clean", &clean],
        &["config", "filter.x=y.required", "true"],
    ] {
        let git = std::process::Command::new("git").args(arguments).current_dir(forge.path(".")).output();
        assert!(git.unwrap().status.success(), "{arguments:?}");
    }
    std::fs::write(forge.path("a.txt"), "two\n").unwrap();
    let mut terminal = chat(&forge, &ScriptedServer::start(Vec::new()));
    says(&mut terminal, "/diff");
    terminal.sees("+two");
    assert!(!trap.exists());
    assert_eq!(leave(terminal).code, Some(0));
}

#[test]
fn what_fails_or_is_no_command_does_not_end_the_chat() {
    let forge = forge();
    let server = ScriptedServer::start(vec![Step::status(400, "no"), Step::text("Better.")]);
    let mut terminal = chat(&forge, &server);
    says(&mut terminal, "one");
    terminal.sees("error:");
    terminal.sees("status 400");
    // The next message must not be refused with it.
    terminal.sees("the message is in the input line again");
    terminal.shows("the message at the prompt", |lines| {
        lines.last().is_some_and(|line| line.starts_with("› one"))
    });
    terminal.types(CTRL_C);
    terminal.shows("an empty prompt", |lines| {
        lines.last().is_some_and(|line| line.starts_with('›') && !line.contains("one"))
    });
    for (typed, said) in [
        ("/comapct", "did you mean /compact?"),
        ("/etc/hosts is what?", "unknown command /etc/hosts"),
        ("/undo 3", "/undo takes no argument"),
        ("/model nobody:x", "nobody"),
        ("/agent nobody", "expected one of reader"),
        ("/help", "Alt-Enter"),
        ("/cost", "calls"),
    ] {
        says(&mut terminal, typed);
        terminal.sees(said);
    }
    assert_eq!(server.requests().len(), 1);
    says(&mut terminal, "//etc/hosts");
    terminal.sees("Better.");
    let sent = messages(&server.requests()[1]);
    assert_eq!(sent.last().unwrap().1, "/etc/hosts");
    assert!(sent.iter().all(|(_, text)| text != "one"), "{sent:?}");
    terminal.sees(PROMPT);
    // Several lines, by a backslash and by pasting, are one message.
    assert_eq!(leave(terminal).code, Some(0));
}

#[test]
fn a_message_may_have_several_lines_and_words_are_completed() {
    let forge = forge();
    let server = ScriptedServer::start(vec![Step::text("One."), Step::text("Two."), Step::text("Three.")]);
    let mut terminal = chat(&forge, &server);
    terminal.sees(PROMPT);
    terminal.types("a\\\rb\x1b\rc\r");
    terminal.sees("One.");
    terminal.sees(PROMPT);
    terminal.types("\x1b[200~d\ne\x1b[201~\r");
    terminal.sees("Two.");
    terminal.sees(PROMPT);
    terminal.types("see no\t\r");
    terminal.sees("Three.");
    terminal.sees(PROMPT);
    terminal.types("/und\t\r");
    terminal.sees("nothing is compacted, so there is nothing to undo");
    let asked: Vec<String> =
        server.requests().iter().map(|request| messages(request).pop().unwrap().1).collect();
    assert_eq!(
        asked.iter().map(|text| text.trim()).collect::<Vec<_>>(),
        ["a\nb\nc", "d\ne", "see notes.txt"]
    );
    terminal.sees(PROMPT);
    assert_eq!(leave(terminal).code, Some(0));
}

#[test]
fn colours_are_there_unless_they_are_not_wanted_and_a_dumb_terminal_is_not_steered() {
    let reply = || vec![Step::text("Some **bold** `code`.")];
    for (variables, is_coloured, is_steered) in
        [(&[][..], true, true), (&[("NO_COLOR", "1")], false, true), (&[("TERM", "dumb")], false, false)]
    {
        let forge = forge();
        let server = ScriptedServer::start(reply());
        let mut terminal = chat_with(&forge, &server, SESSION, &[], variables);
        let prompt = if is_steered { PROMPT } else { "> " };
        terminal.sees(prompt);
        terminal.types(if is_steered { "one\r" } else { "one\n" });
        terminal.sees(if is_coloured {
            "Some bold code."
        } else if is_steered {
            "Some bold `code`."
        } else {
            "Some **bold** `code`."
        });
        terminal.sees(prompt);
        let raw = terminal.raw();
        let colours = raw.split("\x1b[").skip(1).filter_map(|rest| rest.split_once('m')).any(|(codes, _)| {
            !codes.is_empty()
                && codes
                    .split(';')
                    .all(|code| code.parse().is_ok_and(|code: u16| (30..=107).contains(&code) || code == 5))
        });
        assert_eq!((colours, raw.contains('\x1b')), (is_coloured, is_steered), "{variables:?}: {raw:?}");
        assert_eq!(leave(terminal).code, Some(0));
    }
}

#[test]
fn without_a_terminal_there_is_no_chat() {
    let forge = forge();
    let actual = forge.run(&["run", "--chat"]);
    assert_eq!(actual.code, 2);
    assert!(actual.stderr.contains("--chat needs a terminal"), "{}", actual.stderr);
    let actual = forge.run(&["run"]);
    assert!(actual.code == 2 && actual.stderr.contains("there is no task"), "{}", actual.stderr);
}

#[test]
fn a_record_that_cannot_be_written_is_told_at_the_end() {
    let forge = forge();
    std::fs::create_dir(forge.path("out")).unwrap();
    let server = ScriptedServer::start(vec![Step::text("Done.")]);
    let arguments = ["--record", "out/session.json"];
    let mut terminal = chat_with(&forge, &server, SESSION, &arguments, &[("NO_COLOR", "1")]);
    terminal.sees("/help lists commands and keys");
    std::fs::remove_dir_all(forge.path("out")).unwrap();
    says(&mut terminal, "Go.");
    terminal.sees("note: cannot write the session to");
    terminal.sees(PROMPT);
    let Ended { code, shown } = leave(terminal);
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("the record lacks the end of the run"), "{shown}");
}

#[test]
fn a_signal_at_the_prompt_ends_it_and_how_to_go_on_is_said() {
    let forge = forge();
    let server = ScriptedServer::start(vec![Step::text("One.")]);
    let mut terminal = chat(&forge, &server);
    says(&mut terminal, "one");
    terminal.sees("One.");
    terminal.sees(PROMPT);
    terminal.is_sent(rustix::process::Signal::TERM);
    let Ended { code, shown } = terminal.ends();
    assert_eq!(code, Some(143), "{shown}");
    assert!(shown.contains("to continue: forge run --resume 2"), "{shown}");
}
