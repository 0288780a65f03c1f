//! `ask`: a question to the user of the run.

use async_trait::async_trait;
use forge_domain::{CallScope, Question, Reach, Unanswered};
use serde::Deserialize;
use serde_json::{Value, json};

use super::arguments::Arguments;
use super::failure::ToolFailure;
use super::{Room, Tool};

pub(super) struct Ask;

#[derive(Deserialize)]
struct Wanted {
    question: String,
    #[serde(default)]
    options: Vec<String>,
}

#[async_trait]
impl Tool for Ask {
    fn name(&self) -> &'static str {
        "ask"
    }

    fn description(&self) -> String {
        "Asks the user, and waits for the answer. For what only they can know or decide; what can be found out, find out."
            .to_owned()
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "question": {"type": "string", "minLength": 1, "description": "One question, with all that is needed to answer it."},
                "options": {
                    "type": "array",
                    "items": {"type": "string", "minLength": 1},
                    "maxItems": 10,
                    "description": "Answers to choose from; the user may give another."
                }
            },
            "required": ["question"],
            "additionalProperties": false
        })
    }

    async fn reach(&self, _: &Arguments, _: &Room) -> Reach {
        Reach::free()
    }

    async fn run(&self, arguments: Arguments, room: &Room, scope: &CallScope) -> Result<String, ToolFailure> {
        let Wanted { question, options } = arguments.read()?;
        let question = Question { text: question, options };
        scope.note_question(&question);
        match room.person.answer(&question).await {
            Ok(answer) if answer.trim().is_empty() => Ok("[the user gave no answer]".to_owned()),
            Ok(answer) => Ok(answer),
            Err(Unanswered::Later) => {
                scope.note_awaited(question);
                Err(ToolFailure::Refused("no one has answered yet".to_owned()))
            }
            Err(Unanswered::Nobody) => Err(ToolFailure::Refused(
                "no one can answer here: decide what is most likely wanted, continue, and state your \
                 assumptions at the end"
                    .to_owned(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forge_domain::{Consent, ConsentRequest, Person, Question, Unanswered};

    use super::super::fixture::Fixture;

    struct Echo;

    #[async_trait::async_trait]
    impl Person for Echo {
        async fn answer(&self, question: &Question) -> Result<String, Unanswered> {
            Ok(format!("{} {}", question.text, question.options.join("/")))
        }
        async fn consent(&self, _: &ConsentRequest<'_>) -> Result<Consent, Unanswered> {
            Err(Unanswered::Nobody)
        }
    }

    #[tokio::test]
    async fn the_person_answers_where_there_is_one() {
        let fixture = Fixture::new(&[]);
        let nobody = fixture.call("ask", r#"{"question": "Red?"}"#).await.unwrap_err();
        assert!(nobody.starts_with("no one can answer here"), "{nobody}");
        let fixture = fixture.asking(Arc::new(Echo));
        fixture
            .check(
                "ask",
                &[
                    (r#"{"question": "Red?"}"#, Ok("Red? ")),
                    (r#"{"question": "Which?", "options": ["a", "b"]}"#, Ok("Which? a/b")),
                    ("{}", Err("`question` is missing")),
                ],
            )
            .await;
    }
}
