//! The schema says what the loader and `check` say.

use std::fs;

use forge_services::workflow::schema;
use jsonschema::Validator;
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::forge::{Forge, repository};

/// The schema, ready to judge. The one place that knows the crate.
pub(crate) fn validator() -> Validator {
    jsonschema::draft7::new(&schema()).unwrap()
}

/// A YAML text as an editor hands it to the schema.
pub(crate) fn value(yaml: &str) -> Value {
    let value: Value = serde_saphyr::from_str(yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}"));
    if value.is_null() { Value::Object(serde_json::Map::new()) } else { value }
}

#[test]
fn the_shipped_schema_is_the_one_that_is_printed() {
    let printed = Forge::new().run(&["config", "schema"]);
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    if std::env::var_os("FORGE_RECORD_FIXTURES").is_some() {
        fs::write(repository("forge.schema.json"), &printed.stdout).unwrap();
    }
    let shipped = fs::read_to_string(repository("forge.schema.json")).unwrap();
    assert!(
        shipped == printed.stdout,
        "forge.schema.json is not what `forge config schema` prints: \
         write it anew with `FORGE_RECORD_FIXTURES=1 cargo test -p forge_tests shipped_schema`"
    );
}

#[test]
fn the_schema_is_a_schema_and_the_example_is_valid() {
    assert!(jsonschema::meta::is_valid(&schema()));
    let yaml = fs::read_to_string(repository("forge.yaml")).unwrap();
    assert!(yaml.starts_with("# yaml-language-server: $schema=forge.schema.json\n"));
    let faults: Vec<_> = validator().iter_errors(&value(&yaml)).map(|error| error.to_string()).collect();
    assert_eq!(faults, Vec::<String>::new());
}

/// An agent that is well but for what stands in its place.
fn agent(keys: &str) -> String {
    format!("agents: [{{ id: a, model: gpt-4o, {keys} }}]\n")
}

fn compact(keys: &str) -> String {
    agent(&format!("compact: {{ {keys} }}"))
}

#[test]
fn what_the_schema_rejects_is_rejected_by_check() {
    let mut rejected = vec![
        "agent: []".to_owned(),
        "agents: 5".to_owned(),
        "agents: [{ model: gpt-4o }]".to_owned(),
        "agents: [a]".to_owned(),
        "agents: { '': { model: gpt-4o } }".to_owned(),
        "agents: { a: { model: gpt-4o, id: ' ' } }".to_owned(),
        "counting: roughly".to_owned(),
        "variables: [a]".to_owned(),
        "models: { m: { window: -1 } }".to_owned(),
        "models: { m: { window: lots } }".to_owned(),
        "models: { m: { provider: '' } }".to_owned(),
        "providers: { p: { kind: gemini } }".to_owned(),
        "providers: { p: { url: 'http://h' } }".to_owned(),
        "providers: { p: { retries: -1, base_url: 'http://h' } }".to_owned(),
        "providers: { p: { headers: [a], base_url: 'http://h' } }".to_owned(),
        "providers: { '': { base_url: 'http://h' } }".to_owned(),
        "hooks: { pre_compact: [{ timeout: 1s }] }".to_owned(),
        "hooks: { pre_compact: [{ command: '' }] }".to_owned(),
        "hooks: { pre_compact: [{ command: a, timeout: soon }] }".to_owned(),
        "hooks: { pre_compact: { command: a } }".to_owned(),
        "hooks: { before: [] }".to_owned(),
    ];
    for keys in [
        "temperature: 3",
        "temperature: hot",
        "top_p: 0",
        "top_p: 2",
        "max_turns: 0",
        "max_turns: many",
        "max_output_tokens: 1.5",
        "tools: read",
        "tools: ['']",
        "subscribe: user_task_init",
        "hooks: []",
        "max_turn: 3",
        "compact: 80%",
    ] {
        rejected.push(agent(keys));
    }
    for keys in [
        "token_threshold: 0",
        "token_threshold: 0%",
        "token_threshold: 101%",
        "token_threshold: 0.8",
        "token_threshold: lots",
        "max_tokens: [1]",
        "message_threshold: 0",
        "turn_threshold: -1",
        "max_messages: 5",
        "max_turns: 5",
        "min_reduction: 20",
        "min_reduction: 0%",
        "retention_window: -1",
        "preserve_system_messages: 7",
        "selection: worst",
        "strategies: sliding_window",
        "strategies: [slide]",
        "strategies: [{ slide: {} }]",
        "strategies: [{ sliding_window: {}, truncation: {} }]",
        "strategies: [{}]",
        "strategies: [{ sliding_window: { keep: 3 } }]",
        "strategies: [{ sliding_window: { keep_first: -3 } }]",
        "strategies: [{ clear_tool_results: { exclude_tools: read } }]",
        "strategies: [{ truncation: { keep: 3 } }]",
        "prompt: 'Sum up'",
        "summary_tag: tag",
        "summary_tag: '<tag>', model: gpt-4o",
        "summary_max_tokens: 5",
        "summary_max_tokens: 0, model: gpt-4o",
        "focus: ''",
        "pin: never",
        "pin: ['']",
        "auto_compact: sometimes",
        "keep: [m1]",
    ] {
        rejected.push(compact(keys));
    }
    let validator = validator();
    for yaml in &rejected {
        assert!(!validator.is_valid(&value(yaml)), "the schema takes {yaml}");
        let checked = Forge::new().with_file("forge.yaml", yaml).run(&["config", "check"]);
        assert_eq!(checked.code, 2, "`check` takes {yaml}");
        assert!(checked.stderr.contains("forge.yaml:1:"), "{yaml}: {}", checked.stderr);
    }
}

