//! Messages to and from Gemini's contents.

use forge_domain::{Content, Message, Role, THOUGHT_SIGNATURES, ToolCall};
use serde_json::{Value, json};

use super::form;
use super::part::{assistant, user};
use crate::WireError;

/// Returns the role and the parts that `message` is sent as. Results belong to the user.
///
/// # Errors
/// [`WireError::Shape`] for parts that the protocol does not know.
pub fn content_parts(message: &Message) -> Result<(&'static str, Vec<Value>), WireError> {
    let role = if message.role() == Role::Assistant { "model" } else { "user" };
    let parts = form::parts(message);
    let unknown = || WireError::shape("content", "has a part for which Gemini's contents have none");
    Ok((role, parts.ok_or_else(unknown)?))
}

/// Reads the `contents` of a request. A content of the user's may hold several messages: a result for each
/// response, followed by the rest. Calls without an id get one, by which their results are found again.
///
/// # Errors
/// [`WireError::Shape`] if one has no role that the protocol knows, or no list of parts.
pub fn read_contents(contents: &[Value]) -> Result<Vec<Message>, WireError> {
    let mut messages = Vec::new();
    let mut open: Vec<ToolCall> = Vec::new();
    for (n, content) in contents.iter().enumerate() {
        let parts = content.get("parts").and_then(Value::as_array);
        let parts =
            parts.ok_or_else(|| WireError::shape(format!("contents[{n}].parts"), "must be a list"))?;
        match content.get("role").and_then(Value::as_str).unwrap_or("user") {
            "model" => {
                let message = read_model(parts);
                open = message.calls().to_vec();
                messages.push(message);
            }
            "user" | "function" => messages.extend(read_user(parts, &mut open)),
            other => {
                let what = format!("is `{other}` (expected one of user and model)");
                return Err(WireError::shape(format!("contents[{n}].role"), what));
            }
        }
    }
    Ok(messages)
}

/// Reads the parts of a content of the model's.
fn read_model(parts: &[Value]) -> Message {
    let (plain, thoughts) = form::split(parts);
    let mut message = assistant(&plain);
    message.metadata = form::metadata(&plain, &message);
    if !thoughts.is_empty() {
        message.extra.insert(THOUGHT_SIGNATURES.to_owned(), Value::Array(thoughts));
    }
    message
}

/// Reads the parts of a content of the user's, each kept with its message.
fn read_user(parts: &[Value], open: &mut Vec<ToolCall>) -> Vec<Message> {
    let (results, said): (Vec<_>, Vec<_>) =
        parts.iter().cloned().partition(|part| part.get("functionResponse").is_some());
    let mut messages = user(&results, open);
    for (message, part) in messages.iter_mut().zip(&results) {
        message.metadata = form::metadata(std::slice::from_ref(part), message);
    }
    messages.extend(user(&said, open).into_iter().map(|mut message| {
        message.metadata = form::metadata(&said, &message);
        message
    }));
    messages
}

/// Reads the `systemInstruction` of a request: a content.
///
/// # Errors
/// [`WireError::Shape`] if it has no list of parts.
pub fn read_system(value: &Value) -> Result<Message, WireError> {
    let parts = value.get("parts").and_then(Value::as_array);
    let parts = parts.ok_or_else(|| WireError::shape("systemInstruction.parts", "must be a list"))?;
    let read = user(parts, &mut Vec::new()).pop();
    let content = read.as_ref().and_then(Message::content).cloned();
    Ok(Message::system(content.unwrap_or_else(|| Content::Text(String::new()))))
}

