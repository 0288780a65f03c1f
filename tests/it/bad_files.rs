//! Every command that reads a file × everything that can be wrong with it: the exit code, the file's name and a way out.

use pretty_assertions::assert_eq;

use crate::forge::Forge;

const SESSION: &str = r#"{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"}]}"#;

/// What a command is given in the place of what it wants.
struct Bad {
    name: &'static str,
    /// What is in it; `None` where there is nothing to open.
    bytes: Option<Vec<u8>>,
    /// Words of the way out for a session, a proposal and a configuration; none where that reads it without complaint.
    way_out: [&'static str; 3],
}

fn bad(name: &'static str, bytes: Option<&[u8]>, way_out: [&'static str; 3]) -> Bad {
    Bad { name, bytes: bytes.map(<[u8]>::to_vec), way_out }
}

fn table() -> Vec<Bad> {
    vec![
        bad("missing", None, ["give its whole path"; 3]),
        bad("folder", None, ["name a file in that folder"; 3]),
        bad("locked", None, ["chmod +r"; 3]),
        bad("empty", Some(b""), ["another file?", "create one with --dry-run --proposal", ""]),
        bad(
            "binary",
            Some(b"\x7fELF\x02\x01\x00\xff\xfe"),
            ["unpack or export it", "create one with --dry-run", "is it a YAML file?"],
        ),
        bad(
            "cut",
            Some(&SESSION.as_bytes()[..60]),
            ["copy the whole file", "create one with --dry-run", "cut:1:"],
        ),
        bad(
            "notes",
            Some(b"# Notes of a day\n- rain\n"),
            ["text for people", "create one with --dry-run", "notes:2"],
        ),
        bad(
            "other",
            Some(br#"{"a": 1}"#),
            ["lists all formats", "create one with --dry-run", "use one of"],
        ),
        bad(
            "foreign",
            Some(
                br#"{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"toolUse":{"toolUseId":"c","name":"f","input":{}}}]}]}"#,
            ),
            ["looks like Amazon Bedrock Converse messages", "create one with --dry-run", "use one of"],
        ),
        bad(
            "odd",
            Some(br#"{"messages":[{"role":"user","content":"hi"},7]}"#),
            ["fix that entry", "create one with --dry-run", "use one of"],
        ),
    ]
}

/// The commands that read a session, and those that read a proposal and a configuration.
fn commands(file: &str) -> [Vec<Vec<&str>>; 3] {
    let sessions = vec![
        vec!["replay", file],
        vec!["replay", file, "--json"],
        vec!["inspect", file],
        vec!["inspect", file, "--json"],
        vec!["compact", file],
        vec!["compact", file, "-o", "out", "--max-tokens", "1k", "--json"],
        vec!["compact", file, "--dry-run", "--proposal", "out"],
        vec!["continue", file, "--with", "pi", "--dry-run"],
        vec!["compact", file, "--apply", "proposal.json"],
    ];
    let proposals = vec![vec!["compact", "good.json", "--apply", file]];
    let configurations = vec![
        vec!["config", "check", "--config", file],
        vec!["config", "show", "--config", file],
        vec!["models", "--config", file],
        vec!["run", "task", "--config", file],
        vec!["replay", "good.json", "--agent", "a", "--config", file],
        vec!["compact", "good.json", "--agent", "a", "--config", file],
    ];
    [sessions, proposals, configurations]
}

#[test]
fn every_command_says_what_is_wrong_with_its_file_and_what_to_do() {
    let forge = Forge::new().with_file("good.json", SESSION).with_file("locked", SESSION);
    std::fs::create_dir(forge.path("folder")).unwrap();
    let made = forge.run(&["compact", "good.json", "--dry-run", "--proposal", "proposal.json"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let is_locked = lock(&forge);
    let table = table();
    let forge = table.iter().fold(forge, |forge, bad| match &bad.bytes {
        Some(bytes) => forge.with_file(bad.name, bytes),
        None => forge,
    });
    for bad in table.iter().filter(|bad| bad.name != "locked" || is_locked) {
        for (kind, commands) in commands(bad.name).into_iter().enumerate() {
            for command in commands {
                let is_fine = kind == 2 && bad.way_out[2].is_empty();
                let is_session = kind == 0 && bad.bytes.is_some();
                // A session that changed since its proposal was made is refused before it is read.
                let is_session = is_session && command[2..] != ["--apply", "proposal.json"];
                if is_fine {
                    continue;
                }
                let actual = forge.run(&command);
                let code = if is_session { 1 } else { 2 };
                assert_eq!(
                    (actual.code, actual.stdout.as_str()),
                    (code, ""),
                    "{command:?}: {}",
                    actual.stderr
                );
                let is_changed = kind == 0 && bad.bytes.is_some() && !is_session;
                let way_out = if is_changed { "create a new one with" } else { bad.way_out[kind] };
                for words in [bad.name, way_out] {
                    assert!(
                        actual.stderr.contains(words),
                        "{command:?}: `{words}` is not in:\n{}",
                        actual.stderr
                    );
                }
                assert!(!forge.path("out").exists(), "{command:?}");
            }
        }
    }
}

/// Takes away the right to read `locked`; whether that helps: an administrator may read everything.
#[cfg(unix)]
fn lock(forge: &Forge) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(forge.path("locked"), std::fs::Permissions::from_mode(0o000)).unwrap();
    let is_locked = std::fs::read(forge.path("locked")).is_err();
    if !is_locked {
        skipped_tests::skip("run as root", "a file that may not be read");
    }
    is_locked
}

#[cfg(not(unix))]
fn lock(_: &Forge) -> bool {
    false
}

#[test]
fn an_output_that_cannot_be_written_is_told_with_its_path() {
    let forge = Forge::new().with_file("good.json", SESSION);
    std::fs::create_dir(forge.path("folder")).unwrap();
    for (place, words) in
        [("nowhere/out", "create the folder first"), ("folder", "name a file in that folder")]
    {
        for flag in ["--output", "--report", "--proposal"] {
            let mut command = vec!["compact", "good.json", flag, place];
            command.extend(if flag == "--proposal" { &["--dry-run"][..] } else { &[] });
            let actual = forge.run(&command);
            assert_eq!(actual.code, 1, "{command:?}: {}", actual.stderr);
            for word in ["cannot write", place, words] {
                assert!(actual.stderr.contains(word), "{command:?}: `{word}` is not in:\n{}", actual.stderr);
            }
        }
    }
}

#[test]
#[cfg(unix)]
fn a_configuration_that_is_a_link_to_nothing_is_a_mistake() {
    for (name, target) in [("forge.yaml", "gone.yaml"), ("forge.yaml", "forge.yaml"), (".mcp.json", "gone")] {
        let forge = Forge::new();
        std::os::unix::fs::symlink(target, forge.path(name)).unwrap();
        let words = format!("{name} is a link to {target}, which leads to no file: correct it, or remove it");
        for command in [&["config", "check"][..], &["config", "show"], &["run", "--model", "openai:m", "hi"]]
        {
            let actual = forge.run(command);
            assert_eq!((actual.code, actual.stdout.as_str()), (2, ""), "{command:?}: {}", actual.stderr);
            assert!(actual.stderr.contains(&words), "{command:?}: {}", actual.stderr);
        }
    }
}

#[test]
#[cfg(unix)]
fn a_working_folder_that_is_gone_is_named_as_the_reason() {
    let forge = Forge::new();
    let script = "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" run --model openai:m hi";
    let ran = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_forge_under_test")])
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap())
        .env("HOME", forge.path("home"))
        .env("OPENAI_API_KEY", "k")
        .current_dir(forge.path("."))
        .output()
        .unwrap();
    let stderr = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("the working folder cannot be used: No such file"), "{stderr}");
}

#[test]
fn endless_and_huge_files_are_refused_at_once() {
    let forge = Forge::new().with_file("good.json", SESSION);
    let made = forge.run(&["compact", "good.json", "--dry-run", "--proposal", "proposal.json"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let sparse = std::fs::File::create(forge.path("sparse")).unwrap();
    sparse.set_len(9 << 30).unwrap();
    let mut commands: Vec<Vec<&str>> = commands("sparse").into_iter().flatten().collect();
    if cfg!(unix) {
        commands.extend(self::commands("/dev/zero").into_iter().flatten());
    }
    for command in commands {
        let actual = forge.run(&command);
        assert_eq!((actual.code, actual.stdout.as_str()), (2, ""), "{command:?}: {}", actual.stderr);
        for words in [" MiB, the largest size that is read", "is it the right file?"] {
            assert!(actual.stderr.contains(words), "{command:?}: `{words}` is not in:\n{}", actual.stderr);
        }
        assert!(!forge.path("out").exists(), "{command:?}");
    }
}
