//! A text with its origin, and a place in it.

use std::collections::BTreeMap;
use std::fmt;

use forge_domain::HARMLESS_VARIABLES;

/// A YAML text and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The name in errors: a file's path as the user knows it.
    pub name: String,
    /// The text.
    pub text: String,
    /// The values of `${NAME}` in it; without any, such text stays as it is.
    pub variables: Option<Variables>,
}

/// The variables that a text may name.
#[derive(Clone, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Returns the value of a variable, if it is set.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Checks whether a variable is set to something else than its own name.
    pub(super) fn has_own_value(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value != itself(name))
    }

    pub(in super::super) fn pairs(&self) -> impl Iterator<Item = (String, String)> {
        self.0.iter().map(|(name, value)| (name.clone(), value.clone()))
    }
}

/// Returns the text that names a variable.
fn itself(name: &str) -> String {
    format!("${{{name}}}")
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Their values may be secrets.
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Source {
    /// Creates a text of that name.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into(), variables: None }
    }

    /// Returns the text with these values of `${NAME}`.
    #[must_use]
    pub fn with_variables(self, variables: BTreeMap<String, String>) -> Self {
        Self { variables: Some(Variables(variables)), ..self }
    }

    /// Returns the text with the values of harmless variables alone: each other one stands for itself.
    #[must_use]
    pub(in super::super) fn without_private_variables(mut self) -> Self {
        for (name, value) in self.variables.iter_mut().flat_map(|variables| &mut variables.0) {
            if !HARMLESS_VARIABLES.contains(&name.as_str()) {
                *value = itself(name);
            }
        }
        self
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
