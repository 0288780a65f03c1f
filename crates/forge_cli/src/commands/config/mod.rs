//! `forge config`: checks, shows and migrates the configuration.

mod check;
mod migrate;
mod resolution;
mod schema;
mod show;

use std::process::ExitCode;

use clap::{Args, Subcommand};

pub(super) use self::check::examine_layers;
pub(super) use self::schema::schema_text;

use super::commands;

/// Check, show or migrate the configuration
#[derive(Debug, Args)]
pub(crate) struct ConfigArguments {
    #[command(subcommand)]
    command: ConfigCommand,
}

impl ConfigArguments {
    /// Runs the command on the configuration.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        self.command.run()
    }
}

commands! {
    ConfigCommand {
        Check(check::ConfigCheckArguments),
        Schema(schema::SchemaArguments),
        Migrate(migrate::MigrateArguments),
        Show(show::ConfigShowArguments),
    }
}
