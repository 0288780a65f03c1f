//! Runs in slices: each is a process of its own that restores the run, works for a while, and pauses. What
//! only a person can say waits in the checkpoint, and the answer reaches another process.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use forge_app::{
    Answer, AnswerWhat, Checkpointing, Correspondence, Orchestrator, Resume, RunError, RunEvent, Slice,
    SliceEnd, SliceLimits, SlicedRun, StopReason,
};
use forge_domain::*;
use forge_infra::{MemoryCheckpointStore, SystemClock};
use forge_services::workflow::{Layers, Source, load};
use futures::FutureExt;
use pretty_assertions::assert_eq;

use crate::orchestrator::helping::{Cast, Line};

const YAML: &str = "
providers: { p: {} }
models: { 'p:boss': { window: 4000, max_output: 100 }, 'p:scout': { window: 4000, max_output: 100 } }
agents:
  - { id: boss, model: 'p:boss', tools: [look, change, wonder, scout], subscribe: [user_task_init] }
  - { id: scout, model: 'p:scout', tools: [look, change], description: finds things }
permissions: { change: ask }
";
const LOOK: Line = Line::Calls(&[("look", "{}")]);
const CHANGE: Line = Line::Calls(&[("change", "{}")]);

/// Tools that log their calls. `wonder` asks the person; `change` changes a file as it is now.
struct Tools {
    person: Arc<Correspondence>,
    log: Arc<Mutex<Vec<String>>>,
    file: Arc<Mutex<String>>,
}

#[async_trait]
impl ToolService for Tools {
    fn definitions(&self, names: &[ToolName]) -> Result<Vec<ToolDefinition>, UnknownToolError> {
        let definition = |name: &ToolName| ToolDefinition {
            name: name.clone(),
            description: String::new(),
            parameters: serde_json::json!({"type": "object"}),
        };
        let own = |name: &&ToolName| name.as_str() != "scout";
        Ok(names.iter().filter(own).map(definition).collect())
    }

    async fn preview(&self, call: &ToolCall) -> Option<FileChange> {
        let before = Some(self.file.lock().unwrap().clone());
        (call.name.as_str() == "change").then(|| FileChange { path: "f".into(), before, after: "new".into() })
    }

    async fn call(&self, _: &ToolCall) -> ToolResult {
        unreachable!()
    }

    async fn call_within(&self, call: &ToolCall, scope: &CallScope) -> ToolResult {
        if call.name.as_str() == "wonder" {
            let question = Question { text: "Red or blue?".into(), options: vec!["red".into()] };
            return match self.person.answer(&question).await {
                Ok(answer) => ToolResult::answer(call, answer),
                Err(_) => {
                    scope.note_awaited(question);
                    ToolResult::error(call, "not yet")
                }
            };
        }
        self.log.lock().unwrap().push(format!("{} {}", call.id, call.name));
        ToolResult::answer(call, format!("{} ran", call.name))
    }
}

/// A run in a store, and what its processes share.
struct Run {
    store: Arc<dyn CheckpointStore>,
    cast: Arc<Cast>,
    log: Arc<Mutex<Vec<String>>>,
    file: Arc<Mutex<String>>,
}

impl Run {
    fn new(lines: &[(&str, &[Line])]) -> Self {
        let store: Arc<dyn CheckpointStore> = Arc::new(MemoryCheckpointStore::new());
        Self { store, cast: Cast::new(lines), log: Arc::default(), file: Arc::default() }
    }

    /// A process of its own.
    fn process(&self) -> (SlicedRun, Arc<Correspondence>) {
        self.process_with_lease(Duration::from_secs(3_600), |_| {})
    }

