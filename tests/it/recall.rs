//! What left the view is fetched back by the model itself, through the whole loop.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use forge_app::{Orchestrator, RECALL};
use forge_domain::*;
use forge_services::workflow::{Layers, Source, load};
use futures::{FutureExt, StreamExt, stream};
use pretty_assertions::assert_eq;

/// What the model does at one call: a tool with its arguments, or words.
type Act = Result<(&'static str, &'static str), &'static str>;

#[derive(Default)]
struct Model {
    acts: Mutex<VecDeque<Act>>,
    prompts: Mutex<Vec<Prompt>>,
}

#[async_trait]
impl Provider for Model {
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
        let n = self.prompts.lock().unwrap().len();
        self.prompts.lock().unwrap().push(prompt);
        let act = self.acts.lock().unwrap().pop_front().ok_or(ProviderError::RecordingEnded)?;
        let piece = match act {
            Ok((name, arguments)) => ChatCompletionMessage {
                tool_calls: vec![ToolCallPart {
                    index: 0,
                    id: Some(format!("call_{n}")),
                    name: Some(name.to_owned()),
                    arguments: arguments.to_owned(),
                }],
                finish_reason: Some(FinishReason::ToolCalls),
                ..Default::default()
            },
            Err(said) => ChatCompletionMessage {
                content: Some(said.to_owned()),
                finish_reason: Some(FinishReason::Stop),
                ..Default::default()
            },
        };
        Ok(stream::iter([Ok(piece)]).boxed())
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError> {
        Ok(Vec::new())
    }
}

/// A file tool: `facts` holds the fact, every other file many words.
struct Files;

#[async_trait]
impl ToolService for Files {
    fn definitions(&self, names: &[ToolName]) -> Result<Vec<ToolDefinition>, UnknownToolError> {
        let definition = |name: &ToolName| ToolDefinition {
            name: name.clone(),
            description: "Reads a file.".into(),
            parameters: serde_json::json!({"type": "object"}),
        };
        Ok(names.iter().map(definition).collect())
    }

    async fn call(&self, call: &ToolCall) -> ToolResult {
        match call.arguments.contains("facts") {
            _ if call.name.as_str() != "read" => ToolResult::error(call, "no such tool"),
            true => ToolResult::answer(
                call,
                format!("{}The vault opens with marmalade.", "so it is told\n".repeat(60)),
            ),
            false => {
                ToolResult::answer(call, format!("{}{}", call.arguments, "many other words ".repeat(150)))
            }
        }
    }
}

