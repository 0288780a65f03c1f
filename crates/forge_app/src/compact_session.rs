//! Compacts a recorded session once, and reports the fate of each of its messages.

use std::sync::Arc;

use forge_domain::compaction::{
    Attempt, CompactionReport, CompactionServices, CompactionSettings, ContextCompactor, LoggedServices,
    Outcome, Trigger, Yield, highest_label, n_omitted,
};
use forge_domain::{
    Budget, ChatOptions, Compact, CompactionEntry, Content, ContextMessage, Conversation, EmptyIdError,
    Message, MessageId, ModelId, ModelLimits, ModelRef, PromptPart, ProviderId, RecordError, Replacement,
    RestoreError, Role, StillOver, StrategyId, Term, TokenLimit, Tokens, added_breach,
};
use serde::{Serialize, Serializer};

/// The settings of one compaction of a session.
#[derive(Clone, Debug)]
pub struct CompactSession {
    /// The `compact` block; its limits apply unless `room` sets them.
    pub compact: Compact,
    /// The size that the request may have.
    pub room: SessionRoom,
    /// Tokens of the tool schemas, which are part of the request.
    pub tools_tokens: Tokens,
    /// Returns the number in the session, from 0, of the message that a message is or is a shorter form of.
    pub number_of: fn(&Message) -> Option<usize>,
}

/// The size that a request may have.
#[derive(Clone, Copy, Debug)]
pub enum SessionRoom {
    /// A number of tokens: limit and target in one, without an output reserve.
    Limit(Tokens),
    /// The limits of a model; the block sets how much of them is used.
    Window(ModelLimits),
}

/// The result of the compaction of a session.
#[derive(Clone, Debug)]
pub struct CompactedSession {
    /// The report.
    pub report: SessionReport,
    /// The replaced messages and their replacements; empty if nothing was compacted. The first message is
    /// [`MessageId::FIRST`].
    pub replacements: Vec<Replacement>,
    /// The most tokens of the request that were asked for.
    pub target: Tokens,
}

/// A report on the compaction of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SessionReport {
    /// The outcome, in one word.
    pub outcome: &'static str,
    /// The trigger; `None` if none fired.
    pub trigger: Option<Trigger>,
    /// The strategies that were applied, in order.
    pub strategies: Vec<StrategyId>,
    /// The text that replaces the messages that left; `None` if nothing replaces them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Every attempt, in order.
    pub attempts: Vec<Attempt>,
    /// Messages before.
    pub messages_before: usize,
    /// Messages after.
    pub messages_after: usize,
    /// Tokens of the request before, tool schemas included.
    pub tokens_before: Tokens,
    /// Tokens of the request after.
    pub tokens_after: Tokens,
    /// The parts that had to yield.
    pub yielded: Vec<Yield>,
    /// The reason why it cannot fit, if it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub still_over: Option<StillOver>,
    /// The fate of each message.
    pub messages: Vec<MessageReport>,
}

/// The fate of one message, and its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MessageReport {
    /// Its label, such as `m12`; `None` if it is in no log.
    #[serde(serialize_with = "label")]
    pub id: Option<MessageId>,
    /// Its role.
    pub role: Role,
    /// Its tokens before.
    pub tokens: Tokens,
    /// Its fate.
    pub fate: Fate,
    /// The strategies that were applied; `None` if it was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// Its replacement, in words; `None` if it was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Arc<str>>,
}

fn label<S: Serializer>(id: &Option<MessageId>, serializer: S) -> Result<S::Ok, S::Error> {
    match id {
        Some(id) => serializer.collect_str(id),
        None => serializer.serialize_str(""),
    }
}

/// The fate of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It is unchanged.
    Kept,
    /// A stub replaces the result.
    Stubbed,
    /// Its text was shortened.
    Shortened,
    /// Another message replaces it and its neighbours.
    Folded,
    /// It left, and nothing replaces it.
    Dropped,
}

