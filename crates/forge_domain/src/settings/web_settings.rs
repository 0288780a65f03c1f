//! The YAML settings of the tools that use the network.

use std::net::IpAddr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::TimeLimit;

/// The settings of the tool `fetch`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FetchSettings {
    /// Time limit of a page, redirects included. Default 30 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "30s", "examples" = ["1m"]))]
    pub timeout: Option<TimeLimit>,
    /// Private addresses that may be asked: an address, a range such as 10.0.0.0/8, or a host's name. Unset:
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [["10.0.0.0/8", "intranet.example"]]))]
    pub allow_private: Vec<PrivatePlace>,
}

impl FetchSettings {
    /// Returns the time limit for a page.
    pub fn time_limit(&self) -> Duration {
        self.timeout.map_or(Duration::from_secs(30), TimeLimit::duration)
    }
}

/// A private part of the network: an address, a range of them, or what a host's name resolves to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, extend("pattern" = r"^[^\s/]+(/[0-9]+)?$"))]
pub struct PrivatePlace {
    text: String,
    range: Option<(IpAddr, u32)>,
}

/// A text that is neither an address nor a range nor a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid host '{0}' (expected an address, a range such as 10.0.0.0/8, or a host name)")]
pub struct PrivatePlaceError(String);

impl PrivatePlace {
    /// Checks whether `address`, to which the name `host` resolves, is in it.
    pub fn holds(&self, host: &str, address: IpAddr) -> bool {
        match self.range {
            None => self.text.eq_ignore_ascii_case(host.trim_end_matches('.')),
            Some((start, n_bits)) => {
                let ((one, width), (other, other_width)) = (bits(start), bits(address));
                // All of it if no bit is fixed.
                width == other_width && (n_bits == 0 || (one ^ other) >> (width - n_bits) == 0)
            }
        }
    }
}

/// Returns an address as a number with its number of bits; a version 4 address inside one of version 6 counts
/// as itself.
fn bits(address: IpAddr) -> (u128, u32) {
    match address.to_canonical() {
        IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    }
}

impl TryFrom<String> for PrivatePlace {
    type Error = PrivatePlaceError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let (start, length) =
            text.split_once('/').map_or((text.as_str(), None), |(start, length)| (start, Some(length)));
        let range = match (start.parse::<IpAddr>(), length) {
            (Ok(start), None) => Some((start, bits(start).1)),
            (Ok(start), Some(length)) => {
                let n_bits = length.parse().ok().filter(|n_bits| *n_bits <= bits(start).1);
                match n_bits {
                    Some(n_bits) => Some((start, n_bits)),
                    None => return Err(PrivatePlaceError(text)),
                }
            }
            (Err(_), None) => None,
            (Err(_), Some(_)) => return Err(PrivatePlaceError(text)),
        };
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
        if text.is_empty() || range.is_none() && !text.chars().all(is_name) {
            return Err(PrivatePlaceError(text));
        }
        Ok(Self { text, range })
    }
}

impl From<PrivatePlace> for String {
    fn from(place: PrivatePlace) -> Self {
        place.text
    }
}

/// The endpoint of the tool `web_search`, and the form of its answers: JSON with a list of results, as
/// SearXNG and others return.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebSearchSettings {
    /// Address, in which `{query}` is replaced by the search words.
    #[schemars(extend("examples" = ["http://localhost:8888/search?q={query}&format=json"]))]
    pub endpoint: SearchUrl,
    /// Name of the environment variable that holds the key. Unset: no key is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["SEARCH_API_KEY"]))]
    pub api_key_env: Option<String>,
    /// Header that carries the key. Unset: `authorization`, with `Bearer` before the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["X-Subscription-Token"]))]
    pub key_header: Option<String>,
    /// JSON pointer to the list of results in the answer. Default `/results`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "/results", "examples" = ["/web/results"]))]
    pub results: Option<String>,
    /// Key of a result's title. Default `title`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "title", "examples" = ["title"]))]
    pub title: Option<String>,
    /// Key of a result's address. Default `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "url", "examples" = ["url"]))]
    pub link: Option<String>,
    /// Key of a result's text. Default `content`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "content", "examples" = ["content"]))]
    pub snippet: Option<String>,
    /// Time limit of an answer. Default 30 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "30s", "examples" = ["10s"]))]
    pub timeout: Option<TimeLimit>,
}

