//! `forge compact`: what fits stays byte for byte, what does not is made to fit, and nothing is ever half written.

use forge_domain::TokenCounter;
use forge_services::O200kCounter;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::forge::{Forge, Outcome};

fn count(text: &str) -> u64 {
    O200kCounter.count(text).as_u64()
}

/// The formula of a request's tokens, over plain JSON and independent of the domain's own.
fn request_tokens(request: &Value) -> u64 {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let message = |message: &Value| {
        let mut tokens = 4;
        for (key, value) in message.as_object().unwrap() {
            tokens += match (key.as_str(), value) {
                ("role" | "tool_call_id", _) | (_, Value::Null) => 0,
                ("content", Value::Array(parts)) => {
                    parts.iter().map(|part| part["text"].as_str().map_or(85, count)).sum()
                }
                ("tool_calls", calls) => calls
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|call| &call["function"])
                    .map(|call| 4 + count(&text(&call["name"])) + count(&text(&call["arguments"])))
                    .sum(),
                ("name", name) => 1 + count(&text(name)),
                (_, value) => count(&text(value)),
            };
        }
        tokens
    };
    let tools = request.get("tools").map_or(0, |tools| count(&tools.to_string()));
    3 + tools + request["messages"].as_array().unwrap().iter().map(message).sum::<u64>()
}

fn call(id: &str, path: &str) -> Value {
    json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function",
        "function": {"name": "read", "arguments": format!("{{\"path\": \"{path}\"}}")}}]})
}

fn result(id: &str, text: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": text})
}

/// A request with `n` exchanges of some hundred tokens each.
fn request(n: usize) -> Value {
    let mut messages = vec![
        json!({"role": "system", "content": "Answer briefly."}),
        json!({"role": "user", "content": "Find the night the dome closed.", "name": "ada"}),
    ];
    for at in 0..n {
        let id = format!("call_{}", at % 3);
        messages.push(call(&id, &format!("night{at}.log")));
        messages.push(result(&id, &format!("night {at}: {}", "clouds at nine, rain at ten. ".repeat(20))));
    }
    messages.push(json!({"role": "user", "content": "And now sum up."}));
    json!({"model": "m", "messages": messages, "temperature": 0.5,
        "tools": [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]})
}

fn forge_with(input: &str) -> Forge {
    Forge::new().with_file("in.json", input)
}

fn read(forge: &Forge, name: &str) -> String {
    std::fs::read_to_string(forge.path(name)).unwrap()
}

fn json_of(forge: &Forge, name: &str) -> Value {
    serde_json::from_str(&read(forge, name)).unwrap()
}

fn compact(forge: &Forge, arguments: &[&str]) -> Outcome {
    let mut all = vec!["compact", "in.json"];
    all.extend(arguments);
    forge.run(&all)
}

/// The breaches of OpenAI's rules in a file, by the reader and validator of the house.
fn breaches(forge: &Forge, name: &str) -> Vec<Value> {
    let actual = forge.run(&["inspect", name, "--json"]);
    let report: Value = serde_json::from_str(&actual.stdout).unwrap();
    report["breaches"].as_array().unwrap().clone()
}

#[test]
fn what_fits_is_written_unchanged() {
    let pretty = serde_json::to_string_pretty(&request(3)).unwrap();
    let odd = "\u{feff}{\"x\" : 1.0e3,\n\"messages\": [ {\"content\":\"h\\u0069\", \"role\":\"user\"} ] }";
    let line = "{\"type\":\"user\",\"uuid\":\"1\",\"parentUuid\":null,\"message\":{\"role\":\"user\",\"content\":\"hi\"}}\nnot json";
    let anthropic = "{\"system\":\"s\",  \"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";
    let tau = "[{\"task_id\":1,\"trial\":0, \"traj\":[{\"role\":\"user\",\"content\":\"hi\"}]}]";
    for input in [&pretty, odd, line, anthropic, tau] {
        let forge = forge_with(input);
        let to_file =
            compact(&forge, &["--output", "out", "--max-tokens", "5000", "--report", "report.json"]);
        assert_eq!((to_file.code, to_file.stdout.as_str()), (0, ""), "{}", to_file.stderr);
        assert_eq!(read(&forge, "out"), input);
        let report = json_of(&forge, "report.json");
        assert_eq!((&report["outcome"], &report["repaired"]), (&json!("not_triggered"), &json!([])));
        let printed = compact(&forge, &["--max-tokens", "5k"]);
        assert_eq!((printed.code, printed.stdout.as_str()), (0, input));
        assert!(printed.stderr.contains("fits as it is"), "{}", printed.stderr);
        assert_eq!(compact(&forge, &[]).stdout, input, "without a limit the assumed window holds it");
    }
}

#[test]
fn what_does_not_fit_is_made_to_by_an_independent_count() {
    let input = request(30);
    let forge = forge_with(&input.to_string());
    let whole = request_tokens(&input);
    for limit in [whole, whole - 1, whole * 9 / 10, whole / 2, whole / 10, 400] {
        let limit = limit.to_string();
        let arguments =
            ["-o", "out.json", "--from", "openai", "--to", "openai", "--max-tokens", &limit, "--json"];
        let actual = compact(&forge, &arguments);
        assert_eq!(actual.code, 0, "{}", actual.stderr);
        let report: Value = serde_json::from_str(&actual.stdout).unwrap();
        let output = json_of(&forge, "out.json");
        assert_eq!(
            (&report["tokens_before"], &report["tokens_after"]),
            (&json!(whole), &json!(request_tokens(&output)))
        );
        assert!(request_tokens(&output) <= limit.parse().unwrap(), "{limit}");
        assert_eq!(breaches(&forge, "out.json"), Vec::<Value>::new());
        for key in ["model", "temperature", "tools"] {
            assert_eq!(output[key], input[key]);
        }
        let fates = report["messages"].as_array().unwrap();
        assert_eq!(fates.len(), input["messages"].as_array().unwrap().len());
        let kept = fates
            .iter()
            .zip(input["messages"].as_array().unwrap())
            .filter(|(fate, _)| fate["fate"] == "kept");
        for (fate, message) in kept {
            assert!(output["messages"].as_array().unwrap().contains(message), "{fate}");
        }
        let again = compact(&forge, &arguments);
        assert_eq!(again, actual, "the same input gives the same bytes");
    }
}

