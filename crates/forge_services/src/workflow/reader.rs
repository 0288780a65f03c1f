//! One layer from its YAML, and the exact positions of its faults.

use forge_domain::Workflow;
use serde::de::DeserializeOwned;
use serde_saphyr::{Error, Location, Options};

use super::error::lines_of;
use super::explanation::Explanation;
use super::yaml::{
    KeyPath, Node, Outline, PathReader, Reading, RepeatedKey, Step, Unset, with_quoted_variables,
};
use super::{Position, Source, WorkflowError};

/// Reads the layer in `source`; an empty text is an empty layer.
///
/// # Errors
/// [`WorkflowError`] for the first fault: no YAML, an unknown key, a key twice, a value of the wrong kind.
pub(super) fn read(source: &Source) -> Result<Workflow, WorkflowError> {
    read_as(source)
}

/// Reads `source` as any type.
pub(super) fn read_as<T: DeserializeOwned>(source: &Source) -> Result<T, WorkflowError> {
    let reading = Reading::default();
    let (text, unset) = with_quoted_variables(source);
    if let Some(unset) = unset.first() {
        return Err(not_set(source, &Outline::of(&source.text), unset));
    }
    parse(&text, serde_saphyr::options! { with_snippet: false }, source, &reading)
        .map_err(|error| refusal(source, &Outline::of(&source.text), &reading, &error).1)
}

/// Parses the text of `source`, in which values may name its variables.
fn parse<T: DeserializeOwned>(
    text: &str,
    mut options: Options,
    source: &Source,
    reading: &Reading,
) -> Result<T, Error> {
    if let Some(variables) = &source.variables {
        options = options.with_properties(variables.pairs().collect());
    }
    serde_saphyr::with_deserializer_from_str_with_options(text, options, |yaml| {
        T::deserialize(PathReader::new(yaml, reading))
    })
}

/// Most faults that are looked for in one text: each is one more reading of it.
const MAX_FAULTS: usize = 100;
/// Most bytes that are read to find them; large texts have fewer readings.
const MAX_READ: usize = 32 << 20;

/// Reads the layer in `source` without its faulty parts, and returns all faults. After a text that is not
/// YAML nothing is read.
pub(super) fn read_on(source: &Source) -> (Workflow, Vec<WorkflowError>) {
    let outline = Outline::of(&source.text);
    let (text, unset) = with_quoted_variables(source);
    let (mut reading, mut faults) = (Reading::default(), Vec::new());
    for unset in unset {
        faults.push(not_set(source, &outline, &unset));
        reading.skipped.push(unset.path);
    }
    let most = (MAX_READ / source.text.len().max(1)).clamp(1, MAX_FAULTS);
    while faults.len() < most {
        let (at, fault) = match read_without(&text, source, &reading) {
            Ok(workflow) => {
                faults.extend(
                    outline.repeated_keys().iter().map(|repeated| second_time(source, &outline, repeated)),
                );
                return (workflow, faults);
            }
            Err(error) if is_past_reading(plain(&error)) => {
                let fault = refusal(source, &outline, &reading, &error).1;
                // A value that was refused already may be none that the parser itself can pass over.
                let is_told =
                    |known: &WorkflowError| known.position == fault.position && known.path == fault.path;
                if !faults.iter().any(is_told) {
                    faults.push(fault);
                }
                break;
            }
            Err(error) => refusal(source, &outline, &reading, &error),
        };
        // What is around a key that was skipped may lack it now.
        if !reading.skipped.iter().any(|path| path.0.starts_with(&at.0)) {
            faults.push(fault);
        }
        // An agent that exists already is skipped as a whole: without its id it would lack one.
        let at = match at.0.as_slice() {
            [agents, Step::Item(item), Step::Key(id)] if id == "id" => {
                KeyPath(vec![agents.clone(), Step::Item(*item)])
            }
            _ => at,
        };
        let Some(next) = (0..=at.0.len())
            .rev()
            .map(|n| KeyPath(at.0[..n].to_vec()))
            .find(|path| !reading.skipped.contains(path))
        else {
            break;
        };
        if next.0.is_empty() {
            break;
        }
        reading.skipped.push(next);
    }
    (Workflow::default(), faults)
}

fn read_without(text: &str, source: &Source, reading: &Reading) -> Result<Workflow, Error> {
    let options = serde_saphyr::options! {
        with_snippet: false,
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::FirstWins,
    };
    parse(text, options, source, reading)
}

/// Checks whether an error is about the text, and not about something in it that could be skipped.
fn is_past_reading(error: &Error) -> bool {
    !is_about_a_value(error) && !matches!(error, Error::SerdeUnknownField { .. })
}

/// Returns the error for a variable in a quoted value that is not set.
fn not_set(source: &Source, outline: &Outline, unset: &Unset) -> WorkflowError {
    let explanation = Explanation::of_unset(&unset.name, unset.why.as_deref());
    explained(source, outline, &unset.path, Some(unset.position), &explanation)
}

/// Returns the error for a key that its mapping has already.
fn second_time(source: &Source, outline: &Outline, repeated: &RepeatedKey) -> WorkflowError {
    let explanation = Explanation::of_second(&repeated.path, Some(repeated.first));
    explained(source, outline, &repeated.path, Some(repeated.second), &explanation)
}

/// Returns the error at a place, whose path names agents by their ids.
fn explained(
    source: &Source,
    outline: &Outline,
    path: &KeyPath,
    position: Option<Position>,
    explanation: &Explanation,
) -> WorkflowError {
    let path = outline.with_agent_ids(path.clone()).to_string();
    WorkflowError::at(source, position, &path, &explanation.what).with_hint(explanation.hint.as_deref())
}

