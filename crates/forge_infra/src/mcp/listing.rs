//! A server's tools under the names by which models call them.

use std::collections::BTreeMap;

use forge_domain::{MCP_SEPARATOR, McpServerId, ToolDefinition, ToolName};
use rmcp::model::Tool;
use serde_json::{Value, json};

use super::content::{clean, shorten};

/// The longest name of a tool that every provider accepts.
const LONGEST_NAME: usize = 64;
/// The most tools of one server: more would fill any window.
const MOST_TOOLS: usize = 256;
/// The most characters of a description.
const MOST_DESCRIPTION: usize = 4_000;
/// The most bytes of a schema.
const MOST_SCHEMA: usize = 32_000;
/// The most tools that are remembered after the server took them back.
const MOST_GONE: usize = 10_000;

/// A tool as it is offered.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Offered {
    /// The server's own name for it.
    pub(super) theirs: String,
    pub(super) definition: ToolDefinition,
}

/// The tools of a server, as they are offered.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Listing {
    pub(super) tools: Vec<Offered>,
    /// The tools that are not offered, and why.
    pub(super) refused: Vec<String>,
    /// The tools that were offered earlier, and are not any more.
    pub(super) gone: Vec<ToolName>,
    /// True if the server could not be started, and the run continues without it.
    pub(super) is_missing: bool,
}

/// A page of a server's list.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) tools: Vec<Tool>,
    /// The tools that cannot be read, and why.
    pub(super) unreadable: Vec<String>,
    /// The place where the next page begins.
    pub(super) next: Option<String>,
}

impl Page {
    /// Reads a page tool by tool: an invalid one leaves the others usable.
    ///
    /// # Errors
    /// The reason, if it is no list at all.
    pub(super) fn read(mut page: Value) -> Result<Self, String> {
        let Some(Value::Array(items)) = page.get_mut("tools").map(Value::take) else {
            return Err("its answer has no list `tools`".to_owned());
        };
        let (mut tools, mut unreadable) = (Vec::new(), Vec::new());
        for item in items {
            let name = item["name"].as_str().map(clean).unwrap_or_default();
            match serde_json::from_value(item) {
                Ok(tool) => tools.push(tool),
                Err(error) => unreadable.push(format!("`{name}`: {}", clean(&error.to_string()))),
            }
        }
        Ok(Self { tools, unreadable, next: page["nextCursor"].as_str().map(str::to_owned) })
    }
}

impl Listing {
    /// Lists the tools of `server`. Tools whose names would be equal are all refused: no one could tell which
    /// was meant.
    pub(super) fn of(server: &McpServerId, tools: Vec<Tool>) -> Self {
        let mut listing = Self::default();
        let mut theirs_of: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for tool in &tools {
            theirs_of.entry(plain(server, &tool.name)).or_default().push(tool.name.to_string());
        }
        for (name, theirs) in theirs_of.iter().filter(|(_, theirs)| theirs.len() > 1) {
            listing.refused.push(format!("{} would all be `{name}`", quote(theirs)));
        }
        for tool in tools {
            let name = plain(server, &tool.name);
            if theirs_of.get(&name).is_none_or(|theirs| theirs.len() > 1) {
                continue;
            }
            let parameters = schema(Value::Object((*tool.input_schema).clone()));
            let n_bytes = parameters.to_string().len();
            if n_bytes > MOST_SCHEMA {
                listing.refused.push(format!("the schema of `{name}` has {n_bytes} bytes"));
            } else if listing.tools.len() == MOST_TOOLS {
                listing.refused.push(format!("`{name}` is one more than {MOST_TOOLS} tools"));
            } else if let Ok(name) = ToolName::new(name) {
                let said = tool.description.or(tool.title.map(Into::into)).unwrap_or_default();
                let description = shorten(clean(&said).trim(), MOST_DESCRIPTION);
                let definition = ToolDefinition { name, description, parameters };
                listing.tools.push(Offered { theirs: tool.name.into_owned(), definition });
            }
        }
        listing
    }

    /// Notes what is gone since `earlier`, and returns the tools that were still offered then.
    pub(super) fn follow(&mut self, earlier: &Self) -> Vec<ToolName> {
        let is_gone = |name: &&ToolName| self.tools.iter().all(|tool| tool.definition.name != **name);
        let offered = earlier.tools.iter().map(|tool| &tool.definition.name);
        let lost: Vec<ToolName> = offered.filter(is_gone).cloned().collect();
        let older = earlier.gone.iter().filter(is_gone).cloned();
        let gone = lost.iter().cloned().chain(older).take(MOST_GONE).collect();
        self.gone = gone;
        lost
    }
}

