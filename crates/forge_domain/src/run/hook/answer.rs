//! The answers of hooks, and what they may change.

use std::convert::Infallible;

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use crate::compaction::{CompactionSettings, Focus, Pin};
use crate::{Change, Content, HookPoint, MessageId, Part, ToolResult};

/// An answer of a hook.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum HookAnswer {
    /// It may happen as it is.
    #[default]
    Proceed,
    /// It must not happen; [`HookPoint::denial`] describes the effect.
    Deny {
        /// The reason, for people and, for a tool call, for the model.
        reason: String,
    },
    /// It may happen, changed like this.
    Edit(HookEdit),
}

/// An edit of a hook.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HookEdit {
    /// At [`HookPoint::PreCompact`].
    Compaction(CompactEdit),
    /// At [`HookPoint::PrePrompt`].
    Prompt(PromptEdit),
    /// At [`HookPoint::PreToolCall`].
    Call(CallEdit),
    /// At [`HookPoint::PostToolCall`] and [`HookPoint::ToolFailure`].
    Result(ResultEdit),
}

/// An answer that makes no sense at its point.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnfitAnswer {
    /// Nothing can be denied there.
    #[error("it denies, but nothing can be denied at `{}`", .0.as_str())]
    Denial(HookPoint),
    /// Nothing can be changed there, or something else.
    #[error("it edits something that cannot be edited at `{}`", .0.as_str())]
    Edit(HookPoint),
    /// It is a text for people, or another output that is not JSON.
    #[error("not JSON such as {{\"decision\": \"deny\"}}: {0}")]
    NotJson(String),
    /// It is not written like an answer.
    #[error("{0}")]
    Unreadable(String),
}

/// An answer as JSON, but for the keys of its edit.
#[derive(Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case", deny_unknown_fields)]
enum Written {
    Proceed,
    Deny {
        #[serde(default)]
        reason: String,
    },
}

impl HookAnswer {
    /// Reads an answer at `point`: `{"decision": "proceed"}`, `{"decision": "deny", "reason": "…"}`, or
    /// `{"decision": "edit"}` with keys of what can be edited there beside it.
    ///
    /// # Errors
    /// [`UnfitAnswer`] if it is not an answer, or none at that point.
    pub fn read(point: HookPoint, json: &str) -> Result<Self, UnfitAnswer> {
        let unreadable = |error: serde_json::Error| UnfitAnswer::Unreadable(error.to_string());
        let mut value: Value =
            serde_json::from_str(json).map_err(|error| UnfitAnswer::NotJson(error.to_string()))?;
        let is_edit = value["decision"] == "edit";
        if let Some(keys) = value.as_object_mut().filter(|_| is_edit) {
            keys.shift_remove("decision");
            let edit = match point.change() {
                Change::Nothing => return Err(UnfitAnswer::Edit(point)),
                Change::Compaction => serde_json::from_value(value).map(HookEdit::Compaction),
                Change::Prompt => serde_json::from_value(value).map(HookEdit::Prompt),
                Change::Call => serde_json::from_value(value).map(HookEdit::Call),
                Change::Result => serde_json::from_value(value).map(HookEdit::Result),
            };
            return edit.map(Self::Edit).map_err(unreadable);
        }
        match serde_json::from_value(value) {
            Ok(Written::Proceed) => Ok(Self::Proceed),
            Ok(Written::Deny { reason }) => Self::Deny { reason }.fitting(point),
            Err(error) => {
                // Of the three decisions it knows but two.
                let words = error.to_string().replace("`proceed` or `deny`", "`proceed`, `deny` or `edit`");
                Err(UnfitAnswer::Unreadable(words))
            }
        }
    }

    /// Returns the answer if `point` accepts it.
    ///
    /// # Errors
    /// [`UnfitAnswer`] if it does not.
    pub fn fitting(self, point: HookPoint) -> Result<Self, UnfitAnswer> {
        match &self {
            Self::Proceed => Ok(self),
            Self::Deny { .. } if point.denial().is_some() => Ok(self),
            Self::Deny { .. } => Err(UnfitAnswer::Denial(point)),
            Self::Edit(edit) if edit.change() == point.change() => Ok(self),
            Self::Edit(_) => Err(UnfitAnswer::Edit(point)),
        }
    }
}

