//! The texts that users read when a layer is refused: every message whole.

use pretty_assertions::assert_eq;

use super::{Source, reading};

fn check(yaml: &str, expected: &str) {
    let actual = reading::read(&Source::new("forge.yaml", yaml)).unwrap_err().to_string();
    assert_eq!(actual, expected.trim_start_matches('\n').trim_end(), "{yaml}");
}

#[test]
fn an_unknown_key_is_answered_with_the_one_that_was_meant() {
    check(
        "agents:\n  researcher:\n    compact:\n      token_treshold: 5\n",
        r"
forge.yaml:4:7: agents.researcher.compact.token_treshold: unknown field `token_treshold`
  |
4 |       token_treshold: 5
  |       ^
hint: did you mean `token_threshold`?
",
    );
    check(
        "agent:\n  a: {}\n",
        r"
forge.yaml:1:1: agent: unknown field `agent`
  |
1 | agent:
  | ^
hint: did you mean `agents`?
",
    );
    check(
        "\u{feff}agents:\n  ä: { modell: x }\n",
        r"
forge.yaml:2:8: agents.ä.modell: unknown field `modell`
  |
2 |   ä: { modell: x }
  |        ^
hint: did you mean `model`?
",
    );
    check(
        "gateway: 5\n",
        r"
forge.yaml:1:1: gateway: unknown field `gateway`
  |
1 | gateway: 5
  | ^
hint: known are providers, models, mcp_servers, variables, hooks, checkpoint, counting, budget, permissions, sandbox, tool_settings, agents
",
    );
    check(
        "agents: { a: { colour: 5 } }\n",
        r"
forge.yaml:1:16: agents.a.colour: unknown field `colour`
  |
1 | agents: { a: { colour: 5 } }
  |                ^
hint: known are id, description, model, system_prompt, user_prompt, tools, permissions, subscribe, max_turns, max_iterations, max_repetitions, budget, temperature, top_p, max_output_tokens, max_result_tokens, compact, hooks, transforms, recall, checkpoint
",
    );
}

#[test]
fn a_misspelt_key_that_stands_elsewhere_is_answered_with_its_place() {
    check(
        "modle: openai:gpt\n",
        r"
forge.yaml:1:1: modle: unknown field `modle`
  |
1 | modle: openai:gpt
  | ^
hint: did you mean `model`? Then write `model` below each agent, or set FORGE_MODEL for all of them
",
    );
}

#[test]
fn a_text_that_grows_without_end_when_it_is_read_is_refused() {
    let doubled = |n: usize| format!("  a{n}: &a{n} [*a{before}, *a{before}]\n", before = n - 1);
    let bomb: String = (1..60).map(doubled).collect();
    let deep = format!("variables:\n  x: {}1{}\n", "[".repeat(100_000), "]".repeat(100_000));
    let deeper = format!("agents:\n  a: {}", "{ a: ".repeat(100_000));
    for (what, yaml) in [
        ("aliases of aliases", format!("variables:\n  a0: &a0 [x]\n{bomb}")),
        ("aliases in a key that is passed over", format!("unknown:\n  a0: &a0 [x]\n{bomb}")),
        ("lists in lists", deep),
        ("mappings in mappings", deeper),
    ] {
        let source = Source::new("forge.yaml", yaml);
        let error = reading::read(&source).map(drop).unwrap_err().to_string();
        assert!(error.starts_with("forge.yaml"), "{what}: {error}");
        // All faults at once are looked for in the same text.
        let (_, faults) = reading::read_on(&source);
        assert!(!faults.is_empty(), "{what}");
    }
}

