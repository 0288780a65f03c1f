//! What ends a run from outside: the signals that ask for it.
//!
//! Each drops the work that is going on, so that whatever a hook started is killed, instead of ending the process on the
//! spot and leaving that behind.

/// What asked the run to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// The person pressed Ctrl-C.
    Interrupted,
    /// Somebody asked the process to end.
    #[cfg(unix)]
    Terminated,
    /// The terminal is gone.
    #[cfg(unix)]
    HungUp,
}

impl Interruption {
    /// The exit code: 128 and the number of the signal, as shells have it.
    pub(crate) const fn exit_code(self) -> u8 {
        match self {
            Self::Interrupted => 130,
            #[cfg(unix)]
            Self::Terminated => 143,
            #[cfg(unix)]
            Self::HungUp => 129,
        }
    }

    /// The word for it.
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

/// Waits until something asks the run to end.
#[cfg(unix)]
pub(crate) async fn interruption() -> Interruption {
    use tokio::signal::unix::SignalKind;
    tokio::select! {
        _ = tokio::signal::ctrl_c() => Interruption::Interrupted,
        () = arrival(SignalKind::terminate()) => Interruption::Terminated,
        () = arrival(SignalKind::hangup()) => Interruption::HungUp,
    }
}

/// Waits until something asks the run to end.
#[cfg(not(unix))]
pub(crate) async fn interruption() -> Interruption {
    let _ = tokio::signal::ctrl_c().await;
    Interruption::Interrupted
}

/// Waits until somebody asks a second time. A terminal that is closed does not count: its shell and the system each say so.
#[cfg(unix)]
pub(crate) async fn insistence() {
    use tokio::signal::unix::SignalKind;
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = arrival(SignalKind::terminate()) => {}
    }
}

/// Waits until somebody asks a second time.
#[cfg(not(unix))]
pub(crate) async fn insistence() {
    let _ = tokio::signal::ctrl_c().await;
}

/// Waits for a signal; for ever where whoever started this process, such as `nohup`, has it ignored.
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

/// Whether a process ignores the signal of that number, by what Linux says of its status.
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
