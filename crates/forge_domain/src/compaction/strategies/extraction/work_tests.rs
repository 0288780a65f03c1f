//! Tests of the passages that a record quotes from the work: files, results, and what the agent wrote.

use std::collections::BTreeSet;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::tests::{append_results, extract, record_in};
use crate::compaction::fixture::{Script, fit_again, texts};
use crate::{Conversation, Tokens};

#[test]
fn an_excerpt_says_if_its_file_was_changed_since() {
    let mut log = Conversation::new();
    let file = "fn harbour_door() {\n    turn_key(left);\n    push(door);\n    ring(bell);\n}\n";
    let edit = |old: &str, new: &str| json!({"path": "door.rs", "old": old, "new": new});
    let refused = "    lift_harbour_door(by_crane);\n    ring(bell_of_harbour);";
    log.user("Open the harbour door.")
        .call("read", json!({"path": "door.rs"}), file)
        .call("edit", edit("    turn_key(left);", "    turn_key(right);"), "Edited door.rs.")
        .failed_call("edit", edit("    open(gate);", refused), "Error: no such text");
    for n in 0..12 {
        log.agent(format!("Step {n} is done. {}", "And more of it. ".repeat(20)));
    }
    extract(&mut log, 2_400);
    let record = record_in(&log);
    assert!(record.contains("m2 read door.rs, changed since:\n"), "{record}");
    // The call failed, so this text is in no file.
    assert!(!record.contains("lift_harbour_door"), "{record}");
}

#[test]
fn of_a_file_that_was_written_as_a_whole_the_lines_before_are_not_told() {
    let line = |of: &str, n: usize| format!("{of}_grain_{n}(of_mill_{n}, into_sack_{n});\n");
    let [old, new] = ["weigh", "grind"].map(|of| (0..5).map(|n| line(of, n)).collect::<String>());
    let mut log = Conversation::new();
    log.user("Draw the mill.").call("read", json!({"path": "view.js"}), old).call(
        "write",
        json!({"path": "view.js", "content": new}),
        "Wrote view.js.",
    );
    for n in 0..12 {
        log.agent(format!("Step {n} is done. {}", "And more of it. ".repeat(20)));
    }
    log.user("Go on with the sails.");
    extract(&mut log, 3_600);
    let record = record_in(&log);
    assert!(record.contains("grind_grain_0(of_mill_0"), "{record}");
    assert!(!record.contains("weigh_grain_1(of_mill_1"), "{record}");
}

#[test]
fn a_file_that_the_request_names_is_quoted_first() {
    for named in [3, 9] {
        let mut log = Conversation::new();
        log.user("Sort the documents of the harbour.");
        let lines = |n: usize| (0..10).map(move |nth| format!("boat_{n}_{nth} lies at mooring {nth}\n"));
        append_results(&mut log, (0..12).map(|n| lines(n).collect()));
        log.user(format!("Now move part{named}.md into the archive, please."))
            .agent("I begin with the archive.");
        extract(&mut log, 2_400);
        let record = record_in(&log);
        let n_quoted = |n: usize| record.matches(&format!("boat_{n}_")).count();
        let others = (0..12).filter(|n| *n != named).map(n_quoted).max();
        assert!(n_quoted(named) >= 8 && Some(n_quoted(named)) > others, "{named}: {record}");
    }
}