#[test]
fn a_value_of_the_wrong_kind_is_answered_with_an_example() {
    check(
        "agents:\n  researcher:\n    compact:\n      token_threshold: lots\n",
        r"
forge.yaml:4:24: agents.researcher.compact.token_threshold: `lots` is neither a number of tokens nor a percentage from 1% to 100%
  |
4 |       token_threshold: lots
  |                        ^
hint: for example `token_threshold: 80%` or `token_threshold: 6000`
",
    );
    check(
        "agents:\n  - id: researcher\n    compact:\n      token_threshold: lots\n",
        r"
forge.yaml:4:24: agents.researcher.compact.token_threshold: `lots` is neither a number of tokens nor a percentage from 1% to 100%
  |
4 |       token_threshold: lots
  |                        ^
hint: for example `token_threshold: 80%` or `token_threshold: 6000`
",
    );
    check(
        "agents:\n  researcher:\n    compact: { token_threshold: [1], max_tokens: 5 }\n",
        r"
forge.yaml:3:33: agents.researcher.compact.token_threshold: expected a number of tokens such as 6000, or a percentage of the room such as 80%, found a list
  |
3 |     compact: { token_threshold: [1], max_tokens: 5 }
  |                                 ^
hint: for example `token_threshold: 80%` or `token_threshold: 6000`
",
    );
    check(
        "agents:\n  researcher:\n    compact:\n      min_reduction: 120%\n",
        r"
forge.yaml:4:22: agents.researcher.compact.min_reduction: `120%` is no percentage: write a whole number from 1% to 100%
  |
4 |       min_reduction: 120%
  |                      ^
hint: for example `min_reduction: 20%`
",
    );
    check(
        "agents:\n  researcher:\n    max_turns: many\n",
        r"
forge.yaml:3:16: agents.researcher.max_turns: expected a whole number that is not negative, found `many`
  |
3 |     max_turns: many
  |                ^
hint: for example `max_turns: 20`
",
    );
    check(
        "agents:\n  researcher:\n    max_turns: 0\n",
        r"
forge.yaml:3:16: agents.researcher.max_turns: expected a whole number from 1, found `0`
  |
3 |     max_turns: 0
  |                ^
hint: for example `max_turns: 20`
",
    );
    check(
        "agents:\n  researcher:\n    temperature: 3\n",
        r"
forge.yaml:3:18: agents.researcher.temperature: temperature is a number from 0 to 2, not 3
  |
3 |     temperature: 3
  |                  ^
hint: for example `temperature: 0.7`
",
    );
    check(
        "agents:\n  a:\n    compact:\n      auto_compact: perhaps\n",
        r"
forge.yaml:4:21: agents.a.compact.auto_compact: expected true or false, found `perhaps`
  |
4 |       auto_compact: perhaps
  |                     ^
hint: for example `auto_compact: true`
",
    );
    check(
        "agents:\n  a:\n    compact:\n      pin: [fine, 'never (']\n",
        r"
forge.yaml:4:19: agents.a.compact.pin[1]: `never (` is no pattern: unclosed group
  |
4 |       pin: [fine, 'never (']
  |                   ^
hint: for example `pin: ['(?i)never deploy']`
",
    );
    check(
        "agents:\n  a:\n    compact: { focus: '' }\n",
        r"
forge.yaml:3:23: agents.a.compact.focus: a focus must not be empty
  |
3 |     compact: { focus: '' }
  |                       ^
hint: for example `focus: security findings`
",
    );
    check(
        "agents:\n  a:\n    compact: { pin: always }\n",
        r"
forge.yaml:3:21: agents.a.compact.pin: expected a list, found `always`
  |
3 |     compact: { pin: always }
  |                     ^
hint: for example `pin: ['(?i)never deploy']`
",
    );
    check(
        "agents:\n  a:\n    tools: shell\n",
        r"
forge.yaml:3:12: agents.a.tools: expected a list, found `shell`
  |
3 |     tools: shell
  |            ^
hint: for example `tools: [read, list]`
",
    );
    check(
        "agents:\n  a:\n    tools: [shell, '']\n",
        r"
forge.yaml:3:20: agents.a.tools[1]: a tool's name must not be empty
  |
3 |     tools: [shell, '']
  |                    ^
hint: for example `tools: [read, list]`
",
    );
    check(
        "agents:\n  a:\n    compact: 80%\n",
        r"
forge.yaml:3:14: agents.a.compact: expected a mapping, found `80%`
  |
3 |     compact: 80%
  |              ^
hint: for example `compact: { token_threshold: 80% }`
",
    );
    check(
        "providers:\n  x: { headers: [a] }\n",
        r"
forge.yaml:2:17: providers.x.headers: expected a mapping, found a list
  |
2 |   x: { headers: [a] }
  |                 ^
hint: for example `headers: { x-team: research }`
",
    );
    check(
        "agents:\n  a:\n    user_prompt: { a: b }\n",
        r"
forge.yaml:3:18: agents.a.user_prompt: expected a text, found a mapping
  |
3 |     user_prompt: { a: b }
  |                  ^
hint: for example `user_prompt: '{{event.value}}'`
",
    );
    check(
        "models:\n  gpt-4.1: { window: -5 }\n",
        r"
forge.yaml:2:22: models.gpt-4.1.window: expected a whole number that is not negative, found `-5`
  |
2 |   gpt-4.1: { window: -5 }
  |                      ^
hint: for example `window: 128000`
",
    );
    check(
        "agents:\n  a: &a\n    temperature: 7\n  b: *a\n",
        r"
forge.yaml:3:18: agents.a.temperature: temperature is a number from 0 to 2, not 7
  |
3 |     temperature: 7
  |                  ^
hint: for example `temperature: 0.7`
",
    );
}

