//! A newcomer's first hours, each played in a terminal, with a picture of its screen in `docs/first-hours/`.
//!
//! `FORGE_RECORD_FIXTURES=1` draws the pictures again.

use std::fs;
use std::process::Command;

use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::chat::{PROMPT, says};
use crate::forge::{Forge, repository};
use crate::picture::escaped;
use crate::pseudo_terminal::Terminal;

const SHIFT_TAB: &str = "\x1b[Z";

/// A folder with a repository in it, and a server with the answers.
struct Hour {
    forge: Forge,
    server: ScriptedServer,
    /// The name of its picture.
    name: &'static str,
}

impl Hour {
    fn new(name: &'static str, files: &[(&str, &str)], steps: Vec<Step>) -> Self {
        let forge = Forge::new();
        for (path, text) in files {
            if let Some((folder, _)) = path.rsplit_once('/') {
                fs::create_dir_all(forge.path(folder)).unwrap();
            }
            fs::write(forge.path(path), text).unwrap();
        }
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            git.args([
                "-c",
                "user.name=you",
                "-c",
                "user.email=you@example.org",
                "-c",
                "init.defaultBranch=main",
            ]);
            let done = git.args(arguments).current_dir(forge.path("")).env("HOME", forge.path("")).output();
            assert!(done.unwrap().status.success(), "git {arguments:?}");
        };
        git(&["init", "-q"]);
        git(&["add", "-A"]);
        git(&["commit", "-q", "--allow-empty", "-m", "Begin"]);
        Self { forge, server: ScriptedServer::start(steps), name }
    }

    /// Starts a command of the shell at a terminal, in which `forge` is the one under test.
    fn shell(&self, line: &str, variables: &[(&str, &str)]) -> Terminal {
        self.shell_of((80, 24), line, variables)
    }

    /// The same in a terminal of that size.
    fn shell_of(&self, (columns, rows): (u16, u16), line: &str, variables: &[(&str, &str)]) -> Terminal {
        let inner = self.forge.process();
        let program = inner.get_program().to_owned();
        let script = format!("forge() {{ \"$FORGE\" \"$@\"; }}\n{line}");
        Terminal::start(columns, rows, |terminal| {
            let mut command = Command::new("setsid");
            command.args(["--ctty", "--wait", "sh", "-c", &script]).current_dir(self.forge.path(""));
            command.env_clear().env("FORGE", program).env("HOME", self.forge.path(""));
            command.env("PATH", std::env::var("PATH").unwrap()).env("TERM", "xterm-256color");
            command.env("OLLAMA_HOST", "http://127.0.0.1:1").envs(variables.iter().copied());
            command.stdin(terminal()).stdout(terminal()).stderr(terminal());
            command
        })
    }

    /// The same with one key.
    fn with_key(&self, line: &str) -> Terminal {
        self.shell(line, &[("OPENAI_API_KEY", "planted"), ("OPENAI_BASE_URL", &self.server.base_url())])
    }

    /// Compares the screen with its picture, or draws it.
    fn picture(&self, terminal: &Terminal, title: &str, words: &[&str]) {
        terminal.shows("what the picture is to have", |lines| {
            let screen = lines.join("\n");
            words.iter().all(|words| screen.contains(words))
        });
        let path = repository(&format!("docs/first-hours/{}.svg", self.name));
        if std::env::var_os("FORGE_RECORD_FIXTURES").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, terminal.picture(title)).unwrap();
        }
        // Without its tags, and without the blanks, which are places.
        let drawn = fs::read_to_string(&path).unwrap();
        let drawn: String =
            drawn.split('<').filter_map(|part| part.split_once('>')).map(|(_, text)| text).collect();
        let bare = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        for words in words {
            let is_there = bare(&drawn).contains(&bare(&escaped(words)));
            assert!(is_there, "`{words}` is not in {}: draw it again", path.display());
        }
    }

    /// What the last message of a request says.
    fn last_message(&self, request: usize) -> String {
        let request: &Value = &self.server.requests()[request];
        let messages = request["messages"].as_array().unwrap();
        messages.last().unwrap()["content"].as_str().unwrap_or_default().to_owned()
    }
}

fn leaves(mut terminal: Terminal) {
    terminal.types("\x04");
    let ended = terminal.ends();
    assert_eq!(ended.code, Some(0), "{}", ended.shown);
}

