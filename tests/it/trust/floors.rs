//! What the person's own layers hold whatever a project says, even one that is trusted.

use std::fs;

use forge_tests::Step;
use pretty_assertions::assert_eq;

use super::Scene;
use crate::forge::{Outcome, outcome};

fn trusted(own: &str, project: &str, script: Vec<Step>) -> Scene {
    let scene = Scene::new(script);
    scene.own(own);
    scene.write("forge.yaml", project);
    assert_eq!(scene.run(&["trust"]).code, 0);
    scene
}

fn shell(command: &str) -> Step {
    Step::calls(&[("shell", &serde_json::json!({ "command": command }).to_string())])
}

#[test]
fn a_project_does_not_lift_what_the_person_denies() {
    let agent = "agents: { a: { model: 'openai:scripted', tools: [shell, write], PERMISSIONS } }\n";
    for (own, project) in [
        ("permissions: { shell: deny }", "permissions: { shell: allow }\n"),
        ("permissions: { shell: deny }", "permissions: { '*': allow }\n"),
        ("permissions: { shell: { 'touch *': deny } }", "permissions: { shell: allow }\n"),
        ("permissions: { shell: ask }", "permissions: { shell: allow }\n"),
        ("permissions: { shell: deny }", ""),
    ] {
        let agent = agent.replace("PERMISSIONS", "permissions: { shell: allow }");
        let scene = trusted(own, &format!("{project}{agent}"), vec![shell("touch made"), Step::text("done")]);
        let run = scene.run(&["run", "task"]);
        assert_eq!(run.code, 7, "{own}: {}", run.stderr);
        assert!(!scene.path("made").exists(), "{own} {project}");
    }
    // What the person says nothing of, a project that is trusted may allow.
    let yaml = format!("permissions: {{ shell: allow }}\n{}", agent.replace(", PERMISSIONS", ""));
    let scene = trusted("permissions: { write: deny }", &yaml, vec![shell("touch made"), Step::text("done")]);
    assert_eq!(scene.run(&["run", "task"]).code, 0);
    assert!(scene.path("made").exists());
}

#[test]
fn a_guard_of_the_persons_sees_what_the_projects_hooks_made_of_a_call() {
    let guard = "grep -q forbidden && echo '{\"decision\": \"deny\", \"reason\": \"guarded\"}' || true";
    let own = format!("hooks: {{ pre_tool_call: [{{ command: {} }}] }}", serde_json::json!(guard));
    let rewrite =
        r#"cat >/dev/null; echo '{"decision": "edit", "arguments": {"command": "touch forbidden"}}'"#;
    let hooks = format!("{{ pre_tool_call: [{{ command: {} }}] }}", serde_json::json!(rewrite));
    for (of_all, of_agent) in
        [(format!("hooks: {hooks}\n"), String::new()), (String::new(), format!(", hooks: {hooks}"))]
    {
        let yaml = format!(
            "{of_all}permissions: {{ shell: allow }}\nagents: {{ a: {{ model: 'openai:scripted', tools: [shell]{of_agent} }} }}\n"
        );
        let scene = trusted(&own, &yaml, vec![shell("true"), Step::text("done")]);
        let run = scene.run(&["run", "task"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(!scene.path("forbidden").exists(), "{yaml}: {}", run.stderr);
        let told = scene.server.requests().last().unwrap().to_string();
        assert!(told.contains("guarded"), "{yaml}: {told}");
    }
}

#[test]
fn the_smaller_limit_counts() {
    let calls = || (0..20).map(|_| Step::calls(&[("list", "{}")])).collect::<Vec<_>>();
    for (own, project) in [
        ("budget: { tokens: 1 }", "budget: { tokens: 9000000 }\n"),
        (
            "agents: { a: { max_iterations: 1, model: 'openai:scripted', tools: [list] } }",
            "agents: { a: { max_iterations: 50 } }\n",
        ),
        (
            "budget: { cost: 0.000001 }\nmodels: { 'openai:scripted': { price: { input: 5, output: 5 } } }",
            "models: { 'openai:scripted': { price: { input: 0, output: 0 } } }\n",
        ),
    ] {
        let agent = if project.contains("agents") {
            ""
        } else {
            "agents: { a: { model: 'openai:scripted', tools: [list], max_iterations: 4 } }\n"
        };
        let scene = trusted(own, &format!("{project}{agent}"), calls());
        let run = scene.run(&["run", "task"]);
        assert_eq!(run.code, 3, "{own}: {}", run.stderr);
        assert!(scene.server.requests().len() <= 1, "{own}: {}", scene.server.requests().len());
    }
}

#[test]
fn the_origin_of_what_is_held_is_shown() {
    let scene = trusted(
        "permissions: { shell: deny }\nbudget: { tokens: 5 }\nhooks: { notification: [{ command: mine }] }\n",
        "permissions: { shell: allow }\nbudget: { tokens: 9 }\nhooks: { notification: [{ command: theirs }] }\n\
         agents: { a: { model: 'openai:scripted' } }\n",
        Vec::new(),
    );
    let Outcome { code, stdout, stderr } = scene.run(&["config", "show", "--resolved"]);
    assert_eq!(code, 0, "{stderr}");
    let own = scene.home.path().join(".config/forge/forge.yaml").display().to_string();
    let lines: Vec<String> =
        stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for expected in [
        r#"permissions {"shell":"allow"} forge.yaml:1"#.to_owned(),
        format!(r#"permissions {{"shell":"deny"}} {own}:2"#),
        format!("budget.tokens 5 {own}:3"),
        r#"hooks {"notification":[{"command":"theirs"}]} forge.yaml:3"#.to_owned(),
        format!(r#"hooks {{"notification":[{{"command":"mine"}}]}} {own}:4"#),
    ] {
        assert!(lines.contains(&expected), "no `{expected}` in\n{stdout}");
    }
}

#[test]
fn the_administrators_file_holds_against_everybody() {
    let scene = trusted(
        "permissions: { shell: allow }",
        "permissions: { shell: allow }\nagents: { a: { model: 'openai:scripted', tools: [shell] } }\n",
        vec![shell("touch made"), Step::text("done"), Step::text("never")],
    );
    let file = scene.home.path().join("system.yaml");
    fs::write(&file, "permissions: { shell: deny }\n").unwrap();
    let run =
        |arguments: &[&str]| outcome(scene.command(arguments).env("FORGE_UNDER_TEST_SYSTEM_FILE", &file));
    let ran = run(&["run", "task"]);
    assert_eq!((ran.code, scene.path("made").exists()), (7, false), "{}", ran.stderr);
    fs::write(&file, "budget: { tokens: 1 }\n").unwrap();
    assert_eq!(run(&["--trust", "run", "--budget-tokens", "900000", "task"]).code, 3);
}
