//! Every kind of fault in a configuration, as a person reads it.

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::forge::Forge;

/// What `config check` says of `yaml`; it must refuse it.
fn said(yaml: &str) -> String {
    let actual = Forge::new().with_file("forge.yaml", yaml).run(&["config", "check"]);
    assert_eq!((actual.code, actual.stdout.as_str()), (2, ""), "{yaml}");
    actual.stderr
}

#[test]
fn each_kind_of_fault_reads_like_this() {
    let agent = |keys: &str| format!("agents:\n  reader:\n    model: gpt-4o\n    {keys}\n");
    for (name, yaml) in [
        ("unknown_key", agent("sytem_prompt: hi")),
        ("misspelt_key", agent("compact:\n      token_treshold: 80%")),
        ("wrong_type", agent("max_turns: many")),
        ("out_of_range", agent("temperature: 3")),
        ("unknown_tool", agent("tools: [read, wriet]")),
        (
            "unknown_excluded_tool",
            agent("compact: { strategies: [{ clear_tool_results: { exclude_tools: [search] } }] }"),
        ),
        ("unknown_model", "agents:\n  reader:\n    model: opnai:gpt-4o\n".to_owned()),
        (
            "unknown_provider_of_a_model",
            "models:\n  mine: { provider: olama }\nagents: { a: { model: gpt-4o } }\n".to_owned(),
        ),
        ("unknown_strategy", agent("compact: { strategies: [summarisation] }")),
        ("unknown_option_of_a_strategy", agent("compact: { strategies: [{ sliding_window: { keep: 3 } }] }")),
        ("unknown_template", agent("system_prompt: 'You {{> persona}}'")),
        ("template_that_does_not_render", agent("system_prompt: 'You are {{agent.name}}'")),
        ("template_that_does_not_parse", agent("user_prompt: '{{#if event.value}}hi'")),
        ("pin_that_does_not_compile", agent("compact: { pin: ['never ('] }")),
        (
            "budget_that_can_never_fit",
            "models: { 'openai:small': { window: 700 } }\nagents:\n  reader:\n    model: openai:small\n    compact: { model: \
             openai:small }\n"
                .to_owned(),
        ),
        ("target_without_its_trigger", agent("compact: { max_messages: 20 }")),
        ("target_above_its_trigger", agent("compact: { token_threshold: 4000, max_tokens: 6000 }")),
        ("key_without_effect", agent("compact: { summary_tag: notes }")),
        (
            "secret_as_a_key",
            "providers:\n  mine: { base_url: 'http://h/v1', api_key: sk-planted-0123456789 }\n".to_owned(),
        ),
        (
            "secret_for_a_variables_name",
            "providers:\n  mine: { base_url: 'http://h/v1', api_key_env: sk-planted-0123456789 }\n".to_owned(),
        ),
        (
            "secret_in_a_header",
            "providers:\n  mine:\n    base_url: http://h/v1\n    headers: { Authorization: Bearer planted-0123456789 }\n"
                .to_owned(),
        ),
        ("secret_in_a_comment", "# export OPENAI_API_KEY=sk-planted-0123456789\nagents: {}\n".to_owned()),
        ("address_without_a_scheme", "providers:\n  mine:\n    base_url: localhost:8080/v1\n".to_owned()),
        ("address_that_is_missing", "providers:\n  mine: { kind: openai }\n".to_owned()),
        ("key_twice", agent("top_p: 1\n    top_p: 0.5")),
        ("no_yaml", "agents: { reader: { model: gpt-4o\n".to_owned()),
        ("no_model", "agents:\n  reader:\n    tools: [read]\n".to_owned()),
    ] {
        let actual = said(&yaml);
        assert!(!actual.contains("planted"), "{actual}");
        insta::assert_snapshot!(name, format!("{yaml}---\n{actual}"));
    }
}

/// One file with a fault of many kinds.
const MANY: &str = "\
providers:
  mine: { base_url: 'ftp://h', api_key: sk-planted-0123456789 }
models:
  small: { window: lots }
agents:
  - id: one
    model: gpt-4o
    tols: [read]
    tools: [read, wriet]
    compact: { token_treshold: 80%, max_turns: 3 }
  - id: two
    model: nobody:x
    system_prompt: '{{who}}'
";

#[test]
fn everything_is_found_at_once_and_in_order() {
    insta::assert_snapshot!("everything_at_once", said(MANY));
}

#[test]
fn faults_are_told_as_json() {
    let actual = Forge::new().with_file("forge.yaml", MANY).run(&["config", "check", "--json"]);
    assert_eq!((actual.code, actual.stderr.as_str()), (2, ""));
    assert!(!actual.stdout.contains("planted"), "{}", actual.stdout);
    let report: Value = serde_json::from_str(&actual.stdout).unwrap();
    let places: Vec<_> = report["faults"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fault| format!("{}:{}: {}", fault["line"], fault["column"], fault["path"].as_str().unwrap()))
        .collect();
    assert_eq!(
        places,
        [
            "2:21: providers.mine.base_url",
            "2:32: providers.mine.api_key",
            "4:20: models.small.window",
            "8:5: agents.one.tols",
            "9:19: agents.one.tools[1]",
            "10:16: agents.one.compact.token_treshold",
            "10:48: agents.one.compact.max_turns",
            "12:12: agents.two.model",
            "13:20: agents.two.system_prompt",
        ]
    );
    assert_eq!(report["ok"], false);
    let well = Forge::new().with_file("forge.yaml", "agents: { a: { model: gpt-4o } }\n");
    let actual = well.run(&["config", "check", "--json"]);
    let report: Value = serde_json::from_str(&actual.stdout).unwrap();
    assert_eq!((actual.code, report), (0, serde_json::json!({ "ok": true, "agents": ["a"], "faults": [] })));
}

#[test]
fn both_files_are_checked() {
    let forge = Forge::new().with_file("forge.yaml", "colour: red\n");
    std::fs::create_dir_all(forge.path(".config/forge")).unwrap();
    std::fs::write(forge.path(".config/forge/forge.yaml"), "flavour: sweet\n").unwrap();
    let actual = forge.run(&["config", "check"]);
    assert_eq!(actual.code, 2);
    for words in ["unknown field `flavour`", "unknown field `colour`"] {
        assert!(actual.stderr.contains(words), "{}", actual.stderr);
    }
}
