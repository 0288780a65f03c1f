//! The body of a request for a response.

use std::collections::BTreeMap;

use forge_domain::{Body as MessageBody, ContextMessage, Message, Prompt, Role, ToolDefinition};
use serde::Serialize;
use serde_json::{Value, json};

use super::form;
use super::item::{input_text, is_reasoning, kind};
use super::message::message_items;
use super::options::Options;
use super::plain::answer_of;
use crate::Delivery;
use crate::arguments::correct_arguments;
use crate::encoded::{Encoded, Piece};
use crate::sent::Sent;
use crate::turns::{PAUSE, is_openais, join_texts, pauses_after_results};

/// The longest key for the prompt cache that servers accept, in bytes.
const CACHE_KEY: usize = 64;
/// The least limit of a reply that servers accept.
const LEAST_OUTPUT: u64 = 16;

/// Builds the body of `POST /responses` for `prompt`. Unset options are left out, so the server's own apply.
/// Nothing is stored on the server: reasoning comes back encrypted, and is sent again with the items that it
/// led to. Messages that were sent before are not turned into JSON again.
pub fn request(prompt: &Prompt, delivery: Delivery) -> impl Serialize {
    let options = prompt.options();
    let model = options.model.model.as_str();
    let (instructions, rest) = instructions(prompt.messages());
    let body = Body {
        model,
        instructions,
        input: pieces(rest, model),
        tools: prompt.tools().iter().map(tool).collect(),
        options: Options::of(prompt),
        temperature: options.temperature,
        top_p: options.top_p,
        max_output_tokens: options.max_output_tokens.map(|most| most.as_u64().max(LEAST_OUTPUT)),
        store: false,
        include: if hides_reasoning(model) { &["reasoning.encrypted_content"] } else { &[] },
        prompt_cache_key: options.cache_key.as_deref().map(|key| &key[..key.floor_char_boundary(CACHE_KEY)]),
        stream: (delivery == Delivery::Stream).then_some(true),
    };
    Sent { body, extra: options.request.extra_body.as_ref(), refusal: None }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    input: Vec<Piece<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(flatten)]
    options: Options<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    store: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    include: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
}

