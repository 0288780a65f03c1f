//! The system calls that seccomp refuses.

use std::collections::BTreeMap;
use std::io;

use libc::{ENOSYS, EPERM, c_long};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

/// The sockets that a command may create. Pairs of connected ones are allowed in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sockets {
    /// The usual families: local, IPv4, IPv6, and queries for routes.
    Usual,
    /// TCP alone.
    Tcp,
    /// No sockets.
    None,
}

/// Calls that no build, test or editor needs, and that inspect other processes or change the machine.
const REFUSED: [c_long; 40] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_perf_event_open,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
];

/// Calls that are answered as if the kernel did not know them, so that programs do without: their arguments
/// cannot be checked, or they do the same as refused calls.
const UNKNOWN: [c_long; 4] =
    [libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// The requests `TIOCSTI` and `TIOCLINUX`.
const TYPE_INTO_TERMINAL: u64 = 0x5412;
const PASTE_INTO_CONSOLE: u64 = 0x541c;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Refuses these calls to the calling thread and all that it starts.
pub(super) fn refuse(sockets: Sockets) -> io::Result<()> {
    let failed = |error: &dyn std::fmt::Display| io::Error::other(error.to_string());
    for (rules, error) in
        [(refused(sockets)?, EPERM), (UNKNOWN.iter().map(|call| (*call, Vec::new())).collect(), ENOSYS)]
    {
        let arch =
            std::env::consts::ARCH.try_into().map_err(|error: seccompiler::BackendError| failed(&error))?;
        let action = SeccompAction::Errno(error.unsigned_abs());
        let filter = SeccompFilter::new(on_every_interface(rules), SeccompAction::Allow, action, arch)
            .map_err(|error| failed(&error))?;
        let program: BpfProgram =
            filter.try_into().map_err(|error: seccompiler::BackendError| failed(&error))?;
        apply_filter(&program).map_err(|error| failed(&error))?;
    }
    Ok(())
}

fn refused(sockets: Sockets) -> io::Result<Rules> {
    let mut rules: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_socket, refused_sockets(sockets)?);
    rules.insert(libc::SYS_socketpair, vec![all(&[is_not(0, flag(libc::AF_UNIX))?])?]);
    // A user namespace of its own gives a process all rights in it, and the kernel more to err about.
    rules.insert(libc::SYS_clone, vec![all(&[has_bits(0, flag(libc::CLONE_NEWUSER))?])?]);
    // Typing into the terminal as if the person did.
    let typing = [TYPE_INTO_TERMINAL, PASTE_INTO_CONSOLE].into_iter().map(|request| all(&[is(1, request)?]));
    rules.insert(libc::SYS_ioctl, typing.collect::<io::Result<_>>()?);
    if sockets == Sockets::Tcp {
        // These connect without the call that Landlock judges.
        let fast_open = flag(libc::MSG_FASTOPEN);
        for (call, argument) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
            rules.insert(call, vec![all(&[has_bits(argument, fast_open)?])?]);
        }
    }
    Ok(rules)
}

/// Returns the rules that refuse a socket; an empty list of rules refuses every one.
fn refused_sockets(sockets: Sockets) -> io::Result<Vec<SeccompRule>> {
    let no_family = |families: &[i32]| -> io::Result<SeccompRule> {
        all(&families.iter().map(|family| is_not(0, flag(*family))).collect::<io::Result<Vec<_>>>()?)
    };
    match sockets {
        Sockets::None => Ok(Vec::new()),
        Sockets::Usual => {
            let other = no_family(&[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK])?;
            let other_netlink =
                all(&[is(0, flag(libc::AF_NETLINK))?, is_not(2, flag(libc::NETLINK_ROUTE))?])?;
            Ok(vec![other, other_netlink])
        }
        Sockets::Tcp => {
            // The kind without its flags; 1 is a stream.
            let kinds = [0, 2, 3, 4, 5, 6, 10].map(|kind| masked(1, 0xf, kind).and_then(|kind| all(&[kind])));
            let protocols = [0, libc::IPPROTO_TCP].map(|protocol| is_not(2, flag(protocol)));
            let protocols = protocols.into_iter().collect::<io::Result<Vec<_>>>()?;
            let mut rules = vec![no_family(&[libc::AF_INET, libc::AF_INET6])?, all(&protocols)?];
            rules.extend(kinds.into_iter().collect::<io::Result<Vec<_>>>()?);
            Ok(rules)
        }
    }
}

/// Adds the numbers of the same calls for programs with short pointers, if the kernel supports such programs.
#[cfg(target_arch = "x86_64")]
fn on_every_interface(rules: Rules) -> Rules {
    const SHORT: i64 = 0x4000_0000;
    let again: Vec<_> = rules.iter().map(|(call, rules)| (call | SHORT, rules.clone())).collect();
    // These have numbers of their own there, `ptrace` among them; no program needs them.
    let own = (512..548).map(|call| (call | SHORT, Vec::new()));
    rules.into_iter().chain(again).chain(own).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn on_every_interface(rules: Rules) -> Rules {
    rules
}

/// Returns the bits of a system constant as they appear in an argument.
fn flag(constant: i32) -> u64 {
    u64::from(constant.cast_unsigned())
}

fn all(conditions: &[SeccompCondition]) -> io::Result<SeccompRule> {
    SeccompRule::new(conditions.to_vec()).map_err(|error| io::Error::other(error.to_string()))
}

fn condition(argument: u8, comparison: SeccompCmpOp, value: u64) -> io::Result<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, comparison, value)
        .map_err(|error| io::Error::other(error.to_string()))
}

fn is(argument: u8, value: u64) -> io::Result<SeccompCondition> {
    condition(argument, SeccompCmpOp::Eq, value)
}

fn is_not(argument: u8, value: u64) -> io::Result<SeccompCondition> {
    condition(argument, SeccompCmpOp::Ne, value)
}

fn masked(argument: u8, mask: u64, value: u64) -> io::Result<SeccompCondition> {
    condition(argument, SeccompCmpOp::MaskedEq(mask), value)
}

fn has_bits(argument: u8, bits: u64) -> io::Result<SeccompCondition> {
    masked(argument, bits, bits)
}
