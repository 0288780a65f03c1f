//! From transforms of type `assistant` to `compact`: edits of the text itself, each read back and compared
//! with the intended result, so that everything else stays byte for byte.

mod prompt;
mod block;

use serde_json::{Map, Value};

use self::block::Block;
use self::prompt::{Names, convert_prompt};
use super::foreign_keys::{instead_of, what_is_wrong};
use super::yaml::{Entry, KeyPath, Node, Outline, Step};
use super::{Finding, Source, WorkflowError, reader};

/// The migration of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The text afterwards; unchanged if there was nothing to do.
    pub text: String,
    /// The changes, in the text's order.
    pub done: Vec<Finding>,
    /// The changes left to do by hand in the original text.
    pub left: Vec<Finding>,
    /// The changes left to do by hand in the migrated text: the same ones, by the paths that hold then.
    pub left_afterwards: Vec<Finding>,
}

/// Rewrites each transform of type `assistant` in `source` to a `compact` block. Agents that it does not
/// define itself are looked up in `base`, the layer below. If `source` loads, the result does too; if it does
/// not because of keys of other versions, they are among what is left.
///
/// # Errors
/// [`WorkflowError`] if `source` is not YAML.
pub fn migrate(source: &Source, base: Option<&Source>) -> Result<Migration, WorkflowError> {
    let value: Value = reader::read_as(source)?;
    let base: Value = base.and_then(|base| reader::read_as(base).ok()).unwrap_or_default();
    let mut notes = Vec::new();
    let mut done = Vec::new();
    let mut current = Current { name: source.name.clone(), text: source.text.clone(), value };
    // From the last agent to the first: an alias leaves before its anchor does.
    for nth in (0..n_agents(&current.value)).rev() {
        let Some((id, agent)) = nth_agent(&current.value, nth) else { continue };
        let path = format!("agents.{id}.transforms");
        if !assistants(agent).is_empty() {
            match current.rewrite(nth, &id, &base) {
                Ok((rewritten, note)) => {
                    let what = "`assistant` is `compact` now".to_owned();
                    done.push(Finding { path, what, hint: None });
                    notes.extend(note);
                    current = rewritten;
                }
                Err(Kept { what, hint }) => {
                    // An inherited transform is removed where it is written.
                    if is_written(&current.text, nth) {
                        notes.push(Finding { path, what, hint });
                    }
                }
            }
        }
    }
    done.reverse();
    notes.reverse();
    let with_notes = |text: &str| {
        let mut left = leftovers(text);
        left.extend(notes.iter().cloned());
        left
    };
    Ok(Migration {
        left: with_notes(&source.text),
        left_afterwards: with_notes(&current.text),
        text: current.text,
        done,
    })
}

/// The reason why an agent stays as it is.
struct Kept {
    what: String,
    hint: Option<String>,
}

impl Kept {
    fn new(what: impl Into<String>, hint: &str) -> Self {
        Self { what: what.into(), hint: Some(hint.to_owned()) }
    }
}

/// The text as far as it is rewritten.
struct Current {
    name: String,
    text: String,
    value: Value,
}

impl Current {
    /// Returns the text with agent `nth` rewritten, and what should be checked by hand.
    fn rewrite(&self, nth: usize, id: &str, base: &Value) -> Result<(Self, Option<Finding>), Kept> {
        let (place, block, note) = self.block(nth, id, base)?;
        let outline = Outline::of(&self.text);
        let edit = agent_node(&outline, nth)
            .and_then(|agent| block::edit(&self.text, &outline, agent, place, &block));
        let by_hand = || {
            Kept::new(
                "this transform cannot be rewritten without touching something else",
                "write the `compact` block by hand, and remove the transform",
            )
        };
        let (range, with) = edit.ok_or_else(by_hand)?;
        let text = format!("{}{with}{}", &self.text[..range.start], &self.text[range.end..]);
        let source = Source::new(self.name.clone(), text.clone());
        let value: Value = reader::read_as(&source).map_err(|_| by_hand())?;
        let loads = |text: &str| reader::read(&Source::new("", text)).is_ok();
        let is_right = self.is_rewritten_by(&value, nth, base)
            && (!loads(&self.text) || loads(&text))
            && all_comments(&self.text) == all_comments(&text);
        if !is_right {
            return Err(by_hand());
        }
        Ok((Self { name: self.name.clone(), text, value }, note))
    }

    /// Checks whether `after` is this with agent `nth` rewritten, those that share its lines too, and nothing
    /// else changed.
    fn is_rewritten_by(&self, after: &Value, nth: usize, base: &Value) -> bool {
        let without_agents = |value: &Value| {
            let mut rest = value.clone();
            if let Some(rest) = rest.as_object_mut() {
                rest.remove("agents");
            }
            rest
        };
        if without_agents(&self.value) != without_agents(after) || n_agents(&self.value) != n_agents(after) {
            return false;
        }
        (0..n_agents(after)).all(|at| {
            let (Some((was, before)), Some((is, after))) = (nth_agent(&self.value, at), nth_agent(after, at))
            else {
                return nth_agent(&self.value, at).is_none() && nth_agent(after, at).is_none();
            };
            let rewritten = || {
                let (place, block, _) = self.block(at, &was, base).ok()?;
                Some(expected_agent(before, place, &block))
            };
            was == is
                && ((at != nth && before == after) || rewritten().is_some_and(|expected| expected == *after))
        })
    }

