//! The texts that users read when a layer is refused: every message whole.

use pretty_assertions::assert_eq;

use super::super::{Source, reader};

fn check(yaml: &str, expected: &str) {
    let actual = reader::read(&Source::new("forge.yaml", yaml)).unwrap_err().to_string();
    assert_eq!(actual, expected.trim_start_matches('\n').trim_end(), "{yaml}");
}

#[test]
fn an_unknown_key_is_answered_with_the_one_that_was_meant() {
    check(
        "agents:\n  researcher:\n    compact:\n      token_treshold: 5\n",
        r"
unknown field `token_treshold`
  --> forge.yaml:4:7: agents.researcher.compact.token_treshold
  |
4 |       token_treshold: 5
  |       ^
help: did you mean `token_threshold`?
",
    );
    check(
        "agent:\n  a: {}\n",
        r"
unknown field `agent`
  --> forge.yaml:1:1: agent
  |
1 | agent:
  | ^
help: did you mean `agents`?
",
    );
    check(
        "\u{feff}agents:\n  ä: { modell: x }\n",
        r"
unknown field `modell`
  --> forge.yaml:2:8: agents.ä.modell
  |
2 |   ä: { modell: x }
  |        ^
help: did you mean `model`?
",
    );
    check(
        "gateway: 5\n",
        r"
unknown field `gateway`
  --> forge.yaml:1:1: gateway
  |
1 | gateway: 5
  | ^
help: use one of providers, models, mcp_servers, variables, hooks, checkpoint, counting, budget, permissions, sandbox, workspace, tool_settings, agents
",
    );
    check(
        "agents: { a: { colour: 5 } }\n",
        r"
unknown field `colour`
  --> forge.yaml:1:16: agents.a.colour
  |
1 | agents: { a: { colour: 5 } }
  |                ^
help: use one of id, description, model, system_prompt, user_prompt, tools, permissions, subscribe, emits, max_turns, max_iterations, max_repetitions, budget, temperature, top_p, max_output_tokens, max_result_tokens, compact, hooks, transforms, recall, checkpoint, reasoning, tool_choice, parallel_tool_calls, stop, seed, service_tier, response_format, routing, cache, extra_body
",
    );
}

#[test]
fn a_misspelt_key_that_stands_elsewhere_is_answered_with_its_place() {
    check(
        "modle: openai:gpt\n",
        r"
unknown field `modle`
  --> forge.yaml:1:1: modle
  |
1 | modle: openai:gpt
  | ^
help: did you mean `model`? Then write `model` below each agent, or set FORGE_MODEL for all of them
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
        let error = reader::read(&source).map(drop).unwrap_err().to_string();
        assert!(error.contains("\n  --> forge.yaml"), "{what}: {error}");
        // All faults at once are looked for in the same text.
        let (_, faults) = reader::read_on(&source);
        assert!(!faults.is_empty(), "{what}");
    }
}

#[test]
fn a_limit_that_is_invalid_is_answered_with_an_example() {
    check(
        "agents:\n  researcher:\n    compact:\n      token_threshold: lots\n",
        r"
invalid limit 'lots' (expected a number of tokens, or a percentage from 1% to 100%)
  --> forge.yaml:4:24: agents.researcher.compact.token_threshold
  |
4 |       token_threshold: lots
  |                        ^
help: for example `token_threshold: 80%` or `token_threshold: 6000`
",
    );
    check(
        "agents:\n  - id: researcher\n    compact:\n      token_threshold: lots\n",
        r"
invalid limit 'lots' (expected a number of tokens, or a percentage from 1% to 100%)
  --> forge.yaml:4:24: agents.researcher.compact.token_threshold
  |
4 |       token_threshold: lots
  |                        ^
help: for example `token_threshold: 80%` or `token_threshold: 6000`
",
    );
    check(
        "agents:\n  researcher:\n    compact: { token_threshold: [1], max_tokens: 5 }\n",
        r"
expected a number of tokens such as 6000, or a percentage of the room such as 80%, found a list
  --> forge.yaml:3:33: agents.researcher.compact.token_threshold
  |
3 |     compact: { token_threshold: [1], max_tokens: 5 }
  |                                 ^
help: for example `token_threshold: 80%` or `token_threshold: 6000`
",
    );
    check(
        "agents:\n  researcher:\n    compact:\n      min_reduction: 120%\n",
        r"
invalid percentage '120%' (expected a whole number from 1% to 100%)
  --> forge.yaml:4:22: agents.researcher.compact.min_reduction
  |
4 |       min_reduction: 120%
  |                      ^
help: for example `min_reduction: 20%`
",
    );
}

