//! The schema says what the loader and `check` say.

use std::collections::BTreeSet;
use std::fs;

use boon::{Compiler, SchemaIndex, Schemas};
use forge_services::workflow::{Layers, Source, check_references, load, schema};
use pretty_assertions::assert_eq;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::Value;

use crate::forge::{Forge, repository};

/// The schema, ready to judge. The one place that knows the crate.
pub(crate) struct Validator {
    schemas: Schemas,
    root: SchemaIndex,
}

impl Validator {
    pub(crate) fn is_valid(&self, document: &Value) -> bool {
        self.schemas.validate(document, self.root).is_ok()
    }

    /// What is wrong with `document`; empty where it is valid.
    pub(crate) fn faults(&self, document: &Value) -> String {
        self.schemas
            .validate(document, self.root)
            .map_or_else(|error| format!("{error:#}"), |()| String::new())
    }
}

pub(crate) fn validator() -> Validator {
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource("forge.schema.json", schema()).unwrap();
    // Refuses what is not a schema of the draft that it names.
    let root = compiler.compile("forge.schema.json", &mut schemas).unwrap();
    Validator { schemas, root }
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
    let yaml = fs::read_to_string(repository("forge.yaml")).unwrap();
    assert!(yaml.starts_with("# yaml-language-server: $schema=forge.schema.json\n"));
    assert_eq!(validator().faults(&value(&yaml)), "");
}

/// An agent that is well but for what stands in its place.
fn agent(keys: &str) -> String {
    format!("agents: [{{ id: a, model: gpt-4o, {keys} }}]\n")
}

fn compact(keys: &str) -> String {
    agent(&format!("compact: {{ {keys} }}"))
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
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
        "providers: { p: { kind: bedrock } }".to_owned(),
        "providers: { p: { url: 'http://h' } }".to_owned(),
        "providers: { p: { retries: -1, base_url: 'http://h' } }".to_owned(),
        "providers: { p: { headers: [a], base_url: 'http://h' } }".to_owned(),
        "providers: { '': { base_url: 'http://h' } }".to_owned(),
        "hooks: { pre_compact: [{ timeout: 1s }] }".to_owned(),
        "hooks: { pre_compact: [{ command: '' }] }".to_owned(),
        "hooks: { pre_compact: [{ command: a, timeout: soon }] }".to_owned(),
        "hooks: { pre_compact: { command: a } }".to_owned(),
        "hooks: { before: [] }".to_owned(),
        "checkpoint: sqlite".to_owned(),
        "checkpoint: { interval: 0 }".to_owned(),
        "checkpoint: { store: runs.db }".to_owned(),
        "checkpoint: { on: [sometimes] }".to_owned(),
        "checkpoint: { on_change: panic }".to_owned(),
        "checkpoint: { max_age: soon }".to_owned(),
        "checkpoint: { max_size: 5 }".to_owned(),
        "agents: { a: { checkpoint: { store: none } } }".to_owned(),
        "models: { m: { price: { input: 1, output: 1, as_of: today } } }".to_owned(),
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
        "tools: [read, read]",
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
        "strategies: [summarization]",
        "strategies: [truncation, truncation]",
        "strategies: [sliding_window], focus: names",
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
        "agents: { x: &x { model: gpt-4o }, y: *x }".to_owned(),
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
        "model: gpt-4o, prompt: 'Sum up {{#each messages}}{{text}}{{/each}}', summary_tag: a-b_c, summary_max_tokens: 1",
        "focus: ~, pin: ~",
    ] {
        taken.push(compact(keys));
    }
    taken.push("models: { m: { price: { input: 1, output: 1, as_of: 2026-11-21 } } }".to_owned());
    // A number and a word of YAML's stand for themselves where a text belongs.
    for text in ["5", "1.50", "true", "2026-01-01"] {
        taken.push(agent(&format!(
            "description: {text}, system_prompt: {text}, subscribe: [{text}], emits: [{text}]"
        )));
        taken.push(format!("agents: [{{ id: {text}, model: gpt-4o }}]"));
        taken.push(compact(&format!("focus: {text}, pin: [{text}], model: gpt-4o, summary_max_tokens: 9")));
        taken.push(format!("providers: {{ p: {{ base_url: 'http://h', headers: {{ x: {text} }} }} }}"));
        taken.push(format!("hooks: {{ post_compact: [{{ command: {text}, env: [{text}] }}] }}"));
    }
    for limit in ["250ms", "10s", "2m", "1m 30s", "10 seconds"] {
        taken.push(format!("hooks: {{ post_compact: [{{ command: a, timeout: '{limit}' }}] }}"));
    }
    let validator = validator();
    for yaml in &taken {
        let checked = Forge::new().with_file("forge.yaml", yaml).run(&["config", "check"]);
        assert_eq!((checked.code, checked.stderr.as_str()), (0, ""), "{yaml}");
        assert_eq!(validator.faults(&value(yaml)), "", "{yaml}");
    }
}

