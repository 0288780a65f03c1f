//! Tokens that end a turn in models' chat templates, at the end of a streamed text: a server that does not
//! know them passes them on, and they would go back to the model and spoil an answer that a program reads.

use forge_domain::ChatCompletionMessage;

/// The tokens. The last one is a tag of HTML, too.
const TOKENS: [&str; 8] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|end|>",
    "<|return|>",
    "<|endoftext|>",
    "<end_of_turn>",
    "<｜end▁of▁sentence｜>",
    "</s>",
];

/// A reader of the pieces of one reply, in order, that drops such tokens at the end of its text.
#[derive(Debug, Default)]
pub(crate) struct EndTokens {
    /// Text that may be such a token.
    held: String,
    /// The line so far, which tells what only looks like such a token: what opens a tag of HTML usually
    /// stands in the line of the one that closes it.
    line: String,
}

impl EndTokens {
    /// Takes the tokens at the end of the text out of `piece`; holds back what may be the beginning of one.
    pub(crate) fn take_from(&mut self, piece: &mut ChatCompletionMessage) {
        let is_last = piece.finish_reason.is_some() || !piece.tool_calls.is_empty();
        if self.held.is_empty() && piece.content.is_none() {
            return;
        }
        let mut text = std::mem::take(&mut self.held);
        text.push_str(&piece.content.take().unwrap_or_default());
        let ends = |at: &usize| if is_last { self.is_end(&text, *at) } else { may_be_end(&text[*at..]) };
        let at = text.match_indices('<').map(|(at, _)| at).find(ends).unwrap_or(text.len());
        let rest = text.split_off(at);
        if !is_last {
            self.held = rest;
        }
        self.add_to_line(&text);
        piece.content = (!text.is_empty()).then_some(text);
    }

    /// Checks whether `text` has only such tokens from `at` on.
    fn is_end(&self, text: &str, at: usize) -> bool {
        let (before, rest) = text.split_at(at);
        let line = match before.rsplit_once('\n') {
            Some((_, line)) => line.to_owned(),
            None => format!("{}{before}", self.line),
        };
        // A tag of HTML, or a sentence about a token.
        let is_told = if rest.starts_with("</s>") {
            line.contains("<s>") || line.contains("<s ")
        } else {
            line.ends_with(' ')
        };
        !is_told && without_tokens(rest).is_empty()
    }

    fn add_to_line(&mut self, text: &str) {
        match text.rsplit_once('\n') {
            Some((_, line)) => line.clone_into(&mut self.line),
            None => self.line.push_str(text),
        }
    }
}

/// Checks whether `text` has only such tokens, or begins one.
fn may_be_end(text: &str) -> bool {
    let rest = without_tokens(text);
    TOKENS.iter().any(|token| token.starts_with(rest))
}

/// Returns `text` without the tokens at its beginning, and what is blank behind them.
fn without_tokens(text: &str) -> &str {
    let mut rest = text;
    while let Some(more) = TOKENS.iter().find_map(|token| rest.strip_prefix(token)) {
        rest = more.trim_start();
    }
    rest
}

#[cfg(test)]
mod tests {
    use forge_domain::{FinishReason, ToolCallPart};
    use pretty_assertions::assert_eq;

    use super::*;

    /// Reads a text in the pieces between its tildes. Returns the contents, each in brackets.
    fn taken(text: &str, last: &ChatCompletionMessage) -> String {
        let mut reader = EndTokens::default();
        let piece = |text: &str| ChatCompletionMessage {
            content: Some(text.to_owned()).filter(|text| !text.is_empty()),
            ..ChatCompletionMessage::default()
        };
        let pieces = text.split('~').map(piece).chain([last.clone()]);
        let contents = pieces.filter_map(|mut piece| {
            reader.take_from(&mut piece);
            piece.content
        });
        contents.map(|text| format!("[{text}]")).collect()
    }

    #[test]
    fn tokens_at_the_end_are_dropped_however_they_are_split() {
        let stop = ChatCompletionMessage {
            finish_reason: Some(FinishReason::Stop),
            ..ChatCompletionMessage::default()
        };
        for (text, expected) in [
            ("Four.", "[Four.]"),
            ("Fo~ur.<|im_end|>", "[Fo][ur.]"),
            ("Four.<~|im_~end|>~\n", "[Four.]"),
            ("Four.<|im_end|>~<|endoft~ext|>", "[Four.]"),
            ("Four.<｜end▁~of▁sentence｜>", "[Four.]"),
            ("Four.</s>", "[Four.]"),
            ("<|eot_id|>", ""),
            // These only look like end tokens.
            ("a <~ b", "[a ][< b]"),
            ("Four <", "[Four ][<]"),
            ("Four <|im_en", "[Four ][<|im_en]"),
            ("It ends with `<|im_end|>`.", "[It ends with `<|im_end|>`.]"),
            ("<|im_end|>~ ends it", "[<|im_end|> ends it]"),
            ("A <s>li~ne</s>", "[A <s>li][ne][</s>]"),
            ("A <s>line</s>\nFour.~</s>", "[A <s>line</s>\nFour.]"),
            ("Its turns end with ~<|im_end|>", "[Its turns end with ][<|im_end|>]"),
            ("Four. ~</s>", "[Four. ]"),
        ] {
            assert_eq!(taken(text, &stop), expected, "{text}");
        }
        let call = ToolCallPart { name: Some("read".into()), ..ToolCallPart::default() };
        let calling = ChatCompletionMessage { tool_calls: vec![call], ..ChatCompletionMessage::default() };
        assert_eq!(taken("So.<|im_end|>", &calling), "[So.]");
    }
}
