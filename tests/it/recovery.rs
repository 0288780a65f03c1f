//! What a run does where a provider finds its prompt too long, or breaks off: servers that refuse in several dialects,
//! then accept.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use forge_app::{Checkpointing, Orchestrator, Resume, RunError, RunEvent, StopReason};
use forge_domain::*;
use forge_infra::{
    AnthropicProvider, GeminiProvider, Key, MemoryCheckpointStore, OllamaProvider, OpenAiProvider,
    ResponsesProvider, SystemClock,
};
use forge_services::workflow::{Layers, Source, load};
use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

/// A tool that says a lot.
struct Big;

#[async_trait]
impl ToolService for Big {
    fn definitions(&self, _: &[ToolName]) -> Result<Vec<ToolDefinition>, UnknownToolError> {
        Ok(Vec::new())
    }

    async fn call(&self, call: &ToolCall) -> ToolResult {
        ToolResult::answer(call, format!("{} says: {}", call.id, "many words ".repeat(200)))
    }
}

const YAML: &str = "agents: [{ id: one, model: 'p:m', system_prompt: Be brief., max_repetitions: 100 }]\n\
                    models: { 'p:m': { window: 100000, max_output: 1000 } }\n\
                    providers: { p: {} }\n";

/// The provider of `kind` at `server`.
fn provider(kind: ProviderKind, server: &ScriptedServer) -> Arc<dyn Provider> {
    let (id, url) = (ProviderId::new("p").unwrap(), server.base_url());
    match kind {
        ProviderKind::Gemini => Arc::new(GeminiProvider::new(id, &url, Key::None).unwrap()),
        ProviderKind::Responses => Arc::new(ResponsesProvider::new(id, &url, Key::None).unwrap()),
        ProviderKind::OpenAi | ProviderKind::OpenAiChat => {
            Arc::new(OpenAiProvider::new(id, &url, Key::None).unwrap())
        }
        ProviderKind::Anthropic => Arc::new(AnthropicProvider::new(id, &url, Key::None).unwrap()),
        ProviderKind::Ollama => Arc::new(OllamaProvider::new(id, &url, Key::None).unwrap()),
    }
}

/// Runs a task on a server of that script; gives the outcome, the requests and the notices.
async fn run(
    kind: ProviderKind,
    script: Vec<Step>,
) -> (Result<forge_app::RunReport, RunError>, Vec<Value>, Vec<String>) {
    let server = ScriptedServer::start(script);
    let workflow =
        load(&Layers { project: Some(Source::new("forge.yaml", YAML)), ..Layers::default() }).unwrap();
    let notices = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&notices);
    let mut orchestrator = Orchestrator::builder()
        .workflow(workflow)
        .provider(ProviderId::new("p").unwrap(), provider(kind, &server))
        .tools(Arc::new(Big))
        .watcher(move |event: &RunEvent<'_>| {
            if let RunEvent::Notice(notice) = event {
                told.lock().unwrap().push((*notice).to_owned());
            }
        })
        .build()
        .unwrap();
    let outcome = orchestrator.run("go").await;
    let notices = notices.lock().unwrap().clone();
    (outcome, server.requests(), notices)
}

/// Twelve calls of a tool that says a lot.
fn work() -> Vec<Step> {
    (0..12).map(|_| Step::calls(&[("big", "{}")])).collect()
}

/// The messages of a request, by whichever name its protocol has for them.
fn messages(request: &Value) -> &Value {
    ["messages", "contents", "input"].iter().find_map(|key| request.get(key)).unwrap_or(&Value::Null)
}

fn size(request: &Value) -> usize {
    messages(request).to_string().len()
}

const KINDS: [ProviderKind; 5] = [
    ProviderKind::OpenAi,
    ProviderKind::Responses,
    ProviderKind::Anthropic,
    ProviderKind::Ollama,
    ProviderKind::Gemini,
];