#[test]
fn hooks_are_commands_with_a_time_limit() {
    check(
        "hooks:\n  pre_compact:\n    - { command: check, timeout: 10 }\n",
        r"
forge.yaml:3:34: hooks.pre_compact[0].timeout: `10` is no time limit: write a number with its unit, such as 10s or 2m, at most 10m
  |
3 |     - { command: check, timeout: 10 }
  |                                  ^
hint: for example `timeout: 10s`
",
    );
    check(
        "agents: { a: { hooks: [] } }\n",
        r"
forge.yaml:1:23: agents.a.hooks: expected a mapping, found a list
  |
1 | agents: { a: { hooks: [] } }
  |                       ^
hint: for example `hooks: { pre_compact: [{ command: ./check.sh, timeout: 10s }] }`
",
    );
    check(
        "hooks: { pre_compact: [{ command: ' ' }] }\n",
        r"
forge.yaml:1:35: hooks.pre_compact[0].command: a command must not be empty
  |
1 | hooks: { pre_compact: [{ command: ' ' }] }
  |                                   ^
hint: for example `command: ./check.sh`
",
    );
    check(
        "hooks: { pre_compact: [{ timeout: 1s }] }\n",
        r"
forge.yaml:1:24: hooks.pre_compact[0]: `command` is missing
  |
1 | hooks: { pre_compact: [{ timeout: 1s }] }
  |                        ^
hint: for example `command: ./check.sh`
",
    );
    check(
        "hooks: { pre_compact: [{ command: a, env: KEY }] }\n",
        r"
forge.yaml:1:43: hooks.pre_compact[0].env: expected a list, found `KEY`
  |
1 | hooks: { pre_compact: [{ command: a, env: KEY }] }
  |                                           ^
hint: for example `env: [GIT_DIR]`
",
    );
    check(
        "hooks: { pre_compct: [] }\n",
        r"
forge.yaml:1:10: hooks.pre_compct: unknown field `pre_compct`
  |
1 | hooks: { pre_compct: [] }
  |          ^
hint: did you mean `pre_compact`?
",
    );
}

#[test]
fn transforms_have_the_keys_of_their_type() {
    check(
        "agents:\n  a:\n    transforms:\n      - type: tap\n        agent_id: b\n",
        r"
forge.yaml:4:15: agents.a.transforms[0].type: unknown type `tap`
  |
4 |       - type: tap
  |               ^
hint: known are assistant, user, pass_through
",
    );
    check(
        "agents:\n  a:\n    transforms:\n      - type: user\n        agent_id: b\n        output: c\n",
        r"
forge.yaml:4:9: agents.a.transforms[0]: `input` is missing: a transform of type `user` has agent_id, input and output
  |
4 |       - type: user
  |         ^
hint: for example `transforms: [{ type: user, agent_id: recall, input: asked, output: known }]`
",
    );
    check(
        "agents: [{ id: a, transforms: [{ type: assistant, token_limit: few }] }]\n",
        r"
forge.yaml:1:64: agents.a.transforms[0].token_limit: expected a whole number that is not negative, found `few`
  |
1 | agents: [{ id: a, transforms: [{ type: assistant, token_limit: few }] }]
  |                                                                ^
hint: for example `token_limit: 80000`
",
    );
    check(
        "agents: { a: { transforms: [{ type: user, agentid: b }] } }\n",
        r"
forge.yaml:1:43: agents.a.transforms[0].agentid: unknown field `agentid`
  |
1 | agents: { a: { transforms: [{ type: user, agentid: b }] } }
  |                                           ^
hint: did you mean `agent_id`?
",
    );
    check(
        "agents: { a: { transforms: assistant } }\n",
        r"
forge.yaml:1:28: agents.a.transforms: expected a list, found `assistant`
  |
1 | agents: { a: { transforms: assistant } }
  |                            ^
hint: for example `transforms: [{ type: user, agent_id: recall, input: asked, output: known }]`
",
    );
}

