//! Tests of records as a whole.

use pretty_assertions::assert_eq;

use super::record::Record;
use super::*;
use crate::compaction::fixture::{Characters, Script, conversation, fit, fit_again};
use crate::{Conversation, Message, Role, ToolCall, ToolName, ToolResult};

const EXTRACT: &str = "strategies: [extraction]";

#[test]
fn everything_older_becomes_one_record() {
    let (actual, report) = fit(EXTRACT, 2_000, "suaaaaaaaaaaaaaaaaaa", &Script::new(Vec::new()));
    assert_eq!(actual, "su[aaaaaaaaaaaaaa]aaaa", "{report:?}");
}

#[test]
fn in_talk_of_two_what_tells_something_stays_however_old_it_is() {
    let mut log = Conversation::new();
    let mut add = |message: Message| {
        log.append(ContextMessage::count(message, &Characters));
    };
    add(Message::user("Hello, how are you today?"));
    add(Message::assistant("Fine. Last week I moved to Lisbon with my sister Marta, near the Tejo."));
    add(Message::user("Lovely! My new job at Osram in Augsburg begins on 14 June."));
    let remarks = ["that sounds great", "how nice to hear", "what do you think", "really well done"];
    for n in 0..60 {
        let (one, other) = (remarks[n % 4], remarks[(n + n / 4) % 4]);
        add(Message::assistant(format!("Oh yes, {one}! And {other}, as always. Shall we talk more?")));
        add(Message::user(format!("Thank you, {other}! And {one}, of course. Shall we go on?")));
    }
    let fit = fit_again(EXTRACT, 4_000, &mut log, &Script::new(Vec::new()));
    assert!(fit.result.is_ok(), "{:?}", fit.report);
    let record = records(&log).join("\n");
    for told in ["moved to Lisbon with my sister Marta", "at Osram in Augsburg begins on 14 June"] {
        assert!(record.contains(told), "{told}: {record}");
    }
}

#[test]
fn in_talk_what_only_tells_comes_before_what_ends_with_a_question() {
    let mut log = Conversation::new();
    let mut add = |message: Message| {
        log.append(ContextMessage::count(message, &Characters));
    };
    let [told, asked] = [
        ["Lisbon", "Ulm", "Bonn", "Graz", "Turku", "Porto", "Ghent", "Kyoto"],
        ["Osaka", "Cork", "Lyon", "Brno", "Malmo", "Gdynia", "Basel", "Leeds"],
    ];
    add(Message::user("Hello, let us talk."));
    for (told, asked) in told.iter().zip(asked) {
        add(Message::assistant("That sounds good, as always."));
        add(Message::user(format!("Years ago I had a small flat in {told}.")));
        add(Message::assistant("That sounds good, as always."));
        add(Message::user(format!("Years ago I saw {asked}. Did you, too?")));
    }
    for n in 0..30 {
        add(Message::assistant("That sounds good, as always. ".repeat(1 + n % 2)));
        add(Message::user("Yes, very good, as always. ".repeat(1 + n % 3)));
    }
    fit_again(EXTRACT, 1_500, &mut log, &Script::new(Vec::new()));
    let record = records(&log).join("\n");
    let n_in = |towns: [&str; 8]| towns.iter().filter(|town| record.contains(**town)).count();
    assert!(n_in(told) > 0, "{record}");
    assert!(n_in(asked) == 0 || n_in(told) == told.len(), "{record}");
}

#[test]
fn lists_that_a_harness_sends_anew_leave_first() {
    let list = |n: usize| (0..60).map(|k| format!("tool_{n}_{k}\n")).collect::<String>();
    let rules = "Our rules: never touch generated.rs.";
    let mut log = Conversation::new();
    let mut add = |message: Message| {
        log.append(ContextMessage::count(message, &Characters));
    };
    add(Message::user("Find the fault."));
    add(Message::note("agent", list(1)).renewed());
    add(Message::note("agent", rules));
    for n in 0..40 {
        add(Message::assistant(format!("I looked at part {n}, and it holds.")));
        add(Message::user(format!("Go on with part {}.", n + 1)));
    }
    add(Message::note("agent", list(2)).renewed());
    add(Message::assistant("The fault is in part 40."));
    fit_again(EXTRACT, 2_600, &mut log, &Script::new(Vec::new()));
    let view: String = log.view().plain().map(|message| message.to_text() + "\n").collect();
    assert!(view.contains(rules) && view.contains("The fault is in part 40."), "{view}");
    assert!(!view.contains("tool_1_") && !view.contains("tool_2_"), "{view}");
}

#[test]
fn a_list_that_a_harness_sends_late_does_not_move_the_record_behind_the_newest_messages() {
    let mut log = Conversation::new();
    append(&mut log, Message::user("Find the fault."));
    for n in 0..40 {
        append(&mut log, Message::assistant(format!("I looked at part {n}, and it holds.")));
        append(&mut log, Message::user(format!("Go on with part {}.", n + 1)));
    }
    append(&mut log, Message::note("agent", "tool_1\ntool_2\n").renewed());
    append(&mut log, Message::assistant("The fault is in part 40."));
    append(&mut log, Message::user("Mend it."));
    fit_again(EXTRACT, 1_700, &mut log, &Script::new(Vec::new()));
    let view = log.view();
    let texts: Vec<String> = view.plain().map(Message::to_text).collect();
    let place = |text: &str| texts.iter().position(|one| one.contains(text));
    let (record, asked, answer) = (place("<record>"), place("part 40."), place("The fault is in"));
    assert!(record < asked && asked < answer && record.is_some(), "{texts:#?}");
}

