//! The servers of a project's `.mcp.json`, as other agents have it, in the form of `forge.yaml`.

use serde_json::{Map, Value, json};

use crate::failure::Misconfigured;

/// The name of the file.
pub(crate) const MCP_FILE: &str = ".mcp.json";

/// The servers of such a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct McpFile {
    /// The key `mcp_servers` of a `forge.yaml`, one server a line; empty without servers.
    pub(crate) yaml: String,
    /// Servers that are left out, and why.
    pub(crate) left_out: Vec<String>,
}

impl McpFile {
    /// Reads the text of `.mcp.json`, which `name` is the path of.
    pub(crate) fn read(name: &str, text: &str) -> Result<Self, Misconfigured> {
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
        for (name, server) in servers {
            match block(server) {
                Ok(Some(block)) => file.yaml += &format!("  {}: {block}\n", json!(plain(name))),
                Ok(None) => {}
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

/// Returns a server's block; `None` if it is switched off.
fn block(server: &Value) -> Result<Option<Value>, String> {
    if server["disabled"] == true {
        return Ok(None);
    }
    let kind = server["type"].as_str().or(server["transport"].as_str()).unwrap_or_default();
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
        if !matches!(*key, "env" | "headers") && value.to_string().contains("${") {
            return Err(format!("`{key}` has a variable; Forge fills them in only in `env` and `headers`"));
        }
        block.insert((*key).to_owned(), texts(value));
    }
    Ok(Some(Value::Object(block)))
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
            "rooted": {"command": "${ROOT}/run"},
            "off": {"command": "x", "disabled": true}
        }}"#;
        let file = McpFile::read(".mcp.json", text).unwrap();
        let expected = "mcp_servers:\n  \
            \"files\": {\"command\":\"mcp-files\",\"args\":[\".\"],\"env\":{\"A\":\"${B}\",\"N\":\"3\"}}\n  \
            \"my-issues\": {\"url\":\"https://x/mcp\",\"headers\":{\"Authorization\":\"Bearer ${T}\"}}\n";
        assert_eq!(file.yaml, expected);
        assert_eq!(file.left_out.len(), 2, "{:?}", file.left_out);
        assert_eq!(McpFile::read(".mcp.json", "{}").unwrap(), McpFile::default());
        for (text, words) in [("{", "invalid JSON"), (r#"{"mcpServers": []}"#, "must be an object")] {
            let error = McpFile::read(".mcp.json", text).unwrap_err().to_string();
            assert!(error.contains(words) && error.ends_with("--> .mcp.json"), "{error}");
        }
    }
}
