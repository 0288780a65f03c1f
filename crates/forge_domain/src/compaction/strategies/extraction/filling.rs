//! Fills a record: the person's words, the tasks, the state and the agent's words first, then passages of
//! what was read, and what to ask for again.

use std::collections::{HashMap, HashSet};
use std::iter::Peekable;

use memchr::memmem;

use super::Material;
use super::contents::{Contents, LEAST_CONTENT, Unquoted, entries, keys_in};
use super::excerpt::{answer, is_answer, is_statement, said_in, short_label, source_of, tells_act, write};
use super::ledger::Ledger;
use super::outdated::Outdated;
use super::passage::{Origin, Passage, move_introductions, passages, passages_of_record, without_known};
use super::record::{Entry, Record, Section};
use super::story::{Folder, Step, newest_steps, number};
use super::tasks::{TaskList, is_about_tasks, tasks};
use super::worth::{Candidates, Purpose, Worth, asks};
use crate::compaction::answered_call::answered_call;
use crate::compaction::features::{Features, Line, TermHasher, hash, is_line_break};
use crate::compaction::findings::Deed;
use crate::compaction::omission::is_marker;
use crate::compaction::record_tag::is_record;
use crate::compaction::strategies::summarization::said_in_summary;
use crate::compaction::stub::is_stub;
use crate::tool_twin::asks_agent;
use crate::{Context, ContextMessage, MessageId, Role, TokenCounter, Tokens, user_words};

/// The shares of the record, in percent of what is left beside those before it. What one does not use is
/// left to those after it.
mod share {
    /// The tasks, the files, the check and the errors.
    pub(super) const STATE: u64 = 35;
    /// The person's words. What is left of them comes after what the agent says, before its calls.
    pub(super) const SAID: u64 = 65;
    /// Those in the quotes of summaries, of which no message is left.
    pub(super) const SAID_IN_SUMMARIES: u64 = 80;
    /// The agent's newest texts, and that which the latest request answers.
    pub(super) const NEWEST: u64 = 42;
    /// Answers to the question; in talk, a question is often a remark.
    pub(super) const ANSWERS: u64 = 30;
    pub(super) const ANSWERS_IN_TALK: u64 = 15;
    /// In talk: the person's words, and the agent's newest ones.
    pub(super) const SAID_IN_TALK: u64 = 45;
    pub(super) const NEWEST_IN_TALK: u64 = 10;
    /// The newest of what the agent wrote into files.
    pub(super) const WRITTEN: u64 = 42;
    /// The agent's other words.
    pub(super) const STATEMENTS: u64 = 72;
    /// The person's answers to the agent's questions.
    pub(super) const ANSWERED: u64 = 30;
    /// The calls that changed something outside of the files of the work.
    pub(super) const ACTED: u64 = 15;
    /// The end of what the agent said before an answer of the person's in a few words.
    pub(super) const ASKED: u64 = 12;
    /// The calls, each with how it ended: the newest before what was written and said, and those before them.
    pub(super) const NEWEST_STEPS: u64 = 10;
    pub(super) const STEPS: u64 = 35;
    /// The contents of what left: of tables, whose keys tell everything that can be asked for, and of others.
    pub(super) const TABLES: u64 = 35;
    pub(super) const LEFT_OUT: u64 = 10;
}

/// The number of the agent's texts that are its newest.
const N_NEWEST: usize = 3;
/// The number of calls of which those that did more than look are told before what was written.
const N_NEWEST_STEPS: usize = 12;
/// Most characters of an answer of the person's that says nothing by itself, and of one to a question.
const SHORT_ANSWER_CHARS: usize = 16;
const ANSWER_CHARS: usize = 24;
/// The most such answers of which the record tells what they are about, and the most passages of each.
const MOST_ASKED: usize = 12;
const ASKED_PASSAGES: usize = 5;
/// A record of talk with less room does not count what it does not quote.
const LEAST_COUNTED: Tokens = Tokens::new(800);
/// A record with less room does not say that the request below it came earlier.
const LEAST_NOTED: Tokens = Tokens::new(400);
/// Fewer terms before an announcement say nothing.
const LEAST_SAID: usize = 4;
/// The fewest terms of a call that a passage repeats if it says nothing else, and for each of its own.
const LEAST_REPEATED: usize = 4;
const REPEATED_TO_NEW: usize = 4;
/// The approximate cost of a line's indentation and end.
const LINE_TOKENS: u64 = 1;

/// The state of the work at the end of a context, whatever leaves of it.
pub(super) struct State {
    /// The files, the check and the errors.
    record: Record,
    folder: Folder,
    /// The list of tasks by the calls, or that of an earlier record.
    tasks: Option<TaskList>,
    known_tasks: Vec<String>,
    /// The subjects of the commands that ran on after their results, by the ids under which later calls ask.
    pub(super) running: HashMap<String, String>,
}

