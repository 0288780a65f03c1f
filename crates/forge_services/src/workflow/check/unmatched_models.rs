//! Entries of `models` that match no agent's model, though one was probably meant.

use std::collections::BTreeSet;

use forge_domain::{ModelId, WindowSource, Workflow};

use super::super::nearest::nearest;
use super::super::{Finding, Layers, reader};

/// Returns the entries of `models` in the files of `layers` that match no agent's model, but are named almost
/// like one without an entry, whose window would be assumed. None is an error: `--model` can name any model.
pub fn unmatched_models(layers: &Layers, workflow: &Workflow) -> Vec<Finding> {
    let mut matched: BTreeSet<String> = BTreeSet::new();
    let mut unknown: BTreeSet<String> = BTreeSet::new();
    for id in workflow.agents.iter().flat_map(|agent| {
        let summarizer = agent.compact.as_ref().and_then(|compact| compact.model.as_ref());
        agent.model.iter().chain(summarizer)
    }) {
        let Ok(model) = workflow.model_facts(id) else { continue };
        let names = [id.to_string(), model.reference.to_string(), model.reference.model.to_string()];
        let has_entry = names.iter().any(|name| workflow.models.contains_key(name.as_str()));
        if model.window_source == WindowSource::Assumed && !has_entry {
            unknown.extend(names.clone());
        }
        matched.extend(names);
    }
    let entries: BTreeSet<ModelId> =
        layers.files().flat_map(|source| reader::read_on(source).0.models.into_keys()).collect();
    let unmatched = entries.into_iter().filter(|id| !matched.contains(id.as_str()));
    unmatched
        .filter_map(|id| {
            let meant = nearest(id.as_str(), unknown.iter().map(String::as_str))?;
            Some(Finding {
                path: format!("models.{id}"),
                what: format!("no agent uses the model `{id}`"),
                hint: Some(format!("did you mean `{meant}`?")),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::super::{Source, load};
    use super::*;

    #[test]
    fn an_entry_that_almost_names_a_model_without_one_is_found() {
        let none: &[&str] = &[];
        for (models, expected) in [
            ("'local:tiny': { window: 8000 }", none),
            ("tiny: { window: 8000 }", none),
            ("'locl:tiny': { window: 8000 }", &["models.locl:tiny: did you mean `local:tiny`?"]),
            ("tinny: { window: 8000 }", &["models.tinny: did you mean `tiny`?"]),
            ("'local:huge': { window: 8000 }", none),
            // Two models of one family.
            ("'local:tiny': { window: 8000 }, 'local:tiny2': { window: 9000 }", none),
        ] {
            let yaml = format!(
                "providers: {{ local: {{ base_url: 'http://h/v1' }} }}\nmodels: {{ {models} }}\n\
                 agents: {{ a: {{ model: 'local:tiny' }} }}\n"
            );
            let layers = Layers { project: Some(Source::new("f", yaml)), ..Layers::default() };
            let found: Vec<String> = unmatched_models(&layers, &load(&layers).unwrap())
                .into_iter()
                .map(|finding| format!("{}: {}", finding.path, finding.hint.unwrap_or_default()))
                .collect();
            assert_eq!(found, expected, "{models}");
        }
    }
}
