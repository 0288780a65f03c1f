//! Tests of what a record retains of what the user and the agent said to each other.

use std::ops::Range;

use pretty_assertions::assert_eq;

use super::tests::{append_results, extract, record_in};
use crate::compaction::fixture::{texts, tool_call};
use crate::{Conversation, Message, Role, ToolResult, said_by};

#[test]
fn in_talk_of_two_what_tells_something_stays_however_old_it_is() {
    let mut log = Conversation::new();
    log.user("Hello, how are you today?")
        .agent("Fine. Last week I moved to Lisbon with my sister Marta, near the Tejo.")
        .user("Lovely! My new job at Osram in Augsburg begins on 14 June.");
    let remarks = ["that sounds great", "how nice to hear", "what do you think", "really well done"];
    for n in 0..60 {
        let (one, other) = (remarks[n % 4], remarks[(n + n / 4) % 4]);
        log.agent(format!("Oh yes, {one}! And {other}, as always. Shall we talk more?"))
            .user(format!("Thank you, {other}! And {one}, of course. Shall we go on?"));
    }
    let fit = extract(&mut log, 4_000);
    assert!(fit.result.is_ok(), "{:?}", fit.report);
    let record = record_in(&log);
    for told in ["moved to Lisbon with my sister Marta", "at Osram in Augsburg begins on 14 June"] {
        assert!(record.contains(told), "{told}: {record}");
    }
}

#[test]
fn in_talk_what_only_tells_comes_before_what_ends_with_a_question() {
    let [told, asked] = [
        ["Lisbon", "Ulm", "Bonn", "Graz", "Turku", "Porto", "Ghent", "Kyoto"],
        ["Osaka", "Cork", "Lyon", "Brno", "Malmo", "Gdynia", "Basel", "Leeds"],
    ];
    let mut log = Conversation::new();
    log.user("Hello, let us talk.");
    for (told, asked) in told.iter().zip(asked) {
        log.agent("That sounds good, as always.")
            .user(format!("Years ago I had a small flat in {told}."))
            .agent("That sounds good, as always.")
            .user(format!("Years ago I saw {asked}. Did you, too?"));
    }
    for n in 0..30 {
        log.agent("That sounds good, as always. ".repeat(1 + n % 2))
            .user("Yes, very good, as always. ".repeat(1 + n % 3));
    }
    extract(&mut log, 1_500);
    let record = record_in(&log);
    let n_in = |towns: [&str; 8]| towns.iter().filter(|town| record.contains(**town)).count();
    assert!(n_in(told) > 0, "{record}");
    assert!(n_in(asked) == 0 || n_in(told) == told.len(), "{record}");
}

/// Things of which a farm has some.
const THINGS: [&str; 24] = [
    "cows", "geese", "barns", "wells", "ploughs", "lofts", "meadows", "hives", "ponds", "gates", "stables",
    "silos", "lorries", "orchards", "cellars", "goats", "ladders", "sheds", "fences", "troughs", "kilns",
    "mills", "hedges", "ricks",
];

/// Returns the nth question of an interview, and its answer.
fn asked(nth: usize) -> [String; 2] {
    [format!("How many {} do you have?", THINGS[nth]), format!("{} or so.", 1_000 + nth * 37)]
}

/// Returns the number of answers in a record that stand behind their questions.
fn n_replies(record: &str) -> usize {
    let reply = |[question, answer]: [String; 2]| format!("\n- {question} → {answer}\n");
    (0..THINGS.len()).filter(|nth| record.contains(&reply(asked(*nth)))).count()
}

/// Goes on with talk that names nothing.
fn chat_on(log: &mut Conversation) {
    for n in 0..30 {
        log.agent(format!("{}That is noted, I see. Is that all?", "And so on. ".repeat(n % 3)))
            .user(format!("{}That is all of it, as far as I can see.", "Well, well. ".repeat(n % 4)));
    }
}

