//! Pauses in this machine's own time.

use std::time::Duration;

use async_trait::async_trait;
use forge_domain::Pause;

/// A pause by the runtime's timer.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemPause;

#[async_trait]
impl Pause for SystemPause {
    async fn pause(&self, how_long: Duration) {
        tokio::time::sleep(how_long).await;
    }
}