#[tokio::test]
async fn a_prompt_that_was_too_long_is_made_smaller_and_sent_again() {
    let said = |message: &str| json!({"error": {"message": message}}).to_string();
    let llama = json!({"error": {"code": 400, "type": "exceed_context_size_error", "message": "too big",
        "n_prompt_tokens": 6000, "n_ctx": 4096}});
    for body in [
        said("prompt is too long: 205351 tokens > 100000 maximum"),
        said("This model's maximum context length is 2048 tokens. However, you requested 4118 tokens"),
        said("Your input exceeds the context window of this model."),
        llama.to_string(),
        json!({"object": "error", "message": "max_tokens must be at least 1, got -186.", "code": 400})
            .to_string(),
    ] {
        for kind in KINDS {
            let mut script = work();
            script.extend([Step::status(400, &body), Step::calls(&[("big", "{}")]), Step::text("done")]);
            let (outcome, requests, notices) = run(kind, script).await;
            let report = outcome.unwrap_or_else(|error| panic!("{kind:?} {body}: {error}"));
            assert_eq!(
                (report.response.as_str(), report.stop),
                ("done", StopReason::Done),
                "{kind:?} {body}"
            );
            assert_eq!(requests.len(), 15);
            assert!(size(&requests[13]) < size(&requests[12]), "{kind:?} {body}");
            // What was learned holds for the rest of the run.
            assert!(size(&requests[14]) < size(&requests[12]), "{kind:?} {body}");
            assert!(notices.iter().any(|notice| notice.starts_with("the prompt is too long")), "{notices:?}");
        }
    }
}

#[tokio::test]
async fn a_reply_that_filled_the_window_is_asked_for_again_with_a_smaller_prompt() {
    let anthropic = |content: Value| {
        json!({"type": "message", "role": "assistant", "content": content,
            "stop_reason": "model_context_window_exceeded", "usage": {"input_tokens": 3000, "output_tokens": 50}})
        .to_string()
    };
    let openai = |message: Value| {
        json!({"choices": [{"index": 0, "message": message, "finish_reason": "model_length"}],
            "usage": {"prompt_tokens": 3000, "completion_tokens": 50}})
        .to_string()
    };
    for (kind, cut) in [
        (ProviderKind::Anthropic, anthropic(json!([{"type": "text", "text": "half a"}]))),
        (ProviderKind::OpenAi, openai(json!({"role": "assistant", "content": "half a"}))),
    ] {
        let mut script = work();
        script.extend([Step::status(200, &cut), Step::text("done")]);
        let (outcome, requests, notices) = run(kind, script).await;
        let report = outcome.unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        assert_eq!((report.response.as_str(), report.stop), ("done", StopReason::Done), "{kind:?}");
        assert_eq!(requests.len(), 14, "{kind:?}");
        assert!(size(&requests[13]) < size(&requests[12]), "{kind:?}");
        assert!(!requests[13].to_string().contains("half a"), "{kind:?}");
        assert!(notices.iter().any(|notice| notice.contains("it filled the window")), "{notices:?}");
    }
    // Complete calls are kept: the next prompt is smaller.
    let calls = json!([{"type": "tool_use", "id": "t", "name": "big", "input": {}}]);
    let mut script = work();
    script.extend([Step::status(200, anthropic(calls)), Step::text("done")]);
    let (outcome, requests, _) = run(ProviderKind::Anthropic, script).await;
    assert_eq!(outcome.unwrap().response, "done");
    assert!(requests[13].to_string().contains("t says: many words"), "{}", requests[13]);
    assert!(size(&requests[13]) < size(&requests[12]));
    // Where it happens again and again, the run ends with what came.
    let mut script = work();
    script.extend((0..4).map(|_| Step::status(200, anthropic(json!([{"type": "text", "text": "half a"}])))));
    let (outcome, requests, _) = run(ProviderKind::Anthropic, script).await;
    let report = outcome.unwrap();
    assert_eq!((report.response.as_str(), report.stop), ("half a", StopReason::Cut));
    assert_eq!(requests.len(), 15);
}

#[tokio::test]
async fn one_odd_refusal_makes_no_window_smaller_for_ever() {
    for body in [
        "prompt is too long: 205351 tokens > 100000 maximum",
        "Your input exceeds the context window of this model.",
    ] {
        let mut script = work();
        script.push(Step::status(400, json!({"error": {"message": body}}).to_string()));
        script.extend((0..120).map(|_| Step::calls(&[("big", "{}")])));
        script.push(Step::text("done"));
        let (outcome, requests, notices) = run(ProviderKind::OpenAi, script).await;
        assert_eq!(outcome.unwrap().response, "done", "{body}");
        assert_eq!((requests.len(), notices.len()), (134, 1), "{body}: {notices:?}");
        let (refused, at_first, later) = (&requests[12], &requests[13..29], &requests[110..]);
        assert!(at_first.iter().all(|request| size(request) < size(refused)), "{body}");
        assert!(later.iter().any(|request| size(request) >= size(refused)), "{body}");
    }
}

