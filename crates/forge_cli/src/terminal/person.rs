//! The user at the terminal: questions on stderr, answers line by line from stdin.

use std::collections::VecDeque;
use std::io::{BufRead as _, IsTerminal};
use std::sync::Arc;

use async_trait::async_trait;
use console::{measure_text_width, style};
use forge_domain::{
    Consent, ConsentRequest, Nobody, Person, Question, Subject, Unanswered, quantity, steers_programs,
};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use super::file_diff::{counts, diff_lines};
use crate::output::line_wrap::FRAME;
use crate::output::{self, exact, visible};
use crate::terminal;

/// The most characters of a call that are shown at once, and the most lines.
const PAGE: usize = 4_000;
const PAGE_LINES: usize = 100;
/// The fewest lines of a page, and the lines of a terminal that are left for what is around it.
const LEAST_LINES: usize = 5;
const AROUND_PAGE: usize = 6;
/// The most characters of an argument that is shown on the line of its name.
const INLINE: usize = 60;

/// The prompt below a call that is not shown to its end. A reason begins with a space, so that its first
/// letter is not taken for a key.
const MORE_PROMPT: &str = "[Enter] show the rest  [n] no  [Space] why not >";

/// The prompt below a change that is not shown to its end: unlike a command, it can be looked at, and undone,
/// later.
const CHANGE_PROMPT: &str = "[y] once  [a] always this file  [Enter] the rest  [n] no  [Space] why not >";

/// Returns the prompt for consent to a call: a consent for the whole run is to the same subjects.
fn consent_prompt(about: &[Subject]) -> &'static str {
    let is_all = |kind: fn(&Subject) -> bool| !about.is_empty() && about.iter().all(kind);
    if is_all(|subject| matches!(subject, Subject::Command(_) | Subject::Unclear(_))) {
        "[y] once  [a] always this command  [n] no  [Space] why not >"
    } else if is_all(|subject| matches!(subject, Subject::Read(_) | Subject::Written(_))) {
        "[y] once  [a] always this file  [n] no  [Space] why not >"
    } else if is_all(|subject| matches!(subject, Subject::Address { .. })) {
        "[y] once  [a] always this page, whatever the query  [n] no  [Space] why not >"
    } else if about.is_empty() {
        "[y] once  [a] always this tool  [n] no  [Space] why not >"
    } else {
        "[y] once  [a] always the same  [n] no  [Space] why not >"
    }
}

/// Checks whether a user is at the terminal: stdin and stderr are one.
pub(crate) fn is_there() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Returns the user at the terminal; an absent one if stdin or stderr is not a terminal.
pub(crate) fn person() -> Arc<dyn Person> {
    if is_there() { Arc::new(PersonAt::new(Terminal)) } else { Arc::new(Nobody) }
}

/// A place where a user reads lines and types one in return.
#[async_trait]
pub(crate) trait Prompt: Send + Sync {
    /// Shows `lines` and returns the trimmed input after `prompt`.
    async fn ask(&self, lines: Vec<String>, prompt: &'static str) -> Result<String, Unanswered>;

    /// Returns the columns and rows of the place; `None` if they are not known.
    fn size(&self) -> Option<(usize, usize)>;
}

/// A user at a prompt, who is asked one thing at a time.
pub(crate) struct PersonAt<P> {
    prompt: P,
    turn: Mutex<()>,
}

impl<P> PersonAt<P> {
    pub(crate) fn new(prompt: P) -> Self {
        Self { prompt, turn: Mutex::new(()) }
    }
}

/// The terminal itself.
struct Terminal;

#[async_trait]
impl Prompt for Terminal {
    async fn ask(&self, lines: Vec<String>, prompt: &'static str) -> Result<String, Unanswered> {
        let read = tokio::task::spawn_blocking(move || ask_now(&lines, prompt));
        read.await.unwrap_or(Err(Unanswered::Nobody))
    }

