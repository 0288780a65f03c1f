//! Namespaces: the command's own network, and a view of the files that covers sockets and closed places.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use forge_domain::{SandboxAccess, SandboxPolicy};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

use super::capabilities::may_set_up_namespaces;

/// The namespaces of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Namespaces {
    /// The command gets its own.
    Own,
    /// The command stays in those of this process.
    Outside,
}

/// Enters a user namespace if setting up others requires it. Call it before this process has a second thread.
///
/// # Errors
/// Fails if the namespace was entered and cannot be used: nothing may be started then.
pub(super) fn enter() -> io::Result<Namespaces> {
    if may_set_up_namespaces() {
        return Ok(Namespaces::Own);
    }
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    // Root would lose its way with the files of other users.
    if user.is_root() || unshare(CloneFlags::CLONE_NEWUSER).is_err() {
        return Ok(Namespaces::Outside);
    }
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{0} {0} 1", user.as_raw()))?;
    fs::write("/proc/self/gid_map", format!("{0} {0} 1", group.as_raw()))?;
    Ok(Namespaces::Own)
}

/// Checks whether this process has entered a user namespace of its own.
pub(super) fn is_own_user() -> bool {
    !rustix::process::geteuid().is_root()
}

/// Gives the calling thread its own view of the files and its own shared memory, and on request a network
/// with nothing but a loopback.
pub(super) fn separate(has_own_network: bool) -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC)?;
    if has_own_network {
        unshare(CloneFlags::CLONE_NEWNET)?;
        start_loopback()?;
    }
    Ok(())
}

