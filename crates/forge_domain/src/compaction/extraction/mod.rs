//! Folds earlier messages into one bounded record without a model.

mod filling;

mod ledger;

mod rank;

mod record;

mod source;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::filling::Folding;
use self::record::is_record;
use super::standing::{Hold, Standing};
use super::truncation::{Cut, CutOf, Item, argument_items, items, level, shorten};
use super::{Compact, CompactionImpact, CompactionServices, CompactionStrategy, Focus, StrategyError, Yield};
use crate::{Context, ContextMessage, Edit, Group, TokenCounter, Tokens};

/// Folds earlier messages into one structured, bounded record: what the user said, files, checks, errors, and the source
/// lines that later work is most likely to need, verbatim.
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
        let plan = Plan::of(compact, &context, services.counter());
        let after = plan.carry_out(compact.target_tokens(), &context, services.counter());
        let impact = CompactionImpact::new(context.size(), after.size(), plan.yielded);
        Ok((after, impact))
    }
}

/// What leaves, what is shortened, and how many tokens the record may have.
struct Plan {
    standing: Standing,
    /// Groups that leave, by index, in order.
    folded: Vec<usize>,
    cuts: Vec<Cut>,
    /// Tokens left for the record and the newest messages, about.
    room: Tokens,
    /// Terms that are asked for.
    focus: Vec<u64>,
    yielded: Vec<Yield>,
}

/// The share of what is free that system messages in mid-conversation may take, in percent.
const SYSTEM_PERCENT: u64 = 50;
/// The share of what is free that the newest messages may take verbatim, in percent.
const TAIL_PERCENT: u64 = 30;
/// The share of what is folded that its record may have at most, in percent: what is worth less than the best of it costs
/// more at every call to come than it will save.
const MOST_PERCENT: u64 = 15;
/// What a record may have in any case.
const LEAST_RECORD: Tokens = Tokens::new(1_000);
/// The share that the record has a claim to, in percent, where even the arguments of the newest calls must yield.
const RECORD_PERCENT: u64 = 25;
/// The share beyond which the last group is shortened, in percent: its lines serve better in the record.
const LAST_GROUP_PERCENT: u64 = 20;
/// The share beyond which the latest user message is shortened, in percent.
const LATEST_USER_PERCENT: u64 = 30;

impl Plan {
    fn of(compact: &Compact, context: &Context, counter: &dyn TokenCounter) -> Self {
        let standing = Standing::of(context, compact, compact.n_retained());
        let tokens_of =
            |group: &Group| context.messages()[group.range()].iter().map(ContextMessage::tokens).sum();
        let tokens: Vec<Tokens> = standing.groups.iter().map(tokens_of).collect();
        let fixed: Tokens = tokens
            .iter()
            .zip(&standing.holds)
            .filter(|(_, hold)| matches!(hold, Hold::Fixed | Hold::Pinned))
            .map(|(tokens, _)| *tokens)
            .sum();
        let room = compact.target_tokens() - crate::REQUEST_TOKENS - fixed;
        let focus = compact.focus.as_ref().map(Focus::terms).unwrap_or_default();
        let mut plan =
            Self { standing, folded: Vec::new(), cuts: Vec::new(), room, focus, yielded: Vec::new() };
        plan.hold_system_messages(&tokens);
        let free = plan.room;
        plan.shorten_held(free, context, counter);
        plan.shorten_arguments(free.share(RECORD_PERCENT, 100), context, counter);
        let spent = free - plan.room;
        plan.fold_all_but_newest(free.share(TAIL_PERCENT, 100) - spent, &tokens, context);
        plan.yielded.sort_unstable();
        plan.yielded.dedup();
        plan
    }

    /// System messages in mid-conversation stay as long as they leave the rest half of the room, the newest first.
    fn hold_system_messages(&mut self, tokens: &[Tokens]) {
        let mut most = self.room.share(SYSTEM_PERCENT, 100);
        for (hold, tokens) in self.standing.holds.iter_mut().zip(tokens).rev() {
            if *hold != Hold::System {
                continue;
            }
            if *tokens <= most {
                most = most - *tokens;
                self.room = self.room - *tokens;
            } else {
                *hold = Hold::Free;
                self.yielded.push(Yield::SystemMessages);
            }
        }
    }