#[tokio::test]
async fn a_provider_that_is_never_content_ends_the_run_with_its_error() {
    let body =
        json!({"error": {"message": "prompt is too long: 205351 tokens > 100000 maximum"}}).to_string();
    let mut script = work();
    script.extend((0..3).map(|_| Step::status(400, &body)));
    let (outcome, requests, _) = run(ProviderKind::OpenAi, script).await;
    let error = outcome.unwrap_err();
    let RunError::Provider(ProviderError::ContextTooLong { need, window, .. }) = error else {
        panic!("{error}")
    };
    assert_eq!((need, window), (Some(Tokens::new(205_351)), Some(Tokens::new(100_000))));
    assert_eq!(requests.len(), 15, "one attempt and two smaller ones");
    assert!(size(&requests[14]) < size(&requests[13]) && size(&requests[13]) < size(&requests[12]));
}

#[tokio::test]
async fn a_limit_learned_just_before_a_run_failed_holds_when_it_is_resumed() {
    let server = ScriptedServer::start(vec![Step::status(
        400,
        json!({"error": {"message": "This model's maximum context length is 2048 tokens. However, you \
            requested 4118 tokens"}})
        .to_string(),
    )]);
    // Nothing can leave this context: the run fails before anything else is saved.
    let yaml = YAML.replace("Be brief.", &"word ".repeat(3_000));
    let store: Arc<dyn CheckpointStore> = Arc::new(MemoryCheckpointStore::new());
    let notices = Arc::new(Mutex::new(Vec::new()));
    for nth in 0..2 {
        let layers = Layers { project: Some(Source::new("forge.yaml", yaml.clone())), ..Layers::default() };
        let told = Arc::clone(&notices);
        let run = RunId::new("r").unwrap();
        let mut orchestrator = Orchestrator::builder()
            .workflow(load(&layers).unwrap())
            .provider(ProviderId::new("p").unwrap(), provider(ProviderKind::OpenAi, &server))
            .checkpoints(Checkpointing::new(Arc::clone(&store), Arc::new(SystemClock), run))
            .watcher(move |event: &RunEvent<'_>| {
                if let RunEvent::Notice(notice) = event {
                    told.lock().unwrap().push((*notice).to_owned());
                }
            })
            .build()
            .unwrap();
        let outcome = if nth == 0 {
            orchestrator.run("go").await
        } else {
            orchestrator.restore(&Resume::from("last")).await.unwrap();
            orchestrator.proceed().await
        };
        assert!(matches!(outcome.unwrap_err(), RunError::StillOver { .. }));
        orchestrator.close().await;
    }
    let notices = notices.lock().unwrap().join("\n");
    assert!(notices.contains("it refused a longer prompt earlier in this run"), "{notices}");
    assert_eq!(server.requests().len(), 1, "it is not asked again what it refused");
}

#[tokio::test]
async fn a_limit_in_bytes_is_named_and_costs_a_short_context_nothing() {
    let page = Step::status(413, "<html><head><title>413 Request Entity Too Large</title></head></html>");
    let (outcome, requests, notices) = run(ProviderKind::OpenAi, vec![page.clone()]).await;
    let error = outcome.unwrap_err();
    assert!(matches!(error, RunError::Provider(ProviderError::RequestTooLarge { .. })), "{error}");
    assert!(error.to_string().contains("client_max_body_size"), "{error}");
    assert_eq!((requests.len(), notices), (1, Vec::new()));
    // A long one is made smaller, and no window is proposed.
    let mut script = work();
    script.extend([page, Step::text("done")]);
    let (outcome, requests, notices) = run(ProviderKind::OpenAi, script).await;
    assert_eq!(outcome.unwrap().response, "done");
    assert!(size(&requests[13]) < size(&requests[12]));
    assert!(!notices[0].contains("window"), "{notices:?}");
}

#[tokio::test]
async fn a_reply_that_breaks_off_is_asked_for_again() {
    for kind in KINDS {
        let (outcome, requests, notices) = run(kind, vec![Step::CutStream, Step::text("done")]).await;
        assert_eq!(outcome.unwrap().response, "done", "{kind:?}");
        assert_eq!((requests.len(), &requests[0]), (2, &requests[1]), "{kind:?}: the same prompt");
        assert_eq!(notices, ["the reply was interrupted before its end; retrying (1 of 4)"], "{kind:?}");
    }
    let (outcome, requests, _) = run(ProviderKind::OpenAi, vec![Step::CutStream; 6]).await;
    assert!(matches!(outcome, Err(RunError::Provider(ProviderError::Truncated))));
    assert_eq!(requests.len(), 5);
}

