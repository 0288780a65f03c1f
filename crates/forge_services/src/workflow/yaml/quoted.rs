//! Variables in quoted values: the parser replaces those in unquoted ones alone.

use std::borrow::Cow;

use super::{KeyPath, Outline, Position, Source, Step, Variables};

/// Most bytes that values of variables may add to a text: a short text may name a long one many times.
const MOST_ADDED: usize = 4 << 20;
/// Deepest default in a default that is read.
const MOST_DEFAULTS: usize = 8;

/// A variable in a quoted value that has no value.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Unset {
    pub(in super::super) path: KeyPath,
    pub(in super::super) position: Position,
    pub(in super::super) name: String,
    /// The text after `?`: the author's words for it.
    pub(in super::super) why: Option<String>,
}

/// Returns the text with the values of the variables in quoted values, each line at its old number, and the
/// first one of each value that is not set. Values of `x-` keys are read where they are used, or not at
/// all, so that nothing is missing there.
pub(in super::super) fn with_quoted_variables(source: &Source) -> (Cow<'_, str>, Vec<Unset>) {
    let mut text = Cow::Borrowed(source.text.as_str());
    let mut unset = Vec::new();
    let Some(variables) = &source.variables else { return (text, unset) };
    if !source.text.contains("${") {
        return (text, unset);
    }
    let outline = Outline::of(&source.text);
    let mut added = 0;
    for (path, node) in outline.scalars().into_iter().rev() {
        let value = node.text().unwrap_or_default();
        if !node.is_quoted || !value.contains("${") || takes_variables(&path) {
            continue;
        }
        // An anchor may stand before it.
        let written = source.text.get(node.range.clone()).unwrap_or_default();
        let anchor =
            if written.starts_with('&') { written.find(char::is_whitespace).unwrap_or(0) } else { 0 };
        let at = anchor + written[anchor..].find(['"', '\'']).unwrap_or_default();
        match expanded(value, variables, 0) {
            Ok(expanded) if added + expanded.len() <= MOST_ADDED => {
                added += expanded.len();
                // JSON's strings are YAML's, too.
                let mut quoted = serde_json::Value::from(expanded).to_string();
                quoted.extend(written.chars().filter(|c| *c == '\n'));
                text.to_mut().replace_range(node.range.start + at..node.range.end, &quoted);
            }
            Ok(_) => {}
            Err((name, why)) => {
                let is_extra = |step: &Step| matches!(step, Step::Key(key) if key.starts_with("x-"));
                if !path.0.iter().any(is_extra) {
                    unset.push(Unset { path, position: node.start(), name, why });
                }
            }
        }
    }
    unset.reverse();
    (text, unset)
}

/// Returns the variables whose values the text of `source` may take, each with where it stands. The parser
/// and [`expanded`] end an expression at different braces, so the end is not looked for.
pub(in super::super) fn named_variables(source: &Source) -> Vec<(String, KeyPath, Position)> {
    let Some(variables) = &source.variables else { return Vec::new() };
    let outline = Outline::of(&source.text);
    let scalars = outline.scalars().into_iter();
    let values = scalars.filter(|(path, node)| !node.is_block && !takes_variables(path));
    let named = values.flat_map(|(path, node)| {
        let text = node.text().unwrap_or_default();
        let places = text.match_indices("${").map(|(at, _)| at).filter(|at| !is_escaped(&text[..*at]));
        let names = places.map(|at| name_at_start(&text[at + 2..]));
        names.map(|name| (name.to_owned(), path.clone(), node.start())).collect::<Vec<_>>()
    });
    named.filter(|(name, ..)| variables.has_own_value(name)).collect()
}

/// Checks whether a `$` after `before` is escaped: every two of them stand for one.
fn is_escaped(before: &str) -> bool {
    let n_before = before.len() - before.trim_end_matches('$').len();
    n_before % 2 == 1
}

/// Returns the name with which `text` begins.
fn name_at_start(text: &str) -> &str {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    &text[..text.find(|c| !is_name(c)).unwrap_or(text.len())]
}

/// Checks whether the value at `path` is filled in later, when a server starts: it may name secrets, and
/// what is not set concerns that server alone.
fn takes_variables(path: &KeyPath) -> bool {
    matches!(path.0.as_slice(), [Step::Key(servers), _, Step::Key(key), ..]
        if servers == "mcp_servers" && matches!(key.as_str(), "env" | "headers"))
}

/// Returns `text` with the values of its variables, as in compose files. What is no variable stays as it is.
///
/// # Errors
/// The name of one without a value, and the author's words for that.
fn expanded(text: &str, variables: &Variables, depth: usize) -> Result<String, (String, Option<String>)> {
    let mut done = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            done.push_str(before);
            done.push_str("${");
            rest = &from[2..];
            continue;
        }
        done.push_str(before);
        let Some((name, operation, end)) = expression(from).filter(|_| depth < MOST_DEFAULTS) else {
            done.push_str("${");
            rest = &from[2..];
            continue;
        };
        let value = variables.get(name);
        let filled = value.filter(|value| !value.is_empty());
        match operation.split_at(operation.len().min(1 + usize::from(operation.starts_with(':')))) {
            ("", _) => done.push_str(value.ok_or_else(|| (name.to_owned(), None))?),
            ("-", default) => match value {
                Some(value) => done.push_str(value),
                None => done.push_str(&expanded(default, variables, depth + 1)?),
            },
            (":-", default) => match filled {
                Some(value) => done.push_str(value),
                None => done.push_str(&expanded(default, variables, depth + 1)?),
            },
            ("+", other) if value.is_some() => done.push_str(&expanded(other, variables, depth + 1)?),
            (":+", other) if filled.is_some() => done.push_str(&expanded(other, variables, depth + 1)?),
            ("+" | ":+", _) => {}
            (operator, why) => {
                let value = if operator == ":?" { filled } else { value };
                let why = Some(why.to_owned()).filter(|why| !why.is_empty());
                done.push_str(value.ok_or_else(|| (name.to_owned(), why))?);
            }
        }
        rest = &from[end..];
    }
    done.push_str(rest);
    Ok(done)
}