impl HookEdit {
    /// Returns what it changes.
    pub const fn change(&self) -> Change {
        match self {
            Self::Compaction(_) => Change::Compaction,
            Self::Prompt(_) => Change::Prompt,
            Self::Call(_) => Change::Call,
            Self::Result(_) => Change::Result,
        }
    }
}

/// An edit for one point, where several hooks' edits add up.
pub trait PointEdit: Clone + Sized {
    /// Returns the edit if it is one of this kind.
    fn from_edit(edit: HookEdit) -> Option<Self>;

    /// Combines this edit and a later one.
    #[must_use]
    fn then(self, later: Self) -> Self;
}

/// Nothing can be edited.
impl PointEdit for Infallible {
    fn from_edit(_: HookEdit) -> Option<Self> {
        None
    }

    fn then(self, _: Self) -> Self {
        self
    }
}

/// A one-time change of a compaction. Its result has to keep every rule as usual.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompactEdit {
    /// The focus, in place of the block's.
    #[serde(default)]
    pub focus: Option<Focus>,
    /// Patterns of user text that survives, besides those of the block.
    #[serde(default)]
    pub pin: Vec<Pin>,
    /// Messages that stay like pinned ones, whatever their author, each with its exchange; in JSON by their
    /// labels.
    #[serde(default, deserialize_with = "labels")]
    pub keep: Vec<MessageId>,
}

impl PointEdit for CompactEdit {
    fn from_edit(edit: HookEdit) -> Option<Self> {
        if let HookEdit::Compaction(edit) = edit { Some(edit) } else { None }
    }

    /// Combines two edits: the later focus wins; what is kept adds up.
    fn then(mut self, later: Self) -> Self {
        self.pin.extend(later.pin);
        self.keep.extend(later.keep);
        Self { focus: later.focus.or(self.focus), ..self }
    }
}

impl CompactEdit {
    /// Returns the settings with this edit.
    pub fn applied_to(&self, settings: &CompactionSettings) -> CompactionSettings {
        let mut edited = settings.clone();
        if self.focus.is_some() {
            edited.rules.focus.clone_from(&self.focus);
        }
        edited.rules.pin.extend(self.pin.iter().cloned());
        edited.rules.keep.clone_from(&self.keep);
        edited
    }
}

/// A note to the model before it is asked. It is a message of the conversation, so that resumed runs and
/// compactions know of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptEdit {
    /// The note to the model.
    pub note: String,
}

impl PointEdit for PromptEdit {
    fn from_edit(edit: HookEdit) -> Option<Self> {
        if let HookEdit::Prompt(edit) = edit { Some(edit) } else { None }
    }

    /// Joins two notes, one below the other.
    fn then(self, later: Self) -> Self {
        Self { note: [self.note, later.note].join("\n\n") }
    }
}

/// The new arguments of a tool call. The conversation keeps what the model wrote, and the result reports what
/// ran.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallEdit {
    /// The arguments, all of them.
    pub arguments: serde_json::Map<String, Value>,
}

impl PointEdit for CallEdit {
    fn from_edit(edit: HookEdit) -> Option<Self> {
        if let HookEdit::Call(edit) = edit { Some(edit) } else { None }
    }

    /// Returns the later one, which was made with knowledge of the earlier.
    fn then(self, later: Self) -> Self {
        later
    }
}

/// A change of a tool's answer as the model reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResultEdit {
    /// The text in place of the tool's whole answer.
    #[serde(default)]
    pub text: Option<String>,
    /// The text after that.
    #[serde(default)]
    pub note: Option<String>,
}

impl PointEdit for ResultEdit {
    fn from_edit(edit: HookEdit) -> Option<Self> {
        if let HookEdit::Result(edit) = edit { Some(edit) } else { None }
    }

    /// Combines two edits: a later text replaces everything before it, notes included; notes add up.
    fn then(self, later: Self) -> Self {
        if later.text.is_some() {
            return later;
        }
        let notes: Vec<String> = self.note.into_iter().chain(later.note).collect();
        Self { text: self.text, note: (!notes.is_empty()).then(|| notes.join("\n")) }
    }
}