/// Returns the `systemInstruction` of a request that starts with `texts`, if it has one.
pub(super) fn system_json(texts: &[String]) -> Option<Value> {
    let parts: Vec<Value> =
        texts.iter().filter(|text| !text.trim().is_empty()).map(|text| json!({"text": text})).collect();
    (!parts.is_empty()).then(|| json!({"parts": parts}))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// Writes what was read of `contents`, a content for each message.
    fn again(contents: &[Value]) -> Vec<Value> {
        let messages = read_contents(contents).unwrap();
        let contents = messages.iter().map(|message| content_parts(message).unwrap());
        contents.map(|(role, parts)| json!({"role": role, "parts": parts})).collect()
    }

    #[test]
    fn a_content_is_read_and_written() {
        for contents in [
            vec![json!({"role": "user", "parts": [{"text": "hi"}]})],
            vec![
                json!({"role": "user", "parts": [{"text": "see"}, {"inlineData": {"mimeType": "image/png", "data": "AA=="}}]}),
            ],
            // A signature stays in the part that it came with; a summary of thoughts stays where it was.
            vec![
                json!({"role": "model", "parts": [
                    {"text": "I look", "thought": true},
                    {"text": "So."},
                    {"functionCall": {"id": "f1", "name": "read", "args": {"path": "a"}}, "thoughtSignature": "S1"},
                    {"functionCall": {"id": "f2", "name": "read", "args": {"path": "b"}}}]}),
                json!({"role": "user", "parts": [
                    {"functionResponse": {"id": "f1", "name": "read", "response": {"output": "A"}}}]}),
                json!({"role": "user", "parts": [
                    {"functionResponse": {"id": "f2", "name": "read", "response": {"error": "none"}}}]}),
            ],
            // Without ids, and an answer in a form of its author's.
            vec![
                json!({"role": "model", "parts": [{"functionCall": {"name": "read", "args": {"path": "a"}}}]}),
                json!({"role": "user", "parts": [
                    {"functionResponse": {"name": "read", "response": {"lines": [1.5, null]}}}]}),
            ],
            // Signatures of texts, the last one in a part without text.
            vec![json!({"role": "model", "parts": [
                {"text": "one", "thoughtSignature": "S1"}, {"text": " two"}, {"text": "", "thoughtSignature": "S2"}]})],
            // Kinds and keys that are not known here.
            vec![json!({"role": "model", "parts": [
                {"executableCode": {"language": "PYTHON", "code": "1"}},
                {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
                {"text": "one", "partMetadata": {"n": 1}},
                {"functionCall": {"name": "read", "args": {}, "willContinue": false}, "thoughtSignature": "S"}]})],
        ] {
            assert_eq!(again(&contents), contents);
        }
    }

    #[test]
    fn results_find_their_calls_by_id_by_name_and_by_order() {
        let call = |fields: Value| json!({"functionCall": fields});
        let response = |fields: Value| json!({"functionResponse": fields});
        let contents = [
            json!({"role": "model", "parts": [
                call(json!({"name": "read", "args": {"n": 1}})),
                call(json!({"name": "list"})),
                call(json!({"name": "read", "args": {"n": 2}})),
                call(json!({"id": "own", "name": "look"}))]}),
            json!({"role": "user", "parts": [
                response(json!({"id": "own", "name": "look", "response": {"output": "d"}})),
                response(json!({"name": "read", "response": {"output": "a"}})),
                response(json!({"name": "read", "response": {"output": "c"}})),
                response(json!({"name": "other", "response": {"output": "b"}})),
                {"text": "go on"}]}),
        ];
        let messages = read_contents(&contents).unwrap();
        let ids: Vec<_> = messages[0].calls().iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids, ["by_order_0", "by_order_1", "by_order_2", "own"]);
        let results: Vec<_> = messages[1..]
            .iter()
            .map(|message| match &message.body {
                forge_domain::Body::Tool(result) => (result.call_id.as_str(), message.to_text()),
                _ => ("", message.to_text()),
            })
            .collect();
        let expected =
            [("own", "d"), ("by_order_0", "a"), ("by_order_2", "c"), ("by_order_1", "b"), ("", "go on")];
        assert_eq!(results, expected.map(|(id, text)| (id, text.to_owned())));
    }

    #[test]
    fn a_changed_message_is_sent_without_what_no_longer_fits() {
        let parts = json!([
            {"functionCall": {"id": "f1", "name": "read", "args": {"path": "a"}}, "thoughtSignature": "S1"},
            {"functionCall": {"id": "f2", "name": "read", "args": {"path": "b"}}}]);
        let message = read_model(parts.as_array().unwrap());
        let (_, same) = content_parts(&message).unwrap();
        assert_eq!(json!(same), parts);
        let (_, sent) = content_parts(&message.with_content("So.")).unwrap();
        assert_eq!(sent[0], json!({"text": "So."}));
        assert!(!json!(sent).to_string().contains("S1"), "{sent:?}");
        let mut stripped = message;
        stripped.extra.clear();
        let (_, sent) = content_parts(&stripped).unwrap();
        assert!(!json!(sent).to_string().contains("S1") && sent.len() == 2, "{sent:?}");
    }

    #[test]
    fn what_is_no_content_is_refused() {
        for content in [json!({"role": "user"}), json!({"role": "tool", "parts": []}), json!({"parts": "hi"})]
        {
            assert!(read_contents(std::slice::from_ref(&content)).is_err(), "{content}");
        }
        assert_eq!(
            read_system(&json!({"parts": [{"text": "Be brief."}]})).unwrap(),
            Message::system("Be brief.")
        );
        assert!(read_system(&json!("Be brief.")).is_err());
        assert_eq!(system_json(&[" ".to_owned()]), None);
    }
}
