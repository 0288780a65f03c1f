//! The example that everyone runs holds.

use forge_services::workflow::{Layers, Source, check_references, load};
use pretty_assertions::assert_eq;

use crate::forge::{Forge, repository};

#[test]
fn the_example_configuration_parses_and_checks() {
    let text = std::fs::read_to_string(repository("forge.yaml")).unwrap();
    let layers = Layers { project: Some(Source::new("forge.yaml", &text)), ..Layers::default() };
    let workflow = load(&layers).unwrap();
    assert_eq!(check_references(&workflow), []);
    let forge = Forge::new().with_file("forge.yaml", &text);
    let actual = forge.run(&["config", "check"]);
    assert_eq!((actual.code, actual.stdout.as_str()), (0, "forge.yaml: no errors in reader, small\n"));
}

#[test]
fn what_is_shown_can_be_read_again() {
    let text = std::fs::read_to_string(repository("forge.yaml")).unwrap();
    let shown = Forge::new().with_file("forge.yaml", &text).run(&["config", "show"]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    let again = Forge::new().with_file("forge.yaml", &shown.stdout).run(&["config", "show"]);
    assert_eq!(again.stdout, shown.stdout);
}

#[test]
fn both_forms_of_agents_are_the_same() {
    let list = "agents: [{ id: researcher, model: gpt-4-turbo, system_prompt: You are a helpful assistant., \
                compact: { max_tokens: 4000, token_threshold: 6000, turn_threshold: 10, message_threshold: 30 } }]";
    let map = "agents:\n  researcher:\n    id: researcher\n    model: gpt-4-turbo\n    \
               system_prompt: \"You are a helpful assistant.\"\n    \
               compact: { max_tokens: 4000, token_threshold: 6000, turn_threshold: 10, message_threshold: 30 }\n";
    let shown =
        |yaml: &str| Forge::new().with_file("forge.yaml", yaml).run(&["config", "show", "--json"]).stdout;
    assert_eq!(shown(list), shown(map));
    assert!(shown(map).contains("\"turn_threshold\": 10"));
}
