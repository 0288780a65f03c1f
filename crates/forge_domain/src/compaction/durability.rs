//! A compacted conversation stays the same when it is written and read, rewound or undone.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixture::{Script, conversation, fit_again, picture};
use crate::{Context, Conversation, Entry, EntryId};

/// Rounds of messages, each followed by what is done: the conversation is compacted, undone, cleared, or let
/// be.
fn rounds() -> impl Strategy<Value = Vec<(String, u8)>> {
    let unit = prop_oneof![Just("u"), Just("a"), Just("tr"), Just("trr"), Just("tR"), Just("U"), Just("tur")];
    let notation = prop::collection::vec(unit, 1..10).prop_map(|units| "u".to_owned() + &units.concat());
    prop::collection::vec((notation, 0_u8..6), 1..9)
}

const BLOCKS: [&str; 3] = [
    "{ strategies: [sliding_window], token_threshold: 60%, max_tokens: 30% }",
    "{ strategies: [extraction, sliding_window] }",
    "{ model: m, message_threshold: 6, retention_window: 3 }",
];

/// Returns the conversation after those rounds, and its view at every length that its log had.
fn play(rounds: &[(String, u8)], yaml: &str) -> (Conversation, Vec<(usize, Context)>) {
    let mut log = Conversation::new();
    let mut views = vec![(0, log.view())];
    for (notation, then) in rounds {
        for message in conversation(notation).messages() {
            log.append(message.clone());
            views.push((log.entries().len(), log.view()));
        }
        match then {
            0 => {
                log.undo();
            }
            1 => {
                log.clear().unwrap();
            }
            2 => {}
            _ => {
                fit_again(yaml, 1_500, &mut log, &Script::summarizing());
            }
        }
        views.push((log.entries().len(), log.view()));
        assert_eq!(log.refold(), log.view(), "the view is what the log gives");
        assert!(log.coverage().is_complete());
    }
    (log, views)
}

fn lines_of(log: &Conversation) -> Vec<Value> {
    serde_json::from_value(serde_json::to_value(log).unwrap()).unwrap()
}

