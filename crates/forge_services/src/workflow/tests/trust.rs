//! Tests of a project's file before it is trusted, and after.

use std::collections::BTreeMap;

use forge_domain::{Permission, Reach, ToolName};
use pretty_assertions::assert_eq;

use super::super::{Layers, Source, Trust, load};

const USER: &str = "\
providers: { corp: { base_url: 'https://corp.example/v1', api_key_env: CORP_KEY, retries: 2 } }
models: { plan: { provider: corp, window: 9000, price: { input: 2, output: 4 } } }
mcp_servers: { own: { command: mine } }
variables: { team: blue }
tool_settings: { shell: { env: [OWN], timeout: 5s }, fetch: { allow_private: [10.0.0.1] } }
budget: { tokens: 1000, cost: 5 }
permissions: { shell: deny }
agents: { coder: { model: plan, tools: [read, shell], system_prompt: mine, max_iterations: 5 } }
";

fn layers(project: &str, trust: Trust) -> Layers {
    Layers {
        user: Some(Source::new("user.yaml", USER)),
        project: Some(Source::new("forge.yaml", project)),
        trust,
        ..Layers::default()
    }
}

fn requests(project: &str) -> Vec<String> {
    let requests = layers(project, Trust::Withheld).power_requests().unwrap();
    requests.iter().map(|request| format!("{}: {}", request.position.unwrap().line, request.power)).collect()
}

