//! The list of models that a server offers.

use forge_domain::{Dollars, ModelId, ModelInfo, Price, Tokens};
use serde_json::Value;

use crate::WireError;

/// The places where servers report a model's window: OpenRouter and Together, the part of it that
/// OpenRouter's own provider accepts, Groq, vLLM, Mistral and LM Studio, and llama.cpp. The training length
/// that llama.cpp reports is not a window.
const WINDOW: [&str; 6] = [
    "/context_length",
    "/top_provider/context_length",
    "/context_window",
    "/max_model_len",
    "/max_context_length",
    "/meta/n_ctx",
];
/// The places where servers report the longest reply: OpenRouter, Groq, and others.
const MAX_OUTPUT: [&str; 3] =
    ["/top_provider/max_completion_tokens", "/max_completion_tokens", "/max_output_tokens"];

/// Reads the body of `GET /models`: `{"data": [...]}`, or the bare list. OpenAI itself reports no windows.
///
/// # Errors
/// [`WireError::Json`] and [`WireError::Shape`] if the body is not such a list, [`WireError::Refused`] if it
/// is an error under a good status.
pub fn read_models(body: &[u8]) -> Result<Vec<ModelInfo>, WireError> {
    let body: Value = serde_json::from_slice(body).map_err(WireError::json)?;
    if let Some(refused) = crate::error_body::refused(&body) {
        return Err(WireError::refused(refused));
    }
    let list = body.get("data").unwrap_or(&body);
    let list = list.as_array().ok_or_else(|| WireError::shape("data", "must be a list"))?;
    let models = list.iter().enumerate().map(|(n, model)| read_model(model, n));
    models.filter(|model| model.as_ref().is_ok_and(|model| can_chat(&model.id)) || model.is_err()).collect()
}

/// Checks whether a model may hold a conversation, by its name: servers list their other models as well, and
/// say nothing of their kind.
fn can_chat(id: &ModelId) -> bool {
    /// The beginnings of the names of models for vectors, sounds, pictures and films, and of old ones that
    /// only complete texts.
    const OTHERS: [&str; 13] = [
        "text-embedding-",
        "text-moderation-",
        "omni-moderation-",
        "whisper-",
        "tts-",
        "dall-e-",
        "gpt-image-",
        "chatgpt-image-",
        "gpt-audio",
        "gpt-realtime",
        "sora-",
        "babbage-",
        "davinci-",
    ];
    const PARTS: [&str; 4] = ["-realtime", "-transcribe", "-tts", "-audio-preview"];
    let name = id.as_str().rsplit('/').next().unwrap_or_default();
    !OTHERS.iter().any(|other| name.starts_with(other)) && !PARTS.iter().any(|part| name.contains(part))
}

/// A server that reports the windows of its models at an address of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalServer {
    /// llama.cpp: at `/props`; older versions report it only there.
    LlamaCpp,
    /// LM Studio: at `/api/v0/models`, of models that are loaded.
    LmStudio,
    /// Ollama: at `/api/ps`, of models that are loaded.
    Ollama,
}

/// Returns the server that a list of models comes from, if it is known by their owner.
pub fn local_server(body: &[u8]) -> Option<LocalServer> {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let models = body.get("data").and_then(Value::as_array).into_iter().flatten();
    let mut owners = models.filter_map(|model| model.get("owned_by")?.as_str());
    owners.find_map(|owner| match owner {
        "llamacpp" => Some(LocalServer::LlamaCpp),
        "organization_owner" | "organization-owner" => Some(LocalServer::LmStudio),
        "library" => Some(LocalServer::Ollama),
        _ => None,
    })
}

/// Reads the window with which `model` is loaded in the body of LM Studio's `GET /api/v0/models`. The longest
/// window that the model could have is reported as well, and says nothing.
pub fn read_loaded(body: &[u8], model: &ModelId) -> Option<Tokens> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let mut models = body.get("data")?.as_array()?.iter();
    let loaded = models.find(|entry| entry.get("id").is_some_and(|id| id == model.as_str()))?;
    figure(loaded, &["/loaded_context_length"])
}

/// Reads the window in the body of llama.cpp's `GET /props`.
pub fn read_props(body: &[u8]) -> Option<Tokens> {
    let body: Value = serde_json::from_slice(body).ok()?;
    figure(&body, &["/default_generation_settings/n_ctx", "/n_ctx"])
}

fn read_model(model: &Value, n: usize) -> Result<ModelInfo, WireError> {
    let id = model.get("id").and_then(Value::as_str).and_then(|id| ModelId::new(id).ok());
    let id =
        id.ok_or_else(|| WireError::shape(format!("data[{n}].id"), "must be a string that is not blank"))?;
    let window = figure(model, &WINDOW);
    // The provider behind a router may accept less than the model could.
    let theirs = figure(model, &["/top_provider/context_length"]);
    Ok(ModelInfo {
        window: window.map(|window| window.min(theirs.unwrap_or(window))),
        max_output: figure(model, &MAX_OUTPUT),
        price: model.get("pricing").and_then(price),
        ..ModelInfo::new(id)
    })
}

/// Returns the number at the first place that has one above zero.
fn figure(value: &Value, places: &[&str]) -> Option<Tokens> {
    let figures = places.iter().filter_map(|place| value.pointer(place)?.as_u64());
    figures.map(Tokens::new).find(|tokens| *tokens > Tokens::ZERO)
}

