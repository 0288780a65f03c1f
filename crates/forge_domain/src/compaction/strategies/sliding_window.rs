//! Drops whole groups: the oldest until the target holds, or the middle at once.

use std::ops::Range;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compaction::omission::{is_marker, most_for_a_marker, omission_marker, smaller_marker};
use crate::compaction::standing::{Hold, Standing};
use crate::compaction::{
    CompactionImpact, CompactionRules, CompactionServices, CompactionStrategy, StrategyError, Yield,
};
use crate::{Context, ContextMessage, Edit, Group, Size, TokenCounter};

/// A strategy that drops the oldest whole groups until the target holds; with `keep_first` or `keep_last`,
/// the middle at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlidingWindow {
    /// Number of messages to keep after the leading system messages, rounded outwards to whole groups. Unset:
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [2]))]
    pub keep_first: Option<usize>,
    /// Number of newest messages to keep, rounded outwards to whole groups. Default: `retention_window`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [8]))]
    pub keep_last: Option<usize>,
}

/// The groups to drop: their indices, in order, and what yields with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Drops {
    pub(super) groups: Vec<usize>,
    pub(super) yielded: Vec<Yield>,
}

/// The choice whether a marker replaces dropped messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marking {
    /// It does, unless it would be no smaller than they are.
    Always,
    /// Only if the first turn would otherwise not be the user's.
    ToOpen,
    /// It does not.
    Never,
}

impl SlidingWindow {
    /// The word for it in YAML.
    pub const ID: &str = "sliding_window";

    fn decide(
        &self,
        rules: &CompactionRules,
        context: &Context,
        standing: &Standing,
        counter: &dyn TokenCounter,
    ) -> Drops {
        match (self.keep_first, self.keep_last) {
            (None, None) => oldest_until(rules, context, standing, counter),
            (first, last) => {
                self.middle(standing, first.unwrap_or(0), last.unwrap_or(rules.retention_window))
            }
        }
    }

    /// Returns everything between the first `keep_first` and the last `keep_last` messages that is not held.
    fn middle(&self, standing: &Standing, keep_first: usize, keep_last: usize) -> Drops {
        let head_end = standing.n_leading_system.saturating_add(keep_first);
        let tail = standing.groups.retained_from(keep_last);
        let groups = standing
            .groups
            .iter()
            .enumerate()
            .filter(|(index, group)| group.range().start >= head_end && *index < tail)
            .filter(|(index, _)| standing.holds[*index].may_go())
            .map(|(index, _)| index)
            .collect();
        Drops { groups, yielded: Vec::new() }
    }
}

#[async_trait]
impl CompactionStrategy for SlidingWindow {
    fn id(&self) -> &str {
        Self::ID
    }

    fn description(&self) -> &str {
        "drops the oldest messages, whole exchanges at a time"
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
        let before = context.size();
        let (context, standing) = Standing::with_share_cut(rules, context, services.counter());
        let drops = self.decide(rules, &context, &standing, services.counter());
        let after = context.edit(folds(&context, &standing, &drops, Marking::Always, services.counter()));
        let impact = CompactionImpact::new(before, after.size(), drops.yielded);
        Ok((after, impact))
    }
}

/// Returns the oldest groups whose dropping makes every target hold; all that may leave if none does. A
/// record or a summary of what came before them tells more than they do, so it goes after them. The
/// retention window yields, oldest first, only after everything before it is gone.
pub(super) fn oldest_until(
    rules: &CompactionRules,
    context: &Context,
    standing: &Standing,
    counter: &dyn TokenCounter,
) -> Drops {
    let marker = Size { messages: 1, tokens: most_for_a_marker(counter), ..Size::default() };
    let mut drops = Drops::default();
    let mut left = context.size();
    let groups: Vec<&Group> = standing.groups.iter().collect();
    let held = |wanted: Hold| (0..groups.len()).filter(move |index| standing.holds[*index] == wanted);
    let is_compacted = |index: &usize| {
        let message = context.messages()[groups[*index].range().start].message();
        message.is_compacted && !is_marker(message)
    };
    let (compacted, plain): (Vec<usize>, Vec<usize>) = held(Hold::Free).partition(is_compacted);
    let free = plain.into_iter().chain(compacted).map(|index| (index, None));
    let retained = held(Hold::Retained).map(|index| (index, Some(Yield::RetentionAge)));
    for (index, yielded) in free.chain(retained) {
        let marker = if drops.groups.is_empty() { Size::default() } else { marker };
        if rules.is_satisfied_by(left + marker) {
            break;
        }
        left = less(left, size_of(context, groups[index]));
        drops.groups.push(index);
        if let Some(yielded) = yielded.filter(|yielded| !drops.yielded.contains(yielded)) {
            drops.yielded.push(yielded);
        }
    }
    drops.groups.sort_unstable();
    drops
}