#[test]
fn what_the_person_says_comes_before_calls_that_only_looked_and_what_is_lost_is_counted() {
    let mut log = Conversation::new();
    append(&mut log, Message::user("Build the billing service as I describe."));
    let mut n_said = 0;
    for round in 0..6 {
        for n in 0..8 {
            n_said += 1;
            let said = format!("Decision {n_said}: the port of desk_{round}_{n} must be {}.", 4_000 + n_said);
            append(&mut log, Message::user(said));
            let arguments = serde_json::json!({"command": format!("ls desk_{round}_{n}")}).to_string();
            let call = ToolCall { id: "c".into(), name: ToolName::new("shell").unwrap(), arguments };
            append(&mut log, Message::calling(vec![call.clone()]));
            let listed = "a line of a listing\n".repeat(12);
            append(&mut log, Message::tool(ToolResult::answer(&call, listed)));
        }
        fit_again(EXTRACT, 2_200, &mut log, &Script::new(Vec::new()));
    }
    let view: String = log.view().plain().map(|message| message.to_text() + "\n").collect();
    let kept = (1..=n_said).filter(|n| view.contains(&format!("Decision {n}: "))).count();
    let record = records(&log).join("\n");
    assert!(kept < n_said, "{record}");
    let counted = format!("{} of the user\n", crate::quantity(n_said - kept, "message"));
    assert!(record.contains(&counted), "{kept} of {n_said} stay: {record}");
    let (looks, _) = record.split_once("# Left out").unwrap();
    // They fit where one more of the person's messages does not.
    assert!(looks.matches(": 12 lines").count() <= 2, "{record}");
}

#[test]
fn an_excerpt_says_if_its_file_was_changed_since() {
    let mut log = Conversation::new();
    append(&mut log, Message::user("Open the harbour door."));
    let mut exchange = |name: &str, arguments: serde_json::Value, result: &str| {
        let arguments = arguments.to_string();
        let call = ToolCall { id: "c".into(), name: ToolName::new(name).unwrap(), arguments };
        let is_error = result.starts_with("Error");
        append(&mut log, Message::calling(vec![call.clone()]));
        append(&mut log, Message::tool(ToolResult { is_error, ..ToolResult::answer(&call, result) }));
    };
    let file = "fn harbour_door() {\n    turn_key(left);\n    push(door);\n    ring(bell);\n}\n";
    exchange("read", serde_json::json!({"path": "door.rs"}), file);
    let edit = |old: &str, new: &str| serde_json::json!({"path": "door.rs", "old": old, "new": new});
    exchange("edit", edit("    turn_key(left);", "    turn_key(right);"), "Edited door.rs.");
    let refused = "    lift_harbour_door(by_crane);\n    ring(bell_of_harbour);";
    exchange("edit", edit("    open(gate);", refused), "Error: no such text");
    for n in 0..12 {
        append(&mut log, Message::assistant(format!("Step {n} is done. {}", "And more of it. ".repeat(20))));
    }
    fit_again(EXTRACT, 2_400, &mut log, &Script::new(Vec::new()));
    let record = records(&log).join("\n");
    assert!(record.contains("m2 read door.rs, changed since:\n"), "{record}");
    // The call failed, so this text is in no file.
    assert!(!record.contains("lift_harbour_door"), "{record}");
}

