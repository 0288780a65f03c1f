//! Shortens single oversized items, head and tail; the last rung, which finds a fit wherever there is one.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sliding_window::{Drops, Marking, folds, oldest_until};
use crate::compaction::cut::{
    Cut, CutOf, Item, cut_to_shortest, exchange_cut_to_shortest, head_and_tail_within, images_of, level,
    shorten,
};
use crate::compaction::short_text::with_short_arguments;
use crate::compaction::standing::{Hold, Standing, opens_with_user};
use crate::compaction::{
    CompactionImpact, CompactionRules, CompactionServices, CompactionStrategy, StrategyError, Yield,
};
use crate::{Context, ContextMessage, Edit, Group, HIDDEN_TOKENS, Message, Role, TokenCounter, Tokens};

/// A strategy that shortens single oversized items to their head and tail. If that is not enough, it drops
/// the oldest groups, then shortens what is left, in the order in which things yield.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Truncation {}

impl Truncation {
    /// The word for it in YAML.
    pub const ID: &str = "truncation";
    /// An old item is not shortened below this: better to drop it whole.
    const LEAST_ITEM: Tokens = Tokens::new(256);
}

/// The plan of a truncation: groups to drop, and messages to shorten to a number of tokens each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Plan {
    drops: Drops,
    cuts: Vec<Cut>,
}

#[async_trait]
impl CompactionStrategy for Truncation {
    fn id(&self) -> &str {
        Self::ID
    }

    fn description(&self) -> &str {
        "shortens oversized items to head and tail, and drops the oldest if that is not enough"
    }

    fn is_applicable(&self, _: &CompactionRules, context: &Context) -> bool {
        context.messages().len() > context.n_leading_system()
    }

    async fn compact(
        &self,
        rules: &CompactionRules,
        context: Context,
        services: &dyn CompactionServices,
    ) -> Result<(Context, CompactionImpact), StrategyError> {
        let (before, counter) = (context.size(), services.counter());
        let (context, standing) = Standing::with_share_cut(rules, context, counter);
        let plan = decide(rules, &context, &standing, counter);
        let carried_out = |marking: Marking| {
            let mut edits = folds(&context, &standing, &plan.drops, marking, counter);
            edits.extend(plan.cuts.iter().filter_map(|cut| shorten(&context, &standing.pins, cut, counter)));
            context.edit(edits)
        };
        let mut after = carried_out(Marking::Always);
        if !rules.is_satisfied_by(after.size()) {
            after = carried_out(Marking::ToOpen);
        }
        if !rules.is_satisfied_by(after.size()) && !opens_with_user(&context) {
            // The user did not open it before; if every token and message counts, no user message has to now.
            after = carried_out(Marking::Never);
        }
        let impact = CompactionImpact::new(before, after.size(), plan.drops.yielded);
        Ok((after, impact))
    }
}

