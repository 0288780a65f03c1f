//! Replaces old tool results by stubs that say what was there: what a later result supersedes first, then the
//! largest and oldest. Images of the user's leave as results do; the text with them stays. So do notes that a
//! harness repeated later.

use std::cmp::Reverse;
use std::collections::HashSet;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compaction::answered_call::{AnsweredCall, answered_call};
use crate::compaction::features::Term;
use crate::compaction::names::{Spread, names_of_its_own, table_keys};
use crate::compaction::question::Question;
use crate::compaction::standing::{Hold, Standing};
use crate::compaction::stub::{Stub, cleared_arguments, is_stub};
use crate::compaction::superseded::{Superseded, superseded_results};
use crate::compaction::{
    CompactionImpact, CompactionRules, CompactionServices, CompactionStrategy, Focus, StrategyError,
};
use crate::{
    Body, CallPlace, Context, ContextMessage, Edit, Message, Role, TokenCounter, Tokens, ToolCall, ToolName,
    user_words,
};

/// A strategy that replaces old tool results by stubs that name what was there, until the target holds. So
/// leave old images of the user's. Calls, and results within the retention window, stay unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClearToolResults {
    /// Number of newest results that stay, besides those of the retention window. Default 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 3, "examples" = [3]))]
    pub keep: Option<usize>,
    /// Least tokens to clear at once, since every clearing costs the provider's prompt cache from there on.
    /// Default: what the target demands, which is a batch as large as the target is below its trigger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [10_000]))]
    pub clear_at_least: Option<Tokens>,
    /// Tools whose results stay. Unset: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [["list"]]))]
    pub exclude_tools: Vec<ToolName>,
    /// True if only superseded results leave: a file read again or changed, a call repeated, nearly the same
    /// answer. Merely old results then stay for a strategy that preserves the best of them. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false, "examples" = [true]))]
    pub only_superseded: Option<bool>,
    /// True if long texts in a call's arguments leave with its result. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false, "examples" = [true]))]
    pub clear_tool_inputs: Option<bool>,
}

/// The share of the target that names of what was cleared may take, in percent.
const NAMES_PERCENT: u64 = 10;

/// A merely old result of fewer tokens says more than the tokens that its stub would save.
const LEAST_OLD: Tokens = Tokens::new(64);

/// The number of times that a token of the oldest message counts beside one of the newest.
const OLDEST: u64 = 4;

/// The number of times that a table counts as smaller: nothing but its keys tells what is in it, and they are
/// so large a part of it that a stub has no space for them.
const TABLE: u64 = 4;

/// A result that is cleared.
#[derive(Clone, Debug, PartialEq)]
struct Clearing {
    position: usize,
    with: ContextMessage,
    /// The call, if its arguments are cleared as well.
    call: Option<ShorterCall>,
}

/// A call with shorter arguments.
#[derive(Clone, Debug, PartialEq)]
struct ShorterCall {
    place: CallPlace,
    arguments: String,
}

/// The reason why a result is cleared; weaker reasons come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    Superseded(Superseded),
    Old,
}

impl ClearToolResults {
    /// The word for it in YAML.
    pub const ID: &str = "clear_tool_results";
    const KEEP: usize = 3;

