//! The list of models that a server offers.

use forge_domain::{ModelId, ModelInfo, Tokens};
use serde_json::Value;

use crate::WireError;

/// Keys under which servers tell a model's window: OpenRouter and Together, Groq, vLLM, Mistral and LM Studio.
const WINDOW: [&str; 4] = ["context_length", "context_window", "max_model_len", "max_context_length"];

/// Reads the body of `GET /models`: `{"data": [...]}`, or the bare list. OpenAI itself tells no windows.
///
/// # Errors
/// [`WireError::Json`] and [`WireError::Shape`] where the body is no such list, [`WireError::Refused`] where it is an
/// error under a good status.
pub fn read_models(body: &[u8]) -> Result<Vec<ModelInfo>, WireError> {
    let body: Value = serde_json::from_slice(body).map_err(WireError::json)?;
    if let Some(refused) = crate::error_body::refused(&body) {
        return Err(WireError::refused(refused));
    }
    let list = body.get("data").unwrap_or(&body);
    let list = list.as_array().ok_or_else(|| WireError::shape("data", "must be a list"))?;
    list.iter().enumerate().map(|(n, model)| read_model(model, n)).collect()
}

fn read_model(model: &Value, n: usize) -> Result<ModelInfo, WireError> {
    let id = model.get("id").and_then(Value::as_str).and_then(|id| ModelId::new(id).ok());
    let id =
        id.ok_or_else(|| WireError::shape(format!("data[{n}].id"), "must be a string that is not blank"))?;
    let window = WINDOW.iter().find_map(|key| model.get(key)?.as_u64().filter(|window| *window > 0));
    Ok(ModelInfo { id, window: window.map(Tokens::new) })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn models_are_listed_with_their_windows() {
        let model = |id: &str, window: Option<u64>| ModelInfo {
            id: ModelId::new(id).unwrap(),
            window: window.map(Tokens::new),
        };
        for (body, expected) in [
            (r#"{"object": "list", "data": []}"#, vec![]),
            (
                r#"{"data": [{"id": "a"}, {"id": "b", "context_length": 8}]}"#,
                vec![model("a", None), model("b", Some(8))],
            ),
            (r#"[{"id": "a", "context_window": 8}]"#, vec![model("a", Some(8))]),
            (r#"{"data": [{"id": "a", "max_model_len": 8}]}"#, vec![model("a", Some(8))]),
            (
                r#"{"data": [{"id": "a", "max_context_length": 8, "context_length": null}]}"#,
                vec![model("a", Some(8))],
            ),
            (r#"{"data": [{"id": "a", "context_length": 0}]}"#, vec![model("a", None)]),
        ] {
            assert_eq!(read_models(body.as_bytes()).unwrap(), expected, "{body}");
        }
        for (body, expected) in [
            (r#"{"data": 1}"#, "`data` must be a list"),
            (r#"{"data": [{"id": "a"}, {}]}"#, "`data[1].id` must be a string that is not blank"),
            (r#"{"error": "no"}"#, "the server answers with an error: no"),
        ] {
            assert_eq!(read_models(body.as_bytes()).unwrap_err().to_string(), expected, "{body}");
        }
    }
}
