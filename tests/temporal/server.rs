//! A Temporal server in memory, which ends with its test.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use forge_fleet::{TemporalOptions, TemporalScheduler};
use tokio::sync::{Mutex, MutexGuard};

/// One server at a time: each takes 130 MB.
static ONE: Mutex<()> = Mutex::const_new(());

pub(crate) struct TemporalServer {
    child: Child,
    port: u16,
    _turn: MutexGuard<'static, ()>,
}

impl Drop for TemporalServer {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).map(drop).unwrap_or_default();
    }
}

impl TemporalServer {
    /// Starts a server for the check, or notes that it is skipped.
    pub(crate) async fn start(check: &str) -> Option<Self> {
        let Some(binary) = binary() else {
            skipped_tests::skip("no Temporal", check);
            return None;
        };
        let turn = ONE.lock().await;
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(binary)
            .args([
                "server",
                "start-dev",
                "--headless",
                "--ip",
                "127.0.0.1",
                "--log-level",
                "never",
                "--port",
            ])
            .arg(port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Some(Self { child, port, _turn: turn })
    }

    pub(crate) fn address(&self) -> String {
        format!("temporal://127.0.0.1:{}/default", self.port)
    }

    /// Connects to the server as soon as it serves.
    pub(crate) async fn scheduler(&self) -> TemporalScheduler {
        let options = TemporalOptions {
            heartbeat: Duration::from_secs(2),
            // Recorded histories have it: it tells nothing of the machine.
            identity: "test".to_owned(),
            ..TemporalOptions::default()
        };
        loop {
            match TemporalScheduler::connect(&self.address(), options.clone()).await {
                Ok(scheduler) => return scheduler,
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }
}

/// Returns the server's binary, if there is one.
pub(crate) fn binary() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("FORGE_TEMPORAL") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("temporal")).find(|file| file.is_file())
}