    /// Returns the place of the agent's transform of type `assistant`, the block that replaces it, and what
    /// should be checked by hand.
    fn block(&self, nth: usize, id: &str, base: &Value) -> Result<(usize, Block, Option<Finding>), Kept> {
        let (_, agent) = nth_agent(&self.value, nth)
            .ok_or_else(|| Kept::new("this is not an agent", "write a mapping"))?;
        let all = assistants(agent);
        let [(place, keys)] = all.as_slice() else {
            return Err(Kept::new(
                format!("there are {} transforms of type `assistant`, and one `compact` block", all.len()),
                "keep the one with the lowest `token_limit`",
            ));
        };
        let limit = keys.get("token_limit").and_then(Value::as_u64).filter(|limit| *limit > 0);
        let Some(limit) = limit else {
            return Err(Kept::new(
                "its `token_limit` is not a number of tokens",
                "for example `token_limit: 80000`",
            ));
        };
        if agent.contains_key("compact") {
            return Err(Kept::new(
                "the agent has a `compact` block already",
                "remove the transform: `compact` does its work",
            ));
        }
        let word = |key: &str| keys.get(key).and_then(Value::as_str).unwrap_or_default();
        let summing = word("agent_id");
        let known = [base, &self.value].map(|layer| find_agent(layer, summing));
        if known.iter().all(Option::is_none) {
            return Err(Kept::new(
                format!("there is no agent `{summing}`"),
                "name the agent that writes the \
                 summaries",
            ));
        }
        let mut other = Map::new();
        other.extend(known.into_iter().flatten().flat_map(Clone::clone));
        let model = other.get("model").and_then(Value::as_str).map(str::to_owned);
        let Some(model) = model.filter(|model| !model.trim().is_empty()) else {
            return Err(Kept::new(
                format!("the agent `{summing}` has no `model` that could write summaries"),
                "give it one, such as `model: gpt-4o-mini`",
            ));
        };
        let mut variables = Map::new();
        let declared = [base, &self.value].map(|layer| layer.get("variables").and_then(Value::as_object));
        variables.extend(declared.into_iter().flatten().flat_map(Clone::clone));
        let (other, variables) = (Value::Object(other), Value::Object(variables));
        let names = Names { agent: &other, id: summing, event: word("input"), variables: &variables };
        let (prompt, note) = match convert_prompt(&names) {
            Ok(prompt) => (prompt, None),
            Err((key, expression)) => {
                let what = format!(
                    "`compact.prompt` does not support `{expression}`, so the agent `{id}` asks for \
                     summaries with the shipped prompt"
                );
                let hint = Some("write `compact.prompt` by hand to use another prompt".to_owned());
                (None, Some(Finding { path: format!("agents.{summing}.{key}"), what, hint }))
            }
        };
        let max_tokens = Some(target(limit)).filter(|target| *target > 0);
        let tag = word("output");
        let is_named = prompt.as_ref().is_some_and(|prompt| prompt.contains(&format!("<{tag}>")));
        let summary_tag = Some(tag.to_owned()).filter(|_| is_named);
        Ok((*place, Block { token_threshold: limit, max_tokens, model, prompt, summary_tag }, note))
    }
}

/// Returns the target of a compaction at `limit`, in the ratio of the default percentages.
const fn target(limit: u64) -> u64 {
    // Five eighths, without overflowing.
    limit / 8 * 5 + limit % 8 * 5 / 8
}

/// Returns the agent without item `place` of its transforms, and with the block.
fn expected_agent(agent: &Map<String, Value>, place: usize, block: &Block) -> Map<String, Value> {
    let mut agent = agent.clone();
    let mut rest = agent.remove("transforms").and_then(|list| list.as_array().cloned()).unwrap_or_default();
    rest.remove(place);
    if !rest.is_empty() {
        agent.insert("transforms".to_owned(), Value::Array(rest));
    }
    let mut compact = Map::new();
    compact.insert("token_threshold".to_owned(), block.token_threshold.into());
    compact.extend(block.max_tokens.map(|target| ("max_tokens".to_owned(), target.into())));
    compact.insert("model".to_owned(), block.model.clone().into());
    compact.extend(block.summary_tag.clone().map(|tag| ("summary_tag".to_owned(), tag.into())));
    compact.extend(block.prompt.clone().map(|prompt| ("prompt".to_owned(), prompt.into())));
    agent.insert("compact".to_owned(), Value::Object(compact));
    agent
}