    fn size(&self) -> Option<(usize, usize)> {
        let (rows, columns) = console::Term::stderr().size_checked()?;
        Some((usize::from(columns), usize::from(rows)))
    }
}

/// Shows `lines` and returns the trimmed input after `prompt`.
fn ask_now(lines: &[String], prompt: &str) -> Result<String, Unanswered> {
    for line in lines {
        output::say(line);
    }
    let keys = option_keys(prompt);
    if keys.is_empty() {
        return read_answer(&format!("{prompt} ")).ok().flatten().ok_or(Unanswered::Nobody);
    }
    terminal::drop_typed();
    output::write_raw(&format!("{prompt} "));
    terminal::read_key_or_line(&keys).ok().flatten().ok_or(Unanswered::Nobody)
}

/// Returns the keys that a prompt offers, such as `[y] yes`; `[Enter]` is a newline.
pub(crate) fn option_keys(prompt: &str) -> Vec<char> {
    let options = prompt.split('[').skip(1).filter_map(|option| option.split_once(']'));
    let key = |(name, _): (&str, &str)| match name {
        "Enter" => Some('\n'),
        name => name.chars().next().filter(|_| name.chars().count() == 1),
    };
    options.filter_map(key).collect()
}

/// Prints `prompt` to stderr and returns the trimmed line that the user types; `None` at the end of the
/// input, when no answer will come any more.
pub(crate) fn read_answer(prompt: &str) -> std::io::Result<Option<String>> {
    output::write_raw(prompt);
    let mut line = String::new();
    let n_bytes = std::io::stdin().lock().read_line(&mut line)?;
    Ok((n_bytes > 0).then(|| line.trim().to_owned()))
}

/// A question whose lines may not fit on a screen.
pub(crate) struct Paged {
    pub(crate) lines: Vec<String>,
    pub(crate) prompt: &'static str,
}

/// Asks at the terminal, page by page, and returns the answer below the last one; `None` if the user refused
/// before that.
pub(crate) fn answer_to(question: Paged) -> Result<Option<String>, Unanswered> {
    const MORE: &str = "[Enter] show the rest  [n] stop >";
    let mut pages = pages(question.lines, Terminal.size());
    loop {
        let page = pages.pop_front().unwrap_or_default();
        if pages.is_empty() {
            return ask_now(&page, question.prompt).map(Some);
        }
        if !ask_now(&page, MORE)?.is_empty() {
            return Ok(None);
        }
    }
}

#[async_trait]
impl<P: Prompt> Person for PersonAt<P> {
    async fn answer(&self, question: &Question) -> Result<String, Unanswered> {
        let _turn = self.turn.lock().await;
        let answer = self.prompt.ask(question_lines(question), ">").await?;
        Ok(choice(question, answer))
    }

    async fn consent(&self, request: &ConsentRequest<'_>) -> Result<Consent, Unanswered> {
        let _turn = self.turn.lock().await;
        let mut pages = ConsentPages::of(request, self.prompt.size());
        loop {
            let (lines, prompt) = pages.next();
            let answer = self.prompt.ask(lines, prompt).await?;
            if let Some(consent) = pages.interpret(&answer) {
                return Ok(consent);
            }
        }
    }
}

/// Returns the lines of a question. Its words are those of a model or a server, so they stand in a frame.
fn question_lines(question: &Question) -> Vec<String> {
    let heading = format!("{} a question, not in Forge's words:", style("?").yellow().for_stderr());
    let text = question.text.split('\n').map(|line| format!("{FRAME}{}", visible(line)));
    let options = question.options.iter().enumerate();
    let options = options.map(|(at, option)| format!("{FRAME}{}. {}", at + 1, visible(option)));
    std::iter::once(heading).chain(text).chain(options).collect()
}

/// Returns the answer, or the option with that number.
pub(crate) fn choice(question: &Question, answer: String) -> String {
    let number = answer.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    number.and_then(|at| question.options.get(at)).cloned().unwrap_or(answer)
}

/// The display of a call before a user consents to it: all of it, in pages if it is long.
///
/// Text of the model stands on a line with its own name or in a frame, so that it cannot pass for a line of
/// ours.
struct ConsentPages {
    /// The remaining pages.
    pages: VecDeque<Vec<String>>,
    /// The prompt below the last one.
    prompt: &'static str,
    /// True for a change to a file, which the user need not see to its end; false if it steers what other
    /// programs do.
    is_change: bool,
}

impl ConsentPages {
    fn of(request: &ConsentRequest<'_>, size: Option<(usize, usize)>) -> Self {
        // A link may lead to a file that steers, under a name that does not.
        let steers = |subject: &Subject| matches!(subject, Subject::Written(path) if steers_programs(path));
        let is_steering = request.change.is_some_and(|change| steers_programs(&change.path))
            || request.about.iter().any(steers);
        Self {
            pages: pages(consent_lines(request), size),
            prompt: consent_prompt(request.about),
            is_change: request.change.is_some() && !is_steering,
        }
    }

