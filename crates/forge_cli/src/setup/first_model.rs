//! The model of a first run, which no file and no flag names: that of a key, or of a local server.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use forge_domain::{Provider, ProviderId};
use forge_infra::{Key, OllamaProvider, OpenAiProvider, Secret};
use forge_services::workflow::ollama_address;

/// A built-in provider.
pub(crate) struct KnownProvider {
    pub(crate) name: &'static str,
    /// The variable that holds its key.
    pub(crate) variable: Option<&'static str>,
    /// A model to begin with; a local server's models are unknown.
    pub(crate) model: Option<&'static str>,
}

/// The built-in providers, in the order in which their keys count.
pub(crate) const KNOWN: [KnownProvider; 5] = [
    KnownProvider {
        name: "anthropic",
        variable: Some("ANTHROPIC_API_KEY"),
        model: Some("claude-sonnet-5-5"),
    },
    KnownProvider { name: "openai", variable: Some("OPENAI_API_KEY"), model: Some("gpt-5.4") },
    KnownProvider { name: "gemini", variable: Some("GEMINI_API_KEY"), model: Some("gemini-3.8-flash") },
    KnownProvider { name: "openrouter", variable: Some("OPENROUTER_API_KEY"), model: Some("openai/gpt-5.4") },
    KnownProvider { name: "ollama", variable: None, model: None },
];

/// The longest wait for a server that may not be there.
const PATIENCE: Duration = Duration::from_millis(500);

/// A chosen model and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FirstModel {
    /// The model as PROVIDER:MODEL.
    pub(crate) reference: String,
    why: String,
}

impl fmt::Display for FirstModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reference, why } = self;
        write!(f, "model {reference}: {why}. --model names another, `forge init` writes it down")
    }
}

/// Returns the model of the first key in `environment`, else the first one of a local Ollama, which is asked
/// for at most half a second.
pub(crate) fn find(environment: &BTreeMap<String, String>) -> Option<FirstModel> {
    of_keys(environment, one_model_of_openai).or_else(|| {
        let model = ollama_models(environment)?.into_iter().next()?;
        let why = "the first one of Ollama, as no key is set".to_owned();
        Some(FirstModel { reference: format!("ollama:{model}"), why })
    })
}

/// Returns the model of the first key; `own_server` knows that of a server that `OPENAI_BASE_URL` names.
fn of_keys(
    environment: &BTreeMap<String, String>,
    own_server: impl Fn(&str, &str) -> Option<String>,
) -> Option<FirstModel> {
    let set: Vec<&KnownProvider> = with_keys(environment).collect();
    set.iter().find_map(|known| {
        let variable = known.variable?;
        let server = value(environment, "OPENAI_BASE_URL").filter(|_| known.name == "openai");
        let model = match server {
            Some(server) => own_server(server, value(environment, variable)?)?,
            None => known.model?.to_owned(),
        };
        let others = set.iter().filter(|other| other.name != known.name).filter_map(|other| other.variable);
        let others: Vec<_> = others.collect();
        let why = match others.as_slice() {
            [] => format!("{variable} is set"),
            others => format!("{variable} is set, and comes before {}", others.join(", ")),
        };
        Some(FirstModel { reference: format!("{}:{model}", known.name), why })
    })
}

/// Returns the providers whose key is in the environment, in the order in which they count.
pub(crate) fn with_keys(
    environment: &BTreeMap<String, String>,
) -> impl Iterator<Item = &'static KnownProvider> {
    KNOWN.iter().filter(|known| known.variable.is_some_and(|name| value(environment, name).is_some()))
}

fn value<'a>(environment: &'a BTreeMap<String, String>, name: &str) -> Option<&'a str> {
    environment.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
}

/// Returns the models of an Ollama server on this machine; `None` if none answers at once.
pub(crate) fn ollama_models(environment: &BTreeMap<String, String>) -> Option<Vec<String>> {
    let url = match value(environment, "OLLAMA_HOST") {
        None => "http://localhost:11434".to_owned(),
        Some(host) => ollama_address(host),
    };
    models(&OllamaProvider::new(ProviderId::new("ollama").ok()?, &url, Key::None).ok()?)
}

/// Returns the model of the server that `OPENAI_BASE_URL` names, if it serves exactly one; the outer `None`
/// if no server is named.
pub(crate) fn own_server(environment: &BTreeMap<String, String>) -> Option<Option<String>> {
    let url = value(environment, "OPENAI_BASE_URL")?;
    Some(one_model_of_openai(url, value(environment, "OPENAI_API_KEY").unwrap_or("none")))
}

/// Returns the model of a server that speaks OpenAI's protocol, if it serves exactly one.
fn one_model_of_openai(url: &str, key: &str) -> Option<String> {
    let key = Key::Given(Secret::new(key));
    let models = models(&OpenAiProvider::new(ProviderId::new("openai").ok()?, url, key).ok()?)?;
    <[String; 1]>::try_from(models).ok().map(|[model]| model)
}

fn models(provider: &dyn Provider) -> Option<Vec<String>> {
    let asked = async { tokio::time::timeout(PATIENCE, provider.models()).await.ok()?.ok() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let models = runtime.block_on(asked)?;
    Some(models.into_iter().map(|model| model.id.to_string()).collect())
}

/// Returns what to do if there is no model at all.
pub(crate) fn nothing_configured() -> String {
    let keys = KNOWN.iter().filter_map(|known| Some((known.variable?, known.model?)));
    let keys: String = keys
        .map(|(variable, model)| {
            let export = format!("export {variable}=...");
            format!("      {export:<32}uses {model}\n")
        })
        .collect();
    format!(
        "no model is configured. Do one of these, and start again:\n  \
         - give a key; of several, the first in this order counts:\n{keys}  \
         - start a local model: install Ollama, then `ollama pull MODEL`\n  \
         - use a server of your own (llama.cpp, vLLM, LM Studio...):\n      \
         export OPENAI_BASE_URL=http://localhost:8080/v1 OPENAI_API_KEY=none\n      \
         forge --model openai:NAME\n  \
         - write a forge.yaml: `forge init` asks what it needs\n\
         `forge doctor` checks keys and servers"
    )
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_first_key_decides() {
        for (environment, expected) in [
            (&[][..], None),
            (&[("ANTHROPIC_API_KEY", " ")], None),
            (&[("OPENAI_API_KEY", "k")], Some("openai:gpt-5.4")),
            (&[("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k")], Some("anthropic:claude-sonnet-5-5")),
            (&[("OPENROUTER_API_KEY", "k"), ("GEMINI_API_KEY", "k")], Some("gemini:gemini-3.8-flash")),
            // A server of one's own serves what it serves.
            (&[("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", "http://one")], Some("openai:small")),
            (&[("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", "http://many")], None),
        ] {
            let environment: BTreeMap<_, _> =
                environment.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
            let one = |url: &str, _: &str| (url == "http://one").then(|| "small".to_owned());
            let actual = of_keys(&environment, one).map(|first| first.reference);
            assert_eq!(actual.as_deref(), expected, "{environment:?}");
        }
    }

    #[test]
    fn what_is_chosen_is_in_the_table_of_models() {
        let workflow = forge_services::workflow::load(&Default::default()).unwrap();
        for known in KNOWN.iter().filter(|known| known.name != "openrouter") {
            let Some(model) = known.model else { continue };
            let model = workflow.model(&forge_domain::ModelId::new(model).unwrap()).unwrap();
            assert_eq!(model.reference.provider.as_str(), known.name);
            assert!(model.price.is_some(), "{}", model.reference);
        }
    }
}