/// Enables the interface `lo`.
fn start_loopback() -> io::Result<()> {
    const NEW_LINK: u16 = 16;
    const REQUEST_AND_ANSWER: u16 = 1 | 4;
    const LOOPBACK: i32 = 1;
    const UP: u32 = 1;
    let mut message = Vec::with_capacity(32);
    message.extend(32u32.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST_AND_ANSWER.to_ne_bytes());
    // Sequence and sender; family and kind.
    message.extend([0; 12]);
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    // No protocol is that of routes and interfaces.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    sendto(&socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; 256];
    let (n, _) = recv(&socket, &mut answer, RecvFlags::empty())?;
    // The error follows the header of 16 bytes; 0 means success.
    match answer.get(..n).and_then(|answer| answer.get(16..)).and_then(|rest| rest.first_chunk()) {
        Some(error) if i32::from_ne_bytes(*error) == 0 => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(-i32::from_ne_bytes(*error))),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Returns the named sockets that are bound outside the command's writable folders.
pub(super) fn named_sockets(policy: &SandboxPolicy) -> Vec<PathBuf> {
    let Ok(table) = fs::read_to_string("/proc/thread-self/net/unix") else { return Vec::new() };
    let mut found: Vec<PathBuf> = table
        .lines()
        .filter_map(socket_name)
        .filter(|path| policy.access(path) != SandboxAccess::Write)
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Returns the name in a line of the table: everything after the seventh column, if it is a path.
fn socket_name(line: &str) -> Option<PathBuf> {
    let mut rest = line;
    for _ in 0..7 {
        rest = rest.trim_start().split_once(' ')?.1;
    }
    let name = rest.trim_start();
    name.starts_with('/').then(|| PathBuf::from(name))
}

/// Folders in which programs create sockets while a command runs.
const SOCKET_FOLDERS: [&str; 3] = ["/run/user", "/run/dbus", "/tmp/.X11-unix"];

/// The things that were covered.
#[derive(Clone, Debug)]
pub(super) struct Hidden {
    /// True if every bound socket is covered.
    pub(super) has_sockets: bool,
    /// True if shared memory is the command's own.
    pub(super) has_own_shared_memory: bool,
    /// True if no folder on the way to what is closed can be replaced.
    pub(super) is_fixed: bool,
    /// The policy without the covered paths: the rest has to be closed in another way.
    pub(super) rest: SandboxPolicy,
}

impl Hidden {
    /// Returns the result of covering nothing.
    pub(super) fn nothing(policy: &SandboxPolicy) -> Self {
        Self { has_sockets: false, has_own_shared_memory: false, is_fixed: true, rest: policy.clone() }
    }
}

/// Covers sockets and closed paths in the calling thread's view of the files; shared memory becomes the
/// command's own.
pub(super) fn hide(policy: &SandboxPolicy, sockets: &[PathBuf]) -> Hidden {
    let mut hidden = Hidden::nothing(policy);
    // Nothing of this may be seen outside.
    if mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).is_err() {
        return hidden;
    }
    let mut covers = Covers::default();
    for folder in policy.ways_to_closed() {
        hidden.is_fixed &= fix(folder).is_ok();
    }
    hidden.rest.closed.retain(|path| {
        let is_whole = policy.access(path) == SandboxAccess::Closed && !policy.has_exceptions_below(path);
        // What covers files comes from there.
        !is_whole || path == Path::new("/dev") || covers.cover(path).is_err()
    });
    let folders = SOCKET_FOLDERS.iter().map(Path::new);
    let mut folders = folders.filter(|folder| !policy.write.iter().any(|path| path.starts_with(folder)));
    let has_folders = folders.all(|folder| covers.cover(folder).is_ok());
    hidden.has_sockets = has_folders && sockets.iter().all(|socket| covers.cover(socket).is_ok());
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    let shared = mount(Some("shm"), "/dev/shm", Some("tmpfs"), flags, Some("mode=1777"));
    hidden.has_own_shared_memory = shared.is_ok();
    hidden
}

/// Keeps a folder where it is: what something is mounted at can be neither renamed nor removed. A link can.
fn fix(folder: &Path) -> io::Result<()> {
    // Nothing leads through a missing one.
    let Ok(metadata) = fs::symlink_metadata(folder) else { return Ok(()) };
    if metadata.is_symlink() {
        return Err(io::Error::other("a link cannot be kept where it is"));
    }
    if metadata.is_dir() {
        mount(Some(folder), folder, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)?;
    }
    Ok(())
}

/// A tool that covers paths: a folder by an empty one, a file by nothing.
#[derive(Debug, Default)]
struct Covers {
    /// The first folder that was covered, which covers the others.
    empty: Option<PathBuf>,
}

impl Covers {
    /// Covers a path. A missing one needs no cover, and the target of a link has a name of its own.
    fn cover(&mut self, path: &Path) -> io::Result<()> {
        let kind = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata.file_type(),
            // Who cannot look at it cannot open it.
            Err(_) => return Ok(()),
        };
        if kind.is_symlink() {
            return Ok(());
        }
        let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        match (&self.empty, kind.is_dir()) {
            (_, false) => mount(Some("/dev/null"), path, None::<&str>, MsFlags::MS_BIND, None::<&str>)?,
            (Some(empty), true) => mount(Some(empty), path, None::<&str>, MsFlags::MS_BIND, None::<&str>)?,
            (None, true) => {
                mount(Some("closed"), path, Some("tmpfs"), flags, Some("mode=0555"))?;
                self.empty = Some(path.to_owned());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_on_the_way_cannot_be_kept() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(".", &link).unwrap();
        assert!(fix(&link).is_err());
        assert!(fix(&folder.path().join("missing")).is_ok());
    }

    #[test]
    fn the_table_of_sockets_is_read() {
        let table = "\
Num       RefCount Protocol Flags    Type St Inode Path
ffff9c0b: 00000002 00000000 00010000 0001 01 12345 /run/a socket
ffff9c0b: 00000002 00000000 00010000 0001 01   123 @abstract
ffff9c0b: 00000003 00000000 00000000 0001 03 45678
";
        let found: Vec<PathBuf> = table.lines().filter_map(socket_name).collect();
        assert_eq!(found, [PathBuf::from("/run/a socket")]);
    }
}