#[test]
fn what_a_result_repeats_is_not_quoted_again() {
    let notice = "The northern gate stays closed until the divers have repaired its lowest hinge.";
    let again = "Please do not moor at the northern gate while the flag is up.";
    let mut log = Conversation::new();
    log.user("Look after the notices of the harbour.").call(
        "create_document",
        json!({ "title": "Notice", "text": notice }),
        format!("{{\"text\":\"{notice}\"}}\n{again}\nSaved as doc-77123."),
    );
    append_results(&mut log, (0..6).map(|n| format!("part_{n}: {}", "and more of it ".repeat(40))));
    log.user("Now write the tests, please.").agent(again);
    extract(&mut log, 2_400);
    let record = record_in(&log);
    assert_eq!(record.matches(notice).count(), 1, "{record}");
    assert!(record.contains("doc-77123") && !record.contains(again), "{record}");
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
    for (documents, question, answer) in [
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
        log.user("Read the documents.");
        append_results(&mut log, documents);
        log.agent("That was all of them.").user(question);
        let target = log.view().size().tokens.share(60, 100);
        let yaml = format!(
            "{{ strategies: [extraction], token_threshold: {}, max_tokens: {target} }}",
            target + Tokens::new(1)
        );
        let fit = fit_again(&yaml, 100_000, &mut log, &Script::new(Vec::new()));
        let text = texts(&log).join("\n");
        assert!(text.contains(answer), "{question}: {text} {:?}", fit.report);
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
        log.user("Sort the documents of the harbour.");
        append_results(&mut log, (0..12).map(|n| (0..10).map(|k| line(n, k)).collect()));
        log.agent("I have five points.").user(request);
        extract(&mut log, 2_400);
        let text = texts(&log).join("\n");
        assert!(quoted.is_none_or(|quoted| text.contains(quoted)), "{request}: {text}");
        assert!(!text.contains("Skip it"), "{request}: {text}");
    }
}

#[test]
fn what_the_agent_wrote_last_is_quoted_and_not_what_it_replaced() {
    let mut log = Conversation::new();
    log.user("Let the parser read tables.");
    for n in 0..12 {
        let old = format!("    let was_{n} = read_line({n});\n    check(was_{n})?;");
        let new = format!("    let table_{n} = read_table({n});\n    sort(table_{n})?;");
        let arguments = json!({
            "file_path": "src/parser.rs",
            "old_string": format!("fn part_{n}() {{\n{old}\n}}"),
            "new_string": format!("fn part_{n}() {{\n{new}\n}}"),
        });
        let result = format!("The file now has:\n  1\tfn part_{n}() {{\n  2\t{new}");
        log.call("Edit", arguments, result);
    }
    for n in 0..6 {
        log.agent(format!("Step {n} is done. {}", "And more of it. ".repeat(20)));
    }
    extract(&mut log, 3_000);
    let record = record_in(&log);
    let written = "fn part_11() {\n        let table_11 = read_table(11);\n        sort(table_11)?;";
    assert!(record.contains(written), "{record}");
    for gone in ["read_line", "check(was", "The file now has"] {
        assert!(!record.contains(gone), "{gone}: {record}");
    }
}

#[test]
fn what_only_announces_a_call_takes_no_room() {
    let mut log = Conversation::new();
    log.user("Find out why the doors of the harbour do not open.");
    for (n, door) in ["north", "south", "east", "west"].into_iter().enumerate() {
        let found = format!("The lock number {n} of that door turns the wrong way round.");
        let said = format!("{found} Now I look at the next door of them.");
        let lines: Vec<String> = (0..20).map(|line| format!("hinge {line} of {door}: fast")).collect();
        log.announced_call(said, "read", json!({"path": format!("doors/{door}.txt")}), lines.join("\n"));
    }
    for n in 0..4 {
        log.agent(format!("Step {n} is done. {}", "And more of it. ".repeat(30)));
    }
    log.user("Go on.");
    extract(&mut log, 3_600);
    let record = record_in(&log);
    assert!(record.contains("of that door turns the wrong way round.\n"), "{record}");
    assert!(!record.contains("Now I look"), "{record}");
}

#[test]
fn two_of_many_results_that_answer_alike_are_enough() {
    let mut log = Conversation::new();
    log.user("Look after the open issues.");
    for n in 0..12 {
        // The other lines say something, so a third answer is not what is left to quote.
        let other = |k: usize| format!("#{n}{k} waits for part_{n}_{k} and crate_{k}_{n}");
        let others: Vec<String> = (0..30).map(other).collect();
        let issue = format!("#950 composite graders want an example, says Marta {n}\n").repeat(8);
        let listed = format!("{issue}\n{}", others.join("\n"));
        log.call("run", json!({"command": format!("issues list {n}")}), listed);
    }
    log.agent("There are many open issues.").user("And what of #950, composite graders, by Marta?");
    extract(&mut log, 6_100);
    let record = record_in(&log);
    let answers = record.lines().map(str::trim).filter(|line| line.contains("says Marta"));
    let answers: BTreeSet<&str> = answers.collect();
    assert_eq!(answers.len(), 1, "{record}");
}