fn call(tool: &str, arguments: &Value) -> Step {
    Step::calls(&[(tool, &arguments.to_string())])
}

#[test]
fn a_fresh_repository_with_one_key() {
    let files = [("README.md", "# Dome\n\nWhen to close it.\n"), ("AGENTS.md", "Answer briefly.\n")];
    let hour = Hour::new(
        "one-key",
        &files,
        vec![
            call("list", &json!({})),
            Step::text("**Two files:** a README about a dome, and rules for agents."),
        ],
    );
    let mut terminal = hour.with_key("forge");
    terminal.sees("openai:scripted");
    says(&mut terminal, "What is here?");
    terminal.sees("→ List(.)");
    terminal.sees("Two files:");
    terminal.sees(PROMPT);
    let words = ["openai:scripted", "› What is here?", "→ List(.)", "a README about a dome"];
    hour.picture(&terminal, "forge in a fresh repository with one key", &words);
    // No line is wider than the terminal, and none is broken inside a word.
    assert!(terminal.screen().iter().all(|line| line.chars().count() <= 80), "{:?}", terminal.screen());
    let system = hour.server.requests()[0]["messages"][0]["content"].to_string();
    assert!(system.contains("Answer briefly."), "{system}");
    leaves(terminal);
}

#[test]
fn with_a_local_ollama_only() {
    let hour =
        Hour::new("ollama", &[("notes.txt", "rain\n")], vec![Step::text("It is a folder with notes.")]);
    let url = hour.server.base_url();
    let host = url.trim_end_matches("/v1").to_owned();
    let mut terminal = hour.shell("forge", &[("OLLAMA_HOST", &host)]);
    terminal.sees("ollama:scripted");
    says(&mut terminal, "What is this?");
    terminal.sees("It is a folder with notes.");
    terminal.sees(PROMPT);
    hour.picture(&terminal, "forge with a local Ollama", &["ollama:scripted", "It is a folder with notes."]);
    leaves(terminal);
}

#[test]
fn with_nothing_it_says_what_to_set() {
    let hour = Hour::new("nothing", &[], Vec::new());
    let mut terminal = hour.shell("forge", &[]);
    terminal.sees("`forge doctor` checks keys and servers");
    terminal.is_over();
    let words = ["no model is configured", "export ANTHROPIC_API_KEY=...", "ollama pull MODEL", "forge init"];
    hour.picture(&terminal, "forge without a key and without Ollama", &words);
    assert_eq!(terminal.ends().code, Some(2));
}

#[test]
fn a_failing_test_is_fixed() {
    let files = [
        ("add.sh", "echo $(($1 - $2))\n"),
        ("test.sh", "[ \"$(sh add.sh 2 3)\" = 5 ] && echo passed || { echo 'add 2 3 is not 5'; exit 1; }\n"),
    ];
    let hour = Hour::new(
        "failing-test",
        &files,
        vec![
            call("shell", &json!({"command": "sh test.sh"})),
            call(
                "patch",
                &json!({"path": "add.sh", "edits": [{"old_text": "$1 - $2", "new_text": "$1 + $2"}]}),
            ),
            call("shell", &json!({"command": "sh test.sh"})),
            Step::text("Fixed: `add.sh` subtracted. The test passes."),
        ],
    );
    let mut terminal = hour.with_key("forge \"Fix the failing test.\"");
    terminal.sees("wants to call shell");
    // One key answers.
    terminal.sees("[a] always this command");
    terminal.types("a");
    terminal.sees("add 2 3 is not 5");
    terminal.sees("wants to change add.sh (+1 −1)");
    terminal.sees("-echo $(($1 - $2))");
    terminal.sees("+echo $(($1 + $2))");
    terminal.sees("why not");
    let words = ["→ Shell(sh test.sh)", "wants to change add.sh (+1 −1)", "+echo $(($1 + $2))", "[y] once"];
    hour.picture(&terminal, "An edit is shown before it is made", &words);
    terminal.types("y");
    terminal.sees("Edited add.sh (+1 −1)");
    // The same command was allowed for this run.
    terminal.sees("passed");
    terminal.sees("Fixed:");
    terminal.sees(PROMPT);
    assert_eq!(fs::read_to_string(hour.forge.path("add.sh")).unwrap(), "echo $(($1 + $2))\n");
    terminal.types("/permissions\r");
    terminal.sees("allowed for this run: shell: sh test.sh");
    leaves(terminal);
}