/// Decides in the order in which things yield; the first step that makes the targets hold is the last.
fn decide(
    rules: &CompactionRules,
    context: &Context,
    standing: &Standing,
    counter: &dyn TokenCounter,
) -> Plan {
    let target = rules.target.tokens;
    let counts_hold = {
        let mut size = context.size();
        size.tokens = Tokens::ZERO;
        rules.is_satisfied_by(size)
    };
    let excess = context.size().tokens - target;
    if counts_hold {
        if let Some(cuts) = long_items(context, standing, &OLD, excess, counter) {
            return Plan { drops: Drops::default(), cuts };
        }
        let leaves_for_age =
            || oldest_until(rules, context, standing, counter).yielded.contains(&Yield::RetentionAge);
        // Of one of the newest results, head and tail are worth more than nothing.
        if let Some(cuts) = long_items(context, standing, &OLD_AND_NEWEST, excess, counter)
            && leaves_for_age()
        {
            return Plan { drops: Drops { yielded: vec![Yield::RetentionAge], ..Drops::default() }, cuts };
        }
    }
    // Of what is long and pinned, all but the pinned lines is as old as the rest.
    let (cuts, _) = level(&items(context, standing, Hold::Pinned, counter), excess, CutOf::Text);
    let context =
        &context.edit(cuts.iter().filter_map(|cut| shorten(context, &standing.pins, cut, counter)).collect());
    let mut plan = Plan { drops: oldest_until(rules, context, standing, counter), cuts };
    let left_behind =
        |drops: &Drops| context.edit(folds(context, standing, drops, Marking::Always, counter)).size().tokens;
    let mut left = left_behind(&plan.drops);
    let texts = [(Hold::LastGroup, Yield::RetentionSize), (Hold::LatestUser, Yield::LatestUserText)]
        .map(|(held, yielded)| (items(context, standing, held, counter), yielded));
    // What the texts cannot save at all, the system messages must; then the texts need not save it.
    let most: Tokens = texts.iter().flat_map(|(items, _)| items).map(|item| item.tokens - item.least).sum();
    while left - target > most && drop_system(context, standing, &mut plan.drops, left - target - most) {
        // The marker grows with what it counts.
        left = left_behind(&plan.drops);
    }
    for (items, yielded) in texts {
        if left > target && !items.is_empty() {
            let (cuts, saved) = level(&items, left - target, CutOf::Text);
            left = left - saved;
            plan.cuts.extend(cuts);
            plan.drops.yielded.push(yielded);
        }
    }
    if left > target {
        left = left - plan.cut_arguments(&argument_items(context, standing, counter), left - target);
    }
    if left > target {
        left = left - plan.drop_user_messages(context, standing, left - target);
    }
    if left > target && (!standing.pins.is_empty() || standing.holds.contains(&Hold::Pinned)) {
        yield_pins(context, standing, &mut plan, left - target, counter);
    }
    let mut dropped = plan.drops.groups.iter().filter_map(|index| standing.groups.iter().nth(*index));
    if rules.preserve_system_messages && dropped.any(Group::has_system) {
        plan.drops.yielded.push(Yield::SystemMessages);
    }
    plan.drops.yielded.sort_unstable();
    plan
}

/// The parts that may be shortened before anything is dropped: the old ones, then the newest results as well.
const OLD: [Hold; 2] = [Hold::Free, Hold::Pinned];
const OLD_AND_NEWEST: [Hold; 3] = [Hold::Free, Hold::Pinned, Hold::Retained];

/// Cuts of items so held alone that save `excess`; `None` if they would have to be too short to be useful.
fn long_items(
    context: &Context,
    standing: &Standing,
    held: &[Hold],
    excess: Tokens,
    counter: &dyn TokenCounter,
) -> Option<Vec<Cut>> {
    // Keys beside the text, and what a recording hides, stay however short the text is.
    let least = |message: &ContextMessage| {
        let Message { extra, metadata, .. } = message.message();
        let stays = !extra.is_empty() || metadata.contains_key(HIDDEN_TOKENS);
        let shortest = if stays { cut_to_shortest(message, counter)?.tokens() } else { Tokens::ZERO };
        Some(shortest.max(Truncation::LEAST_ITEM))
    };
    let items: Vec<Item> = held
        .iter()
        .flat_map(|held| standing.positions(*held).map(move |position| (position, *held)))
        // The newest words stay as they are.
        .filter(|(position, held)| {
            *held != Hold::Retained || context.messages()[*position].role() == Role::Tool
        })
        .map(|(position, _)| position)
        .map(|position| (position, &context.messages()[position]))
        .filter(|(_, message)| {
            message.tokens() > Truncation::LEAST_ITEM && message.message().calls().is_empty()
        })
        .filter_map(|(position, message)| {
            let least = match standing.pins.hold(message) {
                true => standing.pins.least(message, counter)?.tokens().max(Truncation::LEAST_ITEM),
                false => least(message)?,
            };
            let images = images_of(message, counter);
            Some(Item { position, tokens: message.tokens(), least, beside: Tokens::ZERO, images })
        })
        .collect();
    let (cuts, saved) = level(&items, excess, CutOf::Text);
    (excess > Tokens::ZERO && saved >= excess).then_some(cuts)
}

/// Drops system messages in mid-conversation, oldest first, until `excess` is saved; whether there was any.
fn drop_system(context: &Context, standing: &Standing, drops: &mut Drops, excess: Tokens) -> bool {
    let (mut saved, dropped) = (Tokens::ZERO, drops.groups.clone());
    for (index, group) in standing.groups.iter().enumerate() {
        let stays = standing.holds[index] == Hold::System && dropped.binary_search(&index).is_err();
        if saved < excess && stays {
            saved += context.messages()[group.range()].iter().map(ContextMessage::tokens).sum();
            drops.groups.push(index);
        }
    }
    drops.groups.sort_unstable();
    saved > Tokens::ZERO
}

