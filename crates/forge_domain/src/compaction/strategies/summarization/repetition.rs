//! Finds the place from which a text only repeats itself, as small models do that have lost the thread.
//!
//! The measure is the same in every language: the share of the sequences of six words that occurred before.
//! Paths and names are one word each, so a list of files in one folder, or of lines that differ in a name,
//! does not repeat itself.

use std::collections::HashSet;

/// The words of a sequence that is compared.
const SEQUENCE: usize = 6;
/// So many known sequences in a row are a loop: about thirty words, all said before.
const LOOP: usize = 24;
/// The share of known sequences from which on a text with a loop repeats itself, in percent.
const PERCENT: usize = 50;
/// A longer word is read by its characters.
const WORD_BYTES: usize = 200;

/// Returns the text before its first loop, if it repeats itself: if half of it was said before, or if it ends
/// in the loop. Returns `None` if it does not.
pub(super) fn before_loop(text: &str) -> Option<&str> {
    let words = words(text);
    let mut known = HashSet::new();
    let is_known: Vec<bool> = words
        .windows(SEQUENCE)
        .map(|sequence| !known.insert(sequence.iter().map(|(_, word)| *word).collect::<Vec<_>>()))
        .collect();
    let first = is_known.windows(LOOP).position(|run| run.iter().all(|known| *known))?;
    let n_known = is_known.iter().filter(|known| **known).count();
    let last_new = is_known.iter().rposition(|known| !known);
    let start = if n_known * 100 >= is_known.len() * PERCENT {
        first
    } else {
        // The loop at the end may begin later than the first one found.
        last_new.map(|at| at + 1).filter(|start| is_known.len() - start >= LOOP)?
    };
    Some(text[..words[start].0].trim_end())
}

/// Returns the words of a text with their starts. Where words are not separated by blanks, each character is
/// one.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut words: Vec<(usize, &str)> = Vec::new();
    for word in text.split_whitespace() {
        let start = word.as_ptr() as usize - text.as_ptr() as usize;
        if word.len() <= WORD_BYTES && !word.chars().any(stands_alone) {
            words.push((start, word));
            continue;
        }
        let characters = word.char_indices().map(|(at, c)| (start + at, &word[at..at + c.len_utf8()]));
        words.extend(characters);
    }
    words
}

/// Checks whether a character belongs to a script without blanks between words: those of East and South East
/// Asia.
const fn stands_alone(c: char) -> bool {
    matches!(c, '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{2e80}'..='\u{a4cf}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_loop_is_found_in_any_language() {
        let good = "The parser fails on empty input, because `next` returns None and line 12 of src/parse.rs unwraps it.";
        for (text, expected) in [
            ("Your next prompt is completed. ".repeat(12), Some("Your next prompt is completed.")),
            ("[assistant] ".repeat(60), Some("[assistant]")),
            ("Следующий шаг: проверить файл. ".repeat(12), Some("Следующий шаг: проверить файл.")),
            ("请继续处理这个问题。".repeat(12), Some("请继续处理这个问题。")),
            ("次へ進みます。".repeat(12), Some("次へ進みます。")),
            ("ab".repeat(400), Some("ab")),
            (
                format!("{good}\n{}", "I will continue. ".repeat(40)),
                Some(&*format!("{good}\nI will continue.")),
            ),
            // It breaks off in a loop that is the smaller part.
            (
                format!("{}\n{}", numbered(60), "All of it is done now. ".repeat(9)),
                Some(&*format!("{}\nAll of it is done now.", numbered(60))),
            ),
            (good.to_owned(), None),
            (String::new(), None),
            // Lines that differ in a name, paths of one folder, a table, and one sentence quoted again.
            (
                (0..40)
                    .map(|n| format!("- The file part_{n}.rs was read, and nothing in it was changed.\n"))
                    .collect(),
                None,
            ),
            ((0..40).map(|n| format!("/home/user/projects/some/where/deep/part_{n}.rs\n")).collect(), None),
            ((0..40).map(|n| format!("| part_{n} | passed | 3 |\n")).collect(), None),
            (format!("{good}\n{}\n{good}\n{}", numbered(20), numbered(30)), None),
        ] {
            assert_eq!(before_loop(&text), expected, "{text}");
        }
        assert_eq!(
            words("ab 你好 c").into_iter().map(|(_, word)| word).collect::<Vec<_>>(),
            ["ab", "你", "好", "c"]
        );
    }

    fn numbered(n: usize) -> String {
        (0..n).map(|n| format!("Step {n} changed part_{n}.rs. ")).collect::<String>().trim_end().to_owned()
    }
}
