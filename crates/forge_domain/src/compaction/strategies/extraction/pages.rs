//! The pages of a browser as trees of elements, and what most of them show: navigation, and the like.

use std::collections::HashSet;

use crate::ContextMessage;
use crate::compaction::features::{ByTerm, Features, Line, TermHasher, hash};
use crate::compaction::question::Question;

/// A result of fewer different elements is no page.
const LEAST_ELEMENTS: usize = 4;
/// An element is furniture if so many pages show it: at least, and in percent.
const LEAST_PAGES: usize = 4;
const OF_PAGES_PERCENT: usize = 60;

/// The elements that most pages show.
#[derive(Default)]
pub(super) struct Furniture {
    elements: HashSet<u64, TermHasher>,
    pages: HashSet<usize>,
}

impl Furniture {
    /// Finds them in the `results` among `sources`, by their positions. What the focus of `question` names is
    /// none: it was asked for on every page.
    pub(super) fn of(
        results: impl Iterator<Item = usize>,
        sources: &[ContextMessage],
        question: &Question,
    ) -> Self {
        let mut n_pages: ByTerm<usize> = ByTerm::default();
        let mut pages = HashSet::new();
        for position in results {
            let elements = elements(sources[position].features(), question);
            if elements.len() >= LEAST_ELEMENTS {
                pages.insert(position);
                elements.into_iter().for_each(|element| *n_pages.entry(element).or_default() += 1);
            }
        }
        let least = LEAST_PAGES.max((pages.len() * OF_PAGES_PERCENT).div_ceil(100));
        let elements = n_pages.into_iter().filter(|(_, n)| *n >= least).map(|(element, _)| element);
        Self { elements: elements.collect(), pages }
    }

    /// Checks whether the message at `position` is a page with anything that other pages show.
    pub(super) fn is_page(&self, position: usize) -> bool {
        !self.elements.is_empty() && self.pages.contains(&position)
    }

    /// Checks whether most pages have the element of a line.
    pub(super) fn has(&self, line: &str) -> bool {
        !self.elements.is_empty()
            && element(line).is_some_and(|element| self.elements.contains(&hash(element)))
    }
}

/// Returns the hashes of the elements of a page.
fn elements(page: &Features, question: &Question) -> HashSet<u64, TermHasher> {
    // Most results are no pages.
    if !page.text.contains("\n[") && !page.text.contains(REFERENCE) {
        return HashSet::default();
    }
    let has_focus = question.has_focus();
    let is_asked_for = |line: &&Line| {
        let mut terms = page.places(line).iter();
        has_focus && terms.any(|term| question.is_focus(page.terms[*term as usize].hash()))
    };
    let lines = page.lines.iter().filter(|line| !is_asked_for(line));
    lines.filter_map(|line| element(page.line(line))).map(hash).collect()
}

/// The mark of an element in the trees of Playwright.
const REFERENCE: &str = " [ref=";

/// Returns what a line tells of an element, without the mark by which calls name it: `[12] link "Home"`,
/// `- link "Home" [ref=e12]`. Returns `None` for other lines.
pub(super) fn element(line: &str) -> Option<&str> {
    let line = line.trim().trim_start_matches("- ");
    let numbered = line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    match numbered {
        Some((number, element)) if is_number(number) => Some(element),
        _ => line.split_once(REFERENCE).map(|(element, _)| element),
    }
}

/// Returns the name in quotes of the element with such a number on a page.
pub(super) fn name_of<'p>(number: &str, page: &'p str) -> Option<&'p str> {
    let mark = Some(format!("[{number}] ")).filter(|_| is_number(number))?;
    let element = page.lines().find_map(|line| line.trim_start().strip_prefix(mark.as_str()))?;
    let (start, end) = (element.find('"')?, element.rfind('"')?);
    (start + 1 < end).then(|| &element[start..=end])
}

/// Checks whether a text is a number by which pages name an element.
pub(super) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::Message;
    use crate::compaction::fixture::Characters;

    #[test]
    fn elements_that_most_pages_show_are_furniture() {
        let numbered = |n: usize, element: &str| format!("[{n}] {element}\n");
        let referred = |n: usize, element: &str| format!("- {element} [ref=e{n}]:\n");
        for mark in [&numbered as &dyn Fn(usize, &str) -> String, &referred] {
            let page = |n: usize| {
                let names = ["Home", "Help", "Terms", "Basket"];
                let links = names.iter().enumerate();
                let links: String =
                    links.map(|(k, name)| mark(k * 7 + n, &format!("link \"{name}\""))).collect();
                let own = mark(90 + n, &format!("text \"Part {n} was added\""));
                format!("Page {n}\n{links}{own}")
            };
            let texts: Vec<String> = (0..5).map(page).chain(["[1] note\n[2] note".to_owned()]).collect();
            let count = |text: &String| ContextMessage::count(Message::user(text.as_str()), &Characters);
            let sources: Vec<ContextMessage> = texts.iter().map(count).collect();
            let furniture = Furniture::of(0..6, &sources, &Question::default());
            let rest: Vec<&str> = texts[3].lines().filter(|line| !furniture.has(line)).collect();
            assert_eq!(rest, ["Page 3", mark(93, "text \"Part 3 was added\"").trim_end()]);
            let pages: Vec<usize> = (0..6).filter(|position| furniture.is_page(*position)).collect();
            assert_eq!(pages, [0, 1, 2, 3, 4]);
            // Of a few pages, nothing is known.
            let few = Furniture::of(0..3, &sources, &Question::default());
            assert!(!few.is_page(0) && texts[0].lines().all(|line| !few.has(line)));
        }
    }

    #[test]
    fn an_element_is_named_on_its_page() {
        let page = "Page\n  [7] link \"Home\"\n[907] button \"28 April \"8-12\"\" (1)\n[9] text\n[x] \"no\"";
        for (number, expected) in [
            ("7", Some("\"Home\"")),
            ("907", Some("\"28 April \"8-12\"\"")),
            ("9", None),
            ("90", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(name_of(number, page), expected, "{number}");
        }
    }
}
