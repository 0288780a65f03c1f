//! How a run ends: its exit code, what is printed of a reply that broke off, and what a run without a key leaves.

use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::forge::{Forge, Outcome, outcome};

const YAML: &str = "agents: [{ id: reader, model: openai:scripted, tools: [read, list] }]\n\
                    providers: { openai: { retries: 0 } }\n";

/// The workflow with more keys of its own.
fn yaml(more: &str) -> String {
    format!("{YAML}{more}\n")
}

/// The workflow with more keys of its agent.
fn agent(more: &str) -> String {
    YAML.replace("id: reader", &format!("id: reader, {more}"))
}

fn run(forge: &Forge, server: &ScriptedServer, arguments: &[&str]) -> Outcome {
    let mut command = forge.command(arguments);
    outcome(
        command
            .env("OPENAI_BASE_URL", server.base_url())
            .env("OPENAI_API_KEY", "k")
            .env("PATH", std::env::var("PATH").unwrap()),
    )
}

fn read() -> Step {
    Step::calls(&[("read", r#"{"path":"notes.txt"}"#)])
}

#[test]
fn each_end_of_a_run_has_its_exit_code() {
    let denial = r#"hooks: { pre_prompt: [{ command: "echo '{\"decision\": \"deny\", \"reason\": \"not today\"}'" }] }"#;
    let half = r#"{"path": "notes.txt", "off"#;
    let cut = || Step::cut("", &[("read", half)]);
    for (what, yaml, script, arguments, code, words) in [
        ("done", yaml(""), vec![read(), Step::text("ok")], &[][..], 0, ""),
        ("refused", yaml(""), vec![Step::status(400, "no")], &[], 1, "status 400"),
        (
            "a price that is unknown",
            yaml("budget: { cost: 1 }"),
            vec![],
            &[],
            1,
            "the price of `openai:scripted` is unknown",
        ),
        ("a limit", agent("max_iterations: 1"), vec![read()], &[], 3, "max_iterations (1) is reached"),
        ("a budget", yaml("budget: { tokens: 10 }"), vec![], &[], 3, "budget"),
        (
            "a text that was cut",
            yaml(""),
            vec![Step::cut("half a", &[])],
            &[],
            4,
            "the reply reached its output limit",
        ),
        ("calls that were cut", yaml(""), vec![cut(), cut(), cut()], &[], 4, "3 of 3 in a row"),
        ("repetition", agent("max_repetitions: 2"), vec![read(), read()], &[], 5, "the same results 2 times"),
        ("nothing said", yaml(""), vec![Step::text(" "); 4], &[], 6, "gave no answer"),
        (
            "nothing but thoughts",
            yaml(""),
            [vec![Step::text("<think>hm"); 2], vec![Step::text("hm\n</think>\n"); 2]].concat(),
            &[],
            6,
            "gave no answer",
        ),
        ("denied", yaml(denial), vec![], &[], 7, "not today"),
        ("not saved", yaml(""), vec![Step::text("ok")], &["--store", "sqlite:file/runs.db"], 8, "not saved:"),
    ] {
        let forge = Forge::new()
            .with_file("forge.yaml", yaml)
            .with_file("notes.txt", "closed on Monday\n")
            .with_file("file", "no folder");
        let all = |more: &[&'static str]| [&["run", "task"], arguments, more].concat();
        let server = ScriptedServer::start(script.clone());
        let actual = run(&forge, &server, &all(&["--report", "report.json"]));
        assert_eq!(actual.code, code, "{what}: {}", actual.stderr);
        assert!(actual.stderr.contains(words), "{what}: {}", actual.stderr);
        let report: Value =
            serde_json::from_slice(&std::fs::read(forge.path("report.json")).unwrap()).unwrap();
        assert_eq!(report["exit_code"], code, "{what}: {report}");

        let server = ScriptedServer::start(script);
        let told = run(&forge, &server, &all(&["--json"]));
        let last: Value = serde_json::from_str(told.stdout.lines().last().unwrap()).unwrap();
        assert_eq!((told.code, &last["exit_code"]), (code, &Value::from(code)), "{what}: {last}");
        let expected = if code == 1 { "broke_off" } else { "report" };
        assert_eq!(last["event"], expected, "{what}");
    }
}

#[test]
fn the_first_agent_that_does_not_finish_decides() {
    let yaml = "agents:\n\
                - { id: one, model: openai:scripted, subscribe: [user_task_init] }\n\
                - { id: two, model: openai:scripted, subscribe: [user_task_init] }\n";
    let forge = Forge::new().with_file("forge.yaml", yaml);
    let server = ScriptedServer::start(vec![Step::cut("half a", &[]), Step::text("whole")]);
    let actual = run(&forge, &server, &["run", "task"]);
    assert_eq!((actual.code, actual.stdout.as_str()), (4, "half a\nwhole\n"), "{}", actual.stderr);
}

#[test]
fn stdout_has_the_answer_alone() {
    let forge = Forge::new().with_file("forge.yaml", yaml("")).with_file("notes.txt", "rain\n");
    let script = || {
        let look = Step::both("I look.\nThen I answer.", &[("read", r#"{"path":"notes.txt"}"#)]);
        ScriptedServer::start(vec![look, Step::text("It rained.")])
    };
    let printed = run(&forge, &script(), &["run", "-p", "What was the weather?"]);
    assert_eq!((printed.code, printed.stdout.as_str()), (0, "It rained.\n"), "{}", printed.stderr);
    assert!(printed.stderr.contains("I look.\nThen I answer.\n→ "), "{}", printed.stderr);
    let told = run(&forge, &script(), &["run", "--json", "What was the weather?"]);
    assert!(told.stdout.contains("I look."), "{}", told.stdout);
}

#[cfg(unix)]
#[test]
fn a_run_whose_store_is_removed_is_not_called_saved() {
    let yaml = YAML.replace("[read, list]", "[shell], permissions: { shell: allow }");
    let forge = Forge::new().with_file("forge.yaml", yaml);
    let removal = Step::calls(&[("shell", r#"{"command": "rm runs.db"}"#)]);
    let server = ScriptedServer::start(vec![removal, Step::text("ok")]);
    let actual = run(&forge, &server, &["run", "--sandbox", "off", "--store", "sqlite:runs.db", "Tidy up."]);
    assert_eq!((actual.code, actual.stdout.as_str()), (8, "ok\n"), "{}", actual.stderr);
    let words = "runs.db was removed or replaced while it was open; the run continues, and cannot be resumed";
    assert!(actual.stderr.contains(words), "{}", actual.stderr);
    assert!(!actual.stderr.contains("saved as run"), "{}", actual.stderr);
}

#[test]
fn stdout_has_no_reply_that_is_asked_for_again() {
    let forge = Forge::new().with_file("forge.yaml", yaml("")).with_file("notes.txt", "rain\n");
    let call = "<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"notes.txt\"}}\n</tool_call>";
    for reply in [call, " \n "] {
        let server = ScriptedServer::start(vec![Step::text(reply), Step::text("It rained.")]);
        let actual = run(&forge, &server, &["run", "-p", "What was the weather?"]);
        assert_eq!((actual.code, actual.stdout.as_str()), (0, "It rained.\n"), "{}", actual.stderr);
        assert!(actual.stderr.contains(reply.trim()), "{}", actual.stderr);
    }
}

#[test]
fn thoughts_in_front_of_an_answer_are_no_part_of_it() {
    let forge = Forge::new().with_file("forge.yaml", yaml(""));
    for reply in ["<think>hm</think>\n\nIt rained.", "hm\n</think>\n\nIt rained."] {
        let server = ScriptedServer::start(vec![Step::text(reply)]);
        let actual = run(&forge, &server, &["run", "-p", "What was the weather?"]);
        assert_eq!((actual.code, actual.stdout.as_str()), (0, "It rained.\n"), "{}", actual.stderr);
    }
}

#[test]
fn an_answer_that_was_cut_off_is_continued_when_it_is_resumed() {
    let forge = Forge::new().with_file("forge.yaml", yaml(""));
    let server = ScriptedServer::start(vec![Step::cut("one two", &[]), Step::text("three")]);
    let cut = run(&forge, &server, &["run", "Count."]);
    assert_eq!((cut.code, cut.stdout.as_str()), (4, "one two\n"), "{}", cut.stderr);
    let resumed = run(&forge, &server, &["run", "--resume"]);
    assert_eq!((resumed.code, resumed.stdout.as_str()), (0, "three\n"), "{}", resumed.stderr);
    let sent = server.requests()[1]["messages"].to_string();
    assert!(sent.contains("one two") && sent.contains("Continue exactly where it stopped"), "{sent}");
}

#[test]
fn a_text_that_was_cut_off_amid_work_is_an_answer_with_what_follows() {
    let forge = Forge::new().with_file("forge.yaml", yaml("")).with_file("notes.txt", "rain\n");
    let script = || ScriptedServer::start(vec![read(), Step::cut("It rai", &[]), Step::text("ned.")]);
    let printed = run(&forge, &script(), &["run", "-p", "What was the weather?"]);
    assert_eq!((printed.code, printed.stdout.as_str()), (0, "It rained.\n"), "{}", printed.stderr);
    // Before another call it is none.
    let steps = vec![read(), Step::cut("I look", &[]), read(), Step::text("It rained.")];
    let printed = run(&forge, &ScriptedServer::start(steps), &["run", "-p", "What was the weather?"]);
    assert_eq!((printed.code, printed.stdout.as_str()), (0, "It rained.\n"), "{}", printed.stderr);
    assert!(printed.stderr.contains("I look"), "{}", printed.stderr);
    run(&forge, &script(), &["run", "--report", "report.json", "What was the weather?"]);
    let report: Value = serde_json::from_slice(&std::fs::read(forge.path("report.json")).unwrap()).unwrap();
    assert_eq!(report["responses"][0]["response"], "It rained.", "{report}");
}

#[test]
fn a_run_without_its_key_saves_and_starts_nothing() {
    let hook = "hooks: { workflow_start: [{ command: touch began }] }";
    let forge = Forge::new().with_file("forge.yaml", yaml(hook));
    // The agent can be asked, and one that it calls cannot.
    let helper = "agents:\n- { id: reader, model: open:m, tools: [helper] }\n- { id: helper, model: anthropic:claude-x }\n\
                  providers: { open: { base_url: 'http://127.0.0.1:9/v1' } }\n";
    let of_helper = Forge::new().with_file("forge.yaml", helper);
    for (forge, variable) in [(&forge, "OPENAI_API_KEY"), (&of_helper, "ANTHROPIC_API_KEY")] {
        let actual = forge.run(&["run", "task"]);
        assert_eq!((actual.code, actual.stdout.as_str()), (2, ""), "{}", actual.stderr);
        assert!(actual.stderr.starts_with("error: provider `"), "{}", actual.stderr);
        assert!(actual.stderr.contains(variable), "{}", actual.stderr);
        assert!(!forge.path(".local").exists() && !forge.path("began").exists());
    }
    // A run that is there is left as it is.
    let server = ScriptedServer::start(vec![Step::text("one")]);
    assert_eq!(run(&forge, &server, &["run", "first"]).code, 0);
    let list = || forge.run(&["checkpoints", "list", "--json"]).stdout;
    let before = list();
    for arguments in [&["run", "--resume"][..], &["run", "--resume", "last", "second"]] {
        let actual = forge.run(arguments);
        assert!(actual.code == 2 && actual.stderr.contains("OPENAI_API_KEY"), "{}", actual.stderr);
    }
    assert_eq!(list(), before);
}

#[test]
fn a_reply_that_broke_off_is_printed_once() {
    let forge = Forge::new().with_file("forge.yaml", yaml("").replace("retries: 0", "retries: 1"));
    let script = || vec![Step::CutStream, Step::text("all good")];
    let server = ScriptedServer::start(script());
    let actual = run(&forge, &server, &["run", "task"]);
    assert_eq!((actual.code, actual.stdout.as_str()), (0, "all good\n"), "{}", actual.stderr);

    let server = ScriptedServer::start(script());
    let told = run(&forge, &server, &["run", "--json", "task"]);
    let (mut text, mut n_void) = (String::new(), 0);
    for line in told.stdout.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        match event["event"].as_str() {
            Some("text") => text.push_str(event["text"].as_str().unwrap()),
            Some("restarted") => n_void += std::mem::take(&mut text).len().min(1),
            _ => {}
        }
    }
    assert_eq!((text.as_str(), n_void), ("all good", 1), "{}", told.stdout);

    // What is never complete is no answer.
    let server = ScriptedServer::start(vec![Step::CutStream; 3]);
    let failed = run(&forge, &server, &["run", "task"]);
    assert_eq!((failed.code, failed.stdout.as_str()), (1, ""), "{}", failed.stderr);
    assert!(failed.stderr.contains("retrying (1 of 1)"), "{}", failed.stderr);
    assert!(failed.stderr.contains("the last reply broke off; asking again in 1.0 s"), "{}", failed.stderr);
    assert_eq!(server.requests().len(), 2);

    let forge = Forge::new().with_file("forge.yaml", yaml(""));
    let server = ScriptedServer::start(vec![Step::CutStream; 3]);
    let failed = run(&forge, &server, &["run", "task"]);
    assert_eq!((failed.code, server.requests().len()), (1, 1), "{}", failed.stderr);
}

#[cfg(target_os = "linux")]
#[test]
fn a_terminal_shows_that_a_reply_starts_again() {
    let forge = Forge::new().with_file("forge.yaml", yaml("").replace("retries: 0", "retries: 1"));
    let server = ScriptedServer::start(vec![Step::CutStream, Step::text("all good")]);
    let terminal = crate::pseudo_terminal::Terminal::start(80, 24, |line| {
        let mut command = forge.process();
        command.args(["run", "task"]).env("TERM", "xterm").env("OPENAI_BASE_URL", server.base_url());
        command.env("OPENAI_API_KEY", "k").stdin(line()).stdout(line()).stderr(line());
        command
    });
    let ended = terminal.ends();
    assert_eq!(ended.code, Some(0), "{}", ended.shown);
    let (before, after) = ended.shown.split_once("the reply above was interrupted").expect(&ended.shown);
    assert!(before.contains("this will") && !after.contains("this will"), "{}", ended.shown);
    assert_eq!(after.matches("all good").count(), 1, "{}", ended.shown);
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_at_a_terminal_shows_that_it_waits_and_leaves_nothing_of_that() {
    let forge = Forge::new().with_file("forge.yaml", yaml(""));
    // It takes the request and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}/v1", silent.local_addr().unwrap());
    let mut terminal = crate::pseudo_terminal::Terminal::start(80, 24, |line| {
        let mut command = forge.process();
        command.args(["run", "task"]).env("TERM", "xterm").env("OPENAI_BASE_URL", &base_url);
        command.env("OPENAI_API_KEY", "k").stdin(line()).stdout(line()).stderr(line());
        command
    });
    let is_waiting = |lines: &[String]| lines.iter().any(|line| line.contains("waiting for the model"));
    terminal.shows("status", |lines| {
        is_waiting(lines) && lines.iter().any(|line| line.ends_with("Ctrl-C stops"))
    });
    terminal.is_sent(rustix::process::Signal::INT);
    terminal.is_over();
    assert!(!is_waiting(terminal.screen().as_slice()), "{:?}", terminal.screen());
    assert_eq!(terminal.ends().code, Some(130));
}
