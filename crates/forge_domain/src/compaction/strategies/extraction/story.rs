//! The story of the agent's work: each call with how it ended.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::Material;
use super::endings::{DONE, ENDING_CHARS, NO_OUTPUT, asks_the_user, ending_of, whole_line};
use super::imports::Imports;
use super::label::{Folder, one_line, tool_name};
use super::ledger::{COMMITTED, UNDONE};
use super::pages::{element, is_number, name_of};
use super::record::Entry;
use super::worth::Worth;
use crate::compaction::answered_call::answered_call;
use crate::compaction::arguments::patched_in;
use crate::compaction::envelope::{OwnCommand, output, within};
use crate::compaction::features::{Features, Line, hash};
use crate::compaction::names::{call_lines, is_outermost, names_written};
use crate::{CallPlace, ContextMessage, Role, ToolCall, find_secrets, quantity, user_words};

/// The text that readers of recordings put in place of a result that is not there.
pub(super) const NO_RESULT: &str = "[no result recorded]";
/// The tool of a command that the user ran, and of one that ended after its result.
const USERS_TOOL: &str = "shell (user)";
const BACKGROUND_TOOL: &str = "shell (background)";
/// The words before the name of another agent in the tool that hands the work over to it.
const HANDOFFS: [&str; 2] = ["transfer_to_", "handoff_to_"];

/// A call with how it ended, as an entry of a record.
pub(super) struct Step {
    /// The position of the result.
    pub(super) position: usize,
    pub(super) entry: Entry,
    /// The calls that changed files, if nothing is told of how.
    writes: Vec<CallPlace>,
    /// A line that they wrote, if it tells that.
    pub(super) quotes: Option<String>,
    pub(super) effect: Effect,
    /// True if the user answered it: the agent asked them something, or they refused it and said why.
    pub(super) asks: bool,
}

/// Iterates over the steps of the calls that leave with their results, the newest first, as few are needed.
/// Calls in a row that did the same are one step, and so are those that read files by the same tool; lists of
/// tasks are none. Of calls that only ask, with the same result, the newest is told.
pub(super) fn newest_steps<'a>(
    material: &'a Material<'a>,
    leaves: &'a [bool],
    folder: &'a Folder,
) -> impl Iterator<Item = Step> + 'a {
    let leaving = (0..material.sources.len()).rev().filter(|position| leaves[*position]);
    let done = leaving.filter_map(|position| Done::at(position, material, leaves, folder));
    // That a file was read is plain if the next call changed it.
    let mut changed: Option<String> = None;
    // The command that ran on after its result is told by the call that asked how it ended.
    let mut told: HashSet<String> = HashSet::new();
    let mut done = done
        .filter(move |done| {
            let is_plain = done.reads && changed.as_ref() == Some(&done.what);
            changed = done.changes.then(|| done.what.clone());
            let has_run_on = done.has_run_on(material);
            let is_told = has_run_on && told.contains(&done.what);
            if !has_run_on && !material.state.running.is_empty() {
                told.insert(done.what.clone());
            }
            !is_plain && !is_told
        })
        .peekable();
    let mut told = HashSet::new();
    std::iter::from_fn(move || {
        loop {
            let mut same = vec![done.next()?];
            let mut n_files = 1;
            while let Some(before) = done.next_if(|before| before.is_one_step_with(&same, n_files)) {
                n_files += usize::from(same.iter().all(|done| done.what != before.what));
                same.push(before);
            }
            let add = |is_new: bool, done: &Done| done.is_new(material, &mut told) | is_new;
            if !same.iter().fold(false, add) {
                continue;
            }
            let newest = &same[0];
            let Done { position, effect, asks, .. } = *newest;
            same.reverse();
            let writes = same.iter().filter(|done| done.changes).map(|done| done.place).collect();
            return Some(Step { position, entry: entry_of(&same), writes, quotes: None, effect, asks });
        }
    })
}

