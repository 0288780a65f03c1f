use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::compaction::fixture::{Characters, Script, apply, fit, fit_again, settings};
use crate::{Conversation, Image, Message};

const CLEAR: &str = "strategies: [clear_tool_results]";
const HALF: &str = "{ strategies: [clear_tool_results], max_tokens: 50% }";

#[test]
fn the_oldest_results_go_until_the_target_holds() {
    for (room, before, expected) in [
        // Nothing is over its trigger.
        (20_000, "sutRtRtRtRtRtR", "sutRtRtRtRtRtR"),
        // Over 80 % of the room; half of it is the target. The newest three results and the window stay.
        (8_000, "sutRtRtRtRtRtR", "sutR~tR~tR~tRtRtR"),
        (8_000, "sutRRtRtRtRtRa", "sutR~R~tR~tRtRtRa"),
        // User text and the agent's actions stay unchanged.
        (5_000, "sutRutRautRtrtrtr", "sutR~utR~autRtrtrtr"),
    ] {
        let (actual, report) = fit(CLEAR, room, before, &Script::new(Vec::new()));
        assert_eq!(actual, expected, "{before} in {room}: {report:?}");
    }
}

/// Builds a session of calls, each a tool, its arguments and its result.
fn session(calls: &[(&str, Value, String)]) -> Conversation {
    let mut log = Conversation::new();
    log.user("Do it.");
    for (name, arguments, result) in calls {
        log.call(name, arguments, result.as_str());
    }
    log.agent("Done.");
    log
}

/// Returns prose of about a thousand characters whose words no other number shares.
fn prose(number: usize) -> String {
    (0..110)
        .map(|word| format!("{}{} ", ["alpha", "beta", "gamma"][word % 3], number * 1_000 + word))
        .collect()
}

fn run(command: &str) -> Value {
    json!({"command": command})
}

fn path(path: &str) -> Value {
    json!({"file_path": path})
}

#[test]
fn what_a_later_result_supersedes_goes_first_then_the_largest_and_oldest() {
    use Superseded::{Again, File, Repeated};
    let log = session(&[
        ("Bash", run("ls"), prose(0)),
        ("Read", path("read again"), prose(1)),
        ("Read", path("changed"), prose(2)),
        ("Read", json!({"file_path": "in parts", "offset": 1}), prose(3)),
        ("Bash", run("cargo test"), prose(4)),
        ("Bash", run("cargo test -q"), prose(5)),
        ("Read", json!({"file_path": "in parts", "offset": 9}), prose(6)),
        ("Bash", run("cargo test"), prose(7)),
        ("Bash", run("cargo test -q -q"), prose(5) + "and a word more"),
        ("Read", path("./read again"), prose(8)),
        ("Edit", path("changed"), "ok".to_owned()),
    ]);
    let options = ClearToolResults { keep: Some(0), ..ClearToolResults::default() };
    let rules = settings("{ retention_window: 0 }", 100_000).rules;
    let view = log.view();
    let actual = options.order(&rules, &view);
    let old = |position: usize| (Reason::Old, position);
    let expected = vec![
        (Reason::Superseded(File), 4),
        (Reason::Superseded(File), 6),
        (Reason::Superseded(Repeated), 10),
        (Reason::Superseded(Again), 12),
        // It is larger than the one before it.
        old(8),
        old(2),
        old(14),
        old(16),
        old(18),
        old(20),
        old(22),
    ];
    assert_eq!(actual, expected);
}

#[test]
fn a_call_that_failed_supersedes_nothing() {
    let mut log = session(&[("Bash", run("make"), prose(0))]);
    log.failed_call("Bash", run("make"), "no");
    let messages = log.view();
    assert_eq!(superseded_results(&messages), vec![None; 6]);
}

/// Returns the messages of eleven results after `options` cleared what a target of a tenth demands.
fn clear(options: &ClearToolResults, yaml: &str) -> (Vec<usize>, Conversation) {
    let calls: Vec<_> = (0..11)
        .map(|n| ("Write", json!({"path": format!("f{n}"), "text": prose(n)}), prose(n + 20)))
        .collect();
    let mut log = session(&calls);
    apply(options, yaml, &mut log, &Script::new(Vec::new())).unwrap();
    let view = log.view();
    let stubs = view.messages().iter().enumerate();
    let stubs = stubs.filter(|(_, message)| is_stub(&message.message().to_text())).map(|(at, _)| at / 2);
    (stubs.collect(), log)
}

