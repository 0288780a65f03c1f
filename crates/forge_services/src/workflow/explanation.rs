//! A fault in plain words: what is wrong and what to write instead.

use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{DefaultMessageFormatter, Error, MessageFormatter};

use super::Position;
use super::example::example;
use super::foreign_keys::{instead_of, meant_instead, what_is_wrong};
use super::nearest::nearest;
use super::yaml::{KeyPath, Node, Step};

/// A fault, and the way to fix it.
#[derive(Debug)]
pub(super) struct Explanation {
    /// The fault.
    pub(super) what: String,
    /// The way to fix it.
    pub(super) hint: Option<String>,
}

impl Explanation {
    /// Explains `error` at `path`, where `found` is. `first` is the first position of a repeated key.
    pub(super) fn of(error: &Error, path: &KeyPath, found: Option<&Node>, first: Option<Position>) -> Self {
        let expected = |expected: &str| Self {
            what: format!("expected {expected}, found {}", describe(found)),
            hint: written_out(expected, found).or_else(|| better_value(path)),
        };
        match error {
            Error::SerdeUnknownField { .. } if instead_of(path).is_some() => {
                Self { what: what_is_wrong(path), hint: instead_of(path) }
            }
            Error::SerdeUnknownField { field, expected, .. } => {
                let what = format!("field `{field}`");
                let meant = meant_instead(path).or_else(|| id_of_agent(path, field, found));
                match meant.filter(|_| nearest(field, expected.iter().copied()).is_none()) {
                    Some(hint) => Self { what: format!("unknown {what}"), hint: Some(hint) },
                    None => unknown(&what, field, expected),
                }
            }
            Error::SerdeUnknownVariant { variant, .. } if is_removed_selection(path, variant) => Self {
                what: format!("`selection: {variant}` was removed"),
                hint: Some(
                    "remove the line: each strategy continues from what the ones before it reached"
                        .to_owned(),
                ),
            },
            Error::SerdeUnknownVariant { variant, .. } if is_removed_kind(path, variant) => Self {
                what: format!("`kind: {variant}` was removed"),
                hint: Some(
                    "write `kind: gemini` for Gemini and Vertex AI, `kind: openai` with the provider's \
                     OpenAI-compatible `base_url` for Cohere, Bedrock and others"
                        .to_owned(),
                ),
            },
            Error::SerdeUnknownVariant { variant, expected, .. } => {
                unknown(&format!("{} `{variant}`", kind_of_value(path)), variant, expected)
            }
            Error::SerdeInvalidType { expected: words, .. }
            | Error::SerdeInvalidValue { expected: words, .. }
            | Error::SerdeInvalidLength { expected: words, .. } => expected(plain_words(words)),
            Error::InvalidScalar { ty, .. } => expected(whole_number(found).unwrap_or(plain_words(ty))),
            Error::InvalidBooleanStrict { .. } => expected(plain_words("boolean")),
            Error::Unexpected { expected: words, .. } => expected(plain_words(words)),
            Error::NullIntoString { .. } => expected("a string"),
            Error::SerdeMissingField { field, .. } => {
                let missing = KeyPath([path.0.as_slice(), &[Step::Key(field.to_string())]].concat());
                Self { what: format!("`{field}` is missing"), hint: example(&missing) }
            }
            Error::UnresolvedProperty { name, .. } => Self::of_unset(name, None),
            Error::PropertyRequiredButUnset { name, message, .. }
            | Error::PropertyRequiredButEmpty { name, message, .. } => Self::of_unset(name, Some(message)),
            // The reader of days tells which of their digits it lacks.
            Error::Message { .. } if path.last_key() == Some("as_of") => expected("a day"),
            Error::Message { msg, .. } | Error::ExternalMessage { msg, .. } if msg.contains(TOO_DEEP) => {
                Self::of_depth()
            }
            Error::Message { msg, .. } => {
                let rename = |first: Position| format!("the first one is on line {}: rename one", first.line);
                Self { what: msg.clone(), hint: better_value(path).or_else(|| first.map(rename)) }
            }
            error => Self::of_yaml(error, path, first),
        }
    }

