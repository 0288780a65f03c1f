//! Secrets are planted wherever they may be given, and looked for in everything that comes out.

use std::fmt::Write;

use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::forge::{Forge, outcome};

const KEY: &str = "sk-planted-in-the-environment";
const HEADER: &str = "planted-in-a-header";
const NAMED_HEADER: &str = "planted-in-a-named-header";
const PASSWORD: &str = "planted-in-the-address";
const QUERY: &str = "planted-in-the-query";
const ALL: [&str; 5] = [KEY, HEADER, NAMED_HEADER, PASSWORD, QUERY];

/// A provider that is given every secret there is a place for.
fn yaml(kind: &str, server: &ScriptedServer, retries: usize) -> String {
    let address = server.base_url().replace("http://", &format!("http://me:{PASSWORD}@"));
    format!(
        "providers:\n  p:\n    kind: {kind}\n    base_url: '{address}?token={QUERY}'\n    api_key_env: PLANTED_KEY\n    \
         headers: {{ x-plain: {HEADER}, x-named: $PLANTED_HEADER }}\n    retries: {retries}\n\
         models: {{ 'p:scripted': {{ window: 9000 }} }}\n\
         hooks:\n  pre_compact: [{{ command: 'env > hook.txt' }}]\n\
         agents: [{{ id: a, model: 'p:scripted', tools: [read, list], \
         compact: {{ message_threshold: 4, strategies: [sliding_window] }} }}]\n"
    )
}

/// A folder of a person whose own file has secrets in it: a project's would not be trusted.
fn with_own_file(yaml: &str) -> Forge {
    let forge = Forge::new();
    std::fs::create_dir_all(forge.path(".config/forge")).unwrap();
    forge.with_file(".config/forge/forge.yaml", yaml)
}

/// All that is wrong with what came out: where which secret is.
fn leaks(what: &str, text: &str) -> String {
    ALL.iter().filter(|secret| text.contains(**secret)).fold(String::new(), |mut leaks, secret| {
        let at = text.find(*secret).unwrap_or_default();
        let before = text[..at].char_indices().rev().nth(80).map_or(0, |(start, _)| start);
        let _ = writeln!(leaks, "{what} has `{secret}` after …{}", &text[before..at]);
        leaks
    })
}

