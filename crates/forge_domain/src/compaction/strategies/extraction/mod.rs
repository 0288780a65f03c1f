//! Combines earlier messages into one bounded record without a model.
//!
//! What is known of the messages is gathered first: the [`Question`] that is asked now, the frames around
//! what tools wrote ([`frames`]), announcements of an agent's next calls ([`announcements`]), the files,
//! tasks, checks and errors ([`ledger`]), and what changed since it was read ([`outdated`]). A [`Plan`] then
//! decides which messages leave. What stood in them becomes [`passage`]s, [`worth`] tells what each is worth,
//! and a [`choice`] takes as many as the room holds, in an [`order`] of kinds. The result is a [`record`],
//! which a later compaction reads again.

mod advice;
mod announcements;
mod answered;
mod answers;
mod candidates;
mod choice;
mod command_words;
mod contents;
mod cutting;
mod drafts;
mod endings;
mod excerpt;
mod fence;
mod file_lines;
mod fill;
mod filling;
mod final_words;
mod frames;
mod imports;
mod interview;
mod introductions;
mod known_files;
mod label;
mod leaving;
mod ledger;
mod listing;
mod order;
mod outdated;
mod pages;
mod passage;
mod pasted;
mod path_form;
mod picks;
mod plan;
mod question_mark;
mod queue;
mod record;
mod root;
mod shed;
mod shortening;
mod speech;
mod stale_sections;
mod state;
mod story;
mod tables;
mod tasks;
mod team;
mod told_lines;
mod work_files;
mod worth;

#[cfg(test)]
mod any_command;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod said_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod work_tests;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::announcements::Announcements;
use self::frames::Frames;
use self::outdated::Changes;
use self::passage::{Origin, Passage};
use self::plan::Plan;
#[cfg(test)]
pub(crate) use self::record::Entry;
pub(crate) use self::record::{Record, record_length};
use self::shed::Shed;
use self::speech::Speech;
use self::state::State;
use self::tables::ReplacedTables;
use self::team::Team;
use self::worth::Worth;
use crate::compaction::findings::Deed;
use crate::compaction::originals::originals;
use crate::compaction::question::Question;
use crate::compaction::standing::{Standing, is_talk};
use crate::compaction::{
    CompactionImpact, CompactionRules, CompactionServices, CompactionStrategy, StrategyError,
};
use crate::{Context, ContextMessage, Role, Tokens};

/// A strategy that combines earlier messages into one structured, bounded record that a person can read: what
/// was asked and concluded, the tasks, files, checks and errors, passages of what was read, and what to ask
/// for again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Extraction {}

impl Extraction {
    /// The word for it in YAML.
    pub const ID: &str = "extraction";
}

#[async_trait]
impl CompactionStrategy for Extraction {
    fn id(&self) -> &str {
        Self::ID
    }

    fn description(&self) -> &str {
        "condenses earlier messages into one record of what later work needs, without a model"
    }

    fn heeds_focus(&self) -> bool {
        true
    }

    fn is_applicable(&self, rules: &CompactionRules, context: &Context) -> bool {
        Standing::of(context, rules, 0).has_any_that_may_go()
    }

    async fn compact(
        &self,
        rules: &CompactionRules,
        context: Context,
        services: &dyn CompactionServices,
    ) -> Result<(Context, CompactionImpact), StrategyError> {
        let is_talk = is_talk(&context);
        let sources = originals(&context, services);
        let state = State::of(&context, &sources);
        let mut question = Question::of(&context, rules.focus.as_ref());
        if is_talk {
            question = question.without_remarks(&context);
        }
        let question = question.with_tasks(state.open_tasks());
        let frames = Frames::of(&context, &sources, &question);
        let announcements = Announcements::of(&sources);
        let changes = Changes::of(&context, &sources, state.folder.root());
        let team = Team::of(&sources);
        let tables = ReplacedTables::of(&context, &sources);
        let speech = Speech::of(&context, &sources);
        let shed = Shed::of(&context, rules, &changes, services.counter());
        let material = Material {
            context: &shed.context,
            sources: &sources,
            question: &question,
            frames: &frames,
            announcements: &announcements,
            state: &state,
            changes: &changes,
            team: &team,
            tables: &tables,
            speech: &speech,
            shed: &shed.positions,
            is_talk,
        };
        let mut worth = Worth::of(&context, &sources, &frames, &question, is_talk);
        let mut attempt = |more: Tokens| {
            let plan = Plan::of(rules, &material, more, services.counter());
            let after = plan.carry_out(rules.target.tokens, &material, &mut worth, services.counter());
            (plan, after)
        };
        let target = rules.target.tokens;
        let (mut plan, mut after) = attempt(Tokens::ZERO);
        if plan.folded.is_empty() {
            // Nothing leaves that a record could stand for: truncation shortens no more than it has to.
            let impact = CompactionImpact::new(context.size(), context.size(), Vec::new());
            return Ok((context.clone(), impact));
        }
        // More of the newest messages take the tokens that the record does not need.
        let mut more = Tokens::ZERO;
        for _ in 0..MOST_ATTEMPTS {
            let unused = target - after.size().tokens;
            if unused <= target.share(UNUSED_PERCENT, 100) {
                break;
            }
            more += unused;
            let (next_plan, next) = attempt(more);
            if next.size().tokens > target || next.size().tokens < after.size().tokens {
                break;
            }
            (plan, after) = (next_plan, next);
        }
        let impact = CompactionImpact::new(context.size(), after.size(), plan.yielded);
        Ok((after, impact))
    }
}

/// Most plans after the first one.
const MOST_ATTEMPTS: usize = 3;
/// The share of the target that may stay unused, in percent.
const UNUSED_PERCENT: u64 = 6;

/// The messages that a record is made from.
#[derive(Clone, Copy)]
struct Material<'a> {
    /// All of them, what stays included.
    context: &'a Context,
    /// The messages of the context as they were at first, whatever earlier steps made of them.
    sources: &'a [ContextMessage],
    question: &'a Question,
    frames: &'a Frames,
    announcements: &'a Announcements,
    state: &'a State,
    changes: &'a Changes,
    team: &'a Team,
    tables: &'a ReplacedTables,
    speech: &'a Speech,
    /// The positions of the messages that are shorter in `context` than in `sources`: what they lost is not
    /// told.
    shed: &'a [usize],
    /// True if hardly any tool is used.
    is_talk: bool,
}

impl Material<'_> {
    /// Checks whether the agent says something in the message at `position`.
    fn has_agent_text(&self, position: usize) -> bool {
        has_agent_text(&self.sources[position]) || self.speech.final_words(position).is_some()
    }

    /// Returns the text of the message at `position` up to the end of what somebody says in it.
    fn said_at(&self, position: usize) -> &str {
        let features = self.sources[position].features();
        match self.speech.final_words(position) {
            Some(words) => &features.text[..words.end],
            None => features.beside_calls(),
        }
    }

    /// Checks whether the agent wrote a passage into a file.
    fn is_written(&self, passage: &Passage) -> bool {
        let source = &self.sources[passage.message as usize];
        let writes = || source.findings().deeds.iter().any(Deed::changes_files);
        passage.origin == Origin::Work
            && !passage.tells_little()
            && source.role() == Role::Assistant
            && writes()
    }
}

/// Checks whether the agent says something in a message.
fn has_agent_text(source: &ContextMessage) -> bool {
    let message = source.message();
    message.role() == Role::Assistant && !message.text().trim().is_empty()
}