/// Returns the edits that drop `drops`: adjacent groups form one span. A marker is placed where the first of
/// them was, if `marking` demands it.
pub(super) fn folds(
    context: &Context,
    standing: &Standing,
    drops: &Drops,
    marking: Marking,
    counter: &dyn TokenCounter,
) -> Vec<Edit> {
    let runs = runs(&drops.groups);
    let Some(first) = runs.first() else { return Vec::new() };
    let is_in_front = standing.groups.span(first.clone()).range().start == standing.n_leading_system;
    let needed = is_in_front && !standing.opens(context, |index| drops.groups.binary_search(&index).is_err());
    let dropped = || {
        let dropped = drops.groups.iter().filter_map(|index| standing.groups.iter().nth(*index));
        dropped.flat_map(|group| &context.messages()[group.range()])
    };
    let marker = match marking {
        Marking::Always | Marking::ToOpen if needed => Some(omission_marker(dropped(), counter)),
        Marking::Always => smaller_marker(dropped(), counter),
        Marking::ToOpen | Marking::Never => None,
    };
    let mut markers = marker.into_iter();
    runs.into_iter()
        .map(|run| Edit::Fold { span: standing.groups.span(run), with: markers.next().into_iter().collect() })
        .collect()
}

pub(super) fn runs(groups: &[usize]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for &index in groups {
        match runs.last_mut() {
            Some(run) if run.end == index => run.end += 1,
            _ => runs.push(index..index + 1),
        }
    }
    runs
}

pub(super) fn size_of(context: &Context, group: &Group) -> Size {
    let messages = &context.messages()[group.range()];
    Size {
        messages: messages.len(),
        turns: messages.iter().filter(|message| message.starts_turn()).count(),
        tokens: messages.iter().map(ContextMessage::tokens).sum(),
    }
}

