//! The rules of the house that the compiler does not know.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pretty_assertions::assert_eq;
use serde_json::Value;

/// The crates that may depend on a crate of ours other than `forge_domain`, which all may.
const EDGES: [(&str, &str); 10] = [
    ("forge_app", "forge_services"),
    ("forge_cli", "forge_app"),
    ("forge_cli", "forge_fleet"),
    ("forge_cli", "forge_infra"),
    ("forge_cli", "forge_services"),
    ("forge_cli", "forge_transcript"),
    ("forge_cli", "forge_wire"),
    ("forge_fleet", "forge_app"),
    ("forge_infra", "forge_wire"),
    ("forge_transcript", "forge_wire"),
];

/// All that the domain may depend on: plain data, async without a runtime, `regex` for `compact.pin` (a pattern is compiled
/// when it is read, so that one that does not compile cannot exist, and matches in linear time), and `schemars`: the schema of
/// what YAML says is derived where YAML is read into types, or it would be a second copy of them. `imagesize` reads the size of an image from its bytes, and has no dependencies.
const DOMAIN_DEPENDENCIES: [&str; 16] = [
    "anstream",
    "async-trait",
    "base64",
    "derive_setters",
    "futures",
    "imagesize",
    "indexmap",
    "jiff",
    "memchr",
    "merge",
    "regex",
    "schemars",
    "serde",
    "serde_json",
    "shlex",
    "thiserror",
];

/// The most words of the README: it is a front page, and `docs/` is the manual.
const README_WORDS: usize = 1_000;

/// The file that `forge init` writes, with gaps.
const STARTER_FILE: &str = "crates/forge_cli/src/commands/init/init.yaml.txt";

/// Phrases that are no plain English, in lower case. STYLE.md has what to write instead.
const BANNED_PHRASES: [&str; 28] = [
    "afresh",
    "anew",
    "are none",
    "are said",
    "by and by",
    "comes to nothing",
    "counts for nothing",
    "folded",
    "folds",
    "go on",
    "goes on",
    "going on",
    "is none",
    "is said",
    "live through",
    "lived through",
    "lives through",
    "mend",
    "mended",
    "mends",
    "nobody",
    "outgrown",
    "somebody",
    "sums up",
    "wake",
    "wakes",
    "whoever",
    "woken",
];

/// Crates with doc comments in plain English. The list only ever gets longer.
const DESCRIBED_CRATES: [&str; 8] = [
    "forge_app",
    "forge_cli",
    "forge_domain",
    "forge_fleet",
    "forge_infra",
    "forge_services",
    "forge_transcript",
    "forge_wire",
];

/// The most columns of a comment line, except for tables and examples.
const COMMENT_COLUMNS: usize = 110;

/// The least share of functions whose doc comment starts with a verb, in percent.
const VERBS: usize = 95;

/// The most fields of a type: more are hard to keep in mind.
const MOST_FIELDS: usize = 12;

/// The most methods of a type, private ones among them.
const MOST_METHODS: usize = 30;

/// Types that are larger, with the reason.
const LARGE_TYPES: [(&str, &str); 5] = [
    ("forge_domain: Agent", "a block of YAML, a field a key"),
    ("forge_domain: Compact", "a block of YAML, a field a key"),
    ("forge_domain: Workflow", "a block of YAML, a field a key"),
    ("forge_app: RunReport", "the report as JSON, a field a key"),
    ("forge_domain: Conversation", "the log: every reader's question about it is a method"),
];

/// Words that start no doc comment: they ask a question instead of describing.
const BARE_WORDS: [&str; 6] = ["How", "What", "Where", "Whether", "Who", "Why"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Returns what cargo knows of every package.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// Every package with the names of its direct normal dependencies.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    packages()
        .iter()
        .map(|package| {
            let all = package["dependencies"].as_array().unwrap().iter();
            let normal = all.filter(|dependency| dependency["kind"].is_null());
            (text(&package["name"]), normal.map(|dependency| text(&dependency["name"])).collect())
        })
        .collect()
}

/// The Rust files below `folder` that are no tests of their own, sorted.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let paths: Vec<_> =
        fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    let (folders, files): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| path.is_dir());
    let mut files: Vec<_> = files
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    let texts: Vec<_> = files.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    files.retain(|path| {
        let declared_as_test = format!("#[cfg(test)]\nmod {};", path.file_stem().unwrap().display());
        !texts.iter().any(|text| text.contains(&declared_as_test))
    });
    files.extend(folders.iter().flat_map(|folder| rust_files(folder)));
    files.sort();
    files
}