impl State {
    /// Reads it from the calls of `context`, whose messages were `sources` at first, and its earlier records.
    pub(super) fn of(context: &Context, sources: &[ContextMessage]) -> Self {
        let messages = context.messages().iter().map(ContextMessage::message);
        let earlier: Vec<Record> = messages.filter(|message| is_record(message)).map(Record::of).collect();
        let known = earlier.iter().rev().find_map(|earlier| earlier.folder.clone());
        let folder = Folder::of(sources, known);
        let mut record = Record { folder: folder.as_deref().map(str::to_owned), ..Record::default() };
        let mut ledger = Ledger::new(folder.root().clone());
        earlier.iter().for_each(|earlier| ledger.take_record(earlier));
        // Messages that stay are included: a later success among them resolves an error before it.
        ledger.take_all(context, sources);
        ledger.write_into(&mut record);
        let known_tasks = earlier.into_iter().next_back().map(|earlier| earlier.tasks).unwrap_or_default();
        let tasks = tasks(context, sources, &known_tasks);
        let running = (0..sources.len()).filter_map(|position| {
            let asked = answered_call(context, position)?;
            let id = asked.deed.unfinished(&sources[position])?.id.clone()?;
            Some((id, folder.subject(asked.deed)))
        });
        let running = running.collect();
        Self { record, folder, tasks, known_tasks, running }
    }
}

/// The messages that are combined into a record.
pub(super) struct Folding<'a> {
    pub(super) material: &'a Material<'a>,
    /// True for each message that leaves, or of which less stays than its source has.
    pub(super) leaves: &'a [bool],
    /// The text that stays of each message that is shortened.
    pub(super) left: &'a [(usize, String)],
    /// True for each message whose calls stay as they were, even if its text is shortened.
    pub(super) calls_stay: &'a [bool],
    /// The label of the person's latest message, if the record comes before it and something else after it
    /// leaves.
    pub(super) request_below: Option<String>,
    /// The position of the first message of the person's that stays above the record, beside the first of
    /// all.
    pub(super) words_above: Option<usize>,
}

/// The parts of a record, the most worth first.
#[derive(Default)]
struct Filling {
    passages: Vec<(Passage, Tokens)>,
    entries: Vec<(Section, Placed, Tokens)>,
    known: HashSet<u64, TermHasher>,
    /// The messages of the passages of work.
    quoted: HashSet<u32>,
    /// The messages of the passages that were dropped after all.
    dropped: HashSet<u32>,
}

/// A text of the agent's that the person answered in a few words, by the positions of both.
struct Asked {
    position: usize,
    answer: usize,
}

/// The words of the agent that the person answered in a few words, which say nothing by themselves.
struct Answered {
    /// The texts that leave, the newest first.
    asked: Vec<Asked>,
    /// The entries of earlier records, each with its answer.
    carried: Vec<[Passage; 2]>,
}

/// An entry and its place among the others of its section.
struct Placed {
    place: (u64, usize),
    entry: Entry,
}

