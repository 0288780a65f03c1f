//! YAML as text: its places, the paths of its keys, and reading without some of them.

mod key_path;
mod outline;
mod quoted;
mod skips;
mod source;

pub(super) use self::key_path::{KeyPath, Step};
pub(super) use self::outline::{Entry, Node, NodeContent, Outline, RepeatedKey};
pub(super) use self::quoted::{Unset, with_quoted_variables};
pub(super) use self::skips::{Skips, WithSkips};
pub use self::source::{Position, Source, Variables};
