//! The prompts of an agent that sums up, as one template of `compact.prompt`.

use serde_json::Value;

/// The template for a run of messages, in place of the event's value.
const TRANSCRIPT: &str = "\
{{#if earlier_summary}}
{{earlier_summary}}

{{/if}}
{{#each messages}}
[{{role}}{{#if tool}} {{tool}}{{/if}}]
{{#if text}}
{{text}}
{{/if}}
{{#each calls}}
-> {{name}} {{arguments}}
{{/each}}
{{/each}}";
/// The request to put the summary into its tag.
const IN_TAGS: &str = "Answer with the summary alone, inside <{{summary_tag}}> and </{{summary_tag}}>.";

/// The names that prompts may use, with values to insert unchanged.
pub(super) struct Names<'a> {
    /// The agent that sums up.
    pub(super) agent: &'a Value,
    /// Its id.
    pub(super) id: &'a str,
    /// The event that carried the messages.
    pub(super) event: &'a str,
    /// The workflow's variables.
    pub(super) variables: &'a Value,
}

/// Returns the template that asks for what the agent's `system_prompt` and `user_prompt` ask for; `None` if
/// it has neither.
///
/// # Errors
/// The key and the first expression in it that `compact.prompt` has nothing for.
pub(super) fn convert_prompt(names: &Names<'_>) -> Result<Option<String>, (&'static str, String)> {
    let text = |key: &'static str| names.agent.get(key).and_then(Value::as_str).map(|text| (key, text));
    let (system, user) = (text("system_prompt"), text("user_prompt"));
    if system.is_none() && user.is_none() {
        return Ok(None);
    }
    let mut parts = Vec::new();
    for (key, text) in [system, user].into_iter().flatten() {
        parts.push(put_in(text, names).map_err(|expression| (key, expression))?.trim().to_owned());
    }
    parts.retain(|part| !part.is_empty());
    if !parts.iter().any(|part| part.contains(TRANSCRIPT)) {
        parts.push(TRANSCRIPT.to_owned());
    }
    parts.push(IN_TAGS.to_owned());
    Ok(Some(parts.join("\n\n")))
}

/// Inserts every constant value into the template; returns the first expression that has none as an error.
fn put_in(template: &str, names: &Names<'_>) -> Result<String, String> {
    let mut done = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find("{{") {
        let opening = &rest[at..];
        let (inner, after) = match opening.strip_prefix("{{{") {
            Some(inner) => inner.split_once("}}}"),
            None => opening[2..].split_once("}}"),
        }
        .ok_or_else(|| opening.chars().take(40).collect::<String>())?;
        let whole = &opening[..opening.len() - after.len()];
        if rest[..at].ends_with('\\') {
            return Err(whole.to_owned());
        }
        done.push_str(&rest[..at]);
        match inner.trim() {
            "event.value" => {
                let said = done.trim_end_matches([' ', '\t']).len();
                done.truncate(said);
                if !done.is_empty() && !done.ends_with('\n') {
                    done.push('\n');
                }
                done.push_str(TRANSCRIPT);
                if !after.is_empty() && !after.starts_with(['\n', '\r']) {
                    done.push('\n');
                }
            }
            name => {
                let known = literal(name, names).filter(|text| !text.contains("{{"));
                done.push_str(&known.ok_or_else(|| whole.to_owned())?);
            }
        }
        rest = after;
    }
    done.push_str(rest);
    Ok(done)
}

/// Returns the value of `name`, if it is the same in every run.
fn literal(name: &str, names: &Names<'_>) -> Option<String> {
    let value = match name {
        "event.name" => return Some(names.event.to_owned()),
        "agent.id" => return Some(names.id.to_owned()),
        "agent.description" => names.agent.get("description")?,
        "agent.model" => names.agent.get("model")?,
        name => names.variables.get(name.strip_prefix("variables.")?)?,
    };
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(yes) => Some(yes.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn check(agent: &Value, expected: Result<Option<&str>, (&'static str, &str)>) {
        let variables = json!({"team": "core", "n": 3, "list": [1]});
        let names = Names { agent, id: "s", event: "long", variables: &variables };
        let expected = expected
            .map(|text| text.map(|text| text.replace("@", TRANSCRIPT).replace('!', IN_TAGS)))
            .map_err(|(key, expression)| (key, expression.to_owned()));
        assert_eq!(convert_prompt(&names), expected, "{agent}");
    }

    #[test]
    fn prompts_become_one_template_or_what_stands_against_it_is_named() {
        check(&json!({}), Ok(None));
        check(&json!({"user_prompt": "{{event.value}}"}), Ok(Some("@\n\n!")));
        check(
            &json!({"system_prompt": " ", "user_prompt": "This: {{event.value}}"}),
            Ok(Some("This:\n@\n\n!")),
        );
        check(&json!({"system_prompt": "Sum up."}), Ok(Some("Sum up.\n\n@\n\n!")));
        check(
            &json!({"system_prompt": "You are {{agent.id}} of {{variables.team}}, {{variables.n}}.\n",
                   "user_prompt": "<{{event.name}}>{{{ event.value }}}</{{event.name}}>\nNow."}),
            Ok(Some("You are s of core, 3.\n\n<long>\n@\n</long>\nNow.\n\n!")),
        );
        check(
            &json!({"system_prompt": "{{> summarizer.hbs }}"}),
            Err(("system_prompt", "{{> summarizer.hbs }}")),
        );
        check(
            &json!({"system_prompt": "x", "user_prompt": "{{#if event.value}}x{{/if}}"}),
            Err(("user_prompt", "{{#if event.value}}")),
        );
        check(&json!({"user_prompt": "{{variables.list}}"}), Err(("user_prompt", "{{variables.list}}")));
        check(&json!({"user_prompt": "{{variables.none}}"}), Err(("user_prompt", "{{variables.none}}")));
        check(&json!({"user_prompt": "{{event.value"}), Err(("user_prompt", "{{event.value")));
        check(&json!({"user_prompt": r"\{{event.value}}"}), Err(("user_prompt", "{{event.value}}")));
    }
}
