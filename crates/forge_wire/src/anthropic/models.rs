//! The list of models that a server offers.

use forge_domain::{ModelId, ModelInfo, Tokens};
use serde_json::Value;

use crate::WireError;
use crate::error_body::refused;

/// Reads the body of `GET /v1/models`.
///
/// # Errors
/// [`WireError::Json`] and [`WireError::Shape`] if the body is not such a list, [`WireError::Refused`] if it
/// is an error under a good status.
pub fn read_models(body: &[u8]) -> Result<Vec<ModelInfo>, WireError> {
    let body: Value = serde_json::from_slice(body).map_err(WireError::json)?;
    if let Some(refused) = refused(&body) {
        return Err(WireError::refused(refused));
    }
    let list = body.get("data").and_then(Value::as_array);
    let list = list.ok_or_else(|| WireError::shape("data", "must be a list"))?;
    list.iter()
        .enumerate()
        .map(|(n, model)| {
            let id = model.get("id").and_then(Value::as_str).and_then(|id| ModelId::new(id).ok());
            let at = || WireError::shape(format!("data[{n}].id"), "must be a string that is not blank");
            let figure = |key: &str| model.get(key).and_then(Value::as_u64).filter(|figure| *figure > 0);
            Ok(ModelInfo {
                window: figure("max_input_tokens").map(Tokens::new),
                max_output: figure("max_tokens").map(Tokens::new),
                ..ModelInfo::new(id.ok_or_else(at)?)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn models_are_listed() {
        let body = br#"{"data": [{"type": "model", "id": "a"}, {"id": "b", "max_input_tokens": 8}], "has_more": false}"#;
        let model = |id: &str, window: Option<u64>| ModelInfo {
            window: window.map(Tokens::new),
            ..ModelInfo::new(ModelId::new(id).unwrap())
        };
        assert_eq!(read_models(body).unwrap(), [model("a", None), model("b", Some(8))]);
        for (body, expected) in [
            (r#"{"data": [{}]}"#, "`data[0].id` must be a string that is not blank"),
            (r#"{"models": []}"#, "`data` must be a list"),
        ] {
            assert_eq!(read_models(body.as_bytes()).unwrap_err().to_string(), expected);
        }
    }
}
