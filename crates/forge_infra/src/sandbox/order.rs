//! The supervisor's order about the sandbox, and the start of the command in it.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use forge_domain::SandboxPolicy;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use super::Enforced;

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

/// A command that was started in its sandbox.
pub(crate) struct Begun {
    pub(crate) leader: Pid,
    pub(crate) enforced: Enforced,
    /// The listener through which it reaches the hosts that it may reach.
    pub(crate) proxy: Option<std::net::TcpListener>,
    /// The files to keep open until the command has ended.
    pub(crate) held: Vec<std::fs::File>,
}

impl Begun {
    /// Starts a command without a sandbox.
    pub(crate) fn plainly(mut command: Command) -> io::Result<Self> {
        let leader = pid_of(&command.spawn()?)?;
        Ok(Self { leader, enforced: Enforced::default(), proxy: None, held: Vec::new() })
    }
}

/// The error for a sandbox that is required as a whole and only enforced in these parts; nothing was started.
#[derive(Debug, thiserror::Error)]
#[error("the sandbox cannot be enforced in full")]
pub(crate) struct Partial(pub(crate) Enforced);

/// Starts `command`, whose output and environment are set, according to the order.
#[cfg(target_os = "linux")]
pub(crate) fn start(
    mut command: Command,
    order: &Order,
    entered: &super::linux::Entered,
) -> io::Result<Begun> {
    // What is done to this thread, the command inherits; this process does not.
    std::thread::scope(|scope| {
        let confined = scope.spawn(|| {
            let confined = super::linux::confine(&order.policy, entered)?;
            if order.policy.is_required && !confined.enforced.is_whole() {
                return Err(io::Error::other(Partial(confined.enforced)));
            }
            if let Some(proxy) = &confined.proxy {
                super::proxy::add_to(&mut command, proxy.local_addr()?);
            }
            let leader = pid_of(&command.spawn()?)?;
            Ok(Begun { leader, enforced: confined.enforced, proxy: confined.proxy, held: confined.held })
        });
        confined.join().unwrap_or_else(|_| Err(io::Error::other("the sandbox cannot be set up")))
    })
}

/// Starts `command`, whose output and environment are set, according to the order.
#[cfg(target_os = "macos")]
pub(crate) fn start(command: Command, order: &Order) -> io::Result<Begun> {
    use super::Part;
    let proxy = match &order.policy.network {
        forge_domain::SandboxNetwork::Hosts(_) => Some(std::net::TcpListener::bind(("127.0.0.1", 0))?),
        _ => None,
    };
    let address = proxy.as_ref().map(std::net::TcpListener::local_addr).transpose()?;
    let mut confined = super::macos::confined(&command, &order.policy, address.map(|address| address.port()));
    if let Some(address) = address {
        super::proxy::add_to(&mut confined, address);
    }
    let mut enforced = Enforced::default();
    for part in Part::ALL {
        enforced.set(part, true);
    }
    Ok(Begun { leader: pid_of(&confined.spawn()?)?, enforced, proxy, held: Vec::new() })
}

/// Starts `command`: this system has no sandbox that Forge supports.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub(crate) fn start(command: Command, order: &Order) -> io::Result<Begun> {
    if order.policy.is_required {
        return Err(io::Error::other(Partial(Enforced::default())));
    }
    Begun::plainly(command)
}

pub(crate) fn pid_of(child: &std::process::Child) -> io::Result<Pid> {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    id.ok_or_else(|| io::Error::other("the command has no process number"))
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
