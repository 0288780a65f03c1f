//! The interview in a talk: questions of the agent's, and answers of the user's that say little without
//! them, such as "maybe thirty minutes".

use super::Material;
use super::announcements::sentences;
use super::candidates::Interview;
use super::passage::{Origin, Passage};
use super::question_mark::asks;
use super::worth::Worth;
use crate::ContextMessage;
use crate::compaction::features::is_line_break;

/// Most characters of a question that stands with its answer, and of an answer that needs one.
const QUESTION_CHARS: usize = 160;
const ANSWER_CHARS: usize = 120;
/// One of so many texts of the agent's ends with a question, at least, and one of so many of the user's, at
/// most, where the agent asks and the user answers.
const ASKING: usize = 2;
const ANSWERING: usize = 8;
/// A term that at most one of so many messages has, or so few, tells what a text is about.
const MANY: usize = 10;
const FEW: usize = 4;

/// Returns what leaves of an interview: each answer is short, and names nothing that its question is about.
/// It is empty unless the agent mostly asks and the user answers.
pub(super) fn interview(material: &Material<'_>, leaves: &[bool], worth: &Worth<'_>) -> Interview {
    if !is_interview(material) {
        return Interview::default();
    }
    let sources = material.sources;
    let answers = (1..sources.len()).filter(|answer| leaves[*answer] && leaves[answer - 1]);
    let answers = answers.filter(|answer| sources[*answer].starts_turn());
    let answers = answers.filter(|answer| material.team.person(&sources[*answer]).is_none());
    let pairs = answers.filter_map(|answer| {
        let said = sources[answer].message().text();
        let said = said.trim();
        let is_short = said.chars().nth(ANSWER_CHARS).is_none() && !said.contains(is_line_break);
        let question = is_short.then(|| question(material, answer - 1)).flatten()?;
        (!is_shared(&question, sources, answer, worth)).then_some((answer as u32, question))
    });
    pairs.collect()
}

/// Checks whether most of what the agent says ends with a question, and little of what the user says does.
fn is_interview(material: &Material<'_>) -> bool {
    let sources = material.sources;
    let share = |is_theirs: &dyn Fn(usize) -> bool| {
        let said = (0..sources.len()).filter(|position| is_theirs(*position));
        said.fold((0_usize, 0_usize), |(n_asking, n_said), position| {
            (n_asking + usize::from(asks(material.said_at(position))), n_said + 1)
        })
    };
    let (agent_asks, agent_says) = share(&|position| material.has_agent_text(position));
    let (user_asks, user_says) = share(&|position| sources[position].starts_turn());
    agent_asks * ASKING >= agent_says && user_asks * ANSWERING <= user_says
}

/// Returns the question with which the agent's message at `position` ends.
fn question(material: &Material<'_>, position: usize) -> Option<Passage> {
    if !material.has_agent_text(position) {
        return None;
    }
    let said = material.said_at(position);
    let sentence = sentences(said).next_back()?;
    let text = &said[sentence.clone()];
    if text.chars().nth(QUESTION_CHARS).is_some() || !asks(text) {
        return None;
    }
    let lines = &material.sources[position].features().lines;
    let is_in = |start: u32, end: u32| (start as usize) < sentence.end && sentence.start < end as usize;
    let line = lines.iter().rposition(|line| is_in(line.start, line.end))? as u32;
    Some(Passage {
        message: position as u32,
        start: sentence.start as u32,
        end: sentence.end as u32,
        lines_from: line,
        lines_to: line + 1,
        origin: Origin::Agent,
        is_outdated: false,
        only_names: false,
        is_code: false,
    })
}

/// Checks whether an answer names what its question is about: then it says so by itself.
fn is_shared(question: &Passage, sources: &[ContextMessage], answer: usize, worth: &Worth<'_>) -> bool {
    let position = question.message as usize;
    let asked = sources[position].features();
    let answered = &sources[answer].features().terms;
    let text = question.text(sources);
    let line = &asked.lines[question.lines_from as usize];
    let most = (sources.len() / MANY).max(FEW);
    asked.places(line).iter().enumerate().any(|(nth, place)| {
        let hash = asked.terms[*place as usize].hash();
        worth.n_messages(position, *place) as usize <= most
            && text.contains(asked.word(line, nth))
            && answered.iter().any(|term| term.hash() == hash)
    })
}
