//! The guarantees of compaction as properties over random conversations, budgets and blocks.

use futures::FutureExt;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::fixture::{Script, budget, conversation};
use super::standing::opens_with_user;
use super::{Compact, CompactionImpact, ContextCompactor, Fit, Outcome, Yield};
use crate::{Conversation, Prompt, Role, added_breach};

/// How often each of the four properties is tried: ten thousand cases in all, or as many as `FORGE_CASES` says.
///
/// ```text
/// FORGE_CASES=1000000 cargo test --release -p forge_domain guarantees
/// ```
#[expect(clippy::disallowed_methods, reason = "a person may ask a test for more")]
fn cases() -> u32 {
    let asked = std::env::var("FORGE_CASES").ok();
    let all: u32 = asked.map_or(10_000, |text| text.parse().expect("FORGE_CASES is a number"));
    all.div_ceil(4)
}

/// Conversations in the notation of the tests: any order of messages and exchanges, sizes mixed.
fn notations() -> impl Strategy<Value = String> {
    let unit = prop_oneof![
        3 => Just("u"), 3 => Just("a"), 5 => Just("tr"), 2 => Just("trr"), 1 => Just("tar"), 1 => Just("tur"), 1 => Just("tuR"),
        1 => Just("tR"), 1 => Just("Tr"), 1 => Just("U"), 1 => Just("A"), 1 => Just("s"), 1 => Just("tRrR"),
    ];
    (prop_oneof![Just(""), Just("s"), Just("ss"), Just("su"), Just("sU")], prop::collection::vec(unit, 0..40))
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
        Just("{ model: m, selection: adaptive, retention_window: 2 }"),
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

/// Fits the conversation as it stands and records what came of it.
fn fit(yaml: &str, room: u64, conversation: &mut Conversation) -> (Fit, Compact) {
    let budget = budget(room);
    let compact: Compact = serde_saphyr::from_str(yaml).unwrap();
    let compact = compact.resolve(&budget).unwrap();
    let fit = ContextCompactor::new()
        .fit(&compact, conversation.view(), &budget, &Script::summarizing())
        .now_or_never()
        .unwrap();
    if let Ok(fitted) = &fit.result
        && let Some(compacted) = &fitted.compacted
    {
        conversation.record(compacted).unwrap();
    }
    (fit, compact)
}

fn texts(prompt: &Prompt) -> Vec<String> {
    prompt.messages().iter().map(|message| format!("{:?}", message.message())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn a_compaction_keeps_every_guarantee(
        notation in notations(),
        yaml in blocks(),
        room in prop_oneof![600_u64..3_000, 3_000_u64..12_000],
    ) {
        let mut log = conversation(&notation);
        let before = log.view();
        let (result, compact) = fit(&yaml, room, &mut log);
        let after = log.view();

        // 8 and the log: coverage, and the view is what the log gives.
        prop_assert!(log.coverage().is_complete());
        prop_assert_eq!(&log.refold(), &after);
        // 1: no call loses its results, and nothing else is broken that a provider asks for.
        prop_assert_eq!(added_breach(before.messages(), after.messages()), None);
        // 4: never larger.
        prop_assert!(after.size().tokens <= before.size().tokens && after.size().messages <= before.size().messages);
        // 5: it fits, or it is refused, truthfully, and nothing has changed.
        match &result.result {
            Ok(fitted) => prop_assert!(fitted.prompt.tokens() <= budget(room).room()),
            Err(over) => {
                prop_assert!(over.need > over.have, "{}", over);
                prop_assert_eq!(&before, &after);
            }
        }
        if let Outcome::Applied { impact, .. } = &result.report.outcome {
            // 2: a user message opens what is left.
            prop_assert!(opens_with_user(&after) || !opens_with_user(&before));
            // 3: what is fixed is there; what yielded had to.
            let leading = before.n_leading_system();
            prop_assert_eq!(&before.messages()[..leading], &after.messages()[..leading]);
            let first = |context: &crate::Context| context.first_user().map(|at| context.messages()[at].clone());
            prop_assert_eq!(first(&before), first(&after));
            let latest = |context: &crate::Context| context.latest_user().map(|at| context.messages()[at].clone());
            if !impact.yielded.contains(&Yield::LatestUserText) {
                prop_assert_eq!(latest(&before), latest(&after));
            }
            let n_system = |context: &crate::Context| {
                context.plain().filter(|message| message.role() == Role::System).count()
            };
            let standing = super::standing::Standing::of(&before, &compact, 0);
            let pinned = super::pin::Pinned::of(&before, &standing, compact.target_tokens());
            prop_assert_eq!(pinned.broken_rule(&after, &impact.yielded), None);
            if compact.preserves_system_messages() && !impact.yielded.contains(&Yield::SystemMessages) {
                prop_assert_eq!(n_system(&before), n_system(&after));
            }
        }
    }

    #[test]
    fn the_same_input_gives_the_same_prompt(notation in notations(), yaml in blocks(), room in 600_u64..6_000) {
        let run = || {
            let mut log = conversation(&notation);
            fit(&yaml, room, &mut log).0.result.map(|fitted| texts(&fitted.prompt))
        };
        assert_eq!(run(), run());
    }

    #[test]
    fn compacting_again_to_the_same_target_finds_nothing(
        notation in notations(),
        yaml in blocks(),
        room in 600_u64..6_000,
    ) {
        let mut log = conversation(&notation);
        let (first, compact) = fit(&yaml, room, &mut log);
        // Where preserved system messages had to leave, targets that these had put out of reach are in reach again.
        let is_same_target = |impact: &CompactionImpact| !impact.yielded.contains(&Yield::SystemMessages);
        if matches!(&first.report.outcome, Outcome::Applied { impact, .. } if is_same_target(impact)) {
            let again = ContextCompactor::new()
                .compact_context(&compact, log.view(), &budget(room), &Script::summarizing())
                .now_or_never()
                .unwrap();
            prop_assert_eq!(again.report.outcome, Outcome::NothingToCut);
        }
    }

    #[test]
    fn many_rounds_keep_the_books(rounds in prop::collection::vec(notations(), 1..8), yaml in blocks(), room in 900_u64..4_000) {
        let mut log = Conversation::new();
        for round in rounds {
            for message in conversation(&round).messages() {
                log.append(message.clone());
            }
            let before = log.view();
            let (result, _) = fit(&yaml, room, &mut log);
            prop_assert!(log.coverage().is_complete());
            prop_assert_eq!(&log.refold(), &log.view());
            if result.result.is_err() {
                prop_assert_eq!(&log.view(), &before);
            }
        }
    }
}
