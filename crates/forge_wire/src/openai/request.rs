//! The body of a request for a chat completion.

use forge_domain::{
    ContextMessage, Effort, Message, Prompt, ResponseFormat, Tokens, ToolChoice, ToolDefinition,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::dialect::{Dialect, LimitField};
use super::message::message_json;
use super::model_name::number_in;
use crate::Delivery;
use crate::arguments::correct_arguments;
use crate::encoded::{Entry, Piece, Speaker, push_merged};
use crate::sent::Sent;
use crate::turns::{
    is_openais, one_call_each, pause, pauses_after_results, said_by_user, shows_images, strict_turns,
    with_pauses, with_plain_text,
};

/// Builds the body of `POST /chat/completions` for `prompt`. Unset options are left out, so the server's own
/// apply. Messages that were sent before are not turned into JSON again. Serializing it fails if OpenAI would
/// refuse it: its models since gpt-5.6 accept tools here only without thinking.
pub fn request(prompt: &Prompt, delivery: Delivery) -> impl Serialize {
    request_in(Dialect::default(), prompt, delivery)
}

/// Builds the body as [`request`] does, for a server that takes the fields of `dialect`.
pub fn request_in(dialect: Dialect, prompt: &Prompt, delivery: Delivery) -> impl Serialize {
    let options = prompt.options();
    let request = &options.request;
    let model = options.model.model.as_str();
    let limit = options.max_output_tokens.map(Tokens::as_u64);
    let limit_field = dialect.limit(model);
    let is_stream = delivery == Delivery::Stream;
    let has_tools = !prompt.tools().is_empty();
    let must_not_think = has_tools && number_in(model, "gpt-").is_some_and(|number| number >= (5, 6));
    let effort = request.reasoning.effort.or(must_not_think.then_some(Effort::None));
    let refusal = effort.filter(|effort| must_not_think && *effort != Effort::None).map(|effort| {
        format!("`{model}` accepts tools in chat completions only with `effort: none`, not `{effort}`")
    });
    let body = Body {
        model,
        messages: match dialect.takes_messages() {
            true => entries(prompt.messages(), model),
            false => entries_in(dialect, prompt.messages(), model),
        },
        tools: prompt.tools(),
        options: Options {
            temperature: options.temperature,
            top_p: options.top_p,
            reasoning_effort: effort.map(|effort| effort_word(effort, model)),
            tool_choice: prompt.tool_choice().map(tool_choice_json),
            parallel_tool_calls: match dialect.takes_single_calls() {
                true => has_tools.then_some(false),
                false => request.parallel_tool_calls.filter(|_| has_tools),
            },
            stop: request.stop.as_deref(),
            seed: request.seed,
            service_tier: request.service_tier.as_deref(),
            response_format: request.response_format.as_ref(),
            provider: request.routing.as_ref(),
        },
        max_tokens: limit.filter(|_| limit_field == LimitField::MaxTokens),
        max_completion_tokens: limit.filter(|_| limit_field == LimitField::MaxCompletionTokens),
        stream: is_stream.then_some(true),
        stream_options: (is_stream && dialect.takes_stream_options())
            .then_some(StreamOptions { include_usage: true }),
    };
    Sent { body, extra: request.extra_body.as_ref(), refusal }
}

/// Returns an effort in OpenAI's words. Its models before gpt-6 call the most of it `xhigh`, and so do the
/// servers that translate for others.
pub(crate) fn effort_word(effort: Effort, model: &str) -> &'static str {
    match effort {
        Effort::Max if number_in(model, "gpt-").is_none_or(|number| number < (6, 0)) => "xhigh",
        effort => effort.as_str(),
    }
}

fn tool_choice_json(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Tool(name) => json!({"type": "function", "function": {"name": name}}),
        choice => json!(choice),
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Piece<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tools: &'a [ToolDefinition],
    #[serde(flatten)]
    options: Options<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

/// The options of a request, which are left out if they are unset.
#[derive(Serialize)]
struct Options<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<&'a ResponseFormat>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a Map<String, Value>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// Returns the `messages` of a request to `model`. Chat templates of open models are stricter than OpenAI's
/// servers, so adjacent messages of one role are sent as one, and texts as plain texts. The result depends on
/// the messages and the model's name alone.
pub fn messages_json<'a>(messages: impl IntoIterator<Item = &'a Message>, model: &str) -> Vec<Value> {
    strict_turns(messages.into_iter().map(sent_json).collect(), model)
}