#[test]
fn what_leaves_is_folded_where_something_tells_of_it_and_dropped_where_it_is_only_counted() {
    let mut input = request(30);
    let messages = input["messages"].as_array_mut().unwrap();
    // It stays, so what leaves leaves in two runs.
    let middle = messages.iter().rposition(|message| message["role"] == "user").map_or(20, |at| at.min(20));
    messages.insert(middle, json!({"role": "system", "content": "Be brief."}));
    let forge = forge_with(&input.to_string());
    for (strategy, gone, why) in [
        ("extraction", "folded", " stands for it"),
        ("sliding_window", "dropped", " counts it among what was omitted"),
        ("{sliding_window: {keep_first: 1, keep_last: 4}}", "dropped", " counts it among what was omitted"),
    ] {
        let arguments = ["-o", "out.json", "--max-tokens", "1k", "--strategy", strategy, "--json"];
        let actual = compact(&forge, &arguments);
        let report: Value = serde_json::from_str(&actual.stdout).unwrap();
        let fates = report["messages"].as_array().unwrap();
        let left: Vec<&Value> = fates
            .iter()
            .filter(|fate| ["folded", "dropped"].contains(&fate["fate"].as_str().unwrap()))
            .collect();
        assert!(left.len() > 10, "{strategy}: {report}");
        for fate in left {
            let is_so = fate["fate"] == gone && fate["why"].as_str().unwrap().ends_with(why);
            assert!(is_so, "{strategy}: {fate}");
        }
    }
}

#[test]
fn a_limit_holds_for_every_strategy_alone() {
    let forge = forge_with(&request(30).to_string());
    for strategy in ["sliding_window", "truncation", "{sliding_window: {keep_first: 1, keep_last: 4}}"] {
        let actual = compact(&forge, &["-o", "out.json", "--max-tokens", "1k", "--strategy", strategy]);
        assert_eq!(actual.code, 0, "{}", actual.stderr);
        assert!(request_tokens(&json_of(&forge, "out.json")) <= 1_000, "{strategy}");
    }
}

