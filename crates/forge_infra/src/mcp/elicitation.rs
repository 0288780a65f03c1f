//! Questions of a server for the user, and the folder that a server may know of.

use forge_domain::{McpServerId, Person, Question, Unanswered};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Map, Value};

use super::content::{clean, shorten};
use crate::JsonSchema;

/// The most characters of a server's text in a question.
const MOST_SHOWN: usize = 1_000;
/// The most fields of one form.
const MOST_FIELDS: usize = 12;
/// The most times that a field is asked for.
const MOST_TRIES: usize = 3;
/// The answer by which the user refuses.
const REFUSAL: &str = "decline";

/// The reason why a form has no answer.
enum NoAnswer {
    Declined,
    Nobody,
}

impl From<Unanswered> for NoAnswer {
    fn from(_: Unanswered) -> Self {
        Self::Nobody
    }
}

/// Asks `person` what `server` wants to know, field by field.
pub(super) async fn answer(
    server: &McpServerId,
    person: &dyn Person,
    request: ElicitRequestParams,
) -> ElicitResult {
    let answered = match request {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            let schema = serde_json::to_value(&requested_schema).unwrap_or_default();
            fill(server, person, &message, &schema).await.map(Some)
        }
        ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
            visit(server, person, &message, &url).await.map(|()| None)
        }
        // The crate may add kinds.
        _ => Err(NoAnswer::Declined),
    };
    match answered {
        Ok(Some(fields)) => ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(fields)),
        Ok(None) => ElicitResult::new(ElicitationAction::Accept),
        Err(NoAnswer::Declined) => ElicitResult::new(ElicitationAction::Decline),
        Err(NoAnswer::Nobody) => ElicitResult::new(ElicitationAction::Cancel),
    }
}

fn safe_text(text: &str) -> String {
    shorten(&clean(text).replace('\n', " "), MOST_SHOWN)
}

async fn visit(server: &McpServerId, person: &dyn Person, message: &str, url: &str) -> Result<(), NoAnswer> {
    let text = format!(
        "The MCP server `{server}` asks you to open an address yourself: {}\n  {}\n  Forge does not open it. Answer when you are done",
        safe_text(message),
        safe_text(url)
    );
    let answer =
        person.answer(&Question { text, options: vec!["done".to_owned(), REFUSAL.to_owned()] }).await?;
    if answer.trim() == "done" { Ok(()) } else { Err(NoAnswer::Declined) }
}

/// Asks for each field of a form.
async fn fill(
    server: &McpServerId,
    person: &dyn Person,
    message: &str,
    schema: &Value,
) -> Result<Map<String, Value>, NoAnswer> {
    let fields = schema["properties"].as_object().cloned().unwrap_or_default();
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut filled = Map::new();
    let head = format!("The MCP server `{server}` asks: {} (or `{REFUSAL}`)", safe_text(message));
    if fields.is_empty() {
        let options = vec!["yes".to_owned(), REFUSAL.to_owned()];
        let answer = person.answer(&Question { text: head, options }).await?;
        return if answer.trim() == "yes" { Ok(filled) } else { Err(NoAnswer::Declined) };
    }
    for (name, field) in fields.iter().take(MOST_FIELDS) {
        let is_required = required.contains(&name.as_str());
        if let Some(value) = ask_for(person, &head, name, field, is_required).await? {
            filled.insert(name.clone(), value);
        }
    }
    Ok(filled)
}

/// Asks for one field until the answer fits; `None` if it is left out.
async fn ask_for(
    person: &dyn Person,
    head: &str,
    name: &str,
    field: &Value,
    is_required: bool,
) -> Result<Option<Value>, NoAnswer> {
    let word = |key: &str| field[key].as_str().map(safe_text).unwrap_or_default();
    let title = if word("title").is_empty() { safe_text(name) } else { word("title") };
    let about = [word("description"), if is_required { String::new() } else { "may be empty".to_owned() }];
    let about = about.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
    let about = if about.is_empty() { about } else { format!(" ({about})") };
    let choices = choices(field);
    let mut fault = String::new();
    for _ in 0..MOST_TRIES {
        let text = format!("{head}\n  {title}{about}{fault}");
        let options = choices.iter().map(|(shown, _)| shown.clone()).collect();
        let answer = person.answer(&Question { text, options }).await?;
        let answer = answer.trim();
        if answer == REFUSAL {
            return Err(NoAnswer::Declined);
        }
        if answer.is_empty() {
            match (field.get("default"), is_required) {
                (Some(usual), _) => return Ok(Some(usual.clone())),
                (None, false) => return Ok(None),
                (None, true) => {}
            }
        }
        let chosen = choices.iter().find(|(shown, _)| shown == answer).map(|(_, value)| value.clone());
        let value = chosen.unwrap_or_else(|| read_value(answer, field));
        match JsonSchema::new(field).map(|schema| schema.check(&value)) {
            Ok(Err(faults)) => {
                // The field is all that is checked, so its faults need no place.
                let faults: Vec<&str> =
                    faults.iter().map(|fault| fault.strip_prefix("the whole: ").unwrap_or(fault)).collect();
                fault = format!(" — {}", safe_text(&faults.join("; ")));
            }
            _ => return Ok(Some(value)),
        }
    }
    Err(NoAnswer::Declined)
}

/// Returns the choices of a field, each as it is shown and as it is sent; none if any text will do.
fn choices(field: &Value) -> Vec<(String, Value)> {
    if field["type"] == "boolean" {
        return vec![("yes".to_owned(), Value::Bool(true)), ("no".to_owned(), Value::Bool(false))];
    }
    let titled = field["oneOf"].as_array().into_iter().flatten();
    let titled =
        titled.filter_map(|choice| Some((safe_text(choice["title"].as_str()?), choice["const"].clone())));
    let names = field["enumNames"].as_array();
    let plain = field["enum"].as_array().into_iter().flatten().enumerate().map(|(at, value)| {
        let name = names.and_then(|names| names.get(at)?.as_str()).or(value.as_str());
        (name.map(safe_text).unwrap_or_default(), value.clone())
    });
    titled.chain(plain).collect()
}

/// Returns a typed answer in the field's type, as far as it can be read as that.
fn read_value(answer: &str, field: &Value) -> Value {
    let text = || Value::String(answer.to_owned());
    match field["type"].as_str() {
        Some("integer") => answer.parse::<i64>().map_or_else(|_| text(), Value::from),
        Some("number") => answer.parse::<f64>().map_or_else(|_| text(), Value::from),
        Some("boolean") => match answer.to_ascii_lowercase().as_str() {
            "y" | "true" => Value::Bool(true),
            "n" | "false" => Value::Bool(false),
            _ => text(),
        },
        Some("array") => answer.split(',').map(|part| Value::String(part.trim().to_owned())).collect(),
        _ => text(),
    }
}
