//! What the pages of `docs/`, the README and the example say holds.
//!
//! A block of code says by its first word what it is, and by the words after it what is done with it:
//!
//! - `yaml` (or `yaml FILE`) is a `forge.yaml`: it is valid by the schema, and `forge config check` finds nothing wrong with it.
//!   It stays there for the `sh` blocks that follow. `yaml part` is one of its keys with all below it, to be read with an agent
//!   around it; `yaml wrong` is one that `check` refuses. `yaml of FILE` are lines of a file that is shipped; all of it holds, and all of
//!   it stays for the blocks that follow.
//! - `sh run` is run by a shell in an empty folder with the `forge` under test, after the last `yaml` block before it; it
//!   succeeds. `sh run fails` does not; with `wary` nobody has trusted the file. A following `text output` block is all that it prints; `…` there stands for any text.
//! - `sh server` runs as `sh run` does, beside a server that answers one word to everything, at `$OPENAI_BASE_URL`.
//! - `text record FILE N` is the record that `forge compact` makes of a fixture in N tokens; `…` stands for any text there, too.
//! - `sh`, `json`, `rust`, `text` and `toml` blocks without such a word are shown and not run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::forge::{Forge, repository};
use crate::schema::{validator, value};

/// A block of code of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    /// The words behind its fence.
    words: Vec<String>,
    /// What stands in it.
    text: String,
    /// The line that it begins in, from 1.
    line: usize,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in page.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(words), None) => {
                let words = words.split_whitespace().map(str::to_owned).collect();
                open = Some(Block { words, text: String::new(), line: index + 1 });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.text.push_str(&(line.to_owned() + "\n")),
            (None, None) => {}
        }
    }
    assert_eq!(open, None, "a block has no end");
    blocks
}

fn pages() -> Vec<PathBuf> {
    let docs = fs::read_dir(repository("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> =
        docs.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    pages.push(repository("README.md"));
    pages.sort();
    pages
}

/// A whole workflow around a part of one: its own keys at the top, an agent's in an agent, `compact`'s in its block.
fn whole(part: &str) -> String {
    let indented = |by: usize| part.lines().map(|line| format!("{:by$}{line}\n", "")).collect::<String>();
    let top = value(part).as_object().and_then(|keys| keys.keys().next().cloned()).unwrap_or_default();
    let schema = forge_services::workflow::schema();
    let knows = |pointer: &str| schema.pointer(pointer).is_some_and(|keys| keys.get(&top).is_some());
    if knows("/properties") {
        part.to_owned()
    } else if knows("/definitions/Agent/properties") {
        format!("agents:\n  - id: any\n{}{}", model_for(part, "model"), indented(4))
    } else if knows("/definitions/Compact/properties") {
        format!("agents:\n  - id: any\n    model: gpt-4o\n    compact:\n{}", indented(6))
    } else {
        panic!("`{top}` is no key of a workflow, an agent or a `compact` block")
    }
}

/// The model of an agent that does not say one.
fn model_for(part: &str, key: &str) -> String {
    let is_there = value(part).as_object().is_some_and(|keys| keys.contains_key(key));
    if is_there { String::new() } else { format!("    {key}: gpt-4o\n") }
}

/// Whether the lines of `part` follow each other in `whole`, however deep.
fn stands_in(part: &str, whole: &str) -> bool {
    let wanted = undented(&part.lines().collect::<Vec<_>>());
    let lines: Vec<&str> = whole.lines().collect();
    lines.windows(wanted.len()).any(|lines| undented(lines) == wanted)
}

/// The lines without what all of them are indented by.
fn undented<'l>(lines: &[&'l str]) -> Vec<&'l str> {
    let indents =
        lines.iter().filter(|line| !line.is_empty()).map(|line| line.len() - line.trim_start().len());
    let by = indents.min().unwrap_or_default();
    lines.iter().map(|line| line.get(by..).unwrap_or_default()).collect()
}

/// A shell in the folder of `forge`, in which `forge` is the one under test.
fn shell(forge: &Forge, script: &str, server: Option<&ScriptedServer>, is_wary: bool) -> (bool, String) {
    let bin = forge.path(".bin");
    if !bin.exists() {
        fs::create_dir(&bin).unwrap();
        // Whoever reads a page has written the file that it shows, and is asked once; nobody answers here.
        let program = env!("CARGO_BIN_EXE_forge_under_test");
        let script = format!("#!/bin/sh\nexec '{program}' ${{WARY---trust}} \"$@\"\n");
        fs::write(bin.join("forge"), script).unwrap();
        fs::set_permissions(bin.join("forge"), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new("sh");
    let path = format!("{}:/usr/bin:/bin", bin.display());
    command
        .args(["-e", "-c", script])
        .env_clear()
        .env("PATH", path)
        .env("HOME", forge.path(""))
        .env("NO_COLOR", "1");
    if is_wary {
        command.env("WARY", "");
    }
    if let Some(server) = server {
        command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "none");
    }
    let output = command.current_dir(forge.path("")).write_stdin("").output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said)
}