#[test]
fn every_option_has_its_effect() {
    let defaults = ClearToolResults::default;
    let all_but = |kept: usize| (1..=11 - kept).collect::<Vec<_>>();
    let write = ToolName::new("Write").unwrap();
    for (what, options, yaml, expected) in [
        ("defaults", defaults(), "{ max_tokens: 1000 }", all_but(3)),
        ("keep none", ClearToolResults { keep: Some(0), ..defaults() }, "{ max_tokens: 1000 }", all_but(3)),
        (
            "keep none, not even by age",
            ClearToolResults { keep: Some(0), ..defaults() },
            "{ max_tokens: 1000, retention_window: 0 }",
            all_but(0),
        ),
        ("keep five", ClearToolResults { keep: Some(5), ..defaults() }, "{ max_tokens: 1000 }", all_but(5)),
        ("what the target demands", defaults(), "{ max_tokens: 24000 }", vec![1]),
        (
            "a larger batch",
            ClearToolResults { clear_at_least: Some(Tokens::new(2_500)), ..defaults() },
            "{ max_tokens: 24000 }",
            vec![1, 2, 3],
        ),
        (
            "no batch so large",
            ClearToolResults { clear_at_least: Some(Tokens::new(90_000)), ..defaults() },
            "{ max_tokens: 1000 }",
            Vec::new(),
        ),
        (
            "only what is superseded",
            ClearToolResults { only_superseded: Some(true), ..ClearToolResults::default() },
            "{ max_tokens: 1000 }",
            Vec::new(),
        ),
        (
            "not of this tool",
            ClearToolResults { exclude_tools: vec![write], ..defaults() },
            "{ max_tokens: 1000 }",
            Vec::new(),
        ),
    ] {
        assert_eq!(clear(&options, yaml).0, expected, "{what}");
    }
}

#[test]
fn a_result_that_quotes_the_user_stays() {
    let mut log = Conversation::new();
    for message in session(&[("Bash", run("a"), prose(1)), ("Bash", run("b"), prose(2))]).view().plain() {
        let quotes = message.role() == Role::Tool && message.text().contains(&prose(1));
        let message = if quotes { crate::quoting_user(message.clone(), "alpha") } else { message.clone() };
        log.add(message);
    }
    let options = ClearToolResults { keep: Some(0), ..ClearToolResults::default() };
    apply(&options, "{ max_tokens: 1000, retention_window: 0 }", &mut log, &Script::new(Vec::new())).unwrap();
    let view = log.view();
    let results = view.plain().filter(|message| message.role() == Role::Tool);
    let stubs: Vec<bool> = results.map(|result| is_stub(&result.to_text())).collect();
    assert_eq!(stubs, [false, true]);
}

