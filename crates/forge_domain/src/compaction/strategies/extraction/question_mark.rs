//! Questions, known by the marks at their ends. Apart because a text alone shows them, whatever it is worth.

use crate::compaction::features::SENTENCE_ENDS;
use crate::conversation::is_word_by_itself;

/// Checks whether a text ends with a question.
pub(super) fn asks(text: &str) -> bool {
    without_question_mark(text).is_some()
}

/// Checks whether a text may end with a question that has no mark, as in scripts where questions may end as
/// other sentences do.
pub(super) fn may_ask(text: &str) -> bool {
    let text = text.trim_end_matches(is_closing);
    text.ends_with(|c: char| is_word_by_itself(c) || !c.is_ascii() && SENTENCE_ENDS.contains(&c))
}

/// Returns a text without the question mark at its end; `None` if it has none. Other marks, signs and
/// brackets may follow.
pub(super) fn without_question_mark(text: &str) -> Option<&str> {
    let text = text.trim_end_matches(is_closing);
    let is_mark = |c: char| SENTENCE_ENDS.contains(&c) || QUESTION_MARKS.contains(&c);
    let before = text.trim_end_matches(is_mark);
    text[before.len()..].contains(QUESTION_MARKS).then_some(before)
}

/// Checks whether a sentence ends within a text: at a mark before a blank, or at a mark of a script that has
/// no blanks.
pub(super) fn ends_a_sentence(text: &str) -> bool {
    text.match_indices(SENTENCE_ENDS).any(|(at, mark)| {
        let after = text[at + mark.len()..].chars().next();
        !mark.is_ascii() || after.is_some_and(char::is_whitespace)
    })
}

/// The question marks of all scripts, and signs that are one with another mark.
const QUESTION_MARKS: [char; 9] = ['?', '？', '؟', '\u{37e}', '፧', '⁇', '⁈', '⁉', '﹖'];
/// Marks of ASCII that may close a text after its last sentence, also as a face. Others are of code.
const CLOSING: [char; 8] = ['*', '_', ')', '"', '\'', ']', ':', '-'];

/// Checks whether a character may stand after the end of a text's last sentence: a bracket or a quote of any
/// script, or a sign such as a face.
fn is_closing(c: char) -> bool {
    let is_mark = SENTENCE_ENDS.contains(&c) || QUESTION_MARKS.contains(&c);
    c.is_whitespace() || CLOSING.contains(&c) || !c.is_ascii() && !c.is_alphanumeric() && !is_mark
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_question_is_known_whatever_closes_it() {
        for (text, expected) in [
            ("Shall I?", Some("Shall I")),
            ("Shall I? 😊", Some("Shall I")),
            ("Shall I? :-)", Some("Shall I")),
            ("**Shall I?**", Some("**Shall I")),
            ("Shall I?!", Some("Shall I")),
            ("“Shall I?”", Some("“Shall I")),
            ("削除しますか？🚀", Some("削除しますか")),
            ("（削除しますか？）", Some("（削除しますか")),
            ("『削除しますか？』", Some("『削除しますか")),
            ("要删除旧表吗？！", Some("要删除旧表吗")),
            ("要删除旧表吗？～", Some("要删除旧表吗")),
            ("«Удалить таблицу?»", Some("«Удалить таблицу")),
            ("هل أحذف الجدول؟", Some("هل أحذف الجدول")),
            ("Να διαγράψω τον πίνακα\u{37e}", Some("Να διαγράψω τον πίνακα")),
            // It tells of a question.
            ("He asked \"shall I?\".", None),
            ("```\nlet a = read()?;\n```", None),
            ("It is done. 😊", None),
            ("削除しますか。", None),
            ("", None),
        ] {
            assert_eq!(without_question_mark(text), expected, "{text}");
        }
    }

    #[test]
    fn where_questions_need_no_mark_a_text_may_end_with_one() {
        for (text, expected) in [
            ("It is done.", false),
            ("It is done! 😊", false),
            ("*(It is done.)*", false),
            ("削除しましょうか。", true),
            ("จะลบตารางไหม", true),
            ("（削除しました。）", true),
            ("Все готово", false),
            ("- the door\n- the lamp", false),
        ] {
            assert_eq!(may_ask(text), expected, "{text}");
        }
    }
}
