//! A first hour: `forge` in any folder, with nothing but a key.

use std::fs;

use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;

use crate::forge::{Forge, Outcome, outcome};

/// Runs `forge` without a file, on a scripted server.
fn run(forge: &Forge, server: &ScriptedServer, folder: &str, arguments: &[&str], input: &str) -> Outcome {
    let mut command = forge.command(&[arguments, &["--model", "openai:scripted"]].concat());
    command.current_dir(forge.path(folder)).write_stdin(input.to_owned());
    outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k"))
}

#[test]
fn without_a_task_and_a_terminal_it_says_what_to_do() {
    for (arguments, variables, words) in [
        (&[][..], &[][..], "no model is configured"),
        (&["a task"], &[], "export ANTHROPIC_API_KEY=..."),
        (&[], &[("ANTHROPIC_API_KEY", "k")], "there is no task, and no terminal to chat at"),
        (&[], &[("ANTHROPIC_API_KEY", "k"), ("OPENAI_API_KEY", "k")], "comes before OPENAI_API_KEY"),
        (&[], &[("OPENAI_BASE_URL", "http://127.0.0.1:1")], "OPENAI_BASE_URL names a server, but"),
        (&["rnu"], &[], "did you mean `run`?"),
        (&["resume"], &[], "did you mean `forge --resume`"),
        (&["login"], &[], "there is no login"),
        (&["fix", "the", "test"], &[], "put the task in quotes: forge 'fix the test'"),
    ] {
        let forge = Forge::new();
        let mut command = forge.command(arguments);
        command.env("OLLAMA_HOST", "http://127.0.0.1:1").envs(variables.iter().copied());
        let actual = outcome(&mut command);
        assert_eq!((actual.code, actual.stdout.as_str()), (2, ""), "{arguments:?}: {}", actual.stderr);
        assert!(actual.stderr.contains(words), "{arguments:?}: {}", actual.stderr);
    }
}

#[test]
fn a_task_needs_neither_a_file_nor_a_command() {
    let forge = Forge::new().with_file("AGENTS.md", "Answer in Latin.");
    fs::create_dir(forge.path("CLAUDE.md")).unwrap();
    let steps = vec![
        Step::calls(&[("write", r#"{"path":"new.txt","content":"x"}"#)]),
        Step::text("Legi."),
        Step::text("Iterum."),
    ];
    let server = ScriptedServer::start(steps);
    let asked = run(&forge, &server, "", &["Review this."], "+ a line\n");
    // What changes something needs consent, and no one is there.
    assert_eq!((asked.code, asked.stdout.as_str()), (7, "Legi.\n"), "{}", asked.stderr);
    assert!(asked.stderr.contains("denied: write (new.txt) without an answer"), "{}", asked.stderr);
    assert!(asked.stderr.contains("note: CLAUDE.md is not read: it is not a file"), "{}", asked.stderr);
    assert!(!forge.path("new.txt").exists());
    let continued = run(&forge, &server, "", &["-c", "-p", "Again."], "");
    assert_eq!((continued.code, continued.stdout.as_str()), (0, "Iterum.\n"), "{}", continued.stderr);
    let sent: Vec<String> = server.requests().iter().map(ToString::to_string).collect();
    assert!(
        sent[0].contains("Review this.\\n\\n+ a line") && sent[0].contains("Answer in Latin."),
        "{sent:?}"
    );
    assert!(sent[2].contains("Review this.") && sent[2].contains("Again."), "{sent:?}");
    // What the prompt says of the folder was said once: it is the same after a resumption.
    let system = |request: &str| request.split("\"role\":\"user\"").next().unwrap_or_default().to_owned();
    assert_eq!(system(&sent[0]), system(&sent[2]));
}

/// Makes the folder a git repository without a commit.
fn make_repository(folder: &std::path::Path) {
    for name in [".git/HEAD", ".git/objects", ".git/refs"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn what_another_user_has_put_above_the_folder_does_not_count() {
    const OTHER: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        skipped_tests::skip("not run as root", "files of another user");
        return;
    }
    let yaml = "agents: { above: { model: openai:scripted } }\n";
    for (owned, expected) in
        [("a", "no agents"), ("a/.git", "no agents"), ("a/forge.yaml", "no agents"), ("a/b", "above")]
    {
        let forge = Forge::new();
        fs::create_dir_all(forge.path("a/b")).unwrap();
        make_repository(&forge.path("a"));
        fs::write(forge.path("a/forge.yaml"), yaml).unwrap();
        std::os::unix::fs::chown(forge.path(owned), Some(OTHER), None).unwrap();
        let actual = outcome(forge.command(&["config", "check"]).current_dir(forge.path("a/b")));
        assert!(actual.stdout.contains(expected), "{owned}: {}{}", actual.stdout, actual.stderr);
    }
}

#[test]
fn a_file_above_counts_up_to_the_repository() {
    let yaml = "agents: { above: { model: openai:scripted } }\n";
    for (repository, expected) in [("a", "above"), ("a/b", "no agents")] {
        let forge = Forge::new();
        fs::create_dir_all(forge.path("a/b/c")).unwrap();
        make_repository(&forge.path(repository));
        fs::write(forge.path("a/forge.yaml"), yaml).unwrap();
        let actual = outcome(forge.command(&["config", "check"]).current_dir(forge.path("a/b/c")));
        assert!(actual.stdout.contains(expected), "{repository}: {}{}", actual.stdout, actual.stderr);
    }
}

#[test]
fn an_event_runs_those_who_subscribe_each_under_its_name() {
    let yaml = "{ agents: { a: { model: openai:scripted }, \
                  b: { model: openai:scripted, subscribe: [changed], user_prompt: 'See {{event.value}}' }, \
                  c: { model: openai:scripted, subscribe: [changed] } } }";
    let forge = Forge::new().with_file("forge.yaml", yaml);
    let server = ScriptedServer::start(vec![Step::text("one"), Step::text("two"), Step::text("three")]);
    let told = run(&forge, &server, "", &["run", "--event", "changed=x.rs"], "");
    assert_eq!((told.code, told.stdout.as_str()), (0, "one\ntwo\n"), "{}", told.stderr);
    assert!(told.stderr.contains("── b ──") && told.stderr.contains("── c ──"), "{}", told.stderr);
    assert!(server.requests()[0].to_string().contains("See x.rs"));
    // A task that no one subscribes to is the first agent's.
    let first = run(&forge, &server, "", &["run", "task"], "");
    assert_eq!((first.code, first.stdout.as_str()), (0, "three\n"), "{}", first.stderr);
}
