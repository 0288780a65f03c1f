//! Modes and consents in advance: `--mode`, `--allow` and `--yes`.

use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::forge::{Forge, Outcome, outcome};

fn steps() -> Vec<Step> {
    let call = |tool: &str, arguments: Value| (tool.to_owned(), arguments.to_string());
    vec![
        Step::Calls(vec![
            call("write", json!({"path": "new.txt", "content": "x"})),
            call("write", json!({"path": ".git/config", "content": "x"})),
            call("shell", json!({"command": "echo ran > ran.txt"})),
        ]),
        Step::text("Done."),
    ]
}

/// Runs a task without anyone to ask, in a folder with this file.
fn run(yaml: &str, arguments: &[&str]) -> (Outcome, Value, Vec<&'static str>) {
    let agents = "agents: { coder: { model: openai:scripted, tools: [write, shell] } }\n";
    let forge = Forge::new().with_file("forge.yaml", format!("{agents}{yaml}"));
    let server = ScriptedServer::start(steps());
    let arguments = [&["run", "--report", "report.json"], arguments, &["Work."]].concat();
    let mut command = forge.command(&arguments);
    let ran = outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k"));
    let report = std::fs::read_to_string(forge.path("report.json")).unwrap_or_default();
    let report = serde_json::from_str(&report).unwrap_or_default();
    let written = ["new.txt", ".git/config", "ran.txt"].into_iter().filter(|path| forge.path(path).exists());
    (ran, report, written.collect())
}

#[test]
fn a_mode_decides_what_is_done_without_asking() {
    for (yaml, arguments, code, written, denied) in [
        ("", &[][..], 7, &[][..], &["write nobody", "write nobody", "shell nobody"][..]),
        ("", &["--mode", "plan", "--yes"], 0, &[], &["write mode", "write mode", "shell mode"]),
        ("", &["--mode", "edits"], 7, &["new.txt"], &["write nobody", "shell nobody"]),
        (
            "",
            &["--allow", "write:*.txt", "--allow", "shell:echo *"],
            7,
            &["new.txt"],
            &["write nobody", "shell nobody"],
        ),
        ("", &["--yes"], 7, &["new.txt", "ran.txt"], &["write nobody"]),
        ("permissions: { shell: ask }", &["--yes"], 7, &["new.txt"], &["write nobody", "shell nobody"]),
        ("permissions: { shell: deny }", &["--yes"], 7, &["new.txt"], &["write nobody", "shell rule"]),
        (
            "permissions: { write: { '.git/*': deny, 'new.txt': allow }, shell: deny }",
            &[],
            7,
            &["new.txt"],
            &["write rule", "shell rule"],
        ),
    ] {
        let (ran, report, actual) = run(yaml, arguments);
        let denials = report["denials"].as_array().cloned().unwrap_or_default();
        let mut denials: Vec<String> = denials
            .iter()
            .map(|denied| format!("{} {}", denied["tool"].as_str().unwrap(), denied["by"].as_str().unwrap()))
            .collect();
        denials.sort();
        let mut expected: Vec<&str> = denied.to_vec();
        expected.sort_unstable();
        assert_eq!(
            (ran.code, actual, denials.iter().map(String::as_str).collect::<Vec<_>>()),
            (code, written.to_vec(), expected),
            "{yaml} {arguments:?}: {}",
            ran.stderr
        );
        assert_eq!(report["exit_code"], code);
        assert_eq!(report["responses"], json!([{"agent": "coder", "response": "Done."}]));
    }
}

#[test]
fn auto_is_refused_without_a_sandbox_and_a_rule_that_is_none_is_refused() {
    for (arguments, words) in [
        (&["--mode", "auto", "--sandbox", "off"][..], "the mode `auto` needs a sandbox, and it is off"),
        (&["--mode", "eidts"], "invalid mode `eidts` (expected plan, ask, edits or auto)"),
        (&["--allow", "secrets"], "secrets are allowed only by `permissions`"),
        (&["--allow", "shell:"], "expected a tool, or a tool and a pattern"),
        (&["--allow", "shel:ls *"], "--allow: there is no tool `shel`"),
        (&["--allow", "sehll*"], "--allow: there is no tool `sehll*`"),
        (&["--allow", "Bash(git *)"], "another agent writes a rule: write `--allow 'shell:git *'`"),
    ] {
        let (ran, report, written) = run("", arguments);
        assert_eq!((ran.code, written), (2, Vec::new()), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(words) && report.is_null(), "{arguments:?}: {}", ran.stderr);
    }
}

