//! Secrets taken out of what is written, and the report on them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use forge_domain::{Body, Content, Message, Redaction, quantity, redact, secret_by_name};
use serde::Serialize;

/// The most places of a kind that are listed.
const MOST_PLACES: usize = 5;

/// A secret that was taken out, and its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Redacted {
    pub(crate) kind: &'static str,
    /// The message, such as `m12`, or the line of the file.
    pub(crate) place: String,
}

/// Returns the kind of secrets that the file which a path leads to holds by its name: a folder of somebody
/// else's may have links of any name.
pub(crate) fn secret_behind(path: &Path) -> Option<&'static str> {
    secret_by_name(&std::fs::canonicalize(path).ok()?.to_string_lossy())
}

/// Returns the content of a file without its secrets. Bytes that are not text stay.
pub(crate) fn redact_bytes(bytes: Cow<'_, [u8]>) -> (Cow<'_, [u8]>, Vec<Redacted>) {
    let mut clean = Vec::new();
    let mut redacted = Vec::new();
    let mut lines_before = 0;
    let mut is_text = true;
    for chunk in bytes.utf8_chunks() {
        let (text, found) = redact(chunk.valid());
        redacted.extend(found.into_iter().map(|Redaction { kind, line }| Redacted {
            kind,
            place: format!("line {}", lines_before + line),
        }));
        is_text = is_text && chunk.invalid().is_empty();
        // A file that is all text and has no secret is not copied.
        if !is_text || !redacted.is_empty() {
            clean.extend_from_slice(text.as_bytes());
            clean.extend_from_slice(chunk.invalid());
            lines_before += chunk.valid().matches('\n').count();
        }
    }
    if redacted.is_empty() { (bytes, redacted) } else { (Cow::Owned(clean), redacted) }
}

/// Takes the secrets out of messages: out of their texts and the arguments of their calls.
pub(crate) fn redact_messages(messages: &mut [Message]) -> Vec<Redacted> {
    let mut all = Vec::new();
    for (number, message) in messages.iter_mut().enumerate() {
        let mut found = Vec::new();
        match &mut message.body {
            Body::System(content) | Body::User(content) => redact_content(content, &mut found),
            Body::Tool(result) => redact_content(&mut result.content, &mut found),
            Body::Assistant { content, calls } => {
                content.iter_mut().for_each(|content| redact_content(content, &mut found));
                calls.iter_mut().for_each(|call| redact_text(&mut call.arguments, &mut found));
            }
        }
        all.extend(found.into_iter().map(|one| Redacted { kind: one.kind, place: format!("m{number}") }));
    }
    all
}

fn redact_content(content: &mut Content, found: &mut Vec<Redaction>) {
    match content {
        Content::Text(text) => redact_text(text, found),
        Content::Parts(parts) => {
            for part in parts {
                if let forge_domain::Part::Text(text) = part {
                    redact_text(text, found);
                }
            }
        }
    }
}

fn redact_text(text: &mut String, found: &mut Vec<Redaction>) {
    let (clean, redactions) = redact(text);
    if let Cow::Owned(clean) = clean {
        *text = clean;
    }
    found.extend(redactions);
}

/// Returns a line about what was taken out.
pub(crate) fn redaction_text(redacted: &[Redacted]) -> String {
    let mut kinds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for Redacted { kind, place } in redacted {
        let places = kinds.entry(kind).or_default();
        if !places.contains(&place.as_str()) {
            places.push(place);
        }
    }
    if kinds.is_empty() {
        return "redacted: no secret of a known shape".to_owned();
    }
    let of_kind = |(kind, places): (&&str, &Vec<&str>)| {
        let more = if places.len() > MOST_PLACES { ", …" } else { "" };
        let first: Vec<&str> = places.iter().take(MOST_PLACES).copied().collect();
        format!("{kind} ({}{more})", first.join(", "))
    };
    let told: Vec<String> = kinds.iter().map(of_kind).collect();
    format!("redacted: {}: {}", quantity(redacted.len(), "secret"), told.join("; "))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn bytes_that_are_not_text_hide_no_secret() {
        let key = format!("AKIA{}", "QWERTZUIOPASDFGH");
        for (text, is_found) in [(key.as_str(), true), ("nothing", false)] {
            let bytes = [b"a \xe2\x86\nb \xff ", text.as_bytes(), b"\n"].concat();
            let (clean, redacted) = redact_bytes(Cow::Borrowed(bytes.as_slice()));
            let expected = if is_found { "[redacted: an AWS access key]" } else { text };
            assert_eq!(clean.into_owned(), [b"a \xe2\x86\nb \xff ", expected.as_bytes(), b"\n"].concat());
            let places: Vec<&str> = redacted.iter().map(|found| found.place.as_str()).collect();
            assert_eq!(places, if is_found { vec!["line 2"] } else { vec![] });
        }
    }

    #[test]
    fn what_was_taken_out_is_reported_by_kind_and_place() {
        let one = |kind, place: &str| Redacted { kind, place: place.to_owned() };
        let redacted =
            [one("a key", "line 1"), one("a token", "m2"), one("a key", "line 1"), one("a key", "line 3")];
        assert_eq!(redaction_text(&redacted), "redacted: 4 secrets: a key (line 1, line 3); a token (m2)");
        assert_eq!(redaction_text(&[]), "redacted: no secret of a known shape");
    }
}
