//! Tables that a later one replaces: with the same head, and about the same things in the first column.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::passage::{Passage, is_row};
use crate::compaction::answered_call::answered_call;
use crate::compaction::features::Features;
use crate::{Context, ContextMessage, Role};

/// The fewest rows below the head of a table, and columns of one whose values may be words.
const LEAST_ROWS: usize = 2;
const LEAST_COLUMNS: usize = 3;
/// Most letters of a number with its unit.
const MOST_UNIT: usize = 3;
/// The most tables with one head that an earlier one is compared with.
const MOST_COMPARED: usize = 32;
/// Most words of a heading that is nothing but a name.
const NAME_WORDS: usize = 3;

/// The parts of messages that a later table replaces, by the positions of the messages.
pub(super) struct ReplacedTables(HashMap<usize, Vec<Range<u32>>>);

impl ReplacedTables {
    /// Finds them in what the agent says, and in the results of calls that were made again.
    pub(super) fn of(context: &Context, sources: &[ContextMessage]) -> Self {
        let mut newest: HashMap<(String, Option<u64>), Vec<Table>> = HashMap::new();
        let mut replaced: HashMap<usize, Vec<Range<u32>>> = HashMap::new();
        for position in (0..sources.len()).rev() {
            let features = sources[position].features();
            let call = answered_call(context, position).map(|asked| asked.deed.call_hash);
            let text = match sources[position].role() {
                Role::Assistant => features.beside_calls(),
                Role::Tool if call.is_some() => features.text.as_str(),
                Role::User | Role::System | Role::Tool => continue,
            };
            let here = tables(text);
            let is_replaced = |table: &Table| {
                let later = newest.get(&(table.head.clone(), call)).into_iter().flatten();
                later.take(MOST_COMPARED).any(|later| later.replaces(table))
            };
            let (old, new): (Vec<Table>, Vec<Table>) = here.into_iter().partition(is_replaced);
            if !old.is_empty() {
                replaced.insert(position, old.into_iter().map(|table| table.range).collect());
            }
            for table in new {
                newest.entry((table.head.clone(), call)).or_default().push(table);
            }
        }
        Self(replaced)
    }

    /// Returns the parts of a passage that no later table replaces.
    pub(super) fn beside(&self, passage: &Passage, features: &Features) -> Vec<Passage> {
        match self.0.get(&(passage.message as usize)) {
            Some(replaced) => {
                passage.without(features, |line| replaced.iter().any(|table| table.contains(&line.start)))
            }
            None => vec![*passage],
        }
    }
}

/// Returns the numbers of the lines of a table without which the row at `nth` of a text says little: its
/// head, and the row of the sum, in bold type at its end.
pub(super) fn rows_beside(features: &Features, nth: usize) -> Vec<usize> {
    let lines = &features.lines;
    let row = |nth: usize| Some(features.line(lines.get(nth)?)).filter(|line| is_row(line));
    let between = |nth: usize| {
        let gap = &features.text[lines[nth].end as usize..lines[nth + 1].start as usize];
        gap.trim_end_matches([' ', '\t'])
    };
    // The rule below the head has no words.
    let is_joined = |nth: usize| {
        row(nth).and(row(nth + 1)).is_some()
            && between(nth).lines().skip(1).all(|line| !line.trim().is_empty())
    };
    let first = (0..nth).rev().take_while(|at| is_joined(*at)).last().unwrap_or(nth);
    let last = (nth..).take_while(|at| is_joined(*at)).last().map_or(nth, |at| at + 1);
    let has_head = first < last && between(first).contains("--");
    if !has_head {
        return Vec::new();
    }
    let n_marks = |nth: usize| row(nth).map_or(0, |row| row.matches(BOLD).count());
    let is_sum = n_marks(last) > n_marks(last - 1);
    let beside = [Some(first), is_sum.then_some(last)];
    beside.into_iter().flatten().filter(|at| *at != nth).collect()
}

/// The mark around text in bold type.
const BOLD: &str = "**";

/// A table in Markdown.
#[derive(Debug)]
struct Table {
    /// Its bytes in the text.
    range: Range<u32>,
    head: String,
    /// The words in its first column, without what stands there in brackets.
    things: HashSet<String>,
    /// The words of the line above it.
    heading: Vec<String>,
}