/// Most names that are told of what calls wrote, and most characters of a line.
const MOST_WRITTEN: usize = 4;
const WRITTEN_CHARS: usize = 60;

impl Step {
    /// Tells, in place of nothing but that it is done, what a change of a file brought in: new names, by the
    /// `worth` of the terms of `sources`.
    pub(super) fn tell_names(&mut self, sources: &[ContextMessage], worth: &Worth<'_>) {
        let writes = std::mem::take(&mut self.writes);
        let Some(label) = self.entry.as_str().strip_suffix(DONE).and_then(|entry| entry.strip_suffix(": "))
        else {
            return;
        };
        let most = MOST_WRITTEN.div_ceil(writes.len().max(1));
        let mut names: Vec<&str> = Vec::new();
        for CallPlace { message, nth } in &writes {
            let is_new = |place: u32| worth.is_new(*message, place);
            let written = names_written(sources[*message].features(), *nth, &is_new, most);
            names.extend(written.into_iter().take(MOST_WRITTEN - names.len()));
        }
        let told = match names.as_slice() {
            [] => {
                let mut lines = writes.iter().rev();
                self.quotes = lines.find_map(|call| written_line(sources[call.message].features(), call.nth));
                self.quotes.clone()
            }
            names => Some(format!("adds {}", names.join(", "))),
        };
        if let Some(told) = told {
            self.entry = Entry::labelled(label, &told, false);
        }
    }
}

/// Returns the line that tells best what a call wrote, of those that were not there before: the first one at
/// the margin, else the first of all.
fn written_line(features: &Features, nth: usize) -> Option<String> {
    let of_call = call_lines(features, nth);
    // A comma behind a line makes no other line of it.
    let bare = |line: &Line| whole_line(features, line).trim_end_matches(',');
    let mut passed: Option<&Line> = None;
    let old = of_call.clone().filter(|line| line.is_old);
    let old =
        old.filter(|line| passed.replace(*line).is_none_or(|before| !features.is_one_line(before, line)));
    let old: HashSet<&str> = old.map(bare).collect();
    let mut imports = Imports::default();
    // The piece before, and whether its line is new.
    let mut known: Option<(&Line, bool)> = None;
    let mut new = of_call.filter(|line| !line.begins_call && !line.is_old).filter(|line| {
        let is_import = imports.pass(&features.text, line);
        let is_new = match known.filter(|(before, _)| features.is_one_line(before, line)) {
            Some((_, is_new)) => is_new,
            None => !old.contains(bare(line)) && patched_in(whole_line(features, line)).is_none(),
        };
        known = Some((*line, is_new));
        !is_import && features.places(line).len() > 1 && is_new
    });
    let first = new.next()?;
    let is_outer = |line: &&Line| is_outermost(&features.text, line.start as usize);
    let line = Some(first).filter(is_outer).or_else(|| new.find(is_outer)).unwrap_or(first);
    one_line(whole_line(features, line), WRITTEN_CHARS)
}

/// Checks whether a call does nothing but hand the work over to another agent of a team, whose name says so
/// above what it does.
pub(super) fn hands_over(call: &ToolCall, result: &ContextMessage) -> bool {
    let agent = HANDOFFS.iter().find_map(|words| call.name.as_str().strip_prefix(words));
    let text = result.features().text.trim();
    let names = |agent: &str| text.contains(agent) || text.contains(&agent.replace('_', " "));
    matches!(call.arguments.trim(), "" | "{}") && !text.contains('\n') && agent.is_some_and(names)
}

