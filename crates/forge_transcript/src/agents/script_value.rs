//! The values that are written in a script of JavaScript: literals, and variables that were set to one.

use std::cell::Cell;
use std::collections::HashMap;
use std::str::Chars;

use serde_json::{Map, Value};

/// Nesting beyond which a value is not read.
const DEPTH: usize = 64;

const QUOTES: [char; 3] = ['"', '\'', '`'];

/// The word before a text in which a backslash is itself.
const RAW: &str = "String.raw";

/// Characters behind which a slash begins a regular expression.
pub(super) const BEFORE_PATTERN: &str = "(,=:[!&|?{};";

/// Most bytes that are copied from the variables of a script: if each holds the one before it twice, a few
/// lines stand for more than the memory holds.
const MOST_COPIED: usize = 1 << 20;
/// The bytes that each copied value counts for, beside its text.
const NODE: usize = 32;

/// The variables of a script, with their values as they are written.
#[derive(Default)]
pub(super) struct Variables<'s> {
    values: HashMap<&'s str, Value>,
    /// The bytes that were copied from them.
    copied: Cell<usize>,
}

impl<'s> Variables<'s> {
    /// Sets a variable; with `None`, to a value that has to be computed.
    pub(super) fn set(&mut self, name: &'s str, value: Option<Value>) {
        match value {
            Some(value) => self.values.insert(name, value),
            None => self.values.remove(name),
        };
    }

    /// Returns the value of a variable, or of a field of one, if that has at most `depth` levels.
    fn copy(&self, path: &str, depth: usize) -> Option<Value> {
        let mut names = path.split('.');
        let variable = self.values.get(names.next()?)?;
        let value = names.try_fold(variable, |value, name| value.get(name))?;
        let copied = self.copied.get();
        if copied > MOST_COPIED {
            return None;
        }
        // One with too many levels ends the copying too: it was looked through.
        self.copied.set(copied + size(value, depth).unwrap_or(MOST_COPIED + 1));
        (self.copied.get() <= MOST_COPIED).then(|| value.clone())
    }
}

/// Returns the bytes that a copy of a value counts for; `None` if it has more than `depth` levels.
fn size(value: &Value, depth: usize) -> Option<usize> {
    let depth = depth.checked_sub(1)?;
    match value {
        Value::String(text) => Some(NODE + text.len()),
        Value::Array(items) => items.iter().try_fold(NODE, |sum, item| Some(sum + size(item, depth)?)),
        Value::Object(fields) => {
            fields.iter().try_fold(NODE, |sum, (name, value)| Some(sum + name.len() + size(value, depth)?))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Some(NODE),
    }
}

/// Reads the value with which `code` begins. Returns it with the code that follows; `None` if it has to be
/// computed.
pub(super) fn value<'s>(code: &'s str, variables: &Variables<'s>) -> Option<(Value, &'s str)> {
    let mut reader = Reader { rest: code, variables, depth: 0 };
    let value = reader.value()?;
    Some((value, reader.rest))
}

/// Reads the text in quotes with which `code` begins. Returns it with the code that follows. The values in a
/// template are part of its text.
pub(super) fn quoted(code: &str) -> Option<(String, &str)> {
    quoted_within(code, DEPTH)
}

/// Reads a text in quotes with at most `depth` levels of templates.
fn quoted_within(code: &str, depth: usize) -> Option<(String, &str)> {
    let quote = code.chars().next().filter(|c| QUOTES.contains(c))?;
    let mut texts = serde_json::Deserializer::from_str(code).into_iter::<String>();
    if let Some(Ok(text)) = texts.next() {
        return Some((text, &code[texts.byte_offset()..]));
    }
    let mut text = String::new();
    let mut chars = code[1..].chars();
    loop {
        match chars.next()? {
            '\\' => text.extend(escaped(&mut chars)),
            c if c == quote => return Some((text, chars.as_str())),
            '\n' if quote != '`' => return None,
            '$' if quote == '`' && chars.as_str().starts_with('{') => {
                let value = chars.as_str();
                let behind = behind_value(&value[1..], depth)?;
                text.push('$');
                text.push_str(&value[..value.len() - behind.len()]);
                chars = behind.chars();
            }
            c => text.push(c),
        }
    }
}