/// Returns the position of a fault, by the items of lists, and its description.
fn refusal(source: &Source, outline: &Outline, reading: &Reading, error: &Error) -> (KeyPath, WorkflowError) {
    let fault = Fault::of(outline, reading.take_refused(), plain(error), &reading.skipped);
    let found = outline.find(&fault.path);
    let mut explanation =
        Explanation::of(fault.error, &outline.with_agent_ids(fault.path.clone()), found, fault.first);
    if fault.is_key_too_deep(&source.text) {
        explanation.hint = Some("give this key the indentation of the one above it".to_owned());
    }
    let error = explained(source, outline, &fault.path, fault.position, &explanation);
    (fault.path, error)
}

/// A fault, and its position.
struct Fault<'a> {
    error: &'a Error,
    path: KeyPath,
    position: Option<Position>,
    /// The first position of a key that occurs twice.
    first: Option<Position>,
}

impl<'a> Fault<'a> {
    /// Locates a fault. The parser's position is exact for what it refuses itself. For a value that it read
    /// and a type refused, it may be the start of the surrounding block; there the path is exact and leads to
    /// the position.
    fn of(outline: &Outline, mut path: KeyPath, error: &'a Error, skipped: &[KeyPath]) -> Self {
        let mut position = error.location().and_then(known_position);
        let mut first = None;
        match error {
            Error::DuplicateMappingKey { key, .. } => {
                path.0.extend(key.clone().map(Step::Key));
                first = outline.nearest(&path.to_string()).map(|place| place.position);
            }
            Error::SerdeUnknownField { .. } => position = outline.key_at(&path).or(position),
            error if is_about_a_value(error) => {
                if let Some(agent) = faulty_agent(outline, &path, error, skipped) {
                    path = agent;
                }
                position = outline.find(&path).map(Node::start).or(position);
                first = first_of_id(outline, &path);
            }
            // The parser names the place of what an alias repeats.
            Error::MergeValueNotMapOrSeqOfMaps { .. } => {
                let merge = outline.find(&path).and_then(|node| node.entry("<<"));
                position = merge.map(|entry| entry.key.start()).or(position);
            }
            Error::Budget { .. } => {
                position = outline.nearest(&path.to_string()).map(|place| place.position).or(position);
            }
            _ => {}
        }
        // A key merged in by `<<` is written elsewhere: its mapping is the nearest known position.
        let position = position.or_else(|| outline.nearest(&path.to_string()).map(|place| place.position));
        Self { error, path, position, first }
    }

    /// Checks whether a key in `text` is indented deeper than the one above it, so that it would continue
    /// that one's value.
    fn is_key_too_deep(&self, text: &str) -> bool {
        let Error::ExternalMessage { msg, .. } = self.error else { return false };
        let Some(Position { line, column }) = self.position.filter(|position| position.line > 1) else {
            return false;
        };
        let key: String =
            lines_of(text).nth(line - 1).into_iter().flat_map(str::chars).take(column - 1).collect();
        msg.contains("mapping values are not allowed") && !key.trim().is_empty() && !key.contains(':')
    }
}

/// Returns the position of the first agent's id if `path` leads to the same id of a later one.
fn first_of_id(outline: &Outline, path: &KeyPath) -> Option<Position> {
    fn id_of(agent: &Node) -> Option<&Node> {
        agent.value("id")
    }
    let [agents, Step::Item(at), Step::Key(id)] = path.0.as_slice() else { return None };
    let agents = outline.find(&KeyPath(vec![agents.clone()])).filter(|_| id == "id")?.items();
    let text = id_of(agents.get(*at)?)?.text()?;
    agents[..*at].iter().filter_map(id_of).find(|id| id.text() == Some(text)).map(Node::start)
}

/// Returns the error itself, without what was wrapped around it.
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

/// Returns the agent that the list or map of agents as a whole was refused for.
fn faulty_agent(outline: &Outline, path: &KeyPath, error: &Error, skipped: &[KeyPath]) -> Option<KeyPath> {
    let is_refused_whole = matches!(error, Error::Message { .. } | Error::SerdeMissingField { .. })
        && matches!(path.0.as_slice(), [Step::Key(agents)] if agents == "agents");
    let agents = is_refused_whole.then(|| outline.find(path)).flatten()?;
    let below = |steps: Vec<Step>| KeyPath(path.0.iter().cloned().chain(steps).collect());
    let id_of = |agent: &Node| agent.value("id").and_then(Node::text).map(str::to_owned);
    let ids: Vec<_> = agents.items().iter().map(id_of).collect();
    let is_missing = matches!(error, Error::SerdeMissingField { .. });
    let is_skipped = |position: usize| skipped.contains(&path.below(Step::Item(position)));
    let seen = ids.iter().enumerate().filter(|(position, _)| !is_skipped(*position));
    let in_list = seen.clone().find_map(|(position, id)| match id {
        None if is_missing && agents.items()[position].entry("<<").is_none() => {
            Some(vec![Step::Item(position)])
        }
        Some(_) if !is_missing && seen.clone().any(|(at, known)| at < position && known == id) => {
            Some(vec![Step::Item(position), Step::Key("id".to_owned())])
        }
        _ => None,
    });
    let in_map = || {
        agents.entries().iter().find_map(|entry| {
            let id = id_of(entry.value.as_ref()?)?;
            let name = entry.name();
            (id != name).then(|| vec![Step::Key(name.to_owned()), Step::Key("id".to_owned())])
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
