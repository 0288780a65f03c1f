//! `forge run` against the scripted server: the answer, the record, and the recording that the project ships.

use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;

use crate::forge::{Forge, Outcome, outcome, repository};

const TASK: &str = "On which nights was the dome closed by wind? Name them all.";

fn run(forge: &Forge, server: &ScriptedServer, folder: &str, arguments: &[&str]) -> Outcome {
    let mut command = forge.command(arguments);
    command.current_dir(repository(folder));
    outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "sk-scripted"))
}

/// The recording that ships is what `forge run --record` writes. To write it anew, run this test with
/// `FORGE_RECORD_FIXTURES=1`.
#[test]
fn the_recording_that_ships_is_what_a_run_records() {
    let script = std::fs::read_to_string(repository("tests/fixtures/reading.script.json")).unwrap();
    let server = ScriptedServer::start(Step::read_script(&script).unwrap());
    let forge = Forge::new();
    let record = forge.path("reading.json");
    let config = repository("tests/fixtures/reading.yaml");
    let arguments = ["run", TASK, "--config", config.to_str().unwrap(), "--record", record.to_str().unwrap()];
    let actual = run(&forge, &server, "tests/fixtures/workspace", &arguments);
    assert_eq!(actual.code, 0, "{}", actual.stderr);
    assert!(actual.stdout.contains("The dome was closed by wind on"), "{}", actual.stdout);

    let recorded = std::fs::read_to_string(record).unwrap();
    let shipped = repository("tests/fixtures/reading.json");
    if std::env::var_os("FORGE_RECORD_FIXTURES").is_some() {
        std::fs::write(&shipped, &recorded).unwrap();
    }
    assert_eq!(recorded, std::fs::read_to_string(shipped).unwrap());
}

/// Compaction happens in a live run as it does in a replay: the server never sees a prompt over the window.
#[test]
fn a_run_in_a_small_window_compacts_and_ends() {
    let script = std::fs::read_to_string(repository("tests/fixtures/reading.script.json")).unwrap();
    let server = ScriptedServer::start(Step::read_script(&script).unwrap());
    let yaml = "agents: [{ id: reader, model: 'openai:scripted', tools: [read, list], system_prompt: Read. }]\n\
                models: { 'openai:scripted': { window: 8000, max_output: 500 } }\n";
    let forge = Forge::new().with_file("forge.yaml", yaml);
    let (config, record) = (forge.path("forge.yaml"), forge.path("session.json"));
    let arguments = ["run", TASK, "--config", config.to_str().unwrap(), "--record", record.to_str().unwrap()];
    let actual = run(&forge, &server, "tests/fixtures/workspace", &arguments);
    assert_eq!(actual.code, 0, "{}", actual.stderr);
    for said in ["compacted by clear_tool_results", "extraction: tried ", "clear_tool_results: tried "] {
        assert!(actual.stderr.contains(said), "{said}: {}", actual.stderr);
    }

    // The record is the log, not the view: nothing that was compacted away is missing from it.
    let recorded = forge_transcript::read(&std::fs::read(record).unwrap(), "session").unwrap();
    let n_messages = recorded[0].messages().count();
    let requests = server.requests();
    let largest = requests.iter().map(|request| request["messages"].as_array().unwrap().len()).max().unwrap();
    assert!(n_messages > 2 * largest, "{n_messages} recorded, {largest} in the largest request");
    assert!(requests.iter().all(|request| request["messages"][0]["role"] == "system"));
    // What follows it of the user's side, such as a record, is sent in the same message.
    let opens = |request: &serde_json::Value| {
        request["messages"][1]["content"].as_str().is_some_and(|text| text.starts_with(TASK))
    };
    assert!(requests.iter().all(opens));
}
