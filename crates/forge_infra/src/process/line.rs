//! The line to the supervisor of a command.

use std::io;

use tokio::io::AsyncWriteExt;
use tokio::process::Child;

use super::pid_of;
use crate::sandbox::order::{self, Order};
use crate::supervisor::Report;

/// The line to a supervisor. Closing it ends the command.
pub(super) struct Line {
    pub(super) stream: tokio::net::UnixStream,
    /// The received part of the next report.
    bytes: Vec<u8>,
    /// The last report: nothing comes after the end.
    pub(super) ended: Option<Report>,
    supervisor: Option<rustix::process::Pid>,
    pub(super) mark: String,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.wake();
    }
}

impl Line {
    pub(super) fn new(stream: tokio::net::UnixStream, supervisor: &Child, mark: &str) -> Self {
        let supervisor = pid_of(supervisor);
        Self { stream, bytes: Vec::new(), ended: None, supervisor, mark: mark.to_owned() }
    }

    /// Continues a supervisor that the command has stopped: it could not end anything.
    pub(super) fn wake(&self) {
        if let Some(supervisor) = self.supervisor
            && self.ended.is_none()
        {
            let _ = rustix::process::kill_process(supervisor, rustix::process::Signal::CONT);
        }
    }

    /// Sends the part of a sandbox to enforce.
    pub(super) async fn send(&mut self, order: Option<&Order>) -> io::Result<()> {
        self.stream.write_all(&order::bytes(order)?).await
    }

    /// Waits for the next report. It can be cancelled at any time.
    pub(super) async fn report(&mut self) -> io::Result<Report> {
        loop {
            if let Some(report) = self.report_now() {
                return report;
            }
            self.stream.readable().await?;
        }
    }

    /// Returns the next report, if it has come.
    pub(super) fn report_now(&mut self) -> Option<io::Result<Report>> {
        if let Some(report) = self.ended {
            return Some(Ok(report));
        }
        loop {
            if let Some(whole) = self.bytes.first_chunk() {
                let report = Report::read(*whole);
                self.bytes.drain(..Report::SIZE);
                let report = report.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData));
                self.ended =
                    report.as_ref().ok().filter(|report| matches!(report, Report::Ended(_))).copied();
                return Some(report);
            }
            let mut bytes = [0; Report::SIZE];
            match self.stream.try_read(&mut bytes) {
                Ok(0) => return Some(Err(io::ErrorKind::UnexpectedEof.into())),
                Ok(n) => self.bytes.extend_from_slice(&bytes[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
