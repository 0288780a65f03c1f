//! A sample of `tests/acceptance/corpus.sh`: recorded sessions, compacted in every way.

use std::path::PathBuf;

use forge_tests::sweep::{Tally, strategies, sweep};
use forge_transcript::{Draft, read};
use pretty_assertions::assert_eq;
use serde_json::Value;

#[test]
fn the_sessions_of_the_repository_are_compacted_in_every_way() {
    let bytes = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/reading.json")).unwrap();
    let mut tally = Tally::default();
    let n_judged = swept(&bytes, "reading.json", &mut tally);
    assert_eq!(tally.faults, Vec::<String>::new());
    assert!(tally.applied > 100 && n_judged > 100, "{tally}");
}

#[test]
fn a_sample_of_recorded_sessions_is_compacted_in_every_way() {
    let Some(root) = std::env::var_os("FORGE_CORPUS").map(PathBuf::from) else {
        skipped_tests::skip("FORGE_CORPUS is not set", "compacting recorded sessions");
        return;
    };
    let manifest: Vec<Value> =
        serde_json::from_slice(&std::fs::read(root.join("MANIFEST.json")).unwrap()).unwrap();
    let mut tally = Tally::default();
    let small = manifest.iter().filter(|entry| {
        entry["format"] == "claude-code-jsonl" && entry["bytes"].as_u64().is_some_and(|bytes| bytes < 60_000)
    });
    for file in small.take(4).map(|entry| entry["file"].as_str().unwrap()) {
        if let Ok(bytes) = std::fs::read(root.join(file)) {
            swept(&bytes, file, &mut tally);
        }
    }
    assert_eq!(tally.faults, Vec::<String>::new());
    assert!(tally.applied > 100, "{tally}");
}

#[test]
fn the_sweep_knows_every_strategy() {
    let names: Vec<String> = strategies().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names[0], "default");
    assert_eq!(names[1..], *forge_domain::compaction::Rung::IDS);
}

/// How many results and cuts judges would look at.
fn swept(bytes: &[u8], file: &str, tally: &mut Tally) -> usize {
    let mut n_judged = 0;
    for (nth, session) in read(bytes, file).unwrap().iter().enumerate() {
        let messages = Draft::open(session, nth).messages().collect();
        sweep(file, messages, tally, &mut |_| n_judged += 1);
    }
    n_judged
}
