//! The models of a server, and its details of one.

use forge_domain::{ModelId, ModelInfo, Tokens};
use serde_json::Value;

use crate::WireError;
use crate::error_body::refused;

/// A model's window, as a server reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelCard {
    /// The context length that the model was trained for.
    pub context_length: Option<Tokens>,
    /// The window that its file sets for requests without one.
    pub num_ctx: Option<Tokens>,
}

/// Reads the body of `GET /api/tags`. It contains no windows; [`read_card`] reads these.
///
/// # Errors
/// [`WireError::Json`] and [`WireError::Shape`] if the body is not such a list, [`WireError::Refused`] if it
/// is an error under a good status.
pub fn read_models(body: &[u8]) -> Result<Vec<ModelInfo>, WireError> {
    let body = read(body)?;
    let list = body.get("models").and_then(Value::as_array);
    let list = list.ok_or_else(|| WireError::shape("models", "must be a list"))?;
    let infos = list.iter().enumerate().map(|(n, model)| {
        let id = model.get("model").or_else(|| model.get("name")).and_then(Value::as_str);
        let id = id.and_then(|id| ModelId::new(id).ok());
        let at = || WireError::shape(format!("models[{n}].model"), "must be a string that is not blank");
        Ok(ModelInfo::new(id.ok_or_else(at)?))
    });
    infos.collect()
}

/// Reads the body of `POST /api/show`.
///
/// # Errors
/// [`WireError::Json`] if it is not JSON, [`WireError::Refused`] if it is an error under a good status.
pub fn read_card(body: &[u8]) -> Result<ModelCard, WireError> {
    let body = read(body)?;
    // The key begins with the name of the architecture: `llama.context_length`.
    let info = body.get("model_info").and_then(Value::as_object).into_iter().flatten();
    let length =
        info.filter(|(key, _)| key.ends_with(".context_length")).find_map(|(_, value)| value.as_u64());
    let parameters = body.get("parameters").and_then(Value::as_str).unwrap_or_default();
    let num_ctx =
        parameters.lines().find_map(|line| line.trim().strip_prefix("num_ctx")?.trim().parse().ok());
    let tokens = |figure: Option<u64>| figure.filter(|figure| *figure > 0).map(Tokens::new);
    Ok(ModelCard { context_length: tokens(length), num_ctx: tokens(num_ctx) })
}

/// Reads the window with which `model` is loaded in the body of `GET /api/ps`.
pub fn read_loaded(body: &[u8], model: &ModelId) -> Option<Tokens> {
    let body = read(body).ok()?;
    let mut models = body.get("models")?.as_array()?.iter();
    let named = |entry: &Value| {
        let mut names = ["model", "name"].iter().filter_map(|key| entry.get(*key)?.as_str());
        names.any(|name| is_called(name, model))
    };
    let loaded = models.find(|&entry| named(entry))?;
    loaded.get("context_length")?.as_u64().filter(|length| *length > 0).map(Tokens::new)
}

/// Checks whether `name` is that of `model`, which may be given without its tag.
pub fn is_called(name: &str, model: &ModelId) -> bool {
    name == model.as_str() || name.strip_suffix(":latest") == Some(model.as_str())
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
    fn a_card_tells_the_window() {
        let tokens = |n: u64| Some(Tokens::new(n));
        for (body, expected) in [
            ("{}", ModelCard::default()),
            (
                r#"{"model_info": {"general.architecture": "llama", "llama.context_length": 8192}}"#,
                ModelCard { context_length: tokens(8192), num_ctx: None },
            ),
            (
                r#"{"parameters": "stop  \"x\"\nnum_ctx                        4096\n", "model_info": null}"#,
                ModelCard { context_length: None, num_ctx: tokens(4096) },
            ),
        ] {
            assert_eq!(read_card(body.as_bytes()).unwrap(), expected, "{body}");
        }
        assert!(read_card(br#"{"error": "model 'x' not found"}"#).is_err());
    }

    #[test]
    fn models_are_listed() {
        let models =
            read_models(br#"{"models": [{"name": "a:latest", "model": "a:latest"}, {"name": "b"}]}"#);
        let names: Vec<_> = models.unwrap().into_iter().map(|model| model.id.to_string()).collect();
        assert_eq!(names, ["a:latest", "b"]);
        assert!(read_models(b"[]").is_err());
    }

    #[test]
    fn a_loaded_model_tells_its_window() {
        let body = br#"{"models": [{"name": "a:latest", "model": "a:latest", "context_length": 4096},
            {"name": "b:1b"}]}"#;
        for (model, expected) in [("a", Some(4096)), ("a:latest", Some(4096)), ("b:1b", None), ("c", None)] {
            let actual = read_loaded(body, &ModelId::new(model).unwrap());
            assert_eq!(actual.map(Tokens::as_u64), expected, "{model}");
        }
    }
}