    /// Explains that a variable is not set, in the author's words if there are any.
    pub(super) fn of_unset(name: &str, why: Option<&str>) -> Self {
        let hint = match why {
            Some(why) => Some(why.to_owned()).filter(|why| !why.is_empty()),
            None => {
                Some(format!("export it, or write `${{{name}:-DEFAULT}}`; `$${{{name}}}` is the text itself"))
            }
        };
        Self { what: format!("the variable `{name}` is not set"), hint }
    }

    /// Explains that the key of `path` is in its mapping already.
    pub(super) fn of_second(path: &KeyPath, first: Option<Position>) -> Self {
        Self {
            what: format!("duplicate key `{}`", path.last_key().unwrap_or_default()),
            hint: first.map(|first| format!("the first one is on line {}: keep only one", first.line)),
        }
    }

    /// Explains that lists and mappings are nested too deeply.
    fn of_depth() -> Self {
        Self {
            what: "lists and mappings are nested too deeply here".to_owned(),
            hint: Some("close one of the brackets before it".to_owned()),
        }
    }

    /// Explains what is no matter of a value but of the YAML itself.
    fn of_yaml(error: &Error, path: &KeyPath, first: Option<Position>) -> Self {
        match error {
            Error::DuplicateMappingKey { .. } => Self::of_second(path, first),
            Error::MultipleDocuments { .. } => Self {
                what: "a second YAML document starts here, but a workflow is a single one".to_owned(),
                hint: Some("remove the line `---`".to_owned()),
            },
            Error::UnknownAnchor { .. } => Self {
                what: "this alias names an anchor that does not exist".to_owned(),
                hint: Some("put quotes around a text that begins with `*`".to_owned()),
            },
            Error::RecursiveReferencesRequireWeakTypes { .. } => Self {
                what: "this alias is inside the value that it names".to_owned(),
                hint: Some("write the value out here".to_owned()),
            },
            Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => Self::of_depth(),
            Error::Budget { .. }
            | Error::AliasReplayLimitExceeded { .. }
            | Error::AliasExpansionLimitExceeded { .. }
            | Error::AliasReplayStackDepthExceeded { .. } => Self {
                what: "too many values, with those that aliases repeat".to_owned(),
                hint: Some("an alias such as `*name` stands for all that it names: use fewer".to_owned()),
            },
            Error::MergeValueNotMapOrSeqOfMaps { .. } => Self {
                what: "`<<` needs a mapping, or a list of mappings".to_owned(),
                hint: Some("put the anchor that it names at a mapping".to_owned()),
            },
            Error::ExternalMessage { msg, .. } => {
                Self { hint: way_out_of_yaml(msg).map(str::to_owned), what: msg.clone() }
            }
            error => Self { what: DefaultMessageFormatter.format_message(error).into_owned(), hint: None },
        }
    }
}

/// The parser's words for lists in lists without end.
const TOO_DEEP: &str = "recursion limit exceeded";

/// Returns what to do if a text is not YAML, by the parser's message for it.
fn way_out_of_yaml(message: &str) -> Option<&'static str> {
    const KNOWN: [(&str, &str); 8] = [
        ("tab", "indent with spaces, not with tabs"),
        (
            "quoted scalar, found unknown escape",
            "put single quotes around a text with a backslash, or write two",
        ),
        ("quoted scalar", "close the quotes, and indent each line of the text deeper than its key"),
        ("mapping values are not allowed", "put quotes around a text with a colon and a space in it"),
        ("unexpected character: `\\", "take that character out, or put it into double quotes as an escape"),
        ("unexpected character", "put quotes around a text that begins with such a character"),
        ("did not find expected key", "give all keys of one mapping the same indentation"),
        ("did not find expected '-'", "give all items of one list the same indentation"),
    ];
    KNOWN.iter().find(|(words, _)| message.contains(words)).map(|(_, way_out)| *way_out)
}

