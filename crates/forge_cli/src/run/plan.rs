//! Plans: the answers of the mode `plan`, which a user may approve.

use forge_app::{RunReport, StopReason};

/// The message that approves a plan.
pub(crate) const PLAN_APPROVAL: &str = "The plan is approved: carry it out.";

/// Checks whether a turn in the mode `plan` may have ended with a plan: an answer that ends with a question
/// is not a plan yet.
pub(crate) fn may_be_plan(report: &RunReport) -> bool {
    report.stop == StopReason::Done && is_statement(&report.response)
}

fn is_statement(answer: &str) -> bool {
    let end = answer.trim_end().trim_end_matches(['*', '_', '`', '"', '»', '”', ')', ' ']);
    !end.is_empty() && !end.ends_with(['?', '？', '؟'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_no_plan() {
        for (answer, expected) in [
            ("1. Read it.\n2. Change it.", true),
            ("Which of the two do you mean?", false),
            ("どちらですか？\n", false),
            ("**Shall I begin?**", false),
            (" \n", false),
        ] {
            assert_eq!(is_statement(answer), expected, "{answer}");
        }
    }
}