#[test]
fn a_difference_from_a_pipe_is_reviewed() {
    let hour = Hour::new(
        "pipe",
        &[("dome.txt", "close at 40 km/h\n")],
        vec![Step::text("One remark: the limit rises from 40 to 65 km/h, and nothing says why.")],
    );
    fs::write(hour.forge.path("dome.txt"), "close at 65 km/h\n").unwrap();
    let mut terminal =
        hour.with_key("echo '$ git diff | forge -p \"Review this. @dome.txt\"'; git diff | forge -p 'Review this. @dome.txt'");
    terminal.sees("nothing says why.");
    terminal.is_over();
    let words = ["$ git diff | forge -p", "One remark:", "1 call"];
    hour.picture(&terminal, "A review of a difference from a pipe", &words);
    let sent = hour.last_message(0);
    for part in ["Review this. @dome.txt", "<file path=\"dome.txt\">\nclose at 65 km/h", "-close at 40 km/h"]
    {
        assert!(sent.contains(part), "{sent}");
    }
    assert_eq!(terminal.ends().code, Some(0));
}

#[test]
fn whoever_pipes_a_task_in_is_asked_at_the_terminal() {
    let write = |text: &str| call("write", &json!({"path": "new.txt", "content": text}));
    let hour = Hour::new("", &[], vec![write("one"), write("two"), Step::text("done")]);
    let mut terminal = hour.with_key("echo 'a line' | forge run 'Write it.'");
    terminal.sees("wants to create");
    terminal.sees("[n] no");
    terminal.types("y");
    terminal.sees("wants to change");
    terminal.sees("+two");
    // What is typed before the question stands there is no answer to it.
    terminal.sees("[n] no");
    terminal.types("n");
    terminal.sees("done");
    assert_eq!(terminal.ends().code, Some(0));
    assert_eq!(fs::read_to_string(hour.forge.path("new.txt")).unwrap(), "one");
    assert_eq!(hour.last_message(0), "Write it.\n\na line");
}

#[test]
fn a_chat_is_suspended_and_continued() {
    let hour = Hour::new("", &[], vec![Step::text("Still here.")]);
    let mut terminal = hour.with_key("set -m; \"$FORGE\"; echo back; fg");
    terminal.sees(PROMPT);
    terminal.types("hel");
    terminal.sees("› hel");
    terminal.types("\x1a");
    // What is typed before the chat has the terminal again is the shell's.
    terminal.shows("the line again", |lines| {
        let back = lines.iter().position(|line| line.contains("back"));
        back.is_some_and(|back| lines[back + 1..].iter().any(|line| line.starts_with("› hel")))
    });
    terminal.types("lo\r");
    terminal.sees("Still here.");
    assert_eq!(hour.last_message(0), "hello");
    terminal.sees(PROMPT);
    leaves(terminal);
}

#[test]
fn two_agents_work_one_after_the_other() {
    let yaml = "agents:\n  coder: { model: openai:scripted, tools: [read], emits: [change_made] }\n  \
                reviewer: { model: openai:scripted, tools: [read], subscribe: [change_made] }\n";
    let hour = Hour::new(
        "two-agents",
        &[("forge.yaml", yaml)],
        vec![
            call("emit", &json!({"event": "change_made", "value": "Review dome.txt: the limit is 65 now."})),
            Step::text("The limit is raised; a review is under way."),
            Step::text("The change is fine: 65 km/h is what the maker allows."),
        ],
    );
    let mut terminal = hour.with_key("forge --trust \"Raise the limit to 65 km/h.\"");
    terminal.sees("a review is under way");
    terminal.sees("── reviewer ──");
    terminal.sees("is what the maker allows.");
    terminal.sees(PROMPT);
    let words = ["→ emit", "Emitted. When you are done, it starts reviewer.", "── reviewer ──"];
    hour.picture(&terminal, "One agent starts another by an event", &words);
    assert_eq!(hour.last_message(2), "Review dome.txt: the limit is 65 now.");
    leaves(terminal);
}

