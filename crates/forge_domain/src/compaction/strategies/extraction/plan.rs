//! The plan of a record: which messages leave, and which are shortened, so that a record of what leaves fits
//! beside what stays.

use std::num::NonZeroUsize;
use std::ops::{Add, Range};

use super::Material;
use super::label::number;
use super::leaving::{Leaving, is_summary};
use super::record::Record;
use super::worth::Worth;
use crate::compaction::cut::{Cut, CutOf, Item, images_of, level, shorten};
use crate::compaction::features::text_of;
use crate::compaction::omission::smaller_marker;
use crate::compaction::record_tag::is_record;
use crate::compaction::standing::{Hold, SHORTENED, Standing, is_even_talk};
use crate::compaction::strategies::sliding_window::{runs, size_of};
use crate::compaction::strategies::truncation::{argument_items, items};
use crate::compaction::{CompactionRules, Yield};
use crate::{Context, ContextMessage, Edit, Group, Role, Size, TokenCounter, Tokens};

/// The most that a record takes of what it stands for, in percent.
const MOST_OF_FOLDED: u64 = 90;
/// The share of what is free for the record and the newest messages that summaries of a model may keep, in
/// percent.
const SUMMARIES_PERCENT: u64 = 50;
const NEWEST_SUMMARY_PERCENT: u64 = 90;
/// As long as what stays takes no more than this share of what is free, none of it yields to a summary.
const LITTLE_PERCENT: u64 = 20;
/// The messages that leave, and those that are shortened.
pub(super) struct Plan {
    standing: Standing,
    /// Groups that leave, by index, in order.
    pub(super) folded: Vec<usize>,
    cuts: Vec<Cut>,
    /// Groups of the user's words that leave because a cut would leave next to nothing of them, by index.
    remnants: Vec<usize>,
    pub(super) yielded: Vec<Yield>,
}

/// The share of what is free that the newest messages may take verbatim, in percent: where the agent works,
/// and in talk of two, as what was said long ago is asked about as often as what was said last.
const TAIL_PERCENT: u64 = 45;
const TAIL_PERCENT_OF_TALK: u64 = 10;
/// The claim of the record to what the newest messages would take in talk, in percent.
const CLAIM_OF_TALK: u64 = 65;
/// A result is shortened to no less than this to be among the newest messages.
const LEAST_RESULT: Tokens = Tokens::new(80);
/// The least share of the agent's answer before the latest message of the user that is kept as a message of
/// its own, in percent.
const LEAST_OF_ANTECEDENT: u64 = 50;
/// The newest message that is too large by no more than this share of what is left, in percent, and than a
/// mark in it would take, stays whole.
const LITTLE_MORE: u64 = 12;
const MARK: Tokens = Tokens::new(40);
/// The user's words that stay are not cut to fewer characters than these, the mark in them included: a record
/// quotes them by what is asked.
const LEAST_OF_CUT_CHARS: u64 = 250;
/// The newest results are shortened to that before the agent's words beside them are.
const LEAST_OF_LAST_RESULT: Tokens = Tokens::new(40);
/// The agent's newest words stay whole if they need no more than that of the free tokens, in percent.
const LEAST_OF_NEWEST_WORDS: u64 = 45;
/// The parts that yield to the record, in the order of yielding.
const YIELDING: [Yielding; 5] = [
    Yielding { what: Yield::RetentionAge, claim: 45, least: 0 },
    Yielding { what: Yield::RetentionSize, claim: 45, least: 20 },
    Yielding { what: Yield::LatestUserText, claim: 45, least: 30 },
    Yielding { what: Yield::CallArguments, claim: 25, least: 0 },
    Yielding { what: Yield::SystemMessages, claim: 25, least: 0 },
];

/// The way in which a part yields to the record, in shares of the free tokens, in percent.
#[derive(Clone, Copy)]
struct Yielding {
    what: Yield,
    /// It yields if the record would have less than that, and less than it replaces.
    claim: u64,
    /// It yields down to that.
    least: u64,
}

/// The room of a plan, about: the record is filled to what is measured in the end.
struct Share {
    /// The tokens that the target leaves beside what is fixed, the user's and pinned.
    free: Tokens,
    /// The part of them that the staying messages take.
    taken: Tokens,
    /// The tokens that leave if nothing more yields.
    folded: Tokens,
}

