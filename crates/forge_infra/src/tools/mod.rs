//! The built-in tools, confined to one workspace folder.
//!
//! A tool is one file here, with its definition, its rule and its tests, and one line in [`TOOLS`].

mod arguments;
mod ask;
mod failure;
mod files;
mod shell;
mod steps;
mod web;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use forge_domain::{
    CallScope, Content, EditorFiles, EditorTerminal, FetchSettings, FileChange, Image, Nobody, Person, Reach,
    ToolCall, ToolDefinition, ToolName, ToolResult, ToolService, ToolSettings, UnknownToolError,
};
use serde_json::Value;

use self::arguments::Arguments;
#[cfg(feature = "mcp")]
pub(crate) use self::arguments::validate;
pub(crate) use self::arguments::{collect_leaves, compile, place};
use self::failure::ToolFailure;
use self::files::{List, OnDisk, Patch, Read, Search, Workspace, Write};
pub(crate) use self::files::{Step, WalkEnd, open_entry, walk_repository};
use self::shell::ShellRoom;
use self::web::{SearchRoom, WebRoom};
use crate::CommandSandbox;
use crate::process;

/// Every built-in tool.
const TOOLS: &[&dyn Tool] = &[
    &OnDisk(&Read),
    &OnDisk(&List),
    &OnDisk(&Search),
    &OnDisk(&Write),
    &OnDisk(&Patch),
    &shell::Shell,
    &web::Fetch,
    &web::WebSearch,
    &ask::Ask,
    &steps::Steps,
];

/// The error for a workspace folder that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the workspace folder {root}", root = root.display())]
pub struct ToolsError {
    /// The folder.
    pub root: PathBuf,
    /// The cause.
    #[source]
    pub source: std::io::Error,
}

/// The built-in tools over one folder. No path from a model leads out of it: not by `..`, not by an absolute
/// path, not by a symbolic link.
#[derive(Clone)]
pub struct WorkspaceTools {
    room: Arc<Room>,
}

impl fmt::Debug for WorkspaceTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkspaceTools").field("root", &self.room.workspace.root()).finish_non_exhaustive()
    }
}

/// The outside world as tools see it.
#[derive(Clone)]
struct Room {
    workspace: Arc<Workspace>,
    shell: Arc<ShellRoom>,
    web: Arc<WebRoom>,
    search: Option<Arc<SearchRoom>>,
    person: Arc<dyn Person>,
    /// The terminal of the editor, for commands without a sandbox.
    terminal: Option<Arc<dyn EditorTerminal>>,
    /// The time limit for a call that works on files.
    file_limit: Duration,
}

impl WorkspaceTools {
    /// Opens the tools over the folder `root`. Commands have no sandbox until [`Self::within`] gives them
    /// one, and no environment until [`Self::with_settings`] does.
    ///
    /// # Errors
    /// Fails with [`ToolsError`] if `root` is not a folder that can be opened.
    pub fn open(root: &Path) -> Result<Self, ToolsError> {
        let workspace =
            Workspace::open(root).map_err(|source| ToolsError { root: root.to_owned(), source })?;
        let room = Room {
            workspace: Arc::new(workspace),
            shell: Arc::default(),
            web: Arc::new(WebRoom::of(&FetchSettings::default())),
            search: None,
            person: Arc::new(Nobody),
            terminal: None,
            file_limit: files::TIME_LIMIT,
        };
        Ok(Self { room: Arc::new(room) })
    }

    /// Configures the tools according to `settings`; commands see the harmless and the named variables of
    /// `environment`.
    #[must_use]
    pub fn with_settings(self, settings: &ToolSettings, environment: &BTreeMap<String, String>) -> Self {
        let shell = settings.shell.clone().unwrap_or_default();
        let shell = ShellRoom {
            time_limit: shell.time_limit(),
            environment: process::clean_environment(environment, &shell.env),
            sandbox: self.room.shell.sandbox.clone(),
        };
        let web = WebRoom::of(&settings.fetch.clone().unwrap_or_default());
        let search = settings.web_search.as_ref();
        let search = search.map(|settings| Arc::new(SearchRoom::of(settings, environment)));
        self.with_room(|room| {
            room.shell = Arc::new(shell);
            room.web = Arc::new(web);
            room.search = search;
        })
    }

