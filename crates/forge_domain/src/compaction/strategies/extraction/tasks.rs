//! The agent's list of tasks, which it writes whole, or task by task.

use serde_json::{Map, Value};

use crate::compaction::answered_call::answered_call;
use crate::compaction::arguments::{PROGRESS, text_or_number};
use crate::{CallPlace, Context, ContextMessage, ToolCall};

/// The list of tasks at the end of a context.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TaskList {
    /// Each behind its status.
    pub(super) tasks: Vec<String>,
    /// The position of the message that tells all of it by itself, as long as that stays; `None` if more than
    /// the messages of the context are needed.
    pub(super) told_at: Option<usize>,
}

/// Returns the list of tasks by the calls of `context`, whose messages were `sources` at first; `None` if no
/// call is about tasks. `earlier` are the tasks of an earlier record: a list that is kept task by task
/// continues from them.
pub(super) fn tasks(context: &Context, sources: &[ContextMessage], earlier: &[String]) -> Option<TaskList> {
    let mut whole: Option<(Vec<Item>, Option<usize>)> = None;
    let mut kept = Kept::of(earlier);
    for (position, message) in sources.iter().enumerate() {
        for (nth, call) in message.message().calls().iter().enumerate() {
            let listed = Listed::of(call).or_else(|| Listed::beside(call));
            if let Some(Listed { items, is_merged }) = listed {
                whole = Some(if is_merged {
                    let before = whole.take().map(|(items, _)| items);
                    let before = before
                        .unwrap_or_else(|| earlier.iter().filter_map(|task| Item::read(task)).collect());
                    (merged(before, items), None)
                } else {
                    (items, Some(position))
                });
            } else if let Some(change) = Change::of(call) {
                kept.take(position, change, &answer_to(context, sources, position, nth));
                whole = None;
            }
        }
    }
    let whole = whole
        .map(|(items, told_at)| TaskList { tasks: items.iter().filter_map(Item::write).collect(), told_at });
    whole.or_else(|| kept.list())
}

/// Returns the texts of the open ones among `tasks`, those that are in progress first.
pub(super) fn open(tasks: &[String]) -> impl Iterator<Item = &str> {
    let of = |status: &'static str| {
        tasks.iter().filter_map(move |task| task.strip_prefix(status)?.strip_prefix(": "))
    };
    of(IN_PROGRESS).chain(of(NEW))
}

/// Returns what the call number `nth` of the message at `position` was answered; an empty text if nothing.
fn answer_to(context: &Context, sources: &[ContextMessage], position: usize, nth: usize) -> String {
    let place = CallPlace { message: position, nth };
    let results = (position + 1..sources.len()).take_while(|at| sources[*at].message().calls().is_empty());
    let is_answer = |at: &usize| answered_call(context, *at).is_some_and(|asked| asked.place == place);
    results.filter(is_answer).map(|at| sources[at].message().text().into_owned()).next().unwrap_or_default()
}

/// Checks whether a call changes the list of tasks.
pub(super) fn is_about_tasks(call: &ToolCall) -> bool {
    Listed::of(call).is_some() || Change::of(call).is_some()
}

/// The change that a call makes to a list that is kept task by task.
enum Change {
    /// A task is added.
    New(String),
    /// The task of that id has a status or a text now.
    Of { id: String, status: Option<String>, text: Option<String> },
}

/// The tools by which Claude Code keeps its list. Tools of other names may be those of a tracker, whose
/// answers are what the work is about.
const CREATE: &str = "TaskCreate";
const UPDATE: &str = "TaskUpdate";

/// The status that a new task has, and the one by which a task is deleted.
const NEW: &str = "pending";
const IN_PROGRESS: &str = "in_progress";
const DELETED: &str = "deleted";

/// Names of the field that tells what a task is, the first that it has.
const TASK: [&str; 7] = ["content", "step", "title", "subject", "task", "text", "description"];
/// The field of a change that tells which task it is.
const ID: &str = "taskId";