impl Share {
    /// Returns the tokens that the record lacks of a claim to `percent` of the free tokens.
    fn lacks(&self, percent: u64) -> Tokens {
        self.taken + self.free.share(percent, 100).min(self.folded) - self.free
    }

    /// Moves so many of the staying tokens to those that leave.
    fn fold(&mut self, tokens: Tokens) {
        self.taken = self.taken - tokens;
        self.folded += tokens;
    }
}

impl Plan {
    /// Decides what leaves; `more` is what the newest messages may take beside their share.
    pub(super) fn of(
        rules: &CompactionRules,
        material: &Material<'_>,
        more: Tokens,
        counter: &dyn TokenCounter,
    ) -> Self {
        let context = material.context;
        let is_even_talk = is_even_talk(context);
        let mut standing = Standing::of(context, rules, rules.retention_window);
        for (group, hold) in standing.groups.iter().zip(&mut standing.holds) {
            // An earlier record becomes part of the new one in any case: one is enough.
            if *hold == Hold::Retained && (has_record(group, context) || is_renewed(group, context)) {
                *hold = Hold::Free;
            }
        }
        let cuts = standing.share_cuts(context);
        let cut_to = |position: usize| cuts.iter().find(|cut| cut.position == position).map(|cut| cut.most);
        let tokens_of = |group: &Group| {
            let positions = group.range().map(|at| (at, context.messages()[at].tokens()));
            positions.map(|(at, tokens)| cut_to(at).unwrap_or(tokens)).sum()
        };
        let tokens: Vec<Tokens> = standing.groups.iter().map(tokens_of).collect();
        let mut plan = Self { standing, folded: Vec::new(), cuts, remnants: Vec::new(), yielded: Vec::new() };
        let is_fixed = |hold| matches!(hold, Hold::Fixed | Hold::FirstUser | Hold::Pinned | Hold::User);
        let fixed = plan.held_tokens(&tokens, is_fixed);
        let folded = plan.held_tokens(&tokens, |hold| hold == Hold::Free);
        let mut share = Share {
            free: rules.target.tokens - crate::REQUEST_TOKENS - fixed,
            taken: tokens.iter().copied().sum::<Tokens>() - fixed - folded,
            folded,
        };
        let is_little = share.taken <= share.free.share(LITTLE_PERCENT, 100);
        plan.hold_summaries(&mut share, &tokens, context, is_little);
        let yields: &[Yielding] = if is_little { &[] } else { &YIELDING };
        for mut yielding in yields.iter().copied() {
            if is_even_talk && yielding.what == Yield::RetentionAge {
                yielding.claim = CLAIM_OF_TALK;
            }
            plan.give_up(yielding, &mut share, &tokens, context, counter);
        }
        plan.let_go_for_counts(rules, context);
        let system = plan.held_tokens(&tokens, |hold| hold == Hold::System);
        let percent = if is_even_talk { TAIL_PERCENT_OF_TALK } else { TAIL_PERCENT };
        let tail = (share.free - system).share(percent, 100) + more - (share.taken - system);
        plan.fold_all_but_newest(tail, &tokens, rules, context, counter);
        plan
    }

    /// Lets the newest messages leave, the oldest of them first, as far as what stays exceeds the targets for
    /// messages and turns.
    fn let_go_for_counts(&mut self, rules: &CompactionRules, context: &Context) {
        while !self.leaves_room(rules, context) {
            let oldest = self.standing.holds.iter_mut().find(|hold| **hold == Hold::Retained);
            let Some(oldest) = oldest else { return };
            *oldest = Hold::Free;
            if !self.yielded.contains(&Yield::RetentionAge) {
                self.yielded.push(Yield::RetentionAge);
            }
        }
    }

    /// Checks whether the targets for messages and turns leave room for a record beside what is held.
    fn leaves_room(&self, rules: &CompactionRules, context: &Context) -> bool {
        let [messages, turns] = self.counts_left(rules, context);
        messages.is_none_or(|messages| messages > 0) && turns.is_none_or(|turns| turns >= 0)
    }

