//! The table of the formats that are read. A format is added by its folder, its `mod` line and its line here.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Format;
use crate::agents::AGENTS;
use crate::anthropic::Anthropic;
use crate::claude_code::ClaudeCode;
use crate::codec::Codec;
use crate::openai::OpenAi;
use crate::tau_bench::TAU_BENCH;

/// The formats that are written as well, and tau-bench's results.
const WRITTEN: &[&dyn Codec] = &[&OpenAi, &Anthropic, &TAU_BENCH, &ClaudeCode];

/// Returns the lines of the table, from the most general format to the most specific: the last one that
/// recognizes a file reads it.
pub(crate) fn formats() -> impl DoubleEndedIterator<Item = &'static dyn Codec> {
    WRITTEN.iter().chain(AGENTS).copied()
}

/// Returns the line of `format` in the table.
pub(crate) fn codec(format: Format) -> &'static dyn Codec {
    let line = formats().find(|codec| codec.format() == format);
    line.expect("only a line of the table makes a format")
}

impl Format {
    /// Returns all formats that are read.
    pub fn all() -> impl Iterator<Item = Self> {
        formats().map(Codec::format)
    }

    /// Returns the formats that sessions of any other format can be written in. The other formats that are
    /// written at all are those of their own sessions alone.
    pub fn targets() -> impl Iterator<Item = Self> {
        formats().filter(|codec| codec.is_target()).map(Codec::format)
    }

    /// Returns the format named `id` on the command line; `None` if there is none.
    pub fn named(id: &str) -> Option<Self> {
        Self::all().find(|format| format.id() == id)
    }
}

/// A format is written by its name on the command line.
impl Serialize for Format {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

impl<'de> Deserialize<'de> for Format {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let id = String::deserialize(from)?;
        let unknown = || serde::de::Error::custom(format!("there is no format `{id}`"));
        Self::named(&id).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formats_that_any_session_can_be_written_in_are_known() {
        assert_eq!(Format::targets().map(Format::id).collect::<Vec<_>>(), ["openai", "anthropic", "atif"]);
    }
}