/// An error of a compaction of a session.
#[derive(Debug, thiserror::Error)]
pub enum CompactSessionError {
    /// A target of the block is not below its trigger.
    #[error("the `compact` block cannot work")]
    Compact(#[from] forge_domain::compaction::CompactError),
    /// The compacted context is no compaction of the session.
    #[error("the compaction cannot be recorded")]
    Record(#[from] RecordError),
    /// The result breaks a provider's rule that the session did not break.
    #[error("the compacted session breaks a provider's rule: {0}")]
    Illegal(String),
    /// The compactions so far do not form a log.
    #[error("the compaction cannot be recorded")]
    Restore(#[from] RestoreError),
    /// A name is empty.
    #[error(transparent)]
    Name(#[from] EmptyIdError),
}

/// Compacts the counted `messages` if `asked` demands it. A session far larger than its target is compacted
/// in rounds, oldest messages first, as a run would have done on its way: only one round of packed messages
/// is unpacked at a time.
///
/// # Errors
/// [`CompactSessionError`] if it cannot be tried. That it cannot fit is an outcome, not an error.
pub async fn compact_session(
    messages: impl IntoIterator<Item = ContextMessage>,
    asked: &CompactSession,
    compactor: &ContextCompactor,
    services: &dyn CompactionServices,
) -> Result<CompactedSession, CompactSessionError> {
    let messages = messages.into_iter();
    let mut conversation = Conversation::with_capacity(messages.size_hint().0);
    for message in messages {
        let may_be_record = message.role() == Role::User && !message.starts_turn();
        let highest = may_be_record.then(|| highest_label([message.message()])).flatten();
        conversation.append(message);
        // The labels in an earlier record are of another log: what follows must not have the same.
        if let Some(highest) = highest {
            conversation.number_from(highest.next());
        }
    }
    let before = conversation.view().size();
    let rounds = Rounds::of(asked, compactor, services)?;
    let mut earlier = None;
    let mut most = rounds.most;
    let fit = loop {
        let n_messages = front_of_a_round(&conversation, most);
        let is_last = n_messages == conversation.view().messages().len();
        let (latest, is_compacted) = rounds.compact(&mut conversation, n_messages).await?;
        let so_far = merge_reports(earlier, latest);
        if is_last {
            break so_far;
        }
        earlier = Some(so_far);
        // If the next message is larger than a round, the messages before it may be too few to be compacted.
        most = if is_compacted { rounds.most } else { most + most };
        if conversation.n_compactions() == ROUNDS_IN_LOG {
            conversation = conversation.without_absorbed()?;
        }
    };
    let is_over = matches!(fit.outcome, Outcome::StillOver(_));
    let after = if is_over { before } else { conversation.view().size() };
    let mut report = report(CompactionReport { before, after, ..fit }, asked);
    // A session that cannot fit stays unchanged.
    let live = if report.still_over.is_none() { conversation.live_entries() } else { Vec::new() };
    let replacements = live.iter().flat_map(|entry| entry.replacements()).cloned().collect::<Vec<_>>();
    let by = report.by().into();
    report.messages = fates(&conversation, &replacements, &by, asked.number_of);
    let replacements = in_session(replacements, &report.messages);
    let target = rounds.settings.rules.target.tokens + asked.tools_tokens;
    Ok(CompactedSession { report, replacements, target })
}

/// The tokens that are compacted at once. The facts about the words of a context take several times its size.
const AT_ONCE: Tokens = Tokens::new(500_000);

/// The number of rounds that the log keeps apart: each names all messages that left so far.
const ROUNDS_IN_LOG: usize = 4;

/// Returns how many messages the next round compacts: all if they are at most `most` tokens. A round
/// ends between groups.
fn front_of_a_round(conversation: &Conversation, most: Tokens) -> usize {
    let view = conversation.view();
    let mut tokens = Tokens::ZERO;
    let fits = |message: &&ContextMessage| {
        tokens += message.tokens();
        tokens <= most
    };
    let n_messages = view.messages().iter().take_while(fits).count();
    if n_messages == view.messages().len() {
        return n_messages;
    }
    // The last group may continue after the cut.
    let front = conversation.front(n_messages + 1);
    let end = front.groups().iter().last().map_or(0, |group| group.range().start);
    if end > 0 { end } else { view.messages().len() }
}

/// The compactions of one session, one after the other.
struct Rounds<'a> {
    budget: Budget,
    settings: CompactionSettings,
    /// The most tokens that one of them compacts.
    most: Tokens,
    compactor: &'a ContextCompactor,
    services: &'a dyn CompactionServices,
}

impl<'a> Rounds<'a> {
    fn of(
        asked: &CompactSession,
        compactor: &'a ContextCompactor,
        services: &'a dyn CompactionServices,
    ) -> Result<Self, CompactSessionError> {
        let budget = budget(asked, services)?;
        let settings = resolve_settings(asked, &budget)?;
        let most = AT_ONCE.max(budget.room() + budget.room());
        Ok(Self { budget, settings, most, compactor, services })
    }

    /// Compacts the first `n_messages` of the view if that is due; returns the report, and whether anything
    /// was compacted.
    async fn compact(
        &self,
        conversation: &mut Conversation,
        n_messages: usize,
    ) -> Result<(CompactionReport, bool), CompactSessionError> {
        let front = conversation.front(n_messages);
        let services = LoggedServices { services: self.services, log: conversation };
        let fit = self.compactor.fit(&self.settings, front.clone(), &self.budget, &services).await;
        let Some(compacted) = fit.result.ok().and_then(|fitted| fitted.compacted) else {
            return Ok((fit.report, false));
        };
        if let Some(breach) = added_breach(front.messages(), compacted.messages()) {
            return Err(CompactSessionError::Illegal(breach.to_string()));
        }
        conversation.record_front(n_messages, &compacted)?;
        Ok((fit.report, true))
    }
}

/// Returns the report on all rounds up to the `latest`: the last one that compacted something, or that could
/// not.
fn merge_reports(earlier: Option<CompactionReport>, mut latest: CompactionReport) -> CompactionReport {
    let Some(earlier) = earlier else { return latest };
    match &mut latest.outcome {
        Outcome::Applied { strategies, .. } => {
            if let Outcome::Applied { strategies: others, .. } = earlier.outcome {
                let missing = others.into_iter().filter(|other| !strategies.contains(other));
                let missing: Vec<StrategyId> = missing.collect();
                strategies.extend(missing);
            }
            latest
        }
        Outcome::StillOver(_) | Outcome::Vetoed { .. } => latest,
        Outcome::NotTriggered | Outcome::NothingToCut => earlier,
    }
}

/// Compacts the view of `conversation` if `asked` demands it; returns the report and the new entry of the
/// log.
pub(crate) async fn compact_conversation(
    conversation: &mut Conversation,
    asked: &CompactSession,
    compactor: &ContextCompactor,
    services: &dyn CompactionServices,
) -> Result<(CompactionReport, Option<CompactionEntry>), CompactSessionError> {
    let n_messages = conversation.view().messages().len();
    let rounds = Rounds::of(asked, compactor, services)?;
    let (report, is_compacted) = rounds.compact(conversation, n_messages).await?;
    let entry = conversation.compactions().last().filter(|_| is_compacted).cloned();
    Ok((report, entry))
}

fn budget(asked: &CompactSession, services: &dyn CompactionServices) -> Result<Budget, EmptyIdError> {
    let (provider, model) = (ProviderId::new("recorded")?, ModelId::new("session")?);
    let options = ChatOptions::new(ModelRef { provider, model });
    let budget = |limits: ModelLimits| {
        let limits = ModelLimits { window: limits.window - asked.tools_tokens, ..limits };
        Budget::new(limits, options, Vec::new(), services.counter())
    };
    Ok(match asked.room {
        SessionRoom::Limit(window) => budget(ModelLimits { window, max_output: None }).without_reserve(),
        SessionRoom::Window(limits) => budget(limits),
    })
}

/// Returns the block for this budget. A session that is over its target is compacted: the block's own
/// trigger in tokens is for runs. A limit is trigger and target in one and overrides those of the block.
fn resolve_settings(
    asked: &CompactSession,
    budget: &Budget,
) -> Result<CompactionSettings, forge_domain::compaction::CompactError> {
    match asked.room {
        SessionRoom::Window(_) => {
            // Whoever asks for a compaction does not want to hear that it is not due yet.
            let mut settings = asked.compact.resolve(budget)?;
            settings.rules.trigger.tokens = settings.rules.target.tokens;
            Ok(settings)
        }
        SessionRoom::Limit(_) => {
            let limit = Some(TokenLimit::Tokens(budget.room()));
            Compact { token_threshold: None, max_tokens: limit, ..asked.compact.clone() }.resolve(budget)
        }
    }
}

/// Returns the report, without the fates of the messages.
pub(crate) fn report(fit: CompactionReport, asked: &CompactSession) -> SessionReport {
    let outcome = fit.outcome.name();
    let (strategies, yielded, still_over) = match fit.outcome {
        Outcome::Applied { strategies, impact } => (strategies, impact.yielded, None),
        Outcome::StillOver(over) => (Vec::new(), Vec::new(), Some(with_tools(over, asked.tools_tokens))),
        _ => (Vec::new(), Vec::new(), None),
    };
    SessionReport {
        outcome,
        trigger: fit.trigger,
        summary: fit.summary,
        attempts: fit.attempts,
        messages_before: fit.before.messages,
        messages_after: fit.after.messages,
        tokens_before: fit.before.tokens + asked.tools_tokens,
        tokens_after: fit.after.tokens + asked.tools_tokens,
        yielded,
        still_over,
        messages: Vec::new(),
        strategies,
    }
}

impl SessionReport {
    /// Returns the strategies that were applied, in words.
    pub(crate) fn by(&self) -> String {
        self.strategies.iter().map(StrategyId::as_str).collect::<Vec<_>>().join(", ")
    }
}

/// Returns `over` in terms of the whole request.
fn with_tools(mut over: StillOver, tools: Tokens) -> StillOver {
    if tools > Tokens::ZERO {
        over.need += tools;
        over.have += tools;
        over.because.push(Term { part: PromptPart::Tools, tokens: tools });
    }
    over
}

/// Returns the replacements with messages numbered from [`MessageId::FIRST`], as they stand in the session.
fn in_session(mut replacements: Vec<Replacement>, messages: &[MessageReport]) -> Vec<Replacement> {
    for replaced in replacements.iter_mut().flat_map(|replacement| &mut replacement.replaces) {
        if let Ok(place) = messages.binary_search_by_key(&Some(*replaced), |message| message.id) {
            *replaced = MessageId::new(MessageId::FIRST.as_u64() + place as u64);
        }
    }
    replacements
}

fn fates(
    conversation: &Conversation,
    replacements: &[Replacement],
    by: &Arc<str>,
    number_of: fn(&Message) -> Option<usize>,
) -> Vec<MessageReport> {
    let before: Vec<&ContextMessage> = conversation.messages().collect();
    let id = |message: &ContextMessage| message.id().unwrap_or(MessageId::FIRST);
    let report = |message: &&ContextMessage| MessageReport {
        id: Some(id(message)),
        role: message.role(),
        tokens: message.tokens(),
        fate: Fate::Kept,
        by: None,
        why: None,
    };
    let mut reports: Vec<MessageReport> = before.iter().map(report).collect();
    let new: Vec<&ContextMessage> = replacements
        .iter()
        .flat_map(|replacement| &replacement.with)
        .filter(|with| number_of(with.message()).is_none())
        .collect();
    // A record or a marker of omission stands where the first left, for all of them.
    let for_all = new.iter().copied().find(|with| with.message().role() == Role::User);
    for replacement in replacements {
        // Nearly all have the same reason.
        let mut same: Option<Arc<str>> = None;
        for replaced in &replacement.replaces {
            // A log gives its messages ascending ids.
            let Ok(number) = before.binary_search_by_key(replaced, |message| id(message)) else { continue };
            let (fate, why) = fate(before[number], number, replacement, for_all, number_of);
            let why = same.take_if(|same| **same == *why).unwrap_or_else(|| why.into());
            same = Some(Arc::clone(&why));
            let report = &mut reports[number];
            (report.fate, report.by, report.why) = (fate, Some(Arc::clone(by)), Some(why));
        }
    }
    reports
}

/// Returns the fate of message `number`, which `replacement` replaced, and its reason in words.
fn fate(
    before: &ContextMessage,
    number: usize,
    replacement: &Replacement,
    for_all: Option<&ContextMessage>,
    number_of: fn(&Message) -> Option<usize>,
) -> (Fate, String) {
    let number_of = |with: &&ContextMessage| number_of(with.message());
    if let Some(after) = replacement.with.iter().find(|with| number_of(with) == Some(number)) {
        let fate = if is_stub(before.message(), after.message()) { Fate::Stubbed } else { Fate::Shortened };
        return (fate, format!("{} of {} tokens are left", after.tokens(), before.tokens()));
    }
    let own = replacement.with.iter().find(|with| number_of(with).is_none());
    match own.or(for_all) {
        None => (Fate::Dropped, "nothing stands for it".to_owned()),
        Some(new) => {
            let label = new.id().map(|id| id.to_string()).unwrap_or_default();
            match n_omitted(new.message()) {
                Some(_) => (Fate::Dropped, format!("{label} counts it among what was omitted")),
                None => (Fate::Folded, format!("{label} stands for it")),
            }
        }
    }
}

/// Checks whether a result was replaced by a stub: one that was merely cut begins as before.
pub(crate) fn is_stub(before: &Message, after: &Message) -> bool {
    let head = |message: &Message| {
        message.content().map(Content::to_text).unwrap_or_default().chars().take(12).collect::<String>()
    };
    before.role() == Role::Tool && head(before) != head(after)
}