    /// Returns the messages and turns that the targets leave beside what is held.
    fn counts_left(&self, rules: &CompactionRules, context: &Context) -> [Option<isize>; 2] {
        let held = self.standing.groups.iter().zip(&self.standing.holds);
        let held = held.filter(|(_, hold)| **hold != Hold::Free);
        let held = held.map(|(group, _)| size_of(context, group)).fold(Size::default(), Add::add);
        let left = |most: Option<NonZeroUsize>, held: usize| Some(most?.get() as isize - held as isize);
        [left(rules.target.messages, held.messages), left(rules.target.turns, held.turns)]
    }

    /// Holds the newest of the summaries that a model wrote, as far as they fit beside a record: they were
    /// paid for, and say more than quotes of them would. If what else stays `is_little`, it stays beside
    /// them.
    fn hold_summaries(&mut self, share: &mut Share, tokens: &[Tokens], context: &Context, is_little: bool) {
        let mut room = share.free.share(SUMMARIES_PERCENT, 100);
        // The newest may need nearly all.
        let mut most = share.free.share(NEWEST_SUMMARY_PERCENT, 100);
        if is_little {
            most = most - share.taken;
        }
        for (index, group) in self.standing.groups.iter().enumerate().collect::<Vec<_>>().into_iter().rev() {
            let is_summary = is_summary(&context.messages()[group.range().start]);
            if is_summary && self.standing.holds[index] == Hold::Free && tokens[index] <= most {
                room = room - tokens[index];
                most = room;
                self.standing.holds[index] = Hold::System;
                share.taken += tokens[index];
                share.folded = share.folded - tokens[index];
            }
        }
    }

    /// Returns the tokens of all groups held in such a way.
    fn held_tokens(&self, tokens: &[Tokens], is_such: impl Fn(Hold) -> bool) -> Tokens {
        let held = tokens.iter().zip(&self.standing.holds).filter(|(_, hold)| is_such(**hold));
        held.map(|(tokens, _)| *tokens).sum()
    }

    /// Gives up as much of one thing as the record lacks of its claim.
    fn give_up(
        &mut self,
        yielding: Yielding,
        share: &mut Share,
        tokens: &[Tokens],
        context: &Context,
        counter: &dyn TokenCounter,
    ) {
        let held = match yielding.what {
            Yield::RetentionAge => return self.let_go(Hold::Retained, yielding, share, tokens),
            Yield::SystemMessages => return self.let_go(Hold::System, yielding, share, tokens),
            Yield::LatestUserText => Hold::LatestUser,
            Yield::RetentionSize | Yield::CallArguments => Hold::LastGroup,
            // Only truncation gives up pinned text and the user's words.
            Yield::Pins | Yield::UserMessages | Yield::FirstUserText => return,
        };
        let (of, mut items) = match yielding.what {
            Yield::CallArguments => {
                let items = argument_items(context, &self.standing, counter);
                (CutOf::Arguments, items.into_iter().map(|item| self.as_cut(item)).collect())
            }
            _ => (CutOf::Text, self.items_of(held, context, counter)),
        };
        if yielding.what == Yield::RetentionSize {
            let most = share.free.share(LEAST_OF_NEWEST_WORDS, 100);
            let is_said = |item: &&mut Item| context.messages()[item.position].role() == Role::Assistant;
            items
                .iter_mut()
                .filter(is_said)
                .for_each(|item| item.least = item.least.max(item.tokens.min(most)));
        }
        let whole: Tokens = items.iter().map(|item| item.tokens).sum();
        let least = share.free.share(yielding.least, 100);
        let most = whole - if of == CutOf::Text { least.max(SHORTENED) } else { least };
        if yielding.what == Yield::LatestUserText {
            // No earlier words of the user's stay longer than the latest, but for the first message.
            items.extend(self.items_of(Hold::User, context, counter));
        }
        let (mut cuts, saved) = cuts_of(&items, share.lacks(yielding.claim).min(most), of, context);
        if saved > Tokens::ZERO {
            self.let_go_of_remnants(&mut cuts, &items, share, context, counter);
            for cut in &cuts {
                let item = items.iter().find(|item| item.position == cut.position);
                let saved = item.map_or(Tokens::ZERO, |item| item.tokens - cut.most);
                match self.standing.hold_at(cut.position) {
                    // It was not among the free tokens.
                    Hold::User => share.free += saved,
                    _ => share.taken = share.taken - saved,
                }
            }
            self.cuts.retain(|cut| cuts.iter().all(|later| later.position != cut.position));
            self.cuts.extend(cuts);
            self.yielded.push(yielding.what);
        }
    }

