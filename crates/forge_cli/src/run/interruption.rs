//! The signals that end a run from outside.
//!
//! Each drops the current work, so that everything that a hook started is killed, instead of ending the
//! process at once and leaving that behind.

/// The cause of an interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// The user pressed Ctrl-C.
    Interrupted,
    /// A signal asked the process to end.
    #[cfg(unix)]
    Terminated,
    /// The terminal is gone.
    #[cfg(unix)]
    HungUp,
}

impl Interruption {
    /// Returns the exit code: 128 and the number of the signal, as in shells.
    pub(crate) const fn exit_code(self) -> u8 {
        match self {
            Self::Interrupted => 130,
            #[cfg(unix)]
            Self::Terminated => 143,
            #[cfg(unix)]
            Self::HungUp => 129,
        }
    }

    /// Returns the word for it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Interrupted => "interrupted",
            #[cfg(unix)]
            Self::Terminated => "terminated",
            #[cfg(unix)]
            Self::HungUp => "hung up",
        }
    }
}

/// Waits for an interruption.
#[cfg(unix)]
pub(crate) async fn interruption() -> Interruption {
    use tokio::signal::unix::SignalKind;
    tokio::select! {
        _ = tokio::signal::ctrl_c() => Interruption::Interrupted,
        () = arrival(SignalKind::terminate()) => Interruption::Terminated,
        () = arrival(SignalKind::hangup()) => Interruption::HungUp,
    }
}

/// Waits for an interruption.
#[cfg(not(unix))]
pub(crate) async fn interruption() -> Interruption {
    let _ = tokio::signal::ctrl_c().await;
    Interruption::Interrupted
}

/// Waits for a second request to end. A closed terminal does not count: its shell and the system both report
/// it.
#[cfg(unix)]
pub(crate) async fn insistence() {
    use tokio::signal::unix::SignalKind;
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = arrival(SignalKind::terminate()) => {}
    }
}

/// Waits for a second request to end.
#[cfg(not(unix))]
pub(crate) async fn insistence() {
    let _ = tokio::signal::ctrl_c().await;
}

/// Waits for a signal; forever if the parent process, such as `nohup`, has it ignored.
#[cfg(unix)]
async fn arrival(kind: tokio::signal::unix::SignalKind) {
    let ignored = std::fs::read_to_string("/proc/self/status");
    let is_ignored = ignored.is_ok_and(|status| is_ignored(&status, kind.as_raw_value()));
    let heard = if is_ignored { None } else { tokio::signal::unix::signal(kind).ok() };
    match heard {
        Some(mut heard) => drop(heard.recv().await),
        None => std::future::pending().await,
    }
}

/// Checks whether a process ignores the signal of that number, according to its status on Linux.
#[cfg(unix)]
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_ignored_signal_is_told_by_its_bit() {
        let status = "Name:\tforge\nSigBlk:\tffffffffffffffff\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        let ignored: Vec<i32> = (1..=31).filter(|signal| is_ignored(status, *signal)).collect();
        assert_eq!(ignored, [1, 13]);
        assert!(!is_ignored("", 1));
    }
}