/// A document as an editor's completion writes it: keys that the schema names, with their examples and defaults.
struct Completion<'a> {
    root: &'a Value,
    /// What is chosen, one byte for each choice; nothing is left out where they end.
    choices: std::vec::IntoIter<u8>,
    /// Which of several examples is taken, the same everywhere: tokens and percentages do not mix.
    which: usize,
    /// The keys that were written, with what they stand in.
    written: BTreeSet<String>,
}

impl Completion<'_> {
    fn choose(&mut self, n: usize) -> usize {
        usize::from(self.choices.next().unwrap_or(0)) % n
    }

    fn value(&mut self, schema: &Value, within: &str) -> Value {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.rsplit('/').next().unwrap();
            let definition = self.root.pointer(&reference[1..]).unwrap().clone();
            return self.value(&definition, name);
        }
        let examples = schema["examples"].as_array();
        // Nobody begins to write `transforms` now: an editor shows them as deprecated, and its example is all that is taken.
        let has_parts = within != "transforms"
            && (schema.to_string().contains("#/definitions/") || schema["properties"].is_object());
        if let Some(examples) = examples.filter(|_| !has_parts || self.choices.len().is_multiple_of(2)) {
            let default = schema.get("default").filter(|default| !default.is_null() && self.which == 0);
            return match (default, self.choose(3)) {
                (Some(default), 1) => default.clone(),
                _ => examples[self.which.min(examples.len() - 1)].clone(),
            };
        }
        for word in ["anyOf", "oneOf", "allOf"] {
            let kinds: Vec<Value> = schema[word].as_array().into_iter().flatten().cloned().collect();
            let kinds: Vec<Value> =
                kinds.into_iter().filter(|kind| kind["type"] != "null" && kind["if"].is_null()).collect();
            if !kinds.is_empty() && schema["properties"].is_null() {
                let chosen = if word == "allOf" { 0 } else { self.choose(kinds.len()) };
                return self.value(&kinds[chosen], within);
            }
        }
        if let Some(words) = schema["enum"].as_array() {
            let words: Vec<_> = words.iter().filter(|word| !word.is_null()).collect();
            return words[self.choose(words.len())].clone();
        }
        if let Some(constant) = schema.get("const") {
            return constant.clone();
        }
        let named = schema["patternProperties"].as_object().filter(|_| !schema["properties"].is_object());
        if let Some(named) = named.and_then(|named| named.values().next()) {
            // What rules name are tools.
            let name = if within == "Permissions" { "shell" } else { "researcher" };
            return serde_json::json!({ name: self.value(&named.clone(), within) });
        }
        if schema["items"].is_object() {
            // Every agent needs an id of its own, and the examples have one.
            let n = if within == "agents" { 1 } else { self.choose(3) };
            return (0..n).map(|_| self.value(&schema["items"].clone(), within)).collect();
        }
        let Some(keys) = schema["properties"].as_object().cloned() else {
            return Value::Object(Default::default());
        };
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let n_most = schema["maxProperties"].as_u64().unwrap_or(u64::MAX) as usize;
        let mut mapping = serde_json::Map::new();
        let only = (n_most == 1).then(|| self.choose(keys.len()));
        for (position, (key, described)) in keys.iter().enumerate() {
            // What a description says must be there; and an id is the same as the key that names it.
            let is_needed = required.contains(&Value::from(key.as_str()))
                || [("Agent", "model"), ("Agent", "id"), ("ProviderConfig", "base_url")]
                    .contains(&(within, key.as_str()));
            let is_chosen = only.map_or_else(|| self.choose(3) == 0, |only| only == position);
            if is_needed || is_chosen {
                self.written.insert(format!("{within}.{key}"));
                let value = self.value(described, key);
                mapping.insert(key.clone(), value);
            }
        }
        // An editor says what goes with what was written.
        let dependencies = schema["dependencies"].as_object().cloned().unwrap_or_default();
        for (key, others) in
            dependencies.iter().filter(|(key, _)| mapping.contains_key(*key)).collect::<Vec<_>>()
        {
            assert!(keys.contains_key(key), "{key}");
            for other in others.as_array().unwrap().iter().map(|other| other.as_str().unwrap()) {
                if !mapping.contains_key(other) {
                    let value = self.value(&keys[other], other);
                    mapping.insert(other.to_owned(), value);
                }
            }
        }
        Value::Object(mapping)
    }
}

