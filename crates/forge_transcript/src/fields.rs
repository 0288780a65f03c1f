//! The fields of a JSON object whose values are not read yet.

use serde_json::value::RawValue;

use crate::arguments::fields;

/// The fields of a JSON object. Their values stay text.
#[derive(Clone, Default)]
pub(crate) struct Fields<'a>(pub(crate) Vec<(String, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// Reads the fields of `text`; there are none if it is not an object.
    pub(crate) fn of(text: &'a str) -> Self {
        Self(fields(text).unwrap_or_default())
    }

    /// Checks whether each of `keys` has a value.
    pub(crate) fn has(&self, keys: &[&str]) -> bool {
        keys.iter().all(|key| value_of(&self.0, key).is_some())
    }

    /// Checks whether `key` is there, with a value or null.
    pub(crate) fn contains(&self, key: &str) -> bool {
        self.0.iter().any(|(name, _)| name == key)
    }

    /// Checks whether the value of `key` is a list.
    pub(crate) fn has_list(&self, key: &str) -> bool {
        self.get(key).starts_with('[')
    }

    /// Returns the text of the value of `key`; an empty one if it is missing or null.
    pub(crate) fn get(&self, key: &str) -> &'a str {
        value_of(&self.0, key).unwrap_or_default()
    }

    /// Returns the string under `key`; an empty one if it is anything else.
    pub(crate) fn text(&self, key: &str) -> String {
        serde_json::from_str(self.get(key)).unwrap_or_default()
    }

    /// Returns the items of the list under `key`.
    pub(crate) fn items(&self, key: &str) -> Vec<&'a RawValue> {
        serde_json::from_str(self.get(key)).unwrap_or_default()
    }
}

/// Returns the value of `key`, unless it is missing or null.
pub(crate) fn value_of<'a>(fields: &[(String, &'a RawValue)], key: &str) -> Option<&'a str> {
    let value = fields.iter().find(|(name, _)| name == key).map(|(_, value)| value.get());
    value.filter(|value| *value != "null")
}