impl ResultEdit {
    /// Returns the result with this edit.
    #[must_use]
    pub fn applied_to(self, mut result: ToolResult) -> ToolResult {
        if let Some(text) = self.text {
            result.content = text.into();
        }
        match self.note {
            Some(note) => result.with_note(&note),
            None => result,
        }
    }
}

impl ToolResult {
    /// Returns the result with `note` on a line of its own at its end.
    #[must_use]
    pub fn with_note(self, note: &str) -> Self {
        let content = match self.content {
            Content::Text(text) if text.is_empty() => Content::Text(note.to_owned()),
            Content::Text(text) => Content::Text(format!("{}\n{note}", text.trim_end_matches('\n'))),
            Content::Parts(parts) => {
                Content::Parts(parts.into_iter().chain([Part::Text(note.to_owned())]).collect())
            }
        };
        Self { content, ..self }
    }
}

fn labels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<MessageId>, D::Error> {
    let labels = Vec::<String>::deserialize(deserializer)?;
    labels.iter().map(|label| label.parse().map_err(de::Error::custom)).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::compaction::fixture::settings;
    use crate::{ToolCall, ToolName};

    fn edit<T: for<'de> Deserialize<'de>>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of cases")]
    fn an_answer_is_read_or_refused_with_the_reason() {
        use HookPoint::{
            Checkpoint, PostPrompt, PostToolCall, PreCompact, PrePrompt, PreToolCall, ToolFailure,
            WorkflowStart,
        };
        let deny = |reason: &str| Ok(HookAnswer::Deny { reason: reason.to_owned() });
        let third = MessageId::FIRST.next().next();
        let compaction = CompactEdit {
            focus: Some(Focus::try_from("keys".to_owned()).unwrap()),
            pin: vec![Pin::try_from("^Never".to_owned()).unwrap()],
            keep: vec![third],
        };
        for (point, json, expected) in [
            (PreCompact, json!({"decision": "proceed"}), Ok(HookAnswer::Proceed)),
            (Checkpoint, json!({"decision": "proceed"}), Ok(HookAnswer::Proceed)),
            (PreCompact, json!({"decision": "deny"}), deny("")),
            (WorkflowStart, json!({"decision": "deny", "reason": "not now"}), deny("not now")),
            (PrePrompt, json!({"decision": "deny", "reason": "not now"}), deny("not now")),
            (PreToolCall, json!({"decision": "deny", "reason": "not now"}), deny("not now")),
            (PostToolCall, json!({"decision": "deny", "reason": "not now"}), deny("not now")),
            (
                ToolFailure,
                json!({"decision": "deny"}),
                Err("it denies, but nothing can be denied at `tool_failure`"),
            ),
            (
                PostPrompt,
                json!({"decision": "deny"}),
                Err("it denies, but nothing can be denied at `post_prompt`"),
            ),
            (
                PreCompact,
                json!({"decision": "edit", "focus": "keys", "pin": ["^Never"], "keep": ["m2"]}),
                Ok(HookAnswer::Edit(HookEdit::Compaction(compaction))),
            ),
            (
                PreCompact,
                json!({"decision": "edit"}),
                Ok(HookAnswer::Edit(HookEdit::Compaction(CompactEdit::default()))),
            ),
            (
                PrePrompt,
                json!({"decision": "edit", "note": "n"}),
                Ok(HookAnswer::Edit(HookEdit::Prompt(PromptEdit { note: "n".to_owned() }))),
            ),
            (PrePrompt, json!({"decision": "edit"}), Err("missing field `note`")),
            (
                PreToolCall,
                json!({"decision": "edit", "arguments": {"a": 1}}),
                Ok(HookAnswer::Edit(HookEdit::Call(edit(json!({"arguments": {"a": 1}}))))),
            ),
            (PreToolCall, json!({"decision": "edit", "arguments": "x"}), Err("expected a map")),
            (PreToolCall, json!({"decision": "edit", "note": "n"}), Err("unknown field `note`")),
            (
                ToolFailure,
                json!({"decision": "edit", "text": "t"}),
                Ok(HookAnswer::Edit(HookEdit::Result(edit(json!({"text": "t"}))))),
            ),
            (WorkflowStart, json!({"decision": "edit", "note": "n"}), Err("at `workflow_start`")),
            (
                Checkpoint,
                json!({"decision": "edit"}),
                Err("it edits something that cannot be edited at \
                 `checkpoint`"),
            ),
            (PreCompact, json!({"decision": "edit", "keep": [2]}), Err("expected a string")),
            (PreCompact, json!({"decision": "edit", "keep": ["2"]}), Err("invalid message label '2'")),
            (PreCompact, json!({"decision": "edit", "pin": ["("]}), Err("unclosed group")),
            (PreCompact, json!({"decision": "edit", "drop": []}), Err("unknown field `drop`")),
            (
                PreCompact,
                json!({"decision": "maybe"}),
                Err("unknown variant `maybe`, expected `proceed`, `deny` or `edit`"),
            ),
            (PreCompact, json!({}), Err("missing field `decision`")),
            (PreCompact, json!([]), Err("")),
        ] {
            let actual = HookAnswer::read(point, &json.to_string());
            match (actual, expected) {
                (Ok(actual), Ok(expected)) => assert_eq!(actual, expected, "{json}"),
                (Err(actual), Err(expected)) => {
                    assert!(actual.to_string().contains(expected), "{json}: {actual}");
                }
                (actual, expected) => panic!("{json}: {actual:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn an_answer_fits_exactly_the_points_that_take_it() {
        let edits = [
            HookEdit::Compaction(CompactEdit::default()),
            HookEdit::Prompt(PromptEdit { note: String::new() }),
            HookEdit::Call(edit(json!({"arguments": {}}))),
            HookEdit::Result(ResultEdit::default()),
        ];
        for point in HookPoint::ALL {
            assert!(HookAnswer::Proceed.fitting(point).is_ok());
            let denied = HookAnswer::Deny { reason: String::new() }.fitting(point);
            assert_eq!(denied.is_ok(), point.denial().is_some(), "{point:?}");
            let n_fitting =
                edits.iter().filter(|edit| HookAnswer::Edit((*edit).clone()).fitting(point).is_ok()).count();
            assert_eq!(n_fitting, usize::from(point.change() != Change::Nothing), "{point:?}");
        }
    }

    #[test]
    fn edits_of_compactions_add_up() {
        let first: CompactEdit = edit(json!({"focus": "a", "pin": ["one"], "keep": ["m1"]}));
        let both = first.then(edit(json!({"focus": "b", "pin": ["two"], "keep": ["m2"]})));
        assert_eq!(both, edit(json!({"focus": "b", "pin": ["one", "two"], "keep": ["m1", "m2"]})));
        let settings = |yaml| settings(yaml, 10_000);
        let before = settings("{ focus: old, pin: [zero], max_tokens: 9 }");
        let mut expected = settings("{ focus: b, pin: [zero, one, two], max_tokens: 9 }");
        expected.rules.keep = both.keep.clone();
        assert_eq!(both.applied_to(&before), expected);
        assert_eq!(CompactEdit::default().applied_to(&before), before);
    }

    #[test]
    fn edits_of_results_add_up() {
        let call = ToolCall { id: "c".into(), name: ToolName::new("t").unwrap(), arguments: String::new() };
        let result = |text: &str| ToolResult::answer(&call, text);
        for (first, second, expected) in [
            (json!({"note": "a"}), json!({"note": "b"}), "said\na\nb"),
            (json!({"text": "x", "note": "a"}), json!({"note": "b"}), "x\na\nb"),
            (json!({"note": "a"}), json!({"text": "y"}), "y"),
            (json!({"text": ""}), json!({"note": "b"}), "b"),
            (json!({}), json!({}), "said\n"),
        ] {
            let both = edit::<ResultEdit>(first.clone()).then(edit(second.clone()));
            assert_eq!(both.applied_to(result("said\n")), result(expected), "{first} {second}");
        }
    }
}