#[test]
fn the_input_is_never_written_over() {
    let forge = forge_with(&request(30).to_string());
    let before = read(&forge, "in.json");
    std::fs::hard_link(forge.path("in.json"), forge.path("hard.json")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(forge.path("in.json"), forge.path("soft.json")).unwrap();
    for (arguments, word) in [
        (&["-o", "in.json"][..], "--output"),
        (&["-o", "./in.json"], "--output"),
        (&["-o", "hard.json"], "--output"),
        #[cfg(unix)]
        (&["-o", "soft.json"], "--output"),
        (&["-o", "out.json", "--report", "in.json"], "--report"),
        (&["--dry-run", "--proposal", "in.json"], "--proposal"),
    ] {
        let actual = compact(&forge, &[arguments, &["--max-tokens", "1k"]].concat());
        assert_eq!((actual.code, actual.stdout.as_str()), (2, ""));
        assert!(
            actual.stderr.contains(word) && actual.stderr.contains("never overwritten"),
            "{}",
            actual.stderr
        );
        assert_eq!(read(&forge, "in.json"), before);
    }
}

#[test]
fn what_cannot_be_written_is_told_before_anything_changes() {
    let forge = forge_with(&request(30).to_string()).with_file("kept.json", "mine");
    let mut protected = std::fs::metadata(forge.path("kept.json")).unwrap().permissions();
    protected.set_readonly(true);
    std::fs::set_permissions(forge.path("kept.json"), protected).unwrap();
    for (arguments, told) in [
        (&["-o", "out.json", "--report", "no/such.json"][..], "no/such.json"),
        (&["-o", "kept.json"], "kept.json: it is write-protected"),
    ] {
        let actual = compact(&forge, &[arguments, &["--max-tokens", "1k"]].concat());
        assert_eq!(actual.code, 1, "{}", actual.stderr);
        assert!(actual.stderr.contains(told), "{}", actual.stderr);
        assert!(!forge.path("out.json").exists());
        assert_eq!(read(&forge, "kept.json"), "mine");
    }
}

/// A link may lead to a pipe, as `/dev/stdout` does: what it leads to is written to, and the link stays.
#[cfg(target_os = "linux")]
#[test]
fn a_link_is_never_replaced() {
    let forge = forge_with(&request(3).to_string());
    for (target, code, stdout) in
        [("/proc/self/fd/1", 0, read(&forge, "in.json")), ("nowhere", 1, String::new())]
    {
        let link = forge.path("link");
        std::os::unix::fs::symlink(target, &link).unwrap();
        let actual = compact(&forge, &["-o", "link", "--max-tokens", "5k"]);
        assert_eq!((actual.code, actual.stdout), (code, stdout), "{target}: {}", actual.stderr);
        assert!(link.is_symlink(), "{target}");
        std::fs::remove_file(link).unwrap();
    }
}

#[test]
fn a_limit_is_for_what_is_written_in_another_form() {
    let tool = |n: u32| json!({"name": format!("tool_{n}"), "input_schema": {"type": "object"}});
    let tools: Vec<Value> = (0..60).map(tool).collect();
    let said = |n: u32| json!({"role": (["user", "assistant"][n as usize % 2]), "content": format!("{n} ").repeat(40)});
    let messages: Vec<Value> = (0..31).map(said).collect();
    let forge =
        forge_with(&json!({"model": "m", "max_tokens": 9, "messages": messages, "tools": tools}).to_string());
    let inspected = forge.run(&["inspect", "in.json", "--json"]);
    let before = serde_json::from_str::<Value>(&inspected.stdout).unwrap()["tokens"].as_u64().unwrap();
    let actual = compact(&forge, &["--to", "openai", "-o", "out.json", "--max-tokens", &before.to_string()]);
    assert_eq!(actual.code, 0, "{}", actual.stderr);
    let written = request_tokens(&json_of(&forge, "out.json"));
    assert!(written <= before, "{written} of {before}");
}

#[test]
fn what_cannot_fit_is_refused_and_nothing_is_written() {
    let forge = forge_with(&request(30).to_string()).with_file("out.json", "old");
    let actual = compact(&forge, &["-o", "out.json", "--max-tokens", "30", "--report", "report.json"]);
    assert_eq!(actual.code, 1);
    for word in ["in.json cannot be made to fit", "only 30 are available", "system messages", "tool schemas"]
    {
        assert!(actual.stderr.contains(word), "`{word}` is not in:\n{}", actual.stderr);
    }
    assert_eq!(read(&forge, "out.json"), "old");
    let report = json_of(&forge, "report.json");
    assert_eq!(report["outcome"], "still_over");
    let terms = report["still_over"]["because"].as_array().unwrap().iter();
    assert_eq!(terms.map(|term| term["tokens"].as_u64().unwrap()).sum::<u64>(), report["still_over"]["need"]);
}

#[test]
fn a_result_is_written_whole_or_not_at_all() {
    let forge = forge_with(&request(30).to_string());
    let actual = compact(&forge, &["-o", "missing/out.json", "--max-tokens", "1k"]);
    assert_eq!(actual.code, 1);
    assert!(actual.stderr.contains("cannot write missing/out.json"), "{}", actual.stderr);
    std::fs::create_dir(forge.path("taken")).unwrap();
    assert_eq!(compact(&forge, &["-o", "taken", "--max-tokens", "1k"]).code, 1);
    let mut names: Vec<_> =
        std::fs::read_dir(forge.path(".")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["in.json", "taken"]);
}

#[test]
fn a_proposal_is_applied_as_it_stands_and_to_its_input_alone() {
    let input = request(30).to_string();
    let forge = forge_with(&input);
    compact(&forge, &["-o", "direct.json", "--max-tokens", "1k"]);
    let dry = compact(&forge, &["--max-tokens", "1k", "--dry-run", "--proposal", "p.json", "--json"]);
    assert_eq!(dry.code, 0, "{}", dry.stderr);
    let report: Value = serde_json::from_str(&dry.stdout).unwrap();
    assert_eq!(report["outcome"], "applied");

    let applied = compact(&forge, &["--apply", "p.json", "-o", "applied.json", "--json"]);
    assert_eq!(applied.code, 0, "{}", applied.stderr);
    assert_eq!(serde_json::from_str::<Value>(&applied.stdout).unwrap(), report);
    assert_eq!(read(&forge, "applied.json"), read(&forge, "direct.json"));

    let mut proposal = json_of(&forge, "p.json");
    assert!(!proposal["replacements"].as_array().unwrap().is_empty());
    proposal["replacements"] = json!([]);
    let forge = forge.with_file("none.json", proposal.to_string());
    let none = compact(&forge, &["--apply", "none.json", "-o", "none.out", "--json"]);
    let told: Value = serde_json::from_str(&none.stdout).unwrap();
    assert_eq!(
        told["tokens_after"], report["tokens_before"],
        "what came of it is told, not what was proposed"
    );
    assert_eq!(read(&forge, "none.out"), input, "it is the proposal that is applied, not a new compaction");

    let edited = |edit: &dyn Fn(&mut Value)| {
        let mut proposal = json_of(&forge, "p.json");
        edit(&mut proposal["replacements"]);
        proposal.to_string()
    };
    let beyond = json!([{"replaces": [999], "with": []}]);
    for (edited, expected) in [
        (edited(&|all| *all = beyond.clone()), "`replacements[0].replaces` names m999"),
        (edited(&|all| all[0]["replaces"] = json!([])), "`replacements[0].replaces` is empty"),
        (edited(&|all| all[0]["replaces"] = json!([1, 1])), "names m1, which is replaced already"),
        // The first call alone, without its result.
        (edited(&|all| *all = json!([{"replaces": [2], "with": []}])), "breaks a provider's rule: message"),
    ] {
        let forge = forge_with(&input).with_file("edited.json", edited);
        let refused = compact(&forge, &["--apply", "edited.json", "-o", "refused.json"]);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
        assert!(!forge.path("refused.json").exists());
    }

    let forge = forge.with_file("in.json", input.replace("dome", "roof"));
    let refused = compact(&forge, &["--apply", "p.json", "-o", "refused.json"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("a different input"), "{}", refused.stderr);
    assert!(!forge.path("refused.json").exists());
}

#[test]
fn a_broken_input_is_repaired_and_said_to_be() {
    let (user, late) = (json!({"role": "user", "content": "hi"}), json!({"role": "user", "content": "wait"}));
    for (messages, repairs, expected) in [
        (
            json!([user, call("a", "x")]),
            json!([{"repair": "missing_result", "call_id": "a"}]),
            json!([user, call("a", "x"), result("a", "[no result recorded]")]),
        ),
        (
            json!([user, result("z", "lost"), call("a", "x"), result("a", "out")]),
            json!([{"repair": "orphan_result", "call_id": "z"}]),
            json!([user, call("a", "x"), result("a", "out")]),
        ),
        (
            json!([user, call("a", "x"), late, result("a", "out")]),
            json!([{"repair": "moved_result", "call_id": "a"}]),
            json!([user, call("a", "x"), result("a", "out"), late]),
        ),
    ] {
        let forge = forge_with(&json!({"messages": messages}).to_string());
        let actual = compact(&forge, &["-o", "out.json", "--max-tokens", "5k", "--json"]);
        assert_eq!(actual.code, 0, "{}", actual.stderr);
        let report: Value = serde_json::from_str(&actual.stdout).unwrap();
        assert_eq!(report["repaired"], repairs);
        assert!(!report["breaches_before"].as_array().unwrap().is_empty());
        assert_eq!(json_of(&forge, "out.json"), json!({"messages": expected}));
        assert_eq!(breaches(&forge, "out.json"), Vec::<Value>::new());
    }
}

#[test]
fn a_format_that_keeps_its_form_is_repaired_only_if_something_changes() {
    let history = json!([{"role": "user", "content": "hi"}, call("a", "x")]);
    let input = json!({"history": history, "info": {}}).to_string();
    let forge = forge_with(&input);
    let (unrepaired, missing) =
        ("1 fault not repaired", json!([{"repair": "missing_result", "call_id": "a"}]));
    for (to, expected, is_told) in [(None, json!([]), true), (Some("--to=openai"), missing, false)] {
        let mut arguments = vec!["-o", "out.json", "--max-tokens", "5k", "--report", "report.json"];
        arguments.extend(to);
        let actual = compact(&forge, &arguments);
        assert_eq!((actual.code, actual.stderr.contains(unrepaired)), (0, is_told), "{}", actual.stderr);
        assert_eq!(actual.stderr.contains("message repaired"), !is_told, "{}", actual.stderr);
        assert_eq!(json_of(&forge, "report.json")["repaired"], expected);
        assert_eq!(read(&forge, "out.json") == input, is_told);
    }
}

#[test]
fn a_format_whose_results_answer_no_call_was_guessed_wrong() {
    let user = json!({"role": "user", "content": "hi"});
    let messages = json!([user, call("a", "x"), result("y", "first"), result("z", "second")]);
    let forge = forge_with(&json!({"messages": messages}).to_string());
    let refused = compact(&forge, &["-o", "out.json", "--max-tokens", "5k"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    for expected in ["the format `openai`", "none of its 2 results answers a call", "--from openai"] {
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    }
    assert!(!forge.path("out.json").exists());
    let named = compact(&forge, &["-o", "out.json", "--max-tokens", "5k", "--from", "openai"]);
    assert_eq!(named.code, 0, "{}", named.stderr);
}

#[test]
fn a_message_in_a_form_of_its_recorder_gets_that_of_the_protocol() {
    let mut recorded = vec![json!({"role": "user", "content": "hi"}), call("a", "x"), result("a", "out")];
    recorded[1]["tool_calls"][0]["function"]["arguments"] = json!({"path": "x"});
    let answer = recorded[2].as_object_mut().unwrap();
    answer.remove("tool_call_id");
    answer.insert("tool_call_ids".into(), json!(["a"]));
    let forge = forge_with(&json!({"messages": recorded}).to_string());
    let actual = compact(&forge, &["-o", "out.json", "--max-tokens", "5k", "--json"]);
    let report: Value = serde_json::from_str(&actual.stdout).unwrap();
    let form = |entry: u64| json!({"repair": "form", "entry": entry});
    assert_eq!(report["repaired"], json!([form(1), form(2)]));
    let output = json_of(&forge, "out.json");
    assert_eq!(output["messages"][1]["tool_calls"][0]["function"]["arguments"], "{\"path\":\"x\"}");
    assert_eq!(output["messages"][2]["tool_call_id"], "a");
}

/// `request` as Anthropic's messages, by hand.
fn anthropic(n: usize) -> Value {
    let mut messages =
        vec![json!({"role": "user", "content": [{"type": "text", "text": "Find the night."}]})];
    for at in 0..n {
        let id = format!("toolu_{at}");
        messages.push(json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "tool_use", "id": id, "name": "read", "input": {"path": format!("night{at}.log")}}]}));
        let mut content =
            vec![json!({"type": "tool_result", "tool_use_id": id, "content": "rain at ten. ".repeat(60)})];
        if at % 4 == 3 {
            content.push(json!({"type": "text", "text": format!("go on with {at}"), "cache_control": {"type": "ephemeral"}}));
        }
        messages.push(json!({"role": "user", "content": content}));
    }
    json!({"model": "claude", "max_tokens": 100, "system": [{"type": "text", "text": "Be brief."}], "messages": messages,
        "tools": [{"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}]})
}

/// What Anthropic's rules demand of `messages`.
fn check_anthropic(messages: &[Value]) {
    assert_eq!(messages[0]["role"], "user");
    for pair in messages.windows(2) {
        assert_ne!(pair[0]["role"], pair[1]["role"], "roles alternate");
    }
    for (at, message) in messages.iter().enumerate() {
        let ids = |message: &Value, kind: &str, key: &str| -> Vec<String> {
            let blocks = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
            blocks.iter().filter(|b| b["type"] == kind).map(|b| b[key].as_str().unwrap().to_owned()).collect()
        };
        let calls = ids(message, "tool_use", "id");
        let answers =
            messages.get(at + 1).map(|next| ids(next, "tool_result", "tool_use_id")).unwrap_or_default();
        assert_eq!(calls, answers, "message {at}");
    }
}

#[test]
fn an_anthropic_body_is_compacted_in_its_own_form() {
    let input = anthropic(24);
    let forge = forge_with(&input.to_string());
    for limit in ["4k", "1k", "300"] {
        let arguments = ["-o", "out.json", "--max-tokens", limit, "--strategy", "sliding_window"];
        let actual = compact(&forge, &arguments);
        assert_eq!(actual.code, 0, "{}", actual.stderr);
        let output = json_of(&forge, "out.json");
        for key in ["model", "max_tokens", "system", "tools"] {
            assert_eq!(output[key], input[key]);
        }
        let messages = output["messages"].as_array().unwrap();
        check_anthropic(messages);
        assert!(messages.len() < 49);
        let again = forge.run(&["inspect", "out.json", "--json"]);
        let again: Value = serde_json::from_str(&again.stdout).unwrap();
        assert_eq!((&again["format"], &again["breaches"]), (&json!("anthropic"), &json!([])));
    }
}

#[test]
fn openai_and_anthropic_messages_become_each_other() {
    let forge = forge_with(&anthropic(4).to_string());
    let arguments = ["--to", "openai", "-o", "openai.json", "--max-tokens", "9k"];
    assert_eq!(compact(&forge, &arguments).code, 0);
    let openai = json_of(&forge, "openai.json");
    assert_eq!(
        openai["messages"][0],
        json!({"role": "system", "content": [{"type": "text", "text": "Be brief."}]})
    );
    assert_eq!(openai["tools"][0]["function"]["name"], "read");
    assert_eq!(breaches(&forge, "openai.json"), Vec::<Value>::new());

    let back =
        forge.run(&["compact", "openai.json", "--to", "anthropic", "-o", "back.json", "--max-tokens", "9k"]);
    assert_eq!(back.code, 0, "{}", back.stderr);
    let (back, mut input) = (json_of(&forge, "back.json"), anthropic(4));
    input["messages"][8]["content"][1].as_object_mut().unwrap().remove("cache_control");
    assert_eq!((&back["messages"], &back["tools"]), (&input["messages"], &input["tools"]));
    assert_eq!(back["system"], "Be brief.");
}

#[test]
fn a_system_message_between_others_becomes_a_note_of_anthropics() {
    let user = json!({"role": "user", "content": "hi"});
    let input = json!({"messages": [user, {"role": "system", "content": "Be brief."}, user]});
    let forge = forge_with(&input.to_string());
    let actual =
        compact(&forge, &["--to", "anthropic", "-o", "out.json", "--max-tokens", "1k", "--report", "r.json"]);
    assert_eq!(actual.code, 0, "{}", actual.stderr);
    assert!(
        actual.stderr.contains("`role` of 1 message has no place in the other format"),
        "{}",
        actual.stderr
    );
    assert_eq!(json_of(&forge, "r.json")["left_out"], json!([{"message": "m1", "key": "role"}]));
    let text = |text: &str| json!({"type": "text", "text": text});
    let said = [text("hi"), text("<system-reminder>\nBe brief.\n</system-reminder>"), text("hi")];
    assert_eq!(json_of(&forge, "out.json")["messages"], json!([{"role": "user", "content": said}]));
}

#[test]
fn only_formats_that_any_session_can_be_written_in_are_offered() {
    let forge = forge_with(&json!({"messages": [{"role": "user", "content": "hi"}]}).to_string());
    for to in ["auto", "claude-code", "tau-bench", "codex"] {
        let actual = compact(&forge, &["--to", to, "-o", "out.json"]);
        assert_eq!((actual.code, actual.stdout.as_str()), (2, ""), "{to}");
        assert!(actual.stderr.contains("[possible values: openai, anthropic, atif]"), "{}", actual.stderr);
    }
}

#[test]
fn what_cannot_be_converted_is_refused() {
    for (input, to, words) in [
        (
            json!({"messages": [{"role": "assistant", "content": "hi"}]}),
            "anthropic",
            "starts with the user's",
        ),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]}),
            "anthropic",
            "input_audio",
        ),
        (
            json!({"system": "s", "messages": [{"role": "user", "content": [{"type": "document", "source": {}}]}]}),
            "openai",
            "document",
        ),
    ] {
        let forge = forge_with(&input.to_string());
        let actual = compact(&forge, &["--to", to, "-o", "out.json", "--max-tokens", "1k"]);
        assert_eq!((actual.code, actual.stdout.as_str()), (1, ""), "{to}");
        assert!(actual.stderr.contains(words), "{}", actual.stderr);
        assert!(!forge.path("out.json").exists());
    }
}

