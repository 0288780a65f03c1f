//! The values of the sandbox's settings: paths, hosts, sizes.

use std::borrow::Cow;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value of the sandbox's settings that is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SandboxValueError {
    /// A path that is relative or has detours.
    #[error("invalid path '{0}' (it must begin with `/` or `~/` and must not contain `..`)")]
    Path(String),
    /// An invalid host.
    #[error(
        "invalid host '{0}' (expected a name or address, such as crates.io, *.npmjs.org or localhost:5432)"
    )]
    Host(String),
    /// An invalid size.
    #[error("invalid size '{0}' (expected a number with M or G, such as 512M or 4G)")]
    Size(String),
}

/// A path of the sandbox's rules: absolute, or below the home folder as `~/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, extend("pattern" = r"^(/|~$|~/)"))]
pub struct SandboxPath(String);

impl SandboxPath {
    /// Returns the path on a machine with this home folder; `None` if it is below a home folder and there is
    /// none.
    pub fn resolve(&self, home: Option<&Path>) -> Option<PathBuf> {
        match self.0.strip_prefix('~') {
            Some(rest) => Some(home?.join(rest.trim_start_matches('/'))),
            None => Some(PathBuf::from(&self.0)),
        }
    }

    /// Returns whether `other` is this path or below it.
    pub(super) fn contains(&self, other: &Self) -> bool {
        Path::new(&other.0).starts_with(&self.0)
    }
}

impl TryFrom<String> for SandboxPath {
    type Error = SandboxValueError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let begins_well = text.starts_with('/') || text == "~" || text.starts_with("~/");
        let has_detour = Path::new(&text).components().any(|part| part == Component::ParentDir);
        if !begins_well || has_detour || text.contains('\0') {
            return Err(SandboxValueError::Path(text));
        }
        Ok(Self(text))
    }
}

impl From<SandboxPath> for String {
    fn from(path: SandboxPath) -> Self {
        path.0
    }
}

/// A host that commands may reach: a name, `*.` and a name, or an address; a port may follow after a colon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, extend("pattern" = r"^(\*\.)?[^\s/*@]+$"))]
pub struct SandboxHost {
    text: String,
    /// The name or address in lower case, without brackets; of `*.a.org` it is `.a.org`.
    name: String,
    port: Option<u16>,
}

impl SandboxHost {
    /// Returns whether this rule allows the port of the host. Without a port of its own a rule allows those
    /// of HTTP and HTTPS.
    pub fn allows(&self, host: &str, port: u16) -> bool {
        let host = plain_host(host);
        let is_named = match self.name.strip_prefix('.') {
            Some(_) => host.ends_with(&self.name) && host.len() > self.name.len(),
            None => host == self.name,
        };
        is_named && self.port.map_or(matches!(port, 80 | 443), |own| own == port)
    }

    /// Returns whether all that `other` allows is allowed by this rule.
    fn contains(&self, other: &Self) -> bool {
        let is_wider =
            self.name == other.name || (self.name.starts_with('.') && other.name.ends_with(&self.name));
        is_wider && self.port == other.port
    }

    /// Returns whether the rule names this host exactly, without a wildcard.
    pub fn names(&self, host: &str) -> bool {
        plain_host(host) == self.name
    }
}

/// Returns a host in lower case, without brackets and without the dot at its end.
fn plain_host(host: &str) -> String {
    host.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase()
}

impl TryFrom<String> for SandboxHost {
    type Error = SandboxValueError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let is_address = text.parse::<std::net::IpAddr>().is_ok();
        let (host, port) = match text.rsplit_once(':').filter(|_| !is_address) {
            // An address of the sixth version in brackets.
            Some((_, rest)) if rest.ends_with(']') => (text.as_str(), None),
            Some((host, port)) => (host, Some(port)),
            None => (text.as_str(), None),
        };
        let port = port.map(|port| port.parse::<u16>().ok().filter(|port| *port > 0));
        let bare = host.strip_prefix("*.").unwrap_or(host);
        let is_bad =
            |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | '*' | '@' | '%' | '?' | '#');
        let is_bracketed = bare.starts_with('[') && bare.ends_with(']');
        let has_stray_colon = bare.contains(':') && !is_address && !is_bracketed;
        let is_host =
            !bare.is_empty() && !bare.starts_with('.') && !bare.contains(is_bad) && !has_stray_colon;
        if !is_host || port == Some(None) {
            return Err(SandboxValueError::Host(text));
        }
        let name = plain_host(host.strip_prefix('*').unwrap_or(host));
        Ok(Self { name, port: port.flatten(), text })
    }
}

