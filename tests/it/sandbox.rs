//! The sandbox of commands: a table of escapes, each tried with namespaces and without, and each shown to succeed where there is no
//! sandbox.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use forge_domain::{Sandbox, SandboxPlaces, SandboxPolicy};
use forge_tests::{LocalWeb, Page, ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::json;
use tempfile::TempDir;

use crate::chat::chat_with;
use crate::forge::{Forge, outcome};

/// What tries the escapes for which a shell has no word.
const HELPER: &str = env!("CARGO_BIN_EXE_escape_under_test");

/// Where a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Without a sandbox: here every escape succeeds, so the table tests something.
    Open,
    /// In a sandbox that may set up namespaces.
    Namespaces,
    /// In one that may not, as in many containers.
    Plain,
}

/// A home folder with keys, a workspace, and a folder beside it.
struct World {
    folder: TempDir,
}

/// What came of a command.
#[derive(Debug)]
struct Ended {
    output: String,
    /// The parts of the sandbox that hold, each a bit.
    enforced: Option<i32>,
    /// Whether a limit was exceeded.
    exceeded: bool,
}

/// Every part of the sandbox, and the one that says that the kernel limits the number of processes.
const WHOLE: i32 = 0xff;
const PROCESSES: i32 = 0x80;

impl World {
    fn new() -> Self {
        let world = Self { folder: tempfile::tempdir().unwrap() };
        for name in ["home/.ssh", "home/.config/forge", "home/.local/state/forge", "work", "outside", "tmp"] {
            std::fs::create_dir_all(world.path(name)).unwrap();
        }
        for name in [
            "home/.ssh/id",
            "home/.config/forge/forge.yaml",
            "home/.local/state/forge/checkpoints.db",
            "outside/file",
        ] {
            std::fs::write(world.path(name), "planted").unwrap();
        }
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        std::fs::canonicalize(self.folder.path()).unwrap().join(name)
    }

    fn policy(&self, yaml: &str) -> SandboxPolicy {
        let settings: Sandbox = serde_saphyr::from_str(yaml).unwrap();
        let places = SandboxPlaces {
            workspace: self.path("work"),
            temporary: self.path("tmp"),
            home: Some(self.path("home")),
            homes: vec![self.path("home")],
            ..SandboxPlaces::default()
        };
        SandboxPolicy::decide(&settings, &places)
    }