#[test]
fn a_trial_is_written_back_into_its_results() {
    let trial = |task: u32, n: usize| json!({"task_id": task, "trial": 0, "reward": 1.0, "info": {"a": [1]}, "traj": request(n)["messages"]});
    let input = json!([trial(1, 2), trial(2, 30)]);
    let forge = forge_with(&input.to_string());
    let several = compact(&forge, &["-o", "out.json", "--max-tokens", "1k"]);
    assert_eq!(several.code, 2);
    assert!(several.stderr.contains("holds 2 sessions"), "{}", several.stderr);
    let actual = compact(&forge, &["-o", "out.json", "--max-tokens", "1k", "--session", "task2.trial0"]);
    assert_eq!(actual.code, 0, "{}", actual.stderr);
    let output = json_of(&forge, "out.json");
    assert_eq!(output[0], input[0]);
    assert!(request_tokens(&json!({"messages": output[1]["traj"]})) <= 1_000);
    for key in ["task_id", "trial", "reward", "info"] {
        assert_eq!(output[1][key], input[1][key]);
    }
}

#[test]
fn a_record_of_a_file_of_lines_stays_on_its_line() {
    let conversation = |n: usize| json!({"messages": request(n)["messages"], "id": n});
    let batch = |n: usize| json!({"custom_id": n.to_string(), "body": request(n)});
    for input in [[conversation(2), conversation(30)], [batch(2), batch(30)]] {
        let lines: Vec<String> = input.iter().map(Value::to_string).collect();
        let forge = forge_with(&format!("{}\n{}\n{}\n", lines[0], lines[1], lines[0]));
        let actual = compact(&forge, &["-o", "out.jsonl", "--max-tokens", "1k", "--session", "1"]);
        assert_eq!(actual.code, 0, "{}", actual.stderr);
        let output = read(&forge, "out.jsonl");
        let written: Vec<&str> = output.lines().collect();
        assert_eq!((written.len(), written[0], written[2]), (3, lines[0].as_str(), lines[0].as_str()));
        let shorter: Value = serde_json::from_str(written[1]).unwrap();
        for key in ["id", "custom_id"] {
            assert_eq!(shorter.get(key), input[1].get(key));
        }
        assert_ne!(shorter, input[1]);
        assert_eq!(forge.run(&["inspect", "out.jsonl", "--session", "1"]).code, 0);
    }
}