/// Returns the text of the system messages at the beginning, and the other messages. A system message that
/// came as an item is sent as that item.
fn instructions(messages: &[ContextMessage]) -> (Option<String>, &[ContextMessage]) {
    let is_plain = |message: &&ContextMessage| {
        message.role() == Role::System && form::items(message.message()).is_none()
    };
    let n_leading = messages.iter().take_while(is_plain).count();
    let (leading, rest) = messages.split_at(n_leading);
    let texts: Vec<String> = leading.iter().map(|message| message.message().to_text()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
    ((!texts.is_empty()).then(|| texts.join("\n\n")), rest)
}

/// Returns a tool in this protocol's form. Its schema is sent as it is: strict ones may have no optional
/// arguments.
fn tool(tool: &ToolDefinition) -> Value {
    json!({"type": "function", "name": tool.name, "description": tool.description,
        "parameters": tool.parameters, "strict": false})
}

/// Checks whether encrypted reasoning may be asked of `model`: OpenAI refuses that for models that do not
/// reason.
fn hides_reasoning(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let name = name.strip_prefix("ft:").unwrap_or(name);
    let is_old = ["gpt-3", "gpt-4", "chatgpt-"].iter().any(|family| name.starts_with(family));
    let is_chat = name.starts_with("gpt-") && name.contains("-chat");
    !(is_old || is_chat)
}

/// A message's items as every model reads them; with `BY_USER`, as what the user said.
struct Form<const BY_USER: bool> {
    items: Vec<Encoded>,
    /// The author, if neighbours of the same one are sent as one item.
    joins: Option<Role>,
    role: Role,
    /// The call that a plain result answers.
    answers: Option<String>,
    foreign_calls: Vec<(String, String)>,
}

impl<const BY_USER: bool> Form<BY_USER> {
    fn of(message: &Message) -> Self {
        let items = sent_items(message, BY_USER);
        let is_plain = form::items(message).is_none();
        let role = if BY_USER { Role::User } else { message.role() };
        let joins = match (items.as_slice(), role) {
            ([_], Role::User) => Some(role),
            ([only], Role::Assistant) if only["content"].is_string() => Some(role),
            _ => None,
        };
        let answers = match &message.body {
            MessageBody::Tool(result) if is_plain => Some(result.call_id.clone()),
            _ => None,
        };
        Self {
            joins: joins.filter(|_| is_plain),
            role,
            answers,
            foreign_calls: form::foreign_calls(message),
            items: items.into_iter().map(Encoded::from).collect(),
        }
    }
}

/// Returns the items of a message as they are sent: reasoning that nothing follows is refused.
fn sent_items(message: &Message, by_user: bool) -> Vec<Value> {
    let mut items = message_items(message);
    while items.last().is_some_and(is_reasoning) {
        items.pop();
    }
    for item in items.iter_mut().filter(|item| kind(item) == "function_call") {
        if let Some(arguments) = item.get_mut("arguments") {
            correct_arguments(arguments);
        }
    }
    if by_user {
        for item in items.iter_mut().filter(|item| item.get("role").is_some()) {
            item["role"] = json!("user");
            match &mut item["content"] {
                Value::String(text) => *text = format!("<system>\n{text}\n</system>"),
                Value::Array(parts) => {
                    parts.insert(0, input_text("<system>"));
                    parts.push(input_text("</system>"));
                }
                _ => {}
            }
        }
    }
    items
}

/// A message in its place. The message itself is read only if it is joined with a neighbour.
struct Placed<'a> {
    message: &'a ContextMessage,
    items: &'a [Encoded],
    joins: Option<Role>,
    role: Role,
    answers: Option<&'a str>,
    by_user: bool,
}

impl<'a> Placed<'a> {
    fn new<const BY_USER: bool>(message: &'a ContextMessage, form: &'a Form<BY_USER>) -> Self {
        Self {
            message,
            items: &form.items,
            joins: form.joins,
            role: form.role,
            answers: form.answers.as_deref(),
            by_user: BY_USER,
        }
    }
}

/// Returns the `input` of a request to `model`: adjacent messages of the user's as one, and those of the
/// model's. The result depends on the messages and the model's name alone.
fn pieces<'a>(messages: &'a [ContextMessage], model: &str) -> Vec<Piece<'a>> {
    let (is_openais, pauses) = (is_openais(model), pauses_after_results(model));
    let mut foreign: BTreeMap<&str, &str> = BTreeMap::new();
    let mut placed = Vec::with_capacity(messages.len());
    for message in messages {
        let form = message.form(Form::<false>::of);
        foreign.extend(form.foreign_calls.iter().map(|(id, kind)| (id.as_str(), kind.as_str())));
        if form.role == Role::System && !is_openais {
            placed.push(Placed::new(message, message.form(Form::<true>::of)));
        } else {
            placed.push(Placed::new(message, form));
        }
    }
    placed.retain(|at| !at.items.is_empty());
    let mut pieces = Vec::with_capacity(placed.len());
    let mut before = None;
    for run in placed.chunk_by(|last, next| last.joins.is_some() && last.joins == next.joins) {
        let role = run.first().map(|first| first.role);
        if pauses && role == Some(Role::User) && before == Some(Role::Tool) {
            pieces.push(Piece::Made(json!({"role": "assistant", "content": PAUSE})));
        }
        before = role;
        match run {
            [alone] => {
                let kind = alone.answers.and_then(|id| foreign.get(id));
                match kind.and_then(|kind| answer_of(kind, alone.message.message())) {
                    Some(answer) => pieces.push(Piece::Made(answer)),
                    None => pieces.extend(alone.items.iter().map(Piece::Kept)),
                }
            }
            several => {
                let items =
                    several.iter().flat_map(|at| sent_items(at.message.message(), at.by_user)).collect();
                pieces.extend(join_items(items).map(Piece::Made));
            }
        }
    }
    pieces
}

