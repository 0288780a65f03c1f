//! Consent: for these bytes, in this folder, until they change.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use forge_tests::Step;
use pretty_assertions::assert_eq;
use serde_json::Value;

use super::Scene;
use crate::forge::outcome;

const YAML: &str = "\
hooks: { workflow_start: [{ command: ./check.sh }] }
agents: { a: { model: 'openai:scripted', system_prompt: One. } }
";

/// A folder that is trusted.
fn trusted(script: Vec<Step>) -> Scene {
    let scene = Scene::new(script);
    scene.write("forge.yaml", YAML);
    scene.write("check.sh", "#!/bin/sh\ntouch ran\n");
    fs::set_permissions(scene.path("check.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let trusted = scene.run(&["trust"]);
    assert_eq!(trusted.code, 0, "{}", trusted.stderr);
    assert!(trusted.stdout.contains("use the file ./check.sh (sha256 "), "{}", trusted.stdout);
    assert!(trusted.stdout.ends_with("`forge trust --revoke` takes that back.\n"), "{}", trusted.stdout);
    scene
}

#[test]
fn a_change_is_asked_for_again_with_the_difference() {
    let scene = trusted(vec![Step::text("done"), Step::text("done"), Step::text("done")]);
    assert_eq!(scene.run(&["run", "task"]).code, 0);
    fs::remove_file(scene.path("ran")).unwrap();
    let stopped = |what: &str, expected: &[&str]| {
        let run = scene.run(&["run", "task"]);
        assert_eq!(run.code, 10, "{what}: {}", run.stderr);
        assert!(run.stderr.contains("has changed since you trusted it"), "{what}: {}", run.stderr);
        for line in expected {
            assert!(run.stderr.contains(line), "{what}: no `{line}` in {}", run.stderr);
        }
        assert!(!scene.path("ran").exists(), "{what}");
    };
    for (what, yaml, expected) in [
        (
            "another command",
            YAML.replace("./check.sh", "./check.sh; touch more"),
            &[
                "  - run at workflow_start: ./check.sh",
                "  + forge.yaml:1: run at workflow_start: ./check.sh; touch more",
            ][..],
        ),
        (
            "one more command",
            YAML.replace("[{ command: ./check.sh }]", "[{ command: ./check.sh }, { command: 'touch ran' }]"),
            &["  + forge.yaml:1: run at workflow_start: touch ran"],
        ),
        (
            "another key of the same command",
            YAML.replace("./check.sh }", "./check.sh, timeout: 9m }"),
            &["  + forge.yaml:1: run at workflow_start: ./check.sh"],
        ),
        (
            "a permission",
            format!("{YAML}permissions: {{ shell: allow }}\n"),
            &["  + forge.yaml:3: call `shell` without asking"],
        ),
    ] {
        scene.write("forge.yaml", &yaml);
        stopped(what, expected);
    }
    // The file of the command is what is run: it counts as said.
    scene.write("forge.yaml", YAML);
    let script = fs::read_to_string(scene.path("check.sh")).unwrap();
    scene.write("check.sh", "#!/bin/sh\ntouch ran more\n");
    stopped("another content", &["  - use the file ./check.sh", "  + forge.yaml:1: use the file ./check.sh"]);
    fs::remove_file(scene.path("check.sh")).unwrap();
    scene.write("evil", "#!/bin/sh\ntouch ran; true\n");
    std::os::unix::fs::symlink("evil", scene.path("check.sh")).unwrap();
    stopped("a link to another file", &["  + forge.yaml:1: use the file ./check.sh"]);
    // As it was, it is trusted as it was; and so is what asks for less, or only says something
    // else.
    fs::remove_file(scene.path("check.sh")).unwrap();
    scene.write("check.sh", &script);
    fs::set_permissions(scene.path("check.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(scene.run(&["run", "task"]).code, 0);
    scene.write(
        "forge.yaml",
        &YAML.replace("One.", "Two.").replace("workflow_start: [{ command: ./check.sh }]", ""),
    );
    let less = scene.run(&["run", "task"]);
    assert_eq!(less.code, 0, "{}", less.stderr);
}

#[test]
fn a_store_that_was_trusted_stays_the_store_whatever_else_changes() {
    let scene = Scene::new(Vec::new());
    let yaml = "checkpoint: { store: 'sqlite:mine.db' }\nagents: { a: { model: 'openai:scripted' } }\n";
    scene.write("forge.yaml", yaml);
    assert_eq!(scene.run(&["checkpoints", "list"]).code, 10);
    assert_eq!(scene.run(&["trust"]).code, 0);
    for more in ["", "hooks: { workflow_start: [{ command: touch ran }] }\n"] {
        scene.write("forge.yaml", &format!("{more}{yaml}"));
        let list = scene.run(&["checkpoints", "list"]);
        assert!(list.code == 2 && list.stderr.contains("mine.db"), "{more}: {}", list.stderr);
    }
    scene.write("forge.yaml", &yaml.replace("mine.db", "other.db"));
    assert_eq!(scene.run(&["checkpoints", "list"]).code, 10);
}

#[test]
fn consent_is_for_one_folder_and_one_file() {
    let scene = trusted(vec![Step::text("done")]);
    let other = tempfile::tempdir().unwrap();
    for name in ["forge.yaml", "check.sh"] {
        fs::copy(scene.path(name), other.path().join(name)).unwrap();
    }
    let run = |folder: &std::path::Path, arguments: &[&str]| {
        outcome(scene.command(arguments).current_dir(folder)).code
    };
    assert_eq!(run(other.path(), &["run", "task"]), 10, "another folder");
    let file = scene.path("forge.yaml").display().to_string();
    assert_eq!(
        run(other.path(), &["run", "task", "--config", &file]),
        10,
        "its commands would run elsewhere"
    );
    fs::create_dir(scene.path("below")).unwrap();
    assert_eq!(
        run(&scene.path("below"), &["run", "task", "--config", "../forge.yaml"]),
        10,
        "a folder below"
    );
    fs::copy(scene.path("forge.yaml"), scene.path("copy.yaml")).unwrap();
    assert_eq!(run(&scene.path(""), &["run", "task", "--config", "copy.yaml"]), 10, "another file");
    // By another way it is the same folder and the same file.
    let link = other.path().join("link");
    std::os::unix::fs::symlink(scene.path(""), &link).unwrap();
    assert_eq!(run(&link, &["run", "task", "--config", "./forge.yaml"]), 0);
    // The folder is moved, and something else is put where it was.
    fs::remove_file(scene.path("forge.yaml")).unwrap();
    scene.write("else.yaml", &YAML.replace("./check.sh", "touch ran2"));
    std::os::unix::fs::symlink("else.yaml", scene.path("forge.yaml")).unwrap();
    assert_eq!(run(&scene.path(""), &["run", "task"]), 10, "a link in the place of the file");
    assert!(!scene.path("ran2").exists());
}

#[test]
fn the_bytes_that_were_trusted_are_the_bytes_that_are_used() {
    let scene = Scene::new(vec![Step::text("done")]);
    let pipe = scene.path("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    const GOOD: &str = "hooks: { workflow_start: [{ command: 'touch good' }] }\nagents: { a: { model: 'openai:scripted' } }\n";
    const EVIL: &str = "hooks: { workflow_start: [{ command: 'touch evil' }] }\nagents: { a: { model: 'openai:scripted' } }\n";
    let feed = |texts: &'static [&'static str]| {
        let pipe = pipe.clone();
        std::thread::spawn(move || {
            for text in texts {
                fs::write(&pipe, text).unwrap();
                // The next text is for whoever opens the file again: nobody may be reading any
                // more.
                let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
                while rustix::fs::open(&pipe, flags, rustix::fs::Mode::empty()).is_ok() {
                    std::thread::yield_now();
                }
            }
        })
    };
    let first = feed(&[GOOD]);
    let kept = scene.run(&["trust", "pipe"]);
    assert_eq!(kept.code, 0, "{}", kept.stderr);
    first.join().unwrap();
    // Whoever opened the file a second time would read something else.
    let second = feed(&[GOOD, EVIL]);
    let run = scene.run(&["run", "task", "--config", "pipe"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(scene.path("good").exists() && !scene.path("evil").exists());
    assert!(fs::read_to_string(&pipe).unwrap().contains("evil"), "it was opened once");
    second.join().unwrap();
}

#[test]
fn what_is_trusted_is_listed_and_taken_back() {
    let scene = trusted(vec![Step::text("done")]);
    let file = fs::canonicalize(scene.path("forge.yaml")).unwrap().display().to_string();
    let list = scene.run(&["trust", "--list"]);
    assert_eq!(list.code, 0);
    assert!(
        list.stdout.starts_with(&format!("{file}\n  run at workflow_start: ./check.sh\n")),
        "{}",
        list.stdout
    );
    let json: Value = serde_json::from_str(&scene.run(&["trust", "--list", "--json"]).stdout).unwrap();
    assert_eq!(
        (&json[0]["file"], &json[0]["powers"][0]["power"]),
        (&file.clone().into(), &"run_hook".into())
    );
    let elsewhere = tempfile::tempdir().unwrap();
    let folder = scene.path("").display().to_string();
    let revoke = |expected: &str| {
        let revoked = outcome(scene.command(&["trust", &folder, "--revoke"]).current_dir(elsewhere.path()));
        assert_eq!((revoked.code, revoked.stdout), (0, format!("{file} {expected}\n")));
    };
    revoke("is not trusted any more");
    assert_eq!(scene.run(&["run", "task"]).code, 10);
    revoke("was not trusted");
    assert_eq!(scene.run(&["trust", "--list"]).stdout, "nothing is trusted\n");
    // From elsewhere and beforehand, as a script does it.
    let kept = outcome(scene.command(&["trust", &folder, "--json"]).current_dir(elsewhere.path()));
    let json: Value = serde_json::from_str(&kept.stdout).unwrap();
    assert_eq!(json["powers"][0]["text"], "run at workflow_start: ./check.sh");
    assert_eq!(scene.run(&["run", "task"]).code, 0);
}

#[test]
fn a_file_that_is_none_cannot_be_trusted() {
    let scene = Scene::new(Vec::new());
    for (arguments, expected) in
        [(&["trust"][..], "cannot read the configuration"), (&["trust", "gone"], "gone")]
    {
        let refused = scene.run(arguments);
        assert!(refused.code == 2 && refused.stderr.contains(expected), "{}", refused.stderr);
    }
    scene.write("forge.yaml", "hooks: 5\n");
    let refused = scene.run(&["trust"]);
    assert!(refused.code == 2 && refused.stderr.contains("forge.yaml:1:8: hooks"), "{}", refused.stderr);
    assert_eq!(scene.run(&["trust", "--list"]).stdout, "nothing is trusted\n");
    // Without a home folder there is nowhere to keep it.
    scene.write("forge.yaml", YAML);
    let homeless = outcome(scene.command(&["trust"]).env_remove("HOME"));
    assert!(
        homeless.code == 2 && homeless.stderr.contains("--trust trusts this once"),
        "{}",
        homeless.stderr
    );
    assert_eq!(outcome(scene.command(&["run", "task"]).env_remove("HOME")).code, 10);
}

#[test]
fn a_file_with_a_secret_in_it_cannot_be_trusted() {
    let scene = Scene::new(Vec::new());
    let key = "sk-planted-in-the-file-0123456789";
    scene.write(
        "forge.yaml",
        &format!("hooks: {{ workflow_start: [{{ command: 'echo {key}' }}] }}\nagents: [{{ id: a, model: gpt-4o }}]\n"),
    );
    for (arguments, code, expected) in [
        (&["trust"][..], 2, "the file contains a secret"),
        (&["--trust", "run", "task"], 2, "the file contains a secret"),
        (&["run", "task"], 10, "run at workflow_start: echo (hidden)"),
        (&["config", "check"], 2, "run at workflow_start: echo (hidden)"),
    ] {
        let refused = scene.run(arguments);
        assert!(refused.code == code && refused.stderr.contains(expected), "{}", refused.stderr);
        assert!(!refused.stderr.contains(key), "{}", refused.stderr);
    }
    assert_eq!(scene.run(&["trust", "--list"]).stdout, "nothing is trusted\n");
}

#[test]
fn who_writes_a_file_with_init_has_trusted_it() {
    let scene = Scene::new(vec![Step::text("done")]);
    let url = scene.server.base_url();
    let written = scene.run(&["init", "--provider", "mine", "--base-url", &url, "--model", "scripted"]);
    assert_eq!(written.code, 0, "{}", written.stderr);
    let run = scene.run(&["run", "task"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, "done\n"), "{}", run.stderr);
    let text = fs::read_to_string(scene.path("forge.yaml")).unwrap();
    scene.write("forge.yaml", &text.replace(&url, &scene.trap.url()));
    assert_eq!(scene.run(&["run", "task"]).code, 10);
    assert!(!scene.trap.heard());
}

#[cfg(target_os = "linux")]
mod at_a_terminal {
    use std::process::{Command, Stdio};

    use pretty_assertions::assert_eq;

    use super::*;
    use crate::pseudo_terminal::{Ended, Terminal};

    fn begin(scene: &Scene, arguments: &[&str]) -> Terminal {
        begin_with_typed("", scene, arguments)
    }

    fn begin_with_typed(keys: &str, scene: &Scene, arguments: &[&str]) -> Terminal {
        Terminal::start_with_typed(keys, 120, 40, |line| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_forge_under_test"));
            command
                .env_clear()
                .env("HOME", scene.home.path())
                .env("NO_COLOR", "1")
                .env("PATH", "/usr/bin:/bin");
            command.env("OPENAI_API_KEY", super::super::KEY).env("TERM", "xterm").args(arguments);
            command.current_dir(scene.path("")).stdin(line()).stderr(line()).stdout(Stdio::null());
            command
        })
    }

    fn answered(scene: &Scene, answer: &str) -> Option<i32> {
        let mut terminal = begin(scene, &["run", "task", "--store", "none"]);
        terminal.sees("is not trusted. It would:");
        terminal.sees("run at workflow_start: touch ran");
        terminal.sees("[w] continue without  [n] stop >");
        terminal.types(answer);
        let Ended { code, .. } = terminal.ends();
        code
    }

    #[test]
    fn what_was_typed_before_the_question_is_no_answer_to_it() {
        let scene = Scene::new(Vec::new());
        scene.write(
            "forge.yaml",
            "hooks: { workflow_start: [{ command: touch ran }] }\nagents: { a: { model: 'openai:scripted' } }\n",
        );
        for keys in ["y", "yes please do", "y\ny\n"] {
            let mut terminal = begin_with_typed(keys, &scene, &["run", "task", "--store", "none"]);
            terminal.sees("[w] continue without  [n] stop >");
            terminal.types("n");
            assert_eq!((terminal.ends().code, scene.path("ran").exists()), (Some(10), false), "{keys:?}");
        }
    }

    #[test]
    fn a_chat_asks_before_it_begins() {
        let scene = Scene::new(Vec::new());
        scene.write(
            "forge.yaml",
            "mcp_servers: { s: { command: touch, args: [ran] } }\n\
             agents: { a: { model: 'openai:scripted', tools: ['s__*'] } }\n",
        );
        let mut terminal = Terminal::start(120, 40, |line| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_forge_under_test"));
            command.env_clear().env("HOME", scene.home.path()).env("PATH", "/usr/bin:/bin");
            command.env("OPENAI_API_KEY", super::super::KEY).env("TERM", "xterm").arg("run");
            command.current_dir(scene.path("")).stdin(line()).stderr(line()).stdout(line());
            command
        });
        terminal.sees("start the MCP server `s`: touch ran");
        terminal.sees("let the agent `a` call `s__*`");
        terminal.sees("[n] stop >");
        terminal.types("n\r");
        assert_eq!((terminal.ends().code, scene.path("ran").exists()), (Some(10), false));
    }

    #[test]
    fn the_person_is_asked_once() {
        let scene = Scene::new(vec![Step::text("a"), Step::text("b"), Step::text("c"), Step::text("d")]);
        scene.write(
            "forge.yaml",
            "hooks: { workflow_start: [{ command: touch ran }] }\nagents: { a: { model: 'openai:scripted' } }\n",
        );
        for (answer, code, runs) in
            [("n\r", 10, false), ("\rn", 10, false), ("w\r", 0, false), ("o\r", 0, true), ("y\r", 0, true)]
        {
            assert_eq!(
                (answered(&scene, answer), scene.path("ran").exists()),
                (Some(code), runs),
                "{answer:?}"
            );
            let _ = fs::remove_file(scene.path("ran"));
        }
        let terminal = begin(&scene, &["run", "task", "--store", "none"]);
        let ended = terminal.ends();
        assert_eq!((ended.code, ended.shown.contains("trust")), (Some(0), false), "{}", ended.shown);
        assert!(scene.path("ran").exists());
    }
}
