//! Folds earlier messages into one bounded record without a model.

mod directives;

mod ledger;

mod rank;

mod record;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use self::directives::directives;
use self::ledger::{Ledger, take_all};
use self::rank::{Candidate, Ranking};
use self::record::Record;
use super::standing::{Hold, Standing};
use super::truncation::{Cut, items, level, shorten};
use super::{Compact, CompactionImpact, CompactionServices, CompactionStrategy, StrategyError, Yield};
use crate::features::Features;
use crate::{Context, ContextMessage, Edit, Group, Message, Tokens};

/// Folds earlier messages into one structured, bounded record: what the user said, files, checks, errors, and the source
/// lines that later work is most likely to need, verbatim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
        "folds earlier messages into one record of what later work needs, without a model"
    }

    fn is_applicable(&self, compact: &Compact, context: &Context) -> bool {
        Standing::of(context, compact, 0).has_any_that_may_go()
    }

    async fn compact(
        &self,
        compact: &Compact,
        context: Context,
        services: &dyn CompactionServices,
    ) -> Result<(Context, CompactionImpact), StrategyError> {
        let mut plan = Plan::of(compact, &context, services);
        let after = plan.carry_out(&context, services);
        let impact = CompactionImpact::new(context.size(), after.size(), std::mem::take(&mut plan.yielded));
        Ok((after, impact))
    }
}

/// What leaves, what is shortened, and how many tokens the record may have.
struct Plan {
    standing: Standing,
    /// Groups that leave, by index, in order.
    folded: Vec<usize>,
    cuts: Vec<Cut>,
    /// Tokens left for the record.
    room: Tokens,
    yielded: Vec<Yield>,
}

/// How often the lines of a record are chosen again to fill its room.
const MOST_TRIES: usize = 6;
/// The share of what is free that the newest messages may take verbatim, in percent.
const TAIL_PERCENT: u64 = 30;
/// The share beyond which the last group is shortened, in percent: its lines serve better in the record.
const LAST_GROUP_PERCENT: u64 = 20;
/// The share beyond which the latest user message is shortened, in percent.
const LATEST_USER_PERCENT: u64 = 30;

impl Plan {
    fn of(compact: &Compact, context: &Context, services: &dyn CompactionServices) -> Self {
        let standing = Standing::of(context, compact, compact.n_retained());
        let tokens_of =
            |group: &Group| context.messages()[group.range()].iter().map(ContextMessage::tokens).sum();
        let tokens: Vec<Tokens> = standing.groups.iter().map(tokens_of).collect();
        let held = tokens.iter().zip(&standing.holds);
        let fixed: Tokens = held
            .filter(|(_, hold)| matches!(hold, Hold::Fixed | Hold::System))
            .map(|(tokens, _)| *tokens)
            .sum();
        let free = compact.target_tokens() - crate::REQUEST_TOKENS - fixed;
        let mut plan =
            Self { folded: Vec::new(), cuts: Vec::new(), room: free, yielded: Vec::new(), standing };
        for (held, yielded, share) in [
            (Hold::LastGroup, Yield::RetentionSize, LAST_GROUP_PERCENT),
            (Hold::LatestUser, Yield::LatestUserText, LATEST_USER_PERCENT),
        ] {
            let items = items(context, &plan.standing, held, services.counter());
            let held: Tokens = items.iter().map(|item| item.tokens).sum();
            let most = free.share(share, 100);
            let mut kept = held;
            if held > most {
                let (cuts, saved) = level(&items, held - most);
                if saved > Tokens::ZERO {
                    plan.cuts.extend(cuts);
                    plan.yielded.push(yielded);
                    kept = held - saved;
                }
            }
            plan.room = plan.room - kept;
        }
        // The newest messages stay verbatim as far as their share goes.
        let mut tail = free.share(TAIL_PERCENT, 100) - (free - plan.room);
        let mut is_open = true;
        for index in (0..plan.standing.groups.len()).rev() {
            let hold = plan.standing.holds[index];
            if !hold.may_go() {
                continue;
            }
            let tokens = tokens[index];
            is_open = is_open && tokens <= tail;
            if is_open {
                tail = tail - tokens;
                plan.room = plan.room - tokens;
            } else {
                plan.folded.push(index);
                if hold == Hold::Retained && !plan.yielded.contains(&Yield::RetentionAge) {
                    plan.yielded.insert(0, Yield::RetentionAge);
                }
            }
        }
        plan.folded.reverse();
        plan
    }

    fn carry_out(&self, context: &Context, services: &dyn CompactionServices) -> Context {
        let counter = services.counter();
        let cuts: Vec<Edit> = self.cuts.iter().filter_map(|cut| shorten(context, cut, counter)).collect();
        let record = self.record(context, &cuts, services);
        let mut markers = record.into_iter();
        let folds = super::sliding_window::runs(&self.folded).into_iter().map(|run| Edit::Fold {
            span: self.standing.groups.span(run),
            with: markers.next().into_iter().collect(),
        });
        context.edit(folds.chain(cuts).collect())
    }

