//! Secrets in files and outputs: files that hold them by name, and texts that do by shape.
//!
//! The tables are short on purpose: every entry has a prefix or a frame that nothing else has. A password
//! without such a shape is not found. Looking takes time in proportion to the text.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;

/// A secret that a text holds. The value itself is not kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundSecret {
    /// Its kind, in words with an article.
    pub kind: &'static str,
    /// The first line that holds a part of it, from 1.
    pub first_line: usize,
    /// The last such line.
    pub last_line: usize,
}

/// Most secrets that are told apart in one text; what follows is counted to the last one.
const MOST_FOUND: usize = 50;
/// The words for a private key.
const PRIVATE_KEY: &str = "a private key";

/// Names of files that hold secrets; `*` stands for any text.
const NAMES: &[(&str, &str)] = &[
    (".env", "an environment file"),
    (".env.*", "an environment file"),
    ("*.env", "an environment file"),
    (".netrc", "a file of passwords"),
    ("_netrc", "a file of passwords"),
    (".pgpass", "a file of passwords"),
    (".my.cnf", "a file of passwords"),
    (".htpasswd", "a file of passwords"),
    (".git-credentials", "a file of passwords"),
    (".npmrc", "a configuration with registry tokens"),
    (".yarnrc.yml", "a configuration with registry tokens"),
    (".pypirc", "a configuration with registry tokens"),
    (".dockercfg", "a configuration with registry tokens"),
    (".vault-token", "a token"),
    ("id_rsa", PRIVATE_KEY),
    ("id_dsa", PRIVATE_KEY),
    ("id_ecdsa", PRIVATE_KEY),
    ("id_ed25519", PRIVATE_KEY),
    ("*.pem", "a key or a certificate"),
    ("*.key", "a key"),
    ("*.p8", "a key"),
    ("*.p12", "a store of keys"),
    ("*.pfx", "a store of keys"),
    ("*.jks", "a store of keys"),
    ("*.keystore", "a store of keys"),
    ("*.kdbx", "a store of passwords"),
    ("*.ppk", PRIVATE_KEY),
    ("credentials.json", "credentials"),
    ("service-account*.json", "credentials"),
    ("service_account*.json", "credentials"),
    ("client_secret*.json", "credentials"),
    ("secrets.yml", "a file of secrets"),
    ("secrets.yaml", "a file of secrets"),
    ("secrets.json", "a file of secrets"),
    ("secrets.toml", "a file of secrets"),
    (".aws/credentials", "credentials"),
    (".docker/config.json", "credentials"),
    (".cargo/credentials", "credentials"),
    (".cargo/credentials.toml", "credentials"),
];

/// Parts of a name between its dots that mark a template or a fixture.
const TEMPLATES: &[&str] = &[
    "example", "examples", "sample", "template", "tmpl", "tpl", "dist", "default", "defaults", "schema",
    "test",
];

/// Returns the kind of secrets that a file of this path holds by its name.
pub fn secret_by_name(path: &str) -> Option<&'static str> {
    let path = path.to_ascii_lowercase();
    let name = path.rsplit('/').next().unwrap_or(&path);
    if name.split(['.', '-', '_']).any(|part| TEMPLATES.contains(&part)) {
        return None;
    }
    let is_named = |pattern: &str| match (pattern.contains('/'), pattern.split_once('*')) {
        (true, _) => path == pattern || path.strip_suffix(pattern).is_some_and(|rest| rest.ends_with('/')),
        (false, None) => name == pattern,
        (false, Some((begin, end))) => {
            name.len() > begin.len() + end.len() && name.starts_with(begin) && name.ends_with(end)
        }
    };
    NAMES.iter().find(|(pattern, _)| is_named(pattern)).map(|(_, kind)| *kind)
}

/// Returns the rule that allows a model to be shown the secrets of `place`, a file or a tool, as YAML.
pub fn secret_rule(place: &str) -> String {
    format!("`permissions: {{ secrets: {{ '{}': allow }} }}`", place.replace('\'', "''"))
}

