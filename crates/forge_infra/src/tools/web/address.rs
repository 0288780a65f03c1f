//! The network addresses that may be contacted: those that everyone can reach, and those that YAML allows.
//!
//! Names are looked up here and nowhere else, and closed addresses are removed from the result. The
//! connection goes to a checked address, so a name that resolves differently the next time changes nothing.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use forge_domain::PrivatePlace;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// A resolver of names.
#[async_trait]
pub(super) trait Lookup: Send + Sync {
    /// Returns the addresses of `host`.
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The system's resolver.
pub(super) struct SystemLookup;

#[async_trait]
impl Lookup for SystemLookup {
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// The rules about which addresses may be contacted.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) allowed: Arc<[PrivatePlace]>,
    pub(super) lookup: Arc<dyn Lookup>,
}

/// The error for an address that may not be contacted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Closed {
    host: String,
    address: IpAddr,
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, address } = self;
        let is_literal = host.trim_matches(['[', ']']).parse() == Ok(*address);
        let leads = if is_literal { String::new() } else { format!(" leads to {address}, which") };
        write!(
            f,
            "`{host}`{leads} is not a public address and is not contacted (the user may allow it with \
             `tool_settings: {{ fetch: {{ allow_private: [{host}] }} }}` in forge.yaml)"
        )
    }
}

impl Error for Closed {}

impl Gate {
    /// Rejects a closed address that is written out; a name is checked when it is looked up.
    pub(super) fn judge(&self, url: &Url) -> Result<(), Closed> {
        let host = url.host_str().unwrap_or_default();
        match host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(address) if !self.is_open(host, address) => Err(Closed { host: host.to_owned(), address }),
            _ => Ok(()),
        }
    }

    fn is_open(&self, host: &str, address: IpAddr) -> bool {
        is_public(address) || self.allowed.iter().any(|place| place.holds(host, address))
    }
}

impl Resolve for Gate {
    fn resolve(&self, name: Name) -> Resolving {
        let gate = self.clone();
        Box::pin(async move {
            let host = name.as_str();
            let addresses = gate.lookup.addresses(host).await?;
            let (open, closed): (Vec<_>, Vec<_>) =
                addresses.into_iter().partition(|address| gate.is_open(host, *address));
            match (open.is_empty(), closed.first()) {
                (true, Some(address)) => Err(Closed { host: host.to_owned(), address: *address }.into()),
                _ => Ok(Box::new(open.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs),
            }
        })
    }
}

/// Checks whether everyone can reach `address`, in any form. An IPv4 address inside an IPv6 address counts as
/// that address.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || a == 0
        // Shared by the customers of a carrier.
        || a == 100 && (64..128).contains(&b)
        // For protocols, for measuring, and what is reserved, broadcast among it.
        || (a, b, c) == (192, 0, 0)
        || (a, b, c) == (192, 88, 99)
        || a == 198 && (18..20).contains(&b)
        || a >= 240;
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let s = address.segments();
    let inner = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    if let Some(mapped) = address.to_ipv4_mapped() {
        return is_public_v4(mapped);
    }
    match s {
        // NAT64 and 6to4.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => is_public_v4(inner(high, low)),
        // Teredo and what else stands under 2001::/23; documentation.
        [0x2001, low, ..] if low < 0x200 || low == 0xdb8 => false,
        [0x3fff, low, ..] if low < 0x1000 => false,
        // All that is given out; not loopback, link-local, unique local, multicast, or in an older form.
        [first, ..] => (0x2000..0x4000).contains(&first),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn only_what_everybody_can_reach_is_public() {
        for (address, expected) in [
            ("93.184.216.34", true),
            ("1.1.1.1", true),
            ("100.63.255.255", true),
            ("100.128.0.1", true),
            ("172.15.0.1", true),
            ("172.32.0.1", true),
            ("0.0.0.0", false),
            ("0.1.2.3", false),
            ("10.0.0.5", false),
            ("100.64.0.1", false),
            ("100.127.255.255", false),
            ("127.0.0.1", false),
            ("127.8.8.8", false),
            ("169.254.169.254", false),
            ("172.16.0.1", false),
            ("172.31.255.255", false),
            ("192.0.0.8", false),
            ("192.0.2.1", false),
            ("192.168.1.1", false),
            ("198.18.0.1", false),
            ("198.51.100.1", false),
            ("203.0.113.1", false),
            ("224.0.0.1", false),
            ("239.255.255.255", false),
            ("240.0.0.1", false),
            ("255.255.255.255", false),
            ("2606:2800:220:1:248:1893:25c8:1946", true),
            ("2001:4860:4860::8888", true),
            ("::", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:10.0.0.5", false),
            ("::ffff:1.1.1.1", true),
            ("::127.0.0.1", false),
            ("64:ff9b::7f00:1", false),
            ("64:ff9b::101:101", true),
            ("64:ff9b:1::1", false),
            ("2002:7f00:1::", false),
            ("2002:a00:5::1", false),
            ("2002:101:101::1", true),
            ("2001:0:4136:e378::1", false),
            ("2001:db8::1", false),
            ("100::1", false),
            ("fc00::1", false),
            ("fd12:3456::1", false),
            ("fe80::1", false),
            ("fec0::1", false),
            ("ff02::1", false),
            ("4000::1", false),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn an_address_is_judged_in_every_form() {
        let gate = |allowed: &[&str]| Gate {
            allowed: allowed
                .iter()
                .map(|place| PrivatePlace::try_from((*place).to_owned()).unwrap())
                .collect(),
            lookup: Arc::new(SystemLookup),
        };
        for (url, expected) in [
            ("http://127.0.0.1/", false),
            ("http://127.1/", false),
            ("http://2130706433/", false),
            ("http://0x7f000001/", false),
            ("http://0x7f.1/", false),
            ("http://017700000001/", false),
            ("http://127.0.0.1./", false),
            ("http://①②⑦.0.0.1/", false),
            ("http://%31%32%37.0.0.1/", false),
            ("http://[::1]/", false),
            ("http://[::ffff:7f00:1]/", false),
            ("http://[0:0:0:0:0:ffff:127.0.0.1]/", false),
            ("http://169.254.169.254/latest/meta-data", false),
            ("http://1.1.1.1/", true),
            // A name is judged by what it leads to.
            ("http://localhost/", true),
        ] {
            assert_eq!(gate(&[]).judge(&url.parse().unwrap()).is_ok(), expected, "{url}");
        }
        let allowed = gate(&["127.0.0.1", "10.0.0.0/8", "fd00::/8", "intranet.test"]);
        for (url, expected) in [
            ("http://127.0.0.1/", true),
            ("http://2130706433/", true),
            ("http://[::ffff:127.0.0.1]/", true),
            ("http://127.0.0.2/", false),
            ("http://10.200.3.4/", true),
            ("http://11.0.0.1/", true),
            ("http://192.168.0.1/", false),
            ("http://[fd00::1]/", true),
            ("http://[fe80::1]/", false),
        ] {
            assert_eq!(allowed.judge(&url.parse().unwrap()).is_ok(), expected, "{url}");
        }
        let private = "10.1.1.1".parse().unwrap();
        let other = "192.168.1.1".parse().unwrap();
        assert!(allowed.is_open("intranet.test", other) && allowed.is_open("any.test", private));
        assert!(!allowed.is_open("any.test", other) && !allowed.is_open("x.intranet.test", other));
    }
}