#[test]
fn a_file_of_two_formats_is_refused_by_every_command() {
    let conversation =
        r#"{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yes"}]}"#;
    let line = r#"{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s","message":{"role":"user","content":"hello"}}"#;
    let forge = forge_with(&format!("{conversation}\n{line}\n"));
    for arguments in [
        &["inspect", "in.json"][..],
        &["inspect", "in.json", "--session", "0"],
        &["compact", "in.json"],
        &["compact", "in.json", "--session", "0"],
        &["replay", "in.json"],
    ] {
        let actual = forge.run(arguments);
        let told = "in.json mixes two formats: from line 2 on there are Claude Code sessions, before it OpenAI messages in lines";
        assert!(actual.code == 1 && actual.stderr.contains(told), "{arguments:?}: {}", actual.stderr);
    }
}

#[test]
fn a_part_without_a_type_is_written_in_no_other_format() {
    let line = r#"{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s","message":{"role":"user","content":[{"text":"hello"}]}}"#;
    for to in ["anthropic", "openai"] {
        let forge = forge_with(line);
        let actual = compact(&forge, &["--to", to, "-o", "out.json"]);
        assert_eq!((actual.code, forge.path("out.json").exists()), (1, false), "{to}: {}", actual.stderr);
        assert!(actual.stderr.contains("message m0 cannot be written as"), "{to}: {}", actual.stderr);
    }
}

#[test]
fn a_session_of_which_nothing_is_left_is_refused() {
    let line = r#"{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"q","content":"x"}]}}"#;
    let targets: [&[&str]; 3] = [&[], &["--to", "anthropic"], &["--to", "openai"]];
    for to in targets {
        let forge = forge_with(line);
        let actual = compact(&forge, &[to, &["-o", "out.json"]].concat());
        assert_eq!((actual.code, forge.path("out.json").exists()), (1, false), "{to:?}: {}", actual.stderr);
        assert!(actual.stderr.contains("it holds only 1 result without a call"), "{to:?}: {}", actual.stderr);
    }
}

#[test]
fn zeros_at_the_end_of_a_session_are_an_invalid_line() {
    let cut = claude_code(30) + &"\0".repeat(4096);
    let forge = forge_with(&cut);
    let actual = compact(&forge, &["-o", "out.jsonl", "--max-tokens", "2k"]);
    assert_eq!(actual.code, 0, "{}", actual.stderr);
    assert!(actual.stderr.contains("1 line of the file is invalid"), "{}", actual.stderr);
    assert!(!read(&forge, "out.jsonl").contains('\0'));
    // Its agent resumes it after the zeros.
    assert_eq!(compact(&forge, &["--in-place", "--max-tokens", "2k"]).code, 0);
    let inspected = forge.run(&["inspect", "in.json", "--json"]);
    let report: Value = serde_json::from_str(&inspected.stdout).unwrap();
    assert!(report["tokens"].as_u64().unwrap() <= 2_200, "{}", report["tokens"]);
    assert_eq!(report["skipped_lines"], 1);
    assert_eq!(compact(&forge, &["--undo"]).code, 0);
    assert_eq!(read(&forge, "in.json"), cut);
}