#[test]
fn a_value_out_of_range_is_answered_with_an_example() {
    check(
        "agents:\n  researcher:\n    max_turns: many\n",
        r"
expected a whole number that is not negative, found `many`
  --> forge.yaml:3:16: agents.researcher.max_turns
  |
3 |     max_turns: many
  |                ^
help: for example `max_turns: 20`
",
    );
    check(
        "agents:\n  researcher:\n    max_turns: 0\n",
        r"
expected a whole number from 1, found `0`
  --> forge.yaml:3:16: agents.researcher.max_turns
  |
3 |     max_turns: 0
  |                ^
help: for example `max_turns: 20`
",
    );
    check(
        "agents:\n  researcher:\n    temperature: 3\n",
        r"
invalid temperature 3 (expected a number from 0 to 2)
  --> forge.yaml:3:18: agents.researcher.temperature
  |
3 |     temperature: 3
  |                  ^
help: for example `temperature: 0.7`
",
    );
    check(
        "agents:\n  a:\n    compact:\n      auto_compact: perhaps\n",
        r"
expected true or false, found `perhaps`
  --> forge.yaml:4:21: agents.a.compact.auto_compact
  |
4 |       auto_compact: perhaps
  |                     ^
help: for example `auto_compact: true`
",
    );
    check(
        "agents:\n  a:\n    compact:\n      pin: [fine, 'never (']\n",
        r"
invalid pattern 'never (': unclosed group
  --> forge.yaml:4:19: agents.a.compact.pin[1]
  |
4 |       pin: [fine, 'never (']
  |                   ^
help: for example `pin: ['(?i)never deploy']`
",
    );
    check(
        "agents:\n  a:\n    compact: { focus: '' }\n",
        r"
a focus must not be empty
  --> forge.yaml:3:23: agents.a.compact.focus
  |
3 |     compact: { focus: '' }
  |                       ^
help: for example `focus: security findings`
",
    );
}

#[test]
fn a_value_of_the_wrong_kind_is_answered_with_an_example() {
    check(
        "agents:\n  a:\n    compact: { pin: always }\n",
        r"
expected a list, found `always`
  --> forge.yaml:3:21: agents.a.compact.pin
  |
3 |     compact: { pin: always }
  |                     ^
help: for example `pin: ['(?i)never deploy']`
",
    );
    check(
        "agents:\n  a:\n    tools: shell\n",
        r"
expected a list, found `shell`
  --> forge.yaml:3:12: agents.a.tools
  |
3 |     tools: shell
  |            ^
help: for example `tools: [read, list]`
",
    );
    check(
        "agents:\n  a:\n    tools: [shell, '']\n",
        r"
a tool's name must not be empty
  --> forge.yaml:3:20: agents.a.tools[1]
  |
3 |     tools: [shell, '']
  |                    ^
help: for example `tools: [read, list]`
",
    );
    check(
        "agents:\n  a:\n    compact: 80%\n",
        r"
expected a mapping, found `80%`
  --> forge.yaml:3:14: agents.a.compact
  |
3 |     compact: 80%
  |              ^
help: for example `compact: { token_threshold: 80% }`
",
    );
    check(
        "providers:\n  x: { headers: [a] }\n",
        r"
expected a mapping, found a list
  --> forge.yaml:2:17: providers.x.headers
  |
2 |   x: { headers: [a] }
  |                 ^
help: for example `headers: { x-team: research }`
",
    );
    check(
        "agents:\n  a:\n    user_prompt: { a: b }\n",
        r"
expected a string, found a mapping
  --> forge.yaml:3:18: agents.a.user_prompt
  |
3 |     user_prompt: { a: b }
  |                  ^
help: for example `user_prompt: '{{event.value}}'`
",
    );
}

