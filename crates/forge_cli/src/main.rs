//! The binary `forge`.

use std::process::ExitCode;

fn main() -> ExitCode {
    forge_cli::main()
}