/// Whether `actual` is `expected`, where `…` stands for any text.
fn is_like(actual: &str, expected: &str) -> bool {
    let mut rest = actual.trim_end();
    let parts: Vec<&str> = expected.trim_end().split('…').collect();
    let (last, others) = parts.split_last().unwrap();
    for (position, part) in others.iter().enumerate() {
        match rest.find(part) {
            Some(at) if position > 0 || at == 0 => rest = &rest[at + part.len()..],
            _ => return false,
        }
    }
    if others.is_empty() { rest == *last } else { rest.ends_with(last) }
}

fn check_page(path: &Path) -> usize {
    let page = fs::read_to_string(path).unwrap();
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let mut configuration: Option<String> = None;
    let mut is_wrong = false;
    let mut said: Option<String> = None;
    let mut n_checked = 0;
    for block in blocks(&page) {
        let at = format!("docs: {name}:{}", block.line);
        let words: Vec<&str> = block.words.iter().map(String::as_str).collect();
        n_checked += 1;
        match words.as_slice() {
            ["yaml", "wrong"] => {
                let checked = Forge::new().with_file("forge.yaml", &block.text).run(&["config", "check"]);
                assert_eq!(checked.code, 2, "{at}: `check` takes it");
                (configuration, is_wrong) = (Some(block.text), true);
            }
            ["yaml", rest @ ..] => {
                let yaml = match rest {
                    ["part"] => whole(&block.text),
                    ["of", file] => {
                        let shipped = fs::read_to_string(repository(file)).unwrap();
                        assert!(stands_in(&block.text, &shipped), "{at}: {file} does not say this");
                        shipped
                    }
                    _ => block.text,
                };
                assert_eq!(validator().faults(&value(&yaml)), "", "{at}: by the schema");
                let checked = Forge::new().with_file("forge.yaml", &yaml).run(&["config", "check"]);
                let is_old = yaml.contains("transforms:");
                let is_quiet = checked.stderr.is_empty() || (is_old && !checked.stderr.contains("error:"));
                assert!(checked.code == 0 && is_quiet, "{at}: {}\n{yaml}", checked.stderr);
                (configuration, is_wrong) = (Some(yaml), false);
            }
            ["sh", how @ ("run" | "server"), rest @ ..] => {
                let mut forge = Forge::new();
                if let Some(yaml) = &configuration {
                    forge = forge.with_file("forge.yaml", yaml);
                }
                let fixture = fs::read(repository("tests/fixtures/reading.json")).unwrap();
                forge = forge.with_file("session.json", fixture);
                let server = (*how == "server")
                    .then(|| ScriptedServer::start((0..20).map(|_| Step::text("done")).collect()));
                let (is_well, text) = shell(&forge, &block.text, server.as_ref(), rest.contains(&"wary"));
                assert_eq!(is_well, !rest.contains(&"fails"), "{at}:\n{}\n{text}", block.text);
                said = Some(text);
                // What is wrong was shown, and is corrected before the page continues.
                if std::mem::take(&mut is_wrong) {
                    configuration = None;
                }
            }
            ["text", "output"] => {
                let said = said.take().unwrap_or_else(|| panic!("{at}: nothing was run before it"));
                assert!(is_like(&said, &block.text), "{at}: it printed\n{said}\nand not\n{}", block.text);
            }
            ["text", "record", file, most] => check_record(file, most, &block.text, &at),
            ["sh" | "json" | "rust" | "text" | "toml"] => n_checked -= 1,
            words => panic!("{at}: nobody knows what to do with a block `{}`", words.join(" ")),
        }
    }
    n_checked
}

/// The record that `forge compact` makes of a fixture is the one that a page shows.
fn check_record(file: &str, most: &str, expected: &str, at: &str) {
    let fixture = fs::read(repository("tests/fixtures").join(file)).unwrap();
    let forge = Forge::new().with_file(file, fixture);
    let run = forge.run(&["compact", file, "--max-tokens", most, "--output", "out.json"]);
    assert_eq!(run.code, 0, "{at}: {}", run.stderr);
    let written: Value = serde_json::from_slice(&fs::read(forge.path("out.json")).unwrap()).unwrap();
    let texts =
        written["messages"].as_array().unwrap().iter().filter_map(|message| message["content"].as_str());
    let record = texts.into_iter().find(|text| text.starts_with("<record>")).unwrap_or_default();
    assert!(is_like(record, expected), "{at}: the record is\n{record}\nand not\n{expected}");
}

#[test]
fn what_the_pages_show_holds() {
    let n_checked: usize = pages().iter().map(|page| check_page(page)).sum();
    assert!(n_checked >= 2, "{n_checked} blocks were checked");
}

#[test]
fn every_page_is_in_the_index_and_every_link_leads_somewhere() {
    let index = fs::read_to_string(repository("docs/index.md")).unwrap();
    for page in pages() {
        let name = page.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&page).unwrap();
        let is_listed = ["README.md", "index.md"].contains(&name.as_str());
        assert!(is_listed || index.contains(&format!("({name})")), "docs/index.md does not lead to {name}");
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://") && !link.starts_with('#')) {
            let file = link.split('#').next().unwrap();
            assert!(page.parent().unwrap().join(file).exists(), "{name} links to {link}, which is not there");
        }
    }
}

