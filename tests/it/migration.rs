//! `forge config migrate` on whole files.

use std::fs;
use std::path::PathBuf;

use forge_services::workflow::{Source, migrate};
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::forge::{Forge, Outcome, repository};

/// The files as they were, by name.
fn files() -> Vec<(String, PathBuf)> {
    let folder = repository("tests/fixtures/migration");
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = paths.map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), path));
    let mut files: Vec<_> = named.filter(|(name, _)| !name.contains("migrated")).collect();
    files.sort();
    files
}

fn json(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
}

/// A folder with this text as its `forge.yaml`.
fn folder(text: &str) -> Forge {
    Forge::new().with_file("forge.yaml", text)
}

fn text_of(forge: &Forge, name: &str) -> Option<String> {
    fs::read_to_string(forge.path(name)).ok()
}

#[test]
fn whole_files_become_what_they_should_and_only_once() {
    let files = files();
    assert!(files.len() >= 10, "{}", files.len());
    for (name, path) in files {
        let before = fs::read_to_string(&path).unwrap();
        let forge = folder(&before);
        // Shown, and nothing written.
        let shown = json(&forge.run(&["config", "migrate", "--json"]));
        assert_eq!(
            (text_of(&forge, "forge.yaml").as_deref(), text_of(&forge, "forge.yaml.bak")),
            (Some(before.as_str()), None)
        );
        let written = json(&forge.run(&["config", "migrate", "--write", "--json"]));
        let after = text_of(&forge, "forge.yaml").unwrap();
        let expected = path.with_extension("migrated.yaml");
        if std::env::var_os("FORGE_RECORD_FIXTURES").is_some() {
            fs::write(&expected, &after).unwrap();
        }
        assert_eq!(after, fs::read_to_string(&expected).unwrap(), "{name}");
        let changed = before != after;
        assert_eq!(
            (&shown["changed"], &shown["written"], &shown["backup"]),
            (&changed.into(), &false.into(), &Value::Null)
        );
        assert_eq!((&written["changed"], &written["written"]), (&changed.into(), &changed.into()), "{name}");
        assert_eq!(shown["diff"], written["diff"]);
        assert_eq!(shown["diff"].as_str().unwrap().is_empty(), !changed, "{name}");
        assert_eq!(text_of(&forge, "forge.yaml.bak"), changed.then(|| before.clone()), "{name}");
        // A second time changes nothing and keeps no second copy.
        let again = json(&forge.run(&["config", "migrate", "--write", "--json"]));
        assert_eq!(
            (&again["changed"], again["done"].as_array().map(Vec::len)),
            (&false.into(), Some(0)),
            "{name}"
        );
        assert_eq!(
            (text_of(&forge, "forge.yaml"), text_of(&forge, "forge.yaml.bak.1")),
            (Some(after), None),
            "{name}"
        );
        // Everything that is said has its place.
        for note in [&shown, &written].iter().flat_map(|report| ["done", "left"].map(|key| &report[key])) {
            for note in note.as_array().unwrap() {
                assert!(note["line"].is_u64() && note["column"].is_u64(), "{name}: {note}");
            }
        }
    }
}

#[test]
fn comments_and_all_that_is_not_ours_stay() {
    for (name, path) in files() {
        let before = fs::read_to_string(&path).unwrap();
        let after = migrate(&Source::new("forge.yaml", before.clone()), None).unwrap().text;
        let comments = |text: &str| {
            let mut comments: Vec<String> = text
                .lines()
                .filter_map(|line| line.split_once("# ").map(|(_, comment)| comment.trim().to_owned()))
                .collect();
            comments.sort();
            comments
        };
        assert_eq!(comments(&before), comments(&after), "{name}");
        // What is the same at both ends is most of it; what differs is where a transform was.
        let same =
            before.lines().filter(|line| !line.trim().is_empty() && after.contains(line.trim())).count();
        let all = before.lines().filter(|line| !line.trim().is_empty()).count();
        assert!(same * 100 >= all * 40, "{name}: {same} of {all} lines are still there");
        assert_eq!(before.starts_with('\u{feff}'), after.starts_with('\u{feff}'), "{name}");
        if before.contains("\r\n") {
            assert_eq!(after.matches('\n').count(), after.matches("\r\n").count(), "{name}");
        }
    }
}