/// Returns the entry of calls that are one step, oldest first.
fn entry_of(calls: &[Done]) -> Entry {
    let mut labels: Vec<&str> = calls.iter().map(|done| done.label.as_str()).collect();
    labels.dedup();
    let label = match labels.as_slice() {
        [first, .., last] if labels.len() > MOST_LABELS => format!("{first}–{last}"),
        labels => labels.join(", "),
    };
    let n_of = |what: &str| calls.iter().filter(|done| done.what == what).count();
    let times = |n: usize| if n > MOST_LABELS { format!(" ({n} times)") } else { String::new() };
    let Done { tool, what, ending, .. } = &calls[0];
    if n_of(what) == calls.len() {
        return Entry::labelled(&format!("{label} {tool}{what}{}", times(calls.len())), ending, false);
    }
    if calls[1..].iter().all(|done| done.is_alike(&calls[0])) {
        let told = format!("{label} {tool}{what} ({} times with other numbers)", calls.len());
        return Entry::labelled(&told, ending, false);
    }
    let mut files: Vec<&str> = Vec::new();
    for done in calls {
        if !files.contains(&done.what.as_str()) {
            files.push(&done.what);
        }
    }
    let files = files.iter().map(|file| format!("{}{}", file.trim_start(), times(n_of(file))));
    Entry::labelled(&format!("{label} {tool}"), &files.collect::<Vec<_>>().join(", "), false)
}

/// The effect of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It changed nothing and ran nothing.
    Looks,
    /// It may have changed the work.
    Work,
    /// It changed something outside of the files of the work.
    Outside,
}

/// A call, and how it ended.
struct Done {
    /// The position of the result.
    position: usize,
    /// The place of the call, and the label of its message.
    place: CallPlace,
    label: String,
    tool: String,
    /// The subject of the call, with a blank before it.
    what: String,
    ending: String,
    /// A hash of the result.
    result: u64,
    effect: Effect,
    /// True if it read a file: how many lines that has says little.
    reads: bool,
    /// True if it changed a file.
    changes: bool,
    asks: bool,
    /// True if the agent said nothing before the call.
    goes_on: bool,
}

impl Done {
    /// Returns the call whose result is at `position`, if there is one that `leaves` too. What changes the
    /// list of tasks counts as none: that has a section of its own.
    fn at(position: usize, material: &Material<'_>, leaves: &[bool], folder: &Folder) -> Option<Self> {
        let Some(asked) = answered_call(material.context, position) else {
            return Self::of_user(position, material);
        };
        if !leaves[asked.place.message] {
            return None;
        }
        let result = &material.sources[position];
        if result.message().text() == NO_RESULT && !asked.deed.acts(asked.call) {
            return None;
        }
        if hands_over(asked.call, result) || material.speech.tells_result(position) {
            return None;
        }
        let tool = tool_name(asked.call)?;
        let running = &material.state.running;
        let ids = if running.is_empty() { Vec::new() } else { asked.deed.ids_asked_about(asked.call) };
        // A call that only asks how a command runs is about that command.
        let asked_about = ids.iter().find_map(|id| running.get(id)).cloned();
        let what = asked_about.unwrap_or_else(|| folder.subject(asked.deed));
        let named = element_named(what.trim(), &material.sources[..asked.place.message]);
        let what = named.map_or(what, |named| format!(" {named}"));
        let ending = ending_of(&asked, position, material)?;
        let ending = shown(position, &ending, material).unwrap_or(ending);
        let calling = &material.sources[asked.place.message];
        let goes_on = calling.message().text().trim().is_empty();
        let asks = asks_the_user(asked.call) || user_words(result.message()).is_some();
        // Some answers repeat the question. The label may have several, or only the beginning of one.
        let question: String =
            what.trim().trim_end_matches(['…', ' ']).chars().take(QUESTION_CHARS).collect();
        let is_repeated = asks_the_user(asked.call) && ending.contains(&question);
        let what = if is_repeated { String::new() } else { what };
        let effect = match () {
            () if asked.deed.only_looks => Effect::Looks,
            () if asked.deed.acts(asked.call) => Effect::Outside,
            () => Effect::Work,
        };
        let is_done = asked.deed.failure(result).is_none();
        Some(Self {
            position,
            place: asked.place,
            label: calling.label(),
            tool,
            what,
            ending,
            result: hash(&result.features().text),
            effect,
            reads: is_done && asked.deed.read().is_some(),
            changes: is_done && asked.deed.changes_files(),
            asks,
            goes_on,
        })
    }

