//! Lines of code that only name what a file uses, as the common languages write them.

use crate::compaction::features::{Line, is_line_break, split_number};

/// The lines of a text that are imports, as far as it was passed.
#[derive(Default)]
pub(super) struct Imports {
    /// The bracket that ends a list of names over several lines.
    open: Option<char>,
    /// The end of what was passed.
    passed: u32,
}

impl Imports {
    /// Passes to a line of a text, and checks whether it is an import.
    pub(super) fn pass(&mut self, text: &str, line: &Line) -> bool {
        let passed = std::mem::replace(&mut self.passed, line.end);
        if self.open.is_some() {
            // A line of nothing but brackets is in the gap before this one.
            let mut gap = text[passed as usize..line.start as usize].split(is_line_break).map(code);
            if gap.any(|between| self.open.is_some_and(|end| between.starts_with(end))) {
                self.open = None;
            }
        }
        let code = code(&text[line.start as usize..line.end as usize]);
        if let Some(end) = self.open {
            let goes_on = code.split(',').all(is_name) || code.starts_with(end);
            if !goes_on || code.contains(end) {
                self.open = None;
            }
            return goes_on;
        }
        let is_import = is_import(code);
        if is_import {
            self.open = match code.chars().next_back() {
                Some('(') => Some(')'),
                Some('{') => Some('}'),
                _ => None,
            };
        }
        is_import
    }
}

/// Returns a line without the number in front of it, the mark of a change and blanks.
fn code(line: &str) -> &str {
    let line = split_number(line).map_or(line, |(_, rest)| rest);
    line.trim_start_matches(['+', '-', ' ', '\t']).trim_end()
}

/// Checks whether a line of code begins an import. What a file passes on to others is its content. Sentences
/// begin with the same words, but do not continue in the same way.
fn is_import(code: &str) -> bool {
    let (first, rest) = code.split_once(char::is_whitespace).unwrap_or((code, ""));
    let rest = rest.trim_start();
    let is_statement = code.ends_with([';', '{', '(']);
    let is_quoted = |text: &str| text.starts_with(['"', '\'', '(', '<']);
    match first {
        "#include" | "#import" | "@import" | "@use" | "require" | "require_once" | "require_relative" => {
            is_quoted(rest)
        }
        "import" => {
            is_statement
                || is_quoted(rest)
                || rest.ends_with(['"', '\''])
                || rest.split(',').all(|name| is_name(name) && name.contains(|c: char| !c.is_uppercase()))
        }
        "from" => rest.contains(" import "),
        "use" | "using" => is_statement && !rest.contains('=') && !rest.contains("; "),
        "const" | "let" | "var" => rest.contains("= require("),
        _ => code.starts_with("require("),
    }
}

/// Checks whether a text is a name with at most another one for it, such as `a.b as c`.
fn is_name(text: &str) -> bool {
    let text = text.trim().trim_end_matches(';');
    let mut words = text.split_whitespace();
    let is_plain = |word: &str| !word.contains(['=', '(', ')', '{']) || word.ends_with(['{', '(']);
    match (words.next(), words.next(), words.next()) {
        (None, ..) => true,
        (Some("type"), Some(name), _) | (Some(name), None, _) => is_plain(name),
        (Some(name), Some("as"), Some(_)) => is_plain(name) && words.next().is_none(),
        // Go writes the other name first.
        (Some(_), Some(path), None) => path.starts_with('"'),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::compaction::fixture::Characters;
    use crate::{ContextMessage, Message};

    #[test]
    fn imports_of_many_languages_are_told_from_code_and_sentences() {
        for (text, expected) in [
            ("import os", "i"),
            ("import numpy as np, json", "i"),
            ("from __future__ import annotations", "i"),
            ("from app.models import (\n    User,\n    Order as O,\n)\nclass Desk(Base):", "iii."),
            ("import React, { useState } from 'react';", "i"),
            ("import {\n  Lightbulb,\n  type Icon,\n} from 'lucide';\nconst icon = Icon();", "iiii."),
            ("const fs = require('fs');\nconst total = fs.size();", "i."),
            ("export * from './models'", "."),
            ("export { open, type Door } from \"./door.js\";", "."),
            ("import (\n\t\"strings\"\n\tlog \"github.com/a/log\"\n)\nfunc main() {", "iii."),
            ("import java.util.List;\npublic class Desk {", "i."),
            ("use crate::{\n    Context,\n    Message,\n};\nfn main() {}", "iii."),
            ("pub use self::desk::Desk;", "."),
            ("using System.Text;", "i"),
            ("#include <vector>\n#include \"desk.h\"", "ii"),
            ("  3→import os\n  4→total = 1", "i."),
            ("+import os\n+total = count(rows)", "i."),
            ("require 'json'", "i"),
            ("import the data from the file before you start", "."),
            ("from Monday on, the server is closed", "."),
            ("use the other server; it is faster", "."),
            ("let me look at what is there", "."),
            ("using this = other;", "."),
        ] {
            let message = ContextMessage::count(Message::user(text), &Characters);
            let features = message.features();
            let mut imports = Imports::default();
            let found = features.lines.iter().map(|line| imports.pass(&features.text, line));
            let marks: String = found.map(|is_import| if is_import { 'i' } else { '.' }).collect();
            assert_eq!(marks, expected, "{text}");
        }
    }
}
