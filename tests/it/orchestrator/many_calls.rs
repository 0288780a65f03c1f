//! A reply with many calls: so many run at once, and so many are made.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use forge_app::{Orchestrator, RunEvent};
use forge_domain::*;
use forge_services::workflow::{Layers, Source, load};
use pretty_assertions::assert_eq;

use super::{Reply, Script};

const YAML: &str = "agents: [{ id: one, model: 'p:m', system_prompt: Be brief. }]\n\
                    models: { 'p:m': { window: 400000, max_output: 100 } }\n\
                    providers: { p: {} }\n";

/// Tools that count how many of their calls run at once.
#[derive(Default)]
struct Crowd {
    running: AtomicUsize,
    most: AtomicUsize,
}

#[async_trait]
impl ToolService for Crowd {
    fn definitions(&self, _: &[ToolName]) -> Result<Vec<ToolDefinition>, UnknownToolError> {
        Ok(Vec::new())
    }

    async fn call(&self, call: &ToolCall) -> ToolResult {
        let n_running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(n_running, Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        ToolResult::answer(call, format!("{} ran", call.id))
    }
}

#[tokio::test]
async fn a_reply_makes_so_many_calls_and_so_many_at_once() {
    static FEW: [&str; 5] = ["t"; 5];
    static MORE: [&str; 20] = ["t"; 20];
    static TOO_MANY: [&str; 200] = ["t"; 200];
    for (names, n_at_once, n_made) in [(&FEW[..], 5, 5), (&MORE[..], 8, 20), (&TOO_MANY[..], 8, 128)] {
        let script = Script::new(&[Reply::Calls(names), Reply::Says("done")]);
        let tools = Arc::new(Crowd::default());
        // The calls that have started and not ended, with the most at once, and the number that started.
        let begun = Arc::new(Mutex::new((BTreeSet::new(), 0_usize, 0_usize)));
        let seen = Arc::clone(&begun);
        let layers = Layers { project: Some(Source::new("forge.yaml", YAML)), ..Layers::default() };
        let mut orchestrator = Orchestrator::builder()
            .workflow(load(&layers).unwrap())
            .provider(ProviderId::new("p").unwrap(), Arc::clone(&script) as Arc<dyn Provider>)
            .tools(Arc::clone(&tools) as Arc<dyn ToolService>)
            .watcher(move |event: &RunEvent<'_>| {
                let (running, most, n_started) = &mut *seen.lock().unwrap();
                match event {
                    RunEvent::ToolStarted(call) => {
                        running.insert(call.id.clone());
                        *most = running.len().max(*most);
                        *n_started += 1;
                    }
                    RunEvent::ToolFinished(call) => {
                        running.remove(&call.id);
                    }
                    _ => {}
                }
            })
            .build()
            .unwrap();
        let report = orchestrator.run("go").await.unwrap();
        assert_eq!(report.response, "done");
        assert_eq!(tools.most.load(Ordering::SeqCst), n_at_once, "{}", names.len());
        let (running, most, n_started) = &*begun.lock().unwrap();
        assert_eq!((running.len(), *most, *n_started), (0, n_at_once, n_made), "{}", names.len());
        // Every call has its result, in order.
        let results = script.said().pop().unwrap().split_off(3);
        let refused = "`t` was not called: of one reply, the first 128 calls are made. Nothing was done. Call it in your next reply";
        let expected = |at: usize| if at < n_made { format!("call_{at} ran") } else { refused.to_owned() };
        assert_eq!(results, (0..names.len()).map(expected).collect::<Vec<_>>());
        let prompts = script.prompts.lock().unwrap();
        assert!(openai_breaches(prompts[1].messages()).is_empty());
    }
}
