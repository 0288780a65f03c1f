//! The parts of a sandbox that the system enforces, as the supervisor reports them.

/// A part of the sandbox.
#[cfg_attr(not(unix), allow(dead_code, reason = "nothing is enforced there"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The rules about the files to read and write.
    Files,
    /// The closed paths inside writable folders.
    Inside,
    /// The rules about the network.
    Network,
    /// The access to named hosts.
    Hosts,
    /// The separation from named sockets of other programs.
    Sockets,
    /// The separation of other processes from signals, and from abstract sockets.
    Signals,
    /// The refusal of system calls, `ptrace` among them.
    Calls,
    /// The limit on the number of processes.
    Processes,
}

impl Part {
    const ALL: [Self; 8] = [
        Self::Files,
        Self::Inside,
        Self::Network,
        Self::Hosts,
        Self::Sockets,
        Self::Signals,
        Self::Calls,
        Self::Processes,
    ];

    const fn bit(self) -> i32 {
        1 << self as i32
    }

    /// Returns a description of what is missing without it.
    const fn lack(self) -> &'static str {
        match self {
            Self::Files => "files are not confined (Landlock is missing)",
            Self::Inside => {
                "closed paths inside a writable folder can be read or replaced (closing them needs \
                 namespaces, and no link on the way)"
            }
            Self::Network => "the network is open",
            Self::Hosts => "named hosts cannot be reached",
            Self::Sockets => "named sockets of other programs can be reached",
            Self::Signals => {
                "signals and abstract sockets are not confined (Linux 6.12 or later confines them)"
            }
            Self::Calls => "system calls such as ptrace are not refused (seccomp is missing)",
            Self::Processes => {
                "the kernel does not limit the number of processes (a fast fork bomb may outrun Forge)"
            }
        }
    }
}

/// The parts of the sandbox that are enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Enforced(i32);

impl Enforced {
    #[cfg(unix)]
    pub(crate) const fn from_bits(bits: i32) -> Self {
        Self(bits)
    }

    #[cfg(unix)]
    pub(crate) const fn bits(self) -> i32 {
        self.0
    }

    #[cfg(unix)]
    pub(crate) const fn set(&mut self, part: Part, holds: bool) {
        if holds {
            self.0 |= part.bit();
        } else {
            self.0 &= !part.bit();
        }
    }

    /// Checks whether every part is enforced.
    pub(crate) fn is_whole(self) -> bool {
        self.lacks().is_empty()
    }

    /// Returns descriptions of the parts that are not enforced.
    pub(crate) fn lacks(self) -> Vec<&'static str> {
        Part::ALL.iter().filter(|part| self.0 & part.bit() == 0).map(|part| part.lack()).collect()
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_hold_is_told() {
        let mut enforced = Enforced::default();
        for part in Part::ALL {
            enforced.set(part, true);
        }
        assert!(Enforced::from_bits(enforced.bits()).is_whole());
        enforced.set(Part::Network, false);
        assert_eq!(enforced.lacks(), ["the network is open"]);
    }
}