fn unknown(what: &str, word: &str, known: &[&'static str]) -> Explanation {
    let hint = match (nearest(word, known.iter().copied()), known) {
        (Some(meant), _) => format!("did you mean `{meant}`?"),
        (None, []) => "nothing can be set here".to_owned(),
        (None, [only]) => format!("the only valid one is `{only}`"),
        (None, known) => format!("use one of {}", known.join(", ")),
    };
    Explanation { what: format!("unknown {what}"), hint: Some(hint) }
}

/// Checks whether `word` is a kind of provider that earlier versions had.
fn is_removed_kind(path: &KeyPath, word: &str) -> bool {
    path.last_key() == Some("kind") && word == "genai"
}

/// Checks whether `word` is a way to choose among strategies that earlier versions had.
fn is_removed_selection(path: &KeyPath, word: &str) -> bool {
    word == "adaptive" && path.last_key() == Some("selection")
}

/// Returns the kind of the value at `path`.
fn kind_of_value(path: &KeyPath) -> &str {
    if path.0.iter().any(|step| matches!(step, Step::Key(key) if key == "permissions")) {
        return "permission";
    }
    match path.last_key() {
        Some("strategies") => "strategy",
        Some("on") => "moment",
        Some(key) => key,
        None => "value",
    }
}

/// Rewrites the parser's words for what it expects in plain words.
fn plain_words(expected: &str) -> &str {
    match expected {
        "mapping start" => "a mapping",
        "sequence start" => "a list",
        "string scalar" | "a string" => "a string",
        "boolean" | "a boolean" => "true or false",
        "floating point" => "a number",
        "a nonzero usize" | "a nonzero u64" | "a nonzero u32" | "a nonzero u16" => "a whole number from 1",
        "u64" | "usize" | "u32" | "u16" => "a whole number that is not negative",
        "i64" | "i32" => "a whole number",
        words => words,
    }
}

/// Returns the digits for a number that is written as the command line allows it, such as `8k`.
fn written_out(expected: &str, found: Option<&Node>) -> Option<String> {
    let text = found?.text().filter(|_| expected.starts_with("a whole number"))?.to_ascii_lowercase();
    let (digits, factor) = match text.strip_suffix('k') {
        Some(thousands) => (thousands, 1_000),
        None => (text.strip_suffix('m')?, 1_000_000),
    };
    let number = digits.parse::<u64>().ok()?.checked_mul(factor)?;
    Some(format!("write `{number}`"))
}

/// Returns what to write if `field` is the id of an agent in a list, which is a key of maps only: it has no
/// value, or one with keys.
fn id_of_agent(path: &KeyPath, field: &str, found: Option<&Node>) -> Option<String> {
    found.and_then(Node::text).is_none_or(|text| matches!(text, "" | "~")).then_some(())?;
    match path.0.as_slice() {
        [Step::Key(agents), Step::Item(_), Step::Key(_)] if agents == "agents" => {
            Some(format!("if it is the agent's id, write `- id: {field}` and the other keys below `id`"))
        }
        _ => None,
    }
}

/// Returns what is expected in place of digits that are not an acceptable number.
fn whole_number(found: Option<&Node>) -> Option<&'static str> {
    let digits =
        found?.text().filter(|text| text.len() > 1 && text.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some(if digits.starts_with('0') {
        "a whole number without a `0` before it"
    } else {
        "a smaller whole number"
    })
}

fn describe(found: Option<&Node>) -> String {
    match found.map(|node| (node.text(), node.entries().is_empty())) {
        Some((Some("" | "~"), _)) => "nothing".to_owned(),
        Some((Some(text), _)) => format!("`{text}`"),
        Some((None, true)) => "a list".to_owned(),
        Some((None, false)) => "a mapping".to_owned(),
        None => "something else".to_owned(),
    }
}

/// Returns an example of a value at `path`. The fault of an id is that it is taken or differs, which no
/// example fixes.
fn better_value(path: &KeyPath) -> Option<String> {
    if path.last_key() == Some("id") { None } else { example(path) }
}