    /// The record of what is folded, as large as its room allows.
    fn record(
        &self,
        context: &Context,
        cuts: &[Edit],
        services: &dyn CompactionServices,
    ) -> Option<ContextMessage> {
        let messages = context.messages();
        let mut is_folded = vec![false; messages.len()];
        for index in &self.folded {
            if let Some(group) = self.standing.groups.iter().nth(*index) {
                is_folded[group.range()].fill(true);
            }
        }
        let mut base = base(messages, &is_folded);
        let counted = |record: &Record| {
            ContextMessage::count(Message::user(record.to_text()).compacted(), services.counter())
        };
        let mut base_message = counted(&base);
        // What people said and what was done comes first; the oldest of it goes where even that is too much.
        while base_message.tokens() > self.room {
            if !base.shed() {
                return None;
            }
            base_message = counted(&base);
        }
        Some(self.with_lines(context, cuts, &is_folded, (&base, base_message), &counted))
    }

    /// The record with as many of the lines that are most worth it as its room allows.
    fn with_lines(
        &self,
        context: &Context,
        cuts: &[Edit],
        is_folded: &[bool],
        (base, base_message): (&Record, ContextMessage),
        counted: &dyn Fn(&Record) -> ContextMessage,
    ) -> ContextMessage {
        let messages = context.messages();
        let (candidates, ranking) = ranked(messages, is_folded, cuts, base);
        let room = (self.room - base_message.tokens()).as_u64() as f64;
        let mut budget = room - 8.0;
        let mut best = base_message.clone();
        // What lines cost is estimated first and counted then: the estimate is set right by what it came to.
        for _ in 0..MOST_TRIES {
            let mut chosen = ranking.clone().choose(&candidates, budget);
            chosen.sort_by_key(|candidate| (candidate.message, candidate.line));
            let message = counted(&Record { lines: lines(messages, &chosen), ..base.clone() });
            let used = (message.tokens() - base_message.tokens()).as_u64() as f64;
            if message.tokens() > self.room {
                budget *= room / used * 0.97;
                continue;
            }
            let is_full = used > room * 0.96 || message.tokens() <= best.tokens();
            best = message;
            if is_full {
                break;
            }
            budget *= (room / used.max(1.0)).min(2.0) * 0.99;
        }
        best
    }
}

/// The record without its lines: what people said, what was done, what stands.
fn base(messages: &[ContextMessage], is_folded: &[bool]) -> Record {
    let mut record = Record::default();
    let mut ledger = Ledger::default();
    for (position, message) in messages.iter().enumerate() {
        if let Some(earlier) = Record::parse(&message.message().to_text()) {
            record.directives.extend(earlier.directives);
            for (path, state) in &earlier.files {
                ledger.take_file(path, *state);
            }
            ledger.last_check = earlier.last_check.or(ledger.last_check);
            for error in &earlier.errors {
                ledger.take_error(error);
            }
        } else if is_folded[position] {
            for directive in directives(message.message()) {
                if !record.directives.contains(&directive) {
                    record.directives.push(directive);
                }
            }
        }
    }
    // Also what stays is taken in: a later success in it mends an error before it.
    take_all(&mut ledger, messages);
    record.files = ledger.files;
    record.last_check = ledger.last_check;
    record.errors = ledger.errors;
    record
}

impl Record {
    /// Gives up the least of what is left; false where nothing is.
    fn shed(&mut self) -> bool {
        if !self.directives.is_empty() && self.directives.len() >= self.files.len() {
            let half = self.directives.len().div_ceil(4);
            self.directives.drain(..half);
            true
        } else if !self.files.is_empty() {
            let half = self.files.len().div_ceil(4);
            self.files.drain(..half);
            true
        } else if !self.errors.is_empty() {
            self.errors.remove(0);
            true
        } else {
            self.last_check.take().is_some()
        }
    }
}

/// The lines that may stand in the record, and what their terms are worth beside what stays in the context anyway. Of
/// a message that is shortened, what is cut out may stand in the record as well.
fn ranked<'a>(
    messages: &'a [ContextMessage],
    is_folded: &[bool],
    cuts: &[Edit],
    base: &Record,
) -> (Vec<Candidate<'a>>, Ranking) {
    let mut leaves = is_folded.to_vec();
    let mut ranking = Ranking::of(messages);
    for cut in cuts {
        if let Edit::Shorten { position, with } = cut {
            leaves[*position] = true;
            ranking.cover(with.features());
        }
    }
    for (message, leaves) in messages.iter().zip(&leaves) {
        if !leaves {
            ranking.cover(message.features());
        }
    }
    ranking.cover(&Features::of(&Message::user(base.to_text())));
    (candidates(messages, &leaves), ranking)
}

