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
fn a_file_with_the_other_ending_is_named() {
    let actual = Forge::new().with_file("forge.yml", "agents: {}\n").run(&["config", "check"]);
    assert_eq!(actual.code, 0, "{}", actual.stderr);
    assert!(actual.stderr.contains("forge.yml is not read: rename it to forge.yaml"), "{}", actual.stderr);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
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
            agent("compact: { strategies: [{ clear_tool_results: { exclude_tools: [seek] } }] }"),
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
        ("address_of_a_request", "providers:\n  mine:\n    base_url: http://localhost:8080/v1/chat/completions\n".to_owned()),
        ("address_that_is_missing", "providers:\n  mine: { kind: openai }\n".to_owned()),
        ("key_twice", agent("top_p: 1\n    top_p: 0.5")),
        ("no_yaml", "agents: { reader: { model: gpt-4o\n".to_owned()),
        ("no_model", "agents:\n  reader:\n    tools: [read]\n".to_owned()),
        // Keys.
        ("misspelt_key_of_the_file", "agent:\n  reader: { model: gpt-4o }\n".to_owned()),
        ("misspelt_key_of_a_provider", "providers:\n  mine: { base_ulr: 'http://h/v1' }\n".to_owned()),
        ("misspelt_hook", "hooks:\n  pre_compct: [{ command: ./check.sh }]\n".to_owned()),
        ("misspelt_key_merged_in", "agents:\n  a: &a { modl: gpt-4o }\n  b: { <<: *a, model: gpt-4o }\n".to_owned()),
        ("key_of_another_version", agent("compact: { eviction_window: 0.2 }")),
        ("key_of_another_version_of_an_agent", agent("max_requests_per_turn: 50")),
        ("key_of_another_version_of_the_file", "model: gpt-4o\nagents: {}\n".to_owned()),
        ("key_that_is_missing", "agents:\n  - model: gpt-4o\n".to_owned()),
        ("key_that_is_missing_in_a_price", "models:\n  gpt-4o: { price: { input: 1 } }\n".to_owned()),
        // Values.
        ("text_for_a_mapping", agent("compact: 80%")),
        ("text_for_a_list", agent("tools: read")),
        ("list_for_a_text", agent("system_prompt: [You, answer]")),
        ("nothing_for_a_mapping", "agents:\n  reader: { model: gpt-4o }\nmodels:\n".to_owned()),
        ("neither_true_nor_false", agent("compact: { auto_compact: sometimes }")),
        ("share_for_tokens", agent("compact: { token_threshold: 0.8 }")),
        ("number_for_a_percentage", agent("compact: { min_reduction: 20 }")),
        ("percentage_over_100", agent("compact: { token_threshold: 120% }")),
        ("number_below_zero", agent("compact: { retention_window: -1 }")),
        ("number_that_is_zero", agent("max_turns: 0")),
        ("number_beyond_all_bounds", agent("max_turns: 99999999999999999999")),
        ("number_that_is_none", agent("temperature: .nan")),
        ("amount_below_zero", "budget: { cost: -1 }\n".to_owned()),
        ("time_without_a_unit", "hooks:\n  pre_compact: [{ command: ./check.sh, timeout: 10 }]\n".to_owned()),
        ("day_that_is_none", "models: { gpt-4o: { price: { input: 1, output: 1, as_of: today } } }\n".to_owned()),
        ("empty_command", "hooks:\n  post_compact: [{ command: '' }]\n".to_owned()),
        ("name_of_a_tag", agent("compact: { model: gpt-4o, summary_tag: <notes> }")),
        ("unknown_selection", agent("compact: { selection: bets }")),
        ("unknown_kind_of_provider", "providers:\n  mine: { kind: bedrock }\n".to_owned()),
        ("unknown_counting", "counting: roughly\n".to_owned()),
        // Names and limits.
        ("unknown_model_of_summaries", agent("compact: { model: opnai:gpt-4o }")),
        ("unknown_agent", agent("transforms: [{ type: user, agent_id: readr, input: asked, output: known }]")),
        ("unknown_type_of_transform", agent("transforms: [{ type: tap, agent_id: reader, input: seen }]")),
        ("transform_without_a_key", agent("transforms: [{ type: assistant, agent_id: reader, input: a, output: b }]")),
        ("summary_prompt_that_does_not_render", agent("compact: { model: gpt-4o, prompt: 'Sum up {{all}}' }")),
        ("variable_that_is_not_there", agent("system_prompt: 'You work for {{variables.team}}'")),
        ("helper_that_is_not_there", agent("system_prompt: '{{shout agent.id}}'")),
        ("prompt_that_can_never_fit", agent(&format!("system_prompt: '{}'", "Answer briefly. ".repeat(100))) + "models: { gpt-4o: { window: 200 } }\n"),
        ("pins_that_can_never_fit", agent(&format!("user_prompt: 'Never stop. {}'\n    compact: {{ pin: [Never] }}", "Go on. ".repeat(100))) + "models: { gpt-4o: { window: 200 } }\n"),
        ("percentages_that_are_the_same", agent("compact: { token_threshold: 50%, max_tokens: 50% }")),
        ("summaries_without_a_model", agent("compact: { strategies: [summarization] }")),
        ("focus_that_nobody_heeds", agent("compact: { focus: names, strategies: [sliding_window] }")),
        ("tool_twice", agent("tools: [read, list, read]")),
        ("strategy_twice", agent("compact: { strategies: [extraction, extraction] }")),
        ("two_strategies_in_one", agent("compact: { strategies: [{ extraction: {}, truncation: {} }] }")),
        ("agent_twice", "agents:\n  - { id: a, model: gpt-4o }\n  - { id: a, model: gpt-4o }\n".to_owned()),
        ("two_ids", "agents:\n  a: { id: b, model: gpt-4o }\n".to_owned()),
        ("header_that_cannot_be_sent", "providers:\n  mine:\n    base_url: http://h/v1\n    headers: { x-team: a, 'x key': b }\n".to_owned()),
        // Secrets.
        ("secret_in_an_address", "providers:\n  mine: { base_url: 'http://me:planted-0123@h/v1' }\n".to_owned()),
        ("secret_in_a_prompt", agent("system_prompt: Use the key sk-planted-0123456789abcdef")),
        ("secret_as_a_variable", "variables: { password: planted-0123456789 }\n".to_owned()),
        // YAML itself.
        ("agent_id_twice", "agents:\n  a: { model: gpt-4o }\n  a: { model: gpt-5 }\n".to_owned()),
        ("tab", "agents:\n\treader: { model: gpt-4o }\n".to_owned()),
        ("colon_in_a_text", agent("description: reads: all of it")),
        ("sign_at_the_beginning", agent("description: @home")),
        ("backslash_in_quotes", agent("compact: { pin: [\"\\d+\"] }")),
        ("quote_that_does_not_end", agent("description: 'reads")),
        ("indentation", "agents:\n  reader:\n    model: gpt-4o\n   top_p: 1\n".to_owned()),
        ("alias_of_nothing", agent("description: *home")),
        ("alias_inside_itself", "agents: &all\n  reader: *all\n".to_owned()),
        ("two_documents", "agents: {}\n---\nagents: {}\n".to_owned()),
        ("no_mapping", "- model: gpt-4o\n".to_owned()),
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
fn a_rule_for_calls_that_never_applies_is_a_fault() {
    for (rules, expected) in [
        ("{ 'Bash(rm *)': deny }", "help: write `shell: { 'rm *': deny }`"),
        ("{ 'shell:rm *': ask }", "help: write `shell: { 'rm *': ask }`"),
        ("{ 'rm *': deny }", "help: write a tool, and below it the pattern"),
        ("{ 'sehll*': deny }", "help: did you mean `shell`?"),
        ("{ 'github*': allow }", "for the tools of an MCP server `github`, write `github__*`"),
        ("{ 'mcp__gh__*': deny }", "help: write `gh__*`, without `mcp__`"),
        ("{ mcp__gh: deny }", "help: write `gh__*`, without `mcp__`"),
        ("{ shell: { 'rm:*': deny } }", "help: for `rm` with any arguments, write 'rm *'"),
        ("{ shell: { 'git push:*': deny } }", "write 'git push *'; for such names, 'git push:?*'"),
        ("{ shell: { 'rm *': deny, '*': allow } }", "this never applies: the last matching rule wins"),
        ("{ shell: deny, 'sh*': ask }", "that is `permissions.sh*: ask` of the project's file"),
    ] {
        let actual = said(&format!("permissions: {rules}\nagents: {{ a: {{ model: gpt-4o }} }}\n"));
        assert!(actual.contains(expected), "{rules}: {actual}");
    }
    for rules in [
        "{ '*': deny, shell: { '*': ask, 'ls *': allow } }",
        "{ 'gh__*': deny, '*__delete': deny, 'a*': ask }",
        "{ '*': { 'secrets/**': deny }, read: allow, secrets: deny }",
        "{ shell: { 'npm run test:?*': deny, 'npm run lint:*': allow } }",
        "{ shell: { ':*': deny } }",
    ] {
        let yaml = format!("permissions: {rules}\nagents: {{ a: {{ model: gpt-4o }} }}\n");
        let actual = Forge::new().with_file("forge.yaml", yaml).run(&["config", "check"]);
        assert_eq!(actual.code, 0, "{rules}: {}", actual.stderr);
    }
}

#[test]
fn a_rule_of_the_users_may_be_about_a_server_of_another_folder() {
    let forge = Forge::new().with_file("forge.yaml", "agents: { a: { model: gpt-4o } }\n");
    std::fs::create_dir_all(forge.path(".config/forge")).unwrap();
    for (rules, code) in [
        ("{ gh__create: deny }", 0),
        ("{ 'gh__*': deny }", 0),
        ("{ sehll: deny }", 2),
        ("{ mcp__gh__x: deny }", 2),
    ] {
        std::fs::write(forge.path(".config/forge/forge.yaml"), format!("permissions: {rules}\n")).unwrap();
        let actual = forge.run(&["config", "check"]);
        assert_eq!(actual.code, code, "{rules}: {}", actual.stderr);
    }
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
    let expected = serde_json::json!({ "ok": true, "agents": ["a"], "faults": [], "warnings": [] });
    assert_eq!((actual.code, report), (0, expected));
    let missing = well.run(&["config", "check", "--json", "--config", "nowhere.yaml"]);
    assert_eq!((missing.code, missing.stderr.as_str()), (2, ""));
    let report: Value = serde_json::from_str(&missing.stdout).unwrap();
    assert_eq!((&report["ok"], &report["agents"]), (&false.into(), &serde_json::json!([])));
    let what = report["faults"][0]["what"].as_str().unwrap();
    assert!(what.starts_with("cannot read the configuration nowhere.yaml"), "{what}");
}

/// What still works and will not for ever.
const OLD: &str = "\
agents:
  - id: dev
    model: gpt-4o
    compact: { token_threshold: 80% }
    transforms:
      - { type: user, agent_id: other, input: asked, output: known }
      - { type: assistant, agent_id: other, input: long, output: short, token_limit: 60000 }
      - { type: assistant, agent_id: other, input: long, output: short, token_limit: 90000 }
  - id: other
    model: gpt-4o
";

#[test]
fn what_is_deprecated_is_told_and_is_no_fault() {
    let forge = Forge::new().with_file("forge.yaml", OLD);
    let actual = forge.run(&["config", "check"]);
    assert_eq!((actual.code, actual.stdout.as_str()), (0, "forge.yaml: no errors in dev, other\n"));
    insta::assert_snapshot!("deprecated", actual.stderr);
    let actual = forge.run(&["config", "check", "--json"]);
    assert_eq!((actual.code, actual.stderr.as_str()), (0, ""));
    let report: Value = serde_json::from_str(&actual.stdout).unwrap();
    assert_eq!((&report["ok"], &report["faults"]), (&true.into(), &serde_json::json!([])));
    let warning = |at: usize| {
        let warning = &report["warnings"][at];
        (
            warning["line"].as_u64().unwrap(),
            warning["path"].as_str().unwrap(),
            warning["what"].as_str().unwrap(),
        )
    };
    let deprecated = "Transform::Assistant is deprecated. Use the compact field on Agent instead.";
    assert_eq!(warning(0), (7, "agents.dev.transforms[1]", deprecated));
    assert_eq!(report["warnings"].as_array().map(Vec::len), Some(3));
    // Beside a fault they are told too, and migrated there are none.
    let wrong =
        Forge::new().with_file("forge.yaml", format!("{OLD}    top_p: 3\n")).run(&["config", "check"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains(deprecated) && wrong.stderr.contains("invalid top_p"), "{}", wrong.stderr);
    let old = OLD.lines().filter(|line| !line.contains("90000") && !line.contains("compact:"));
    let old = old.filter(|line| !line.contains("type: user")).map(|line| format!("{line}\n"));
    let forge = Forge::new().with_file("forge.yaml", old.collect::<String>());
    assert_eq!(forge.run(&["config", "check"]).stderr.matches(deprecated).count(), 1);
    forge.run(&["config", "migrate", "--write"]);
    let migrated = forge.run(&["config", "check"]);
    assert_eq!((migrated.code, migrated.stderr.as_str()), (0, ""));
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