/// Tokens by shape: what they are, and a regular expression of prefix, alphabet and length.
const SHAPES: &[(&str, &str)] = &[
    ("an Anthropic API key", r"sk-ant-[a-z]{3,6}\d\d-[A-Za-z0-9_-]{60,}"),
    ("an OpenRouter API key", r"sk-or-v1-[0-9a-f]{64}"),
    ("an OpenAI API key", r"sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{40,}"),
    ("an OpenAI API key", r"sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}"),
    ("an API key", r"sk-[A-Za-z0-9]{48}"),
    ("a Groq API key", r"gsk_[A-Za-z0-9]{52}"),
    ("an xAI API key", r"xai-[A-Za-z0-9]{80}"),
    ("a Perplexity API key", r"pplx-[A-Za-z0-9]{48}"),
    ("a Hugging Face token", r"hf_[A-Za-z]{34}"),
    ("an AWS access key", r"(?:AKIA|ASIA)[A-Z2-7]{16}"),
    ("an AWS secret key", r#"(?i:aws_secret_access_key)["']?\s{0,4}[:=]\s{0,4}["']?[A-Za-z0-9/+]{40}"#),
    ("an Azure storage key", r"AccountKey=[A-Za-z0-9+/]{86}=="),
    ("a Google API key", r"AIza[0-9A-Za-z_-]{35}"),
    ("a Google client secret", r"GOCSPX-[A-Za-z0-9_-]{28}"),
    ("a Google access token", r"ya29\.[A-Za-z0-9_-]{60,}"),
    ("a GitHub token", r"gh[pousr]_[A-Za-z0-9]{36,255}"),
    ("a GitHub token", r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    ("a GitLab token", r"gl(?:pat|dt|rt|cbt)-[A-Za-z0-9_-]{20,}"),
    ("a Slack token", r"xox[abeoprs]-(?:[0-9A-Za-z]{8,}-){1,4}[0-9A-Za-z]{10,}"),
    ("a Slack webhook", r"hooks\.slack\.com/services/T[A-Z0-9]{7,}/B[A-Z0-9]{7,}/[A-Za-z0-9]{20,}"),
    ("a Stripe key", r"(?:sk|rk)_live_[A-Za-z0-9]{24,}"),
    ("a SendGrid key", r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    ("a Shopify token", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    ("an npm token", r"npm_[A-Za-z0-9]{36}"),
    ("a PyPI token", r"pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,}"),
    ("a crates.io token", r"cio[A-Za-z0-9]{32}"),
    ("a RubyGems key", r"rubygems_[a-f0-9]{48}"),
    ("a Docker Hub token", r"dckr_pat_[A-Za-z0-9_-]{27,}"),
    ("a DigitalOcean token", r"do[opr]_v1_[0-9a-f]{64}"),
    ("a Databricks token", r"dapi[0-9a-f]{32}"),
    ("a Linear key", r"lin_api_[A-Za-z0-9]{40}"),
    ("a Vault token", r"hv[sb]\.[A-Za-z0-9_-]{24,}"),
    ("a Telegram bot token", r"\d{8,10}:AA[A-Za-z0-9_-]{33}"),
    ("an age key", r"AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}"),
];

/// The beginning of a private key's block; a text that only names it has no key in the lines below.
const KEY_BEGIN: &str = r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----";
/// Most lines between the beginning of a block and the key itself.
const MOST_HEADERS: usize = 8;
/// Fewest characters of a key in one line.
const LEAST_KEY: usize = 40;

/// Words that a value holds if it is only shown as an example, in lower case.
const FAKE: &[&str] = &[
    "example",
    "fake",
    "dummy",
    "placeholder",
    "sample",
    "redacted",
    "changeme",
    "yourtoken",
    "your_",
    "your-",
    "xxxx",
    "0000000",
    "1234567",
    "abcdefg",
];
/// Fewest different characters of a real value: in 20 random ones there are more.
const LEAST_VARIETY: usize = 8;

/// All shapes in one expression, and each alone.
static ANY_SHAPE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let all: Vec<&str> = SHAPES.iter().map(|(_, shape)| *shape).chain([KEY_BEGIN]).collect();
    Regex::new(&format!("(?:{})", all.join("|"))).ok()
});
static EACH_SHAPE: LazyLock<Vec<(&'static str, Regex)>> = LazyLock::new(|| {
    let compiled =
        |(kind, shape): &(&'static str, &str)| Some((*kind, Regex::new(&format!("^(?:{shape})$")).ok()?));
    SHAPES.iter().filter_map(compiled).collect()
});

/// A secret that was taken out of a text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Redaction {
    /// Its kind, in words with an article.
    pub kind: &'static str,
    /// The line where it began, from 1.
    pub line: usize,
}

/// Returns `text` with words in place of each secret, and what was taken out, in order. A text of JSON stays
/// JSON: what is replaced never reaches beyond its string. A key that is cut off by escapes is not known.
pub fn redact(text: &str) -> (Cow<'_, str>, Vec<Redaction>) {
    let mut out = String::new();
    let mut redactions = Vec::new();
    let mut lines = Lines { text, at: 0, line: 1 };
    let mut done = 0;
    for place in ANY_SHAPE.iter().flat_map(|regex| regex.find_iter(text)) {
        if place.start() < done {
            continue;
        }
        let Some((kind, start, end)) = redacted_span(text, place.start(), place.end()) else { continue };
        redactions.push(Redaction { kind, line: lines.line_of(start) });
        out.push_str(&text[done..start]);
        out.push_str(&format!("[redacted: {kind}]"));
        done = end;
    }
    if redactions.is_empty() {
        return (Cow::Borrowed(text), redactions);
    }
    out.push_str(&text[done..]);
    (Cow::Owned(out), redactions)
}

/// Returns the kind and the place of the secret whose shape is between `start` and `end`.
fn redacted_span(text: &str, start: usize, end: usize) -> Option<(&'static str, usize, usize)> {
    let found = &text[start..end];
    if found.starts_with("-----") {
        return has_key(&text[end..]).then(|| (PRIVATE_KEY, start, end_of_block(text, end)));
    }
    if !stands_alone(text, start, end) || is_fake(found) {
        return None;
    }
    let (kind, _) = EACH_SHAPE.iter().find(|(_, shape)| shape.is_match(found))?;
    // The name of a key is not a secret, and may be outside of the string that holds it.
    let is_around = |c: char| matches!(c, ':' | '"' | '\'' | ' ' | '\t');
    let value = match kind.contains("AWS secret") {
        true => found.rfind(|c: char| is_around(c) || c == '=').map_or(0, |at| at + 1),
        false => 0,
    };
    Some((kind, start + value, end))
}

/// Returns the place after the private key whose block began before `from`: after its last mark, or where the
/// string of JSON ends that holds it.
fn end_of_block(text: &str, from: usize) -> usize {
    const END: &str = "-----END ";
    const DASHES: &str = "-----";
    let mut quote = text.len();
    for (at, _) in text[from..].match_indices('"') {
        if !text[..from + at].ends_with('\\') {
            quote = from + at;
            break;
        }
    }
    let block = &text[from..quote];
    match block.find(END) {
        Some(end) => {
            let rest = &block[end + END.len()..];
            let last = rest.find(DASHES).map_or(rest.len(), |last| last + DASHES.len());
            from + end + END.len() + last
        }
        None => end_of_key(text, from).min(quote),
    }
}

/// Returns the secrets in `text`, by line.
pub fn find_secrets(text: &str) -> Vec<FoundSecret> {
    find_secrets_after(text, false)
}

/// Returns the secrets in `text`, which begins inside of a private key if `is_inside_key`.
pub fn find_secrets_after(text: &str, is_inside_key: bool) -> Vec<FoundSecret> {
    let mut found = BTreeSet::new();
    let mut lines = Lines { text, at: 0, line: 1 };
    // Matches before this place belong to a key that is known already.
    let mut known_to = 0;
    if is_inside_key {
        known_to = end_of_key(text, 0);
        let last_line = lines.line_of(known_to.saturating_sub(1));
        found.insert(FoundSecret { kind: PRIVATE_KEY, first_line: 1, last_line });
    }
    for place in ANY_SHAPE.iter().flat_map(|regex| regex.find_iter(text)) {
        if found.len() >= MOST_FOUND {
            break;
        }
        if place.start() < known_to {
            continue;
        }
        if place.as_str().starts_with("-----") {
            if has_key(&text[place.end()..]) {
                known_to = end_of_key(text, place.end());
                let first_line = lines.line_of(place.start());
                let last_line = lines.line_of(known_to.saturating_sub(1));
                found.insert(FoundSecret { kind: PRIVATE_KEY, first_line, last_line });
            }
        } else if stands_alone(text, place.start(), place.end())
            && !is_fake(place.as_str())
            && let Some((kind, _)) = EACH_SHAPE.iter().find(|(_, shape)| shape.is_match(place.as_str()))
        {
            let first_line = lines.line_of(place.start());
            found.insert(FoundSecret { kind, first_line, last_line: lines.line_of(place.end()) });
        }
    }
    found.into_iter().collect()
}

/// Follows a text line by line and knows whether a private key was begun and not ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenKey(bool);

impl OpenKey {
    /// Takes in the next line, or a part of one.
    pub fn pass(&mut self, line: &[u8]) {
        const DASHES: &[u8] = b"-----";
        // Nearly every line is done with here.
        if !line.windows(DASHES.len()).any(|part| part == DASHES) {
            return;
        }
        let line = String::from_utf8_lossy(line);
        if let Some(begin) = line.rfind("PRIVATE KEY") {
            self.0 = line[..begin]
                .rfind("-----BEGIN ")
                .is_some_and(|at| line[..begin].rfind("-----END ").is_none_or(|end| end < at));
        }
    }

    /// Checks whether what comes next is a part of a key.
    pub const fn is_open(self) -> bool {
        self.0
    }
}

/// The numbers of lines, for places that only grow.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl Lines<'_> {
    fn line_of(&mut self, place: usize) -> usize {
        let place = place.max(self.at).min(self.text.len());
        self.line += self.text.as_bytes()[self.at..place].iter().filter(|byte| **byte == b'\n').count();
        self.at = place;
        self.line
    }
}