/// The `src` folder of every crate, by the crate's name.
fn sources() -> BTreeMap<String, PathBuf> {
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    crates
        .filter(|path| path.join("Cargo.toml").is_file())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), path.join("src")))
        .collect()
}

/// A file's code: what stands before its first module of tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let is_tests = |at: usize| {
        let module = text[at..].lines().find(|line| !line.is_empty() && !line.starts_with("#["));
        module.is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
    };
    let tests = text.match_indices("\n#[cfg(test)]").find(|(at, _)| is_tests(*at));
    text[..tests.map_or(text.len(), |(at, _)| at)].to_owned()
}

/// A file's code without the lines that are comments.
fn code_without_comments(path: &Path) -> String {
    let code = code(path);
    let lines: Vec<_> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    lines.join("\n")
}

#[test]
fn crates_depend_on_each_other_in_one_direction_only() {
    let mut strangers = Vec::new();
    for (from, to) in dependencies().iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to))) {
        // The tests may use whatever they want to test.
        let is_bound = from != "forge_tests" && to.starts_with("forge_") && to != "forge_domain";
        if is_bound && !EDGES.contains(&(from.as_str(), to.as_str())) {
            strangers.push(format!("{from} -> {to}"));
        }
    }
    assert_eq!(strangers, Vec::<String>::new());
}

#[test]
fn the_domain_depends_on_no_runtime_client_or_driver() {
    let actual: BTreeSet<_> = dependencies().remove("forge_domain").unwrap().into_iter().collect();
    let allowed: BTreeSet<_> = DOMAIN_DEPENDENCIES.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(actual.difference(&allowed).collect::<Vec<_>>(), Vec::<&String>::new());
}

#[test]
fn every_integration_test_is_a_module_of_main() {
    let folder = root().join("tests/it");
    let main = fs::read_to_string(folder.join("main.rs")).unwrap();
    for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let is_module =
            path.extension().is_some_and(|extension| extension == "rs") || path.join("mod.rs").is_file();
        if is_module && name != "main" {
            assert!(main.lines().any(|line| line == format!("mod {name};")), "main.rs does not have {name}");
        }
    }
}

#[test]
fn the_provider_is_asked_at_three_places_only() {
    let files = rust_files(&sources()["forge_app"]);
    let n_places: usize =
        files.iter().map(|path| code_without_comments(path).matches(".chat(").count()).sum();
    assert!(
        n_places <= 3,
        "`.chat(` stands {n_places} times in forge_app: the turn, the summary and the probe are three"
    );
}

#[test]
fn no_modules_depend_on_each_other_at_any_level() {
    let mut found = BTreeSet::new();
    for (name, src) in sources() {
        for folder in folders(&src) {
            let place = Path::new(&name).join(folder.strip_prefix(&src).unwrap());
            let cycles = cyclic(&module_edges(&src, &folder));
            found.extend(cycles.iter().map(|(from, to)| format!("{}: {from} -> {to}", place.display())));
        }
    }
    assert_eq!(found, BTreeSet::new(), "modules depend on each other");
}

#[test]
fn no_type_has_too_many_fields_or_methods() {
    let mut found = BTreeMap::new();
    for (name, src) in sources() {
        let mut methods: BTreeMap<String, usize> = BTreeMap::new();
        for code in rust_files(&src).iter().map(|path| code_without_comments(path)) {
            for (of, n) in members(&code, "struct ") {
                if n > MOST_FIELDS {
                    found.insert(format!("{name}: {of}"), format!("{n} fields"));
                }
            }
            for (of, n) in members(&code, "impl") {
                *methods.entry(of).or_default() += n;
            }
        }
        let large = methods.iter().filter(|(_, n)| **n > MOST_METHODS);
        found.extend(large.map(|(of, n)| (format!("{name}: {of}"), format!("{n} methods"))));
    }
    for (large, _reason) in LARGE_TYPES {
        assert!(found.remove(large).is_some(), "{large} is small now: take it off the list");
    }
    assert_eq!(found, BTreeMap::new(), "split these, or list them with the reason");
}