#[test]
fn arguments_go_with_their_result_where_that_is_wanted() {
    let long = |log: &Conversation| {
        let view = log.view();
        let calls = view.messages().iter().flat_map(|message| message.message().calls().to_vec());
        let texts = calls.map(|call| serde_json::from_str::<Value>(&call.arguments).unwrap()["text"].clone());
        texts.filter(|text| text.as_str().unwrap().len() > 100).count()
    };
    let (_, log) = clear(&ClearToolResults::default(), "{ max_tokens: 1000 }");
    assert_eq!(long(&log), 11);
    let options = ClearToolResults { clear_tool_inputs: Some(true), ..ClearToolResults::default() };
    let (stubs, log) = clear(&options, "{ max_tokens: 1000 }");
    assert_eq!((stubs.len(), long(&log)), (8, 3));
    let paths: Vec<String> = log
        .view()
        .messages()
        .iter()
        .flat_map(|message| {
            let calls = message.message().calls().iter();
            calls
                .map(|call| serde_json::from_str::<Value>(&call.arguments).unwrap()["path"].to_string())
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(paths.len(), 11, "every call still says its path");
}

#[test]
fn a_stub_keeps_what_the_provider_needs_and_is_never_cleared_again() {
    let mut log = session(&(0..9).map(|n| ("Read", path(&format!("f{n}")), prose(n))).collect::<Vec<_>>());
    let before: Vec<_> = log.view().plain().cloned().collect();
    fit_again(HALF, 10_000, &mut log, &Script::new(Vec::new()));
    let once: Vec<_> = log.view().plain().cloned().collect();
    let shorter = before.iter().zip(&once).filter(|(was, is)| was != is);
    for (was, is) in shorter.clone() {
        assert_eq!(was, &is.with_content(was.content().unwrap().clone()), "only the text changed");
    }
    assert_eq!(shorter.count(), 5);
    // More messages arrive, and the next compaction leaves the stubs unchanged.
    for message in
        session(&(0..6).map(|n| ("Read", path(&format!("g{n}")), prose(n + 30))).collect::<Vec<_>>())
            .messages()
    {
        log.append(message.clone());
    }
    fit_again(HALF, 10_000, &mut log, &Script::new(Vec::new()));
    let twice: Vec<_> = log.view().plain().cloned().collect();
    let stubs = |messages: &[Message]| {
        let texts = messages.iter().map(Message::to_text);
        texts.filter(|text| is_stub(text)).collect::<Vec<_>>()
    };
    assert!(stubs(&twice).len() > stubs(&once).len());
    assert_eq!(stubs(&twice)[..stubs(&once).len()], stubs(&once));
}

#[test]
fn old_images_of_the_user_leave_and_their_words_stay() {
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x04\0\0\0\x04\0".to_vec();
    png.resize(200, 0);
    let image = Image::read("shot.png", &png).unwrap();
    let mut log = Conversation::new();
    for turn in 0..6 {
        let asked = format!("What is in picture {turn}?");
        log.add(Message::showing(asked, std::slice::from_ref(&image)))
            .agent(format!("A cat, number {turn}."));
    }
    let yaml = "{ max_tokens: 5000, retention_window: 2 }";
    apply(&ClearToolResults::default(), yaml, &mut log, &Script::new(Vec::new())).unwrap();
    let view = log.view();
    let shown: Vec<(bool, String)> = view
        .messages()
        .iter()
        .filter(|message| message.role() == Role::User)
        .map(|message| (message.message().has_images(), message.message().to_text()))
        .collect();
    // The first and the latest message stay as they are, and so do the newest three.
    assert_eq!(shown.iter().map(|(has, _)| *has).collect::<Vec<_>>(), [true, false, false, true, true, true]);
    assert_eq!(
        shown[1].1,
        "What is in picture 1?\n[image shot.png, 1024 × 1024 pixels]\n[m2 cleared: the image]"
    );
    let again = log.clone();
    apply(&ClearToolResults::default(), yaml, &mut log, &Script::new(Vec::new())).ok();
    assert_eq!(log.view(), again.view(), "nothing is cleared twice");
}

#[test]
fn notes_that_a_harness_repeats_leave_but_for_the_newest() {
    let mut log = Conversation::new();
    log.user("Find the fault.");
    for turn in 0..5 {
        let repeated = format!("You are a careful reader. It is turn {turn}. {}", prose(1));
        log.agent(format!("I looked at part {turn}."))
            .user(format!("Go on with part {}.", turn + 1))
            .add(Message::note("pi", repeated))
            .add(Message::note("pi", format!("Of turn {turn} alone: {}", prose(turn + 40))));
    }
    log.agent("It is in part 5.");
    let yaml = "{ max_tokens: 100, retention_window: 1 }";
    apply(&ClearToolResults::default(), yaml, &mut log, &Script::new(Vec::new())).unwrap();
    let view = log.view();
    let notes = view.plain().filter(|message| message.note_by().is_some());
    let left: Vec<bool> = notes.map(|note| !is_stub(&note.to_text())).collect();
    assert_eq!(left, [false, true, false, true, false, true, false, true, true, true]);
}

#[test]
fn short_results_and_contexts_within_the_target_are_left_alone() {
    let short: Vec<_> =
        (0..20).map(|n| ("Bash", run(&format!("command {n}")), format!("answer {n}"))).collect();
    let options = ClearToolResults::default();
    let rules = settings("{ max_tokens: 100 }", 100_000).rules;
    let view = session(&short).view();
    assert!(options.is_applicable(&rules, &view) && options.decide(&rules, &view, &Characters).is_empty());
    let long: Vec<_> = (0..20).map(|n| ("Bash", run(&format!("command {n}")), prose(n))).collect();
    let rules = settings("{ max_tokens: 50% }", 100_000).rules;
    assert!(!options.is_applicable(&rules, &session(&long).view()));
}
