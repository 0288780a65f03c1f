//! The settings of a compaction: those of an agent, and what the command line sets in place of them.

use std::sync::Arc;

use forge_app::Services;
use forge_domain::compaction::{Focus, Rung};
use forge_domain::{ASSUMED_WINDOW, Compact, ModelLimits, Workflow};
use forge_infra::Playback;
use forge_services::O200kCounter;

use super::CompactArguments;
use crate::consent::Need;
use crate::failure::{Misconfigured, unknown_agent};
use crate::setup::{self, Providers};

/// The parts of the configuration that are used.
pub(super) struct CompactSettings {
    pub(super) compact: Compact,
    /// The limits of the agent's model.
    pub(super) limits: ModelLimits,
    /// The workflow whose providers serve the summarizer; nothing else of it is used.
    pub(super) summarizers: Option<Workflow>,
}

impl CompactSettings {
    /// Returns the services of a compaction: the summarizer's providers, and nothing else.
    pub(super) fn services(&self) -> Services {
        let providers = self
            .summarizers
            .as_ref()
            .map_or_else(Providers::new, |workflow| setup::providers(workflow, &setup::silent_watcher()));
        let playback = Arc::new(Playback::new(Vec::new(), Arc::new(O200kCounter)));
        setup::services_around(self.summarizers.clone().unwrap_or_default(), providers, playback, None)
    }
}

/// Reads the configuration; the command line overrides it and `block`.
pub(super) fn read_configuration(
    arguments: &CompactArguments,
    block: Compact,
) -> anyhow::Result<CompactSettings> {
    let limits = ModelLimits { window: ASSUMED_WINDOW, max_output: None };
    let mut settings = CompactSettings { compact: block, limits, summarizers: None };
    if let Some(id) = &arguments.agent {
        let workflow = setup::configuration(&arguments.configured.source(), Need::Everything)?.workflow;
        let agent = workflow.agents.find(id).ok_or_else(|| unknown_agent(id, &workflow))?;
        setup::say_without_transforms(agent);
        settings.compact = agent.compact.clone().unwrap_or_default();
        if let Some(Ok(model)) = agent.model.as_ref().map(|id| workflow.model(id)) {
            settings.limits = model.limits;
        }
        settings.summarizers = settings.compact.model.is_some().then_some(workflow);
    } else if arguments.configured.config.is_some() && arguments.files.run.run.is_none() {
        return Err(
            Misconfigured("--config has no effect without --agent ID: name the agent".to_owned()).into()
        );
    }
    if !arguments.goal.strategies.is_empty() {
        let rungs: Result<Vec<Rung>, _> = arguments.goal.strategies.iter().map(|text| rung(text)).collect();
        settings.compact.strategies = Some(rungs?);
    }
    summaries_have_a_model(arguments, &settings.compact)?;
    if let Some(words) = &arguments.goal.focus {
        settings.compact.focus = Some(focus(words, &settings.compact)?);
    }
    Ok(settings)
}

/// Parses a strategy of `--strategy`.
fn rung(text: &str) -> Result<Rung, Misconfigured> {
    serde_saphyr::from_str(text).map_err(|error| Misconfigured(format!("--strategy `{text}`: {error}")))
}

/// Rejects summaries without a model: they would silently be left out.
fn summaries_have_a_model(arguments: &CompactArguments, compact: &Compact) -> Result<(), Misconfigured> {
    if compact.model.is_some() || !compact.strategies.iter().flatten().any(Rung::asks_model) {
        return Ok(());
    }
    Err(Misconfigured(match &arguments.agent {
        Some(agent) => format!(
            "nothing is summarized without a model: set `compact: {{ model: PROVIDER:MODEL }}` for agent \
             `{agent}`, or omit `summarization`"
        ),
        None => "--strategy summarization: nothing is summarized without a model: name with --agent ID an \
             agent whose \
                 `compact` block has one, or use `extraction`, which needs none"
            .to_owned(),
    }))
}

/// Returns the text of `--focus`, if a strategy uses it.
fn focus(words: &str, compact: &Compact) -> Result<Focus, Misconfigured> {
    let focus =
        Focus::try_from(words.to_owned()).map_err(|error| Misconfigured(format!("--focus: {error}")))?;
    if !compact.heeds_focus() {
        let what = "--focus has no effect here: add `--strategy extraction`, or name with --agent one that \
             has a \
                    `model` for summaries";
        return Err(Misconfigured(what.to_owned()));
    }
    Ok(focus)
}