impl Folding<'_> {
    /// Returns the record in at most `room` tokens; `None` if nothing fits beside its frame.
    pub(super) fn fill(
        &self,
        room: Tokens,
        worth: &mut Worth<'_>,
        counter: &dyn TokenCounter,
    ) -> Option<ContextMessage> {
        let counted = |record: &Record| ContextMessage::count(record.to_message(), counter);
        let mut base = self.base();
        let folder = &self.material.state.folder;
        if room < LEAST_NOTED {
            // The labels must do.
            base.request_below = None;
        }
        let mut message = counted(&base);
        let empty = counted(&Record::default()).tokens();
        while message.tokens() - empty > (room - empty).share(share::STATE, 100) && base.shed() {
            message = counted(&base);
        }
        if message.tokens() > room {
            return None;
        }
        let answered = self.answered();
        let mut filling = self.choose(room - message.tokens(), &answered, worth, counter);
        loop {
            let mut record = filling.write(&base, self.material, folder, &answered);
            // In talk, each side says about as much, and in a small room the order must do.
            let may_say_so = !self.material.is_talk && room >= LEAST_NOTED && !record.said.is_empty();
            record.words_above = may_say_so && self.all_said_is_older(&filling);
            if record.is_bare() {
                return None;
            }
            // In a short record of talk that goes without saying, and another turn says more.
            let is_counted = !self.material.is_talk || room >= LEAST_COUNTED;
            if let Some(unquoted) = is_counted.then(|| self.unquoted(&filling)).flatten() {
                record.left_out.insert(0, unquoted.entry());
            }
            message = counted(&record);
            // Each part was counted alone; if they exceed that together, the least valuable leaves.
            if message.tokens() <= room || !filling.shed(message.tokens() - room) {
                return Some(message);
            }
        }
    }

    /// Returns the record of tasks, files, the check and the errors.
    fn base(&self) -> Record {
        let State { record, tasks, known_tasks, .. } = self.material.state;
        let mut record = Record { request_below: self.request_below.clone(), ..record.clone() };
        record.tasks = match tasks {
            Some(list) if list.told_at.is_none_or(|position| !self.calls_stay[position]) => {
                list.tasks.clone()
            }
            Some(_) => Vec::new(),
            None => known_tasks.clone(),
        };
        record
    }

    /// Chooses what is most worth `room` tokens.
    fn choose(
        &self,
        room: Tokens,
        answered: &Answered,
        worth: &mut Worth<'_>,
        counter: &dyn TokenCounter,
    ) -> Filling {
        let folder = &self.material.state.folder;
        worth.begin_again();
        let newest = self.newest();
        let steps = newest_steps(self.material, self.leaves, folder);
        let mut steps = steps.peekable();
        let contents = Contents::of(self.material.context, self.material.sources, self.leaves, folder);
        let most_contents = (room.share(share::LEFT_OUT, 100).as_u64() / LEAST_CONTENT.as_u64()) as usize;
        let staying =
            self.material.context.messages().iter().zip(self.leaves).filter(|(_, leaves)| !**leaves);
        let staying = staying.map(|(message, _)| &message.features().text);
        let filling = Filling::beside(staying.chain(self.left.iter().map(|(_, text)| text)));
        let passages = self.passages(&newest, &filling);
        let antecedent = self.antecedent_in_record(&passages);
        let mut candidates = worth.candidates(passages);
        self.left.iter().for_each(|(position, text)| worth.note_shown(&mut candidates, *position, text));
        let Material { sources, .. } = *self.material;
        let material = self.material;
        let mut choice = Choice { material, folder, worth, candidates, filling, left: room, counter };
        let is = |origin: Origin| move |passage: &Passage| passage.origin == origin;
        let is_said =
            |passage: &Passage| matches!(passage.origin, Origin::Person | Origin::Record(Section::Said));
        // Pieces of the person's long messages come after short messages: first the beginnings and the ends,
        // as what was pasted is mostly between them.
        let is_said_whole = |passage: &Passage| is_said_whole(passage, sources);
        let is_said_at_an_end =
            |passage: &Passage| passage.origin == Origin::Person && ends_at(passage, sources) != [false; 2];
        let is_newest = |passage: &Passage| match passage.origin {
            Origin::Agent => newest.contains(&(passage.message as usize)),
            Origin::Record(Section::Story) => {
                antecedent.is_some() && said_in(passage.text(sources)) == antecedent
            }
            _ => false,
        };
        let is_story =
            |passage: &Passage| matches!(passage.origin, Origin::Agent | Origin::Record(Section::Story));
        // An earlier record's calls wait as the new ones do.
        let is_told = |passage: &Passage| match passage.origin {
            Origin::Record(Section::Story) => is_statement(passage.text(sources)),
            origin => origin == Origin::Agent,
        };
        let is_work = |passage: &Passage| {
            matches!(passage.origin, Origin::Work | Origin::Code | Origin::Record(Section::Excerpts))
        };
        choice.take_answers(&|passage| !is_said(passage));
        choice.take_said(&self.said_in_summaries(), share::SAID_IN_SUMMARIES);
        self.take_acts(&mut choice);
        let is_stated = |passage: &Passage| is_said(passage) || is_told(passage);
        if self.material.is_talk {
            // What the agent says in talk is as much of it as what the person says.
            choice.pick_in_turn(share::SAID_IN_TALK, &[&is_said_whole, &is_said_at_an_end, &is_said]);
            choice.pick(share::NEWEST_IN_TALK, Purpose::Newest, &is_newest);
            let is_whole = |passage: &Passage| is_told(passage) || is_said_whole(passage);
            choice.pick_in_turn(100, &[&is_whole, &is_stated]);
        }
        choice.pick_in_turn(share::SAID, &[&is_said_whole, &is_said_at_an_end, &is_said]);
        let asking = newest_steps(self.material, self.leaves, folder).filter(|step| step.asks);
        choice.take_steps(&mut asking.peekable(), share::ANSWERED);
        choice.take_ends(&answered.asked, share::ASKED);
        choice.pick(share::ASKED, Purpose::Newest, &|passage| {
            let is_it = |asked: &Passage| (asked.message, asked.start) == (passage.message, passage.start);
            answered.carried.iter().any(|[asked, _]| is_it(asked))
        });
        choice.pick(share::NEWEST, Purpose::Newest, &is_newest);
        choice.take_what_left(&contents, most_contents);
        let newest_done = newest_steps(self.material, self.leaves, folder).take(N_NEWEST_STEPS);
        let mut newest_done = newest_done.filter(|step| !step.only_looks).peekable();
        choice.take_steps(&mut newest_done, share::NEWEST_STEPS);
        choice.pick(share::WRITTEN, Purpose::Written, &|passage| self.is_written(passage));
        choice.pick(share::STATEMENTS, Purpose::Statement, &is_told);
        choice.pick(100, Purpose::Statement, &is_said_whole);
        choice.take_steps(&mut steps, share::STEPS);
        choice.pick(share::STEPS, Purpose::Statement, &is_story);
        choice.pick(share::LEFT_OUT, Purpose::Work, &is(Origin::Record(Section::LeftOut)));
        choice.pick(share::STATEMENTS, Purpose::Statement, &is_told);
        choice.pick(100, Purpose::Work, &is_work);
        choice.pick(100, Purpose::Statement, &is_said);
        choice.pick(100, Purpose::Statement, &is_story);
        choice.take_steps(&mut steps, 100);
        choice.filling
    }

    /// Takes the calls that changed something outside of the files of the work, which nothing else tells.
    fn take_acts(&self, choice: &mut Choice<'_, '_>) {
        let sources = self.material.sources;
        let acting = newest_steps(self.material, self.leaves, &self.material.state.folder);
        choice.take_steps(&mut acting.filter(|step| step.acts).peekable(), share::ACTED);
        choice.pick(share::ACTED, Purpose::Newest, &|passage| {
            passage.origin == Origin::Record(Section::Story) && tells_act(passage.text(sources))
        });
    }

    /// Checks whether a result repeats what the agent wrote into a file, or into its list of tasks.
    fn echoes(&self, position: usize) -> bool {
        let result = &self.material.sources[position];
        answered_call(self.material.context, position).is_some_and(|asked| {
            is_about_tasks(asked.call) || asked.deed.changes_files() && asked.deed.failure(result).is_none()
        })
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
        let asked = answered_call(self.material.context, position);
        asked.is_some_and(|asked| {
            asks_agent(asked.call.name.as_str())
                && asked.deed.failure(&self.material.sources[position]).is_none()
        })
    }

    /// Returns the terms of the call that the message at `position` answers, and of those beside it.
    fn terms_called(&self, position: usize) -> HashSet<u64, TermHasher> {
        let asked = answered_call(self.material.context, position);
        let caller = asked.map(|asked| self.material.sources[asked.place.message].features());
        let terms = caller.into_iter().flat_map(|caller| &caller.terms);
        terms.filter(|term| term.is_called()).map(|term| term.hash()).collect()
    }

    /// Checks whether the agent wrote a passage into a file.
    fn is_written(&self, passage: &Passage) -> bool {
        let source = &self.material.sources[passage.message as usize];
        let writes = || source.findings().deeds.iter().any(Deed::changes_files);
        passage.origin == Origin::Work
            && !passage.tells_little()
            && source.role() == Role::Assistant
            && writes()
    }

    /// Returns the passages of everything that leaves; `newest` are the agent's newest texts, which are kept
    /// together with the code in them. Lines that only repeat what stays are left out.
    fn passages(&self, newest: &[usize], staying: &Filling) -> Vec<Passage> {
        let mut all = Vec::new();
        let leaving = self.material.sources.iter().enumerate().filter(|(position, _)| self.leaves[*position]);
        for (position, source) in leaving {
            let message = source.message();
            let left = self.left.iter().find(|(cut, _)| *cut == position).map(|(_, left)| left.as_str());
            let origin = match message.role() {
                Role::User if is_record(message) => {
                    let entries = passages_of_record(source, position);
                    all.extend(entries.into_iter().filter(|passage| !self.is_no_choice(passage)));
                    continue;
                }
                Role::User if is_marker(message) || message.is_renewed() => continue,
                Role::User if message.note_by().is_some() && is_stub(&message.text()) => continue,
                // The user's words in a result are told with its call.
                Role::Tool if self.echoes(position) || user_words(message).is_some() => continue,
                // Another program's summary: what its agent concluded.
                Role::User if message.is_compacted => Origin::Agent,
                // The rest of a text that is shortened where it stands is an excerpt of it.
                Role::User if source.starts_turn() && left.is_none() => Origin::Person,
                // The report of another agent is what this one found by it.
                Role::Tool if self.is_report(position) => Origin::Agent,
                Role::Assistant => Origin::Agent,
                Role::User | Role::System | Role::Tool => Origin::Work,
            };
            let mut content = self.material.frames.content(position);
            if is_summary(source) {
                // The quotes in it are the person's words.
                let (_, length) = said_in_summary(&source.features().text);
                let of_quotes = |line: &&Line| (line.start as usize) < length;
                content.start = source.features().lines.iter().take_while(of_quotes).count();
            }
            let mut found = passages(source, position, origin, content);
            if origin == Origin::Person {
                // The answers of other agents in a user message are no words of the person's.
                let said = message.text_without_answers().len();
                for passage in found.iter_mut().filter(|passage| passage.end as usize > said) {
                    passage.origin = Origin::Work;
                }
            }
            let is_known = |line: &str| staying.known.contains(&hash(line));
            found = found
                .into_iter()
                .filter_map(|passage| match passage.origin {
                    Origin::Agent => without_known(passage, source.features(), is_known),
                    // Of work, what is contiguous stays together.
                    Origin::Work => without_known(passage, source.features(), is_known).map(|_| passage),
                    _ => Some(passage),
                })
                .collect();
            let is_newest = newest.contains(&position);
            if is_newest {
                let code = found.iter_mut().filter(|passage| passage.origin == Origin::Code);
                code.for_each(|passage| passage.origin = Origin::Agent);
            }
            move_introductions(&mut found, source.features(), is_newest);
            if let Some(end) = self.material.announcements.end_before(source).filter(|_| !is_newest) {
                found = found.into_iter().filter_map(|passage| said_before(passage, source, end)).collect();
            }
            // The newest list of tasks stands in its own section, and older ones are out of date.
            if message.calls().iter().any(is_about_tasks) {
                found.retain(|passage| passage.origin != Origin::Work);
            }
            if message.role() == Role::Tool {
                let called = self.terms_called(position);
                found.retain(|passage| !repeats(passage, source.features(), &called));
            }
            if let Some(after) = self.material.changes.after(position, self.material.context, source) {
                for passage in found.iter_mut().filter(|passage| passage.origin == Origin::Work) {
                    let outdated = after.outdates(passage, source.features());
                    passage.is_outdated = matches!(outdated, Outdated::Mostly | Outdated::Unwritten);
                }
            }
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

    /// Returns what the person says in the quotes of the summaries that leave, oldest first, each with the
    /// number of its message and the position of the summary.
    fn said_in_summaries(&self) -> Vec<(u64, usize, String)> {
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

    /// Returns the messages of the person that leave and of which `filling` quotes nothing, with those that
    /// earlier records quote or tell of.
    fn unquoted(&self, filling: &Filling) -> Option<Unquoted> {
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

    /// Returns what of the person's words an earlier record tells of or quotes, and `filling` does not.
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
                Origin::Record(Section::Said) => {
                    let is_it = |passage: &Passage| passage.start == entry.start;
                    (!filling.has_any_of(position, is_it, text)).then(|| Unquoted::before(number(source)))
                }
                _ => None,
            }
        });
        unquoted.collect()
    }

    /// Returns the number of the message that the latest request answers, if a record alone quotes it.
    fn antecedent_in_record(&self, passages: &[Passage]) -> Option<u64> {
        let latest = self.material.context.latest_user()?;
        let sources = self.material.sources;
        let in_record = passages.iter().filter(|passage| passage.origin == Origin::Record(Section::Story));
        let said = in_record.filter_map(|passage| said_in(passage.text(sources)));
        let before_it = said.filter(|said| *said < number(&sources[latest])).max()?;
        let in_context = (0..latest).rev().find(|position| self.has_agent_text(*position));
        in_context.is_none_or(|position| number(&sources[position]) < before_it).then_some(before_it)
    }

    /// Checks whether the agent says something in the message at `position`.
    fn has_agent_text(&self, position: usize) -> bool {
        let message = self.material.sources[position].message();
        message.role() == Role::Assistant && !message.text().trim().is_empty()
    }

    /// Checks whether all of the person's words that `filling` quotes came before those above the record.
    fn all_said_is_older(&self, filling: &Filling) -> bool {
        let mut said = filling.passages.iter().filter(|(passage, _)| passage.origin == Origin::Person);
        self.words_above.is_some_and(|above| said.all(|(passage, _)| (passage.message as usize) < above))
    }

    /// Returns what the agent said before each answer of the person's in a few words, which say nothing by
    /// themselves, if it leaves; the newest first.
    fn asked(&self) -> Vec<Asked> {
        let sources = self.material.sources;
        let asked = (1..sources.len()).rev().filter(|position| sources[*position].starts_turn());
        let asked = asked.filter_map(|answer| {
            let mut before = (0..answer).rev().take_while(|before| !sources[*before].starts_turn());
            let asked = before.find(|before| self.has_agent_text(*before))?;
            let text = sources[asked].message().text();
            let said = sources[answer].message().text();
            let is_short = is_short_answer(said.trim(), asks(&text));
            (is_short && self.leaves[asked]).then_some(Asked { position: asked, answer })
        });
        asked.take(MOST_ASKED).collect()
    }

    /// Returns what the person answered in a few words. In talk, most is such.
    fn answered(&self) -> Answered {
        let asked = if self.material.is_talk { Vec::new() } else { self.asked() };
        Answered { asked, carried: self.answered_in_records() }
    }

    /// Returns the entries of the records that leave which quote what the person answered, each with the
    /// answer.
    fn answered_in_records(&self) -> Vec<[Passage; 2]> {
        let sources = self.material.sources;
        let records = (0..sources.len()).filter(|at| self.leaves[*at] && is_record(sources[*at].message()));
        let pairs = records.flat_map(|at| {
            let entries = passages_of_record(&sources[at], at);
            entries.windows(2).map(|pair| [pair[0], pair[1]]).collect::<Vec<_>>()
        });
        pairs
            .filter(|[_, answer]| {
                answer.origin == Origin::Record(Section::Story) && is_answer(answer.text(sources))
            })
            .collect()
    }

    /// Returns the positions of the agent's newest texts that leave, and of the text that the latest request
    /// answers.
    fn newest(&self) -> Vec<usize> {
        let has_text = |position: &usize| self.has_agent_text(*position);
        let mut newest: Vec<usize> =
            (0..self.material.sources.len()).rev().filter(has_text).take(N_NEWEST).collect();
        let latest = self.material.context.latest_user().unwrap_or(0);
        newest.extend((0..latest).rev().find(has_text));
        newest.retain(|position| self.leaves[*position]);
        newest
    }
}

