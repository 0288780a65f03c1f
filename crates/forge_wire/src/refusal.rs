//! The meaning of a server's refusal: the one place where a status and a body become a typed error.

use std::time::Duration;

use forge_domain::{ModelId, ProviderError, Tokens};

use crate::figures::Figures;
use crate::{ErrorBody, wait};

/// A refusal with what is known around it.
#[derive(Clone, Copy, Debug)]
pub struct HttpRefusal<'a> {
    /// HTTP status; 200 if the refusal came inside a reply that began well.
    pub status: u16,
    /// The wait that the server asks for in its headers.
    pub retry_after: Option<Duration>,
    /// The requested model, if any.
    pub model: Option<&'a ModelId>,
}

/// The subject of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// Nothing is left of what was paid for.
    Spent,
    RateLimit,
    UnknownModel,
    Auth,
    TooLong,
    /// A limit in bytes, which no server of a model has: a proxy's.
    TooLarge,
    Trouble,
    Other,
}

/// Words of servers' own for the kind of error, in lower case. They say more than the status, and the earlier
/// line decides: some servers give a limit of tokens per minute the status of an overlong prompt.
const KINDS: [(&str, Meaning); 35] = [
    ("insufficient_quota", Meaning::Spent),
    ("billing_error", Meaning::Spent),
    ("billing_hard_limit_reached", Meaning::Spent),
    ("usage_limit_reached", Meaning::Spent),
    ("usage_not_included", Meaning::Spent),
    ("rate_limit_exceeded", Meaning::RateLimit),
    ("rate_limit_error", Meaning::RateLimit),
    ("ratelimitreached", Meaning::RateLimit),
    ("resource_exhausted", Meaning::RateLimit),
    ("too_many_requests", Meaning::RateLimit),
    ("throttlingexception", Meaning::RateLimit),
    ("context_length_exceeded", Meaning::TooLong),
    ("exceed_context_size_error", Meaning::TooLong),
    ("model_context_window_exceeded", Meaning::TooLong),
    ("too_many_prompt_tokens", Meaning::TooLong),
    ("too_many_tokens", Meaning::TooLong),
    ("request_too_large", Meaning::TooLong),
    ("string_above_max_length", Meaning::TooLong),
    ("model_not_found", Meaning::UnknownModel),
    ("deploymentnotfound", Meaning::UnknownModel),
    ("authentication_error", Meaning::Auth),
    ("permission_error", Meaning::Auth),
    ("invalid_api_key", Meaning::Auth),
    ("api_key_invalid", Meaning::Auth),
    ("unauthenticated", Meaning::Auth),
    ("permission_denied", Meaning::Auth),
    ("overloaded_error", Meaning::Trouble),
    ("server_is_overloaded", Meaning::Trouble),
    ("slow_down", Meaning::Trouble),
    ("server_error", Meaning::Trouble),
    ("internal_server_error", Meaning::Trouble),
    ("timeout_error", Meaning::Trouble),
    ("unavailable", Meaning::Trouble),
    // In a stream of the Responses protocol, where the status says nothing.
    ("invalid_prompt", Meaning::Other),
    ("cyber_policy", Meaning::Other),
];