    /// Lets those of the user's earlier words leave of which the planned `cuts` would leave next to nothing,
    /// in place of these cuts.
    fn let_go_of_remnants(
        &mut self,
        cuts: &mut Vec<Cut>,
        items: &[Item],
        share: &mut Share,
        context: &Context,
        counter: &dyn TokenCounter,
    ) {
        cuts.retain(|cut| {
            let index = self.standing.groups.iter().position(|group| group.range().contains(&cut.position));
            let index = index.filter(|index| self.standing.holds[*index] == Hold::User);
            let item = items.iter().find(|item| item.position == cut.position);
            let (Some(index), Some(item)) = (index, item) else { return true };
            if !is_remnant(&context.messages()[cut.position], cut.most, counter) {
                return true;
            }
            self.standing.holds[index] = Hold::Free;
            self.remnants.push(index);
            self.cuts.retain(|earlier| earlier.position != cut.position);
            // They were not among the free tokens.
            share.free += item.tokens;
            share.folded += item.tokens;
            false
        });
    }

    /// Returns the messages so held whose text may be shortened, as long as the planned cuts leave them.
    fn items_of(&self, held: Hold, context: &Context, counter: &dyn TokenCounter) -> Vec<Item> {
        let items = items(context, &self.standing, held, counter);
        items.into_iter().map(|item| self.as_cut(item)).collect()
    }

    /// Lets groups held in such a way leave, the oldest first, until the record has all of its claim.
    fn let_go(&mut self, held: Hold, yielding: Yielding, share: &mut Share, tokens: &[Tokens]) {
        let groups = self.standing.groups.iter().zip(&mut self.standing.holds).zip(tokens);
        // Summaries are held like system messages, and stay.
        for ((_, hold), tokens) in groups.filter(|((group, _), _)| held != Hold::System || group.has_system())
        {
            if *hold == held && share.lacks(yielding.claim) > Tokens::ZERO {
                *hold = Hold::Free;
                share.fold(*tokens);
                if self.yielded.last() != Some(&yielding.what) {
                    self.yielded.push(yielding.what);
                }
            }
        }
    }

    /// Returns the item after the planned cuts.
    fn as_cut(&self, item: Item) -> Item {
        let cut = self.cuts.iter().find(|cut| cut.position == item.position);
        match cut {
            Some(cut) => Item { tokens: cut.most, images: Tokens::ZERO, ..item },
            None => item,
        }
    }

    /// Keeps the newest of what is free verbatim, up to `tail` and to the targets for messages and turns
    /// beside a record; everything else leaves. The first that is too large is shortened.
    fn fold_all_but_newest(
        &mut self,
        mut tail: Tokens,
        tokens: &[Tokens],
        rules: &CompactionRules,
        context: &Context,
        counter: &dyn TokenCounter,
    ) {
        let [mut messages, mut turns] = self.counts_left(rules, context);
        // The record is one of them.
        messages = messages.map(|messages| messages - 1);
        let mut is_open = true;
        for index in (0..self.standing.groups.len()).rev() {
            if self.standing.holds[index] != Hold::Free {
                continue;
            }
            let Some(group) = self.standing.groups.iter().nth(index).cloned() else { continue };
            if is_renewed(&group, context) || self.remnants.contains(&index) {
                self.folded.push(index);
                continue;
            }
            let is_record = has_record(&group, context);
            let size = size_of(context, &group);
            let within = |left: &mut Option<isize>, size: usize| {
                *left = left.map(|left| left - size as isize);
                left.is_none_or(|left| left >= 0)
            };
            is_open &= within(&mut messages, size.messages) & within(&mut turns, size.turns);
            // To leave out a few tokens takes a mark of as many.
            if is_open && !is_record && tokens[index] - tail <= tail.share(LITTLE_MORE, 100).min(MARK) {
                tail = tail - tokens[index];
                continue;
            }
            if !is_open || is_record || !self.shorten(&group, tokens[index] - tail, context, counter) {
                self.folded.push(index);
            }
            is_open = false;
        }
        self.folded.reverse();
    }