fn read(lines: &[Value]) -> Result<Conversation, String> {
    serde_json::from_value(json!(lines)).map_err(|error| error.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_was_written_is_read_again_and_goes_on_alike(rounds in rounds(), block in 0..BLOCKS.len(), after in 0..BLOCKS.len()) {
        let (mut log, _) = play(&rounds, BLOCKS[block]);
        let mut again = read(&lines_of(&log)).unwrap();
        prop_assert_eq!(&again, &log);
        for log in [&mut log, &mut again] {
            log.add_all("utrtrutr");
            fit_again(BLOCKS[after], 1_500, log, &Script::summarizing());
        }
        prop_assert_eq!(again, log);
    }

    #[test]
    fn rewound_it_is_what_it_was(rounds in rounds(), block in 0..BLOCKS.len()) {
        let (log, views) = play(&rounds, BLOCKS[block]);
        for (n_entries, view) in views {
            prop_assert_eq!(log.rewound(n_entries).unwrap().view(), view);
        }
        prop_assert_eq!(log.rewound(log.entries().len() + 1), None);
    }

    #[test]
    fn undone_layer_by_layer_every_message_is_back(rounds in rounds(), block in 0..BLOCKS.len()) {
        let (mut log, _) = play(&rounds, BLOCKS[block]);
        let in_force = log.live_entries().len();
        let mut undone = Vec::new();
        while let Some(id) = log.undo() {
            undone.push(id);
            prop_assert!(log.coverage().is_complete());
            prop_assert_eq!(&log.refold(), &log.view());
            prop_assert_eq!(&read(&lines_of(&log)).unwrap(), &log);
        }
        prop_assert!(undone.len() >= in_force);
        prop_assert!(undone.is_sorted_by(|a, b| a > b), "{:?}", undone);
        let all: Vec<_> = log.messages().cloned().collect();
        let view = log.view();
        prop_assert_eq!(view.messages(), &all[..]);
    }

    #[test]
    fn a_line_that_is_missing_or_doubled_is_found(rounds in rounds(), at in any::<prop::sample::Index>(), doubled: bool) {
        let (log, _) = play(&rounds, BLOCKS[0]);
        let mut lines = lines_of(&log);
        let at = at.index(lines.len());
        let line = lines.remove(at);
        let is_last = at == lines.len();
        if doubled {
            lines.insert(at, line.clone());
            lines.insert(at, line);
        }
        match read(&lines) {
            // Without its last line a log is that of a moment ago.
            Ok(shorter) if !doubled && is_last => prop_assert_eq!(Some(shorter), log.rewound(at)),
            // A message that nothing later refers to leaves no trace but its id.
            Ok(shorter) => prop_assert!(!doubled && shorter.coverage().is_complete() && shorter != log),
            Err(_) => {}
        }
    }
}

#[test]
fn one_compaction_is_undone_at_a_time() {
    let mut log = conversation("suaaaaaaaaaaaaaaaaaa");
    let raw = log.view();
    fit_again("strategies: [extraction]", 2_000, &mut log, &Script::summarizing());
    assert!(log.view().messages().iter().any(|message| message.message().is_compacted));
    let first = log.view();
    log.add_all("trtrtrtr");
    log.clear().unwrap();
    let notation = "suaaaaaaaaaaaaaaaaaatrtrtrtr";
    assert_eq!(log.live_entries().len(), 1, "the second absorbed the first");
    assert_eq!(log.undo(), Some(EntryId::nth(1)));
    let kept = log.view().messages()[..first.messages().len()].to_vec();
    assert_eq!(kept, first.messages(), "{}", picture(notation, &log));
    assert_eq!(log.undo(), Some(EntryId::nth(0)));
    assert_eq!(log.view().messages()[..raw.messages().len()], *raw.messages());
    assert_eq!(log.view().messages().len(), notation.len());
    assert_eq!(log.undo(), None);
}

#[test]
fn clearing_leaves_the_system_messages_and_can_be_undone() {
    let mut log = conversation("ssutra");
    log.clear().unwrap();
    assert_eq!(picture("ssutra", &log), "ss[utra]");
    assert!(log.clear().unwrap().is_none());
    log.undo();
    assert_eq!(picture("ssutra", &log), "ssutra");
}

#[test]
fn a_message_that_no_reply_follows_can_be_withdrawn() {
    for (notation, expected) in [
        ("su", "s[u]"),
        ("suau", "sua[u]"),
        // A request that was stopped before stays.
        ("suauu", "suau[u]"),
        ("sua", "sua"),
        ("sutr", "sutr"),
        ("s", "s"),
    ] {
        let mut log = conversation(notation);
        let is_withdrawn = log.withdraw().unwrap().is_some();
        assert_eq!(picture(notation, &log), expected);
        assert_eq!(is_withdrawn, expected != notation, "{notation}");
        assert!(!is_withdrawn || log.undo().is_some());
        assert_eq!(picture(notation, &log), notation);
    }
}

#[test]
fn lines_that_do_not_follow_from_those_before_are_refused() {
    let message = |id: u64| json!({"message": {"id": id, "tokens": 1, "message": {"body": {"user": "x"}}}});
    let compaction = |id: u64, replaces: Value, absorbs: Value| {
        let replacements = json!([{"replaces": replaces, "with": []}]);
        json!({"compaction": {"id": id, "replacements": replacements, "absorbs": absorbs}})
    };
    let ab = [message(0), message(1)];
    for (name, lines, expected) in [
        ("sound", vec![compaction(0, json!([[0, 1]]), json!([]))], ""),
        (
            "absorbing",
            vec![compaction(0, json!([[0, 0]]), json!([])), compaction(1, json!([[0, 1]]), json!([0]))],
            "",
        ),
        ("an id twice", vec![message(1)], "gives the id m1"),
        ("out of turn", vec![compaction(1, json!([[0, 0]]), json!([]))], "c1 out of its turn"),
        ("unknown", vec![compaction(0, json!([[0, 2]]), json!([]))], "replaces m2, which was never appended"),
        ("nothing left", vec![compaction(0, json!([]), json!([]))], "where none left"),
        ("absorbs nothing", vec![compaction(0, json!([[0, 1]]), json!([3]))], "absorbs c3"),
        (
            "twice",
            vec![compaction(0, json!([[0, 0]]), json!([])), compaction(1, json!([[0, 1]]), json!([]))],
            "replaces m0, which c0 has replaced",
        ),
        ("undoes nothing", vec![json!({"undo": 0})], "undoes c0"),
        ("no range", vec![compaction(0, json!([[1, 0]]), json!([]))], "no ranges"),
        ("an endless range", vec![compaction(0, json!([[0, u64::MAX]]), json!([]))], "no ranges"),
    ] {
        let lines: Vec<_> = ab.iter().cloned().chain(lines).collect();
        let actual = read(&lines).map(|log| log.coverage().is_complete());
        match (actual, expected) {
            (Ok(complete), "") => assert!(complete, "{name}"),
            (actual, expected) => {
                let error = actual.unwrap_err();
                assert!(!expected.is_empty() && error.contains(expected), "{name}: {error}");
            }
        }
    }
}

#[test]
fn a_summary_is_what_compaction_says() {
    let mut log = conversation("suaaaaaaaaaaaaaaaaaa");
    fit_again("strategies: [extraction]", 2_000, &mut log, &Script::summarizing());
    let said: Vec<_> = log
        .view()
        .messages()
        .iter()
        .filter(|m| m.message().is_compacted)
        .map(|m| m.message().to_text())
        .collect();
    let entry = log.entries().iter().find_map(|entry| match entry {
        Entry::Compaction(entry) => Some(entry.summary()),
        Entry::Message(_) | Entry::Undo(_) => None,
    });
    assert_eq!(said.len(), 1);
    assert_eq!(entry, said.into_iter().next());
}
