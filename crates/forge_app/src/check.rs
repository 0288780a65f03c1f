//! Checks of a workflow before anything runs.

mod permissions;

use forge_domain::compaction::{CompactError, Rung};
use forge_domain::{
    Agent, Budget, Compact, ContextMessage, Event, Message, PromptPart, REQUEST_TOKENS, StillOver,
    SummaryInput, Term, TokenCounter, Tokens, ToolDefinition, ToolName, UnknownToolError, tool_twin,
};
use forge_services::workflow::{Finding, check_references, nearest};

pub(crate) use self::permissions::idle_permissions;
pub use self::permissions::unknown_permissions;
use crate::Services;
use crate::engine::{offered_tools, recall_tools};

/// A text that no template has.
const SAMPLE: &str = "the text of a sample message";
/// The least that a system message and a summary must leave for the work itself.
const LEAST_WORK: Tokens = Tokens::new(16);

/// Returns everything that is wrong with the agents of a workflow: models without a provider, unknown tools,
/// templates that do not render, contradictory limits, and budgets that can never fit.
pub fn check_workflow(services: &Services) -> Vec<Finding> {
    let references = check_references(&services.workflow);
    let agents = services.workflow.agents.iter().flat_map(|agent| check_agent(agent, services));
    let reaching = services.workflow.checkpoint.keys_beyond_project().into_iter().map(|key| Finding {
        path: format!("checkpoint.{key}"),
        what: "it would delete what other projects keep in the shared store".to_owned(),
        hint: Some("set a `store` of your own as well".to_owned()),
    });
    let permissions = unknown_permissions("permissions", services.workflow.permissions.as_ref(), services);
    references.into_iter().chain(agents).chain(reaching).chain(permissions).collect()
}

fn check_agent(agent: &Agent, services: &Services) -> Vec<Finding> {
    let mut findings = Findings { path: format!("agents.{}", agent.id), found: Vec::new() };
    let (tools, unknown) = definitions(agent.tools.as_deref().unwrap_or_default(), services);
    for (position, error) in unknown {
        findings.add_unknown_tool(&format!(".tools[{position}]"), &error);
    }
    findings.check_names(agent, services);
    let system = services.templates.render_system(agent, &tools);
    if let Err(error) = &system {
        findings.add(".system_prompt", error.to_string());
    }
    if let Err(error) = services.templates.render_event(agent, &Event::task("the task")) {
        findings.add(".user_prompt", error.to_string());
    }
    let names = agent.tools.as_deref().unwrap_or_default();
    let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
    if let Some((_, twice)) = twice {
        findings.add(".tools", format!("`{twice}` is named twice"));
    }
    let compact = agent.compact.clone().unwrap_or_default();
    findings.check_compact(&compact, services);
    let permissions = format!("{}.permissions", findings.path);
    findings.found.extend(unknown_permissions(&permissions, agent.permissions.as_ref(), services));
    findings.check_limits(agent, &compact, &tools, system.ok().flatten().as_deref(), services);
    findings.found
}

/// The findings about one agent.
struct Findings {
    /// The agent's key.
    path: String,
    found: Vec<Finding>,
}

impl Findings {
    /// Adds a finding about a key below the agent's.
    fn add(&mut self, key: &str, what: String) {
        self.found.push(Finding { path: format!("{}{key}", self.path), what, hint: None });
    }

    /// Adds a finding about a tool that is not there.
    fn add_unknown_tool(&mut self, key: &str, error: &UnknownToolError) {
        self.found.push(unknown_tool(format!("{}{key}", self.path), error));
    }

    /// Checks that no tool has the name of an agent that is called as one.
    fn check_names(&mut self, agent: &Agent, services: &Services) {
        for (position, name) in agent.tools.iter().flatten().enumerate() {
            let is_agent = services.workflow.agents.find(name.as_str()).is_some();
            let own = services.tools.definitions(std::slice::from_ref(name));
            if is_agent && own.is_ok_and(|tools| !tools.is_empty()) {
                let what = format!("a tool and an agent are both named `{name}`: rename the agent");
                self.add(&format!(".tools[{position}]"), what);
            }
        }
    }

