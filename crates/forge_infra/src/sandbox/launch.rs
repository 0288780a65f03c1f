//! The start of a command in its sandbox.

use std::io;
use std::process::Command;

use rustix::process::Pid;

use super::Enforced;
use super::order::Order;

/// A command that was started in its sandbox.
pub(crate) struct Launch {
    pub(crate) leader: Pid,
    pub(crate) enforced: Enforced,
    /// The listener through which it reaches the hosts that it may reach.
    pub(crate) proxy: Option<std::net::TcpListener>,
    /// The files to keep open until the command has ended.
    pub(crate) held: Vec<std::fs::File>,
}

impl Launch {
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
) -> io::Result<Launch> {
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
            Ok(Launch { leader, enforced: confined.enforced, proxy: confined.proxy, held: confined.held })
        });
        confined.join().unwrap_or_else(|_| Err(io::Error::other("the sandbox cannot be set up")))
    })
}

/// Starts `command`, whose output and environment are set, according to the order.
#[cfg(target_os = "macos")]
pub(crate) fn start(command: Command, order: &Order) -> io::Result<Launch> {
    use super::Part;
    let proxy = match &order.policy.network {
        forge_domain::SandboxNetwork::Hosts(_) => Some(std::net::TcpListener::bind(("127.0.0.1", 0))?),
        _ => None,
    };
    let address = proxy.as_ref().map(std::net::TcpListener::local_addr).transpose()?;
    let mut confined = super::macos::confine(&command, &order.policy, address.map(|address| address.port()));
    if let Some(address) = address {
        super::proxy::add_to(&mut confined, address);
    }
    let mut enforced = Enforced::default();
    for part in Part::ALL {
        enforced.set(part, true);
    }
    Ok(Launch { leader: pid_of(&confined.spawn()?)?, enforced, proxy, held: Vec::new() })
}

/// Starts `command`: this system has no sandbox that Forge supports.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub(crate) fn start(command: Command, order: &Order) -> io::Result<Launch> {
    if order.policy.is_required {
        return Err(io::Error::other(Partial(Enforced::default())));
    }
    Launch::plainly(command)
}

pub(crate) fn pid_of(child: &std::process::Child) -> io::Result<Pid> {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    id.ok_or_else(|| io::Error::other("the command has no process number"))
}
