//! The content of a page as text: HTML without its markup, other text as it is, in any encoding.

use std::borrow::Cow;
use std::sync::LazyLock;

use encoding_rs::{Encoding, UTF_8};
use regex::Regex;
use reqwest::Url;

/// The columns of running text.
const WIDTH: usize = 120;
/// The deepest nesting of elements that is laid out: anything deeper was written to break its readers.
const DEEPEST: usize = 1_000;

/// Returns the text of `bytes` with the content type `kind`, in lower case; `None` if it is not text.
pub(super) fn text_of(bytes: &[u8], kind: &str, base: &Url) -> Option<String> {
    let (essence, parameters) = kind.split_once(';').unwrap_or((kind, ""));
    let essence = essence.trim();
    let is_html = matches!(essence, "text/html" | "application/xhtml+xml");
    let is_text = essence.starts_with("text/")
        || essence.ends_with("+json")
        || essence.ends_with("+xml")
        || matches!(
            essence,
            "" | "application/json"
                | "application/xml"
                | "application/javascript"
                | "application/x-ndjson"
                | "application/yaml"
                | "application/toml"
        );
    if !is_html && !is_text || bytes.contains(&0) && !has_wide_characters(bytes) {
        return None;
    }
    let text = decode(bytes, parameters, is_html);
    if is_html || essence.is_empty() && looks_like_html(&text) {
        Some(from_html(&text, base))
    } else {
        Some(text)
    }
}

/// Checks whether it begins like text with two bytes per character.
fn has_wide_characters(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff])
}

fn decode(bytes: &[u8], parameters: &str, is_html: bool) -> String {
    let label = |text: &str| {
        let (_, rest) = text.split_once("charset=")?;
        let label = rest.trim_start_matches(['"', '\'']);
        let end = label.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.')));
        Encoding::for_label(&label.as_bytes()[..end.unwrap_or(label.len())])
    };
    let head = || String::from_utf8_lossy(&bytes[..bytes.len().min(1_024)]).to_ascii_lowercase();
    let encoding =
        label(parameters).or_else(|| is_html.then(head).as_deref().and_then(label)).unwrap_or(UTF_8);
    // A byte order mark says more than anybody.
    encoding.decode(bytes).0.into_owned()
}

fn looks_like_html(text: &str) -> bool {
    let start: String = text.trim_start().chars().take(15).collect::<String>().to_ascii_lowercase();
    start.starts_with("<!doctype html") || start.starts_with("<html")
}

fn from_html(html: &str, base: &Url) -> String {
    let laid_out = || {
        let layout = html2text::config::plain().no_table_borders().allow_width_overflow();
        layout.string_from_read(html.as_bytes(), WIDTH).ok()
    };
    match if depth(html) <= DEEPEST { laid_out() } else { None } {
        Some(text) => {
            let lines: Vec<String> =
                text.lines().map(|line| with_whole_link(line.trim_end(), base)).collect();
            lines.join("\n")
        }
        None => without_tags(html),
    }
}

/// Estimates the deepest nesting of elements, rather too high than too low.
fn depth(html: &str) -> usize {
    // What has no end, and what ends by itself where the next of its kind begins.
    const NOT_NESTED: [&str; 22] = [
        "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr",
        "p", "li", "td", "th", "tr", "dt", "dd", "option", "tbody",
    ];
    let (mut depth, mut deepest) = (0_usize, 0);
    for (at, _) in html.match_indices('<') {
        let rest = &html[at + 1..];
        let (is_end, rest) = rest.strip_prefix('/').map_or((false, rest), |rest| (true, rest));
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let name = rest[..end.min(12)].to_ascii_lowercase();
        if name.is_empty() || NOT_NESTED.contains(&name.as_str()) {
            continue;
        }
        depth = if is_end { depth.saturating_sub(1) } else { depth + 1 };
        deepest = deepest.max(depth);
    }
    deepest
}

/// Returns the words of a page that cannot be laid out.
fn without_tags(html: &str) -> String {
    static TAGS: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?is)<script\b.*?</script\s*>|<style\b.*?</style\s*>|<!--.*?-->|<[^>]*>").ok()
    });
    let text = TAGS.as_ref().map_or(Cow::Borrowed(html), |tags| tags.replace_all(html, " "));
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Completes the address in a line that lists a link, `[1]: PLACE`.
fn with_whole_link(line: &str, base: &Url) -> String {
    let listed = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    match listed.filter(|(number, _)| number.bytes().all(|byte| byte.is_ascii_digit())) {
        Some((number, place)) => match base.join(place) {
            Ok(whole) => format!("[{number}]: {whole}"),
            Err(_) => line.to_owned(),
        },
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn every_kind_of_text_is_read_in_its_characters() {
        let base = Url::parse("http://a.test/b/").unwrap();
        for (kind, bytes, expected) in [
            ("text/plain", "é".as_bytes(), Some("é")),
            ("text/plain; charset=\"iso-8859-1\"", b"\xe9", Some("é")),
            ("text/plain", b"\xff\xfe\xe9\0", Some("é")),
            ("text/html", b"<meta charset='windows-1252'><p>\x80", Some("€")),
            ("application/ld+json", b"{}", Some("{}")),
            ("", b"<!DOCTYPE html><p>a", Some("a")),
            ("", b"a <b>", Some("a <b>")),
            (
                "text/html",
                b"<h1>a</h1><style>x</style><ul><li>b<li><a href=c>d</a></ul>",
                Some("# a\n* b\n* [d][1]\n\n[1]: http://a.test/b/c"),
            ),
            ("text/html", b"<table><tr><td>a<td>b<tr><td>c<td>d</table>", Some("a b\nc d")),
            ("text/plain", b"a\0b", None),
            ("application/pdf", b"%PDF", None),
        ] {
            assert_eq!(text_of(bytes, kind, &base).as_deref().map(str::trim), expected, "{kind}");
        }
        let deep = "<div>".repeat(5_000) + "<script>if (a < b) x()</script>deep <b>down</b>";
        assert_eq!(text_of(deep.as_bytes(), "text/html", &base).as_deref(), Some("deep down"));
    }
}