/// The structs, or the types with methods of their own, in `code`, each with the number of its fields or methods.
fn members(code: &str, kind: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let head = line
            .trim_start_matches("pub(crate) ")
            .trim_start_matches("pub(super) ")
            .trim_start_matches("pub ");
        let Some(rest) = head.strip_prefix(kind) else { continue };
        if !line.ends_with('{') || (kind == "impl" && rest.contains(" for ")) {
            continue;
        }
        // `impl<'a> Name<'a> {`: the parameters end at the first blank.
        let of = if rest.starts_with('<') { rest.split_once("> ").map_or("", |(_, of)| of) } else { rest };
        let is_member = |line: &&str| {
            let member = line.strip_prefix("    ").filter(|member| !member.starts_with(' '));
            member.is_some_and(|member| match kind {
                "impl" => is_function(line),
                _ => member.contains(": ") && !member.starts_with('#'),
            })
        };
        let n = lines.by_ref().take_while(|line| *line != "}").filter(is_member).count();
        found.push((identifier(of.trim_start()), n));
    }
    found
}

#[test]
fn the_last_line_of_the_suite_counts_what_was_skipped() {
    // Cargo tests packages in the order of their names, then documentation. Nothing may come after the summary.
    let packages = packages();
    let last = packages.iter().max_by_key(|package| package["name"].as_str().unwrap()).unwrap();
    let targets = last["targets"].as_array().unwrap().iter();
    let tests: Vec<_> = targets.filter(|target| target["kind"][0] == "test").collect();
    assert_eq!((&last["name"], tests.len()), (&"skipped_tests".into(), 1));
    assert_eq!(tests[0]["name"], "summary");
    let all = packages.iter().flat_map(|package| package["targets"].as_array().unwrap());
    let tested: Vec<_> =
        all.filter(|target| target["doctest"] == true).map(|target| &target["name"]).collect();
    assert_eq!(tested, Vec::<&Value>::new(), "these print after the summary: set `doctest = false`");
    // So an example in a doc comment is not compiled: it has to be a test or a file of `examples/`.
    for path in sources().values().flat_map(|src| rust_files(src)) {
        let mut is_open = false;
        for line in fs::read_to_string(&path).unwrap().lines() {
            let comment = line.trim_start().strip_prefix("///").or(line.trim_start().strip_prefix("//!"));
            if let Some(words) = comment.and_then(|comment| comment.trim_start().strip_prefix("```")) {
                is_open = !is_open;
                let is_run = words.is_empty() || words.contains("rust") || words.contains("should_panic");
                assert!(!is_open || !is_run, "{}: nobody runs this example: {line}", path.display());
            }
        }
    }
}

#[test]
fn a_test_that_skips_something_notes_it() {
    let folders = sources().into_values().chain([root().join("crates"), root().join("tests/it")]);
    let files: BTreeSet<_> = folders.flat_map(|folder| rust_files(&folder)).collect();
    assert!(files.len() > 100);
    for path in files.iter().filter(|path| !path.ends_with("tidy.rs")) {
        let text = fs::read_to_string(path).unwrap().to_lowercase();
        assert!(!text.contains("eprintln!(\"skip"), "{}: call `skipped_tests::skip`", path.display());
    }
}

type Edges = BTreeSet<(String, String)>;

/// The edges that are part of a cycle: those from whose end a way leads back to their start.
fn cyclic(edges: &Edges) -> Edges {
    let leads_back = |(start, end): &(String, String)| {
        let mut reached = BTreeSet::from([end]);
        loop {
            let next: Vec<_> =
                edges.iter().filter(|(from, _)| reached.contains(from)).map(|(_, to)| to).collect();
            let n_reached = reached.len();
            reached.extend(next);
            if reached.len() == n_reached {
                return reached.contains(start);
            }
        }
    };
    edges.iter().filter(|edge| leads_back(edge)).cloned().collect()
}

/// `folder` and all folders below it.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let below = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let mut all: Vec<_> = below.flat_map(|folder| folders(&folder)).collect();
    all.push(folder.to_owned());
    all
}

