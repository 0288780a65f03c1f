//! One entry of `strategies`, as YAML writes it.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::Rung;

/// Declares [`Rung`] from the table of the strategies, and what a rung takes from its strategy: its id, its
/// default options, the reading of its options, and their schema.
macro_rules! built_in_strategies {
    ($($(#[$doc:meta])* $module:ident::$strategy:ident,)+) => {
        $(pub use self::$module::$strategy;)+

        /// One entry of `strategies`: an id, or `id: {options}`.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Rung {
            $($(#[$doc])* $strategy($strategy),)+
            /// A strategy that was registered with the compactor; cannot be written in YAML.
            Registered($crate::StrategyId),
        }

        impl Rung {
            /// The ids of the strategies that YAML may name.
            pub const IDS: &[&str] = &[$($strategy::ID),+];

            /// Returns the strategy's id.
            pub fn id(&self) -> &str {
                match self {
                    $(Self::$strategy(_) => $strategy::ID,)+
                    Self::Registered(id) => id.as_str(),
                }
            }

            /// Returns the built-in strategy with its options; `None` for a registered one.
            pub(crate) fn built_in(&self) -> Option<std::sync::Arc<dyn $crate::compaction::CompactionStrategy>> {
                match self {
                    $(Self::$strategy(strategy) => Some(std::sync::Arc::new(strategy.clone())),)+
                    Self::Registered(_) => None,
                }
            }

            /// Returns the built-in strategy named `id` with its default options.
            fn with_defaults(id: &str) -> Option<Self> {
                match id {
                    $($strategy::ID => Some(Self::$strategy($strategy::default())),)+
                    _ => None,
                }
            }

            /// Reads the options of the built-in strategy named `id`, the next value of `map`.
            fn read_options<'de, A: serde::de::MapAccess<'de>>(id: &str, map: &mut A) -> Result<Self, A::Error> {
                match id {
                    $($strategy::ID => map.next_value().map(Self::$strategy),)+
                    id => Err(serde::de::Error::unknown_variant(id, Self::IDS)),
                }
            }

            /// Returns the schema of each strategy's options, by its id.
            fn option_schemas(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ $($strategy::ID: generator.subschema_for::<$strategy>(),)+ })
            }
        }

        impl serde::Serialize for Rung {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$strategy(options) if *options != $strategy::default() => {
                        serializer.collect_map([($strategy::ID, options)])
                    })+
                    rung => serializer.serialize_str(rung.id()),
                }
            }
        }
    };
}

impl Rung {
    /// Checks whether a focus changes what it preserves, with or without a model that writes summaries. What
    /// a registered strategy does with it is not known.
    pub(crate) fn heeds_focus(&self, has_model: bool) -> bool {
        self.built_in().is_none_or(|strategy| strategy.heeds_focus() && (has_model || !strategy.asks_model()))
    }

    /// Checks whether it works only with a model that writes summaries.
    pub fn asks_model(&self) -> bool {
        self.built_in().is_some_and(|strategy| strategy.asks_model())
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
                Rung::with_defaults(id).ok_or_else(|| E::unknown_variant(id, Rung::IDS))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Rung, A::Error> {
                let Some(id) = map.next_key::<String>()? else {
                    return Err(de::Error::invalid_length(0, &self));
                };
                let rung = Rung::read_options(&id, &mut map)?;
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
        let options = Self::option_schemas(generator);
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
