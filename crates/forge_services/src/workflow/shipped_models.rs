//! The tables of models, the shipped one and the one that was fetched: windows, longest answers, abilities
//! and prices, with their source and the day they are of.

use std::collections::BTreeMap;

use forge_domain::{ModelConfig, ModelId, Price, Workflow};
use jiff::civil::Date;
use serde::Deserialize;

use super::{Source, WorkflowError, reader};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// The day of all its facts.
    as_of: Date,
    /// The source of all its facts.
    source: String,
    models: BTreeMap<ModelId, ModelConfig>,
}

/// Returns the layer that knows the shipped models.
pub(super) fn shipped_models() -> Result<Workflow, WorkflowError> {
    let table = reader::read_as::<Table>(&Source::new("built-in models", include_str!("../models.yaml")))?;
    Ok(Workflow { models: table.facts(), ..Workflow::default() })
}

/// Returns the layer of a table that was fetched. It changes no provider of a model that `known` has, and it
/// sets no option of requests.
pub(super) fn fetched_models(source: &Source, known: &Workflow) -> Result<Workflow, WorkflowError> {
    let mut models = reader::read_as::<Table>(source)?.facts();
    for (id, model) in &mut models {
        model.provider = model
            .provider
            .take()
            .filter(|provider| !known.models.contains_key(id) && known.providers.contains_key(provider));
    }
    Ok(Workflow { models, ..Workflow::default() })
}

/// A table of models as it is reported to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelTable {
    /// The number of its models.
    pub models: usize,
    /// The day of its facts.
    pub as_of: String,
    /// The source of its facts.
    pub source: String,
}

impl ModelTable {
    /// Reads a table.
    ///
    /// # Errors
    /// [`WorkflowError`] if the text is not one.
    pub fn read(source: &Source) -> Result<Self, WorkflowError> {
        let table: Table = reader::read_as(source)?;
        Ok(Self { models: table.models.len(), as_of: table.as_of.to_string(), source: table.source })
    }
}

impl Table {
    /// Returns the facts about its models, and nothing else of them.
    fn facts(self) -> BTreeMap<ModelId, ModelConfig> {
        let as_of = self.as_of;
        let dated = |price: Price| Price { as_of: Some(as_of), ..price };
        let facts = |model: ModelConfig| ModelConfig {
            provider: model.provider,
            protocols: model.protocols,
            window: model.window,
            max_output: model.max_output,
            price: model.price.map(dated),
            efforts: model.efforts,
            thinking_budget: model.thinking_budget,
            sampling: model.sampling,
            tools: model.tools,
            images: model.images,
            ..ModelConfig::default()
        };
        self.models.into_iter().map(|(id, model)| (id, facts(model))).collect()
    }
}

#[cfg(test)]
mod tests {
    use forge_domain::Tokens;
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_fetched_table_changes_facts_and_nothing_else() {
        let table = "{ as_of: 2026-12-01, source: here, models: { gpt-5: { provider: anthropic, window: 5, \
                     extra_body: { store_x: true } }, new: { provider: anthropic, window: 6 } } }";
        let source = Source::new("models.yaml", table);
        let known = super::super::layers::built_in().unwrap();
        let models = fetched_models(&source, &known).unwrap().models;
        let facts =
            |id: &str| (models[id].provider.clone(), models[id].window, models[id].extra_body.clone());
        assert_eq!(facts("gpt-5"), (None, Some(Tokens::new(5)), None));
        let anthropic = forge_domain::ProviderId::new("anthropic").unwrap();
        assert_eq!(facts("new"), (Some(anthropic), Some(Tokens::new(6)), None));
        assert!(ModelTable::read(&Source::new("models.yaml", "models: {}")).is_err());
    }

    #[test]
    fn the_table_is_sound() {
        let models = shipped_models().unwrap().models;
        assert!(models.len() > 50);
        for (id, model) in &models {
            let window = model.window.unwrap_or_default();
            assert!(window >= Tokens::new(4_096), "{id}");
            assert!(model.max_output.is_none_or(|answer| answer < window), "{id}");
            let efforts = model.efforts.iter().flatten();
            assert!(efforts.is_sorted() && model.images.is_some(), "{id}");
            assert!(model.efforts.is_some() && model.protocols.is_some(), "{id}");
            let Some(price) = model.price else { continue };
            assert!(price.as_of.is_some() && price.input <= price.output, "{id}");
            assert!(price.cache_read.is_none_or(|read| read < price.input), "{id}");
            assert!(price.cache_write.is_none_or(|write| write >= price.input), "{id}");
            let Some(long) = price.long_prompt else { continue };
            assert!(long.above < window && long.input > price.input && long.output > price.output, "{id}");
            assert!(long.cache_read.is_none_or(|read| read < long.input), "{id}");
            assert_eq!(long.cache_read.is_some(), price.cache_read.is_some(), "{id}");
        }
        let price = models["gpt-4o-mini"].price.unwrap();
        let day = jiff::civil::date(2026, 11, 22);
        let yaml = "{ input: 0.15, output: 0.6, cache_read: 0.075 }";
        let expected: Price = serde_saphyr::from_str(yaml).unwrap();
        assert_eq!(price, Price { as_of: Some(day), ..expected });
    }
}