    /// Runs a line below a supervisor, as `forge` does.
    fn run(&self, mode: Mode, yaml: &str, line: &str) -> Ended {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let order = match mode {
            Mode::Open => Vec::new(),
            Mode::Namespaces | Mode::Plain => {
                let order = json!({"policy": self.policy(yaml), "has_namespaces": mode == Mode::Namespaces});
                serde_json::to_vec(&order).unwrap()
            }
        };
        ours.write_all(b"i").unwrap();
        ours.write_all(&u32::try_from(order.len()).unwrap().to_le_bytes()).unwrap();
        ours.write_all(&order).unwrap();
        // A shell that has a key open becomes the supervisor.
        let mut command = Command::new("sh");
        let mut supervisor = command
            .args(["-c", "exec 7< \"$HOME/.ssh/id\"; exec \"$0\" \"$@\""])
            .args([env!("CARGO_BIN_EXE_forge_under_test"), "__supervise"])
            .args(["sh", "-c", &format!("exec 2>&1\n{line}")])
            .current_dir(self.path("work"))
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap())
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .env("OUTSIDE", self.path("outside"))
            .env("HELPER", HELPER)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        drop(command);
        let mut output = Vec::new();
        supervisor.stdout.take().unwrap().read_to_end(&mut output).unwrap();
        let mut reports = Vec::new();
        ours.read_to_end(&mut reports).unwrap();
        supervisor.wait().unwrap();
        let report = |kind: u8| reports.chunks_exact(5).find(|report| report[0] == kind);
        let number = |report: &[u8]| i32::from_le_bytes(report[1..].try_into().unwrap());
        Ended {
            output: String::from_utf8_lossy(&output).into_owned(),
            enforced: report(b'h').map(number),
            exceeded: report(b'x').is_some(),
        }
    }

    /// Returns the modes that this kernel has beside the open one, and tells loudly of those that it has not.
    fn modes(&self, check: &str) -> Vec<Mode> {
        // Where the kernel does not limit processes, only bombs are left out.
        let has =
            |mode: &Mode| self.run(*mode, "{}", ":").enforced.is_some_and(|parts| parts | PROCESSES == WHOLE);
        let (there, missing): (Vec<Mode>, Vec<Mode>) =
            [Mode::Namespaces, Mode::Plain].into_iter().partition(has);
        for mode in missing {
            skipped_tests::skip("the kernel cannot enforce the sandbox", &format!("{check} ({mode:?})"));
        }
        there
    }

    /// Tries each line in every mode: in the open one it succeeds, in the others it fails.
    fn try_all(&self, check: &str, yaml: &str, lines: &[(&str, &str)]) {
        for (name, line) in lines {
            let open = self.run(Mode::Open, "{}", line).output;
            assert!(open.contains("ESCAPED"), "{name} does not even succeed without a sandbox: {open}");
            self.restore();
        }
        for mode in self.modes(check) {
            for (name, line) in lines {
                let closed = self.run(mode, yaml, line).output;
                assert!(!closed.contains("ESCAPED"), "{name} ({mode:?}): {closed}");
                let file = std::fs::read_to_string(self.path("outside/file"));
                let names: Vec<_> = std::fs::read_dir(self.path("outside")).unwrap().flatten().collect();
                assert_eq!(
                    (file.unwrap().as_str(), names.len()),
                    ("planted", 1),
                    "{name} ({mode:?}): {closed}"
                );
                self.restore();
            }
        }
    }

    /// Makes the workspace empty and the folder beside it as it was.
    fn restore(&self) {
        for name in ["work", "outside"] {
            std::fs::remove_dir_all(self.path(name)).unwrap();
            std::fs::create_dir(self.path(name)).unwrap();
        }
        std::fs::write(self.path("outside/file"), "planted").unwrap();
    }
}

#[test]
fn nothing_is_written_outside() {
    World::new().try_all(
        "writing outside the workspace",
        "{}",
        &[
            ("a path", "echo x > ../outside/new && echo ESCAPED"),
            ("an absolute path", "echo x > $OUTSIDE/new && echo ESCAPED"),
            ("appending", "echo x >> ../outside/file && echo ESCAPED"),
            ("truncating", "truncate -s 0 ../outside/file && echo ESCAPED"),
            ("removing", "rm -f ../outside/file && echo ESCAPED"),
            ("a folder", "mkdir ../outside/new && echo ESCAPED"),
            ("a link of a name", "ln -s $OUTSIDE link && echo x > link/new && echo ESCAPED"),
            ("a link made outside", "ln -s x ../outside/new && echo ESCAPED"),
            ("a hard link in", "ln ../outside/file hard && echo x >> hard && echo ESCAPED"),
            ("a hard link out", "echo x > inside; ln inside ../outside/new && echo ESCAPED"),
            ("a rename in", "mv ../outside/file stolen && echo ESCAPED"),
            ("a rename out", "echo x > inside; mv inside ../outside/new && echo ESCAPED"),
            ("a rename over", "echo x > inside; mv -f inside ../outside/file && echo ESCAPED"),
            ("a descriptor", "exec 9< ../outside/file; echo x >> /proc/self/fd/9 && echo ESCAPED"),
            ("the root of a process", "echo x > /proc/self/root$OUTSIDE/new && echo ESCAPED"),
            ("the folder of a process", "cd ../outside; echo x > /proc/self/cwd/new && echo ESCAPED"),
            (
                "a child of a child",
                "sh -c \"(sh -c 'setsid -w sh -c \\\"echo x > $OUTSIDE/new\\\"')\" && echo ESCAPED",
            ),
            ("another environment", "env -i sh -c \"echo x > $OUTSIDE/new\" && echo ESCAPED"),
        ],
    );
}