/// Which module of `folder`, in the crate at `src`, names which other: by its path from the crate's root, by
/// `super::`, or by a name that their parent re-exports.
fn module_edges(src: &Path, folder: &Path) -> Edges {
    let mut path = String::from("crate::");
    for part in folder.strip_prefix(src).unwrap() {
        path.push_str(&format!("{}::", part.display()));
    }
    let mut code_of: BTreeMap<String, Vec<(String, usize)>> = BTreeMap::new();
    for file in rust_files(folder) {
        let within: Vec<_> = file.strip_prefix(folder).unwrap().components().collect();
        let module = within[0].as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned();
        let depth = within.len() - usize::from(file.ends_with("mod.rs"));
        if !["lib", "main", "mod"].contains(&module.as_str()) {
            code_of.entry(module).or_default().push((code_without_comments(&file), depth));
        }
    }
    let mut home: BTreeMap<String, String> = BTreeMap::new();
    for (module, files) in &code_of {
        home.extend(files.iter().flat_map(|(code, _)| public_names(code)).map(|name| (name, module.clone())));
    }
    home.extend(code_of.keys().map(|module| (module.clone(), module.clone())));
    let edges = code_of.iter().flat_map(|(module, files)| {
        let named = files.iter().flat_map(|(code, depth)| {
            let mut names = names_after(code, &path);
            names.extend(names_after(code, &"super::".repeat(*depth)));
            names
        });
        let homes: Vec<_> = named.filter_map(|name| home.get(&name).cloned()).collect();
        homes.into_iter().filter(|to| to != module).map(|to| (module.clone(), to)).collect::<Vec<_>>()
    });
    edges.collect()
}

/// The names of a module's items that are visible outside it.
fn public_names(code: &str) -> impl Iterator<Item = String> {
    const KINDS: [&str; 7] = ["struct", "enum", "trait", "fn", "const", "type", "static"];
    const MODIFIERS: [&str; 3] = ["const", "async", "unsafe"];
    code.lines().filter_map(|line| {
        let line = line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub "))?;
        let mut words = line.split_whitespace().peekable();
        let mut kind = words.next()?;
        while MODIFIERS.contains(&kind) && words.peek().is_some_and(|word| KINDS.contains(word)) {
            kind = words.next()?;
        }
        KINDS.contains(&kind).then(|| identifier(words.next().unwrap_or_default()))
    })
}

/// The names that follow `path`, such as `crate::`, in `code`: one, or each of a list in braces.
fn names_after(code: &str, path: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in code.match_indices(path) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|character| character.is_alphanumeric() || "_$:".contains(character)) {
            continue;
        }
        let rest = &code[at + path.len()..];
        match rest.strip_prefix('{') {
            None => names.push(identifier(rest)),
            Some(list) => names.extend(entries(list).iter().map(|entry| identifier(entry.trim()))),
        }
    }
    names
}

/// The entries of a list up to its closing brace; lists inside belong to their entry.
fn entries(list: &str) -> Vec<String> {
    let (mut entries, mut depth) = (vec![String::new()], 0);
    for character in list.chars() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                entries.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(entry) = entries.last_mut() {
            entry.push(character);
        }
    }
    entries
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|character| character.is_alphanumeric() || *character == '_').collect()
}

/// Returns the texts for people that are no code, by their path from the root: the Markdown pages, the
/// templates, and the file that `forge init` writes.
fn pages() -> BTreeMap<String, String> {
    let docs = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        docs.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    let templates = fs::read_dir(root().join("templates")).unwrap().map(|entry| entry.unwrap().path());
    paths.extend(templates.filter(|path| path.extension().is_some_and(|extension| extension != "css")));
    let others = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", STARTER_FILE];
    paths.extend(others.map(|name| root().join(name)));
    let name = |path: &Path| path.strip_prefix(root()).unwrap().display().to_string();
    paths.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

/// Returns the prose of a Markdown page, without code. Tables that are derived from the schema are part of it.
fn prose(page: &str) -> String {
    let mut lines = Vec::new();
    let mut is_code = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push(line);
        }
    }
    // Every second part is between backticks.
    let text = lines.join("\n");
    let parts: Vec<&str> = text.split('`').step_by(2).collect();
    parts.join(" ` ")
}

