//! Any text as `forge.yaml`.
#![no_main]

use forge_services::workflow::{Layers, Source, WorkflowError, check_references, examine, load, migrate};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let source = Source::new("forge.yaml", text);
    let layers = of(text);
    let loaded = load(&layers);
    match &loaded {
        Ok(workflow) => check_references(workflow).iter().for_each(|found| says_where(&layers.point_at(found))),
        Err(error) => says_where(error),
    }
    let faults = examine(&layers).faults;
    assert!(loaded.is_ok() || !faults.is_empty());
    faults.iter().for_each(says_where);
    match migrate(&source, None) {
        Err(error) => says_where(&error),
        Ok(migration) => {
            assert!(loaded.is_err() || load(&of(&migration.text)).is_ok());
            let again = migrate(&Source::new("forge.yaml", &migration.text), None);
            assert!(again.is_ok_and(|again| again.text == migration.text && again.done.is_empty()));
        }
    }
});

fn of(text: &str) -> Layers {
    Layers { project: Some(Source::new("forge.yaml", text)), ..Layers::default() }
}

fn says_where(error: &WorkflowError) {
    assert!(error.position.is_some() && !error.what.is_empty(), "{error}");
    assert!(error.to_string().len() > 10);
}
