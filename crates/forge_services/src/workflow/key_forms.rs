//! The forms of keys, which errors do not repeat.

use std::sync::LazyLock;

use regex::Regex;

/// Texts that are keys by their form, whatever their issuer.
static KEY: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let forms = [
        // OpenAI, Anthropic, OpenRouter and many that follow them
        r"\bsk-[A-Za-z0-9_-]{16,}",
        // Google
        r"\bAIza[A-Za-z0-9_-]{30,}",
        // GitHub
        r"\bgh[pousr]_[A-Za-z0-9]{30,}",
        r"\bgithub_pat_[A-Za-z0-9_]{20,}",
        // Slack, AWS, Hugging Face, Groq, xAI, Replicate
        r"\bxox[abeprs]-[A-Za-z0-9-]{10,}",
        r"\bAKIA[A-Z0-9]{16}\b",
        r"\b(hf|gsk|r8)_[A-Za-z0-9]{20,}",
        r"\bxai-[A-Za-z0-9]{20,}",
        // JSON web tokens, what follows `Bearer`, private keys
        r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
        r"(?i)\bbearer\s+[A-Za-z0-9._~+/-]{16,}",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
        // the password of an address
        r"://[^/\s:@]+:[^/\s@]+@",
        // the value after the `?` of one
        r"(?i)[?&](api[_-]?key|key|(access[_-]?|auth[_-]?)?token|secret|password|sig|signature)=[^&\s'\x22]{8,}",
    ];
    Regex::new(&forms.join("|")).ok()
});

/// Returns `text` without what looks like a key.
pub(super) fn hide_keys(text: &str) -> String {
    match &*KEY {
        Some(key) => key.replace_all(text, "(hidden)").into_owned(),
        None => text.to_owned(),
    }
}

/// Checks whether `text` can be the name of an environment variable.
pub(super) fn is_variable_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns the byte at which the first text that looks like a key starts.
pub(super) fn find_key(text: &str) -> Option<usize> {
    Some(KEY.as_ref()?.find(text)?.start())
}