fn candidates<'a>(messages: &'a [ContextMessage], is_folded: &[bool]) -> Vec<Candidate<'a>> {
    let folded = messages.iter().enumerate().filter(|(position, _)| is_folded[*position]);
    folded
        .flat_map(|(message, content)| {
            let features = content.features();
            features.lines.iter().enumerate().map(move |(line, of)| Candidate {
                message,
                line,
                features: of,
                tokens: f64::from(of.end - of.start) / 3.3 + 3.0,
            })
        })
        .collect()
}

fn lines(messages: &[ContextMessage], chosen: &[Candidate<'_>]) -> Vec<(String, String)> {
    chosen
        .iter()
        .map(|candidate| {
            let message = &messages[candidate.message];
            let id = message.id().map(|id| id.to_string()).unwrap_or_default();
            let label = format!("{id} {}", message.message().role().as_str());
            (label, message.features().line(candidate.features).to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::fixture::{Script, conversation, fit, fit_again};
    use super::*;
    use crate::{Conversation, Role, ToolCall, ToolName, ToolResult};

    const EXTRACT: &str = "strategies: [extraction]";

    #[test]
    fn everything_older_becomes_one_record() {
        let (actual, report) = fit(EXTRACT, 2_000, "suaaaaaaaaaaaaaaaaaa", &Script::new(Vec::new()));
        assert_eq!(actual, "su[aaaaaaaaaaaaaaaa]aa", "{report:?}");
    }

    fn records(conversation: &Conversation) -> Vec<String> {
        let view = conversation.view();
        let compacted = view.messages().iter().filter(|message| message.message().is_compacted);
        compacted.map(|message| message.message().to_text()).collect()
    }

    /// A session that edits a file, sees a failure and was told something.
    fn session() -> Conversation {
        let mut conversation = Conversation::new();
        let mut append = |message: Message| {
            conversation.append(ContextMessage::count(message, &super::super::fixture::Characters));
        };
        append(Message::user("Fix the parser."));
        append(Message::assistant("What may I touch?"));
        append(Message::user("You must never touch generated.rs please."));
        for (name, arguments, result) in [
            ("Edit", r#"{"file_path":"src/parser.rs"}"#, "ok"),
            ("Bash", r#"{"command":"cargo test"}"#, "error[E0308]: mismatched types\nExit code 101"),
        ] {
            let call =
                ToolCall { id: "c".into(), name: ToolName::new(name).unwrap(), arguments: arguments.into() };
            let result = ToolResult::answer(&call, result);
            append(Message::calling(vec![call]));
            append(Message::tool(result));
        }
        for n in 0..12 {
            append(Message::assistant(format!(
                "step {n} is about parse_item_{n} and more words {}",
                "x ".repeat(60)
            )));
            append(Message::user(format!("go on {n}")));
        }
        conversation
    }

    #[test]
    fn the_record_holds_orders_files_checks_and_errors_and_survives_the_next_fold() {
        let mut conversation = session();
        for round in 0..3 {
            fit_again(EXTRACT, 2_000, &mut conversation, &Script::new(Vec::new()));
            let records = records(&conversation);
            assert_eq!(records.len(), 1, "one record after round {round}");
            for line in [
                "- You must never touch generated.rs please.",
                "modified: src/parser.rs",
                "Last test: cargo test -> failed",
                "- error[E0308]: mismatched types",
            ] {
                assert_eq!(records[0].matches(line).count(), 1, "{line} in round {round}: {}", records[0]);
            }
            for n in 0..8 {
                let more = Message::assistant(format!("round {round} and {n} {}", "y ".repeat(100)));
                conversation.append(ContextMessage::count(more, &super::super::fixture::Characters));
            }
        }
        assert_eq!(conversation.view().messages()[1].message().role(), Role::User);
    }

    #[test]
    fn nothing_is_in_a_record_that_was_not_there_before() {
        let mut conversation = session();
        for n in 0..10 {
            let more =
                Message::assistant(format!("look at file_{n}.rs and load_table_{n} {}", "z ".repeat(40)));
            conversation.append(ContextMessage::count(more, &super::super::fixture::Characters));
        }
        let before: String =
            conversation.messages().map(|message| message.features().text.clone() + "\n").collect();
        fit_again(EXTRACT, 3_000, &mut conversation, &Script::new(Vec::new()));
        let record = Record::parse(&records(&conversation)[0]).unwrap();
        assert!(!record.lines.is_empty());
        for (_, line) in record.lines {
            assert!(before.contains(&line), "{line}");
        }
    }

    #[test]
    fn a_small_target_still_holds() {
        for room in [700, 900, 1_500] {
            let mut conversation = conversation("suaUtRaaaatR");
            let fit = fit_again(EXTRACT, room, &mut conversation, &Script::new(Vec::new()));
            assert!(fit.result.is_ok(), "{room}: {:?}", fit.report);
        }
    }
}
