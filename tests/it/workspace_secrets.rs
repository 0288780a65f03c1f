//! Secrets in the workspace: who is asked before a model reads them, and what is left out otherwise.

use std::fs;

use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::forge::{Forge, Outcome, outcome};

/// A value of the shape of a GitHub token; in two parts, so that no scanner stops at this file.
fn token() -> String {
    ["gh", "p_Vb7KqZ2mXw9RtYc4NsLd8PfGh3JkAeUo6TiB"].concat()
}

/// A private key that nobody has.
fn key() -> String {
    let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n".repeat(4);
    format!("-----BEGIN {0}-----\n{body}-----END {0}-----\n", "PRIVATE KEY")
}

/// A folder with secrets, an agent that may call everything, and the user's own rules.
fn forge(own: &str, project: &str) -> Forge {
    let yaml = format!(
        "agents: [{{ id: worker, model: openai:scripted, tools: [read, list, search, patch, shell] }}]\n\
         providers: {{ openai: {{ retries: 0 }} }}\n{project}\n"
    );
    let forge = Forge::new()
        .with_file("forge.yaml", yaml)
        .with_file(".env", "PASSWORD=hunter2\n")
        .with_file(".env.example", "PASSWORD=\n")
        .with_file("config.yml", format!("one: 1\ntoken: {}\nthree: 3\n", token()))
        .with_file("deploy.txt", format!("first\n{}last\n", key()))
        .with_file("lock.json", format!("{{\"integrity\": \"sha512-{}==\"}}\n", "aB3dE6gH9".repeat(9)))
        .with_file("notes.txt", "one: nothing\n");
    fs::create_dir_all(forge.path(".config/forge")).unwrap();
    fs::write(forge.path(".config/forge/forge.yaml"), own).unwrap();
    forge
}

fn run(forge: &Forge, server: &ScriptedServer) -> Outcome {
    let actual = outcome(
        forge
            .command(&["run", "Do it."])
            .env("OPENAI_BASE_URL", server.base_url())
            .env("OPENAI_API_KEY", "planted")
            .env("PATH", std::env::var("PATH").unwrap()),
    );
    let expected = if actual.stderr.contains("\ndenied: ") { 7 } else { 0 };
    assert_eq!(actual.code, expected, "{}", actual.stderr);
    actual
}

