//! The table of models that is shipped: windows, longest answers and prices, with the day they are of.

use std::collections::BTreeMap;

use forge_domain::{ModelConfig, ModelId, Price, Workflow};
use jiff::civil::Date;
use serde::Deserialize;

use super::WorkflowError;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// The day of all its prices.
    as_of: Date,
    models: BTreeMap<ModelId, ModelConfig>,
}

/// Returns the layer that knows the shipped models.
pub(super) fn shipped_models() -> Result<Workflow, WorkflowError> {
    let table: Table = serde_saphyr::from_str(include_str!("../models.yaml"))
        .map_err(|error| WorkflowError::in_layer("built-in models", &error.to_string()))?;
    let dated = |price: Price| Price { as_of: Some(table.as_of), ..price };
    let models = table.models.into_iter().map(|(id, model)| {
        let price = model.price.map(dated);
        (id, ModelConfig { price, ..model })
    });
    Ok(Workflow { models: models.collect(), ..Workflow::default() })
}

#[cfg(test)]
mod tests {
    use forge_domain::Tokens;
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_table_is_sound() {
        let models = shipped_models().unwrap().models;
        assert!(models.len() > 50);
        for (id, model) in &models {
            let window = model.window.unwrap_or_default();
            assert!(window >= Tokens::new(4_096), "{id}");
            assert!(model.max_output.is_none_or(|answer| answer < window), "{id}");
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