#[test]
fn a_variable_in_the_file_needs_trust_unless_it_is_harmless() {
    let text = "\
agents:
  a:
    model: ${MODEL:-gpt-4o}
    description: '${PRIVATE} ${UNSET:-${PRIVATE}} $${HELD}'
    system_prompt: in ${HOME}
    user_prompt: |
      ${HELD}
  b:
    description: a $$${PRIVATE} $$$${SECOND}
  c:
    description: a ${SECOND:-{x}
mcp_servers: { s: { command: c, env: { A: '${HELD}' } } }
# ${HELD}
";
    let variables = [
        ("PRIVATE", "planted"),
        ("SECOND", "planted"),
        ("HELD", "held"),
        ("HOME", "/home/me"),
        ("SECRET", "${SECRET}"),
    ];
    let variables: BTreeMap<_, _> =
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect();
    let with = |trust| Layers {
        project: Some(Source::new("forge.yaml", text).with_variables(variables.clone())),
        ..layers("", trust)
    };
    let requests = with(Trust::Withheld).power_requests().unwrap();
    let told: Vec<String> =
        requests.iter().map(|request| format!("{}: {}", request.path, request.power)).collect();
    assert_eq!(
        told,
        [
            "agents.a.description: give the variable PRIVATE to this file, which a model may read",
            "agents.b.description: give the variable PRIVATE to this file, which a model may read",
            "agents.c.description: give the variable SECOND to this file, which a model may read",
            "mcp_servers.s.command: start the MCP server `s`: c",
            "mcp_servers.s.env.A: give the variable HELD to MCP server `s`",
        ]
    );
    for (trust, expected) in
        [(Trust::Withheld, "${PRIVATE} ${PRIVATE} ${HELD}"), (Trust::Granted, "planted planted ${HELD}")]
    {
        let workflow = load(&with(trust)).unwrap();
        let agent = workflow.agents.iter().find(|agent| agent.id.as_str() == "a").unwrap();
        assert_eq!(agent.description.as_deref(), Some(expected));
        assert!(format!("{:?}", agent.system_prompt).contains("in /home/me"));
    }
}

/// A project that asks for something, and what it asks for.
const ASKING: &[(&str, &[&str])] = &[
    ("hooks: { pre_compact: [{ command: ./a }] }", &["1: run at pre_compact: ./a"]),
    (
        "hooks: { pre_tool_call: [{ command: a, tools: [read], env: [K] }] }",
        &["1: give the variable K to the hook `a`", "1: run at pre_tool_call: a"],
    ),
    (
        "agents: { a: { hooks: { notification: [{ command: b }] } } }",
        &["1: run at notification (agent `a`): b"],
    ),
    (
        "mcp_servers: { s: { command: npx, args: [x, y], cwd: d, env: { A: $K, B: c } } }",
        &["1: start the MCP server `s` in d: npx x y", "1: give the variable K to MCP server `s`"],
    ),
    (
        "mcp_servers: { s: { url: 'http://h/?k=1', headers: { a: $K, b: c } } }",
        &[
            "1: send requests of MCP server `s` to http://h/",
            "1: give the variable K to MCP server `s`",
            "1: send the header `b` to MCP server `s`",
        ],
    ),
    ("mcp_servers: { own: { args: [x] } }", &["1: start the MCP server `own`: mine x"]),
    ("mcp_servers: { own: { restarts: 1 } }", &["1: start the MCP server `own`: mine"]),
    (
        "mcp_servers: { own: { env: { PATH: './bin:/bin', LOG: debug } } }",
        &["1: start the MCP server `own`: PATH=./bin:/bin mine"],
    ),
    (
        "mcp_servers: { own: { env: { LD_PRELOAD: ./x.so } } }",
        &["1: start the MCP server `own`: LD_PRELOAD=./x.so mine"],
    ),
    (
        "providers: { p: { base_url: 'http://me:pw@h/v1', api_key_env: K } }",
        &["1: send requests of provider `p` to http://h/v1", "1: give the variable K to provider `p`"],
    ),
    (
        "providers: { openai: { base_url: 'http://h' } }",
        &[
            "1: send requests of provider `openai` to http://h",
            "1: give the variable OPENAI_API_KEY to provider `openai`",
        ],
    ),
    (
        "providers: { corp: { headers: { x: $HOME_KEY } } }",
        &[
            "1: send requests of provider `corp` to https://corp.example/v1",
            "1: give the variable CORP_KEY to provider `corp`",
            "1: give the variable HOME_KEY to provider `corp`",
        ],
    ),
    (
        "providers: { ollama: { api_key_env: K } }",
        &[
            "1: send requests of provider `ollama` to http://localhost:11434",
            "1: give the variable K to provider `ollama`",
        ],
    ),
    (
        "providers: { g: { kind: gemini } }",
        &["1: send requests of provider `g` to https://generativelanguage.googleapis.com/v1beta"],
    ),
    ("providers: { corp: { retries: 9 } }", &["1: raise `providers.corp.retries` to 9"]),
    ("models: { plan: { provider: openai } }", &["1: use the model `plan` of `openai`"]),
    ("models: { new: { provider: ollama } }", &["1: use the model `new` of `ollama`"]),
    ("models: { plan: { price: { input: 2, output: 3 } } }", &["1: set the price of the model `plan`"]),
    ("models: { new: { price: { input: 2, output: 3 } } }", &["1: set the price of the model `new`"]),
    (
        "variables: { team: red, new: 1 }",
        &["1: set the template variable `new`", "1: set the template variable `team`"],
    ),
    ("checkpoint: { store: 'sqlite:x.db' }", &["1: keep checkpoints at sqlite:x.db"]),
    ("checkpoint: { store: 'postgres://me:pw@h/d' }", &["1: keep checkpoints at postgres://me:…@h/d"]),
    (
        "checkpoint: { store: $S }",
        &["1: keep checkpoints at $S", "1: give the variable S to the store of checkpoints"],
    ),
    (
        "checkpoint: { max_age: 1m, max_size: 1KB }",
        &[
            "1: delete old checkpoints of the whole store (max_age: 1m)",
            "1: delete old checkpoints of the whole store (max_size: 1KB)",
        ],
    ),
    ("checkpoint: { store: none }", &["1: keep no checkpoints and no list of what is done"]),
    ("checkpoint: { store: 'memory:' }", &["1: keep no checkpoints and no list of what is done"]),
    ("checkpoint: { store: 'sqlite::memory:' }", &["1: keep no checkpoints and no list of what is done"]),
    ("checkpoint: { interval: 9 }", &["1: save fewer checkpoints (interval: 9)"]),
    ("checkpoint: { on: [] }", &["1: save fewer checkpoints (on: [])"]),
    (
        "agents: { coder: { checkpoint: { interval: 2, on: [iteration, end] } } }",
        &[
            "1: save fewer checkpoints (agent `coder`) (interval: 2)",
            "1: save fewer checkpoints (agent `coder`) (on: [iteration, end])",
        ],
    ),
    ("permissions: { shell: allow }", &["1: call `shell` without asking"]),
    (
        "permissions: { '*': ask, shell: { 'git *': allow, '*': deny } }",
        &["1: call `shell` without asking for `git *`"],
    ),
    ("agents: { a: { permissions: { write: allow } } }", &["1: call `write` without asking (agent `a`)"]),
    ("tool_settings: { shell: { env: [OWN, K] } }", &["1: give the variable K to the commands of `shell`"]),
    (
        "tool_settings: { fetch: { allow_private: [10.0.0.1, 10.0.0.2] } }",
        &["1: let `fetch` ask the private address 10.0.0.2"],
    ),
    (
        "tool_settings: { web_search: { endpoint: 'http://h/?q={query}', api_key_env: K } }",
        &["1: give the variable K to web_search", "1: send requests of web_search to http://h/"],
    ),
    (
        "agents: { a: { tools: [read, list, search, ask, shell, fetch, 'own__*', '*'] } }",
        &[
            "1: let the agent `a` call `shell`",
            "1: let the agent `a` call `fetch`",
            "1: let the agent `a` call `own__*`",
            "1: let the agent `a` call `*`",
        ],
    ),
    ("agents: { coder: { tools: [shell, write] } }", &["1: let the agent `coder` call `write`"]),
    ("agents: { a: { tools: [coder] } }", &["1: let the agent `a` call `coder`"]),
    (
        "agents: { a: { transforms: [{ pass_through: { agent_id: coder, input: x } }] } }",
        &["1: let the agent `a` call `coder`"],
    ),
    ("agents: { a: { tools: [shell] }, shell: {} }", &["1: let the agent `a` call `shell`"]),
    (
        "agents: { coder: { system_prompt: yours, model: 'openai:gpt-4o', subscribe: [x] } }",
        &[
            "1: change `system_prompt` of your own agent `coder`",
            "1: change `model` of your own agent `coder`",
            "1: change `subscribe` of your own agent `coder`",
        ],
    ),
    ("agents: { coder: { compact: { focus: x } } }", &["1: change `compact` of your own agent `coder`"]),
    // Wherever it stands.
    (
        "agents:\n- id: a\n  hooks: &h\n    pre_prompt:\n    - command: c\n- { id: b, hooks: *h }",
        &["5: run at pre_prompt (agent `a`): c", "6: run at pre_prompt (agent `b`): c"],
    ),
    (
        "agents:\n  a: &a\n    permissions: { shell: allow }\n  b: { <<: *a, model: m }",
        &["3: call `shell` without asking (agent `a`)", "4: call `shell` without asking (agent `b`)"],
    ),
];

#[test]
fn whatever_does_more_than_narrow_is_asked_for() {
    for (yaml, expected) in ASKING {
        let (mut actual, mut expected) = (requests(yaml), expected.to_vec());
        actual.sort();
        expected.sort_unstable();
        assert_eq!(actual, expected, "{yaml}");
    }
}

#[test]
fn a_secret_is_neither_shown_nor_stored() {
    let key = "sk-planted-0123456789abcdef";
    for (yaml, expected) in [
        (
            format!("providers: {{ p: {{ base_url: 'http://h', api_key_env: '{key}' }} }}"),
            "give the variable (hidden) to provider `p`",
        ),
        (
            "providers: { p: { base_url: 'http://h', api_key_env: ghp_planted01234567890123456789012345 } }"
                .to_owned(),
            "give the variable (hidden) to provider `p`",
        ),
        (
            format!("mcp_servers: {{ s: {{ command: npx, args: [--token, {key}, x] }} }}"),
            "start the MCP server `s`: npx --token (hidden) x",
        ),
        (
            format!("mcp_servers: {{ s: {{ command: npx, env: {{ PATH: './{key}' }} }} }}"),
            "start the MCP server `s`: PATH=./(hidden) npx",
        ),
        (
            format!("hooks: {{ pre_prompt: [{{ command: 'curl -H \"Authorization: Bearer {key}\" x' }}] }}"),
            "run at pre_prompt: curl -H \"Authorization: (hidden)\" x",
        ),
        (
            format!("permissions: {{ shell: {{ 'login {key}': allow }} }}"),
            "call `shell` without asking for `login (hidden)`",
        ),
        (
            "checkpoint: { store: 'postgres://me:planted@h/d' }".to_owned(),
            "keep checkpoints at postgres://me:…@h/d",
        ),
    ] {
        let requests = layers(&yaml, Trust::Withheld).power_requests().unwrap();
        let powers: Vec<_> = requests.iter().map(|request| request.power.without_secrets()).collect();
        let shown: Vec<String> = powers.iter().map(ToString::to_string).collect();
        assert!(shown.iter().any(|shown| shown == expected), "{yaml}: {shown:?}");
        let paths: String = requests.iter().map(|request| request.path.as_str()).collect();
        let stored = serde_json::to_string(&powers).unwrap() + &paths + &shown.concat();
        assert!(!stored.contains("planted"), "{yaml}: {stored}");
    }
    for (yaml, _) in ASKING {
        for request in layers(yaml, Trust::Withheld).power_requests().unwrap() {
            assert_eq!(request.power.without_secrets(), request.power, "{yaml}");
        }
    }
}

#[test]
fn what_only_narrows_is_not_asked_for() {
    for yaml in [
        "",
        "agents: { a: { model: 'openai:gpt-4o', tools: [read, list, search, ask, b], system_prompt: x }, b: {} }",
        "agents: { coder: { tools: [read], max_iterations: 3, permissions: { read: ask } } }",
        "agents: { coder: { system_prompt: mine, description: other, temperature: 0.1 } }",
        "agents: { a: { compact: { model: plan, max_tokens: 50% }, budget: { tokens: 5 } } }",
        "budget: { tokens: 9999999 }",
        "permissions: { shell: deny, write: { '*': ask } }",
        "providers: { openai: { base_url: 'https://api.openai.com/v1', api_key_env: OPENAI_API_KEY } }",
        "providers: { corp: { retries: 1 } }",
        "models: { plan: { window: 500, provider: corp, price: { input: 2, output: 5 } } }",
        "mcp_servers: { own: { command: mine } }",
        "variables: { team: blue }",
        "checkpoint: { interval: 1, on: [iteration, compaction, interrupt, end], keep_last: 5 }",
        "tool_settings: { shell: { timeout: 1s, env: [OWN] }, fetch: { allow_private: [10.0.0.1] } }",
        "counting: approximate",
    ] {
        assert_eq!(requests(yaml), Vec::<String>::new(), "{yaml}");
        let (granted, withheld) =
            (load(&layers(yaml, Trust::Granted)).unwrap(), load(&layers(yaml, Trust::Withheld)).unwrap());
        assert_eq!(withheld.agents, granted.agents, "{yaml}");
        assert_eq!(withheld.variables, granted.variables, "{yaml}");
        assert_eq!(withheld.models, granted.models, "{yaml}");
    }
}

#[test]
fn what_is_asked_for_is_left_out_until_it_is_granted() {
    let own = load(&Layers { project: None, ..layers("", Trust::Withheld) }).unwrap();
    for (yaml, _) in ASKING {
        let actual = load(&layers(yaml, Trust::Withheld)).unwrap();
        assert_eq!(actual.providers, own.providers, "{yaml}");
        assert_eq!(actual.mcp_servers, own.mcp_servers, "{yaml}");
        assert_eq!(actual.hooks, None, "{yaml}");
        assert_eq!(actual.checkpoint, own.checkpoint, "{yaml}");
        for agent in actual.agents.iter() {
            let points = actual.checkpoint.points(agent.checkpoint.as_ref());
            assert_eq!(points, own.checkpoint.points(None), "{yaml}");
        }
        assert_eq!(actual.tool_settings.web_search, None, "{yaml}");
        assert!(actual.agents.iter().all(|agent| agent.hooks.is_none()), "{yaml}");
        assert_eq!(actual.floor.hooks().count(), 0, "{yaml}");
        let coder = actual.agents.find("coder").unwrap();
        assert_eq!(coder.system_prompt.as_deref(), Some("mine"), "{yaml}");
        let reach = Reach::careful();
        for (tool, least) in [("shell", Permission::Deny), ("write", Permission::Ask)] {
            for agent in actual.agents.iter() {
                let verdict = actual.rules(agent).decide(
                    &forge_domain::Discretion::default(),
                    &ToolName::new(tool).unwrap(),
                    &reach,
                );
                assert!(verdict.permission >= least, "{yaml}: {}: {tool}", agent.id);
            }
        }
    }
}

#[test]
fn a_model_of_a_server_that_is_left_out_is_not_asked_of_another() {
    for yaml in [
        "providers: { p: { base_url: 'http://h' } }\nagents: { a: { model: 'p:m' } }",
        "models: { m: { provider: ollama } }\nagents: { a: { model: m } }",
        "providers: { openai: { base_url: 'http://h' } }\nagents: { a: { model: gpt-4o } }",
    ] {
        let actual = load(&layers(yaml, Trust::Withheld)).unwrap();
        assert_eq!(actual.agents.find("a").unwrap().model, None, "{yaml}");
        assert!(actual.agents.find("coder").unwrap().model.is_some(), "{yaml}");
    }
}

#[test]
fn what_the_persons_own_layers_hold_holds_in_a_project_that_is_trusted() {
    let yaml = "\
permissions: { shell: allow, write: allow }
tool_settings: { shell: { timeout: 9m }, fetch: { timeout: 1s } }
budget: { tokens: 5000, cost: 1 }
models: { plan: { price: { input: 0, output: 0 } } }
hooks: { pre_tool_call: [{ command: theirs }] }
agents: { coder: { max_iterations: 500, permissions: { shell: allow } }, other: { permissions: { shell: allow } } }
";
    let user = format!("{USER}hooks: {{ pre_tool_call: [{{ command: guard }}] }}\n");
    let layers = Layers { user: Some(Source::new("user.yaml", user)), ..layers(yaml, Trust::Granted) };
    let actual = load(&layers).unwrap();
    let reach = Reach::careful();
    for agent in actual.agents.iter() {
        let decided = |tool: &str| {
            actual
                .rules(agent)
                .decide(&forge_domain::Discretion::default(), &ToolName::new(tool).unwrap(), &reach)
                .permission
        };
        assert_eq!(
            (decided("shell"), decided("write")),
            (Permission::Deny, Permission::Allow),
            "{}",
            agent.id
        );
    }
    let shell = actual.tool_settings.shell.clone().unwrap();
    assert_eq!(shell.time_limit().as_secs(), 5);
    let budget = actual.budget.unwrap();
    assert_eq!((budget.tokens.unwrap().as_u64(), budget.cost.unwrap().as_f64()), (1000, 1.0));
    assert_eq!(actual.agents.find("coder").unwrap().max_iterations.unwrap().get(), 5);
    let price = actual.model(&forge_domain::ModelId::new("plan").unwrap()).unwrap().price.unwrap();
    assert_eq!((price.input.as_f64(), price.output.as_f64()), (2.0, 4.0));
    let commands = |hooks: &forge_domain::HookCommands| -> Vec<String> {
        hooks.iter().map(|(_, command, _)| command.command.as_str().to_owned()).collect()
    };
    assert_eq!(commands(actual.hooks.as_ref().unwrap()), ["theirs"]);
    let held: Vec<_> = actual.floor.hooks().flat_map(|(_, hooks)| commands(hooks)).collect();
    assert_eq!(held, ["guard"]);
}

#[test]
fn a_price_of_the_persons_own_may_be_lower_than_what_is_built_in() {
    let price = |trust, user: &str, project: &str| {
        let layers = Layers {
            user: Some(Source::new("user.yaml", user)),
            project: Some(Source::new("forge.yaml", project)),
            trust,
            ..Layers::default()
        };
        let model = load(&layers).unwrap().model(&forge_domain::ModelId::new("gpt-4o").unwrap()).unwrap();
        model.price.unwrap().input.as_f64()
    };
    let cheap = "models: { gpt-4o: { price: { input: 0.1, output: 0.1 } } }";
    let dear = "models: { gpt-4o: { price: { input: 900, output: 900 } } }";
    assert_eq!(price(Trust::Granted, cheap, ""), 0.1);
    for trust in [Trust::Granted, Trust::Withheld] {
        assert!(price(trust, "", cheap) > 0.1);
        assert_eq!(price(trust, cheap, dear), 900.0);
    }
}

#[test]
fn the_administrators_limits_hold_against_everybody() {
    let system = "budget: { tokens: 100 }\npermissions: { fetch: deny }\n";
    let layers = Layers {
        system: Some(Source::new("/etc/forge/forge.yaml", system)),
        user: Some(Source::new("user.yaml", "budget: { tokens: 900 }\npermissions: { fetch: allow }\n")),
        flags: super::super::Flags {
            budget: forge_domain::Allowance { tokens: Some(forge_domain::Tokens::new(500)), cost: None },
            ..super::super::Flags::default()
        },
        ..Layers::default()
    };
    let actual = load(&layers).unwrap();
    assert_eq!(actual.budget.unwrap().tokens.unwrap().as_u64(), 100);
    let agent = forge_domain::Agent::new(forge_domain::AgentId::new("a").unwrap());
    let verdict = actual.rules(&agent).decide(
        &forge_domain::Discretion::default(),
        &ToolName::new("fetch").unwrap(),
        &Reach::careful(),
    );
    assert_eq!(verdict.permission, Permission::Deny);
}

#[test]
fn keys_go_only_where_the_persons_own_layers_send_them() {
    for (yaml, expected) in [
        ("providers: { openai: { base_url: 'http://h' } }", Some("providers.openai.base_url")),
        ("providers: { p: { base_url: 'http://h', api_key_env: CORP_KEY } }", Some("providers.p.base_url")),
        (
            "providers: { p: { base_url: 'http://h', headers: { x: $CORP_KEY } } }",
            Some("providers.p.base_url"),
        ),
        ("providers: { g: { kind: gemini, api_key_env: OPENAI_API_KEY } }", Some("providers.g.base_url")),
        ("mcp_servers: { s: { url: 'http://h', headers: { x: $CORP_KEY } } }", Some("mcp_servers.s.url")),
        (
            "tool_settings: { web_search: { endpoint: 'http://h/{query}', api_key_env: CORP_KEY } }",
            Some("tool_settings.web_search.endpoint"),
        ),
        ("providers: { p: { base_url: 'https://CORP.example/v1/', api_key_env: CORP_KEY } }", None),
        ("providers: { p: { base_url: 'http://h', api_key_env: P_KEY, headers: { x: $OTHER } } }", None),
    ] {
        let actual = load(&layers(yaml, Trust::Granted)).err().map(|error| error.path.to_string());
        assert_eq!(actual.as_deref(), expected, "{yaml}");
        // What is not trusted is left out, and so is in nobody's way.
        assert_eq!(load(&layers(yaml, Trust::Withheld)).err(), None, "{yaml}");
        let examined = super::super::examine(&layers(yaml, Trust::Granted));
        let found = examined.faults.iter().find(|fault| fault.what.contains("key"));
        assert_eq!(found.map(|fault| &*fault.path), expected, "{yaml}");
    }
    let environment = [("OPENAI_BASE_URL".to_owned(), "http://proxy/v1".to_owned())].into();
    let moved = Layers { environment, ..layers("agents: []", Trust::Granted) };
    assert_eq!(load(&moved).err(), None);
}