#[tokio::test]
async fn a_reply_without_end_is_asked_for_once() {
    let script = vec![Step::text("x".repeat(9 << 20)), Step::text("done")];
    let (outcome, requests, notices) = run(ProviderKind::OpenAi, script).await;
    let error = outcome.unwrap_err();
    assert!(matches!(error, RunError::Provider(ProviderError::OverLimit { .. })), "{error}");
    assert_eq!((requests.len(), notices), (1, Vec::new()));
}

#[tokio::test]
async fn other_refusals_end_the_run_at_once() {
    let body = json!({"error": {"message": "This request would exceed your limit of 20,000 input tokens per minute. \
        Please reduce the prompt length"}});
    let (outcome, requests, _) =
        run(ProviderKind::Anthropic, vec![Step::status(429, body.to_string())]).await;
    assert!(matches!(outcome, Err(RunError::Provider(ProviderError::RateLimited { .. }))));
    assert_eq!(requests.len(), 1);
}

#[tokio::test]
async fn a_request_that_alone_is_over_the_rate_is_made_smaller() {
    let body = json!({"error": {"message": "Request too large for m on tokens per min (TPM): Limit 3000, Requested 4000. \
        The input or output tokens must be reduced", "type": "tokens", "code": "rate_limit_exceeded"}});
    let mut script = work();
    script.extend([Step::status(429, body.to_string()), Step::text("done")]);
    let (outcome, requests, notices) = run(ProviderKind::OpenAi, script).await;
    assert_eq!(outcome.unwrap().response, "done");
    assert!(size(&requests[13]) < size(&requests[12]) * 3 / 4);
    assert!(notices[0].contains("over the provider's limit of 3000 tokens a minute"), "{notices:?}");
}

