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
            &["forge.yaml:4:12", "no tool `delete`", "read, list"],
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
    check(&forge, &["run", "task", "--agent", "writer"], 2, &["no agent `writer`", "known are: reader"]);
    check(&forge, &["run", "task"], 2, &["provider `openai` needs a key", "OPENAI_API_KEY"]);
    check(&forge, &["run", "task", "--provider", "opnai"], 2, &["opnai", "openai"]);
    check(&forge, &["run"], 2, &["there is no task"]);
    check(&forge, &["replay", "nowhere.json"], 1, &["cannot read the session nowhere.json"]);
    check(&forge, &["replay", "nowhere.json", "--window", "huge"], 2, &["huge", "8k"]);
    check(
        &Forge::new(),
        &["run", "task"],
        2,
        &["no agent and no model is configured", "OPENAI_API_KEY", "forge.yaml"],
    );
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
        ("other.json", &["other.json", "tau-bench", "Claude Code"]),
        ("odd.json", &["odd.json", "1"]),
    ] {
        check(&forge, &["replay", file], 1, words);
    }
    check(&forge, &["replay", "good.json", "--session", "nine"], 2, &["no session `nine`", "good.json"]);
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
        (Step::CutStream, &["broke off before its end"]),
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
fn an_old_record_survives_a_run_that_never_gets_an_answer() {
    let forge = Forge::new().with_file("forge.yaml", AGENT).with_file("session.json", "precious");
    let server = ScriptedServer::start(vec![Step::status(500, "{}")]);
    let mut command = forge.command(&["run", "task", "--record", "session.json"]);
    outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k"));
    assert_eq!(std::fs::read_to_string(forge.path("session.json")).unwrap(), "precious");
}

#[test]
fn limits_are_said() {
    let server = ScriptedServer::start(vec![Step::calls(&[("list", "{}")]), Step::calls(&[("list", "{}")])]);
    let forge = Forge::new().with_file("forge.yaml", AGENT.replace("tools", "max_iterations: 2\n    tools"));
    let mut command = forge.command(&["run", "task"]);
    let actual = outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k"));
    assert_eq!(actual.code, 0, "{}", actual.stderr);
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
fn a_task_may_be_piped_in() {
    let server = ScriptedServer::start(vec![Step::text("done")]);
    let forge = Forge::new().with_file("forge.yaml", AGENT);
    let mut command = forge.command(&["run"]);
    let command = command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k");
    assert_eq!(outcome(command.write_stdin("from a pipe\n")).code, 0);
    assert_eq!(server.requests()[0]["messages"][0]["content"], "from a pipe");
}
