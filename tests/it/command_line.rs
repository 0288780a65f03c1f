//! Bad input: each with a clear error, its exit code, and nothing lost.

use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;

use crate::forge::{Forge, outcome};

/// An agent on the scripted server.
const AGENT: &str = "\
agents:
  - id: reader
    model: openai:scripted
    tools: [read, list]
models:
  openai:scripted: { window: 8000 }
providers:
  openai: { retries: 0 }
";

/// The command fails with this exit code and these words, and says nothing on standard output.
fn check(forge: &Forge, arguments: &[&str], code: i32, words: &[&str]) {
    let actual = forge.run(arguments);
    assert_eq!((actual.code, actual.stdout.as_str()), (code, ""), "{arguments:?}: {}", actual.stderr);
    for word in words {
        assert!(actual.stderr.contains(word), "{arguments:?}: `{word}` is not in:\n{}", actual.stderr);
    }
}

#[test]
fn a_bad_configuration_is_told_with_its_place() {
    for (yaml, words) in [
        (AGENT.replace("tools", "tolls"), &["forge.yaml:4:5", "agents.reader.tolls", "tools"][..]),
        (AGENT.replace("8000", "lots"), &["forge.yaml:6:30", "models.openai:scripted.window", "lots"]),
        (
            AGENT.replace("[read, list]", "[read, delete]"),
            &["forge.yaml:4:19", "no tool `delete`", "read, list"],
        ),
        (
            AGENT.replace("tools: [read, list]", "compact: { token_threshold: 500, max_tokens: 500 }"),
            &["forge.yaml:4:50", "agents.reader.compact.max_tokens", "must be below token_threshold"],
        ),
        (
            AGENT
                .replace("8000", "700")
                .replace("tools: [read, list]", "compact: { model: openai:scripted }"),
            &[
                "forge.yaml:2:",
                "can never fit the window",
                "a summary 2000",
                "the reserve for the answer 175",
            ],
        ),
        (
            AGENT
                .replace("tools: [read, list]", "compact: { focus: findings, strategies: [sliding_window] }"),
            &["forge.yaml:4:23", "agents.reader.compact.focus", "no strategy uses it", "extraction"],
        ),
        (
            AGENT.replace("8000", "100").replace(
                "tools: [read, list]",
                &format!("compact: {{ pin: [Never] }}\n    user_prompt: Never stop. {}", "word ".repeat(300)),
            ),
            &["forge.yaml:2:", "can never fit the window", "pinned text "],
        ),
        (
            AGENT.replace(
                "tools: [read, list]",
                "compact: { model: openai:scripted, prompt: 'Sum {{up}}', summary_max_tokens: 9 }",
            ),
            &["forge.yaml:4:48", "agents.reader.compact.prompt", "up"],
        ),
        (
            AGENT.replace("tools: [read, list]", "compact: { strategies: [summarization] }"),
            &["agents.reader.compact.strategies", "without a `model`"],
        ),
        (
            AGENT.replace("openai:scripted\n", "opnai:scripted\n"),
            &["forge.yaml:3:12", "opnai:scripted", "openai"],
        ),
        (
            AGENT.replace("tools: [read, list]", "system_prompt: 'Hello {{nobody}}'"),
            &["forge.yaml:4:20", "agents.reader.system_prompt", "nobody", "line 1, column"],
        ),
        (AGENT.replace("openai:scripted\n", "''\n"), &["forge.yaml:3:12", "must not be empty"]),
        (AGENT.replace("    model: openai:scripted\n", ""), &["agent `reader` has no model"]),
        ("agents: [".to_owned(), &["forge.yaml:1"]),
        ("\u{0}\u{1}".to_owned(), &["forge.yaml"]),
    ] {
        let forge = Forge::new().with_file("forge.yaml", &yaml);
        check(&forge, &["config", "check"], 2, words);
        check(&forge, &["run", "task"], 2, words);
    }
}