    /// Runs commands in this sandbox; without one if it is `None`. It is enforced only in a program that has
    /// called `supervise_commands`.
    #[must_use]
    pub fn within(self, sandbox: Option<Arc<CommandSandbox>>) -> Self {
        self.with_room(|room| {
            let ShellRoom { time_limit, environment, .. } = &*room.shell;
            let (time_limit, environment) = (*time_limit, environment.clone());
            room.shell = Arc::new(ShellRoom { time_limit, environment, sandbox });
        })
    }

    /// Lets the model ask `person` questions.
    #[must_use]
    pub fn asking(self, person: Arc<dyn Person>) -> Self {
        self.with_room(|room| room.person = person)
    }

    /// Reads and writes files that are open in this editor through it.
    #[must_use]
    pub fn editing_in(self, editor: Option<Arc<dyn EditorFiles>>) -> Self {
        if let Some(editor) = editor {
            self.room.workspace.edit_in(editor);
        }
        self
    }

    /// Runs commands that have no sandbox in the terminal of this editor.
    #[must_use]
    pub fn running_in(self, terminal: Option<Arc<dyn EditorTerminal>>) -> Self {
        self.with_room(|room| room.terminal = terminal)
    }

    /// Adds to the error how to enable a tool that exists only if an endpoint is named.
    fn without_unnamed(&self, unknown: UnknownToolError) -> UnknownToolError {
        if self.room.search.is_some() {
            return unknown;
        }
        let name = web::NAME;
        let others = unknown.known.split(", ").filter(|known| *known != name).collect::<Vec<_>>().join(", ");
        let how = match unknown.name.as_str() == name {
            true => "; this one needs `tool_settings: { web_search: { endpoint: 'https://…{query}…' } }`",
            false => "",
        };
        UnknownToolError { known: format!("{others}{how}"), ..unknown }
    }

    fn with_room(self, change: impl FnOnce(&mut Room)) -> Self {
        let mut room = Arc::unwrap_or_clone(self.room);
        change(&mut room);
        Self { room: Arc::new(room) }
    }
}

#[async_trait]
impl ToolService for WorkspaceTools {
    fn definitions(&self, names: &[ToolName]) -> Result<Vec<ToolDefinition>, UnknownToolError> {
        names
            .iter()
            .map(|name| {
                let tool = find(name).map_err(|unknown| self.without_unnamed(unknown))?;
                if tool.name() == web::NAME && self.room.search.is_none() {
                    return Err(
                        self.without_unnamed(UnknownToolError { name: name.clone(), known: known_names() })
                    );
                }
                Ok(ToolDefinition {
                    name: name.clone(),
                    description: tool.description(),
                    parameters: tool.parameters(),
                })
            })
            .collect()
    }

    async fn reach(&self, call: &ToolCall) -> Reach {
        let Ok(tool) = find(&call.name) else { return Reach::free() };
        // What cannot be read is refused before anything is done.
        match Arguments::parse(&call.arguments, &tool.parameters()) {
            Ok(arguments) => tool.reach(&arguments, &self.room).await,
            Err(_) => Reach::free(),
        }
    }

    async fn preview(&self, call: &ToolCall) -> Option<FileChange> {
        let tool = find(&call.name).ok()?;
        let arguments = Arguments::parse(&call.arguments, &tool.parameters()).ok()?;
        tool.preview(arguments, &self.room).await
    }

    async fn call(&self, call: &ToolCall) -> ToolResult {
        self.call_within(call, &CallScope::unlimited()).await
    }

    async fn call_within(&self, call: &ToolCall, scope: &CallScope) -> ToolResult {
        let tool = match find(&call.name) {
            Ok(tool) => tool,
            Err(unknown) => return ToolResult::error(call, self.without_unnamed(unknown).to_string()),
        };
        let arguments = match Arguments::parse(&call.arguments, &tool.parameters()) {
            Ok(arguments) => arguments,
            Err(refused) => return ToolResult::error(call, refused.to_string()),
        };
        match tool.image(&arguments, &self.room).await {
            None => {}
            Some(Ok(image)) => return ToolResult::answer(call, Content::Parts(image.parts().into())),
            Some(Err(failure)) => return ToolResult::error(call, failure.to_string()),
        }
        match tool.run(arguments, &self.room, scope).await {
            Ok(text) => ToolResult::answer(call, text),
            Err(failure) => ToolResult::error(call, failure.to_string()),
        }
    }
}

