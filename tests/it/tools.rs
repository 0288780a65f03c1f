//! Tools as agents have them: what may be called, who is asked, and what no tool tells.

use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::forge::{Forge, Outcome, outcome};
#[cfg(target_os = "linux")]
use crate::pseudo_terminal::Terminal;

/// A folder with an agent that has these tools and keys.
fn forge(tools: &str, keys: &str) -> Forge {
    let yaml = format!(
        "agents: [{{ id: worker, model: openai:scripted, tools: [{tools}] }}]\nproviders: {{ openai: {{ retries: 0 }} }}\n{keys}"
    );
    Forge::new().with_file("forge.yaml", yaml)
}

fn run(forge: &Forge, server: &ScriptedServer) -> Outcome {
    let mut command = forge.command(&["run", "Do it."]);
    let path = std::env::var("PATH").unwrap();
    let actual = outcome(
        command
            .env("OPENAI_BASE_URL", server.base_url())
            .env("OPENAI_API_KEY", "sk-planted-1234")
            .env("PATH", path),
    );
    let expected = if actual.stderr.contains("\ndenied: ") { 7 } else { 0 };
    assert_eq!(actual.code, expected, "{}", actual.stderr);
    actual
}

/// What the model reads of the calls of the `n`-th request.
fn results(server: &ScriptedServer, n: usize) -> Vec<String> {
    let requests = server.requests();
    let messages = requests[n]["messages"].as_array().unwrap().iter();
    let results = messages.filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

fn shell(line: &str) -> String {
    json!({ "command": line }).to_string()
}

/// Runs these calls at once and gives what the model read.
fn answers(forge: &Forge, calls: &[(&str, &str)]) -> Vec<String> {
    let server = ScriptedServer::start(vec![Step::calls(calls), Step::text("done")]);
    run(forge, &server);
    results(&server, 1)
}

#[test]
fn a_tool_that_there_is_not_is_answered_with_those_that_there_are() {
    let forge = forge("read, list", "").with_file("a", "one\n");
    let calls =
        [("read_file", r#"{"path": "a"}"#), ("search", r#"{"pattern": "one"}"#), ("look", "{}"), ("", "{}")];
    let expected = [
        "there is no tool `read_file` (expected one of list, read, recall); `read` does what it does",
        "there is no tool `search` (expected one of list, read, recall)",
        "there is no tool `look` (expected one of list, read, recall)",
        "this call could not be read, or names no tool (expected one of list, read, recall); call one with its \
         arguments as JSON",
    ];
    assert_eq!(answers(&forge, &calls), expected);
}

#[test]
fn what_needs_consent_is_not_done_where_nobody_can_answer() {
    let forge = forge("read, write, patch, shell, fetch, ask", "").with_file("a", "one\n");
    let edit = r#"{"path": "a", "edits": [{"old_text": "one", "new_text": "two"}]}"#;
    let line = shell("touch planted");
    let calls = [
        ("read", r#"{"path": "a"}"#),
        ("write", r#"{"path": "b", "content": "x"}"#),
        ("patch", edit),
        ("shell", &line),
        ("fetch", r#"{"url": "http://127.0.0.1:9/"}"#),
        ("ask", r#"{"question": "Which?"}"#),
    ];
    let actual = answers(&forge, &calls);
    assert_eq!(actual[0], "one\n");
    for (result, what) in actual[1..5].iter().zip([
        "`write` was not called for `b`",
        "`patch` was not called for `a`",
        "`shell` was not called for `touch planted`",
        "`fetch` was not called for `127.0.0.1:9/`",
    ]) {
        assert!(result.starts_with(what) && result.contains("no one can answer here"), "{result}");
    }
    assert!(actual[5].starts_with("no one can answer here"), "{}", actual[5]);
    assert!(!forge.path("b").exists() && !forge.path("planted").exists());
    assert_eq!(std::fs::read_to_string(forge.path("a")).unwrap(), "one\n");
}

#[cfg(unix)]
#[test]
fn rules_allow_and_forbid_by_what_a_call_is_about() {
    let rules = "permissions:\n  write: { 'out/**': allow }\n  shell: { 'echo *': allow, 'touch allowed': allow, 'cat *': deny }\n";
    let forge = forge("write, shell", rules);
    std::os::unix::fs::symlink(".", forge.path("out-link")).unwrap();
    std::fs::create_dir(forge.path("out")).unwrap();
    std::os::unix::fs::symlink("../real", forge.path("out/link")).unwrap();
    std::fs::create_dir(forge.path("real")).unwrap();
    let write = |path: &str| json!({"path": path, "content": "x"}).to_string();
    let allowed = [shell("echo hi; touch allowed"), write("out/a"), write("./out/b/c")];
    let calls: Vec<(&str, &str)> =
        vec![("shell", &allowed[0]), ("write", &allowed[1]), ("write", &allowed[2])];
    assert_eq!(answers(&forge, &calls), ["hi\n", "created `out/a` (1 line)", "created `./out/b/c` (1 line)"]);
    assert!(forge.path("allowed").exists());

    let lines = [
        "touch planted",
        "echo x; touch planted",
        "echo x && touch planted",
        "echo x | touch planted",
        "echo x & touch planted",
        "echo x\ntouch planted",
        "echo $(touch planted)",
        "echo `touch planted`",
        "echo \"$(touch planted)\"",
        "echo x > planted",
        "echo x >> planted",
        "touch allowed planted",
        "echo <(touch planted)",
        "cat forge.yaml",
        "/bin/cat forge.yaml",
        "c\\at forge.yaml",
        "env touch planted",
        "X=1 touch planted",
        "{ touch planted; }",
    ];
    let lines: Vec<String> = lines.iter().map(|line| shell(line)).collect();
    let paths =
        ["planted", "out/../planted", "out/link/planted", "out-link/planted", "forge.yaml"].map(write);
    let calls: Vec<(&str, &str)> = lines.iter().map(|line| ("shell", line.as_str())).collect();
    let calls = [calls, paths.iter().map(|path| ("write", path.as_str())).collect()].concat();
    let yaml = std::fs::read_to_string(forge.path("forge.yaml")).unwrap();
    for (result, (tool, arguments)) in answers(&forge, &calls).iter().zip(&calls) {
        assert!(result.starts_with(&format!("`{tool}` was not called for ")), "{arguments}: {result}");
        assert_eq!(
            result.contains("the permissions of this run forbid it"),
            arguments.contains("at forge"),
            "{arguments}: {result}"
        );
    }
    let planted = ["planted", "real/planted"].map(|path| forge.path(path).exists());
    assert_eq!((planted, std::fs::read_to_string(forge.path("forge.yaml")).unwrap()), ([false, false], yaml));
}

#[test]
fn an_agents_rules_stand_above_those_of_the_workflow() {
    let yaml = "\
permissions: { write: allow, '*': { 'secrets/**': deny } }
agents:
  - { id: worker, model: openai:scripted, tools: [read, search, write], permissions: { write: { 'b': deny } } }
providers: { openai: { retries: 0 } }
";
    let forge = Forge::new().with_file("forge.yaml", yaml);
    std::fs::create_dir(forge.path("secrets")).unwrap();
    std::fs::write(forge.path("secrets/key"), "planted").unwrap();
    let calls = [
        ("write", r#"{"path": "a", "content": "x"}"#),
        ("write", r#"{"path": "b", "content": "x"}"#),
        ("read", r#"{"path": "secrets/key"}"#),
        ("read", r#"{"path": "./secrets/../secrets/key"}"#),
        ("search", r#"{"pattern": "plant"}"#),
        ("search", r#"{"pattern": "plant", "path": "secrets"}"#),
    ];
    let actual = answers(&forge, &calls);
    assert_eq!(actual[0], "created `a` (1 line)");
    for result in actual[1..4].iter().chain(&actual[5..]) {
        assert!(result.contains("was not called for") && !result.contains("planted"), "{result}");
    }
    let left_out = "; 1 file left out: denied by `secrets/**: deny`; 1 place left out for keys: \
                    `.local/state/forge`; name one as `path` to have the user asked]";
    assert!(actual[4].starts_with("[nothing found in ") && actual[4].ends_with(left_out), "{}", actual[4]);
    let wrong =
        yaml.replace("{ 'b': deny }", "{ 'b': never }").replace("{ write: allow, ", "{ wriet: allow, ");
    std::fs::write(forge.path("forge.yaml"), wrong).unwrap();
    let checked = forge.run(&["config", "check"]);
    assert_eq!(checked.code, 2);
    assert!(checked.stderr.contains("unknown permission `never`"), "{}", checked.stderr);
    std::fs::write(forge.path("forge.yaml"), yaml.replace("{ write: allow, ", "{ wriet: allow, ")).unwrap();
    let checked = forge.run(&["config", "check"]);
    let expected = "there is no tool `wriet` (expected one of";
    assert!(checked.code == 2 && checked.stderr.contains(expected), "{}", checked.stderr);
}

#[test]
fn a_search_leaves_out_what_may_not_be_read_where_nobody_can_answer() {
    let rules = "permissions: { read: { '.env': deny }, '*': { 'private/**': deny, 'drafts/**': ask } }\n";
    let forge = forge("read, list, search", rules)
        .with_file(".env", "KEY=planted\n")
        .with_file("a.txt", "KEY=none\n");
    for folder in ["private", "drafts"] {
        std::fs::create_dir(forge.path(folder)).unwrap();
        std::fs::write(forge.path(folder).join("b.txt"), "KEY=planted\n").unwrap();
    }
    let calls = [
        ("search", r#"{"pattern": "KEY", "files": "{.env,*.txt}"}"#),
        ("search", r#"{"pattern": "KEY", "path": ".env"}"#),
        ("list", r#"{"path": "private/.."}"#),
        ("list", r#"{"path": "private"}"#),
        ("search", r#"{"pattern": "KEY", "path": "drafts"}"#),
        ("read", r#"{"path": ".env"}"#),
    ];
    let actual = answers(&forge, &calls);
    let because = "denied by `.env: deny`, `private/**: deny`; not shown without consent by `drafts/**: ask`";
    let keys = "1 place left out for keys: `.local/state/forge`; name one as `path` to have the user asked";
    assert_eq!(actual[0], format!("a.txt:1: KEY=none\n[3 files left out: {because}; {keys}]"));
    assert!(
        actual[1].starts_with("`search` was not called for `.env: an environment file`"),
        "{}",
        actual[1]
    );
    assert!(actual[2].contains(".env\n") && !actual[2].contains("private/\n"), "{}", actual[2]);
    for (result, why) in actual[3..].iter().zip(["forbid it", "no one can answer here", "forbid it"]) {
        assert!(result.contains("was not called for") && result.contains(why), "{result}");
    }
}

/// No command can read the key that the run is made with, unless it stands in a file of the workspace. That file is data: the
/// model reads what stands in it, and people are not shown the key.
#[cfg(unix)]
#[test]
fn a_key_is_given_to_no_command_and_shown_to_nobody() {
    let forge = forge("read, shell", "permissions: { shell: allow }\n")
        .with_file(".env", "OPENAI_API_KEY=sk-planted-1234\n");
    std::fs::create_dir_all(forge.path(".config/forge")).unwrap();
    let own = "permissions: { secrets: { '.env': allow } }\n";
    std::fs::write(forge.path(".config/forge/forge.yaml"), own).unwrap();
    let lines =
        [shell("env; echo $OPENAI_API_KEY"), shell("cat .env"), shell("echo sk-planted-1234 >&2; exit 3")];
    let mut calls: Vec<(&str, &str)> = lines.iter().map(|line| ("shell", line.as_str())).collect();
    calls.push(("read", r#"{"path": ".env"}"#));
    calls.push(("read", r#"{"path": "sk-planted-1234"}"#));
    let server = ScriptedServer::start(vec![Step::calls(&calls), Step::text("done")]);
    let actual = run(&forge, &server);
    let told = results(&server, 1);
    let has_key: Vec<bool> = told.iter().map(|result| result.contains("sk-planted-1234")).collect();
    assert_eq!(has_key, [false, true, true, true, true], "{told:?}");
    assert!(told.iter().all(|result| !result.contains("(key hidden)")), "{told:?}");
    assert!(
        actual.stderr.contains("(key hidden)") && !actual.stderr.contains("sk-planted"),
        "{}",
        actual.stderr
    );
}

#[test]
fn arguments_that_cannot_be_used_are_told_and_those_that_can_are() {
    let forge = forge("read", "").with_file("a", "one\ntwo\n");
    let calls = [
        ("read", r#"{"path": "a", "offset": "2"}"#),
        ("read", r#"{"path": "a", "offset": "two"}"#),
        ("read", r#"{"file": "a"}"#),
        ("read", r#"{"path": "#),
    ];
    let actual = answers(&forge, &calls);
    assert_eq!(actual[0], "two\n");
    assert_eq!(actual[1], r#"`offset` must be a whole number, not "two""#);
    assert_eq!(actual[2], "unknown argument `file` (expected one of path, offset, limit); `path` is missing");
    assert!(actual[3].starts_with("the arguments are not JSON"), "{}", actual[3]);
}

#[test]
fn a_large_result_is_seen_in_part_and_fetched_back() {
    let text: String = (1..=1_500).map(|n| format!("line {n} of the log\n")).collect();
    let yaml = "\
agents: [{ id: worker, model: openai:scripted, tools: [read], max_result_tokens: 300 }]
providers: { openai: { retries: 0 } }
";
    let forge =
        Forge::new().with_file("forge.yaml", yaml).with_file("log", &text).with_file("small", "one\n");
    let server = ScriptedServer::start(vec![
        Step::calls(&[("read", r#"{"path": "small"}"#), ("read", r#"{"path": "log"}"#)]),
        Step::calls(&[("recall", r#"{"ref": "m3", "offset": 900}"#)]),
        Step::text("done"),
        Step::text("again"),
    ]);
    run(&forge, &server);
    let seen = results(&server, 1);
    assert_eq!(seen[0], "one\n");
    let note = seen[1].lines().find(|line| line.starts_with('[')).unwrap();
    assert!(
        note.starts_with("[m3 shortened: of ") && note.contains(" tokens in 1500 lines, line "),
        "{note}"
    );
    assert!(
        seen[1].starts_with("line 1 of the log\n") && seen[1].ends_with("line 1500 of the log\n"),
        "{}",
        seen[1]
    );
    assert!(seen[1].len() < 3_000, "{}", seen[1].len());
    let offered = |n: usize| server.requests()[n]["tools"].to_string().contains("\"recall\"");
    assert_eq!((offered(0), offered(1)), (true, true));
    let recalled = &results(&server, 2)[2];
    assert!(recalled.contains("\nline 900 of the log\n"), "{recalled}");
    // What was seen stays as it was seen, also by a later process.
    let mut command = forge.command(&["run", "--resume", "last", "Go on."]);
    let resumed =
        outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "sk-planted-1234"));
    assert_eq!((resumed.code, resumed.stdout.as_str()), (0, "again\n"), "{}", resumed.stderr);
    let requests = server.requests();
    let first = requests[2]["messages"].as_array().unwrap();
    assert_eq!(requests[3]["messages"].as_array().unwrap()[..first.len()], first[..]);
    // The whole is kept.
    let whole = forge.run(&["checkpoints", "export", "last", "-o", "whole.json"]);
    assert_eq!(whole.code, 0, "{}", whole.stderr);
    assert!(std::fs::read_to_string(forge.path("whole.json")).unwrap().contains("line 700 of the log"));
}

/// At a terminal the person answers, and says which calls may be made.
#[cfg(target_os = "linux")]
#[test]
fn a_person_at_the_terminal_is_asked() {
    let forge = forge("ask, shell", "");
    let lines = ["echo once >> out", "echo refused >> out", "touch for-ever"].map(shell);
    let shell = |line: &str| Step::calls(&[("shell", line)]);
    let server = ScriptedServer::start(vec![
        Step::calls(&[("ask", r#"{"question": "Which colour?", "options": ["red", "blue"]}"#)]),
        shell(&lines[0]),
        shell(&lines[1]),
        // Of two at once that are about the same, one is asked about.
        Step::calls(&[("shell", &lines[2]), ("shell", &lines[2])]),
        shell(&lines[2]),
        Step::text("done"),
    ]);
    let mut terminal = Terminal::start(100, 40, |line| {
        let mut command = forge.process();
        command
            .args(["run", "Do it."])
            .env("PATH", std::env::var("PATH").unwrap())
            .env("TERM", "xterm")
            .env("OPENAI_BASE_URL", server.base_url())
            .env("OPENAI_API_KEY", "sk-planted-1234");
        command.stdin(line()).stdout(line()).stderr(line());
        command
    });
    terminal.sees("? a question, not in Forge's words:");
    terminal.sees("│ Which colour?");
    terminal.sees("2. blue");
    terminal.sees(">");
    terminal.types("2\n");
    terminal.sees("worker wants to call shell:");
    terminal.sees("command: echo once >> out");
    terminal.sees("[y] once");
    terminal.types("y");
    terminal.sees("echo refused >> out");
    terminal.sees("[y] once");
    terminal.types("use another file\n");
    terminal.sees("touch for-ever");
    terminal.sees("[y] once");
    terminal.types("a");
    let ended = terminal.ends();
    assert_eq!(ended.code, Some(0), "{}", ended.shown);
    let actual = results(&server, 5);
    assert_eq!(actual[0], "blue");
    assert_eq!(actual[1], "[it printed nothing]");
    assert!(actual[2].contains("the user does not want it: use another file"), "{}", actual[2]);
    assert_eq!(actual[3..], ["[it printed nothing]"; 3].map(str::to_owned));
    assert_eq!(std::fs::read_to_string(forge.path("out")).unwrap(), "once\n");
    assert!(forge.path("for-ever").exists());
}