    /// Returns the results that may be cleared and why, in the order in which they leave. Those that answer
    /// the question or that the focus names are left to strategies that preserve what is asked for.
    fn order(&self, rules: &CompactionRules, context: &Context) -> Vec<(Reason, usize)> {
        let superseded = superseded_results(context);
        let answers = Question::of(context, rules.focus.as_ref()).answers(context);
        let reason = |position: usize| match superseded[position] {
            Some(superseded) => Reason::Superseded(superseded),
            None => Reason::Old,
        };
        let standing = Standing::of(context, rules, rules.retention_window);
        let repeated = free_notes(&standing, context).filter(|position| superseded[*position].is_some());
        let positions = self.clearable(rules, context, &standing).chain(repeated);
        let only_superseded = self.only_superseded.unwrap_or(false);
        let focus: HashSet<u64> = rules.focus.iter().flat_map(Focus::terms).map(Term::hash).collect();
        let is_asked = |position: usize| {
            let terms = || context.messages()[position].features().terms.iter();
            answers[position] || (!focus.is_empty() && terms().any(|term| focus.contains(&term.hash())))
        };
        let mut order: Vec<_> = positions
            .filter(|position| superseded[*position].is_some() || !is_asked(*position))
            .map(|position| (reason(position), position))
            .filter(|(reason, _)| !only_superseded || matches!(reason, Reason::Superseded(_)))
            .collect();
        order.sort_by_cached_key(|(reason, position)| {
            let value = match reason {
                Reason::Superseded(_) => 0,
                Reason::Old => value_of_clearing(context, *position),
            };
            (*reason, Reverse(value), *position)
        });
        order
    }

    /// Returns the results to clear: in order, until the target holds and the batch is large enough; none if
    /// it would not be.
    fn decide(
        &self,
        rules: &CompactionRules,
        context: &Context,
        counter: &dyn TokenCounter,
    ) -> Vec<Clearing> {
        let excess = context.size().tokens - rules.target.tokens;
        let batch = self.clear_at_least.unwrap_or_default();
        if excess == Tokens::ZERO {
            return Vec::new();
        }
        let mut clearings = Vec::new();
        let mut saved = Tokens::ZERO;
        for (reason, position) in self.order(rules, context) {
            if saved >= excess.max(batch) {
                break;
            }
            let message = &context.messages()[position];
            if reason == Reason::Old && message.tokens() < LEAST_OLD {
                continue;
            }
            let call = answered_call(context, position);
            let with = match &message.message().body {
                Body::Tool(result) => {
                    let stub = Stub::of(message, result, call);
                    // A table leaves its keys behind, or is left to a strategy that reads it.
                    let keys = if reason == Reason::Old { table_keys(message) } else { None };
                    let stub = match keys {
                        Some(keys) => stub.with_names(keys),
                        None => stub,
                    };
                    Some(stub.in_place_of(message, counter))
                }
                _ if message.message().note_by().is_some() => {
                    Some(Stub::of_note(message).in_place_of(message, counter))
                }
                _ => Stub::for_images_of(message, counter),
            };
            let Some(with) = with else { continue };
            // A stub that is hardly smaller loses text for nothing.
            if with.tokens() + with.tokens() <= message.tokens() {
                let (call, spared) = self.shorter_call(call, counter);
                saved += message.tokens() - with.tokens() + spared;
                clearings.push(Clearing { position, with, call });
            }
        }
        if saved < batch {
            return Vec::new();
        }
        // Names only use tokens that clearing freed beyond the target. If clearing is not enough, the next
        // strategy says more than names would.
        if saved > excess {
            let for_names = rules.target.tokens.share(NAMES_PERCENT, 100);
            name_contents(context, &mut clearings, for_names.min(saved - excess), counter);
        }
        clearings
    }

    /// Positions of the results, and of the user's images, that may be cleared, oldest first. The newest of
    /// both stay.
    fn clearable(
        &self,
        rules: &CompactionRules,
        context: &Context,
        standing: &Standing,
    ) -> impl Iterator<Item = usize> {
        let retained_from = standing.groups.retained_from(rules.retention_window);
        let is_clearable = |position: &usize| {
            let message = context.messages()[*position].message();
            (message.role() == Role::Tool && user_words(message).is_none()) || message.has_images()
        };
        let n_results = (0..context.messages().len()).filter(is_clearable).count();
        let n_old = n_results.saturating_sub(self.keep.unwrap_or(Self::KEEP));
        let held = standing.groups.iter().zip(&standing.holds).enumerate();
        let positions = held.flat_map(|(index, (group, hold))| {
            // The user's words may stay at any age, and their images leave at the age of results.
            let is_free = *hold == Hold::Free || (*hold == Hold::User && index < retained_from);
            group.range().map(move |position| (position, is_free))
        });
        let old: Vec<_> = positions.filter(|(position, _)| is_clearable(position)).take(n_old).collect();
        let free = old.into_iter().filter(|(_, is_free)| *is_free).map(|(position, _)| position);
        free.filter(|position| self.may_clear(context, *position))
    }