/// One built-in tool.
#[async_trait]
trait Tool: Send + Sync {
    /// Returns the name by which the model calls it.
    fn name(&self) -> &'static str;
    /// Returns the description for the model: what it does and when to use it.
    fn description(&self) -> String;
    /// Returns the JSON Schema of its arguments, which covers all of them.
    fn parameters(&self) -> Value;
    /// Returns what a call with these arguments would touch.
    async fn reach(&self, arguments: &Arguments, room: &Room) -> Reach;
    /// Returns the change that the call would make to a file; `None` if it makes none, or would fail.
    async fn preview(&self, _: Arguments, _: &Room) -> Option<FileChange> {
        None
    }
    /// Returns the image that the call shows, or why it cannot be shown; `None` if the call shows no image.
    async fn image(&self, _: &Arguments, _: &Room) -> Option<Result<Image, ToolFailure>> {
        None
    }
    /// Runs the call, and leaves out what `scope` leaves out. Dropping the future stops it.
    async fn run(&self, arguments: Arguments, room: &Room, scope: &CallScope) -> Result<String, ToolFailure>;
}

fn find(name: &ToolName) -> Result<&'static dyn Tool, UnknownToolError> {
    TOOLS
        .iter()
        .find(|tool| tool.name() == name.as_str())
        .copied()
        .ok_or_else(|| UnknownToolError { name: name.clone(), known: known_names() })
}

fn known_names() -> String {
    TOOLS.iter().map(|tool| tool.name()).collect::<Vec<_>>().join(", ")
}

/// Helpers for the tests of every tool.
#[cfg(test)]
mod fixture {
    use forge_domain::ShellSettings;

    use super::*;

    /// A folder that is removed at the end, with tools over its part `workspace`.
    pub(super) struct Fixture {
        pub(super) folder: tempfile::TempDir,
        pub(super) tools: WorkspaceTools,
    }

    impl Fixture {
        /// Creates a workspace with these files; a path that ends in `/` is a folder.
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

        pub(super) fn with_shell(
            self,
            shell: &ShellSettings,
            environment: &BTreeMap<String, String>,
        ) -> Self {
            let settings = ToolSettings { shell: Some(shell.clone()), ..ToolSettings::default() };
            Self { tools: self.tools.with_settings(&settings, environment), ..self }
        }

        pub(super) fn asking(self, person: Arc<dyn Person>) -> Self {
            Self { tools: self.tools.asking(person), ..self }
        }

        pub(super) fn with_settings(
            self,
            settings: &ToolSettings,
            environment: &BTreeMap<String, String>,
        ) -> Self {
            Self { tools: self.tools.with_settings(settings, environment), ..self }
        }

        pub(super) fn with_web(self, web: WebRoom) -> Self {
            Self { tools: self.tools.with_room(|room| room.web = Arc::new(web)), ..self }
        }

        /// Limits calls on files to this time.
        pub(super) fn hasty(self, limit: Duration) -> Self {
            Self { tools: self.tools.with_room(|room| room.file_limit = limit), ..self }
        }

        /// Returns the tool's answer: `Err` if it marked the result as an error.
        pub(super) async fn call(&self, tool: &str, arguments: &str) -> Result<String, String> {
            self.call_within(tool, arguments, &CallScope::unlimited()).await
        }

        /// Returns the tool's answer under these rules, which allow the call as a whole.
        pub(super) async fn call_under(
            &self,
            rules: &str,
            tool: &str,
            arguments: &str,
        ) -> Result<String, String> {
            let scope = CallScope::new(serde_json::from_str(rules).unwrap(), forge_domain::Permission::Allow);
            self.call_within(tool, arguments, &scope).await
        }

        async fn call_within(
            &self,
            tool: &str,
            arguments: &str,
            scope: &CallScope,
        ) -> Result<String, String> {
            let call = ToolCall {
                id: "call_1".into(),
                name: ToolName::new(tool).unwrap(),
                arguments: arguments.into(),
            };
            let result = self.tools.call_within(&call, scope).await;
            let text = result.content.to_text();
            if result.is_error { Err(text) } else { Ok(text) }
        }

