//! What can be done with a run between its turns.

use forge_app::{Checkpointing, NextCall, Orchestrator, RunError};
use forge_domain::compaction::{Focus, Outcome, Trigger};
use forge_domain::*;
use forge_infra::MemoryCheckpointStore;
use forge_services::workflow::{Layers, Source, load};
use futures::FutureExt;
use pretty_assertions::assert_eq;
use std::sync::Arc;

use super::{Echo, Reply, Script};

const YAML: &str = "agents: [{ id: one, model: 'p:m', system_prompt: Be brief., tools: [big], max_repetitions: 100 }]\n\
                    models: { 'p:m': { window: 20000, max_output: 100 }, 'p:small': { window: 1500, max_output: 100 } }\n\
                    providers: { p: {} }\n";

/// An orchestrator that keeps checkpoints in `store`.
fn orchestrator(script: &Arc<Script>, store: &Arc<MemoryCheckpointStore>) -> Orchestrator {
    let workflow =
        load(&Layers { project: Some(Source::new("forge.yaml", YAML)), ..Layers::default() }).unwrap();
    let clock = Arc::new(forge_infra::SystemClock);
    let run = RunId::new("run").unwrap();
    Orchestrator::builder()
        .workflow(workflow)
        .provider(ProviderId::new("p").unwrap(), Arc::clone(script) as Arc<dyn Provider>)
        .tools(Arc::new(Echo))
        .checkpoints(Checkpointing::new(Arc::clone(store) as Arc<dyn CheckpointStore>, clock, run))
        .build()
        .unwrap()
}

fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("nothing here waits")
}

/// After a turn with two large results.
fn after_a_turn(more: &[Reply]) -> (Arc<Script>, Orchestrator, Arc<MemoryCheckpointStore>) {
    let mut replies = vec![Reply::Calls(&["big"]), Reply::Calls(&["big"]), Reply::Says("read")];
    replies.extend(more);
    let (script, store) = (Script::new(&replies), Arc::new(MemoryCheckpointStore::new()));
    let mut orchestrator = orchestrator(&script, &store);
    now(orchestrator.run("read it twice")).unwrap();
    (script, orchestrator, store)
}

#[test]
fn what_was_compacted_on_demand_is_sent_raw_again_once_it_is_taken_back() {
    let (script, mut live, _) = after_a_turn(&[Reply::Says("small"), Reply::Says("raw")]);
    let before = now(live.context("one")).unwrap();
    assert_eq!((before.next, before.compactions), (NextCall::AsItIs, 0));

    let report = now(live.compact("one", None)).unwrap();
    assert_eq!(report.trigger, Some(Trigger::Asked));
    assert!(matches!(report.outcome, Outcome::Applied { .. }), "{report:?}");
    assert!(report.after.tokens.as_u64() <= report.before.tokens.as_u64() / 2, "{report:?}");
    assert_eq!(now(live.context("one")).unwrap().compactions, 1);
    now(live.run("and now?")).unwrap();

    let undone = now(live.undo("one")).unwrap().unwrap();
    assert_eq!((undone.undone, undone.next), (EntryId::nth(0), NextCall::AsItIs));
    assert!(undone.after.tokens > undone.before.tokens);
    assert_eq!(now(live.undo("one")).unwrap(), None);
    now(live.run("and raw?")).unwrap();

    let said = script.said();
    let raw = "many words ".repeat(400);
    let n_raw = |prompt: &[String]| prompt.iter().filter(|text| **text == raw).count();
    let counts: Vec<usize> = said[2..].iter().map(|prompt| n_raw(prompt)).collect();
    assert_eq!(counts, [2, 0, 2], "before, compacted, taken back");

    let steps: Vec<String> =
        now(live.saved_checkpoints()).unwrap().iter().rev().map(|info| info.id.to_string()).collect();
    let of_ours = |step: &&String| step.contains("compaction") || step.contains("undo");
    assert_eq!(steps.iter().filter(of_ours).collect::<Vec<_>>(), ["one-compaction-1", "one-undo-c0"]);
}

#[test]
fn a_focus_counts_instead_of_the_blocks_and_nothing_is_cut_where_all_must_stay() {
    let script = Script::new(&[Reply::Says("hello")]);
    let mut live = orchestrator(&script, &Arc::new(MemoryCheckpointStore::new()));
    let empty = now(live.compact("one", None)).unwrap();
    assert_eq!(empty.outcome, Outcome::NothingToCut);
    assert!(live.active().is_none() && live.conversation("one").is_none(), "nobody woke");
    assert_eq!(now(live.saved_checkpoints()).unwrap(), []);
    now(live.run("hi")).unwrap();
    let report = now(live.compact("one", Focus::try_from("the dome".to_owned()).ok())).unwrap();
    assert_eq!((report.outcome, report.before), (Outcome::NothingToCut, report.after));
    assert!(matches!(now(live.compact("nobody", None)), Err(RunError::UnknownAgent { .. })));
}

