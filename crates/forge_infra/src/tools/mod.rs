//! The built-in tools, confined to one workspace folder.
//!
//! A tool is one file here: its definition, its rule, its tests; and one line in [`TOOLS`].

mod arguments;
mod failure;
mod list;
mod on_disk;
mod patch;
mod read;
mod search;
mod walk;
mod workspace;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use forge_domain::{ToolCall, ToolDefinition, ToolName, ToolResult, ToolService, UnknownToolError};
use serde_json::Value;

use self::arguments::Arguments;
use self::failure::ToolFailure;
use self::on_disk::OnDisk;
use self::workspace::Workspace;

/// Every built-in tool.
const TOOLS: &[&dyn Tool] = &[
    &OnDisk(&read::Read),
    &OnDisk(&list::List),
    &OnDisk(&search::Search),
    &OnDisk(&write::Write),
    &OnDisk(&patch::Patch),
];

/// The workspace folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the workspace folder {root}", root = root.display())]
pub struct ToolsError {
    /// The folder.
    pub root: PathBuf,
    /// What went wrong.
    #[source]
    pub source: std::io::Error,
}

/// The built-in tools over one folder. No path that a model gives leads out of it: not by `..`, not by an absolute
/// path, not by a symbolic link.
#[derive(Clone, Debug)]
pub struct WorkspaceTools {
    room: Arc<Room>,
}

/// The world as tools see it.
#[derive(Debug)]
struct Room {
    workspace: Arc<Workspace>,
}

impl WorkspaceTools {
    /// The tools over the folder `root`.
    ///
    /// # Errors
    /// [`ToolsError`] where `root` is no folder that can be opened.
    pub fn open(root: &Path) -> Result<Self, ToolsError> {
        let workspace =
            Workspace::open(root).map_err(|source| ToolsError { root: root.to_owned(), source })?;
        Ok(Self { room: Arc::new(Room { workspace: Arc::new(workspace) }) })
    }
}

#[async_trait]
impl ToolService for WorkspaceTools {
    fn definitions(&self, names: &[ToolName]) -> Result<Vec<ToolDefinition>, UnknownToolError> {
        names
            .iter()
            .map(|name| {
                let tool = find(name)?;
                Ok(ToolDefinition {
                    name: name.clone(),
                    description: tool.description(),
                    parameters: tool.parameters(),
                })
            })
            .collect()
    }

    async fn call(&self, call: &ToolCall) -> ToolResult {
        let tool = match find(&call.name) {
            Ok(tool) => tool,
            Err(unknown) => return ToolResult::error(call, unknown.to_string()),
        };
        let arguments = match Arguments::parse(&call.arguments, &tool.parameters()) {
            Ok(arguments) => arguments,
            Err(refused) => return ToolResult::error(call, refused.to_string()),
        };
        match tool.run(arguments, &self.room).await {
            Ok(text) => ToolResult::answer(call, text),
            Err(failure) => ToolResult::error(call, failure.to_string()),
        }
    }
}

/// One built-in tool.
#[async_trait]
trait Tool: Send + Sync {
    /// The name by which the model calls it.
    fn name(&self) -> &'static str;
    /// What it does and when to use it, said to the model.
    fn description(&self) -> String;
    /// JSON Schema of its arguments: the whole of what it knows.
    fn parameters(&self) -> Value;
    /// Does it. Whoever drops the future stops it.
    async fn run(&self, arguments: Arguments, room: &Room) -> Result<String, ToolFailure>;
}

fn find(name: &ToolName) -> Result<&'static dyn Tool, UnknownToolError> {
    TOOLS.iter().find(|tool| tool.name() == name.as_str()).copied().ok_or_else(|| UnknownToolError {
        name: name.clone(),
        known: TOOLS.iter().map(|tool| tool.name()).collect::<Vec<_>>().join(", "),
    })
}

/// What the tests of every tool share.
#[cfg(test)]
mod fixture {
    use super::*;

    /// A folder that is removed at the end, with tools over its part `workspace`.
    pub(super) struct Fixture {
        pub(super) folder: tempfile::TempDir,
        pub(super) tools: WorkspaceTools,
    }

    impl Fixture {
        /// A workspace with these files; a path that ends in `/` is a folder.
        pub(super) fn new(files: &[(&str, &[u8])]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().join("workspace");
            std::fs::create_dir_all(&root).unwrap();
            std::fs::write(folder.path().join("secret"), "outside").unwrap();
            for (path, bytes) in files {
                let path_in_root = root.join(path);
                if path.ends_with('/') {
                    std::fs::create_dir_all(path_in_root).unwrap();
                } else {
                    std::fs::create_dir_all(path_in_root.parent().unwrap()).unwrap();
                    std::fs::write(path_in_root, bytes).unwrap();
                }
            }
            let tools = WorkspaceTools::open(&root).unwrap();
            Self { folder, tools }
        }

        pub(super) fn root(&self) -> PathBuf {
            self.folder.path().join("workspace")
        }

        /// What the tool answers: `Err` where it marked the result as an error.
        pub(super) async fn call(&self, tool: &str, arguments: &str) -> Result<String, String> {
            let call = ToolCall {
                id: "call_1".into(),
                name: ToolName::new(tool).unwrap(),
                arguments: arguments.into(),
            };
            let result = self.tools.call(&call).await;
            let text = result.content.to_text();
            if result.is_error { Err(text) } else { Ok(text) }
        }

        /// Runs each case: arguments, and what the tool answers.
        pub(super) async fn check(&self, tool: &str, cases: &[(&str, Result<&str, &str>)]) {
            for (arguments, expected) in cases {
                let actual = self.call(tool, arguments).await;
                let expected = expected.map(str::to_owned).map_err(str::to_owned);
                pretty_assertions::assert_eq!(actual, expected, "{tool} {arguments}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::fixture::Fixture;
    use super::*;

    #[test]
    fn every_tool_is_defined_by_an_object_schema_that_is_closed() {
        let fixture = Fixture::new(&[]);
        let names: Vec<_> = TOOLS.iter().map(|tool| ToolName::new(tool.name()).unwrap()).collect();
        let definitions = fixture.tools.definitions(&names).unwrap();
        assert_eq!(
            definitions.iter().map(|definition| &definition.name).collect::<Vec<_>>(),
            Vec::from_iter(&names)
        );
        for definition in definitions {
            assert_eq!(definition.parameters["type"], json!("object"), "{}", definition.name);
            assert_eq!(definition.parameters["additionalProperties"], json!(false), "{}", definition.name);
            assert!(!definition.description.is_empty(), "{}", definition.name);
        }
    }

    #[tokio::test]
    async fn unknown_tools_are_told_with_those_there_are() {
        let fixture = Fixture::new(&[]);
        let unknown = ToolName::new("delete").unwrap();
        let expected = "there is no tool `delete`; known are: read, list, search, write, patch";
        let actual = fixture.tools.definitions(&[unknown]).unwrap_err().to_string();
        assert_eq!(actual, expected);
        assert_eq!(fixture.call("delete", "{}").await, Err(expected.to_owned()));
        assert_eq!(fixture.tools.definitions(&[]), Ok(Vec::new()));
    }

    #[test]
    fn a_root_that_is_no_folder_is_an_error_that_names_it() {
        let fixture = Fixture::new(&[("file", b"")]);
        for root in [fixture.root().join("missing"), fixture.root().join("file")] {
            let actual = WorkspaceTools::open(&root).unwrap_err().to_string();
            assert_eq!(actual, format!("cannot open the workspace folder {}", root.display()));
        }
    }
}
