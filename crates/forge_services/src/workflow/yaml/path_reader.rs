//! Reads with the path of every value: past those that are known to be wrong, and up to the one that is.

use std::cell::RefCell;
use std::fmt;

use serde::de::value::StringDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};

use super::key_path::{KeyPath, Step};

/// A deserializer that knows the path of what it reads. It hides the values at some paths, entries of
/// mappings and items of lists, and remembers the path of the first value that was refused. The rest keeps
/// its kind, so it is read as it would be without this.
pub(in super::super) struct PathReader<'r, T> {
    inner: T,
    at: KeyPath,
    reading: &'r Reading,
}

/// One reading of a text: what is hidden, and what was refused.
#[derive(Debug, Default)]
pub(in super::super) struct Reading {
    /// The paths of entries and items that are passed over.
    pub(in super::super) skipped: Vec<KeyPath>,
    /// The path of the key or the value that was refused; none if it was the text as a whole.
    refused: RefCell<Option<KeyPath>>,
}

impl Reading {
    /// Returns the path of what was refused since the last call; the text as a whole has the empty path.
    pub(in super::super) fn take_refused(&self) -> KeyPath {
        self.refused.take().unwrap_or_default()
    }

    /// Remembers that what is at `path` was refused, unless something inside it was.
    fn refuse(&self, path: &KeyPath) {
        self.refused.borrow_mut().get_or_insert_with(|| path.clone());
    }
}

impl<'r, T> PathReader<'r, T> {
    /// Wraps the deserializer of a whole text.
    pub(in super::super) const fn new(inner: T, reading: &'r Reading) -> Self {
        Self { inner, at: KeyPath(Vec::new()), reading }
    }
}

macro_rules! forward {
    ($($method:ident($($name:ident: $kind:ty),*))*) => {$(
        fn $method<V: Visitor<'de>>(self, $($name: $kind,)* visitor: V) -> Result<V::Value, D::Error> {
            let Self { inner, at, reading } = self;
            inner.$method($($name,)* PathReader { inner: visitor, at, reading })
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for PathReader<'_, D> {
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

impl<'de, V: Visitor<'de>> Visitor<'de> for PathReader<'_, V> {
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
        let Self { inner, at, reading } = self;
        inner.visit_some(PathReader { inner: value, at, reading })
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        let Self { inner, at, reading } = self;
        inner.visit_newtype_struct(PathReader { inner: value, at, reading })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        let Self { inner, at, reading } = self;
        inner.visit_seq(Items { list: PathReader { inner: list, at, reading }, next: 0 })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        let Self { inner, at, reading } = self;
        inner.visit_map(Entries { map: PathReader { inner: map, at, reading }, entry: KeyPath::default() })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        let Self { inner, at, reading } = self;
        inner.visit_enum(PathReader { inner: variant, at, reading })
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for PathReader<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<S::Value, D::Error> {
        let Self { inner, at, reading } = self;
        let value = PathReader { inner: value, at: at.clone(), reading };
        inner.deserialize(value).inspect_err(|_| reading.refuse(&at))
    }
}

impl<'r, 'de, A: EnumAccess<'de>> EnumAccess<'de> for PathReader<'r, A> {
    type Error = A::Error;
    type Variant = PathReader<'r, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        let (name, inner) = self.inner.variant::<String>()?;
        let at = self.at.below(Step::Key(name.clone()));
        let name: StringDeserializer<A::Error> = name.into_deserializer();
        Ok((seed.deserialize(name)?, PathReader { inner, at, reading: self.reading }))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for PathReader<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        let Self { inner, at, reading } = self;
        inner.newtype_variant_seed(PathReader { inner: seed, at, reading })
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        let Self { inner, at, reading } = self;
        let visitor = PathReader { inner: visitor, at: at.clone(), reading };
        inner.tuple_variant(len, visitor).inspect_err(|_| reading.refuse(&at))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let Self { inner, at, reading } = self;
        let visitor = PathReader { inner: visitor, at: at.clone(), reading };
        inner.struct_variant(fields, visitor).inspect_err(|_| reading.refuse(&at))
    }
}

/// The items of a list.
struct Items<'r, A> {
    list: PathReader<'r, A>,
    next: usize,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Items<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let PathReader { inner, at, reading } = &mut self.list;
        loop {
            let at = at.below(Step::Item(self.next));
            self.next += 1;
            if !reading.skipped.contains(&at) {
                return inner.next_element_seed(PathReader { inner: seed, at, reading });
            }
            // Read without its path: nothing in it is looked at.
            let passed = inner.next_element::<IgnoredAny>().inspect_err(|_| reading.refuse(&at));
            if passed?.is_none() {
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
struct Entries<'r, A> {
    map: PathReader<'r, A>,
    /// The path of the entry whose key was read last.
    entry: KeyPath,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Entries<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let PathReader { inner, at, reading } = &mut self.map;
        while let Some(key) = inner.next_key::<String>()? {
            self.entry = at.below(Step::Key(key.clone()));
            if is_extension(at, &key) || reading.skipped.contains(&self.entry) {
                inner.next_value::<IgnoredAny>().inspect_err(|_| reading.refuse(&self.entry))?;
                continue;
            }
            let key: StringDeserializer<A::Error> = key.into_deserializer();
            return seed.deserialize(key).map(Some).inspect_err(|_| reading.refuse(&self.entry));
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let PathReader { inner, reading, .. } = &mut self.map;
        inner.next_value_seed(PathReader { inner: seed, at: self.entry.clone(), reading })
    }
}
