//! `forge acp`, driven by a client over its stdin and stdout. Clients that others wrote: `tests/acceptance/acp.sh`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::forge::Forge;

const YAML: &str = "agents: [{ id: one, model: 'openai:scripted', tools: [read, write, shell] }]\n";

/// An editor.
struct Editor {
    agent: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// Everything that the agent sent besides answers.
    heard: Vec<Value>,
    /// The answer to each permission that is asked for, in order.
    permits: Vec<&'static str>,
    /// The files that are open in it, by their paths, as they are shown there.
    files: std::collections::BTreeMap<String, String>,
    /// The output and the exit code of each terminal.
    terminals: std::collections::BTreeMap<String, (String, Option<i32>)>,
    n: u64,
    folder: String,
}

impl Editor {
    fn start(forge: &Forge, server: &ScriptedServer) -> Self {
        let mut command = forge.process();
        command.arg("acp");
        Self::of(command, forge, server)
    }

    /// The editor of an agent that nobody has trusted with the folder.
    fn start_wary(forge: &Forge, server: &ScriptedServer) -> Self {
        let trusting = forge.process();
        let mut command = std::process::Command::new(trusting.get_program());
        command.env_clear().env("HOME", forge.path("home")).current_dir(forge.path(".")).arg("acp");
        Self::of(command, forge, server)
    }