/// Returns the typed error for what `error` describes.
pub fn provider_error(refusal: HttpRefusal<'_>, error: ErrorBody) -> ProviderError {
    // A body under a successful status contains the status that it should have had.
    let status = if refusal.status < 400 { error.status.unwrap_or(refusal.status) } else { refusal.status };
    let retry_after = refusal.retry_after.or(error.wait).or_else(|| wait::in_words(&error.text));
    let meaning = meaning(status, refusal.model, &error);
    let message = error.message;
    match (meaning, refusal.model) {
        (Meaning::RateLimit, _) => match over_rate(&error.text) {
            Some((need, limit)) => ProviderError::OverRate { need, limit, message },
            None => ProviderError::RateLimited { retry_after, message },
        },
        (Meaning::UnknownModel, Some(model)) => ProviderError::UnknownModel { model: model.clone(), message },
        (Meaning::Auth, _) => ProviderError::Auth { status, message },
        (Meaning::TooLong, _) => {
            let (need, window) = error.figures;
            let said = Figures::in_words(&error.text);
            let window = window.or(said.window);
            let need = need.or(said.need).filter(|need| window.is_none_or(|window| *need > window));
            ProviderError::ContextTooLong {
                need: need.map(Tokens::new),
                window: window.map(Tokens::new),
                message,
            }
        }
        (Meaning::TooLarge, _) => ProviderError::RequestTooLarge { message },
        (Meaning::Trouble, _) => ProviderError::Overloaded { status, retry_after, message },
        (Meaning::Spent | Meaning::UnknownModel | Meaning::Other, _) => {
            ProviderError::InvalidRequest { status, message }
        }
    }
}

/// Returns the requested and the allowed tokens per minute, if a server says that the request alone exceeds
/// the limit.
fn over_rate(text: &str) -> Option<(Tokens, Tokens)> {
    let is_of_tokens = text.contains("tokens per min") || text.contains("tpm");
    let number = |word: &str| {
        text.split(word).skip(1).find_map(|rest| {
            let digits = rest.trim_start_matches([' ', ':']);
            let end = digits.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(digits.len());
            digits[..end].replace(',', "").parse().ok().map(Tokens::new)
        })
    };
    let (need, limit) = (number("requested")?, number("limit")?);
    (is_of_tokens && need > limit).then_some((need, limit))
}

fn meaning(status: u16, model: Option<&ModelId>, error: &ErrorBody) -> Meaning {
    if is_unknown_model(status, model, error) {
        return Meaning::UnknownModel;
    }
    let named = KINDS.iter().find(|(kind, _)| error.kinds.iter().any(|said| said == kind));
    match (named, status) {
        (Some((_, meaning)), _) => *meaning,
        (None, 402) => Meaning::Spent,
        (None, 429) => Meaning::RateLimit,
        (None, _) if error.text.contains("tokens per min") => Meaning::RateLimit,
        (None, 401 | 403) => Meaning::Auth,
        (None, 404) => Meaning::Other,
        (None, 413) if !names_tokens(&error.text) => Meaning::TooLarge,
        (None, 413) => Meaning::TooLong,
        (None, _) if is_too_long(&error.text) => Meaning::TooLong,
        // A server that began to reply had accepted the request, so the failure is the server's.
        (None, 408 | 409 | 425 | 200..300 | 500..) => Meaning::Trouble,
        (None, _) => Meaning::Other,
    }
}

/// Checks whether a refusal means that the model does not exist. Servers share no word for it, and a bare 404
/// may as well come from a wrong address.
fn is_unknown_model(status: u16, model: Option<&ModelId>, error: &ErrorBody) -> bool {
    const WORDS: [&str; 6] = [
        "not found",
        "does not exist",
        "not a valid model",
        "unknown model",
        "no such model",
        "no endpoints found",
    ];
    let names_the_model = model.is_some_and(|model| error.text.contains(&model.as_str().to_lowercase()));
    let says_unknown = WORDS.iter().any(|words| error.text.contains(words));
    match status {
        404 => names_the_model || (says_unknown && error.text.contains("model")),
        400 => names_the_model && says_unknown,
        _ => false,
    }
}

/// Checks whether a server's text is about what a model reads, and not about the request that brings it.
fn names_tokens(text: &str) -> bool {
    ["token", "prompt", "context"].iter().any(|word| text.contains(word))
}

