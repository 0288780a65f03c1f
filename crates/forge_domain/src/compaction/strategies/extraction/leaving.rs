//! The messages that leave a context, and their passages.

use std::cell::OnceCell;
use std::collections::HashSet;

use memchr::memmem;

use super::Material;
use super::answered::Answered;
use super::command_words::shows_plan;
use super::contents::Unquoted;
use super::cutting::passages;
use super::drafts::is_report;
use super::excerpt::{is_answer, said_in};
use super::filling::{Filling, line_hash};
use super::introductions::move_introductions;
use super::label::number;
use super::outdated::Outdated;
use super::passage::{Origin, Passage, naming_plan, new_in_note, passages_of_record, without_known};
use super::pasted::Pasted;
use super::record::Section;
use super::stale_sections::lasting_lines;
use super::story::hands_over;
use super::tasks::is_about_tasks;
use crate::compaction::answered_call::answered_call;
use crate::compaction::envelope::{is_receipt, is_stand_in};
use crate::compaction::features::{Features, Line, TermHasher, hash};
use crate::compaction::findings::is_refused;
use crate::compaction::omission::is_marker;
use crate::compaction::question::Asked;
use crate::compaction::record_tag::is_record;
use crate::compaction::strategies::summarization::said_in_summary;
use crate::compaction::stub::is_stub;
use crate::{ContextMessage, MessageId, Role, user_words};

/// The number of the agent's texts that are its newest.
const N_NEWEST: usize = 3;
/// Most bytes of code in one of them that is told with it.
const CODE_BYTES: u32 = 4_000;
/// Fewer terms before an announcement say nothing.
const LEAST_SAID: usize = 4;
/// The fewest terms of a call that a passage repeats if it says nothing else, and for each of its own.
const LEAST_REPEATED: usize = 4;
const REPEATED_TO_NEW: usize = 4;
/// Fewer messages of the agent's before a summary may be what a program keeps beside it.
const LEAST_SUMMED_UP: usize = 8;
/// A shorter text that equals a result may be the agent's answer.
const LEAST_REPETITION: usize = 40;

/// The messages that leave a context, of which a record tells.
pub(super) struct Leaving<'a> {
    pub(super) material: &'a Material<'a>,
    /// True for each message that leaves, or of which less stays than its source has.
    pub(super) leaves: &'a [bool],
    /// The text that stays of each message that is shortened.
    pub(super) left: &'a [(usize, String)],
    /// True for each message whose calls stay as they were, even if its text is shortened.
    pub(super) calls_stay: &'a [bool],
    /// The label of the user's latest message, if the record comes before it and something else after it
    /// leaves.
    pub(super) request_below: Option<String>,
    /// The position of the first message of the user's that stays above the record, beside the first of
    /// all.
    pub(super) words_above: Option<usize>,
}