impl Change {
    fn of(call: &ToolCall) -> Option<Self> {
        let name = Some(call.name.as_str()).filter(|name| [CREATE, UPDATE].contains(name))?;
        let arguments: Map<String, Value> = serde_json::from_str(&call.arguments).ok()?;
        if name == CREATE {
            return text_of(&arguments).map(Self::New);
        }
        let text = arguments.get("subject").and_then(Value::as_str).map(str::to_owned);
        let id = text_or_number(arguments.get(ID)?)?;
        let status = arguments.get("status").and_then(Value::as_str).map(str::to_owned);
        Some(Self::Of { id, status, text })
    }
}

/// A task of a list, as a call names it: what it says of its text, or of its status, may be missing if the
/// call changes a list.
#[derive(Clone, Debug)]
struct Item {
    id: Option<String>,
    status: Option<String>,
    text: Option<String>,
}

impl Item {
    fn of(item: &Value) -> Option<Self> {
        let fields = item.as_object()?;
        let id = fields.get("id").and_then(text_or_number);
        let status = fields.get("status").and_then(Value::as_str).map(str::to_owned);
        Some(Self { id, status, text: text_of(fields) })
    }

    /// Reads a task that is a line of Markdown, as in `- [x] Test it`.
    fn of_line(line: &str) -> Option<Self> {
        let line = line.trim_start().strip_prefix(['-', '*'])?.trim_start();
        let (mark, text) = line.strip_prefix('[')?.split_once(']')?;
        let status = match mark.trim() {
            "" => NEW,
            "x" | "X" => "completed",
            "-" | "~" => IN_PROGRESS,
            _ => return None,
        };
        let text = Some(text.trim()).filter(|text| !text.is_empty())?;
        Some(Self { id: None, status: Some(status.to_owned()), text: Some(text.to_owned()) })
    }

    /// Reads a task of an earlier record.
    fn read(task: &str) -> Option<Self> {
        let (status, text) = task.split_once(": ")?;
        Some(Self { id: None, status: Some(status.to_owned()), text: Some(text.to_owned()) })
    }

    fn write(&self) -> Option<String> {
        Some(format!("{}: {}", self.status.as_deref()?, self.text.as_deref()?))
    }

    const fn is_whole(&self) -> bool {
        self.status.is_some() && self.text.is_some()
    }

    fn is_same_as(&self, other: &Self) -> bool {
        let is_same = |one: &Option<String>, other: &Option<String>| one.is_some() && one == other;
        is_same(&self.id, &other.id) || is_same(&self.text, &other.text)
    }
}

/// Returns a list with the changes of some of its tasks, and new ones.
fn merged(mut list: Vec<Item>, changes: Vec<Item>) -> Vec<Item> {
    for change in changes {
        match list.iter_mut().find(|item| item.is_same_as(&change)) {
            Some(item) => {
                item.status = change.status.or_else(|| item.status.take());
                item.text = change.text.or_else(|| item.text.take());
            }
            None => list.push(change),
        }
    }
    list
}

/// The tasks of a call that is a list of them.
struct Listed {
    items: Vec<Item>,
    /// True if the call changes these tasks and leaves the others of the list as they are.
    is_merged: bool,
}

impl Listed {
    /// Reads the arguments that are a list of texts with a status each, whatever the tool is called. A
    /// server's tool may be that of a tracker.
    fn of(call: &ToolCall) -> Option<Self> {
        let name = call.name.as_str().to_lowercase();
        let is_tracker = name.contains("__") && !OWN.iter().any(|own| name.contains(own));
        if is_tracker || !call.arguments.contains("\"status\"") {
            return None;
        }
        let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
        let is_merged = arguments.get("merge") == Some(&Value::Bool(true));
        let lists = arguments.as_object()?.values().filter_map(Value::as_array);
        let is_task = |item: &Item| item.is_whole() || is_merged && item.id.is_some();
        let items = |list: &Vec<Value>| list.iter().map(|item| Item::of(item).filter(is_task)).collect();
        let items = lists.filter_map(items).find(|items: &Vec<Item>| !items.is_empty())?;
        Some(Self { items, is_merged })
    }

