//! A model that only repeats itself is told, and stopped.

use std::num::NonZeroUsize;
use std::sync::Arc;

use forge_app::{Checkpointing, Orchestrator, Resume, StopReason};
use forge_domain::*;
use forge_infra::{MemoryCheckpointStore, SystemClock};
use forge_services::workflow::{Layers, Source, load};
use futures::FutureExt;
use pretty_assertions::assert_eq;

use super::{Echo, Reply, Script};

fn build(limits: &str, replies: &[Reply], store: &Arc<dyn CheckpointStore>) -> Orchestrator {
    let yaml = format!(
        "agents: [{{ id: one, model: 'p:m', {limits} }}]\nproviders: {{ p: {{}} }}\n\
         models: {{ 'p:m': {{ window: 8000, max_output: 100 }} }}\n"
    );
    let layers = Layers { project: Some(Source::new("forge.yaml", yaml)), ..Layers::default() };
    let keeping = Checkpointing::new(Arc::clone(store), Arc::new(SystemClock), RunId::new("r").unwrap());
    Orchestrator::builder()
        .workflow(load(&layers).unwrap())
        .provider(ProviderId::new("p").unwrap(), Script::new(replies) as Arc<dyn Provider>)
        .tools(Arc::new(Echo))
        .checkpoints(keeping)
        .build()
        .unwrap()
}

fn notes(orchestrator: &Orchestrator) -> Vec<String> {
    let log = orchestrator.conversation("one").unwrap();
    let notes =
        log.messages().map(ContextMessage::message).filter(|message| message.note_by() == Some("loop"));
    notes.map(Message::to_text).collect()
}

fn repeating(times: usize, tools: &str) -> StopReason {
    StopReason::Repeating { times, tools: tools.to_owned(), do_numbers_differ: false }
}

fn ticking(times: usize, tools: &str) -> StopReason {
    StopReason::Repeating { times, tools: tools.to_owned(), do_numbers_differ: true }
}

#[test]
fn the_same_calls_are_noticed_told_and_ended() {
    let (a, b, clock) = (Reply::Calls(&["a"]), Reply::Calls(&["b", "b"]), Reply::Calls(&["clock"]));
    let wait = Reply::Calls(&["wait"]);
    for (limit, replies, stop, n_notes) in [
        ("", vec![a; 4], StopReason::Done, 0),
        ("", vec![a; 5], StopReason::Done, 1),
        ("", vec![a; 9], StopReason::Done, 2),
        ("", vec![a; 30], repeating(10, "a"), 2),
        ("max_repetitions: 4", vec![a; 9], repeating(4, "a"), 2),
        ("max_repetitions: 4", [a, b].repeat(2), StopReason::Done, 1),
        ("max_repetitions: 3", [a, b].repeat(9), repeating(3, "a, b, b"), 1),
        ("max_repetitions: 100", vec![a; 30], StopReason::Done, 0),
        // The result of `clock` differs in a number each time. Calls that wait may be a poll.
        ("max_repetitions: 2", vec![clock; 9], StopReason::Done, 2),
        ("max_repetitions: 2", vec![clock; 30], ticking(10, "clock"), 2),
        ("max_repetitions: 2", [clock, b].repeat(15), ticking(10, "clock, b, b"), 2),
        ("max_repetitions: 2", vec![Reply::Calls(&["wait_for_clock"]); 30], StopReason::Done, 0),
        // A poll may get the same result for long.
        ("max_repetitions: 2", vec![wait; 9], StopReason::Done, 2),
        ("max_repetitions: 2", vec![wait; 30], repeating(10, "wait"), 2),
        ("", vec![wait; 30], StopReason::Done, 1),
    ] {
        let replies = [replies, vec![Reply::Says("done"); 2]].concat();
        let store: Arc<dyn CheckpointStore> = Arc::new(MemoryCheckpointStore::new());
        let mut orchestrator = build(limit, &replies, &store);
        let report = orchestrator.run("go").now_or_never().unwrap().unwrap();
        let notes = notes(&orchestrator);
        assert_eq!((report.stop, notes.len()), (stop, n_notes), "{limit} {}", replies.len());
        assert!(notes.iter().all(|note| note.contains("Try something else")), "{notes:?}");
    }
}

#[test]
fn limits_hold_when_a_run_is_resumed() {
    // What a resumed run does is what it would have done: it is stopped at once, and nothing is said twice.
    for (limits, n_before, stop) in [
        ("max_repetitions: 4", 4, repeating(4, "a")),
        ("max_iterations: 3", 3, StopReason::MaxIterations(NonZeroUsize::new(3).unwrap().get())),
    ] {
        let store: Arc<dyn CheckpointStore> = Arc::new(MemoryCheckpointStore::new());
        let mut first = build(limits, &vec![Reply::Calls(&["a"]); 9], &store);
        assert_eq!(first.run("go").now_or_never().unwrap().unwrap().stop, stop);
        let said = notes(&first);
        first.close().now_or_never().unwrap();
        let mut second = build(limits, &[Reply::Says("never")], &store);
        second.restore(&Resume::from("last")).now_or_never().unwrap().unwrap();
        let report = second.proceed().now_or_never().unwrap().unwrap();
        assert_eq!((report.stop, report.iterations, notes(&second)), (stop, 0, said), "{limits}");
        assert_eq!(report.progress.iterations, n_before);
    }
    let store: Arc<dyn CheckpointStore> = Arc::new(MemoryCheckpointStore::new());
    let mut first = build("max_turns: 1", &[Reply::Says("one")], &store);
    first.run("go").now_or_never().unwrap().unwrap();
    first.close().now_or_never().unwrap();
    let mut second = build("max_turns: 1", &[Reply::Says("two")], &store);
    second.restore(&Resume::from("last")).now_or_never().unwrap().unwrap();
    assert_eq!(second.run("more").now_or_never().unwrap().unwrap().stop, StopReason::MaxTurns(1));
}