/// Returns messages of one author as one, their texts separated by an empty line.
fn join_items(items: Vec<Value>) -> Option<Value> {
    items.into_iter().reduce(|mut both, next| {
        both["content"] = match (both["content"].take(), next["content"].clone()) {
            (Value::String(one), Value::String(other)) => json!(join_texts(&one, &other)),
            (one, other) => parts(one).into_iter().chain(parts(other)).collect(),
        };
        both
    })
}

fn parts(content: Value) -> Vec<Value> {
    match content {
        Value::Array(parts) => parts,
        Value::String(text) if !text.is_empty() => vec![input_text(&text)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use forge_domain::{
        Agent, Budget, ChatOptions, Content, Conversation, ModelId, ModelLimits, ModelRef, Part, ProviderId,
        TokenCounter, Tokens, ToolName,
    };
    use pretty_assertions::assert_eq;

    use super::super::read_items;
    use super::*;

    struct Characters;
    impl TokenCounter for Characters {
        fn count(&self, text: &str) -> Tokens {
            Tokens::new(text.chars().count() as u64)
        }
    }

    fn body(model: &str, messages: Vec<Message>, options: impl Fn(ChatOptions) -> ChatOptions) -> Value {
        let mut conversation = Conversation::new();
        for message in messages {
            conversation.append(ContextMessage::count(message, &Characters));
        }
        let limits = ModelLimits { window: Tokens::new(100_000), max_output: None };
        let model = ModelRef { provider: ProviderId::new("p").unwrap(), model: ModelId::new(model).unwrap() };
        let list = ToolDefinition {
            name: ToolName::new("list").unwrap(),
            description: "Lists.".into(),
            parameters: json!({"type": "object"}),
        };
        let budget = Budget::new(limits, options(ChatOptions::new(model)), vec![list], &Characters);
        json!(request(&budget.admit(conversation.view()).unwrap(), Delivery::Stream))
    }

    #[test]
    fn a_request_has_what_the_server_needs_to_keep_nothing() {
        let messages = vec![Message::system("Be brief."), Message::system("In French."), Message::user("hi")];
        let actual = body("gpt-5.1", messages, |options| ChatOptions {
            max_output_tokens: Some(Tokens::new(3)),
            temperature: Some(0.5),
            cache_key: Some("run".repeat(30)),
            ..options
        });
        let expected = json!({
            "model": "gpt-5.1", "instructions": "Be brief.\n\nIn French.",
            "input": [{"role": "user", "content": "hi"}],
            "tools": [{"type": "function", "name": "list", "description": "Lists.",
                "parameters": {"type": "object"}, "strict": false}],
            "temperature": 0.5, "max_output_tokens": 16, "store": false,
            "include": ["reasoning.encrypted_content"], "prompt_cache_key": &"run".repeat(30)[..64],
            "stream": true,
        });
        assert_eq!(actual, expected);
    }

    #[test]
    fn options_are_sent_in_the_protocols_words() {
        let plain = body("gpt-5.1", vec![Message::user("hi")], |options| options);
        for (settings, expected) in [
            (json!({}), json!({})),
            (json!({"reasoning": {"effort": "max"}}), json!({"reasoning": {"effort": "xhigh"}})),
            (
                json!({"reasoning": {"effort": "none", "show": true}}),
                json!({"reasoning": {"effort": "none", "summary": "auto"}}),
            ),
            (json!({"reasoning": {"show": false}}), json!({})),
            (
                json!({"tool_choice": "required", "parallel_tool_calls": false, "service_tier": "flex"}),
                json!({"tool_choice": "required", "parallel_tool_calls": false, "service_tier": "flex"}),
            ),
            (json!({"tool_choice": "list"}), json!({"tool_choice": {"type": "function", "name": "list"}})),
            (
                json!({"response_format": {"type": "json_object"}, "extra_body": {"text": {"verbosity": "low"}}}),
                json!({"text": {"format": {"type": "json_object"}, "verbosity": "low"}}),
            ),
            (
                json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}}),
                json!({"text": {"format": {"type": "json_schema", "name": "n", "schema": {}}}}),
            ),
            (
                json!({"routing": {"order": ["a"]}, "stop": ["x"], "seed": 1, "extra_body": {"top_logprobs": 2}}),
                json!({"provider": {"order": ["a"]}, "top_logprobs": 2}),
            ),
        ] {
            let mut agent = settings.clone();
            agent["id"] = json!("a");
            let agent: Agent = serde_json::from_value(agent).unwrap();
            let mut actual = body("gpt-5.1", vec![Message::user("hi")], |options| ChatOptions {
                request: agent.request_options(),
                ..options
            });
            let added = actual.as_object_mut().unwrap();
            added.retain(|key, value| plain.get(key) != Some(value));
            assert_eq!(actual, expected, "{settings}");
        }
    }

    #[test]
    fn reasoning_is_asked_of_models_that_may_have_it() {
        for (model, expected) in [
            ("gpt-5.1-codex", true),
            ("o3", true),
            ("openai/gpt-oss-20b", true),
            ("grok-4", true),
            ("gpt-4o-mini", false),
            ("openai/gpt-4.1", false),
            ("ft:gpt-4o:me", false),
            ("gpt-5-chat-latest", false),
        ] {
            assert_eq!(hides_reasoning(model), expected, "{model}");
        }
    }

    #[test]
    fn neighbours_are_one_item_and_nothing_is_refused() {
        let image = Part::Media(json!({"type": "image_url", "image_url": {"url": "u"}}));
        let mut thinking = Message::assistant("b");
        thinking.extra.insert("thinking_blocks".into(), json!([]));
        let left_over = read_items(vec![json!({"type": "reasoning", "id": "rs", "summary": []})]).unwrap();
        let foreign = vec![
            json!({"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "x"}),
            json!({"type": "function_call", "call_id": "c2", "name": "read", "arguments": "{}"}),
        ];
        let result = |id: &str| {
            let call = forge_domain::ToolCall {
                id: id.into(),
                name: ToolName::new("x").unwrap(),
                arguments: String::new(),
            };
            Message::tool(forge_domain::ToolResult::answer(&call, "out"))
        };
        let messages: Vec<Message> = [
            vec![
                Message::user("a"),
                Message::user(Content::Parts(vec![Part::Text("b".into()), image])),
                Message::assistant("a"),
                thinking,
                Message::system("rules"),
                Message::user("c"),
            ],
            left_over,
            read_items(foreign.clone()).unwrap(),
            vec![result("c1"), result("c2"), Message::user("d")],
        ]
        .concat();
        let sent = |model: &str| body(model, messages.clone(), |options| options)["input"].take();
        let opening = [
            json!({"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"},
                {"type": "input_image", "image_url": "u", "detail": "auto"}]}),
            json!({"role": "assistant", "content": "a\n\nb"}),
        ];
        let results = [
            json!({"type": "custom_tool_call_output", "call_id": "c1", "output": "out"}),
            json!({"type": "function_call_output", "call_id": "c2", "output": "out"}),
        ];
        let end = [json!({"role": "user", "content": "d"})];
        let rules = [json!({"role": "system", "content": "rules"}), json!({"role": "user", "content": "c"})];
        let expected = [&opening[..], &rules, &foreign, &results, &end].concat();
        assert_eq!(sent("gpt-5.1"), json!(expected));
        let rules = [json!({"role": "user", "content": "<system>\nrules\n</system>\n\nc"})];
        let pause = [json!({"role": "assistant", "content": "..."})];
        let expected = [&opening[..], &rules, &foreign, &results, &pause, &end].concat();
        assert_eq!(sent("mistral-small"), json!(expected));
    }
}
