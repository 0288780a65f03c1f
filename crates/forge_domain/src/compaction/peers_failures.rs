//! Failures that were measured in other engines, each as a test that an engine with the failure does not
//! pass.

use futures::FutureExt;
use pretty_assertions::assert_eq;

use super::fixture::{
    SUMMARY, Script, budget, conversation, fit, fit_again, settings, texts, tool_call, written_texts,
};
use super::{AttemptVerdict, CompactionReport, ContextCompactor, Outcome};
use crate::{
    Conversation, Message, ProviderError, Role, Size, Tokens, ToolCall, ToolResult, openai_breaches,
};

/// Appends a call and its result of `n_chars` characters, with a name that appears nowhere else.
fn append_exchange(log: &mut Conversation, nth: usize, n_chars: usize) {
    let result = format!("{:.<n_chars$}", format!("fact_number_{nth} "));
    log.call("Bash", format!(r#"{{"command":"step {nth}"}}"#), result);
}

/// A life of `n` iterations: the context is fitted before each, and each adds an exchange.
struct Life {
    log: Conversation,
    /// The iterations that compacted, and what they did.
    compactions: Vec<(usize, CompactionReport)>,
    /// The context before each call.
    sizes: Vec<Size>,
}

fn live(yaml: &str, room: u64, n: usize, n_chars: usize, script: &Script) -> Life {
    let mut log = Conversation::new();
    log.add(Message::system("You work.")).user("The goal: mend the parser, and never touch generated.rs.");
    let mut life = Life { log, compactions: Vec::new(), sizes: Vec::new() };
    for nth in 0..n {
        let fit = fit_again(yaml, room, &mut life.log, script);
        assert!(fit.result.is_ok(), "{yaml} in iteration {nth}: {:?}", fit.report);
        if matches!(fit.report.outcome, Outcome::Applied { .. }) {
            life.compactions.push((nth, fit.report));
        }
        life.sizes.push(life.log.view().size());
        append_exchange(&mut life.log, nth, n_chars);
    }
    life
}

fn n_compacted(log: &Conversation) -> usize {
    written_texts(log).len()
}

fn says(log: &Conversation, what: &str) -> bool {
    texts(log).iter().any(|text| text.contains(what))
}

const LADDERS: [&str; 5] = [
    "{}",
    "{ model: m }",
    "{ selection: best, model: m }",
    "{ strategies: [sliding_window] }",
    "{ strategies: [clear_tool_results, summarization], model: m }",
];

#[test]
fn sixty_iterations_of_large_results_do_not_diverge() {
    for yaml in LADDERS {
        let life = live(yaml, 8_000, 60, 600, &Script::summarizing());
        let largest = life.sizes.iter().map(|size| size.tokens).max();
        assert!(largest <= Some(Tokens::new(8_003)), "{yaml}: {largest:?}");
        assert!((3..=30).contains(&life.compactions.len()), "{yaml}: {}", life.compactions.len());
        for (nth, report) in &life.compactions {
            assert!(report.after.tokens < report.before.tokens, "{yaml}: grew in iteration {nth}");
        }
    }
}

#[test]
fn it_does_not_compact_at_every_turn() {
    for yaml in LADDERS {
        let life = live(yaml, 8_000, 60, 600, &Script::summarizing());
        let turns: Vec<usize> = life.compactions.iter().map(|(nth, _)| *nth).collect();
        assert!(turns.windows(2).all(|pair| pair[1] - pair[0] >= 2), "{yaml}: {turns:?}");
    }
}

#[test]
fn summaries_and_records_do_not_pile_up() {
    for yaml in LADDERS {
        let life = live(yaml, 8_000, 60, 600, &Script::summarizing());
        assert!(n_compacted(&life.log) <= 2, "{yaml}: {}", n_compacted(&life.log));
        let n_system = life.log.view().plain().filter(|message| message.role() == Role::System).count();
        assert_eq!(n_system, 1, "{yaml}: a summary is no system message");
    }
}

#[test]
fn the_goal_survives_two_hundred_calls() {
    for yaml in LADDERS {
        let life = live(yaml, 8_000, 200, 600, &Script::summarizing());
        assert!(says(&life.log, "The goal: mend the parser, and never touch generated.rs."), "{yaml}");
    }
    let script = Script::summarizing();
    let yaml = "{ model: m, strategies: [summarization] }";
    let life = live(yaml, 8_000, 200, 600, &script);
    assert!(script.n_asked() >= life.compactions.len() && says(&life.log, SUMMARY), "nothing was summed up");
    assert!(says(&life.log, "The goal: mend the parser"));
}

#[test]
fn the_summariser_sees_every_fact_that_leaves() {
    let script = Script::summarizing();
    let mut log = Conversation::new();
    log.user("Remember.");
    for nth in 0..200 {
        append_exchange(&mut log, nth, 100);
    }
    fit_again("{ model: m, strategies: [summarization] }", 20_000, &mut log, &script);
    assert!(says(&log, SUMMARY));
    let asked = script.asked.lock().unwrap();
    let asked: Vec<String> = asked
        .iter()
        .flat_map(|prompt| prompt.messages().iter().map(|message| message.message().to_text()))
        .collect();
    for nth in 0..200 {
        let fact = format!("fact_number_{nth} ");
        assert!(says(&log, &fact) || asked.iter().any(|text| text.contains(&fact)), "{fact} was never seen");
    }
}

#[test]
fn an_empty_summary_replaces_nothing() {
    let script = Script::new(vec![Ok(String::new())]);
    let (_, report) = fit(
        "{ model: m, strategies: [summarization], message_threshold: 8 }",
        100_000,
        "suaaaaaaaaaaa",
        &script,
    );
    let AttemptVerdict::Failed { reason } = &report.attempts[0].verdict else { panic!("{report:?}") };
    assert_eq!(reason, "the summary is empty");
    let mut log = conversation("suaaaaaaaaaaa");
    fit_again("{ model: m, message_threshold: 8 }", 100_000, &mut log, &Script::new(vec![Ok(String::new())]));
    assert!(log.view().plain().all(|message| !message.to_text().trim().is_empty()));
}

#[test]
fn a_summariser_that_is_down_ends_no_turn() {
    let script = Script::new((0..60).map(|_| Err(ProviderError::Truncated)).collect());
    let life = live("{ model: m }", 8_000, 60, 600, &script);
    assert!(life.compactions.len() >= 3);
}

#[test]
fn the_request_for_a_summary_fits_the_summariser() {
    let script = Script::summarizing().with_window(3_000);
    let (_, report) = fit(
        "{ model: m, strategies: [summarization], summary_max_tokens: 200 }",
        20_000,
        "suAAAAAAAAAAAAAAAAAa",
        &script,
    );
    assert!(matches!(report.outcome, Outcome::Applied { .. }), "{report:?}");
    let asked = script.asked.lock().unwrap();
    assert!(asked.len() > 3);
    assert!(asked.iter().all(|prompt| prompt.tokens() <= Tokens::new(3_000)));
}

#[test]
fn no_result_is_parted_from_its_call_at_any_cut() {
    for yaml in LADDERS {
        for retained in 0..14 {
            let inner = yaml.trim_matches(['{', '}', ' ']);
            let yaml = format!("{{ retention_window: {retained}, {inner} }}");
            let mut log = conversation("sutrrrrrrrrrrautrrarutrr");
            fit_again(&yaml, 1_800, &mut log, &Script::summarizing());
            assert_eq!(openai_breaches(log.view().messages()), [], "{yaml}");
        }
    }
}

#[test]
fn an_orphan_does_not_take_others_along() {
    let mut log = conversation("suaaaa");
    let orphan = ToolCall { id: "lost".into(), ..tool_call("Bash", "{}") };
    log.add(Message::tool(ToolResult::answer(&orphan, "x".repeat(96))));
    append_exchange(&mut log, 0, 96);
    append_exchange(&mut log, 1, 96);
    let before = openai_breaches(log.view().messages()).len();
    fit_again("{ retention_window: 0 }", 1_000, &mut log, &Script::new(Vec::new()));
    assert!(openai_breaches(log.view().messages()).len() <= before.min(1));
}

#[test]
fn a_lower_target_takes_out_more() {
    for strategy in ["sliding_window", "extraction", "clear_tool_results", "truncation"] {
        let left = |percent: usize| {
            let yaml =
                format!("{{ strategies: [{strategy}], token_threshold: 80%, max_tokens: {percent}% }}");
            let (_, report) =
                fit(&yaml, 20_000, "sutRtRtRtRtRtRtRtRtRtRtRtRtRtRtRtRtR", &Script::new(Vec::new()));
            report.after.tokens.as_u64()
        };
        let left: Vec<u64> = [70, 50, 30, 20].map(left).to_vec();
        // A record may have less than a high target would give it; a lower one never leaves more.
        let is_lower = left.is_sorted_by(|more, less| more >= less) && left[1] > left[2] && left[2] > left[3];
        assert!(is_lower, "{strategy}: {left:?}");
    }
}

#[test]
fn alternating_turns_are_compacted() {
    for yaml in LADDERS {
        let (_, report) = fit(yaml, 2_500, "suauauauauauauauauauaua", &Script::summarizing());
        let Outcome::Applied { impact, .. } = &report.outcome else { panic!("{yaml}: {report:?}") };
        assert!(impact.after.tokens.as_u64() <= 1_252, "{yaml}: {impact:?}");
    }
}

#[test]
fn what_people_said_one_after_the_other_is_not_lost() {
    for yaml in ["{}", "{ model: m }", "{ selection: best }"] {
        let mut log = Conversation::new();
        log.user("Mend it.")
            .agent("How?")
            .user("You must never touch prod.")
            .user("Always use the staging cluster.");
        for nth in 0..12 {
            append_exchange(&mut log, nth, 600);
        }
        fit_again(yaml, 9_000, &mut log, &Script::summarizing());
        assert!(log.compactions().count() == 1, "{yaml}");
        for said in ["You must never touch prod.", "Always use the staging cluster."] {
            assert!(says(&log, said), "{yaml}: {said}");
        }
    }
}

#[test]
fn the_configured_retention_window_is_effective() {
    for strategies in ["sliding_window", "summarization"] {
        let yaml = &format!("{{ retention_window: 6, model: m, strategies: [{strategies}] }}");
        let mut log = conversation("suaaaaaaaaaaaaaaaaaaaaaaaa");
        let newest: Vec<Message> = log.view().plain().skip(20).cloned().collect();
        fit_again(yaml, 3_000, &mut log, &Script::summarizing());
        assert_eq!(log.compactions().count(), 1);
        let view = log.view();
        let left: Vec<Message> = view.plain().skip(view.messages().len() - newest.len()).cloned().collect();
        assert_eq!(left, newest, "{yaml}");
    }
}

#[test]
fn one_huge_result_is_not_the_end() {
    for yaml in LADDERS {
        let mut log = conversation("sua");
        append_exchange(&mut log, 0, 50_000);
        let fit = fit_again(yaml, 5_000, &mut log, &Script::summarizing());
        assert!(fit.result.is_ok(), "{yaml}: {:?}", fit.report);
    }
}

#[test]
fn a_summary_longer_than_what_it_replaces_is_refused() {
    let words: String = (0..2_000).map(|nth| format!("word{nth} ")).collect();
    let long = format!("<forge_context_summary>{words}</forge_context_summary>");
    let script = Script::new((0..9).map(|_| Ok(long.clone())).collect());
    let (_, report) = fit(
        "{ model: m, message_threshold: 8, summary_max_tokens: 90000 }",
        100_000,
        "suaaaaaaaaaaa",
        &script,
    );
    assert!(report.after.tokens < report.before.tokens);
    assert!(report.attempts.iter().any(
        |attempt| matches!(&attempt.verdict, AttemptVerdict::Failed { reason } if reason.contains("not smaller"))
    ));
}

#[test]
fn a_file_read_three_times_with_words_between_is_there_once() {
    let mut log = Conversation::new();
    log.user("Look.");
    for nth in 0..3 {
        log.call("Read", r#"{"path":"a.rs"}"#, format!("{:.<900}", "the file "))
            .agent(format!("I see {nth}."));
        append_exchange(&mut log, nth, 900);
    }
    let yaml = "{ strategies: [clear_tool_results: { keep: 0 }], retention_window: 2, max_tokens: 4500 }";
    fit_again(yaml, 6_500, &mut log, &Script::new(Vec::new()));
    let n_files = log.view().plain().filter(|message| message.to_text().starts_with("the file")).count();
    assert_eq!(n_files, 1);
    for nth in 0..3 {
        assert!(says(&log, &format!("fact_number_{nth} ")), "what nothing supersedes stays");
    }
}

#[test]
fn nothing_leaves_the_log() {
    let life = live("{}", 8_000, 60, 600, &Script::new(Vec::new()));
    let texts: Vec<String> = life.log.messages().map(|message| message.message().to_text()).collect();
    for nth in 0..60 {
        assert!(texts.iter().any(|text| text.contains(&format!("fact_number_{nth} "))));
    }
}

#[test]
fn compacting_twice_changes_nothing_the_second_time() {
    for yaml in LADDERS {
        let mut log = live(yaml, 8_000, 30, 600, &Script::summarizing()).log;
        let settings = settings(yaml, 8_000);
        let script = Script::summarizing();
        let fit = |log: &Conversation| {
            ContextCompactor::new()
                .compact_context(&settings, log.view(), &budget(8_000), &script)
                .now_or_never()
                .unwrap()
        };
        if let Some(compacted) = fit(&log).result.unwrap().compacted {
            log.record(&compacted).unwrap();
        }
        assert_eq!(fit(&log).report.outcome, Outcome::NothingToCut, "{yaml}");
    }
}
