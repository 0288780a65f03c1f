//! Tests of records as a whole: what becomes one, and where it stands.

use pretty_assertions::assert_eq;

use super::record::{Entry, Record};
use crate::compaction::fixture::{Script, conversation, fit, fit_again, texts, written_texts};
use crate::compaction::{Fit, Outcome, Yield};
use crate::{Conversation, Message, Role};

const EXTRACT: &str = "strategies: [extraction]";

/// Compacts the log to `room` tokens with records alone.
pub(super) fn extract(log: &mut Conversation, room: u64) -> Fit {
    fit_again(EXTRACT, room, log, &Script::new(Vec::new()))
}

/// Returns the record that the model sees.
pub(super) fn record_in(log: &Conversation) -> String {
    written_texts(log).join("\n")
}

/// Appends calls of a tool that reads, each with a result of such a text.
pub(super) fn append_results(log: &mut Conversation, texts: impl IntoIterator<Item = String>) {
    for (n, text) in texts.into_iter().enumerate() {
        log.call("read", format!(r#"{{"path":"docs/part{n}.md"}}"#), text);
    }
}

/// Builds a session that edits a file, sees a failure and gets an order.
fn session() -> Conversation {
    let mut log = Conversation::new();
    log.user("Fix the parser.")
        .agent("What may I touch?")
        .user("You must never touch generated.rs please.")
        .call("Edit", r#"{"file_path":"src/parser.rs"}"#, "ok")
        .call("Bash", r#"{"command":"cargo test"}"#, "error[E0308]: mismatched types\nExit code 101");
    for n in 0..20 {
        log.agent(format!("step {n} is about parse_item_{n} and more words {}", "x ".repeat(60)))
            .user(format!("go on {n}"));
    }
    log
}

#[test]
fn everything_older_becomes_one_record() {
    let (actual, report) = fit(EXTRACT, 2_000, "suaaaaaaaaaaaaaaaaaa", &Script::new(Vec::new()));
    assert_eq!(actual, "su[aaaaaaaaaaaaaa]aaaa", "{report:?}");
}

#[test]
fn a_small_target_still_holds() {
    for room in [700, 900, 1_500] {
        let fit = extract(&mut conversation("suaUtRaaaatR"), room);
        assert!(fit.result.is_ok(), "{room}: {:?}", fit.report);
    }
}

#[test]
fn the_record_holds_orders_files_checks_and_errors_and_survives_the_next_fold() {
    let mut log = session();
    for round in 0..3 {
        extract(&mut log, 3_000);
        let records = written_texts(&log);
        assert_eq!(records.len(), 1, "one record after round {round}");
        for line in [
            "modified: src/parser.rs",
            "Last test: cargo test -> failed",
            "- m6: error[E0308]: mismatched types",
        ] {
            let n = records[0].lines().filter(|one| *one == line).count();
            assert_eq!(n, 1, "{line} in round {round}: {}", records[0]);
        }
        // The user's words are a message of their own, or stand in the record.
        let said = texts(&log).iter().any(|text| text.contains("never touch generated.rs"));
        assert!(said, "in round {round}");
        for n in 0..8 {
            log.agent(format!("round {round} and {n} {}", "y ".repeat(100)));
        }
    }
    assert_eq!(log.view().messages()[1].message().role(), Role::User);
}

#[test]
fn nothing_is_in_a_record_that_was_not_there_before() {
    let mut log = session();
    for n in 0..10 {
        log.agent(format!("look at file_{n}.rs and load_table_{n} {}", "z ".repeat(40)));
    }
    let before: String = log.messages().map(|message| message.features().text.clone() + "\n").collect();
    extract(&mut log, 3_000);
    let record = Record::parse(&written_texts(&log)[0]).unwrap();
    assert!(!record.story.is_empty());
    for entry in record.story {
        let (label, told) = entry.as_str().split_once(": ").unwrap();
        assert!(!label.ends_with(" agent") || before.contains(told), "{label}: {told}");
    }
}

#[test]
fn nothing_yields_where_the_record_has_all_that_it_may_use() {
    let yielded = |yaml: &str, room: u64, before: &str| {
        let (_, report) = fit(yaml, room, before, &Script::new(Vec::new()));
        let Outcome::Applied { impact, .. } = report.outcome else { panic!("{before}: {report:?}") };
        impact.yielded
    };
    let retaining = |n: usize| format!("{{ strategies: [extraction], retention_window: {n} }}");
    for (retained, room, before, expected) in [
        // More than a third of the target is one result, and it stays whole.
        (1, 4_800, "suaaaaaaaaaaaaaaaaaaaaaaaaaaaatR", &[][..]),
        (1, 4_800, "suaaaaaaaaaaaaaaaaaaaaaaaaaaaaU", &[]),
        (6, 4_700, "suaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", &[]),
        (30, 4_700, "suaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", &[Yield::RetentionAge]),
    ] {
        assert_eq!(yielded(&retaining(retained), room, before), expected, "{retained} of {before}");
    }
}

#[test]
fn the_record_says_that_the_request_below_it_came_before_what_it_tells() {
    for (n_before, n_after, is_said) in [(20, 20, true), (40, 0, false), (0, 40, false)] {
        let mut log = Conversation::new();
        log.user("Fix the parser.");
        for n in 0..n_before + n_after {
            if n == n_before {
                log.user("Now write the tests of part_31, please.");
            }
            log.agent(format!("Step {n} is about item_{n}, and {}", "more ".repeat(20)));
        }
        if n_after == 0 {
            log.user("Now write the tests of part_31, please.");
        }
        extract(&mut log, 3_000);
        let texts = texts(&log);
        let record = texts.iter().position(|text| text.contains("<record>")).unwrap();
        let request = texts.iter().position(|text| text.contains("part_31, please.")).unwrap();
        let said = format!("The request below is m{}; ", n_before + 1);
        assert_eq!(texts[record].contains(&said), is_said, "{texts:#?}");
        assert_eq!(texts[record].contains("The request below"), is_said, "{texts:#?}");
        assert!(!is_said || record < request, "{texts:#?}");
    }
}

#[test]
fn a_long_opening_does_not_displace_the_work() {
    let rule = |n: usize| format!("Rule {n}: the module part_{n} is never touched by anybody.\n");
    let rules: String = (0..60).map(rule).collect();
    let note = || Message::user(rules.clone()).noted_by("claude-code");
    let summary = || Message::user(rules.clone()).compacted();
    let request = || Message::user("Fix the parser.");
    for (what, opening) in [
        ("a note", vec![request(), note()]),
        ("a summary", vec![request(), summary()]),
        ("a note before the request", vec![note(), request()]),
        ("a summary alone", vec![summary()]),
    ] {
        let mut log = Conversation::new();
        for message in opening {
            log.add(message);
        }
        for n in 0..20 {
            let result = format!("item_{n}: {}", "and more ".repeat(20));
            log.announced_call(format!("Step {n} is about item_{n}."), "read", "{}", result);
        }
        log.user("Now write the tests of part_31, please.").agent("I begin with the tests of the module.");
        extract(&mut log, 4_000);
        let texts = texts(&log);
        let n_opening = texts.iter().take_while(|text| !text.contains("<record>")).count();
        let (mut opening, rest) = (texts[..n_opening].to_vec(), &texts[n_opening..]);
        let [record, .., latest, last] = rest else { panic!("{what}: {texts:#?}") };
        opening.retain(|text| text != "Fix the parser.");
        let [opening] = &opening[..] else { panic!("{what}: {texts:#?}") };
        assert!(opening.starts_with("Rule 0:") && opening.contains(" characters of m"), "{opening}");
        assert!(opening.len() < 2_100, "{what}: {opening}");
        assert!(format!("{opening}\n{record}").contains("part_31 is never touched"), "{what}: {record}");
        assert_eq!(latest, "Now write the tests of part_31, please.");
        assert_eq!(last, "I begin with the tests of the module.");
    }
}

#[test]
fn lists_that_a_harness_sends_again_leave_first() {
    let list = |n: usize| (0..60).map(|k| format!("tool_{n}_{k}\n")).collect::<String>();
    let rules = "Our rules: never touch generated.rs.";
    let mut log = Conversation::new();
    log.user("Find the fault.");
    log.add(Message::note("agent", list(1)).renewed()).add(Message::note("agent", rules));
    for n in 0..40 {
        log.agent(format!("I looked at part {n}, and it holds.")).user(format!("Go on with part {}.", n + 1));
    }
    log.add(Message::note("agent", list(2)).renewed()).agent("The fault is in part 40.");
    extract(&mut log, 2_600);
    let view = texts(&log).join("\n");
    assert!(view.contains(rules) && view.contains("The fault is in part 40."), "{view}");
    assert!(!view.contains("tool_1_") && !view.contains("tool_2_"), "{view}");
}

#[test]
fn a_list_that_a_harness_sends_late_does_not_move_the_record_behind_the_newest_messages() {
    let mut log = Conversation::new();
    log.user("Find the fault.");
    for n in 0..40 {
        log.agent(format!("I looked at part {n}, and it holds.")).user(format!("Go on with part {}.", n + 1));
    }
    log.add(Message::note("agent", "tool_1\ntool_2\n").renewed())
        .agent("The fault is in part 40.")
        .user("Mend it.");
    extract(&mut log, 1_700);
    let texts = texts(&log);
    let place = |text: &str| texts.iter().position(|one| one.contains(text));
    let (record, asked, answer) = (place("<record>"), place("part 40."), place("The fault is in"));
    assert!(record < asked && asked < answer && record.is_some(), "{texts:#?}");
}

#[test]
fn a_list_that_a_harness_sends_last_leaves_and_the_request_before_it_stays_the_newest() {
    for reads in [false, true] {
        let mut log = Conversation::new();
        log.user("Find the fault.");
        for n in 0..40 {
            log.agent(format!("I looked at part {n}, and it holds."))
                .user(format!("Go on with part {}.", n + 1));
        }
        if reads {
            log.call("read", r#"{"path":"part_40.rs"}"#, "The fault is in line 7.");
        }
        let list = (0..60).map(|n| format!("tool_{n}\n")).collect::<String>();
        log.add(Message::note("agent", list).renewed());
        extract(&mut log, 1_700);
        let texts = texts(&log);
        assert!(!texts.join("\n").contains("tool_1\n"), "{texts:#?}");
        let last = if reads { "line 7." } else { "part 40." };
        assert!(texts.last().unwrap().ends_with(last), "{texts:#?}");
        assert!(!texts.join("\n").contains("The request below"), "{texts:#?}");
    }
}

#[test]
fn a_target_for_messages_or_turns_folds_into_a_record_what_exceeds_it() {
    for (yaml, most_messages, most_turns) in [
        ("{ message_threshold: 30, max_messages: 12 }", 12, usize::MAX),
        ("{ turn_threshold: 10, max_turns: 4 }", usize::MAX, 4),
    ] {
        let mut log = Conversation::new();
        log.user("Build the parser of the query language.");
        for n in 0..20 {
            log.user(format!("Rule {n} says that part_{n} of it is never touched."))
                .agent(format!("I noted rule {n} and went on with part_{n}."));
        }
        log.user("Now write the tests, please.").agent("I begin with the tests of the module.");
        let fit = fit_again(yaml, 100_000, &mut log, &Script::new(Vec::new()));
        let size = log.view().size();
        assert!(size.messages <= most_messages && size.turns <= most_turns, "{yaml}: {size:?}");
        let text = texts(&log).join("\n");
        for n in 0..20 {
            let said = format!("Rule {n} says that part_{n} of it is never touched.");
            assert!(text.contains(&said), "{yaml}: {said} is lost in {text}\n{:?}", fit.report);
        }
    }
}

#[test]
fn the_newest_summaries_stay_beside_a_record_and_their_quotes_are_the_users_words() {
    let mut log = Conversation::new();
    log.user("Build the parser of the query language.");
    for n in 0..8 {
        let text = format!(
            "<forge_context_summary>\nThe user said, word for word:\n> [m{n}] Rule {n}: never touch part_{n}.\n\nThe \
             agent wrote part_{n} and tested it in three ways.{}\n</forge_context_summary>",
            " It was long work.".repeat(12)
        );
        log.add(Message::assistant(text).compacted());
    }
    append_results(&mut log, (0..6).map(|n| format!("item_{n}: {}", "and more ".repeat(60))));
    log.user("Now write the tests, please.").agent("I begin with the tests of the module.");
    let fit = extract(&mut log, 3_400);
    let text = texts(&log).join("\n");
    let record = written_texts(&log).iter().find_map(|text| Record::parse(text));
    let record = record.unwrap_or_else(|| panic!("{text} {:?}", fit.report));
    let view = log.view();
    let kept = view.plain().filter(|message| message.is_compacted && message.role() == Role::Assistant);
    let kept: Vec<String> = kept.map(Message::to_text).collect();
    assert!(!kept.is_empty() && kept.len() < 8, "{text}");
    assert!(kept.last().is_some_and(|last| last.contains("Rule 7:")), "{text}");
    let said: Vec<&str> = record.said.iter().map(Entry::as_str).collect();
    assert_eq!(said.len() + kept.len(), 8, "{said:?} {text}");
    assert_eq!(said[0], "- Rule 0: never touch part_0.");
}

#[test]
fn records_of_records_still_list_keys_and_quote_what_the_user_answered_to() {
    let mut log = Conversation::new();
    log.user("Let the server read its settings.");
    let keys = ["retries", "backoff", "port", "depth", "cache", "width", "proxy", "verbose"];
    let rows: Vec<String> = keys.iter().map(|key| format!("{key} = {}", key.len() * 17)).collect();
    let proposed = "I propose Kolvane over Brontic, as it needs no lock.";
    log.call("read", "{}", rows.join("\n")).agent(proposed).user("Do that, please.");
    for round in 0..4 {
        for n in 0..12 {
            let said =
                format!("Step {n} of round {round} changes part_{round}_{n}, which reads item_{round}_{n}.");
            let result = format!("item_{round}_{n} is there. {}", "And more of it. ".repeat(20));
            log.announced_call(said, "read", "{}", result);
        }
        let fit = extract(&mut log, 3_000);
        assert!(fit.result.is_ok(), "{:?}", fit.report);
        let record = record_in(&log);
        assert!(record.contains(&format!("m3 agent: {proposed}")), "round {round}: {record}");
        let listed = format!("tokens, keys: {}", keys.join(" "));
        assert!(record.contains(&listed), "round {round}: {record}");
    }
}

#[test]
fn a_record_of_another_session_comes_before_what_came_after_it() {
    let mut log = Conversation::new();
    log.user("Count the lines.");
    for n in 0..30 {
        log.agent(format!("early_{n} has {n} lines. {}", "x ".repeat(40)));
    }
    extract(&mut log, 1_500);
    // A reader of the compacted session's file gives its messages new labels.
    let mut again = Conversation::new();
    for message in log.view().plain() {
        again.add(message.clone());
    }
    for round in 0..2 {
        for n in 0..30 {
            again.agent(format!("late_{round}_{n} has {n} lines. {}", "x ".repeat(40)));
        }
        extract(&mut again, 2_500);
        let record = record_in(&again);
        let (early, late) = (record.rfind("early_").unwrap(), record.find("late_").unwrap());
        assert!(early < late, "round {round}: {record}");
    }
}

#[test]
fn the_newest_result_is_shortened_before_the_words_beside_it() {
    let mut log = Conversation::new();
    log.user("Fix the parser.");
    for n in 0..20 {
        log.agent(format!("step {n} is about item_{n} {}", "and more ".repeat(10)));
    }
    let words = "Now the parser has its table, so what is missing is the test of it.";
    log.announced_call(words, "read", "{}", "a line of the file\n".repeat(40));
    extract(&mut log, 1_200);
    let texts = texts(&log);
    assert!(texts.iter().any(|text| text == words), "{texts:#?}");
    assert!(texts.last().is_some_and(|result| result.contains("omitted")), "{texts:#?}");
}