#[test]
fn an_answer_that_says_little_alone_stands_behind_its_question() {
    let mut log = Conversation::new();
    log.user("I want to insure the farm.");
    for nth in 0..THINGS.len() {
        let [question, answer] = asked(nth);
        log.agent(format!("Thank you. {question}")).user(answer);
    }
    chat_on(&mut log);
    extract(&mut log, 2_800);
    let record = record_in(&log);
    assert!(n_replies(&record) > 8, "{record}");
    let said = record.split("# Asked and answered").next().unwrap_or_default();
    assert!((0..THINGS.len()).all(|nth| !said.contains(&asked(nth)[1])), "{record}");
    // A later record takes them over.
    chat_on(&mut log);
    extract(&mut log, 2_400);
    let record = record_in(&log);
    assert!(n_replies(&record) > 4, "{record}");
}

#[test]
fn the_same_answer_stands_behind_each_question() {
    let mut log = Conversation::new();
    log.user("I want to insure the farm.");
    for nth in 0..THINGS.len() {
        log.agent(format!("Thank you. {}", asked(nth)[0])).user("None.");
    }
    chat_on(&mut log);
    extract(&mut log, 2_800);
    let record = record_in(&log);
    assert!(record.matches("do you have? → None.\n").count() > 2, "{record}");
}

#[test]
fn where_both_ask_answers_stand_alone() {
    let mut log = Conversation::new();
    log.user("I want to insure the farm.");
    for nth in 0..THINGS.len() {
        let [question, answer] = asked(nth);
        log.agent(format!("Thank you. {question}")).user(format!("{answer} Is that good?"));
    }
    chat_on(&mut log);
    extract(&mut log, 2_800);
    let record = record_in(&log);
    assert!(!record.contains("# Asked and answered"), "{record}");
}

#[test]
fn in_talk_the_newest_commits_are_told_before_most_of_what_is_said() {
    let mut log = Conversation::new();
    log.user("Wrap the start of the program.");
    for n in 0..40 {
        log.agent(format!(
            "The gate of station {n} opens at dawn, and its keeper writes down who passes it."
        ))
        .add(Message::note("aider", format!("Applied edit to a.py\nCommit 8f9d4{n:02} Wrap {n}")))
        .user(format!("Then wrap the one after station {n}, which is beside river {n}."));
    }
    extract(&mut log, 4_000);
    let record = record_in(&log);
    assert!(record.contains(" aider: Commit 8f9d4"), "{record}");
}

#[test]
fn what_the_user_says_comes_before_calls_that_only_looked_and_what_is_lost_is_counted() {
    let mut log = Conversation::new();
    log.user("Build the billing service as I describe.");
    let mut n_said = 0;
    for round in 0..6 {
        for n in 0..8 {
            n_said += 1;
            let command = serde_json::json!({"command": format!("ls desk_{round}_{n}")});
            log.user(format!("Decision {n_said}: the port of desk_{round}_{n} must be {}.", 4_000 + n_said))
                .call("shell", command, "a line of a listing\n".repeat(12));
        }
        extract(&mut log, 2_200);
    }
    let view = texts(&log).join("\n");
    let kept = (1..=n_said).filter(|n| view.contains(&format!("Decision {n}: "))).count();
    let record = record_in(&log);
    assert!(kept < n_said, "{record}");
    let counted = format!("{} of the user\n", crate::quantity(n_said - kept, "message"));
    assert!(record.contains(&counted), "{kept} of {n_said} stay: {record}");
    let (looks, _) = record.split_once("# Left out").unwrap();
    // They fit where one more of the user's messages does not.
    assert!(looks.matches(": 12 lines").count() <= 2, "{record}");
}