    fn process_with_lease(
        &self,
        lease: Duration,
        watcher: impl Fn(&RunEvent<'_>) + Send + Sync + 'static,
    ) -> (SlicedRun, Arc<Correspondence>) {
        let person = Arc::<Correspondence>::default();
        let layers = Layers { project: Some(Source::new("forge.yaml", YAML)), ..Layers::default() };
        let tools =
            Tools { person: Arc::clone(&person), log: Arc::clone(&self.log), file: Arc::clone(&self.file) };
        let run = RunId::new("r").unwrap();
        let checkpoints = Checkpointing::new(Arc::clone(&self.store), Arc::new(SystemClock), run)
            .with_lease(Lease::new(lease).unwrap());
        let orchestrator = Orchestrator::builder()
            .workflow(load(&layers).unwrap())
            .provider(ProviderId::new("p").unwrap(), Arc::clone(&self.cast) as Arc<dyn Provider>)
            .tools(Arc::new(tools))
            .person(Arc::clone(&person) as Arc<dyn Person>)
            .checkpoints(checkpoints)
            .watcher(watcher)
            .build()
            .unwrap();
        (SlicedRun::new(orchestrator), person)
    }

    async fn begin(&self, task: &str) {
        let (mut run, _) = self.process();
        run.accept(task, None).await.unwrap();
        run.orchestrator().close().await;
    }

    /// Runs the next slice, of at most `calls` calls, with these answers and words.
    async fn slice(&self, calls: usize, answers: Vec<Answer>, words: &[(u64, &str)]) -> Slice {
        let (mut run, person) = self.process();
        run.orchestrator_mut().restore(&Resume::from("r")).await.unwrap();
        assert_eq!(person.receive(&run.awaited(), answers), [], "no answer is late");
        for (number, text) in words {
            run.say(*number, (*text).to_owned());
        }
        let limits = SliceLimits { calls: NonZeroUsize::new(calls), time: None };
        let slice = run.run(limits).await.unwrap();
        run.orchestrator().close().await;
        slice
    }

    async fn awaited(&self) -> Vec<Awaited> {
        let (mut run, _) = self.process();
        run.orchestrator_mut().restore(&Resume::from("r")).await.unwrap();
        run.orchestrator().close().await;
        run.awaited()
    }

    fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// The last messages that `model` was sent, without the task.
    fn told(&self, model: &str) -> Vec<String> {
        self.cast.told(model).last().unwrap()[1..].iter().filter(|text| !text.is_empty()).cloned().collect()
    }
}

fn consent(id: &str, consent: Consent) -> Vec<Answer> {
    vec![Answer { id: id.to_owned(), what: AnswerWhat::Consent(consent) }]
}

fn waits_for(slice: &Slice) -> Vec<&str> {
    match &slice.end {
        SliceEnd::Waiting(awaited) => awaited.iter().map(|awaited| awaited.id.as_str()).collect(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn slices_of_a_run_do_together_what_the_unbroken_run_does() {
    let lines: &[(&str, &[Line])] = &[("boss", &[LOOK, LOOK, LOOK, LOOK, Line::Says("done")])];
    let whole = Run::new(lines);
    whole.begin("go").await;
    let slice = whole.slice(0, vec![], &[]).await;
    assert_eq!((slice.end, slice.calls), (SliceEnd::Done, 5));
    for calls in 1..=6 {
        let run = Run::new(lines);
        run.begin("go").await;
        let mut n_slices = 0;
        let last = loop {
            n_slices += 1;
            let slice = run.slice(calls, vec![], &[]).await;
            match slice.end {
                SliceEnd::Paused => assert_eq!(slice.calls, calls),
                _ => break slice,
            }
            // A slice that pauses leaves the run to anyone.
            assert_eq!(run.store.runs().await.unwrap()[0].holder, None);
            let last = run.store.list(&CheckpointFilter::default()).await.unwrap().remove(0);
            assert_eq!((last.reason, last.iteration), (CheckpointReason::Pause, n_slices * calls));
        };
        assert_eq!((last.end, n_slices), (SliceEnd::Done, 5_usize.div_ceil(calls)), "{calls}");
        assert_eq!((last.report.response.as_str(), last.report.progress.iterations), ("done", 5));
        assert_eq!(run.cast.told("boss"), whole.cast.told("boss"), "{calls}");
        assert_eq!(run.log(), whole.log());
    }
}

#[tokio::test]
async fn a_call_that_needs_consent_waits_and_its_neighbours_run_once() {
    let both = Line::Calls(&[("change", "{}"), ("look", "{}")]);
    let run = Run::new(&[("boss", &[LOOK, both, Line::Says("done")])]);
    run.begin("go").await;
    let slice = run.slice(0, vec![], &[]).await;
    assert_eq!(waits_for(&slice), ["boss-2-1"]);
    assert_eq!(slice.report.stop, StopReason::Waiting);
    // Days later, somebody looks what it waits for.
    let awaited = run.awaited().await;
    let AwaitedRequest::Consent { tool, change, .. } = &awaited[0].request else { panic!("{awaited:?}") };
    assert_eq!((tool.as_str(), change.as_ref().unwrap().after.as_str()), ("change", "new"));
    // Without an answer it goes on waiting, and nothing runs again or is asked.
    let slice = run.slice(0, vec![], &[]).await;
    assert_eq!((waits_for(&slice), slice.calls), (vec!["boss-2-1"], 0));
    assert_eq!(run.log(), ["call_0 look", "call_1 look"]);
    let slice = run.slice(0, consent("boss-2-1", Consent::Once), &[]).await;
    assert_eq!(slice.end, SliceEnd::Done);
    assert_eq!(run.log(), ["call_0 look", "call_1 look", "call_0_2 change"]);
    assert_eq!(run.told("boss"), ["look ran", "change ran", "look ran"], "in the order of the calls");
}

#[tokio::test]
async fn a_refusal_comes_with_its_reason_and_nothing_is_done() {
    let run = Run::new(&[("boss", &[CHANGE, Line::Says("done")])]);
    run.begin("go").await;
    assert_eq!(waits_for(&run.slice(0, vec![], &[]).await), ["boss-1-1"]);
    let refused = Consent::Refused { why: Some("not on Fridays".into()) };
    assert_eq!(run.slice(0, consent("boss-1-1", refused), &[]).await.end, SliceEnd::Done);
    assert!(run.told("boss")[0].contains("not on Fridays"), "{:?}", run.told("boss"));
    assert_eq!(run.log(), Vec::<String>::new());
}

#[tokio::test]
async fn consent_is_to_the_change_that_was_shown() {
    let run = Run::new(&[("boss", &[CHANGE, Line::Says("done")])]);
    run.begin("go").await;
    assert_eq!(waits_for(&run.slice(0, vec![], &[]).await), ["boss-1-1"]);
    *run.file.lock().unwrap() = "edited meanwhile".to_owned();
    let slice = run.slice(0, consent("boss-1-1", Consent::Once), &[]).await;
    let SliceEnd::Waiting(awaited) = &slice.end else { panic!("{slice:?}") };
    let AwaitedRequest::Consent { change, .. } = &awaited[0].request else { panic!("{awaited:?}") };
    assert_eq!(change.as_ref().unwrap().before.as_deref(), Some("edited meanwhile"));
    assert_eq!(run.log(), Vec::<String>::new());
    assert_eq!(run.slice(0, consent("boss-1-1", Consent::Once), &[]).await.end, SliceEnd::Done);
    assert_eq!(run.log(), ["call_0 change"]);
}

#[tokio::test]
async fn consent_for_the_rest_of_the_run_holds_in_later_processes() {
    let run = Run::new(&[("boss", &[CHANGE, CHANGE, Line::Says("done")])]);
    run.begin("go").await;
    assert_eq!(waits_for(&run.slice(0, vec![], &[]).await), ["boss-1-1"]);
    assert_eq!(run.slice(1, consent("boss-1-1", Consent::ForRun), &[]).await.end, SliceEnd::Paused);
    assert_eq!(run.slice(0, vec![], &[]).await.end, SliceEnd::Done);
    assert_eq!(run.log(), ["call_0 change", "call_0_2 change"]);
}

#[tokio::test]
async fn a_question_waits_for_its_answer() {
    let wonder = Line::Calls(&[("wonder", "{}")]);
    let run = Run::new(&[("boss", &[wonder, Line::Says("done")])]);
    run.begin("go").await;
    assert_eq!(waits_for(&run.slice(0, vec![], &[]).await), ["boss-1-1"]);
    let awaited = run.awaited().await;
    assert!(
        matches!(&awaited[0].request, AwaitedRequest::Answer(question) if question.text == "Red or blue?")
    );
    let answer = Answer { id: "boss-1-1".into(), what: AnswerWhat::Text("blue".into()) };
    assert_eq!(run.slice(0, vec![answer], &[]).await.end, SliceEnd::Done);
    assert_eq!(run.told("boss"), ["blue"]);
}

#[tokio::test]
async fn an_agent_that_was_called_waits_and_pauses_with_its_caller() {
    let ask = Line::Calls(&[("scout", r#"{"task": "find it"}"#), ("look", "{}")]);
    let scout = [LOOK, CHANGE, Line::Says("found")];
    let run = Run::new(&[("boss", &[ask, Line::Says("done")]), ("scout", &scout)]);
    run.begin("go").await;
    // Its own call is the second one of the slice.
    assert_eq!(run.slice(2, vec![], &[]).await.end, SliceEnd::Paused);
    let slice = run.slice(0, vec![], &[]).await;
    assert_eq!(waits_for(&slice), ["scout~1-2-1"]);
    assert_eq!(run.log(), ["call_0 look", "call_1 look"]);
    assert_eq!(run.slice(0, consent("scout~1-2-1", Consent::Once), &[]).await.end, SliceEnd::Done);
    assert_eq!(run.log(), ["call_0 look", "call_1 look", "call_0_2 change"]);
    assert_eq!(run.told("boss"), ["found", "look ran"]);
    assert_eq!(run.cast.told("scout").len(), 3, "nothing was asked twice");
}

#[tokio::test]
async fn of_two_agents_that_were_called_at_once_the_one_that_waits_continues() {
    let both = Line::Calls(&[("scout", r#"{"task": "one"}"#), ("scout", r#"{"task": "two"}"#)]);
    let scout = [CHANGE, CHANGE, Line::Says("one is found"), Line::Says("two is found")];
    let run = Run::new(&[("boss", &[both, Line::Says("done")]), ("scout", &scout)]);
    run.begin("go").await;
    assert_eq!(waits_for(&run.slice(0, vec![], &[]).await), ["scout~1-1-1", "scout~2-1-1"]);
    let slice = run.slice(0, consent("scout~1-1-1", Consent::Once), &[]).await;
    assert_eq!(waits_for(&slice), ["scout~2-1-1"]);
    assert_eq!(run.slice(0, consent("scout~2-1-1", Consent::Once), &[]).await.end, SliceEnd::Done);
    assert_eq!(run.told("boss"), ["one is found", "two is found"]);
    assert_eq!(run.cast.told("scout").len(), 4, "nothing was asked twice");
}

#[tokio::test]
async fn what_the_user_says_in_mid_run_is_heard_once_before_the_next_call() {
    let run = Run::new(&[("boss", &[LOOK, LOOK, Line::Says("done")])]);
    run.begin("go").await;
    assert_eq!(run.slice(1, vec![], &[]).await.end, SliceEnd::Paused);
    assert_eq!(run.slice(1, vec![], &[(1, "only the north")]).await.end, SliceEnd::Paused);
    assert_eq!(run.told("boss"), ["look ran", "only the north"]);
    // A process was lost, and its slice is run again with the same words.
    assert_eq!(run.slice(0, vec![], &[(1, "only the north"), (2, "quickly")]).await.end, SliceEnd::Done);
    assert_eq!(run.told("boss"), ["look ran", "only the north", "look ran", "quickly"]);
}

#[tokio::test]
async fn words_to_a_run_that_waits_are_heard_when_it_continues() {
    let run = Run::new(&[("boss", &[CHANGE, Line::Says("done")])]);
    run.begin("go").await;
    assert_eq!(waits_for(&run.slice(0, vec![], &[]).await), ["boss-1-1"]);
    // They come alone: the run goes on waiting.
    assert_eq!(waits_for(&run.slice(0, vec![], &[(1, "carefully")]).await), ["boss-1-1"]);
    assert_eq!(run.slice(0, consent("boss-1-1", Consent::Once), &[(2, "now")]).await.end, SliceEnd::Done);
    assert_eq!(run.told("boss"), ["change ran", "carefully", "now"]);
}

#[tokio::test]
async fn a_new_task_ends_the_waiting_and_the_call_is_not_made() {
    let run = Run::new(&[("boss", &[CHANGE, Line::Says("done")])]);
    run.begin("go").await;
    assert_eq!(waits_for(&run.slice(0, vec![], &[]).await), ["boss-1-1"]);
    let (mut next, _) = run.process();
    next.orchestrator_mut().restore(&Resume::from("r")).await.unwrap();
    let report = next.orchestrator_mut().run("never mind").await.unwrap();
    assert_eq!((report.stop, next.awaited()), (StopReason::Done, vec![]));
    assert!(run.told("boss")[0].contains("nothing was done"), "{:?}", run.told("boss"));
    assert_eq!(run.log(), Vec::<String>::new());
}

#[tokio::test]
async fn a_slice_is_paused_from_outside() {
    let run = Run::new(&[("boss", &[LOOK, LOOK, Line::Says("done")])]);
    run.begin("go").await;
    let (mut next, _) = run.process();
    next.orchestrator_mut().restore(&Resume::from("r")).await.unwrap();
    next.orchestrator().engine().conduct.pacing.handle().pause();
    let slice = next.run(SliceLimits::default()).await.unwrap();
    assert_eq!((slice.end, slice.calls), (SliceEnd::Paused, 1));
    // The next one is not asked to pause.
    let slice = next.run(SliceLimits::default()).await.unwrap();
    assert_eq!((slice.end, slice.calls), (SliceEnd::Done, 2));
}

#[tokio::test]
async fn a_lease_that_ran_out_is_renewed_and_said_and_one_that_another_process_took_ends_the_run() {
    for is_taken in [false, true] {
        let run = Run::new(&[("boss", &[LOOK, LOOK, Line::Says("done")])]);
        let notices = Arc::new(Mutex::new(Vec::new()));
        let (said, store, log) = (Arc::clone(&notices), Arc::clone(&run.store), Arc::clone(&run.log));
        let next = RunId::new("r").unwrap();
        let watcher = move |event: &RunEvent<'_>| match event {
            RunEvent::Notice(notice) => said.lock().unwrap().push((*notice).to_owned()),
            // The machine sleeps for longer than its lease.
            RunEvent::ToolFinished(_) => {
                std::thread::sleep(Duration::from_millis(5));
                if is_taken && log.lock().unwrap().len() == 1 {
                    let claim = store.claim(&next, "another", Takeover::Never, None, SystemClock.now());
                    claim.now_or_never().unwrap().unwrap();
                }
            }
            _ => {}
        };
        let (mut sleepy, _) = run.process_with_lease(Duration::from_millis(1), watcher);
        let ended = sleepy.orchestrator_mut().run("go").await;
        if is_taken {
            assert!(matches!(ended, Err(RunError::Fenced { .. })), "{ended:?}");
            assert_eq!(run.log().len(), 1);
        } else {
            assert_eq!(ended.unwrap().response, "done");
            let notices = notices.lock().unwrap();
            assert!(
                notices.iter().any(|notice| notice.contains("the lease of this run ran out")),
                "{notices:?}"
            );
        }
    }
}