#[test]
fn half_a_character_in_a_session_is_an_invalid_line() {
    let half = b"{\"type\":\"user\",\"said\":\"\xe2\x86";
    // Its agent was killed in the middle of a write, and resumed or not.
    for end in [&b""[..], b"\n", b"{\"type\":\"mode\"}\n"] {
        let cut = [claude_code(30).as_bytes(), half, end].concat();
        let forge = Forge::new().with_file("in.json", &cut);
        let actual = compact(&forge, &["--in-place", "--max-tokens", "2k"]);
        assert_eq!(actual.code, 0, "{}", actual.stderr);
        assert!(actual.stderr.contains("1 line of the file is invalid"), "{}", actual.stderr);
        assert!(std::fs::read(forge.path("in.json")).unwrap().starts_with(&cut));
        let inspected = forge.run(&["inspect", "in.json", "--json"]);
        let report: Value = serde_json::from_str(&inspected.stdout).unwrap();
        assert!(report["tokens"].as_u64().unwrap() <= 2_200, "{}", report["tokens"]);
        assert_eq!(report["skipped_lines"], 1);
        assert_eq!(compact(&forge, &["--undo"]).code, 0);
        assert_eq!(std::fs::read(forge.path("in.json")).unwrap(), cut);
    }
}

#[test]
fn what_is_appended_fits_and_is_counted() {
    let tokens = |forge: &Forge| {
        let inspected = forge.run(&["inspect", "in.json", "--json"]);
        serde_json::from_str::<Value>(&inspected.stdout).unwrap()["tokens"].as_u64().unwrap()
    };
    for share in [95, 90, 80, 60] {
        let forge = forge_with(&claude_code(30));
        let most = tokens(&forge) * share / 100;
        let actual = compact(&forge, &["--in-place", "--json", "--max-tokens", &most.to_string()]);
        let report: Value = serde_json::from_str(&actual.stdout).unwrap();
        let after = tokens(&forge);
        assert!(after <= most, "{after} of {most}");
        assert_eq!(report["tokens_after"], after);
        let again = compact(&forge, &["--in-place", "--max-tokens", &most.to_string()]);
        assert!(again.stderr.contains("fits"), "{}", again.stderr);
    }
}

#[test]
fn a_format_that_is_only_appended_to_is_not_written_as_itself() {
    let rollout = format!(
        "{}\n{}\n",
        json!({"timestamp": "2026-01-02T00:00:00.000Z", "type": "session_meta", "payload": {"id": "a", "cwd": "/w"}}),
        json!({"timestamp": "2026-01-02T00:00:00.000Z", "type": "response_item", "payload": {"type": "message",
            "role": "user", "content": [{"type": "input_text", "text": "rain at ten. ".repeat(3000)}]}}),
    );
    let forge = forge_with(&rollout);
    let refused = compact(&forge, &["-o", "out.jsonl", "--max-tokens", "2k"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("cannot be written, only appended to: add --in-place"),
        "{}",
        refused.stderr
    );
    let planned = compact(&forge, &["--dry-run", "--proposal", "plan.json", "--max-tokens", "2k"]);
    assert_eq!((planned.code, planned.stdout.as_str()), (0, ""), "{}", planned.stderr);
    assert!(planned.stderr.contains("compacted by"), "{}", planned.stderr);
    assert_eq!(read(&forge, "in.json"), rollout);
    let applied = compact(&forge, &["--apply", "plan.json", "--in-place"]);
    assert_eq!(applied.code, 0, "{}", applied.stderr);
    assert!(read(&forge, "in.json").starts_with(&rollout));
}

/// A session of Claude Code with `n` exchanges, each reply in two pieces.
fn claude_code(n: usize) -> String {
    let mut lines = vec![json!({"type": "file-history-snapshot", "messageId": "0", "snapshot": {}})];
    let mut last = Value::Null;
    let mut push = |kind: &str, message: Value| {
        let uuid = lines.len().to_string();
        lines.push(
            json!({"parentUuid": last, "isSidechain": false, "cwd": "/w", "sessionId": "s", "version": "2",
            "type": kind, "message": message, "uuid": uuid, "timestamp": "2026-01-02T03:04:05.678Z"}),
        );
        last = json!(uuid);
    };
    push("user", json!({"role": "user", "content": "Find the night."}));
    for at in 0..n {
        let piece =
            |block: Value| json!({"role": "assistant", "id": format!("msg_{at}"), "content": [block]});
        push("assistant", piece(json!({"type": "text", "text": format!("I read night {at}.")})));
        let input = json!({"file_path": format!("night{at}.log")});
        push(
            "assistant",
            piece(json!({"type": "tool_use", "id": format!("t{at}"), "name": "Read", "input": input})),
        );
        let result = json!({"type": "tool_result", "tool_use_id": format!("t{at}"), "content": "rain at ten. ".repeat(60)});
        push("user", json!({"role": "user", "content": [result]}));
    }
    push("user", json!({"role": "user", "content": "And now sum up."}));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_claude_code_session_stays_one_chain_of_lines() {
    let input = claude_code(30);
    let forge = forge_with(&input);
    for limit in ["4k", "1k", "300"] {
        let arguments = ["-o", "out.jsonl", "--max-tokens", limit, "--json", "--strategy", "sliding_window"];
        let actual = compact(&forge, &arguments);
        assert_eq!(actual.code, 0, "{}", actual.stderr);
        let output = read(&forge, "out.jsonl");
        let mut uuids: Vec<Value> = vec![Value::Null];
        for line in output.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            if line["type"] == "file-history-snapshot" {
                continue;
            }
            assert_eq!(line["parentUuid"], *uuids.last().unwrap(), "{line}");
            assert!(!uuids.contains(&line["uuid"]) && line["sessionId"] == "s", "{line}");
            uuids.push(line["uuid"].clone());
        }
        let messages = |text: &str| -> Vec<String> {
            text.lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap()["message"].to_string())
                .collect()
        };
        let (before, after) = (messages(&input), messages(&output));
        let n_same = after.iter().filter(|message| before.contains(message)).count();
        assert!(n_same + 2 >= after.len(), "almost all lines are as they were");
        let report: Value = serde_json::from_str(&actual.stdout).unwrap();
        let again = forge.run(&["inspect", "out.jsonl", "--json"]);
        let again: Value = serde_json::from_str(&again.stdout).unwrap();
        assert_eq!(
            (&again["tokens"], &again["messages"], &again["breaches"]),
            (&report["tokens_after"], &report["messages_after"], &json!([]))
        );
    }
}