    /// Returns what the note at `position` tells of a command that the user ran beside the conversation, or
    /// that ended in the background.
    fn of_user(position: usize, material: &Material<'_>) -> Option<Self> {
        let note = &material.sources[position];
        let by = note.message().note_by()?;
        if let Some(noted) = noted_edits(&note.features().text) {
            return Some(Self::of_note(position, note, by, String::new(), noted));
        }
        if let Some((what, ending)) = ended_task(&note.features().text, &material.state.running) {
            return Some(Self::of_note(position, note, BACKGROUND_TOOL, what, ending));
        }
        let next = material.sources.get(position + 1).filter(|next| next.message().note_by().is_some());
        let next = next.map(|next| next.features().text.as_str());
        let own = OwnCommand::of(&note.features().text, next)?;
        let last = own.output.and_then(|output| output.lines().rfind(|line| !line.trim().is_empty()));
        let what = format!(" {}", one_line(own.command, ENDING_CHARS)?);
        let ending =
            last.and_then(|last| one_line(last, ENDING_CHARS)).unwrap_or_else(|| NO_OUTPUT.to_owned());
        Some(Self::of_note(position, note, USERS_TOOL, what, ending))
    }

    /// Returns what a note tells that something did.
    fn of_note(position: usize, note: &ContextMessage, tool: &str, what: String, ending: String) -> Self {
        Self {
            position,
            place: CallPlace { message: position, nth: 0 },
            label: note.label(),
            tool: tool.to_owned(),
            what,
            ending,
            result: 0,
            effect: Effect::Work,
            reads: false,
            changes: false,
            asks: false,
            goes_on: false,
        }
    }

    /// Checks whether it is a command that had not ended when its result was sent.
    fn has_run_on(&self, material: &Material<'_>) -> bool {
        let result = &material.sources[self.position];
        let asked = answered_call(material.context, self.position);
        let unfinished = asked.and_then(|asked| asked.deed.unfinished(result));
        let id = unfinished.and_then(|unfinished| unfinished.id.as_deref());
        id.is_some_and(|id| material.state.running.contains_key(id))
    }

    /// Checks whether it is one step with the calls after it, which are about `n_files` files. If it
    /// looks at the same things again, it is, even if the agent says something in between.
    fn is_one_step_with(&self, later: &[Self], n_files: usize) -> bool {
        let Some(next) = later.last().filter(|next| next.tool == self.tool) else { return false };
        let is_same = self.what == next.what && self.ending == next.ending || self.is_alike(next);
        let is_known = || later.iter().any(|done| done.what == self.what);
        let reads_on = self.reads && next.reads && (n_files < MOST_FILES || is_known());
        reads_on || is_same && (self.effect == Effect::Looks || next.goes_on)
    }

    /// Checks whether none that is `told` is the same call with the same result, and adds it to them.
    /// Whatever runs or changes something is new each time.
    fn is_new(&self, material: &Material<'_>, told: &mut HashSet<(u64, u64)>) -> bool {
        let asked = answered_call(material.context, self.position);
        let asks = asked.filter(|asked| self.effect == Effect::Looks || !asked.deed.runs);
        let asks = asks.filter(|_| self.effect != Effect::Outside && !self.changes && !self.asks);
        asks.is_none_or(|asked| told.insert((asked.deed.call_hash, self.result)))
    }