impl Plan {
    /// Drops the user's words between the first and the latest message, oldest first, until `excess` is
    /// saved; returns what that saves.
    fn drop_user_messages(&mut self, context: &Context, standing: &Standing, excess: Tokens) -> Tokens {
        let mut saved = Tokens::ZERO;
        for (index, group) in standing.groups.iter().enumerate() {
            if saved < excess && standing.holds[index] == Hold::User {
                saved += context.messages()[group.range()].iter().map(ContextMessage::tokens).sum();
                self.drops.groups.push(index);
            }
        }
        if saved > Tokens::ZERO {
            self.drops.groups.sort_unstable();
            self.drops.yielded.push(Yield::UserMessages);
        }
        saved
    }

    /// Shortens the arguments of the newest calls by `excess`, in place of the earlier cuts of their
    /// messages.
    fn cut_arguments(&mut self, items: &[Item], excess: Tokens) -> Tokens {
        let before = |item: &Item| {
            let cut = self.cuts.iter().find(|cut| cut.position == item.position);
            cut.map_or(item.tokens, |cut| cut.most)
        };
        let items: Vec<Item> = items.iter().map(|item| Item { tokens: before(item), ..*item }).collect();
        let (cuts, saved) = level(&items, excess, CutOf::Arguments);
        if saved > Tokens::ZERO {
            self.cuts.retain(|cut| cuts.iter().all(|later| later.position != cut.position));
            self.cuts.extend(cuts);
            self.drops.yielded.push(Yield::CallArguments);
        }
        saved
    }
}

/// Gives up what is pinned beside pinned lines, then pinned text, oldest first, until `excess` is saved; then
/// the pinned lines of what must stay itself.
fn yield_pins(
    context: &Context,
    standing: &Standing,
    plan: &mut Plan,
    excess: Tokens,
    counter: &dyn TokenCounter,
) {
    // A short message is pinned whole: it is cut to its pinned lines before any of those leaves.
    let items = standing.positions(Hold::Pinned).filter_map(|position| {
        let message = &context.messages()[position];
        let least = standing.pins.lines_alone(message, counter)?.tokens();
        let images = images_of(message, counter);
        Some(Item { position, tokens: message.tokens(), least, beside: Tokens::ZERO, images })
    });
    let (cuts, mut saved) = level(&items.collect::<Vec<_>>(), excess, CutOf::Text);
    plan.cuts.retain(|cut| cuts.iter().all(|other| other.position != cut.position));
    plan.cuts.extend(cuts.iter().cloned());
    let tokens_of = |position: usize| {
        let cut = cuts.iter().find(|cut| cut.position == position);
        cut.map_or(context.messages()[position].tokens(), |cut| cut.most)
    };
    for (index, group) in standing.groups.iter().enumerate() {
        if saved < excess && standing.holds[index] == Hold::Pinned {
            saved += group.range().map(tokens_of).sum();
            plan.drops.groups.push(index);
            plan.cuts.retain(|cut| !group.range().contains(&cut.position));
        }
    }
    plan.drops.groups.sort_unstable();
    if saved < excess {
        for (held, also) in
            [(Hold::LastGroup, Yield::RetentionSize), (Hold::LatestUser, Yield::LatestUserText)]
        {
            let cuts = pinned_in(context, standing, held, counter);
            if !cuts.is_empty() && !plan.drops.yielded.contains(&also) {
                plan.drops.yielded.push(also);
            }
            plan.cuts.retain(|cut| cuts.iter().all(|other| other.position != cut.position));
            plan.cuts.extend(cuts);
        }
    }
    plan.drops.yielded.push(Yield::Pins);
}

/// Returns the context with its first user message in at most `most` tokens, head and tail, and what yielded;
/// `None` if it cannot be shorter.
pub(crate) fn cut_first_user(
    context: &Context,
    standing: &Standing,
    most: Tokens,
    counter: &dyn TokenCounter,
) -> Option<(Context, Vec<Yield>)> {
    let position = context.first_user()?;
    let message = &context.messages()[position];
    let mut yielded = vec![Yield::FirstUserText];
    let is_pinned = standing.pins.matches(message.message());
    let least = standing.pins.least(message, counter).filter(|_| is_pinned);
    let cut = Cut { position, most, of: CutOf::Text };
    let edit = if is_pinned && least.is_none_or(|least| least.tokens() > most) {
        yielded.insert(0, Yield::Pins);
        Some(Edit::Shorten { position, with: head_and_tail_within(message, most, counter)? })
    } else {
        shorten(context, &standing.pins, &cut, counter)
    };
    let after = context.edit(vec![edit?]);
    (after.size().tokens < context.size().tokens).then_some((after, yielded))
}

