//! The sentences in which the agent only announces the call that it makes next.

use std::ops::Range;

use super::introductions::is_within;
use crate::compaction::features::{ByTerm, Features, SENTENCE_ENDS, hash, is_line_break};
use crate::compaction::findings::Deed;
use crate::conversation::is_word_by_itself;
use crate::{ContextMessage, Role};

/// An agent announces with such an opening or ending if so many of its announcements have it, and so many
/// times as many as sentences of messages without a call.
const LEAST: usize = 3;
const OPENED_TO_ELSEWHERE: usize = 3;
const ENDED_TO_ELSEWHERE: usize = 4;
/// The length of a sentence that introduces a call and says no more.
const INTRODUCTION_LENGTH: usize = 120;
/// The characters of an opening in a script that writes words without blanks.
const OPENING_CHARS: usize = 2;
/// The characters of an ending in kana; and in Hangul, where any statement may end with the same three.
const KANA_ENDING_CHARS: usize = 3;
const HANGUL_ENDING_CHARS: usize = 4;

/// The openings and endings by which an agent announces calls. They are learned from where its sentences
/// stand, so that they are those of its language and manner.
#[derive(Default)]
pub(super) struct Announcements {
    openings: ByTerm<Places>,
    endings: ByTerm<Places>,
}

/// The numbers of sentences with one opening or ending, by where they stand.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    /// Last before a call.
    last: usize,
    /// Before the last one of such a message. An agent may announce several steps there, so these count less
    /// than others.
    before: usize,
    /// In a message without a call.
    elsewhere: usize,
}

impl Places {
    /// Counts a sentence, the `nth` from the end of its message.
    const fn count(&mut self, is_calling: bool, nth: usize) {
        match (is_calling, nth) {
            (true, 0) => self.last += 1,
            (true, _) => self.before += 1,
            (false, _) => self.elsewhere += 1,
        }
    }

    /// Checks whether such sentences announce calls, which are so many times as many as those elsewhere: what
    /// most sentences have announces nothing.
    const fn announce(self, to_elsewhere: usize) -> bool {
        self.last >= LEAST && self.last >= self.before && self.last >= self.elsewhere * to_elsewhere
    }
}

impl Announcements {
    pub(super) fn of(sources: &[ContextMessage]) -> Self {
        let mut learned = Self::default();
        for (position, source) in sources.iter().enumerate() {
            let message = source.message();
            if message.role() != Role::Assistant || message.is_compacted {
                continue;
            }
            let is_calling = calling(sources, position).is_some();
            for (nth, sentence) in sentences(source.features().beside_calls()).rev().enumerate() {
                let sentence = &source.features().text[sentence];
                if let Some(opening) = opening(sentence) {
                    learned.openings.entry(opening).or_default().count(is_calling, nth);
                }
                if let Some(ending) = ending(sentence) {
                    learned.endings.entry(ending).or_default().count(is_calling, nth);
                }
            }
        }
        learned
    }

    /// Returns the end of what the agent says in the message at `position` beside the announcement of its
    /// calls; `None` if it announces nothing.
    pub(super) fn end_before(&self, sources: &[ContextMessage], position: usize) -> Option<u32> {
        let called_by = calling(sources, position)?;
        let called = called_by.features();
        let features = sources[position].features();
        let mut all: Vec<Range<usize>> = sentences(features.beside_calls()).collect();
        let n_all = all.len();
        // What ends with a colon directly before a call is about that call.
        let introduces = |last: &mut Range<usize>| {
            let text = &features.text[last.clone()];
            text.ends_with([':', '：'])
                && is_within(text, INTRODUCTION_LENGTH)
                && !names_of_its_own(last, features, called)
        };
        // Before a change of files, it tells what became of what was found: without it, that reads as open.
        let changes_files = called_by.findings().deeds.iter().any(Deed::changes_files);
        let tells = |sentence: &Range<usize>| !self.is_announcement(sentence, features, called);
        if changes_files && all.split_last().is_some_and(|(_, before)| before.iter().any(tells)) {
            return None;
        }
        all.pop_if(introduces);
        while all.pop_if(|last| self.is_announcement(last, features, called)).is_some() {}
        (all.len() < n_all).then(|| all.last().map_or(0, |last| last.end as u32))
    }

    /// Checks whether a sentence begins or ends as announcements do, and names nothing that the calls do not.
    fn is_announcement(&self, sentence: &Range<usize>, features: &Features, called: &Features) -> bool {
        let text = &features.text[sentence.clone()];
        let opened = opening(text).and_then(|opening| self.openings.get(&opening));
        let ended = ending(text).and_then(|ending| self.endings.get(&ending));
        let is_known = opened.is_some_and(|places| places.announce(OPENED_TO_ELSEWHERE))
            || ended.is_some_and(|places| places.announce(ENDED_TO_ELSEWHERE));
        is_known && !names_of_its_own(sentence, features, called)
    }
}