    /// Checks the tools, the keys without effect and the prompt of a `compact` block.
    fn check_compact(&mut self, compact: &Compact, services: &Services) {
        for (position, rung) in compact.strategies.iter().flatten().enumerate() {
            let Rung::ClearToolResults(options) = rung else { continue };
            let key = format!(".compact.strategies[{position}].clear_tool_results.exclude_tools");
            for (item, error) in definitions(&options.exclude_tools, services).1 {
                self.add_unknown_tool(&format!("{key}[{item}]"), &error);
            }
        }
        for (key, what) in ineffective_keys(compact) {
            self.add(&format!(".compact.{key}"), what);
        }
        let messages = [Message::user(SAMPLE), Message::assistant(SAMPLE)];
        let sample = SummaryInput {
            messages: messages.iter().collect(),
            goal: Some("goal"),
            request: Some("request"),
            earlier_summary: None,
            focus: Some("focus"),
            summary_tag: "tag",
            summary_max_tokens: 1,
        };
        match services.templates.render_summarization(compact.prompt.as_deref(), &sample) {
            Ok(rendered) if rendered.contains(SAMPLE) => {}
            Ok(_) => self.add(
                ".compact.prompt",
                "it shows no message to the summarizer: name their texts, as in `{{#each messages}}{{text}} \
                 {{/each}}`"
                    .to_owned(),
            ),
            Err(error) => self.add(".compact.prompt", error.to_string()),
        }
    }

    /// Checks that the limits of a `compact` block work, and that every prompt can fit the window.
    fn check_limits(
        &mut self,
        agent: &Agent,
        compact: &Compact,
        tools: &[ToolDefinition],
        system: Option<&str>,
        services: &Services,
    ) {
        // Models without a provider are among the references.
        let Some(Ok(model)) = agent.model.as_ref().map(|id| services.workflow.model(id)) else { return };
        // An empty window is reported at its own key.
        if model.limits.window == Tokens::ZERO {
            return;
        }
        let options = agent.chat_options(&model);
        // An exact counter loads its vocabulary first, which takes longer than all other checks. What fits
        // even if each byte is a token needs no other count: limits that hold in the smallest room and in the
        // largest hold in between.
        let widest = recall_tools(agent, tools).unwrap_or_else(|| tools.to_vec());
        let smallest = Budget::new(model.limits, options.clone(), widest, &Bytes);
        let largest = Budget::new(model.limits, options.clone(), Vec::new(), &Bytes);
        if compact.resolve(&largest).is_ok()
            && fit(agent, compact, system, &smallest, services, &Bytes).is_ok()
        {
            return;
        }
        let counter = &*services.counter;
        let tools = offered_tools(agent, &model, tools.to_vec(), counter);
        let budget = Budget::new(model.limits, options, tools, counter);
        match fit(agent, compact, system, &budget, services, counter) {
            Ok(()) => {}
            Err(Misfit::Limits(error)) => self.add(&format!(".compact.{}", error.target), error.to_string()),
            Err(Misfit::Window(over)) => {
                let what = format!("it can never fit the window of `{}`: {over}", model.reference);
                let hint = "make the largest of these smaller, or use a model with a larger window";
                self.found.push(Finding { path: self.path.clone(), what, hint: Some(hint.to_owned()) });
            }
        }
    }
}

/// Returns the finding about a tool that is not there, with the one that may be meant: it does the same, or
/// has nearly its name.
fn unknown_tool(path: String, error: &UnknownToolError) -> Finding {
    let (name, known) = (error.name.as_str(), || error.known.split(", "));
    let twin = tool_twin(name).filter(|twin| known().any(|known| known == *twin));
    let meant = twin.or_else(|| nearest(name, known()));
    Finding { path, what: error.to_string(), hint: meant.map(|meant| format!("did you mean `{meant}`?")) }
}

/// Returns the definitions of the tools with these names, and the errors about unknown ones with their
/// positions.
fn definitions(
    names: &[ToolName],
    services: &Services,
) -> (Vec<ToolDefinition>, Vec<(usize, UnknownToolError)>) {
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for (position, name) in names.iter().enumerate() {
        match services.callable(std::slice::from_ref(name)) {
            Ok(definition) => known.extend(definition),
            Err(error) => unknown.push((position, error)),
        }
    }
    (known, unknown)
}