    /// Checks whether it only looked, with other numbers, and got the same result as another call.
    fn is_alike(&self, other: &Self) -> bool {
        let words = |what: &str| {
            what.split(|c: char| c.is_ascii_digit())
                .filter(|part| !part.is_empty())
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        self.effect == Effect::Looks
            && !self.reads
            && (self.result, &self.ending) == (other.result, &other.ending)
            && words(&self.what) == words(&other.what)
    }
}

/// Returns the name of the element by whose number alone a call is about it, as the newest page among those
/// `before` has it.
fn element_named(number: &str, before: &[ContextMessage]) -> Option<String> {
    let results = before.iter().rev().filter(|source| source.role() == Role::Tool);
    let mut pages = results.take(if is_number(number) { NEWEST_PAGES } else { 0 });
    let name = pages.find_map(|page| name_of(number, &page.features().text))?;
    one_line(name, WRITTEN_CHARS)
}

/// Returns what the page at `position` shows and most others do not, if all that its `ending` tells is the
/// number of its lines.
fn shown(position: usize, ending: &str, material: &Material<'_>) -> Option<String> {
    let furniture = material.frames.furniture();
    let features = material.sources[position].features();
    if !furniture.is_page(position) || ending != quantity(features.n_text_lines as usize, "line") {
        return None;
    }
    let lines = features.lines.iter().map(|line| features.line(line));
    let own = lines.filter(|line| !furniture.has(line)).map(|line| element(line).unwrap_or(line));
    let shown = own.take(MOST_SHOWN).collect::<Vec<_>>().join("; ");
    one_line(&shown, ENDING_CHARS).filter(|shown| find_secrets(shown).is_empty())
}

/// The results before a call of which one may be the page that it is about, and most lines of a page that are
/// told.
const NEWEST_PAGES: usize = 3;
const MOST_SHOWN: usize = 4;

/// Returns what a note of aider tells of edits: its commits, those that the user undid, and what could not
/// be applied.
fn noted_edits(note: &str) -> Option<String> {
    let is_told =
        |line: &&str| line.starts_with(COMMITTED) || line.starts_with(UNDONE) || line.contains(UNMATCHED);
    let told: Vec<&str> = note.lines().map(str::trim).filter(is_told).collect();
    (!told.is_empty()).then(|| one_line(&told.join("; "), ENDING_CHARS)).flatten()
}

/// Returns what a note reports of the end of one of the commands that are `running`, after the command.
fn ended_task(note: &str, running: &HashMap<String, String>) -> Option<(String, String)> {
    let report = note.trim_start().strip_prefix("<task-notification>")?;
    let what = running.get(within(report, "task-id")?)?.clone();
    let status = one_line(within(report, "status")?, ENDING_CHARS)?;
    let told = within(report, "result").or_else(|| within(report, "summary")).unwrap_or_default();
    let told = output(Cow::Borrowed(told));
    let last = told.lines().rfind(|line| !line.trim().is_empty());
    let last =
        last.and_then(|last| one_line(last, ENDING_CHARS)).filter(|last| find_secrets(last).is_empty());
    let ending = match last {
        Some(last) if status == "completed" => last,
        Some(last) => format!("{status}: {last}"),
        None => status,
    };
    Some((what, ending))
}

/// The words of aider about an edit that it could not apply.
const UNMATCHED: &str = "failed to match!";

/// The characters by which a question is known in its answer.
const QUESTION_CHARS: usize = 40;
/// Most labels of the calls of a step, one by one.
const MOST_LABELS: usize = 3;
/// Most files that were read in a step.
const MOST_FILES: usize = 8;

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::super::root::Root;
    use super::*;
    use crate::compaction::fixture::{Characters, tool_call};
    use crate::{Message, ToolName, ToolResult};