impl Leaving<'_> {
    /// Checks whether a result repeats what the agent wrote into a file or into its list of tasks, or what
    /// another agent says, or stands for one. That the user refused a call, and in what words, is told with
    /// the call. `said` is for what the agent says.
    fn echoes<'s>(&'s self, position: usize, said: &OnceCell<HashSet<&'s str>>) -> bool {
        let result = &self.material.sources[position];
        let asked = answered_call(self.material.context, position);
        let is_told = user_words(result.message()).is_some()
            || asked.is_some_and(|asked| is_refused(asked.call, result.message()));
        if is_told || is_stand_in(&result.features().text) || self.material.speech.tells_result(position) {
            return true;
        }
        let echoes_call = asked.is_some_and(|asked| {
            is_about_tasks(asked.call)
                || hands_over(asked.call, result)
                || asked.deed.changes_files() && asked.deed.failure(result).is_none()
        });
        echoes_call || self.repeats_agent(position, said)
    }

    /// Checks whether an entry of an earlier record is not chosen by itself: unquoted messages are counted
    /// again, and an answer comes along with its question.
    fn is_no_choice(&self, entry: &Passage) -> bool {
        let text = entry.text(self.material.sources);
        match entry.origin {
            Origin::Record(Section::LeftOut) => Unquoted::parse(text).is_some(),
            Origin::Record(Section::Story) => is_answer(text),
            _ => false,
        }
    }

    /// Checks whether a result is what another agent reports.
    fn is_report(&self, position: usize) -> bool {
        is_report(self.material.context, self.material.sources, position)
    }

    /// Checks whether a result reports nothing new: another agent was only launched, or its own message says
    /// the same.
    fn repeats_agent<'s>(&'s self, position: usize, said: &OnceCell<HashSet<&'s str>>) -> bool {
        let reported = self.material.sources[position].features().text.trim();
        self.is_report(position)
            && (is_receipt(reported) || said.get_or_init(|| self.said_by_agent()).contains(reported))
    }

    /// Returns the texts of the agent.
    fn said_by_agent(&self) -> HashSet<&str> {
        let of_agent = self.material.sources.iter().filter(|source| source.role() == Role::Assistant);
        of_agent.map(|source| source.features().text.trim()).collect()
    }

    /// Checks whether a text of the agent's only repeats the results before it, which some frameworks do
    /// themselves.
    fn repeats_results(&self, position: usize) -> bool {
        let sources = self.material.sources;
        let before = sources[..position].iter().rev();
        let n_results = before.take_while(|source| source.role() == Role::Tool).count();
        let mut rest = sources[position].features().text.trim();
        if n_results == 0 || rest.len() < LEAST_REPETITION || self.is_report(position - 1) {
            return false;
        }
        let is_next = |result: &ContextMessage| {
            let after = rest.strip_prefix(result.features().text.trim());
            rest = after.map_or(rest, str::trim_start);
            after.is_some()
        };
        sources[position - n_results..position].iter().all(is_next) && rest.is_empty()
    }

    /// Returns the terms of the calls of the message at `caller`.
    fn terms_called(&self, caller: Option<usize>) -> HashSet<u64, TermHasher> {
        let caller = caller.map(|caller| self.material.sources[caller].features());
        let terms = caller.into_iter().flat_map(|caller| &caller.terms);
        terms.filter(|term| term.is_called()).map(|term| term.hash()).collect()
    }

    /// Returns the passages of everything that leaves; `newest` are the agent's newest texts, which are kept
    /// together with the code in them. Each line of a list from which the user picked is a passage. What only
    /// repeats what stays is left out.
    pub(super) fn passages(&self, newest: &[usize], answered: &Answered, staying: &Filling) -> Vec<Passage> {
        let mut all = Vec::new();
        // Collected once, and only if another agent reports something.
        let said = OnceCell::new();
        // The message whose calls the last result answered, and the terms of those.
        let mut called: (Option<usize>, HashSet<u64, TermHasher>) = Default::default();
        let leaving = self.material.sources.iter().enumerate().filter(|(position, _)| self.leaves[*position]);
        for (position, source) in leaving {
            let message = source.message();
            if is_record(message) {
                let entries = passages_of_record(source, position);
                all.extend(entries.into_iter().filter(|passage| !self.is_no_choice(passage)));
                continue;
            }
            let left = self.left.iter().find(|(cut, _)| *cut == position).map(|(_, left)| left.as_str());
            let Some(origin) = self.origin_of(position, left.is_some(), &said) else { continue };
            let mut found = self.passages_at(position, origin);
            if self.material.speech.is_draft(position) {
                found.retain(|passage| passage.origin == Origin::Work);
            }
            let is_known = |line: &str| staying.known.contains(&line_hash(line));
            let is_said = |line: &str| staying.known.contains(&hash(line));
            if message.note_by().is_some() {
                let is_told = |line: &str| is_known(line) || self.has_lost(position, line);
                found = new_in_note(&found, source.features(), is_told);
            }
            found = found
                .into_iter()
                .filter_map(|passage| match passage.origin {
                    Origin::Agent => without_known(passage, source.features(), is_said),
                    // Of work, what is contiguous stays together.
                    Origin::Work => without_known(passage, source.features(), is_known).map(|_| passage),
                    _ => Some(passage),
                })
                .collect();
            let is_newest = newest.contains(&position);
            if is_newest {
                keep_code(&mut found);
            }
            move_introductions(&mut found, source.features(), is_newest);
            if let Some(end) =
                self.material.announcements.end_before(self.material.sources, position).filter(|_| !is_newest)
            {
                found = found.into_iter().filter_map(|passage| said_before(passage, source, end)).collect();
            }
            if answered.lists().any(|list| list.position == position) {
                found = found.iter().flat_map(|passage| passage.by_items(source.features())).collect();
            }
            // The newest list of tasks stands in its own section, and older ones are out of date.
            if message.calls().iter().any(is_about_tasks) {
                found.retain(|passage| passage.origin != Origin::Work);
            }
            if message.role() == Role::Tool {
                let asked = answered_call(self.material.context, position);
                let caller = asked.map(|asked| asked.place.message);
                // One message may make thousands of calls.
                if called.0 != caller {
                    called = (caller, self.terms_called(caller));
                }
                found.retain(|passage| !repeats(passage, source.features(), &called.1));
            }
            self.note_outdated(position, &mut found);
            match left {
                Some(left) => {
                    let is_left = |line: &str| memmem::find(left.as_bytes(), line.as_bytes()).is_some();
                    let new = |passage| without_known(passage, source.features(), is_left);
                    all.extend(found.into_iter().filter_map(new));
                }
                None => all.extend(found),
            }
        }
        all
    }

    /// Marks the passages that are not, or no longer, in their file, and drops those of a file that was
    /// written as a whole since, unless the latest requests name it.
    fn note_outdated(&self, position: usize, found: &mut Vec<Passage>) {
        let Material { context, sources, changes, .. } = *self.material;
        let source = &sources[position];
        let Some(after) = changes.after(position, context, source) else { return };
        for passage in found.iter_mut().filter(|passage| passage.origin == Origin::Work) {
            let outdated = after.outdates(passage, source.features());
            passage.is_outdated = matches!(outdated, Outdated::Mostly | Outdated::Unwritten);
        }
        let is_replaced = |passage: &Passage| {
            passage.origin == Origin::Work
                && passage.is_outdated
                && after.replaces(passage, source.features())
        };
        if found.iter().any(is_replaced) && !self.is_named(position) {
            found.retain(|passage| !is_replaced(passage));
        }
    }

    /// Checks whether the latest requests name a file that the message at `position` reads or changes. A
    /// focus may name it as well.
    fn is_named(&self, position: usize) -> bool {
        let Material { context, sources, question, .. } = *self.material;
        let read = answered_call(context, position).map(|asked| asked.deed);
        let deeds = read.into_iter().chain(&sources[position].findings().deeds);
        let paths = deeds.flat_map(|deed| &deed.touches).map(|(path, _)| path.as_str());
        let mut files = paths.map(|path| path.rsplit(['/', '\\']).next().unwrap_or(path));
        let asking = question.asked().filter_map(Asked::position);
        let requests = asking.map(|at| &sources[at]).filter(|source| source.starts_turn());
        let requests: Vec<&str> = requests.map(|source| source.features().text.as_str()).collect();
        question.has_focus() || files.any(|file| requests.iter().any(|request| request.contains(file)))
    }

    /// Returns the author of what leaves of the message at `position`, which `is_cut` if a part of it stays;
    /// `None` if nothing of it is told.
    fn origin_of<'s>(
        &'s self,
        position: usize,
        is_cut: bool,
        said: &OnceCell<HashSet<&'s str>>,
    ) -> Option<Origin> {
        let source = &self.material.sources[position];
        let message = source.message();
        match message.role() {
            Role::User if is_marker(message) || message.is_renewed() => None,
            Role::User if message.note_by().is_some() && self.is_cleared(position) => None,
            Role::Tool if self.echoes(position, said) => None,
            Role::Assistant if self.repeats_results(position) => None,
            Role::User if message.is_compacted && self.sums_up_what_is_there(position) => None,
            // Another program's summary: what its agent concluded.
            Role::User if message.is_compacted => Some(Origin::Agent),
            // The rest of a text that is shortened where it stands is an excerpt of it.
            Role::User if source.starts_turn() && !is_cut => Some(Origin::User),
            // The report of another agent is what this one found by it.
            Role::Tool if self.is_report(position) => Some(Origin::Agent),
            Role::Assistant => Some(Origin::Agent),
            Role::User | Role::System | Role::Tool => Some(Origin::Work),
        }
    }

    /// Checks whether another program's summary stands for messages that are in the context as well: it comes
    /// directly behind the agent's work. A program that puts one in place of others leaves none of the
    /// agent's messages before it.
    fn sums_up_what_is_there(&self, position: usize) -> bool {
        let before =
            || self.material.sources[..position].iter().filter(|before| !before.message().is_compacted);
        let is_agents = |before: &&ContextMessage| matches!(before.role(), Role::Assistant | Role::Tool);
        let last = before().rfind(|before| before.message().note_by().is_none());
        last.as_ref().is_some_and(is_agents) && before().filter(is_agents).count() >= LEAST_SUMMED_UP
    }

    /// Checks whether a stub stands for the message at `position` since it was cleared.
    fn is_cleared(&self, position: usize) -> bool {
        is_stub(&self.material.context.messages()[position].message().text())
    }

    /// Checks whether a line of the message at `position` is a part of what it lost, as it is out of date or
    /// stands elsewhere.
    fn has_lost(&self, position: usize, line: &str) -> bool {
        let left = || self.material.context.messages()[position].message().text();
        self.material.shed.contains(&position) && !left().contains(line)
    }

    /// Returns the passages of the message at `position`, whose author is `origin`.
    fn passages_at(&self, position: usize, origin: Origin) -> Vec<Passage> {
        let source = &self.material.sources[position];
        let (message, features) = (source.message(), source.features());
        let mut content = self.material.frames.content(position);
        if is_summary(source) {
            // The quotes in it are the user's words.
            let (_, length) = said_in_summary(&features.text);
            let of_quotes = |line: &&Line| (line.start as usize) < length;
            content.start = features.lines.iter().take_while(of_quotes).count();
        }
        let is_of_before = message.is_compacted && self.material.changes.has_any_after(position);
        let contents = if is_of_before { lasting_lines(features, content) } else { vec![content] };
        let final_words = self.material.speech.final_words(position);
        let found =
            contents.into_iter().flat_map(|content| passages(source, position, origin, content, final_words));
        let mut found: Vec<Passage> = found.collect();
        if origin == Origin::User {
            let pasted = Pasted::of(features);
            found = found.iter().flat_map(|passage| pasted.beside(passage, features)).collect();
            // The answers of other agents in a user message are no words of the user's.
            let said = message.text_without_answers().len();
            for passage in found.iter_mut().filter(|passage| passage.end as usize > said) {
                passage.origin = Origin::Work;
            }
        }
        let of_now = |passage: &Passage| self.material.tables.beside(passage, features);
        found = found.iter().flat_map(of_now).collect();
        let furniture = self.material.frames.furniture();
        if furniture.is_page(position) {
            let own =
                |passage: &Passage| passage.without(features, |line| furniture.has(features.line(line)));
            found = found.iter().flat_map(own).collect();
        }
        let is_newer = |later: &ContextMessage| shows_plan(later.message());
        if shows_plan(message) && self.material.sources[position + 1..].iter().any(is_newer) {
            found = naming_plan(found, features);
        }
        found
    }

    /// Returns what the user says in the quotes of the summaries that leave, oldest first, each with the
    /// number of its message and the position of the summary.
    pub(super) fn said_in_summaries(&self) -> Vec<(u64, usize, String)> {
        let mut all = Vec::new();
        for (position, source) in self.material.sources.iter().enumerate() {
            if self.leaves[position] && is_summary(source) {
                let (said, _) = said_in_summary(&source.features().text);
                let number = |label: &str| label.parse().map_or(0, MessageId::as_u64);
                all.extend(said.into_iter().map(|(label, text)| (number(label), position, text)));
            }
        }
        all
    }

    /// Returns the messages of the user that leave and of which `filling` quotes nothing, with those that
    /// earlier records quote or tell of.
    pub(super) fn unquoted(&self, filling: &Filling) -> Option<Unquoted> {
        let sources = self.material.sources.iter().enumerate();
        let all = sources.flat_map(|(position, source)| match is_record(source.message()) {
            true => self.unquoted_of_record(position, source, filling),
            false => {
                let is_left = || self.left.iter().any(|(left, _)| *left == position);
                let text = &source.features().text;
                let leaves = self.leaves[position] && source.starts_turn() && !is_left();
                let is_quoted = || filling.has_any_of(position, |_| true, text);
                let unquoted = leaves && !source.message().is_compacted && !is_quoted();
                unquoted.then(|| Unquoted::one(number(source))).into_iter().collect()
            }
        });
        all.reduce(Unquoted::and)
    }

    /// Returns what of the user's words an earlier record tells of or quotes, and `filling` does not.
    fn unquoted_of_record(
        &self,
        position: usize,
        source: &ContextMessage,
        filling: &Filling,
    ) -> Vec<Unquoted> {
        let entries = passages_of_record(source, position);
        let unquoted = entries.into_iter().filter_map(|entry| {
            let text = entry.text(self.material.sources);
            match entry.origin {
                Origin::Record(Section::LeftOut) => Unquoted::parse(text),
                // It has no label, but came before the record.
                Origin::Record(Section::Said | Section::Interview) => {
                    let is_it = |passage: &Passage| passage.start == entry.start;
                    let said = text.strip_prefix("- ").unwrap_or(text);
                    (!filling.has_any_of(position, is_it, said)).then(|| Unquoted::before(number(source)))
                }
                _ => None,
            }
        });
        unquoted.collect()
    }

    /// Returns the number of the message that the latest request answers, if a record alone quotes it.
    pub(super) fn antecedent_in_record(&self, passages: &[Passage]) -> Option<u64> {
        let latest = self.material.context.latest_user()?;
        let sources = self.material.sources;
        let in_record = passages.iter().filter(|passage| passage.origin == Origin::Record(Section::Story));
        let said = in_record.filter_map(|passage| said_in(passage.text(sources)));
        let before_it = said.filter(|said| *said < number(&sources[latest])).max()?;
        let in_context = (0..latest).rev().find(|position| self.material.has_agent_text(*position));
        in_context.is_none_or(|position| number(&sources[position]) < before_it).then_some(before_it)
    }

    /// Checks whether all of the user's words that `filling` quotes came before those above the record.
    pub(super) fn all_said_is_older(&self, filling: &Filling) -> bool {
        let mut said = filling.passages.iter().filter(|(passage, _)| passage.origin == Origin::User);
        self.words_above.is_some_and(|above| said.all(|(passage, _)| (passage.message as usize) < above))
    }

    /// Returns the positions of the agent's newest texts that leave, and of the text that the latest request
    /// answers.
    pub(super) fn newest(&self) -> Vec<usize> {
        let has_text = |position: &usize| {
            self.material.has_agent_text(*position)
                && !self.repeats_results(*position)
                && !self.material.speech.is_draft(*position)
        };
        let mut newest: Vec<usize> =
            (0..self.material.sources.len()).rev().filter(has_text).take(N_NEWEST).collect();
        let latest = self.material.context.latest_user().unwrap_or(0);
        newest.extend((0..latest).rev().find(has_text));
        newest.retain(|position| self.leaves[*position]);
        newest
    }
}