/// The acts until the facts have left the view, as long as the ladder drops what is old.
const READ: [Act; 5] = [
    Ok(("read", r#"{"path": "facts"}"#)),
    Ok(("read", r#"{"path": "b"}"#)),
    Ok(("read", r#"{"path": "c"}"#)),
    Ok(("read", r#"{"path": "d"}"#)),
    Ok(("read", r#"{"path": "e"}"#)),
];

fn run(agent: &str, acts: &[Act]) -> (Arc<Model>, Conversation) {
    run_within(2_600, agent, acts)
}

fn run_within(window: u64, agent: &str, acts: &[Act]) -> (Arc<Model>, Conversation) {
    let yaml = format!(
        "agents: [{{ id: one, model: 'p:m', {agent} }}]\n\
         models: {{ 'p:m': {{ window: {window}, max_output: 100 }} }}\nproviders: {{ p: {{}} }}\n"
    );
    let layers = Layers { project: Some(Source::new("forge.yaml", yaml.as_str())), ..Layers::default() };
    let model = Arc::new(Model { acts: Mutex::new(acts.iter().copied().collect()), ..Model::default() });
    let mut orchestrator = Orchestrator::builder()
        .workflow(load(&layers).unwrap())
        .provider(ProviderId::new("p").unwrap(), Arc::clone(&model) as Arc<dyn Provider>)
        .tools(Arc::new(Files))
        .build()
        .unwrap();
    orchestrator.run("Find out what opens the vault.").now_or_never().unwrap().unwrap();
    let conversation = orchestrator.conversation("one").unwrap().clone();
    (model, conversation)
}

/// Whether each prompt offered the tool.
fn offered(model: &Model) -> Vec<bool> {
    let prompts = model.prompts.lock().unwrap();
    prompts.iter().map(|prompt| prompt.tools().iter().any(|tool| tool.name.as_str() == RECALL)).collect()
}

const AGENT: &str = "tools: [read], compact: { strategies: [sliding_window], retention_window: 2 }";

/// The text of the newest tool result that the last prompt holds.
fn last_result(model: &Model) -> String {
    let prompts = model.prompts.lock().unwrap();
    let results = prompts.last().unwrap().messages().iter().rev().map(ContextMessage::message);
    results.filter(|message| message.role() == Role::Tool).map(Message::to_text).next().unwrap()
}

#[test]
fn a_lost_fact_is_asked_for_and_given_back() {
    for asked in [
        r#"{"query": "what opens the VAULT with"}"#,
        r#"{"ref": "m2", "query": "vault"}"#,
        r#"{"ref": "m2", "offset": 61}"#,
    ] {
        let acts = [&READ[..], &[Ok((RECALL, asked)), Err("Marmalade.")]].concat();
        let (model, conversation) = run(AGENT, &acts);
        let before: String =
            model.prompts.lock().unwrap()[5].messages().iter().map(|m| m.message().to_text()).collect();
        assert!(!before.contains("marmalade"), "it had left the view");
        let result = last_result(&model);
        assert!(result.contains("The vault opens with marmalade."), "{asked}: {result}");
        assert!(conversation.coverage().is_complete());
    }
}

#[test]
fn the_tool_is_there_from_the_first_call_on_and_is_part_of_the_sum() {
    let acts = [&READ[..], &[Err("Done.")]].concat();
    let (model, conversation) = run(AGENT, &acts);
    assert_eq!(offered(&model), [true; 6]);
    let prompts = model.prompts.lock().unwrap();
    assert!(conversation.compactions().count() >= 1);
    for prompt in prompts.iter() {
        assert_eq!(prompt.tools(), prompts[0].tools(), "a compaction changes no tool list");
        assert!(prompt.tools().is_sorted_by_key(|tool| &tool.name), "and it has an order of its own");
        assert!(prompt.tokens() + Tokens::new(100) <= prompt.window(), "{} tokens", prompt.tokens());
    }
}

#[test]
fn an_agent_has_it_as_it_is_configured() {
    let acts = [&READ[..], &[Ok((RECALL, r#"{"ref": "m2"}"#)), Err("Done.")]].concat();
    const COMPACT: &str = "compact: { strategies: [sliding_window], retention_window: 2 }";
    for (agent, expected) in [
        (format!("tools: [read], {COMPACT}"), true),
        (format!("tools: [read], recall: false, {COMPACT}"), false),
        (format!("tools: [read], recall: true, {COMPACT}"), true),
        // Not every model takes tools.
        (COMPACT.to_owned(), false),
    ] {
        let (model, _) = run(&agent, &acts);
        assert_eq!(offered(&model).last(), Some(&expected), "{agent}");
        let result = last_result(&model);
        assert_eq!(result.starts_with("m2 (answer of read)"), expected, "{agent}: {result}");
        // Whose tool it is not is told so, whatever there is for others.
        let is_refused = result.starts_with("there is no tool `recall` (");
        assert_eq!(is_refused, !expected, "{agent}: {result}");
    }
}

#[test]
fn a_call_of_a_tool_that_is_not_offered_is_answered_with_those_that_are() {
    for (agent, name, expected) in [
        ("tools: [read]", "Read_File", "(expected one of read, recall); `read` does what it does"),
        ("tools: [read]", "bash", "(expected one of read, recall)"),
        ("tools: [read], recall: false", "Read", "(expected one of read); `read` does what it does"),
        ("recall: false", "read", "(you have no tools)"),
    ] {
        let (model, _) = run(agent, &[Ok((name, "{}")), Err("Done.")]);
        assert_eq!(last_result(&model), format!("there is no tool `{name}` {expected}"), "{agent}");
    }
}

#[test]
fn in_a_small_window_it_is_offered_where_somebody_asks_for_it() {
    let acts = [&READ[..], &[Err("Done.")]].concat();
    let wanted = AGENT.replace("tools: [read]", "tools: [read], recall: true");
    for (window, agent, expected) in [(1_400, AGENT, false), (1_400, &wanted, true), (2_600, AGENT, true)] {
        let (model, conversation) = run_within(window, agent, &acts);
        assert!(conversation.is_compacted());
        assert_eq!(offered(&model).last(), Some(&expected), "{window}: {agent}");
    }
}