#[test]
fn one_agent_starts_another_by_an_event_and_a_silent_subscription_is_a_warning() {
    let yaml = "agents:\n  a: { model: openai:scripted, emits: [done] }\n  b: { model: openai:scripted, subscribe: [done], emits: [done] }\n  \
                c: { model: openai:scripted, subscribe: [never] }\n";
    let forge = Forge::new().with_file("forge.yaml", yaml);
    let emit = |event: &str| Step::calls(&[("emit", &json!({"event": event, "value": "see"}).to_string())]);
    let steps = vec![emit("done"), emit("other"), Step::text("one"), Step::text("two")];
    let server = ScriptedServer::start(steps);
    let mut command = forge.command(&["run", "--report", "report.json", "Work."]);
    let ran = outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k"));
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "one\ntwo\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("── b ──"), "{}", ran.stderr);
    let requests = server.requests();
    assert!(requests[1].to_string().contains("Emitted. When you are done, it starts b."), "{}", requests[1]);
    assert!(
        requests[2].to_string().contains("you may not emit `other` (expected one of done)"),
        "{}",
        requests[2]
    );
    assert_eq!(requests[3]["messages"], json!([{"role": "user", "content": "see"}]));
    let report: Value = serde_json::from_slice(&std::fs::read(forge.path("report.json")).unwrap()).unwrap();
    let expected = json!([{"agent": "a", "response": "one"}, {"agent": "b", "response": "two"}]);
    assert_eq!((&report["responses"], &report["response"]), (&expected, &json!("two")));

    let checked = forge.run(&["config", "check"]);
    assert_eq!(checked.code, 0, "{}", checked.stderr);
    assert!(checked.stderr.contains("warning: nothing here emits the event `never`"), "{}", checked.stderr);
    assert!(!checked.stderr.contains("`done`"), "{}", checked.stderr);
}

#[test]
fn agents_that_start_each_other_for_ever_are_stopped() {
    let yaml = "agents:\n  a: { model: openai:scripted, subscribe: [user_task_init, pong], emits: [ping] }\n  \
                b: { model: openai:scripted, subscribe: [ping], emits: [pong] }\n";
    let forge = Forge::new().with_file("forge.yaml", yaml);
    let emit = |event: &str| Step::calls(&[("emit", &json!({"event": event, "value": "again"}).to_string())]);
    let turns = (0..=100).flat_map(|n| [emit(if n % 2 == 0 { "ping" } else { "pong" }), Step::text("done")]);
    let server = ScriptedServer::start(turns.collect());
    let mut command = forge.command(&["run", "--report", "report.json", "Work."]);
    let ran = outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k"));
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("agents emitted 100 events for one another"), "{}", ran.stderr);
    let report: Value = serde_json::from_slice(&std::fs::read(forge.path("report.json")).unwrap()).unwrap();
    assert_eq!(report["stop"], json!({"max_events": 100}));
}

#[test]
fn variables_and_keys_of_ones_own_are_read_as_in_compose_files() {
    let yaml = "x-common: &common\n  model: ${M}\n  x-of: '${NOBODY}'\nx-other: 5\nagents:\n  a:\n    <<: *common\n    \
                max_iterations: ${N:-7}\n    system_prompt: '$${M} stays'\n";
    let check = |yaml: &str| {
        let forge = Forge::new().with_file("forge.yaml", yaml);
        let mut command = forge.command(&["config", "show", "--resolved", "--json"]);
        outcome(command.env("M", "openai:gpt-4o").env("MY_TOKEN", "planted").env("OPENAI_API_KEY", "k"))
    };
    let shown = check(yaml);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    for part in ["\"openai:gpt-4o\"", "${M} stays", "7"] {
        assert!(shown.stdout.contains(part), "`{part}`: {}", shown.stdout);
    }
    assert!(!shown.stdout.contains("x-"), "{}", shown.stdout);
    let quoted = check("agents: { a: { model: \"${M}\", max_iterations: 5, system_prompt: 'on ${M}' } }");
    assert!(quoted.stdout.contains("on openai:gpt-4o"), "{}{}", quoted.stdout, quoted.stderr);
    // A secret stands for itself.
    let secret = check("agents:\n  a:\n    model: ${M}\n    system_prompt: ${MY_TOKEN}\n").stdout;
    assert!(secret.contains("${MY_TOKEN}") && !secret.contains("planted"), "{secret}");
    for (yaml, words) in [
        ("agents:\n  a:\n    model: ${NOBODY}\n", "the variable `NOBODY` is not set"),
        ("agents:\n  a:\n    model: ${NOBODY:?set it}\n", "set it"),
        ("agents: { a: { model: '${NOBODY}' } }", "the variable `NOBODY` is not set"),
        ("agents:\n  a:\n    model: \"${NOBODY:?set it}\"\n", "set it"),
        ("x-a: 1\nagents: { a: { modle: m } }", "unknown field `modle`"),
        ("providers: { p: { kind: openai, x-b: 1 } }", "unknown field `x-b`"),
    ] {
        let refused = check(yaml);
        assert_eq!(refused.code, 2, "{yaml}: {}", refused.stdout);
        assert!(
            refused.stderr.contains(words) && refused.stderr.contains("forge.yaml:"),
            "{yaml}: {}",
            refused.stderr
        );
        assert!(!refused.stderr.contains("planted"), "{}", refused.stderr);
    }
}