#[tokio::test]
async fn a_call_that_the_output_limit_cut_off_does_not_run() {
    for kind in KINDS {
        for arguments in [r#"{"path": "a.txt", "content": "one tw"#, "", "{}"] {
            let cut = Step::cut("", &[("big", r#"{"n": 1}"#), ("write", arguments)]);
            let (outcome, requests, notices) = run(kind, vec![cut, Step::text("done")]).await;
            let report = outcome.unwrap();
            let actual = (report.response.as_str(), report.stop, report.iterations);
            assert_eq!(actual, ("done", StopReason::Done, 2), "{kind:?} {arguments}");
            let sent = messages(&requests[1]).to_string();
            assert!(sent.contains("many words") && !sent.contains("one tw"), "{kind:?} {arguments}: {sent}");
            // Ollama and Gemini send nothing of half a call, so nobody knows of it.
            let is_told = !matches!(kind, ProviderKind::Ollama | ProviderKind::Gemini);
            if is_told || arguments == "{}" {
                assert!(sent.contains("in the middle of a call of `write`"), "{kind:?} {arguments}: {sent}");
                assert!(sent.contains(" tokens, the most that one reply may have"), "{kind:?}: {sent}");
                assert!(notices[0].contains("(1 of 3 in a row)"), "{notices:?}");
            }
        }
    }
}

#[tokio::test]
async fn replies_that_are_cut_off_again_and_again_end_the_run() {
    let cut = || Step::cut("", &[("write", r#"{"path": "a.txt", "content": "one tw"#)]);
    for kind in KINDS {
        let (outcome, requests, notices) = run(kind, vec![cut(), cut(), cut(), Step::text("never")]).await;
        assert_eq!((outcome.unwrap().stop, requests.len()), (StopReason::Cut, 3), "{kind:?}");
        assert!(notices[2].contains("(3 of 3 in a row)"), "{kind:?}: {notices:?}");
        // No half call is sent back, and no message without anything in it.
        let sent = messages(&requests[2]).to_string();
        assert!(!sent.contains("one tw") && !sent.contains("tool_"), "{kind:?}: {sent}");
        assert!(messages(&requests[2]).as_array().unwrap().iter().all(|message| {
            message["role"] != "assistant"
                && message["content"].as_array().is_none_or(|parts| !parts.is_empty())
        }));
        let script =
            vec![cut(), cut(), Step::calls(&[("big", r#"{"n": 1}"#)]), cut(), cut(), Step::text("done")];
        let (outcome, requests, _) = run(kind, script).await;
        assert_eq!((outcome.unwrap().stop, requests.len()), (StopReason::Done, 6), "{kind:?}");
    }
}

#[tokio::test]
async fn an_answer_that_was_cut_off_is_none_and_an_empty_one_is_asked_for_once_more() {
    for kind in KINDS {
        let (outcome, requests, _) = run(kind, vec![Step::cut("half an ans", &[])]).await;
        let report = outcome.unwrap();
        let actual = (report.response.as_str(), report.stop, requests.len());
        assert_eq!(actual, ("half an ans", StopReason::Cut, 1), "{kind:?}");

        let (outcome, requests, notices) = run(kind, vec![Step::text(" "), Step::text("done")]).await;
        let report = outcome.unwrap();
        assert_eq!((report.response.as_str(), report.stop), ("done", StopReason::Done), "{kind:?}");
        let sent = messages(&requests[1]).to_string();
        assert!(
            sent.contains("Your last reply was empty") && !sent.contains("assistant"),
            "{kind:?}: {sent}"
        );
        let expected = "the model's reply was empty (1 of 4 in a row); it is called once more";
        assert_eq!(notices, [expected], "{kind:?}");

        let (outcome, requests, _) = run(kind, vec![Step::text(""); 5]).await;
        assert_eq!((outcome.unwrap().stop, requests.len()), (StopReason::NoAnswer, 4), "{kind:?}");
    }
}

#[tokio::test]
async fn a_text_that_was_cut_off_amid_work_is_continued() {
    let call = || Step::calls(&[("big", "{}")]);
    let cut = || Step::cut("half", &[]);
    for kind in KINDS {
        let (outcome, requests, notices) = run(kind, vec![call(), cut(), Step::text("whole")]).await;
        let report = outcome.unwrap();
        let actual = (report.response.as_str(), report.stop, requests.len());
        assert_eq!(actual, ("halfwhole", StopReason::Done, 3), "{kind:?}");
        let sent = messages(&requests[2]).to_string();
        assert!(sent.contains("Continue exactly where it stopped"), "{kind:?}: {sent}");
        let is_told = |notice: &String| notice.contains("in its text (1 of 3 in a row)");
        assert!(notices.iter().any(is_told), "{kind:?}: {notices:?}");

        let (outcome, requests, _) = run(kind, vec![call(), cut(), call(), Step::text("done")]).await;
        let report = outcome.unwrap();
        let actual = (report.response.as_str(), report.stop, requests.len());
        assert_eq!(actual, ("done", StopReason::Done, 4), "{kind:?}");

        let script = vec![call(), cut(), cut(), cut(), Step::text("never")];
        let (outcome, requests, _) = run(kind, script).await;
        let report = outcome.unwrap();
        let actual = (report.response.as_str(), report.stop, requests.len());
        assert_eq!(actual, ("halfhalfhalf", StopReason::Cut, 4), "{kind:?}");
    }
}

#[tokio::test]
async fn a_call_that_the_server_could_not_read_is_told_to_the_model() {
    let said = "Failed to parse input at pos 53: <tool_call>";
    let body = json!({"error": {"code": 500, "message": said, "type": "server_error"}}).to_string();
    let refused = KINDS.map(|kind| (kind, Step::status(500, &body)));
    for (kind, bad) in refused.into_iter().chain([(ProviderKind::OpenAi, Step::StreamEvent(body.clone()))]) {
        let call = Step::calls(&[("big", "{}")]);
        let script = vec![bad.clone(), bad.clone(), bad.clone(), call, Step::text("done")];
        let (outcome, requests, notices) = run(kind, script).await;
        assert_eq!(outcome.unwrap().response, "done", "{kind:?}");
        assert_eq!((requests.len(), &requests[0]), (5, &requests[1]), "{kind:?}: the same prompt once more");
        let n_notes = |nth: usize| requests[nth].to_string().matches("could not read the tool call").count();
        assert_eq!([n_notes(1), n_notes(2), n_notes(3)], [0, 1, 2], "{kind:?}");
        assert!(notices[0].ends_with("; asking once more"), "{kind:?}: {notices:?}");
        assert!(notices[2].ends_with("the model is told (2 of 3 in a row)"), "{kind:?}: {notices:?}");

        let (outcome, requests, _) = run(kind, vec![bad; 5]).await;
        let error = outcome.unwrap_err();
        assert!(matches!(error, RunError::Provider(ProviderError::UnreadableCall { .. })), "{error}");
        assert_eq!(requests.len(), 4, "{kind:?}");
    }
}