/// Checks whether a server's text is about a prompt that is too long: something that is sent, a measure of
/// length, and an excess. Limits of the reply alone name nothing that is sent.
fn is_too_long(text: &str) -> bool {
    const SENT: [&str; 10] = [
        "prompt",
        "input",
        "inputs",
        "context",
        "messages",
        "message",
        "conversation",
        "request",
        "requested",
        "context_length",
    ];
    const MEASURE: [&str; 6] = ["token", "context", "length", "long", "too large", "n_ctx"];
    const EXCESS: [&str; 19] = [
        "exceed",
        "too long",
        "too large",
        "too many",
        "maximum context",
        "maximum prompt",
        "maximum input",
        "greater than",
        "longer than",
        "larger than",
        "more than",
        "over the limit",
        "reduce the length",
        "must be <=",
        "does not fit",
        // LM Studio: "context the overflows", "mid-generation context overflow", "n_keep (15028) >= n_ctx
        // (7424)".
        "context overflow",
        "context the overflow",
        ">= n_ctx",
        // Text Generation Inference. Validators say "should be less than" of any option.
        "must have less than",
    ];
    // Text Generation Inference puts this in front of every refusal, so it names nothing that is sent.
    let text = text.strip_prefix("input validation error:").unwrap_or(text);
    // A prompt that leaves no tokens for a reply makes vLLM compute a negative limit.
    const NO_ROOM: &str = "must be at least 1, got -";
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let is_sent = text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| SENT.contains(&word));
    (is_sent && has(&MEASURE) && has(&EXCESS)) || (text.contains("tokens") && text.contains(NO_ROOM))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;
    use crate::read_error;

    /// Returns the error in short: its name, and the figures of an overflow or the seconds of a wait.
    fn short(status: u16, body: &str) -> String {
        let model = ModelId::new("gpt-x").unwrap();
        let refusal = HttpRefusal { status, retry_after: None, model: Some(&model) };
        match provider_error(refusal, read_error(body.as_bytes())) {
            ProviderError::ContextTooLong { need, window, .. } => {
                let figure = |tokens: Option<Tokens>| tokens.map_or("?".into(), |n| n.as_u64().to_string());
                format!("too long {}/{}", figure(need), figure(window))
            }
            ProviderError::RequestTooLarge { .. } => "too large".into(),
            ProviderError::RateLimited { retry_after, .. } => format!("rate {retry_after:?}"),
            ProviderError::OverRate { need, limit, .. } => format!("over rate {need}/{limit}"),
            ProviderError::Overloaded { status, .. } => format!("trouble {status}"),
            ProviderError::Auth { .. } => "auth".into(),
            ProviderError::UnknownModel { .. } => "unknown model".into(),
            ProviderError::InvalidRequest { status, .. } => format!("invalid {status}"),
            other => panic!("{other}"),
        }
    }

    fn check(status: u16, body: &Value, expected: &str) {
        assert_eq!(short(status, &body.to_string()), expected, "{status} {body}");
    }

    #[test]
    fn every_dialect_of_an_overlong_prompt_is_understood() {
        for (message, expected) in [
            ("prompt is too long: 205351 tokens > 200000 maximum", "205351/200000"),
            (
                "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length",
                "242959/200000",
            ),
            (
                "This model's maximum context length is 4096 tokens. However, you requested 4118 tokens (3118 in the \
                 messages, 1000 in the completion). Please reduce the length of the messages or completion.",
                "4118/4096",
            ),
            ("max_tokens must be at least 1, got -186.", "?/?"),
            ("Your input exceeds the context window of this model.", "?/?"),
            ("The total length of all messages is too long.", "?/?"),
            ("prompt too long; exceeded max context length by 1119046 tokens (ref: 96164522-08b2)", "?/?"),
            (
                "too many tokens: size limit exceeded by 25836 tokens. Try using shorter or fewer inputs. The limit \
                 for this model is 288000 tokens.",
                "313836/288000",
            ),
            ("Input Tokens Exceeded: Number of input tokens exceeds maximum length.", "?/?"),
            (
                "The input token count (1250074) exceeds the maximum number of tokens allowed (1048576).",
                "1250074/1048576",
            ),
            ("the request exceeds the available context size (4096 tokens), try increasing it", "?/4096"),
            (
                "This model's maximum prompt length is 131,072 but the request contains 537,812 tokens.",
                "537812/131072",
            ),
            (
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` \
                 tokens and 2000 `max_new_tokens`",
                "6000/4096",
            ),
            ("Input validation error: `inputs` must have less than 1024 tokens. Given: 2034", "2034/1024"),
            (
                "Trying to keep the first 15857 tokens when context the overflows. However, the model is loaded with \
                 context length of only 8192 tokens, which is not enough. Try to load the model with a larger context \
                 length, or provide a shorter input",
                "15857/8192",
            ),
            (
                "The number of tokens to keep from the initial prompt is greater than the context length \
                 (n_keep: 4823>= n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter input",
                "4823/4096",
            ),
            ("Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)", "15028/7424"),
            (
                "Reached context length of 4096 tokens with model (arch: qwen3vlmoe) that does not currently support \
                 mid-generation context overflow. Try reloading with a larger context length or shortening the prompt/chat.",
                "?/4096",
            ),
            ("Context size has been exceeded.", "?/?"),
            ("The prompt has 9000 tokens, which does not fit the model's window of 8192", "9000/8192"),
        ] {
            check(400, &json!({"error": {"message": message}}), &format!("too long {expected}"));
        }
        let llama = json!({"error": {"code": 400, "type": "exceed_context_size_error", "message": "too big",
            "n_prompt_tokens": 700, "n_ctx": 512}});
        check(400, &llama, "too long 700/512");
        // LM Studio reports it inside the stream as well, and its own protocol's errors are plain text.
        let lm_studio = "Trying to keep the first 900 tokens when context the overflows. However, the model is loaded with \
                         context length of only 800 tokens";
        check(200, &json!({"error": {"message": lm_studio}}), "too long 900/800");
        check(400, &json!({"error": lm_studio}), "too long 900/800");
        let tgi = "Input validation error: `inputs` must have less than 8 tokens. Given: 9";
        check(422, &json!({"error": tgi, "error_type": "validation"}), "too long 9/8");
        check(
            413,
            &json!({"error": {"type": "request_too_large", "message": "Request exceeds"}}),
            "too long ?/?",
        );
        check(
            200,
            &json!({"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}),
            "too long 9/8",
        );
    }

    #[test]
    fn what_only_sounds_like_an_overlong_prompt_is_told_apart() {
        for (status, message, expected) in [
            (
                429,
                "This request would exceed your limit of 20,000 input tokens per minute. Please reduce the prompt length",
                "rate None",
            ),
            (
                413,
                "Request too large for model on tokens per minute (TPM): Limit 6000, Requested 7000",
                "over rate 7000/6000",
            ),
            (
                429,
                "Rate limit reached for gpt-4 on tokens per min (TPM): Limit 10,000, Used 9,000, Requested 5,000.",
                "rate None",
            ),
            (
                400,
                "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens",
                "invalid 400",
            ),
            (
                400,
                "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
                "invalid 400",
            ),
            (
                400,
                "messages.0.content.1.image: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes",
                "invalid 400",
            ),
            (400, "Input validation error: `max_new_tokens` must be <= 1024. Given: 5000", "invalid 400"),
            (
                400,
                "Input validation error: `truncate` must be strictly positive and less than 1024. Given: 0",
                "invalid 400",
            ),
            (400, "max_tokens: Input should be less than or equal to 8192", "invalid 400"),
            (400, "temperature: Input should be less than or equal to 1", "invalid 400"),
            (400, "messages.167: `tool_use` ids were found without `tool_result` blocks", "invalid 400"),
            (400, "max_tokens: integer overflow in the request", "invalid 400"),
            (400, "`max_tokens` must be greater than `thinking.budget_tokens`", "invalid 400"),
        ] {
            check(status, &json!({"error": {"message": message}}), expected);
        }
    }

    #[test]
    fn the_details_of_a_refusal_are_read() {
        let kind = |name: &str| format!("type.googleapis.com/google.rpc.{name}");
        for (status, code, details, expected) in [
            (
                429,
                "RESOURCE_EXHAUSTED",
                json!([{"@type": kind("Help"), "links": []}, {"@type": kind("RetryInfo"), "retryDelay": "48.5s"}]),
                "rate Some(48.5s)",
            ),
            (429, "RESOURCE_EXHAUSTED", json!([]), "rate None"),
            (
                400,
                "INVALID_ARGUMENT",
                json!([{"@type": kind("ErrorInfo"), "reason": "API_KEY_INVALID", "domain": "googleapis.com"}]),
                "auth",
            ),
            (403, "PERMISSION_DENIED", json!([]), "auth"),
            (400, "FAILED_PRECONDITION", json!([]), "invalid 400"),
            (500, "INTERNAL", json!([]), "trouble 500"),
            (503, "UNAVAILABLE", json!([]), "trouble 503"),
            (504, "DEADLINE_EXCEEDED", json!([]), "trouble 504"),
        ] {
            let error = json!({"code": status, "message": "no", "status": code, "details": details});
            check(status, &json!({"error": error.clone()}), expected);
            check(status, &json!([{"error": error}]), expected);
        }
        let unknown =
            "models/gpt-x is not found for API version v1beta, or is not supported for generateContent.";
        check(
            404,
            &json!({"error": {"code": 404, "message": unknown, "status": "NOT_FOUND"}}),
            "unknown model",
        );
    }

    #[test]
    fn refusals_are_told_apart() {
        for (status, body, expected) in [
            (401, json!({"error": "Unauthorized"}), "auth"),
            (400, json!({"error": {"type": "authentication_error", "message": "no"}}), "auth"),
            (402, json!({"error": {"message": "pay"}}), "invalid 402"),
            (429, json!({"error": {"code": "insufficient_quota", "message": "pay"}}), "invalid 429"),
            (429, json!({"error": {"message": "Please try again in 18.642s."}}), "rate Some(18.642s)"),
            (404, json!({"error": {"type": "not_found_error", "message": "model: gpt-x"}}), "unknown model"),
            (404, json!({"error": "model \"gpt-x\" not found, try pulling it first"}), "unknown model"),
            (404, json!("404 page not found"), "invalid 404"),
            (
                529,
                json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
                "trouble 529",
            ),
            (
                200,
                json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
                "trouble 200",
            ),
            (200, json!({"error": {"code": 502, "message": "Upstream idle timeout"}}), "trouble 502"),
            (200, json!({"error": {"code": 429, "message": "slow down"}}), "rate None"),
            (200, json!({"error": "out of memory"}), "trouble 200"),
            (
                200,
                json!({"type": "response.failed", "response": {"status": "failed", "error":
                    {"code": "server_is_overloaded", "message": "Our servers are overloaded."}}}),
                "trouble 200",
            ),
            (
                200,
                json!({"type": "response.failed", "response": {"error": {"code": "invalid_prompt", "message": "no"}}}),
                "invalid 200",
            ),
            (
                200,
                json!({"type": "response.failed", "response": {"error": {"code": "context_length_exceeded",
                    "message": "Your input exceeds the context window of this model."}}}),
                "too long ?/?",
            ),
            (
                200,
                json!({"type": "error", "code": "rate_limit_exceeded", "param": null,
                    "message": "Rate limit reached. Please try again in 11.054s."}),
                "rate Some(11.054s)",
            ),
            (503, json!("upstream connect error"), "trouble 503"),
            // A proxy counts bytes, and knows nothing of tokens.
            (413, json!("Request Entity Too Large"), "too large"),
            (413, json!({"message": "Payload too large"}), "too large"),
            (413, json!({"error": {"message": "the prompt has too many tokens"}}), "too long ?/?"),
            (400, json!({"error": {"message": "no"}}), "invalid 400"),
        ] {
            check(status, &body, expected);
        }
    }
}