    #[test]
    fn the_end_of_a_command_in_the_background_is_told() {
        let running = HashMap::from([("b7".to_owned(), " make".to_owned())]);
        let note = |id: &str, told: &str| {
            format!("<task-notification>\n<task-id>{id}</task-id>\n{told}\n</task-notification>")
        };
        for (note, expected) in [
            (
                note("b7", "<status>failed</status>\n<result>\nExit code: 2\nOutput:\nno rule\n</result>"),
                Some("failed: no rule"),
            ),
            (
                note("b7", "<status>completed</status>\n<result>\nExit code: 0\nOutput:\n</result>"),
                Some("completed"),
            ),
            (note("b7", "<status>completed</status>\n<summary>It is done</summary>"), Some("It is done")),
            (note("b8", "<status>completed</status>"), None),
            (format!("See {}", note("b7", "<status>completed</status>")), None),
        ] {
            let expected = expected.map(|ending| (" make".to_owned(), ending.to_owned()));
            assert_eq!(ended_task(&note, &running), expected, "{note}");
        }
    }

    /// Read again for each of its pieces, this line would take a minute.
    #[test]
    fn a_long_line_is_read_once() {
        let content: String = (0..50_000).map(|n| format!("river{n} ")).collect();
        let arguments = json!({"file_path": "a.txt", "content": content}).to_string();
        let call = ToolCall { id: "c".into(), name: ToolName::new("Write").unwrap(), arguments };
        let message = ContextMessage::count(Message::calling(vec![call]), &Characters);
        assert!(written_line(message.features(), 0).is_some());
    }

    #[test]
    fn the_lines_of_aider_tell_of_edits() {
        for (note, expected) in [
            ("Applied edit to a.py\nCommit 45f6f88 feat: tests", Some("Commit 45f6f88 feat: tests")),
            ("# 1 SEARCH/REPLACE block failed to match!", Some("# 1 SEARCH/REPLACE block failed to match!")),
            ("Removed: 9b2bcea feat: tests\nHEAD is: 04fff71", Some("Removed: 9b2bcea feat: tests")),
            ("Tokens: 4k sent", None),
        ] {
            assert_eq!(noted_edits(note).as_deref(), expected);
        }
    }

    #[test]
    fn looks_at_files_are_one_step() {
        let done = |n: usize, tool: &str, what: &str, ending: &str| Done {
            position: n,
            place: CallPlace { message: n, nth: 0 },
            label: format!("m{n}"),
            tool: tool.to_owned(),
            what: format!(" {what}"),
            ending: ending.to_owned(),
            result: 7,
            effect: if tool == "run" { Effect::Work } else { Effect::Looks },
            reads: tool == "read",
            changes: false,
            asks: false,
            goes_on: n.is_multiple_of(2),
        };
        let read = |n, what| done(n, "read", what, "9 lines");
        for (calls, expected) in [
            (vec![read(1, "a.rs")], "m1 read a.rs: 9 lines"),
            (vec![read(1, "a.rs"), read(3, "b.rs")], "m1, m3 read: a.rs, b.rs"),
            (vec![read(1, "a.rs"), done(3, "read", "a.rs", "4 lines")], "m1, m3 read a.rs: 9 lines"),
            (
                vec![read(1, "a.rs"), read(3, "b.rs"), read(5, "a.rs"), read(7, "a.rs"), read(9, "a.rs")],
                "m1–m9 read: a.rs (4 times), b.rs",
            ),
            ((1..6).map(|n| done(n, "look", "door", "open")).collect(), "m1–m5 look door (5 times): open"),
            (
                (1..5).map(|n| done(n, "look", &format!("door {n}0"), "open")).collect(),
                "m1–m4 look door 10 (4 times with other numbers): open",
            ),
        ] {
            assert_eq!(entry_of(&calls).as_str(), expected);
        }
        let later = [done(4, "run", "make", "done")];
        for (before, n_files, expected) in [
            (done(3, "run", "make", "done"), 1, true),
            (done(3, "run", "make", "failed"), 1, false),
            (done(3, "look", "make", "done"), 1, false),
        ] {
            assert_eq!(before.is_one_step_with(&later, n_files), expected, "{}", before.ending);
        }
        let spoken = [done(5, "run", "make", "done")];
        assert!(!done(3, "run", "make", "done").is_one_step_with(&spoken, 1));
        let files = [read(5, "a.rs")];
        assert!(read(3, "b.rs").is_one_step_with(&files, 1));
        assert!(!read(3, "b.rs").is_one_step_with(&files, MOST_FILES));
        assert!(read(3, "a.rs").is_one_step_with(&files, MOST_FILES));
    }