/// Returns the cuts to the shortest of pinned text in the groups so held.
fn pinned_in(context: &Context, standing: &Standing, held: Hold, counter: &dyn TokenCounter) -> Vec<Cut> {
    standing
        .positions(held)
        .map(|position| (position, &context.messages()[position]))
        .filter(|(_, message)| standing.pins.hold(message))
        .filter_map(|(position, message)| {
            cut_to_shortest(message, counter).map(|cut| Cut { position, most: cut.tokens(), of: CutOf::Text })
        })
        .collect()
}

/// Returns the messages so held that may be shortened.
pub(super) fn items(
    context: &Context,
    standing: &Standing,
    held: Hold,
    counter: &dyn TokenCounter,
) -> Vec<Item> {
    standing
        .positions(held)
        .filter_map(|position| {
            let message = &context.messages()[position];
            let least = standing.cut_to_least(message, counter)?.tokens();
            let beside = if message.message().calls().is_empty() { Tokens::ZERO } else { least };
            let images = images_of(message, counter);
            Some(Item { position, tokens: message.tokens(), least, beside, images })
        })
        .collect()
}

/// Returns the messages of the last exchange whose calls have texts in their arguments that may be shortened.
pub(super) fn argument_items(
    context: &Context,
    standing: &Standing,
    counter: &dyn TokenCounter,
) -> Vec<Item> {
    standing
        .positions(Hold::LastGroup)
        .filter_map(|position| {
            let message = &context.messages()[position];
            with_short_arguments(message.message(), 0)?;
            let least = exchange_cut_to_shortest(message, counter).tokens();
            let (beside, images) = (Tokens::ZERO, Tokens::ZERO);
            Some(Item { position, tokens: message.tokens(), least, beside, images })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::compaction::fixture::{Script, conversation, fit, fit_again};
    use crate::compaction::short_text::head_and_tail;
    use crate::compaction::{AttemptVerdict, Outcome};

    /// Compares what is left of `before` in a room of twenty small messages, and what yielded.
    fn check(before: &str, expected: (&str, &[Yield])) {
        let yaml = "{ strategies: [truncation], retention_window: 3 }";
        let (actual, report) = fit(yaml, 2_000, before, &Script::new(Vec::new()));
        let Outcome::Applied { impact, .. } = report.outcome else { panic!("{before}: {report:?}") };
        assert_eq!((actual.as_str(), impact.yielded.as_slice()), expected);
        let most = Tokens::new(1_000) + crate::REQUEST_TOKENS;
        assert!(impact.after.tokens <= most, "the target holds: {impact:?}");
    }

    #[test]
    fn things_yield_in_their_order() {
        use Yield::{LatestUserText, RetentionAge, RetentionSize, SystemMessages};
        // Old oversized items alone.
        check("sutRaatr", ("sutR~aatr", &[]));
        // Then the oldest groups, the retention window included.
        check("suaaaaaaaaaaaaaaaa", ("su[aaaaaaaaa]aaaaaaa", &[]));
        check("suaaAAa", ("su[aaAA]a", &[RetentionAge]));
        // Then the size of the newest results.
        check("suaatRR", ("su[aa]tR~R~", &[RetentionSize]));
        // Then the text of the latest user message.
        check("suaUtR", ("su[a]U~tR~", &[RetentionSize, LatestUserText]));
        // System messages in mid-conversation last of all.
        check("suaSU", ("su[aS]U~", &[RetentionAge, LatestUserText, SystemMessages]));
    }

    #[test]
    fn what_stays_may_exceed_the_target_but_never_the_room() {
        for (before, room, fits) in
            [("sUtR", 1_400, true), ("sUtR", 1_300, true), ("sUtR", 1_000, true), ("SUtR", 1_000, false)]
        {
            let (_, report) = fit("strategies: [truncation]", room, before, &Script::new(Vec::new()));
            match report.outcome {
                Outcome::StillOver(over) => assert!(!fits && over.need > over.have, "{before}: {over}"),
                Outcome::Applied { impact, .. } => assert!(fits && impact.after.tokens.as_u64() <= room + 3),
                other => panic!("{before}: {other:?}"),
            }
        }
    }

    #[test]
    fn head_and_tail_of_a_text_stay() {
        let text = "0123456789".repeat(10);
        let actual = head_and_tail(&text, 10);
        assert_eq!(actual, "01234\n[... 90 characters omitted ...]\n56789");
        assert_eq!(head_and_tail("žluťoučký", 4), "žl\n[... 5 characters omitted ...]\nký");
        assert_eq!(head_and_tail("short", 5), "short");
        // A part of a word would be a name that nothing has.
        assert_eq!(head_and_tail("one two three four", 9), "one\n[... 11 characters omitted ...]\nfour");
        assert_eq!(head_and_tail("one two three four", 11), "one\n[... 11 characters omitted ...]\nfour");
    }

    #[test]
    fn a_level_cuts_the_largest_first() {
        let item = |position: usize, tokens: u64| Item {
            position,
            tokens: Tokens::new(tokens),
            least: Tokens::new(10),
            beside: Tokens::ZERO,
            images: Tokens::ZERO,
        };
        // Ten words beside large calls.
        let calling = Item { least: Tokens::new(492), beside: Tokens::new(490), ..item(1, 500) };
        // Fifty words beside an image.
        let pictured = |position: usize| Item { images: Tokens::new(950), ..item(position, 1_000) };
        let cut = |position: usize, most: u64| Cut { position, most: Tokens::new(most), of: CutOf::Text };
        for (items, excess, expected) in [
            (vec![item(0, 100), item(1, 500)], 100, vec![cut(1, 400)]),
            (vec![item(0, 100), item(1, 500)], 450, vec![cut(0, 75), cut(1, 75)]),
            (vec![item(0, 100), item(1, 500)], 10_000, vec![cut(0, 10), cut(1, 10)]),
            (vec![item(0, 100)], 0, vec![]),
            (vec![item(0, 100), calling], 60, vec![cut(0, 40)]),
            (vec![item(0, 100), calling], 10_000, vec![cut(0, 10), cut(1, 492)]),
            (vec![pictured(0), item(1, 600)], 900, vec![cut(0, 50)]),
            (vec![pictured(2), pictured(0)], 500, vec![cut(0, 50)]),
            (vec![pictured(0), item(1, 5_000)], 500, vec![cut(1, 4_500)]),
            (vec![pictured(0), item(1, 600)], 1_100, vec![cut(0, 50), cut(1, 450)]),
        ] {
            assert_eq!(level(&items, Tokens::new(excess), CutOf::Text).0, expected, "{excess}");
        }
        // Of many, the oldest leave, too.
        let many: Vec<Item> = (0..600).map(pictured).collect();
        let (cuts, saved) = level(&many, Tokens::new(300 * 950), CutOf::Text);
        assert_eq!(cuts, (0..300).map(|position| cut(position, 50)).collect::<Vec<_>>());
        assert_eq!(saved, Tokens::new(300 * 950));
    }

    #[test]
    fn it_is_the_last_rung_without_being_named() {
        let (_, report) = fit("strategies: [sliding_window]", 1_000, "sutR", &Script::new(Vec::new()));
        let last = report.attempts.last().map(|attempt| (attempt.strategy.as_str(), &attempt.verdict));
        assert!(matches!(last, Some((Truncation::ID, AttemptVerdict::Satisfied(_)))), "{last:?}");
    }

    #[test]
    fn what_stands_beside_the_text_cannot_be_cut_and_is_reckoned_with() {
        let mut log = conversation("su");
        for _ in 0..5 {
            let mut message = Message::assistant("x".repeat(300));
            message.extra.insert("thought".into(), "y".repeat(600).into());
            log.add(message);
            let mut message = Message::assistant("x".repeat(300));
            message.metadata.insert(HIDDEN_TOKENS.into(), 600.into());
            log.add(message);
        }
        let fit = fit_again(
            "{ strategies: [truncation], retention_window: 0 }",
            3_000,
            &mut log,
            &Script::new(Vec::new()),
        );
        assert_eq!(fit.report.outcome.name(), "applied");
        assert!(fit.result.is_ok_and(|fitted| fitted.prompt.tokens() <= Tokens::new(3_003)));
    }
}
