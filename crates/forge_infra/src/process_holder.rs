//! The identity of this process among all that write runs, and the check whether another one still exists.

use std::fs;

use forge_domain::Holder;
use sha2::{Digest, Sha256};

/// This process, as a [`Holder`].
///
/// Its name identifies the process and the machine: its number, its start time, its namespace of process
/// numbers (another container has another), the boot of the machine and the machine. Another process is gone
/// if no process with its number and start time exists in the same namespace, or if the machine has booted
/// since. On systems without `/proc`, no process is known to be gone.
pub struct ProcessHolder {
    name: String,
    this: Option<Identity>,
}

/// The values that distinguish a process from all others that ever existed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    process: u32,
    host: String,
    /// Clock ticks from the boot to the start of the process.
    started: u64,
    space: u64,
    boot: String,
    /// The machine's id; empty if it has none.
    machine: String,
}

impl ProcessHolder {
    /// Returns the holder for this process.
    pub fn this() -> Self {
        let this = Identity::of_this_process();
        let unknown = || format!("process {}", std::process::id());
        Self { name: this.as_ref().map_or_else(unknown, Identity::name), this }
    }
}

impl Holder for ProcessHolder {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_gone(&self, name: &str) -> bool {
        let (Some(this), Some(other)) = (&self.this, Identity::parse(name)) else { return false };
        this.knows_gone(&other, start_time)
    }
}

impl Identity {
    fn of_this_process() -> Option<Self> {
        let line = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let space = fs::read_link("/proc/self/ns/pid").ok()?.to_string_lossy().into_owned();
        let process = std::process::id();
        Some(Self {
            process,
            host: line("/proc/sys/kernel/hostname")?.replace(char::is_whitespace, "-"),
            started: start_time(process)?,
            space: space.trim_matches(|c: char| !c.is_ascii_digit()).parse().ok()?,
            boot: digest(&line("/proc/sys/kernel/random/boot_id")?),
            // The id itself stays private.
            machine: line("/etc/machine-id")
                .filter(|id| !id.is_empty())
                .map_or_else(String::new, |id| digest(&id)),
        })
    }

    fn name(&self) -> String {
        let Self { process, host, started, space, boot, machine } = self;
        format!("process {process} on {host} ({started}/{space}/{boot}/{machine})")
    }

    fn parse(name: &str) -> Option<Self> {
        let (process, rest) = name.strip_prefix("process ")?.split_once(" on ")?;
        let (host, rest) = rest.rsplit_once(" (")?;
        let mut parts = rest.strip_suffix(')')?.split('/');
        let mut part = || parts.next();
        Some(Self {
            process: process.parse().ok()?,
            host: host.to_owned(),
            started: part()?.parse().ok()?,
            space: part()?.parse().ok()?,
            boot: part()?.to_owned(),
            machine: part()?.to_owned(),
        })
    }

    /// Checks whether `other` has certainly ended; `started` returns the start time of a process in this
    /// one's namespace.
    fn knows_gone(&self, other: &Self, started: impl Fn(u32) -> Option<u64>) -> bool {
        if self.boot == other.boot {
            return self.space == other.space && started(other.process) != Some(other.started);
        }
        // What a machine ran before it booted is gone.
        !self.machine.is_empty() && self.machine == other.machine && self.host == other.host
    }
}

/// Returns the start time of the process, in ticks since the boot; `None` if no process has that number.
fn start_time(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in brackets may hold anything, brackets and blanks as well.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    // One that has ended and was not yet asked for its end writes nothing more.
    let is_zombie = fields.next().is_some_and(|state| state == "Z" || state == "X");
    fields.nth(18).filter(|_| !is_zombie)?.parse().ok()
}

fn digest(text: &str) -> String {
    hex::encode(&Sha256::digest(text)[..4])
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn identity() -> Identity {
        Identity {
            process: 7,
            host: "athena".into(),
            started: 100,
            space: 4_026_531_836,
            boot: "b0".into(),
            machine: "m0".into(),
        }
    }

    #[test]
    fn a_name_says_who_it_is() {
        for identity in [identity(), Identity { machine: String::new(), ..identity() }] {
            assert_eq!(Identity::parse(&identity.name()), Some(identity));
        }
        for name in ["", "somebody", "process 7", "process x on y (1/2/a/b)", "process 7 on athena (1/2/a)"] {
            assert_eq!(Identity::parse(name), None, "{name}");
        }
    }

    #[test]
    fn one_is_gone_where_that_is_certain() {
        // In this space, process 7 started at 100.
        let started = |process: u32| (process == 7).then_some(100);
        for (name, other, expected) in [
            ("it is there", identity(), false),
            ("there is none of that number", Identity { process: 8, ..identity() }, true),
            ("the number was given again", Identity { started: 90, ..identity() }, true),
            ("another container", Identity { process: 8, space: 5, ..identity() }, false),
            ("the machine has booted since", Identity { boot: "b1".into(), ..identity() }, true),
            ("another machine", Identity { boot: "b1".into(), machine: "m1".into(), ..identity() }, false),
            (
                "a copy of the machine",
                Identity { boot: "b1".into(), host: "zeus".into(), ..identity() },
                false,
            ),
        ] {
            assert_eq!(identity().knows_gone(&other, started), expected, "{name}");
        }
        let nameless = Identity { machine: String::new(), ..identity() };
        assert!(!nameless.knows_gone(&Identity { boot: "b1".into(), ..nameless.clone() }, started));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_there_and_one_that_ended_is_not() {
        let this = ProcessHolder::this();
        assert!(!this.is_gone(this.name()), "{}", this.name());
        assert!(!this.is_gone("somebody"));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let identity = Identity { process: child.id(), ..this.this.clone().unwrap() };
        child.wait().unwrap();
        assert!(this.is_gone(&identity.name()));
    }
}