    /// Returns the next page, and the prompt below it: for consent to a command only below the last one.
    fn next(&mut self) -> (Vec<String>, &'static str) {
        let mut page = self.pages.pop_front().unwrap_or_default();
        if self.pages.is_empty() {
            return (page, self.prompt);
        }
        let n_lines: usize = self.pages.iter().map(Vec::len).sum();
        let lines = quantity(n_lines, "more line");
        if self.is_change {
            page.push(format!("  … {lines}"));
            return (page, CHANGE_PROMPT);
        }
        page.push(format!("  … {lines}; all of it is shown before you decide"));
        (page, MORE_PROMPT)
    }

    /// Returns the meaning of an answer to the page; `None` if the next page is to be shown.
    fn interpret(&self, answer: &str) -> Option<Consent> {
        match consent_of(answer) {
            consent if self.pages.is_empty() => Some(consent),
            consent @ (Consent::Once | Consent::ForRun) if self.is_change => Some(consent),
            Consent::Refused { why: Some(why) } => Some(Consent::Refused { why: Some(why) }),
            Consent::Refused { why: None } if !answer.is_empty() => Some(Consent::Refused { why: None }),
            // The user cannot consent to a command that was not shown yet.
            Consent::Refused { .. } | Consent::Once | Consent::ForRun => None,
        }
    }
}

fn consent_lines(request: &ConsentRequest<'_>) -> Vec<String> {
    let ConsentRequest { agent, call, about, change } = request;
    let mark = style("?").yellow().for_stderr();
    let (agent, tool) = (exact(agent.as_str()), style(exact(call.name.as_str())).green().for_stderr());
    let mut lines = match change {
        Some(change) => {
            let verb = if change.before.is_some() { "change" } else { "create" };
            let (path, n) = (style(exact(&change.path)).bold().for_stderr(), counts(change));
            let mut lines = vec![format!("{mark} {agent} wants to {verb} {path} ({n}) by {tool}:")];
            lines.extend(diff_lines(change));
            lines
        }
        None => {
            let mut lines = vec![format!("{mark} {agent} wants to call {tool}:")];
            lines.extend(argument_lines(&call.arguments));
            lines
        }
    };
    let is_secret = |subject: &&Subject| matches!(subject, Subject::Secret { .. });
    let (secrets, others): (Vec<_>, Vec<_>) = about.iter().partition(is_secret);
    let mut others: Vec<String> = others.into_iter().map(ToString::to_string).collect();
    // A command that runs another is listed as itself and as unclear.
    others.dedup();
    if others.len() > 1 {
        lines.push("  that needs consent for:".to_owned());
        lines.extend(others.iter().flat_map(|subject| frame_lines(subject)));
    }
    if !secrets.is_empty() {
        lines.push("  the model would be shown a secret:".to_owned());
        lines.extend(secrets.iter().flat_map(|subject| frame_lines(&subject.to_string())));
    }
    lines
}

/// Returns all arguments of a call.
pub(crate) fn argument_lines(text: &str) -> Vec<String> {
    let arguments: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
    if arguments.is_empty() {
        return argument("arguments", text);
    }
    arguments.iter().flat_map(|(name, given)| value_lines(&exact(name), given)).collect()
}

/// Returns the lines of a value: what it consists of, each part with its name, such as `edits[1].old`.
fn value_lines(name: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            let items = items.iter().enumerate();
            items.flat_map(|(at, item)| value_lines(&format!("{name}[{}]", at + 1), item)).collect()
        }
        Value::Object(fields) if !fields.is_empty() => fields
            .iter()
            .flat_map(|(key, value)| value_lines(&format!("{name}.{}", exact(key)), value))
            .collect(),
        Value::String(text) => argument(name, text),
        other => argument(name, &other.to_string()),
    }
}

