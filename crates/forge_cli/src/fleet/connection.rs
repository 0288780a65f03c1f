//! The connection to the scheduler of a fleet.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use forge_app::Scheduler;

use crate::failure::Misconfigured;

/// The variable that names the fleet.
const VARIABLE: &str = "FORGE_FLEET";

/// The fleet.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FleetFlags {
    /// The fleet: temporal://HOST:PORT/NAMESPACE [default: FORGE_FLEET]
    #[arg(long, value_name = "URL", global = true)]
    fleet: Option<String>,
}

impl FleetFlags {
    /// Checks that this Forge has fleets: nothing else can be wrong if it has none.
    pub(crate) fn check_is_built() -> Result<(), Misconfigured> {
        if cfg!(feature = "temporal") {
            return Ok(());
        }
        let what = "this Forge was built without the feature `temporal`, so it has no fleets\n  help: \
                    `cargo install --path crates/forge_cli --features temporal`, which needs `protoc`";
        Err(Misconfigured(what.to_owned()))
    }

    /// Connects to the scheduler. A run that is submitted is given to another worker after `heartbeat`
    /// without a sign of life.
    pub(crate) async fn connect(&self, heartbeat: Option<Duration>) -> anyhow::Result<Arc<dyn Scheduler>> {
        Self::check_is_built()?;
        let address = self.fleet.clone().or_else(|| std::env::var(VARIABLE).ok());
        let address = address.filter(|address| !address.is_empty()).ok_or_else(|| {
            let what = format!(
                "no fleet is named\n  help: add --fleet temporal://HOST:PORT/NAMESPACE, or set {VARIABLE}; \
                 docs/fleets.md starts one on this machine"
            );
            Misconfigured(what)
        })?;
        connect(&address, heartbeat).await
    }
}

#[cfg(feature = "temporal")]
async fn connect(address: &str, heartbeat: Option<Duration>) -> anyhow::Result<Arc<dyn Scheduler>> {
    use forge_app::SchedulerError;
    use forge_fleet::{TemporalOptions, TemporalScheduler, TemporalTls};

    use crate::places::environment;

    let mut options = TemporalOptions::default();
    options.heartbeat = heartbeat.unwrap_or(options.heartbeat);
    let tls = TemporalTls::of(&environment().into_iter().collect(), |file| std::fs::read(file));
    options.tls = tls.map_err(|error| Misconfigured(error.to_string()))?;
    let scheduler = TemporalScheduler::connect(address, options).await.map_err(|error| match error {
        SchedulerError::Address { .. } => anyhow::Error::new(Misconfigured(error.to_string())),
        error => error.into(),
    })?;
    Ok(Arc::new(scheduler))
}

#[cfg(not(feature = "temporal"))]
async fn connect(_: &str, _: Option<Duration>) -> anyhow::Result<Arc<dyn Scheduler>> {
    anyhow::bail!("this Forge has no fleets")
}
