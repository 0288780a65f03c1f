//! A text with its origin, and a place in it.

use std::fmt;

/// A YAML text and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The name in errors: a file's path as the user knows it.
    pub name: String,
    /// The text.
    pub text: String,
}

impl Source {
    /// Creates a text of that name.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into() }
    }
}

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}