/// Returns an argument with its name: on the same line if it is short, else in a frame.
fn argument(name: &str, text: &str) -> Vec<String> {
    let line = exact(text);
    if name.chars().count() > INLINE {
        let lines = [format!("{FRAME}{name}:")].into_iter().chain(frame_lines(text));
        return std::iter::once("  an argument:".to_owned()).chain(lines).collect();
    }
    if text.contains('\n') || line.chars().count() > INLINE {
        std::iter::once(format!("  {name}:")).chain(frame_lines(text)).collect()
    } else {
        vec![format!("  {name}: {line}")]
    }
}

/// Returns the lines of a text in a frame.
fn frame_lines(text: &str) -> Vec<String> {
    text.split('\n').map(|line| format!("{FRAME}{}", exact(line))).collect()
}

/// Returns the lines in pages that can each be read at once on a terminal of that size.
fn pages(lines: Vec<String>, size: Option<(usize, usize)>) -> VecDeque<Vec<String>> {
    let most =
        size.map_or(PAGE_LINES, |(_, rows)| rows.saturating_sub(AROUND_PAGE).clamp(LEAST_LINES, PAGE_LINES));
    let columns = size.map_or(usize::MAX, |(columns, _)| columns.max(1));
    let in_frame = columns.saturating_sub(measure_text_width(FRAME)).max(1);
    let mut filled = FilledPages { pages: VecDeque::from([Vec::new()]), n_chars: 0, n_rows: 0, most };
    for line in lines {
        let Some(text) = line.strip_prefix(FRAME) else {
            let n_rows = measure_text_width(&line).div_ceil(columns).max(1);
            filled.add(line, n_rows);
            continue;
        };
        for part in split_line(text, filled.left_in_frame(in_frame), in_frame.saturating_mul(most).min(PAGE))
        {
            let n_rows = measure_text_width(&part).div_ceil(in_frame).max(1);
            filled.add(format!("{FRAME}{part}"), n_rows);
        }
    }
    filled.pages
}

/// Pages that are being filled.
struct FilledPages {
    pages: VecDeque<Vec<String>>,
    /// The characters and rows of the last page.
    n_chars: usize,
    n_rows: usize,
    /// The most rows of a page.
    most: usize,
}

impl FilledPages {
    /// Returns the columns of a line in a frame, of which each row has `in_frame`, that the last page has
    /// left.
    fn left_in_frame(&self, in_frame: usize) -> usize {
        let n_chars = PAGE.saturating_sub(self.n_chars + measure_text_width(FRAME));
        in_frame.saturating_mul(self.most.saturating_sub(self.n_rows)).min(n_chars)
    }

    /// Adds a line of so many rows to the last page, or to a new one if that is full.
    fn add(&mut self, line: String, n_rows: usize) {
        let n_chars = line.chars().count();
        let is_full = self.n_chars + n_chars > PAGE || self.n_rows + n_rows > self.most;
        if is_full && self.n_rows > 0 {
            self.pages.push_back(Vec::new());
            (self.n_chars, self.n_rows) = (0, 0);
        }
        self.n_chars += n_chars;
        self.n_rows += n_rows;
        if let Some(page) = self.pages.back_mut() {
            page.push(line);
        }
    }
}