/// What stands around the tables of keys on the page of the configuration.
const MARKS: [&str; 2] = ["<!-- keys: written by a test -->\n", "<!-- end of keys -->"];

#[test]
fn the_tables_of_keys_are_those_of_the_schema() {
    let path = repository("docs/configuration.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(MARKS[0]).unwrap();
    let (actual, after) = rest.split_once(MARKS[1]).unwrap();
    let expected = tables(&forge_services::workflow::schema());
    if std::env::var_os("FORGE_RECORD_FIXTURES").is_some() {
        fs::write(&path, [before, MARKS[0], &expected, MARKS[1], after].concat()).unwrap();
        return;
    }
    assert!(
        actual == expected,
        "docs/configuration.md does not have the schema's keys: \
         write them anew with `FORGE_RECORD_FIXTURES=1 cargo test -p forge_tests tables_of_keys`"
    );
}

/// A table for each mapping of the schema, in the order in which a workflow nests them.
fn tables(schema: &Value) -> String {
    let headings = [
        ("Workflow", "The file"),
        ("ProviderConfig", "`providers.NAME`"),
        ("ModelConfig", "`models.ID`"),
        ("McpServerConfig", "`mcp_servers.NAME`"),
        ("Price", "`price`"),
        ("LongPromptPrice", "`price.long_prompt`"),
        ("Allowance", "`budget`"),
        ("Agent", "`agents.ID`"),
        ("Compact", "`compact`"),
        ("ClearToolResults", "`strategies: clear_tool_results`"),
        ("SlidingWindow", "`strategies: sliding_window`"),
        ("HookCommands", "`hooks`"),
        ("HookCommand", "A command of `hooks`"),
        ("ToolHookCommand", "A command of `hooks` about tools"),
        ("CheckpointPolicy", "`checkpoint`"),
        ("AgentCheckpoints", "`agents.ID.checkpoint`"),
        ("Sandbox", "`sandbox`"),
        ("ToolSettings", "`tool_settings`"),
        ("ShellSettings", "`tool_settings.shell`"),
        ("FetchSettings", "`tool_settings.fetch`"),
        ("WebSearchSettings", "`tool_settings.web_search`"),
        ("Transform", "An item of `transforms`"),
        ("TransformKeys", "Below the type of such an item"),
    ];
    let definitions = schema["definitions"].as_object().unwrap();
    let known = |name: &str| headings.iter().find(|(known, _)| *known == name).map(|(_, words)| *words);
    let mut order: Vec<&str> = headings.iter().map(|(name, _)| *name).collect();
    order.extend(definitions.keys().map(String::as_str).filter(|name| known(name).is_none()));
    let mut text = String::new();
    for name in order {
        let mapping = if name == "Workflow" { Some(schema) } else { definitions.get(name) };
        let keys = mapping.and_then(|mapping| mapping["properties"].as_object());
        for keys in keys.into_iter().filter(|keys| !keys.is_empty()) {
            text += &format!("\n### {}\n\n", known(name).unwrap_or(name));
            text += "| key | default | for example | meaning |\n| --- | --- | --- | --- |\n";
            for (key, value) in keys {
                let default = value.get("default").filter(|default| !default.is_null()).map(written);
                let example = value["examples"].get(0).map(written).unwrap_or_default();
                let meaning = value["description"].as_str().unwrap_or_default().replace('|', "\\|");
                text += &format!("| `{key}` | {} | {example} | {meaning} |\n", default.unwrap_or_default());
            }
        }
    }
    text + "\n"
}

/// A value as YAML writes it in a line.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => format!("`{text}`"),
        value => format!("`{}`", value.to_string().replace('|', "\\|")),
    }
}

#[test]
fn blocks_are_told_from_text_and_outputs_compared() {
    let page = "a\n```yaml part\nx: 1\n```\n  ```sh run\n  ls\n  ```\n";
    let actual: Vec<_> = blocks(page).into_iter().map(|block| (block.words.join(" "), block.line)).collect();
    assert_eq!(actual, [("yaml part".to_owned(), 2), ("sh run".to_owned(), 5)]);
    let whole = "a:\n  b: 1\n\n  c:\n    - d\n";
    for (part, expected) in
        [("b: 1\n\nc:\n  - d\n", true), ("c:\n  - d\n", true), ("b: 1\nc:\n", false), ("c:\n- d\n", false)]
    {
        assert_eq!(stands_in(part, whole), expected, "{part}");
    }
    for (actual, expected, is_same) in [
        ("a b c\n", "a b c\n", true),
        ("a b c\n", "a …\n", true),
        ("a b c\n", "… c\n", true),
        ("a b c\n", "a … d\n", false),
        ("a b c\n", "b … c\n", false),
        ("a b c\n", "b\n", false),
    ] {
        assert_eq!(is_like(actual, expected), is_same, "{actual} {expected}");
    }
}
