//! `steps`: the list of steps of a long task, which the user sees.

use async_trait::async_trait;
use forge_domain::{CallScope, Reach, TaskStep, quantity};
use serde::Deserialize;
use serde_json::{Value, json};

use super::arguments::Arguments;
use super::failure::ToolFailure;
use super::{Room, Tool};

pub(super) struct Steps;

#[derive(Deserialize)]
struct Wanted {
    steps: Vec<TaskStep>,
}

#[async_trait]
impl Tool for Steps {
    fn name(&self) -> &'static str {
        TaskStep::TOOL
    }

    fn description(&self) -> String {
        "Shows the user the steps of a task that has several. Call it once the steps are clear, and again when one \
         begins or is done, each time with all steps. Leave it out for a task of one or two steps."
            .to_owned()
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "steps": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 50,
                    "description": "All steps, in their order.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "step": {"type": "string", "minLength": 1, "description": "The step in a few words."},
                            "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]}
                        },
                        "required": ["step", "status"],
                        "additionalProperties": false
                    }
                }
            },
            "required": ["steps"],
            "additionalProperties": false
        })
    }

    async fn reach(&self, _: &Arguments, _: &Room) -> Reach {
        Reach::free()
    }

    async fn run(&self, arguments: Arguments, _: &Room, _: &CallScope) -> Result<String, ToolFailure> {
        let Wanted { steps } = arguments.read()?;
        Ok(format!("{} of {} done", TaskStep::count_done(&steps), quantity(steps.len(), "step")))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Fixture;

    #[tokio::test]
    async fn steps_are_counted() {
        Fixture::new(&[])
            .check(
                "steps",
                &[
                    (r#"{"steps": [{"step": "Read", "status": "completed"}, {"step": "Write", "status": "pending"}]}"#, Ok("1 of 2 steps done")),
                    (r#"{"steps": [{"step": "Read", "status": "in_progress"}]}"#, Ok("0 of 1 step done")),
                    (r#"{"steps": [{"step": "Read", "status": "soon"}]}"#, Err("`steps[0].status` must be one of [\"pending\",\"in_progress\",\"completed\"], not \"soon\"")),
                    ("{}", Err("`steps` is missing")),
                ],
            )
            .await;
    }
}
