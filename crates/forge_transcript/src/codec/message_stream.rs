//! A document with a list of messages, read entry by entry.

use std::fmt;
use std::io::Read;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::message_list::{Signs, is_message};

/// The facts that have to be known of a document before its messages can be read.
#[derive(Default)]
pub(crate) struct Head {
    /// The evidence for the protocol of its messages; `None` if there are none.
    signs: Option<Signs>,
    pub(crate) system: Option<Box<RawValue>>,
    pub(crate) tools: Option<Box<RawValue>>,
    /// A small document of the same looks: the same keys, and the first messages.
    pub(crate) sample: String,
}

/// The size up to which an entry is part of a sample, and the number of those that are.
const SAMPLED: (usize, usize) = (64 * 1024, 60);

impl Head {
    /// Reads the head of a document; returns `None` if it is neither a list of messages nor a request with
    /// one.
    pub(crate) fn of(reader: impl Read) -> Option<Self> {
        let mut head = Self::default();
        let mut parser = serde_json::Deserializer::from_reader(reader);
        parser.deserialize_any(HeadVisitor(&mut head)).ok()?;
        parser.end().ok()?;
        head.signs.is_some().then_some(head)
    }

    /// Checks whether the messages are Anthropic's. What fits both protocols is OpenAI's.
    pub(crate) fn is_anthropics(&self) -> bool {
        self.signs.as_ref().is_some_and(|signs| signs.are_anthropics(self.system.is_some()))
    }
}

/// Passes each entry of a document's list of messages to `take`, until it accepts no more.
pub(crate) fn stream_entries(
    reader: impl Read,
    take: &mut dyn FnMut(&str) -> bool,
) -> Result<(), serde_json::Error> {
    serde_json::Deserializer::from_reader(reader).deserialize_any(EntriesVisitor(take))
}

struct HeadVisitor<'h>(&'h mut Head);

impl<'de> Visitor<'de> for HeadVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut signs = Signs::default();
        let mut sample = Sample::default();
        let mut is_first = true;
        while let Some(item) = items.next_element::<Box<RawValue>>()? {
            // The trials of tau-bench, and other lists, are not messages.
            if is_first && !is_message(item.get()) {
                return Err(A::Error::custom("not a list of messages"));
            }
            is_first = false;
            signs.look(item.get());
            sample.add(item.get());
        }
        self.0.signs = (!is_first).then_some(signs);
        self.0.sample = sample.list();
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut sampled = Vec::new();
        while let Some(key) = fields.next_key::<String>()? {
            let mut sample = Sample::default();
            match key.as_str() {
                "messages" => {
                    let mut signs = Signs::default();
                    fields.next_value_seed(Each(&mut |entry: &str| {
                        signs.look(entry);
                        sample.add(entry);
                        true
                    }))?;
                    self.0.signs = Some(signs);
                }
                "system" => self.0.system = fields.next_value()?,
                "tools" => self.0.tools = fields.next_value()?,
                _ => {
                    fields.next_value::<IgnoredAny>()?;
                }
            }
            sampled.push(format!("{}:{}", Value::String(key), sample.list()));
        }
        self.0.sample = format!("{{{}}}", sampled.join(","));
        Ok(())
    }
}

/// The first entries of a list.
#[derive(Default)]
struct Sample(Vec<String>);

impl Sample {
    fn add(&mut self, entry: &str) {
        if self.0.len() < SAMPLED.1 && entry.len() <= SAMPLED.0 {
            self.0.push(entry.to_owned());
        }
    }

    fn list(&self) -> String {
        format!("[{}]", self.0.join(","))
    }
}

/// The entries of the document, one by one, until one is not taken.
struct EntriesVisitor<'t>(&'t mut dyn FnMut(&str) -> bool);

impl<'de> Visitor<'de> for EntriesVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<(), A::Error> {
        Each(self.0).visit_seq(items)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(key) = fields.next_key::<String>()? {
            if key == "messages" {
                fields.next_value_seed(Each(&mut *self.0))?;
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// The items of a list, one by one, until one is not taken.
struct Each<'t>(&'t mut dyn FnMut(&str) -> bool);

impl<'de> DeserializeSeed<'de> for Each<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, list: D) -> Result<(), D::Error> {
        list.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Each<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element::<Box<RawValue>>()? {
            if !(self.0)(item.get()) {
                return Err(A::Error::custom("this entry is no message"));
            }
        }
        Ok(())
    }
}