/// A message's entry as every model reads it; with `BY_USER`, as what the user said.
struct Form<const BY_USER: bool> {
    entry: Entry,
    /// True if it is a result with an image, which follows the results as the user's.
    shows_images: bool,
}

impl<const BY_USER: bool> Form<BY_USER> {
    fn of(message: &Message) -> Self {
        let entry = entry_json(message, BY_USER);
        Self { shows_images: shows_images(&entry), entry: entry.into() }
    }
}

/// A message in its place. The message itself is read only if it is merged with a neighbour.
struct Placed<'a> {
    message: &'a ContextMessage,
    entry: &'a Entry,
    by_user: bool,
}

/// Returns the entries that [`messages_json`] returns, as pieces that the messages keep.
fn entries<'a>(messages: &'a [ContextMessage], model: &str) -> Vec<Piece<'a>> {
    let (is_openais, pauses) = (is_openais(model), pauses_after_results(model));
    let mut is_leading = true;
    let mut placed = Vec::with_capacity(messages.len());
    for message in messages {
        let Form { entry, shows_images } = message.form(Form::<false>::of);
        if *shows_images {
            let entries = messages_json(messages.iter().map(ContextMessage::message), model);
            return entries.into_iter().map(Piece::Made).collect();
        }
        is_leading &= entry.is_system();
        let by_user = entry.is_system() && !is_leading && !is_openais;
        let entry = if by_user { &message.form(Form::<true>::of).entry } else { entry };
        placed.push(Placed { message, entry, by_user });
    }
    let mut pieces = Vec::with_capacity(placed.len());
    let mut before = None;
    for run in placed.chunk_by(|last, next| last.entry.may_be_joined_by(next.entry)) {
        let speaker = run.first().map(|first| first.entry.speaker);
        if pauses && speaker == Some(Speaker::User) && before == Some(Speaker::Tool) {
            pieces.push(Piece::Made(pause()));
        }
        push_merged(&mut pieces, run, |at| &at.entry.json, |at| entry_json(at.message.message(), at.by_user));
        before = speaker;
    }
    pieces
}

/// Returns the entries for a server that takes the messages of `dialect`: without the readable reasoning that
/// led to calls, with pauses, or with one call each.
fn entries_in<'a>(dialect: Dialect, messages: &'a [ContextMessage], model: &str) -> Vec<Piece<'a>> {
    let mut entries = messages_json(messages.iter().map(ContextMessage::message), model);
    if !dialect.takes_reasoning() {
        for fields in entries.iter_mut().filter_map(Value::as_object_mut) {
            fields.retain(|key, _| !matches!(key.as_str(), "reasoning" | "reasoning_content"));
        }
    }
    if dialect.pauses() {
        entries = with_pauses(entries);
    }
    if dialect.takes_single_calls() {
        entries = one_call_each(entries);
    }
    entries.into_iter().map(Piece::Made).collect()
}

/// Returns a message with arguments that every server can read.
fn sent_json(message: &Message) -> Value {
    let mut entry = message_json(message);
    for call in entry.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(arguments) = call.pointer_mut("/function/arguments") {
            correct_arguments(arguments);
        }
    }
    entry
}

fn entry_json(message: &Message, by_user: bool) -> Value {
    let mut entry = with_plain_text(sent_json(message));
    if by_user {
        said_by_user(&mut entry);
    }
    entry
}

#[cfg(test)]
mod tests {
    use forge_domain::{
        Budget, ChatOptions, ContextMessage, Conversation, Message, ModelId, ModelLimits, ModelRef,
        ProviderId, TokenCounter, Tokens, ToolCall, ToolDefinition, ToolName, ToolResult,
    };
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    struct Characters;
    impl TokenCounter for Characters {
        fn count(&self, text: &str) -> Tokens {
            Tokens::new(text.chars().count() as u64)
        }
    }

    fn prompt(change: impl FnOnce(&mut ChatOptions), tools: Vec<ToolDefinition>) -> Prompt {
        let provider = ProviderId::new("local").unwrap();
        let mut options = ChatOptions::new(ModelRef { provider, model: ModelId::new("small").unwrap() });
        change(&mut options);
        let limits = ModelLimits { window: Tokens::new(10_000), max_output: None };
        let budget = Budget::new(limits, options, tools, &Characters);
        let mut conversation = Conversation::new();
        conversation.append(ContextMessage::count(Message::user("hi"), &Characters));
        budget.admit(conversation.view()).unwrap()
    }