/// Keeps the code of one of the agent's newest texts with it. Of a whole file, scraps would stand between
/// the agent's words.
fn keep_code(passages: &mut [Passage]) {
    let is_code = |passage: &Passage| passage.origin == Origin::Code;
    let n_bytes: u32 = passages.iter().filter(|passage| is_code(passage)).map(Passage::n_bytes).sum();
    if n_bytes <= CODE_BYTES {
        let code = passages.iter_mut().filter(|passage| is_code(passage));
        code.for_each(|passage| (passage.origin, passage.is_code) = (Origin::Agent, true));
    }
}

/// Checks whether a passage of a result only repeats what the call says: nearly all of its terms, and each
/// name and number.
fn repeats(passage: &Passage, features: &Features, called: &HashSet<u64, TermHasher>) -> bool {
    let places = passage.lines(features).iter().flat_map(|line| features.places(line));
    let (mut n_called, mut n_new) = (0, 0);
    for term in places.map(|place| features.terms[*place as usize]) {
        match called.contains(&term.hash()) {
            true => n_called += 1,
            false if term.kind().is_a_name_given() => return false,
            false => n_new += 1,
        }
    }
    n_called >= LEAST_REPEATED && n_called >= n_new * REPEATED_TO_NEW
}

/// Returns as much of a passage of what the agent says as stands before `end`; `None` if that says hardly
/// anything.
fn said_before(mut passage: Passage, source: &ContextMessage, end: u32) -> Option<Passage> {
    if passage.origin != Origin::Agent || passage.end <= end {
        return Some(passage);
    }
    let features = source.features();
    // Words in a command come after the announcement and are no part of it.
    if passage.lines(features).first().is_some_and(|line| line.is_call) {
        return Some(passage);
    }
    let before = passage.lines(features).iter().take_while(|line| line.start < end);
    let n_terms = before.clone().flat_map(|line| features.places_before(line, end)).count();
    (passage.end, passage.lines_to) = (end, passage.lines_from + before.count() as u32);
    (n_terms >= LEAST_SAID).then_some(passage)
}

/// Checks whether a message is a summary that a model wrote.
pub(super) fn is_summary(message: &ContextMessage) -> bool {
    message.role() == Role::Assistant && message.message().is_compacted
}
