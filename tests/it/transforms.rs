//! Transforms of earlier versions: what they do to a context, in which order, and that nothing is lost where they fail.

use std::sync::{Arc, Mutex};

use forge_app::{Orchestrator, RunEvent, RunReport};
use forge_domain::compaction::{Outcome, Trigger};
use forge_domain::*;
use forge_services::workflow::{Layers, Source, load, migrate};
use forge_tests::{ScriptedServer, Step};
use futures::FutureExt;
use pretty_assertions::assert_eq;

use crate::forge::{Forge, outcome};
use crate::orchestrator::{Echo, Reply, Script};

/// What those who watch a run hear.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    fn lines(&self, kind: &str) -> Vec<String> {
        let lines = self.0.lock().unwrap();
        lines.iter().filter_map(|line| line.strip_prefix(kind)).map(str::to_owned).collect()
    }
}

const DEPRECATED: &str = "Transform::Assistant is deprecated. Use the compact field on Agent instead.";
const DROPPED: &str =
    "transforms are deprecated: `user` and `pass_through` still run, but have no automatic replacement";

/// The agent `dev` on the provider `p`, with these keys, and another on `q`.
fn yaml(dev: &str, other: &str) -> String {
    format!(
        "agents:\n- {{ id: dev, model: 'p:m', subscribe: [user_task_init], {dev} }}\n\
         - {{ id: other, model: 'q:m', system_prompt: Work., {other} }}\n\
         models: {{ 'p:m': {{ window: 100000 }}, 'q:m': {{ window: 100000 }} }}\nproviders: {{ p: {{}}, q: {{}} }}\n"
    )
}

fn orchestrator(yaml: &str, dev: &Arc<Script>, other: &Arc<Script>) -> (Orchestrator, Heard) {
    let workflow =
        load(&Layers { project: Some(Source::new("forge.yaml", yaml)), ..Layers::default() }).unwrap();
    let heard = Heard::default();
    let told = heard.clone();
    let provider = |name: &str, script: &Arc<Script>| {
        (ProviderId::new(name).unwrap(), Arc::clone(script) as Arc<dyn Provider>)
    };
    let ((p, dev), (q, other)) = (provider("p", dev), provider("q", other));
    let orchestrator = Orchestrator::builder()
        .workflow(workflow)
        .provider(p, dev)
        .provider(q, other)
        .tools(Arc::new(Echo))
        .watcher(move |event| {
            let line = match event {
                RunEvent::Notice(notice) => format!("notice {notice}"),
                RunEvent::Text(text) => format!("text {text}"),
                RunEvent::Fitted { report, .. } => match (&report.outcome, report.trigger) {
                    (Outcome::Applied { .. }, Some(trigger)) => format!("compacted {trigger}"),
                    _ => return,
                },
                _ => return,
            };
            told.0.lock().unwrap().push(line);
        })
        .build()
        .unwrap();
    (orchestrator, heard)
}

fn run(orchestrator: &mut Orchestrator) -> RunReport {
    orchestrator.run("go").now_or_never().unwrap().unwrap()
}

/// A transform of type `assistant` by the other agent.
fn assistant(limit: u64) -> String {
    format!(
        "transforms: [{{ type: assistant, input: long, output: short, agent_id: other, token_limit: {limit} }}]"
    )
}

/// Two results of some 800 tokens each, and then the answer.
const WORK: [Reply; 3] = [Reply::Calls(&["big"]), Reply::Calls(&["big"]), Reply::Says("done")];

