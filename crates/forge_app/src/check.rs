//! What can be known to be wrong with a workflow before anything runs.

use forge_domain::compaction::Rung;
use forge_domain::{
    Agent, Budget, Compact, ContextMessage, Event, Message, Permissions, PromptPart, REQUEST_TOKENS, SECRETS,
    StillOver, Summarization, Term, Tokens, ToolDefinition, ToolName,
};
use forge_services::workflow::{Finding, check_references};

use crate::{RECALL, Services};

/// The least that a system message and a summary must leave for the work itself.
const LEAST_WORK: Tokens = Tokens::new(16);

/// Everything that is wrong with the agents of a workflow: models that lead nowhere, unknown tools, templates that do
/// not render, limits that contradict each other, and budgets that can never fit.
pub fn check_workflow(services: &Services) -> Vec<Finding> {
    let references = check_references(&services.workflow);
    let agents = services.workflow.agents.iter().flat_map(|agent| check_agent(agent, services));
    let reaching = services.workflow.checkpoint.reaching_beyond().into_iter().map(|key| Finding {
        path: format!("checkpoint.{key}"),
        what: "it would let go of what other projects keep in the store that all share".to_owned(),
        hint: Some("name a `store` of your own beside it".to_owned()),
    });
    let permissions = unknown_permissions("permissions", services.workflow.permissions.as_ref(), services);
    references.into_iter().chain(agents).chain(reaching).chain(permissions).collect()
}

fn check_agent(agent: &Agent, services: &Services) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |key: &str, what: String| {
        findings.push(Finding { path: format!("agents.{}{key}", agent.id), what, hint: None });
    };
    let (tools, unknown) = definitions(agent.tools.as_deref().unwrap_or_default(), services);
    for (position, what) in unknown {
        find(&format!(".tools[{position}]"), what);
    }
    let permissions = unknown_permissions(
        &format!("agents.{}.permissions", agent.id),
        agent.permissions.as_ref(),
        services,
    );
    let own = |name: &ToolName| services.tools.definitions(std::slice::from_ref(name));
    for (position, name) in agent.tools.iter().flatten().enumerate() {
        let is_agent = services.workflow.agents.find(name.as_str()).is_some();
        if is_agent && own(name).is_ok_and(|tools| !tools.is_empty()) {
            let what = format!("there is a tool and an agent of the name `{name}`: give the agent another");
            find(&format!(".tools[{position}]"), what);
        }
    }
    let system = services.templates.render_system(agent, &tools);
    if let Err(error) = &system {
        find(".system_prompt", error.to_string());
    }
    let event = Event::task("the task");
    if let Err(error) = services.templates.render_event(agent, &event) {
        find(".user_prompt", error.to_string());
    }
    let names = agent.tools.as_deref().unwrap_or_default();
    if let Some(twice) =
        names.iter().enumerate().find_map(|(at, name)| names[..at].contains(name).then_some(name))
    {
        find(".tools", format!("`{twice}` is named twice"));
    }
    let compact = agent.compact.clone().unwrap_or_default();
    for (position, rung) in compact.strategies.iter().flatten().enumerate() {
        let Rung::ClearToolResults(options) = rung else { continue };
        for (item, what) in definitions(&options.exclude_tools, services).1 {
            find(&format!(".compact.strategies[{position}].clear_tool_results.exclude_tools[{item}]"), what);
        }
    }
    for (key, what) in without_effect(&compact) {
        find(&format!(".compact.{key}"), what);
    }
    let sample = Summarization {
        messages: Vec::new(),
        earlier_summary: None,
        focus: Some("focus"),
        summary_tag: "tag",
        summary_max_tokens: 1,
    };
    if let Err(error) = services.templates.render_summarization(compact.prompt.as_deref(), &sample) {
        find(".compact.prompt", error.to_string());
    }
    findings.extend(permissions);
    let mut find = |key: &str, what: String| {
        findings.push(Finding { path: format!("agents.{}{key}", agent.id), what, hint: None });
    };
    // Models that lead nowhere are among the references.
    let Some(Ok(model)) = agent.model.as_ref().map(|id| services.workflow.model(id)) else { return findings };
    let named = model.reference.to_string();
    let budget = Budget::new(model.limits, agent.chat_options(model.reference), tools, &*services.counter);
    match compact.resolve(&budget) {
        Err(error) => find(&format!(".compact.{}", error.target), error.to_string()),
        Ok(compact) => {
            let summary = compact.model.as_ref().map_or(Tokens::ZERO, |_| compact.summary_limit());
            // What the user prompt says of itself is in every user message, whatever the task is.
            let nothing = services.templates.render_event(agent, &Event::task("")).unwrap_or_default();
            let said = ContextMessage::count(Message::user(nothing), &*services.counter);
            let pinned = compact.pinned_tokens(&said, &*services.counter);
            if let Some(over) = never_fits(system.ok().flatten(), pinned, summary, &budget, services) {
                let what = format!("it can never fit the window of `{named}`: {over}");
                let hint = Some(
                    "make the largest of these smaller, or take a model with a larger window".to_owned(),
                );
                findings.push(Finding { path: format!("agents.{}", agent.id), what, hint });
            }
        }
    }
    findings
}