/// Makes the type of each form of a reply agree with its schema, which the schema of the keys cannot say.
fn agree(document: &mut Value) {
    match document {
        Value::Object(fields) => {
            if let Some(format) = fields.get_mut("response_format") {
                let has_schema = format.get("json_schema").is_some();
                format["type"] = Value::from(if has_schema { "json_schema" } else { "json_object" });
            }
            fields.values_mut().for_each(agree);
        }
        Value::Array(values) => values.iter_mut().for_each(agree),
        _ => {}
    }
}

#[test]
fn what_an_editor_completes_passes_check() {
    let (root, validator) = (schema(), validator());
    let mut runner = TestRunner::deterministic();
    let choices = proptest::collection::vec(proptest::num::u8::ANY, 0..120);
    let (mut written, mut n_checked) = (BTreeSet::new(), 0);
    for case in 0..3_000 {
        let choices = choices.new_tree(&mut runner).unwrap().current();
        let mut completion = Completion {
            root: &root,
            choices: choices.into_iter(),
            which: case % 2,
            written: BTreeSet::new(),
        };
        let mut document = completion.value(&root, "Workflow");
        // The agent that the example of `transforms` names is another one, which its writer has.
        let other = serde_json::json!({ "id": "recall", "model": "gpt-4o" });
        // An effort that the table of models does not have for a model is an error, so it is set for one that
        // the table does not know.
        let agents = match document.get_mut("agents") {
            Some(Value::Array(agents)) => agents.iter_mut().collect(),
            Some(Value::Object(agents)) => agents.values_mut().collect(),
            _ => Vec::new(),
        };
        for agent in agents.into_iter().filter(|agent| agent.get("reasoning").is_some()) {
            agent["model"] = serde_json::json!("openai:unknown");
        }
        agree(&mut document);
        match document.get_mut("agents") {
            Some(Value::Array(agents)) => agents.push(other),
            Some(Value::Object(agents)) => drop(agents.insert("recall".to_owned(), other)),
            _ => {}
        }
        // What the editor underlines is not left so.
        let is_news = !completion.written.is_subset(&written);
        if !validator.is_valid(&document) || (!is_news && n_checked >= 150) {
            continue;
        }
        n_checked += 1;
        let yaml = serde_saphyr::to_string(&document).unwrap();
        let checked = Forge::new().with_file("forge.yaml", &yaml).run(&["config", "check"]);
        assert_eq!(checked.code, 0, "{}\n{yaml}", checked.stderr);
        written.extend(completion.written);
    }
    let never: Vec<_> =
        keys_of(&root, |name| !OPTIONS.contains(&name)).filter(|key| !written.contains(key)).collect();
    assert_eq!(never, Vec::<String>::new(), "of {n_checked} documents none has these keys");
}

/// Mappings that lie too deep for documents that are put together at random: each is tried by itself.
const OPTIONS: [&str; 7] = [
    "ClearToolResults",
    "SlidingWindow",
    "Transform",
    "TransformKeys",
    "ShellSettings",
    "FetchSettings",
    "WebSearchSettings",
];