impl WebSearchSettings {
    /// Returns all defaults with this address.
    pub const fn at(endpoint: SearchUrl) -> Self {
        Self {
            endpoint,
            api_key_env: None,
            key_header: None,
            results: None,
            title: None,
            link: None,
            snippet: None,
            timeout: None,
        }
    }

    /// Returns the time limit for an answer.
    pub fn time_limit(&self) -> Duration {
        self.timeout.map_or(Duration::from_secs(30), TimeLimit::duration)
    }
}

/// An address over HTTP in which `{query}` stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, extend("pattern" = r"^https?://.*\{query\}"))]
pub struct SearchUrl(String);

/// A text that is not such a address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid endpoint (expected an http:// or https:// address with {{query}} in place of the search \
     words)"
)]
pub struct SearchUrlError;

impl SearchUrl {
    const QUERY: &str = "{query}";

    /// Returns the address that asks for `query`, which is percent-encoded.
    pub fn address_for(&self, query: &str) -> String {
        let mut encoded = String::new();
        for byte in query.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    encoded.push(char::from(byte));
                }
                byte => encoded.push_str(&format!("%{byte:02X}")),
            }
        }
        self.0.replace(Self::QUERY, &encoded)
    }
}

impl TryFrom<String> for SearchUrl {
    type Error = SearchUrlError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let is_http = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
        if is_http && text.contains(Self::QUERY) { Ok(Self(text)) } else { Err(SearchUrlError) }
    }
}

impl From<SearchUrl> for String {
    fn from(url: SearchUrl) -> Self {
        url.0
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_place_is_an_address_a_range_or_a_name() {
        for (text, host, address, expected) in [
            ("10.0.0.5", "x", "10.0.0.5", Some(true)),
            ("10.0.0.5", "x", "10.0.0.6", Some(false)),
            ("10.0.0.0/8", "x", "10.255.0.1", Some(true)),
            ("10.0.0.0/8", "x", "11.0.0.1", Some(false)),
            ("10.0.0.0/8", "x", "::ffff:10.1.1.1", Some(true)),
            ("0.0.0.0/0", "x", "127.0.0.1", Some(true)),
            ("0.0.0.0/0", "x", "::1", Some(false)),
            ("::1", "x", "::1", Some(true)),
            ("fd00::/8", "x", "fdff::1", Some(true)),
            ("fd00::/8", "x", "fe80::1", Some(false)),
            ("Intranet.test", "intranet.TEST.", "10.0.0.1", Some(true)),
            ("intranet.test", "a.intranet.test", "10.0.0.1", Some(false)),
            ("10.0.0.0/33", "x", "::1", None),
            ("10.0.0.0/", "x", "::1", None),
            ("name/8", "x", "::1", None),
            ("http://a", "x", "::1", None),
            ("a b", "x", "::1", None),
            ("", "x", "::1", None),
        ] {
            let place = PrivatePlace::try_from(text.to_owned()).ok();
            let actual = place.map(|place| place.holds(host, address.parse().unwrap()));
            assert_eq!(actual, expected, "{text} {host} {address}");
        }
    }

    #[test]
    fn what_is_looked_for_is_written_as_addresses_have_it() {
        let url = SearchUrl::try_from("http://s.test/?q={query}&format=json".to_owned()).unwrap();
        assert_eq!(url.address_for("a b&c=é#"), "http://s.test/?q=a%20b%26c%3D%C3%A9%23&format=json");
        for wrong in ["", "http://s.test/", "ftp://s.test/{query}", "{query}"] {
            assert_eq!(SearchUrl::try_from(wrong.to_owned()), Err(SearchUrlError), "{wrong}");
        }
    }
}
