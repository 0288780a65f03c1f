//! Results that are too large to be seen whole from the beginning: the log has them, the view their head and
//! tail.

use crate::{Body, Context, ContextMessage, Edit, Role, TokenCounter, Tokens};

/// Returns the context in which each result of the newest calls that exceeds `most` tokens lacks its middle;
/// `None` if none exceeds it. The text left out is named by the message's label, so that it can be fetched
/// again.
pub fn cap(context: &Context, most: Tokens, counter: &dyn TokenCounter) -> Option<Context> {
    let messages = context.messages();
    let newest =
        messages.iter().rposition(|message| message.role() == Role::Assistant).map_or(0, |at| at + 1);
    let too_large = messages.iter().enumerate().skip(newest).filter(|(_, message)| message.tokens() > most);
    let edits: Vec<Edit> = too_large
        .filter_map(|(position, message)| {
            Some(Edit::Shorten { position, with: shorten(message, most, counter)? })
        })
        .collect();
    (!edits.is_empty()).then(|| context.edit(edits).numbered())
}

/// Returns the message shortened; `None` if it has no text that could be left out.
fn shorten(message: &ContextMessage, most: Tokens, counter: &dyn TokenCounter) -> Option<ContextMessage> {
    let Body::Tool(result) = &message.message().body else { return None };
    let text = match &result.content {
        crate::Content::Text(text) => text,
        // A picture has no middle.
        crate::Content::Parts(_) => return None,
    };
    let label = message.id().map(|id| id.to_string()).unwrap_or_default();
    let n_chars = text.chars().count();
    let mut keep = n_chars * share(most) / share(message.tokens()).max(1);
    loop {
        let short = excerpt(text, keep, &label, message.tokens());
        let with = ContextMessage::count(message.message().with_content(short), counter);
        if with.tokens() <= most || keep == 0 {
            return (with.tokens() < message.tokens()).then_some(with);
        }
        // The texture of head and tail may cost more than the average.
        keep = keep * 7 / 8;
    }
}

fn share(tokens: Tokens) -> usize {
    usize::try_from(tokens.as_u64()).unwrap_or(usize::MAX >> 32)
}

/// Returns about `keep` characters of `text`, two thirds of them its beginning, cut between lines if there
/// are several.
fn excerpt(text: &str, keep: usize, label: &str, tokens: Tokens) -> String {
    let byte_of = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
    let n_tail = keep / 3;
    let head = &text[..byte_of(keep - n_tail)];
    let tail = &text[byte_of(text.chars().count().saturating_sub(n_tail))..];
    // Half a line is of little use, unless dropping it costs most of the text.
    let head = head.rfind('\n').filter(|at| *at > head.len() / 2).map_or(head, |at| &head[..at]);
    let tail = tail.find('\n').filter(|at| *at < tail.len() / 2).map_or(tail, |at| &tail[at + 1..]);
    let n_lines = text.lines().count();
    let from = head.matches('\n').count() + 1 + usize::from(text[head.len()..].starts_with('\n'));
    let to = n_lines - tail.lines().count().min(n_lines)
        + usize::from(!text[..text.len() - tail.len()].ends_with('\n'));
    let lines = if n_lines == 1 { "line" } else { "lines" };
    let middle = if from >= to {
        format!("the middle of line {}", from.min(n_lines))
    } else {
        format!("line {from} to line {to}")
    };
    format!("{head}\n[{label} shortened: of {tokens} tokens in {n_lines} {lines}, {middle} left out]\n{tail}")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::fixture::{Characters, tool_call};
    use super::*;
    use crate::{Conversation, Message, ToolCall, ToolResult};

    fn conversation(results: &[&str]) -> Conversation {
        let call = |n: usize| ToolCall { id: n.to_string(), ..tool_call("read", "{}") };
        let calls: Vec<ToolCall> = (0..results.len()).map(call).collect();
        let mut log = Conversation::new();
        log.user("Read.").add(Message::calling(calls.clone()));
        for (call, text) in calls.iter().zip(results) {
            log.add(Message::tool(ToolResult::answer(call, *text)));
        }
        log
    }

    #[test]
    fn head_and_tail_stay_and_the_log_keeps_the_whole() {
        let long: String = (1..=100).map(|n| format!("line {n}\n")).collect();
        let mut log = conversation(&["short", &long, "x".repeat(500).as_str()]);
        let before = log.view();
        let most = Tokens::new(250);
        let after = cap(&before, most, &Characters).unwrap();
        log.record(&after).unwrap();
        let texts: Vec<String> =
            log.view().messages()[2..].iter().map(|message| message.message().to_text()).collect();
        assert_eq!(texts[0], "short");
        assert!(
            texts[1].starts_with("line 1\nline 2\n") && texts[1].ends_with("\nline 100\n"),
            "{}",
            texts[1]
        );
        let note = texts[1].lines().find(|line| line.starts_with('[')).unwrap();
        let (from, to) =
            note.split_once("lines, line ").and_then(|(_, rest)| rest.split_once(" to line ")).unwrap();
        let (from, to): (usize, usize) =
            (from.parse().unwrap(), to.split(' ').next().unwrap().parse().unwrap());
        // What is named is what is missing.
        let left: String = (from..=to).map(|n| format!("line {n}\n")).collect();
        let (head, tail) = texts[1].split_once(&format!("{note}\n")).unwrap();
        assert_eq!(format!("{head}{left}{tail}"), long, "{note}");
        assert!(note.starts_with("[m3 shortened: of "), "{note}");
        assert!(texts[2].contains("in 1 line, the middle of line 1 left out]"), "{}", texts[2]);
        assert!(log.view().messages()[2..].iter().all(|message| message.tokens() <= most));
        assert!(log.coverage().is_complete() && log.refold() == log.view());
        assert_eq!(log.messages().nth(3).unwrap().message().to_text(), long);
        // Once is enough, and what was seen before stays as it was seen.
        assert_eq!(cap(&log.view(), most, &Characters), None);
        log.agent("done");
        assert_eq!(cap(&log.view(), Tokens::new(10), &Characters), None);
        log.undo();
        assert_eq!(log.view().messages()[..5], before.messages()[..]);
    }

    #[test]
    fn whatever_the_text_and_the_limit_are_it_ends_and_is_not_longer() {
        for text in
            ["", "a", "\n\n\n\n\n\n\n\n\n\n", "a\nb", &"é\n".repeat(300), &"é".repeat(999), "\r\n\r\n\r\n"]
        {
            for most in [0, 1, 50, 100, 400] {
                let log = conversation(&[text]);
                let view = log.view();
                if let Some(after) = cap(&view, Tokens::new(most), &Characters) {
                    assert!(after.size().tokens < view.size().tokens, "{text:?} {most}");
                }
            }
        }
    }
}