#[test]
fn the_oldest_run_is_summed_up_by_the_other_agent() {
    let yaml = yaml(&assistant(1_000), "user_prompt: '{{event.name}} is {{event.value}}'");
    let (dev, other) = (Script::new(&WORK), Script::new(&[Reply::Says("  all of it was words ")]));
    let (mut orchestrator, heard) = orchestrator(&yaml, &dev, &other);
    let report = run(&mut orchestrator);
    let (asked, sent) = (other.said(), dev.said());
    assert_eq!((asked.len(), sent.len(), report.response.as_str()), (1, 3, "done"));
    assert_eq!(asked[0][0], "Work.");
    assert!(asked[0][1].starts_with("long is [assistant]"), "{}", asked[0][1]);
    assert!(asked[0][1].contains("-> big") && asked[0][1].contains("[tool big]"), "{}", asked[0][1]);
    assert!(asked[0][1].ends_with("many words"), "{}", asked[0][1]);
    // The first exchange is one message now, and the second is whole.
    let big = "many words ".repeat(400);
    assert_eq!(sent[1], ["go", "", big.as_str()]);
    assert_eq!(sent[2], ["go", "<short>\nall of it was words\n</short>", "", big.as_str()]);
    // It counts as a compaction, its calls as those for summaries, and only the answer is heard.
    assert_eq!((report.iterations, report.summary_calls, report.outcomes.len()), (3, 1, 1));
    assert_eq!(report.outcomes[0].trigger, Some(Trigger::TokenLimit));
    assert_eq!(heard.lines("text "), ["done"]);
    assert_eq!(heard.lines("notice "), [DEPRECATED]);
    assert_eq!(heard.lines("compacted "), ["over token_limit"]);
    // Nothing is lost: it is an entry of the log like any other.
    let mut log = orchestrator.conversation("dev").unwrap().clone();
    assert!(log.coverage().is_complete() && openai_breaches(log.view().messages()).is_empty());
    assert_eq!((log.messages().count(), log.view().messages().len()), (6, 5));
    log.undo().unwrap();
    assert_eq!(log.view().messages().len(), 6);
    assert_eq!(orchestrator.conversation("other").unwrap().messages().count(), 3);
}

#[test]
fn it_goes_on_while_the_context_is_over_the_limit_and_no_longer() {
    // What the third prompt holds decides: as many tokens as the limit are not over it.
    let (dev, other) = (Script::new(&WORK), Script::new(&[]));
    let (mut all, _) = orchestrator(&yaml("", ""), &dev, &other);
    run(&mut all);
    let size = all.conversation("dev").unwrap().rewound(5).unwrap().view().size().tokens.as_u64();
    for (limit, n_asked) in [(size, 0), (size - 1, 1), (size + 1, 0), (1, 1)] {
        let (dev, other) = (Script::new(&WORK), Script::new(&[Reply::Says("one"), Reply::Says("two")]));
        let (mut orchestrator, _) = orchestrator(&yaml(&assistant(limit), ""), &dev, &other);
        assert_eq!(run(&mut orchestrator).response, "done");
        assert_eq!(other.said().len(), n_asked, "{limit} of {size}");
    }
}

#[test]
fn each_summary_starts_afresh_and_takes_in_the_one_before() {
    let mut work = vec![Reply::Calls(&["big"]); 3];
    work.push(Reply::Says("done"));
    let (dev, other) =
        (Script::new(&work), Script::new(&[Reply::Says("the first"), Reply::Says("<short>both</short>")]));
    let (mut orchestrator, _) = orchestrator(&yaml(&assistant(1_000), ""), &dev, &other);
    run(&mut orchestrator);
    let asked = other.said();
    assert_eq!((asked.len(), asked[1].len()), (2, 2), "its instructions and what is to be summed up");
    assert!(asked[1][1].starts_with("[assistant]\n<short>\nthe first\n</short>"), "{}", asked[1][1]);
    assert_eq!(dev.said()[3][1], "<short>\nboth\n</short>");
    assert_eq!(dev.said()[3].len(), 4);
}

#[test]
fn whatever_fails_is_said_and_loses_nothing() {
    let inflated: &'static str = Box::leak("more and more ".repeat(2_000).into_boxed_str());
    for (what, replies, keys, expected) in [
        ("empty", vec![Reply::Says(" \n")], "", Some("the answer of the agent `other` is empty")),
        (
            "an empty tag",
            vec![Reply::Says("<short> </short>")],
            "",
            Some("the answer of the agent `other` is empty"),
        ),
        ("down", vec![], "", Some("the agent `other`: ")),
        ("no end", vec![Reply::Calls(&["x"])], "max_iterations: 1", Some("max_iterations (1) is reached")),
        ("inflated", vec![Reply::Says(inflated)], "", None),
    ] {
        let (dev, other) = (Script::new(&WORK), Script::new(&replies));
        let (mut orchestrator, heard) = orchestrator(&yaml(&assistant(1_000), keys), &dev, &other);
        assert_eq!(run(&mut orchestrator).response, "done", "{what}");
        let log = orchestrator.conversation("dev").unwrap();
        assert_eq!((log.messages().count(), log.view().messages().len()), (6, 6), "{what}");
        let notices = heard.lines("notice ");
        match expected {
            None => assert_eq!(notices, [DEPRECATED], "{what}"),
            Some(expected) => {
                let start = "the transform `assistant` of the agent `dev` did nothing: ";
                assert_eq!(notices.len(), 2, "{what}: {notices:?}");
                assert!(
                    notices[1].starts_with(start) && notices[1].contains(expected),
                    "{what}: {notices:?}"
                );
            }
        }
    }
}

