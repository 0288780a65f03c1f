//! Workflows in which something was exchanged for something else: whatever `check` finds has its place in the file.

use std::sync::Arc;

use forge_app::{BuildError, Orchestrator};
use forge_domain::{Provider, ProviderId};
use forge_services::workflow::{Layers, Source, load};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::orchestrator::{Echo, Script};

/// Files that load.
const SEEDS: [&str; 4] = [
    include_str!("../../forge.yaml"),
    include_str!("../fixtures/migration/02-three-transforms.yaml"),
    include_str!("../fixtures/migration/02-three-transforms.migrated.yaml"),
    include_str!("../fixtures/migration/07-quoted-keys-and-unicode.migrated.yaml"),
];

/// Keys and values from all over a workflow, and some that fit nowhere.
const WORDS: [&str; 44] = [
    "agents",
    "providers",
    "models",
    "variables",
    "hooks",
    "compact",
    "transforms",
    "model",
    "id",
    "tools",
    "subscribe",
    "system_prompt",
    "user_prompt",
    "token_threshold",
    "max_tokens",
    "retention_window",
    "strategies",
    "selection",
    "focus",
    "pin",
    "prompt",
    "summary_tag",
    "auto_compact",
    "agent_id",
    "input",
    "output",
    "token_limit",
    "type",
    "user",
    "assistant",
    "80%",
    "40%",
    "0",
    "1",
    "6",
    "99999999999",
    "-1",
    "true",
    "null",
    "''",
    "'{{nobody}}'",
    "'{{#if}}'",
    "nobody:nothing",
    "[sliding_window]",
];

/// One word of the text exchanged for another, or one line gone.
fn exchanged(text: &str, at: Index, with: Option<&str>) -> String {
    let Some(with) = with else {
        let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
        lines.remove(at.index(lines.len()));
        return lines.concat();
    };
    let is_word = |c: char| c.is_alphanumeric() || "_%:.-".contains(c);
    let starts: Vec<usize> = text
        .char_indices()
        .zip(std::iter::once(' ').chain(text.chars()))
        .filter(|((_, c), before)| is_word(*c) && !is_word(*before))
        .map(|((start, _), _)| start)
        .collect();
    let start = starts[at.index(starts.len())];
    let word =
        text[start..].find(|c: char| !is_word(c)).map_or(&text[start..], |end| &text[start..start + end]);
    let word = word.trim_end_matches(':');
    format!("{}{with}{}", &text[..start], &text[start + word.len()..])
}

/// Loads and checks `text`; whether it got as far as `check`, which found something.
fn holds(text: &str) -> bool {
    let layers = Layers { project: Some(Source::new("forge.yaml", text)), ..Layers::default() };
    let workflow = match load(&layers) {
        Ok(workflow) => workflow,
        Err(error) => {
            assert!(error.position.is_some(), "{error}\n{text}");
            return false;
        }
    };
    let script: Arc<dyn Provider> = Script::new(&[]);
    let builder = Orchestrator::builder().workflow(workflow).tools(Arc::new(Echo));
    match builder.provider(ProviderId::new("scripted").unwrap(), script).build() {
        Err(BuildError::Unusable(findings)) => {
            for finding in &findings {
                let error = layers.point_at(finding);
                assert!(error.position.is_some(), "{error}\n{text}");
            }
            true
        }
        Ok(_) | Err(_) => false,
    }
}

#[test]
fn what_check_finds_is_reached_by_these() {
    let yaml = SEEDS[1].replace("agent_id: recall", "agent_id: nobody");
    assert!(holds(&yaml) && !holds(SEEDS[0]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_exchanged_word_is_taken_or_refused_at_its_place(
        seed in select(SEEDS.as_slice()),
        changes in proptest::collection::vec(
            (any::<Index>(), proptest::option::weighted(0.9, select(WORDS.as_slice()))), 1..4),
    ) {
        holds(&changes.iter().fold(seed.to_owned(), |text, (at, with)| exchanged(&text, *at, *with)));
    }
}