#[test]
fn a_plan_is_approved_and_done() {
    let hour = Hour::new(
        "plan",
        &[("dome.txt", "close at 40 km/h\n")],
        vec![
            call("write", &json!({"path": "dome.txt", "content": "too early"})),
            Step::text("1. Change `dome.txt`: 40 becomes 65.\n2. Read it again to check."),
            call("write", &json!({"path": "dome.txt", "content": "close at 65 km/h\n"})),
            Step::text("Done: the dome closes at 65 km/h."),
        ],
    );
    let mut terminal = hour.with_key("forge");
    terminal.sees(PROMPT);
    // Shift-Tab goes round: edits, auto (if there is a sandbox), plan.
    terminal.types(SHIFT_TAB);
    terminal.sees("edits without asking");
    terminal.types("\x15/mode plan\r");
    terminal.sees("mode plan: reads only");
    says(&mut terminal, "Close the dome only at 65 km/h.");
    terminal.sees("the user wants a plan first");
    terminal.sees("2. Read it again to check.");
    terminal.sees("Carry out this plan?");
    terminal.sees("[n] keep planning");
    let words = ["plan mode", "1. Change", "Carry out this plan?", "[y] yes, edit freely"];
    hour.picture(&terminal, "A plan waits for approval", &words);
    assert_eq!(fs::read_to_string(hour.forge.path("dome.txt")).unwrap(), "close at 40 km/h\n");
    terminal.types("y");
    terminal.sees("› The plan is approved: carry it out.");
    terminal.sees("Done: the dome closes at 65 km/h.");
    terminal.sees(PROMPT);
    assert_eq!(fs::read_to_string(hour.forge.path("dome.txt")).unwrap(), "close at 65 km/h\n");
    let requests = hour.server.requests();
    let first = requests[0].to_string();
    assert!(first.contains("[Plan mode: read and search only."), "{first}");
    assert!(requests[2].to_string().contains("[Plan mode is over"), "{}", requests[2]);
    leaves(terminal);
}

/// An answer with everything that has a look of its own.
const ANSWER: &str = "\
The dome closes **too late**: the limit is compared with the *mean*, not with the gusts. I changed one line and ran the tests.

## What the nights say

| night | closed at | mean | gust |
| --- | --- | ---: | ---: |
| 2025-09-01 | 00:30 | 38 km/h | 65 km/h |
| 2025-09-14 | never | 36 km/h | 71 km/h |

1. `limit()` reads the gusts now:
   - the mean stays in the log,
   - the limit is the same.
2. The test covers a night with gusts only.

```python
def must_close(wind):
    return wind.gust >= LIMIT  # was: wind.mean
```
";

#[test]
fn the_chat_is_read_in_a_small_and_in_a_large_terminal() {
    const DOME: &str = "LIMIT = 60\n\n\ndef must_close(wind):\n    return wind.mean >= LIMIT\n";
    for (name, size) in [("chat-80x24", (80, 24)), ("chat-160x45", (160, 45))] {
        let edits = json!([{"old_text": "wind.mean", "new_text": "wind.gust"}]);
        let hour = Hour::new(
            name,
            &[("dome.py", DOME)],
            vec![
                Step::Calls(vec![
                    ("read".into(), json!({"path": "dome.py"}).to_string()),
                    ("search".into(), json!({"pattern": "must_close"}).to_string()),
                ]),
                call("patch", &json!({"path": "dome.py", "edits": edits})),
                call("shell", &json!({"command": "seq -f 'test %g passes' 1 40"})),
                Step::text(ANSWER),
            ],
        );
        let key: [(&str, &str); 2] =
            [("OPENAI_API_KEY", "planted"), ("OPENAI_BASE_URL", &hour.server.base_url())];
        let mut terminal = hour.shell_of(size, "forge", &key);
        says(&mut terminal, "Why does the dome close so late? Fix it.");
        terminal.sees("[Space] why not");
        terminal.types("y");
        terminal.sees("Edited dome.py (+1 −1)");
        terminal.sees("seq -f");
        terminal.sees("[Space] why not");
        terminal.types("y");
        terminal.sees("wind.gust >= LIMIT");
        terminal.sees(PROMPT);
        hour.picture(&terminal, "An answer in the chat", &["must_close", "% of the window"]);
        leaves(terminal);
    }
}

