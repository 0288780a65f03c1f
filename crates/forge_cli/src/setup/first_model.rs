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

/// The advice if a server is named and its key is not. Its address may hold one.
const WITHOUT_KEY: &str = "OPENAI_BASE_URL names a server, but OPENAI_API_KEY is not set; if the server needs no key:\n  \
                           export OPENAI_API_KEY=none";

/// The longest wait for a local server that may not be there.
const PATIENCE: Duration = Duration::from_millis(500);
/// The longest wait for a server that the user names.
const PATIENCE_WITH_NAMED: Duration = Duration::from_secs(3);

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

/// Returns the model that a flag names, else `FORGE_MODEL`.
pub(crate) fn named(flag: Option<&String>, environment: &BTreeMap<String, String>) -> Option<String> {
    let variable = || environment.get("FORGE_MODEL").filter(|model| !model.trim().is_empty());
    flag.or_else(variable).cloned()
}

/// Returns the model of the first key in `environment`, else the first one of a local Ollama, which is asked
/// for at most half a second.
///
/// # Errors
/// Why there is no model, and what to do. If a key is set, no other provider takes its place: what the user
/// types would go to a company that they did not choose.
pub(crate) fn find(environment: &BTreeMap<String, String>) -> Result<FirstModel, String> {
    if let Some(of_key) = of_keys(environment, models_of_openai) {
        return of_key;
    }
    let first = ollama_models(environment).and_then(|models| models.into_iter().next());
    let model = first.ok_or_else(|| match value(environment, "OPENAI_BASE_URL") {
        Some(_) => WITHOUT_KEY.to_owned(),
        None => nothing_configured(),
    })?;
    let why = "the first one of Ollama, as no key is set".to_owned();
    Ok(FirstModel { reference: format!("ollama:{model}"), why })
}

/// Returns the model of the first key; `own_server` knows those of a server that `OPENAI_BASE_URL` names.
fn of_keys(
    environment: &BTreeMap<String, String>,
    own_server: impl Fn(&str, &str) -> Result<Vec<String>, String>,
) -> Option<Result<FirstModel, String>> {
    let set: Vec<&KnownProvider> = with_keys(environment).collect();
    let known = set.first()?;
    let variable = known.variable?;
    let server = value(environment, "OPENAI_BASE_URL").filter(|_| known.name == "openai");
    let model = match server {
        Some(server) => only_model(server, own_server(server, value(environment, variable)?)),
        None => Ok(known.model?.to_owned()),
    };
    let others: Vec<_> = set.iter().skip(1).filter_map(|other| other.variable).collect();
    let why = match others.as_slice() {
        [] => format!("{variable} is set"),
        others => format!("{variable} is set, and comes before {}", others.join(", ")),
    };
    Some(model.map(|model| FirstModel { reference: format!("{}:{model}", known.name), why }))
}

/// Returns the model of a server that has one alone.
///
/// # Errors
/// The reason why it is not known which, and what to do.
fn only_model(server: &str, models: Result<Vec<String>, String>) -> Result<String, String> {
    match models {
        Ok(models) => match models.as_slice() {
            [only] => Ok(only.clone()),
            [] => Err(format!(
                "the server {server} (OPENAI_BASE_URL) lists no model: name one, as in `forge --model openai:NAME`"
            )),
            [first, ..] => {
                let listed = first_names(&models);
                Err(format!(
                    "the server {server} (OPENAI_BASE_URL) has several models: {listed}. Name one, as in \
                     `forge --model openai:{first}`"
                ))
            }
        },
        Err(why) => Err(format!(
            "the server that OPENAI_BASE_URL names cannot be asked for its models: {}. Start it, correct the \
             address, or name its model: `forge --model openai:NAME`",
            why.trim_end_matches(['.', '?'])
        )),
    }
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
    let provider = OllamaProvider::new(ProviderId::new("ollama").ok()?, &url, Key::None).ok()?;
    models(&provider, PATIENCE).ok()
}

/// A server of the user's own, which `OPENAI_BASE_URL` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnServer {
    pub(crate) url: String,
    /// The model, if it has one alone.
    pub(crate) model: Option<String>,
}

impl OwnServer {
    /// Returns the server that is named. Nothing is asked yet.
    pub(crate) fn named_in(environment: &BTreeMap<String, String>) -> Option<Self> {
        Some(Self { url: value(environment, "OPENAI_BASE_URL")?.to_owned(), model: None })
    }

    /// Asks the server for its model.
    pub(crate) fn with_model(self, environment: &BTreeMap<String, String>) -> Self {
        let models = models_of_openai(&self.url, value(environment, "OPENAI_API_KEY").unwrap_or("none"));
        Self { model: only_model(&self.url, models).ok(), ..self }
    }
}

/// Returns the first names of a list, separated by commas.
pub(crate) fn first_names(names: &[String]) -> String {
    const MOST: usize = 10;
    let more = if names.len() > MOST { ", ..." } else { "" };
    format!("{}{more}", names[..names.len().min(MOST)].join(", "))
}

/// Returns the models of a server that speaks OpenAI's protocol.
///
/// # Errors
/// The reason why it does not tell.
fn models_of_openai(url: &str, key: &str) -> Result<Vec<String>, String> {
    let id = ProviderId::new("openai").map_err(|error| error.to_string())?;
    let provider = OpenAiProvider::new(id, url, Key::Given(Secret::new(key)));
    models(&provider.map_err(|error| error.to_string())?, PATIENCE_WITH_NAMED)
}

fn models(provider: &dyn Provider, patience: Duration) -> Result<Vec<String>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let answer = runtime.block_on(async { tokio::time::timeout(patience, provider.models()).await });
    let answer = answer.map_err(|_| format!("it did not answer within {} s", patience.as_secs_f32()))?;
    let models = answer.map_err(|error| error.to_string())?;
    Ok(models.into_iter().map(|model| model.id.to_string()).collect())
}

/// Returns what to do if there is no model at all.
fn nothing_configured() -> String {
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
            // Its prompts go to no other server.
            (
                &[("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", "http://many"), ("GEMINI_API_KEY", "k")],
                Some(
                    "the server http://many (OPENAI_BASE_URL) has several models: small, large. Name one, as in \
                      `forge --model openai:small`",
                ),
            ),
            (
                &[("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", "down")],
                Some(
                    "the server that OPENAI_BASE_URL names cannot be asked for its models: it is down. Start it, \
                      correct the address, or name its model: `forge --model openai:NAME`",
                ),
            ),
        ] {
            let environment: BTreeMap<_, _> =
                environment.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
            let models = |url: &str, _: &str| match url {
                "http://one" => Ok(vec!["small".to_owned()]),
                "http://many" => Ok(vec!["small".to_owned(), "large".to_owned()]),
                _ => Err("it is down".to_owned()),
            };
            let actual = of_keys(&environment, models);
            let actual = actual.map(|first| first.map_or_else(|why| why, |first| first.reference));
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
