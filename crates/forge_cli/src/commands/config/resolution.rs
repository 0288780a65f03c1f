//! `forge config show --resolved`: each value with the layer that sets it, and the limits in tokens.

use forge_app::{Effective, Services, effective};
use forge_domain::compaction::CompactionSettings;
use forge_domain::{Agent, ModelInfo, ModelRef, TokenLimit, WindowSource, Workflow};
use forge_services::workflow::{Origin, Origins, schema};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::output::table::align;

/// A value and its source.
#[derive(Debug, Serialize)]
struct ResolvedValue {
    path: String,
    value: Value,
    origin: Origin,
}

/// All settings of one agent, of its model and of its provider.
#[derive(Debug, Serialize)]
pub(crate) struct Resolved {
    agent: String,
    values: Vec<ResolvedValue>,
    numbers: Option<Numbers>,
}

/// The resolved limits, in tokens unless stated otherwise.
#[derive(Debug, Serialize)]
struct Numbers {
    model: ModelRef,
    #[serde(flatten)]
    space: Space,
    #[serde(flatten)]
    compaction: CompactionNumbers,
}

/// The space for a prompt.
#[derive(Debug, Serialize)]
struct Space {
    window: u64,
    is_window_assumed: bool,
    is_window_told: bool,
    reserve: u64,
    tool_schemas: u64,
    room: u64,
}

/// The triggers and targets of compactions.
#[derive(Debug, Serialize)]
struct CompactionNumbers {
    /// False if nothing is ever compacted.
    auto_compact: bool,
    trigger: u64,
    target: u64,
    message_threshold: Option<usize>,
    max_messages: Option<usize>,
    turn_threshold: Option<usize>,
    max_turns: Option<usize>,
    strategies: Value,
}

/// Resolves the values of `agent`. `workflow` is the one for display: secrets are hidden in it. `told` is the
/// server's description of the agent's model.
pub(crate) fn resolve(
    agent: &Agent,
    workflow: &Workflow,
    services: &Services,
    origins: &Origins<'_>,
    told: Option<&ModelInfo>,
) -> anyhow::Result<Resolved> {
    let effective = effective(agent, services, told);
    let schema = schema();
    let keys =
        |pointer: &str| schema.pointer(pointer).and_then(Value::as_object).cloned().unwrap_or_default();
    let mut listing = Listing { origins, lines: Vec::new() };
    let mut says = serde_json::to_value(agent)?;
    let mut compact = says.as_object_mut().and_then(|says| says.remove("compact")).unwrap_or_default();
    if !compact.is_object() {
        compact = json!({});
    }
    if let (Some(effective), Value::Object(compact)) = (&effective, &mut compact) {
        // What these come to where they are left out hangs on the other keys of the block.
        let CompactionSettings { strategies, rules, .. } = &effective.compact;
        compact.entry("strategies").or_insert(json!(strategies));
        compact.entry("max_tokens").or_insert(json!(TokenLimit::Tokens(rules.target.tokens)));
        compact.entry("max_messages").or_insert(json!(rules.target.messages));
        compact.entry("max_turns").or_insert(json!(rules.target.turns));
    }
    let mut of_agent = keys("/definitions/Agent/properties");
    of_agent.shift_remove("compact");
    of_agent.shift_remove("id");
    listing.add(&["agents", agent.id.as_str()], &of_agent, &says);
    listing.add(
        &["agents", agent.id.as_str(), "compact"],
        &keys("/definitions/Compact/properties"),
        &compact,
    );
    if let Some(effective) = &effective {
        let reference = &effective.model.reference;
        let provider = workflow.providers.get(&reference.provider);
        listing.add(
            &["providers", reference.provider.as_str()],
            &keys("/definitions/ProviderConfig/properties"),
            &serde_json::to_value(provider)?,
        );
        let named = [
            agent.model.as_ref().map(ToString::to_string),
            Some(reference.to_string()),
            Some(reference.model.to_string()),
        ];
        let known = named.iter().flatten().find_map(|name| Some((name, workflow.models.get(name.as_str())?)));
        if let Some((name, model)) = known {
            let keys = keys("/definitions/ModelConfig/properties");
            listing.add(&["models", name], &keys, &serde_json::to_value(model)?);
        }
    }
    let mut of_top = keys("/properties");
    for by_name in ["agents", "providers", "models", "variables", "budget", "checkpoint"] {
        of_top.shift_remove(by_name);
    }
    let says = serde_json::to_value(workflow)?;
    listing.add(&[], &of_top, &says);
    // Their values may come from different layers.
    listing.add(&["checkpoint"], &keys("/definitions/CheckpointPolicy/properties"), &says["checkpoint"]);
    listing.add(&["budget"], &keys("/definitions/Allowance/properties"), &says["budget"]);
    for name in workflow.variables.keys() {
        listing.add(&["variables"], &Map::from_iter([(name.clone(), Value::Null)]), &says["variables"]);
    }
    let numbers = effective.as_ref().map(numbers);
    Ok(Resolved { agent: agent.id.to_string(), values: listing.lines, numbers })
}

