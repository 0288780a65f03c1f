//! The relation of a summary to what it summarizes: a refusal or a question back says nothing of it.

use crate::compaction::features::{ByTerm, Features, Kind, Term};
use crate::{ContextMessage, Message};

/// The worth of what a summary must at least repeat.
const LEAST: u32 = 5;
/// Messages of fewer distinct terms tell too little to judge by them.
const LEAST_KNOWN: usize = 40;
/// A word in more than one of so many messages is in any text.
const COMMON: u32 = 4;
/// Among fewer messages, no word is common.
const LEAST_MESSAGES: usize = 8;

/// Checks whether `summary` says something of `messages` or of the summary `so_far`: some of their names, or
/// several of their less common words.
pub(super) fn is_about(summary: &str, messages: &[ContextMessage], so_far: Option<&str>) -> bool {
    let mut known: ByTerm<u32> = ByTerm::default();
    let mut learn = |terms: &[Term]| {
        terms.iter().for_each(|term| *known.entry(term.hash()).or_default() += 1);
    };
    messages.iter().for_each(|message| learn(&message.features().terms));
    if let Some(text) = so_far {
        learn(&terms_of(text));
    }
    let is_common = |n: u32| messages.len() >= LEAST_MESSAGES && n * COMMON > messages.len() as u32;
    let worth = |term: &Term| match (term.kind(), known.get(&term.hash())) {
        (_, None) => 0,
        (Kind::Symbol | Kind::Address, Some(_)) => 3,
        (Kind::Word | Kind::Name, Some(n)) if is_common(*n) => 0,
        (Kind::Name, Some(_)) => 2,
        (Kind::Word, Some(_)) => 1,
    };
    known.len() < LEAST_KNOWN || terms_of(summary).iter().map(worth).sum::<u32>() >= LEAST
}

fn terms_of(text: &str) -> Vec<Term> {
    Features::of(&Message::assistant(text)).terms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::fixture::Characters;

    #[test]
    fn a_refusal_or_a_question_says_nothing_of_what_was_said() {
        let texts = [
            "Open src/lexer.rs and count the tokens of the grammar, please, before you change anything in it.",
            "The lexer has forty tokens; the grammar names three of them twice, with different priorities.",
            "Keep the second of each, drop the first, and tell me which tests would then have to be changed.",
            "测试服务器的地址改成了新的，请先检查配置，然后再部署。",
        ];
        let messages = texts.map(|text| ContextMessage::count(Message::user(text), &Characters));
        for (summary, expected) in [
            ("I'm sorry, but I can't help with that.", false),
            ("What would you like me to do next?", false),
            ("Sure!", false),
            ("The grammar names three tokens twice; the second of each is kept.", true),
            ("Read src/lexer.rs: forty tokens.", true),
            ("检查配置后再部署。", true),
        ] {
            assert_eq!(is_about(summary, &messages, None), expected, "{summary}");
        }
        assert!(is_about("Sure!", &messages[..1], None), "too little to judge by");
        assert!(is_about(
            "INV2209 and INV2210 were paid.",
            &messages,
            Some("INV2209 is open, INV2210 was paid.")
        ));
    }
}
