use pretty_assertions::assert_eq;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::*;
use crate::{Content, TokenCounter, Tokens, ToolCall, ToolName, ToolResult};

fn call(id: char) -> ToolCall {
    ToolCall { id: id.to_string(), name: ToolName::new("t").unwrap(), arguments: "{}".into() }
}

/// Builds messages of a word each: `s`, `u`, `a`; `t` with the ids of its calls, `r` with that of its call;
/// `e` an empty user message, `n` an assistant message without text or calls; `k` is `t` with whole
/// reasoning, `K` with reasoning that lost its signature.
fn messages(text: &str) -> Vec<Message> {
    let reasoned = |ids: &str, block: serde_json::Value| {
        let mut message = Message::calling(ids.chars().map(call).collect());
        message.extra.insert(crate::THINKING_BLOCKS.into(), json!([block]));
        message
    };
    let message = |word: &str| match word.split_at(1) {
        ("s", _) => Message::system("rules"),
        ("u", _) => Message::user("hi"),
        ("e", _) => Message::user(" \n"),
        ("a", _) => Message::assistant("yes"),
        ("n", _) => Message::calling(Vec::new()),
        ("t", ids) => Message::calling(ids.chars().map(call).collect()),
        ("k", ids) => reasoned(ids, json!({"type": "thinking", "thinking": "hm", "signature": "s"})),
        ("K", ids) => reasoned(ids, json!({"type": "thinking", "thinking": "hm"})),
        ("r", id) => Message::tool(ToolResult::answer(&call(id.chars().next().unwrap()), "out")),
        (other, _) => panic!("`{other}` stands for no message"),
    };
    text.split_whitespace().map(message).collect()
}

