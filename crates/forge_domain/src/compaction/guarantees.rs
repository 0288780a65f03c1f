//! The guarantees of compaction as properties over random conversations, budgets and blocks.

use async_trait::async_trait;
use futures::FutureExt;
use proptest::prelude::*;

use super::fixture::{Script, budget, conversation, settings};
use super::{BrokenGuarantee, CompactionServices, ContextCompactor, fit_and_check};
use crate::{
    ChatStream, Conversation, Message, Model, ModelError, ModelId, ModelInfo, Prompt, ProviderError,
    ProviderId, ProviderService, SummaryTemplate, TokenCounter,
};

/// Returns the number of tries of each of the three properties: three thousand cases in all, which are the
/// same in every run, or `FORGE_CASES`.
///
/// ```text
/// FORGE_CASES=1000000 cargo test --release -p forge_domain guarantees
/// ```
#[expect(clippy::disallowed_methods, reason = "a person may ask a test for more")]
fn cases() -> u32 {
    let asked = std::env::var("FORGE_CASES").ok();
    let all: u32 = asked.map_or(3_000, |text| text.parse().expect("FORGE_CASES is a number"));
    all.div_ceil(3)
}

/// Conversations in the notation of the tests: any order of messages and exchanges, sizes mixed.
fn notations() -> impl Strategy<Value = String> {
    let unit = prop_oneof![
        3 => Just("u"), 3 => Just("a"), 5 => Just("tr"), 2 => Just("trr"), 1 => Just("tar"), 1 => Just("tur"), 1 => Just("tuR"),
        1 => Just("tR"), 1 => Just("Tr"), 1 => Just("U"), 1 => Just("A"), 1 => Just("s"), 1 => Just("tRrR"),
        1 => Just("t"), 1 => Just("r"), 1 => Just("n"), 1 => Just("K"),
    ];
    (
        prop_oneof![
            Just(""),
            Just("s"),
            Just("ss"),
            Just("su"),
            Just("sU"),
            Just("r"),
            Just("sRa"),
            Just("suN"),
            Just("Ku"),
            Just("snUK"),
        ],
        prop::collection::vec(unit, 0..40),
    )
        .prop_map(|(head, units)| head.to_owned() + &units.concat())
}

fn blocks() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("{}"),
        Just("{ strategies: [truncation] }"),
        Just("{ strategies: [sliding_window], retention_window: 0 }"),
        Just("{ strategies: [sliding_window: { keep_first: 2, keep_last: 4 }], message_threshold: 8 }"),
        Just("{ model: m, retention_window: 3 }"),
        Just("{ strategies: [extraction] }"),
        Just("{ strategies: [clear_tool_results] }"),
        Just("{ strategies: [clear_tool_results: { keep: 0, clear_at_least: 900, clear_tool_inputs: true }], retention_window: 0 }"),
        Just("{ strategies: [clear_tool_results, extraction], message_threshold: 12, token_threshold: 60% }"),
        Just("{ model: m, selection: best }"),
        Just("{ selection: best, strategies: [clear_tool_results: { keep: 1 }, extraction, sliding_window], turn_threshold: 4 }"),
        Just("{ model: m, selection: best, retention_window: 2 }"),
        Just("{ strategies: [extraction, sliding_window], token_threshold: 60%, max_tokens: 30% }"),
        Just("{ model: m, strategies: [summarization] }"),
        Just("{ message_threshold: 6, turn_threshold: 2 }"),
        Just("{ pin: ['^[2-5]', '[37]9?\\.'], retention_window: 2 }"),
        Just("{ pin: ['^1?[1-6]\\.'], strategies: [extraction, truncation], token_threshold: 60% }"),
        Just("{ pin: ['^[2-9]'], model: m, strategies: [truncation] }"),
        Just("{ turn_threshold: 3, strategies: [sliding_window: { keep_first: 2 }] }"),
        Just("{ preserve_system_messages: false, token_threshold: 50%, max_tokens: 10% }"),
    ]
    .prop_map(str::to_owned)
}

/// Fits the current conversation, checks it against every guarantee, and returns what it broke.
fn fit(yaml: &str, room: u64, conversation: &mut Conversation) -> Vec<BrokenGuarantee> {
    let (budget, settings) = (budget(room), settings(yaml, room));
    let (compactor, script) = (ContextCompactor::new(), Script::summarizing());
    let checked = fit_and_check(&compactor, &settings, conversation, &budget, &script).now_or_never();
    checked.expect("the script never waits").broken
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn a_compaction_keeps_every_guarantee(
        notation in notations(),
        yaml in blocks(),
        room in prop_oneof![600_u64..3_000, 3_000_u64..12_000],
    ) {
        prop_assert_eq!(fit(&yaml, room, &mut conversation(&notation)), []);
    }

    #[test]
    fn every_one_of_many_compactions_keeps_every_guarantee(
        rounds in prop::collection::vec(notations(), 1..8),
        yaml in blocks(),
        room in 600_u64..6_000,
    ) {
        let mut log = Conversation::new();
        for round in rounds {
            log.add_all(&round);
            prop_assert_eq!(fit(&yaml, room, &mut log), []);
        }
    }

    #[test]
    fn a_cancelled_compaction_leaves_no_trace(notation in notations(), room in 600_u64..3_000) {
        let (log, budget) = (conversation(&notation), budget(room));
        let settings = settings("{ model: m, retention_window: 0 }", room);
        let untouched = log.clone();
        let (silent, compactor) = (Silent(Script::summarizing()), ContextCompactor::new());
        // The summarizer never answers when it is asked: the caller gives up and drops the attempt.
        let given_up = compactor.fit(&settings, log.view(), &budget, &silent).now_or_never();
        prop_assert!(given_up.is_some() || silent.0.n_asked() > 0);
        prop_assert_eq!(&log, &untouched);
        let (mut once, mut twice) = (untouched, log);
        prop_assert_eq!(fit("{ model: m, retention_window: 0 }", room, &mut once), []);
        prop_assert_eq!(fit("{ model: m, retention_window: 0 }", room, &mut twice), []);
        prop_assert_eq!(once, twice);
    }
}

