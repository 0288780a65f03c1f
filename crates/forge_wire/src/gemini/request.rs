//! The body of a request for content.

use std::collections::BTreeMap;

use forge_domain::{
    Body as MessageBody, ContextMessage, Message, Prompt, Role, ToolDefinition, ToolName, ToolResult,
};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::form::SIGNATURE;
use super::generation::{generation_config, tool_config, wants_signatures};
use super::message::{content_parts, system_json};
use super::part::text_part;
use crate::encoded::Encoded;
use crate::sent::Sent;

/// The signature that the protocol provides for calls which its model did not sign: those of another model,
/// and those whose thoughts are no longer valid. From the third generation on, a first call without any is
/// refused.
const UNSIGNED: &str = "skip_thought_signature_validator";

/// Builds the body of `POST /v1beta/models/MODEL:generateContent` for `prompt`, streamed or not. Unset
/// options are left out. Messages that were sent before are not turned into JSON again.
pub fn request(prompt: &Prompt) -> impl Serialize {
    body(prompt, None)
}

/// Builds the body of `POST /v1beta/models/MODEL:countTokens` for `prompt`.
pub fn count_request(prompt: &Prompt) -> impl Serialize {
    let model = prompt.options().model.model.as_str();
    let named = if model.contains('/') { model.to_owned() } else { format!("models/{model}") };
    Count { generate_content_request: body(prompt, Some(named)) }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Count<'a> {
    generate_content_request: Sent<'a, Body<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    /// The address names the model, except where prompts are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<Value>,
    contents: Contents<'a>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    generation_config: Map<String, Value>,
    // Spelt so in the protocol's documentation, unlike the others.
    #[serde(rename = "service_tier", skip_serializing_if = "Option::is_none")]
    service_tier: Option<&'a str>,
}

fn body(prompt: &Prompt, model: Option<String>) -> Sent<'_, Body<'_>> {
    let messages = prompt.messages();
    let n_system = messages.iter().take_while(|message| message.role() == Role::System).count();
    let (leading, rest) = messages.split_at(n_system);
    let texts: Vec<String> = leading.iter().map(|message| message.message().to_text()).collect();
    let body = Body {
        model,
        system_instruction: system_json(&texts),
        tools: tools(prompt.tools()),
        tool_config: tool_config(prompt),
        contents: Contents::of(rest, wants_signatures(prompt.options().model.model.as_str())),
        generation_config: generation_config(prompt),
        service_tier: prompt.options().request.service_tier.as_deref(),
    };
    Sent { body, extra: prompt.options().request.extra_body.as_ref(), refusal: None }
}

/// Returns the tools as the one list in which the protocol holds functions. A function without parameters has
/// no schema: an object without properties is refused.
fn tools(tools: &[ToolDefinition]) -> Vec<Value> {
    let declaration = |tool: &ToolDefinition| {
        let mut spelt = json!({"name": tool.name, "description": tool.description});
        let has_properties = |schema: &Value| {
            schema
                .get("properties")
                .and_then(Value::as_object)
                .is_some_and(|properties| !properties.is_empty())
        };
        if has_properties(&tool.parameters) {
            spelt["parametersJsonSchema"] = tool.parameters.clone();
        }
        spelt
    };
    match tools {
        [] => Vec::new(),
        tools => vec![json!({"functionDeclarations": tools.iter().map(declaration).collect::<Vec<_>>()})],
    }
}

/// The `contents` of a request. Adjacent messages of one role are one content, as the responses to parallel
/// calls must be.
struct Contents<'a> {
    /// The messages that have parts.
    said: Vec<Said<'a>>,
    signs: bool,
}

/// A message in its place.
struct Said<'a> {
    form: &'a Form,
    /// Its response with the name of the tool, if the message itself does not have that.
    named: Option<Encoded>,
}

/// The parts of a message.
struct Form {
    role: &'static str,
    parts: Vec<Encoded>,
    /// True for a result, of which only the first part is the response: what follows comes after all
    /// responses.
    is_result: bool,
    is_nameless: bool,
    /// The place of the first call if it has no signature, and the call with the one for such calls.
    unsigned: Option<(usize, Encoded)>,
}