    #[test]
    fn a_search_is_told_with_what_it_looked_for() {
        let folder = Folder { files: Some("/home/me/app".to_owned()), root: Root::default() };
        let no_blank = "a".repeat(200);
        for (arguments, expected) in [
            (json!({"path": "/home/me/app/src", "pattern": "fn open"}), " src \"fn open\""),
            (json!({"path": "/home/me/app", "pattern": "fn open\nfn close"}), " . \"fn open\""),
            (json!({"path": "/home/me/app/src", "pattern": no_blank}), " src"),
            (json!({"pattern": "fn open"}), " fn open"),
            (json!({"file_path": "/home/me/app/src/a.rs"}), " src/a.rs"),
            (json!({"file_path": format!("/{}/src/a.rs", "b".repeat(150))}), " …/src/a.rs"),
            (
                json!({"command": ["bash", "-lc", "cd app && go test ./..."], "workdir": "."}),
                " go test ./... (in app)",
            ),
            (
                json!({"command": "ls \"/home/me/app/my docs\" /home/me/apple"}),
                " ls \"my docs\" /home/me/apple",
            ),
            (json!({"command": ["git", "status"], "timeout": 9}), " git status"),
            (json!({"command": "git status", "description": "Look"}), " git status"),
            (json!({"command": "@'\nclass A:\n'@ | Set-Content app\\a.py"}), " Set-Content app\\a.py"),
            (
                json!({"command": "python3 -c \"\nimport json\nprint(json.dumps(1))\n\""}),
                " python3 -c \" print(json.dumps(1))",
            ),
            (json!({"command": "python3 - <<'PY'\np = 'a.py'\nPY\nls"}), " python3 - <<'PY' p = 'a.py'"),
            (
                json!({"command": "git add a && git commit -m \"$(cat <<'E'\nAdd a\nE\n)\""}),
                " git add a && git commit",
            ),
            (json!({"command": "for a in b\ndo c $a\ndone", "description": "Try each"}), " Try each"),
            (
                json!({"command": ["sh", "-c", "apply_patch <<'P'\n*** Begin Patch\n*** Add File: a.rs\n+a\n*** End Patch\nP"]}),
                " a.rs",
            ),
            (json!({}), ""),
        ] {
            let name = ToolName::new("Grep").unwrap();
            let call = ToolCall { id: "c".into(), name, arguments: arguments.to_string() };
            let message = ContextMessage::count(Message::calling(vec![call]), &Characters);
            assert_eq!(folder.subject(&message.findings().deeds[0]), expected, "{arguments}");
        }
    }

    #[test]
    fn a_call_that_only_hands_the_work_over_is_known() {
        let moved = "Transferred to news analyst, adopting the role of news_analyst immediately.";
        for (tool, arguments, result, expected) in [
            ("transfer_to_news_analyst", "{}", moved, true),
            ("transfer_to_news_analyst", "", "{\"assistant\": \"news_analyst\"}", true),
            ("transfer_to_news_analyst", "{\"task\":\"look\"}", moved, false),
            ("transfer_to_human_agents", "{}", "Transfer successful", false),
            ("news_analyst", "{}", moved, false),
        ] {
            let call = tool_call(tool, arguments);
            let result = Message::tool(ToolResult::answer(&call, result));
            let result = ContextMessage::count(result, &Characters);
            assert_eq!(hands_over(&call, &result), expected, "{tool} {arguments}");
        }
    }
}
