//! One entry of `strategies`, as YAML writes it.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{ClearToolResults, Extraction, SlidingWindow, Summarization, Truncation};
use crate::StrategyId;

/// One entry of `strategies`: an id, or `id: {options}`.
#[derive(Clone, Debug, PartialEq)]
pub enum Rung {
    /// Clearing of old tool results.
    ClearToolResults(ClearToolResults),
    /// Summaries by a model.
    Summarization(Summarization),
    /// A record without a model.
    Extraction(Extraction),
    /// Dropping of whole groups.
    SlidingWindow(SlidingWindow),
    /// Shortening of single items.
    Truncation(Truncation),
    /// A strategy that was registered with the compactor; cannot be written in YAML.
    Registered(StrategyId),
}

impl Rung {
    /// The ids of the strategies that YAML may name.
    pub const IDS: &[&str] =
        &[ClearToolResults::ID, Summarization::ID, Extraction::ID, SlidingWindow::ID, Truncation::ID];

    /// Returns the strategy's id.
    pub fn id(&self) -> &str {
        match self {
            Self::ClearToolResults(_) => ClearToolResults::ID,
            Self::Summarization(_) => Summarization::ID,
            Self::Extraction(_) => Extraction::ID,
            Self::SlidingWindow(_) => SlidingWindow::ID,
            Self::Truncation(_) => Truncation::ID,
            Self::Registered(id) => id.as_str(),
        }
    }

    fn plain(id: &str) -> Option<Self> {
        match id {
            ClearToolResults::ID => Some(Self::ClearToolResults(ClearToolResults::default())),
            Summarization::ID => Some(Self::Summarization(Summarization::default())),
            Extraction::ID => Some(Self::Extraction(Extraction::default())),
            SlidingWindow::ID => Some(Self::SlidingWindow(SlidingWindow::default())),
            Truncation::ID => Some(Self::Truncation(Truncation::default())),
            _ => None,
        }
    }
}

impl Serialize for Rung {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::ClearToolResults(options) if *options != ClearToolResults::default() => {
                serializer.collect_map([(ClearToolResults::ID, options)])
            }
            Self::SlidingWindow(options) if *options != SlidingWindow::default() => {
                serializer.collect_map([(SlidingWindow::ID, options)])
            }
            rung => serializer.serialize_str(rung.id()),
        }
    }
}

impl<'de> Deserialize<'de> for Rung {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RungVisitor;
        impl<'de> Visitor<'de> for RungVisitor {
            type Value = Rung;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a strategy ({}), or `strategy: {{options}}`", Rung::IDS.join(", "))
            }
            fn visit_str<E: de::Error>(self, id: &str) -> Result<Rung, E> {
                Rung::plain(id).ok_or_else(|| E::unknown_variant(id, Rung::IDS))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Rung, A::Error> {
                let Some(id) = map.next_key::<String>()? else {
                    return Err(de::Error::invalid_length(0, &self));
                };
                let rung = match id.as_str() {
                    ClearToolResults::ID => Rung::ClearToolResults(map.next_value()?),
                    Summarization::ID => Rung::Summarization(map.next_value()?),
                    Extraction::ID => Rung::Extraction(map.next_value()?),
                    SlidingWindow::ID => Rung::SlidingWindow(map.next_value()?),
                    Truncation::ID => Rung::Truncation(map.next_value()?),
                    id => return Err(de::Error::unknown_variant(id, Rung::IDS)),
                };
                match map.next_key::<String>()? {
                    None => Ok(rung),
                    Some(second) => Err(de::Error::custom(format!(
                        "one strategy for each entry of the list: give `{second}` an entry of its own"
                    ))),
                }
            }
        }
        deserializer.deserialize_any(RungVisitor)
    }
}

impl JsonSchema for Rung {
    fn schema_name() -> Cow<'static, str> {
        "Strategy".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let options = json_schema!({
            ClearToolResults::ID: generator.subschema_for::<ClearToolResults>(),
            Summarization::ID: generator.subschema_for::<Summarization>(),
            Extraction::ID: generator.subschema_for::<Extraction>(),
            SlidingWindow::ID: generator.subschema_for::<SlidingWindow>(),
            Truncation::ID: generator.subschema_for::<Truncation>(),
        });
        json_schema!({ "anyOf": [
            { "type": "string", "enum": Self::IDS },
            {
                "type": "object",
                "properties": options,
                "additionalProperties": false,
                "minProperties": 1,
                "maxProperties": 1,
            },
        ] })
    }
}
