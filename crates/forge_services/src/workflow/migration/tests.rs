//! Migrations of small texts; whole files are in the integration tests.

use pretty_assertions::assert_eq;

use super::*;

/// Migrates `yaml`, below an agent `s` that summarizes.
fn migrate_text(yaml: &str) -> Migration {
    migrate(&Source::new("forge.yaml", yaml), None).unwrap()
}

const SUM: &str = "  s: { model: 'p:m' }\n";
const KEYS: &str = "input: i, output: o, agent_id: s";

#[test]
fn the_limit_becomes_trigger_and_target() {
    for (limit, expected) in [
        ("80000", "token_threshold: 80000, max_tokens: 50000"),
        ("6000", "token_threshold: 6000, max_tokens: 3750"),
        ("7", "token_threshold: 7, max_tokens: 4"),
        ("1", "token_threshold: 1"),
        ("18446744073709551615", "token_threshold: 18446744073709551615, max_tokens: 11529215046068469759"),
    ] {
        let yaml = format!(
            "agents:\n  a: {{ transforms: [{{ type: assistant, {KEYS}, token_limit: {limit} }}] }}\n{SUM}"
        );
        let expected = format!("agents:\n  a: {{ compact: {{ {expected}, model: p:m }} }}\n{SUM}");
        let actual = migrate_text(&yaml);
        assert_eq!(actual.text, expected);
        assert_eq!((actual.left, actual.done.len()), (Vec::new(), 1));
    }
}

#[test]
fn what_is_written_and_what_is_not_ours_stays() {
    let item = format!("{{ type: assistant, {KEYS}, token_limit: 8 }}");
    let block = "compact:\n      token_threshold: 8\n      max_tokens: 5\n      model: p:m";
    for (what, agent, expected) in [
        ("first", format!("    transforms: [{item}]\n    id: a\n"), format!("    {block}\n    id: a\n")),
        (
            "last, no line end",
            format!("    id: a\n    transforms: [{item}]"),
            format!("    id: a\n    {block}"),
        ),
        (
            "a comment behind",
            format!("    transforms: [{item}] # why\n    id: a\n"),
            format!("    {}\n    id: a\n", block.replace("compact:", "compact:  # why")),
        ),
        (
            "comments around",
            format!(
                "    # before\n    transforms: # key\n      # one\n      - {item} # two\n      # three\n    # after\n    id: a\n"
            ),
            format!(
                "    # before\n    {}\n      # three\n    # after\n    id: a\n",
                block
                    .replace("compact:", "compact:  # key\n      # one")
                    .replace("threshold: 8", "threshold: 8  # two")
            ),
        ),
        (
            "an empty line inside",
            format!("    transforms:\n\n      - {item}\n\n    id: a\n"),
            format!("    {block}\n\n    id: a\n"),
        ),
        (
            "a tag",
            format!("    transforms: !!seq\n    - {item}\n    id: a\n"),
            format!("    {block}\n    id: a\n"),
        ),
    ] {
        // The agent `a` comes last, so that its text may end the file.
        let yaml = format!("agents:\n{SUM}  a:\n{agent}");
        let actual = migrate_text(&yaml);
        assert_eq!(actual.text, format!("agents:\n{SUM}  a:\n{expected}"), "{what}");
        assert_eq!(migrate_text(&actual.text).done, Vec::new(), "{what}");
    }
}

#[test]
fn comments_go_with_what_they_are_about() {
    let yaml = format!(
        "agents:\n{SUM}  a:\n    transforms: # all\n      # sums up\n      # for long tasks\n      - type: assistant\n        \
         input: i # event\n        output: o\n        agent_id: s\n        token_limit: 8 # few\n      # knows\n      \
         - {{ type: user, agent_id: s, input: i, output: o }} # things\n    id: a\n"
    );
    let expected = format!(
        "agents:\n{SUM}  a:\n    transforms: # all\n      # knows\n      \
         - {{ type: user, agent_id: s, input: i, output: o }} # things\n    compact:\n      # sums up\n      # for long tasks\n      \
         # event\n      token_threshold: 8  # few\n      max_tokens: 5\n      model: p:m\n    id: a\n"
    );
    assert_eq!(migrate_text(&yaml).text, expected);
}

