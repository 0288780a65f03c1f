//! The layer that sets a value.

use std::fmt;

use forge_domain::Workflow;
use serde::Serialize;
use serde_json::Value;

use super::layers::{SEARCH_VARIABLE, built_in, own_layers};
use super::trust::{Trust, narrow};
use super::yaml::Outline;
use super::{Layers, Source, reader};

/// The layer that sets a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "layer", rename_all = "snake_case")]
pub enum Origin {
    /// No layer: this is the default.
    Default,
    /// The workflow that every other one starts from.
    BuiltIn,
    /// A file.
    File {
        /// The file's name as the user knows it.
        source: String,
        /// The line of the key, from 1.
        line: usize,
    },
    /// An environment variable.
    Environment {
        /// Its name.
        variable: &'static str,
    },
    /// The command line.
    Flag {
        /// The flag.
        flag: &'static str,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::BuiltIn => f.write_str("built in"),
            Self::File { source, line } => write!(f, "{source}:{line}"),
            Self::Environment { variable } => write!(f, "environment variable {variable}"),
            Self::Flag { flag } => write!(f, "flag {flag}"),
        }
    }
}

/// The content of each file of a workflow, to find the origin of a value.
#[derive(Debug)]
pub struct Origins<'a> {
    layers: &'a Layers,
    /// The files, the one that wins first.
    files: Vec<File<'a>>,
    built_in: Value,
}

#[derive(Debug)]
struct File<'a> {
    source: &'a Source,
    outline: Outline,
    says: Value,
}

impl<'a> Origins<'a> {
    /// Reads the layers; a file that does not load counts as empty.
    pub fn of(layers: &'a Layers) -> Self {
        let files = layers.files().rev();
        let files = files
            .map(|source| File {
                source,
                outline: Outline::of(&source.text),
                says: layer_values(effective_layer(layers, source)),
            })
            .collect();
        Self { layers, files, built_in: layer_values(built_in().ok()) }
    }

    /// Returns the origin of the value at `path`, such as `["agents", "reader", "compact", "max_tokens"]`.
    /// Agents are named by id.
    pub fn origin(&self, path: &[&str]) -> Origin {
        if let Some(origin) = self.outside_files(path) {
            return origin;
        }
        // Layers are merged down to the fields of an agent, a provider or a model; a field's content is
        // replaced as a whole.
        let merged = match path {
            ["agents" | "providers" | "models", ..] => 3,
            ["variables" | "checkpoint", ..] => 2,
            _ => 1,
        };
        let whole = &path[..path.len().min(merged)];
        let saying = || self.files.iter().filter(|file| at(&file.says, whole).is_some());
        let file = match is_limit(path) {
            false => saying().next(),
            // Of limits the smallest counts, and of two that are the same the one that wins else.
            true => saying().reduce(|best, other| {
                let (found, least) = (at(&other.says, path), at(&best.says, path));
                if found.zip(least).is_some_and(|(found, least)| is_smaller(found, least)) {
                    other
                } else {
                    best
                }
            }),
        };
        if let Some(file) = file {
            let place = file.outline.nearest(&dotted_path(path)).filter(|_| at(&file.says, path).is_some());
            return place.map_or(Origin::Default, |place| Origin::File {
                source: file.source.name.clone(),
                line: place.position.line,
            });
        }
        if at(&self.built_in, path).is_some() { Origin::BuiltIn } else { Origin::Default }
    }

    /// Returns what each file says at `path`, with its place, the latest layer first. Rules for calls and
    /// hooks hold of every layer.
    pub fn all(&self, path: &[&str]) -> Vec<(Value, Origin)> {
        let said = self.files.iter().filter_map(|file| {
            let value = at(&file.says, path)?.clone();
            let line = file.outline.nearest(&dotted_path(path))?.position.line;
            Some((value, Origin::File { source: file.source.name.clone(), line }))
        });
        said.collect()
    }

    fn outside_files(&self, path: &[&str]) -> Option<Origin> {
        let environment =
            |variable: &'static str| self.layers.variable(variable).map(|_| Origin::Environment { variable });
        let flag = |value: &Option<String>, flag: &'static str| value.as_ref().map(|_| Origin::Flag { flag });
        let flags = &self.layers.flags;
        match path {
            ["agents", _, "model"] => flag(&flags.model, "--model").or_else(|| environment("FORGE_MODEL")),
            ["default_provider"] => {
                flag(&flags.provider, "--provider").or_else(|| environment("FORGE_PROVIDER"))
            }
            ["providers", "openai", "base_url"] => environment("OPENAI_BASE_URL"),
            ["providers", "anthropic", "base_url"] => environment("ANTHROPIC_BASE_URL"),
            ["tool_settings", "web_search", "endpoint"] => environment(SEARCH_VARIABLE),
            ["checkpoint", "store"] => flag(&flags.store, "--store").or_else(|| environment("FORGE_STORE")),
            ["budget", "tokens"] => flags.budget.tokens.map(|_| Origin::Flag { flag: "--budget-tokens" }),
            ["budget", "cost"] => flags.budget.cost.map(|_| Origin::Flag { flag: "--budget-cost" }),
            _ => None,
        }
    }
}