/// Keys that apply from every layer that sets them.
const HELD: [&str; 2] = ["permissions", "hooks"];

struct Listing<'a> {
    origins: &'a Origins<'a>,
    lines: Vec<ResolvedValue>,
}

impl Listing<'_> {
    /// Adds the `keys` below `path`: the values of `says`, else their defaults; those without are left out.
    fn add(&mut self, path: &[&str], keys: &Map<String, Value>, says: &Value) {
        for (key, described) in keys {
            let path: Vec<&str> = path.iter().copied().chain([key.as_str()]).collect();
            let of_layers = if HELD.contains(&key.as_str()) { self.origins.all(&path) } else { Vec::new() };
            if of_layers.len() > 1 {
                let lines = of_layers.into_iter();
                self.lines.extend(lines.map(|(value, origin)| ResolvedValue {
                    path: path.join("."),
                    value,
                    origin,
                }));
                continue;
            }
            let set = says.get(key).filter(|value| !value.is_null());
            let default = described.get("default").filter(|default| !default.is_null());
            if let Some(value) = set.or(default) {
                let origin = self.origins.origin(&path);
                self.lines.push(ResolvedValue { path: path.join("."), value: value.clone(), origin });
            }
        }
    }
}

fn numbers(effective: &Effective) -> Numbers {
    let (budget, compact) = (&effective.budget, &effective.compact);
    let (trigger, target) = (compact.rules.trigger, compact.rules.target);
    Numbers {
        model: effective.model.reference.clone(),
        space: Space {
            window: budget.window().as_u64(),
            is_window_assumed: effective.model.window_source == WindowSource::Assumed,
            is_window_told: effective.model.window_source == WindowSource::Told,
            reserve: budget.reserve().as_u64(),
            tool_schemas: budget.tools_tokens().as_u64(),
            room: budget.room().as_u64(),
        },
        compaction: CompactionNumbers {
            auto_compact: compact.auto_compact,
            trigger: trigger.tokens.as_u64(),
            target: target.tokens.as_u64(),
            message_threshold: trigger.messages.map(std::num::NonZero::get),
            max_messages: target.messages.map(std::num::NonZero::get),
            turn_threshold: trigger.turns.map(std::num::NonZero::get),
            max_turns: target.turns.map(std::num::NonZero::get),
            strategies: json!(compact.strategies),
        },
    }
}

/// Returns all of it for users: columns of path, value and origin, then the numbers.
pub(crate) fn render(resolved: &Resolved) -> String {
    let row =
        |line: &ResolvedValue| vec![format!("  {}", line.path), short(&line.value), line.origin.to_string()];
    let lines = align(&resolved.values.iter().map(row).collect::<Vec<_>>(), &[], "  ");
    let text: String = lines.into_iter().map(|line| line + "\n").collect();
    let text = format!("agent {}\n{text}", resolved.agent);
    text + &resolved.numbers.as_ref().map_or_else(
        || "  its limits cannot be computed: its model is not known here; `forge config check` reports mistakes, and \
             `forge trust` what is left out until you trust the file\n".to_owned(),
        sums,
    )
}

fn sums(Numbers { model, space, compaction }: &Numbers) -> String {
    let count = |what: &str, when: Option<usize>, how_far: Option<usize>| {
        let when = when.map(|when| format!("compacts over {when}"));
        let how_far = how_far.map(|how_far| format!("down to {how_far}"));
        let words: Vec<String> = when.into_iter().chain(how_far).collect();
        if words.is_empty() { String::new() } else { format!("  {what}: {}\n", words.join(", ")) }
    };
    let assumed = match (space.is_window_assumed, space.is_window_told) {
        (true, _) => " (assumed: `models` does not set it)",
        (_, true) => " (from the server)",
        _ => "",
    };
    let Space { window, reserve, tool_schemas, room, .. } = space;
    let limits = format!(
        "limits of {model} in tokens\n  window {window}{assumed} - reserve {reserve} - tool schemas \
         {tool_schemas} = room {room}\n"
    );
    if !compaction.auto_compact {
        return limits + "  never compacts: `auto_compact: false`\n";
    }
    let strategies: Vec<String> = compaction.strategies.as_array().into_iter().flatten().map(short).collect();
    format!(
        "{limits}  compacts over {}, down to {}\n{}{}  strategies: {}\n",
        compaction.trigger,
        compaction.target,
        count("messages", compaction.message_threshold, compaction.max_messages),
        count("turns", compaction.turn_threshold, compaction.max_turns),
        strategies.join(", "),
    )
}

/// Returns a value in one short line.
fn short(value: &Value) -> String {
    const MOST: usize = 48;
    let text = match value {
        Value::String(text) => text.lines().next().unwrap_or_default().to_owned(),
        value => value.to_string(),
    };
    let is_whole =
        text.chars().count() <= MOST && !value.as_str().is_some_and(|all| all.trim_end().contains('\n'));
    if is_whole { text } else { text.chars().take(MOST - 1).chain(['…']).collect() }
}