impl Table {
    /// Checks whether a table tells anew what an earlier one with the same head does: most things are the
    /// same, and it has no heading of another thing.
    fn replaces(&self, earlier: &Self) -> bool {
        let n_shared = self.things.intersection(&earlier.things).count();
        let n_fewer = self.things.len().min(earlier.things.len());
        n_shared * 3 >= n_fewer * 2 && n_shared > 0 && !are_of_two_things(&self.heading, &earlier.heading)
    }
}

/// Checks whether two headings only differ in what they name, or have other numbers.
fn are_of_two_things(one: &[String], other: &[String]) -> bool {
    let numbers = |words: &[String]| -> HashSet<String> {
        words.iter().filter(|word| word.contains(|c: char| c.is_ascii_digit())).cloned().collect()
    };
    let have_other_numbers = || {
        let (one, other) = (numbers(one), numbers(other));
        !one.is_empty() && !other.is_empty() && one.is_disjoint(&other)
    };
    let n_same = one.iter().zip(other).filter(|(one, other)| one == other).count();
    let are_alike = one.len() == other.len() && (one.len() <= NAME_WORDS || n_same * 2 >= one.len());
    n_same < one.len() && are_alike || have_other_numbers()
}

/// Returns the tables in a text, in order.
fn tables(text: &str) -> Vec<Table> {
    let is_row = |line: &str| is_row(line.trim_start());
    if !text.contains('|') {
        return Vec::new();
    }
    let mut end = 0;
    let lines = text.split_inclusive('\n').map(|line| {
        let start = end;
        end += line.len();
        (start, line)
    });
    let lines: Vec<(usize, &str)> = lines.collect();
    let mut heading: Vec<String> = Vec::new();
    let mut tables = Vec::new();
    for block in lines.chunk_by(|(_, one), (_, next)| is_row(one) == is_row(next)) {
        if !block.iter().any(|(_, line)| is_row(line)) {
            let last = block.iter().rfind(|(_, line)| line.contains(char::is_alphanumeric));
            heading = last.map(|(_, line)| words(line)).unwrap_or_default();
            continue;
        }
        let rows: Vec<Vec<&str>> = block.iter().map(|(_, line)| cells(line)).collect();
        let heading = std::mem::take(&mut heading);
        if let [head, rule, rows @ ..] = rows.as_slice()
            && is_rule(rule)
            && rows.len() >= LEAST_ROWS
            && (head.len() >= LEAST_COLUMNS || has_numbers(rows))
            && let (Some((start, _)), Some((last, line))) = (block.first(), block.last())
        {
            let Some(things) = things(rows) else { continue };
            let head: Vec<String> = head.iter().map(|cell| words(cell).join(" ")).collect();
            let range = *start as u32..(last + line.len()) as u32;
            tables.push(Table { range, head: head.join("|"), things, heading });
        }
    }
    tables
}

/// Returns the things that the first cells of rows name; `None` if those name none: they only number or mark
/// the rows, or are the same in several.
fn things(rows: &[Vec<&str>]) -> Option<HashSet<String>> {
    let thing = |cell: &&str| {
        let thing = cell.split_once('(').map_or(*cell, |(thing, _)| thing);
        words(thing).join(" ")
    };
    let named = rows.iter().filter_map(|row| row.first()).map(thing);
    let named: Vec<String> = named.filter(|thing| thing.contains(char::is_alphabetic)).collect();
    let (n_named, things) = (named.len(), named.into_iter().collect::<HashSet<_>>());
    (things.len() == n_named && n_named * 3 >= rows.len() * 2).then_some(things)
}

/// Returns the cells of a row.
fn cells(row: &str) -> Vec<&str> {
    let row = row.trim();
    let row = row.strip_prefix('|').unwrap_or(row);
    row.strip_suffix('|').unwrap_or(row).split('|').map(str::trim).collect()
}

/// Checks whether a row is the rule below the head of a table.
fn is_rule(cells: &[&str]) -> bool {
    cells.iter().all(|cell| cell.contains('-') && cell.chars().all(|c| matches!(c, '-' | ':')))
}

/// Checks whether most of the second cells are numbers: a table of two columns may have the fields of one
/// thing instead.
fn has_numbers(rows: &[Vec<&str>]) -> bool {
    let is_number = |cell: &str| {
        let n_letters = cell.chars().filter(|c| c.is_alphabetic()).count();
        cell.contains(|c: char| c.is_ascii_digit()) && n_letters <= MOST_UNIT
    };
    let n_numbers = rows.iter().filter(|row| row.get(1).is_some_and(|cell| is_number(cell))).count();
    n_numbers * 4 >= rows.len() * 3
}