#[test]
fn a_number_is_refused_at_its_place() {
    check(
        "models:\n  gpt-4.1: { window: -5 }\n",
        r"
expected a whole number that is not negative, found `-5`
  --> forge.yaml:2:22: models.gpt-4.1.window
  |
2 |   gpt-4.1: { window: -5 }
  |                      ^
help: for example `window: 128000`
",
    );
    check(
        "agents:\n  a: &a\n    temperature: 7\n  b: *a\n",
        r"
invalid temperature 7 (expected a number from 0 to 2)
  --> forge.yaml:3:18: agents.a.temperature
  |
3 |     temperature: 7
  |                  ^
help: for example `temperature: 0.7`
",
    );
}

#[test]
fn hooks_are_commands_with_a_time_limit() {
    check(
        "hooks:\n  pre_compact:\n    - { command: check, timeout: 10 }\n",
        r"
invalid time limit '10' (expected a number with a unit, such as 10s or 2m, at most 10m)
  --> forge.yaml:3:34: hooks.pre_compact[0].timeout
  |
3 |     - { command: check, timeout: 10 }
  |                                  ^
help: for example `timeout: 10s`
",
    );
    check(
        "agents: { a: { hooks: [] } }\n",
        r"
expected a mapping, found a list
  --> forge.yaml:1:23: agents.a.hooks
  |
1 | agents: { a: { hooks: [] } }
  |                       ^
help: for example `hooks: { pre_compact: [{ command: ./check.sh, timeout: 10s }] }`
",
    );
    check(
        "hooks: { pre_compact: [{ command: ' ' }] }\n",
        r"
a command must not be empty
  --> forge.yaml:1:35: hooks.pre_compact[0].command
  |
1 | hooks: { pre_compact: [{ command: ' ' }] }
  |                                   ^
help: for example `command: ./check.sh`
",
    );
    check(
        "hooks: { pre_compact: [{ timeout: 1s }] }\n",
        r"
`command` is missing
  --> forge.yaml:1:24: hooks.pre_compact[0]
  |
1 | hooks: { pre_compact: [{ timeout: 1s }] }
  |                        ^
help: for example `command: ./check.sh`
",
    );
    check(
        "hooks: { pre_compact: [{ command: a, env: KEY }] }\n",
        r"
expected a list, found `KEY`
  --> forge.yaml:1:43: hooks.pre_compact[0].env
  |
1 | hooks: { pre_compact: [{ command: a, env: KEY }] }
  |                                           ^
help: for example `env: [GIT_DIR]`
",
    );
    check(
        "hooks: { pre_compct: [] }\n",
        r"
unknown field `pre_compct`
  --> forge.yaml:1:10: hooks.pre_compct
  |
1 | hooks: { pre_compct: [] }
  |          ^
help: did you mean `pre_compact`?
",
    );
}

#[test]
fn transforms_have_the_keys_of_their_type() {
    check(
        "agents:\n  a:\n    transforms:\n      - type: tap\n        agent_id: b\n",
        r"
unknown type `tap`
  --> forge.yaml:4:15: agents.a.transforms[0].type
  |
4 |       - type: tap
  |               ^
help: use one of assistant, user, pass_through
",
    );
    check(
        "agents:\n  a:\n    transforms:\n      - type: user\n        agent_id: b\n        output: c\n",
        r"
`input` is missing: a transform of type `user` has agent_id, input and output
  --> forge.yaml:4:9: agents.a.transforms[0]
  |
4 |       - type: user
  |         ^
help: for example `transforms: [{ type: user, agent_id: recall, input: asked, output: known }]`
",
    );
    check(
        "agents: [{ id: a, transforms: [{ type: assistant, token_limit: few }] }]\n",
        r"
expected a whole number that is not negative, found `few`
  --> forge.yaml:1:64: agents.a.transforms[0].token_limit
  |
1 | agents: [{ id: a, transforms: [{ type: assistant, token_limit: few }] }]
  |                                                                ^
help: for example `token_limit: 80000`
",
    );
    check(
        "agents: { a: { transforms: [{ type: user, agentid: b }] } }\n",
        r"
unknown field `agentid`
  --> forge.yaml:1:43: agents.a.transforms[0].agentid
  |
1 | agents: { a: { transforms: [{ type: user, agentid: b }] } }
  |                                           ^
help: did you mean `agent_id`?
",
    );
    check(
        "agents: { a: { transforms: assistant } }\n",
        r"
expected a list, found `assistant`
  --> forge.yaml:1:28: agents.a.transforms
  |
1 | agents: { a: { transforms: assistant } }
  |                            ^
help: for example `transforms: [{ type: user, agent_id: recall, input: asked, output: known }]`
",
    );
}