#[test]
fn no_secret_comes_out_anywhere() {
    let echo =
        format!("bad request of {KEY} with {HEADER} and {NAMED_HEADER} at me:{PASSWORD}@host?token={QUERY}");
    let said = json!({"error": {"message": echo}}).to_string();
    let list = || Step::calls(&[("list", r#"{"path": "."}"#)]);
    let moved = Step::Headed {
        status: 307,
        headers: vec![(
            "location".to_owned(),
            format!("http://me:{PASSWORD}@127.0.0.1:9/?token={QUERY}&key={KEY}"),
        )],
        body: String::new(),
    };
    let mut found = String::new();
    for kind in ["openai", "responses", "anthropic", "ollama"] {
        for (what, script) in [
            ("a run with compactions", vec![list(), list(), list(), list(), Step::text("done")]),
            ("a refused key", vec![Step::status(401, &said)]),
            ("a refused request", vec![Step::status(400, &said)]),
            ("an unknown model", vec![Step::status(404, &said)]),
            ("a retry", vec![Step::status(500, &said), Step::text("done")]),
            ("an error that is no JSON", vec![Step::status(400, &echo)]),
            ("an error in an answer", vec![Step::status(200, &said)]),
            ("an error in a stream", vec![Step::StreamEvent(said.clone()), Step::text("done")]),
            (
                "a stream of nonsense",
                vec![Step::StreamEvent(echo.clone()), Step::StreamEvent(echo.clone()), Step::text("done")],
            ),
            ("a redirect", vec![moved.clone()]),
            ("a dead connection", vec![Step::HangUp]),
        ] {
            let server = ScriptedServer::start(script);
            let forge = with_own_file(&yaml(kind, &server, usize::from(what == "a retry")));
            let run = ["run", "look around", "--record", "record.json", "--report", "report.json"];
            let look: [(&[&str], &str); 10] = [
                (&run, "trace"),
                (&["models", "--provider", "p"], "trace"),
                (&["doctor"], "trace"),
                (&["doctor", "--json"], "off"),
                (&["config", "show"], "debug"),
                (&["config", "show", "--json"], "off"),
                (&["config", "check"], "trace"),
                (&["checkpoints", "show", "last", "--full"], "trace"),
                (&["checkpoints", "export", "last"], "trace"),
                (&["checkpoints", "export", "last", "--to", "openai"], "trace"),
            ];
            // The server tells all but runs the same.
            let n_commands = if what == "a run with compactions" { look.len() } else { 1 };
            for (arguments, log) in look.into_iter().take(n_commands) {
                let mut command = forge.command(arguments);
                command.env("PLANTED_KEY", KEY).env("PLANTED_HEADER", NAMED_HEADER).env("FORGE_LOG", log);
                let actual = outcome(&mut command);
                let name = format!("{kind}, {what}: {arguments:?}");
                found += &leaks(&format!("{name} stdout"), &actual.stdout);
                found += &leaks(&format!("{name} stderr"), &actual.stderr);
                if what == "a refused request" {
                    assert!(actual.stderr.contains("(key hidden)"), "{name}: {}", actual.stderr);
                }
                if what == "a run with compactions" {
                    // A check says that secrets stand in the file, and not which.
                    let expected = if arguments == ["config", "check"] { 2 } else { 0 };
                    assert_eq!(actual.code, expected, "{name}: {}", actual.stderr);
                }
            }
            for request in server.requests() {
                found += &leaks(&format!("{kind}, {what}: a request's body"), &request.to_string());
            }
            for entry in std::fs::read_dir(forge.path("")).unwrap().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if entry.path().is_file() && name != "forge.yaml" {
                    let text = String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()).into_owned();
                    found += &leaks(&format!("{kind}, {what}: the file {name}"), &text);
                }
            }
            if what == "a run with compactions" {
                assert!(forge.path("hook.txt").exists() && forge.path("record.json").exists());
            }
        }
    }
    assert!(found.is_empty(), "{found}");
}

/// A run whose provider has that key, with tools that change files.
fn editing(kind: &str, server: &ScriptedServer) -> Forge {
    let yaml = format!(
        "providers: {{ p: {{ kind: {kind}, base_url: '{}', api_key_env: PLANTED_KEY }} }}\n\
         models: {{ 'p:scripted': {{ window: 9000 }} }}\npermissions: {{ '*': allow }}\n\
         agents: [{{ id: a, model: 'p:scripted', tools: [read, write, patch] }}]\n",
        server.base_url()
    );
    Forge::new().with_file("forge.yaml", yaml)
}

#[test]
fn a_placeholder_for_a_key_changes_nothing_anywhere() {
    for kind in ["openai", "responses", "anthropic", "ollama"] {
        for key in ["ollama", "lm-studio", "not-needed", "sk-no-key-required"] {
            let text = format!("start {key} first\n");
            let write = json!({"path": format!("{key}.txt"), "content": text}).to_string();
            let said = format!("{key} is started");
            let server =
                ScriptedServer::start(vec![Step::calls(&[("write", &write)]), Step::text(said.clone())]);
            let forge = editing(kind, &server);
            let actual = outcome(forge.command(&["run", "go", "--record", "r.json"]).env("PLANTED_KEY", key));
            assert_eq!(
                (actual.code, actual.stdout.trim()),
                (0, said.as_str()),
                "{kind} {key} {}",
                actual.stderr
            );
            assert_eq!(
                std::fs::read_to_string(forge.path(&format!("{key}.txt"))).unwrap(),
                text,
                "{kind} {key}"
            );
            let record = std::fs::read_to_string(forge.path("r.json")).unwrap();
            assert!(record.contains(key) && !record.contains("hidden"), "{kind} {key}: {record}");
            assert!(actual.stderr.contains(key) && !actual.stderr.contains("hidden"), "{}", actual.stderr);
        }
    }
}

/// Lets the model be shown what a file of the folder holds.
fn allow_secrets(forge: &Forge) {
    std::fs::create_dir_all(forge.path(".config/forge")).unwrap();
    let rules = "permissions: { secrets: { '.env': allow } }\n";
    std::fs::write(forge.path(".config/forge/forge.yaml"), rules).unwrap();
}

#[test]
fn a_key_in_a_file_survives_the_models_edits_and_is_shown_to_nobody() {
    let before = format!("KEY={KEY}\nDEBUG=0\n");
    let edit = json!({"path": ".env", "edits": [
        {"old_text": before, "new_text": format!("KEY={KEY}\nDEBUG=1\n")}]})
    .to_string();
    let copy = json!({"path": "copy.env", "content": before}).to_string();
    for kind in ["openai", "responses", "anthropic", "ollama"] {
        let said = format!("the key is still {KEY}");
        let server = ScriptedServer::start(vec![
            Step::calls(&[("read", r#"{"path": ".env"}"#)]),
            Step::calls(&[("patch", &edit), ("write", &copy)]),
            Step::text(said.clone()),
        ]);
        let forge = editing(kind, &server).with_file(".env", &before);
        allow_secrets(&forge);
        let mut command =
            forge.command(&["run", "switch debugging on", "--log-file", "log.txt", "--log", "trace"]);
        let actual = outcome(command.env("PLANTED_KEY", KEY));
        assert_eq!((actual.code, actual.stdout.trim()), (0, said.as_str()), "{kind}: {}", actual.stderr);
        let read = |name: &str| std::fs::read_to_string(forge.path(name)).unwrap();
        assert_eq!(read(".env"), before.replace("DEBUG=0", "DEBUG=1"), "{kind}");
        assert_eq!(read("copy.env"), before, "{kind}");
        // The model was given what stands in the file.
        assert!(server.requests()[1].to_string().contains(KEY), "{kind}");
        assert!(actual.stderr.contains("(key hidden)"), "{kind}: {}", actual.stderr);
        let found = leaks("stderr", &actual.stderr) + &leaks("the log", &read("log.txt"));
        assert!(found.is_empty(), "{kind}: {found}");
    }
}