/// Checks whether a key follows the line that begins one, after some headers.
fn has_key(rest: &str) -> bool {
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    // JSON and code write line ends as `\n`.
    rest.split('\n').take(MOST_HEADERS).flat_map(|line| line.split("\\n")).take(MOST_HEADERS * 2).any(
        |line| {
            let runs = line.split(|c: char| !is_key(c));
            runs.into_iter().any(|run| run.len() >= LEAST_KEY && !is_fake(run))
        },
    )
}

/// Returns the place after the key that `text` holds from `from` on: the end of the line with its last mark,
/// or of what looks like a key.
fn end_of_key(text: &str, from: usize) -> usize {
    let mut at = from;
    for (n, line) in text[from..].split_inclusive('\n').enumerate() {
        let end = at + line.len();
        if line.contains("-----END ") {
            return end;
        }
        let words = line.trim().trim_start_matches(['+', '-', '|', '>', ' ', '"', '\'']);
        let looks_like_key = words.is_empty()
            || words.contains(':')
            || !words.trim_end_matches(['"', '\'', ',', '\\']).contains(' ');
        if n > 0 && !looks_like_key {
            return at;
        }
        at = end;
    }
    text.len()
}

/// Checks whether what is between these places is no part of a longer word.
fn stands_alone(text: &str, start: usize, end: usize) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let before = &text[..start];
    (!before.ends_with(is_word) || ends_with_escape(before)) && !text[end..].starts_with(is_word)
}

