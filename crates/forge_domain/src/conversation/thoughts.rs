//! Thoughts that a model writes in front of its answer, in the same text: servers without a parser for them
//! pass on the tags of the model's template.

/// The tags around thoughts, the most common ones first. The last one is followed by [`ANSWER_HEADER`].
pub const THOUGHTS: [(&str, &str); 9] = [
    USUAL,
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|channel>thought", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|end|>"),
];
const USUAL: (&str, &str) = ("<think>", "</think>");

/// The text between thoughts and answer in the template of gpt-oss.
pub const ANSWER_HEADER: &str = "<|start|>assistant<|channel|>final<|message|>";

/// Splits a text into the thoughts at its beginning and the answer behind them; `None` if it does not begin
/// with thoughts between the usual tags: others, such as Claude's `<thinking>`, may be meant to be read. The
/// first tag may be missing, as many templates put it into the prompt. Thoughts without an end are all of the
/// text.
pub fn split_thoughts(text: &str) -> Option<(&str, &str)> {
    let (open, close) = USUAL;
    let (thoughts, said) = match text.trim_start().strip_prefix(open) {
        Some(begun) => begun.split_once(close).unwrap_or((begun, "")),
        None => text.split_once(close).filter(|(before, _)| may_be_thoughts(before))?,
    };
    Some((thoughts.trim(), said.trim_start()))
}

/// Checks whether what stands before a tag that nothing opened can be thoughts: an answer may also tell of
/// the tag, as a word of a sentence, in quotes or in code.
fn may_be_thoughts(before: &str) -> bool {
    let is_in_code = before.matches("```").count() % 2 == 1;
    let is_word = before.ends_with([' ', '\t', '`', '"', '\'', '(', '[', '“', '‘']);
    !is_in_code && !is_word && !before.contains(USUAL.0)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn only_thoughts_at_the_beginning_are_split_off() {
        for (text, expected) in [
            ("<think>hm</think>Four.", Some(("hm", "Four."))),
            ("\n <think>\nhm\n</think>\n\n  Four.\n", Some(("hm", "Four.\n"))),
            ("<think>\n\n</think>\n\nFour.", Some(("", "Four."))),
            ("<think>hm", Some(("hm", ""))),
            ("<think>hm</think>\n", Some(("hm", ""))),
            ("<think>hm</think>It says </think>.", Some(("hm", "It says </think>."))),
            ("<thinking>\nhm\n</thinking>\nFour.", None),
            ("Four. <thinking>hm</thinking>", None),
            // Nothing opens them.
            ("hm\n</think>\n\nFour.", Some(("hm", "Four."))),
            ("hm.</think>Four.", Some(("hm.", "Four."))),
            ("</think>\nFour.", Some(("", "Four."))),
            ("So:\n```\nls\n```\n</think>\nFour.", Some(("So:\n```\nls\n```", "Four."))),
            // An answer.
            ("Four.", None),
            ("", None),
            ("Four. <think>hm</think>", None),
            ("The tag <think> opens\nand\n</think> closes.", None),
            ("The reply ends with </think> here.", None),
            ("The reply ends with `</think>` here.", None),
            ("So:\n```xml\n</think>\n```\n", None),
        ] {
            assert_eq!(split_thoughts(text), expected, "{text}");
        }
    }
}