    /// The last group and the latest user message stay, shortened to a share of what is free: their lines may stand in
    /// the record as well.
    fn shorten_held(&mut self, free: Tokens, context: &Context, counter: &dyn TokenCounter) {
        for (held, yielded, share) in [
            (Hold::LastGroup, Yield::RetentionSize, LAST_GROUP_PERCENT),
            (Hold::LatestUser, Yield::LatestUserText, LATEST_USER_PERCENT),
        ] {
            let items = items(context, &self.standing, held, counter);
            let whole: Tokens = items.iter().map(|item| item.tokens).sum();
            let most = free.share(share, 100);
            let (cuts, saved) = level(&items, whole - most, CutOf::Text);
            self.room = self.room - (whole - saved);
            if saved > Tokens::ZERO {
                self.cuts.extend(cuts);
                self.yielded.push(yielded);
            }
        }
    }

    /// The arguments of the newest calls yield where they would leave the record less than `least`.
    fn shorten_arguments(&mut self, least: Tokens, context: &Context, counter: &dyn TokenCounter) {
        if self.room >= least {
            return;
        }
        let items = argument_items(context, &self.standing, counter);
        let items: Vec<Item> = items.into_iter().map(|item| self.as_cut(item)).collect();
        let (cuts, saved) = level(&items, least - self.room, CutOf::Arguments);
        if saved > Tokens::ZERO {
            self.cuts.retain(|cut| cuts.iter().all(|later| later.position != cut.position));
            self.cuts.extend(cuts);
            self.yielded.push(Yield::CallArguments);
            self.room += saved;
        }
    }

    /// The item as it is after the cuts that are planned.
    fn as_cut(&self, item: Item) -> Item {
        let cut = self.cuts.iter().find(|cut| cut.position == item.position);
        Item { tokens: cut.map_or(item.tokens, |cut| cut.most), ..item }
    }

    /// The newest of what may go stays verbatim as far as `tail` goes; all the rest is folded.
    fn fold_all_but_newest(&mut self, mut tail: Tokens, tokens: &[Tokens], context: &Context) {
        let mut is_open = true;
        for index in (0..self.standing.groups.len()).rev() {
            let hold = self.standing.holds[index];
            if !hold.may_go() {
                continue;
            }
            // An earlier record goes into the new one in any case: one is enough.
            is_open = is_open && tokens[index] <= tail && !is_record_of(context, &self.standing, index);
            if is_open {
                tail = tail - tokens[index];
            } else {
                self.folded.push(index);
                if hold == Hold::Retained {
                    self.yielded.push(Yield::RetentionAge);
                }
            }
        }
        self.folded.reverse();
    }

    fn carry_out(&self, target: Tokens, context: &Context, counter: &dyn TokenCounter) -> Context {
        let cuts: Vec<Edit> =
            self.cuts.iter().filter_map(|cut| shorten(context, &self.standing, cut, counter)).collect();
        let edited = |record: Option<ContextMessage>| {
            let mut record = record.into_iter();
            let folds = super::sliding_window::runs(&self.folded).into_iter().map(|run| Edit::Fold {
                span: self.standing.groups.span(run),
                with: record.next().into_iter().collect(),
            });
            context.edit(folds.chain(cuts.iter().cloned()).collect())
        };
        let mut is_folded = vec![false; context.messages().len()];
        for index in &self.folded {
            if let Some(group) = self.standing.groups.iter().nth(*index) {
                is_folded[group.range()].fill(true);
            }
        }
        let folding =
            Folding { messages: context.messages(), is_folded: &is_folded, cuts: &cuts, focus: &self.focus };
        // What stays is measured, not estimated: the record has exactly the rest.
        let without = edited(None).size().tokens;
        let folded = context.size().tokens - without;
        let left = (target - without).min(folded.share(MOST_PERCENT, 100).max(LEAST_RECORD));
        edited(folding.fill(left, counter))
    }
}

fn is_record_of(context: &Context, standing: &Standing, index: usize) -> bool {
    let group = standing.groups.iter().nth(index);
    group.is_some_and(|group| {
        context.messages()[group.range()].iter().any(|message| is_record(message.message()))
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::fixture::{Script, conversation, fit, fit_again};
    use super::record::Record;
    use super::*;
    use crate::{Conversation, Message, Role, ToolCall, ToolName, ToolResult};

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