/// Iterates over the code of the values in a template.
pub(super) fn values_in(template: &str) -> impl Iterator<Item = &str> {
    let mut rest = template;
    std::iter::from_fn(move || {
        let (_, value) = rest.split_once("${")?;
        rest = behind_value(value, DEPTH)?;
        Some(&value[..value.len() - rest.len() - 1])
    })
}

/// Returns the code behind a value in a template, whose opening brace was read; `None` if it has no end, or
/// more than `depth` levels of templates.
fn behind_value(code: &str, depth: usize) -> Option<&str> {
    let depth = depth.checked_sub(1)?;
    let mut rest = code;
    let mut before = '(';
    let mut n_braces = 0_usize;
    loop {
        rest = without_blank(rest);
        let c = rest.chars().next()?;
        let after = &rest[c.len_utf8()..];
        rest = match c {
            '"' | '\'' | '`' => quoted_within(rest, depth)?.1,
            '/' if BEFORE_PATTERN.contains(before) => behind_pattern(after),
            '}' if n_braces == 0 => return Some(after),
            '{' => {
                n_braces += 1;
                after
            }
            '}' => {
                n_braces -= 1;
                after
            }
            _ => after,
        };
        before = c;
    }
}

/// Returns the code behind the blanks and the comments with which `code` begins.
pub(super) fn without_blank(code: &str) -> &str {
    let mut rest = code.trim_start();
    loop {
        let comment = rest.strip_prefix("//").map(|comment| comment.split_once('\n'));
        let comment = comment.or_else(|| rest.strip_prefix("/*").map(|comment| comment.split_once("*/")));
        let Some(comment) = comment else { return rest };
        rest = comment.map_or("", |(_, behind)| behind).trim_start();
    }
}

/// Returns the code behind a regular expression, whose first slash was read; the code itself if it has no end
/// in its line.
pub(super) fn behind_pattern(code: &str) -> &str {
    let mut is_in_set = false;
    let mut chars = code.chars();
    while let Some(c) = chars.next() {
        match c {
            '\n' => break,
            '\\' => {
                chars.next();
            }
            '[' => is_in_set = true,
            ']' => is_in_set = false,
            '/' if !is_in_set => return chars.as_str(),
            _ => {}
        }
    }
    code
}

/// Splits off the name with which `code` begins; it is empty if there is none.
pub(super) fn split_name(code: &str) -> (&str, &str) {
    code.split_at(code.find(|c: char| !is_of_name(c)).unwrap_or(code.len()))
}

pub(super) fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$')
}

/// Returns the character that an escape stands for, of which the backslash was read; `None` for one that
/// only continues the line.
fn escaped(chars: &mut Chars<'_>) -> Option<char> {
    match chars.next()? {
        '\n' => None,
        'n' => Some('\n'),
        't' => Some('\t'),
        'r' => Some('\r'),
        'b' => Some('\u{8}'),
        'f' => Some('\u{c}'),
        'x' => code_point(chars, 2),
        'u' => code_point(chars, 4),
        other => Some(other),
    }
}

/// Reads the number of a character, in so many digits or in braces.
fn code_point(chars: &mut Chars<'_>, n_digits: usize) -> Option<char> {
    let rest = chars.as_str();
    let (digits, behind) = match rest.strip_prefix('{') {
        Some(inside) => inside.split_once('}')?,
        None => rest.split_at_checked(n_digits)?,
    };
    let number = u32::from_str_radix(digits, 16).ok()?;
    *chars = behind.chars();
    Some(char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER))
}

/// A reader of values.
struct Reader<'v, 's> {
    rest: &'s str,
    variables: &'v Variables<'s>,
    /// The number of lists and objects around the value that is read.
    depth: usize,
}

impl Reader<'_, '_> {
    fn value(&mut self) -> Option<Value> {
        if self.takes("{") {
            return self.inside(Self::object);
        }
        if self.takes("[") {
            return self.inside(Self::list);
        }
        if self.rest.starts_with(QUOTES) { self.text().map(Value::String) } else { self.word() }
    }

    fn inside(&mut self, read: fn(&mut Self) -> Option<Value>) -> Option<Value> {
        self.depth += 1;
        let value = if self.depth <= DEPTH { read(self) } else { None };
        self.depth -= 1;
        value
    }

