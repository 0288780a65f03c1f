//! The order about the sandbox that a supervisor receives.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use forge_domain::SandboxPolicy;
use serde::{Deserialize, Serialize};

/// The most bytes of an order.
const MOST: u32 = 1 << 20;

/// An order to a supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) policy: SandboxPolicy,
    /// True if namespaces may be tried.
    pub(crate) has_namespaces: bool,
}

/// True if namespaces were found to be unusable here.
static WITHOUT_NAMESPACES: AtomicBool = AtomicBool::new(false);

impl Order {
    /// Creates an order to enforce this policy with what the system is known to have.
    pub(crate) fn to_enforce(policy: &SandboxPolicy) -> Self {
        Self { policy: policy.clone(), has_namespaces: !WITHOUT_NAMESPACES.load(Ordering::Relaxed) }
    }
}

/// Makes later orders of this process avoid namespaces.
pub(crate) fn do_without_namespaces() {
    WITHOUT_NAMESPACES.store(true, Ordering::Relaxed);
}

/// Encodes an order, or its absence.
pub(crate) fn bytes(order: Option<&Order>) -> io::Result<Vec<u8>> {
    let bytes = order.map(serde_json::to_vec).transpose()?.unwrap_or_default();
    let length = u32::try_from(bytes.len()).ok().filter(|length| *length <= MOST);
    let length = length.ok_or_else(|| io::Error::other("the sandbox has too many rules"))?;
    Ok(length.to_le_bytes().into_iter().chain(bytes).collect())
}

/// Receives an order; `None` if there is none.
pub(crate) fn receive(mut line: &UnixStream) -> io::Result<Option<Order>> {
    let mut length = [0; 4];
    line.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length == 0 {
        return Ok(None);
    }
    if length > MOST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length as usize];
    line.read_exact(&mut bytes)?;
    Ok(Some(serde_json::from_slice(&bytes)?))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_order_arrives_as_it_was_sent() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (&ours).write_all(&bytes(None).unwrap()).unwrap();
        assert!(receive(&theirs).unwrap().is_none());
        let policy =
            SandboxPolicy::decide(&forge_domain::Sandbox::default(), &forge_domain::SandboxPlaces::default());
        let order = Order { policy: policy.clone(), has_namespaces: true };
        (&ours).write_all(&bytes(Some(&order)).unwrap()).unwrap();
        let received = receive(&theirs).unwrap().unwrap();
        assert_eq!((received.policy, received.has_namespaces), (policy, true));
        drop(ours);
        assert!(receive(&theirs).is_err());
    }
}