/// Returns `server__tool`, with only the characters and the length that every provider accepts.
fn plain(server: &McpServerId, theirs: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let theirs = theirs.chars().map(|c| if is_plain(c) { c } else { '_' });
    format!("{server}{MCP_SEPARATOR}").chars().chain(theirs).take(LONGEST_NAME).collect()
}

fn quote(names: &[String]) -> String {
    names.iter().map(|name| format!("`{}`", clean(name))).collect::<Vec<_>>().join(", ")
}

/// Returns a schema that every provider accepts: it names the type `object`, and its properties.
fn schema(mut schema: Value) -> Value {
    if let Some(keys) = schema.as_object_mut() {
        keys.insert("type".to_owned(), json!("object"));
        if !keys.get("properties").is_some_and(Value::is_object) {
            keys.insert("properties".to_owned(), json!({}));
        }
        keys.shift_remove("$schema");
    }
    schema
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn tool(name: &str) -> Tool {
        serde_json::from_value(
            json!({"name": name, "description": "does\u{7} it", "inputSchema": {"$schema": "x"}}),
        )
        .unwrap()
    }

    #[test]
    fn tools_have_names_that_every_provider_takes() {
        let server = McpServerId::new("s").unwrap();
        let long = "x".repeat(80);
        for (names, expected, refused) in [
            (vec!["read"], vec!["s__read"], vec![]),
            (vec!["read.file", "größe", "a b"], vec!["s__read_file", "s__gr__e", "s__a_b"], vec![]),
            (vec![long.as_str()], vec![&format!("s__{long}")[..64]], vec![]),
            (vec!["a.b", "c", "a_b"], vec!["s__c"], vec!["`a.b`, `a_b` would all be `s__a_b`"]),
            (vec!["a", "a"], vec![], vec!["`a`, `a` would all be `s__a`"]),
        ] {
            let listing = Listing::of(&server, names.iter().map(|name| tool(name)).collect());
            let actual: Vec<&str> = listing.tools.iter().map(|tool| tool.definition.name.as_str()).collect();
            assert_eq!(
                (actual, listing.refused),
                (expected, refused.into_iter().map(str::to_owned).collect())
            );
        }
    }

    #[test]
    fn a_tool_that_was_offered_is_remembered_until_it_is_there_again() {
        let server = McpServerId::new("s").unwrap();
        let mut listing = Listing::of(&server, vec![tool("a"), tool("b")]);
        let name = |name: &str| ToolName::new(format!("s__{name}")).unwrap();
        for (names, lost, gone) in [
            (vec!["b"], vec![name("a")], vec![name("a")]),
            (vec![], vec![name("b")], vec![name("b"), name("a")]),
            (vec!["a"], vec![], vec![name("b")]),
        ] {
            let mut next = Listing::of(&server, names.iter().map(|name| tool(name)).collect());
            assert_eq!((next.follow(&listing), &next.gone), (lost, &gone));
            listing = next;
        }
    }

    #[test]
    fn an_invalid_tool_is_left_out_and_the_others_are_read() {
        let schema = json!({"type": "object"});
        let tools = json!([
            {"name": "good", "inputSchema": schema},
            {"name": "bare\u{1b}"},
            {"name": "wrong", "inputSchema": true},
            {"inputSchema": schema},
        ]);
        let page = Page::read(json!({"tools": tools, "nextCursor": "2"})).unwrap();
        let names: Vec<&str> = page.tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!((names, page.next.as_deref()), (vec!["good"], Some("2")));
        assert_eq!(
            page.unreadable,
            [
                "`bare`: missing field `inputSchema`",
                "`wrong`: invalid type: boolean `true`, expected a map",
                "``: missing field `name`",
            ]
        );
        assert_eq!(Page::read(json!({})).unwrap_err(), "its answer has no list `tools`");
    }

    #[test]
    fn schemas_and_descriptions_are_made_plain() {
        let listing = Listing::of(&McpServerId::new("s").unwrap(), vec![tool("t")]);
        let expected = ToolDefinition {
            name: ToolName::new("s__t").unwrap(),
            description: "does it".to_owned(),
            parameters: json!({"type": "object", "properties": {}}),
        };
        assert_eq!(listing.tools, [Offered { theirs: "t".to_owned(), definition: expected }]);
        let many = (0..300).map(|n| tool(&format!("t{n}"))).collect();
        let listing = Listing::of(&McpServerId::new("s").unwrap(), many);
        assert_eq!((listing.tools.len(), listing.refused.len()), (256, 44));
    }
}