#[test]
fn only_what_follows_the_last_compaction_of_a_claude_code_session_counts() {
    let mut lines: Vec<Value> =
        claude_code(30).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let boundary = json!({"type": "system", "subtype": "compact_boundary", "uuid": "b", "parentUuid": null,
        "logicalParentUuid": "92", "sessionId": "s", "compactMetadata": {"trigger": "auto", "preTokens": 9999}});
    let said = |uuid: &str, parent: &str, text: &str| {
        json!({"type": "user", "uuid": uuid, "parentUuid": parent, "sessionId": "s",
            "message": {"role": "user", "content": text}})
    };
    let mut summary = said("sum", "b", "So far: rain.");
    summary["isCompactSummary"] = json!(true);
    lines.extend([boundary, summary, said("next", "sum", "go on")]);
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let forge = forge_with(&text);
    let report = forge.run(&["inspect", "in.json", "--json"]);
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    assert_eq!((&report["messages"], &report["turns"]), (&json!(2), &json!(1)));
    assert_eq!(report["compactions"][0]["pre_tokens"], 9999);
    assert_eq!(compact(&forge, &["--max-tokens", "100"]).stdout, text);
}

#[test]
fn an_agents_block_says_how_far_where_no_limit_is_given() {
    let yaml = "agents: [{ id: a, compact: { message_threshold: 20, max_messages: 10 } }, { id: b, compact: { token_threshold: 90%, max_tokens: 1k } }]";
    let forge = forge_with(&request(30).to_string()).with_file("forge.yaml", yaml.replace("1k", "1000"));
    for (agent, trigger) in [("a", "messages"), ("b", "tokens")] {
        let actual = compact(&forge, &["-o", "out.json", "--agent", agent, "--json"]);
        assert_eq!(actual.code, 0, "{}", actual.stderr);
        let report: Value = serde_json::from_str(&actual.stdout).unwrap();
        assert_eq!(report["trigger"].as_str().unwrap_or("null"), trigger);
    }
}

#[test]
fn no_model_is_asked_unless_an_agent_names_one() {
    let yaml = "agents: [{ id: a, compact: { model: 'openai:gpt-4o', strategies: [summarization] } }]";
    let forge = forge_with(&request(30).to_string()).with_file("forge.yaml", yaml);
    let attempts = |arguments: &[&str]| {
        let actual =
            compact(&forge, &[&["-o", "out.json", "--max-tokens", "1k", "--json"], arguments].concat());
        assert_eq!(actual.code, 0, "{}", actual.stderr);
        serde_json::from_str::<Value>(&actual.stdout).unwrap()["attempts"].clone()
    };
    assert!(attempts(&[]).as_array().unwrap().iter().all(|attempt| attempt["strategy"] != "summarization"));
    let asked = attempts(&["--agent", "a"]);
    assert!(asked[0]["verdict"]["failed"]["reason"].as_str().unwrap().contains("OPENAI_API_KEY"), "{asked}");
}

#[test]
fn bad_input_is_told() {
    for (input, arguments, code, words) in [
        ("{}", &["--from", "openai"][..], 1, "missing field `messages`"),
        ("", &[], 1, "is empty"),
        ("{\"messages\": [{\"role\": \"user\"", &[], 1, "is cut off"),
        ("{\"messages\": [5]}", &[], 1, "entry 0 of `messages` is not a message"),
        ("[]", &[], 1, "has an unknown format"),
        ("{\"messages\": []}", &["--max-tokens", "0"], 2, "expected a number of tokens"),
        ("{\"messages\": []}", &["--strategy", "magic"], 2, "magic"),
        ("{\"messages\": []}", &["--json"], 2, "--output"),
        ("{\"messages\": []}", &["--proposal", "p.json"], 2, "--dry-run"),
        ("{\"messages\": []}", &["--apply", "p.json", "--max-tokens", "5"], 2, "--max-tokens"),
        ("{\"messages\": []}", &["--session", "7"], 2, "no session is named `7`"),
        ("{\"messages\": []}", &["--agent", "nobody"], 2, "there is no agent `nobody`"),
        ("{\"messages\": []}", &["--config", "forge.yaml"], 2, "--agent"),
        ("{\"messages\": []}", &["--apply", "in.json"], 2, "is not a proposal"),
        (
            "{\"messages\": []}",
            &["-o", "same", "--report", "./same"],
            2,
            "--output and --report are the same",
        ),
    ] {
        let forge = forge_with(input);
        let actual = compact(&forge, arguments);
        assert_eq!(actual.code, code, "{arguments:?}: {}", actual.stderr);
        assert!(actual.stderr.contains(words), "{arguments:?}: {}", actual.stderr);
    }
    let missing = Forge::new().run(&["compact", "missing.json"]);
    assert_eq!(missing.code, 2);
    assert!(missing.stderr.contains("cannot read the session missing.json"), "{}", missing.stderr);
}

#[test]
fn a_focus_changes_what_a_record_holds() {
    let mut input = request(40);
    let messages = input["messages"].as_array_mut().unwrap();
    for at in (3..60).step_by(6) {
        let text = format!(
            "night {at}: {} the harbour lamp was out for {at} minutes",
            "clouds at nine, rain at ten. ".repeat(20)
        );
        messages[at]["content"] = json!(text);
    }
    let forge = forge_with(&input.to_string());
    let n_lamps = |arguments: &[&str]| {
        let all = [&["--max-tokens", "1200", "--strategy", "extraction"], arguments].concat();
        let written = compact(&forge, &all);
        assert_eq!(written.code, 0, "{}", written.stderr);
        written.stdout.matches("harbour lamp").count()
    };
    let (without, with) = (n_lamps(&[]), n_lamps(&["--focus", "harbour"]));
    assert!(with > without, "{without} without, {with} with");
    for (arguments, expected) in [
        (&["--focus", "x", "--strategy", "sliding_window"][..], "--focus has no effect here"),
        (&["--focus", " ", "--strategy", "extraction"], "--focus: a focus must not be empty"),
    ] {
        let refused = compact(&forge, arguments);
        assert_eq!((refused.code, refused.stderr.contains(expected)), (2, true), "{}", refused.stderr);
    }
}