#[test]
fn the_shares_of_a_context_are_all_of_the_window() {
    let (_, mut live, _) = after_a_turn(&[]);
    let context = now(live.context("one")).unwrap();
    let roles: Tokens = context.made_of.by_role.iter().map(|share| share.tokens).sum();
    assert_eq!(context.made_of.tokens, roles + context.made_of.tools_tokens + REQUEST_TOKENS);
    assert_eq!(context.made_of.tokens + context.free() + context.reserve, context.window);
    assert_eq!((context.window.as_u64(), context.reserve.as_u64()), (20_000, 100));
    assert_eq!(context.trigger, context.room.share(80, 100));
    assert_eq!(context.made_of.by_tool[0].tool, "big");

    let statistics = live.statistics();
    assert_eq!((statistics.calls, statistics.agents.len()), (3, 1));
    assert_eq!(statistics.agents[0].1.iterations, 3);
    assert_eq!(statistics.agents[0].1.spent, statistics.spent);
    assert!(statistics.spent.tokens > Tokens::ZERO);
}

#[test]
fn another_model_is_checked_and_a_smaller_window_compacts_before_the_next_call() {
    let (script, mut live, _) = after_a_turn(&[Reply::Says("in less")]);
    let model = |name: &str| ModelId::new(name).unwrap();
    assert!(matches!(now(live.switch_model("one", model("q:m"))), Err(RunError::Model { .. })));
    assert_eq!(live.engine().services().workflow.agents.find("one").unwrap().model, Some(model("p:m")));

    let switch = now(live.switch_model("one", model("p:small"))).unwrap();
    assert_eq!(switch.from.unwrap().to_string(), "p:m");
    assert_eq!(
        (switch.context.model.to_string().as_str(), switch.context.window.as_u64()),
        ("p:small", 1_500)
    );
    assert_eq!(switch.context.next, NextCall::Compacts(Trigger::Window));
    let report = now(live.run("go on")).unwrap();
    assert_eq!((report.response.as_str(), report.outcomes.len()), ("in less", 1));
    let sent = script.prompts.lock().unwrap().last().cloned().unwrap();
    assert_eq!(sent.options().model.to_string(), "p:small");
    assert!(sent.tokens().as_u64() <= 1_400, "{}", sent.tokens());
    let saved = now(live.saved_checkpoints()).unwrap();
    assert!(saved[0].id.as_str().contains("iteration-4"), "{}", saved[0].id);
}

#[test]
fn a_turn_that_is_dropped_leaves_a_whole_conversation() {
    // In the middle of an answer: nothing of it is kept.
    let (script, mut live, _) = after_a_turn(&[Reply::Hangs, Reply::Says("again")]);
    let entries = live.conversation("one").unwrap().entries().len();
    assert!(live.run("and?").now_or_never().is_none());
    now(live.finish_cancelled());
    assert_eq!(
        live.conversation("one").unwrap().entries().len(),
        entries + 1,
        "the message that was not answered"
    );
    now(live.run("once more")).unwrap();
    let last = script.said().pop().unwrap();
    let stopped =
        "[The work on the request above was stopped before it was finished. Go by the next message.]";
    assert_eq!(&last[last.len() - 3..], ["and?", stopped, "once more"]);

    // In the middle of a call: it is answered, and nothing is called again.
    let store = Arc::new(MemoryCheckpointStore::new());
    let script = Script::new(&[Reply::Calls(&["first", "stuck"]), Reply::Says("well")]);
    let mut live = orchestrator(&script, &store);
    assert!(live.run("call").now_or_never().is_none());
    now(live.finish_cancelled());
    let last: Vec<Message> =
        live.conversation("one").unwrap().messages().map(|message| message.message().clone()).collect();
    let results: Vec<String> =
        last.iter().filter(|message| message.role() == Role::Tool).map(Message::to_text).collect();
    assert_eq!((results.len(), results[0].as_str()), (2, "first ran"));
    assert!(results[1].contains("interrupted before this call had answered"), "{results:?}");
    let newest = now(live.saved_checkpoints()).unwrap().swap_remove(0);
    assert_eq!((newest.reason, newest.message_count), (CheckpointReason::Interrupt, last.len()));
    assert_eq!(now(live.run("go on")).unwrap().response, "well");
}