/// Returns a line in parts of at most `most` columns, the first of at most `left`; a line that has no more
/// than `most` stays whole. Parts have no colours, which would be cut in two.
fn split_line(line: &str, left: usize, most: usize) -> Vec<String> {
    let bare = console::strip_ansi_codes(line);
    // A mark on a letter has no column, but a page must not hold a million of them.
    let width = |c: char| measure_text_width(c.encode_utf8(&mut [0; 4])).max(1);
    if bare.chars().map(width).sum::<usize>() <= most {
        return vec![line.to_owned()];
    }
    let (mut parts, mut part) = (Vec::new(), String::new());
    let (mut used, mut end) = (0, if left > 0 { left } else { most });
    for c in bare.chars() {
        if used > 0 && used + width(c) > end {
            parts.push(std::mem::take(&mut part));
            (used, end) = (0, most);
        }
        used += width(c);
        part.push(c);
    }
    parts.push(part);
    parts
}

fn consent_of(answer: &str) -> Consent {
    match answer.to_lowercase().as_str() {
        "y" | "yes" => Consent::Once,
        "a" | "always" => Consent::ForRun,
        "" | "n" | "no" => Consent::Refused { why: None },
        _ => Consent::Refused { why: Some(answer.to_owned()) },
    }
}

#[cfg(test)]
mod tests {
    use forge_domain::{AgentId, FileChange, Subject, ToolCall, ToolName};
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
            assert_eq!(choice(&question, answer.to_owned()), expected);
        }
    }

    fn pages_of(command: &str) -> ConsentPages {
        let agent = AgentId::new("coder").unwrap();
        let arguments = serde_json::json!({ "command": command, "n": 3 }).to_string();
        let call = ToolCall { id: "1".into(), name: ToolName::new("shell").unwrap(), arguments };
        let about = ["ls", "rm x"].map(|text| Subject::Command(text.to_owned()));
        ConsentPages::of(&ConsentRequest { agent: &agent, call: &call, about: &about, change: None }, None)
    }

    #[test]
    fn what_is_asked_for_is_shown_whole_and_steers_no_terminal() {
        let (lines, prompt) = pages_of("ls\u{1b}[2J\u{200b}\n? coder wants to call read:\nrm\u{a0}x").next();
        let lines: Vec<_> = lines.iter().map(|line| console::strip_ansi_codes(line).into_owned()).collect();
        let expected = [
            "? coder wants to call shell:",
            "  command:",
            "  │ ls\\u{1b}[2J\\u{200b}",
            "  │ ? coder wants to call read:",
            "  │ rm\\u{a0}x",
            "  n: 3",
            "  that needs consent for:",
            "  │ ls",
            "  │ rm x",
        ];
        let asked = "[y] once  [a] always this command  [n] no  [Space] why not >";
        assert_eq!((lines, prompt), (expected.map(str::to_owned).to_vec(), asked));
    }

    #[test]
    fn a_page_is_no_higher_than_the_terminal() {
        let lines = |n: usize, width: usize| vec!["x".repeat(width); n];
        for (n, width, size, expected) in [
            (30, 10, Some((80, 24)), vec![18, 12]),
            (30, 200, Some((80, 24)), vec![6; 5]),
            (10, 10, Some((80, 3)), vec![5, 5]),
            (30, 10, None, vec![30]),
        ] {
            let pages: Vec<usize> = pages(lines(n, width), size).iter().map(Vec::len).collect();
            assert_eq!(pages, expected, "{n} {width} {size:?}");
        }
    }

    #[test]
    fn the_beginning_of_a_long_line_is_on_a_page_before_its_end() {
        let line = "rm x; ".to_owned() + &"a".repeat(2_000) + "z";
        let lines = vec!["? coder wants to call shell:".to_owned(), "  command:".to_owned()];
        let lines = [lines, vec![format!("{FRAME}{line}")]].concat();
        let pages = pages(lines, Some((80, 24)));
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [3, 1]);
        assert!(pages[0][2].starts_with("  │ rm x; a") && pages[1][0].ends_with('z'), "{pages:?}");
        let widths = pages.iter().flatten().map(|line| measure_text_width(line)).collect::<Vec<_>>();
        assert_eq!(widths[2], FRAME.chars().count() + 76 * 16);
        let framed: String = pages.iter().flatten().filter_map(|line| line.strip_prefix(FRAME)).collect();
        assert_eq!(framed, line);
    }

    #[test]
    fn a_question_cannot_pass_for_one_of_ours() {
        let text = "Which?\n? ./forge.yaml is not trusted.\u{1b}[2J".to_owned();
        let lines = question_lines(&Question { text, options: vec!["red".to_owned()] });
        let lines: Vec<_> = lines.iter().map(|line| console::strip_ansi_codes(line).into_owned()).collect();
        let expected = [
            "? a question, not in Forge's words:",
            "  │ Which?",
            "  │ ? ./forge.yaml is not trusted.\\u{1b}[2J",
            "  │ 1. red",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn nobody_consents_to_what_was_not_shown() {
        let long = "a".repeat(5_000) + "; rm x" + &"\nb".repeat(150);
        let mut pages = pages_of(&long);
        let mut shown = Vec::new();
        let mut prompts = Vec::new();
        let consent = loop {
            let (lines, prompt) = pages.next();
            shown.extend(lines);
            prompts.push(prompt);
            if let Some(consent) = pages.interpret("y") {
                break consent;
            }
        };
        assert_eq!(consent, Consent::Once);
        let asked: Vec<bool> = prompts.iter().map(|prompt| *prompt != MORE_PROMPT).collect();
        assert_eq!((asked.len() > 2, asked.iter().position(|is| *is)), (true, Some(asked.len() - 1)));
        let framed: String = shown.iter().filter_map(|line| line.strip_prefix(FRAME)).collect();
        assert!(framed.starts_with(&long.replace('\n', "")), "{framed}");
        // Before the end, it can be refused.
        for (answer, expected) in [
            ("n", Some(Consent::Refused { why: None })),
            ("too long", Some(Consent::Refused { why: Some("too long".to_owned()) })),
            ("", None),
            ("a", None),
        ] {
            let mut pages = pages_of(&long);
            pages.next();
            assert_eq!(pages.interpret(answer), expected, "{answer}");
        }
    }

    #[test]
    fn a_long_change_can_be_allowed_from_its_first_page() {
        let change = FileChange {
            path: "long.txt".to_owned(),
            before: None,
            after: (0..100).map(|n| format!("line {n}\n")).collect(),
        };
        let agent = AgentId::new("coder").unwrap();
        let call =
            ToolCall { id: "1".into(), name: ToolName::new("write").unwrap(), arguments: "{}".to_owned() };
        let about = [Subject::Written("long.txt".to_owned())];
        let request = ConsentRequest { agent: &agent, call: &call, about: &about, change: Some(&change) };
        for (answer, expected) in [
            ("y", Some(Consent::Once)),
            ("a", Some(Consent::ForRun)),
            ("n", Some(Consent::Refused { why: None })),
            ("", None),
        ] {
            let mut pages = ConsentPages::of(&request, Some((80, 24)));
            let (lines, prompt) = pages.next();
            assert_eq!(lines.last().unwrap(), "  … 84 more lines");
            assert_eq!((prompt, pages.interpret(answer)), (CHANGE_PROMPT, expected), "{answer}");
        }
        assert!(CHANGE_PROMPT.len() < 78);
        // A change of a file that steers other programs is shown in full.
        let steering = FileChange { path: "a/.vscode/tasks.json".to_owned(), ..change.clone() };
        let mut pages =
            ConsentPages::of(&ConsentRequest { change: Some(&steering), ..request }, Some((80, 24)));
        assert_eq!((pages.next().1, pages.interpret("y")), (MORE_PROMPT, None));
    }

    #[test]
    fn arguments_are_shown_by_their_parts() {
        let json =
            r#"{"path": "a.rs", "edits": [{"old": "x\ny", "new": "z"}], "tags": ["a", "b"], "none": {}}"#;
        let expected = [
            "  path: a.rs",
            "  edits[1].old:",
            "  │ x",
            "  │ y",
            "  edits[1].new: z",
            "  tags: [\"a\",\"b\"]",
            "  none: {}",
        ];
        assert_eq!(argument_lines(json), expected.map(str::to_owned));
    }
}