#[test]
fn keys_and_stores_are_not_read() {
    World::new().try_all(
        "reading keys",
        "{}",
        &[
            ("a key", "cat ~/.ssh/id && echo ESCAPED"),
            ("a key by a link", "ln -s ~/.ssh link; cat link/id && echo ESCAPED"),
            ("a key by a hard link", "ln ~/.ssh/id hard && cat hard && echo ESCAPED"),
            ("a key by another root", "cat /proc/self/root$HOME/.ssh/id && echo ESCAPED"),
            ("a key that is moved", "mv ~/.ssh moved && cat moved/id && mv moved ~/.ssh && echo ESCAPED"),
            ("the store", "cat ~/.local/state/forge/checkpoints.db && echo ESCAPED"),
            ("the configuration", "cat ~/.config/forge/forge.yaml && echo ESCAPED"),
        ],
    );
}

#[test]
fn an_open_file_of_the_starting_program_is_not_inherited() {
    let world = World::new();
    // Nothing inherits it, not even a command without a sandbox.
    for mode in [vec![Mode::Open], world.modes("inherited descriptors")].concat() {
        let ended = world.run(mode, "{}", "cat <&7 && echo ESCAPED; echo done");
        let (has_read, is_done) = (ended.output.contains("planted"), ended.output.contains("done"));
        assert_eq!((has_read, is_done), (false, true), "{mode:?}: {}", ended.output);
    }
}

#[test]
fn what_is_closed_in_the_workspace_is_covered() {
    let world = World::new();
    // The home folder itself is the workspace.
    for mode in world.modes("keys inside the workspace") {
        let yaml = "{write: ['~']}";
        let ended = world.run(mode, yaml, "cat ~/.ssh/id && echo ESCAPED; echo x > ~/new && echo written");
        // Where there are no namespaces, it is told that this does not hold.
        let is_told = ended.enforced.is_some_and(|parts| parts | PROCESSES != WHOLE);
        assert_eq!((ended.output.contains("ESCAPED"), is_told), (mode == Mode::Plain, mode == Mode::Plain));
        assert!(ended.output.contains("written"), "{}", ended.output);
        if mode == Mode::Namespaces {
            let steps = "mv ~/.config ~/other && echo ESCAPED; rm -r ~/.local/state/forge && echo ESCAPED; \
                         mkdir ~/.config/new && echo written";
            let ended = world.run(mode, yaml, steps);
            assert!(
                !ended.output.contains("ESCAPED") && ended.output.contains("written"),
                "{}",
                ended.output
            );
        }
    }
}