/// Returns what a file sets, as far as it counts.
fn effective_layer(layers: &Layers, source: &Source) -> Option<Workflow> {
    let read = reader::read(source).ok()?;
    let is_project = layers.project.as_ref() == Some(source);
    if layers.trust == Trust::Granted || !is_project {
        return Some(read);
    }
    Some(narrow(&own_layers(layers, &mut reader::read).ok()?, read).0)
}

/// Checks whether the value at `path` is a limit, of which the smallest of all layers counts.
fn is_limit(path: &[&str]) -> bool {
    matches!(
        path,
        ["budget", ..] | ["agents", _, "max_turns" | "max_iterations" | "max_repetitions" | "budget", ..]
    )
}

/// Checks whether a number, or one of those in a mapping, is smaller than in the other.
fn is_smaller(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.iter().any(|(key, value)| other.get(key).is_none_or(|other| is_smaller(value, other)))
        }
        (one, other) => one.as_f64().zip(other.as_f64()).is_some_and(|(one, other)| one < other),
    }
}

/// Returns what a layer sets, with its agents by id; nothing if it cannot be read.
fn layer_values(workflow: Option<Workflow>) -> Value {
    let mut says = workflow.and_then(|workflow| serde_json::to_value(workflow).ok()).unwrap_or_default();
    if let Some(agents) = says.get_mut("agents") {
        let list = agents.as_array().cloned().unwrap_or_default();
        let by_id = list.into_iter().filter_map(|agent| Some((agent["id"].as_str()?.to_owned(), agent)));
        *agents = Value::Object(by_id.collect());
    }
    says
}

fn at<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, key| value.get(key)).filter(|value| !value.is_null())
}

fn dotted_path(path: &[&str]) -> String {
    path.join(".")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::Flags;
    use super::*;

    const USER: &str = "\
agents:
  a: { model: m, temperature: 0.1 }
  b:
    compact: { max_tokens: 5, token_threshold: 9 }
variables: { x: 1, y: 1 }
checkpoint: { store: none }
";
    const PROJECT: &str = "\
variables: { x: 2 }
agents:
  - id: b
    top_p: 1
    compact: { token_threshold: 7 }
models:
  gpt-4o: { window: 9 }
budget: { tokens: 5 }
checkpoint: { interval: 3 }
";

    #[test]
    fn the_layer_that_wins_is_named() {
        let layers = |environment: &[(&str, &str)], model: Option<&str>| Layers {
            user: Some(Source::new("user.yaml", USER)),
            project: Some(Source::new("forge.yaml", PROJECT)),
            environment: environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            flags: Flags { model: model.map(str::to_owned), ..Flags::default() },
            ..Layers::default()
        };
        type Variables = &'static [(&'static str, &'static str)];
        let cases: [(Variables, Option<&str>, &[&str], &str); 20] = [
            (&[], None, &["agents", "a", "model"], "user.yaml:2"),
            (&[("FORGE_MODEL", "e")], None, &["agents", "a", "model"], "environment variable FORGE_MODEL"),
            (&[("FORGE_MODEL", "e")], Some("f"), &["agents", "a", "model"], "flag --model"),
            (&[], None, &["agents", "a", "top_p"], "default"),
            (&[], None, &["agents", "b", "top_p"], "forge.yaml:4"),
            (&[], None, &["agents", "b", "compact", "token_threshold"], "forge.yaml:5"),
            // The block is replaced as a whole: the values of the user's file are gone.
            (&[], None, &["agents", "b", "compact", "max_tokens"], "default"),
            (&[], None, &["models", "gpt-4o", "window"], "forge.yaml:7"),
            (&[], None, &["models", "gpt-4o", "max_output"], "built in"),
            (&[], None, &["providers", "openai", "base_url"], "built in"),
            (
                &[("OPENAI_BASE_URL", "http://h")],
                None,
                &["providers", "openai", "base_url"],
                "environment variable OPENAI_BASE_URL",
            ),
            (&[], None, &["variables", "x"], "forge.yaml:1"),
            (&[], None, &["variables", "y"], "user.yaml:5"),
            (&[], None, &["counting"], "default"),
            (&[("FORGE_STORE", "none")], None, &["checkpoint", "store"], "environment variable FORGE_STORE"),
            (
                &[(SEARCH_VARIABLE, "http://h/?q={query}")],
                None,
                &["tool_settings", "web_search", "endpoint"],
                "environment variable FORGE_SEARCH_ENDPOINT",
            ),
            // Field by field.
            (&[], None, &["checkpoint", "store"], "user.yaml:6"),
            (&[], None, &["checkpoint", "interval"], "forge.yaml:9"),
            (&[], None, &["budget", "tokens"], "forge.yaml:8"),
            (&[], None, &["budget", "cost"], "default"),
        ];
        for (environment, model, path, expected) in cases {
            let layers = layers(environment, model);
            assert_eq!(Origins::of(&layers).origin(path).to_string(), expected, "{path:?}");
        }
        let mut layers = layers(&[], None);
        layers.flags.budget.cost = forge_domain::Dollars::new(2.0);
        let origins = Origins::of(&layers);
        assert_eq!(origins.origin(&["budget", "cost"]).to_string(), "flag --budget-cost");
        assert_eq!(origins.origin(&["budget", "tokens"]).to_string(), "forge.yaml:8");
    }
}