#[test]
fn what_is_missing_is_named() {
    let forge = Forge::new().with_file("forge.yaml", AGENT);
    check(
        &forge,
        &["run", "task", "--config", "other.yaml"],
        2,
        &["cannot read the configuration other.yaml"],
    );
    check(&forge, &["run", "task", "--agent", "writer"], 2, &["no agent `writer`", "expected one of reader"]);
    check(&forge, &["run", "task"], 2, &["provider `openai` needs a key", "OPENAI_API_KEY"]);
    check(&forge, &["run", "task", "--provider", "opnai"], 2, &["opnai", "openai"]);
    check(&forge, &["run"], 2, &["there is no task"]);
    check(&forge, &["replay", "nowhere.json"], 2, &["cannot read the session nowhere.json"]);
    check(&forge, &["replay", "nowhere.json", "--window", "huge"], 2, &["huge", "8k"]);
    check(&Forge::new(), &["run", "task"], 2, &["no model is configured", "OPENAI_API_KEY", "forge.yaml"]);
    let provider = "providers: { far: { kind: openai } }\nagents: [{ id: a, model: 'far:m' }]\n";
    let forge = Forge::new().with_file("forge.yaml", provider);
    check(&forge, &["run", "task"], 2, &["provider `far` has no address", "base_url"]);
}