    /// Shortens the results of `group` by `excess` or, if it is the agent's answer before the latest message
    /// of the user, that; returns false if they would be too short to be useful.
    fn shorten(
        &mut self,
        group: &Group,
        excess: Tokens,
        context: &Context,
        counter: &dyn TokenCounter,
    ) -> bool {
        let is_antecedent = context.latest_user() == Some(group.range().end) && group.range().len() == 1;
        let least = |message: &ContextMessage| match message.role() {
            Role::Tool => Some(message.tokens().min(LEAST_RESULT)),
            // The user answers this text, so its head and tail are worth more than quotes in a record.
            Role::Assistant if is_antecedent => Some(message.tokens().share(LEAST_OF_ANTECEDENT, 100)),
            _ => None,
        };
        let items: Vec<Item> = group
            .range()
            .filter_map(|position| {
                let message = &context.messages()[position];
                let tokens = message.tokens();
                let (least, images) = (least(message)?, images_of(message, counter));
                Some(Item { position, tokens, least, beside: Tokens::ZERO, images })
            })
            .collect();
        let (cuts, saved) = level(&items, excess, CutOf::Text);
        let is_enough = saved >= excess && saved > Tokens::ZERO;
        if is_enough {
            self.cuts.extend(cuts);
        }
        is_enough
    }

    /// Returns the context in which a record that takes it to `target` stands for what leaves.
    pub(super) fn carry_out(
        &self,
        target: Tokens,
        material: &Material<'_>,
        worth: &mut Worth<'_>,
        counter: &dyn TokenCounter,
    ) -> Context {
        let Material { context, sources, .. } = *material;
        let cuts: Vec<Edit> =
            self.cuts.iter().filter_map(|cut| shorten(context, &self.standing.pins, cut, counter)).collect();
        let runs = runs(&self.folded);
        let at = self.place_of_record(&runs, context);
        let edited = |record: Option<ContextMessage>| {
            let mut record = record;
            let folds = runs.iter().enumerate().map(|(nth, run)| Edit::Fold {
                span: self.standing.groups.span(run.clone()),
                with: record.take_if(|_| nth == at).into_iter().collect(),
            });
            let folds: Vec<Edit> = folds.collect();
            context.edit(folds.into_iter().chain(cuts.iter().cloned()).collect())
        };
        // One of them may go without its reasoning now, and is the same message.
        let mut leaves: Vec<bool> =
            context.messages().iter().zip(sources).map(|(is, was)| !is.is_same_as(was)).collect();
        material.shed.iter().for_each(|position| leaves[*position] = false);
        for index in &self.folded {
            if let Some(group) = self.standing.groups.iter().nth(*index) {
                leaves[group.range()].fill(true);
            }
        }
        let mut calls_stay: Vec<bool> = leaves.iter().map(|leaves| !leaves).collect();
        let mut left = Vec::new();
        for cut in &cuts {
            if let Edit::Shorten { position, with } = cut {
                leaves[*position] = true;
                calls_stay[*position] = with.message().calls() == sources[*position].message().calls();
                left.push((*position, text_of(with.message())));
            }
        }
        let request_below = self.request_below(&runs, at, context);
        let words_above = self.words_above(&runs, at, &leaves, context);
        let (leaves, left, calls_stay) = (&leaves, &left, &calls_stay);
        let leaving = Leaving { material, leaves, left, calls_stay, request_below, words_above };
        // The messages that stay are counted exactly. The record may fill the rest of the target, as long as
        // it is smaller than what it replaces; no larger, if there are only too many messages or turns.
        let (before, without) = (context.size().tokens, edited(None).size().tokens);
        let most = if before > target { MOST_OF_FOLDED } else { 100 };
        let room = (target - without).min((before - without).share(most, 100));
        let marker = || {
            let folded = self.folded.iter().filter_map(|index| self.standing.groups.iter().nth(*index));
            let folded = folded.flat_map(|group| &context.messages()[group.range()]);
            smaller_marker(folded, counter)
        };
        edited(leaving.fill(room, worth, counter).or_else(marker))
    }

