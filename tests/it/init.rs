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
        let faults: Vec<_> = validator().iter_errors(&value(&yaml)).map(|error| error.to_string()).collect();
        assert_eq!(faults, Vec::<String>::new());
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
    assert!(yaml.contains("anthropic:claude-haiku-4-5") && !yaml.contains("planted"), "{yaml}");
    assert!(!written.stderr.contains("planted") && !written.stderr.contains("export"), "{}", written.stderr);
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
        actual.stderr.contains("is there already") && actual.stderr.contains("--force"),
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
    assert!(inside.stderr.contains("was left as it is") && inside.stderr.contains("--config sub/forge.yaml"));
    assert_eq!(fs::read_to_string(forge.path("sub/forge.schema.json")).unwrap(), "{}");
}

#[cfg(unix)]
mod on_a_terminal {
    use std::fs::{self, File};
    use std::io::{Read, Write};
    use std::process::{Child, Command, Stdio};
    use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
    use std::time::Duration;

    use pretty_assertions::assert_eq;
    use rustix::fs::{Mode, OFlags};
    use rustix::process::{Pid, Signal, kill_process};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use crate::forge::Forge;

    /// `forge init` with a terminal before it, and a person there.
    struct Asked {
        keyboard: File,
        screen: Receiver<Vec<u8>>,
        /// All that was shown.
        shown: String,
        /// How much of it the person has reacted to.
        seen: usize,
        child: Child,
    }

    impl Asked {
        fn begin(forge: &Forge, environment: &[(&str, &str)]) -> Self {
            let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
            grantpt(&terminal).unwrap();
            unlockpt(&terminal).unwrap();
            let name = ptsname(&terminal, Vec::new()).unwrap();
            let line = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())
                .unwrap();
            let child = Command::new(env!("CARGO_BIN_EXE_forge_under_test"))
                .env_clear()
                .envs([("NO_COLOR", "1"), ("OLLAMA_HOST", "http://127.0.0.1:1")])
                .env("HOME", forge.path(""))
                .envs(environment.iter().copied())
                .current_dir(forge.path(""))
                .arg("init")
                .stdin(line.try_clone().unwrap())
                .stderr(line)
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let keyboard = File::from(terminal);
            let (mut output, (shows, screen)) = (keyboard.try_clone().unwrap(), channel());
            std::thread::spawn(move || {
                let mut bytes = [0; 1024];
                while let Ok(n @ 1..) = output.read(&mut bytes) {
                    if shows.send(bytes[..n].to_vec()).is_err() {
                        break;
                    }
                }
            });
            Self { keyboard, screen, shown: String::new(), seen: 0, child }
        }

        /// Waits until `question` is there; nothing of before counts.
        fn sees(&mut self, question: &str) {
            while !self.shown[self.seen..].contains(question) {
                let more = self.screen.recv_timeout(Duration::from_secs(60));
                let more = more.unwrap_or_else(|_| panic!("no `{question}` in:\n{}", self.shown));
                self.shown += &String::from_utf8(more).unwrap();
            }
            self.seen = self.shown.len();
        }

        fn answers(&mut self, question: &str, answer: &str) {
            self.sees(question);
            self.keyboard.write_all(format!("{answer}\n").as_bytes()).unwrap();
        }

        /// The exit code, where no signal ended it, and all that was shown.
        fn ends(mut self) -> (Option<i32>, String) {
            loop {
                match self.screen.recv_timeout(Duration::from_secs(60)) {
                    Ok(more) => self.shown += &String::from_utf8(more).unwrap(),
                    Err(RecvTimeoutError::Disconnected) => break,
                    Err(RecvTimeoutError::Timeout) => {
                        self.child.kill().unwrap();
                        panic!("it did not end after:\n{}", self.shown);
                    }
                }
            }
            (self.child.wait().unwrap().code(), self.shown)
        }
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
        let mut asked = Asked::begin(&forge, &[]);
        asked.answers("provider: ", "");
        asked.answers("an answer is needed here\r\nprovider: ", "opnai");
        asked.answers("(If you mean `openai`: Ctrl-C, and begin again.)\r\naddress: ", "localhost:80");
        asked.answers("begins with http:// or https://\r\naddress: ", "http://localhost:80/v1");
        asked.answers("model: ", "small");
        asked.answers("id [helper]: ", "");
        let (code, shown) = asked.ends();
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
        let mut asked = Asked::begin(&forge, &[("ANTHROPIC_API_KEY", "planted")]);
        for question in ["provider [anthropic]: ", "model [claude-haiku-4-5]: ", "id [helper]: "] {
            asked.answers(question, "");
        }
        let (code, shown) = asked.ends();
        assert_eq!(code, Some(0), "{shown}");
        assert!(!shown.contains("planted"), "{shown}");
        assert_eq!(files(&forge), ["forge.schema.json", "forge.yaml"]);
        // What is there already is seen before anything is asked.
        let (code, shown) = Asked::begin(&forge, &[]).ends();
        assert_eq!((code, shown.contains("provider")), (Some(2), false), "{shown}");
    }

    #[test]
    fn whoever_leaves_in_mid_way_leaves_nothing_behind() {
        let forge = Forge::new();
        let mut asked = Asked::begin(&forge, &[]);
        asked.answers("provider: ", "openai");
        asked.sees("model [gpt-4o-mini]: ");
        // Not the signal of Ctrl-C, which shells have those ignore that they start in the background.
        kill_process(Pid::from_child(&asked.child), Signal::TERM).unwrap();
        assert_eq!(asked.ends().0, None);
        assert_eq!(files(&forge), Vec::<String>::new());
        // The end of the input, as by Ctrl-D.
        let mut asked = Asked::begin(&forge, &[]);
        asked.answers("provider: ", "openai");
        asked.sees("model [gpt-4o-mini]: ");
        asked.keyboard.write_all(b"\x04").unwrap();
        let (code, shown) = asked.ends();
        assert_eq!(code, Some(2), "{shown}");
        assert!(shown.contains("nothing was written"), "{shown}");
        assert_eq!(files(&forge), Vec::<String>::new());
    }
}
