//! A first forge.yaml, without a terminal to ask on and with one.

use std::fs;

use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;

use crate::forge::{Forge, outcome};
use crate::schema::{validator, value};

#[test]
fn what_is_written_is_valid_and_runs() {
    for (arguments, reference) in [
        (&["--provider", "openai", "--model", "scripted"][..], "openai:scripted"),
        (&["--provider", "mine", "--model", "m", "--base-url", "@URL@", "--name", "me"], "mine:m"),
    ] {
        let server = ScriptedServer::start(vec![Step::text("done")]);
        let forge = Forge::new();
        let arguments: Vec<String> =
            arguments.iter().map(|word| word.replace("@URL@", &server.base_url())).collect();
        let arguments: Vec<&str> = ["init"].into_iter().chain(arguments.iter().map(String::as_str)).collect();
        let written = forge.run(&arguments);
        assert_eq!((written.code, written.stdout.as_str()), (0, ""), "{}", written.stderr);
        let yaml = fs::read_to_string(forge.path("forge.yaml")).unwrap();
        assert!(yaml.starts_with("# yaml-language-server: $schema=forge.schema.json\n"), "{yaml}");
        assert!(yaml.contains(&format!("model: \"{reference}\"")), "{yaml}");
        assert_eq!(validator().faults(&value(&yaml)), "");
        let schema = fs::read_to_string(forge.path("forge.schema.json")).unwrap();
        assert_eq!(schema, forge.run(&["config", "schema"]).stdout);
        let checked = forge.run(&["config", "check"]);
        assert_eq!((checked.code, checked.stderr.as_str()), (0, ""));
        let mut run = forge.command(&["run", "task"]);
        let ran = outcome(run.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k"));
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "done\n"), "{}", ran.stderr);
    }
}

#[test]
fn a_key_in_the_environment_says_who_serves() {
    let forge = Forge::new();
    let mut init = forge.command(&["init"]);
    let written = outcome(init.env("ANTHROPIC_API_KEY", "planted").env("OLLAMA_HOST", "http://127.0.0.1:1"));
    assert_eq!(written.code, 0, "{}", written.stderr);
    let yaml = fs::read_to_string(forge.path("forge.yaml")).unwrap();
    assert!(yaml.contains("anthropic:claude-sonnet-5-5") && !yaml.contains("planted"), "{yaml}");
    assert!(!written.stderr.contains("planted") && !written.stderr.contains("export"), "{}", written.stderr);
}