    #[test]
    fn a_request_says_what_is_set_and_nothing_else() {
        let tool = ToolDefinition {
            name: ToolName::new("read").unwrap(),
            description: "Reads a file.".into(),
            parameters: json!({"type": "object"}),
        };
        let messages = json!([{"role": "user", "content": "hi"}]);
        for (name, prompt, delivery, expected) in [
            (
                "bare",
                prompt(|_| (), vec![]),
                Delivery::Whole,
                json!({"model": "small", "messages": messages}),
            ),
            (
                "stream",
                prompt(|_| (), vec![]),
                Delivery::Stream,
                json!({"model": "small", "messages": messages, "stream": true,
                    "stream_options": {"include_usage": true}}),
            ),
            (
                "options",
                prompt(
                    |options| {
                        options.temperature = Some(0.5);
                        options.top_p = Some(0.25);
                        options.max_output_tokens = Some(Tokens::new(77));
                    },
                    vec![],
                ),
                Delivery::Whole,
                json!({"model": "small", "messages": messages, "temperature": 0.5, "top_p": 0.25, "max_tokens": 77}),
            ),
            (
                "tools",
                prompt(|_| (), vec![tool]),
                Delivery::Whole,
                json!({"model": "small", "messages": messages, "tools": [{"type": "function", "function": {
                    "name": "read", "description": "Reads a file.", "parameters": {"type": "object"}}}]}),
            ),
        ] {
            let actual = json!(request(&prompt, delivery));
            assert_eq!(actual, expected, "{name}");
        }
    }

    #[test]
    fn a_server_that_refuses_reasoning_is_sent_none() {
        let name = ToolName::new("read").unwrap();
        let mut message = Message::calling(vec![ToolCall { id: "a".into(), name, arguments: "{}".into() }]);
        let bare = message_json(&message);
        message.extra.insert("reasoning".into(), json!("hm"));
        let messages = [ContextMessage::count(message, &Characters)];
        assert_eq!(json!(entries(&messages, "m"))[0]["reasoning"], "hm");
        let sent = |dialect: Dialect| json!(entries_in(dialect, &messages, "m"));
        let after = |refusal: &str| Dialect::default().after_refusal("m", refusal).unwrap();
        assert_eq!(sent(after("'reasoning' is not supported")), json!([bare]));
        let single = after("This model only supports single tool-calls at once!");
        assert_eq!(sent(single)[0]["reasoning"], "hm");
    }

    #[test]
    fn a_template_that_refused_the_messages_is_sent_them_in_another_form() {
        let tool = ToolDefinition {
            name: ToolName::new("read").unwrap(),
            description: String::new(),
            parameters: json!({"type": "object"}),
        };
        let sent = |refusal: &str, tools: Vec<ToolDefinition>| {
            let dialect = Dialect::default().after_refusal("m", refusal).unwrap();
            json!(request_in(dialect, &prompt(|_| (), tools), Delivery::Whole))["parallel_tool_calls"].clone()
        };
        let single = "only supports single tool-calls at once";
        assert_eq!(sent(single, vec![tool.clone()]), json!(false));
        assert_eq!(sent(single, vec![]), json!(null));
        assert_eq!(sent("conversation roles must alternate", vec![tool]), json!(null));
        let calls = ["a", "b"].map(|id| ToolCall {
            id: id.into(),
            name: ToolName::new("read").unwrap(),
            arguments: "{}".into(),
        });
        let results = calls.clone().map(|call| Message::tool(ToolResult::answer(&call, "text".to_owned())));
        let all = [Message::user("go"), Message::calling(calls.to_vec())];
        let all = all.into_iter().chain(results).chain([Message::user("more")]);
        let messages: Vec<_> = all.map(|message| ContextMessage::count(message, &Characters)).collect();
        for (refusal, expected) in [
            (single, "user assistant tool assistant tool user"),
            ("conversation roles must alternate", "user assistant tool tool assistant user"),
        ] {
            let dialect = Dialect::default().after_refusal("m", refusal).unwrap();
            let entries = json!(entries_in(dialect, &messages, "m"));
            let entries = entries.as_array().unwrap().iter();
            let roles: Vec<_> = entries.map(|entry| entry["role"].as_str().unwrap().to_owned()).collect();
            assert_eq!(roles.join(" "), expected, "{refusal}");
        }
    }
}