#[test]
fn summaries_that_nobody_can_write_are_refused() {
    let yaml = "agents: [{ id: a, compact: { strategies: [summarization] } }, { id: b, compact: { model: 'openai:m' } }]";
    let forge = forge_with(&request(30).to_string()).with_file("forge.yaml", yaml);
    for (arguments, words) in [
        (&["--strategy", "summarization"][..], "name with --agent ID an agent"),
        (&["--strategy", "extraction", "--strategy", "{summarization: {}}"], "--strategy summarization"),
        (&["--agent", "a"], "for agent `a`"),
        (&["--agent", "a", "--strategy", "summarization"], "for agent `a`"),
    ] {
        let actual = compact(&forge, &[&["-o", "out.json", "--max-tokens", "1k"], arguments].concat());
        assert_eq!((actual.code, actual.stdout.as_str()), (2, ""), "{arguments:?}: {}", actual.stderr);
        for words in [words, "nothing is summarized without a model"] {
            assert!(actual.stderr.contains(words), "{arguments:?}: {}", actual.stderr);
        }
        assert!(!forge.path("out.json").exists());
    }
    // With a model that gives none, what was done instead and why is said.
    let arguments = ["-o", "out.json", "--max-tokens", "1k", "--agent", "b", "--strategy", "summarization"];
    let actual = compact(&forge, &arguments);
    assert_eq!(actual.code, 0, "{}", actual.stderr);
    assert!(actual.stderr.contains("summarization failed: "), "{}", actual.stderr);
}

#[test]
fn lines_that_are_no_record_are_said() {
    let text = claude_code(30) + "not json\n";
    let forge = forge_with(&text);
    let cut = compact(&forge, &["--max-tokens", "1k", "--report", "report.json"]);
    assert_eq!(cut.code, 0, "{}", cut.stderr);
    assert!(cut.stderr.contains("1 line of the file is invalid"), "{}", cut.stderr);
    assert_eq!(json_of(&forge, "report.json")["skipped_lines"], 1);
    let whole = compact(&forge, &["--max-tokens", "90k"]);
    assert!(whole.stderr.contains("1 line of the file is invalid"), "{}", whole.stderr);
    assert_eq!(whole.stdout, text);
}

#[test]
fn an_agent_that_never_compacts_is_named_in_the_refusal() {
    let yaml = "agents: [{ id: still, compact: { auto_compact: false } }]";
    let forge = forge_with(&request(30).to_string()).with_file("forge.yaml", yaml);
    let refused = compact(&forge, &["--agent", "still", "--max-tokens", "1k", "-o", "out.json"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    for words in ["`auto_compact: false` of agent `still`", "omit --agent", "only 1000 are available"] {
        assert!(refused.stderr.contains(words), "`{words}` is not in:\n{}", refused.stderr);
    }
    assert_eq!(compact(&forge, &["--agent", "still", "--max-tokens", "90k", "-o", "out.json"]).code, 0);
}

#[test]
fn a_dry_run_with_an_output_is_refused() {
    let forge = forge_with(&request(30).to_string());
    for more in [&[][..], &["--json"], &["--proposal", "p.json"]] {
        let refused =
            compact(&forge, &[&["--dry-run", "-o", "out.json", "--max-tokens", "1k"], more].concat());
        assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{}", refused.stderr);
        assert!(refused.stderr.contains("--dry-run writes no result"), "{}", refused.stderr);
        assert!(!forge.path("out.json").exists() && !forge.path("p.json").exists());
    }
}

#[test]
fn what_the_other_format_has_no_place_for_is_said() {
    let mut exchange = [call("call:1", "a"), result("call:1", "out")];
    exchange[0]["reasoning_content"] = json!("I should read it.");
    let user = json!({"role": "user", "content": "hi"});
    let input = json!({"messages": [user, exchange[0], exchange[1]]});
    let forge = forge_with(&input.to_string());
    let actual =
        compact(&forge, &["--to", "anthropic", "-o", "out.json", "--max-tokens", "9k", "--report", "r.json"]);
    assert_eq!(actual.code, 0, "{}", actual.stderr);
    assert!(actual.stderr.contains("`reasoning_content` of 1 message has no place"), "{}", actual.stderr);
    assert_eq!(json_of(&forge, "r.json")["left_out"], json!([{"message": "m1", "key": "reasoning_content"}]));
    // Ids that the other protocol would refuse are written in its letters, on both sides alike.
    let messages = json_of(&forge, "out.json")["messages"].clone();
    assert_eq!(messages[1]["content"][0]["id"], "call_1");
    assert_eq!(messages[2]["content"][0]["tool_use_id"], "call_1");
    // Nothing is left out where nothing is converted.
    compact(&forge, &["-o", "same.json", "--max-tokens", "9k", "--report", "r.json"]);
    assert_eq!(json_of(&forge, "r.json")["left_out"], json!([]));

    let mut body = anthropic(2);
    body["messages"][2]["content"][0]["is_error"] = json!(true);
    let forge = forge_with(&body.to_string());
    let actual = compact(&forge, &["--to", "openai", "-o", "out.json", "--max-tokens", "9k"]);
    assert!(actual.stderr.contains("`is_error` of 1 message has no place"), "{}", actual.stderr);
}

#[test]
fn what_was_compacted_is_compacted_again_without_nesting() {
    let rest = |n: usize| -> Vec<Value> {
        (0..n)
            .flat_map(|at| {
                [
                    call("call_x", &format!("later{at}.log")),
                    result("call_x", &format!("later {at}: {}", "fog at six. ".repeat(30))),
                ]
            })
            .collect()
    };
    for to in ["openai", "anthropic"] {
        let forge = forge_with(&request(60).to_string());
        let extract = ["--strategy", "extraction", "--max-tokens", "3000", "-o", "once.json"];
        let first = compact(&forge, &[&["--to", to][..], &extract].concat());
        assert_eq!(first.code, 0, "{}", first.stderr);
        assert!(read(&forge, "once.json").contains("<record>"), "{to}");
        let inspected = forge.run(&["inspect", "once.json", "--json"]);
        let report: Value = serde_json::from_str(&inspected.stdout).unwrap();
        assert_eq!(report["turns"], 2, "{to}: a record is no turn");

        // As an agent would go on with it.
        let mut grown = json_of(&forge, "once.json");
        if to == "openai" {
            grown["messages"].as_array_mut().unwrap().extend(rest(20));
        }
        let forge = forge_with(&grown.to_string());
        let again = compact(&forge, &["--max-tokens", "1500", "-o", "twice.json"]);
        assert_eq!(again.code, 0, "{}", again.stderr);
        let written = read(&forge, "twice.json");
        assert_eq!(written.matches("<record>").count(), 1, "{to}: {written}");
        assert!(written.contains("Find the night the dome closed."), "{to}: {written}");
        assert_eq!(breaches(&forge, "twice.json"), Vec::<Value>::new());
        let third = forge.run(&["compact", "twice.json", "--max-tokens", "1500", "-o", "thrice.json"]);
        assert_eq!(third.code, 0, "{}", third.stderr);
        assert_eq!(read(&forge, "thrice.json"), written, "{to}: what fits stays as it is");
    }
}
