//! Every key of the `compact:` block changes what becomes of a context: a table with a row for each.

use std::collections::BTreeSet;

use futures::FutureExt;
use pretty_assertions::assert_eq;

use super::fixture::{Script, budget, conversation, fit_again, settings};
use super::{Compact, ContextCompactor};
use crate::Conversation;

/// A pair of blocks that differ in one key alone, and the conversation on which their results differ.
struct Row {
    key: &'static str,
    /// The other keys of both blocks.
    both: &'static str,
    one: &'static str,
    other: &'static str,
    log: Log,
    room: u64,
}

enum Log {
    /// That of the tests' notation.
    Of(&'static str),
    /// One in which people say what to do and the agent names things.
    Told,
}

const SLIDE: &str = "strategies: [sliding_window]";

/// A new key gets a row here; nothing else is to be done.
const ROWS: &[Row] = &[
    row("token_threshold", SLIDE, "95%", "60%", Log::Of("suaaaaaaa"), 1_020),
    row("message_threshold", SLIDE, "12", "6", Log::Of("suaaaaaaa"), 100_000),
    row("turn_threshold", SLIDE, "9", "3", Log::Of("suauauaua"), 100_000),
    row("max_tokens", SLIDE, "60%", "30%", Log::Of("suaaaaaaa"), 1_020),
    row(
        "max_messages",
        "strategies: [sliding_window], message_threshold: 8",
        "7",
        "4",
        Log::Of("suaaaaaaa"),
        100_000,
    ),
    row(
        "max_turns",
        "strategies: [sliding_window], turn_threshold: 5",
        "3",
        "2",
        Log::Of("suauauauaua"),
        100_000,
    ),
    row(
        "retention_window",
        "model: m, strategies: [summarization], message_threshold: 8",
        "2",
        "6",
        Log::Of("suaaaaaaa"),
        100_000,
    ),
    row("user_share", SLIDE, "1%", "60%", Log::Of("suaaauaaauaaaa"), 1_500),
    row("preserve_system_messages", SLIDE, "true", "false", Log::Of("suasaaaaaa"), 1_020),
    row(
        "strategies",
        "retention_window: 2, max_tokens: 1000",
        "[sliding_window]",
        "[extraction]",
        Log::Told,
        1_100,
    ),
    row(
        "selection",
        "strategies: [sliding_window, clear_tool_results: { keep: 0 }], retention_window: 0",
        "ladder",
        "best",
        Log::Of("sutRtRtRtRtRtRa"),
        7_000,
    ),
    row(
        "min_reduction",
        "strategies: [clear_tool_results: { keep: 4 }], max_tokens: 58%",
        "1%",
        "90%",
        Log::Of("sutRtRtRtRtR"),
        7_000,
    ),
    row(
        "model",
        "retention_window: 2, message_threshold: 8, max_messages: 6",
        "a",
        "null",
        Log::Of("suaaaaaaa"),
        100_000,
    ),
    row(
        "prompt",
        "model: m, strategies: [summarization], retention_window: 2, message_threshold: 8, max_messages: 6",
        "mine",
        "yours",
        Log::Of("suaaaaaaa"),
        100_000,
    ),
    row(
        "summary_tag",
        "model: m, strategies: [summarization], retention_window: 2, message_threshold: 8, max_messages: 6",
        "forge_context_summary",
        "another",
        Log::Of("suaaaaaaa"),
        100_000,
    ),
    row(
        "summary_max_tokens",
        "model: m, strategies: [summarization], retention_window: 2, message_threshold: 8, max_messages: 6",
        "100",
        "999999",
        Log::Of("suaaaaaaa"),
        100_000,
    ),
    row(
        "focus",
        "strategies: [extraction], retention_window: 0, max_tokens: 1000",
        "parse_item_1",
        "null",
        Log::Told,
        1_100,
    ),
    row(
        "pin",
        "strategies: [sliding_window], retention_window: 1, user_share: 1%",
        "[never]",
        "[nothing]",
        Log::Told,
        1_000,
    ),
    row(
        "background",
        "model: m, strategies: [summarization], retention_window: 2, message_threshold: 8",
        "true",
        "false",
        Log::Of("suaaaaaaa"),
        100_000,
    ),
    row("auto_compact", SLIDE, "true", "false", Log::Of("suaaaaaaa"), 1_020),
];

const fn row(
    key: &'static str,
    both: &'static str,
    one: &'static str,
    other: &'static str,
    log: Log,
    room: u64,
) -> Row {
    Row { key, both, one, other, log, room }
}

fn conversation_with_orders() -> Conversation {
    let mut log = Conversation::new();
    log.user("Mend the parser.");
    let orders = ["You must never touch generated.rs.", "Always run the tests first.", "Keep the names."];
    for (nth, order) in orders.into_iter().enumerate() {
        log.agent(format!("parse_item_{nth} calls next_token_{nth}. {}", "Well. ".repeat(40))).user(order);
    }
    log.agent("Working on it. ".repeat(20)).agent("Done.");
    log
}

/// Returns the result: what the model now sees, and what the summarizer was asked.
fn outcome(row: &Row, value: &str) -> (String, Vec<String>, Vec<String>) {
    let mut log = match row.log {
        Log::Of(notation) => conversation(notation),
        Log::Told => conversation_with_orders(),
    };
    let script = Script::summarizing();
    let yaml = format!("{{ {}, {}: {value} }}", row.both, row.key);
    rehearse(&yaml, row.room, &log, &script);
    let fit = fit_again(&yaml, row.room, &mut log, &script);
    let seen = log.view().plain().map(|message| format!("{:?}", message.body)).collect();
    let asked = script.asked.lock().unwrap();
    let asked = asked.iter().map(|prompt| {
        let texts: Vec<String> =
            prompt.messages().iter().map(|message| message.message().to_text()).collect();
        format!("{:?} {texts:?}", prompt.options())
    });
    (fit.report.outcome.name().to_owned(), seen, asked.collect())
}

/// Requests ahead count among those to the summarizer.
fn rehearse(yaml: &str, room: u64, log: &Conversation, script: &Script) {
    let (budget, settings) = (budget(room), settings(yaml, room));
    let compactor = ContextCompactor::new();
    let rehearsing = compactor.rehearse(&settings, log.view(), &budget, script);
    rehearsing.now_or_never().expect("the script never waits");
}

/// Returns the existing keys, from the error about an unknown one.
fn keys() -> BTreeSet<String> {
    let refused = serde_saphyr::from_str::<Compact>("{ no_such_key: 1 }").unwrap_err();
    let known = match refused.without_snippet() {
        serde_saphyr::Error::SerdeUnknownField { expected, .. } => expected.clone(),
        other => panic!("{other:?}"),
    };
    known.into_iter().map(str::to_owned).collect()
}

#[test]
fn every_key_has_a_row_of_its_own() {
    let rows: BTreeSet<String> = ROWS.iter().map(|row| row.key.to_owned()).collect();
    assert_eq!(rows.len(), ROWS.len());
    assert_eq!(rows, keys(), "a key without a row may be read by nobody");
}

#[test]
fn every_key_changes_what_becomes_of_a_context() {
    for row in ROWS {
        let (one, other) = (outcome(row, row.one), outcome(row, row.other));
        assert!(
            one != other,
            "`{}: {}` and `{}: {}` are the same: {one:?}",
            row.key,
            row.one,
            row.key,
            row.other
        );
    }
}