#[test]
fn a_server_that_the_environment_names_has_to_be_named_again() {
    let server = ScriptedServer::start(vec![Step::text("done")]);
    let forge = Forge::new();
    let mut init = forge.command(&["init", "--provider", "openai", "--model", "scripted"]);
    let written = outcome(init.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k"));
    assert_eq!(written.code, 0, "{}", written.stderr);
    let export = format!("  export OPENAI_BASE_URL={}   (in each shell)", server.base_url());
    assert!(written.stderr.contains(&export), "{}", written.stderr);
    let yaml = fs::read_to_string(forge.path("forge.yaml")).unwrap();
    let line = format!("# OPENAI_BASE_URL must name the server, as it does now: {}\n", server.base_url());
    assert!(yaml.contains(&line), "{yaml}");
}

#[cfg(unix)]
#[test]
fn a_pipe_in_place_of_a_configuration_is_an_error() {
    for name in ["forge.yaml", ".mcp.json"] {
        let forge = Forge::new();
        let made = std::process::Command::new("mkfifo").arg(forge.path(name)).status().unwrap();
        assert!(made.success());
        let ran = forge.run(&["run", "--model", "openai:scripted", "task"]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(&format!("{name} is a pipe")), "{}", ran.stderr);
    }
}

#[test]
fn without_anything_to_go_by_it_says_what_to_type() {
    let forge = Forge::new();
    for (arguments, words) in [
        (&["init"][..], "forge init --provider openai --model gpt-4o-mini"),
        (&["init", "--provider", "ollama"], "`--model NAME`"),
        (&["init", "--provider", "mine", "--model", "m"], "--base-url http://HOST:PORT/v1"),
        (
            &["init", "--provider", "mine", "--model", "m", "--base-url", "no address"],
            "providers.mine.base_url",
        ),
        (&["init", "--provider", "openai", "--model", "m", "--name", " "], "an agent's id must not be empty"),
    ] {
        let mut init = forge.command(arguments);
        let actual = outcome(init.env("OLLAMA_HOST", "http://127.0.0.1:1"));
        assert_eq!((actual.code, actual.stdout.as_str()), (2, ""), "{arguments:?}: {}", actual.stderr);
        assert!(actual.stderr.contains(words), "{arguments:?}: {}", actual.stderr);
        assert!(!forge.path("forge.yaml").exists(), "{arguments:?}");
    }
}

#[test]
fn nothing_is_written_over_unasked_and_nothing_is_lost_when_asked() {
    let arguments = ["init", "--provider", "openai", "--model", "m"];
    let forge = Forge::new().with_file("forge.yaml", "precious: 1\n").with_file("forge.schema.json", "{}");
    let actual = forge.run(&arguments);
    assert_eq!(actual.code, 2);
    assert!(
        actual.stderr.contains("already exists") && actual.stderr.contains("--force"),
        "{}",
        actual.stderr
    );
    assert_eq!(fs::read_to_string(forge.path("forge.yaml")).unwrap(), "precious: 1\n");
    let forced = forge.run(&[&arguments[..], &["--force"]].concat());
    assert_eq!(forced.code, 0, "{}", forced.stderr);
    assert_eq!(fs::read_to_string(forge.path("forge.yaml.bak")).unwrap(), "precious: 1\n");
    assert_eq!(fs::read_to_string(forge.path("forge.schema.json.bak")).unwrap(), "{}");
    // A second time the first copy stays.
    let other = forge.run(&["init", "--provider", "openai", "--model", "other", "--force"]);
    assert_eq!(other.code, 0, "{}", other.stderr);
    assert_eq!(fs::read_to_string(forge.path("forge.yaml.bak")).unwrap(), "precious: 1\n");
    assert!(fs::read_to_string(forge.path("forge.yaml.bak.1")).unwrap().contains("openai:m"));
    // Into a folder, and beside a schema that is another's.
    fs::create_dir(forge.path("sub")).unwrap();
    fs::write(forge.path("sub/forge.schema.json"), "{}").unwrap();
    let inside = forge.run(&[&arguments[..], &["sub"]].concat());
    assert_eq!(inside.code, 0, "{}", inside.stderr);
    assert!(inside.stderr.contains("was not changed") && inside.stderr.contains("--config sub/forge.yaml"));
    assert_eq!(fs::read_to_string(forge.path("sub/forge.schema.json")).unwrap(), "{}");
}

#[cfg(unix)]
mod on_a_terminal {
    use std::fs;
    use std::process::Stdio;

    use pretty_assertions::assert_eq;
    use rustix::process::Signal;

    use crate::forge::Forge;
    use crate::pseudo_terminal::{Ended, Terminal};

    /// `forge init` with a terminal before it, and a person there.
    fn begin(forge: &Forge, environment: &[(&str, &str)]) -> Terminal {
        Terminal::start(80, 24, |line| {
            let mut command = forge.process();
            command
                .env("OLLAMA_HOST", "http://127.0.0.1:1")
                .envs(environment.iter().copied())
                .arg("init")
                .stdin(line())
                .stderr(line())
                .stdout(Stdio::null());
            command
        })
    }

    fn files(forge: &Forge) -> Vec<String> {
        let names = fs::read_dir(forge.path("")).unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_missing_is_asked_and_asked_again_where_the_answer_cannot_be() {
        let forge = Forge::new();
        let mut asked = begin(&forge, &[]);
        asked.answers("provider: ", "");
        asked.answers("an answer is needed here\nprovider: ", "opnai");
        asked.answers("(If you mean `openai`, press Ctrl-C and start again.)\naddress: ", "localhost:80");
        asked.answers("starts with http:// or https://\naddress: ", "http://localhost:80/v1");
        asked.answers("model: ", "small");
        asked.answers("id [helper]: ", "");
        let Ended { code, shown } = asked.ends();
        assert_eq!(code, Some(0), "{shown}");
        assert!(shown.contains("or a name of your own"), "{shown}");
        let checked = forge.run(&["config", "check"]);
        assert_eq!((checked.code, checked.stderr.as_str()), (0, ""));
        let shown = forge.run(&["config", "show", "--resolved", "--agent", "helper"]).stdout;
        assert!(shown.contains("opnai:small") && shown.contains("http://localhost:80/v1"), "{shown}");
    }

    #[test]
    fn an_empty_answer_is_what_the_surroundings_suggest() {
        let forge = Forge::new();
        let mut asked = begin(&forge, &[("ANTHROPIC_API_KEY", "planted")]);
        for question in ["provider [anthropic]: ", "model [claude-sonnet-5-5]: ", "id [helper]: "] {
            asked.answers(question, "");
        }
        let Ended { code, shown } = asked.ends();
        assert_eq!(code, Some(0), "{shown}");
        assert!(!shown.contains("planted"), "{shown}");
        // What the agent may do is trusted as it was written.
        assert_eq!(files(&forge), [".local", "forge.schema.json", "forge.yaml"]);
        // What already exists is seen before anything is asked.
        let Ended { code, shown } = begin(&forge, &[]).ends();
        assert_eq!((code, shown.contains("provider")), (Some(2), false), "{shown}");
    }

    #[test]
    fn whoever_leaves_in_mid_way_leaves_nothing_behind() {
        let forge = Forge::new();
        let mut asked = begin(&forge, &[]);
        asked.answers("provider: ", "openai");
        asked.sees("model [gpt-5.4]: ");
        // Not the signal of Ctrl-C, which shells have those ignore that they start in the background.
        asked.is_sent(Signal::TERM);
        assert_eq!(asked.ends().code, None);
        assert_eq!(files(&forge), Vec::<String>::new());
        // The end of the input, as by Ctrl-D.
        let mut asked = begin(&forge, &[]);
        asked.answers("provider: ", "openai");
        asked.sees("model [gpt-5.4]: ");
        asked.types("\x04");
        let Ended { code, shown } = asked.ends();
        assert_eq!(code, Some(2), "{shown}");
        assert!(shown.contains("nothing was written"), "{shown}");
        assert_eq!(files(&forge), Vec::<String>::new());
    }
}