#[test]
fn a_bad_session_is_told_with_its_place() {
    let session = r#"{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"}]}"#;
    let forge = Forge::new()
        .with_file("cut.json", &session[..60])
        .with_file("binary.json", b"\x7fELF\x02\x01\x00\xff\xfe")
        .with_file("empty.json", "")
        .with_file("other.json", r#"{"a": 1}"#)
        .with_file("odd.json", r#"{"messages":[{"role":"user","content":"hi"},7]}"#)
        .with_file("good.json", session);
    for (file, words) in [
        ("cut.json", &["cut.json", "line 1"][..]),
        ("binary.json", &["binary.json", "text"]),
        ("empty.json", &["empty.json", "empty"]),
        ("other.json", &["other.json", "the key `a`", "forge inspect --help"]),
        ("odd.json", &["odd.json", "1"]),
    ] {
        check(&forge, &["replay", file], 1, words);
    }
    check(
        &forge,
        &["replay", "good.json", "--session", "nine"],
        2,
        &["no session is named `nine`", "good.json"],
    );
    check(&forge, &["replay", "good.json", "--agent", "writer"], 2, &["no agent `writer`"]);
    let actual = forge.run(&["replay", "good.json"]);
    assert_eq!((actual.code, actual.stderr.as_str()), (0, ""));
}

#[test]
fn a_faulty_server_fails_the_run_and_keeps_the_record() {
    let unknown = r#"{"error":{"message":"The model `scripted` does not exist","code":"model_not_found"}}"#;
    for (fault, words) in [
        (Step::status(500, r#"{"error":{"message":"out of order"}}"#), &["status 500", "out of order"][..]),
        (Step::status(401, r#"{"error":{"message":"bad key"}}"#), &["refused the key", "bad key"]),
        (Step::status(404, unknown), &["does not know the model `scripted`"]),
        (Step::CutStream, &["was interrupted before its end"]),
        (Step::BreakStream, &["error:"]),
        (Step::Garbage, &["cannot be read"]),
    ] {
        let server = ScriptedServer::start(vec![Step::calls(&[("list", "{}")]), fault.clone()]);
        let forge = Forge::new().with_file("forge.yaml", AGENT);
        let actual = outcome(
            forge
                .command(&["run", "task", "--record", "session.json"])
                .env("OPENAI_BASE_URL", server.base_url())
                .env("OPENAI_API_KEY", "sk-planted-secret"),
        );
        assert_eq!(actual.code, 1, "{fault:?}: {}", actual.stderr);
        for word in words {
            assert!(actual.stderr.contains(word), "{fault:?}: `{word}` is not in:\n{}", actual.stderr);
        }
        assert!(!actual.stderr.contains("planted"), "{}", actual.stderr);
        // The first call and its result are kept.
        let record = std::fs::read(forge.path("session.json")).unwrap();
        let sessions = forge_transcript::read(&record, "session").unwrap();
        assert_eq!(sessions[0].messages().count(), 3, "{fault:?}");
    }
}

#[test]
fn models_are_listed_with_what_is_known_of_them() {
    let server = ScriptedServer::start(Vec::new());
    let url = server.base_url();
    let yaml = format!(
        "providers:\n  a: {{ kind: anthropic, base_url: '{url}' }}\n  o: {{ kind: ollama, base_url: '{url}' }}\n\
         models: {{ 'a:scripted': {{ window: 7 }} }}\n"
    );
    let forge = Forge::new().with_file("forge.yaml", yaml);
    for (name, expected) in [("a", "a:scripted\t7\n"), ("o", "o:scripted\t1000000\n")] {
        let actual = forge.run(&["models", "--provider", name]);
        assert_eq!((actual.code, actual.stdout.as_str()), (0, expected), "{}", actual.stderr);
    }
    check(&forge, &["models", "--provider", "x"], 2, &["no provider `x`", "use one of a, anthropic"]);
    check(&forge, &["models", "--provider", "openai"], 1, &["openai: ", "OPENAI_API_KEY"]);
}

#[test]
fn a_record_never_takes_the_place_of_anything() {
    let forge = Forge::new().with_file("forge.yaml", AGENT).with_file("old.json", "precious");
    std::fs::create_dir(forge.path("folder")).unwrap();
    for (path, words) in [
        ("old.json", "old.json already exists"),
        ("folder", "folder already exists"),
        ("/dev/null", "/dev/null already exists"),
        ("nowhere/new.json", "cannot write to nowhere/new.json"),
    ] {
        let server = ScriptedServer::start(vec![Step::text("done")]);
        let mut command = forge.command(&["run", "task", "--record", path]);
        let actual = outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k"));
        assert_eq!(actual.code, 2, "{path}: {}", actual.stderr);
        assert!(actual.stderr.contains(words), "{path}: {}", actual.stderr);
        assert_eq!(server.requests().len(), 0, "{path}");
    }
    assert_eq!(std::fs::read_to_string(forge.path("old.json")).unwrap(), "precious");
}

#[cfg(unix)]
#[test]
fn a_report_is_written_to_a_file_only() {
    let forge = Forge::new().with_file("forge.yaml", AGENT);
    std::fs::create_dir(forge.path("folder")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(forge.path("pipe")).status().unwrap();
    assert!(made.success());
    for (path, words) in [
        ("pipe", "--report: pipe is a pipe or a device (expected a file)"),
        ("/dev/null", "--report: /dev/null is a pipe or a device (expected a file)"),
        ("folder", "--report: folder is a folder (expected a file)"),
        ("gone/report.json", "--report: cannot write to gone/report.json: No such file or directory"),
        ("forge.yaml/report.json", "--report: cannot write to forge.yaml/report.json: Not a directory"),
    ] {
        let server = ScriptedServer::start(vec![Step::text("done")]);
        let mut command = forge.command(&["run", "task", "--report", path]);
        let actual = outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k"));
        assert_eq!(actual.code, 2, "{path}: {}", actual.stderr);
        assert!(actual.stderr.contains(words), "{path}: {}", actual.stderr);
        assert_eq!(server.requests().len(), 0, "{path}");
    }
}

#[cfg(unix)]
#[test]
fn a_command_cannot_lead_a_report_or_a_record_elsewhere() {
    let yaml = "agents: [{ id: one, model: openai:m, tools: [shell], permissions: { '*': allow } }]\n";
    for (line, words) in [
        ("ln -s ../precious out/file.json", "a symbolic link is there now"),
        ("rm -f out/file.json; ln -s ../precious out/file.json", "a symbolic link is there now"),
        ("rm -f out/file.json; mkfifo out/file.json", "a pipe or a device is there"),
        ("mv out gone; ln -s gone out", "was replaced during the run"),
    ] {
        for flag in ["--report", "--record"] {
            if flag == "--record" && line.starts_with("ln") {
                // The file exists by then.
                continue;
            }
            let forge = Forge::new().with_file("forge.yaml", yaml).with_file("precious", "precious");
            std::fs::create_dir(forge.path("out")).unwrap();
            let call = serde_json::json!({ "command": line }).to_string();
            let server = ScriptedServer::start(vec![Step::calls(&[("shell", &call)]), Step::text("done")]);
            let mut command = forge.command(&["run", "task", "--sandbox", "off", flag, "out/file.json"]);
            command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k");
            let actual = outcome(command.env("PATH", std::env::var("PATH").unwrap()));
            assert!(actual.stderr.contains(words), "{flag} {line}: {}", actual.stderr);
            // The run itself was done: it did not fail for a wrong argument.
            assert_ne!(actual.code, 2, "{flag} {line}: {}", actual.stderr);
            if flag == "--report" {
                assert_eq!((actual.code, actual.stdout.as_str()), (1, "done\n"), "{}", actual.stderr);
                assert!(!forge.path("gone/file.json").exists(), "{line}");
                let (_, report) = actual.stderr.split_once("could not be written to its file:\n").unwrap();
                let report: serde_json::Value =
                    serde_json::Deserializer::from_str(report).into_iter().next().unwrap().unwrap();
                assert!(report["exit_code"].is_u64(), "{line}: {report}");
            } else {
                // The record is a copy: the work is done without it.
                assert_eq!((actual.code, actual.stdout.as_str()), (1, "done\n"), "{}", actual.stderr);
                assert!(actual.stderr.contains("the record lacks the end of the run"), "{}", actual.stderr);
            }
            assert_eq!(std::fs::read_to_string(forge.path("precious")).unwrap(), "precious");
        }
    }
}

#[test]
fn every_agent_that_wakes_has_a_record_of_its_own() {
    let yaml = "agents:\n  - { id: one, model: openai:m, subscribe: [user_task_init] }\n\
                \x20 - { id: two, model: openai:m, subscribe: [user_task_init] }\n";
    let server = ScriptedServer::start(vec![Step::text("first"), Step::text("second")]);
    let forge = Forge::new().with_file("forge.yaml", yaml);
    let mut command = forge.command(&["run", "task", "--record", "session.json"]);
    let actual = outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k"));
    assert_eq!((actual.code, actual.stdout.as_str()), (0, "first\nsecond\n"), "{}", actual.stderr);
    assert!(actual.stderr.contains("2 calls"), "{}", actual.stderr);
    for (file, word) in [("session.json", "first"), ("session.two.json", "second")] {
        assert!(std::fs::read_to_string(forge.path(file)).unwrap().contains(word), "{file}");
    }
}

#[test]
fn an_interrupt_ends_the_run_and_keeps_what_was_complete() {
    let server = ScriptedServer::start(vec![Step::calls(&[("list", "{}")]), Step::Hang]);
    let forge = Forge::new().with_file("forge.yaml", AGENT);
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_forge_under_test"))
        .args(["--trust", "run", "task", "--record", "session.json"])
        .env_clear()
        .env("OPENAI_BASE_URL", server.base_url())
        .env("OPENAI_API_KEY", "k")
        .current_dir(forge.path(""))
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // The second request has been asked for once the server holds both.
    while server.requests().len() < 2 {
        assert_eq!(child.try_wait().unwrap(), None, "the run ended before it was interrupted");
        std::thread::yield_now();
    }
    std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted"));
    let record = std::fs::read(forge.path("session.json")).unwrap();
    assert_eq!(forge_transcript::read(&record, "session").unwrap()[0].messages().count(), 3);
}

#[test]
fn a_cut_reply_is_said() {
    let body = r#"{"choices":[{"message":{"role":"assistant","content":"half"},"finish_reason":"length"}]}"#;
    let server = ScriptedServer::start(vec![Step::status(200, body)]);
    let forge = Forge::new().with_file("forge.yaml", AGENT);
    let mut command = forge.command(&["run", "task"]);
    let actual = outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k"));
    assert_eq!((actual.code, actual.stdout.as_str()), (4, "half\n"));
    assert!(actual.stderr.contains("reached its output limit"), "{}", actual.stderr);
}

#[test]
fn a_closed_pipe_is_no_fault_and_a_full_disk_is_one() {
    let session = r#"{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"}]}"#;
    let forge = Forge::new().with_file("good.json", session);
    for arguments in [
        &["replay", "good.json"][..],
        &["inspect", "good.json"],
        &["config", "show"],
        &["--help"],
        &["--version"],
    ] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_forge_under_test"));
        command.args(arguments).env_clear().current_dir(forge.path(""));
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command.stdout(full).stderr(std::process::Stdio::piped()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.contains("cannot write to stdout"), "{arguments:?}: {stderr}");
    }
}

#[test]
fn an_address_that_is_none_is_told_at_its_place_and_stops_nobody_else() {
    let server = ScriptedServer::start(vec![Step::text("done")]);
    let others = "  broken: { kind: openai, base_url: notaurl }\n  nowhere: {}\n";
    let forge = Forge::new().with_file("forge.yaml", format!("{AGENT}{others}"));
    let place = "provider `broken` has an invalid base_url 'notaurl'";
    let words = &[
        place,
        "forge.yaml:9:37: providers.broken.base_url",
        "help: for example `base_url: http",
        "forge.yaml:10:",
        "`nowhere` has no address",
    ];
    check(&forge, &["config", "check"], 2, words);
    let mut command = forge.command(&["run", "task"]);
    let actual = outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k"));
    assert_eq!((actual.code, actual.stdout.as_str()), (0, "done\n"), "{}", actual.stderr);
    let mut command = forge.command(&["models", "--provider", "openai"]);
    let actual = outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k"));
    assert_eq!((actual.code, actual.stderr.as_str()), (0, ""), "{}", actual.stdout);
    check(&forge, &["run", "task", "--model", "broken:m"], 2, &[place]);
    check(
        &forge,
        &["models", "--provider", "broken"],
        1,
        &["broken: provider `broken` has an invalid base_url 'notaurl'"],
    );
    let mut command = forge.command(&["run", "task"]);
    let actual = outcome(command.env("OPENAI_BASE_URL", "notaurl").env("OPENAI_API_KEY", "k"));
    assert_eq!(actual.code, 2, "{}", actual.stderr);
    assert!(
        actual.stderr.contains("it comes from the environment variable OPENAI_BASE_URL"),
        "{}",
        actual.stderr
    );
}

#[test]
fn limits_are_said() {
    let server = ScriptedServer::start(vec![Step::calls(&[("list", "{}")]), Step::calls(&[("list", "{}")])]);
    let forge = Forge::new().with_file("forge.yaml", AGENT.replace("tools", "max_iterations: 2\n    tools"));
    let mut command = forge.command(&["run", "task"]);
    let actual = outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k"));
    assert_eq!(actual.code, 3, "{}", actual.stderr);
    assert!(actual.stderr.contains("max_iterations (2) is reached"), "{}", actual.stderr);
}

#[test]
fn an_assumed_window_is_said_once() {
    let server = ScriptedServer::start(vec![Step::calls(&[("list", "{}")]), Step::text("done")]);
    let forge = Forge::new();
    let mut command = forge.command(&["run", "task", "--model", "odd-model"]);
    let actual = outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k"));
    assert_eq!((actual.code, actual.stdout.as_str()), (0, "done\n"), "{}", actual.stderr);
    assert_eq!(actual.stderr.matches("128000 tokens are assumed").count(), 1, "{}", actual.stderr);
}

#[test]
fn a_window_that_a_run_learned_is_named_with_the_line_that_sets_it() {
    let refusal = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens";
    let refusal = serde_json::json!({"error": {"message": refusal}}).to_string();
    let read = |n: usize| Step::calls(&[("read", &format!("{{\"path\":\"notes{n}.txt\"}}"))]);
    let mut script: Vec<Step> = (0..6).map(read).collect();
    script.extend([Step::status(400, &refusal), Step::text("done"), Step::text("done again")]);
    let server = ScriptedServer::start(script);
    let yaml = AGENT.replace("models:\n  openai:scripted: { window: 8000 }\n", "");
    let notes = |forge: Forge, n: usize| {
        forge.with_file(&format!("notes{n}.txt"), format!("many words of {n}\n").repeat(250))
    };
    let forge = (0..6).fold(Forge::new().with_file("forge.yaml", yaml), notes);
    let run = |arguments: &[&str]| {
        let mut command = forge.command(arguments);
        let ran = outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k"));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.stderr
    };
    let setting = "`models: { 'openai:scripted': { window: 4096 } }`";
    let first = run(&["run", "task"]);
    let assumed = "the window of `openai:scripted` is unknown; 128000 tokens are assumed";
    assert_eq!(first.matches(assumed).count(), 1, "{first}");
    assert!(first.contains(&format!("from now on. To avoid this, set {setting}")), "{first}");
    assert!(!first.contains("tokens are sent to"), "{first}");
    // What was learned holds when the run is resumed, and is told instead of what would be assumed.
    let second = run(&["run", "--resume", "last", "more"]);
    assert!(second.contains("tokens are sent to `openai:scripted`") && second.contains(setting), "{second}");
    assert!(!second.contains("are assumed"), "{second}");
}

#[test]
fn a_task_may_be_piped_in() {
    let server = ScriptedServer::start(vec![Step::text("done")]);
    let forge = Forge::new().with_file("forge.yaml", AGENT);
    let mut command = forge.command(&["run"]);
    let command = command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k");
    assert_eq!(outcome(command.write_stdin("from a pipe\n")).code, 0);
    assert_eq!(server.requests()[0]["messages"][0]["content"], "from a pipe");
}

#[test]
fn what_is_piped_in_is_added_to_the_task() {
    let forge = Forge::new().with_file("forge.yaml", AGENT);
    let huge = "x".repeat((4 << 20) + 1);
    for (arguments, input, expected) in [
        (&["run", "Review."][..], "diff --git\n+ line\n", Ok("Review.\n\ndiff --git\n+ line")),
        (&["run", "Review."], "", Ok("Review.")),
        (&["run", "Review."], " \n", Ok("Review.")),
        (&["run", "-"], "from a pipe\n", Ok("from a pipe")),
        (&["run"], "from a pipe\n", Ok("from a pipe")),
        (&["run", "-"], "", Err("there is no task")),
        (&["run", "Review."], &huge, Err("stdin has more than 4 MiB")),
    ] {
        let server = ScriptedServer::start(vec![Step::text("done")]);
        let mut command = forge.command(arguments);
        let command = command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k");
        let actual = outcome(command.write_stdin(input.as_bytes().to_vec()));
        match expected {
            Ok(task) => {
                assert_eq!(actual.code, 0, "{}", actual.stderr);
                assert_eq!(server.requests()[0]["messages"][0]["content"], task);
            }
            Err(words) => {
                assert!(actual.code == 2 && actual.stderr.contains(words), "{}", actual.stderr);
                assert_eq!(server.requests().len(), 0);
            }
        }
    }
    let mut command = forge.command(&["run", "Review."]);
    let actual = outcome(command.env("OPENAI_API_KEY", "k").write_stdin(vec![b'a', 0xff]));
    assert!(actual.code == 2 && actual.stderr.contains("byte 2 is not UTF-8"), "{}", actual.stderr);
}

#[cfg(unix)]
#[test]
fn an_input_that_sends_nothing_is_named_or_given_up() {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    let server = ScriptedServer::start(vec![Step::text("done")]);
    let forge = Forge::new().with_file("forge.yaml", AGENT);
    let (theirs, _ours) = UnixStream::pair().unwrap();
    let start = |input: std::process::Stdio| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_forge_under_test"));
        command.env_clear().env("HOME", forge.path("")).current_dir(forge.path(""));
        command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k");
        command.args(["--trust", "run", "Review."]).stdin(input);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    let ran = start(OwnedFd::from(theirs).into()).wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success() && told.contains("nothing came on stdin in 3 s"), "{told}");
    assert_eq!(server.requests()[0]["messages"][0]["content"], "Review.");
    // What a shell pipes in may come late.
    let mut waiting = start(std::process::Stdio::piped());
    let mut line = String::new();
    let mut told = std::io::BufReader::new(waiting.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut told, &mut line).unwrap();
    assert!(line.contains("waiting for the end of stdin"), "{line}");
    waiting.kill().unwrap();
    waiting.wait().unwrap();
}

#[test]
fn providers_that_nobody_configured_are_not_waited_for() {
    let server = ScriptedServer::start(Vec::new());
    let mine = format!("providers: {{ mine: {{ kind: anthropic, base_url: '{}' }} }}\n", server.base_url());
    let forge = Forge::new().with_file("forge.yaml", mine);
    let actual = forge.run(&["models"]);
    assert_eq!((actual.code, actual.stdout.as_str()), (0, "mine:scripted\t-\n"), "{}", actual.stderr);
    assert!(actual.stderr.starts_with("not asked: "), "{}", actual.stderr);
    for words in ["openai (OPENAI_API_KEY is not set)", "to ask one, add --provider NAME"] {
        assert!(actual.stderr.contains(words), "{}", actual.stderr);
    }
    // What an agent uses is asked, and says what it lacks.
    let forge = Forge::new().with_file("forge.yaml", "agents: [{ id: a, model: openai:m }]\n");
    let actual = forge.run(&["models"]);
    assert!(actual.code == 1 && actual.stderr.contains("openai: "), "{}", actual.stderr);
    assert!(!actual.stderr.contains("openai (OPENAI"), "{}", actual.stderr);
}

#[test]
fn a_model_from_a_flag_or_the_environment_is_not_looked_for_in_a_file() {
    let forge = Forge::new().with_file("forge.yaml", AGENT);
    for (flag, variable, origin) in [
        (Some("opnai:x"), None, "flag --model: agents.reader.model"),
        (None, Some("opnai:x"), "environment variable FORGE_MODEL: agents.reader.model"),
        (Some("opnai:x"), Some("openai:scripted"), "flag --model"),
    ] {
        for command in [&["run", "task"][..], &["config", "check"]] {
            let flag: Vec<&str> = flag.into_iter().flat_map(|flag| ["--model", flag]).collect();
            let mut command = forge.command(&[command, &flag].concat());
            let command =
                variable.into_iter().fold(&mut command, |command, value| command.env("FORGE_MODEL", value));
            let actual = outcome(command);
            assert_eq!(actual.code, 2, "{}", actual.stderr);
            assert!(
                actual.stderr.contains(origin) && !actual.stderr.contains("forge.yaml:3"),
                "{}",
                actual.stderr
            );
        }
    }
    // A window that is too small is the model's, whoever names that.
    let long = AGENT
        .replace("models:\n", "models:\n  tiny: { window: 100, provider: openai }\n")
        .replace("tools: [read, list]", &format!("system_prompt: {}", "word ".repeat(300)));
    let forge = Forge::new().with_file("forge.yaml", long);
    check(
        &forge,
        &["config", "check", "--model", "tiny"],
        2,
        &["can never fit", "its model `tiny` comes from the flag --model"],
    );
}

#[test]
fn a_kind_of_earlier_versions_is_told_with_what_to_write() {
    let forge = Forge::new().with_file("forge.yaml", format!("{AGENT}  tail: {{ kind: genai }}\n"));
    let words = &["forge.yaml:9:17: providers.tail.kind", "`kind: genai` was removed", "`kind: gemini`"];
    check(&forge, &["config", "check"], 2, words);
}