/// Shows breaches in short: the position, then `-` a call without a result, `+` a result without a call, `<`
/// out of order, `>` behind text, `=` an id used again, each with the id; `^` no user opens, `0` empty, `~`
/// torn reasoning.
fn short(breaches: &[Breach]) -> String {
    let word = |Breach { position, rule, .. }: &Breach| match rule {
        Rule::CallUnanswered { call_id } => format!("{position}-{call_id}"),
        Rule::ResultWithoutCall { call_id } => format!("{position}+{call_id}"),
        Rule::ResultOutOfOrder { call_id } => format!("{position}<{call_id}"),
        Rule::ResultBehindText { call_id } => format!("{position}>{call_id}"),
        Rule::CallIdReused { call_id } => format!("{position}={call_id}"),
        Rule::UserDoesNotOpen => format!("{position}^"),
        Rule::Empty => format!("{position}0"),
        Rule::ReasoningTorn => format!("{position}~"),
        Rule::ReasoningStale => format!("{position}%"),
    };
    breaches.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn each_protocol_has_its_rules() {
    for (text, openai, anthropic, gemini) in [
        // What all take.
        ("s u a u", "", "", ""),
        ("u tx rx a u", "", "", ""),
        ("u txy rx ry", "", "", ""),
        ("u u a a u", "", "", ""),
        ("u kx rx a", "", "", ""),
        ("u tx rx ty ry u", "", "", ""),
        // Parallel calls, answered in another order, in part, or twice.
        ("u txy ry rx", "", "", "3<x"),
        ("u txy rx", "1-y", "1-y", "1-y"),
        ("u tx rx rx", "3+x", "3+x", "3+x"),
        ("u txyz ry rz rx", "", "", "4<x"),
        // An id twice in one message, and again in another.
        ("u txx rx rx", "", "1=x", ""),
        ("u tx rx tx rx", "", "3=x", ""),
        // Results far away, after text, or without a call.
        ("u tx u rx", "1-x 3+x", "3>x", "3>x"),
        ("u tx a rx", "1-x 3+x", "", ""),
        ("u tx a u rx", "1-x 4+x", "4>x", "4>x"),
        ("u tx s rx", "1-x 3+x", "", ""),
        ("u tx ty rx ry", "1-x 3+x", "", ""),
        ("u tx rx u a rx", "5+x", "5+x", "5+x"),
        ("u rx a", "1+x", "1+x", "1+x"),
        ("rx u", "0+x", "0+x", "0+x"),
        // Calls without results, at the end and in the middle.
        ("u tx", "1-x", "1-x", "1-x"),
        ("u tx u a", "1-x", "1-x", "1-x"),
        ("u tx u tx rx", "1-x", "1-x 3=x", "1-x"),
        // Who opens.
        ("", "", "0^", "0^"),
        ("s", "", "1^", "1^"),
        ("s a u", "", "1^", "1^"),
        ("tx rx u", "", "0^", "0^"),
        // Empty messages.
        ("u n u", "10", "10", "10"),
        ("e a", "", "00", "00"),
        // Reasoning without its signature.
        ("u Kx rx", "", "1~", ""),
    ] {
        let messages = messages(text);
        let actual = (
            short(&openai_breaches(&messages)),
            short(&anthropic_breaches(&messages)),
            short(&gemini_breaches(&messages)),
        );
        assert_eq!(actual, (openai.to_owned(), anthropic.to_owned(), gemini.to_owned()), "{text}");
    }
}

/// Returns what a scan finds that gets `messages` one by one.
fn scanned(messages: &[Message]) -> Vec<Breach> {
    let mut scan = BreachScan::default();
    messages.iter().for_each(|message| scan.push(message.clone()));
    scan.finish()
}

proptest! {
    #[test]
    fn a_scan_finds_what_is_found_at_once(
        words in vec(select(vec![
            "s", "u", "a", "e", "n", "tx", "ty", "txy", "tyx", "txx", "rx", "ry", "rz", "kx", "Kx",
        ]), 0..24)
    ) {
        let messages = messages(&words.join(" "));
        prop_assert_eq!(scanned(&messages), breaches(&messages), "{}", words.join(" "));
    }
}

#[test]
fn a_scan_holds_one_exchange_at_a_time() {
    let mut scan = BreachScan::default();
    scan.push(Message::user("hi"));
    for _ in 0..1_000 {
        messages("txy rx ry u").into_iter().for_each(|message| scan.push(message));
        assert!(scan.held() <= 5);
    }
    assert_eq!(scan.finish().len(), 999 * 2, "each id is used again");
}

#[test]
fn strict_templates_are_opened_by_the_user() {
    for (text, expected) in
        [("s u a", ""), ("u", ""), ("s s u", ""), ("", "0^"), ("s", "1^"), ("s a u", "1^"), ("rx u", "0^")]
    {
        assert_eq!(short(&strict_breaches(&messages(text))), expected, "{text}");
    }
}

#[test]
fn only_what_a_compaction_adds_counts() {
    struct Free;
    impl TokenCounter for Free {
        fn count(&self, _: &str) -> Tokens {
            Tokens::ZERO
        }
    }
    let counted = |messages: Vec<Message>| -> Vec<ContextMessage> {
        messages.into_iter().map(|message| ContextMessage::count(message, &Free)).collect()
    };
    for (before, after, expected) in [
        ("u tx rx u", "u tx rx u", ""),
        ("u tx rx u", "u u", ""),
        ("u tx rx u", "u tx u", "1-x"),
        ("u tx rx u", "u rx u", "1+x"),
        // Earlier faults stay forgiven, wherever they are now; a second one is not.
        ("u a tx u", "u tx u", ""),
        ("u a tx u", "u tx ty u", "2-y"),
        ("u a tx u ty ry", "u tx u ty", "3-y"),
        ("u tx u tx rx", "u tx u tx", "3-x"),
        ("a u", "a u", ""),
        ("u a u", "a u", "0^"),
        // Results open a turn of the user's, but no strict template accepts them at the start.
        ("u rx u", "rx u", "0^"),
        ("rx u", "rx u", ""),
        ("u txy ry rx", "u txy ry rx", ""),
        ("u txy rx ry", "u txy ry rx", "3<x"),
        // A neighbour hid what an exchange broke by itself.
        ("u txy tyx rx ry", "u tyx rx ry", ""),
        ("u txy txy rx ry", "u txy ry rx", "3<x"),
        ("u kx rx", "u kx rx", ""),
        ("u kx rx", "u tx rx", "1~"),
        ("u Kx rx", "u Kx rx", ""),
        ("u kx rx kx rx", "u kx rx", ""),
    ] {
        let actual = added_breach(&counted(messages(before)), &counted(messages(after)));
        assert_eq!(short(actual.as_slice()), expected, "{before} → {after}");
    }
}

#[test]
fn what_several_forbid_is_one_line() {
    let actual = breaches_in_words(&breaches(&messages("u txy ry u")));
    let expected = ["message 1: call x has no result after it (OpenAI, Anthropic, Gemini)"];
    assert_eq!(actual, expected);
    let actual = breaches(&messages("u tx rx tx rx")).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(actual, ["message 3: an earlier call also has the id x (Anthropic)"]);
}

#[test]
fn parts_count_as_something_said() {
    let picture = Content::Parts(vec![crate::Part::Media(json!({"type": "image_url"}))]);
    for (content, expected) in [(picture, 0), (Content::Parts(Vec::new()), 1), ("x".into(), 0)] {
        assert_eq!(anthropic_breaches(&[Message::user(content.clone())]).len(), expected, "{content:?}");
    }
}