    /// Reads the list that Cline keeps beside the arguments of any call.
    fn beside(call: &ToolCall) -> Option<Self> {
        if !call.arguments.contains(PROGRESS) {
            return None;
        }
        let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
        let lines = arguments.get(PROGRESS)?.as_str()?.lines();
        let items: Vec<Item> = lines.filter_map(Item::of_line).collect();
        (!items.is_empty()).then_some(Self { items, is_merged: false })
    }
}

/// The words by which the tool of a server names the agent's own list.
const OWN: [&str; 3] = ["plan", "task", "todo"];

fn text_of(fields: &Map<String, Value>) -> Option<String> {
    let text = TASK.iter().find_map(|name| fields.get(*name)?.as_str())?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// A list that is kept task by task.
struct Kept {
    tasks: Vec<KeptTask>,
    /// True if some of the tasks come from an earlier record.
    goes_on: bool,
    /// The position of the first message with a change.
    first: Option<usize>,
}

struct KeptTask {
    id: String,
    status: String,
    text: String,
}

impl Kept {
    /// Reads the tasks of an earlier record that have an id.
    fn of(earlier: &[String]) -> Self {
        let tasks: Vec<KeptTask> = earlier.iter().filter_map(|task| KeptTask::read(task)).collect();
        Self { goes_on: !tasks.is_empty(), tasks, first: None }
    }

    /// Takes in a change by the message at `position`, which was told `answer`.
    fn take(&mut self, position: usize, change: Change, answer: &str) {
        self.first = self.first.or(Some(position));
        match change {
            Change::New(text) => {
                let id = id_in(answer).unwrap_or_else(|| (self.tasks.len() + 1).to_string());
                self.tasks.retain(|task| task.id != id);
                self.tasks.push(KeptTask { id, status: NEW.to_owned(), text });
            }
            Change::Of { id, status, .. } if status.as_deref() == Some(DELETED) => {
                self.tasks.retain(|task| task.id != id);
            }
            Change::Of { id, status, text } => {
                if let Some(task) = self.tasks.iter_mut().find(|task| task.id == id) {
                    status.into_iter().for_each(|status| task.status = status);
                    text.into_iter().for_each(|text| task.text = text);
                }
            }
        }
    }

    /// Returns the list; `None` if nothing in the context changed it.
    fn list(&self) -> Option<TaskList> {
        let first = self.first?;
        let tasks = self.tasks.iter().map(KeptTask::write).collect();
        Some(TaskList { tasks, told_at: (!self.goes_on).then_some(first) })
    }
}

impl KeptTask {
    fn write(&self) -> String {
        format!("{}: #{} {}", self.status, self.id, self.text)
    }

    fn read(task: &str) -> Option<Self> {
        let (status, rest) = task.split_once(": #")?;
        let (id, text) = rest.split_once(' ')?;
        let is_word = |word: &str| !word.is_empty() && !word.contains(char::is_whitespace);
        (is_word(status) && is_word(id)).then(|| Self {
            id: id.to_owned(),
            status: status.to_owned(),
            text: text.to_owned(),
        })
    }
}

/// Returns the id that an answer gives a new task, as in `Task #6 created`.
fn id_in(answer: &str) -> Option<String> {
    let (_, rest) = answer.split_once('#')?;
    let id: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    (!id.is_empty()).then_some(id)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::Conversation;

    /// Returns the list after calls, each a tool, its arguments and its result.
    fn list(calls: &[(&str, &str, &str)], earlier: &[&str]) -> Option<TaskList> {
        let mut log = Conversation::new();
        for (name, arguments, result) in calls {
            log.call(name, arguments, *result);
        }
        let earlier: Vec<String> = earlier.iter().map(|task| (*task).to_owned()).collect();
        let view = log.view();
        tasks(&view, view.messages(), &earlier)
    }

    #[test]
    fn the_newest_state_of_the_tasks_is_told() {
        let todos = r#"{"todos":[{"content":"Read it","status":"completed"},{"content":"Fix  it","status":"pending"}]}"#;
        let new = |n: usize| {
            (
                format!(r#"{{"subject":"Step {n}","description":"x"}}"#),
                format!("Task #{n} created successfully: Step {n}"),
            )
        };
        let (one, two) = (new(1), new(2));
        let created =
            [("TaskCreate", one.0.as_str(), one.1.as_str()), ("TaskCreate", two.0.as_str(), two.1.as_str())];
        let update = |arguments: &'static str| ("TaskUpdate", arguments, "Updated task #1 status");
        let done = update(r#"{"taskId":"1","status":"completed"}"#);
        let whole = ("TodoWrite", todos, "ok");
        let tracked = ("mcp__jira__update", r#"{"issues":[{"title":"Login","status":"closed"}]}"#, "ok");
        let with_ids = (
            "todo_write",
            r#"{"merge":false,"todos":[{"id":"1","content":"Read it","status":"pending"},{"id":"2","content":"Fix it","status":"pending"}]}"#,
            "ok",
        );
        let merges = (
            "todo_write",
            r#"{"merge":true,"todos":[{"id":"1","status":"completed"},{"id":"3","content":"Test it","status":"pending"}]}"#,
            "ok",
        );
        let merges_by_text =
            ("todo_write", r#"{"merge":true,"todos":[{"content":"Read it","status":"completed"}]}"#, "ok");
        for (calls, earlier, expected) in [
            (vec![], &["pending: #1 A"][..], None),
            (vec![("Read", r#"{"path":"a","status":"x"}"#, "ok")], &[], None),
            (vec![("create_task", r#"{"subject":"Call Ann"}"#, "id 7")], &[], None),
            (vec![whole], &[], Some((&["completed: Read it", "pending: Fix it"][..], Some(0)))),
            (created.to_vec(), &[], Some((&["pending: #1 Step 1", "pending: #2 Step 2"], Some(0)))),
            (
                [&created[..], &[done]].concat(),
                &[],
                Some((&["completed: #1 Step 1", "pending: #2 Step 2"], Some(0))),
            ),
            (
                [&created[..], &[update(r#"{"taskId":2,"status":"deleted"}"#)]].concat(),
                &[],
                Some((&["pending: #1 Step 1"], Some(0))),
            ),
            (
                vec![update(r#"{"taskId":"1","description":"with care"}"#)],
                &["in_progress: #1 A"],
                Some((&["in_progress: #1 A"], None)),
            ),
            (
                vec![done],
                &["in_progress: #1 A", "pending: #2 B"],
                Some((&["completed: #1 A", "pending: #2 B"], None)),
            ),
            (
                [&created[..], &[whole]].concat(),
                &[],
                Some((&["completed: Read it", "pending: Fix it"], Some(4))),
            ),
            (vec![whole, tracked], &[], Some((&["completed: Read it", "pending: Fix it"], Some(0)))),
            (
                vec![with_ids, merges],
                &[],
                Some((&["completed: Read it", "pending: Fix it", "pending: Test it"], None)),
            ),
            (
                vec![merges_by_text],
                &["pending: Read it", "pending: Fix it"],
                Some((&["completed: Read it", "pending: Fix it"], None)),
            ),
        ] {
            let actual = list(&calls, earlier);
            let expected = expected.map(|(tasks, told_at)| TaskList {
                tasks: tasks.iter().map(|task| (*task).to_owned()).collect(),
                told_at,
            });
            assert_eq!(actual, expected, "{calls:?}");
        }
    }

    #[test]
    fn the_list_beside_the_arguments_of_a_call_is_told() {
        let arguments = r#"{"path":"a","content":"- [ ] Not it","task_progress":"- [x] Read it\n  - [ ] Fix it\n* [-] Test it\nLater"}"#;
        let list = list(&[("write_to_file", arguments, "ok")], &["pending: Old"]).unwrap();
        assert_eq!(list.tasks, ["completed: Read it", "pending: Fix it", "in_progress: Test it"]);
        assert_eq!(list.told_at, Some(0));
    }
}
