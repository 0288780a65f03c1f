//! One layer from its YAML, and where exactly it is at fault.

use forge_domain::Workflow;
use serde::de::DeserializeOwned;
use serde_path_to_error::{Segment, Track};
use serde_saphyr::{Error, Location};

use super::explanation::Explanation;
use super::key_path::{KeyPath, Step};
use super::outline::{Node, Outline};
use super::{Position, Source, WorkflowError};

/// The layer that `source` holds; an empty text is an empty layer.
///
/// # Errors
/// [`WorkflowError`] for the first fault: no YAML, an unknown key, a key twice, a value of the wrong kind.
pub(super) fn read(source: &Source) -> Result<Workflow, WorkflowError> {
    read_as(source)
}

/// The same of any type.
pub(super) fn read_as<T: DeserializeOwned>(source: &Source) -> Result<T, WorkflowError> {
    let options = serde_saphyr::options! { with_snippet: false };
    let mut track = Track::new();
    serde_saphyr::with_deserializer_from_str_with_options(&source.text, options, |yaml| {
        T::deserialize(serde_path_to_error::Deserializer::new(yaml, &mut track))
    })
    .map_err(|error| refusal(source, &track.path(), &error))
}

fn refusal(source: &Source, tracked: &serde_path_to_error::Path, error: &Error) -> WorkflowError {
    let outline = Outline::of(&source.text);
    let fault = Fault::of(&outline, steps(tracked), plain(error));
    let found = outline.find(&fault.path);
    let explanation = Explanation::of(fault.error, &outline.named(fault.path.clone()), found, fault.first);
    let path = outline.named(fault.path).to_string();
    WorkflowError::at(source, fault.position, &path, &explanation.what).with_hint(explanation.hint.as_deref())
}

/// What is wrong, and where.
struct Fault<'a> {
    error: &'a Error,
    path: KeyPath,
    position: Option<Position>,
    /// Where a key that stands twice stands first.
    first: Option<Position>,
}

impl<'a> Fault<'a> {
    /// The parser's place is exact for what it refuses itself. For a value that it read and a type refused, it may be
    /// the start of the surrounding block; there the path is exact and leads to the place.
    fn of(outline: &Outline, mut path: KeyPath, error: &'a Error) -> Self {
        let mut position = error.location().and_then(known_position);
        let mut first = None;
        match error {
            Error::DuplicateMappingKey { key, .. } => {
                path.0.extend(key.clone().map(Step::Key));
                first = outline.nearest(&path.to_string()).map(|place| place.position);
            }
            error if is_about_a_value(error) => {
                if let Some(agent) = faulty_agent(outline, &path, error) {
                    path = agent;
                }
                position = outline.find(&path).map(Node::start).or(position);
            }
            _ => {}
        }
        Self { error, path, position, first }
    }
}

/// The error itself, without what was wrapped around it.
fn plain(error: &Error) -> &Error {
    match error {
        Error::WithSnippet { error, .. } | Error::AliasError { error, .. } => plain(error),
        error => error,
    }
}

fn known_position(location: Location) -> Option<Position> {
    let position = Position { line: location.line() as usize, column: location.column() as usize };
    (position.line > 0 && position.column > 0).then_some(position)
}

fn steps(path: &serde_path_to_error::Path) -> KeyPath {
    let steps = path.iter().filter_map(|segment| match segment {
        Segment::Map { key } => Some(Step::Key(key.clone())),
        Segment::Seq { index } => Some(Step::Item(*index)),
        Segment::Enum { variant } => Some(Step::Key(variant.clone())),
        Segment::Unknown => None,
    });
    KeyPath(steps.collect())
}

const fn is_about_a_value(error: &Error) -> bool {
    matches!(
        error,
        Error::Message { .. }
            | Error::Unexpected { .. }
            | Error::InvalidScalar { .. }
            | Error::InvalidBooleanStrict { .. }
            | Error::NullIntoString { .. }
            | Error::SerdeInvalidType { .. }
            | Error::SerdeInvalidValue { .. }
            | Error::SerdeInvalidLength { .. }
            | Error::SerdeUnknownVariant { .. }
            | Error::SerdeMissingField { .. }
    )
}

/// Which agent the list or map of agents as a whole was refused for.
fn faulty_agent(outline: &Outline, path: &KeyPath, error: &Error) -> Option<KeyPath> {
    let is_refused_whole = matches!(error, Error::Message { .. } | Error::SerdeMissingField { .. })
        && matches!(path.0.as_slice(), [Step::Key(agents)] if agents == "agents");
    let agents = is_refused_whole.then(|| outline.find(path)).flatten()?;
    let below = |steps: Vec<Step>| KeyPath(path.0.iter().cloned().chain(steps).collect());
    let id_of =
        |agent: &Node| agent.entry("id").and_then(|entry| entry.value.as_ref()?.text().map(str::to_owned));
    let ids: Vec<_> = agents.items().iter().map(id_of).collect();
    let in_list = ids.iter().enumerate().find_map(|(position, id)| match id {
        None if agents.items()[position].entry("<<").is_none() => Some(vec![Step::Item(position)]),
        Some(_) if ids[..position].contains(id) => {
            Some(vec![Step::Item(position), Step::Key("id".to_owned())])
        }
        _ => None,
    });
    let in_map = || {
        agents.entries().iter().find_map(|entry| {
            let id = id_of(entry.value.as_ref()?)?;
            (id != entry.key).then(|| vec![Step::Key(entry.key.clone()), Step::Key("id".to_owned())])
        })
    };
    in_list.or_else(in_map).map(below)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_empty_text_is_an_empty_layer() {
        for yaml in ["", "\n\n", "# nothing yet\n", "{}", "agents: []\n", "agents: {}\n", "\u{feff}"] {
            assert_eq!(read(&Source::new("forge.yaml", yaml)), Ok(Workflow::default()), "{yaml:?}");
        }
    }
}