    fn may_clear(&self, context: &Context, position: usize) -> bool {
        let message = context.messages()[position].message();
        let Body::Tool(result) = &message.body else { return message.has_images() };
        let is_excluded = || {
            let named = result.name.as_ref();
            let tool = named.or_else(|| answered_call(context, position).map(|asked| &asked.call.name));
            tool.is_some_and(|tool| self.exclude_tools.contains(tool))
        };
        !result.content.is_empty()
            && !is_stub(&result.content.text())
            && (self.exclude_tools.is_empty() || !is_excluded())
    }

    /// Returns the call with shorter arguments, if that is wanted and shorter, and the tokens that it saves.
    fn shorter_call(
        &self,
        asked: Option<AnsweredCall<'_>>,
        counter: &dyn TokenCounter,
    ) -> (Option<ShorterCall>, Tokens) {
        let asked = asked.filter(|_| self.clear_tool_inputs.unwrap_or(false));
        let Some(AnsweredCall { place, call, .. }) = asked else { return (None, Tokens::ZERO) };
        let Some(arguments) = cleared_arguments(&call.arguments) else { return (None, Tokens::ZERO) };
        let (was, is) = (counter.count(&call.arguments), counter.count(&arguments));
        if is < was { (Some(ShorterCall { place, arguments }), was - is) } else { (None, Tokens::ZERO) }
    }
}

/// Iterates over the positions of the notes of a harness that nothing holds, and that were not cleared.
fn free_notes(standing: &Standing, context: &Context) -> impl Iterator<Item = usize> {
    let held = standing.groups.iter().zip(&standing.holds);
    let free = held.filter(|(_, hold)| **hold == Hold::Free).flat_map(|(group, _)| group.range());
    free.filter(|position| {
        let message = context.messages()[*position].message();
        message.note_by().is_some() && !is_stub(&message.text())
    })
}

/// Returns what clearing a merely old result is worth: its tokens, which count more the older it is. Small
/// results say much for their size, so that they stay longer, and so do tables.
fn value_of_clearing(context: &Context, position: usize) -> u64 {
    let message = &context.messages()[position];
    let n_messages = context.messages().len() as u64;
    let age = OLDEST * n_messages - (OLDEST - 1) * position as u64;
    let value = message.tokens().as_u64() * age;
    if table_keys(message).is_some() { value / TABLE } else { value }
}

/// Fewer tokens hold no name in a stub.
const LEAST_NAME: Tokens = Tokens::new(3);

/// Adds names of what was there to the stubs, in at most `left` tokens: the keys of tables first, the newest
/// first.
fn name_contents(
    context: &Context,
    clearings: &mut [Clearing],
    mut left: Tokens,
    counter: &dyn TokenCounter,
) {
    let mut spread: Option<Spread> = None;
    let keys_of = |clearing: &Clearing| table_keys(&context.messages()[clearing.position]);
    let mut by_age: Vec<(Option<Vec<&str>>, &mut Clearing)> =
        clearings.iter_mut().map(|clearing| (keys_of(clearing), clearing)).collect();
    by_age.sort_by_key(|(keys, clearing)| Reverse((keys.is_some(), clearing.position)));
    for (keys, clearing) in by_age {
        // Names take time to find, so the search ends when no name fits.
        if left < LEAST_NAME {
            break;
        }
        let message = &context.messages()[clearing.position];
        let names = keys.unwrap_or_else(|| {
            let spread = spread.get_or_insert_with(|| Spread::of(context.messages()));
            let features = message.features();
            names_of_its_own(features, &|place| spread.is_rare(features.terms[place as usize].hash()))
        });
        let Body::Tool(result) = &message.message().body else { continue };
        let stub = Stub::of(message, result, answered_call(context, clearing.position)).with_names(names);
        let with = stub.in_place_of(message, counter);
        let more = with.tokens() - clearing.with.tokens();
        if more <= left && with.tokens() + with.tokens() <= message.tokens() {
            left = left - more;
            clearing.with = with;
        }
    }
}