/// Runs these calls at once and gives what the model read.
fn answers(forge: &Forge, calls: &[(&str, &str)]) -> Vec<String> {
    let server = ScriptedServer::start(vec![Step::calls(calls), Step::text("done")]);
    run(forge, &server);
    let requests = server.requests();
    let messages = requests[1]["messages"].as_array().unwrap().iter();
    let results = messages.filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

fn read(path: &str) -> String {
    json!({ "path": path }).to_string()
}

fn shell(line: &str) -> String {
    json!({ "command": line }).to_string()
}

/// Nothing of a secret is in what the model read.
fn is_clean(text: &str) -> bool {
    !text.contains("hunter2")
        && !text.contains(&token()[4..])
        && !text.contains("BEGIN PRIVATE")
        && !text.contains("MIIEv")
}

#[test]
fn a_file_of_secrets_is_not_read_where_nobody_can_answer() {
    let forge = forge("permissions: { '*': allow }", "");
    for (tool, arguments, reason, rule) in [
        ("read", read(".env"), "`.env: an environment file`", "secrets: { '.env': allow }"),
        ("read", read("config.yml"), "it holds a GitHub token in line 2", "secrets: { 'config.yml': allow }"),
        (
            "read",
            read("deploy.txt"),
            "it holds a private key in the lines 2 to 7",
            "secrets: { 'deploy.txt': allow }",
        ),
        (
            "read",
            json!({"path": "deploy.txt", "offset": 4, "limit": 1}).to_string(),
            "it holds a private key in line 4",
            "secrets: { 'deploy.txt': allow }",
        ),
        (
            "search",
            json!({"pattern": ".", "path": "config.yml"}).to_string(),
            "it holds a GitHub token in line 2",
            "secrets: { 'config.yml': allow }",
        ),
        (
            "search",
            json!({"pattern": ".", "path": ".env"}).to_string(),
            "an environment file",
            "secrets: { '.env': allow }",
        ),
        (
            "patch",
            json!({"path": ".env", "edits": [{"old_text": "PASSWORD", "new_text": "P"}]}).to_string(),
            "an environment file",
            "secrets: { '.env': allow }",
        ),
        ("shell", shell("cat .env"), "an environment file", "secrets: { '.env': allow }"),
    ] {
        let actual = answers(&forge, &[(tool, &arguments)]).remove(0);
        assert!(is_clean(&actual), "{tool} {arguments}: {actual}");
        for part in [reason, rule, "own forge.yaml", "no one can answer"] {
            assert!(actual.contains(part), "{tool} {arguments}: no `{part}` in {actual}");
        }
    }
    assert_eq!(fs::read_to_string(forge.path(".env")).unwrap(), "PASSWORD=hunter2\n");
}

#[test]
fn what_holds_no_secret_is_shown() {
    let forge = forge("permissions: { '*': allow }", "");
    let mid = json!({"path": "config.yml", "offset": 3}).to_string();
    let actual = answers(
        &forge,
        &[
            ("read", &read(".env.example")),
            ("read", &read("notes.txt")),
            ("read", &mid),
            ("read", &read("lock.json")),
            ("shell", &shell("cp .env.example copy && test -f .env && echo there")),
        ],
    );
    assert_eq!(actual[..3], ["PASSWORD=\n", "one: nothing\n", "three: 3\n"]);
    assert!(actual[3].contains("sha512-"), "{}", actual[3]);
    assert_eq!(actual[4], "there\n");
}

#[test]
fn a_search_leaves_out_what_would_show_a_secret() {
    let forge = forge("permissions: { '*': allow }", "");
    let search = |pattern: &str| json!({ "pattern": pattern }).to_string();
    let actual =
        answers(&forge, &[("search", &search("one|PASSWORD|token|MIIE")), ("search", &search("^three"))]);
    assert!(is_clean(&actual[0]), "{}", actual[0]);
    for part in [
        ".env.example:1: PASSWORD=",
        "notes.txt:1: one: nothing",
        "3 files left out for secrets: `.env` (an environment file), `config.yml` (a GitHub token), `deploy.txt` (a private key)",
        "name one as `path` to have the user asked",
    ] {
        assert!(actual[0].contains(part), "no `{part}` in {}", actual[0]);
    }
    // Another line of the file is no secret.
    assert!(actual[1].starts_with("config.yml:3: three: 3"), "{}", actual[1]);
}

#[test]
fn a_search_shows_the_secrets_of_files_that_a_rule_allows() {
    let own = "permissions: { '*': allow, secrets: { '.env': allow, 'config.yml': allow } }";
    let search = json!({ "pattern": "PASSWORD|token|MIIE" }).to_string();
    let forge = forge(own, "");
    let actual = answers(&forge, &[("search", &search)]);
    for part in [
        ".env:1: PASSWORD=hunter2".to_owned(),
        format!("config.yml:2: token: {}", token()),
        "1 file left out for secrets: `deploy.txt` (a private key)".to_owned(),
    ] {
        assert!(actual[0].contains(&part), "no `{part}` in {}", actual[0]);
    }
    assert!(!actual[0].contains("withheld"), "{}", actual[0]);
    let log = forge.run(&["log", "last", "--actions"]);
    for part in
        [".env: an environment file in line 1 (search)", "config.yml: a GitHub token in line 2 (search)"]
    {
        assert!(log.stdout.contains(part), "no `{part}` in {}", log.stdout);
    }
}

#[test]
fn whole_lines_of_an_output_are_withheld_with_a_note() {
    let forge = forge("permissions: { '*': allow }", "");
    let actual = answers(
        &forge,
        &[("shell", &shell("cat config.yml deploy.txt")), ("shell", &shell("cat config.yml; exit 3"))],
    );
    let expected = "one: 1\n[1 line withheld: a GitHub token]\nthree: 3\nfirst\n[6 lines withheld: a private key]\nlast\n";
    assert!(actual[0].starts_with(expected), "{}", actual[0]);
    assert!(actual[0].contains("`permissions: { secrets: { 'shell': allow } }`"), "{}", actual[0]);
    assert!(is_clean(&actual[1]) && actual[1].contains("[exit code 3]"), "{}", actual[1]);
}

#[test]
fn a_rule_of_the_users_allows_it_and_one_of_a_projects_does_not() {
    let calls = [read(".env"), read("config.yml"), shell("cat deploy.txt")];
    let calls = [("read", calls[0].as_str()), ("read", &calls[1]), ("shell", &calls[2])];
    for (own, project, expected) in [
        ("permissions: { shell: allow }", "", [false, false, false]),
        ("permissions: { '*': allow, secrets: allow }", "", [true, true, true]),
        ("permissions: { shell: allow, secrets: { '.env': allow, shell: allow } }", "", [true, false, true]),
        ("permissions: { shell: allow, read: { '.env': allow } }", "", [true, false, false]),
        ("permissions: { shell: allow, read: { '**': allow } }", "", [false, false, false]),
        // What a project allows does not count, and what it denies does.
        ("permissions: { shell: allow }", "permissions: { secrets: allow }", [false, false, false]),
        (
            "{}",
            "permissions: { shell: allow, read: { '.env': allow }, secrets: allow }",
            [false, false, false],
        ),
        (
            "permissions: { shell: allow, secrets: allow }",
            "permissions: { secrets: { '.env': deny } }",
            [false, true, true],
        ),
        (
            "permissions: { shell: allow, secrets: deny }",
            "permissions: { secrets: allow }",
            [false, false, false],
        ),
    ] {
        let actual =
            answers(&forge(own, project), &calls).iter().map(|text| !is_clean(text)).collect::<Vec<_>>();
        assert_eq!(actual, expected, "{own} {project}");
    }
}

#[test]
fn a_project_is_not_asked_about_for_a_rule_that_never_counts() {
    let forge = forge("{}", "permissions: { secrets: allow }");
    let listed = outcome(&mut forge.wary_command(&["trust"])).stdout;
    assert!(!listed.contains("secrets"), "{listed}");
    let checked = forge.run(&["config", "check"]);
    assert_eq!(checked.code, 0, "{}", checked.stderr);
}

#[cfg(unix)]
#[test]
fn the_person_is_asked_once_for_a_file_whoever_reads_it() {
    let forge = Forge::new()
        .with_file(
            "forge.yaml",
            "agents:\n  - { id: reader, model: openai:scripted, tools: [read, helper], subscribe: [user_task_init] }\n  \
             - { id: helper, model: openai:scripted, description: reads, tools: [read] }\n\
             providers: { openai: { retries: 0 } }\n",
        )
        .with_file(".env", "PASSWORD=hunter2\n")
        .with_file("config.yml", format!("token: {}\n", token()));
    let server = ScriptedServer::start(vec![
        Step::calls(&[("read", &read(".env"))]),
        Step::calls(&[("helper", r#"{"task": "read it"}"#)]),
        Step::calls(&[("read", &read(".env"))]),
        Step::text("I read it."),
        Step::calls(&[("read", &read("config.yml"))]),
        Step::text("All done."),
    ]);
    let session = ["setsid", "--ctty", "--wait"];
    let mut terminal = crate::chat::chat_with(&forge, &server, &session, &[], &[("NO_COLOR", "1")]);
    crate::chat::says(&mut terminal, "one");
    terminal.sees("the model would be shown a secret:");
    terminal.sees(".env: an environment file");
    terminal.sees("[n] no  [Space] why not");
    terminal.types("a\r");
    // The helper reads it without another question; the next question is about another file.
    terminal.sees("config.yml: a GitHub token in line 1");
    terminal.sees("[n] no  [Space] why not");
    terminal.types("n\r");
    terminal.sees("All done.");
    terminal.types("\u{4}");
    let ended = terminal.ends();
    assert_eq!(ended.code, Some(0));
    assert!(!ended.shown.contains(&token()), "{}", ended.shown);
    let requests = server.requests();
    assert!(requests[1].to_string().contains("hunter2") && requests[3].to_string().contains("hunter2"));
    assert!(!requests[5].to_string().contains(&token()));
}