#[test]
fn what_was_well_is_well_afterwards() {
    let mut n_well = 0;
    for (name, path) in files() {
        let before = fs::read_to_string(&path).unwrap();
        if folder(&before).run(&["config", "check"]).code != 0 {
            continue;
        }
        n_well += 1;
        let forge = folder(&before);
        forge.run(&["config", "migrate", "--write"]);
        let checked = forge.run(&["config", "check"]);
        assert_eq!(checked.code, 0, "{name}: {}", checked.stderr);
    }
    assert!(n_well >= 7, "{n_well} of the files are well");
}

#[test]
fn what_a_person_reads() {
    for name in ["01-event-based", "08-other-versions", "09-not-by-itself", "11-nothing-to-do"] {
        let before =
            fs::read_to_string(repository(&format!("tests/fixtures/migration/{name}.yaml"))).unwrap();
        let shown = folder(&before).run(&["config", "migrate"]);
        assert_eq!(shown.code, 0);
        let said = format!("{}----- standard error\n{}", shown.stdout, shown.stderr);
        insta::assert_snapshot!(format!("migrate_{name}"), said);
    }
    let written =
        folder(&fs::read_to_string(repository("tests/fixtures/migration/02-three-transforms.yaml")).unwrap())
            .run(&["config", "migrate", "--write"]);
    insta::assert_snapshot!("migrate_written", written.stderr);
}

#[test]
fn what_cannot_be_read_is_refused_and_left_alone() {
    for (text, expected) in [
        ("agents: {a: [\n", "forge.yaml:1:13"),
        ("agents: {}\n---\nagents: {}\n", "a second YAML document"),
        ("agents:\n\t- id: a\n", "tabs"),
    ] {
        let forge = folder(text);
        let actual = forge.run(&["config", "migrate", "--write"]);
        assert_eq!((actual.code, actual.stdout.as_str()), (2, ""), "{text}: {}", actual.stderr);
        assert!(actual.stderr.contains(expected), "{text}: {}", actual.stderr);
        assert_eq!(
            (text_of(&forge, "forge.yaml").as_deref(), text_of(&forge, "forge.yaml.bak")),
            (Some(text), None)
        );
    }
    let missing = Forge::new().run(&["config", "migrate"]);
    assert_eq!(missing.code, 2);
    assert!(missing.stderr.contains("cannot read the configuration forge.yaml"), "{}", missing.stderr);
}

#[test]
fn another_file_may_be_named_and_no_copy_is_ever_overwritten() {
    let before = fs::read_to_string(repository("tests/fixtures/migration/02-three-transforms.yaml")).unwrap();
    let forge = Forge::new().with_file("old.yaml", &before).with_file("old.yaml.bak", "an earlier copy");
    let report = json(&forge.run(&["config", "migrate", "--config", "old.yaml", "--write", "--json"]));
    assert_eq!((&report["file"], &report["backup"]), (&"old.yaml".into(), &"old.yaml.bak.1".into()));
    assert_eq!(text_of(&forge, "old.yaml.bak").as_deref(), Some("an earlier copy"));
    assert_eq!(text_of(&forge, "old.yaml.bak.1"), Some(before));
}

#[cfg(unix)]
#[test]
fn a_file_that_cannot_be_replaced_stays_as_it_was() {
    use std::os::unix::fs::PermissionsExt;
    let before = fs::read_to_string(repository("tests/fixtures/migration/02-three-transforms.yaml")).unwrap();
    let forge = folder(&before);
    fs::set_permissions(forge.path("forge.yaml"), fs::Permissions::from_mode(0o640)).unwrap();
    forge.run(&["config", "migrate", "--write"]);
    let mode = |name: &str| fs::metadata(forge.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("forge.yaml"), mode("forge.yaml.bak")), (0o640, 0o640));
    // Where the copy's name is a folder's, another is taken.
    let forge = folder(&before);
    fs::create_dir(forge.path("forge.yaml.bak")).unwrap();
    let report = json(&forge.run(&["config", "migrate", "--write", "--json"]));
    assert_eq!(report["backup"], "forge.yaml.bak.1");
}