#[test]
fn the_contents_of_what_left_list_no_fields_that_every_answer_has() {
    let fields = ["number", "title", "state", "owner", "labels", "created", "updated", "comments"];
    let settings = ["retries", "backoff", "port", "depth", "cache", "width", "proxy", "verbose"];
    let mut log = Conversation::new();
    log.user("Look after the open issues.");
    for n in 0..5 {
        let keys = if n == 2 { settings } else { fields };
        let rows: Vec<String> = keys.iter().map(|key| format!("{key}: value{n}")).collect();
        log.call("run", json!({"command": format!("show {n}")}), rows.join("\n"));
    }
    for n in 0..8 {
        log.agent(format!("Step {n} is done. {}", "And more of it. ".repeat(20)));
    }
    extract(&mut log, 2_600);
    let record = record_in(&log);
    let (_, contents) = record.split_once("# Left out").unwrap_or_else(|| panic!("{record}"));
    assert!(contents.contains("retries backoff port"), "{record}");
    assert!(!contents.contains("title state"), "{record}");
}

#[test]
fn a_command_that_ran_on_is_told_by_the_call_that_asked_for_its_end() {
    let mut log = Conversation::new();
    log.user("Make the pages.");
    log.call("exec_command", json!({"cmd": "make docs"}), "Process running with session ID 5674");
    log.call("write_stdin", json!({"session_id": 5674, "chars": ""}), "Wrote twelve pages");
    for n in 0..12 {
        log.agent(format!("Step {n} is done. {}", "And more of it. ".repeat(20)));
    }
    extract(&mut log, 2_400);
    let record = record_in(&log);
    assert!(record.contains("write_stdin make docs: Wrote twelve pages"), "{record}");
    assert!(!record.contains("make docs: Process running"), "{record}");
}

#[test]
fn the_same_call_with_the_same_result_is_told_once() {
    let mut log = Conversation::new();
    log.user("Help the customer, who asks about cameras.");
    for n in 0..30 {
        let id = 3_377 + n % 3;
        let result = format!("name: Action Camera {id}");
        log.call("get_product_details", json!({"product_id": id.to_string()}), result)
            .agent(format!("Then {n} was asked about. {}", "And more of it. ".repeat(9)));
    }
    extract(&mut log, 3_000);
    let record = record_in(&log);
    let told = |id: usize| record.matches(&format!("get_product_details {id}: ")).count();
    let told = [3_377, 3_378, 3_379].map(told);
    assert_eq!(told.iter().max(), Some(&1), "{record}");
}

#[test]
fn a_page_is_told_by_what_most_pages_do_not_show() {
    let names = ["Home", "Help", "Terms", "Basket", "Deals"];
    let page = |n: usize| {
        let link = |k: usize| format!("[{}] link \"{}\"\n", 100 + k, names[(k + n) % names.len()]);
        let links: String = (0..30).map(link).collect();
        format!("RootWebArea \"Step {n}\"\n{links}[907] button \"Slot of day {n}\"\n")
    };
    let mut log = Conversation::new();
    log.user("Buy a kettle, and stop before the payment.");
    for n in 0..30 {
        log.call("click", json!({"id": 907}), page(n));
    }
    extract(&mut log, 4_000);
    let record = record_in(&log);
    let is_told = |n: &usize| {
        let shown = format!("RootWebArea \"Step {n}\"; button \"Slot of day {n}\"");
        record.contains(&format!("click \"Slot of day {}\": {shown}", n - 1))
    };
    assert!((1..30).any(|n| is_told(&n)), "{record}");
    assert!(!record.contains("link \"Home\"") && !record.contains("32 lines"), "{record}");
}