/// Returns the edits that clear: one for each message.
fn edits(context: &Context, clearings: Vec<Clearing>, counter: &dyn TokenCounter) -> Vec<Edit> {
    let mut calls: Vec<ShorterCall> = Vec::new();
    let mut edits = Vec::with_capacity(clearings.len());
    for Clearing { position, with, call } in clearings {
        calls.extend(call);
        edits.push(Edit::Shorten { position, with });
    }
    calls.sort_by_key(|call| call.place);
    for calls in calls.chunk_by(|one, next| one.place.message == next.place.message) {
        let position = calls[0].place.message;
        let with = with_calls(context.messages()[position].message(), calls);
        edits.push(Edit::Shorten { position, with: ContextMessage::count(with, counter) });
    }
    edits
}

/// Returns the message with the arguments of `calls` in place.
fn with_calls(message: &Message, calls: &[ShorterCall]) -> Message {
    let Body::Assistant { content, calls: was } = &message.body else { return message.clone() };
    let shorter = |nth: usize| calls.iter().find(|call| call.place.nth == nth);
    let calls = was.iter().enumerate().map(|(nth, call)| match shorter(nth) {
        Some(shorter) => ToolCall { arguments: shorter.arguments.clone(), ..call.clone() },
        None => call.clone(),
    });
    let body = Body::Assistant { content: content.clone(), calls: calls.collect() };
    Message { body, ..message.clone() }
}

#[async_trait]
impl CompactionStrategy for ClearToolResults {
    fn id(&self) -> &str {
        Self::ID
    }

    fn description(&self) -> &str {
        "replaces old tool results by stubs that name the removed content"
    }

    fn heeds_focus(&self) -> bool {
        true
    }

    fn is_applicable(&self, rules: &CompactionRules, context: &Context) -> bool {
        let standing = Standing::of(context, rules, rules.retention_window);
        context.size().tokens > rules.target.tokens
            && (self.clearable(rules, context, &standing).next().is_some()
                || free_notes(&standing, context).next().is_some())
    }

