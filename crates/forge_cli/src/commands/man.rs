//! `forge man`: the commands as `man` needs them.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, CommandFactory as _};

use super::Arguments;
use crate::output;

/// Print the man page: `forge man | man -l -`
#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// Write a page for every command into this folder instead
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

impl ManArguments {
    /// Prints the man page, or writes those of every command into a folder.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.output {
            Some(folder) => std::fs::create_dir_all(&folder)
                .and_then(|()| clap_mangen::generate_to(Arguments::command(), &folder))
                .with_context(|| format!("cannot write manual pages into {}", folder.display()))?,
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(Arguments::command()).render(&mut page)?;
                output::print(&String::from_utf8(page)?)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