/// Returns the words of a text in lower case.
fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::Message;

    /// Returns a table of two columns below its heading.
    fn table(heading: &str, head: &str, rows: &[(&str, &str)]) -> String {
        let rows: String = rows.iter().map(|(thing, value)| format!("| {thing} | {value} |\n")).collect();
        format!("{heading}\n\n| {head} |\n|---|---|\n{rows}\nThat is all.")
    }

    #[test]
    fn a_later_table_about_the_same_things_replaces_an_earlier_one() {
        let balances = |heading: &str| {
            table(heading, "Person | Net (R$)", &[("**Ana**", "+12.30"), ("Ben (paid)", "-4"), ("Cleo", "8")])
        };
        let of_others = table("", "Person | Net (R$)", &[("Dora", "1"), ("Emil", "2"), ("Ana", "3")]);
        let other_head = table("", "Person | Net (EUR)", &[("Ana", "1"), ("Ben", "2"), ("Cleo", "3")]);
        let one_more =
            table("## As of now", "Person | Net (R$)", &[("Ana", "1"), ("Ben", "2"), ("Dora", "3")]);
        let numbered = |cells: [&str; 3]| table("", "Person | Net", &cells.map(|cell| (cell, "7")));
        let fields = |name: &str| table("", "Field | Value", &[("Name", name), ("Status", "open")]);
        for (earlier, later, expected) in [
            (balances("## Net balances"), balances("## Net balances"), true),
            (balances(""), balances("## Net balances"), true),
            (balances("## Net balances, updated once more"), one_more, true),
            (balances("## January"), balances("## February"), false),
            (balances("## Balances of 2024"), balances("## All balances of the year 2025"), false),
            (balances(""), of_others, false),
            (balances(""), other_head, false),
            // The fields of one thing, and of another.
            (fields("Ana"), fields("Ben"), false),
            (balances(""), "| Person | Net (R$) |\n| Ana | 1 |".to_owned(), false),
            (numbered(["1", "2", "3"]), numbered(["1", "2", "3"]), false),
            (numbered(["✅", "✅", "❌"]), numbered(["✅", "✅", "❌"]), false),
            (numbered(["high", "low", "low"]), numbered(["high", "low", "low"]), false),
            (numbered(["a.rs", "b.rs", "c.rs"]), numbered(["a.rs", "b.rs", "c.rs"]), true),
        ] {
            let is_replaced = |earlier: &Table| {
                let later = tables(&later);
                later.iter().any(|later| later.head == earlier.head && later.replaces(earlier))
            };
            let found = tables(&earlier);
            assert_eq!(found.iter().any(is_replaced), expected, "{earlier}\n{later}");
            for table in found {
                let text = &earlier[table.range.start as usize..table.range.end as usize];
                assert!(text.starts_with("| Person |") && text.ends_with("|\n"), "{text}");
            }
        }
    }
    #[test]
    fn a_row_has_its_head_and_its_sum_beside_it() {
        let rows = "| Flights | 235 |\n| Car | 38 |\n";
        let sum = "| **Sum** | **273** |\n";
        let head = "| Item | Euros |\n|---|---|\n";
        for (text, row, expected) in [
            (format!("The sum:\n{head}{rows}{sum}\n33 are left."), "| Car", vec!["| Item", "| **Sum"]),
            (format!("{head}{rows}{sum}"), "| Flights", vec!["| Item", "| **Sum"]),
            (format!("{head}{rows}"), "| Flights", vec!["| Item"]),
            (format!("{head}{rows}{sum}"), "| **Sum", vec!["| Item"]),
            (format!("{head}{rows}{sum}"), "| Item", vec!["| **Sum"]),
            (format!("{head}{sum}\n{rows}"), "| Car", vec![]),
            (format!("{rows}{sum}"), "| Car", vec![]),
            (format!("The sum:\n{head}{rows}"), "The sum", vec![]),
        ] {
            let features = Features::of(&Message::assistant(text.as_str()));
            let line = |nth: usize| features.line(&features.lines[nth]);
            let nth = (0..features.lines.len()).find(|nth| line(*nth).starts_with(row)).unwrap();
            let beside: Vec<&str> = rows_beside(&features, nth).into_iter().map(line).collect();
            let is_it = |(line, start): (&&str, &&str)| line.starts_with(start);
            assert!(
                beside.len() == expected.len() && beside.iter().zip(&expected).all(is_it),
                "{text}\n{row}: {beside:?}"
            );
        }
    }
}
