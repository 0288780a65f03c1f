//! Tools that ask servers on the web.

mod address;
mod fetch;
#[cfg(test)]
mod fixture_server;
mod page_text;
mod search;

pub(super) use self::fetch::{Fetch, WebRoom};
pub(super) use self::search::{NAME, SearchRoom, WebSearch};