        /// Runs each case: arguments, and the expected answer.
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
        let settings = json!({"web_search": {"endpoint": "http://search.test/?q={query}"}});
        let fixture =
            Fixture::new(&[]).with_settings(&serde_json::from_value(settings).unwrap(), &BTreeMap::new());
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
        let expected = "there is no tool `delete` (expected one of read, list, search, write, patch, shell, fetch, ask, steps)";
        let actual = fixture.tools.definitions(&[unknown]).unwrap_err().to_string();
        assert_eq!(actual, expected);
        assert_eq!(fixture.call("delete", "{}").await, Err(expected.to_owned()));
        assert_eq!(fixture.tools.definitions(&[]), Ok(Vec::new()));
        let search = ToolName::new("web_search").unwrap();
        let expected = "there is no tool `web_search` (expected one of read, list, search, write, patch, shell, fetch, ask, steps; this \
                        one needs `tool_settings: { web_search: { endpoint: 'https://…{query}…' } }`)";
        assert_eq!(fixture.tools.definitions(&[search]).unwrap_err().to_string(), expected);
    }

    async fn reach(fixture: &Fixture, tool: &str, arguments: Value) -> Reach {
        let name = ToolName::new(tool).unwrap();
        let call = ToolCall { id: "1".into(), name, arguments: arguments.to_string() };
        fixture.tools.reach(&call).await
    }

    #[tokio::test]
    async fn what_a_call_would_touch_is_known_before_it_is_made() {
        use forge_domain::Permission::{Allow, Ask};
        use forge_domain::Subject::{self, Below, Command, Read, Written};
        let fixture = Fixture::new(&[("a/b", b""), ("secrets/key", b"")]);
        #[cfg(unix)]
        std::os::unix::fs::symlink("secrets", fixture.root().join("link")).unwrap();
        let absolute = fixture.root().join("a/b").display().to_string();
        let one = |subject: fn(String) -> Subject, names: &[&str]| -> Vec<Subject> {
            names.iter().map(|name| subject((*name).to_owned())).collect()
        };
        for (tool, arguments, usual, subjects) in [
            ("read", json!({"path": "./a/../a/b"}), Allow, one(Read, &["a/b"])),
            ("read", json!({"path": absolute}), Allow, one(Read, &["a/b"])),
            ("read", json!({"path": "../x"}), Allow, one(Read, &["../x"])),
            ("list", json!({}), Allow, one(Read, &["."])),
            ("list", json!({"depth": "2"}), Allow, one(Below, &["."])),
            ("search", json!({"pattern": "x", "path": "a/"}), Allow, one(Below, &["a"])),
            ("write", json!({"path": "new/c", "content": ""}), Ask, one(Written, &["new/c"])),
            // A link is what it leads to as well, also for what is not there yet.
            #[cfg(unix)]
            ("read", json!({"path": "link/key"}), Allow, one(Read, &["link/key", "secrets/key"])),
            #[cfg(unix)]
            (
                "write",
                json!({"path": "link/new/x", "content": ""}),
                Ask,
                one(Written, &["link/new/x", "secrets/new/x"]),
            ),
            (
                "patch",
                json!({"path": "a/b", "edits": {"old_text": "x", "new_text": "y"}}),
                Ask,
                one(Written, &["a/b"]),
            ),
            ("shell", json!({"command": "ls; cat x"}), Ask, one(Command, &["ls", "cat x"])),
            ("ask", json!({"question": "x"}), Allow, Vec::new()),
            // Refused before anything is done.
            ("shell", json!({}), Allow, Vec::new()),
            ("delete", json!({}), Allow, Vec::new()),
        ] {
            let actual = reach(&fixture, tool, arguments.clone()).await;
            assert_eq!(actual, Reach { usual, subjects }, "{tool} {arguments}");
        }
    }

    #[test]
    fn a_root_that_is_no_folder_is_an_error_that_names_it() {
        let fixture = Fixture::new(&[("file", b"")]);
        for root in [fixture.root().join("missing"), fixture.root().join("file")] {
            let actual = WorkspaceTools::open(&root).unwrap_err().to_string();
            assert_eq!(actual, format!("cannot open the workspace folder {}", root.display()));
        }
    }

    /// The content that `git init` writes.
    const EXCLUDE: &[u8] = b"# git ls-files --others --exclude-from=.git/info/exclude\n# Lines that start with '#' are comments.\n\
        # For a project mostly in C, the following would be a good set of\n# exclude patterns (uncomment them if you want to use them):\n\
        # *.[oa]\n# *~\n";

