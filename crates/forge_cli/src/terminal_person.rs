//! The person at the terminal: questions on standard error, answers line by line from standard input.

use std::io::{BufRead as _, IsTerminal, Write as _};
use std::sync::Arc;

use async_trait::async_trait;
use console::style;
use forge_domain::{Consent, ConsentRequest, Nobody, NobodyThere, Person, Question};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use crate::output::{self, visible, visible_lines};

/// Most characters of one argument that are shown before its end.
const SHOWN: usize = 4_000;

/// What stands before the answer to whether a call may be made.
pub(crate) const CONSENT_PROMPT: &str = "[y] once  [a] always in this run  [n] no, or why not >";

/// Whoever sits at the terminal; nobody where standard input or standard error is none.
pub(crate) fn person() -> Arc<dyn Person> {
    if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        Arc::new(TerminalPerson::default())
    } else {
        Arc::new(Nobody)
    }
}

/// Somebody at a terminal, who is asked one thing at a time.
#[derive(Debug, Default)]
struct TerminalPerson {
    turn: Mutex<()>,
}

impl TerminalPerson {
    /// Shows `lines` and waits for one in return.
    async fn asked(&self, lines: Vec<String>, prompt: &'static str) -> Result<String, NobodyThere> {
        let _turn = self.turn.lock().await;
        let read = tokio::task::spawn_blocking(move || {
            for line in lines {
                output::say(&line);
            }
            let mut err = std::io::stderr();
            let _ = write!(err, "{prompt} ").and_then(|()| err.flush());
            let mut line = String::new();
            match std::io::stdin().lock().read_line(&mut line) {
                Ok(1..) => Ok(line.trim().to_owned()),
                // The end of the input: nobody will answer any more.
                _ => Err(NobodyThere),
            }
        });
        read.await.unwrap_or(Err(NobodyThere))
    }
}

#[async_trait]
impl Person for TerminalPerson {
    async fn answer(&self, question: &Question) -> Result<String, NobodyThere> {
        let answer = self.asked(question_lines(question), ">").await?;
        Ok(chosen(question, answer))
    }

    async fn consent(&self, request: &ConsentRequest<'_>) -> Result<Consent, NobodyThere> {
        let answer = self.asked(consent_lines(request), CONSENT_PROMPT).await?;
        Ok(consent_of(&answer))
    }
}

pub(crate) fn question_lines(question: &Question) -> Vec<String> {
    let text = format!("{} {}", style("?").yellow().for_stderr(), visible_lines(&question.text));
    let options = question.options.iter().enumerate();
    let options = options.map(|(at, option)| format!("  {}. {}", at + 1, visible(option)));
    std::iter::once(text).chain(options).collect()
}

/// The answer, or the option whose number it is.
pub(crate) fn chosen(question: &Question, answer: String) -> String {
    let number = answer.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    number.and_then(|at| question.options.get(at)).cloned().unwrap_or(answer)
}

pub(crate) fn consent_lines(request: &ConsentRequest<'_>) -> Vec<String> {
    let ConsentRequest { agent, call, about } = request;
    let mark = style("?").yellow().for_stderr();
    let (agent, tool) = (visible(agent.as_str()), style(visible(call.name.as_str())).green().for_stderr());
    let mut lines = vec![format!("{mark} {agent} wants to call {tool}:")];
    let arguments: Map<String, Value> = serde_json::from_str(&call.arguments).unwrap_or_default();
    lines.extend(arguments.iter().map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("  {}: {}", visible(name), visible_lines(&shortened(&text)))
    }));
    if arguments.is_empty() {
        lines.push(format!("  {}", visible_lines(&shortened(&call.arguments))));
    }
    if about.len() > 1 {
        let about: Vec<String> = about.iter().map(|subject| visible(&subject.to_string())).collect();
        lines.push(format!("  that needs consent for: {}", about.join(" · ")));
    }
    lines
}

/// Beginning and end of what is too long to be judged by eye, and that it is.
fn shortened(text: &str) -> String {
    let n_chars = text.chars().count();
    if n_chars <= 2 * SHOWN {
        return text.to_owned();
    }
    let head: String = text.chars().take(SHOWN).collect();
    let tail: String = text.chars().skip(n_chars - SHOWN).collect();
    format!("{head}\n[… {} characters are not shown …]\n{tail}", n_chars - 2 * SHOWN)
}

pub(crate) fn consent_of(answer: &str) -> Consent {
    match answer.to_lowercase().as_str() {
        "y" | "yes" => Consent::Once,
        "a" | "always" => Consent::ForRun,
        "" | "n" | "no" => Consent::Refused { why: None },
        _ => Consent::Refused { why: Some(answer.to_owned()) },
    }
}

#[cfg(test)]
mod tests {
    use forge_domain::{AgentId, Subject, ToolCall, ToolName};
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_answer_is_a_consent_or_a_reason() {
        let refused = |why: Option<&str>| Consent::Refused { why: why.map(str::to_owned) };
        for (answer, expected) in [
            ("y", Consent::Once),
            ("Yes", Consent::Once),
            ("a", Consent::ForRun),
            ("", refused(None)),
            ("n", refused(None)),
            ("use Make instead", refused(Some("use Make instead"))),
        ] {
            assert_eq!(consent_of(answer), expected, "{answer}");
        }
    }

    #[test]
    fn an_option_is_chosen_by_its_number() {
        let question =
            Question { text: "Which?".to_owned(), options: vec!["red".to_owned(), "blue".to_owned()] };
        for (answer, expected) in [("2", "blue"), ("0", "0"), ("3", "3"), ("green", "green")] {
            assert_eq!(chosen(&question, answer.to_owned()), expected);
        }
    }

    #[test]
    fn what_is_asked_for_is_shown_whole_and_steers_no_terminal() {
        let agent = AgentId::new("coder").unwrap();
        let arguments = r#"{"command": "ls\u001b[2J\nrm x", "n": 3}"#.to_owned();
        let call = ToolCall { id: "1".into(), name: ToolName::new("shell").unwrap(), arguments };
        let about = ["ls", "rm x"].map(|text| Subject::Command(text.to_owned()));
        let lines = consent_lines(&ConsentRequest { agent: &agent, call: &call, about: &about });
        let lines: Vec<_> = lines.iter().map(|line| console::strip_ansi_codes(line).into_owned()).collect();
        let expected = [
            "? coder wants to call shell:",
            "  command: ls\\u{1b}[2J\nrm x",
            "  n: 3",
            "  that needs consent for: ls · rm x",
        ];
        assert_eq!(lines, expected);
        let long = shortened(&("a".repeat(5_000) + &"b".repeat(5_000)));
        assert!(
            long.starts_with('a') && long.ends_with('b') && long.contains("2000 characters are not shown")
        );
    }
}
