//! The answers of the user to the questions of the agent, as a result has them.

use std::borrow::Cow;

use super::label::one_line;

/// Most characters of answers with all of their questions, and of a question otherwise.
const WITH_QUESTIONS: usize = 400;
const QUESTION_CHARS: usize = 60;

/// Returns answers, each behind its question, with only the beginnings of those if all is long.
pub(super) fn with_short_questions(text: &str) -> Cow<'_, str> {
    if text.chars().nth(WITH_QUESTIONS).is_none() {
        return Cow::Borrowed(text);
    }
    let short = |question: &str| one_line(question, QUESTION_CHARS).unwrap_or_else(|| question.to_owned());
    // `"First question"="First answer", "Second question"="Second answer"`
    let parts: Vec<&str> = text.split("\"=\"").collect();
    let last = parts.len() - 1;
    let parts = parts.iter().enumerate().map(|(nth, part)| match (nth, part.rsplit_once("\", \"")) {
        (nth, _) if nth == last => (*part).to_owned(),
        (0, _) => short(part),
        (_, Some((answer, question))) => format!("{answer}\", \"{}", short(question)),
        (_, None) => (*part).to_owned(),
    });
    Cow::Owned(parts.collect::<Vec<_>>().join("\"=\""))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn of_long_questions_the_beginnings_are_told_and_the_answers_whole() {
        let question = "Which way do you want to go from here, as there are several of them? ".repeat(4);
        let asked = format!("\"{question}\"=\"The first, \"at once\"\", \"{question}\"=\"None\".");
        let expected = "\"Which way do you want to go from here, as there are …\"=\"The first, \"at once\"\", \
                        \"Which way do you want to go from here, as there are several …\"=\"None\".";
        assert_eq!(with_short_questions(&asked), expected);
        assert_eq!(with_short_questions("\"Which?\"=\"None\"."), "\"Which?\"=\"None\".");
    }
}