    /// Returns the number of the run whose place the record takes: before the newest words of the user,
    /// unless nothing leaves there or the record must open what is left.
    fn place_of_record(&self, runs: &[Range<usize>], context: &Context) -> usize {
        if !self.standing.opens(context, |index| self.folded.binary_search(&index).is_err()) {
            return 0;
        }
        let latest = context.latest_user().unwrap_or(0);
        let is_before = |run: &Range<usize>| self.standing.groups.span(run.clone()).range().end <= latest;
        let told = runs.iter().rposition(|run| is_before(run) && self.tells_of(run, context));
        told.or_else(|| runs.iter().rposition(is_before)).unwrap_or(0)
    }

    /// Checks whether a record tells of a run: it tells nothing of lists that a harness sends again.
    fn tells_of(&self, run: &Range<usize>, context: &Context) -> bool {
        let mut groups = self.standing.groups.iter().skip(run.start).take(run.len());
        groups.any(|group| !is_renewed(group, context))
    }

    /// Returns the position of the first message of the user's that stays above the record in place of run
    /// `at`, beside the first of all.
    fn words_above(
        &self,
        runs: &[Range<usize>],
        at: usize,
        leaves: &[bool],
        context: &Context,
    ) -> Option<usize> {
        let place = self.standing.groups.span(runs.get(at)?.clone()).range().start;
        let first = context.first_user();
        let stays = |at: &usize| context.messages()[*at].starts_turn() && !leaves[*at];
        (0..place).find(|at| stays(at) && Some(*at) != first)
    }

    /// Returns the label of the user's latest message, if the record in place of run `at` stands before it
    /// and a later run leaves: nobody who reads the record may take the request for new.
    fn request_below(&self, runs: &[Range<usize>], at: usize, context: &Context) -> Option<String> {
        let latest = context.latest_user()?;
        let span = |run: &Range<usize>| self.standing.groups.span(run.clone()).range();
        let last = runs.iter().rfind(|run| self.tells_of(run, context))?;
        let is_below = span(runs.get(at)?).end <= latest && span(last).start > latest;
        // The messages of another session may have had higher numbers.
        let request = number(&context.messages()[latest]);
        let earlier = context.messages()[..latest].iter().map(ContextMessage::message);
        let mut records = earlier.filter(|message| is_record(message)).map(Record::of);
        let is_below = is_below && records.all(|record| record.last_number() <= request);
        is_below.then(|| context.messages()[latest].label())
    }
}

/// Returns the cuts that save `excess`, and what they save: a result is shortened before the words of the
/// agent that asked for it, as it can be asked for again.
fn cuts_of(items: &[Item], excess: Tokens, of: CutOf, context: &Context) -> (Vec<Cut>, Tokens) {
    let results = items.iter().filter(|item| context.messages()[item.position].role() == Role::Tool);
    let results: Vec<Item> = results
        .map(|item| Item { least: item.least.max(LEAST_OF_LAST_RESULT).min(item.tokens), ..*item })
        .collect();
    let (cuts, saved) = level(&results, excess, of);
    if saved >= excess { (cuts, saved) } else { level(items, excess, of) }
}

/// Checks whether next to nothing of a message's text is left in `most` tokens. A text that only loses its
/// images stays.
fn is_remnant(message: &ContextMessage, most: Tokens, counter: &dyn TokenCounter) -> bool {
    let tokens = message.tokens() - images_of(message, counter);
    let n_chars = message.message().text().chars().count() as u64;
    most < tokens && n_chars * most.as_u64() / tokens.as_u64() < LEAST_OF_CUT_CHARS
}

fn has_record(group: &Group, context: &Context) -> bool {
    context.messages()[group.range()].iter().any(|message| is_record(message.message()))
}

/// Checks whether a group is nothing but notes that their author will send again.
fn is_renewed(group: &Group, context: &Context) -> bool {
    context.messages()[group.range()].iter().all(|message| message.message().is_renewed())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::Message;
    use crate::compaction::fixture::Characters;

    #[test]
    fn a_cut_that_leaves_next_to_nothing_is_known() {
        for (n_chars, share, expected) in [
            (1_000, (1, 1), false),
            (1_000, (1, 2), false),
            (1_000, (1, 5), true),
            (100, (1, 1), false),
            (100, (1, 2), true),
        ] {
            let message = ContextMessage::count(Message::user("a".repeat(n_chars)), &Characters);
            let most = message.tokens().share(share.0, share.1);
            assert_eq!(is_remnant(&message, most, &Characters), expected, "{n_chars} {share:?}");
        }
    }
}