/// Returns the price of a model: OpenRouter reports it per token, as text; Together per million, as numbers.
fn price(pricing: &Value) -> Option<Price> {
    let per_token = |key: &str| pricing.get(key)?.as_str()?.parse::<f64>().ok().map(|price| price * 1e6);
    let per_million = |key: &str| pricing.get(key)?.as_f64();
    let of = |token: &str, million: &str| Dollars::new(per_token(token).or_else(|| per_million(million))?);
    Some(Price {
        input: of("prompt", "input")?,
        output: of("completion", "output")?,
        cache_read: of("input_cache_read", "cached_input"),
        cache_write: of("input_cache_write", "cache_write"),
        long_prompt: None,
        as_of: None,
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn models_are_listed_with_their_windows() {
        let model = |id: &str, window: Option<u64>| ModelInfo {
            window: window.map(Tokens::new),
            ..ModelInfo::new(ModelId::new(id).unwrap())
        };
        for (body, expected) in [
            (r#"{"object": "list", "data": []}"#, vec![]),
            (
                r#"{"data": [{"id": "a"}, {"id": "b", "context_length": 8}]}"#,
                vec![model("a", None), model("b", Some(8))],
            ),
            (r#"[{"id": "a", "context_window": 8}]"#, vec![model("a", Some(8))]),
            (
                r#"[{"id": "text-embedding-3-small"}, {"id": "openai/whisper-1"}, {"id": "gpt-4o-mini-tts"}, {"id": "gpt-6-sol"}]"#,
                vec![model("gpt-6-sol", None)],
            ),
            (r#"{"data": [{"id": "a", "max_model_len": 8}]}"#, vec![model("a", Some(8))]),
            (
                r#"{"data": [{"id": "a", "max_context_length": 8, "context_length": null}]}"#,
                vec![model("a", Some(8))],
            ),
            (r#"{"data": [{"id": "a", "context_length": 0}]}"#, vec![model("a", None)]),
            (
                r#"{"data": [{"id": "a", "owned_by": "llamacpp", "meta": {"n_ctx": 8, "n_ctx_train": 99}}]}"#,
                vec![model("a", Some(8))],
            ),
            (r#"{"data": [{"id": "a", "meta": {"n_ctx_train": 99}}]}"#, vec![model("a", None)]),
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

    #[test]
    fn prices_and_limits_are_read_where_they_are_told() {
        let yaml = |yaml: &str| Some(serde_json::from_str::<Price>(yaml).unwrap());
        for (body, window, max_output, expected) in [
            (
                r#"{"id": "a", "context_length": 200000, "top_provider": {"context_length": 163840,
                "max_completion_tokens": 8192}, "pricing": {"prompt": "0.000003", "completion": "0.000015",
                "request": "0", "input_cache_read": "0.0000003", "input_cache_write": "0.00000375"}}"#,
                Some(163_840),
                Some(8_192),
                yaml(r#"{"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75}"#),
            ),
            (
                r#"{"id": "a", "context_length": 8, "pricing": {"input": 0.88, "output": 0.9, "hourly": 0}}"#,
                Some(8),
                None,
                yaml(r#"{"input": 0.88, "output": 0.9}"#),
            ),
            // A router that chooses the model does not know the price.
            (r#"{"id": "auto", "pricing": {"prompt": "-1", "completion": "-1"}}"#, None, None, None),
            (
                r#"{"id": "a", "context_window": 8, "max_completion_tokens": 4, "pricing": null}"#,
                Some(8),
                Some(4),
                None,
            ),
        ] {
            let models = read_models(format!("[{body}]").as_bytes()).unwrap();
            let expected = ModelInfo {
                window: window.map(Tokens::new),
                max_output: max_output.map(Tokens::new),
                price: expected,
                ..ModelInfo::new(models[0].id.clone())
            };
            assert_eq!(models, [expected], "{body}");
        }
    }

    #[test]
    fn a_local_server_is_known_and_its_window_read() {
        for (owners, expected) in [
            (&["llamacpp"][..], Some(LocalServer::LlamaCpp)),
            (&["organization_owner"], Some(LocalServer::LmStudio)),
            (&["me", "library"], Some(LocalServer::Ollama)),
            (&["vllm"], None),
            (&[], None),
        ] {
            let models: Vec<_> =
                owners.iter().map(|owner| serde_json::json!({"id": "a", "owned_by": owner})).collect();
            let body = serde_json::json!({"data": models}).to_string();
            assert_eq!(local_server(body.as_bytes()), expected, "{body}");
        }
        assert_eq!(local_server(b"<html>"), None);
        let props = br#"{"default_generation_settings": {"n_ctx": 4096}, "total_slots": 1}"#;
        assert_eq!(read_props(props), Some(Tokens::new(4_096)));
        assert_eq!(read_props(b"<html>"), None);
        let listed = br#"{"data": [{"id": "a", "state": "not-loaded", "max_context_length": 9000},
            {"id": "b", "state": "loaded", "max_context_length": 9000, "loaded_context_length": 4096}]}"#;
        let loaded = |id: &str| read_loaded(listed, &ModelId::new(id).unwrap()).map(Tokens::as_u64);
        assert_eq!(["a", "b", "c"].map(loaded), [None, Some(4_096), None]);
    }
}
