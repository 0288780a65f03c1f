//! Thoughts at the beginning of a streamed text, between tags that may be split over several pieces.

use forge_domain::{ANSWER_HEADER, ChatCompletionMessage, THOUGHTS};

/// The most bytes that are held until the first tag is complete: white space, and a part of the tag.
const MOST_HELD: usize = 64;

/// A reader of the pieces of one reply, in order, that makes the thoughts at the beginning of its text its
/// reasoning. Whether a text has thoughts that no tag opens is known only at its end, so they are left to
/// [`forge_domain::ReplyParts`].
#[derive(Debug, Default)]
pub(crate) struct LeadingThoughts {
    place: Place,
    /// Text that may be the beginning of a tag.
    held: String,
    /// True behind a tag, until there is more than white space.
    is_blank: bool,
}

/// A position in a reply's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Start,
    /// Until this tag.
    Thoughts(&'static str),
    /// Behind the thoughts; a header may follow.
    Closed,
    Answer,
}

impl LeadingThoughts {
    /// Moves what is thought in the content of `piece` to its reasoning.
    pub(crate) fn take_from(&mut self, piece: &mut ChatCompletionMessage) {
        if self.place == Place::Answer && !self.is_blank {
            return;
        }
        let is_last = piece.finish_reason.is_some() || !piece.tool_calls.is_empty();
        let mut text = std::mem::take(&mut self.held);
        text.push_str(&piece.content.take().unwrap_or_default());
        let mut rest = text.as_str();
        if self.place == Place::Start {
            let begun = rest.trim_start();
            let opened = THOUGHTS.iter().find_map(|(open, close)| Some((begun.strip_prefix(open)?, *close)));
            if let Some((thoughts, close)) = opened {
                (rest, self.place, self.is_blank) = (thoughts, Place::Thoughts(close), true);
            } else if !is_last
                && rest.len() <= MOST_HELD
                && THOUGHTS.iter().any(|(open, _)| open.starts_with(begun))
            {
                self.held = rest.to_owned();
                return;
            } else {
                self.place = Place::Answer;
            }
        }
        if let Place::Thoughts(close) = self.place {
            let (thoughts, answer) = match rest.split_once(close) {
                Some((thoughts, answer)) => (thoughts, Some(answer)),
                None if is_last => (rest, None),
                None => {
                    let (thoughts, held) = rest.split_at(rest.len() - begun_tag(rest, close));
                    self.held = held.to_owned();
                    (thoughts, None)
                }
            };
            let thoughts = self.visible(thoughts);
            if !thoughts.is_empty() {
                piece.reasoning.get_or_insert_with(String::new).push_str(thoughts);
            }
            let Some(answer) = answer else { return };
            (rest, self.place, self.is_blank) = (answer, Place::Closed, true);
        }
        if self.place == Place::Closed {
            rest = rest.trim_start();
            if !is_last && ANSWER_HEADER.starts_with(rest) {
                self.held = rest.to_owned();
                return;
            }
            rest = rest.strip_prefix(ANSWER_HEADER).unwrap_or(rest);
            self.place = Place::Answer;
        }
        let said = self.visible(rest);
        piece.content = (!said.is_empty()).then(|| said.to_owned());
    }

    /// Returns the text without white space behind a tag.
    fn visible<'t>(&mut self, text: &'t str) -> &'t str {
        let text = if self.is_blank { text.trim_start() } else { text };
        self.is_blank &= text.is_empty();
        text
    }
}

/// Returns the length of the beginning of `tag` at the end of `text`.
fn begun_tag(text: &str, tag: &str) -> usize {
    let begins = |n: &usize| tag.get(..*n).is_some_and(|begin| text.ends_with(begin));
    (1..tag.len()).rev().find(begins).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use forge_domain::FinishReason;
    use pretty_assertions::assert_eq;

    use super::*;

    /// Reads a text in the pieces between its bars. Returns reasoning and content, each piece in brackets.
    fn taken(text: &str) -> (String, String) {
        taken_in(text, '|')
    }

    /// The same with another separator.
    fn taken_in(text: &str, separator: char) -> (String, String) {
        let (mut reader, mut reasoning, mut content) =
            (LeadingThoughts::default(), String::new(), String::new());
        let piece = |text: &str| ChatCompletionMessage {
            content: Some(text.to_owned()).filter(|text| !text.is_empty()),
            ..ChatCompletionMessage::default()
        };
        let stop = ChatCompletionMessage { finish_reason: Some(FinishReason::Stop), ..piece("") };
        for mut piece in text.split(separator).map(piece).chain([stop]) {
            reader.take_from(&mut piece);
            reasoning.extend(piece.reasoning.map(|text| format!("[{text}]")));
            content.extend(piece.content.map(|text| format!("[{text}]")));
        }
        (reasoning, content)
    }

    #[test]
    fn a_tag_is_known_however_it_is_split() {
        for (text, reasoning, content) in [
            ("<think>hm</think>Four.", "[hm]", "[Four.]"),
            ("\n<th|ink>\n|\nhm| hm</|think>|\n\n| Four|.", "[hm][ hm]", "[Four][.]"),
            ("<think>\n|a <b>| </thin|ner>|</think>", "[a <b>][ ][</thinner>]", ""),
            ("<think>|\n\n|</think>\n\nFour.", "", "[Four.]"),
            ("<thi|nking>hm</think></th|inking>|Four.", "[hm</think>]", "[Four.]"),
            ("[TH|INK]hm|[/THI|NK]|Four.", "[hm]", "[Four.]"),
            ("◁thi|nk▷hm◁|/think▷Four.", "[hm]", "[Four.]"),
            // Cut off in the thoughts, and in a tag.
            ("<think>hm| hm", "[hm][ hm]", ""),
            ("<think>hm </th", "[hm ][</th]", ""),
            ("<thi", "", "[<thi]"),
            // An answer.
            ("Four|.", "", "[Four][.]"),
            ("| |Four.", "", "[ Four.]"),
            ("<t|able>", "", "[<table>]"),
            ("So: |<think>hm</think>", "", "[So: ][<think>hm</think>]"),
        ] {
            assert_eq!(taken(text), (reasoning.to_owned(), content.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_header_behind_thoughts_is_no_part_of_the_answer() {
        let thoughts = "<|chan~nel|>analysis<|message|>hm<|e~nd|>";
        for (behind, content) in [
            ("<|start|>assist~ant<|channel|>final<|message|>~Four.", "[Four.]"),
            ("<|start|>assistant~<|channel|>commentary", "[<|start|>assistant<|channel|>commentary]"),
            ("<|start|>", "[<|start|>]"),
            ("", ""),
        ] {
            let actual = taken_in(&format!("{thoughts}{behind}"), '~');
            assert_eq!(actual, ("[hm]".to_owned(), content.to_owned()), "{behind}");
        }
    }

    #[test]
    fn white_space_without_end_is_not_held() {
        let blank = " ".repeat(MOST_HELD + 1);
        assert_eq!(taken(&format!("{blank}|Four.")), (String::new(), format!("[{blank}][Four.]")));
    }
}