#[test]
fn a_key_of_another_version_is_answered_with_what_to_write_instead() {
    check(
        "agents:\n  a:\n    compact:\n      eviction_window: 0.2\n",
        r"
`eviction_window` is a key of another version of Forge
  --> forge.yaml:4:7: agents.a.compact.eviction_window
  |
4 |       eviction_window: 0.2
  |       ^
help: set the target instead, such as `max_tokens: 40%`, and the messages to keep, such as `retention_window: 6`
",
    );
    check(
        "agents: [{ id: a, compact: { on_turn_end: true } }]\n",
        r"
`on_turn_end` is a key of another version of Forge
  --> forge.yaml:1:30: agents.a.compact.on_turn_end
  |
1 | agents: [{ id: a, compact: { on_turn_end: true } }]
  |                              ^
help: remove it: the context is checked before every call; `auto_compact: false` turns that off
",
    );
    check(
        "agents: { a: { compact: { token_threshold_percentage: 0.7 } } }\n",
        r"
`token_threshold_percentage` is a key of another version of Forge
  --> forge.yaml:1:27: agents.a.compact.token_threshold_percentage
  |
1 | agents: { a: { compact: { token_threshold_percentage: 0.7 } } }
  |                           ^
help: write a percentage, such as `token_threshold: 70%`
",
    );
    check(
        "agents:\n  - id: a\n    ephemeral: true\n",
        r"
`ephemeral` is a key of another version of Forge
  --> forge.yaml:3:5: agents.a.ephemeral
  |
3 |     ephemeral: true
  |     ^
help: remove it: an agent's conversation lasts for one run
",
    );
    check(
        "max_requests_per_turn: 50\nagents: {}\n",
        r"
`max_requests_per_turn` is a key of another version of Forge
  --> forge.yaml:1:1: max_requests_per_turn
  |
1 | max_requests_per_turn: 50
  | ^
help: write `max_iterations` below each agent
",
    );
    // Elsewhere it is not a key of anybody's.
    check(
        "models: { m: { ephemeral: true } }\n",
        r"
unknown field `ephemeral`
  --> forge.yaml:1:16: models.m.ephemeral
  |
1 | models: { m: { ephemeral: true } }
  |                ^
help: use one of provider, protocols, window, max_output, price, efforts, thinking_budget, sampling, tools, images, reasoning, tool_choice, parallel_tool_calls, stop, seed, service_tier, response_format, routing, cache, extra_body
",
    );
}

