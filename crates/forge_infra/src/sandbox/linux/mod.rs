//! The sandbox on Linux: namespaces for the network and for sockets, Landlock for files, signals and abstract
//! sockets, seccomp for system calls.
//!
//! All of it is set up on one thread of the supervisor, which then starts the command. The command inherits
//! it, and the supervisor itself stays outside, where the command can neither stop nor read it.

mod calls;
mod capabilities;
mod files;
pub(crate) mod limits;
mod namespaces;
mod tasks;

use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::path::Path;

use forge_domain::{SandboxNetwork, SandboxPolicy};

use self::calls::Sockets;
use self::namespaces::{Hidden, Namespaces};
use self::tasks::TaskLimit;
use super::enforcement::{Enforced, Part};
use super::order::Order;

/// The things that a supervisor has entered before it starts a command.
#[derive(Debug)]
pub(crate) struct Entered {
    namespaces: Namespaces,
    tasks: TaskLimit,
}

/// Prepares this process for a command in a sandbox. Call it before the process has a second thread.
///
/// # Errors
/// Fails if a namespace was entered and cannot be used: nothing may be started then.
pub(crate) fn enter(order: &Order) -> io::Result<Entered> {
    let namespaces = if order.has_namespaces { namespaces::enter()? } else { Namespaces::Outside };
    let is_own_user = namespaces == Namespaces::Own && namespaces::is_own_user();
    Ok(Entered { namespaces, tasks: TaskLimit::set(&order.policy, is_own_user) })
}

/// The result of confining a thread.
pub(crate) struct Confined {
    /// The parts that are enforced from now on.
    pub(crate) enforced: Enforced,
    /// The listener through which the command reaches the hosts that it may reach.
    pub(crate) proxy: Option<TcpListener>,
    /// The namespaces. Their last holder removes them, which takes time; that should not be the command.
    pub(crate) held: Vec<File>,
}

/// The error for namespaces that were entered and cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("namespaces are of no use here")]
struct Useless;

/// Checks whether an error means that the start must be repeated without namespaces.
pub(crate) fn is_useless(error: &io::Error) -> bool {
    error.get_ref().and_then(|error| error.downcast_ref::<Useless>()).is_some()
}

/// Confines the calling thread and all that it starts, as far as the kernel can.
///
/// # Errors
/// Fails if the network cannot be separated after a user namespace was entered: nothing may be started then.
pub(crate) fn confine(policy: &SandboxPolicy, entered: &Entered) -> io::Result<Confined> {
    let namespaces = entered.namespaces;
    let mut enforced = Enforced::default();
    enforced.set(Part::Processes, entered.tasks.holds());
    let wants_own_network = policy.network != SandboxNetwork::All;
    // What must be known of the world outside before it is left.
    let sockets = namespaces::named_sockets(policy);
    let has_separated = match namespaces {
        Namespaces::Outside => false,
        Namespaces::Own => match namespaces::separate(wants_own_network) {
            Ok(()) => true,
            // This process is in a namespace by now in which it is of no use.
            Err(_) if namespaces::is_own_user() => return Err(io::Error::other(Useless)),
            Err(_) => false,
        },
    };
    let hidden = if has_separated { namespaces::hide(policy, &sockets) } else { Hidden::nothing(policy) };
    enforced.set(Part::Sockets, hidden.has_sockets);
    let is_closed = !hidden.rest.closed_within_writable().any(Path::exists);
    enforced.set(Part::Inside, is_closed && hidden.is_fixed);
    enforced.set(Part::Network, has_separated || !wants_own_network);
    let held = match has_separated {
        true => ["mnt", "net"]
            .iter()
            .filter_map(|name| File::open(format!("/proc/thread-self/ns/{name}")).ok())
            .collect(),
        false => Vec::new(),
    };
    let proxy = match &policy.network {
        SandboxNetwork::Hosts(_) => TcpListener::bind(("127.0.0.1", 0)).ok(),
        SandboxNetwork::None | SandboxNetwork::All => None,
    };
    let port = proxy.as_ref().and_then(|proxy| Some(proxy.local_addr().ok()?.port()));
    let files = files::Wanted {
        policy: &hidden.rest,
        has_own_shared_memory: hidden.has_own_shared_memory,
        only_port: port.filter(|_| !has_separated),
    };
    let files = files::restrict(&files);
    enforced.set(Part::Files, files.has_files);
    enforced.set(Part::Signals, files.has_scopes);
    let sockets = match (&policy.network, has_separated) {
        (SandboxNetwork::All, _) | (_, true) => Sockets::Usual,
        // Landlock holds connections to the one port of the proxy.
        (SandboxNetwork::Hosts(_), false) if files.has_port => Sockets::Tcp,
        (_, false) => Sockets::None,
    };
    capabilities::drop_dangerous();
    let has_calls = calls::refuse(sockets).is_ok();
    enforced.set(Part::Calls, has_calls);
    if !has_separated && wants_own_network {
        enforced.set(Part::Network, has_calls);
        // Without a socket no process connects to one that has a name.
        enforced.set(Part::Sockets, has_calls);
    }
    let has_hosts = proxy.is_some() && sockets != Sockets::None;
    enforced.set(Part::Hosts, has_hosts || !matches!(policy.network, SandboxNetwork::Hosts(_)));
    Ok(Confined { enforced, proxy: proxy.filter(|_| has_hosts), held })
}