#[test]
fn a_run_is_interrupted_resumed_and_undone() {
    let hour = Hour::new(
        "resume",
        &[("notes.txt", &"rain over the dome\n".repeat(200))],
        vec![
            call("read", &json!({"path": "notes.txt"})),
            Step::text("It rained on every night."),
            Step::Hang,
            Step::text("Still rain."),
        ],
    );
    let mut terminal = hour.with_key("forge \"When did it rain?\"");
    terminal.sees("It rained on every night.");
    says(&mut terminal, "Are you sure?");
    terminal.sees("this will");
    terminal.types("\x03\x03");
    let ended = terminal.ends();
    assert_eq!(ended.code, Some(130), "{}", ended.shown);

    let mut terminal = hour.with_key("forge --resume");
    terminal.sees("Resume a run");
    terminal.sees("› When did it rain?");
    terminal.types("\r");
    terminal.sees("Continue it?");
    terminal.types("y");
    terminal.sees("Still rain.");
    says(&mut terminal, "/compact");
    terminal.sees("compacted by");
    says(&mut terminal, "/undo");
    terminal.sees("Undid compaction c0");
    let words = ["› Are you sure?", "Still rain.", "compacted by", "Undid compaction c0"];
    hour.picture(&terminal, "A run is resumed, compacted, and the compaction undone", &words);
    // The same run as a page.
    says(&mut terminal, "/export page.html");
    terminal.sees("wrote page.html");
    let page = fs::read_to_string(hour.forge.path("page.html")).unwrap();
    assert!(page.contains("When did it rain?") && page.contains("unfold <b>"), "{page}");
    terminal.sees(PROMPT);
    leaves(terminal);
}

#[test]
fn an_mcp_server_of_the_project() {
    let mcp = json!({"mcpServers": {"notes": {"command": "./notes-server"}}}).to_string();
    let steps = vec![
        call("notes__echo", &json!({"text": "closed on Monday"})),
        Step::text("The note says that the dome was closed on Monday."),
    ];
    let hour = Hour::new("mcp", &[(".mcp.json", &mcp)], steps);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_mcp_under_test"), hour.forge.path("notes-server"))
        .unwrap();
    let mut terminal = hour.with_key("forge");
    terminal.sees("start the MCP server `notes`");
    terminal.sees("[n] stop >");
    terminal.types("y");
    terminal.sees("openai:scripted");
    says(&mut terminal, "What does @notes:notes://one say?");
    terminal.sees("notes__echo");
    terminal.types("y");
    terminal.sees("closed on Monday.");
    terminal.sees(PROMPT);
    let words = ["start the MCP server `notes`", "@notes:notes://one", "notes__echo", "closed on Monday."];
    hour.picture(&terminal, "An MCP server of the project is trusted and used", &words);
    let asked = hour.last_message(0);
    assert!(asked.contains("[The resource notes://one of the MCP server `notes`"), "{asked}");
    leaves(terminal);
}

#[test]
fn an_editor_over_acp() {
    let yaml = "agents: [{ id: one, model: 'openai:scripted', tools: [read, patch] }]\n";
    let steps = vec![
        call("read", &json!({"path": "dome.txt"})),
        call("patch", &json!({"path": "dome.txt", "edits": [{"old_text": "60", "new_text": "65"}]})),
        Step::text("The dome now closes at 65 km/h."),
    ];
    let hour = Hour::new("editor", &[("forge.yaml", yaml), ("dome.txt", "close at 60 km/h\n")], steps);
    let line = "\"$EDITOR_UNDER_TEST\" \"Close at 65 km/h.\" \"$FORGE\" --trust acp";
    let url = hour.server.base_url();
    let editor = env!("CARGO_BIN_EXE_editor_under_test");
    let variables =
        [("OPENAI_API_KEY", "planted"), ("OPENAI_BASE_URL", &*url), ("EDITOR_UNDER_TEST", editor)];
    let mut terminal = hour.shell(line, &variables);
    terminal.sees("Allow Edit(dome.txt)?");
    terminal.types("y\n");
    terminal.sees("done: end_turn");
    let words =
        ["▸ Read(dome.txt)", "- close at 60 km/h", "+ close at 65 km/h", "The dome now closes at 65 km/h."];
    hour.picture(&terminal, "An editor asks for an edit over ACP", &words);
    assert_eq!(fs::read_to_string(hour.forge.path("dome.txt")).unwrap(), "close at 65 km/h\n");
}