/// Returns the banned phrases in a text, each once.
fn banned_phrases(text: &str) -> Vec<&'static str> {
    let mut spaced = String::new();
    for character in text.to_lowercase().chars() {
        if character.is_alphanumeric() || character.is_whitespace() || character == '-' || character == '\'' {
            spaced.push(character);
        } else {
            spaced.push_str(" . ");
        }
    }
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let line = format!(" {} ", words.join(" "));
    BANNED_PHRASES.into_iter().filter(|phrase| line.contains(&format!(" {phrase} "))).collect()
}

#[test]
fn the_readme_is_a_front_page() {
    let n_words = fs::read_to_string(root().join("README.md")).unwrap().split_whitespace().count();
    assert!(
        n_words <= README_WORDS,
        "README.md has {n_words} words, more than {README_WORDS}: move some to docs/"
    );
}

#[test]
fn pages_are_in_plain_english() {
    let pages = pages();
    assert!(pages.len() > 30, "{} pages", pages.len());
    for (name, page) in pages {
        assert_eq!(banned_phrases(&prose(&page)), Vec::<&str>::new(), "{name}: STYLE.md has better words");
    }
}

/// Returns the literals between double quotes in code, with their lines. A line that ends in a backslash
/// continues in the next one.
fn literals(code: &str) -> Vec<(usize, String)> {
    let (mut found, mut line) = (Vec::new(), 1);
    let mut rest = code.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\n' => line += 1,
            '/' if rest.peek() == Some(&'/') => {
                // The line end is counted with the next character.
                while rest.peek().is_some_and(|next| *next != '\n') {
                    rest.next();
                }
            }
            '\'' => {
                // A character; a lifetime has no closing quote.
                let ahead: Vec<char> = rest.clone().take(3).collect();
                let n_rest = match ahead[..] {
                    ['\\', _, '\''] => 3,
                    [_, '\'', ..] => 2,
                    _ => 0,
                };
                for _ in 0..n_rest {
                    rest.next();
                }
            }
            '"' => {
                let (start, mut text) = (line, String::new());
                while let Some(next) = rest.next().filter(|next| *next != '"') {
                    line += usize::from(next == '\n');
                    match next {
                        '\\' => {
                            let escaped = rest.next().unwrap_or(' ');
                            line += usize::from(escaped == '\n');
                            text.push(if escaped.is_alphanumeric() { '.' } else { ' ' });
                        }
                        _ => text.push(next),
                    }
                }
                found.push((start, text));
            }
            _ => {}
        }
    }
    found
}

/// Beginnings of texts with a banned phrase that stay, because they are data.
const FIXED_TEXTS: [&str; 1] = [
    // The head of a record, by which stored records are known.
    "Earlier messages were folded into this record.",
];

#[test]
fn texts_for_users_are_in_plain_english() {
    let mut faults = Vec::new();
    let mut n_texts = 0;
    for path in sources().values().flat_map(|src| rust_files(src)) {
        for (line, text) in literals(&code(&path)) {
            n_texts += 1;
            // One word is an identifier, such as a key of JSON.
            let is_data = !text.contains(' ') || FIXED_TEXTS.iter().any(|fixed| text.starts_with(fixed));
            if !is_data {
                let phrases = banned_phrases(&text).into_iter();
                faults.extend(phrases.map(|phrase| format!("{}:{line}: {phrase}", path.display())));
            }
        }
    }
    assert_eq!(faults, Vec::<String>::new(), "STYLE.md has better words");
    assert!(n_texts > 3_000, "{n_texts} texts");
    let schema = fs::read_to_string(root().join("forge.schema.json")).unwrap();
    assert_eq!(banned_phrases(&schema), Vec::<&str>::new(), "forge.schema.json");
}

#[test]
fn literals_are_found_in_code() {
    let code =
        "let a = \"it goes\\\n    on\"; // \"not this\"\nlet b: &'static str = f('\"', '\\'', \"b\");\n\"c\"";
    let expected = [(1, "it goes     on"), (3, "b"), (4, "c")];
    assert_eq!(literals(code), expected.map(|(line, text)| (line, text.to_owned())));
}

/// Returns the text of a line of a doc comment.
fn doc_text(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim)
}

/// Checks whether a line starts a function.
fn is_function(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let qualifiers = words
        .iter()
        .take_while(|word| word.starts_with("pub") || ["async", "const", "unsafe"].contains(*word));
    words.get(qualifiers.count()) == Some(&"fn")
}