    /// Reads the fields of an object up to its end.
    fn object(&mut self) -> Option<Value> {
        let mut fields = Map::new();
        while !self.takes("}") {
            if self.takes("...") {
                let Value::Object(others) = self.value()? else { return None };
                fields.extend(others);
            } else {
                let name = self.key()?;
                let value = if self.takes(":") { self.value()? } else { self.variable(&name)? };
                fields.insert(name, value);
            }
            if !self.takes(",") && !self.rest.starts_with('}') {
                return None;
            }
        }
        Some(Value::Object(fields))
    }

    /// Reads the items of a list up to its end.
    fn list(&mut self) -> Option<Value> {
        let mut items = Vec::new();
        while !self.takes("]") {
            if self.takes("...") {
                let Value::Array(others) = self.value()? else { return None };
                items.extend(others);
            } else {
                items.push(self.value()?);
            }
            if !self.takes(",") && !self.rest.starts_with(']') {
                return None;
            }
        }
        Some(Value::Array(items))
    }

    fn key(&mut self) -> Option<String> {
        if self.rest.starts_with(QUOTES) {
            return self.text();
        }
        let (name, rest) = split_name(self.rest);
        self.rest = rest;
        (!name.is_empty()).then(|| name.to_owned())
    }

    fn text(&mut self) -> Option<String> {
        let (text, rest) = quoted(self.rest)?;
        self.rest = rest;
        Some(text)
    }

    /// Reads a number, a constant of the language or a variable.
    fn word(&mut self) -> Option<Value> {
        let is_of_word = |c: char| is_of_name(c) || matches!(c, '.' | '-');
        let end = self.rest.find(|c: char| !is_of_word(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        if let Some(text) = rest.strip_prefix('`').filter(|_| word == RAW) {
            let (text, rest) = text.split_once('`')?;
            self.rest = rest;
            return Some(text.into());
        }
        match word {
            "undefined" => Some(Value::Null),
            number if number.starts_with(|c: char| c.is_ascii_digit()) => {
                serde_json::from_str(&number.replace('_', "")).ok()
            }
            word => serde_json::from_str(word).ok().or_else(|| self.variable(word)),
        }
    }

    /// Returns the value of a variable, or of a field of one, unless the whole would be nested too deeply.
    fn variable(&self, path: &str) -> Option<Value> {
        self.variables.copy(path, DEPTH + 1 - self.depth)
    }

    /// Continues behind `mark` if that is next, after blanks and comments.
    fn takes(&mut self, mark: &str) -> bool {
        let rest = without_blank(self.rest);
        let behind = rest.strip_prefix(mark);
        self.rest = behind.unwrap_or(rest);
        behind.is_some()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_that_is_written_is_read() {
        let mut variables = Variables::default();
        variables.set("common", Some(json!({"cwd": "/w", "n": [1]})));
        variables.set("cmd", Some(json!("ls")));
        for (code, expected) in [
            (
                "{cmd:\"a \\\"b\\\"\",\"dir\":'/w', n: 5,} + 1",
                Some((json!({"cmd": "a \"b\"", "dir": "/w", "n": 5}), " + 1")),
            ),
            (
                "{...common, cmd, /* none */ n: -1.5e3, // all\n}",
                Some((json!({"cwd": "/w", "n": -1500.0, "cmd": "ls"}), "")),
            ),
            (
                "[true, null, undefined, 10_000, ...common.n,]",
                Some((json!([true, null, null, 10000, 1]), "")),
            ),
            ("`a\nb ${c} \\`d\\``", Some((json!("a\nb ${c} `d`"), ""))),
            (r"'\x41\u00e9\u{1f600}\t\'", None),
            (r"'\x41\u00e9\u{1f600}\'';", Some((json!("Aé\u{1f600}'"), ";"))),
            (r#""\ud83d\ude00""#, Some((json!("\u{1f600}"), ""))),
            (r"String.raw`a\nb`", Some((json!("a\\nb"), ""))),
            ("common.cwd)", Some((json!("/w"), ")"))),
            ("{cmd: name}", None),
            ("{cmd: cmd + 1}", None),
            ("common.cwd.x", None),
            ("{a", None),
            ("'ä", None),
            ("", None),
            ("(1)", None),
        ] {
            assert_eq!(value(code, &variables), expected, "{code}");
        }
        assert_eq!(value(&"[".repeat(9_999), &variables), None);
    }
}