/// A summarizer that never answers.
struct Silent(Script);

#[async_trait]
impl ProviderService for Silent {
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
        drop(self.0.chat(prompt).await);
        std::future::pending().await
    }

    async fn models(&self, id: &ProviderId) -> Result<Vec<ModelInfo>, ProviderError> {
        self.0.models(id).await
    }
}

impl CompactionServices for Silent {
    fn templates(&self) -> &dyn SummaryTemplate {
        &self.0
    }

    fn providers(&self) -> &dyn ProviderService {
        self
    }

    fn counter(&self) -> &dyn TokenCounter {
        self.0.counter()
    }

    fn model(&self, id: &ModelId) -> Result<Model, ModelError> {
        self.0.model(id)
    }
}

#[test]
fn several_compactions_keep_every_guarantee() {
    let percent = "{ preserve_system_messages: false, token_threshold: 50%, max_tokens: 10% }";
    for (rounds, yaml, room) in [
        (&["stRu", "Tr"][..], percent, 1_251),
        (&["stRUtr", "", "uTr"], "{ message_threshold: 6, turn_threshold: 2 }", 2_160),
        (&["aUtuRU", "sstuRTr"], "{ strategies: [extraction] }", 2_631),
        (&["sAa", "turuTr"], "{}", 1_343),
        (&["stRTr"], "{ strategies: [sliding_window], retention_window: 0 }", 1_148),
        (&["ssatuR", "turtr"], "{}", 636),
        (
            &["ssu", "tRrRutrrtrutrrtrru", "sUt"],
            "{ pin: ['^1?[1-6]\\.'], strategies: [extraction, truncation], token_threshold: 60% }",
            831,
        ),
        (&["sstrrturtuRtrtr", "utrruA"], percent, 4_617),
        (
            &["turtrtrrUtrtur"],
            "{ strategies: [sliding_window: { keep_first: 2, keep_last: 4 }], message_threshold: 8 }",
            1_682,
        ),
    ] {
        let mut log = Conversation::new();
        for round in rounds {
            log.add_all(round);
            assert_eq!(fit(yaml, room, &mut log), [], "{rounds:?} of {yaml} in {room}");
        }
    }
}

#[test]
fn whatever_was_recorded_keeps_every_guarantee() {
    // No user's message opens it; results without calls; calls without results; others speak between calls
    // and results.
    let notations = [
        "Ras",
        "RatR",
        "rTtRr",
        "sRatrrtrt",
        "trsrtuR",
        "tuRUr",
        "utrrsurtuRuutuR",
        "RRRsTrRss",
        "RssassssssAs",
    ];
    let blocks = [
        "{ strategies: [truncation] }",
        "{ strategies: [sliding_window], retention_window: 0 }",
        "{ model: m, retention_window: 0 }",
        "{ strategies: [extraction, truncation], message_threshold: 3 }",
        "{ pin: ['^[2-5]'], message_threshold: 4 }",
    ];
    for notation in notations {
        for (yaml, room) in
            blocks.iter().flat_map(|yaml| (50..3_000).step_by(97).map(move |room| (yaml, room)))
        {
            assert_eq!(fit(yaml, room, &mut conversation(notation)), [], "{notation} by {yaml} in {room}");
        }
    }
}

#[test]
fn notes_that_say_the_same_again_keep_every_guarantee() {
    let note = |n: usize| {
        let rules = "Never touch the sluice of the mill. ".repeat(4);
        Message::note("harness", format!("<day>\nThe day is {n}.\n</day>\n<rules>\n{rules}\n</rules>"))
    };
    let blocks = [
        "{}",
        "{ strategies: [extraction] }",
        "{ strategies: [extraction, truncation], retention_window: 3 }",
        "{ strategies: [clear_tool_results, extraction], token_threshold: 60% }",
        "{ strategies: [sliding_window], retention_window: 2 }",
    ];
    // Such notes alone, before requests, and between calls and their results.
    for turn in [&["n"][..], &["n", "ua"], &["n", "n", "u", "tr", "a"], &["u", "n", "A"], &["t", "n", "r"]] {
        for (yaml, room) in
            blocks.iter().flat_map(|yaml| (300..4_000).step_by(307).map(move |room| (yaml, room)))
        {
            let mut log = Conversation::new();
            for n in 0..12 {
                for part in turn {
                    if *part == "n" {
                        log.add(note(n))
                    } else {
                        log.add_all(part)
                    };
                }
            }
            assert_eq!(fit(yaml, room, &mut log), [], "{turn:?} by {yaml} in {room}");
        }
    }
}
