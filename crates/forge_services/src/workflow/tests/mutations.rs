//! Texts that were a `forge.yaml` before something happened to them: loading and migrating them ends, in one
//! of two ways, and every refusal has a position.

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::super::error::lines_of;
use super::super::{Layers, Migration, Source, WorkflowError, check_references, examine, load, migrate};

/// Files with every notation that there is.
const SEEDS: [&str; 8] = [
    include_str!("../../../../../forge.yaml"),
    include_str!("../../../../../tests/fixtures/migration/01-event-based.yaml"),
    include_str!("../../../../../tests/fixtures/migration/02-three-transforms.yaml"),
    include_str!("../../../../../tests/fixtures/migration/03-anchors-and-aliases.yaml"),
    include_str!("../../../../../tests/fixtures/migration/04-merge-keys.yaml"),
    include_str!("../../../../../tests/fixtures/migration/05-flow.yaml"),
    include_str!("../../../../../tests/fixtures/migration/06-crlf-and-bom.yaml"),
    include_str!("../../../../../tests/fixtures/migration/07-quoted-keys-and-unicode.yaml"),
];

/// Pieces with a meaning in YAML or in a workflow, and some without any.
const PIECES: [&str; 54] = [
    ":",
    ": ",
    "-",
    "- ",
    "\n",
    "\r\n",
    "\r",
    "\t",
    " ",
    "  ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "#",
    " # c\n",
    "&a ",
    "*a",
    "<<: *a\n",
    "*b",
    "!!str ",
    "!x ",
    "|",
    "|-\n",
    ">+2\n",
    "'",
    "\"",
    "\\",
    "? ",
    "---\n",
    "...\n",
    "%YAML 1.2\n",
    "\u{feff}",
    "\0",
    "\u{85}",
    "\u{2028}",
    "ü",
    "🧹",
    "~",
    "null",
    "true",
    "-1",
    "0x10",
    "1e400",
    ".nan",
    "99999999999999999999",
    "agents:",
    "compact:",
    "transforms:",
    "id:",
    "type: assistant",
    "token_limit:",
    "{{event.value}}",
];

