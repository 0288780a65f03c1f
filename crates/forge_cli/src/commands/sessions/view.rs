//! The list of sessions for people.

use console::{measure_text_width, truncate_str};
use forge_domain::{Tokens, quantity};
use forge_infra::is_kept_in_folder;
use jiff::Timestamp;

use super::Listing;
use crate::output::table::{Side, table};
use crate::output::{visible, with_separators};
use crate::places;
use crate::sessions::{Counted, ListedSession};

/// The columns of the text if it goes to a file or a pipe.
const WIDE: usize = 160;
/// The columns that a title has before a folder gets more than its heading.
const GOOD_TITLE: usize = 16;
/// The most columns of a folder.
const MOST_FOLDER: usize = 28;

/// Returns the list as a table of at most `columns`.
pub(super) fn text(listing: &Listing, columns: Option<usize>) -> String {
    if listing.shown.is_empty() {
        return empty(listing.n_found);
    }
    let rows = rows(&listing.shown, columns.unwrap_or(WIDE), Timestamp::now());
    table(&COLUMNS, rows) + &rest(listing).map(|line| line + "\n").unwrap_or_default()
}

/// Returns a line about the sessions that are not listed, if there are any.
pub(super) fn rest(listing: &Listing) -> Option<String> {
    let n_found = listing.cut_from?;
    Some(format!("… {} of {} (--all lists all)", listing.shown.len(), quantity(n_found, "session")))
}

/// The columns after the number.
pub(super) const COLUMNS: [(&str, Side); 6] = [
    ("NAME", Side::Left),
    ("AGE", Side::Right),
    ("TOKENS", Side::Right),
    ("COMPACTED", Side::Right),
    ("FOLDER", Side::Left),
    ("TITLE", Side::Left),
];

fn empty(n_found: usize) -> String {
    match n_found {
        0 => {
            "no sessions found; `forge sessions --help` lists the agents whose places are known\n".to_owned()
        }
        n => format!("none of {} is of this folder\n", quantity(n, "session")),
    }
}

/// Returns the cells of each session, so that a line has at most `columns`.
pub(super) fn rows(listed: &[ListedSession], columns: usize, now: Timestamp) -> Vec<Vec<String>> {
    let home = places::environment().get("HOME").cloned();
    let mut rows: Vec<Vec<String>> =
        listed.iter().map(|session| cells(session, home.as_deref(), now)).collect();
    let width_of = |rows: &[Vec<String>], at: usize| {
        let cells = rows.iter().map(|row| measure_text_width(&row[at]));
        cells.chain([COLUMNS[at].0.len()]).max().unwrap_or_default()
    };
    let fixed: usize = (0..4).map(|at| width_of(&rows, at) + 2).sum::<usize>();
    let left = columns.saturating_sub(fixed + 1);
    // A column is never narrower than its heading.
    let [least_folder, least_title] = [4, 5].map(|at| COLUMNS[at].0.len());
    let most_folder = left.saturating_sub(GOOD_TITLE + 2).clamp(least_folder, MOST_FOLDER);
    let folder = width_of(&rows, 4).min(most_folder);
    let title = left.saturating_sub(folder + 2).max(least_title);
    for row in &mut rows {
        row[4] = cut_front(&row[4], folder);
        row[5] = truncate_str(&row[5], title, "…").into_owned();
    }
    rows
}

fn cells(session: &ListedSession, home: Option<&str>, now: Timestamp) -> Vec<String> {
    let folder = session.folder.as_deref().unwrap_or_default();
    let folder = match home.filter(|home| home.len() > 1).and_then(|home| folder.strip_prefix(home)) {
        Some("") => "~".to_owned(),
        Some(rest) if rest.starts_with('/') => format!("~{rest}"),
        _ => folder.to_owned(),
    };
    let tokens = session.tokens.map(|tokens| short(tokens, session.tokens_are)).unwrap_or_default();
    let compactions = match session.compactions {
        None => "?".to_owned(),
        Some(0) => String::new(),
        Some(n) => format!("{n}×"),
    };
    let title = visible(session.title.as_deref().unwrap_or("-"));
    let mark = if is_kept_in_folder(session.agent) { "(kept in a project folder) " } else { "" };
    vec![
        visible(&session.name),
        age(session.changed, now),
        tokens,
        compactions,
        visible(&folder),
        format!("{mark}{title}"),
    ]
}

/// Returns the number of tokens in a few characters.
fn short(tokens: u64, counted: Option<Counted>) -> String {
    let mark = if counted == Some(Counted::Estimated) { "~" } else { "" };
    match tokens {
        0..10_000 => format!("{mark}{}", with_separators(Tokens::new(tokens))),
        10_000..1_000_000 => format!("{mark}{}k", (tokens + 500) / 1_000),
        _ => format!("{mark}{}.{}M", tokens / 1_000_000, tokens % 1_000_000 / 100_000),
    }
}

/// Returns the time since `changed` in its largest unit.
pub(super) fn age(changed: Timestamp, now: Timestamp) -> String {
    const UNITS: [(i64, &str); 6] =
        [(365 * 86_400, "y"), (30 * 86_400, "mo"), (86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let seconds = now.as_second().saturating_sub(changed.as_second());
    let unit = UNITS.iter().find(|(length, _)| seconds >= *length);
    unit.map_or_else(|| "now".to_owned(), |(length, unit)| format!("{} {unit}", seconds / length))
}

/// Cuts a path to its end.
fn cut_front(path: &str, most: usize) -> String {
    let mut width = measure_text_width(path);
    if width <= most {
        return path.to_owned();
    }
    let mut chars = path.chars();
    while width + 1 > most && chars.next().is_some() {
        width = measure_text_width(chars.as_str());
    }
    if most == 0 { String::new() } else { format!("…{}", chars.as_str()) }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_age_has_one_unit() {
        let now = Timestamp::from_second(1_000_000_000).unwrap();
        for (seconds, expected) in [
            (-5, "now"),
            (0, "now"),
            (59, "59 s"),
            (60, "1 min"),
            (7_200, "2 h"),
            (90_000, "1 d"),
            (40 * 86_400, "1 mo"),
        ] {
            let changed = Timestamp::from_second(1_000_000_000 - seconds).unwrap();
            assert_eq!(age(changed, now), expected);
        }
    }

    #[test]
    fn a_line_fits_the_terminal_and_hides_nothing() {
        let session = ListedSession {
            name: "@claude:3f2a91".to_owned(),
            agent: "claude",
            id: "3f2a91".to_owned(),
            title: Some("\u{1b}[2Jfix the login page and everything behind it, please".repeat(3)),
            folder: Some("/home/ada/projects/\u{202e}a-very-long-name/of-a-folder".to_owned()),
            path: "f".into(),
            part: None,
            changed: Timestamp::UNIX_EPOCH,
            bytes: None,
            tokens: Some(123_456),
            tokens_are: Some(Counted::Estimated),
            compactions: Some(2),
        };
        for columns in [60, 80, 120] {
            let rows = rows(std::slice::from_ref(&session), columns, Timestamp::UNIX_EPOCH);
            assert!(rows[0].iter().all(|cell| !cell.contains(['\u{1b}', '\u{202e}'])), "{rows:?}");
            let text = table(&COLUMNS, rows);
            let widest = text.lines().map(measure_text_width).max().unwrap();
            assert!(widest <= columns, "{columns}: {text}");
        }
        assert_eq!(short(123_456, Some(Counted::Estimated)), "~123k");
        assert_eq!(short(2_350_000, None), "2.3M");
    }
}