    #[tokio::test]
    async fn every_tool_works_in_a_repository_whatever_its_rules_are() {
        let settings =
            json!({"web_search": {"endpoint": "http://127.0.0.1:9/?q={query}"}, "fetch": {"timeout": "5s"}});
        let environment = BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap_or_default())]);
        let bom = [b"\xef\xbb\xbf*.log\r\n\r\n# c\r\n".as_slice(), b"!keep.log\r\n"].concat();
        let repository: [(&str, &[u8]); 2] =
            [(".git/HEAD", b"ref: refs/heads/main\n"), (".git/info/exclude", EXCLUDE)];
        for (name, rules, is_ignored) in [
            ("a fresh repository", vec![], false),
            ("no rules at all", vec![(".gitignore", b"".as_slice())], false),
            (
                "comments alone",
                vec![(".gitignore", EXCLUDE), (".ignore", EXCLUDE), ("sub/.gitignore", EXCLUDE)],
                false,
            ),
            ("a rule of the repository's", vec![(".git/info/exclude", b"*.log".as_slice())], true),
            ("a rule of the folder's above", vec![(".gitignore", b"*.log\n".as_slice())], true),
            ("a rule below", vec![("sub/.gitignore", b"*.log\n".as_slice())], true),
            ("line ends and a mark of another system", vec![(".gitignore", bom.as_slice())], true),
            (
                "a negation below",
                vec![(".gitignore", b"*.log".as_slice()), ("sub/.gitignore", b"!*.log")],
                false,
            ),
            (
                "a negation of the repository's",
                vec![(".git/info/exclude", b"*.log\n!a.log\n".as_slice())],
                false,
            ),
            (
                "the repository's rule is the weakest",
                vec![(".git/info/exclude", b"*.log".as_slice()), (".gitignore", b"!*.log")],
                false,
            ),
            ("no pattern", vec![(".gitignore", b"[a\n\\\n/\n!\n!/\n**\\\n\xff\xfe\n{\n".as_slice())], false),
            ("a folder in the place of the rules", vec![(".gitignore/x", b"".as_slice())], false),
            (
                "a work tree of another repository",
                vec![(".git", b"gitdir: ../elsewhere\n".as_slice())],
                false,
            ),
        ] {
            let files: [(&str, &[u8]); 3] =
                [("a.txt", b"needle\n"), ("sub/a.log", b"needle\n"), ("empty", b"")];
            // Where `.git` is a file, there is no folder of that name.
            let is_folder = rules.iter().all(|(path, _)| *path != ".git");
            let repository = repository.iter().filter(|_| is_folder).copied();
            let files: Vec<_> = repository.chain(files).chain(rules).collect();
            let fixture = Fixture::new(&files)
                .with_settings(&serde_json::from_value(settings.clone()).unwrap(), &environment);
            let found = if is_ignored { "a.txt:1: needle" } else { "a.txt:1: needle\nsub/a.log:1: needle" };
            let answer =
                async |tool: &str, arguments: Value| fixture.call(tool, &arguments.to_string()).await;
            assert_eq!(answer("search", json!({"pattern": "needle"})).await.as_deref(), Ok(found), "{name}");
            let listed = answer("list", json!({"depth": 3})).await.unwrap();
            assert!(listed.contains("a.txt") && listed.contains("sub/a.log"), "{name}: {listed}");
            for (tool, arguments, expected) in [
                ("list", json!({}), Ok("sub/")),
                ("list", json!({"path": "sub"}), Ok("a.log")),
                ("search", json!({"files": "*.txt"}), Ok("a.txt")),
                ("search", json!({"pattern": "needle", "path": "sub/a.log"}), Ok("sub/a.log:1: needle")),
                ("read", json!({"path": "sub/a.log"}), Ok("needle\n")),
                ("write", json!({"path": "new/b.txt", "content": "one\n"}), Ok("created")),
                (
                    "patch",
                    json!({"path": "new/b.txt", "edits": [{"old_text": "one", "new_text": "two"}]}),
                    Ok("changed"),
                ),
                #[cfg(unix)]
                ("shell", json!({"command": "cat a.txt"}), Ok("needle\n")),
                ("fetch", json!({"url": "http://127.0.0.1:9/"}), Err("is not a public address")),
                ("web_search", json!({"query": "x"}), Err("cannot be reached")),
                ("ask", json!({"question": "Which?"}), Err("no one can answer")),
            ] {
                let actual = answer(tool, arguments.clone()).await;
                let is_like = match (&actual, expected) {
                    (Ok(actual), Ok(expected)) | (Err(actual), Err(expected)) => actual.contains(expected),
                    _ => false,
                };
                assert!(is_like, "{name}: {tool} {arguments}: {actual:?}");
            }
        }
    }
}