#[test]
fn a_key_of_another_version_is_answered_with_what_to_write_instead() {
    check(
        "agents:\n  a:\n    compact:\n      eviction_window: 0.2\n",
        r"
forge.yaml:4:7: agents.a.compact.eviction_window: `eviction_window` is a key of another version of Forge
  |
4 |       eviction_window: 0.2
  |       ^
hint: say how far instead, such as `max_tokens: 40%`, and what stays, such as `retention_window: 6`
",
    );
    check(
        "agents: [{ id: a, compact: { on_turn_end: true } }]\n",
        r"
forge.yaml:1:30: agents.a.compact.on_turn_end: `on_turn_end` is a key of another version of Forge
  |
1 | agents: [{ id: a, compact: { on_turn_end: true } }]
  |                              ^
hint: remove it: the context is looked at before every call; `auto_compact: false` turns that off
",
    );
    check(
        "agents: { a: { compact: { token_threshold_percentage: 0.7 } } }\n",
        r"
forge.yaml:1:27: agents.a.compact.token_threshold_percentage: `token_threshold_percentage` is a key of another version of Forge
  |
1 | agents: { a: { compact: { token_threshold_percentage: 0.7 } } }
  |                           ^
hint: write a percentage, such as `token_threshold: 70%`
",
    );
    check(
        "agents:\n  - id: a\n    ephemeral: true\n",
        r"
forge.yaml:3:5: agents.a.ephemeral: `ephemeral` is a key of another version of Forge
  |
3 |     ephemeral: true
  |     ^
hint: remove it: an agent's conversation lasts for one run
",
    );
    check(
        "max_requests_per_turn: 50\nagents: {}\n",
        r"
forge.yaml:1:1: max_requests_per_turn: `max_requests_per_turn` is a key of another version of Forge
  |
1 | max_requests_per_turn: 50
  | ^
hint: write `max_iterations` below each agent
",
    );
    // Elsewhere it is not a key of anybody's.
    check(
        "models: { m: { ephemeral: true } }\n",
        r"
forge.yaml:1:16: models.m.ephemeral: unknown field `ephemeral`
  |
1 | models: { m: { ephemeral: true } }
  |                ^
hint: known are provider, window, max_output, price
",
    );
}

#[test]
fn checkpoints_go_to_a_store_and_are_made_at_what_is_known() {
    check(
        "checkpoint: sqlite\n",
        r"
forge.yaml:1:13: checkpoint: expected a mapping, found `sqlite`
  |
1 | checkpoint: sqlite
  |             ^
hint: for example `checkpoint: { interval: 3 }`
",
    );
    check(
        "checkpoint:\n  store: runs.db\n",
        r"
forge.yaml:2:10: checkpoint.store: this names no checkpoint store: write sqlite:///PATH, postgres://USER@HOST/DATABASE, memory:, the name of an environment variable as $NAME, or none
  |
2 |   store: runs.db
  |          ^
hint: for example `store: sqlite:///var/lib/forge/runs.db`
",
    );
    check(
        "checkpoint: { on: [iteration, ends] }\n",
        r"
forge.yaml:1:31: checkpoint.on[1]: unknown moment `ends`
  |
1 | checkpoint: { on: [iteration, ends] }
  |                               ^
hint: did you mean `end`?
",
    );
    check(
        "agents: { a: { checkpoint: { store: none } } }\n",
        r"
forge.yaml:1:30: agents.a.checkpoint.store: unknown field `store`
  |
1 | agents: { a: { checkpoint: { store: none } } }
  |                              ^
hint: known are interval, on
",
    );
}