/// Checks whether a text of the person's says nothing without what it answers: where nothing was asked, a
/// word or two that are no command of the harness.
fn is_short_answer(said: &str, was_asked: bool) -> bool {
    let most = if was_asked { ANSWER_CHARS } else { SHORT_ANSWER_CHARS };
    let is_remark = || !said.starts_with('/') && said.split_whitespace().nth(2).is_none();
    said.chars().nth(most).is_none() && (was_asked || is_remark())
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

/// Checks whether a passage is all that the person says in a message, or an entry of one line.
fn is_said_whole(passage: &Passage, sources: &[ContextMessage]) -> bool {
    match passage.origin {
        Origin::Person => ends_at(passage, sources) == [true; 2],
        Origin::Record(Section::Said) => !passage.text(sources).contains('\n'),
        _ => false,
    }
}

/// Returns whether a passage begins with its message, and whether it ends with it.
fn ends_at(passage: &Passage, sources: &[ContextMessage]) -> [bool; 2] {
    let n_lines = sources[passage.message as usize].features().lines.len();
    [passage.lines_from == 0, passage.lines_to as usize == n_lines]
}

/// Checks whether a message is a summary that a model wrote.
pub(super) fn is_summary(message: &ContextMessage) -> bool {
    message.role() == Role::Assistant && message.message().is_compacted
}

/// Returns the approximate tokens of the label of a text of such an origin: the person's words have a dash.
const fn label_tokens(origin: Origin) -> u64 {
    match origin {
        Origin::Person => 2,
        Origin::Agent | Origin::Code => 5,
        Origin::Work => 7,
        Origin::Record(_) => 0,
    }
}

/// The choice of what a record holds, and the tokens that are left for it.
struct Choice<'c, 'm> {
    material: &'c Material<'c>,
    folder: &'c Folder,
    worth: &'c mut Worth<'m>,
    candidates: Candidates,
    filling: Filling,
    left: Tokens,
    counter: &'c dyn TokenCounter,
}

impl Choice<'_, '_> {
    /// Picks passages for a share of what is left, in percent.
    fn pick(&mut self, percent: u64, purpose: Purpose, which: &dyn Fn(&Passage) -> bool) {
        self.fill(self.left.share(percent, 100), purpose, which);
    }

    /// Picks answers to what is asked. Each question has most of what those before it left, so that none
    /// takes all of it.
    fn take_answers(&mut self, which: &dyn Fn(&Passage) -> bool) {
        let share = if self.material.is_talk { share::ANSWERS_IN_TALK } else { share::ANSWERS };
        let mut room = self.left.share(share, 100);
        for (nth, asked) in self.material.question.asked().enumerate() {
            self.worth.take_up(nth, asked, &self.candidates);
            room = room - self.fill(room.share(3, 5), Purpose::Answer, which);
        }
    }

    /// Picks statements for a share of what is left, in percent: those of each kind after those of the kinds
    /// before it.
    fn pick_in_turn(&mut self, percent: u64, kinds: &[&dyn Fn(&Passage) -> bool]) {
        let mut room = self.left.share(percent, 100);
        for is_such in kinds {
            room = room - self.fill(room, Purpose::Statement, is_such);
        }
    }

    /// Picks passages for at most `room` tokens, and returns what they take.
    fn fill(&mut self, room: Tokens, purpose: Purpose, which: &dyn Fn(&Passage) -> bool) -> Tokens {
        let Self { material, folder, worth, candidates, filling, left, counter } = self;
        let Material { context, sources, changes, .. } = **material;
        let unused = worth.choose(candidates, purpose, room, which, &mut |passage, room| {
            let text = passage.text(sources);
            let label = match passage.origin {
                // An answer must not fail for its label.
                Origin::Work if purpose != Purpose::Answer => {
                    let source = &sources[passage.message as usize];
                    let label = source_of(context, passage, source, folder);
                    let is_further = filling.quoted.contains(&passage.message);
                    let label = if is_further { short_label(&label) } else { label };
                    let mark = changes.outdate(passage, context, source).mark();
                    counter.count(&format!("{label}{mark}")) + Tokens::new(LINE_TOKENS)
                }
                origin => Tokens::new(label_tokens(origin)),
            };
            let told = counter.count(text);
            let n_lines = text.matches('\n').count() as u64;
            let tokens = told + label + Tokens::new(n_lines * LINE_TOKENS);
            // A passage that is shorter than its label is not worth it, unless somebody asks for it.
            if tokens > room || (purpose == Purpose::Work && told < label) {
                return None;
            }
            // A text that stays or was chosen before costs nothing. Somebody's words count as an answer even
            // so: the question may quote them.
            let place = || hash(&format!("{} {}", passage.message, passage.start));
            let is_new_answer =
                purpose == Purpose::Answer && passage.origin != Origin::Work && filling.known.insert(place());
            if !filling.learn(text) && !is_new_answer {
                return Some(Tokens::ZERO);
            }
            filling.passages.push((*passage, tokens));
            if passage.origin == Origin::Work {
                filling.quoted.insert(passage.message);
            }
            Some(tokens)
        });
        *left = *left - (room - unused);
        room - unused
    }

    /// Takes the ends of the agent's texts that were `asked`: each ends with what it asks, and what that is
    /// about stands before it. All have their last passage before any has a further one.
    fn take_ends(&mut self, asked: &[Asked], percent: u64) {
        let mut room = self.left.share(percent, 100);
        let passages = &self.candidates.passages;
        let is_of = |passage: &&Passage, position| {
            passage.message as usize == position && passage.origin == Origin::Agent
        };
        let starts = |position: usize| -> Vec<u32> {
            passages.iter().filter(|passage| is_of(passage, position)).map(|passage| passage.start).collect()
        };
        let ends = asked.iter().map(|asked| (asked.position, asked.answer, starts(asked.position)));
        let mut ends: Vec<(usize, usize, Vec<u32>)> = ends.collect();
        for nth in 0..ASKED_PASSAGES {
            for (position, answered_at, starts) in &mut ends {
                let Some(start) = starts.pop() else { continue };
                let is_it =
                    |passage: &Passage| passage.message as usize == *position && passage.start == start;
                let used = self.fill(room, Purpose::Newest, &is_it);
                room = room - used;
                if used == Tokens::ZERO {
                    // The passages before it make no sense without it.
                    starts.clear();
                } else if nth == 0 {
                    // The answer stands below it.
                    let answer = answer(&self.material.sources[*answered_at]);
                    let tokens = self.counter.count(answer.as_str()) + Tokens::new(LINE_TOKENS);
                    (room, self.left) = (room - tokens, self.left - tokens);
                }
            }
        }
    }

    /// Takes the next steps until their share is full.
    fn take_steps(&mut self, steps: &mut Peekable<impl Iterator<Item = Step>>, percent: u64) {
        let mut room = self.left.share(percent, 100);
        while let Some(step) = steps.peek_mut() {
            step.tell_names(self.material.sources, self.worth);
            let entry = &step.entry;
            let told = hash(entry.as_str());
            let tokens = self.counter.count(entry.as_str()) + Tokens::new(LINE_TOKENS);
            if tokens > room && !self.filling.known.contains(&told) {
                break;
            }
            if let Some(Step { position, entry, quotes, .. }) = steps.next()
                && self.filling.known.insert(told)
            {
                self.filling.known.extend(quotes.iter().map(|line| hash(line)));
                room = room - tokens;
                self.take(Section::Story, position, entry, tokens);
            }
        }
    }

    /// Takes the newest of what the person says in summaries until a share of what is left is full.
    fn take_said(&mut self, said: &[(u64, usize, String)], percent: u64) {
        let mut room = self.left.share(percent, 100);
        for (number, position, text) in said.iter().rev() {
            let entry = Entry::quote(text);
            let tokens = self.counter.count(entry.as_str()) + Tokens::new(LINE_TOKENS);
            if tokens <= room && self.filling.learn(text) {
                room = room - tokens;
                self.take_at((*number, *position), Section::Said, entry, tokens);
            }
        }
    }

    /// Takes what can be asked for again: the tables, also those that an earlier record tells of, and at most
    /// `most_others` of the other contents.
    fn take_what_left(&mut self, contents: &Contents<'_>, most_others: usize) {
        let tables = entries(contents.tables(), self.left.share(share::TABLES, 100), self.counter);
        let listed: HashSet<String> =
            tables.iter().filter_map(|(_, entry, _)| Some(keys_in(entry.as_str())?.to_owned())).collect();
        self.take_contents(tables);
        // The tables of an earlier record can be asked for as long as their keys are told.
        let sources = self.material.sources;
        self.pick(share::TABLES, Purpose::Work, &|passage| {
            let is_new = |keys: &str| !listed.contains(keys);
            passage.origin == Origin::Record(Section::LeftOut)
                && keys_in(passage.text(sources)).is_some_and(is_new)
        });
        let others = contents.others(self.worth).take(most_others);
        let others = entries(others, self.left.share(share::LEFT_OUT, 100), self.counter);
        self.take_contents(others);
    }

    fn take_contents(&mut self, contents: Vec<(usize, Entry, Tokens)>) {
        for (position, entry, tokens) in contents {
            self.take(Section::LeftOut, position, entry, tokens);
        }
    }

    fn take(&mut self, section: Section, position: usize, entry: Entry, tokens: Tokens) {
        self.take_at((entry.number(), position), section, entry, tokens);
    }

    fn take_at(&mut self, place: (u64, usize), section: Section, entry: Entry, tokens: Tokens) {
        self.left = self.left - tokens;
        self.filling.entries.push((section, Placed { place, entry }, tokens));
    }
}

impl Filling {
    /// Returns a filling that knows the lines of everything that stays.
    fn beside(staying: impl Iterator<Item = impl AsRef<str>>) -> Self {
        let mut filling = Self::default();
        for text in staying {
            filling.learn(text.as_ref());
        }
        filling
    }

    /// Learns the lines of a text; returns false if all of them were known.
    fn learn(&mut self, text: &str) -> bool {
        let mut is_new = false;
        for line in text.split(is_line_break).map(str::trim).filter(|line| !line.is_empty()) {
            is_new |= self.known.insert(hash(line));
        }
        is_new
    }

    /// Checks whether it has a passage of the message at `position` that `is_of` a `text`, or all of that
    /// stands elsewhere.
    fn has_any_of(&self, position: usize, is_of: impl Fn(&Passage) -> bool, text: &str) -> bool {
        let is_passage =
            |(passage, _): &(Passage, Tokens)| passage.message as usize == position && is_of(passage);
        let lines = || text.split(is_line_break).map(str::trim).filter(|line| !line.is_empty());
        let is_known = || lines().all(|line| self.known.contains(&hash(line)));
        self.passages.iter().any(is_passage) || !self.dropped.contains(&(position as u32)) && is_known()
    }

    /// Drops the least valuable until `excess` is saved; returns false if nothing is left.
    fn shed(&mut self, excess: Tokens) -> bool {
        let mut saved = Tokens::ZERO;
        while saved < excess {
            let passage = self.passages.pop();
            self.dropped.extend(passage.iter().map(|(passage, _)| passage.message));
            let passage = passage.map(|(_, tokens)| tokens);
            let Some(tokens) = passage.or_else(|| self.entries.pop().map(|(_, _, tokens)| tokens)) else {
                break;
            };
            saved += tokens;
        }
        saved > Tokens::ZERO
    }

    /// Checks whether it has the end of what the agent says at `position`.
    fn has_end_of(&self, position: usize, sources: &[ContextMessage]) -> bool {
        let said = sources[position].message().text();
        let ends_so = |passage: &Passage| said.trim_end().ends_with(passage.text(sources).trim_end());
        let mut passages = self.passages.iter().map(|(passage, _)| passage);
        passages.any(|passage| {
            passage.message as usize == position && passage.origin == Origin::Agent && ends_so(passage)
        })
    }

    /// Writes everything in its section, in the order of the messages.
    /// Below each question stands its answer.
    fn write(&self, base: &Record, material: &Material<'_>, folder: &Folder, answered: &Answered) -> Record {
        let mut record = base.clone();
        let mut passages: Vec<Passage> = self.passages.iter().map(|(passage, _)| *passage).collect();
        let is_told = |[asked, _]: &&[Passage; 2]| self.passages.iter().any(|(told, _)| told == asked);
        let answers: Vec<Passage> =
            answered.carried.iter().filter(is_told).map(|[_, answer]| *answer).collect();
        passages.extend(answers);
        let mut entries: Vec<(Section, (u64, usize), Entry)> = write(passages, material, folder);
        let is_told = |asked: &&Asked| self.has_end_of(asked.position, material.sources);
        entries.extend(answered.asked.iter().filter(is_told).map(|asked| {
            let source = &material.sources[asked.answer];
            (Section::Story, (number(source), 0), answer(source))
        }));
        entries.extend(
            self.entries.iter().map(|(section, placed, _)| (*section, placed.place, placed.entry.clone())),
        );
        entries.sort_by_key(|(section, place, _)| (*section, *place));
        for (section, _, entry) in entries {
            record.entries_mut(section).push(entry);
        }
        record
    }
}

impl Record {
    /// Drops the sentence about the request, then the oldest of the most frequent kind; returns false if
    /// nothing is left.
    fn shed(&mut self) -> bool {
        if self.request_below.take().is_some() {
            true
        } else if !self.files.is_empty() && self.files.len() >= self.tasks.len() {
            self.files.drain(..self.files.len().div_ceil(4));
            true
        } else if !self.errors.is_empty() {
            self.errors.remove(0);
            true
        } else if !self.tasks.is_empty() {
            // Nobody has to work on what is completed.
            let done = self.tasks.iter().position(|task| task.starts_with("completed:"));
            self.tasks.remove(done.unwrap_or(self.tasks.len() - 1));
            true
        } else {
            self.last_check.take().or_else(|| self.last_test.take()).is_some()
        }
    }
}