/// Rules that name a tool that is not there.
fn unknown_permissions(path: &str, rules: Option<&Permissions>, services: &Services) -> Vec<Finding> {
    let named = rules
        .into_iter()
        .flat_map(Permissions::tools)
        .filter(|name| !name.contains(['*', '?']) && *name != SECRETS);
    let unknown = |name: &str| {
        let name = ToolName::new(name).ok().filter(|name| name.as_str() != RECALL)?;
        let what = services.callable(std::slice::from_ref(&name)).err()?.to_string();
        Some(Finding { path: format!("{path}.{name}"), what, hint: None })
    };
    named.filter_map(unknown).collect()
}

/// What the model is told of the tools named, and the positions of those that are not there.
fn definitions(names: &[ToolName], services: &Services) -> (Vec<ToolDefinition>, Vec<(usize, String)>) {
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for (position, name) in names.iter().enumerate() {
        match services.callable(std::slice::from_ref(name)) {
            Ok(definition) => known.extend(definition),
            Err(error) => unknown.push((position, error.to_string())),
        }
    }
    (known, unknown)
}

/// Keys that are set and can do nothing, with the reason.
fn without_effect(compact: &Compact) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let counts = [
        ("max_messages", compact.max_messages, "message_threshold", compact.message_threshold),
        ("max_turns", compact.max_turns, "turn_threshold", compact.turn_threshold),
    ];
    for (target, how_far, trigger, when) in counts {
        if how_far.is_some() && when.is_none() {
            found.push((target, format!("it says how far, and nothing says when: set `{trigger}` as well")));
        }
    }
    let listed = compact.strategies.as_deref().unwrap_or_default();
    if compact.model.is_none() {
        let keys = [
            ("prompt", compact.prompt.is_some()),
            ("summary_tag", compact.summary_tag.is_some()),
            ("summary_max_tokens", compact.summary_max_tokens.is_some()),
            ("strategies", listed.iter().any(|rung| matches!(rung, Rung::Summarization(_)))),
        ];
        let set = keys.into_iter().filter(|(_, is_set)| *is_set);
        found
            .extend(set.map(|(key, _)| (key, "nothing is summarised without a `model`: set one".to_owned())));
    }
    if compact.focus.is_some() && !compact.heeds_focus() {
        let what = "nothing heeds it: set a `model`, so that there are summaries, or name `extraction` among the strategies";
        found.push(("focus", what.to_owned()));
    }
    let twice = listed
        .iter()
        .enumerate()
        .find(|(at, rung)| listed[..*at].iter().any(|known| known.id() == rung.id()));
    found.extend(twice.map(|(_, rung)| ("strategies", format!("`{}` is named twice", rung.id()))));
    found
}

/// The sum of what every prompt of the agent must hold, where that is more than the window.
fn never_fits(
    system: Option<String>,
    pinned: Tokens,
    summary: Tokens,
    budget: &Budget,
    services: &Services,
) -> Option<StillOver> {
    let system = system.map_or(Tokens::ZERO, |text| {
        ContextMessage::count(Message::system(text), &*services.counter).tokens()
    });
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
    (need > budget.window()).then_some(StillOver { need, have: budget.window(), because })
}
