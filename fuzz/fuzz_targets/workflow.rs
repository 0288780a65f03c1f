//! Any text as `forge.yaml`.
#![no_main]

use forge_services::workflow::{Layers, Source, load};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let layers = Layers { project: Some(Source::new("forge.yaml", text)), ..Layers::default() };
    if let Err(error) = load(&layers) {
        assert!(!error.to_string().is_empty());
    }
});
