//! The servers of a project's `.mcp.json`, as other agents have it, in the form of `forge.yaml`.

use std::collections::{BTreeMap, BTreeSet};

use forge_domain::{McpServerConfig, McpServerId, fill_variables};
use serde_json::{Map, Value, json};

use crate::failure::Misconfigured;

/// The servers of such a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct McpFile {
    /// The key `mcp_servers` of a `forge.yaml`, one server a line; empty without servers.
    pub(crate) yaml: String,
    /// Servers that are left out, and why.
    pub(crate) left_out: Vec<String>,
}

impl McpFile {
    /// Reads the text of `.mcp.json`, which `name` is the path of. `variables` are those that it may name
    /// anywhere; those in `env` and `headers` are filled in when the server starts.
    pub(crate) fn read(
        name: &str,
        text: &str,
        variables: &BTreeMap<String, String>,
    ) -> Result<Self, Misconfigured> {
        let wrong = |what: String| Misconfigured(format!("{what}\n  --> {name}"));
        let json: Value =
            serde_json::from_str(text).map_err(|error| wrong(format!("invalid JSON: {error}")))?;
        let servers = match &json["mcpServers"] {
            Value::Object(servers) => servers,
            Value::Null => return Ok(Self::default()),
            _ => {
                return Err(wrong("`mcpServers` must be an object with a server under each name".to_owned()));
            }
        };
        let mut file = Self::default();
        let mut names = BTreeSet::new();
        for (name, server) in servers {
            let plain = plain(name);
            match block(server, variables).and_then(|block| Ok((block, accepted(&plain, &names)?))) {
                Ok((Some(block), ())) => {
                    file.yaml += &format!("  {}: {block}\n", json!(plain));
                    names.insert(plain);
                }
                Ok((None, ())) => {}
                Err(why) => file.left_out.push(format!("MCP server `{name}`: {why}")),
            }
        }
        if !file.yaml.is_empty() {
            file.yaml = format!("mcp_servers:\n{}", file.yaml);
        }
        Ok(file)
    }
}

/// Returns a server's name with the characters that names of tools may have.
fn plain(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name: String = name.chars().map(|c| if is_plain(c) { c } else { '-' }).take(32).collect();
    name.replace("__", "--").trim_end_matches('_').to_owned()
}

/// Checks that a server can have that name beside those with `names`.
fn accepted(name: &str, names: &BTreeSet<String>) -> Result<(), String> {
    McpServerId::new(name).map_err(|error| error.to_string())?;
    if names.contains(name) { Err(format!("another one has the name `{name}`")) } else { Ok(()) }
}

/// Returns a server's block; `None` if it is switched off.
fn block(server: &Value, variables: &BTreeMap<String, String>) -> Result<Option<Value>, String> {
    if server["disabled"] == true {
        return Ok(None);
    }
    let kind = server["type"].as_str().or(server["transport"].as_str()).unwrap_or_default();
    if server["url"].is_null() && server["command"].is_null() {
        return Err("it has neither `command` nor `url`".to_owned());
    }
    if kind == "sse" {
        return Err(
            "it has the transport `sse`, which streamable HTTP has replaced; ask for its new address"
                .to_owned(),
        );
    }
    let mut block = Map::new();
    let keys: &[&str] =
        if server["url"].is_string() { &["url", "headers"] } else { &["command", "args", "env", "cwd"] };
    for key in keys {
        let value = &server[*key];
        let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        if is_empty {
            continue;
        }
        let value = match *key {
            "env" | "headers" => texts(value),
            _ => filled(value, variables).map_err(|why| format!("`{key}` {why}"))?,
        };
        block.insert((*key).to_owned(), value);
    }
    // Servers that are meant for other agents must not keep a run from starting.
    block.insert("required".to_owned(), false.into());
    // Its faults are told here, where it stands.
    serde_json::from_value::<McpServerConfig>(block.clone().into()).map_err(|error| error.to_string())?;
    Ok(Some(Value::Object(block)))
}

/// Returns a value with the variables that its texts name.
fn filled(value: &Value, variables: &BTreeMap<String, String>) -> Result<Value, String> {
    match value {
        Value::Array(items) => items.iter().map(|item| filled(item, variables)).collect(),
        Value::String(text) if text.contains("${") => {
            let filled = fill_variables(text, variables)
                .map_err(|name| format!("has the variable `{name}`, which is not set"))?;
            if filled.contains("${") {
                return Err("has a secret; pass it in `env` or `headers`, where it is not shown".to_owned());
            }
            Ok(filled.into())
        }
        other => Ok(other.clone()),
    }
}

/// Returns a value whose plain items are all texts, as numbers in `env` are meant.
fn texts(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), texts(value))).collect(),
        Value::Array(items) => items.iter().map(texts).collect(),
        Value::Number(_) | Value::Bool(_) => value.to_string().into(),
        // A text that only begins with a `$` is a text here.
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn servers_of_other_agents_become_those_of_forge() {
        let text = r#"{"mcpServers": {
            "files": {"type": "stdio", "command": "mcp-files", "args": ["."], "env": {"A": "${B}", "N": 3}},
            "my issues": {"type": "http", "url": "https://x/mcp", "headers": {"Authorization": "Bearer ${T}"}},
            "old": {"type": "sse", "url": "https://x/sse"},
            "rooted": {"command": "${ROOT}/run", "args": ["${NO:-x}"]},
            "my-issues": {"command": "x"},
            "": {"command": "x"},
            "wrong": {"command": 5.5, "args": {}},
            "none": {},
            "unset": {"command": "${NO}/run"},
            "secret": {"url": "https://x/${MY_TOKEN}"},
            "off": {"command": "x", "disabled": true}
        }}"#;
        let variables = BTreeMap::from(
            [("ROOT", "/r"), ("MY_TOKEN", "${MY_TOKEN}")]
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        let read = |text| McpFile::read(".mcp.json", text, &variables);
        let file = read(text).unwrap();
        let expected = "mcp_servers:\n  \
            \"files\": {\"command\":\"mcp-files\",\"args\":[\".\"],\"env\":{\"A\":\"${B}\",\"N\":\"3\"},\"required\":false}\n  \
            \"my-issues\": {\"url\":\"https://x/mcp\",\"headers\":{\"Authorization\":\"Bearer ${T}\"},\"required\":false}\n  \
            \"rooted\": {\"command\":\"/r/run\",\"args\":[\"x\"],\"required\":false}\n";
        assert_eq!(file.yaml, expected);
        assert_eq!(file.left_out.len(), 7, "{:?}", file.left_out);
        assert_eq!(read("{}").unwrap(), McpFile::default());
        for (text, words) in [("{", "invalid JSON"), (r#"{"mcpServers": []}"#, "must be an object")] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(words) && error.ends_with("--> .mcp.json"), "{error}");
        }
    }
}