fn less(size: Size, gone: Size) -> Size {
    Size {
        messages: size.messages - gone.messages,
        turns: size.turns - gone.turns,
        tokens: size.tokens - gone.tokens,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::Role;
    use crate::compaction::fixture::{Script, apply, conversation, fit, fit_again, picture};

    const SLIDE: &str = "strategies: [sliding_window]";

    /// Compares what is left of `before` in a room of ten small messages.
    fn check(yaml: &str, before: &str, expected: &str) {
        let (actual, _) = fit(yaml, 1_020, before, &Script::new(Vec::new()));
        assert_eq!(actual, expected, "{yaml}");
    }

    fn check_yield(before: &str, expected: (&str, &[Yield])) {
        let (actual, report) = fit(SLIDE, 1_020, before, &Script::new(Vec::new()));
        let crate::compaction::Outcome::Applied { impact, .. } = report.outcome else { panic!("{report:?}") };
        assert_eq!((actual.as_str(), impact.yielded.as_slice()), expected);
    }

    #[test]
    fn the_oldest_whole_groups_go_until_the_target_holds() {
        // Trigger 800, target 500: five small messages, or four and a marker.
        check(SLIDE, "", "");
        check(SLIDE, "s", "s");
        check(SLIDE, "suauauau", "suauauau");
        check(SLIDE, "suauauaua", "su[auaua]ua");
        check(SLIDE, "uauauauau", "u[auaua]uau");
        check(SLIDE, "sutrtrtrtr", "su[trtrtr]tr");
        check(SLIDE, "sutrrrtrr", "su[trrr]trr");
        check(SLIDE, "ssuaaaaaaaaa", "ssu[aaaaaaaa]a");
    }

    #[test]
    fn the_first_user_message_stays_wherever_it_is() {
        check(SLIDE, "saaaaauaaa", "s[aaaaa]u[a]aa");
    }

    #[test]
    fn the_latest_user_message_stays_under_a_long_run_of_tools() {
        check(SLIDE, "suautrtrtrtr", "su[a]u[trtrtr]tr");
    }

    #[test]
    fn what_the_user_says_again_stays_once() {
        let mut log = conversation("s");
        for said in ["Build the parser.", "go on", "Use tabs.", "go on", "go on", "Now the tests."] {
            log.user(said).agent("so it is ".repeat(12));
        }
        let yaml = "{ strategies: [sliding_window], retention_window: 1, user_share: 60% }";
        let fit = fit_again(yaml, 700, &mut log, &Script::new(Vec::new()));
        assert!(fit.result.is_ok(), "{:?}", fit.report);
        let view = log.view();
        let said = view.messages().iter().filter(|message| message.starts_turn());
        let said: Vec<String> = said.map(|message| message.message().to_text()).collect();
        assert_eq!(said, ["Build the parser.", "Use tabs.", "go on", "Now the tests."]);
    }

    #[test]
    fn results_far_from_their_call_leave_with_it() {
        check(SLIDE, "sutaarauaua", "su[taaraua]ua");
    }

    #[test]
    fn system_messages_in_the_middle_stay_unless_they_may_go() {
        check(SLIDE, "suasaaaaaa", "su[a]s[aaaaa]a");
        check(
            "{ strategies: [sliding_window], preserve_system_messages: false }",
            "suasaaaaaa",
            "su[asaaaa]aa",
        );
    }

    #[test]
    fn the_age_of_the_retention_window_yields_only_where_the_target_demands_it() {
        check_yield("suaaaaaaaaaaaa", ("su[aaaaaaaaaa]aa", &[Yield::RetentionAge]));
        let (_, report) = fit(
            "{ strategies: [sliding_window], retention_window: 2 }",
            1_020,
            "suaaaaaaaaaaaa",
            &Script::new(Vec::new()),
        );
        let crate::compaction::Outcome::Applied { impact, .. } = report.outcome else { panic!("{report:?}") };
        assert_eq!(impact.yielded, []);
    }

    fn keeping(first: usize, last: usize, conversation: &mut crate::Conversation) {
        let strategy = SlidingWindow { keep_first: Some(first), keep_last: Some(last) };
        apply(&strategy, "{}", conversation, &Script::new(Vec::new())).unwrap();
    }

    #[test]
    fn keep_first_and_keep_last_drop_the_middle_at_once() {
        for (first, last, before, expected) in [
            // Exactly first + last after the system message: nothing leaves. One more: the middle does.
            (2, 4, "suauaua", "suauaua"),
            (2, 3, "suaaaua", "sua[a]aua"),
            // The user's words stay in any case.
            (2, 2, "suauaua", "suau[a]ua"),
            (1, 1, "suauaua", "su[a]u[a]ua"),
            // Rounded outwards to whole groups.
            (2, 1, "sutrtrtr", "sutr[tr]tr"),
            (0, 0, "sutrtrtr", "su[trtr]tr"),
            (9, 9, "suauaua", "suauaua"),
        ] {
            let mut conversation = conversation(before);
            keeping(first, last, &mut conversation);
            assert_eq!(picture(before, &conversation), expected, "{first} and {last} of {before}");
        }
    }

    #[test]
    fn the_marker_counts_what_was_truly_dropped() {
        let mut conversation = conversation("suaaaaaaaaa");
        let markers = |conversation: &crate::Conversation| {
            let view = conversation.view();
            let texts = view.messages().iter().map(|message| message.message().to_text());
            texts.filter(|text| text.starts_with("[...")).collect::<Vec<_>>()
        };
        keeping(1, 2, &mut conversation);
        assert_eq!(markers(&conversation), ["[... 7 messages omitted: m2–m8 ...]"]);
        conversation.add_all("aaaaa");
        keeping(1, 2, &mut conversation);
        assert_eq!(markers(&conversation), ["[... 12 messages omitted: m2–m14 ...]"]);
    }

    #[test]
    fn a_user_message_opens_what_is_left() {
        // No user message at all: the marker opens.
        let mut conversation = conversation("saaaaaaaaaaa");
        fit_again(SLIDE, 1_000, &mut conversation, &Script::new(Vec::new()));
        let roles: Vec<Role> = conversation.view().messages().iter().map(|m| m.message().role()).collect();
        assert_eq!(roles[..2], [Role::System, Role::User]);
    }
}