#[test]
fn a_cancelled_summary_leaves_everything_as_it_was() {
    let (dev, other) =
        (Script::new(&WORK), Script::new(&[Reply::Hangs, Reply::Says("short"), Reply::Says("x")]));
    let (mut orchestrator, _) = orchestrator(&yaml(&assistant(1_000), ""), &dev, &other);
    assert!(orchestrator.run("go").now_or_never().is_none(), "the agent that sums up hangs");
    let log = orchestrator.conversation("dev").unwrap();
    assert_eq!((log.messages().count(), log.compactions().count()), (5, 0));
    // Both go on from there.
    let report = orchestrator.run("again").now_or_never().unwrap().unwrap();
    assert_eq!(report.response, "done");
    assert!(orchestrator.conversation("other").unwrap().messages().count() > 3);
}

#[test]
fn an_answer_is_appended_to_what_the_user_said() {
    let transform = "transforms: [{ type: user, agent_id: other, input: asked, output: known }]";
    for (what, reply, expected, n_notices) in [
        ("plain", Reply::Says("it is blue\n"), "go\n<known>\nit is blue\n</known>", 1),
        ("tagged", Reply::Says("Well: <known>it is red</known>."), "go\n<known>\nit is red\n</known>", 1),
        ("empty", Reply::Says(""), "go", 2),
    ] {
        let (dev, other) = (Script::new(&WORK), Script::new(&[reply]));
        let yaml = yaml(transform, "user_prompt: '{{event.name}}: {{event.value}}'");
        let (mut orchestrator, heard) = orchestrator(&yaml, &dev, &other);
        run(&mut orchestrator);
        // Once, not before each call.
        assert_eq!(other.said(), [["Work.".to_owned(), "asked: go".to_owned()]], "{what}");
        assert!(dev.said().iter().all(|prompt| prompt[0] == expected), "{what}: {:?}", dev.said());
        let notices = heard.lines("notice ");
        assert_eq!((notices[0].as_str(), notices.len()), (DROPPED, n_notices), "{what}: {notices:?}");
        // What the user said is in the log as it was said.
        let log = orchestrator.conversation("dev").unwrap();
        assert_eq!(log.messages().next().unwrap().message().to_text(), "go");
        assert_eq!(log.view().size().turns, 1);
    }
}

#[test]
fn whoever_looks_on_sees_every_context_and_changes_none() {
    let transform = "transforms: [{ type: pass_through, agent_id: other, input: seen }]";
    let looks = [Reply::Says("one"), Reply::Says(""), Reply::Says("three")];
    let (dev, other) = (Script::new(&WORK), Script::new(&looks));
    let (mut orchestrator, heard) = orchestrator(&yaml(transform, ""), &dev, &other);
    let report = run(&mut orchestrator);
    let asked = other.said();
    assert_eq!((asked.len(), report.iterations), (3, 6), "before each call, and counted");
    assert_eq!(asked[0][1], "[user]\ngo");
    assert!(asked[1].last().unwrap().starts_with("[user]\ngo\n\n[assistant]\n-> big"), "{asked:?}");
    // It remembers what it saw before.
    assert_eq!(asked.iter().map(Vec::len).collect::<Vec<_>>(), [2, 4, 6]);
    assert_eq!(
        (heard.lines("notice "), heard.lines("text ")),
        (vec![DROPPED.to_owned()], vec!["done".to_owned()])
    );
    assert_eq!(dev.said()[2].len(), 5);
}

