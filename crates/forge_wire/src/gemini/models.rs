//! The list of models that a server offers, and its counts of prompts.

use forge_domain::{ModelId, ModelInfo, Tokens};
use serde_json::Value;

use crate::WireError;
use crate::error_body::refused;

/// Reads the body of `GET /v1beta/models`, without the models that generate no content.
///
/// # Errors
/// [`WireError::Json`] and [`WireError::Shape`] if the body is not such a list, [`WireError::Refused`] if it
/// is an error under a good status.
pub fn read_models(body: &[u8]) -> Result<Vec<ModelInfo>, WireError> {
    let body = read(body)?;
    let list = body.get("models").and_then(Value::as_array);
    let list = list.ok_or_else(|| WireError::shape("models", "must be a list"))?;
    let mut models = Vec::with_capacity(list.len());
    for (n, model) in list.iter().enumerate() {
        let methods = model.get("supportedGenerationMethods").and_then(Value::as_array);
        if methods.is_some_and(|methods| !methods.iter().any(|method| method == "generateContent")) {
            continue;
        }
        let name = model.get("name").and_then(Value::as_str);
        let id = name.and_then(|name| ModelId::new(name.strip_prefix("models/").unwrap_or(name)).ok());
        let at = || WireError::shape(format!("models[{n}].name"), "must be a string that is not blank");
        let figure = |key: &str| model.get(key).and_then(Value::as_u64).filter(|figure| *figure > 0);
        models.push(ModelInfo {
            window: figure("inputTokenLimit").map(Tokens::new),
            max_output: figure("outputTokenLimit").map(Tokens::new),
            ..ModelInfo::new(id.ok_or_else(at)?)
        });
    }
    Ok(models)
}

/// Reads the body of an answer to `:countTokens`.
///
/// # Errors
/// As [`read_models`].
pub fn read_count(body: &[u8]) -> Result<Tokens, WireError> {
    let count = read(body)?.get("totalTokens").and_then(Value::as_u64);
    count.map(Tokens::new).ok_or_else(|| WireError::shape("totalTokens", "must be a number"))
}

fn read(body: &[u8]) -> Result<Value, WireError> {
    let body: Value = serde_json::from_slice(body).map_err(WireError::json)?;
    match refused(&body) {
        Some(refused) => Err(WireError::refused(refused)),
        None => Ok(body),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn models_are_listed() {
        let body = br#"{"models": [
            {"name": "models/a", "inputTokenLimit": 8, "outputTokenLimit": 2, "supportedGenerationMethods": ["generateContent", "countTokens"]},
            {"name": "models/vectors", "supportedGenerationMethods": ["embedContent"]},
            {"name": "publishers/google/models/b"}]}"#;
        let model = |id: &str, window: Option<u64>, max_output: Option<u64>| ModelInfo {
            window: window.map(Tokens::new),
            max_output: max_output.map(Tokens::new),
            ..ModelInfo::new(ModelId::new(id).unwrap())
        };
        let expected = [model("a", Some(8), Some(2)), model("publishers/google/models/b", None, None)];
        assert_eq!(read_models(body).unwrap(), expected);
        for (body, expected) in [
            (r#"{"models": [{}]}"#, "`models[0].name` must be a string that is not blank"),
            (r#"{"data": []}"#, "`models` must be a list"),
            (r#"{"error": {"message": "no"}}"#, "the server answers with an error: no"),
        ] {
            assert_eq!(read_models(body.as_bytes()).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn a_prompt_is_counted() {
        assert_eq!(
            read_count(br#"{"totalTokens": 31, "cachedContentTokenCount": 1}"#).unwrap(),
            Tokens::new(31)
        );
        assert_eq!(read_count(b"{}").unwrap_err().to_string(), "`totalTokens` must be a number");
    }
}