#[test]
fn checkpoints_go_to_a_store_and_are_made_at_what_is_known() {
    check(
        "checkpoint: sqlite\n",
        r"
expected a mapping, found `sqlite`
  --> forge.yaml:1:13: checkpoint
  |
1 | checkpoint: sqlite
  |             ^
help: for example `checkpoint: { interval: 3 }`
",
    );
    check(
        "checkpoint:\n  store: runs.db\n",
        r"
invalid checkpoint store (expected sqlite:///PATH, postgres://USER@HOST/DATABASE, memory:, the name of an environment variable as $NAME, or none)
  --> forge.yaml:2:10: checkpoint.store
  |
2 |   store: runs.db
  |          ^
help: for example `store: sqlite:///var/lib/forge/runs.db`
",
    );
    check(
        "checkpoint: { on: [iteration, ends] }\n",
        r"
unknown moment `ends`
  --> forge.yaml:1:31: checkpoint.on[1]
  |
1 | checkpoint: { on: [iteration, ends] }
  |                               ^
help: did you mean `end`?
",
    );
    check(
        "agents: { a: { checkpoint: { store: none } } }\n",
        r"
unknown field `store`
  --> forge.yaml:1:30: agents.a.checkpoint.store
  |
1 | agents: { a: { checkpoint: { store: none } } }
  |                              ^
help: use one of interval, on
",
    );
}

#[test]
fn a_secret_in_the_file_is_not_repeated() {
    check(
        "checkpoint: { store: 'postgress://me:sk-planted@host/runs' }\n",
        r"
invalid checkpoint store (expected sqlite:///PATH, postgres://USER@HOST/DATABASE, memory:, the name of an environment variable as $NAME, or none)
  --> forge.yaml:1:22: checkpoint.store
  |
1 | checkpoint: { store: 'postgress(hidden)host/runs' }
  |                      ^
help: for example `store: sqlite:///var/lib/forge/runs.db`
",
    );
    check(
        "providers:\n  p: { kind: openai, api_key: sk-planted }\n",
        r"
unknown field `api_key`
  --> forge.yaml:2:22: providers.p.api_key
  |
2 |   p: { kind: openai, api_key: (hidden)
  |                      ^
help: did you mean `api_key_env`?
",
    );
}

#[test]
fn an_unknown_choice_is_answered_with_the_known_ones() {
    check(
        "agents:\n  a:\n    compact:\n      strategies: [sliding_window, clear_results]\n",
        r"
unknown strategy `clear_results`
  --> forge.yaml:4:36: agents.a.compact.strategies[1]
  |
4 |       strategies: [sliding_window, clear_results]
  |                                    ^
help: use one of clear_tool_results, summarization, extraction, sliding_window, truncation
",
    );
    check(
        "agents:\n  a:\n    compact:\n      strategies:\n        - summarizaton\n",
        r"
unknown strategy `summarizaton`
  --> forge.yaml:5:11: agents.a.compact.strategies[0]
  |
5 |         - summarizaton
  |           ^
help: did you mean `summarization`?
",
    );
    check(
        "agents:\n  a:\n    compact:\n      selection: random\n",
        r"
unknown selection `random`
  --> forge.yaml:4:18: agents.a.compact.selection
  |
4 |       selection: random
  |                  ^
help: use one of ladder, best
",
    );
    check(
        "agents:\n  a:\n    compact:\n      selection: adaptive\n",
        r"
`selection: adaptive` was removed
  --> forge.yaml:4:18: agents.a.compact.selection
  |
4 |       selection: adaptive
  |                  ^
help: remove the line: each strategy continues from what the ones before it reached
",
    );
    check(
        "agents:\n  a:\n    compact:\n      strategies:\n        - clear_tool_results: { keeps: 3 }\n",
        r"
unknown field `keeps`
  --> forge.yaml:5:33: agents.a.compact.strategies[0].clear_tool_results.keeps
  |
5 |         - clear_tool_results: { keeps: 3 }
  |                                 ^
help: did you mean `keep`?
",
    );
    check(
        "agents:\n  a:\n    compact:\n      strategies:\n        - truncation: {}\n          sliding_window: {}\n",
        r"
one strategy for each entry of the list: give `sliding_window` an entry of its own
  --> forge.yaml:5:11: agents.a.compact.strategies[0]
  |
5 |         - truncation: {}
  |           ^
help: for example `strategies: [extraction, sliding_window]`
",
    );
}

#[test]
fn an_unknown_kind_of_provider_is_answered_with_what_to_write() {
    check(
        "providers:\n  x: { kind: bedrock }\n",
        r"
unknown kind `bedrock`
  --> forge.yaml:2:14: providers.x.kind
  |
2 |   x: { kind: bedrock }
  |              ^
help: use one of openai, openai-chat, responses, anthropic, ollama, gemini
",
    );
    check(
        "providers:\n  x: { kind: genai }\n",
        r"
`kind: genai` was removed
  --> forge.yaml:2:14: providers.x.kind
  |
2 |   x: { kind: genai }
  |              ^
help: write `kind: gemini` for Gemini and Vertex AI, `kind: openai` with the provider's OpenAI-compatible `base_url` for Cohere, Bedrock and others
",
    );
}

#[test]
fn prices_and_budgets_are_amounts() {
    check(
        "models:\n  m: { price: { input: free, output: 1 } }\n",
        r"
expected a number, found `free`
  --> forge.yaml:2:24: models.m.price.input
  |
2 |   m: { price: { input: free, output: 1 } }
  |                        ^
help: for example `input: 2.5`
",
    );
    check(
        "models:\n  m: { price: { input: -1, output: 1 } }\n",
        r"
invalid amount of dollars -1 (expected a number from 0)
  --> forge.yaml:2:24: models.m.price.input
  |
2 |   m: { price: { input: -1, output: 1 } }
  |                        ^
help: for example `input: 2.5`
",
    );
    check(
        "models:\n  m: { price: { input: 1 } }\n",
        r"
`output` is missing
  --> forge.yaml:2:15: models.m.price
  |
2 |   m: { price: { input: 1 } }
  |               ^
help: for example `output: 10`
",
    );
    check(
        "models:\n  m: { price: { input: 1, output: 1, cached: 1 } }\n",
        r"
unknown field `cached`
  --> forge.yaml:2:38: models.m.price.cached
  |
2 |   m: { price: { input: 1, output: 1, cached: 1 } }
  |                                      ^
help: use one of input, output, cache_read, cache_write, long_prompt, as_of
",
    );
    check(
        "budget: 5\n",
        r"
expected a mapping, found `5`
  --> forge.yaml:1:9: budget
  |
1 | budget: 5
  |         ^
help: for example `budget: { tokens: 2000000, cost: 5 }`
",
    );
    check(
        "agents:\n  a:\n    budget: { tokens: -1 }\n",
        r"
expected a whole number that is not negative, found `-1`
  --> forge.yaml:3:23: agents.a.budget.tokens
  |
3 |     budget: { tokens: -1 }
  |                       ^
help: for example `tokens: 2000000`
",
    );
    check(
        "budget: { money: 5 }\n",
        r"
unknown field `money`
  --> forge.yaml:1:11: budget.money
  |
1 | budget: { money: 5 }
  |           ^
help: use one of tokens, cost
",
    );
}

#[test]
fn agents_that_do_not_make_sense_together_are_named() {
    check(
        "agents:\n  a:\n    model: x\n  b:\n    model: x\n    id: c\n",
        r"
agent `b` has the id `c`: remove the id, or make both the same
  --> forge.yaml:6:9: agents.b.id
  |
6 |     id: c
  |         ^
",
    );
    check(
        "agents:\n  - id: a\n    model: x\n  - model: y\n    max_turns: 3\n",
        r"
`id` is missing
  --> forge.yaml:4:5: agents[1]
  |
4 |   - model: y
  |     ^
help: for example `id: researcher`
",
    );
    check(
        "agents:\n  - id: a\n  - model: y\n    id: a\n",
        r"
there are two agents `a`
  --> forge.yaml:4:9: agents.a.id
  |
4 |     id: a
  |         ^
help: the first one is on line 2: rename one
",
    );
    check(
        "agents:\n  '': {}\n",
        r"
an agent's id must not be empty
  --> forge.yaml:2:3: agents.''
  |
2 |   '': {}
  |   ^
help: for example `name: { model: gpt-4o }`
",
    );
    check(
        "agents:\n  a: 5\n",
        r"
expected a mapping, found `5`
  --> forge.yaml:2:6: agents.a
  |
2 |   a: 5
  |      ^
help: for example `a: { model: gpt-4o }`
",
    );
    check(
        "agents: [a, b]\n",
        r"
expected a mapping, found `a`
  --> forge.yaml:1:10: agents[0]
  |
1 | agents: [a, b]
  |          ^
help: for example `agents: { researcher: { model: gpt-4o } }`
",
    );
    check(
        "agents:\n",
        r"
expected a list of agents, or a map of agents keyed by id, found nothing
  --> forge.yaml:1:7: agents
  |
1 | agents:
  |       ^
help: for example `agents: { researcher: { model: gpt-4o } }`
",
    );
}

#[test]
fn a_text_that_is_no_workflow_is_refused() {
    check(
        "- a\n- b\n",
        r"
expected a mapping, found a list
  --> forge.yaml:1:1
  |
1 | - a
  | ^
help: for example `agents: { researcher: { model: gpt-4o } }`
",
    );
    check(
        "just text\n",
        r"
expected a mapping, found `just text`
  --> forge.yaml:1:1
  |
1 | just text
  | ^
help: for example `agents: { researcher: { model: gpt-4o } }`
",
    );
}

#[test]
fn a_key_that_is_written_twice_is_refused() {
    check(
        "agents:\n  researcher:\n    model: a\n    top_p: 1\n    model: b\n",
        r"
duplicate key `model`
  --> forge.yaml:5:5: agents.researcher.model
  |
5 |     model: b
  |     ^
help: the first one is on line 3: keep only one
",
    );
    check(
        "variables:\n  x: 1\n  x: 2\n",
        r"
duplicate key `x`
  --> forge.yaml:3:3: variables.x
  |
3 |   x: 2
  |   ^
help: the first one is on line 2: keep only one
",
    );
}

#[test]
fn a_text_that_is_not_yaml_is_refused() {
    check(
        "agents:\n  researcher:\n\tmodel: a\n",
        r"
tabs disallowed within this context (block indentation)
  --> forge.yaml:3:2: agents
  |
3 |     model: a
  |     ^
help: indent with spaces, not with tabs
",
    );
    check(
        "agents: {a: {model: b\n",
        r"
unclosed bracket '{'
  --> forge.yaml:1:13: agents.a
  |
1 | agents: {a: {model: b
  |             ^
",
    );
    check(
        "agents:\n  a:\n    model: *x\n",
        r"
this alias names an anchor that does not exist
  --> forge.yaml:3:12: agents.a
  |
3 |     model: *x
  |            ^
help: put quotes around a text that begins with `*`
",
    );
    check(
        "agents: {}\n---\nagents: {}\n",
        r"
a second YAML document starts here, but a workflow is a single one
  --> forge.yaml:3:1
  |
3 | agents: {}
  | ^
help: remove the line `---`
",
    );
}

#[test]
fn no_message_has_the_words_of_the_parser() {
    let aliases: String =
        (1..9).map(|n| format!("x-{n}: &x{n} [{}]\n", vec![format!("*x{}", n - 1); 9].join(","))).collect();
    for (yaml, expected) in [
        (
            "sandbox: { network: yes }\n".to_owned(),
            &["expected none, all or a list of hosts, found `yes`"][..],
        ),
        ("sandbox: { processes: 0 }\n".to_owned(), &["expected a whole number from 1, found `0`"]),
        ("agents: { a: { seed: 1.5 } }\n".to_owned(), &["expected a whole number, found `1.5`"]),
        (
            "models: { m: { price: { input: 1, output: 1, as_of: then } } }\n".to_owned(),
            &["expected a day, found `then`", "1:53: models.m.price.as_of", "as_of: 2026-11-21"],
        ),
        ("models: { m: { window: 8k } }\n".to_owned(), &["that is not negative, found `8k`", "write `8000`"]),
        ("budget: { tokens: 2M }\n".to_owned(), &["write `2000000`"]),
        (
            "agents:\n  - id: a\n     model: b\n".to_owned(),
            &["3:11: ", "give this key the indentation of the one above it"],
        ),
        (
            "agents:\n  a:\n    system_prompt: Note: answer\n".to_owned(),
            &["put quotes around a text with a colon and a space in it"],
        ),
        ("agents:\n  - reader:\n      model: b\n".to_owned(), &["write `- id: reader`"]),
        ("agents:\n  - reader:\n    model: b\n".to_owned(), &["write `- id: reader`"]),
        (format!("x-0: &x0 [l,l,l,l,l,l,l,l,l]\n{aliases}"), &["too many values", "an alias such as"]),
        ("x-a: &a text\nagents:\n  a:\n    <<: *a\n".to_owned(), &["`<<` needs a mapping"]),
        (format!("x-a: {}", "[".repeat(5_000)), &["nested too deeply"]),
        (
            "agents: { a: { compact: { strategies: [clear_tools] } } }\n".to_owned(),
            &["`clear_tool_results`?"],
        ),
    ] {
        let actual = reader::read(&Source::new("forge.yaml", yaml.clone())).unwrap_err().to_string();
        for part in expected {
            assert!(actual.contains(part), "{part}: {yaml:.200} {actual}");
        }
    }
}