/// Returns the message with the calls that follow what the agent says at `position`: that one, or the next
/// if it only calls.
fn calling(sources: &[ContextMessage], position: usize) -> Option<&ContextMessage> {
    let calls = |source: &&ContextMessage| !source.message().calls().is_empty();
    let only_calls = |next: &&ContextMessage| calls(next) && next.message().text().trim().is_empty();
    sources.get(position).filter(calls).or_else(|| sources.get(position + 1).filter(only_calls))
}

/// Checks whether a sentence has a name that no call beside it has, of the message that `called`.
fn names_of_its_own(sentence: &Range<usize>, features: &Features, called: &Features) -> bool {
    let is_called = |hash: u64| called.terms.iter().any(|term| term.is_called() && term.hash() == hash);
    let text = &features.text[sentence.clone()];
    let is_in = |start: u32, end: u32| (start as usize) < sentence.end && sentence.start < end as usize;
    features.lines.iter().filter(|line| is_in(line.start, line.end)).any(|line| {
        features.places(line).iter().enumerate().any(|(nth, place)| {
            let term = features.terms[*place as usize];
            let is_name = term.kind().is_a_name_given() && text.contains(features.word(line, nth));
            is_name && !is_called(term.hash())
        })
    })
}

/// Returns the sentences of a text in order, without the blanks around them.
pub(super) fn sentences(text: &str) -> impl DoubleEndedIterator<Item = Range<usize>> {
    let mut all = Vec::new();
    let mut start = 0;
    let mut end_at = |end: usize| {
        let sentence = &text[start..end];
        let from = start + sentence.len() - sentence.trim_start().len();
        if !sentence.trim().is_empty() {
            all.push(from..from + sentence.trim().len());
        }
        start = end;
    };
    for (at, c) in text.char_indices() {
        let after = &text[at + c.len_utf8()..];
        if is_line_break(c) || SENTENCE_ENDS.contains(&c) && (!c.is_ascii() || begins_another(after)) {
            end_at(at + c.len_utf8());
        }
    }
    end_at(text.len());
    all.into_iter()
}

/// Checks whether what follows the end of a sentence is another one, and not the rest of it after a short
/// form.
fn begins_another(after: &str) -> bool {
    after.starts_with(char::is_whitespace) && !after.trim_start().starts_with(char::is_lowercase)
}

/// Returns the first word of a sentence, as a hash.
fn opening(sentence: &str) -> Option<u64> {
    let sentence = sentence.trim_start_matches(|c: char| !c.is_alphanumeric());
    let first = sentence.chars().next()?;
    let opening: String = match is_word_by_itself(first) {
        true => sentence.chars().take(OPENING_CHARS).collect(),
        false => sentence.chars().take_while(|c| !c.is_whitespace()).flat_map(char::to_lowercase).collect(),
    };
    Some(hash(&opening))
}

/// Returns the last syllables of a sentence in a script whose languages have the verb last, as a hash; `None`
/// if they are of another script.
fn ending(sentence: &str) -> Option<u64> {
    let sentence = sentence.trim_end_matches(|c: char| !c.is_alphanumeric());
    let n_chars = match sentence.chars().next_back()? {
        c if is_hiragana(c) => KANA_ENDING_CHARS,
        c if is_hangul(c) => HANGUL_ENDING_CHARS,
        _ => return None,
    };
    let start = sentence.char_indices().rev().nth(n_chars - 1)?.0;
    let ending = &sentence[start..];
    ending.chars().all(|c| is_hiragana(c) || is_hangul(c)).then(|| hash(ending))
}

const fn is_hiragana(c: char) -> bool {
    matches!(c, '\u{3041}'..='\u{3096}')
}

