//! The way to a key: `agents.researcher.tools[1]`.

use std::fmt;

/// One step down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Step {
    /// To the value of a mapping's key.
    Key(String),
    /// To an item of a list, from 0.
    Item(usize),
}

/// A path of steps from the top.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct KeyPath(pub(in super::super) Vec<Step>);

impl KeyPath {
    /// Returns the path that is one step longer.
    pub(in super::super) fn below(&self, step: Step) -> Self {
        Self(self.0.iter().cloned().chain([step]).collect())
    }

    /// Returns the key that the path ends in; for an item, the key of its list.
    pub(in super::super) fn last_key(&self) -> Option<&str> {
        self.0.iter().rev().find_map(|step| match step {
            Step::Key(key) => Some(key.as_str()),
            Step::Item(_) => None,
        })
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            let dot = if position == 0 { "" } else { "." };
            match step {
                Step::Key(key) if key.is_empty() => write!(f, "{dot}''")?,
                Step::Key(key) => write!(f, "{dot}{key}")?,
                Step::Item(item) => write!(f, "[{item}]")?,
            }
        }
        Ok(())
    }
}
