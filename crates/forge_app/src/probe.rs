//! A probe of each configured model: one tiny tool call, and what came back.

use forge_domain::{
    Budget, ChatOptions, ContextMessage, Conversation, FinishReason, Message, Model, ProviderError, Reply,
    ReplyParts, Tokens, ToolDefinition, ToolName,
};
use futures::StreamExt;
use futures::future::join_all;
use serde_json::json;

use crate::diagnosis::models_in_use;
use crate::{Check, Health, Services};

/// The tool that is to be called.
const TOOL: &str = "ping";
/// Most tokens of the reply, so that a model that thinks gets to the call.
const MOST: Tokens = Tokens::new(2_048);

/// Asks each model in use to call a tool, all at once, and reports what came back. This costs tokens.
pub async fn probe_models(services: &Services) -> Vec<Check> {
    let models = models_in_use(&services.workflow);
    join_all(models.iter().map(|(_, model)| probe(services, model))).await
}

async fn probe(services: &Services, model: &Model) -> Check {
    let about = format!("probe of {}", model.reference);
    match ask(services, model).await {
        Ok(reply) => outcome(&about, &reply),
        Err(error) => {
            let cause =
                std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            let advice = "this is what a run would get: fix it, or use another model";
            Check::well(about, format!("{error}{cause}")).but(Health::Fault, advice)
        }
    }
}

fn outcome(about: &str, reply: &Reply) -> Check {
    let used =
        reply.usage.map(|usage| format!(" ({} and {} tokens)", usage.prompt_tokens, usage.completion_tokens));
    let used = used.unwrap_or_default();
    let calls = reply.message.calls();
    if calls.iter().any(|call| call.name.as_str() == TOOL) {
        return Check::well(about, format!("it called the tool with {}{used}", calls[0].arguments));
    }
    let text: String = reply.message.to_text().chars().take(80).collect();
    let found = match &reply.finish_reason {
        FinishReason::Length => "it called nothing before the limit of its reply".to_owned(),
        _ if text.trim().is_empty() => "it answered with nothing".to_owned(),
        _ => format!("it called nothing, and wrote: {text}"),
    };
    let advice = "agents with tools need a model that calls them";
    Check::well(about, format!("{found}{used}")).but(Health::Warning, advice)
}

async fn ask(services: &Services, model: &Model) -> Result<Reply, ProviderError> {
    let unsendable = |message: String| ProviderError::Unsendable { message };
    let tool = ToolDefinition {
        name: ToolName::new(TOOL).map_err(|error| unsendable(error.to_string()))?,
        description: "Checks that tools can be called.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": { "word": { "type": "string" } },
            "required": ["word"],
        }),
    };
    let request = model.request.clone().for_text();
    let options =
        ChatOptions { max_output_tokens: Some(MOST), request, ..ChatOptions::new(model.reference.clone()) };
    let counter = &*services.counter;
    let budget = Budget::new(model.limits, options, vec![tool], counter);
    let mut conversation = Conversation::new();
    let task = Message::user("Call the tool `ping` once, with the word `pong`.");
    conversation.append(ContextMessage::count(task, counter));
    let prompt = budget.admit(conversation.view()).map_err(|over| unsendable(over.to_string()))?;
    let mut stream = services.providers.chat(prompt).await?;
    let mut parts = ReplyParts::default();
    while let Some(piece) = stream.next().await {
        parts.push(piece?);
    }
    parts.finish()
}