#[test]
fn any_of_several_may_go() {
    let kept = "- { type: user, agent_id: s, input: i, output: o }";
    let gone = format!("- {{ type: assistant, {KEYS}, token_limit: 8 }}");
    let block = "compact:\n      token_threshold: 8\n      max_tokens: 5\n      model: p:m";
    for items in [[&gone, kept], [kept, &gone]] {
        for end in ["", "\n", "\n    id: a\n"] {
            let [first, second] = items;
            let yaml = format!("agents:\n{SUM}  a:\n    transforms:\n      {first}\n      {second}{end}");
            let expected = format!("agents:\n{SUM}  a:\n    transforms:\n      {kept}\n    {block}{end}");
            assert_eq!(migrate_text(&yaml).text, expected, "{yaml}");
        }
    }
}

#[test]
fn what_cannot_be_rewritten_is_named_and_stays() {
    let item = format!("{{ type: assistant, {KEYS}, token_limit: 8 }}");
    for (what, yaml, expected) in [
        (
            "a key with a question mark",
            format!("agents:\n{SUM}  a:\n    ? transforms\n    : [{item}]\n"),
            "cannot be rewritten",
        ),
        (
            "an alias of more than one",
            format!(
                "variables: {{ x: &x [{item}, {{ type: user, agent_id: s, input: i, output: o }}] }}\n\
                 agents:\n{SUM}  a: {{ transforms: *x }}\n"
            ),
            "cannot be rewritten",
        ),
        (
            "a comment in brackets",
            format!(
                "agents:\n{SUM}  a: {{ transforms: [{item}, # one\n    {{ type: user, agent_id: s, input: i, output: o }}] }}\n"
            ),
            "cannot be rewritten",
        ),
        (
            "no limit",
            format!("agents:\n{SUM}  a: {{ transforms: [{{ type: assistant, {KEYS} }}] }}\n"),
            "`token_limit`",
        ),
    ] {
        let actual = migrate_text(&yaml);
        assert_eq!((actual.text.as_str(), actual.done), (yaml.as_str(), Vec::new()), "{what}");
        assert!(actual.left.iter().any(|left| left.what.contains(expected)), "{what}: {:?}", actual.left);
    }
}

#[test]
fn who_sums_up_may_be_in_the_layer_below() {
    let base = Source::new("user.yaml", "agents: { s: { model: 'p:small', system_prompt: Short. } }\n");
    let item = format!("{{ type: assistant, {KEYS}, token_limit: 8 }}");
    let yaml = format!("agents:\n  a:\n    transforms: [{item}]\n");
    let actual = migrate(&Source::new("forge.yaml", yaml.clone()), Some(&base)).unwrap();
    assert!(actual.text.contains("model: p:small\n      prompt: |-\n        Short.\n"), "{}", actual.text);
    assert!(migrate(&Source::new("forge.yaml", yaml), None).unwrap().left[0].what.contains("no agent `s`"));
}

#[test]
fn a_tag_that_the_prompt_names_stays_the_tag_of_the_summary() {
    let base = Source::new("user.yaml", "agents: { s: { model: 'p:small', system_prompt: In <o>. } }\n");
    let item = format!("{{ type: assistant, {KEYS}, token_limit: 8 }}");
    let yaml = format!("agents: {{ a: {{ transforms: [{item}] }} }}\n");
    let migrated = migrate(&Source::new("forge.yaml", yaml), Some(&base)).unwrap();
    assert!(migrated.text.contains("summary_tag: o"), "{}", migrated.text);
}

#[test]
fn what_is_no_workflow_has_nothing_to_do_and_what_is_no_yaml_is_refused() {
    for yaml in
        ["", "# nothing\n", "just text", "- a\n- b\n", "agents: 5\n", "agents: [5, [6]]\n", "\u{feff}"]
    {
        let actual = migrate(&Source::new("forge.yaml", yaml), None).unwrap();
        assert_eq!((actual.text.as_str(), actual.done.len()), (yaml, 0), "{yaml}");
    }
    for (yaml, expected) in [
        ("agents: {a: [\n", "forge.yaml:1:13"),
        ("agents: {}\n---\nagents: {}\n", "forge.yaml:3:1"),
        ("a: 1\na: 2\n", "forge.yaml:2:1"),
        ("a:\n  '\r", "forge.yaml:3:1"),
        ("agents: *nobody\n", "forge.yaml:1:9"),
    ] {
        let actual = migrate(&Source::new("forge.yaml", yaml), None).unwrap_err().to_string();
        assert!(actual.contains(&format!("  --> {expected}")), "{yaml}: {actual}");
    }
}
