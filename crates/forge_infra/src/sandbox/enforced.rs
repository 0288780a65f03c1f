//! What of a sandbox the system enforces, as the supervisor reports it.

/// A part of the sandbox.
#[cfg_attr(not(unix), allow(dead_code, reason = "nothing is enforced there"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Which files are read and written.
    Files,
    /// What is closed although the folder around it may be written.
    Inside,
    /// That the network is what the rules allow.
    Network,
    /// That hosts which are named can be reached.
    Hosts,
    /// That named sockets of other programs are out of reach.
    Sockets,
    /// That other processes get no signals and abstract sockets are out of reach.
    Signals,
    /// Which system calls are refused, `ptrace` among them.
    Calls,
    /// How many processes there can be.
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

    /// Returns what is missing without it, in words.
    const fn lack(self) -> &'static str {
        match self {
            Self::Files => "files are not confined (Landlock is missing)",
            Self::Inside => "what is closed inside a writable folder can be read (it needs namespaces)",
            Self::Network => "the network is open",
            Self::Hosts => "hosts that are named cannot be reached",
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

/// The parts of the sandbox that hold.
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

    /// Returns whether every part holds.
    pub(crate) fn is_whole(self) -> bool {
        self.lacks().is_empty()
    }

    /// Returns what does not hold, in words.
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