/// Checks whether a word is a verb in the third person, as far as its form tells.
fn is_verb(word: &str) -> bool {
    word.ends_with('s') && word.starts_with(char::is_uppercase) && word.chars().all(char::is_alphabetic)
}

#[test]
fn doc_comments_are_in_plain_english() {
    let (mut n_functions, mut n_verbs) = (0, 0);
    let mut faults = Vec::new();
    let sources = sources();
    let paths = DESCRIBED_CRATES.iter().flat_map(|name| rust_files(&sources[*name]));
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let mut is_example = false;
        for (index, line) in lines.iter().enumerate() {
            let place = format!("{}:{}", path.display(), index + 1);
            let doc = doc_text(line);
            if doc.is_some_and(|doc| doc.starts_with("```")) {
                is_example = !is_example;
            }
            let is_table = doc.is_some_and(|doc| doc.starts_with('|'));
            let is_prose = line.trim_start().starts_with("//") && !is_example && !is_table;
            if is_prose && line.chars().count() > COMMENT_COLUMNS {
                faults.push(format!("{place}: more than {COMMENT_COLUMNS} columns"));
            }
            let is_first = index == 0 || doc_text(lines[index - 1]).is_none();
            let Some(word) = doc.filter(|_| is_first).and_then(|doc| doc.split([' ', ',', '.', ':']).next())
            else {
                continue;
            };
            if BARE_WORDS.contains(&word) {
                faults.push(format!("{place}: starts with `{word}`"));
            }
            let mut code = lines[index..].iter().filter(|line| !line.trim_start().starts_with("//"));
            let is_item = |line: &&&str| !line.trim_start().starts_with("#[");
            if code.find(is_item).is_some_and(|line| is_function(line)) {
                n_functions += 1;
                n_verbs += usize::from(is_verb(word));
            }
        }
    }
    assert_eq!(faults, Vec::<String>::new());
    assert!(n_functions > 500, "{n_functions} functions");
    assert!(n_verbs * 100 >= n_functions * VERBS, "{n_verbs} of {n_functions} functions start with a verb");
}

#[test]
fn functions_and_verbs_are_recognized() {
    for (line, expected) in [
        ("pub(crate) const fn a() {", true),
        ("    async fn b(", true),
        ("fn c() {", true),
        ("pub struct D {", false),
        ("const E: fn() = f;", false),
    ] {
        assert_eq!(is_function(line), expected, "{line}");
    }
    for (word, expected) in [("Returns", true), ("The", false), ("returns", false), ("It's", false)] {
        assert_eq!(is_verb(word), expected, "{word}");
    }
}

#[test]
fn banned_phrases_are_found_in_prose_alone() {
    let check = |page: &str, expected: &[&str]| assert_eq!(banned_phrases(&prose(page)), expected, "{page}");
    check("It starts anew, and Somebody\nmends it.", &["anew", "mends", "somebody"]);
    check("It goes\non. It goes. On Monday it amends.", &["goes on"]);
    check("`anew`, ends `woken`\n```text\nnobody\n```\n", &[]);
}

#[test]
fn names_are_found_where_modules_are_compared() {
    let code = "pub struct A<T>;\npub(crate) const fn b() {}\n    pub fn inner() {}\npub const C: u8 = 1;\nenum D {}";
    assert_eq!(public_names(code).collect::<Vec<_>>(), ["A", "b", "C"]);
    let code =
        "use crate::{A, m::{B, C},\n    D as E};\nuse crate::n::F;\nlet x = crate::G::new(); $crate::H";
    assert_eq!(names_after(code, "crate::"), ["A", "m", "D", "n", "G"]);
    let code = "use super::a::A; use super::super::{b::B, C};";
    assert_eq!(names_after(code, "super::"), ["a", "super"]);
    assert_eq!(names_after(code, "super::super::"), ["b", "C"]);
}

#[test]
fn cycles_are_told_from_chains() {
    let check = |edges: &str, expected: &str| {
        let read = |text: &str| -> Edges {
            text.split_whitespace().map(|edge| (edge[..1].to_owned(), edge[1..].to_owned())).collect()
        };
        assert_eq!(cyclic(&read(edges)), read(expected), "{edges}");
    };
    check("", "");
    check("ab bc ac", "");
    check("ab ba", "ab ba");
    check("xa ab bc ca cz", "ab bc ca");
}