const fn is_hangul(c: char) -> bool {
    matches!(c, '\u{ac00}'..='\u{d7a3}')
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::Message;
    use crate::compaction::fixture::{Characters, tool_call};

    /// Builds a message in which an agent says something and calls `search` with an argument.
    fn before_call(said: &str, sought: &str) -> ContextMessage {
        let call = tool_call("search", serde_json::json!({ "text": sought }));
        ContextMessage::count(Message::calling(vec![call]).with_content(said), &Characters)
    }

    #[test]
    fn sentences_that_only_announce_a_call_are_known_by_where_they_stand() {
        for (announcements, findings, expected) in [
            (
                ["Let me look at the door.", "Let me run it.", "It is shut. Let me see the window."],
                ["The lock is in open_lock. It never turns.", "It is the hinge. The rest is fine."],
                vec![Some(0), Some(0), Some(11), None, None],
            ),
            (
                ["Ich sehe mir die Tür an.", "Ich prüfe das.", "Sie ist zu. Ich suche das Fenster."],
                ["Das Schloss klemmt. Es dreht nie.", "Es liegt am Scharnier."],
                vec![Some(0), Some(0), Some(11), None, None],
            ),
            (
                ["让我看看这扇门。", "让我运行它。", "门是关着的。让我看看窗户。"],
                ["锁从来不转。原因是弹簧。", "问题在铰链。"],
                vec![Some(0), Some(0), Some(18), None, None],
            ),
            (
                ["扉を確認します。", "次に実行します。", "閉まっています。窓を確認します。"],
                ["鍵は古い。一度も回らない。", "原因は蝶番。"],
                vec![Some(0), Some(0), Some(24), None, None],
            ),
            (
                ["문을 확인하겠습니다.", "다시 실행하겠습니다.", "닫혀 있습니다. 창문을 찾겠습니다."],
                ["잠금이 낡았습니다. 돌지 않습니다.", "경첩 때문입니다."],
                vec![Some(0), Some(0), Some(20), None, None],
            ),
            // Too few of one manner.
            (
                ["Let me look at the door.", "I run it.", "It is shut. Now the window."],
                ["The lock is broken.", "It is the hinge."],
                vec![None; 5],
            ),
        ] {
            let said = announcements.iter().chain(&findings);
            let sources: Vec<ContextMessage> = said.map(|said| before_call(said, "door")).collect();
            let learned = Announcements::of(&sources);
            let actual: Vec<Option<u32>> =
                (0..sources.len()).map(|at| learned.end_before(&sources, at)).collect();
            assert_eq!(actual, expected, "{announcements:?}");
        }
    }

    #[test]
    fn an_opening_or_ending_of_sentences_elsewhere_announces_nothing() {
        let several =
            ["It is shut. Now the door. Now the key.", "Now the hinge.", "It is old. Now the gate."];
        let ended = ["扉を確認します。", "次に実行します。", "窓を開放します。"];
        let stating = ["The lock is old. The hinge too. The key turns."; 3];
        for (announcements, answers, expected) in [
            (several, vec!["Now it is open."], [Some(11), Some(0), Some(10)]),
            (several, vec!["Now it is open.", "Now it is shut."], [None; 3]),
            (stating, vec![], [None; 3]),
            (ended, vec![], [Some(0); 3]),
            (ended, vec!["あとで対応します。"], [None; 3]),
        ] {
            let calls = announcements.iter().map(|said| before_call(said, "door"));
            let others =
                answers.iter().map(|said| ContextMessage::count(Message::assistant(*said), &Characters));
            let sources: Vec<ContextMessage> = calls.chain(others).collect();
            let learned = Announcements::of(&sources);
            let actual = [0, 1, 2].map(|at| learned.end_before(&sources, at));
            assert_eq!(actual, expected, "{announcements:?} {answers:?}");
        }
    }

    #[test]
    fn an_announcement_that_names_what_no_call_does_is_told() {
        let said = ["Let me look.", "Let me see.", "Let me read `open_door`.", "Let me undo `turn_key`."];
        let sources = said.map(|said| before_call(said, "open_door"));
        let learned = Announcements::of(&sources);
        let ends: Vec<Option<u32>> = (0..4).map(|at| learned.end_before(&sources, at)).collect();
        assert_eq!(ends, [Some(0), Some(0), Some(0), None]);
    }

    #[test]
    fn an_introduction_is_as_long_in_every_script() {
        let long = format!("Сначала {} я посмотрю на дверь:", "ещё раз и ".repeat(10));
        for (said, expected) in [
            ("Сначала я посмотрю на дверь, потом на окно, а затем ещё раз проверю старый замок:", Some(0)),
            ("मैं पहले दरवाज़ा देखता हूँ, फिर खिड़की, और फिर ताला एक बार और देखता हूँ:", Some(0)),
            ("我先看门，再看窗，然后再检查一次锁：", Some(0)),
            (long.as_str(), None),
        ] {
            let sources = [before_call(said, "door")];
            assert_eq!(Announcements::of(&sources).end_before(&sources, 0), expected, "{said}");
        }
    }

    #[test]
    fn a_call_may_follow_in_a_message_of_its_own() {
        let said =
            ["Let me look.", "Let me see `open_door`.", "Let me read `open_gate`.", "It is the hinge."];
        let sources = said.map(|said| {
            [ContextMessage::count(Message::assistant(said), &Characters), before_call("", "open_door")]
        });
        let sources = sources.concat();
        let learned = Announcements::of(&sources);
        let ends: Vec<Option<u32>> = [0, 2, 4, 6].map(|at| learned.end_before(&sources, at)).to_vec();
        assert_eq!(ends, [Some(0), Some(0), None, None]);
    }

    #[test]
    fn a_short_form_ends_no_sentence() {
        let text = "It is e.g. the hinge of v1.2. Fine!\nDone. ";
        let actual: Vec<&str> = sentences(text).map(|sentence| &text[sentence]).collect();
        assert_eq!(actual, ["It is e.g. the hinge of v1.2.", "Fine!", "Done."]);
    }
}