#[test]
fn transforms_run_in_order_and_before_the_context_is_compacted() {
    let keys = "transforms: [{ type: user, agent_id: other, input: asked, output: known }, \
                { type: assistant, input: long, output: short, agent_id: other, token_limit: 1500 }], \
                compact: { token_threshold: 900, max_tokens: 500, retention_window: 0, strategies: [sliding_window] }";
    let mut work = vec![Reply::Calls(&["big"]); 3];
    work.push(Reply::Says("done"));
    let (dev, other) =
        (Script::new(&work), Script::new(&[Reply::Says("blue"), Reply::Says("sum"), Reply::Says("sum")]));
    let (mut orchestrator, heard) = orchestrator(&yaml(keys, ""), &dev, &other);
    run(&mut orchestrator);
    let both = "the agent `dev` has both `transforms` and `compact`: before each call its transforms run, then it is compacted";
    assert_eq!(heard.lines("notice "), [DEPRECATED, DROPPED, both]);
    let compacted = heard.lines("compacted ");
    assert_eq!(compacted.first().map(String::as_str), Some("over token_limit"), "{compacted:?}");
    assert_eq!(dev.said()[0][0], "go\n<known>\nblue\n</known>");
    // The next run of the same agents says none of it again.
    let before = heard.lines("notice ").len();
    let _ = orchestrator.run("more").now_or_never();
    let again = heard.lines("notice ");
    assert!(again[before..].iter().all(|notice| notice.contains("did nothing")), "{again:?}");
}

#[test]
fn agents_that_would_wake_each_other_are_kept_from_it() {
    let user = |id: &str| format!("transforms: [{{ type: user, agent_id: {id}, input: i, output: o }}]");
    for (dev_names, other_names, n_asked) in [("other", "dev", 1), ("other", "other", 1), ("dev", "other", 0)]
    {
        let (dev, other) = (Script::new(&[Reply::Says("done")]), Script::new(&[Reply::Says("known")]));
        let (mut orchestrator, heard) =
            orchestrator(&yaml(&user(dev_names), &user(other_names)), &dev, &other);
        assert_eq!(run(&mut orchestrator).response, "done");
        assert_eq!(other.said().len(), n_asked, "{dev_names} {other_names}");
        let notices = heard.lines("notice ").join("\n");
        assert!(
            notices.contains("is already working on this request"),
            "{dev_names} {other_names}: \
             {notices}"
        );
    }
}

#[test]
fn an_agent_that_sums_up_is_told_no_more_than_it_can_take() {
    let yaml = yaml(&assistant(500), "")
        .replace("'q:m': { window: 100000 }", "'q:m': { window: 2000, max_output: 100 }");
    let mut work = vec![Reply::Calls(&["big", "big"]); 2];
    work.extend([Reply::Calls(&["small"]), Reply::Says("done")]);
    let (dev, other) = (Script::new(&work), Script::new(&vec![Reply::Says("short"); 12]));
    let (mut orchestrator, _) = orchestrator(&yaml, &dev, &other);
    assert_eq!(run(&mut orchestrator).response, "done");
    let log = orchestrator.conversation("dev").unwrap();
    assert!(log.compactions().count() > 0 && log.coverage().is_complete());
    assert!(openai_breaches(log.view().messages()).is_empty());
    assert_eq!(log.refold(), log.view());
}

#[test]
fn what_is_migrated_sums_up_as_well() {
    let yaml = yaml(&assistant(1_700), "user_prompt: 'Sum up: {{event.value}}'");
    let migrated = migrate(&Source::new("forge.yaml", yaml), None).unwrap();
    let block = "compact: { token_threshold: 1700, max_tokens: 1062, model: q:m, prompt: \"";
    assert!(migrated.text.contains(block), "{}", migrated.text);
    let text = migrated.text.replace("max_tokens: 1062,", "max_tokens: 1062, retention_window: 0,");
    let mut work = vec![Reply::Calls(&["big"]); 3];
    work.push(Reply::Says("done"));
    let summary = Reply::Says("<forge_context_summary>words</forge_context_summary>");
    let (dev, other) = (Script::new(&work), Script::new(&[summary, summary, summary]));
    let (mut orchestrator, heard) = orchestrator(&text, &dev, &other);
    assert_eq!(run(&mut orchestrator).response, "done");
    let asked = other.said();
    assert!(!asked.is_empty(), "{:?}", heard.0.lock().unwrap());
    assert!(asked[0][0].starts_with("Work.\n\nSum up:") && asked[0][0].contains("-> big"), "{asked:?}");
    assert!(
        asked[0][0].ends_with("inside <forge_context_summary> and </forge_context_summary>."),
        "{asked:?}"
    );
    assert_eq!(heard.lines("notice "), Vec::<String>::new());
}

/// Two agents on the scripted server.
const ON_SERVER: &str = "\
agents:
  - id: dev
    model: openai:scripted
    tools: [read]
    subscribe: [user_task_init]
    transforms:
      - { type: assistant, input: long, output: short, agent_id: sum, token_limit: 400 }
  - id: sum
    model: openai:scripted
