//! The blocks of code, and the calls and changes that a model writes into its text. Apart because their marks
//! are followed line by line, with a state of their own.

use crate::compaction::features::Line;

/// The mark before and after a block of code.
pub(super) const FENCE: &str = "```";
/// The marks around a call, or a change of a file, that a model writes into its text.
const CALLS: [[&str; 2]; 2] = [["<function=", "</function>"], [REPLACES[0], REPLACES[2]]];
/// The marks before what a written change replaces, before what takes its place, and after that.
const REPLACES: [&str; 3] = ["<<<<<<< SEARCH", "=======", ">>>>>>> "];

/// The blocks of code and the written calls in a text, as far as it was passed.
#[derive(Default)]
pub(super) struct Fence {
    /// The end of what was passed.
    passed: u32,
    is_open: bool,
    /// The mark that ends the written call in which it is.
    call_end: Option<&'static str>,
    /// True if it is in what a written change replaces.
    pub(super) is_in_old: bool,
    /// The start of the last line that is a mark, of the language or of a change.
    mark: Option<u32>,
}

impl Fence {
    /// Passes to a line, and checks whether it is in a block of code or a written call.
    pub(super) fn pass(&mut self, text: &str, line: &Line) -> bool {
        let gap = &text[self.passed as usize..line.start as usize];
        let between = gap.lines().map(str::trim_start);
        let n_marks = between.clone().filter(|line| line.starts_with(FENCE)).count();
        self.call_end = self.call_end.filter(|end| !between.clone().any(|line| line.starts_with(end)));
        let here = &text[line.start as usize..];
        let is_mark = here.starts_with(FENCE);
        self.is_open ^= (n_marks + usize::from(is_mark)) % 2 == 1;
        // A call whose end was lost ends with the block of code around it.
        self.call_end = self.call_end.filter(|_| self.is_open || n_marks == 0);
        let was_in_call = self.call_end.is_some();
        let begun = || CALLS.iter().find(|[begin, _]| here.starts_with(begin)).map(|[_, end]| *end);
        let is_of_change = here.starts_with(REPLACES[0]) || was_in_call && here.starts_with(REPLACES[2]);
        let has_new = between.clone().chain([here]).any(|line| line.starts_with(REPLACES[1]));
        self.is_in_old = !has_new && (self.is_in_old && was_in_call || here.starts_with(REPLACES[0]));
        self.call_end = self.call_end.or_else(begun).filter(|end| !here.starts_with(end));
        self.passed = line.end;
        self.mark = (is_mark || is_of_change).then_some(line.start);
        self.is_open || self.call_end.is_some() || was_in_call
    }

    /// Checks whether the last line is a mark itself.
    pub(super) fn is_at(&self, line: &Line) -> bool {
        self.mark == Some(line.start)
    }
}