    async fn compact(
        &self,
        rules: &CompactionRules,
        context: Context,
        services: &dyn CompactionServices,
    ) -> Result<(Context, CompactionImpact), StrategyError> {
        let clearings = self.decide(rules, &context, services.counter());
        let after = context.edit(edits(&context, clearings, services.counter()));
        let impact = CompactionImpact::new(context.size(), after.size(), Vec::new());
        Ok((after, impact))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;
    use crate::compaction::fixture::{Characters, Script, apply, fit, fit_again, settings};
    use crate::{Conversation, Image};

    const CLEAR: &str = "strategies: [clear_tool_results]";
    const HALF: &str = "{ strategies: [clear_tool_results], max_tokens: 50% }";

    #[test]
    fn the_oldest_results_go_until_the_target_holds() {
        for (room, before, expected) in [
            // Nothing is over its trigger.
            (20_000, "sutRtRtRtRtRtR", "sutRtRtRtRtRtR"),
            // Over 80 % of the room; half of it is the target. The newest three results and the window stay.
            (8_000, "sutRtRtRtRtRtR", "sutR~tR~tR~tRtRtR"),
            (8_000, "sutRRtRtRtRtRa", "sutR~R~tR~tRtRtRa"),
            // User text and the agent's actions stay unchanged.
            (5_000, "sutRutRautRtrtrtr", "sutR~utR~autRtrtrtr"),
        ] {
            let (actual, report) = fit(CLEAR, room, before, &Script::new(Vec::new()));
            assert_eq!(actual, expected, "{before} in {room}: {report:?}");
        }
    }

    /// Builds a session of calls, each a tool, its arguments and its result.
    fn session(calls: &[(&str, Value, String)]) -> Conversation {
        let mut log = Conversation::new();
        log.user("Do it.");
        for (name, arguments, result) in calls {
            log.call(name, arguments, result.as_str());
        }
        log.agent("Done.");
        log
    }

    /// Returns prose of about a thousand characters whose words no other number shares.
    fn prose(number: usize) -> String {
        (0..110)
            .map(|word| format!("{}{} ", ["alpha", "beta", "gamma"][word % 3], number * 1_000 + word))
            .collect()
    }

    fn run(command: &str) -> Value {
        json!({"command": command})
    }

    fn path(path: &str) -> Value {
        json!({"file_path": path})
    }

    #[test]
    fn what_a_later_result_supersedes_goes_first_then_the_largest_and_oldest() {
        use Superseded::{Again, File, Repeated};
        let log = session(&[
            ("Bash", run("ls"), prose(0)),
            ("Read", path("read again"), prose(1)),
            ("Read", path("changed"), prose(2)),
            ("Read", json!({"file_path": "in parts", "offset": 1}), prose(3)),
            ("Bash", run("cargo test"), prose(4)),
            ("Bash", run("cargo test -q"), prose(5)),
            ("Read", json!({"file_path": "in parts", "offset": 9}), prose(6)),
            ("Bash", run("cargo test"), prose(7)),
            ("Bash", run("cargo test -q -q"), prose(5) + "and a word more"),
            ("Read", path("./read again"), prose(8)),
            ("Edit", path("changed"), "ok".to_owned()),
        ]);
        let options = ClearToolResults { keep: Some(0), ..ClearToolResults::default() };
        let rules = settings("{ retention_window: 0 }", 100_000).rules;
        let view = log.view();
        let actual = options.order(&rules, &view);
        let old = |position: usize| (Reason::Old, position);
        let expected = vec![
            (Reason::Superseded(File), 4),
            (Reason::Superseded(File), 6),
            (Reason::Superseded(Repeated), 10),
            (Reason::Superseded(Again), 12),
            // It is larger than the one before it.
            old(8),
            old(2),
            old(14),
            old(16),
            old(18),
            old(20),
            old(22),
        ];
        assert_eq!(actual, expected);
    }

    #[test]
    fn a_call_that_failed_supersedes_nothing() {
        let mut log = session(&[("Bash", run("make"), prose(0))]);
        log.failed_call("Bash", run("make"), "no");
        let messages = log.view();
        assert_eq!(superseded_results(&messages), vec![None; 6]);
    }

    /// Returns the messages of eleven results after `options` cleared what a target of a tenth demands.
    fn clear(options: &ClearToolResults, yaml: &str) -> (Vec<usize>, Conversation) {
        let calls: Vec<_> = (0..11)
            .map(|n| ("Write", json!({"path": format!("f{n}"), "text": prose(n)}), prose(n + 20)))
            .collect();
        let mut log = session(&calls);
        apply(options, yaml, &mut log, &Script::new(Vec::new())).unwrap();
        let view = log.view();
        let stubs = view.messages().iter().enumerate();
        let stubs = stubs.filter(|(_, message)| is_stub(&message.message().to_text())).map(|(at, _)| at / 2);
        (stubs.collect(), log)
    }

    #[test]
    fn every_option_has_its_effect() {
        let defaults = ClearToolResults::default;
        let all_but = |kept: usize| (1..=11 - kept).collect::<Vec<_>>();
        let write = ToolName::new("Write").unwrap();
        for (what, options, yaml, expected) in [
            ("defaults", defaults(), "{ max_tokens: 1000 }", all_but(3)),
            (
                "keep none",
                ClearToolResults { keep: Some(0), ..defaults() },
                "{ max_tokens: 1000 }",
                all_but(3),
            ),
            (
                "keep none, not even by age",
                ClearToolResults { keep: Some(0), ..defaults() },
                "{ max_tokens: 1000, retention_window: 0 }",
                all_but(0),
            ),
            (
                "keep five",
                ClearToolResults { keep: Some(5), ..defaults() },
                "{ max_tokens: 1000 }",
                all_but(5),
            ),
            ("what the target demands", defaults(), "{ max_tokens: 24000 }", vec![1]),
            (
                "a larger batch",
                ClearToolResults { clear_at_least: Some(Tokens::new(2_500)), ..defaults() },
                "{ max_tokens: 24000 }",
                vec![1, 2, 3],
            ),
            (
                "no batch so large",
                ClearToolResults { clear_at_least: Some(Tokens::new(90_000)), ..defaults() },
                "{ max_tokens: 1000 }",
                Vec::new(),
            ),
            (
                "only what is superseded",
                ClearToolResults { only_superseded: Some(true), ..ClearToolResults::default() },
                "{ max_tokens: 1000 }",
                Vec::new(),
            ),
            (
                "not of this tool",
                ClearToolResults { exclude_tools: vec![write], ..defaults() },
                "{ max_tokens: 1000 }",
                Vec::new(),
            ),
        ] {
            assert_eq!(clear(&options, yaml).0, expected, "{what}");
        }
    }

    #[test]
    fn a_result_that_quotes_the_user_stays() {
        let mut log = Conversation::new();
        for message in session(&[("Bash", run("a"), prose(1)), ("Bash", run("b"), prose(2))]).view().plain() {
            let quotes = message.role() == Role::Tool && message.text().contains(&prose(1));
            let message =
                if quotes { crate::quoting_user(message.clone(), "alpha") } else { message.clone() };
            log.add(message);
        }
        let options = ClearToolResults { keep: Some(0), ..ClearToolResults::default() };
        apply(&options, "{ max_tokens: 1000, retention_window: 0 }", &mut log, &Script::new(Vec::new()))
            .unwrap();
        let view = log.view();
        let results = view.plain().filter(|message| message.role() == Role::Tool);
        let stubs: Vec<bool> = results.map(|result| is_stub(&result.to_text())).collect();
        assert_eq!(stubs, [false, true]);
    }

    #[test]
    fn arguments_go_with_their_result_where_that_is_wanted() {
        let long = |log: &Conversation| {
            let view = log.view();
            let calls = view.messages().iter().flat_map(|message| message.message().calls().to_vec());
            let texts =
                calls.map(|call| serde_json::from_str::<Value>(&call.arguments).unwrap()["text"].clone());
            texts.filter(|text| text.as_str().unwrap().len() > 100).count()
        };
        let (_, log) = clear(&ClearToolResults::default(), "{ max_tokens: 1000 }");
        assert_eq!(long(&log), 11);
        let options = ClearToolResults { clear_tool_inputs: Some(true), ..ClearToolResults::default() };
        let (stubs, log) = clear(&options, "{ max_tokens: 1000 }");
        assert_eq!((stubs.len(), long(&log)), (8, 3));
        let paths: Vec<String> = log
            .view()
            .messages()
            .iter()
            .flat_map(|message| {
                let calls = message.message().calls().iter();
                calls
                    .map(|call| serde_json::from_str::<Value>(&call.arguments).unwrap()["path"].to_string())
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(paths.len(), 11, "every call still says its path");
    }

    #[test]
    fn a_stub_keeps_what_the_provider_needs_and_is_never_cleared_again() {
        let mut log =
            session(&(0..9).map(|n| ("Read", path(&format!("f{n}")), prose(n))).collect::<Vec<_>>());
        let before: Vec<_> = log.view().plain().cloned().collect();
        fit_again(HALF, 10_000, &mut log, &Script::new(Vec::new()));
        let once: Vec<_> = log.view().plain().cloned().collect();
        let shorter = before.iter().zip(&once).filter(|(was, is)| was != is);
        for (was, is) in shorter.clone() {
            assert_eq!(was, &is.with_content(was.content().unwrap().clone()), "only the text changed");
        }
        assert_eq!(shorter.count(), 5);
        // More messages arrive, and the next compaction leaves the stubs unchanged.
        for message in
            session(&(0..6).map(|n| ("Read", path(&format!("g{n}")), prose(n + 30))).collect::<Vec<_>>())
                .messages()
        {
            log.append(message.clone());
        }
        fit_again(HALF, 10_000, &mut log, &Script::new(Vec::new()));
        let twice: Vec<_> = log.view().plain().cloned().collect();
        let stubs = |messages: &[Message]| {
            let texts = messages.iter().map(Message::to_text);
            texts.filter(|text| is_stub(text)).collect::<Vec<_>>()
        };
        assert!(stubs(&twice).len() > stubs(&once).len());
        assert_eq!(stubs(&twice)[..stubs(&once).len()], stubs(&once));
    }

    #[test]
    fn old_images_of_the_user_leave_and_their_words_stay() {
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x04\0\0\0\x04\0".to_vec();
        png.resize(200, 0);
        let image = Image::read("shot.png", &png).unwrap();
        let mut log = Conversation::new();
        for turn in 0..6 {
            let asked = format!("What is in picture {turn}?");
            log.add(Message::showing(asked, std::slice::from_ref(&image)))
                .agent(format!("A cat, number {turn}."));
        }
        let yaml = "{ max_tokens: 5000, retention_window: 2 }";
        apply(&ClearToolResults::default(), yaml, &mut log, &Script::new(Vec::new())).unwrap();
        let view = log.view();
        let shown: Vec<(bool, String)> = view
            .messages()
            .iter()
            .filter(|message| message.role() == Role::User)
            .map(|message| (message.message().has_images(), message.message().to_text()))
            .collect();
        // The first and the latest message stay as they are, and so do the newest three.
        assert_eq!(
            shown.iter().map(|(has, _)| *has).collect::<Vec<_>>(),
            [true, false, false, true, true, true]
        );
        assert_eq!(
            shown[1].1,
            "What is in picture 1?\n[image shot.png, 1024 × 1024 pixels]\n[m2 cleared: the image]"
        );
        let again = log.clone();
        apply(&ClearToolResults::default(), yaml, &mut log, &Script::new(Vec::new())).ok();
        assert_eq!(log.view(), again.view(), "nothing is cleared twice");
    }

    #[test]
    fn notes_that_a_harness_repeats_leave_but_for_the_newest() {
        let mut log = Conversation::new();
        log.user("Find the fault.");
        for turn in 0..5 {
            let repeated = format!("You are a careful reader. It is turn {turn}. {}", prose(1));
            log.agent(format!("I looked at part {turn}."))
                .user(format!("Go on with part {}.", turn + 1))
                .add(Message::note("pi", repeated))
                .add(Message::note("pi", format!("Of turn {turn} alone: {}", prose(turn + 40))));
        }
        log.agent("It is in part 5.");
        let yaml = "{ max_tokens: 100, retention_window: 1 }";
        apply(&ClearToolResults::default(), yaml, &mut log, &Script::new(Vec::new())).unwrap();
        let view = log.view();
        let notes = view.plain().filter(|message| message.note_by().is_some());
        let left: Vec<bool> = notes.map(|note| !is_stub(&note.to_text())).collect();
        assert_eq!(left, [false, true, false, true, false, true, false, true, true, true]);
    }

    #[test]
    fn short_results_and_contexts_within_the_target_are_left_alone() {
        let short: Vec<_> =
            (0..20).map(|n| ("Bash", run(&format!("command {n}")), format!("answer {n}"))).collect();
        let options = ClearToolResults::default();
        let rules = settings("{ max_tokens: 100 }", 100_000).rules;
        let view = session(&short).view();
        assert!(
            options.is_applicable(&rules, &view) && options.decide(&rules, &view, &Characters).is_empty()
        );
        let long: Vec<_> = (0..20).map(|n| ("Bash", run(&format!("command {n}")), prose(n))).collect();
        let rules = settings("{ max_tokens: 50% }", 100_000).rules;
        assert!(!options.is_applicable(&rules, &session(&long).view()));
    }
}
