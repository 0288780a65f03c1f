use std::sync::Arc;

use async_trait::async_trait;
use pretty_assertions::assert_eq;

use super::super::fixture::{Script, budget, conversation, fit, fit_again, picture, settings};
use super::super::{
    CompactionReport, CompactionStrategy, ContextCompactor, Outcome, Rung, StrategyError, Truncation,
};
use super::*;
use crate::{Conversation, Edit, Message};

/// A strategy that drops the given groups, whatever that breaks.
struct Drops(&'static str, Vec<usize>);

#[async_trait]
impl CompactionStrategy for Drops {
    fn id(&self) -> &str {
        self.0
    }
    fn description(&self) -> &str {
        "drops what it is told to"
    }
    fn is_applicable(&self, _: &CompactionRules, context: &Context) -> bool {
        context.groups().len() > 4
    }
    async fn compact(
        &self,
        _: &CompactionRules,
        context: Context,
        _: &dyn CompactionServices,
    ) -> Result<(Context, CompactionImpact), StrategyError> {
        let groups = context.groups();
        let edits = self
            .1
            .iter()
            .filter(|index| **index < groups.len())
            .map(|index| Edit::Fold { span: groups.span(*index..*index + 1), with: Vec::new() })
            .collect();
        let after = context.edit(edits);
        // It lies about what it achieved.
        Ok((after.clone(), CompactionImpact::new(after.size(), after.size(), Vec::new())))
    }
}

/// Returns the result for `conversation` in a room of ten small messages with a target of five.
fn choose(yaml: &str, conversation: &mut Conversation, strategies: Vec<Drops>) -> CompactionReport {
    let budget = budget(1_020);
    let mut settings = settings(yaml, 1_020);
    let mut rungs: Vec<Rung> =
        strategies.iter().map(|own| Rung::Registered(StrategyId::new(own.0).unwrap())).collect();
    if yaml.contains("truncation") {
        rungs.push(Rung::Truncation(Truncation::default()));
    }
    settings.strategies = rungs;
    let compactor = strategies
        .into_iter()
        .fold(ContextCompactor::new(), |compactor, own| compactor.register_strategy(Arc::new(own)));
    let script = Script::new(Vec::new());
    let fit = compactor.fit(&settings, conversation.view(), &budget, &script).now_or_never().unwrap();
    if let Some(compacted) = fit.result.unwrap().compacted {
        conversation.record(&compacted).unwrap();
    }
    fit.report
}

fn winners(report: &CompactionReport) -> Vec<String> {
    match &report.outcome {
        Outcome::Applied { strategies, .. } => strategies.iter().map(ToString::to_string).collect(),
        outcome => vec![format!("{outcome:?}")],
    }
}

fn verdicts(report: &CompactionReport) -> Vec<String> {
    let verdict = |attempt: &Attempt| {
        let what = match &attempt.verdict {
            AttemptVerdict::NotApplicable => " not applicable".to_owned(),
            AttemptVerdict::Satisfied(_) => " satisfied".to_owned(),
            AttemptVerdict::Significant(_) => " significant".to_owned(),
            AttemptVerdict::Insignificant(_) => " insignificant".to_owned(),
            AttemptVerdict::Failed { reason } => format!(": {reason}"),
        };
        let after: Vec<&str> = attempt.after.iter().map(StrategyId::as_str).collect();
        let after = if after.is_empty() { String::new() } else { format!(" after {}", after.join(", ")) };
        format!("{}{what}{after}", attempt.strategy)
    };
    report.attempts.iter().map(verdict).collect()
}

/// Returns the picture, the winners and the verdicts of own strategies on ten messages with a target of
/// five.
fn climb(strategies: Vec<Drops>) -> (String, Vec<String>, Vec<String>) {
    let notation = "suaaaaaaaa";
    let mut conversation = conversation(notation);
    let report = choose("{}", &mut conversation, strategies);
    (picture(notation, &conversation), winners(&report), verdicts(&report))
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

#[test]
fn each_continues_from_what_those_before_it_reached_until_one_satisfies() {
    let six = || vec![2, 3, 4, 5, 6];
    for (strategies, expected_picture, expected) in [
        // Groups are counted in what is left.
        (
            vec![Drops("some", vec![2, 3]), Drops("enough", vec![2, 3, 4]), Drops("more", vec![2])],
            "su[aaaaa]aaa",
            vec!["some significant", "enough satisfied after some"],
        ),
        // A significant result stays, even if the target needs more.
        (
            vec![Drops("some", vec![2, 3]), Drops("enough", six())],
            "su[aaaaaaa]a",
            vec!["some significant", "enough satisfied after some"],
        ),
        // One that is not worth it is left out of the stack, and so is one that fails or does nothing.
        (
            vec![
                Drops("little", vec![2]),
                Drops("wrong", vec![0]),
                Drops("nothing", vec![]),
                Drops("first", vec![2, 3]),
                Drops("second", vec![2, 3, 4]),
            ],
            "su[aaaaa]aaa",
            vec![
                "little insignificant",
                "wrong: it lost a leading system message",
                "nothing insignificant",
                "first significant",
                "second satisfied after first",
            ],
        ),
        // One that satisfies is always worth it: here it saves one message of six.
        (
            vec![Drops("most", vec![2, 3, 4, 5]), Drops("rest", vec![2])],
            "su[aaaaa]aaa",
            vec!["most significant", "rest satisfied after most"],
        ),
        (vec![Drops("all", six())], "su[aaaaa]aaa", vec!["all satisfied"]),
    ] {
        let (picture, _, verdicts) = climb(strategies);
        assert_eq!((picture.as_str(), verdicts), (expected_picture, strings(&expected)));
    }
}

#[test]
fn where_clearing_takes_far_too_much_a_record_keeps_more() {
    for (notation, target, expected) in [
        // Each result is a fifth of all.
        ("suatRatRatRatRaaaaaaa", 2_500, "extraction"),
        ("sutRtRtRtRtRtRtRtRtRtRa", 8_000, "clear_tool_results"),
    ] {
        let mut log = conversation(notation);
        let yaml = format!(
            "{{ token_threshold: {}, max_tokens: {target}, strategies: [clear_tool_results: {{ keep: 0 }}, \
             extraction], retention_window: 1 }}",
            target + 100
        );
        let report = fit_again(&yaml, 100_000, &mut log, &Script::new(Vec::new())).report;
        assert_eq!(winners(&report), [expected], "{notation}: {:?}", verdicts(&report));
    }
}

#[test]
fn truncation_comes_last_and_continues_from_the_others() {
    for (own, expected) in [
        (
            vec![Drops("first", vec![2, 3]), Drops("second", vec![2, 3, 4])],
            vec!["first significant", "second satisfied after first"],
        ),
        (
            vec![Drops("little", vec![2]), Drops("second", vec![2, 3, 4])],
            vec!["little insignificant", "second significant", "truncation satisfied after second"],
        ),
        (vec![Drops("little", vec![2])], vec!["little insignificant", "truncation satisfied"]),
    ] {
        let report = choose("strategies: [truncation]", &mut conversation("suaaaaaaaa"), own);
        assert_eq!(verdicts(&report), strings(&expected), "{report:?}");
    }
}

#[test]
fn a_registered_strategy_comes_after_the_others_unless_the_list_names_it() {
    for (yaml, is_named, expected) in [
        ("strategies: [sliding_window]", false, ["sliding_window", "own", "truncation"]),
        ("strategies: [sliding_window, truncation]", false, ["sliding_window", "own", "truncation"]),
        ("strategies: [sliding_window]", true, ["own", "sliding_window", "truncation"]),
    ] {
        let mut settings = settings(&format!("{{ min_reduction: 100%, {yaml} }}"), 1_020);
        if is_named {
            settings.strategies.insert(0, Rung::Registered(StrategyId::new("own").unwrap()));
        }
        let compactor = ContextCompactor::new().register_strategy(Arc::new(Drops("own", vec![2])));
        let order: Vec<_> = compactor.strategies(&settings).iter().map(|own| own.id.to_string()).collect();
        assert_eq!(order, expected, "{yaml} {is_named}");
    }
}

/// Builds eight messages of the agent, each of which names a thing of its own.
fn naming() -> Conversation {
    let mut log = Conversation::new();
    log.add(Message::system("s".repeat(96))).user("u".repeat(96));
    for nth in 0..8 {
        log.agent(format!("{:.<96}", format!("thing_number_{nth} ")));
    }
    log
}

#[test]
fn the_best_is_the_one_that_loses_least_of_those_that_satisfy() {
    let own = || {
        vec![
            Drops("much", vec![2, 3, 4, 5, 6, 7]),
            Drops("too little", vec![2, 3]),
            Drops("enough", vec![2, 3, 4, 5, 6]),
            Drops("as much", vec![3, 4, 5, 6, 7]),
        ]
    };
    let report = choose("selection: best", &mut naming(), own());
    assert_eq!(winners(&report), ["enough"]);
    assert_eq!(
        verdicts(&report),
        strings(&[
            "much satisfied",
            "too little significant",
            "enough satisfied after too little",
            "enough satisfied",
            "as much satisfied",
        ])
    );
    let losses: Vec<bool> = report.attempts.iter().map(|attempt| attempt.loss.is_some()).collect();
    assert_eq!(losses, [true, false, true, true, true]);
    assert_eq!(winners(&choose("selection: ladder", &mut naming(), own())), ["much"]);
    // A stack that begins with what is left out is the next one: nothing is tried twice on one input.
    let own = vec![Drops("little", vec![2]), Drops("first", vec![2, 3]), Drops("second", vec![2, 3, 4])];
    let report = choose("selection: best", &mut naming(), own);
    assert_eq!(winners(&report), ["first", "second"]);
    let expected =
        ["little insignificant", "first significant", "second satisfied after first", "second significant"];
    assert_eq!(verdicts(&report), strings(&expected));
}

#[test]
fn the_smallest_is_the_last_resort_and_too_little_is_none() {
    let actual = climb(vec![Drops("three", vec![2, 3, 4]), Drops("one", vec![2])]);
    assert_eq!((actual.0.as_str(), actual.1), ("su[aaa]aaaaa", strings(&["three"])));
    let actual = climb(vec![Drops("one", vec![2])]);
    assert_eq!((actual.0.as_str(), actual.1), ("suaaaaaaaa", strings(&["NothingToCut"])));
}

#[test]
fn a_result_that_breaks_a_rule_is_an_attempt_with_a_reason() {
    for (dropped, expected) in
        [(vec![0], "it lost a leading system message"), (vec![1], "it lost the first user message")]
    {
        let (picture, _, verdicts) = climb(vec![Drops("own", dropped)]);
        assert_eq!((picture.as_str(), verdicts), ("suaaaaaaaa", vec![format!("own: {expected}")]));
    }
    let lost_call = |conversation: &Conversation| {
        let view = conversation.view();
        let groups = view.groups();
        let last = groups.len() - 1;
        let after = view.edit(vec![Edit::Fold { span: groups.span(last..last + 1), with: Vec::new() }]);
        broken_rule(&view, &after, &[])
    };
    assert_eq!(lost_call(&conversation("suatr")), Some("it lost the calls of the last message"));
    assert_eq!(lost_call(&conversation("suaa")), None);
}

#[test]
fn low_impact_is_skipped_unless_the_window_demands_it() {
    // At most one message of eleven leaves: 9 %.
    let yaml = "{ strategies: [sliding_window], message_threshold: 10, max_messages: 9, token_threshold: 100%, max_tokens: 99% }";
    let (actual, report) = fit(yaml, 100_000, "suuuuuuuuua", &Script::new(Vec::new()));
    assert_eq!(actual, "su[uuu]uuuuua", "reaching the target is significant: {report:?}");
    let (actual, report) = fit("{ min_reduction: 90% }", 1_000, "SUaa", &Script::new(Vec::new()));
    assert_eq!((actual.as_str(), report.outcome.name()), ("SUaa", "still_over"));
    let (actual, _) =
        fit("{ strategies: [sliding_window], min_reduction: 90% }", 2_250, "SUaaa", &Script::new(Vec::new()));
    assert_eq!(actual, "SUa~a~a~");
    // A trigger that what must stay exceeds by itself does not fire: it would at every call.
    let yaml = "{ message_threshold: 2, min_reduction: 90% }";
    let (actual, report) = fit(yaml, 100_000, "suaaa", &Script::new(Vec::new()));
    assert_eq!((actual.as_str(), report.outcome.name()), ("suaaa", "not_triggered"));
}

#[test]
fn a_second_compaction_to_the_same_target_finds_nothing_to_cut() {
    for notation in ["suaaaaaaaaaaa", "SUaaaaaaatR", "sutrtrtrtrtrtr", "suauauauauaua"] {
        let mut conversation = conversation(notation);
        let script = Script::new(Vec::new());
        fit_again("{}", 3_000, &mut conversation, &script);
        let budget = budget(3_000);
        let settings = settings("{}", 3_000);
        let again = ContextCompactor::new()
            .compact_context(&settings, conversation.view(), &budget, &script)
            .now_or_never()
            .unwrap();
        assert_eq!(again.report.outcome, Outcome::NothingToCut, "{notation}");
    }
}

#[test]
fn off_means_off() {
    let (actual, report) = fit("{ auto_compact: false }", 1_020, "suaaaaaaaa", &Script::new(Vec::new()));
    assert_eq!((actual.as_str(), report.outcome.name()), ("suaaaaaaaa", "not_triggered"));
    let (actual, report) = fit("{ auto_compact: false }", 1_020, "suaaaaaaaaaa", &Script::new(Vec::new()));
    assert_eq!((actual.as_str(), report.outcome.name()), ("suaaaaaaaaaa", "still_over"));
}

#[test]
fn where_the_least_fits_there_is_a_way() {
    for yaml in ["{}", "strategies: [extraction]"] {
        for notation in ["trtrtrtr", "trrtra", "aatrtr", "utrtrtr", "sutrtra"] {
            let fit_in =
                |room| fit_again(yaml, room, &mut conversation(notation), &Script::new(Vec::new())).result;
            let need = fit_in(4).unwrap_err().need.as_u64();
            for room in need..need + 100 {
                assert!(fit_in(room).is_ok(), "{yaml} {notation}: {room}, {need} were needed");
            }
        }
    }
}