#[test]
fn a_secret_in_the_file_is_not_repeated() {
    check(
        "checkpoint: { store: 'postgress://me:sk-planted@host/runs' }\n",
        r"
forge.yaml:1:22: checkpoint.store: this names no checkpoint store: write sqlite:///PATH, postgres://USER@HOST/DATABASE, memory:, the name of an environment variable as $NAME, or none
  |
1 | checkpoint: { store: 'postgress(hidden)host/runs' }
  |                      ^
hint: for example `store: sqlite:///var/lib/forge/runs.db`
",
    );
    check(
        "providers:\n  p: { kind: openai, api_key: sk-planted }\n",
        r"
forge.yaml:2:22: providers.p.api_key: unknown field `api_key`
  |
2 |   p: { kind: openai, api_key: (hidden)
  |                      ^
hint: did you mean `api_key_env`?
",
    );
}

#[test]
fn an_unknown_choice_is_answered_with_the_known_ones() {
    check(
        "agents:\n  a:\n    compact:\n      strategies: [sliding_window, clear_results]\n",
        r"
forge.yaml:4:36: agents.a.compact.strategies[1]: unknown strategy `clear_results`
  |
4 |       strategies: [sliding_window, clear_results]
  |                                    ^
hint: known are clear_tool_results, summarization, extraction, sliding_window, truncation
",
    );
    check(
        "agents:\n  a:\n    compact:\n      strategies:\n        - summarizaton\n",
        r"
forge.yaml:5:11: agents.a.compact.strategies[0]: unknown strategy `summarizaton`
  |
5 |         - summarizaton
  |           ^
hint: did you mean `summarization`?
",
    );
    check(
        "agents:\n  a:\n    compact:\n      selection: random\n",
        r"
forge.yaml:4:18: agents.a.compact.selection: unknown selection `random`
  |
4 |       selection: random
  |                  ^
hint: known are ladder, best, adaptive
",
    );
    check(
        "agents:\n  a:\n    compact:\n      strategies:\n        - clear_tool_results: { keeps: 3 }\n",
        r"
forge.yaml:5:33: agents.a.compact.strategies[0].clear_tool_results.keeps: unknown field `keeps`
  |
5 |         - clear_tool_results: { keeps: 3 }
  |                                 ^
hint: did you mean `keep`?
",
    );
    check(
        "providers:\n  x: { kind: gemini }\n",
        r"
forge.yaml:2:14: providers.x.kind: unknown kind `gemini`
  |
2 |   x: { kind: gemini }
  |              ^
hint: known are openai, anthropic, ollama, genai
",
    );
    check(
        "agents:\n  a:\n    compact:\n      strategies:\n        - truncation: {}\n          sliding_window: {}\n",
        r"
forge.yaml:5:11: agents.a.compact.strategies[0]: one strategy for each entry of the list: give `sliding_window` an entry of its own
  |
5 |         - truncation: {}
  |           ^
hint: for example `strategies: [extraction, sliding_window]`
",
    );
}

#[test]
fn prices_and_budgets_are_amounts() {
    check(
        "models:\n  m: { price: { input: free, output: 1 } }\n",
        r"
forge.yaml:2:24: models.m.price.input: expected a number, found `free`
  |
2 |   m: { price: { input: free, output: 1 } }
  |                        ^
hint: for example `input: 2.5`
",
    );
    check(
        "models:\n  m: { price: { input: -1, output: 1 } }\n",
        r"
forge.yaml:2:24: models.m.price.input: an amount of dollars is a number from 0, not -1
  |
2 |   m: { price: { input: -1, output: 1 } }
  |                        ^
hint: for example `input: 2.5`
",
    );
    check(
        "models:\n  m: { price: { input: 1 } }\n",
        r"
forge.yaml:2:15: models.m.price: `output` is missing
  |
2 |   m: { price: { input: 1 } }
  |               ^
hint: for example `output: 10`
",
    );
    check(
        "models:\n  m: { price: { input: 1, output: 1, cached: 1 } }\n",
        r"
forge.yaml:2:38: models.m.price.cached: unknown field `cached`
  |
2 |   m: { price: { input: 1, output: 1, cached: 1 } }
  |                                      ^
hint: known are input, output, cache_read, cache_write, long_prompt, as_of
",
    );
    check(
        "budget: 5\n",
        r"
forge.yaml:1:9: budget: expected a mapping, found `5`
  |
1 | budget: 5
  |         ^
hint: for example `budget: { tokens: 2000000, cost: 5 }`
",
    );
    check(
        "agents:\n  a:\n    budget: { tokens: -1 }\n",
        r"
forge.yaml:3:23: agents.a.budget.tokens: expected a whole number that is not negative, found `-1`
  |
3 |     budget: { tokens: -1 }
  |                       ^
hint: for example `tokens: 2000000`
",
    );
    check(
        "budget: { money: 5 }\n",
        r"
forge.yaml:1:11: budget.money: unknown field `money`
  |
1 | budget: { money: 5 }
  |           ^
hint: known are tokens, cost
",
    );
}

#[test]
fn agents_that_do_not_make_sense_together_are_named() {
    check(
        "agents:\n  a:\n    model: x\n  b:\n    model: x\n    id: c\n",
        r"
forge.yaml:6:9: agents.b.id: agent `b` has the id `c`: leave the id out, or make the two the same
  |
6 |     id: c
  |         ^
",
    );
    check(
        "agents:\n  - id: a\n    model: x\n  - model: y\n    max_turns: 3\n",
        r"
forge.yaml:4:5: agents[1]: `id` is missing
  |
4 |   - model: y
  |     ^
hint: for example `id: researcher`
",
    );
    check(
        "agents:\n  - id: a\n  - model: y\n    id: a\n",
        r"
forge.yaml:4:9: agents.a.id: there are two agents `a`
  |
4 |     id: a
  |         ^
",
    );
    check(
        "agents:\n  '': {}\n",
        r"
forge.yaml:2:3: agents.'': an agent's id must not be empty
  |
2 |   '': {}
  |   ^
hint: for example `name: { model: gpt-4o }`
",
    );
    check(
        "agents:\n  a: 5\n",
        r"
forge.yaml:2:6: agents.a: expected a mapping, found `5`
  |
2 |   a: 5
  |      ^
hint: for example `a: { model: gpt-4o }`
",
    );
    check(
        "agents: [a, b]\n",
        r"
forge.yaml:1:10: agents[0]: expected a mapping, found `a`
  |
1 | agents: [a, b]
  |          ^
hint: for example `agents: { researcher: { model: gpt-4o } }`
",
    );
    check(
        "agents:\n",
        r"
forge.yaml:1:7: agents: expected a list of agents, or a map of agents keyed by id, found nothing
  |
1 | agents:
  |       ^
hint: for example `agents: { researcher: { model: gpt-4o } }`
",
    );
}

#[test]
fn a_text_that_is_no_workflow_is_refused() {
    check(
        "- a\n- b\n",
        r"
forge.yaml:1:1: expected a mapping, found a list
  |
1 | - a
  | ^
hint: for example `agents: { researcher: { model: gpt-4o } }`
",
    );
    check(
        "just text\n",
        r"
forge.yaml:1:1: expected a mapping, found `just text`
  |
1 | just text
  | ^
hint: for example `agents: { researcher: { model: gpt-4o } }`
",
    );
    check(
        "agents:\n  researcher:\n    model: a\n    top_p: 1\n    model: b\n",
        r"
forge.yaml:5:5: agents.researcher.model: `model` stands here a second time
  |
5 |     model: b
  |     ^
hint: the first is in line 3: keep one of the two
",
    );
    check(
        "variables:\n  x: 1\n  x: 2\n",
        r"
forge.yaml:3:3: variables.x: `x` stands here a second time
  |
3 |   x: 2
  |   ^
hint: the first is in line 2: keep one of the two
",
    );
    check(
        "agents:\n  researcher:\n\tmodel: a\n",
        r"
forge.yaml:3:2: agents: tabs disallowed within this context (block indentation)
  |
3 | 	model: a
  | 	^
hint: indent with spaces, not with tabs
",
    );
    check(
        "agents: {a: {model: b\n",
        r"
forge.yaml:1:13: agents.a: unclosed bracket '{'
  |
1 | agents: {a: {model: b
  |             ^
",
    );
    check(
        "agents:\n  a:\n    model: *x\n",
        r"
forge.yaml:3:12: agents.a: this alias names an anchor that is not there
  |
3 |     model: *x
  |            ^
hint: put quotes around a text that begins with `*`
",
    );
    check(
        "agents: {}\n---\nagents: {}\n",
        r"
forge.yaml:3:1: a second YAML document begins, and a workflow is one
  |
3 | agents: {}
  | ^
hint: remove the line `---`
",
    );
}