/// Returns the keys that are set but have no effect, with the reason.
fn ineffective_keys(compact: &Compact) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let counts = [
        ("max_messages", compact.max_messages, "message_threshold", compact.message_threshold),
        ("max_turns", compact.max_turns, "turn_threshold", compact.turn_threshold),
    ];
    for (target, how_far, trigger, when) in counts {
        if how_far.is_some() && when.is_none() {
            found.push((
                target,
                format!("it sets how far to compact, but nothing sets when: set `{trigger}` as well"),
            ));
        }
    }
    let listed = compact.strategies.as_deref().unwrap_or_default();
    if compact.model.is_none() {
        let keys = [
            ("prompt", compact.prompt.is_some()),
            ("summary_tag", compact.summary_tag.is_some()),
            ("summary_max_tokens", compact.summary_max_tokens.is_some()),
            ("strategies", listed.iter().any(Rung::asks_model)),
        ];
        let set = keys.into_iter().filter(|(_, is_set)| *is_set);
        found
            .extend(set.map(|(key, _)| (key, "nothing is summarized without a `model`: set one".to_owned())));
    }
    for (trigger, when) in
        [("message_threshold", compact.message_threshold), ("turn_threshold", compact.turn_threshold)]
    {
        if when.is_some_and(|when| when.get() == 1) {
            found.push((trigger, "nothing is below 1 to compact to: set at least 2".to_owned()));
        }
    }
    if compact.focus.is_some() && !compact.heeds_focus() {
        let what = "no strategy uses it: set a `model` for summaries, or add `extraction` to the strategies";
        found.push(("focus", what.to_owned()));
    }
    let twice = listed
        .iter()
        .enumerate()
        .find(|(at, rung)| listed[..*at].iter().any(|known| known.id() == rung.id()));
    found.extend(twice.map(|(_, rung)| ("strategies", format!("`{}` is named twice", rung.id()))));
    found
}

/// A counter of the most tokens that a text can have: one for each byte.
pub(crate) struct Bytes;

impl TokenCounter for Bytes {
    fn count(&self, text: &str) -> Tokens {
        Tokens::new(text.len() as u64)
    }
}

/// The reason why an agent cannot work in its window.
enum Misfit {
    /// The limits of its `compact` block.
    Limits(CompactError),
    /// The sum of what every prompt must hold.
    Window(StillOver),
}

/// Checks that the limits of `compact` make sense in `budget`, and that what every prompt of the agent must
/// hold fits the window, as `counter` counts.
///
/// # Errors
/// The [`Misfit`] if not.
fn fit(
    agent: &Agent,
    compact: &Compact,
    system: Option<&str>,
    budget: &Budget,
    services: &Services,
    counter: &dyn TokenCounter,
) -> Result<(), Misfit> {
    let rules = compact.resolve(budget).map_err(Misfit::Limits)?.rules;
    let summary = rules.summary.model.as_ref().map_or(Tokens::ZERO, |_| rules.summary.max_tokens);
    // The fixed text of the user prompt is in every user message, for any task.
    let nothing = services.templates.render_event(agent, &Event::task("")).unwrap_or_default();
    let fixed = ContextMessage::count(Message::user(nothing), counter);
    let pinned = rules.pinned_tokens(&fixed, counter);
    let system =
        system.map_or(Tokens::ZERO, |text| ContextMessage::count(Message::system(text), counter).tokens());
    let because: Vec<Term> = [
        (PromptPart::Request, REQUEST_TOKENS),
        (PromptPart::SystemMessages, system),
        (PromptPart::Pins, pinned),
        (PromptPart::Tools, budget.tools_tokens()),
        (PromptPart::Summary, summary),
        (PromptPart::OutputReserve, budget.reserve()),
        (PromptPart::Work, LEAST_WORK),
    ]
    .into_iter()
    .filter(|(_, tokens)| *tokens > Tokens::ZERO)
    .map(|(part, tokens)| Term { part, tokens })
    .collect();
    let need: Tokens = because.iter().map(|term| term.tokens).sum();
    if need > budget.window() {
        return Err(Misfit::Window(StillOver { need, have: budget.window(), because }));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_tool_of_another_agent_is_answered_with_its_twin() {
        for (name, expected) in [
            ("Read", Some("did you mean `read`?")),
            ("bash", Some("did you mean `shell`?")),
            ("shel", Some("did you mean `shell`?")),
            // It has a twin, which is not there.
            ("grep", None),
            ("fly", None),
        ] {
            let name = ToolName::new(name).unwrap();
            let error = UnknownToolError { name, known: "read, list, shell".to_owned() };
            assert_eq!(unknown_tool("agents.a".to_owned(), &error).hint.as_deref(), expected, "{error}");
        }
    }
}