fn n_agents(workflow: &Value) -> usize {
    match workflow.get("agents") {
        Some(Value::Array(list)) => list.len(),
        Some(Value::Object(map)) => map.len(),
        _ => 0,
    }
}

/// Returns the agent in that place, with its id.
fn nth_agent(workflow: &Value, nth: usize) -> Option<(String, &Map<String, Value>)> {
    match workflow.get("agents")? {
        Value::Array(list) => {
            let agent = list.get(nth)?.as_object()?;
            let id = agent.get("id").and_then(Value::as_str).map(str::to_owned);
            Some((id.unwrap_or_else(|| format!("[{nth}]")), agent))
        }
        Value::Object(map) => {
            let (id, agent) = map.iter().nth(nth)?;
            Some((id.clone(), agent.as_object()?))
        }
        _ => None,
    }
}

fn find_agent<'a>(workflow: &'a Value, id: &str) -> Option<&'a Map<String, Value>> {
    let all = (0..n_agents(workflow)).filter_map(|nth| nth_agent(workflow, nth));
    all.into_iter().find(|(known, _)| known == id).map(|(_, agent)| agent)
}

/// Returns the agent's transforms of type `assistant`: their places and keys.
fn assistants(agent: &Map<String, Value>) -> Vec<(usize, &Map<String, Value>)> {
    let list = agent.get("transforms").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    list.iter()
        .enumerate()
        .filter_map(|(place, item)| {
            let item = item.as_object()?;
            if item.get("type").and_then(Value::as_str) == Some("assistant") {
                return Some((place, item));
            }
            Some((place, item.get("assistant")?.as_object()?))
        })
        .collect()
}

/// Returns the node of agent `nth`.
fn agent_node(outline: &Outline, nth: usize) -> Option<&Node> {
    let agents = outline.root.as_ref()?.value("agents")?;
    match agents.items() {
        [] => agents.entries().get(nth)?.value.as_ref(),
        items => items.get(nth),
    }
}

/// Checks whether agent `nth` has `transforms` in its own lines.
fn is_written(text: &str, nth: usize) -> bool {
    agent_node(&Outline::of(text), nth).is_some_and(|agent| agent.entry("transforms").is_some())
}

fn all_comments(text: &str) -> Vec<String> {
    let mut comments: Vec<_> =
        Outline::of(text).comments.into_iter().map(|range| text[range].trim_end().to_owned()).collect();
    comments.sort();
    comments
}

/// Returns what no migration does: transforms without a successor, and keys of other versions.
fn leftovers(text: &str) -> Vec<Finding> {
    let outline = Outline::of(text);
    let Some(root) = &outline.root else { return Vec::new() };
    let mut left = foreign_keys(root, &[]);
    let Some(agents) = root.value("agents") else { return left };
    let named: Vec<(String, &Node)> = match agents.items() {
        [] => {
            let entries = agents.entries().iter().filter(|entry| !entry.name().is_empty());
            entries.filter_map(|entry| Some((entry.name().to_owned(), entry.value.as_ref()?))).collect()
        }
        items => items
            .iter()
            .enumerate()
            .map(|(nth, agent)| {
                let id = agent.value("id").and_then(Node::text).filter(|id| !id.is_empty());
                (id.map_or_else(|| format!("[{nth}]"), str::to_owned), agent)
            })
            .collect(),
    };
    for (id, agent) in named {
        let steps = [Step::Key("agents".to_owned()), Step::Key(id.clone())];
        left.extend(foreign_keys(agent, &steps));
        if let Some(compact) = agent.value("compact") {
            let steps = [&steps[..], &[Step::Key("compact".to_owned())]].concat();
            left.extend(foreign_keys(compact, &steps));
        }
        let transforms = agent.value("transforms").map(Node::items).unwrap_or_default();
        for (nth, item) in transforms.iter().enumerate() {
            let kind = item.value("type").and_then(Node::text);
            let kind = kind.or_else(|| item.entries().first().map(Entry::name));
            if let Some(kind @ ("user" | "pass_through")) = kind {
                left.push(Finding {
                    path: format!("agents.{id}.transforms[{nth}]"),
                    what: format!("`{kind}` still runs, but is deprecated and has no automatic replacement"),
                    hint: Some(instead_of_transform(kind).to_owned()),
                });
            }
        }
    }
    left
}

fn instead_of_transform(kind: &str) -> &'static str {
    match kind {
        "user" => "write its content into `system_prompt`, or give the agent a tool for it",
        _ => "use a hook: `hooks: { pre_prompt: [{ command: ... }] }`, or read what `--record` writes",
    }
}

fn foreign_keys(mapping: &Node, steps: &[Step]) -> Vec<Finding> {
    let found = mapping.entries().iter().filter_map(|entry| {
        let path = KeyPath([steps, &[Step::Key(entry.name().to_owned())]].concat());
        let hint = Some(instead_of(&path)?);
        Some(Finding { path: path.to_string(), what: what_is_wrong(&path), hint })
    });
    found.collect()
}

#[cfg(test)]
mod tests;
