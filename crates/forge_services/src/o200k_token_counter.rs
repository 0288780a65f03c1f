//! Token counting by `o200k_base`, the byte-pair vocabulary of OpenAI's current models.

use std::sync::OnceLock;

use forge_domain::{TokenCounter, Tokens};
use tiktoken::{CoreBpe, encoding};

use crate::o200k_reference::O200kReference;

/// A counter by `o200k_base`. The vocabulary is loaded at the first count (about 0.1 s) and shared by all
/// counters of the process, so creating one costs nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct O200kCounter;

impl TokenCounter for O200kCounter {
    fn count(&self, text: &str) -> Tokens {
        let count = match text.contains(LONG_S_CONTRACTION) {
            true => REFERENCE.get_or_init(|| O200kReference::new(vocabulary())).count(text),
            // `count` knows no special tokens: text that looks like one is ordinary text.
            false => vocabulary().count(text),
        };
        Tokens::new(count as u64)
    }
}

fn vocabulary() -> &'static CoreBpe {
    VOCABULARY.get_or_init(encoding::o200k_base)
}

/// The one text that the fast scanner of `tiktoken` splits wrongly. The contraction `'s` is matched without
/// regard to case, and `ſ` is another case of `s`, but the scanner of plain letters looks for ASCII
/// contractions only.
const LONG_S_CONTRACTION: &str = "'ſ";

static VOCABULARY: OnceLock<CoreBpe> = OnceLock::new();
static REFERENCE: OnceLock<O200kReference> = OnceLock::new();

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn count(text: &str) -> usize {
        O200kCounter.count(text).as_u64() as usize
    }

    fn count_by_oracle(text: &str) -> usize {
        tiktoken_rs::o200k_base_singleton().encode_ordinary(text).len()
    }

    #[test]
    fn counts_are_those_of_the_vocabulary() {
        for (text, expected) in [
            ("", 0),
            ("hello world", 2),
            ("The quick brown fox jumps over the lazy dog.", 10),
            ("{\"path\":\"src/main.rs\"}", 7),
        ] {
            assert_eq!((count(text), count_by_oracle(text)), (expected, expected), "{text}");
        }
    }

    #[test]
    fn text_like_a_special_token_is_ordinary_text() {
        for text in ["<|endoftext|>", "a <|endofprompt|> b", "<|endoftext|><|endoftext|>", "<|im_start|>it'ſ"]
        {
            assert_eq!(count(text), count_by_oracle(text), "{text}");
            assert!(count(text) > 2, "{text}");
        }
    }

    #[test]
    fn a_long_s_is_counted_exactly() {
        for text in [
            "it'ſ",
            "it'ſ a",
            "IT'ſ",
            " I'ſ",
            "'ſ",
            "''ſ",
            "a'ſb'ſc",
            "(let'ſgo)",
            "12'ſ",
            "日本'ſ",
            "ё'ſ",
            "((\u{301}'ſ",
            "x\u{301}'ſ",
            "   it'ſ   \n\n it'ſ",
            "\t\tit'ſ\r\n",
            "ſ",
            "ſiſter's",
            "what'ſ'ſ'ſ",
            "it’ſ",
            "abCDe'ſF",
        ] {
            assert_eq!(count(text), count_by_oracle(text), "{text}");
        }
    }

    /// Pieces of text that are hard to split: contractions, marks, scripts, runs, line ends, special-token
    /// text.
    fn fragment() -> impl Strategy<Value = String> {
        let words: &[&str] = &[
            "it",
            "IT",
            "Don",
            "the",
            "camelCase",
            "HTTPServer",
            "naïve",
            "straße",
            "Ǆungla",
            "привет",
            "שלום",
            "مرحبا",
            "नमस्ते",
            "日本語",
            "ひらがな",
            "한국어",
            "ไทย",
            "ａＢ",
            "ﬁ",
            "ſ",
            "ſt",
            "İstanbul",
            "x\u{301}",
            "ʰ",
        ];
        let marks: &[&str] = &[
            "'s",
            "'S",
            "'ſ",
            "'ll",
            "'RE",
            "'ve",
            "'d",
            "'M",
            "’s",
            "'",
            "''",
            "\u{301}",
            "\u{200d}",
            "\u{fe0f}",
            "👩‍👩‍👧",
            "🇩🇪",
            "😀",
            "「",
            "。",
            "…",
            "—",
            "/",
            "//",
            "({[",
            "=>",
            "<|endoftext|>",
            "<|endofprompt|>",
            "<|",
            "²",
            "½",
            "٣",
            "Ⅷ",
            "1",
            "12",
            "1234567",
            "〇",
        ];
        let spaces: &[&str] = &[
            " ", "  ", "\t", "\n", "\r\n", "\n\n", " \n", "\u{a0}", "\u{3000}", "\u{2028}", "\u{85}", "/\n",
        ];
        prop_oneof![
            4 => select(words).prop_map(str::to_owned),
            4 => select(marks).prop_map(str::to_owned),
            3 => select(spaces).prop_map(str::to_owned),
            2 => any::<char>().prop_map(String::from),
            1 => "\\PC{0,12}",
            1 => (any::<char>(), 1_usize..80).prop_map(|(c, n)| c.to_string().repeat(n)),
            1 => (select(words), 1_usize..20).prop_map(|(word, n)| word.repeat(n)),
            1 => (select(spaces), 1_usize..20).prop_map(|(space, n)| space.repeat(n)),
        ]
    }

    fn odd_text() -> impl Strategy<Value = String> {
        prop::collection::vec(fragment(), 0..40).prop_map(|fragments| fragments.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_text_counts_as_by_the_oracle(text in odd_text()) {
            prop_assert_eq!(count(&text), count_by_oracle(&text));
        }

        #[test]
        fn the_reference_path_is_exact_on_every_text(text in odd_text()) {
            let reference = REFERENCE.get_or_init(|| O200kReference::new(vocabulary()));
            prop_assert_eq!(reference.count(&text), count_by_oracle(&text));
        }
    }
}