/// Checks whether a text ends with an escape of JSON, or of JSON in JSON: the letter in `\n` is no part of a
/// word.
fn ends_with_escape(text: &str) -> bool {
    const OF_UNICODE: usize = "\\u000a".len();
    let letter = text.strip_suffix(['n', 't', 'r', 'b', 'f']).and_then(|rest| rest.strip_suffix('\\'));
    let unicode = || {
        let (rest, escape) = text.split_at_checked(text.len().checked_sub(OF_UNICODE)?)?;
        let digits = escape.strip_prefix("\\u")?;
        digits.bytes().all(|b| b.is_ascii_hexdigit()).then_some(rest)
    };
    letter.or_else(unicode).is_some()
}

/// Checks whether a value is obviously none: an example, a counting sequence, or a few characters over and
/// over.
fn is_fake(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let variety = lower.bytes().rev().take(LEAST_KEY).collect::<BTreeSet<_>>().len();
    variety < LEAST_VARIETY || FAKE.iter().any(|word| lower.contains(word))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// Returns a text that looks random and is the same each time: nothing that a scanner of this repository
    /// would stop at.
    fn random(alphabet: &str, length: usize) -> String {
        let alphabet: Vec<char> = alphabet.chars().collect();
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            alphabet[(state % alphabet.len() as u64) as usize]
        };
        (0..length).map(|_| next()).collect()
    }

    const BASE62: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    fn key_block(label: &str, n_lines: usize) -> String {
        let body = random(BASE64, 64 * n_lines);
        let lines: Vec<&str> = (0..n_lines).map(|n| &body[64 * n..64 * (n + 1)]).collect();
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
    }

    #[test]
    fn every_shape_is_found_and_its_line_named() {
        let word = |n| random(BASE62, n);
        let hex = |n| random("0123456789abcdef", n);
        let upper = |n| random("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", n);
        for (kind, value) in [
            ("an Anthropic API key", format!("sk-ant-api03-{}", word(93))),
            ("an OpenRouter API key", format!("sk-or-v1-{}", hex(64))),
            ("an OpenAI API key", format!("sk-proj-{}", word(120))),
            ("an OpenAI API key", format!("sk-{}T3BlbkFJ{}", word(20), word(20))),
            ("an API key", format!("sk-{}", word(48))),
            ("a Hugging Face token", format!("hf_{}", random("ABCDEFGHIJKLMNOPQRSTUVWXYZ", 34))),
            ("an AWS access key", format!("AKIA{}", upper(16))),
            ("an AWS secret key", format!("aws_secret_access_key = {}", random(BASE64, 40))),
            ("a Google API key", format!("AIza{}", word(35))),
            ("a GitHub token", format!("ghp_{}", word(36))),
            ("a GitHub token", format!("github_pat_{}_{}", word(22), word(59))),
            ("a GitLab token", format!("glpat-{}", word(20))),
            ("a Slack token", format!("xoxb-{}-{}", random("0123456789", 12), word(24))),
            ("a Stripe key", format!("sk_live_{}", word(24))),
            ("a SendGrid key", format!("SG.{}.{}", word(22), word(43))),
            ("an npm token", format!("npm_{}", word(36))),
            ("a crates.io token", format!("cio{}", word(32))),
            ("a DigitalOcean token", format!("dop_v1_{}", hex(64))),
            ("a Databricks token", format!("dapi{}", hex(32))),
            ("a Vault token", format!("hvs.{}", word(24))),
            ("a Telegram bot token", format!("123456789:AA{}", word(33))),
        ] {
            for text in
                [format!("one\nkey: \"{value}\"\n"), format!("\nx={value}"), format!("é\n({value}), or")]
            {
                // A Telegram token's number counts up, as that of an example does.
                let expected = vec![FoundSecret { kind, first_line: 2, last_line: 2 }];
                let expected = if is_fake(&value) { Vec::new() } else { expected };
                assert_eq!(find_secrets(&text), expected, "{text}");
            }
            if !is_fake(&value) {
                for escape in ["\\n", "\\t", "\\u000a", "\\\\n"] {
                    assert_eq!(
                        find_secrets(&format!("{{\"a\": \"b{escape}{value}\"}}")).len(),
                        1,
                        "{escape}{value}"
                    );
                }
            }
            // A part of a longer word is something else.
            assert_eq!(find_secrets(&format!("x{value}")), [], "{value}");
        }
    }

    #[test]
    fn a_private_key_is_found_with_all_its_lines() {
        let found = |first_line, last_line| vec![FoundSecret { kind: PRIVATE_KEY, first_line, last_line }];
        let pkcs = key_block("PRIVATE KEY", 3);
        let body = random(BASE64, 64);
        for (text, expected) in [
            (format!("first\n{pkcs}last\n"), found(2, 6)),
            (key_block("OPENSSH PRIVATE KEY", 5), found(1, 7)),
            (key_block("RSA PRIVATE KEY", 1), found(1, 3)),
            (key_block("PGP PRIVATE KEY BLOCK", 2), found(1, 4)),
            (
                format!("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES\n\n{body}\n"),
                found(1, 5),
            ),
            // As JSON and a difference write it, and cut off.
            (
                format!(
                    "{{\"key\": \"-----BEGIN PRIVATE KEY-----\\n{body}\\n-----END PRIVATE KEY-----\\n\"}}"
                ),
                found(1, 1),
            ),
            (
                format!("+-----BEGIN PRIVATE KEY-----\n+{body}\n+-----END PRIVATE KEY-----\n and more\n"),
                found(1, 3),
            ),
            (format!("-----BEGIN PRIVATE KEY-----\n{body}\nthis is no part of it\n"), found(1, 2)),
        ] {
            assert_eq!(find_secrets(&text), expected, "{text}");
        }
        let (_, inside) = pkcs.split_once('\n').unwrap();
        assert_eq!(find_secrets(inside), []);
        assert_eq!(find_secrets_after(inside, true), found(1, 4));
        let mut open = OpenKey::default();
        let is_open: Vec<bool> = pkcs
            .lines()
            .map(|line| {
                open.pass(line.as_bytes());
                open.is_open()
            })
            .collect();
        assert_eq!(is_open, [true, true, true, true, false]);
    }

    #[test]
    fn what_only_looks_like_a_secret_is_not_one() {
        let lock = format!("\"integrity\": \"sha512-{}==\"", random(BASE64, 86));
        let image = format!("data:image/png;base64,{}", random(BASE64, 20_000));
        let certificate = key_block("CERTIFICATE", 20);
        let sha = random("0123456789abcdef", 40);
        for text in [
            "OPENAI_API_KEY=sk-...",
            "OPENAI_API_KEY=sk-planted-in-the-environment",
            "AKIAIOSFODNN7EXAMPLE",
            "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            "ghp_0123456789abcdefghijklmnopqrstuvwxyz",
            "ghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "if text.contains(\"-----BEGIN PRIVATE KEY-----\") { return true; }\nlet next = 1;\n",
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE...\n-----END RSA PRIVATE KEY-----",
            "550e8400-e29b-41d4-a716-446655440000",
            "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA\n",
            "task-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            &lock,
            &image,
            &certificate,
            &sha,
        ] {
            let shown: String = text.chars().take(80).collect();
            assert_eq!(find_secrets(text), [], "{shown}");
        }
    }

    #[test]
    fn files_are_known_by_their_names() {
        for (path, is_secret) in [
            (".env", true),
            ("a/b/.env", true),
            (".env.local", true),
            ("prod.env", true),
            ("certs/server.PEM", true),
            (".ssh/id_rsa", true),
            (".npmrc", true),
            ("home/.aws/credentials", true),
            ("service-account-prod.json", true),
            (".env.example", false),
            (".env.sample", false),
            (".env.test", false),
            ("example.env", false),
            ("id_rsa.pub", false),
            ("credentials", false),
            ("environment.ts", false),
            ("monkey", false),
            ("src/secrets.rs", false),
            ("key", false),
        ] {
            assert_eq!(secret_by_name(path).is_some(), is_secret, "{path}");
        }
    }

    #[test]
    fn a_hostile_text_takes_no_longer_than_its_length() {
        // Each would take hours if the time grew with the square of the length.
        let begin = "-----BEGIN PRIVATE KEY-----\n";
        for text in [
            "ghp_".repeat(500_000),
            begin.repeat(70_000),
            "sk-ant-api03-".repeat(100_000),
            "A".repeat(2_000_000),
        ] {
            assert!(find_secrets(&text).len() <= MOST_FOUND);
        }
    }

    #[test]
    fn a_redacted_text_holds_no_secret_and_stays_json() {
        let token = format!("ghp_{}", random(BASE62, 36));
        let aws = random(BASE64, 40);
        let key = key_block("RSA PRIVATE KEY", 3);
        for (text, expected, kinds) in [
            ("nothing".to_owned(), "nothing".to_owned(), vec![]),
            (
                format!("a\nexport T={token};"),
                "a\nexport T=[redacted: a GitHub token];".to_owned(),
                vec![("a GitHub token", 2)],
            ),
            (
                format!("{{\"aws_secret_access_key\": \"{aws}\"}}"),
                "{\"aws_secret_access_key\": \"[redacted: an AWS secret key]\"}".to_owned(),
                vec![("an AWS secret key", 1)],
            ),
            (
                format!("{key}next\n"),
                "[redacted: a private key]\nnext\n".to_owned(),
                vec![("a private key", 1)],
            ),
            (
                "ghp_EXAMPLEexampleexampleexampleexample12".to_owned(),
                "ghp_EXAMPLEexampleexampleexampleexample12".to_owned(),
                vec![],
            ),
        ] {
            let (redacted, found) = redact(&text);
            let found: Vec<_> = found.iter().map(|one| (one.kind, one.line)).collect();
            assert_eq!((redacted.into_owned(), found), (expected, kinds));
        }
        let json = serde_json::json!({"a": format!("see {key} and {token}"), "b": [token, "x"]}).to_string();
        let (redacted, found) = redact(&json);
        let value: serde_json::Value = serde_json::from_str(&redacted).unwrap();
        assert_eq!(value["a"], "see [redacted: a private key]\n and [redacted: a GitHub token]");
        assert_eq!((found.len(), find_secrets(&redacted)), (3, vec![]));
    }
}