#[test]
fn what_the_person_answered_to_a_question_is_told_whole() {
    let mut log = Conversation::new();
    let mut add = |message: Message| {
        log.append(ContextMessage::count(message, &Characters));
    };
    add(Message::user("Plan the move."));
    let mut call = |name: &str, arguments: &str, result: &str| {
        let name = ToolName::new(name).unwrap();
        let call = ToolCall { id: "c".into(), name, arguments: arguments.into() };
        let result = ToolResult::answer(&call, result);
        add(Message::calling(vec![call]));
        add(Message::tool(result));
    };
    call(
        "AskUserQuestion",
        r#"{"questions":[{"question":"Which town?"}]}"#,
        "Which town?\n\"Porto, near the river\"\nGo on.",
    );
    for n in 0..60 {
        call(
            "Bash",
            &format!(r#"{{"command":"look {n}"}}"#),
            &format!("part {n} is well and good\n").repeat(4),
        );
    }
    fit_again(EXTRACT, 3_000, &mut log, &Script::new(Vec::new()));
    let record = records(&log).join("\n");
    assert!(record.contains("AskUserQuestion: Which town? \"Porto, near the river\" Go on."), "{record}");
}

#[test]
fn what_the_person_said_while_refusing_a_call_is_told_with_it() {
    let words = "Keep the two types apart, please.\nAnd rename the second.";
    let mut log = Conversation::new();
    append(&mut log, Message::user("Add the new type."));
    let result = |n: usize| match n {
        20 => {
            let refused = ToolResult::answer(&run(n), format!("Refused. The user said:\n{words}"));
            crate::quoting_user(Message::tool(refused), words)
        }
        n => Message::tool(ToolResult::answer(&run(n), format!("part {n} is well\n").repeat(9))),
    };
    for n in 0..60 {
        append(&mut log, Message::calling(vec![run(n)]));
        append(&mut log, result(n));
    }
    fit_again(EXTRACT, 3_000, &mut log, &Script::new(Vec::new()));
    let record = records(&log).join("\n");
    let told =
        "m41 Bash look 20: refused; the user said: Keep the two types apart, please. And rename the second.";
    assert!(record.contains(told), "{record}");
    assert_eq!(record.matches("Keep the two types").count(), 1, "{record}");
}

fn run(n: usize) -> ToolCall {
    let arguments = format!(r#"{{"command":"look {n}"}}"#);
    ToolCall { id: "c".into(), name: ToolName::new("Bash").unwrap(), arguments }
}

#[test]
fn short_messages_come_before_pieces_of_what_the_person_pasted() {
    let mut log = Conversation::new();
    let mut add = |message: Message| {
        log.append(ContextMessage::count(message, &Characters));
    };
    let towns = ["Lisbon", "Ulm", "Bonn", "Graz", "Turku", "Porto", "Ghent", "Kyoto"];
    add(Message::user("Help me with the tables of our offices."));
    for (n, town) in towns.iter().enumerate() {
        add(Message::assistant("Which one?"));
        add(Message::user(format!("The desk in {town} moved to floor {n}.")));
        add(Message::assistant("And what does it print?"));
        let trace = (0..30).map(|line| format!("  at load_{town}_{line} (parser_{line}.{town}:{line})\n"));
        add(Message::user(trace.collect::<String>()));
    }
    for n in 0..30 {
        add(Message::assistant(format!("I see, and what is next, after {n}? {}", "Well. ".repeat(20))));
        add(Message::user(format!("Wait a moment {n}")));
    }
    fit_again(EXTRACT, 2_600, &mut log, &Script::new(Vec::new()));
    let view: String = log.view().plain().map(|message| message.to_text() + "\n").collect();
    for town in towns {
        assert!(view.contains(&format!("The desk in {town} moved to floor")), "{town}: {view}");
    }
}

#[test]
fn what_the_person_pasted_comes_after_what_is_said_about_it() {
    let mut log = Conversation::new();
    let mut add = |message: Message| {
        log.append(ContextMessage::count(message, &Characters));
    };
    let towns = ["Lisbon", "Ulm", "Bonn", "Graz"];
    add(Message::user("Help me with the tables of our offices."));
    for town in towns {
        let lines = (0..60).map(|line| format!("  at load_{town}_{line} (parser_{line}.{town}:{line})\n\n"));
        add(Message::assistant("I look at it now."));
        let pasted: String = lines.collect();
        add(Message::user(format!("{pasted}So the desk in {town} is the only one that fails.")));
    }
    for n in 0..30 {
        add(Message::assistant(format!("I see, and what is next, after {n}? {}", "Well. ".repeat(20))));
        add(Message::user("Go on."));
    }
    fit_again(EXTRACT, 5_500, &mut log, &Script::new(Vec::new()));
    let view: String = log.view().plain().map(|message| message.to_text() + "\n").collect();
    for town in towns {
        assert!(view.contains(&format!("So the desk in {town} is the only one")), "{town}: {view}");
    }
}

fn records(conversation: &Conversation) -> Vec<String> {
    let view = conversation.view();
    let compacted = view.messages().iter().filter(|message| message.message().is_compacted);
    compacted.map(|message| message.message().to_text()).collect()
}

/// Builds a session that edits a file, sees a failure and gets an order.
fn session() -> Conversation {
    let mut conversation = Conversation::new();
    let mut append = |message: Message| {
        conversation.append(ContextMessage::count(message, &Characters));
    };
    append(Message::user("Fix the parser."));
    append(Message::assistant("What may I touch?"));
    append(Message::user("You must never touch generated.rs please."));
    for (name, arguments, result) in [
        ("Edit", r#"{"file_path":"src/parser.rs"}"#, "ok"),
        ("Bash", r#"{"command":"cargo test"}"#, "error[E0308]: mismatched types\nExit code 101"),
    ] {
        let call =
            ToolCall { id: "c".into(), name: ToolName::new(name).unwrap(), arguments: arguments.into() };
        let result = ToolResult::answer(&call, result);
        append(Message::calling(vec![call]));
        append(Message::tool(result));
    }
    for n in 0..20 {
        append(Message::assistant(format!(
            "step {n} is about parse_item_{n} and more words {}",
            "x ".repeat(60)
        )));
        append(Message::user(format!("go on {n}")));
    }
    conversation
}

#[test]
fn the_record_holds_orders_files_checks_and_errors_and_survives_the_next_fold() {
    let mut conversation = session();
    for round in 0..3 {
        fit_again(EXTRACT, 3_000, &mut conversation, &Script::new(Vec::new()));
        let records = records(&conversation);
        assert_eq!(records.len(), 1, "one record after round {round}");
        for line in [
            "modified: src/parser.rs",
            "Last test: cargo test -> failed",
            "- m6: error[E0308]: mismatched types",
        ] {
            let n = records[0].lines().filter(|one| *one == line).count();
            assert_eq!(n, 1, "{line} in round {round}: {}", records[0]);
        }
        // The person's words are a message of their own, or stand in the record.
        let view = conversation.view();
        let said = view.plain().any(|message| message.to_text().contains("never touch generated.rs"));
        assert!(said, "in round {round}");
        for n in 0..8 {
            let more = Message::assistant(format!("round {round} and {n} {}", "y ".repeat(100)));
            conversation.append(ContextMessage::count(more, &Characters));
        }
    }
    assert_eq!(conversation.view().messages()[1].message().role(), Role::User);
}

#[test]
fn nothing_is_in_a_record_that_was_not_there_before() {
    let mut conversation = session();
    for n in 0..10 {
        let more = Message::assistant(format!("look at file_{n}.rs and load_table_{n} {}", "z ".repeat(40)));
        conversation.append(ContextMessage::count(more, &Characters));
    }
    let before: String =
        conversation.messages().map(|message| message.features().text.clone() + "\n").collect();
    fit_again(EXTRACT, 3_000, &mut conversation, &Script::new(Vec::new()));
    let record = Record::parse(&records(&conversation)[0]).unwrap();
    assert!(!record.story.is_empty());
    for entry in record.story {
        let (label, told) = entry.as_str().split_once(": ").unwrap();
        assert!(!label.ends_with(" agent") || before.contains(told), "{label}: {told}");
    }
}

#[test]
fn nothing_yields_where_the_record_has_all_that_it_may_use() {
    use crate::compaction::{Outcome, Yield};
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
fn the_answer_that_the_person_answers_to_stays_in_one_piece_with_its_head_and_tail() {
    let mut conversation = Conversation::new();
    let mut append = |message: Message| {
        conversation.append(ContextMessage::count(message, &Characters));
    };
    append(Message::user("Count the lines."));
    for n in 0..20 {
        append(Message::assistant(format!("answer {n} is about item_{n} {}", "and more ".repeat(10))));
        append(Message::user(format!("and then number {n}?")));
    }
    let answer = format!("I count them so: {} and that is how.", "one line and ".repeat(40));
    append(Message::assistant(answer));
    append(Message::user("I mean those that are not blank."));
    let _ = fit_again(EXTRACT, 1_600, &mut conversation, &Script::new(Vec::new()));
    let view = conversation.view();
    let [.., antecedent, _] = view.messages() else { panic!("too few messages") };
    let text = antecedent.message().to_text();
    assert_eq!(antecedent.role(), Role::Assistant);
    assert!(text.starts_with("I count them so: ") && text.ends_with(" and that is how."), "{text}");
    assert!(text.contains("omitted"), "{text}");
}

#[test]
fn the_record_says_that_the_request_below_it_came_before_what_it_tells() {
    for (n_before, n_after, is_said) in [(20, 20, true), (40, 0, false), (0, 40, false)] {
        let mut conversation = Conversation::new();
        let mut append = |message: Message| {
            conversation.append(ContextMessage::count(message, &Characters));
        };
        append(Message::user("Fix the parser."));
        for n in 0..n_before + n_after {
            if n == n_before {
                append(Message::user("Now write the tests of part_31, please."));
            }
            append(Message::assistant(format!("Step {n} is about item_{n}, and {}", "more ".repeat(20))));
        }
        if n_after == 0 {
            append(Message::user("Now write the tests of part_31, please."));
        }
        let _ = fit_again(EXTRACT, 3_000, &mut conversation, &Script::new(Vec::new()));
        let view = conversation.view();
        let texts: Vec<String> = view.plain().map(Message::to_text).collect();
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
        let mut conversation = Conversation::new();
        let mut append = |message: Message| {
            conversation.append(ContextMessage::count(message, &Characters));
        };
        opening.into_iter().for_each(&mut append);
        for n in 0..20 {
            let call =
                ToolCall { id: "c".into(), name: ToolName::new("read").unwrap(), arguments: "{}".into() };
            append(Message::calling(vec![call.clone()]).with_content(format!("Step {n} is about item_{n}.")));
            append(Message::tool(ToolResult::answer(&call, format!("item_{n}: {}", "and more ".repeat(20)))));
        }
        append(Message::user("Now write the tests of part_31, please."));
        append(Message::assistant("I begin with the tests of the module."));
        let _ = fit_again(EXTRACT, 4_000, &mut conversation, &Script::new(Vec::new()));
        let view = conversation.view();
        let texts: Vec<String> = view.plain().map(Message::to_text).collect();
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

/// Appends exchanges with a tool, each with a result of such a text.
fn append_results(log: &mut Conversation, texts: impl IntoIterator<Item = String>) {
    for (n, text) in texts.into_iter().enumerate() {
        let name = ToolName::new("read").unwrap();
        let call = ToolCall { id: "c".into(), name, arguments: format!(r#"{{"path":"docs/part{n}.md"}}"#) };
        let result = ToolResult::answer(&call, text);
        for message in [Message::calling(vec![call]), Message::tool(result)] {
            log.append(ContextMessage::count(message, &Characters));
        }
    }
}

#[test]
fn a_file_that_the_request_names_is_quoted_first() {
    for named in [3, 9] {
        let mut log = Conversation::new();
        append(&mut log, Message::user("Sort the documents of the harbour."));
        let lines = |n: usize| (0..10).map(move |nth| format!("boat_{n}_{nth} lies at mooring {nth}\n"));
        append_results(&mut log, (0..12).map(|n| lines(n).collect()));
        append(&mut log, Message::user(format!("Now move part{named}.md into the archive, please.")));
        append(&mut log, Message::assistant("I begin with the archive."));
        let _ = fit_again(EXTRACT, 2_400, &mut log, &Script::new(Vec::new()));
        let record = records(&log).concat();
        let n_quoted = |n: usize| record.matches(&format!("boat_{n}_")).count();
        let others = (0..12).filter(|n| *n != named).map(n_quoted).max();
        assert!(n_quoted(named) >= 8 && Some(n_quoted(named)) > others, "{named}: {record}");
    }
}

#[test]
fn what_a_result_repeats_is_not_quoted_again() {
    let mut log = Conversation::new();
    append(&mut log, Message::user("Look after the notices of the harbour."));
    let notice = "The northern gate stays closed until the divers have repaired its lowest hinge.";
    let arguments = serde_json::json!({ "title": "Notice", "text": notice }).to_string();
    let name = ToolName::new("create_document").unwrap();
    let call = ToolCall { id: "c".into(), name, arguments };
    let again = "Please do not moor at the northern gate while the flag is up.";
    let result = format!("{{\"text\":\"{notice}\"}}\n{again}\nSaved as doc-77123.");
    append(&mut log, Message::calling(vec![call.clone()]));
    append(&mut log, Message::tool(ToolResult::answer(&call, result)));
    append_results(&mut log, (0..6).map(|n| format!("part_{n}: {}", "and more of it ".repeat(40))));
    append(&mut log, Message::user("Now write the tests, please."));
    append(&mut log, Message::assistant(again));
    let _ = fit_again(EXTRACT, 2_400, &mut log, &Script::new(Vec::new()));
    let record = records(&log).concat();
    assert_eq!(record.matches(notice).count(), 1, "{record}");
    assert!(record.contains("doc-77123") && !record.contains(again), "{record}");
}

#[test]
fn a_target_for_messages_or_turns_folds_into_a_record_what_exceeds_it() {
    for (yaml, most_messages, most_turns) in [
        ("{ message_threshold: 30, max_messages: 12 }", 12, usize::MAX),
        ("{ turn_threshold: 10, max_turns: 4 }", usize::MAX, 4),
    ] {
        let mut log = Conversation::new();
        append(&mut log, Message::user("Build the parser of the query language."));
        for n in 0..20 {
            append(&mut log, Message::user(format!("Rule {n} says that part_{n} of it is never touched.")));
            append(&mut log, Message::assistant(format!("I noted rule {n} and went on with part_{n}.")));
        }
        append(&mut log, Message::user("Now write the tests, please."));
        append(&mut log, Message::assistant("I begin with the tests of the module."));
        let fit = fit_again(yaml, 100_000, &mut log, &Script::new(Vec::new()));
        let view = log.view();
        let size = view.size();
        assert!(size.messages <= most_messages && size.turns <= most_turns, "{yaml}: {size:?}");
        let text: String = view.plain().map(|message| message.to_text() + "\n").collect();
        for n in 0..20 {
            let said = format!("Rule {n} says that part_{n} of it is never touched.");
            assert!(text.contains(&said), "{yaml}: {said} is lost in {text}\n{:?}", fit.report);
        }
    }
}

#[test]
fn the_newest_summaries_stay_beside_a_record_and_their_quotes_are_the_persons_words() {
    let mut log = Conversation::new();
    append(&mut log, Message::user("Build the parser of the query language."));
    for n in 0..8 {
        let text = format!(
            "<forge_context_summary>\nThe user said, word for word:\n> [m{n}] Rule {n}: never touch part_{n}.\n\nThe \
             agent wrote part_{n} and tested it in three ways.{}\n</forge_context_summary>",
            " It was long work.".repeat(12)
        );
        append(&mut log, Message::assistant(text).compacted());
    }
    append_results(&mut log, (0..6).map(|n| format!("item_{n}: {}", "and more ".repeat(60))));
    append(&mut log, Message::user("Now write the tests, please."));
    append(&mut log, Message::assistant("I begin with the tests of the module."));
    let fit = fit_again(EXTRACT, 3_400, &mut log, &Script::new(Vec::new()));
    let view = log.view();
    let text: String = view.plain().map(|message| message.to_text() + "\n").collect();
    let record = records(&log).iter().find_map(|text| Record::parse(text));
    let record = record.unwrap_or_else(|| panic!("{text} {:?}", fit.report));
    let kept = view.plain().filter(|message| message.is_compacted && message.role() == Role::Assistant);
    let kept: Vec<String> = kept.map(Message::to_text).collect();
    assert!(!kept.is_empty() && kept.len() < 8, "{text}");
    assert!(kept.last().is_some_and(|last| last.contains("Rule 7:")), "{text}");
    let said: Vec<&str> = record.said.iter().map(Entry::as_str).collect();
    assert_eq!(said.len() + kept.len(), 8, "{said:?} {text}");
    assert_eq!(said[0], "- Rule 0: never touch part_0.");
}

#[test]
fn an_answer_says_all_that_is_asked_in_one_line_or_stands_below_what_is_asked() {
    let services: Vec<&str> =
        "payment shipping billing search login upload export import mail chat".split(' ').collect();
    let parts: Vec<&str> = "gateway worker server proxy database".split(' ').collect();
    let line = |n: usize| {
        let (service, part) = (services[n % 10], parts[(n / 10) % 5]);
        let says = if n.is_multiple_of(3) { "listens on port" } else { "keeps its data under number" };
        format!("The {service} {part} {says} {}, which nobody likes.", 1_000 + n)
    };
    let documents = (0..5).map(|k| (k * 10..k * 10 + 10).map(line).collect::<Vec<_>>().join("\n"));
    let chapters = (0..6).map(|k| {
        let chapter = |n: usize| {
            format!(
                "## {}_{}\n\nIt must be set to {}.\nThis was decided late.\n",
                services[n],
                parts[k % 5],
                7_000 + 10 * k + n
            )
        };
        (0..10).map(chapter).collect::<Vec<_>>().join("\n")
    });
    for (texts, question, answer) in [
        (
            documents.collect::<Vec<_>>(),
            "Which port does the mail worker listen on?",
            "The mail worker listens on port 1018, which",
        ),
        (
            chapters.collect(),
            "According to the section search_proxy, what must be set?",
            "It must be set to 7033.",
        ),
    ] {
        let mut log = Conversation::new();
        append(&mut log, Message::user("Read the documents."));
        append_results(&mut log, texts);
        append(&mut log, Message::assistant("That was all of them."));
        append(&mut log, Message::user(question));
        let target = log.view().size().tokens.share(60, 100);
        let yaml = format!(
            "{{ strategies: [extraction], token_threshold: {}, max_tokens: {target} }}",
            target + Tokens::new(1)
        );
        let fit = fit_again(&yaml, 100_000, &mut log, &Script::new(Vec::new()));
        let text: String = log.view().plain().map(|message| message.to_text() + "\n").collect();
        assert!(text.contains(answer), "{question}: {text} {:?}", fit.report);
    }
}

#[test]
fn a_short_answer_stands_beside_what_it_agrees_to() {
    let other: Vec<String> = (0..8)
        .map(|n| format!("Pier {n} belongs to harbour_{n} and has crane_{n}, says registry_{n}."))
        .collect();
    let proposed = "Ferry 9 could leave at noon, as the tide is high then.";
    for (question, answer) in [
        ("Shall I enter that into the timetable?", "Yes, please."),
        ("これでよろしいですか？", "はい"),
        ("Do you want **that**?**", "all right, tell them so"),
    ] {
        let mut log = Conversation::new();
        append(&mut log, Message::user("Look after the harbour."));
        append(&mut log, Message::assistant(format!("{}\n\n{proposed}\n\n{question}", other.join("\n\n"))));
        append(&mut log, Message::user(answer));
        let line = |n: usize, k: usize| format!("boat_{n}_{k} lies at mooring {k} of pier_{n}\n");
        append_results(&mut log, (0..12).map(|n| (0..9).map(|k| line(n, k)).collect()));
        append(&mut log, Message::user("Now count the boats."));
        let _ = fit_again(EXTRACT, 3_600, &mut log, &Script::new(Vec::new()));
        let record = records(&log).join("\n");
        assert!(record.contains(&format!("{question}\nm2 user: {answer}\n")), "{question}: {record}");
        assert!(record.contains(proposed), "{question}: {record}");
        // The record of a record has both as well.
        append_results(&mut log, (12..24).map(|n| (0..9).map(|k| line(n, k)).collect()));
        append(&mut log, Message::user("And count them once more."));
        let _ = fit_again(EXTRACT, 6_400, &mut log, &Script::new(Vec::new()));
        let record = records(&log).join("\n");
        assert!(record.contains(&format!("{question}\nm2 user: {answer}\n")), "{question}: {record}");
    }
}

#[test]
fn a_word_that_a_request_shares_with_a_line_makes_no_answer_of_it() {
    let line = |n: usize, k: usize| match (n, k) {
        (2 | 3, 4) => "Skip it if the tide turns.\n".to_owned(),
        (3, 5) => "harbour-depth: 1207\n".to_owned(),
        (4..6, 4) => "Two points to starboard.\n".to_owned(),
        (6..8, 4) => "That is the fifth.\n".to_owned(),
        (8..10, 4) => "The rest is dry.\n".to_owned(),
        _ => format!("boat_{n}_{k} lies at mooring {k} of pier_{n}\n"),
    };
    for (request, quoted) in [
        ("Please skip the fifth of your points and do the rest of them.", None),
        ("What was the value of harbour-depth again?", Some("harbour-depth: 1207")),
    ] {
        let mut log = Conversation::new();
        append(&mut log, Message::user("Sort the documents of the harbour."));
        append_results(&mut log, (0..12).map(|n| (0..10).map(|k| line(n, k)).collect()));
        append(&mut log, Message::assistant("I have five points."));
        append(&mut log, Message::user(request));
        let _ = fit_again(EXTRACT, 2_400, &mut log, &Script::new(Vec::new()));
        let text: String = log.view().plain().map(|message| message.to_text() + "\n").collect();
        assert!(quoted.is_none_or(|quoted| text.contains(quoted)), "{request}: {text}");
        assert!(!text.contains("Skip it"), "{request}: {text}");
    }
}

#[test]
fn what_the_agent_wrote_last_is_quoted_and_not_what_it_replaced() {
    let mut conversation = Conversation::new();
    let mut append = |message: Message| {
        conversation.append(ContextMessage::count(message, &Characters));
    };
    append(Message::user("Let the parser read tables."));
    for n in 0..12 {
        let old = format!("    let was_{n} = read_line({n});\n    check(was_{n})?;");
        let new = format!("    let table_{n} = read_table({n});\n    sort(table_{n})?;");
        let arguments = serde_json::json!({
            "file_path": "src/parser.rs",
            "old_string": format!("fn part_{n}() {{\n{old}\n}}"),
            "new_string": format!("fn part_{n}() {{\n{new}\n}}"),
        });
        let call = ToolCall {
            id: "c".into(),
            name: ToolName::new("Edit").unwrap(),
            arguments: arguments.to_string(),
        };
        append(Message::calling(vec![call.clone()]));
        append(Message::tool(ToolResult::answer(
            &call,
            format!("The file now has:\n  1\tfn part_{n}() {{\n  2\t{new}"),
        )));
    }
    for n in 0..6 {
        append(Message::assistant(format!("Step {n} is done. {}", "And more of it. ".repeat(20))));
    }
    let _ = fit_again(EXTRACT, 3_000, &mut conversation, &Script::new(Vec::new()));
    let record = records(&conversation).join("\n");
    let written = "fn part_11() {\n        let table_11 = read_table(11);\n        sort(table_11)?;";
    assert!(record.contains(written), "{record}");
    for gone in ["read_line", "check(was", "The file now has"] {
        assert!(!record.contains(gone), "{gone}: {record}");
    }
}

#[test]
fn what_only_announces_a_call_takes_no_room() {
    let mut conversation = Conversation::new();
    let mut append = |message: Message| {
        conversation.append(ContextMessage::count(message, &Characters));
    };
    append(Message::user("Find out why the doors of the harbour do not open."));
    for (n, door) in ["north", "south", "east", "west"].into_iter().enumerate() {
        let arguments = serde_json::json!({"path": format!("doors/{door}.txt")}).to_string();
        let call = ToolCall { id: "c".into(), name: ToolName::new("read").unwrap(), arguments };
        let found = format!("The lock number {n} of that door turns the wrong way round.");
        let said = format!("{found} Now I look at the next door of them.");
        append(Message::calling(vec![call.clone()]).with_content(said));
        let lines: Vec<String> = (0..20).map(|line| format!("hinge {line} of {door}: fast")).collect();
        append(Message::tool(ToolResult::answer(&call, lines.join("\n"))));
    }
    for n in 0..4 {
        append(Message::assistant(format!("Step {n} is done. {}", "And more of it. ".repeat(30))));
    }
    append(Message::user("Go on."));
    let _ = fit_again(EXTRACT, 3_600, &mut conversation, &Script::new(Vec::new()));
    let record = records(&conversation).join("\n");
    assert!(record.contains("of that door turns the wrong way round.\n"), "{record}");
    assert!(!record.contains("Now I look"), "{record}");
}

#[test]
fn two_of_many_results_that_answer_alike_are_enough() {
    let mut conversation = Conversation::new();
    let mut append = |message: Message| {
        conversation.append(ContextMessage::count(message, &Characters));
    };
    append(Message::user("Look after the open issues."));
    for n in 0..12 {
        let arguments = serde_json::json!({"command": format!("issues list {n}")}).to_string();
        let call = ToolCall { id: "c".into(), name: ToolName::new("run").unwrap(), arguments };
        // The other lines say something, so a third answer is not what is left to quote.
        let other = |k: usize| format!("#{n}{k} waits for part_{n}_{k} and crate_{k}_{n}");
        let others: Vec<String> = (0..30).map(other).collect();
        let issue = format!("#950 composite graders want an example, says Marta {n}\n").repeat(8);
        let listed = format!("{issue}\n{}", others.join("\n"));
        append(Message::calling(vec![call.clone()]));
        append(Message::tool(ToolResult::answer(&call, listed)));
    }
    append(Message::assistant("There are many open issues."));
    append(Message::user("And what of #950, composite graders, by Marta?"));
    let _ = fit_again(EXTRACT, 6_100, &mut conversation, &Script::new(Vec::new()));
    let record = records(&conversation).join("\n");
    let answers = record.lines().map(str::trim).filter(|line| line.contains("says Marta"));
    let answers: std::collections::BTreeSet<&str> = answers.collect();
    assert_eq!(answers.len(), 1, "{record}");
}

#[test]
fn the_contents_of_what_left_list_no_fields_that_every_answer_has() {
    let mut conversation = Conversation::new();
    let mut append = |message: Message| {
        conversation.append(ContextMessage::count(message, &Characters));
    };
    append(Message::user("Look after the open issues."));
    let fields = ["number", "title", "state", "owner", "labels", "created", "updated", "comments"];
    let settings = ["retries", "backoff", "port", "depth", "cache", "width", "proxy", "verbose"];
    for n in 0..5 {
        let arguments = serde_json::json!({"command": format!("show {n}")}).to_string();
        let call = ToolCall { id: "c".into(), name: ToolName::new("run").unwrap(), arguments };
        let keys = if n == 2 { settings } else { fields };
        let rows: Vec<String> = keys.iter().map(|key| format!("{key}: value{n}")).collect();
        append(Message::calling(vec![call.clone()]));
        append(Message::tool(ToolResult::answer(&call, rows.join("\n"))));
    }
    for n in 0..8 {
        append(Message::assistant(format!("Step {n} is done. {}", "And more of it. ".repeat(20))));
    }
    let _ = fit_again(EXTRACT, 2_600, &mut conversation, &Script::new(Vec::new()));
    let record = records(&conversation).join("\n");
    let (_, contents) = record.split_once("# Left out").unwrap_or_else(|| panic!("{record}"));
    assert!(contents.contains("retries backoff port"), "{record}");
    assert!(!contents.contains("title state"), "{record}");
}

fn append(conversation: &mut Conversation, message: Message) {
    conversation.append(ContextMessage::count(message, &Characters));
}

#[test]
fn records_of_records_still_list_keys_and_quote_what_the_person_answered_to() {
    let mut conversation = Conversation::new();
    append(&mut conversation, Message::user("Let the server read its settings."));
    let keys = ["retries", "backoff", "port", "depth", "cache", "width", "proxy", "verbose"];
    let call = ToolCall { id: "c".into(), name: ToolName::new("read").unwrap(), arguments: "{}".into() };
    let rows: Vec<String> = keys.iter().map(|key| format!("{key} = {}", key.len() * 17)).collect();
    append(&mut conversation, Message::calling(vec![call.clone()]));
    append(&mut conversation, Message::tool(ToolResult::answer(&call, rows.join("\n"))));
    let proposed = "I propose Kolvane over Brontic, as it needs no lock.";
    append(&mut conversation, Message::assistant(proposed));
    append(&mut conversation, Message::user("Do that, please."));
    for round in 0..4 {
        for n in 0..12 {
            let said =
                format!("Step {n} of round {round} changes part_{round}_{n}, which reads item_{round}_{n}.");
            append(&mut conversation, Message::calling(vec![call.clone()]).with_content(said));
            let result = format!("item_{round}_{n} is there. {}", "And more of it. ".repeat(20));
            append(&mut conversation, Message::tool(ToolResult::answer(&call, result)));
        }
        let fit = fit_again(EXTRACT, 3_000, &mut conversation, &Script::new(Vec::new()));
        assert!(fit.result.is_ok(), "{:?}", fit.report);
        let record = records(&conversation).join("\n");
        assert!(record.contains(&format!("m3 agent: {proposed}")), "round {round}: {record}");
        let listed = format!("tokens, keys: {}", keys.join(" "));
        assert!(record.contains(&listed), "round {round}: {record}");
    }
}

#[test]
fn a_record_of_another_session_comes_before_what_came_after_it() {
    let mut conversation = Conversation::new();
    append(&mut conversation, Message::user("Count the lines."));
    for n in 0..30 {
        append(
            &mut conversation,
            Message::assistant(format!("early_{n} has {n} lines. {}", "x ".repeat(40))),
        );
    }
    let _ = fit_again(EXTRACT, 1_500, &mut conversation, &Script::new(Vec::new()));
    // Whoever reads the compacted session from a file gives it new labels.
    let mut again = Conversation::new();
    for message in conversation.view().plain() {
        append(&mut again, message.clone());
    }
    for round in 0..2 {
        for n in 0..30 {
            let said = format!("late_{round}_{n} has {n} lines. {}", "x ".repeat(40));
            append(&mut again, Message::assistant(said));
        }
        let _ = fit_again(EXTRACT, 2_500, &mut again, &Script::new(Vec::new()));
        let record = records(&again).join("\n");
        let (early, late) = (record.rfind("early_").unwrap(), record.find("late_").unwrap());
        assert!(early < late, "round {round}: {record}");
    }
}

#[test]
fn the_newest_result_is_shortened_before_the_words_beside_it() {
    let mut conversation = Conversation::new();
    let mut append = |message: Message| {
        conversation.append(ContextMessage::count(message, &Characters));
    };
    append(Message::user("Fix the parser."));
    for n in 0..20 {
        append(Message::assistant(format!("step {n} is about item_{n} {}", "and more ".repeat(10))));
    }
    let call = ToolCall { id: "c".into(), name: ToolName::new("read").unwrap(), arguments: "{}".into() };
    let result = ToolResult::answer(&call, "a line of the file\n".repeat(40));
    let words = "Now the parser has its table, so what is missing is the test of it.";
    let mut calling = Message::calling(vec![call]);
    calling = calling.with_content(words);
    append(calling);
    append(Message::tool(result));
    let _ = fit_again(EXTRACT, 1_200, &mut conversation, &Script::new(Vec::new()));
    let view = conversation.view();
    let texts: Vec<String> = view.plain().map(Message::to_text).collect();
    assert!(texts.iter().any(|text| text == words), "{texts:#?}");
    assert!(texts.last().is_some_and(|result| result.contains("omitted")), "{texts:#?}");
}

#[test]
fn a_small_target_still_holds() {
    for room in [700, 900, 1_500] {
        let mut conversation = conversation("suaUtRaaaatR");
        let fit = fit_again(EXTRACT, room, &mut conversation, &Script::new(Vec::new()));
        assert!(fit.result.is_ok(), "{room}: {:?}", fit.report);
    }
}
