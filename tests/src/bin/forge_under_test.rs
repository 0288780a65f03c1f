//! The binary `forge` as the integration tests run it: cargo builds it beside them.

use std::process::ExitCode;

fn main() -> ExitCode {
    forge_cli::main()
}
