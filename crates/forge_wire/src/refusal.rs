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
    /// The server could not read the call that the model wrote.
    Unreadable,
    Trouble,
    Other,
}

/// Words of servers' own for the kind of error, in lower case. They say more than the status, and the earlier
/// line decides: some servers give a limit of tokens per minute the status of an overlong prompt.
const KINDS: [(&str, Meaning); 37] = [
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
    ("tool_use_failed", Meaning::Unreadable),
    ("output_parse_failed", Meaning::Unreadable),
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

/// Words that say more than status and kind, in lower case. All words of an entry have to be there.
const PHRASES: [(&[&str], Meaning); 15] = [
    // llama.cpp, with status 500 and `server_error`.
    (&["failed to parse input at pos"], Meaning::Unreadable),
    (&["output that does not match the expected"], Meaning::Unreadable),
    (&["invalid diff:", "tool call"], Meaning::Unreadable),
    (&["invalid diff:", "not found at start of"], Meaning::Unreadable),
    // Ollama, with status 500.
    (&["error parsing tool call"], Meaning::Unreadable),
    (&["xml syntax error on line"], Meaning::Unreadable),
    // Groq, with status 400; routers pass on its words alone.
    (&["failed to call a function"], Meaning::Unreadable),
    (&["output that could not be parsed"], Meaning::Unreadable),
    // vLLM, of gpt-oss.
    (&["while expecting start token"], Meaning::Unreadable),
    // LM Studio, with status 400 or 404: the next request loads the model again.
    (&["model", "has crashed"], Meaning::Trouble),
    (&["model has unloaded"], Meaning::Trouble),
    (&["model unloaded"], Meaning::Trouble),
    (&["no models loaded"], Meaning::Trouble),
    (&["failed to load model"], Meaning::Trouble),
    (&["operation canceled"], Meaning::Trouble),
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
        (Meaning::Unreadable, _) => ProviderError::UnreadableCall { status, message },
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
    let said = |phrases: &[&str]| phrases.iter().all(|words| error.text.contains(words));
    if let Some((_, meaning)) = PHRASES.iter().find(|(phrases, _)| said(phrases)) {
        return *meaning;
    }
    if is_unknown_model(status, model, error) {
        return Meaning::UnknownModel;
    }
    let named = KINDS.iter().find(|(kind, _)| error.kinds.iter().any(|said| said == kind));
    match (named, status) {
        // llama.cpp calls all of its errors those of the server, and sends 500.
        (Some((_, Meaning::Trouble)), _) if is_of_template(&error.text) => Meaning::Other,
        (Some((_, Meaning::Trouble)), _) if is_too_long(&error.text) => Meaning::TooLong,
        (Some((_, meaning)), _) => *meaning,
        (None, 402) => Meaning::Spent,
        (None, 429) => Meaning::RateLimit,
        (None, _) if error.text.contains("tokens per min") => Meaning::RateLimit,
        (None, 401 | 403) => Meaning::Auth,
        (None, 404) => Meaning::Other,
        (None, 413) if !names_tokens(&error.text) => Meaning::TooLarge,
        (None, 413) => Meaning::TooLong,
        (None, _) if is_of_template(&error.text) => Meaning::Other,
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

/// Checks whether the chat template failed, which it does again for the same messages. Its engines name a
/// place: "at row 1, column 72", and newer ones "while executing CallExpression at line 1, column 72".
fn is_of_template(text: &str) -> bool {
    let has_place = |before: &str| {
        text.split(before).skip(1).any(|rest| {
            let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit()).strip_prefix(", column ");
            rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        })
    };
    let is_executed = text.contains("while executing") && has_place("at line ");
    text.contains("jinja") || is_executed || has_place("at row ")
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
    const MEASURE: [&str; 7] = ["token", "context", "length", "long", "too large", "n_ctx", "kv size"];
    const EXCESS: [&str; 21] = [
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
        // llama.cpp: what it would shift out of the context is too much, or the cache is full.
        "context shift is disabled",
        "too big compared",
        // Text Generation Inference. Validators say "should be less than" of any option.
        "must have less than",
    ];
    // Text Generation Inference puts this in front of every refusal, so it names nothing that is sent.
    let text = text.strip_prefix("input validation error:").unwrap_or(text);
    // A prompt that leaves no tokens for a reply makes vLLM compute a negative limit.
    const NO_ROOM: &str = "must be at least 1, got -";
    // "The request took too long" is about time.
    const OF_TIME: [&str; 3] = ["took too long", "timed out", "timeout"];
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let is_sent = text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| SENT.contains(&word));
    (is_sent && has(&MEASURE) && has(&EXCESS) && !has(&OF_TIME))
        || (text.contains("tokens") && text.contains(NO_ROOM))
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
            ProviderError::UnreadableCall { status, .. } => format!("unreadable {status}"),
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
    fn an_overlong_prompt_is_one_whatever_its_status_and_kind() {
        let llama =
            |message: &str| json!({"error": {"code": 500, "message": message, "type": "server_error"}});
        for (message, expected) in [
            ("Context size has been exceeded.", "too long ?/?"),
            ("decode() failed: Context size has been exceeded.", "too long ?/?"),
            ("Input prompt is too big compared to KV size. Please try increasing KV size.", "too long ?/?"),
            ("context shift is disabled", "too long ?/?"),
            (
                "input (9000 tokens) is too large to process. increase the physical batch size (current batch size: 512)",
                "too long 9000/512",
            ),
            ("The request took too long to process", "trouble 500"),
            ("The server had an error while processing your request", "trouble 500"),
            ("out of memory", "trouble 500"),
        ] {
            check(500, &llama(message), expected);
            check(200, &llama(message), expected);
        }
        let inner = json!({"code": 400, "message": "too big", "type": "exceed_context_size_error",
            "n_prompt_tokens": 9000, "n_ctx": 8192});
        let lemonade = json!({"error": {"message": "llama-server request failed", "type": "backend_error",
            "details": {"response": {"error": inner}}}});
        check(500, &lemonade, "too long 9000/8192");
        for (status, body, expected) in [
            (
                400,
                json!({"detail": "Prompt length 9000 is greater than max_seq_len 8192"}),
                "too long 9000/8192",
            ),
            (
                500,
                json!({"detail": "Generation failed: Prompt length 9000 exceeds max_kv_size 8192"}),
                "too long 9000/8192",
            ),
            (
                400,
                json!({"message": "The sum of prompt length (9000.0), query length (0) should not exceed \
                    max_num_tokens (8192)", "type": "BadRequestError", "code": 400}),
                "too long 9000/8192",
            ),
            (500, json!("context size exceeded"), "too long ?/?"),
        ] {
            check(status, &body, expected);
        }
    }

    #[test]
    fn a_call_that_the_server_could_not_read_is_the_models_fault() {
        let llama =
            |message: &str| json!({"error": {"code": 500, "message": message, "type": "server_error"}});
        let groq = |message: &str, code: &str| {
            json!({"error": {"message": message, "type": "invalid_request_error", "code": code,
                "failed_generation": "<function=read{"}})
        };
        for (status, body) in [
            (500, llama("Failed to parse input at pos 53: <tool_call>")),
            (500, llama("The model produced output that does not match the expected peg-native format")),
            (500, llama("Invalid diff: now finding less tool calls!")),
            (500, llama("Invalid diff: '{\"a' not found at start of '{'")),
            (
                500,
                json!({"error": "error parsing tool call: raw='{\"path\":', err=unexpected end of JSON input"}),
            ),
            (500, json!({"error": "XML syntax error on line 35: element <parameter> closed by </function>"})),
            (400, groq("Failed to call a function. Please adjust your prompt.", "tool_use_failed")),
            (400, groq("Tool call validation failed", "tool_use_failed")),
            (400, groq("Parsing failed.", "output_parse_failed")),
            (
                400,
                json!({"error": {"message": "Provider returned error", "code": 400, "metadata":
                {"raw": "{\"error\":{\"message\":\"Failed to call a function.\"}}"}}}),
            ),
            (400, json!({"message": "Unexpected token 12606 while expecting start token 200006"})),
        ] {
            check(status, &body, &format!("unreadable {status}"));
            // In a stream, the status is the one in the body, if any.
            let within = body["error"]["code"].as_u64().unwrap_or(200);
            check(200, &body, &format!("unreadable {within}"));
        }
        // The fault is in what was sent, and stays there.
        let history =
            "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] parse error";
        check(400, &json!({"error": {"message": history}}), "invalid 400");
    }

    #[test]
    fn a_failing_template_is_not_asked_again() {
        for message in [
            "Value is not callable: null at row 1, column 72: {{ a() }}",
            "Conversation roles must alternate user/assistant at row 4, column 9",
            "While executing CallExpression at line 85, column 40 in source: raise_exception('no')",
            "tools param requires --jinja flag",
        ] {
            let body = json!({"error": {"code": 500, "message": message, "type": "server_error"}});
            check(500, &body, "invalid 500");
            check(500, &json!({"error": message}), "invalid 500");
        }
        for message in ["parse error at line 1, column 20", "no free slot at row 7"] {
            check(500, &json!({"error": message}), "trouble 500");
        }
    }

    #[test]
    fn a_model_that_is_loaded_again_is_worth_another_try() {
        for (status, body) in [
            (400, json!({"error": "The model has crashed without additional information. (Exit code: 6)"})),
            (400, json!({"error": "Model has unloaded or crashed.."})),
            (
                400,
                json!({"error": {"message": "Model unloaded.", "type": "invalid_request_error", "param": "model"}}),
            ),
            (
                404,
                json!({"error": {"message": "No models loaded. Please load a model in the developer page.",
                    "type": "invalid_request_error", "code": "model_not_found"}}),
            ),
            (400, json!({"error": "Operation canceled."})),
            (400, json!({"error": {"message": "Failed to load model \"gpt-x\". Error: no resources."}})),
        ] {
            check(status, &body, &format!("trouble {status}"));
        }
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