/// Every key of the mappings that are meant, as `Mapping.key`.
fn keys_of(root: &Value, is_meant: impl Fn(&str) -> bool) -> impl Iterator<Item = String> {
    let definitions = root["definitions"].as_object().unwrap();
    let mappings =
        definitions.iter().filter_map(|(name, mapping)| Some((name, mapping["properties"].as_object()?)));
    let mappings = mappings.filter(|(name, _)| is_meant(name.as_str()));
    let keys = mappings.flat_map(|(name, keys)| keys.keys().map(move |key| format!("{name}.{key}")));
    keys.collect::<Vec<_>>().into_iter()
}

/// Every mapping of some of these keys, each with its example.
fn mappings_of(keys: &serde_json::Map<String, Value>) -> Vec<Value> {
    let n_keys = keys.len();
    let some = |chosen: usize| {
        keys.iter().enumerate().filter(move |(place, _)| chosen >> place & 1 == 1).map(
            |(_, (key, described))| {
                let examples = described["examples"].as_array().unwrap();
                (key.clone(), examples[0].clone())
            },
        )
    };
    (0..1 << n_keys).map(|chosen| Value::Object(some(chosen).collect())).collect()
}

/// One agent with this block, and those that the examples of transforms name.
fn agent_with(key: &str, value: &Value) -> Value {
    let mut agents = vec![serde_json::json!({ "id": "a", "model": "gpt-4o", key: value })];
    agents.extend(
        ["recall", "summarizer", "watch"].map(|id| serde_json::json!({ "id": id, "model": "gpt-4o" })),
    );
    serde_json::json!({ "agents": agents })
}

#[test]
fn options_are_taken_by_the_schema_exactly_where_they_are_taken_by_the_loader() {
    let (root, validator) = (schema(), validator());
    let keys = |name: &str| root["definitions"][name]["properties"].as_object().unwrap().clone();
    let mut documents = Vec::new();
    for (strategy, definition) in
        [("clear_tool_results", "ClearToolResults"), ("sliding_window", "SlidingWindow")]
    {
        for options in mappings_of(&keys(definition)) {
            let strategies = serde_json::json!({ "strategies": [{ strategy: options }] });
            documents.push((definition, options, agent_with("compact", &strategies)));
        }
    }
    for (tool, definition) in
        [("shell", "ShellSettings"), ("fetch", "FetchSettings"), ("web_search", "WebSearchSettings")]
    {
        for settings in mappings_of(&keys(definition)) {
            let document = serde_json::json!({ "tool_settings": { tool: settings } });
            documents.push((definition, settings, document));
        }
    }
    // With its keys beside the type, and below it.
    let (beside, below) = (keys("Transform"), keys("TransformKeys"));
    for mapping in mappings_of(&beside) {
        documents.push((
            "Transform",
            mapping.clone(),
            agent_with("transforms", &serde_json::json!([mapping])),
        ));
    }
    for kind in ["assistant", "user", "pass_through"] {
        for mapping in mappings_of(&below) {
            let mut written = mapping.clone();
            let place = serde_json::json!([{ kind: mapping }]);
            documents.push(("TransformKeys", written.clone(), agent_with("transforms", &place)));
            written["type"] = kind.into();
            documents.push((
                "Transform",
                written.clone(),
                agent_with("transforms", &serde_json::json!([written])),
            ));
        }
    }
    let (mut written, mut n_taken) = (BTreeSet::new(), 0);
    for (definition, mapping, document) in &documents {
        let yaml = serde_saphyr::to_string(document).unwrap();
        let layers = Layers { project: Some(Source::new("forge.yaml", &yaml)), ..Layers::default() };
        let is_taken = load(&layers).is_ok_and(|workflow| check_references(&workflow).is_empty());
        assert_eq!(
            validator.is_valid(document),
            is_taken,
            "the schema (left) and the loader (right):\n{yaml}"
        );
        if is_taken {
            n_taken += 1;
            written.extend(mapping.as_object().unwrap().keys().map(|key| format!("{definition}.{key}")));
        }
    }
    assert!(n_taken > 40 && n_taken < documents.len(), "{n_taken} of {}", documents.len());
    let never: Vec<_> =
        keys_of(&root, |name| OPTIONS.contains(&name)).filter(|key| !written.contains(key)).collect();
    assert_eq!(never, Vec::<String>::new(), "no document that is taken has these keys");
}
