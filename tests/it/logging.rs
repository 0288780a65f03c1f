//! The log: what filters mean, where it goes, and what never stands in it.

use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;

use crate::forge::{Forge, Outcome, outcome};

const YAML: &str = "\
agents: [{ id: reader, model: openai:scripted, tools: [read], system_prompt: planted-in-a-prompt }]
providers: { openai: { retries: 0 } }
";

fn forge() -> Forge {
    Forge::new().with_file("forge.yaml", YAML).with_file("notes.txt", "planted-in-a-file\n")
}

fn run(forge: &Forge, arguments: &[&str], variables: &[(&str, &str)]) -> Outcome {
    let read = Step::calls(&[("read", r#"{"path":"notes.txt"}"#)]);
    let server = ScriptedServer::start(vec![read, Step::text("planted-in-an-answer")]);
    let mut command = forge.command(arguments);
    command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "sk-planted-0123");
    outcome(command.envs(variables.iter().copied()))
}

#[test]
fn what_is_no_filter_is_refused_before_anything_begins() {
    let forge = forge();
    for (arguments, variable, expected) in [
        (
            &["--log", "inof", "run", "task"][..],
            "",
            "error: --log: invalid log level 'inof' (expected error, warn, info",
        ),
        (&["run", "task", "--log", "forge=loud"], "", "error: --log: invalid log filter 'forge=loud': "),
        (&["run", "task"], "loud", "error: FORGE_LOG: invalid log level 'loud'"),
        (
            &["run", "task", "--log-file", "missing/a.log"],
            "",
            "error: --log-file: the log file missing/a.log cannot be",
        ),
    ] {
        let actual = run(&forge, arguments, &[("FORGE_LOG", variable)]);
        assert_eq!((actual.code, actual.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(actual.stderr.starts_with(expected), "{}", actual.stderr);
    }
    // A flag counts before the variable.
    let actual = run(&forge, &["--log", "off", "run", "task"], &[("FORGE_LOG", "loud")]);
    assert_eq!((actual.code, actual.stdout.as_str()), (0, "planted-in-an-answer\n"), "{}", actual.stderr);
}

#[test]
fn a_file_takes_the_log_and_the_screen_has_none_of_it() {
    let forge = forge();
    let silent = run(&forge, &["run", "planted-in-a-task"], &[]);
    assert_eq!(silent.code, 0, "{}", silent.stderr);
    for (arguments, variables) in [
        (&["run", "planted-in-a-task", "--log-file", "run.log"][..], &[][..]),
        (&["run", "planted-in-a-task"], &[("FORGE_LOG_FILE", "run.log"), ("FORGE_LOG", "forge=debug")]),
    ] {
        let actual = run(&forge, arguments, variables);
        let n_lines = |outcome: &Outcome| outcome.stderr.lines().count();
        assert_eq!((actual.code, n_lines(&actual)), (0, n_lines(&silent)), "{}", actual.stderr);
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(forge.path("run.log")).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "it is for its user alone");
    }
    let log = std::fs::read_to_string(forge.path("run.log")).unwrap();
    assert!(!log.contains('\u{1b}') && !log.contains("planted"), "{log}");
    let n = |words: &str| log.lines().filter(|line| line.contains(words) && line.contains(" close ")).count();
    // Two runs, one after the other, in one file.
    let is_last = |span: &str| format!("forge::{span}: close ");
    assert_eq!(
        ["agent", "chat", "tool"].map(|target| n(&is_last(target))),
        [2, 4, 2],
        "one line for each span when it ends: {log}"
    );
    // Compactions that are not due are told to those who want it all.
    assert_eq!(n("outcome=\"not_triggered\""), 2, "{log}");
    for words in ["gen_ai.usage.input_tokens=", "gen_ai.tool.call.id=\"call_1\"", "forge.stop=\"done\""] {
        assert!(log.contains(words), "{words} is not in {log}");
    }
}