/// Returns the name in the expression that `text` begins with, what follows the name, and where the
/// expression ends; `None` if it is none.
fn expression(text: &str) -> Option<(&str, &str, usize)> {
    let mut depth = 0;
    let end = text.char_indices().find_map(|(at, c)| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        (c == '}' && depth == 0).then_some(at)
    })?;
    let inner = &text[2..end];
    let (name, operation) = inner.split_at(name_at_start(inner).len());
    let is_known = operation.is_empty()
        || [":-", "-", ":+", "+", ":?", "?"].iter().any(|known| operation.starts_with(known));
    let is_named = name.starts_with(|c: char| !c.is_ascii_digit());
    (is_named && is_known).then_some((name, operation, end + 1))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pretty_assertions::assert_eq;

    use super::*;

    fn source(text: &str) -> Source {
        let variables =
            [("M", "openai:gpt-4o"), ("EMPTY", ""), ("ODD", "a \"b\": #c\n${M}"), ("KEY", "${KEY}")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Source::new("forge.yaml", text).with_variables(BTreeMap::from(variables))
    }

    fn read(text: &str) -> (String, Vec<String>) {
        let source = source(text);
        let (text, unset) = with_quoted_variables(&source);
        let unset = unset.into_iter().map(|unset| {
            format!("{} {} {} {}", unset.position, unset.path, unset.name, unset.why.unwrap_or_default())
        });
        (text.into_owned(), unset.collect())
    }

    #[test]
    fn quoted_values_have_the_values_of_their_variables() {
        let cases = [
            (r#"a: "${M}""#, r#"a: "openai:gpt-4o""#),
            ("a: '${M}'", r#"a: "openai:gpt-4o""#),
            ("{ a: '${M}', b: [\"${M}\"] }", r#"{ a: "openai:gpt-4o", b: ["openai:gpt-4o"] }"#),
            ("a: &b \"${M}\"", r#"a: &b "openai:gpt-4o""#),
            ("a: \"say ${ODD}\"", r#"a: "say a \"b\": #c\n${M}""#),
            ("a: '$${M} it''s ${M}'", r#"a: "${M} it's openai:gpt-4o""#),
            ("a: '${NO:-b: c} ${EMPTY:-d}${EMPTY-e}${M:+f}${EMPTY:+g}'", r#"a: "b: c df""#),
            ("a: '${NO:-${NO-x}}'", r#"a: "x""#),
            ("a: '${M:?why} ${KEY}'", r#"a: "openai:gpt-4o ${KEY}""#),
            ("a: \"x\n  ${M}\"\nb: 1", "a: \"x openai:gpt-4o\"\n\nb: 1"),
            // What is no variable, or not in quotes.
            ("a: '${a.b()} ${} ${1} ${x' # \"${M}\"", "a: \"${a.b()} ${} ${1} ${x\" # \"${M}\""),
            ("a: ${M}", "a: ${M}"),
            ("a: it's ${M}'s", "a: it's ${M}'s"),
            ("a: |\n  '${M}'\n", "a: |\n  '${M}'\n"),
            ("\"${M}\": 1", "\"${M}\": 1"),
            ("x-a: '${NO}'", "x-a: '${NO}'"),
            // What takes variables by their names.
            ("mcp_servers: { s: { env: { A: '${M}' } } }", "mcp_servers: { s: { env: { A: '${M}' } } }"),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text), (expected.to_owned(), Vec::new()), "{text}");
        }
    }

    #[test]
    fn what_is_not_set_is_told_with_its_place() {
        let (text, unset) = read("a: '${M}'\nb:\n  c: '${NO}'\n  d: \"${EMPTY:?say it}\"\n");
        assert_eq!(text, "a: \"openai:gpt-4o\"\nb:\n  c: '${NO}'\n  d: \"${EMPTY:?say it}\"\n");
        assert_eq!(unset, ["3:6 b.c NO ", "4:6 b.d EMPTY say it"]);
    }

    #[test]
    fn a_short_text_does_not_become_a_huge_one() {
        let long = BTreeMap::from([("LONG".to_owned(), "x".repeat(1 << 20))]);
        let source = Source::new("forge.yaml", "- '${LONG}'\n".repeat(100)).with_variables(long);
        let (text, unset) = with_quoted_variables(&source);
        assert!(text.len() < MOST_ADDED + 2_000 && unset.is_empty());
        let deep = format!("a: '{}{}'", "${NO:-".repeat(10_000), "}".repeat(10_000));
        assert_eq!(read(&deep).1, Vec::<String>::new());
    }
}