#[test]
fn other_processes_are_left_alone() {
    let other = Command::new("sleep").arg("1000").env("PLANTED", "planted").spawn();
    let mut other = other.unwrap();
    let id = other.id();
    let lines = [
        ("the environment", format!("grep -q PLANTED /proc/{id}/environ && echo ESCAPED")),
        ("the files", format!("readlink /proc/{id}/fd/0 && echo ESCAPED")),
        ("the memory", format!("head -c 1 /proc/{id}/auxv && echo ESCAPED")),
        ("the folder", format!("cat /proc/{id}/root/etc/hostname /proc/{id}/cwd/Cargo.toml && echo ESCAPED")),
        ("ptrace", format!("$HELPER ptrace {id}")),
        ("a signal", format!("kill -CONT {id} && echo ESCAPED")),
        ("the supervisor", "kill -CONT $PPID && echo ESCAPED".to_owned()),
    ];
    let lines: Vec<(&str, &str)> = lines.iter().map(|(name, line)| (*name, line.as_str())).collect();
    World::new().try_all("other processes", "{}", &lines);
    let (own, child) = ("ptrace of a child", "sleep 9 & $HELPER ptrace $!");
    World::new().try_all("other processes", "{}", &[(own, child)]);
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn no_network_is_reached() {
    let world = World::new();
    let four = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let named = UnixListener::bind(world.path("socket")).unwrap();
    let name = format!("forge-{}", world.folder.path().display());
    let abstracted = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let mut lines = vec![
        ("IPv4", format!("$HELPER tcp {}", four.local_addr().unwrap())),
        ("a named socket", format!("$HELPER named {}", world.path("socket").display())),
        ("an abstract socket", format!("$HELPER abstract {name}")),
    ];
    let six = TcpListener::bind("[::1]:0");
    match &six {
        Ok(six) => lines.push(("IPv6", format!("$HELPER tcp {}", six.local_addr().unwrap()))),
        Err(_) => skipped_tests::skip("no IPv6", "reaching the network by IPv6"),
    }
    let lines: Vec<(&str, &str)> = lines.iter().map(|(name, line)| (*name, line.as_str())).collect();
    world.try_all("reaching the network", "{}", &lines);
    // A datagram is sent in any case, but arrives only where there is no sandbox; so it is with questions to a name server.
    udp.set_nonblocking(true).unwrap();
    let line = format!("$HELPER udp {}", udp.local_addr().unwrap());
    let received = || udp.recv(&mut [0; 16]).map_err(|error| error.kind());
    for mode in world.modes("reaching the network by UDP") {
        let ended = world.run(mode, "{}", &line);
        assert_eq!(received(), Err(ErrorKind::WouldBlock), "{mode:?}: {}", ended.output);
    }
    world.run(Mode::Open, "{}", &line);
    assert_eq!(received(), Ok(7));
    drop((named, abstracted));
}

#[test]
fn a_command_has_a_loopback_and_sockets_of_its_own() {
    let world = World::new();
    if !world.modes("a loopback").contains(&Mode::Namespaces) {
        return;
    }
    let inside = UnixListener::bind(world.path("work/socket")).unwrap();
    let ended = world.run(Mode::Namespaces, "{}", "$HELPER named $PWD/socket");
    assert!(ended.output.contains("ESCAPED"), "{}", ended.output);
    drop(inside);
    // By a rule, another one too.
    let outside = UnixListener::bind(world.path("outside/socket")).unwrap();
    let rule = format!("{{write: [{}]}}", world.path("outside").display());
    let ended = world.run(Mode::Namespaces, &rule, "$HELPER named $OUTSIDE/socket");
    assert!(ended.output.contains("ESCAPED"), "{}", ended.output);
    drop(outside);
    let ended = world.run(
        Mode::Namespaces,
        "{}",
        "grep -q 0100007F /proc/net/fib_trie /proc/net/tcp; cat /proc/net/dev",
    );
    let interfaces = ended.output.lines().filter(|line| line.contains(':')).count();
    assert!(
        interfaces >= 1 && ended.output.contains("lo:") && !ended.output.contains("eth"),
        "{}",
        ended.output
    );
}

#[test]
fn named_hosts_are_reached_through_the_proxy_alone() {
    let world = World::new();
    let page = Page { title: String::new(), kind: "text/plain", body: "planted at the page".to_owned() };
    let web = LocalWeb::start(|_| [("/page".to_owned(), page)].into());
    let address = web.origin().trim_start_matches("http://").to_owned();
    let rule = format!("{{network: ['{address}']}}");
    for mode in world.modes("hosts that are named") {
        let ended = world.run(mode, &rule, &format!("$HELPER proxy http://{address}/page"));
        assert_eq!(ended.enforced.map(|parts| parts | PROCESSES), Some(WHOLE), "{mode:?}");
        assert!(ended.output.contains("planted at the page"), "{mode:?}: {}", ended.output);
        let (name, port) = address.split_once(':').unwrap();
        let others = [format!("{name}:1"), format!("localhost:{port}"), "example.org".to_owned()];
        for other in others {
            let ended = world.run(mode, &rule, &format!("$HELPER proxy http://{other}/"));
            let denied = ended.output.contains("403 Forbidden")
                && ended.output.contains("the sandbox denies reaching");
            assert!(denied, "{mode:?} {other}: {}", ended.output);
        }
        // Nothing is reached around it.
        let ended = world.run(mode, &rule, &format!("$HELPER tcp {address}"));
        assert!(!ended.output.contains("ESCAPED"), "{mode:?}: {}", ended.output);
    }
}

#[test]
fn a_setuid_program_gives_no_rights() {
    let world = World::new();
    let modes = world.modes("a setuid program");
    for mode in &modes {
        let status = world.run(*mode, "{}", "grep NoNewPrivs /proc/self/status").output;
        assert_eq!(status.split_whitespace().last(), Some("1"), "{mode:?}");
    }
    let has_tool = Command::new("setpriv").arg("--version").output().is_ok();
    if !has_tool || !rustix::process::geteuid().is_root() {
        skipped_tests::skip("not run as root, or no setpriv", "a setuid program in the sandbox");
        return;
    }
    let id = world.path("work/id");
    std::fs::copy("/usr/bin/id", &id).unwrap();
    std::fs::set_permissions(&id, std::fs::Permissions::from_mode(0o4755)).unwrap();
    for name in [".", "work"] {
        std::fs::set_permissions(world.path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let line = "setpriv --reuid 65534 --clear-groups ./id -u";
    assert_eq!(world.run(Mode::Open, "{}", line).output, "0\n");
    for mode in modes {
        assert_eq!(world.run(mode, "{}", line).output, "65534\n", "{mode:?}");
    }
}

/// Checks whether a bomb was ended by the supervisor, or ended itself as the kernel let it start nothing more: either may be first.
fn is_stopped(ended: &Ended) -> bool {
    let output = ended.output.to_lowercase();
    ended.exceeded || output.contains("fork") || output.contains("resource temporarily unavailable")
}

#[test]
fn a_bomb_is_stopped() {
    let world = World::new();
    for mode in world.modes("a fork bomb") {
        // Without the kernel's help it might take the machine along.
        if world.run(mode, "{}", ":").enforced == Some(WHOLE) {
            let ended = world.run(mode, "{processes: 60}", "b() { b | b & }; b; b; sleep 5");
            assert!(is_stopped(&ended), "{mode:?}: {}", ended.output);
            let own_session = "b() { b | setsid sh bomb & }; b";
            std::fs::write(world.path("work/bomb"), own_session).unwrap();
            let ended = world.run(mode, "{processes: 60}", "sh bomb; sleep 5");
            assert!(is_stopped(&ended), "{mode:?}: {}", ended.output);
        } else {
            skipped_tests::skip("the kernel does not limit processes", &format!("a fork bomb ({mode:?})"));
        }
        let greedy = "x=$(head -c 300M /dev/zero | tr '\\0' a); sleep 1000";
        let ended = world.run(mode, "{memory: 100M}", greedy);
        assert!(ended.exceeded, "{mode:?}: {}", ended.output);
    }
}

#[test]
fn what_a_command_leaves_behind_cannot_get_rid_of_its_supervisor() {
    let world = World::new();
    for mode in world.modes("a daemon") {
        let daemon = "(env -i setsid sh -c 'echo $$ > daemon; exec sleep 1000' >/dev/null 2>&1 </dev/null &)";
        let line =
            format!("{daemon}\nuntil [ -s daemon ]; do sleep 0.01; done\nkill -9 $PPID || echo denied");
        let ended = world.run(mode, "{}", &line);
        assert!(ended.output.contains("denied"), "{mode:?}: {}", ended.output);
        let id = std::fs::read_to_string(world.path("work/daemon")).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
        assert!(!stat.contains("(sleep) S"), "{mode:?}: {stat}");
        world.restore();
    }
}

#[test]
fn usual_work_is_done() {
    let world = World::new();
    for mode in world.modes("usual work") {
        let line = "mkdir -p a/b && echo x > a/b/c && mv a/b/c a/d && ln a/d e && ln -s e f && rm e && mktemp >/dev/null \
             && echo y > /dev/null && head -c 1 /dev/urandom > r && cat /etc/hostname /proc/self/status >/dev/null \
             && chmod 700 a/d && ls / >/dev/null && sh -c 'kill $$' ; sh -c 'echo z >&2' && echo done";
        let ended = world.run(mode, "{}", line);
        assert!(ended.output.ends_with("z\ndone\n"), "{mode:?}: {}", ended.output);
        world.restore();
    }
}

const AGENT: &str = "\
agents: [{ id: one, model: openai:scripted, tools: [read, shell], permissions: { '*': allow } }]
providers: { openai: { retries: 0 } }
";

/// Runs lines in a workspace below the home folder; `user` is what the user's own file says. Returns what the model read, and what the
/// person did.
fn run(user: &str, project: &str, flags: &[&str], lines: &[&str]) -> (Vec<String>, String) {
    let forge = Forge::new();
    for name in ["work", ".config/forge", ".ssh"] {
        std::fs::create_dir_all(forge.path(name)).unwrap();
    }
    let forge = forge.with_file(".ssh/id", "planted").with_file(".config/forge/forge.yaml", user);
    let forge = forge.with_file("work/forge.yaml", format!("{AGENT}{project}"));
    let calls: Vec<String> = lines.iter().map(|line| json!({ "command": line }).to_string()).collect();
    let calls: Vec<(&str, &str)> = calls.iter().map(|call| ("shell", call.as_str())).collect();
    let server = ScriptedServer::start(vec![Step::calls(&calls), Step::text("done")]);
    let mut command = forge.command(&[&["run", "Do it."], flags].concat());
    command
        .current_dir(forge.path("work"))
        .env("OPENAI_BASE_URL", server.base_url())
        .env("OPENAI_API_KEY", "sk-1");
    let actual = outcome(command.env("PATH", std::env::var("PATH").unwrap()));
    assert_eq!(actual.code, 0, "{}", actual.stderr);
    let requests = server.requests();
    let messages = requests[1]["messages"].as_array().unwrap().iter();
    let results = messages.filter(|message| message["role"] == "tool");
    let results = results.map(|message| message["content"].as_str().unwrap().to_owned()).collect();
    (results, actual.stderr)
}

/// Returns whether the tests of a whole run make sense here.
fn is_enforced(check: &str) -> bool {
    World::new().modes(check).contains(&Mode::Namespaces)
}

#[test]
fn what_was_denied_is_told_to_model_and_person_with_the_rule() {
    if !is_enforced("what was denied") {
        return;
    }
    let lines = ["cat ~/.ssh/id", "mkdir ~/cache", "touch \"$TMPDIR/x\" && echo $TMPDIR"];
    let (results, stderr) = run("{}", "", &[], &lines);
    for (result, words) in results.iter().zip(["read: [", "write: [", "/forge-"]) {
        assert!(result.contains(words), "{result}");
    }
    assert!(results[0].contains("[perhaps the sandbox denies reading ") && !results[0].contains("planted"));
    for words in ["perhaps the sandbox denies reading ", "perhaps the sandbox denies writing "] {
        assert!(stderr.contains(words), "{stderr}");
    }
    // The rule does what is said of it, in the user's own file and nowhere else.
    let line = ["mkdir -p ~/cache && touch ~/cache/x && echo well"];
    let rule = "sandbox: { write: [~/cache] }\n";
    assert_eq!(run(rule, "", &[], &line).0, ["well\n"]);
    assert!(run("{}", rule, &[], &line).0[0].contains("perhaps the sandbox denies writing"));
    assert!(
        run("{}", "sandbox: { off: true }\n", &[], &line).0[0].contains("perhaps the sandbox denies writing")
    );
    assert!(
        run(rule, "sandbox: { write: [] }\n", &[], &line).0[0].contains("perhaps the sandbox denies writing")
    );
    for off in [("sandbox: { off: true }\n", &[][..]), ("{}", &["--sandbox", "off"])] {
        assert_eq!(run(off.0, "", off.1, &line).0, ["well\n"]);
    }
    assert!(run("sandbox: { off: true }\n", "", &["--sandbox", "on"], &line).0[0].contains("perhaps"));
}

#[test]
fn hooks_run_in_the_sandbox() {
    if !is_enforced("hooks") {
        return;
    }
    let hooks = "hooks: { pre_tool_call: [{ command: 'touch ran; touch ~/escaped' }] }\n";
    let (results, stderr) = run(hooks, "", &[], &["ls . .."]);
    assert!(results[0].contains("ran") && !results[0].contains("escaped"), "{results:?}");
    assert!(stderr.contains("perhaps the sandbox denies writing "), "{stderr}");
}

#[test]
fn the_doctor_says_what_is_enforced() {
    let forge = Forge::new();
    let home = tempfile::tempdir().unwrap();
    let line_in = |home: &Path| {
        let mut doctor = forge.command(&["doctor"]);
        let actual = outcome(doctor.env("PATH", std::env::var("PATH").unwrap()).env("HOME", home));
        let line = actual.stdout.lines().find(|line| line.contains("sandbox: ")).unwrap_or_default();
        line.to_owned()
    };
    let line = line_in(home.path());
    let is_whole = is_enforced("the doctor's line") && !line.contains("limit the number");
    let words = if is_whole {
        "and reach no network: all of it is enforced"
    } else {
        "this system does not enforce all of it"
    };
    assert!(line.contains(words), "{line}");
    let at_home = line_in(&forge.path("."));
    assert_eq!(at_home.contains("your home folder is in the workspace"), is_whole, "{at_home}");
}

#[test]
fn a_command_has_no_terminal() {
    for sandbox in ["on", "off"] {
        // The command itself is shown, so the word that it would paint is not in it.
        let line = "(printf 'pain%s' ted >/dev/tty) 2>/dev/null && echo a terminal || echo none";
        let hook = format!("({line}) >of-hook");
        let program = format!("({line}) >of-server; exec '{}'", env!("CARGO_BIN_EXE_mcp_under_test"));
        let yaml = format!(
            "{}hooks: {{ pre_tool_call: [{{ command: {} }}] }}\nmcp_servers: {{ s: {{ command: sh, args: [-c, {}] }} }}\n",
            AGENT.replace("[read, shell]", "[read, shell, 's__*']"),
            json!(hook),
            json!(program)
        );
        let forge = Forge::new().with_file("forge.yaml", yaml);
        let call = json!({ "command": line }).to_string();
        let server = ScriptedServer::start(vec![Step::calls(&[("shell", &call)]), Step::text("All done.")]);
        let session = ["setsid", "--ctty", "--wait"];
        let arguments = ["Do it.", "--sandbox", sandbox];
        let ended = chat_with(&forge, &server, &session, &arguments, &[("NO_COLOR", "1")]).ends();
        assert_eq!(ended.code, Some(0), "{}", ended.shown);
        assert!(!ended.shown.contains("painted"), "{sandbox}: {}", ended.shown);
        let messages = server.requests()[1]["messages"].as_array().unwrap().clone();
        let result = messages.iter().find(|message| message["role"] == "tool").unwrap();
        let result = result["content"].as_str().unwrap();
        assert!(result.contains("none") && !result.contains("a terminal"), "{sandbox}: {result}");
        for file in ["of-hook", "of-server"] {
            let found = std::fs::read_to_string(forge.path(file)).unwrap();
            assert_eq!(found, "none\n", "{sandbox}: {file}");
        }
    }
}
