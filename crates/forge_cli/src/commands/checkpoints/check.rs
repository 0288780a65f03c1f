//! `forge checkpoints check`: reads everything back and reports damage.

use std::process::ExitCode;

use clap::Args;
use console::style;
use forge_domain::{Mending, StoreHealth, quantity};

use super::OpenStore;

/// Read everything back and report damage
#[derive(Debug, Args)]
pub(super) struct StoreCheckArguments {
    /// Rebuild indexes and the search first; the content is never changed
    #[arg(long)]
    repair: bool,
}

impl StoreCheckArguments {
    /// Checks the store; it is a failure if it is damaged.
    pub(super) async fn run(self, OpenStore { store, url, form }: &OpenStore) -> anyhow::Result<ExitCode> {
        let health = store.check(if self.repair { Mending::Indexes } else { Mending::LookOnly }).await?;
        form.answer(&health, || health_text(&health, &url.to_string()))?;
        Ok(if health.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Describes the result of a check.
fn health_text(health: &StoreHealth, place: &str) -> String {
    let StoreHealth { schema, checkpoints, bytes, faults } = health;
    let (checkpoints, bytes) = (quantity(checkpoints, "checkpoint"), quantity(bytes, "byte"));
    let mut text = format!("{place}: schema {schema}, {checkpoints}, {bytes}\n");
    if faults.is_empty() {
        text += &format!("{}\n", style("everything was read back and is intact").green());
    }
    for fault in faults {
        text += &format!("  {} {fault}\n", style("fault:").red());
    }
    text
}