models:
  openai:scripted: { window: 8000 }
providers:
  openai: { retries: 0 }
";

#[test]
fn a_run_warns_once_and_shows_the_answer_alone() {
    let read = || Step::calls(&[("read", r#"{"path":"a.txt"}"#)]);
    let server = ScriptedServer::start(vec![
        read(),
        read(),
        Step::text("it was long"),
        read(),
        Step::text("still long"),
        Step::text("the answer"),
    ]);
    let forge = Forge::new()
        .with_file("forge.yaml", ON_SERVER)
        .with_file("a.txt", "a long line of text\n".repeat(60));
    let actual = outcome(
        forge
            .command(&["run", "Read a.txt."])
            .env("OPENAI_BASE_URL", server.base_url())
            .env("OPENAI_API_KEY", "none"),
    );
    assert_eq!((actual.code, actual.stdout.as_str()), (0, "the answer\n"), "{}", actual.stderr);
    assert_eq!(actual.stderr.matches(DEPRECATED).count(), 1, "{}", actual.stderr);
    assert!(actual.stderr.contains(&format!("note: {DEPRECATED}\n")), "{}", actual.stderr);
    assert!(actual.stderr.contains("compacted by transforms: "), "{}", actual.stderr);
    assert!(actual.stderr.contains("over token_limit"), "{}", actual.stderr);
}

#[test]
fn a_recording_is_of_the_agent_that_was_asked() {
    let server = ScriptedServer::start(vec![Step::text("it is blue"), Step::text("the answer")]);
    let transform = "{ type: user, agent_id: sum, input: asked, output: known }";
    let yaml = ON_SERVER.replace(
        "{ type: assistant, input: long, output: short, agent_id: sum, token_limit: 400 }",
        transform,
    );
    let forge = Forge::new().with_file("forge.yaml", yaml);
    let actual = outcome(
        forge
            .command(&["run", "Which colour?", "--record", "session.json"])
            .env("OPENAI_BASE_URL", server.base_url())
            .env("OPENAI_API_KEY", "none"),
    );
    assert_eq!((actual.code, actual.stdout.as_str()), (0, "the answer\n"), "{}", actual.stderr);
    assert!(actual.stderr.contains(&format!("note: {DROPPED}\n")), "{}", actual.stderr);
    let kept = |name: &str| std::fs::read_to_string(forge.path(name)).unwrap();
    assert!(kept("session.json").contains("the answer") && !kept("session.json").contains("\"it is blue\""));
    assert!(kept("session.sum.json").contains("it is blue"));
    let sent = server.requests();
    assert_eq!(
        sent[1]["messages"].as_array().unwrap().last().unwrap()["content"],
        "Which colour?\n<known>\nit is blue\n</known>"
    );
}

#[test]
fn an_agent_that_is_not_there_is_refused_at_its_place() {
    let yaml = ON_SERVER.replace("agent_id: sum", "agent_id: summ");
    let forge = Forge::new().with_file("forge.yaml", &yaml);
    for command in [&["config", "check"][..], &["run", "go"]] {
        let actual = forge.run(command);
        assert_eq!((actual.code, actual.stdout.as_str()), (2, ""), "{command:?}");
        // A check warns of what is deprecated before it tells what is wrong.
        let error = actual.stderr.find("error:").map(|at| &actual.stderr[at..]);
        insta::allow_duplicates! {
            insta::assert_snapshot!("unknown_agent", error.unwrap_or_default());
        }
    }
}

#[test]
fn where_only_a_block_counts_transforms_are_said_to_be_left_out() {
    let session = std::fs::read(crate::forge::repository("tests/fixtures/reading.json")).unwrap();
    let forge = Forge::new().with_file("forge.yaml", ON_SERVER).with_file("session.json", session);
    for command in [&["replay", "session.json"][..], &["compact", "session.json", "--dry-run"]] {
        for (agent, n_said) in [("dev", 1), ("sum", 0)] {
            let actual = forge.run(&[command, &["--agent", agent]].concat());
            assert_eq!(actual.code, 0, "{command:?}: {}", actual.stderr);
            let said = actual.stderr.matches("note: the transforms of the agent `dev` are ignored").count();
            assert_eq!((said, actual.stderr.matches(DEPRECATED).count()), (n_said, 0), "{command:?} {agent}");
        }
    }
}
