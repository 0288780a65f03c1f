//! The attack of `tests/acceptance/fleet_chaos.py` in a small form.

use std::path::Path;
use std::process::Command;

use crate::server::binary;

#[test]
fn a_small_fleet_under_attack_loses_nothing_and_does_nothing_twice() {
    attack(&[]);
}

#[test]
fn files_that_travel_are_those_of_the_calls_that_are_kept() {
    attack(&["--files"]);
}

fn attack(more: &[&str]) {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let has_postgres = Path::new("/usr/lib/postgresql").is_dir() || has("pg_ctl");
    let Some(temporal) = binary().filter(|_| has_postgres && has("python3")) else {
        skipped_tests::skip("no Temporal, Postgres or Python", "a fleet under attack");
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("acceptance/fleet_chaos.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(env!("CARGO_BIN_EXE_forge_under_test")).arg(temporal);
    command.args(["--runs", "6", "--turns", "15", "--every", "3", "--limit", "600"]).args(more);
    let output = command.output().unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    assert!(said.contains("| runs lost | 0 |") && said.contains("| executed twice | 0 |"), "{said}");
}