/// A change of a text.
#[derive(Clone, Debug)]
enum Mutation {
    /// A piece is inserted.
    Insert(Index, &'static str),
    /// A stretch is removed.
    Remove(Index, usize),
    /// A stretch is repeated.
    Repeat(Index, usize),
    /// A line is moved, or copied elsewhere.
    Move(Index, Index, bool),
    /// A line is indented by more or less.
    Indent(Index, bool),
    /// The text breaks off.
    Cut(Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        4 => (any::<Index>(), select(PIECES.as_slice())).prop_map(|(at, piece)| Mutation::Insert(at, piece)),
        3 => (any::<Index>(), 1..12usize).prop_map(|(at, n)| Mutation::Remove(at, n)),
        1 => (any::<Index>(), 1..80usize).prop_map(|(at, n)| Mutation::Repeat(at, n)),
        2 => (any::<Index>(), any::<Index>(), any::<bool>()).prop_map(|(from, to, stays)| Mutation::Move(from, to, stays)),
        2 => (any::<Index>(), any::<bool>()).prop_map(|(at, more)| Mutation::Indent(at, more)),
        1 => any::<Index>().prop_map(Mutation::Cut),
    ]
}

impl Mutation {
    fn of(&self, text: &str) -> String {
        let mut chars: Vec<char> = text.chars().collect();
        let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
        match self {
            Self::Insert(at, piece) => {
                let at = at.index(chars.len() + 1);
                chars.splice(at..at, piece.chars());
            }
            Self::Remove(at, n) => {
                let at = at.index(chars.len() + 1);
                chars.drain(at..(at + n).min(chars.len()));
            }
            Self::Repeat(at, n) => {
                let at = at.index(chars.len() + 1);
                let stretch: Vec<char> = chars[at..(at + n).min(chars.len())].to_vec();
                chars.splice(at..at, stretch);
            }
            Self::Cut(at) => chars.truncate(at.index(chars.len() + 1)),
            Self::Move(from, to, stays) if !lines.is_empty() => {
                let line = lines[from.index(lines.len())].clone();
                if !stays {
                    lines.remove(from.index(lines.len()));
                }
                lines.insert(to.index(lines.len() + 1), line);
                return lines.concat();
            }
            Self::Indent(at, more) if !lines.is_empty() => {
                let at = at.index(lines.len());
                lines[at] = if *more {
                    format!(" {}", lines[at])
                } else {
                    lines[at].trim_start_matches(' ').to_owned()
                };
                return lines.concat();
            }
            Self::Move(..) | Self::Indent(..) => {}
        }
        chars.into_iter().collect()
    }
}

fn says_where(error: &WorkflowError, text: &str) {
    assert!(error.position.is_some(), "{error}\n{text:?}");
    let (position, n_lines) = (error.position.unwrap(), lines_of(text).count());
    assert!((1..=n_lines).contains(&position.line) && position.column > 0, "{error}\n{text:?}");
}

/// Checks that `text`, whatever it is, is loaded or refused with a position, and migrated to something
/// equivalent.
fn holds(text: &str) {
    let source = Source::new("forge.yaml", text);
    let layers = Layers { project: Some(source.clone()), ..Layers::default() };
    let loaded = load(&layers);
    match &loaded {
        Ok(workflow) => {
            for finding in check_references(workflow) {
                says_where(&layers.point_at(&finding), text);
            }
        }
        Err(error) => says_where(error, text),
    }
    let faults = examine(&layers).faults;
    assert!(loaded.is_ok() || !faults.is_empty(), "{text:?}");
    faults.iter().for_each(|fault| says_where(fault, text));
    match migrate(&source, None) {
        Ok(Migration { text: after, done, left, left_afterwards }) => {
            assert_eq!(after != text, !done.is_empty(), "{text:?}");
            let afterwards =
                Layers { project: Some(Source::new("forge.yaml", after.clone())), ..Layers::default() };
            assert!(loaded.is_err() || load(&afterwards).is_ok(), "{text:?}\n{after:?}");
            let again = migrate(&Source::new("forge.yaml", after.clone()), None).unwrap();
            assert_eq!((again.text.as_str(), again.done.len()), (after.as_str(), 0), "{text:?}");
            for finding in done.iter().chain(&left) {
                says_where(&layers.point_at(finding), text);
            }
            for finding in &left_afterwards {
                says_where(&afterwards.point_at(finding), &after);
            }
        }
        Err(error) => {
            says_where(&error, text);
            assert!(loaded.is_err(), "{text:?}: {error}");
        }
    }
}

/// Returns the number of tries of each property: 400, or a third of `FORGE_CASES`.
///
/// ```sh
/// FORGE_CASES=300000 cargo test --release -p forge_services mutations
/// ```
#[expect(clippy::disallowed_methods, reason = "a person may ask a test for more")]
fn cases() -> ProptestConfig {
    let asked = std::env::var("FORGE_CASES").ok();
    let all: u32 = asked.map_or(1_200, |text| text.parse().expect("FORGE_CASES is a number"));
    ProptestConfig { cases: all.div_ceil(3), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_mutated_workflow_is_loaded_or_refused_at_a_place(
        seed in select(SEEDS.as_slice()),
        mutations in proptest::collection::vec(mutation(), 1..6),
    ) {
        holds(&mutations.iter().fold(seed.to_owned(), |text, mutation| mutation.of(&text)));
    }

    #[test]
    fn pieces_in_any_order_are_loaded_or_refused_at_a_place(
        pieces in proptest::collection::vec(select(PIECES.as_slice()), 0..40),
    ) {
        holds(&pieces.concat());
    }

    #[test]
    fn any_text_is_loaded_or_refused_at_a_place(text in any::<String>()) {
        holds(&text);
    }
}

#[test]
fn every_seed_holds_as_it_is() {
    SEEDS.iter().for_each(|seed| holds(seed));
}