impl Form {
    fn of(message: &Message) -> Self {
        let (role, parts) = legal_parts(message);
        let call = parts.iter().position(|part| part.get("functionCall").is_some());
        let unsigned = call.filter(|at| parts[*at].get(SIGNATURE).is_none()).map(|at| {
            let mut part = parts[at].clone();
            part[SIGNATURE] = json!(UNSIGNED);
            (at, part.into())
        });
        Self {
            role,
            parts: parts.into_iter().map(Encoded::from).collect(),
            is_result: message.role() == Role::Tool,
            is_nameless: matches!(&message.body, MessageBody::Tool(result) if result.name.is_none()),
            unsigned,
        }
    }
}

impl<'a> Contents<'a> {
    fn of(messages: &'a [ContextMessage], signs: bool) -> Self {
        let forms: Vec<&Form> = messages.iter().map(|message| message.form(Form::of)).collect();
        let looks_up = forms.iter().any(|form| form.is_nameless);
        let mut called: BTreeMap<&str, &ToolName> = BTreeMap::new();
        let mut said = Vec::with_capacity(forms.len());
        for (message, form) in messages.iter().zip(forms) {
            // The messages themselves are read only if a name is missing.
            let message = looks_up.then(|| message.message());
            called.extend(
                message.iter().flat_map(|message| message.calls()).map(|call| (call.id.as_str(), &call.name)),
            );
            let named =
                message.filter(|_| form.is_nameless).and_then(|message| name_result(message, &called));
            if !form.parts.is_empty() {
                said.push(Said { form, named });
            }
        }
        Self { said, signs }
    }
}

/// Returns the response of a result with the name by which its tool was called.
fn name_result(message: &Message, called: &BTreeMap<&str, &ToolName>) -> Option<Encoded> {
    let MessageBody::Tool(result) = &message.body else { return None };
    let name = called.get(result.call_id.as_str()).copied()?.clone();
    let body = MessageBody::Tool(ToolResult { name: Some(name), ..result.clone() });
    legal_parts(&Message { body, ..message.clone() }).1.into_iter().next().map(Encoded::from)
}

impl Said<'_> {
    /// Returns the parts, the first call with a signature if it `signs`.
    fn parts(&self, signs: bool) -> impl Iterator<Item = &Encoded> {
        self.form.parts.iter().enumerate().map(move |(at, part)| match (&self.form.unsigned, &self.named) {
            (Some((place, signed)), _) if signs && *place == at => signed,
            (_, Some(named)) if at == 0 => named,
            _ => part,
        })
    }
}

impl Serialize for Contents<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let contents = self.said.chunk_by(|last, next| last.form.role == next.form.role);
        serializer.collect_seq(contents.map(|said| Content { said, signs: self.signs }))
    }
}

/// A content: the messages that it joins.
struct Content<'a> {
    said: &'a [Said<'a>],
    signs: bool,
}

impl Content<'_> {
    /// Returns the parts in order. What came with results stands after the last response of their run.
    fn parts(&self) -> Vec<&Encoded> {
        let mut parts = Vec::new();
        for run in self.said.chunk_by(|last, next| last.form.is_result == next.form.is_result) {
            let mut media = Vec::new();
            for said in run {
                let n_first = if said.form.is_result { 1 } else { usize::MAX };
                let mut own = said.parts(self.signs);
                parts.extend(own.by_ref().take(n_first));
                media.extend(own);
            }
            parts.append(&mut media);
        }
        parts
    }
}

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut content = serializer.serialize_struct("Content", 2)?;
        content.serialize_field("role", self.said.first().map_or("user", |first| first.form.role))?;
        content.serialize_field("parts", &self.parts())?;
        content.end()
    }
}

/// Returns a message's role and parts as they are sent. Content without a part in the protocol is named in
/// words instead: the run continues, and the model knows of it.
fn legal_parts(message: &Message) -> (&'static str, Vec<Value>) {
    let text = message.to_text();
    // Standing instructions in mid-conversation have no role of their own here.
    if message.role() == Role::System {
        let words = format!("<system>\n{text}\n</system>");
        return ("user", if text.trim().is_empty() { Vec::new() } else { vec![text_part(&words)] });
    }
    content_parts(message).unwrap_or_else(|_| {
        let words = format!("{text}\n[a part was left out: this provider cannot read it]");
        let words = words.trim_start();
        content_parts(&message.with_content(words)).unwrap_or_else(|_| ("user", vec![text_part(words)]))
    })
}