#[test]
fn what_check_takes_is_taken_by_the_schema() {
    let mut taken = vec![
        "agents: []".to_owned(),
        "agents: {}".to_owned(),
        "agents: { a: { model: gpt-4o } }".to_owned(),
        "{}".to_owned(),
        "variables: { a: 1, b: [x], c: null }".to_owned(),
        "providers: { p: { base_url: 'http://h', api_key_env: KEY, headers: { a: $B }, retries: 0 } }"
            .to_owned(),
        "base: &base { model: gpt-4o }".replace("base:", "agents: { x:") + ", y: *base }",
        "agents: { x: &x { model: gpt-4o }, y: { <<: *x, max_turns: 3 } }".to_owned(),
    ];
    taken.extend(
        [agent(""), agent("temperature: 2, top_p: 1"), agent("model: ~").replace("model: gpt-4o, ", "")]
            .into_iter()
            .take(2),
    );
    for keys in [
        "",
        "token_threshold: 6000",
        "token_threshold: '6000'",
        "token_threshold: ' 80 % '",
        "token_threshold: 080%",
        "token_threshold: 100%",
        "retention_window: 0",
        "strategies: []",
        "strategies: [truncation, { sliding_window: {} }, { clear_tool_results: { keep: 0 } }]",
        "max_messages: 5, message_threshold: 10",
        "model: gpt-4o, prompt: 'Sum up', summary_tag: a-b_c, summary_max_tokens: 1",
        "focus: ~, pin: ~",
    ] {
        taken.push(compact(keys));
    }
    for limit in ["250ms", "10s", "2m", "1m 30s", "10 seconds"] {
        taken.push(format!("hooks: {{ post_compact: [{{ command: a, timeout: '{limit}' }}] }}"));
    }
    let validator = validator();
    for yaml in &taken {
        let checked = Forge::new().with_file("forge.yaml", yaml).run(&["config", "check"]);
        assert_eq!((checked.code, checked.stderr.as_str()), (0, ""), "{yaml}");
        let faults: Vec<_> = validator.iter_errors(&value(yaml)).map(|error| error.to_string()).collect();
        assert_eq!(faults, Vec::<String>::new(), "{yaml}");
    }
}
