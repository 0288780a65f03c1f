//! Reads past the keys that are known to be wrong, to find the other faults.

use std::cell::RefCell;
use std::fmt;

use serde::de::value::StringDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
};

use super::key_path::{KeyPath, Step};

/// A deserializer that hides the values at some paths: entries of mappings and items of lists. The rest keeps
/// its kind, so it is read as it would be without them.
pub(in super::super) struct WithSkips<'s, T> {
    inner: T,
    at: KeyPath,
    skipped: &'s Skips,
}

/// The paths that are hidden, and the faults found while the rest was read.
#[derive(Debug, Default)]
pub(in super::super) struct Skips {
    /// The paths of entries and items that are passed over.
    pub(in super::super) paths: Vec<KeyPath>,
    /// The path of the key that was refused for its name.
    pub(in super::super) refused_key: RefCell<Option<KeyPath>>,
}

impl<'s, T> WithSkips<'s, T> {
    /// Wraps `inner` without the `skipped` parts.
    pub(in super::super) const fn new(inner: T, skipped: &'s Skips) -> Self {
        Self { inner, at: KeyPath(Vec::new()), skipped }
    }
}

macro_rules! forward {
    ($($method:ident($($name:ident: $kind:ty),*))*) => {$(
        fn $method<V: Visitor<'de>>(self, $($name: $kind,)* visitor: V) -> Result<V::Value, D::Error> {
            let Self { inner, at, skipped } = self;
            inner.$method($($name,)* WithSkips { inner: visitor, at, skipped })
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for WithSkips<'_, D> {
    type Error = D::Error;

    forward! {
        deserialize_any()
        deserialize_bool()
        deserialize_i8()
        deserialize_i16()
        deserialize_i32()
        deserialize_i64()
        deserialize_i128()
        deserialize_u8()
        deserialize_u16()
        deserialize_u32()
        deserialize_u64()
        deserialize_u128()
        deserialize_f32()
        deserialize_f64()
        deserialize_char()
        deserialize_str()
        deserialize_string()
        deserialize_bytes()
        deserialize_byte_buf()
        deserialize_option()
        deserialize_unit()
        deserialize_unit_struct(name: &'static str)
        deserialize_newtype_struct(name: &'static str)
        deserialize_seq()
        deserialize_tuple(len: usize)
        deserialize_tuple_struct(name: &'static str, len: usize)
        deserialize_map()
        deserialize_struct(name: &'static str, fields: &'static [&'static str])
        deserialize_enum(name: &'static str, variants: &'static [&'static str])
        deserialize_identifier()
        deserialize_ignored_any()
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! visit {
    ($($method:ident($kind:ty))*) => {$(
        fn $method<E: Error>(self, value: $kind) -> Result<V::Value, E> {
            self.inner.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for WithSkips<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    visit! {
        visit_bool(bool)
        visit_i8(i8)
        visit_i16(i16)
        visit_i32(i32)
        visit_i64(i64)
        visit_i128(i128)
        visit_u8(u8)
        visit_u16(u16)
        visit_u32(u32)
        visit_u64(u64)
        visit_u128(u128)
        visit_f32(f32)
        visit_f64(f64)
        visit_char(char)
        visit_str(&str)
        visit_borrowed_str(&'de str)
        visit_string(String)
        visit_bytes(&[u8])
        visit_borrowed_bytes(&'de [u8])
        visit_byte_buf(Vec<u8>)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        let Self { inner, at, skipped } = self;
        inner.visit_some(WithSkips { inner: value, at, skipped })
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        let Self { inner, at, skipped } = self;
        inner.visit_newtype_struct(WithSkips { inner: value, at, skipped })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        let Self { inner, at, skipped } = self;
        inner.visit_seq(Items { list: WithSkips { inner: list, at, skipped }, next: 0 })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        let Self { inner, at, skipped } = self;
        inner.visit_map(Entries { map: WithSkips { inner: map, at, skipped }, key: String::new() })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(variant)
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for WithSkips<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<S::Value, D::Error> {
        let Self { inner, at, skipped } = self;
        inner.deserialize(WithSkips { inner: value, at, skipped })
    }
}

/// The items of a list.
struct Items<'s, A> {
    list: WithSkips<'s, A>,
    next: usize,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Items<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        loop {
            let at = self.list.at.below(Step::Item(self.next));
            self.next += 1;
            if !self.list.skipped.paths.contains(&at) {
                let seed = WithSkips { inner: seed, at, skipped: self.list.skipped };
                return self.list.inner.next_element_seed(seed);
            }
            if self.list.inner.next_element::<IgnoredAny>()?.is_none() {
                return Ok(None);
            }
        }
    }
}

/// Checks whether a key is the user's own, for text that is used elsewhere by an anchor: such keys begin with
/// `x-`, at the top or in an agent.
fn is_extension(at: &KeyPath, key: &str) -> bool {
    let is_place = match at.0.as_slice() {
        [] => true,
        [Step::Key(agents), _] => agents == "agents",
        _ => false,
    };
    is_place && key.starts_with("x-")
}

/// The entries of a mapping.
struct Entries<'s, A> {
    map: WithSkips<'s, A>,
    key: String,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Entries<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        while let Some(key) = self.map.inner.next_key::<String>()? {
            let at = self.map.at.below(Step::Key(key.clone()));
            if is_extension(&self.map.at, &key) || self.map.skipped.paths.contains(&at) {
                self.map.inner.next_value::<IgnoredAny>()?;
                continue;
            }
            self.key.clone_from(&key);
            let key: StringDeserializer<A::Error> = key.into_deserializer();
            return seed.deserialize(key).map(Some).inspect_err(|_| {
                self.map.skipped.refused_key.replace(Some(at));
            });
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let at = self.map.at.below(Step::Key(self.key.clone()));
        self.map.inner.next_value_seed(WithSkips { inner: seed, at, skipped: self.map.skipped })
    }
}
