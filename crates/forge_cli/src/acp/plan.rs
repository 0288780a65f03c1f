//! The plan of an editor: the steps that the agent shows, or those of an answer in the mode `plan`.

use forge_domain::{StepStatus, TaskStep};
use pulldown_cmark::{Event, Parser, Tag, TagEnd};
use serde_json::{Value, json};

/// The most characters of a step that is taken from a text.
const LONGEST: usize = 200;

/// Returns the update that shows these steps.
pub(super) fn update(steps: &[TaskStep]) -> Value {
    let entry =
        |step: &TaskStep| json!({"content": step.step, "priority": "medium", "status": step.status.as_str()});
    let entries: Vec<Value> = steps.iter().map(entry).collect();
    json!({"sessionUpdate": "plan", "entries": entries})
}

/// Returns the steps of a plan in words: the items of its longest list, or the whole as one step.
pub(super) fn steps_of(plan: &str) -> Vec<TaskStep> {
    let mut lists: Vec<Vec<String>> = Vec::new();
    let (mut depth, mut item) = (0, None::<String>);
    for event in Parser::new(plan) {
        match event {
            Event::Start(Tag::List(_)) => {
                depth += 1;
                if depth == 1 {
                    lists.push(Vec::new());
                }
            }
            Event::End(TagEnd::List(_)) => depth -= 1,
            Event::Start(Tag::Item) if depth == 1 => item = Some(String::new()),
            Event::End(TagEnd::Item) if depth == 1 => {
                if let (Some(list), Some(item)) = (lists.last_mut(), item.take()) {
                    list.push(item);
                }
            }
            // Nested text explains the item and is left out.
            Event::Text(text) | Event::Code(text) if depth == 1 => {
                item.iter_mut().for_each(|item| *item += &text);
            }
            Event::SoftBreak | Event::HardBreak if depth == 1 => {
                item.iter_mut().for_each(|item| item.push(' '));
            }
            _ => {}
        }
    }
    let steps = lists.into_iter().rev().max_by_key(Vec::len).unwrap_or_default();
    let steps =
        if steps.is_empty() { vec![plan.split_whitespace().collect::<Vec<_>>().join(" ")] } else { steps };
    let step = |text: String| TaskStep {
        step: text.trim().chars().take(LONGEST).collect(),
        status: StepStatus::Pending,
    };
    steps.into_iter().map(step).filter(|step| !step.step.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_plan_in_words_has_steps() {
        for (plan, expected) in [
            ("I will fix\nthe parser.", &["I will fix the parser."][..]),
            (
                "Two steps:\n\n1. Read `a.rs`\n   with care\n   - its tests\n2. Fix **it**\n\nDone.",
                &["Read a.rs with care", "Fix it"],
            ),
            ("- one\n\n# Then\n\n- two\n- three\n", &["two", "three"]),
            (" ", &[]),
        ] {
            let steps: Vec<String> = steps_of(plan).into_iter().map(|step| step.step).collect();
            assert_eq!(steps, expected, "{plan}");
        }
    }

    #[test]
    fn steps_are_entries() {
        let steps = [TaskStep { step: "Fix it".to_owned(), status: StepStatus::InProgress }];
        let entries = json!([{"content": "Fix it", "priority": "medium", "status": "in_progress"}]);
        assert_eq!(update(&steps), json!({"sessionUpdate": "plan", "entries": entries}));
    }
}