#[test]
fn what_the_user_answered_to_a_question_is_told_whole() {
    let mut log = Conversation::new();
    log.user("Plan the move.").call(
        "AskUserQuestion",
        r#"{"questions":[{"question":"Which town?"}]}"#,
        "Which town?\n\"Porto, near the river\"\nGo on.",
    );
    for n in 0..60 {
        let result = format!("part {n} is well and good\n").repeat(4);
        log.call("Bash", format!(r#"{{"command":"look {n}"}}"#), result);
    }
    extract(&mut log, 3_000);
    let record = record_in(&log);
    assert!(record.contains("AskUserQuestion: Which town? \"Porto, near the river\" Go on."), "{record}");
}

#[test]
fn answers_to_questions_are_told_without_the_words_of_the_harness() {
    let questions = ["Which town should it be, if the river may flood it?", "And which street?"];
    let arguments =
        serde_json::json!({"questions": questions.map(|text| serde_json::json!({"question": text}))});
    let answers = format!("\"{}\"=\"Porto\", \"{}\"=\"Rua Nova\".", questions[0], questions[1]);
    let result = format!(
        "Your questions have been answered: {answers} You can now continue with these answers in mind."
    );
    let mut log = Conversation::new();
    log.user("Plan the move.").call("AskUserQuestion", arguments, result);
    for n in 0..60 {
        let result = format!("part {n} is well and good\n").repeat(4);
        log.call("Bash", format!(r#"{{"command":"look {n}"}}"#), result);
    }
    extract(&mut log, 3_000);
    let record = record_in(&log);
    assert!(record.contains(&format!("AskUserQuestion: {answers}")), "{record}");
    assert!(!record.contains("in mind"), "{record}");
}

#[test]
fn a_report_of_another_agent_is_told_once_and_a_receipt_is_none() {
    let fact = |n: usize| format!("Table t{n} loses its rows in load_{n}, because date_{n} may be empty.");
    let facts: Vec<String> = (0..7).map(fact).collect();
    let report = facts.join("\n");
    let receipt = "Async agent launched successfully.\nagentId: a1 (internal ID)";
    let mut log = Conversation::new();
    log.user("Find what the importer drops.")
        .call("Agent", r#"{"prompt":"Look at the importer."}"#, report.clone())
        .agent(report)
        .call("Agent", r#"{"prompt":"Look at the exporter."}"#, receipt);
    for n in 0..60 {
        let result = format!("part {n} is well and good\n").repeat(4);
        log.call("Bash", format!(r#"{{"command":"look {n}"}}"#), result);
    }
    extract(&mut log, 3_000);
    let record = record_in(&log);
    let told: Vec<usize> = facts.iter().map(|fact| record.matches(fact.as_str()).count()).collect();
    assert_eq!(told.iter().max(), Some(&1), "{record}");
    assert!(!record.contains("(another): Async") && !record.contains("internal ID"), "{record}");
}

#[test]
fn a_result_that_a_framework_repeats_as_the_agents_words_is_told_once() {
    let mut log = Conversation::new();
    log.user("Look at the market of kettles.");
    for n in 0..12 {
        let page = format!("Kettles of maker {n}\nIn {}, the maker sold part_{n} of all kettles.", 1990 + n);
        log.call("transfer_to_analyst", "{}", "Transferred to analyst, adopting the role of analyst.")
            .call("news", format!(r#"{{"query":"maker {n}"}}"#), page.clone())
            .agent(page);
    }
    for n in 0..30 {
        log.call("Bash", format!(r#"{{"command":"look {n}"}}"#), format!("part {n} is well\n").repeat(9));
    }
    extract(&mut log, 3_000);
    let record = record_in(&log);
    assert!(!record.contains("agent: Kettles") && !record.contains("adopting"), "{record}");
}

#[test]
fn of_an_agent_that_was_given_a_task_its_report_is_told_and_no_draft() {
    let by_other = |text: String| said_by(Message::assistant(text), "a29b");
    let report = "The importer reads dates as text, and load_9 drops the empty ones.";
    let mut log = Conversation::new();
    log.user("Find what the importer drops.").call("Agent", r#"{"prompt":"Look at the importer."}"#, report);
    for n in 0..7 {
        log.add(by_other(format!("Table t{n} loses its rows in load_{n}, because date_{n} may be empty.")));
    }
    log.add(by_other("I have looked at all of its tables.".to_owned())).agent("So the importer drops dates.");
    for n in 0..60 {
        let result = format!("part {n} is well and good\n").repeat(4);
        log.call("Bash", format!(r#"{{"command":"look {n}"}}"#), result);
    }
    extract(&mut log, 3_000);
    let record = record_in(&log);
    assert!(record.contains(&format!("agent (another): {report}")), "{record}");
    assert!(!record.contains("loses its rows"), "{record}");
}

#[test]
fn what_the_user_said_while_refusing_a_call_is_told_with_it() {
    let words = "Keep the two types apart, please.\nAnd rename the second.";
    let mut log = Conversation::new();
    log.user("Add the new type.");
    for n in 0..60 {
        let arguments = format!(r#"{{"command":"look {n}"}}"#);
        if n == 20 {
            let call = tool_call("Bash", arguments);
            let refused = ToolResult::answer(&call, format!("Refused. The user said:\n{words}"));
            log.add(Message::calling(vec![call])).add(crate::quoting_user(Message::tool(refused), words));
        } else {
            log.call("Bash", arguments, format!("part {n} is well\n").repeat(9));
        }
    }
    extract(&mut log, 3_000);
    let record = record_in(&log);
    let told =
        "m41 Bash look 20: refused; the user said: Keep the two types apart, please. And rename the second.";
    assert!(record.contains(told), "{record}");
    assert_eq!(record.matches("Keep the two types").count(), 1, "{record}");
}

#[test]
fn short_messages_come_before_pieces_of_what_the_user_pasted() {
    let towns = ["Lisbon", "Ulm", "Bonn", "Graz", "Turku", "Porto", "Ghent", "Kyoto"];
    let mut log = Conversation::new();
    log.user("Help me with the tables of our offices.");
    for (n, town) in towns.iter().enumerate() {
        let trace = (0..30).map(|line| format!("  at load_{town}_{line} (parser_{line}.{town}:{line})\n"));
        log.agent("Which one?")
            .user(format!("The desk in {town} moved to floor {n}."))
            .agent("And what does it print?")
            .user(trace.collect::<String>());
    }
    for n in 0..30 {
        log.agent(format!("I see, and what is next, after {n}? {}", "Well. ".repeat(20)))
            .user(format!("Wait a moment {n}"));
    }
    extract(&mut log, 2_600);
    let view = texts(&log).join("\n");
    for town in towns {
        assert!(view.contains(&format!("The desk in {town} moved to floor")), "{town}: {view}");
    }
}

#[test]
fn what_the_user_pasted_comes_after_what_is_said_about_it() {
    let towns = ["Lisbon", "Ulm", "Bonn", "Graz"];
    let mut log = Conversation::new();
    log.user("Help me with the tables of our offices.");
    for town in towns {
        let lines = (0..60).map(|line| format!("  at load_{town}_{line} (parser_{line}.{town}:{line})\n\n"));
        let pasted: String = lines.collect();
        log.agent("I look at it now.")
            .user(format!("{pasted}So the desk in {town} is the only one that fails."));
    }
    for n in 0..30 {
        log.agent(format!("I see, and what is next, after {n}? {}", "Well. ".repeat(20))).user("Go on.");
    }
    extract(&mut log, 5_500);
    let view = texts(&log).join("\n");
    for town in towns {
        assert!(view.contains(&format!("So the desk in {town} is the only one")), "{town}: {view}");
    }
}

#[test]
fn the_answer_that_the_user_answers_to_stays_in_one_piece_with_its_head_and_tail() {
    let mut log = Conversation::new();
    log.user("Count the lines.");
    for n in 0..20 {
        log.agent(format!("answer {n} is about item_{n} {}", "and more ".repeat(10)))
            .user(format!("and then number {n}?"));
    }
    log.agent(format!("I count them so: {} and that is how.", "one line and ".repeat(40)))
        .user("I mean those that are not blank.");
    extract(&mut log, 1_600);
    let view = log.view();
    let [.., antecedent, _] = view.messages() else { panic!("too few messages") };
    let text = antecedent.message().to_text();
    assert_eq!(antecedent.role(), Role::Assistant);
    assert!(text.starts_with("I count them so: ") && text.ends_with(" and that is how."), "{text}");
    assert!(text.contains("omitted"), "{text}");
}

/// Returns a list of the boats at each of some piers.
fn moorings(piers: Range<usize>) -> impl Iterator<Item = String> {
    let line = |n: usize, k: usize| format!("boat_{n}_{k} lies at mooring {k} of pier_{n}\n");
    piers.map(move |n| (0..9).map(|k| line(n, k)).collect())
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
        log.user("Look after the harbour.")
            .agent(format!("{}\n\n{proposed}\n\n{question}", other.join("\n\n")))
            .user(answer);
        append_results(&mut log, moorings(0..12));
        log.user("Now count the boats.");
        extract(&mut log, 3_600);
        let record = record_in(&log);
        assert!(record.contains(&format!("{question}\nm2 user: {answer}\n")), "{question}: {record}");
        assert!(record.contains(proposed), "{question}: {record}");
        // The record of a record has both as well.
        append_results(&mut log, moorings(12..24));
        log.user("And count them once more.");
        extract(&mut log, 6_400);
        let record = record_in(&log);
        assert!(record.contains(&format!("{question}\nm2 user: {answer}\n")), "{question}: {record}");
    }
}

#[test]
fn of_a_list_the_items_stay_that_the_user_picked() {
    let mut log = Conversation::new();
    log.user("Suggest names for the new bakery, five.")
        .agent("1. Krume\n2. Zum Laib\n3. Morgenmehl\n4. Zeitig\n5. Sauerteig & Salz")
        .user("3 and 5 are nice.");
    for n in 0..30 {
        let weather = "is about the weather in May, which is long and fine and of no use at all.";
        log.agent(format!("The answer number {n} {weather}")).user(format!("And what about {n}?"));
    }
    extract(&mut log, 2_500);
    let record = record_in(&log);
    let expected = "3. Morgenmehl […]\n    5. Sauerteig & Salz\nm2 user: 3 and 5 are nice.\n";
    assert!(record.contains(expected), "{record}");
}

#[test]
fn a_short_pick_stands_below_the_item_that_it_means() {
    let item = |n: usize| format!("{n}. Pier {n} of harbour_{n} needs a crane_{n}, says registry_{n}.");
    let items: Vec<String> = (1..9).map(item).collect();
    let rest = "All of them can wait, as no ferry of the coast_line leaves before the summer.";
    let question = "Which one first?";
    for (answer, picked) in [("2", 2), ("then 3", 3)] {
        let mut log = Conversation::new();
        log.user("Look after the harbour.")
            .agent(format!("{}\n\n{rest}\n\n{question}", items.join("\n")))
            .user(answer);
        append_results(&mut log, moorings(0..12));
        log.user("Now count the boats.");
        extract(&mut log, 3_600);
        let record = record_in(&log);
        assert!(record.contains(&item(picked)), "{answer}: {record}");
        assert!(record.contains(&format!("{question}\nm2 user: {answer}\n")), "{answer}: {record}");
    }
}

#[test]
fn words_of_several_people_are_told_apart() {
    let say = |log: &mut Conversation, numbers: Range<usize>| {
        for n in numbers {
            let text = format!("I think that option {n} costs about {} euros a month.", 300 + 7 * n);
            log.add(said_by(Message::user(text), ["Ana", "Ben"][n % 2]));
        }
    };
    let mut log = Conversation::new();
    for round in 0..2 {
        say(&mut log, round * 60..round * 60 + 60);
        extract(&mut log, 2_000);
        let record = record_in(&log);
        let said: Vec<&str> = record.lines().filter(|line| line.starts_with("- ")).collect();
        assert!(!said.is_empty(), "{record}");
        for line in said {
            let n: usize = line.split(' ').nth(6).unwrap().parse().unwrap();
            let author = ["- Ana: I think", "- Ben: I think"][n % 2];
            assert!(line.starts_with(author), "{line}: {record}");
        }
    }
}

#[test]
fn of_several_plans_the_newest_is_quoted() {
    let plan = |n: &str, what: &str| {
        let parts = ["oak", "ash", "elm", "yew"];
        let parts = parts.map(|part| format!("- `{what}_{part}()` makes the {part} of the {what}s."));
        let list = parts.join("\n");
        format!(
            "# Task {n}: the {what}s\n\nThe frame is there.\n\n{list}\n\nThen run the tests of the {what}s."
        )
    };
    let mut log = Conversation::new();
    for (n, what) in [("1.2", "wheel"), ("1.3", "guild")] {
        let arguments = serde_json::json!({ "plan": plan(n, what) });
        log.user(format!("Start with task {n}."))
            .call("ExitPlanMode", arguments, "User has approved your plan.")
            .agent(format!("Task {n} is complete."));
    }
    append_results(&mut log, (0..8).map(|n| format!("part {n}: {}\n", "beam ".repeat(90))));
    log.user("Start task 1.4.").agent("I look at the grain.");
    extract(&mut log, 3_000);
    let record = record_in(&log);
    assert!(!record.contains("wheel_"), "{record}");
    assert!(record.contains("guild_"), "{record}");
}

#[test]
fn a_summary_of_messages_that_are_there_is_not_quoted() {
    for n_before in [0, 12] {
        let mut log = Conversation::new();
        log.user("Build the mill.");
        for n in 0..30 {
            if n == n_before {
                log.add(Message::user("The smith forged the gate_key by hand, and it fits.").compacted());
            }
            let announced = format!("Step {n} is about item_{n}.");
            log.announced_call(announced, "read", "{}", "more ".repeat(60));
        }
        log.user("And now?").agent("I look.");
        extract(&mut log, 2_400);
        let view = texts(&log).join("\n");
        assert_eq!(view.contains("gate_key"), n_before == 0, "{view}");
    }
}

#[test]
fn an_answer_that_the_agent_hands_in_by_a_call_is_told_as_its_words() {
    let kettle = |n: usize| format!("{n}) Kettle_{n} of maker_{n} costs {} euros.", 40 + n);
    let kettles: Vec<String> = (1..=5).map(kettle).collect();
    let in_lines = format!("The kettles:\n{}", kettles.join("\n"));
    let without_blanks = "最も良いやかんは一番目の会社が作ったもので値段は四十一ユーロです。".repeat(3);
    for (answer, expected) in [
        (&in_lines, format!("m3 agent: {}", in_lines.replace('\n', "\n    "))),
        (&without_blanks, "m3 agent: 最も良い".to_owned()),
    ] {
        let mut log = Conversation::new();
        log.user("Find five kettles.")
            .call("open", r#"{"url":"https://kettles.example"}"#, "Opened it.")
            .call("done", serde_json::json!({"text": answer, "success": true}), answer.as_str())
            .user("Thank you. Which of them is sold here, and since when?");
        let line = |n: usize, k: usize| format!("boat_{n}_{k} lies at mooring {k} of pier_{n}\n");
        append_results(&mut log, (0..12).map(|n| (0..9).map(|k| line(n, k)).collect()));
        log.user("Now count the boats of the harbour.");
        extract(&mut log, 3_600);
        let record = record_in(&log);
        assert!(record.contains(&expected), "{record}");
        assert!(!record.contains("m3 done") && !record.contains("m4 done"), "{record}");
    }
}