impl From<SandboxHost> for String {
    fn from(host: SandboxHost) -> Self {
        host.text
    }
}

/// The network that commands reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SandboxNetwork {
    /// Nothing; a loopback of their own where the system has one for them.
    #[default]
    None,
    /// These hosts, by HTTP and HTTPS through a proxy.
    Hosts(Vec<SandboxHost>),
    /// Everything.
    All,
}

impl SandboxNetwork {
    /// Returns what both allow.
    pub(super) fn intersection(self, other: &Self) -> Self {
        match (self, other) {
            (Self::None, _) | (_, Self::None) => Self::None,
            (Self::All, other) => other.clone(),
            (own, Self::All) => own,
            (Self::Hosts(own), Self::Hosts(theirs)) => {
                Self::Hosts(common(&own, theirs, SandboxHost::contains))
            }
        }
    }
}

/// Returns the largest values that are contained in both lists.
pub(super) fn common<T: Clone>(own: &[T], theirs: &[T], contains: impl Fn(&T, &T) -> bool) -> Vec<T> {
    let is_in = |value: &T, list: &[T]| list.iter().any(|larger| contains(larger, value));
    let mut found: Vec<T> = own.iter().filter(|value| is_in(value, theirs)).cloned().collect();
    let narrower: Vec<T> =
        theirs.iter().filter(|value| is_in(value, own) && !is_in(value, &found)).cloned().collect();
    found.extend(narrower);
    found
}

impl Serialize for SandboxNetwork {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_str("none"),
            Self::All => serializer.serialize_str("all"),
            Self::Hosts(hosts) => hosts.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for SandboxNetwork {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NetworkVisitor)
    }
}

struct NetworkVisitor;

impl<'de> Visitor<'de> for NetworkVisitor {
    type Value = SandboxNetwork;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("none, all or a list of hosts")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        match text {
            "none" => Ok(SandboxNetwork::None),
            "all" => Ok(SandboxNetwork::All),
            other => {
                Err(E::custom(format!("invalid network '{other}' (expected none, all or a list of hosts)")))
            }
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, hosts: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(hosts)).map(SandboxNetwork::Hosts)
    }
}

impl JsonSchema for SandboxNetwork {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "SandboxNetwork".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let hosts = generator.subschema_for::<Vec<SandboxHost>>();
        json_schema!({ "anyOf": [{ "type": "string", "enum": ["none", "all"] }, hosts] })
    }
}

/// An amount of memory, written as `512M` or `4G`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, with = "String", extend("pattern" = r"^[1-9][0-9]{0,6}[MG]$"))]
pub struct MemorySize(u64);

impl MemorySize {
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    /// Returns the number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl TryFrom<String> for MemorySize {
    type Error = SandboxValueError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let units = [('M', Self::MIB), ('G', Self::GIB)];
        let size = units.iter().find_map(|(letter, unit)| {
            let digits = text.strip_suffix(*letter)?;
            let is_plain = digits.len() <= 7 && digits.bytes().all(|byte| byte.is_ascii_digit());
            let number = digits.parse::<u64>().ok().filter(|_| is_plain && !digits.starts_with('0'))?;
            Some(Self(number * unit))
        });
        size.ok_or(SandboxValueError::Size(text))
    }
}

impl From<MemorySize> for String {
    fn from(size: MemorySize) -> Self {
        match size.0 % MemorySize::GIB {
            0 => format!("{}G", size.0 / MemorySize::GIB),
            _ => format!("{}M", size.0 / MemorySize::MIB),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_allows_its_hosts_and_ports() {
        for (rule, host, port, expected) in [
            ("a.org", "a.org", 443, true),
            ("a.org", "A.ORG.", 80, true),
            ("a.org", "a.org", 22, false),
            ("a.org", "x.a.org", 443, false),
            ("a.org", "ba.org", 443, false),
            ("*.a.org", "x.a.org", 443, true),
            ("*.a.org", "x.y.a.org", 443, true),
            ("*.a.org", "a.org", 443, false),
            ("*.a.org", "xa.org", 443, false),
            ("a.org:8080", "a.org", 8080, true),
            ("a.org:8080", "a.org", 443, false),
            ("[::1]:5432", "::1", 5432, true),
            ("::1", "[::1]", 80, true),
            ("127.0.0.1:1", "127.0.0.1", 1, true),
        ] {
            let rule = SandboxHost::try_from(rule.to_owned()).unwrap();
            assert_eq!(rule.allows(host, port), expected, "{rule:?} {host}:{port}");
        }
    }
}