    fn of(mut command: std::process::Command, forge: &Forge, server: &ScriptedServer) -> Self {
        command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k");
        command.env("PATH", std::env::var("PATH").unwrap());
        let mut agent =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (agent.stdin.take(), BufReader::new(agent.stdout.take().unwrap()));
        let folder = std::fs::canonicalize(forge.path(".")).unwrap().display().to_string();
        Self {
            agent,
            stdin,
            stdout,
            heard: Vec::new(),
            permits: Vec::new(),
            files: [].into(),
            terminals: [].into(),
            n: 0,
            folder,
        }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the agent is gone; heard {:?}", self.heard);
        let message: Value =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("not the protocol: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    /// Sends a request without waiting for its answer; returns its id.
    fn begin(&mut self, method: &str, params: &Value) -> u64 {
        self.n += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.n, "method": method, "params": params}));
        self.n
    }

    /// Reads until the request is answered; permissions are answered meanwhile.
    fn answer(&mut self, id: u64) -> Result<Value, Value> {
        loop {
            let message = self.next();
            if message.get("method").is_none() {
                assert_eq!(message["id"], id, "{message}");
                return match message.get("error") {
                    Some(error) => Err(error.clone()),
                    None => Ok(message["result"].clone()),
                };
            }
            if message["method"] == "session/request_permission" {
                let outcome = match self.permits.is_empty() {
                    true => json!({"outcome": "cancelled"}),
                    false => json!({"outcome": "selected", "optionId": self.permits.remove(0)}),
                };
                self.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": outcome}}));
            }
            let open = |files: &std::collections::BTreeMap<String, String>| {
                files.get(message["params"]["path"].as_str().unwrap_or_default()).cloned()
            };
            match message["method"].as_str() {
                Some("fs/read_text_file") => {
                    let answer = match open(&self.files) {
                        Some(text) => {
                            json!({"jsonrpc": "2.0", "id": message["id"], "result": {"content": text}})
                        }
                        None => {
                            json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32002, "message": "not open"}})
                        }
                    };
                    self.send(&answer);
                }
                Some("fs/write_text_file") => {
                    let text = |key: &str| message["params"][key].as_str().unwrap().to_owned();
                    self.files.insert(text("path"), text("content"));
                    self.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": null}));
                }
                Some(method) if method.starts_with("terminal/") => {
                    let result = self.terminal(method, &message["params"]);
                    self.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
                }
                _ => {}
            }
            self.heard.push(message);
        }
    }

    /// Runs a command to its end when its terminal is created.
    fn terminal(&mut self, method: &str, params: &Value) -> Value {
        if method == "terminal/create" {
            let words = params["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
            let mut command = std::process::Command::new(params["command"].as_str().unwrap());
            let ran = command.args(words).current_dir(params["cwd"].as_str().unwrap()).output().unwrap();
            let text = String::from_utf8(ran.stdout).unwrap();
            let id = format!("t{}", self.terminals.len());
            self.terminals.insert(id.clone(), (text, ran.status.code()));
            return json!({"terminalId": id});
        }
        let (text, code) = &self.terminals[params["terminalId"].as_str().unwrap()];
        match method {
            "terminal/wait_for_exit" => json!({"exitCode": code}),
            "terminal/output" => {
                json!({"output": text, "truncated": false, "exitStatus": {"exitCode": code}})
            }
            _ => json!({}),
        }
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        let id = self.begin(method, params);
        self.answer(id)
    }

    fn session(&mut self) -> String {
        self.ask("initialize", &json!({"protocolVersion": 1, "clientCapabilities": {}})).unwrap();
        let params = json!({"cwd": self.folder, "mcpServers": []});
        self.ask("session/new", &params).unwrap()["sessionId"].as_str().unwrap().to_owned()
    }

    fn prompt(&mut self, session: &str, text: &str) -> Result<Value, Value> {
        let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
        self.ask("session/prompt", &params)
    }

    /// The updates of a kind that were heard, which are then forgotten.
    fn updates(&mut self, kind: &str) -> Vec<Value> {
        let heard = std::mem::take(&mut self.heard).into_iter();
        let updates = heard.map(|message| message["params"]["update"].clone());
        updates.filter(|update| update["sessionUpdate"] == kind).collect()
    }

    /// What the agent said, which is then forgotten.
    fn said(&mut self) -> String {
        let chunks = self.updates("agent_message_chunk");
        chunks.iter().map(|chunk| chunk["content"]["text"].as_str().unwrap()).collect()
    }

    /// Closes stdin and returns the exit code.
    fn leave(mut self) -> i32 {
        drop(self.stdin.take());
        self.agent.wait().unwrap().code().unwrap_or(-1)
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one conversation of an editor, from its beginning to its end")]
fn an_editor_has_sessions_prompts_and_tool_calls() {
    let forge = Forge::new().with_file("forge.yaml", YAML).with_file("notes.txt", "closed on Monday\n");
    let steps = vec![
        Step::calls(&[("read", r#"{"path":"notes.txt"}"#)]),
        Step::text("On Monday."),
        Step::text("No."),
        Step::text("A dot."),
    ];
    let server = ScriptedServer::start(steps);
    let mut editor = Editor::start(&forge, &server);
    let about = editor.ask("initialize", &json!({"protocolVersion": 1, "clientCapabilities": {}})).unwrap();
    assert_eq!(
        (&about["protocolVersion"], &about["agentCapabilities"]["loadSession"]),
        (&json!(1), &json!(true))
    );
    let params = json!({"cwd": editor.folder, "mcpServers": []});
    let session = editor.ask("session/new", &params).unwrap()["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(editor.prompt(&session, "When was it closed?").unwrap()["stopReason"], "end_turn");
    let heard = std::mem::take(&mut editor.heard);
    let kinds: Vec<&str> =
        heard.iter().map(|message| message["params"]["update"]["sessionUpdate"].as_str().unwrap()).collect();
    let mut kinds: Vec<&str> = kinds.into_iter().filter(|kind| *kind != "agent_thought_chunk").collect();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "available_commands_update",
            "usage_update",
            "tool_call",
            "tool_call_update",
            "agent_message_chunk",
            "usage_update"
        ]
    );
    let of = |kind: &str| {
        heard
            .iter()
            .map(|message| &message["params"]["update"])
            .find(|update| update["sessionUpdate"] == kind)
            .unwrap()
    };
    let call = of("tool_call");
    assert_eq!(
        (&call["title"], &call["kind"], &call["status"]),
        (&json!("Read(notes.txt)"), &json!("read"), &json!("pending"))
    );
    assert!(call["locations"][0]["path"].as_str().unwrap().ends_with("/notes.txt"), "{call}");
    assert_eq!(of("tool_call_update")["status"], "in_progress");
    let mut updates = heard.iter().map(|message| &message["params"]["update"]);
    let result = updates.rfind(|update| update["sessionUpdate"] == "tool_call_update").unwrap();
    assert_eq!((&result["toolCallId"], &result["status"]), (&call["toolCallId"], &json!("completed")));
    assert!(
        result["content"][0]["content"]["text"].as_str().unwrap().contains("closed on Monday"),
        "{result}"
    );
    editor.heard = heard;
    assert_eq!(editor.said(), "On Monday.");

    // Links and attached files become a part of the message.
    let prompt = json!([
        {"type": "text", "text": "Compare "},
        {"type": "resource_link", "uri": "file:///a.txt", "name": "a"},
        {"type": "resource", "resource": {"uri": "file:///b.txt", "text": "text of b"}},
    ]);
    editor.ask("session/prompt", &json!({"sessionId": session, "prompt": prompt})).unwrap();
    let sent = server.requests()[2]["messages"].to_string();
    assert!(sent.contains("Compare /a.txt/b.txt") && sent.contains("[/b.txt]\\ntext of b"), "{sent}");

    // So does an image, for a model that reads it.
    let pixel =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let prompt =
        json!([{"type": "text", "text": "See "}, {"type": "image", "data": pixel, "mimeType": "image/png"}]);
    editor.ask("session/prompt", &json!({"sessionId": session, "prompt": prompt})).unwrap();
    let sent = server.requests()[3]["messages"].to_string();
    assert!(sent.contains("[image of the prompt, 1 × 1 pixels]"), "{sent}");

    // Another process loads the run, and tells what was said.
    assert_eq!(editor.leave(), 0);
    let server = ScriptedServer::start(vec![Step::text("Still Monday.")]);
    let mut editor = Editor::start(&forge, &server);
    editor.ask("initialize", &json!({"protocolVersion": 1})).unwrap();
    let listed = editor.ask("session/list", &json!({"cwd": editor.folder})).unwrap();
    let listed = &listed["sessions"][0];
    assert_eq!((&listed["sessionId"], &listed["title"]), (&json!(session), &json!("When was it closed?")));
    let params = json!({"sessionId": session, "cwd": editor.folder, "mcpServers": []});
    editor.ask("session/load", &params).unwrap();
    let asked = editor.heard.clone();
    let asked: Vec<&Value> = asked.iter().map(|message| &message["params"]["update"]).collect();
    let texts: Vec<&str> = asked.iter().filter_map(|update| update["content"]["text"].as_str()).collect();
    assert_eq!(texts[..2], ["When was it closed?", "On Monday."]);
    assert_eq!(editor.prompt(&session, "And now?").unwrap()["stopReason"], "end_turn");
    assert!(editor.said().ends_with("Still Monday."));
    assert!(server.requests()[0]["messages"].to_string().contains("When was it closed?"));
    assert_eq!(editor.leave(), 0);
}

#[test]
fn an_edit_is_made_if_the_user_permits_it_and_a_diff_is_shown() {
    for (permit, expected) in [("once", "new\n"), ("always", "new\n"), ("reject", "old\n")] {
        let forge = Forge::new().with_file("forge.yaml", YAML).with_file("a.txt", "old\n");
        let write = || Step::calls(&[("write", r#"{"path":"a.txt","content":"new\n"}"#)]);
        let server = ScriptedServer::start(vec![write(), Step::text("done")]);
        let mut editor = Editor::start(&forge, &server);
        let session = editor.session();
        editor.permits = vec![permit];
        assert_eq!(editor.prompt(&session, "Change it.").unwrap()["stopReason"], "end_turn");
        assert_eq!(std::fs::read_to_string(forge.path("a.txt")).unwrap(), expected, "{permit}");
        let asked =
            editor.heard.iter().find(|message| message["method"] == "session/request_permission").unwrap();
        let call = &asked["params"]["toolCall"];
        let diff = &call["content"][0];
        assert_eq!(
            (&diff["type"], &diff["oldText"], &diff["newText"]),
            (&json!("diff"), &json!("old\n"), &json!("new\n"))
        );
        assert!(diff["path"].as_str().unwrap().starts_with('/'), "{diff}");
        let kinds: Vec<&Value> =
            asked["params"]["options"].as_array().unwrap().iter().map(|option| &option["kind"]).collect();
        assert_eq!(kinds, ["allow_once", "allow_always", "reject_once"]);
        let status = editor.updates("tool_call_update").last().unwrap()["status"].clone();
        assert_eq!(status, if permit == "reject" { "failed" } else { "completed" }, "{permit}");
        assert_eq!(editor.leave(), 0);
    }
}

#[test]
fn files_that_are_open_in_the_editor_are_read_and_written_there() {
    let yaml = YAML
        .replace("write, shell", "write, patch")
        .replace("id: one", "id: one, permissions: { write: allow, patch: allow }");
    let forge =
        Forge::new().with_file("forge.yaml", yaml).with_file("a.txt", "on disk\n").with_file("b.txt", "b\n");
    let server = ScriptedServer::start(vec![
        Step::calls(&[("read", r#"{"path":"a.txt"}"#), ("read", r#"{"path":"b.txt"}"#)]),
        Step::calls(&[(
            "patch",
            r#"{"path":"a.txt","edits":[{"old_text":"unsaved","new_text":"changed"}]}"#,
        )]),
        Step::calls(&[("write", r#"{"path":"new/c.txt","content":"c\n"}"#)]),
        Step::text("done"),
    ]);
    let mut editor = Editor::start(&forge, &server);
    let fs = json!({"fs": {"readTextFile": true, "writeTextFile": true}});
    editor.ask("initialize", &json!({"protocolVersion": 1, "clientCapabilities": fs})).unwrap();
    let path = |name: &str| format!("{}/{name}", editor.folder);
    let (a, c) = (path("a.txt"), path("new/c.txt"));
    editor.files.insert(a.clone(), "unsaved text\n".to_owned());
    let params = json!({"cwd": editor.folder, "mcpServers": []});
    let session = editor.ask("session/new", &params).unwrap()["sessionId"].as_str().unwrap().to_owned();
    editor.prompt(&session, "Change it.").unwrap();
    let read = server.requests()[1]["messages"].to_string();
    assert!(read.contains("unsaved text") && read.contains("b\\n") && !read.contains("on disk"), "{read}");
    assert_eq!((editor.files[&a].as_str(), editor.files[&c].as_str()), ("changed text\n", "c\n"));
    // Saving them is the editor's task.
    assert_eq!(std::fs::read_to_string(forge.path("a.txt")).unwrap(), "on disk\n");
    assert_eq!(editor.leave(), 0);
}

#[test]
fn a_session_has_modes() {
    let forge = Forge::new().with_file("forge.yaml", YAML).with_file("a.txt", "old\n");
    let write = || Step::calls(&[("write", r#"{"path":"a.txt","content":"new\n"}"#)]);
    let server = ScriptedServer::start(vec![write(), Step::text("A plan."), write(), Step::text("done")]);
    let mut editor = Editor::start(&forge, &server);
    editor.ask("initialize", &json!({"protocolVersion": 1})).unwrap();
    let params = json!({"cwd": editor.folder, "mcpServers": []});
    let begun = editor.ask("session/new", &params).unwrap();
    let session = begun["sessionId"].as_str().unwrap().to_owned();
    let modes = begun["modes"]["availableModes"].as_array().unwrap();
    let ids: Vec<&str> = modes.iter().map(|mode| mode["id"].as_str().unwrap()).collect();
    assert_eq!(
        (ids, &begun["modes"]["currentModeId"]),
        (vec!["plan", "ask", "edits", "auto"], &json!("ask"))
    );
    // No call is asked for in either mode: the first denies edits, the second allows them.
    for (mode, expected) in [("plan", "old\n"), ("edits", "new\n")] {
        editor.ask("session/set_mode", &json!({"sessionId": session, "modeId": mode})).unwrap();
        assert_eq!(editor.prompt(&session, "Change it.").unwrap()["stopReason"], "end_turn");
        assert_eq!(std::fs::read_to_string(forge.path("a.txt")).unwrap(), expected, "{mode}");
    }
    let asked = editor.heard.iter().filter(|message| message["method"] != "session/update");
    let asked: Vec<&Value> = asked.map(|message| &message["params"]["toolCall"]["title"]).collect();
    assert_eq!(asked, ["Carry out this plan?"]);
    let wrong = editor.ask("session/set_mode", &json!({"sessionId": session, "modeId": "fast"})).unwrap_err();
    assert!(wrong["message"].as_str().unwrap().contains("invalid mode `fast`"), "{wrong}");
    assert_eq!(editor.leave(), 0);
}

#[test]
fn a_plan_is_shown_and_carried_out_if_the_user_approves() {
    for (permit, requests, mode, status) in [
        ("edits", 3, Some("edits"), "completed"),
        ("ask", 3, Some("ask"), "completed"),
        ("plan", 1, None, "pending"),
    ] {
        let forge = Forge::new().with_file("forge.yaml", YAML).with_file("a.txt", "old\n");
        let write = Step::calls(&[("write", r#"{"path":"a.txt","content":"new\n"}"#)]);
        let plan = Step::text("Two steps:\n\n1. Change `a.txt`\n2. Look again\n");
        let server = ScriptedServer::start(vec![plan, write, Step::text("done")]);
        let mut editor = Editor::start(&forge, &server);
        let session = editor.session();
        editor.ask("session/set_mode", &json!({"sessionId": session, "modeId": "plan"})).unwrap();
        editor.permits = vec![permit, "once"];
        assert_eq!(editor.prompt(&session, "Change it.").unwrap()["stopReason"], "end_turn");
        assert_eq!(server.requests().len(), requests, "{permit}");
        let updates = |kind: &str| -> Vec<Value> {
            let updates = editor.heard.iter().map(|message| message["params"]["update"].clone());
            updates.filter(|update| update["sessionUpdate"] == kind).collect()
        };
        let modes: Vec<Value> =
            updates("current_mode_update").iter().map(|update| update["currentModeId"].clone()).collect();
        assert_eq!(modes, mode.into_iter().map(Value::from).collect::<Vec<_>>(), "{permit}");
        let plans = updates("plan");
        let entry =
            |content: &str, status: &str| json!({"content": content, "priority": "medium", "status": status});
        assert_eq!(
            plans[0]["entries"],
            json!([entry("Change a.txt", "pending"), entry("Look again", "pending")])
        );
        let last = &plans.last().unwrap()["entries"];
        assert_eq!(last, &json!([entry("Change a.txt", status), entry("Look again", status)]), "{permit}");
        assert_eq!(editor.leave(), 0);
    }
}

#[test]
fn the_steps_of_a_task_are_its_plan() {
    let forge = Forge::new().with_file("forge.yaml", YAML.replace("shell", "steps"));
    let step = |status: &str| json!({"steps": [{"step": "Fix it", "status": status}]}).to_string();
    let server = ScriptedServer::start(vec![
        Step::Calls(vec![("steps".into(), step("in_progress"))]),
        Step::Calls(vec![("steps".into(), step("completed"))]),
        Step::text("done"),
    ]);
    let mut editor = Editor::start(&forge, &server);
    let session = editor.session();
    editor.prompt(&session, "Fix it.").unwrap();
    let heard = editor.heard.iter().map(|message| message["params"]["update"].clone());
    let (plans, others): (Vec<Value>, Vec<Value>) =
        heard.partition(|update| update["sessionUpdate"] == "plan");
    let status: Vec<&Value> = plans.iter().map(|plan| &plan["entries"][0]["status"]).collect();
    assert_eq!(status, ["in_progress", "completed"]);
    assert!(others.iter().all(|update| !update["sessionUpdate"].to_string().contains("tool")), "{others:?}");
    assert!(server.requests()[2]["messages"].to_string().contains("1 of 1 step done"));
    assert_eq!(editor.leave(), 0);
}

#[test]
fn a_command_without_a_sandbox_runs_in_the_terminal_of_the_editor() {
    for (sandbox, has_terminal) in [("off", true), ("on", false)] {
        let yaml = YAML.replace("id: one", "id: one, permissions: { shell: allow }");
        let forge = Forge::new().with_file("forge.yaml", yaml);
        let command = json!({"command": "echo $0 here ${OPENAI_API_KEY:-no key}; exit 3"}).to_string();
        let server =
            ScriptedServer::start(vec![Step::Calls(vec![("shell".into(), command)]), Step::text("done")]);
        let mut command = forge.process();
        command.args(["acp", "--sandbox", sandbox]);
        let mut editor = Editor::of(command, &forge, &server);
        let abilities = json!({"terminal": true});
        editor.ask("initialize", &json!({"protocolVersion": 1, "clientCapabilities": abilities})).unwrap();
        let params = json!({"cwd": editor.folder, "mcpServers": []});
        let session = editor.ask("session/new", &params).unwrap()["sessionId"].as_str().unwrap().to_owned();
        editor.prompt(&session, "Say it.").unwrap();
        let result = server.requests()[1]["messages"].to_string();
        assert!(result.contains("sh here no key\\n\\n[exit code 3]"), "{sandbox}: {result}");
        let asked: Vec<&str> = editor.heard.iter().filter_map(|message| message["method"].as_str()).collect();
        let of_terminal: Vec<&str> =
            asked.into_iter().filter(|method| method.starts_with("terminal/")).collect();
        let expected: &[&str] = match has_terminal {
            true => &["terminal/create", "terminal/wait_for_exit", "terminal/output", "terminal/release"],
            false => &[],
        };
        assert_eq!(of_terminal, expected, "{sandbox}");
        let updates = editor.updates("tool_call_update");
        let shown: Vec<&Value> = updates.iter().map(|update| &update["content"][0]["type"]).collect();
        assert_eq!(shown.contains(&&json!("terminal")), has_terminal, "{shown:?}");
        assert_eq!(updates.last().unwrap()["status"], "failed");
        assert_eq!(editor.leave(), 0);
    }
}

#[test]
fn sessions_in_several_folders_have_one_folder_each() {
    let yaml = YAML.replace("id: one", "id: one, permissions: { write: ask }");
    let mut forge = Forge::new();
    for folder in ["a", "b"] {
        std::fs::create_dir(forge.path(folder)).unwrap();
        forge = forge
            .with_file(&format!("{folder}/forge.yaml"), yaml.clone())
            .with_file(&format!("{folder}/name.txt"), format!("folder {folder}\n"));
    }
    let read = || Step::calls(&[("read", r#"{"path":"name.txt"}"#)]);
    let write = || Step::calls(&[("write", r#"{"path":"new.txt","content":"x"}"#)]);
    let done = || Step::text("done");
    let server =
        ScriptedServer::start(vec![read(), done(), read(), done(), write(), done(), write(), done()]);
    let mut editor = Editor::start(&forge, &server);
    editor.ask("initialize", &json!({"protocolVersion": 1})).unwrap();
    let folders = ["a", "b"].map(|name| format!("{}/{name}", editor.folder));
    let sessions = folders.clone().map(|folder| {
        let begun = editor.ask("session/new", &json!({"cwd": folder, "mcpServers": []})).unwrap();
        begun["sessionId"].as_str().unwrap().to_owned()
    });
    for (n, session) in sessions.iter().enumerate() {
        editor.prompt(session, "Who are you?").unwrap();
        let read = server.requests()[2 * n + 1]["messages"].to_string();
        assert!(read.contains(&format!("folder {}", ["a", "b"][n])), "{read}");
    }
    // A question of either reaches the editor, and its answer the one that asked.
    for (session, folder) in sessions.iter().zip(["a", "b"]) {
        editor.permits = vec!["once"];
        editor.heard.clear();
        editor.prompt(session, "Write.").unwrap();
        assert!(forge.path(&format!("{folder}/new.txt")).exists(), "{folder}");
        let named = editor.heard.iter().filter_map(|message| message["params"]["sessionId"].as_str());
        assert!(named.into_iter().all(|named| named == session));
    }
    for (session, folder) in sessions.iter().zip(&folders) {
        let listed = editor.ask("session/list", &json!({"cwd": folder})).unwrap();
        let listed: Vec<&Value> =
            listed["sessions"].as_array().unwrap().iter().map(|listed| &listed["sessionId"]).collect();
        assert_eq!(listed, [session]);
    }
    editor.ask("session/close", &json!({"sessionId": sessions[1]})).unwrap();
    assert_eq!(editor.leave(), 0);
}

#[test]
fn a_prompt_can_be_stopped_and_the_session_goes_on() {
    let forge = Forge::new().with_file("forge.yaml", YAML);
    let server = ScriptedServer::start(vec![Step::Hang, Step::text("here"), Step::Hang]);
    let mut editor = Editor::start(&forge, &server);
    let session = editor.session();
    let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "Wait."}]});
    let id = editor.begin("session/prompt", &params);
    while server.requests().is_empty() {
        assert_eq!(editor.agent.try_wait().unwrap(), None, "the agent is gone");
        std::thread::yield_now();
    }
    editor.send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}));
    assert_eq!(editor.answer(id).unwrap()["stopReason"], "cancelled");
    editor.heard.clear();
    assert_eq!(editor.prompt(&session, "Again.").unwrap()["stopReason"], "end_turn");
    assert_eq!(editor.said(), "here");
    // One that waits behind it is stopped with it, and nothing of it is sent.
    editor.begin("session/prompt", &params);
    editor.begin("session/prompt", &params);
    while server.requests().len() < 3 {
        assert_eq!(editor.agent.try_wait().unwrap(), None, "the agent is gone");
        std::thread::yield_now();
    }
    // The agent reads in order, so it knows of the second prompt before it reads this.
    editor.send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}));
    for _ in 0..2 {
        let mut message = editor.next();
        while message.get("method").is_some() {
            message = editor.next();
        }
        assert_eq!(message["result"]["stopReason"], "cancelled", "{message}");
    }
    assert_eq!(server.requests().len(), 3);
    assert_eq!(editor.leave(), 0);
}

#[test]
fn a_session_works_without_a_server_of_the_editor_that_does_not_start() {
    let forge = Forge::new().with_file("forge.yaml", YAML);
    let server = ScriptedServer::start(vec![Step::text("here")]);
    let mut editor = Editor::start(&forge, &server);
    editor.ask("initialize", &json!({"protocolVersion": 1, "clientCapabilities": {}})).unwrap();
    let servers = json!([{"name": "gone", "command": "no-such-server", "args": [], "env": []}]);
    let params = json!({"cwd": editor.folder, "mcpServers": servers});
    let session = editor.ask("session/new", &params).unwrap()["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(editor.prompt(&session, "Are you there?").unwrap()["stopReason"], "end_turn");
    let heard = Value::from(editor.heard.clone()).to_string();
    assert!(heard.contains("the MCP server `gone` is not there, and its tools are missing"), "{heard}");
    assert_eq!(editor.said(), "here");
    assert_eq!(editor.leave(), 0);
}

#[test]
fn compactions_are_commands_and_are_shown() {
    let forge = Forge::new()
        .with_file("forge.yaml", YAML)
        .with_file("a.txt", format!("{}\n", "the dome was closed that night. ".repeat(200)));
    let read = || Step::calls(&[("read", r#"{"path":"a.txt"}"#)]);
    let server = ScriptedServer::start(vec![read(), read(), Step::text("Read it."), Step::text("Twice.")]);
    let mut editor = Editor::start(&forge, &server);
    let session = editor.session();
    editor.prompt(&session, "Read a.txt twice.").unwrap();
    editor.prompt(&session, "How often?").unwrap();
    editor.heard.clear();
    for (command, words) in [
        ("/context", "tokens are used"),
        ("/compact", "Compacted: "),
        ("/context", "Compactions in force: 1"),
        ("/undo", "Undone: "),
        ("/undo", "There is no compaction to undo."),
    ] {
        assert_eq!(editor.prompt(&session, command).unwrap()["stopReason"], "end_turn", "{command}");
        let said = editor.said();
        assert!(said.contains(words), "{command}: {said}");
    }
    assert_eq!(server.requests().len(), 4);
    assert_eq!(editor.leave(), 0);
}

#[test]
fn a_folder_that_nobody_has_trusted_begins_no_session() {
    let yaml = format!("hooks: {{ workflow_start: [{{ command: touch hooked }}] }}\n{YAML}");
    let forge = Forge::new().with_file("forge.yaml", yaml);
    let server = ScriptedServer::start(vec![]);
    let mut editor = Editor::start_wary(&forge, &server);
    let params = json!({"cwd": editor.folder, "mcpServers": []});
    let error = editor.ask("session/new", &params).unwrap_err();
    let message = error["message"].as_str().unwrap();
    for words in ["is not trusted", "run at workflow_start: touch hooked", "run `forge trust`"] {
        assert!(message.contains(words), "{words}: {message}");
    }
    assert_eq!(editor.leave(), 0);
    assert!(!forge.path("hooked").exists() && server.requests().is_empty());
}

#[test]
fn what_cannot_be_done_is_answered_with_the_reason() {
    let forge = Forge::new().with_file("forge.yaml", YAML);
    let server = ScriptedServer::start(vec![Step::status(400, "no such model")]);
    let mut editor = Editor::start(&forge, &server);
    let request = json!({"jsonrpc": "2.0", "id": 9, "method": "authenticate"});
    for (message, words) in [
        (json!("no request"), "is not an object"),
        (json!([]), "batches are not supported"),
        (json!([request]), "batches are not supported"),
        (json!({}), "`method` is missing"),
        (json!({"jsonrpc": "2.0", "id": 7, "params": {}}), "`method` is missing"),
        (json!({"jsonrpc": "2.0", "id": 7, "method": 5}), "`method` is not a string"),
        (json!({"jsonrpc": "2.0", "id": {}, "method": "authenticate"}), "`id` is not"),
    ] {
        editor.send(&message);
        let refused = editor.next();
        let actual = (&refused["id"], &refused["error"]["code"]);
        assert_eq!(actual, (&Value::Null, &json!(-32600)), "{message}");
        assert!(refused["error"]["message"].as_str().unwrap().contains(words), "{message}: {refused}");
    }
    // An answer to what Forge did not ask is passed over.
    editor.send(&json!({"jsonrpc": "2.0", "id": 99, "result": {}}));
    for line in [&b"{\n"[..], b"\xff\xfe\n"] {
        editor.stdin.as_mut().unwrap().write_all(line).unwrap();
        let refused = editor.next();
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&Value::Null, &json!(-32700)));
    }
    let session = editor.session();
    let folder = editor.folder.clone();
    for (method, params, code, words) in [
        ("session/fly", json!({}), -32601, "there is no method `session/fly`"),
        ("session/new", json!({}), -32602, "`cwd` is missing"),
        ("session/new", json!({"cwd": "/no/such/folder"}), -32602, "cannot open the folder"),
        (
            "session/new",
            json!({"cwd": folder, "mcpServers": [{"type": "sse", "name": "old", "url": "http://a.example"}]}),
            -32602,
            "MCP server `old`: the transport `sse` is not supported",
        ),
        (
            "session/load",
            json!({"cwd": folder, "sessionId": "gone"}),
            -32002,
            "there is no saved session `gone`",
        ),
        ("session/prompt", json!({"sessionId": "x", "prompt": []}), -32602, "no open session `x`"),
        ("session/prompt", json!({"sessionId": session, "prompt": []}), -32602, "the prompt is empty"),
        (
            "session/prompt",
            json!({"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]}),
            -32603,
            "status 400",
        ),
    ] {
        let error = editor.ask(method, &params).unwrap_err();
        assert_eq!(error["code"], code, "{method} {params}: {error}");
        assert!(error["message"].as_str().unwrap().contains(words), "{method} {params}: {error}");
    }
    assert_eq!(editor.leave(), 0);
}
