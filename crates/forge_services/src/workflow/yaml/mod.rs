//! YAML as text: its places, the paths of its keys, and reading without some of them.

mod key_path;
mod outline;
mod path_reader;
mod quoted;
mod source;

pub(super) use self::key_path::{KeyPath, Step};
pub(super) use self::outline::{Entry, Node, NodeContent, Outline, RepeatedKey};
pub(super) use self::path_reader::{PathReader, Reading};
pub(super) use self::quoted::{Unset, named_variables, with_quoted_variables};
pub use self::source::{Position, Source, Variables};
